"""Rows that fill the cells of a few columns, so that a question can be asked of each cell.

A histogram tells how many rows are in a cell. Where in it they are it does not tell, and what a
question is in a cell is its mean over rows that are spread as the fine counts of each column say.
`Inside` says how far rows may be from that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inferring._cells import ColumnCells
from ..inferring._shapes import PLACES
from ..inferring._table_model import TableModel
from ._positions import NamedRows

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# A group of columns with more cells is asked at the model's points.
MOST_CELLS = 2**17
# Rows in all cells together, and in one.
_N_ROWS, _FEWEST, _MOST = 2**17, 4, 32
# Values that one question may have at all rows together.
_MOST_VALUES = 2**24
# Values of a column that a question does not hang on.
_FEW_VALUES = 256
# Rows in all atoms of a single column together, and in one.
_N_ROWS_OF_ONE, _FEWEST_PLACES, _MOST_PLACES = 2048, 4, 64
# A neighbour whose width is a smaller part of an atom's says nothing of its density.
_COMPARABLE = 0.2
# By this factor a density may grow from one atom to the next.
_STEEPEST = 3.0
_SURE = 3.0
# A density that falls and rises again so often, by this factor, has heaps at round values; then it
# is compared with so many neighbours on either side.
_HEAPED, _HIGHER, _NEAR = 3, 2.0, 3
_SMALLEST = 1e-300
# Of the standard deviation inside a cell of several columns: how far the mean there may be from
# that of rows that are spread as each column tells. Chosen by measurement.
APART = 0.3
# Where two columns nearly tell each other, what each of them tells of places is off as well, and in
# the same direction. Chosen on columns that differ by noise of 1 % of their range.
_AT_ONCE = 1.5


class Inside:
    """How well is known where in the cells of a column its rows lie.

    Parameters
    ----------
    model : TableModel
    j : int

    Attributes
    ----------
    column : ColumnCells
    exact : ndarray of bool, shape (n_atoms,)
        Atoms of a single value.
    crowded : ndarray of shape (n_pieces,)
        Share of the rows of a piece that its neighbours do not explain: they may all be at one
        place.
    piece_shares : ndarray of shape (n_pieces,)
        Of each piece in its cell.
    masses : ndarray of shape (n_atoms,)
        Share of the rows in each atom.
    in_cells : ndarray of shape (n_cells,)
        Variance of the mean place of a cell's rows, in units of that of a single row.
    """

    def __init__(self, model: TableModel, j: int):
        column = self.column = model.cells[j]
        self.step = model.schema.step(j)
        shares = np.maximum(model.table((j,)), 0.0)
        noise = model.noise_variance((j,), np.eye(column.n_cells))
        spread = np.zeros(column.n_cells) if noise is None else np.sqrt(noise)
        piece, cell = column.piece_of_atom, column.cell_of_atom
        self.cell_of_piece = np.zeros(piece.max() + 1, np.int64)
        self.cell_of_piece[piece] = cell
        self.piece_shares: Floats = np.bincount(piece, column.shares).astype(np.float64)
        self.masses: Floats = shares[cell] * column.shares
        self.exact = self._exact(model, j)
        self.points: Floats = np.unique(column.points[~np.isnan(column.points)])
        self.crowded = np.zeros(len(self.piece_shares))
        if column.edges is not None:
            n = column.n_present
            widths = np.bincount(piece[:n], np.diff(column.edges)).astype(np.float64)
            mass = (shares[self.cell_of_piece] * self.piece_shares)[: len(widths)]
            unsure = self._spread_of_pieces(shares, spread)[: len(widths)]
            self.crowded[: len(widths)] = _crowded(mass, widths, unsure)
            self.crowded[column.blind[self.cell_of_piece]] = 1.0
        exact = np.bincount(piece, ~self.exact) == 0
        self.crowded[exact & (np.bincount(piece) == 1)] = 0.0
        self.in_cells = self._of_cells()

    def _spread_of_pieces(self, shares: Floats, spread: Floats) -> Floats:
        """Return the standard deviation of the noise in the mass of each piece."""
        column, n = self.column, len(self.piece_shares)
        own = (column.piece_of_atom[:, None] == np.arange(n)).astype(np.float64)
        cell = self.cell_of_piece
        of_shape = np.sqrt(column.shape.variance(own)[cell, np.arange(n)])
        return np.hypot(shares[cell] * of_shape, spread[cell] * self.piece_shares)

    def _exact(self, model: TableModel, j: int) -> NDArray[np.bool_]:
        column, step = self.column, self.step
        exact = np.ones(column.n_atoms, np.bool_)
        if column.edges is not None:
            single = ~np.isnan(column.points)
            if step is not None:
                single = np.rint(np.diff(column.edges) / step) <= 1
            exact[: column.n_present] = single
        return exact

    def _of_cells(self) -> Floats:
        """Return how far the mean place of a cell's rows may be off, in variances of a row's."""
        column, cell = self.column, self.column.cell_of_atom
        order = np.argsort(cell, kind="stable")
        ends = np.cumsum(column.shares[order])
        middle = np.empty(column.n_atoms)
        middle[order] = ends - column.shares[order] / 2 - cell[order] - 0.5
        between = column.shape.variance(middle[:, None])[:, 0]
        loose = np.where(self.exact, 0.0, column.shares**4 / PLACES)
        between = np.maximum(12 * between, column.shape.jump)
        return np.minimum(between + np.bincount(cell, loose, column.n_cells), 1.0)

    def places(self, low: float, high: float, n_ends: int) -> tuple[Floats, Floats]:
        """Return last values of atoms, and the pieces with many rows at one value, perhaps.

        These are pieces that are crowded, and such as are cut out of a range for that. Of more than
        `n_ends` atoms those are taken that end another such part of the rows.
        """
        column, half = self.column, (self.step or 0.0) / 2
        assert column.edges is not None
        first = np.flatnonzero(np.diff(column.piece_of_atom[: column.n_present], prepend=-1))
        ends = np.append(column.edges[first], column.edges[-1])
        # Edges of whole numbers lie between two of them.
        spans = np.clip(np.column_stack([ends[:-1] + half, ends[1:] - half]), low, high)
        crowded = self.crowded[: len(spans)] > 0
        known = ~np.isnan(column.points[first])
        spans[known] = column.points[first][known, None]
        lasts = np.clip(column.edges[1:] - half, low, high)
        if len(lasts) > n_ends:
            part = np.floor(n_ends * np.cumsum(self.masses[: len(lasts)]) / self.masses.sum())
            lasts = lasts[np.diff(part, prepend=0) > 0]
        return lasts, spans[crowded | known]

    @property
    def is_exact(self) -> bool:
        """Whether each cell is one value."""
        return bool(self.exact.all()) and self.column.n_atoms == self.column.n_cells


def _crowded(mass: Floats, width: Floats, noise: Floats) -> Floats:
    """Return the share of each atom's rows that no density like its neighbours' explains."""
    density = mass / width
    sure = mass > _SURE * noise
    expected = np.zeros(len(mass))
    for sign in (1, -1):
        d, w, s = density[::sign], width[::sign], sure[::sign]
        found = np.zeros(len(d))
        for a in range(len(d)):
            near = [b for b in range(a + 1, min(a + 4, len(d))) if w[b] >= _COMPARABLE * w[a]][:2]
            if not near:
                continue
            found[a] = d[near[0]]
            if len(near) == 2 and s[near].all() and d[near[0]] > d[near[1]]:
                found[a] *= min(d[near[0]] / d[near[1]], _STEEPEST)
        expected = np.maximum(expected, found[::sign])
    lowest, highest = (np.maximum(mass + k * noise, 0.0) / width for k in (-_SURE, _SURE))
    if _n_troughs(lowest, highest) >= _HEAPED:
        # Rows are at round values, and neighbours have such values, too: the lowest one explains.
        around = np.pad(density, _NEAR, constant_values=np.inf)
        expected = np.lib.stride_tricks.sliding_window_view(around, 2 * _NEAR + 1).min(axis=1)
    explained = expected * width + noise
    found = np.clip(1 - explained / np.maximum(mass, _SMALLEST), 0.0, 1.0)
    # Where most rows are a crowd, so may be the rest: noise alone does not explain it.
    return np.minimum(found + found**3, 1.0)


def apart(model: TableModel, columns: Sequence[int], k: int, *, even: bool = False) -> Floats:
    """Return how far rows in each cell of some columns may lie from what column k tells of them.

    By a part of their standard deviation, or as far as a jump of another column takes them.
    """
    found = np.full([model.cells[j].n_cells for j in columns], APART)
    if model.cells[columns[k]].edges is None:
        return found
    for n, other in enumerate(columns):
        if n != k:
            jumps = model.jumps(columns[k], other, even=even)
            there = [axis for axis in range(len(columns)) if axis not in (k, n)]
            found = np.maximum(found, np.expand_dims(jumps if k < n else jumps.T, there))
    return found


def along(model: TableModel, columns: Sequence[int], axes: Sequence[int]) -> Floats:
    """Return how the loosest two of some axes go together inside the cells of the columns."""
    found = np.ones([model.cells[j].n_cells for j in columns])
    for k, n in combinations(axes, 2):
        rest = [axis for axis in range(len(columns)) if axis not in (k, n)]
        found = np.minimum(found, np.expand_dims(model.along(columns[k], columns[n]), rest))
    return _AT_ONCE * found


def _n_troughs(lowest: Floats, highest: Floats) -> int:
    """Return how often densities, each between two bounds, fall and rise again by `_HIGHER`."""
    n, top, bottom, falls = 0, 0.0, np.inf, False
    for low, high in zip(lowest.tolist(), highest.tolist(), strict=True):
        top, bottom = max(top, low), min(bottom, high)
        if falls and low > _HIGHER * bottom:
            n, top, falls = n + 1, low, False
        elif not falls and _HIGHER * high < top:
            bottom, falls = high, True
    return n


class FilledCells:
    """Rows that fill the cells of a few columns, or the atoms of a single one.

    Parameters
    ----------
    model : TableModel
    columns : tuple of int
        At least one; with at most `MOST_CELLS` cells.
    insides : mapping from column to Inside
    n_outputs : int, default=1
        Of the function that is asked.

    Attributes
    ----------
    shape : tuple of int
        Number of units, which are cells or atoms, of each column.
    unit : ndarray of shape (n_rows,)
        The unit of each row, as a number.
    weights : ndarray of shape (n_rows,)
        Of each row in its unit.
    """

    def __init__(
        self,
        model: TableModel,
        columns: tuple[int, ...],
        insides: Sequence[Inside],
        n_outputs: int = 1,
    ):
        self.model, self.columns, self.insides = model, columns, tuple(insides)
        self.by_atom = len(columns) == 1
        self._rng = np.random.default_rng(0)  # public, and always the same
        self.ranks: list[Floats] = []
        self.places: list[tuple[Codes, Floats]] = []
        if self.by_atom:
            self._fill_atoms()
        else:
            self._fill_cells(n_outputs)
        self.n_units = math.prod(self.shape)

    def _fill_atoms(self) -> None:
        column, inside = self.insides[0].column, self.insides[0]
        self.shape: tuple[int, ...] = (column.n_atoms,)
        places = _N_ROWS_OF_ONE // max(int((~inside.exact).sum()), 1)
        places = int(np.clip(places, _FEWEST_PLACES, _MOST_PLACES))
        counts = np.where(inside.exact, 1, places)
        step = self.model.schema.step(self.columns[0])
        if step is not None and column.edges is not None:
            n_values = np.rint(np.diff(column.edges) / step).astype(np.int64)
            n = column.n_present
            counts[:n] = np.where(n_values <= _MOST_PLACES, n_values, places)
        self.unit = np.repeat(np.arange(column.n_atoms), counts)
        rank = np.arange(len(self.unit)) - np.repeat(np.cumsum(counts) - counts, counts)
        u = (rank + 0.5) / counts[self.unit]
        self.weights = 1 / counts[self.unit]
        self.places = [(self.unit, u)]
        self.ranks = [u]

    def _fill_cells(self, n_outputs: int) -> None:
        self.shape = tuple(inside.column.n_cells for inside in self.insides)
        n = math.prod(self.shape)
        loose = [not inside.is_exact for inside in self.insides]
        most = min(_N_ROWS, _MOST_VALUES // max(n_outputs, 1))
        m = int(np.clip(most // n, _FEWEST, _MOST)) if any(loose) else 1
        self.unit = np.repeat(np.arange(n), m)
        self.weights = np.full(n * m, 1 / m)
        codes = np.unravel_index(self.unit, self.shape)
        for k, inside in enumerate(self.insides):
            u = np.full(n * m, 0.5)
            if loose[k]:
                order = np.tile(np.arange(m), (n, 1))
                if sum(loose) > 1:
                    order = self._rng.permuted(order, axis=1)
                u = ((order + self._rng.random((n, 1))) / m).ravel()
            self.places.append(inside.column.at(codes[k], u))
            self.ranks.append(u)
        self._go_along(codes, loose)

    def _go_along(self, codes: Sequence[Codes], loose: Sequence[bool]) -> None:
        """Weight the rows of each cell, so that each column goes along with the others inside it.

        The numbers of rows in the cells stay what they are.
        """
        for k, j in enumerate(self.columns):
            if not loose[k] or self.insides[k].column.edges is None:
                continue
            for n, other in enumerate(self.columns):
                if n != k:
                    slope = self.model.slopes(j, other)[codes[k], codes[n]]
                    self.weights *= 1 + slope * (self.ranks[k] - 0.5)
        self.weights /= np.bincount(self.unit, self.weights)[self.unit]

    def rows(self, ends: dict[int, int] | None = None) -> NamedRows:
        """Return the rows; along some axes at the lower (0) or the upper (1) ends of their atoms.

        Columns that are not among `columns` are filled at random.
        """
        return self._some(slice(None), ends or {})

    def rows_of(
        self, units: Codes, ends: dict[int, int]
    ) -> tuple[NamedRows, Callable[[Floats], Floats]]:
        """Return the rows of some units, and the function that takes means in these."""
        which = np.flatnonzero(np.isin(self.unit, units))
        starts = np.flatnonzero(np.diff(self.unit[which], prepend=-1))
        weights = self.weights[which, None]
        return self._some(which, ends), lambda values: np.add.reduceat(values * weights, starts)

    def _some(self, which: slice | Codes, ends: dict[int, int]) -> NamedRows:
        n = len(self.unit[which])
        return NamedRows(self.model.schema, n, partial(self._column, which, n, ends))

    def _column(self, which: slice | Codes, n: int, ends: dict[int, int], j: int) -> NDArray:
        if j not in self.columns:  # which is not asked for, or changes nothing
            return np.resize(some_values(self.model, j, _FEW_VALUES), n)
        k = self.columns.index(j)
        atoms, place = self.places[k]
        if k not in ends:
            return self.insides[k].column.values(atoms[which], place[which])
        return self._at_end(k, atoms[which], ends[k])

    def _at_end(self, k: int, atoms: Codes, end: int) -> NDArray:
        """Return the lowest or the highest value in an atom, or in the crowded piece of a cell."""
        inside = self.insides[k]
        column = inside.column
        first = last = atoms
        if not self.by_atom and column.edges is not None:
            pieces = self._crowd(k)[column.cell_of_atom[atoms]]
            first = np.searchsorted(column.piece_of_atom, pieces)
            last = np.searchsorted(column.piece_of_atom, pieces, side="right") - 1
        atoms = last if end else first
        return _ends_of_atoms(column, atoms, np.full(len(atoms), bool(end)))

    def _crowd(self, k: int) -> Codes:
        """Return the piece of each cell whose rows are most likely to be at one place."""
        inside = self.insides[k]
        order = np.lexsort((-inside.crowded * inside.piece_shares, inside.cell_of_piece))
        cells = np.arange(inside.column.n_cells)
        return order[np.searchsorted(inside.cell_of_piece[order], cells)]

    def crowded(self, k: int) -> Floats:
        """Return the share of the rows of each cell of an axis that may be at one place."""
        inside, pieces = self.insides[k], self._crowd(k)
        return inside.crowded[pieces] * inside.piece_shares[pieces]

    def extremes(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest of values in each unit, shape (n_units, k)."""
        starts = np.flatnonzero(np.diff(self.unit, prepend=-1))
        return np.fmin.reduceat(values, starts, axis=0), np.fmax.reduceat(values, starts, axis=0)

    def means(self, values: Floats) -> Floats:
        """Return the mean of values in each unit, shape (n_units, k)."""
        weighted = values * self.weights[:, None]
        if len(self.unit) == self.n_units:
            return weighted
        starts = np.flatnonzero(np.diff(self.unit, prepend=-1))
        return np.add.reduceat(weighted, starts, axis=0)

    def probabilities(self, table: Floats) -> Floats:
        """Return the probabilities of the units for those of the cells, shape (n_units,)."""
        if not self.by_atom:
            return table.ravel()
        column = self.insides[0].column
        return table[column.cell_of_atom] * column.shares

    def in_cells(self, means: Floats) -> Floats:
        """Return means in the cells for means in the units, shape (*sizes, k)."""
        if not self.by_atom:
            return means.reshape(*self.shape, -1)
        column = self.insides[0].column
        found = np.zeros((column.n_cells, means.shape[1]))
        np.add.at(found, column.cell_of_atom, means * column.shares[:, None])
        return found


