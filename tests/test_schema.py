"""One public description of a table: what it takes, what it says, and what it makes of cells."""

import copy
import dataclasses
import pickle
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refusals import refused
from sklearn.base import clone

from skdpsumm._bounded import parse_toml
from skdpsumm.features._feature_maps import GRID, HistogramMap
from skdpsumm.schema import Categorical, Numeric, TableSchema
from skdpsumm.schema._reading import NoEstimator, validate_table
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion

quick = settings(deadline=None, database=None, derandomize=True, max_examples=60)

AGE, JOB = Numeric(17, 90, step=1), Categorical(["clerk", "farmer"], missing=True)
PEOPLE = TableSchema({"age": AGE, "hours": (0, 99), "job": JOB})
NEVER = PEOPLE.never({"job": ["farmer"], "age": [17, 20]})


# ------------------------------------------------------------------------------------ what it takes


def from_toml(text):
    """Return the schema that a text describes."""
    return TableSchema.from_tables(parse_toml(text))


def test_shorthands_stand_for_columns():
    given = {"age": (17, 90), "job": ["clerk", "farmer"], "sex": Categorical(["F", "M"])}
    schema = TableSchema(given)
    assert schema.names == tuple(given)
    assert schema.columns == (Numeric(17, 90), Categorical(["clerk", "farmer"]), given["sex"])
    assert schema["age"] == schema[0] == Numeric(17.0, 90.0)
    assert TableSchema(list(given.values())).columns == schema.columns
    for one in ((0, 1), (np.int8(0), np.float32(1)), (Fraction(0), 1), Numeric(0, 1)):
        assert TableSchema(one) == TableSchema((0, 1))
    for_all = TableSchema(["a", "b"] and Categorical(["a", "b"])).for_table(3)
    assert for_all.columns == (Categorical(["a", "b"]),) * 3


