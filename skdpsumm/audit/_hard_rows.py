"""The search for rows whose phi moves a sum as far as its sensitivity allows for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

N_CANDIDATES = 2_000


def rows_at_many_scales(n_rows: int, n_features: int, rng) -> NDArray[np.float64]:
    """Draw rows from near zero to far away, for maps without bounds."""
    scales = 10.0 ** rng.uniform(-2, 3, size=(n_rows, 1))
    return scales * rng.normal(size=(n_rows, n_features))


def hard_pair(features: NDArray, order: int, adjacency: str) -> tuple[int, int]:
    """Return a row to fill tables with, and one to add to them or to put in its place.

    Parameters
    ----------
    features : ndarray of shape (n, m)
        phi of the candidates, in units of the noise.
    order : int
        1 for Laplace noise, 2 for Gaussian noise.
    adjacency : {"add_remove", "replace_one"}
    """
    if adjacency == "replace_one":
        return _farthest(features, order)
    extra = int(np.argmax(np.linalg.norm(features, ord=order, axis=1)))
    return int(np.argmin(features @ features[extra])), extra


def neighbouring_tables(
    base: NDArray, other: NDArray, n_samples: int, adjacency: str
) -> tuple[NDArray, NDArray]:
    """Return `n_samples` rows like `base`, and those with `other` added or put last instead."""
    X = np.repeat(base[None], n_samples, axis=0)
    kept = X if adjacency == "add_remove" else X[:-1]
    return X, np.vstack([kept, other[None]])


def _farthest(features: NDArray, order: int) -> tuple[int, int]:
    """Walk to a pair of rows far apart: from a row to its farthest, until nothing is gained."""
    first, second, reached = 0, 0, -1.0
    while True:
        distances = np.linalg.norm(features - features[first], ord=order, axis=1)
        second = int(np.argmax(distances))
        if distances[second] <= reached + 1e-12:
            return first, second
        first, reached = second, float(distances[second])
