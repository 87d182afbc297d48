"""Reading a private table cell by cell: what each cell becomes is a matter of that cell alone.

A container has one dtype for many cells, and one row can decide which: a float beside 64-bit
integers rounds all of them, a datetime with finer digits rescales a column, a word turns numbers
into words. Then one row more changes what all others add to a sum, which no sensitivity covers.
So no dtype decides anything here:

- A number becomes the closest float64. A container that widens a column to float64 makes the same
  of it, so its dtype does not matter. (One that narrows a column has changed its cells before.)
- A category or a label is compared with those listed, by its own exact value (`_listed`).
- A label that nobody listed, a group and an owner are read as Python's word or number, one form for
  each value (`read_labels`): 1, 1.0 and True are 1, and -0.0 is 0.
- Words are no numbers, and are refused. So are dates and times, but in a column of dates, where the
  unit is the schema's and the zone is the cell's own (`exact_dates`).

Otherwise tables are validated as scikit-learn does it, but no message tells a value of a table.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from .._computing import warn_caller
from .._html import some_of
from ._frames import (
    NO_NAMES,
    TWO_NAMES,
    arrow_cells,
    as_sklearn_sees_it,
    cells_as_objects,
    column_of,
    in_utc,
    is_arrow,
    is_arrow_column,
    labels_of,
    names_of,
    one_by_one,
    rows_of,
    within_years,
)
from ._sparse import SparseRows, checked_structure, sparse_rows

TIME_TYPES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)

_no_rows: ContextVar[bool] = ContextVar("skdpsumm_no_rows", default=False)

# What may be wrong with the cells of a column of numbers, the worst first.
COMPLEX, TIMES, WORDS, OBJECTS = "complex", "times", "words", "objects"
INTERVALS = "intervals"
MISSING, INFINITE = "missing", "infinite"
ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # how a word that is a date begins
# What may be wrong with those of a categorical one, beside TIMES and MISSING; and of one of dates.
NARROW, UNLISTED = "narrow", "unlisted"
NO_DATES, ZONED = "no dates", "zoned"
# What may be wrong with labels, beside those of numbers.
SHAPE, NUL, INEXACT, MIXED = "shape", "nul", "inexact", "mixed"


class CellError(ValueError):
    """A column holds what it may not. `fault` says which kind; no value of the table is told.

    Parameters
    ----------
    fault : str
    kind : str, default=""
        The name of the type of the cell at fault.
    """

    def __init__(self, fault: str, kind: str = ""):
        super().__init__(fault)
        self.fault, self.kind = fault, kind


class Table:
    """The columns of a frame, each an array with the dtype that the frame has for it.

    It is indexed as an array of shape (n, d): ``table[:, j]`` is a column, ``table[rows]`` a table.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n,)
    """

    ndim = 2

    def __init__(self, columns: Sequence[NDArray]):
        self.columns = tuple(columns)
        self.shape = (len(self.columns[0]) if self.columns else 0, len(self.columns))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rows, j = key
            return self.columns[j][rows]
        return Table([column[key] for column in self.columns])


def read_table(X: Any) -> NDArray | Table:
    """Return the cells of X as they are, in an array, or column by column for a frame.

    Parameters
    ----------
    X : array-like or frame
        Rows in a list become an array of objects: numpy's common dtype would change cells.

    Raises
    ------
    ValueError
        For a frame that is not computed yet.
    """
    check_computed(X)
    if isinstance(X, Table):
        return X
    if is_frame(X):
        columns = [read_column(column_of(X, j)) for j in range(len(labels_of(X)))]
        return Table(columns)
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return _read_rows(X)
    return _unmasked(np.asanyarray(X))


def is_frame(X: Any) -> bool:
    """Whether X is a frame, whose columns have dtypes of their own."""
    # The class is asked, for of a frame that is not computed yet `columns` is slow to ask for.
    if not hasattr(type(X), "columns"):
        return False
    # Such a frame has no shape, and neither have record batches of pyarrow 15.
    return len(getattr(X, "shape", ())) == 2 or is_arrow(X)


def some_rows(X: Any, rows: slice) -> Any:
    """Return these rows of a frame, of which reading makes a copy; of all others, all rows."""
    return rows_of(X, rows) if is_frame(X) else X


def _unmasked(array: NDArray) -> NDArray:
    """Return an array, of objects with None for cells that are masked."""
    if not isinstance(array, np.ma.MaskedArray):
        return np.asarray(array)
    if array.dtype.kind in "mM":  # numpy would make integers or dates of these, by the unit of all
        return np.where(np.ma.getmaskarray(array), np.array("NaT", array.dtype), array.data)
    return np.where(np.ma.getmaskarray(array), np.array(None), array.data)


def check_computed(X: Any, name: str = "X") -> None:
    """Raise ValueError for a frame that is not computed yet."""
    if hasattr(X, "collect") and not hasattr(X, "to_numpy"):
        raise ValueError(
            f"{name} is a {type(X).__name__}, which holds no rows yet: give {name}.collect()."
        )


def read_column(series: Any) -> NDArray:
    """Return the cells of one column, of a frame or an array, as they are."""
    if isinstance(series, np.ndarray):
        return _unmasked(series)
    own = getattr(series, "dtype", None)
    if hasattr(own, "pyarrow_dtype") or str(getattr(own, "storage", "")).startswith("pyarrow"):
        series = series.array.__arrow_array__()
    if is_arrow_column(series):
        return arrow_cells(series)
    with suppress(Exception):  # of a type that numpy does not have, such as i128
        column = series.to_numpy()
        # Neither are cells that are arrays numbers. And numpy makes floats of whole numbers beside
        # a missing one, which rounds those beyond 2**53.
        if column.ndim == 1 and (column.dtype.kind != "f" or _holds_floats(series)):
            has_zone = column.dtype.kind == "M" and getattr(own, "time_zone", None) is not None
            return in_utc(column) if has_zone else column
    with suppress(Exception):  # whose texts quote cells
        return cells_as_objects(
            list(series.astype(object) if hasattr(series, "astype") else series)
        )
    take = getattr(series, "iloc", series)
    return one_by_one(len(series), lambda i: take[i])


def _holds_floats(series: Any) -> bool:
    """Whether the own type of a column, and not only what numpy makes of it, is one of floats."""
    own: Any = getattr(series, "dtype", None)
    return own.is_float() if hasattr(own, "is_float") else getattr(own, "kind", "f") == "f"


def label_cells(labels: Any, name: str = "y") -> NDArray:
    """Return one cell per row of y, groups or owners, as they are.

    Parameters
    ----------
    labels : array-like, series, or frame of one column
        Labels in a list become objects, not of one dtype.
    name : str, default="y"
        What the warning of a table with one column calls them.

    Raises
    ------
    CellError
        SHAPE, for another number of dimensions, or of columns.
    """
    check_computed(labels, name)
    cells = _cells_of(labels)
    if isinstance(cells, Table) or cells.ndim != 1:
        if cells.ndim != 2 or cells.shape[1] != 1:
            raise CellError(SHAPE)
        warn_caller(
            # The first sentence is scikit-learn's, which its checks look for.
            f"A column-vector {name} was passed when a 1d array was expected. Give the one column "
            "itself, as a series, or with ravel().",
            DataConversionWarning,
        )
        cells = cells[:, 0]
    return cells


def _cells_of(labels: Any) -> NDArray | Table:
    if isinstance(labels, Sequence) and not isinstance(labels, str | bytes):
        widths = {len(cell) if _is_sequence(cell) else 0 for cell in labels}
        if widths == {1}:  # rows with one cell each
            return cells_as_objects([cell[0] for cell in labels])[:, None]
        if widths - {0}:
            raise CellError(SHAPE)
        return cells_as_objects(labels)
    is_column = hasattr(labels, "to_pylist") or hasattr(labels, "to_numpy")
    return read_column(labels) if is_column and not is_frame(labels) else read_table(labels)


def _is_sequence(cell: Any) -> bool:
    """Whether a cell is a row of cells: then labels have two dimensions."""
    return isinstance(cell, list | tuple) or len(getattr(cell, "shape", ())) > 0


def read_labels(labels: Any, name: str = "y") -> list[Any]:
    """Return the value of each label, as Python's word or number: one value has one form.

    A whole number is an int, whatever type it came in: 1, 1.0 and True are 1, and -0.0 is 0. Other
    numbers are floats, or fractions where float64 does not hold them.

    Parameters
    ----------
    labels, name
        As `label_cells`.

    Raises
    ------
    CellError
        For labels that are missing or not finite, for dates and times, for words that end in NUL,
        which some containers drop, and for what is neither word nor number.
    """
    return plain_labels(label_cells(labels, name))


def plain_labels(column: NDArray) -> list[Any]:
    """Return cells as `read_labels` does."""
    if column.dtype.kind in "mM":  # which numpy may return as integers
        raise CellError(TIMES)
    cells = column.tolist()
    if column.dtype.kind in "biu":
        return list(map(int, cells))
    return [cell if type(cell) is int else plain_label(cell) for cell in cells]


def plain_label(cell: Any) -> Any:
    """Return one cell as `read_labels` does."""
    if isinstance(cell, str):
        if cell.endswith("\0"):
            raise CellError(NUL)
        return str.__str__(cell)
    if type(cell) is float and cell.is_integer():  # the most frequent one comes first
        return int(cell)
    fault = MISSING if is_missing(cell) else cell_fault(cell)
    if fault:
        raise CellError(OBJECTS if fault == WORDS else fault)
    if isinstance(cell, Integral | np.bool_):
        return int(cell)
    if isinstance(cell, Rational):
        exact = Fraction(int(cell.numerator), int(cell.denominator))
    elif not _is_finite(cell):
        raise CellError(INFINITE)
    elif hasattr(cell, "as_integer_ratio"):
        exact = Fraction(*cell.as_integer_ratio())
    else:
        raise CellError(OBJECTS)
    if exact.denominator == 1:
        return exact.numerator
    return float(exact) if is_exact(exact) else exact


def _is_finite(number: Any) -> bool:
    if isinstance(number, Decimal):
        # Decimals with larger exponents are no floats, and Python would write out all their digits.
        return number.is_finite() and (not number or abs(number.adjusted()) < 400)
    return bool(np.isfinite(number))


def is_exact(number: Any) -> bool:
    """Whether float64 holds a number."""
    try:
        return bool(float(number) == number and np.isfinite(float(number)))
    except OverflowError:
        return False


def _is_sound(number: Any) -> bool:
    return is_exact(number) and (type(number) is not int or -(2**63) <= number < 2**63)


def sound_labels(values: list[Any]) -> list[Any]:
    """Return values of `read_labels` that name classes or owners.

    Raises
    ------
    CellError
        For a number that float64 (or int64) does not hold, which some containers round to another,
        and for words beside numbers, which some make words of.
    """
    kinds = set(map(type, values))
    if str in kinds and len(kinds) > 1:
        raise CellError(MIXED)
    if str not in kinds and not all(map(_is_sound, set(values))):
        raise CellError(INEXACT)
    return values


def label_array(values: list[Any]) -> NDArray:
    """Return sound labels as an array, the dtype of which follows from the set of values alone.

    Words, 64-bit integers where all are whole numbers, and float64 otherwise.
    """
    if any(isinstance(value, str) for value in values):
        return np.array(values, np.str_)
    whole = all(type(value) is int for value in values)
    return np.array(values, np.int64 if whole else np.float64)


def _read_rows(rows: Sequence[Any]) -> NDArray:
    widths = {len(row) if _is_row(row) else -1 for row in rows}
    is_deeper = min(widths, default=0) > 0 and all(_is_row(cell) for row in rows for cell in row)
    if len(widths) != 1 or widths == {-1} or is_deeper:
        return np.asarray(rows)  # no table, as its shape or an error of numpy's will say
    return cells_as_objects([cell for row in rows for cell in row]).reshape(len(rows), *widths)


def _is_row(row: Any) -> bool:
    """Whether this is a row of cells. An array of no dimension has a length in name only."""
    has_length = len(row.shape) > 0 if hasattr(row, "shape") else hasattr(row, "__len__")
    return has_length and not isinstance(row, str | bytes | Mapping)


def exact_numbers(column: NDArray) -> NDArray[np.float64]:
    """Return the float64 that is closest to each cell, NaN where it is missing.

    Parameters
    ----------
    column : ndarray of shape (n,) or (n, d)

    Raises
    ------
    CellError
        For cells that are no real numbers.
    """
    kind = column.dtype.kind
    if kind == "O":
        return _numbers_of_objects(column)
    if kind not in "biuf":
        raise CellError({"c": COMPLEX, "M": TIMES, "m": TIMES}.get(kind, WORDS))
    with np.errstate(over="ignore"):  # of longdouble; infinity is an answer
        return column.astype(np.float64, copy=False)


def _numbers_of_objects(column: NDArray) -> NDArray[np.float64]:
    cells = column.ravel().tolist()
    examples = {type(cell): cell for cell in cells}
    # One cell of each type: what is wrong is a matter of types, and tables have many cells.
    faults = [CellError(cell_fault(cell), kind.__name__) for kind, cell in examples.items()]
    for worst in (COMPLEX, TIMES, WORDS, INTERVALS, OBJECTS):
        for error in faults:
            if error.fault == worst:
                raise error
    if not examples.keys() <= {float, bool}:
        cells = [_number(cell) for cell in cells]
    return np.array(cells, np.float64).reshape(column.shape)


def exact_dates(column: NDArray, unit: str, zone: ZoneInfo | None) -> NDArray[np.datetime64]:
    """Return the year, month, day or hour that each cell is in, NaT where it is missing.

    Parameters
    ----------
    column : ndarray of shape (n,)
        Datetimes of numpy, Python or pandas, and ISO words.
    unit : {"Y", "M", "D", "h"}
    zone : ZoneInfo or None
        By whose clock a cell with a time zone is read. Other cells are read as they are.

    Raises
    ------
    CellError
        For cells that are no dates, and for one with a time zone where there is no `zone`.
    """
    if column.dtype.kind == "M":
        return within_years(column).astype(f"M8[{unit}]")
    cells = [read_date(cell, zone).astype(f"M8[{unit}]")[()] for cell in column.tolist()]
    return np.array(cells, f"M8[{unit}]")


def read_date(cell: Any, zone: ZoneInfo | None) -> NDArray[np.datetime64]:
    """Return a cell as a datetime of numpy without a zone, shape (); else as `exact_dates`."""
    is_zoned = False
    with suppress(Exception):  # whose text may quote the cell
        if is_missing(cell):
            return np.array("NaT", "M8[D]")
        date: Any = date_of_word(cell) if isinstance(cell, str) else cell
        is_zoned = getattr(date, "tzinfo", None) is not None
        if isinstance(date, np.datetime64 | datetime.date) and (zone or not is_zoned):
            return within_years(_without_zone(date, zone) if is_zoned else _plain_date(date))
    raise CellError(ZONED if is_zoned and zone is None else NO_DATES)


def _without_zone(date: Any, zone: ZoneInfo | None) -> NDArray[np.datetime64]:
    with suppress(OverflowError, ValueError):  # of the first and the last day that there is
        date = date.astimezone(zone)
    return _plain_date(date.replace(tzinfo=None))


def _plain_date(date: Any) -> NDArray[np.datetime64]:
    # Years of pandas go beyond those of Python's dates, which such a one still is.
    plain = date.to_datetime64() if hasattr(date, "to_datetime64") else date
    found = np.array(plain, getattr(plain, "dtype", "M8"))
    if found.shape:
        raise ValueError("A date is a single value.")
    return found


def date_of_word(word: str) -> datetime.datetime:
    """Return the date that an ISO word says, such as 2024-02-29; raise ValueError for no date."""
    text = str.__str__(word) + "-01" * (len(word) == len("2024-02"))
    if not ISO.match(text):  # other forms of ISO 8601 read as numbers
        raise ValueError(f"{word!r} is no date; write it as in 2024-02-29.")
    return datetime.datetime.fromisoformat(text)


def cell_fault(cell: Any) -> str:
    """Return what is wrong with a cell as a number, "" for nothing."""
    # Before all others: numpy.timedelta64 says that it is an integer, and a NaT that is taken for a
    # missing number would be refused in a column of dates.
    if isinstance(cell, TIME_TYPES):
        return TIMES
    if is_missing(cell):
        return MISSING
    if isinstance(cell, Real | Decimal | np.bool_):
        return ""
    if isinstance(cell, complex | np.complexfloating):
        return COMPLEX
    if hasattr(cell, "freqstr"):  # a period or an offset of pandas
        return TIMES
    if hasattr(cell, "left") and hasattr(cell, "closed"):
        return INTERVALS
    return WORDS if isinstance(cell, str | bytes) else OBJECTS


def _number(cell: Any) -> float:
    if is_missing(cell):
        return np.nan
    try:
        return float(cell)
    except OverflowError:
        return np.inf


def is_missing(value: Any) -> bool:
    """Whether a cell stands for none."""
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, Fraction):  # which may be too large for a float
        return False
    kind = type(value)
    is_na = kind.__name__ == "NAType" and kind.__module__.startswith("pandas.")
    is_nan = isinstance(value, Real) and value != value
    is_nat = isinstance(value, TIME_TYPES) and value != value  # NaT alone is not itself
    return value is None or is_na or is_nan or is_nat


class Public(tuple):
    """A public table that a search or a cross-validation never cuts into folds.

    Wrap public rows in it before you pass them to `fit` by metadata routing. scikit-learn slices
    every routed array whose length happens to equal the number of rows of X. A `Public` has length
    one, whatever table it holds, and estimators of skdpsumm take the table out again. In a
    `Pipeline` with `transform_input`, transformers map the table inside.

    Also wrap points that you ask a PINP learner about, if they are public. A copy of the learner
    carries these points, and then holds no private data.

    Parameters
    ----------
    table : array-like or frame
        The public table.

    Examples
    --------
    >>> from skdpsumm import Public
    >>> Public([[0.0], [1.0]])
    Public(<list>)
    """

    # A tuple: a Pipeline maps the entries of one by themselves, and returns a plain tuple.

    def __new__(cls, table: Any):
        return super().__new__(cls, (table,))

    @property
    def table(self) -> Any:
        """The table."""
        return self[0]

    def __getnewargs__(self) -> tuple[Any]:
        return (self[0],)

    def __repr__(self) -> str:
        return f"Public(<{type(self.table).__name__}>)"


def unwrap(table: Any) -> Any:
    """Return the table that a `Public`, or what a Pipeline made of one, holds; others as they are.

    A table inside a tuple of length one would have three dimensions, so nothing else looks alike.
    """
    if isinstance(table, Public):
        return table.table
    mapped = isinstance(table, tuple) and len(table) == 1
    return table[0] if mapped and len(getattr(table[0], "shape", ())) == 2 else table


@dataclass(frozen=True)
class ReadRows:
    """Rows that a fitted model has read, which its `predict` takes without reading them again.

    A frame's rows are slow to read one by one, and each is read by itself in a block as well.
    """

    values: NDArray

    @classmethod
    def of(cls, model: Any, X: Any) -> ReadRows | None:
        """Return the rows of a table; None for a model that reads them in its own way."""
        read = getattr(model, "_read_rows", None)
        return None if read is None else cls(read(X))

    def row(self, i: int) -> ReadRows:
        """Return one row, in memory of its own."""
        return ReadRows(self.values[[i]])


def check_some_rows(name: str, table: Any) -> None:
    """Raise ValueError for a table beside X, or a public one, that has no rows."""
    has_shape = len(getattr(table, "shape", ())) > 0
    n_rows = table.shape[0] if has_shape else len(table) if hasattr(table, "__len__") else None
    if n_rows == 0 and not _no_rows.get():
        raise ValueError(f"{name} has no rows. Give at least one.")


@contextmanager
def beside_X(name: str, table: Any) -> Iterator[None]:
    """Tell with what is raised about a table beside X that no Pipeline may have mapped it.

    Raises
    ------
    ValueError
        For a table without rows.
    """
    check_some_rows(name, table)
    try:
        yield
    except (ValueError, TypeError) as error:
        error.add_note(
            f"This is about {name}. Give {name} encoded and scaled as X is. A Pipeline does that "
            f"only if you make it with transform_input=[{name!r}] and call "
            "sklearn.set_config(enable_metadata_routing=True)."
        )
        raise


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, frame or series."""
    return all(hasattr(X, name) for name in ("__dask_graph__", "to_delayed", "_meta"))


