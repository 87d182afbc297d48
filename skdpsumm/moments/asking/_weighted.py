"""Statistics of weighted rows, of all plausible tables at once, and of groups of them.

Rows are grouped by axes: the categories of a column, or bins of its numbers.

Weights have shape (1 + B, n), for the model and for each plausible table; they may be negative.
Values and codes have that shape, or (1, n) where all tables have the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._computing import TINY
from ...schema._columns import Categorical, read_cells
from ...schema._schema import TableSchema
from .._numbers import ROUNDING, Codes, Floats
from ..inferring._table_model import TableModel
from ..plausible._rows import Rows


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


@dataclass(frozen=True, eq=False)
class GroupedRows(Rows):
    """Rows of all tables, each in a group.

    Parameters
    ----------
    codes : ndarray of int, shape (n_tables, n) or (1, n)
        The group of each row; -1 for rows of none.
    n_groups : int
    """

    codes: Codes = field(default_factory=lambda: np.zeros((1, 1), np.int64))
    n_groups: int = 1

    def sums(self, values: NDArray | float = 1.0) -> Floats:
        """Return the sums of weights times values in each group, shape (n_tables, n_groups)."""
        if self.n_groups == 1 and np.all(self.codes == 0):
            return np.sum(self.weights * values, axis=1, keepdims=True)
        weighted, width = self.weights * values, self.n_groups + 1
        place = np.where(self.codes < 0, self.n_groups, self.codes)
        place = place + width * np.arange(len(weighted))[:, None]
        found = np.bincount(place.ravel(), weighted.ravel(), len(weighted) * width)
        return found.astype(np.float64).reshape(-1, width)[:, :-1]

    def of_present(self, values: Floats) -> GroupedRows:
        """Return the same rows, of which those without a value are in no group."""
        return replace(self, codes=np.where(np.isnan(values), -1, self.codes))

    def mean(self, values: Floats, low: float, high: float) -> Floats:
        """Return the means of those values that are present in each group.

        Values lie between `low` and `high`.
        """
        present = self.of_present(values)
        sums = present.sums(np.where(np.isnan(values), 0.0, values))
        if self.n_rows is not None and self.n_groups == 1 and np.all(present.codes == 0):
            return sums / self.n_rows
        return ratio(sums, present.sums(), low, high)

    def quantiles(self, values: Floats, levels: Floats) -> Floats:
        """Return the smallest values whose share of the group's rows reaches each level.

        Returns
        -------
        ndarray of shape (n_tables, n_groups, n_levels)
            NaN in a group of nobody.
        """
        # The lowest value is where the first rows are, not where there are none yet.
        levels = np.maximum(levels, ROUNDING)
        codes, values = np.broadcast_arrays(self.of_present(values).codes, values)
        order = np.lexsort((values, codes))  # the rows of a group follow one another
        codes, values = (np.take_along_axis(one, order, axis=1) for one in (codes, values))
        weights = np.take_along_axis(self.weights, np.broadcast_to(order, self.weights.shape), 1)
        found = np.full((len(weights), self.n_groups, len(levels)), np.nan)
        for k, (own, at) in enumerate(zip(codes, values, strict=True)):
            tables = np.arange(k, len(weights), len(codes))  # all, where rows are alike in these
            ends = np.searchsorted(own, np.arange(self.n_groups + 1))
            for g in np.flatnonzero(np.diff(ends)).tolist():
                rows = slice(ends[g], ends[g + 1])
                curves = np.maximum.accumulate(np.cumsum(weights[tables, rows], axis=1), axis=1)
                for t, curve in zip(tables, curves, strict=True):
                    if curve[-1] > 0:
                        place = np.searchsorted(curve, levels * curve[-1] * (1 - ROUNDING))
                        found[t, g] = at[rows][np.minimum(place, len(curve) - 1)]
        return found


def grouped(rows: Rows, axes: Sequence[Axis]) -> GroupedRows:
    """Return rows, grouped by all axes together."""
    codes = np.zeros((1, rows.n), np.int64)
    for axis in axes:
        values = rows.column(axis.column)
        own = axis.codes(values.ravel()).reshape(values.shape)
        codes = np.where((codes < 0) | (own < 0), -1, codes * len(axis) + own)
    return GroupedRows(**vars(rows), codes=codes, n_groups=prod(map(len, axes)))


def ratio(above: Floats, below: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Return means; of a table that shows nobody it is either end, in turn.

    Of the model, the first of the tables, it is then NaN.
    """
    there = below > ROUNDING
    found = np.divide(above, below, out=np.zeros_like(above), where=there)
    turn = np.arange(len(above)).reshape(-1, *[1] * (above.ndim - 1))
    ends = np.where(turn % 2 == 1, low, high)
    return np.where(there, found, np.where(turn == 0, np.nan, ends))


