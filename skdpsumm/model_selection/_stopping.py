r"""What the best of a random number of private runs reveals.

Q is a base run: it draws its own candidate, fits, scores, and returns all of that. K is drawn
without looking at the data, Q is run K times, independently and each time alike, and the result of
the best score is released: not K, and nothing of the others.

*Density.* Order results by score, equal ones by a coin. With f(z) = E[z^K] and F the distribution
function of Q in that order, the best of K has the distribution function f(F), so its density is
f'(F) times that of Q, and at most f'(1) = E[K] times. Let F' be that of a neighbour, and delta(e)
the smallest delta at which Q is (e, delta)-DP, for every real e.

*Truncated negative binomial* (eta > -1, 0 < gamma < 1): f' is proportional to
``(1 - (1 - gamma) z)^-(1 + eta)``. Let e >= 0 satisfy

    (1 - gamma) delta(e) <= gamma (exp(e) - 1).

With g = gamma / (1 - gamma), S = 1 - F and S' = 1 - F', both chances of a lower (or upper) set of
results, ``S' <= exp(e) S + delta(e)`` gives ``g + S' <= g + exp(e) S + g (exp(e) - 1)
= exp(e) (g + S)``, so that f'(F) / f'(F') is at most exp(c), c = (1 + eta) e. Then for every event
E and every real epsilon

    P(E) - exp(epsilon + c) P'(E) <= int_E f'(F) (dQ - exp(epsilon) dQ') <= E[K] delta(epsilon):

the search is (epsilon + c, E[K] delta(epsilon))-DP. The smallest e makes the inequality an
equality. Where Q is epsilon0-DP, e <= epsilon0 and the search is ((2 + eta) epsilon0)-DP at most.

*Poisson* of mean m: f'(F) / f'(F') = exp(m (F - F')) is at most exp(m delta(0)). K = 0 has the
same chance exp(-m) on both data sets, and a public result.

These are the privacy profiles of Koskela, Redberg and Wang [1]_, with e at its optimum; they are
tighter than the Renyi bounds of Papernot and Steinke [2]_ (their Theorems 2 and 6, against which
the tests compare), and keep the form of `ShiftedGaussianDP`, so that a ledger can hold them.

*The runs must be alike.* A public list in which the j-th run tries the j-th candidate is not: the
winner's place j would tell that K >= j and that j - 1 others lost, at the price of j runs. So
candidates are drawn by each run from the secret source, and all public seeds are the same in all
runs.

*Discrete noise.* A base run's density is within exp(log_ratio) of an ideal one's but for events of
probability `tail`. Here such a step hides in K runs, of which one is seen. If at most k are made,
densities of all runs are within exp(k log_ratio); the rest has a probability of at most
``E[K] tail + P(K > k)``, and as it is not seen it counts on both data sets: (1 + exp(epsilon))
times, in whatever else the release is composed with, up to epsilon = 12. A search by itself needs
no such limit: the theorem holds for the discrete run as it is, whose delta(e) includes both.

References
----------
.. [1] Koskela, Redberg and Wang (2024), "Privacy profiles for private selection", ICML.
.. [2] Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential privacy", ICLR.
.. [3] Liu and Talwar (2019), "Private selection from private candidates", STOC.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..privacy import BudgetExceededError, GaussianDP, PureDP, gdp_mu
from ..privacy._bisect import bisect
from ..privacy._mechanisms import Mechanism, gdp_epsilon
from ..privacy._noise import RESERVE, nominal_mechanism
from ..privacy._shifted_gaussian import ShiftedGaussianDP

# The root of an equation is raised by this, which keeps an inequality.
_MARGIN = 1e-9
# More than 1 + exp(12), and room for the ideal noise's own tail, which is a little heavier.
_UNSEEN = 2.0**19
# What `IntegerNoise` takes of the reserve at most, and a little more.
_SHARE = 2.0**-20 * (1 + 1e-6)
# The epsilon that is proposed to whom a ledger refuses may be too small by this part.
_NEAR = 0.01

ETAS = {"logarithmic": 0.0, "geometric": 1.0}


class Stopping(ABC):
    """The law of the number of trials K.

    Attributes
    ----------
    mean : float
        E[K], which is also the largest f'.
    """

    mean: float

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> int:
        """Return K."""

    @abstractmethod
    def generating(self, z: float) -> float:
        """Return f(z) = E[z^K]."""

    @abstractmethod
    def shift(self, base: Mechanism) -> float:
        """Return c, the logarithm of the most that f'(F) can differ between neighbours."""

    @property
    @abstractmethod
    def _beyond(self) -> float:
        """Some z > 1 at which f is finite."""

    def most_trials(self, probability: float) -> int:
        """Return a number that K exceeds with at most this probability (Markov, of z^K)."""
        z = self._beyond
        return math.ceil((math.log(self.generating(z)) - math.log(probability)) / math.log(z))

    def price(self, base: Mechanism) -> Mechanism:
        """Return the cost of a search whose base runs cost `base` each.

        Parameters
        ----------
        base : Mechanism
            Pure, Gaussian up to shifts (`Mechanism.loss_terms`), or unprotected. Of other costs no
            bound in closed form is known here.
        """
        if base.unprotected:
            return base
        pure = base.epsilon(0.0)
        if math.isfinite(pure):
            return PureDP(pure + self.shift(base))
        if base.loss_terms is None:
            raise TypeError(f"No price of a search is known here for runs of {base!r}.")
        shift = self.shift(base)
        terms = tuple((self.mean * w, mu, s + shift) for w, mu, s in base.loss_terms)
        if self.generating(0.0) > 0:  # the chance of K = 0, whose result is public
            terms += ((self.generating(0.0), 0.0, 0.0),)
        return ShiftedGaussianDP(terms, *self._slack(*base.slack))

    def _slack(self, log_ratio: float, tail: float) -> tuple[float, float]:
        if tail == 0:
            if log_ratio > 0:
                raise ValueError("log_ratio needs a tail above 0, as K is unbounded.")
            return 0.0, 0.0
        return self.most_trials(tail) * log_ratio, _UNSEEN * (self.mean + 1) * tail


