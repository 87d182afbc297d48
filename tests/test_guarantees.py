"""What a guarantee says, against computations that share no code with the library."""

import json
import math
from dataclasses import dataclass, make_dataclass
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PrivacyLedger, PureDP, gdp_mu
from skdpsumm.privacy._best_of import BestOf, StoppingLaw
from skdpsumm.privacy._mechanisms import (
    Composed,
    Mechanism,
    NewValuesDP,
    Unprotected,
    Worst,
    ZeroConcentratedDP,
    compose,
    gdp_delta,
    gdp_epsilon,
    mechanism_from_dict,
    parallel,
    pure_to_gdp,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from skdpsumm.privacy._objective import ObjectiveDP
from skdpsumm.privacy._threshold import ThresholdDP

EPSILONS = [1e-3, 1.0, 20.0]

positive = st.floats(1e-4, 20.0)
small = st.floats(0.0, 1e-5)
gaussians = st.builds(GaussianDP, positive, small, small)
atoms = st.one_of(st.builds(PureDP, positive), gaussians, st.builds(ZeroConcentratedDP, positive))
mechanisms = st.recursive(
    st.one_of(atoms, st.builds(Unprotected, st.text()), st.builds(ObjectiveDP, positive, positive)),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        .map(tuple)
        .flatmap(lambda parts: st.sampled_from([Composed(parts), Worst(parts)]))
    ),
    max_leaves=5,
)


def exact_gdp_delta(mu, epsilon):
    """Return the curve of N(0, 1) against N(mu, 1), to 50 digits."""
    with mpmath.workdps(50):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        keep = mpmath.ncdf(mu / 2 - epsilon / mu)
        return keep - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def divergence(p, q, epsilon):
    """Return the hockey-stick divergence of two probability vectors, in both directions."""
    p, q, factor = np.asarray(p), np.asarray(q), math.exp(epsilon)
    return max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())


def coin(epsilon):
    """Return the two distributions of randomised response, which dominate every pure mechanism."""
    keep = 1 / (1 + math.exp(-epsilon))
    return np.array([keep, 1 - keep]), np.array([1 - keep, keep])


def k_fold(epsilon, count):
    """Return the two distributions of `count` independent randomised responses."""
    p, q = np.ones(1), np.ones(1)
    for _ in range(count):
        one, other = coin(epsilon)
        p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
    return p, q


def inverse(curve, delta, high=200.0):
    """Return the smallest epsilon at which a falling `curve` is at most `delta`, by bisection."""
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return high


# ------------------------------------------------------------------------------- Gaussian DP


@pytest.mark.parametrize("mu", [1e-3, 0.2367, 30.0])
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, *EPSILONS])
def test_gdp_delta_is_the_exact_curve(mu, epsilon):
    exact = float(exact_gdp_delta(mu, epsilon))
    assert gdp_delta(mu, epsilon) == pytest.approx(exact, rel=1e-11, abs=1e-300)


@settings(deadline=None, max_examples=60)
@given(st.floats(-18, 6), st.floats(-30, -0.01))
def test_gdp_epsilon_errs_on_the_side_of_privacy(log_mu, log_delta):
    mu, delta = math.exp(log_mu), math.exp(log_delta)
    epsilon = gdp_epsilon(mu, delta)
    assert exact_gdp_delta(mu, epsilon) <= delta
    assert epsilon == 0 or exact_gdp_delta(mu, epsilon * (1 - 1e-7)) > delta


@settings(deadline=None, max_examples=60)
@given(st.floats(-30, 8), st.floats(-50, -0.01))
def test_gdp_mu_errs_on_the_side_of_privacy(log_epsilon, log_delta):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    mu = gdp_mu(epsilon, delta)
    assert exact_gdp_delta(mu, epsilon) <= delta
    assert exact_gdp_delta(mu * (1 + 1e-9), epsilon) > delta


def test_gdp_at_the_ends():
    assert gdp_epsilon(0.0, 1e-6) == 0
    assert gdp_epsilon(1.0, 0.0) == math.inf
    assert gdp_epsilon(math.inf, 1e-6) == math.inf
    assert gdp_epsilon(1.0, 0.5) == 0  # total variation is 0.38
    assert (gdp_delta(math.inf, 3.0), gdp_delta(0.0, 0.0)) == (1, 0)
    assert gdp_mu(math.inf, 1e-6) == math.inf


