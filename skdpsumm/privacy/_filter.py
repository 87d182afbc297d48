"""The composition filter: which sequences of charges a cap holds.

Each charge, its size included, may depend on everything released before. Sums that stay below a
bound fixed in advance are valid all the same: of pure epsilons [1]_, of ``mu**2`` for Gaussian
DP [2]_ [3]_, and of rho for zCDP [4]_ [5]_. Three remarks make one rule of them.

- *Discrete noise.* Replace every discrete Gaussian by its exactly Gaussian counterpart, release by
  release. Along any path this costs the product of the density ratios and the sum of the tails,
  so delta becomes ``tail + exp(log_ratio) * gdp_delta(mu, epsilon - 2 * log_ratio)`` of the totals.
  The ideal game is held to ``epsilon, delta`` less `RESERVE`, and the two sums to that reserve.
- *All pure.* A path whose charges are all pure and sum to at most epsilon is fine as well. Let A
  be the transcripts that satisfied the first rule throughout: the game that halts where it fails
  gives ``P(E & A) <= exp(epsilon) Q(E & A) + delta``. On the others the loss is at most epsilon,
  surely: ``P(E - A) <= exp(epsilon) Q(E - A)``. The sum of both is the claim, at no extra delta.
- *Disjoint data sets.* A row is in one of them, so no row pays more than the maximum, and a bound
  on what each single row can pay along any path is all that [1]_ to [5]_ need.

References
----------
.. [1] Rogers, Roth, Ullman and Vadhan (2016), "Privacy odometers and filters".
.. [2] Smith and Thakurta (2022), "Fully adaptive composition for Gaussian differential privacy".
.. [3] Koskela, Tobaben and Honkela (2023), "Individual privacy accounting with Gaussian
       differential privacy".
.. [4] Feldman and Zrnic (2021), "Individual privacy accounting via a Renyi filter".
.. [5] Whitehouse, Ramdas, Rogers and Wu (2023), "Fully adaptive composition in differential
       privacy".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ._gaussian_dp import gdp_epsilon, gdp_mu, pure_to_gdp, zcdp_epsilon, zcdp_rho
from ._mechanisms import (
    Composed,
    GaussianDP,
    Mechanism,
    PureDP,
    Unprotected,
    Worst,
    ZeroConcentratedDP,
)
from ._noise import RESERVE
from ._shifted import ShiftedGaussianDP

# Ten charges of 0.1 fit into 1.0: sums may pass a cap by float rounding, and by no more.
TOLERANCE = 1e-9


class Cost(NamedTuple):
    """What adds up: every component does under composition, and is maximised over disjoint data.

    `pure` is infinite where a part is not pure; `square` is mu**2, or 2 rho under zCDP, and
    infinite where the accountant knows no bound.
    """

    pure: float = 0.0
    square: float = 0.0
    log_ratio: float = 0.0
    tail: float = 0.0


def add(costs: Iterable[Cost]) -> Cost:
    """Return the cost of all, each adaptively chosen."""
    return Cost(*map(math.fsum, zip(*costs, strict=True)))


def worst(costs: Iterable[Cost]) -> Cost:
    """Return the cost of all, each on its own of several disjoint data sets."""
    return Cost(*map(max, zip(*costs, strict=True)))


class Spent(NamedTuple):
    """What one data set has paid, and the partition that it belongs to."""

    cost: Cost = Cost()
    partition: str | None = None


def total(spent: dict[str, Spent]) -> Cost:
    """Return the most that any row has paid: the costliest of each partition, and all else."""
    groups: dict[tuple[bool, str], list[Cost]] = {}
    for name, (cost, partition) in spent.items():
        group = (False, name) if partition is None else (True, partition)
        groups.setdefault(group, []).append(cost)
    return add(map(worst, groups.values()))


def paid_in(spent: dict[str, Spent], dataset: str) -> Cost:
    """Return the most that a row of `dataset` has paid: all but the rest of its partition."""
    partition = spent.get(dataset, Spent()).partition
    elsewhere = {
        name
        for name, paid in spent.items()
        if name != dataset and partition is not None and paid.partition == partition
    }
    return total({name: paid for name, paid in spent.items() if name not in elsewhere})


_UNBOUNDED = Cost(math.inf, math.inf)


@dataclass(frozen=True)
class Filter:
    """The rule of one cap: what a mechanism costs, and which total fits.

    Parameters
    ----------
    epsilon, delta : float
        The cap.
    accountant : {"pure", "gdp", "zcdp"}
        What is summed. Fixed in advance, so that the choice cannot depend on data.
    """

    epsilon: float
    delta: float
    accountant: str

    @cached_property
    def _calibrated(self) -> float:
        """The mu**2 of Gaussian noise that `IntegerNoise` calibrates to the whole cap."""
        return gdp_mu(self.epsilon * (1 - RESERVE), self.delta * (1 - RESERVE)) ** 2

    @cached_property
    def _cap(self) -> float:
        if self.accountant == "pure":
            return 0.0
        if self.accountant == "gdp":
            return self._calibrated
        return 2 * zcdp_rho(self.epsilon, self.delta)

    @cached_property
    def _cap_less_reserve(self) -> float:
        """The cap of `square` under zCDP where some noise draws on the reserve."""
        return 2 * zcdp_rho(self.epsilon * (1 - RESERVE), self.delta * (1 - RESERVE))

    def _cap_of(self, total: Cost) -> float:
        slack = total.log_ratio > 0 or total.tail > 0
        return self._cap_less_reserve if slack and self.accountant == "zcdp" else self._cap

    def cost(self, mechanism: Mechanism) -> Cost:
        """Return what `mechanism` adds to the total."""
        if isinstance(mechanism, Composed):
            return add(map(self.cost, mechanism.parts))
        if isinstance(mechanism, Worst):
            return worst(map(self.cost, mechanism.parts))
        cost = self._cost_of_one(mechanism)
        if not all(part >= 0 for part in cost):
            raise ValueError(f"A privacy cost must be at least 0, got {mechanism!r}.")
        return Cost(*map(float, cost))

    def _cost_of_one(self, mechanism: Mechanism) -> Cost:
        match self.accountant, mechanism:
            case _, Unprotected():
                return _UNBOUNDED
            case "pure", PureDP(epsilon):
                return Cost(epsilon, math.inf)
            case "gdp", PureDP(epsilon):
                return Cost(epsilon, pure_to_gdp(epsilon) ** 2)
            case "zcdp", PureDP(epsilon):
                return Cost(epsilon, epsilon * epsilon)
            case "gdp", GaussianDP(mu, log_ratio, tail):
                return Cost(math.inf, mu * mu, log_ratio, tail)
            case "zcdp", GaussianDP(mu):
                # Discrete Gaussian noise is mu**2 / 2-zCDP as it stands: no slack is due.
                return Cost(math.inf, mu * mu)
            case "zcdp", ZeroConcentratedDP(rho):
                return Cost(math.inf, 2 * rho)
            case "gdp" | "zcdp", ShiftedGaussianDP(log_ratio=log_ratio, tail=tail):
                # One mu for all epsilons: of mu-GDP both filters know an adaptive sum.
                return Cost(math.inf, mechanism.dominating_mu() ** 2, log_ratio, tail)
        return self._cost_unknown(mechanism)

    def _cost_unknown(self, mechanism: Mechanism) -> Cost:
        if math.isinf(self.epsilon):
            return _UNBOUNDED
        remedy = {
            "pure": "Create the ledger with delta > 0, or ask the estimator for delta=0.",
            "gdp": 'Create the ledger with accountant="zcdp", which takes ZeroConcentratedDP.',
            "zcdp": "State the cost as PureDP, GaussianDP or ZeroConcentratedDP.",
        }
        raise ValueError(
            f"A ledger with accountant={self.accountant!r} cannot charge {mechanism!r}, for which "
            f"it knows no adaptively valid sum. {remedy[self.accountant]}"
        )

    def fits(self, total: Cost) -> bool:
        """Return whether the cap holds `total`."""
        if total.pure <= self.epsilon * (1 + TOLERANCE):
            return True
        return total.square <= self._cap_of(total) * (1 + TOLERANCE) and self.reserve_holds(total)

    def reserve_holds(self, total: Cost) -> bool:
        """Return whether the reserve pays for the discreteness of all noise in `total`."""
        excess = total.tail + math.expm1(min(total.log_ratio, 1.0)) * self.delta
        return 2 * total.log_ratio <= RESERVE * self.epsilon and excess <= RESERVE * self.delta

    def epsilon_of(self, cost: Cost) -> float:
        """Return the epsilon of `cost` at the cap's delta."""
        return min(cost.pure, self._curve_epsilon(cost))

    def _curve_epsilon(self, cost: Cost) -> float:
        if self.accountant == "pure":
            return math.inf
        if self.accountant == "zcdp":
            rest = (self.delta - cost.tail) * math.exp(-cost.log_ratio)
            return zcdp_epsilon(cost.square / 2, rest) + 2 * cost.log_ratio
        return GaussianDP(math.sqrt(cost.square), cost.log_ratio, cost.tail).epsilon(self.delta)

    def left(self, spent: Cost) -> float:
        """Return the largest epsilon to which noise of the accountant's kind may be calibrated."""
        if math.isinf(self.epsilon):
            return math.inf
        if self.accountant == "pure":
            return self._left_pure(spent)
        square = max(0.0, self._cap_of(spent) - spent.square)
        if square >= self._calibrated:
            return self.epsilon
        # The inverse of _calibrated, less what the solvers may have rounded up.
        epsilon = gdp_epsilon(math.sqrt(square), self.delta * (1 - RESERVE)) / (1 - RESERVE)
        return max(0.0, epsilon * (1 - 1e-11) - 1e-11)

    def asked_and_left(self, cost: Cost, spent: Cost) -> tuple[float, float]:
        """Return two epsilons that explain a refusal: pure ones, if all is pure."""
        if math.isfinite(cost.pure + spent.pure):
            return cost.pure, self._left_pure(spent)
        return self._curve_epsilon(cost), self.left(spent)

    def _left_pure(self, spent: Cost) -> float:
        left = self.epsilon - spent.pure
        return left if left > TOLERANCE * self.epsilon else 0.0