@dataclass(frozen=True)
class TruncatedNegativeBinomial(Stopping):
    """K >= 1 with ``P(k + 1) / P(k) = (1 - gamma) (k + eta) / (k + 1)``.

    Parameters
    ----------
    eta : float
        Above -1. 0 is the logarithmic law, 1 the geometric one.
    mean : float
        E[K], above 1. It decides gamma.

    Examples
    --------
    >>> from skdpsumm.model_selection._stopping import TruncatedNegativeBinomial
    >>> from skdpsumm.privacy import GaussianDP, gdp_mu
    >>> law = TruncatedNegativeBinomial(eta=0.0, mean=10)
    >>> law.price(GaussianDP(gdp_mu(1.0, 1e-6))).epsilon(1e-6) < 1.45
    True
    """

    eta: float
    mean: float
    gamma: float = field(init=False)

    def __post_init__(self) -> None:
        def excess(log_gamma: float) -> float:
            return math.log(self._mean_at(math.exp(log_gamma)) / self.mean)

        root = brentq(excess, -60.0, -1e-12, xtol=1e-14, rtol=1e-14)
        object.__setattr__(self, "gamma", math.exp(root))
        # The mean that gamma really has.
        object.__setattr__(self, "mean", self._mean_at(self.gamma) * (1 + _MARGIN))

    def _mean_at(self, gamma: float) -> float:
        odds = (1 - gamma) / gamma
        if self.eta == 0:
            return odds / -math.log(gamma)
        return odds * self.eta / -math.expm1(self.eta * math.log(gamma))

    @property
    def _first(self) -> float:
        """P(K = 1)."""
        log = -math.log(self.gamma)
        return (1 - self.gamma) / (math.expm1(self.eta * log) / self.eta if self.eta else log)

    def draw(self, rng: np.random.Generator) -> int:
        rest, k, chance = rng.random(), 1, self._first
        while rest >= chance > 0:
            rest -= chance
            chance *= (1 - self.gamma) * (k + self.eta) / (k + 1)
            k += 1
        return k

    def generating(self, z: float) -> float:
        log, log_gamma = math.log1p(-(1 - self.gamma) * z), math.log(self.gamma)
        if self.eta == 0:
            return log / log_gamma
        return math.expm1(-self.eta * log) / math.expm1(-self.eta * log_gamma)

    @property
    def _beyond(self) -> float:
        return (1 - self.gamma / 2) / (1 - self.gamma)

    def shift(self, base: Mechanism) -> float:
        def excess(epsilon: float) -> float:
            return (1 - self.gamma) * base.delta(epsilon) - self.gamma * math.expm1(epsilon)

        # At -log(gamma) the right-hand side is 1 - gamma, and delta at most 1.
        high = -math.log(self.gamma) * (1 + _MARGIN)
        e = brentq(excess, 0.0, high, xtol=1e-15, rtol=1e-13)
        return (1 + self.eta) * (e * (1 + _MARGIN) + 1e-15)


