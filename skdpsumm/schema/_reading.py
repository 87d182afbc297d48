"""What one cell says, whatever container it came in: a number, a date, a word, or nothing.

A container has one dtype for many cells, and one row can decide which: a float beside 64-bit
integers rounds all of them, a datetime with finer digits rescales a column, a word turns numbers
into words. Then one row more changes what all others add to a sum, which no sensitivity covers.
So no dtype decides anything here:

- A number becomes the closest float64. A container that widens a column to float64 makes the same
  of it, so its dtype does not matter. (One that narrows a column has changed its cells before.)
- A label that nobody listed, a group and an owner are read as Python's word or number, one form for
  each value (`plain_label`): 1, 1.0 and True are 1, and -0.0 is 0.
- A category is looked up among those listed in the same form (`Categorical.read`). Listed are only
  values that no container can confuse (`check_listed`).
- Words are no numbers, and are refused. So are dates and times, but in a column of dates, where the
  unit is the schema's and the zone is the cell's own (`exact_dates`).

What a cell may not be is raised as a `CellError`. Its words tell no value of a table.

Containers are known by what they can do: frames of pandas, polars and Arrow have columns, columns
make arrays, and the rest is rows. All become arrays of the cells as they are (`read_table`).
Otherwise tables are validated as scikit-learn does it (`validate_table`), but no message tells a
value of a table.

A schema knows columns by words or by positions. A frame of pandas may have other labels: numbers in
any order, or tuples of a MultiIndex. Read by position, such columns are soon mistaken for others,
and nothing says so. So labels are words, or the positions 0, 1, ... themselves, for which a label
and a position are the same. All other labels are refused.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from numbers import Integral, Rational, Real
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import _safe_indexing, assert_all_finite, check_array
from sklearn.utils.validation import validate_data

from .._computing import warn_caller
from .._html import some_of

T = TypeVar("T")

AS_WORDS = "X.set_axis([str(label) for label in X.columns], axis=1)"
OTHER_LABELS = (
    "The columns of the table have labels that are neither words nor the positions 0, 1, ... in "
    f"order. Make them words: X = {AS_WORDS}. Use the same words in a schema."
)
TWO_NAMES = "The table has two columns of one name. Rename one of them."
NO_NAMES = (
    "The columns of the table have no names: their labels are 0, 1, ... Give them the names that "
    "the schema or the first table has: X = X.set_axis([...], axis=1)."
)
Y_LENGTH = "X and y have different numbers of rows; give one label for each row of X."
_RESHAPE = (
    "Expected 2D array, got another number of dimensions. Reshape your data either using "
    "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it is one sample."
)
_UNREADABLE = (
    "The table holds values that are not numbers or cannot be read. Convert them to numbers."
)

_no_rows: ContextVar[bool] = ContextVar("skdpsumm_no_rows", default=False)

TIME_TYPES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)
ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # how a word that is a date begins

# What may be wrong with a cell, in the words of the error.
COMPLEX = "{who} holds complex numbers{where}. Complex data not supported; give real numbers."
TIMES = (
    "{who} holds dates or times{where}. Say in a schema that the column holds dates, such as "
    "Date('2015-01-01', '2024-12-31'). Convert what has no date to numbers of a public unit."
)
INTERVALS = (
    "{who} holds intervals{where}. An interval is no number, and ends that were cut by private "
    "rows are private. Give the numbers themselves, and public edges in a schema: Numeric(0, 90, "
    "edges=[0, 18, 65, 90]). Or make words of intervals with public ends by astype(str), and list "
    "them all in a schema."
)
WORDS = (
    "{who} holds values that are not numbers{where}. Convert numbers that are written as words "
    "with astype(float), and let pandas.read_csv read words for missing cells as such: "
    "na_values='N'. List names in a `schema`, such as {{'color': ['red', 'blue']}}, and "
    "describe dates there, such as Date('2015-01-01', '2024-12-31'). Or leave the column out. "
    "(This message shows no value, because the table is private.)"
)
OBJECTS = (  # in the words that scikit-learn's checks know
    "{who} holds other things than numbers{where}: float() argument must be a string or a real "
    "number, not {kind!r}."
)
# The advice is not scikit-learn's, an imputer: fitted to the rows it makes each depend on all.
MISSING = (
    "{who} contains NaN{where}. Give a `schema` that has missing=True for the column, in its "
    "Numeric, Date or Categorical. Or fill missing values with a public constant, or drop rows by "
    "a public rule. Never fit an imputer to private rows: that voids the guarantee."
)
INFINITE = (
    "{who} contains infinity or a value too large for dtype('float64'){where}. Replace such "
    "values with a public constant."
)
NO_DATES = (
    "{who} holds cells that are no dates. Give datetimes, or ISO words such as '2024-02-29'; "
    "convert others with pandas.to_datetime(t, format=...), such as format='%Y%m%d' for "
    "20240229."
)
ZONED = (
    "{who} has cells with a time zone. Say by whose clock to read them in the schema, such as "
    "Date(..., zone='Europe/Berlin')."
)
SHAPE = "{who} should be a 1d array, with one value per row; give one column of a table."
NUL = "{who} holds a word that ends in NUL, which numpy drops. Strip it."
INEXACT = (
    "{who} holds a number that float64 does not hold exactly. Write such labels as words, such "
    "as with astype(str)."
)
MIXED = "{who} holds words beside numbers. Give labels of one kind."
# The words where the cells are labels: y, groups or owners.
_OF_LABELS = {
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
        "astype(str) or astype(float)."
    ),
    WORDS: "{who} holds values that are not numbers. Convert them, such as with astype(float).",
}
# What may be wrong with the cells of a column of numbers, the worst first.
FAULTS_OF_NUMBERS = (COMPLEX, TIMES, INTERVALS, WORDS, OBJECTS, MISSING, INFINITE)


class CellError(ValueError):
    """A column holds what it may not. No value of the table is told.

    Parameters
    ----------
    fault : str
        One of the texts above.
    kind : str, default=""
        The name of the type of the cell at fault.
    """

    def __init__(self, fault: str, kind: str = ""):
        super().__init__(fault)
        self.fault, self.kind = fault, kind

    def as_error(self, who: str, where: str = "", *, of_labels: bool = False) -> Exception:
        """Return the error that tells a user what is wrong with a column, X, y or groups."""
        told = _OF_LABELS.get(self.fault, self.fault) if of_labels else self.fault
        kind = TypeError if told == OBJECTS else ValueError
        return kind(told.format(who=who, kind=self.kind, where=where))


def cells_as_objects(cells: Sequence[Any]) -> NDArray:
    """Return cells as they are, in an array of objects."""
    return np.fromiter(cells, object, len(cells))  # which does not look into sequences


def read_each(cells: Iterable[Any], read: Callable[[Any], T]) -> list[T]:
    """Return what is read of each cell; what is read once, of equal words and whole numbers.

    So it is of None and numpy's NaN, as which libraries give missing cells.
    """
    once = cache(read)  # which is not asked for others: they may lie about what they equal
    alike = (str, int, type(None))
    return [once(c) if type(c) in alike or c is np.nan else read(c) for c in cells]


def _told_by_cells(read: Callable[[], T]) -> T:
    """Return what `read` does. A cell may be any object, and what it raises may quote it."""
    try:
        return read()
    except CellError:
        raise
    except Exception:
        pass
    raise CellError(OBJECTS, "object")


# ---- numbers


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
        return _told_by_cells(lambda: _numbers_of_objects(column))
    if kind not in "biuf":
        raise CellError({"c": COMPLEX, "M": TIMES, "m": TIMES}.get(kind, WORDS))
    with np.errstate(over="ignore"):  # of longdouble; infinity is an answer
        return column.astype(np.float64, copy=False)


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


def _numbers_of_objects(column: NDArray) -> NDArray[np.float64]:
    cells = column.ravel().tolist()
    examples = {type(cell): cell for cell in cells}
    # One cell of each type: what is wrong is a matter of types, and tables have many cells.
    faults = {cell_fault(cell): kind.__name__ for kind, cell in examples.items()}
    worst = next((fault for fault in FAULTS_OF_NUMBERS[:-2] if fault in faults), None)
    if worst is not None:
        raise CellError(worst, faults[worst])
    if not examples.keys() <= {float, bool}:
        cells = [_number(cell) for cell in cells]
    return np.array(cells, np.float64).reshape(column.shape)


def _number(cell: Any) -> float:
    if is_missing(cell):
        return np.nan
    try:
        return float(cell)
    except OverflowError:
        return np.inf


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


def is_missing(value: Any) -> bool:
    """Whether a cell stands for none."""
    if isinstance(value, Decimal):
        return value.is_nan()
    kind = type(value)
    is_na = kind.__name__ == "NAType" and kind.__module__.startswith("pandas.")
    # NaN and NaT alone are not themselves.
    is_nan = isinstance(value, (Real, TIME_TYPES)) and value != value
    return value is None or is_na or is_nan


# ---- dates


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
    dates = read_each(column.tolist(), lambda cell: read_date(cell, zone).astype(f"M8[{unit}]")[()])
    return np.array(dates, f"M8[{unit}]")


def read_date(cell: Any, zone: ZoneInfo | None) -> NDArray[np.datetime64]:
    """Return a cell as a datetime of numpy without a zone, shape (); else as `exact_dates`."""
    is_zoned = False
    with suppress(Exception):  # whose text may quote the cell
        if is_missing(cell):
            return np.array("NaT", "M8[D]")
        date: Any = date_of_word(cell) if isinstance(cell, str) else cell
        is_zoned = getattr(date, "tzinfo", None) is not None
        is_date = isinstance(date, np.datetime64 | datetime.date)
        if is_date and (zone or not is_zoned):
            if is_zoned:
                with suppress(OverflowError, ValueError):  # of the first and the last day
                    date = date.astimezone(zone)
                date = date.replace(tzinfo=None)
            # Years of pandas go beyond those of Python's dates, which such a one still is.
            plain = date.to_datetime64() if hasattr(date, "to_datetime64") else date
            return within_years(np.array(plain, getattr(plain, "dtype", "M8")).reshape(()))
    raise CellError(ZONED if is_zoned and zone is None else NO_DATES)


def date_of_word(word: str) -> datetime.datetime:
    """Return the date that an ISO word says, such as 2024-02-29; raise ValueError for no date."""
    text = str.__str__(word) + "-01" * (len(word) == len("2024-02"))
    if not ISO.match(text):  # other forms of ISO 8601 read as numbers
        raise ValueError(f"{word!r} is no date; write it as in 2024-02-29.")
    return datetime.datetime.fromisoformat(text)


def within_years(dates: NDArray) -> NDArray:
    """Return datetimes of numpy with the first and the last year for those beyond 1 to 9999.

    Units finer than microseconds hold no such years, and numpy makes no hours of the finest ones.
    It rounds down, so the first day that a unit holds would pass its end and come out as the last.
    """
    if np.datetime_data(dates.dtype)[0] in ("generic", "ns", "ps", "fs", "as"):
        for unit, span in ((dates.dtype, 10**9), ("M8[ns]", 86_400 * 10**9)):
            first = np.array(np.iinfo(np.int64).min + span).astype(unit)
            dates = np.maximum(dates, first).astype("M8[ns]")
        return dates
    first, last = _first_and_last_day(dates.dtype)
    return np.minimum(np.maximum(dates, first), last)  # of one date in a third of clip's time


@cache
def _first_and_last_day(dtype: np.dtype) -> NDArray[np.datetime64]:
    return np.array(["0001-01-01", "9999-12-31"], "M8[D]").astype(dtype)


def in_utc(dates: NDArray) -> NDArray:
    """Return datetimes that numpy has in UTC, without saying so, as Python's, which say it."""
    cells = within_years(dates).astype("M8[us]").tolist()
    return cells_as_objects([cell and cell.replace(tzinfo=datetime.UTC) for cell in cells])


