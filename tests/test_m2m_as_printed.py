"""`paper_parameters` of M2M: the paper's numbers, its algorithm, and a true claim."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refused
from sklearn.neighbors import KNeighborsClassifier

from skdpsumm import AnswerWarning, M2MClassifier, M2MEstimator, M2MRegressor, Points
from skdpsumm.features._feature_maps import GRID

N_ROWS, N_COLUMNS = 2_000, 3
SKETCHES = ("rff", "race", "hist")
# Section 2.3: m' sqrt(2), R and the number of histograms.
L1 = {"rff": 100 * 2**0.5, "race": 80, "hist": N_COLUMNS}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).random((N_ROWS, N_COLUMNS))


def estimator(sketch, epsilon=2.0, **budget):
    parameters = M2MEstimator.paper_parameters(sketch, epsilon=epsilon, **budget)
    return M2MEstimator((0, 1), **parameters | {"n_synthetic": 2_000}, random_state=0)


@pytest.mark.parametrize(("kind", "n_bins"), [(M2MEstimator, 100), (M2MClassifier, 20)])
def test_the_numbers_are_those_of_section_4(kind, n_bins):
    made = {}
    for sketch in SKETCHES:
        parameters = kind.paper_parameters(sketch, epsilon=0.3)
        assert (parameters["inference"].prior, parameters["n_synthetic"]) == ("uniform", 10**5)
        made[sketch] = kind((0, 1), **parameters).preview_sketcher(2, [0, 1])
        assert (made[sketch].epsilon, made[sketch].delta) == (0.3, 0)
        assert made[sketch].denominator == "budget"
    assert made["rff"].n_components == 200
    assert made["rff"].gamma == 1 / (2 * 1.0**2)  # sigma = 1
    race = made["race"]
    assert (race.n_repetitions, race.n_buckets, race.bandwidth) == (80, 80, 0.1)
    assert (made["hist"].n_bins, made["hist"].marginals) == (n_bins, 1)
    refused(r"\['rff', 'race', 'hist'\], got 'ruff'", kind.paper_parameters, "ruff")


def released(sketch, X, **changed):
    """Return what `fit` would release, without the regression."""
    return estimator(sketch, **changed).preview_sketcher(N_COLUMNS).fit(X).sketch_


@pytest.mark.parametrize("sketch", SKETCHES)
def test_the_noise_is_printed_and_the_claim_is_true(X, sketch):
    epsilon = 2.0
    found = released(sketch, X, epsilon=epsilon)
    features, count = found.noise_std[0], found.n_noise_std
    assert_allclose(features, 2**0.5 * L1[sketch] / (0.98 * epsilon), rtol=1e-4)
    assert_allclose(count, 2**0.5 / (0.02 * epsilon), rtol=1e-4)
    # A new row moves the sums by phi(x) and the count by one; Laplace noise of scale b makes of
    # a step s a log ratio of densities of |s| / b.
    rows = [found.feature_map.grid_sums(row[None]) for row in X[:500]]
    step = max(np.abs(row).sum() for row in rows) / GRID
    loss = 2**0.5 * (step / features + 1 / count)
    claimed = found.privacy.epsilon(0)
    assert claimed == epsilon
    assert loss <= claimed * (1 + 1e-9)
    if sketch != "rff":  # whose pairs do not all reach sqrt(2) in one row
        assert_allclose(loss, claimed, rtol=1e-6)


def test_for_replaced_rows_the_printed_noise_is_half_of_what_is_added(X):
    printed = released("hist", X)
    doubled = released("hist", X, adjacency="replace_one")
    old, new = (printed.feature_map.grid_sums(np.full((1, N_COLUMNS), v)) for v in (0.001, 0.999))
    step = 2**0.5 * np.abs(new - old).sum() / GRID
    # Footnote 1: the same scale, with the whole budget for the numerator.
    assert_allclose(step / (printed.noise_std[0] * 0.98), 2 * 2.0, rtol=1e-4)
    assert_allclose(step / doubled.noise_std[0], doubled.privacy.epsilon(0), rtol=1e-4)
    assert (doubled.privacy.adjacency, doubled.privacy.epsilon(0)) == ("replace_one", 2.0)


@pytest.mark.parametrize("sketch", ["rff", "hist"])
def test_answers_are_those_of_algorithm_1(X, sketch):
    m2m = estimator(sketch, epsilon=1e3).fit(X)
    points, found = m2m._regression.points, m2m.sketch_
    P = m2m.sketcher_.transform(points)
    z = found.sums / found.n_samples
    penalty = 2 * L1[sketch] ** 2 / ((0.98 * 1e3) ** 2 * found.n_samples)  # equation (5)
    gram = P.T @ P / len(P) + penalty * np.eye(len(z))
    a = np.linalg.solve(gram, P.T @ points**2 / len(P))
    assert_allclose(m2m.moment(2).value, a.T @ z, rtol=1e-3)


def test_weights_are_those_of_section_3_5(X):
    y = (X[:, 0] > 0.5).astype(int)
    parameters = M2MClassifier.paper_parameters("rff", epsilon=50.0) | {"n_synthetic": 2_000}
    model = M2MClassifier((0, 1), **parameters, classes=[0, 1], random_state=0).fit(X, y)
    found = model.sketch_
    points, weights = model._synthetic_rows(found, model._table, np.random.RandomState(0))
    P = model.sketcher_.transform(points)
    penalty = 2 * L1["rff"] ** 2 / ((0.98 * 50.0) ** 2 * found.n_samples)
    S = np.linalg.inv(P.T @ P / len(P) + penalty * np.eye(P.shape[1]))
    expected = P @ S @ (found.sums / found.n_samples) / len(P)
    assert_allclose(weights, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    assert weights.min() < 0
    # Equation (5) shrinks too much to learn.
    model.set_params(inference__regularization="theory").fit(X, y)
    assert model.score(X, y) > 0.8
    with pytest.warns(AnswerWarning, match="drowns"):  # the mean is 0, and with it each weight
        model.set_params(release__epsilon=0.001).fit(X, y)
    assert model.predict(X).shape == y.shape


def test_negative_weights_need_an_estimator_that_takes_them(X, unpaid):
    parameters = M2MClassifier.paper_parameters(ledger=unpaid)
    model = M2MClassifier((0, 1), **parameters, estimator=KNeighborsClassifier())
    refused("sample_weight", model.fit, X, X[:, 0] > 0.5)
    refused("weights", M2MRegressor((0, 1), inference=Points(weights="printed")).fit, X, X[:, 0])
