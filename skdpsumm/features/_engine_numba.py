"""The loops that numba compiles; `_feature_maps` calls them.

Without fastmath, each addition and multiplication below is one correctly rounded operation, in the
order written: the compiler may run rows side by side, but neither fuse nor reorder the arithmetic
of one. So what a row gives is a function of that row alone, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ._feature_maps import LARGEST_CELL

# Minimax polynomials in t**2, |t| <= 1/2: 256 sin(pi t) / t and 256 cos(pi t). Rounded to float32
# one coefficient after the other, the rest refitted each time.
SINE = tuple(
    np.array([804.2476807, -1322.9317627, 652.7891846, -152.9920959, 19.5670547], np.float32)
)
COSINE = tuple(np.array([256.0, -1263.3076172, 1038.9625244, -341.0079956, 56.3220711], np.float32))
ONE = np.int64(2**15)
# Rows per block: 27 columns of it fit the first-level cache or nearly so.
_ROWS_IN_CACHE = 256


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile at the first call; keep the result on disk if a directory is writable."""
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:
        return numba.njit(nogil=True, error_model="numpy")(function)


@_compiled
def fourier_sums(X, frequencies):
    """Return the sums of cosines and of sines, shape (2, p), for padded frequencies."""
    p, d = frequencies.shape
    columns = np.zeros((d, _ROWS_IN_CACHE))
    turns = np.empty((2, _ROWS_IN_CACHE))
    sums = np.zeros((2, p), np.int64)
    for start in range(0, len(X), _ROWS_IN_CACHE):
        n = _load(X[start : start + _ROWS_IN_CACHE], columns)
        for j in range(0, p, 2):
            _products(columns, frequencies[j], frequencies[j + 1], turns[0], turns[1], n)
            _add_circle(turns[0], n, sums[:, j])
            _add_circle(turns[1], n, sums[:, j + 1])
    return sums


@_compiled
def race_codes(X, projections, offsets, n_buckets):
    """Return the buckets of each row, shape (p, n), for padded projections and offsets."""
    p, d = projections.shape
    columns = np.zeros((d, _ROWS_IN_CACHE))
    products = np.empty((2, _ROWS_IN_CACHE))
    codes = np.empty((p, len(X)), np.int32)
    for start in range(0, len(X), _ROWS_IN_CACHE):
        n = _load(X[start : start + _ROWS_IN_CACHE], columns)
        rows = slice(start, start + n)
        for j in range(0, p, 2):
            _products(columns, projections[j], projections[j + 1], products[0], products[1], n)
            _wrap(products[0], offsets[j], n_buckets, codes[j][rows], n)
            _wrap(products[1], offsets[j + 1], n_buckets, codes[j + 1][rows], n)
    return codes


@_compiled
def bucket_counts(codes, n_buckets):
    """Count the rows in each bucket of each hash."""
    counts = np.zeros((len(codes), n_buckets), np.int64)
    for j in range(len(codes)):
        for code in codes[j]:
            counts[j, code] += 1
    return counts


@_compiled
def _load(rows, columns):
    """Transpose clipped rows, so that one instruction serves many of them; return their number."""
    n, d = rows.shape
    for k in range(d):
        for i in range(n):
            # In this order NaN, which is larger than nothing, becomes a number.
            columns[k, i] = min(max(-LARGEST_CELL, rows[i, k]), LARGEST_CELL)
    return n


@_compiled
def _products(columns, left, right, a, b, n):
    """Write the first n rows times two vectors to a and b; the two share the loads."""
    a[:] = 0
    b[:] = 0
    for k in range(0, len(columns), 4):
        x0, x1, x2, x3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        l0, l1, l2, l3 = left[k], left[k + 1], left[k + 2], left[k + 3]
        r0, r1, r2, r3 = right[k], right[k + 1], right[k + 2], right[k + 3]
        for i in range(n):
            y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
            a[i] = a[i] + y0 * l0 + y1 * l1 + y2 * l2 + y3 * l3
            b[i] = b[i] + y0 * r0 + y1 * r1 + y2 * r2 + y3 * r3


@_compiled
def _add_circle(turns, n, pair):
    """Add the cosines and sines of n angles to a pair of sums."""
    squares = np.int32(0)
    products = np.int32(0)
    for i in range(n):
        square, product = _circle(turns[i])
        squares = np.int32(squares + square)
        products = np.int32(products + product)
    pair[0] += n * ONE - squares
    pair[1] += products


@_compiled
def _circle(turn):
    """Return ``2**15 (1 - cos(2 pi t), sin(2 pi t))`` in integers.

    That is ``2**15 (2 sin(pi t)**2, 2 sin(pi t) cos(pi t))``.
    """
    t = np.float32(turn - np.rint(turn))
    x = t * t
    sin = t * ((((SINE[4] * x + SINE[3]) * x + SINE[2]) * x + SINE[1]) * x + SINE[0])
    cos = (((COSINE[4] * x + COSINE[3]) * x + COSINE[2]) * x + COSINE[1]) * x + COSINE[0]
    return np.int32(np.rint(sin * sin)), np.int32(np.rint(sin * cos))


@_compiled
def _wrap(products, offset, n_buckets, buckets, n):
    """Write ``floor(product + offset) mod W`` of the first n products to `buckets`."""
    width = float(n_buckets)
    for i in range(n):
        cell = np.floor(products[i] + offset)
        cell -= width * np.floor(cell / width)
        # The remainder of a huge cell is rounded, maybe out of range; NaN goes to 0.
        buckets[i] = np.int32(min(max(0.0, cell), width - 1.0))
