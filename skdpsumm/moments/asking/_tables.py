"""Tables of several columns from the graphical model: all of their cells at once.

A cell of such a table is a product of conditions on single columns, and so are all parts of its
error: they are computed by column, and never for one cell after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...schema._columns import read_cells
from ...schema._schema import TableSchema
from ...sketches._residuals import subsets
from ..inferring._table_model import TableModel
from ._estimate import Estimate
from ._filled_cells import APART, along, apart
from ._parts import NEAR, TOGETHER, ModelAnswers
from ._warnings import warn_of_the_wide

Floats = NDArray[np.float64]
Group = tuple[int, ...]
Codes = NDArray[np.int64]

_SMALLEST = 1e-100  # its square is a number, too
_NOTHING = 1e-20
_HALVINGS = 60
# Numbers off a grid by so little of a step are on it.
_OF_A_STEP = 1e-6
# Cells of the model by entries of a table: with more, noise is taken to be alike in all cells.
_MOST_WEIGHTS = 2**24


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
            return np.where(codes < len(self), codes, -1)
        numbers = values.astype(np.float64)
        codes = np.searchsorted(self.edges, numbers, side="right") - 1
        codes[numbers == self.edges[-1]] = len(self) - 1
        return np.where((codes < len(self)) & ~np.isnan(numbers), codes, -1)

    def holds(self, values: NDArray) -> NDArray[np.bool_]:
        """Return whether each value lies at each place, shape (n, n_places)."""
        return self.codes(values)[:, None] == np.arange(len(self))

    def contents(self) -> list[Any]:
        """Return what each place may hold, as `TableSchema.possible_cells` takes it."""
        if self.edges is None:
            return [(code,) for code in range(len(self))]
        ends, step = self.edges, self.schema.step(self.column)
        if step is None:
            return list(pairwise(ends))
        origin = self.schema.bound(self.column)[0]  # type: ignore[index]
        first = np.ceil((ends - origin) / step - _OF_A_STEP)  # of the values from each edge on
        first[-1] = np.floor((ends[-1] - origin) / step + _OF_A_STEP) + 1
        return [(origin + a * step, origin + (b - 1) * step) for a, b in pairwise(first)]


def category_axis(schema: TableSchema, j: int) -> Axis:
    """Return the axis of a column of categories."""
    return Axis(schema, j, tuple(map(str, schema.values(j) or ())), None)


def binned_axis(schema: TableSchema, j: int, edges: Floats) -> Axis:
    """Return an axis of bins; edges are values, each the first of its bin but the last."""
    ends = ")" * (len(edges) - 2) + "]"
    labels = [
        f"[{a:.12g}, {b:.12g}{end}" for a, b, end in zip(edges[:-1], edges[1:], ends, strict=True)
    ]
    return Axis(schema, j, tuple(labels), np.asarray(edges, dtype=np.float64))


def model_axis(model: TableModel, j: int) -> Axis:
    """Return the axis of the cells of the model."""
    schema, column = model.schema, model.cells[j]
    if column.edges is None:
        return category_axis(schema, j)
    n = column.n_present
    first = np.flatnonzero(np.diff(column.cell_of_atom[:n], prepend=-1))
    edges = np.append(column.edges[first], column.edges[-1])
    step = schema.step(j)
    if step is None:
        return binned_axis(schema, j, edges)
    low = schema.on_grid(edges[:-1] + step / 2, j)
    high = schema.on_grid(edges[1:] - step / 2, j)
    after = np.append(low[1:], np.nan)
    labels = [
        f"{a:.12g}" if a == b else f"[{a:.12g}, {b:.12g}]" if c != c else f"[{a:.12g}, {c:.12g})"
        for a, b, c in zip(low, high, after, strict=True)
    ]
    return Axis(schema, j, tuple(labels), edges)


class Members(NamedTuple):
    """What share of the rows of each cell of a column is at each place of an axis.

    Each of shape (n_cells, n_places).

    Parameters
    ----------
    share : ndarray
    slope : ndarray
        Of the condition along the cell, for rows spread from 0 to 1 in it.
    """

    share: Floats
    slope: Floats

    @classmethod
    def of(cls, answers: ModelAnswers, axis: Axis) -> Members:
        """Ask rows that fill the column's atoms."""
        filled = answers.filled((axis.column,))
        holds = axis.holds(filled.rows()[:, axis.column]).astype(np.float64)
        shares = np.clip(filled.in_cells(filled.means(holds)), 0.0, 1.0)
        column = filled.insides[0].column
        order = np.argsort(column.cell_of_atom, kind="stable")
        ends = np.cumsum(column.shares[order])
        start = np.empty(column.n_atoms)
        start[order] = ends - column.shares[order] - column.cell_of_atom[order]
        place = start[filled.unit] + filled.ranks[0] * column.shares[filled.unit] - 0.5
        slope = filled.in_cells(filled.means(holds * place[:, None])) * np.sqrt(12)
        return cls(shares, np.where((shares > 0) & (shares < 1), slope, 0.0))

    @property
    def any(self) -> Floats:
        """The share of each cell's rows at some place, shape (n_cells, 1)."""
        return self.share.sum(axis=1, keepdims=True)


