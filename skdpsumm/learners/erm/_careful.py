"""Matrix products that are off by little more than the rounding of their result."""

from __future__ import annotations

import math

import numpy as np

from ._losses import Floats

UNIT = float(np.finfo(np.float64).eps) / 2
_DIGITS = 53


def careful_product(matrix: Floats, x: Floats) -> Floats:
    """Return ``matrix @ x`` with errors within `product_error`.

    Both are split into a multiple of a power of two, few enough digits long that its products
    and their sums are exact in any order, and a rest (Ozaki et al. 2012).

    Parameters
    ----------
    matrix : ndarray of shape (k, m)
    x : ndarray of shape (m, q)

    Returns
    -------
    ndarray of shape (k, q)
    """
    digits = _digits(matrix.shape[1])
    coarse, coarse_x = _round(matrix, digits), _round(x, digits)
    rest = coarse @ (x - coarse_x) + (matrix - coarse) @ x
    return coarse @ coarse_x + rest


def product_error(n_terms: int, largest: float, largest_x: float) -> float:
    """Return a bound on the error of an entry of `careful_product`, less `UNIT` times that entry.

    Parameters
    ----------
    n_terms : int
        m.
    largest, largest_x : float
        The largest size of an entry of either factor.
    """
    units = 4 * n_terms * (n_terms + 2) * 2.0 ** -_digits(n_terms)
    return units * UNIT * largest * largest_x


def _digits(n_terms: int) -> int:
    return (_DIGITS - math.ceil(math.log2(n_terms))) // 2


def _round(values: Floats, digits: int) -> Floats:
    """Return multiples of a power of two that have that many binary digits."""
    largest = float(np.abs(values).max())
    grid = math.ldexp(1.0, math.frexp(largest)[1] - digits)
    return np.rint(values / grid) * grid if grid else np.zeros(values.shape)
