"""Rows of explicit features, kept where they fit and computed again where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils import gen_batches

from ._losses import Floats

_BLOCK_BYTES = 2**24


class FeatureRows:
    """Features of rows, each scaled down to norm `radius` where it is longer.

    Parameters
    ----------
    transform : callable
        From a block of rows of X to an array of shape (rows, p).
    X : array-like of shape (n, d)
        Anything that slices.
    radius : float
        The public bound on the norm of a row.
    """

    def __init__(self, transform: Callable[[ArrayLike], ArrayLike], X, *, radius: float):
        self.transform = transform
        self.X = X
        self.radius = radius
        self.n_rows = X.shape[0]
        self.n_features = self._features(X[:1]).shape[1]
        width = 8 * self.n_features
        self._step = max(1, _BLOCK_BYTES // width)
        fits = self.n_rows * width <= get_config()["working_memory"] * 2**20
        self._kept = self._all() if fits else None

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the slice of each block of rows, and its features."""
        for rows in gen_batches(self.n_rows, self._step):
            kept = self._kept
            yield rows, self._features(self.X[rows]) if kept is None else kept[rows]

    def _all(self) -> Floats:
        out = np.empty((self.n_rows, self.n_features))
        for rows in gen_batches(self.n_rows, self._step):
            out[rows] = self._features(self.X[rows])
        return out

    def _features(self, block) -> Floats:
        features = np.asarray(self.transform(block), dtype=np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", features, features))
        long = norms > self.radius
        if long.any():
            features = (
                features * np.where(long, self.radius / np.maximum(norms, 1e-300), 1)[:, None]
            )
        return features
