"""Rows whose gradients lie on a segment: the claim against the worst path, and by brute force."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm
from test_learner_noise import delta_on_a_segment

from skdpsumm.privacy import GaussianDP, PrivacyLedger, PureDP
from skdpsumm.privacy._mechanisms import gdp_delta, gdp_mu, mechanism_from_dict
from skdpsumm.privacy._objective import calibrate
from skdpsumm.privacy._segment import SegmentDP, segment_delta
from skdpsumm.privacy._shifted_gaussian import ShiftedGaussianDP

# epsilon, k, Z: noise as calibrated for delta = 1e-6, then large deltas.
TIGHT = [(0.3, 0.03, 0.0763), (1.0, 0.1, 0.2339), (1.0, 0.3, 0.206), (3.0, 0.3, 0.639)]
WIDE = [(0.0, 0.1, 0.2339), (0.2, 0.1, 0.2339), (0.3, 1.0, 0.5), (1.0, 1.0, 0.2), (6.0, 5.0, 3.0)]


def delta_of_the_worst_path(unit, k, epsilon, n_levels=150):
    """Return the largest delta of all h from -unit to 0 with 0 <= h' <= k, by dynamic programming.

    h stands still or grows as fast as it may; one step of x is as long as a level of h takes.
    """
    step = unit / n_levels / k
    levels = np.linspace(-unit, 0.0, n_levels + 1)
    middles = (levels[1:] + levels[:-1]) / 2
    best = np.zeros(n_levels + 1)  # of what is still to come, at each level
    for x in np.arange(12.0, -9.0, -step) - step / 2:
        threshold = math.exp(epsilon) * norm.pdf(x)
        ahead = np.maximum((1 + k) * norm.pdf(x + middles) - threshold, 0.0) * step + best[1:]
        best = best + np.maximum(norm.pdf(x + levels) - threshold, 0.0) * step
        best[:-1] = np.maximum(best[:-1], ahead)
    return best[0]


def delta_of(path, slope, epsilon):
    """Return both deltas of one path: x is standard normal on one table, x + h(x) on the other."""
    x = np.linspace(-12, 14, 200_001)
    other = (1 + slope(x)) * norm.pdf(x + path(x))
    factor, step = math.exp(epsilon), x[1] - x[0]
    forth = np.maximum(other - factor * norm.pdf(x), 0).sum() * step
    return forth, np.maximum(norm.pdf(x) - factor * other, 0).sum() * step


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "k", "unit"), TIGHT + WIDE)
def test_no_path_exceeds_the_claim(epsilon, k, unit):
    exact = delta_of_the_worst_path(unit, k, epsilon)
    assert exact <= SegmentDP(unit, k).delta(epsilon) * (1 + 2e-3)  # steps of x err by as much


@pytest.mark.parametrize(("epsilon", "k", "unit"), TIGHT)
def test_the_claim_is_nearly_attained(epsilon, k, unit):
    exact = delta_of_the_worst_path(unit, k, epsilon)
    claimed = SegmentDP(unit, k).delta(epsilon)
    assert claimed <= 1.02 * exact
    # The constant for curvature claims several times as much.
    assert ShiftedGaussianDP(((1, unit, math.log1p(k)),)).delta(epsilon) > 4 * exact


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mutant",
    [
        lambda unit, k, epsilon: gdp_delta(unit, epsilon),  # curvature is free
        lambda unit, k, epsilon: SegmentDP(unit, k / 2).delta(epsilon),
        lambda unit, k, epsilon: SegmentDP(0.7 * unit, k).delta(epsilon),
    ],
)
def test_a_wrong_claim_is_found_out(mutant):
    for epsilon, k, unit in TIGHT[:3]:
        assert delta_of_the_worst_path(unit, k, epsilon) > 1.1 * mutant(unit, k, epsilon)


@pytest.mark.parametrize("start", [-1.0, 0.0, 1.5, 3.0, 4.2])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7, 1.0, 2.0])
def test_both_orders_of_a_path_are_within_the_claim(start, epsilon):
    unit, k = 0.4, 0.3

    def path(x):
        return np.clip(k * (x - start) - unit, -unit, 0.0)

    def slope(x):
        return k * ((x > start) & (x < start + unit / k))

    claimed = SegmentDP(unit, k).delta(epsilon)
    assert max(delta_of(path, slope, epsilon)) <= claimed + 1e-5 * claimed + 1e-12


def test_the_sum_over_panels_is_near_the_integral():
    """And above it: panels are rounded up."""
    for epsilon, k, unit in TIGHT:
        exact = delta_on_a_segment(unit, k, epsilon)
        assert exact <= segment_delta(unit, k, np.array([epsilon]))[0] <= 1.02 * exact


@pytest.mark.statistical
@pytest.mark.parametrize("output", [1e-6, 0.007, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 1.5])
def test_a_gaussian_beside_it_is_convolved(output, epsilon):
    alone = SegmentDP(0.2339, 0.1)
    both = alone + GaussianDP(output)
    z = np.linspace(-9, 9, 1501)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    losses = epsilon - output**2 / 2 - output * z
    reversed_ = -np.expm1(losses) + np.exp(losses) * alone._deltas(-losses)
    exact = weights @ np.where(losses < 0, reversed_, alone._deltas(np.abs(losses)))
    assert exact * (1 - 1e-3) <= both.delta(epsilon) <= 1.02 * exact + 1e-16


@pytest.mark.one_in(5)
@pytest.mark.statistical
@pytest.mark.parametrize("output", [0.3, 1.0, 3.4, 8.0])
@pytest.mark.parametrize(("unit", "k"), [(7e-4, 2e-3), (0.018, 3e-5), (0.2339, 0.1)])
def test_beside_a_large_gaussian_it_costs_no_less_than_both_releases(unit, k, output):
    """Masses of the far tail are differences of numbers next to 1."""
    both = SegmentDP(unit, k) + GaussianDP(output)
    plain = GaussianDP(math.hypot(unit, output))
    for delta in (1e-3, 1e-9, 1e-14, 1e-30):
        epsilon = plain.epsilon(delta)
        z = np.linspace(-12, 14, 1_501)
        losses = epsilon - output**2 / 2 - output * z
        exact = norm.pdf(z) @ both._deltas(losses) / norm.pdf(z).sum()
        assert max(exact * (1 - 1e-3), delta * (1 - 1e-9)) <= both.delta(epsilon) <= 1.05 * exact


@pytest.mark.parametrize(
    ("unit", "k", "epsilon", "least"),
    [(32.4913, 199.136, 704.036, 3.81e-8), (30.9401, 611.677, 692.073, 5.04e-12)],
)
def test_a_huge_epsilon_underflows_nowhere(unit, k, epsilon, least):
    one = SegmentDP(unit, k)
    assert least < one.delta(epsilon) < 2 * least  # the least delta of the paths, exactly
    deltas = [one.delta(e) for e in (epsilon, 709.0, 711.0, 800.0, 1e4)]
    assert all(a >= b >= 0 for a, b in pairwise(deltas))


def test_the_curve_is_never_above_its_start():
    one = SegmentDP(1e-2, 50.0)
    assert one.delta(1.0) <= one.delta(0.0) == pytest.approx(gdp_delta(1e-2, 0.0))


def test_with_another_cost_it_counts_its_terms():
    one, other = SegmentDP(0.2, 0.1, 0.1), ShiftedGaussianDP(((1, 0.3, 0.05),))
    c = math.log1p(0.1)
    terms = ((1, math.hypot(0.2, 0.1), c), (1, 0.1, c))
    for total in (one + other, other + one):
        assert isinstance(total, ShiftedGaussianDP)
        assert total.epsilon(1e-6) == pytest.approx(
            (ShiftedGaussianDP(terms) + other).epsilon(1e-6)
        )
    assert one.epsilon(1e-6) < (one + PureDP(0.1)).epsilon(1e-6)


@pytest.mark.parametrize(("k", "unit"), [(0.0306, 0.0763), (0.1, 0.2339), (0.25, 0.2367), (2, 3)])
def test_the_dominating_gaussian_lies_above_and_near(k, unit):
    one = SegmentDP(unit, k)
    mu = one.dominating_mu()
    for epsilon in np.concatenate([np.linspace(0, 3 * unit**2 + 6 * unit, 301), [1e-9, 50.0]]):
        # What is claimed between two epsilons may be a little above the chord of the claims there.
        assert one.delta(epsilon) <= gdp_delta(mu, epsilon) * (1 + 1e-3)
    # And not for a smaller mu.
    small = 0.995 * mu
    assert any(one.delta(e) > gdp_delta(small, e) for e in np.linspace(0, 8 * unit, 400))
    assert unit < mu < ShiftedGaussianDP(one.terms).dominating_mu()


def test_a_smaller_bound_of_terms_takes_its_place():
    c = 0.4
    free = SegmentDP(0.2, 0.5, terms=((1, 0.2, 0.0), (1, 0, c)))
    plain = SegmentDP(0.2, 0.5)
    assert free.epsilon(1e-6) < plain.epsilon(1e-6)
    assert free.delta(0.1) == pytest.approx(plain.delta(0.1))
    assert free.dominating_mu() < ShiftedGaussianDP(free.terms).dominating_mu() / 1.5


def test_it_is_written_and_read():
    for one in (
        SegmentDP(0.2, 0.1),
        SegmentDP(0.2, 0.1, 0.05, log_ratio=1e-7, rows=2, tail=1e-12, terms=((1, 0.2, 0.0),)),
    ):
        back = mechanism_from_dict(json.loads(json.dumps(one.to_dict())))
        assert back == one
        assert hash(back) == hash(one)
    assert repr(SegmentDP(0.2, 0.1, tail=1e-9)) == "SegmentDP(unit=0.2, curvature=0.1, tail=1e-09)"


@pytest.mark.statistical
@pytest.mark.parametrize("saturating", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_a_ledger_charges_a_row_that_is_replaced_twice_the_mu_of_one(epsilon, saturating):
    """Its constant for curvature costs up to 3.4 epsilon."""
    row = {"lipschitz": 1.0, "smoothness": 0.25, "radius": 1.0, "saturating": saturating}
    found = calibrate(
        epsilon, 1e-6, **row, regularization=6 / epsilon, adjacency="replace_one"
    ).mechanism
    assert isinstance(found, SegmentDP)
    assert found.rows == 2
    one = SegmentDP(found.unit, found.curvature)
    assert found.dominating_mu() == 2 * one.dominating_mu()
    assert found.epsilon(1e-6) == ShiftedGaussianDP(found.terms).epsilon(1e-6) <= epsilon
    assert GaussianDP(found.dominating_mu()).epsilon(1e-6) < 1.1 * epsilon
    assert ShiftedGaussianDP(found.terms).dominating_mu() > 1.15 * found.dominating_mu()
    beside = found + GaussianDP(0.1)
    assert beside.dominating_mu() == math.hypot(found.dominating_mu(), 0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": "1"},
        {"rows": 3},
        {"rows": 0},
        {"rows": 1.5},
        {"terms": [[1, 2]]},
        {"terms": [["a", 1, 1]]},
        {"terms": [[0, 1, 1]]},
    ],
)
def test_a_description_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is said of it
        mechanism_from_dict(SegmentDP(0.2, 0.1).to_dict() | wrong)


def test_the_curve_falls_and_slack_counts():
    one = SegmentDP(0.3, 0.2)
    deltas = [one.delta(e) for e in np.linspace(0, 4, 81)]
    assert all(a >= b for a, b in pairwise(deltas))
    for delta in (1e-12, 1e-6, 0.05):
        assert one.delta(one.epsilon(delta)) <= delta * (1 + 1e-9)
        assert one.delta(one.epsilon(delta) * (1 - 1e-6)) > delta * (1 - 1e-3)
    assert one.epsilon(0.5) == 0
    assert one.epsilon(0.0) == math.inf
    slack = replace(one, log_ratio=0.01, tail=1e-7)
    assert slack.delta(1.0) == pytest.approx(1e-7 + math.exp(0.01) * one.delta(0.98))


@pytest.mark.parametrize(("unit", "k"), [(0.0, 0.1), (0.2, 0.0), (0.2, 1e-9), (0.0, 0.0)])
def test_no_noise_or_no_curvature_is_charged_by_the_constant(unit, k):
    one = SegmentDP(unit, k)
    constant = ShiftedGaussianDP(((1, unit, math.log1p(k)), (1, 0, math.log1p(k))))
    assert one.epsilon(1e-6) == constant.epsilon(1e-6)
    assert one.dominating_mu() == constant.dominating_mu()


@pytest.mark.parametrize(("epsilon", "part"), [(0.3, 1.01), (1.0, 1.015), (3.0, 1.021)])
def test_a_margin_loss_needs_little_more_noise_than_a_gaussian_release(epsilon, part):
    """With the curvature a tenth of epsilon, as by default: 1.1 times as much by its constant."""
    row = {"lipschitz": 1.0, "smoothness": 1.0, "radius": 1.0}
    regularization = 1 / math.expm1(0.1 * epsilon)
    found = calibrate(epsilon, 1e-6, **row, regularization=regularization)
    ideal = 1 / gdp_mu(epsilon, 1e-6)
    assert ideal <= found.noise_scale < part * ideal
    ledger = PrivacyLedger(epsilon=1.1 * epsilon, delta=1e-6)
    ledger.charge(found.mechanism)
