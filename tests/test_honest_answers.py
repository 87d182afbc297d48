"""Answers that would be off by more than their error bars say so."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from answers import holds, said
from simulated import simulate
from sklearn.base import clone

from skdpsumm.moments import AnswerWarning, M2MClassifier, M2MEstimator, M2MRegressor
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.schema import Numeric, TableSchema
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher

pytestmark = [pytest.mark.simulated(0), pytest.mark.filterwarnings("ignore:Add a group of")]

N, N_COLUMNS = 20_000, 4
HOURS = Numeric(1, 99, step=1)
SCHEMA = {"sex": ["f", "m"], "hours": HOURS} | {f"x{j}": (0, 1) for j in range(N_COLUMNS)}
RAW = {"n_synthetic": 4000, "random_state": 0}


@pytest.fixture(scope="module")
def people():
    """Women work fewer hours; other columns say nothing."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], N)
    hours = rng.normal(np.where(sex == "f", 34, 42), 6).round().clip(1, 99)
    others = {f"x{j}": rng.random(N) for j in range(N_COLUMNS)}
    return pd.DataFrame({"sex": sex, "hours": hours, **others})


def of_single_columns(people, inference):
    sketcher = HistogramSketcher(n_bins=100, schema=SCHEMA)
    options = {"n_synthetic": 20_000, "random_state": 0, "inference": inference}
    return M2MEstimator(release=sketcher, **options).fit(people)


@pytest.fixture(scope="module")
def singles(people):
    return of_single_columns(people, "auto")


@pytest.fixture(scope="module")
def by_points(people):
    return of_single_columns(people, "points")


@pytest.fixture(scope="module")
def pairs(people):
    groups = [["sex", "hours"], *([f"x{j}"] for j in range(N_COLUMNS))]
    sketcher = HistogramSketcher(marginals=groups, n_bins=100, schema=SCHEMA)
    return M2MEstimator(release=sketcher, n_synthetic=20_000, random_state=0).fit(people)


def both(rows):
    return (rows["sex"] == "f") & (rows["hours"] > 40)


def z(answer, truth):
    return abs(float(answer) - truth) / float(answer.noise_std_error)


def test_two_conditions_that_no_histogram_holds_together(people, singles, pairs):
    truth = both(people).sum()
    answer, messages = said(lambda: pairs.count(both))
    assert z(answer, truth) < 5
    assert not messages
    # Single columns know no more, and the interval says so. It is made for usual pairs of columns;
    # these depend on each other more than most.
    answer, messages = said(lambda: singles.count(both))
    assert z(answer, truth) > 3  # an honest answer has 1
    assert np.all(holds(answer, truth, 0.99))
    assert not messages


def coarse(people, n_bins, inference):
    sketcher = HistogramSketcher(schema=(1, 99), n_bins=n_bins)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)  # of the coarse bin
        return M2MEstimator(release=sketcher, inference=inference, **RAW).fit(people[["hours"]])


@pytest.mark.parametrize("inference", ["graphical", "points"])
@pytest.mark.parametrize("n_bins", [5, 8])
def test_a_threshold_inside_a_popular_bin(people, inference, n_bins):
    m2m = coarse(people, n_bins, inference)
    answer, messages = said(lambda: m2m.count(lambda rows: rows["hours"] > 40))
    assert np.all(holds(answer, (people["hours"] > 40).sum()))
    wide = int(np.ptp(answer.interval()) > N / 2)
    assert ["wider than half of what is possible" in one for one in messages] == [True] * wide


CUTS = [20.0, 37.0, 70.0]


