"""The papers' algorithms with the noise that the papers print, whatever that guarantees.

The library has one calibration of each: the least noise with which epsilon and delta hold. These
are here to draw the papers' figures. After `fit`, `privacy_` states what the printed noise gives.

    TDDLClassifier(**algorithm_2(TDDLClassifier, n_samples=10_000)).fit(X, y, X_public=Z)

Sources: Jain and Thakurta (2013), "Differentially private learning with kernels"; Sarpatwar et al.
(2019), "Differentially Private Distributed Data Summarization under Covariate Shift".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from sklearn.base import is_classifier

from skdpsumm._computing import Floats, advance
from skdpsumm._sklearn import Interval
from skdpsumm.features._feature_maps import GRID
from skdpsumm.learners import ExponentialMechanism, LaplaceAnswers, NoisyThreshold
from skdpsumm.learners.erm._problem import Minimizer
from skdpsumm.learners.mechanisms._paper import ExponentialPlan, LaplacePlan, NoisyThresholdPlan
from skdpsumm.privacy import PureDP
from skdpsumm.privacy._mechanisms import ZeroConcentratedDP
from skdpsumm.privacy._noise import secret_generator
from skdpsumm.privacy._threshold import ThresholdDP
from skdpsumm.summaries import Auction
from skdpsumm.summaries._auction import FIRST_STEPS, LATER_STEPS, MWEM, MWEMNoise, coth_less_pole
from skdpsumm.summaries._protocol import TargetMean

# n lambda of the kernel paper's experiments: LibSVM with C = 0.001.
REGULARIZATION = 1000.0


def noise_of_answers(terms, n_rounds):
    """Return 1 / epsilon_0 of Algorithms 1 and 3, in units of the scores; n lambda is our Lambda.

    It is 50 sqrt(B) log(4 / delta) / epsilon times what a row that is replaced moves.
    """
    row = terms.loss.lipschitz * terms.radius**2 / terms.regularization
    return 100 * row * math.sqrt(n_rounds) * math.log(4 / terms.delta) / terms.epsilon


def better_statement(epsilon0, rho, terms):
    """Return the better of two statements about one release, by epsilon at the delta asked for."""
    return min(
        (PureDP(epsilon0), ZeroConcentratedDP(rho)), key=lambda cost: cost.epsilon(terms.delta)
    )


def needs_delta(terms):
    """Raise ValueError where the paper's noise has no value."""
    if terms.is_private and terms.delta == 0:
        raise ValueError("The printed noise divides by delta: set delta > 0.")
    return terms.is_private


# ---- Algorithm 1, PINP


class PrintedThresholdPlan(NoisyThresholdPlan):
    """The paper's test with the paper's noise."""

    def _calibrate(self):
        needs_delta(self.terms)
        n_values = int(self.terms.n_scores)
        noise = noise_of_answers(self.terms, self.n_updates)
        self._scale = noise / self.grid
        self.mechanism = ThresholdDP(self.norm / self._scale, self.n_updates, n_values)
        self.sigma = 4 * self._log * noise


class PrintedThreshold(NoisyThreshold):
    """Algorithm 1: ``1 / epsilon_0 = 100 L R^2 sqrt(B) log(4 / delta) / (n lambda epsilon)``."""

    name = "threshold as printed"
    _plan = PrintedThresholdPlan


# ---- Algorithm 2, TDDL


class PrintedLaplacePlan(LaplacePlan):
    """Answers at public points with the paper's noise, and its set C: a ball of some radius."""

    def __init__(self, space, points, terms, norm_constraint):
        super().__init__(space, points, terms)
        self.norm_constraint = norm_constraint

    def _calibrate(self, norm, size):
        terms = self.terms
        if not needs_delta(terms):
            return super()._calibrate(norm, size)
        row = terms.loss.lipschitz * terms.radius**2 / terms.regularization
        noise = row * math.sqrt(len(self.points) * math.log(1 / terms.delta)) / terms.epsilon
        ratio = norm / (noise / self._grid)
        return better_statement(math.sqrt(size) * ratio, ratio**2 / 2, terms), noise / self._grid

    def _fitted(self, answers):
        return constrained_least_squares(self._gram, answers, self.norm_constraint)


