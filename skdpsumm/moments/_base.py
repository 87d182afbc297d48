"""What the three M2M estimators share: a sketcher that releases, and the table it describes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._computing import progress
from .._delegation import inner_tags
from .._sklearn import HasMethods, Interval, StrOptions, check_params
from ..features._feature_maps import FeatureMap, HistogramMap
from ..privacy._fit import PrivacyReprMixin, PrivateFit, check_groups, own_clone
from ..privacy._noise import current_seed
from ..schema._columns import Categorical, Column, Date, Numeric
from ..schema._schema import NO_SCHEMA, TableSchema, allowed, as_schema
from ..sketches import AdaptiveSketcher, HistogramSketcher, PrivateSketch, RACESketcher, RFFSketcher
from ..sketches._adaptive import check_possible
from ..sketches._sketchers import BaseSketcher, with_schema
from .inferring._points import MomentRegression, Points, check_solvable
from .inferring._table_model import TableModel, histogram_columns
from .plausible._plausible import PlausibleTables

# Parameters of the budget. They are those of the default sketcher; `release` has its own.
PROTECTION = ("epsilon", "delta", "adjacency", "max_rows_per_group", "ledger")
_TO_THE_UNION = "Give schema to the SketchUnion, not to its sketchers: they sketch one table."
TAKES_A_SKETCH = (
    "from_sketch takes a PrivateSketch, such as PrivateSketch.load(path), or the sketch_ of a "
    "fitted sketcher; got {}."
)


class BaseM2M(PrivacyReprMixin, BaseEstimator):
    """An estimator whose `fit` is one release by its sketcher, and which works from that alone.

    The sketcher's own `fit` keeps the contract (`PrivateFit`): it warns, asks the ledger, charges
    and publishes. What is checked here comes before it, and what is computed here comes after.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "release": [None, HasMethods(["fit", "check_budget"])],
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
        **{name: [None, *PrivateFit._parameter_constraints[name]] for name in PROTECTION},
        "inference": [StrOptions({"auto", "graphical", "points"}), Points],
        "n_synthetic": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }
    # Parameters of `Points` that have an effect here.
    _of_points: ClassVar[dict[str, Any]]
    # The schema of the table that was sketched.
    _table: TableSchema

    schema: Any
    release: Any
    epsilon: float | None
    max_rows_per_group: Any
    inference: Any
    n_synthetic: int
    random_state: Any
    verbose: int

    def preview_sketcher(self, n_features: int, y: Any = None) -> BaseSketcher:
        """Return the sketcher that `fit` will use, without its ledger.

        This needs no rows and costs no privacy.

        Parameters
        ----------
        n_features : int
            Number of columns of X. A classifier or regressor also sketches the column of y.
        y : array-like, default=None
            Every class, for a classifier whose `classes` are not given. Nothing else needs it, so
            it is None.

        Returns
        -------
        sketcher
        """
        copy = own_clone(self)
        copy._require_schema()
        check_params(copy)
        labels = np.asarray([] if y is None else y)
        sketcher = copy._build_sketcher(check_random_state(copy.random_state), n_features, labels)
        return sketcher.set_params(ledger=None)

    def check_budget(self) -> None:
        """Check the parameters and the ledger, before you fit.

        It raises what `fit` would raise. It needs no data and charges nothing.

        Raises
        ------
        ValueError
            For bad parameters.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta.
        """
        self._check_parameters()

    @abstractmethod
    def _build_sketcher(self, rng: np.random.RandomState, n_features: int, y: NDArray) -> Any:
        """Return the sketcher of a fit, whose map is drawn by an int."""

    @property
    def _protection(self) -> dict[str, Any]:
        """What is said of how the default sketcher protects; it knows what is usual."""
        said = {name: getattr(self, name) for name in PROTECTION}
        return {name: value for name, value in said.items() if value is not None}

    def _sketched_schema(self, known: TableSchema | None) -> TableSchema | None:
        """Return the schema of the table that is sketched, as far as it is known without rows."""
        return known

    def _made_sketcher(self, schema: Any) -> Any:
        """Return the sketcher of a fit with this schema: your own, or the default."""
        # One default for all tables: examples/benchmarks/narrow.py says why.
        if self.release is None:
            return AdaptiveSketcher(schema, **self._protection)
        return with_schema(self.release, schema)

    def _check_parameters(self) -> None:
        """Raise for whatever can be told without data, before any are looked at."""
        if isinstance(self.release, PrivateSketch):  # `fit` would ignore its rows
            raise TypeError(f"Call {type(self).__name__}.from_sketch(sketch): it is released.")
        self._check_own()
        if self.release is not None and self._protection:
            told = ", ".join(f"{one}=..." for one in self._protection)
            raise ValueError(
                f"{type(self).__name__} has {told} beside release=, which has the whole budget: "
                f"give it there, release={type(self.release).__name__}({told})."
            )
        self._require_schema()
        self._made_sketcher(self._sketched_schema(as_schema(self.schema))).check_budget()

    @property
    def _points(self) -> Points:
        """How synthetic points are drawn and weighted, if there are any."""
        return self.inference if isinstance(self.inference, Points) else Points()

    @property
    def _regresses(self) -> bool:
        """Whether a regression weights the points."""
        return True

    def _regressed(self, sketch: PrivateSketch, points: NDArray, *, center: bool) -> Any:
        """Return the regression on these points, by means that noise does not bias."""
        means, penalty = sketch.unprojected(), self._points.regularization
        return MomentRegression(means, points, regularization=penalty, center=center)

    def _check_own(self) -> None:
        """Raise ValueError for wrong parameters, and for options of points without effect."""
        check_params(self)
        if isinstance(self.inference, Points):
            self.inference.check(type(self).__name__, self._of_points)

    def _check_readable(self, feature_map: FeatureMap, table: TableSchema) -> None:
        """Raise ValueError if a sketch of a table could not be read; no data needed.

        Parameters
        ----------
        feature_map : FeatureMap
        table : TableSchema
            As the answers see it.
        """
        if not self._is_graphical(feature_map) and self._regresses:
            check_solvable(feature_map)
        check_ranges(table)
        if isinstance(self.inference, Points):
            self.inference.check_prior(table)

    def _is_graphical(self, feature_map: FeatureMap) -> bool:
        """Return whether a graphical model reads the release; raise where it cannot."""
        kinds = [isinstance(part, HistogramMap) for part in feature_map.parts()]
        if self.inference == "graphical" and not any(kinds):
            raise ValueError(
                "inference='graphical' needs a histogram in the sketch: take inference='points', "
                "or add a HistogramSketcher to a SketchUnion."
            )
        return all(kinds) if self.inference == "auto" else self.inference == "graphical"

    @cached_property
    def _model(self) -> Any:
        """What the histograms of the release tell, if it has some; made when first asked for."""
        check_is_fitted(self, "sketch_")
        if not histogram_columns(self.sketch_.feature_map):
            return None
        with progress(type(self).__name__, self.verbose):
            return TableModel(self.sketch_, self._table)

    @cached_property
    def _plausible(self) -> Any:
        """Tables that the release may have come from, once they are asked for."""
        return PlausibleTables(self._model)

    def _require_schema(self) -> None:
        """Raise ValueError unless one schema is given, here or to the sketcher."""
        sketcher, given = self.release, as_schema(self.schema)
        own = as_schema(getattr(sketcher, "schema", None))
        if own is None and given is None:
            inner = getattr(sketcher, "sketchers", ())
            is_inside = any(part.schema is not None for part in inner)
            raise ValueError(_TO_THE_UNION if is_inside else NO_SCHEMA)
        if own is not None and given not in (None, own):
            raise ValueError(
                f"{type(self).__name__} has one schema, and its {type(sketcher).__name__} another; "
                "give the schema to one of them."
            )

    def _checked(self, groups: Any) -> np.random.RandomState:
        """Return what draws a fit's synthetic rows; raise for what can be told without rows.

        So it does where `groups` comes without `max_rows_per_group`, or that alone.
        """
        self._check_parameters()
        name, own = type(self).__name__, self.release
        told = name if own is None else f"the sketcher of {name}"
        check_groups(f"fit of {told}", (self if own is None else own).max_rows_per_group, groups)
        return check_random_state(self.random_state)

    def _seeded(self, sketcher: Any, rng: np.random.RandomState) -> Any:
        """Return the sketcher with a map that is drawn by an int: it can be drawn again."""
        # Not a RandomState: `preview_map` and `fit` must draw the same map.
        if sketcher.random_state is None:
            sketcher.random_state = rng.randint(np.iinfo(np.int32).max)
        sketcher.verbose = max(sketcher.verbose, self.verbose)
        return sketcher

    def _release(self, sketcher: Any, table: Any, feature_map: FeatureMap, groups: Any) -> None:
        """Release a sketch of `table`, one charge, if it can be answered from."""
        self._check_readable(feature_map, feature_map.schema)
        check_possible(feature_map.schema)
        sketcher.fit(table, **({} if groups is None else {"groups": groups}))
        self.sketcher_ = sketcher

    def _described(self, sketch: PrivateSketch, schema: Any) -> TableSchema:
        """Check the parameters of an analyst, and return the sketch's table as they see it."""
        if not isinstance(sketch, PrivateSketch):
            raise TypeError(TAKES_A_SKETCH.format(type(sketch).__name__))
        self._check_own()
        table = table_of(sketch, schema)
        self._check_readable(sketch.feature_map, table)
        return table

    def _set_inputs(self, schema: TableSchema) -> None:
        """Set what there is to know of an analyst's inputs, and by what names to answer."""
        self._read_by, self._frame = schema, frame_for(None, schema.names)
        self.n_features_in_ = schema.n_columns
        if schema.names is not None:
            self.feature_names_in_ = np.array(schema.names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        own = self.release
        noisy = bool(self.epsilon != np.inf and current_seed() is None)
        tags.non_deterministic = noisy if own is None else inner_tags(own).non_deterministic
        known = getattr(own, "schema", None) if self.schema is None else self.schema
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(known)
        return tags


def of_paper(sketch: str, budget: Any, inference: Points, n_bins: int) -> dict[str, Any]:
    """Return the parameters of the paper's experiments (section 4) with one of its sketches."""
    made: dict[str, BaseSketcher] = {
        "rff": RFFSketcher(n_components=200, gamma=0.5),  # sigma = 1
        "race": RACESketcher(n_repetitions=80, n_buckets=80, bandwidth=0.1),
        "hist": HistogramSketcher(n_bins=n_bins),
    }
    if sketch not in made:
        raise ValueError(f"sketch must be one of {list(made)}, got {sketch!r}.")
    # The number of rows has 2 per cent of the budget.
    release = made[sketch].set_params(delta=0.0, denominator="budget", **budget)
    return {"release": release, "n_synthetic": 100_000, "inference": inference}


def check_ranges(columns: TableSchema) -> None:
    """Raise ValueError for ranges of which squares, or shares, could not be computed."""
    columns.require_bounds()
    # The error of a covariance takes fourth powers of ranges. These neither overflow nor vanish,
    # even times one more for the number of rows.
    largest = float(np.finfo(np.float64).max) ** (1 / 5)
    for j in range(columns.n_columns):
        low, high = columns.bound(j) or (0.0, 1.0)
        if max(-low, high) > largest or high - low < 1 / largest:
            raise ValueError(
                f"State column {columns.name(j)!r} in another unit: its range is {(low, high)}, "
                f"and must be within {largest:.1g}, and at least {1 / largest:.1g} wide."
            )


def table_of(sketch: PrivateSketch, schema: Any = None) -> TableSchema:
    """Return the sketch's table; `schema` describes the columns that it knows nothing of.

    Raises
    ------
    ValueError
        Where it says something else of a column than the sketch, and for columns without a range.
    """
    table, schema = sketch.schema, as_schema(schema)
    if schema is not None:
        given = schema.for_table(table.n_columns, table.names)
        columns = list(table.columns)
        for j, known in enumerate(table.columns):
            if isinstance(known, Numeric) and known.bounds is None:
                # Every sketch knows whether cells may be missing.
                columns[j] = replace(given.columns[j], missing=known.missing)
            # One range for all columns is of those that are numbers.
            elif not (schema.is_for_all and isinstance(known, Categorical)):
                _check_alike(table.name(j), known, given.columns[j])
        impossible = table.impossible or given.impossible
        table = table.with_columns(columns).ruling_out(impossible)
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
        of_dates = isinstance(given, Date) and given.low != getattr(known, "low", None)
        if of_dates or here not in (None, False, there):
            raise ValueError(
                f"Column {name!r} was sketched as {known!r}, and the schema given here says "
                f"{given!r}; leave schema out, for the sketch knows its columns."
            )


def frame_for(X: Any, names: Any) -> str | None:
    """Return what `frame` of answers is: the library of X, or "auto" for names of columns alone."""
    module = type(X).__module__.partition(".")[0]
    if module in ("pandas", "polars", "pyarrow"):
        return module
    return None if names is None else "auto"
