"""Linear systems of Newton's method: conjugate gradients, and solves that cannot fail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve

from ..._computing import advance
from ._losses import Floats

_MOST_PRODUCTS = 1000


def conjugate_gradients(
    times: Callable[[Floats], Floats],
    precondition: Callable[[Floats], tuple[Floats, float]],
    right: Floats,
    accuracy: float,
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

    Returns
    -------
    ndarray, the solution as far as rounding and 1,000 products lead
    """
    x = np.zeros_like(right)
    residual = right
    z, size = precondition(residual)
    step, product = z, float(np.vdot(residual, z))
    for _ in range(_MOST_PRODUCTS):
        if size <= accuracy or not product > 0:
            break
        image = times(step)
        advance()
        curvature = float(np.vdot(step, image))
        if not curvature > 0:
            break
        x = x + (product / curvature) * step
        residual = residual - (product / curvature) * image
        z, size = precondition(residual)
        previous, product = product, float(np.vdot(residual, z))
        step = z + (product / previous) * step
    return x


def positive_cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor of a positive definite matrix, overwritten here.

    If rounding has left it indefinite, its diagonal is raised until it is not.
    """
    diagonal = np.diag(matrix).copy()
    raised = 0.0
    while True:
        try:
            return np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raised = max(1e-14, 100 * raised)
            np.fill_diagonal(matrix, diagonal + raised * np.abs(diagonal).max())


def positive_solver(matrix: Floats) -> Callable[[Floats], Floats]:
    """Return what multiplies by the inverse of a positive definite matrix, overwritten here."""
    factor = positive_cholesky(matrix)
    return lambda right: cho_solve((factor, True), right, check_finite=False)


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