# Messages of scikit-learn that hold no value of the table, by how they begin: further on, a value
# may stand in them that looks like anything.
_HARMLESS = re.compile(
    r"Input (\w+ )?(contains (NaN|infinity)|holds |should be )"
    r"|Complex data not supported(?!\n)"  # behind which all values stand
    r"|float\(\) argument must be a string or a real number, not '\w+'"
    r"|Found array with \d+ (sample|feature)\(s\)"
    r"|X has \d+ features|The feature names should|Feature names are only"
    r"|Sparse data was|y cannot be None"
    r"|(This \w+ e|E)stimator.* requires y"
    r"|The indices of the sparse table|\w+ is a \w+, which holds no rows yet"
    r"|The table (lacks|has) (two )?columns? |The schema describes \d+ columns"
    r"|The columns of the table have "
)
Y_LENGTH = "X and y have different numbers of rows; give one label for each row of X."
_RESHAPE = (
    "Expected 2D array, got another number of dimensions. Reshape your data either using "
    "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is one sample."
)
# Those that print values of the table, or the number of its rows.
_REPLACED = {
    "Expected 2D": _RESHAPE,
    "inconsistent numbers": Y_LENGTH,
    "unique column names": TWO_NAMES,
    "Complex data": "Complex data not supported; give real numbers.",
}
# Not scikit-learn's advice, which is an imputer: fitted to the rows it makes each depend on all.
FILL_MISSING = (
    "Give a `schema` that has missing=True for the column, in its Numeric, Date or Categorical. Or "
    "fill missing values with a public constant, or drop rows by a public rule. Never fit an "
    "imputer to private rows: that voids the guarantee."
)
# What is wrong with labels: y, groups or owners.
_TOLD_OF_LABELS = {
    SHAPE: "{who} should be a 1d array, with one value per row; give one column of a table.",
    MISSING: (
        "{who} contains NaN. Leave out rows without a label by a public rule, of X as well. Or "
        "give them a label of their own, such as with fillna('unknown')."
    ),
    TIMES: (
        "{who} holds dates or times, which have no unit of their own. Convert them to words, such "
        "as with astype(str), or to whole numbers."
    ),
    OBJECTS: (
        "{who} holds labels that are neither words nor numbers. Convert them, such as with "
        "astype(str)."
    ),
    WORDS: "{who} holds values that are not numbers. Convert them, such as with astype(float).",
    NUL: "{who} holds a word that ends in NUL, which numpy drops. Strip it.",
    INEXACT: (
        "{who} holds a number that float64 does not hold exactly. Write such labels as words, such "
        "as with astype(str)."
    ),
    MIXED: "{who} holds words beside numbers. Give labels of one kind.",
}
NO_TIMES = (
    "Say in a schema that the column holds dates, such as Date('2015-01-01', '2024-12-31'). "
    "Convert what has no date to numbers of a public unit."
)
NO_INTERVALS = (
    "An interval is no number, and ends that were cut by private rows are private. Give the "
    "numbers themselves, and public edges in a schema: Numeric(0, 90, edges=[0, 18, 65, 90]). Or "
    "make words of intervals with public ends by astype(str), and list them all in a schema."
)
_UNREADABLE = (
    "The table holds values that are not numbers or cannot be read. Convert them to numbers."
)
# What is wrong with cells, the worst first, and what to do.
_TOLD = {
    COMPLEX: "{who} holds complex numbers{where}. Complex data not supported; give real numbers.",
    TIMES: "{who} holds dates or times{where}. " + NO_TIMES,
    INTERVALS: "{who} holds intervals{where}. " + NO_INTERVALS,
    WORDS: (
        "{who} holds values that are not numbers{where}. Convert numbers that are written as words "
        "with astype(float), and let pandas.read_csv read words for missing cells as such: "
        "na_values='N'. List names in a `schema`, such as {{'color': ['red', 'blue']}}, and "
        "describe dates there, such as Date('2015-01-01', '2024-12-31'). Or leave the column out. "
        "(This message shows no value, because the table is private.)"
    ),
    OBJECTS: (  # in the words that scikit-learn's checks know
        "{who} holds other things than numbers{where}: float() argument must be a string or a real "
        "number, not {kind!r}."
    ),
    MISSING: "{who} contains NaN{where}. " + FILL_MISSING,
    INFINITE: (
        "{who} contains infinity or a value too large for dtype('float64'){where}. Replace such "
        "values with a public constant."
    ),
    NO_DATES: (
        "{who} holds cells that are no dates. Give datetimes, or ISO words such as '2024-02-29'; "
        "convert others with pandas.to_datetime(t, format=...), such as format='%Y%m%d' for "
        "20240229."
    ),
    ZONED: (
        "{who} has cells with a time zone. Say by whose clock to read them in the schema, such as "
        "Date(..., zone='Europe/Berlin')."
    ),
    UNLISTED: (
        "{who} holds a value that is not among its categories; add it to those of the schema, or "
        "map rare values to one of those listed, or to None where the schema says missing=True. Or "
        'set other=True for the column, which reads such values as "other". List numbers as '
        "numbers: 1 is not '1'. If the list was meant as a range, write a tuple, such as (17, 90)."
    ),
    NARROW: (
        "{who} has a float type that is too short for its categories or missing_values; convert it "
        "with astype(float)."
    ),
}


