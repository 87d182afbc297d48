"""The joint distribution of a table's columns, inferred from the histograms of a sketch.

`TableModel` fits a graphical model to all counts of a release, in the cells of `column_cells`. The
probabilities of the cells of a group that was counted are its own counts, made consistent with all
others; any other group's are the tree's. What no group has counted, the model takes to be as
independent as the counts allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..._linear_systems import TINY
from ...schema._schema import TableSchema, stack_columns
from ...sketches._graphical import GraphicalModel
from ...sketches._private_sketch import PrivateSketch
from ...sketches._residuals import Marginal
from .._numbers import MOST_TABLE_CELLS
from ._cells import ColumnCells, column_cells, counted_groups, in_cells

Group = tuple[int, ...]
Floats = NDArray[np.float64]


class TableModel:
    """What the histograms of a sketch tell of a table.

    Parameters
    ----------
    sketch : PrivateSketch
        With a histogram in it.
    schema : TableSchema
        The table as answers see it.

    Attributes
    ----------
    cells : list of ColumnCells
        How each column is divided.
    sizes : tuple of int
        Number of cells of each column.
    n_rows : float
        Private estimate of the number of rows, at least 1.
    origins : list of (int, int)
        Of each group that the model is fitted to: its place among all groups of the sketch, and
        that of its block.
    model : GraphicalModel
    """

    def __init__(self, sketch: PrivateSketch, schema: TableSchema):
        self.sketch, self.schema = sketch, schema
        groups = counted_groups(sketch)
        if not groups:
            raise ValueError(
                "A graphical model needs a sketch with a histogram, and this has none."
            )
        self.cells: list[ColumnCells] = [
            column_cells(schema, groups, j) for j in range(schema.n_columns)
        ]
        self.sizes = tuple(column.n_cells for column in self.cells)
        found = [(group, in_cells(group, self.cells)) for group in groups]
        self.marginals = [marginal for _, marginal in found if marginal is not None]
        self.origins = [(k, g.phase) for k, (g, m) in enumerate(found) if m is not None]
        self.n_rows = sketch.n_samples
        self._is_silent = not any(np.any(marginal.std) for marginal in self.marginals)
        # Combinations that the schema rules out are public zeros.
        self._zeros = schema.possible_cells([column.contents() for column in self.cells])
        self.model = self.fitted(self.marginals)

    def fitted(self, marginals: Sequence[Marginal]) -> GraphicalModel:
        """Return the graphical model of some of what was counted."""
        return GraphicalModel(self.sizes, zeros=self._zeros).fit(marginals)

    # ---- what is likely

    def n_cells(self, columns: Sequence[int]) -> int:
        """Return the number of cells of some columns together."""
        return math.prod(self.sizes[j] for j in columns)

    def n_units(self, columns: Sequence[int]) -> int:
        """Return the number of cells of some columns, where categories are told one by one."""
        known = [self.cells[j] for j in columns]
        return math.prod(one.n_atoms if one.edges is None else one.n_cells for one in known)

    def table(self, columns: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of some columns, one axis for each, in order.

        Raises
        ------
        ValueError
            For more than `MOST_TABLE_CELLS` cells.
        """
        if self.n_cells(columns) > MOST_TABLE_CELLS:
            names = ", ".join(repr(self.schema.name(j)) for j in columns)
            raise ValueError(
                f"A table of {names} has {self.n_cells(columns):,} cells, more than "
                f"{MOST_TABLE_CELLS:,}. Ask for fewer columns."
            )
        if self._is_silent and self.model.residuals.covers(columns):
            # The counts themselves: the model is fitted to these as far as its tolerance.
            counts = np.maximum(self.model.residuals.marginal(columns), 0.0)
            return counts / max(counts.sum(), TINY)
        return self.model.table(tuple(columns))

    def sample(self, n_rows: int, rng: np.random.Generator) -> NDArray:
        """Return synthetic rows, shape (n_rows, d), whose counts are those of `table`."""
        codes = self.model.rounded(n_rows, rng)
        return stack_columns([c.draw(codes[:, j], rng) for j, c in enumerate(self.cells)])

    def some_values(self, j: int, n: int) -> NDArray:
        """Return some values of a column, from all of its cells."""
        rng = np.random.default_rng(j)
        return self.cells[j].draw(rng.integers(self.cells[j].n_cells, size=n), rng)

    def noise_of_cells(self, columns: Group) -> Floats:
        """Return the deviation of the noise in the rows of each cell; 0 if nobody counted it."""
        group = tuple(sorted(columns))
        if not self.model.residuals.covers(group):
            return np.zeros([self.sizes[j] for j in columns])
        noise = np.sqrt(self.model.residuals.cell_variances(group))
        return np.transpose(noise, [group.index(j) for j in columns])

    def counts_together(self, columns: Group) -> bool:
        """Return whether some group has all of these columns."""
        return any(set(columns) <= set(m.columns) for m in self.marginals)

    def counted_together(self, columns: Group, most_cells: int = 4096) -> list[Group]:
        """Return the largest groups of some columns that were counted, or each by itself.

        Groups of more than `most_cells` are left out: points are few in their cells.
        """
        found = {tuple(j for j in columns if j in m.columns) for m in self.marginals}
        found = {g for g in found | {(j,) for j in columns} if g and self.n_cells(g) <= most_cells}
        return sorted(g for g in found if not any(set(g) < set(other) for other in found))