class TableAnswer:
    """Counts or shares of the cells of a table.

    Parameters
    ----------
    answers : ModelAnswers
    axes : sequence of Axis
        Of different columns.
    normalize : bool or {"index", "columns"}
        False: numbers of rows. True: shares of the rows that hold a value in all the columns.
        "index", "columns": shares of the rows of a row, or of a column, of the table.
    """

    def __init__(self, answers: ModelAnswers, axes: Sequence[Axis], normalize: Any):
        self._answers, self._axes, self._normalize = answers, axes, normalize
        self.columns = tuple(axis.column for axis in axes)
        self._members = [Members.of(answers, axis) for axis in axes]
        self._table = np.maximum(answers.model.table(self.columns), 0.0)
        # What an entry is a share of: all rows, or those of its row or column of the table.
        self._parts = [m.share for m in self._members]
        self._wholes = self._denominators()
        self._whole = np.maximum(self._sum(self._table, self._wholes), _SMALLEST)
        found = self._sum(self._table, self._parts)
        self.shares = np.minimum(found / self._whole, 1.0)
        self._scale = answers.n_rows if self._counts else 1.0
        self._biased: Any = 0.0
        self._ruled_out = self._of_nobody()
        self.shares, self._biased = self._near_the_unbiased()
        self.shares = np.where(self._ruled_out, 0.0, self.shares)

    @property
    def _counts(self) -> bool:
        return self._normalize is False

    def _denominators(self) -> list[Floats]:
        """Return, for each axis, the share of each cell's rows in what an entry is a share of."""
        wholes = []
        for k, (axis, members) in enumerate(zip(self._axes, self._members, strict=True)):
            kept = {"index": 0, "columns": 1}.get(self._normalize)
            if k == kept:
                wholes.append(members.share)
            elif kept is not None:
                wholes.append(members.any)
            else:
                there = np.ones((len(members.share), 1))
                missing = self._answers.model.schema.missing(axis.column)
                if missing and not self._counts:
                    last = self._answers.model.cells[axis.column].cell_of_atom[-1]
                    there[last] = 0.0
                wholes.append(there)
        return wholes

    def _of_nobody(self) -> NDArray[np.bool_]:
        """Return which entries no row can be in, as the schema says."""
        schema = self._answers.model.schema
        contents: dict[int, list[Any]] = {j: [] for j in range(schema.n_columns)}
        contents |= {axis.column: axis.contents() for axis in self._axes}
        possible = np.ones(self.shares.shape, bool)
        for group, there in schema.possible_cells(contents):
            place = [self.columns.index(j) for j in group]
            others = tuple(k for k in range(possible.ndim) if k not in place)
            possible &= np.expand_dims(there.transpose(np.argsort(place)), others)
        return ~possible

    @staticmethod
    def _sum(table: Floats, by_axis: Sequence[Floats]) -> Floats:
        """Return the sum of a table times conditions on its axes, an axis for each."""
        for weights in by_axis:  # the first axis goes to the end
            table = np.tensordot(table, weights, axes=(0, 0))
        return table

    def to_estimate(self, frame: str | None) -> Estimate:
        """Return the table as users see it."""
        return Estimate(
            self.shares * self._scale,
            lambda: np.where(self._ruled_out, 0.0, np.sqrt(self._noise)),
            ends=self._ends,
            sampling=self._sampling,
            possible=self._possible,
            labels=[axis.labels for axis in self._axes],
            axes=[axis.name for axis in self._axes],
            frame=frame,
        )

    def _near_the_unbiased(self) -> tuple[Floats, Floats]:
        """Return shares within `NEAR` standard errors of unbiased ones, and how far above these.

        As `CellPart` has it: a model has no negative counts, which over many cells is a bias. Sums
        stay those of the model: of all entries, or of those that are shares of a row or column.
        """
        noise = self._closed_noise()
        if noise is None:
            return self.shares, np.zeros(self.shares.shape)
        residuals = self._answers.model.model.residuals
        counts = residuals.marginal(self.columns).reshape(self._table.shape)
        more = self._sum(counts, self._parts) - self.shares * self._sum(counts, self._wholes)
        unbiased = self.shares + more / (max(residuals.n_rows, 1.0) * self._whole)
        reach = NEAR * np.sqrt(noise) / self._scale
        found = np.clip(np.clip(self.shares, unbiased - reach, unbiased + reach), 0.0, 1.0)
        summed = {"index": (1,), "columns": (0,)}.get(self._normalize, tuple(range(found.ndim)))
        found, noise = (np.where(self._ruled_out, 0.0, one) for one in (found, noise))
        found = _with_sums_of(self.shares, found, noise, summed)
        return found, found - unbiased

    @property
    def _possible(self) -> tuple[float, float]:
        largest = self._answers.n_rows + 3 * self._answers.model.sketch.n_noise_std
        return 0.0, largest if self._counts else 1.0

    def warn_of_the_wide(self, found: Estimate) -> None:
        """Warn where an entry of the table, as users see it, is next to unknown."""
        noise = self._closed_noise()
        noise = self._noise_of_columns() if noise is None else noise
        unit = (self._scale / self._whole) ** 2
        variance = noise + unit * (self._approximation() + self._inside())
        rough = Estimate(
            self.shares * self._scale,
            lambda: np.sqrt(noise),
            ends=lambda z: self._ends_of(z, variance),
            possible=self._possible,
        )
        names = [", ".join(labels) for labels in product(*(axis.labels for axis in self._axes))]
        warn_of_the_wide(self._answers.model.sketch, rough, found, names)

    def _sampling(self) -> Floats:
        rows = np.maximum(self._whole * self._answers.n_independent, 1.0)
        return np.sqrt(self.shares * (1 - self.shares) / rows) * self._scale

    def _ends(self, z: float) -> tuple[Floats, Floats]:
        return self._ends_of(z, self._variance)

    def _ends_of(self, z: float, variance: Floats) -> tuple[Floats, Floats]:
        below, above = self._reach
        beyond = z**2 * variance
        value, biased = self.shares * self._scale, self._biased * self._scale
        low, high = np.sqrt(beyond + below**2) + biased, np.sqrt(beyond + above**2) - biased
        low, high = (np.where(self._ruled_out, 0.0, np.maximum(x, 0.0)) for x in (low, high))
        return value - low, value + high

    # ---- parts of the error

    @cached_property
    def _variance(self) -> Floats:
        """Return the variance of all but what crowded rows do."""
        unit = (self._scale / self._whole) ** 2
        return self._noise + unit * (self._approximation() + self._inside())

    @cached_property
    def _noise(self) -> Floats:
        found = self._closed_noise()
        return self._simulated() if found is None else found

    def _closed_noise(self) -> Floats | None:
        """Return the variance of the noise, None where only simulated releases show it."""
        residuals, sketch = self._answers.model.model.residuals, self._answers.model.sketch
        centred = not (self._counts and sketch.n_from_sums)
        small = self._table.size * self.shares.size <= _MOST_WEIGHTS
        exact = small and not residuals.is_even
        found = self._noise_of_weights(centred) if exact else self._noise_of_residuals(centred)
        if found is None:
            return None
        variance = found / self._answers.n_rows**2 * (self._scale / self._whole) ** 2
        if centred and self._counts:
            variance = variance + (self.shares * sketch.n_noise_std) ** 2
        return variance

    def _noise_of_weights(self, centred: bool) -> Floats | None:
        """Return the variance of counts, by the weight that each cell has in each entry."""
        weights = reduce(np.multiply.outer, self._parts)
        if centred:
            wholes = reduce(np.multiply.outer, self._wholes)
            # Axes alternate, cells and places, and places come in the order of the axes.
            shares = self.shares.reshape([n for k in self.shares.shape for n in (1, k)])
            weights = weights - shares * wholes
        order = [2 * k for k in range(len(self.columns))]
        weights = np.transpose(weights, order + [k + 1 for k in order])
        weights = weights.reshape(*self._table.shape, -1)
        found = self._answers.model.model.residuals.variances(self.columns, weights)
        return None if found is None else found.reshape(self.shares.shape)

    def _noise_of_residuals(self, centred: bool) -> Floats | None:
        """Return the same, of noise that is alike in all cells of a group."""
        residuals = self._answers.model.model.residuals
        total = np.zeros(self.shares.shape)
        for part in subsets(self.columns):
            power = self._power(part, None, centred=centred)
            noise = residuals.noise(part)
            if noise is None and np.max(power) > _NOTHING:
                return None
            total += power * (noise or 0.0)
        return total

    def _noise_of_columns(self) -> Floats:
        """Return about the variance of the noise: in what single columns tell of each entry."""
        model = self._answers.model
        margins = [np.maximum(model.table((j,)), 0.0) for j in self.columns]
        means = [margin @ held for margin, held in zip(margins, self._parts, strict=True)]
        total, last = np.zeros(self.shares.size), len(self.columns) - 1
        for k, j in enumerate(self.columns):
            others = [np.ones(1) if axis == k else mean for axis, mean in enumerate(means)]
            place = np.moveaxis(
                self._parts[k].reshape(*self._parts[k].shape, *[1] * last), 1, k + 1
            )
            own = place * reduce(np.multiply.outer, others)
            noise = model.noise_variance((j,), own.reshape(len(margins[k]), -1))
            total += 0.0 if noise is None else noise
        return total.reshape(self.shares.shape) * (self._scale / self._whole) ** 2

    def _simulated(self) -> Floats:
        """Return the variance of the noise as simulated releases show it."""
        tables = self._answers.tables_of_replicates(self.columns)
        moved = []
        for table, n in zip(tables, self._answers.rows_of_replicates, strict=True):
            other = table.reshape(self._table.shape)
            found = self._sum(other, self._parts)
            if self._counts:
                moved.append(found * n - self.shares * self._scale)
            else:
                found = found - self.shares * self._sum(other, self._wholes)
                moved.append(found / self._whole)
        return np.mean(np.square(moved), axis=0)

    def _power(self, part: Sequence[int], margins: Any, *, centred: bool) -> Floats:
        """Return the power of each entry's conditions that is of a set of columns alone.

        Over independent columns with these margins, or in cells of equal weight (None). What an
        entry is a share of is subtracted, times its share, unless it is not to be `centred`.
        """
        pairs = [(self._parts, self._parts), (self._parts, self._wholes)]
        pairs.append((self._wholes, self._wholes))
        found = []
        for left, right in pairs if centred else pairs[:1]:
            factors = []
            for k, j in enumerate(self.columns):
                weights = None if margins is None else margins[k]
                factors.append(_product(left[k], right[k], weights, inside=j in part))
            found.append(reduce(np.multiply.outer, factors))
        if not centred:
            return found[0]
        power = found[0] - 2 * self.shares * found[1] + self.shares**2 * found[2]
        return np.maximum(power, 0.0)

    def _approximation(self) -> Floats:
        """Return the variance for want of groups that were counted, in shares of all rows."""
        model = self._answers.model
        covers = model.model.residuals.covers
        total = np.zeros(self.shares.shape)
        if covers(self.columns):
            return total
        margins = [np.maximum(model.table((j,)), 0.0) for j in self.columns]
        for part in subsets(self.columns):
            if len(part) > 1 and not covers(part):
                power = self._power(part, margins, centred=True)
                if len(part) == 2:
                    aligned, size = self._of_pair(part, margins)
                    power = model.of_pair(part, aligned, power, size)
                total += model.square_of(part) * power
        return total

    def _of_pair(self, part: Group, margins: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return, of each entry, what goes up and down with two columns, and its size.

        The first as a square, the other as the mean absolute value.
        """
        ranked, sizes = [], []
        for margin, held, j in zip(margins, self._parts, self.columns, strict=True):
            ranks = self._answers.model.ranks(j) if j in part else 1.0
            ranked.append(((margin * ranks) @ held) ** 2)
            mean = margin @ held
            sizes.append(margin @ np.abs(held - mean) if j in part else mean)
        return reduce(np.multiply.outer, ranked), reduce(np.multiply.outer, sizes)

    def _inside(self) -> Floats:
        """Return the variance for where in their cells rows are, in shares of all rows.

        As `CellPart` has it: each column tells how all rows of its cells are spread, and in cells
        with other columns they may be spread otherwise, but not all in the same way.
        """
        p, squares = self._table, [m.share**2 for m in self._members]
        spread = np.maximum(self._sum(p**2, self._parts) - self._sum(p**2, squares), 0.0)
        loose = np.maximum(self._sum(p, self._parts) - self._sum(p, squares), 0.0)
        total, known = loose / self._answers.n_rows, np.zeros(1)
        for k, members in enumerate(self._members):
            told = self._answers.inside(self.columns[k])
            slope = self._by_code(p, k, members.slope)
            total = total + np.tensordot(told.in_cells, slope**2, axes=(0, 0))
            own = members.share * (1 - members.share)
            far = (p * apart(self._answers.model, self.columns, k, even=True)) ** 2
            steps = self._by_code(far, k, own, squares)
            common = self._by_code(far, k, np.sqrt(own)) ** 2 / self._all_by_code(far, k)
            total = total + np.maximum(steps - common, 0.0).sum(axis=0)
            known = known + self._by_code(p**2, k, own, squares).sum(axis=0)
            here = self._by_code(p, k, np.ones_like(own)) / self._all_by_code(p, k)
            together = self._by_code(p, k, np.sqrt(own)) * np.maximum(1 - here, 0.0)
            total = total + (TOGETHER * together.sum(axis=0)) ** 2
        return total + APART**2 * np.maximum(spread - known, 0.0)

    def _all_by_code(self, table: Floats, k: int) -> Floats:
        """Return the sum of a table for each cell of an axis, to divide by."""
        others = tuple(axis for axis in range(table.ndim) if axis != k)
        return np.maximum(table.sum(axis=others), _SMALLEST).reshape(-1, *[1] * table.ndim)

    def _by_code(
        self, table: Floats, k: int, own: Floats, parts: Sequence[Floats] | None = None
    ) -> Floats:
        """Return sums over all cells of the other axes, shape (n_cells of the axis, *shape)."""
        parts = self._parts if parts is None else parts
        others = [m for axis, m in enumerate(parts) if axis != k]
        found = np.array([self._sum(one, others) for one in np.moveaxis(table, k, 0)])
        # (cells, *others) times (cells, places), which goes to its own axis.
        shape = [len(own), *([1] * k), own.shape[1], *([1] * (len(self.columns) - 1 - k))]
        return np.expand_dims(found, k + 1) * own.reshape(shape)

    @cached_property
    def _reach(self) -> tuple[Floats, Floats]:
        """Return how far entries may be off where crowded rows of a cell are at one place."""
        total, most = np.zeros((2, *self.shares.shape)), self._answers.model.most(self.columns)
        for k, members in enumerate(self._members):
            crowded = self._crowded(k)
            if not crowded.any():
                continue
            cut = (members.share > 0) & (members.share < 1)
            for side, own in enumerate((members.share, 1 - members.share)):
                reach = self._by_code(most, k, np.where(cut, own, 0.0) * crowded[:, None])
                total[side] += np.sum(reach**2, axis=0)
        below, above = np.sqrt(total)
        together = self._along()
        # What is taken to be there at once is all that can be away.
        below = below + np.minimum(together, self.shares * self._whole)
        unit = self._scale / self._whole
        return below * unit, (above + together) * unit

    def _crowded(self, k: int) -> Floats:
        """Return the share of the rows of each cell of an axis that may be on either side of a cut.

        Of a single column the pieces are known one by one, where anything is.
        """
        if len(self.columns) == 1:
            return self._answers.inside(self.columns[k]).column.blind.astype(np.float64)
        return self._answers.filled(self.columns).crowded(k)

    def _along(self) -> Floats:
        """Return how far entries may be off where columns go together in cells that all cut.

        In shares of all rows. Where numbers nearly tell each other, all such cells are off in the
        same direction: by as much as if rows were in one place of each column at once.
        """
        total = np.zeros(self.shares.shape)
        filled = self._answers.filled(self.columns)
        numeric = [k for k, axis in enumerate(self._axes) if axis.edges is not None]
        spreads = {k: self._spread(k, filled.crowded(k)) for k in numeric}
        for axes in subsets(numeric):
            if len(axes) > 1:
                table = self._table * along(self._answers.model, self.columns, axes)
                power = 2 / len(axes)  # conditions that are one have the moments of one
                parts = enumerate(self._parts)
                total += self._sum(
                    table, [spreads[k] ** power if k in axes else p for k, p in parts]
                )
        return total

    def _spread(self, k: int, crowded: Floats) -> Floats:
        """Return the standard deviation of a condition inside the cells, shape (n_cells, n_places).

        Crowded rows may be on either side of where a cell is cut.
        """
        share = self._members[k].share
        cut = (share > 0) & (share < 1)
        return np.maximum(np.sqrt(share * (1 - share)), crowded[:, None] * cut)


def _with_sums_of(model: Floats, found: Floats, variance: Floats, axes: Group) -> Floats:
    """Return shares near those `found`, by variance, whose sums over the axes are the model's."""
    variance = np.maximum(variance, _NOTHING + 1e-12 * np.max(variance))
    total = model.sum(axis=axes, keepdims=True)
    low = np.min((found - 1) / variance, axis=axes, keepdims=True)
    high = np.max(found / variance, axis=axes, keepdims=True)
    for _ in range(_HALVINGS):  # the sum falls with what is taken away
        middle = (low + high) / 2
        moved = np.clip(found - middle * variance, 0.0, 1.0)
        above = moved.sum(axis=axes, keepdims=True) > total
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return moved


def _product(left: Floats, right: Floats, weights: Floats | None, *, inside: bool) -> Floats:
    """Return a product of the conditions of two places: of their means, or what is beyond these.

    `left` and `right` have shape (n_cells, n_places) or (n_cells, 1), the result (n_places,).
    """
    n = len(left)
    if weights is None:
        means = left.mean(axis=0) * right.mean(axis=0)
        if not inside:
            return means
        return np.einsum("ij,ij->j", *np.broadcast_arrays(left, right)) - n * means
    means = (weights @ left) * (weights @ right)
    if not inside:
        return means
    return np.einsum("i,ij,ij->j", weights, *np.broadcast_arrays(left, right)) - means
