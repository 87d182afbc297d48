"""PINP as printed (Algorithm 1): answer from a public hypothesis, pay only where it is wrong.

Each query is one score of one point, <w*, phi(z)>, of sensitivity Delta = Delta_w R, for rows and
for groups: test and answers are calibrated to Delta, and ask nothing else of a query. A noisy test
tells whether the public hypothesis w_t is off by more than sigma; only then is a noisy answer
released, and w_t updated by eta sign(d) phi(z). After B updates, or T points, all answers come from
the hypothesis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..._docs import inherited_docs
from ..._linear_systems import Floats
from ...privacy import PureDP
from ...privacy._contract import estimator
from ...privacy._mechanisms import Mechanism, Unprotected, ZeroConcentratedDP, zcdp_rho
from ...privacy._noise import check_scale, noisy_integers
from ...privacy._threshold import ThresholdDP, threshold_ratio
from ..erm._problem import ROUNDED_UP, Minimizer, Problem, Space, Terms
from ._answers_at_points import score_units
from ._base import AnsweredQueries, LearnerMechanism
from ._functional import public_regularization

# Part of the budget of an epoch of "svt" that is spent on the test.
_TEST_SHARE = 0.8


class UpdatePlan(ABC):
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

    mechanism: Mechanism
    sigma: float
    idealised = False
    noise_is_exact = False

    def __init__(self, space: Space, terms: Terms, given: UpdateMechanism):
        self.space, self.terms = space, terms
        self.n_updates, self.max_queries = int(given.n_updates), int(given.max_queries)
        self.grid, moved = score_units(space, terms)
        self.unit = (moved + 1) * ROUNDED_UP
        failure = float(given.failure_probability)
        self._log = math.log(2 * self.max_queries) - math.log(failure)
        self._n_drawn = 0
        if terms.is_private:
            self._calibrate()
            check_scale(self.sigma / self.grid)  # the largest of all
        else:
            self.mechanism = Unprotected("epsilon is infinite and no noise was added")
            self.sigma = 0.0

    @property
    def score_noise(self) -> float:
        """sigma: the public hypothesis may be off by that much, and nobody pays to correct it."""
        return self.sigma

    @abstractmethod
    def _calibrate(self) -> None:
        """Set `mechanism`, `sigma` and the scales of the noise."""

    def start_epoch(self) -> None:  # noqa: B027
        """Prepare for the queries up to the next update."""

    @abstractmethod
    def answer(self, exact: int, public: int) -> int | None:
        """Return a noisy answer where the public one is too far off, all in grid units."""

    def open(self, problem: Problem) -> UpdateAnswers:
        """Return the answering object, which holds the private minimiser."""
        return UpdateAnswers(problem.minimize(), self)

    def _laplace(self, value: int, scale: float) -> int:
        self._n_drawn += 1
        seed = self.terms.seed(2, self._n_drawn)
        return int(noisy_integers(np.array([value]), scale, "laplace", seed)[0])


class SparseVectorPlan(UpdatePlan):
    """AboveThreshold for each update, then a fresh answer (Lyu, Su and Li 2017).

    An epoch has threshold noise Lap(2 Delta / e1), query noise Lap(4 Delta / e1) and an answer
    with Lap(Delta / e2): (e1 + e2)-DP, B (e1 + e2) in all, or B (e1^2 + e2^2) / 2-zCDP.
    """

    def _calibrate(self):
        terms, part = self.terms, _TEST_SHARE
        if terms.delta == 0:
            each = terms.epsilon / self.n_updates
            self._test, self._reply = part * each, (1 - part) * each
            self.mechanism = PureDP(terms.epsilon)
        else:
            rho = zcdp_rho(terms.epsilon, terms.delta)
            self._test = math.sqrt(2 * part * rho / self.n_updates)
            self._reply = math.sqrt(2 * (1 - part) * rho / self.n_updates)
            self.mechanism = ZeroConcentratedDP(rho)
        self.sigma = 4 * self.unit / self._test * self._log * self.grid

    def start_epoch(self):
        if self.terms.is_private:
            threshold = round(self.sigma / self.grid)
            self._threshold = self._laplace(threshold, 2 * self.unit / self._test)

    def answer(self, exact, public):
        noisy = self._laplace(abs(exact - public), 4 * self.unit / self._test)
        if noisy < self._threshold:
            return None
        return self._laplace(exact, self.unit / self._reply)


class NoisyThresholdPlan(UpdatePlan):
    """The paper's test: one noisy answer, compared with a fixed threshold and released if above.

    Accounted by `threshold_ratio`, some 50 times tighter than as printed. No pure guarantee
    exists: every test at the threshold tells a little.
    """

    def _calibrate(self):
        terms = self.terms
        ratio = threshold_ratio(terms.epsilon, terms.delta, self.n_updates)
        self._scale = self.unit / ratio
        self.mechanism = ThresholdDP(ratio, self.n_updates)
        self.sigma = 4 * self._log * self._scale * self.grid

    def answer(self, exact, public):
        noisy = self._laplace(exact, self._scale)
        return noisy if abs(noisy - public) * self.grid > self.sigma else None


@estimator
class UpdateMechanism(LearnerMechanism):
    """What both forms of Algorithm 1 have in common.

    Parameters
    ----------
    n_updates : int, default=5
        B, how many updates of the hypothesis are paid for. "svt" is better for up to five.
    max_queries : int, default=1000
        T, after which answers come from the hypothesis alone. It sets the threshold of the test.
    failure_probability : float, default=0.05
        beta of the paper's error bound, for the same threshold.
    """

    learners = ("PINP",)
    _plan: ClassVar[type[UpdatePlan]]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_updates": [Interval(Integral, 1, None, closed="left")],
        "max_queries": [Interval(Integral, 1, None, closed="left")],
        "failure_probability": [Interval(Real, 0, 1, closed="neither")],
    }

    n_updates: int = 5
    max_queries: int = 1000
    failure_probability: float = 0.05

    def plan(self, space, terms, public):
        return self._plan(space, terms, self)

    def default_regularization(self, space, terms, public, *, charged):
        return public_regularization(space, terms, 1)


@inherited_docs
class SparseVector(UpdateMechanism):
    """Algorithm 1 with AboveThreshold: a private test, then a fresh answer where it is wrong.

    It answers from a public hypothesis, and pays where that is wrong. It is worse than the
    functional mechanism by far in all cases we tried, and shown for comparison.

    Parameters
    ----------
    {n_updates...failure_probability}

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


