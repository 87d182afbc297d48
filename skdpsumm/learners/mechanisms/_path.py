"""A path of the functional mechanism's Gaussian process, sampled where it is asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils import gen_batches

from ..._progress import advance
from ...privacy import Mechanism
from ..erm._problem import (
    Minimizer,
    Problem,
    Space,
    Terms,
    coordinate_rounding,
    factor_jitter,
)
from ._answers import AnsweredQueries
from ._functional import CoordinateNoise, check_coordinates

Floats = NDArray[np.float64]

# In units of R^2: what is left of |phi(z)|^2 outside the span of the points so far, below which z
# opens no new coordinate.
_NEGLIGIBLE = 1e-7
_POINTS_PER_STEP = 512


class GaussianPath:
    """The functional mechanism, one coordinate per new point.

    Parameters
    ----------
    space : Space
    terms : Terms
    max_points : int
        The most points at which the path is sampled; all later ones get its conditional mean.
    """

    def __init__(self, space: Space, terms: Terms, max_points: int):
        self.space, self.max_points = space, max_points
        self.jitter = factor_jitter(space, max_points)
        rounding = coordinate_rounding(space, terms, max_points)
        check_coordinates(rounding, terms, "max_points")
        self.noise = CoordinateNoise(max_points * terms.n_scores, terms, rounding)
        self.mechanism: Mechanism = self.noise.mechanism
        self.is_private, self.idealised = terms.is_private, False

    def open(self, problem: Problem) -> PathAnswers:
        """Return the answering object, which holds the private minimiser."""
        return PathAnswers(problem.minimize(), self)


class PathAnswers(AnsweredQueries):
    """Answers f*(z) + (Delta_w / mu) G(z) for a Gaussian process G with the kernel's covariance.

    The path is kept as coordinates in the orthonormal basis that the points span, in the order in
    which they were asked: ``L L^T = K + j I`` grows by a row per point, and so costs O(T) kernel
    values and O(T^2) arithmetic for point T, beside the n kernel values of f*(z).
    """

    def __init__(self, minimizer: Minimizer, plan: GaussianPath):
        n_scores = minimizer.coefficients.shape[1]
        super().__init__(n_scores, is_public=plan.is_private)
        self._minimizer, self._plan = minimizer, plan
        self._points: Floats | None = None
        self._factor = np.zeros((0, 0))
        self._exact = np.zeros((0, n_scores))
        self._noisy = np.zeros((0, n_scores))

    def hypothesis(self) -> Minimizer:
        """Return the path's conditional mean, as an expansion in the points asked."""
        if not self._plan.is_private:
            return self._minimizer
        if self._points is None:
            return Minimizer.zero(self._plan.space, self._n_scores)
        coefficients = solve_triangular(self._factor, self._noisy, lower=True, trans=1)
        return Minimizer(self._plan.space, coefficients, self._points)

    def _draw(self, X):
        if not self._plan.is_private:
            return self._minimizer.scores(X), np.ones(len(X), dtype=bool)
        parts = []
        for rows in gen_batches(len(X), _POINTS_PER_STEP):
            parts.append(self._extend(X[rows]))
            advance()
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _extend(self, X: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return answers at new points, with new coordinates for those that open one."""
        opens = np.zeros(len(X), dtype=bool)
        opens[: self._plan.max_points - len(self._factor)] = True
        while opens.any():
            below = self._below(X[opens])
            corner = self._corner(X[opens], below)
            new = np.diag(corner) ** 2 > _NEGLIGIBLE * self._plan.space.radius**2
            if new.all():
                self._append(X[opens], below, corner)
                break
            opens[np.flatnonzero(opens)[~new]] = False
        answers = np.empty((len(X), self._n_scores))
        if opens.any():
            answers[opens] = self._factor[-int(opens.sum()) :] @ self._noisy
        if not opens.all():
            answers[~opens] = self.hypothesis().scores(X[~opens])
        return answers, opens

    def _below(self, X: Floats) -> Floats:
        """Return the coordinates of phi(X) in the basis so far, shape (m, T)."""
        if self._points is None:
            return np.zeros((len(X), 0))
        cross = self._plan.space.gram(self._points, X)
        return solve_triangular(self._factor, cross, lower=True).T

    def _corner(self, X: Floats, below: Floats) -> Floats:
        """Return the factor of what is left of the Gram matrix of X."""
        space = self._plan.space
        left = space.gram(X, X) + self._plan.jitter * np.eye(len(X)) - below @ below.T
        return cholesky(left, lower=True)

    def _append(self, X: Floats, below: Floats, corner: Floats) -> None:
        values = self._minimizer.careful_scores(X)
        exact = solve_triangular(corner, values - below @ self._exact, lower=True)
        noisy = self._plan.noise.add(exact)
        # What was asked is remembered together, so that an interrupt leaves a consistent path.
        upper = np.zeros((len(self._factor), len(X)))
        self._factor = np.block([[self._factor, upper], [below, corner]])
        self._exact = np.vstack([self._exact, exact])
        self._noisy = np.vstack([self._noisy, noisy])
        self._points = X if self._points is None else np.vstack([self._points, X])