class NoEstimator(BaseEstimator):
    """What `validate_table` writes the columns to, for those who are no estimators."""


def validate_table(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    schema: Any = None,
    keep_float32: bool = False,
    y_numeric: bool = False,
    reset: bool = True,
    ensure_min_samples: int = 1,
    accept_sparse: bool = False,
) -> Any:
    """Check X (and y) as scikit-learn does, and return them read cell by cell.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and `feature_names_in_`, or is asked for them (``reset=False``).
    X : array-like or frame of shape (n_samples, n_features)
    y : array-like, default="no_validation"
    schema : TableSchema, default=None
        Which columns of X are meant. They are returned in its order, their cells as they are, for
        the schema of the table (`TableSchema.for_table`) to check and to read.
    keep_float32 : bool, default=False
        Whether a table of float32 stays one, for callers that work in float64 block by block.
    y_numeric : bool, default=False
        Whether y holds numbers; they become float64.
    reset : bool, default=True
    ensure_min_samples : int, default=1
    accept_sparse : bool, default=False
        Whether a sparse table is taken: it becomes `SparseRows`, with a schema, too.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64 unless said otherwise, Table or SparseRows
    y : ndarray of shape (n_samples,), if y was given

    Raises
    ------
    ValueError, TypeError
        As scikit-learn does, in words that name the columns at fault and no value of the table.
    """
    try:
        # scikit-learn checks names and numbers of columns; cells are read below, not by its array
        # conversion, which decides one dtype for all of them.
        check_computed(X)
        known = None if schema is None else schema.names
        was_named = not reset and hasattr(estimator, "feature_names_in_")
        names = column_names(X, needed=known is not None or was_named)
        by_name = known is not None and names is not None
        if reset or not by_name:
            seen = as_sklearn_sees_it(X) if is_frame(X) else X
            validate_data(estimator, seen, y, reset=reset, skip_check_array=True, ensure_2d=False)
        table = _read(estimator, X, ensure_min_samples, accept_sparse)
        # Later tables need what the schema names, in any order, and not what it drops.
        if reset or not by_name:
            _check_width(estimator, table.shape[1], reset=reset)
        if schema is not None:
            # Its own names, which scikit-learn 1.6 does not see in every kind of frame.
            names = names or getattr(estimator, "feature_names_in_", None)
            table = _take(table, schema.positions(table.shape[1], names))
        if isinstance(table, SparseRows) or schema is not None:
            checked: Any = table
        else:
            checked = _as_floats(table, X, keep_float32)
        has_target = not (isinstance(y, str) and y == "no_validation")
        target = _read_target(estimator, y, y_numeric) if has_target else None
        if reset and schema is not None and has_target:
            _warn_of_the_target(y, schema)
        if has_target:
            check_consistent_length(table, target)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = _without_values(str(error))
    else:
        if schema is not None and not isinstance(X, Table):  # which has been read before
            checked = schema.in_steps(checked)
        return (checked, target) if has_target else checked
    # Raised out here, for the error above may hold a value of the table.
    raise kind(message)


