"""What every public feature map can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import gen_batches

from .._difference import first_difference
from .._progress import advance
from ._columns import Columns

# Contributions are integers in units of 2**-GRID_BITS.
GRID_BITS = 15
GRID = 2**GRID_BITS
# Length of phi: half a GiB of sums, thousands of times what answers are computed from.
MOST_FEATURES = 2**26
_ROWS_PER_BATCH = 65536


class FeatureMap(ABC):
    """A public map phi from rows to R^m whose norm is bounded by construction.

    A map is immutable, knows nothing of any data, and describes itself as plain values and arrays
    (`to_state`), from which `feature_map_from_state` rebuilds it. Whoever makes it, its
    constructor refuses what does not fit: no row makes a map that exists write out of bounds.

    Attributes
    ----------
    columns : Columns
        The table it reads.
    n_features : int
        m, the length of phi(x).
    """

    kind: ClassVar[str]
    columns: Columns
    n_features: int

    @abstractmethod
    def matrix(self, X: NDArray) -> NDArray | sparse.csr_array:
        """Return phi of each row, shape (n, m); sparse where phi is."""

    @abstractmethod
    def _grid_sums(self, X: NDArray, n_threads: int) -> NDArray[np.int64]:
        """Return the sum over the rows of one batch of phi in whole grid units."""

    @abstractmethod
    def sensitivity(self, adjacency: str) -> tuple[float, float]:
        """Return the L1 and L2 sensitivity of the sum of phi, in grid units, rounding included."""

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

    def parts(self) -> list[FeatureMap]:
        """Return the maps that this one is made of: itself, unless it is a union."""
        return [self]

    def check_values(self, X: NDArray) -> None:
        """Raise ValueError for values that some part of the map cannot take."""
        for part in self.parts():
            part.columns.check(X)

    def grid_sums(self, X: NDArray, n_threads: int = 1) -> NDArray[np.int64]:
        """Return the exact sum of phi over the rows of X, in grid units of 2**-15.

        The sum is over integers, so it depends on no order, batch or thread; each row's
        contribution depends on that row alone.
        """
        total = np.zeros(self.n_features, np.int64)
        for rows in _batches(len(X)):
            total += self._grid_sums(X[rows], n_threads)
            advance()
        return total

    def float_sums(self, X: NDArray) -> NDArray[np.float64]:
        """Return the sum of phi in float64, for epsilon = inf."""
        total = np.zeros(self.n_features)
        for rows in _batches(len(X)):
            total += np.asarray(self.matrix(X[rows]).sum(axis=0, dtype=np.float64)).ravel()
            advance()
        return total

    def same_as(self, other: FeatureMap) -> bool:
        """Whether both maps are equal, so that sums of phi may be added."""
        return self.difference(other) is None

    def difference(self, other: FeatureMap) -> str | None:
        """Return what differs first between two maps, by name; None where they are equal."""
        (mine, arrays), (theirs, their_arrays) = self.to_state(), other.to_state()
        unequal = (k for k, a in arrays.items() if not np.array_equal(a, their_arrays.get(k)))
        # Maps with equal descriptions have arrays of the same names.
        return first_difference(mine, theirs) or next((f"{k} differ" for k in unequal), None)


def check_size(n_features: int) -> int:
    """Return the length of phi, or raise ValueError for more than `MOST_FEATURES`."""
    if n_features > MOST_FEATURES:
        raise ValueError(
            f"A feature map has at most {MOST_FEATURES:,} features, and this one would have "
            f"{n_features:,}: take fewer bins, buckets, components or marginals."
        )
    return n_features


def is_count(value: Any) -> bool:
    """Whether `value` is a whole number of at least 1 (True is none)."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 1


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


def _batches(n: int) -> Iterable[slice]:
    return gen_batches(n, _ROWS_PER_BATCH) if n else ()  # which takes no empty partitions