# ---- labels, which nobody listed


def plain_labels(column: NDArray) -> list[Any]:
    """Return the value of each label, as Python's word or number: one value has one form.

    A whole number is an int, whatever type it came in: 1, 1.0 and True are 1, and -0.0 is 0. Other
    numbers are floats, or fractions where float64 does not hold them.

    Raises
    ------
    CellError
        For labels that are missing or not finite, for dates and times, for words that end in NUL,
        which some containers drop, and for what is neither word nor number.
    """
    if column.dtype.kind in "mM":  # which numpy may return as integers
        raise CellError(TIMES)
    cells = column.tolist()
    if column.dtype.kind in "biu":
        return list(map(int, cells))
    return _told_by_cells(
        lambda: [cell if type(cell) is int else plain_label(cell) for cell in cells]
    )


def plain_label(cell: Any) -> Any:
    """Return one cell as `plain_labels` does."""
    if isinstance(cell, str):
        if cell.endswith("\0"):
            raise CellError(NUL)
        return str.__str__(cell)
    if type(cell) is float and cell.is_integer():  # the most frequent one comes first
        return int(cell)
    fault = MISSING if is_missing(cell) else cell_fault(cell)
    if fault:
        raise CellError(OBJECTS if fault == WORDS else fault, type(cell).__name__)
    if isinstance(cell, Integral | np.bool_):
        return int(cell)
    if not _is_finite(cell):
        raise CellError(INFINITE)
    if not hasattr(cell, "as_integer_ratio"):
        raise CellError(OBJECTS)
    exact = Fraction(*cell.as_integer_ratio())
    if exact.denominator == 1:
        return exact.numerator
    return float(exact) if is_exact(exact) else exact