@contextmanager
def tables_without_rows() -> Iterator[None]:
    """Let a table have no rows inside.

    Of a part that coins have cut, whether it holds any is private, and an error would tell it.
    """
    token = _no_rows.set(True)
    try:
        yield
    finally:
        _no_rows.reset(token)


def _warn_of_the_target(y: Any, schema: Any) -> None:
    """Warn of a schema with the target among the inputs, which names alone tell."""
    name = next(iter(getattr(y, "columns", ())), getattr(y, "name", None))  # a table has one column
    if isinstance(name, str) and name in (schema.names or ()):
        warn_caller(
            f"Leave column {name!r} out of the schema: it has the name of y, and a model that sees "
            "the answer learns nothing else.",
            UserWarning,
        )


def _check_width(estimator: Any, n_columns: int, *, reset: bool) -> None:
    """Set the number of columns, or raise ValueError for a table with another one."""
    expected = n_columns if reset else getattr(estimator, "n_features_in_", n_columns)
    if n_columns != expected:
        raise ValueError(
            f"X has {n_columns} features, but {type(estimator).__name__} is expecting {expected} "
            "features as input."
        )
    if reset:
        estimator.n_features_in_ = n_columns


def _read(
    estimator: Any, X: Any, ensure_min_samples: int, accept_sparse: bool
) -> NDArray | Table | SparseRows:
    """Return the cells of X, which are a table with enough rows and columns."""
    if sparse.issparse(X) and not accept_sparse:
        check_array(X)  # which refuses it
    table = _read_sparse(X) if sparse.issparse(X) else read_table(X)
    if table.ndim != 2:
        raise ValueError(_RESHAPE)
    n_rows, n_columns = table.shape
    ensure_min_samples = 0 if _no_rows.get() else ensure_min_samples
    # scikit-learn's words for the shape, which tell no number of rows that is large enough.
    shape = min(n_rows, ensure_min_samples), n_columns
    named = None if isinstance(estimator, NoEstimator) else estimator
    check_array(np.zeros(shape), ensure_min_samples=ensure_min_samples, estimator=named)
    return table


