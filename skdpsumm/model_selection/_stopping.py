"""What a search and its base runs cost.

The theorem on the best of a random number of private runs is in `skdpsumm.privacy._best_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import brentq

from ..privacy import GaussianDP, PureDP, gdp_mu
from ..privacy._best_of import StoppingLaw
from ..privacy._mechanisms import Mechanism, gdp_epsilon
from ..privacy._noise import RESERVE, nominal_mechanism

# Solvers stop within less than this part of a root.
_DISTANCE_FROM_ROOT = 1e-9
# The part of the reserve that `IntegerNoise` takes at most, and a little more.
_SHARE_OF_RESERVE = 2.0**-20 * (1 + 1e-6)

ETAS = {"logarithmic": 0.0, "geometric": 1.0}


def stopping(distribution: str | float, mean: float) -> StoppingLaw:
    """Return the law of a name, or of eta."""
    eta = ETAS[distribution] if isinstance(distribution, str) else float(distribution)
    return StoppingLaw(eta, float(mean))


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

    def epsilon_of_fit(self, holdout: float, delta: float) -> float:
        """Return the epsilon of one fit to all rows that is as noisy, for its rows, as a run is.

        A run has a part of the rows, and its noise is larger by what K costs. Sums of rows grow
        with their number: fewer rows are as bad as more noise.
        """
        if isinstance(self.base, GaussianDP):
            return GaussianDP(self.base.mu * (1 - holdout)).epsilon(delta)
        return self.epsilon * (1 - holdout)


@lru_cache(maxsize=128)
def plan_runs(law: StoppingLaw, epsilon: float, delta: float) -> RunPlan:
    """Return the largest budget of base runs whose search is (epsilon, delta)-DP."""
    if math.isinf(epsilon):
        lost = nominal_mechanism(epsilon, delta)
        return RunPlan(epsilon, delta, lost, lost)
    plan = _plan_pure(law, epsilon) if delta == 0 else _plan_gaussian(law, epsilon, delta)
    if not plan.total.epsilon(delta) <= epsilon * (1 + 1e-12):  # whatever the solvers did
        raise ArithmeticError(
            f"No budget of one run was found for epsilon={epsilon!r}; try another epsilon."
        )
    return plan


def _plan_pure(law: StoppingLaw, epsilon: float) -> RunPlan:
    def excess(log_part: float) -> float:
        return law.price(PureDP(epsilon * math.exp(log_part))).epsilon(0.0) / epsilon - 1

    part = math.exp(brentq(excess, -60.0, 0.0, xtol=1e-14)) * (1 - _DISTANCE_FROM_ROOT)
    base = PureDP(epsilon * part)
    # Twice: the state of the claim is the user's number, and no float above it.
    total = PureDP(min(epsilon, law.price(base).epsilon(0.0)))
    return RunPlan(base.epsilon0, 0.0, PureDP(base.epsilon0 * (1 + 1e-12)), total)


def _plan_gaussian(law: StoppingLaw, epsilon: float, delta: float) -> RunPlan:
    delta_of_run = delta / (16 * law.mean)
    tail = RESERVE * delta_of_run * _SHARE_OF_RESERVE

    scale = min(epsilon, 1.0)
    # A ledger has room for some sixty such searches.
    room = RESERVE * scale / 64 / (law.slack(1e-9, 0.0)[0] / 1e-9)
    log_ratio = max(room, RESERVE * scale * _SHARE_OF_RESERVE)

    def excess(log_mu: float) -> float:
        total = law.price(GaussianDP(math.exp(log_mu), log_ratio, tail))
        return math.log(max(total.delta(epsilon), 1e-300) / delta)

    most = math.log(gdp_mu(epsilon, delta))
    mu = math.exp(brentq(excess, most - 30.0, most, xtol=1e-12)) * (1 - 1e-8)
    ideal = gdp_epsilon(mu, delta_of_run * (1 - RESERVE)) / (1 - RESERVE)
    found = GaussianDP(mu * (1 + _DISTANCE_FROM_ROOT), log_ratio, tail)
    return RunPlan(ideal * (1 - 1e-11), delta_of_run, found, law.price(found))
