"""The joint distribution of a table's columns, inferred from the histograms of a sketch.

`TableModel` fits a graphical model to all counts of a release, in the cells of `column_cells`. The
probabilities of the cells of a group that was counted are its own counts, made consistent with all
others; any other group's are the tree's. What no group has counted, the model takes to be as
independent as the counts allow.

Histograms of one sketch may divide a column in several ways: fine cells found first, bins that were
chosen from them, rare categories taken together. Atoms are the pieces between all these cuts. The
model has one division, the cells; what is known of the atoms inside a cell is its shape, which is
that of all its rows together.

*Shapes* are known from finer counts, which are noisy, and from how rows go from cell to cell: the
densities of neighbours tell how that of a cell tilts. Both are brought together in a binary tree
for each cell: at each node the share of the rows on its left is a mean, by precision, of what the
densities expect and of what was counted. Far from what is expected, the count is believed alone.
What remains uncertain is kept at the nodes, so that the error of any function's mean follows.

*Inside common cells* two numbers are taken to go up and down together (`correlation`), as far as
the step tells that one makes across the cells of the other, and rows of one category to lie more to
one side, where it has more of the rows (`slopes` for two or three columns, `_of_cells` for more).
Synthetic rows and points lie at places of their cells (`places_of_rows`): tables of two columns say
how many rows each place is to have, and rows are rounded to these as they are to counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..._computing import TINY, Codes, Floats
from ...features._feature_maps import FeatureMap, HistogramMap
from ...schema._schema import TableSchema, stack_columns
from ...sketches._graphical import GraphicalModel, Marginal
from ...sketches._inside_cells import (
    across,
    coupled,
    going_along,
    interpolated,
    raked_places,
    running_sums,
)
from ...sketches._private_sketch import PrivateSketch
from ...sketches._rounding import Rounding, evenly, in_order
from .._numbers import (
    MOST_TABLE_CELLS,
    N_POINTS,
    N_QUANTILES,
    PSEUDO_ROWS,
    ROUNDING,
    SPIKE,
    TOLD_SHARE,
    UNTOLD_SHARE,
    Group,
)


def finer(n_pieces: int, most: int) -> int:
    """Return into how many parts each piece of a column is divided, of which it has a most."""
    return int(np.clip(most // n_pieces, 1, 8))


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
    width = np.diff(edges)
    counts = np.where(whole, 1, finer(len(width), 512))
    if step is not None:
        n_values = np.rint(width / step).astype(np.int64)
        counts = np.minimum(counts, np.maximum(n_values, 1))
    piece = np.repeat(np.arange(len(width)), counts)
    rank = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    share = rank / counts[piece]
    if step is not None:
        share = np.rint(share * n_values[piece]) / np.maximum(n_values[piece], 1)
    starts = edges[piece] + share * width[piece]
    return np.append(starts, edges[-1]), piece


def expected_masses(
    edges: Floats, pieces: Floats, cell_of_atom: Codes, masses: Floats, noise: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return the mass of each atom that may be expected, before fine counts, in any unit.

    The rows of each cell of which a place is known, as it were, come second; and then of which
    cells neighbours tell nothing.

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
    return expected, PSEUDO_ROWS**known, part >= UNTOLD_SHARE


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
    masses : ndarray of shape (..., n_cells)
        Of one table or several.
    """
    ends, own = _cells(edges, cell_of_atom, masses)
    width, at = np.diff(ends), cell_of_atom
    density, smooth = own / width, smooth_pieces(own, width)
    left = _before(density, smooth)
    right = _before(density[..., ::-1], smooth[..., ::-1])[..., ::-1]
    is_between = (left - density) * (density - right) > 0
    left, right = np.where(is_between, left, density), np.where(is_between, right, density)
    place = ((density - right) / np.where(is_between, left - right, 1.0))[..., at]
    low, high = ((one - ends[at]) / width[at] for one in (edges[:-1], edges[1:]))
    on_left = np.minimum(high, place) - np.minimum(low, place)
    found = (left[..., at] * on_left + right[..., at] * (high - low - on_left)) * width[at]
    return found, is_between[..., at]


def _before(density: Floats, smooth: NDArray[np.bool_]) -> Floats:
    """Return for each smooth cell the density of the one before, its own where there is none."""
    k = np.arange(density.shape[-1])
    last = np.maximum.accumulate(np.where(smooth, k, -1), axis=-1)
    before = np.insert(last[..., :-1], 0, -1, axis=-1)
    return np.take_along_axis(density, np.where(smooth & (before >= 0), before, k), axis=-1)


def _part(edges: Floats, cell_of_atom: Codes, masses: Floats, noise: Floats) -> Floats:
    """Return how large a part of the column's rows each cell may have, spikes aside.

    Spikes tell nothing of their neighbours.
    """
    ends, own = _cells(edges, cell_of_atom, masses)
    # A part may be larger than it seems by two standard errors.
    smooth, unseen = smooth_pieces(own, np.diff(ends)), 2 * noise[: len(own)]
    total = own[smooth].sum() - np.linalg.norm(unseen[smooth])
    largest = (np.maximum(own, 1.0) + unseen) / max(total, 1.0)
    return np.pad(np.where(smooth, largest, 0.0), (0, len(masses) - len(own)))


