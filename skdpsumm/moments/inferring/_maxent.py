"""Synthetic points and non-negative weights whose feature means match a private sketch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from ..._computing import advance
from ...schema._columns import Columns, stack_columns
from ...sketches import PrivateSketch
from ._blocks import FeatureBlocks

# Variance, relative to that of a feature, that the moments may miss their target by in each
# round; the last is that of about 1,000 points, and is what finite points can resolve.
TEMPERATURES = (0.1, 0.02, 0.004, 0.001)
_POINTS_PER_ROUND = 20_000
_FRESH = 0.05
_KEPT = 0.5
_POINTS_PER_HESSIAN = 10_000
# With more features than this, its diagonal stands for the Hessian.
_LARGEST_HESSIAN = 2_000
_STEPS_PER_METRIC = 8
_STEPS_WITH_DIAGONAL = 400  # which stays as good as it was
_MOST_METRICS = 50


def maxent_weights(
    features: FeatureBlocks, target: NDArray, slack: NDArray, *, tol: float = 0.03
) -> NDArray[np.float64]:
    """Return the probabilities closest to uniform whose feature means are near `target`.

    Minimises ``KL(w | uniform) + 1/2 sum_j (E_w phi_j - target_j)^2 / slack_j``. The solution is
    ``w_i ~ exp(theta . phi_i)`` with theta the minimum of the convex dual
    ``log mean exp(theta . (phi_i - target)) + 1/2 sum_j slack_j theta_j^2``, found by
    L-BFGS in a metric that is renewed every few steps.

    Parameters
    ----------
    features : FeatureBlocks of n points
    target : ndarray of shape (m,)
    slack : ndarray of shape (m,)
        Variance of each entry of `target` around the truth, positive.
    tol : float, default=0.03
        Largest gradient, in units of the square root of slack: what is asked of the means is known
        to 1 of them. (AUCs are those of 0.001 to .002, in a third to all of the time.)

    Returns
    -------
    ndarray of shape (n,), summing to one
    """
    scale = 1 / np.sqrt(slack)

    def tilt(theta: NDArray) -> tuple[NDArray, float]:
        exponent = features.dot(theta)
        top = exponent.max()
        weights = np.exp(exponent - top)
        total = weights.sum()
        return weights / total, top + np.log(total / len(weights)) - theta @ target

    def dual(v: NDArray) -> tuple[float, NDArray]:
        weights, log_partition = tilt(v * scale)
        gradient = (features.tdot(weights) - target) * scale + v
        return log_partition + 0.5 * v @ v, gradient

    v, goal = np.zeros(len(target)), tol * np.sqrt(len(target))
    for _ in range(_MOST_METRICS):
        metric = _Metric(features, tilt(v * scale)[0], scale)
        v, gradient = _descend(dual, v, metric, goal)
        if np.linalg.norm(gradient) <= goal:
            break
        advance()
    return tilt(v * scale)[0]


class _Metric:
    """Variables ``u = L.T @ v`` in which the dual's Hessian is near the identity.

    The Hessian, ``scale covariance scale + 1``, is that of points drawn by their weights, which
    costs a tenth of that of all; its diagonal is exact, for a rare category may not be drawn. Where
    the dual ends does not depend on it: gradients are of all points.
    """

    def __init__(self, features: FeatureBlocks, weights: NDArray, scale: NDArray):
        mean, square = features.tdot(weights), features.tdot_squares(weights)
        variance = np.maximum(square - mean**2, 0.0)
        self._diagonal = np.sqrt(1 + variance * scale**2)
        self._root, self.n_steps = None, _STEPS_WITH_DIAGONAL
        if features.n_features > _LARGEST_HESSIAN:
            return
        self.n_steps = _STEPS_PER_METRIC
        size = min(_POINTS_PER_HESSIAN, features.n_points)
        drawn = features.rows(_on_ladder(weights, (np.arange(size) + 0.5) / size))
        mean = drawn.mean()
        hessian = drawn.gram() / size - np.outer(mean, mean)
        missing = np.maximum(variance - np.diagonal(hessian), 0.0)
        hessian[np.diag_indices_from(hessian)] += missing
        hessian *= np.outer(scale, scale)
        hessian[np.diag_indices_from(hessian)] += 1.0
        self._root = cholesky(hessian, lower=True, overwrite_a=True, check_finite=False)

    def variables(self, v: NDArray) -> NDArray:
        """Return u for v."""
        return self._diagonal * v if self._root is None else self._root.T @ v

    def original(self, u: NDArray) -> NDArray:
        """Return v for u."""
        return u / self._diagonal if self._root is None else self._solve(u, "T")

    def gradient(self, along_v: NDArray) -> NDArray:
        """Return the gradient along u for that along v."""
        return along_v / self._diagonal if self._root is None else self._solve(along_v, "N")

    def _solve(self, right: NDArray, transposed: str) -> NDArray:
        return solve_triangular(self._root, right, lower=True, trans=transposed, check_finite=False)


def _descend(
    dual: Callable[[NDArray], tuple[float, NDArray]], start: NDArray, metric: _Metric, goal: float
) -> tuple[NDArray, NDArray]:
    """Return where a few steps of L-BFGS in `metric` lead, and the gradient there."""
    seen: dict[bytes, NDArray] = {}

    def objective(u: NDArray) -> tuple[float, NDArray]:
        value, gradient = dual(metric.original(u))
        seen.clear()
        seen[u.tobytes()] = gradient
        return value, metric.gradient(gradient)

    def stop(u: NDArray) -> None:
        if np.linalg.norm(seen.get(u.tobytes(), np.inf)) <= goal:
            raise StopIteration

    found = minimize(
        objective,
        metric.variables(start),
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        options={"gtol": 0.0, "ftol": 0.0, "maxiter": metric.n_steps, "maxcor": 20},
    )
    end = metric.original(found.x)
    last = seen.get(found.x.tobytes())
    return end, dual(end)[1] if last is None else last


def maxent_points(
    sketch: PrivateSketch, points: NDArray, columns: Columns, rng: np.random.RandomState
) -> tuple[NDArray, NDArray[np.float64]]:
    """Move `points` towards the sketched data, round by round, and weight them to match it.

    Data fill a small part of their bounds, and of points spread over the bounds only a few lie
    where the data do. Matching many moments exactly then puts all weight on a handful of points
    (measured on Occupancy at epsilon = 3: an effective sample of 1 to 4 out of 40,000, and an AUC
    down to .7): the more accurate the sketch, the worse the model. So matching starts loose;
    after each round points are drawn anew from the weights, spread by a kernel that shrinks with
    the effective sample size, and matching tightens. All of it is post-processing.

    Parameters
    ----------
    sketch : PrivateSketch
    points : ndarray of shape (n, d)
        Drawn from the prior.
    columns : Columns
        With bounds of all numeric columns.
    rng : RandomState

    Returns
    -------
    points : ndarray of shape (n, d)
    weights : ndarray of shape (n,), non-negative, summing to one
    """
    n_points = len(points)
    noise = (sketch.noise_std / sketch.n_samples) ** 2
    cloud = points[:_POINTS_PER_ROUND]
    features = FeatureBlocks(sketch.feature_map, cloud)
    variance = _feature_variance(features)
    for round_, temperature in enumerate(TEMPERATURES):
        if round_:
            features = FeatureBlocks(sketch.feature_map, cloud)
        weights = maxent_weights(features, sketch.mean, noise + temperature * variance)
        if round_ < len(TEMPERATURES) - 1:
            last = round_ == len(TEMPERATURES) - 2
            size = n_points if last else min(n_points, _POINTS_PER_ROUND)
            cloud = _spread(cloud, weights, columns, size, rng)
    return cloud, weights


def _feature_variance(features: FeatureBlocks) -> NDArray:
    variance = features.mean_square() - features.mean() ** 2
    return np.maximum(variance, 1e-3 * variance.max())


def _spread(
    points: NDArray,
    weights: NDArray,
    columns: Columns,
    size: int,
    rng: np.random.RandomState,
) -> NDArray:
    """Draw `size` points from the weighted ones, and jitter them inside the bounds."""
    chosen = _systematic(weights, size, rng)
    numeric = [j for j in range(columns.n_columns) if columns.values(j) is None]
    moved = points[chosen].copy()
    if numeric:
        moved[:, numeric] = _jitter(points, weights, chosen, numeric, columns, rng)
    parts = []
    for j in range(columns.n_columns):
        known, column = columns.values(j), moved[:, j]
        if known is not None:
            # A few fresh draws keep every category alive.
            fresh = rng.uniform(size=size) < _FRESH
            column[fresh] = columns.decode(j, rng.randint(len(known), size=int(fresh.sum())))
            parts.append(column)
        else:
            parts.append(columns.on_grid(column.astype(np.float64), j))
    return stack_columns(parts)


def _jitter(points, weights, chosen, numeric, columns, rng):
    """Add a normal kernel of Scott's width, reflected at the bounds, to half of the entries.

    The others keep their values: many rows may share one, such as an income of 0, and a kernel
    would leave no point there for their weight.
    """
    low, high = np.array([columns.bound(j) for j in numeric]).T
    unit = (points[:, numeric].astype(np.float64) - low) / (high - low)
    covariance = np.atleast_2d(np.cov(unit.T, aweights=weights))
    effective = 1 / np.sum(weights**2)
    width = 0.5 * effective ** (-1 / (len(numeric) + 4))
    root = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(numeric)))
    noise = rng.normal(size=(len(chosen), len(numeric))) @ root.T
    noise[rng.uniform(size=noise.shape) < _KEPT] = 0.0
    folded = np.mod(unit[chosen] + width * noise, 2.0)
    return low + (high - low) * np.minimum(folded, 2.0 - folded)


def _systematic(weights: NDArray, size: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Draw indices with probabilities `weights`, by systematic resampling (low variance)."""
    return rng.permutation(_on_ladder(weights, (np.arange(size) + rng.uniform()) / size))


def _on_ladder(weights: NDArray, ladder: NDArray) -> NDArray[np.int64]:
    """Return the index at each quantile of the weights."""
    return np.minimum(np.searchsorted(np.cumsum(weights), ladder), len(weights) - 1)
