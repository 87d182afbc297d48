"""Plausible tables as rows with weights that are not negative, for functions that need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._linear_systems import TINY
from ...schema._columns import Categorical
from .._numbers import LEAST_WEIGHT_KEPT
from ..plausible._rows import Rows

Floats = NDArray[np.float64]


def positive_tables(
    rows: Rows, columns: Sequence[int], of_noise: Rows | None = None
) -> Iterator[tuple[list[NDArray], Floats]]:
    """Yield the columns and the weights of each table, those of the model first.

    A plausible table has negative weights, where noise took more rows from a cell than there are.
    Clipped, they would leave too many rows in long tails, and columns that hardly go together. So
    after they are clipped, weights are tilted, ``w exp(lambda g)``, until the number of rows, of
    each category and of missing values, and the means, variances and covariances of numbers, are
    what the signed table has (calibration [1]_). Where no weights have all of these, they come
    close, and then have all but the variances and covariances. Of more numbers than k^2 / 2 =
    sqrt(n), n rows, these are left out: so many sums are well told by a tilt [2]_.

    Plausible tables have long tails where bins let rows be anywhere. `of_noise` are tables in which
    rows lie where the model has them: then all sums are moved by what the mean over all tables is
    off from theirs, so that tables have on average the moments that the release tells.

    References
    ----------
    .. [1] Deville and Särndal (1992), "Calibration estimators in survey sampling".
    .. [2] Portnoy (1988), "Asymptotic behavior of likelihood methods for exponential families when
       the number of parameters tends to infinity": p^2 / n is to be small.
    """
    own, kept = np.maximum(rows.weights[0], 0.0), KeptFunctions(rows, columns)
    shift: Any = 0.0
    if of_noise is not None:
        shift = KeptFunctions(of_noise, columns).mean_sums() - kept.mean_sums()
    cells = [rows.column(j) for j in columns]
    yield [one[0] for one in cells], own
    for block in kept.blocks:
        signed, functions = rows.weights[block], kept.at(block)
        # No function is negative, nor is its sum.
        goal = np.maximum(_sums(functions, signed) + shift, LEAST_WEIGHT_KEPT * functions @ own)
        found = calibrated(np.maximum(signed, LEAST_WEIGHT_KEPT * own), goal, functions)
        found = calibrated(found, goal[:, : kept.n_first], functions[:, : kept.n_first])
        for k, weights in enumerate(found, block.start):
            yield [one[k % len(one)] for one in cells], weights


def calibrated(
    start: Floats,
    goal: Floats,
    functions: Floats,
    *,
    max_iter: int = 50,
    longest_step: float = 2.0,
    tol: float = 1e-9,
) -> Floats:
    """Return weights of some tables that are not negative and have some sums.

    Parameters
    ----------
    start : ndarray of shape (n_tables, n)
        Weights that are tilted.
    goal : ndarray of shape (n_tables, k)
        The sums, which are reached as far as any weights can have them.
    functions : ndarray of shape (n_tables or 1, k, n)
        What is summed; ones first.
    max_iter : int, default=50
        Most steps of Newton's.
    longest_step : float, default=2.0
        By how much the logarithm of a weight changes in a step at most.
    tol : float, default=1e-9
        How far off sums may remain, as a part of the rows.
    """
    tilt, weights = np.zeros_like(start), start.copy()
    largest = tol * np.maximum(goal[:, 0], TINY)
    for _ in range(max_iter):
        off = goal - _sums(functions, weights)
        todo = np.flatnonzero(np.max(np.abs(off), axis=1) >= largest)
        if not len(todo):
            break
        some = functions[todo] if len(todo) < len(functions) else functions
        curve = (some * weights[todo, None]) @ some.swapaxes(1, 2)
        step = np.linalg.pinv(curve, 1e-10, hermitian=True) @ off[todo, :, None]
        moved = (step.swapaxes(1, 2) @ some)[:, 0]
        length = np.maximum(np.abs(moved).max(axis=1, keepdims=True), TINY)
        tilt[todo] += moved * np.minimum(1.0, longest_step / length)
        weights[todo] = start[todo] * np.exp(np.minimum(tilt[todo], 700.0))
    return weights


def _sums(functions: Floats, weights: Floats) -> Floats:
    """Return the sums of functions in each table, shape (n_tables, k)."""
    return (functions @ weights[:, :, None])[..., 0]


class KeptFunctions:
    """Functions of the rows of plausible tables whose sums are kept.

    These are ones, indicators of categories and of missing values, and numbers in their ranges; and
    products of numbers. Columns that are alike in all tables are encoded once.

    Parameters
    ----------
    rows : Rows
    columns : sequence of int

    Attributes
    ----------
    n_first : int
        Functions before the products of numbers.
    blocks : list of slice
        Tables that are computed together, few enough for the processor's cache.
    """

    def __init__(self, rows: Rows, columns: Sequence[int]):
        self._rows = rows
        self._columns = [(rows.schema.columns[j], rows.column(j)) for j in columns]
        self._shared = {
            k: encoded(column, own[0])
            for k, (column, own) in enumerate(self._columns)
            if len(own) == 1
        }
        first = [encoded(column, own[0, :1]) for column, own in self._columns]
        numbers = [
            k for k, (column, _) in enumerate(self._columns) if not isinstance(column, Categorical)
        ]
        few = len(numbers) ** 4 <= 4 * rows.n
        self._pairs = list(combinations_with_replacement(numbers, 2)) if few else []
        self.n_first = 1 + sum(map(len, first))
        step = max(2**18 // (rows.n * (self.n_first + len(self._pairs))), 1)
        n_tables = len(rows.weights)
        self.blocks = [slice(k, min(k + step, n_tables)) for k in range(1, n_tables, step)]

    def at(self, tables: slice) -> Floats:
        """Return the functions at the rows of some tables, shape (n_tables or 1, k, n)."""
        parts = [
            self._shared[k] if k in self._shared else encoded(column, own[tables])
            for k, (column, own) in enumerate(self._columns)
        ]
        found = [np.ones(self._rows.n), *(one for part in parts for one in part)]
        found += [parts[a][0] * parts[b][0] for a, b in self._pairs]
        return np.stack(np.broadcast_arrays(*map(np.atleast_2d, found)), axis=1)

    def mean_sums(self) -> Floats:
        """Return the mean of the sums over plausible tables."""
        weights = self._rows.weights[1:]
        if len(self._shared) == len(self._columns):
            return _sums(self.at(slice(1)), weights.mean(axis=0, keepdims=True))[0]
        found = [_sums(self.at(one), self._rows.weights[one]) for one in self.blocks]
        return np.concatenate(found).mean(axis=0)


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
