"""Where in its bin a row may lie: of that a histogram tells nothing, and an answer must allow all.

A synthetic point stands for every row of its cell. So a question is asked of the point, and of the
point moved about in its cell: to the lower and the upper ends of its bins, which a point drawn at
random never meets, and which are where rows are crowded (a gain of exactly 0, an age of 18).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..features import Columns, FeatureMap, HistogramMap
from ._named_rows import NamedRows
from ._regression import MomentRegression
from ._warnings import unexplained

# Of a column without a histogram: Fourier features tell places not much better than these.
_N_STRETCHES = 32
# Moves of all columns alike; a condition that is narrower than a quarter of a bin and holds at
# neither end of it may be missed, unless it is named (`M2MEstimator.histogram`).
_ALIKE = (0.0, 0.25, 0.5, 0.75, 1.0)
# Of the points, how many are enough for means over all of them.
_FEW = 2000
# An interval is wider where what is missed is more than a standard error; a warning waits for 8.
_AN_ERROR = 1 / 8


class Positions:
    """The cells of rows: the numeric columns' lowest and highest values there.

    Parameters
    ----------
    feature_map : FeatureMap
    columns : Columns
        With the bounds of every numeric column.
    rows : ndarray of shape (n, d)
    whole : bool, default=False
        Take the bounds of the table for the only cell.
    """

    def __init__(
        self, feature_map: FeatureMap, columns: Columns, rows: NDArray, *, whole: bool = False
    ):
        self.columns, self.rows = columns, rows
        self._parts = [] if whole else feature_map.parts()
        self._n_stretches = 1 if whole else _N_STRETCHES
        self._ends: dict[int, tuple[NDArray, NDArray]] = {}

    def few(self) -> Positions:
        """Return the cells of so many rows as means need."""
        fewer = copy(self)
        fewer.rows, fewer._ends = self.rows[:_FEW], {}
        return fewer

    def ends(self, j: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and the highest value of column `j` in each row's cell, shape (n,)."""
        if j not in self._ends:
            values = self.rows[:, j].astype(np.float64)
            if self.columns.values(j) is not None:
                return values, values
            first, last = self.columns.bound(j) or (-np.inf, np.inf)
            half = (self.columns.step(j) or 0.0) / 2  # bins of a grid begin between its values
            low, high = np.full(len(values), first - half), np.full(len(values), last + half)
            for starts in self._starts(j):
                place = np.searchsorted(starts, values, side="right")
                low = np.maximum(low, np.append(first - half, starts)[place])
                high = np.minimum(
                    high, np.append(np.nextafter(starts, -np.inf), last + half)[place]
                )
            self._ends[j] = (
                self.columns.on_grid(low + half, j),
                self.columns.on_grid(high - half, j),
            )
        return self._ends[j]

    def _starts(self, j: int) -> Iterator[NDArray[np.float64]]:
        """Yield where the second and further bins of each histogram of the column begin."""
        histograms = [p for p in self._parts if isinstance(p, HistogramMap)]
        counting = [p for p in histograms if any(j in group for group in p.groups)]
        for histogram in counting:
            yield _starts(histogram, j)
        if not counting:
            first, last = self.columns.bound(j) or (0.0, 1.0)
            yield np.linspace(first, last, self._n_stretches + 1)[1:-1]

    def moved(self) -> Iterator[NDArray]:
        """Yield the rows, moved about in their cells: any two columns to each pair of ends."""
        numeric = [j for j in range(self.columns.n_columns) if self.columns.values(j) is None]
        if not numeric:
            return
        shares = [np.full(len(numeric), share) for share in _ALIKE]
        for bit in range((len(numeric) - 1).bit_length()):
            pattern = (np.arange(len(numeric)) >> bit & 1).astype(np.float64)
            shares += [pattern, 1 - pattern]
        for chosen in shares:
            out = self.rows.copy()
            for j, share in zip(numeric, chosen, strict=True):
                low, high = self.ends(j)
                out[:, j] = self.columns.on_grid(low * (1 - share) + high * share, j)
            yield out

    def extremes(self, function: Callable[[Any], ArrayLike]) -> tuple[NDArray, NDArray]:
        """Return the least and the largest of `function` in each row's cell, shape (n, k)."""
        low = high = values_at(function, self.rows, self.columns)
        for rows in self.moved():
            found = values_at(function, rows, self.columns)
            low, high = np.minimum(low, found), np.maximum(high, found)
        return low, high