def _ends_of_atoms(column: ColumnCells, atoms: Codes, upper: NDArray[np.bool_]) -> NDArray:
    """Return the lowest or, where `upper` says so, the highest value of each atom."""
    found = column.values(atoms, np.where(upper, 1 - 1e-12, 0.0))
    if column.edges is None or column.schema.step(column.column) is not None:
        return found
    there = atoms < column.n_present
    known = np.where(there, atoms, 0)
    high = np.nextafter(column.edges[known + 1], -np.inf)
    high = np.where(known == column.n_present - 1, column.edges[-1], high)
    return np.where(there, np.where(upper, high, column.edges[known]), found)


def values_anywhere(model: TableModel, j: int, n: int, rng: np.random.Generator) -> NDArray:
    """Return values of a column to find what depends on it, whatever is likely.

    A quarter each are ends of its range, ends of cells, ends of atoms, and places in atoms.
    """
    column, kind = model.cells[j], rng.integers(4, size=n)
    upper, cells = rng.random(n) < 0.5, rng.integers(column.n_cells, size=n)
    by_cell = np.argsort(column.cell_of_atom, kind="stable")
    firsts = np.searchsorted(column.cell_of_atom[by_cell], np.arange(column.n_cells + 1))
    of_cells = by_cell[np.where(upper, firsts[cells + 1] - 1, firsts[cells])]
    of_range = np.where(upper, column.n_present - 1, 0)
    atoms = rng.integers(column.n_atoms, size=n)
    atoms = np.where(kind == 0, of_range, np.where(kind == 1, of_cells, atoms))
    inside = column.values(atoms, rng.random(n) * (1 - 1e-12))
    return np.where(kind == 3, inside, _ends_of_atoms(column, atoms, upper))


