"""The budget of a release in steps: what its noise costs along any path stays within the claim.

Costs are those that the wire of `kit` sees, whatever the budget says that it has spent.
"""

import contextlib
import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import mpmath
import numpy as np
import pytest
import scripts
from dp_accounting import get_sigma_gaussian
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit import ARMS, Wire, cost, mu_of_range
from refusals import refused
from test_noise import bound

from skdpsumm.privacy import BudgetExceededError, GaussianDP, PureDP, _noise
from skdpsumm.privacy._mechanisms import Unprotected, pure_to_gdp
from skdpsumm.privacy._noise import RESERVE, StepBudget, exponential_choice, range_of_mu

GRID = 2**15
SCRIPT = scripts.load("benchmarks/exponential_constant.py")


def build(epsilon=1.0, delta=1e-6, most_values=1000, kind=StepBudget, **options):
    return kind(epsilon=epsilon, delta=delta, most_values=most_values, **options)


def count(budget, share, n=1):
    return budget.count(np.zeros(n, np.int64), l1=GRID, l2=GRID, share=share)


def choose(budget, share, scores=(0, 0)):
    return budget.choose(np.array(scores), sensitivity=GRID, share=share)


# ------------------------------------------------------------------------- what a choice costs


@pytest.mark.parametrize("e", [0.01, 0.3, 1.0, 3.0, 8.0])
def test_no_mechanism_of_a_range_costs_more_than_its_constant(e):
    """All coins whose log odds differ by e, on a fine grid, and random exponential mechanisms."""
    mu, rng = float(mu_of_range(e)), np.random.default_rng(0)
    assert mu == pytest.approx(SCRIPT.mu_of_range(e), rel=1e-13)
    assert SCRIPT.worst_of_two_outcomes(e) == pytest.approx(mu, rel=1e-12)
    found = [SCRIPT.mu_of_tests(*SCRIPT.random_mechanism(e, rng)) for _ in range(200)]
    assert max(found) == pytest.approx(mu, rel=1e-3)
    assert max(found) <= mu * (1 + 1e-12)
    assert max(found) > e / 2 * (1 + 1e-3)  # what zero concentrated DP would say


@pytest.mark.parametrize("mu", [1e-12, 1e-4, 0.3, 1.0, 1.999999, 2.0, 7.0, 60.0])
def test_the_range_is_the_inverse_of_the_constant(mu):
    e = range_of_mu(mu)
    with mpmath.workdps(60):
        half = mpmath.mpf(mu) / 2
        exact = 2 * mpmath.log(mpmath.ncdf(half) / mpmath.ncdf(-half))
        assert abs(e / exact - 1) < 1e-15
    # Half a range costs what so large a pure epsilon does: the same coin.
    assert pure_to_gdp(e / 2) == pytest.approx(mu, rel=1e-9)


# ------------------------------------------------------------------- what is drawn, three arms

# Of a choice, by Chernoff's bound for each of three frequencies.
CHANCE, N_CHOICES, N_EACH = 1e-11, 10_000, 2_500
# For 2,500 choices, with 2**60 among the scores.
SCORES = 2**60 + GRID * np.array([-2, -1, 0])
BUDGETS = {"pure": (2.0 * N_EACH, 0.0), "gaussian": (2000.0, 1e-6)}


def range_asked(kind):
    """Return the range of a choice that has one part of 2,500 of such a budget."""
    epsilon, delta = BUDGETS[kind]
    if not delta:
        return epsilon / N_EACH
    mu = 1 / get_sigma_gaussian(epsilon, delta) / math.sqrt(N_EACH)
    return 2 * math.log(expit_of_probit(mu / 2) / expit_of_probit(-mu / 2))


def expit_of_probit(z):
    return float(mpmath.ncdf(z))


