r"""What it costs to answer from a public guess until the guess is visibly wrong.

The mechanism gets a stream of adaptive scalar queries, unlimited in number, each with a guess that
is public (a function of the queries and of earlier outputs). For every query it draws fresh
Laplace noise of scale b. Where the noisy answer is farther from the guess than a threshold it
releases the noisy answer, an *update*; otherwise it releases only that there was none. After B
updates the private data are not touched again.

A query may be any number whose values on neighbouring data differ by at most Delta *given the same
earlier outputs*; guess, threshold and query may depend on these, and the threshold may be any
number >= 0. So the scores of several classes, asked one after the other against one count of
updates, are one longer stream.

**Theorem.** Let x = Delta / b, alpha > 1 and beta = 2 alpha - 1. For u in [0, x] and w = x - u let

- lower: ``U = e^{(alpha-1)x} (e^{-beta u}/2 + (alpha-1) e^{-beta x}) / beta``,
  ``N = (2 - e^{-u})^alpha e^{(alpha-1)w} / 2``;
- higher: ``U = e^{(alpha-1)x} (alpha - e^{-beta w}/2) / beta``,
  ``N = (2 - e^{-u})^{1-alpha} e^{-alpha w} / 2``;

and let R be the largest ``U / (1-N)`` of both rows. If all N < 1 (which needs
``(alpha-1) x < ln 2``), the Renyi divergence of order alpha is at most ``B ln(R) / (alpha-1)``,
whatever the thresholds. No smaller bound holds for all of them.

*Proof.* Let b = 1. A query's value less the guess is d under P and d' under Q, h = \|d - d'\| <= x.
Let p and q be the probabilities of no update, ``N = p^alpha q^{1-alpha}``, and U the integral of
``f^alpha g^{1-alpha}`` over the updates, f and g being the densities of the noisy value less the
guess. P is called lower if d < d', else higher.

(1) *It suffices that* ``U <= R (1-N)`` *for all d, d'.* With T queries and B updates to come the
moment of order alpha is at most ``V_B(T) = sup(N V_B(T-1) + U V_{B-1}(T-1))``, where
``V_0 = V_B(0) = 1``. As R >= 1 (take d = d'), ``V_B(T) <= R^{B-1} (N R + U) <= R^B`` by induction.
The divergence of the whole stream is the limit in T. One d and d' for ever attain ``U / (1-N)``
per update.

(2) *Updates on one side, y > 0.* If both centres are below 0, ``U = e k^{1-alpha}`` and ``N =
(1-e)^alpha (1-ke)^{1-alpha}`` with e = exp(d)/2, k = exp(d'-d). N is convex in e and 1 at e = 0, so
``U / (1-N)`` grows until the higher centre is at 0. If both are above, U = M - N for the moment M
>= 1 of Laplace noise, and ``(M-N) / (1-N)`` grows with N until the lower centre is at 0. Now let
the lower centre be at -u and the higher at w: U and N are as above, for x = u + w. If P is lower,
``dN/dw = (alpha-1) N >= (alpha-1)/2 >= -dU/dw`` and ``U + N >= 1`` (Hoelder), so ``U / (1-N)``
grows with w. If P is higher, it grows with u: ``d ln U/du = alpha - 1`` and ``d ln(1-N)/du =
(alpha-1) N / (1-N) / (2e^u - 1) <= alpha - 1`` for N <= 1/2. So the worst u + w is x.

(3) *Updates on both sides, \|y\| > s.* If \|d\| >= s, then ``N <= p e^{(alpha-1)x} <= N_0`` with
``N_0 = e^{(alpha-1)x}/2``, and ``U <= M - N`` as merging outcomes lowers moments; so ``U / (1-N) <=
(M-N_0) / (1-N_0)``, which is *lower* at u = 0. Else reflect so that the one of d, d' that is larger
in absolute value is positive; both exceed -s, as \|d\| < s. Let a and a' be the masses of y < -s, k
= a/a' = exp(d'-d), r = p/q, and N_+ what N is without this lower tail. By the joint convexity of
``p^alpha q^{1-alpha}``, ``N_+ - N >= alpha r^{alpha-1} a - (alpha-1) r^alpha a'``, which is ``a
k^{alpha-1} g(r/k)`` with ``g(z) = alpha z^{alpha-1} - (alpha-1) z^alpha``. If P is higher, ``k <= r
<= 1``, if lower, ``1 <= r <= k``: r/k is between 1 and 1/k, and g is monotone on either side of 1
with g(1) = 1. As ``1 / g(1/k)`` is the limit in (2) far below the threshold with P and Q exchanged,
``g(r/k) >= 1/R``. With (2), ``U <= R (1-N_+) + a k^{alpha-1} <= R (1-N)``.

*Numerics.* The maximum over u is taken on a grid and bounded in between: in both rows the second
derivative of ``ln U - ln(1-N)`` is at least ``-2 alpha n / (1-n)`` with n the largest N, which
*lower* has at ``e^{-u} = (2 alpha - 2) / (2 alpha - 1)``. Any order gives a valid epsilon, so the
search for the best one needs no proof. What is not proved but checked by the tests: ``ln R`` gets
a margin of 1 per cent, which covers Laplace noise on a lattice if Delta is 100 steps or more (its
excess falls with the square of that number), and rounding.

References
----------
.. [1] Jain and Thakurta (2013), "Differentially private learning with kernels", for the mechanism.
.. [2] Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy",
       Proposition 12, for the conversion to (epsilon, delta).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np

from ._bisect import bisect
from ._compositions import renyi_epsilon
from ._mechanisms import Floats, Mechanism, check_cost, check_number

_MARGIN = 1.01
_ROUNDING = 1e-14  # of ln R, absolute: its terms of order one cancel
_SMALLEST_RATIO, _LARGEST_RATIO = 1e-12, 4.0
_SMALLEST_EXTRA = 1e-2  # of alpha - 1
_LARGEST_N = 0.99  # beyond, 1 - N would magnify what the margin is for
_HALVINGS = 16  # of the logarithm between the two: to 0.05 per cent
_CELLS = 128
_SMALLEST_DELTA = 1e-300


def threshold_epsilon(ratio: float, n_updates: int, delta: float) -> float:
    """Return an epsilon at which the mechanism is (epsilon, delta)-DP, at every threshold.

    Parameters
    ----------
    ratio : float
        Sensitivity of one scalar query over the scale of its Laplace noise.
    n_updates : int
        How many updates may be released, over all queries and classes together.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Infinite for a ratio above 4.

    Examples
    --------
    >>> round(threshold_epsilon(0.03, n_updates=10, delta=1e-6), 2)
    0.95
    """
    _check(n_updates, delta)
    if not ratio >= 0:
        raise ValueError(f"ratio must be a number >= 0, got {ratio!r}.")
    if ratio == 0:
        return 0.0
    if ratio > _LARGEST_RATIO:
        return math.inf
    ratio = max(float(ratio), _SMALLEST_RATIO)
    extra = np.geomspace(_SMALLEST_EXTRA, math.log(2) / ratio, 128)
    return renyi_epsilon(lambda e: _divergence(ratio, n_updates, e), delta, extra)


def threshold_ratio(epsilon: float, delta: float, n_updates: int) -> float:
    """Return a ratio at which the mechanism is (epsilon, delta)-DP, at every threshold.

    Parameters
    ----------
    epsilon : float
        Infinity gives an infinite ratio, that is, no noise.
    delta : float
        In (0, 1).
    n_updates : int
        As of `threshold_epsilon`.

    Returns
    -------
    float
        The largest ratio, at most 4, that `threshold_epsilon` allows, less up to 0.1 per cent.
        The noise needs the scale sensitivity / ratio. Zero where even 1e-12 is too much.

    Examples
    --------
    >>> round(1 / threshold_ratio(1.0, 1e-6, n_updates=10), 1)
    31.9
    """
    _check(n_updates, delta)
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be a number >= 0, got {epsilon!r}.")
    if math.isinf(epsilon):
        return math.inf

    def holds(ratio: float) -> bool:
        return threshold_epsilon(ratio, n_updates, delta) <= epsilon

    low, high = _SMALLEST_RATIO, _LARGEST_RATIO
    return bisect(holds, low, high, halvings=_HALVINGS, geometric=True) if holds(low) else 0.0


@dataclass(frozen=True)
class ThresholdDP(Mechanism):
    """The cost of such a stream: `threshold_epsilon` at any delta.

    Parameters
    ----------
    ratio : float
        Sensitivity of one scalar query over the scale of its Laplace noise.
    n_updates : int
        How many updates may be released.

    Examples
    --------
    >>> from skdpsumm.privacy import PureDP
    >>> from skdpsumm.privacy._threshold import ThresholdDP
    >>> cost = ThresholdDP(ratio=0.03, n_updates=10)
    >>> round(cost.epsilon(1e-6), 2), round((cost + PureDP(0.1)).epsilon(1e-6), 2)
    (0.95, 1.04)
    """

    ratio: float
    n_updates: int
    kind: ClassVar[str] = "noisy_threshold"

    def __post_init__(self) -> None:
        check_cost("ratio", self.ratio)
        _check_updates(self.n_updates)

    def epsilon(self, delta: float) -> float:
        """Return `threshold_epsilon`, which is infinite at delta = 0."""
        check_number("delta", delta)
        if delta >= 1:
            return 0.0
        return math.inf if delta <= 0 else threshold_epsilon(self.ratio, self.n_updates, delta)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta for `epsilon`, by bisection of its logarithm."""
        check_number("epsilon", epsilon)
        low = math.log(_SMALLEST_DELTA)
        return math.exp(
            bisect(lambda x: self.epsilon(math.exp(x)) <= epsilon, 0.0, low, halvings=50)
        )

    def renyi_divergence(self, extra: Floats) -> Floats:
        ratio = max(float(self.ratio), _SMALLEST_RATIO)
        if ratio > _LARGEST_RATIO:
            return np.full(extra.shape, math.inf)
        # Divergences grow with the order; beyond the largest one the theorem says nothing.
        largest = math.log(2) / ratio
        known = np.clip(extra, _SMALLEST_EXTRA, largest)
        return np.where(extra > largest, math.inf, _divergence(ratio, self.n_updates, known))