def all_values(model: TableModel, j: int) -> NDArray | None:
    """Return all values that the schema allows in a column, or None where they are on no grid."""
    schema, column = model.schema, model.cells[j]
    if column.edges is None:
        return schema.decode(j, np.arange(column.n_atoms))
    n, step, bound = schema.n_values(j), schema.step(j), schema.bound(j)
    if n is None or step is None or bound is None:
        return None
    values = schema.on_grid(bound[0] + step * np.arange(n), j)
    return np.append(values, np.nan) if schema.missing(j) else values


def possible_rows(rows: NamedRows, model: TableModel, columns: Sequence[int]) -> NDArray[np.bool_]:
    """Return which rows the schema allows: those in no combination that it rules out."""
    possible = np.ones(len(rows), bool)
    for combination in model.schema.impossible:
        if {j for j, _ in combination} <= set(columns):
            held = [_holds(model, j, taken, rows[:, j]) for j, taken in combination]
            possible &= ~np.all(held, axis=0)
    return possible


def _holds(model: TableModel, j: int, taken: Sequence[Any], values: NDArray) -> NDArray[np.bool_]:
    """Return where a column has what a combination takes of it."""
    if model.cells[j].edges is not None:
        low, high = taken
        return (low <= values) & (values <= high)
    named = set(model.schema.decode(j, np.asarray(taken)).tolist())
    return np.array([value in named for value in values.tolist()], bool)


def some_values(model: TableModel, j: int, n: int) -> NDArray:
    """Return some values of a column, from all of its cells."""
    rng = np.random.default_rng(j)
    column = model.cells[j]
    return column.draw(rng.integers(column.n_cells, size=n), rng)
