"""What a search says of its worth: before it by public numbers, after it by what it released."""

import math
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from skdpsumm import NoiseWarning, PrivacyLedger, PrivateSearchCV, TDILClassifier
from skdpsumm.model_selection import _candidate
from skdpsumm.model_selection._candidate import plan_runs, stopping
from skdpsumm.privacy import GaussianDP, PureDP, gdp_mu
from skdpsumm.privacy._best_of import StoppingLaw
from skdpsumm.privacy._mechanisms import compose

KNOWN = {"classes": [False, True], "norm_bound": 1.0}
REPLACED = {"distribution": "geometric", "adjacency": "replace_one"}
LEARNER = TDILClassifier(kernel="linear", mechanism="functional", **KNOWN)
BOUNDS = {"norm_bound": [1.0, 1.5]}
seeded = pytest.mark.simulated(0)


def search(choices=BOUNDS, **params):
    params = {"random_state": 0, "expected_trials": 3, **params}
    return PrivateSearchCV(params.pop("estimator", LEARNER), choices, **params)


def table(n, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, X[:, 0] > 0


# ------------------------------------------------------------------------------- what the page says

PAGE = (Path(__file__).parent.parent / "docs/learners.md").read_text()
DELTA = 1e-6
RUN = GaussianDP(gdp_mu(1.0, DELTA))
PRICES = {
    "logarithmic (eta = 0, default)": lambda m: stopping("logarithmic", m).price(RUN),
    "geometric (eta = 1)": lambda m: stopping("geometric", m).price(RUN),
    "all trials charged": lambda m: compose([RUN] * m),
    "logarithmic, pure runs of epsilon0 = 1": lambda m: stopping("logarithmic", m).price(PureDP(1)),
}


def in_table(first_cell):
    (row,) = re.findall(rf"^\| {re.escape(first_cell)} \| (.*) \|$", PAGE, re.MULTILINE)
    return row.split(" | ")


def as_shown(number, shown):
    return f"{number:.{len(shown.partition('.')[2])}f}"


@pytest.mark.parametrize("name", PRICES)
def test_prices_on_the_page_are_those_of_the_library(name):
    shown = in_table(name)
    found = [PRICES[name](int(m)).epsilon(DELTA) for m in in_table("E[K]")]
    assert [as_shown(*pair) for pair in zip(found, shown, strict=True)] == shown


def in_sentence(pattern):
    """Return the numbers of a sentence of the page, wherever its lines end."""
    (found,) = re.findall(pattern.replace(" ", r"\s+").replace("#", r"([\d.]*\d)"), PAGE)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.statistical
def test_costs_in_a_ledger_on_the_page_are_those_of_a_ledger():
    pattern = 'of epsilon = #, # and # cost #, # and # in a "gdp" ledger, and #, # and # in'
    numbers = in_sentence(pattern)
    for i, accountant in enumerate(["gdp", "zcdp"], 1):
        ledger = PrivacyLedger(epsilon=math.inf, delta=DELTA, accountant=accountant)
        for epsilon, shown in zip(numbers[:3], numbers[3 * i : 3 * i + 3], strict=True):
            total = plan_runs(stopping("logarithmic", 10), float(epsilon), DELTA).total
            assert as_shown(ledger.price(total).epsilon, shown) == shown


# ------------------------------------------------------------------------------------ before a fit


@pytest.mark.parametrize("params", [{}, {"epsilon": 5.0, "holdout": 0.5}, REPLACED, {"delta": 0.0}])
def test_what_is_expected_is_what_a_fit_will_have(params):
    ledger = PrivacyLedger(epsilon=100.0, delta=params.get("delta", 1e-6), adjacency="replace_one")
    model = search(ledger=ledger, **params)
    planned = model.expected_noise(800)
    assert ledger.entries() == []
    assert not hasattr(model, "noise_")
    with warnings.catch_warnings(action="ignore"):
        model.fit(*table(800))
    held_out = 800 * model.holdout
    assert planned["noise"] == pytest.approx(model.score_noise_std_ / held_out)
    assert planned["size"] == model.noise_.size == 1.0
    assert planned["epsilon_of_fit"] == model.noise_.epsilon_of_fit < model.epsilon
    own = PrivacyLedger(epsilon=100.0, delta=model.delta, adjacency=model.adjacency)
    own.charge(model.privacy_)
    assert planned["epsilon_in_ledger"] == pytest.approx(own.spent.epsilon, rel=1e-9)
    # With as many rows as it names, a tenth of the bounds is what is told.
    enough = model.expected_noise(planned["n_samples"])
    assert enough["difference"] == pytest.approx(0.1)


# ------------------------------------------------------------------------------------- after a fit


@seeded
def test_few_rows_are_told_and_many_are_not():
    with pytest.warns(NoiseWarning, match="choice among candidates is mostly noise") as seen:
        few = search().fit(*table(40))
    assert len([w for w in seen if w.category is NoiseWarning]) == 1
    assert seen[-1].filename == __file__
    assert few.noise_.is_drowned
    assert str(few.noise_).startswith("Mostly noise")
    with warnings.catch_warnings(action="error", category=NoiseWarning):
        many = search().fit(*table(3000))
    assert not many.noise_.is_drowned
    assert 0 < many.noise_.difference < 0.1


@seeded
@pytest.mark.parametrize("n", [40, 2000])
def test_it_is_said_of_what_was_released_alone(n):
    model = search().fit(*table(n))
    again = _candidate.ChoiceNoise.of(
        model._make_score(model._plan(1.0)),
        model.best_sum_,
        3.0,
        is_default=model.best_params_["norm_bound"] == LEARNER.norm_bound,
        epsilon=1.0,
        epsilon_of_fit=model.expected_noise(1)["epsilon_of_fit"],
    )
    assert again == model.noise_
    assert pickle.loads(pickle.dumps(model)).noise_ == model.noise_


@seeded
def test_the_difference_is_from_above():
    """The rows that a noisy sum needs are seldom more than there were, whatever the scores."""
    score = search(expected_trials=10)._make_score(search(expected_trials=10)._plan(1.0))
    law, rng = StoppingLaw(0.0, 10), np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        n = int(rng.integers(5, 400))
        sums = n * rng.uniform(-0.5, 0.5, law.draw(rng)) * rng.choice([1.0, 0.1])
        best = float(np.max(sums + rng.normal(0, score.noise_std, len(sums))))
        facts = {"is_default": False, "epsilon": 1.0, "epsilon_of_fit": 0.5}
        told = _candidate.ChoiceNoise.of(score, best, law.mean, **facts)
        wrong += told.difference < score.told_apart(n)
    assert wrong <= 4


@seeded
def test_the_estimator_as_it_is_may_win():
    for bound, is_default in ((LEARNER.norm_bound, True), (LEARNER.norm_bound + 1, False)):
        model = search({"norm_bound": [bound]}).fit(*table(100))
        assert model.noise_.is_default is is_default
        assert ("as it was given is the best" in str(model.noise_)) is is_default
    assert search({}).fit(*table(100)).noise_.is_default


# ---------------------------------------------------------------------------------------- progress


@seeded
def test_a_warning_that_is_an_error_comes_after_everything():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-6)
    model = search(ledger=ledger)
    error = warnings.catch_warnings(action="error", category=NoiseWarning)
    with error, pytest.raises(NoiseWarning):
        model.fit(*table(40))
    assert (len(ledger.entries()), model.predict(table(5)[0]).shape) == (1, (5,))
