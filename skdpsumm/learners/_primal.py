"""Kernel ERM by one weight a feature, for an explicit feature map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ._certify import UNIT, certified_minimum
from ._losses import Floats, Loss
from ._newton import Point, Problem


class Rows(Protocol):
    """Features of all rows, a block at a time."""

    n_rows: int
    n_features: int

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of the rows, and their features."""


def solve_primal(
    rows: Rows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    linear: Floats | None = None,
) -> Floats:
    """Minimise ``sum_i loss(W^T phi_i, code_i) + Lambda / 2 ||W||^2 + <linear, W>``, certified.

    Parameters
    ----------
    rows : FeatureRows
        With `n_rows`, `n_features` and `blocks()`.
    codes : ndarray of shape (n, q), float64
    loss : Loss
    regularization : float
        Lambda, positive.
    tolerance : float
        Largest Frobenius norm of W - W*, positive.
    linear : ndarray of shape (p, q), optional

    Returns
    -------
    ndarray of shape (p, q)
    """
    shape = (rows.n_features, codes.shape[1])
    linear = np.zeros(shape) if linear is None else linear
    squares = sum(float(np.vdot(block, block)) for _, block in rows.blocks())

    def problem_of(smooth: Loss) -> _Primal:
        return _Primal(rows, codes, smooth, regularization, linear, squares)

    return certified_minimum(problem_of, loss, np.zeros(shape), tolerance)


class _Primal(Problem):
    def __init__(self, rows, codes, loss, regularization, linear, squares):
        super().__init__(codes, loss, regularization, squares)
        self.rows = rows
        self.linear = linear

    def inner(self, x, y):
        return float(np.vdot(x, y))

    def careful(self, point):
        return point

    def at(self, x):
        scores = np.empty_like(self.codes)
        gradient = self.regularization * x + self.linear
        for here, block in self.rows.blocks():
            scores[here] = block @ x
            gradient += block.T @ self.loss.gradient(scores[here], self.codes[here])
        point = Point(self, x, scores)
        point.gradient = gradient
        return point

    def gradient(self, point):
        raise AssertionError

    def rounding(self, point):
        return UNIT * len(point.x) * np.linalg.norm(point.x), 0.0

    def direction(self, point: Point, accuracy) -> Floats:
        p, q = point.x.shape
        hessian = self.regularization * np.eye(p * q)
        for here, block in self.rows.blocks():
            roots = self.loss.hessian_root(point.scores[here], self.codes[here])
            wide = np.einsum("np,nqr->nrpq", block, roots).reshape(-1, p * q)
            hessian += wide.T @ wide
        solved = cho_solve(cho_factor(hessian), point.gradient.ravel())
        return -solved.reshape(p, q)
