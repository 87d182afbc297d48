"""Objective perturbation: the parts of its cost, its calibration, its curve, and the ledger.

`examples/proofs/objective.py`, which `test_proofs` runs, compares the claim with exact laws of the
minimiser, for less noise and with forgotten parts, too.
"""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from skdpsumm.privacy import GaussianDP, PrivacyLedger, PureDP, _objective
from skdpsumm.privacy._mechanisms import ZeroConcentratedDP, compose, gdp_delta, mechanism_from_dict
from skdpsumm.privacy._noise import RESERVE
from skdpsumm.privacy._objective import OUTPUT_SHARE, ObjectiveDP, calibrate

# ---------------------------------------------------------------------- determinants and corners


@pytest.mark.parametrize("seed", range(5))
def test_the_determinant_of_any_row_is_bounded(seed):
    rng = np.random.default_rng(seed)
    p, phi = rng.dirichlet(np.ones(4)), rng.normal(size=3)
    curvature = np.diag(p) - np.outer(p, p)
    other = rng.normal(size=(12, 12))
    hessian = 0.3 * np.eye(12) + other @ other.T * rng.choice([0, 0.01, 1])
    more = np.kron(np.outer(phi, phi), curvature)
    exact = np.linalg.slogdet(hessian + more)[1] - np.linalg.slogdet(hessian)[1]
    radius = np.linalg.norm(phi)
    assert 0 <= exact <= _objective.determinant_cost(0.25, radius, 0.3, rank=3) + 1e-12


def corners(label, phi):
    """Return the corners of softmax's gradients of one row, and zero."""
    return [np.outer(phi, np.eye(4)[j] - np.eye(4)[label]) / math.sqrt(2) for j in range(4)]


def lengths(corners, rows):
    """Return the claimed lengths of all differences, that of zero included."""
    losses = ObjectiveDP(1.0, 0.0, corners, rows)._losses
    return sorted(mu for weight, mu in losses for _ in range(round(weight)))


