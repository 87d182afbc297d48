"""Sparse rows of numbers, in the one form in which a row is a function of its own cells alone.

A sparse container can hold the same row in many ways: columns in any order, a cell in several parts
that are to be added, zeros that are written down, indices of 32 or 64 bits. Sums of floats hang on
their order, so before anything is computed each row is brought to one form: its columns ascend,
each is there once, and none is zero. Parts of a cell become float64 and are added in the order of
their size, so that the order in which they came does not matter, nor does what stands beside them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_LARGEST_INT32 = np.iinfo(np.int32).max


class SparseRows:
    """A table of numbers most of which are zero, in the form above.

    It has a length, a shape, and rows by slices and by arrays of positions, as an array has.
    ``rows @ W`` and ``rows.T @ S`` are dense.

    Parameters
    ----------
    csr : scipy.sparse.csr_array of shape (n, d), float64
        In the form above.
    """

    ndim, dtype = 2, np.dtype(np.float64)

    def __init__(self, csr: sparse.csr_array):
        self.csr = csr
        self.shape: tuple[int, int] = csr.shape

    @classmethod
    def zeros(cls, n_rows: int, n_columns: int) -> SparseRows:
        """Return rows of zeros."""
        return cls(sparse.csr_array((n_rows, n_columns), dtype=np.float64))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray) -> SparseRows:
        return SparseRows(self.csr[rows])

    def __matmul__(self, other: NDArray) -> NDArray[np.float64]:
        return self.csr @ other

    @property
    def T(self) -> Any:
        """The transpose, a sparse array."""
        return self.csr.T

    @property
    def values(self) -> NDArray[np.float64]:
        """What is not zero, row by row."""
        return self.csr.data

    @property
    def indices(self) -> NDArray[np.integer]:
        """The column of each of `values`."""
        return self.csr.indices

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The row of each of `values`."""
        return np.repeat(np.arange(len(self)), np.diff(self.csr.indptr))

    def with_values(self, values: NDArray[np.float64]) -> SparseRows:
        """Return rows with other values in the same places."""
        structure = values, self.csr.indices, self.csr.indptr
        return SparseRows(sparse.csr_array(structure, shape=self.shape))

    def with_constant(self, value: float) -> SparseRows:
        """Return rows with one more column, behind the others, of one value."""
        column = sparse.csr_array(np.full((len(self), 1), value))
        return SparseRows(sparse.hstack([self.csr, column], format="csr"))

    def take_columns(self, which: list[int]) -> SparseRows:
        """Return some columns, in the order given."""
        taken = self.csr[:, which].tocsr()
        taken.sort_indices()
        return SparseRows(taken)

    def toarray(self) -> NDArray[np.float64]:
        """Return all cells."""
        return self.csr.toarray()

    def keys(self) -> list[bytes]:
        """Return what tells rows apart: equal rows have equal keys."""
        ends = self.csr.indptr
        columns = self.csr.indices.astype(np.int64)
        return [
            columns[first:last].tobytes() + self.csr.data[first:last].tobytes()
            for first, last in pairwise(ends)
        ]


def checked_structure(X: Any) -> sparse.coo_array:
    """Return the entries of a sparse container as it holds them, with indices that fit its shape.

    Compiled loops trust these, and `scipy` looks at few of them unasked. The container that was
    given stays as it is.

    Raises
    ------
    ValueError
        For indices that are negative, too large, or too few.
    """
    kinds = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}
    try:
        if X.format in kinds:  # all others have no indices that could be wrong, or are coo
            X = kinds[X.format]((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)
        found = X.tocoo()  # which adds nothing
        return sparse.coo_array((found.data, (found.row, found.col)), shape=found.shape)
    except (ValueError, TypeError, IndexError):
        pass
    raise ValueError("The indices of the sparse table do not fit its shape. Call X.check_format().")


def sparse_rows(X: sparse.coo_array, values: NDArray[np.float64]) -> SparseRows:
    """Return entries from `checked_structure` as rows.

    Parameters
    ----------
    X : coo_array
    values : ndarray of float64, of the shape of ``X.data``
        What stands in place of its data.
    """
    rows, columns = X.row, X.col
    if not _ascends(rows, columns):
        rows, columns, values = _with_cells_added(rows, columns, values)
    kept = values != 0
    rows, columns, values = rows[kept], columns[kept], values[kept]
    ends = np.searchsorted(rows, np.arange(X.shape[0] + 1))
    small = max(len(values), *X.shape) <= _LARGEST_INT32
    index = np.int32 if small else np.int64
    structure = values, columns.astype(index), ends.astype(index)
    return SparseRows(sparse.csr_array(structure, shape=X.shape))


def _ascends(rows: NDArray, columns: NDArray) -> bool:
    """Return whether rows ascend, and columns within each of them, none of them twice."""
    down, right = np.diff(rows), np.diff(columns)
    return bool(np.all((down > 0) | ((down == 0) & (right > 0))))


def _with_cells_added(
    rows: NDArray, columns: NDArray, values: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """Return cells in order, with the parts of each added in the order of their size."""
    order = np.lexsort((values, columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    if not len(rows):
        return rows, columns, values
    is_new = np.r_[True, (np.diff(rows) != 0) | (np.diff(columns) != 0)]
    starts = np.flatnonzero(is_new)
    return rows[starts], columns[starts], np.add.reduceat(values, starts)
