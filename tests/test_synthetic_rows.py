"""Synthetic rows as a table, and what an M2M estimator releases where no sketcher is given."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from refusals import refused
from releases import as_polars
from simulated import simulate
from sklearn.base import clone

from skdpsumm.moments import M2MClassifier, M2MEstimator, M2MRegressor, Points
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.schema import Categorical, Numeric
from skdpsumm.sketches import HistogramSketcher, RFFSketcher, SketchUnion

SCHEMA = {
    "age": Numeric(20, 60, step=1),
    "pay": Numeric(0, 100, missing=True),
    "job": Categorical(["baker", "clerk"], missing=True),
    "rooms": Categorical([1, 2, 3]),
}
PAIRS = HistogramSketcher(marginals=[["age", "pay"], ["age", "job"], ["rooms"]], n_bins=20)
UNION = SketchUnion([HistogramSketcher(n_bins=20), RFFSketcher(n_components=60)])
QUICK = {"n_synthetic": 4000, "random_state": 0}


def people(n=8000):
    """Return a table in which the old are paid better and are clerks."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 61, n)
    pay = np.where(rng.random(n) < 0.2, np.nan, (age + rng.uniform(0, 20, n)).clip(0, 100))
    job = np.where(rng.random(n) < age / 100, "clerk", "baker").astype(object)
    job[rng.random(n) < 0.1] = None
    return pd.DataFrame({"age": age, "pay": pay, "job": job, "rooms": rng.integers(1, 4, n)})


def fitted(sketcher=PAIRS, X=None, *, inference="auto", **options):
    sketcher = clone(sketcher).set_params(epsilon=5.0)
    own = {"schema": SCHEMA, "inference": inference} | QUICK | options
    return M2MEstimator(release=sketcher, **own).fit(people() if X is None else X)


@pytest.mark.parametrize(("sketcher", "inference"), [(PAIRS, "graphical"), (UNION, "points")])
def test_rows_are_of_the_frame_and_like_the_table(sketcher, inference):
    rows = people()
    found = fitted(sketcher, inference=inference).sample(5000, random_state=0)
    assert isinstance(found, pd.DataFrame)
    assert (list(found), len(found)) == (list(rows), 5000)
    assert (found["age"].dtype, found["rooms"].dtype.kind) == (np.int64, "i")
    assert found["age"].between(20, 60).all()
    assert {*found["job"].dropna(), *found["rooms"]} == {"baker", "clerk", 1, 2, 3}
    np.testing.assert_allclose(found[["pay", "job"]].isna().mean(), [0.2, 0.1], atol=0.05)
    assert abs(found["age"].mean() - rows["age"].mean()) < 1.5
    assert abs(found["pay"].mean() - rows["pay"].mean()) < 3
    if inference == "graphical":
        assert abs(found["age"].corr(found["pay"]) - rows["age"].corr(rows["pay"])) < 0.1


def test_rows_go_along_inside_the_cells_that_were_counted():
    rng, n_bins, n = np.random.default_rng(0), 5, 40_000
    x = rng.random(n)
    y, words = x + 0.1 * rng.normal(size=n), np.where(rng.random(n) < x, "yes", "no")
    rows = np.column_stack([x.astype(object), y.clip(0, 1), words])
    counted = HistogramSketcher(n_bins=n_bins, marginals=[[0, 1], [0, 2]], epsilon=np.inf)
    model = M2MEstimator([(0, 1), (0, 1), ["no", "yes"]], release=counted, inference="graphical")
    a, b, word = model.fit(rows).sample(n, random_state=0).T
    for k in range(n_bins):
        own = np.floor(a.astype(float) * n_bins) == k
        inside, other, yes = a[own].astype(float), b[own].astype(float), word[own] == "yes"
        assert np.corrcoef(inside, other)[0, 1] > 0.3  # the table has 0.45 to 0.5
        # From end to end a share grows by 0.2, so by half of it between the halves.
        upper = inside > (k + 0.5) / n_bins
        assert abs(yes[upper].mean() - yes[~upper].mean() - 0.1) < 0.05
        assert abs(upper.mean() - 0.5) < 0.01


