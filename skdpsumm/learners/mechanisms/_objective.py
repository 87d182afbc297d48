"""Objective perturbation: noise in what is minimised, for smooth losses of explicit features.

Where data are plenty the curvature of the losses, not Lambda alone, divides the noise: a direction
in which the rows bend the objective by h gets noise sigma / (h + Lambda), against Delta_w / mu for
the functional mechanism, whatever the rows.

It is for single rows. What it reveals hangs on the rank and the corners of one row's losses, and of
a group's, neither is known to us.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._linear_systems import Floats, power_below
from ...privacy import PureDP
from ...privacy._mechanisms import Mechanism
from ...privacy._noise import RESERVE, noisy_integers, on_grid, radial_noise, secret_generator
from ...privacy._objective import (
    calibrate,
    determinant_cost,
    discrete_slack,
    smallest_regularization,
)
from ...privacy._shifted_gaussian import ShiftedGaussianDP
from ..erm._feature_space import FeatureSpace
from ..erm._newton import check_tolerance
from ..erm._problem import ROUNDED_UP, Minimizer, Problem, Terms, smallest_tolerance
from ._base import LearnerMechanism, Plan
from ._planning import Curvature

# The solver's tolerance on the gradient, in units of the noise, but no less than so many times what
# it is sure to keep.
_TOLERANCE, _SURE = 1e-5, 2.0
# Grids of the noise, in units of its scale, and the part of the reserve of delta for its tails.
_GRID, _TAIL = 2.0**-24, 2.0**-20
# Part of epsilon that pays for a row's curvature, which sets Lambda: less of it leaves more for the
# noise. Pure noise is larger by the square root of the dimension, and asks for more Lambda.
_CURVATURE_SHARE, _PURE_CURVATURE_SHARE = 0.1, 0.05
# Lambda of a loss that saturates, in units of the least at which curvature is free: of a release by
# itself, of pure noise, and where a ledger counts the Gaussian that dominates it, which is dear
# near there (epsilon = 1 costs 1.03 at 6, and 1.21 at 1; 1.07 and 1.50 where a row is replaced).
_ALONE, _PURE, _IN_A_LEDGER = 1.0, 3.0, 6.0


class ObjectivePerturbation(LearnerMechanism):
    """Noise in the objective, for smooth losses on explicit features.

    It needs less noise than the functional mechanism where data are plenty, for the curvature of
    the losses divides it, too. A row's curvature costs privacy; a ledger counts the Gaussian that
    dominates, which can be more than epsilon (`fit` warns then).

    Notes
    -----
    Source: Chaudhuri, Monteleoni and Sarwate (2011), "Differentially private empirical risk
    minimization"; Kifer, Smith and Thakurta (2012). Noise and claim are ours: see
    docs/learners.md.

    Examples
    --------
    >>> from skdpsumm import TDILClassifier
    >>> TDILClassifier(mechanism="objective")
    TDILClassifier(mechanism='objective')
    """

    name = "objective"
    learners = ("TDIL",)
    needs_features = True
    takes_sparse = True
    pays_for_curvature = True
    default_losses = ("soft_hinge", "huberized_hinge")

    def plan(self, space, terms, public):
        return ObjectivePlan(space, terms)

    def default_regularization(self, space, terms, public, *, charged):
        # Where a row's curvature costs little of epsilon, or nothing.
        corners, smoothness = terms.loss.corners(terms.n_scores), terms.loss.smoothness
        epsilon, is_pure = terms.epsilon, terms.delta == 0
        if corners.get("saturating") and corners["vertices"] == 1:
            # From 4 beta R^2 / epsilon on, curvature is free where a row comes or goes; where one
            # is replaced, too, but for pure noise, where it is from twice that on.
            times = _PURE if is_pure else (_IN_A_LEDGER if charged else _ALONE)
            least = times * (4 * smoothness * space.radius**2 / epsilon)
        else:
            least = smallest_regularization(
                epsilon,
                _PURE_CURVATURE_SHARE if is_pure else _CURVATURE_SHARE,
                smoothness=smoothness,
                radius=space.radius,
                rank=corners.get("rank", 1),
                trace=corners.get("trace"),
            )
        return max(least, terms.loss.least_regularization * space.radius**2)

    def least_cost(self, terms):
        # Of one row's curvature, below which no noise brings the claim.
        corners = terms.loss.corners(terms.n_scores)
        row = terms.loss.smoothness, terms.radius, terms.regularization
        cost = determinant_cost(*row, corners.get("rank", 1), corners.get("trace"))
        return ShiftedGaussianDP(((1.0, 0.0, cost),)) if terms.delta else PureDP(cost)

    def price_advice(self, epsilon):
        return (
            "Raise `regularization`, lower epsilon, or set mechanism='functional', which costs in "
            f"a ledger what it says: mechanism='objective' costs more than its epsilon={epsilon:g} "
            "there."
        )


class ObjectivePlan(Plan):
    """Minimise with a random linear term, and cover the solver's tolerance with a little noise.

    Parameters
    ----------
    space : FeatureSpace
    terms : Terms
        The loss must have no kink, and no corner that is as sharp as that of `Hinge`.

    Attributes
    ----------
    noise_scale : float
        sigma, the standard deviation of the linear term's entries (or s, if delta is 0).
    """

    def __init__(self, space: FeatureSpace, terms: Terms):
        self.space, self.terms = space, terms
        self._shape = space.n_features, terms.n_scores
        self.idealised = terms.is_private and terms.delta == 0
        first = self._calibrate(0.0).noise_scale
        sure = self._sure_tolerance(2 * self._largest_tilt(first))
        self._tolerance = max(_TOLERANCE * first / terms.regularization, _SURE * sure)
        # The second noise is a little larger than the first, and so is its grid. The output is
        # rounded, too, to a grid that is as much finer than its noise.
        rounding = 2 * first * _GRID * math.sqrt(math.prod(self._shape)) / terms.regularization
        found = self._calibrate_rounded((self._tolerance + rounding) * ROUNDED_UP)
        self.noise_scale, self.output_scale = found.noise_scale, found.output_scale
        self.mechanism = self._with_slack(found.mechanism)

    def _calibrate(self, distance: float) -> Any:
        terms = self.terms
        return calibrate(
            terms.epsilon,
            terms.delta,
            lipschitz=terms.loss.lipschitz,
            smoothness=terms.loss.smoothness,
            radius=terms.radius,
            regularization=terms.regularization,
            adjacency=terms.adjacency,
            distance=distance,
            **terms.loss.corners(terms.n_scores),
        )

    def _calibrate_rounded(self, distance: float) -> Any:
        """Return the noise where the output is rounded to a grid of its own noise as well."""
        rounding = 0.0 if self.idealised else _GRID * math.sqrt(math.prod(self._shape)) / 2
        covered = distance
        for _ in range(30):
            found = self._calibrate(covered)
            needed = distance + found.output_scale * rounding
            if needed <= covered:
                return found
            covered = needed * 1.01
        raise ValueError(
            f"epsilon={self.terms.epsilon!r} is too small for so many features under "
            "mechanism='objective': raise epsilon, or set mechanism='functional'."
        )

    rows_divide_noise = True

    @property
    def score_noise(self) -> float:  # type: ignore[override]
        """The most that it is, for any rows: their curvature divides the noise, too.

        The minimiser is a function of the linear term that is Lipschitz with 1 / Lambda, so a score
        has at most (sigma R / Lambda)^2 of its variance (Poincare's inequality for Gaussians); the
        noise on the output comes on top.
        """
        if not self.terms.is_private:
            return 0.0
        linear = self.noise_scale / self.terms.regularization
        size = math.prod(self._shape) + 1 if self.idealised else 1
        return math.hypot(linear, self.output_scale) * math.sqrt(size) * self.space.radius

    def expected_score_noise(self, curvature: Curvature, n_samples: float) -> float:
        """Return what `score_noise` comes to for so many rows of an expected shape.

        Parameters
        ----------
        curvature : Curvature
            What is expected of a row, from public numbers.
        n_samples : float
        """
        bound, ridge = self.score_noise, self.terms.regularization
        if bound == 0:
            return 0.0
        output = self.output_scale / math.hypot(self.noise_scale / ridge, self.output_scale)

        def noise_of(bent: Floats) -> Floats:
            return bound * np.hypot((1 - output**2) ** 0.5 / (1 + bent / ridge), output)

        return curvature.settled(noise_of, n_samples, self.terms)

    def check(self, problem: Problem) -> None:
        """Check that the solver gets as close as is asked, however large the linear term is.

        It is larger than this with a probability of less than exp(-50).
        """
        if not self.terms.is_private:
            return problem.check()
        tilt = self._largest_tilt(self.noise_scale)
        return problem.check(tilt=tilt, tolerance=self._tolerance)

    def _sure_tolerance(self, tilt: float) -> float:
        if not self.terms.is_private:
            return 0.0
        sure = smallest_tolerance(self.space, self.terms, self.terms.max_rows, tilt)
        check_tolerance(self.terms.step, sure)
        return sure

    def _largest_tilt(self, scale: float) -> float:
        size = math.prod(self._shape)
        spread = size + 10 * math.sqrt(size) + 50 if self.idealised else math.sqrt(size) + 10
        return scale * spread

    def _with_slack(self, mechanism: Mechanism) -> Mechanism:
        """Return the cost with the distance of discrete Gaussian noise from its density."""
        if mechanism.unprotected or self.idealised:
            return mechanism
        size = 2 * math.prod(self._shape)  # in the objective and on the output
        reach = 2 * max(mu for _, mu, _ in mechanism.loss_terms or ())
        tail = self.terms.delta * RESERVE * _TAIL
        slack = discrete_slack(size, 1 / _GRID, reach, tail)
        return mechanism.with_slack(slack, tail)

    def release(self, problem: Problem) -> Minimizer:
        """Return the minimiser of the perturbed objective, with noise on its weights."""
        if not self.terms.is_private:
            return problem.minimize()
        tilt = self._noise(self.noise_scale, 6)
        found = problem.minimize(linear=tilt, tolerance=self._tolerance)
        return Minimizer(self.space, self._noise(self.output_scale, 7, found.coefficients))

    def _noise(self, scale: float, key: int, center: Floats | None = None) -> Floats:
        """Return `center` (zeros) with noise of a scale; exact where it is Gaussian."""
        center = np.zeros(self._shape) if center is None else center
        seed = self.terms.seed(key)
        if self.idealised:
            return center + radial_noise(self._shape, scale, secret_generator(seed))
        grid = power_below(scale * _GRID)
        noisy = noisy_integers(on_grid(center, grid), scale / grid, "gaussian", seed)
        return noisy.astype(np.float64) * grid