@cache
def frequencies(kind):
    epsilon, delta = BUDGETS[kind]
    chosen = []
    for _ in range(N_CHOICES // N_EACH):
        budget = build(epsilon, delta)
        chosen += [choose(budget, 1 / N_EACH, SCORES) for _ in range(N_EACH)]
    return np.bincount(chosen, minlength=3) / N_CHOICES


def divergence(p, q):
    """Return that of Bernoulli laws, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p * np.log(p / q), (1 - p) * np.log((1 - p) / (1 - q))
    return np.nansum(terms, axis=0)


def is_law_of(found, weights):
    """Whether frequencies are those of a law, but for what chance may do."""
    law = weights / weights.sum()
    return bool(np.all(N_CHOICES * divergence(found, law) <= math.log(2 * len(law) / CHANCE)))


# Fails once in 1e11 runs for each kind. A sample is 7 standard errors from where arms would pass.
@pytest.mark.statistical
@pytest.mark.fresh_noise(2e-11)
@pytest.mark.parametrize(("factor", "accepted"), ARMS)
@pytest.mark.parametrize("kind", BUDGETS)
def test_choices_have_the_odds_calibrated_for(kind, factor, accepted):
    """OpenDP's noisy maximum has weights exp(scores / scale), with scale 2 Delta / e."""
    places = np.arange(-2.0, 1.0)
    scale = 2 / range_asked(kind)
    assert is_law_of(frequencies(kind), np.exp(places / scale / factor)) == accepted


@pytest.mark.parametrize("seed", [None, 0])
def test_simulated_choices_tell_large_scores_apart(seed):
    """float64 has no digits for them, but for their differences."""
    rng = None if seed is None else np.random.default_rng(seed)
    found = [exponential_choice(np.array([2**60 - 60, 2**60]), 1.0, rng) for _ in range(50)]
    assert set(found) == {1}


# -------------------------------------------------------------------- the claim, along any path


def paid(make, steps, replaced=False):
    """Return a budget that took steps, and then all that was left, and what these cost.

    Steps are (whether it chooses, part of what is left, number of values). A row more moves one
    value, and one score up and another one down; a row that is replaced does both twice.
    """
    draws = []
    for side in (0, GRID):
        budget, wire = make(), Wire(draws[0] if draws else None)

        def take(budget=budget, side=side):
            for chooses, part, n in [*steps, (False, 1.0, 2)]:
                share = part * budget.remaining
                scores = np.array([side, -side, 0]) * (2 if replaced else 1)
                values = np.append(np.zeros(n, np.int64), [side, -side if replaced else 0])
                try:
                    if chooses:
                        budget.choose(scores, sensitivity=GRID, share=share)
                    else:
                        budget.count(values, l1=GRID, l2=GRID, share=share)
                except BudgetExceededError:
                    assert chooses  # counts have room
                    assert replaced

        wire.run(take)
        draws.append(wire.draws)
    return budget, draws[0], cost(*draws, PureDP if budget.delta == 0 else GaussianDP)


STEPS = st.lists(st.tuples(st.booleans(), st.floats(0.01, 0.9), st.integers(1, 40)), max_size=12)


@settings(max_examples=60)
@given(STEPS, st.floats(-9, 5), st.floats(-25, -2))
@example([(True, 0.2, 1), (False, 0.5, 30), (True, 0.3, 1), (False, 0.1, 10)], 0.0, -14.0)
def test_no_path_costs_more_than_the_claim(steps, log_epsilon, log_delta):
    epsilon, delta = math.exp(log_epsilon), math.exp(log_delta)
    budget, draws, square = paid(lambda: build(epsilon, delta), steps)
    claim = budget.mechanism
    assert claim.epsilon(delta) <= epsilon
    assert claim.delta(epsilon) <= delta
    # None of it is wasted.
    assert claim.mu**2 * (1 - 1e-10) <= square <= claim.mu**2
    core = math.sqrt(2 * math.log(2 * budget.most_values / claim.tail)) + claim.mu
    counts = [one for one in draws if one.kind == "gaussian"]
    assert sum(one.values.size * bound(core, one.scale) for one in counts) <= claim.log_ratio
    assert budget.remaining < 1e-12
    for step in (count, choose):
        refused("is left", step, budget, 0.001, error=BudgetExceededError)


@settings(max_examples=40)
@given(STEPS, st.floats(-9, 5), st.booleans())
def test_no_path_costs_more_than_a_pure_epsilon(steps, log_epsilon, replaced):
    epsilon = math.exp(log_epsilon)
    budget, _, spent = paid(lambda: build(epsilon, 0.0), steps, replaced)
    claim = budget.cost_when_replaced if replaced else budget.mechanism
    assert claim == PureDP(2 * epsilon if replaced else epsilon)
    assert claim.epsilon0 * (1 - 1e-10) <= spent <= claim.epsilon0


@pytest.mark.parametrize("most_values", [1, 10**4, 10**9])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_slack_is_of_all_values_and_within_the_reserve(epsilon, most_values):
    budget = build(epsilon, 1e-6, most_values=most_values)
    claim = budget.mechanism
    assert 0 < 2 * claim.log_ratio <= RESERVE * epsilon / 2
    assert 0 < claim.tail <= RESERVE * 1e-6 / 2
    assert 0.999 * epsilon <= claim.epsilon(1e-6) <= epsilon
    core = math.sqrt(2 * math.log(2 * most_values / claim.tail)) + claim.mu
    for share in (1e-4, 0.3, 1.0):
        scale = budget._noise(GRID, GRID, share).scale
        assert most_values * bound(core, scale) <= claim.log_ratio


# -------------------------------------------------------------------- rows that are replaced


@settings(max_examples=40)
@given(STEPS, st.floats(-4, 2), st.floats(0, 1))
def test_no_path_costs_more_when_rows_are_replaced(steps, log_epsilon, most_chosen):
    def held():
        return build(math.exp(log_epsilon), most_chosen=most_chosen)

    budget, _, square = paid(held, steps, replaced=True)
    claim = budget.cost_when_replaced
    assert math.fsum(budget._spent_on_choices) <= most_chosen + 1e-12
    assert square <= claim.mu**2
    assert claim.epsilon(1e-6) <= budget.mechanism.group(2).epsilon(1e-6) * (1 + 1e-9)


def test_choices_are_held_to_what_was_said():
    budget = build(most_chosen=0.3)
    choose(budget, 0.2)
    count(budget, 0.5)
    refused("Choices may take", choose, budget, 0.2, error=BudgetExceededError)
    choose(budget, 0.1)
    refused("most_chosen", build, most_chosen=1.5)


# ------------------------------------------------------------------------- nothing is uncounted


@pytest.mark.parametrize("step", [count, choose])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_raises_while_noise_is_drawn_is_spent(step, delta, monkeypatch):
    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_noise, "noisy_integers", fail)
    monkeypatch.setattr(_noise, "exponential_choice", fail)
    budget = build(1.0, delta)
    with pytest.raises(KeyboardInterrupt):
        step(budget, 0.4)
    assert budget.remaining == pytest.approx(0.6)