class Reach:
    """How far an answer reaches, wherever in their cells the rows lie.

    Parameters
    ----------
    model : MomentRegression
    positions : Positions
        Of the model's points.
    function : callable
        The question, of rows.
    values : ndarray of shape (n_synthetic, k)
        Its values at the points.
    is_truth : bool
    extremes : callable, default=None
        Returns its extremes in the cells of `Positions`, where these are known: those of a
        threshold. None: it is asked at rows that are moved about.
    """

    def __init__(
        self,
        model: MomentRegression,
        positions: Positions,
        function: Callable,
        values: NDArray,
        is_truth: bool,
        extremes: Callable[[Positions], tuple[NDArray, NDArray]] | None,
    ):
        self.model, self.positions, self.function = model, positions, function
        self.values, self.is_truth, self.is_known = values, is_truth, extremes is not None
        self._extremes = extremes or (lambda at: at.extremes(function))

    def hidden(self) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        if not self.is_truth:
            return np.zeros(self.values.shape[1])
        low, high = self._extremes(self.positions.few())
        return np.mean(high.astype(np.float64) - low, axis=0)

    def sides(self) -> list[tuple[NDArray, NDArray]]:
        """Return a question below and one above: its values at the points, and what to add.

        A truth lies between two questions that have one answer in each cell, and whose noise is
        that of the cells. Of a number the approximation is asked: what it misses at most.
        """
        if self.is_truth:
            low, high = (side.astype(np.float64) for side in self._extremes(self.positions))
            return [(low, -self._missed(low, low)), (high, self._missed(high, 1 - high))]
        few, values = self.positions.few(), self.values
        slope = self.model.coefficients(values)

        def missed(rows: NDArray) -> NDArray:
            found = values_at(self.function, rows, few.columns)
            return self.model.residuals_elsewhere(rows, found, values, slope)

        low = high = missed(few.rows)
        for rows in few.moved():
            found = missed(rows)
            low = np.minimum(low, np.where(np.isnan(found), -np.inf, found))
            high = np.maximum(high, np.where(np.isnan(found), np.inf, found))
        beyond = self._missed(values, within=np.mean((high - low) ** 2, axis=0) / 4)
        return [(values, low.mean(axis=0) - beyond), (values, high.mean(axis=0) + beyond)]

    def _missed(
        self, values: NDArray, certain: NDArray | None = None, within: float | NDArray = 0.0
    ) -> NDArray[np.float64]:
        """Return the largest error met at the points, where phi explains too little; else 0.

        Parameters
        ----------
        values : ndarray of shape (n_synthetic, k)
        certain : ndarray of the same shape, default=None
            Of a condition, its value or its opposite: where all points say so, nothing is known
            of rows that do not.
        within : ndarray of shape (k,), default=0
            What rows that are moved about in their cells explain of what is missed.
        """
        slope, rest = self.model.approximate(values)
        bad = unexplained(self.model, slope, rest - within, values.var(axis=0), errors=_AN_ERROR)
        error = np.zeros(values.shape[1])
        if bad.any():
            residuals = self.model.residuals(values[:, bad], slope[:, bad])
            error[bad] = np.abs(residuals).max(axis=0)
        if certain is None or self.is_known:
            return error
        return np.where(certain.all(axis=0), 1.0, error)


def values_at(function: Callable[[Any], ArrayLike], rows: NDArray, columns: Columns) -> NDArray:
    """Return the function's values at rows, shape (n, k), where it may have none: log(0)."""
    with np.errstate(all="ignore"):
        found = np.asarray(function(NamedRows.of(rows, columns)), dtype=np.float64)
    return found.reshape(len(rows), -1)


def _starts(histogram: HistogramMap, j: int) -> NDArray[np.float64]:
    """Return the smallest number of each bin of column `j` but the first.

    Of equal bins the codes decide, not the edges, which are rounded otherwise.
    """
    edges = histogram.edges(j)
    inner = edges[1:-1]
    if histogram.columns.step(j) is not None or histogram.own_edges[j] is not None:
        return inner
    width = (edges[-1] - edges[0]) / histogram.n_bins[j]
    below, above = inner - width / 2, inner + width / 2
    rows = np.zeros((len(inner), histogram.columns.n_columns))
    middle = inner
    while np.any((below < middle) & (middle < above)):  # until they are neighbours
        rows[:, j] = middle
        reached = histogram.column_codes(rows, j) > np.arange(len(inner))
        below, above = np.where(reached, below, middle), np.where(reached, middle, above)
        middle = below / 2 + above / 2
    return above