WRONG = {
    "nothing": (None, "A schema must be"),
    "a number": (3.0, "A schema must be"),
    "no columns": ([], "A schema must be"),
    "mixed keys": ({"a": (0, 1), 1: (0, 1)}, "keys of a schema must be names"),
    "a truth value for a position": ({True: (0, 1)}, "keys of a schema must be names"),
    "nothing of a column": ({"age": None}, "column 'age'.*does not describe a column"),
    "a range that falls": ({"age": (1, 0)}, "column 'age': low and high must be two finite"),
    "a range without end": ({"age": (0, np.inf)}, "column 'age': low and high must be two finite"),
    "a range that overflows": ({"age": (-1e308, 1e308)}, "low and high must be two finite"),
    "a range of one value": ({"age": (5, 5)}, "Leave a column out that has a single value"),
    "for all columns": ((1, 0), "schema, all columns: low and high"),
    "one category": ({"job": ["a"]}, "column 'job': categories lists 1 value"),
    "a category twice": ({"job": [1, True]}, "column 'job': categories lists True twice"),
    "a missing category": ({"job": ["a", None]}, "column 'job': categories lists a missing"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_anything_else_is_an_error_that_names_the_column(given, message):
    refused(message, TableSchema, given)
    # A sketcher says the same, before anything else.
    if given is not None:
        refused(message, RFFSketcher(given).fit, [["not looked at"]])


WRONG_COLUMNS = {
    "a range of words": (lambda: Numeric("0", "1"), "must be two finite numbers"),
    "a range of tables": (lambda: Numeric(np.zeros(2), 1), "must be two finite numbers"),
    "a step without a range": (lambda: Numeric(step=1), "needs low and high"),
    "a step beyond floats": (lambda: Numeric(0, 1, step=10**400), "positive number"),
    "a step that misses the end": (lambda: Numeric(0, 1, step=0.3), "leads from one end"),
    "a step too fine": (lambda: Numeric(0, 1e9, step=1e-9), "finer than float64"),
    "edges that fall": (lambda: Numeric(edges=[0, 2, 1]), "increasing"),
    "no edges": (lambda: Numeric(0, 1, edges=5), "edges must be a list"),
    "edges beyond the range": (lambda: Numeric(0, 1, edges=[0, 2]), "begin and end at"),
    "a bin without a value": (lambda: Numeric(edges=[0, 0.2, 0.4, 2], step=1), "without a value"),
    "missing by a word": (lambda: Numeric(0, 1, missing="yes"), "missing must be True or False"),
    "a unit that is no text": (lambda: Numeric(0, 1, unit=5), "unit must be text"),
    "categories in a word": (lambda: Categorical("ab"), "must be a list"),
}


@pytest.mark.parametrize(("make", "message"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS)
def test_columns_that_make_no_sense_are_refused(make, message):
    refused(message, make)


# --------------------------------------------------------------------------------------- what it is


def test_a_schema_is_frozen_and_kept():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PEOPLE.columns = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        AGE.low = 0.0
    sketcher = HistogramSketcher(schema=PEOPLE)
    assert clone(sketcher).schema is PEOPLE
    assert clone(SketchUnion([RFFSketcher()], schema=PEOPLE)).schema is PEOPLE
    assert copy.deepcopy({"s": PEOPLE})["s"] is PEOPLE
    assert pickle.loads(pickle.dumps(PEOPLE)) == copy.copy(PEOPLE) == PEOPLE
    # What it was made of may change later; it does not.
    given = {"age": (0, 1), "job": ["a", "b"]}
    schema = TableSchema(given)
    given["job"].append("c")
    given["age"] = (5, 6)
    assert schema == TableSchema({"age": (0, 1), "job": ["a", "b"]})
    # Equal columns are alike to the last bit.
    zeros = Numeric(-0.0, 1, edges=[-0.0, 1.0])
    assert str((zeros.bounds, zeros.edges)) == "((0.0, 1.0), (0.0, 1.0))"


# ------------------------------------------------------------------------- impossible combinations


def test_what_never_occurs_is_kept():
    twice = NEVER.never({"hours": (0, 0.5), "age": [80, 99], "job": ["clerk", "farmer", "clerk"]})
    assert PEOPLE.impossible == ()
    assert NEVER.impossible == (((0, (17.0, 20.0)), (2, (1,))),)
    assert twice.impossible[1] == ((0, (80.0, 99.0)), (1, (0.0, 0.5)), (2, (0, 1)))
    assert NEVER.never({"age": [17, 20], "job": ["farmer"]}) == NEVER, "said twice"
    assert from_toml(twice.to_toml()) == twice
    assert TableSchema.from_dict(twice.to_dict()) == twice
    assert eval(repr(twice)) == twice
    assert clone(HistogramSketcher(schema=twice)).schema is twice
    assert pickle.loads(pickle.dumps(twice)) == twice
    assert NEVER.to_toml().endswith('\n[[never]]\nage = [17, 20]\njob = ["farmer"]\n')


def test_what_never_occurs_goes_with_its_columns():
    assert NEVER.for_table(3, ["age", "hours", "job"]).impossible == NEVER.impossible
    refused("two columns of one name", NEVER.for_table, 3, ["age", "age", "job"])
    assert NEVER.take([2, 0]).impossible == (((0, (1,)), (1, (17.0, 20.0))),)
    assert NEVER.take([0, 1]) == PEOPLE.take([0, 1])
    assert NEVER.with_columns(NEVER.columns) == NEVER
    by_place = TableSchema([(0, 1), ["a", "b"]]).never({1: ["a"], 0: [0.5, 1]})
    assert from_toml(by_place.to_toml()) == by_place
    assert "0 = [0.5, 1]" in by_place.to_toml()
    table = by_place.for_table(2)
    assert (table.names, table.impossible) == (None, (((0, (0.5, 1.0)), (1, (0,))),))
    assert by_place.for_table(2, list("ab")).impossible == table.impossible
    refused(
        "names column 'x', which", from_toml, by_place.to_toml().replace("0 = [0.5", "x = [0.5")
    )


NONSENSE = {
    "one column": ({"age": [17, 20]}, "two columns or more"),
    "another column": ({"age": [17, 20], "sex": ["F"]}, "never names column 'sex'"),
    "a column twice": ({"age": [17, 20], 0: [17, 20], "job": ["clerk"]}, "a column twice"),
    "no mapping": ([("age", [17, 20])], "never takes a mapping"),
    "a range that falls": ({"age": [20, 17], "job": ["clerk"]}, "never, 'age', 'job': .* in order"),
    "a range outside": ({"age": [0, 14], "job": ["clerk"]}, "outside the range"),
    "a range of words": ({"age": ["17", "20"], "job": ["clerk"]}, "two finite numbers"),
    "a number beyond floats": ({"age": [17, 10**400], "job": ["clerk"]}, "two finite numbers"),
    "another category": ({"age": [17, 20], "job": ["cook"]}, "must be a list of categories"),
    "every row": ({"age": [0, 99], "hours": [-1, 100]}, "every row"),
}


@pytest.mark.parametrize(("values", "message"), NONSENSE.values(), ids=NONSENSE)
def test_what_cannot_be_impossible_is_refused(values, message):
    refused(message, PEOPLE.never, values)


def test_cells_are_impossible_where_nothing_of_them_is_possible():
    schema = NEVER.never({"age": [17, 20], "job": ["clerk"]})
    schema = schema.never({"hours": [0, 9.5], "job": ["clerk"]})
    bins = {0: [17, 19, 21, 22, 90], 1: [0, 9, 9.5, 10, 99], 2: [0, 1, 1]}
    histogram = HistogramMap(schema, [1, 1, 1], [[0, 1, 2]], bins)
    found = schema.possible_cells([histogram.contents(j) for j in range(3)])
    assert [group for group, _ in found] == [(0, 2), (1, 2)]
    # A farmer shares a cell with those whose job is missing, who may be of any age.
    assert found[0][1].tolist() == [[False, True], [False, True], [True, True], [True, True]]
    assert found[1][1].tolist() == [[False, True], [False, True], [True, True], [True, True]]
    # By brute force: no cell that holds a possible row is ruled out, all others of these are.
    rows = np.array([[a, h, j] for a in range(17, 91) for h in (0, 9, 9.4, 9.6) for j in (0, 1, 2)])
    banned = (rows[:, 0] <= 20) & (rows[:, 2] < 2) | (rows[:, 1] <= 9.5) & (rows[:, 2] == 0)
    table = np.empty(rows.shape, object)
    table[:, :2], table[:, 2] = rows[:, :2], schema.decode(2, rows[:, 2].astype(int))
    for group, possible in found:
        codes = [histogram.column_codes(table, j) for j in group]
        assert possible[tuple(code[~banned] for code in codes)].all()
    assert schema.possible_cells([histogram.contents(j) for j in range(3)], most_cells=7) == []
    coarse = HistogramMap(schema, [1, 1, 1], [[0, 1, 2]])
    assert schema.possible_cells([coarse.contents(j) for j in range(3)]) == []


def test_rows_that_break_a_rule_are_counted_as_all_others():
    """An error would tell that there are such rows."""
    rows = pd.DataFrame({"age": [17, 50], "hours": [1.0, 2.0], "job": ["farmer", None]})
    sketchers = (HistogramSketcher(one, n_bins=3, epsilon=np.inf) for one in (PEOPLE, NEVER))
    sums = [sketcher.fit(rows).sketch_.sums for sketcher in sketchers]
    assert np.array_equal(*sums)


# -------------------------------------------------------------------------------------------- files

AWKWARD = [
    *('"', "'", "\\", "a.b", "", " ", "\n", "\r\n", "\t", "\x00x", "\x7f", "\x1b[2J", "ä ñ 🙂"),
    *("#", "]", "true", "1", "1.0", "nan", "'''", '"' * 3, "\u2028", "\ufeff", "columns", "\x85"),
]
WORDS = st.text(max_size=8) | st.sampled_from(AWKWARD)
NUMBERS = st.floats(-1e300, 1e300) | st.integers(-(2**53), 2**53) | st.sampled_from([0.1, -0.0])


@st.composite
def columns(draw):
    """A column that is any, with anything that may be said of it."""
    words = {name: draw(st.none() | WORDS) for name in ("unit", "description")}
    words["missing"] = draw(st.booleans())
    kind = draw(st.integers(0, 4))
    if kind == 0:
        words_or_numbers = st.sampled_from([WORDS.filter(lambda w: not w.endswith("\0")), NUMBERS])
        values = draw(st.lists(draw(words_or_numbers), min_size=2, max_size=5, unique=True))
        return Categorical(values, **words)
    if kind == 1:
        values = draw(st.sampled_from([[True, False], [0.5, 2**53], [2**60, 1.0], [1.0, 2, "a"]]))
        return Categorical(values, **words)
    if kind == 2:
        return Numeric(**words)
    low = float(draw(st.integers(-1000, 1000)))
    step = draw(st.sampled_from([None, 1, 0.5, 0.25, 8]))
    if kind == 3 or step is not None:
        width = draw(st.integers(1, 50)) * (step or draw(st.floats(1e-9, 1e9)))
        assume(low + width > low)
        return Numeric(low, low + width, step=step, **words)
    edges = sorted(draw(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=6, unique=True)))
    assume(edges[-1] - edges[0] > 1e-300)
    return Numeric(edges=edges, **words)


@st.composite
def schemas(draw):
    """A schema of any of its forms."""
    found = draw(st.lists(columns(), min_size=1, max_size=4))
    form, extra = draw(st.integers(0, 2)), draw(st.sampled_from(["refuse", "drop"]))
    if form == 0:
        return TableSchema(found[0], extra_columns=extra)
    if form == 1:
        return draw(with_never(TableSchema(found, extra_columns=extra)))
    names = draw(st.lists(WORDS, min_size=len(found), max_size=len(found), unique=True))
    told = TableSchema(dict(zip(names, found, strict=True)), extra_columns=extra)
    return draw(with_never(told))


@st.composite
def with_never(draw, schema):
    """The schema, or one in which some combination is impossible."""
    told = {}
    for key, column in zip(schema, schema.columns, strict=True):
        if isinstance(column, Categorical):
            told[key] = draw(st.lists(st.sampled_from(column.categories), min_size=1))
        elif column.bounds is not None:
            told[key] = sorted(draw(st.tuples(*[st.floats(*column.bounds)] * 2)))
    try:
        return schema.never(told) if draw(st.booleans()) else schema
    except ValueError:  # of one column, or of all rows
        return schema


def types(schema):
    """What equality overlooks: 1, 1.0 and True are equal."""
    told = [column.categories for column in schema.columns if isinstance(column, Categorical)]
    return [type(value) for values in told for value in values]


@quick
@given(schemas())
def test_files_give_back_the_schema(tmp_path_factory, schema):
    path = tmp_path_factory.mktemp("schema") / "a.toml"
    schema.save(path)
    loaded = TableSchema.load(path)
    assert loaded == schema
    assert types(loaded) == types(schema)
    assert repr(loaded) == repr(schema)
    # As an editor may save it, with a mark of its encoding and other ends of lines.
    path.write_bytes(b"\xef\xbb\xbf" + schema.to_toml().replace("\n", "\r\n").encode())
    assert TableSchema.load(path) == schema
    refused("is a folder", TableSchema.load, path.parent, error=IsADirectoryError)
    # The description of a table in a sketch file gives it back, too.
    table = schema.for_table(3) if schema.is_for_all else TableSchema(list(schema.columns))
    back = TableSchema.from_dict(table.to_dict())
    assert back == table.with_columns(table.columns) or table.extra_columns == "drop"
    assert types(back) == types(table)


def test_a_file_is_what_people_write():
    assert PEOPLE.to_toml() == (
        "[columns.age]\nlow = 17\nhigh = 90\nstep = 1\n\n"
        "[columns.hours]\nlow = 0\nhigh = 99\n\n"
        '[columns.job]\ncategories = ["clerk", "farmer"]\nmissing = true\n'
    )
    dropped = TableSchema({"age": (0, 0.5)}, extra_columns="drop").to_toml()
    assert dropped == 'extra_columns = "drop"\n\n[columns.age]\nlow = 0\nhigh = 0.5\n'


WRONG_FILES = {
    "nothing": ("", "one kind of tables"),
    "no TOML": ("age = (0, 1)", "Invalid value"),
    "a table of another name": ("[column.age]\nlow = 0\nhigh = 1", "one kind of tables.*column"),
    "an unknown entry": ("[columns.age]\nlow = 0\nhi = 1", "column 'age': unknown entries .'hi'"),
    "both kinds": ("[columns.a]\nlow = 0\nhigh = 1\ncategories = [1, 2]", "unknown.*'high', 'low'"),
    "no table": ("[columns]\nage = [0, 1]", "column 'age'.*write a table"),
    "a range of words": ('[columns.a]\nlow = "0"\nhigh = "1"', "column 'a': low='0' is no date"),
    "days": ("[columns.d]\nlow = 2021-01-01\nhigh = 2020-01-01", "column 'd': low=.* before"),
    "listed days": ("[columns.d]\ncategories = [2020-01-01, 2020-01-02]", "column 'd': .*a date"),
    "a rule that is no table": ("never = 3\n[columns.a]", "write ..never.. above"),
    "a rule of another column": ("[columns.a]\n[[never]]\nb = [0, 1]", "never names column 'b'"),
    "a position in two forms": (
        "[[columns]]\nlow = 0\nhigh = 1\n" * 2 + "[[never]]\n0 = [0, 1]\n1 = [0, 0.5]\n01 = [0, 1]",
        "never names column '01'",
    ),
    "a rule of all columns": ("[all_columns]\n[[never]]\n0 = [0, 1]", "describe each"),
    "another word for extra columns": ('extra_columns = "keep"\n[columns.a]', "extra_columns must"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_file_that_is_no_schema_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text)
    refused(message, TableSchema.load, tmp_path / "a.toml")


def test_a_draft_says_what_it_guessed():
    rows = pd.DataFrame(
        {
            "age": [17, 90, 40],
            "price": [0.25, 1.5, np.nan],
            "weight": [1 / 3, 2 / 3, 70.123456789],
            "job": ["clerk", None, "farmer"],
            "member": [True, False, True],
        }
    )
    schema = TableSchema.from_public(rows)
    assert schema.names == tuple(rows)
    told = "guessed from public rows"
    assert schema["age"] == Numeric(17, 90, step=1, description=told)
    assert schema["price"] == Numeric(0.25, 1.5, step=0.01, missing=True, description=told)
    assert schema["weight"].step is None
    assert schema["job"] == Categorical(["clerk", "farmer"], missing=True, description=told)
    assert schema["member"].categories == (False, True)
    HistogramSketcher(schema=schema).fit(rows)
    array = TableSchema.from_public([[1, "a"], [2, "b"]])
    assert array.names is None
    assert [type(column) for column in array.columns] == [Numeric, Categorical]
    assert TableSchema.from_public(pl.DataFrame({"a": [1, None, 3]}))["a"].missing
    for cells in ([1, 2, pd.NaT], ["a", "b", np.datetime64("NaT")]):  # which no draft would read
        refused("holds dates or times", TableSchema.from_public, [[cell] for cell in cells])


# ------------------------------------------------------------------------------------ tables of it


def test_extra_columns_are_left_out_where_the_schema_says_so():
    rows = pd.DataFrame({"secret": ["Alice", "Bob"], "age": [20, 40], "when": [pd.NaT, pd.NaT]})
    schema = TableSchema({"age": (0, 99)}, extra_columns="drop")
    sketch = HistogramSketcher(schema=schema, n_bins=3, epsilon=np.inf).fit(rows).sketch_
    assert sketch.mean == pytest.approx([0.5, 0.5, 0])
    assert sketch.schema.names == ("age",)


# ----------------------------------------------------------------------------------- reading cells

NUMERIC = TableSchema({"x": Numeric(-100, 100, missing=True)})
LISTED = TableSchema({"x": Categorical([0, 1, 2.5, 100], missing=True)})
WORDY = TableSchema({"x": Categorical(["a", "b", "1"], missing=True)})
GAPS = [None, float("nan"), np.float32("nan"), pd.NA, Decimal("nan"), Decimal("sNaN")]

CELLS = st.sampled_from([0, 1, 100, 2.5])


def told(schema, table):
    rows = validate_table(NoEstimator(), table, schema=schema)
    return schema.read(rows, 0).tolist()


def containers(values):
    """Return tables of one column, in all that may hold these values, None where one is missing."""
    gaps = any(value is None for value in values)
    whole = all(value is None or value == int(value) for value in values)
    floats = [np.nan if value is None else float(value) for value in values]
    small = [0 if value is None else value for value in values]
    mask = [value is None for value in values]
    found = {
        "list": [[value] for value in values],
        "objects": np.array([[value] for value in values], dtype=object),
        **{name: np.array(floats, name)[:, None] for name in ("f2", "f4", "f8", ">f8")},
        "longdouble": np.array(floats, np.longdouble)[:, None],
        "masked": np.ma.MaskedArray(np.array(small, np.float64)[:, None], np.array(mask)[:, None]),
        "decimals": [[value if value is None else Decimal(value)] for value in values],
        "pandas": pd.DataFrame({"x": floats}),
        "pandas Float64": pd.DataFrame({"x": pd.array(values, dtype="Float64")}),
        "pandas category": pd.DataFrame({"x": pd.Series(floats).astype("category")}),
        "polars": pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64, strict=False)}),
    }
    if pytest.importorskip("pyarrow"):
        found["arrow"] = pd.DataFrame({"x": pd.array(values, dtype="double[pyarrow]")})
    if whole:
        for name in ("Int8", "UInt16", "Int64"):
            found[f"pandas {name}"] = pd.DataFrame({"x": pd.array(values, dtype=name)})
            kind = getattr(pl, name)
            series = pl.Series(values, dtype=kind, strict=False)
            found[f"polars {name}"] = pl.DataFrame({"x": series})
    if whole and not gaps:
        for name in ("int8", "uint64"):
            found[name] = np.array(values, name)[:, None]
    if set(values) <= {0, 1}:
        found["truth"] = np.array(values, bool)[:, None]
    return found