def _is_finite(number: Any) -> bool:
    if isinstance(number, Decimal):
        # Decimals with larger exponents are no floats, and Python would write out all their digits.
        return number.is_finite() and (not number or abs(number.adjusted()) < 400)
    return isinstance(number, Rational) or bool(np.isfinite(number))


def is_exact(number: Any) -> bool:
    """Whether float64 holds a number."""
    try:
        return bool(float(number) == number and np.isfinite(float(number)))
    except OverflowError:
        return False


def _is_sound(number: Any) -> bool:
    return is_exact(number) and (type(number) is not int or -(2**63) <= number < 2**63)


def label_array(values: list[Any]) -> NDArray:
    """Return labels as `read_labels` has them, in an array.

    Its dtype follows from the set of values alone: words, 64-bit integers where all are whole
    numbers, and float64 otherwise.
    """
    return np.array(values) if values else np.empty(0, np.int64)


# ---- words that read as numbers


def number_of_word(word: str) -> Any:
    """Return the number that a word reads as, or the word."""
    plain = str.__str__(word)
    with suppress(ValueError):
        return int(_in_digits(plain))  # exact, where float64 would make one number of two
    with suppress(ValueError):
        if np.isfinite(float(plain)):
            return float(plain)
    return plain


def reads_as_number(word: str) -> bool:
    """Whether a table that holds numbers as words may hold one as this word."""
    with suppress(ValueError):
        float(_in_digits(word))
        return True
    return False


