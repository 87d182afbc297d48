"""Rows of the model and of plausible tables, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ...schema._schema import TableSchema
from ..inferring._points import absent
from ._named_rows import NamedRows

Floats = NDArray[np.float64]


class Rows:
    """Rows of a few columns in the model and in each plausible table.

    Parameters
    ----------
    schema : TableSchema
    columns : mapping of int to ndarray of shape (n,) or (1 + B, n)
        Values of each column: alike in all tables, or of each.
    weights : ndarray of shape (1 + B, n)
        How many rows of the table each stands for: signed, as unbiased counts are.
    others : callable
        Takes a column that is not among these, and a number, and returns some values of it: what
        a function takes and does not depend on.
    n_rows : float, default=None
        What weights are shares of, where they do not sum to it. None, where they do.
    """

    def __init__(
        self,
        schema: TableSchema,
        columns: Mapping[int, NDArray],
        weights: Floats,
        others: Callable[[int, int], NDArray],
        n_rows: float | None = None,
    ):
        self.schema, self.columns, self.weights, self._others = schema, columns, weights, others
        self.n_rows = n_rows

    @property
    def n(self) -> int:
        """Number of rows of each table."""
        return self.weights.shape[1]

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.weights.size + sum(values.size for values in self.columns.values())

    def column(self, j: int) -> NDArray:
        """Return a column, shape (1 or 1 + B, n)."""
        return np.atleast_2d(self.columns[j])

    def numbers(self, j: int) -> Floats:
        """Return a column of numbers, shape (1 or 1 + B, n)."""
        return self.column(j).astype(np.float64, copy=False)

    def absent(self, j: int) -> NDArray[np.bool_]:
        """Return which rows lack a value of a column, shape (1 or 1 + B, n)."""
        values = self.column(j)
        return absent(self.schema, values.ravel(), j).reshape(values.shape)

    def ask(self, function: Callable[[NamedRows], Floats]) -> Floats:
        """Return a function of rows at all rows, shape (1 or 1 + B, n, k)."""
        shared = all(values.ndim == 1 for values in self.columns.values())
        shape = (1 if shared else len(self.weights), self.n)

        def column(j: int) -> NDArray:
            if j in self.columns:
                return np.broadcast_to(self.columns[j], shape).reshape(-1)
            # The function does not depend on this column, so a few values are repeated.
            return np.resize(self._others(j, 256), shape).reshape(-1)

        found = function(NamedRows(self.schema, shape[0] * shape[1], column))
        return found.reshape(*shape, -1)

    def of_model(self) -> Rows:
        """Return the rows of the model alone."""
        own = {j: values if values.ndim == 1 else values[0] for j, values in self.columns.items()}
        return Rows(self.schema, own, self.weights[:1], self._others, self.n_rows)

    def where(self, truths: NDArray) -> Rows:
        """Return the same rows with weights times `truths`, shape (1 or 1 + B, n)."""
        weights = self.weights * np.nan_to_num(truths)
        return Rows(self.schema, self.columns, weights, self._others)