def _read_sparse(X: Any) -> SparseRows:
    """Return the rows of a sparse table, the cells of which are finite numbers."""
    if X.ndim != 2:
        raise ValueError(_RESHAPE)
    found = checked_structure(X)
    try:
        rows = sparse_rows(found, finite_numbers(found.data))
        finite_numbers(rows.values)  # parts of a cell may add up to more
        return rows
    except CellError as error:
        fault = error
    raise cell_error(fault, "Input X")


def _take(table: NDArray | Table | SparseRows, which: list[int]) -> NDArray | Table | SparseRows:
    """Return some columns of a table, or the table itself where these are all."""
    if which == list(range(table.shape[1])):
        return table
    if isinstance(table, SparseRows):
        return table.take_columns(which)
    return Table([table[:, j] for j in which]) if isinstance(table, Table) else table[:, which]


def _as_floats(table: NDArray | Table, X: Any, keep_float32: bool) -> NDArray:
    """Return the table as finite floats, contiguous row by row."""
    try:
        floats = _converted(table, keep_float32 and is_float32(table))
        with np.errstate(all="ignore"):  # sums of the check, which huge cells make overflow
            assert_all_finite(floats)
        return floats
    except ValueError:
        pass
    raise _table_error(table, X)


def _converted(table: NDArray | Table, float32: bool) -> NDArray:
    dtype = np.float32 if float32 else np.float64
    if not isinstance(table, Table):
        return np.ascontiguousarray(table if float32 else exact_numbers(table))
    floats = np.empty(table.shape, dtype)
    for j, column in enumerate(table.columns):
        floats[:, j] = column if float32 else exact_numbers(column)
    return floats


