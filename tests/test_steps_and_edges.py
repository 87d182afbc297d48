"""Columns on a grid, bins with edges of their own, and answers that say how good they are."""

import functools
import math
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from simulated import simulate
from sklearn.base import clone

from skdpsumm import (
    AnswerWarning,
    HistogramSketcher,
    M2MEstimator,
    Numeric,
    Points,
    PrivacyLedger,
    PrivateSketch,
    RACESketcher,
    RFFSketcher,
    SketchUnion,
    TableSchema,
)
from skdpsumm.features._feature_maps import GRID
from skdpsumm.features._histogram import HistogramMap

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::skdpsumm.moments.AnswerWarning"),
    pytest.mark.filterwarnings("ignore:Leave column 'age' out"),
]
quick = settings(deadline=None, database=None, derandomize=True, max_examples=40)

AGE, GAIN = (17, 90), (0, 99_999)
EDGES = [0, 1, 5000, 20_000, 99_999]
RANGES = {"age": AGE, "gain": GAIN}
WHOLE = {"age": Numeric(*AGE, step=1), "gain": Numeric(*GAIN, step=1)}
GRIDDED = {**WHOLE, "gain": Numeric(*GAIN, step=1, edges=EDGES)}


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    gain = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 30_000, n))
    return pd.DataFrame({"age": rng.integers(17, 91, n), "gain": gain})


def gridded(n_bins=30):
    """A map of three columns: ages, halves with edges of their own, and any number."""
    halves = Numeric(-2, 2, step=0.5, edges=[-2, -0.5, 0.25, 2])
    schema = TableSchema([Numeric(*AGE, step=1), halves, Numeric(edges=[0, 0.1, 7, 10])])
    return HistogramMap.build(schema, n_bins, [[0], [1, 2]])


# ------------------------------------------------------------------------------------- the grid


@quick
@given(st.integers(-5000, 5000), st.integers(0, 3), st.integers(1, 99), st.integers(2, 200))
def test_values_of_a_grid_are_the_decimals_that_people_write(first, places, step, n):
    unit = Decimal(1).scaleb(-places)
    written = [float((first + k * step) * unit) for k in range(n)]
    columns = TableSchema([Numeric(written[0], written[-1], step=float(step * unit))])
    assert columns.n_values(0) == n
    rng = np.random.default_rng(0)
    moved = np.array(written) + float(step * unit) * rng.uniform(-0.49, 0.49, n)
    assert columns.number(moved[:, None], 0).tolist() == written
    assert set(columns.sample(500, np.random.RandomState(0))[:, 0]) <= set(written)


@pytest.mark.parametrize("step", [0, -1.0, math.nan, math.inf, "1", [1], 7, 200, 1e-16])
def test_bad_steps_are_refused(step):
    words = {7: r"step=7 does not lead .* \(17.0, 90.0\)", 200: "does not lead from"}
    known = isinstance(step, int | float)
    message = (
        words.get(step, "finer than float64" if step == 1e-16 else "positive")
        if known
        else "positive"
    )
    with pytest.raises(ValueError, match=message):
        Numeric(*AGE, step=step)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([17], "at least 2 increasing"),
        ([17, 40, 40, 90], "at least 2 increasing"),
        ([17, math.nan, 90], "at least 2 increasing"),
        ("ab", "at least 2 increasing"),
        (3, "at least 2 increasing"),
        ([0, 90], r"begin and end at the range of the column, \(17.0, 90.0\)"),
        ([17, 40.2, 40.8, 90], "a bin without a value"),
    ],
)
def test_bad_edges_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        Numeric(*AGE, step=1, edges=edges)


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


