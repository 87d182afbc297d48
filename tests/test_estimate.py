import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn import config_context

from skdpsumm import (
    Estimate,
    HistogramSketcher,
    M2MEstimator,
    Numeric,
    RACESketcher,
    TableSchema,
)
from skdpsumm._computing import Kept

# Tests of other things set these off, on tables as small as they are.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.moments.AnswerWarning"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
]


def two(frame=None):
    return Estimate(
        np.array([1.0, 2.0]),
        lambda: np.array([0.1, 0.2]),
        std_error=lambda: np.array([0.3, 0.2]),
        sampling=lambda: np.array([0.4, 0.0]),
        labels=[["a", "b"]],
        frame=frame,
    )


def test_nothing_changes_an_answer():
    answer = two()
    for change in (lambda: answer.__iadd__(1), lambda: np.add.at(answer, 0, 1)):
        with pytest.raises(TypeError, match="a = a \\+ b"):
            change()
    answer.value[0] = 100.0
    np.testing.assert_array_equal(answer, [1, 2])


def test_behaves_as_an_array():
    answer = two()
    assert np.allclose(answer * 2, [2, 4])
    assert np.allclose(np.sqrt(answer), np.sqrt([1, 2]))
    assert np.asarray(answer).shape == answer.shape == (2,)
    assert float(answer[1]) == 2.0
    assert len(list(answer)) == len(answer) == 2
    assert answer.value.sum() == 3


def test_items_keep_their_errors():
    assert float(two()[1].noise_std_error) == 0.2
    assert float(two()[0].std_error) == 0.3
    for covers in ("table", "noise", "population"):
        whole = two().interval(0.8, covers=covers)
        assert np.allclose(two()[0].interval(0.8, covers=covers), whole[0])


@pytest.mark.parametrize("covers", ["table", "noise", "population"])
def test_a_mean_of_nobody_may_be_anything(covers):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": "baker", "age": rng.integers(18, 91, 500)})
    schema = TableSchema({"job": ["baker", "clerk"], "age": Numeric(18, 90, step=1)})
    model = M2MEstimator(schema=schema, epsilon=np.inf).fit(frame)
    answer = model.mean(by="job")
    bakers, clerks = answer[...].interval(covers=covers)[:, 0]
    assert np.isnan(np.asarray(answer)[1]).all()
    assert clerks.tolist() == [18.0, 90.0]
    assert 18 < bakers[0] <= bakers[1] < 90


@pytest.mark.parametrize("covers", ["table", "noise", "population"])
def test_a_pickle_has_all_errors_and_not_the_release(covers):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": rng.choice(["a", "b"], 900), "age": rng.integers(18, 91, 900)})
    schema = TableSchema({"job": ["a", "b"], "age": Numeric(18, 90, step=1, unit="years")})
    model = M2MEstimator(schema=schema, noise_seed=0, random_state=0).fit(frame)
    answers = [
        model.mean(by="job"),
        model.mean(by="job")["a"],
        model.count(lambda t: t["age"] > 50),
    ]
    answers += [model.table(["job", "age"], bins={"age": 3}), model.quantile("age", [0.2, 0.5])]
    for answer in [*answers, two()]:
        stored = pickle.dumps(answer)
        again = pickle.loads(stored)
        assert len(stored) < 20_000
        assert repr(again) == repr(answer)
        for level in (0.5, 0.9, 0.95, 0.999):
            ends = covers_of(answer, level, covers)
            np.testing.assert_allclose(covers_of(again, level, covers), ends, rtol=1e-12)
        ends, widths = covers_of(answer, 0.93, covers), np.ptp(covers_of(answer, 0.93, covers), -1)
        off = np.abs(covers_of(again, 0.93, covers) - ends)
        assert np.all(off <= 0.002 * widths[..., None] + (answer.step or 0.0))


def covers_of(answer, level, covers):
    """Return an interval, or what is said of one that is not known, as a number."""
    try:
        return answer[...].interval(level, covers=covers)
    except ValueError as refused:
        return np.full((1, 2), float(len(str(refused))))


def test_items_by_name():
    assert float(two()["b"]) == 2.0
    matrix = Estimate(
        np.arange(6.0).reshape(2, 3), lambda: np.ones((2, 3)), labels=[["a", "b"], list("xyz")]
    )
    assert float(matrix["b", "z"]) == 5.0
    assert float(matrix[0, "y"]) == 1.0
    assert matrix["b"].shape == (3,)
    for wrong in ("c", ("a", "a"), ("a", "x", "x")):
        with pytest.raises(KeyError, match="is not an entry"):
            matrix[wrong]
    with pytest.raises(KeyError, match="no names"):
        two()[0]["a"]
    assert repr(matrix["b", "z"]) == "5 +- 1 (std error)"


