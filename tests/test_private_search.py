"""The private search: its theorem against exact divergences, its noise, and what it releases.

Exact checks use discrete base runs: the best of K has the density f'(F) Q, or the differences of
f(F) where results are finitely many, so that hockey-stick divergences are sums.
"""

import math
import pickle

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import kstest, laplace, norm
from simulated import simulate
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from stub_learners import Stub
from test_best_of import generating

from skdpsumm import BudgetExceededError, M2MClassifier, PINPClassifier, RFFSketcher, TDILClassifier
from skdpsumm.model_selection import PrivateSearchCV, _candidate
from skdpsumm.model_selection._candidate import Choices, plan_runs, stopping
from skdpsumm.privacy import GaussianDP, PrivacyLeakWarning, PrivacyLedger, PureDP, _noise
from skdpsumm.privacy._best_of import StoppingLaw

# Tests of other things set these off, on tables as small as they are.
FAILS = pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
pytestmark = [pytest.mark.simulated(0), FAILS]

LAWS = [stopping(d, m) for d in (-0.5, 0.0, 0.5, 1.0, 2.0) for m in (1.5, 10)]
named = pytest.mark.parametrize("law", LAWS, ids=repr)


# ------------------------------------------------------------------------------------- the theorem


@named
def test_draws_have_the_law(law):
    rng = np.random.default_rng(0)
    n = 20_000
    sample = np.array([law.draw(rng) for _ in range(n)])
    for z in (0.6, 0.8, 0.95):
        values = z**sample
        error = 6 * values.std() / math.sqrt(n)
        assert abs(values.mean() - generating(law, z)) < error
        assert abs(values.mean() - generating(law, z + 0.04)) > error  # it would tell
    # The mean is the derivative of f at 1.
    slope = (1 - generating(law, 1 - 1e-7)) / 1e-7
    assert slope == pytest.approx(law.mean, rel=1e-4)


# --------------------------------------------------------------------------------------- the plan


@pytest.mark.statistical
@named
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (8.0, 1e-9), (1.0, 0.0)])
def test_plan_spends_what_it_may(law, epsilon, delta):
    plan = plan_runs(law, epsilon, delta)
    assert epsilon * (1 - 1e-5) < plan.total.epsilon(delta) <= epsilon
    score = _candidate.PrivateScore(None, 0.0, 1.0, "add_remove", plan)._noise
    assert plan.excess(score.mechanism) <= 1
    larger = GaussianDP(plan.base.mu * 1.001) if delta else PureDP(plan.base.epsilon0 * 1.001)
    assert plan.excess(larger) > 1


def test_ledger_takes_searches_and_the_slack_fits_its_reserve():
    total = plan_runs(stopping(0.0, 10), 1.0, 1e-6).total
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-6)
    ledger.charge(total)
    paid = ledger.spent.epsilon
    assert 1.35 < paid < 1.4  # the Gaussian that dominates at all epsilons
    for _ in range(30):  # with room for others
        ledger.charge(total)
    replaced = PrivacyLedger(epsilon=10.0, delta=1e-6, adjacency="replace_one")
    replaced.charge(total)
    pure = PrivacyLedger(epsilon=1.0)
    pure.charge(plan_runs(stopping(0.0, 10), 1.0, 0.0).total)
    assert pure.spent.epsilon == pytest.approx(1.0, abs=1e-8)


# --------------------------------------------------------------------------------------- the score


class Constant(Stub):
    """A learner that reads nothing, says what it was asked for, and predicts one label."""

    def __init__(
        self, label=0, epsilon=1.0, delta=0.0, adjacency="add_remove", ledger=None, classes=None
    ):
        super().__init__(epsilon, delta, adjacency, ledger)
        self.label = label
        self.classes = classes

    def fit(self, X, y):
        if self.label == "fails" and len(X) > 25:
            raise RuntimeError("too many rows")
        return super().fit(X, y)

    def predict(self, X):
        return np.full(len(X), 0 if self.label == "fails" else self.label)


def scorer(adjacency="add_remove", *, epsilon=1.0, delta=0.0, bounds=(0.0, 1.0), score="accuracy"):
    plan = plan_runs(stopping(0.0, 10), epsilon, delta)
    return _candidate.PrivateScore(_candidate.SCORES[score], *bounds, adjacency, plan)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 0.5)])
def test_sensitivity_of_the_sum_is_exact(adjacency, bounds):
    """The largest move of the integer sum, over rows of any score, is what the noise covers."""
    score = scorer(adjacency, bounds=bounds)
    values = np.array([-np.inf, np.nan, -7.0, *np.linspace(*bounds, 101), 9.0, np.inf])
    grid = score._on_grid(values)
    if adjacency == "add_remove":
        largest = np.abs(grid).max()
    else:
        largest = np.abs(grid[:, None] - grid).max()
    assert largest == score._noise.blocks[0].l1 == score._noise.blocks[0].l2


