"""The cells of a column, in which a graphical model counts rows, and where in them rows lie.

Histograms of one sketch may divide a column in several ways: fine cells found first, bins that were
chosen from them, rare categories taken together. `Atoms` are the pieces between all these cuts. The
model has one division, the cells; what is known of the atoms inside a cell is its shape, which is
taken to be independent of the other columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...features._histogram import HistogramMap
from ...schema._schema import TableSchema
from ...sketches._private_sketch import PrivateSketch
from ...sketches._residuals import Marginal

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Of a range: edges so close are one, rounded in two ways.
_SAME_EDGE = 1e-9
# Standard deviations by which a noisy count must depart from an even spread to be believed.
_BELIEVED = 2.5
_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class Counted:
    """A group as a histogram of the sketch counted it."""

    columns: tuple[int, ...]
    counts: Floats
    std: float
    phase: int
    part: HistogramMap


def counted_groups(sketch: PrivateSketch) -> list[Counted]:
    """Return the groups of all histograms of a sketch, in the order of its parts."""
    found = []
    for phase, (part, where) in enumerate(sketch.blocks()):
        if not isinstance(part, HistogramMap):
            continue
        sums, noise = sketch.sums[where], sketch.noise_std[where]
        for group, cells in zip(part.groups, part.row_groups(), strict=True):
            counts = sums[cells].reshape([part.n_bins[j] for j in group])
            found.append(Counted(tuple(group), counts, float(noise[cells][0]), phase, part))
    return found


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """How one column is divided.

    Parameters
    ----------
    schema : TableSchema
    column : int
    edges : ndarray or None
        Of the atoms of a numeric column, half a step beside its values where it has a step. None
        for categories, of which each is an atom. Missing values are the last atom of either.
    cell_of_atom : ndarray of int, shape (n_atoms,)
    shares : ndarray, shape (n_atoms,)
        Probability of each atom within its cell.
    shares_std : ndarray, shape (n_atoms,)
        Standard deviation of the noise in `shares`; 0 where they are an even spread.
    """

    schema: TableSchema
    column: int
    edges: Floats | None
    cell_of_atom: Codes
    shares: Floats
    shares_std: Floats

    @property
    def n_cells(self) -> int:
        """Number of cells, that of missing values included."""
        return int(self.cell_of_atom.max()) + 1

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.cell_of_atom)

    @property
    def n_present(self) -> int:
        """Number of atoms that hold values."""
        return self.n_atoms - self.schema.missing(self.column)

    def atoms(self, codes: Codes, rng: np.random.Generator) -> tuple[Codes, Floats]:
        """Return an atom of each cell that is asked for, and where in it: a number in [0, 1).

        Rows of a cell are stratified, so that they are spread as `shares` say.
        """
        order = np.lexsort((rng.random(len(codes)), codes))
        counts = np.bincount(codes, minlength=self.n_cells)
        rank = np.empty(len(codes))
        rank[order] = np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[order]]
        return self.at(codes, (rank + rng.random(len(codes))) / counts[codes])

    def at(self, codes: Codes, u: Floats) -> tuple[Codes, Floats]:
        """Return the atom at each quantile `u`, in [0, 1), of a cell, and where in the atom."""
        by_cell = np.argsort(self.cell_of_atom, kind="stable")
        ends = np.cumsum(self.shares[by_cell])  # each cell's shares sum to one
        found = np.searchsorted(ends, codes + u, side="right")
        first = np.searchsorted(self.cell_of_atom[by_cell], np.arange(self.n_cells + 1))
        found = np.clip(found, first[codes], first[codes + 1] - 1)
        atoms = by_cell[found]
        inside = codes + u - (ends[found] - self.shares[atoms])
        return atoms, np.clip(inside / np.maximum(self.shares[atoms], _SMALLEST), 0, 1 - 1e-12)

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
            values = low + inside * width
        else:  # one of the whole values between two edges
            n_values = np.rint(width / step)
            values = low + (np.floor(inside * n_values) + 0.5) * step
        return np.where(gone, np.nan, schema.on_grid(values, j))

    def contents(self) -> list[Any]:
        """Return what each cell may hold, as `TableSchema.possible_cells` takes it."""
        cells = [np.flatnonzero(self.cell_of_atom == k) for k in range(self.n_cells)]
        if self.edges is None:
            return [tuple(atoms.tolist()) for atoms in cells]
        half = (self.schema.step(self.column) or 0.0) / 2
        low, high = self.edges[:-1] + half, self.edges[1:] - half
        kept = [atoms[atoms < self.n_present] for atoms in cells]
        return [(low[a[0]], high[a[-1]]) if len(a) else None for a in kept]

    def draw(self, codes: Codes, rng: np.random.Generator) -> NDArray:
        """Return a value in each cell that is asked for."""
        return self.values(*self.atoms(codes, rng))


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
    n_atoms = _n_atoms(schema, edges, j)
    joint = [d for d, group in zip(divisions, own, strict=True) if len(group.columns) > 1]
    cells = _chosen(joint or divisions, n_atoms)
    shares, noise = _shape(schema, own, divisions, cells, edges, j)
    return ColumnCells(schema, j, edges, cells, shares, noise)


def _atom_edges(schema: TableSchema, parts: Sequence[HistogramMap], j: int) -> Floats | None:
    """Return all edges of a numeric column, None for categories."""
    if schema.values(j) is not None:
        return None
    low, high = schema.bound(j) or (0.0, 1.0)
    half = (schema.step(j) or 0.0) / 2
    ends = np.array([low - half, high + half])
    edges = np.unique(np.concatenate([ends, *(part.edges(j) for part in parts)]))
    # Of a wide range with a step, a bin of one value is narrower than that.
    same = min(_SAME_EDGE * (high - low), half / 2 or np.inf)
    close = np.concatenate([[False], np.diff(edges) <= same])
    return edges[~close]


def _n_atoms(schema: TableSchema, edges: Floats | None, j: int) -> int:
    known = schema.values(j)
    n_present = len(known) if known is not None else len(edges) - 1  # type: ignore[arg-type]
    return n_present + schema.missing(j)


def _division(part: HistogramMap, j: int, edges: Floats | None) -> Codes:
    """Return the cell of a histogram that holds each atom."""
    if edges is None:
        return part.cell_of_codes(j)
    middle = edges[:-1] / 2 + edges[1:] / 2
    cells = np.searchsorted(part.edges(j)[1:-1], middle, side="right").astype(np.int64)
    missing = part.schema.missing(j)
    return np.append(cells, part.n_present(j)) if missing else cells


def _refines(fine: Codes, coarse: Codes) -> bool:
    """Return whether each cell of one division lies in a single cell of the other."""
    return len(np.unique(np.stack([fine, coarse]), axis=1).T) == len(np.unique(fine))


def _chosen(divisions: Sequence[Codes], n_atoms: int) -> Codes:
    """Return the division of most groups, refined by those that cut across it."""
    if not divisions:
        return np.zeros(n_atoms, np.int64)
    votes = Counter(division.tobytes() for division in divisions)
    by_name = {division.tobytes(): division for division in divisions}
    # Of as many groups the coarser one: what is finer can be summed, and tells the shape.
    best = by_name[max(votes, key=lambda name: (votes[name], -int(by_name[name].max())))]
    for other in by_name.values():
        if not (_refines(other, best) or _refines(best, other)):
            best = np.unique(best * (other.max() + 1) + other, return_inverse=True)[1]
    # Numbered in the order of their first atoms, whatever the histograms called them.
    _, first, inverse = np.unique(best, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[inverse].astype(np.int64)


def _shape(
    schema: TableSchema,
    own: Sequence[Counted],
    divisions: Sequence[Codes],
    cells: Codes,
    edges: Floats | None,
    j: int,
) -> tuple[Floats, Floats]:
    """Return the shares of atoms in their cells, and the noise in them.

    Of the histograms that divide cells the one with the most bins speaks: a count that departs
    from an even spread by more than noise does is believed, the rest of the cell is spread evenly.
    """
    size = _sizes(schema, edges, len(cells), j)
    shares = size / np.bincount(cells, size)[cells]
    noise = np.zeros(len(cells))
    finer = [k for k, d in enumerate(divisions) if d.max() > cells.max()]
    if not finer:
        return shares, noise
    best = max(finer, key=lambda k: (divisions[k].max(), -own[k].std * _n_others(own[k], j)))
    division, group = divisions[best], own[best]
    axes = tuple(k for k, a in enumerate(group.columns) if a != j)
    counts, std = group.counts.sum(axis=axes), group.std * np.sqrt(_n_others(group, j))
    # Pieces: where a bin of this histogram and a cell meet. A bin may be cut by a cell's edge.
    piece = np.unique(np.stack([cells, division]), axis=1, return_inverse=True)[1]
    cell = np.zeros(piece.max() + 1, np.int64)
    cell[piece] = cells
    of_bin = np.zeros(piece.max() + 1, np.int64)
    of_bin[piece] = division
    piece_size = np.bincount(piece, size)
    part = piece_size / np.bincount(division, size)[of_bin]
    found, spread = counts[of_bin] * part, std * part
    total = np.maximum(np.bincount(cell, found), 0.0)
    even = total[cell] * piece_size / np.bincount(cell, piece_size)[cell]
    believed = np.abs(found - even) > _BELIEVED * spread
    kept = np.where(believed, np.maximum(found, 0.0), 0.0)
    rest = np.maximum(total - np.bincount(cell, kept), 0.0)
    open_size = np.bincount(cell, np.where(believed, 0.0, piece_size))
    filled = np.where(
        believed, kept, rest[cell] * piece_size / np.maximum(open_size, _SMALLEST)[cell]
    )
    whole = np.bincount(cell, filled)
    known = (whole > 0)[cell]
    filled = np.where(known, filled / np.maximum(whole, _SMALLEST)[cell], 0.0)
    filled = np.where(known, filled, piece_size / np.bincount(cell, piece_size)[cell])
    alone = np.bincount(cell)[cell] == 1
    unsure = np.where(alone, 0.0, spread / np.maximum(np.maximum(total[cell], spread), _SMALLEST))
    inside = size / piece_size[piece]
    return filled[piece] * inside, np.minimum(unsure[piece] * inside, 1.0)


def _n_others(group: Counted, j: int) -> int:
    """Return the number of cells that a bin of column `j` is the sum of."""
    return group.counts.size // group.part.n_bins[j]


def _sizes(schema: TableSchema, edges: Floats | None, n_atoms: int, j: int) -> Floats:
    """Return the widths of atoms, or one for each category."""
    if edges is None:
        return np.ones(n_atoms)
    widths = np.diff(edges)
    return np.append(widths, widths.mean()) if schema.missing(j) else widths


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
        cell = _image(division, into, counts.shape[axis])
        size = int(into.max()) + 1
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
