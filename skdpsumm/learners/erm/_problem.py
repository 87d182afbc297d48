"""The private minimiser of the regularised loss, and all that may be asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ._careful import careful_product
from ._certificate import check_tolerance
from ._feature_solver import smallest_tolerance as primal_tolerance
from ._feature_solver import solve_primal
from ._gram import symmetric_gram
from ._kernel_solver import smallest_tolerance as dual_tolerance
from ._kernel_solver import solve_dual
from ._losses import Loss, OneVsRest
from ._rounding import positive_shift
from ._rows import FeatureRows, rows_of_block
from ._spaces import FeatureSpace, Space
from ._terms import Terms

Floats = NDArray[np.float64]

_ROWS_AT_ONCE = 512
# Norms of features are at most this many radii, rounding included.
_RADII = 1.001


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

    @property
    def is_zero(self) -> bool:
        """Whether this is `zero`."""
        return len(self.coefficients) == 0

    def scores(self, X: NDArray) -> Floats:
        """Return the q scores of each row of X."""
        if self.is_zero:
            return np.zeros((len(X), self.coefficients.shape[1]))
        return self._factors(X) @ self.coefficients

    def careful_scores(self, X: NDArray) -> Floats:
        """Return the scores within `score_rounding` of the exact ones, for noise to be added."""
        parts = [
            careful_product(self._factors(X[rows]), self.coefficients)
            for rows in gen_batches(len(X), _ROWS_AT_ONCE)
        ]
        return np.concatenate([np.zeros((0, self.coefficients.shape[1])), *parts])

    def _factors(self, X: NDArray) -> Floats:
        """Return what coefficients are multiplied by, a row for each row of X."""
        if self.points is None:
            return self.space.features(X)
        return self.space.gram(X, self.points)


class _Numbers(NamedTuple):
    """What `primal_tolerance` asks of rows."""

    n_rows: int
    n_features: int
    radius: float
    block_rows: int


def smallest_tolerance(space: Space, terms: Terms, n_rows: int, tilt: float = 0.0) -> float:
    """Return a tolerance that the solver is sure to keep for any table of that many rows.

    Parameters
    ----------
    space : Space
    terms : Terms
    n_rows : int
    tilt : float, default=0.0
        The norm of the linear term, at most.
    """
    loss, n_scores, parts = terms.loss, terms.n_scores, 1
    if isinstance(loss, OneVsRest):
        loss, n_scores, parts = loss.part, 1, n_scores
    radius, settings = _RADII * terms.radius, (loss, terms.regularization)
    if isinstance(space, FeatureSpace):
        p = space.n_features
        rows = _Numbers(n_rows, p, radius, rows_of_block(p))
        return math.sqrt(parts) * primal_tolerance(rows, n_scores, *settings, tilt)
    return math.sqrt(parts) * dual_tolerance((n_rows, n_scores), radius, *settings)


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

    def check(self, *, tilt: float = 0.0, tolerance: float | None = None) -> None:
        """Raise ValueError where the minimiser cannot be found, before anything is charged.

        That is where the solver is not sure to keep the tolerance. It is decided by public numbers
        alone, by those of the largest table that is let in; where nothing is private, by the table
        at hand. And it is where a function of the user's fails on a row, or a matrix finds no room.

        Parameters
        ----------
        tilt : float, default=0.0
            The norm of `linear` that `minimize` will be given, at most.
        tolerance : float, default=None
        """
        terms = self.terms
        n_rows = terms.max_rows if terms.is_private else len(self.X)
        tolerance = terms.tolerance if tolerance is None else tolerance
        check_tolerance(tolerance, smallest_tolerance(self.space, terms, n_rows, tilt))
        self._call_on_all_rows()

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
            return self._expand(self._solve(self._data, loss, self.codes, tolerance, linear))
        data, n_parts = self._data, self.codes.shape[1]
        parts = [
            self._solve(data, loss.part, self.codes[:, [k]], tolerance / math.sqrt(n_parts), None)
            for k in range(n_parts)
        ]
        return self._expand(np.hstack(parts))

    @cached_property
    def _data(self) -> FeatureRows | Floats:
        """The features of the rows, or their Gram matrix."""
        if isinstance(self.space, FeatureSpace):
            return self.space.rows(self.X)
        gram = symmetric_gram(self.space.gram, self.X, n_jobs=self.space.n_jobs)
        gram[np.diag_indices_from(gram)] += positive_shift(self.terms)
        return gram

    def _call_on_all_rows(self) -> None:
        """Compute all features, or kernel values, and keep what `minimize` will keep of them."""
        data = self._data
        if self.space.is_users and isinstance(data, FeatureRows):
            for _ in data.blocks():
                pass

    def check_points(self, points: NDArray) -> None:
        """Raise ValueError where a kernel of the user's fails between these points and a row."""
        if self.space.is_users and not isinstance(self.space, FeatureSpace):
            for rows in gen_batches(len(points), _ROWS_AT_ONCE):
                self.space.gram(points[rows], self.X)

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
