"""What the three M2M estimators share: a sketcher that releases, and the table it describes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval

from ..features._feature_maps import FeatureMap
from ..privacy._clone_watch import own_clone
from ..privacy._contract import PrivacyReprMixin, check_groups, estimator
from ..schema._columns import Categorical, Column, Numeric
from ..schema._schema import TableSchema, allowed, as_schema
from ..sketches import PrivateSketch
from ..sketches._sketchers import BaseSketcher
from ..sketches._union import with_schema
from .inferring._points import check_answerable

_NO_SCHEMA = (
    "schema is missing: give the public description of the columns, such as schema=(0, 1) or "
    "{'age': (17, 90), 'job': ['clerk', 'farmer']}. Nothing is read off the data."
)


@estimator
class BaseM2M(PrivacyReprMixin, BaseEstimator):
    """An estimator whose `fit` is one release by its sketcher, and which works from that alone.

    The sketcher's own `fit` keeps the contract (`PrivateFit`): it warns, asks the ledger, charges
    and publishes. What is checked here comes before it, and what is computed here comes after.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sketcher": [None, HasMethods(["fit", "check_budget"])],
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
        "n_synthetic": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }

    sketcher: Any = field(default=None, kw_only=False)
    schema: Any = None
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
        copy._require_schema()
        labels = np.asarray([] if y is None else y)
        sketcher = copy._build_sketcher(check_random_state(copy.random_state), n_features, labels)
        return sketcher.set_params(ledger=None)

    @abstractmethod
    def _build_sketcher(self, rng: np.random.RandomState, n_features: int, y: NDArray) -> Any:
        """Return the sketcher of a fit, whose map is drawn by an int."""

    def _check_parameters(self) -> None:
        """Raise for whatever can be told without data, before any are looked at."""
        self._validate_params()
        self._require_schema()
        if self.sketcher is not None:
            with_schema(self.sketcher, self.schema).check_budget()

    def _require_schema(self) -> None:
        """Raise ValueError unless one schema is given, here or to the sketcher."""
        own = None if self.sketcher is None else as_schema(self.sketcher.schema)
        given = as_schema(self.schema)
        if own is None and given is None:
            raise ValueError(_NO_SCHEMA)
        if own is not None and given not in (None, own):
            raise ValueError(
                f"{type(self).__name__} has a schema, and {type(self.sketcher).__name__} another "
                "one; give it once."
            )

    def _check_groups(self, groups: Any) -> None:
        """Raise where `groups` comes without the sketcher's `max_rows_per_group`, or that alone."""
        limit = getattr(self.sketcher, "max_rows_per_group", None)
        check_groups(f"the sketcher of {type(self).__name__}", limit, groups)

    def _seeded(self, sketcher: Any, rng: np.random.RandomState) -> Any:
        """Return the sketcher with a map that is drawn by an int: it can be drawn again."""
        # Not a RandomState: `preview_map` and `fit` must draw the same map.
        if sketcher.random_state is None:
            sketcher.random_state = rng.randint(np.iinfo(np.int32).max)
        sketcher.verbose = max(sketcher.verbose, self.verbose)
        return sketcher

    def _release(self, sketcher: Any, table: Any, feature_map: FeatureMap, groups: Any) -> None:
        """Release a sketch of `table`, one charge, if it can be answered from."""
        check_answerable(feature_map, feature_map.schema, self.prior)
        sketcher.fit(table, **({} if groups is None else {"groups": groups}))
        self.sketcher_ = sketcher

    def _described(self, sketch: PrivateSketch, schema: Any) -> TableSchema:
        """Check the parameters of an analyst, and return the sketch's table as they see it."""
        self._validate_params()
        table = table_of(sketch, schema)
        check_answerable(sketch.feature_map, table, self.prior)
        return table

    def _set_inputs(self, schema: TableSchema) -> None:
        """Set what scikit-learn asks of a fitted estimator's inputs."""
        self.n_features_in_ = schema.n_columns
        if schema.names is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        own = self.sketcher
        tags.non_deterministic = own is None or get_tags(own).non_deterministic
        known = self.schema if self.schema is not None or own is None else own.schema
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(known)
        return tags


def table_of(sketch: PrivateSketch, schema: Any = None) -> TableSchema:
    """Return the sketch's table; `schema` describes the columns that it knows nothing of.

    Raises
    ------
    ValueError
        Where it says something else of a column than the sketch, and for columns without a range.
    """
    parts = [part.schema for part, _ in sketch.blocks()]
    table = parts[0]
    schema = as_schema(schema)
    given = None if schema is None else schema.for_table(table.n_columns, table.names)
    columns = []
    for j, column in enumerate(table.columns):
        # Parts of old files may know more of a column than the first one.
        known = next((p.columns[j] for p in parts if p.columns[j] != Numeric()), column)
        if known == Numeric() and given is not None:
            known = given.columns[j]
        # One range for all columns is of those that are numbers.
        elif given is not None and not (schema.is_for_all and isinstance(known, Categorical)):
            _check_alike(table.name(j), known, given.columns[j])
        columns.append(known)
    table = table.with_columns(columns)
    if any(table.bound(j) is None for j in table.numeric):
        raise ValueError(
            "schema is missing: this sketch was made without, and synthetic points are drawn "
            "inside the ranges of the columns. Give from_sketch the public schema, such as "
            "schema=(0, 1), in the units in which the columns were sketched."
        )
    return table


def _check_alike(name: str, known: Column, given: Column) -> None:
    """Raise ValueError for a schema that contradicts what a sketch knows of a column."""
    for fact in ("categories", "bounds", "step", "missing"):
        here, there = (getattr(column, fact, None) for column in (given, known))
        if here not in (None, False, there):
            raise ValueError(
                f"Column {name!r} was sketched as {known!r}, and the schema given here says "
                f"{given!r}; leave it out, for the sketch knows its columns."
            )


def with_parts(sketcher: Any) -> list[Any]:
    """Return a sketcher and all in it, nothing for None."""
    return [] if sketcher is None else [sketcher, *sketcher.sub_sketchers()]


def library_of(X: Any) -> str | None:
    """Return the library whose frame X is, None for an array."""
    module = type(X).__module__.partition(".")[0]
    return module if module in ("pandas", "polars") else None
