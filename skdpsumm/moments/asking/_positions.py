"""Where in its bin a row may lie: of that a histogram tells nothing, and an answer must allow all.

A synthetic point stands for every row of its cell. So a question is asked of the point, and of the
point moved about in its cell: to the lower and the upper ends of its bins, which a point drawn at
random never meets, and which are where rows are crowded (a gain of exactly 0, an age of 18).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...features import FeatureMap, HistogramMap
from ...schema import Columns
from ..inferring._blocks import FeatureBlocks
from ..inferring._regression import CellRegression, MomentRegression, evaluate_rows
from ._named_rows import NamedRows, column_of
from ._warnings import unexplained

# Of a column without a histogram: Fourier features tell places not much better than these.
_N_STRETCHES = 32
# Moves of all columns alike; a condition that is narrower than a quarter of a bin and holds at
# neither end of it may be missed, unless it is named (`M2MEstimator.histogram`).
_ALIKE = (0.0, 0.25, 0.5, 0.75, 1.0)
# Of the points, how many are enough for means over all of them.
_FEW = 2000
# Of so many features, those of the few points and their moves are kept: at most some 200 MB.
_MOST_KEPT = 1000
# An interval is wider where what is missed is more than a standard error; a warning waits for 8.
_AN_ERROR = 1 / 8


class Cells(NamedTuple):
    """The cells of a column in which points are.

    Parameters
    ----------
    place : ndarray of shape (n,)
        The cell of each point.
    low, high : ndarray of shape (n_cells,)
        The lowest and the highest value in each cell.
    """

    place: NDArray[np.int64]
    low: NDArray
    high: NDArray


class Positions:
    """Points, and the cells in which they lie.

    Parameters
    ----------
    feature_map : FeatureMap
    columns : Columns
        With the bounds of every numeric column.
    points : ndarray of shape (n, d)
    whole : bool, default=False
        Take the bounds of the table for the only cell.
    """

    def __init__(
        self, feature_map: FeatureMap, columns: Columns, points: NDArray, *, whole: bool = False
    ):
        self.feature_map, self.columns, self.points = feature_map, columns, points
        self._parts = [] if whole else feature_map.parts()
        self._n_stretches = 1 if whole else _N_STRETCHES
        self._numeric = [j for j in range(columns.n_columns) if columns.values(j) is None]
        self._made: dict[int, NDArray] = {}
        self._cells: dict[int, Cells] = {}
        self._features: list[FeatureBlocks] = []

    @cached_property
    def few(self) -> Positions:
        """So many points as means need."""
        return Positions(self.feature_map, self.columns, self.points[:_FEW])

    def features(self) -> Iterable[FeatureBlocks]:
        """Return phi of the points, and of each of their moves; it is kept where it is small."""
        if not self._features:
            rows = (self.rows(), *self.moved(self._numeric))
            found = (FeatureBlocks(self.feature_map, np.asarray(one)) for one in rows)
            if self.feature_map.n_features > _MOST_KEPT:
                return found
            self._features = list(found)
        return self._features

    def rows(self) -> NamedRows:
        """Return the points, to be asked."""
        return NamedRows(self.columns, len(self.points), self.column)

    def column(self, j: int) -> NDArray:
        """Return column `j` of the points: floats, unless it is of categories."""
        if j not in self._made:
            self._made[j] = np.ascontiguousarray(column_of(self.points, self.columns, j))
        return self._made[j]

    def cells(self, j: int) -> Cells:
        """Return the cells of column `j`."""
        if j not in self._cells:
            of_numbers = self.columns.values(j) is None
            self._cells[j] = self._of_numbers(j) if of_numbers else self._of_categories(j)
        return self._cells[j]

    def _of_categories(self, j: int) -> Cells:
        codes, place = np.unique(self.columns.code(self.points, j), return_inverse=True)
        values = self.columns.decode(j, codes)
        return Cells(place, values, values)

    def _of_numbers(self, j: int) -> Cells:
        first, last = self.columns.bound(j) or (-np.inf, np.inf)
        half = (self.columns.step(j) or 0.0) / 2  # bins of a grid begin between its values
        starts = np.unique(np.concatenate(list(self._starts(j))))
        places = np.searchsorted(starts, self.column(j), side="right")
        met, place = np.unique(places, return_inverse=True)
        low = np.append(first - half, starts)[met]
        high = np.append(np.nextafter(starts, -np.inf), last + half)[met]
        low, high = (self.columns.on_grid(end, j) for end in (low + half, high - half))
        return Cells(place, low, high)

    def _starts(self, j: int) -> Iterator[NDArray[np.float64]]:
        """Yield where the second and further bins of each histogram of the column begin."""
        histograms = [p for p in self._parts if isinstance(p, HistogramMap)]
        counting = [p for p in histograms if any(j in group for group in p.groups)]
        for histogram in counting:
            yield _starts(histogram, j)
        if not counting:
            first, last = self.columns.bound(j) or (0.0, 1.0)
            yield np.linspace(first, last, self._n_stretches + 1)[1:-1]

    def moved(self, taken: set[int] | list[int]) -> Iterator[NamedRows]:
        """Yield the points, moved about in their cells: any two columns to each pair of ends.

        Moves that differ only in columns that a question has not `taken` are the same to it. All
        columns are moved, should it take others of moved points.
        """
        shares = [np.full(len(self._numeric), share) for share in _ALIKE]
        for bit in range((len(self._numeric) - 1).bit_length()):
            pattern = (np.arange(len(self._numeric)) >> bit & 1).astype(np.float64)
            shares += [pattern, 1 - pattern]
        matter = [k for k, j in enumerate(self._numeric) if j in taken]
        done = {()}  # of a question without numbers
        for chosen in shares:
            as_taken = tuple(chosen[matter])
            if as_taken not in done:
                done.add(as_taken)
                make = partial(self._moved, dict(zip(self._numeric, chosen, strict=True)))
                yield NamedRows(self.columns, len(self.points), make)

    def _moved(self, shares: dict[int, float], j: int) -> NDArray:
        if j not in shares:
            return self.column(j)
        place, low, high = self.cells(j)
        return self.columns.on_grid(low * (1 - shares[j]) + high * shares[j], j)[place]

    def extremes(self, function: Callable[[Any], ArrayLike]) -> tuple[NDArray, NDArray]:
        """Return the least and the largest of `function` in each point's cell, shape (n, k)."""
        rows = self.rows()
        low = high = values_at(function, rows)
        for moved in self.moved(rows.taken):
            found = values_at(function, moved)
            low, high = np.minimum(low, found), np.maximum(high, found)
        return low, high


