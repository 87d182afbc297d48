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
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..._linear_systems import TINY
from .._numbers import PSEUDO_ROWS, SPIKE, TOLD_SHARE, UNTOLD_SHARE, Codes, Floats


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

    @cached_property
    def by_cell(self) -> Codes:
        """The atoms in the order of their cells."""
        return np.argsort(self.cell_of_atom, kind="stable")

    @cached_property
    def firsts(self) -> Codes:
        """Where in that order each cell begins, and where the last one ends."""
        return np.searchsorted(self.cell_of_atom[self.by_cell], np.arange(self.n_cells + 1))

    @property
    def n_cells(self) -> int:
        """Number of cells, that of missing values included."""
        return int(self.cell_of_atom.max()) + 1

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.cell_of_atom)


def _summed(values: Floats) -> Floats:
    """Return the sums of the first values, from none to all of them."""
    return np.insert(np.cumsum(values, axis=0), 0, 0.0, axis=0)


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
    most = int(np.clip(512 // n_pieces, 1, 8))
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
    places : ndarray of shape (n_cells,)
        Of how many rows of each cell a place is known, as it were.
    isolated : ndarray of bool, shape (n_cells,)
        Cells of which neighbours tell nothing.
    """

    masses: Floats
    places: Floats
    isolated: NDArray[np.bool_]


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
    known = np.clip((UNTOLD_SHARE - part) / (UNTOLD_SHARE - TOLD_SHARE), 0.0, 1.0)
    masses = np.maximum(masses, 0.0)
    by_width = _by_densities(edges, cell_of_atom, masses)
    ranks = np.interp(edges, pieces, np.arange(len(pieces)))
    by_rank = _by_densities(ranks, cell_of_atom, masses)
    expected = by_rank + known[cell_of_atom] * (by_width - by_rank)
    return Expected(expected, PSEUDO_ROWS**known, part >= UNTOLD_SHARE)


def _by_densities(edges: Floats, cell_of_atom: Codes, masses: Floats) -> Floats:
    """Return the mass of each atom that the densities of neighbouring cells let expect.

    In each cell the density is exponential, from what it is between the cell and its neighbour on
    the left to what it is on the right. At an end of the range it falls as its mass says.
    """
    ends, own = _cells(edges, cell_of_atom, masses)
    width, own = np.diff(ends), np.maximum(own, 1.0)
    tilt = _tilts(own, ends)
    at = cell_of_atom
    low, high = ((one - ends[at]) / width[at] for one in (edges[:-1], edges[1:]))
    steep = np.where(np.abs(tilt) < 1e-6, 1e-6, tilt)[at]  # a tilt of 0 is 0 / 0
    part = (np.exp(steep * high) - np.exp(steep * low)) / np.expm1(steep)
    return own[at] * np.maximum(part, 1e-9 * (high - low))


def by_a_jump(
    edges: Floats, cell_of_atom: Codes, masses: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the mass of each atom if a cell has the densities of its neighbours, side by side.

    As where nobody is below 18: the mass of the cell tells where one density ends. A cell denser
    than both neighbours, or than none, is even; which atoms are in no such cell comes second. Where
    the range ends, rows may well, so nothing jumps there.

    Parameters
    ----------
    edges : ndarray
        Of the atoms.
    cell_of_atom : ndarray of int
        Increasing from 0.
    masses : ndarray of shape (n_cells,)
    """
    ends, own = _cells(edges, cell_of_atom, masses)
    width, at = np.diff(ends), cell_of_atom
    density, smooth = own / width, smooth_pieces(own, width)
    left, right = density.copy(), density.copy()
    beside = np.pad(density[smooth], 1, mode="edge")
    left[smooth], right[smooth] = beside[:-2], beside[2:]
    is_between = (left - density) * (density - right) > 0
    left, right = np.where(is_between, left, density), np.where(is_between, right, density)
    difference = np.where(is_between, left - right, 1.0)
    place = np.where(is_between, (density - right) / difference, 0.0)
    low, high = ((one - ends[at]) / width[at] for one in (edges[:-1], edges[1:]))
    on_left = np.minimum(high, place[at]) - np.minimum(low, place[at])
    found = (left[at] * on_left + right[at] * (high - low - on_left)) * width[at]
    return found, is_between[at]


def _part(edges: Floats, cell_of_atom: Codes, masses: Floats, noise: Floats) -> Floats:
    """Return how large a part of the column's rows each cell may have, spikes aside.

    Spikes tell nothing of their neighbours.
    """
    ends, own = _cells(edges, cell_of_atom, masses)
    # A part may be larger than it seems by two standard errors.
    smooth, unseen = smooth_pieces(own, np.diff(ends)), 2 * noise[: len(own)]
    total = own[smooth].sum() - np.linalg.norm(unseen[smooth])
    part = np.zeros(len(masses))
    largest = (np.maximum(own, 1.0) + unseen) / max(total, 1.0)
    part[: len(own)] = np.where(smooth, largest, 0.0)
    return part


def _cells(edges: Floats, cell_of_atom: Codes, masses: Floats) -> tuple[Floats, Floats]:
    """Return the edges of the cells, and their rows; missing values have none."""
    first = np.flatnonzero(np.diff(cell_of_atom, prepend=-1))
    return np.append(edges[first], edges[-1]), masses[: len(first)]


def _tilts(own: Floats, ends: Floats) -> Floats:
    """Return by how much the log density grows from the left to the right end of each cell.

    Between the middles of two cells it changes evenly.
    """
    width, tilt = np.diff(ends), np.zeros(len(own))
    smooth = np.flatnonzero(smooth_pieces(own, width))
    if len(smooth) > 1:
        density, middle = np.log(own / width)[smooth], (ends[:-1] + width / 2)[smooth]
        left, right = (np.interp(ends[smooth + k], middle, density) for k in (0, 1))
        tilt[smooth] = right - left
        tilt[smooth[0]] = -_falling(density[0] - right[0])
        tilt[smooth[-1]] = _falling(density[-1] - left[-1])
    return tilt


def smooth_pieces(own: Floats, width: Floats) -> NDArray[np.bool_]:
    """Return which cells are no spikes: narrow ones, far denser than both neighbours."""
    if len(own) < 2:
        return np.ones(len(own), np.bool_)
    density = np.log(np.maximum(own, 1.0) / width)
    beside = np.pad(density, 1, constant_values=-np.inf)
    denser = density - np.maximum(beside[:-2], beside[2:]) > np.log(SPIKE)
    beside = np.pad(width, 1, constant_values=np.inf)
    return ~(denser & (SPIKE * width < np.minimum(beside[:-2], beside[2:])))


def _falling(log_ratio: float) -> float:
    """Return the tilt of a density that begins at 1, whose mean is the exponential of this."""
    if log_ratio > -1e-6:  # where a root could not be told from 0
        return 2 * log_ratio
    steepest = 60.0  # a density whose mean is a smaller part of its start is taken for this one
    ratio = max(np.exp(log_ratio), 1 / steepest)
    return brentq(lambda t: np.expm1(t) / t - ratio, -2 * steepest, -1e-9)


class Counts(NamedTuple):
    """Noisy counts of pieces, of the finest histogram of a column, in the order of their cells.

    Parameters
    ----------
    counts, variance : ndarray of shape (n_pieces,)
    """

    counts: Floats
    variance: Floats


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
    pieces, cells = piece_of_atom[order], cell_of_atom[order]
    pieces = np.cumsum(np.diff(pieces, prepend=pieces[:1]) != 0)  # in the order of cells
    counts, variance = np.zeros((2, pieces[-1] + 1)) if counted is None else counted
    tree = _Tree(expected.masses[order], pieces, Counts(counts, variance), ends_of_range[order])
    rows = np.where(blind | (counted is None), 0.0, np.maximum(masses, 0.0))
    firsts = np.searchsorted(cells, np.arange(len(masses) + 1))
    in_order, (start, middle, end, std) = tree.split(firsts, rows, expected.places)
    shares, of_count = np.empty(len(order)), np.zeros(len(order))
    shares[order] = in_order
    if is_categorical:
        found = np.minimum(variance[pieces] / np.maximum(masses[cells], 1.0) ** 2, 0.25)
        of_count[order] = np.where(np.bincount(cells)[cells] > 1, found, 0.0)
    std = np.where(blind[cells[start]], 0.0, std)
    by_cell = np.lexsort([start, -end, cells[start]])  # the largest first, then those on its right
    start, middle, end, std = (one[by_cell] for one in (start, middle, end, std))
    return Shape(cell_of_atom, shares, start, middle, end, std, of_count)


class _Tree:
    """Divides the rows of cells among their atoms, all nodes of a depth at once.

    Atoms are in the order of cells. What is expected and what was counted are kept as sums from the
    first atom, or piece, on.
    """

    def __init__(self, expected: Floats, pieces: Codes, counted: Counts, at_end: NDArray[np.bool_]):
        self._expected, self._pieces = _summed(expected), pieces
        self._counted, self._ends_of_range = [_summed(one) for one in counted], at_end

    def split(
        self, firsts: Codes, rows: Floats, places: Floats
    ) -> tuple[Floats, tuple[NDArray, ...]]:
        """Return the share of each atom in its cell, and all nodes.

        Parameters
        ----------
        firsts : ndarray of int, shape (n_cells + 1,)
            Where each cell begins, and where the last one ends.
        rows : ndarray of shape (n_cells,)
            Of which counts tell; 0 where they do not.
        places : ndarray of shape (n_cells,)
            As in `Expected`.

        Returns
        -------
        shares : ndarray of shape (n_atoms,)
        nodes : tuple of ndarray
            Starts, middles and ends of the nodes, and standard deviations of shares on the left.
        """
        shares, nodes = np.empty(len(self._pieces)), []
        todo: tuple[NDArray, ...] = firsts[:-1], firsts[1:], np.ones(len(rows)), rows, places
        while len(todo[0]):
            start, end, share = todo[:3]
            is_atom = end - start == 1
            shares[start[is_atom]] = share[is_atom]
            start, end, share, rows, places = (one[~is_atom] for one in todo)
            middle = self._middle(start, end)
            left, std = self._left(start, middle, end, share, rows, places)
            nodes.append((start, middle, end, std))
            halves = (start, middle, left, rows, places), (middle, end, share - left, rows, places)
            todo = tuple(map(np.concatenate, zip(*halves, strict=True)))
        return shares, tuple(map(np.concatenate, zip(*nodes, strict=True)))

    def _middle(self, start: Codes, end: Codes) -> Codes:
        """Return where to divide: between two pieces, as long as there are several.

        An end of the range comes first: what its count says of it must not drown in that of others.
        """
        first, last = self._pieces[start], self._pieces[end - 1]
        between = np.searchsorted(self._pieces, (first + last + 1) // 2)
        found = np.where(first == last, (start + end) // 2, between)
        found = np.where(self._ends_of_range[end - 1], end - 1, found)
        return np.where(self._ends_of_range[start], start + 1, found)

    def _left(
        self, start: Codes, middle: Codes, end: Codes, share: Floats, rows: Floats, places: Floats
    ) -> tuple[Floats, Floats]:
        """Return the share of the cell's rows that is on the left, and its standard deviation."""
        first, cut, last = (self._expected[one] for one in (start, middle, end))
        whole = last - first
        # Where nothing is expected, either half may have it.
        part = np.where(whole > TINY, (cut - first) / np.maximum(whole, TINY), 0.5)
        spread = share * np.sqrt(part * (1 - part) / places)
        at_end = self._ends_of_range[start] | self._ends_of_range[end - 1]
        told = (self._pieces[middle] != self._pieces[middle - 1]) & (rows > 0)
        count, variance = self._counted_left(start, middle, end, share, np.where(told, rows, 1.0))
        count = np.where(told, count, 0.0)
        left, std = _brought_together(share * part, spread, count, variance, share, at_end)
        left = np.where(told, np.clip(left, 0.0, share), share * part)
        return left, np.where(told, np.minimum(std, share / 2), np.where(at_end, share / 2, spread))

    def _counted_left(
        self, start: Codes, middle: Codes, end: Codes, share: Floats, rows: Floats
    ) -> tuple[Floats, Floats]:
        """Return the counted share on the left and its variance."""
        first, cut, last = self._pieces[start], self._pieces[middle], self._pieces[end - 1] + 1
        left, of_left = (one[cut] - one[first] for one in self._counted)
        right, of_right = (one[last] - one[cut] for one in self._counted)
        other = share * rows - right  # what is not on the right
        # Exact counts have no variance: both sides then tell the same.
        of_left, of_right = np.maximum(of_left, TINY), np.maximum(of_right, TINY)
        total = of_left + of_right
        count = (left * of_right + other * of_left) / total
        return count / rows, of_left * of_right / total / rows**2


def _brought_together(
    expected: Floats,
    spread: Floats,
    count: Floats,
    variance: Floats,
    share: Floats,
    at_end: NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of what was expected and then counted.

    What is expected is as sure as `spread` says, or worth nothing: with a chance of 0.01, or of 0.5
    at an end of the range, where many rows may have one value. The error there is that of the
    count, as if what is expected were worth nothing: nothing else speaks against a spike.
    """
    worthless = np.where(at_end, 0.5, 0.01)
    chances = np.stack([1 - worthless, worthless])
    wide, variance = np.maximum(np.square([spread, share / 2]), TINY), np.maximum(variance, TINY)
    total = wide + variance
    off = (count - expected) ** 2 / total
    weights = chances * np.exp(-off / 2) / np.sqrt(2 * np.pi * total) + TINY
    weights /= weights.sum(axis=0)
    means, variances = (expected * variance + count * wide) / total, wide * variance / total
    mean = (weights * means).sum(axis=0)
    squares = variances + (means - mean) ** 2
    return mean, np.sqrt(np.where(at_end, squares[-1], (weights * squares).sum(axis=0)))
