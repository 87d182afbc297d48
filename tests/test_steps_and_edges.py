"""Columns on a grid, bins with edges of their own, and answers that say how good they are."""

import functools
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from answers import holds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from simulated import simulate
from sklearn.base import clone

from skdpsumm.features._feature_maps import HistogramMap
from skdpsumm.moments import AnswerWarning, M2MEstimator, Points
from skdpsumm.schema import Numeric, TableSchema
from skdpsumm.sketches import HistogramSketcher, RFFSketcher, SketchUnion

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:Leave column 'age' out"),
]
quick = settings(deadline=None, database=None, derandomize=True, max_examples=40)

AGE, GAIN = (17, 90), (0, 99_999)
RANGES = {"age": AGE, "gain": GAIN}
WHOLE = {"age": Numeric(*AGE, step=1), "gain": Numeric(*GAIN, step=1)}
GRIDDED = {**WHOLE, "gain": Numeric(*GAIN, step=1, edges=[0, 1, 5000, 20_000, 99_999])}


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    gain = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 30_000, n))
    return pd.DataFrame({"age": rng.integers(17, 91, n), "gain": gain})


# ------------------------------------------------------------------------------------- the grid


@quick
@given(st.integers(-5000, 5000), st.integers(0, 3), st.integers(1, 99), st.integers(2, 200))
def test_values_of_a_grid_are_the_decimals_that_people_write(first, places, step, n):
    unit = Decimal(1).scaleb(-places)
    written = [float((first + k * step) * unit) for k in range(n)]
    columns = TableSchema([Numeric(written[0], written[-1], step=float(step * unit))])
    assert columns.columns[0].n_values == n
    rng = np.random.default_rng(0)
    moved = np.array(written) + float(step * unit) * rng.uniform(-0.49, 0.49, n)
    assert columns.read(moved[:, None], 0).tolist() == written
    assert set(columns.sample(500, np.random.RandomState(0))[:, 0]) <= set(written)


# ------------------------------------------------------------------------------------- the bins


