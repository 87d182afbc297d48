"""Implicit M2M: any classifier or regressor, trained on synthetic rows that match a sketch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..._computing import TINY, progress, silence, warn_caller
from ..._delegation import inner_has
from ..._html import some_of
from ..._sklearn import HasMethods, StrOptions
from ...privacy import PrivacyLedger
from ...privacy._fit import columns_kept
from ...schema._columns import (
    Categorical,
    Column,
    Numeric,
    class_codes,
    known_classes,
    listed_classes,
)
from ...schema._reading import ReadRows, Table, validate_table
from ...schema._schema import SchemaLike, TableSchema, as_schema, stack_columns
from ...sketches import AdaptiveSketcher, PrivateSketch
from ...sketches._rounding import systematic
from ...sketches._sketchers import TableSketcher
from .._base import BaseM2M, frame_for, of_paper, table_of
from .._numbers import LEAST_SHARE_EXPLAINED, MOST_FEATURES_OF_MODEL, POINTS_PER_INPUT
from ..asking._estimate import AnswerWarning, Estimate, distinct, warn_of_the_drowned
from ..inferring._points import MomentRegression, Points, draw_points, labelled, maxent_points
from ..inferring._table_model import counted_columns
from ._coefficients import Regression


class BaseImplicitM2M(MetaEstimatorMixin, BaseM2M):
    """What the classifier and the regressor share: sketch (X, y), weight points, train.

    Subclasses describe the column of y (`_describe_target`) and split it off again.
    """

    _inner: ClassVar[str] = "estimator_"
    _of_points: ClassVar[dict[str, Any]] = {"prior": [StrOptions({"auto", "uniform"})]}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseM2M._parameter_constraints,
        "estimator": [None, HasMethods(["fit", "predict"])],
    }

    @property
    def _regresses(self) -> bool:
        """Whether points have the paper's weights, negative ones included, and no others."""
        return isinstance(self.inference, Points) and self.inference.weights == "printed"

    @abstractmethod
    def _default_estimator(self) -> BaseEstimator:
        """Return the estimator to train where none is given."""

    @property
    def _unfitted(self) -> Any:
        """The estimator to train."""
        return self._default_estimator() if self.estimator is None else self.estimator

    @abstractmethod
    def _checked_table(self, X, y) -> tuple[Any, NDArray]:
        """Return X and y, checked as scikit-learn does."""

    @abstractmethod
    def _describe_target(self, y: NDArray) -> Column:
        """Return what is public of the column of y; check y against it."""

    @abstractmethod
    def _set_target(self, columns: TableSchema, target: int) -> None:
        """Set fitted attributes from the schema of the column that is learnt."""

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Release a sketch of (X, y), one charge, and train on it.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            The private rows.
        y : array-like of shape (n_samples,)
            What the model learns to predict; as private as X.
        groups : array-like or series of shape (n_samples,), default=None
            Label of the group, usually the person, that each row belongs to. You need it where
            `max_rows_per_group` is set, and only there, so it is None. The guarantee then protects
            whole groups, and the model learns from the rows that count.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are bad, a column of numbers has no range, or a value or a label
            is not listed; nothing is charged.
        BudgetExceededError
            If the ledger cannot hold the release; nothing is charged.

        Warns
        -----
        AnswerWarning, UserWarning
            As in `from_sketch`, where the release shows that the model is weak.
        """
        rng = self._checked(groups)
        with columns_kept(self):
            cells, learnt = self._checked_table(X, y)
            sketcher = self._build_sketcher(rng, self.n_features_in_, learnt)
            feature_map = sketcher.preview_map(cells.shape[1] + 1)
            table = Table([*(cells[:, j] for j in range(cells.shape[1])), learnt])
            self._release(sketcher, table, feature_map, groups)
            self._state_public(sketcher)
        columns = table_of(sketcher.sketch_)
        self._read_by = as_schema(self.schema)
        self._frame = frame_for(X, columns.names)
        return self._train(sketcher.sketch_, columns, columns.n_columns - 1, rng)

    def _state_public(self, sketcher: Any) -> None:
        """Say in the guarantee what it takes as public of y."""

    def _build_sketcher(self, rng, n_features: int, y: NDArray):
        """Return a sketcher of the table (X, y), whose map is drawn by an int."""
        names = getattr(self, "feature_names_in_", None)
        inputs = as_schema(self.schema).for_table(n_features, names)
        inputs.require_bounds()
        table = with_target(inputs, self._describe_target(y))
        sketcher = self._made_sketcher(table)
        if isinstance(sketcher, AdaptiveSketcher) and sketcher.target is None:
            sketcher.target = table.n_columns - 1
        return self._seeded(sketcher, rng)

    def _sketched_schema(self, known: TableSchema | None) -> TableSchema | None:
        if known is None or known.is_for_all:
            return known  # the number of columns is not known
        return with_target(known, Numeric(0, 1))

    def _check_parameters(self) -> None:
        if getattr(self.release, "schema", None) is not None:
            raise ValueError(
                f"{type(self.release).__name__} has a schema of its own, but the sketched table "
                "has the target as its last column: give the schema of X to the model, "
                f"{type(self).__name__}(schema=...)."
            )
        super()._check_parameters()

    @classmethod
    def from_sketch(
        cls,
        sketch: PrivateSketch,
        *,
        target: Any = None,
        schema: SchemaLike | None = None,
        estimator: Any = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> Self:
        """Return a model that is trained from a release alone.

        For other people than those who were sketched, train on the rows of a
        `SketchSummarizer.from_sketch`.

        Parameters
        ----------
        sketch : PrivateSketch
            The release, of a table that holds the column to learn.
        target : int or str, default=None
            Number or name of the column to learn. None is the last one, where `fit` puts it. All
            other columns are inputs, in their order.
        schema : TableSchema or what stands for one, default=None
            As in `M2MEstimator.from_sketch`, for all columns of the sketch, the one to learn
            included. None takes what the sketch says: most sketches know their columns.
        estimator, inference, n_synthetic, random_state, verbose :
            As in the constructor.

        Raises
        ------
        ValueError
            If the sketch has no such column, or one of the wrong kind; or if a numeric column has
            no range, in the sketch or here.

        Warns
        -----
        AnswerWarning
            If the release shows that the model is weak: for most inputs, the sketch does not tell
            how the target depends on them (docs/m2m.md), or noise drowns even the number of rows,
            or the mean of a target of numbers.
        UserWarning
            If `effective_sample_size_` is small.
        """
        how = {"n_synthetic": n_synthetic, "random_state": random_state, "verbose": verbose}
        model = cls(estimator=estimator, inference=inference, **how)
        columns = model._described(sketch, schema)
        which = columns.n_columns - 1 if target is None else columns.index(target, "target")
        model._set_inputs(_all_but(columns, which))
        return model._train(sketch, columns, which, check_random_state(random_state))

    def __getstate__(self) -> dict[str, Any]:
        # Both take much room, and come out the same when they are made again from the release.
        made = ("_model", "_plausible")
        return {name: one for name, one in super().__getstate__().items() if name not in made}

    def _train(self, sketch: PrivateSketch, columns: TableSchema, target: int, rng):
        # Should the rest fail, what was paid for is kept, and nothing speaks of a former release.
        for name in ("estimator_", "effective_sample_size_", "_model", "_plausible"):
            self.__dict__.pop(name, None)
        self.sketch_, self.privacy_ = sketch, sketch.privacy
        self._set_target(columns, target)
        self._table, self._target = columns, target
        graphical = self._is_graphical(sketch.feature_map)
        points, weights = self._synthetic_rows(sketch, columns, rng)
        if columns.missing(target):
            points, weights = labelled(columns, target, points, weights)
        # If noise drowns a sketch, printed weights are all 0: its points then count alike.
        weights = weights if weights.any() else np.full(len(weights), 1 / len(weights))
        self._columns = _all_but(columns, target)
        inputs = self._encoded(np.delete(points, target, axis=1))
        learnt = self._learnt(self._observed(points[:, target]))
        self.estimator_ = self._trained(inputs, learnt, weights * len(weights), rng)
        self.effective_sample_size_ = float(weights.sum() ** 2 / np.sum(weights**2))
        if not graphical:
            self._warn_of_few_points(inputs.shape[1])
        warn_of_invisible_inputs(sketch, columns, target, None if graphical else self._points.prior)
        return self

    def _trained(self, inputs: NDArray, learnt: NDArray, weights: NDArray, rng: Any) -> Any:
        """Return the estimator, trained on weighted rows: on drawn ones if it takes no weights."""
        estimator, parameter = clone(self._unfitted), weight_parameter(self._unfitted)
        if np.ptp(weights) and parameter is None:
            drawn = rng.permutation(systematic(weights / weights.sum(), len(weights), rng))
            inputs, learnt, weights = inputs[drawn], learnt[drawn], np.ones(len(drawn))
        if not self._regresses:
            inputs, learnt, weights = self._completed(inputs, learnt, weights)
        if parameter is None or np.allclose(weights, 1.0):
            return estimator.fit(inputs, learnt)
        # Points without weight teach nothing and cost the estimator time.
        kept = np.abs(weights) > np.abs(weights).max() * 1e-9
        with config_context(enable_metadata_routing=False):  # `parameter` names the step already
            return estimator.fit(inputs[kept], learnt[kept], **{parameter: weights[kept]})

    def _completed(self, inputs: NDArray, learnt: NDArray, weights: NDArray) -> Any:
        """Return rows and weights that any estimator takes."""
        return inputs, learnt, weights

    def coefficients(self, columns: Sequence[Any] | None = None) -> Estimate:
        """Return the coefficients of a regression of the target on some inputs, with their errors.

        This needs no rows and costs no privacy. The regression has no penalty, which would bias its
        coefficients. For one with a penalty, or any other fit, ask `M2MEstimator.statistic`.

        Parameters
        ----------
        columns : sequence of str or int, default=None
            The inputs, at least one of those that the model has. None takes all, as the model does.

        Returns
        -------
        Estimate
            Of shape (1 + k,), the intercept first; (n_classes, 1 + k) for more than two classes.
            In each column of categories the first category is left out. The coefficients of the
            others say how they differ from it.
            ``interval(covers="population")`` is what a statistician reports: it covers the
            coefficient of the population that the rows are a sample of. The default interval
            covers the regression on the rows that were sketched.

        Raises
        ------
        ValueError
            If the release is not read by a graphical model, or if `columns` is empty or names an
            input twice.

        Warns
        -----
        AnswerWarning
            If the release shows no rows of a category, or none of some class in it. Then its
            coefficients may be anything, and their intervals are infinite.

        Notes
        -----
        To first order, a coefficient is a mean over rows: the mean of each row's influence on it.
        Its error is that of such a mean. It has three parts: the noise, how columns go together
        where no group was counted, and where in their cells rows lie. For "population", the spread
        of the influence over the rows is added, which is the sandwich estimator.

        Of four columns and more this is asked of 16,384 points. The pairs of a dozen numbers have
        more cells, so that points follow products of numbers, and not all counts. Where inputs
        nearly determine each other, noise may be larger than what is left of one beside the others.
        Then intervals may be too narrow: ask for fewer `columns`.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MClassifier, Numeric
        >>> rng = np.random.default_rng(0)
        >>> X = rng.integers(0, 5, (20_000, 2))
        >>> y = rng.random(20_000) < 1 / (1 + np.exp(1 - X[:, 0] / 2))
        >>> model = M2MClassifier([Numeric(0, 4, step=1)] * 2, random_state=0).fit(X, y)
        >>> answer = model.coefficients()
        >>> answer.labels
        (('intercept', 'x0', 'x1'),)
        >>> low, high = answer.interval(0.999999, covers="population")[1]
        >>> bool(low < 0.5 < high)
        True
        """
        check_is_fitted(self, "estimator_")
        if not self._is_graphical(self.sketch_.feature_map):
            raise ValueError(
                "coefficients needs a sketch of histograms, read by a graphical model: leave the "
                "sketcher out, or train with from_sketch(sketch, inference='graphical')."
            )
        inputs = [j for j in range(self._table.n_columns) if j != self._target]
        if columns is not None:
            chosen = [self._columns.index(key, "columns") for key in columns]
            if not chosen or len(set(chosen)) < len(chosen):
                raise ValueError(f"columns must name inputs, each once, got {list(columns)!r}.")
            inputs = [inputs[k] for k in chosen]
        with progress(f"{type(self).__name__}.coefficients", self.verbose):
            return Regression(self, inputs).to_estimate()

    @abstractmethod
    def _observed(self, cells: NDArray) -> NDArray:
        """Return cells of the target as numbers, (n, 1), or as indicators, (n, n_classes).

        Of two classes it is the indicator of the second, (n, 1).
        """

    def _synthetic_rows(self, sketch: PrivateSketch, columns: TableSchema, rng):
        """Return rows, shape (n, d), and weights that sum to one, if they are not printed."""
        if self._is_graphical(sketch.feature_map):
            rows = self._model.sample(self.n_synthetic, rng)
            return rows, np.full(len(rows), 1 / len(rows))
        points = draw_points(self._points.prior, sketch, columns, self.n_synthetic, rng)
        with progress(type(self).__name__, self.verbose):
            if not self._regresses:
                return maxent_points(sketch, points, columns, rng)
            return points, self._regressed(sketch, points, center=False).weights

    def _warn_of_few_points(self, n_inputs: int) -> None:
        """Warn where the weights have collapsed on few points; all of it was released before."""
        worth = self.effective_sample_size_
        if worth < POINTS_PER_INPUT * (n_inputs + 1):
            warn_caller(
                "Use Points(prior='auto'), a sketch with a histogram of each column "
                "(SketchUnion), more synthetic points (n_synthetic), fewer columns or a larger "
                f"epsilon. Few synthetic points match the sketch: {self.n_synthetic} are worth "
                f"{worth:.0f} of equal weight (effective_sample_size_), for {n_inputs} inputs, so "
                "the model may be near chance.",
                UserWarning,
            )

    def _read_rows(self, X) -> NDArray[np.float64]:
        """Check rows that are predicted, and return what the estimator is given."""
        check_is_fitted(self, "estimator_")
        if isinstance(X, ReadRows):
            return X.values
        X = validate_table(self, X, schema=self._read_by, reset=False)
        self._columns.check(X)
        return self._encoded(X)

    def _encoded(self, X: NDArray | Table) -> NDArray[np.float64]:
        """Return what the estimator is given: no missing values, and no words."""
        return np.column_stack([self._encoded_column(X, j) for j in range(X.shape[1])])

    def _encoded_column(self, X: NDArray | Table, j: int) -> NDArray[np.float64]:
        """Return a number, or the middle of its range and an indicator; those of categories."""
        column = self._columns.columns[j]
        if isinstance(column, Categorical):
            return np.eye(column.n_codes)[self._columns.read(X, j)]
        numbers = column.numbers(X[:, j])
        gone = np.isnan(numbers)
        known = np.where(gone, np.mean(column.bounds), numbers)
        return np.column_stack([known, gone][: 1 + column.missing])

    def predict(self, X: Any) -> NDArray:
        """Predict with the trained estimator.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with the columns that were sketched. Give categories as values, not as indicators,
            and missing values as they are.

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If a value is not among its column's categories.
        """
        inputs = self._read_rows(X)  # which raises where nothing is fitted
        return self.estimator_.predict(inputs)


def weight_parameter(estimator: Any) -> str | None:
    """Return what `fit` calls the weights of rows, None where it takes none."""
    path = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        path += f"{name}__"
    return f"{path}sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _all_but(columns: TableSchema, which: int) -> TableSchema:
    """Return all columns but one."""
    return columns.take([j for j in range(columns.n_columns) if j != which])


def with_target(inputs: TableSchema, target: Column) -> TableSchema:
    """Return the schema of the table (X, y)."""
    if inputs.names is None:
        return TableSchema([*inputs.columns, target])
    # A column of X may be called so: the two must not be taken for one.
    names = distinct([*inputs.names, "target"])
    return TableSchema(dict(zip(names, [*inputs.columns, target], strict=True)))


def warn_of_invisible_inputs(
    sketch: PrivateSketch, columns: TableSchema, target: int, prior: Any
) -> None:
    """Warn where the sketch tells of too few inputs how the target goes with them.

    Over points whose columns are independent, an input times the centred target is
    ``a . phi`` and a rest. Of the rest no sketch of phi can tell how the data differ from the
    points: a model learns that the target has nothing to do with the input. A graphical model
    learns that of the inputs which no histograms connect with the target.

    Of more than 3,000 features nothing is said: the regression would take longer than the model.

    Parameters
    ----------
    sketch : PrivateSketch
    columns : TableSchema
        With the range of every numeric column.
    target : int
        The column that is learnt.
    prior : {"auto", "uniform"} or None
        As in `draw_points`. None, where the model is trained on rows of the graphical model.
    """
    if sketch.is_drowned:
        warn_of_the_drowned("the model has learnt nothing")
        return
    inputs = np.array([j for j in range(columns.n_columns) if j != target])
    if prior is None:  # all or nothing: whether histograms connect it with the target
        connected, groups = {target}, counted_columns(sketch.feature_map)
        while met := [g for g in groups if connected & g and not g <= connected]:
            connected = connected.union(*met)
        shares = np.isin(inputs, list(connected)).astype(np.float64)
    elif sketch.feature_map.n_features > MOST_FEATURES_OF_MODEL:
        return
    else:
        shares = _explained_shares(sketch, columns, target, inputs, prior)
    hidden = shares < LEAST_SHARE_EXPLAINED
    if 2 * hidden.sum() <= len(inputs):
        return
    name, unseen = columns.name(target), inputs[hidden].tolist()
    told = f"{some_of([columns.name(j) for j in unseen])}, of {len(inputs)} inputs"
    pair = [j if columns.names is None else columns.name(j) for j in (unseen[0], target)]
    count = f"(HistogramSketcher(marginals=[{pair!r}, ...]))"
    if prior is None:
        message = (
            f"Leave the sketcher out, name the target (AdaptiveSketcher(target={pair[1]!r})), or "
            f"count pairs with it {count}. The sketch does not tell how {name!r} goes with {told}, "
            "and the model takes them to be independent."
        )
    else:
        message = (
            f"Sketch histograms of pairs with the target {count}, fewer columns, more n_components "
            f"or a smaller gamma. The sketch explains only {shares[hidden].mean():.0%} of how "
            f"{name!r} goes with {told}, over the synthetic points. The model learns nothing about "
            "the rest, and may be far worse than one that sees the rows."
        )
    warn_caller(message, AnswerWarning)


def _explained_shares(
    sketch: PrivateSketch, columns: TableSchema, target: int, inputs: NDArray, prior: str
) -> NDArray[np.float64]:
    """Return of each input how much of its dependence with the target the features can explain.

    They are not shrunk as against noise, which is another matter.
    """
    # Points of its own, always the same: a model does not change because it was judged.
    # Any features explain much of few points for each.
    n_points = max(5_000, 10 * sketch.feature_map.n_features)
    rng = check_random_state(0)
    points = draw_points(prior, sketch, columns, n_points, rng)
    points = stack_columns([rng.permutation(points[:, j]) for j in range(columns.n_columns)])
    model = MomentRegression(sketch, points, regularization=0.0, center=True)
    label, shares = _standardised(points, columns, target)[:, None], []
    for j in inputs:
        products = (_standardised(points, columns, j)[..., None] * label).reshape(n_points, -1)
        products -= products.mean(axis=0)
        rest = model.approximate(products)[1]
        shares.append(1 - rest.sum() / max(products.var(axis=0).sum(), TINY))
    return np.array(shares)


def _standardised(points: NDArray, columns: TableSchema, j: int) -> NDArray:
    """Return a column as a number, or as indicators, all standardised, shape (n, k)."""
    column, read = columns.columns[j], columns.columns[j].read(points[:, j])
    if isinstance(column, Categorical):
        found = np.eye(column.n_codes)[read][:, 1:]
    else:
        known = np.nan_to_num(read, nan=column.bounds[0])
        found = np.column_stack([known, np.isnan(read)][: 1 + column.missing])
    # More than 16 categories would make too many products with those of another column.
    found = found[:, np.argsort(-np.count_nonzero(found, axis=0), kind="stable")[:16]]
    found -= found.mean(axis=0)
    return found / np.maximum(found.std(axis=0), TINY)


class M2MClassifier(ClassifierMixin, BaseImplicitM2M):
    """Train any classifier from one private sketch of (X, y) (implicit M2M, section 3.5).

    `fit` releases a sketch once and trains an estimator on synthetic labelled rows that match it.
    Anyone who holds the sketch can train as many models as they like with `from_sketch`, and
    predict any of its columns. `fit` puts the label last.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. They are those of X. Required
        by `fit`: ranges and categories that were read off private rows would leak. `estimator` gets
        an indicator of each category in place of the column. A number that is missing becomes the
        middle of its range, and an indicator beside the column says that it was missing.
    epsilon : float, default=None
        Total epsilon of one `fit` and of all that is made of it. ``np.inf`` adds no noise. Smaller
        values protect better and add more noise. None is 1.0, a common starting point.
    delta : float, default=None
        The delta of the guarantee. 0 gives pure DP, with more noise. None is 1e-6, which is well
        below 1 / n for tables of up to 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default=None
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        None is "add_remove", which also protects the number of rows. Under "replace_one" that
        number is public, and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. None protects one
        row of X, as suits tables with one row per person. An int k keeps at most k rows of each
        group, and the noise is that of k rows. "average" counts each group once.
    release : sketcher, default=None
        A sketcher of your own, which has the whole budget. Set `epsilon`, `delta`, `adjacency`,
        `max_rows_per_group` and `ledger` there, and leave them None here. None takes the sketcher
        that we know to be best for such a schema and a label (docs/m2m.md). The last column of the
        sketched table is the label, "target", which is categorical. `fit` sets the schema of your
        sketcher; its `marginals` may name the columns of X, and the label.
    estimator : classifier, default=None
        What is trained. It may be a Pipeline: its steps learn from the release alone. Points have
        weights. An estimator that takes no `sample_weight` gets points that were drawn by their
        weights. None is `LogisticRegression(max_iter=1000)` behind a `MinMaxScaler`, since it is
        quick to train and copes with columns in different units.
    classes : sequence or None, default=None
        All labels that y can hold. None takes the labels in y as public, which is right where
        everybody knows them. Otherwise a class that only one person has is revealed; `privacy_`
        says what was taken as public. Labels are words or whole numbers, by value: True and 1.0 are
        1. To have truth values back, list ``[False, True]``.
    inference : {"auto", "graphical", "points"} or Points, default="auto"
        How the release is read. "graphical" uses a graphical model of the sketch's histograms. It
        uses the counted groups of columns only. "points" uses synthetic points, weighted to match
        all features; a `Points` says how. Where there are histograms, it draws the points from
        their graphical model. "auto" is "graphical" for sketches of histograms alone, and "points"
        otherwise.
    n_synthetic : int, default=100_000
        Number of synthetic points. They are rows drawn from the graphical model, or points with
        weights. The default is the paper's.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for the synthetic points, and for the
        sketcher's map if it has no seed of its own. None draws others at each fit. It does not
        affect the noise.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. *Every fit is a release of its own*, those of a search and of
        a cross-validation too. With None, nothing counts them: only you know which releases share
        a budget.
    verbose : int, default=0
        1 shows progress on the standard error stream. The default is silent, as in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted: words, or 64-bit integers whatever type y has them in.
    estimator_ : classifier
        The trained classifier.
    sketch_ : PrivateSketch
        The release, of the columns of X and the label.
    privacy_ : PrivacyGuarantee
        What the release promises.
    effective_sample_size_ : float
        Number of equally weighted points that the weights are worth. It is `n_synthetic` where rows
        are drawn from a graphical model. Training warns if it is below ten for each input: then few
        points match the sketch.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = X[:, 0] > 0.6
    >>> model = M2MClassifier((0, 1), n_synthetic=10_000, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True

    Categories beside numbers:

    >>> mixed = np.column_stack([X[:, 0].astype(object), rng.choice(["baker", "clerk"], 5000)])
    >>> model = M2MClassifier(
    ...     schema=[(0, 1), ["baker", "clerk"]], n_synthetic=10_000, random_state=0
    ... ).fit(mixed, y)
    >>> model.score(mixed, y) > 0.9
    True

    See Also
    --------
    M2MRegressor : The same for numbers.
    M2MEstimator : Answers any question from a sketch.
    TDILClassifier : Learns from the rows themselves, for one target.
    """

    _of_points: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._of_points,
        "weights": Points._parameter_constraints["weights"],
        "regularization": [StrOptions({"theory", "paper"})],
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        max_rows_per_group: int | str | None = None,
        release: TableSketcher | None = None,
        estimator: Any = None,
        classes: ArrayLike | None = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.release = release
        self.estimator = estimator
        self.classes = classes
        self.inference = inference
        self.n_synthetic = n_synthetic
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    @staticmethod
    def paper_parameters(sketch: str = "rff", **budget: Any) -> dict[str, Any]:
        """Return the parameters of the paper's Figure 4, as keyword arguments.

        They run implicit M2M as printed, negative weights included. The paper gives everything but
        `schema`, `epsilon` and `classes`.

        Parameters
        ----------
        sketch : {"rff", "race", "hist"}, default="rff"
            As in `M2MEstimator.paper_parameters`, with the same default for the same reason, but
            with 20 bins for "hist".
        **budget
            Other parameters of the sketcher: `epsilon`, `adjacency`, `ledger`, ...

        Returns
        -------
        dict

        Notes
        -----
        The guarantee is that of `M2MEstimator.paper_parameters`: epsilon where a row is added or
        removed. Give `classes`, or the set of labels is taken as public.

        Where weights are negative, the loss may have no minimum, and the paper does not say how it
        minimises it. Here `estimator` minimises it. By default that is a `LogisticRegression`: with
        scikit-learn's penalty there is a minimum. With equation (5) the model can be worse than
        chance. With ``Points(regularization="theory")`` it is as good as the paper says
        (docs/papers.md).

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MClassifier
        >>> X = np.random.default_rng(0).random((20_000, 2))
        >>> y = (X[:, 0] > 0.5).astype(int)
        >>> printed = M2MClassifier.paper_parameters("rff", epsilon=3.0)
        >>> model = M2MClassifier((0, 1), classes=[0, 1], **printed).fit(X, y)
        >>> model.score(X, y) > 0.9
        True
        """
        points = Points(prior="uniform", weights="printed", regularization="paper")
        return of_paper(sketch, budget, points, n_bins=20)

    def _check_parameters(self):
        super()._check_parameters()
        if self._regresses and weight_parameter(self._unfitted) is None:
            raise ValueError(
                "Points(weights='printed') needs an estimator whose fit takes sample_weight: rows "
                "cannot be drawn by negative weights. Take weights='maxent' or another estimator."
            )

    def _checked_table(self, X, y):
        checked, labels = validate_table(self, X, y, schema=as_schema(self.schema))
        with silence():  # it may warn of how many rows there are
            check_classification_targets(labels)
        return checked, labels

    def _state_public(self, sketcher):
        if self.classes is None:
            given = f"{sketcher.privacy_.given}, and the set of labels in y"
            sketcher.privacy_ = replace(sketcher.privacy_, given=given)
            sketcher.sketch_ = replace(sketcher.sketch_, privacy=sketcher.privacy_)

    def _default_estimator(self):
        return make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=1000))

    def _describe_target(self, y):
        return Categorical(known_classes(y, self.classes).tolist())

    def _set_target(self, columns, target):
        known = columns.values(target)
        if known is None:
            raise ValueError(
                f"The target, column {columns.name(target)!r} of the sketch, is not categorical. "
                "Set `target` of from_sketch to the column of the label (None is the last one), "
                "which must be a Categorical; or use M2MRegressor, which learns numbers."
            )
        name = f"The target, column {columns.name(target)!r},"
        self.classes_ = listed_classes(known, name)  # sorted, as those of `estimator_`

    def _observed(self, cells):
        indicators = np.eye(len(self.classes_))[class_codes(cells, self.classes_)]
        return indicators[:, 1:] if len(self.classes_) == 2 else indicators

    def _learnt(self, observed):
        codes = np.arange(len(self.classes_))[-observed.shape[1] :]
        return self.classes_[(observed @ codes).astype(np.int64)]

    def _completed(self, inputs, learnt, weights):
        # An estimator must see every class: of one without rows some other row is taken.
        gone = np.setdiff1d(self.classes_, learnt)
        inputs = np.concatenate([inputs, inputs[np.arange(len(gone)) % len(inputs)]])
        learnt = np.concatenate([learnt, gone])
        weights = np.append(weights, np.full(len(gone), 0.0 if np.ptp(weights) else weights[0]))
        # And a class without weight keeps a trace.
        floor = max(1e-6 * weights.sum() / len(weights), 1e-8 * weights.max())
        for label in self.classes_:
            own = learnt == label
            if weights[own].sum() < floor:
                weights = weights + floor * own
        return inputs, learnt, weights

    @available_if(inner_has("predict_proba"))
    def predict_proba(self, X):
        """Return the probability of each class, shape (n_samples, n_classes)."""
        inputs = self._read_rows(X)
        return self.estimator_.predict_proba(inputs)

    @available_if(inner_has("decision_function"))
    def decision_function(self, X):
        """Return the decision function of the trained estimator."""
        inputs = self._read_rows(X)
        return self.estimator_.decision_function(inputs)


class M2MRegressor(RegressorMixin, BaseImplicitM2M):
    """Train any regressor from one private sketch of (X, y) (implicit M2M, section 3.5).

    `fit` releases a sketch once and trains an estimator on synthetic rows that match it. Anyone who
    holds the sketch can train as many models as they like with `from_sketch`, and predict any of
    its columns of numbers. `fit` puts y last.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. They are those of X, as in
        `M2MClassifier`. Required by `fit`.
    epsilon : float, default=None
        Total epsilon of one `fit` and of all that is made of it. ``np.inf`` adds no noise. Smaller
        values protect better and add more noise. None is 1.0, a common starting point.
    delta : float, default=None
        The delta of the guarantee. 0 gives pure DP, with more noise. None is 1e-6, which is well
        below 1 / n for tables of up to 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default=None
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        None is "add_remove", which also protects the number of rows. Under "replace_one" that
        number is public, and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. None protects one
        row of X, as suits tables with one row per person. An int k keeps at most k rows of each
        group, and the noise is that of k rows. "average" counts each group once.
    release : sketcher, default=None
        A sketcher of your own, which has the whole budget. Set `epsilon`, `delta`, `adjacency`,
        `max_rows_per_group` and `ledger` there, and leave them None here. None takes the sketcher
        that we know to be best. The last column of the sketched table is y, as in `M2MClassifier`.
    estimator : regressor, default=None
        What is trained. It may be a Pipeline, as in `M2MClassifier`. None is `LinearRegression()`,
        the simplest.
    y_bounds : pair, default=None
        Public (low, high) of y. Values outside are clipped. Required by `fit`, as a range that was
        read off private rows would leak. `from_sketch` does without: the sketch knows it.
    inference : {"auto", "graphical", "points"} or Points, default="auto"
        How the release is read. "graphical" uses a graphical model of the sketch's histograms. It
        uses the counted groups of columns only. "points" uses synthetic points, weighted to match
        all features; a `Points` says how. Where there are histograms, it draws the points from
        their graphical model. "auto" is "graphical" for sketches of histograms alone, and "points"
        otherwise.
    n_synthetic : int, default=100_000
        Number of synthetic points. They are rows drawn from the graphical model, or points with
        weights. The default is the paper's number of points.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for the synthetic points, and for the
        sketcher's map if it has no seed of its own. None draws others at each fit. It does not
        affect the noise.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. *Every fit is a release of its own*, those of a search and of
        a cross-validation too. With None, nothing counts them: only you know which releases share
        a budget.
    verbose : int, default=0
        1 shows progress on the standard error stream. The default is silent, as in scikit-learn.

    Attributes
    ----------
    estimator_ : regressor
        The trained regressor.
    sketch_ : PrivateSketch
        The release, of the columns of X and y.
    privacy_ : PrivacyGuarantee
        What the release promises.
    effective_sample_size_ : float
        As in `M2MClassifier`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = 3 * X[:, 0] + X[:, 1]
    >>> model = M2MRegressor(
    ...     schema=(0, 1), y_bounds=(0, 4), n_synthetic=10_000, random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.8
    True

    See Also
    --------
    M2MClassifier : The same for classes.
    M2MEstimator : Answers any question from a sketch.
    TDILRegressor : Learns from the rows themselves, for one target.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "y_bounds": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        max_rows_per_group: int | str | None = None,
        release: TableSketcher | None = None,
        estimator: Any = None,
        y_bounds: Sequence[float] | None = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.release = release
        self.estimator = estimator
        self.y_bounds = y_bounds
        self.inference = inference
        self.n_synthetic = n_synthetic
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _checked_table(self, X, y):
        return validate_table(self, X, y, schema=as_schema(self.schema), y_numeric=True)

    def _default_estimator(self):
        return LinearRegression()

    def _describe_target(self, y):
        if self.y_bounds is None:
            raise ValueError("y_bounds is missing: give the public (low, high) of y.")
        try:
            return Numeric(*self.y_bounds)
        except (TypeError, ValueError):
            raise ValueError(
                f"y_bounds must be a pair of finite numbers low < high, got {self.y_bounds!r}."
            ) from None

    def _set_target(self, columns, target):
        if target not in columns.numbers:
            raise ValueError(
                f"The target, column {columns.name(target)!r} of the sketch, holds no numbers. Set "
                "`target` of from_sketch to the column of the number (None is the last one), or "
                "use M2MClassifier, which learns classes."
            )

    def _observed(self, cells):
        return np.asarray(cells, dtype=np.float64)[:, None]

    def _learnt(self, observed):
        if self._is_graphical(self.sketch_.feature_map) and not self.sketch_.is_drowned:
            self._warn_of_a_hidden_mean(2 * np.std(observed))
        return observed[:, 0]

    def _warn_of_a_hidden_mean(self, most: float) -> None:
        """Warn where the interval of the mean of what is learnt is wider than this."""
        rows = self._plausible.rows([self._target], "table")
        bounds = self._table.columns[self._target].bounds
        means = rows.mean(rows.numbers(self._target), *bounds)[1:]
        low, high = np.quantile(means, [0.025, 0.975])
        if high - low > most:
            warn_caller(
                "Use a larger epsilon, more rows, fewer columns or narrower bounds of "
                f"{self._table.name(self._target)!r}: noise hides its mean (from {low:.3g} to "
                f"{high:.3g}), so the model may be worse than one number for all rows.",
                AnswerWarning,
            )
