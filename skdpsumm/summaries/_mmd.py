"""Maximum mean discrepancy with the Gaussian kernel, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import gen_batches

from ..schema._reading import Schema, validate_table

# Entries of the kernel matrix that are held at a time.
_BLOCK = 2**22
# Rows are clipped to this, so that no distance overflows, not in float32 either.
_LARGEST = 1e15


def mmd2(X: ArrayLike, Y: ArrayLike, *, gamma: float = 1.0, unbiased: bool = False) -> float:
    """Return the squared maximum mean discrepancy between two samples.

    ``MMD^2 = mean k(x, x') - 2 mean k(x, y) + mean k(y, y')`` with
    ``k(x, y) = exp(-gamma |x - y|^2)``: zero if and only if both samples are equal as multisets up
    to repetition. Not private: the value is exact.

    Parameters
    ----------
    X : array-like of shape (n, d)
    Y : array-like of shape (m, d)
    gamma : float, default=1.0
        Kernel parameter, per squared unit of the columns.
    unbiased : bool, default=False
        Leave the pairs (x, x) and (y, y) out, which makes it an unbiased estimate for the
        distributions behind the samples; it can then be negative, and needs two rows of each. The
        default is the distance between the samples themselves, which selection minimises.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the samples have different columns, or fewer than two rows with ``unbiased=True``.

    Notes
    -----
    Source: Gretton, Borgwardt, Rasch, Schoelkopf and Smola (2012), equations 3 and 5; equation 1
    of the data summarization paper. Time n m + n^2 + m^2, memory of one block.

    Examples
    --------
    >>> from skdpsumm.summaries import mmd2
    >>> mmd2([[0.0], [1.0]], [[0.0], [1.0]])
    0.0
    >>> round(mmd2([[0.0]], [[1.0]]), 4)
    1.2642
    """
    X, Y = (validate_table(Schema(), table).astype(np.float64) for table in (X, Y))
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns and Y has {Y.shape[1]}; give both the same.")
    check_gamma(gamma)
    n, m = len(X), len(Y)
    within = [_total(*centred(A, A), gamma, same=True) for A in (X, Y)]
    across = _total(*centred(X, Y), gamma) / (n * m)
    if not unbiased:
        return max(0.0, within[0] / n**2 + within[1] / m**2 - 2 * across)
    if min(n, m) < 2:
        raise ValueError(f"unbiased=True needs two rows of each, got {n} and {m}.")
    means = [(total - k) / (k * (k - 1)) for total, k in zip(within, (n, m), strict=True)]
    return means[0] + means[1] - 2 * across


def centred(X: NDArray, Y: NDArray) -> tuple[NDArray, NDArray]:
    """Return both tables with the median of Y at the origin, near which distances are exact.

    Entries are clipped first: a single huge one would overflow, and spoil other rows' distances.
    Both are in the dtype of X.
    """
    X, Y = (np.clip(table, -_LARGEST, _LARGEST).astype(X.dtype) for table in (X, Y))
    origin = np.median(Y, axis=0).astype(Y.dtype)
    return X - origin, Y - origin


def check_gamma(gamma: float) -> None:
    """Raise ValueError unless `gamma` is positive and finite."""
    if not 0 < gamma < np.inf:
        raise ValueError(f"gamma must be above 0 and finite, got {gamma!r}.")


def mean_kernel(X: NDArray, Y: NDArray, gamma: float) -> NDArray[np.float64]:
    """Return ``mean_y k(x, y)`` for each row x of X, shape (n,)."""
    return np.concatenate([block.mean(axis=1, dtype=np.float64) for block in _blocks(X, Y, gamma)])


def kernel_matrix(X: NDArray, Y: NDArray, gamma: float) -> NDArray:
    """Return ``k(x, y)`` for all pairs, shape (n, m)."""
    return np.concatenate(list(_blocks(X, Y, gamma)))


def kernel_column(X: NDArray, squares: NDArray, i: int, gamma: float) -> NDArray:
    """Return ``k(x, x_i)`` for each row of X, given the squared norms of its rows."""
    distances = X @ X[i]
    distances *= -2
    distances += squares
    distances += squares[i]
    column = _gaussian(distances, gamma)
    column[i] = 1  # which rounding may have missed, far from the origin
    return column


def _total(X: NDArray, Y: NDArray, gamma: float, *, same: bool = False) -> float:
    total, start = 0.0, 0
    for block in _blocks(X, Y, gamma):
        if same:
            np.einsum("ii->i", block[:, start : start + len(block)])[:] = 1
        total += float(block.sum(dtype=np.float64))
        start += len(block)
    return total


def _blocks(X: NDArray, Y: NDArray, gamma: float) -> Iterator[NDArray]:
    squares = np.einsum("ij,ij->i", Y, Y)
    for rows in gen_batches(len(X), max(1, _BLOCK // len(Y))):
        distances = X[rows] @ Y.T
        distances *= -2
        distances += np.einsum("ij,ij->i", X[rows], X[rows])[:, None]
        distances += squares
        yield _gaussian(distances, gamma)


def _gaussian(distances: NDArray, gamma: float) -> NDArray:
    """Return ``exp(-gamma distances)``, computed in place."""
    np.maximum(distances, 0, out=distances)
    distances *= -gamma
    return np.exp(distances, out=distances)