def _cells(edges: Floats, cell_of_atom: Codes, masses: Floats) -> tuple[Floats, Floats]:
    """Return the edges of the cells, and their rows; missing values have none."""
    first = np.flatnonzero(np.diff(cell_of_atom, prepend=-1))
    return np.append(edges[first], edges[-1]), masses[..., : len(first)]


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
    if len(width) < 2:
        return np.ones(own.shape, np.bool_)
    density = np.log(np.maximum(own, 1.0) / width)
    beside = np.pad(density, [(0, 0)] * (own.ndim - 1) + [(1, 1)], constant_values=-np.inf)
    denser = density - np.maximum(beside[..., :-2], beside[..., 2:]) > np.log(SPIKE)
    wider = np.pad(width, 1, constant_values=np.inf)
    return ~(denser & (SPIKE * width < np.minimum(wider[:-2], wider[2:])))


def _falling(log_ratio: float) -> float:
    """Return the tilt of a density that begins at 1, whose mean is the exponential of this.

    It is 0 where that is 1 or more: rows become fewer towards the end of a range, or end before it.
    """
    if log_ratio > -1e-6:  # nearer to 0, a root could not be told from it
        return 0.0
    steepest = 60.0  # a density whose mean is a smaller part of its start is taken for this one
    ratio = max(np.exp(log_ratio), 1 / steepest)
    return brentq(lambda t: np.expm1(t) / t - ratio, -2 * steepest, -1e-9)


class _Tree:
    """Divides the rows of cells among their atoms, all nodes of a depth at once.

    Atoms are in the order of cells. What is expected and what was counted are kept as sums from the
    first atom, or piece, on.

    Parameters
    ----------
    cell, piece : ndarray of int, shape (n_atoms,)
    expected : ndarray of shape (n_atoms,)
        In any unit.
    counted : pair of ndarray, shape (n_pieces,)
        Noisy counts and their variances.
    at_end : ndarray of bool, shape (n_atoms,)
        Narrow atoms at an end of the range.
    """

    def __init__(
        self,
        cell: Codes,
        piece: Codes,
        expected: Floats,
        counted: Counts,
        at_end: NDArray[np.bool_],
    ):
        self._order = np.argsort(cell, kind="stable")
        self._cells, pieces = cell[self._order], piece[self._order]
        is_first = np.diff(pieces, prepend=-1) != 0
        self._pieces = np.cumsum(is_first) - 1
        self._counted = [running_sums(one[pieces[is_first]]) for one in counted]
        self._expected = running_sums(expected[self._order])
        self._ends_of_range = at_end[self._order]

    def split(self, rows: Floats, places: Floats) -> tuple[Floats, Nodes]:
        """Return the share of each atom in its cell, and all nodes as `ColumnCells` has them.

        Parameters
        ----------
        rows : ndarray of shape (n_cells,)
            Of which counts tell; 0 where they do not.
        places : ndarray of shape (n_cells,)
            Of how many rows a place in each cell is known, as it were.
        """
        firsts = np.searchsorted(self._cells, np.arange(len(rows) + 1))
        shares, found = np.empty(len(self._pieces)), []
        todo: tuple[NDArray, ...] = firsts[:-1], firsts[1:], np.ones(len(rows)), rows, places
        while len(todo[0]):
            start, end, share = todo[:3]
            is_atom = end - start == 1
            shares[self._order[start[is_atom]]] = share[is_atom]
            start, end, share, rows, places = (one[~is_atom] for one in todo)
            middle = self._middle(start, end)
            left, std = self._left(start, middle, end, share, rows, places)
            found.append((start, middle, end, std))
            halves = (start, middle, left, rows, places), (middle, end, share - left, rows, places)
            todo = tuple(map(np.concatenate, zip(*halves, strict=True)))
        start, middle, end, std = map(np.concatenate, zip(*found, strict=True))
        # The largest of a cell comes first, then those on its right.
        order = np.lexsort([start, -end, self._cells[start]])
        return shares, (start[order], middle[order], end[order], std[order])

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


# Noisy counts and their variances; and the nodes of a tree (`ColumnCells`).
Counts = tuple[Floats, Floats]
Nodes = tuple[Codes, Codes, Codes, Floats]


