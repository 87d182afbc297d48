"""Starts for narrow huberized hinges, from the minima with wider ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._losses import Floats, HuberizedHinge, Loss
from ._newton import Point, Problem, minimise

FIRST_WIDTH = 0.5
_NARROWER = 1 / 8
# Part of the gap between two widths that the gradient may be when the loss is narrowed.
_BALANCE = 0.1
_ACCURACY = 1e-3


def narrow_start(problem_of: Callable[[Loss], Problem], loss: Loss, start: Floats) -> Floats:
    """Follow the minima with a huberized hinge as its width falls to that of `loss`.

    Newton's method finds few of the rows on a narrow parabola by itself. Other losses start
    where they are told to.

    Parameters
    ----------
    problem_of : callable
        Returns F with the loss that it is given.
    loss : Loss
    start : ndarray, a vector of the problem

    Returns
    -------
    ndarray, a vector of the problem
    """
    if not isinstance(loss, HuberizedHinge):
        return start
    width = FIRST_WIDTH
    while width > loss.h:
        point = minimise(problem_of(HuberizedHinge(width)), start, _near)
        narrower = max(_NARROWER * width, loss.h)
        ahead = problem_of(_Frozen(width, narrower)).at(point.x)
        start = ahead.x + ahead.problem.direction(ahead, _ACCURACY)
        width = narrower
    return start


def _near(point: Point) -> bool:
    """Return whether F is closer to its minimum than narrowing the loss may move it."""
    problem = point.problem
    gap = problem.n_rows * problem.loss.h / 8
    return point.norm**2 <= 2 * problem.regularization * _BALANCE * gap


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
