"""What CONTRIBUTING.md says that one has to write is all that one has to write.

The code of its recipes is read from the page and run: toys of each kind fit, are charged once, and
keep what they claim.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from curators import curator_of
from refusals import refused
from scipy.optimize import approx_fprime
from simulated import simulate

from skdpsumm.features._feature_maps import GRID
from skdpsumm.learners import PINPClassifier, TDILClassifier
from skdpsumm.moments import M2MEstimator
from skdpsumm.privacy import PrivacyLedger, gdp_mu
from skdpsumm.sketches import PrivateSketch, SketchUnion
from skdpsumm.summaries import DataOwner, PrivateMMDSummarizer
from skdpsumm.summaries._parties import run_protocol

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
_RECIPE = re.compile(r"^### ([^\n]*)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"`((?:skdpsumm|tests|docs|examples)/[\w/.]+)`")
RECIPES = dict(_RECIPE.findall(PAGE))

X = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 3))
LABELS = X[:, 0] > 0


def written(recipe):
    """Return what the code of a recipe defines."""
    namespace = {"__name__": __name__}
    for code in _CODE.findall(RECIPES[recipe]):
        exec(compile(code, f"<{recipe}>", "exec"), namespace)
    return namespace


SIDE = written("Add a sketcher")["SideSketcher"]
ROOT_LOSS = written("Add a loss")["RootLoss"]
EQUAL_ROWS = written("Add a protocol")["EqualRows"]
NOISY_WEIGHTS = written("Add a mechanism")["NoisyWeights"]


def a_ledger(**settings):
    return PrivacyLedger(epsilon=10, delta=1e-5, **settings)


def charged_once(ledger, guarantee):
    """Whether the ledger has one entry, and the guarantee is what was asked for."""
    return len(ledger.entries()) == 1 and guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-5)


def test_pages_name_files_that_are_there():
    assert len(RECIPES) == 4
    for path in _PATH.findall(PAGE):
        assert (ROOT / path).exists(), path
    for name, text in RECIPES.items():
        assert 1 <= len(set(_PATH.findall(text)) | {"tests/catalogue.py"}) <= 4, name


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_sketcher(adjacency, tmp_path):
    ledger = a_ledger(adjacency=adjacency)
    sketcher = SIDE(threshold=0.1, schema=(-0.5, 0.5), adjacency=adjacency, ledger=ledger).fit(X)
    assert charged_once(ledger, sketcher.privacy_)
    # A row moves the sums by what the map claims, and the noise is that of it.
    phi = sketcher.feature_map_
    ones = np.array([phi.grid_sums(row[None]) for row in X])
    moves = ones if adjacency == "add_remove" else ones[:, None] - ones
    l1, l2 = phi.sensitivity(adjacency)
    assert np.abs(moves).sum(axis=-1).max() == l1
    assert np.linalg.norm(moves, axis=-1).max() == pytest.approx(l2)
    mu = l2 / GRID / sketcher.sketch_.noise_std
    np.testing.assert_allclose(mu, gdp_mu(1.0, 1e-6), rtol=1e-4)
    path = tmp_path / "a.sketch"
    sketcher.sketch_.save(path)
    loaded = PrivateSketch.load(path)
    assert np.array_equal(loaded.sums, sketcher.sketch_.sums)
    assert loaded.feature_map.difference(phi) is None
    assert M2MEstimator.from_sketch(loaded, n_synthetic=500).mean().value.shape == (3,)


def test_noise_of_a_sketcher_is_what_it_states():
    exact = SIDE(epsilon=np.inf).fit(X).sketch_.sums
    sketches = [simulate(SIDE(), X, seed=seed).sketch_ for seed in range(100)]
    deviations = np.array([(one.sums - exact) / one.noise_std for one in sketches])
    assert 0.9 < deviations.std() < 1.1


def test_a_sketcher_in_a_union_that_refuses_what_is_no_number():
    ledger = a_ledger()
    union = SketchUnion([SIDE(), SIDE(threshold=0.0)], ledger=ledger).fit(X)
    assert charged_once(ledger, union.privacy_)
    refused("threshold", SIDE(threshold="low", ledger=ledger).fit, X)
    assert len(ledger.entries()) == 1


def test_a_loss():
    loss, margins = ROOT_LOSS(), np.linspace(-20, 20, 2001)
    codes = np.ones((1, 1))
    for margin in (-3.0, 0.1, 2.0):
        slope = approx_fprime([margin], lambda m: loss.value(m[None], codes)[0], 1e-7)
        np.testing.assert_allclose(slope, loss.gradient(np.array([[margin]]), codes)[0], atol=1e-6)
    slopes = loss._slope(margins)
    assert np.abs(slopes).max() <= loss.lipschitz
    curvatures = np.diff(slopes) / np.diff(margins)
    np.testing.assert_allclose(curvatures, loss._curvature(margins[:-1] + 0.01), atol=1e-4)
    assert 0 <= curvatures.min() <= loss._curvature(margins).max() <= loss.smoothness


@pytest.mark.parametrize("mechanism", ["functional", "objective"])
def test_a_learner_with_a_loss(mechanism):
    ledger = a_ledger()
    model = TDILClassifier(loss=ROOT_LOSS(), mechanism=mechanism, ledger=ledger)
    assert charged_once(ledger, model.fit(X, LABELS).privacy_)
    exact = TDILClassifier(loss=ROOT_LOSS(), epsilon=np.inf, regularization=2.0, classes=[0, 1])
    whole = exact.fit(X, LABELS).predictor_.coefficients
    assert exact.score(X, LABELS) > 0.95
    for i in range(0, len(X), 20):
        rest = exact.fit(np.delete(X, i, axis=0), np.delete(LABELS, i)).predictor_.coefficients
        assert 0 < np.linalg.norm(whole - rest) <= exact.sensitivity_
    thirds = np.digitize(X[:, 1], [-0.2, 0.2])
    refused("RootLoss is for two classes", exact.set_params(classes=[0, 1, 2]).fit, X, thirds)


OWNERS = np.repeat(["north", "south"], 200)
TARGET = X[:50] + np.array([0.3, 0, 0])


def test_a_protocol():
    ledger = a_ledger()
    protocol = EQUAL_ROWS(n_rows=30)
    summarizer = PrivateMMDSummarizer(n_select=20, gamma=2.0, protocol=protocol, ledger=ledger)
    summarizer.fit(X, X_target=TARGET, owners=OWNERS)
    assert charged_once(ledger, summarizer.privacy_.target)
    assert (summarizer.privacy_.owners.epsilon(0), len(summarizer.sample_indices_)) == (0, 20)
    with pytest.raises(ValueError, match="n_rows"):
        PrivateMMDSummarizer(protocol=EQUAL_ROWS(n_rows=0), ledger=ledger, gamma=1.0).fit(
            X, X_target=TARGET, owners=OWNERS
        )
    assert len(ledger.entries()) == 1


@pytest.mark.simulated(0)
def test_what_an_owner_hears_in_a_protocol_does_not_depend_on_other_owners():
    heard = []
    for others in (X[200:], X[200:] + 0.2):
        options = {"n_select": 20, "protocol": EQUAL_ROWS(), "random_state": 0, "gamma": 1.0}
        curator = curator_of(TARGET, owners=["north", "south"], **options)
        run_protocol(curator, {"north": DataOwner(X[:200]), "south": DataOwner(others)})
        (message,) = curator.transcript["north"]
        heard.append(message.direction)
    assert np.array_equal(*heard)


@pytest.mark.parametrize("mechanism", ["weights", NOISY_WEIGHTS()], ids=["name", "object"])
def test_a_mechanism_is_added_by_one_class(mechanism):
    ledger = a_ledger()
    model = TDILClassifier(mechanism=mechanism, ledger=ledger).fit(X, LABELS)
    assert charged_once(ledger, model.privacy_)
    refused("mechanism", PINPClassifier(mechanism=mechanism, gamma=1.0).fit, X, LABELS)
    with pytest.raises(ValueError, match="no guarantee with delta=0"):
        TDILClassifier(mechanism=mechanism, delta=0, ledger=ledger).fit(X, LABELS)
    assert len(ledger.entries()) == 1


def test_noise_of_a_mechanism_is_what_it_states():
    fixed = {"mechanism": NOISY_WEIGHTS(), "regularization": 20.0, "classes": [0, 1]}
    exact = TDILClassifier(epsilon=np.inf, **fixed).fit(X, LABELS)
    models = [simulate(TDILClassifier(**fixed), X, LABELS, seed=k) for k in range(100)]
    noise = [one.predictor_.coefficients - exact.predictor_.coefficients for one in models]
    assert 0.87 < np.std(noise) * gdp_mu(1.0, 1e-6) / exact.sensitivity_ < 1.13
