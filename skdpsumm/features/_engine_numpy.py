"""The engine that needs numpy only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# Rows are clipped to this, so that no product overflows (frequencies are below 2**40).
LARGEST = 2.0**60
# Angles are rounded to so many parts of a turn.
N_ANGLES = 2**16
# Entries and rows per block: few enough for the cache, enough to make numpy's overhead small.
_BLOCK = 32768
_MOST_ROWS = 256
_EXPONENT = np.float64(np.inf).view(np.int64)


class ExactProduct:
    """X times a public matrix, free of rounding errors that depend on the order of summation.

    The last bits of a BLAS product depend on the shape of the block, on the row's position and on
    the number of threads. They do not if nothing is rounded. So both factors are first cut to b
    bits, relative to the largest entry of the row (of X) or of the column (of the matrix), with
    ``2 b + log2(d) <= 53``. All products that make up one entry are then integer multiples of the
    same power of two, so are all their partial sums, and none exceeds 2**53 of it: float64 holds
    them exactly, in whatever order, fused or not. The parts cut off make two more such products,
    and an entry is the sum of the three.

    Parameters
    ----------
    matrix : ndarray of shape (d, p), float64
    """

    def __init__(self, matrix: NDArray):
        d, p = matrix.shape
        self.bits = (53 - math.ceil(math.log2(d))) // 2
        # In units in which all columns of X count alike, none is cut off for being small.
        self.units = _power_of_two(matrix, axis=1)
        self.parts = self._split(matrix / self.units)
        self.n_rows = min(max(64, _BLOCK // p), _MOST_ROWS)
        # Cutting is many operations on few entries, so blocks are cut several at a time.
        self.n_cut = self.n_rows * max(1, 2 * _BLOCK // (d * self.n_rows))

    def __call__(self, X: NDArray) -> Iterator[NDArray[np.float64]]:
        """Yield the product, `n_rows` rows at a time; each is a function of its row of X alone."""
        for start in range(0, len(X), self.n_cut):
            rows = self._cut_rows(X[start : start + self.n_cut])
            for first in range(0, len(rows[0]), self.n_rows):
                block = slice(first, first + self.n_rows)
                product = rows[0][block] @ self.parts[0]
                product += rows[0][block] @ self.parts[1]
                product += rows[1][block] @ self.parts[0]
                yield product

    def _cut_rows(self, X: NDArray) -> list[NDArray[np.float64]]:
        columns = np.array(X.T, np.float64, order="C")
        columns.clip(-LARGEST, LARGEST, out=columns)
        columns *= self.units
        return [part.T for part in self._split(columns)]

    def _split(self, A: NDArray) -> list[NDArray]:
        """Return A cut to so many bits of the largest entry of its column, and the rest alike."""
        head = self._cut(A)
        return [head, self._cut(A - head)]

    def _cut(self, A: NDArray) -> NDArray:
        # Next to this number, neighbours are one quantum apart: adding it rounds.
        rounder = _power_of_two(A, axis=0) * (1.5 * 2.0 ** (52 - self.bits))
        cut = A + rounder
        cut -= rounder
        return cut


def _power_of_two(A: NDArray, axis: int) -> NDArray:
    """Return the powers of two just above the largest entries along an axis, which is kept."""
    largest = np.abs(A).max(axis, keepdims=True, initial=2.0**-200)
    return 2 * (largest.view(np.int64) & _EXPONENT).view(np.float64)


def fourier_sums(X: NDArray, frequencies: NDArray) -> NDArray[np.int64]:
    """Return the sums of `_engine.fourier_sums` over at most 16384 rows."""
    product = ExactProduct(frequencies * N_ANGLES)
    pairs = np.empty((product.n_rows, frequencies.shape[1]), np.int64)
    total = np.zeros(frequencies.shape[1], np.int64)
    for angles in product(X):
        found = pairs[: len(angles)]
        # The codes are in range; mode="clip" spares numpy a copy of `out`.
        np.take(circle(), _angle_codes(angles), out=found, mode="clip")
        total += found.sum(axis=0)
    # At most 16384 sines up to 2**15: their sum fills the low half, with its sign.
    sines = (total + 2**31) % 2**32 - 2**31
    return np.concatenate([(total - sines) >> 32, sines])


def fourier_grid(X: NDArray, frequencies: NDArray) -> NDArray[np.float32]:
    """Return the rows of `_engine.fourier_grid`."""
    product = ExactProduct(frequencies * N_ANGLES)
    p = frequencies.shape[1]
    cosines, sines = _grid_points().astype(np.float32)
    grid = np.empty((len(X), 2 * p), np.float32)
    start = 0
    for angles in product(X):
        rows, codes = slice(start, start + len(angles)), _angle_codes(angles)
        grid[rows, :p], grid[rows, p:] = cosines[codes], sines[codes]
        start += len(angles)
    return grid


def _angle_codes(angles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return ``rint(angles) mod N_ANGLES``; `angles` is overwritten."""
    # Next to 2**52, neighbours are one apart, and the last bits are the integer's.
    angles += 1.5 * 2**52
    codes = angles.view(np.int64)
    codes &= N_ANGLES - 1
    return codes