def is_float32(table: NDArray | Table) -> bool:
    """Whether all columns are float32."""
    columns = table.columns if isinstance(table, Table) else [table]
    return len(columns) > 0 and all(column.dtype == np.float32 for column in columns)


def _table_error(table: NDArray | Table, X: Any) -> Exception:
    """Return what to raise for a table that is not all finite numbers: its worst kind of fault."""
    faults: dict[int, CellError] = {}
    for j in range(table.shape[1]):
        try:
            finite_numbers(table[:, j])
        except CellError as error:
            faults[j] = error
    worst = min(faults.values(), key=lambda fault: list(_TOLD).index(fault.fault))
    at_fault = [j for j, fault in faults.items() if fault.fault == worst.fault]
    names = column_names(X) or [f"x{j}" for j in range(table.shape[1])]
    return cell_error(worst, "Input X", f" in {listed_columns([names[j] for j in at_fault])}")


def finite_numbers(column: NDArray, *, missing: bool = False) -> NDArray[np.float64]:
    """Return what `exact_numbers` does; raise CellError for missing and infinite ones, too.

    Missing ones are NaN where there may be some.
    """
    numbers = exact_numbers(column)
    if np.isfinite(numbers).all():
        return numbers
    absent = np.isnan(numbers)
    if absent.any() and not missing:
        raise CellError(MISSING)
    if np.isinf(numbers).any():
        raise CellError(INFINITE)
    return numbers


