"""The algorithms of Jain and Thakurta (2013), with budgets that hold: for comparison.

Algorithm 1 (PINP) answers from a public hypothesis, and pays only where it is wrong. Each query is
the scores of one point, <w*, phi(z)>. Test and answers are calibrated to Delta, and ask nothing
else of a query. A noisy test tells whether the public hypothesis w_t is off by more than sigma in
any score; only then are noisy answers released, and w_t updated by eta sign(d) phi(z). That is one
update of all scores. After B updates, or T points, all answers come from the hypothesis.

Algorithm 2 (TDDL) adds Laplace noise to answers at Z, and fits least squares.

Algorithm 3 (TDIL) asks where the hypothesis is worst. In each of B rounds the exponential mechanism
draws a point z with weight ``exp(e_s |<phi(z), w_t - w*>| / (2 Delta))``, its score is measured
with noise, and the hypothesis is fitted to all measurements. Every round is charged, whether or not
it taught anything; so there is no noisy test to pay for.

All scores of a point together move by ``Delta = Delta_w R`` at most in L2, for that is how far
minimisers of neighbours are apart, times the norm of phi(z): whether they differ in a row or in a
group.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.stats import vonmises_fisher

from ..._computing import TINY, Floats, advance, power_below
from ..._sklearn import Interval
from ...privacy import PureDP
from ...privacy._mechanisms import Mechanism, Unprotected, ZeroConcentratedDP, zcdp_rho
from ...privacy._noise import (
    check_scale,
    exponential_choice,
    noisy_integers,
    nominal_mechanism,
    on_grid,
    secret_generator,
)
from ...privacy._threshold import ThresholdDP, threshold_ratio
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
from ._base import AnsweredQueries, LearnerMechanism, Plan, public_regularization

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def score_units(space: Space, terms: Terms) -> tuple[float, float]:
    """Return the grid of one score, and in its units how far rows and float64 may move the score.

    Rounding to the grid comes on top: half a unit for either neighbour.
    """
    moved, rounding = terms.sensitivity * terms.radius, score_rounding(space, terms)
    if terms.is_private:
        check_rounding(rounding, moved, "take a smaller regularization")
    grid = power_below(moved * GRID_PER_SENSITIVITY)
    return grid, (moved + 2 * rounding) / grid


# ---- Algorithm 1


class UpdatePlan(Plan, ABC):
    """How a query is tested and answered.

    Parameters
    ----------
    space : Space
    terms : Terms
    given : UpdateMechanism
        Has B, T and beta: with at least 1 - beta, no query is off by more than the theorem says.

    Attributes
    ----------
    n_updates : int
        B.
    max_queries : int
        T.
    mechanism : Mechanism
        The cost of all queries together.
    sigma : float
        The threshold of the test, in units of the scores.
    """

    def __init__(self, space: Space, terms: Terms, given: UpdateMechanism):
        self.space, self.terms = space, terms
        self.n_updates, self.max_queries = int(given.n_updates), int(given.max_queries)
        self.grid, moved = score_units(space, terms)
        # How far one score moves, and all of a point in L2: rounding adds half a unit for either
        # neighbour to each.
        self.unit = (moved + 1) * ROUNDED_UP
        self.norm = (moved + math.sqrt(terms.n_scores)) * ROUNDED_UP
        failure = float(given.failure_probability)
        self._log = math.log(2 * self.max_queries) - math.log(failure)
        self._n_drawn = 0
        if terms.is_private:
            self._calibrate()
            check_scale(self.sigma / self.grid)  # the largest of all
        else:
            self.mechanism = Unprotected("epsilon is infinite and no noise was added")
        # The public hypothesis may be off by sigma, and nobody pays to correct it.
        self.score_noise = self.sigma

    @abstractmethod
    def _calibrate(self) -> None:
        """Set `mechanism`, `sigma` and the scales of the noise."""

    def start_epoch(self) -> None:
        """Prepare for the queries up to the next update."""

    @abstractmethod
    def answer(self, exact: Integers, public: Integers) -> tuple[Integers, Flags] | None:
        """Return noisy scores, and which of them to release, or None if all public ones will do.

        All are in grid units, one entry per score.
        """

    def open(self, problem: Problem) -> UpdateAnswers:
        """Return the answering object, which holds the private minimiser."""
        return UpdateAnswers(problem.minimize(), self)

    def _laplace(self, values: Integers, scale: float) -> Integers:
        self._n_drawn += 1
        return noisy_integers(values, scale, "laplace", self.terms.seed(2, self._n_drawn))


class SparseVectorPlan(UpdatePlan):
    """AboveThreshold for each update, then fresh answers (Lyu, Su and Li 2017).

    A point's query is its largest error, over all scores, which moves by Delta at most. An epoch
    has threshold noise Lap(2 Delta / e1), query noise Lap(4 Delta / e1) and q answers with Lap(b).
    If these move by Delta_k, they are ``sum |Delta_k| / b <= sqrt(q) Delta / b``-DP, and ``sum
    Delta_k^2 / (2 b^2) <= (Delta / b)^2 / 2``-zCDP, as each is Delta_k / b-DP. So with ``b =
    sqrt(q) Delta / e2`` it is (e1 + e2)-DP, B (e1 + e2) in all, and with ``b = Delta / e2``,
    whatever q, B (e1^2 + e2^2) / 2-zCDP.
    """

    def _calibrate(self):
        # This part of the budget of an epoch of "svt" is spent on the test.
        terms, part = self.terms, 0.8
        if terms.delta == 0:
            each = terms.epsilon / self.n_updates
            self._test, reply = part * each, (1 - part) * each / math.sqrt(terms.n_scores)
            self.mechanism = PureDP(terms.epsilon)
        else:
            rho = zcdp_rho(terms.epsilon, terms.delta)
            self._test = math.sqrt(2 * part * rho / self.n_updates)
            reply = math.sqrt(2 * (1 - part) * rho / self.n_updates)
            self.mechanism = ZeroConcentratedDP(rho)
        self._scale = self.norm / reply
        self.sigma = 4 * self.unit / self._test * self._log * self.grid

    def start_epoch(self):
        threshold = np.array([round(self.sigma / self.grid)])
        self._threshold = int(self._laplace(threshold, 2 * self.unit / self._test)[0])

    def answer(self, exact, public):
        error = np.abs(exact - public).max(keepdims=True)
        if self._laplace(error, 4 * self.unit / self._test)[0] < self._threshold:
            return None
        return self._laplace(exact, self._scale), np.ones(len(exact), dtype=bool)


class NoisyThresholdPlan(UpdatePlan):
    """The paper's test: a noisy answer, compared with a fixed threshold and released if above.

    Every score gets its own, and all that are above are one update of a vector. Accounted by
    `threshold_ratio`, some 50 times tighter than as printed. No pure guarantee exists: every test
    at the threshold tells a little.
    """

    def _calibrate(self):
        terms = self.terms
        n_values = int(terms.n_scores)
        ratio = threshold_ratio(terms.epsilon, terms.delta, self.n_updates, n_values)
        self._scale = self.norm / ratio
        self.mechanism = ThresholdDP(ratio, self.n_updates, n_values)
        self.sigma = 4 * self._log * self._scale * self.grid

    def answer(self, exact, public):
        noisy = self._laplace(exact, self._scale)
        above = np.abs(noisy - public) * self.grid > self.sigma
        return (noisy, above) if above.any() else None


class UpdateMechanism(LearnerMechanism):
    """What both forms of Algorithm 1 have in common."""

    learners = ("PINP",)
    _plan: ClassVar[type[UpdatePlan]]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_updates": [Interval(Integral, 1, None, closed="left")],
        "max_queries": [Interval(Integral, 1, None, closed="left")],
        "failure_probability": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self, *, n_updates: int = 5, max_queries: int = 1000, failure_probability: float = 0.05
    ):
        self.n_updates = n_updates
        self.max_queries = max_queries
        self.failure_probability = failure_probability

    def plan(self, space: Space, terms: Terms, public: Any) -> Plan:
        return self._plan(space, terms, self)

    def default_regularization(
        self, space: Space, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        return super().default_regularization(space, terms, None, charged=charged)


class SparseVector(UpdateMechanism):
    """Algorithm 1 with AboveThreshold: a private test, then a fresh answer where it is wrong.

    It answers from a public hypothesis, and pays where that is wrong. It is worse than the
    functional mechanism by far in all cases we tried, and is there for comparison.

    Parameters
    ----------
    n_updates : int, default=5
        B, how many updates of the hypothesis are paid for, each of all scores of a point. The
        default is small because all updates share the budget. "svt" is better than "threshold" for
        up to five.
    max_queries : int, default=1000
        T, the number of queries after which answers come from the hypothesis alone. It sets the
        threshold of the test. The default is generous, because the threshold grows with the
        logarithm of T alone.
    failure_probability : float, default=0.05
        beta of the paper's error bound, for the same threshold. The default is the usual 5 %.

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 5;
    Lyu, Su and Li (2017), "Understanding the sparse vector technique".

    Examples
    --------
    >>> from skdpsumm import PINPClassifier
    >>> from skdpsumm.learners import SparseVector
    >>> model = PINPClassifier(gamma=1.0, mechanism=SparseVector(n_updates=2), epsilon=10.0)
    >>> model.fit([[0.0], [1.0]] * 10, [0, 1] * 10).n_updates_left_
    2
    """

    name = "svt"
    takes_groups = True
    _plan = SparseVectorPlan


class NoisyThreshold(UpdateMechanism):
    """Algorithm 1 with the paper's own test: one noisy answer, released if it is far enough off.

    It answers from a public hypothesis, and pays where that is wrong. It is worse than the
    functional mechanism by far in all cases we tried, and is there for comparison. It has no
    guarantee with ``delta=0``, because every test at the threshold tells a little.

    Parameters
    ----------
    n_updates : int, default=5
        B, how many updates of the hypothesis are paid for, each of all scores of a point. The
        default is small because all updates share the budget. "svt" is better than "threshold" for
        up to five.
    max_queries : int, default=1000
        T, the number of queries after which answers come from the hypothesis alone. It sets the
        threshold of the test. The default is generous, because the threshold grows with the
        logarithm of T alone.
    failure_probability : float, default=0.05
        beta of the paper's error bound, for the same threshold. The default is the usual 5 %.

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 5.
    The budget holds, and is some 50 times tighter than as printed. The paper's are ``sigma =
    4 log(2 T / beta) / epsilon_0`` and the step ``sigma / (2 R^2)``.

    Examples
    --------
    >>> from skdpsumm import PINPClassifier
    >>> from skdpsumm.learners import NoisyThreshold
    >>> model = PINPClassifier(gamma=1.0, mechanism=NoisyThreshold(n_updates=2), epsilon=10.0)
    >>> model.fit([[0.0], [1.0]] * 10, [0, 1] * 10).n_updates_left_
    2
    """

    name = "threshold"
    takes_groups = True
    is_pure = False
    _plan = NoisyThresholdPlan


class UpdateAnswers(AnsweredQueries):
    """The state of Algorithm 1: the public hypothesis, and the updates that are left."""

    def __init__(self, minimizer: Minimizer, plan: UpdatePlan):
        super().__init__(minimizer.coefficients.shape[1])
        self._minimizer, self._plan = minimizer, plan
        self.n_updates_left = plan.n_updates
        self._updates: list[tuple[Floats, Floats]] = []  # each point, and the step towards it
        self._epoch_is_over = False
        plan.start_epoch()

    def hypothesis(self) -> Minimizer:
        """Return w_t, an expansion in the points of the updates."""
        if not self._updates:
            return Minimizer.zero(self._plan.space, self._n_scores)
        points, steps = map(np.array, zip(*self._updates, strict=True))
        return Minimizer(self._plan.space, steps, points)

    def _draw(self, X):
        exact = self._minimizer.careful_scores(X)
        answers, fresh = np.empty_like(exact), np.zeros(len(X), dtype=bool)
        for i, z in enumerate(X):
            answers[i], fresh[i] = self._answer_point(z, exact[i], len(self._known) + i)
        return answers, fresh

    def _answer_point(self, z: Floats, exact: Floats, round_: int) -> tuple[Floats, bool]:
        """Return the scores of one point, and whether any of them is a fresh answer."""
        self._next_epoch()
        public = self.hypothesis().scores(z[None])[0]
        if self.n_updates_left == 0 or round_ >= self._plan.max_queries:
            return public, False
        grid = self._plan.grid
        self._epoch_is_over = True  # until it is known, for an interrupt may tell that it is
        reply = self._plan.answer(on_grid(exact, grid), on_grid(public, grid))
        if reply is None:
            self._epoch_is_over = False
            return public, False
        self._next_epoch()
        noisy, released = reply
        answers = np.where(released, noisy * grid, public)
        self._update(z, answers - public)
        return answers, True

    def _next_epoch(self) -> None:
        """Count an update, and begin anew. An interrupt may cost another one, but saves none."""
        if self._epoch_is_over:
            self.n_updates_left = max(self.n_updates_left - 1, 0)
            self._plan.start_epoch()
            self._epoch_is_over = False

    def _update(self, z: Floats, differences: Floats) -> None:
        length = self._plan.sigma / (2 * self._plan.space.radius**2)
        self._updates.append((z, length * np.sign(differences)))


# ---- Algorithm 2


class LaplaceAnswers(LearnerMechanism):
    """The paper's Algorithm 2: Laplace noise on answers at public points, then least squares.

    It is there for comparison. The functional mechanism is much better.

    Parameters
    ----------
    n_landmarks : int, default=256
        How many public points are drawn from the schema if you give `fit` no X_public. The default
        is smaller than that of `FunctionalMechanism`, because the noise grows with their number.

    Notes
    -----
    Least squares need no radius, unlike in the paper: they shrink by an unbiased estimate of the
    error, because the variance of the noise is public.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.1.

    Examples
    --------
    >>> from skdpsumm import TDDLClassifier
    >>> from skdpsumm.learners import LaplaceAnswers
    >>> model = TDDLClassifier(mechanism=LaplaceAnswers(n_landmarks=64))
    >>> model.get_params()["mechanism__n_landmarks"]
    64
    """

    name = "laplace"
    learners = ("TDDL",)
    takes_groups = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_landmarks": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, *, n_landmarks: int = 256):
        self.n_landmarks = n_landmarks

    def plan(self, space: Space, terms: Terms, public: Any) -> Plan:
        if public is None:
            raise ValueError(
                "mechanism='laplace' answers at public points: pass them to fit as X_public."
            )
        return LaplacePlan(space, public, terms)


class LaplacePlan(Plan):
    """Answers at the public points with Laplace noise, and a function fitted to them.

    Parameters
    ----------
    space : Space
    points : ndarray of shape (T, n_columns)
        Z.
    terms : Terms

    Notes
    -----
    The vector of T q answers moves by at most ``Delta_w |K_ZZ|^(1/2)`` in L2. The noise has scale
    gamma, that over ``sqrt(2 rho)`` for rho-zCDP, and ``sqrt(T q)`` times that over epsilon for
    pure DP.
    """

    def __init__(self, space: Space, points: NDArray, terms: Terms):
        self.space, self.points, self.terms = space, points, terms
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
        return Minimizer(self.space, self._fitted(answers), self.points)

    def _fitted(self, answers: Floats) -> Floats:
        """Return the coefficients of a function with about these answers."""
        return shrunk_least_squares(self._gram, answers, 2 * self.scale**2)


def shrunk_least_squares(gram: Floats, answers: Floats, variance: float) -> Floats:
    """Return c(nu) for the nu that minimises Mallows' C_p, given the variance of the noise."""
    sizes, vectors = eigh(gram)
    kept = sizes > 1e-10 * sizes.max()  # smaller eigenvalues are taken as zero
    sizes, rotated, back = sizes[kept], vectors[:, kept].T @ answers, vectors[:, kept]
    if variance == 0 or not len(sizes):  # points with features of zero alone
        return back @ (rotated / sizes[:, None])
    energy = (rotated**2).sum(axis=1)
    candidates = sizes.max() * np.logspace(-8, 3, 111)
    gains = sizes / (sizes + candidates[:, None])
    risks = (1 - gains) ** 2 @ energy + 2 * variance * answers.shape[1] * gains.sum(axis=1)
    nu = candidates[np.argmin(risks)]
    return back @ (rotated / (sizes + nu)[:, None])


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
