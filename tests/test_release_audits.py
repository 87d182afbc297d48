"""Black-box audits of whole releases, each beside the smallest bug that it catches.

An audit fits the sketcher thousands of times on two worst-case neighbours. Its lower bound must
stay below the claim at confidence 1 - 1e-9 for the sound sketcher, and exceed it for every
mutant. Small maps and the budgets below make the bounds sharp; the
delta is large because so few trials see nothing of a smaller one.
"""

from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from skdpsumm import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion, audit_epsilon
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.features._feature_maps import FourierMap
from skdpsumm.privacy import _noise
from skdpsumm.sketches._sketchers import BaseSketcher

PURE = {"epsilon": 1.5, "delta": 0.0}
GAUSSIAN = {"epsilon": 1.0, "delta": 0.2}
SURE = 1 - 1e-9
N_TRIALS = 600

SKETCHERS = {
    "rff": RFFSketcher(2, gamma=0.5, random_state=0),
    "race": RACESketcher(1, n_buckets=4, bandwidth=0.5, random_state=0),
    "histogram": HistogramSketcher(schema=(0, 1), n_bins=2, random_state=0),
    "union": SketchUnion(
        [HistogramSketcher(n_bins=2), RFFSketcher(2, gamma=0.5)], schema=(0, 1), random_state=0
    ),
}


pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("quick_fits")]


@pytest.fixture(autouse=True)
def _remembered_names(monkeypatch):
    """A fifth of a small fit goes into looking up the names of parameters."""
    names = cache(BaseEstimator._get_param_names.__func__)
    monkeypatch.setattr(BaseEstimator, "_get_param_names", classmethod(names))


def refuted(sketcher, pair=None, n_trials=N_TRIALS):
    """Audit all that a fit publishes, and return whether the sketcher's claim is refuted."""

    def release(X):
        sketch = sketcher.fit(X).sketch_
        return np.append(sketch.sums, sketch.n_released)

    result = audit_epsilon(
        release,
        *(pair or worst_case_neighbours(sketcher)),
        delta=sketcher.delta,
        n_trials=n_trials,
        confidence=SURE,
        random_state=0,
    )
    return result.refutes(sketcher.epsilon)


def make(name, budget, adjacency="add_remove"):
    return clone(SKETCHERS[name]).set_params(**budget, adjacency=adjacency)


@pytest.mark.parametrize(
    ("name", "budget", "adjacency"),
    [
        ("rff", GAUSSIAN, "replace_one"),
        ("race", PURE, "add_remove"),
        ("histogram", GAUSSIAN, "replace_one"),
        ("union", PURE, "add_remove"),
    ],
)
def test_bound_stays_below_the_claim(name, budget, adjacency):
    assert not refuted(make(name, budget, adjacency))


@pytest.mark.parametrize(
    ("name", "budget"),
    [("rff", GAUSSIAN), ("race", PURE), ("histogram", GAUSSIAN), ("union", PURE)],
)
def test_catches_too_little_noise(name, budget, monkeypatch):
    """A third of the Gaussian noise; a sixth of the Laplace noise, or an eighth where it is spread
    over several numbers, for there no likelihood ratio is learnt as sharply. tests/long: half.
    """
    part = {"race": 6, "union": 8}.get(name, 3)
    laplace, gaussian = _noise._laplace_i64, _noise._gaussian_i64
    monkeypatch.setattr(_noise, "_laplace_i64", lambda v, s: laplace(v, s / part))
    monkeypatch.setattr(_noise, "_gaussian_i64", lambda v, s: gaussian(v, s / part))
    assert refuted(make(name, budget))


def test_catches_add_remove_noise_under_replace_one(monkeypatch):
    """A factor of 2 on the sensitivity of Fourier features."""
    right = FourierMap.sensitivity
    monkeypatch.setattr(
        FourierMap, "sensitivity", lambda self, adjacency: right(self, "add_remove")
    )
    assert refuted(make("rff", GAUSSIAN, "replace_one"), n_trials=2000)


def test_catches_noise_reused_in_two_parts(monkeypatch):
    """Two histograms of one column; in the mutant, one bin of each has the same noise."""
    parts = [HistogramSketcher(n_bins=4), HistogramSketcher(n_bins=2)]
    twins = SketchUnion(parts, weights=[1, 1], schema=(0, 1), random_state=0, **PURE)
    X = np.full((20, 1), 0.1)
    pair = X, np.vstack([X, [[0.9]]])
    assert not refuted(twins, pair)

    laplace, drawn = _noise._laplace_i64, []

    def reused(values, scale):
        if not drawn:
            drawn.append(laplace(np.zeros(4, np.int64), scale))
            return values + drawn[0]
        return values + drawn.pop()[: len(values)]

    monkeypatch.setattr(_noise, "_laplace_i64", reused)
    assert refuted(twins, pair)


def test_catches_bounds_taken_from_the_data():
    """The counts of all bins jump when one row moves the edges."""

    class Careless(HistogramSketcher):
        def _validate(self, X, schema, *, reset):
            self.schema = (float(X.min()), float(X.max()) + 1e-6)
            return super()._validate(X, schema, reset=reset)

    X = np.linspace(0.1, 0.4, 21)[:, None]
    pair = X, np.vstack([X, [[1.0]]])
    for kind, caught in ((HistogramSketcher, False), (Careless, True)):
        sketcher = kind(schema=(0, 1), n_bins=2, random_state=0, **PURE)
        assert refuted(sketcher, pair) is caught


def test_catches_an_exact_count(monkeypatch):
    """The number of rows, published without noise beside a noisy sketch."""
    exact = BaseSketcher.release

    def leaky(self):
        n_rows = self._pending.n_rows
        exact(self)
        object.__setattr__(self.sketch_, "n_released", float(n_rows))
        return self

    monkeypatch.setattr(BaseSketcher, "release", leaky)
    assert refuted(make("rff", GAUSSIAN))


def test_neighbours_reach_the_sensitivity():
    for name in ("rff", "race", "histogram"):
        for adjacency in ("add_remove", "replace_one"):
            for budget in (PURE, GAUSSIAN):
                sketcher = make(name, budget, adjacency)
                X, neighbour = worst_case_neighbours(sketcher)
                phi = sketcher.fit(X).feature_map_
                moved = (phi.grid_sums(neighbour) - phi.grid_sums(X)).astype(float)
                l1, l2 = phi.sensitivity(adjacency)
                order, bound = (1, l1) if budget is PURE else (2, l2)
                reached = np.linalg.norm(moved, ord=order)
                assert 0.98 * bound < reached <= bound


def test_neighbours_need_a_fixed_map():
    with pytest.raises(ValueError, match="random_state"):
        worst_case_neighbours(RFFSketcher(2, gamma=1.0))
