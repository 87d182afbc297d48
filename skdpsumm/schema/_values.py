"""What one cell says, whatever container it came in: a number, a date, a word, or nothing.

A container has one dtype for many cells, and one row can decide which: a float beside 64-bit
integers rounds all of them, a datetime with finer digits rescales a column, a word turns numbers
into words. Then one row more changes what all others add to a sum, which no sensitivity covers.
So no dtype decides anything here:

- A number becomes the closest float64. A container that widens a column to float64 makes the same
  of it, so its dtype does not matter. (One that narrows a column has changed its cells before.)
- A label that nobody listed, a group and an owner are read as Python's word or number, one form for
  each value (`plain_label`): 1, 1.0 and True are 1, and -0.0 is 0.
- A category, or a label that is listed, is looked up among those listed in the same form
  (`positions`). Listed are only values that no container can confuse (`check_listed`).
- Words are no numbers, and are refused. So are dates and times, but in a column of dates, where the
  unit is the schema's and the zone is the cell's own (`exact_dates`).

What a cell may not be is raised as a `CellError`. Its words tell no value of a table.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from itertools import islice, repeat
from numbers import Integral, Rational, Real
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

TIME_TYPES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)
ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")  # how a word that is a date begins
# Values that a column can list: categories, edges or codes of missing values. So many take a third
# of a second to check.
MOST_LISTED = 100_000

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
UNLISTED = (
    "{who} holds a value that is not among its categories; add it to those of the schema, or "
    "map rare values to one of those listed, or to None where the schema says missing=True. Or "
    'set other=True for the column, which reads such values as "other". List numbers as '
    "numbers: 1 is not '1'. If the list was meant as a range, write a tuple, such as (17, 90)."
)
NARROW = (
    "{who} has a float type that is too short for its categories or missing_values; convert it "
    "with astype(float)."
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
    """Return what is read of each cell; of equal words and whole numbers, what is read once."""
    known: dict[Any, T] = {}

    def once(cell: Any) -> T:
        if type(cell) is not str and type(cell) is not int:  # others may lie about what they equal
            return read(cell)
        if cell not in known:
            known[cell] = read(cell)
        return known[cell]

    return list(map(once, cells))


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


def numbers_of_objects(column: NDArray) -> NDArray[np.float64]:
    """Return the float64 that is closest to each cell, as `exact_numbers` does."""
    return _told_by_cells(lambda: _numbers_of_objects(column))


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
    if isinstance(value, Fraction):  # which may be too large for a float
        return False
    kind = type(value)
    is_na = kind.__name__ == "NAType" and kind.__module__.startswith("pandas.")
    is_nan = isinstance(value, Real) and value != value
    is_nat = isinstance(value, TIME_TYPES) and value != value  # NaT alone is not itself
    return value is None or is_na or is_nan or is_nat


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
    ends = np.array(["0001-01-01", "9999-12-31"], "M8[D]").astype(dates.dtype)
    return np.clip(dates, *ends)


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


def sound_labels(values: list[Any]) -> list[Any]:
    """Return values of `plain_labels` that name classes or owners.

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


def _is_sound(number: Any) -> bool:
    return is_exact(number) and (type(number) is not int or -(2**63) <= number < 2**63)


def label_array(values: list[Any]) -> NDArray:
    """Return sound labels as an array, the dtype of which follows from the set of values alone.

    Words, 64-bit integers where all are whole numbers, and float64 otherwise.
    """
    if any(isinstance(value, str) for value in values):
        return np.array(values, np.str_)
    whole = all(type(value) is int for value in values)
    return np.array(values, np.int64 if whole else np.float64)


# ---- values that are listed in public