def _divergence(ratio: float, n_updates: int, extra: Floats) -> Floats:
    """Return what the theorem proves of the orders ``1 + extra``."""
    return float(n_updates) * _log_moment(ratio, extra) / extra


def _log_moment(ratio: float, extra: Floats) -> Floats:
    """Return upper bounds of ln R for the orders 1 + extra, infinite where R may be."""
    largest = _largest_n(ratio, extra)
    finite = largest <= _LARGEST_N
    result = np.full(extra.shape, math.inf)
    if not finite.any():
        return result
    extra, largest = extra[finite], largest[finite]
    on_grid = _largest_on_grid(ratio, extra[:, None])
    bend = 2 * (1 + extra) * largest / (1 - largest)
    between = bend * (ratio / _CELLS) ** 2 / 8
    result[finite] = _MARGIN * (on_grid + between) + _ROUNDING
    return result


def _largest_n(ratio: float, extra: Floats) -> Floats:
    u = np.minimum(np.log1p(1 / (2 * extra)), ratio)
    return np.exp(_log_lower_n(u, ratio - u, extra))


def _log_lower_n(u: Floats, w: Floats, extra: Floats) -> Floats:
    # 2 - exp(-u) is 1 - expm1(-u), exact for small u.
    return (1 + extra) * np.log1p(-np.expm1(-u)) + extra * w - math.log(2)


def _largest_on_grid(ratio: float, extra: Floats) -> Floats:
    """Return the largest ln U - ln(1-N) on the grid, for a column of orders."""
    order, beta = 1 + extra, 1 + 2 * extra
    u = ratio * np.linspace(0, 1, _CELLS + 1)
    w = ratio - u
    lower_u = np.exp(-beta * u) / 2 + extra * np.exp(-beta * ratio)
    higher_u = order - np.exp(-beta * w) / 2
    log_higher_n = -extra * np.log1p(-np.expm1(-u)) - order * w - math.log(2)
    lower = np.log(lower_u) - np.log(-np.expm1(_log_lower_n(u, w, extra)))
    higher = np.log(higher_u) - np.log(-np.expm1(log_higher_n))
    return np.maximum(lower, higher).max(axis=1) + (extra * ratio - np.log(beta))[:, 0]


def _check(n_updates: int, delta: float) -> None:
    _check_updates(n_updates)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}.")


def _check_updates(n_updates: int) -> None:
    if not (isinstance(n_updates, Integral) and n_updates >= 1):
        raise ValueError(f"n_updates must be an integer >= 1, got {n_updates!r}.")
