"""Sums of feature maps over rows: loops that numba compiles where it is installed, numpy otherwise.

What a row adds to a sum is an integer vector that depends, bit for bit, on that row alone: not on
its position, on the other rows, on how they are cut into blocks or on the number of threads. The
sensitivity of every sketch rests on this. Both engines owe it to their arithmetic and not to luck
(see `ExactProduct`, and `_engine_numba`). They agree to rounding, not to the bit.

Set the environment variable ``SKDPSUMM_ENGINE`` to ``numpy`` or ``numba`` to force one.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._computing import one_blas_thread
from ..schema._sparse import SparseRows

# Rows are clipped to this, so that no product overflows (frequencies are below 2**40).
LARGEST_CELL = 2.0**60
# numpy's engine rounds angles to so many parts of a turn.
N_ANGLES = 2**16
# Entries that numpy's engine takes at once: they fit the cache, and make calls of numpy cheap.
_ENTRIES_IN_CACHE = 32768
_MOST_ROWS_OF_A_PRODUCT = 256
_EXPONENT = np.float64(np.inf).view(np.int64)


def fourier_sums(X: NDArray, frequencies: NDArray) -> NDArray[np.int64]:
    """Return the sum over rows of ``rint(2**15 [cos(2 pi x F), sin(2 pi x F)])``.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64, or SparseRows
        Finite rows, clipped to +-2**60. Sparse ones are summed by numpy's engine, whichever there
        is: to the bit as their dense twins are by it.
    frequencies : ndarray of shape (d, p), float64
        F in turns per unit of X, below 1e12.

    Returns
    -------
    sums : ndarray of shape (2 * p,), int64
        The p cosines, then the p sines.

    Notes
    -----
    A row adds the pair (c, s) with |c|, |s| <= 2**15, and each of c and s is within
    ``0.5 + 2**-5`` of the same point on the circle of radius 2**15. That point's angle is x F
    in float64 (numba), and to 2**-17 turns (numpy).
    """
    kernels, p = _kernels(X), frequencies.shape[1]
    if kernels is not None:
        return kernels.fourier_sums(_in_float64(X), _padded(frequencies))[:, :p].ravel()
    sums, pairs = np.zeros((2, p), np.int64), np.empty((_MOST_ROWS_OF_A_PRODUCT, p), np.int64)
    with one_blas_thread():
        for angles in ExactProduct(frequencies * N_ANGLES)(_in_float64(X)):
            # The codes are in range; mode="clip" spares numpy a copy of `out`.
            found = pairs[: len(angles)]
            np.take(_circle(), _angle_codes(angles), out=found, mode="clip")
            packed = found.sum(axis=0)
            # So few sines up to 2**15: their sum fills the low half, with its sign.
            sines = (packed + 2**31) % 2**32 - 2**31
            sums += (packed - sines) >> 32, sines
    return sums.ravel()


def fourier_grid(X: NDArray, frequencies: NDArray) -> NDArray[np.float32]:
    """Return what each row adds to `fourier_sums`, shape (n, 2 * p): whole numbers up to 2**15.

    Of numpy's engine, whichever sums: sums of these rows are exact and row by row alone, and may
    differ from numba's by a unit.
    """
    product, p = ExactProduct(frequencies * N_ANGLES), frequencies.shape[1]
    cosines, sines = _grid_points().astype(np.float32)
    grid = np.empty((len(X), 2 * p), np.float32)
    start = 0
    with one_blas_thread():
        for angles in product(_in_float64(X)):
            rows, codes = slice(start, start + len(angles)), _angle_codes(angles)
            grid[rows, :p], grid[rows, p:] = cosines[codes], sines[codes]
            start += len(angles)
    return grid


def race_codes(
    X: NDArray, projections: NDArray, offsets: NDArray, n_buckets: int
) -> NDArray[np.int32]:
    """Return ``floor(X P + offset) mod W``, the buckets of each row.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        As in `fourier_sums`.
    projections : ndarray of shape (d, R), float64
    offsets : ndarray of shape (R,), float64
    n_buckets : int
        W.

    Returns
    -------
    codes : ndarray of shape (n, R), int32
        Those of a hash lie next to one another.
    """
    kernels, n_hashes = _kernels(X), len(offsets)
    if kernels is not None:
        hashes = _padded(projections), np.append(offsets, 0.0), n_buckets
        return kernels.race_codes(_in_float64(X), *hashes)[:n_hashes].T
    codes, start = np.empty((n_hashes, len(X)), np.int32), 0
    with one_blas_thread():
        for block in ExactProduct(projections)(_in_float64(X)):
            codes[:, start : start + len(block)] = _buckets(block + offsets, n_buckets).T
            start += len(block)
    return codes.T


def bucket_counts(codes: NDArray[np.int32], n_buckets: int) -> NDArray[np.int64]:
    """Count the rows in each bucket of each hash, shape (R * W,), by what `race_codes` returns."""
    kernels = _kernels()
    if kernels is not None:
        return kernels.bucket_counts(codes.T, n_buckets).ravel()
    return np.concatenate([np.bincount(of_hash, minlength=n_buckets) for of_hash in codes.T])


def fourier_features(X: NDArray, frequencies: NDArray) -> NDArray:
    """Return ``[cos(2 pi X F), sin(2 pi X F)]`` to the precision of X.dtype.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64, or SparseRows
    frequencies : ndarray of shape (d, p), float64
        F in turns per unit of X.

    Returns
    -------
    features : ndarray of shape (n, 2 * p), of X.dtype
    """
    frequencies = frequencies.astype(X.dtype)
    p = frequencies.shape[1]
    features = np.empty((len(X), 2 * p), X.dtype)
    n_rows = max(64, _ENTRIES_IN_CACHE // p)
    for start in range(0, len(X), n_rows):
        rows = slice(start, start + n_rows)
        angles = _clipped(X[rows]) @ frequencies
        angles -= np.rint(angles)
        angles *= 2 * np.pi
        np.cos(angles, out=features[rows, :p])
        np.sin(angles, out=features[rows, p:])
    return features


def _clipped(X: Any) -> Any:
    if isinstance(X, SparseRows):
        return X.with_values(np.clip(X.values, -LARGEST_CELL, LARGEST_CELL))
    return np.clip(X, -LARGEST_CELL, LARGEST_CELL)


def engine_name() -> str:
    """Return "numba" or "numpy": what the environment asks for, or else the fastest installed."""
    name = os.environ.get("SKDPSUMM_ENGINE") or _fastest()
    if name not in ("numba", "numpy"):
        raise ValueError(f"SKDPSUMM_ENGINE must be 'numba' or 'numpy', got {name!r}.")
    return name


def check_engine() -> None:
    """Raise ValueError for an engine that the environment asks for and that is not there."""
    try:
        _kernels()
    except ImportError as error:
        raise ValueError(
            "SKDPSUMM_ENGINE is 'numba', which is not installed: pip install numba, or set 'numpy'."
        ) from error


def engine_signature(name: str | None = None) -> str:
    """Return what decides the last bit of a row's contribution, by this engine or the fastest.

    Sums of processes may be added where they agree in it. Else what a row adds would hang on the
    process that happened to take it, which no sensitivity allows.
    """
    return _signature(name or engine_name())


@lru_cache
def _signature(name: str) -> str:
    # numpy's cosine may differ by processor; numba's engine has none.
    table = _circle().tobytes() if name == "numpy" else b""
    version = importlib.import_module("..", __package__).__version__
    return f"skdpsumm {version}, {name}, {hashlib.sha256(table).hexdigest()[:16]}"


def _fastest() -> str:
    try:
        importlib.import_module("numba")
    except ImportError:
        return "numpy"
    return "numba"


def _kernels(X: Any = None) -> ModuleType | None:
    """Return the module of compiled loops, None where numpy is to do it."""
    if engine_name() == "numpy" or isinstance(X, SparseRows):
        return None
    # Imported late: numba takes a second, and need not be there.
    return importlib.import_module("._engine_numba", __package__)


def _in_float64(X: Any) -> Any:
    """Return rows in float64, whatever X is: what a row adds may not depend on its container."""
    return X if isinstance(X, SparseRows) else np.ascontiguousarray(X, np.float64)


def _padded(matrix: NDArray) -> NDArray:
    """Return the transpose of a (d, p) matrix, padded for the compiled loops: an even height,
    a width in fours.
    """
    d, p = matrix.shape
    return np.pad(matrix.T, [(0, p % 2), (0, -d % 4)])


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
        self.n_rows = min(max(64, _ENTRIES_IN_CACHE // p), _MOST_ROWS_OF_A_PRODUCT)
        # Cutting is many operations on few entries, so blocks are cut several at a time.
        self.n_cut = self.n_rows * max(1, 2 * _ENTRIES_IN_CACHE // (d * self.n_rows))

    def __call__(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the product, `n_rows` rows at a time; each is a function of its row of X alone.

        The product of `SparseRows` is that of the same rows in an array, to the last bit.
        """
        if isinstance(X, SparseRows):
            yield from self._sparse_product(X)
            return
        # A fourth product, of both parts that were cut off, would show in the last bits at most.
        for start in range(0, len(X), self.n_cut):
            rows = self._cut_rows(X[start : start + self.n_cut])
            for first in range(0, len(rows[0]), self.n_rows):
                yield self._sum(*(part[first : first + self.n_rows] for part in rows))

    def _sum(self, head: Any, rest: Any) -> NDArray[np.float64]:
        """Return the product of rows that are cut in two."""
        product = head @ self.parts[0]
        product += head @ self.parts[1]
        product += rest @ self.parts[0]
        return product

    def _sparse_product(self, X: SparseRows) -> Iterator[NDArray[np.float64]]:
        units = self.units[:, 0]
        for start in range(0, len(X), self.n_rows):
            block = _clipped(X[start : start + self.n_rows])
            values = block.values * units[block.indices]
            head = self._cut_sparse(block, values)
            rest = self._cut_sparse(block, values - head)
            yield self._sum(block.with_values(head), block.with_values(rest))

    def _cut_sparse(self, rows: SparseRows, values: NDArray) -> NDArray:
        """Return values cut to so many bits of the largest of their row, as `_cut` does."""
        starts, largest = rows.indptr[:-1], np.zeros(len(rows))
        filled = np.flatnonzero(np.diff(rows.indptr))
        if len(filled):
            largest[filled] = np.maximum.reduceat(np.abs(values), starts[filled])
        powers = _power_of_two(largest[None], axis=0)[0]
        rounder = (powers * (1.5 * 2.0 ** (52 - self.bits)))[rows.row_numbers]
        return (values + rounder) - rounder

    def _cut_rows(self, X: NDArray) -> list[NDArray[np.float64]]:
        columns = np.array(X.T, np.float64, order="C")
        columns.clip(-LARGEST_CELL, LARGEST_CELL, out=columns)
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


def _angle_codes(angles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return ``rint(angles) mod N_ANGLES``; `angles` is overwritten."""
    # Next to 2**52, neighbours are one apart, and the last bits are the integer's.
    angles += 1.5 * 2**52
    codes = angles.view(np.int64)
    codes &= N_ANGLES - 1
    return codes


@lru_cache
def _circle() -> NDArray[np.int64]:
    """Return all pairs on the grid, as 2**32 times the cosine plus the sine."""
    cosines, sines = _grid_points()
    return cosines * 2**32 + sines


@lru_cache
def _grid_points() -> NDArray[np.int64]:
    """Return the cosines and sines of all angles, in units of 2**-15."""
    angles = 2 * np.pi / N_ANGLES * np.arange(N_ANGLES)
    return np.rint(2**15 * np.stack([np.cos(angles), np.sin(angles)])).astype(np.int64)


def _buckets(x: NDArray, n_buckets: int) -> NDArray[np.int64]:
    """Return ``floor(x) mod W``."""
    cells = np.floor(x)
    cells -= n_buckets * np.floor(cells / n_buckets)
    # The remainder of a huge cell is rounded, maybe out of range.
    return np.clip(cells, 0, n_buckets - 1).astype(np.int64)
