"""Learners that protect groups: how far a group can move a minimiser, noise, claims, refusals.

A group that comes or goes has k rows at most, or rows whose shares sum to 1. Worst cases are groups
of equal rows, which reach the bounds; planted bugs pass them, and audits find those.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from releases import SHARP, WEIGHTS, Released, coefficients, linear, rbf, seeded_noise
from scipy.stats import gamma, kstest, laplace, norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpsumm import (
    PINPClassifier,
    PINPRegressor,
    PrivacyLedger,
    TDDLClassifier,
    TDDLRegressor,
    TDILClassifier,
    TDILRegressor,
    audit_epsilon,
)
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.learners import (
    EpsilonInsensitive,
    ExponentialMechanism,
    Huber,
    NoisyThreshold,
    SparseVector,
)
from skdpsumm.learners.erm import _problem
from skdpsumm.learners.erm._problem import Terms, equal_shares
from skdpsumm.learners.mechanisms import _answers_at_points
from skdpsumm.learners.mechanisms._base import LearnerMechanism
from skdpsumm.privacy import gdp_mu
from skdpsumm.privacy._mechanisms import zcdp_rho
from skdpsumm.privacy._threshold import threshold_ratio

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning")

ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
LIMITS = pytest.mark.parametrize("limit", [1, 3, "average"])
LAMBDA = 50.0


def rows_of(limit):
    """Return how many rows' sensitivity a group has."""
    return 1 if limit == "average" else limit


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


def worlds(row, size, adjacency, label=1, other_size=None):
    """Return a table with a group of equal rows, and one without it or with its opposite."""
    X, y = np.tile([[0.0, 1.0]], (10, 1)), np.arange(10) % 2
    groups = np.arange(10) // 2  # each of both labels: they cancel

    def with_group(row, label, size):
        rows, labels = np.repeat(row[None], size, axis=0), np.repeat(label, size)
        return np.vstack([X, rows]), np.append(y, labels), np.append(groups, np.full(size, 99))

    if adjacency == "add_remove":
        return with_group(row, label, size), (X, y, groups)
    return with_group(row, label, size), with_group(-row, label, other_size or size)


SPACES = {
    "linear": TDILClassifier(),
    "long rows": TDILClassifier(norm_bound=2.0),
    "rbf": PINPClassifier(gamma=1.0),
    "callable": PINPClassifier(kernel=linear),
}


@ADJACENCIES
@LIMITS
@pytest.mark.parametrize("loss", ["huberized_hinge", "hinge"])
@pytest.mark.parametrize("space", SPACES)
def test_worst_groups_reach_the_bound(space, loss, limit, adjacency):
    """While margins stay below the kink, each row adds code phi / Lambda, or its share of that."""
    model = clone(SPACES[space]).set_params(loss=loss, adjacency=adjacency, classes=[0, 1])
    model.set_params(max_rows_per_group=limit)
    row = np.array([1.0, 0.0]) * model.norm_bound
    for size in (rows_of(limit), 7):  # of 7 rows the limit stays
        distance = moved(model, *worlds(row, size, adjacency))
        assert distance <= model.sensitivity_
        if adjacency == "add_remove" or space in ("linear", "long rows", "callable"):
            assert distance > 0.94 * model.sensitivity_


@ADJACENCIES
def test_rows_of_a_group_add_up_to_k_of_them(adjacency):
    model = TDILClassifier(loss="hinge", classes=[0, 1], adjacency=adjacency, max_rows_per_group=4)
    distances = [
        moved(model, *worlds(np.array([1.0, 0.0]), size, adjacency)) for size in range(1, 7)
    ]
    times = 1 if adjacency == "add_remove" else 2
    expected = times * np.array([1, 2, 3, 4, 4, 4]) / LAMBDA
    np.testing.assert_allclose(distances, expected, rtol=3e-3)
    assert model.sensitivity_ == pytest.approx((4 * times + 2e-3) / LAMBDA)