@lru_cache
def circle() -> NDArray[np.int64]:
    """Return all pairs on the grid, as 2**32 times the cosine plus the sine."""
    cosines, sines = _grid_points()
    return cosines * 2**32 + sines


@lru_cache
def _grid_points() -> NDArray[np.int64]:
    """Return the cosines and sines of all angles, in units of 2**-15."""
    angles = 2 * np.pi / N_ANGLES * np.arange(N_ANGLES)
    return np.rint(2**15 * np.stack([np.cos(angles), np.sin(angles)])).astype(np.int64)


def fourier_features(X: NDArray, frequencies: NDArray) -> NDArray:
    """Return ``[cos(2 pi X F), sin(2 pi X F)]`` to the precision of X.dtype.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    frequencies : ndarray of shape (d, p), float64
        F in turns per unit of X.

    Returns
    -------
    features : ndarray of shape (n, 2 * p), of X.dtype
    """
    frequencies = frequencies.astype(X.dtype)
    p = frequencies.shape[1]
    features = np.empty((len(X), 2 * p), X.dtype)
    n_rows = max(64, _BLOCK // p)
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        angles = np.clip(X[rows], -LARGEST, LARGEST) @ frequencies
        angles -= np.rint(angles)
        angles *= 2 * np.pi
        np.cos(angles, out=features[rows, :p])
        np.sin(angles, out=features[rows, p:])
    return features


def race_counts(
    X: NDArray, projections: NDArray, offsets: NDArray, n_buckets: int
) -> NDArray[np.int64]:
    """Return the counts of `_engine.race_counts`."""
    first = n_buckets * np.arange(len(offsets))
    counts = np.zeros(len(offsets) * n_buckets, np.int64)
    for product in ExactProduct(projections)(X):
        codes = _buckets(product + offsets, n_buckets) + first
        counts += np.bincount(codes.ravel(), minlength=len(counts))
    return counts


def race_codes(
    X: NDArray, projections: NDArray, offsets: NDArray, n_buckets: int
) -> NDArray[np.int32]:
    """Return the buckets of `_engine.race_codes`."""
    codes = np.empty((len(X), len(offsets)), np.int32)
    product = ExactProduct(projections)
    for start, block in zip(range(0, len(X), product.n_rows), product(X), strict=True):
        codes[start : start + len(block)] = _buckets(block + offsets, n_buckets)
    return codes


def _buckets(x: NDArray, n_buckets: int) -> NDArray[np.int64]:
    """Return ``floor(x) mod W``."""
    cells = np.floor(x)
    cells -= n_buckets * np.floor(cells / n_buckets)
    # The remainder of a huge cell is rounded, maybe out of range.
    return np.clip(cells, 0, n_buckets - 1).astype(np.int64)
