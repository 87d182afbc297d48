"""Plausible tables of sketches without histograms: points whose weights are redrawn.

The regression from phi gives each synthetic point a weight that is linear in the sketch z. In a
plausible table, z has other noise, and the points have besides what phi does not tell of them:

    w = w(z + noise) + sqrt(D / n) zeta,

with zeta white over the n points and orthogonal to phi, and D the mean square of the coordinates of
the rows' density over that of the points (`Shift`). It is one table for all questions.

Where a column has a histogram besides, as in a union, points move inside its bins, as rows of
histograms do (`_places.py`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._computing import Codes, Floats
from ...schema._columns import N_EVEN
from ...schema._schema import TableSchema
from ...sketches._rounding import evenly, in_order
from .._numbers import N_TABLES
from ..inferring._points import MomentRegression, Shift
from ..inferring._table_model import TableModel, histogram_columns
from ._noise import coins, generator, other_people, white_noise
from ._places import at_quantiles
from ._plausible import NOISE, PLACES, PRIORS, SAMPLING, UNCOUNTED, PlausibleTables
from ._rows import NamedRows, Rows, column_of


class PlausiblePoints:
    """What a release that is no histogram tells of a table, by weighted points.

    Parameters
    ----------
    regression : MomentRegression
    shift : Shift
    schema : TableSchema
    of_histograms : TableModel or None
        The model of those columns that have a histogram.
    """

    model = None

    def __init__(
        self,
        regression: MomentRegression,
        shift: Shift,
        schema: TableSchema,
        of_histograms: TableModel | None,
    ):
        self._regression, self.shift, self.schema = regression, shift, schema
        # What histograms do not tell of columns together may be as much as of pairs that they tell.
        self._counted = None if of_histograms is None else PlausibleTables(of_histograms)
        phi = 0.0 if self._counted is None else self._counted.interactions.of_pair
        # More than 1 means that rows lie where hardly a point does. Residuals are then farther off
        # than what phi explains, up to four times on the lognormal columns of docs/m2m.md.
        self._square = max(shift.largest * max(shift.largest, 1.0), phi**2)
        self.sketch = regression.sketch
        self.n_rows = self.sketch.n_samples
        points = hashlib.sha256(np.ascontiguousarray(regression.weights).tobytes())
        self.draws = self.sketch.key + points.hexdigest()  # of other points, others
        self._kept: dict[str, Floats] = {}

    def __getstate__(self) -> dict[str, Any]:
        left = {"_of_noise", "_unexplained"}
        return {k: v for k, v in self.__dict__.items() if k not in left} | {"_kept": {}}

    def rows(
        self,
        columns: Sequence[int],
        covers: Any = "table",
        meets: Any = None,
        *,
        empty: bool = True,
    ) -> Rows:
        """Return the points, and their weights in each table: as `PlausibleTables.rows`.

        There are no others for a condition that few of them meet, nor for empty cells.
        """
        if not isinstance(covers, str):
            return covers.rows(columns, SAMPLING, meets)
        if covers not in self._kept:
            self._kept[covers] = self._weights(covers)
        place = self._moved if PLACES in PRIORS[covers] else self._column
        known = {j: place(j) for j in columns}
        whole = None if self._regression.center else self.n_rows
        places = [self._places(j) for j in columns]
        weights, some = self._kept[covers], lambda j, n: self._column(j)[:n]
        return Rows(self.schema, known, weights, some, whole, places=places)

    def _places(self, j: int) -> Codes:
        """Return the place of each point in a column: one of even parts of its values."""
        read = self.schema.columns[j].read(self._column(j))
        ranks = np.unique(read, return_inverse=True)[1]
        return ranks * N_EVEN // (ranks.max() + 1)

    def apart(self, columns: Sequence[int]) -> dict[tuple[int, int], float]:
        """Return no covariances: points tell of all columns together."""
        return {}

    def some_rows(self, n: int) -> NamedRows:
        """Return rows to try a function on."""
        return NamedRows.of(self._regression.points[:n], self.schema)

    def rows_anywhere(self, n: int) -> NamedRows:
        """Return rows whatever is likely."""
        return NamedRows.of(self.schema.sample(n, np.random.RandomState(0)), self.schema)

    def all_rows(self, columns: Sequence[int], most: int) -> None:
        """Return None: what rows there can be is looked for among points alone."""

    def _column(self, j: int) -> NDArray:
        return column_of(self._regression.points, self.schema, j)

    def _moved(self, j: int) -> NDArray:
        """Return a column of each table: points that move inside their bins."""
        own = self._column(j)
        if self._counted is None or j not in histogram_columns(self.sketch.feature_map):
            return own if self.schema.bound(j) is None else self._at_ends(j, own)
        places, column = self._counted.tables_of(PLACES).places(j), self._counted.model.cells[j]
        if column.is_exact:
            return own
        present = np.flatnonzero(~np.isnan(own))
        cell = column.cell_of_atom[column.find(own[present])]
        # Few points of a cell are at other places in each table, and evenly in all.
        rng, u = self._stream("inside", j), np.empty(len(cell))
        u[in_order(rng.permutation(len(cell)), cell)] = evenly(0.0, len(cell))
        u = (u + rng.random((N_TABLES, column.n_cells))[:, cell]) % 1.0
        moved = np.repeat(own[None], 1 + N_TABLES, axis=0)
        moved[1:, present] = at_quantiles(places.quantiles[1:], cell, u)
        return moved

    def _at_ends(self, j: int, own: Floats) -> Floats:
        """Return a column without a histogram: in some tables rows near an end of it are there.

        Features tell places hardly better than stretches of the range.
        """
        low, high = self.schema.bound(j) or (0.0, 1.0)
        near, rng = (high - low) / N_EVEN, self._stream("ends", j)
        found = np.repeat(own[None], 1 + N_TABLES, axis=0)
        at_low, at_high = coins(rng, 2, N_TABLES, 1)
        found[1:] = np.where(at_low & (own < low + near), low, found[1:])
        found[1:] = np.where(at_high & (own > high - near), high, found[1:])
        return found

    def _stream(self, *use: object) -> np.random.Generator:
        return generator(self.sketch.key, *use)

    def _weights(self, covers: str) -> Floats:
        own, priors = self.n_rows * self._regression.weights[None], PRIORS[covers]
        if not priors:
            return own
        drawn = self._of_noise if NOISE in priors else np.repeat(own, N_TABLES, axis=0)
        if UNCOUNTED in priors:
            drawn = drawn + self._unexplained
        if SAMPLING in priors:
            there, rng = np.maximum(own[0], 0.0), self._stream("population")
            drawn = drawn + other_people(there, self.sketch.privacy, rng)
        return np.concatenate([own, drawn])

    @cached_property
    def _of_noise(self) -> Floats:
        sizes = [*(part.n_features for part, _ in self.sketch.blocks()), 1]
        white = [
            white_noise(self.sketch.sources(k), (N_TABLES, size), "noise of features", k)
            for k, size in enumerate(sizes)
        ]
        means, n_rows = self.sketch.simulate(np.column_stack(white))
        if not self._regression.center:  # then z is a share of as many rows as it says
            n_rows = np.full(N_TABLES, self.n_rows)
        weights = n_rows[:, None] * self._regression.weights_for(means.T).T
        return weights if self._counted is None else self._followed(self._counted, weights)

    def _followed(self, counted: PlausibleTables, weights: Floats) -> Floats:
        """Return weights that follow the counts of histograms.

        The regression hardly hears a cell that noise has emptied, for few points are there.
        """
        model = counted.model
        codes = np.zeros((weights.shape[1], self.schema.n_columns), np.int64)
        columns = sorted(histogram_columns(self.sketch.feature_map))
        for j in columns:
            codes[:, j] = model.cells[j].cell_of_atom[model.cells[j].find(self._column(j))]
        groups, tables = model.counted_together(tuple(columns)), counted.tables_of(NOISE)
        cells = tables.cells_of_points(codes, groups)
        found = tables.followed(weights, np.ones(len(codes)), cells)
        if not self._regression.center:  # then these are shares, too
            found *= self.n_rows / np.maximum(found.sum(axis=1, keepdims=True), 1.0)
        return found

    @cached_property
    def _unexplained(self) -> Floats:
        n = len(self._regression.points)
        white = self._stream("unexplained").standard_normal((n, N_TABLES), dtype=np.float32)
        left = self._regression.residuals(white, self._regression.approximate(white)[0])
        return self.n_rows * math.sqrt(self._square / n) * left.T
