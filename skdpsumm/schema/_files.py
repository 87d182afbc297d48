"""How columns are written down: in the header of a sketch, in a TOML file, and a first draft."""

from __future__ import annotations

import json
import os
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
from ._reading import (
    CellError,
    cells_as_objects,
    exact_dates,
    finite_numbers,
    is_missing,
    plain_labels,
)

# Different words that a draft lists, at most: more are names or free text.
_MOST_GUESSED = 1000


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
    try:
        return _guess_dates(cells) or _guess_categories(cells) or _guess_range(cells)
    except CellError as error:
        told = str(error.as_error(f"Column {name!r}"))
    except ValueError as error:
        told = f"Column {name!r} cannot be guessed: {error}"
    raise ValueError(told)


def _guess_dates(cells: NDArray) -> Date | None:
    """Return a column of days, None if not all cells are dates."""
    for zone in (None, "UTC"):
        with suppress(CellError):
            days = exact_dates(cells, "D", None if zone is None else ZoneInfo(zone))
            present = np.unique(days[~np.isnat(days)]).astype(str).tolist()
            if len(present) == 1:
                raise ValueError("it has fewer than two days; leave it out.")
            if present:
                low, high, absent = present[0], present[-1], bool(np.isnat(days).any())
                words = _described(f"from {low} to {high}", absent)
                return Date(low, high, zone=zone, description=words, missing=absent)
    return None


def _guess_categories(cells: NDArray) -> Categorical | None:
    """Return a column of categories, None if no cell is a word or a truth value."""
    present = [cell for cell in cells.tolist() if not is_missing(cell)]
    if not any(isinstance(cell, str | bool) for cell in present):
        return None
    plain_labels(cells_as_objects(present))  # which refuses what is neither word nor number
    values = sorted(set(present), key=str)
    if len(values) > _MOST_GUESSED:
        raise ValueError(
            f"it has {len(values)} different words, which are names or free text; leave it out, "
            "or group them."
        )
    absent = len(present) < len(cells)
    words = _described(f"{len(values)} categories", absent)
    return Categorical(tuple(values), description=words, missing=absent)


def _guess_range(cells: NDArray) -> Numeric:
    numbers = finite_numbers(cells, missing=True)
    present = np.unique(numbers[~np.isnan(numbers)])
    if len(present) < 2:
        raise ValueError("it has fewer than two values; leave it out.")
    low, high, absent = float(present[0]), float(present[-1]), bool(np.isnan(numbers).any())
    step = _guess_step(present, low, high)
    words = f"from {short_number(low)} to {short_number(high)}"
    words = _described(words + (f" in steps of {short_number(step)}" if step else ""), absent)
    return Numeric(low, high, step=step, description=words, missing=absent)


def _guess_step(numbers: NDArray, low: float, high: float) -> float | None:
    """Return 1, 0.1, ... 1e-6 where all numbers have so many decimals, and a million values."""
    for places in range(7):
        step = float(Decimal(1).scaleb(-places))
        if (high - low) / step > 1_000_000:
            return None
        if np.array_equal(np.round(numbers, places), numbers):
            return step
    return None


def _described(words: str, absent: bool) -> str:
    return f"guessed from public rows: {words}{', some missing' if absent else ''}"
