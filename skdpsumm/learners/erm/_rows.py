"""Rows of explicit features, kept as far as they fit and computed again where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config, set_config

from ..._computing import advance
from ._losses import Floats

# Blocks stay in the cache, and sums over one keep small rounding errors.
_BLOCK_BYTES, _BLOCK_ROWS = 2**23, 4096


def rows_of_block(n_features: int) -> int:
    """Return the most rows of a block."""
    return max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // (8 * n_features)))


class FeatureRows:
    """Features of rows, of norm at most `radius`.

    As many are kept as fit into the `working_memory` of scikit-learn's configuration.

    Parameters
    ----------
    transform : callable
        From a block of rows of X to an array of shape (rows, p); always the same for a row, and
        within the radius. May be called from another thread, but never from two at once.
    X : array-like of shape (n, d)
        Has a shape, and slices.
    radius : float
        The public bound on the norm of a row's features.

    Attributes
    ----------
    n_rows, n_features : int
    block_rows : int
        The most rows of a block.
    """

    def __init__(self, transform: Callable[[NDArray], NDArray], X: NDArray, *, radius: float):
        self.transform = transform
        self.X = X
        self.radius = radius
        self.n_rows = X.shape[0]
        self.n_features = self._features(slice(0, 1)).shape[1]
        row_bytes = 8 * self.n_features
        self.block_rows = rows_of_block(self.n_features)
        n_kept = int(get_config()["working_memory"] * 2**20 / (row_bytes * self.block_rows))
        self._kept: list[Floats] = []
        self._kept = [block for _, block in islice(self.blocks(), n_kept)]

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of the rows, in order, and their features, computed one block ahead."""
        firsts = range(0, self.n_rows, self.block_rows)
        slices = [slice(k, min(k + self.block_rows, self.n_rows)) for k in firsts]
        for kept in zip(slices, self._kept, strict=False):
            advance()
            yield kept
        missing = slices[len(self._kept) :]
        if not missing:
            return
        # What the user has set of scikit-learn holds in this thread alone.
        with ThreadPoolExecutor(1, initializer=partial(set_config, **get_config())) as pool:
            ahead = pool.submit(self._features, missing[0])
            for here, following in zip(missing, [*missing[1:], None], strict=True):
                block = ahead.result()
                if following is not None:
                    ahead = pool.submit(self._features, following)
                advance()
                yield here, block

    def _features(self, here: slice) -> Floats:
        return np.asarray(self.transform(self.X[here]), dtype=np.float64)