def _in_digits(word: str) -> str:
    """Return a truth value as a digit, other words as they are."""
    return {"true": "1", "false": "0"}.get(word.strip().lower(), word)


# ---- tables and columns


class Table:
    """The columns of a frame, each an array with the dtype that the frame has for it.

    It is indexed as an array of shape (n, d): ``table[:, j]`` is a column;
    ``table[rows]`` and ``table[:, [j, k]]`` are tables.

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
            rows, which = key
            if isinstance(which, list):
                return Table([self.columns[j][rows] for j in which])
            return self.columns[which][rows]
        return Table([column[key] for column in self.columns])


def read_table(X: Any) -> NDArray | Table:
    """Return the cells of X as they are, in an array, or column by column for a frame.

    Parameters
    ----------
    X : array-like, frame or column
        Rows in a list become an array of objects: numpy's common dtype would change cells. What is
        no list of equally long rows gets one dimension.

    Raises
    ------
    ValueError
        For a frame that is not computed yet.
    """
    check_computed(X)
    if isinstance(X, Table):
        return X
    if is_frame(X):
        if is_arrow(X):
            return Table(list(map(read_column, X.columns)))
        return Table([read_column(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1])])
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return _read_rows(X)
    is_column = hasattr(X, "to_pylist") or hasattr(X, "to_numpy")
    if is_column and len(getattr(X, "shape", ())) < 2:  # arrays of other libraries have it, too
        return read_column(X)
    return _unmasked(np.asanyarray(X))


def is_frame(X: Any) -> bool:
    """Whether X is a frame, whose columns have dtypes of their own."""
    # The class is asked, for of a frame that is not computed yet `columns` is slow to ask for.
    if not hasattr(type(X), "columns"):
        return False
    # Such a frame has no shape, and neither have record batches of pyarrow 15.
    return len(getattr(X, "shape", ())) == 2 or is_arrow(X)


def is_arrow(X: Any) -> bool:
    """Whether X is a table or a record batch of pyarrow."""
    return hasattr(X, "num_columns") and hasattr(getattr(X, "schema", None), "empty_table")


def check_computed(X: Any, name: str = "X") -> None:
    """Raise ValueError for a frame that is not computed yet."""
    if hasattr(X, "collect") and not hasattr(X, "to_numpy"):
        raise ValueError(
            f"{name} is a {type(X).__name__}, which holds no rows yet: give {name}.collect()."
        )


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array, frame or series."""
    return all(hasattr(X, name) for name in ("__dask_graph__", "to_delayed", "_meta"))