def test_own_edges_are_those_of_numpy():
    X = np.random.default_rng(0).uniform(-3, 12, (5000, 3)).clip(0, 10)
    X[:5] = np.array([0, 0.1, 0.25, 7, 10])[:, None]
    for steps, edges in ((None, [0, 0.1, 7, 10]), (0.25, [0, 0.25, 7, 10])):
        plain, own = Numeric(0, 10, step=steps), Numeric(0, 10, step=steps, edges=edges)
        feature_map = HistogramMap.build(TableSchema([plain, own, plain]), 4, 1)
        values = X[:, 1] if steps is None else np.round(X[:, 1] * 4) / 4
        counts = np.bincount(feature_map.column_codes(X, 1), minlength=3)
        assert counts.tolist() == np.histogram(values, edges)[0].tolist()
        assert np.histogram(values, feature_map.edges(1))[0].tolist() == counts.tolist()
    assert feature_map.n_bins == (4, 3, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, object])
def test_a_row_adds_what_it_adds_whatever_the_others_are(dtype):
    rows = np.random.default_rng(0).uniform(-200, 200, (400, 3))
    rows[:9] = np.array([16.5, 17.5, 40.5, -0.5, 0.25, 0.1, 7, 1e30, -1e30])[:, None]
    X, feature_map = rows.astype(dtype), gridded()
    singles = [feature_map.grid_sums(X[[i]]) for i in range(len(X))]
    assert np.array_equal(feature_map.grid_sums(X), sum(singles))
    assert np.array_equal(feature_map.grid_sums(X[::-1]), sum(singles))
    assert np.array_equal(feature_map.grid_sums(X[:77]), sum(singles[:77]))


@quick
@given(st.lists(st.floats(-1e308, 1e308), min_size=6, max_size=6))
def test_no_pair_of_rows_exceeds_the_sensitivity(values):
    feature_map, (row, other) = gridded(), np.reshape(values, (2, 1, 3))
    added, replaced = feature_map.grid_sums(row), feature_map.grid_sums(other)
    assert (added.sum(), np.linalg.norm(added)) == feature_map.sensitivity("add_remove")
    l1, l2 = feature_map.sensitivity("replace_one")
    assert np.abs(added - replaced).sum() <= l1
    assert np.linalg.norm(added - replaced) <= l2 * (1 + 1e-15)


def test_the_sensitivity_is_reached():
    feature_map = gridded()
    here, there = (feature_map.grid_sums(np.array([row])) for row in ([17.0, -2, 0], [90.0, 2, 10]))
    assert feature_map.sensitivity("add_remove") == (2 * GRID, math.sqrt(2) * GRID)
    assert np.abs(here - there).sum() == feature_map.sensitivity("replace_one")[0] == 4 * GRID


# ------------------------------------------------------------------------- merges and the file


@st.composite
def tables_of_bins(draw):
    n = draw(st.integers(1, 40))
    steps = draw(st.sampled_from([(None, None), (1, 1), (0.5, 0.5), (2, None), (0.25, None)]))
    inner = draw(st.lists(st.integers(1, 9), unique=True).map(sorted))
    edges = draw(st.sampled_from([None, [0, *inner, 10]]))
    missing = draw(st.booleans())
    a = Numeric(0, 10, step=steps[0], missing=missing)
    return n, {"a": a, "b": Numeric(0, 10, step=steps[1], edges=edges)}


