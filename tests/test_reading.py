"""What a cell becomes is a matter of that cell: one row more changes no other, in any container."""

import datetime
from collections import deque
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import from_dtype
from refusals import refused
from sklearn.base import clone

from skdpsumm.learners import PINPClassifier, TDDLClassifier, TDILClassifier
from skdpsumm.model_selection import PrivateSearchCV
from skdpsumm.moments import M2MClassifier
from skdpsumm.schema import Categorical, Numeric, TableSchema, _reading
from skdpsumm.schema._columns import check_listed
from skdpsumm.schema._reading import NoEstimator, read_column, read_table, validate_table
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher

BIG = 2**53
NAMES = ["kind", "size", "rate"]
NUMPY = [
    *("bool", "int8", "int16", "int32", "int64", "uint8"),
    *("uint64", "float16", "float32", "float64", "longdouble"),
]
NUMPY += ["complex128", "M8[D]", "M8[ns]", "m8[s]", "m8[ns]", "U3", "S3"]

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.sampled_from([BIG, BIG + 1, -BIG - 1, 2**63, 2**64, 10**400, 0.1, 1 / 3, -0.0, 1.7e308]),
    st.floats(-1e300, 1e300),
    st.booleans(),
    st.decimals(-(10**15), 10**15, places=4),  # longer ones have polars panic
    st.fractions(),
    *(from_dtype(np.dtype(name), allow_nan=False, allow_infinity=False) for name in NUMPY[:11]),
)
ANYTHING = st.one_of(
    NUMBERS,
    st.none(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.floats(),
    st.complex_numbers(),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.sampled_from(["1", "0.5", "1e3", "nan", "True", "a", "a\0", pd.NA, pd.NaT]),
    st.sampled_from([pd.Timestamp("2020-01-01 00:00:00.000000001"), {"a": 1}, [1.0], object()]),
    *(from_dtype(np.dtype(name)) for name in NUMPY),
)
LISTS = [(0, 1, 2), ("a", "b", "1"), (0.5, 1, 7), (1, 2, "3+"), (BIG, BIG + 2, 0), (True, False)]


def frame(rows):
    return pd.DataFrame({name: [row[j] for row in rows] for j, name in enumerate(NAMES)})


def objects(rows):
    table = np.empty((len(rows), len(NAMES)), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            table[i, j] = cell
    return table


def in_polars(rows):
    if any(isinstance(cell, Decimal) and cell.is_nan() for row in rows for cell in row):
        raise ValueError("polars panics")
    columns = {name: [row[j] for row in rows] for j, name in enumerate(NAMES)}
    return pl.DataFrame(columns, strict=False)


def _joined(two):
    return pl.concat(two, how="vertical_relaxed")


def stacked(kind, join):
    """Return a function of some rows and one more, which joins two tables."""
    return lambda rows, one: join([kind(rows), kind([one])])


# The rest of the rows, and how a table grows by one row at its end.
GROWN = {
    "list": (list, lambda rows, one: [*rows, one]),
    "arrays in a list": (lambda rows: [np.array(row) for row in rows], None),
    "array": (np.array, None),
    "arrays joined": (np.array, stacked(np.array, np.concatenate)),
    "objects": (objects, None),
    "pandas": (frame, None),
    "pandas joined": (frame, stacked(frame, lambda two: pd.concat(two, ignore_index=True))),
    "pandas converted": (frame, lambda rows, one: frame([*rows, one]).convert_dtypes()),
    "polars": (in_polars, None),
    "polars joined": (in_polars, stacked(in_polars, _joined)),
}


def read(table, columns):
    """Return what each row becomes; None for a table that is refused."""
    try:
        X = validate_table(NoEstimator(), table, schema=columns)
        if columns is None:
            return X
        return np.column_stack([columns.read(X, j) for j in range(3)])
    except (TypeError, ValueError):
        return None


def rounded(rows, table):
    """Whether pandas rounded numpy's integers, for float32 beside int32 makes float32 in a list."""
    return isinstance(table, pd.DataFrame) and any(
        str(table[name].dtype).lower() in ("float16", "float32")
        and any(isinstance(row[j], np.integer) for row in rows)
        for j, name in enumerate(NAMES)
    )


def made(make):
    try:
        return make()
    except Exception:  # a container that cannot hold such rows
        return None


ABSENT = st.sampled_from([None, np.nan, pd.NA, np.float32("nan"), Decimal("nan")])


@pytest.mark.one_in(3)
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of the libraries that make the containers
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("listed", ["no schema", None, *LISTS], ids=str)
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_one_row_changes_no_other(listed, missing, data):
    number = Numeric(-1e9, 1e9, missing=missing)
    known, columns = isinstance(listed, tuple), None
    if listed != "no schema":
        first = Categorical(listed, missing=missing) if known else number
        columns = TableSchema([first, number, Numeric(missing=missing)])
    cells = (st.sampled_from(listed) if known else NUMBERS, NUMBERS, NUMBERS)
    cells = tuple(cell | ABSENT for cell in cells) if missing else cells
    rows = data.draw(st.lists(st.tuples(*cells), min_size=1, max_size=3))
    strange = data.draw(st.integers(0, 2))  # where the new row holds anything at all
    one = data.draw(st.tuples(*[ANYTHING if j == strange else c for j, c in enumerate(cells)]))
    for name, (make, grow) in GROWN.items():
        before = made(lambda make=make: make(rows))
        after = made(lambda make=make, grow=grow: grow(rows, one) if grow else make([*rows, one]))
        if before is None or after is None or rounded(rows, before) or rounded(rows, after):
            continue
        codes, more = read(before, columns), read(after, columns)
        if codes is not None and more is not None:
            assert np.array_equal(more[:-1], codes, equal_nan=True), (name, rows, one)


@pytest.mark.parametrize("strange", [0.5, BIG + 1, 2**63, -1, True, "3", np.float32(0.1)])
@pytest.mark.parametrize("kind", [HistogramSketcher, RACESketcher, RFFSketcher])
def test_large_integers_are_no_categories(kind, strange, unpaid):
    """float64 takes 2**53 + 1 for 2**53: with one fraction in the table all rows were others."""
    sketcher = kind(schema=[[BIG, BIG + 1], (0, 9)], delta=0, ledger=unpaid)
    with pytest.raises(ValueError, match=r"float64 cannot hold.*as a word.*astype\(str\)"):
        sketcher.fit([[BIG + 1, 1.0], [BIG, strange]])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "1"], "lists '1' beside numbers"),
        ([True, "no", "TRUE"], "lists 'TRUE' beside numbers"),
        (["a", "a\0"], "drops a NUL"),
        ([np.datetime64("2020-01-01"), np.datetime64("2020-01-02")], "a datetime64; list words"),
        ([np.timedelta64(1, "ns"), 2], "a timedelta64; list words"),
        ([0, np.inf], "inf, which float64 cannot hold"),
        ([0.0, -0.0], "twice"),
    ],
)
def test_values_that_a_container_may_confuse_are_not_listed(values, message):
    refused(message, check_listed, "categories", values)
    refused(message, TDILClassifier(classes=values).fit, [[0.0], [1.0]], [0, 1])
    refused(message, Categorical, values)
    assert check_listed("categories", [0, 1, 2, "3+", "or more"]) == (0, 1, 2, "3+", "or more")