class Side(NamedTuple):
    """A question below an answer or above it: its values, where it is asked, what to add."""

    model: MomentRegression
    values: NDArray
    slope: NDArray
    more: NDArray


class Asked(NamedTuple):
    """A question's values, the regression that they are for, and of what kind they are.

    `ends` are the two values that a condition has: 0 and 1, or others where it is multiplied. They
    are None for a number.
    """

    model: MomentRegression
    values: NDArray[np.float64]
    is_scalar: bool
    ends: tuple[NDArray, NDArray] | None


class ColumnQuestion(NamedTuple):
    """A condition on one column that is named, so that where it holds is known without asking.

    Parameters
    ----------
    column : int
    bins : callable
        Returns the bin of each point.
    truths : ndarray of shape (n_bins, k)
        Whether it holds in each bin.
    extremes : callable
        Takes the lowest and the highest value in each cell, shape (n_cells, 1), and returns where
        it certainly holds and where it may, two arrays of shape (n_cells, k).
    """

    column: int
    bins: Callable[[], NDArray]
    truths: NDArray
    extremes: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]]


class Reach:
    """What a question's answer is at the points, and how far it reaches wherever rows lie.

    Parameters
    ----------
    model : MomentRegression
    positions : Positions
        Of the model's points.
    question : callable, of rows
    """

    def __init__(self, model: MomentRegression, positions: Positions, question: Any):
        self.model, self.positions, self.question = model, positions, question
        self._approximation: tuple[NDArray, NDArray] | None = None

    def ask(self) -> Asked:
        """Ask the points."""
        values, is_scalar = evaluate_rows(self.question, self.positions.rows())
        return Asked(self.model, values, is_scalar, self._ends(values))

    @cached_property
    def _few_extremes(self) -> tuple[NDArray, NDArray]:
        return self.positions.few.extremes(self.question)

    def _ends(self, values: NDArray) -> tuple[NDArray, NDArray] | None:
        """Return the two values of a condition, wherever rows lie; None for a number."""
        met = values, *self._few_extremes
        low = np.min([v.min(axis=0) for v in met], axis=0)
        high = np.max([v.max(axis=0) for v in met], axis=0)
        if not all(np.all((v == low) | (v == high)) for v in met):
            return None
        if np.isin([low, high], (0, 1)).all():
            return _truth(values)
        return None if np.any(low == high) else (low, high)

    def hidden(self, asked: Asked) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        if asked.ends is None:
            return np.zeros(asked.values.shape[1])
        low, high = self._few_extremes
        return np.mean(high > low, axis=0)

    def approximation(self, asked: Asked) -> tuple[NDArray, NDArray]:
        """Return `MomentRegression.approximate`; it is kept, where values would be too large."""
        if self._approximation is None:
            self._approximation = asked.model.approximate(asked.values)
        return self._approximation

    def sides(self, asked: Asked) -> list[Side]:
        """Return a question below and one above.

        A truth lies between two questions that have one answer in each cell, and whose noise is
        that of the cells. Of a number the approximation is asked: what it misses at most.
        """
        if asked.ends is not None:
            reached = self.positions.extremes(self.question)
            return _sides_of_truth(self.model, *reached, asked.ends)
        few, values = self.positions.few, asked.values
        slope, rest = self.approximation(asked)
        low, high = np.inf, -np.inf
        for rows, phi in zip((few.rows(), *few.moved(few._numeric)), few.features(), strict=True):
            found = values_at(self.question, rows)
            missed = self.model.residuals_elsewhere(phi, found, values, slope)
            low = np.minimum(low, np.where(np.isnan(missed), -np.inf, missed))
            high = np.maximum(high, np.where(np.isnan(missed), np.inf, missed))
        within = np.mean((high - low) ** 2, axis=0) / 4  # of what is missed, the moves explain this
        beyond = _missed(self.model, values, slope, rest - within)
        return [
            Side(self.model, values, slope, low.mean(axis=0) - beyond),
            Side(self.model, values, slope, high.mean(axis=0) + beyond),
        ]


