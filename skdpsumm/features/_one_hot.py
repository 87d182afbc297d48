"""Feature maps that one-hot encode several codes per row."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._base import GRID, FeatureMap


class OneHotMap(FeatureMap):
    """phi(x) = [iota(c_1(x)), ..., iota(c_R(x))]: R one-hot groups.

    Every row puts exactly one 1 in each group, hence norms R (L1) and sqrt(R) (L2), and the sums
    of each group add to n.
    """

    sizes: NDArray[np.int64]  # length of each group

    @abstractmethod
    def codes(self, X: NDArray) -> NDArray[np.integer]:
        """Return the position of the 1 inside each group, shape (n, R)."""

    @property
    def starts(self) -> NDArray[np.int64]:
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

    def counts(self, X: NDArray, n_threads: int) -> NDArray[np.int64]:
        """Return the number of rows at each position."""
        positions = self.codes(X) + self.starts
        return np.bincount(positions.ravel(), minlength=self.n_features)

    def _grid_sums(self, X: NDArray, n_threads: int) -> NDArray[np.int64]:
        return self.counts(X, n_threads) * GRID

    def sensitivity(self, adjacency: str) -> tuple[float, float]:
        groups = len(self.sizes)
        rows = 2 if adjacency == "replace_one" else 1
        return float(rows * groups * GRID), float(np.sqrt(rows * groups) * GRID)

    def row_groups(self) -> list[slice]:
        return [slice(int(a), int(a + b)) for a, b in zip(self.starts, self.sizes, strict=True)]

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
