"""Damped Newton steps down a strongly convex sum of losses.

The objective is F(w) = sum_i loss(f_i, code_i) + (Lambda / 2) ||w||^2 + <linear, w> over a Hilbert
space, for a smooth loss and scores f_i that are linear in w.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..._computing import advance
from ._losses import Floats, Loss

# How much better the system of a direction is solved where a rough solution did not do.
_ACCURACIES = (0.1, 1e-6, 1e-10)
# Problems that are let in took up to 140; what takes more is left to `_accelerated`.
_MOST_STEPS = 300
# A step is taken in full if F falls by this part of what its slope promises.
_SUFFICIENT = 0.1


class Problem(ABC):
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
    """

    def __init__(
        self, codes: Floats, loss: Loss, regularization: float, radius: float, squares: float
    ):
        self.codes = codes
        self.loss = loss
        self.regularization = regularization
        self.radius = radius
        self.squares = squares

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
    @abstractmethod
    def largest_norm(self) -> float:
        """The bound on the norm of the minimum that `_accelerated` asks for."""

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.codes)

    @property
    def norms(self) -> float:
        """A bound on the sum over rows of the norm of their features."""
        return math.sqrt(self.n_rows * self.squares)

    @property
    def largest_curvature(self) -> float:
        """A bound on the eigenvalues of the Hessian of F."""
        return self.regularization + self.loss.smoothness * self.squares


class Point:
    """A vector x with its scores, of shape (n, q), and the gradient there once it is needed."""

    def __init__(self, problem: Problem, x: Floats, scores: Floats):
        self.problem = problem
        self.x = x
        self.scores = scores

    @cached_property
    def gradient(self) -> Floats:
        """The gradient of F, a vector."""
        return self.problem.gradient(self)

    @cached_property
    def norm(self) -> float:
        """The norm of the gradient."""
        return float(np.sqrt(max(0.0, self.problem.inner(self.gradient, self.gradient))))


def minimise(problem: Problem, start: Floats, done: Callable[[Point], bool]) -> Point:
    """Step from `start` until `done`, and return the point; or the last one, if it is not to be.

    Every step lowers F by at least a fixed multiple of the squared norm of the gradient, because
    a direction that does not promise that is replaced by the gradient. So that norm falls below
    any positive bound, but for rounding: a caller checks what it got.
    """
    point = problem.at(start)
    for _ in range(_MOST_STEPS):
        if done(point):
            break
        before, point = point, _step(point)
        advance()
        if np.array_equal(before.x, point.x):
            break
    return point


def _step(point: Point) -> Point:
    problem = point.problem
    if point.norm <= problem.rounding(point)[1]:
        # Slopes are noise. What is left to do is to shrink that noise, which Newton's step does.
        return problem.at(point.x + problem.direction(point, _ACCURACIES[-1]))
    direction = _direction(point)
    full = problem.at(point.x + direction)
    t = _step_length(point, direction, full.scores - point.scores)
    return full if t == 1 else problem.at(point.x + t * direction)


def _direction(point: Point) -> Floats:
    for accuracy in _ACCURACIES:
        direction = point.problem.direction(point, accuracy)
        if _descends(point, direction):
            return direction
    return -point.gradient / point.problem.largest_curvature


def _descends(point: Point, direction: Floats) -> bool:
    """Return whether the slope is at least half of what the bounds on the Hessian promise."""
    problem = point.problem
    slope = -problem.inner(point.gradient, direction)
    length = problem.inner(direction, direction)
    return (
        slope >= 0.5 * problem.regularization * length
        and slope >= 0.5 * point.norm**2 / problem.largest_curvature
    )


def _step_length(point: Point, direction: Floats, change: Floats) -> float:
    """Return 1 where a full step lowers F by enough, else about the minimum along the direction.

    Works on slopes: near the minimum F changes by less than the rounding of its value.
    """
    problem = point.problem
    slope = -problem.inner(point.gradient, direction)
    quadratic = problem.regularization * problem.inner(direction, direction)
    before = problem.loss.gradient(point.scores, problem.codes)

    def rise(t: float) -> float:
        """Return how much the slope has risen at t; no term is negative, so none cancels."""
        after = problem.loss.gradient(point.scores + t * change, problem.codes)
        return float(np.vdot(after - before, change)) + t * quadratic

    # Slopes rise along the way, so two of them bound the change of F by a Riemann sum.
    whole = rise(1.0)
    if whole <= slope or (rise(0.5) + whole) / 2 <= (1 - _SUFFICIENT) * slope:
        return 1.0
    low, high = 0.0, 1.0
    while low < 0.9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if rise(middle) <= slope else (low, middle)
    return low
