"""A privacy loss that is Gaussian, or the largest of several, up to constants.

Objective perturbation has such a loss: a Gaussian part for the noise in the objective, and a
constant for the determinant of a change of variables.

*The claim.* For neighbours in either order the privacy loss is at most the largest of the numbers
``shift_i + Y_i``, where Y_i has the law N(mu_i^2 / 2, mu_i^2) of the loss of a mu_i-GDP mechanism
(a constant 0 for mu_i = 0), and nothing is known of how they depend on each other. So, for weight_i
of them alike,

    ``delta(epsilon) = sum_i weight_i gdp_delta(mu_i, epsilon - shift_i)``.

*Small epsilons.* Every (e, d)-DP mechanism is ``(epsilon, 1 - (1 + exp(epsilon)) a)``-DP for
``epsilon <= e``, with ``a = (1 - d) / (1 + exp(e))``. The best e is the one of the largest a,
whatever epsilon: there the trade-off curve, which is symmetric, crosses the diagonal.

*Composition* is closed. Of adaptive mechanisms with such losses, each pair of terms gives one with
``hypot(mu_i, mu_j)``, the weights multiply and the shifts add. A mu-GDP mechanism is a single term.

*Domination by one Gaussian* at all epsilons, which adaptive filters ask for. For ``mu > mu_i`` the
ratio ``gdp_delta(mu_i, e - shift_i) / gdp_delta(mu, e)`` falls from the point on where
``(e - shift_i) / mu_i - mu_i / 2 >= e / mu - mu / 2``, and comparing the curves on the finite
interval before it decides for all larger epsilons. For those below the crossing of the diagonal
the two crossings decide: that of mu is at Phi(-mu / 2), the largest a of all its claims.

The proofs are in docs/proofs/index.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_ndtr, ndtr, ndtri_exp

from ._bisect import bisect
from ._mechanisms import (
    DominatedByGaussian,
    Mechanism,
    check_cost,
    gdp_delta,
    gdp_epsilon,
)

# Beyond this, neighbouring terms of a composition share the larger mu and the larger shift.
_MOST_TERMS = 32
# The dominating mu is the smallest up to about this relative error, on the safe side: the nearer
# two curves are, the more pieces it takes to tell them apart.
_MU_TOLERANCE = 1e-3
_HALVINGS = 14


@dataclass(frozen=True, repr=False)
class ShiftedGaussianDP(DominatedByGaussian):
    """A privacy loss below the largest of several Gaussian losses, each plus a constant.

    Parameters
    ----------
    terms : tuple of (weight, mu, shift)
        How many Gaussian losses of this mu there are, and the constant that is added.
    log_ratio, tail : float, default=0
        As of `GaussianDP`: the density stays within a factor ``exp(log_ratio)`` of that of a
        mechanism with such a loss, except on events of probability `tail`.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP
    >>> from skdpsumm.privacy._shifted_gaussian import ShiftedGaussianDP
    >>> one = ShiftedGaussianDP(((1, 0.2, 0.1), (1, 0, 0.1)))
    >>> round(one.epsilon(1e-6) - GaussianDP(0.2).epsilon(1e-6), 9)
    0.1
    >>> round(one.dominating_mu(), 3)
    0.316
    """

    terms: tuple[tuple[float, float, float], ...]
    log_ratio: float = 0.0
    tail: float = 0.0
    kind: ClassVar[str] = "shifted_gdp"

    def __post_init__(self) -> None:
        # JSON has lists only.
        terms = tuple((float(w), float(mu), float(shift)) for w, mu, shift in self.terms)
        object.__setattr__(self, "terms", terms)
        if not terms:
            raise ValueError("terms is empty; give at least one number of at least 0.")
        for name, value in zip(("weight", "mu", "shift") * len(terms), sum(terms, ()), strict=True):
            check_cost(f"{name} of terms", value)
        if not all(weight > 0 for weight, *_ in terms):
            raise ValueError(f"weight of terms must be above 0, got {terms!r}.")
        for name in ("log_ratio", "tail"):
            check_cost(name, getattr(self, name))

    def __repr__(self) -> str:
        terms = [f"{w:g} of mu={mu:.6g} + {shift:.4g}" for w, mu, shift in self.terms]
        slack = [f"log_ratio={self.log_ratio:.2g}, tail={self.tail:.2g}"]
        return f"ShiftedGaussianDP({', '.join(terms + slack * any((self.log_ratio, self.tail)))})"

    def compose_with(self, other: Mechanism) -> Mechanism | None:
        """Return the adaptive composition with another bound of this kind, in closed form."""
        if other.loss_terms is None:
            return None
        total: dict[tuple[float, float], float] = {}  # the weight of each (mu, shift)
        for weight, mu, shift in self.terms:
            for w, m, more in other.loss_terms:
                both = math.hypot(mu, m), shift + more
                total[both] = total.get(both, 0.0) + weight * w
        terms = tuple((weight, *both) for both, weight in sorted(_merged(total).items()))
        slack = map(sum, zip(self.slack, other.slack, strict=True))
        return ShiftedGaussianDP(terms, *slack)

    @property
    def loss_terms(self) -> tuple[tuple[float, float, float], ...]:
        return self.terms

    @classmethod
    def _numbers_in(cls, fields: dict[str, Any]) -> Iterable[Any]:
        slack = [value for name, value in fields.items() if name != "terms"]
        return chain(slack, *fields.get("terms", ()))

    def dominating_mu(self) -> float:
        """Return the smallest mu, rounded up, whose curve is nowhere below this one."""
        return self._dominating_mu

    def _union(self, epsilon: float) -> float:
        return math.fsum(w * gdp_delta(mu, epsilon - shift) for w, mu, shift in self.terms)

    def _bound(self, delta: float) -> float:
        """Return an epsilon at which the union is at most `delta`."""
        each = delta / math.fsum(w for w, _, _ in self.terms)
        return max(shift + gdp_epsilon(mu, each) for _, mu, shift in self.terms)

    @cached_property
    def _crossing(self) -> tuple[float, float]:
        """The epsilon e whose claim meets the diagonal highest, and log a of the height there."""
        # From there on a smaller sum could no longer lift the height by a thousandth.
        end = self._bound(1e-3)
        if math.isinf(end):
            return math.inf, -math.inf
        start = 0.0 if self._room(0.0) else bisect(lambda e: self._room(e) > 0, end, 0.0)
        bounds = {"bounds": (start, end), "method": "bounded"}
        best = minimize_scalar(lambda e: -self._log_height(e), **bounds)
        # Any e is valid; the sum has kinks where a constant ends.
        tries = [float(best.x), *(shift for _, mu, shift in self.terms if mu == 0)]
        crossing = max(tries, key=self._log_height)
        return crossing, self._log_height(crossing)

    def _log_height(self, epsilon: float) -> float:
        """Return log a, which is finite where a is too small for a float."""
        room = self._room(epsilon)
        return math.log(room) + float(log_expit(-epsilon)) if room else -math.inf

    def _room(self, epsilon: float) -> float:
        """Return 1 less the union with all of its digits, or 0 if it is none."""
        parts = [1.0]
        for weight, mu, shift in self.terms:
            delta = gdp_delta(mu, epsilon - shift)
            large = delta > 0.5  # so that what is left of 1 may be too small to be seen
            parts += [-weight, weight * _rest(mu, epsilon - shift)] if large else [-weight * delta]
        return max(0.0, math.fsum(parts))

    def _ideal_delta(self, epsilon: float) -> float:
        if epsilon < 0:  # the trade-off curve is symmetric
            return -math.expm1(epsilon) + math.exp(epsilon) * self._ideal_delta(-epsilon)
        # The height has one maximum, being concave over affine in exp(e): often it is behind.
        if epsilon > 0 and self._log_height(epsilon / 2) >= self._log_height(epsilon) > -math.inf:
            return self._union(epsilon)
        crossing, log_height = self._crossing
        if epsilon >= crossing:
            return min(1.0, self._union(epsilon))
        return max(0.0, -math.expm1(log_height - float(log_expit(-epsilon))))

    def _ideal_epsilon(self, delta: float) -> float:
        if delta <= 0:
            return math.inf
        if self._ideal_delta(0.0) <= delta:
            return 0.0
        high = self._bound(delta)
        if math.isinf(high):
            return high
        return bisect(lambda e: self._ideal_delta(e) <= delta, high, 0.0, tolerance=1e-13)

    @cached_property
    def _dominating_mu(self) -> float:
        _, log_height = self._crossing
        if log_height == -math.inf:
            return math.inf
        diagonal = -2 * float(ndtri_exp(min(log_height, -math.log(2))))
        largest = max(mu for _, mu, _ in self.terms)
        low = max(diagonal, largest) * (1 + 1e-9)
        if low == 0 or self._falls_from(low) <= self._crossing[0]:
            return low
        low = max(low, largest * (1 + _MU_TOLERANCE))
        if self._lies_below(low):
            return low
        high = low
        while not self._lies_below(high):
            high *= 2
        return bisect(self._lies_below, high, low, tolerance=_MU_TOLERANCE / 10)

    def _lies_below(self, mu: float) -> bool:
        """Return whether the curve lies below that of `mu`, which crosses the diagonal no higher.

        `mu` exceeds that of all terms.
        """
        start, end = self._crossing[0], self._falls_from(mu)
        return end <= start or self._is_below(mu, start, end, _HALVINGS)

    def _falls_from(self, mu: float) -> float:
        """Return an epsilon from which on the curve falls faster than that of `mu`."""
        return max(mu * (shift / (mu - m) - m / 2) for _, m, shift in self.terms)

    def _is_below(self, mu: float, low: float, high: float, halvings: int) -> bool:
        """Return whether the union surely lies below `gdp_delta` of `mu` on an interval."""
        union = self._union(low)
        if gdp_delta(mu, high) >= union:
            return True
        if not halvings or gdp_delta(mu, low) < union:
            return False
        # Both rates grow with epsilon: here all ratios fall all the way.
        fall = _rate(mu, high)
        if all(_rate(m, low - shift) >= fall for _, m, shift in self.terms):
            return True
        middle = (low + high) / 2
        return self._is_below(mu, low, middle, halvings - 1) and self._is_below(
            mu, middle, high, halvings - 1
        )


def _rest(mu: float, epsilon: float) -> float:
    """Return 1 less `gdp_delta`."""
    if mu == 0:
        return math.exp(min(epsilon, 0.0))
    give = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return float(ndtr(epsilon / mu - mu / 2)) + math.exp(give)


def _rate(mu: float, epsilon: float) -> float:
    """Return the rate at which `gdp_delta` falls with epsilon, relative to itself."""
    delta = gdp_delta(mu, epsilon)
    if delta == 0:
        return math.inf
    share = float(log_ndtr(-mu / 2 - epsilon / mu)) if mu else 0.0
    return math.exp(epsilon + share) / delta


def _merged(terms: dict[tuple[float, float], float]) -> dict[tuple[float, float], float]:
    while len(terms) > _MOST_TERMS:
        falling = sorted(terms.items(), reverse=True)
        terms = {}
        for i in range(0, len(falling), 2):
            pair = falling[i : i + 2]
            both = pair[0][0][0], max(shift for (_, shift), _ in pair)
            terms[both] = terms.get(both, 0.0) + math.fsum(weight for _, weight in pair)
    return terms
