r"""The minimum of a strongly convex sum of losses: Newton's method, certified in float64.

The objective is F(w) = sum_i c_i loss(f_i, code_i) + (Lambda / 2) ||w||^2 + <linear, w> over a
Hilbert space, for a smooth loss, shares c_i and scores f_i that are linear in w.
`certified_minimum` takes damped Newton steps until a bound on the distance to the minimum, which
holds in float64, is below the tolerance; where they do not get there, gradient steps do, by proof.

*Shares* are 1, or from 0 to 1/2. All that is said of rows below holds for any convex losses that
are no less than zero, no more than loss(0) at zero, with slopes of at most L and a curvature of at
most beta, and ``c_i loss`` is one of these: it is smoother, and no steeper. Nor are its slopes less
exact: to multiply by 1 is exact, and by up to 1/2 leaves no more than half of a slope's error, and
half a unit of L for its own.

*The certificate* (`distance_bound`). With g the gradient of F at w, ||w - w*|| <= ||g|| / Lambda,
as F is strongly convex. Scores that are off by d at most, in a loss with a curvature of at most
beta, cost little more: slopes at them are a feasible point of the dual problem, where row i adds
no more than beta d^2 / 2 to the gap (Fenchel's inequality). So ||w - w*||^2 <= 2 gap / Lambda with

    gap <= n beta d^2 / 2 + ||g||^2 / (2 Lambda),

where g is made of these slopes.

*The last resort* (`accelerated_minimum`): gradient steps that are proved to arrive, rounding
included.

Theorem. Let F be as above, of rows with sum_i ||phi_i||^2 <= S, and let B >= ||w*|| be so
large that F(0) - F(w*) <= Lambda B^2 / 2. Suppose that slopes are taken at scores that are off by
at most d, and that the gradient made of them is off by at most e. With

    mu = Lambda / 2,   M = 3 Lambda / 2 + 2 beta S,   t = sqrt(mu / M),

let x_0 = z_0 = 0, and with G the gradient as computed at y,

    y = (x + t z) / (1 + t),   x <- y - G / M,   z <- (1 - t) z + t (y - G / mu).

Then after k steps ||x - w*||^2 <= (3/2) (1 - t)^k B^2 + (2 / Lambda) (n beta d^2 + 2 e^2 / Lambda)
/ t.

Proof. A row's slope a is that at a score s + h with |h| <= d. For a convex loss with curvature at
most beta and any score r,

    0 <= loss(r) - [loss(s + h) - a h] - a (r - s) <= beta (r - s - h)^2 / 2
      <= beta (r - s)^2 + beta h^2:

slopes at a wrong score are slopes of a slightly lower model, not wrong slopes. Summed over rows,
with <e, w - y> taken apart by |<e, v>| <= ||e||^2 / Lambda + Lambda ||v||^2 / 4, there is a number
m (y's own) such that for all w, with D = n beta d^2 + 2 e^2 / Lambda,

    m + <G, w - y> + (mu / 2) ||w - y||^2  <=  F(w)  <=  m + D + <G, w - y> + (M / 2) ||w - y||^2.

This is an inexact oracle (Devolder, Glineur and Nesterov 2013). Let E = F(x) - F(w*) + (mu / 2)
||z - w*||^2, and primes denote the next step. The right inequality at x' gives F(x') <= m + D -
||G||^2 / (2 M). By convexity of the square, ||z' - w*||^2 <= (1 - t) ||z - w*||^2 + t ||y - w*||^2
- (2 t / mu) <G, y - w* + (1 - t) (z - y)> + (t / mu)^2 ||G||^2, where t (z - y) = y - x, and half
of mu times the last term is ||G||^2 / (2 M). The left inequality at w*, times t, and at x, times
1 - t, bounds what is left: E' <= (1 - t) E + D. As E_0 <= (3/4) Lambda B^2, and F(x) - F(w*) >=
(Lambda / 2) ||x - w*||^2, the claim follows. QED

Tolerances of B or more are met by zero. Smaller ones, T, are met where the two terms are T^2 / 2
each: `smallest_distance` and the number of steps see to that. Then E <= Lambda B^2 on the way, so
||x - w*|| and ||z - w*|| are at most 2 B, and ||y|| at most 3 B. Where the vector is kept as
coefficients c of the rows, those of x follow a linear recursion of second order that is driven by
slopes / M, with poles of modulus at most 1 - t. So |c| <= L / (t^2 M) = 2 L / Lambda, and 6 L /
Lambda for y = x' + (1 - t) / (1 + t) (x' - x), which is how y is found without z. Vectors are sums
of two floats, with errors of the order of UNIT^2; only 2 t / (1 + t) (x' - x) is rounded to one,
which moves z by a few units of x' - x.

The kernel matrix is taken as it is computed. d and e grow with the number of rows, and so they are
bounded for the most rows that are let in (`Problem.check`): a refusal tells nothing of those at
hand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._computing import UNIT, Floats, advance
from ._losses import Loss

# How much better the system of a direction is solved where a rough solution did not do.
_ACCURACIES = (0.1, 1e-6, 1e-10)
# Problems that are let in took up to 140; what takes more is left to the last resort.
_MAX_NEWTON_STEPS = 300


@dataclass(eq=False, repr=False)
class Objective(ABC):
    """F with its geometry. A vector is any array that adds and scales as the vector does.

    Parameters
    ----------
    codes : ndarray of shape (n, q)
    loss : Loss
        Smooth.
    regularization : float
        Lambda.
    radius : float
        A bound on the norm of the features of a row.
    squares : float
        A bound on the sum over rows of the squared norm of their features.
    tilt : float, default=0.0
        The norm of `linear`.
    shares : ndarray of shape (n, 1) or None, default=None
        c; None is ones.
    """

    codes: Floats
    loss: Loss
    regularization: float
    radius: float
    squares: float
    tilt: float = 0.0
    shares: Floats | None = None

    def slopes(self, scores: Floats, here: slice = slice(None)) -> Floats:
        """Return the gradient in its scores of each row's loss times its share, for rows `here`."""
        slopes = self.loss.gradient(scores, self.codes[here])
        return slopes if self.shares is None else self.shares[here] * slopes

    def roots(self, scores: Floats, here: slice = slice(None)) -> Floats:
        """Return B with Hessian B B^T of each row's loss times its share, for rows `here`."""
        roots = self.loss.hessian_root(scores, self.codes[here])
        return roots if self.shares is None else np.sqrt(self.shares[here])[:, :, None] * roots

    @abstractmethod
    def at(self, x: Floats) -> Point:
        """Return the point at a vector, with its scores."""

    def careful(self, point: Point) -> Point:
        """Return the same point with scores of which `rounding` is true."""
        return point

    @abstractmethod
    def gradient(self, point: Point) -> Floats:
        """Return the gradient of F, a vector."""

    @abstractmethod
    def inner(self, x: Floats, y: Floats) -> float:
        """Return the inner product of two vectors."""

    @abstractmethod
    def direction(self, point: Point, accuracy: float) -> Floats:
        """Return about -H^-1 gradient; a bad one makes the minimisation slow, never wrong.

        `accuracy` is the norm of the error of H times it, relative to that of the gradient.
        """

    @abstractmethod
    def rounding(self, point: Point) -> tuple[float, float]:
        """Return bounds on the rounding errors of each row's scores, and of the norm given them."""

    @abstractmethod
    def zero(self) -> Floats:
        """Return the coefficients of zero."""

    @abstractmethod
    def vector(self, coefficients: Floats) -> Floats:
        """Return the vector of some coefficients."""

    @abstractmethod
    def careful_gradient(self, high: Floats, low: Floats) -> Floats:
        """Return the coefficients of the gradient at those of ``high + low``.

        Its errors are those that `smallest_tolerance` accounts for.
        """

    @property
    def norms(self) -> float:
        """A bound on the sum over rows of the norm of their features."""
        return math.sqrt(len(self.codes) * self.squares)

    @property
    def largest_curvature(self) -> float:
        """A bound on the eigenvalues of the Hessian of F."""
        return self.regularization + self.loss.smoothness * self.squares