@pytest.mark.parametrize(
    ("ask", "about", "of"),
    [
        (lambda m2m: m2m.variance(), "hours", np.var),
        (
            lambda m2m: m2m.quantile("hours", [0.3]),
            "hours 0.3",
            lambda x: np.quantile(x, 0.3, method="inverted_cdf"),
        ),
        (
            lambda m2m: m2m.histogram("hours", CUTS),
            "hours = [20, 37)",
            lambda x: np.histogram(x, CUTS)[0] / len(x),
        ),
    ],
)
def test_what_bins_are_too_wide_for(people, ask, about, of):
    truth = of(people["hours"].to_numpy())
    for inference in ("auto", "points"):
        wide, messages = said(lambda inference=inference: ask(coarse(people, 5, inference)))
        assert np.all(holds(wide, truth))
        # One bin holds most of the rows, and nothing tells where in it they are.
        assert all(f"rely on {about}" in one for one in messages)
        sketcher = HistogramSketcher(schema=HOURS, n_bins=99)
        fine = M2MEstimator(release=sketcher, inference=inference, **RAW).fit(people[["hours"]])
        answer, messages = said(lambda fine=fine: ask(fine))
        assert not messages
        widths = [np.ptp(one[...].interval(), axis=-1) for one in (answer, wide)]
        assert np.all(widths[0] < widths[1])


NOWHERE = {
    "misspelt": lambda rows: rows["sex"] == "F",
    "one of few places": lambda rows: rows["x0"] == 0.123456789,
    "one of two columns": lambda rows: (rows["sex"] == "F") & (rows["x0"] > 0.5),
    "outside": lambda rows: rows["x0"] > 2,
}


@pytest.mark.parametrize("name", NOWHERE)
def test_a_question_that_holds_nowhere_is_bounded_by_all_rows(by_points, singles, name):
    for m2m in (by_points, singles):
        for ask, most in ((m2m.count, m2m.sketch_.n_samples), (m2m.estimate, 1.0)):
            answer, messages = said(lambda ask=ask: ask(NOWHERE[name]))
            assert len(messages) == 1
            assert "nowhere" in messages[0]
            low, high = answer.interval(0.95)
            assert float(answer) == low == 0
            if "allows no other" in messages[0]:  # all values were asked
                assert (m2m, name) == (singles, "misspelt")
                assert high == 0
            else:
                limit = most * (1 + 3 * m2m.sketch_.n_noise_std / N)
                assert most <= high <= (limit if most == 1 else np.ceil(limit))  # whole rows


@pytest.mark.parametrize("model", [M2MEstimator(), M2MClassifier(), M2MRegressor(y_bounds=(0, 1))])
def test_what_a_release_shows_is_told_when_all_is_set(model):
    """So a warning that is made an error leaves what was paid for, ready to be used."""
    rng = np.random.default_rng(0)
    X = rng.random((100, 2))
    y = (X[:, 0] > 0.5).astype(int)
    bins = HistogramSketcher(n_bins=4, epsilon=1e-4)
    ledger = PrivacyLedger(epsilon=1e4, delta=1e-3)
    model = clone(model).set_params(schema=(0, 1), n_synthetic=1000, random_state=0)
    model.set_params(release=bins.set_params(ledger=ledger))
    as_errors = warnings.catch_warnings(action="error", category=AnswerWarning)
    with as_errors, pytest.raises(AnswerWarning):
        model.fit(X, y)
    assert len(ledger.entries()) == 1
    assert model.privacy_ is model.sketch_.privacy
    asked = model.predict(X) if hasattr(model, "estimator_") else np.asarray(model.mean())
    assert np.all(np.isfinite(asked))


RULED = TableSchema(
    {"age": Numeric(0, 99, step=1), "smokes": [False, True], "pay": Numeric(0, 5000, step=1)}
).never({"age": [0, 13], "smokes": [True]})


def ruled_by(noise_seed):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, 5000)
    rows = {"age": age, "smokes": (age > 13) & (rng.random(5000) < 0.3)}
    rows["pay"] = rng.integers(0, 5001, 5000)
    model = M2MEstimator(RULED, random_state=0)
    return simulate(model, pd.DataFrame(rows), seed=noise_seed)


@pytest.fixture(scope="module")
def ruled():
    return ruled_by(0)