@dataclass(frozen=True, eq=False)
class Counted:
    """A group as a histogram of the sketch counted it."""

    columns: tuple[int, ...]
    counts: Floats
    std: float
    phase: int
    part: HistogramMap

    def margin(self, j: int) -> tuple[Floats, float]:
        """Return the counts of a column's bins, and the variance of the noise of each."""
        others = tuple(axis for axis, a in enumerate(self.columns) if a != j)
        counts = self.counts.sum(axis=others)
        return counts, self.std**2 * (self.counts.size // len(counts))


def counted_columns(feature_map: FeatureMap) -> list[set[int]]:
    """Return the columns of each histogram of the map."""
    histograms = [part for part in feature_map.parts() if isinstance(part, HistogramMap)]
    return [set(group) for part in histograms for group in part.groups]


def histogram_columns(feature_map: FeatureMap) -> set[int]:
    """Return the columns that some histogram of the map counts."""
    return set().union(*counted_columns(feature_map))


def counted_groups(sketch: PrivateSketch) -> list[Counted]:
    """Return the groups of all histograms of a sketch, in the order of its parts."""
    found = []
    for phase, (part, where) in enumerate(sketch.blocks()):
        if not isinstance(part, HistogramMap):
            continue
        own, noise = sketch.sums[where], sketch.noise_std[where]
        for group, cells in zip(part.groups, part.row_groups(), strict=True):
            counts = own[cells].reshape([part.n_bins[j] for j in group])
            found.append(Counted(tuple(group), counts, float(noise[cells][0]), phase, part))
    return found


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """How one column is divided, how the rows of each cell are spread, and how sure that is.

    Atoms of a cell are taken in their order; a node divides some that follow one another.

    Parameters
    ----------
    schema : TableSchema
    column : int
    edges : ndarray or None
        Of the atoms of a numeric column, half a step beside its values where it has a step. None
        for categories, of which each is an atom. Missing values are the last atom of either.
    points : ndarray of shape (n_present,)
        The number at which all rows of an atom are, NaN where they lie between its edges.
    cell_of_atom : ndarray of int, shape (n_atoms,)
    piece_of_atom : ndarray of int, shape (n_atoms,)
        What histograms did not divide is one piece.
    blind : ndarray of bool, shape (n_cells,)
        Cells, of one piece each, of which nothing tells where in them rows lie: they may be
        anywhere.
    shares : ndarray of shape (n_atoms,)
        Of each atom in its cell.
    of_count : ndarray of shape (n_atoms,)
        Of categories that were counted together, the variance that the own count leaves of a share.
    nodes : tuple of four ndarrays of shape (n_nodes,)
        Where among the atoms in the order of cells each node starts, is divided and ends; and the
        standard deviation of the share of the cell's rows that is on its left. Of blind cells it
        means nothing.
    """

    schema: TableSchema
    column: int
    edges: Floats | None
    points: Floats
    cell_of_atom: Codes
    piece_of_atom: Codes
    blind: NDArray[np.bool_]
    shares: Floats
    of_count: Floats
    nodes: Nodes

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
        return len(self.blind)

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.cell_of_atom)

    @property
    def n_present(self) -> int:
        """Number of atoms that hold values."""
        return self.n_atoms - self.schema.missing(self.column)

    @property
    def single(self) -> NDArray[np.bool_]:
        """Which atoms have a single value."""
        found = np.ones(self.n_atoms, np.bool_)
        if self.edges is not None:
            found[: self.n_present] = ~np.isnan(self.points)
            if step := self.schema.step(self.column):
                found[: self.n_present] = np.rint(np.diff(self.edges) / step) <= 1
        return found

    @property
    def is_exact(self) -> bool:
        """Whether all rows of a cell have one value, or none that can be compared."""
        return self.edges is None or bool(self.single.all() and self.n_atoms == self.n_cells)

    @property
    def n_places(self) -> int:
        """At how many places of each cell rows lie: two columns have up to `N_POINTS` together."""
        return 1 if self.is_exact else finer(self.n_cells, math.isqrt(N_POINTS))

    def at(self, codes: Codes, u: Floats) -> tuple[Codes, Floats]:
        """Return the atom at each quantile `u`, in [0, 1), of a cell, and where in the atom."""
        ends = np.cumsum(self.shares[self.by_cell])  # each cell's shares sum to one
        found = np.searchsorted(ends, codes + u, side="right")
        found = np.clip(found, self.firsts[codes], self.firsts[codes + 1] - 1)
        atoms = self.by_cell[found]
        inside = codes + u - (ends[found] - self.shares[atoms])
        return atoms, np.clip(inside / np.maximum(self.shares[atoms], TINY), 0, 1 - 1e-12)

    def values(self, atoms: Codes, inside: Floats) -> NDArray:
        """Return the values at these places in atoms: floats, or categories; NaN, None: missing."""
        schema, j = self.schema, self.column
        if self.edges is None:
            return schema.decode(j, atoms)
        gone = atoms >= self.n_present
        known = np.where(gone, 0, atoms)
        low, width = self.edges[known], np.diff(self.edges)[known]
        step = schema.step(j)
        if step is None:
            points = self.points[known]
            values = np.where(np.isnan(points), low + inside * width, points)
        else:  # one of the whole values between two edges
            n_values = np.rint(width / step)
            values = low + (np.floor(inside * n_values) + 0.5) * step
        return np.where(gone, np.nan, schema.on_grid(values, j))

    def find(self, values: NDArray) -> Codes:
        """Return the atom of each value, or category, as `values` gives them."""
        read = self.schema.columns[self.column].read(values)
        if self.edges is None:
            return read
        found = np.searchsorted(self.edges, read, side="right") - 1
        found = np.clip(found, 0, self.n_present - 1)
        return np.where(np.isnan(read), self.n_atoms - 1, found)

    def contents(self) -> list[Any]:
        """Return what each cell may hold, as `TableSchema.possible_cells` takes it."""
        cells = np.split(self.by_cell, self.firsts[1:-1])
        if self.edges is None:
            return [tuple(atoms.tolist()) for atoms in cells]
        half = (self.schema.step(self.column) or 0.0) / 2
        low, high = self.edges[:-1] + half, self.edges[1:] - half
        kept = [atoms[atoms < self.n_present] for atoms in cells]
        return [(low[a[0]], high[a[-1]]) if len(a) else None for a in kept]

    def draw(self, codes: Codes, rng: Generator, places: Codes | None = None) -> NDArray:
        """Return a value in each cell that is asked for, spread over it evenly by `shares`.

        They go up with `places`.
        """
        order, rows = rng.permutation(len(codes)), np.bincount(codes, minlength=self.n_cells)
        order = order if places is None else in_order(order, places)
        order, u = in_order(order, codes), np.empty(len(codes))
        rank = np.arange(len(codes)) - np.repeat(np.cumsum(rows) - rows, rows)
        u[order] = (rank + np.repeat(evenly(rng.random(), len(rows)), rows)) / np.repeat(rows, rows)
        return self.values(*self.at(codes, u))

    def anywhere(self, n: int, rng: Generator) -> NDArray:
        """Return values of the column, whatever is likely, to find what depends on it.

        A quarter each are ends of its range, ends of cells, ends of atoms, and places in atoms.
        """
        kind, upper = rng.integers(4, size=n), rng.random(n) < 0.5
        cells, atoms = rng.integers(self.n_cells, size=n), rng.integers(self.n_atoms, size=n)
        of_cells = self.by_cell[np.where(upper, self.firsts[cells + 1] - 1, self.firsts[cells])]
        of_range = np.where(upper, self.n_present - 1, 0)
        atoms = np.where(kind == 0, of_range, np.where(kind == 1, of_cells, atoms))
        found = self.values(atoms, np.where(kind == 3, rng.random(n), upper) * (1 - 1e-12))
        if self.edges is None or self.schema.step(self.column) is not None:
            return found
        at_top = upper & (kind < 3) & (atoms == self.n_present - 1) & np.isnan(self.points[-1])
        return np.where(at_top, self.edges[-1], found)

    def all_values(self) -> NDArray | None:
        """Return all values that the schema allows, or None where they are on no grid."""
        column = self.schema.columns[self.column]
        if self.edges is None:
            return column.decode(np.arange(self.n_atoms))
        if column.n_values is None:
            return None
        values = column.on_grid(column.bounds[0] + column.spacing * np.arange(column.n_values))
        return np.append(values, np.nan) if column.missing else values


