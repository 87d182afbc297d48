"""The statistics that every moment estimator answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from ..._computing import warn_caller
from ...features._feature_maps import project_to_simplex
from ...schema._schema import TableSchema
from ..inferring._points import absent
from ..inferring._regression import MomentRegression
from ._estimate import Estimate
from ._points_answer import PointsAnswer
from ._positions import Positions
from ._question import ColumnCondition, Question
from ._warnings import AnswerWarning

# More thresholds or bins than that are a picture of a column, not questions.
_MOST_QUESTIONS = 16


class StatisticsMixin:
    """Named statistics, each through one call of `_answer`."""

    schema_: TableSchema
    _regression: MomentRegression
    _positions: Positions
    _frame: str | None

    def _ask(
        self, function: Callable | ColumnCondition, then: Callable | None = None, **parts: Any
    ) -> PointsAnswer:
        """Put the `Question` with these parts to the sketch."""
        check_is_fitted(self, "_regression")
        return PointsAnswer(Question(function, then, **parts), self._regression, self._positions)

    def _answer(self, *parts: Any, **more: Any) -> Estimate:
        return self._ask(*parts, **more).to_estimate(self._frame)

    def _names(self, which: list[int]) -> list[str]:
        return [self.schema_.name(j) for j in which]

    def _column(self, column: int | str) -> int:
        if isinstance(column, list | tuple | np.ndarray):
            raise ValueError(
                f"column must be one column, by its name or its number; got {column!r}. Ask one "
                "after the other; what columns have together, ask with `count` or `estimate`."
            )
        return self.schema_.index(column, "column")

    def mean(self) -> Estimate:
        """Return the means of the numeric columns, shape (d,); ``mean()["age"]`` is one of them.

        As all statistics of columns, each is that of the values that are present;
        `missing_share` tells how many are not.
        """
        return self.moment(1)

    def missing_share(self) -> Estimate:
        """Return the share of the rows whose value is missing, of each column that may lack some.

        ``missing_share()["age"]`` is one of them. What several columns lack together is asked with
        `estimate`: a missing number is NaN, a missing category None, and ``pd.isna`` tells both.

        Raises
        ------
        ValueError
            If the schema has no column with missing=True.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator, Numeric
        >>> ages = np.random.default_rng(0).choice([20, 40, np.nan], size=(5000, 1))
        >>> m2m = M2MEstimator(schema=Numeric(0, 90, step=1, missing=True), random_state=0)
        >>> bool(abs(m2m.fit(ages).missing_share()[0] - 1 / 3) < 0.02)
        True
        >>> bool(abs(m2m.mean()[0] - 30) < 1)
        True
        """
        which = [j for j in range(self.schema_.n_columns) if self.schema_.missing(j)]
        if not which:
            raise ValueError("No column may lack values: the schema has none with missing=True.")

        def missing(X: NDArray) -> NDArray:
            return np.column_stack([absent(self.schema_, X[:, j], j) for j in which])

        names = self._names(which)
        return self._answer(
            missing,
            lambda t, n: np.clip(t, 0.0, 1.0),
            linear=lambda t, n: t,
            labels=[names],
            judged=missing,
            about=[f"the missing values of {name!r}" for name in names],
        )

    def moment(self, order: int) -> Estimate:
        """Return the raw moments E[x_j^order] of the numeric columns, shape (d,).

        Parameters
        ----------
        order : int, at least 1

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MEstimator
        >>> X = np.random.default_rng(0).random((5000, 2))
        >>> M2MEstimator(schema=(0, 1), random_state=0).fit(X).moment(2).value.round(1)
        array([0.3, 0.3])
        """
        if order != int(order) or order < 1:
            raise ValueError(f"order must be a positive integer, got {order!r}.")
        which = self.schema_.numeric
        names = self._names(which)

        def powers(X: NDArray) -> NDArray:
            return _floats(X, which) ** int(order)

        of = "mean" if order == 1 else f"moment {int(order)}"
        about = [f"the {of} of {name!r}" for name in names]
        low, high = self._ranges(which).T
        least = np.where((low < 0) & (high > 0), 0.0, np.minimum(low**order, high**order))
        possible = (low**order if order % 2 else least, np.maximum(low**order, high**order))
        answer = self._answer(powers, labels=[names], judged=powers, about=about, possible=possible)
        if order == 1:
            answer.units = tuple(self.schema_.columns[j].unit for j in which)
        return answer

    def variance(self) -> Estimate:
        """Return the variances of the numeric columns, shape (d,), at least 0."""
        which = self.schema_.numeric
        names = self._names(which)
        d, ranges = len(which), self._ranges(which)

        def powers(X: NDArray) -> NDArray:
            columns = _floats(X, which) - ranges.mean(axis=1)
            return np.hstack([columns, columns**2])

        return self._answer(
            powers,
            lambda t, n: t[..., d:] - t[..., :d] ** 2,
            possible=(0.0, np.ptp(ranges, axis=1) ** 2 / 4),
            labels=[names],
            judged=lambda X: _from_the_mean(X, which) ** 2,
            about=[f"the variance of {name!r}" for name in names],
        )

    def covariance(self) -> Estimate:
        """Return the covariance matrix of the numeric columns, shape (d, d).

        It is projected to the closest positive semi-definite matrix, in units of the columns'
        ranges; the error of an entry holds how far that moved it. Where values are missing, an
        entry is that of the rows in which both columns have one.
        """
        which = self.schema_.numeric
        second = self._second_moments(which)

        def error(mean: NDArray, draws: NDArray) -> NDArray:
            found = second.covariance(mean)
            moved = second.possible(found) - found
            return np.hypot(np.std(second.covariance(draws), axis=0), moved)

        largest = second.units / 4
        return self._of_pairs(
            which,
            second.products,
            lambda t, n: second.possible(second.covariance(t)),
            error=error,
            possible=(np.where(np.eye(len(which)), 0.0, -largest), largest),
        )

    def correlation(self) -> Estimate:
        """Return the correlation matrix of the numeric columns, shape (d, d).

        ``correlation()["age", "hours"]`` is one entry. It is that of `covariance`, so the error of
        an entry holds how far the projection moved it.
        """
        which = self.schema_.numeric
        second = self._second_moments(which)

        def scaled(t: NDArray) -> NDArray:
            covariance = second.possible(second.covariance(t))
            # Noise may leave a column no variance, and then no correlation with others either.
            spread = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
            found = covariance / np.outer(spread, spread)
            # A column's correlation with itself has no noise, not even where its variance drowned.
            np.fill_diagonal(found, 1.0)
            return found

        def error(mean: NDArray, draws: NDArray) -> NDArray:
            found, correlations = second.covariance(mean), scaled(mean)
            variances = np.maximum(np.diagonal(second.possible(found)), 1e-300)
            spread = np.sqrt(np.outer(variances, variances))

            def linear(covariances: NDArray) -> NDArray:
                """Return the first order of the correlations about those that are answered."""
                own = np.diagonal(covariances, axis1=-2, axis2=-1) / variances
                return (
                    covariances / spread - correlations * (own[..., None] + own[..., None, :]) / 2
                )

            moved = np.hypot(np.std(linear(second.covariance(draws)), axis=0), linear(found))
            np.fill_diagonal(moved, 0.0)
            return moved

        ones = np.eye(len(which))
        possible = (2 * ones - 1, np.ones_like(ones))
        return self._of_pairs(
            which, second.products, lambda t, n: scaled(t), error=error, possible=possible
        )

    def _second_moments(self, which: list[int]) -> _SecondMoments:
        gaps = np.array([self.schema_.missing(j) for j in which], np.bool_)
        return _SecondMoments(which, self._ranges(which), gaps)

    def _of_pairs(self, which: list[int], *parts: Callable, **more: Any) -> Estimate:
        """Answer a matrix; what is hard of it is how two columns go together."""
        left, right = np.triu_indices(len(which), 1)
        names = self._names(which)

        def together(X: NDArray) -> NDArray:
            columns = _from_the_mean(X, which)
            return columns[:, left] * columns[:, right]

        about = [
            f"how {names[a]!r} and {names[b]!r} go together"
            for a, b in zip(left, right, strict=True)
        ]
        return self._answer(
            *parts,
            **more,
            labels=[names, names],
            judged=together if about else None,
            about=about,
        )

    def count(self, query: Callable[[Any], ArrayLike]) -> Estimate:
        """Return the number of rows for which `query` holds.

        Parameters
        ----------
        query : callable
            Vectorised predicate of an array of rows (n, d), returning (n,) or (n, k). Columns go
            by number, ``rows[:, 0]``, or by name, ``rows["age"]``.

        Raises
        ------
        ValueError
            If the query returns numbers that are no truths.
        """
        if not callable(query):
            raise TypeError(
                "count takes a function of rows, such as lambda rows: rows['age'] > 40; got "
                f"{query!r}."
            )

        def truths(X: NDArray) -> NDArray:
            found = np.asarray(query(X))
            if found.dtype != bool and not np.all((found >= 0) & (found <= 1)):
                raise ValueError(
                    "count takes a condition, such as rows['age'] > 40, and this query returns "
                    "other numbers than 0 to 1; the mean of a number is asked with `estimate`."
                )
            return found

        return self._answer(
            truths,
            lambda t, n: np.clip(t, 0.0, 1.0) * n[..., None],
            linear=lambda t, n: t * n[..., None],
            counts_rows=True,
            of_user=True,
            judged=truths,
        )

    def cdf(self, column: int | str, thresholds: ArrayLike) -> Estimate:
        """Return P(x_column <= t) for each threshold: within [0, 1] and non-decreasing.

        It is the share of the values that are present.

        Parameters
        ----------
        column : int or str
        thresholds : array-like of shape (k,), increasing, in the column's units
            More than 16 are taken for a curve, and not each judged (`AnswerWarning`).
        """
        j = self._column(column)
        cuts = np.asarray(thresholds, dtype=np.float64)
        if cuts.ndim != 1 or np.any(np.diff(cuts) <= 0):
            raise ValueError("thresholds must be an increasing one-dimensional array.")
        low, high = self.schema_.bound(j) or (-np.inf, np.inf)
        if np.any((cuts < low) | (cuts > high)):
            warn_caller(
                f"thresholds of column {self.schema_.name(j)!r} reach outside its range "
                f"({low:g}, {high:g}), to which its values are clipped: nothing is known there.",
                AnswerWarning,
            )
        labels = [f"{self.schema_.name(j)} <= {c:.12g}" for c in cuts]

        below = self._at_most(j, cuts)
        return self._answer(
            below,
            lambda t, n: np.clip(_monotone(t), 0.0, 1.0),
            linear=lambda t, n: t,
            labels=[labels],
            judged=below if len(cuts) <= _MOST_QUESTIONS else None,
            about=labels,
        )

    def quantile(self, column: int | str, q: ArrayLike) -> Estimate:
        """Return quantiles of a column, by inverting its CDF on 512 steps of its range.

        A column with a step has quantiles among its values, exactly if these are at most 513. There
        `noise_std_error` is 0 where noise moves the answer in none of 100 simulated releases, as it
        is for most medians of whole numbers; `interval` ends at values.

        Parameters
        ----------
        column : int or str
        q : float or array-like of shape (k,), in [0, 1]
            More than 16 are taken for a curve, and not each judged (`AnswerWarning`).

        Raises
        ------
        ValueError
            If `q` reaches outside [0, 1], or the column is not numeric.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import HistogramSketcher, M2MEstimator, Numeric
        >>> ages = np.random.default_rng(0).binomial(90, 0.4, size=(5000, 1))
        >>> sketcher = HistogramSketcher(schema=Numeric(0, 90, step=1), n_bins=91)
        >>> m2m = M2MEstimator(sketcher, n_synthetic=5000, random_state=0).fit(ages)
        >>> m2m.quantile(0, 0.5)
                value  std error
        x0 0.5     36          0
        (on a grid of step 1)
        """
        j = self._column(column)
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if np.any((levels < 0) | (levels > 1)):
            raise ValueError("q must lie in [0, 1].")
        low, high = self._bound(j)
        grid = np.unique(self.schema_.on_grid(np.linspace(low, high, 513), j))
        stepped = self.schema_.step(j) is not None
        # Of a continuous column nothing lies at the lower bound.
        first = 0 if stepped else 1
        invert = _values_reached if len(grid) == self.schema_.n_values(j) else _interpolated

        def inverse(t: NDArray, n: NDArray) -> NDArray:
            curves = np.clip(_monotone(np.atleast_2d(t)), 0.0, 1.0)
            curves = np.pad(curves, ((0, 0), (first, 1)), constant_values=((0, 0), (0.0, 1.0)))
            found = np.array([invert(curve, grid, levels) for curve in curves])
            return self.schema_.on_grid(found, j).reshape(*t.shape[:-1], len(levels))

        names = [f"{self.schema_.name(j)} {level:.12g}" for level in levels]
        found = self._answer(
            self._at_most(j, grid[first:-1]),
            inverse,
            ends=self._quantile_ends(j, levels),
            possible=(low, high),
            labels=[names],
        )
        found.step = self.schema_.step(j)
        found.units = (self.schema_.columns[j].unit,) * len(levels)
        places = np.asarray(found)
        if len(levels) <= _MOST_QUESTIONS:  # asked only to be judged, now that the places are known
            about = [f"the quantile {name}" for name in names]
            below = self._at_most(j, places)
            self._ask(below, judged=below, about=about)
        return found

    def _quantile_ends(self, j: int, levels: NDArray) -> Callable[[float], tuple[NDArray, NDArray]]:
        """Return the ends of quantiles, read off those of the shares of rows in whole bins."""

        def ends(z: float) -> tuple[NDArray, NDArray]:
            _, lows, highs = self._positions.cells(j)
            starts, stops = (np.unique(ends[~np.isnan(ends)]) for ends in (lows, highs))
            most = self._ask(self._in_cells(j, lows[:, None] <= starts)).ends(z)[1]
            least = self._ask(self._in_cells(j, highs[:, None] <= stops)).ends(z)[0]
            from_ = np.array([_first_where(most >= q, starts) for q in levels])
            to = np.array([_first_where(least >= q, stops) for q in levels])
            return from_, to

        return ends

    def _in_cells(self, j: int, truths: NDArray) -> ColumnCondition:
        """Return a condition of which each cell of column `j` is one side."""
        place = self._positions.cells(j).place
        return ColumnCondition(j, lambda: place, truths, lambda *_: (truths, truths))

    def _at_most(self, j: int, cuts: NDArray) -> ColumnCondition:
        """Return whether column `j` is at most each cut."""
        order = np.argsort(cuts, kind="stable")
        increasing, rank = cuts[order], np.argsort(order)
        return ColumnCondition(
            j,
            lambda: np.searchsorted(increasing, self._positions.column(j).astype(np.float64)),
            np.arange(len(cuts) + 1)[:, None] <= rank,
            lambda low, high: (high <= cuts, low <= cuts),
        )

    def histogram(self, column: int | str, bins: int | ArrayLike | None = None) -> Estimate:
        """Return the proportions of a column's values in bins, non-negative.

        They sum to one if the bins cover the column's range, else to at most one; values that are
        missing are no part of it.

        Parameters
        ----------
        column : int or str
        bins : int or array-like of edges, default=None
            A number of equal bins of the column's range, or increasing edges within it. None is
            the `edges` of the schema, or 10 equal bins of a column without them.
            For a categorical column it is ignored: one proportion per category. More than 16 are
            taken for a picture, and not each judged (`AnswerWarning`).
        """
        j = self._column(column)
        known = self.schema_.values(j)
        if known is not None:
            about = names = [f"{self.schema_.name(j)} = {value}" for value in known]
            values = self._positions.cells(j).low
            codes = np.arange(len(known))
            question = self._in_cells(j, values[:, None] == self.schema_.decode(j, codes))
        else:
            edges = self._edges(j, bins)
            names = [f"[{a:.12g}, {b:.12g})" for a, b in pairwise(edges)]
            about = [f"{self.schema_.name(j)} in {name}" for name in names]
            low, high = self._bound(j)
            # Without rows outside the edges there is no cell for them.
            n_cells = len(edges) - int(edges[0] == low and edges[-1] == high)

            def extremes(first: NDArray, last: NDArray) -> tuple[NDArray, NDArray]:
                left, right = edges[:-1], edges[1:].copy()
                right[-1] = np.nextafter(right[-1], np.inf)  # the last one is closed
                certain = (first >= left) & (last < right), (last < left[0]) | (first >= right[-1])
                possible = (first < right) & (last >= left), (first < left[0]) | (last >= right[-1])
                return np.hstack(certain)[:, :n_cells], np.hstack(possible)[:, :n_cells]

            question = ColumnCondition(
                j,
                lambda: _bin(self._positions.column(j), edges),
                np.eye(len(edges), dtype=bool)[:, :n_cells],
                extremes,
            )
        return self._answer(
            question,
            lambda t, n: np.apply_along_axis(project_to_simplex, -1, t)[..., : len(names)],
            linear=lambda t, n: t[..., : len(names)],
            labels=[names],
            judged=question if len(names) <= _MOST_QUESTIONS else None,
            about=[*about, f"{self.schema_.name(j)} outside the edges"],
        )

    def _edges(self, j: int, bins: int | ArrayLike | None) -> NDArray:
        low, high = self._bound(j)
        if bins is None:
            known = self.schema_.edges(j)
            bins = 10 if known is None else known
        edges = np.asarray(bins)
        if edges.ndim == 0:
            edges = np.linspace(low, high, int(edges) + 1)
        if edges.ndim != 1 or len(edges) < 2 or np.any(np.diff(edges) <= 0):
            raise ValueError("bins must be a positive number of bins or increasing edges.")
        if edges[0] < low or edges[-1] > high:
            raise ValueError(
                f"bins reach outside the range ({low:g}, {high:g}) of column "
                f"{self.schema_.name(j)!r}; keep edges within it."
            )
        return edges

    def _bound(self, j: int) -> tuple[float, float]:
        bound = self.schema_.bound(j)
        if bound is None:
            raise ValueError(f"Column {self.schema_.name(j)!r} is not numeric.")
        return bound

    def _ranges(self, which: list[int]) -> NDArray:
        return np.array([self._bound(j) for j in which]).reshape(-1, 2)


def _bin(values: NDArray, edges: NDArray) -> NDArray[np.int64]:
    """Return the bin of each value, the last one closed, and one more for values outside."""
    last = len(edges) - 2
    bins = np.searchsorted(edges, values, side="right") - 1
    bins[values == edges[-1]] = last
    bins[(bins < 0) | (bins > last)] = last + 1
    return bins


def _floats(X: NDArray, which: list[int]) -> NDArray:
    return X[:, which].astype(np.float64)


def _from_the_mean(X: NDArray, which: list[int]) -> NDArray:
    columns = _floats(X, which)
    return columns - np.nanmean(columns, axis=0)


def _monotone(curves: NDArray) -> NDArray:
    return np.apply_along_axis(isotonic_regression, -1, curves)


def _interpolated(curve: NDArray, grid: NDArray, levels: NDArray) -> NDArray:
    distinct = np.concatenate([[True], np.diff(curve) > 0])
    return np.interp(levels, curve[distinct], grid[distinct])


def _values_reached(curve: NDArray, grid: NDArray, levels: NDArray) -> NDArray:
    return grid[np.searchsorted(curve, levels)]


def _first_where(reached: NDArray, values: NDArray) -> float:
    """Return the first of `values` that is reached, the last one where none is."""
    return values[np.argmax(reached)] if reached.any() else values[-1]


class _SecondMoments:
    """Products of numeric columns, and the covariances that their means give.

    Columns are taken from the middles of their ranges, so that second moments lose no digits.

    Parameters
    ----------
    which : list of int
        The columns.
    ranges : ndarray of shape (d, 2)
    gaps : ndarray of bool, shape (d,)
        Whether values may be missing: a column beside one with gaps has a mean of its own, that of
        the rows with both.
    """

    def __init__(self, which: list[int], ranges: NDArray, gaps: NDArray):
        self._which, self._middles = which, ranges.mean(axis=1)
        spans = np.ptp(ranges, axis=1)
        self.units = np.outer(spans, spans)
        left, right = self._left, self._right = np.triu_indices(len(which))
        # Of which pairs the left column, and of which the right one, has a mean of its own.
        self._own = [np.flatnonzero((left != right) & gaps[other]) for other in (right, left)]

    def products(self, X: NDArray) -> NDArray:
        """Return the columns, each product of two of them, and columns where others are present."""
        columns = _floats(X, self._which) - self._middles
        both = columns[:, self._left] * columns[:, self._right]
        sides = zip((self._left, self._right), self._own, strict=True)
        own = [np.where(np.isnan(both[:, k]), np.nan, columns[:, side[k]]) for side, k in sides]
        return np.hstack([columns, both, *own])

    def covariance(self, means: NDArray) -> NDArray:
        """Return the matrices for means of `products`, shape (..., k)."""
        d, of_left, of_right = len(self._which), *self._own
        ends = np.cumsum([d, len(self._left), len(of_left)])
        first, both, own_left, own_right = np.split(means, ends, axis=-1)
        left, right = first[..., self._left], first[..., self._right]
        left[..., of_left], right[..., of_right] = own_left, own_right
        matrix = np.empty((*means.shape[:-1], d, d))
        matrix[..., self._left, self._right] = both - left * right
        matrix[..., self._right, self._left] = both - left * right
        return matrix

    def possible(self, covariance: NDArray) -> NDArray:
        """Return the closest positive semi-definite matrix, with variances that ranges allow."""
        # In units of the ranges no variance is more than 1/4, and noise is of one size: in other
        # units the column of the largest numbers would move all others.
        values, vectors = np.linalg.eigh(covariance / self.units)
        closest = (vectors * np.maximum(values, 0.0)) @ vectors.T
        scale = np.sqrt(0.25 / np.maximum(np.diagonal(closest), 0.25))
        return closest * np.outer(scale, scale) * self.units
