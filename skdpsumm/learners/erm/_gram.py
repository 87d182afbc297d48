"""Gram matrices of many rows: half of the entries computed, in blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ..._computing import advance, one_blas_thread

_BLOCK_ROWS = 512


def symmetric_gram(
    kernel: Callable[[NDArray, NDArray], NDArray], X: NDArray, *, n_jobs: int = 2
) -> NDArray[np.float64]:
    """Return the kernel between all rows of X, shape (n, n), exactly symmetric.

    Parameters
    ----------
    kernel : callable
        From two blocks of rows, which are the same object on the diagonal, to their kernel
        matrix; may be called from several threads.
    X : ndarray of shape (n, d)
    n_jobs : int
        Threads. BLAS uses one inside each.
    """
    rows = list(gen_batches(len(X), _BLOCK_ROWS))
    parts = [X[here] for here in rows]
    out = np.empty((len(X), len(X)))

    def fill(pair: tuple[int, int]) -> None:
        i, j = pair
        block = np.asarray(kernel(parts[i], parts[j]), dtype=np.float64)
        out[rows[j], rows[i]] = block.T
        out[rows[i], rows[j]] = (block + block.T) / 2 if i == j else block

    pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1)]
    with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
        for _ in pool.map(fill, pairs):
            advance()
    return out