def positions(
    column: NDArray,
    listed: Sequence[Any],
    *,
    missing: bool = False,
    missing_values: Sequence[Any] = (),
    words_as_numbers: bool = False,
) -> NDArray[np.int64]:
    """Return the position of each cell among the values that are listed, -1 where it is none.

    Parameters
    ----------
    column : ndarray of shape (n,)
    listed : sequence
        As `check_listed` returns them.
    missing : bool, default=False
        Whether cells may be missing; their position is that after the last one.
    missing_values : sequence, default=()
        Values that stand for a missing cell.
    words_as_numbers : bool, default=False
        Whether a word that reads as a number is that number, here and there.

    Raises
    ------
    CellError
        For dates and times, for missing cells where there may be none, and for a column of short
        floats, which may have rounded one value that is listed to another.
    """
    if words_as_numbers:
        listed, missing_values = numbers_of_words(listed), numbers_of_words(missing_values)
    if not holds(column.dtype, [*listed, *missing_values]):
        raise CellError(NARROW)
    # A dict compares numbers exactly, of whatever types: 1, 1.0 and True are one key, and an
    # integer beyond 2**53 is not the float that is closest.
    lookup = {value: k for k, value in enumerate(listed)}
    lookup |= dict.fromkeys(missing_values, len(listed))
    # The worst fault is the lowest. Missing cells are no unlisted ones, for the remedies differ.
    of_fault = {TIMES: -3, MISSING: len(listed) if missing else -2}

    def position(cell: Any) -> int:
        if isinstance(cell, TIME_TYPES):  # a missing one, too
            return of_fault[TIMES]
        try:
            word = words_as_numbers and isinstance(cell, str)
            return lookup.get(plain_label(number_of_word(cell) if word else cell), -1)
        except CellError as error:
            return of_fault.get(error.fault, -1)
        except Exception:  # of a cell that may be any object: its text may quote anything
            return -1

    kind, cells = column.dtype.kind, column.tolist()
    if kind in "biuf":
        found = np.fromiter(map(lookup.get, cells, repeat(-1)), np.int64, len(cells))
        found[np.isnan(column)] = of_fault[MISSING]
    else:
        found = np.array(read_each(cells, position) if kind not in "mM" else [-3], np.int64)
    lowest = found.min(initial=-1)
    if lowest < -1:
        raise CellError(TIMES if lowest == of_fault[TIMES] else MISSING)
    return found


def holds(dtype: np.dtype, listed: Sequence[Any]) -> bool:
    """Whether a dtype holds all numbers that are listed: a short float may have confused some."""
    if dtype.kind != "f" or dtype.itemsize >= 8:
        return True
    numbers = np.array([value for value in listed if not isinstance(value, str)], np.float64)
    with np.errstate(over="ignore"):
        return bool(np.all(numbers.astype(dtype) == numbers))


def without_words(column: NDArray, words: Sequence[Any]) -> NDArray:
    """Return a column with None for cells that are one of these words.

    Parameters
    ----------
    column : ndarray of shape (n,)
    words : sequence
        What is no word is ignored.
    """
    if column.dtype.kind not in "OUT":
        return column
    cells, gone = column.astype(object), {word for word in words if isinstance(word, str)}
    cells[[isinstance(cell, str) and str.__str__(cell) in gone for cell in cells.tolist()]] = None
    return cells


def numbers_of_words(values: Sequence[Any]) -> list[Any]:
    """Return values with the number in place of a word that reads as one, such as "1.0".

    A column of whole numbers that gets one word more is a column of words for some containers.
    """
    return [number_of_word(v) if isinstance(v, str) else v for v in values]


def number_of_word(word: str) -> Any:
    """Return the number that a word reads as, or the word."""
    plain = str.__str__(word)
    truth = {"true": 1, "false": 0}.get(plain.strip().lower())
    if truth is not None:
        return truth
    with suppress(ValueError):
        return int(plain)  # exact, where float64 would make one number of two
    with suppress(ValueError):
        number = float(plain)
        return number if np.isfinite(number) else plain
    return plain


def reads_as_number(word: str) -> bool:
    """Whether a table that holds numbers as words may hold one as this word."""
    with suppress(ValueError):
        float({"true": "1", "false": "0"}.get(word.strip().lower(), word))
        return True
    return False


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
    plain = tuple(_plain(value) for value in islice(values, MOST_LISTED + 1))
    check_number_listed(name, len(plain))
    for value in plain:
        _check_one(name, value)
    seen: set[Any] = set()
    for value in plain:
        if value in seen:
            raise ValueError(f"{name} lists {value!r} twice (1, 1.0 and True are one value).")
        seen.add(value)
    if len({isinstance(value, str) for value in plain}) > 1:
        clash = next((v for v in plain if isinstance(v, str) and reads_as_number(v)), None)
        if clash is not None:
            raise ValueError(
                f"{name} lists {clash!r} beside numbers, and a table that holds both as words "
                "cannot tell them apart; list all values as words, or all as numbers."
            )
    return plain


def check_number_listed(name: str, n: int) -> None:
    """Raise ValueError for more values than are listed anywhere."""
    if n > MOST_LISTED:
        raise ValueError(
            f"{name} lists more than {MOST_LISTED:,} values; group rare ones, or leave the column "
            "out."
        )


