"""TDDL and TDIL of the paper: noise on answers at points, public or chosen in private.

Algorithm 2 adds Laplace noise to answers at Z, and fits least squares in a ball.

Algorithm 3, with a budget that holds, asks where the hypothesis is worst. In each of B rounds the
exponential mechanism draws a point z with weight ``exp(e_s |<phi(z), w_t - w*>| / (2 Delta))``, its
score is measured with noise, and the hypothesis is fitted to all measurements. Every round is
charged, whether or not it taught anything; so there is no noisy test to pay for.

All scores of a point together move by ``Delta = Delta_w R`` at most, for that is how far minimisers
of neighbours are apart, times the norm of phi(z): whether they differ in a row or in a group.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.stats import vonmises_fisher

from ..._computing import TINY, Floats, advance, power_below
from ..._sklearn import Interval
from ...privacy._mechanisms import Mechanism, PureDP, ZeroConcentratedDP, zcdp_rho
from ...privacy._noise import (
    check_scale,
    exponential_choice,
    noisy_integers,
    nominal_mechanism,
    on_grid,
    secret_generator,
)
from ..erm._problem import (
    GRID_PER_SENSITIVITY,
    ROUNDED_UP,
    FeatureSpace,
    Minimizer,
    Problem,
    Space,
    Terms,
    check_rounding,
    largest_eigenvalue,
    largest_weight,
    score_rounding,
)
from ._base import LearnerMechanism, Plan, public_regularization


def score_units(space: Space, terms: Terms) -> tuple[float, float]:
    """Return the grid of one score, and in its units how far rows and float64 may move the score.

    Rounding to the grid comes on top: half a unit for either neighbour.
    """
    moved, rounding = terms.sensitivity * terms.radius, score_rounding(space, terms)
    if terms.is_private:
        check_rounding(rounding, moved, "take a smaller regularization")
    grid = power_below(moved * GRID_PER_SENSITIVITY)
    return grid, (moved + 2 * rounding) / grid


# ---- Algorithm 2


class LaplaceAnswers(LearnerMechanism):
    """The paper's Algorithm 2: Laplace noise on answers at public points, then least squares.

    It is there for comparison. The functional mechanism is much better.

    Parameters
    ----------
    norm_constraint : float, default=None
        Radius of the paper's set C, in the norm of the space. The default needs no radius: it
        shrinks by an unbiased estimate of the error, because the variance of the noise is public.
    n_landmarks : int, default=256
        How many public points are drawn from the schema if you give `fit` no X_public. The default
        is smaller than that of `FunctionalMechanism`, because the noise grows with their number.

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
    takes_groups = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "norm_constraint": [None, Interval(Real, 1e-60, 1e60, closed="both")],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, *, norm_constraint: float | None = None, n_landmarks: int = 256):
        self.norm_constraint = norm_constraint
        self.n_landmarks = n_landmarks

    def plan(self, space: Space, terms: Terms, public: Any) -> Plan:
        if public is None:
            raise ValueError(
                "mechanism='laplace' answers at public points: pass them to fit as X_public."
            )
        return LaplacePlan(space, public, terms, self.norm_constraint)


class LaplacePlan(Plan):
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

    def __init__(self, space: Space, points: NDArray, terms: Terms, norm_constraint: float | None):
        self.space, self.points, self.terms = space, points, terms
        self.norm_constraint = norm_constraint
        self._gram = space.gram(points, points)
        self._grid = power_below(terms.sensitivity * space.radius * GRID_PER_SENSITIVITY)
        size = len(points) * terms.n_scores
        moved = math.sqrt(largest_eigenvalue(self._gram, space)) * terms.sensitivity
        rounding = math.sqrt(len(points)) * score_rounding(space, terms)
        if terms.is_private:
            check_rounding(rounding, moved, "take fewer X_public, or a smaller regularization")
        norm = ((moved + 2 * rounding) / self._grid + math.sqrt(size)) * ROUNDED_UP
        self.mechanism, scale = self._calibrate(norm, size)
        check_scale(scale)
        self.scale = scale * self._grid
        # The noise of an answer. The function that is fitted to all of them has less.
        self.score_noise = math.sqrt(2.0) * self.scale

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
    if variance == 0 or not len(sizes):  # points with features of zero alone
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
    # Smaller eigenvalues are taken as zero.
    kept = sizes > 1e-10 * sizes.max()
    return sizes[kept], vectors[:, kept].T @ answers, vectors[:, kept]


# ---- Algorithm 3


class ExponentialMechanism(LearnerMechanism):
    """The paper's Algorithm 3: in each round, choose a point in private and measure there.

    It is there for comparison. The functional mechanism is better.

    Parameters
    ----------
    n_rounds : int, default=10
        B, the number of rounds. The default is small because all rounds share the budget.
    candidates : array-like of shape (M, n_features), default=None
        The public set S of points that can be chosen. The default needs nothing from you: it is the
        ball of radius `norm_bound` for the linear kernel, and landmarks for
        other kernels.
    n_landmarks : int, default=256
        How many landmarks are drawn from the schema if a kernel has no `candidates`. The default is
        as many as `GradientDescent` draws.

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
    takes_groups = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "candidates": "no_validation",
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self, *, n_rounds: int = 10, candidates: ArrayLike | None = None, n_landmarks: int = 256
    ):
        self.n_rounds = n_rounds
        self.candidates = candidates
        self.n_landmarks = n_landmarks

    def plan(self, space: Space, terms: Terms, public: Any) -> Plan:
        if public is None and not space.is_whole_ball:
            raise ValueError(
                "mechanism='exponential' needs public rows as candidates to choose from, unless "
                "kernel='linear'."
            )
        return ExponentialPlan(space, terms, int(self.n_rounds), public)

    def default_regularization(
        self, space: Space, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        landmarks = public is not None and self.candidates is None
        return public_regularization(space, terms, len(public) if landmarks else 1)


class ExponentialPlan(Plan):
    """B rounds of a private choice of a point and a private measurement there.

    Parameters
    ----------
    space : Space
    terms : Terms
    n_rounds : int
        B.
    candidates : ndarray of shape (M, n_columns) or None
        The public set S. None takes all of the ball of radius `norm_bound`, which has a sampler
        for the linear kernel alone; its noise is idealised.

    Notes
    -----
    Selection is ``e_s``-DP and ``e_s^2 / 8``-zCDP (bounded range), a measurement ``e_m``-DP with
    Laplace or rho_m-zCDP with Gaussian noise; both get the same part of the budget.
    """

    def __init__(self, space: Space, terms: Terms, n_rounds: int, candidates: NDArray | None):
        self.space, self.terms, self.n_rounds = space, terms, n_rounds
        self.candidates = candidates
        self.idealised = terms.is_private and candidates is None
        self._grid, moved = score_units(space, terms)
        self._unit = (moved + math.sqrt(terms.n_scores)) * ROUNDED_UP
        # The floor of a norm moves by one unit more than the norm at most. The norm, of q integers
        # below 2**48, is rounded by less than q units.
        self._selection_unit = self._unit + 1 + terms.n_scores
        self._largest = largest_weight(terms) * terms.radius
        self.mechanism = self._calibrate()
        # The noise of a measurement. The function that is fitted to all of them has less.
        self.score_noise = math.sqrt(self._variance)
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
            return radius * v / max(float(np.linalg.norm(v)), TINY)
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
