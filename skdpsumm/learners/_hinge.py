"""Minima with the hinge loss, as limits of those with a smooth loss that approximates it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._losses import Floats, HuberizedHinge, Loss
from ._newton import NotConvergedError, Point, Problem, minimise

FIRST_WIDTH = 0.5
_NARROWER = 1 / 8
_MOST_WIDTHS = 100
# Part of a distance bound that the gradient may be when the loss is narrowed.
_BALANCE = 0.3
_ACCURACY = 1e-3


def follow_hinge(
    problem_of: Callable[[Loss], Problem],
    start: Floats,
    bound: Callable[[Point], float],
    certified: Callable[[Point], bool],
) -> Point:
    """Follow the minima with a huberized hinge as its width h falls to zero, until certified.

    This ends: at any point, each row adds at most h / 8 to the gap that `bound` measures, and
    Newton's method takes the gradient, its other part, below any bound.

    Parameters
    ----------
    problem_of : callable
        Returns F with the loss that it is given.
    start : ndarray, a vector of the problem
    bound : callable
        A bound on the distance of a point to the minimum with the hinge.
    certified : callable
        Whether to stop at a point.

    Returns
    -------
    Point
    """

    def done(point: Point) -> bool:
        near = point.norm / point.problem.regularization <= _BALANCE * bound(point)
        return near or certified(point)

    width = FIRST_WIDTH
    for _ in range(_MOST_WIDTHS):
        point = minimise(problem_of(HuberizedHinge(width)), start, done)
        if certified(point):
            return point
        narrower = _NARROWER * width
        ahead = problem_of(_Frozen(width, narrower)).at(point.x)
        start = ahead.x + ahead.problem.direction(ahead, _ACCURACY)
        width = narrower
    raise NotConvergedError


class _Frozen(HuberizedHinge):
    """The parabola of width h, but for all margins inside the width before.

    One Newton step for it predicts the next minimum: as if the same rows were to lie on the
    parabola. Without it, most rows of the band leave it when it narrows, and Newton's method
    spends its steps on finding them again (measured: five times as many).
    """

    def __init__(self, before: float, h: float):
        super().__init__(h)
        self.before = before

    def _slope(self, margin):
        short = 1 - margin
        inside = -(short + self.h) / (2 * self.h)
        return np.where(np.abs(short) <= self.before, inside, -(short > 0).astype(np.float64))

    def _curvature(self, margin):
        return np.where(np.abs(1 - margin) <= self.before, self.smoothness, 0.0)
