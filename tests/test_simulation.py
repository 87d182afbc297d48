"""Noise from a seed: where a simulation reaches, what says so, and what it must not pay for."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pytest
from catalogue import INSTANCES, of_each_class, payer
from curators import curator_of
from refusals import refused
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from stub_learners import Stub

from skdpsumm import PINPClassifier, PrivacyGuarantee, PrivateSearchCV, compare
from skdpsumm.learners import NoisyThreshold, SparseVector, TDDLClassifier, TDILClassifier
from skdpsumm.privacy import PrivacyLeakWarning, PrivacyLedger, PureDP, _noise, simulation
from skdpsumm.privacy._best_of import StoppingLaw
from skdpsumm.privacy._noise import current_seed, drawing_from
from skdpsumm.sketches import HistogramSketcher, RFFSketcher

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:Pass the rows to match"),
    pytest.mark.filterwarnings("ignore:Lower n_select"),
]

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (80, 2))
LABELS, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 0]
SEED = 987654321987  # none of whose bytes occur by chance
FITTED = {name: one for name, one in INSTANCES.items() if one.kind != "vectorizer"}
SKETCHER = RFFSketcher(n_components=8, gamma=1.0, random_state=0)


def sums():
    """Return a release, and whether it says that it is a simulation."""
    sketch = clone(SKETCHER).fit(X).sketch_
    return sketch.sums, sketch.privacy.simulated


def claim(model):
    """Return the guarantee of a fit, of a summarizer that for the owners."""
    return getattr(model.privacy_, "owners", model.privacy_)


# ---- where it reaches


def test_each_fit_inside_starts_from_the_seed_and_the_inner_one_holds():
    with simulation(3):
        first, second = sums(), sums()
        with simulation(4):
            inner = sums()
        after = sums()
    assert first[1]
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[0], after[0])
    assert not np.any(first[0] == inner[0])
    assert not sums()[1]


def test_it_ends_with_an_error_and_decorates():
    with pytest.raises(ZeroDivisionError), simulation(0):
        1 / 0  # noqa: B018
    assert current_seed() is None
    assert simulation(5)(current_seed)() == 5
    assert current_seed() is None


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "0"])
def test_seeds_are_numbers_from_zero(seed):
    with pytest.raises(ValueError, match="seed must be an int"), simulation(seed):
        raise AssertionError("it was entered")


def test_it_does_not_reach_other_threads():
    with simulation(0), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(sums).result()[1]
        assert pool.submit(simulation(1)(sums)).result()[1]
        assert current_seed() == 0
        assert not pool.submit(sums).result()[1]


# ---- what says so


@pytest.mark.parametrize("name", of_each_class(FITTED))
def test_all_that_is_fitted_inside_says_so_for_good(name):
    one = FITTED[name]
    with simulation(SEED):
        model = one.make()
        assert not model.__sklearn_tags__().non_deterministic
        with pytest.warns(PrivacyLeakWarning, match="Leave simulation"):
            one.fit(model, X, LABELS, NUMBERS)
    assert model.__sklearn_tags__().non_deterministic
    assert claim(model).simulated
    assert "outside simulation()" in repr(claim(model))
    assert "SIMULATED" in repr(claim(model).explain())
    assert not any("seed" in key and "random_state" not in key for key in model.get_params())
    if not getattr(model, "holds_private_data", False):
        assert SEED.to_bytes(5, "little") not in pickle.dumps(model)
    again = one.fit(clone(model), X, LABELS, NUMBERS)
    assert not claim(again).simulated


def test_files_say_so(tmp_path):
    with simulation(0):
        sketch = clone(SKETCHER).fit(X).sketch_
    sketch.save(tmp_path / "sketch")
    assert type(sketch).load(tmp_path / "sketch").privacy.simulated


# ---- a release has one source of noise


@pytest.mark.parametrize("kind", [NoisyThreshold, SparseVector])
@pytest.mark.parametrize("seed", [None, 0])
def test_answers_have_the_noise_of_their_fit_wherever_they_are_asked(kind, seed):
    """Two learners of one seed answer alike, also outside; two of none never do, also inside."""
    mechanism = kind(n_updates=2, max_queries=2, failure_probability=0.9)
    model = PINPClassifier(gamma=1.0, mechanism=mechanism, regularization=10.0, epsilon=1e6)
    rows, labels, found = np.repeat(X[:3], 200, axis=0), np.repeat([0, 1, 2], 200), []
    for _ in range(2):
        with drawing_from(seed):
            fitted = clone(model).fit(rows, labels)
        with drawing_from(None if seed == 0 else 0):
            answers = fitted.query(X[:1])
        assert answers.fresh.all()
        assert fitted.privacy_.simulated == (seed == 0)
        found.append(answers.scores)
    assert np.array_equal(*found) == (seed == 0)


def left_open(work):
    """Return what a function returns; simulations that it leaves open end with it."""
    return copy_context().run(work)


def test_what_a_callback_begins_is_not_the_noise_of_the_fit():
    """A kernel that begins a simulation, and never ends it, while the learner is fitted."""
    begun = []

    class Leaking(RBFSampler):
        def fit(self, X, y=None):
            begun.append(simulation(0))
            begun[-1].__enter__()
            return super().fit(X)

    def learnt():
        kernel = Leaking(n_components=4, random_state=0)
        model = TDILClassifier(kernel=kernel, mechanism="functional").fit(X, LABELS)
        assert current_seed() == 0
        assert not model.privacy_.simulated
        return model.predictor_.coefficients

    assert not np.array_equal(left_open(learnt), left_open(learnt))


@pytest.mark.parametrize("name", [name for name, one in FITTED.items() if one.kind != "search"])
def test_no_two_parts_of_a_release_share_a_stream(name, monkeypatch):
    """Of owners, of steps, of columns: their noise would cancel."""
    streams, simulate = [], _noise._simulate

    def recorded(kind, scale, size, stream):
        if isinstance(stream, np.random.SeedSequence):
            streams.append((stream.entropy, stream.spawn_key))
        return simulate(kind, scale, size, stream)

    monkeypatch.setattr(_noise, "_simulate", recorded)
    one = FITTED[name]
    with simulation(0):
        model = one.make()
        if one.kind == "synthesizer":
            model.fit(X, owners=np.arange(80) % 3)
        else:
            one.fit(model, X, LABELS, NUMBERS)
        if one.interactive:
            model._scores(X[:3])
    assert len({*streams}) == len(streams)


class Spy(Stub):
    """A learner that writes down what seed it was fitted with."""

    seeds = ()

    def fit(self, X, y):
        if len(X) > 40:  # no rehearsal, which sees few rows, and public ones
            self.seeds.append(current_seed())
        return super().fit(X, y)


@pytest.mark.parametrize("seed", [None, 0])
def test_trials_of_a_search_have_seeds_of_their_own_or_none(seed, monkeypatch):
    """Whatever its score does meanwhile: here it begins simulations, and leaves them open."""
    begun = []

    def score(estimator, X, y):
        begun.append(simulation(1))
        begun[-1].__enter__()
        return 1.0

    def searched():
        search = PrivateSearchCV(Spy(), {}, scoring=score, score_bounds=(0, 1), epsilon=4, delta=0)
        with drawing_from(seed):
            return search.fit(np.tile(X, (2, 1)), np.tile(LABELS, 2))

    monkeypatch.setattr(Spy, "seeds", [])
    monkeypatch.setattr(StoppingLaw, "draw", lambda self, rng: 4)
    assert left_open(searched).privacy_.simulated == (seed == 0)
    assert len(begun) > 4
    if seed is None:
        assert Spy.seeds == [None] * 4
    else:
        assert len({*Spy.seeds, 0, 1}) == 6


# ---- what it must not pay for


def ledgers(tmp_path):
    made = PrivacyLedger(tmp_path / "ledger", epsilon=1e4, delta=1e-2)
    return made, made.dataset("people")


@pytest.mark.parametrize("name", of_each_class(FITTED))
def test_a_ledger_in_a_file_is_refused_before_the_data_are_read(name, tmp_path):
    one = FITTED[name]
    for ledger in ledgers(tmp_path):
        model = one.make(ledger=ledger)
        with simulation(0):
            refused("Leave simulation", one.fit, model, np.full((80, 2), np.nan), LABELS, NUMBERS)
            refused("Leave simulation", payer(model).check_budget)
        assert ledger.entries() == []
        payer(model).check_budget()


def test_other_ways_to_a_ledger_in_a_file_are_closed(tmp_path):
    ledger, _ = ledgers(tmp_path)
    sketch = HistogramSketcher((-1, 1), epsilon=50.0).fit(X).sketch_
    with simulation(0):
        refused("Leave simulation", compare, X, sketch, epsilon=1.0, ledger=ledger)
        refused("Leave simulation", curator_of, X, ["a"], gamma=1.0, ledger=ledger)
        fitted = HistogramSketcher((-1, 1)).fit(X)
    refused("Leave simulation", ledger.charge, fitted.privacy_)
    refused("Leave simulation", ledger.charge, PrivacyGuarantee(PureDP(0.1), simulated=True))
    with pytest.raises(ValueError, match="Leave simulation"), simulation(0):
        clone(SKETCHER).set_params(ledger=ledger).fit(X)
    assert ledger.entries() == []


class SimulatesItself(TDDLClassifier):
    """A learner of somebody else's, whose noise the claim of a search would hide."""

    def fit(self, X, y, *, groups=None):
        with simulation(7):
            return super().fit(X, y, groups=groups)


@pytest.mark.simulated(None)
def test_a_search_refuses_a_learner_that_begins_a_simulation(unpaid):
    X = np.random.default_rng(0).random((200, 2))
    learner = SimulatesItself(classes=[0, 1], schema=(0, 1), mechanism="functional")
    search = PrivateSearchCV(learner, {"regularization": [1.0]}, epsilon=4.0, ledger=unpaid)
    refused("begins a simulation", search.fit, X, X[:, 0] > 0.5)
