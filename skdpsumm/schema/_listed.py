"""Values that are listed in public: the categories of a column, the classes of labels.

A cell is compared with them by its own exact value. Listed are only values that no container can
confuse (`check_listed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._reading import (
    MISSING,
    NARROW,
    TIME_TYPES,
    TIMES,
    WORDS,
    CellError,
    cell_fault,
    is_exact,
    is_missing,
    label_array,
    plain_labels,
    sound_labels,
)

# Values that a column can list: categories, edges or codes of missing values. So many take a third
# of a second to check.
MOST_LISTED = 100_000


def positions(
    column: NDArray,
    listed: Sequence[Any],
    *,
    missing: bool = False,
    missing_values: Sequence[Any] = (),
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

    Raises
    ------
    CellError
        For dates and times, for missing cells where there may be none, and for a column of short
        floats, which may have rounded one value that is listed to another.
    """
    if column.dtype.kind in "mM":
        raise CellError(TIMES)
    if not holds(column.dtype, [*listed, *missing_values]):
        raise CellError(NARROW)
    cells = column.tolist()
    if column.dtype.kind == "O":
        one_each = dict(zip(map(type, cells), cells, strict=True))
        faults = {kind: cell_fault(cell) for kind, cell in one_each.items()}
        if TIMES in faults.values():
            raise CellError(TIMES)
        # A cell that is neither number nor word may claim to equal one, or have no hash. (Missing
        # is a matter of the cell, and not of its type: NaN is a float.)
        comparable = {kind for kind, fault in faults.items() if fault in ("", WORDS, MISSING)}
        if len(comparable) < len(faults):
            cells = [cell if type(cell) in comparable else None for cell in cells]
        if any(kind is not str and issubclass(kind, str) for kind in one_each):  # may lack a hash
            cells = [str.__str__(c) if isinstance(c, str) else c for c in cells]
        if any(
            isinstance(cell, Decimal) for cell in one_each.values()
        ):  # a signalling NaN has no hash
            cells = [None if isinstance(c, Decimal) and c.is_nan() else c for c in cells]
    # A dict compares numbers exactly, of whatever types: 1, 1.0 and True are one key, and an
    # integer beyond 2**53 is not the float that is closest.
    lookup = {value: k for k, value in enumerate(listed)}
    lookup |= dict.fromkeys(missing_values, len(listed))
    found = np.fromiter(map(lookup.get, cells, repeat(-1)), np.int64, len(cells))
    # Missing cells are told apart from those not listed, for the remedies differ.
    unknown = np.flatnonzero(found < 0)
    absent = [
        i for i, c in zip(unknown, column[unknown], strict=True) if c is None or is_missing(c)
    ]
    if absent and not missing:
        raise CellError(MISSING)
    found[absent] = len(listed)
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


def reads_as_number(word: str) -> bool:
    """Whether a table that holds numbers as words may hold one as this word."""
    if word.strip().lower() in ("true", "false"):
        return True
    try:
        float(word)
    except ValueError:
        return False
    return True


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
    if len({isinstance(value, str) for value in listed}) > 1:
        raise ValueError(f"{name} lists words beside numbers, got {list(listed)!r}; list one kind.")
    if listed and all(isinstance(value, bool) for value in listed):
        return np.unique(np.array(listed))
    try:
        return np.unique(label_array(sound_labels(plain_labels(np.array(listed, object)))))
    except CellError:
        raise ValueError(
            f"{name} lists a number that 64 bits do not hold, got {list(listed)!r}; list words."
        ) from None


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
