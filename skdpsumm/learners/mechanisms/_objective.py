"""Objective perturbation: noise in what is minimised, for smooth losses of explicit features.

Where data are plenty the curvature of the losses, not Lambda alone, divides the noise: a direction
in which the rows bend the objective by h gets noise sigma / (h + Lambda), against Delta_w / mu for
the functional mechanism, whatever the rows.

It is for single rows. What it reveals hangs on the rank and the corners of one row's losses, and of
a group's, neither is known to us.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..._computing import Floats, power_below
from ...privacy._mechanisms import Mechanism
from ...privacy._noise import Discreteness, noisy_integers, on_grid, radial_noise, secret_generator
from ...privacy._objective import ObjectiveDP, calibrate, regularization_of_share
from ..erm._newton import check_tolerance
from ..erm._problem import ROUNDED_UP, FeatureSpace, Minimizer, Problem, Terms
from ._base import Curvature, LearnerMechanism, Plan, ScoreNoise

# The grid of the noise, as a part of its scale.
_GRID_PER_SCALE = 2.0**-24
# The most of epsilon that pays for a row's curvature, which sets Lambda. More of it makes Lambda
# smaller, and the noise larger: here by 10 per cent (docs/learners.md).
_CURVATURE_SHARE = 0.1
# That part with delta = 0, where noise is larger by the root of the dimension, and asks for more
# Lambda.
_CURVATURE_SHARE_IF_PURE = 0.05
# That part where a ledger counts the Gaussian that dominates the release: for epsilon = 1 and two
# classes it counts 1.11, and would count 1.22 with the share of a release by itself.
_CURVATURE_SHARE_IN_A_LEDGER = 0.04


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

    def plan(self, space: Any, terms: Terms, public: Any) -> Plan:
        return ObjectivePlan(space, terms)

    def default_regularization(
        self, space: Any, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        # With more corners than one a ledger charges for these, and hardly less for more Lambda.
        one_corner = terms.loss.corners(terms.n_scores)["corners"] == 1
        share = _CURVATURE_SHARE_IN_A_LEDGER if charged and one_corner else _CURVATURE_SHARE
        if terms.delta == 0:
            share = _CURVATURE_SHARE_IF_PURE
        row = terms.loss.corners(terms.n_scores)
        curvature = {"smoothness": row["smoothness"], "rank": row["rank"], "radius": space.radius}
        least = regularization_of_share(terms.epsilon, share, **curvature)
        return max(least, terms.loss.least_regularization * space.radius**2)

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
        in_weights = first / terms.regularization
        # The solver's tolerance is a small part of the noise in the objective, and twice what the
        # solver is sure to keep.
        self._tolerance = max(1e-5 * in_weights, 2.0 * sure)
        # The second noise is a little larger than the first, and so is its grid. The output is
        # rounded, too, to a grid that is as much finer than its noise.
        rounding = 2 * in_weights * _GRID_PER_SCALE * math.sqrt(math.prod(self._shape))
        found = self._calibrate_rounded((self._tolerance + rounding) * ROUNDED_UP)
        self.noise_scale, self.output_scale = found.noise_scale, found.output_scale
        self.mechanism = self._with_slack(found.mechanism)

    def _calibrate(self, distance: float) -> Any:
        terms = self.terms
        return calibrate(
            terms.epsilon,
            terms.delta,
            lipschitz=terms.loss.lipschitz,
            radius=terms.radius,
            regularization=terms.regularization,
            adjacency=terms.adjacency,
            distance=distance,
            **terms.loss.corners(terms.n_scores),
        )

    def _calibrate_rounded(self, distance: float) -> Any:
        """Return the noise where the output is rounded to a grid of its own noise as well."""
        steps = 0.0 if self.idealised else math.sqrt(math.prod(self._shape)) / 2
        covered = distance
        for _ in range(30):
            found = self._calibrate(covered)
            needed = distance + found.output_scale * _GRID_PER_SCALE * steps
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

    def expected_score_noise(self, curvature: Curvature, n_samples: float) -> ScoreNoise:
        """Return what `score_noise` comes to for so many rows of an expected shape.

        Parameters
        ----------
        curvature : Curvature
            What is expected of a row, from public numbers.
        n_samples : float
        """
        bound, ridge = self.score_noise, self.terms.regularization
        if bound == 0:
            return super().expected_score_noise(curvature, n_samples)
        output = self.output_scale / math.hypot(self.noise_scale / ridge, self.output_scale)

        def noise_of(bent: Floats) -> tuple[Floats, Floats]:
            noise = bound * np.hypot((1 - output**2) ** 0.5 / (1 + bent / ridge), output)
            return noise, self.terms.radius / (bent + ridge)

        return curvature.settled(noise_of, n_samples, self.terms)

    def check(self, problem: Problem) -> None:
        """Check that the solver gets as close as is asked, however large the linear term is.

        It is larger than this with a probability of less than exp(-50).
        """
        if not self.terms.is_private:
            return problem.check()
        return problem.check(tilt=self._largest_tilt(self.noise_scale), tolerance=self._tolerance)

    def _sure_tolerance(self, tilt: float) -> float:
        if not self.terms.is_private:
            return 0.0
        sure = self.space.smallest_tolerance(self.terms, self.terms.max_rows, tilt)
        check_tolerance(self.terms.step, sure)
        return sure

    def _largest_tilt(self, scale: float) -> float:
        size = math.prod(self._shape)
        spread = size + 10 * math.sqrt(size) + 50 if self.idealised else math.sqrt(size) + 10
        return scale * spread

    def _with_slack(self, mechanism: Mechanism) -> Mechanism:
        """Return the cost with the distance of discrete Gaussian noise from its density."""
        if not isinstance(mechanism, ObjectiveDP):
            return mechanism
        size = 2 * math.prod(self._shape)  # in the objective and on the output
        reach = 2 * mechanism.largest_mu
        slack = Discreteness(size, reach, self.terms.epsilon, self.terms.delta)
        log_ratio = slack.needed(size, 1 / _GRID_PER_SCALE) + slack.poisson
        return replace(mechanism, log_ratio=log_ratio, tail=slack.tail)

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
        grid = power_below(scale * _GRID_PER_SCALE)
        noisy = noisy_integers(on_grid(center, grid), scale / grid, "gaussian", seed)
        return noisy.astype(np.float64) * grid
