"""Every statistic of every kind of table, in every kind of frame: an answer, or what to ask."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from answers import answer_of
from refusals import refused
from sklearn import __version__ as sklearn_version
from sklearn.utils.fixes import parse_version

from skdpsumm.moments import M2MEstimator
from skdpsumm.schema import Categorical, Numeric
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion

N = 300
rng = np.random.default_rng(0)
COLUMNS = {
    "c": (rng.choice(["a", "b"], N), ["a", "b"]),
    "d": (rng.choice(["u", "v", "w"], N), ["u", "v", "w"]),
    "x": (rng.integers(0, 10, N).astype(float), Numeric(0, 9, step=1)),
    "z": (rng.random(N), (0, 1)),
}
# Groups are those of the first column, and single columns are asked of the last one.
TABLES = {"numbers": ["x", "z"], "categories": ["c", "d"], "mixed": ["c", "x"]}
TABLES |= {"one number": ["x"], "one category": ["c"]}
SKETCHERS = {
    "graphical": None,
    "fourier": RFFSketcher(n_components=20),
    "race": RACESketcher(n_repetitions=5),
    "union": SketchUnion([HistogramSketcher(), RFFSketcher(n_components=20)]),
}
FRAMES = {
    "numpy": lambda table: table.to_numpy(),
    "pandas": lambda table: table,
    "polars": lambda table: pl.DataFrame(table.to_dict("list")),
}
# Of all numeric columns, of the last column as numbers, and of columns of any kind.
OF_NUMBERS = {
    "mean": lambda m, by, of: m.mean(),
    "mean by": lambda m, by, of: m.mean(by=by, bins=bins_of(m, by)),
    "moment": lambda m, by, of: m.moment(2),
    "variance": lambda m, by, of: m.variance(),
    "covariance": lambda m, by, of: m.covariance(),
    "correlation": lambda m, by, of: m.correlation(),
}
OF_A_NUMBER = {
    "mean of one": lambda m, by, of: m.mean(of),
    "mean of one by": lambda m, by, of: m.mean(of, by=by, bins=bins_of(m, by)),
    "mean of a list": lambda m, by, of: m.mean([of]),
    "moment of one": lambda m, by, of: m.moment(3, of),
    "variance of one": lambda m, by, of: m.variance(of),
    "cdf": lambda m, by, of: m.cdf(of, [0.5, 0.2]),
    "cdf at one": lambda m, by, of: m.cdf(of, 0.5),
    "quantile": lambda m, by, of: m.quantile(of, [0.5, 0.2]),
    "median": lambda m, by, of: m.quantile(of, 0.5),
}
OF_ANYTHING = {
    "histogram": lambda m, by, of: m.histogram(of),
    "count": lambda m, by, of: m.count(lambda rows: rows[:, 0] == rows[:, 0]),
    "count by": lambda m, by, of: m.count(by=by, bins=bins_of(m, by)),
    "count of a condition by": lambda m, by, of: m.count(
        lambda rows: rows[:, 0] == rows[:, 0], by=by, bins=bins_of(m, by)
    ),
    "estimate": lambda m, by, of: m.estimate(lambda rows: rows[:, [0, -1]] == rows[:, [0, -1]]),
    "estimate by": lambda m, by, of: m.estimate(
        lambda rows: rows[:, 0] == rows[:, 0], by=by, bins=bins_of(m, by)
    ),
    "table": lambda m, by, of: m.table(
        sorted({by, of}), bins=None if bins_of(m, by) is None else {by: 3}, normalize=True
    ),
}


def bins_of(model, column):
    """Return how many bins a column of numbers gets."""
    categories = model.schema_.values(model.schema_.index(column, "by"))
    return 3 if categories is None else None


@pytest.fixture(scope="module")
def fitted():
    known = {}

    def get(table, frame, sketcher):
        key = table, frame, sketcher
        if key not in known:
            names = TABLES[table]
            rows = pd.DataFrame({name: COLUMNS[name][0] for name in names})
            described = {name: COLUMNS[name][1] for name in names}
            schema = list(described.values()) if frame == "numpy" else described
            m2m = M2MEstimator(schema, release=SKETCHERS[sketcher], n_synthetic=500, random_state=0)
            known[key] = m2m.fit(FRAMES[frame](rows)), FRAMES[frame](rows)
        return known[key]

    return get


unnamed = pytest.mark.skipif(
    parse_version(sklearn_version) < parse_version("1.7"),
    reason="scikit-learn 1.6 sees no names in frames of polars 2",
)
CASES = [(table, "graphical", frame) for table in TABLES for frame in ("numpy", "pandas")]
CASES += [pytest.param("mixed", "graphical", "polars", marks=unnamed)]
CASES += [("mixed", sketcher, "pandas") for sketcher in SKETCHERS if sketcher != "graphical"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("table", "sketcher", "frame"), CASES)
def test_each_statistic_is_answered_with_labels_or_says_what_to_ask(fitted, table, sketcher, frame):
    model, rows = fitted(table, frame, sketcher)
    of_numbers = [COLUMNS[name][0].dtype.kind == "f" for name in TABLES[table]]
    last = len(of_numbers) - 1
    by, of = (0, last) if frame == "numpy" else (TABLES[table][0], TABLES[table][-1])
    unanswered = dict.fromkeys(OF_NUMBERS, r"No column is numeric.*Ask `histogram`.*`estimate`")
    unanswered = {} if any(of_numbers) else unanswered
    if not of_numbers[last]:
        unanswered |= dict.fromkeys(OF_A_NUMBER, r"is not numeric; ask `histogram`")
    for name, ask in (OF_NUMBERS | OF_A_NUMBER | OF_ANYTHING).items():
        if name in unanswered:
            refused(unanswered[name], ask, model, by, of)
        else:
            check_frames(ask(model, by, of), frame)
    assert -1 < model.score(rows) <= 0
    drawn = model.sample(3, random_state=0)
    assert drawn.shape == (3, len(of_numbers))
    assert frame == "numpy" or list(drawn.columns) == TABLES[table]


def check_frames(answer, frame):
    """Check that value, errors and interval come in one kind of frame, with the same labels."""
    plain = answer[...]
    parts = {name: getattr(answer, name) for name in ("value", "std_error", "noise_std_error")}
    ends = answer.interval()
    if frame == "numpy" or not answer.labels:
        assert all(isinstance(part, np.ndarray) for part in (*parts.values(), ends))
        assert ends.shape == (*answer.shape, 2)
        return
    assert isinstance(ends, {"pandas": pd, "polars": pl}[frame].DataFrame)
    for name, part in (parts | {"value": answer.value, "rounded": round(answer, 2)}).items():
        numbers = np.round(plain.value, 2) if name == "rounded" else getattr(plain, name)
        names, cells = labels_and_cells(part)
        assert names == list(answer.labels[0])
        np.testing.assert_array_equal(cells.reshape(answer.shape), numbers)
        if len(answer.shape) == 2:
            assert list(part.columns)[-answer.shape[1] :] == list(answer.labels[1])
    low, high = (np.asarray(ends[side]).reshape(answer.shape) for side in ("low", "high"))
    np.testing.assert_array_equal(np.stack([low, high], axis=-1), plain.interval())
    labels = ends.rows() if frame == "polars" else ends.index
    first = [one[0] if isinstance(one, tuple) else one for one in labels]
    assert first == [name for name in answer.labels[0] for _ in range(low[0].size)]


def labels_and_cells(part):
    if isinstance(part, pl.DataFrame):
        return part[:, 0].to_list(), part[:, 1:].to_numpy()
    return part.index.to_list(), part.to_numpy()


@unnamed
@pytest.mark.parametrize("name", ["value", "std_error", "low", "name", "u"])
def test_no_label_is_lost_to_a_column_of_its_name(name):
    table = pl.DataFrame({name: COLUMNS["c"][0].tolist(), "d": COLUMNS["d"][0].tolist()})
    schema = {name: ["a", "b"], "d": ["u", "v", "w"]}
    model = M2MEstimator(schema, random_state=0).fit(table)
    answers = [model.count(by=name), model.table([name, "d"])]
    for answer in answers:
        for part in (answer.value, answer.std_error, answer.interval(), answer.to_frame(0.9)):
            assert set(part[:, 0]) == {"a", "b"}
            assert len(set(part.columns)) == part.shape[1]
    model.fit(pd.DataFrame(table.to_dict(as_series=False)))
    assert set(model.count(by=name).to_frame().iloc[:, 0]) == {"a", "b"}


# ---- one number, and many


def one():
    return answer_of(3.14159, 0.5)


def two(frame=None):
    return answer_of([1.234, 5.678], [0.1, 0.2], labels=[["a", "b"]], frame=frame)


@pytest.mark.parametrize("answer", [one(), two(), two("pandas"), two()[0]])
def test_an_estimate_is_neither_true_nor_false(answer):
    refused(r"answer\.value > 3.*interval", bool, answer, error=TypeError)
    assert np.all((answer > 0) == (np.asarray(answer) > 0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sketcher", SKETCHERS)
def test_thresholds_in_any_order(fitted, sketcher):
    model, _ = fitted("mixed", "pandas", sketcher)
    cuts = [7.0, 2.0, 5.0, 2.0]
    asked, straight = model.cdf("x", cuts), model.cdf("x", sorted(set(cuts)))
    assert asked.labels == (("x <= 7", "x <= 2", "x <= 5", "x <= 2"),)
    for part in ("value", "noise_std_error", "std_error"):
        expected = getattr(straight[...], part)[[2, 0, 1, 0]]
        np.testing.assert_allclose(getattr(asked[...], part), expected, rtol=1e-6)
    alone = model.cdf("x", 5)
    assert alone.shape == ()
    assert float(alone) == pytest.approx(float(asked[2]), abs=0.1)


NO_NUMBER, NO_BINS = "must be a number, or a list of numbers", "must be a positive whole number, or"
BAD_NUMBERS = "high", ["low", "high"], [], [np.nan], [[1.0]], None
BAD_BINS = "many", -1, 0, 2.5, [1.0], [3, 2], [1, np.nan], np.inf, {"x": 2}
QUESTIONS = {
    "cdf": (NO_NUMBER, lambda m, bad: m.cdf("x", bad), BAD_NUMBERS),
    "quantile": (NO_NUMBER, lambda m, bad: m.quantile("x", bad), BAD_NUMBERS),
    "bins": (NO_BINS, lambda m, bad: m.histogram("x", bad), BAD_BINS),
    "by": ("by names column 'k'", lambda m, bad: m.mean("x", by=bad), "k"),
    "count": ("by names column 'k'", lambda m, bad: m.count(by=bad), "k"),
    "columns": ("column is empty", lambda m, bad: m.mean(bad), [[]]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_without_a_meaning_are_refused(fitted, name):
    model, _ = fitted("mixed", "pandas", "graphical")
    message, ask, bad = QUESTIONS[name]
    for one in bad:
        refused(message, ask, model, one)
    with pytest.raises(TypeError, match=r"by must be a column.*got a function.*bins=.*`count`"):
        model.quantile("x", 0.5, by=lambda rows: rows["c"])


# ---- conditions


PEOPLE = pd.DataFrame(
    {
        "job": rng.choice(["nurse", "clerk", "baker", None], 400),
        "age": rng.choice([*range(18, 28), np.nan], 400),
        "code": rng.choice([1, 2, 3], 400),
    }
)
CONDITIONS = {
    "words": lambda rows: rows["job"].isin(["nurse", "baker"]),
    "words that nobody has": lambda rows: rows["job"].isin(["pope"]) | rows["job"].isin([]),
    "words and none": lambda rows: rows["job"].isin(["nurse", None]),
    "numbers": lambda rows: rows["age"].isin({18, 20.0, "x"}),
    "numbers and none": lambda rows: rows["age"].isin([18, np.nan]),
    "codes": lambda rows: rows["code"].isin((1, 3)),
    "between": lambda rows: rows["age"].between(20, 23),
    "between words": lambda rows: rows["job"].between("baker", "clerk"),
    "between codes": lambda rows: rows["code"].between(2, 9),
    "missing": lambda rows: rows["age"].isna() | rows["job"].isna(),
    "joined": lambda rows: ~rows["job"].isin(["nurse"]) & rows["age"].between(18, 25),
}


@pytest.fixture(scope="module")
def people():
    schema = {
        "job": Categorical(["nurse", "clerk", "baker"], missing=True),
        "age": Numeric(18, 27, step=1, missing=True),
        "code": [1, 2, 3],
    }
    groups = [["job", "age"], ["code"]]
    sketcher = HistogramSketcher(schema=schema, epsilon=np.inf, marginals=groups, n_bins=10)
    return M2MEstimator(release=sketcher, random_state=0).fit(PEOPLE)


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_those_of_pandas(people, name):
    condition = CONDITIONS[name]
    assert float(people.count(condition)) == pytest.approx(condition(PEOPLE).sum(), abs=1e-6)


# ---- the score


@pytest.mark.filterwarnings("ignore")
def test_the_score_of_categories_is_the_distance_of_shares():
    table = pd.DataFrame({"c": ["a"] * 30 + ["b"] * 70})
    model = M2MEstimator({"c": ["a", "b"]}, epsilon=np.inf, random_state=0).fit(table)
    assert model.score(table) == pytest.approx(0, abs=1e-9)
    assert model.score(table[:60]) == pytest.approx(-0.2)
    assert model.score(table[:30]) == pytest.approx(-0.7)


@pytest.mark.parametrize("frame", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    ("listed", "kinds"),
    [([False, 2], {int}), ([1, 2.5], {float}), (["n/a", True], {str}), ([True, False], {bool})],
    ids=str,
)
def test_categories_of_several_kinds_are_one_kind_in_a_sample(frame, listed, kinds):
    """Whatever rows are drawn, a column has one type, which every library of frames holds."""
    pytest.importorskip(frame)
    X = pd.DataFrame({"c": pd.Series(listed * 50, dtype=object), "d": np.linspace(0, 1, 100)})
    sketcher = HistogramSketcher({"c": listed, "d": (0, 1)}, epsilon=np.inf)
    m2m = M2MEstimator(release=sketcher, random_state=0).fit(X)
    m2m._frame = frame
    for n_rows in (1, 40):
        column = m2m.sample(n_rows)["c"]
        cells = column.to_pylist() if frame == "pyarrow" else column.to_list()
        assert {type(cell) for cell in cells} <= kinds
