"""Moment to moment: any statistic of the data from one private sketch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import combinations_with_replacement
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..._computing import progress
from ...privacy import PrivacyLedger
from ...privacy._fit import columns_kept
from ...schema._reading import is_dask, some_rows, validate_table
from ...schema._schema import SchemaLike, TableSchema, as_schema
from ...sketches import PrivateSketch
from ...sketches._partitions import PartitionSchema
from ...sketches._rounding import systematic
from ...sketches._sketchers import TableSketcher
from .._base import BaseM2M, frame_for, of_paper
from .._numbers import LEAST_SHARE_TELLING
from ..inferring._points import Points, Shift, draw_points, maxent_points, points_for_a_look
from ..plausible._rows import NamedRows, covariance, values_at
from ..plausible._weighted_points import PlausiblePoints
from ._estimate import Estimate, framed, warn_of_the_drowned, warn_of_the_lone
from ._statistics import NOBODY, AskedFunction, StatisticsMixin


class M2MEstimator(StatisticsMixin, BaseM2M):
    """Estimate any statistic of a data set from one private sketch of it.

    The curator calls `fit` once: one release, one charge. The analyst gets only the sketch
    (`sketch_.save`, `from_sketch`) and asks as many questions as they like. No question costs
    privacy.

    A graphical model reads sketches of histograms. It is the distribution of all columns that fits
    the counts and is otherwise as close to independence as they allow. Synthetic points read any
    other sketch: a statistic ``mean f(x)`` is then ``a . z``, where z is the sketch and a comes
    from a ridge regression of f on phi over the points (M2M paper, Algorithm 1).

    Where values may be missing (``missing=True`` in the schema), statistics of a column describe
    the values that are present. `missing_share` tells how many are missing.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. Give ``(0, 1)`` for all,
        ``{"age": (17, 90), "job": ["clerk", "farmer"]}``, or a `TableSchema`. Required, here or in
        a sketcher of your own: ranges and categories that were read off private rows would leak.
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
        that we know to be best for such a schema. Your rows have no part in the choice
        (docs/m2m.md).
    inference : {"auto", "graphical", "points"} or Points, default="auto"
        How the release is read. "graphical" uses a graphical model of the sketch's histograms. It
        uses the counted groups of columns only. "points" uses synthetic points, weighted to match
        all features; a `Points` says how. Where there are histograms, it draws the points from
        their graphical model. "auto" is "graphical" for sketches of histograms alone, and "points"
        otherwise.
    n_synthetic : int, default=100_000
        Number of synthetic points. The default is the paper's.
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
    sketch_ : PrivateSketch
        The release. Nothing else is needed to answer.
    privacy_ : PrivacyGuarantee
        What the release promises.
    schema_ : TableSchema
        The schema of the columns that were sketched, in the order in which answers name them.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.beta(2, 5, size=(20_000, 3))
    >>> m2m = M2MEstimator((0, 1), random_state=0).fit(X)
    >>> bool(np.max(np.abs(m2m.mean() - X.mean(axis=0))) < 0.01)
    True
    >>> tail = m2m.estimate(lambda x: x[:, 0] + x[:, 1] > 1)
    >>> tail.interval(0.95).shape
    (2,)

    See Also
    --------
    M2MClassifier : Trains a classifier from a sketch.
    M2MRegressor : Trains a regressor from a sketch.
    AdaptiveSketcher : The sketch that is the default.
    """

    _of_points: ClassVar[dict[str, Any]] = {
        name: Points._parameter_constraints[name] for name in ("prior", "regularization", "center")
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
        self.inference = inference
        self.n_synthetic = n_synthetic
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    @staticmethod
    def paper_parameters(sketch: str = "rff", **budget: Any) -> dict[str, Any]:
        """Return the parameters of the paper's experiments (section 4), as keyword arguments.

        They run Algorithm 1 as printed. The paper gives everything but `schema` and `epsilon`.

        Parameters
        ----------
        sketch : {"rff", "race", "hist"}, default="rff"
            "rff" has 200 Fourier features, with sigma = 1; it is the default as the first of the
            paper's three. "race" has 80 hashes of 80 buckets, of width 0.1. "hist" has 100 equal
            bins of each column.
        **budget
            Other parameters of the sketcher: `epsilon`, `adjacency`, `ledger`, ...

        Returns
        -------
        dict

        Notes
        -----
        The printed noise is Laplace, of scale ``L1 / (0.98 epsilon)`` on the sums and
        ``1 / (0.02 epsilon)`` on the number of rows. L1 is ``100 sqrt(2)`` for "rff", 80 for "race"
        and the number of columns for "hist". The claim of epsilon is true under
        ``adjacency="add_remove"``. For replaced rows the paper says that only the noise on the
        number of rows can go (footnote 1). Then its noise guarantees 2 epsilon, and so
        ``adjacency="replace_one"`` doubles it here. `privacy_` is true in both cases, given that
        the ranges in `schema` are public; the paper does not say where it has its ranges from.

        Two details are ours. The noise is a discrete Laplace on a grid of 2**-15, because the
        printed one leaks through floating-point numbers. And each column of the synthetic points
        is stratified, which removes an error that the paper calls very low.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator
        >>> X = np.random.default_rng(0).random((20_000, 3))
        >>> m2m = M2MEstimator((0, 1), **M2MEstimator.paper_parameters("rff", epsilon=1.0))
        >>> m2m.fit(X).privacy_.epsilon(0)
        1.0
        """
        points = Points(prior="uniform", regularization="paper", center=False)
        return of_paper(sketch, budget, points, n_bins=100)

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release a sketch of X (one charge) and prepare to answer from it.

        Answers come in the library of X: `Estimate.value` is a frame of pandas, polars or pyarrow,
        or an array.

        Parameters
        ----------
        X : array-like, frame, Dask array or Dask frame, of shape (n_samples, n_features)
            The private rows.
        y : ignored
        groups : array-like or series of shape (n_samples,), default=None
            Label of the group, usually the person, that each row belongs to. You need it where
            `max_rows_per_group` is set, and only there, so it is None. The guarantee then protects
            whole groups, and answers describe the rows that count.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the data are bad, or a column has no range; nothing is charged.
        BudgetExceededError
            If the sketcher's ledger cannot hold the release; nothing is charged.
        """
        rng = self._checked(groups)
        sketcher = self._build_sketcher(rng)
        known = as_schema(sketcher.schema)
        with columns_kept(self):
            if is_dask(X):
                PartitionSchema.of(self, X, schema=known)
            else:  # one row of a frame says what its columns are
                validate_table(self, some_rows(X, slice(1)), schema=known)
            names = getattr(self, "feature_names_in_", None)
            feature_map = sketcher.preview_map(self.n_features_in_, names)
            self._release(sketcher, X, feature_map, groups)
        self._frame, self._read_by = frame_for(X, names), known
        return self._prepare(sketcher.sketch_, feature_map.schema, rng)

    @classmethod
    def from_sketch(
        cls,
        sketch: PrivateSketch,
        *,
        schema: TableSchema | dict | tuple | None = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> M2MEstimator:
        """Return a fitted estimator for an analyst who holds only the release.

        Where the sketch names its columns, `Estimate.value` is a frame. Its library is the one that
        you set with ``sklearn.set_config(transform_output=...)``, or else pandas where it is
        installed.

        Parameters
        ----------
        sketch : PrivateSketch
            The release.
        schema : TableSchema or what stands for one, default=None
            What is public about columns that were sketched without a schema (`RFFSketcher` and
            `RACESketcher` need none), in the units in which they were sketched. None takes what
            the sketch says: most sketches know their columns, and what they say always counts.
        inference, n_synthetic, random_state, verbose :
            As in the constructor.
        """
        how = {"n_synthetic": n_synthetic, "random_state": random_state, "verbose": verbose}
        estimator = cls(schema, inference=inference, **how)
        columns = estimator._described(sketch, schema)
        estimator._set_inputs(columns)
        return estimator._prepare(sketch, columns, check_random_state(random_state))

    def estimate(
        self, f: Callable[[Any], ArrayLike], *, by: int | str | None = None, bins: Any = None
    ) -> Estimate:
        """Estimate the mean of f over the rows of the data.

        Parameters
        ----------
        f : callable
            Vectorised: it takes rows, an array of shape (n, d) in the columns' units, and returns
            an array of shape (n,) or (n, k). Take a column by number, ``rows[:, 0]``, or by name,
            ``rows["age"]``, and all of them with ``np.asarray(rows)``. A column also has `isin`,
            `between` and `isna`, as in pandas. A missing number is NaN; a missing category is None
            (NaN among numbers). Where f is NaN because a value is
            missing, the row is left out, and the mean is that of the other rows.
        by : int or str, default=None
            A column to group by, for f of shape (n,). You get the mean over the rows of each of its
            categories, or bins. Rows whose value is missing there are left out. None takes all rows
            together.
        bins : int or array-like of edges, default=None
            For `by` with numbers: increasing edges within the range, or a number of equal bins, as
            in `table`. None takes the bins of the release, which may be uneven.

        Returns
        -------
        Estimate
            A number, or an array of shape (k,), with its error.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import HistogramSketcher, M2MEstimator
        >>> X = np.random.default_rng(0).integers(0, 2, size=(9000, 2))
        >>> sketcher = HistogramSketcher(schema=[[0, 1], [0, 1]], marginals=2)
        >>> m2m = M2MEstimator(release=sketcher, random_state=0).fit(X)
        >>> m2m.estimate(lambda rows: rows[:, 0] == 1, by=1).value.round(1)
        array([0.5, 0.5])
        """
        asked = AskedFunction(f, self._plausible)
        return self._of_function(asked, self._axes_by(by, bins), counts=False)

    def where(self, condition: Callable[[Any], ArrayLike]) -> M2MEstimator:
        """Return the same estimator, for the rows that meet a condition.

        All of its questions and intervals are about these rows, and so is `sample`. Conditions can
        be joined: ``m2m.where(a).where(b)`` is about rows that meet both. A row without a value
        that the condition needs does not meet it.

        Parameters
        ----------
        condition : callable
            As in `count`: it takes rows and returns whether each meets it.

        Returns
        -------
        M2MEstimator
            A copy that shares the release. It can be pickled if the condition can: a function of a
            module, but no lambda.

        Warns
        -----
        AnswerWarning
            If the condition holds nowhere or everywhere. Answers about few rows have wide
            intervals, and say so.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpsumm import M2MEstimator, Numeric
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"sex": rng.choice(["f", "m"], 9000)})
        >>> people["age"] = rng.integers(18, 65, 9000)
        >>> people["hours"] = rng.binomial(60, np.where(people["sex"] == "f", 0.5, 0.7))
        >>> schema = {"sex": ["f", "m"], "age": Numeric(18, 64, step=1)}
        >>> schema["hours"] = Numeric(0, 60, step=1)
        >>> m2m = M2MEstimator(schema, random_state=0).fit(people)
        >>> older = m2m.where(lambda rows: (rows["sex"] == "f") & (rows["age"] >= 40))
        >>> bool(abs(float(older.mean("hours")) - 30) < 2)
        True
        """
        asked = AskedFunction(condition, self._plausible, is_condition=True)
        if asked.n_outputs > 1:
            raise ValueError("where takes one condition: one truth for each row.")
        asked.constants()  # of which it warns
        found = copy.copy(self)
        found._conditions = (*self._conditions, asked)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the root mean squared error of means, covariances and shares of categories.

        Higher is better, and 0 is perfect. Means and covariances are those of numeric columns, in
        units of range. A column of categories adds one error: the Euclidean distance between its
        shares and those in X, times ``sqrt(1/2)``. This is at most 1, and for two categories it is
        the error of either share. Missing values are left out, from covariances in pairs. The
        comparison with X adds no noise. So X must be public, or the curator must keep the score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Held-out rows.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X = validate_table(self, X, schema=self._read_by, reset=False)
        self.schema_.check(X)
        of_categories = [j for j in range(self.schema_.n_columns) if self.schema_.values(j)]
        with np.errstate(invalid="ignore"):  # 0 / 0, of a column without a value in X: left out
            errors = [self._error_of_shares(X, j) for j in of_categories]
            if self.schema_.numbers:
                errors += self._errors_of_numbers(X)
        return -float(np.sqrt(np.nanmean(np.square(errors))))

    def _error_of_shares(self, X: NDArray, j: int) -> float:
        """Return how far the shares of a column's categories are from those in X, at most 1."""
        shares = np.asarray(self.histogram(j))
        counts = np.bincount(self.schema_.read(X, j), minlength=len(shares))[: len(shares)]
        return float(np.linalg.norm(shares - counts / counts.sum()) / np.sqrt(2))

    def _errors_of_numbers(self, X: NDArray) -> list[float]:
        """Return the errors of means and covariances, in units of range."""
        numeric, low, high = self._numeric(None)
        columns = [self.schema_.columns[j].numbers(X[:, j])[None] for j in numeric]
        means = [np.nansum(one) / np.sum(~np.isnan(one)) for one in columns]
        each, pairs = np.ones((1, len(X))), combinations_with_replacement(columns, 2)
        covariances = np.ravel([covariance(each, *pair) for pair in pairs])
        units, upper = high - low, np.triu_indices(len(low))
        first = (np.asarray(self.mean()) - means) / units
        second = np.asarray(self.covariance())[upper] - covariances
        return [*first, *(second / np.outer(units, units)[upper])]

    def sample(self, n_samples: int, random_state: Any = None) -> Any:
        """Draw synthetic rows: a table that looks like the rows, as far as the release tells.

        The rows are computed from the release alone, so its guarantee (`privacy_`) covers them,
        however many you draw. They tell no more than the release does. Where it knows little, they
        show what the model guesses. For an answer with its error, ask `table`, `estimate` and the
        like; do not count synthetic rows.

        Rows from histograms are no independent draws: their counts are the release's, rounded to
        whole rows. So as many rows as the release has tell pairs that it counted nearly as well as
        `table` does. Where in a bin they lie is a guess from the counts of the bins beside it: what
        changes from bin to bin is taken to change evenly, so what jumps at a bin's edge is
        smoothed. The counts of two samples are nearly alike, and how these differ is no standard
        error.

        Parameters
        ----------
        n_samples : int
            Number of rows to draw.
        random_state : int, RandomState or None, default=None
            Seed of the draw. None draws other rows at each call.

        Returns
        -------
        DataFrame or ndarray of shape (n_samples, n_features)
            A frame of the library of `Estimate.value`, with the columns' names, whole numbers and
            dates where the schema says so, and missing values. Otherwise an array, of objects where
            there are categories or dates. A pandas frame says what protects it in
            ``attrs["privacy"]``.

        Warns
        -----
        AnswerWarning
            Of columns that the sketch counts with no other.
        """
        check_is_fitted(self)
        if not (isinstance(n_samples, Integral) and n_samples > 0):
            raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}.")
        rng = check_random_state(random_state)
        lone, n_columns = self.sketch_.lone_columns, self.schema_.n_columns
        # Who had single columns counted alone was told so by `marginals=1`.
        if self._regression is None and len(lone) < n_columns:
            warn_of_the_lone(self.sketch_, lone, "The rows have them independent of all others.")
        rows = self._sampled(int(n_samples), rng)
        return framed([*rows.T], self.schema_, self._frame, self.privacy_.badge)

    def _sampled(self, n: int, rng: np.random.RandomState) -> NDArray:
        """Return n synthetic rows that meet the conditions of `where`."""
        if not self._conditions:
            return self._drawn(n, rng)
        # A model that has no such row draws none.
        if self._regression is None and not np.any(self._told()((), "model").weights > 0):
            raise ValueError(NOBODY)
        found: list[NDArray] = []
        n_drawn = n
        while sum(map(len, found)) < n:
            if found and n_drawn > 2**22:
                few = f"{len(found[-1])} meet the condition. Ask for fewer."
                told = f"n_samples={n} is too many: of {n_drawn // 4:,} synthetic rows, {few}"
                raise ValueError(told if any(map(len, found)) else NOBODY)
            rows = self._drawn(n_drawn, rng)
            named = NamedRows.of(rows, self.schema_)
            kept = [values_at(one.function, named)[:, 0] > 0 for one in self._conditions]
            found.append(rows[np.all(kept, axis=0)])
            n_drawn *= 4
        return np.concatenate(found)[:n]

    def _drawn(self, n: int, rng: np.random.RandomState) -> NDArray:
        """Return n synthetic rows."""
        if self._regression is None:
            return self._model.sample(n, rng)
        if not hasattr(self, "_matched"):
            points = self._regression.points
            always = check_random_state(0)  # it is the estimator's view of the table
            self._matched = maxent_points(self.sketch_, points, self.schema_, always)
        points, weights = self._matched
        return points[rng.permutation(systematic(weights, n, rng))]

    def _build_sketcher(self, rng, n_features=None, y=None):
        return self._seeded(self._made_sketcher(as_schema(self.schema)), rng)

    def _prepare(self, sketch, columns, rng):
        # Should the rest fail, what was paid for is kept, and nothing speaks of a former release.
        for name in ("_regression", "_plausible", "_model", "_matched", "_conditions"):
            self.__dict__.pop(name, None)
        self.sketch_, self.privacy_, self._regression = sketch, sketch.privacy, None
        self.schema_ = self._table = columns
        if not self._is_graphical(sketch.feature_map):
            with progress(type(self).__name__, self.verbose):
                self._prepare_points(sketch, columns, rng)
        if sketch.is_drowned:
            warn_of_the_drowned("answers tell next to nothing")
        return self

    def _prepare_points(self, sketch, columns, rng):
        prior, center, shift = self._points.prior, self._points.center, None
        if self._model is None and isinstance(prior, str) and prior != "uniform":
            look = columns.sample(points_for_a_look(sketch, self.n_synthetic), rng)
            shift = Shift.of(self._regressed(sketch, look, center=center))
            prior = "kde" if prior == "kde" or shift.told >= LEAST_SHARE_TELLING else "uniform"
        points = draw_points(prior, sketch, columns, self.n_synthetic, rng, self._model)
        self._regression = self._regressed(sketch, points, center=center)
        left = Shift.of(self._regression)
        if shift is not None and prior == "kde":
            left = shift.left_by_density(left)
        self._plausible = PlausiblePoints(self._regression, left, columns, self._model)
