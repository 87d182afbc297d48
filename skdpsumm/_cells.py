"""Cells of a private table: what each becomes is a matter of that cell alone.

A container has one dtype for many cells, and one row can decide which: a float beside 64-bit
integers rounds all of them, a datetime with finer digits rescales a column, a word turns numbers
into words. Then one row more changes what all others add to a sum, which no sensitivity covers.
So no dtype decides anything here:

- A number becomes the closest float64. A container that widens a column to float64 makes the same
  of it, so its dtype does not matter. (One that narrows a column has changed its cells before.)
- A category is compared with those listed, by its own exact value. Listed are only values that no
  container can confuse (`check_listed`).
- Dates and times have no unit of their own, and words are no numbers: both are refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils._missing import is_pandas_na, is_scalar_nan

_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)

# What may be wrong with the cells of a column of numbers, the worst first.
COMPLEX, TIMES, WORDS, OBJECTS = "complex", "times", "words", "objects"
MISSING, INFINITE = "missing", "infinite"
# What may be wrong with those of a categorical one, beside TIMES and MISSING.
NARROW = "narrow"


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
    if hasattr(X, "columns") and len(getattr(X, "shape", ())) == 2:
        columns = [read_column(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1])]
        return Table(columns)
    if isinstance(X, list | tuple):
        return _read_rows(X)
    if isinstance(X, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(X), None, X.data)
    return np.asarray(X)


def check_computed(X: Any) -> None:
    """Raise ValueError for a frame that is not computed yet."""
    if hasattr(X, "collect") and not hasattr(X, "to_numpy"):
        raise ValueError(f"X is a {type(X).__name__}, which holds no rows yet: give X.collect().")


def read_column(series: Any) -> NDArray:
    """Return the cells of one column, of a frame or an array, as they are."""
    if isinstance(series, np.ndarray):
        return series
    try:
        column = series.to_numpy()
    except Exception:  # a type of the library's that numpy does not have, such as i128
        column = None
    # Neither are cells that are arrays numbers.
    return column if column is not None and column.ndim == 1 else _objects(list(series))


def read_labels(y: Any) -> NDArray:
    """Return one value per row, as they are: a list's become objects, not of one dtype."""
    if isinstance(y, list | tuple) and not any(
        hasattr(cell, "__len__") for cell in y if not isinstance(cell, str)
    ):
        return _objects(y)
    return read_column(y) if hasattr(y, "to_numpy") else np.asarray(y)


def _objects(cells: Sequence[Any]) -> NDArray:
    column = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):  # one by one, for numpy looks into sequences
        column[i] = cell
    return column


def _read_rows(rows: Sequence[Any]) -> NDArray:
    widths = {len(row) if _is_row(row) else -1 for row in rows}
    if len(widths) != 1 or widths == {-1} or any(map(_is_row, rows[0])):
        return np.asarray(rows)  # no table, as its shape or an error of numpy's will say
    return _objects([cell for row in rows for cell in row]).reshape(len(rows), *widths)


def _is_row(row: Any) -> bool:
    return hasattr(row, "__len__") and not isinstance(row, str | bytes | Mapping)


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
    faults = [CellError(_fault(cell), kind.__name__) for kind, cell in examples.items()]
    for worst in (COMPLEX, TIMES, WORDS, OBJECTS):
        for error in faults:
            if error.fault == worst:
                raise error
    if not examples.keys() <= {float, bool}:
        cells = [_number(cell) for cell in cells]
    return np.array(cells, np.float64).reshape(column.shape)


def _fault(cell: Any) -> str:
    if is_missing(cell):
        return MISSING
    if isinstance(cell, _TIMES):  # before numbers: numpy.timedelta64 says that it is an integer
        return TIMES
    if isinstance(cell, Real | Decimal | np.bool_):
        return ""
    if isinstance(cell, complex | np.complexfloating):
        return COMPLEX
    return WORDS if isinstance(cell, str | bytes) else OBJECTS


def _number(cell: Any) -> float:
    if is_missing(cell):
        return np.nan
    try:
        return float(cell)
    except OverflowError:
        return np.inf
    except ValueError:  # a signalling NaN of decimal
        return np.nan


def is_missing(value: Any) -> bool:
    """Whether a cell stands for none."""
    return value is None or is_scalar_nan(value) or is_pandas_na(value) or _is_not_a_time(value)


def _is_not_a_time(value: Any) -> bool:
    return isinstance(value, _TIMES) and value != value  # NaT alone is not itself