class Point:
    """A vector x with its scores, of shape (n, q), and the gradient there once it is needed."""

    def __init__(self, objective: Objective, x: Floats, scores: Floats):
        self.objective = objective
        self.x = x
        self.scores = scores

    @cached_property
    def gradient(self) -> Floats:
        """The gradient of F, a vector."""
        return self.objective.gradient(self)

    @cached_property
    def norm(self) -> float:
        """The norm of the gradient."""
        return float(np.sqrt(max(0.0, self.objective.inner(self.gradient, self.gradient))))


def minimise(objective: Objective, start: Floats, done: Callable[[Point], bool]) -> Point:
    """Step from `start` until `done`, and return the point; or the last one, if it is not to be.

    Every step lowers F by at least a fixed multiple of the squared norm of the gradient, because
    a direction that does not promise that is replaced by the gradient. So that norm falls below
    any positive bound, but for rounding: a caller checks what it got.
    """
    point = objective.at(start)
    for _ in range(_MAX_NEWTON_STEPS):
        if done(point):
            break
        before, point = point, _step(point)
        advance()
        if np.array_equal(before.x, point.x):
            break
    return point


def _step(point: Point) -> Point:
    objective = point.objective
    if point.norm <= objective.rounding(point)[1]:
        # Slopes are noise. What is left to do is to shrink that noise, which Newton's step does.
        return objective.at(point.x + objective.direction(point, _ACCURACIES[-1]))
    direction = _direction(point)
    full = objective.at(point.x + direction)
    t = _step_length(point, direction, full.scores - point.scores)
    return full if t == 1 else objective.at(point.x + t * direction)