@quick
@given(st.lists(CELLS | st.none(), min_size=1, max_size=6))
def test_dtypes_of_the_container_never_matter(values):
    for schema in (NUMERIC, LISTED):
        expected = told(schema, [[value] for value in values])
        for name, table in containers(values).items():
            np.testing.assert_array_equal(told(schema, table), expected, err_msg=name)


@pytest.mark.parametrize("gap", GAPS, ids=repr)
def test_all_that_is_missing_is_one_thing(gap):
    for schema, there, code in ((NUMERIC, 2.5, np.nan), (LISTED, 2.5, 4), (WORDY, "a", 3)):
        column = np.array([there, gap, there], dtype=object)
        for cells in (column, column[::-1]):  # whichever is seen last of its type
            for table in (cells[:, None], cells[:, None].tolist(), pd.DataFrame({"x": cells})):
                found = told(schema, table)
                np.testing.assert_equal(found[1], code)
                assert found[0] == found[2] != code
        refusing = schema.with_columns([dataclasses.replace(schema["x"], missing=False)])
        refused(r"'x' contains NaN.*missing=True.*constant", told, refusing, column[:, None])


# -------------------------------------------------------------------- what a row adds, and no other

MIXED = TableSchema(
    {
        "age": Numeric(17, 90, step=1, missing=True),
        "gain": Numeric(edges=[0, 1, 500, 9999], missing=True),
        "job": Categorical(["clerk", "farmer", "none"], missing=True),
        "grade": Categorical([1, 2, 3], missing=True),
        "sex": ["F", "M"],
    }
)
PARTS = [HistogramSketcher(n_bins=3), RFFSketcher(n_components=4), RACESketcher(n_repetitions=2)]
MAPS = {
    "histogram": HistogramSketcher(n_bins=7, marginals=[[0, 2], ["gain"], ["grade", "sex"]]),
    "fourier": RFFSketcher(n_components=12),
    "race": RACESketcher(n_repetitions=4, n_buckets=9),
    "union": SketchUnion(PARTS),
}
STRANGE = {
    "nothing": (None, None, None, None, "F"),
    "the least": (-1e308, -1e308, "clerk", 1, "F"),
    "the largest": (10**300, 1.7e308, "none", Decimal(3), "M"),
    "fractions": (40.5, 0.1, "farmer", 2.0, "M"),
    "truth": (True, False, pd.NA, True, "F"),
    "short": (np.float32(0.1), np.float16(7), np.str_("clerk"), np.int8(2), np.str_("M")),
    "huge integers": (2**53 + 1, 2**64, np.nan, 3, "F"),
    "tiny": (5e-324, -0.0, None, Fraction(1), "M"),
}


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(10, 100, n),
            "gain": rng.exponential(300.0, n),
            "job": rng.choice(["clerk", "farmer", "none"], n),
            "grade": rng.integers(1, 4, n),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    gaps = rng.random((n, 5)) < [0.2, 0.2, 0.2, 0.2, 0]
    return table.mask(gaps)


