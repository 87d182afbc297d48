"""A bound on the distance to a minimum that holds in float64, and the way below a tolerance.

With g the gradient of F at w, ||w - w*|| <= ||g|| / Lambda for every loss, as F is strongly
convex. For the hinge, slopes alpha_i from 0 to 1 are a feasible point of the dual problem, and
||w - w*|| <= sqrt(2 gap / Lambda). Ours are those of a smooth loss that approximates the hinge;
with g the gradient for that loss and m_i the margins,

    gap = sum_i [max(0, 1 - m_i) - alpha_i (1 - m_i)] + ||g||^2 / (2 Lambda),

where no term is negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._hinge import follow_hinge
from ._losses import Floats, Hinge, Loss
from ._newton import Point, Problem, minimise

UNIT = float(np.finfo(np.float64).eps) / 2
# Error of a sum of up to a million products that numpy adds in pairs, relative to their sizes.
SUM_ERROR = 40 * UNIT
# Errors of a slope relative to L, and of a term of the gap relative to its parts.
_TERM_ERROR = 16 * UNIT
# Newton stops a little below the tolerance, so that a careful evaluation agrees.
_MARGIN = 0.9


def distance_bound(point: Point, hinge: Hinge | None = None) -> float:
    """Return a bound on the distance to the minimum of F, or of F with the hinge as its loss.

    Rounding errors are part of it: `Problem.rounding` bounds those of scores and gradients.
    """
    problem = point.problem
    score_error, norm_error = problem.rounding(point)
    gap = 0.0 if hinge is None else _gap(point, hinge)
    return math.hypot(
        (point.norm + norm_error) / problem.regularization,
        math.sqrt(2 * gap / problem.regularization),
    ) + rounding_distance(
        hinge or problem.loss, problem.regularization, problem.norms, problem.n_rows, score_error
    )


def _gap(point: Point, hinge: Hinge) -> float:
    problem = point.problem
    slopes = problem.loss.gradient(point.scores, problem.codes)
    terms = hinge.value(point.scores, problem.codes)
    terms += np.einsum("nq,nq->n", slopes, problem.codes - point.scores)
    sizes = problem.n_rows + float(np.abs(point.scores).sum())
    return max(0.0, float(terms.sum())) + _TERM_ERROR * sizes


def rounding_distance(
    loss: Loss, regularization: float, norms: float, n_rows: int, score_error: float
) -> float:
    """Return how far scores that are off by `score_error` can move a distance bound.

    A smooth gradient moves by smoothness * score_error * `norms`, where `norms` bounds the sum of
    the norms of the features. Slopes of the hinge are any feasible point of the dual, so an error
    moves only the gap, by n * score_error.
    """
    slopes = _TERM_ERROR * loss.lipschitz * norms / regularization
    if isinstance(loss, Hinge):
        return slopes + math.sqrt(2 * n_rows * score_error / regularization)
    return slopes + loss.smoothness * score_error * norms / regularization


def certified_minimum(
    problem_of: Callable[[Loss], Problem], loss: Loss, start: Floats, tolerance: float
) -> Floats:
    """Return a vector within `tolerance` of the minimum of F.

    Parameters
    ----------
    problem_of : callable
        Returns F with the loss that it is given.
    loss : Loss
        Smooth, or the hinge.
    start : ndarray, a vector of the problem
    tolerance : float

    Returns
    -------
    ndarray, a vector of the problem
    """
    hinge = loss if isinstance(loss, Hinge) else None

    def bound(point: Point) -> float:
        return distance_bound(point, hinge)

    def certified(point: Point) -> bool:
        return bound(point) <= _MARGIN * tolerance

    while True:
        if hinge is None:
            point = minimise(problem_of(loss), start, certified)
        else:
            point = follow_hinge(problem_of, start, bound, certified)
        careful = point.problem.careful(point)
        if bound(careful) <= tolerance:
            return careful.x
        start = careful.x


def smallest_tolerance(loss: Loss, regularization: float, radius: float, n_rows: int) -> float:
    """Return the least tolerance that is certified for any n rows of norm at most `radius`.

    Parameters
    ----------
    loss : Loss
    regularization : float
        Lambda.
    radius : float
        R.
    n_rows : int

    Returns
    -------
    float
        In the norm of the space. Twice what rounding errors may add up to if every coefficient is
        as large as it can be, L / Lambda.
    """
    coefficients = n_rows * loss.lipschitz / regularization
    error = SUM_ERROR * radius**2 * coefficients
    return 2 * rounding_distance(loss, regularization, n_rows * radius, n_rows, error)


def check_tolerance(
    tolerance: float, loss: Loss, regularization: float, radius: float, n_rows: int
) -> None:
    """Raise ValueError for a tolerance that no computation in float64 could certify."""
    smallest = smallest_tolerance(loss, regularization, radius, n_rows)
    if not tolerance >= smallest:
        raise ValueError(
            f"tolerance={tolerance:g} is below {smallest:g}, the least that can be certified in "
            "float64 for this many rows. Raise it, or the regularization."
        )