def _direction(point: Point) -> Floats:
    for accuracy in _ACCURACIES:
        direction = point.objective.direction(point, accuracy)
        if _descends(point, direction):
            return direction
    return -point.gradient / point.objective.largest_curvature


def _descends(point: Point, direction: Floats) -> bool:
    """Return whether the slope is at least half of what the bounds on the Hessian promise."""
    objective = point.objective
    slope = -objective.inner(point.gradient, direction)
    length = objective.inner(direction, direction)
    return (
        slope >= 0.5 * objective.regularization * length
        and slope >= 0.5 * point.norm**2 / objective.largest_curvature
    )


def _step_length(point: Point, direction: Floats, change: Floats) -> float:
    """Return 1 where a full step lowers F by enough, else about the minimum along the direction.

    Works on slopes: near the minimum F changes by less than the rounding of its value.
    """
    objective = point.objective
    slope = -objective.inner(point.gradient, direction)
    quadratic = objective.regularization * objective.inner(direction, direction)
    before = objective.slopes(point.scores)

    def rise(t: float) -> float:
        """Return how much the slope has risen at t; no term is negative, so none cancels."""
        after = objective.slopes(point.scores + t * change)
        return float(np.vdot(after - before, change)) + t * quadratic

    # Slopes rise along the way, so two of them bound the change of F by a Riemann sum.
    whole = rise(1.0)
    # A step is taken in full if F falls by a tenth, at least, of what its slope promises.
    if whole <= slope or (rise(0.5) + whole) / 2 <= 0.9 * slope:
        return 1.0
    low, high = 0.0, 1.0
    while low < 0.9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if rise(middle) <= slope else (low, middle)
    return low


# ---- narrow losses