@dataclass(frozen=True)
class Poisson(Stopping):
    """K = 0, 1, ... of mean `mean`."""

    mean: float

    def draw(self, rng: np.random.Generator) -> int:
        return int(rng.poisson(self.mean))

    def generating(self, z: float) -> float:
        return math.exp(self.mean * (z - 1))

    @property
    def _beyond(self) -> float:
        return 2.0

    def shift(self, base: Mechanism) -> float:
        return self.mean * base.delta(0.0) * (1 + _MARGIN)


def stopping(distribution: str | float, mean: float) -> Stopping:
    """Return the law of a name, or of eta."""
    if distribution == "poisson":
        return Poisson(float(mean))
    eta = ETAS[distribution] if isinstance(distribution, str) else float(distribution)
    return TruncatedNegativeBinomial(eta, float(mean))


# ---- what one base run may cost, so that the whole search costs epsilon and delta


@dataclass(frozen=True)
class RunPlan:
    """The budget of a base run: of its fit, and of its score, which read different rows.

    Attributes
    ----------
    epsilon, delta : float
        To calibrate the fit and the score to.
    base : Mechanism
        What either may cost at most: `PureDP`, or `GaussianDP` with its slack.
    total : Mechanism
        What the search costs.
    """

    epsilon: float
    delta: float
    base: Mechanism
    total: Mechanism

    def covers(self, cost: Mechanism) -> bool:
        """Return whether a run's cost is at most what was planned."""
        return self.excess(cost) <= 1

    def excess(self, cost: Mechanism) -> float:
        """Return how many times the planned cost this is; infinite where they do not compare."""
        if self.base.unprotected:
            return 0.0
        planned, paid = self.base.price("gdp"), cost.price("gdp")
        if planned is None or paid is None:
            return math.inf
        if math.isfinite(planned.pure):
            return paid.pure / planned.pure
        if paid.log_ratio > planned.log_ratio or paid.tail > planned.tail:
            return math.inf
        return math.sqrt(paid.square / planned.square)


@lru_cache(maxsize=128)
def plan_runs(law: Stopping, epsilon: float, delta: float) -> RunPlan:
    """Return the largest budget of base runs whose search is (epsilon, delta)-DP."""
    if math.isinf(epsilon):
        lost = nominal_mechanism(epsilon, delta)
        return RunPlan(epsilon, delta, lost, lost)
    plan = _plan_pure(law, epsilon) if delta == 0 else _plan_gaussian(law, epsilon, delta)
    if not plan.total.epsilon(delta) <= epsilon * (1 + 1e-12):  # whatever the solvers did
        raise ArithmeticError(f"No budget of base runs was found for epsilon={epsilon!r}.")
    return plan