@pytest.mark.parametrize("kind", ["histogram", "union"])
@quick
@given(options=tables_of_bins(), cut=st.integers(1, 49))
def test_a_sum_of_sketches_is_the_sketch_of_the_union_and_files_keep_it(
    tmp_path_factory, kind, options, cut
):
    X = pd.DataFrame(np.random.default_rng(cut).uniform(-1, 11, (50, 2)), columns=["a", "b"])
    n_bins, schema = options
    if schema["a"].missing:
        X.loc[::7, "a"] = np.nan
    sketcher = HistogramSketcher(schema=schema, n_bins=n_bins, epsilon=np.inf)
    if kind == "union":
        parts = [
            HistogramSketcher(n_bins=n_bins),
            RFFSketcher(n_components=4),
            RACESketcher(n_repetitions=2, n_buckets=3),
        ]
        sketcher = SketchUnion(parts, schema=schema, epsilon=np.inf, random_state=0)
    whole, one, other = (sketcher.fit(part).sketch_ for part in (X, X[:cut], X[cut:]))
    total = one + other
    np.testing.assert_allclose(total.sums, whole.sums, atol=1e-9)
    path = tmp_path_factory.mktemp("sketch") / "a"
    whole.save(path)
    loaded = PrivateSketch.load(path)
    assert loaded.feature_map.same_as(whole.feature_map)
    assert loaded.schema == whole.schema
    assert np.array_equal(
        loaded.feature_map.grid_sums(X.to_numpy()), whole.feature_map.grid_sums(X.to_numpy())
    )
    assert np.array_equal((loaded + one).sums, (whole + one).sums)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"age": AGE}, r"columns\[0\].step: nothing here, 1.0 there"),
        ({"age": Numeric(*AGE, step=0.5)}, r"columns\[0\].step: 0.5 here, 1.0 there"),
        (
            {"gain": Numeric(*GAIN, step=1, edges=[0, 2, *EDGES[2:]])},
            r"columns\[1\].edges\[1\]: 2.0 here, 1.0 there",
        ),
        ({"gain": WHOLE["gain"]}, r"columns\[1\].edges: nothing here, 5 entries there"),
        (
            {"age": Numeric(*AGE, step=1, missing=True)},
            r"columns\[0\].missing: True here, nothing there",
        ),
    ],
)
def test_other_steps_and_edges_are_not_added_and_named(options, name):
    ours = HistogramSketcher(schema=GRIDDED).fit(people(9)).sketch_
    theirs = HistogramSketcher(schema=GRIDDED | options).fit(people(9)).sketch_
    with pytest.raises(ValueError, match=f"{name}.*cannot be added"):
        theirs + ours


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
    assert float(model.count(lambda rows: rows["gain"] == 0)) == pytest.approx(
        (X["gain"] == 0).sum(), abs=1e-2
    )
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


@pytest.mark.parametrize("prior", ["uniform", "auto"])
def test_synthetic_points_lie_on_the_grid(prior):
    union = SketchUnion([HistogramSketcher(n_bins=10), RFFSketcher(n_components=20)])
    model = answering(union, schema=GRIDDED, inference=Points(prior=prior))
    points = model._regression.points
    assert np.all(points == np.rint(points))
    ages, counts = np.unique(points[:, 0], return_counts=True)
    assert ages.tolist() == list(range(17, 91))
    if prior == "uniform":
        assert counts.min() > 0.9 * counts.max(), "the first and the last value are not halved"
    assert model.schema_ == TableSchema(GRIDDED)
    again = M2MEstimator.from_sketch(model.sketch_, inference=Points(prior=prior), n_synthetic=500)
    assert again.schema_ == TableSchema(GRIDDED)
    assert np.all(again._regression.points % 1 == 0)


def test_another_step_costs_nothing():
    ledger = PrivacyLedger(epsilon=1, delta=1e-5)
    parts = [HistogramSketcher(), RFFSketcher(n_components=4)]
    union = SketchUnion(parts, schema=WHOLE, ledger=ledger)
    other = {**WHOLE, "age": Numeric(*AGE, step=0.5)}
    with pytest.raises(ValueError, match="another; give the schema to one"):
        M2MEstimator(other, release=union).fit(people())
    assert ledger.entries() == []
    own = union.set_params(ledger=None).fit(people()).sketch_
    assert M2MEstimator.from_sketch(own, n_synthetic=500).schema_ == TableSchema(WHOLE)
    with pytest.raises(ValueError, match=r"Column 'age' was sketched as Numeric\(17, 90, step=1\)"):
        M2MEstimator.from_sketch(own, schema=other)


# -------------------------------------------------------------------------------- the error bars