def _plain(value: Any) -> Any:
    """Return Python's scalar for numpy's, which compares and serialises alike everywhere."""
    is_time = isinstance(value, TIME_TYPES)  # of which numpy may make an integer
    plain = value.item() if isinstance(value, np.generic) and not is_time else value
    return abs(plain) if isinstance(plain, float) and plain == 0 else plain  # no -0.0


def _check_one(name: str, value: Any) -> None:
    if is_missing(value):
        raise ValueError(
            f"{name} lists a missing value: leave it out, and set missing=True for a column. Of "
            "labels, list a word in its place, such as 'missing', and call fillna('missing')."
        )
    if isinstance(value, str):
        check_text(name, value)
        if value.endswith("\0"):
            raise ValueError(
                f"{name} lists {value!r}: numpy drops a NUL at the end of a word; strip it."
            )
        return
    if isinstance(value, TIME_TYPES) or not isinstance(value, bool | int | float):
        raise ValueError(
            f"{name} lists {value!r}, a {type(value).__name__}; list words, numbers or truth "
            "values, and convert the column to the same, such as with astype(str)."
        )
    if not is_exact(value):
        raise ValueError(
            f"{name} lists {value!r}, which float64 cannot hold exactly; list it as a word, and "
            "convert the column with astype(str)."
        )


def check_text(name: str, text: str) -> None:
    """Raise ValueError for half of a pair of surrogates: two halves are one character in a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} has {text!r}, which UTF-8 does not hold; write it anew."
        ) from None


def check_missing_values(values: Any) -> tuple[tuple[Any, ...], bool]:
    """Return codes of missing values, and whether there is any: NaN and None say so without a code.

    Codes are plain scalars. None by itself, not in a list, is no code at all.

    Raises
    ------
    ValueError
        As `check_listed`, and for numbers that a container may have rounded another to.
    """
    if isinstance(values, Mapping):
        raise ValueError(f"missing_values must be a code or a list of codes, got {values!r}.")
    alone = isinstance(values, str | bytes) or not np.iterable(values)
    listed = [] if values is None else [values] if alone else list(values)
    codes = check_listed("missing_values", [one for one in listed if not is_missing(one)])
    large = [code for code in codes if not isinstance(code, str) and abs(code) >= 2**53]
    if large:
        raise ValueError(f"missing_values lists {large[0]!r}; codes must be below 2**53.")
    return codes, bool(listed)


# ---- public classes and intervals of a target


def known_classes(y: NDArray, classes: Any) -> NDArray:
    """Return the classes, sorted: those that are listed, or else the labels in y.

    Parameters
    ----------
    y : ndarray of shape (n,)
        As `validate_table` returns it: what rows y holds decides no more than which labels there
        are.
    classes : sequence or None

    Raises
    ------
    ValueError
        For fewer than two, for a label that is not listed, and for listed ones that a container of
        y may confuse (`check_listed`).
    """
    known = np.unique(y) if classes is None else listed_classes(classes)
    if len(known) < 2:
        raise ValueError(
            f"A classifier needs at least two classes, got {len(known)} class; list them all in "
            "`classes`."
        )
    if np.any(class_codes(y, known) < 0):
        raise ValueError(
            "y holds a label that is not in `classes`; list all labels there (0 to K - 1 where "
            "scikit-learn encodes them, as cross_val_predict does)."
        )
    return known


def listed_classes(classes: Any, name: str = "classes") -> NDArray:
    """Return classes that are listed in public, sorted, in the dtype that labels have.

    Truth values stay what they are where nothing else is listed.

    Raises
    ------
    ValueError
        As `check_listed`, and for words beside numbers.
    """
    listed = check_listed(name, classes)
    if listed and all(isinstance(value, bool) for value in listed):
        return np.unique(np.array(listed))
    try:
        return np.unique(label_array(sound_labels(plain_labels(np.array(listed, object)))))
    except CellError as error:
        raise error.as_error(f"{name}={list(listed)!r}", of_labels=True) from None


def class_codes(y: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Return the position of each label among the classes, -1 for what is none of them."""
    return positions(y, classes.tolist())


def public_interval(name: str, given: Any) -> tuple[float, float]:
    """Return the ends of a public interval; raise ValueError for what is none."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = np.nan
    # Halves of narrower intervals are rounded, and what is scaled by them leaves [-1, 1].
    is_wide = high - low >= 2 * np.finfo(np.float64).tiny
    if not (np.isfinite([low, high, high - low]).all() and is_wide):
        raise ValueError(f"{name} must be a pair of finite numbers low < high, got {given!r}.")
    return low, high
