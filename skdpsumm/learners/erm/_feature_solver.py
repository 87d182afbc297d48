"""The minimum over weights of explicit features: rows in blocks, and Newton's method on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn import get_config, set_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import gen_batches

from ..._computing import UNIT, Floats, advance, warn_caller
from ..._linear_systems import (
    careful_product,
    conjugate_gradients,
    positive_solver,
    product_error,
    solve_curved,
    weighted_gram,
)
from ...schema._reading import SparseRows
from ._kernel_solver import solve_shifted
from ._losses import Loss
from ._newton import (
    LARGEST_NORM,
    Objective,
    Point,
    argument_error,
    certified_minimum,
    check_tolerance,
    largest_norm,
    minimise,
    plus,
    smallest_distance,
)

# Rows of the problem that the first weights come from, in units of the number of weights, and
# the part of its gradient at zero that is left there.
_HEAD_ROWS, _HEAD_ACCURACY = 40, 1e-4
# Steps of L-BFGS at most, and the pairs of vectors by which it knows the curvature.
_MOST_STEPS, _PAIRS_KEPT = 2000, 20


def rows_of_block(n_features: int) -> int:
    """Return the most rows of a block."""
    # Blocks of 8 MiB stay in the cache, and sums over one keep small rounding errors.
    return max(1, min(4096, 2**23 // (8 * n_features)))


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
    is_kept : bool, default=True
        Whether blocks may be kept.

    Attributes
    ----------
    n_rows, n_features : int
    block_rows : int
        The most rows of a block.
    """

    def __init__(
        self, transform: Callable[[Any], NDArray], X: Any, *, radius: float, is_kept: bool = True
    ):
        self.transform = transform
        self.X = X
        self.radius = radius
        self.n_rows = X.shape[0]
        self.n_features = self._features(slice(0, 1)).shape[1]
        row_bytes = 8 * self.n_features
        self.block_rows = rows_of_block(self.n_features)
        room = get_config()["working_memory"] * 2**20 if is_kept else 0
        n_kept = int(room / (row_bytes * self.block_rows))
        self._kept: list[Floats] = []
        self._kept = [block for _, block in islice(self.blocks(), n_kept)]

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of the rows, in order, and their features, computed one block ahead."""
        slices = [*gen_batches(self.n_rows, self.block_rows)]
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

    def head(self, n: int) -> FeatureRows:
        """Return the first n rows, kept."""
        first = copy(self)
        blocks = islice(self.blocks(), math.ceil(n / self.block_rows))
        first._kept = [block[: n - here.start] for here, block in blocks]
        first.n_rows = n
        return first

    def _features(self, here: slice) -> Floats:
        return np.asarray(self.transform(self.X[here]), dtype=np.float64)


# ---- solver


class NumbersOfRows(NamedTuple):
    """What `smallest_tolerance` asks of rows."""

    n_rows: int
    n_features: int
    radius: float
    block_rows: int


def solve_primal(
    rows: FeatureRows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    linear: Floats | None = None,
    shares: Floats | None = None,
) -> Floats:
    """Minimise ``sum_i c_i loss(W^T phi_i, code_i) + Lambda/2 ||W||^2 + <linear, W>``, certified.

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
    shares : ndarray of shape (n, 1), default=None
        c: ones, and numbers up to 1/2 (`_newton`). None is ones.

    Returns
    -------
    ndarray of shape (p, q)
    """
    linear = np.zeros((rows.n_features, codes.shape[1])) if linear is None else linear
    tilt = float(np.linalg.norm(linear))
    smallest = smallest_tolerance(rows, codes.shape[1], loss, regularization, tilt)
    check_tolerance(tolerance, smallest)
    settings = (rows, codes, loss, regularization, linear, shares)
    if rows.n_features > rows.n_rows:
        start = _through_dual(*settings, tolerance)
    else:
        start = _head_minimum(*settings)

    def objective_of(smooth: Loss) -> _Primal:
        return _Primal(rows, codes, smooth, regularization, linear, shares)

    return certified_minimum(objective_of, loss, start, tolerance).x


def smallest_tolerance(
    rows: FeatureRows | NumbersOfRows, n_scores: int, loss: Loss, regularization: float, tilt: float
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
    # Slopes and their careful sum err by up to 24 units, relative to L.
    gradient_error = entries * entry + UNIT * (24 * slopes + 4 * rest)
    return smallest_distance(loss, regularization, n * radius**2, n, score_error, gradient_error)


def _score_error(
    rows: FeatureRows | NumbersOfRows, n_scores: int, score: float, weight: float
) -> float:
    """Return a bound on the error of a row of careful scores, given their norm and that of W.

    For norms of p numbers each, in place of the largest, `product_error` is sqrt(p) too large.
    """
    entry = product_error(rows.n_features, rows.radius, weight) / math.sqrt(rows.n_features)
    return UNIT * score + math.sqrt(n_scores) * entry


def _through_dual(rows, codes, loss, regularization, linear, shares, tolerance):
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
    more = {"shift": shift, "shares": shares}
    A = solve_shifted(gram, codes, loss, regularization, tolerance / 2, **more)
    W = -linear / regularization
    for here, block in rows.blocks():
        W += block.T @ A[here]
    return W


def _head_minimum(rows, codes, loss, regularization, linear, shares):
    """Return about the minimum for the first rows, which is near that for all: it saves passes."""
    start = np.zeros(linear.shape)
    n = min(_HEAD_ROWS * linear.size, rows.n_rows // 4)
    if n < linear.size:
        return start
    smooth = next((wide for wide, *_ in loss.narrowing()), loss)
    part = n / rows.n_rows
    less = part * regularization, part * linear, None if shares is None else shares[:n]
    objective = _Primal(rows.head(n), codes[:n], smooth, *less)
    # Rows that cancel leave a gradient of rounding errors alone, which no step makes smaller.
    size = max(objective.at(start).norm, _HEAD_ACCURACY * smooth.lipschitz * objective.norms)
    goal = _HEAD_ACCURACY * size
    return minimise(objective, start, lambda point: point.norm <= goal).x


class _Primal(Objective):
    """A vector is the weights W. Every `at` is a pass over the rows.

    That pass also brings the Hessian, averaged over the q scores, up to date: near the minimum few
    rows change their curvature.
    """

    def __init__(self, rows, codes, loss, regularization, linear, shares=None):
        squares, tilt = rows.n_rows * rows.radius**2, float(np.linalg.norm(linear))
        super().__init__(codes, loss, regularization, rows.radius, squares, tilt, shares)
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

    def zero(self):
        return np.zeros(self.linear.shape)

    def vector(self, coefficients):
        return coefficients

    def careful_gradient(self, high, low):
        total = self.linear, self.regularization * high
        for here, block in self.rows.blocks():
            scores = careful_product(block, high) + block @ low
            total = plus(total, careful_product(block.T, self.slopes(scores, here)))
        return total[0]

    def _pass(self, x, product, *visitors):
        scores = np.empty(self.codes.shape)
        total = self.linear, self.regularization * x
        for here, block in self.rows.blocks():
            scores[here] = product(block, x)
            total = plus(total, block.T @ self.slopes(scores[here], here))
            for visit in visitors:
                visit(here, block, scores[here])
        point = Point(self, x, scores)
        point.gradient = total[0]
        return point

    def _curve(self, here: slice, block: Floats, scores: Floats) -> None:
        """Bring the curvatures of rows up to date."""
        roots = self.roots(scores, here)
        new = np.einsum("nqr,nqr->n", roots, roots) / roots.shape[1]
        old = self._curvatures[here]
        # The curvature of a row is used again where it has changed by less than a tenth.
        stale = np.flatnonzero(np.abs(new - old) > 0.1 * np.minimum(new, old))
        self._hessian += weighted_gram(block[stale], new[stale] - old[stale])
        old[stale] = new[stale]

    def gradient(self, point):
        return self.at(point.x).gradient

    def rounding(self, point):
        largest = float(np.linalg.norm(point.scores, axis=1).max())
        weight = float(np.linalg.norm(point.x))
        score_error = _score_error(self.rows, point.x.shape[1], largest, weight)
        score_error += argument_error(self.loss, largest)
        rest = self.regularization * weight + self.tilt
        # The errors of a gradient: of the sums over the rows of blocks, and of the rest. Sums of
        # blocks keep what they lose.
        slopes = (self.rows.block_rows + 4) * self.loss.lipschitz * self.norms
        return score_error, UNIT * (slopes + 4 * rest)

    def direction(self, point: Point, accuracy: float) -> Floats:
        roots = self.roots(point.scores)
        curved = np.flatnonzero(roots.any(axis=(1, 2)))
        if len(curved) * roots.shape[2] <= self.rows.n_features:
            return self._by_curved_rows(roots, curved, point.gradient)
        inverse = positive_solver(self._hessian.copy())
        if roots.shape[1] == 1:
            return -inverse(point.gradient)
        return self._by_products(roots, -point.gradient, accuracy * point.norm, inverse)

    def _by_curved_rows(self, roots: Floats, curved: NDArray, gradient: Floats) -> Floats:
        """Return Newton's direction by multipliers of the few rows whose loss is curved.

        It is -gradient / Lambda + Phi^T B z, as in `_through_dual`.
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


