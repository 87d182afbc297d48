"""Threshold accounting: vectors by quadrature, calibration, and files.

`examples/proofs/threshold.py`, which `test_proofs` runs, compares the claim for scalars with
quadrature, exact deltas of streams, and noise on integers.
"""

import math

import numpy as np
import pytest
import scripts

from skdpsumm.privacy import GaussianDP
from skdpsumm.privacy._mechanisms import mechanism_from_dict
from skdpsumm.privacy._threshold import ThresholdDP, _log_moment_of_vectors, threshold_ratio

PROOF = scripts.load("proofs/threshold.py")


def threshold_epsilon(ratio, n_updates, delta, n_values=1):
    return ThresholdDP(ratio, n_updates, n_values).epsilon(delta)


def vector_log_moment(order, shifts, rng, ratio):
    """Return ln U - ln(1-N) of vectors whose entries move by `shifts`, shape (n, K)."""
    s = rng.choice([ratio / 10, ratio, 0.5, 6.0], shifts.shape)
    s[: len(s) // 2] = 20.0
    d = s + np.abs(shifts) * rng.choice(np.linspace(-1, 0.25, 16), shifts.shape)
    d = np.where((shifts == 0) & (s > 6), 0.0, d)  # silent
    flat = PROOF.moments(order, d.ravel(), (d + shifts).ravel(), s.ravel())
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
    new = ThresholdDP(0.03, 10, 4)
    assert mechanism_from_dict(new.to_dict()) == new
    assert new.epsilon(1e-6) == threshold_epsilon(0.03, 10, 1e-6, 4)
    assert (new + GaussianDP(0.1)).epsilon(1e-6) > new.epsilon(1e-6)


@pytest.mark.parametrize("steps", [1, 3, 30])
def test_the_margin_covers_entries_that_move_by_few_steps(steps):
    """Of a vector that moves by 100 steps: their part is that of the square."""
    ratio, share = 0.5, steps / 100
    extra = np.geomspace(0.03, 0.9 * math.log(2) / ratio, 6)
    charged = _log_moment_of_vectors(ratio, extra)
    for k in np.flatnonzero(np.isfinite(charged)):
        part = PROOF.lattice_moment(1 + extra[k], steps, share * ratio)
        assert part <= share**2 * charged[k] + 1e-12


@pytest.mark.parametrize(("n_updates", "noise"), [(1, 19.4), (3, 23.2), (10, 31.8), (100, 74.9)])
def test_reference_values(n_updates, noise):
    # a numerical supremum over guesses, at one threshold, computed for the review of the paper
    assert 1 / threshold_ratio(1.0, 1e-6, n_updates) == pytest.approx(noise, rel=0.02)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 8, 40])
@pytest.mark.parametrize(("n_updates", "delta"), [(1, 1e-6), (7, 1e-9), (100, 0.01), (10**5, 1e-6)])
def test_ratio_inverts_epsilon_on_the_safe_side(epsilon, delta, n_updates):
    ratio = threshold_ratio(epsilon, delta, n_updates)
    assert threshold_epsilon(ratio, n_updates, delta) <= epsilon
    assert threshold_epsilon(1.001 * ratio, n_updates, delta) > epsilon
    cost = ThresholdDP(ratio, n_updates)
    assert cost.delta(cost.epsilon(delta)) == pytest.approx(delta, rel=1e-5)


def test_the_ends_of_the_ratio():
    assert threshold_ratio(math.inf, 1e-6, 1) == math.inf
    assert threshold_ratio(0.0, 1e-300, 10**9) < 1e-9
    assert threshold_epsilon(threshold_ratio(1e6, 1e-6, 1), 1, 1e-6) <= 1e6
    assert [ThresholdDP(1e-2, 1).delta(e) for e in (-1.0, 1e3, math.inf)] == [1.0, 1e-300, 0.0]
    assert [ThresholdDP(r, 1).delta(0.0) for r in (0.0, 5.0)] == [0.0, 1.0]
