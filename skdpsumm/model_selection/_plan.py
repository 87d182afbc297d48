"""What one base run may cost, so that the whole search costs epsilon and delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import brentq

from ..privacy import RESERVE, GaussianDP, Mechanism, PureDP, gdp_epsilon, gdp_mu
from ..privacy._noise import nominal_mechanism
from ._stopping import Stopping

# What `IntegerNoise` takes of the reserve at most, and a little more.
_SHARE = 2.0**-20 * (1 + 1e-6)
_MARGIN = 1e-9


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