@pytest.mark.statistical
@ADJACENCIES
@LIMITS
@pytest.mark.parametrize("loss", ["huberized_hinge", "logistic", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_random_groups_stay_below(loss, n_classes, limit, adjacency):
    rng = np.random.default_rng(0)
    largest = 0.0
    for trial in range(8):
        X = rng.normal(size=(40, 3)) * rng.choice([0.1, 1, 10])
        y, groups = rng.integers(n_classes, size=40), rng.integers(12, size=40)
        here = groups > 0
        # In its place another of other rows, or none.
        others = 0 if adjacency == "add_remove" else rng.integers(1, 9)
        table = (
            np.vstack([X[here], 5 * rng.normal(size=(others, 3))]),
            np.append(y[here], rng.integers(n_classes, size=others)),
            np.append(groups[here], np.zeros(others, int)),
        )
        kind = PINPClassifier if trial % 2 else TDILClassifier
        model = kind(gamma=1.0, loss=loss, adjacency=adjacency, classes=np.arange(n_classes))
        model.set_params(max_rows_per_group=limit)
        largest = max(largest, moved(model, (X, y, groups), table) / model.sensitivity_)
    assert 0.05 < largest <= 1


@ADJACENCIES
@LIMITS
@pytest.mark.parametrize("loss", [Huber(0.3), Huber(1.0), EpsilonInsensitive()], ids=repr)
def test_regressors_reach_the_bound(loss, limit, adjacency):
    model = TDILRegressor(y_bounds=(-1, 1), adjacency=adjacency, loss=loss)
    model.set_params(max_rows_per_group=limit)
    X, y, groups = np.zeros((4, 2)), np.zeros(4), np.arange(4)

    def table(label, size=5):
        rows = np.repeat([[1.0, 0.0]], size, axis=0)
        return np.vstack([X, rows]), np.append(y, np.full(size, label)), [*groups, *[9] * size]

    other = (X, y, groups) if adjacency == "add_remove" else table(-1.0)
    distance = moved(model, table(1.0), other)
    k = rows_of(limit)
    # Residuals of 1 in a direction of its own: the linear part, or Lambda w + k (w - 1) = 0.
    expected = k * loss.lipschitz / LAMBDA
    expected = min(expected, k / (k + LAMBDA)) if isinstance(loss, Huber) else expected
    assert distance == pytest.approx(expected * (1 if adjacency == "add_remove" else 2), rel=5e-3)
    assert distance <= model.sensitivity_


def test_a_bound_for_rows_alone_is_passed(monkeypatch):
    """Planted bugs: terms that know nothing of k, shares of 1, and groups cut in blocks."""
    row = np.array([1.0, 0.0])
    model = TDILClassifier(loss="hinge", classes=[0, 1], max_rows_per_group=3)
    tables = worlds(row, 3, "add_remove")
    assert moved(model, *tables) <= model.sensitivity_
    with monkeypatch.context() as patch:
        patch.setattr(Terms, "n_moved", 1)
        assert moved(model, *tables) > 2 * model.sensitivity_
    with monkeypatch.context() as patch:
        kept = lambda groups, k, key: np.arange(len(groups.codes))  # noqa: E731
        patch.setattr("skdpsumm.schema._groups.Groups.kept", kept)
        assert moved(model, *worlds(row, 9, "add_remove")) > 2 * model.sensitivity_
    model.set_params(max_rows_per_group="average")
    assert moved(model, *tables) <= model.sensitivity_
    monkeypatch.setattr("skdpsumm.learners._base.equal_shares", lambda m: np.ones((len(m), 1)))
    assert moved(model, *tables) > 2 * model.sensitivity_


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
        PINPRegressor(gamma=1.0, y_bounds=(0, 2), kernel="laplacian"),
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


def rows_that_stay(model, X, y, groups):
    problem = model._pose(X, y, None, groups)[0]
    return {tuple(row) for row in problem.X.tolist()}


def test_other_groups_do_not_matter_for_which_rows_stay():
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    groups = np.array([f"person {k}" for k in np.arange(40) // 8])
    model = TDILClassifier(max_rows_per_group=3, noise_seed=1)
    stay = rows_that_stay(model, X, y, groups)
    assert len(stay) == 15
    order = np.random.default_rng(0).permutation(5)
    for n in range(1, 6):
        blocks = [np.arange(8 * k, 8 * k + 8) for k in order[:n]]
        for some in (np.concatenate(blocks), np.ravel(blocks, order="F")):
            here = rows_that_stay(model, X[some], y[some], groups[some])
            assert here == stay & {(float(row),) for row in some}
    assert rows_that_stay(clone(model).set_params(noise_seed=2), X, y, groups) != stay


def test_labels_and_rows_stay_together():
    X, groups = np.arange(60.0)[:, None], np.arange(60) // 6
    y = X[:, 0] * 3 + 1
    model = TDILRegressor(y_bounds=(0, 200), max_rows_per_group=2)
    problem = model._pose(X, y, None, groups)[0]
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


def test_precomputed_kernels_leave_rows_out_as_others_do():
    rng = np.random.default_rng(4)
    X, y, Z = rng.normal(size=(30, 2)), np.arange(30) % 2, rng.normal(size=(5, 2))
    groups = np.arange(30) // 5
    for limit in (2, "average"):
        settings = {"epsilon": np.inf, "max_rows_per_group": limit}
        given = TDDLClassifier(kernel="precomputed", **settings)
        across = np.hstack([rbf(Z, X), rbf(Z, Z)])
        given.fit(rbf(X, X), y, X_public=across, groups=groups)
        plain = TDDLClassifier(kernel=rbf, **settings).fit(X, y, X_public=Z, groups=groups)
        np.testing.assert_allclose(
            given.decision_function(rbf(X, Z)), plain.decision_function(X), atol=1e-6
        )
        assert given.n_features_in_ == 5


# ------------------------------------------------------------------------------- claims and prices


@ADJACENCIES
@LIMITS
def test_guarantees_are_about_groups(limit, adjacency):
    X, y, groups = np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 4
    model = TDILClassifier(max_rows_per_group=limit, adjacency=adjacency, classes=[0, 1])
    privacy = model.fit(X, y, groups=groups).privacy_
    assert privacy.unit == "one group"
    assert f"max_rows_per_group={limit!r}" in privacy.given
    assert "number of rows" not in privacy.given
    assert ("the number of groups" in privacy.given) == (adjacency == "replace_one")
    rows = clone(model).set_params(max_rows_per_group=None).fit(X, y).privacy_
    assert rows.unit == "one row"
    assert privacy.epsilon(1e-6) == pytest.approx(rows.epsilon(1e-6))
    with pytest.raises(ValueError, match="unit"):
        privacy + rows


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


@pytest.mark.parametrize(
    ("model", "public"),
    [
        (TDILClassifier(), {}),
        (TDDLClassifier(gamma=1.0), {"X_public": np.linspace(0, 1, 20)[:, None]}),
        (PINPClassifier(gamma=1.0, mechanism="svt"), {}),
    ],
    ids=["TDIL", "TDDL", "PINP"],
)
def test_prices_are_planned_without_groups(model, public):
    X, y, groups = np.linspace(0, 1, 8)[:, None], np.arange(8) % 2, np.arange(8) // 4
    for limit in (2, "average"):
        model = clone(model).set_params(max_rows_per_group=limit)
        planned = model.planned_cost(X, y, **public)
        assert model.least_cost(X, y, **public) is None
        fitted = model.fit(X, y, groups=groups, **public)
        assert fitted.privacy_.mechanism == planned


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
        lambda: model.planned_cost(X, y),
        model.check_budget,
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"single rows.*'exponential', 'functional'"):
            call()
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")


ALL = [
    TDILClassifier(),
    TDILRegressor(y_bounds=(0, 1)),
    PINPClassifier(gamma=1.0),
    PINPRegressor(gamma=1.0, y_bounds=(0, 1)),
    TDDLClassifier(schema=(-1, 1)),
    TDDLRegressor(schema=(-1, 1), y_bounds=(0, 1)),
]


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_a_claim_about_groups_is_never_silently_one_about_rows(model):
    X, y, groups = np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 4
    ledger = PrivacyLedger(epsilon=10, delta=1e-4, unit="group")
    model = clone(model).set_params(ledger=ledger)
    with pytest.raises(ValueError, match="max_rows_per_group=None"):
        model.fit(X, y, groups=groups)
    for limit in (2, "average"):
        model.set_params(max_rows_per_group=limit)
        with pytest.raises(ValueError, match="enable_metadata_routing"):
            model.fit(X, y)
        for wrong in (groups[:-1], [*groups[:-1], np.nan], np.column_stack([groups, groups])):
            with pytest.raises(ValueError, match="groups"):
                model.fit(X, y, groups=wrong)
    for limit in (0, 1.5, "mean"):
        with pytest.raises(ValueError, match="max_rows_per_group"):
            model.set_params(max_rows_per_group=limit).fit(X, y, groups=groups)
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")


def test_ledgers_take_claims_of_their_unit():
    X, y, groups = np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 4
    rows, persons = (PrivacyLedger(epsilon=9, delta=1e-4, unit=unit) for unit in ("row", "group"))
    grouped = TDILClassifier(max_rows_per_group=2)
    grouped.set_params(ledger=persons).fit(X, y, groups=groups)
    for mechanism in ("functional", "objective"):
        TDILClassifier(ledger=rows, mechanism=mechanism).fit(X, y)
        with pytest.raises(ValueError, match="unit='group'"):
            TDILClassifier(ledger=persons, mechanism=mechanism).fit(X, y)
    with pytest.raises(ValueError, match="unit='row'"):
        grouped.set_params(ledger=rows).fit(X, y, groups=groups)
    assert [len(ledger.entries()) for ledger in (rows, persons)] == [2, 1]


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_groups_are_routed_unasked(model):
    X, y, groups = np.zeros((8, 1)), np.arange(8) % 2, np.arange(8) // 4
    model = clone(model).set_params(max_rows_per_group=2)
    more = {"X_public": X[:2]} if isinstance(model, TDDLClassifier | TDDLRegressor) else {}
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(FunctionTransformer(), model).fit(X, y, groups=groups, **more)
        assert pipe[-1].privacy_.unit == "one group"
        with pytest.raises(ValueError, match="got none"):
            pipe.fit(X, y)


def test_only_rows_that_stay_count_for_the_cap(monkeypatch):
    monkeypatch.setattr(_problem, "MAX_ROWS", 10)
    monkeypatch.setattr("skdpsumm.learners.erm._feature_space.FeatureSpace.max_rows", 10)
    X, y, groups = np.zeros((40, 1)), np.arange(40) % 2, np.arange(40) // 8
    TDILClassifier(max_rows_per_group=2).fit(X, y, groups=groups)
    for limit in (3, "average"):
        with pytest.raises(ValueError, match="at most 10 rows"):
            TDILClassifier(max_rows_per_group=limit).fit(X, y, groups=groups)


# ------------------------------------------------------------------------------- noise

ARMS = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False), (1.3, False)])
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
PURE = {"epsilon": 1.0, "delta": 0.0}
# A claim about groups, and how many rows' noise it takes.
CLAIMS = pytest.mark.parametrize(
    ("limit", "adjacency", "rows"),
    [(3, "add_remove", 3), (2, "replace_one", 4), ("average", "replace_one", 2)],
    ids=["three rows", "two rows for two", "average for average"],
)
Z = np.random.default_rng(2).uniform(-1, 1, (5, 2))