def covariance(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Return the covariances of two columns, in rows that have both, shape (n_tables,)."""
    both = ~(np.isnan(x) | np.isnan(y))
    weights = np.where(both, weights, 0.0)
    total = weights.sum(axis=1)
    total = np.where(total > ROUNDING, total, np.nan)

    def average(values: Floats) -> Floats:
        return np.einsum("bn,bn->b", weights, np.broadcast_to(values, weights.shape)) / total

    x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
    # Columns are taken from the model's means, so that second moments lose no digits.
    centre_x, centre_y = average(x)[0], average(y)[0]
    off_x, off_y = x - centre_x, y - centre_y
    return average(off_x * off_y) - average(off_x) * average(off_y)


def nearest_possible(covariance: Floats, spans: Floats, noise: Floats) -> Floats:
    """Return a positive semi-definite matrix near by, with the same variances.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        NaN where nobody has both columns; there it stays NaN.
    spans : ndarray of shape (d,)
        Widths of the columns' ranges.
    noise : ndarray of shape (d,)
        Standard errors of the variances. A column that hardly anybody has is noise: it gives way
        before others do.
    """
    units = spans.copy()
    if noise.any():
        relative = noise / spans**2
        # A column without noise counts as known a million times better than the worst one.
        units = units * np.maximum(relative, 1e-6 * relative.max())
    units, unknown = np.outer(units, units), np.isnan(covariance)
    covariance = np.where(unknown, 0.0, covariance)
    values, vectors = np.linalg.eigh(covariance / units)
    closest = (vectors * np.maximum(values, 0.0)) @ vectors.T * units
    # The closest matrix has larger variances; a smaller one of both sides keeps it possible.
    variances = np.clip(np.diagonal(covariance), 0.0, spans**2 / 4)
    scale = np.sqrt(variances / np.maximum(np.diagonal(closest), TINY))
    scale = np.minimum(scale, 1.0)  # but for rounding it is
    return np.where(unknown, np.nan, closest * np.outer(scale, scale))


def correlations(covariance: Floats) -> Floats:
    """Return the correlations for covariance matrices, shape (..., d, d)."""
    # Noise may leave a column no variance, and then no correlation with others either.
    spread = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), TINY))
    with np.errstate(over="ignore"):
        found = covariance / (spread[..., None] * spread[..., None, :])
    # A column's correlation with itself has no noise, not even where its variance drowned.
    k = np.arange(found.shape[-1])
    found[..., k, k] = 1.0
    return np.clip(found, -1.0, 1.0)


# ---- tables without negative weights, for functions that need them


def positive_weights(
    rows: Rows, columns: Sequence[int], of_noise: Rows | None = None
) -> Iterator[Floats]:
    """Yield weights of each table that are not negative, those of the model first.

    A plausible table has negative weights, where noise took more rows from a cell than there are.
    Clipped, they would leave too many rows in long tails, and columns that hardly go together. So
    after they are clipped, weights are tilted, ``w exp(lambda g)``, until the number of rows, of
    each category and of missing values, and the means, variances and covariances of numbers, are
    what the signed table has (calibration [1]_). Where no weights have all of these, they come
    close, and then have all but the variances and covariances.

    Plausible tables have long tails where bins let rows be anywhere. `of_noise` are tables in which
    rows lie where the model has them: then all sums are moved by what the mean over all tables is
    off from theirs, so that tables have on average the moments that the release tells.

    References
    ----------
    .. [1] Deville and Särndal (1992), "Calibration estimators in survey sampling".
    """
    own, shift = np.maximum(rows.weights[0], 0.0), np.zeros(1)
    if of_noise is not None:
        means = [
            np.concatenate([_sums(f, one.weights[b]) for b, f, _ in kept_functions(one, columns)])
            for one in (of_noise, rows)
        ]
        shift = means[0].mean(axis=0) - means[1].mean(axis=0)
    yield own
    for block, functions, n_first in kept_functions(rows, columns):
        signed = rows.weights[block]
        # No function is negative, nor is its sum.
        goal = np.maximum(_sums(functions, signed) + shift, ROUNDING * functions @ own)
        found = calibrated(np.maximum(signed, ROUNDING * own), goal, functions)
        yield from calibrated(found, goal[:, :n_first], functions[:, :n_first])


def calibrated(start: Floats, goal: Floats, functions: Floats) -> Floats:
    """Return weights of some tables that are not negative and have some sums.

    It takes twenty steps of Newton's at most, in which no weight grows more than to exp(4) times
    what it was.

    Parameters
    ----------
    start : ndarray of shape (n_tables, n)
        Weights that are tilted.
    goal : ndarray of shape (n_tables, k)
        The sums, which are reached as far as any weights can have them.
    functions : ndarray of shape (n_tables or 1, k, n)
        What is summed; ones first.
    """
    tilt, weights = np.zeros_like(start), start.copy()
    largest = ROUNDING * np.maximum(goal[:, 0], TINY)
    for _ in range(20):
        off = goal - _sums(functions, weights)
        todo = np.flatnonzero(np.max(np.abs(off), axis=1) >= largest)
        if not len(todo):
            break
        some = functions[todo] if len(todo) < len(functions) else functions
        curve = (some * weights[todo, None]) @ some.swapaxes(1, 2)
        values, vectors = np.linalg.eigh(curve)
        kept = values > 1e-10 * values[:, -1:]
        along = np.where(kept, _sums(vectors.swapaxes(1, 2), off[todo]), 0.0)
        step = _sums(vectors, along / np.where(kept, values, 1.0))
        moved = (step[:, None] @ some)[:, 0]
        length = np.maximum(moved.max(axis=1, keepdims=True), TINY)
        tilt[todo] += moved * np.minimum(1.0, 4.0 / length)
        weights[todo] = start[todo] * np.exp(np.minimum(tilt[todo], 700.0))
    return weights


def _sums(functions: Floats, weights: Floats) -> Floats:
    """Return the sums of functions in each table, shape (n_tables, k)."""
    return (functions @ weights[:, :, None])[..., 0]


def kept_functions(rows: Rows, columns: Sequence[int]) -> Iterator[tuple[slice, Floats, int]]:
    """Yield some plausible tables, the functions whose sums they keep, and how many come first.

    These are ones, indicators of categories and of missing values, and numbers in their ranges; and
    then products of numbers. Of more numbers than k^2 / 2 = sqrt(n), n rows, products are left out:
    so many sums are well told by a tilt [1]_. Functions have shape (n_tables or 1, k, n), and are
    those of so few tables that all stays in the processor's cache.

    References
    ----------
    .. [1] Portnoy (1988), "Asymptotic behavior of likelihood methods for exponential families when
       the number of parameters tends to infinity": p^2 / n is to be small.
    """
    known = [(rows.schema.columns[j], rows.column(j)) for j in columns]
    # Columns that are alike in all tables are encoded once.
    shared = [encoded(column, own[0]) if len(own) == 1 else None for column, own in known]
    numbers = [k for k, (column, _) in enumerate(known) if not isinstance(column, Categorical)]
    few = len(numbers) ** 4 <= 4 * rows.n
    pairs = list(combinations_with_replacement(numbers, 2)) if few else []
    n_first = 1 + sum(len(encoded(column, own[0, :1])) for column, own in known)
    step = max(2**18 // (rows.n * (n_first + len(pairs))), 1)
    is_alike = all(len(own) == 1 for _, own in known)
    for start in range(1, len(rows.weights), step):
        block = slice(start, start + step)
        if start == 1 or not is_alike:
            parts = [
                encoded(column, own[block]) if one is None else one
                for one, (column, own) in zip(shared, known, strict=True)
            ]
            found = [np.ones(rows.n), *(one for part in parts for one in part)]
            found += [parts[a][0] * parts[b][0] for a, b in pairs]
            functions = np.stack(np.broadcast_arrays(*map(np.atleast_2d, found)), axis=1)
        yield block, functions, n_first


def encoded(column: Any, cells: NDArray) -> list[Floats]:
    """Return a column as numbers: those in their range, or indicators of all but one category.

    A missing number counts as the lowest one: an indicator beside it tells the rest.
    """
    values = column.read(cells)
    if isinstance(column, Categorical):
        return list(np.moveaxis(np.eye(column.n_codes)[values], -1, 0)[1:])
    gone, (low, high) = np.isnan(values), column.bounds
    scaled = np.where(gone, 0.0, (values - low) / (high - low))
    return [scaled, gone.astype(np.float64)][: 1 + column.missing]


def rounded_rows(cells: Sequence[NDArray], weights: Floats, n_rows: int) -> list[NDArray]:
    """Return the columns of so many whole rows of weighted ones, rounded and not drawn.

    Rows are sorted, so that what one of them is rounded up by, the next is rounded down.
    """
    keys = [
        np.unique(one.astype(str) if one.dtype == object else one, return_inverse=True)[1]
        for one in cells
    ]
    order = np.lexsort(keys[::-1])
    ends = np.cumsum(weights[order])
    at = np.searchsorted(ends, (np.arange(n_rows) + 0.5) / n_rows * ends[-1])
    chosen = order[np.minimum(at, len(order) - 1)]
    return [one[chosen] for one in cells]