def column_cells(schema: TableSchema, groups: Sequence[Counted], j: int) -> ColumnCells:
    """Return the cells of a column: those of most groups of several columns, and what is in them.

    Parameters
    ----------
    schema : TableSchema
        With the range of every numeric column.
    groups : sequence of Counted
        All of the sketch.
    j : int
    """
    own = [group for group in groups if j in group.columns]
    edges = _atom_edges(schema, [group.part for group in own], j)
    divisions = [_division(group.part, j, edges) for group in own]
    column, step = schema.columns[j], schema.step(j)
    n = column.n_codes if edges is None else len(edges) - 1 + column.missing
    joint = [d for d, group in zip(divisions, own, strict=True) if len(group.columns) > 1]
    cells = _chosen(joint or divisions, n)
    masses, noise = _masses(own, divisions, cells, j)
    piece, points, at_end = np.arange(n), np.full(n, np.nan), np.zeros(n, np.bool_)
    # No category tells of another, and one row of each cell is known.
    sizes = expected = np.ones(n)
    places, isolated = np.ones(len(masses)), np.zeros(len(masses), np.bool_)
    if edges is not None:
        pieces, known = edges, _points([group.part for group in own], j, edges)
        edges, piece = subdivided(edges, step, ~np.isnan(known))
        points, sizes = known[piece], np.append(np.diff(pieces), sizes)[:n]
        expected, places, isolated = expected_masses(edges, pieces, cells[piece], masses, noise)
        at_end = np.zeros(len(piece) + column.missing, np.bool_)
        # A bin of one value of a column with a step stands for a number, too.
        is_point = ~np.isnan(known) | (np.diff(pieces) < 1.5 * (step or 0.0))
        at_end[[0, len(piece) - 1]] = is_point[[0, -1]]
        if column.missing:
            piece, expected = np.append(piece, n - 1), np.append(expected, 1.0)
    counted = _finest(own, divisions, cells, sizes, j)
    counts, variance = np.zeros((2, len(cells))) if counted is None else counted
    # Two halves of this variance tell the share of one of them with a quarter of it: noise hides
    # whether a half has none of the rows or all of them.
    hidden = np.inf if counted is None else np.sqrt(np.bincount(cells, variance))
    masses, cell = np.maximum(masses, 0.0), cells[piece]
    blind = isolated & (hidden >= masses)
    rows = np.where(blind | (counted is None), 0.0, masses)
    shares, nodes = _Tree(cell, piece, expected, (counts, variance), at_end).split(rows, places)
    of_count = np.zeros(len(piece))
    if edges is None:
        several = np.bincount(cells)[cells] > 1
        found = variance / np.maximum(masses[cells], 1.0) ** 2
        of_count = np.where(several, np.minimum(found, 0.25), 0.0)
    joined = _joined(piece, cell, blind)
    return ColumnCells(schema, j, edges, points, cell, joined, blind, shares, of_count, nodes)


