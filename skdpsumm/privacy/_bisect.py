"""Roots that err on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq


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