def test_discreteness_costs_epsilon_and_delta():
    ideal, real = GaussianDP(1.0), GaussianDP(1.0, log_ratio=1e-3, tail=1e-8)
    assert real.delta(2.0) == pytest.approx(1e-8 + math.exp(1e-3) * ideal.delta(2.0 - 2e-3))
    assert real.epsilon(1e-6) > ideal.epsilon(1e-6) + 2e-3
    assert real.epsilon(1e-8) == math.inf  # the tail alone takes it all


# ----------------------------------------------------------------------------------- pure DP


@pytest.mark.parametrize("epsilon0", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("share", [-5.0, -0.3, 0.0, 0.2, 0.9, 1.0, 1.5])
def test_pure_delta_is_that_of_randomised_response(epsilon0, share):
    epsilon = share * epsilon0
    exact = divergence(*coin(epsilon0), epsilon)
    assert PureDP(epsilon0).delta(epsilon) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(("epsilon0", "count"), [(0.1, 10), (0.5, 8), (1.0, 3)])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_composed_pure_is_the_optimal_composition(epsilon0, count, delta):
    """Kairouz, Oh and Viswanath (2015): randomised response k times is the worst case."""
    p, q = k_fold(epsilon0, count)
    exact = inverse(lambda e: divergence(p, q, e), delta)
    ours = compose([PureDP(epsilon0)] * count).epsilon(delta)
    assert exact - 1e-9 <= ours <= exact + 0.02 * epsilon0 * count


def test_composed_pure_sums_at_delta_zero():
    both = compose([PureDP(0.25), PureDP(0.5)])
    assert (both.epsilon(0.0), both.delta(0.75)) == (0.75, 0.0)
    assert both.epsilon(1e-12) <= 0.75


# -------------------------------------------------------------------------------------- zCDP


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 10.0])
def test_zcdp_is_the_best_order_of_dp_accounting(rho):
    orders = 1 + np.exp(np.linspace(-6, 12, 4000))
    accountant = RdpAccountant(orders).compose(dp_event.ZCDpEvent(rho))
    for delta in (1e-12, 1e-6, 1e-2):
        assert zcdp_epsilon(rho, delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-4)
    for epsilon in (0.1, 1.0, 12.0):
        expected = accountant.get_delta(epsilon)
        assert zcdp_delta(rho, epsilon) == pytest.approx(expected, rel=1e-2, abs=1e-100)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_zcdp_rho_inverts_its_epsilon(epsilon, delta):
    back = zcdp_epsilon(zcdp_rho(epsilon, delta), delta)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-6)


def test_zcdp_at_the_ends():
    assert zcdp_epsilon(0.0, 1e-6) == 0
    assert zcdp_epsilon(1.0, 0.0) == math.inf
    assert zcdp_epsilon(math.inf, 1e-6) == math.inf
    assert zcdp_delta(math.inf, 3.0) == 1
    assert zcdp_rho(math.inf, 1e-6) == math.inf


# ----------------------------------------------------------------------------- pure as Gaussian


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-4, 35.0), st.floats(0.0, 1.0))
def test_the_gaussian_of_a_pure_mechanism_dominates_it(epsilon0, share):
    epsilon = share * epsilon0
    pure = PureDP(epsilon0).delta(epsilon)
    assert gdp_delta(pure_to_gdp(epsilon0), epsilon) >= pure * (1 - 1e-9) - 1e-16


# ------------------------------------------------------------------------------- composition


def test_gaussians_add_their_squares():
    total = GaussianDP(3.0, 1e-6, 1e-9) + GaussianDP(4.0, 2e-6, 3e-9)
    assert total.mu == 5.0
    assert total.slack == (pytest.approx(3e-6), pytest.approx(4e-9))


def test_nothing_added_to_no_guarantee_helps():
    lost = Unprotected("the auction")
    assert PureDP(0.1) + lost + GaussianDP(1.0) == lost
    assert lost.epsilon(0.5) == math.inf
    assert lost.delta(100.0) == 1.0
    assert parallel([PureDP(0.1), lost]) == lost