def test_interval_covers_what_it_says():
    for covers, errors in (
        ("noise", [0.1, 0.2]),
        ("table", [0.3, 0.2]),
        ("population", [0.5, 0.2]),
    ):
        width = np.diff(two().interval(0.95, covers=covers))[:, 0]
        assert np.allclose(width, 2 * 1.959964 * np.array(errors))
    assert np.allclose(two().interval(), two().interval(covers="table"))


def test_ends_are_the_error_where_they_are_known():
    ends = lambda z: (np.array([-z]), np.array([3 * z]))  # noqa: E731
    answer = Estimate(np.zeros(1), lambda: np.full(1, 0.5), ends=ends)
    assert answer.std_error == 2
    assert np.allclose(answer.interval(0.95), [[-1.959964, 3 * 1.959964]])
    noisy = Estimate(np.zeros(1), lambda: np.full(1, 2.5), ends=ends)
    assert np.allclose(noisy.interval(0.95), [[-2.5 * 1.959964, 3 * 1.959964]])
    assert noisy.std_error == 2.5


@pytest.mark.parametrize("bad", [{"level": 0}, {"level": 1.0}, {"covers": "everything"}])
def test_interval_refuses(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        two().interval(**bad)


def test_a_population_that_is_not_known_is_refused_with_the_reason():
    for sampling, told in ((None, "no sampling error"), ("rows are friends", "friends")):
        answer = Estimate(np.zeros(1), lambda: np.ones(1), sampling=sampling)
        for one in (answer, answer[0]):
            with pytest.raises(ValueError, match=told):
                one.interval(covers="population")


def test_no_error_is_larger_than_half_of_what_is_possible():
    """Intervals are still made from the whole error, so that they miss no more than before."""
    noise = np.array([3.0, 0.9, 0.1])
    share = Estimate(
        np.array([0.5, 1.0, 0.5]), lambda: noise, possible=(0, 1), labels=[list("abc")]
    )
    assert share.std_error.tolist() == share.noise_std_error.tolist() == [0.5, 0.5, 0.1]
    assert share["b"].std_error == 0.5
    for covers in ("table", "noise"):
        ends = share.interval(0.5, covers=covers)
        assert np.allclose(ends[1], [1 - norm.ppf(0.75) * 0.9, 1])
        assert np.allclose(share["b"].interval(0.5, covers=covers), ends[1])
        assert np.allclose(ends[0], [0, 1])
    assert Estimate(0.5, lambda: 3.0).std_error == 3
    assert "0.5 +- 0.5" in repr(share["a"])
    assert share.to_frame()["std_error"].max() == 0.5


KNOWN = {"sex": ["f", "m"], "age": Numeric(0, 90, step=1), "pay": Numeric(1, 5, missing=True)}
SPANS = {
    "mean": (lambda m: m.mean(), [0, 1], [90, 5]),
    "mean by": (lambda m: m.mean(by="sex"), [0, 1], [90, 5]),
    "variance": (lambda m: m.variance(), 0, [2025, 4]),
    "correlation": (lambda m: m.correlation(), -1, 1),
    "missing": (lambda m: m.missing_share("pay"), 0, 1),
    "cdf": (lambda m: m.cdf("age", [20, 40]), 0, 1),
    "quantile": (lambda m: m.quantile("age", [0.2, 0.5]), 0, 90),
    "histogram": (lambda m: m.histogram("age", 9), 0, 1),
    "shares": (lambda m: m.table(["sex", "pay"], bins={"pay": 4}, normalize=True), 0, 1),
    "estimate": (lambda m: m.estimate(lambda rows: rows["age"] > 40), 0, 1),
    "estimate by": (lambda m: m.estimate(lambda rows: rows["age"] > 40, by="sex"), 0, 1),
    "of two columns": (lambda m: m.estimate(lambda r: (r["age"] > 40) & (r["sex"] == "f")), 0, 1),
}


# Of the default "race", with 6,400 counts, all takes ten times as long.
DROWNED = {"epsilon": 0.02}
FEW = RACESketcher(20, **DROWNED)


@pytest.fixture(
    scope="module",
    params=[("auto", DROWNED), ("rff", DROWNED), (FEW, {}), ("hist", DROWNED)],
    ids=["auto", "rff", "race", "hist"],
)
def drowned(request):
    sketcher, budget = request.param
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 40), "age": rng.integers(0, 91, 40)})
    people["pay"] = np.where(rng.random(40) < 0.3, np.nan, rng.uniform(1, 5, 40))
    options = {"schema": KNOWN, "n_synthetic": 2000, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return M2MEstimator(sketcher, **budget, **options).fit(people)


@pytest.mark.parametrize("name", SPANS)
def test_answers_of_a_drowned_release_stay_possible(drowned, name):
    ask, low, high = SPANS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = ask(drowned)
    half = (np.asarray(high) - np.asarray(low)) / 2
    assert np.all(answer.std_error <= half)
    assert np.all(answer.noise_std_error <= half)
    ends = answer[...].interval()
    assert np.all((ends[..., 0] >= low) & (ends[..., 1] <= high))


def test_std_error_is_computed_once_and_only_when_asked():
    calls = []
    answer = Estimate(np.zeros(1), lambda: calls.append(1) or np.ones(1))
    np.asarray(answer)
    assert not calls
    assert answer.noise_std_error == answer.std_error == answer.noise_std_error == 1
    assert len(calls) == 1


def test_tables():
    assert isinstance(two("pandas").value, pd.Series)
    assert isinstance(two("polars").value, pl.DataFrame)
    assert list(two().to_frame().index) == ["a", "b"]
    assert "std error" in repr(two())
    assert "<table>" in two()._repr_html_()


def test_hundreds_and_thousands_are_printed_without_an_exponent():
    answer = Estimate(np.array([192987.4, -2.6e9]), lambda: np.array([23_412.0, 1e-7]))
    assert repr(answer[0]) == "192990 +- 23000 (std error)"
    assert repr(answer[1]) == "-2.6e+09 +- 1e-07 (std error)"


def test_html_of_a_vector_is_a_table_of_three_columns():
    html = two()._repr_html_()
    assert '<tr><th scope="row">a</th><td>1</td><td>0.3</td></tr>' in html
    assert '<th scope="col">std error</th>' in html


def test_html_of_a_matrix_has_a_row_and_a_column_for_each():
    square = Estimate(np.eye(2), lambda: np.full((2, 2), 0.5), labels=[["a", "b"], ["c", "d"]])
    html = square._repr_html_()
    assert '<th scope="col">c</th><th scope="col">d</th></tr>' in html
    assert '<tr><th scope="row">b</th><td>0 ± 0.5</td><td>1 ± 0.5</td></tr>' in html
    assert "value ± std error" in html


def test_html_escapes_names():
    named = Estimate(np.ones(1), lambda: np.ones(1), labels=[["<script>"]])
    assert "<script>" not in named._repr_html_()
    assert "&lt;script&gt;" in named._repr_html_()


def test_html_of_a_number():
    assert "<td>3</td><td>0.5</td>" in Estimate(np.array(3.0), lambda: np.array(0.5))._repr_html_()


def test_to_frame_is_of_the_library_of_the_data():
    table = two("polars").to_frame()
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["name", "value", "std_error"]
    assert table["name"].to_list() == ["a", "b"]
    assert isinstance(two("pandas").to_frame(), pd.DataFrame)


@pytest.mark.parametrize("covers", ["table", "noise", "population"])
def test_to_frame_has_the_ends_of_the_interval(covers):
    low, high = two().interval(0.8, covers=covers).T
    for library in ("pandas", "polars"):
        table = two(library).to_frame(0.8, covers=covers)
        assert list(table.columns)[-4:] == ["value", "std_error", "low", "high"]
        np.testing.assert_array_equal(table["low"], low)
        np.testing.assert_array_equal(table["high"], high)
    table = Estimate(np.zeros((2, 3)), lambda: np.ones((2, 3)), frame="pandas").to_frame(0.8)
    assert table.shape == (6, 4)


def on_grid(std):
    return Estimate(np.array([40.0, 50.0]), lambda: np.array(std), labels=[["a", "b"]], step=2.0)


def test_an_error_of_zero_on_a_grid_says_that_it_is_on_a_grid():
    # The mean of equal values can be off by rounding, and their standard deviation not quite 0.
    answer = on_grid([1e-15, 0.5])
    assert answer.noise_std_error.tolist() == [0, 0.5]
    for text in (repr(answer), answer._repr_html_(), repr(answer["a"])):
        assert "on a grid of step 2" in text
    assert repr(answer["a"]) == "40 +- 0 (std error; on a grid of step 2)"
    assert "grid" not in repr(answer["b"]) + repr(on_grid([0.1, 0.5]))


def test_intervals_on_a_grid_end_at_values():
    assert on_grid([0.0, 0.5]).interval(0.95).tolist() == [[40, 40], [48, 52]]
    assert on_grid([1.5, 0.5])["a"].interval(0.95).tolist() == [36, 44]


def test_frames_of_names_alone_follow_the_choice_of_scikit_learn(monkeypatch):
    answer = two("auto")
    assert isinstance(answer.value, pd.Series)
    assert isinstance(answer.to_frame(), pd.DataFrame)
    with config_context(transform_output="polars"):
        assert isinstance(answer.value, pl.DataFrame)
        assert isinstance(answer.to_frame(), pl.DataFrame)
        assert isinstance(two("pandas").value, pd.Series)  # what the data were in
        assert isinstance(two().value, np.ndarray)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(answer.value, np.ndarray)
    assert (answer + 1).tolist() == [2, 3]


def test_units_are_printed_and_names_stay_names():
    ages = np.random.default_rng(0).integers(17, 91, (2000, 1)).astype(float)
    schema = TableSchema({"age": Numeric(17, 90, step=1, unit="years")})
    bins = HistogramSketcher(schema=schema, n_bins=74)
    m2m = M2MEstimator(bins, n_synthetic=2000, random_state=0).fit(
        pd.DataFrame(ages, columns=["age"])
    )
    for answer in (m2m.mean(), m2m.quantile("age", [0.5])):
        assert "age" in repr(answer)
        assert "(years)" in repr(answer)
        assert "(years)" in answer._repr_html_()
        assert "years" not in str(answer.to_frame())
    assert float(m2m.mean()["age"]) == pytest.approx(ages.mean(), abs=2)
    assert "years" not in repr(m2m.variance())


def test_units_are_printed_of_each_group():
    schema = TableSchema({"age": Numeric(0, 9, step=1, unit="years"), "sex": ["f", "m"]})
    people = pd.DataFrame({"age": np.arange(900) % 10, "sex": ["f", "m"] * 450})
    m2m = M2MEstimator(schema=schema, random_state=0).fit(people)
    for answer in (m2m.mean(by="sex"), m2m.quantile("age", [0.2, 0.8], by="sex")):
        assert repr(answer).count("(years)") == answer.value.size
        assert "(years)" not in str(answer.value)


QUESTIONS = {
    "mean": lambda m: m.mean(),
    "count": lambda m: m.count(lambda rows: np.asarray(rows)[:, 0] > 12),
    "cdf": lambda m: m.cdf(0, [5.0, 75.0]),
    "quantile": lambda m: m.quantile(0, [0.25, 0.5]),
    "histogram": lambda m: m.histogram(0),
    "variance": lambda m: m.variance(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inference", ["points", "graphical"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_stays_that_of_its_release(name, inference):
    """Also where somebody asks for its interval after the estimator was fitted to other rows."""
    rng = np.random.default_rng(0)
    low, high = rng.random((3000, 1)) * 20, rng.random((3000, 1)) * 20 + 70
    sketcher = HistogramSketcher((0, 100), noise_seed=0)
    model = M2MEstimator(sketcher, inference=inference, random_state=0)
    wanted = QUESTIONS[name](model.fit(low))
    ends, error = wanted.interval(), wanted.std_error
    answer = QUESTIONS[name](model.fit(low))
    model.fit(high)
    assert np.array_equal(answer.interval(), ends)
    assert np.array_equal(answer.std_error, error)


def test_what_is_kept_is_bounded_and_not_pickled():
    kept = Kept(10)
    for k in range(30):
        assert kept.get(k, lambda k=k: np.full(3, k))[0] == k
        assert sum(found.size for found in kept._found.values()) <= 10
    assert [*kept._found] == [27, 28, 29]
    assert kept.get(28, lambda: None)[0] == 28
    assert kept.get("large", lambda: np.zeros(11)).size == 11
    assert "large" not in kept._found
    assert not pickle.loads(pickle.dumps(kept))._found
    assert not Kept(0).get("none", lambda: np.zeros(0)).size