def check_in_memory(name: str, table: Any) -> None:
    """Raise ValueError for a Dask collection, where rows are read at once."""
    if is_dask(table):
        raise ValueError(f"{name} is a Dask collection; give {name}.compute().")


def _unmasked(array: NDArray) -> NDArray:
    """Return an array, of objects with None for cells that are masked."""
    if not isinstance(array, np.ma.MaskedArray):
        return np.asarray(array)
    # Beside None, numpy would make integers or dates of times, by the unit of all.
    absent = np.array("NaT", array.dtype) if array.dtype.kind in "mM" else np.array(None)
    return np.where(np.ma.getmaskarray(array), absent, array.data)


def _read_rows(rows: Sequence[Any]) -> NDArray:
    widths = {len(row) if _is_row(row) else -1 for row in rows}
    is_deeper = min(widths, default=0) > 0 and all(_is_row(cell) for row in rows for cell in row)
    if len(widths) != 1 or widths == {-1} or is_deeper:
        return cells_as_objects(rows)
    return cells_as_objects([cell for row in rows for cell in row]).reshape(len(rows), *widths)


def _is_row(row: Any) -> bool:
    """Whether this is a row of cells. An array of no dimension has a length in name only."""
    has_length = len(row.shape) > 0 if hasattr(row, "shape") else hasattr(row, "__len__")
    return has_length and not isinstance(row, str | bytes | Mapping | Set)


def read_column(series: Any) -> NDArray:
    """Return the cells of one column, of a frame or an array, as they are.

    numpy takes them only where nothing but a cell's own type decides what becomes of it. It makes
    floats of whole numbers beside a missing one, which rounds those beyond 2**53. And pyarrow takes
    a missing word of a dictionary for another.
    """
    if isinstance(series, np.ndarray):
        return _unmasked(series)
    own = getattr(series, "dtype", None)
    if hasattr(own, "pyarrow_dtype") or str(getattr(own, "storage", "")).startswith("pyarrow"):
        series = series.array.__arrow_array__()
    if str(own) == "Int128":  # in `to_numpy` polars 1.20 panics, which no `except Exception` sees
        return cells_as_objects(list(series))
    is_arrow_column = hasattr(series, "to_pylist")
    own = series.type if is_arrow_column else own
    with suppress(Exception):  # for types that numpy does not have, such as u128
        column = np.asarray(series) if is_arrow_column else series.to_numpy()
        is_exact = column.dtype.kind != "f" or _is_of_floats(own)
        # Cells that are arrays are no numbers either.
        if column.ndim == 1 and is_exact and not hasattr(own, "value_type"):
            zone = getattr(own, "time_zone", getattr(own, "tz", None))
            return in_utc(column) if column.dtype.kind == "M" and zone is not None else column
    with suppress(Exception):  # whose texts quote cells
        return cells_as_objects(_as_list(series))
    # One cell that Python cannot hold, such as a text that is not UTF-8, decides nothing of others.
    # An object that no column takes stands for it.
    take, found = getattr(series, "iloc", series), np.full(len(series), object())
    for i in range(len(series)):
        with suppress(Exception):
            found[i] = _as_list(take[i : i + 1])[0]
    return found