def narrow_start(objective_of: Callable[[Loss], Objective], loss: Loss, start: Floats) -> Floats:
    """Follow the minima with a Huberised hinge as its width falls to that of `loss`.

    Newton's method finds few of the rows on a narrow parabola by itself. Other losses start
    where they are told to.

    Parameters
    ----------
    objective_of : callable
        Returns F with the loss that it is given.
    loss : Loss
    start : ndarray, a vector of the objective

    Returns
    -------
    ndarray, a vector of the objective
    """
    for wide, frozen, width in loss.narrowing():
        point = minimise(objective_of(wide), start, _near(width))
        ahead = objective_of(frozen).at(point.x)
        start = ahead.x + ahead.objective.direction(ahead, 1e-3)
    return start


def _near(width: float) -> Callable[[Point], bool]:
    """Return whether F is closer to its minimum than narrowing the loss may move it."""

    def near(point: Point) -> bool:
        gap = len(point.objective.codes) * width / 8
        # The loss is narrowed where the gradient is a tenth of the gap between two widths.
        return point.norm**2 <= 2 * point.objective.regularization * 0.1 * gap

    return near


# ---- certificate


def distance_bound(point: Point) -> float:
    """Return a bound on the distance to the minimum of F.

    Rounding errors are part of it: `Objective.rounding` bounds those of scores and gradients.
    """
    objective, loss = point.objective, point.objective.loss
    score_error, norm_error = objective.rounding(point)
    # Slopes err by up to 16 units, relative to L.
    slopes = 16 * UNIT * loss.lipschitz * objective.norms
    regularization = objective.regularization
    of_scores = math.sqrt(len(objective.codes) * loss.smoothness / regularization) * score_error
    return (point.norm + norm_error + slopes) / regularization + of_scores


def certified_minimum(
    objective_of: Callable[[Loss], Objective], loss: Loss, start: Floats, tolerance: float
) -> Point:
    """Return a point within `tolerance` of the minimum of F, as `careful` evaluates it.

    Newton's method finds it, with a certificate, wherever we have looked. Should rounding or the
    rows keep it from that, the accelerated gradient method gets there by proof.

    Parameters
    ----------
    objective_of : callable
        Returns F with the loss that it is given.
    loss : Loss
    start : ndarray, a vector of the objective
    tolerance : float
        Passed by `check_tolerance`.

    Returns
    -------
    Point
        With a certificate (`distance_bound`), unless it is the last resort's.
    """
    objective = objective_of(loss)

    def certified(point: Point) -> bool:
        # Newton stops a little below the tolerance, so that a careful evaluation agrees.
        return distance_bound(point) <= 0.9 * tolerance

    def carefully(x: Floats) -> bool:
        return distance_bound(objective.careful(objective.at(x))) <= tolerance

    x = narrow_start(objective_of, loss, start)
    # After five careful evaluations that disagree the solver takes the slow way, which cannot fail.
    for _ in range(5):
        point = minimise(objective, x, certified)
        careful = objective.careful(point)
        if distance_bound(careful) <= tolerance:
            return careful
        if not certified(point):
            break
        x = careful.x
    return objective.careful(objective.at(accelerated_minimum(objective, tolerance, carefully)))


def argument_error(loss: Loss, largest_score: float) -> float:
    """Return how far the argument of a slope may be off, which is made of scores and a margin.

    That counts like an error of the score.
    """
    return loss.n_additions * UNIT * (largest_score + 1 + abs(loss.margin))


def check_tolerance(tolerance: float, smallest: float) -> None:
    """Raise ValueError for a tolerance that rounding errors may keep the solver from."""
    if not tolerance >= smallest:
        raise ValueError(
            "Raise regularization, take fewer features, or a loss that is less curved (not "
            "'hinge'; a wider HuberizedHinge, or a larger threshold of Huber): float64 is not "
            "exact enough for a privacy claim."
        )