@pytest.mark.parametrize(("epsilon0", "mu"), [(0.3, 0.2367), (1.0, 1.0), (3.0, 0.05)])
@pytest.mark.parametrize("delta", [1e-8, 1e-4])
def test_pure_with_gaussian_is_tight(epsilon0, mu, delta):
    """A coin and a Gaussian: condition on the coin, whose loss shifts the Gaussian's epsilon."""
    best = inverse(coin_and_gaussian(epsilon0, mu), delta)
    ours = (PureDP(epsilon0) + GaussianDP(mu)).epsilon(delta)
    assert best - 1e-9 <= ours <= best + 2e-3


def test_composition_keeps_the_slack_of_discreteness():
    parts = (PureDP(0.5), GaussianDP(0.5, log_ratio=0.01, tail=1e-7))
    ideal = Composed((PureDP(0.5), GaussianDP(0.5)))
    real = Composed(parts)
    rest = (1e-5 - 1e-7) * math.exp(-0.01)
    assert real.epsilon(1e-5) == pytest.approx(ideal.epsilon(rest) + 0.02)
    assert real.delta(2.0) == pytest.approx(1e-7 + math.exp(0.01) * ideal.delta(1.98))
    assert real.epsilon(1e-7) == math.inf


def test_zcdp_with_others_is_accounted_by_renyi():
    total = GaussianDP(0.3) + ZeroConcentratedDP(0.02) + PureDP(0.1)
    rho = 0.3**2 / 2 + 0.02 + 0.1**2 / 2
    accountant = RdpAccountant().compose(dp_event.ZCDpEvent(rho))
    assert total.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-2)
    assert total.epsilon(1e-6) <= accountant.get_epsilon(1e-6)
    # Gaussian noise may be what is 0.02-zCDP, and a coin what is pure.
    exact = coin_and_gaussian(0.1, math.hypot(0.3, 0.2))
    assert total.epsilon(1e-6) >= inverse(exact, 1e-6)
    for epsilon in (0.1, 1.0, 2.0, 4.0):
        assert total.delta(epsilon) >= exact(epsilon)


def coin_and_gaussian(epsilon0, mu):
    """Return the exact curve of randomised response beside a Gaussian."""
    keep = 1 / (1 + math.exp(-epsilon0))

    def exact(epsilon):
        high = exact_gdp_delta(mu, epsilon - epsilon0)
        return float(keep * high + (1 - keep) * exact_gdp_delta(mu, epsilon + epsilon0))

    return exact


def test_what_costs_nothing_adds_nothing():
    assert compose([PureDP(0.0), GaussianDP(0.24)]) == GaussianDP(0.24)
    assert compose([PureDP(0.0), PureDP(0.0)]) == compose([]) == parallel([]) == PureDP(0.0)
    both = Composed((PureDP(0.0), GaussianDP(0.0), GaussianDP(0.24)))
    assert both.epsilon(1e-6) == pytest.approx(gdp_epsilon(0.24, 1e-6))


def test_slack_counts_at_a_negative_epsilon_of_the_ideal():
    """Within a factor exp(0.2), two equal distributions may be 0.4 apart."""
    real = Composed((PureDP(1e-9), GaussianDP(1e-9, log_ratio=0.2)))
    p, q = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    p, q = p * np.exp([0.1, -0.1]), q * np.exp([-0.1, 0.1])
    assert real.delta(0.1) >= divergence(p / p.sum(), q / q.sum(), 0.1)
    assert real.delta(0.1) >= 1 - math.exp(-0.3)


