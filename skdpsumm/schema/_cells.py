"""Public cells of a column of numbers: where rows heap and where people cut, by the schema alone.

Rows of real tables heap at round values, and people cut at round values. So cells begin there: even
ones at multiples of a round unit, and single values of their own at zero, at the ends of the range
and at 1, 2, 3, 5, 10, 20, ... Each of these has finer ones: multiples of a smaller round unit, and
the gaps between them. Dates have cells from one beginning of a day, month, year or decade to the
next. `Cells.leaves` says which of the finer ones stand out of noisy counts, and divides those once
more; all others stay together. It reads released numbers alone.

A round unit is 1, 2 or 5 times a power of ten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ._columns import Date, Numeric

Floats = NDArray[np.float64]
Starts = NDArray[Any]  # numbers of values for a column with a step, else where cells begin

# examples/benchmarks/bins.py compares these and others. Even cells of a range, at most: with 128,
# noise in the empty part of a wide range moves means; with 16, cuts inside them are read worse. A
# column with at most so many values has a cell for each.
N_EVEN, N_VALUES = 32, 128
# Decades of single round values below the end of the range that is farther from zero.
_DECADES = 6
_SINGLES = (1, 2, 3, 5)
# Without a step, a cell begins before its number by this part of it, so that rounding in float32
# moves the number nowhere; and by no more than these parts of an even cell and of a finer unit.
_AS_FLOAT32, _OF_EVEN, _OF_FINER = 2.0**-22, 2.0**-14, 2.0**-6
# Share of the rows that a fine cell must have to be a leaf.
_LEAST_SHARE_OF_LEAF = 0.003
# A cell with twice this share of the rows, as two bins have, is cut where so many more have gone
# by, if they are four standard deviations of their noise.
_SHARE_OF_BIN = 0.07
# Leaves that stand out of a column at most, the heaviest first: no more have the least share.
_MOST_CUT_OUT = math.floor(1 / _LEAST_SHARE_OF_LEAF)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a column, and the finer ones that may be looked for in them.

    Parameters
    ----------
    line : _Line
    starts : ndarray
        Where cells begin.
    fine : ndarray
        Where the finer ones begin, those of `starts` included.
    most_cut_out : int
        The largest number of finer cells that stand out, on each level.
    """

    line: _Line
    starts: Starts
    fine: Starts
    most_cut_out: int

    @property
    def are_fine(self) -> bool:
        """Whether there are finer cells."""
        return len(self.starts) < len(self.fine)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The edges of the cells, from `low` to `high`; between the values of a step."""
        return self.line.edges(self.starts)

    @cached_property
    def fine_edges(self) -> tuple[float, ...]:
        """The edges of the finer cells."""
        return self.line.edges(self.fine)

    def points(self, edges: Sequence[float]) -> tuple[float, ...]:
        """Return the numbers that cells with these edges stand for, where it is a single one."""
        known = self.line.points
        return tuple(known[ends] for ends in pairwise(edges) if ends in known)

    def divided(self, which: NDArray[np.intp], most_fine: int, most_in_cell: int) -> Cells:
        """Return the same cells, some of them with finer ones: so many round values in each."""
        n = min(most_fine // (2 * max(len(which), 1)), most_in_cell)
        wide = self.line.wide(self.starts, which) if n else []
        found = [self.starts, *(self.line.divide(a, b, n) for a, b in wide)]
        return replace(self, fine=np.unique(np.concatenate(found)))

    def leaves(self, counts: Floats, std: float, most_fine: int, *, pure: bool = False) -> Cells:
        """Return the cells, with the finer ones that stand out as cells of their own.

        Parameters
        ----------
        counts : ndarray
            Noisy, of the finer cells.
        std : float
            Of the noise in `counts`.
        most_fine : int
            The largest number of finer cells of those that stand out.
        pure : bool, default=False
            Whether the noise is Laplace's: a part ``exp(-sqrt(2) t) / 2`` is beyond t deviations.
        """
        # A tenth of a fine cell of a column, on average, stands out by noise alone.
        n_rows, p = max(float(counts.sum()), 0.0), 0.1 / len(counts)
        by_chance = std * (-math.log(2 * p) / math.sqrt(2) if pure else -ndtri(p))
        first = np.searchsorted(self.fine, self.starts)
        # A fiftieth of the rows is a leaf in any case, although rows are even in its cell.
        excess = counts - self._even(counts, first, most=0.02 * n_rows)
        heaviest = np.argsort(-excess, kind="stable")[: self.most_cut_out]
        out = heaviest[excess[heaviest] > max(by_chance, _LEAST_SHARE_OF_LEAF * n_rows)]
        cuts = self._even_cuts(counts, first, std, _SHARE_OF_BIN * n_rows)
        begun = np.concatenate([first, out, out + 1, cuts[: self.most_cut_out]]).astype(np.int64)
        starts = np.unique(self.fine[begun[begun < len(counts)]])
        found = replace(self, starts=starts, fine=starts)
        # A cell that stands out has up to 256 multiples of a smaller unit, and an even one 8.
        return found.divided(np.searchsorted(starts, self.fine[out]), most_fine, 256)

    def _even(self, counts: Floats, first: NDArray[np.intp], most: float) -> Floats:
        """Return what finer cells have if rows are even in each cell, which has several of them."""
        sizes, width = np.diff(np.append(first, len(counts))), np.diff(self.fine_edges)
        rows, whole = (np.repeat(np.add.reduceat(a, first), sizes) for a in (counts, width))
        even = np.clip(rows * width / whole, 0.0, most)
        return np.where(np.repeat(sizes > 1, sizes), even, np.inf)

    def _even_cuts(
        self, counts: Floats, first: NDArray[np.intp], std: float, rows: float
    ) -> NDArray[np.intp]:
        """Return the finer cells at which so many rows more have gone by in a cell."""
        found = [np.empty(0, np.intp)]
        for start, end in pairwise([*first.tolist(), len(counts)]):
            gone = np.cumsum(counts[start:end])
            if gone[-1] > max(4.0 * std * math.sqrt(end - start), 2 * rows, 0.0):
                wanted = rows * np.arange(1, gone[-1] // rows) if rows else np.empty(0)
                found.append(start + 1 + np.searchsorted(np.maximum.accumulate(gone), wanted))
        return np.unique(np.concatenate(found))


def public_cells(column: Numeric, thresholds: Sequence[float], most_fine: int) -> Cells:
    """Return the public cells of a column of numbers.

    Parameters
    ----------
    column : Numeric
        With a range.
    thresholds : sequence of float
        Where cells begin in any case, strictly inside the range.
    most_fine : int
        The largest number of finer cells.
    """
    assert column.bounds is not None
    (low, high), step = column.bounds, column.spacing or 0.0
    line: _Line
    if isinstance(column, Date):
        line = _Calendar(column, thresholds)
    else:
        line = _Grid(column, thresholds) if step else _Line(low, high, thresholds)
    starts = line.first_starts()
    if not line.is_short:
        even = line.round_values(low, high, N_EVEN)
        round_ones = [] if isinstance(column, Date) else _round_values(low, high, step)
        cuts = np.array([*even, *round_ones])
        single = np.array([low, high, *[0.0] * (low < 0 < high)])
        starts = np.unique(np.concatenate([starts, line.begin(cuts), line.alone(single)]))
    cells = Cells(line, starts, starts, min(_MOST_CUT_OUT, most_fine // 8))
    return cells.divided(np.arange(len(starts)), most_fine, 8)


class _Line:
    """Where cells of a column without a step begin.

    Attributes
    ----------
    points : dict
        The number by the edges of its cell, of each that has a cell of its own.
    """

    def __init__(self, low: float, high: float, thresholds: Sequence[float]):
        self._ends = np.array([low, *sorted(thresholds), high])
        far = max(-low, high)
        self.is_short = high - low < 2.0**24 * math.ulp(far)  # which float64 hardly divides
        self._widest, self._narrowest = (high - low) / N_EVEN, far * 10.0**-_DECADES
        self.points: dict[tuple[float, float], float] = {}

    def first_starts(self) -> Starts:
        """Return where cells begin in any case."""
        return self._ends[:-1]

    def begin(self, values: Floats) -> Starts:
        """Return where cells begin that hold each of these numbers, and no smaller ones."""
        return self._inside(self._around(values)[0])

    def alone(self, values: Floats) -> Starts:
        """Return where the cells of single numbers, and those after them, begin."""
        return self._kept(values, *self._around(values))

    def divide(self, low: float, high: float, n: int) -> Starts:
        """Return where cells begin in a wide one: at most `n` round values, and what is between."""
        unit = _round_unit((high - low) / n)
        # Where float64 has fewer numbers in a unit, nothing is divided.
        if unit < 2.0**12 * math.ulp(max(-low, high)):
            return np.empty(0)
        near = min(max(-low, high) * _AS_FLOAT32, unit * _OF_FINER)
        values = _multiples(unit, low, high)
        values = values[values < high]  # which begins the next cell
        below = np.where(values - low < 2 * near, low, values - near)
        return self._kept(values, below, np.where(high - values < 2 * near, high, values + near))

    def _around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the ends of a narrow cell about each number, on this side of the thresholds."""
        near = np.maximum(np.abs(values), self._narrowest) * _AS_FLOAT32
        near = np.minimum(near, self._widest * _OF_EVEN)
        k = np.clip(np.searchsorted(self._ends, values, side="right"), 1, len(self._ends) - 1)
        low, high = self._ends[k - 1], self._ends[k]
        return np.maximum(values - near, low), np.minimum(values + near, high)

    def _kept(self, values: Floats, below: Floats, above: Floats) -> Starts:
        ends = zip(below.tolist(), above.tolist(), strict=True)
        self.points.update(zip(ends, values.tolist(), strict=True))
        return self._inside(np.concatenate([below, above]))

    def _inside(self, starts: Floats) -> Floats:
        return starts[starts < self._ends[-1]]

    def round_values(self, low: float, high: float, n: int) -> Floats:
        """Return at most n round values of a range, but for its ends."""
        return _multiples(_round_unit((high - low) / n), low, high)

    def wide(self, starts: Starts, which: NDArray[np.intp]) -> list[tuple[float, float]]:
        """Return the ends of some cells, but of those of single numbers."""
        ends = np.append(starts, self._ends[-1])
        pairs = zip(ends[which].tolist(), ends[which + 1].tolist(), strict=True)
        return [ends for ends in pairs if ends not in self.points]

    def edges(self, starts: Starts) -> tuple[float, ...]:
        """Return the edges of cells."""
        return (*starts.tolist(), float(self._ends[-1]))


