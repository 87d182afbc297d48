"""Where in a cell of a column the rows lie: what fine counts and the neighbouring cells tell.

A model counts rows in cells. Where in them they lie is known from finer counts, which are noisy,
and from how rows go from cell to cell: the densities of neighbours tell how that of a cell tilts.
Both are brought together in a binary tree for each cell: at each node the share of the rows on its
left is a mean, by precision, of what the densities expect and of what was counted. Far from what is
expected, the count is believed alone. What remains uncertain is kept at the nodes, so that the
error of any function's mean follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Rows on the left of a node are expected as if a row's place were known of so many of them. Of a
# column of categories that were counted together, nothing is known: then it is one row.
PLACES = 12.0
# Nor is it of a bin of numbers that has so large a part of the column's rows: what its neighbours
# tell is known up to the first part, and less and less up to the other.
_SOME, _MOST = 0.12, 0.5
# Standard errors by which such a part may be larger than it seems.
_UNSEEN = 2.0
# At a node what is expected has a spread of so many times that, with these chances, unless it is
# worth nothing, with the last one.
_SURE, _WORTHLESS = ((0.74, 1.0), (0.26, 3.0)), 0.01
# The last chance for an end of the range, where many rows may have one value.
_SPIKE_AT_END = 0.5
# The spread p (1 - p) of a share p is at least this. With 0.03, noise in the empty tail of a
# wide range moved means by up to 97 per cent (examples/benchmarks/unseen.py has such tables).
_LEAST_SPREAD = 0.002
# Log densities grow by so much in a cell at most; of falling ones at an end of the range, the mean
# is this part of the first.
_STEEP, _STEEPEST, _LEVEL = float(np.log(40)), 60.0, 1e-6
# A cell so many times as dense as its neighbours, and so much narrower, says nothing of them.
_SPIKE, _NARROW = 5.0, 0.2
# Rows that an empty cell is taken to have.
_FEWEST = 0.5
# Atoms of a column, and those of a piece that nobody divided.
_MOST_ATOMS, _MOST_OF_PIECE = 512, 8
_SMALLEST = 1e-300


class Jumped(NamedTuple):
    """The mass of each atom if densities jump, and whether its cell lies between two others."""

    masses: Floats
    is_between: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Shape:
    """How the rows of each cell are spread over its atoms, and how sure that is.

    Atoms of a cell are taken in their order; a node divides some that follow one another.

    Parameters
    ----------
    cell_of_atom : ndarray of int, shape (n_atoms,)
    shares : ndarray of shape (n_atoms,)
        Of each atom in its cell.
    start, middle, end : ndarray of int, shape (n_nodes,)
        Places of the atoms of each node, in the order of cells.
    std : ndarray of shape (n_nodes,)
        Standard deviation of the share of the cell's rows that is on the left of a node.
    of_count : ndarray of shape (n_atoms,)
        Of categories that were counted together, the variance that the own count leaves of a share.
    """

    cell_of_atom: Codes
    shares: Floats
    start: Codes
    middle: Codes
    end: Codes
    std: Floats
    of_count: Floats

    def variance(self, values: Floats) -> Floats:
        """Return the variance of the mean of values of the atoms in each cell.

        Parameters
        ----------
        values : ndarray of shape (n_atoms, k)

        Returns
        -------
        ndarray of shape (n_cells, k)
        """
        order = np.argsort(self.cell_of_atom, kind="stable")
        weights = self.shares[order] + _LEAST_WEIGHT
        mass = np.concatenate([[0.0], np.cumsum(weights)])
        sums = np.cumsum(weights[:, None] * values[order], axis=0)
        sums = np.concatenate([np.zeros((1, values.shape[1])), sums])

        def mean(start: Codes, end: Codes) -> Floats:
            return (sums[end] - sums[start]) / (mass[end] - mass[start])[:, None]

        step = mean(self.start, self.middle) - mean(self.middle, self.end)
        found = np.zeros((int(self.cell_of_atom.max()) + 1, values.shape[1]))
        cell = self.cell_of_atom[order][self.start]
        np.add.at(found, cell, (self.std[:, None] * step) ** 2)
        if not self.of_count.any():
            return found
        # A node says little of a category whose own share seems to be 0.
        middle = np.zeros_like(found)
        np.add.at(middle, self.cell_of_atom, self.shares[:, None] * values)
        alone = np.zeros_like(found)
        off = values - middle[self.cell_of_atom]
        np.add.at(alone, self.cell_of_atom, self.of_count[:, None] * off**2)
        return np.maximum(found, alone)


_LEAST_WEIGHT = 1e-12


def subdivided(edges: Floats, step: float | None, whole: NDArray[np.bool_]) -> tuple[Floats, Codes]:
    """Return edges of atoms, several in each piece, and the piece of each atom.

    Parameters
    ----------
    edges : ndarray
        Of the pieces.
    step : float or None
        Of the column: atoms hold whole values.
    whole : ndarray of bool
        Pieces that stay whole.
    """
    n_pieces = len(edges) - 1
    most = int(np.clip(_MOST_ATOMS // n_pieces, 1, _MOST_OF_PIECE))
    counts = np.where(whole, 1, most)
    if step is not None:
        n_values = np.rint(np.diff(edges) / step).astype(np.int64)
        counts = np.minimum(counts, np.maximum(n_values, 1))
    piece = np.repeat(np.arange(n_pieces), counts)
    rank = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = rank / counts[piece]
    width = np.diff(edges)
    if step is not None:
        share = np.rint(share * n_values[piece]) / np.maximum(n_values[piece], 1)
    starts = edges[piece] + share * width[piece]
    return np.append(starts, edges[-1]), piece


class Expected(NamedTuple):
    """What may be expected of where in the cells of a column rows lie, before fine counts.

    Parameters
    ----------
    masses : ndarray of shape (n_atoms,)
        In any unit.
    jumped : ndarray of shape (n_atoms,)
        The same, if density jumps inside each cell from that of one neighbour to that of the other.
    places : ndarray of shape (n_cells,)
        Of how many rows of each cell a place is known, as it were.
    alone : ndarray of bool, shape (n_cells,)
        Cells of which neighbours tell nothing.
    """

    masses: Floats
    jumped: Floats
    places: Floats
    alone: NDArray[np.bool_]

    @classmethod
    def even(cls, n_atoms: int, n_cells: int) -> Expected:
        """Return what is expected of categories, of which none tells of another."""
        ones = np.ones(n_atoms)
        return cls(ones, ones, np.ones(n_cells), np.zeros(n_cells, np.bool_))


def expected_masses(
    edges: Floats, pieces: Floats, cell_of_atom: Codes, masses: Floats, noise: Floats
) -> Expected:
    """Return the mass of each atom that may be expected, and how sure that is.

    Densities of neighbouring cells tell it, as far as a cell has neighbours. A cell with most of
    the rows has none: it is the column. What is then expected goes by the pieces and not by widths,
    because public cells are finer where columns tend to have more rows.

    Parameters
    ----------
    edges, pieces : ndarray
        Of the atoms, whose cells are intervals in their order, and of the pieces that have them.
    cell_of_atom : ndarray of int
    masses, noise : ndarray of shape (n_cells,)
        Rows of each cell as they were counted, and the standard deviation of the noise on them.
    """
    part = _part(edges, cell_of_atom, masses, noise)
    known = np.clip((_MOST - part) / (_MOST - _SOME), 0.0, 1.0)
    masses = np.maximum(masses, 0.0)
    by_width = _by_densities(edges, cell_of_atom, masses)
    ranks = np.interp(edges, pieces, np.arange(len(pieces)))
    by_rank = _by_densities(ranks, cell_of_atom, masses)
    expected = by_rank + known[cell_of_atom] * (by_width - by_rank)
    jumped = by_a_jump(edges, cell_of_atom, masses).masses
    return Expected(expected, jumped, PLACES**known, part >= _MOST)


def _by_densities(edges: Floats, cell_of_atom: Codes, masses: Floats) -> Floats:
    """Return the mass of each atom that the densities of neighbouring cells let expect.

    In each cell the density is exponential, from what it is between the cell and its neighbour on
    the left to what it is on the right. At an end of the range it falls as its mass says.
    """
    first, ends, own = _cells(edges, cell_of_atom, masses)
    width = np.diff(ends)
    tilt = _tilts(np.log(np.maximum(own, _FEWEST) / width), width)
    at = np.searchsorted(first, np.arange(len(cell_of_atom)), side="right") - 1
    low, high = ((one - ends[at]) / width[at] for one in (edges[:-1], edges[1:]))
    steep = np.where(np.abs(tilt) < _LEVEL, _LEVEL, tilt)[at]
    part = (np.exp(steep * high) - np.exp(steep * low)) / np.expm1(steep)
    return np.maximum(own, _FEWEST)[at] * np.maximum(part, 1e-9 * (high - low))


def by_a_jump(edges: Floats, cell_of_atom: Codes, masses: Floats, beyond: float = 0.0) -> Jumped:
    """Return the mass of each atom if a cell has the densities of its neighbours, side by side.

    As where nobody is below 18: the mass of the cell tells where one density ends. A cell denser
    than both neighbours, or than none, is even.

    Parameters
    ----------
    edges : ndarray
        Of the atoms.
    cell_of_atom : ndarray of int
    masses : ndarray of shape (n_cells,)
    beyond : float, default=0.0
        The density beyond the range, as a part of that of the cell at its end. By default there is
        nobody.
    """
    first, ends, own = _cells(edges, cell_of_atom, masses)
    width = np.diff(ends)
    density = own / width
    smooth = np.flatnonzero(~_spiked(np.log(np.maximum(own, _FEWEST) / width), width))
    left, right = density.copy(), density.copy()
    beside = np.pad(density[smooth], 1, mode="edge") if len(smooth) else np.zeros(2)
    beside[[0, -1]] *= beyond
    left[smooth], right[smooth] = beside[:-2], beside[2:]
    is_between = (left - density) * (density - right) > 0
    left, right = np.where(is_between, left, density), np.where(is_between, right, density)
    apart = np.where(is_between, left - right, 1.0)
    place = np.where(is_between, (density - right) / apart, 0.0)
    at = np.searchsorted(first, np.arange(len(cell_of_atom)), side="right") - 1
    low, high = ((one - ends[at]) / width[at] for one in (edges[:-1], edges[1:]))
    on_left = np.minimum(high, place[at]) - np.minimum(low, place[at])
    found = (left[at] * on_left + right[at] * (high - low - on_left)) * width[at]
    return Jumped(found, is_between[at])


def _part(edges: Floats, cell_of_atom: Codes, masses: Floats, noise: Floats) -> Floats:
    """Return how large a part of the column's rows each cell may have, spikes aside.

    Spikes tell nothing of their neighbours.
    """
    first, ends, own = _cells(edges, cell_of_atom, masses)
    width, there = np.diff(ends), np.maximum(own, _FEWEST)
    smooth = ~_spiked(np.log(there / width), width)
    unseen = _UNSEEN * noise[cell_of_atom[first]]
    total = own[smooth].sum() - np.linalg.norm(unseen[smooth])
    part = np.zeros(len(masses))
    part[cell_of_atom[first]] = np.where(smooth, (there + unseen) / max(total, _FEWEST), 0.0)
    return part


def _cells(edges: Floats, cell_of_atom: Codes, masses: Floats) -> tuple[Codes, Floats, Floats]:
    """Return the first atom of each cell, the cells' edges, and their rows."""
    first = np.flatnonzero(np.diff(cell_of_atom, prepend=-1))
    return first, np.append(edges[first], edges[-1]), masses[cell_of_atom[first]]