# ----------------------------------------------------------------------- costs that are none


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (PureDP, "epsilon0"),
        (GaussianDP, "mu"),
        (lambda x: GaussianDP(1.0, x), "log_ratio"),
        (lambda x: GaussianDP(1.0, 0.0, x), "tail"),
        (ZeroConcentratedDP, "rho"),
        (lambda x: ObjectiveDP(x, 0.1), "unit"),
        (lambda x: ObjectiveDP(1.0, x), "shift"),
        (lambda x: BestOf(StoppingLaw(0.0, 2.0), x), "mu"),
        (lambda x: ThresholdDP(x, 5), "ratio"),
    ],
)
def test_a_cost_that_is_none_is_refused_by_name(make, name):
    said = f"^{name} must be a number of at least 0, got"
    for value in (-1.0, -1e-300, math.nan, -math.inf, "1", None, True, 1j):
        caught = refused(said, make, value)
        assert repr(value) in str(caught)


@pytest.mark.parametrize(
    "mechanism",
    [
        PureDP(1.0),
        GaussianDP(1.0),
        ZeroConcentratedDP(1.0),
        ObjectiveDP(1.0, 0.1, 3, 2),
        BestOf(StoppingLaw(0.0, 2.0), 1.0),
        ThresholdDP(0.1, 2),
        Unprotected("x"),
        Composed((PureDP(1.0), GaussianDP(1.0))),
        Worst((PureDP(1.0), GaussianDP(1.0))),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_nan_is_no_question(mechanism):
    refused("delta must be a number", mechanism.epsilon, math.nan)
    refused("epsilon must be a number", mechanism.delta, math.nan)
    for delta in (-0.1, 1.0, math.nan):
        refused("delta must lie in", PrivacyGuarantee(mechanism).epsilon, delta)
    for epsilon in (-0.1, math.nan):
        refused("epsilon must be at least 0", PrivacyGuarantee(mechanism).delta, epsilon)


# -------------------------------------------------------------------------- a kind of one's own


@pytest.fixture
def approximate():
    @dataclass(frozen=True)
    class ApproximateDP(Mechanism):
        epsilon0: float
        delta0: float
        kind = "approximate"

        def epsilon(self, delta):
            return self.epsilon0 if delta >= self.delta0 else math.inf

        def delta(self, epsilon):
            return self.delta0 if epsilon >= self.epsilon0 else 1.0

    yield ApproximateDP
    del Mechanism.kinds["approximate"]


def test_a_subclass_is_all_that_a_kind_takes(approximate):
    """It composes, prints, is read back, and is refused by ledgers that know no sum of it."""
    one = approximate(0.5, 1e-6)
    total = one + GaussianDP(0.2)
    assert "ApproximateDP(epsilon0=0.5, delta0=1e-06)" in repr(total)
    assert mechanism_from_dict(json.loads(json.dumps(total.to_dict()))) == total
    assert total.epsilon(2e-6) == pytest.approx(0.5 + gdp_epsilon(0.2, 1e-6))
    assert total.delta(3.0) <= 1e-6 + gdp_delta(0.2, 1.5)
    assert parallel([one, one]) == one
    assert (one + PureDP(0.1)).epsilon(1e-6) == pytest.approx(0.6)
    claim = PrivacyGuarantee(total)
    assert PrivacyGuarantee.from_dict(json.loads(json.dumps(claim.to_dict()))) == claim
    for accountant in ("gdp", "zcdp"):
        ledger = PrivacyLedger(epsilon=9.0, delta=1e-5, accountant=accountant)
        refused("no adaptively valid sum", ledger.charge, total)
    refused("group privacy", one.group, 2)


# ---------------------------------------------------------------------------- parallel and group


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.2])
def test_unlike_parts_in_parallel_cost_the_worst_at_each_delta(delta):
    parts = PureDP(1.0), GaussianDP(0.3), ZeroConcentratedDP(0.1)
    worst = parallel(parts)
    assert worst.epsilon(delta) == max(p.epsilon(delta) for p in parts)
    assert worst.delta(0.5) == max(p.delta(0.5) for p in parts)


def test_composition_goes_into_each_parallel_branch():
    branches = Worst((PureDP(0.2), GaussianDP(1.0)))
    total = compose([GaussianDP(1.0), branches])
    assert total == Worst((Composed((PureDP(0.2), GaussianDP(1.0))), GaussianDP(math.sqrt(2))))