def largest_norm(
    loss: Loss, regularization: float, radius: float, shape: tuple[int, ...], tilt: float = 0.0
) -> float:
    """Return a bound B on the norm of the minimum, for any codes, of shape (n, q), and any rows.

    Its gradient is zero, and F is no larger there than at zero. F falls from zero to its minimum
    by at most Lambda B^2 / 2.
    """
    zero, code = np.zeros((1, shape[1])), np.eye(1, shape[1])
    level = shape[0] * float(loss.value(zero, code)[0])
    slopes = min(shape[0] * loss.lipschitz * radius, math.sqrt(2 * level * regularization))
    return (slopes + 2 * tilt) / regularization


# ---- the last resort


# A sum of two floats.
Pair = tuple[Floats, Floats]

# Norms of the points at which gradients are taken, in units of B, and coefficients, of L / Lambda.
LARGEST_NORM, LARGEST_COEFFICIENT = 3.0, 6.0


def accelerated_minimum(
    objective: Objective, tolerance: float, certified: Callable[[Floats], bool]
) -> Floats:
    """Return a vector within `tolerance` of the minimum of F.

    Parameters
    ----------
    objective : Objective
    tolerance : float
        At least `smallest_distance` for the errors of `Objective.careful_gradient`.
    certified : callable
        Whether a vector is known to be within the tolerance, so that the rest can be saved.

    Returns
    -------
    ndarray, a vector of the objective
    """
    loss, regularization = objective.loss, objective.regularization
    rate, largest = _rate(loss, regularization, objective.squares)
    norm = largest_norm(
        loss, regularization, objective.radius, objective.codes.shape, objective.tilt
    )
    x = y = (objective.zero(), objective.zero())
    for k in range(_n_steps(rate, norm, tolerance)):
        before, x = x, plus(y, objective.careful_gradient(*y) / -largest)
        y = _ahead(x, before, rate)
        advance()
        if k % 100 == 99 and certified(objective.vector(x[0])):
            break
    return objective.vector(x[0])


def smallest_distance(
    loss: Loss,
    regularization: float,
    squares: float,
    n_rows: int,
    score_error: float,
    gradient_error: float,
) -> float:
    """Return a tolerance that `accelerated_minimum` keeps for all rows, rounding included.

    Parameters
    ----------
    loss : Loss
    regularization : float
    squares : float
        S.
    n_rows : int
    score_error, gradient_error : float
        d and e, at points of norm up to `LARGEST_NORM` B.
    """
    rate, _ = _rate(loss, regularization, squares)
    # The number of steps is about 40 / t: a problem with a smaller t is not let in.
    if rate < 2.0**-21:
        return math.inf
    of_scores = n_rows * loss.smoothness / regularization * score_error**2
    of_gradient = 2 * (gradient_error / regularization) ** 2
    return 2 * math.sqrt((of_scores + of_gradient) / rate)


def _rate(loss: Loss, regularization: float, squares: float) -> tuple[float, float]:
    """Return t and M."""
    largest = 1.5 * regularization + 2 * loss.smoothness * squares
    return math.sqrt(regularization / 2 / largest), largest


def _n_steps(rate: float, largest_norm: float, tolerance: float) -> int:
    """Return k for which the part of the bound that vanishes is half of the tolerance's square."""
    if tolerance >= largest_norm:
        return 0
    return math.ceil(math.log(3 * (largest_norm / tolerance) ** 2) / rate)


def _ahead(x: Pair, before: Pair, rate: float) -> Pair:
    """Return y, from x and the x before."""
    change = (x[0] - before[0]) + (x[1] - before[1])
    y = x
    for term in (x[0], -before[0], x[1], -before[1], -2 * rate / (1 + rate) * change):
        y = plus(y, term)
    return y


def plus(pair: Pair, change: Floats) -> Pair:
    """Return a sum of two floats, plus a float, as a sum of two floats (Knuth)."""
    high = pair[0] + change
    back = high - pair[0]
    error = (pair[0] - (high - back)) + (change - back)
    low = pair[1] + error
    total = high + low
    return total, low - (total - high)
