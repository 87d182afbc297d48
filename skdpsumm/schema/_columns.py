"""What is public about a column: range and grid of numbers or dates, or a list of categories.

*Public cells of a column of numbers.* Rows of real tables heap at round values, and people cut at
round values. So cells begin there: even ones at multiples of a round unit, and single values of
their own at zero, at the ends of the range and at 1, 2, 3, 5, 10, 20, ... Each of these has finer
ones: multiples of a smaller round unit, and the gaps between them. Dates have cells from one
beginning of a day, month, year or decade to the next. `Cells.leaves` says which of the finer ones
stand out of noisy counts, and divides those once more; all others stay together. It reads released
numbers alone. A round unit is 1, 2 or 5 times a power of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice, pairwise, repeat
from numbers import Real
from operator import lt
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from .._computing import Floats
from .._html import MOST_ROWS_SHOWN, cut, more_of
from ._reading import (
    INTERVALS,
    ISO,
    MISSING,
    TIME_TYPES,
    TIMES,
    CellError,
    cells_as_objects,
    exact_dates,
    exact_numbers,
    finite_numbers,
    in_words,
    is_exact,
    is_missing,
    label_array,
    number_of_word,
    plain_label,
    read_each,
    read_labels,
    reads_as_number,
)

# Values that a column can list: categories, edges or codes of missing values. So many take a third
# of a second to check.
MOST_LISTED = 100_000
# Part of synthetic cells that are missing, where nothing says how many are.
_SHARE_MISSING = 0.1
# How far apart the ends of a range are at least, and how far from zero at most: closer to what
# floats hold, scaling a value or going half a step beyond the range would overflow.
_SHORTEST_RANGE, _FARTHEST_END = 1e-300, 1e300
# A missing number is encoded as the middle of the range and as this, so that it is as far from
# either end as the ends are from one another.
_MISSING_NUMBER = 0.75**0.5
# Two different categories are as far apart as the two ends of a numeric range.
_INDICATOR = 0.5**0.5
# What may be wrong with a cell beside what is listed, in the words of the error.
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
# What may be wrong with a cell of a category, the worst first, which has the code -4. Missing cells
# are no unlisted ones, for the remedies differ.
_FAULTS_OF_CATEGORIES = (TIMES, MISSING, INTERVALS, UNLISTED)
# The category of all values that a column with `Categorical.other` does not list.
OTHER = "other"
# Smaller parts of a step are rounding.
_OF_A_STEP = 1e-6
# The steps of dates and the parts of a calendar, as numpy names them.
_STEPS = ("day", "month", "hour")
_UNITS = {"hour": "h", "day": "D", "month": "M", "year": "Y"}


class Column:
    """A column of a `TableSchema`: `Numeric`, `Date` or `Categorical`.

    What it makes of a cell is a function of that cell alone, whatever the dtype of the container.
    `taken`, `written`, `takes_all` and `within` are about combinations of `TableSchema.never`.
    """

    unit: str | None
    description: str | None
    missing: bool
    missing_values: tuple[Any, ...]
    _principal: ClassVar[tuple[str, ...]]
    # Columns of numbers say where bins end and how many values there are; no others do.
    edges: Any = None
    n_values: Any = None

    def differences(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return boxes that hold the difference of any two cells, encoded; None if none does.

        Returns
        -------
        centers, half_widths : ndarray of shape (n_boxes, n_encoded)
            With each box comes its mirror image. Noise under replace-one is set by them, so they
            must hold all that `encode` returns.
        """
        raise NotImplementedError

    def _check_words(self) -> None:
        for name in ("unit", "description"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise ValueError(f"{name} must be text, got {text!r}.")
            if text:
                check_text(name, text)
        if not isinstance(self.missing, bool | np.bool_):
            raise ValueError(
                f"missing must be True or False, got {self.missing!r}. Values that stand for a "
                "missing one go to missing_values."
            )
        codes, says_missing = check_missing_values(self.missing_values)
        vars(self).update(missing_values=codes, missing=bool(self.missing or says_missing))

    def decode(self, read: NDArray) -> NDArray:
        """Return the cells that stand for what `read` returns: dates, categories, or numbers."""
        return read

    def state(self) -> dict[str, Any]:
        """Return what the column says, by the parameters of its constructor."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {k: v for k, v in given.items() if v is not None and v is not False and v != ()}

    def __repr__(self) -> str:
        given = self.state()
        told = [_written(given.pop(name)) for name in self._principal if name in given]
        told += [f"{name}={_written(value)}" for name, value in given.items()]
        return f"{type(self).__name__}({', '.join(told)})"


@dataclass(frozen=True, repr=False)
class Numeric(Column):
    """A column of numbers, and what is public about them.

    Parameters
    ----------
    low, high : float, default=None
        Public range, in the column's own units. Numbers outside are clipped to it. Without a range,
        a column has no histogram and no synthetic values. The default is None because a range must
        be public, so nothing guesses it.
    step : float, default=None
        Distance between two neighbouring values: 1 for whole numbers. All values are then low,
        low + step, ..., high, and other numbers go to the closest of these. None, the default, is
        for measurements, which may lie anywhere in the range.
    edges : sequence of float, default=None
        Edges of the bins of a histogram, increasing, from `low` to `high` (which you may then
        leave out). Give them if values are not spread evenly. A bin holds its left edge, and the
        last bin holds both. None, the default, leaves the bins to the sketcher, because the best
        ones depend on the noise.
    unit : str, default=None
        Physical unit, for the reader of a release. The default is None because some numbers, such
        as counts, have no unit.
    description : str, default=None
        What the column means, for the reader of a release. The default is None because a name may
        say enough.
    missing : bool, default=False
        Whether a cell may be missing (NaN, None, NA or null). The default, False, refuses such
        cells, so that none goes unnoticed.
    missing_values : number, word or list of these, default=()
        Public codes that stand for a missing value, such as ``[-9, "NA"]``. A cell that is one of
        them is read as missing, so `missing` is then True. NaN and None are missing anyway: they
        set `missing` and are not kept here. Numbers must lie outside the range. The default, none,
        reads each number as a number: -9 is clipped to the range.

    Raises
    ------
    ValueError
        If the range, the step and the edges do not fit together, or a code lies in the range.

    Examples
    --------
    >>> from skdpsumm import Numeric
    >>> Numeric(17, 90, step=1, unit="years")
    Numeric(17, 90, step=1, unit='years')
    >>> Numeric(17, 90, missing_values=[-9, 99])
    Numeric(17, 90, missing=True, missing_values=[-9, 99])
    >>> Numeric(edges=[0, 1, 5000, 99_999]).high
    99999.0
    """

    low: float | None = None
    high: float | None = None
    step: float | None = field(default=None, kw_only=True)
    edges: tuple[float, ...] | None = field(default=None, kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    missing: bool = field(default=False, kw_only=True)
    missing_values: Any = field(default=(), kw_only=True)

    _principal: ClassVar[tuple[str, ...]] = ("low", "high")

    def __post_init__(self) -> None:
        self._check_words()
        edges = None if self.edges is None else increasing("edges", self.edges, least=2)
        given = (self.low, self.high)
        is_open = self.low is None and self.high is None
        if is_open and edges is not None:
            given = edges[0], edges[-1]
        bounds = None if is_open and edges is None else public_interval("low and high", given)
        low, high = bounds or (None, None)
        vars(self).update(low=low, high=high, edges=edges)
        if edges is not None and (edges[0], edges[-1]) != bounds:
            raise ValueError(
                f"edges={list(edges)!r} must begin and end at the range of the column, {bounds}."
            )
        if self.step is not None:
            vars(self).update(step=self._check_step(self.step))
        for word in self.missing_values:
            if isinstance(word, str) and not isinstance(number_of_word(word), str):
                raise ValueError(
                    f"missing_values lists the word {word!r}, and a column of numbers holds the "
                    "number: write it without quotes."
                )
        self._check_codes()

    def _check_codes(self) -> None:
        low, high = self.bounds or (np.inf, -np.inf)
        inside = [self.label(code) for code in self._codes if low <= code <= high]
        if inside:  # where a value that is clipped, or moved to the grid, would become it
            raise ValueError(
                f"missing_values lists {inside[0]}, which lies in the range ({self.label(low)}, "
                f"{self.label(high)}), where it is a value. Give a range without it."
            )

    @property
    def _codes(self) -> list[Any]:
        """The numbers among `missing_values`."""
        return [code for code in self.missing_values if not isinstance(code, str)]

    def _check_step(self, given: Any) -> float:
        if self.bounds is None:
            raise ValueError(f"step={given!r} needs low and high, the first and the last value.")
        (low, high), step = self.bounds, _as_float(given)
        # Finer, and half a step would be lost in the rounding of the values.
        is_coarse = step >= 16 * np.spacing(max(-low, high))
        # The number of steps is whole, up to what decimals lose in binary.
        n_steps = (high - low) / step if is_coarse else 0.0
        if n_steps < 0.5 or abs(n_steps - round(n_steps)) > 1e-6:
            raise ValueError(
                f"step={given!r} must be a positive number that leads from one end of the range "
                f"{self.bounds} to the other, and no finer than float64; give a low and a high "
                "that are values of the column, or leave the step out."
            )
        if self.edges is not None:
            first = first_values(self.edges, low, step)
            if not np.all(np.diff(first) > 0):
                raise ValueError(
                    f"edges={list(self.edges)!r} make a bin without a value at step={given!r}; "
                    "leave out an edge of that bin."
                )
        return step

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range (low, high), or None where there is none."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def spacing(self) -> float | None:
        """The distance between two values as `read` returns them, or None: they are on no grid."""
        return self.step

    @property
    def n_values(self) -> int | None:
        """Number of values, or None where they are on no grid."""
        if self.bounds is None or self.spacing is None:
            return None
        return round((self.bounds[1] - self.bounds[0]) / self.spacing) + 1

    def label(self, value: float) -> str:
        """Return a value as the label of a bin."""
        return f"{value:.12g}"

    def on_grid(self, values: NDArray) -> NDArray:
        """Return each of `values` moved to the closest value that the column has.

        Without a step, values are returned as they are.
        """
        if self.bounds is None or self.spacing is None:
            return values
        (low, high), step = self.bounds, self.spacing
        last = round((high - low) / step)
        k = np.clip(np.rint((np.asarray(values, np.float64) - low) / step), 0, last)
        return np.where(k == last, high, _as_written(low + k * step, (low, high), step))

    def read(self, cells: NDArray) -> NDArray[np.float64]:
        """Return cells as floats, clipped to the range and moved to the grid; NaN where missing.

        Raises
        ------
        CellError
            If a cell is not a finite number, or is missing where none may be.
        """
        values = self.numbers(cells)
        return values if self.bounds is None else self.on_grid(np.clip(values, *self.bounds))

    def numbers(self, cells: NDArray) -> NDArray[np.float64]:
        """Return cells as floats where they are, outside the range, too; NaN where missing.

        Raises
        ------
        CellError
            As `read`.
        """
        if self.missing_values:
            if not holds(cells.dtype, self._codes):
                raise CellError(NARROW)
            values = exact_numbers(without_words(cells, self.missing_values))
            cells = np.where(np.isin(values, self._codes), np.nan, values)
        return finite_numbers(cells, missing=self.missing)

    @property
    def n_encoded(self) -> int:
        """Number of columns that `encode` returns."""
        return 2 if self.missing else 1

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what `read` returns on the scale [0, 1], and beside it where a cell is missing.

        Numbers without a range stay as they are.
        """
        low, high = self.bounds or (0.0, 1.0)
        scaled = (values - low) / (high - low)
        if not self.missing:
            return scaled[:, None]
        absent = np.isnan(values)
        middle = 0.0 if self.bounds is None else 0.5
        return np.column_stack([np.where(absent, middle, scaled), absent * _MISSING_NUMBER])

    def differences(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        if self.bounds is None:
            return None
        if not self.missing:
            return np.zeros((1, 1)), np.ones((1, 1))
        # The boxes hold two numbers, and a number beside a missing one, which is in the middle.
        centers = [[0.0, 0.0], [0.0, _MISSING_NUMBER], [0.0, -_MISSING_NUMBER]]
        return np.array(centers), np.array([[1.0, 0.0], [0.5, 0.0], [0.5, 0.0]])

    def sample(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a value for each number in [0, 1): even over the range, some of them missing."""
        if self.bounds is None:
            raise ValueError("it has no range")
        absent = np.zeros(len(u), np.bool_)
        if self.missing:
            absent, u = u < _SHARE_MISSING, (u - _SHARE_MISSING) / (1 - _SHARE_MISSING)
        half = (self.spacing or 0.0) / 2  # by which the ends of the range extend beyond it
        low, high = self.bounds
        values = self.on_grid(low - half + u * (high - low + 2 * half))
        return np.where(absent, np.nan, values)

    def asked(self, given: Sequence[Any]) -> list[float]:
        """Return numbers that a question names, NaN for what is none."""
        return list(map(_as_float, given))

    def taken(self, given: Any) -> tuple[float, float]:
        """Return what a combination takes of the column: a closed range (low, high).

        A column of categories returns codes.

        Parameters
        ----------
        given : sequence
            Two numbers or dates, or categories.

        Raises
        ------
        ValueError
            For what is no part of the column.
        """
        if not _is_list(given) or len(given) != 2:
            raise ValueError(f"{told(given)} is not a range; write [low, high], both included.")
        first, last = self.asked(list(given))
        if not -np.inf < first <= last < np.inf:
            raise ValueError(f"[{first:g}, {last:g}] must be two finite numbers, in order.")
        low, high = self.bounds or (first, last)
        if first > high or last < low:
            raise ValueError(
                f"[{first:g}, {last:g}] is outside the range of the column, {low, high}."
            )
        return first, last

    def written(self, taken: tuple[Any, ...]) -> list[Any]:
        """Return what `taken` was given."""
        return list(map(short_number, taken))

    def takes_all(self, taken: tuple[Any, ...]) -> bool:
        """Return whether a combination takes every cell that the column may have."""
        low, high = self.bounds or (-np.inf, np.inf)
        return not self.missing and taken[0] <= low and high <= taken[1]

    def within(self, content: Any, taken: tuple[Any, ...]) -> bool:
        """Return whether a combination takes all that a cell of a histogram may hold.

        Parameters
        ----------
        content : sequence or None
            The smallest and the largest number, None for a cell of missing ones; codes of
            categories.
        taken : tuple
        """
        if content is None:
            return False
        # Four floats at an end are rounding.
        step = self.spacing
        spare = [4 * np.spacing(abs(end)) if step is None else _OF_A_STEP * step for end in taken]
        return bool(taken[0] - spare[0] <= content[0] and content[1] <= taken[1] + spare[1])

    def thresholds(self, ranges: Sequence[tuple[float, float]]) -> tuple[float, ...]:
        """Return the edges of bins that no range of a combination cuts, inside the column's range.

        A bin holds its left edge.
        """
        if self.bounds is None:
            return ()
        (low, high), step = self.bounds, self.spacing
        if step is None:
            # The value at which a range ends is in the bin before the edge, the next float.
            last = math.nextafter(high, -math.inf)  # the last bin holds its right edge
            found = {x for a, b in ranges for x in (min(a, last), math.nextafter(b, math.inf))}
            return tuple(sorted(x for x in found if low < x < high))
        first = (math.ceil((a - low) / step - _OF_A_STEP) for a, _ in ranges)
        beyond = (math.floor((b - low) / step + _OF_A_STEP) + 1 for _, b in ranges)
        n_steps = round((high - low) / step)
        places = sorted(k for k in {*first, *beyond} if 0 < k <= n_steps)
        # An edge at the last value would leave the last bin without a width.
        return tuple(
            float(self.on_grid(np.array(low + k * step))) if k < n_steps else high - step / 2
            for k in places
        )


@dataclass(frozen=True, repr=False)
class Date(Numeric):
    """A column of dates, and what is public about them.

    Cells are datetimes of numpy, pandas, polars, Arrow or Python, or ISO words such as
    ``"2024-02-29"`` and ``"2024-02-29T13:45"``. Each is read by itself: as the day, month or hour
    that it is in, whatever the unit and the time zone of its column. Numbers are refused.

    Answers, bins, samples and drawn tables come back as dates. Errors and differences of answers
    are numbers of steps.

    Parameters
    ----------
    low, high : str, date or datetime
        The first and the last day, month or hour, public. Dates outside are clipped to them. The
        years 1 to 9999 are possible.
    step : {"day", "month", "hour"}, default="day"
        Distance between two neighbouring values. Cells are cut down to it: a month is known by its
        first day. The default suits most tables.
    zone : str, default=None
        Name of the time zone by whose clock all cells are read, such as "Europe/Berlin" or "UTC".
        A cell that says its own zone is converted; all others are taken as they are. None refuses
        cells that say one, because they have no date until somebody says where.
    description : str, default=None
        What the column means, for the reader of a release. The default is None because a name may
        say enough.
    missing : bool, default=False
        Whether a cell may be missing (NaT, NaN, None, NA or null). The default, False, refuses such
        cells, so that none goes unnoticed.
    missing_values : word or list of words, default=()
        Public codes that stand for a missing value, such as ``["unknown", "9999-12-31"]``. A cell
        that is such a word, or in such a day (month, hour), is missing; `missing` is then True.
        Dates must lie outside the range. The default, none, clips 9999-12-31 to the range.

    Raises
    ------
    ValueError
        If the ends are no dates, or in the wrong order, or the zone is unknown here.

    Examples
    --------
    >>> from skdpsumm import Date
    >>> Date("2015-01-01", "2024-12-31")
    Date('2015-01-01', '2024-12-31', step='day')
    >>> Date("2015-01", "2024-12", step="month", missing=True)
    Date('2015-01', '2024-12', step='month', missing=True)
    """

    low: str  # type: ignore[assignment]
    high: str  # type: ignore[assignment]
    step: str = field(default="day", kw_only=True)  # type: ignore[assignment]
    zone: str | None = field(default=None, kw_only=True)
    edges: ClassVar[None] = None  # type: ignore[misc]
    unit: ClassVar[None] = None  # type: ignore[misc]
    spacing: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.step, str) or self.step not in _STEPS:
            raise ValueError(f"step={self.step!r} must be one of {list(_STEPS)}.")
        self._zone_of_cells()
        self._check_words()
        ends = {name: str(self._value(name, getattr(self, name))) for name in ("low", "high")}
        vars(self).update(ends)
        if self._first >= np.datetime64(self.high):
            raise ValueError(f"low={self.low!r} must be before high={self.high!r}.")
        self._check_codes()

    def _value(self, name: str, given: Any) -> np.datetime64:
        """Return the value that a date stands for, or raise ValueError."""
        with suppress(ValueError):  # CellError, too
            found = exact_dates(cells_as_objects([given]), _UNITS[self.step], self._zone_of_cells())
            if not np.isnat(found[0]):
                return found[0]
        raise ValueError(f"{name}={given!r} is no date; write it as in '2024-02-29'.")

    def _zone_of_cells(self) -> ZoneInfo | None:
        if self.zone is None:
            return None
        try:
            return ZoneInfo(self.zone)
        except (KeyError, ValueError, TypeError, AttributeError, OSError):
            known = "write such as 'UTC' or 'Europe/Berlin'; some systems need tzdata installed"
            raise ValueError(f"zone={self.zone!r} is no known time zone: {known}.") from None

    @property
    def _first(self) -> np.datetime64:
        return np.datetime64(self.low)

    @property
    def bounds(self) -> tuple[float, float]:
        """The range in steps since `low`, (0, n)."""
        return 0.0, float((np.datetime64(self.high) - self._first).astype(np.int64))

    @property
    def _codes(self) -> list[Any]:
        """Steps since `low` of the dates among `missing_values`; all else there must be words."""
        dates = (c for c in self.missing_values if not isinstance(c, str) or ISO.match(f"{c}-01"))
        return self.asked(dates)

    def steps(self, cells: NDArray) -> NDArray[np.float64]:
        """Return how many steps after `low` cells are, out of the range, too; NaN where missing.

        This is what `read` takes.

        Raises
        ------
        CellError
            For cells that are no dates, or that have a time zone where no `zone` is given.
        """
        cells = without_words(cells, self.missing_values)
        dates = exact_dates(cells, _UNITS[self.step], self._zone_of_cells())
        steps = (dates - self._first).astype(np.float64)
        return np.where(np.isnat(dates) | np.isin(steps, self._codes), np.nan, steps)

    def label(self, value: float) -> str:
        """Return a value as the label of a bin: its date."""
        return str(self.decode(np.array([value]))[0].astype(self._first.dtype))

    def decode(self, read: NDArray) -> NDArray[np.datetime64]:
        """Return dates in place of steps since `low`, rounded; NaT where missing."""
        dates = self._first + np.rint(np.nan_to_num(read)).astype(np.int64)
        dates = np.where(np.isnan(read), np.datetime64("NaT"), dates)
        return dates.astype("M8[us]" if self.step == "hour" else "M8[D]")

    def asked(self, given: Any) -> list[float]:
        """Return dates that a question names, in steps since `low`, or raise ValueError.

        Parameters
        ----------
        given : date, or sequence of dates
            Of any kind that a cell may be.
        """
        alone = isinstance(given, str) or not np.iterable(given)
        dates = [self._value("date", one) for one in ([given] if alone else given)]
        return [float((date - self._first).astype(np.int64)) for date in dates]

    def written(self, taken: tuple[Any, ...]) -> list[Any]:
        return list(map(self.label, taken))

    @property
    def calendar_units(self) -> tuple[str, ...]:
        """The parts of a calendar that hold several steps, or may."""
        return tuple(_UNITS)[1 + (self.step != "hour") :]

    def calendar(self, unit: str) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return the days (or the like) of the range, and the edges between, half a step off."""
        first, last = (
            np.datetime64(end).astype(f"M8[{_UNITS[unit]}]") for end in (self.low, self.high)
        )
        dates = np.arange(first, last + 1)
        steps = (dates.astype(self._first.dtype) - self._first).astype(np.float64)
        return tuple(dates.astype(str)), np.append(np.maximum(steps, 0), self.bounds[1] + 1) - 0.5


@dataclass(frozen=True, repr=False)
class Categorical(Column):
    """A column of categories, with all the public values that it may have.

    Parameters
    ----------
    categories : sequence of str, int, float or bool
        List all values: at least two, or one if cells may be missing. A value that is not listed is
        refused, unless you set `other`.
    unit : str, default=None
        Unit of the categories, for the reader of a release. The default is None because most
        categories have no unit.
    description : str, default=None
        What the column means, for the reader of a release. The default is None because a name may
        say enough.
    missing : bool, default=False
        Whether a cell may be missing (NaN, None, NA or null). Missing cells are then a category of
        their own. The default, False, refuses them, so that none goes unnoticed.
    missing_values : number, word or list of these, default=()
        Public codes that stand for a missing value, such as ``[-9, "NA"]``. A cell that is one of
        them is read as missing, so `missing` is then True. NaN and None are missing anyway: they
        set `missing` and are not kept here. No code is a category. The default, none, refuses them
        as it does all that is not listed.
    other : bool, default=False
        Whether to read a value that is not listed as the category "other". This word then becomes
        the last category, unless you list it yourself. The default, False, refuses such a value, so
        that a misspelt category is noticed.

    Raises
    ------
    ValueError
        If there are too few values, a value is listed twice, or a table may confuse two values.

    Examples
    --------
    >>> from skdpsumm import Categorical
    >>> Categorical(["Female", "Male"], missing=True)
    Categorical(['Female', 'Male'], missing=True)
    >>> Categorical(["clerk", "farmer"], other=True)
    Categorical(['clerk', 'farmer', 'other'], other=True)
    """

    categories: tuple[Any, ...]
    unit: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    missing: bool = field(default=False, kw_only=True)
    missing_values: Any = field(default=(), kw_only=True)
    other: bool = field(default=False, kw_only=True)

    _principal: ClassVar[tuple[str, ...]] = ("categories",)

    def __post_init__(self) -> None:
        self._check_words()
        if not isinstance(self.other, bool | np.bool_):
            raise ValueError(f"other must be True or False, got {self.other!r}.")
        vars(self).update(other=bool(self.other))
        known = check_listed("categories", self.categories)
        if self.other and OTHER not in known:
            known = check_listed("categories", [*known, OTHER])
        if self.other:
            listed = numbers_of_words([*known, *self.missing_values])
            check_listed("categories and missing_values, with numbers for words,", listed)
        if self.missing_values:
            check_listed("categories and missing_values", [*known, *self.missing_values])
        if len(known) + self.missing < 2:
            raise ValueError(
                f"categories lists {len(known)} value(s), and a column with fewer than two tells "
                "nothing; list all public values of the column, or leave the column out."
            )
        vars(self).update(categories=known)

    @cached_property
    def code_of(self) -> dict[Any, int]:
        """The code of each category: a stranger's schema may ask for many, of a long list."""
        return {value: code for code, value in enumerate(self.categories)}

    @property
    def n_codes(self) -> int:
        """Number of codes: one for each category, and one for missing cells if there may be any."""
        return len(self.categories) + self.missing

    def read(self, cells: NDArray) -> NDArray[np.int64]:
        """Return the position of each cell among the categories; the last code is a missing cell's.

        Raises
        ------
        CellError
            If a cell is not listed, or is missing where none may be.
        """
        if not holds(cells.dtype, self._lookup):
            raise CellError(NARROW)
        if cells.dtype.kind in "mM":  # which numpy may return as integers
            raise CellError(TIMES)
        unlisted = self.categories.index(OTHER) if self.other else -1
        code_of_fault = {fault: k - 4 for k, fault in enumerate(_FAULTS_OF_CATEGORIES)}
        if self.missing:
            code_of_fault[MISSING] = len(self.categories)
        if self.other:
            code_of_fault[INTERVALS] = unlisted

        def code(cell: Any) -> int:
            if isinstance(cell, TIME_TYPES):  # a missing one, too
                return code_of_fault[TIMES]
            try:
                word = self.other and isinstance(cell, str)
                label = plain_label(number_of_word(cell) if word else cell)
            except CellError as error:
                return code_of_fault.get(error.fault, unlisted)
            except Exception:  # of a cell that may be any object: its text may quote anything
                return unlisted
            return self._lookup.get(label, unlisted)

        values = cells.tolist()
        if cells.dtype.kind in "biuf":
            found = map(self._lookup.get, values, repeat(unlisted))
            codes = np.fromiter(found, np.int64, len(values))
            codes[np.isnan(cells)] = code_of_fault[MISSING]
        else:
            codes = np.array(read_each(values, code), np.int64)
        worst = codes.min(initial=0)
        if worst < 0:
            raise CellError(_FAULTS_OF_CATEGORIES[worst])
        return codes

    @cached_property
    def _lookup(self) -> dict[Any, int]:
        """The code of each value that a cell may be.

        A dict compares numbers exactly, of whatever types: 1, 1.0 and True are one key, and an
        integer beyond 2**53 is not the float that is closest.
        """
        # With `other`, a number that became a word must not become "other".
        form = numbers_of_words if self.other else list
        found = {value: code for code, value in enumerate(form(self.categories))}
        return found | dict.fromkeys(form(self.missing_values), len(self.categories))

    n_encoded = n_codes  # the number of columns that `encode` returns

    def encode(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the indicators of codes, times sqrt(1/2)."""
        return np.eye(self.n_codes)[codes] * _INDICATOR

    def differences(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        cells = np.eye(self.n_codes) * _INDICATOR
        pairs = (cells[:, None] - cells[None]).reshape(-1, self.n_codes)
        centers = np.unique(pairs, axis=0)
        return centers, np.zeros_like(centers)

    def decode(self, codes: NDArray) -> NDArray:
        """Return the categories at codes: floats if all are numbers, NaN or None where missing."""
        numeric = all(isinstance(v, int | float) for v in self.categories)
        values = [*self.categories, *([np.nan if numeric else None] * self.missing)]
        return np.asarray(values, dtype=np.float64 if numeric else object)[codes]

    def sample(self, u: NDArray[np.float64]) -> NDArray:
        """Return a category for each number in [0, 1), evenly."""
        return self.decode(np.minimum((u * self.n_codes).astype(int), self.n_codes - 1))

    def taken(self, given: Any) -> tuple[int, ...]:
        known = _is_list(given) and all(
            isinstance(value, str | int | float | np.generic) and value in self.code_of
            for value in given
        )
        if not known or not len(given):
            raise ValueError(
                f"{told(given)} must be a list of categories that the schema has, such as "
                f"[{self.categories[0]!r}]."
            )
        return tuple(sorted({self.code_of[value] for value in given}))

    def written(self, taken: tuple[Any, ...]) -> list[Any]:
        values = [self.categories[code] for code in taken]
        return [short_number(value) if isinstance(value, float) else value for value in values]

    def takes_all(self, taken: tuple[Any, ...]) -> bool:
        return not self.missing and len(taken) == len(self.categories)

    def within(self, content: Any, taken: tuple[Any, ...]) -> bool:
        return bool(content) and set(content) <= set(taken)


def as_column(given: Any) -> Column:
    """Return the column that a shorthand stands for.

    Parameters
    ----------
    given : Numeric, Categorical, tuple of two numbers, or list
        A tuple is the range of a `Numeric`, a list the values of a `Categorical`.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(given, Column):
        return given
    if is_range(given):
        return Numeric(*given)
    if isinstance(given, list):
        return Categorical(given)  # type: ignore[arg-type]
    raise ValueError(
        f"{told(given)} does not describe a column; write a range as a tuple, (low, high), "
        "categories as a list, or give Numeric(...) or Categorical(...)."
    )


def told(given: Any) -> str:
    """Return what a message says of what was given: no cells, if it is a table."""
    if hasattr(given, "shape") or hasattr(given, "columns"):
        return f"a {type(given).__name__}"
    return repr(given)


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple | np.ndarray)


def is_range(given: Any) -> bool:
    """Whether something is a tuple of two numbers."""
    is_pair = isinstance(given, tuple) and len(given) == 2
    return is_pair and all(map(_is_number, given))


def _is_number(value: Any) -> bool:
    # Most are floats, of which nothing else needs to be asked.
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def _as_float(value: Any) -> float:
    """Return a number as a float, -0.0 as 0.0, NaN for what is none or too large."""
    with suppress(OverflowError):
        return float(value) + 0.0 if _is_number(value) else np.nan
    return np.nan


def read_cells(column: Column, cells: NDArray, name: str, how: str = "read") -> NDArray:
    """Return what a column reads of cells, or raise an error that names the column, no value."""
    return in_words(lambda: getattr(column, how)(cells), f"Column {name!r}")


def first_values(edges: Sequence[float], low: float, step: float) -> NDArray[np.float64]:
    """Return the position on the grid of the first value of each bin, and one beyond the last."""
    # An edge that is a value up to rounding belongs to the bin on its right.
    first = np.ceil((np.array(edges) - low) / step - 1e-6)
    first[-1] = round((edges[-1] - low) / step) + 1
    return first


def increasing(name: str, given: Any, *, least: int) -> tuple[float, ...]:
    """Return increasing numbers as floats, so many at least, or raise ValueError."""
    listed = _some_listed(name, given)  # often thousands of plain floats
    is_plain = {*map(type, listed)} == {float}
    found = tuple(x + 0.0 if is_plain else _as_float(x) for x in listed)
    is_short = len(found) < least or any(map(math.isnan, found))
    if is_short or not all(map(lt, found, found[1:])):
        raise ValueError(f"{name}={given!r} must be a list of at least {least} increasing numbers.")
    return found


def _as_written(values: NDArray, bound: tuple[float, float], step: float) -> NDArray:
    """Return the decimals that people write for low + k * step: 0.1 * 3 is more than 0.3."""
    places = [-int(Decimal(repr(x)).normalize().as_tuple().exponent) for x in (bound[0], step)]
    # These products are exact up to 22 places and for values of at most 53 bits.
    scale = 10.0 ** min(max(0, *places), 23)
    exact = scale < 1e23 and max(-bound[0], bound[1]) * scale < 2**53
    return np.rint(values * scale) / scale if exact else values


def short_number(value: float) -> int | float:
    """Return a float as people write it: 17 for 17.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _written(value: Any) -> str:
    if isinstance(value, float):
        return repr(short_number(value))
    if isinstance(value, tuple):
        told = [*map(_written, value[:MOST_ROWS_SHOWN]), *more_of(value, MOST_ROWS_SHOWN)]
        return f"[{', '.join(told)}]"
    return cut(repr(value))


# ---- values that are listed in public


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
    plain = tuple(map(_plain, _some_listed(name, values)))
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


def _some_listed(name: str, values: Any) -> list[Any]:
    """Return the values of a list; raise ValueError for no list, or more than are listed."""
    is_listed = np.iterable(values) and not isinstance(values, str | bytes | Mapping)
    if not is_listed:
        raise ValueError(f"{name} must be a list of values, got {values!r}.")
    listed = list(islice(values, MOST_LISTED + 1))
    if len(listed) > MOST_LISTED:
        raise ValueError(
            f"{name} lists more than {MOST_LISTED:,} values; group rare ones, or leave the column "
            "out."
        )
    return listed


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
    if isinstance(values, tuple) and not values:  # as nearly all columns of a wide file have it
        return (), False
    alone = isinstance(values, str | bytes) or not np.iterable(values)
    given = () if values is None else [values] if alone else values
    listed = _some_listed("missing_values", given)
    codes = check_listed("missing_values", [one for one in listed if not is_missing(one)])
    large = [code for code in codes if not isinstance(code, str) and abs(code) >= 2**53]
    if large:
        raise ValueError(f"missing_values lists {large[0]!r}; codes must be below 2**53.")
    return codes, bool(listed)


def holds(dtype: np.dtype, listed: Iterable[Any]) -> bool:
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
    who = f"{name}={list(listed)!r}"
    return np.unique(in_words(lambda: label_array(read_labels(listed)), who, of_labels=True))


def class_codes(y: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Return the position of each label among the classes, -1 for what is none of them."""
    known = {label: code for code, label in enumerate(classes.tolist())}
    return np.array([known.get(label, -1) for label in y.tolist()], np.int64)


def public_interval(name: str, given: Any) -> tuple[float, float]:
    """Return the ends of a public interval; raise ValueError for what is none."""
    try:
        low, high = map(_as_float, given)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (high - low > _SHORTEST_RANGE and max(-low, high) <= _FARTHEST_END):
        alone = " Leave a column out that has a single value, or widen its range." * (low == high)
        raise ValueError(
            f"{name} must be two finite numbers, the public range: within {_FARTHEST_END:g}, "
            f"low < high, and more than {_SHORTEST_RANGE:g} apart; got {given!r}.{alone}"
        )
    return low, high


# ---- public cells of a column of numbers

Starts = NDArray[Any]  # numbers of values for a column with a step, else where cells begin

# examples/benchmarks/bins.py compares these and others. Even cells of a range, at most: with 128,
# noise in the empty part of a wide range moves means; with 16, cuts inside them are read worse. A
# column with at most so many values has a cell for each.
N_EVEN, N_VALUES = 32, 128
# Decades of single round values below the end of the range that is farther from zero.
_DECADES = 6
_SINGLES = (1, 2, 3, 5)
# Without a step, a cell begins before its number by this part of it, so that rounding in float32
# moves the number nowhere; and by no more than these parts of an even cell and of a finer unit.
_AS_FLOAT32, _OF_EVEN, _OF_FINER = 2.0**-22, 2.0**-14, 2.0**-6
# Share of the rows that a fine cell must have to be a leaf.
_LEAST_SHARE_OF_LEAF = 0.003
# A cell with twice this share of the rows, as two bins have, is cut where so many more have gone
# by, if they are four standard deviations of their noise.
_SHARE_OF_BIN = 0.07
# Leaves that stand out of a column at most, the heaviest first: no more have the least share.
_MOST_CUT_OUT = math.floor(1 / _LEAST_SHARE_OF_LEAF)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a column, and the finer ones that may be looked for in them.

    Parameters
    ----------
    line : _Line
    starts : ndarray
        Where cells begin.
    fine : ndarray
        Where the finer ones begin, those of `starts` included.
    most_cut_out : int
        The largest number of finer cells that stand out, on each level.
    """

    line: _Line
    starts: Starts
    fine: Starts
    most_cut_out: int

    @property
    def are_fine(self) -> bool:
        """Whether there are finer cells."""
        return len(self.starts) < len(self.fine)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The edges of the cells, from `low` to `high`; between the values of a step."""
        return self.line.edges(self.starts)

    @cached_property
    def fine_edges(self) -> tuple[float, ...]:
        """The edges of the finer cells."""
        return self.line.edges(self.fine)

    def points(self, edges: Sequence[float]) -> tuple[float, ...]:
        """Return the numbers that cells with these edges stand for, where it is a single one."""
        known = self.line.points
        return tuple(known[ends] for ends in pairwise(edges) if ends in known)

    def divided(self, which: NDArray[np.intp], most_fine: int, most_in_cell: int) -> Cells:
        """Return the same cells, some of them with finer ones: so many round values in each."""
        n = min(most_fine // (2 * max(len(which), 1)), most_in_cell)
        wide = self.line.wide(self.starts, which) if n else []
        found = [self.starts, *(self.line.divide(a, b, n) for a, b in wide)]
        return replace(self, fine=np.unique(np.concatenate(found)))

    def leaves(self, counts: Floats, std: float, most_fine: int, *, pure: bool = False) -> Cells:
        """Return the cells, with the finer ones that stand out as cells of their own.

        Parameters
        ----------
        counts : ndarray
            Noisy, of the finer cells.
        std : float
            Of the noise in `counts`.
        most_fine : int
            The largest number of finer cells of those that stand out.
        pure : bool, default=False
            Whether the noise is Laplace's: a part ``exp(-sqrt(2) t) / 2`` is beyond t deviations.
        """
        # A tenth of a fine cell of a column, on average, stands out by noise alone.
        n_rows, p = max(float(counts.sum()), 0.0), 0.1 / len(counts)
        by_chance = std * (-math.log(2 * p) / math.sqrt(2) if pure else -ndtri(p))
        first = np.searchsorted(self.fine, self.starts)
        # A fiftieth of the rows is a leaf in any case, although rows are even in its cell.
        excess = counts - self._even(counts, first, most=0.02 * n_rows)
        heaviest = np.argsort(-excess, kind="stable")[: self.most_cut_out]
        out = heaviest[excess[heaviest] > max(by_chance, _LEAST_SHARE_OF_LEAF * n_rows)]
        cuts = self._even_cuts(counts, first, std, _SHARE_OF_BIN * n_rows)
        begun = np.concatenate([first, out, out + 1, cuts[: self.most_cut_out]]).astype(np.int64)
        starts = np.unique(self.fine[begun[begun < len(counts)]])
        found = replace(self, starts=starts, fine=starts)
        # A cell that stands out has up to 256 multiples of a smaller unit, and an even one 8.
        return found.divided(np.searchsorted(starts, self.fine[out]), most_fine, 256)

    def _even(self, counts: Floats, first: NDArray[np.intp], most: float) -> Floats:
        """Return what finer cells have if rows are even in each cell, which has several of them."""
        sizes, width = np.diff(np.append(first, len(counts))), np.diff(self.fine_edges)
        rows, whole = (np.repeat(np.add.reduceat(a, first), sizes) for a in (counts, width))
        even = np.clip(rows * width / whole, 0.0, most)
        return np.where(np.repeat(sizes > 1, sizes), even, np.inf)

    def _even_cuts(
        self, counts: Floats, first: NDArray[np.intp], std: float, rows: float
    ) -> NDArray[np.intp]:
        """Return the finer cells at which so many rows more have gone by in a cell."""
        found = [np.empty(0, np.intp)]
        for start, end in pairwise([*first.tolist(), len(counts)]):
            gone = np.cumsum(counts[start:end])
            if gone[-1] > max(4.0 * std * math.sqrt(end - start), 2 * rows, 0.0):
                wanted = rows * np.arange(1, gone[-1] // rows) if rows else np.empty(0)
                found.append(start + 1 + np.searchsorted(np.maximum.accumulate(gone), wanted))
        return np.unique(np.concatenate(found))


def public_cells(column: Numeric, thresholds: Sequence[float], most_fine: int) -> Cells:
    """Return the public cells of a column of numbers.

    Parameters
    ----------
    column : Numeric
        With a range.
    thresholds : sequence of float
        Where cells begin in any case, strictly inside the range.
    most_fine : int
        The largest number of finer cells.
    """
    is_dated = isinstance(column, Date)
    kind: Any = _Calendar if is_dated else _Line if column.spacing is None else _Grid
    line: _Line = kind(column, thresholds)
    starts, (low, high) = line.first, line.ends
    if not line.is_short:
        even = line.round_values(low, high, N_EVEN)
        round_ones = [] if is_dated else _round_values(low, high, line.step)
        cuts = np.array([*even, *round_ones])
        single = np.array([low, high, *[0.0] * (low < 0 < high)])
        starts = np.unique(np.concatenate([starts, line.begin(cuts), line.alone(single)]))
    cells = Cells(line, starts, starts, min(_MOST_CUT_OUT, most_fine // 8))
    return cells.divided(np.arange(len(starts)), most_fine, 8)


class _Line:
    """Where cells of a column without a step begin.

    Attributes
    ----------
    ends : tuple of float
        The range of the column.
    step : float
        The distance of its values, 0 where they are on no grid.
    first : ndarray
        Where cells begin in any case.
    is_short : bool
        Whether these are all cells.
    points : dict
        The number by the edges of its cell, of each that has a cell of its own.
    """

    def __init__(self, column: Numeric, thresholds: Sequence[float]):
        assert column.bounds is not None
        self.ends, self.step = column.bounds, column.spacing or 0.0
        (low, high), far = self.ends, max(-self.ends[0], self.ends[1])
        self._cuts = np.array([low, *sorted(thresholds), high])
        self.first: Starts = self._cuts[:-1]
        self.is_short = high - low < 2.0**24 * math.ulp(far)  # which float64 hardly divides
        self._widest, self._narrowest = (high - low) / N_EVEN, far * 10.0**-_DECADES
        self.points: dict[tuple[float, float], float] = {}

    def begin(self, values: Floats) -> Starts:
        """Return where cells begin that hold each of these numbers, and no smaller ones."""
        return self._inside(self._around(values)[0])

    def alone(self, values: Floats) -> Starts:
        """Return where the cells of single numbers, and those after them, begin."""
        return self._kept(values, *self._around(values))

    def divide(self, low: float, high: float, n: int) -> Starts:
        """Return where cells begin in a wide one: at most `n` round values, and what is between."""
        unit = _round_unit((high - low) / n)
        # Where float64 has fewer numbers in a unit, nothing is divided.
        if unit < 2.0**12 * math.ulp(max(-low, high)):
            return np.empty(0)
        near = min(max(-low, high) * _AS_FLOAT32, unit * _OF_FINER)
        values = _multiples(unit, low, high)
        values = values[values < high]  # which begins the next cell
        below = np.where(values - low < 2 * near, low, values - near)
        return self._kept(values, below, np.where(high - values < 2 * near, high, values + near))

    def _around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the ends of a narrow cell about each number, on this side of the thresholds."""
        near = np.maximum(np.abs(values), self._narrowest) * _AS_FLOAT32
        near = np.minimum(near, self._widest * _OF_EVEN)
        k = np.clip(np.searchsorted(self._cuts, values, side="right"), 1, len(self._cuts) - 1)
        low, high = self._cuts[k - 1], self._cuts[k]
        return np.maximum(values - near, low), np.minimum(values + near, high)

    def _kept(self, values: Floats, below: Floats, above: Floats) -> Starts:
        ends = zip(below.tolist(), above.tolist(), strict=True)
        self.points.update(zip(ends, values.tolist(), strict=True))
        return self._inside(np.concatenate([below, above]))

    def _inside(self, starts: Floats) -> Floats:
        return starts[starts < self._cuts[-1]]

    def round_values(self, low: float, high: float, n: int) -> Floats:
        """Return at most n round values of a range, but for its ends."""
        return _multiples(_round_unit(max((high - low) / n, self.step)), low, high)

    def wide(self, starts: Starts, which: NDArray[np.intp]) -> list[tuple[float, float]]:
        """Return the ends of some cells, but of those of single numbers."""
        ends = np.append(starts, self._cuts[-1])
        pairs = zip(ends[which].tolist(), ends[which + 1].tolist(), strict=True)
        return [ends for ends in pairs if ends not in self.points]

    def edges(self, starts: Starts) -> tuple[float, ...]:
        """Return the edges of cells."""
        return (*starts.tolist(), float(self._cuts[-1]))


class _Grid(_Line):
    """The same of a column with a step: cells begin at numbers of its values, 0 for the first."""

    def __init__(self, column: Numeric, thresholds: Sequence[float]):
        super().__init__(column, thresholds)
        self._n = round((self.ends[1] - self.ends[0]) / self.step) + 1
        self.is_short = self._n <= N_VALUES
        every = np.arange(self._n if self.is_short else 1)
        self.first = np.union1d(every, self.begin(np.array(thresholds)))

    def alone(self, values: Floats) -> Starts:
        closest = np.rint((values - self.ends[0]) / self.step).astype(np.int64)
        return self._inside(np.concatenate([closest, closest + 1]))

    def begin(self, values: Floats) -> Starts:
        first = np.ceil((values - self.ends[0]) / self.step - 1e-6)
        return self._inside(first.astype(np.int64))

    def _inside(self, starts: Starts) -> Starts:
        return starts[(starts >= 0) & (starts < self._n)]

    def wide(self, starts: Starts, which: NDArray[np.intp]) -> list[tuple[float, float]]:
        last = np.append(starts[1:], self._n) - 1
        ends = self.ends[0] + np.column_stack([starts, last])[which] * self.step
        return [(a, b) for a, b in ends.tolist() if a < b]

    def divide(self, low: float, high: float, n: int) -> Starts:
        n_values = round((high - low) / self.step) + 1
        if n_values <= 2 * n:  # as many as round ones and gaps
            return self.alone(low + np.arange(float(n_values)) * self.step)
        return self.alone(self.round_values(low, high, n))

    def edges(self, starts: Starts) -> tuple[float, ...]:
        between = self.ends[0] + (starts[1:] - 0.5) * self.step
        return (self.ends[0], *between.tolist(), self.ends[1])


class _Calendar(_Grid):
    """The same of dates: round values are where days, months, years or decades begin."""

    def __init__(self, column: Date, thresholds: Sequence[float]):
        super().__init__(column, thresholds)
        calendars = [column.calendar(unit) for unit in column.calendar_units]
        self._begun = [edges[:-1] + 0.5 for _, edges in calendars]
        self._begun.append(self._begun[-1][[year[-1] == "0" for year in calendars[-1][0]]])

    def round_values(self, low: float, high: float, n: int) -> Floats:
        found = [begun[(low <= begun) & (begun <= high)] for begun in self._begun]
        some = next((begun for begun in found if 0 < len(begun) <= 2 * n), None)
        return super().round_values(low, high, n) if some is None else some


def _round_unit(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... times a power of ten that is as large."""
    power = math.floor(math.log10(least))
    units = (_decimal(d, k) for k in (power, power + 1) for d in (1, 2, 5))
    return next(unit for unit in units if unit >= least)


def _decimal(digits: int, power: int) -> float:
    """Return a decimal number as it is written."""
    return float(f"{digits}e{power}")


def _multiples(unit: float, low: float, high: float) -> Floats:
    """Return the multiples of a round unit from one number to another, as they are written."""
    first, last = math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9)
    exact = Decimal(repr(unit))
    found = np.array([float(k * exact) for k in range(first, last + 1)])
    return found[(low <= found) & (found <= high)]


def _round_values(low: float, high: float, step: float) -> list[float]:
    """Return zero and 1, 2, 3, 5, 10, 20, ..., inside a range, either sign."""
    top = math.floor(math.log10(max(-low, high)))
    sizes = [_decimal(d, k) for k in range(top - _DECADES, top + 1) for d in _SINGLES]
    found = [0.0, *(sign * size for size in sizes if size >= step for sign in (1, -1))]
    return [v for v in found if low <= v <= high]