@pytest.fixture
def noise(monkeypatch):
    """Return a function that puts seeded sources, off by a factor, in place of all noise."""
    return seeded_noise(monkeypatch)


def has_law(sample, law):
    """Whether mean, variance (each within six standard errors) and shape are those of a law."""
    sample = np.ravel(sample)
    mean, variance, kurtosis = law.stats("mvk")
    squares = (sample - mean) ** 2
    return bool(
        abs(sample.mean() - mean) < 6 * math.sqrt(variance / sample.size)
        and abs(squares.mean() - variance) < 6 * variance * math.sqrt((kurtosis + 2) / sample.size)
        and kstest(sample, law.cdf).pvalue > 1e-9
    )


def released(model, limit, adjacency, n_labels=2, n_columns=2, **public):
    """Return a release of groups of one to four rows, with Lambda = 7."""
    rng = np.random.default_rng(1)
    X, groups = rng.normal(size=(12, n_columns)), np.repeat(np.arange(5), [1, 4, 2, 4, 1])
    model = clone(model).set_params(max_rows_per_group=limit, adjacency=adjacency)
    model.set_params(regularization=7.0)
    return Released(model, X, np.arange(12) % n_labels, groups=groups, **public)


def delta_w(rows, lipschitz=1, kernel=False):
    """L R / Lambda for so many rows, with the solver's tolerance (twice, with a kernel)."""
    return lipschitz / 7.0 * (rows + (4e-3 if kernel else 2e-3))