class _Grid(_Line):
    """The same of a column with a step: cells begin at numbers of its values, 0 for the first."""

    def __init__(self, column: Numeric, thresholds: Sequence[float]):
        assert column.bounds is not None
        assert column.n_values is not None
        (self._low, self._high), self._step = column.bounds, float(column.spacing or 1)
        self._n, self._thresholds = column.n_values, np.array(thresholds)
        self.is_short = self._n <= N_VALUES
        self.points = {}

    def first_starts(self) -> Starts:
        every = np.arange(self._n if self.is_short else 1)
        return np.union1d(every, self.begin(self._thresholds))

    def alone(self, values: Floats) -> Starts:
        closest = np.rint((values - self._low) / self._step).astype(np.int64)
        return self._inside(np.concatenate([closest, closest + 1]))

    def begin(self, values: Floats) -> Starts:
        first = np.ceil((values - self._low) / self._step - 1e-6)
        return self._inside(first.astype(np.int64))

    def _inside(self, starts: Starts) -> Starts:
        return starts[(starts >= 0) & (starts < self._n)]

    def wide(self, starts: Starts, which: NDArray[np.intp]) -> list[tuple[float, float]]:
        last = np.append(starts[1:], self._n) - 1
        ends = self._low + np.column_stack([starts, last])[which] * self._step
        return [(a, b) for a, b in ends.tolist() if a < b]

    def divide(self, low: float, high: float, n: int) -> Starts:
        n_values = round((high - low) / self._step) + 1
        if n_values <= 2 * n:  # as many as round ones and gaps
            return self.alone(low + np.arange(float(n_values)) * self._step)
        return self.alone(self.round_values(low, high, n))

    def round_values(self, low: float, high: float, n: int) -> Floats:
        return _multiples(_round_unit(max((high - low) / n, self._step)), low, high)

    def edges(self, starts: Starts) -> tuple[float, ...]:
        between = self._low + (starts[1:] - 0.5) * self._step
        return (self._low, *between.tolist(), self._high)