def _tilts(density: Floats, width: Floats) -> Floats:
    """Return by how much the log density grows from the left to the right end of each cell."""
    spiked = _spiked(density, width)
    smooth = np.flatnonzero(~spiked)
    tilt = np.zeros(len(density))
    for place, k in enumerate(smooth.tolist()):
        ends: list[float | None] = []
        for other in (place - 1, place + 1):
            if not 0 <= other < len(smooth):
                ends.append(None)
                continue
            n = int(smooth[other])
            gap = width[min(k, n) + 1 : max(k, n)].sum()
            own, far = width[k] / 2, width[n] / 2 + gap
            ends.append(float((density[k] * far + density[n] * own) / (own + far)))
        tilt[k] = _tilt(density[k], *ends)
    return tilt


def _spiked(density: Floats, width: Floats) -> NDArray[np.bool_]:
    """Return which cells are narrow, and far denser than both neighbours."""
    found = np.zeros(len(density), np.bool_)
    for k in range(len(density)):
        near = [n for n in (k - 1, k + 1) if 0 <= n < len(density)]
        if near:
            denser = density[k] - max(density[n] for n in near) > np.log(_SPIKE)
            found[k] = denser and width[k] < _NARROW * min(width[n] for n in near)
    return found


def _tilt(own: float, left: float | None, right: float | None) -> float:
    if left is not None and right is not None:
        return float(np.clip(right - left, -_STEEP, _STEEP))
    if left is not None:
        return _falling(own - left)
    return 0.0 if right is None else -_falling(own - right)


