"""Curves without a closed inverse: their epsilons, and the Gaussian that dominates them.

Filters of a ledger add up mu**2 of Gaussian mechanisms, whatever each charge depends on. So a cost
with another curve is charged as mu-GDP, for a mu whose curve is nowhere below its own.

*What is compared.* delta(epsilon) is convex in exp(epsilon), for it is the largest of functions
that are affine in it. So between two epsilons it lies below the chord of whatever bounds it there,
and the Gaussian curve lies above its tangents. Halving an interval until chords lie below tangents
proves the claim.

*The far tail* is bounded by ``weight gdp_delta(mu, epsilon - shift)``. With Mills' ratio R and a =
e/mu - mu/2, ``-d log gdp_delta(mu, e) / de = 1 / (R(a) / R(a + mu) - 1)``, which grows with a, as
log R is convex, and falls with mu, as R falls. So for ``larger > mu`` the ratio ``gdp_delta(mu, e -
shift) / gdp_delta(larger, e)`` falls from the point on where ``(e - shift) / mu - mu / 2 >= e /
larger - larger / 2``.

*Small epsilons.* A claim (e, d) in both orders bounds the curve below e: it is then ``(epsilon, 1 -
(1 + exp(epsilon)) a)``-DP for epsilon <= e, with ``a = (1 - d) / (1 + exp(e))``. The trade-off
curve, which is symmetric, crosses the diagonal no lower than at a, and the curve of mu crosses it
at Phi(-mu / 2). So the e of the largest a that is tried decides for all epsilons below it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, log_ndtr, ndtri_exp

from ._mechanisms import Cost, GaussianDP, NearIdeal, gdp_delta, gdp_epsilon

# The mu that is tried is raised by this part, and by a tenth more each time.
_FIRST_RAISE = 2e-4


class DominatedByGaussian(NearIdeal):
    """A mechanism whose curve has a closed form of its own, and which adds up as a Gaussian one.

    Its losses, and so its curve, are the same in both orders of neighbours.
    """

    @property
    @abstractmethod
    def _far_tail(self) -> tuple[float, float, float]:
        """Weight, mu and shift: ``weight gdp_delta(mu, epsilon - shift)`` bounds the curve."""

    @abstractmethod
    def _curve(self, epsilon: float) -> float:
        """Return the smallest known delta, the slack aside, at an epsilon of at least 0."""

    def dominating_mu(self) -> float:
        """Return a mu whose curve is nowhere below this one, the slack of both aside."""
        # A search prices the same ones repeatedly.
        return _dominating_mu(replace(self, log_ratio=0.0, tail=0.0))  # type: ignore[type-var]

    def _least_mu(self) -> float:
        """Return such a mu, hardly larger than it must be."""
        return dominating_mu(self._curve, *self._far_tail)

    def _ideal_delta(self, epsilon: float) -> float:
        if epsilon < 0:
            return -math.expm1(epsilon) + math.exp(epsilon) * self._curve(-epsilon)
        return self._curve(epsilon)

    def _ideal_epsilon(self, delta: float) -> float:
        if delta <= 0:
            return math.inf
        if self._curve(0.0) <= delta:
            return 0.0
        weight, mu, shift = self._far_tail
        high = shift + gdp_epsilon(mu, delta / weight)
        return at_most(self._curve, delta, high, 0.0) if math.isfinite(high) else high

    def group(self, size: int) -> GaussianDP:
        return self.as_accountable().group(size)

    def as_accountable(self) -> GaussianDP:
        """Return the Gaussian mechanism that dominates this one at every epsilon."""
        return GaussianDP(self.dominating_mu(), *self.slack)

    def price(self, accountant: str) -> Cost | None:
        # One mu for all epsilons: of mu-GDP the filters know an adaptive sum.
        return None if accountant == "pure" else self.as_accountable().price(accountant)


@lru_cache(maxsize=512)
def _dominating_mu(one: DominatedByGaussian) -> float:
    return one._least_mu()


def dominating_mu(delta: Callable[[float], float], weight: float, mu: float, shift: float) -> float:
    """Return the mu of a Gaussian mechanism that dominates all whose delta is at most `delta`.

    Parameters
    ----------
    delta : callable
        Takes an epsilon of at least 0, and returns an upper bound of delta for both orders of
        neighbours.
    weight, mu, shift : float
        ``weight gdp_delta(mu, epsilon - shift)`` is another one; mu is positive, all are finite.

    Returns
    -------
    float
        Hardly larger than it must be. Infinite if none is found.
    """
    tries = np.linspace(0.0, shift + 6 * mu + 2 * mu * mu, 33).tolist()
    # A delta that is nearer to 1 has lost its digits.
    known = [(e, d) for e in tries if (d := delta(e)) <= 1 - 1e-9]
    if not known:
        return math.inf
    # Below `start` the claim there says more than the curve.
    log_height, start = max((math.log1p(-d) + float(log_expit(-e)), e) for e, d in known)
    found = max(mu * (1 + _FIRST_RAISE), -2 * float(ndtri_exp(log_height)) * (1 + 1e-9))
    found = max(found, *(_mu_at(e, d) for e, d in known if e >= start))
    part = _FIRST_RAISE
    for _ in range(120):
        if _dominates(found, delta, start, (weight, mu, shift)):
            return found
        found, part = found * (1 + part), part * 1.1
    return math.inf


def _mu_at(epsilon: float, delta: float) -> float:
    """Return the mu whose curve passes through a point; 0 where that cannot be told."""
    if delta <= 1e-12:
        return 0.0
    high = 1.0
    while gdp_delta(high, epsilon) < delta:
        high *= 2
    return float(brentq(lambda mu: gdp_delta(mu, epsilon) - delta, 1e-12, high, rtol=1e-12))


def _dominates(
    larger: float, delta: Callable[[float], float], start: float, tail: tuple[float, float, float]
) -> bool:
    """Return whether the curve of `larger` is surely nowhere below `delta` from `start` on."""
    weight, mu, shift = tail
    end = max(larger * (shift / (larger - mu) - mu / 2), mu, start)
    while not 0 < weight * gdp_delta(mu, end - shift) <= gdp_delta(larger, end):
        if gdp_delta(larger, end) == 0:
            return False
        end *= 1.1
    low, width = start, mu
    while low < end:
        high = min(low + width, end)
        if not _chords_below(larger, delta, low, high, 9):
            return False
        # The first chord is as wide as mu, and later ones are wider, while exp of that is a number.
        low, width = high, min(1.5 * width, 600.0)
    return True


def _chords_below(
    larger: float, delta: Callable[[float], float], low: float, high: float, halvings: int
) -> bool:
    """Return whether chords of `delta` lie below tangents of the other curve on an interval."""
    if delta(low) > gdp_delta(larger, low):
        return False
    middle = (low + high) / 2
    touched = gdp_delta(larger, middle)
    slope = math.exp(middle + float(log_ndtr(-larger / 2 - middle / larger)))
    if all(delta(e) <= touched - slope * math.expm1(e - middle) for e in (low, high)):
        return True
    return halvings > 0 and all(
        _chords_below(larger, delta, *ends, halvings - 1)
        for ends in ((low, middle), (middle, high))
    )


# ---- roots that err on the safe side


def bisect(
    holds: Callable[[float], bool],
    good: float,
    bad: float,
    *,
    halvings: int = 100,
    tolerance: float = 0.0,
    geometric: bool = False,
) -> float:
    """Return the point nearest to `bad` at which `holds` was seen to be true, by bisection.

    What is returned is never a guess between two points: it is `good`, or a point for which
    `holds` returned True. So a condition that makes a release private is met exactly, however
    early the search stops, and even where the condition is not monotone.

    Parameters
    ----------
    holds : callable
        Takes a float and says whether it will do.
    good : float
        Where it holds. This is not checked: a caller that does not know asks first.
    bad : float
        Where it is thought to fail, below or above `good`. It is never asked there.
    halvings : int, default=100
        How often the interval is halved at most. 100 is enough for neighbouring floats, unless
        they are next to zero.
    tolerance : float, default=0.0
        Stop when the ends differ by at most this part of the larger one.
    geometric : bool, default=False
        Halve the logarithm, for an interval of many orders of magnitude. Both ends must be above 0,
        and their product a normal float.

    Returns
    -------
    float

    Examples
    --------
    >>> bisect(lambda x: x * x <= 2, good=1.0, bad=2.0)
    1.414213562373095
    >>> bisect(lambda x: x * x >= 2, good=2.0, bad=1.0)
    1.4142135623730951
    >>> bisect(lambda x: x <= 1e-6, good=1e-12, bad=4.0, halvings=16, geometric=True)
    9.99...e-07
    """
    for _ in range(halvings):
        if abs(bad - good) <= tolerance * max(abs(bad), abs(good)):
            break
        middle = math.sqrt(good * bad) if geometric else (good + bad) / 2
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def at_most(
    value: Callable[[float], float],
    target: float,
    good: float,
    bad: float,
    *,
    tolerance: float = 1e-11,
) -> float:
    """Return the point nearest to `bad` at which `value` was seen to be at most `target`.

    As `bisect`, in a quarter of the steps where `value` is smooth (Brent's method, of logarithms).

    Parameters
    ----------
    value : callable
        Takes a float and returns one of at least 0.
    target : float
        Above 0.
    good, bad : float
        Where `value` is at most `target`, and where it is more. Of one sign.
    tolerance : float, default=1e-11
        How far from the root the point may be, in relation to it.

    Returns
    -------
    float

    Examples
    --------
    >>> at_most(lambda x: x * x, 2.0, good=1.0, bad=2.0)
    1.41421356...
    """

    def excess(x: float) -> float:
        found = value(x)
        # -800 is below every logarithm of a float.
        return (math.log(found) if found > 0 else -800.0) - math.log(target)

    try:
        root = brentq(excess, good, bad, xtol=1e-300, rtol=tolerance / 4)
    except (ValueError, RuntimeError):  # no root that floats can tell, or one that is next to 0
        root = good
    near = root + math.copysign(tolerance / 2 * root, good - bad)
    if min(good, bad) < near < max(good, bad) and value(near) <= target:
        return near
    return bisect(lambda x: value(x) <= target, good, bad, tolerance=tolerance)