statistical = pytest.mark.statistical


@statistical
@ARMS
@CLAIMS
def test_noise_on_weights(factor, accepted, limit, adjacency, rows, noise):
    noise(factor)
    release = released(
        TDILClassifier(mechanism="functional", **GAUSSIAN), limit, adjacency, n_columns=60
    )
    sample = [release().predictor_.coefficients - release.exact.coefficients for _ in range(100)]
    assert has_law(sample, norm(0, delta_w(rows) / gdp_mu(1.0, 1e-6))) == accepted


@statistical
@ARMS
@CLAIMS
def test_pure_noise_on_weights(factor, accepted, limit, adjacency, rows, noise):
    noise(factor)
    release = released(TDILClassifier(loss="logistic", **PURE), limit, adjacency, 3)
    drawn = [release().predictor_.coefficients - release.exact.coefficients for _ in range(1000)]
    length = np.linalg.norm(np.reshape(drawn, (1000, 6)), axis=1)
    assert has_law(length, gamma(6, scale=delta_w(rows, math.sqrt(2)))) == accepted


def whitened(errors):
    """Return errors at Z, shape (trials, T, q), in coordinates where K_ZZ is the identity."""
    factor = np.linalg.cholesky(rbf(Z, Z))
    return np.linalg.solve(factor, np.moveaxis(errors, 1, 0).reshape(len(Z), -1)).T


