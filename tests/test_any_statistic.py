"""Any statistic with an interval, whole plausible tables, survey weights and a frame of columns."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from answers import holds
from refusals import refused

from skdpsumm import AnswerWarning, HistogramSketcher, M2MEstimator, Numeric, TableSchema
from skdpsumm.moments._numbers import N_TABLES

SCHEMA = {"sex": ["f", "m"], "age": Numeric(18, 64, step=1), "hours": Numeric(0, 60, step=1)}
SCHEMA |= {"pay": (0, 200_000), "w": Numeric(0, 4, step=1)}
pytestmark = pytest.mark.simulated(0)


def people(n=9000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "age": rng.integers(18, 65, n)})
    frame["hours"] = rng.binomial(60, np.where(frame["sex"] == "f", 0.5, 0.7))
    frame["pay"] = np.round(rng.lognormal(8 + frame["hours"] / 40, 1), 2).clip(max=200_000)
    frame["w"] = np.where(frame["sex"] == "f", 2, 1)
    return frame


@pytest.fixture(scope="module")
def m2m():
    return M2MEstimator(SCHEMA, random_state=0).fit(people())


def gini(rows, weights):
    x = np.asarray(rows["pay"], float)
    order = np.argsort(x)
    some, money = np.cumsum(weights[order]), np.cumsum((weights * x)[order])
    return 1 - 2 * np.trapezoid(money / money[-1], some / some[-1])


def test_a_statistic_is_that_of_the_rows(m2m):
    rows = people()
    answer = m2m.statistic(gini, "pay")
    assert holds(answer, gini(rows, np.ones(len(rows))))
    assert float(answer.std_error) < 0.05


def test_a_function_gets_frames_and_weights_that_it_can_use(m2m):
    seen = []

    def look(rows, weights):
        seen.append((rows.copy(), weights))
        rows["sex"] = "nobody"  # what it does to one frame, no other shows
        return weights.sum()

    m2m.statistic(look, ["sex", "hours"]).interval()
    assert len(seen) == 1 + N_TABLES  # once for the model, once for each plausible table
    for rows, weights in seen:
        assert (list(rows.columns), set(rows["sex"])) == (["sex", "hours"], {"f", "m"})
        assert rows["hours"].dtype == np.int64
        assert weights.shape == (len(rows),)
        assert np.all((weights >= 0) & (weights < np.inf))


def assert_near(found, signed, part=0.25):
    """Assert that plausible tables are off by a part of their deviation, as a whole."""
    found, signed = found.tables(), signed.tables()
    assert np.all(np.mean((found - signed) ** 2, axis=0) < part**2 * np.var(signed, axis=0))


def test_counts_and_means_are_those_of_the_signed_tables(m2m):
    """Clipping negative weights moves the mean of a long tail; calibration moves it back."""
    mean = m2m.statistic(lambda rows, w: np.average(rows["pay"], weights=w), "pay")
    assert_near(mean, m2m.mean("pay"))
    share = m2m.statistic(lambda rows, w: w[rows["sex"] == "f"].sum() / w.sum(), ["sex", "pay"])
    women = m2m.table("sex", normalize=True)
    np.testing.assert_allclose(share.tables(), women.tables()[:, 0], atol=1e-5)


@pytest.mark.parametrize("columns", [["pay"], ["pay", "hours"]])
def test_noise_in_a_long_tail_does_not_move_the_body(columns):
    """Noise moves the mean of a wide range by more than all of the body."""
    wide = M2MEstimator(SCHEMA | {"pay": (0, 2_000_000)}, random_state=0).fit(people())
    share = wide.statistic(lambda rows, w: w[rows["pay"] <= 7000].sum() / w.sum(), columns)
    assert_near(share, wide.cdf("pay", 7000), 0.7)


def test_numbers_go_together_as_in_the_signed_tables(m2m):
    """Clipping negative weights alone makes variances larger, and correlations nearer to 0."""

    def products(rows):
        x, y = np.asarray(rows["age"], float), np.asarray(rows["pay"], float)
        return np.column_stack([x * x, x * y, y * y])

    for some in (m2m, m2m.where(lambda rows: rows["age"] >= 50)):
        kept = some.statistic(lambda rows, w: np.average(products(rows), 0, w), ["age", "pay"])
        assert_near(kept, some.estimate(products))


def test_tables_are_whole_rows_of_the_schema(m2m):
    tables = m2m.draw_tables(3)
    assert [len(one) for one in tables] == [round(m2m.sketch_.n_samples)] * 3
    means = m2m.mean("pay").tables()
    for one in tables:
        assert (list(one.columns), one["hours"].dtype) == (list(SCHEMA), np.int64)
        assert one["age"].between(18, 64).all()
        assert (one["pay"] <= 2000).mean() == pytest.approx(float(m2m.cdf("pay", 2000)), abs=0.02)
    drawn = np.array([one["pay"].mean() for one in tables])
    assert np.ptp(drawn) > 0
    assert np.all(np.abs(drawn - means.mean()) < 6 * means.std())
    assert len(m2m.draw_tables(1, 50)[0]) == 50
    pd.testing.assert_frame_equal(m2m.draw_tables(1)[0], tables[0])


def test_rows_count_by_their_survey_weight(m2m):
    rows = people()
    truth = np.average(rows["hours"], weights=rows["w"])
    answer = m2m.mean("hours", survey_weight="w")
    assert holds(answer, truth)
    assert abs(truth - rows["hours"].mean()) > 5 * float(answer.std_error)
    assert holds(m2m.total("hours", survey_weight="w"), np.sum(rows["hours"] * rows["w"]))
    assert holds(m2m.table("sex", normalize=True, survey_weight="w")["f"], 2 / 3)
    assert float(m2m.quantile("hours", 0.5, survey_weight="w")) < float(m2m.quantile("hours", 0.5))
    assert float(m2m.count(survey_weight="w")) == pytest.approx(float(m2m.total("w")))
    women = m2m.count(lambda rows: rows["sex"] == "f", survey_weight="w")
    assert float(women) == pytest.approx(float(m2m.count(by="sex", survey_weight="w")["f"]))
    refused("not how they were chosen", answer.interval, covers="population")


def test_a_frame_describes_all_columns(m2m):
    rows, found = people(), m2m.describe().set_index("column")
    assert list(found.index) == list(SCHEMA)
    assert abs(found.loc["age", "mean"] - rows["age"].mean()) < 1
    assert found.loc["age", "25 %"] <= found.loc["age", "median"] <= found.loc["age", "75 %"]
    assert found.loc["sex", "most frequent"] in ("f", "m")
    assert found.loc["sex", "share"] == pytest.approx(0.5, abs=0.02)
    assert np.isnan(found.loc["sex", "mean"])


# ------------------------------------------------------------------------------ a part of the rows


def old_women(rows):
    return (rows["sex"] == "f") & (rows["age"] >= 40)


def test_questions_about_a_part_of_the_rows_have_its_answers(m2m):
    part = people()[old_women(people())]
    some = m2m.where(old_women)
    asked = [(some.mean("hours"), part["hours"].mean()), (some.total("hours"), part["hours"].sum())]
    asked += [(some.count(lambda r: r["hours"] > 30), (part["hours"] > 30).sum())]
    asked += [(some.quantile("hours", 0.5), part["hours"].median())]
    asked += [(some.estimate(lambda r: r["pay"] > 5000), (part["pay"] > 5000).mean())]
    for k, (answer, truth) in enumerate(asked):
        assert holds(answer, truth, 0.999), k
    assert old_women(some.sample(1000)).all()


def test_conditions_join_and_travel(m2m):
    """A pickle and a copy ask the same; a condition that cannot be pickled says so."""
    some = m2m.where(lambda rows: rows["sex"] == "f").where(lambda rows: rows["age"] >= 40)
    named = m2m.where(old_women)
    for one in (some, pickle.loads(pickle.dumps(named)), copy.deepcopy(named)):
        assert float(one.mean("hours")) == pytest.approx(float(named.mean("hours")), rel=1e-6)
    refused("lambda", pickle.dumps, some, error=(pickle.PicklingError, AttributeError))
    refused("holds nowhere", m2m.where, lambda rows: rows["age"] > 64, error=AnswerWarning)


def test_answers_about_nobody_say_so_and_rows_that_are_ruled_out_are_in_none():
    """Bins are cut elsewhere, so that some hold rows of both sorts."""
    schema, rows = TableSchema(SCHEMA).never({"age": [40, 64], "sex": ["f"]}), people()
    sketcher = HistogramSketcher(schema=schema, marginals=2, n_bins=8)
    some = M2MEstimator(release=sketcher, random_state=0).fit(rows[~old_women(rows)])
    for drawn in (some.sample(9000, 0), *some.draw_tables(1)):
        assert not old_women(drawn).any()
    nobody = some.where(old_women)
    assert nobody.count() == 0
    assert np.isnan(nobody.statistic(gini, ["pay", "w"]))
    nobody._drawn = None  # it takes seconds to draw rows of which none are kept
    refused("no row meets it", nobody.sample, 5)
    refused("no row meets it", nobody.draw_tables, 1)
    rich = some.where(lambda rows: rows["pay"] > 20_000)
    for few in (*rich.draw_tables(1), *rich.draw_tables(1, 30)):
        assert set(few["pay"] > 20_000) == {True}
    assert len(few) == 30
    assert nobody.describe()["most frequent"].isna().all()


def test_groups_of_several_columns_have_an_axis_each(m2m):
    refused("by names a column twice", m2m.mean, "hours", by=["sex", "sex"])
    rows = people()
    answer = m2m.mean("hours", by=["sex", "age"], bins={"age": [18, 40, 64]})
    old = rows["age"] >= 40
    for i, sex in enumerate("fm"):
        for k, part in enumerate((~old, old)):
            assert holds(answer[i, k], rows["hours"][part & (rows["sex"] == sex)].mean(), 0.999)


def test_a_survey_weight_is_checked(m2m):
    """It must be counted with the column, and be no negative number."""
    refused("not numeric", m2m.mean, "hours", survey_weight="sex")
    other = M2MEstimator(SCHEMA | {"w": Numeric(-1, 4, step=1)}, random_state=0).fit(people(500))
    refused("survey_weight must not be negative", other.mean, "hours", survey_weight="w")
    alone = M2MEstimator(release=HistogramSketcher(schema=SCHEMA, marginals=1), random_state=0)
    with pytest.warns(AnswerWarning, match="survey_weight in no group"):
        alone.fit(people()).mean("hours", survey_weight="w")
