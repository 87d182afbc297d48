"""The default of Lambda: a public rule, which no data touch.

The noise on a prediction has standard deviation ``L R^2 / Lambda`` times a number that the budget
alone decides (1 / mu of Gaussian noise), however many rows there are. Scores have a public unit:
1 is the margin of a class, or half the interval of y. So Lambda may be chosen for the noise to be a
fixed part of it. The study behind the parts is in docs/learners.md.
"""

from __future__ import annotations

import math

from ...privacy import gdp_mu
from ..erm._losses import Loss

# Part of epsilon that objective perturbation gives to the curvature of a row.
_CURVATURE_SHARE, _PURE_CURVATURE_SHARE = 0.1, 0.05
# Where a saturating loss has it free of charge: Lambda in units of the least for that.
_FREE, _PURE_FREE = 1.0, 3.0
# A ledger charges the dominating Gaussian, which is dear near there (1.26 at 6, 6.2 at 1).
_CHARGED = 6.0
# Of R^2, however large the budget.
_SMALLEST = 0.1


def noise_multiplier(epsilon: float, delta: float, n_coordinates: int) -> float:
    """Return the noise on a prediction per unit of sensitivity, for the functional mechanism."""
    if math.isinf(epsilon):
        return 0.0
    if delta == 0:
        return math.sqrt(n_coordinates) / epsilon
    return 1 / gdp_mu(epsilon, delta)


def public_regularization(
    loss: Loss,
    radius: float,
    *,
    epsilon: float,
    delta: float,
    adjacency: str,
    n_coordinates: int = 1,
) -> float:
    """Return Lambda of the sum form.

    Parameters
    ----------
    loss : Loss
        For its L, and the unit of its scores.
    radius : float
        R.
    epsilon, delta, adjacency :
        The guarantee asked for.
    n_coordinates : int, default=1
        Dimension of what is released; matters for pure DP alone, where it sets the noise.
    """
    n_rows = 1 if adjacency == "add_remove" else 2
    per_sensitivity = noise_multiplier(epsilon, delta, n_coordinates)
    noise = n_rows * loss.lipschitz * radius**2 * per_sensitivity
    return max(noise / loss.noise_part, _SMALLEST * radius**2)


def curvature_share(delta: float) -> float:
    """Return the part of epsilon that pays for a row's curvature in objective perturbation.

    It sets Lambda there: less curvature per Lambda leaves more of epsilon for the noise. Pure
    noise is larger by the square root of the dimension, and asks for more Lambda.
    """
    return _CURVATURE_SHARE if delta > 0 else _PURE_CURVATURE_SHARE


def free_regularization(
    smoothness: float, radius: float, *, epsilon: float, delta: float, charged: bool
) -> float:
    """Return Lambda for a loss that saturates: no less than ``4 beta R^2 / epsilon``.

    From there on its curvature costs nothing in objective perturbation where a row comes or goes
    (pure noise for a row that is replaced: from twice that on), unless what is `charged` is a
    Gaussian that dominates it.
    """
    least = 4 * smoothness * radius**2 / epsilon
    if delta == 0:
        return _PURE_FREE * least
    return (_CHARGED if charged else _FREE) * least
