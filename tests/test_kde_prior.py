"""Kernel densities as the prior of M2M: of public points, and of what the sketch itself tells."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde
from sklearn.base import clone

from skdpsumm import M2MEstimator, Numeric, Points, RFFSketcher, TableSchema, simulation
from skdpsumm.moments.inferring._points import draw_points

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

UNIT = TableSchema((0, 1)).for_table(2)
JOBS = ["cook", "smith", "tailor"]
MIXED = {"age": Numeric(0, 90, step=1, missing=True), "pay": (0, 1000), "job": JOBS}


def skewed(n=6000, seed=0):
    """Return rows that fill a small part of the unit square, and go together."""
    rng = np.random.default_rng(seed)
    first = rng.beta(2, 18, n)
    return np.column_stack([first, np.clip(first + rng.normal(0, 0.03, n), 0, 1)])


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(20, 60, n).astype(float)})
    frame["pay"] = np.where(rng.random(n) < 0.4, 0.0, 10 * frame["age"])
    frame["job"] = np.where(frame["age"] > 40, "smith", rng.choice(["cook", "smith"], n))
    frame.loc[rng.random(n) < 0.2, "age"] = np.nan
    return frame


def asked(X=None, sketcher=None, epsilon=np.inf, prior="kde", **parameters):
    sketcher = clone(sketcher or RFFSketcher(n_components=60))
    sketcher.set_params(epsilon=epsilon, random_state=0)
    own = {"schema": (0, 1), "n_synthetic": 4000, "random_state": 0}
    own["inference"] = Points(prior=prior)
    return M2MEstimator(release=sketcher, **own | parameters).fit(skewed() if X is None else X)


WIDE = RFFSketcher(n_components=200)


def drawn(public, schema=UNIT, size=40_000):
    return draw_points(public, None, schema, size, np.random.RandomState(0))


# ------------------------------------------------------------------------------ of public points


def test_points_lie_as_widely_as_those_of_scipy():
    """Each value is one of the points', or that of a normal kernel of scipy's width."""
    points = 0.5 + 0.05 * np.random.default_rng(0).normal(size=(100, 2)) @ [[1, 0.8], [0, 0.6]]
    theirs = gaussian_kde(points.T)
    found = drawn(points)[:36_000]  # those after them lie anywhere
    moved = ~np.isin(found, points)
    assert moved.mean() == pytest.approx(0.5, abs=0.01)
    both = found[moved.all(axis=1)]
    covariance = np.cov(points.T, bias=True) + theirs.covariance
    # Of 9,000 draws; our noise is of the sample covariance of all points, as theirs is.
    np.testing.assert_allclose(np.cov(both.T), covariance, rtol=0.06)
    assert np.allclose(both.mean(axis=0), points.mean(axis=0), atol=0.005)


def test_points_are_rows_of_the_table():
    schema, public = TableSchema(MIXED), people(200)
    found = pd.DataFrame(drawn(public, schema, 5000), columns=list(MIXED))
    ages = found["age"].dropna().astype(float)
    assert np.all((ages == np.rint(ages)) & (ages >= 0) & (ages <= 90))
    assert found["pay"].astype(float).between(0, 1000).all()
    assert set(found["job"]) == set(MIXED["job"])
    # A twentieth is drawn anew, a third of that from what no point has; so are those anywhere.
    assert (found["job"] == "tailor").mean() == pytest.approx((0.9 * 0.05 + 0.1) / 3, abs=0.01)
    assert found["age"].isna().mean() == pytest.approx(0.19, abs=0.05)
    assert (found["pay"] == 0).mean() > 0.15, "what many rows share stays"
    again = drawn(public.to_numpy(object), schema, 5000)
    assert found.equals(pd.DataFrame(again, columns=list(MIXED)))


def test_a_density_near_the_rows_is_better_than_a_uniform_one():
    X, public = skewed(), skewed(300, seed=1)
    cuts = np.linspace(0.05, 0.35, 7)
    truth = (X[:, [0]] <= cuts).mean(axis=0)
    errors = {
        name: np.abs(np.asarray(asked(X, WIDE, prior=prior).cdf(0, cuts)) - truth).mean()
        for name, prior in {"uniform": "uniform", "kde": "kde", "public": public}.items()
    }
    assert max(errors["kde"], errors["public"]) < errors["uniform"] / 2


# ------------------------------------------------------------------------------ of the sketch


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_a_drowned_sketch_is_answered_from_its_ranges(epsilon):
    """Where noise hides the number of rows, the mean may be anywhere; 10 of 20 intervals held."""
    held = []
    for seed in range(20):
        with simulation(seed):
            model = asked(sketcher=RFFSketcher(n_components=60), epsilon=epsilon)
        ends = model.mean().interval(0.95)
        held += [(ends[:, 0] <= 0.1) & (ends[:, 1] >= 0.101)]
    assert np.mean(held) >= 0.9


@pytest.mark.statistical
def test_intervals_cover_though_points_follow_the_noise():
    """The same rows, sixty releases: the points move with the noise, and so does the answer."""
    X = skewed(4000, seed=3)
    X = np.column_stack([X, 1 - X[:, 0] ** 2])

    def question(rows):
        return np.column_stack([rows[:, 0], rows[:, 0] * rows[:, 1], rows[:, 2] ** 2])

    truth, covered = question(X).mean(axis=0), []
    for seed in range(60):
        with simulation(seed):
            model = asked(X, RFFSketcher(n_components=80), 1.0, n_synthetic=2000, random_state=seed)
        ends = model.estimate(question).interval(0.95)
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (np.ones((1, 2)), "at least two rows of 2 columns"),
        (np.ones((5, 3)), "describes 2 columns, and the table has 3"),
        (np.full((5, 2), np.nan), "array of public points"),
        ("normal", "'prior' parameter of Points"),
    ],
)
def test_an_unusable_density_costs_nothing(prior, said, unpaid):
    sketcher = RFFSketcher(n_components=10, ledger=unpaid)
    with pytest.raises(ValueError, match=said):
        M2MEstimator((0, 1), release=sketcher, inference=Points(prior=prior)).fit(skewed())
