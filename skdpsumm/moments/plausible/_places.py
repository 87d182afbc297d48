"""Where in their cells the rows of a column may lie: places, and their weights in each table.

A column's cell has atoms. What neighbours and fine counts tell of these stands at the nodes of a
binary tree (`ColumnCells`): a mean share and its standard deviation. In a plausible table

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

How rows of several columns lie inside their common cells is another matter (`InsideCells`). Each
cell has a few rows of each table, at quantiles u of its columns: a lattice, shifted at random. What
is likely moves these quantiles, one table beside the other:

- two numbers go up and down together inside a cell (`correlation`), as far as the step tells that
  one makes across the cells of the other;
- rows of one category, or of one cell of another column, lie more to one side (`slopes`): the share
  of that cell grows evenly from one end to the other, or it jumps.

Points, of four columns and more, lie as synthetic rows do (`places_of_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr

from ..._computing import TINY, Codes, Floats
from ...sketches._inside_cells import at_a_jump, evenly_filling, lattice, plackett_quantiles, tilted
from .._numbers import (
    FEWEST_IN_CELL,
    N_QUANTILES,
    PSEUDO_ROWS,
    ROWS_OF_TABLE,
    STD_OF_SHARED_SHIFT,
    STEEPER_THAN_NEIGHBOURS,
    SURE_MASS,
    Group,
)
from ..inferring._table_model import TableModel, by_a_jump, correlation, slopes, smooth_pieces
from ._noise import coins


class Places:
    """The places of one column.

    Parameters
    ----------
    model : TableModel
    j : int
        The column.
    n_tables : int
        How many plausible tables differ in where rows lie. If none, all are as the model says.
    stream : callable
        Takes a use and returns its random numbers.
    counts : ndarray of shape (1 + n_tables, n_cells)
        Rows of each cell, by the model and in each plausible table.

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
    cuts : ndarray of shape (n_pieces,)
        Where each piece of the column starts, if some values were not counted.
    """

    def __init__(
        self,
        model: TableModel,
        j: int,
        n_tables: int,
        stream: Callable[..., np.random.Generator],
        counts: Floats,
    ):
        self.j, self.column = j, model.cells[j]
        self._n_tables, self._stream, self._counts = n_tables, stream, counts
        self._n_quantiles = N_QUANTILES if n_tables else ROWS_OF_TABLE
        step = model.schema.step(j)
        self._is_cut = bool(model.schema.columns[j].edges) and step is None
        self.at_ends = self.beyond = self.cuts = np.zeros(2)
        self._fill(step)
        if self._n_tables and self.column.edges is not None:
            self._crowd(self.column.edges, model.noise_of_cells((j,)))

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.weights.size + len(self.weights) * self.column.n_cells * self._n_quantiles

    def values(self) -> NDArray:
        """Return the value at each place."""
        return self.column.values(self.atom, self.inside)

    def means(self) -> tuple[Floats, Floats]:
        """Return which part of each cell has numbers, and the mean of each place by the model.

        The second has shape (n_cells, n_places), and is 0 where there are none.
        """
        values = self.quantiles[0]
        parts = np.array_split(np.nan_to_num(values), self.column.n_places, axis=1)
        means = [part.mean(axis=1) for part in parts]
        return np.mean(~np.isnan(values), axis=1, dtype=np.float64), np.stack(means, axis=1)

    @cached_property
    def quantiles(self) -> NDArray:
        """The values at even steps of each cell's rows, shape (1 + n_tables, n_cells, n_steps)."""
        n = self.column.n_cells
        starts = np.searchsorted(self.cell, np.arange(n + 1))
        ends = np.cumsum(self.weights, axis=1)
        steps = np.arange(n)[:, None] + (np.arange(self._n_quantiles) + 0.5) / self._n_quantiles
        found = np.array([np.searchsorted(one, steps) for one in ends])
        return self.values()[np.clip(found, starts[:-1, None], starts[1:, None] - 1)]

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
            np.copyto(counts[: len(n_values)], n_values, where=n_values <= N_QUANTILES)
        counts = counts[order]
        at = np.repeat(np.arange(len(order)), counts)
        starts = np.cumsum(counts) - counts
        rank = np.arange(len(at)) - starts[at]
        size = self._n_tables, len(at)
        drawn = self._stream("atoms").gamma(PSEUDO_ROWS / counts[at], size=size)
        spread = np.concatenate([np.ones((1, len(at))), drawn + 1e-9])
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
        for k, (start, middle, end) in enumerate(zip(*shape.nodes[:3], strict=True)):
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
        coin = coins(rng, self._n_tables, column.n_cells) & ~column.blind
        rows = np.maximum(self._counts[1:], 0.0)
        rows = np.maximum(rows + np.sqrt(rows) * rng.standard_normal(rows.shape), 0.0)
        jumped, is_between = by_a_jump(edges, self.cell[:n], rows)
        own, whole = self.weights[1:, :n], np.add.reduceat(jumped, firsts, axis=1)
        jumped *= (np.add.reduceat(own, firsts, axis=1) / np.maximum(whole, TINY))[:, rank]
        # A piece in which a jump leaves nobody keeps its rows where they are.
        np.copyto(own, jumped, where=is_between & coin[:, self.cell[:n]] & (whole > TINY)[:, rank])

    def _left(self, shares: Floats, cell: Codes) -> Floats:
        """Return the part of each node that is on its left, shape (n_tables, n_nodes)."""
        (start, middle, end, std), rng = self.column.nodes, self._stream("nodes")
        mass = np.concatenate([[0.0], np.cumsum(shares)])
        whole = mass[end] - mass[start]
        known = whole > 1e-9
        part = np.where(known, (mass[middle] - mass[start]) / np.maximum(whole, TINY), 0.5)
        # An unknown half may have any share, as likely as another: its variance is 1 / 12.
        unknown = ~known | self.column.blind[cell[start]]
        std = np.where(unknown, np.sqrt(1 / 12), np.maximum(std / np.maximum(whole, TINY), 1e-4))
        inner = np.clip(part, 1e-6, 1 - 1e-6)  # a Beta has no share of nothing
        rows = np.clip(inner * (1 - inner) / std**2 - 1, 1.0, 1e7)
        a, b = inner * rows, (1 - inner) * rows
        found = rng.beta(a, b, (self._n_tables, len(part)))
        top = np.flatnonzero(np.diff(cell[start], prepend=-1))
        outwards = np.where(cell[start[top]] < np.median(cell), -1.0, 1.0)
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
            self.at_ends, self.beyond = clipped(mass, widths, cell, mass > SURE_MASS * unsure)
            self.cuts = edges[known[starts]]
        at = np.flatnonzero((part > 0) | (several & self._is_cut))
        # Both ends of a piece are places, too.
        ends, inside = np.concatenate([stops[at], starts[at]]), np.repeat([1 - 1e-12, 0.0], len(at))
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
    found = np.maximum(mass - np.maximum(explained, 0.0), 0.0) / np.maximum(mass, TINY)
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