@pytest.mark.parametrize("size", [2, 5])
def test_group_privacy_in_closed_form(size):
    assert PureDP(0.25).group(size) == PureDP(0.25 * size)
    assert ZeroConcentratedDP(0.5).group(size) == ZeroConcentratedDP(0.5 * size**2)
    assert GaussianDP(0.5).group(size) == GaussianDP(0.5 * size)
    assert Unprotected("x").group(size) == Unprotected("x")
    both = Composed((PureDP(0.1), GaussianDP(1.0))).group(size)
    assert both == Composed((PureDP(0.1 * size), GaussianDP(float(size))))


SLACK = {"log_ratio": 1e-3, "tail": 1e-6}
WITH_SLACK = [
    GaussianDP(0.3, **SLACK),
    ObjectiveDP(0.2, 0.03, **SLACK),
    BestOf(StoppingLaw(0.0, 5.0), 0.1, **SLACK),
    Composed((PureDP(0.1), GaussianDP(0.3, **SLACK))),
    Worst((PureDP(0.1), GaussianDP(0.3, **SLACK))),
]
HAVE_SLACK = pytest.mark.parametrize("one", WITH_SLACK, ids=lambda m: m.kind)


def test_all_kinds_with_slack_are_tried():
    tried = {type(one) for one in WITH_SLACK}
    own = [kind for kind in Mechanism.kinds.values() if kind.__module__.startswith("skdpsumm")]
    assert {kind for kind in own if kind.slack is not Mechanism.slack} <= {*tried, NewValuesDP}


def test_new_values_have_no_group_price():
    """Two rows bring a new value nearer to the threshold than twice its tail tells."""
    one = NewValuesDP(0.3, **SLACK)
    assert one.group(1) == one
    assert one.epsilon(1e-4) == GaussianDP(0.3, **SLACK).epsilon(1e-4)
    both = one + GaussianDP(0.4, **SLACK)
    assert both == NewValuesDP(0.5, 2e-3, 2e-6)
    assert both == GaussianDP(0.4, **SLACK) + one
    for cost in (one, both, compose([one, PureDP(0.1)]), PrivacyGuarantee(one).mechanism):
        assert mechanism_from_dict(cost.to_dict()) == cost
        refused("set the estimator's adjacency to the ledger's", cost.group, 2)
    ledger = PrivacyLedger(epsilon=1e3, delta=1e-2, adjacency="replace_one")
    refused("group privacy", ledger.charge, one)
    assert ledger.entries() == []


@HAVE_SLACK
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_group_is_farther_from_the_ideal_than_a_row(one, size):
    """The proof is of noise (`test_noise`): the core widens with the distance."""
    log_ratio, tail = one.group(size).slack
    assert log_ratio == pytest.approx(size**2 * 1e-3, rel=0.03)
    assert log_ratio >= size**2 * 1e-3
    assert tail == size * 1e-6


@HAVE_SLACK
@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_a_ledger_of_replaced_rows_counts_the_slack_of_two(one, accountant):
    settings = {"epsilon": 1e3, "delta": 1e-2, "accountant": accountant}
    ledger = PrivacyLedger(**settings, adjacency="replace_one")
    plain = PrivacyLedger(**settings)
    assert ledger.price(one).epsilon == plain.price(one.group(2)).epsilon


def test_a_group_of_noise_that_is_nearly_ideal_by_its_exact_curve():
    """Noise a little narrower than it is said to be: its own curve is known for any distance."""
    mu, narrower, core = 1.0, 1 - 5e-4, 6.0
    log_ratio = (core + mu) ** 2 / 2 * (narrower**-2 - 1) - math.log(narrower)
    claim = GaussianDP(mu, log_ratio, 2 * float(mpmath.ncdf(-core / narrower)))
    for size in (1, 3, 10, 50, 200):
        for deviations in (0.0, 1.0, 2.0, 3.0):
            epsilon = size * mu * (size * mu / 2 + deviations)
            exact = float(exact_gdp_delta(size * mu / narrower, epsilon))
            assert exact <= claim.group(size).delta(epsilon)
            if size == 200 and deviations == 3:  # at the distance of a row it would be too little
                forgot = GaussianDP(size * mu, log_ratio, claim.tail * size)
                assert exact > forgot.delta(epsilon)