@pytest.mark.parametrize("cosine", [-1.0, -0.7, -0.5, 0.0, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("label", [0, 1])
def test_no_row_replaced_has_more_or_longer_corners(cosine, label):
    one = np.array([1.0, 0.0])
    two = np.array([cosine, math.sqrt(1 - cosine**2)])
    pairs = itertools.product(corners(0, one), corners(label, two))
    exact = sorted(float(np.linalg.norm(u - v)) for u, v in pairs)
    claimed = lengths(3, rows=2)
    assert len(claimed) == len(exact)
    assert all(a <= b + 1e-12 for a, b in zip(exact, claimed, strict=True))


@pytest.mark.parametrize("cosine", [-1.0, -0.5, 0.0, 0.7, 1.0])
def test_no_residual_replaced_has_more_or_longer_corners(cosine):
    exact = sorted(math.sqrt(2 + 2 * a * b * cosine) for a in (1, -1) for b in (1, -1))
    claimed = lengths(2, rows=2)[-4:]
    assert all(a <= b + 1e-12 for a, b in zip(exact, claimed, strict=True))


# ------------------------------------------------------------------------- approximate minimisers


def test_the_output_noise_is_accounted():
    row = {"lipschitz": 1.0, "smoothness": 0.25, "radius": 1.0, "regularization": 5.0}
    plain = calibrate(1.0, 1e-6, **row)
    found = calibrate(1.0, 1e-6, **row, distance=1e-3)
    output = 2e-3 / found.output_scale
    assert plain.output_scale == 0
    assert plain.noise_scale < found.noise_scale < plain.noise_scale * 1.002
    assert output == pytest.approx(math.sqrt(OUTPUT_SHARE) / found.noise_scale)
    assert found.mechanism.delta(1.0) >= gdp_delta(math.hypot(output, 1 / found.noise_scale), 1.0)
    pure, noisy = calibrate(1.0, 0.0, **row), calibrate(1.0, 0.0, **row, distance=1e-3)
    spent = 1 / noisy.noise_scale + 2e-3 / noisy.output_scale
    spent += _objective.determinant_cost(0.25, 1.0, 5.0)
    assert spent == pytest.approx(1.0, rel=1e-9)
    assert spent <= 1.0
    assert pure.noise_scale < noisy.noise_scale


# -------------------------------------------------------------------------------- the calibration


ROW = {"lipschitz": 1.0, "smoothness": 0.25, "radius": 1.0}
DESIGNS = [
    {},
    {"adjacency": "replace_one"},
    {"corners": 2},
    {"corners": 9, "rank": 9, "smoothness": 0.1, "adjacency": "replace_one"},
    {"corners": 9, "rank": 9, "smoothness": 0.1},
    {"distance": 1e-3},
    {"distance": 1e-3, "corners": 2, "adjacency": "replace_one"},
]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: "-".join(map(str, d)) or "plain")
@pytest.mark.parametrize(("epsilon", "delta", "regularization"), [(1, 1e-6, 10.0), (4, 1e-9, 3)])
def test_the_calibration_is_tight(design, epsilon, delta, regularization):
    found = calibrate(epsilon, delta, **{**ROW, **design}, regularization=regularization)
    cost = found.mechanism
    assert cost.epsilon(delta) <= epsilon
    assert cost.epsilon(delta) == pytest.approx(epsilon, rel=1e-4)
    # No slack is lost: what the reserve leaves is spent.
    slack = {"log_ratio": RESERVE * epsilon / 4, "tail": RESERVE * delta / 4}
    assert replace(cost, **slack).delta(epsilon) <= delta


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize("epsilon", [0.8, 40.0])
def test_curvature_takes_no_more_than_its_share(delta, share, epsilon):
    curve = {"smoothness": 0.25, "radius": 2.0, "rank": 3}
    chosen = _objective.regularization_of_share(epsilon, share, **curve)
    cost, most = _objective.determinant_cost(0.25, 2.0, chosen, rank=3), share * epsilon
    assert most / (1 + most / 3) < cost < most  # as of x / (1 + x), log(1 + x) and x
    # However large epsilon is, Lambda falls no faster than it grows.
    penalty = _objective.regularization_of_share(2 * epsilon, share, **curve)
    assert chosen == pytest.approx(2 * penalty)
    calibrate(epsilon, delta, lipschitz=1.0, regularization=chosen, **curve)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_too_little_regularization_is_refused_with_a_remedy(delta):
    told = r"regularization=0\.1 .*epsilon=1\.0.* costs epsilon=1\.253"
    with pytest.raises(ValueError, match=told):
        calibrate(1.0, delta, **ROW, regularization=0.1)
    calibrate(1.0, delta, **ROW, regularization=2.377)  # which is what it says to take


# --------------------------------------------------------------------------------- the mechanism


def loss_delta(unit, shift, epsilon, then=0.0):
    """Return the delta of the loss max(0, Y) + shift, then a mu-GDP mechanism, by quadrature."""
    x = np.linspace(-9, 9, 4001)
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    loss = np.maximum(0, unit * x + unit**2 / 2) + shift
    deltas = [gdp_delta(then, epsilon - y) for y in loss]
    return float(weight @ np.array(deltas))


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.7])
def test_the_curve_is_that_of_its_loss(shift):
    one = ObjectiveDP(0.5, shift)
    for epsilon in (0.0, 0.05, 0.4, 1.0, 2.0):
        exact = loss_delta(0.5, shift, epsilon)
        if epsilon >= shift:
            assert one.delta(epsilon) == pytest.approx(exact, rel=1e-3)
        assert one.delta(epsilon) <= exact * (1 + 1e-3)  # below, both orders together tell more


@pytest.mark.parametrize(
    "one",
    [
        ObjectiveDP(0.01, 0.0),
        ObjectiveDP(0.03, 0.1, 9),
        ObjectiveDP(0.2, 0.02),
        ObjectiveDP(0.2, 0.1, output=0.3),
        ObjectiveDP(0.2, 0.1, 19),
        ObjectiveDP(1.0, 0.5, 2, output=1.0),
        ObjectiveDP(3.0, 0.3, 4),
        ObjectiveDP(5.0, 3.0, 14, output=0.5),
    ],
    ids=repr,
)
def test_the_dominating_gaussian_is_above_its_convex_curve(one):
    """A true curve is convex in exp(epsilon): what counts is the hull of the claims."""
    mu = one.dominating_mu()
    assert mu >= one.largest_mu
    near = one.shift + one.largest_mu * np.linspace(0, 8, 400)
    epsilons = np.unique([0.0, *np.geomspace(1e-3, 60.0, 200), *near])
    claimed = np.array([one.delta(e) for e in epsilons])
    x = np.expm1(epsilons)
    for i, e in enumerate(epsilons):
        # The chord from total variation to any later point bounds the curve between them.
        rest = slice(max(i, 1), None)
        chords = claimed[0] + (claimed[rest] - claimed[0]) * x[i] / x[rest]
        hull = min(claimed[i], float(np.min(chords)))
        # So does any later claim in both orders, where it meets the diagonal.
        heights = (1 - claimed[i:]) / (1 + np.exp(epsilons[i:]))
        hull = min(hull, 1 - (1 + math.exp(e)) * float(np.max(heights)))
        assert gdp_delta(mu, e) >= hull * (1 - 1e-2) - 1e-9


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("corners", [1, 9])
@pytest.mark.parametrize("unit", [12.0, 30.0, 140.0, 450.0])
def test_large_claims_have_a_dominating_gaussian(unit, corners, rows):
    """Where delta(0) is 1 in floats, the claims at larger epsilons decide."""
    one = ObjectiveDP(unit, unit / 4, corners, rows)
    mu = one.dominating_mu()
    assert one.largest_mu < mu < 2.5 * one.largest_mu
    epsilons = np.geomspace(1.0, 2 * one.largest_mu**2, 2000)
    claimed = np.array([one.delta(e) for e in epsilons])
    assert np.all(np.array([gdp_delta(mu, e) for e in epsilons]) >= claimed * (1 - 1e-6) - 1e-9)


