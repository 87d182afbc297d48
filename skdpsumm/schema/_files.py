"""How columns are written down: in the header of a sketch, in a TOML file, and a first draft."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from .._bounded import MOST_CHARACTERS, parse_toml
from ._columns import Categorical, Column, Date, Numeric, short_number, told
from ._reading import finite_numbers
from ._values import CellError, exact_dates, is_missing

# How a draft says what it is.
_GUESSED, _SOME_MISSING = "guessed from public rows", ", some missing"
# What a column of words looks like that holds no categories, and what a draft says of it then.
_FORMS = {
    r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?([./-])\d\d?\2(\d\d|\d{4})( .*)?": (
        "if these are dates, convert them with pandas.to_datetime, and write a Date"
    ),
    r"[+-]?\d+|[+-]?\d*\.\d+": ("if these are numbers, convert them with astype(float)"),
    r"[+-]?[\d.]*,?\d+": "if these are numbers with a decimal comma, read them as such",
}


def toml_lines(entries: Mapping[Any, Any]) -> list[str]:
    """Return the entries of a table, with numbers as people write them: 17 for 17.0."""
    # Categories keep their type, for 1.0 and True are other words in a release than 1.
    return [f"{toml_key(str(k))} = {_toml(v, exact=k == 'categories')}" for k, v in entries.items()]


def _toml(value: Any, *, exact: bool = False) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(one, exact=exact) for one in value)}]"
    if isinstance(value, str):  # JSON's escapes are TOML's, but for this control character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(short_number(value) if isinstance(value, float) and not exact else value)


def toml_key(name: str) -> str:
    """Return the name of a column as a key of TOML."""
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else _toml(name)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the tables of a TOML file, or raise ValueError that names the file."""
    with Path(path).open("rb") as file:
        octets = file.read(4 * MOST_CHARACTERS + 4)  # what is longer is refused by its characters
    try:
        return parse_toml(octets.decode("utf-8-sig"))  # as editors save it
    except UnicodeDecodeError as error:
        line = octets[: error.start].count(b"\n") + 1
        told = f"line {line} is not in UTF-8, as TOML files are. Save the file in UTF-8."
    except ValueError as error:
        told = str(error)
    raise ValueError(f"{path}: {told}")


def position(key: str) -> int:
    """Return the position of a column that a key of TOML says, or raise ValueError."""
    if not (key.isdecimal() and str(int(key)) == key):
        raise ValueError(
            f"[[never]], {key!r}: the position of a column is a whole number from 0 on."
        )
    return int(key)


def from_table(name: Any, table: Any) -> Column:
    """Return the column that a table of TOML or JSON describes, or raise ValueError that names it.

    It is one of dates if `low` is a word or a date, and of numbers without `low`.
    """
    if not isinstance(table, dict):
        raise ValueError(
            f"schema, column {name!r}: {told(table)} does not describe a column; write a "
            "table, {low = 0, high = 1} or {categories = [...]}."
        )
    is_dated = isinstance(table.get("low"), str | date)
    kind: Any = Categorical if "categories" in table else Date if is_dated else Numeric
    known = {f.name for f in fields(kind)}
    if not set(table) <= known:
        raise ValueError(
            f"schema, column {name!r}: unknown entries {sorted(set(table) - known)!r}; known are "
            f"{sorted(known)}."
        )
    try:
        return kind(**table)
    except ValueError as error:
        raise ValueError(f"schema, column {name!r}: {error}") from None


# ---- a draft from public rows


def guess(cells: NDArray, name: str) -> Column:
    """Return a draft of a public column, which says what it guesses; or raise ValueError."""
    values = _different(cells)
    gaps = (
        np.isnan(values)
        if values.dtype.kind == "f"
        else np.array([is_missing(cell) for cell in values.tolist()], np.bool_)
    )
    present, absent = values[~gaps], bool(gaps.any())
    words = [cell for cell in present.tolist() if isinstance(cell, str | bool)]
    hint, who = _hint_of_words(words), f"Column {name!r}"
    try:
        dates = _guess_dates(values)
        if dates is not None:
            return dates
        if words:
            return _guess_categories(present.tolist(), absent, len(cells), hint)
        return _guess_range(finite_numbers(present), absent, len(cells))
    except CellError as error:
        told = str(error.as_error(who))
    except ValueError as error:
        told = f"{who} cannot be guessed: {error}" + (f" I{hint[1:]}." if hint else "")
    raise ValueError(told)


