"""Missing values: answers about those that are present, their error bars, models, and points."""

import warnings

import numpy as np
import pandas as pd
import pytest
from answers import holds, quietly
from refusals import refused
from simulated import simulate
from sklearn.base import clone

from skdpsumm import HistogramSketcher, PrivateSketch, RACESketcher, RFFSketcher, SketchUnion
from skdpsumm.learners import TDILClassifier
from skdpsumm.moments import AnswerWarning, M2MClassifier, M2MEstimator, M2MRegressor
from skdpsumm.schema import Categorical, Numeric, PublicVectorizer, TableSchema
from skdpsumm.schema._reading import read_table
from skdpsumm.summaries import SketchSummarizer

pytestmark = [
    pytest.mark.simulated(0),
    pytest.mark.filterwarnings("ignore:Leave column 'height' out"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in log"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered"),
]

JOBS = ["clerk", "farmer", "smith"]
SCHEMA = {
    "age": Numeric(17, 90, step=1, missing=True),
    "pay": Numeric(0, 100, missing=True),
    "job": Categorical(JOBS, missing=True),
    "height": (1, 2),
}
NUMBERS = ["age", "pay", "height"]
QUICK = {"n_synthetic": 4000, "random_state": 0}


def people(n=4000, seed=0):
    """What is missing hangs on what is not: those left are unlike all."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, n).astype(float)
    job = rng.choice(JOBS, n, p=[0.5, 0.3, 0.2]).astype(object)
    pay = np.clip(100 * rng.beta(2, 5, n) + 0.2 * (age - 50), 0, 100)
    height = rng.beta(5, 5, n) + 1
    X = pd.DataFrame({"age": age, "pay": pay, "job": job, "height": height})
    X.loc[rng.random(n) < np.where(job == "smith", 0.5, 0.1), "age"] = np.nan
    X.loc[rng.random(n) < np.where(pay > 40, 0.6, 0.2), "pay"] = np.nan
    X.loc[rng.random(n) < np.where(height > 1.5, 0.3, 0.05), "job"] = None
    return X


def sketcher(epsilon, **options):
    parts = [HistogramSketcher(n_bins=25, **options), RFFSketcher(n_components=40)]
    return SketchUnion(parts, epsilon=epsilon, random_state=0)


def asked(X, epsilon=np.inf, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)  # of coarse bins
        known = {"schema": SCHEMA} | QUICK | options
        return simulate(M2MEstimator(release=sketcher(epsilon), **known), X, seed=seed)


def older(rows):
    return rows["age"] > 40


def absent(rows):
    return np.column_stack([np.isnan(rows["age"]), pd.isna(rows["job"])])


CUTS = [20.0, 30.0, 50.0]
LEVELS = [0.1, 0.5, 0.9]
# Each question, and what is true of a frame.
QUESTIONS = {
    "mean": (lambda m: m.mean(), lambda X: X[NUMBERS].mean()),
    "variance": (lambda m: m.variance(), lambda X: X[NUMBERS].var(ddof=0)),
    "cdf": (
        lambda m: m.cdf("pay", CUTS),
        lambda X: [np.mean(X["pay"].dropna() <= c) for c in CUTS],
    ),
    "histogram": (
        lambda m: m.histogram("pay", 5),
        lambda X: np.histogram(X["pay"].dropna(), 5, (0, 100))[0] / X["pay"].count(),
    ),
    "jobs": (lambda m: m.histogram("job"), lambda X: X["job"].value_counts(normalize=True)[JOBS]),
    "quantile": (
        lambda m: m.quantile("pay", LEVELS),
        lambda X: np.quantile(X["pay"].dropna(), LEVELS, method="inverted_cdf"),
    ),
    "missing": (lambda m: m.missing_share(), lambda X: X[["age", "pay", "job"]].isna().mean()),
    "a mean": (lambda m: m.estimate(lambda r: r["age"] ** 2), lambda X: (X["age"] ** 2).mean()),
    "a share of those with a value": (
        lambda m: m.estimate(lambda rows: np.where(np.isnan(rows["age"]), np.nan, older(rows))),
        lambda X: (X["age"].dropna() > 40).mean(),
    ),
    "a count": (lambda m: m.count(older), lambda X: (X["age"] > 40).sum()),
    "no age or job": (lambda m: m.estimate(absent), lambda X: X[["age", "job"]].isna().mean()),
}
# What no feature of one column tells is off by more than noise.
OF_PAIRS = {
    "covariance": (lambda m: m.covariance(), lambda X: X[NUMBERS].cov(ddof=0)),
    "correlation": (lambda m: m.correlation(), lambda X: None),
}


@pytest.fixture(scope="module")
def exact():
    X = people()
    return X, asked(X)


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_about_those_present(exact, name):
    """Without noise the truth is where in their bins the rows may be."""
    X, m2m = exact
    ask, truth = QUESTIONS[name]
    answer, expected = quietly(lambda: ask(m2m)), np.asarray(truth(X), float)
    if name == "variance":  # of whose approximation no bound is known
        assert np.allclose(np.asarray(answer), expected, rtol=0.05)
    else:
        assert np.all(holds(answer, expected))
    everywhere = np.asarray(truth(X.fillna({"age": 17.0, "pay": 0.0, "job": "clerk"})), float)
    if not np.allclose(everywhere, expected):  # as where a category is counted
        assert np.any(np.abs(answer - everywhere) > 2 * np.abs(answer - expected))


@pytest.fixture(scope="module", params=[2.0, 0.3, 0.02])
def released(request):
    X = people()
    return X, [asked(X, request.param, seed) for seed in range(12)]


@pytest.mark.one_in(3)  # each of 11 questions once, at one of three epsilons
@pytest.mark.statistical
@pytest.mark.parametrize("name", QUESTIONS)
def test_intervals_hold_the_truth(released, name):
    """In 12 releases, always the same, an entry may be missed by chance in three: one in 500."""
    X, models = released
    ask, truth = QUESTIONS[name]
    expected, found = np.asarray(truth(X), float), []
    for m2m in models:
        answer = quietly(lambda m2m=m2m: ask(m2m))
        found.append(holds(answer, expected))
        assert np.all(np.isfinite(answer.noise_std_error))
        assert np.all(holds(answer, np.asarray(answer)))
    assert np.mean(found, axis=0).min() >= 0.75


@pytest.mark.parametrize("ask", OF_PAIRS)
def test_pairs_are_those_of_which_both_are_present(ask):
    """As in pandas; a table of both columns tells them."""
    X, more = people(20_000), {"n_synthetic": 20_000, "random_state": 0}
    X["pay"] = np.clip(0.4 * X["age"].fillna(90) + 0.5 * X["pay"], 0, 100)
    pairs = HistogramSketcher(n_bins=15, marginals=[["age", "pay"], ["job"], ["height"]])
    m2m = M2MEstimator(SCHEMA, release=pairs.set_params(epsilon=np.inf), **more).fit(X)
    found, numbers = quietly(lambda: getattr(m2m, ask)()), X[NUMBERS]
    expected = numbers.cov(ddof=0).to_numpy()
    if ask == "correlation":
        expected = expected / np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    alone = X[["age", "pay"]].dropna().cov(ddof=0).to_numpy()
    assert abs(alone[1, 1] / numbers["pay"].var() - 1) > 0.05, "a pair has rows of its own"
    assert np.allclose(np.asarray(found)[:2, :2], expected[:2, :2], rtol=0.05)
    assert np.allclose(np.asarray(found), np.asarray(found).T)


@pytest.mark.parametrize(
    "part",
    [
        RFFSketcher(n_components=100),
        RACESketcher(n_repetitions=30, n_buckets=30),
        HistogramSketcher(n_bins=6, marginals=2),
        HistogramSketcher(n_bins=9, marginals=[["age"], ["pay", "job"], ["height"]]),
    ],
    ids=["fourier", "race", "pairs", "some"],
)
def test_any_sketch_tells_what_is_missing(part):
    X = people()
    sketch = clone(part).set_params(epsilon=np.inf, random_state=0, schema=SCHEMA).fit(X).sketch_
    m2m = quietly(lambda: M2MEstimator.from_sketch(sketch, **QUICK))
    truth = X[["age", "pay", "job"]].isna().mean()
    assert np.allclose(quietly(m2m.missing_share), truth, atol=0.03)
    assert np.allclose(quietly(m2m.mean), X[NUMBERS].mean(), rtol=0.05)
    gone = quietly(lambda: m2m.estimate(lambda rows: np.isnan(rows["age"])))
    assert float(gone) == pytest.approx(truth["age"], abs=0.03)


def test_categories_that_are_numbers_have_a_distribution_of_those_present():
    X = np.repeat([[5.0], [20.0], [10.0], [np.nan]], [100, 200, 300, 400], axis=0)
    for words in (False, True):  # beside words cells are objects
        schema = [Categorical([20, 5, 10], missing=True), *([["a", "b"]] * words)]
        rows = np.column_stack([X.astype(object), np.full(1000, "a")]) if words else X
        bins = HistogramSketcher(schema=schema, epsilon=np.inf)
        m2m = quietly(lambda bins=bins, rows=rows: M2MEstimator(release=bins, **QUICK).fit(rows))
        below = quietly(lambda m2m=m2m: m2m.cdf(0, [4.0, 5.0, 12.0, 20.0]))
        assert np.allclose(below, [0, 1 / 6, 4 / 6, 1])
        assert np.allclose(below[...].interval().T, np.asarray(below))
        assert np.allclose(m2m.histogram(0), [2 / 6, 1 / 6, 3 / 6])
        for ask in (lambda r: pd.isna(r[:, 0]), lambda r: np.isnan(r[:, 0].astype(float))):
            assert float(m2m.estimate(ask)) == pytest.approx(0.4)


def with_a_column_of_few(n_present, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(50, 12, 3000).clip(0, 100)
    b, m = (a / 2 + rng.normal(20, 8, 3000)).clip(0, 100), np.full(3000, np.nan)
    m[:n_present] = a[:n_present]
    schema = {"a": (0, 100), "b": (0, 100), "m": Numeric(0, 100, missing=True)}
    return pd.DataFrame({"a": a, "b": b, "m": m}), schema


@pytest.mark.parametrize("n_present", [0, 30])
def test_a_column_that_hardly_anybody_has_spoils_no_others(n_present):
    """Its noise moved variances of others from 140 to up to 1,900, to make a possible matrix."""
    frame, schema = with_a_column_of_few(n_present)
    truth, held = frame[["a", "b"]].cov().to_numpy(), []
    for seed in range(2):
        model = simulate(M2MEstimator(schema, random_state=0), frame, seed=seed)
        found, variances = model.covariance(), np.asarray(model.variance())
        matrix = np.nan_to_num(np.asarray(found))
        assert np.all(np.linalg.eigvalsh(matrix) > -1e-6)
        # What makes the matrix possible moves a variance by less than its noise.
        np.testing.assert_allclose(np.diagonal(matrix)[:2], variances[:2], rtol=0.005)
        assert np.all(np.abs(matrix[:2, :2] - truth) < 60)
        held.append(holds(found["a", "b"], truth[0, 1]))
        correlation = model.correlation()
        assert np.isfinite(np.asarray(correlation)[:2, :2]).all()
        assert correlation["a", "m"].interval() == pytest.approx([-1, 1], abs=0.2)
    assert np.mean(held) >= 0.5  # 27 of 30 releases held it


def test_of_values_that_nobody_has_all_is_possible():
    """Without noise the share below a value was 0.5, for certain, and covariances were near 0."""
    frame, schema = with_a_column_of_few(0)
    model = M2MEstimator(schema, epsilon=np.inf, random_state=0).fit(frame)
    answers = model.cdf("m", [30.0]), model.histogram("m", 2), model.covariance()["a", "m"]
    for answer, most in zip(answers, ([0, 1], [0, 1], [-2500, 2500]), strict=True):
        assert np.isnan(np.asarray(answer)).all()
        assert np.all(answer.interval() == most)
    assert float(model.covariance()["a", "b"]) == pytest.approx(frame.cov().loc["a", "b"], rel=0.02)
    for learns in (M2MRegressor.from_sketch, SketchSummarizer.from_sketch):
        refused("in all synthetic rows", learns, model.sketch_, target="m", n_synthetic=9)


# ----------------------------------------------------------------------------- codes of the missing

CODED = {
    "age": Numeric(17, 90, step=1, missing_values=[-9, 99, "NA"]),
    "pay": Numeric(0, 100, missing_values=-1),
    "job": Categorical(JOBS, missing_values=["", -9]),
    "height": (1, 2),
}


def coded(X):
    """Return people with codes in the place of missing cells, several of each column."""
    X, rng = X.copy(), np.random.default_rng(5)
    for name, codes in {"age": [-9, 99.0, "NA", None], "pay": [-1.0], "job": ["", -9]}.items():
        gone = X[name].isna().to_numpy()
        cells = X[name].to_numpy(object)
        cells[gone] = np.array(codes, object)[rng.integers(len(codes), size=gone.sum())]
        X[name] = pd.Series(cells, dtype=None if name != "pay" else float)
    return X


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "Int64", "object", "O of words"])
def test_codes_are_read_as_missing_in_every_container(dtype):
    cells = np.array([-9, 20, 99, 120, -50], float)
    read = Numeric(17, 90, step=1, missing_values=[-9, 99, "NA"])
    series = pd.Series(cells).astype(dtype if dtype[:3] != "O o" else object)
    if dtype == "O of words":
        series[0] = "NA"
    table = read_table(pd.DataFrame({"x": series}))
    expected = Numeric(17, 90, step=1, missing=True).read(np.array([np.nan, 20, np.nan, 120, -50]))
    assert np.array_equal(read.read(table[:, 0]), expected, equal_nan=True)
    alone = [read.read(table[[i], 0])[0] for i in range(5)]
    assert np.array_equal(alone, expected, equal_nan=True), "whatever stands beside it"
    assert expected[3:].tolist() == [90, 17], "others are clipped as ever"


def test_a_float_that_is_too_short_for_a_code_is_refused():
    """As for categories: 99.9 of float32 is another number, and would be clipped to the range."""
    read = Numeric(0, 99, missing_values=[99.9, "NA"])
    for dtype in (np.float32, np.float16, ">f4", ">f2"):
        with pytest.raises(ValueError, match="too short for its categories or missing_values"):
            TableSchema([read]).check(np.array([[99.9], [20]], dtype))
    assert np.isnan(read.read(np.array([99.9, "NA"], object))).all()
    assert np.isnan(read.read(np.array(["NA"], np.dtypes.StringDType()))).all()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Numeric(0, 120, missing_values=[99]), "lies in the range"),
        (lambda: Numeric(0, 1, missing_values=[2**53]), "below 2"),
        (lambda: Numeric(0, 1, missing_values=[-1, -1.0]), "twice"),
        (lambda: Categorical([1, 2], missing_values="3"), "beside numbers"),
        (lambda: Numeric(0, 1, missing=[-9]), "missing_values"),
        (lambda: Numeric(0, 1, missing_values="-9"), "without quotes"),
    ],
)
def test_codes_that_could_be_values_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_releases_from_codes_are_those_from_missing_cells(tmp_path):
    """Bit for bit, with the same sensitivities: a code says nothing of any other row."""
    X, Y = people(), coded(people())
    both = [asked(table, 1.0, schema=known) for table, known in ((X, SCHEMA), (Y, CODED))]
    one, other = (m2m.sketch_ for m2m in both)
    assert np.array_equal(one.sums, other.sums)
    assert np.array_equal(one.noise_std, other.noise_std)
    assert one.privacy == other.privacy
    assert both[0].score(X) == both[1].score(Y)
    other.save(tmp_path / "coded.sketch")
    loaded = PrivateSketch.load(tmp_path / "coded.sketch")
    analyst = quietly(lambda: M2MEstimator.from_sketch(loaded, **QUICK))
    assert analyst.score(Y) == pytest.approx(both[0].score(X))
    rows = [PublicVectorizer(s).fit_transform(t) for s, t in ((SCHEMA, X), (CODED, Y))]
    assert np.array_equal(*rows)
    y = X["height"] > 1.5
    seeds = {"random_state": 0, "classes": [False, True]}
    models = [TDILClassifier(s, **seeds).fit(table, y) for table, s in ((X, SCHEMA), (Y, CODED))]
    assert np.array_equal(models[0].decision_function(X), models[1].decision_function(Y))


# ------------------------------------------------------------------------------- synthetic points


# ------------------------------------------------------------------------------------------ models


@pytest.mark.parametrize(("target", "kind"), [("job", M2MClassifier), ("pay", M2MRegressor)])
def test_a_target_that_lacks_values_is_learnt_where_it_has_one(target, kind):
    X = people(8000)
    X["height"] = np.where(X["job"] == "smith", 1.8, 1.2)
    X["pay"] = np.where(X["pay"].isna(), np.nan, 100 * (X["height"] - 1))
    pairs = HistogramSketcher(n_bins=10, marginals=2, epsilon=np.inf, schema=SCHEMA)
    model = quietly(lambda: kind.from_sketch(pairs.fit(X).sketch_, target=target, **QUICK))
    there = X[target].notna()
    assert model.score(X.loc[there].drop(columns=target), X.loc[there, target]) > 0.6
    assert kind is M2MRegressor or list(model.classes_) == JOBS