def phi(feature_map, table):
    """Return what each row of a table adds to sums, in grid units."""
    rows = validate_table(NoEstimator(), table, schema=MIXED)
    return np.array([feature_map.grid_sums(rows[i : i + 1]) for i in range(len(rows))])


def mixed_map(name):
    sketcher = clone(MAPS[name]).set_params(schema=MIXED, random_state=0)
    return sketcher.preview_map(5, MIXED.names)


def as_objects(table):
    return table.astype(object).where(table.notna(), None).to_numpy()


@pytest.mark.parametrize("name", MAPS)
def test_an_adversarial_row_changes_no_bit_of_another(name):
    feature_map = mixed_map(name)
    table = as_objects(people(40))
    alone = phi(feature_map, table)
    rows = validate_table(NoEstimator(), table, schema=MIXED)
    assert np.array_equal(feature_map.grid_sums(rows), alone.sum(axis=0))
    for row in STRANGE.values():
        more = np.array([row], dtype=object)
        for grown in (np.vstack([table, more]), np.vstack([more, table])):
            read = validate_table(NoEstimator(), grown, schema=MIXED)
            own = phi(feature_map, np.array([row], dtype=object))[0]
            assert np.array_equal(feature_map.grid_sums(read) - own, alone.sum(axis=0))
        frame = pd.DataFrame([*table.tolist(), row], columns=[*MIXED.names])
        assert np.array_equal(phi(feature_map, frame)[:-1], alone)