@pytest.mark.parametrize("size", [2, 3])
def test_a_group_in_several_like_parts_counts_all_their_tails(size):
    """What stands for the worst of many must cover a group with a row in each of `size`."""
    one = GaussianDP(1.0, 1e-4, 1e-3)
    group = parallel([one] * 5).group(size)
    spread = compose([one] * size)
    for epsilon in (0.0, 1.0, 5.0, 20.0):
        assert group.delta(epsilon) >= spread.delta(epsilon)
    assert group.tail == pytest.approx(size * 1e-3)


def test_a_group_may_lie_in_all_parallel_parts():
    worst = Worst((PureDP(0.1), GaussianDP(1.0)))
    assert worst.group(2) == Composed((PureDP(0.2), GaussianDP(2.0)))


# ---------------------------------------------------------------------------------- monotone


@settings(deadline=None, max_examples=60)
@given(
    st.one_of(
        atoms,
        st.lists(atoms, min_size=1, max_size=3).map(tuple).map(Worst),
        st.builds(ObjectiveDP, st.floats(1e-3, 6), st.floats(0, 3), st.integers(1, 20)),
        st.builds(ObjectiveDP, positive, positive, rows=st.just(2), output=positive),
    ),
    st.floats(1e-9, 0.5),
)
def test_curves_fall_and_agree(mechanism, delta):
    epsilons = [mechanism.epsilon(d) for d in (0.0, 1e-9, 1e-6, 1e-4, 0.1, 0.9)]
    assert all(a >= b >= 0 for a, b in pairwise(epsilons))
    deltas = [mechanism.delta(e) for e in (0.0, 1e-3, 0.1, 1.0, 10.0, 300.0)]
    assert all(1 >= a >= b - 1e-12 >= -1e-12 for a, b in pairwise(deltas))
    epsilon = mechanism.epsilon(delta)
    assert math.isinf(epsilon) or mechanism.delta(epsilon) <= delta * (1 + 1e-6) + 1e-15


# ------------------------------------------------------------------------------- dictionaries


@settings(deadline=None, max_examples=60)
@given(mechanisms)
def test_mechanisms_survive_json(mechanism):
    fields = mechanism.to_dict()
    assert mechanism_from_dict(json.loads(json.dumps(fields))) == mechanism
    refused("`to_dict` of a mechanism", mechanism_from_dict, fields | {"stranger": 1})


# -------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize(
    "other",
    [{"adjacency": "replace_one"}, {"protects": "D_v"}, {"against": "analyst"}, {"unit": "user"}],
    ids=lambda fields: next(iter(fields)),
)
def test_what_differs_is_not_added(other):
    one, two = PrivacyGuarantee(PureDP(1.0)), PrivacyGuarantee(PureDP(1.0), **other)
    with pytest.raises(ValueError, match=f"differ in {next(iter(other))}"):
        one + two
    refused("side by side", PrivacyGuarantee.parallel, [one, two])


def test_addition_keeps_the_fine_print():
    one = PrivacyGuarantee(PureDP(1.0), given="bounds")
    two = PrivacyGuarantee(PureDP(1.0), given="classes", simulated=True)
    three = PrivacyGuarantee(PureDP(1.0), given="bounds", idealised=True)
    total = one + two + three
    assert total.given == "bounds; classes"
    assert total.simulated
    assert total.idealised
    assert PrivacyGuarantee.parallel([one, two]).simulated


def test_repr_says_first_why_there_is_no_guarantee():
    text = repr(PrivacyGuarantee(Unprotected("no noise was added"), protects="the target"))
    assert text.startswith("<PrivacyGuarantee no guarantee\n")
    assert "Does not protect the target against everyone: no noise was added." in text


def test_repr_says_first_that_noise_was_simulated():
    text = repr(PrivacyGuarantee(PureDP(1.0), simulated=True))
    assert text.startswith("<PrivacyGuarantee SIMULATED, protects nobody: ")
    assert "Would protect" in text


def test_a_cost_of_ones_own_is_checked_however_its_fields_are_annotated():
    own = make_dataclass("Own", [("mu", float)], bases=(GaussianDP,), frozen=True)
    refused("^mu must be", own, math.nan)