@statistical
@ARMS
@CLAIMS
@pytest.mark.parametrize("kind", [TDDLClassifier, PINPClassifier])
def test_noise_on_functions(factor, accepted, limit, adjacency, rows, kind, noise):
    """Of a function in the span of public points, and of a path."""
    noise(factor)
    public = {"X_public": Z} if kind is TDDLClassifier else {}
    release = released(kind(kernel=rbf, **GAUSSIAN), limit, adjacency, 3, **public)
    exact = release.exact.scores(Z)
    drawn = np.array([release()._scores(Z) - exact for _ in range(200)])
    std = delta_w(rows, math.sqrt(2)) / gdp_mu(1.0, 1e-6)
    assert has_law(whitened(drawn), norm(0, std)) == accepted


def fitted_answers(monkeypatch):
    """Return a list that collects the noisy answers that least squares get."""
    seen, fit = [], _answers_at_points.shrunk_least_squares

    def collect(gram, answers, variance):
        seen.append(answers)
        return fit(gram, answers, variance)

    monkeypatch.setattr(_answers_at_points, "shrunk_least_squares", collect)
    return seen


@statistical
@ARMS
@CLAIMS
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["zcdp", "pure"])
def test_noise_on_answers_at_public_points(
    factor, accepted, limit, adjacency, rows, budget, noise, monkeypatch
):
    noise(factor)
    seen = fitted_answers(monkeypatch)
    model = TDDLClassifier(kernel=rbf, mechanism="laplace", **budget)
    release = released(model, limit, adjacency, 3, X_public=Z)
    for _ in range(200):
        release()
    per_unit = math.sqrt(15) if budget is PURE else 1 / math.sqrt(2 * zcdp_rho(1.0, 1e-6))
    norm_of_kernel = math.sqrt(np.linalg.eigvalsh(rbf(Z, Z))[-1])
    scale = delta_w(rows, math.sqrt(2), kernel=True) * norm_of_kernel * per_unit
    errors = np.array(seen) - release.exact.scores(Z)
    assert has_law(errors, laplace(0, scale)) == accepted


