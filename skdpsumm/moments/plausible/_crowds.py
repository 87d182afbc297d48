"""Rows that no neighbour explains: they may all be at one place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._linear_systems import TINY
from ..inferring._shapes import NARROW
from ..inferring._table_model import TableModel

Floats = NDArray[np.float64]

# The mass of an atom is sure if it is more than this many standard deviations of its noise.
_SURE_MASS = 3.0
# A density rises and falls if it changes by this factor.
_DEPTH_OF_TROUGH = 2.0


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
    """

    def __init__(self, model: TableModel, j: int):
        column = self.column = model.cells[j]
        self.step = model.schema.step(j)
        shares = np.maximum(model.table((j,)), 0.0)
        spread = model.noise_of_cells((j,))
        piece, cell = column.piece_of_atom, column.cell_of_atom
        self.cell_of_piece = np.zeros(piece.max() + 1, np.int64)
        self.cell_of_piece[piece] = cell
        self.piece_shares: Floats = np.bincount(piece, column.shares).astype(np.float64)
        self.exact = self._exact(model, j)
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

    @property
    def is_exact(self) -> bool:
        """Whether each cell is one value."""
        return bool(self.exact.all()) and self.column.n_atoms == self.column.n_cells


def _crowded(mass: Floats, width: Floats, noise: Floats) -> Floats:
    """Return the share of each atom's rows that no density like its neighbours' explains."""
    density = mass / width
    sure = mass > _SURE_MASS * noise
    expected = np.zeros(len(mass))
    for sign in (1, -1):
        d, w, s = density[::sign], width[::sign], sure[::sign]
        found = np.zeros(len(d))
        for a in range(len(d)):
            near = [b for b in range(a + 1, min(a + 4, len(d))) if w[b] >= NARROW * w[a]][:2]
            if not near:
                continue
            found[a] = d[near[0]]
            if len(near) == 2 and s[near].all() and d[near[0]] > d[near[1]]:
                found[a] *= min(d[near[0]] / d[near[1]], 3.0)
        expected = np.maximum(expected, found[::sign])
    lowest, highest = (np.maximum(mass + k * noise, 0.0) / width for k in (-_SURE_MASS, _SURE_MASS))
    if _n_troughs(lowest, highest) >= 3:
        # Rows are at round values, and neighbours have such values, too: the lowest of three on
        # either side explains.
        around = np.pad(density, 3, constant_values=np.inf)
        expected = np.lib.stride_tricks.sliding_window_view(around, 7).min(axis=1)
    explained = expected * width + noise
    found = np.clip(1 - explained / np.maximum(mass, TINY), 0.0, 1.0)
    # Where most rows are a crowd, so may be the rest: noise alone does not explain it.
    return np.minimum(found + found**3, 1.0)


def _n_troughs(lowest: Floats, highest: Floats) -> int:
    """Return how often densities, each between two bounds, fall and rise by a factor again."""
    n, top, bottom, falls = 0, 0.0, np.inf, False
    for low, high in zip(lowest.tolist(), highest.tolist(), strict=True):
        top, bottom = max(top, low), min(bottom, high)
        if falls and low > _DEPTH_OF_TROUGH * bottom:
            n, top, falls = n + 1, low, False
        elif not falls and _DEPTH_OF_TROUGH * high < top:
            bottom, falls = high, True
    return n