@pytest.mark.parametrize("nothing", [ObjectiveDP(0.0, 0.3), ObjectiveDP(0.0, 0.0)])
def test_a_row_that_moves_nothing_costs_nothing(nothing):
    """Then the noise is so large that its curvature is nowhere to be seen."""
    assert (nothing.dominating_mu(), nothing.epsilon(1e-9)) == (0.0, 0.0)


# ------------------------------------------------------------------------------- its compositions


ONE = ObjectiveDP(0.4, 0.1, log_ratio=1e-7, tail=1e-12)


def test_composition_with_gaussians_is_closed_and_an_upper_bound():
    both = compose([ONE, GaussianDP(0.3, 1e-8, 1e-13), GaussianDP(0.4)])
    assert isinstance(both, ObjectiveDP)
    assert both.log_ratio == pytest.approx(1.1e-7)
    assert both.tail == pytest.approx(1.1e-12)
    for epsilon in (0.2, 0.5, 1.0, 2.0, 3.0):
        exact = loss_delta(0.4, 0.1, epsilon, then=0.5)
        assert epsilon < 0.5 or exact * (1 - 1e-3) <= both.delta(epsilon)
        assert epsilon < 1 or both.delta(epsilon) <= 1.3 * exact


@pytest.mark.parametrize(
    "extra", [PureDP(0.2), ZeroConcentratedDP(0.02), PureDP(0.1) + ZeroConcentratedDP(0.01)]
)
def test_other_parts_are_accounted_with_the_dominating_gaussian(extra):
    both = compose([ONE, extra])
    gaussian = compose([ONE.as_accountable(), extra])
    pure = extra.epsilon(0.0)
    basic = pure + ONE.epsilon(1e-6)  # which may be less
    assert both.epsilon(1e-6) == pytest.approx(min(gaussian.epsilon(1e-6), basic))
    basic = ONE.delta(1.0 - pure) if pure <= 1 else 1.0
    assert both.delta(1.0) == pytest.approx(min(gaussian.delta(1.0), basic))
    assert both.epsilon(1e-6) > max(ONE.epsilon(1e-6), extra.epsilon(1e-6))
    assert both.epsilon(1e-12) == math.inf  # the tail is not forgotten
    assert mechanism_from_dict(json.loads(json.dumps(both.to_dict()))) == both


def test_a_pure_part_is_never_undercounted():
    """Randomised response first: its loss is plus or minus 0.2."""
    both, keep = compose([ONE, PureDP(0.2)]), 1 / (1 + math.exp(-0.2))
    for epsilon in (0.5, 1.0, 2.0):
        high, low = loss_delta(0.4, 0.1, epsilon - 0.2), loss_delta(0.4, 0.1, epsilon + 0.2)
        assert both.delta(epsilon) >= keep * high + (1 - keep) * low


# ------------------------------------------------------------------------------------- the ledger


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_the_ledger_charges_the_dominating_gaussian(accountant):
    one = replace(ONE, log_ratio=0.0, tail=0.0)
    ours, theirs = (PrivacyLedger(epsilon=9.0, delta=1e-6, accountant=accountant) for _ in range(2))
    for _ in range(3):
        ours.charge(one)
        theirs.charge(GaussianDP(one.dominating_mu()))
    assert ours.spent == theirs.spent
    assert ours.remaining == theirs.remaining