@pytest.mark.parametrize("name", MAPS)
def test_no_row_adds_more_than_the_sensitivity_and_one_hot_rows_add_all_of_it(name):
    """Over all that a cell may be: worst-case neighbours among rows with missing cells."""
    feature_map = mixed_map(name)
    rows = [*as_objects(people(60)).tolist(), *map(list, STRANGE.values())]
    added = phi(feature_map, np.array(rows, dtype=object)).astype(float)
    apart = (added[:, None] - added[None]).reshape(-1, added.shape[1])
    ends = np.cumsum([0, *(part.n_features for part in feature_map.parts())])
    for adjacency, moves in (("add_remove", added), ("replace_one", apart)):
        for part, start, end in zip(feature_map.parts(), ends[:-1], ends[1:], strict=True):
            own, bounds = moves[:, start:end], part.sensitivity(adjacency)
            reached = [np.abs(own).sum(axis=1).max(), np.linalg.norm(own, axis=1).max()]
            assert np.all(reached <= np.array(bounds) * (1 + 1e-12))
            if part.kind == "histogram":  # two rows that share no cell are among them
                np.testing.assert_allclose(reached, bounds, rtol=1e-12)
            if part.kind == "race" and adjacency == "add_remove":
                np.testing.assert_allclose(reached, bounds, rtol=1e-12)
    for group in feature_map.row_groups():
        assert np.all(added[:, group].sum(axis=1) == GRID)


