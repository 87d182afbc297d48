"""The exact curves of Gaussian differential privacy and of zCDP.

References
----------
.. [1] Dong, Roth and Su (2022), "Gaussian differential privacy", JRSS-B, Corollary 1.
.. [2] Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential
       privacy", Proposition 12.
"""

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, expit, log_ndtr, ndtr, ndtri

# Epsilons are reported from above: brentq stops within this of the root.
_TOLERANCE = 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which a mu-GDP mechanism is (epsilon, delta)-DP."""
    if mu == 0:
        return max(0.0, 1.0 - math.exp(epsilon)) if epsilon < 0 else 0.0
    if math.isinf(mu):
        return 1.0
    if mu < 0.1 and epsilon >= 0:
        return _small_gdp_delta(mu, epsilon)
    keep = ndtr(mu / 2 - epsilon / mu)
    give = math.exp(min(epsilon + log_ndtr(-mu / 2 - epsilon / mu), 0.0))
    return float(min(1.0, max(0.0, keep - give)))


def _small_gdp_delta(mu: float, epsilon: float) -> float:
    """Return `gdp_delta` where its two terms would cancel.

    With a = epsilon / mu - mu / 2, phi(a) = exp(epsilon) phi(a + mu), and Mills' ratio R, it is
    ``phi(a) (R(a) - R(a + mu))``; the difference is the integral of ``1 - u R(u)``.
    """
    a = epsilon / mu - mu / 2
    if a > 40:  # the density underflows
        return 0.0
    u = a + mu * (1 + _NODES) / 2
    slope = 1 - u * math.sqrt(math.pi / 2) * erfcx(u / math.sqrt(2))
    density = math.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    return max(0.0, density * mu / 2 * float(_WEIGHTS @ slope))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which a mu-GDP mechanism is (epsilon, delta)-DP."""
    if mu == 0 or delta >= 1:
        return 0.0
    if math.isinf(mu) or delta <= 0:
        return math.inf
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    # Phi(mu/2 - eps/mu) alone bounds delta, and gives the upper end of the bracket.
    high = mu * (mu / 2 - float(ndtri(delta))) * (1 + 1e-9) + 1e-9
    if math.isinf(high):
        return math.inf
    near = _TOLERANCE * min(mu, 1.0)
    root = brentq(lambda e: gdp_delta(mu, e) - delta, 0.0, high, xtol=near, rtol=_TOLERANCE)
    return root * (1 + 2 * _TOLERANCE) + near


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose mechanism is (epsilon, delta)-DP (analytic Gaussian)."""
    if math.isinf(epsilon):
        return math.inf
    low, high = 0.0, 1.0
    while gdp_delta(high, epsilon) < delta:
        low, high = high, 2 * high
    options = {"xtol": 1e-300, "rtol": _TOLERANCE, "maxiter": 2000}
    mu = brentq(lambda m: gdp_delta(m, epsilon) - delta, low, high, **options)
    return mu * (1 - 1e-11)


def pure_to_gdp(epsilon: float) -> float:
    """Return the mu of the Gaussian that dominates every epsilon-DP mechanism.

    The trade-off curve of epsilon-DP has one kink, at ``1 / (1 + exp(epsilon))`` on the diagonal.
    A Gaussian curve is convex, so it lies below the whole curve as soon as it lies below the kink.
    """
    return -2 * float(ndtri(expit(-epsilon)))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta at which every rho-zCDP mechanism is (epsilon, delta)-DP.

    Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return 1.0

    def log_delta(log_order: float) -> float:
        extra = math.exp(log_order)  # alpha - 1
        order = 1 + extra
        return extra * (order * rho - epsilon) - math.log(extra) + order * math.log1p(-1 / order)

    best = minimize_scalar(log_delta, bounds=(-12.0, 18.0), method="bounded")
    return min(1.0, math.exp(min(best.fun, 0.0)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon at which every rho-zCDP mechanism is (epsilon, delta)-DP.

    Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    if rho == 0 or delta >= 1:
        return 0.0
    if math.isinf(rho) or delta <= 0:
        return math.inf

    def epsilon_at(log_order: float) -> float:
        extra = math.exp(log_order)
        order = 1 + extra
        return order * rho + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / extra

    best = minimize_scalar(epsilon_at, bounds=(-12.0, 18.0), method="bounded")
    return max(0.0, float(best.fun))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose conversion gives (epsilon, delta)-DP."""
    if math.isinf(epsilon):
        return math.inf
    high = 1.0
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2
    options = {"xtol": 1e-300, "rtol": 1e-10, "maxiter": 2000}
    rho = brentq(lambda r: zcdp_epsilon(r, delta) - epsilon, 0.0, high, **options)
    return rho * (1 - 1e-9)
