"""Black-box audits of whole releases, each beside the smallest bug that it catches.

An audit fits the sketcher thousands of times on two worst-case neighbours. Its lower bound must
stay below the claim at confidence 1 - 1e-9 for the sound sketcher, and exceed it for every
mutant. Small maps and epsilon = 3 make the bounds sharp.
"""

import numpy as np
import pytest
from sklearn.base import clone

from skdpsumm import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion, audit_epsilon
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.privacy import _noise
from skdpsumm.sketches import _base

EPSILON, DELTA = 3.0, 1e-3
SURE = 1 - 1e-9

SKETCHERS = {
    "rff": RFFSketcher(2, gamma=0.5, random_state=0),
    "race": RACESketcher(1, n_buckets=4, bandwidth=0.5, random_state=0),
    "histogram": HistogramSketcher(bounds=(0, 1), n_bins=2, random_state=0),
    "union": SketchUnion(
        [HistogramSketcher(n_bins=2), RFFSketcher(2, gamma=0.5)], bounds=(0, 1), random_state=0
    ),
}


def release_of(sketcher):
    """Return all that a fit publishes, as one vector."""

    def release(X):
        sketch = clone(sketcher).fit(X).sketch_
        return np.append(sketch.sums, sketch.n_released)

    return release


def audited(sketcher, n_trials=3000):
    pair = worst_case_neighbours(sketcher)
    return audit_epsilon(
        release_of(sketcher),
        *pair,
        delta=sketcher.delta,
        n_trials=n_trials,
        confidence=SURE,
        random_state=0,
    )


def budgeted(name, delta, adjacency="add_remove"):
    return clone(SKETCHERS[name]).set_params(epsilon=EPSILON, delta=delta, adjacency=adjacency)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", SKETCHERS)
def test_bound_stays_below_the_claim(name, delta, adjacency):
    assert not audited(budgeted(name, delta, adjacency)).refutes(EPSILON)


@pytest.fixture
def half_the_noise(monkeypatch):
    laplace, gaussian = _noise._laplace_i64, _noise._gaussian_i64
    monkeypatch.setattr(_noise, "_laplace_i64", lambda v, s: laplace(v, s / 2))
    monkeypatch.setattr(_noise, "_gaussian_i64", lambda v, s: gaussian(v, s / 2))


@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("name", SKETCHERS)
@pytest.mark.usefixtures("half_the_noise")
def test_catches_half_the_noise(name, delta):
    """Smallest factor caught at 3,000 trials: 0.5 for every sketcher and both noises."""
    assert audited(budgeted(name, delta)).refutes(EPSILON)


def test_catches_add_remove_noise_under_replace_one(monkeypatch):
    """The sensitivity doubles (sqrt 2 for one-hot in L2) under replace-one."""
    sketcher = budgeted("rff", DELTA, "replace_one")
    sound = type(sketcher._draw_map).__name__
    assert sound == "method"
    from skdpsumm.features import FourierMap

    right = FourierMap.sensitivity
    monkeypatch.setattr(
        FourierMap, "sensitivity", lambda self, adjacency: right(self, "add_remove")
    )
    assert audited(sketcher).refutes(EPSILON)


def test_catches_noise_reused_in_two_parts(monkeypatch):
    """Two histograms of one column that share their noise: the difference is exact."""
    twins = SketchUnion(
        [HistogramSketcher(n_bins=2), HistogramSketcher(n_bins=4)],
        bounds=(0, 1),
        random_state=0,
        epsilon=EPSILON,
        delta=0.0,
    )
    assert not audited(twins).refutes(EPSILON)

    def same_stream(values, scale):
        noise = np.rint(scale * np.random.default_rng(same_stream.seed).laplace(size=len(values)))
        same_stream.calls += 1
        same_stream.seed += same_stream.calls % 2 == 0  # a new stream every second part only
        return values + noise.astype(np.int64)

    same_stream.seed, same_stream.calls = 0, 0
    monkeypatch.setattr(_noise, "_laplace_i64", same_stream)
    assert audited(twins).refutes(EPSILON)


def test_catches_bounds_taken_from_the_data(monkeypatch):
    """The number of rows in a bin jumps when one row moves the edges of all bins."""

    class Careless(HistogramSketcher):
        def _open(self, X):
            self.bounds = (float(X.min()), float(X.max()) + 1e-6)
            super()._open(X)

    X = np.linspace(0.1, 0.4, 21)[:, None]
    neighbour = np.vstack([X, [[1.0]]])
    for kind, caught in ((HistogramSketcher, False), (Careless, True)):
        sketcher = kind(bounds=(0, 1), n_bins=2, epsilon=EPSILON, delta=0.0, random_state=0)
        result = audit_epsilon(
            release_of(sketcher), X, neighbour, n_trials=3000, confidence=SURE, random_state=0
        )
        assert result.refutes(EPSILON) is caught


def test_catches_an_exact_count(monkeypatch):
    """The number of rows, published without noise beside a noisy sketch."""
    exact = _base.BaseSketcher.release

    def leaky(self):
        n_rows = self._n_rows
        exact(self)
        object.__setattr__(self.sketch_, "n_released", float(n_rows))
        return self

    monkeypatch.setattr(_base.BaseSketcher, "release", leaky)
    assert audited(budgeted("rff", DELTA)).refutes(EPSILON)


def test_neighbours_reach_the_sensitivity():
    for name in ("rff", "race", "histogram"):
        for adjacency in ("add_remove", "replace_one"):
            for delta in (0.0, DELTA):
                sketcher = budgeted(name, delta, adjacency)
                X, neighbour = worst_case_neighbours(sketcher)
                phi = sketcher.fit(X).feature_map_
                moved = (phi.grid_sums(neighbour) - phi.grid_sums(X)).astype(float)
                l1, l2 = phi.sensitivity(adjacency)
                order, bound = (1, l1) if delta == 0 else (2, l2)
                reached = np.linalg.norm(moved, ord=order)
                assert 0.98 * bound < reached <= bound


def test_neighbours_need_a_fixed_map():
    with pytest.raises(ValueError, match="random_state"):
        worst_case_neighbours(RFFSketcher(2))