def test_missing_cells_are_as_far_from_all_as_the_ends_are_apart():
    schema = TableSchema([Numeric(0, 4, missing=True), Categorical(["a", "b"], missing=True)])
    low, high, gone = (schema.encode(np.array([[x, "a"]], object))[0] for x in (0, 4, None))
    for one, other in ((low, high), (low, gone), (high, gone)):
        assert np.linalg.norm(one - other) == pytest.approx(1)
    for word in ("b", None):
        other = schema.encode(np.array([[0, word]], object))[0]
        assert np.linalg.norm(low - other) == pytest.approx(1)


def test_encode_scales_clips_and_codes():
    X = np.array([[50, "F", 0.0], [-7, "M", 5.0], [1e300, "M", -1.0]], dtype=object)
    schema, half = TableSchema([(0, 100), ["F", "M"], (-1, 1)]), 0.5**0.5
    expected = [[0.5, half, 0, 0.5], [0, 0, half, 1], [1, 0, half, 0]]
    assert schema.encode(X) == pytest.approx(np.array(expected))
    assert schema.n_encoded == 4


def test_a_strangers_rules_are_read_in_linear_time():
    """Thousands of rules of a long list, or of many columns, took minutes in a file of a MB."""
    listed = TableSchema({"a": [f"x{i}" for i in range(50_000)], "b": (0, 1)}).to_dict()
    listed["never"] = [{"a": ["x7"], "b": [0, 0.5]}] * 4000
    wide = TableSchema({f"c{j}": (0, 1) for j in range(30_000)}).to_dict()
    wide["never"] = [{f"c{29_999 - 20 * i - j}": [0, 0.5] for j in range(20)} for i in range(1000)]
    start = time.process_time()
    assert TableSchema.from_dict(listed).impossible == (((0, (7,)), (1, (0.0, 0.5))),)
    assert len(TableSchema.from_dict(wide).impossible) == 1000
    assert time.process_time() - start < 15
