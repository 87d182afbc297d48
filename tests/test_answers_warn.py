"""Every kind of answer says when it tells next to nothing: once a call, and no other call does."""

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from answers import said
from simulated import simulate

from skdpsumm.moments import AnswerWarning, M2MClassifier, M2MEstimator
from skdpsumm.schema import Categorical, Numeric
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher, RACESketcher, RFFSketcher

pytestmark = pytest.mark.simulated(0)

N_ROWS = 300
SCHEMA = {"sex": ["f", "m"], "age": Numeric(0, 90, step=1), "hours": Numeric(0, 60, missing=True)}
CUT = {"age": [0, 30, 60, 90]}

QUESTIONS = {
    "mean": lambda m2m: m2m.mean(),
    "correlation": lambda m2m: m2m.correlation(),
    "missing share": lambda m2m: m2m.missing_share(),
    "cdf": lambda m2m: m2m.cdf("age", [20, 40]),
    "quantile": lambda m2m: m2m.quantile("age", [0.25, 0.5]),
    "quantile without a step": lambda m2m: m2m.quantile("hours", 0.5),
    "histogram": lambda m2m: m2m.histogram("age", 4),
    "histogram of categories": lambda m2m: m2m.histogram("sex"),
    "histogram of two columns": lambda m2m: m2m.histogram(["sex", "age"], CUT),
    "table of two columns": lambda m2m: m2m.table(["sex", "age"], bins=CUT),
    "count": lambda m2m: m2m.count(lambda rows: rows["age"] > 40),
    "count by": lambda m2m: m2m.count(lambda rows: rows["age"] > 40, by="sex"),
    "estimate": lambda m2m: m2m.estimate(lambda rows: rows["hours"]),
    "estimate of a condition": lambda m2m: m2m.estimate(lambda rows: rows["age"] > 40),
    "estimate of several": lambda m2m: m2m.estimate(
        lambda rows: np.column_stack([rows["age"] > 40, rows["sex"] == "f"])
    ),
}
OF_A_MODEL = {
    "quantile by": lambda m2m: m2m.quantile("age", 0.5, by="sex"),
    "shares of rows": lambda m2m: m2m.table(["sex", "age"], bins=CUT, normalize="index"),
}
GRAPHICAL = ["adaptive", "single columns", "pairs"]


def table():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"sex": rng.choice(["f", "m"], N_ROWS)})
    rows["age"] = rng.integers(0, 91, N_ROWS)
    rows["hours"] = np.where(rng.random(N_ROWS) < 0.1, np.nan, rng.uniform(0, 60, N_ROWS))
    return rows


def sketcher(kind, **noise):
    if kind == "adaptive":
        return AdaptiveSketcher(SCHEMA, **noise)
    if kind == "fourier":
        return RFFSketcher(SCHEMA, n_components=50, random_state=0, **noise)
    if kind == "race":
        return RACESketcher(SCHEMA, n_repetitions=20, random_state=0, **noise)
    marginals = {"single columns": 1, "pairs": 2}[kind]
    return HistogramSketcher(marginals=marginals, n_bins=10, schema=SCHEMA, **noise)


def estimator(kind, epsilon):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the sketch; here it is about answers
        sketch = sketcher(kind, epsilon=epsilon).fit(table()).sketch_
        return M2MEstimator.from_sketch(sketch, n_synthetic=5000, random_state=0)


@pytest.mark.parametrize("kind", [*GRAPHICAL, "fourier", "race"])
def test_each_answer_from_a_drowned_sketch_warns_once(kind):
    m2m = estimator(kind, 0.01)
    assert m2m.sketch_.is_drowned
    for name, ask in (QUESTIONS | (OF_A_MODEL if kind in GRAPHICAL else {})).items():
        messages = said(lambda ask=ask: ask(m2m))[1]
        assert len(messages) == 1, (name, messages)


def test_a_warning_names_each_pair_once():
    messages = said(estimator("single columns", 0.05).covariance)[1]
    assert len(messages) == 1
    assert "Do not rely on age, age with hours, hours: " in messages[0]


SPANS = {
    "mean": [90, 60],
    "correlation": 2,
    "missing share": 1,
    "cdf": 1,
    "quantile": 90,
    "quantile without a step": 60,
    "histogram": 1,
    "histogram of categories": 1,
    "histogram of two columns": 1,
    "estimate": 60,
    "estimate of a condition": 1,
    "estimate of several": 1,
}


@pytest.mark.parametrize("kind", GRAPHICAL)
def test_answers_that_are_good_do_not_warn(kind):
    m2m = estimator(kind, np.inf)
    # Of single columns alone nobody knows how two go together.
    alone = {"correlation", "histogram of two columns"} if kind == "single columns" else set()
    for name in set(SPANS) - alone:
        assert said(lambda name=name: QUESTIONS[name](m2m))[1] == [], name