TIMES = {
    "numpy": np.array([["2020-01-01"], ["2020-01-02"]], "M8[D]"),
    "list": [[datetime.date(2020, 1, 1)], [datetime.datetime(2020, 1, 2)]],
    "list of numpy": [[np.datetime64("2020-01-01")], [np.timedelta64(3, "s")]],
    "pandas": pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
    "pandas zone": pd.DataFrame({"t": pd.to_datetime(["2020-01-01"] * 2, utc=True)}),
    "polars": pl.DataFrame({"t": [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)]}),
}


@pytest.mark.parametrize("name", TIMES)
def test_dates_and_times_are_refused(name, unpaid):
    """A datetime with finer digits than the rest multiplied a whole column by a thousand."""
    for known in ((0, 1e20), Numeric(0, 1, missing=True), [[1, 2]]):
        sketcher = HistogramSketcher(schema=known, delta=0, ledger=unpaid)
        refused("dates or times", sketcher.fit, TIMES[name])
    refused(r"dates or times.*Date\(", TDILClassifier(ledger=unpaid).fit, TIMES[name], [0, 1])


def test_words_are_no_numbers():
    """As a word, a float32 has other digits than as a number: 0.1 and 0.10000000149."""
    for X in ([["1.5"]], np.array([["1.5"]]), pd.DataFrame({"x0": ["1.5"]})):
        refused("column 'x0'", validate_table, NoEstimator(), X)


def test_a_table_that_is_not_computed_is_told_how():
    search = PrivateSearchCV(TDILClassifier(), {}, expected_trials=2)
    with_schema = HistogramSketcher(schema=(0, 1)), M2MClassifier((0, 1))
    for model in (*with_schema, TDILClassifier(), search):
        with pytest.raises(ValueError, match=r"LazyFrame.*give X.collect\(\)"):
            model.fit(pl.LazyFrame({"a": [0.0, 1.0]}), [0, 1])