def test_a_condition_that_the_schema_settles_has_the_error_of_the_number_of_rows(ruled):
    """Whatever bins the release has: all values that a row can have are asked."""
    # A spread of 100 draws has a deviation of 7 per cent.
    noise = ruled.sketch_.n_noise_std
    for condition, most in (
        (lambda rows: rows["age"] >= 0, 1.25),
        (lambda rows: rows["pay"] < 6000, 1.25),
        (lambda rows: ~(rows["smokes"].astype(bool) & (rows["age"] <= 13)), 2.0),
    ):
        answer, _ = said(lambda condition=condition: ruled.count(condition))
        assert float(answer.std_error) <= most * noise
        assert float(answer) == pytest.approx(ruled.sketch_.n_samples, rel=1e-6)
    one, (message,) = said(lambda: ruled.count(lambda rows: rows["pay"] > 5000))
    assert "no other rows" in message
    assert (float(one), *one.interval()) == (0, 0, 0)
    # One value of many, of which the release has no rows, is another matter.
    one, _ = said(lambda: ruled.count(lambda rows: rows["pay"] == 4321))
    assert one.interval()[1] > 0


def test_an_entry_that_no_row_of_the_model_is_in_may_hold_rows(ruled):
    """Bins that are narrower than the model's cells."""
    table = ruled.table(["pay", "smokes"], bins={"pay": [0, 4321, 4322, 5000]})
    assert np.all(table[...].interval()[..., 1] > 0)
    assert np.all(table.std_error > 0)


def test_entries_that_the_schema_rules_out_have_no_error(ruled):
    """Whatever the bins and the order of the columns; a bin with one possible value is another."""
    bins = {"age": [0, 7.5, 14, 20, 99], "pay": [0, 2500, 5000]}
    for normalize in (False, True):
        table = ruled.table(["smokes", "pay", "age"], bins=bins, normalize=normalize)
        low, high = np.moveaxis(table[...].interval(), -1, 0)
        nobody = np.zeros(table.shape, bool)
        nobody[1, :, :2] = True
        for of_nobody in (np.asarray(table), low, high, table.std_error):
            assert np.all(of_nobody[nobody] == 0)
        assert np.all(high[~nobody] > 0)
    wider = ruled.table(["age", "smokes"], bins={"age": [0, 15, 99]})[...].interval()
    assert wider[0, 1, 1] > 0


def drowned_columns():
    """Return columns that lie in a small part of their range, and two that do not."""
    rng, n = np.random.default_rng(7), 3000
    columns = {
        "pareto": (np.minimum(rng.pareto(1.2, n), 1000.0), (0.0, 1000.0)),
        "gamma": (np.minimum(rng.gamma(0.5, 1.0, n), 50.0), (0.0, 50.0)),
        "claims": (np.where(rng.random(n) < 0.8, 0, rng.geometric(0.002, n)), (0.0, 20_000.0)),
        "late": (100 - np.minimum(rng.gamma(2.0, 1.0, n), 100.0), (0.0, 100.0)),
        "triangle": (rng.triangular(0, 3, 10, n), (0.0, 10.0)),
        "even": (rng.random(n), (0.0, 1.0)),
    }
    frame = pd.DataFrame({name: values.astype(float) for name, (values, _) in columns.items()})
    return frame, TableSchema({name: bounds for name, (_, bounds) in columns.items()})


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.15, pytest.param(0.05, marks=pytest.mark.long)])
def test_intervals_hold_where_a_bin_has_most_of_the_rows(epsilon):
    """Where rows are few for the noise, next to nothing tells where in a wide bin they lie.

    Taken for even in their bins, rows left 0.83 and 0.90 of the counts covered, 0.52 at the worst.
    """
    frame, schema = drowned_columns()
    cut = frame.quantile(0.8)
    held = {"mean": [], "count": []}
    for seed in range(16):
        model = M2MEstimator(schema, epsilon=epsilon, random_state=seed)
        with warnings.catch_warnings(action="ignore"):
            simulate(model, frame, seed=seed)
            held["mean"].append(holds(model.mean(), frame.mean()))
            below = model.estimate(lambda t: np.column_stack([t[c] <= cut[c] for c in cut.index]))
            held["count"].append(holds(below, (frame <= cut).mean()))
    for kind, hits in held.items():
        assert np.mean(hits) > 0.9, kind
        assert np.min(np.mean(hits, axis=0)) > 0.8, kind


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["heap", "bimodal", "late"])
def test_noise_that_hides_a_column_leaves_open_where_its_rows_lie(kind):
    """300 rows at epsilon = 0.1: bins are found by noise, and one of them may have all rows.

    Taken for finer towards zero, half of the intervals of counts missed, most without a warning.
    """
    rng = np.random.default_rng(1)
    values = {
        "heap": rng.normal(60, 8, 300).clip(0, 100),
        "bimodal": np.where(rng.random(300) < 0.5, rng.normal(-30, 5, 300), rng.normal(40, 5, 300)),
        "late": 1e4 - rng.gamma(2, 300, 300).clip(0, 1e4),
    }[kind]
    low, high = {"heap": (0, 100), "bimodal": (-100, 100), "late": (0, 1e4)}[kind]
    frame = pd.DataFrame({"x": values, "c": rng.choice(["a", "b"], 300)})
    schema = TableSchema({"x": (low, high), "c": ["a", "b"]})
    cuts = np.linspace(low, high, 6)
    ends = np.quantile(values, [0.1, 0.6])
    inside = (values > ends[0]) & (values < ends[1])
    held = []
    for seed in range(20):
        model = M2MEstimator(schema, epsilon=0.1, random_state=seed)
        with warnings.catch_warnings(action="ignore"):
            simulate(model, frame, seed=seed)
            shares = model.histogram("x", bins=cuts)
            one = model.count(lambda rows: (rows["x"] > ends[0]) & (rows["x"] < ends[1]))
            two = model.count(lambda r: (r["x"] > ends[0]) & (r["x"] < ends[1]) & (r["c"] == "a"))
            table = model.table(["x", "c"], bins={"x": cuts})
        truth = np.histogram(values, cuts)[0]
        of_c = [np.histogram(values[frame["c"] == c], cuts)[0] for c in "ab"]
        hits = [holds(shares, truth / 300), holds(one, inside.sum())]
        hits += [holds(two, (inside & (frame["c"] == "a")).sum())]
        hits += [holds(table, np.transpose(of_c)), holds(model.mean("x"), values.mean())]
        held.append(np.concatenate([np.ravel(hit) for hit in hits]))
    assert np.mean(held) > 0.95
    # Below 13 of 20, where 0.9 holds, is a chance of 0.0004; half of them held without this.
    assert np.min(np.mean(held, axis=0)) >= 0.65


