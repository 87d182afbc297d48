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

from ._careful import UNIT
from ._hinge import follow_hinge
from ._losses import Floats, Hinge, Loss, MarginLoss, Softmax
from ._newton import NotConvergedError, Point, Problem, minimise

# Errors of a slope relative to L, and of a term of the gap relative to its parts.
_TERM_ERROR = 16 * UNIT
# Newton stops a little below the tolerance, so that a careful evaluation agrees.
_MARGIN = 0.9
# Careful evaluations that may disagree before the solver gives up.
_MOST_ROUNDS = 100


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
) -> Point:
    """Return a point within `tolerance` of the minimum of F, as `careful` evaluates it.

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
    Point
        Of the problem with the loss, or for the hinge with a smooth loss that approximates it.

    Raises
    ------
    NotConvergedError
        Not for tolerances that `check_tolerance` lets pass, as far as we know.
    """
    hinge = loss if isinstance(loss, Hinge) else None

    def bound(point: Point) -> float:
        return distance_bound(point, hinge)

    def certified(point: Point) -> bool:
        return bound(point) <= _MARGIN * tolerance

    for _ in range(_MOST_ROUNDS):
        if hinge is None:
            point = minimise(problem_of(loss), start, certified)
        else:
            point = follow_hinge(problem_of, start, bound, certified)
        careful = point.problem.careful(point)
        if bound(careful) <= tolerance:
            return careful
        start = careful.x
    raise NotConvergedError


def smallest_distance(
    loss: Loss,
    regularization: float,
    norms: float,
    n_rows: int,
    score_error: float,
    largest_score: float,
) -> float:
    """Return twice what rounding alone may add to `distance_bound`.

    A tolerance above this is certified for all rows. It is a function of public bounds and of n,
    so that whether a problem can be certified is known before anything is charged.
    """
    distance = rounding_distance(loss, regularization, norms, n_rows, score_error)
    if isinstance(loss, Hinge):
        gap = _TERM_ERROR * n_rows * (1 + largest_score)
        distance += math.sqrt(2 * gap / regularization)
    return 2 * distance


def check_tolerance(tolerance: float, smallest: float) -> None:
    """Raise ValueError for a tolerance that rounding errors may keep from being certified.

    The message has no number in it: how large the errors are tells the number of rows.
    """
    if not tolerance >= smallest:
        raise ValueError(
            "float64 cannot certify the minimiser of so many rows with this regularization: raise "
            "it (or, if it is larger than the number of rows, lower it)."
        )


def largest_norm(
    loss: Loss, regularization: float, radius: float, shape: tuple[int, int], linear: float = 0.0
) -> float:
    """Return a bound on the norm of the minimum, for any codes, of shape (n, q), and any rows.

    Its gradient is zero, and F is no larger there than at zero.
    """
    slopes = shape[0] * loss.lipschitz * radius
    if isinstance(loss, MarginLoss | Softmax):
        zero, code = np.zeros((1, shape[1])), np.eye(1, shape[1])
        level = shape[0] * float(loss.value(zero, code)[0])
        slopes = min(slopes, math.sqrt(2 * level * regularization))
    return (slopes + 2 * linear) / regularization
