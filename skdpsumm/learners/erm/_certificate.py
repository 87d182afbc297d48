"""A bound on the distance to a minimum that holds in float64, and the way below a tolerance.

With g the gradient of F at w, ||w - w*|| <= ||g|| / Lambda, as F is strongly convex. Scores that
are off by d at most, in a loss with a curvature of at most beta, cost little more: slopes at them
are a feasible point of the dual problem, where row i adds no more than beta d^2 / 2 to the gap
(Fenchel's inequality). So ||w - w*||^2 <= 2 gap / Lambda with

    gap <= n beta d^2 / 2 + ||g||^2 / (2 Lambda),

where g is made of these slopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._accelerated import accelerated_minimum
from ._careful import UNIT
from ._hinge import narrow_start
from ._losses import Floats, Loss, Softmax
from ._newton import Point, Problem, minimise

# Errors of a slope relative to L.
_SLOPE_ERROR = 16 * UNIT
# Newton stops a little below the tolerance, so that a careful evaluation agrees.
_MARGIN = 0.9
# Careful evaluations that may disagree before the solver takes the slow way that cannot fail.
_MOST_ROUNDS = 5


def distance_bound(point: Point) -> float:
    """Return a bound on the distance to the minimum of F.

    Rounding errors are part of it: `Problem.rounding` bounds those of scores and gradients.
    """
    problem, loss = point.problem, point.problem.loss
    score_error, norm_error = problem.rounding(point)
    slopes = _SLOPE_ERROR * loss.lipschitz * problem.norms
    of_scores = math.sqrt(problem.n_rows * loss.smoothness / problem.regularization) * score_error
    return (point.norm + norm_error + slopes) / problem.regularization + of_scores


def certified_minimum(
    problem_of: Callable[[Loss], Problem], loss: Loss, start: Floats, tolerance: float
) -> Point:
    """Return a point within `tolerance` of the minimum of F, as `careful` evaluates it.

    Newton's method finds it, with a certificate, wherever we have looked. Should rounding or the
    rows keep it from that, the accelerated gradient method gets there by proof.

    Parameters
    ----------
    problem_of : callable
        Returns F with the loss that it is given.
    loss : Loss
    start : ndarray, a vector of the problem
    tolerance : float
        Passed by `check_tolerance`.

    Returns
    -------
    Point
        With a certificate (`distance_bound`), unless it is the last resort's.
    """
    problem = problem_of(loss)

    def certified(point: Point) -> bool:
        return distance_bound(point) <= _MARGIN * tolerance

    def carefully(x: Floats) -> bool:
        return distance_bound(problem.careful(problem.at(x))) <= tolerance

    x = narrow_start(problem_of, loss, start)
    for _ in range(_MOST_ROUNDS):
        point = minimise(problem, x, certified)
        careful = problem.careful(point)
        if distance_bound(careful) <= tolerance:
            return careful
        if not certified(point):
            break
        x = careful.x
    return problem.careful(problem.at(accelerated_minimum(problem, tolerance, carefully)))


def argument_error(loss: Loss, largest_score: float) -> float:
    """Return how far the difference of a score and a margin may be off, of which a slope is made.

    That counts like an error of the score. `Softmax` takes four such steps, all others one.
    """
    n_steps = 4 if isinstance(loss, Softmax) else 1
    return n_steps * UNIT * (largest_score + 1 + abs(getattr(loss, "margin", 0.0)))


def check_tolerance(tolerance: float, smallest: float) -> None:
    """Raise ValueError for a tolerance that rounding errors may keep the solver from."""
    if not tolerance >= smallest:
        raise ValueError(
            "float64 cannot certify the minimiser with this regularization, so many features and "
            "so curved a loss: raise regularization, take fewer features, or a loss that is less "
            "curved (not 'hinge'; a larger huber_width or huber_threshold)."
        )


def largest_norm(
    loss: Loss, regularization: float, radius: float, shape: tuple[int, int], linear: float = 0.0
) -> float:
    """Return a bound B on the norm of the minimum, for any codes, of shape (n, q), and any rows.

    Its gradient is zero, and F is no larger there than at zero. F falls from zero to its minimum
    by at most Lambda B^2 / 2.
    """
    zero, code = np.zeros((1, shape[1])), np.eye(1, shape[1])
    level = shape[0] * float(loss.value(zero, code)[0])
    slopes = min(shape[0] * loss.lipschitz * radius, math.sqrt(2 * level * regularization))
    return (slopes + 2 * linear) / regularization
