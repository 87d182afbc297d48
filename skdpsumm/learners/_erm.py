"""The private minimiser of the regularised loss, and all that may be asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._dual import solve_dual
from ._losses import Loss, OneVsRest
from ._primal import solve_primal
from ._rows import FeatureRows
from ._spaces import FeatureSpace, Space
from ._terms import Terms

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Minimizer:
    """A function of the space, as weights of features or as an expansion in rows.

    Attributes
    ----------
    space : Space
    coefficients : ndarray of shape (p, q) or (n, q)
    points : ndarray of shape (n, n_columns), or None
        The rows of the expansion; None where the coefficients are weights of features.
    """

    space: Space
    coefficients: Floats
    points: NDArray | None = None

    @classmethod
    def zero(cls, space: Space, n_scores: int) -> Minimizer:
        """Return the function that is zero everywhere."""
        return cls(space, np.zeros((0, n_scores)), np.zeros((0, 0)))

    def scores(self, X: NDArray) -> Floats:
        """Return the q scores of each row of X."""
        if len(self.coefficients) == 0:
            return np.zeros((len(X), self.coefficients.shape[1]))
        if self.points is None:
            return self.space.features(X) @ self.coefficients
        return self.space.gram(X, self.points) @ self.coefficients


@dataclass(frozen=True)
class Problem:
    """sum_i loss(<w, phi(x_i)>, code_i) + (Lambda / 2) ||w||^2, on private rows.

    Attributes
    ----------
    space : Space
    X : ndarray of shape (n, n_columns)
    codes : ndarray of shape (n, q)
    terms : Terms
    """

    space: Space
    X: NDArray
    codes: Floats
    terms: Terms

    def minimize(
        self, *, linear: Floats | None = None, tolerance: float | None = None
    ) -> Minimizer:
        """Return a function certified to lie within the tolerance of the minimiser.

        Parameters
        ----------
        linear : ndarray of shape (p, q), default=None
            Of a term <linear, w> that is added (feature spaces only).
        tolerance : float, default=None
            In the norm of the space; None is `Terms.tolerance`.
        """
        tolerance = self.terms.tolerance if tolerance is None else tolerance
        loss = self.terms.loss
        if not isinstance(loss, OneVsRest):
            return self._expand(self._solve(self._data(), loss, self.codes, tolerance, linear))
        data, n_parts = self._data(), self.codes.shape[1]
        parts = [
            self._solve(data, loss.part, self.codes[:, [k]], tolerance / math.sqrt(n_parts), None)
            for k in range(n_parts)
        ]
        return self._expand(np.hstack(parts))

    def _data(self) -> FeatureRows | Floats:
        """Return the features of the rows, or their Gram matrix."""
        if isinstance(self.space, FeatureSpace):
            return self.space.rows(self.X)
        return self.space.gram(self.X, self.X)

    def _solve(
        self, data: Any, loss: Loss, codes: Floats, tolerance: float, linear: Floats | None
    ) -> Floats:
        settings = (data, codes, loss, self.terms.regularization, tolerance)
        if isinstance(self.space, FeatureSpace):
            return solve_primal(*settings, linear=linear)
        return solve_dual(*settings)

    def _expand(self, coefficients: Floats) -> Minimizer:
        explicit = isinstance(self.space, FeatureSpace)
        return Minimizer(self.space, coefficients, None if explicit else self.X)