def test_a_rows_score_depends_on_that_row_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 7))
    y = (X[:, 0] > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    seen = []
    score = _candidate.PrivateScore(
        lambda e, x, _: seen.append(x.shape) or e.decision_function(x),
        *(-9.0, 9.0, "add_remove", scorer().plan),
    )
    rows = [X[[i]] for i in range(60)]
    each = [score.exact(model, [row], y[[i]]) for i, row in enumerate(rows)]
    assert score.exact(model, rows, y) == sum(each)
    assert score.exact(model, rows[::-1], y[::-1]) == sum(each)
    assert set(seen) == {(1, 7)}


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False), (1.3, False)])
@pytest.mark.parametrize(("delta", "adjacency"), [(1e-6, "add_remove"), (0.0, "replace_one")])
def test_noise_of_the_score(monkeypatch, factor, accepted, adjacency, delta):
    """Three arms: the right scale, worked out here from the plan's own equation, and two wrong."""
    rng = np.random.default_rng(0)
    for kind, draw in (("laplace", rng.laplace), ("gaussian", rng.normal)):
        monkeypatch.setattr(
            _noise,
            f"_{kind}_i64",
            lambda v, s, draw=draw: v + np.rint(draw(0, s * factor, v.shape)).astype(np.int64),
        )
    score = scorer(adjacency, delta=delta, bounds=(-4.0, 0.0))
    law = stopping(0.0, 10)
    reach = 2.0 if adjacency == "add_remove" else 4.0
    if delta:
        mu = brentq(lambda m: law.price(GaussianDP(m)).epsilon(delta) - 1.0, 1e-3, 3.0)
        expected = reach / mu
    else:
        run = brentq(lambda e: law.price(PureDP(e)).epsilon(0.0) - 1.0, 1e-3, 1.0)
        expected = reach / run * math.sqrt(2)
    assert score.noise_std == pytest.approx(expected, rel=1e-4)
    sample = np.array([score.release(12345, None) for _ in range(6000)])
    centred = sample - 12345 * score._unit
    law_of = norm(scale=expected) if delta else laplace(scale=expected / math.sqrt(2))
    assert (kstest(centred, law_of.cdf).pvalue > 1e-9) == accepted


# --------------------------------------------------------------------------------------- the whole


X, Y = load_breast_cancer(return_X_y=True)
X = (X - X.min(axis=0)) / np.ptp(X, axis=0) - 0.5
LEARNER = TDILClassifier(norm_bound=1.5)
CHOICES = {"regularization": [0.3, 1.0, 3.0, 10.0], "loss": ["huberized_hinge", "logistic"]}


def search(estimator=LEARNER, choices=CHOICES, **params):
    params = {"expected_trials": 3, "random_state": 0} | params
    return PrivateSearchCV(estimator, choices, **params)


def test_makes_one_charge_and_states_it():
    ledger = PrivacyLedger(epsilon=5.0)
    model = simulate(search(epsilon=4.0, delta=0.0, ledger=ledger), X, Y, seed=None)
    (entry,) = ledger.entries()
    assert entry["label"] == "PrivateSearchCV"
    assert entry["epsilon"] == pytest.approx(4.0)
    assert model.privacy_.epsilon(0.0) == pytest.approx(4.0)
    assert model.privacy_.idealised
    assert not model.privacy_.simulated
    # What is released states the price of the search, not that of a run.
    assert model.best_estimator_.privacy_ == model.privacy_
    assert set(model.best_params_) == set(CHOICES)
    with pytest.raises(BudgetExceededError):
        model.fit(X, Y)
    assert len(ledger.entries()) == 1


def test_nothing_tells_of_the_number_of_trials(monkeypatch, capsys, recwarn):
    """Searches of one and of many trials with the same winner are equal, pickles included."""
    drawn = []

    def fixed(k):
        monkeypatch.setattr(StoppingLaw, "draw", lambda self, rng: drawn.append(k) or k)
        model = search(choices={"regularization": [1.0]}, epsilon=np.inf).fit(X, Y)
        return pickle.dumps(clone(model)), pickle.dumps(vars(model))

    assert fixed(1) == fixed(7)
    assert drawn == [1, 7]
    assert capsys.readouterr().out == ""
    assert not [w for w in recwarn if not issubclass(w.category, PrivacyLeakWarning)]
    names = set(vars(search(epsilon=np.inf).fit(X, Y))) - set(search().get_params())
    best = {"best_estimator_", "best_params_", "best_sum_"}
    assert names == best | {"score_noise_std_", "noise_", "privacy_", "n_features_in_"}


def test_runs_are_alike():
    """Public seeds are the same in all runs, and no seed of a run's noise is left to tell it."""
    features = RBFSampler(gamma=1.0, n_components=20)
    learner = TDILClassifier(kernel=features)
    winners = [simulate(search(learner, {}), X, Y, seed=s).best_estimator_ for s in range(2)]
    assert len({(w.random_state, w.kernel.random_state) for w in winners}) == 1


