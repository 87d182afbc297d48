"""The engine that needs numpy only."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Rows are clipped to this, so that no product overflows (frequencies are below 2**40).
LARGEST = 2.0**60
# Minimax polynomials in t**2, |t| <= 1/2: 256 sin(pi t) / t and 256 cos(pi t). Rounded to float32
# one coefficient after the other, the rest refitted each time.
SIN = tuple(np.float32([804.2476807, -1322.9317627, 652.7891846, -152.9920959, 19.5670547]))
COS = tuple(np.float32([256.0, -1263.3076172, 1038.9625244, -341.0079956, 56.3220711]))
# Entries per block: few enough for the cache, enough to make numpy's overhead small.
_BLOCK = 32768


class ExactProduct:
    """X times a public matrix, free of rounding errors that depend on the order of summation.

    The last bits of a BLAS product depend on the shape of the block, on the row's position and on
    the number of threads. They do not if nothing is rounded. So both factors are first cut to b
    bits, relative to the largest entry of the row (of X) or of the column (of the matrix), with
    ``2 b + log2(d) <= 53``. All products that make up one entry are then integer multiples of the
    same power of two, so are all their partial sums, and none exceeds 2**53 of it: float64 holds
    them exactly, in whatever order, fused or not. For float64 rows the parts cut off make two
    more such products, and an entry is the sum of the three.

    Parameters
    ----------
    matrix : ndarray of shape (d, p), float64
    dtype : numpy dtype
        That of the rows: float32 needs one product, float64 three.
    """

    def __init__(self, matrix: NDArray, dtype: np.dtype):
        d, p = matrix.shape
        self.bits = (53 - math.ceil(math.log2(d))) // 2
        self.n_parts = 1 if dtype == np.float32 else 2
        # In units in which all columns of X count alike, none is cut off for being small.
        self.units = _power_of_two(matrix, axis=1)
        self.parts = self._split(matrix / self.units)
        self.n_rows = max(64, _BLOCK // p)

    def __call__(self, X: NDArray) -> Iterator[NDArray[np.float64]]:
        """Yield the product, `n_rows` rows at a time; each is a function of its row of X alone."""
        for start in range(0, len(X), self.n_rows):
            columns = np.array(X[start : start + self.n_rows].T, np.float64, order="C")
            columns.clip(-LARGEST, LARGEST, out=columns)
            columns *= self.units
            rows = [part.T for part in self._split(columns)]
            product = rows[0] @ self.parts[0]
            if self.n_parts == 2:
                product += rows[0] @ self.parts[1]
                product += rows[1] @ self.parts[0]
            yield product

    def _split(self, A: NDArray) -> list[NDArray]:
        """Return A cut to so many bits of the largest entry of its column, and the rest alike."""
        head = self._cut(A)
        return [head] if self.n_parts == 1 else [head, self._cut(A - head)]

    def _cut(self, A: NDArray) -> NDArray:
        quantum = _power_of_two(A, axis=0) * 2.0**-self.bits
        cut = A / quantum
        np.rint(cut, out=cut)
        cut *= quantum
        return cut


def _power_of_two(A: NDArray, axis: int) -> NDArray:
    """Return the powers of two just above the largest entries along an axis, which is kept."""
    largest = np.abs(A).max(axis, keepdims=True, initial=2.0**-200)
    return np.ldexp(1.0, np.frexp(largest)[1])


def fourier_sums(X: NDArray, frequencies: NDArray) -> NDArray[np.int64]:
    """Return the sums of `_engine.fourier_sums` over at most 16384 rows."""
    product = ExactProduct(frequencies, X.dtype)
    # Sums of at most 16384 / 64 integers up to 2**16: exact in float32.
    squares, products = np.zeros((2, product.n_rows, frequencies.shape[1]), np.float32)
    for turns in product(X):
        sin, cos = _half_circle(turns.astype(X.dtype, copy=False))
        cos *= sin
        sin *= sin
        squares[: len(sin)] += np.rint(sin, out=sin)
        products[: len(sin)] += np.rint(cos, out=cos)
    # cos(2 a) = 1 - 2 sin(a)**2 and sin(2 a) = 2 sin(a) cos(a), times 2**15.
    sums = np.stack([-squares, products]).sum(axis=1, dtype=np.int64)
    sums[0] += len(X) * 2**15
    return sums.ravel()


def _half_circle(turns: NDArray) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return 256 times sine and cosine of pi t, where t is `turns` less whole turns.

    Each step is one correctly rounded operation per entry, so position does not matter.
    """
    turns -= np.rint(turns)
    t = turns.astype(np.float32, copy=False)
    square = t * t
    sin = _horner(square, SIN)
    sin *= t
    return sin, _horner(square, COS)


def _horner(x: NDArray, coefficients: tuple[np.float32, ...]) -> NDArray:
    value = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        value += c
        value *= x
    value += coefficients[0]
    return value


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
    for product in ExactProduct(projections, X.dtype)(X):
        codes = _buckets(product + offsets, n_buckets) + first
        counts += np.bincount(codes.ravel(), minlength=len(counts))
    return counts


def race_codes(
    X: NDArray, projections: NDArray, offsets: NDArray, n_buckets: int
) -> NDArray[np.int32]:
    """Return the buckets of `_engine.race_codes`."""
    codes = np.empty((len(X), len(offsets)), np.int32)
    product = ExactProduct(projections, X.dtype)
    for start, block in zip(range(0, len(X), product.n_rows), product(X), strict=True):
        codes[start : start + len(block)] = _buckets(block + offsets, n_buckets)
    return codes


def _buckets(x: NDArray, n_buckets: int) -> NDArray[np.int64]:
    """Return ``floor(x) mod W``."""
    cells = np.floor(x)
    cells -= n_buckets * np.floor(cells / n_buckets)
    # The remainder of a huge cell is rounded, maybe out of range.
    return np.clip(cells, 0, n_buckets - 1).astype(np.int64)
