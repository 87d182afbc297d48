"""What rows are grouped by: the categories of a column, or bins of its numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...schema._columns import read_cells
from ...schema._schema import TableSchema
from ..inferring._table_model import TableModel

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """The categories of a column, or bins of its numbers.

    Parameters
    ----------
    schema : TableSchema
    column : int
    labels : tuple of str
    edges : ndarray or None
        Of the bins, the last one closed; None for categories.
    """

    schema: TableSchema
    column: int
    labels: tuple[str, ...]
    edges: Floats | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.schema.name(self.column)

    def codes(self, values: NDArray) -> Codes:
        """Return the place of each value on the axis, -1 where it has none."""
        if self.edges is None:
            codes = read_cells(self.schema.columns[self.column], values, self.name)
        else:
            numbers = values.astype(np.float64)
            codes = np.searchsorted(self.edges, numbers, side="right") - 1  # NaN is beyond the last
            codes[numbers == self.edges[-1]] = len(self) - 1
        return np.where(codes < len(self), codes, -1)


def binned_axis(schema: TableSchema, j: int, edges: Floats) -> Axis:
    """Return an axis of bins; edges are values, each the first of its bin but the last."""
    ends = ")" * (len(edges) - 2) + "]"
    told = list(map(schema.columns[j].label, edges))
    labels = [f"[{a}, {b}{end}" for a, b, end in zip(told[:-1], told[1:], ends, strict=True)]
    return Axis(schema, j, tuple(labels), np.asarray(edges, dtype=np.float64))


def model_axis(model: TableModel, j: int) -> Axis:
    """Return the axis of the cells of the model."""
    schema, column = model.schema, model.cells[j]
    assert column.edges is not None  # of numbers
    n = column.n_present
    first = np.flatnonzero(np.diff(column.cell_of_atom[:n], prepend=-1))
    edges = np.append(column.edges[first], column.edges[-1])
    step = schema.step(j)
    if step is None:
        return binned_axis(schema, j, edges)
    low = schema.on_grid(edges[:-1] + step / 2, j)
    high = schema.on_grid(edges[1:] - step / 2, j)
    bins = binned_axis(schema, j, np.append(low, high[-1])).labels
    told = map(schema.columns[j].label, low)
    labels = [t if a == b else bin for t, a, b, bin in zip(told, low, high, bins, strict=True)]
    return Axis(schema, j, tuple(labels), edges)
