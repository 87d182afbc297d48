"""Columns of dates: read cell by cell, and told as dates again."""

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from refusals import refused
from scipy import sparse

from skdpsumm._bounded import parse_toml
from skdpsumm.moments import M2MEstimator
from skdpsumm.schema import Date, TableSchema
from skdpsumm.schema._reading import NoEstimator, validate_table
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher, RFFSketcher

DAYS = Date("2015-01-01", "2024-12-31", missing=True)
UTC = {step: Date("2015-01-01", "2024-12-31", step=step, zone="UTC") for step in ("day", "hour")}
# Instants without a zone, the last one missing, and what day of DAYS they are.
TEXTS = ["2015-01-01T00:00:00", "2020-02-29T23:59:59", "1969-12-31T23:59:59", "2200-01-01", "NaT"]
STEPS = [0, 1885, 0, 3652, np.nan]
CELLS = np.array(TEXTS, "M8[s]")


def read(column, table):
    """Return what a column reads of the first column of a table, as any estimator does."""
    schema = TableSchema(column)
    return schema.read(validate_table(NoEstimator(), table, schema=schema), 0)


def arrow(cells, zone=None):
    pa = pytest.importorskip("pyarrow")
    return pa.table({"d": cells if zone is None else pa.array(cells, pa.timestamp("s", zone))})


def arrow_times():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"d": pa.array([1, 2], pa.time32("s")), "x": [0.5, 0.5]})


UNITS = ["s", "ms", "us", "ns"]
FORMS = {
    **{f"numpy {u}": lambda u=u: CELLS.astype(f"M8[{u}]")[:, None] for u in [*UNITS, "m", "h"]},
    **{f"pandas {u}": lambda u=u: pd.DataFrame({"d": CELLS.astype(f"M8[{u}]")}) for u in UNITS},
    **{f"polars {u}": lambda u=u: pl.DataFrame({"d": CELLS.astype(f"M8[{u}]")}) for u in UNITS[1:]},
    **{f"arrow {u}": lambda u=u: arrow(CELLS.astype(f"M8[{u}]")) for u in UNITS},
    "numpy days": lambda: CELLS.astype("M8[D]")[:, None],
    "polars days": lambda: pl.DataFrame({"d": CELLS.astype("M8[D]")}),
    "arrow days": lambda: arrow(CELLS.astype("M8[D]")),
    "pandas of arrow": lambda: arrow(CELLS).to_pandas(types_mapper=pd.ArrowDtype),
    "python": lambda: [[cell] for cell in CELLS.astype("M8[us]").tolist()],
    "python days": lambda: [[cell] for cell in CELLS.astype("M8[D]").tolist()],
    "scalars of numpy": lambda: [[cell] for cell in CELLS],
    "scalars of pandas": lambda: pd.DataFrame({"d": list(pd.Series(CELLS))}, dtype=object),
    "words": lambda: [[text if text != "NaT" else None] for text in TEXTS],
    "words of pandas": lambda: pd.DataFrame({"d": pd.Series(TEXTS).replace("NaT", None)}),
    "words of polars": lambda: pl.DataFrame({"d": [*TEXTS[:4], None]}),
}


@pytest.mark.parametrize("name", FORMS)
def test_datetimes_of_all_kinds_are_the_same_days(name):
    np.testing.assert_array_equal(read(DAYS, FORMS[name]()), STEPS)


ZONED = {
    "pandas": lambda cells: pd.DataFrame({"d": pd.Series(cells).dt.tz_localize("UTC")}),
    "pandas, another zone": lambda cells: pd.DataFrame(
        {"d": pd.Series(cells).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}
    ),
    "polars": lambda cells: pl.DataFrame({"d": cells.astype("M8[us]")}).with_columns(
        pl.col("d").dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York")
    ),
    "arrow": lambda cells: arrow(cells, "Asia/Tokyo"),
    "python": lambda cells: [
        [cell and cell.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo("Asia/Tokyo"))]
        for cell in cells.tolist()
    ],
    "words": lambda cells: [[None if np.isnat(c) else f"{c}+00:00"] for c in cells],
}


