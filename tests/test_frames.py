"""A frame's columns are found by their labels, whatever library made it, or nothing is charged."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from catalogue import INSTANCES, of_each_class
from refusals import refused
from sklearn.linear_model import LogisticRegression

from skdpsumm import AdaptiveSketcher, PrivateMMDSummarizer, PrivateSearchCV
from skdpsumm.learners import TDDLClassifier, TDILClassifier
from skdpsumm.moments import M2MEstimator, Points
from skdpsumm.schema import Categorical, Date, Numeric, SchemaFinder, TableSchema
from skdpsumm.schema._reading import OTHER_LABELS, read_column, read_table, to_pandas
from skdpsumm.summaries import SketchSummarizer, SummarizedEstimator, greedy_mmd_selection, mmd2

pa = pytest.importorskip("pyarrow")
# Noise has a seed here, and tables are small.
pytestmark = [pytest.mark.simulated(0), pytest.mark.filterwarnings("ignore::UserWarning")]

CELLS = np.random.default_rng(0).uniform(-1, 1, (40, 2))
LABELS, NUMBERS = (CELLS[:, 0] > 0).astype(int), CELLS[:, 1]
FRAME = pd.DataFrame(CELLS, columns=["a", "b"])
SWAPPED = FRAME[["b", "a"]]


def arrow(frame):
    """Return a pyarrow.Table in two chunks."""
    whole = pa.Table.from_pandas(frame, preserve_index=False)
    return pa.concat_tables([whole.slice(0, 7), whole.slice(7)])


def batch(frame):
    """Return a pyarrow.RecordBatch."""
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


OTHERS = {
    "numbers in another order": [1, 0],
    "numbers from one on": [1, 2],
    "tuples": pd.MultiIndex.from_tuples([("x", "a"), ("x", "b")]),
    "words and numbers": ["a", 1],
    "dates": pd.to_datetime(["2020-01-01", "2020-01-02"]),
}
NEITHER = [FRAME.set_axis(labels, axis=1) for labels in OTHERS.values()]
NO_NAMES = FRAME.set_axis([0, 1], axis=1)


def fitted(name, X, ledger=None, **parameters):
    """Return an instance of the catalogue that was fitted to X, with noise of a seed."""
    one = INSTANCES[name]
    budget = {} if one.kind == "vectorizer" else {"ledger": ledger}
    model = one.make(**budget, **parameters)
    seeds = [key for key in model.get_params() if key.endswith("random_state")]
    model.set_params(**dict.fromkeys(seeds, 0))
    return one.fit(model, X, LABELS, NUMBERS)


def said(model, X):
    """Return what a fitted model says of X."""
    if hasattr(model, "sample_indices_"):
        return model.vectors(X)[model.sample_indices_]
    if isinstance(model, SketchSummarizer):  # which has rows of its own
        return np.asarray(model.X_)
    if hasattr(model, "mean"):
        return model.mean()[...]
    if isinstance(model, SchemaFinder):
        return np.frombuffer(repr(model.schema_).encode(), np.uint8)
    ask = next(one for one in ("predict", "transform", "vectors") if hasattr(model, one))
    return getattr(model, ask)(X)


# Tables are read in one place, whatever is made of them.
READING = of_each_class(INSTANCES)


@pytest.mark.parametrize("name", READING)
def test_frames_of_any_library_are_the_same_table(name):
    model = fitted(name, FRAME)
    expected, is_own = said(model, FRAME), INSTANCES[name].kind != "summarised"
    for make in (pl.DataFrame, batch):
        other = fitted(name, make(FRAME))
        assert list(other.feature_names_in_) == ["a", "b"]
        # An estimator of scikit-learn itself is left to its own arithmetic.
        np.testing.assert_allclose(said(other, make(FRAME)), expected, rtol=0 if is_own else 1e-9)
    # These are asked nothing about rows.
    if hasattr(model, "mean") or isinstance(model, SketchSummarizer | SchemaFinder):
        return
    for X in (SWAPPED, arrow(SWAPPED), batch(SWAPPED), NO_NAMES, *NEITHER):
        refused(r"same order|have no names|have labels that are", said, model, X)


@pytest.mark.parametrize("name", READING)
def test_other_labels_than_words_and_positions_are_refused_before_the_charge(name, unpaid):
    for X in NEITHER:
        caught = refused("neither words nor", fitted, name, X, unpaid)
        assert str(caught) == OTHER_LABELS


BY_NAME = {name: one for name, one in INSTANCES.items() if getattr(one.estimator, "schema", None)}
BY_NAME = of_each_class(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_schema_by_name_finds_columns_in_any_order_and_never_by_position(name, unpaid):
    schema = {"b": (-2, 2), "a": (-1, 1)}
    model = fitted(name, FRAME, schema=schema)
    expected = said(model, FRAME)
    for X in (SWAPPED, arrow(SWAPPED)):
        np.testing.assert_array_equal(said(fitted(name, X, schema=schema), FRAME), expected)
        np.testing.assert_array_equal(said(model, X), expected)
    for X in (NO_NAMES, *NEITHER):
        refused(r"have no names|have labels that are", fitted, name, X, unpaid, schema=schema)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_column_of_dates_is_one_of_the_days_since_its_first(name):
    """Whatever is made of it: a bound of a sensitivity for numbers is one for dates."""
    days, first = np.random.default_rng(0).integers(-3, 103, 40), pd.Timestamp("2020-01-01")
    tables = [FRAME.assign(a=days), FRAME.assign(a=first + pd.to_timedelta(days, "D"))]
    columns = [Numeric(0, 99, step=1), Date("2020-01-01", "2020-04-09")]
    told = []
    for X, column in zip(tables, columns, strict=True):
        model = fitted(name, X, schema={"a": column, "b": (-1, 1)})
        if isinstance(model, SketchSummarizer):
            rows = model.X_
            is_date = rows["a"].dtype.kind == "M"
            told.append(rows.assign(a=(rows["a"] - first).dt.days if is_date else rows["a"]))
        elif hasattr(model, "mean"):
            told.append([float(model.mean("a")), float(model.mean("b"))])
        else:
            told.append(said(model, X))
    np.testing.assert_array_equal(*told)


# ---- tables beside X

NAMED = {"a": (-1, 1), "b": (-1, 1)}
SIDE = FRAME[:20] * [1, 0.3]
SIDES = {"swapped": SIDE[["b", "a"]], "polars": pl.DataFrame(SIDE), "batch": batch(SIDE)}
SIDES["table"] = arrow(SIDE[["b", "a"]])
COMMON = {"random_state": 0}


def sketch():
    label = {**NAMED, "y": [0, 1]}
    return AdaptiveSketcher(label, **COMMON).fit(FRAME.assign(y=LABELS)).sketch_


BESIDE = {
    "X_public": lambda X, **o: TDDLClassifier(**o).fit(FRAME, LABELS, X_public=X).predict(FRAME),
    "X_public of a search": lambda X, ledger=None, **o: (
        PrivateSearchCV(
            TDDLClassifier(schema=o.pop("schema", None), kernel="rbf", gamma=1.0, random_state=0),
            {"regularization": [1.0, 2.0]},
            expected_trials=2,
            ledger=ledger,
            **COMMON,
        )
        .fit(FRAME, LABELS, X_public=X)
        .predict(FRAME)
    ),
    "X_target": lambda X, **o: (
        PrivateMMDSummarizer(n_select=5, **o).fit(FRAME, X_target=X, owners=LABELS).sample_indices_
    ),
    "X_holdout": lambda X, **o: (
        SummarizedEstimator(LogisticRegression(), PrivateMMDSummarizer(n_select=20, **o))
        .fit(FRAME, LABELS, X_target=SIDE, X_holdout=X, y_holdout=LABELS[:20])
        .score()
    ),
    "prior": lambda X, **o: (
        M2MEstimator(inference=Points(prior=X), n_synthetic=500, **o).fit(FRAME).mean().value
    ),
    "X_target of a summary": lambda X, **o: (
        SketchSummarizer.from_sketch(sketch(), 5, X_target=X, random_state=0).X_
    ),
    "Y of mmd2": lambda X, gamma=1.0, schema=None, **o: mmd2(FRAME, X, gamma=gamma, schema=schema),
    "X_target of a choice": lambda X, gamma=1.0, schema=None, **o: greedy_mmd_selection(
        FRAME, X, 5, gamma=gamma, schema=schema, random_state=0
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_tables_beside_X_are_read_by_name_or_refused_before_the_charge(name, unpaid):
    fit = BESIDE[name]
    expected = fit(SIDE, schema=NAMED, **COMMON)
    for kind, X in SIDES.items():
        if name == "X_holdout" and kind in ("swapped", "table"):
            refused("X_holdout must have the columns of X, in the", fit, X, schema=NAMED, **COMMON)
        else:
            np.testing.assert_array_equal(fit(X, schema=NAMED, **COMMON), expected)
    for labels in (*OTHERS.values(), [0, 1]):
        with pytest.raises(ValueError, match=r"have no names|have labels that are"):
            fit(SIDE.set_axis(labels, axis=1), schema=NAMED, ledger=unpaid, **COMMON)


@pytest.mark.parametrize(
    "name", ["X_public", "X_target", "X_holdout", "Y of mmd2", "X_target of a choice"]
)
def test_tables_beside_X_that_are_read_by_position_have_its_columns_in_order(name, unpaid):
    given = {"gamma": 1.0, "ledger": unpaid, **COMMON}
    given |= {"kernel": "rbf"} if name == "X_public" else {}
    for kind in ("swapped", "table"):
        refused("same order", BESIDE[name], SIDES[kind], **given)


# ---- schemas


# ---- cells of Arrow


def _arrow_columns():
    words = pa.array(["x", None, "y"])
    yield "whole numbers", pa.array([2**53 + 1, None, 1]), [2**53 + 1, None, 1]
    yield "unsigned", pa.array([2**64 - 1, 0, 1], pa.uint64()), [2**64 - 1, 0, 1]
    yield "floats", pa.array([0.1, None, -0.0]), [0.1, np.nan, -0.0]
    yield "short floats", pa.array([0.1, 2, 3], pa.float32()), np.float32([0.1, 2, 3]).tolist()
    yield "truth values", pa.array([True, None, False]), [True, None, False]
    yield "decimals", pa.array([Decimal("1.5"), None, Decimal("0.25")]), [1.5, None, 0.25]
    yield "words", words, ["x", None, "y"]
    yield "a dictionary", words.dictionary_encode(), ["x", None, "y"]
    keys, values = pa.array([0, 1, None]), pa.array([7, None])
    yield "a dictionary of numbers", pa.DictionaryArray.from_arrays(keys, values), [7, None, None]
    yield "nothing", pa.nulls(3), [None] * 3


ARROW = {name: (column, cells) for name, column, cells in _arrow_columns()}


@pytest.mark.parametrize("name", ARROW)
def test_cells_of_arrow_are_read_as_they_are(name):
    column, wanted = ARROW[name]
    for given in (column, pa.chunked_array([column]), pa.chunked_array([column[:1], column[1:]])):
        cells = read_column(given)
        assert pd.isna(cells).tolist() == pd.isna(np.array(wanted, object)).tolist()
        pairs = zip(cells.tolist(), wanted, strict=True)
        assert all(a == b and repr(float(a)) == repr(float(b)) for a, b in pairs if is_number(b))
        words, wanted_words = ([c for c in one if isinstance(c, str)] for one in (cells, wanted))
        assert words == wanted_words
    table = pa.table({"c": column})
    for X in (table, table.to_batches()[0]):
        for told in (read_table(X).columns[0], to_pandas(X)["c"]):
            assert [*map(repr, told.tolist())] == [*map(repr, read_column(column).tolist())]


def is_number(cell):
    return not isinstance(cell, str) and not pd.isna(cell)


# ---- what no table can hold, told before the charge


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (pd.period_range("2020", periods=6, freq="D"), "holds dates or times"),
        (pd.interval_range(0, 6), "holds intervals.*public edges in a schema"),
        ([None, *pd.interval_range(0, 5)], "holds intervals.*public edges in a schema"),
    ],
)
def test_periods_and_intervals_are_named_with_what_to_give_in_their_place(cells, message, unpaid):
    X = pd.DataFrame({"a": cells, "b": np.arange(6.0)})
    columns = [Numeric(0, 1, missing=True), Categorical([1], missing=True)]
    for column in columns if cells[0] is None else [*columns, (0, 1), ["x", "y"]]:
        refused(message, M2MEstimator({"a": column, "b": (0, 9)}, ledger=unpaid).fit, X)
    refused(message, TDILClassifier(ledger=unpaid).fit, X, [0, 1] * 3)
    refused(message.split(".*")[0], TableSchema.from_public, X)


@pytest.mark.parametrize("name", [name for name in BESIDE if name not in ("prior", "X_holdout")])
@pytest.mark.parametrize("nothing", [SIDE[:0], CELLS[:0], []])
def test_a_table_beside_X_without_rows_is_named(name, nothing, unpaid):
    parameter = name.split(" of ")[0]
    with pytest.raises(ValueError, match=rf"\b{parameter} has no rows. Give at least one"):
        BESIDE[name](nothing, schema=NAMED, ledger=unpaid, **COMMON)


@pytest.mark.parametrize("name", ["m2m", "fourier", "adaptive", "propose"])
def test_labels_of_a_dask_frame_are_refused_before_the_charge(name, unpaid):
    frames = pytest.importorskip("dask.dataframe")
    X = frames.from_pandas(FRAME.set_axis([1, 0], axis=1), npartitions=2)
    given = {"X_target": CELLS} if name == "propose" else {}
    refused("neither words nor the positions", INSTANCES[name].make(ledger=unpaid).fit, X, **given)