def _as_list(series: Any) -> list[Any]:
    if hasattr(series, "to_pylist"):
        return series.to_pylist()
    return list(series.astype(object) if hasattr(series, "astype") else series)


def _is_of_floats(own: Any) -> bool:
    """Whether the own type of a column, and not only what numpy makes of it, is one of floats."""
    if hasattr(own, "is_float"):
        return own.is_float()
    return getattr(own, "kind", None) == "f" or str(own) in ("halffloat", "float", "double")


# ---- labels of columns, and rows


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
        For labels that are neither words nor positions, for one that two columns have, or for
        positions where names are needed.
    """
    if not is_frame(X):
        return None
    labels = list(X.schema.names if is_arrow(X) else X.columns)
    if len(set(labels)) < len(labels):
        raise ValueError(TWO_NAMES)
    if labels and all(isinstance(label, str) for label in labels):
        return [str(label) for label in labels]
    if labels != list(range(len(labels))):
        raise ValueError(OTHER_LABELS)
    if needed:
        raise ValueError(NO_NAMES)
    return None


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


def as_sklearn_sees_it(X: Any) -> Any:
    """Return a record batch as a table, whose names scikit-learn sees; all others as they are."""
    if is_arrow(X) and not hasattr(X, "to_batches"):
        from pyarrow import Table

        return Table.from_batches([X])
    return X


def to_pandas(X: Any) -> Any:
    """Return a table of pyarrow as a frame of pandas with the same cells."""
    from pandas import DataFrame, Series

    columns = zip(X.schema.names, map(read_column, X.columns), strict=True)
    return DataFrame({name: Series(cells, dtype=cells.dtype) for name, cells in columns})


def listed_columns(names: Sequence[Any]) -> str:
    """Return names of columns as a message tells them, the first of many."""
    return f"column{'s' if len(names) > 1 else ''} {some_of(names)}"


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a table of any kind, or some entries of a column.

    Parameters
    ----------
    X : array-like, frame, or column
    rows : slice without a step, or array-like of positions or of bool
    """
    if not isinstance(rows, slice):
        rows = np.asarray(rows)  # polars takes no list of numpy's integers
        rows = rows if rows.dtype == bool else rows.astype(np.int64)
    if not (is_arrow(X) or hasattr(X, "to_pylist")):
        return _safe_indexing(X.tocsr() if sparse.issparse(X) else X, rows)
    return X[rows] if isinstance(rows, slice) else X.take(np.arange(len(X))[rows])


def some_rows(X: Any, rows: slice) -> Any:
    """Return these rows of a frame, of which reading makes a copy; of all others, all rows."""
    return rows_of(X, rows) if is_frame(X) else X


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table, or of entries of a column."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


# ---- labels of rows


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
    cells: Any = read_table(labels)
    if cells.ndim != 1:
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


def read_labels(labels: Any, name: str = "y") -> list[Any]:
    """Return values of `plain_labels` that name classes or owners.

    Parameters
    ----------
    labels, name
        As `label_cells`.

    Raises
    ------
    CellError
        As both do. Also for a number that float64 (or int64) does not hold, which some containers
        round to another, and for words beside numbers, which some make words of.
    """
    values = plain_labels(label_cells(labels, name))
    kinds = set(map(type, values))
    if str in kinds and len(kinds) > 1:
        raise CellError(MIXED)
    if str not in kinds and not all(map(_is_sound, set(values))):
        raise CellError(INEXACT)
    return values


# ---- tables that are public, or have been read


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

    def __getnewargs__(self) -> tuple[Any]:
        return (self[0],)

    def __repr__(self) -> str:
        return f"Public(<{type(self[0]).__name__}>)"


def unwrap(table: Any) -> Any:
    """Return the table that a `Public`, or what a Pipeline made of one, holds; others as they are.

    A table inside a tuple of length one would have three dimensions, so nothing else looks alike.
    """
    is_single = isinstance(table, tuple) and len(table) == 1
    is_table = is_single and len(getattr(table[0], "shape", ())) == 2
    return table[0] if is_table or isinstance(table, Public) else table


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
    with suppress(TypeError, IndexError):  # of what is no table
        if n_rows_of(table) == 0 and not _no_rows.get():
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


