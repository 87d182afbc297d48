"""The span of public points: features of one row alone, no longer than phi, and the best in it."""

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import FunctionTransformer

from skdpsumm import PrivacyLedger, TDDLClassifier, TDILClassifier
from skdpsumm.learners import FunctionalMechanism
from skdpsumm.learners.erm._kernel_space import KernelSpace, SpanSpace
from skdpsumm.learners.erm._problem import FeatureSpace, fitted_alone

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (300, 3))
Z = RNG.uniform(0, 1, (37, 3))  # no multiple of what instructions take together
CODES = np.where(np.sin(6 * X[:, 0]) + X[:, 1] > 1, 1.0, -1.0)[:, None]
SPACES = {"rbf": ("rbf", {"gamma": 2.0}), "poly": ("poly", {"gamma": 1, "coef0": 1, "degree": 3})}
each_kernel = pytest.mark.parametrize("name", SPACES)


def kernel_space(name):
    return KernelSpace(*SPACES[name], 1.0)


@each_kernel
def test_no_row_moves_a_bit_of_another(name):
    space = SpanSpace(kernel_space(name), Z)
    together = space.features(X)
    alone = np.vstack([space.features(row[None]) for row in X])
    assert np.array_equal(together, alone)
    hostile = np.array([[1e308, 0, 1], [1e-300, 1e-9, 0], [0, 0, 0], [1e5, 1e5, 1e5]])
    for rows in (np.vstack([hostile, X]), np.vstack([X[:1], hostile, X[1:]]), X[::-1]):
        found = space.features(np.ascontiguousarray(rows))
        kept = [i for i, row in enumerate(rows) if (row == X).all(axis=1).any()]
        places = [int(np.flatnonzero((rows[i] == X).all(axis=1))[0]) for i in kept]
        assert np.array_equal(found[kept], together[places])


@each_kernel
def test_features_are_coordinates_of_the_projection(name):
    kernel = kernel_space(name)
    space = SpanSpace(kernel, Z)
    values = space.features(np.vstack([X, Z]))
    lengths = np.linalg.norm(values, axis=1)
    assert (lengths <= kernel.radius * (1 + 1e-12)).all()
    assert (lengths**2 <= np.diag(kernel.gram(X, X)).max() * (1 + 1e-9)).all()
    on_points = values[len(X) :] @ values[len(X) :].T
    assert np.allclose(on_points, kernel.gram(Z, Z), atol=1e-5 * kernel.radius**2)
    weights = RNG.standard_normal((space.n_features, 1))
    found = space.of_weights(weights)
    assert np.array_equal(found.points, Z)
    # Coefficients of an expansion are as large as the smallest direction is short.
    assert np.allclose(found.scores(X), values[: len(X)] @ weights, atol=1e-5 * kernel.radius)


def test_rows_longer_than_the_radius_are_clipped():
    kernel = kernel_space("rbf")
    space = SpanSpace(kernel, Z)
    space._product = type(space._product)(3 * space._matrix)
    lengths = np.linalg.norm(space.features(X), axis=1)
    assert (lengths <= kernel.radius * (1 + 1e-12)).all()
    assert lengths.max() > 0.999


def test_leading_directions_hold_most_of_the_trace_and_no_more():
    kernel = kernel_space("rbf")
    whole, leading = SpanSpace(kernel, Z), SpanSpace(kernel, Z, leading=True)
    assert leading.n_features < whole.n_features == len(Z)
    held = (leading.features(Z) ** 2).sum() / (whole.features(Z) ** 2).sum()
    assert 0.9 <= held < 0.99


def test_explicit_features_have_a_span_as_well():
    mapped = fitted_alone(RBFSampler(n_components=50, random_state=0), 3, 0)
    whole = FeatureSpace(mapped, 3, 1.0)
    span = SpanSpace(whole, Z, leading=True)
    together = span.features(X)
    assert np.array_equal(together, np.vstack([span.features(row[None]) for row in X]))
    held = (span.features(Z) ** 2).sum() / (whole.features(Z) ** 2).sum()
    assert 0.9 <= held < 1
    weights = RNG.standard_normal((span.n_features, 1))
    found = span.of_weights(weights)
    assert found.points is None
    assert found.coefficients.shape == (50, 1)
    assert np.allclose(found.scores(X), together @ weights, atol=1e-12)


def fails_on_long_rows(rows):
    if (rows > 0.99).any():
        raise RuntimeError("a private value")
    return rows


def test_a_map_that_fails_on_a_row_is_refused_before_the_charge_of_pure_noise():
    ledger = PrivacyLedger(epsilon=1.0, delta=0.0)
    model = TDDLClassifier(kernel=FunctionTransformer(fails_on_long_rows), delta=0, ledger=ledger)
    y = CODES[:, 0].astype(int)
    with pytest.raises(ValueError, match="fails on a row of the table"):
        model.fit(np.vstack([X[:-1], [[0.1, 1.0, 0.1]]]), y, X_public=Z * 0.9)
    assert not ledger.entries()
    assert model.fit(X * 0.9, y, X_public=Z * 0.9).predictor_.points is None
    assert ledger.spent.epsilon == pytest.approx(1.0)


def test_public_points_without_a_span_are_refused_before_the_charge_of_pure_noise():
    ledger = PrivacyLedger(epsilon=1.0, delta=0.0)
    model = TDDLClassifier(kernel="linear", norm_bound=1.0, delta=0, ledger=ledger)
    with pytest.raises(ValueError, match="some points that are not 0"):
        model.fit(X, CODES[:, 0].astype(int), X_public=np.zeros((4, 3)))
    assert not ledger.entries()


@pytest.mark.parametrize("make", [TDDLClassifier, TDILClassifier])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_what_learners_release_is_an_expansion_in_the_landmarks(make, delta):
    marks = FunctionalMechanism(n_landmarks=20)
    model = make(kernel="rbf", schema=(0, 1), mechanism=marks, delta=delta, epsilon=50.0)
    y = CODES[:, 0] > 0
    model.fit(X, y)
    assert model.predictor_.points.shape[0] == 20
    assert model.privacy_.epsilon(1e-6) <= 50.0 * (1 + 1e-9)
    assert model.score(X, y) > 0.7