@pytest.mark.parametrize("name", ZONED)
def test_cells_with_a_zone_are_read_by_one_clock(name):
    """The clock of Berlin, where a summer's 22:30 in UTC is a day later."""
    cells = np.array(["2020-07-31T22:30:00", "2020-01-31T22:30:00", "NaT"], "M8[s]")
    table, known = ZONED[name](cells), {"missing": True, "zone": "Europe/Berlin"}
    days = Date("2020-01-01", "2020-12-31", **known)
    expected = [datetime.date(2020, 8, 1), datetime.date(2020, 1, 31), None]
    assert days.decode(read(days, table)).tolist() == expected
    months = Date("2020-01", "2020-12", step="month", **known)
    np.testing.assert_array_equal(read(months, table), [7, 0, np.nan])
    hours = Date("2020-01-01", "2020-12-31", step="hour", **known)
    np.testing.assert_array_equal(read(hours, table), [213 * 24, 30 * 24 + 23, np.nan])
    refused(r"has cells with a time zone.*zone='Europe/Berlin'", read, DAYS, table)


STRANGE = {
    "nanoseconds": np.datetime64("2020-01-01T00:00:00.000000001", "ns"),
    "attoseconds": np.datetime64(1, "as"),
    "another zone": pd.Timestamp("2020-01-01 01:00", tz="Pacific/Auckland"),
    "no zone": pd.Timestamp("2020-01-01 01:00"),
    "the last moment": datetime.datetime.max.replace(tzinfo=ZoneInfo("America/New_York")),
    "the first moment": datetime.datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo")),
    "a date": datetime.date(9999, 12, 31),
    "a word": "2020-01-01T12:00:00.123456+13:00",
    "NaT": np.datetime64("NaT"),
    "not a time": pd.NaT,
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("step", ["hour", "month"])
def test_one_strange_row_moves_no_other(name, step):
    """What a row adds to a sum is the same in any company; and it is in the range."""
    zone = {"zone": "Asia/Tokyo", "missing": True}
    column = Date("2015-01", "2024-12", step=step, **zone)
    instants = pd.Series(pd.date_range("2016-03-04 05:06", periods=20, freq="37D"))
    alike = [instants, instants.dt.tz_localize("UTC"), instants.astype("datetime64[ns]")]
    for cells in alike:
        alone = read(column, pd.DataFrame({"d": cells}))
        beside = [
            pd.DataFrame({"d": pd.Series([*cells, STRANGE[name]], dtype=object)}),
            [[cell] for cell in [*cells, STRANGE[name]]],
        ]
        if isinstance(STRANGE[name], pd.Timestamp) and abs(STRANGE[name].year) < 2262:
            beside.append(pd.DataFrame({"d": pd.concat([cells, pd.Series([STRANGE[name]])])}))
        for table in beside:
            both = read(column, table)
            assert both[:20].tobytes() == alone.tobytes()
            assert np.isnan(both[20]) or 0 <= both[20] <= column.bounds[1]
    sketcher = HistogramSketcher(schema={"d": column}, n_bins=9, epsilon=np.inf)
    phi = [sketcher.fit(table).transform(table)[:20] for table in (beside[0][:20], beside[0])]
    np.testing.assert_array_equal(*phi)


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns", "ps", "fs", "as"])
@pytest.mark.parametrize("step", ["day", "month", "hour"])
def test_the_first_moments_of_a_unit_are_not_its_last(unit, step):
    first = np.array([np.iinfo(np.int64).min + 1]).view(f"M8[{unit}]")
    assert read(Date("1970-01-01", "2020-01-01", step=step), first[:, None]).tolist() == [0]


def test_masked_dates_are_missing():
    days = np.ma.MaskedArray(np.array([["2020-01-02"], ["2030-12-31"]], "M8[D]"), [[False], [True]])
    assert np.isnan(read(Date("2020-01-01", "2030-12-31", missing=True), days)).tolist() == [0, 1]
    refused("contains NaN", read, Date("2020-01-01", "2030-12-31"), days)


class Hostile(datetime.datetime):
    def to_datetime64(self):
        return np.zeros(51, "M8[s]")


class HostileWord(str):
    def __hash__(self):
        raise ValueError("secret")


def test_hostile_cells_are_no_dates_and_tell_nothing():
    for cell in (Hostile(2020, 1, 1), HostileWord("2020-1-1")):
        caught = refused("are no dates", read, DAYS, np.array([[cell], ["2020-01-01"]], object))
        assert "51" not in str(caught)
        assert "secret" not in str(caught)


NO_DATES = {
    "a number": 20200101,
    "a span": np.timedelta64(3, "D"),
    "a time": datetime.time(1, 2),
    "a word": "1 February 2020",
    "a week": "2020-W05-1",
    "a period": pd.Period("2020-01"),
    "no such day": "2021-02-29",
}


@pytest.mark.parametrize("name", NO_DATES)
def test_what_is_no_date_is_refused_before_the_charge(name, unpaid):
    for column in (DAYS, Date("2020-01-01", "2021-01-01", zone="UTC")):
        model = M2MEstimator({"d": column, "x": (0, 1)}, ledger=unpaid)
        X = pd.DataFrame({"d": pd.Series(["2020-01-01", NO_DATES[name]], dtype=object), "x": 0.5})
        caught = refused("Column 'd' holds cells that are no dates", model.fit, X)
        assert str(NO_DATES[name]) not in str(caught)
    refused("are no dates", model.fit, arrow_times())
    refused("'d' contains NaN", model.fit, pd.DataFrame({"d": ["2020-01-01", None], "x": 0.5}))
    refused("zero must stay zero", RFFSketcher(DAYS, gamma=1.0, ledger=unpaid).fit, sparse.eye(3))


def test_codes_of_missing_dates():
    column = Date("2020-01-01", "2020-12-31", missing_values=["9999-12-31", "unknown"])
    cells = [datetime.date(9999, 12, 31), "9999-12-31", "unknown", pd.NaT, "9999-12-30"]
    np.testing.assert_array_equal(read(column, [[c] for c in cells]), [np.nan] * 4 + [365])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Date("2020-01-01", "2020-01-01"), "low='2020-01-01' must be before"),
        (lambda: Date("2020", "2021"), "low='2020' is no date"),
        (lambda: Date(20200101, 20210101), "low=20200101 is no date"),
        (lambda: Date("2020-01-01", "2021-01-01", step="week"), "step='week' must be one of"),
        (lambda: Date("2020-01-01", "2021-01-01", zone="../x"), "no known time zone"),
        (lambda: Date("2020-01-01T00:00Z", "2021-01-01"), "low=.* is no date"),
        (lambda: Date("2020-01-01", "2021-01-01", missing_values=[-9]), "date=-9 is no date"),
        (lambda: Date("2020-01-01", "2021-01-01", missing_values="2020-05-05"), "2020-05-05.*lies"),
    ],
)
def test_wrong_columns_are_told(make, told):
    refused(told, make)