# ---- validation


def in_words(read: Callable[[], T], who: str, *, of_labels: bool = False) -> T:
    """Return what `read` does. A `CellError` is raised in words, with no error behind it."""
    try:
        return read()
    except CellError as error:
        fault = error
    raise fault.as_error(who, of_labels=of_labels)


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
    check_computed(X)
    known = None if schema is None else schema.names
    was_named = not reset and hasattr(estimator, "feature_names_in_")
    names = column_names(X, needed=known is not None or was_named)
    table = _read(estimator, X, ensure_min_samples, accept_sparse)
    # Later tables need what the schema names, in any order, and not what it drops.
    if reset or known is None or names is None:
        # scikit-learn checks names and numbers of columns. Cells are read below, not by its array
        # conversion, which decides one dtype for all of them.
        seen = as_sklearn_sees_it(X) if is_frame(X) else table
        validate_data(estimator, seen, y, reset=reset, skip_check_array=True)
    checked: Any = table
    if schema is None and not isinstance(table, SparseRows):
        checked = _as_floats(table, X, keep_float32)
    elif schema is not None:
        # Its own names, which scikit-learn 1.6 does not see in every kind of frame.
        names = names or getattr(estimator, "feature_names_in_", None)
        which = schema.positions(table.shape[1], names)
        checked = table if which == list(range(table.shape[1])) else table[:, which]
    has_target = not (isinstance(y, str) and y == "no_validation")
    if has_target:
        target = _read_target(estimator, y, y_numeric)
        if reset and schema is not None:
            _warn_of_the_target(y, schema)
        if len(target) != table.shape[0]:
            raise ValueError(Y_LENGTH)
    if schema is not None and not isinstance(X, Table):  # which has been read before
        checked = schema.in_steps(checked)
    return (checked, target) if has_target else checked


def _warn_of_the_target(y: Any, schema: Any) -> None:
    """Warn of a schema with the target among the inputs, which names alone tell."""
    name = next(iter(getattr(y, "columns", ())), getattr(y, "name", None))  # a table has one column
    if isinstance(name, str) and name in (schema.names or ()):
        warn_caller(
            f"Leave column {name!r} out of the schema: it has the name of y, and a model that sees "
            "the answer learns nothing else.",
            UserWarning,
        )


def _read(
    estimator: Any, X: Any, ensure_min_samples: int, accept_sparse: bool
) -> NDArray | Table | SparseRows:
    """Return the cells of X, which are a table with enough rows and columns."""
    table: Any = None
    if sparse.issparse(X):
        if not accept_sparse:
            check_array(sparse.csr_array((1, 1)))  # which refuses it, and would quote cells of X
        table = X if X.ndim != 2 else in_words(partial(_sparse_rows, X), "Input X")
    else:
        with suppress(TypeError, ValueError, OverflowError):  # whose texts may quote cells
            table = read_table(X)
    if table is None:
        raise ValueError(_UNREADABLE)
    if table.ndim != 2:
        raise ValueError(_RESHAPE)
    n_rows, n_columns = table.shape
    ensure_min_samples = 0 if _no_rows.get() else ensure_min_samples
    # scikit-learn's words for the shape, which tell no number of rows that is large enough.
    shape = min(n_rows, ensure_min_samples), n_columns
    named = None if isinstance(estimator, NoEstimator) else estimator
    check_array(np.zeros(shape), ensure_min_samples=ensure_min_samples, estimator=named)
    return table


def _as_floats(table: NDArray | Table, X: Any, keep_float32: bool) -> NDArray:
    """Return the table as finite floats, contiguous row by row."""
    with suppress(ValueError), np.errstate(all="ignore"):  # of sums in the check: they overflow
        columns = _columns(table)
        if not (keep_float32 and is_float32(table)):
            columns = list(map(exact_numbers, columns))
        floats = np.column_stack(columns) if isinstance(table, Table) else columns[0]
        assert_all_finite(floats)
        return np.ascontiguousarray(floats)
    raise _table_error(table, X)


def _columns(table: NDArray | Table) -> Sequence[NDArray]:
    return table.columns if isinstance(table, Table) else [table]


