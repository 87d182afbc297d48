"""Large sketches: systems that are solved without their matrix, and weights without Newton's."""

import numpy as np
import pytest
from simulated import simulate
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from skdpsumm import HistogramSketcher, M2MEstimator, RACESketcher, RFFSketcher, SketchUnion
from skdpsumm.moments.inferring import _regression
from skdpsumm.moments.inferring._regression import FeatureBlocks, IterativeSolver, MomentRegression
from skdpsumm.schema._schema import TableSchema

pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning")

SKETCHERS = {
    "pairs": HistogramSketcher(n_bins=8, marginals=2),
    "triples": HistogramSketcher(n_bins=4, marginals=3),
    "fourier": RFFSketcher(n_components=60),
    "race": RACESketcher(n_repetitions=10, n_buckets=20, bandwidth=0.5),
    "union": SketchUnion([HistogramSketcher(n_bins=6, marginals=2), RFFSketcher(n_components=30)]),
}


def released(name, epsilon):
    rng = np.random.default_rng(0)
    X = rng.beta(2, 4, size=(4000, 4))
    X[:, 1] = (X[:, 0] + X[:, 1]) / 2
    seed = 1 if np.isfinite(epsilon) else None
    sketcher = SKETCHERS[name]
    sketcher.set_params(schema=(0, 1), epsilon=epsilon, random_state=0)
    return simulate(sketcher, X, seed=seed).sketch_


def both(sketch, monkeypatch, n_points=3000, **parameters):
    """Return the regression solved by its matrix, and without."""
    points = TableSchema([(0, 1)] * 4).sample(n_points, check_random_state(0))
    given = {"regularization": "theory", "center": True} | parameters
    found = []
    for largest in (10**9, 0):
        monkeypatch.setattr(_regression, "LARGEST_DENSE", largest)
        found.append(MomentRegression(sketch, points, **given))
        assert isinstance(found[-1]._solve, IterativeSolver) is (largest == 0)
    return found


def outputs(points):
    cut = points[:, 0] > 0.4
    return np.column_stack([cut, points[:, 0] * points[:, 1], cut & (points[:, 2] > 0.3)]) * 1.0


@pytest.mark.statistical
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 10.0])
@pytest.mark.parametrize("name", SKETCHERS)
def test_dense_and_iterative_agree(name, epsilon, center, monkeypatch):
    dense, iterative = both(released(name, epsilon), monkeypatch, center=center)
    values = outputs(dense.points)
    errors = [m.sketch.linear_noise_std(m.coefficients(values)) for m in (dense, iterative)]
    close = 1e-6 * errors[0]
    assert np.all(np.abs((dense.weights - iterative.weights) @ values) < close)
    assert np.all(np.abs(errors[0] - errors[1]) < close)


def test_the_matrix_is_not_formed_above_the_threshold(monkeypatch):
    """And nothing above it is asked for the matrix of all features."""
    monkeypatch.setattr(_regression, "LARGEST_DENSE", 300)
    formed = []
    gram = FeatureBlocks.gram
    monkeypatch.setattr(
        FeatureBlocks, "gram", lambda self, *a: formed.append(self.n_features) or gram(self, *a)
    )
    sketch = released("pairs", 1.0)
    model = M2MEstimator.from_sketch(sketch, inference="points", n_synthetic=2000, random_state=0)
    assert np.all(model.mean().noise_std_error > 0)
    assert len(sketch.mean) > 300
    assert max(formed) < 100


# --- maximum entropy ------------------------------------------------------------------------


def test_what_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr("skdpsumm._linear_systems._MOST_CG_PRODUCTS", 2)
    with pytest.warns(ConvergenceWarning, match="fewer columns"):
        both(released("pairs", 10.0), monkeypatch)
