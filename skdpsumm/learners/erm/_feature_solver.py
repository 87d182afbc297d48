"""Kernel ERM by one weight a feature, for an explicit feature map."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ._accelerated import LARGEST_NORM, plus, smallest_distance
from ._careful import UNIT, careful_product, product_error
from ._certificate import argument_error, certified_minimum, check_tolerance, largest_norm
from ._hinge import FIRST_WIDTH
from ._kernel_solver import solve_shifted
from ._linear_systems import conjugate_gradients, positive_solver, solve_curved
from ._losses import Floats, HuberizedHinge, Loss
from ._low_rank import weighted_gram
from ._newton import Point, Problem, minimise

# Rows of the problem that the first weights come from, in units of the number of weights, and
# the part of its gradient at zero that is left there.
_HEAD_ROWS, _HEAD_ACCURACY = 40, 1e-4
# The curvature of a row is used again where it has changed by less than this part of it.
_STALE = 0.1
# Errors of slopes and of their careful sum, relative to L.
_GRADIENT_UNITS = 24


class Rows(Protocol):
    """Features of all rows, of norm at most `radius`, a block at a time; see `FeatureRows`."""

    n_rows: int
    n_features: int
    radius: float
    block_rows: int

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of the rows, in order, and their features."""


def solve_primal(
    rows: Rows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    linear: Floats | None = None,
) -> Floats:
    """Minimise ``sum_i loss(W^T phi_i, code_i) + Lambda / 2 ||W||^2 + <linear, W>``, certified.

    Parameters
    ----------
    rows : FeatureRows
    codes : ndarray of shape (n, q), float64
        Those of `Huber` are from -1 to 1.
    loss : Loss
    regularization : float
        Lambda, positive.
    tolerance : float
        Largest distance ||W - W*|| in the Frobenius norm, positive.
    linear : ndarray of shape (p, q), default=None
        None is zero.

    Returns
    -------
    ndarray of shape (p, q)
    """
    linear = np.zeros((rows.n_features, codes.shape[1])) if linear is None else linear
    tilt = float(np.linalg.norm(linear))
    smallest = smallest_tolerance(rows, codes.shape[1], loss, regularization, tilt)
    check_tolerance(tolerance, smallest)
    settings = (rows, codes, loss, regularization, linear)
    if rows.n_features > rows.n_rows:
        start = _through_dual(*settings, tolerance)
    else:
        start = _head_minimum(*settings)

    def problem_of(smooth: Loss) -> _Primal:
        return _Primal(rows, codes, smooth, regularization, linear)

    return certified_minimum(problem_of, loss, start, tolerance).x


def smallest_tolerance(
    rows: Rows, n_scores: int, loss: Loss, regularization: float, tilt: float
) -> float:
    """Return what is sure to be certified for rows of such numbers and norms.

    Parameters
    ----------
    rows : FeatureRows, or what has its numbers
    n_scores : int
        q.
    loss : Loss
    regularization : float
    tilt : float
        The norm of `linear`.
    """
    n, radius, slopes = rows.n_rows, rows.radius, rows.n_rows * rows.radius * loss.lipschitz
    norm = LARGEST_NORM * largest_norm(loss, regularization, radius, (n, n_scores), tilt)
    score_error = _score_error(rows, n_scores, radius * norm, norm)
    score_error += argument_error(loss, radius * norm)
    # Sums over the rows of a block, in blocks, and of blocks to the last bit.
    entry = product_error(rows.block_rows, radius, loss.lipschitz)
    entries = math.sqrt(rows.n_features * n_scores) * math.ceil(n / rows.block_rows)
    rest = regularization * norm + tilt
    gradient_error = entries * entry + UNIT * (_GRADIENT_UNITS * slopes + 4 * rest)
    return smallest_distance(loss, regularization, n * radius**2, n, score_error, gradient_error)


def _score_error(rows: Rows, n_scores: int, score: float, weight: float) -> float:
    """Return a bound on the error of a row of careful scores, given their norm and that of W.

    For norms of p numbers each, in place of the largest, `product_error` is sqrt(p) too large.
    """
    entry = product_error(rows.n_features, rows.radius, weight) / math.sqrt(rows.n_features)
    return UNIT * score + math.sqrt(n_scores) * entry


def _norm_error(rows: Rows, slopes: float, rest: float) -> float:
    """Return a bound on the error of a gradient: of the sums over the rows of blocks, and the rest.

    Sums of blocks keep what they lose.
    """
    return UNIT * ((rows.block_rows + 4) * slopes + 4 * rest)


def _through_dual(rows, codes, loss, regularization, linear, tolerance):
    """Return the minimum by its coefficients of rows, of which there are fewer."""
    gram = np.empty((rows.n_rows, rows.n_rows))
    shift = np.empty(codes.shape)
    for here, block in rows.blocks():
        shift[here] = -(block @ linear) / regularization
        for there, other in rows.blocks():
            if there.start > here.start:
                break
            gram[here, there] = block @ other.T
            gram[there, here] = gram[here, there].T
    A = solve_shifted(gram, codes, loss, regularization, tolerance / 2, shift=shift)
    W = -linear / regularization
    for here, block in rows.blocks():
        W += block.T @ A[here]
    return W


