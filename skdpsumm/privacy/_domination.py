"""The Gaussian mechanism that dominates another one at every epsilon.

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
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, log_ndtr, ndtri_exp

from ._mechanisms import gdp_delta

# The mu that is tried is raised by this part, and by a tenth more each time.
_FIRST_RAISE = 2e-4


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
    larger: float,
    delta: Callable[[float], float],
    start: float,
    tail: tuple[float, float, float],
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
