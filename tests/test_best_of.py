"""The best of a random number of Gaussian runs: what dominates its curve, and its slack.

`examples/proofs/random_stopping.py`, which `test_proofs` runs, attacks the curve by exact searches:
their runs have finitely many results, so that divergences are sums.
"""

import itertools
import math

import numpy as np
import pytest

from skdpsumm import PrivacyLedger
from skdpsumm.privacy import GaussianDP, PureDP, gdp_mu
from skdpsumm.privacy._best_of import BestOf, StoppingLaw
from skdpsumm.privacy._mechanisms import ZeroConcentratedDP, gdp_delta, mechanism_from_dict
from skdpsumm.privacy._objective import ObjectiveDP

TEN = StoppingLaw(0.0, 10)
LAWS = [TEN, *(StoppingLaw(*law) for law in ((1.0, 10), (-0.6, 10), (0.0, 1.5), (0.5, 80)))]
RUN = gdp_mu(1.0, 1e-6)
named = pytest.mark.parametrize("law", LAWS, ids=repr)


def generating(law, z):
    """Return E[z^K]."""
    log, log_gamma = math.log1p(-(1 - law.gamma) * z), math.log(law.gamma)
    if law.eta == 0:
        return log / log_gamma
    return math.expm1(-law.eta * log) / math.expm1(-law.eta * log_gamma)


def best_of(law, masses):
    """Return the law of the best of K results, given from the best down; nothing comes last."""
    better = np.append(np.minimum(np.concatenate([[0.0], np.cumsum(masses)]), 1.0)[:-1], 1.0)
    levels = np.array([generating(law, 1 - s) for s in better])
    return np.append(-np.diff(levels), levels[-1])


# ------------------------------------------------------------------------------------ one Gaussian


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("law", "mu"), [*((law, RUN) for law in LAWS), *((TEN, mu) for mu in (1e-6, 2.0, 7.0, 20.0))]
)
def test_the_dominating_gaussian_is_above_the_curve(law, mu):
    bound = BestOf(law, mu)
    larger = bound.dominating_mu()
    epsilons = np.linspace(0, 10 * mu + mu * mu, 30)
    assert all(bound.delta(e) <= gdp_delta(larger, e) for e in epsilons)
    if mu in (RUN, 2.0, 7.0):  # elsewhere sums of floats hide a delta, or 1 - delta
        assert any(bound.delta(e) > gdp_delta(0.99 * larger, e) for e in epsilons)


def test_beyond_what_is_computed_the_closed_form_holds():
    for law in LAWS[:2]:
        huge = BestOf(law, 30.0)
        assert 30.0 < huge.dominating_mu() < 90.0
        assert huge.delta(300.0) == 1.0 > huge.delta(640.0)
        assert BestOf(law, 20.0).delta(700.0) < 1e-12
    assert (BestOf(TEN, 0.0).delta(0.0), BestOf(TEN, 0.0).dominating_mu()) == (0.0, 0.0)
    assert BestOf(TEN, math.inf).dominating_mu() == math.inf
    assert BestOf(TEN, math.inf).epsilon(1e-6) == math.inf


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1, 1e-5), (1, 1e-9), (3, 1e-6), (10, 1e-6)]
)
def test_ten_candidates_cost_at_most_two_fits_in_a_ledger(epsilon, delta):
    """As a ledger with its default accountant counts; and that, too, no Gaussian does for less."""
    ledger = PrivacyLedger(epsilon=1000.0, delta=delta)
    run = GaussianDP(gdp_mu(epsilon, delta))
    paid = ledger.price(TEN.price(run)).epsilon
    assert ledger.accountant == "gdp"
    assert 1.6 * epsilon < paid <= 2 * epsilon


@named
def test_runs_that_are_not_ideal_move_a_search_by_the_slack(law):
    """Densities within a factor but for a tail, and the same search of the runs that are ideal."""
    rng = np.random.default_rng(3)
    for log_ratio, tail in ((0.02, 0.0), (0.05, 1e-4), (1e-3, 1e-3)):
        bound, rest = law.slack(log_ratio, tail)
        for _ in range(20):
            ideal = rng.dirichlet(np.full(30, 0.5)) + 1e-9
            run = ideal * np.exp(log_ratio * rng.choice([-0.45, 0.45], 30))
            bad = np.zeros(30, bool)
            if tail:
                bad[rng.integers(30)] = True
                ideal, run = ideal * (1 - 1.5 * tail * bad), run * ~bad + 0.9 * tail * bad
                ideal[bad] = 1.5 * tail
            ideal, run = ideal / ideal.sum(), run / run.sum()
            good = np.abs(np.log(run / ideal)) <= log_ratio
            if run[~good].sum() > tail or ideal[~good].sum() > 2 * tail:
                continue
            found, expected = best_of(law, run), best_of(law, ideal)
            ratios = np.abs(np.log(found[:-1] / expected[:-1]))[good]
            assert ratios.max() <= bound + 1e-9
            assert found[:-1][~good].sum() <= rest + 1e-12


@named
def test_the_slack_of_a_search_covers_that_of_runs_for_a_group(law, monkeypatch):
    monkeypatch.setattr(BestOf, "dominating_mu", lambda self: self.mu)  # which takes a second
    for size, run_ratio in itertools.product([1, 2, 5], [1e-12, 1e-3, 0.05]):
        run = GaussianDP(RUN, run_ratio, tail=1e-18)
        claim = law.price(run).group(size)
        log_ratio, tail = law.slack(*run.group(size).slack)
        assert claim.log_ratio >= log_ratio * (1 - 1e-15)
        assert claim.tail >= tail * (1 - 1e-15)


# ------------------------------------------------------------------------------------ the mechanism


@pytest.mark.statistical
@named
def test_epsilon_and_delta_are_inverse_and_fall(law):
    bound = BestOf(law, RUN)
    deltas = (1e-15, 1e-9, 1e-6, 1e-3, 0.05)
    epsilons = [bound.epsilon(d) for d in deltas]
    assert epsilons == sorted(epsilons, reverse=True)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        assert delta * (1 - 1e-6) < bound.delta(epsilon) <= delta
    assert (bound.epsilon(0.0), bound.epsilon(0.9)) == (math.inf, 0.0)
    grid = [bound.delta(e) for e in np.linspace(-2, 2, 41)]
    assert grid == sorted(grid, reverse=True)


def test_a_run_that_is_no_exact_gaussian_costs_what_dominates_it():
    shifted = ObjectiveDP(0.2, 0.1)
    assert TEN.price(shifted) == BestOf(TEN, shifted.dominating_mu())
    assert isinstance(TEN.price(PureDP(0.1)), PureDP)
    with pytest.raises(TypeError, match="A search cannot be priced"):
        TEN.price(ZeroConcentratedDP(0.1))


def test_sums_groups_and_files_are_those_of_the_dominating_gaussian():
    bound = BestOf(TEN, 0.1, 1e-9, 1e-12)
    both = bound + GaussianDP(0.2)
    assert bound.epsilon(1e-6) < both.epsilon(1e-6)
    dominating = GaussianDP(math.hypot(bound.dominating_mu(), 0.2), 1e-9, 1e-12)
    assert both.epsilon(1e-6) <= dominating.epsilon(1e-6) * (1 + 1e-9)
    assert BestOf(TEN, 0.1).group(3) == GaussianDP(3 * BestOf(TEN, 0.1).dominating_mu())
    assert repr(BestOf(TEN, 0.1)) == "BestOf(10 runs on average of mu=0.1)"
    assert "tail=1e-12" in repr(bound)
    assert mechanism_from_dict(bound.to_dict()) == bound
