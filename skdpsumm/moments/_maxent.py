"""Synthetic points and non-negative weights whose feature means match a private sketch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..features import Columns, stack_columns
from ..sketches import PrivateSketch
from ._blocks import FeatureBlocks

# Variance, relative to that of a feature, that the moments may miss their target by in each
# round; the last is that of about 1,000 points, and is what finite points can resolve.
TEMPERATURES = (0.1, 0.02, 0.004, 0.001)
_POINTS_PER_ROUND = 20_000
_FRESH = 0.05
# With more features than this, products with the Hessian are cheaper than the Hessian.
_LARGEST_HESSIAN = 2_000


def maxent_weights(
    features: FeatureBlocks, target: NDArray, slack: NDArray, *, tol: float = 1e-3
) -> NDArray[np.float64]:
    """Return the probabilities closest to uniform whose feature means are near `target`.

    Minimises ``KL(w | uniform) + 1/2 sum_j (E_w phi_j - target_j)^2 / slack_j``. The solution is
    ``w_i ~ exp(theta . phi_i)`` with theta the minimum of the convex dual
    ``log mean exp(theta . (phi_i - target)) + 1/2 sum_j slack_j theta_j^2``, found by Newton's
    method in a trust region.

    Parameters
    ----------
    features : FeatureBlocks of n points
    target : ndarray of shape (m,)
    slack : ndarray of shape (m,)
        Variance of each entry of `target` around the truth, positive.
    tol : float
        Largest gradient, in units of the square root of slack.

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

    def hessian(v: NDArray) -> NDArray:
        weights, _ = tilt(v * scale)
        mean = features.tdot(weights)
        covariance = features.gram(weights) - np.outer(mean, mean)
        return covariance * np.outer(scale, scale) + np.eye(len(v))

    def hessian_product(v: NDArray, direction: NDArray) -> NDArray:
        weights, _ = tilt(v * scale)
        along = features.dot(direction * scale)
        return features.tdot(weights * (along - weights @ along)) * scale + direction

    small = len(target) <= _LARGEST_HESSIAN
    newton = (
        {"method": "trust-exact", "hess": hessian}
        if small
        else {"method": "trust-ncg", "hessp": hessian_product}
    )
    solved = minimize(
        dual,
        np.zeros(len(target)),
        jac=True,
        options={"gtol": tol * np.sqrt(len(target)), "maxiter": 100},
        **newton,
    )
    return tilt(solved.x * scale)[0]


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
    variance = _feature_variance(FeatureBlocks(sketch.feature_map, cloud))
    for round_, temperature in enumerate(TEMPERATURES):
        features = FeatureBlocks(sketch.feature_map, cloud)
        weights = maxent_weights(features, sketch.mean, noise + temperature * variance)
        if round_ < len(TEMPERATURES) - 1:
            last = round_ == len(TEMPERATURES) - 2
            size = n_points if last else min(n_points, _POINTS_PER_ROUND)
            cloud = _spread(cloud, weights, columns, size, rng)
    return cloud, weights


def _feature_variance(features: FeatureBlocks) -> NDArray:
    uniform = np.full(features.n_points, 1 / features.n_points)
    squares = np.concatenate(
        [(b.multiply(b) if hasattr(b, "multiply") else b * b).T @ uniform for b in features.blocks]
    )
    variance = squares - features.mean() ** 2
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
    """Add a normal kernel of Scott's width, reflected at the bounds."""
    low, high = np.array([columns.bound(j) for j in numeric]).T
    unit = (points[:, numeric].astype(np.float64) - low) / (high - low)
    covariance = np.atleast_2d(np.cov(unit.T, aweights=weights))
    effective = 1 / np.sum(weights**2)
    width = 0.5 * effective ** (-1 / (len(numeric) + 4))
    root = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(numeric)))
    noise = rng.normal(size=(len(chosen), len(numeric))) @ root.T
    folded = np.mod(unit[chosen] + width * noise, 2.0)
    return low + (high - low) * np.minimum(folded, 2.0 - folded)


def _systematic(weights: NDArray, size: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Draw indices with probabilities `weights`, by systematic resampling (low variance)."""
    ladder = (np.arange(size) + rng.uniform()) / size
    chosen = np.searchsorted(np.cumsum(weights), ladder)
    return rng.permutation(np.minimum(chosen, len(weights) - 1))