def test_short_floats_hold_the_categories_or_are_refused():
    columns = TableSchema([[2**24, 2**24 + 1]])
    assert columns.read(np.array([[2.0**24 + 1]]), 0).tolist() == [1]
    refused("float type that is too short", columns.read, np.array([[2.0**24]], np.float32), 0)


MANY = [2, *range(10, 41), 99]  # in order as numbers, not as words
LEARNERS = {
    "PINP": PINPClassifier(classes=MANY, gamma=1.0),
    "TDDL": TDDLClassifier(classes=MANY, schema=(0, 1)),
    "TDIL": TDILClassifier(classes=MANY),
    "M2M": M2MClassifier((0, 1), classes=MANY),
    "search": PrivateSearchCV(TDILClassifier(classes=MANY), {}, expected_trials=2),
}


@pytest.mark.parametrize("strange", ["11", "2", b"10", None, 2.5, BIG + 1, np.datetime64(10, "ns")])
@pytest.mark.parametrize("name", LEARNERS)
def test_one_label_changes_no_other(name, strange, unpaid):
    """With one word among the labels numpy made words of all, and each was sorted elsewhere."""
    X = np.linspace(0, 1, 41)[:, None]
    model = clone(LEARNERS[name])
    release = RFFSketcher(n_components=8, gamma=1.0, ledger=unpaid)
    payer = {"release": release} if name == "M2M" else {"ledger": unpaid}
    model.set_params(**payer)
    labels = [MANY[k % 33] for k in range(40)]
    for y in ([*labels, strange], np.array([*labels, strange], dtype=object)):
        refused(r".", model.fit, X, y, error=(ValueError, TypeError))


def test_cells_that_are_arrays_are_no_numbers(unpaid):
    pairs = pl.Series(np.zeros((5, 2)), dtype=pl.Array(pl.Float64, 2))
    frame = pl.DataFrame({"a": pairs, "c": ["x", "y", "x", "y", "x"]})
    sketcher = HistogramSketcher(schema={"a": (0, 1), "c": ["x", "y"]}, ledger=unpaid)
    refused("'a' holds other things than numbers: float", sketcher.fit, frame, error=TypeError)
    refused(r"olumn .a.", RFFSketcher(gamma=1.0, ledger=unpaid).fit, frame[["a"]], error=TypeError)


def test_an_engine_that_is_not_there_costs_nothing(monkeypatch, unpaid):
    monkeypatch.setenv("SKDPSUMM_ENGINE", "cuda")
    refused("SKDPSUMM_ENGINE", RACESketcher((0, 1), ledger=unpaid).fit, np.ones((5, 2)))


ODD = 2**53 + 1  # float64 rounds it to 2**53
INTEGERS = {
    "pandas": lambda cells, pa: pd.Series(cells, dtype="Int64"),
    "category": lambda cells, pa: pd.Series(cells, dtype="Int64").astype("category"),
    "polars": lambda cells, pa: pl.Series(cells, dtype=pl.Int64),
    "Arrow": lambda cells, pa: pa.array(cells, pa.int64()),
    "Arrow in pandas": lambda cells, pa: pd.Series(cells, dtype=pd.ArrowDtype(pa.int64())),
    "Arrow dictionary": lambda cells, pa: pa.array(cells, pa.int64()).dictionary_encode(),
    "Arrow runs": lambda cells, pa: pa.RunEndEncodedArray.from_arrays(
        range(1, len(cells) + 1), pa.array(cells, pa.int64())
    ),
}


def integers(kind, cells):
    """Return a column of large whole numbers, in any container."""
    pa = pytest.importorskip("pyarrow") if "Arrow" in kind else None
    return INTEGERS[kind](cells, pa)


def pa_table(column):
    return pytest.importorskip("pyarrow").table({"id": column})


@pytest.mark.parametrize("kind", INTEGERS)
def test_a_missing_cell_rounds_no_other(kind):
    """One row without a number made floats of all others, so that others were accepted."""
    column = read_column(integers(kind, [ODD, 0, None, ODD]))
    assert [*column[:2], column[3]] == [ODD, 0, ODD]
    schema = TableSchema({"id": Categorical([ODD - 1, 0], missing=True)})
    for cells in ([ODD, 0], [ODD, 0, None]):
        column = integers(kind, cells)
        X = column.to_frame("id") if hasattr(column, "to_frame") else pa_table(column)
        refused(r"not listed|categories", HistogramSketcher(schema, epsilon=1).fit, X)
    with pytest.raises(_reading.CellError, match="not hold exactly"):
        _reading.read_labels(integers(kind, [ODD, 0]))


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_two_columns_of_one_name_are_refused(library, unpaid):
    cells, names = np.tile([0.1, 0.2, 0.3], (30, 1)), ["a", "a", "b"]
    X = pd.DataFrame(cells, columns=names)
    if library == "pyarrow":
        X = pytest.importorskip(library).table([*cells.T], names=names)
    schema = {"a": (0, 5), "b": (0, 1)}
    learner = TDILClassifier(schema=schema, classes=[0, 1])
    search = PrivateSearchCV(learner, {"norm_bound": [1.0, 2.0]}, ledger=unpaid)
    for model in (search, clone(learner).set_params(ledger=unpaid)):
        refused("two columns of one name", model.fit, X, [0, 1] * 15)


