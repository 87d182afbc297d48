"""Answers beyond a noisy threshold: the theorem by quadrature, and exact deltas of streams.

    python examples/proofs/threshold.py

The proof is in `docs/proofs/threshold.md`. Printed are, for several orders: the largest
ln U - ln(1 - N) of queries at many thresholds and places, by quadrature of Laplace densities, less
the theorem's ln R; the same for noise on integers; and the exact delta of the worst streams that
were found, at several epsilons, beside the library's claim.
"""

import itertools
import math

import numpy as np
from _checks import Checks
from scipy.special import comb

from skdpsumm.privacy._mechanisms import PureDP
from skdpsumm.privacy._threshold import ThresholdDP, threshold_ratio

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def cdf(y):
    """Return the distribution function of Laplace noise of scale 1."""
    return np.where(y < 0, np.exp(np.minimum(y, 0)) / 2, 1 - np.exp(-np.maximum(y, 0)) / 2)


# ---- the theorem: one query, noise of scale 1, values d under P and e under Q less the guess


def integral(function, low, high, kinks):
    """Return the integrals of a function that is smooth between kinks, for arrays of ends."""
    points = np.sort([low, *[np.clip(k, low, high) for k in kinks], high], axis=0)
    middle, half = (points[1:] + points[:-1]) / 2, np.diff(points, axis=0) / 2
    y = middle + half * NODES[:, None, None]
    return np.sum(WEIGHTS[:, None, None] * half * function(y), axis=(0, 1))


def moments(order, d, e, s):
    """Return U and N by quadrature; beyond both centres the tails fall as exp(-|y|)."""

    def moment(y):
        return np.exp(-order * np.abs(y - d) - (1 - order) * np.abs(y - e)) / 2

    high, low = np.maximum(np.maximum(d, e), s), np.minimum(np.minimum(d, e), -s)
    u = integral(moment, np.full_like(d, s), high, (d, e)) + moment(high)
    u += integral(moment, low, np.full_like(d, -s), (d, e)) + moment(low)
    p, q = (cdf(s - c) - cdf(-s - c) for c in (d, e))
    return u, np.exp(order * np.log(p) + (1 - order) * np.log(q))


def largest_moment(order, ratio, rng):
    """Return the largest ln U - ln(1 - N) of many queries, at all thresholds."""
    largest = 0.0
    for s in (ratio / 10, ratio / 3, ratio, 0.5, 2.0, 6.0):
        near = s + ratio * rng.uniform(-1.5, 1.5, 300)
        d = np.concatenate([near, rng.uniform(-s - 3, s + 3, 200)]) * rng.choice([-1, 1], 500)
        e = d + ratio * np.where(rng.random(500) < 0.8, rng.choice([-1, 1], 500), 0.5)
        u, n = moments(order, d, e, s)
        largest = max(largest, float(np.max(np.log(u) - np.log1p(-n))) if n.max() < 1 else math.inf)
    return largest


def log_r(order, ratio):
    """Return the theorem's ln R, on a grid of u; infinite where some N is 1 or more."""
    a, x, beta = order - 1, ratio, 2 * order - 1
    u = np.linspace(0, x, 20_001)
    w = x - u
    lower = np.exp(a * x) * (np.exp(-beta * u) / 2 + a * np.exp(-beta * x)) / beta
    higher = np.exp(a * x) * (order - np.exp(-beta * w) / 2) / beta
    n_lower = (2 - np.exp(-u)) ** order * np.exp(a * w) / 2
    n_higher = (2 - np.exp(-u)) ** -a * np.exp(-order * w) / 2
    if max(n_lower.max(), n_higher.max()) >= 1:
        return math.inf
    return math.log(max((lower / (1 - n_lower)).max(), (higher / (1 - n_higher)).max()))


def check_theorem(checks):
    """Compare queries with R, which some of them nearly reach."""
    rng = np.random.default_rng(0)
    for ratio in (0.03, 0.3, 1.5):
        orders = 1 + np.array([0.05, 0.2, 0.4]) * math.log(2) / ratio
        for order in orders:
            bound, found = log_r(order, ratio), largest_moment(order, ratio, rng)
            what = f"x = {ratio:g}, order {order:.3g}, largest ln U - ln(1 - N) of 3,000 queries"
            checks.holds(what, found, bound)
            # The library's divergence of one update, times (order - 1), is ln R with its margin.
            claimed = float(ThresholdDP(ratio, 1).renyi_divergence(np.array([order - 1]))[0])
            checks.holds("ln R, beside the library's", bound, claimed * (order - 1))


def lattice_moment(order, steps, ratio):
    """Return the largest ln U - ln(1 - N) of integer noise; a row moves a query by `steps`."""
    scale, width = steps / ratio, round(8 * steps / ratio)
    y = np.arange(-40 * scale, 40 * scale + 1).round() + width
    update = np.abs(y) > width
    largest = 0.0
    for d in width + np.linspace(-steps, steps, 21).round():
        for e in (d - steps, d + steps):
            f, g = (math.log(math.tanh(0.5 / scale)) - np.abs(y - c) / scale for c in (d, e))
            u = np.exp(order * f + (1 - order) * g)[update].sum()
            p, q = np.exp(f)[~update].sum(), np.exp(g)[~update].sum()
            n = math.exp(order * math.log(p) + (1 - order) * math.log(q))
            largest = max(largest, math.log(u / (1 - n)))
    return largest


