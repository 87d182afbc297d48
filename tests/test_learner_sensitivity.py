"""How far one row can move what the solver returns: bounds of numbers, reached and never passed.

Learners of labels, and neighbours that are drawn, are in `test_kit`.
"""

import numpy as np
import pytest
from scipy.linalg import null_space
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer
from sklearn.random_projection import GaussianRandomProjection

from skdpsumm import PINPRegressor, TDILClassifier, TDILRegressor
from skdpsumm.learners import EpsilonInsensitive, Huber

ADJACENCIES = ("add_remove", "replace_one")
LAMBDA = 50.0


def moved(model, data, neighbour):
    """Return the distance of the two minimisers, in the norm of the space."""
    one, other = (minimizer(model, *table) for table in (data, neighbour))
    if one.points is None:
        return np.linalg.norm(one.coefficients - other.coefficients)
    points = np.vstack([one.points, other.points])
    weights = np.vstack([one.coefficients, -other.coefficients])
    squared = np.sum(weights * (one.space.gram(points, points) @ weights))
    return np.sqrt(max(squared, 0.0))


def minimizer(model, X, y):
    """Return what the solver found; nothing is released with epsilon = inf."""
    fitted = model.set_params(epsilon=np.inf, regularization=LAMBDA).fit(X, y)
    if hasattr(fitted, "predictor_"):
        return fitted.predictor_
    return fitted.answers_.hypothesis()


def neighbours(X, y, row, label, adjacency):
    """Return two data sets: with the row, and without it or with its opposite."""
    with_row = np.vstack([X, row]), np.append(y, label)
    if adjacency == "add_remove":
        return with_row, (X, y)
    return with_row, (np.vstack([X, -row]), np.append(y, label))


def balanced(n=10):
    """Return rows that cancel, of both labels."""
    X = np.tile([[0.0, 1.0]], (n, 1))
    return X, np.arange(n) % 2


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # A residual of 1 in a direction of its own: Lambda w + (w - 1) = 0, or the linear part.
        (Huber(1.0), 1 / (1 + LAMBDA)),
        (Huber(0.3), 0.3 / LAMBDA),
        (EpsilonInsensitive(), 1 / LAMBDA),
        (EpsilonInsensitive(0.0, 1e-6), 1 / LAMBDA),
        (EpsilonInsensitive(0.9, 0.01), 1 / LAMBDA),
        # The parabola: the slope of w is 1 / 2 + (1 - w - 0.9) / 0.4.
        (EpsilonInsensitive(0.9, 0.2), 0.75 / (LAMBDA + 2.5)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", [TDILRegressor, PINPRegressor])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_regressors_reach_the_bound(adjacency, kind, loss, expected):
    model = kind(kernel="linear", y_bounds=(-1, 1), adjacency=adjacency, loss=loss)
    X, _ = balanced()
    pair = neighbours(X, np.zeros(len(X)), np.array([[1.0, 0.0]]), 1.0, adjacency)
    distance = moved(model, *pair)
    factor = 1 if adjacency == "add_remove" else 2
    assert distance == pytest.approx(factor * expected, rel=5e-3)
    assert distance <= model.sensitivity_


def test_labels_beyond_their_bounds_count_as_at_them():
    model = PINPRegressor(gamma=1.0, y_bounds=(0, 1))
    X, y = balanced()
    far, near = (neighbours(X, y, np.array([[1.0, 0.0]]), v, "add_remove")[0] for v in (1e9, 1.0))
    assert moved(model, far, near) < 1e-3 * model.sensitivity_


def test_a_map_with_jumps_stays_below():
    """Rows on all hyperplanes of a hash: BLAS put each on another side once there was one more."""
    d, n_bits = 784, 8
    projection = GaussianRandomProjection(n_bits, random_state=0).fit(np.zeros((1, d)))
    plane = null_space(projection.components_)
    hashed = FrozenEstimator(make_pipeline(projection, Binarizer()))
    row = plane @ np.random.default_rng(0).normal(size=plane.shape[1])
    model = TDILClassifier(kernel=hashed, classes=[0, 1])
    for n in (101, 151):
        X, y = np.tile(row, (n, 1)), np.ones(n, dtype=int)
        assert moved(model, (X, y), (X[1:], y[1:])) <= model.sensitivity_
