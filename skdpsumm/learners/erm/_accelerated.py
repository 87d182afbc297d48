"""The last resort of the solver: gradient steps that are proved to arrive, rounding included.

Theorem. Let F be as in `_newton`, of rows with sum_i ||phi_i||^2 <= S, and let B >= ||w*|| be so
large that F(0) - F(w*) <= Lambda B^2 / 2. Suppose that slopes are taken at scores that are off by
at most d, and that the gradient made of them is off by at most e. With

    mu = Lambda / 2,   M = 3 Lambda / 2 + 2 beta S,   t = sqrt(mu / M),

let x_0 = z_0 = 0, and with G the gradient as computed at y,

    y = (x + t z) / (1 + t),   x <- y - G / M,   z <- (1 - t) z + t (y - G / mu).

Then after k steps ||x - w*||^2 <= (3/2) (1 - t)^k B^2 + (2 / Lambda) (n beta d^2 + 2 e^2 / Lambda)
/ t.

Proof. A row's slope a is that at a score s + h with |h| <= d. For a convex loss with curvature at
most beta and any score r,

    0 <= loss(r) - [loss(s + h) - a h] - a (r - s) <= beta (r - s - h)^2 / 2
      <= beta (r - s)^2 + beta h^2:

slopes at a wrong score are slopes of a slightly lower model, not wrong slopes. Summed over rows,
with <e, w - y> taken apart by |<e, v>| <= ||e||^2 / Lambda + Lambda ||v||^2 / 4, there is a number
m (y's own) such that for all w, with D = n beta d^2 + 2 e^2 / Lambda,

    m + <G, w - y> + (mu / 2) ||w - y||^2  <=  F(w)  <=  m + D + <G, w - y> + (M / 2) ||w - y||^2.

This is an inexact oracle (Devolder, Glineur and Nesterov 2013). Let E = F(x) - F(w*) + (mu / 2)
||z - w*||^2, and primes denote the next step. The right inequality at x' gives F(x') <= m + D -
||G||^2 / (2 M). By convexity of the square, ||z' - w*||^2 <= (1 - t) ||z - w*||^2 + t ||y - w*||^2
- (2 t / mu) <G, y - w* + (1 - t) (z - y)> + (t / mu)^2 ||G||^2, where t (z - y) = y - x, and half
of mu times the last term is ||G||^2 / (2 M). The left inequality at w*, times t, and at x, times
1 - t, bounds what is left: E' <= (1 - t) E + D. As E_0 <= (3/4) Lambda B^2, and F(x) - F(w*) >=
(Lambda / 2) ||x - w*||^2, the claim follows. QED

Tolerances of B or more are met by zero. Smaller ones, T, are met where the two terms are T^2 / 2
each: `smallest_distance` and the number of steps see to that. Then E <= Lambda B^2 on the way, so
||x - w*|| and ||z - w*|| are at most 2 B, and ||y|| at most 3 B. Where the vector is kept as
coefficients c of the rows, those of x follow a linear recursion of second order that is driven by
slopes / M, with poles of modulus at most 1 - t. So |c| <= L / (t^2 M) = 2 L / Lambda, and 6 L /
Lambda for y = x' + (1 - t) / (1 + t) (x' - x), which is how y is found without z. Vectors are sums
of two floats, with errors of the order of UNIT^2; only 2 t / (1 + t) (x' - x) is rounded to one,
which moves z by a few units of x' - x.

The kernel matrix is taken as it is computed. d and e grow with the number of rows, and so they are
bounded for the most rows that are let in (`_erm`): a refusal tells nothing of those at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._computing import advance
from ._losses import Floats, Loss
from ._newton import Problem

# A sum of two floats.
Pair = tuple[Floats, Floats]

# Steps between two looks whether what is there can be certified already.
_STEPS_PER_LOOK = 100
# The number of steps is about 40 / t: a problem with less than this t is not let in.
_LEAST_RATE = 2.0**-21
# Norms of the points at which gradients are taken, in units of B, and coefficients, of L / Lambda.
LARGEST_NORM, LARGEST_COEFFICIENT = 3.0, 6.0


def accelerated_minimum(
    problem: Problem, tolerance: float, certified: Callable[[Floats], bool]
) -> Floats:
    """Return a vector within `tolerance` of the minimum of F.

    Parameters
    ----------
    problem : Problem
    tolerance : float
        At least `smallest_distance` for the errors of `Problem.careful_gradient`.
    certified : callable
        Whether a vector is known to be within the tolerance, so that the rest can be saved.

    Returns
    -------
    ndarray, a vector of the problem
    """
    rate, largest = _rate(problem.loss, problem.regularization, problem.squares)
    x = y = (problem.zero(), problem.zero())
    for k in range(_n_steps(rate, problem.largest_norm, tolerance)):
        before, x = x, plus(y, problem.careful_gradient(*y) / -largest)
        y = _ahead(x, before, rate)
        advance()
        if k % _STEPS_PER_LOOK == _STEPS_PER_LOOK - 1 and certified(problem.vector(x[0])):
            break
    return problem.vector(x[0])


def smallest_distance(
    loss: Loss,
    regularization: float,
    squares: float,
    n_rows: int,
    score_error: float,
    gradient_error: float,
) -> float:
    """Return a tolerance that `accelerated_minimum` keeps for all rows, rounding included.

    Parameters
    ----------
    loss : Loss
    regularization : float
    squares : float
        S.
    n_rows : int
    score_error, gradient_error : float
        d and e, at points of norm up to `LARGEST_NORM` B.
    """
    rate, _ = _rate(loss, regularization, squares)
    if rate < _LEAST_RATE:
        return math.inf
    of_scores = n_rows * loss.smoothness / regularization * score_error**2
    of_gradient = 2 * (gradient_error / regularization) ** 2
    return 2 * math.sqrt((of_scores + of_gradient) / rate)


def _rate(loss: Loss, regularization: float, squares: float) -> tuple[float, float]:
    """Return t and M."""
    largest = 1.5 * regularization + 2 * loss.smoothness * squares
    return math.sqrt(regularization / 2 / largest), largest


def _n_steps(rate: float, largest_norm: float, tolerance: float) -> int:
    """Return k for which the part of the bound that vanishes is half of the tolerance's square."""
    if tolerance >= largest_norm:
        return 0
    return math.ceil(math.log(3 * (largest_norm / tolerance) ** 2) / rate)


def _ahead(x: Pair, before: Pair, rate: float) -> Pair:
    """Return y, from x and the x before."""
    change = (x[0] - before[0]) + (x[1] - before[1])
    y = x
    for term in (x[0], -before[0], x[1], -before[1], -2 * rate / (1 + rate) * change):
        y = plus(y, term)
    return y


def plus(pair: Pair, change: Floats) -> Pair:
    """Return a sum of two floats, plus a float, as a sum of two floats (Knuth)."""
    high = pair[0] + change
    back = high - pair[0]
    error = (pair[0] - (high - back)) + (change - back)
    low = pair[1] + error
    total = high + low
    return total, low - (total - high)
