"""The feature matrix of the synthetic points, kept in dense and sparse blocks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._computing import advance
from ...features import FeatureMap


class FeatureBlocks:
    """P = (phi(x_1), ..., phi(x_n)) for the parts of a feature map, never stacked.

    Histograms and RACE stay sparse beside dense Fourier features: at 80 arrays of 80 buckets
    that is 80 times less memory.
    """

    def __init__(self, feature_map: FeatureMap, points: NDArray):
        self.feature_map = feature_map
        self._hold([_matrix(part, points) for part in feature_map.parts()])

    def _hold(self, blocks: Sequence[Any]) -> None:
        self.blocks = blocks
        self.n_points = blocks[0].shape[0]
        ends = np.cumsum([block.shape[1] for block in blocks])
        self._slices = [
            slice(int(end) - block.shape[1], int(end))
            for block, end in zip(self.blocks, ends, strict=True)
        ]
        self.n_features = int(ends[-1])

    def dot(self, vectors: NDArray) -> NDArray:
        """Return P @ vectors, shape (n,) or (n, k)."""
        return sum(b @ vectors[s] for b, s in zip(self.blocks, self._slices, strict=True))  # type: ignore[return-value]

    def tdot(self, values: NDArray) -> NDArray:
        """Return P.T @ values, an array of shape (m,) or (m, k); `values` may be sparse."""
        return np.concatenate([_dense(b.T @ values) for b in self.blocks])

    def mean(self) -> NDArray:
        """Return the mean of the rows of P, shape (m,)."""
        return self.tdot(np.full(self.n_points, 1 / self.n_points))

    def mean_square(self) -> NDArray:
        """Return the mean of the squares of the entries of each column of P, shape (m,)."""
        return self.tdot_squares(np.full(self.n_points, 1 / self.n_points))

    def tdot_squares(self, values: NDArray) -> NDArray:
        """Return ``(P * P).T @ values``, shape (m,) or (m, k)."""
        squares = (b.multiply(b) if hasattr(b, "multiply") else b * b for b in self.blocks)
        return np.concatenate([square.T @ values for square in squares])

    def by_column(self) -> FeatureBlocks:
        """Return a copy from which few columns are taken fast."""
        return self._like([b.tocsc() if hasattr(b, "tocsc") else b for b in self.blocks])

    def take(self, positions: NDArray) -> FeatureBlocks:
        """Return some columns of P, at increasing `positions`."""
        local = [positions[(s.start <= positions) & (positions < s.stop)] for s in self._slices]
        pairs = zip(self.blocks, self._slices, local, strict=True)
        return self._like([b[:, which - s.start] for b, s, which in pairs if len(which)])

    def rows(self, positions: NDArray) -> FeatureBlocks:
        """Return some rows of P."""
        return self._like([b[positions] for b in self.blocks])

    def _like(self, blocks: Sequence[Any]) -> FeatureBlocks:
        other = copy(self)
        other._hold(blocks)
        return other

    def gram(self) -> NDArray:
        """Return P.T @ P, shape (m, m)."""
        out = np.empty((self.n_features, self.n_features))
        for i, a in enumerate(self._slices):
            for j, b in enumerate(self._slices[: i + 1]):
                out[a, b] = _dense(self.blocks[i].T @ self.blocks[j])
                out[b, a] = out[a, b].T
            advance()
        return out


def _dense(product: Any) -> NDArray:
    return product.toarray() if hasattr(product, "toarray") else product


def _matrix(part: FeatureMap, points: NDArray) -> Any:
    matrix = part.matrix(points)
    advance()
    return matrix