@statistical
@ARMS
@CLAIMS
@pytest.mark.parametrize("mechanism", [SparseVector, NoisyThreshold])
def test_noise_on_fresh_answers(factor, accepted, limit, adjacency, rows, mechanism, noise):
    noise(factor)
    model = PINPClassifier(kernel=rbf, mechanism=mechanism(n_updates=3), **GAUSSIAN)
    release = released(model, limit, adjacency, 3)
    unit = delta_w(rows, math.sqrt(2), kernel=True)
    rho, log = zcdp_rho(1.0, 1e-6), math.log(2 * 1000 / 0.05)
    if mechanism is SparseVector:
        scale = unit / math.sqrt(2 * 0.2 * rho / 3)
        sigma = 4 * unit / math.sqrt(2 * 0.8 * rho / 3) * log
    else:
        scale = unit / threshold_ratio(1.0, 1e-6, 3, 3)
        sigma = 4 * scale * log
    assert release.plan.sigma == pytest.approx(sigma, rel=1e-5)
    release.plan.sigma = -1e3 if mechanism is SparseVector else 0.0  # all queries are above it
    exact = release.exact.scores(Z[:1])
    asked = [release().query(Z[:1]) for _ in range(700)]
    assert all(answer.fresh.all() for answer in asked)
    assert has_law([answer.scores - exact for answer in asked], laplace(0, scale)) == accepted


@statistical
@ARMS
@CLAIMS
def test_noise_on_tests_of_svt(factor, accepted, limit, adjacency, rows, noise):
    noise(factor)
    plan = released(PINPClassifier(kernel=rbf, mechanism="svt", **PURE), limit, adjacency).plan
    thresholds = []
    for _ in range(4000):
        plan.start_epoch()
        thresholds.append(plan._threshold * plan.grid - plan.sigma)
    law = laplace(0, 2 * delta_w(rows, kernel=True) / (0.8 / 5))
    assert has_law(thresholds, law) == accepted


CANDIDATES = np.array([[0.6, -0.4], [0.3, 0.2], [-0.3, 0.4], [0.1, 0.0]])


@statistical
@ARMS
@CLAIMS
def test_noise_of_the_exponential_mechanism(
    factor, accepted, limit, adjacency, rows, noise, monkeypatch
):
    """Of measurements; and points are chosen with weights exp(e_s |f(z)| / (2 Delta))."""
    noise(factor)
    seen = fitted_answers(monkeypatch)
    mechanism = ExponentialMechanism(n_rounds=1, candidates=CANDIDATES)
    budget = {**(PURE if limit == 2 else GAUSSIAN), "epsilon": 12.0}
    model = TDILClassifier(mechanism=mechanism, classes=[0, 1], **budget)
    model.set_params(max_rows_per_group=limit, adjacency=adjacency, regularization=7.0)
    X, groups = np.repeat([[0.6, -0.4]], 24, axis=0), np.arange(24) // 2
    release = Released(model, X, np.ones(24, int), groups=groups)
    chosen = np.array([release().predictor_.points[0] for _ in range(3000)])
    errors = np.array(seen)[:, 0] - release.exact.scores(chosen)
    unit = delta_w(rows)
    if budget["delta"] == 0:
        e_s, law = 6.0, laplace(0, unit / 6.0)
    else:
        part = zcdp_rho(**budget) / 2
        e_s, law = math.sqrt(8 * part), norm(0, unit / math.sqrt(2 * part))
    assert has_law(errors, law) == accepted
    weights = np.exp(e_s * np.abs(release.exact.scores(CANDIDATES)[:, 0]) / (2 * unit))
    expected = weights[0] / weights.sum()
    found = (chosen == CANDIDATES[0]).all(axis=1).mean()
    assert (abs(found - expected) < 6 * math.sqrt(expected * (1 - expected) / 3000)) == accepted


