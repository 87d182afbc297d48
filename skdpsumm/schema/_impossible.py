"""Combinations of values that no row has: what is said of them, and the cells that they empty.

A combination is a tuple of (column, what it takes), in the order of the columns: of numbers a
closed range (low, high), of categories their codes. Missing cells are in none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import Categorical, Column, Date, Numeric, told

Combination = tuple[tuple[int, tuple[Any, ...]], ...]

# A file could list as many as it likes.
MOST_COMBINATIONS = 4096
# Cells of the columns of a combination, at most: a model holds no more, and could not use it.
MOST_CELLS_OF_COMBINATION = 2**16
# Smaller parts of a step are rounding, as are four floats at an end.
_OF_A_STEP = 1e-6


def combination(columns: Sequence[Column], given: Mapping[int, Any]) -> Combination:
    """Return what a user says that no row has, or raise ValueError that tells what is wrong.

    Parameters
    ----------
    columns : sequence of Column
    given : mapping from position to two numbers, or a list of categories
    """
    read = {j: _taken(columns[j], given[j]) for j in sorted(given)}
    return checked(columns, tuple(read.items()))


def checked(columns: Sequence[Column], found: Combination) -> Combination:
    """Return a combination if it is one of these columns, else raise ValueError."""
    for j, taken in found:
        _check(columns[j], taken)
    if len(found) < 2:
        raise ValueError(
            "A combination needs two columns or more; for one column, change its range or its "
            "categories."
        )
    if all(_is_all(columns[j], taken) for j, taken in found):
        raise ValueError("This combination would rule out every row; leave some values out.")
    return found


def _taken(column: Column, given: Any) -> tuple[Any, ...]:
    listed = list(given) if isinstance(given, list | tuple | np.ndarray) else None
    if isinstance(column, Numeric):
        if listed is None or len(listed) != 2:
            raise ValueError(f"{told(given)} is not a range; write [low, high], both included.")
        return tuple(column.asked(listed) if isinstance(column, Date) else map(_number, listed))
    assert isinstance(column, Categorical)
    codes = column.code_of
    if not listed or not all(_is_key(value) and value in codes for value in listed):
        raise ValueError(
            f"{told(given)} must be a list of categories that the schema has, such as "
            f"[{column.categories[0]!r}]."
        )
    return tuple(sorted({codes[value] for value in listed}))


def _number(value: Any) -> float:
    is_real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    try:
        return float(value) if is_real else math.nan
    except OverflowError:
        return math.nan


def _is_key(value: Any) -> bool:
    return isinstance(value, str | int | float | np.generic)


def _check(column: Column, taken: tuple[Any, ...]) -> None:
    if isinstance(column, Categorical):
        plain = all(type(code) is int and 0 <= code < len(column.categories) for code in taken)
        if not taken or not plain or list(taken) != sorted(set(taken)):
            raise ValueError("Codes of categories must be whole numbers, in order, each once.")
        return
    assert isinstance(column, Numeric)
    if len(taken) != 2 or not all(type(x) is float for x in taken):
        raise ValueError("A range must be two numbers, [low, high].")
    first, last = taken
    if not -math.inf < first <= last < math.inf:
        raise ValueError(f"[{first:g}, {last:g}] must be two finite numbers, in order.")
    low, high = column.bounds or taken
    if first > high or last < low:
        raise ValueError(f"[{first:g}, {last:g}] is outside the range of the column, {low, high}.")


def _is_all(column: Column, taken: tuple[Any, ...]) -> bool:
    if column.missing:
        return False
    if isinstance(column, Categorical):
        return len(taken) == len(column.categories)
    low, high = column.bounds or (-math.inf, math.inf)  # type: ignore[attr-defined]
    return taken[0] <= low and high <= taken[1]


def written(column: Column, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a combination takes of a column in the words of `TableSchema.never`."""
    if isinstance(column, Categorical):
        return tuple(column.categories[code] for code in taken)
    return tuple(map(column.label, taken)) if isinstance(column, Date) else taken


def thresholds(column: Column, ranges: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the edges of bins that no range of a combination cuts, inside the column's range.

    A bin holds its left edge. Where the column has no step, the value at which a range ends is in
    the bin before the edge: the next float is the edge.
    """
    if not isinstance(column, Numeric) or column.bounds is None:
        return ()
    (low, high), step = column.bounds, column.spacing
    if step is None:
        last = math.nextafter(high, -math.inf)  # the last bin holds its right edge
        found = {x for a, b in ranges for x in (min(a, last), math.nextafter(b, math.inf))}
        return tuple(sorted(x for x in found if low < x < high))
    first = (math.ceil((a - low) / step - _OF_A_STEP) for a, _ in ranges)
    beyond = (math.floor((b - low) / step + _OF_A_STEP) + 1 for _, b in ranges)
    n_steps = round((high - low) / step)
    places = sorted(k for k in {*first, *beyond} if 0 < k <= n_steps)
    # An edge at the last value would leave the last bin without a width.
    return tuple(
        float(column.on_grid(np.array(low + k * step))) if k < n_steps else high - step / 2
        for k in places
    )


def possible_cells(
    columns: Sequence[Column],
    combinations: Sequence[Combination],
    contents: Any,
    most_cells: int = MOST_CELLS_OF_COMBINATION,
) -> list[tuple[tuple[int, ...], NDArray[np.bool_]]]:
    """Return the groups of columns that combinations are of, and in which cells rows may be.

    Parameters
    ----------
    columns : sequence of Column
    combinations : sequence of Combination
    contents : sequence or mapping
        For each column what each of its cells may hold: of numbers the smallest and the largest,
        None for a cell of missing ones; of categories their codes.
    most_cells : int, default=2**16
        Combinations of more cells are left out, and so are those that hold no whole cell.

    Returns
    -------
    list of (tuple of int, ndarray of bool)
        One for each group. False only where all that the cell may hold is in a combination.
    """
    found: dict[tuple[int, ...], NDArray[np.bool_]] = {}
    for one in combinations:
        group = tuple(j for j, _ in one)
        if math.prod(len(contents[j]) for j in group) > most_cells:
            continue
        within = [np.array([_holds(columns[j], t, c) for c in contents[j]]) for j, t in one]
        if all(inside.any() for inside in within):
            ruled_out = reduce(np.logical_and.outer, within)
            found[group] = found.get(group, True) & ~ruled_out
    return list(found.items())


def _holds(column: Column, taken: tuple[Any, ...], content: Sequence[Any] | None) -> bool:
    """Return whether all that a cell may hold is among what a combination takes."""
    if isinstance(column, Categorical):
        return set(content or ()) <= set(taken) and bool(content)
    if content is None:
        return False
    step = column.spacing  # type: ignore[attr-defined]
    spare = [4 * np.spacing(abs(end)) if step is None else _OF_A_STEP * step for end in taken]
    return bool(taken[0] - spare[0] <= content[0] and content[1] <= taken[1] + spare[1])


def ranges_of(combinations: Sequence[Combination], j: int) -> list[tuple[float, float]]:
    """Return the ranges of numeric column `j` in all combinations."""
    return [taken for k, taken in chain.from_iterable(combinations) if k == j]