@pytest.mark.parametrize("n_bins", [1, 5])
def test_a_bin_with_all_rows_leaves_open_where_they_lie(n_bins):
    frame = pd.DataFrame({"x": np.random.default_rng(0).uniform(41, 59, 20_000)})
    sketcher = HistogramSketcher(schema={"x": (0, 100)}, n_bins=n_bins)
    model = M2MEstimator(release=sketcher, random_state=0).fit(frame)
    low, high = model.schema_.bound(0) if n_bins == 1 else (40, 60)
    with pytest.warns(AnswerWarning):
        count = model.count(lambda rows: rows["x"] < 50)
    assert count.interval()[0] < 100
    assert count.interval()[1] > 19_900
    mean = model.mean("x").interval()
    assert mean == pytest.approx([low, high], abs=0.3)


@pytest.fixture(scope="module")
def crowds():
    """Most rows are at an end of a range without a step, of two columns at once."""
    rng = np.random.default_rng(0)
    z = np.where(rng.random(3000) < 0.7, 0.0, rng.exponential(10, 3000).clip(0, 99))
    u = np.where(rng.random(3000) < 0.6, 99.0, rng.uniform(0, 99, 3000))
    frame = pd.DataFrame({"z": z, "u": u})
    options = {"schema": {"z": (0, 99), "u": (0, 99)}, "random_state": 0}
    return frame, M2MEstimator(epsilon=1.0, **options).fit(frame)


ENDS = {
    "one": (lambda rows: rows["z"] == 0, lambda rows: rows["u"] < 99),
    "both": (lambda rows: (rows["z"] == 0) & (rows["u"] == 99),),
    "sum": (lambda rows: rows["z"] + rows["u"] == 99,),
    "either": (lambda rows: (rows["z"] > 0) | (rows["u"] < 99),),
}