@statistical
@ARMS
def test_choice_in_the_ball(factor, accepted, monkeypatch):
    """The concentration that a point of the ball is drawn with."""
    asked = []
    monkeypatch.setattr(
        _answers_at_points, "sample_ball", lambda v, kappa, rng: asked.append(kappa) or v
    )
    release = released(TDILClassifier(mechanism="exponential", **PURE), 3, "add_remove")
    release()
    first = np.linalg.norm(release.exact.coefficients)
    expected = 1.0 / 20 * first / (2 * delta_w(3)) / factor
    assert (asked[0] == pytest.approx(expected, rel=0.01)) == accepted


# ------------------------------------------------------------------------------- audits


@LIMITS
@pytest.mark.parametrize("kind", [TDILClassifier, PINPClassifier])
def test_worst_case_neighbours_reach_the_bound(kind, limit):
    model = kind(gamma=1.0, loss="hinge", max_rows_per_group=limit, random_state=0)
    one, other = ((w["X"], w["y"], w["groups"]) for w in worst_case_neighbours(model))
    distance = moved(model, one, other)
    assert 0.94 * model.sensitivity_ < distance <= model.sensitivity_


def grouped_worlds(model, limit):
    """Return neighbours by the worst rows: one has a group more, of equal rows, or its opposite."""
    of_rows = clone(model).set_params(max_rows_per_group=None)
    (X, y), _ = worst_case_neighbours(of_rows, n_samples=2)
    size = 4 if limit == "average" else limit

    def with_group(label):
        return (
            np.vstack([X, np.repeat(X[:1], size, axis=0)]),
            np.append(y, np.full(size, label)),
            np.append(np.arange(len(y)), np.full(size, 99)),
        )

    if model.adjacency == "replace_one":
        return with_group(0), with_group(1)
    return (X, y, np.arange(len(y))), with_group(1)


def audit(model, worlds):
    row = worlds[0][0][:1]
    public = {"X_public": row} if isinstance(model, TDDLClassifier) else {}
    releases = [Released(model, X, y, groups=groups, **public) for X, y, groups in worlds]
    return audit_epsilon(
        lambda release: coefficients(release(), row),
        *releases,
        delta=model.delta,
        n_trials=1500,
        confidence=1 - 1e-9,
        random_state=0,
    ).lower_bound


@statistical
@ADJACENCIES
@pytest.mark.parametrize("kind", [TDILClassifier, TDDLClassifier])
@pytest.mark.parametrize("limit", [4, "average"])
def test_audits_find_noise_of_rows(kind, limit, adjacency, noise, monkeypatch):
    """Where k is ignored, or all rows of a group count."""
    noise(1.0)
    model = kind(adjacency=adjacency, max_rows_per_group=limit, **WEIGHTS, **SHARP)
    if kind is TDDLClassifier:
        model.set_params(kernel=rbf)
    worlds = grouped_worlds(model, limit)
    assert audit(model, worlds) <= model.epsilon
    right = Terms.sensitivity
    monkeypatch.setattr(
        Terms, "sensitivity", property(lambda self: right.fget(replace(self, rows_of_unit=1)))
    )
    monkeypatch.setattr("skdpsumm.learners._base.equal_shares", lambda m: np.ones((len(m), 1)))
    assert audit(model, worlds) > model.epsilon
