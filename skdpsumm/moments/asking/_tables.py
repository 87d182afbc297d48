"""Plausible tables as rows with weights that are not negative, for functions that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._linear_systems import TINY
from ...schema._columns import Categorical
from ...schema._schema import stack_columns
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
    own, kept = np.maximum(rows.weights[0], 0.0), _kept_functions(rows, columns)
    shift = np.zeros(1)
    if of_noise is not None:
        functions = _kept_functions(of_noise, columns)
        shift = _mean_sums(of_noise.weights, functions) - _mean_sums(rows.weights, kept)
    for k, signed in enumerate(rows.weights):
        cells = [np.broadcast_to(rows.column(j), rows.weights.shape)[k] for j in columns]
        weights = np.maximum(signed, 0.0 if k == 0 else LEAST_WEIGHT_KEPT * own)
        for functions_of_rows in kept(k) if k > 0 else ():
            goal = signed @ functions_of_rows
            # No function is negative, nor is its sum.
            goal = np.maximum(
                goal + shift[: len(goal)], LEAST_WEIGHT_KEPT * own @ functions_of_rows
            )
            weights = calibrated(weights, goal, functions_of_rows)
        yield cells, weights


def calibrated(
    start: Floats,
    goal: Floats,
    functions: Floats,
    *,
    max_iter: int = 50,
    longest_step: float = 2.0,
    tol: float = 1e-9,
) -> Floats:
    """Return weights that are not negative and have some sums.

    Parameters
    ----------
    start : ndarray of shape (n,)
        Weights that are tilted.
    goal : ndarray of shape (k,)
        The sums, which are reached as far as any weights can have them.
    functions : ndarray of shape (n, k)
        What is summed; ones first.
    max_iter : int, default=50
        Most steps of Newton's.
    longest_step : float, default=2.0
        By how much the logarithm of a weight changes in a step at most.
    tol : float, default=1e-9
        How far off sums may remain, as a part of the rows.
    """
    tilt, weights = np.zeros(functions.shape[1]), start
    for _ in range(max_iter):
        off = goal - weights @ functions
        if np.max(np.abs(off), initial=0.0) < tol * max(goal[0], TINY):
            break
        curve = (functions * weights[:, None]).T @ functions
        step = np.linalg.lstsq(curve, off, rcond=1e-10)[0]
        moved = functions @ step
        tilt = tilt + step * min(1.0, longest_step / max(float(np.abs(moved).max()), TINY))
        weights = start * np.exp(np.clip(functions @ tilt, -700.0, 700.0))
    return weights


def _mean_sums(weights: Floats, kept: Callable[[int], Any]) -> Floats:
    """Return the mean over plausible tables of each sum that is kept."""
    return np.mean([one @ kept(k)[0] for k, one in enumerate(weights) if k > 0], axis=0)


def encoded(column: Any, cells: NDArray) -> list[Floats]:
    """Return a column as numbers: those in their range, or indicators of all but one category.

    A missing number counts as the lowest one: an indicator beside it tells the rest.
    """
    values = column.read(cells)
    if isinstance(column, Categorical):
        return list(np.eye(column.n_codes)[values].T[1:])
    gone, (low, high) = np.isnan(values), column.bounds
    scaled = np.where(gone, 0.0, (values - low) / (high - low))
    return [scaled, gone.astype(np.float64)][: 1 + column.missing]


def _kept_functions(rows: Rows, columns: Sequence[int]) -> Callable[[int], tuple[Floats, Floats]]:
    """Return functions of the rows of a table whose sums are kept: all, and those in any case.

    These are ones, indicators of categories and of missing values, and numbers in their ranges.
    All have products of numbers, too. Columns that are alike in all tables are encoded once.
    """
    cells = [(rows.schema.columns[j], rows.column(j)) for j in columns]
    shared = {a: encoded(column, own[0]) for a, (column, own) in enumerate(cells) if len(own) == 1}

    def of_table(k: int) -> tuple[Floats, Floats]:
        parts = [
            shared[a] if a in shared else encoded(column, own[k])
            for a, (column, own) in enumerate(cells)
        ]
        of_numbers = [
            part[0]
            for (column, _), part in zip(cells, parts, strict=True)
            if not isinstance(column, Categorical)
        ]
        first = np.column_stack([np.ones(rows.n), *(one for part in parts for one in part)])
        few = len(of_numbers) ** 4 <= 4 * rows.n
        both = [a * b for a, b in combinations_with_replacement(of_numbers, 2) if few]
        return np.column_stack([first, *both]), first

    return of_table


def rounded_rows(cells: Sequence[NDArray], weights: Floats, n_rows: int) -> NDArray:
    """Return so many whole rows of weighted ones, shape (n_rows, d), rounded and not drawn.

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
    return stack_columns([one[chosen] for one in cells])