def _guess_dates(values: NDArray) -> Date | None:
    """Return a column of days, None if not all cells are dates."""
    for zone in (None, "UTC"):
        with suppress(CellError):
            days = exact_dates(values, "D", None if zone is None else ZoneInfo(zone))
            present = np.unique(days[~np.isnat(days)])
            if not len(present):
                return None
            if len(present) == 1:
                raise ValueError("it has fewer than two days; leave it out.")
            low, high, absent = str(present[0]), str(present[-1]), bool(np.isnat(days).any())
            words = f"{_GUESSED}: from {low} to {high}" + (_SOME_MISSING if absent else "")
            return Date(low, high, zone=zone, description=words, missing=absent)
    return None


def _different(cells: NDArray) -> NDArray:
    """Return each cell once, where Python can tell cells apart, or all of them."""
    if cells.dtype.kind != "O":
        return np.unique(cells)
    try:
        once = list({(type(cell), cell): cell for cell in cells.tolist()}.values())
    except TypeError:
        return cells
    values = np.empty(len(once), dtype=object)
    values[:] = once
    return values


def _hint_of_words(words: list[Any]) -> str:
    """Return what words look like that are no categories, and what to do then."""
    if words and all(isinstance(word, str) for word in words):
        for form, hint in _FORMS.items():
            if all(re.fullmatch(form, word.strip()) for word in words):
                return hint
    return ""


def _guess_range(numbers: NDArray, absent: bool, n_rows: int) -> Numeric:
    low, high = (float(f(numbers)) if len(numbers) else np.nan for f in (np.min, np.max))
    if not low < high:
        raise ValueError("it has fewer than two values; leave it out.")
    step = _guess_step(numbers, low, high)
    words = f"{_GUESSED}: from {short_number(low)} to {short_number(high)}"
    words += f" in steps of {short_number(step)}" if step else ""
    words += _SOME_MISSING if absent else ""
    if len(numbers) == n_rows > 20 and step == 1 and high - low == n_rows - 1:
        words += "; if these are row numbers, leave the column out"
    elif step == 1 and low >= 18000101 and (dates := _guess_dates(_with_dashes(numbers))):
        words += (
            "; if these are dates, convert them with pandas.to_datetime(t, format='%Y%m%d'), and "
            f"write Date({dates.low!r}, {dates.high!r})"
        )
    elif step and (high - low) / step < 10:
        words += "; if these are codes, write categories"
    return Numeric(low, high, step=step, description=words, missing=absent)


def _with_dashes(numbers: NDArray) -> NDArray:
    """Return numbers YYYYMMDD as ISO words."""
    words = np.char.mod("%d", numbers)
    return np.array([f"{word[:-4]}-{word[-4:-2]}-{word[-2:]}" for word in words], object)


def _guess_categories(present: list[Any], absent: bool, n_rows: int, hint: str) -> Categorical:
    values = sorted(set(present), key=str)
    if len(values) > 1000:
        raise ValueError(
            f"it has {len(values)} different words, which are names or free text; leave it out, "
            "or group them."
        )
    words = f"{_GUESSED}: {len(values)} categories" + (_SOME_MISSING if absent else "")
    words += f"; {hint}" if hint else ""
    if len(values) > 20 and 2 * len(values) > n_rows:
        words += "; most occur once: if these are names of persons, leave the column out"
    return Categorical(tuple(values), description=words, missing=absent)


def _guess_step(numbers: NDArray, low: float, high: float) -> float | None:
    """Return 1, 0.1, ... 1e-6 where all numbers have so many decimals, and a million values."""
    for places in range(7):
        step = float(Decimal(1).scaleb(-places))
        if (high - low) / step > 1_000_000:
            return None
        if np.array_equal(np.round(numbers, places), numbers):
            return step
    return None
