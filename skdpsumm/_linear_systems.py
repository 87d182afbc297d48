"""Products whose rounding errors are bounded, and linear systems that are solved in any case."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import cho_solve

from ._computing import UNIT, Floats, advance

_MOST_CG_PRODUCTS = 1000
_ROWS_OF_GRAM_BLOCK = 2048


# ---- products


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
    exact, rest = coarse @ coarse_x, coarse @ (x - coarse_x)
    # What passes over a large matrix is its memory: the rest takes the place of the coarse part.
    rest += np.subtract(matrix, coarse, out=coarse) @ x
    return exact + rest


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
    return (53 - math.ceil(math.log2(n_terms))) // 2  # float64 has 53 of them


def _round(values: Floats, digits: int) -> Floats:
    """Return multiples of a power of two that have that many binary digits."""
    largest = float(max(values.max(), -values.min()))
    grid = math.ldexp(1.0, math.frexp(largest)[1] - digits)
    if not grid:
        return np.zeros(values.shape)
    out = values / grid
    np.rint(out, out=out)
    out *= grid
    return out


def weighted_gram(factor: Floats, weights: Floats) -> Floats:
    """Return sum_i weights_i G_i G_i^T, of any signs, by symmetric products: half the time."""
    out = np.zeros((factor.shape[1], factor.shape[1]))
    for sign in (1, -1):
        rows = np.flatnonzero(sign * weights > 0)
        for first in range(0, len(rows), _ROWS_OF_GRAM_BLOCK):
            some = rows[first : first + _ROWS_OF_GRAM_BLOCK]
            block = factor[some] * np.sqrt(np.abs(weights[some]))[:, None]
            out += sign * (block.T @ block)
    return out


# ---- systems


def conjugate_gradients(
    times: Callable[[Floats], Floats],
    precondition: Callable[[Floats], tuple[Floats, float]],
    right: Floats,
    accuracy: float,
    *,
    moved: Callable[[float], None] | None = None,
) -> Floats:
    """Solve ``times(x) = right`` until the size of the residual is at most `accuracy`.

    Parameters
    ----------
    times : callable
        Multiplies by a positive definite matrix.
    precondition : callable
        Returns about the inverse of that matrix times a residual, and the size of the residual.
    right : ndarray
    accuracy : float
    moved : callable, default=None
        Told how many times the last argument of `times` was added to x.

    Returns
    -------
    ndarray
        The solution as far as rounding and 1,000 products lead.
    """
    x, residual = np.zeros_like(right), right
    z, size = precondition(residual)
    step, product = z, np.vdot(residual, z)
    for _ in range(_MOST_CG_PRODUCTS):
        if not (size > accuracy and product > 0):
            break
        image = times(step)
        advance()
        curvature = np.vdot(step, image)
        # What is left of a solved system may be rounding errors alone, in any direction.
        if not curvature > 0:
            break
        length = product / curvature
        x = x + length * step
        if moved is not None:
            moved(float(length))
        residual = residual - length * image
        z, size = precondition(residual)
        previous, product = product, np.vdot(residual, z)
        step = z + product / previous * step
    return x


def positive_cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor of a positive definite matrix, overwritten here.

    If rounding has left it indefinite, its diagonal is raised until it is not.

    Parameters
    ----------
    matrix : ndarray of shape (k, k)

    Raises
    ------
    LinAlgError
        For a matrix that is not positive definite by far.
    """
    diagonal = np.diag(matrix).copy()
    raised = 0.0
    while True:
        try:
            return np.linalg.cholesky(matrix)  # type: ignore[return-value]
        except np.linalg.LinAlgError:
            if not raised < 0.1:
                raise
            raised = max(1e-14, 100 * raised)
            np.fill_diagonal(matrix, diagonal + raised * np.abs(diagonal).max())


def positive_solver(matrix: Floats) -> Callable[[Floats], Floats]:
    """Return what multiplies by the inverse of a positive definite matrix, overwritten here."""
    factor = positive_cholesky(matrix)
    return partial(cho_solve, (factor, True), check_finite=False)


def solve_curved(gram: Floats, roots: Floats, right: Floats, regularization: float) -> Floats:
    """Solve ``(Lambda I + B^T K B) z = right`` by a Cholesky factorisation.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        K.
    roots : ndarray of shape (k, q, r)
        The diagonal blocks of B.
    right : ndarray of shape (k, r)
    regularization : float
        Lambda.

    Returns
    -------
    ndarray of shape (k, r)
    """
    if right.size == 0:
        return right
    rank = roots.shape[2]
    flat = roots.transpose(0, 2, 1).reshape(right.size, -1)
    system = flat @ flat.T
    system *= gram if rank == 1 else np.repeat(np.repeat(gram, rank, axis=0), rank, axis=1)
    system[np.diag_indices(len(system))] += regularization
    return positive_solver(system)(right.ravel()).reshape(right.shape)
