"""Statistics of weighted rows, of all plausible tables at once.

Weights have shape (1 + B, n), for the model and for each plausible table; they may be negative.
Values and codes have that shape, or (1, n) where all tables have the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from .._numbers import ROUNDING
from ..plausible._rows import Rows
from ._axes import Axis

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class GroupedRows:
    """Rows of all tables, each in a group.

    Parameters
    ----------
    rows : Rows
    codes : ndarray of int, shape (n_tables, n) or (1, n)
        The group of each row; -1 for rows of none.
    n_groups : int
    """

    rows: Rows
    codes: Codes
    n_groups: int

    @property
    def weights(self) -> Floats:
        """How many rows of the table each row stands for, shape (n_tables, n)."""
        return self.rows.weights

    def numbers(self, j: int) -> Floats:
        """Return a column of numbers, shape (1 or n_tables, n)."""
        return self.rows.numbers(j)

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
        if self.rows.n_rows is not None and self.n_groups == 1 and np.all(present.codes == 0):
            return sums / self.rows.n_rows
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
        shape, codes = self.weights.shape, self.of_present(values).codes
        found = np.full((len(self.weights), self.n_groups, len(levels)), np.nan)
        are_alike = len(values) == len(codes) == 1  # in all tables: these are sorted once
        for k in range(1 if are_alike else len(found)):
            tables = slice(None) if are_alike else slice(k, k + 1)
            of, at = np.broadcast_to(codes, shape)[k], np.broadcast_to(values, shape)[k]
            for g in range(self.n_groups):
                rows = np.flatnonzero(of == g)
                rows = rows[np.argsort(at[rows], kind="stable")]
                if len(rows):
                    found[tables, g] = _inverted(at[rows], self.weights[tables][:, rows], levels)
        return found


def grouped(rows: Rows, axes: Sequence[Axis]) -> GroupedRows:
    """Return rows, grouped by all axes together."""
    codes = np.zeros((1, rows.n), np.int64)
    for axis in axes:
        values = rows.column(axis.column)
        own = axis.codes(values.ravel()).reshape(values.shape)
        codes = np.where((codes < 0) | (own < 0), -1, codes * len(axis) + own)
    return GroupedRows(rows, codes, prod(map(len, axes)))


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


def _inverted(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of increasing values, for each of several weights of them."""
    curves = np.maximum.accumulate(np.cumsum(weights, axis=1), axis=1)
    total = curves[:, -1:]
    places = [
        np.searchsorted(curve, levels * whole * (1 - ROUNDING))
        for curve, whole in zip(curves, total[:, 0], strict=True)
    ]
    found = values[np.minimum(places, len(values) - 1)]
    return np.where(total > 0, found, np.nan)