def is_float32(table: NDArray | Table) -> bool:
    """Whether all columns are float32."""
    return all(column.dtype == np.float32 for column in _columns(table))


def _table_error(table: NDArray | Table, X: Any) -> Exception:
    """Return what to raise for a table that is not all finite numbers: its worst kind of fault."""
    faults: dict[int, CellError] = {}
    for j in range(table.shape[1]):
        try:
            finite_numbers(table[:, j])
        except CellError as error:
            faults[j] = error
    worst = min(faults.values(), key=lambda error: FAULTS_OF_NUMBERS.index(error.fault))
    at_fault = [j for j, error in faults.items() if error.fault == worst.fault]
    names = column_names(X) or [f"x{j}" for j in range(table.shape[1])]
    return worst.as_error("Input X", f" in {listed_columns([names[j] for j in at_fault])}")


def _read_target(estimator: Any, y: Any, y_numeric: bool) -> NDArray:
    if y is None:
        return validate_data(NoEstimator(), y=y, estimator=estimator)

    def read() -> NDArray:
        return finite_numbers(label_cells(y)) if y_numeric else label_array(read_labels(y))

    return in_words(read, "Input y", of_labels=True)


class SparseRows(sparse.csr_array):
    """A table of float64 most of which are zero, in a form that is a function of each row alone.

    A sparse container can hold the same row in many ways: columns in any order, a cell in several
    parts that are to be added, zeros that are written down, indices of 32 or 64 bits. Sums of
    floats hang on their order, so each row is brought to one form: its columns ascend, each is
    there once, and none is zero. Parts of a cell become float64 and are added in the order of their
    size, so that the order in which they came does not matter, nor does what stands beside them.

    It has a length, and rows by slices and by arrays of positions, as an array has. Products with
    dense arrays are dense.
    """

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> SparseRows:
        """Return some rows, or some columns of all rows in the order given."""
        taken = SparseRows(super().__getitem__(key))
        if isinstance(key, tuple):
            taken.sort_indices()
        return taken

    @property
    def values(self) -> NDArray[np.float64]:
        """What is not zero, row by row."""
        return self.data

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The row of each of `values`."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def with_values(self, values: NDArray[np.float64]) -> SparseRows:
        """Return rows with other values in the same places."""
        return SparseRows((values, self.indices, self.indptr), shape=self.shape)

    def keys(self) -> list[bytes]:
        """Return what tells rows apart: equal rows have equal keys."""
        columns = self.indices.astype(np.int64)
        return [
            columns[first:last].tobytes() + self.data[first:last].tobytes()
            for first, last in pairwise(self.indptr)
        ]


def _sparse_rows(X: Any) -> SparseRows:
    """Return the rows of a sparse container, which stays as it is.

    Raises
    ------
    CellError
        For cells that are no finite numbers.
    ValueError
        For indices that are negative, too large, or too few.
    """
    found = _checked_structure(X)
    rows, columns, values = found.row, found.col, finite_numbers(found.data)
    down, right = np.diff(rows), np.diff(columns)
    if not np.all((down > 0) | ((down == 0) & (right > 0))):  # or they come twice
        order = np.lexsort((values, columns, rows))
        rows, columns, values = rows[order], columns[order], values[order]
    index = sparse.get_index_dtype(maxval=max(len(values), *X.shape))
    places = rows.astype(index), columns.astype(index)
    taken = SparseRows((values, places), shape=X.shape)  # which adds parts in their order
    taken.eliminate_zeros()
    finite_numbers(taken.data)  # parts of a cell may add up to more
    return taken


def _checked_structure(X: Any) -> sparse.coo_array:
    """Return the entries of a sparse container as it holds them, with indices that fit its shape.

    Compiled loops trust these, and `scipy` looks at few of them unasked.
    """
    kinds = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}
    with suppress(ValueError, TypeError, IndexError):
        if X.format in kinds:  # all others have no indices that could be wrong, or are coo
            X = kinds[X.format]((X.data, X.indices, X.indptr), shape=X.shape)
            X.check_format(full_check=True)
        found = X.tocoo()  # which adds nothing
        return sparse.coo_array((found.data, (found.row, found.col)), shape=found.shape)
    raise ValueError("The indices of the sparse table do not fit its shape. Call X.check_format().")