def positions(column: NDArray, listed: Sequence[Any]) -> NDArray[np.int64]:
    """Return the position of each cell among the values that are listed, -1 where it is none.

    Parameters
    ----------
    column : ndarray of shape (n,)
    listed : sequence
        As `check_listed` returns them.

    Raises
    ------
    CellError
        For dates and times, for missing cells, and for a column of short floats, which may have
        rounded one value that is listed to another.
    """
    if column.dtype.kind in "mM":
        raise CellError(TIMES)
    if column.dtype in (np.float16, np.float32) and not _hold(column.dtype, listed):
        raise CellError(NARROW)
    cells = column.tolist()
    if column.dtype.kind == "O":
        faults = {kind: _fault(cell) for kind, cell in {type(c): c for c in cells}.items()}
        if TIMES in faults.values():
            raise CellError(TIMES)
        # A cell that is neither number nor word may claim to equal one, or have no hash.
        comparable = {kind for kind, fault in faults.items() if fault in ("", WORDS)}
        cells = [cell if type(cell) in comparable else None for cell in cells]
        cells = [None if isinstance(cell, Decimal) and cell.is_nan() else cell for cell in cells]
    lookup = {value: k for k, value in enumerate(listed)}
    found = np.fromiter((lookup.get(cell, -1) for cell in cells), np.int64, len(cells))
    if any(is_missing(column[i]) for i in np.flatnonzero(found < 0)):
        raise CellError(MISSING)
    return found


def _hold(dtype: np.dtype, listed: Sequence[Any]) -> bool:
    """Whether a short float holds all numbers that are listed: else it may have confused some."""
    numbers = np.array([value for value in listed if not isinstance(value, str)], np.float64)
    with np.errstate(over="ignore"):
        return bool(np.all(numbers.astype(dtype) == numbers))


def check_listed(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values that a column may have, as plain Python scalars.

    Values are refused that are equal in a type that a container may give to the column: large
    integers that float64 rounds, numbers beside words that read as numbers, words that end in NUL.

    Parameters
    ----------
    name : str
        What messages call them.
    values : iterable

    Raises
    ------
    ValueError
        For those, and for what is neither word, number nor truth value.
    """
    listed = hasattr(values, "__iter__") and getattr(values, "ndim", 1) > 0  # no array of one
    if isinstance(values, str | bytes | Mapping) or not listed:
        raise ValueError(f"{name} must be a list of values, got {values!r}.")
    plain = tuple(_plain(value) for value in values)
    for value in plain:
        _check_one(name, value)
    seen: set[Any] = set()
    for value in plain:
        if value in seen:
            raise ValueError(f"{name} lists {value!r} twice (1, 1.0 and True are one value).")
        seen.add(value)
    if len({isinstance(value, str) for value in plain}) > 1:
        clash = next((v for v in plain if isinstance(v, str) and _reads_as_number(v)), None)
        if clash is not None:
            raise ValueError(
                f"{name} lists {clash!r} beside numbers, and a table that holds both as words "
                "cannot tell them apart; list all values as words, or all as numbers."
            )
    return plain


def _plain(value: Any) -> Any:
    """Return Python's scalar for numpy's, which compares and serialises alike everywhere."""
    is_time = isinstance(value, _TIMES)  # of which numpy may make an integer
    return value.item() if isinstance(value, np.generic) and not is_time else value


def _check_one(name: str, value: Any) -> None:
    if is_missing(value):
        raise ValueError(
            f"{name} lists a missing value, which no row may have: fillna('missing'), and list "
            "that word."
        )
    if isinstance(value, str):
        if value.endswith("\0"):
            raise ValueError(f"{name} lists {value!r}: numpy drops a NUL at the end of a word.")
        return
    if isinstance(value, _TIMES) or not isinstance(value, bool | int | float):
        raise ValueError(
            f"{name} lists {value!r}, a {type(value).__name__}; list words, numbers or truth "
            "values, and convert the column alike, such as by astype(str)."
        )
    if not _is_exact(value):
        raise ValueError(
            f"{name} lists {value!r}, which float64 cannot hold, and float64 is what a column "
            "becomes that holds one fraction; list words, and convert the column by astype(str)."
        )


def _is_exact(value: Any) -> bool:
    try:
        return bool(float(value) == value and np.isfinite(float(value)))
    except OverflowError:
        return False


def _reads_as_number(word: str) -> bool:
    if word.strip().lower() in ("true", "false"):
        return True
    try:
        float(word)
    except ValueError:
        return False
    return True