def _falling(log_ratio: float) -> float:
    """Return the tilt of a density that begins at 1, whose mean is the exponential of this."""
    if log_ratio > -1e-6:  # where a root could not be told from 0
        return min(2 * log_ratio, _STEEP)
    ratio = max(np.exp(log_ratio), 1 / _STEEPEST)
    return brentq(lambda t: np.expm1(t) / t - ratio, -2 * _STEEPEST, -1e-9)


class Counts:
    """Noisy counts of pieces, of the finest histogram of a column.

    Parameters
    ----------
    counts, variance : ndarray of shape (n_pieces,)
    """

    def __init__(self, counts: Floats, variance: Floats):
        self.counts = np.concatenate([[0.0], np.cumsum(counts)])
        self.variance = np.concatenate([[0.0], np.cumsum(variance)])

    def of(self, start: int, end: int) -> tuple[float, float]:
        """Return the count of pieces and its variance."""
        return (
            float(self.counts[end] - self.counts[start]),
            float(self.variance[end] - self.variance[start]),
        )


def fitted_shape(
    cell_of_atom: Codes,
    piece_of_atom: Codes,
    expected: Expected,
    masses: Floats,
    counted: Counts | None,
    blind: NDArray[np.bool_],
    ends_of_range: NDArray[np.bool_],
    is_categorical: bool,
) -> Shape:
    """Return the shape of all cells of a column.

    Parameters
    ----------
    cell_of_atom, piece_of_atom : ndarray of int, shape (n_atoms,)
    expected : Expected
    masses : ndarray of shape (n_cells,)
        Rows of each cell.
    counted : Counts or None
        Of the pieces, in the order of the atoms by cell; None where nobody divided cells.
    blind : ndarray of bool, shape (n_cells,)
        Cells whose rows may be anywhere. Fine counts tell nothing of them, nor is there a variance.
    ends_of_range : ndarray of bool, shape (n_atoms,)
        Narrow atoms at an end of the range.
    is_categorical : bool
        Whether atoms are categories, of which none tells of another.
    """
    order = np.argsort(cell_of_atom, kind="stable")
    pieces = _renumbered(piece_of_atom[order])
    tree = _Tree(expected, order, pieces, counted, ends_of_range[order])
    firsts = np.flatnonzero(np.diff(cell_of_atom[order], prepend=-1))
    ends = np.append(firsts[1:], len(order))
    for cell, (start, end) in enumerate(zip(firsts.tolist(), ends.tolist(), strict=True)):
        rows = 0.0 if blind[cell] else max(float(masses[cell]), 0.0)
        tree.split(start, end, rows, float(expected.places[cell]))
    shares = np.empty(len(order))
    shares[order] = tree.shares
    of_count = np.zeros(len(order))
    if is_categorical and counted is not None:
        noise = np.diff(counted.variance)[pieces]
        in_cell = np.maximum(masses[cell_of_atom[order]], _FEWEST)
        several = np.bincount(cell_of_atom)[cell_of_atom[order]] > 1
        of_count[order] = np.where(several, np.minimum(noise / in_cell**2, 0.25), 0.0)
    nodes = np.array([node[:3] for node in tree.nodes], np.int64).reshape(-1, 3)
    std = np.array([node[3] for node in tree.nodes])
    std = np.where(blind[cell_of_atom[order][nodes[:, 0]]], 0.0, std)
    cut = nodes[:, 0], nodes[:, 1], nodes[:, 2]
    return Shape(cell_of_atom, shares, *cut, std, of_count)


