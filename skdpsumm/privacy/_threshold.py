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

A query may also be a vector, with a guess and a threshold for each entry, that moves by at most
Delta *in L2*: the scores of one point, say. Each entry gets noise of its own, and all that are
farther off than their thresholds are released. That is one update, however many they are.

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

**Vectors.** Let a = alpha - 1, and R(h) be R for a ratio of h. For vectors the theorem holds with
``ln R(x) + x^3 max(0, beta^3 min(1 / (6 sqrt 3), 2 a / beta) - 6 a^3) / 6`` in place of ln R, or
``alpha a x^2`` if that is more. (The first is ln R itself from a = 0.51 on.)

*Proof.* (4) *It suffices to add up.* Let entry k move by h_k, and let U_k, N_k and R_k = R(h_k) be
its own. What is told of one entry is independent of the others, and there is an update unless all
say no: ``N = prod N_k``, and with (1) for each entry ``U = prod (N_k + U_k) - prod N_k <= prod (N_k
+ R_k (1 - N_k)) - prod N_k``, which is the sum of ``prod_S R_k (1 - N_k) prod_others N_k`` over all
sets S of entries but the empty one. As R_k >= 1, ``U <= (1 - N) prod R_k``. So the claim follows
from ``ln R(h) <= h^2 c`` for h <= x, c being the claim over x^2, for ``sum h_k^2 <= x^2``.

(5) *Higher* has N <= 1/2, and U + N <= M, the moment of Laplace noise of ratio h, as merging
outcomes lowers moments. So ``U / (1-N) <= 1 + (M-1) / (1-N) <= 2 M - 1``. An h-DP mechanism is
h^2/2-zCDP, ``M <= e^{z/2}`` with z = alpha a h^2, and ``2 e^{z/2} - 1 <= e^z``.

(6) *Lower*, along a ray u = theta h, w = (1 - theta) h: g = ln U - ln(1-N) and its derivative are 0
at h = 0, so ``g / h^2`` is the mean of ``(1-t) g''(t h)`` over t in [0, 1], and where ``g''' >=
-m`` it grows with h but for ``-m/6`` at most: ``g(h) / h^2 <= g(x) / x^2 + m x / 6``. For m take
the two parts of g'''. That of ln U is ``beta^3 (1-theta)^3 v (1-v) (1-2v)``, v being the share of
``e^{-beta u}/2`` in U's bracket, and ``1 - v <= 2 a / beta``; so it is at least ``-(1-theta)^3
beta^3 min(1 / (6 sqrt 3), 2 a / beta)``. For that of -ln(1-N) let ``n = N / (1-N)``, ``q =
e^{-u}``, ``k = q / (2-q) <= 1``, ``b = alpha theta k``, ``e = a (1 - theta)`` and ``D = b + e``,
which is ``(ln N)'``. As ``k' = -theta k (1+k)``, it is n times ``P D^3 - 3 Q theta b D + S theta^2
b`` with ``P = (1+n) (1+2n)``, ``Q = (1+n) (1+k)`` and ``S = (1+k) (1+2k)``. Since ``N >= (2-q)/2``,
n k >= 1. So ``P b >= (1+n) (1+2n) k theta >= Q theta``, the derivative in e is at least ``3 P
e^2``, and the bracket is at least P e^3 plus its value at e = 0, b times ``P b^2 - 3 Q theta b + S
theta^2``. That grows with b from ``b = theta k`` on, as ``2 (1+2n) k >= 3 (1+k)``, and is theta^2
times ``P k^2 - 3 Q k + S`` there. This grows with n where ``4 n k >= 3``, and for n = 1/k it is 0.
As P >= 6 and n >= 1, the second part is at least ``6 a^3 (1-theta)^3``.

*Numerics.* The maximum over u is taken on a grid and bounded in between: in both rows the second
derivative of ``ln U - ln(1-N)`` is at least ``-2 alpha n / (1-n)`` with n the largest N, which
*lower* has at ``e^{-u} = (2 alpha - 2) / (2 alpha - 1)``. Any order gives a valid epsilon, so the
search for the best one needs no proof. What is not proved but checked by the tests: ``ln R`` gets
a margin of 1 per cent, which covers Laplace noise on a lattice if Delta is 100 steps or more (its
excess falls with the square of that number; entries of vectors may move by fewer), and rounding.