def people(n=4000):
    rng = np.random.default_rng(0)
    day = np.datetime64("2022-01-01") + rng.integers(0, 1096, n)
    frame = pd.DataFrame({"day": day, "sex": rng.choice(["f", "m"], n), "pay": rng.random(n)})
    return frame.assign(day=frame["day"].where(rng.random(n) < 0.9))


SCHEMA = {"day": Date("2022-01-01", "2024-12-31", missing=True), "sex": ["f", "m"], "pay": (0, 1)}


@pytest.fixture(scope="module")
def model():
    sketcher = AdaptiveSketcher(schema=SCHEMA, epsilon=np.inf, random_state=0)
    return M2MEstimator(release=sketcher, random_state=0).fit(people())


def test_answers_are_dates(model):
    day = people()["day"]
    found = model.mean("day")
    assert abs(found.value - np.datetime64(day.mean(), "D")) < np.timedelta64(5, "D")
    low, high = found.interval()
    assert low <= found.value <= high
    assert found.value == np.asarray(found) == found.dates.decode(np.array([float(found)]))[0]
    assert repr(found).startswith(f"{found.value} +- ")
    assert repr(found).endswith(" days (std error)")
    assert (found - model.quantile("day", 0.5)).dates is None
    for answer in (model.mean("day", by="sex"), model.quantile("day", [0.1])):
        frame = answer.to_frame(0.9)
        assert all(frame[name].dtype.kind == "M" for name in ("value", "low", "high"))
    assert model.describe()["mean"][0] == str(found.value)
    assert list(model.mean().labels[0]) == ["pay"]
    refused(r"Column 'day' holds dates.*no totals", model.total, "day")
    refused(r"Column 'day' holds dates.*moments", model.moment, 2, "day")
    refused(r"Column 'day' holds dates.*by itself", model.mean, ["pay", "day"])