class ColumnReach(Reach):
    """`Reach` for a `ColumnQuestion`."""

    question: ColumnQuestion

    def ask(self) -> Asked:
        """Ask the points."""
        bins = self.question.bins()
        met = np.bincount(bins, minlength=len(self.question.truths)) > 0
        model = CellRegression(self.model, (np.cumsum(met) - 1)[bins], int(met.sum()))
        values = self.question.truths[met].astype(np.float64)
        return Asked(model, values, False, _truth(values))

    def hidden(self, asked: Asked) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        low, high = self._extremes()
        place = self.positions.cells(self.question.column).place[:_FEW]
        return np.mean((high.astype(np.float64) - low)[place], axis=0)

    def sides(self, asked: Asked) -> list[Side]:
        """Return a question below and one above."""
        low, high = self._extremes()
        place = self.positions.cells(self.question.column).place
        model = CellRegression(self.model, place, len(low))
        return _sides_of_truth(model, low, high, _truth(low), known=True)

    def _extremes(self) -> tuple[NDArray, NDArray]:
        _, low, high = self.positions.cells(self.question.column)
        return self.question.extremes(low[:, None], high[:, None])


def _truth(values: NDArray) -> tuple[NDArray, NDArray]:
    return np.zeros(values.shape[1]), np.ones(values.shape[1])


def _sides_of_truth(
    model: MomentRegression,
    low: NDArray,
    high: NDArray,
    ends: tuple[NDArray, NDArray],
    *,
    known: bool = False,
) -> list[Side]:
    """Return the sides of a condition that is from `low` to `high` in each cell.

    Unless that is `known`, nothing is known of rows unlike all points, where these are alike.
    """
    k = low.shape[1]
    values = np.hstack([low, high]).astype(np.float64)
    slope, rest = model.approximate(values)
    error = _missed(model, values, slope, rest)
    if not known:
        alike = np.hstack([np.all(low > ends[0], axis=0), np.all(high < ends[1], axis=0)])
        error[alike] = np.tile(ends[1] - ends[0], 2)[alike]
    return [
        Side(model, values[:, :k], slope[:, :k], -error[:k]),
        Side(model, values[:, k:], slope[:, k:], error[k:]),
    ]


def _missed(
    model: MomentRegression, values: NDArray, slope: NDArray, rest: NDArray
) -> NDArray[np.float64]:
    """Return the largest error met at the points, where phi explains too little; else 0."""
    bad = unexplained(model, slope, rest, model.variance(values), errors=_AN_ERROR)
    error = np.zeros(values.shape[1])
    if bad.any():
        residuals = model.residuals(values[:, bad], slope[:, bad])
        error[bad] = np.abs(residuals).max(axis=0)
    return error


def values_at(function: Callable[[Any], ArrayLike], rows: NamedRows) -> NDArray[np.float64]:
    """Return the function's values at rows, shape (n, k), where it may have none: log(0)."""
    with np.errstate(all="ignore"):
        found = np.asarray(function(rows), dtype=np.float64)
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
