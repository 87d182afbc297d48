"""Rows of the model and of plausible tables, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..asking._positions import NamedRows
from ..inferring._table_model import TableModel

Floats = NDArray[np.float64]


class Rows:
    """Rows of a few columns in the model and in each plausible table.

    Parameters
    ----------
    model : TableModel
    columns : mapping of int to ndarray of shape (n,) or (1 + n_tables, n)
        Values of each column: alike in all tables, or of each.
    weights : ndarray of shape (1 + n_tables, n)
        How many rows of the table each stands for: signed, as unbiased counts are.
    """

    def __init__(self, model: TableModel, columns: Mapping[int, NDArray], weights: Floats):
        self.model, self.columns, self.weights = model, columns, weights

    @property
    def are_shared(self) -> bool:
        """Whether all tables have the same rows."""
        return all(values.ndim == 1 for values in self.columns.values())

    def ask(self, function: Callable[[NamedRows], ArrayLike]) -> Floats:
        """Return a function of rows at all rows, shape (1 or 1 + n_tables, n, k)."""
        shape = self.weights.shape if not self.are_shared else (1, self.weights.shape[1])
        rng = np.random.default_rng(0)

        def column(j: int) -> NDArray:
            if j in self.columns:
                return np.broadcast_to(self.columns[j], shape).reshape(-1)
            own = self.model.cells[j]  # which the function takes, and does not depend on
            return np.resize(own.draw(rng.integers(own.n_cells, size=256), rng), shape).reshape(-1)

        n = shape[0] * shape[1]
        found = np.asarray(function(NamedRows(self.model.schema, n, column)), np.float64)
        return found.reshape(*shape, -1)

    def column(self, j: int) -> NDArray:
        """Return a column, shape (1 or 1 + n_tables, n)."""
        return np.atleast_2d(self.columns[j])

    def sums(self, values: Floats) -> Floats:
        """Return the weighted sums of values of shape (1 or 1 + n_tables, n, k), in each table."""
        if len(values) == 1:
            return np.einsum("bn,nk->bk", self.weights, values[0], optimize=True)
        return np.einsum("bn,bnk->bk", self.weights, values)