def constrained_least_squares(gram: Floats, answers: Floats, bound: float) -> Floats:
    """Return c that minimises ``|K c - y|^2`` subject to ``c^T K c <= bound^2``.

    With ``K = U diag(l) U^T`` and ``u = U^T y`` it is ``c(nu) = U (u / (l + nu))``, where nu = 0 if
    that is in the ball, and else puts it on the sphere.
    """
    sizes, vectors = eigh(gram)
    kept = sizes > 1e-10 * sizes.max()  # smaller eigenvalues are taken as zero
    sizes, rotated, back = sizes[kept], vectors[:, kept].T @ answers, vectors[:, kept]
    energy = (rotated**2).sum(axis=1)

    def excess(log_nu: float) -> float:
        return float((sizes * energy / (sizes + math.exp(log_nu)) ** 2).sum()) - bound**2

    if (energy / sizes).sum() <= bound**2:
        return back @ (rotated / sizes[:, None])
    low, high = math.log(sizes.min()) - 40, math.log(sizes.max()) + 1
    while excess(high) > 0:
        high += 10
    return back @ (rotated / (sizes + math.exp(brentq(excess, low, high)))[:, None])


class PrintedLaplace(LaplaceAnswers):
    """Algorithm 2: ``v = L R^2 sqrt(T log(1 / delta)) / (n lambda epsilon)``.

    The constant of the paper's O(...) is not printed; it is 1 here. `norm_constraint` is the radius
    of the paper's set C, in the norm of the space.
    """

    name = "laplace as printed"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LaplaceAnswers._parameter_constraints,
        "norm_constraint": [Interval(Real, 1e-60, 1e60, closed="both")],
    }

    def __init__(self, *, norm_constraint=1.0, n_landmarks=256):
        super().__init__(n_landmarks=n_landmarks)
        self.norm_constraint = norm_constraint

    def plan(self, space, terms, public):
        return PrintedLaplacePlan(space, public, terms, self.norm_constraint)


# ---- Algorithm 3, TDIL


class PrintedExponentialPlan(ExponentialPlan):
    """Algorithm 3 with the paper's noise and test.

    A round is three private accesses: the choice of z with weight ``exp(c |<phi(z), w_t - w*>|)``,
    where ``c = epsilon_0 n lambda / (8 L R^2)``; the test, which adds Lap(1 / epsilon_0) to a score
    and says whether, and to which side, it is farther than sigma from w_t's; and line 8's answer,
    another such score. All B rounds are counted, with their answers, though nothing uses these and
    they are not drawn. The choice is ``2 c Delta``-DP, and of bounded range as much.
    """

    def __init__(self, space, terms, n_rounds, candidates, failure_probability):
        super().__init__(space, terms, n_rounds, candidates)
        logarithm = math.log(2 * n_rounds) - math.log(failure_probability)
        self._sigma = 4 * logarithm * noise_of_answers(terms, n_rounds)

    def _calibrate(self):
        terms, n_rounds = self.terms, self.n_rounds
        noise = noise_of_answers(terms, n_rounds)
        row = terms.loss.lipschitz * terms.radius**2 / terms.regularization
        self._kind, self._scale = "laplace", noise / self._grid
        self._select = 2 * self._selection_unit * self._grid / (8 * row * noise)
        ratio = self._unit / self._scale
        pure = self._select + 2 * math.sqrt(terms.n_scores) * ratio
        rho = self._select**2 / 8 + ratio**2
        return better_statement(n_rounds * pure, n_rounds * rho, terms)

    def release(self, problem):
        """Return the hypothesis after the last round."""
        exact = problem.minimize()
        rng = secret_generator(self.terms.seed(4))
        hypothesis = Minimizer.zero(self.space, self.terms.n_scores)
        points: list[Floats] = []
        steps: list[Floats] = []
        length = self._sigma / (2 * self.space.radius**2)
        for t in range(self.n_rounds):
            z = self._choose(exact, hypothesis, t, rng)
            measured = self._measure(exact.careful_scores(z[None])[0], t)
            difference = measured - hypothesis.scores(z[None])[0]
            above = np.abs(difference) > self._sigma
            if above.any():
                points.append(z)
                steps.append(np.where(above, length * np.sign(difference), 0.0))
                hypothesis = Minimizer(self.space, np.array(steps), np.array(points))
            advance()
        return hypothesis


class PrintedExponential(ExponentialMechanism):
    """Algorithm 3; `failure_probability` is beta, for the threshold of the test."""

    name = "exponential as printed"

    def __init__(self, *, n_rounds=10, candidates=None, n_landmarks=256, failure_probability=0.05):
        super().__init__(n_rounds=n_rounds, candidates=candidates, n_landmarks=n_landmarks)
        self.failure_probability = failure_probability

    def plan(self, space, terms, public):
        if not needs_delta(terms):
            return super().plan(space, terms, public)
        beta = float(self.failure_probability)
        return PrintedExponentialPlan(space, terms, int(self.n_rounds), public, beta)