@pytest.mark.parametrize("name", ENDS)
def test_rows_at_an_end_of_the_range_are_counted_there(crowds, name):
    """They were taken for spread in a narrow bin: 0 rows, and for two columns the interval [0, 0].

    The release says which bins stand for one number, and an interval allows for noise alone.
    """
    frame, model = crowds
    for query in ENDS[name]:
        truth, answer = query(frame).sum(), model.count(query)
        assert abs(float(answer) - truth) < 150
        assert holds(answer, truth)


AT_EDGES = {
    "below": (lambda m: m.count(lambda rows: rows["age"] < 18), 0),
    "inside": (lambda m: m.estimate(lambda r: (r["age"] >= 18) & (r["age"] <= 65)), 1),
    "table": (lambda m: m.table("age", bins=[0, 18, 65, 100]), [0, 10_000, 0]),
    "cdf": (lambda m: m.cdf("age", [18.0, 65.0]), [0, 1]),
    "first year": (lambda m: m.count(lambda r: (r["age"] >= 18) & (r["age"] < 19)), None),
    "of two": (lambda m: m.count(lambda r: (r["age"] < 18) & (r["sex"] == "f")), 0),
}


@pytest.mark.statistical
@pytest.mark.parametrize("bins", ["found", "given", "even"])
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_numbers_may_begin_and_end_inside_a_bin(epsilon, bins):
    """Nobody is below 18: the default held that in 4 of 40 releases, and never without noise."""
    given = [0, 18, 30, 65, 100] if bins == "given" else None
    schema, held = {"age": Numeric(0, 100, edges=given), "sex": ["f", "m"]}, []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        age, sex = rng.uniform(18, 65, 10_000), rng.choice(["f", "m"], 10_000)
        frame = pd.DataFrame({"age": age, "sex": sex})
        noise = {"epsilon": epsilon, "random_state": seed}
        if bins == "even":
            model = M2MEstimator(release=HistogramSketcher(schema=schema, n_bins=20, **noise))
        else:
            model = M2MEstimator(schema, **noise)
        simulate(model, frame, seed=seed)
        for ask, truth in AT_EDGES.values():
            truth = (frame["age"] < 19).sum() if truth is None else np.array(truth)
            held += np.ravel(holds(ask(model), truth)).tolist()
    # One table of the eight has 488 rows in the first bin, where 425 are expected: all miss it.
    assert np.mean(held) > 0.85


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_values_may_be_heaped_at_round_ones(epsilon):
    """60 % are multiples of 5, and no step says so: 50 begins a bin, and all in it may be 50.

    What is above 50 was held in none of 40 releases, since neighbours have heaps as well.
    """
    rng = np.random.default_rng(1)
    x = rng.gamma(2, 17, 5000).clip(0, 200)
    frame = pd.DataFrame({"x": np.where(rng.random(5000) < 0.6, np.round(x / 5) * 5, x)})
    held = []
    for seed in range(8):
        model = M2MEstimator({"x": (0, 200)}, epsilon=epsilon, random_state=seed)
        simulate(model, frame, seed=seed)
        for query in (
            lambda rows: rows["x"] > 50,
            lambda rows: rows["x"] < 50,
            lambda rows: rows["x"] <= 75,
            lambda rows: (rows["x"] > 20) & (rows["x"] < 40),
        ):
            held.append(holds(model.count(query), query(frame).sum()))
    assert np.mean(held) > 0.9


def test_the_lowest_value_is_not_the_end_of_the_range():
    for step in (None, 1.0):
        frame = pd.DataFrame({"x": np.random.default_rng(0).uniform(30, 90, 3000)})
        frame = frame if step is None else frame.round()
        schema = {"x": Numeric(0, 100, step=step)}
        model = M2MEstimator(schema, epsilon=10.0, random_state=0).fit(frame)
        low, high = model.quantile("x", 0.001).interval()
        # The places of a column that are asked are 2,048.
        assert low <= frame["x"].quantile(0.001, interpolation="higher") + 0.1
        assert frame["x"].min() <= high < 35


