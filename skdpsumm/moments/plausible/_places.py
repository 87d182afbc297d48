"""Where in their cells the rows of a column may lie: places, and their weights in each table.

A column's cell has atoms. What neighbours and fine counts tell of these stands at the nodes of a
binary tree (`Shape`): a mean share and its standard deviation. In a plausible table

- the share on the left of a node is a Beta draw of that mean and deviation. Where less than a row
  tells it, as where noise may hide rows at an end of the range, it is any share in some tables. At
  the top nodes all cells are off alike, too: to one side, or outwards;
- places in an atom are drawn as if `PSEUDO_ROWS` rows had told them;
- densities of neighbours may meet inside a piece (nobody below 18), instead of going over evenly;
- rows of a column that a user cut, and gave no step, are all at the cuts in half of the tables, the
  first of their pieces: people cut where values start;
- rows that no neighbour explains (`crowded`) are all at an end of their piece: the low ends
  of all pieces, the high, the outer or the inner ones, or each its own. Where nothing tells where
  rows are, they may be all at one place between these ends, or not.

Errors of single cells average out over a column. So each of these priors has a part that is alike
in all cells: without it, intervals of variances held in 0.80 for 0.95.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from ..._linear_systems import TINY
from .._numbers import (
    FEWEST_IN_CELL,
    N_QUANTILES,
    PSEUDO_ROWS,
    ROWS_OF_TABLE,
    STD_OF_SHARED_SHIFT,
    SURE_MASS,
    Codes,
    Floats,
)
from ..inferring._shapes import by_a_jump, smooth_pieces
from ..inferring._table_model import TableModel
from ._noise import coins


class Places:
    """The places of one column.

    Parameters
    ----------
    model : TableModel
    j : int
        The column.
    n_tables : int
    stream : callable
        Takes a use and returns its random numbers.
    counts : ndarray of shape (1 + n_tables, n_cells)
        Rows of each cell, by the model and in each plausible table.
    moves : bool
        Whether plausible tables differ in where rows lie. If not, all are as the model says.

    Attributes
    ----------
    atom : ndarray of int, shape (n,)
    inside : ndarray of shape (n,)
        Where in its atom a place is, from 0 to 1.
    cell : ndarray of int, shape (n,)
        In increasing order.
    weights : ndarray of shape (1 + n_tables, n), or (1, n) where no table differs
        Share of a cell's rows at each place: by the model, then in each plausible table. They sum
        to one in each cell.
    at_ends, beyond : ndarray of shape (2,)
        Share of the column's rows at either end of its range, if they may be clipped values, and
        how far beyond these are, on average. It is 0 where each value was counted.
    """

    def __init__(
        self,
        model: TableModel,
        j: int,
        n_tables: int,
        stream: Callable[..., np.random.Generator],
        counts: Floats,
        *,
        moves: bool,
    ):
        self.j, self.column = j, model.cells[j]
        self.weights: Floats
        self._n_tables = n_tables if moves else 0
        self._stream, self._counts = stream, counts
        step = model.schema.step(j)
        self._is_cut = bool(model.schema.columns[j].edges) and step is None
        self.at_ends = self.beyond = np.zeros(2)
        self._fill(step)
        if self._n_tables and self.column.edges is not None:
            self._crowd(self.column.edges, model.noise_of_cells((j,)))

    @property
    def is_exact(self) -> bool:
        """Whether all rows of a cell have one value, or none that can be compared."""
        column = self.column
        alone = column.single.all() and column.n_atoms == column.n_cells
        return column.edges is None or bool(alone)

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.weights.size + len(self.weights) * self.column.n_cells * self._n_quantiles

    @property
    def _n_quantiles(self) -> int:
        return N_QUANTILES if self._n_tables else ROWS_OF_TABLE

    def values(self) -> NDArray:
        """Return the value at each place."""
        return self.column.values(self.atom, self.inside)

    def cell_means(self) -> Floats:
        """Return which cells have numbers, and the mean of each by the model, (2, n_cells)."""
        share = np.where(np.isnan(values := self.values()), 0.0, self.weights[0])
        first = np.bincount(self.cell, share, self.column.n_cells)
        return np.stack([first, np.bincount(self.cell, share * np.nan_to_num(values), len(first))])

    @cached_property
    def quantiles(self) -> NDArray:
        """The values at even steps of each cell's rows, shape (1 + n_tables, n_cells, n_steps)."""
        n = self.column.n_cells
        starts = np.searchsorted(self.cell, np.arange(n))
        last = np.append(starts[1:], len(self.cell)) - 1
        ends = np.cumsum(self.weights, axis=1)
        steps = np.arange(n)[:, None] + (np.arange(self._n_quantiles) + 0.5) / self._n_quantiles
        found = np.array([np.searchsorted(one, steps) for one in ends])
        return self.values()[np.clip(found, starts[:, None], last[:, None])]

    def atom_shares(self) -> Floats:
        """Return the share of each atom in its cell, shape (1 + n_tables, n_atoms)."""
        found = np.zeros((len(self.weights), self.column.n_atoms))
        starts = np.flatnonzero(np.diff(self.atom, prepend=-1))
        found[:, self.atom[starts]] = np.add.reduceat(self.weights, starts, axis=1)
        return found

    def _fill(self, step: float | None) -> None:
        """Set places in all atoms, and their weights."""
        column = self.column
        order, shares = column.by_cell, self._shares()
        exact = column.single
        several = np.clip(ROWS_OF_TABLE // max((~exact).sum(), 1), FEWEST_IN_CELL, N_QUANTILES)
        counts = np.where(exact, 1, several)
        if step is not None and column.edges is not None:
            n_values = np.rint(np.diff(column.edges) / step).astype(int)
            n = column.n_present
            counts[:n] = np.where(n_values <= N_QUANTILES, n_values, counts[:n])
        counts = counts[order]
        at = np.repeat(np.arange(len(order)), counts)
        rank = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        drawn = self._stream("atoms").gamma(
            PSEUDO_ROWS / counts[at], size=(self._n_tables, len(at))
        )
        spread = np.concatenate([np.ones((1, len(at))), drawn + 1e-9])
        starts = np.cumsum(counts) - counts
        spread /= np.add.reduceat(spread, starts, axis=1)[:, at]
        self.atom, self.inside = order[at], (rank + 0.5) / counts[at]
        self.cell, self.weights = column.cell_of_atom[self.atom], spread * shares[:, at]
        if column.edges is not None and self._n_tables:
            known = np.minimum(self.atom, column.n_present - 1)
            self._jump(column.edges[known] + rank / counts[at] * np.diff(column.edges)[known])

    def _shares(self) -> Floats:
        """Return the share of each atom in its cell, atoms in the order of cells."""
        shape, order = self.column, self.column.by_cell
        shares, cell = shape.shares[order], shape.cell_of_atom[order]
        found = np.repeat(shares[None], 1 + self._n_tables, axis=0)
        if not self._n_tables:
            return found
        found[1:] = 1.0
        left = self._left(shares, cell)
        for k, (start, middle, end) in enumerate(
            zip(shape.start, shape.middle, shape.end, strict=True)
        ):
            found[1:, start:middle] *= left[:, k, None]
            found[1:, middle:end] *= 1 - left[:, k, None]
        if self.column.edges is None and shape.of_count.any():
            # Categories that were counted together: their own counts, less what nodes tell.
            more = np.maximum(shape.of_count[order] - np.var(found[1:], axis=0), 0.0)
            noise = self._stream("together").standard_normal((self._n_tables, len(order)))
            found[1:] += np.sqrt(more) * noise
        return found

    def _jump(self, starts: Floats) -> None:
        """Let densities jump inside pieces, from one neighbour's to the other's, in some tables.

        Where they meet follows from the rows of three cells, which fell there by chance.
        """
        column, rng = self.column, self._stream("jumps")
        n = int(np.searchsorted(self.atom, column.n_present))
        edges = np.append(starts[:n], column.edges[-1])  # type: ignore[index]
        piece = column.piece_of_atom[self.atom[:n]]
        firsts = np.flatnonzero(np.diff(piece, prepend=-1))
        rank = np.cumsum(np.diff(piece, prepend=piece[:1]) != 0)
        coin = coins(rng, self._n_tables, column.n_cells)
        coin &= ~column.blind
        rows = np.maximum(self._counts[1:], 0.0)
        rows = np.maximum(rows + np.sqrt(rows) * rng.standard_normal(rows.shape), 0.0)
        for own, here, there in zip(self.weights[1:], coin, rows, strict=True):
            # Where a range ends, rows may well, so nothing jumps there.
            jumped, is_between = by_a_jump(edges, self.cell[:n], there, beyond=1.0)
            whole = np.maximum(np.add.reduceat(jumped, firsts), TINY)
            jumped *= (np.add.reduceat(own[:n], firsts) / whole)[rank]
            np.copyto(own[:n], jumped, where=is_between & here[self.cell[:n]])

    def _left(self, shares: Floats, cell: Codes) -> Floats:
        """Return the part of each node that is on its left, shape (n_tables, n_nodes)."""
        shape, rng = self.column, self._stream("nodes")
        mass = np.concatenate([[0.0], np.cumsum(shares)])
        whole = mass[shape.end] - mass[shape.start]
        known = whole > 1e-9
        part = np.where(
            known, (mass[shape.middle] - mass[shape.start]) / np.maximum(whole, TINY), 0.5
        )
        # An unknown half may have any share, as likely as another: its variance is 1 / 12.
        unknown = ~known | self.column.blind[cell[shape.start]]
        std = np.where(unknown, np.sqrt(1 / 12), shape.std / np.maximum(whole, TINY))
        std = np.maximum(std, 1e-4)
        inner = np.clip(part, 1e-6, 1 - 1e-6)  # a Beta has no share of nothing
        rows = np.clip(inner * (1 - inner) / std**2 - 1, 1.0, 1e7)
        a, b = inner * rows, (1 - inner) * rows
        found = rng.beta(a, b, (self._n_tables, len(part)))
        top = np.flatnonzero(np.diff(cell[shape.start], prepend=-1))
        outwards = np.where(cell[shape.start[top]] < np.median(cell), -1.0, 1.0)
        alike, out = STD_OF_SHARED_SHIFT * rng.standard_normal((2, self._n_tables, 1))
        z = rng.standard_normal((self._n_tables, len(top))) + alike + out * outwards
        found[:, top] = betaincinv(a[top], b[top], ndtr(z))
        # Less than a row tells: in so many tables that the deviation is right, it is any share.
        told, any_share = inner * (1 - inner) / (rows + 1), 1 / 3 - inner * (1 - inner)
        lost = (std**2 - told) / np.maximum(any_share - told, TINY)
        anything = rng.random((2, *found.shape))
        found = np.where(anything[0] < lost, anything[1], found)
        return np.where(np.isfinite(found), found, part)  # of a Beta with next to no rows

    def _crowd(self, edges: Floats, noise: Floats) -> None:
        """Move rows that no neighbour explains to one place of their piece, in each table."""
        column, rng, n = self.column, self._stream("crowds"), self._n_tables
        known = self.atom[: np.searchsorted(self.atom, column.n_present)]
        piece = column.piece_of_atom[known]
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        share = np.add.reduceat(self.weights[:, : len(known)], starts, axis=1)
        cell = column.cell_of_atom[known[starts]]
        rows = self._counts[0][cell]
        unsure = np.hypot(rows * np.std(share[1:], axis=0), noise[cell] * share[0])
        pieces, mass = column.piece_of_atom[: column.n_present], rows * share[0]
        widths = np.bincount(pieces, np.diff(edges)).astype(np.float64)
        part = np.where(column.blind[cell], 1.0, crowded(mass, widths, unsure))
        stops = np.append(starts[1:], len(known))
        several = (stops - starts > 1) | ~column.single[known[starts]]
        part[~several] = 0.0
        if not column.single[known].all():
            sure = mass > SURE_MASS * unsure
            self.at_ends, self.beyond = clipped(mass, widths, cell, sure)
        at = np.flatnonzero((part > 0) | (several & self._is_cut))
        # Both ends of a piece are places, too.
        ends = np.concatenate([stops[at], starts[at]])
        inside = np.repeat([1 - 1e-12, 0.0], len(at))
        self.inside = np.insert(self.inside, ends, inside)
        self.atom = np.insert(self.atom, ends, self.atom[ends - (inside > 0)])
        self.weights = np.insert(self.weights, ends, 0.0, axis=1)
        self.cell = column.cell_of_atom[self.atom]
        values = self.values().astype(np.float64)
        # Low, high, outer or inner ends, of all pieces alike in half of the tables.
        common, alike = rng.integers(4, size=n), coins(rng, n)
        heaped = coins(self._stream("cuts"), n) & self._is_cut
        for k, p in enumerate(at.tolist()):
            first, last = starts[p] + 2 * k, stops[p] + 2 * k + 1
            side = np.where(alike, common, rng.integers(2, size=n))
            above = cell[p] > cell[-1] / 2
            low = (side == 0) | ((side == 2) & (not above)) | ((side == 3) & above)
            place, crowd = np.where(low, first, last), np.full(n, part[p])
            if column.blind[cell[p]]:
                # Nothing tells that these rows are at one place, either.
                crowd = np.where(coins(rng, n), 0.0, crowd)
                between = values[first] + rng.random(n) * (values[last] - values[first])
                even = first + np.searchsorted(values[first : last + 1], between)
                place = np.where(coins(rng, n), even, place)
            place, moved = np.where(heaped, first, place), np.where(heaped, 1.0, crowd)
            whole = self.weights[1:, first : last + 1].sum(axis=1)
            self.weights[1:, first : last + 1] *= (1 - moved)[:, None]
            self.weights[np.arange(1, 1 + n), place] += moved * whole


def crowded(mass: Floats, width: Floats, noise: Floats) -> Floats:
    """Return the share of each piece's rows that the denser of its neighbours does not explain.

    Spikes explain nothing.
    """
    density, smooth = mass / width, np.flatnonzero(smooth_pieces(mass, width))
    padded = np.pad(density[smooth], 1)
    before = np.searchsorted(smooth, np.arange(len(mass)))
    after = np.searchsorted(smooth, np.arange(len(mass)), side="right") + 1
    explained = np.maximum(padded[before], padded[after]) * width + noise
    found = np.clip(1 - explained / np.maximum(mass, TINY), 0.0, 1.0)
    # Where most rows are a crowd, so may be the rest: noise alone does not explain it.
    return np.minimum(found + found**3, 1.0)


def clipped(
    mass: Floats, width: Floats, cell: Codes, sure: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return which share of the rows at either end may be clipped values, and how far beyond.

    They are a spike. The density beside it would go on beyond the range and fall exponentially:
    rows over density is the mean distance then. Farther than the range is wide no tail goes on; it
    is a value for itself, such as 99999 for all that is more.
    """
    share, far, smooth = np.zeros(2), np.zeros(2), smooth_pieces(mass, width)
    for k, beside in ((0, 1), (-1, -2)) if len(mass) > 1 else ():
        near = cell == cell[beside]
        near[k] = False
        far[k] = mass[k] * width[near].sum() / max(mass[near].sum(), TINY)
        if sure[k] and not smooth[k] and far[k] < width.sum():
            share[k] = mass[k] / mass.sum()
    return share, far