# ---- sparse rows of so many columns that no matrix of them has room


def minimise_sparse(
    rows: SparseRows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    shares: Floats | None = None,
) -> Floats:
    """Return about the minimum of ``sum_i c_i loss(W^T phi_i, code_i) + Lambda/2 ||W||^2``.

    Parameters
    ----------
    rows : SparseRows of shape (n, p)
        phi.
    codes : ndarray of shape (n, q)
    loss : Loss
    regularization : float
        Lambda.
    tolerance : float
        The distance from the minimum that is aimed at: the norm of the gradient, over Lambda.
    shares : ndarray of shape (n, 1), default=None
        c, of each row. None stands for ones.

    Returns
    -------
    ndarray of shape (p, q)
    """
    columns, shape = rows.T.tocsr(), (rows.shape[1], codes.shape[1])
    weights = np.ones((len(rows), 1)) if shares is None else shares

    def objective(flat: Floats) -> tuple[float, Floats]:
        W = flat.reshape(shape)
        scores = rows @ W
        value = weights[:, 0] @ loss.value(scores, codes) + regularization / 2 * (flat @ flat)
        gradient = columns @ (weights * loss.gradient(scores, codes)) + regularization * W
        advance()
        return float(value), gradient.ravel()

    largest = regularization * tolerance / np.sqrt(np.prod(shape))
    options = {"maxiter": _MOST_STEPS, "maxcor": _PAIRS_KEPT, "ftol": 0.0, "gtol": largest}
    start = np.zeros(np.prod(shape))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if found.nit >= _MOST_STEPS:
        warn_caller(
            f"Raise regularization, or take a smooth loss: the minimiser was not reached within "
            f"{_MOST_STEPS:,} steps.",
            ConvergenceWarning,
        )
    return found.x.reshape(shape)
