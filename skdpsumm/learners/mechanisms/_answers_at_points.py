"""TDDL as printed (Algorithm 2): Laplace noise on answers at Z, then least squares in a ball."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from sklearn.utils._param_validation import Interval

from ..._linear_systems import power_below
from ...privacy import PureDP
from ...privacy._mechanisms import Mechanism, ZeroConcentratedDP, zcdp_rho
from ...privacy._noise import check_scale, noisy_integers, nominal_mechanism, on_grid
from ..erm._problem import (
    ROUNDED_UP,
    Minimizer,
    Problem,
    Space,
    Terms,
    check_rounding,
    largest_eigenvalue,
    score_rounding,
)
from ._base import LearnerMechanism
from ._functional import public_regularization

Floats = NDArray[np.float64]

# Answers are rounded to this part of the sensitivity of one.
_GRID = 2.0**-20
# Eigenvalues below this part of the largest are taken as zero.
_RANK = 1e-10


class LaplaceAnswers(LearnerMechanism):
    """The paper's Algorithm 2: Laplace noise on answers at public points, then least squares.

    Much worse than the functional mechanism, and shown for comparison.

    Parameters
    ----------
    norm_constraint : float, default=None
        Radius of the paper's set C, in the norm of the space. None shrinks by an unbiased estimate
        of the error, as the variance of the noise is public.
    n_landmarks : int, default=256
        How many public points are drawn from `bounds` where `fit` is given no X_public.

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.1.

    Examples
    --------
    >>> from skdpsumm import TDDLClassifier
    >>> from skdpsumm.learners import LaplaceAnswers
    >>> model = TDDLClassifier(mechanism=LaplaceAnswers(norm_constraint=2.0))
    >>> model.get_params()["mechanism__norm_constraint"]
    2.0
    """

    name = "laplace"
    learners = ("TDDL",)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "norm_constraint": [None, Interval(Real, 1e-60, 1e60, closed="both")],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, *, norm_constraint=None, n_landmarks=256):
        self.norm_constraint = norm_constraint
        self.n_landmarks = n_landmarks

    def plan(self, space, terms, public):
        if public is None:
            raise ValueError(
                "mechanism='laplace' answers at public points: pass them to fit as X_public."
            )
        return LaplacePlan(space, public, terms, self.norm_constraint)

    def default_regularization(self, space, terms, public, *, charged):
        return public_regularization(space, terms, 1 if public is None else len(public))


class LaplacePlan:
    """Answers at the public points with Laplace noise, and a function fitted to them.

    Parameters
    ----------
    space : Space
    points : ndarray of shape (T, n_columns)
        Z.
    terms : Terms
    norm_constraint : float or None
        Radius of the paper's set C, in the norm of the space. None takes the amount of shrinkage
        that minimises an unbiased estimate of the error, whose noise variance is public.

    Notes
    -----
    The vector of T q answers moves by at most ``Delta_w |K_ZZ|^(1/2)`` in L2. The noise has scale
    gamma, that over ``sqrt(2 rho)`` for rho-zCDP, and ``sqrt(T q)`` times that over epsilon for
    pure DP.
    """

    idealised = False

    def __init__(self, space: Space, points: NDArray, terms: Terms, norm_constraint: float | None):
        self.space, self.points, self.terms = space, points, terms
        self.norm_constraint = norm_constraint
        self._gram = space.gram(points, points)
        self._grid = power_below(terms.sensitivity * space.radius * _GRID)
        size = len(points) * terms.n_scores
        moved = math.sqrt(largest_eigenvalue(self._gram, space)) * terms.sensitivity
        rounding = math.sqrt(len(points)) * score_rounding(space, terms)
        if terms.is_private:
            check_rounding(rounding, moved, "take fewer X_public, or a smaller regularization")
        norm = ((moved + 2 * rounding) / self._grid + math.sqrt(size)) * ROUNDED_UP
        self.mechanism, scale = self._calibrate(norm, size)
        check_scale(scale)
        self.scale = scale * self._grid

    def _calibrate(self, norm: float, size: int) -> tuple[Mechanism, float]:
        """Return the cost, and gamma in grid units, for answers that move by `norm`."""
        epsilon, delta = self.terms.epsilon, self.terms.delta
        if not self.terms.is_private:
            return nominal_mechanism(epsilon, delta), 0.0
        if delta == 0:
            return PureDP(epsilon), norm * math.sqrt(size) / epsilon
        rho = zcdp_rho(epsilon, delta)
        return ZeroConcentratedDP(rho), norm / math.sqrt(2 * rho)

    def release(self, problem: Problem) -> Minimizer:
        """Return the function fitted to the noisy answers."""
        answers = problem.minimize().careful_scores(self.points)
        if self.terms.is_private:
            exact = on_grid(answers, self._grid)
            seed, scale = self.terms.seed(3), self.scale / self._grid
            noisy = noisy_integers(exact, scale, "laplace", seed)
            answers = noisy.astype(np.float64) * self._grid
        if self.norm_constraint is None:
            coefficients = shrunk_least_squares(self._gram, answers, 2 * self.scale**2)
        else:
            coefficients = constrained_least_squares(self._gram, answers, self.norm_constraint)
        return Minimizer(self.space, coefficients, self.points)


def constrained_least_squares(gram: Floats, answers: Floats, bound: float) -> Floats:
    """Return c that minimises ``|K c - y|^2`` subject to ``c^T K c <= bound^2``.

    With ``K = U diag(l) U^T`` and ``u = U^T y`` it is ``c(nu) = U (u / (l + nu))``, where nu = 0 if
    that is in the ball, and else puts it on the sphere.
    """
    sizes, rotated, back = _spectrum(gram, answers)
    energy = (rotated**2).sum(axis=1)

    def excess(log_nu: float) -> float:
        return float((sizes * energy / (sizes + math.exp(log_nu)) ** 2).sum()) - bound**2

    if (energy / sizes).sum() <= bound**2:
        return back @ (rotated / sizes[:, None])
    low, high = math.log(sizes.min()) - 40, math.log(sizes.max()) + 1
    while excess(high) > 0:
        high += 10
    return back @ (rotated / (sizes + math.exp(brentq(excess, low, high)))[:, None])


def shrunk_least_squares(gram: Floats, answers: Floats, variance: float) -> Floats:
    """Return c(nu) for the nu that minimises Mallows' C_p, given the variance of the noise."""
    sizes, rotated, back = _spectrum(gram, answers)
    if variance == 0:
        return back @ (rotated / sizes[:, None])
    energy = (rotated**2).sum(axis=1)
    candidates = sizes.max() * np.logspace(-8, 3, 111)
    gains = sizes / (sizes + candidates[:, None])
    risks = (1 - gains) ** 2 @ energy + 2 * variance * answers.shape[1] * gains.sum(axis=1)
    nu = candidates[np.argmin(risks)]
    return back @ (rotated / (sizes + nu)[:, None])


def _spectrum(gram: Floats, answers: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the positive eigenvalues of K, the answers in their basis, and the basis."""
    sizes, vectors = eigh(gram)
    kept = sizes > _RANK * sizes.max()
    return sizes[kept], vectors[:, kept].T @ answers, vectors[:, kept]