def _atom_edges(schema: TableSchema, parts: Sequence[HistogramMap], j: int) -> Floats | None:
    """Return all edges of a numeric column, None for categories."""
    if schema.values(j) is not None:
        return None
    low, high = schema.bound(j) or (0.0, 1.0)
    half = (schema.step(j) or 0.0) / 2
    ends = np.array([low - half, high + half])
    edges = np.unique(np.concatenate([ends, *(part.edges(j) for part in parts)]))
    # Edges this close are one edge, rounded in two ways; no bin of one value is narrower.
    same = min(2.0**-45 * (high - low), half / 2 or np.inf)
    return edges[np.diff(edges, prepend=-np.inf) > same]


def _division(part: HistogramMap, j: int, edges: Floats | None) -> Codes:
    """Return the cell of a histogram that holds each atom."""
    if edges is None:
        return part.cell_of_codes(j)
    middle = edges[:-1] / 2 + edges[1:] / 2
    cells = np.searchsorted(part.edges(j)[1:-1], middle, side="right").astype(np.int64)
    return np.append(cells, part.n_present(j)) if part.schema.missing(j) else cells


def _refines(fine: Codes, coarse: Codes) -> bool:
    """Return whether each cell of one division lies in a single cell of the other."""
    return bool(np.all(_image(fine, coarse, fine.max() + 1)[fine] == coarse))