# ---- several columns


def drawn_odds(expected: Floats, n_tables: int, rng: np.random.Generator) -> Floats:
    """Return the odds ratio in each cell, by the model and in each table, (1 + n_tables, n).

    It is that of the Plackett copula that has a correlation. By ranks this is
    ``(x**2 - 2 x log(x) - 1) / (x - 1)**2`` for odds of x [1]_, which is ``tanh(log(x) / 3)`` to
    first order, and to 0.016 anywhere.

    References
    ----------
    .. [1] Nelsen (2006), "An Introduction to Copulas", exercise 5.20.
    """
    own, alike = np.arctanh(expected)
    z = own + rng.random((n_tables, 1)) * (alike - own)
    z = z * np.where(coins(rng, n_tables, 1), STEEPER_THAN_NEIGHBOURS, 1.0)
    return np.exp(3 * np.concatenate([[(own + alike) / 2], z]))


def at_quantiles(quantiles: NDArray, cell: Codes, u: Floats) -> NDArray:
    """Return the values of rows at quantiles of their cells.

    Parameters
    ----------
    quantiles : ndarray of shape (n_tables, n_cells, n_steps)
    cell : ndarray of int, shape (n,)
    u : ndarray of shape (n_tables, n)
    """
    n = quantiles.shape[2]
    place = np.minimum((u * n).astype(np.int32), n - 1)
    place += (cell * n).astype(np.int32)
    place += np.arange(len(u), dtype=np.int32)[:, None] * quantiles[0].size
    return quantiles.ravel()[place]


