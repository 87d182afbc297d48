"""Threshold accounting: the theorem's inequality by quadrature, exact deltas, lattice noise.

Nothing here uses the module's formulas: probabilities and densities are those of Laplace noise.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import comb

from skdpsumm.privacy import GaussianDP
from skdpsumm.privacy._mechanisms import mechanism_from_dict
from skdpsumm.privacy._threshold import (
    ThresholdDP,
    _log_moment,
    _log_moment_of_vectors,
    threshold_epsilon,
    threshold_ratio,
)

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def cdf(y):
    return np.where(y < 0, np.exp(np.minimum(y, 0)) / 2, 1 - np.exp(-np.maximum(y, 0)) / 2)


def integral(function, low, high, kinks):
    points = np.sort([low, *[np.clip(k, low, high) for k in kinks], high], axis=0)
    middle, half = (points[1:] + points[:-1]) / 2, np.diff(points, axis=0) / 2
    y = middle + half * NODES[:, None, None]
    return np.sum(WEIGHTS[:, None, None] * half * function(y), axis=(0, 1))


def moments(order, d, e, s):
    """Return U and N by quadrature; the tails decay like exp(-|y|) beyond both centres."""

    def moment(y):
        return np.exp(-order * np.abs(y - d) - (1 - order) * np.abs(y - e)) / 2

    high = np.maximum(np.maximum(d, e), s)
    low = np.minimum(np.minimum(d, e), -s)
    bounds = np.full_like(d, s), np.full_like(d, -s)
    u = integral(moment, bounds[0], high, (d, e)) + moment(high)
    u += integral(moment, low, bounds[1], (d, e)) + moment(low)
    p, q = (cdf(s - c) - cdf(-s - c) for c in (d, e))
    return u, np.exp(order * np.log(p) + (1 - order) * np.log(q))


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5, 2.0])
def test_no_query_costs_more_than_r(ratio):
    rng = np.random.default_rng(0)
    extra = np.geomspace(0.01, math.log(2) / ratio, 40)
    log_r = _log_moment(ratio, extra)
    finite = np.isfinite(log_r)
    largest = []
    for order, bound in zip(1 + extra[finite], log_r[finite], strict=True):
        for s in (ratio / 10, ratio / 3, ratio, 0.5, 2.0, 6.0):
            near = s + ratio * rng.uniform(-1.5, 1.5, 300)
            d = np.concatenate([near, rng.uniform(-s - 3, s + 3, 200)]) * rng.choice([-1, 1], 500)
            e = d + ratio * np.where(rng.random(500) < 0.8, rng.choice([-1, 1], 500), 0.5)
            u, n = moments(order, d, e, s)
            assert np.all(n < 1)
            assert np.all(np.log(u) - np.log(1 - n) <= bound)
        largest.append(np.max(np.log(u) - np.log(1 - n)) / bound)
    assert np.median(largest) > 0.97  # at the high threshold the bound is met


def vector_log_moment(order, shifts, rng, ratio):
    """Return ln U - ln(1-N) of vectors whose entries move by `shifts`, shape (n, K)."""
    s = rng.choice([ratio / 10, ratio, 0.5, 6.0], shifts.shape)
    s[: len(s) // 2] = 20.0
    d = s + np.abs(shifts) * rng.choice(np.linspace(-1, 0.25, 16), shifts.shape)
    d = np.where((shifts == 0) & (s > 6), 0.0, d)  # silent
    flat = moments(order, d.ravel(), (d + shifts).ravel(), s.ravel())
    u, n = (part.reshape(d.shape) for part in flat)
    all_n = n.prod(axis=1)
    return np.log((u + n).prod(axis=1) - all_n) - np.log(1 - all_n)


def shifts_of(rng, size, n_values, ratio):
    """Return moves of length `ratio`: even ones, single ones, and others."""
    share = rng.dirichlet(np.ones(n_values), size)
    share[::3] = 1 / n_values
    share[1::3] = np.eye(n_values)[rng.integers(n_values, size=len(share[1::3]))]
    return ratio * np.sqrt(share) * rng.choice([-1, 1], share.shape) + 0.0


@pytest.mark.parametrize("ratio", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("n_values", [2, 5])
def test_no_vector_costs_more_than_is_charged(ratio, n_values):
    """Moves of length Delta in L2; one of Delta in every entry would cost more."""
    rng = np.random.default_rng(0)
    extra = np.geomspace(0.01, math.log(2) / ratio, 16)[:-1]
    charged = _log_moment_of_vectors(ratio, extra)
    finite = np.isfinite(charged)
    largest, wrong = [], []
    for order, bound in zip(1 + extra[finite], charged[finite], strict=True):
        shifts = shifts_of(rng, 600, n_values, ratio)
        found = vector_log_moment(order, shifts, rng, ratio)
        assert np.all(found <= bound)
        largest.append(found.max() / bound)
        wide = shifts[::3] * math.sqrt(n_values)
        wrong.append(vector_log_moment(order, wide, rng, ratio).max() / bound)
    assert np.median(largest) > 0.93
    assert min(wrong) > 1.03


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.5, 2.0])
def test_a_share_of_the_move_costs_no_more_than_its_square(ratio):
    """ln R(h) <= (h / x)^2 times what vectors are charged for x: what the proof rests on."""
    extra = np.geomspace(1e-3, math.log(2) / ratio, 60)
    charged = _log_moment_of_vectors(ratio, extra)
    for share in (0.999, 0.9, 0.5, 0.1, 0.01):
        one = (_log_moment(share * ratio, extra) - 1e-14) / 1.01
        finite = np.isfinite(charged)
        assert np.all(one[finite] <= share**2 * charged[finite] * (1 + 1e-9) / 1.01 + 1e-14)


@pytest.mark.parametrize("ratio", [0.05, 0.5, 2.0])
def test_the_third_derivative_is_bounded_as_proved(ratio):
    """Of ln U - ln(1-N), where P is lower, along rays, by differences."""
    h, theta = np.linspace(0.2, 1, 9)[:, None] * ratio, np.linspace(0, 1, 21)
    step = 0.02 * ratio
    for a in (0.02, 0.1, 0.3, 0.5, 1.0, 0.9 * math.log(2) / ratio):
        if a * ratio > math.log(2):
            continue

        def g(h, a=a):
            beta, u, w = 2 * a + 1, theta * h, (1 - theta) * h
            log_u = a * h + np.log((np.exp(-beta * u) / 2 + a * np.exp(-beta * h)) / beta)
            n = (2 - np.exp(-u)) ** (1 + a) * np.exp(a * w) / 2
            return log_u - np.log(np.where(n < 1, 1 - n, np.nan))

        third = (g(h + step) - 3 * g(h) + 3 * g(h - step) - g(h - 2 * step)) / step**3
        assert np.isfinite(third).mean() > 0.5
        beta = 2 * a + 1
        least = 6 * a**3 - beta**3 * min(1 / (6 * math.sqrt(3)), 2 * a / beta)
        assert np.nanmin(third) >= min(least, 0.0) - 1e-3


def test_what_vectors_cost_beside_scalars():
    """As much as one scalar: K scores for one, where K updates cost some sqrt K in noise."""
    for n_updates in (1, 5, 30):
        one, many = (threshold_ratio(1.0, 1e-6, n_updates, k) for k in (1, 10))
        assert 0.99 * one < many <= one
        assert threshold_epsilon(many, n_updates, 1e-6, 10) <= 1.0
    assert threshold_ratio(1.0, 1e-6, 50) < 0.55 * threshold_ratio(1.0, 1e-6, 5)


def test_files_from_before_vectors_are_read():
    old = {"kind": "noisy_threshold", "ratio": 0.03, "n_updates": 10}
    assert mechanism_from_dict(old) == ThresholdDP(0.03, 10)
    assert ThresholdDP(0.03, 10).epsilon(1e-6) == threshold_epsilon(0.03, 10, 1e-6)
    new = ThresholdDP(0.03, 10, 4)
    assert mechanism_from_dict(new.to_dict()) == new
    assert new.epsilon(1e-6) == threshold_epsilon(0.03, 10, 1e-6, 4)
    assert (new + GaussianDP(0.1)).epsilon(1e-6) > new.epsilon(1e-6)


def lattice_log_moment(order, steps, ratio, width):
    """Return the largest ln U - ln(1-N) of integer Laplace noise with sensitivity `steps`."""
    scale = steps / ratio
    y = np.arange(-40 * scale, 40 * scale + 1).round() + width
    update = np.abs(y) > width

    def log_pmf(centre):
        return math.log(math.tanh(0.5 / scale)) - np.abs(y - centre) / scale

    largest = 0.0
    for d in width + np.linspace(-steps, steps, 21).round():
        for e in (d - steps, d + steps):
            f, g = log_pmf(d), log_pmf(e)
            u = np.exp(order * f + (1 - order) * g)[update].sum()
            p, q = np.exp(f)[~update].sum(), np.exp(g)[~update].sum()
            n = math.exp(order * math.log(p) + (1 - order) * math.log(q))
            largest = max(largest, math.log(u / (1 - n)) if n < 1 else math.inf)
    return largest


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_the_margin_covers_a_lattice_of_30_steps_but_not_of_one(ratio):
    extra = np.geomspace(0.01, math.log(2) / ratio, 300)
    log_r = _log_moment(ratio, extra)
    finite = np.flatnonzero(np.isfinite(log_r))
    for k in (*finite[::60], finite[-1]):
        fine = lattice_log_moment(1 + extra[k], 30, ratio, width=round(240 / ratio))
        assert 0.93 * log_r[k] < fine <= log_r[k]
        assert lattice_log_moment(1 + extra[k], 1, ratio, width=round(8 / ratio)) > log_r[k]


@pytest.mark.parametrize("steps", [1, 3, 30])
def test_the_margin_covers_entries_that_move_by_few_steps(steps):
    """Of a vector that moves by 100 steps: their part is that of the square."""
    ratio, share = 0.5, steps / 100
    extra = np.geomspace(0.03, 0.9 * math.log(2) / ratio, 6)
    charged = _log_moment_of_vectors(ratio, extra)
    for k in np.flatnonzero(np.isfinite(charged)):
        part = lattice_log_moment(1 + extra[k], steps, share * ratio, width=1600)
        assert part <= share**2 * charged[k] + 1e-12


def no_update(d, e, s):
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


def pairs(ratio, s, places=6):
    """Return centres (d, e) about the threshold s, for shifts of either sign."""
    w = s + np.linspace(0, ratio, places)
    return [*zip(w - ratio, w, strict=True), *zip(w, w - ratio, strict=True)]


def delta_of_queries(ratio, epsilon, n_queries):
    """Return the exact delta of the worst sequence of queries that ends with one update.

    Thresholds, guesses and shifts differ within a sequence, as for several classes in turn.
    """
    actions = [(d, e, s) for s in (0.3, 6.0) for d, e in pairs(ratio, s)]
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
    """Return nearly the exact delta of one query repeated until the last update, from below.

    Outcomes are merged: values to 24 bins, sequences to the number of queries without update.
    """
    none = np.arange(n_none)
    ways = comb(none + n_updates - 1, n_updates - 1)
    worst = 0.0
    for d, e in pairs(ratio, s):
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


@pytest.mark.parametrize(("epsilon", "delta"), [(0.001, 3e-4), (0.02, 0.005), (0.1, 0.02)])
def test_two_queries_stay_below_the_claim_and_half_the_noise_does_not(epsilon, delta):
    ratio = threshold_ratio(epsilon, delta, 1)
    assert delta_of_queries(ratio, epsilon, 2) < 0.3 * delta
    assert delta_of_queries(2 * ratio, epsilon, 2) > 1.02 * delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_updates"),
    [(1, 1e-6, 1), (0.1, 1e-3, 1), (10, 1e-6, 1), (1, 1e-6, 2), (1, 0.01, 2), (4, 1e-6, 2)],
)
def test_many_queries_stay_below_the_claim_and_half_the_noise_does_not(epsilon, delta, n_updates):
    ratio = threshold_ratio(epsilon, delta, n_updates)
    assert 0.02 * delta < delta_of_repeats(ratio, epsilon, n_updates) < delta
    assert delta_of_repeats(2 * ratio, epsilon, n_updates) > 2 * delta


@pytest.mark.parametrize(("n_updates", "noise"), [(1, 19.4), (3, 23.2), (10, 31.8), (100, 74.9)])
def test_reference_values(n_updates, noise):
    # a numerical supremum over guesses, at one threshold, computed for the review of the paper
    assert 1 / threshold_ratio(1.0, 1e-6, n_updates) == pytest.approx(noise, rel=0.02)


def test_monotone():
    def costs(ratios=(0.02,), updates=(10,), deltas=(1e-6,)):
        return [threshold_epsilon(*case) for case in itertools.product(ratios, updates, deltas)]

    for rising in (
        costs(ratios=np.geomspace(1e-6, 4, 60)),
        costs(updates=[1, 2, 3, 10, 30, 100, 1000, 10**6]),
        costs(deltas=10.0 ** -np.arange(1, 13)),
    ):
        assert np.all(np.diff(rising) > 0)
    assert threshold_epsilon(0.0, 1, 1e-6) == 0.0
    assert threshold_epsilon(5.0, 1, 1e-6) == math.inf


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 8, 40])
@pytest.mark.parametrize(("n_updates", "delta"), [(1, 1e-6), (7, 1e-9), (100, 0.01), (10**5, 1e-6)])
def test_ratio_inverts_epsilon_on_the_safe_side(epsilon, delta, n_updates):
    ratio = threshold_ratio(epsilon, delta, n_updates)
    assert threshold_epsilon(ratio, n_updates, delta) <= epsilon
    assert threshold_epsilon(1.001 * ratio, n_updates, delta) > epsilon


def test_the_ends_of_the_ratio():
    assert threshold_ratio(math.inf, 1e-6, 1) == math.inf
    assert threshold_ratio(0.0, 1e-300, 10**9) < 1e-9
    assert threshold_epsilon(threshold_ratio(1e6, 1e-6, 1), 1, 1e-6) <= 1e6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ratio", -0.1),
        ("ratio", math.nan),
        ("n_updates", 0),
        ("n_updates", 2.5),
        ("n_values", 0),
        ("n_values", 1.5),
        ("delta", 0.0),
        ("delta", 1.0),
        ("delta", math.nan),
    ],
)
def test_bad_parameters_are_named(name, value):
    parameters = {"ratio": 0.1, "n_updates": 3, "delta": 1e-6, name: value}
    with pytest.raises(ValueError, match=name):
        threshold_epsilon(**parameters)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        threshold_ratio(epsilon, 1e-6, 1)
