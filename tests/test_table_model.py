"""The joint distribution that histograms of a sketch tell: cells, tables, rows, and errors."""

import numpy as np
import pandas as pd
import pytest
from simulated import simulate

from skdpsumm import Categorical, HistogramSketcher, M2MEstimator, Numeric, SketchUnion, TableSchema
from skdpsumm.moments.asking._statistics import AskedFunction
from skdpsumm.moments.inferring._table_model import TableModel
from skdpsumm.moments.plausible._plausible import PlausibleTables

pytestmark = [pytest.mark.simulated(0), pytest.mark.filterwarnings("ignore:Add a group of")]
SCHEMA = TableSchema(
    {
        "age": Numeric(0, 63, step=1),
        "pay": Numeric(0, 100),
        "job": Categorical(["a", "b", "c"], missing=True),
        "sex": Categorical(["F", "M"]),
    }
)


def people(n=20_000, seed=0):
    """Return a table in which age, pay and job go together."""
    rng = np.random.default_rng(seed)
    age = rng.binomial(63, 0.4, n)
    pay = np.clip(age + rng.gamma(2.0, 8.0, n), 0, 100)
    job = np.where(age > 25, rng.choice(["a", "b"], n), rng.choice(["b", "c"], n)).astype(object)
    job[rng.random(n) < 0.1] = None
    return pd.DataFrame({"age": age, "pay": pay, "job": job, "sex": rng.choice(["F", "M"], n)})


def model_of(marginals, *, n_bins=16, epsilon=np.inf, seed=0, **more):
    groups = {"marginals": marginals, "n_bins": n_bins}
    sketcher = HistogramSketcher(SCHEMA, epsilon=epsilon, **groups, **more)
    sketch = simulate(sketcher, people(), seed=seed).sketch_
    return TableModel(sketch, SCHEMA)


def test_without_noise_tables_are_those_of_the_rows():
    rows = people()
    model = model_of([["age", "pay"], ["age", "job"], ["sex"]])
    expected = pd.crosstab(rows["age"] // 4, rows["job"].fillna("none"), normalize="all")
    expected = expected.reindex(range(16), fill_value=0.0)
    found = model.table([0, 2])
    assert np.abs(found - expected[["a", "b", "c", "none"]].to_numpy()).max() < 1e-4
    assert np.abs(model.table([2, 0]) - found.T).max() < 1e-15
    # What was not counted together follows from what was: pay and job depend by age alone.
    pay, job = rows["pay"] >= 37.5, rows["job"] == "c"
    told = model.table([1, 2])[6:, 2].sum()
    assert abs(told - np.mean(pay & job)) < 0.01
    assert abs(np.mean(pay) * np.mean(job) - np.mean(pay & job)) > 0.02


def drawn(model, n=50_000):
    return model.sample(n, np.random.RandomState(0))


def test_fine_histograms_tell_where_rows_lie_in_coarse_cells():
    rows = people()
    rows["pay"] = np.where(np.arange(len(rows)) % 2 == 0, 30.0, rows["pay"])
    fine = HistogramSketcher(marginals=[["pay"]], n_bins=128)
    coarse = HistogramSketcher(marginals=[["age", "pay"], ["job"], ["sex"]], n_bins=4)
    union = SketchUnion([fine, coarse], schema=SCHEMA, epsilon=1.0).fit(rows)
    model = TableModel(union.sketch_, SCHEMA)
    assert model.sizes == (4, 4, 4, 2)
    pay = drawn(model)[:, 1].astype(float)
    assert abs(np.mean((pay > 29.5) & (pay < 31)) - 0.5) < 0.03
    assert abs(pay.mean() - rows["pay"].mean()) < 0.3
    # Four equal bins alone put the spike anywhere in its bin.
    sketcher = HistogramSketcher(SCHEMA, marginals=[["pay"]], n_bins=4)
    alone = TableModel(sketcher.fit(rows).sketch_, SCHEMA)
    assert abs(drawn(alone)[:, 1].astype(float).mean() - rows["pay"].mean()) > 1


# ---------------------------------------------------------- functions of whole arrays of rows


WHERE = {
    "in the top of the last cell": lambda r: r[:, 0] > 0.9995,
    "at the bottom of the first": lambda r: r[:, 0] < 0.0005,
    "its very end": lambda r: r[:, 0] >= 1.0,
    "inside a cell": lambda r: (r[:, 0] > 0.41) & (r[:, 0] < 0.42),
    "in two corners": lambda r: (r[:, 0] > 0.9995) & (r[:, 1] > 0.9995),
    "next to two edges": lambda r: (r[:, 0] >= 0.2501) & (r[:, 0] < 0.5) & (r[:, 1] < 0.2501),
    "one whole number": lambda r: (r[:, 2] == 17) & (r[:, 1] > 0.999),
    "its words": lambda r: np.where(r[:, 0] > 0.5, r[:, 2] == 39, r[:, 1] > 0.7),
}
DEPENDS = {"in two corners": (0, 1), "next to two edges": (0, 1), "its words": (0, 1, 2)}
DEPENDS |= {"one whole number": (1, 2)}


@pytest.fixture(scope="module")
def answers_of_arrays():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((2000, 2)), rng.integers(0, 40, 2000)])
    schema = [(0, 1), (0, 1), Numeric(0, 39, step=1)]
    sketcher = HistogramSketcher(schema=schema, marginals=2, n_bins=4, epsilon=np.inf)
    return PlausibleTables(TableModel(sketcher.fit(X).sketch_, sketcher.feature_map_.schema))


@pytest.mark.parametrize("where", WHERE)
def test_what_a_function_of_whole_arrays_depends_on_is_found(answers_of_arrays, where):
    """Thresholds inside cells and at ends of ranges, too, where no cell's middle tells."""
    of_array = lambda rows: WHERE[where](np.asarray(rows)) * 1.0  # noqa: E731
    columns = DEPENDS.get(where, (0,))
    assert AskedFunction(of_array, answers_of_arrays).columns == columns
    two = lambda rows: np.column_stack([of_array(rows), np.ones(len(rows))])  # noqa: E731
    parts = AskedFunction(two, answers_of_arrays).parts
    assert [group for which, group in parts if 0 in which] == [columns]


def test_without_noise_what_was_counted_together_is_exact():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 8, 5000)
    X = pd.DataFrame({"a": a, "b": np.minimum(a + rng.integers(0, 3, 5000), 9)})
    X["c"] = np.where(rng.random(5000) < a / 10, "x", "y")
    schema = {"a": Numeric(0, 9, step=1), "b": Numeric(0, 9, step=1), "c": ["x", "y"]}
    model = M2MEstimator(schema, epsilon=np.inf).fit(X)
    ends = [0, 2, 5, 8, 9]
    counted = np.histogram2d(X["a"], X["b"], bins=[[0, 2, 5, 8, 10]] * 2)[0]
    table = np.asarray(model.table(["a", "b"], bins={"a": ends, "b": ends}))
    np.testing.assert_allclose(table.reshape(4, 4), counted, atol=1e-8)
    product = float(model.estimate(lambda rows: rows["a"] * rows["b"]))
    assert product == pytest.approx((X["a"] * X["b"]).mean(), rel=1e-12)
    both = model.count(lambda rows: (rows["a"] > 3) & (rows["c"] == "x"))
    assert float(both) == pytest.approx(((X["a"] > 3) & (X["c"] == "x")).sum(), rel=1e-12)