def _plan_pure(law: Stopping, epsilon: float) -> RunPlan:
    def excess(log_part: float) -> float:
        return law.price(PureDP(epsilon * math.exp(log_part))).epsilon(0.0) / epsilon - 1

    part = math.exp(brentq(excess, -60.0, 0.0, xtol=1e-14)) * (1 - _MARGIN)
    base = PureDP(epsilon * part)
    # Twice: the state of the claim is the user's number, and no float above it.
    total = PureDP(min(epsilon, law.price(base).epsilon(0.0)))
    return RunPlan(base.epsilon0, 0.0, PureDP(base.epsilon0 * (1 + 1e-12)), total)


def _plan_gaussian(law: Stopping, epsilon: float, delta: float) -> RunPlan:
    delta_of_run = delta / (16 * law.mean)
    tail = RESERVE * delta_of_run * _SHARE

    def base(mu: float, scale: float) -> GaussianDP:
        # Objective perturbation has more coordinates than `IntegerNoise` reckons with.
        room = RESERVE * scale / (4 * law.most_trials(tail))
        return GaussianDP(mu, max(room, RESERVE * scale * _SHARE), tail)

    def excess(log_mu: float) -> float:
        total = law.price(base(math.exp(log_mu), min(epsilon, 1.0)))
        return total.epsilon(delta) / epsilon - 1

    most = math.log(gdp_mu(epsilon, delta))
    mu = math.exp(brentq(excess, most - 30.0, most, xtol=1e-12)) * (1 - 1e-8)
    ideal = gdp_epsilon(mu, delta_of_run * (1 - RESERVE)) / (1 - RESERVE)
    found = base(mu * (1 + _MARGIN), min(epsilon, 1.0))
    return RunPlan(ideal * (1 - 1e-11), delta_of_run, found, law.price(found))


# ---- whether a ledger holds a search, and if not, what would fit


def check_ledger(
    ledger: Any, law: Stopping, epsilon: float, delta: float, adjacency: str, unit: str = "row"
) -> None:
    """Raise BudgetExceededError if a ledger cannot hold a search, and say what it costs there.

    A ledger that adds up Gaussians, or zCDP, takes the Gaussian that dominates it everywhere, whose
    epsilon is about three times that of the search.
    """
    total = plan_runs(law, epsilon, delta).total
    neighbours = {"adjacency": adjacency, "unit": unit}
    refusal = _refusal(ledger, total, neighbours)
    if refusal and math.isfinite(epsilon) and math.isinf(total.epsilon(0.0)):
        largest = _largest(ledger, law, epsilon, delta, neighbours)
        fits = f"epsilon={largest:.3g} would fit" if largest else "no epsilon would fit"
        refusal += (
            f" That is the price of a search with epsilon={epsilon:g} and delta={delta:g} where "
            f"losses are added up as Gaussian ones; {fits}. With delta=0 a search counts as its "
            "epsilon, as long as all other charges are pure."
        )
    if refusal:
        raise BudgetExceededError(refusal)


def _refusal(ledger: Any, total: Any, neighbours: dict[str, str]) -> str:
    try:
        ledger.check(total, **neighbours)
    except BudgetExceededError as error:
        return str(error)
    return ""


def _largest(
    ledger: Any, law: Stopping, high: float, delta: float, neighbours: dict[str, str]
) -> float:
    """Return an epsilon of a search that the ledger would hold, rounded down; 0 for none."""

    def fits(epsilon: float) -> bool:
        with suppress(ArithmeticError, ValueError):
            return not _refusal(ledger, plan_runs(law, epsilon, delta).total, neighbours)
        return False

    found = bisect(fits, 0.0, high, halvings=20, tolerance=_NEAR)
    unit = 10.0 ** (math.floor(math.log10(found)) - 2) if found else 1.0
    return math.floor(found / unit) * unit