@pytest.mark.parametrize("step", [count, choose])
def test_nothing_is_drawn_where_too_much_is_asked_for(step, monkeypatch):
    budget = build()
    step(budget, 0.5)
    monkeypatch.setattr(_noise, "noisy_integers", None)
    monkeypatch.setattr(_noise, "exponential_choice", None)
    refused("is left", step, budget, 0.5 + 1e-9, error=BudgetExceededError)
    assert budget.remaining == 0.5


def test_there_are_no_more_values_than_were_said():
    budget = build(most_values=10)
    count(budget, 0.1, 6)
    refused("10 values", count, budget, 0.1, 5, error=BudgetExceededError)
    count(budget, 0.1, 4)
    choose(budget, 0.1)
    assert budget.remaining == pytest.approx(0.7)


ZEROS = np.zeros(2, np.int64)
COUNT, CHOICE = {"l1": 1.0, "l2": 1.0, "share": 0.1}, {"sensitivity": 1.0, "share": 0.1}
REFUSED = [
    *((ZEROS, {"share": bad}, "share must be") for bad in (0.0, -0.1, math.nan, math.inf, 1.1)),
    *((ZEROS, {"l2": bad}, "must be a positive") for bad in (0.0, -1.0, math.nan, math.inf)),
    *((bad, {}, "64-bit") for bad in (np.zeros(2), np.zeros(2, np.int32), np.zeros(2, bool))),
    *((ZEROS, {"share": bad}, "64-bit") for bad in (1e-40, 1e-300)),
    (np.zeros((2, 2), np.int64), {"l2": -1.0}, "must be"),
]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("values", "asked", "words"), REFUSED)
def test_what_is_refused_costs_nothing(values, asked, words, delta):
    """Shares and sensitivities that are none, values off the grid, and noise beyond integers."""
    budget = build(1.0, delta)
    refused(words, budget.count, values, **COUNT | asked)
    chosen = {"sensitivity" if name == "l2" else name: value for name, value in asked.items()}
    refused(words, budget.choose, values, **CHOICE | chosen)
    if "l2" in asked:
        refused("must be a positive", budget.std, **COUNT | asked)
    assert budget.remaining == 1


def test_two_threads_cannot_both_take_what_is_left():
    budget, got = build(), []

    def take():
        for _ in range(50):
            with contextlib.suppress(BudgetExceededError):
                count(budget, 0.02)
                got.append(0.02)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(take) for _ in range(4)]:
            done.result()
    assert math.fsum(got) == pytest.approx(1)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_copy_of_a_budget_can_spend_it_again(copied):
    budget = build()
    count(budget, 0.1)
    refused("one charge", copied, budget, error=TypeError)


def test_a_fork_cannot_spend_the_budget(monkeypatch):
    budget = build()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for step in (count, choose):
        refused("fork", step, budget, 0.1, error=RuntimeError)


# ----------------------------------------------------------------------- seeds, and no noise


def test_without_noise_choices_are_the_best_and_counts_are_exact():
    budget = build(np.inf, 1e-6)
    assert budget.is_silent
    assert isinstance(budget.mechanism, Unprotected)
    assert isinstance(budget.cost_when_replaced, Unprotected)
    assert choose(budget, 0.1, [1, 3, 2]) == 1
    noisy, std = budget.count(np.array([[1.5, 2.0]]), l1=1, l2=1, share=0.1)
    assert (noisy.tolist(), std) == ([[1.5, 2.0]], 0.0)
    assert budget.std(l1=1, l2=1, share=0.1) == 0
    assert budget.remaining == pytest.approx(0.8)


def test_a_count_beyond_its_room_is_refused():
    budget = build(10.0, 1e-6, most_values=10**7)
    room = budget.room(l2=GRID)
    noisy, std = budget.count(np.array([room, -room]), l1=GRID, l2=GRID, share=0.5)
    assert np.allclose(noisy, [room, -room], atol=40 * std)
    with pytest.raises(OverflowError):
        budget.count(np.array([8 * room]), l1=GRID, l2=GRID, share=0.5)