def cell_error(error: CellError, who: str, where: str = "") -> Exception:
    """Return the error that tells what is wrong with the cells of a column, X or y."""
    kind = TypeError if error.fault == OBJECTS else ValueError
    return kind(_TOLD[error.fault].format(who=who, kind=error.kind, where=where))


def label_error(error: CellError, name: str) -> ValueError:
    """Return the error that tells what is wrong with y, groups or owners."""
    told = {**_TOLD, **_TOLD_OF_LABELS}[error.fault]
    return ValueError(told.format(who=f"Input {name}", where="", kind=error.kind))


def _read_target(estimator: Any, y: Any, y_numeric: bool) -> NDArray:
    if y is None:
        return validate_data(NoEstimator(), y=y, estimator=estimator)
    try:
        cells = label_cells(y)
        if y_numeric:
            return finite_numbers(cells)
        return label_array(sound_labels(plain_labels(cells)))
    except CellError as error:
        fault = error
    of_numbers = y_numeric and fault.fault == OBJECTS
    raise cell_error(fault, "Input y") if of_numbers else label_error(fault, "y")


def _without_values(message: str) -> str:
    if _HARMLESS.match(message):
        return message
    replacements = (new for part, new in _REPLACED.items() if part in message)
    return next(replacements, _UNREADABLE)


