"""Symmetric matrices of which half is kept: half of the memory, and of the time to fill it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ..._computing import advance
from ..._linear_systems import UNIT, Floats, careful_product

# Rows of a strip, and columns of its tiles: one of these stays in the cache of a core, and rows are
# long enough that a call a row costs little.
STRIP_ROWS, TILE_COLUMNS = 128, 1024


class HalfMatrix:
    """A symmetric matrix, kept as strips of rows up to the last diagonal entry of each.

    Parameters
    ----------
    strips : list of ndarray of shape (at most STRIP_ROWS, n_columns)
        Those of `strips_of`, in order; the square at the end of each is symmetric.
    """

    def __init__(self, strips: list[Floats]):
        self.strips = strips
        self.n = strips[-1].shape[1]

    @classmethod
    def of(cls, matrix: Floats) -> HalfMatrix:
        """Return the lower half of an array of shape (n, n), without a copy."""
        return cls([matrix[here, : here.stop] for here in strips_of(len(matrix))])

    def _placed(self) -> Iterator[tuple[slice, Floats]]:
        return zip(strips_of(self.n), self.strips, strict=True)

    def diagonal(self) -> Floats:
        """Return the diagonal, shape (n,)."""
        return np.concatenate([np.diag(strip[:, here]) for here, strip in self._placed()])

    def raise_diagonal(self, amount: float) -> None:
        """Add a number to the diagonal."""
        for here, strip in self._placed():
            strip[:, here][np.diag_indices(len(strip))] += amount

    def rows(self, some: NDArray[np.intp]) -> Floats:
        """Return rows of the whole matrix, which are given in ascending order, shape (k, n)."""
        out = np.empty((len(some), self.n))
        for here, strip in self._placed():
            first, last = np.searchsorted(some, (here.start, here.stop))
            out[first:last, : here.stop] = strip[some[first:last] - here.start]
            out[:first, here] = strip[:, some[:first]].T
        return out

    def corner(self, some: NDArray[np.intp]) -> Floats:
        """Return the matrix of these rows and columns, in ascending order, shape (k, k)."""
        out = np.empty((len(some), len(some)))
        for here, strip in self._placed():
            first, last = np.searchsorted(some, (here.start, here.stop))
            block = strip[np.ix_(some[first:last] - here.start, some[:last])]
            out[first:last, :last] = block
            out[:first, first:last] = block[:, :first].T
        return out

    def times(self, A: Floats) -> Floats:
        """Return the product with A, of shape (n, q), with errors within `plain_error`.

        A tile is read from memory once, for its two places in the matrix.
        """
        out = np.zeros(A.shape)
        for here, strip in self._placed():
            for there in tiles_before(here):
                tile = strip[:, there]
                out[here] += tile @ A[there]
                out[there] += tile.T @ A[here]
            out[here] += strip[:, here] @ A[here]
        return out

    def careful_times(self, A: Floats) -> Floats:
        """Return the product with A, of shape (n, q), with errors within `product_error`."""
        parts = []
        for here in strips_of(self.n):
            rows = self.rows(np.arange(here.start, here.stop))
            for some in gen_batches(len(rows), 32):
                parts.append(careful_product(rows[some], A))
                advance()
        return np.concatenate(parts)


def strips_of(n: int) -> list[slice]:
    """Return the rows of each strip."""
    return _slices(n, STRIP_ROWS)


def tiles_before(rows: slice) -> list[slice]:
    """Return the columns of the tiles of a strip, less the square at its end."""
    return _slices(rows.start, TILE_COLUMNS)


def _slices(n: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def plain_error(n: int, largest: float, total: float) -> float:
    """Return a bound on the errors of a row of `HalfMatrix.times`, as a vector of q numbers.

    Parameters
    ----------
    n : int
    largest : float
        The largest size of an entry of the matrix.
    total : float
        The sum over the rows of A of their norms.

    Notes
    -----
    A term takes part in one product, in the sum of a tile, in any order, and then in one sum for
    each tile of its row. Each leaves a unit of it at most (Higham 2002, section 3.1).
    """
    tiles = n // TILE_COLUMNS + n // STRIP_ROWS + 3
    return 1.01 * (min(n, TILE_COLUMNS) + tiles) * UNIT * largest * total
