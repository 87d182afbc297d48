"""Statistics of weighted rows, of all plausible tables at once.

Weights have shape (1 + B, n), for the model and for each plausible table; they may be negative.
Values and codes have that shape, or (1, n) where all tables have the same rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
# Fewer rows are rounding.
_NOBODY = 1e-9


def group_sums(
    weights: Floats, codes: Codes, n_groups: int, values: Floats | None = None
) -> Floats:
    """Return the sums of weights, or of weights times values, of each group of rows.

    Parameters
    ----------
    weights : ndarray of shape (n_tables, n)
    codes : ndarray of int, shape (n_tables, n) or (1, n)
        The group of each row; -1 for rows of none.
    n_groups : int
    values : ndarray of shape (n_tables, n) or (1, n), default=None

    Returns
    -------
    ndarray of shape (n_tables, n_groups)
    """
    n_tables, width = len(weights), n_groups + 1
    weighted = weights if values is None else weights * values
    place = np.where(codes < 0, n_groups, codes) + width * np.arange(n_tables)[:, None]
    found = np.bincount(place.ravel(), weighted.ravel(), n_tables * width).astype(np.float64)
    return found.reshape(n_tables, width)[:, :n_groups]


def ratio(above: Floats, below: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Return means; of a table that shows nobody it is either end, in turn.

    Of the model, the first of the tables, it is then NaN.
    """
    there = below > _NOBODY
    found = np.divide(above, below, out=np.zeros_like(above), where=there)
    turn = np.arange(len(above)).reshape(-1, *[1] * (above.ndim - 1))
    ends = np.where(turn % 2 == 1, low, high)
    return np.where(there, found, np.where(turn == 0, np.nan, ends))


def mean(
    weights: Floats,
    values: Floats,
    codes: Codes,
    n_groups: int,
    bound: tuple,
    n_rows: float | None = None,
) -> Floats:
    """Return the means of values in each group of rows; rows without a value are left out.

    Of all rows, all of which have a value, there may be told how many there are.
    """
    present = ~np.isnan(values)
    codes = np.where(present, codes, -1)
    sums = group_sums(weights, codes, n_groups, np.where(present, values, 0.0))
    if n_rows is not None and n_groups == 1 and np.all(codes == 0):
        return sums / n_rows
    return ratio(sums, group_sums(weights, codes, n_groups), *bound)


def covariance(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Return the covariances of two columns, in rows that have both, shape (n_tables,)."""
    both = ~(np.isnan(x) | np.isnan(y))
    weights = np.where(both, weights, 0.0)
    total = weights.sum(axis=1)
    total = np.where(total > _NOBODY, total, np.nan)

    def average(values: Floats) -> Floats:
        return np.einsum("bn,bn->b", weights, np.broadcast_to(values, weights.shape)) / total

    x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
    # Columns are taken from the model's means, so that second moments lose no digits.
    centre_x, centre_y = average(x)[0], average(y)[0]
    off_x, off_y = x - centre_x, y - centre_y
    return average(off_x * off_y) - average(off_x) * average(off_y)


def quantiles(
    weights: Floats, values: Floats, codes: Codes, n_groups: int, levels: Floats
) -> Floats:
    """Return the smallest values whose share of the group's rows reaches each level.

    Returns
    -------
    ndarray of shape (n_tables, n_groups, n_levels)
        NaN in a group of nobody.
    """
    found = np.full((len(weights), n_groups, len(levels)), np.nan)
    codes = np.where(np.isnan(values), -1, codes)
    for k in range(max(len(values), len(codes)) if len(values) == 1 else len(weights)):
        which = slice(None) if len(values) == 1 else slice(k, k + 1)
        of, at = codes[k if len(codes) > 1 else 0], values[k if len(values) > 1 else 0]
        for g in range(n_groups):
            rows = np.flatnonzero(of == g)
            rows = rows[np.argsort(at[rows], kind="stable")]
            if len(rows):
                found[which, g] = _inverted(at[rows], weights[which][:, rows], levels)
    return found


def _inverted(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of increasing values, for each of several weights of them."""
    curves = np.maximum.accumulate(np.cumsum(weights, axis=1), axis=1)
    total = curves[:, -1:]
    places = [
        np.searchsorted(curve, levels * whole * (1 - _ROUNDING))
        for curve, whole in zip(curves, total[:, 0], strict=True)
    ]
    found = values[np.minimum(places, len(values) - 1)]
    return np.where(total > 0, found, np.nan)


# Sums of weights are off by so much: a share of exactly one half reaches the median.
_ROUNDING = 1e-12