class _Calendar(_Grid):
    """The same of dates: round values are where days, months, years or decades begin."""

    def __init__(self, column: Date, thresholds: Sequence[float]):
        super().__init__(column, thresholds)
        calendars = [column.calendar(unit) for unit in column.calendar_units]
        self._begun = [edges[:-1] + 0.5 for _, edges in calendars]
        self._begun.append(self._begun[-1][[year[-1] == "0" for year in calendars[-1][0]]])

    def round_values(self, low: float, high: float, n: int) -> Floats:
        found = [begun[(low <= begun) & (begun <= high)] for begun in self._begun]
        some = next((begun for begun in found if 0 < len(begun) <= 2 * n), None)
        return super().round_values(low, high, n) if some is None else some


def _round_unit(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... times a power of ten that is as large."""
    power = math.floor(math.log10(least))
    units = (_decimal(d, k) for k in (power, power + 1) for d in (1, 2, 5))
    return next(unit for unit in units if unit >= least)


def _decimal(digits: int, power: int) -> float:
    """Return a decimal number as it is written."""
    return float(f"{digits}e{power}")


def _multiples(unit: float, low: float, high: float) -> Floats:
    """Return the multiples of a round unit from one number to another, as they are written."""
    first, last = math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9)
    digits, power = f"{unit:e}".split("e")
    every, d = range(first, last + 1), int(float(digits))
    found = np.array([float(f"{k * d}e{power}") for k in every])
    return found[(low <= found) & (found <= high)]


def _round_values(low: float, high: float, step: float) -> list[float]:
    """Return zero and 1, 2, 3, 5, 10, 20, ..., inside a range, either sign."""
    top = math.floor(math.log10(max(-low, high)))
    sizes = [_decimal(d, k) for k in range(top - _DECADES, top + 1) for d in _SINGLES]
    found = [0.0, *(sign * size for size in sizes if size >= step for sign in (1, -1))]
    return [v for v in found if low <= v <= high]