@inherited_docs
class NoisyThreshold(UpdateMechanism):
    """Algorithm 1 with the paper's own test: one noisy answer, released if it is far enough off.

    It answers from a public hypothesis, and pays where that is wrong. It is worse than the
    functional mechanism by far in all cases we tried, and shown for comparison. It has no
    guarantee with ``delta=0``: every test at the threshold tells a little.

    Parameters
    ----------
    {n_updates...failure_probability}

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 5.
    The budget holds, and is some 50 times tighter than as printed.

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
        super().__init__(n_scores, is_public=plan.terms.is_private)
        self._minimizer, self._plan = minimizer, plan
        self.n_updates_left = plan.n_updates
        self._points: list[Floats] = []
        self._steps: list[Floats] = []
        plan.start_epoch()

    def hypothesis(self) -> Minimizer:
        """Return w_t, an expansion in the points of the updates."""
        if not self._plan.terms.is_private:
            return self._minimizer
        if not self._points:
            return Minimizer.zero(self._plan.space, self._n_scores)
        return Minimizer(self._plan.space, np.array(self._steps), np.array(self._points))

    def _draw(self, X):
        if not self._plan.terms.is_private:
            return self._minimizer.scores(X), np.ones(len(X), dtype=bool)
        exact = self._minimizer.careful_scores(X)
        answers, fresh = np.empty_like(exact), np.zeros(len(X), dtype=bool)
        for i, z in enumerate(X):
            answers[i], fresh[i] = self._answer_point(z, exact[i], len(self._known) + i)
        return answers, fresh

    def _answer_point(self, z: Floats, exact: Floats, round_: int) -> tuple[Floats, bool]:
        """Return the scores of one point, and whether any of them is a fresh answer."""
        public = self.hypothesis().scores(z[None])[0]
        answers, fresh = public.copy(), False
        for k in range(self._n_scores):
            if self.n_updates_left == 0 or round_ >= self._plan.max_queries:
                break
            grid = self._plan.grid
            reply = self._plan.answer(round(exact[k] / grid), round(public[k] / grid))
            if reply is not None:
                # Counted first, so that an interrupt leaves no update that nobody paid for.
                self.n_updates_left -= 1
                self._plan.start_epoch()
                answers[k], fresh = reply * grid, True
                self._update(z, k, answers[k] - public[k])
        return answers, fresh

    def _update(self, z: Floats, k: int, difference: float) -> None:
        step = np.zeros(self._n_scores)
        step[k] = self._plan.sigma / (2 * self._plan.space.radius**2) * np.sign(difference)
        self._points.append(z)
        self._steps.append(step)