def test_a_frame_of_polars_and_an_array_give_their_own_kind():
    table = as_polars(people())
    found = fitted(X=table, inference="graphical").sample(40, random_state=0)
    assert isinstance(found, pl.DataFrame)
    assert (found["age"].dtype, found["job"].dtype) == (pl.Int64, pl.String)
    assert found["pay"].null_count() + found["pay"].is_nan().sum() == found["pay"].null_count()
    numbered, known = HistogramSketcher(marginals=[[0, 1], [2], [3]], n_bins=8), [*SCHEMA.values()]
    array = fitted(numbered, people().to_numpy(object), schema=known, inference="graphical")
    assert array.sample(7).shape == (7, 4)
    numbers = M2MEstimator((0, 1), release=HistogramSketcher(n_bins=8), inference="graphical")
    assert numbers.fit(np.random.default_rng(0).random((500, 2))).sample(3).dtype == np.float64


@pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_rows_are_as_near_to_the_table_as_the_model_is(epsilon):
    rng = np.random.default_rng(5)
    latent = rng.standard_normal((20_000, 2)) @ rng.standard_normal((2, 10))
    codes = np.floor(latent + rng.standard_normal(latent.shape) + 3).clip(0, 5).astype(int)
    X = pd.DataFrame(codes, columns=[*"abcdefghij"])
    schema = dict.fromkeys(X, Categorical(range(6)))
    m2m = simulate(M2MEstimator(schema, epsilon=epsilon, random_state=0), X, seed=3)
    rows = m2m.sample(len(X), random_state=0).to_numpy()
    groups = [group for part, _ in m2m.sketch_.blocks() for group in part.groups]
    pairs = {group for group in groups if len(group) == 2}
    assert len(pairs) > 20

    def counts(codes, pair):
        return np.bincount(codes[:, pair] @ [6, 1], minlength=36)

    def off(counted):
        return np.mean([np.abs(counted(p) - counts(codes, p)).sum() for p in pairs])

    of_rows = off(lambda pair: counts(rows, pair))
    of_model = off(lambda pair: np.ravel(m2m.table([X.columns[j] for j in pair])))
    assert of_rows < 1.1 * of_model


# ---------------------------------------------------------------- how a release is read


@pytest.mark.parametrize("kind", [M2MEstimator, M2MClassifier, M2MRegressor])
def test_a_graphical_model_needs_histograms(kind, unpaid):
    own = {"y_bounds": (0, 1)} if kind is M2MRegressor else {}
    X = np.random.default_rng(0).random((30, 2))
    model = kind((0, 1), release=RFFSketcher(ledger=unpaid), inference="graphical", **own)
    refused("needs a histogram", model.fit, X, X[:, 0] > 0.5)


@pytest.mark.parametrize(
    ("kind", "points", "said"),
    [
        (M2MEstimator, {"weights": "printed"}, r"Points\(weights=...\) has no effect in M2ME"),
        (M2MRegressor, {"regularization": "paper"}, "has no effect in M2MRegressor"),
        (M2MClassifier, {"prior": "kde"}, "'prior' parameter of Points of M2MClassifier"),
    ],
)
def test_what_points_do_not_do_for_an_estimator_is_refused(kind, points, said, unpaid):
    own = {"y_bounds": (0, 1)} if kind is M2MRegressor else {}
    model = kind(schema=(0, 1), inference=Points(**points), ledger=unpaid, **own)
    refused(said, model.fit, np.eye(2), [0, 1])
    sketch = HistogramSketcher([(0, 1), (0, 1), [0, 1]]).fit(np.eye(3)[:, [0, 1, 1]]).sketch_
    refused(said, kind.from_sketch, sketch, inference=Points(**points))


# ---------------------------------------------------------------- the default sketcher


@pytest.mark.parametrize("kind", [M2MEstimator, M2MClassifier, M2MRegressor])
@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0.5},
        {"delta": 1e-6},
        {"adjacency": "replace_one"},
        {"max_rows_per_group": 2},
        {"ledger": PrivacyLedger(epsilon=1.0)},
    ],
    ids=lambda one: next(iter(one)),
)
def test_a_budget_beside_a_sketcher_says_where_to_give_it(kind, given):
    (name,) = given
    model = kind((0, 1), release=RFFSketcher(n_components=4), **given)
    told = rf"has {name}=.*give it there, release=RFFSketcher\({name}="
    with pytest.raises(ValueError, match=told):
        model.fit(np.zeros((3, 2)), np.arange(3))
    refused("beside release=", model.check_budget)
