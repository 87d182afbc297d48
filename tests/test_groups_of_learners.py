"""Learners that protect groups: shares of rows, which rows stay, defaults, prices and refusals.

A group that comes or goes has k rows at most, or rows whose shares sum to 1. What is so of all fits
is in `test_groups_of_fits`, and how far a group moves a release in `test_kit`.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression

from skdpsumm import (
    PINPClassifier,
    PINPRegressor,
    PrivacyLedger,
    TDILClassifier,
    TDILRegressor,
)
from skdpsumm.learners.erm import _problem
from skdpsumm.learners.erm._problem import equal_shares
from skdpsumm.learners.mechanisms._base import LearnerMechanism

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning")

ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
LIMITS = pytest.mark.parametrize("limit", [1, 3, "average"])
LAMBDA = 50.0


# ------------------------------------------------------------------------------- how far w moves


def minimizer(model, X, y, groups):
    """Return what the solver found; nothing is released with epsilon = inf."""
    fitted = clone(model).set_params(epsilon=np.inf, regularization=LAMBDA)
    fitted.fit(X, y, groups=groups)
    model.sensitivity_ = fitted.sensitivity_
    if hasattr(fitted, "predictor_"):
        return fitted.predictor_
    return fitted.answers_.hypothesis()


def moved(model, *tables):
    """Return the distance of the two minimisers, in the norm of the space."""
    one, other = (minimizer(model, *table) for table in tables)
    if one.points is None:
        return np.linalg.norm(one.coefficients - other.coefficients)
    points = np.vstack([one.points, other.points])
    weights = np.vstack([one.coefficients, -other.coefficients])
    return math.sqrt(max(np.vdot(weights, one.space.gram(points, points) @ weights), 0.0))


# ------------------------------------------------------------------------------- shares


def test_shares_sum_to_no_more_than_1():
    sizes = np.arange(1, 3000)
    shares = equal_shares(sizes)
    assert shares.shape == (len(sizes), 1)
    for m, share in zip(sizes.tolist(), shares[:, 0].tolist(), strict=True):
        assert 1 - Fraction(1, 2**51) < m * Fraction(share) <= 1
        assert share == 1 or share <= 0.5  # so that multiplying loses nothing: `_newton`
    assert equal_shares(np.array([2**24]))[0, 0] == 2.0**-24


@pytest.mark.parametrize(
    "model",
    [
        TDILClassifier(loss="logistic"),
        TDILClassifier(loss="hinge", classes=[0, 1, 2]),
        TDILClassifier(kernel=RBFSampler(n_components=50), random_state=0),
        TDILRegressor(y_bounds=(0, 2)),
        PINPClassifier(gamma=1.0, loss="hinge"),
        PINPClassifier(gamma=1.0, classes=[0, 1, 2]),
        PINPRegressor(gamma=1.0, y_bounds=(0, 2)),
    ],
    ids=lambda model: f"{type(model).__name__}",
)
def test_a_group_of_equal_rows_counts_as_one(model):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    y = rng.integers(2 if getattr(model, "classes", None) is None else 3, size=30)
    model = clone(model).set_params(max_rows_per_group="average")
    copies = np.repeat(np.arange(30), rng.integers(1, 6, size=30))
    apart = moved(model, (X, y, np.arange(30)), (X[copies], y[copies], copies))
    assert apart < 2.1e-3 * model.sensitivity_


@pytest.mark.parametrize("kind", [TDILClassifier, PINPClassifier])
def test_average_is_a_weighted_fit(kind):
    """scikit-learn's, whose rows have weights of 1 / m."""
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-0.5, 0.5, (300, 3)), rng.integers(2, size=300)
    groups = rng.integers(60, size=300) ** 2 // 60
    model = kind(kernel="linear", loss="logistic", epsilon=np.inf, regularization=2.0)
    scores = model.set_params(max_rows_per_group="average").fit(X, y, groups=groups)
    reference = LogisticRegression(C=1 / 2.0, fit_intercept=False, tol=1e-12, max_iter=1000)
    reference.fit(X, y, sample_weight=1 / np.bincount(groups)[groups])
    found, expected = scores.decision_function(X), reference.decision_function(X)
    assert np.abs(found - expected).max() <= model.sensitivity_ * 1e-3
    plain = clone(model).set_params(max_rows_per_group=None).fit(X, y)
    assert np.abs(plain.decision_function(X) - expected).max() > 0.1