# ---- parameters of the kernel paper's experiments


def experiment(learner):
    """Return L and R, and the parameters that do not depend on the algorithm.

    Classifiers have a hinge, with L = 1, and the cubic kernel, with R^2 = (1 + 1)^3. Regressors
    have least squares on what is 0 or 1; residuals are clipped, so that L is 2.
    """
    common = {"adjacency": "replace_one", "norm_bound": 1.0, "regularization": REGULARIZATION}
    if is_classifier(learner()):
        return 1.0, 8**0.5, {**common, "kernel": "poly", "gamma": 1.0, "loss": "hinge"}
    return 2.0, 1.0, {**common, "kernel": "linear", "loss": "squared", "y_bounds": (0, 1)}


def algorithm_1(
    learner, n_samples=500_000, *, epsilon=1.0, delta=1e-6, max_queries=1000, beta=0.05
):
    """Return the parameters of PINP as printed; `epsilon` is what the paper claims.

    ``B = n lambda epsilon C / (200 sqrt(2) L R log(2 T / beta) log(4 / delta))``, rounded up, with
    the paper's ``C = 2 L R / lambda``. Our copy of the paper has ``C^2`` in B, which the error
    bound contradicts. The paper prints no T, delta or beta, and has no experiment with PINP: kernel
    and loss are those of Figure 2.
    """
    logarithms = math.log(2 * max_queries / beta) * math.log(4 / delta)
    updates = math.ceil(2 * n_samples * epsilon / (200 * math.sqrt(2) * logarithms))
    mechanism = PrintedThreshold(
        n_updates=updates, max_queries=max_queries, failure_probability=beta
    )
    *_, common = experiment(learner)
    return {**common, "mechanism": mechanism, "epsilon": epsilon, "delta": delta}


def algorithm_2(learner, n_samples=500_000, *, epsilon=1.0, delta=1e-6):
    """Return the parameters of TDDL as printed: the paper's Figure 2.

    C is Corollary 6's ball of radius ``2 L R / lambda``. Give T public rows to `fit`; in the paper,
    ``T = O(n epsilon / sqrt(log(1 / delta)))``.
    """
    lipschitz, radius, common = experiment(learner)
    mechanism = PrintedLaplace(norm_constraint=2 * lipschitz * radius * n_samples / REGULARIZATION)
    return {**common, "mechanism": mechanism, "epsilon": epsilon, "delta": delta}


def algorithm_3(learner, n_samples=500_000, *, epsilon=1.0, delta=1e-6, beta=0.05):
    """Return the parameters of TDIL as printed.

    ``B = (n epsilon / (100 L R log(4 / delta)))^(2/3)``, rounded up. The power is unreadable in our
    copy: the error bound's ``n^(2/3)`` needs this one. The kernel is linear, because S can then be
    the whole ball in place of a net. What the noise gives grows with Lambda, because the weight
    with which line 5 chooses has n lambda once too often.
    """
    lipschitz, _, common = experiment(learner)
    reach = n_samples * epsilon / (100 * lipschitz * math.log(4 / delta))
    mechanism = PrintedExponential(n_rounds=math.ceil(reach ** (2 / 3)), failure_probability=beta)
    common = {**common, "kernel": "linear"}
    return {**common, "mechanism": mechanism, "epsilon": epsilon, "delta": delta}


# ---- the auction of the data summarization paper

# Its Table 1.
TARGET_EPSILON = 0.01
FIRST_EPSILON, LATER_EPSILON = 0.05, 0.01


@dataclass(frozen=True)
class PrintedMWEM(MWEM):
    """Algorithm 2 on its grid S of step `grid_step` (eta); it returns the mean of P_avg.

    With weights ``exp(epsilon psi_i)`` and ``Lap(1 / epsilon)`` a step costs three times what is
    claimed, for a Delta of 2.
    """

    grid_step: float = field(kw_only=True)

    @classmethod
    def of(cls, epsilon, n_steps, sensitivity, grid_step):
        """Return Algorithm 2 with the paper's parameter, accounted at its true cost."""
        chosen, measured = 2 * sensitivity * epsilon, sensitivity * epsilon
        return cls(n_steps, chosen, measured, sensitivity, grid_step=grid_step)

    def _tilted_mean(self, tilt):
        # A geometric series: the sum over k points with step eta.
        half, k = self.grid_step / 2, round(2 / self.grid_step) + 1
        return k * half * coth_less_pole(k * half * tilt) - half * coth_less_pole(half * tilt)

    def _result(self, steps):
        return np.mean(steps, axis=0)