def test_bins_and_thresholds_are_dates(model):
    day = people()["day"].dropna()
    years = model.histogram("day", "year")
    assert years.labels == (("2022", "2023", "2024"),)
    shares = day.dt.year.value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(years, shares, atol=0.02)
    months = model.table(["sex", "day"], bins={"day": "month"})
    assert months.shape == (2, 36)
    hours = np.arange("2022-01-01", "2022-01-05", dtype="M8[h]")
    at = Date("2022-01-01", "2022-01-04T23", step="hour")
    asked = M2MEstimator(schema={"at": at}, epsilon=np.inf).fit(hours[:, None])
    np.testing.assert_allclose(asked.histogram("at", "day"), [0.25] * 4)
    each = asked.histogram("at", "hour")
    np.testing.assert_allclose(each, [1 / 96] * 96)
    assert each.labels[0][95] == "2022-01-04T23"
    days = model.table("day", bins={"day": "day"})
    assert days.shape == (1096,)
    exact = day.dt.strftime("%Y-%m-%d").value_counts().reindex(days.labels[0], fill_value=0)
    low, high = days[...].interval(0.95).T
    assert np.mean((low <= exact) & (exact <= high)) > 0.9
    assert months.labels[1][::35] == ("2022-01", "2024-12")
    cuts = ["2022-01-01", datetime.date(2023, 7, 1), pd.Timestamp("2024-12-31")]
    half = model.histogram("day", cuts)
    assert half.labels == (("[2022-01-01, 2023-07-01)", "[2023-07-01, 2024-12-31]"),)
    share = float(model.cdf("day", "2023-06-30"))
    assert share == pytest.approx(float(half[0]))
    assert share == pytest.approx(np.mean(day < "2023-07-01"), abs=0.02)
    with pytest.raises(ValueError, match=r"outside the range \(2022-01-01, 2024-12-31\)"):
        model.histogram("day", ["2021-01-01", "2024-01-01"])
    refused(r"'day', 'month' or 'year' for dates; got 'year'", model.histogram, "pay", "year")


def test_combinations_of_dates_are_ruled_out():
    rule = {"day": ["2022-01-01", datetime.date(2022, 12, 31)], "sex": ["f"]}
    schema = TableSchema(SCHEMA).never(rule)
    assert "{'day': ['2022-01-01', '2022-12-31'], 'sex': ['f']}" in repr(schema)
    assert TableSchema.from_tables(parse_toml(schema.to_toml())) == schema
    assert TableSchema.from_dict(schema.to_dict()) == schema
    frame = people().query("sex == 'm' or day > '2022-12-31'")
    m2m = M2MEstimator(schema, epsilon=1.0, random_state=0).fit(frame)
    assert float(m2m.table(["day", "sex"], bins={"day": "year"})["2022", "f"]) == 0
    with pytest.raises(ValueError, match="never, 'day', 'sex': date='x' is no date"):
        schema.never({"day": ["x", "2022-01-01"], "sex": ["f"]})


def test_conditions_take_dates(model):
    day = people()["day"]
    expected = np.sum((day >= "2023-01-01") & (day <= "2023-12-31"))
    for condition in (
        lambda rows: (rows["day"] >= "2023-01-01") & (rows["day"] < datetime.date(2024, 1, 1)),
        lambda rows: rows["day"].between(np.datetime64("2023-01-01"), pd.Timestamp("2023-12-31")),
        lambda rows: rows["day"].astype("M8[Y]") == np.datetime64("2023"),
    ):
        assert float(model.count(condition)) == pytest.approx(expected, rel=0.05)
        rows = model.where(condition).sample(50, random_state=0)
        assert set(rows["day"].dt.year) == {2023}
    lacking = float(model.count(lambda rows: rows["day"].isna()))
    assert lacking == pytest.approx(day.isna().sum(), rel=0.05)
    some = ["2022-03-01", datetime.date(2023, 3, 1), pd.Timestamp("2024-03-01")]
    rows = model.where(lambda rows: rows["day"].isin(some)).sample(50, random_state=0)
    assert {*rows["day"]} <= {*map(pd.Timestamp, some)}


def test_rows_that_are_drawn_hold_dates(model):
    for rows in (model.sample(30, random_state=0), model.draw_tables(1, 30)[0]):
        present = rows["day"].dropna()
        assert rows["day"].dtype.kind == "M"
        assert len(present)
        assert present.between("2022-01-01", "2024-12-31").all()
    unnamed = M2MEstimator([*SCHEMA.values()], epsilon=np.inf, random_state=0)
    array = unnamed.fit(people().to_numpy()).sample(9, random_state=0)
    assert all(cell is None or type(cell) is datetime.date for cell in array[:, 0])
    cells = people(500).astype(object).where(lambda frame: frame.notna(), None)
    frame = pl.DataFrame({name: column.tolist() for name, column in cells.items()})
    polars = M2MEstimator(SCHEMA, random_state=0).fit(frame)
    assert polars.sample(9, random_state=0)["day"].dtype == pl.Date
    assert polars.mean("day", by="sex").value["value"].dtype == pl.Date
    assert polars.describe()["mean"].dtype == pl.Utf8  # numbers beside dates are words