@pytest.mark.statistical
def test_a_correlation_that_noise_drove_to_its_end_is_not_certain():
    """Its interval holds what noise may have moved; it once came without a word."""
    rng = np.random.default_rng(0)
    x = rng.beta(2, 5, 455)
    rows = pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(0, 0.1, 455), 0, 1)})
    rows["class"] = np.where(x > 0.3, "a", "b")
    schema = {"x": (0, 1), "y": (0, 1), "class": ["a", "b"]}
    at_the_end = 0
    for seed in range(12):
        sketcher = AdaptiveSketcher(schema, epsilon=0.35, target="class")
        m2m = M2MEstimator.from_sketch(simulate(sketcher, rows, seed=seed).sketch_, random_state=0)
        answer, messages = said(m2m.correlation)
        entry = answer["x", "y"]
        low, high = entry.interval()
        assert low <= float(entry) <= high
        assert bool(messages) == (high - low > 1), seed
        if high > 1 - 1e-9 or low < 1e-9 - 1:
            at_the_end += 1
            assert high - low > 0.2
            assert float(entry.std_error) > 0.1
    assert at_the_end > 0


def entries_of(ask):
    with warnings.catch_warnings(record=True, action="always") as caught:
        answer = ask()
    assert all(issubclass(w.category, AnswerWarning) for w in caught)
    return answer, [w.message.entries for w in caught]


@pytest.mark.parametrize("kind", [*GRAPHICAL, "fourier"])
def test_a_warning_is_about_the_wide_entries_and_no_others(kind):
    m2m, n_partly = estimator(kind, 0.3), 0
    for name, possible in SPANS.items():
        answer, found = entries_of(lambda name=name: QUESTIONS[name](m2m))
        share = np.diff(answer[...].interval(), axis=-1)[..., 0] / possible
        about = [k for entries in found for k in entries]
        assert about == sorted(set(about))
        assert set(np.flatnonzero(share > 0.5)) <= set(about), name
        n_partly += 0 < len(about) < share.size
    assert n_partly > 0


@pytest.fixture
def coverage(monkeypatch):
    """The questions of examples/benchmarks/intervals.py."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parent.parent / "examples" / "benchmarks")
    names = ("intervals", "_tables", "_results")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import intervals

    yield intervals
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.statistical
def test_at_most_two_per_cent_of_questions_warn(coverage):
    warned = []
    for table in ("atoms", "correlated"):
        made = coverage.case(table, None)
        model = M2MEstimator(made.schema, epsilon=1.0, random_state=0)
        model.fit(made.frame)
        for call in made.calls:
            answer, about = entries_of(partial(call.ask, model))
            told = np.zeros(np.size(answer), bool)
            for entries in about:
                told[slice(None) if entries is None else entries] = True
            told = told.reshape(np.shape(answer))
            warned += [told[one.index if told.ndim else ()] for one in call.asked]
    assert len(warned) > 300
    assert sum(warned) <= 0.02 * len(warned)


@pytest.fixture(scope="module")
def lonely():
    """Releases of two columns that go together and one of too many cells for any pair."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 20_000)
    rows = pd.DataFrame({"sex": sex, "age": np.where(sex == "f", 20, 60)})
    rows["code"], rows["y"] = rng.integers(0, 400, 20_000), sex
    schema = {"sex": ["f", "m"], "age": Numeric(0, 90, step=1), "code": [*range(400)]}
    groups = [["sex", "age"], ["code"], ["y"]]
    sketcher = HistogramSketcher(schema | {"y": ["f", "m"]}, marginals=groups)
    return sketcher.fit(rows).sketch_


def test_columns_that_are_counted_with_no_other_are_told(lonely):
    assert lonely.lone_columns == [2, 3]
    m2m = M2MEstimator.from_sketch(lonely, random_state=0)
    for ask in (
        lambda: m2m.mean("age", by="y"),
        lambda: m2m.quantile("age", 0.5, by="y"),
        lambda: m2m.count(lambda rows: rows["age"] > 40, by="y"),
        lambda: m2m.estimate(lambda rows: rows["age"] > 40, by="y"),
    ):
        # Another message may say that an interval is wide.
        (message,) = [one for one in said(ask)[1] if "counts none of these" in one]
        assert "'y'" in message
        assert "'code'" not in message
        for remedy in ("target", "workload", "epsilon", "fewer categories"):
            assert remedy in message
    (message,) = said(lambda: m2m.sample(10, random_state=0))[1]
    assert "'code', 'y'. The rows have them independent" in message


def test_what_tells_nothing_of_a_lone_column_is_told_to_a_model(lonely):
    _, (message,) = said(lambda: M2MClassifier.from_sketch(lonely, target="y", n_synthetic=5000))
    assert "AdaptiveSketcher(target='y')" in message


@pytest.mark.parametrize(
    "condition",
    [
        lambda rows: rows["job"] == "pilot",
        lambda rows: "pilot" == rows["job"],  # noqa: SIM300
        lambda rows: rows[:, 0] != "pilot",
        lambda rows: rows["job"].isin(["nurse", "pilot"]),
    ],
)
def test_a_category_that_became_other_is_not_none(condition):
    jobs = pd.DataFrame({"job": ["clerk", "nurse"] * 900 + ["pilot"] * 200})
    schema = {"job": Categorical(["clerk", "nurse"], other=True)}
    m2m = M2MEstimator(schema, epsilon=9.0, random_state=0).fit(jobs)
    for ask in (m2m.count, m2m.where, m2m.estimate):
        with pytest.raises(ValueError, match=r"'pilot' .* list it, and release"):
            ask(condition)
    assert float(m2m.count(lambda rows: rows["job"] == "other")) == pytest.approx(200, abs=20)
    assert float(m2m.count(lambda rows: rows["job"] != "nurse")) == pytest.approx(1100, abs=40)
    assert not float(m2m.count(lambda rows: rows["job"].isna() | (rows["job"] == "clerk"))) < 850