def quantise(grid, step, coins):
    """Round values in units of 2**-15 to multiples of `step`, at random and without bias.

    The procedure QUANTIZATION of Algorithm 2. It changes no guarantee and adds variance.
    """
    place = grid / (GRID * step)
    low = np.floor(place)
    rounded = (low + (coins.random(grid.shape) < place - low)) * (step * GRID)
    return np.clip(np.rint(rounded), -GRID, GRID)


class PrintedMean(TargetMean):
    """h2 of the target as printed. It takes no groups, as the auction does not."""

    def __init__(self, embedding, n_target, mwem):
        self.embedding, self.n_target, self.mwem = embedding, n_target, mwem
        self.mechanism = ZeroConcentratedDP(mwem.rho)

    def release(self, X, noise_seed, groups=None):
        coins = np.random.default_rng(None if noise_seed is None else [noise_seed, 1])
        grid = quantise(self.embedding.grid(X), self.mwem.grid_step, coins)
        sums = grid.sum(axis=0, dtype=np.float64).astype(np.int64)
        means, _ = self.mwem.release(sums, self.n_target, MWEMNoise(noise_seed))
        one = math.sqrt(2) * self.mwem.sensitivity / self.mwem.epsilon_measure
        self.noise_std = one / self.n_target * self.embedding.scale
        return means * self.embedding.scale


class PrintedAuction(Auction):
    """The auction with the paper's numbers, whose true cost `privacy_` states; it ignores epsilon.

    eps_v is 0.01 with T = 1656; 0.05 in the first round, and 0.01 / sqrt(5 p) in all others, with T
    = 5. eta, the step of the quantisation and of h2's grid, is ``1 / d``, as in Theorem 2.

    Parameters
    ----------
    bid : {"printed", "corrected"}, default="printed"
        "printed" is step 6 of the paper, whose sign is wrong and whose weight is on the wrong term:
        it chooses rows far from the target. "corrected" is that of `Auction`.
    """

    def __init__(self, X_seed=None, *, bid="printed", n_target=None, max_share_per_owner=None):
        super().__init__(X_seed, n_target=n_target, max_share_per_owner=max_share_per_owner)
        self.bid = bid

    def is_nominal(self):
        return False

    def plan_target(self, embedding, terms):
        if not terms.is_private:
            return super().plan_target(embedding, terms)
        sensitivity = 2 if terms.adjacency == "replace_one" else 1
        step = 1 / embedding.n_features
        mwem = PrintedMWEM.of(TARGET_EPSILON, FIRST_STEPS, sensitivity, step)
        if terms.n_target is None:
            raise ValueError("n_target is None: give PrintedAuction a public number to divide by.")
        return PrintedMean(embedding, terms.n_target, mwem)

    def summary_calls(self, embedding, terms):
        sensitivity = 4 if terms.adjacency == "replace_one" else 2
        p, step = terms.n_select, 1 / embedding.n_features
        later = LATER_EPSILON / math.sqrt(p * LATER_STEPS)
        first = PrintedMWEM.of(FIRST_EPSILON, FIRST_STEPS, sensitivity, step)
        return [first] + [PrintedMWEM.of(later, LATER_STEPS, sensitivity, step)] * (p - 1)

    def cost_of_calls(self, calls, terms):
        return ZeroConcentratedDP(sum(mwem.rho for mwem in calls[1:]))

    def rounded(self, rows, embedding, coins):
        return quantise(rows, 1 / embedding.n_features, coins)

    def direction(self, target, mean, k, n_seeds):
        if self.bid == "corrected":
            return super().direction(target, mean, k, n_seeds)
        return mean - (k + 1) / (k + 2) * target


# The paper's Table 1, as keyword arguments of `PrivateMMDSummarizer`. Give the public seed rows and
# the number of target rows to the protocol: ``set_params(X_seed=..., n_target=...)``.
SUMMARIZATION = {
    "protocol": PrintedAuction(max_share_per_owner=1.0),
    "gamma": 0.1,
    "n_components": 140,
    "adjacency": "replace_one",
    "delta": 1e-4,
}
