"""What the three M2M estimators share: a sketcher that releases, and the table it describes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval

from ..privacy._clone_watch import own_clone
from ..privacy._contract import PrivacyReprMixin, estimator
from ..schema._columns import Columns
from ..sketches import PrivateSketch
from ..sketches._sketchers import BaseSketcher
from .inferring._points import check_answerable


@estimator
class BaseM2M(PrivacyReprMixin, BaseEstimator):
    """An estimator whose `fit` is one release by its sketcher, and which works from that alone.

    The sketcher's own `fit` keeps the contract (`PrivateFit`): it warns, asks the ledger, charges
    and publishes. What is checked here comes before it, and what is computed here comes after.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sketcher": [None, HasMethods(["fit", "check_budget"])],
        "bounds": "no_validation",
        "categories": [None, dict],
        "steps": "no_validation",
        "n_synthetic": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    sketcher: Any = field(default=None, kw_only=False)
    bounds: Any = None
    categories: Any = None
    steps: Any = None
    prior: Any = "auto"
    n_synthetic: int = 100_000
    random_state: Any = None
    verbose: int | bool = 0

    def preview_sketcher(self, n_features: int, y: Any = None) -> BaseSketcher:
        """Return the sketcher that `fit` will use, without its ledger; no rows, no cost.

        Parameters
        ----------
        n_features : int
            Number of columns of X. A classifier or regressor sketches that of y as well.
        y : array-like, default=None
            Every class, for a classifier whose `classes` are not given.

        Returns
        -------
        sketcher
        """
        copy = own_clone(self)
        labels = np.asarray([] if y is None else y)
        sketcher = copy._build_sketcher(check_random_state(copy.random_state), n_features, labels)
        return sketcher.set_params(ledger=None)

    @abstractmethod
    def _build_sketcher(self, rng: np.random.RandomState, n_features: int, y: NDArray) -> Any:
        """Return the sketcher of a fit, whose map is drawn by an int."""

    def _check_parameters(self) -> None:
        """Raise for whatever can be told without data, before any are looked at."""
        self._validate_params()
        if self.sketcher is not None:
            self.sketcher.check_budget()

    def _seeded(self, sketcher: Any, rng: np.random.RandomState) -> Any:
        """Return the sketcher with a map that is drawn by an int: it can be drawn again."""
        # Not a RandomState: `preview_map` and `fit` must draw the same map.
        if sketcher.random_state is None:
            sketcher.random_state = rng.randint(np.iinfo(np.int32).max)
        sketcher.verbose = max(sketcher.verbose, self.verbose)
        return sketcher

    def _sketch(self, sketcher: Any, table: Any, columns: Columns) -> None:
        """Release a sketch of `table`, one charge, if it can be answered from."""
        feature_map = sketcher.preview_map(columns.n_columns, columns.names)
        check_answerable(feature_map, columns, self.prior)
        sketcher.fit(table)
        self.sketcher_ = sketcher

    def _described(self, sketch: PrivateSketch, bounds: Any) -> Columns:
        """Check the parameters of an analyst, and return the sketch's table as they see it."""
        self._validate_params()
        columns = table_of(sketch, bounds)
        check_answerable(sketch.feature_map, columns, self.prior)
        return columns

    def _set_inputs(self, columns: Columns) -> None:
        """Set what scikit-learn asks of a fitted estimator's inputs."""
        self.n_features_in_ = columns.n_columns
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        own = self.sketcher
        tags.non_deterministic = own is None or get_tags(own).non_deterministic
        listed = bool(self.categories) or (own is not None and own._has_categories())
        tags.input_tags.string = listed
        return tags


def table_of(sketch: PrivateSketch, bounds: Any = None) -> Columns:
    """Return the sketch's table, with `bounds` in place of its own where they are given."""
    own = sketch.columns
    parts = [part.columns for part, _ in sketch.blocks()]
    known = next((c.bounds for c in parts if c.bounds is not None), None)
    steps = [next((c.step(j) for c in parts if c.step(j)), None) for j in range(own.n_columns)]
    categories = {j: v for j, v in enumerate(own.categories or ()) if v is not None}
    pairs = known if bounds is None else bounds
    if pairs is None and len(categories) < own.n_columns:
        raise ValueError(
            "bounds is missing: this sketch was made without, and synthetic points are drawn "
            "inside them. Give from_sketch the public (low, high) of the columns as bounds, in the "
            "units in which they were sketched: one pair for all, or one per column."
        )
    table = Columns.build(own.n_columns, pairs, categories, own.names, steps)
    return replace(table, units=own.units)


def with_parts(sketcher: Any) -> list[Any]:
    """Return a sketcher and all in it, nothing for None."""
    return [] if sketcher is None else [sketcher, *sketcher.sub_sketchers()]


def first_given(sketcher: Any, parameter: str) -> Any:
    """Return the first value of a parameter that the sketcher or one of its parts has."""
    found = (getattr(one, parameter) for one in with_parts(sketcher))
    return next((value for value in found if value is not None), None)


def library_of(X: Any) -> str | None:
    """Return the library whose frame X is, None for an array."""
    module = type(X).__module__.partition(".")[0]
    return module if module in ("pandas", "polars") else None