def _renumbered(pieces: Codes) -> Codes:
    """Return pieces numbered in the order in which atoms have them."""
    return np.cumsum(np.diff(pieces, prepend=pieces[:1]) != 0)


class _Tree:
    """Divides the rows of cells among their atoms, a node after the other."""

    def __init__(
        self,
        expected: Expected,
        order: NDArray[np.intp],
        pieces: Codes,
        counted: Counts | None,
        ends_of_range: NDArray[np.bool_],
    ):
        self._ends_of_range = ends_of_range
        self._expected = np.concatenate([[0.0], np.cumsum(expected.masses[order])])
        self._jumped = np.concatenate([[0.0], np.cumsum(expected.jumped[order])])
        self._pieces, self._counted = pieces, counted
        self.shares = np.zeros(len(order))
        self.nodes: list[tuple[int, int, int, float]] = []

    def split(self, start: int, end: int, rows: float, places: float) -> None:
        """Divide the rows of a cell among its atoms, from `start` to `end`."""
        todo = [(start, end, 1.0)]
        while todo:
            start, end, share = todo.pop()
            if end - start == 1:
                self.shares[start] = share
                continue
            middle = self._middle(start, end)
            left, std = self._left(start, middle, end, share, rows, places)
            self.nodes.append((start, middle, end, std))
            todo += [(start, middle, left), (middle, end, share - left)]

    def _middle(self, start: int, end: int) -> int:
        """Return where to divide: between two pieces, as long as there are several.

        An end of the range comes first: what its count says of it must not drown in that of others.
        """
        if self._ends_of_range[start]:
            return start + 1
        if self._ends_of_range[end - 1]:
            return end - 1
        first, last = self._pieces[start], self._pieces[end - 1]
        if first == last:
            return (start + end) // 2
        return int(np.searchsorted(self._pieces[start:end], (first + last + 1) // 2)) + start

    def _left(
        self, start: int, middle: int, end: int, share: float, rows: float, places: float
    ) -> tuple[float, float]:
        """Return the share of the cell's rows that is on the left, and its standard deviation."""
        part = _part_on_the_left(self._expected, start, middle, end, 0.5)
        jump = _part_on_the_left(self._jumped, start, middle, end, part) - part
        smooth = share * np.sqrt(max(part * (1 - part), _LEAST_SPREAD) / places)
        spread = np.hypot(smooth, share * jump)
        at_end = bool(self._ends_of_range[start] or self._ends_of_range[end - 1])
        told = self._counted_left(start, middle, end, share, rows)
        if told is None:
            return share * part, float(share / 2 if at_end else smooth)
        count, variance = told
        left, std = _brought_together(share * part, spread, count, variance, share, at_end)
        if at_end and np.sqrt(variance) > share / 4:  # which is to say nothing
            std = share / 2
        return float(np.clip(left, 0.0, share)), float(min(std, share / 2))

    def _counted_left(
        self, start: int, middle: int, end: int, share: float, rows: float
    ) -> tuple[float, float] | None:
        """Return the counted share on the left and its variance, None where nobody counted it."""
        first, cut, last = self._pieces[start], self._pieces[middle], self._pieces[end - 1] + 1
        if self._counted is None or cut == self._pieces[middle - 1] or rows <= 0:
            return None
        left, of_left = self._counted.of(first, cut)
        right, of_right = self._counted.of(cut, last)
        other = share * rows - right  # what is not on the right
        # Exact counts have no variance: both sides then tell the same.
        of_left, of_right = max(of_left, _SMALLEST), max(of_right, _SMALLEST)
        total = of_left + of_right
        count = (left * of_right + other * of_left) / total
        return count / rows, of_left * of_right / total / rows**2


def _part_on_the_left(sums: Floats, start: int, middle: int, end: int, otherwise: float) -> float:
    """Return the part of a node's mass that is on its left, where it has any."""
    whole = sums[end] - sums[start]
    return float((sums[middle] - sums[start]) / whole) if whole > _SMALLEST else otherwise


def _brought_together(
    expected: float,
    spread: float,
    count: float,
    variance: float,
    share: float,
    at_end: bool,
) -> tuple[float, float]:
    """Return the mean and the standard deviation of what was expected and then counted.

    What is expected is as sure as `spread` says, or less sure (`_SURE`), or worth nothing. Of an
    end of the range the error is that of the count, as if it were worth nothing: nothing else
    speaks against a spike.
    """
    worthless = _SPIKE_AT_END if at_end else _WORTHLESS
    variance = max(variance, _SMALLEST)
    chances, means, variances = [], [], []
    told = [(chance * (1 - worthless), factor * spread) for chance, factor in _SURE]
    for chance, std in (*told, (worthless, share / 2)):
        wide = max(std**2, _SMALLEST)
        total = wide + variance
        off = (count - expected) ** 2 / total
        chances.append(chance * np.exp(-off / 2) / np.sqrt(2 * np.pi * total) + _SMALLEST)
        means.append((expected * variance + count * wide) / total)
        variances.append(wide * variance / total)
    weights = np.array(chances) / np.sum(chances)
    mean = float(weights @ means)
    squares = np.array(variances) + (np.array(means) - mean) ** 2
    return mean, float(np.sqrt(squares[-1] if at_end else weights @ squares))