def test_candidates_and_trials_do_not_come_from_random_state(monkeypatch):
    seen = {}
    draw = Choices.draw
    for seed, public in ((0, 0), (0, 1), (1, 0)):
        found = seen[seed, public] = []
        monkeypatch.setattr(
            Choices,
            "draw",
            lambda self, rng, found=found: found.append(draw(self, rng)) or found[-1],
        )
        simulate(search(expected_trials=4, random_state=public), X, Y, seed=seed)
    assert seen[0, 0] == seen[0, 1]
    assert seen[0, 0] != seen[1, 0]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("estimator", "choices", "params", "message"),
    [
        (LEARNER, {"epsilon": [1.0]}, {}, "'epsilon'.*to PrivateSearchCV. It is the price of the"),
        (LEARNER, {"classes": [[0, 1]]}, {}, r"'classes'.*one value to the estimator\.$"),
        (LEARNER, {"regularization": [-1.0]}, {}, "'regularization' parameter"),
        (LEARNER, CHOICES, {"distribution": -1.0}, "'distribution' parameter"),
        (LEARNER, CHOICES, {"score_bounds": (1, 0)}, "score_bounds must be"),
        (LEARNER, CHOICES, {"scoring": "neg_absolute_error"}, "score_bounds is missing"),
        (LogisticRegression(), {}, {}, "has no epsilon to set"),
        (TDILClassifier, {}, {}, "not the class"),
        (M2MClassifier((-1, 1)), {"epsilon": [1.0]}, {}, "'epsilon', which the search"),
        (PINPClassifier(gamma=1.0), {}, {}, "keeps private rows"),
        (TDILClassifier(mechanism="exponential"), {}, {}, "does not compare"),
        (
            TDILClassifier(mechanism="objective", regularization=0.5),
            {},
            {"epsilon": 0.4},
            "costs more than a run of the search may.*larger regularization",
        ),
        (clone(LEARNER).set_params(ledger=PrivacyLedger(epsilon=1.0)), {}, {}, "ledger of its own"),
        (clone(LEARNER).set_params(classes=[1, 2]), {}, {}, "not in `classes`"),
    ],
)
def test_bad_input_costs_nothing(estimator, choices, params, message, unpaid):
    with pytest.raises((ValueError, TypeError), match=message):
        search(estimator, choices, ledger=unpaid, **params).fit(X, Y)


def test_a_candidate_that_fails_counts_as_the_worst():
    labels = [0, "fails"]
    for seed in range(4):
        model = search(Constant(), {"label": labels}, delta=0.0, expected_trials=6)
        assert simulate(model, X, Y, seed=seed).best_params_ == {"label": 0}
    ledger = PrivacyLedger(epsilon=1.0)
    model = search(Constant("fails"), {}, delta=0.0, ledger=ledger).fit(X, Y)  # to public rows
    assert len(ledger.entries()) == 1
    assert model.best_sum_ < 0


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_candidate_with_steps_of_its_own_gets_the_terms_of_the_search(adjacency):
    """Whole learners, or sketchers, among the candidates: adjacency, ledger, classes, seeds."""
    other = {"add_remove": "replace_one", "replace_one": "add_remove"}[adjacency]
    ledger = PrivacyLedger(epsilon=50.0, delta=1e-3)
    own = {"ledger": ledger, "adjacency": other}
    pipe = Pipeline([("map", RBFSampler(n_components=5)), ("clf", TDILClassifier())])
    found = {"clf": [TDILClassifier(**own)], "map": [RBFSampler(gamma=2.0, n_components=5)]}
    model = search(pipe, found, adjacency=adjacency).fit(X, np.where(Y, 3, 1))
    clf = model.best_estimator_[-1]
    assert (clf.adjacency, clf.ledger) == (adjacency, None)
    assert clf.classes_.tolist() == [1, 3] == list(clf.classes)
    assert model.best_estimator_[0].random_state is not None
    assert ledger.entries() == []
    sketchers = {"release": [RFFSketcher(n_components=20, gamma=1.0, **own)]}
    m2m = M2MClassifier((-1, 1), release=RFFSketcher(n_components=20, gamma=0.5), n_synthetic=300)
    found = search(m2m, sketchers, adjacency=adjacency).fit(X, Y).best_estimator_
    assert found.release.adjacency == adjacency
    stated = [found.privacy_, found.sketch_.privacy, found.sketcher_.privacy_]
    assert all(p.epsilon(1e-6) == stated[0].epsilon(1e-6) for p in stated)
    assert ledger.entries() == []


def test_a_candidate_that_reads_rows_elsewhere_is_refused():
    pipe = Pipeline([("clf", TDILClassifier())])
    with pytest.raises(ValueError, match="another place"):
        search(pipe, {"clf": [M2MClassifier(release=RFFSketcher(gamma=0.5))]}).fit(X, Y)


def test_a_row_whose_score_fails_counts_as_low():
    score = scorer(score="accuracy")
    object.__setattr__(score, "row_score", lambda *_: 1 / 0)
    assert score.exact(None, [X[:1]] * 5, Y[:5]) == score.worst(5)