def _head_minimum(rows, codes, loss, regularization, linear):
    """Return about the minimum for the first rows, which is near that for all: it saves passes."""
    start = np.zeros(linear.shape)
    n = min(_HEAD_ROWS * linear.size, rows.n_rows // 4)
    if n < linear.size:
        return start
    head = _Head(rows, n)
    narrow = isinstance(loss, HuberizedHinge) and loss.h < FIRST_WIDTH
    smooth = HuberizedHinge(FIRST_WIDTH) if narrow else loss
    share = n / rows.n_rows
    problem = _Primal(head, codes[:n], smooth, share * regularization, share * linear)
    # Rows that cancel leave a gradient of rounding errors alone, which no step makes smaller.
    size = max(problem.at(start).norm, _HEAD_ACCURACY * smooth.lipschitz * problem.norms)
    goal = _HEAD_ACCURACY * size
    return minimise(problem, start, lambda point: point.norm <= goal).x


class _Head:
    """The first rows of others, kept."""

    def __init__(self, rows: Rows, n: int):
        self.n_rows, self.n_features = n, rows.n_features
        self.radius, self.block_rows = rows.radius, rows.block_rows
        self._kept = []
        for here, block in rows.blocks():
            if here.start >= n:
                break
            here = slice(here.start, min(here.stop, n))
            self._kept.append((here, block[: here.stop - here.start]))

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        return iter(self._kept)


class _Primal(Problem):
    """A vector is the weights W. Every `at` is a pass over the rows.

    That pass also brings the Hessian, averaged over the q scores, up to date: near the minimum few
    rows change their curvature.
    """

    def __init__(self, rows, codes, loss, regularization, linear):
        squares = rows.n_rows * rows.radius**2
        super().__init__(codes, loss, regularization, rows.radius, squares)
        self.rows = rows
        self.linear = linear
        self._hessian = regularization * np.eye(rows.n_features)
        self._curvatures = np.zeros(rows.n_rows)

    def inner(self, x, y):
        return float(np.vdot(x, y))

    def at(self, x):
        return self._pass(x, np.matmul, self._curve)

    def careful(self, point):
        return self._pass(point.x, careful_product)

    @property
    def largest_norm(self):
        tilt = float(np.linalg.norm(self.linear))
        shape = self.codes.shape
        return largest_norm(self.loss, self.regularization, self.radius, shape, tilt)

    def zero(self):
        return np.zeros(self.linear.shape)

    def vector(self, coefficients):
        return coefficients

    def careful_gradient(self, high, low):
        total = self.linear, self.regularization * high
        for here, block in self.rows.blocks():
            scores = careful_product(block, high) + block @ low
            slopes = self.loss.gradient(scores, self.codes[here])
            total = plus(total, careful_product(block.T, slopes))
        return total[0]

    def _pass(self, x, product, *visitors):
        scores = np.empty(self.codes.shape)
        total = self.linear, self.regularization * x
        for here, block in self.rows.blocks():
            scores[here] = product(block, x)
            total = plus(total, block.T @ self.loss.gradient(scores[here], self.codes[here]))
            for visit in visitors:
                visit(here, block, scores[here])
        point = Point(self, x, scores)
        point.gradient = total[0]
        return point

    def _curve(self, here: slice, block: Floats, scores: Floats) -> None:
        """Bring the curvatures of rows up to date."""
        roots = self.loss.hessian_root(scores, self.codes[here])
        new = np.einsum("nqr,nqr->n", roots, roots) / roots.shape[1]
        old = self._curvatures[here]
        stale = np.flatnonzero(np.abs(new - old) > _STALE * np.minimum(new, old))
        self._hessian += weighted_gram(block[stale], new[stale] - old[stale])
        old[stale] = new[stale]

    def gradient(self, point):
        return self.at(point.x).gradient

    def rounding(self, point):
        largest = float(np.linalg.norm(point.scores, axis=1).max())
        weight = float(np.linalg.norm(point.x))
        score_error = _score_error(self.rows, point.x.shape[1], largest, weight)
        score_error += argument_error(self.loss, largest)
        rest = self.regularization * np.linalg.norm(point.x) + np.linalg.norm(self.linear)
        return score_error, _norm_error(self.rows, self.loss.lipschitz * self.norms, rest)

    def direction(self, point: Point, accuracy: float) -> Floats:
        roots = self.loss.hessian_root(point.scores, self.codes)
        curved = np.flatnonzero(roots.any(axis=(1, 2)))
        if len(curved) * roots.shape[2] <= self.rows.n_features:
            return self._by_curved_rows(roots, curved, point.gradient)
        inverse = positive_solver(self._hessian.copy())
        if roots.shape[1] == 1:
            return -inverse(point.gradient)
        return self._by_products(roots, -point.gradient, accuracy * point.norm, inverse)

    def _by_curved_rows(self, roots: Floats, curved: NDArray, gradient: Floats) -> Floats:
        """Return Newton's direction by multipliers of the few rows whose loss is curved.

        It is -gradient / Lambda + Phi^T B z, as in `_dual`.
        """
        features = np.empty((len(curved), self.rows.n_features))
        for here, block in self.rows.blocks():
            first, last = np.searchsorted(curved, (here.start, here.stop))
            features[first:last] = block[curved[first:last] - here.start]
        roots = roots[curved]
        right = np.einsum("kqr,kq->kr", roots, features @ gradient) / self.regularization
        z = solve_curved(features @ features.T, roots, right, self.regularization)
        return features.T @ np.einsum("kqr,kr->kq", roots, z) - gradient / self.regularization

    def _by_products(self, roots: Floats, right: Floats, accuracy: float, inverse) -> Floats:
        def times(W: Floats) -> Floats:
            out = self.regularization * W
            for here, block in self.rows.blocks():
                inner = np.einsum("nqr,nq->nr", roots[here], block @ W)
                out += block.T @ np.einsum("nqr,nr->nq", roots[here], inner)
            return out

        def precondition(W: Floats) -> tuple[Floats, float]:
            return inverse(W), float(np.linalg.norm(W))

        return conjugate_gradients(times, precondition, right, accuracy)
