"""Entries of Gram matrices, each within `KERNEL_ERROR` of the exact kernel of two rows.

The last digits of a BLAS product depend on the shape of the block, so a row more would change the
entries of all others. Here it has nothing to round: rows are first rounded to a public grid, which
is a map of each row by itself and so a part of the kernel. Then products and squared distances are
sums of integers below 2**53, exact in any order, and what is left is one exponential or power of a
single number. All that is done to a row uses operations that IEEE 754 rounds alike wherever they
are made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel

from ._careful import UNIT
from ._losses import Floats

# Relative to R^2: an exponential within 4 units in the last place (8 UNIT), whose argument's
# relative error counts 1/e, and the sum with an intercept. The argument of chi2 is a sum of terms
# that are off by 5 UNIT each, over `_COLUMNS_AT_ONCE` columns, and the others' are integers.
KERNEL_ERROR, CHI2_ERROR = 12 * UNIT, 40 * UNIT
# Rows are rounded to this part of a kernel's reach, or of the norm that they are clipped to.
_OF_REACH, _OF_NORM = 2.0**-20, 2.0**-25
# In grid units: squared norms from which on products would not be exact, and the largest entry.
_FAR, _LARGEST = 2.0**51, 2.0**490
_COLUMNS_AT_ONCE = 64


def power_below(size: float) -> float:
    """Return the largest power of two that is at most `size`: multiples of it are exact."""
    return math.ldexp(1.0, math.frexp(size)[1] - 1)


def gaussian(X: Floats, Y: Floats, gamma: float) -> Floats:
    """Return ``exp(-gamma |x - y|^2)``; from differences for rows far from the origin."""
    step = power_below(_OF_REACH / math.sqrt(gamma))
    X, Y = _in_units(X, step), _in_units(Y, step)
    squares, others = (np.einsum("ij,ij->i", A, A) for A in (X, Y))
    distances = X @ Y.T
    distances *= -2.0
    distances += squares[:, None]
    distances += others
    for rows, there, long, out in ((X, Y, squares, distances), (Y, X, others, distances.T)):
        far = long > _FAR
        if far.any():
            out[far] = cdist(rows[far], there, "sqeuclidean")
    distances *= -gamma * step * step
    return np.exp(distances, out=distances)


def laplacian(X: Floats, Y: Floats, gamma: float) -> Floats:
    """Return ``exp(-gamma |x - y|_1)``."""
    step = power_below(_OF_REACH / gamma)
    distances = cdist(_in_units(X, step), _in_units(Y, step), "cityblock")
    distances *= -gamma * step
    return np.exp(distances, out=distances)


def cosine(X: Floats, Y: Floats) -> Floats:
    """Return the inner products of the directions of rows; 0 with a row of zeros."""
    X, Y = (_shortened(_directions(A), _OF_NORM) for A in (X, Y))
    return (X @ Y.T) * _OF_NORM**2


def polynomial(
    X: Floats, Y: Floats, norm: float, *, gamma: float, coef0: float, degree: int
) -> Floats:
    """Return ``(gamma <x, y> + coef0)^degree`` for rows clipped to a norm."""
    step = power_below(_OF_NORM * norm)
    X, Y = (_shortened(clip_rows(A, norm), step) for A in (X, Y))
    matrix = X @ Y.T
    matrix *= gamma * step * step
    matrix += coef0
    matrix **= degree
    return matrix


def polynomial_error(degree: int) -> float:
    """Return the error of an entry of `polynomial`, relative to the largest: 2 UNIT in its base."""
    return KERNEL_ERROR + 2 * degree * UNIT


def chi2(X: Floats, Y: Floats, gamma: float) -> Floats:
    """Return ``exp(-gamma sum (x - y)^2 / (x + y))`` for rows that are nowhere negative.

    Sums over a few columns are added up with their rounding errors carried along (Kahan).
    """
    total, lost = np.zeros((len(X), len(Y))), np.zeros((len(X), len(Y)))
    for some in _columns(X.shape[1]):
        term = additive_chi2_kernel(X[:, some], Y[:, some]) - lost
        raised = total + term
        lost = (raised - total) - term
        total = raised
    total *= gamma
    return np.exp(total, out=total)


def _columns(n: int) -> Iterator[slice]:
    return (slice(first, first + _COLUMNS_AT_ONCE) for first in range(0, n, _COLUMNS_AT_ONCE))


def _in_units(X: Floats, step: float) -> Floats:
    """Return rows rounded to multiples of a power of two, in units of it."""
    limit = step * _LARGEST
    return np.rint(np.clip(X, -limit, limit) / step)


def _shortened(X: Floats, step: float) -> Floats:
    """Return rows rounded towards zero, which makes none longer, in units of `step`."""
    return np.trunc(X / step)


# Relative: how much longer than asked for `clip_rows` may leave a row of less than 2**32 entries.
NORM_ERROR = 40 * UNIT


def clip_rows(X: Floats, norm: float) -> Floats:
    """Return the rows of X, those that are longer than `norm` scaled down to it.

    The result for a row is the same to the last bit whatever rows are beside it. Rows 1e154 times
    longer become zeros.
    """
    unit = power_below(norm)
    scale = norm / (unit * np.maximum(_lengths(X / unit), norm / unit))
    return X if (scale == 1).all() else X * scale[:, None]


def _directions(X: Floats) -> Floats:
    """Return rows of length 1, and zeros for zeros."""
    largest = np.abs(X).max(axis=1)
    X = X / np.ldexp(1.0, np.frexp(largest)[1] - 1)[:, None]
    return X / np.where(largest > 0, _lengths(X), 1.0)[:, None]


def _lengths(X: Floats) -> Floats:
    """Return the norms of rows; the last half of the squares is added to the first, and so on."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.square(X)
        while (width := squares.shape[1]) > 1:
            half = (width + 1) // 2
            squares[:, : width - half] += squares[:, half:]
            squares = squares[:, :half]
    return np.sqrt(squares[:, 0])
