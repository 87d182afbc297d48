"""Public feature maps phi: Fourier features, RACE, histograms, and several side by side.

Each knows the L1 and L2 sensitivity of its sum by construction and describes itself.

What a row adds to a sum is an integer vector that depends, bit for bit, on that row alone: not on
its position, on the other rows, on how they are cut into blocks or on the number of threads. The
sensitivity of every sketch rests on this. Sums are loops that numba compiles where it is installed,
and numpy's otherwise. Both engines owe the promise to their arithmetic and not to luck (see
`ExactProduct`, and `_engine_numba`). They agree to rounding, not to the bit. Set the environment
variable ``SKDPSUMM_ENGINE`` to ``numpy`` or ``numba`` to force one.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, lru_cache, reduce
from itertools import accumulate, combinations
from numbers import Integral
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.utils import gen_batches

from .._computing import advance, one_blas_thread
from ..privacy._mechanisms import register
from ..schema._columns import Categorical, Numeric, first_values, increasing, told
from ..schema._reading import SparseRows
from ..schema._schema import TableSchema, first_difference
from ._apart import least_kernel

Ints = NDArray[np.int64]

# Rows are clipped to this, so that no product overflows (frequencies are below 2**40).
LARGEST_CELL = 2.0**60
# numpy's engine rounds angles to so many parts of a turn.
N_ANGLES = 2**16
# Entries that numpy's engine takes at once: they fit the cache, and make calls of numpy cheap.
_ENTRIES_IN_CACHE = 32768
_MOST_ROWS_OF_A_PRODUCT = 256
_EXPONENT = np.float64(np.inf).view(np.int64)


def fourier_sums(X: NDArray, frequencies: NDArray) -> Ints:
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
            cells = np.floor(block + offsets)
            cells -= n_buckets * np.floor(cells / n_buckets)
            # The remainder of a huge cell is rounded, maybe out of range.
            codes[:, start : start + len(block)] = np.clip(cells, 0, n_buckets - 1).T
            start += len(block)
    return codes.T


def bucket_counts(codes: NDArray[np.int32], n_buckets: int) -> Ints:
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
    """Return "numba" or "numpy": what the environment asks for, or else the fastest installed.

    Raises
    ------
    ValueError
        For an engine that the environment asks for and that is not there.
    """
    return "numpy" if _kernels() is None else "numba"


def engine_signature() -> str:
    """Return what decides the last bit of a row's contribution.

    Sums of processes may be added where they agree in it. Else what a row adds would hang on the
    process that happened to take it, which no sensitivity allows.
    """
    version = importlib.import_module("..", __package__).__version__
    # numpy's engine, which also serves means of groups, has a cosine that may differ by processor.
    table = hashlib.sha256(_circle().tobytes()).hexdigest()[:16]
    return f"skdpsumm {version}, {engine_name()}, {table}"


def _kernels(X: Any = None) -> ModuleType | None:
    """Return the module of compiled loops, None where numpy is to do it; see `engine_name`."""
    asked = os.environ.get("SKDPSUMM_ENGINE")
    if asked not in (None, "", "numba", "numpy"):
        raise ValueError(f"SKDPSUMM_ENGINE must be 'numba' or 'numpy', got {asked!r}.")
    if asked == "numpy" or isinstance(X, SparseRows):
        return None
    loops = _compiled_loops()
    if asked == "numba" and loops is None:
        raise ValueError(
            "SKDPSUMM_ENGINE is 'numba', which is not installed: pip install numba, or set 'numpy'."
        )
    return loops


@lru_cache
def _compiled_loops() -> ModuleType | None:
    """Return the module of compiled loops, None without numba.

    Imported late, because numba takes a second, and once: a failed import takes milliseconds, and
    an engine that came later would serve some rows of a table only.
    """
    with suppress(ImportError):
        return importlib.import_module("._engine_numba", __package__)
    return None


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


def _angle_codes(angles: NDArray[np.float64]) -> Ints:
    """Return ``rint(angles) mod N_ANGLES``; `angles` is overwritten."""
    # Next to 2**52, neighbours are one apart, and the last bits are the integer's.
    angles += 1.5 * 2**52
    codes = angles.view(np.int64)
    codes &= N_ANGLES - 1
    return codes


@lru_cache
def _circle() -> Ints:
    """Return all pairs on the grid, as 2**32 times the cosine plus the sine."""
    cosines, sines = _grid_points()
    return cosines * 2**32 + sines


@lru_cache
def _grid_points() -> Ints:
    """Return the cosines and sines of all angles, in units of 2**-15."""
    angles = 2 * np.pi / N_ANGLES * np.arange(N_ANGLES)
    return np.rint(2**15 * np.stack([np.cos(angles), np.sin(angles)])).astype(np.int64)


# What a row adds to a sum are integers in units of 1 / GRID.
GRID = 2**15
# The value of `max_rows_per_group` that gives the rows of a group a weight of one together.
AVERAGE = "average"
# Length of phi: half a GiB of sums, thousands of times what answers are computed from.
MOST_FEATURES = 2**26
# Codes of a column are then 128 KiB: those of some columns stay in the caches of a processor.
_ROWS_SUMMED_AT_ONCE = 2**14
_ENTRIES_PER_BLOCK = 2**22


class FeatureMap(ABC):
    """A public map phi from rows to R^m whose norm is bounded by construction.

    A map is immutable, knows nothing of any data, and describes itself as plain values and arrays
    (`to_state`), from which `feature_map_from_state` rebuilds it. Whoever makes it, its
    constructor refuses what does not fit: no row makes a map that exists write out of bounds.

    Attributes
    ----------
    schema : TableSchema
        The table it reads.
    n_features : int
        m, the length of phi(x).
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[FeatureMap]]] = {}
    schema: TableSchema
    n_features: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            register(FeatureMap._kinds, cls.kind, cls)

    @abstractmethod
    def matrix(self, X: NDArray) -> NDArray | sparse.csr_array:
        """Return phi of each row, shape (n, m); sparse where phi is."""

    @abstractmethod
    def _grid_sums(self, X: NDArray) -> Ints:
        """Return the sum over the rows of one batch of phi in whole grid units."""

    def _grid_averages(self, X: NDArray, rows: Ints, sizes: Ints) -> Ints:
        """Return `grid_averages` of one batch of groups."""
        raise NotImplementedError

    @abstractmethod
    def sensitivity(self, adjacency: str, *, averaged: bool = False) -> tuple[float, float]:
        """Return the L1 and L2 sensitivity of the sum of phi, in grid units, rounding included.

        Of `grid_averages` where `averaged`: a group of rows then comes, goes or is replaced.
        """

    @abstractmethod
    def project(self, mean: NDArray) -> NDArray:
        """Return `mean` moved to the convex hull that every true mean lies in (or near it)."""

    @abstractmethod
    def neutral_mean(self) -> NDArray:
        """Return the mean to assume when nothing is known."""

    def row_groups(self) -> list[slice]:
        """Return the slices of phi whose entries sum to one for every row; empty if none."""
        return []

    @abstractmethod
    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return a JSON-ready description and the arrays that go with it."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> FeatureMap:
        """Rebuild from `to_state`."""

    def parts(self) -> list[FeatureMap]:
        """Return the maps that this one is made of: itself, unless it is a union."""
        return [self]

    def blocks(self) -> list[tuple[FeatureMap, slice]]:
        """Return each of the parts with its place in phi."""
        parts = self.parts()
        return list(zip(parts, places([part.n_features for part in parts]), strict=True))

    def column_groups(self) -> Iterable[Sequence[int]]:
        """Return the groups of columns of which features tell how they go together."""
        return [range(self.schema.n_columns)]

    def seen_columns(self) -> set[int]:
        """Return the columns that some feature tells something of."""
        return set().union(*self.column_groups())

    def check_values(self, X: NDArray) -> None:
        """Raise ValueError for values that some part of the map cannot take."""
        for schema in {part.schema: None for part in self.parts()}:  # mostly one, that of a union
            schema.check(X)

    def _encode(self, X: Any) -> Any:
        encoded = self.schema.encode(X)
        return encoded if isinstance(encoded, SparseRows) else np.ascontiguousarray(encoded)

    def grid_sums(self, X: NDArray) -> Ints:
        """Return the exact sum of phi over the rows of X, in grid units of 2**-15.

        The sum is over integers, so it depends on no order, batch or thread; each row's
        contribution depends on that row alone.
        """
        total = np.zeros(self.n_features, np.int64)
        # In batches, so that what is encoded does not grow with the table.
        for rows in batches(len(X)):
            total += self._grid_sums(X[rows])
            advance()
        return total

    def grid_averages(self, X: NDArray, rows: Ints, sizes: Ints) -> Ints:
        """Return the sum over groups of rows of the mean of phi over each, in grid units.

        What a group adds is rounded once, and is a function of its rows alone.

        Parameters
        ----------
        X : ndarray of shape (n, d), or Table
        rows : ndarray of shape (n,)
            The rows of X, sorted by group.
        sizes : ndarray of shape (n_groups,)
            Number of rows of each group, in that order.
        """
        total = np.zeros(self.n_features, np.int64)
        ends = np.cumsum(sizes)
        first = 0
        while first < len(sizes):
            start = ends[first] - sizes[first]
            # Whole groups, one at least. Blocks of rows bound the memory for large ones.
            last = max(first + 1, int(np.searchsorted(ends, start + self._n_block, side="right")))
            total += self._grid_averages(X, rows[start : ends[last - 1]], sizes[first:last])
            first = last
            advance()
        return total

    @property
    def _n_block(self) -> int:
        """Number of rows of which phi may be in memory at once."""
        return max(1, min(_ROWS_SUMMED_AT_ONCE, _ENTRIES_PER_BLOCK // self._n_at_once))

    @property
    def _n_at_once(self) -> int:
        """Number of entries of a row that are in memory with it."""
        return self.n_features

    def float_sums(self, X: NDArray, weights: NDArray | None = None) -> NDArray[np.float64]:
        """Return the (weighted) sum of phi in float64, for epsilon = inf."""
        total = np.zeros(self.n_features)
        for rows in batches(len(X)):
            phi = self.matrix(X[rows])
            if weights is None:
                total += np.asarray(phi.sum(axis=0, dtype=np.float64)).ravel()
            else:
                total += weights[rows] @ phi
            advance()
        return total

    def difference(self, other: FeatureMap) -> str | None:
        """Return what differs first between two maps, by name; None where they are equal."""
        (mine, arrays), (theirs, their_arrays) = self.to_state(), other.to_state()
        described = first_difference(mine, theirs)
        if described is not None:
            return described
        # Maps with equal descriptions have arrays of the same names.
        unequal = (k for k, a in arrays.items() if not np.array_equal(a, their_arrays[k]))
        return next((f"{k} differ" for k in unequal), None)


def places(sizes: Sequence[int]) -> list[slice]:
    """Return where parts of these sizes lie, one after the other."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def feature_map_from_state(state: dict[str, Any], arrays: dict[str, NDArray]) -> FeatureMap:
    """Rebuild a feature map from its `to_state`.

    Raises
    ------
    ValueError
        For a description that is none: what the constructors refuse, they refuse here.
    """
    kind, known = state.get("kind") if isinstance(state, dict) else None, FeatureMap._kinds
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(
            f"The feature map {kind!r} is unknown; known are {sorted(known)}. A newer version of "
            "skdpsumm may read it."
        )
    try:
        return known[kind].from_state(state, arrays)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"The description of a {kind} map lacks entries, or has unknown ones."
        ) from error


def sensitivities(feature_map: FeatureMap, adjacency: str, limit: Any) -> list[tuple[float, float]]:
    """Return the L1 and L2 sensitivity of each part of a map, in grid units, for a unit.

    Parameters
    ----------
    feature_map : FeatureMap
    adjacency : {"add_remove", "replace_one"}
    limit : int, "average" or None
        `max_rows_per_group`. An int k moves a sum by k rows, which k equal rows reach.
    """
    averaged = limit == AVERAGE
    k = 1 if averaged or limit is None else int(limit)
    moved = (part.sensitivity(adjacency, averaged=averaged) for part in feature_map.parts())
    return [(k * l1, k * l2) for l1, l2 in moved]


def apportioned(counts: Ints, totals: Ints, segments: Ints) -> Ints:
    """Return ``GRID * counts / totals`` in whole units that sum to GRID in each segment.

    By the largest remainders; of equal ones, the first gets a unit more.

    Parameters
    ----------
    counts : ndarray of shape (n,)
        Positive. Those of a segment sum to its total.
    totals : ndarray of shape (n,)
    segments : ndarray of shape (n,)
        In ascending order.
    """
    if not len(counts):
        return counts
    whole, rest = np.divmod(counts * GRID, totals)
    first = np.flatnonzero(np.diff(segments, prepend=segments[0] - 1))
    lengths = np.diff(first, append=len(counts))
    missing = GRID - np.add.reduceat(whole, first)
    # The sort is stable, and segments stay where they are.
    by_rest = np.lexsort((-rest, segments))
    rank = np.empty(len(counts), np.int64)
    rank[by_rest] = np.arange(len(counts)) - np.repeat(first, lengths)
    return whole + (rank < np.repeat(missing, lengths))


def check_size(n_features: int) -> int:
    """Return the length of phi, or raise ValueError for more than `MOST_FEATURES`."""
    if n_features > MOST_FEATURES:
        raise ValueError(
            f"A feature map can have {MOST_FEATURES:,} features, and this one would have at "
            f"least {n_features:,}: take fewer bins, buckets, components or marginals."
        )
    return n_features


def is_count(value: Any) -> bool:
    """Whether `value` is a whole number of at least 1 (True is none)."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def public_numbers(name: str, values: ArrayLike, *shape: int | None) -> NDArray[np.float64]:
    """Return real numbers of a shape (None: any length but 0), or raise ValueError."""
    found = np.asarray(values)
    same = len(shape) == found.ndim and all(
        length == (wanted or length) for length, wanted in zip(found.shape, shape, strict=True)
    )
    if found.dtype.kind not in "fiu" or not same or not found.size:
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} must be numbers of shape ({wanted}), got {found.shape}.")
    return np.ascontiguousarray(found, np.float64)


def batches(n: int) -> Iterable[slice]:
    return gen_batches(n, _ROWS_SUMMED_AT_ONCE) if n else ()  # which takes no empty partitions


NO_SCHEMA_FOR_GAMMA = (
    'gamma="auto" needs a schema: give the public description of the columns here, in place of a '
    "PublicVectorizer in front, such as schema=(0, 1) or {'age': (17, 90)}."
)
NO_GAMMA = f"{NO_SCHEMA_FOR_GAMMA} Or set gamma to a number, per squared unit of the columns."


def auto_gamma(points: NDArray) -> float:
    """Return the gamma at which the kernel is exp(-1) at the mean distance of public points.

    Measured for M2M at epsilon = 1 (Occupancy, 3, 6 and 12 columns of Adult, 2, 5 and 10 skewed
    ones; 5 seeds): exp(-1) and exp(-2) were the best or close to it everywhere. Errors of
    correlations were up to three times as large with exp(-1/4) and exp(-4), and up to twice with a
    gamma of 2 whatever the number of columns.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Public, and encoded as rows are.
    """
    return 1 / float(pdist(points, "sqeuclidean").mean())


# Each grid value is within half a unit, plus the error of a float32 sine, of the unit circle.
_FOURIER_ROUNDING = 0.5 + 2.0**-5
# A mean of such points is as close to the disk, and is rounded once more; the rest is for float64.
_FOURIER_MEAN_ROUNDING = _FOURIER_ROUNDING + 0.5 + 2.0**-10
# Frequencies, in turns, and projections are below this: cells are clipped so that no product with
# them overflows.
_LARGEST_FACTOR = 1e12


class FourierMap(FeatureMap):
    """phi(x) = [cos(x Omega), sin(x Omega)] (M2M, Definition 2).

    Parameters
    ----------
    schema : TableSchema
    frequencies : ndarray of shape (d, p)
        Omega, in radians per unit of the encoded columns (`TableSchema.encode`); finite, below 1e12
        turns.

    Raises
    ------
    ValueError
        For frequencies of another shape or size.

    Notes
    -----
    Each pair lies on the unit circle: ``|cos a| + |sin a| <= sqrt(2)`` and, between two rows,
    ``2 |sin((a - b) / 2)| <= 2``. With p pairs the L1 sensitivity is ``p sqrt(2)`` (add-remove)
    and the L2 sensitivity ``sqrt(p)``. Replace-one multiplies both by `reach`. That is 2, or less
    where the schema has ranges: for L2 it is the distance itself, and the L1 norm of p pairs is at
    most ``sqrt(2 p)`` times their L2 norm. Rounding to the grid moves each entry by at most
    `_FOURIER_ROUNDING` units, on each of the rows that differ.

    Means over groups of rows lie no farther apart than rows. A sum of up to k rows that gives way
    to one of up to k others moves by k times `reach` at most, as `reach` is more than 1.
    """

    kind = "fourier"

    def __init__(self, schema: TableSchema, frequencies: NDArray):
        self.schema = schema
        self.frequencies = public_numbers("frequencies", frequencies, schema.n_encoded, None)
        self.n_features = check_size(2 * self.frequencies.shape[1])
        self._turns = self.frequencies / (2 * np.pi)
        if not np.all(np.abs(self._turns) < _LARGEST_FACTOR):
            # Products of larger ones could overflow to NaN, which no sensitivity bounds.
            raise ValueError(f"frequencies must be below {_LARGEST_FACTOR:g} turns; lower gamma.")

    @classmethod
    def draw(
        cls, schema: TableSchema, n_features: int, gamma: float, rng: np.random.RandomState
    ) -> FourierMap:
        """Draw the spectral measure of ``exp(-gamma |x-y|_2^2)``."""
        shape = (schema.n_encoded, n_features // 2)
        return cls(schema, rng.normal(scale=np.sqrt(2 * float(gamma)), size=shape))

    def matrix(self, X: NDArray) -> NDArray:
        return fourier_features(self._encode(X), self._turns)

    def grid_matrix(self, X: NDArray) -> NDArray[np.float32]:
        """Return phi of each row in whole grid units, a function of that row alone, bit for bit.

        A product with whole numbers is exact while it stays below 2**53, so what is computed from
        it depends on no other row either.
        """
        return fourier_grid(self._encode(X), self._turns)

    def _grid_sums(self, X: NDArray) -> Ints:
        return fourier_sums(self._encode(X), self._turns)

    def _grid_averages(self, X: NDArray, rows: Ints, sizes: Ints) -> Ints:
        sums = np.zeros((len(sizes), self.n_features), np.int64)
        codes = np.repeat(np.arange(len(sizes)), sizes)
        for block in gen_batches(len(rows), self._n_block):
            grid = self.grid_matrix(X[rows[block]]).astype(np.int64)
            present, first = np.unique(codes[block], return_index=True)
            sums[present] += np.add.reduceat(grid, first, axis=0)
        # Sums stay below 2**53, so the quotient is the float64 closest to the true one.
        return np.rint(sums / sizes[:, None]).astype(np.int64).sum(axis=0)

    def sensitivity(self, adjacency: str, *, averaged: bool = False) -> tuple[float, float]:
        rounding = _FOURIER_MEAN_ROUNDING if averaged else _FOURIER_ROUNDING
        pairs = self.n_features // 2
        rows, reach = (2, self.reach) if adjacency == "replace_one" else (1, 1.0)
        l1 = pairs * (reach * np.sqrt(2) * GRID + rows * 2 * rounding)
        l2 = np.sqrt(pairs) * (reach * GRID + rows * np.sqrt(2) * rounding)
        return float(l1), float(l2)

    @cached_property
    def reach(self) -> float:
        """How far apart phi of two rows may be, in units of the length of phi: 1.41 to 2."""
        return float(np.sqrt(2 - 2 * least_kernel(self.schema, self.frequencies)))

    def project(self, mean: NDArray) -> NDArray:
        cos, sin = np.split(mean, 2)
        # The mean of points on a circle lies inside it.
        radius = np.maximum(np.hypot(cos, sin), 1.0)
        return np.concatenate([cos / radius, sin / radius])

    def neutral_mean(self) -> NDArray:
        return np.zeros(self.n_features)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        return {"kind": self.kind, **self.schema.to_dict()}, {"frequencies": self.frequencies}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> FourierMap:
        return cls(TableSchema.from_dict(state), arrays["frequencies"])


class OneHotMap(FeatureMap):
    """phi(x) = [iota(c_1(x)), ..., iota(c_R(x))]: R one-hot groups.

    Every row puts exactly one 1 in each group, hence norms R (L1) and sqrt(R) (L2), and the sums
    of each group add to n.
    """

    sizes: Ints  # length of each group

    @abstractmethod
    def codes(self, X: NDArray) -> NDArray[np.integer]:
        """Return the position of the 1 inside each group, shape (n, R)."""

    @property
    def starts(self) -> Ints:
        """First position of each group."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def matrix(self, X: NDArray) -> sparse.csr_array:
        positions = self.codes(X) + self.starts
        n_rows, n_groups = positions.shape
        ones = np.ones(positions.size)
        pointers = np.arange(0, positions.size + 1, n_groups)
        return sparse.csr_array(
            (ones, positions.ravel(), pointers), shape=(n_rows, self.n_features)
        )

    def group_codes(self, X: NDArray) -> Iterator[NDArray[np.integer]]:
        """Go over the columns of `codes`, so that they need not all be in memory."""
        return iter(self.codes(X).T)

    def counts(self, X: NDArray) -> Ints:
        """Return the number of rows at each position."""
        out = np.empty(self.n_features, np.int64)
        for group, codes in zip(self.row_groups(), self.group_codes(X), strict=True):
            out[group] = np.bincount(codes, minlength=group.stop - group.start)
        return out

    def _grid_sums(self, X: NDArray) -> Ints:
        return self.counts(X) * GRID

    def sensitivity(self, adjacency: str, *, averaged: bool = False) -> tuple[float, float]:
        # What a group adds has no negative entries and sums to GRID in each one-hot group, as what
        # a row adds does: averages move as far as rows.
        groups = len(self.sizes)
        # A row that is replaced leaves a cell of each group and enters another: two entries change
        # by one, so L2 grows by sqrt(2) only.
        rows = 2 if adjacency == "replace_one" else 1
        return float(rows * groups * GRID), float(np.sqrt(rows * groups) * GRID)

    @property
    def _n_at_once(self) -> int:
        return len(self.sizes)

    def _grid_averages(self, X: NDArray, rows: Ints, sizes: Ints) -> Ints:
        if len(sizes) == 1:  # which may be of more rows than fit
            return self._average_of_one(X, rows)
        out, of_row = np.zeros(self.n_features, np.int64), np.repeat(np.arange(len(sizes)), sizes)
        for place, codes in zip(self.row_groups(), self.group_codes(X[rows]), strict=True):
            n_cells = place.stop - place.start
            keys, counts = np.unique(of_row * n_cells + codes, return_counts=True)
            group, cell = np.divmod(keys, n_cells)
            shares = apportioned(counts, sizes[group], group)
            # Whole numbers below 2**53, so that these sums of floats are exact.
            out[place] = np.bincount(cell, shares, minlength=n_cells).astype(np.int64)
        return out

    def _average_of_one(self, X: NDArray, rows: Ints) -> Ints:
        """Return what one group of rows adds."""
        counts = np.zeros(self.n_features, np.int64)
        for block in gen_batches(len(rows), self._n_block):
            counts += self.counts(X[rows[block]])
        cells = np.flatnonzero(counts)
        one_hot = np.searchsorted(self.starts, cells, side="right") - 1
        counts[cells] = apportioned(counts[cells], np.full(len(cells), len(rows)), one_hot)
        return counts

    def row_groups(self) -> list[slice]:
        return places(self.sizes.tolist())

    def project(self, mean: NDArray) -> NDArray:
        return np.concatenate([project_to_simplex(mean[group]) for group in self.row_groups()])

    def neutral_mean(self) -> NDArray:
        return np.repeat(1 / self.sizes, self.sizes)


def project_to_simplex(vector: NDArray) -> NDArray:
    """Return the closest vector with entries that are at least 0 and sum to 1."""
    vector = vector - vector.max()  # a shift changes nothing but rounding errors
    descending = np.sort(vector)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(vector) + 1)
    threshold = excess[np.flatnonzero(descending > excess)[-1]]
    return np.maximum(vector - threshold, 0.0)


# Float32 knows no other whole numbers by their last digit, so a bucket could be one too far.
MOST_BUCKETS = 2**24


class RACEMap(OneHotMap):
    """One-hot codes of R p-stable hashes with W buckets each (M2M, Definition 3).

    ``h_r(x) = floor(x . w_r / bandwidth + b_r) mod W`` with w_r normal and b_r uniform on [0, 1)
    (Datar et al., 2004).

    Parameters
    ----------
    schema : TableSchema
    projections : ndarray of shape (d, R)
        w_r / float(bandwidth), for the encoded columns (`TableSchema.encode`); finite, below 1e12.
    offsets : ndarray of shape (R,)
        b_r, in [0, 1).
    n_buckets : int
        W, from 2 to 2**24.

    Raises
    ------
    ValueError
        For anything else.
    """

    kind = "race"

    def __init__(self, schema: TableSchema, projections: NDArray, offsets: NDArray, n_buckets: int):
        self.schema = schema
        self.projections = public_numbers("projections", projections, schema.n_encoded, None)
        # Products of larger ones could overflow to NaN, which is in no bucket.
        if not np.all(np.abs(self.projections) < _LARGEST_FACTOR):
            raise ValueError(f"projections must be below {_LARGEST_FACTOR:g}; raise bandwidth.")
        n_hashes = self.projections.shape[1]
        self.offsets = public_numbers("offsets", offsets, n_hashes)
        if not np.all((self.offsets >= 0) & (self.offsets < 1)):
            raise ValueError("offsets must lie in [0, 1).")
        if not is_count(n_buckets) or not 2 <= n_buckets <= MOST_BUCKETS:
            raise ValueError(f"n_buckets must be from 2 to {MOST_BUCKETS}, got {n_buckets!r}.")
        self.n_buckets = int(n_buckets)
        self.n_features = check_size(n_hashes * self.n_buckets)
        self.sizes = np.full(n_hashes, self.n_buckets)

    @classmethod
    def draw(
        cls,
        schema: TableSchema,
        n_repetitions: int,
        n_buckets: int,
        bandwidth: float,
        rng: np.random.RandomState,
    ) -> RACEMap:
        """Draw the hashes."""
        projections = rng.normal(size=(schema.n_encoded, n_repetitions)) / float(bandwidth)
        return cls(schema, projections, rng.uniform(size=n_repetitions), n_buckets)

    def codes(self, X: NDArray) -> NDArray[np.int32]:
        return race_codes(self._encode(X), self.projections, self.offsets, self.n_buckets)

    def counts(self, X: NDArray) -> Ints:
        encoded, total = self._encode(X), np.zeros(self.n_features, np.int64)
        step = max(1, _ENTRIES_PER_BLOCK // len(self.offsets))
        for start in range(0, len(encoded), step):
            rows = encoded[start : start + step]
            codes = race_codes(rows, self.projections, self.offsets, self.n_buckets)
            total += bucket_counts(codes, self.n_buckets)
        return total

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        state = {"kind": self.kind, "n_buckets": self.n_buckets, **self.schema.to_dict()}
        return state, {"projections": self.projections, "offsets": self.offsets}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> RACEMap:
        schema = TableSchema.from_dict(state)
        return cls(schema, arrays["projections"], arrays["offsets"], state["n_buckets"])


# Fourier maps of a union: how far apart their rows are takes up to 0.3 s each to prove, and a
# stranger's sketch may have many.
_MOST_FOURIER_PARTS = 8


class UnionMap(FeatureMap):
    """phi(x) = [phi_1(x), ..., phi_k(x)], for maps of the same table.

    Its sensitivity is a matter of the budget of each part, so it is asked of the `parts`.

    Raises
    ------
    ValueError
        For no maps, or maps of different tables, or unions in a union.
    """

    kind = "union"

    def __init__(self, maps: Sequence[FeatureMap]):
        self.maps = tuple(maps)
        if not self.maps:
            raise ValueError("A union needs at least one feature map.")
        if any(isinstance(part, UnionMap) for part in self.maps):
            raise ValueError("A union holds no unions: list all parts in one.")
        if sum(isinstance(part, FourierMap) for part in self.maps) > _MOST_FOURIER_PARTS:
            raise ValueError(
                f"A union holds at most {_MOST_FOURIER_PARTS} Fourier maps; give one of them more "
                "features instead."
            )
        self.schema = self.maps[0].schema
        if any(m.schema != self.schema for m in self.maps):
            raise ValueError("The maps of a union must have the same schema.")
        self.n_features = check_size(sum(m.n_features for m in self.maps))

    def parts(self) -> list[FeatureMap]:
        return list(self.maps)

    def column_groups(self) -> Iterable[Sequence[int]]:
        return (group for m in self.maps for group in m.column_groups())

    def matrix(self, X: NDArray) -> NDArray | sparse.csr_array:
        blocks: list[Any] = [m.matrix(X) for m in self.maps]
        if all(sparse.issparse(b) for b in blocks):
            return sparse.hstack(blocks, format="csr")
        return np.hstack([b.toarray() if sparse.issparse(b) else b for b in blocks])

    def _grid_sums(self, X: NDArray) -> Ints:
        return np.concatenate([m._grid_sums(X) for m in self.maps])

    def grid_averages(self, X: NDArray, rows: Ints, sizes: Ints) -> Ints:
        return np.concatenate([m.grid_averages(X, rows, sizes) for m in self.maps])

    def sensitivity(self, adjacency: str, *, averaged: bool = False) -> tuple[float, float]:
        moved = (m.sensitivity(adjacency, averaged=averaged) for m in self.maps)
        l1, l2 = zip(*moved, strict=True)
        return float(sum(l1)), float(np.linalg.norm(l2))

    def project(self, mean: NDArray) -> NDArray:
        return np.concatenate([m.project(mean[place]) for m, place in self.blocks()])

    def neutral_mean(self) -> NDArray:
        return np.concatenate([m.neutral_mean() for m in self.maps])

    def row_groups(self) -> list[slice]:
        return [
            slice(place.start + group.start, place.start + group.stop)
            for m, place in self.blocks()
            for group in m.row_groups()
        ]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        states, arrays = zip(*(m.to_state() for m in self.maps), strict=True)
        named = {f"{i}.{k}": a for i, part in enumerate(arrays) for k, a in part.items()}
        return {"kind": self.kind, "maps": list(states)}, named

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> UnionMap:
        own: dict[str, dict[str, NDArray]] = {}
        for name, array in arrays.items():
            place, _, rest = name.partition(".")
            own.setdefault(place, {})[rest] = array
        parts = enumerate(state["maps"])
        return cls([feature_map_from_state(part, own.get(str(i), {})) for i, part in parts])


# All threes of 90 columns. A file could list as many as it likes, of one bin each.
MOST_GROUPS = 2**17


class HistogramMap(OneHotMap):
    """One-hot codes of the cell of a row in each of several histograms (M2M, section 2.1.1).

    Parameters
    ----------
    schema : TableSchema
        With a range for every numeric column. A column with edges of its own has these bins.
    n_bins : sequence of int, one per column
        Number of equal bins of the range; ignored for categorical columns and those with edges. A
        column with a step has at most as many bins as values, and each holds whole values.
    groups : sequence of tuples of column indices
        One histogram per group; its cells are the products of its columns' bins, last fastest.
    bins : mapping from column index to sequence, default=None
        Bins of this map alone, for some columns; `n_bins` and the schema's edges do not hold for
        them. Of numbers: the edges, as of `Numeric`. Of categories: the cell of each code, that of
        missing cells included; cells are numbered from 0 on, and each holds a code.
    points : mapping from column index to sequence of float, default=None
        Numbers of columns without a step, increasing. The bin that holds one stands for this number
        alone: a reader takes all rows of the bin to have it.

    Attributes
    ----------
    n_bins : tuple of int
        Number of cells of each column. Missing numbers have the last cell, and so have missing
        categories unless `bins` says another.
    bins, points : dict
        As given, in tuples.

    Raises
    ------
    ValueError
        For columns without a range, and for bins or groups that are none of such columns.
    """

    kind = "histogram"

    def __init__(
        self,
        schema: TableSchema,
        n_bins: Sequence[int],
        groups: Sequence[Sequence[int]],
        bins: Mapping[int, Sequence[Any]] | None = None,
        points: Mapping[int, Sequence[float]] | None = None,
    ):
        self.schema, d = schema, schema.n_columns
        schema.require_bounds()
        if len(n_bins) != d or not all(is_count(n) for n in n_bins):
            raise ValueError(
                f"n_bins must be a positive integer, or a list with one for each of {d} columns; "
                f"got {n_bins!r}."
            )
        given = {schema.index(j, "bins"): own for j, own in (bins or {}).items()}
        self.bins = {j: _own_bins(schema, j, given[j]) for j in sorted(given)}
        self.n_bins = tuple(check_size(self._n_codes(j, int(n_bins[j]))) for j in range(d))
        told = {schema.index(j, "points"): own for j, own in (points or {}).items()}
        self.points = {j: self._own_points(j, told[j]) for j in sorted(told)}
        self._set_groups(groups)

    def of_groups(self, groups: Sequence[Sequence[int]]) -> HistogramMap:
        """Return the map of other groups in the same cells."""
        other = copy(self)
        other._set_groups(groups)
        return other

    def _set_groups(self, groups: Sequence[Sequence[int]]) -> None:
        if len(groups) > MOST_GROUPS:
            raise ValueError(
                f"marginals makes {len(groups):,} groups of columns, and at most {MOST_GROUPS:,} "
                "can be counted; list fewer."
            )
        self.groups = tuple(tuple(self.schema.index(j, "marginals") for j in g) for g in groups)
        if not self.groups or any(len(set(g)) < max(len(g), 1) for g in self.groups):
            raise ValueError(f"marginals must list groups of different columns, got {groups!r}.")
        # A product is too large long before all columns of a stranger's group are multiplied.
        bins = ([self.n_bins[j] for j in group] for group in self.groups)
        sizes = [reduce(lambda size, n: check_size(size * n), own, 1) for own in bins]
        self.n_features = check_size(sum(sizes))
        self.sizes = np.array(sizes, np.int64)

    def _n_codes(self, j: int, n_bins: int) -> int:
        known, edges, missing = self.schema.values(j), self._own_edges(j), self.schema.missing(j)
        if known is not None:
            return int(self.cell_of_codes(j).max()) + 1
        if edges is not None:
            return len(edges) - 1 + missing
        return min(n_bins, self.schema.columns[j].n_values or n_bins) + missing

    def _own_edges(self, j: int) -> tuple[float, ...] | None:
        """Return the edges that numeric column `j` was given, None for equal bins."""
        return self.bins.get(j, self.schema.columns[j].edges)

    def _own_points(self, j: int, own: Sequence[float]) -> tuple[float, ...]:
        """Return the points of one column as plain numbers, or raise ValueError."""
        name, bounds = f"points, column {self.schema.name(j)!r}", self.schema.bound(j)
        found = np.array(increasing(name, own, least=1))
        if bounds is None or self.schema.step(j) is not None:
            raise ValueError(f"{name}: only numbers without a step have them.")
        if not bounds[0] <= found[0] <= found[-1] <= bounds[1]:
            raise ValueError(f"{name}: they must lie in the range {bounds}, got {told(own)}.")
        if len(np.unique(self._bins_of(found, j))) < len(found):
            raise ValueError(f"{name}: a bin holds two of {told(own)}.")
        return tuple(found.tolist())

    def n_present(self, j: int) -> int:
        """Return the number of cells of column `j`, without one of missing cells alone."""
        if self.schema.values(j) is None:
            return self.n_bins[j] - self.schema.missing(j)
        return len(set(self.cell_of_codes(j)[: len(self.schema.values(j))].tolist()))  # type: ignore[arg-type]

    def cell_of_codes(self, j: int) -> Ints:
        """Return the cell of each code of categorical column `j`, the code of missing last.

        Category ``schema.values(j)[code]`` is counted in cell ``cell_of_codes(j)[code]``. Without
        `bins` of its own, each code of a column is a cell.
        """
        column = self.schema.columns[j]
        if not isinstance(column, Categorical):
            raise ValueError(f"Column {self.schema.name(j)!r} has bins, not categories.")
        return np.array(self.bins.get(j, range(column.n_codes)), np.int64)

    def column_groups(self) -> Iterable[Sequence[int]]:
        return self.groups

    @classmethod
    def build(cls, schema: TableSchema, n_bins: Any, marginals: Any) -> HistogramMap:
        """Return the map of what the user gave to a `HistogramSketcher`."""
        d, one_number = schema.n_columns, np.isscalar(marginals)
        bins = [n_bins] * d if np.ndim(n_bins) == 0 else list(n_bins)
        if not one_number:
            if not all(isinstance(group, list | tuple) for group in marginals):
                raise ValueError(
                    f"marginals must be a number, or lists of columns such as [['a', 'b'], ['c']]; "
                    f"got {marginals!r}."
                )
            groups = list(marginals)
        elif 1 <= marginals <= d:
            check_size(math.comb(d, int(marginals)))  # each has a bin at least
            groups = list(combinations(range(d), int(marginals)))
        else:
            raise ValueError(
                f"marginals={marginals!r} must be from 1 to {d}, the number of columns."
            )
        return cls(schema, bins, groups)

    def column_codes(self, X: NDArray, j: int) -> Ints:
        """Return the bin of each cell of column `j`; numbers outside the range are clipped."""
        if self.schema.values(j) is not None:
            codes = self.schema.read(X, j)
            return self.cell_of_codes(j)[codes] if j in self.bins else codes
        values = self.schema.read(X, j)
        if not self.schema.missing(j):
            return self._bins_of(values, j)
        absent = np.isnan(values)
        bins = self._bins_of(np.where(absent, self.schema.bound(j)[0], values), j)  # type: ignore[index]
        return np.where(absent, self.n_present(j), bins)

    def _bins_of(self, values: NDArray[np.float64], j: int) -> Ints:
        if self._own_edges(j) is not None or self.schema.step(j) is not None:
            return _searched(self.edges(j), values)
        low, high = self.schema.bound(j) or (0.0, 1.0)
        n = self.n_present(j)
        # The ends themselves may be rounded past the last bin, so codes are clipped again.
        return np.clip(((values - low) * (n / (high - low))).astype(np.int64), 0, n - 1)

    def codes(self, X: NDArray) -> Ints:
        return np.column_stack(list(self.group_codes(X)))

    def group_codes(self, X: NDArray) -> Iterator[Ints]:
        # Columns are read once, however many histograms share them.
        by_column = {j: self.column_codes(X, j) for j in sorted(self.seen_columns())}
        for group in self.groups:
            cells = by_column[group[0]]
            for j in group[1:]:
                cells = cells * self.n_bins[j] + by_column[j]
            yield cells

    def float_sums(self, X: NDArray, weights: NDArray | None = None) -> NDArray[np.float64]:
        # One histogram at a time: of many, the matrix of all codes is larger than the table.
        if weights is None:
            return self.grid_sums(X) / GRID
        total = np.zeros(self.n_features)
        for rows in batches(len(X)):
            for place, codes in zip(self.row_groups(), self.group_codes(X[rows]), strict=True):
                total[place] += np.bincount(codes, weights[rows], place.stop - place.start)
            advance()
        return total

    @property
    def _n_at_once(self) -> int:
        return len(self.seen_columns())

    def edges(self, j: int) -> NDArray[np.float64]:
        """Return the ``n_present(j) + 1`` edges of the bins of numeric column `j`.

        Where the column has a step they lie half a step below the first value of each bin, and
        half a step above the last one.
        """
        low, high = self.schema.bound(j) or (0.0, 1.0)
        own, step, n = self._own_edges(j), self.schema.step(j), self.n_present(j)
        if step is None:
            return np.linspace(low, high, n + 1) if own is None else np.array(own)
        if own is None:
            # Value k is in bin k * n // n_values.
            (whole, rest), k = divmod(self.schema.columns[j].n_values or n, n), np.arange(n + 1)
            first: NDArray = k * whole - (-k * rest // n)
        else:
            first = first_values(own, low, step)
        return low + (first - 0.5) * step

    def contents(self, j: int) -> list[Any]:
        """Return what each cell of column `j` may hold, as `TableSchema.possible_cells` takes it.

        Of numbers the smallest and the largest, None for the cell of missing ones; of categories
        their codes.
        """
        if self.schema.values(j) is not None:
            cells = self.cell_of_codes(j)
            return [tuple(np.flatnonzero(cells == k).tolist()) for k in range(self.n_bins[j])]
        half, edges = (self.schema.step(j) or 0.0) / 2, self.edges(j)
        ends: list[Any] = list(zip(edges[:-1] + half, edges[1:] - half, strict=True))
        return [*ends, None] if self.schema.missing(j) else ends

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        every = range(self.schema.n_columns)
        state = {
            "kind": self.kind,
            "n_bins": [self.n_present(j) for j in every],
            "groups": [list(group) for group in self.groups],
            **self.schema.to_dict(),
        }
        if self.bins:
            state["bins"] = [list(self.bins[j]) if j in self.bins else None for j in every]
        if self.points:
            state["points"] = [list(self.points[j]) if j in self.points else None for j in every]
        return state, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> HistogramMap:
        schema = TableSchema.from_dict(state)
        own: list[dict[int, Any]] = []
        for name in ("bins", "points"):
            listed = state.get(name, [None] * schema.n_columns)
            if len(listed) != schema.n_columns:
                raise ValueError(
                    f"{name} must have an entry for each of {schema.n_columns} columns."
                )
            own.append({j: one for j, one in enumerate(listed) if one is not None})
        return cls(schema, state["n_bins"], state["groups"], *own)


def _searched(edges: NDArray[np.float64], values: NDArray[np.float64]) -> Ints:
    """Return the bin of each value between edges, several times as fast as a search for each.

    Rounding keeps order: all edges in lower buckets are below a value, and all in higher ones above
    it. So only values that share a bucket with an edge are searched for.
    """
    low, inner = edges[0], edges[1:-1]
    # With 8 buckets a bin, one in eight even values shares a bucket with an edge: search finds it.
    n_buckets = min(8 * len(edges), len(values))
    per_unit = n_buckets / (edges[-1] - low)
    n_edges = np.bincount(((inner - low) * per_unit).astype(np.int64), minlength=n_buckets + 1)
    bucket = ((values - low) * per_unit).astype(np.int64)
    bins = (np.cumsum(n_edges) - n_edges)[bucket]
    near = np.flatnonzero(n_edges[bucket])
    bins[near] = np.searchsorted(inner, values[near], side="right")
    return bins


def _own_bins(schema: TableSchema, j: int, own: Sequence[Any]) -> tuple[Any, ...]:
    """Return the bins of one column as plain numbers, or raise ValueError."""
    column = schema.columns[j]
    try:
        if isinstance(column, Numeric):
            # Its constructor knows what edges fit a range and a step.
            low, high = column.bounds or (None, None)
            return Numeric(low, high, step=column.spacing, edges=own).edges  # type: ignore
        given = list(own) if np.iterable(own) else []
        if len(given) != column.n_codes or not all(cell == 0 or is_count(cell) for cell in given):
            raise ValueError(
                f"list a cell (0, 1, ...) for each of its {column.n_codes} codes, got {told(own)}."
            )
        cells = tuple(map(int, given))
        if len(set(cells)) != max(cells) + 1:
            raise ValueError(f"number the cells from 0 on and use each, got {told(own)}.")
        return cells
    except ValueError as error:
        raise ValueError(f"bins, column {schema.name(j)!r}: {error}") from None
