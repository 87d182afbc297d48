"""The statistics that every moment estimator answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression

from ..._computing import warn_caller
from ...features import project_to_simplex
from ...schema._columns import Columns
from ._answer import ColumnQuestion
from ._estimate import Estimate
from ._positions import Positions
from ._warnings import AnswerWarning

# More thresholds or bins are a picture of a column, not questions.
_CURVE = 16


class StatisticsMixin:
    """Named statistics, each through one call of `_answer`."""

    columns_: Columns
    _positions: Positions

    @abstractmethod
    def _answer(
        self, function: Callable | ColumnQuestion, then: Callable | None = None, **about: Any
    ) -> Estimate:
        """Estimate the mean of `function` over the rows, and apply `then` to it.

        Beside what is judged and how it is named, ``about`` may hold

        - ``unclipped``: `then` without the move to what is possible: the error is that before it,
          for a share that was moved to 0 has not become certain. It is linear in the mean;
        - ``of_rows``: whether it is a number of rows, with the noise of theirs;
        - ``error``: the standard error, of the mean and of simulated ones;
        - ``bound``: what turns bounds on the bias of the mean into such of the answer;
        - ``ends``: as in `Estimate`, where they are not computed from these;
        - ``possible``: as in `Estimate`; None for what function of a row is asked.
        """

    def _numeric(self) -> list[int]:
        columns = self.columns_
        return [j for j in range(columns.n_columns) if columns.values(j) is None]

    def _names(self, which: list[int]) -> list[str]:
        return [self.columns_.name(j) for j in which]

    def _column(self, column: int | str) -> int:
        if isinstance(column, list | tuple | np.ndarray):
            raise ValueError(
                f"column must be one column, by its name or its number; got {column!r}. Ask one "
                "after the other; what columns have together, ask with `count` or `estimate`."
            )
        return self.columns_.index(column, "column")

    def mean(self) -> Estimate:
        """Return the means of the numeric columns, shape (d,); ``mean()["age"]`` is one of them."""
        return self.moment(1)

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
        >>> M2MEstimator(bounds=(0, 1), random_state=0).fit(X).moment(2).value.round(1)
        array([0.3, 0.3])
        """
        if order != int(order) or order < 1:
            raise ValueError(f"order must be a positive integer, got {order!r}.")
        which = self._numeric()
        names = self._names(which)

        def powers(X: NDArray) -> NDArray:
            return _floats(X, which) ** int(order)

        of = "mean" if order == 1 else f"moment {int(order)}"
        about = [f"the {of} of {name!r}" for name in names]
        low, high = self._ranges(which).T
        least = np.where((low < 0) & (high > 0), 0.0, np.minimum(low**order, high**order))
        possible = (low**order if order % 2 else least, np.maximum(low**order, high**order))
        return self._answer(powers, labels=[names], judged=powers, about=about, possible=possible)

    def variance(self) -> Estimate:
        """Return the variances of the numeric columns, shape (d,), at least 0."""
        which = self._numeric()
        names = self._names(which)
        d = len(which)
        spans = np.ptp(self._ranges(which), axis=1)

        def powers(X: NDArray) -> NDArray:
            columns = self._centred(X, which)
            return np.hstack([columns, columns**2])

        return self._answer(
            powers,
            lambda t, n: t[..., d:] - t[..., :d] ** 2,
            possible=(0.0, spans**2 / 4),
            labels=[names],
            judged=lambda X: _from_the_mean(X, which) ** 2,
            about=[f"the variance of {name!r}" for name in names],
        )

    def covariance(self) -> Estimate:
        """Return the covariance matrix of the numeric columns, shape (d, d).

        It is projected to the closest positive semi-definite matrix, in units of the columns'
        ranges; the error of an entry holds how far that moved it.
        """
        which = self._numeric()
        products, raw, project = self._second_order(which)
        names = self._names(which)

        def error(mean: NDArray, draws: NDArray) -> NDArray:
            found = raw(mean)
            return np.hypot(np.std(raw(draws), axis=0), project(found) - found)

        spans = np.ptp(self._ranges(which), axis=1)
        largest = np.outer(spans, spans) / 4
        return self._answer(
            products,
            lambda t, n: project(raw(t)),
            error=error,
            possible=(np.where(np.eye(len(which)), 0.0, -largest), largest),
            labels=[names, names],
            **self._pairs(which),
        )

    def correlation(self) -> Estimate:
        """Return the correlation matrix of the numeric columns, shape (d, d).

        ``correlation()["age", "hours"]`` is one entry. It is that of `covariance`, so the error of
        an entry holds how far the projection moved it.
        """
        which = self._numeric()
        products, raw, project = self._second_order(which)
        names = self._names(which)

        def scaled(t: NDArray, n: NDArray) -> NDArray:
            covariance = project(raw(t))
            spread = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
            found = covariance / np.outer(spread, spread)
            # A column's correlation with itself has no noise, not even where its variance drowned.
            np.fill_diagonal(found, 1.0)
            return found

        def error(mean: NDArray, draws: NDArray) -> NDArray:
            found = raw(mean)
            variances = np.maximum(np.diagonal(project(found)), 1e-300)
            spread, correlations = np.sqrt(np.outer(variances, variances)), scaled(mean, None)

            def linear(covariances: NDArray) -> NDArray:
                """Return the first order of the correlations about those that are answered."""
                own = np.diagonal(covariances, axis1=-2, axis2=-1) / variances
                return (
                    covariances / spread - correlations * (own[..., None] + own[..., None, :]) / 2
                )

            moved = np.hypot(np.std(linear(raw(draws)), axis=0), linear(found))
            np.fill_diagonal(moved, 0.0)
            return moved

        ones = np.eye(len(which))
        possible = (2 * ones - 1, np.ones_like(ones))
        return self._answer(
            products,
            scaled,
            error=error,
            possible=possible,
            labels=[names, names],
            **self._pairs(which),
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
            unclipped=lambda t, n: t * n[..., None],
            of_rows=True,
            # The truth is in [0, 1], so clipping brings nothing farther from it.
            bound=lambda bias, n: np.minimum(bias, 1.0) * n,
            asked=True,
            judged=truths,
        )

    def cdf(self, column: int | str, thresholds: ArrayLike) -> Estimate:
        """Return P(x_column <= t) for each threshold: within [0, 1] and non-decreasing.

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
        low, high = self.columns_.bound(j) or (-np.inf, np.inf)
        if np.any((cuts < low) | (cuts > high)):
            warn_caller(
                f"thresholds of column {self.columns_.name(j)!r} reach outside its bounds "
                f"({low:g}, {high:g}), to which its values are clipped: nothing is known there.",
                AnswerWarning,
            )
        labels = [f"{self.columns_.name(j)} <= {c:.12g}" for c in cuts]

        below = self._at_most(j, cuts)
        return self._answer(
            below,
            lambda t, n: np.clip(_monotone(t), 0.0, 1.0),
            unclipped=lambda t, n: t,
            # Isotonic regression is the max-min of means over ranges: it is monotone and commutes
            # with shifts, so it enlarges no largest difference, and it leaves the truth as it is.
            bound=lambda bias, n: np.full_like(bias, bias.max()),
            labels=[labels],
            judged=below if len(cuts) <= _CURVE else None,
            about=labels,
        )

    def quantile(self, column: int | str, q: ArrayLike) -> Estimate:
        """Return quantiles of a column, by inverting its CDF on 512 steps between its bounds.

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
        >>> from skdpsumm import HistogramSketcher, M2MEstimator
        >>> ages = np.random.default_rng(0).binomial(90, 0.4, size=(5000, 1))
        >>> sketcher = HistogramSketcher(bounds=(0, 90), steps=1, n_bins=91)
        >>> m2m = M2MEstimator(sketcher, n_synthetic=5000, random_state=0).fit(ages)
        >>> m2m.quantile(0, 0.5)
                value  noise std error
        x0 0.5     36                0
        (error of noise alone; on a grid of step 1)
        """
        j = self._column(column)
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if np.any((levels < 0) | (levels > 1)):
            raise ValueError("q must lie in [0, 1].")
        low, high = self._bound(j)
        grid = np.unique(self.columns_.on_grid(np.linspace(low, high, 513), j))
        stepped = self.columns_.step(j) is not None
        # Of a continuous column nothing lies at the lower bound.
        first = 0 if stepped else 1
        invert = _first_reached if len(grid) == self.columns_.n_values(j) else _inverse

        def inverse(t: NDArray, n: NDArray) -> NDArray:
            curves = np.clip(_monotone(np.atleast_2d(t)), 0.0, 1.0)
            curves = np.pad(curves, ((0, 0), (first, 1)), constant_values=((0, 0), (0.0, 1.0)))
            found = np.array([invert(curve, grid, levels) for curve in curves])
            return self.columns_.on_grid(found, j).reshape(*t.shape[:-1], len(levels))

        names = [f"{self.columns_.name(j)} {level:.12g}" for level in levels]
        found = self._answer(
            self._at_most(j, grid[first:-1]),
            inverse,
            ends=self._quantile_ends(j, levels),
            possible=(low, high),
            labels=[names],
        )
        found.step = self.columns_.step(j)
        places = np.asarray(found)
        if len(levels) <= _CURVE:  # asked only to be judged, now that the places are known
            about = [f"the quantile {name}" for name in names]
            below = self._at_most(j, places)
            self._answer(below, judged=below, about=about)
        return found

    def _quantile_ends(self, j: int, levels: NDArray) -> Callable[[float], tuple[NDArray, NDArray]]:
        """Return the ends of quantiles, read off those of the shares of rows in whole bins."""

        def ends(z: float) -> tuple[NDArray, NDArray]:
            _, lows, highs = self._positions.cells(j)
            starts, stops = np.unique(lows), np.unique(highs)
            most = self._share_of_cells(j, lows[:, None] <= starts)(z)[1]
            least = self._share_of_cells(j, highs[:, None] <= stops)(z)[0]
            from_ = np.array([_first(most >= q, starts) for q in levels])
            to = np.array([_first(least >= q, stops) for q in levels])
            return from_, to

        return ends

    def _share_of_cells(
        self, j: int, truths: NDArray
    ) -> Callable[[float], tuple[NDArray, NDArray]]:
        """Return the ends of the share of rows in the column's cells for which it holds."""
        place = self._positions.cells(j).place
        found = self._answer(ColumnQuestion(j, lambda: place, truths, lambda *_: (truths, truths)))
        return found._ends  # type: ignore[return-value]

    def _at_most(self, j: int, cuts: NDArray) -> ColumnQuestion:
        """Return whether column `j` is at most each cut."""
        order = np.argsort(cuts, kind="stable")
        increasing, rank = cuts[order], np.argsort(order)
        return ColumnQuestion(
            j,
            lambda: np.searchsorted(increasing, self._positions.column(j).astype(np.float64)),
            np.arange(len(cuts) + 1)[:, None] <= rank,
            lambda low, high: (high <= cuts, low <= cuts),
        )

    def histogram(self, column: int | str, bins: int | ArrayLike = 10) -> Estimate:
        """Return the proportions of a column's values in bins, non-negative.

        They sum to one if the bins cover the column's bounds, else to at most one.

        Parameters
        ----------
        column : int or str
        bins : int or array-like of edges, default=10
            A number of equal bins between the column's bounds, or increasing edges within them.
            For a categorical column it is ignored: one proportion per category. More than 16 are
            taken for a picture, and not each judged (`AnswerWarning`).
        """
        j = self._column(column)
        known = self.columns_.values(j)
        if known is not None:
            about = names = [f"{self.columns_.name(j)} = {value}" for value in known]
            place, values, _ = self._positions.cells(j)
            found = values[:, None] == self.columns_.decode(j, np.arange(len(known)))
            question = ColumnQuestion(j, lambda: place, found, lambda *_: (found, found))
        else:
            edges = self._edges(j, bins)
            names = [f"[{a:.12g}, {b:.12g})" for a, b in pairwise(edges)]
            about = [f"{self.columns_.name(j)} in {name}" for name in names]
            low, high = self._bound(j)
            # Without rows outside the edges there is no cell for them.
            n_cells = len(edges) - int(edges[0] == low and edges[-1] == high)

            def extremes(first: NDArray, last: NDArray) -> tuple[NDArray, NDArray]:
                left, right = edges[:-1], edges[1:].copy()
                right[-1] = np.nextafter(right[-1], np.inf)  # the last one is closed
                certain = (first >= left) & (last < right), (last < left[0]) | (first >= right[-1])
                possible = (first < right) & (last >= left), (first < left[0]) | (last >= right[-1])
                return np.hstack(certain)[:, :n_cells], np.hstack(possible)[:, :n_cells]

            question = ColumnQuestion(
                j,
                lambda: _bin(self._positions.column(j), edges),
                np.eye(len(edges), dtype=bool)[:, :n_cells],
                extremes,
            )
        return self._answer(
            question,
            lambda t, n: np.apply_along_axis(project_to_simplex, -1, t)[..., : len(names)],
            unclipped=lambda t, n: t[..., : len(names)],
            labels=[names],
            judged=question if len(names) <= _CURVE else None,
            about=[*about, f"{self.columns_.name(j)} outside the edges"],
        )

    def _edges(self, j: int, bins: int | ArrayLike) -> NDArray:
        low, high = self._bound(j)
        edges = np.linspace(low, high, int(bins) + 1) if np.isscalar(bins) else np.asarray(bins)
        if edges.ndim != 1 or len(edges) < 2 or np.any(np.diff(edges) <= 0):
            raise ValueError("bins must be a positive number of bins or increasing edges.")
        if edges[0] < low or edges[-1] > high:
            raise ValueError(
                f"bins reach outside the bounds ({low:g}, {high:g}) of column "
                f"{self.columns_.name(j)!r}; keep edges within them."
            )
        return edges

    def _bound(self, j: int) -> tuple[float, float]:
        bound = self.columns_.bound(j)
        if bound is None:
            raise ValueError(f"Column {self.columns_.name(j)!r} is not numeric.")
        return bound

    def _ranges(self, which: list[int]) -> NDArray:
        return np.array([self._bound(j) for j in which]).reshape(-1, 2)

    def _centred(self, X: NDArray, which: list[int]) -> NDArray:
        """Return columns minus the middles of their bounds: second moments lose no digits."""
        middle = np.array([np.mean(self._bound(j)) for j in which])
        return _floats(X, which) - middle

    def _pairs(self, which: list[int]) -> dict[str, Any]:
        """Return what is hard of second moments: how two columns go together."""
        left, right = np.triu_indices(len(which), 1)
        names = self._names(which)

        def together(X: NDArray) -> NDArray:
            columns = _from_the_mean(X, which)
            return columns[:, left] * columns[:, right]

        about = [
            f"how {names[a]!r} and {names[b]!r} go together"
            for a, b in zip(left, right, strict=True)
        ]
        return {"judged": together if about else None, "about": about}

    def _second_order(self, which: list[int]) -> tuple[Callable, Callable, Callable]:
        """Return products, covariances of their means, and the possible ones closest to these."""
        d = len(which)
        pairs = list(combinations_with_replacement(range(d), 2))
        left, right = (np.array(side) for side in zip(*pairs, strict=True))

        def products(X: NDArray) -> NDArray:
            columns = self._centred(X, which)
            return np.hstack([columns, columns[:, left] * columns[:, right]])

        def raw(t: NDArray) -> NDArray:
            first = t[..., :d]
            matrix = np.empty((*t.shape[:-1], d, d))
            matrix[..., left, right] = t[..., d:]
            matrix[..., right, left] = t[..., d:]
            return matrix - first[..., :, None] * first[..., None, :]

        spans = np.ptp(self._ranges(which), axis=1)
        units = np.outer(spans, spans)
        return products, raw, lambda covariance: _possible_covariance(covariance / units) * units


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
    return columns - columns.mean(axis=0)


def _monotone(curves: NDArray) -> NDArray:
    return np.apply_along_axis(isotonic_regression, -1, curves)


def _inverse(curve: NDArray, grid: NDArray, levels: NDArray) -> NDArray:
    distinct = np.concatenate([[True], np.diff(curve) > 0])
    return np.interp(levels, curve[distinct], grid[distinct])


def _first_reached(curve: NDArray, grid: NDArray, levels: NDArray) -> NDArray:
    return grid[np.searchsorted(curve, levels)]


def _first(reached: NDArray, values: NDArray) -> float:
    """Return the first of `values` that is reached, the last one where none is."""
    return values[np.argmax(reached)] if reached.any() else values[-1]


def _possible_covariance(matrix: NDArray) -> NDArray:
    """Return the closest positive semi-definite matrix, with variances that columns can have.

    Of columns in units of their ranges, where no variance is more than 1/4, and where noise is of
    one size: in other units the column of the largest numbers would move all others.
    """
    values, vectors = np.linalg.eigh(matrix)
    closest = (vectors * np.maximum(values, 0.0)) @ vectors.T
    scale = np.sqrt(0.25 / np.maximum(np.diagonal(closest), 0.25))
    return closest * np.outer(scale, scale)