References
----------
.. [1] Jain and Thakurta (2013), "Differentially private learning with kernels", for the mechanism.
.. [2] Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy",
       Proposition 12, for the conversion to (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._computing import Floats
from ._domination import bisect
from ._mechanisms import Mechanism, check_number, renyi_delta, renyi_epsilon

_LATTICE_MARGIN = 1.01
_SMALLEST_RATIO, _LARGEST_RATIO = 1e-12, 4.0
_SMALLEST_EXTRA = 1e-2  # of alpha - 1
_N_GRID_CELLS = 128


def threshold_ratio(epsilon: float, delta: float, n_updates: int, n_values: int = 1) -> float:
    """Return a ratio at which the mechanism is (epsilon, delta)-DP, at every threshold.

    Parameters
    ----------
    epsilon : float
        Infinity gives an infinite ratio, that is, no noise.
    delta : float
        Above 0: no ratio will do at 0.
    n_updates, n_values : int
        As of `ThresholdDP`.

    Returns
    -------
    float
        The largest ratio, at most 4, that `ThresholdDP` allows, less up to 0.1 per cent.
        The noise needs the scale sensitivity / ratio. Zero where even 1e-12 is too much.

    Examples
    --------
    >>> round(1 / threshold_ratio(1.0, 1e-6, n_updates=10), 1)
    31.9
    """
    if epsilon == math.inf:
        return math.inf

    def holds(ratio: float) -> bool:
        return ThresholdDP(ratio, n_updates, n_values).epsilon(delta) <= epsilon

    low, high = _SMALLEST_RATIO, _LARGEST_RATIO
    # Sixteen halvings of the logarithm find the ratio to 0.05 per cent.
    return bisect(holds, low, high, halvings=16, geometric=True) if holds(low) else 0.0


@dataclass(frozen=True)
class ThresholdDP(Mechanism):
    """The cost of such a stream, at every threshold.

    Parameters
    ----------
    ratio : float
        Sensitivity of one query, in L2 if it is a vector, over the scale of its Laplace noise.
    n_updates : int
        How many updates may be released, over all queries together.
    n_values : int, default=1
        How many entries a query has: 1 for scalars. What vectors cost does not depend on it.

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
    n_values: int = 1
    kind: ClassVar[str] = "noisy_threshold"

    def epsilon(self, delta: float) -> float:
        """Return an epsilon, which is infinite at delta = 0, and for a ratio above 4."""
        check_number("delta", delta)
        if delta >= 1 or self.ratio == 0 < delta:
            return 0.0
        if delta <= 0 or self.ratio > _LARGEST_RATIO:
            return math.inf
        return self._best(renyi_epsilon, delta)

    def delta(self, epsilon: float) -> float:
        """Return a delta for `epsilon`, which is 1 for a ratio above 4."""
        check_number("epsilon", epsilon)
        if epsilon == math.inf or self.ratio == 0 <= epsilon:
            return 0.0
        if epsilon < 0 or self.ratio > _LARGEST_RATIO:
            return 1.0
        return self._best(renyi_delta, epsilon)

    def _best(self, conversion: Callable[..., float], given: float) -> float:
        """Return the best that follows from an order of which the theorem speaks."""
        ratio = max(float(self.ratio), _SMALLEST_RATIO)
        extra = np.geomspace(_SMALLEST_EXTRA, math.log(2) / ratio, 128)
        return conversion(lambda e: self._divergence(ratio, e), given, extra)

    def renyi_divergence(self, extra: Floats) -> Floats:
        ratio = max(float(self.ratio), _SMALLEST_RATIO)
        if ratio > _LARGEST_RATIO:
            return np.full(extra.shape, math.inf)
        # Divergences grow with the order; beyond the largest one the theorem says nothing.
        largest = math.log(2) / ratio
        known = np.clip(extra, _SMALLEST_EXTRA, largest)
        return np.where(extra > largest, math.inf, self._divergence(ratio, known))

    def _divergence(self, ratio: float, extra: Floats) -> Floats:
        """Return what the theorem proves of the orders ``1 + extra``."""
        log_moment = _log_moment if self.n_values == 1 else _log_moment_of_vectors
        return float(self.n_updates) * log_moment(ratio, extra) / extra


def _log_moment_of_vectors(ratio: float, extra: Floats) -> Floats:
    order, beta = 1 + extra, 1 + 2 * extra
    falls = beta**3 * np.minimum(1 / (6 * math.sqrt(3)), 2 * extra / beta) - 6 * extra**3
    rest = np.maximum(falls, 0) * ratio**3 / 6
    return np.maximum(_log_moment(ratio, extra) + rest, _LATTICE_MARGIN * order * extra * ratio**2)


def _log_moment(ratio: float, extra: Floats) -> Floats:
    """Return upper bounds of ln R for the orders 1 + extra, infinite where R may be."""
    u = np.minimum(np.log1p(1 / (2 * extra)), ratio)
    largest = np.exp(_log_lower_n(u, ratio - u, extra))
    # A larger N would make 1 - N magnify what the margin is for.
    finite = largest <= 0.99
    result = np.full(extra.shape, math.inf)
    if not finite.any():
        return result
    extra, largest = extra[finite], largest[finite]
    on_grid = _largest_on_grid(ratio, extra[:, None])
    bend = 2 * (1 + extra) * largest / (1 - largest)
    between = bend * (ratio / _N_GRID_CELLS) ** 2 / 8
    # Terms of order one cancel in ln R, so 1e-14 is added for their rounding.
    result[finite] = _LATTICE_MARGIN * (on_grid + between) + 1e-14
    return result


def _log_lower_n(u: Floats, w: Floats, extra: Floats) -> Floats:
    # 2 - exp(-u) is 1 - expm1(-u), exact for small u.
    return (1 + extra) * np.log1p(-np.expm1(-u)) + extra * w - math.log(2)


def _largest_on_grid(ratio: float, extra: Floats) -> Floats:
    """Return the largest ln U - ln(1-N) on the grid, for a column of orders."""
    order, beta = 1 + extra, 1 + 2 * extra
    u = ratio * np.linspace(0, 1, _N_GRID_CELLS + 1)
    w = ratio - u
    lower_u = np.exp(-beta * u) / 2 + extra * np.exp(-beta * ratio)
    higher_u = order - np.exp(-beta * w) / 2
    log_higher_n = -extra * np.log1p(-np.expm1(-u)) - order * w - math.log(2)
    lower = np.log(lower_u) - np.log(-np.expm1(_log_lower_n(u, w, extra)))
    higher = np.log(higher_u) - np.log(-np.expm1(log_higher_n))
    return np.maximum(lower, higher).max(axis=1) + (extra * ratio - np.log(beta))[:, 0]