def jumps(
    tables: Floats, n: int, coin: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return where in a cell the share p of another column's cell jumps, from a to b.

    These are what the neighbours of each cell have. All cells have the rows that they have by
    chance.

    Parameters
    ----------
    tables : ndarray of shape (n_tables, n_cells of j, n_cells of the other)
    n : int
        Cells of j that hold values.
    coin : ndarray of bool, shape (n_tables, n_cells of j)
        In which cells shares jump, if p lies between a and b.
    rng : Generator

    Returns
    -------
    place, first : ndarray of the shape of `tables`
        Where, and how many of the rows are before it: place a / p. Both are 1 / 2 without a jump.
    """
    tables = np.maximum(tables, 0.0)
    tables = np.maximum(tables + np.sqrt(tables) * rng.standard_normal(tables.shape), 0.0)
    p = tables / np.maximum(tables.sum(axis=2, keepdims=True), TINY)
    a, b = np.roll(p, 1, axis=1), np.roll(p, -1, axis=1)
    a[:, 0], b[:, n - 1 :] = p[:, 0], p[:, n - 1 :]
    jumped = coin[:, :, None] & ((a - p) * (p - b) > 0)
    place = np.where(jumped, (p - b) / np.where(jumped, a - b, 1.0), 0.5)
    first = np.where(jumped, place * a / np.maximum(p, TINY), 0.5)
    return place.astype(np.float32), first.astype(np.float32)


class InsideCells:
    """Where in the common cells of several columns rows lie, in the model and in each table.

    Parameters
    ----------
    model : TableModel
    places : sequence of Places
        Of each column.
    code : sequence of ndarray of int, shape (n,)
        The cell of each row, for each column. Rows of one unit follow one another.
    m : int
        Rows of a unit.
    n_tables : int
    rng : Generator
    counts : callable
        Takes two columns and returns the rows in their cells, in each table.
    """

    def __init__(
        self,
        model: TableModel,
        places: Sequence[Places],
        code: Sequence[Codes],
        m: int,
        n_tables: int,
        rng: np.random.Generator,
        counts: Callable[[Group], Floats],
    ):
        self._model, self._places, self._code, self._m = model, places, code, m
        self._counts, self._n_tables, self._rng = counts, n_tables, rng
        self.loose = [k for k, one in enumerate(places) if not one.column.is_exact]
        n, n_units = len(self.loose), len(code[0]) // m
        # A value is one of few quantiles of its cell: half of the digits tell which.
        drawn = rng.random((n, n_tables, n_units), dtype=np.float32)
        # Those of the model are spread evenly over the cells.
        even = np.outer(evenly_filling(3)[:n], 0.5 + np.arange(n_units))[:, None] % 1.0
        self._shifts = np.concatenate([even.astype(np.float32), drawn], axis=1)
        # What neighbours tell of a pair that nobody counted is a part of its interaction.
        self._along = [
            self._pair(a, b)
            for a, b in combinations(self.loose, 2)
            if model.counts_together((places[a].j, places[b].j))
        ]
        others = [k for k in range(len(places)) if k not in self.loose]
        self._beside = {k: [self._other(k, other) for other in others] for k in self.loose}

    def values(self) -> dict[int, NDArray]:
        """Return the values of the columns whose cells hold several, (1 + n_tables, n) each."""
        if not self.loose:
            return {}
        shape = (1 + self._n_tables, len(self._code[0]))
        found = {k: np.empty(shape) for k in self.loose}
        # So few tables at once that all that is computed of them stays in the processor's cache.
        step = max(2**15 // shape[1], 1)
        for start in range(0, shape[0], step):
            block = slice(start, start + step)
            for k, u in self._quantiles(block).items():
                quantiles = self._places[k].quantiles[block]
                found[k][block] = at_quantiles(quantiles, self._code[k], u)
        return found

    def _quantiles(self, block: slice) -> dict[int, Floats]:
        """Return at which quantiles of their cells the rows of some tables lie."""
        u = dict(zip(self.loose, lattice(self._m, self._shifts[:, block]), strict=True))
        for (a, of_a), (b, of_b) in self._along:
            between = u[a] + u[b] - (u[a] + u[b] >= 1.0)  # even, and independent of either
            u[b] = self._coupled(b, of_b, u[b], between, block)
            # If both went along with what the other was before, each would take the other's place.
            u[a] = self._coupled(a, of_a, u[a], self._ranks(u[b]), block)
        for k in (k for k in self.loose if self._beside[k]):
            slope = np.zeros_like(u[k])
            for own, coin, *_ in self._beside[k]:
                slope += np.where(np.take(coin[block], self._code[k], axis=1), 0.0, own)
            u[k] = tilted(u[k], slope)
            for *_, cells, jump in self._beside[k]:
                # At last: where nobody is, there stays nobody.
                u[k] = at_a_jump(u[k], *(np.take(one[block], cells, axis=1) for one in jump))
        return u

    def _coupled(self, k: int, how: tuple, u: Floats, other: Floats, block: slice) -> Floats:
        """Return quantiles that go along with those of another column in the same unit."""
        odds, start, share = how
        return plackett_quantiles(u, start + share * other, np.take(odds[block], self._code[k], 1))

    def _ranks(self, u: Floats) -> Floats:
        """Return where in its unit each row is by its quantile, from 0 to 1."""
        each = u.reshape(-1, self._m)
        if self._m == 2:  # two are compared much faster than sorted
            upper = (each[:, 1] >= each[:, 0]).astype(u.dtype)
            return np.stack([0.75 - upper / 2, 0.25 + upper / 2], axis=1).reshape(u.shape)
        place = np.argsort(each, axis=1) + self._m * np.arange(len(each))[:, None]
        found = np.empty(u.size, u.dtype)
        found[place] = (np.arange(self._m, dtype=u.dtype) + 0.5) / self._m
        return found.reshape(u.shape)

    def _pair(self, a: int, b: int) -> tuple[tuple[int, tuple], tuple[int, tuple]]:
        """Return how two numbers go up and down together, the one that goes along last first.

        Of the other one neighbours tell less.
        """
        pairs, j = ((a, b), (b, a)), [one.j for one in self._places]
        found = {k: correlation(self._model, j[k], j[other]) for k, other in pairs}
        a, b = sorted((a, b), key=lambda k: -found[k][1])
        return (a, self._coupling(a, b, found[a][0])), (b, self._coupling(b, a, found[b][0]))

    def _coupling(self, k: int, other: int, expected: Floats) -> tuple:
        """Let a number go up and down inside its cells with another one, across the other's."""
        odds = drawn_odds(expected, self._n_tables, self._rng)
        i, j, cells = self._places[k].j, self._places[other].j, (self._code[k], self._code[other])
        table = np.maximum(self._model.table((i, j)), 0.0) + TINY
        # Where each cell of the other begins in the rows of a cell, and how many it has of them.
        share = table / table.sum(axis=1, keepdims=True)
        start = np.cumsum(share, axis=1) - share
        return tuple(one.astype(np.float32) for one in (odds, start[cells], share[cells]))

    def _other(self, k: int, other: int) -> tuple:
        """Let rows lie where another column's cell has more of its share, evenly or by a jump."""
        i, j = self._places[k].j, self._places[other].j
        sizes = self._model.sizes
        cells = np.ravel_multi_index((self._code[k], self._code[other]), (sizes[i], sizes[j]))
        coin = coins(self._rng, 1 + self._n_tables, sizes[i])
        coin[0] = False
        n = sizes[i] - self._model.schema.missing(i)
        both = jumps(self._counts((i, j))[: 1 + self._n_tables], n, coin, self._rng)
        jump = [one.reshape(len(one), -1) for one in both]
        return slopes(self._model, i, j).ravel()[cells].astype(np.float32), coin, cells, jump