def one_more(make, cells, more):
    """Return what a column's cells are read as, without and with one more."""
    pa = pytest.importorskip("pyarrow")
    first, second = (read_column(make(pa, column)).tolist() for column in (cells, [*cells, more]))
    return first, second[: len(cells)]


def truth_values(pa, cells):
    if not hasattr(pa, "bool8"):
        pytest.skip("needs pyarrow 18")
    return pa.ExtensionArray.from_storage(pa.bool8(), pa.array(cells, pa.int8()))


def words_of_a_type(pa, cells):
    class Words(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.dictionary(pa.int32(), pa.string()), "skdpsumm.words")

        def __arrow_ext_serialize__(self):
            return b""

    return pa.ExtensionArray.from_storage(Words(), pa.array(cells).dictionary_encode())


@pytest.mark.parametrize(
    ("make", "cells", "more"),
    [(truth_values, [2, 3, 100, 0], None), (words_of_a_type, ["a", None, None], "c")],
)
def test_a_type_of_its_own_is_read_cell_by_cell(make, cells, more):
    first, second = one_more(make, cells, more)
    assert first == second


def test_no_error_of_a_conversion_is_told():
    pa = pytest.importorskip("pyarrow")
    damaged = pa.array(["secret\0", "b"]).buffers()
    words = pa.StringArray.from_buffers(2, damaged[1], pa.py_buffer(b"secret\xffb"))
    days = pa.array([2**30, 0], pa.int32()).cast(pa.date32())
    for column in (words, days):
        with pytest.raises(ValueError, match=r"column|Column|dates") as caught:
            HistogramSketcher({"c": ["a", "b"]}).fit(pa.table({"c": column}))
        with pytest.raises(_reading.CellError) as told:
            _reading.read_labels(column)
        for error in (caught.value, told.value):
            assert "secret" not in repr(error)
            assert error.__cause__ is None


@pytest.mark.parametrize("rows", [list, tuple, deque])
def test_rows_of_any_sequence_are_read_cell_by_cell(rows):
    """A cell that only seems to be a row, or rows in no list, had numpy's common dtype."""
    schema = TableSchema([Categorical(["1", "True", "nan"], missing=True)])
    assert schema.read(read_table(rows([["1"], [np.nan]])), 0).tolist() == [0, 3]
    seems_a_row = read_table(rows([[np.array("1")], [np.nan]]))
    assert seems_a_row.dtype == object
    assert _reading.is_missing(seems_a_row[1, 0])


def test_an_array_of_another_library_is_read_as_numpy_does():
    rows = np.arange(6.0).reshape(3, 2)
    pa = pytest.importorskip("pyarrow")
    assert validate_table(NoEstimator(), pa.Tensor.from_numpy(rows)).tolist() == rows.tolist()


def test_halves_of_a_character_are_no_text():
    """Two of them are one character in a file, so that two categories would be one there."""
    half = "\ud83d\ude00"
    for make in (
        lambda: Categorical([half, "b"]),
        lambda: TableSchema({half: (0, 1)}),
        lambda: Numeric(0, 1, unit=half),
    ):
        refused("UTF-8", make)


class Raising(float):
    """A number that answers no question but with a secret."""

    def as_integer_ratio(self):
        raise RuntimeError("4711")

    def __float__(self):
        raise ValueError("4711")


def test_a_cell_that_raises_is_a_value_that_nobody_listed():
    cells = np.array(["a", Raising(0.5)], object)[:, None]
    known = TableSchema([Categorical(["a", "b"], other=True)])
    assert known.read(read_table(cells), 0).tolist() == [0, 2]


def test_what_a_cell_raises_is_not_told():
    cells = np.array([Raising(0.5), 1], object)
    rows = np.zeros((2, 1))
    for read in (
        lambda: validate_table(NoEstimator(), cells[:, None]),
        lambda: validate_table(NoEstimator(), rows, cells),
        lambda: validate_table(NoEstimator(), rows, cells, y_numeric=True),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            read()
        error = caught.value
        while error is not None:
            assert "4711" not in str(error)
            error = error.__cause__ or error.__context__
