"""TDIL as printed (Algorithm 3), with a budget that holds: ask where the hypothesis is worst.

In each of B rounds the exponential mechanism draws a point z with weight
``exp(e_s |<phi(z), w_t - w*>| / (2 Delta))``, its score is measured with noise, and the hypothesis
is fitted to all measurements. Every round is charged, whether or not it taught anything; so there
is no noisy test to pay for.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import vonmises_fisher
from sklearn.utils._param_validation import Interval

from ..._computing import advance
from ..._linear_systems import power_below
from ...privacy import PureDP
from ...privacy._mechanisms import Mechanism, ZeroConcentratedDP, zcdp_rho
from ...privacy._noise import (
    check_scale,
    exponential_choice,
    noisy_integers,
    nominal_mechanism,
    on_grid,
    secret_generator,
)
from ..erm._feature_space import FeatureSpace
from ..erm._problem import (
    ROUNDED_UP,
    Minimizer,
    Problem,
    Space,
    Terms,
    check_rounding,
    largest_weight,
    score_rounding,
)
from ._answers_at_points import shrunk_least_squares
from ._base import LearnerMechanism
from ._functional import public_regularization

Floats = NDArray[np.float64]

# Scores are rounded to this part of the sensitivity of one.
_GRID = 2.0**-20


class ExponentialMechanism(LearnerMechanism):
    """The paper's Algorithm 3: in each round, choose a point in private and measure there.

    Worse than the functional mechanism, and shown for comparison.

    Parameters
    ----------
    n_rounds : int, default=10
        B. The budget is shared by all rounds.
    candidates : array-like of shape (M, n_features), default=None
        The public set S of points that can be chosen. None is the ball of radius `norm_bound` for
        the linear kernel without intercept, and landmarks for other kernels.
    n_landmarks : int, default=256
        How many landmarks are drawn from `bounds` where a kernel has no `candidates`.

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.2.

    Examples
    --------
    >>> from skdpsumm import TDILClassifier
    >>> from skdpsumm.learners import ExponentialMechanism
    >>> model = TDILClassifier(mechanism=ExponentialMechanism(n_rounds=4), random_state=0)
    >>> model.fit([[0.0], [1.0]], [0, 1]).predictor_.points.shape
    (4, 1)
    """

    name = "exponential"
    learners = ("TDIL",)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "candidates": "no_validation",
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, *, n_rounds=10, candidates=None, n_landmarks=256):
        self.n_rounds = n_rounds
        self.candidates = candidates
        self.n_landmarks = n_landmarks

    def plan(self, space, terms, public):
        if public is None and not space.is_whole_ball:
            raise ValueError(
                "mechanism='exponential' has an exact sampler for the linear kernel without "
                "intercept alone; give public rows as candidates to choose from."
            )
        return ExponentialPlan(space, terms, int(self.n_rounds), public)

    def default_regularization(self, space, terms, public, *, charged):
        landmarks = public is not None and self.candidates is None
        return public_regularization(space, terms, len(public) if landmarks else 1)


class ExponentialPlan:
    """B rounds of a private choice of a point and a private measurement there.

    Parameters
    ----------
    space : Space
    terms : Terms
    n_rounds : int
        B.
    candidates : ndarray of shape (M, n_columns) or None
        The public set S. None takes all of the ball of radius `norm_bound`, which has a sampler
        for the linear kernel without intercept alone; its noise is idealised.

    Notes
    -----
    Selection is ``e_s``-DP and ``e_s^2 / 8``-zCDP (bounded range), a measurement ``e_m``-DP with
    Laplace or rho_m-zCDP with Gaussian noise; both get the same part of the budget.
    """

    def __init__(self, space: Space, terms: Terms, n_rounds: int, candidates: NDArray | None):
        self.space, self.terms, self.n_rounds = space, terms, n_rounds
        self.candidates = candidates
        self.idealised = terms.is_private and candidates is None
        moved, rounding = terms.sensitivity * terms.radius, score_rounding(space, terms)
        if terms.is_private:
            check_rounding(rounding, moved, "take a smaller regularization")
        self._grid = power_below(moved * _GRID)
        # Rounding to the grid moves either neighbour's scores by half a unit each.
        moved = (moved + 2 * rounding) / self._grid
        self._unit = (moved + math.sqrt(terms.n_scores)) * ROUNDED_UP
        # The floor of a norm moves by one unit more than the norm at most. The norm, of q integers
        # below 2**48, is rounded by less than q units.
        self._selection_unit = self._unit + 1 + terms.n_scores
        self._largest = largest_weight(terms) * terms.radius
        self.mechanism = self._calibrate()
        if terms.is_private:
            check_scale(max(self._scale, 2 * self._selection_unit / self._select))

    def _calibrate(self) -> Mechanism:
        """Set e_s and the scale of the measurements, and return the cost of all rounds."""
        epsilon, delta = self.terms.epsilon, self.terms.delta
        if not self.terms.is_private:
            return nominal_mechanism(epsilon, delta)
        if delta == 0:
            self._select = part = epsilon / (2 * self.n_rounds)
            self._kind = "laplace"
            self._scale = self._unit * math.sqrt(self.terms.n_scores) / part
            return PureDP(epsilon)
        rho = zcdp_rho(epsilon, delta)
        part = rho / (2 * self.n_rounds)
        self._select, self._kind = math.sqrt(8 * part), "gaussian"
        self._scale = self._unit / math.sqrt(2 * part)
        return ZeroConcentratedDP(rho)

    @property
    def _variance(self) -> float:
        """Variance of the noise of a measurement, in units of the scores."""
        if not self.terms.is_private:
            return 0.0
        factor = 2.0 if self._kind == "laplace" else 1.0
        return factor * (self._scale * self._grid) ** 2

    def release(self, problem: Problem) -> Minimizer:
        """Return the hypothesis after the last round."""
        exact = problem.minimize()
        rng = secret_generator(self.terms.seed(4))
        hypothesis = Minimizer.zero(self.space, self.terms.n_scores)
        points: list[Floats] = []
        answers: list[Floats] = []
        for t in range(self.n_rounds):
            points.append(self._choose(exact, hypothesis, t, rng))
            answers.append(self._measure(exact.careful_scores(points[-1][None])[0], t))
            asked = np.array(points)
            gram = self.space.gram(asked, asked)
            coefficients = shrunk_least_squares(gram, np.array(answers), self._variance)
            hypothesis = Minimizer(self.space, coefficients, asked)
            advance()
        return hypothesis

    def _choose(
        self, exact: Minimizer, hypothesis: Minimizer, t: int, rng: np.random.Generator
    ) -> Floats:
        """Return the point of round t."""
        if self.candidates is None:
            return self._choose_in_ball(exact, hypothesis, t, rng)
        exact_scores = on_grid(exact.careful_scores(self.candidates), self._grid)
        # Public scores beyond all exact ones would take digits from the difference.
        public = np.clip(hypothesis.scores(self.candidates), -self._largest, self._largest)
        differences = exact_scores - on_grid(public, self._grid)
        sizes = np.linalg.norm(differences.astype(np.float64), axis=1)
        errors = on_grid(np.floor(sizes), 1.0)
        if not self.terms.is_private:
            return self.candidates[np.argmax(errors)]
        scale = 2 * self._selection_unit / self._select
        simulated = rng if self.terms.noise_seed is not None else None
        return self.candidates[exponential_choice(errors, scale, simulated)]

    def _choose_in_ball(
        self, exact: Minimizer, hypothesis: Minimizer, t: int, rng: np.random.Generator
    ) -> Floats:
        """Return a point of the ball, drawn for the scores in turn: |<z, v>| for one v."""
        difference = exact.coefficients - _weights(hypothesis, exact.coefficients.shape)
        v = difference[:, t % self.terms.n_scores]
        radius = self.space.radius
        if not self.terms.is_private:
            return radius * v / max(float(np.linalg.norm(v)), 1e-300)
        delta = self.terms.sensitivity * radius
        kappa = self._select / (2 * delta) * radius * float(np.linalg.norm(v))
        return radius * sample_ball(v, kappa, rng)

    def _measure(self, scores: Floats, t: int) -> Floats:
        if not self.terms.is_private:
            return scores
        values = on_grid(scores, self._grid)
        noisy = noisy_integers(values, self._scale, self._kind, self.terms.seed(5, t))
        return noisy.astype(np.float64) * self._grid


def _weights(hypothesis: Minimizer, shape: tuple[int, ...]) -> Floats:
    if len(hypothesis.coefficients) == 0:
        return np.zeros(shape)
    space, points = cast(FeatureSpace, hypothesis.space), cast(Floats, hypothesis.points)
    return space.features(points).T @ hypothesis.coefficients


def sample_ball(v: Floats, kappa: float, rng: Any) -> Floats:
    """Return a point of the unit ball with density proportional to ``exp(kappa |<z, v>| / |v|)``.

    The first d coordinates of a uniform point of the sphere in R^(d+2) are uniform in the ball, so
    those of a von Mises-Fisher point, kept if on v's side, and a random sign, have this law.
    """
    length = float(np.linalg.norm(v))
    mean = np.zeros(len(v) + 2)
    mean[: len(v)] = v / length if length > 0 else np.eye(len(v))[0]
    law = vonmises_fisher(mean, max(kappa, 1e-9))
    while True:
        y = np.atleast_2d(law.rvs(1, random_state=rng))[0]
        if y @ mean >= 0:
            return y[: len(v)] * rng.choice([-1.0, 1.0])