def test_groups_of_one_row_are_rows():
    """Bit for bit, but for the name of the unit."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 2)), rng.integers(2, size=50)
    for kind in (TDILClassifier, PINPClassifier):
        model = kind(gamma=1.0, epsilon=np.inf, mechanism="functional")
        plain = model.fit(X, y).decision_function(X)
        for limit in (1, 5, "average"):
            grouped = clone(model).set_params(max_rows_per_group=limit)
            grouped.fit(X, y, groups=np.arange(50)[::-1])
            if limit == 5:  # a larger Lambda would be the default
                assert grouped.regularization_ == model.regularization_  # but not without noise
            np.testing.assert_array_equal(grouped.decision_function(X), plain)


# ------------------------------------------------------------------------------- which rows stay


def rows_that_stay(model, X, y, groups, noise_seed=None):
    problem = model._pose(noise_seed, X, y, None, groups)[0]
    return {tuple(row) for row in problem.X.tolist()}


def test_other_groups_do_not_matter_for_which_rows_stay():
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    groups = np.array([f"person {k}" for k in np.arange(40) // 8])
    model = TDILClassifier(max_rows_per_group=3)
    stay = rows_that_stay(model, X, y, groups, 1)
    assert len(stay) == 15
    order = np.random.default_rng(0).permutation(5)
    for n in range(1, 6):
        blocks = [np.arange(8 * k, 8 * k + 8) for k in order[:n]]
        for some in (np.concatenate(blocks), np.ravel(blocks, order="F")):
            here = rows_that_stay(model, X[some], y[some], groups[some], 1)
            assert here == stay & {(float(row),) for row in some}
    assert rows_that_stay(model, X, y, groups, 2) != stay


def test_labels_and_rows_stay_together():
    X, groups = np.arange(60.0)[:, None], np.arange(60) // 6
    y = X[:, 0] * 3 + 1
    model = TDILRegressor(y_bounds=(0, 200), max_rows_per_group=2)
    problem = model._pose(None, X, y, None, groups)[0]
    np.testing.assert_allclose(problem.codes[:, 0] * 100 + 100, problem.X[:, 0] * 3 + 1)
    assert len(problem.X) == 20


def test_coins_are_secret_and_fresh():
    X, groups = np.arange(400.0)[:, None], np.arange(400) // 8
    draws = [rows_that_stay(TDILClassifier(max_rows_per_group=1), X, X[:, 0] % 2, groups)] * 2
    draws[1] = rows_that_stay(TDILClassifier(max_rows_per_group=1), X, X[:, 0] % 2, groups)
    assert draws[0] != draws[1]
    quiet = TDILClassifier(max_rows_per_group=1, epsilon=np.inf)
    assert rows_that_stay(quiet, X, X[:, 0] % 2, groups) == rows_that_stay(
        quiet, X, X[:, 0] % 2, groups
    )


# ------------------------------------------------------------------------------- claims and prices


@ADJACENCIES
def test_default_lambda_grows_with_k(adjacency):
    X, y, groups = np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 4
    found = {}
    for limit in (None, 1, 5, "average"):
        model = TDILClassifier(
            max_rows_per_group=limit, adjacency=adjacency, mechanism="functional"
        )
        model.fit(X, y, **({} if limit is None else {"groups": groups}))
        found[limit] = model.regularization_, model.sensitivity_
    assert found[None] == found[1] == found["average"]
    assert found[5][0] == pytest.approx(5 * found[1][0])
    assert found[5][1] == pytest.approx(found[1][1], rel=3e-3)


# ------------------------------------------------------------------------------- refusals


class ForRows(LearnerMechanism):
    """One that nobody has proved for groups."""

    learners = ("TDIL",)

    def plan(self, space, terms, public):
        raise AssertionError("asked for a plan")

    def default_regularization(self, space, terms, public, *, charged):
        return 1.0


ForRows.name = "for rows alone"  # set here, it is not known by that name in other tests


@LIMITS
@pytest.mark.parametrize("mechanism", ["objective", ForRows()], ids=["objective", "for rows"])
def test_mechanisms_for_rows_alone_are_refused_before_the_charge(mechanism, limit):
    ledger = PrivacyLedger(epsilon=10, delta=1e-4, unit="group")
    model = TDILClassifier(mechanism=mechanism, max_rows_per_group=limit, ledger=ledger)
    X, y, groups = np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 4
    calls = (
        lambda: model.fit(X, y, groups=groups),
        model.check_budget,
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"single rows.*'exponential', 'functional'"):
            call()
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")


def test_only_rows_that_stay_count_for_the_cap(monkeypatch):
    monkeypatch.setattr(_problem, "MAX_ROWS", 10)
    monkeypatch.setattr("skdpsumm.learners.erm._feature_space.FeatureSpace.max_rows", 10)
    X, y, groups = np.zeros((40, 1)), np.arange(40) % 2, np.arange(40) // 8
    TDILClassifier(max_rows_per_group=2).fit(X, y, groups=groups)
    for limit in (3, "average"):
        with pytest.raises(ValueError, match="at most 10 rows"):
            TDILClassifier(max_rows_per_group=limit).fit(X, y, groups=groups)
