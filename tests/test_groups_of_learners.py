"""Learners that protect groups: shares of rows, which rows stay, defaults, prices and refusals.

A group that comes or goes has k rows at most, or rows whose shares sum to 1. What is so of all fits
is in `test_groups_of_fits`, and how far a group moves a release in `test_kit`.
"""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skdpsumm import PINPClassifier, PrivacyLedger, TDILClassifier, TDILRegressor
from skdpsumm.learners.erm._problem import equal_shares
from skdpsumm.learners.mechanisms._base import LearnerMechanism

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning")

ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
LIMITS = pytest.mark.parametrize("limit", [1, 3, "average"])


# ------------------------------------------------------------------------------- shares


def test_shares_sum_to_no_more_than_1():
    sizes = np.arange(1, 3000)
    shares = equal_shares(sizes)
    assert shares.shape == (len(sizes), 1)
    for m, share in zip(sizes.tolist(), shares[:, 0].tolist(), strict=True):
        assert 1 - Fraction(1, 2**51) < m * Fraction(share) <= 1
        assert share == 1 or share <= 0.5  # so that multiplying loses nothing: `_newton`
    assert equal_shares(np.array([2**24]))[0, 0] == 2.0**-24


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


# ------------------------------------------------------------------------------- which rows stay


def test_labels_and_rows_stay_together():
    X, groups = np.arange(60.0)[:, None], np.arange(60) // 6
    y = X[:, 0] * 3 + 1
    model = TDILRegressor(y_bounds=(0, 200), max_rows_per_group=2)
    problem = model._pose(None, X, y, None, groups)[0]
    np.testing.assert_allclose(problem.codes[:, 0] * 100 + 100, problem.X[:, 0] * 3 + 1)
    assert len(problem.X) == 20


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
    calls = (lambda: model.fit(X, y, groups=groups), model.check_budget)
    for call in calls:
        with pytest.raises(ValueError, match=r"single rows.*'exponential'.*'functional'"):
            call()
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")
