"""A low-rank factor of a Gram matrix, and the preconditioner that it makes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from ..._computing import advance
from ._linear_systems import positive_cholesky, positive_solver
from ._losses import Floats

_PIVOTS_AT_ONCE = 50
_ROWS_AT_ONCE = 2048
# Rounding errors of a residual stay well below this part of the largest diagonal entry.
_JITTER = 1e-10


def cholesky_factor(gram: Floats, rank: int) -> tuple[Floats, float]:
    """Return G of shape (n, at most rank) with gram ~ G G^T, and the trace of what remains.

    Randomly pivoted Cholesky (Chen et al. 2022), blocks of pivots at once, drawn in proportion to
    the diagonal that remains. Rows drawn uniformly miss small clusters.
    """
    n = len(gram)
    rng = np.random.RandomState(0)
    left = np.diag(gram).copy()
    smallest = _JITTER * left.max()
    factor = np.empty((rank, n))
    done = 0
    while done < rank and left.max() > 100 * smallest:
        size = min(_PIVOTS_AT_ONCE, rank - done)
        pivots = np.unique(rng.choice(n, size, p=left / left.sum()))
        rows = gram[pivots] - factor[:done, pivots].T @ factor[:done]
        corner = rows[:, pivots] + smallest * np.eye(len(pivots))
        new = slice(done, done + len(pivots))
        factor[new] = solve_triangular(positive_cholesky(corner), rows, lower=True)
        left = np.maximum(left - np.einsum("kn,kn->n", factor[new], factor[new]), 0.0)
        left[pivots] = 0.0
        done = new.stop
        advance()
    return np.ascontiguousarray(factor[:done].T), float(left.sum())


def low_rank_inverse(
    factor: Floats, roots: Floats, regularization: float, tail: float
) -> Callable[[Floats], tuple[Floats, float]]:
    """Return what multiplies by (Lambda I + B^T G G^T B)^-1, and measures its argument.

    Parameters
    ----------
    factor : ndarray of shape (n, m)
        G.
    roots : ndarray of shape (n, q, r)
        The diagonal blocks of B.
    regularization : float
        Lambda.
    tail : float
        About the norm of K - G G^T.

    Returns
    -------
    callable
        From z of shape (n, r) to the product, of that shape, and to about the norm of B z in K.
    """
    q, m = roots.shape[1], factor.shape[1]
    inner = np.empty((q, m, q, m))
    for a in range(q):
        for b in range(a + 1):
            weights = np.einsum("nr,nr->n", roots[:, a], roots[:, b])
            inner[a, :, b] = weighted_gram(factor, weights)
            inner[b, :, a] = inner[a, :, b]
    inner = inner.reshape(q * m, q * m)
    inner[np.diag_indices(q * m)] += regularization
    solve = positive_solver(inner)

    def apply(z: Floats) -> tuple[Floats, float]:
        lifted = np.einsum("nqr,nr->nq", roots, z)
        coarse = factor.T @ lifted
        size = np.sqrt(np.vdot(coarse, coarse) + tail * np.vdot(lifted, lifted))
        solved = solve(coarse.T.ravel()).reshape(q, m).T
        return (z - np.einsum("nqr,nq->nr", roots, factor @ solved)) / regularization, size

    return apply


def weighted_gram(factor: Floats, weights: Floats) -> Floats:
    """Return sum_i weights_i G_i G_i^T, of any signs, by symmetric products: half the time."""
    out = np.zeros((factor.shape[1], factor.shape[1]))
    for sign in (1, -1):
        rows = np.flatnonzero(sign * weights > 0)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            block = factor[some] * np.sqrt(np.abs(weights[some]))[:, None]
            out += sign * (block.T @ block)
    return out
