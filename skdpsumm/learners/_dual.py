"""Kernel ERM by one coefficient a row, for a kernel of which only the Gram matrix is known."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsymv

from ._certify import SUM_ERROR, UNIT, certified_minimum, check_tolerance
from ._conjugate import conjugate_gradients, positive_solver
from ._losses import Floats, Loss
from ._low_rank import cholesky_factor, low_rank_inverse
from ._newton import Point, Problem

_ALWAYS_EXACT = 1000
# Multiplications of a Cholesky factorisation in the time that reading one entry takes.
_PER_ENTRY = 10
_ROWS_AT_ONCE = 32


def solve_dual(
    gram: Floats,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    start: Floats | None = None,
) -> Floats:
    """Minimise ``sum_i loss(f_i, code_i) + Lambda / 2 ||W||^2`` for f = K A, with a certificate.

    Parameters
    ----------
    gram : ndarray of shape (n, n), float64
        K, positive semi-definite and symmetric up to rounding.
    codes : ndarray of shape (n, q), float64
    loss : Loss
        Smooth, or the hinge.
    regularization : float
        Lambda, positive.
    tolerance : float
        Largest distance ||W - W*|| in the norm of the RKHS. At least `smallest_tolerance`.
    start : ndarray of shape (n, q), default=None
        Coefficients to start from; None is zero.

    Returns
    -------
    ndarray of shape (n, q)
        A, of W = sum_i phi_i (x) A_i.
    """
    return solve_shifted(gram, codes, loss, regularization, tolerance, start=start)


def solve_shifted(gram, codes, loss, regularization, tolerance, *, start=None, shift=0.0):
    """Solve with scores f = K A + shift, for a shift of shape (n, q)."""
    gram = _Gram(gram, codes.shape[1])
    check_tolerance(tolerance, loss, regularization, math.sqrt(gram.largest), len(codes))
    first = np.zeros(codes.shape) if start is None else np.asarray(start, dtype=np.float64)

    def problem_of(smooth: Loss) -> _Dual:
        return _Dual(gram, codes, smooth, regularization, shift)

    return certified_minimum(problem_of, loss, gram.vector(first), tolerance)[0]


class _Gram:
    """Products with K, and what is known of it."""

    def __init__(self, matrix: Floats, n_scores: int):
        self.n_scores = n_scores
        self.matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        diagonal = np.diag(self.matrix)
        self.trace = float(diagonal.sum())
        self.largest = float(diagonal.max())

    def vector(self, A: Floats) -> Floats:
        """Return A and K A."""
        return np.stack([A, self.times(A)])

    def times(self, A: Floats) -> Floats:
        """Return K A, from half of the matrix, or from few of its rows where most of A is zero."""
        rows = np.flatnonzero(A.any(axis=1))
        if len(rows) > len(A) // 8:
            return np.stack([dsymv(1.0, self.matrix.T, column) for column in A.T], axis=1)
        out = np.zeros(A.shape)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            out += self.matrix[some].T @ A[some]
        return out

    def careful_times(self, A: Floats) -> Floats:
        """Return K A with errors of at most `SUM_ERROR`, relative to the sizes of the terms."""
        out = np.empty(A.shape)
        buffer = np.empty((_ROWS_AT_ONCE, len(A)))
        for first in range(0, len(A), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            block = self.matrix[rows]
            for j, column in enumerate(np.ascontiguousarray(A.T)):
                terms = np.multiply(block, column, out=buffer[: len(block)])
                out[rows, j] = terms.sum(axis=1)
        return out

    @cached_property
    def factor(self) -> tuple[Floats, float]:
        """A low-rank factor, and about the norm of what it leaves out."""
        n = len(self.matrix)
        rank = min(n, math.ceil(4 * math.sqrt(n / self.n_scores)))
        factor, left = cholesky_factor(self.matrix, rank)
        return factor, 4 * left / rank


class _Dual(Problem):
    """A vector is the pair of A and K A, so that no product with K is repeated."""

    def __init__(self, gram, codes, loss, regularization, shift):
        super().__init__(codes, loss, regularization, gram.trace)
        self.gram = gram
        self.shift = shift

    def inner(self, x, y):
        return float(np.vdot(x[0], y[1]))

    def at(self, x):
        return Point(self, x, x[1] + self.shift)

    def careful(self, point):
        A = point.x[0]
        return self.at(np.stack([A, self.gram.careful_times(A)]))

    def gradient(self, point):
        slopes = self.loss.gradient(point.scores, self.codes)
        return self.gram.vector(slopes + self.regularization * point.x[0])

    def rounding(self, point):
        coefficients, residuals = (
            float(np.linalg.norm(rows, axis=1).sum()) for rows in (point.x[0], point.gradient[0])
        )
        product = math.sqrt(2 * self.n_rows * UNIT * self.gram.largest)
        return SUM_ERROR * self.gram.largest * coefficients, product * residuals

    def direction(self, point: Point, accuracy: float) -> Floats:
        """Solve for the multipliers z of the roots B of the Hessian of the loss.

        With a residual V = loss' + Lambda A, Newton's direction is -V / Lambda + B z where
        (Lambda I + B^T K B) z = B^T K V / Lambda.
        """
        roots = self.loss.hessian_root(point.scores, self.codes)
        right = np.einsum("nqr,nq->nr", roots, point.gradient[1]) / self.regularization
        z = np.zeros(right.shape)
        curved = np.flatnonzero(roots.any(axis=(1, 2)))
        if self._exact_is_faster(len(curved) * roots.shape[2]):
            z[curved] = self._exact(roots[curved], curved, right[curved])
        elif len(curved):
            z = self._by_products(roots, right, accuracy * point.norm)
        lifted = np.einsum("nqr,nr->nq", roots, z)
        return self.gram.vector(lifted) - point.gradient / self.regularization

    def _exact_is_faster(self, size: int) -> bool:
        if size <= _ALWAYS_EXACT:
            return True
        condition = 1 + self.loss.smoothness * self.gram.factor[1] / self.regularization
        entries = 2 * math.sqrt(condition) * self.n_rows**2
        return size**3 / 3 <= _PER_ENTRY * entries

    def _exact(self, roots: Floats, rows: Floats, right: Floats) -> Floats:
        n, q, rank = roots.shape
        flat = roots.transpose(0, 2, 1).reshape(n * rank, q)
        owner = np.repeat(rows, rank)
        system = self.gram.matrix[np.ix_(owner, owner)]
        system *= flat @ flat.T
        system[np.diag_indices(len(owner))] += self.regularization
        return positive_solver(system)(right.ravel()).reshape(n, rank)

    def _by_products(self, roots: Floats, right: Floats, accuracy: float) -> Floats:
        def times(z: Floats) -> Floats:
            lifted = np.einsum("nqr,nr->nq", roots, z)
            image = np.einsum("nqr,nq->nr", roots, self.gram.times(lifted))
            return self.regularization * z + image

        factor, tail = self.gram.factor
        precondition = low_rank_inverse(factor, roots, self.regularization, tail)
        return conjugate_gradients(times, precondition, right, accuracy)
