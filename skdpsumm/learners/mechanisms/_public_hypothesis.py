"""PINP of the paper (Algorithm 1): answer from a public hypothesis, pay only where it is wrong.

Each query is the scores of one point, <w*, phi(z)>, which together move by Delta = Delta_w R in L2,
for rows and for groups: test and answers are calibrated to Delta, and ask nothing else of a query.
A noisy test tells whether the public hypothesis w_t is off by more than sigma in any score; only
then are noisy answers released, and w_t updated by eta sign(d) phi(z). That is one update of all
scores. After B updates, or T points, all answers come from the hypothesis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..._computing import Floats
from ..._sklearn import Interval
from ...privacy._mechanisms import PureDP, Unprotected, ZeroConcentratedDP, zcdp_rho
from ...privacy._noise import check_scale, noisy_integers, on_grid
from ...privacy._threshold import ThresholdDP, threshold_ratio
from ..erm._problem import ROUNDED_UP, Minimizer, Problem, Space, Terms
from ._answers import AnsweredQueries
from ._answers_at_points import score_units
from ._base import LearnerMechanism, Plan

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
        seed = self.terms.seed(2, self._n_drawn)
        return noisy_integers(values, scale, "laplace", seed)


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
        n_scores = minimizer.coefficients.shape[1]
        super().__init__(n_scores)
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