def test_rare_categories_have_the_noise_of_their_own_counts():
    """Those that were counted together seemed as sure as they seemed rare: 0.67 held."""
    rng, names = np.random.default_rng(5), [f"c{i}" for i in range(200)]
    chances = np.r_[0.6, np.full(199, 0.4 / 199)]
    c, y = rng.choice(names, 2000, p=chances), rng.choice(["a", "b"], 2000)
    frame = pd.DataFrame({"c": c, "y": y})
    truth = frame["c"].value_counts().reindex(names, fill_value=0).to_numpy()
    largest, held = np.argsort(-truth)[1:11], []
    for seed in range(10):
        schema = {"c": names, "y": ["a", "b"]}
        model = simulate(M2MEstimator(schema, random_state=seed), frame, seed=seed)
        held.append(holds(model.count(by="c"), truth)[largest])
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("inference", ["graphical", "points"])
def test_a_function_that_looks_at_other_rows_is_refused(people, inference):
    model = of_single_columns(people, inference)
    for f in (
        lambda rows: rows["hours"] - rows["hours"].mean(),
        lambda rows: rows["hours"] > np.median(rows["hours"]),
        lambda rows: np.argsort(np.argsort(rows["hours"])) / len(rows),
    ):
        for ask in (model.estimate, partial(model.estimate, by="sex")):
            with pytest.raises(ValueError, match="function of each row alone"):
                ask(f)
    with pytest.raises(ValueError, match="function of each row alone"):
        model.count(lambda rows: rows["hours"] > rows["hours"].mean())
    mean = float(model.mean("hours"))
    assert 0.3 < model.count(lambda rows: rows["hours"] > mean) / N < 0.7


@pytest.mark.statistical
def test_a_top_code_that_noise_hides_is_held():
    """188 of Adult's 39,073 rows have a capital gain of 99,999: the interval was [0, 0]."""
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(20_000) < 0.92, 0, rng.lognormal(8.5, 0.6, 20_000))
    gain[rng.random(20_000) < 0.005] = 99_999
    frame = pd.DataFrame({"gain": gain.round().clip(0, 99_999)})
    for name in "abcdefgh":
        frame[name] = rng.choice(list("xyz"), 20_000)
    schema = {"gain": Numeric(0, 99_999, step=1)} | {name: list("xyz") for name in "abcdefgh"}
    truth, held = (frame["gain"] == 99_999).sum(), []
    for seed in range(6):
        m2m = simulate(M2MEstimator(schema, epsilon=0.3, random_state=0), frame, seed=seed)
        held.append(holds(m2m.count(lambda rows: rows["gain"] >= 99_999), truth))
    assert np.mean(held) > 0.8


@pytest.mark.parametrize("kind", ["clipped", "code", "zeros", "scale"])
def test_values_at_an_end_of_a_range_warn_where_they_may_have_been_clipped(kind):
    rng = np.random.default_rng(0)
    pay = rng.lognormal(8.2, 0.8, 4000)
    values, known = {
        "clipped": (pay, Numeric(0, 10_000)),  # 10 % lie above
        "code": (np.where(rng.random(4000) < 0.05, 99_999, pay.clip(0, 20_000)), (0, 99_999)),
        "zeros": (np.where(rng.random(4000) < 0.5, 0, pay), (0, 200_000)),
        "scale": (rng.choice(5, 4000, p=[0.2, 0.1, 0.1, 0.2, 0.4]) + 1, Numeric(1, 5, step=1)),
    }[kind]
    schema = {"x": known}
    m2m = simulate(M2MEstimator(schema, random_state=0), values[:, None])
    for ask in (m2m.mean, m2m.total, partial(m2m.quantile, q=0.95)):
        _, told = said(partial(ask, "x"))
        assert any("wider range" in text for text in told) == (kind == "clipped")


@pytest.mark.statistical
@pytest.mark.parametrize("are_at_cuts", [True, False])
def test_rows_may_be_at_the_cuts_of_a_column(are_at_cuts):
    """A mean was held in 0 of 20 releases where all rows were at the lower edge of their bin."""
    rng = np.random.default_rng(0)
    values = rng.gamma(3, 0.5, 4000).clip(0, 4.99)
    values = np.where(values < 1, 0.75, np.where(values < 2, 1.25, 3.5)) if are_at_cuts else values
    schema, held = {"x": Numeric(0, 5, edges=[0, 0.75, 1.25, 3.5, 5])}, []
    for seed in range(20):
        m2m = simulate(M2MEstimator(schema, random_state=0), values[:, None], seed=seed)
        low, high = np.transpose([m2m.mean("x").interval(), m2m.variance("x").interval()])
        truth = [values.mean(), values.var()]
        held.append((low <= truth) & (truth <= high))
    assert np.mean(held, axis=0).min() >= 0.8