def check_lattice(checks):
    """Compare noise on integers, which the margin of 1 % is for."""
    ratio, order = 0.5, 1.4
    bound = log_r(order, ratio)
    for steps in (30, 100, 300):
        found = lattice_moment(order, steps, ratio)
        checks.holds(f"integers, {steps} steps, ln U - ln(1 - N) over ln R", found / bound, 1.01)
    checks.found_out("one step", lattice_moment(order, 1, ratio), 1.01 * bound)


# ---- exact deltas of streams


def no_update(d, e, s):
    """Return the probability of no update, under P and under Q."""
    return tuple(float(cdf(s - c) - cdf(-s - c)) for c in (d, e))


def update_delta(d, e, s, cost):
    """Return the integral of (f - exp(cost) g)_+ over |y| > s, by distribution functions."""
    if cost >= abs(d - e):
        return 0.0
    low, high = -math.inf, math.inf
    if cost > -abs(d - e):  # elsewhere f is the larger everywhere
        low, high = (low, (d + e - cost) / 2) if d < e else ((d + e + cost) / 2, high)
    delta = 0.0
    for a, b in ((low, min(high, -s)), (max(low, s), high)):
        if a < b:
            delta += float(cdf(b - d) - cdf(a - d) - math.exp(cost) * (cdf(b - e) - cdf(a - e)))
    return delta


def places(ratio, s, n=6):
    """Return centres (d, e) about the threshold s, a row apart, in either order."""
    w = s + np.linspace(0, ratio, n)
    return [*zip(w - ratio, w, strict=True), *zip(w, w - ratio, strict=True)]


def delta_of_different(ratio, epsilon, n_queries=2):
    """Return the exact delta of the worst sequence of different queries, up to the first update."""
    actions = [(d, e, s) for s in (0.3, 6.0) for d, e in places(ratio, s)]
    worst = 0.0
    for sequence in itertools.product(actions, repeat=n_queries):
        reach, loss, delta = 1.0, 0.0, 0.0
        for action in sequence:
            p, q = no_update(*action)
            delta += reach * update_delta(*action, epsilon - loss)
            reach, loss = reach * p, loss + math.log(p / q)
        worst = max(worst, delta + reach * max(0.0, -math.expm1(epsilon - loss)))
    return worst


def delta_of_repeats(ratio, epsilon, n_updates, n_none=300, s=8.0):
    """Return nearly the exact delta of one query that is repeated until the last update.

    From below: values are merged to 24 bins, and sequences to how many queries had no update.
    """
    none = np.arange(n_none)
    ways = comb(none + n_updates - 1, n_updates - 1)
    worst = 0.0
    for d, e in places(ratio, s):
        p, q = no_update(d, e, s)
        edges = np.r_[s, np.linspace(max(s, min(d, e)), max(d, e), 23), np.inf]
        f, g = (np.diff(cdf(edges - c)) for c in (d, e))
        f, g = np.append(f, cdf(-s - d)), np.append(g, cdf(-s - e))
        all_f, all_g = p**none, q**none
        for _ in range(n_updates):
            all_f, all_g = np.multiply.outer(all_f, f), np.multiply.outer(all_g, g)
        excess = np.maximum(all_f - math.exp(epsilon) * all_g, 0)
        worst = max(worst, float(ways @ excess.reshape(n_none, -1).sum(axis=1)))
    return worst


def check_streams(checks):
    """Compare streams of one and two updates, of one query and of different ones."""
    for epsilon, delta, n_updates in ((1.0, 1e-3, 1), (1.0, 1e-6, 2)):
        ratio = threshold_ratio(epsilon, delta, n_updates)
        epsilons = epsilon * np.array([0.1, 0.3, 0.6, 1.0, 1.3])
        claimed = [ThresholdDP(ratio, n_updates).delta(e) for e in epsilons]
        exact = [delta_of_repeats(ratio, e, n_updates) for e in epsilons]
        checks.curve(
            f"one query until update {n_updates}, x = {ratio:.4f}", epsilons, exact, claimed
        )
        half = [delta_of_repeats(2 * ratio, e, n_updates) for e in epsilons]
        checks.found_out("half the noise", half, claimed)
        updates = [PureDP(n_updates * ratio).delta(e) for e in epsilons]
        checks.found_out("updates charged, and nothing for silence", exact, updates)
    epsilon, delta = 0.02, 0.005
    ratio = threshold_ratio(epsilon, delta, 1)
    epsilons = np.array([0.005, 0.01, 0.02])
    claimed = [ThresholdDP(ratio, 1).delta(e) for e in epsilons]
    exact = [delta_of_different(ratio, e) for e in epsilons]
    checks.curve(f"two different queries, x = {ratio:.4f}", epsilons, exact, claimed)
    half = [delta_of_different(2 * ratio, e) for e in epsilons]
    checks.found_out("half the noise", half, claimed)


def main():
    """Print all comparisons, and fail where one does."""
    checks = Checks("Answers beyond a noisy threshold")
    check_theorem(checks)
    check_lattice(checks)
    check_streams(checks)
    checks.close()


if __name__ == "__main__":
    main()