def _chosen(divisions: Sequence[Codes], n_atoms: int) -> Codes:
    """Return the division of most groups, refined by those that cut across it."""
    if not divisions:
        return np.zeros(n_atoms, np.int64)
    votes = Counter(division.tobytes() for division in divisions)
    by_name = {division.tobytes(): division for division in divisions}
    # A tie goes to the coarser division: what is finer can be summed, and tells the shape.
    best = by_name[max(votes, key=lambda name: (votes[name], -int(by_name[name].max())))]
    for other in by_name.values():
        if not (_refines(other, best) or _refines(best, other)):
            best = np.unique(best * (other.max() + 1) + other, return_inverse=True)[1]
    # Numbered in the order of their first atoms, whatever the histograms called them.
    _, first, inverse = np.unique(best, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[inverse].astype(np.int64)


def _points(parts: Sequence[HistogramMap], j: int, edges: Floats) -> Floats:
    """Return the number that each piece stands for, NaN where none."""
    found = np.full(len(edges) - 1, np.nan)
    for part in parts:
        own = np.array(part.points.get(j, ()))
        found[np.clip(np.searchsorted(edges, own, side="right") - 1, 0, len(found) - 1)] = own
    return found


def _joined(piece: Codes, cell: Codes, blind: NDArray[np.bool_]) -> Codes:
    """Return the piece of each atom, where each blind cell is one."""
    first = np.searchsorted(piece, piece[np.unique(cell, return_index=True)[1]])
    joined = np.where(blind[cell], piece[first][cell], piece)
    return np.cumsum(np.diff(joined, prepend=joined[:1]) != 0)


def _masses(
    own: Sequence[Counted], divisions: Sequence[Codes], cells: Codes, j: int
) -> tuple[Floats, Floats]:
    """Return the rows of each cell by all histograms that tell them, and their standard errors."""
    total, variance = np.zeros((2, cells.max() + 1))
    precision = TINY
    for group, division in zip(own, divisions, strict=True):
        if _refines(division, cells):
            found, noise = group.margin(j)
            cell = _image(division, cells, len(found))
            weight = 1 / max(noise, TINY) / len(division)
            total += weight * np.bincount(cell, found, len(total))
            # The square of the weight, times the noise of a bin.
            variance += weight / len(division) * np.bincount(cell, minlength=len(total))
            precision += weight
    return total / precision, np.sqrt(variance) / precision


def _finest(
    own: Sequence[Counted], divisions: Sequence[Codes], cells: Codes, sizes: Floats, j: int
) -> Counts | None:
    """Return the counts of pieces of the histogram with the most bins, None if none divides cells.

    A bin may be cut by a cell's edge: its rows are spread by the sizes of the pieces.
    """
    finer = [k for k, d in enumerate(divisions) if d.max() > cells.max()]
    if not finer:
        return None
    best = max(finer, key=lambda k: (divisions[k].max(), -own[k].margin(j)[1]))
    division, (counts, variance) = divisions[best], own[best].margin(j)
    of_bin = np.bincount(_image(division, division, len(counts)), counts, len(counts))
    part = sizes / np.bincount(division, sizes)[division]
    return of_bin[division] * part, variance * part**2


def in_cells(group: Counted, cells: Sequence[ColumnCells]) -> Marginal | None:
    """Return the counts of a group in the model's cells.

    Bins that divide cells are summed, and cells that divide bins are told to the model. None where
    the two cut across one another.
    """
    counts, n_summed = group.counts, np.ones(1)
    coarse: dict[int, Codes] = {}
    for axis, j in enumerate(group.columns):
        column = cells[j]
        division = _division(group.part, j, column.edges)
        into = column.cell_of_atom
        if not _refines(division, into):
            if not _refines(into, division):
                return None
            coarse[j] = _image(into, division, column.n_cells)
            into = division
        cell, size = _image(division, into, counts.shape[axis]), int(into.max()) + 1
        n_summed = np.multiply.outer(n_summed, np.bincount(cell, minlength=size))
        moved = np.moveaxis(counts, axis, 0)
        summed = np.zeros((size, *moved.shape[1:]))
        np.add.at(summed, cell, moved)
        counts = np.moveaxis(summed, 0, axis)
    std = group.std * np.sqrt(n_summed.reshape(counts.shape))
    even = std if np.ptp(std) else float(std.flat[0])
    return Marginal(group.columns, counts, even, group.phase, coarse)


def _image(fine: Codes, coarse: Codes, n_fine: int) -> Codes:
    """Return the cell of a coarse division that holds each of so many cells of a fine one.

    A bin too narrow for an atom of its own goes where its neighbour goes.
    """
    found = np.full(n_fine, -1, np.int64)
    found[fine] = coarse
    known = np.flatnonzero(found >= 0)
    place = np.searchsorted(known, np.arange(n_fine), side="right") - 1
    return found[known[np.maximum(place, 0)]]


class TableModel:
    """What the histograms of a sketch tell of a table.

    Parameters
    ----------
    sketch : PrivateSketch
        With a histogram in it.
    schema : TableSchema
        The table as answers see it.

    Attributes
    ----------
    cells : list of ColumnCells
        How each column is divided.
    sizes : tuple of int
        Number of cells of each column.
    n_rows : float
        Private estimate of the number of rows, at least 1.
    origins : list of (int, int)
        Of each group that the model is fitted to: its place among all groups of the sketch, and
        that of its block.
    model : GraphicalModel
    """

    def __init__(self, sketch: PrivateSketch, schema: TableSchema):
        self.sketch, self.schema = sketch, schema
        groups = counted_groups(sketch)
        if not groups:
            raise ValueError("A graphical model needs a sketch with a histogram.")
        self.cells = [column_cells(schema, groups, j) for j in range(schema.n_columns)]
        self.sizes = tuple(column.n_cells for column in self.cells)
        found = [(group, in_cells(group, self.cells)) for group in groups]
        self.marginals = [marginal for _, marginal in found if marginal is not None]
        self.origins = [(k, g.phase) for k, (g, m) in enumerate(found) if m is not None]
        self.n_rows = sketch.n_samples
        self._is_silent = not any(np.any(marginal.std) for marginal in self.marginals)
        # Combinations that the schema rules out are public zeros.
        self._zeros = schema.possible_cells([column.contents() for column in self.cells])
        self.model = self.fitted(self.marginals)

    def fitted(self, marginals: Sequence[Marginal], sweeps: int = 40) -> GraphicalModel:
        """Return the graphical model of some of what was counted."""
        return GraphicalModel(self.sizes, zeros=self._zeros).fit(marginals, sweeps=sweeps)

    # ---- what is possible

    def allowed(self, codes: Codes) -> Codes:
        """Return those of rows, by their cells, that are in no cell that the schema rules out."""
        for group, possible in self._zeros:
            codes = codes[possible[tuple(codes[:, a] for a in group)]]
        return codes

    # ---- what is likely

    def n_cells(self, columns: Sequence[int]) -> int:
        """Return the number of cells of some columns together."""
        return math.prod(self.sizes[j] for j in columns)

    def n_units(self, columns: Sequence[int]) -> int:
        """Return the number of cells of some columns, where categories are told one by one."""
        known = [self.cells[j] for j in columns]
        return math.prod(one.n_atoms if one.edges is None else one.n_cells for one in known)

    def table(self, columns: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of some columns, one axis for each, in order.

        Raises
        ------
        ValueError
            For more than `MOST_TABLE_CELLS` cells.
        """
        if self.n_cells(columns) > MOST_TABLE_CELLS:
            names = ", ".join(repr(self.schema.name(j)) for j in columns)
            raise ValueError(
                f"A table of {names} has {self.n_cells(columns):,} cells, more than "
                f"{MOST_TABLE_CELLS:,}. Ask for fewer columns."
            )
        if self._is_silent and self.model.residuals.covers(columns):
            # The counts themselves: the model is fitted to these as far as its tolerance.
            counts = np.maximum(np.rint(self.model.residuals.marginal(columns)), 0.0)
            return counts / max(counts.sum(), TINY)
        return self.model.table(tuple(columns))

    def sample(self, n_rows: int, state: np.random.RandomState) -> NDArray:
        """Return synthetic rows, shape (n_rows, d), whose counts are those of `table`."""
        rng = np.random.default_rng(state.randint(np.iinfo(np.int32).max))
        codes = self.model.rounded(n_rows, rng)
        places = places_of_rows(self, codes, range(len(self.cells)), rng)
        found = {j: one.draw(codes[:, j], rng, places[:, j]) for j, one in enumerate(self.cells)}
        if self.schema.impossible:
            self._make_possible(found, codes, rng)
        return stack_columns([*found.values()])

    def _make_possible(self, rows: dict[int, NDArray], codes: Codes, rng: Generator) -> None:
        """Give rows that are ruled out other values of their cells, or those of other rows."""
        ruled = {j for one in self.schema.impossible for j, _ in one}
        every = wrong = np.arange(len(codes))
        for _ in range(N_QUANTILES):  # places in an atom, of which one may be possible
            wrong = wrong[~self.schema.allows({j: rows[j][wrong] for j in ruled})[0]]
            if not len(wrong):
                return
            for j in ruled:
                rows[j][wrong] = self.cells[j].draw(codes[wrong, j], rng)
        right = np.setdiff1d(every, wrong)
        instead = rng.choice(right if len(right) else every, len(wrong))
        for values in rows.values():
            values[wrong] = values[instead]

    def some_values(self, j: int, n: int) -> NDArray:
        """Return some values of a column, from all of its cells."""
        rng = np.random.default_rng(j)
        return self.cells[j].draw(rng.integers(self.cells[j].n_cells, size=n), rng)

    def noise_of_cells(self, columns: Group) -> Floats:
        """Return the deviation of the noise in the rows of each cell; 0 if nobody counted it."""
        group = tuple(sorted(columns))
        if not self.model.residuals.covers(group):
            return np.zeros([self.sizes[j] for j in columns])
        noise = np.sqrt(self.model.residuals.cell_variances(group))
        return np.transpose(noise, [group.index(j) for j in columns])

    def counts_together(self, columns: Group) -> bool:
        """Return whether some group has all of these columns."""
        return any(set(columns) <= set(m.columns) for m in self.marginals)

    def counted_together(self, columns: Group, most_cells: int = 4096) -> list[Group]:
        """Return the largest groups of some columns that were counted, or each by itself.

        Groups of more than `most_cells` are left out: points are few in their cells.
        """
        found = {tuple(j for j in columns if j in m.columns) for m in self.marginals}
        found = {g for g in found | {(j,) for j in columns} if g and self.n_cells(g) <= most_cells}
        return sorted(g for g in found if not any(set(g) < set(other) for other in found))


# ---- several columns, inside their common cells


def _changes(model: TableModel, j: int, other: int) -> tuple[Floats, Codes, Floats, Floats, float]:
    """Return how the shares of another column's cells change along the cells of a number.

    Of the changes, all squared together, noise makes a part. They are to be taken for as much
    smaller (as James and Stein do).

    Returns
    -------
    table : ndarray of shape (n_present of j, n_cells of the other)
        Shares of all rows.
    some : ndarray of shape (n,)
        The cells of j that are not next to empty: others tell rounding errors.
    shares, step : ndarray of shape (n, n_cells of the other)
        In each of these, and by how much they grow across it.
    told : float
        The part of the changes that is no noise.
    """
    n = model.sizes[j] - model.schema.missing(j)
    table = np.maximum(model.table((j, other)), 0.0)[:n]
    mass = table.sum(axis=1) + TINY
    some = np.flatnonzero(mass >= ROUNDING * mass.max())
    mass, shares = mass[some], table[some] / mass[some, None]
    step, before, after = across(mass, shares)
    noise = model.noise_of_cells((j, other))[some] / model.n_rows
    off = np.minimum(noise / mass[:, None], 1.0)
    of_noise = mass**2 @ (off[after] ** 2 + off[before] ** 2)
    apart = mass**2 @ (shares[after] - shares[before]) ** 2
    return table, some, shares, step, np.maximum(1 - of_noise / np.maximum(apart, TINY), 0.0)


def slopes(model: TableModel, j: int, other: int) -> Floats:
    """Return how another column goes along inside the cells of a numeric one.

    The shares of the other column's cells change evenly from cell to cell, less what noise does.

    Returns
    -------
    ndarray of shape (n_cells of j, n_cells of the other)
        By what part of itself a share grows from the lowest to the highest row of a cell.
    """
    _, some, shares, step, told = _changes(model, j, other)
    found = np.zeros((model.sizes[j], model.sizes[other]))
    # A share that grows by twice itself grows from 0.
    found[some] = np.clip(step * told / np.maximum(shares, TINY), -2.0, 2.0)
    return found


def correlation(model: TableModel, a: int, b: int) -> tuple[Floats, float]:
    """Return how b goes along with a inside the cells of a (`going_along`), and how much is told.

    Returns
    -------
    ndarray of shape (2, n_cells)
    float
        The mean square of the first.
    """
    found, n = np.zeros((2, model.sizes[a])), model.sizes[a] - model.schema.missing(a)
    table = np.maximum(model.table((a, b)), 0.0)[:n]
    mass = table.sum(axis=1)
    some = np.flatnonzero(mass >= ROUNDING * mass.max())  # others tell rounding errors
    found[:, some] = going_along(table[some], running_sums(np.maximum(model.table((b,)), 0.0)))
    return found, float(mass @ found[0, :n] ** 2)


# ---- places of synthetic rows


def places_of_rows(
    model: TableModel, codes: Codes, columns: Iterable[int], rng: Generator
) -> Codes:
    """Return the places of rows in their cells, of some numbers.

    Parameters
    ----------
    model : TableModel
    codes : ndarray of int, shape (n_rows, d)
        The cells of the rows.
    columns : iterable of int
    rng : Generator

    Returns
    -------
    ndarray of int, shape (n_rows, d)
        0 in all other columns.
    """
    d, n = len(model.sizes), [column.n_places for column in model.cells]
    numbers_first = sorted(columns, key=lambda j: n[j] == 1)
    groups = ([j for j in numbers_first if j in m.columns] for m in model.marginals)
    pairs = {pair for group in groups for pair in combinations(group, 2)}
    tables: dict[Group, Floats] = {}
    for a, b in sorted(pairs):
        if (table := table_of_places(model, a, b)) is not None:
            # When places of one are drawn, those of the other may not be known yet.
            tables |= {(a, d + a, b, d + b): table, (a, d + a, b): table.sum(axis=3)}
    rows = Rounding([*model.sizes, *n], len(codes), rng, tables, codes)
    for j in (j for j in columns if n[j] > 1):
        rows.draw(d + j, (j,), np.full((model.sizes[j], n[j]), 1 / n[j]))
    return rows.codes[:, d:]


def table_of_places(model: TableModel, a: int, b: int) -> Floats | None:
    """Return the shares of the places of a number, with those of another or the cells of a column.

    Parameters
    ----------
    model : TableModel
    a, b : int

    Returns
    -------
    ndarray of shape (n_cells of a, n_places of a, n_cells of b, n_places of b), or None
        None where `a` has no places, or the table too many cells.
    """
    n, m = model.cells[a].n_places, model.cells[b].n_places
    if n == 1 or model.n_cells((a, b)) > MOST_TABLE_CELLS:
        return None
    return _of_places(model, a, b) if m > 1 else _of_cells(model, a, b)


def _of_cells(model: TableModel, j: int, k: int) -> Floats:
    """Return the shares of the places of a number with the cells of another column.

    Changes that noise makes are left out.

    Returns
    -------
    ndarray of shape (n_cells of j, n_places of j, n_cells of k, 1)
    """
    counts, *_, told = _changes(model, j, k)
    # Cells next to empty are alike, and not rounding errors.
    table, n = np.maximum(model.table((j, k)), ROUNDING), model.cells[j].n_places
    found = np.repeat(table[:, None] / n, n, axis=1)
    even = found[: len(counts)]
    even += told * (interpolated(counts, n) - even)
    return raked_places(found[..., None], table)


def _of_places(model: TableModel, a: int, b: int) -> Floats:
    """Return the shares of the places of two numbers.

    Inside a common cell they go together as neighbours tell of the one of which they tell more.

    Returns
    -------
    ndarray of shape (n_cells of a, n_places of a, n_cells of b, n_places of b)
    """
    (of_a, told_a), (of_b, told_b) = correlation(model, a, b), correlation(model, b, a)
    if told_a < told_b:
        return np.transpose(_of_places(model, b, a), (2, 3, 0, 1))
    # Cells next to empty are alike, and not rounding errors.
    table = np.maximum(model.table((a, b)), ROUNDING)
    # `drawn_odds` has the same for the model.
    odds_a, odds_b = (np.exp(3 * np.arctanh(of).mean(axis=0)) for of in (of_a, of_b))
    n = [model.cells[j].n_places for j in (a, b)]
    other = coupled(table.T, odds_b, n[::-1]).sum(axis=3) / table.T[:, None]
    found = coupled(table, odds_a, n) * np.transpose(other, (2, 0, 1))[:, None]
    return raked_places(found, table)
