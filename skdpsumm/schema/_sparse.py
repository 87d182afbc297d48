"""Sparse rows of numbers, in the one form in which a row is a function of its own cells alone.

A sparse container can hold the same row in many ways: columns in any order, a cell in several parts
that are to be added, zeros that are written down, indices of 32 or 64 bits. Sums of floats hang on
their order, so before anything is computed each row is brought to one form: its columns ascend,
each is there once, and none is zero. Parts of a cell become float64 and are added in the order of
their size, so that the order in which they came does not matter, nor does what stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_LARGEST_INT32 = np.iinfo(np.int32).max


class SparseRows(sparse.csr_array):
    """A table of float64 most of which are zero, in the form above.

    It has a length, and rows by slices and by arrays of positions, as an array has. Products with
    dense arrays are dense.
    """

    @classmethod
    def zeros(cls, n_rows: int, n_columns: int) -> SparseRows:
        """Return rows of zeros."""
        return cls((n_rows, n_columns), dtype=np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> SparseRows:
        """Return some rows, or some columns of all rows in the order given."""
        taken = SparseRows(super().__getitem__(key))
        if isinstance(key, tuple):
            taken.sort_indices()
        return taken

    @property
    def values(self) -> NDArray[np.float64]:
        """What is not zero, row by row."""
        return self.data

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The row of each of `values`."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def with_values(self, values: NDArray[np.float64]) -> SparseRows:
        """Return rows with other values in the same places."""
        return SparseRows((values, self.indices, self.indptr), shape=self.shape)

    def with_constant(self, value: float) -> SparseRows:
        """Return rows with one more column, behind the others, of one value."""
        column = sparse.csr_array(np.full((len(self), 1), value))
        return SparseRows(sparse.hstack([self, column], format="csr"))

    def keys(self) -> list[bytes]:
        """Return what tells rows apart: equal rows have equal keys."""
        columns = self.indices.astype(np.int64)
        return [
            columns[first:last].tobytes() + self.data[first:last].tobytes()
            for first, last in pairwise(self.indptr)
        ]


def sparse_rows(X: Any, read: Callable[[NDArray], NDArray[np.float64]]) -> SparseRows:
    """Return the rows of a sparse container, which stays as it is.

    Parameters
    ----------
    X : sparse array or matrix of shape (n, d)
    read : callable
        Takes the entries as they are, and returns those of float64 that stand in their place.

    Raises
    ------
    ValueError
        For indices that are negative, too large, or too few.
    """
    found = _checked_structure(X)
    rows, columns, values = found.row, found.col, read(found.data)
    if not _ascends(rows, columns):
        rows, columns, values = _with_cells_added(rows, columns, values)
    kept = values != 0
    rows, columns, values = rows[kept], columns[kept], values[kept]
    ends = np.searchsorted(rows, np.arange(X.shape[0] + 1))
    small = max(len(values), *X.shape) <= _LARGEST_INT32
    index = np.int32 if small else np.int64
    return SparseRows((values, columns.astype(index), ends.astype(index)), shape=X.shape)


def _checked_structure(X: Any) -> sparse.coo_array:
    """Return the entries of a sparse container as it holds them, with indices that fit its shape.

    Compiled loops trust these, and `scipy` looks at few of them unasked.
    """
    kinds = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}
    with suppress(ValueError, TypeError, IndexError):
        if X.format in kinds:  # all others have no indices that could be wrong, or are coo
            X = kinds[X.format]((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)
        found = X.tocoo()  # which adds nothing
        return sparse.coo_array((found.data, (found.row, found.col)), shape=found.shape)
    raise ValueError("The indices of the sparse table do not fit its shape. Call X.check_format().")


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