@pytest.mark.filterwarnings("ignore::skdpsumm.AnswerWarning")
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_any_data_among_the_points(seed):
    """Shrinkage makes a large bias; data as unlike the prior as can be must stay within."""
    rng = np.random.default_rng(seed)
    settings = {"inference": Points(prior="uniform", regularization=1e-2), "schema": (0, 1)}
    sketcher = SketchUnion(
        [HistogramSketcher(n_bins=3), RFFSketcher(n_components=10, gamma=1.0)], random_state=0
    )
    blank = answering(sketcher, rng.random((9, 2)), n_synthetic=500, **settings)
    points = blank._regression.points
    X = points[rng.choice(500, 800, p=softmax(rng.normal(size=2) * 9 @ points.T))]
    model = answering(sketcher, X, n_synthetic=500, **settings)
    assert np.array_equal(model._regression.points, points)
    cuts = np.linspace(0.05, 0.95, 10)
    count = model.count(lambda rows: rows[:, [0, 1]] > 0.4)
    cdf = model.cdf(0, cuts)
    for answer, truth in (
        (count, (X > 0.4).sum(axis=0)),
        (cdf, (X[:, [0]] <= cuts).mean(axis=0)),
    ):
        low, high = np.moveaxis(answer[...].interval(), -1, 0)
        assert np.all((low - 1e-9 <= truth) & (truth <= high + 1e-9))
        assert np.abs(answer.value - truth).max() > 1e-3, "the bound is put to the test"


# ----------------------------------------------------------------------------------- the warnings


# A graphical model finds the shape inside bins, or has intervals that cover what it may be.
of_points = functools.partial(M2MEstimator, inference="points")


def told(work):
    """Return the texts of the answer warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    found = [w for w in caught if issubclass(w.category, AnswerWarning)]
    assert all(w.filename == __file__ for w in found), "they point to whoever asked"
    return [str(w.message) for w in found]


COARSE = HistogramSketcher(schema=RANGES)


FINE = {
    "edges": HistogramSketcher(schema=GRIDDED),
    "many bins": HistogramSketcher(schema=RANGES, n_bins=2000),
    "noise": clone(COARSE).set_params(epsilon=1.0),
    "waves": SketchUnion(
        [HistogramSketcher(n_bins=1), RFFSketcher(n_components=60)], schema=RANGES, epsilon=np.inf
    ),
    "no histogram": RFFSketcher(RANGES, n_components=60),
}


@pytest.mark.simulated(1)
@pytest.mark.parametrize("sketcher", FINE.values(), ids=FINE)
def test_what_is_fine_or_lost_in_noise_is_not_told(sketcher):
    X = people()
    for make in (M2MEstimator, of_points):
        assert (
            told(lambda m=make: m(release=sketcher, n_synthetic=5000, random_state=0).fit(X)) == []
        )


@pytest.mark.simulated(1)
@pytest.mark.parametrize("n_bins", [32, 1])
def test_of_what_is_drowned_no_more_is_told(n_bins):
    sketcher = clone(COARSE).set_params(epsilon=1e-4, n_bins=n_bins)
    for make in (M2MEstimator, of_points):
        model = make(release=sketcher, n_synthetic=5000, random_state=0)
        (text,) = told(lambda m=model: m.fit(people()))
        assert "drowns the sketch" in text


def test_questions_that_hold_nowhere_or_everywhere_are_told():
    X = people().assign(sex=np.where(np.arange(3000) % 2, "F", "M"))
    sketcher = HistogramSketcher(schema={**GRIDDED, "sex": ["F", "M"]})
    model = answering(sketcher, X)
    questions = {
        "nowhere": lambda rows: rows["sex"] == "W",
        "everywhere": lambda rows: rows["age"] < 1000,
        r"nowhere on the synthetic points \(outputs \[1\]\)": lambda rows: (
            rows["age"][:, None] > [20, 99]
        ),
    }
    for where, question in questions.items():
        for ask in (model.count, model.estimate):
            (text,) = told(lambda a=ask, q=question: a(q))
            assert re.search(where, text)
            assert "spelling of categories" in text
    (text,) = told(lambda: model.cdf("age", [16, 40]))
    assert "range (17, 90)" in text
    fine = [
        lambda: model.count(lambda rows: rows["sex"] == "F"),
        lambda: model.estimate(lambda rows: np.full(len(rows), 2.0)),  # no condition
        lambda: model.cdf("age", [17, 40, 90]),
        lambda: model.histogram("age"),
        lambda: model.quantile("gain", 0.5),  # in a bin of its own
        lambda: model.count(lambda rows: rows["age"] > 40).noise_std_error,
    ]
    assert [told(work) for work in fine] == [[]] * len(fine)