@pytest.fixture(scope="module")
def pupils():
    rng = np.random.default_rng(0)
    school, sex = rng.choice(["a", "b", "c"], 4000, p=[0.3, 0.5, 0.2]), rng.choice(["f", "m"], 4000)
    score = (500 + 40 * (school == "a") + rng.normal(0, 80, 4000)).clip(0, 1000).round()
    weight = np.where(school == "c", 3.5, np.where(sex == "f", 1.25, 0.75))
    return pd.DataFrame({"school": school, "sex": sex, "score": score, "w": weight})


@pytest.mark.statistical
def test_totals_of_weighted_rows_are_held_and_add_up(pupils):
    """Noise that took rows from empty cells was lost: totals were up to 14 % too large."""
    by, weight = ["school", "sex"], Numeric(0.75, 3.5, step=0.25)
    schema = {"school": ["a", "b", "c"], "sex": ["f", "m"], "score": Numeric(0, 1000, step=1)}
    sketcher = AdaptiveSketcher(schema | {"w": weight}, workload=[[*by, "score", "w"]])
    truth = (pupils["w"] * pupils["score"]).groupby([pupils[c] for c in by]).sum().to_numpy()
    held, bias = [], []
    for seed in range(8):
        m2m = M2MEstimator.from_sketch(simulate(sketcher, pupils, seed=seed).sketch_)
        totals = m2m.total("score", by=by, survey_weight="w")
        low, high = np.moveaxis(totals._interval(0.95, "table"), -1, 0)
        held.append((low.ravel() <= truth) & (truth <= high.ravel()))
        table = m2m.table(by, survey_weight="w")
        mean = m2m.mean("score", by=by, survey_weight="w")
        bias.append([np.ravel(totals) / truth - 1, np.ravel(np.asarray(table * mean)) / truth - 1])
        whole = float(m2m.total("score", survey_weight="w"))
        assert np.asarray(totals).sum() == pytest.approx(whole, rel=0.02)
    assert np.mean(held) >= 0.9
    assert np.abs(np.mean(bias, axis=0)).max() < 0.06


@pytest.mark.statistical
def test_slopes_of_drawn_tables_survive_a_range_that_is_too_wide():
    """They were 0.6 of the truth; and shares by a category were off five times as far as said."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"visits": rng.poisson(6, 5000), "region": rng.choice(list("nsew"), 5000)})
    table["member"] = rng.choice(["no", "yes"], 5000)
    spend = 20 * table["visits"] + 60 * (table["member"] == "yes") + rng.gamma(2, 30, 5000)
    table["spend"] = spend.clip(0, 600).round()
    schema = {"visits": Numeric(0, 40, step=1), "region": list("nsew"), "member": ["no", "yes"]}
    schema["spend"] = Numeric(0, 600, step=1)

    def slope(frame):
        return np.polyfit(frame["visits"].astype(float), frame["spend"].astype(float), 1)[0]

    truth, found, held, spread = slope(table), [], [], []
    for seed in range(5):
        m2m = M2MEstimator.from_sketch(simulate(AdaptiveSketcher(schema), table, seed=seed).sketch_)
        tables, north = m2m.draw_tables(20), m2m.where(lambda rows: rows["region"] == "n")
        slopes = np.array([slope(one) for one in tables])
        shares = [np.mean(one["spend"][one["region"] == "n"] > 200) for one in tables]
        spread.append(np.std(shares, ddof=1) / north.cdf("spend", 200).std_error)
        found.append(slopes.mean())
        held.append(abs(slopes.mean() - truth) < 2.09 * np.sqrt(1.05 * slopes.var(ddof=1)))
    assert np.mean(found) == pytest.approx(truth, rel=0.2)
    assert np.mean(held) >= 0.8
    assert 0.7 < np.median(spread) < 1.4