def column_names(X: Any, *, needed: bool = False) -> list[str] | None:
    """Return the names of the columns of a frame; None of an array, or where they are positions.

    Parameters
    ----------
    X : array-like or frame
    needed : bool, default=False
        Whether a frame must have names. Columns of an array are always meant in their order.

    Raises
    ------
    ValueError
        For labels that are neither words nor positions, or positions where names are needed.
    """
    if not is_frame(X):
        return None
    names = names_of(X)
    if names is None and needed:
        raise ValueError(NO_NAMES)
    return names


def check_same_order(name: str, table: Any, X: Any) -> None:
    """Raise ValueError if two frames that are read by position have not the same columns.

    Parameters
    ----------
    name : str
        What the message calls the table.
    table, X : array-like or frame
        Columns of an array have no names, and are meant in their order.
    """
    names, others = column_names(table), column_names(X)
    if names is not None and others is not None and names != others:
        raise ValueError(f"{name} must have the columns of X, in the same order.")


def for_inner(X: Any, outer: Any) -> Any:
    """Return a table for an estimator that was fitted inside another one, maybe scikit-learn's own.

    Parameters
    ----------
    X : array-like or frame
    outer : estimator
        It has the names of the table that was fitted, if this had some.

    Raises
    ------
    ValueError
        For labels that scikit-learn would overlook, to read columns by position.
    """
    column_names(X, needed=hasattr(outer, "feature_names_in_"))
    return as_sklearn_sees_it(X)


def listed_columns(names: Sequence[Any]) -> str:
    """Return names of columns as a message tells them, the first of many."""
    return f"column{'s' if len(names) > 1 else ''} {some_of(names)}"