@pytest.mark.parametrize("n_bins", [1, 2, 7, 30, 73, 74, 1000])
def test_bins_hold_whole_values(n_bins):
    feature_map = HistogramMap.build(TableSchema([WHOLE["age"]]), n_bins, 1)
    ages = np.arange(17, 91.0)
    size = min(n_bins, 74)
    codes = feature_map.column_codes(ages[:, None], 0)
    assert codes.tolist() == [k * size // 74 for k in range(74)]
    edges = feature_map.edges(0)
    assert np.histogram(ages, edges)[0].tolist() == np.bincount(codes).tolist()
    assert np.all(edges % 1 == 0.5)
    assert (edges[0], edges[-1]) == (16.5, 90.5)
    for nudge in (-0.49, 0.49):  # to the closest value
        assert feature_map.column_codes(ages[:, None] + nudge, 0).tolist() == codes.tolist()


# ------------------------------------------------------------------------- merges and the file


# ----------------------------------------------------------------------------------- the answers


def answering(sketcher=None, X=None, **options):
    sketcher = HistogramSketcher(schema=GRIDDED, n_bins=74) if sketcher is None else clone(sketcher)
    options = {"n_synthetic": 20_000, "random_state": 0} | options
    sketcher.set_params(epsilon=options.pop("epsilon", np.inf))
    return M2MEstimator(release=sketcher, **options).fit(people() if X is None else X)


def test_whole_numbers_are_answered_exactly():
    X, model = people(), answering()
    assert float(model.mean()["age"]) == pytest.approx(X["age"].mean(), abs=1e-4)
    for year in (17, 40, 66, 89):
        older = model.count(lambda rows, year=year: rows["age"] > year)
        also = model.count(lambda rows, year=year: rows["age"] >= year + 1)
        assert float(older) == float(also)
        assert float(older) == pytest.approx((X["age"] > year).sum(), abs=1e-2)
    none = model.count(lambda rows: rows["gain"] == 0)
    assert float(none) == pytest.approx((X["gain"] == 0).sum(), abs=1e-2)
    levels = np.linspace(0.0101, 0.9901, 50)
    truth = np.quantile(X["age"], levels, method="inverted_cdf")
    assert np.asarray(model.quantile("age", levels)).tolist() == truth.tolist()
    assert model.quantile("gain", [0.1, 0.5])._value.tolist() == [0, 0]


@pytest.mark.parametrize("step", [None, 1])
@pytest.mark.parametrize("high", [100_000, 2_000_000, 10_000_000])
def test_quantiles_of_a_wide_range_are_where_the_rows_are(step, high):
    """512 steps of 10,000,000 are 20,000 wide: most quantiles of these incomes lie in the first."""
    rng = np.random.default_rng(1)
    incomes = np.where(rng.random(12_000) < 0.2, 0, rng.lognormal(9, 1, 12_000)).clip(0, 99_999)
    incomes, levels = incomes.round()[:, None], [0.25, 0.5, 0.75, 0.95]
    m2m = M2MEstimator([Numeric(0, high, step=step)], random_state=0)
    found = simulate(m2m, incomes).quantile(0, levels)
    truth = np.quantile(incomes, levels)
    np.testing.assert_allclose(np.asarray(found), truth, rtol=0.08)
    ends = found.interval(0.999)
    assert np.all((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert np.all(np.diff(ends, axis=1).ravel() < 0.9 * truth)


# -------------------------------------------------------------------------------- the error bars


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_any_data_among_the_points(seed):
    """Shrinkage makes a large bias; data as unlike the prior as can be must stay within."""
    rng = np.random.default_rng(seed)
    settings = {"inference": Points(prior="uniform", regularization=1e-2), "schema": (0, 1)}
    parts = [HistogramSketcher(n_bins=3), RFFSketcher(n_components=10, gamma=1.0)]
    sketcher = SketchUnion(parts, random_state=0)
    blank = answering(sketcher, rng.random((9, 2)), n_synthetic=500, **settings)
    points = blank._regression.points
    X = points[rng.choice(500, 800, p=softmax(rng.normal(size=2) * 9 @ points.T))]
    model = answering(sketcher, X, n_synthetic=500, **settings)
    assert np.array_equal(model._regression.points, points)
    cuts = np.linspace(0.05, 0.95, 10)
    count = model.count(lambda rows: rows[:, [0, 1]] > 0.4)
    cdf = model.cdf(0, cuts)
    for answer, truth in ((count, (X > 0.4).sum(axis=0)), (cdf, (X[:, [0]] <= cuts).mean(axis=0))):
        assert np.all(holds(answer, truth))
        assert np.abs(answer.value - truth).max() > 1e-3, "the bound is put to the test"


# ----------------------------------------------------------------------------------- the warnings


# A graphical model finds the shape inside bins, or has intervals that cover what it may be.
of_points = functools.partial(M2MEstimator, inference="points")


def told(work):
    """Return the texts of the answer warnings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        work()
    found = [w for w in caught if issubclass(w.category, AnswerWarning)]
    assert all(w.filename == __file__ for w in found), "they point to whoever asked"
    return [str(w.message) for w in found]


COARSE = HistogramSketcher(schema=RANGES)


WAVES = [HistogramSketcher(n_bins=1), RFFSketcher(n_components=60)]
FINE = {
    "edges": HistogramSketcher(schema=GRIDDED),
    "many bins": HistogramSketcher(schema=RANGES, n_bins=2000),
    "noise": clone(COARSE).set_params(epsilon=1.0),
    "waves": SketchUnion(WAVES, schema=RANGES, epsilon=np.inf),
    "no histogram": RFFSketcher(RANGES, n_components=60),
}


@pytest.mark.simulated(1)
@pytest.mark.parametrize("sketcher", FINE.values(), ids=FINE)
def test_what_is_fine_or_lost_in_noise_is_not_told(sketcher):
    X = people()
    for make in (M2MEstimator, of_points):
        model = make(release=sketcher, n_synthetic=5000, random_state=0)
        assert told(lambda model=model: model.fit(X)) == []


def test_more_features_than_a_regression_takes_cost_nothing(unpaid):
    many = HistogramSketcher(schema=RANGES, n_bins=150, marginals=2, ledger=unpaid)
    assert M2MEstimator(release=many).preview_sketcher(2)
    with pytest.raises(ValueError, match=r"inference='graphical'.* 16,384 features.* 22,500"):
        of_points(release=many).fit(people())


def test_questions_that_hold_nowhere_or_everywhere_are_told():
    X = people().assign(sex=np.where(np.arange(3000) % 2, "F", "M"))
    model = answering(HistogramSketcher(schema={**GRIDDED, "sex": ["F", "M"]}), X)
    for where, question in {
        "nowhere": lambda rows: rows["sex"] == "W",
        "everywhere": lambda rows: rows["age"] < 1000,
        r"nowhere .* \(outputs \[1\]\)": lambda rows: rows["age"][:, None] > [20, 99],
    }.items():
        for ask in (model.count, model.estimate):
            with pytest.warns(AnswerWarning, match=f"spelling of categories.*{where}"):
                ask(question)
    with pytest.warns(AnswerWarning, match=r"range \(17, 90\)"):
        model.cdf("age", [16, 40])
    with warnings.catch_warnings(action="error"):
        model.count(lambda rows: rows["sex"] == "F")
        model.estimate(lambda rows: np.full(len(rows), 2.0))  # no condition
        model.cdf("age", [17, 40, 90])
