"""Rows of the model and of plausible tables, as questions see them, and statistics of them.

Questions see columns by their names. Statistics are of all tables at once, and of groups of rows,
by axes: the categories of a column, or bins of its numbers.

Weights have shape (1 + B, n), for the model and for each plausible table; they may be negative.
Values and codes have that shape, or (1, n) where all tables have the same rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import combinations_with_replacement
from typing import Any, Self, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray

from ..._computing import TINY, Codes, Floats
from ..._linear_systems import Design, of_tables
from ...schema._columns import Categorical, Date, read_cells
from ...schema._reading import date_of_word, is_missing
from ...schema._schema import TableSchema, stack_columns
from ...sketches._rounding import RAKING_SWEEPS, calibrated, counts_in, raked
from .._numbers import N_TABLES, ROUNDING
from ..inferring._points import absent
from ..inferring._table_model import TableModel

_NO_SERIES = (
    "The columns of a question are NumPy arrays, not Series of pandas. Of the methods of a Series "
    "they have isin, between and isna: rows['job'].isin(['nurse', 'clerk'])."
)
_JOIN = (
    "Join conditions with & (and), | (or) and ~ (not), each in brackets: (rows['age'] > 40) & "
    "(rows['job'] == 'nurse')."
)
# What NumPy and Python say where `and` joins arrays, or `&` binds closer than a comparison.
_OF_JOINING = re.compile(r"truth value of an array|'(bitwise_|invert)|for [&|]:")


class AskedColumn(np.ndarray):
    """A column of rows that are asked: an array that also tells which values are among others.

    As in pandas, a missing value is between no two others, and is in a list that holds one.

    Attributes
    ----------
    unlisted : callable or None
        Takes a value and says whether the release read it as "other"; None where it read none so.
    """

    unlisted: Callable[[Any], bool] | None = None
    __hash__ = None  # as of any array

    def __eq__(self, other: Any) -> Any:
        self._require_listed([other])
        return super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        self._require_listed([other])
        return super().__ne__(other)

    def _require_listed(self, values: Iterable[Any]) -> None:
        """Raise ValueError for a category that became "other", of which 0 would be no answer."""
        unlisted = self.unlisted
        if unlisted is None:
            return
        for value in values:
            if np.ndim(value) == 0 and not is_missing(value) and unlisted(value):
                raise ValueError(
                    f"The release cannot tell {value!r} from other values: the schema does not "
                    'list it, so it was read as "other". Ask for "other", or for categories that '
                    "are listed. To ask for it, list it, and release once more."
                )

    def _like(self, value: Any) -> Any:
        """Return a value that this column's compare with."""
        return value

    def isin(self, values: Iterable[Any]) -> NDArray[np.bool_]:
        """Return which values are in a list."""
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TypeError(f"isin takes a list of values, such as [{values!r}]; got {values!r}.")
        listed = [self._like(value) for value in values]
        self._require_listed(listed)
        try:
            wanted = {value for value in listed if not is_missing(value)}
        except TypeError:
            raise TypeError("isin takes a list of values, not of lists of them.") from None
        cells = list(self) if self.dtype.kind == "M" else self.tolist()
        found = np.array([value in wanted for value in cells], np.bool_)
        return found | self.isna() if any(map(is_missing, listed)) else found

    def between(self, left: Any, right: Any) -> NDArray[np.bool_]:
        """Return which values lie between two others, both included."""
        present = ~self.isna()
        values, found = np.asarray(self)[present], np.zeros(self.shape, np.bool_)
        try:
            found[present] = (values >= self._like(left)) & (values <= self._like(right))
        except TypeError:  # numpy's, or that of a cell
            raise TypeError(
                "between takes two numbers for a column of numbers, and two words for a column of "
                f"words; got {left!r} and {right!r}. For a column with both, take isin."
            ) from None
        return found

    def isna(self) -> NDArray[np.bool_]:
        """Return which values are missing."""
        values = np.asarray(self, object)  # of which None and NaN stand for no value
        return np.asarray((values == np.array(None)) | (values != values), np.bool_)


class AskedDates(AskedColumn):
    """A column of dates, which compare with dates of Python and pandas, and with ISO words."""

    def _like(self, value: Any) -> Any:
        value = date_of_word(value) if isinstance(value, str) else value
        return np.datetime64(value) if isinstance(value, date) else value

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if "out" in kwargs:
            kwargs["out"] = tuple(map(np.asarray, kwargs["out"]))
        plain = [np.asarray(i) if isinstance(i, np.ndarray) else self._like(i) for i in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)


class NamedRows(NDArrayOperatorsMixin):
    """Rows that are asked: ``rows["age"]`` or ``rows[:, 0]``; as an array, all of them.

    A column is made when it is taken, so that those that nobody asks for cost nothing, and
    ``taken`` tells which those are. What is taken is an array of its own, and a single column an
    `AskedColumn`: columns of numbers are floats, and a table of numbers and categories is an array
    of objects. A missing number is NaN, a missing category None (NaN among numbers).

    Parameters
    ----------
    columns : TableSchema
    n_rows : int
    make : callable
        Takes the number of a column and returns it, shape (n_rows,).
    """

    ndim = 2

    def __init__(self, columns: TableSchema, n_rows: int, make: Callable[[int], NDArray]):
        self.shape = (n_rows, columns.n_columns)
        self.taken: set[int] = set()
        self.columns, self.make = columns, make

    @classmethod
    def of(cls, rows: NDArray, columns: TableSchema) -> NamedRows:
        """Return `rows`, shape (n, d), with the names of `columns`."""
        return cls(columns, len(rows), lambda j: column_of(rows, columns, j))

    def part(self, which: slice) -> NamedRows:
        """Return some of the rows."""
        return NamedRows(self.columns, len(range(len(self))[which]), lambda j: self.make(j)[which])

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._stacked(np.arange(self.shape[1])), dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [np.asarray(i) if isinstance(i, NamedRows) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __getattr__(self, name: str) -> Any:  # asked for what this class does not have
        if not name.startswith("__") and hasattr(np.ndarray, name):
            return getattr(np.asarray(self), name)
        names = self.columns.names or ()
        instead = f" Take the column as rows[{name!r}]." if name in names else ""
        raise AttributeError(f"The rows of a question are an array and have no {name!r}.{instead}")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(self.columns.index(key, "A question"))
        if isinstance(key, list | tuple) and any(isinstance(name, str) for name in key):
            raise IndexError(
                "A question takes one column at a time by its name: rows['a'], rows['b'] (or "
                "np.column_stack of them), not rows[['a', 'b']]."
            )
        which = self._whole_columns(key)
        if which is None:
            return np.asarray(self)[key]
        return self._stacked(which) if which.ndim else self._column(int(which))

    def absent(self) -> NDArray[np.bool_]:
        """Return which rows lack a value in some column that was taken."""
        found = np.zeros(len(self), np.bool_)
        for j in filter(self.columns.missing, self.taken):
            found |= absent(self.columns, self.make(j), j)
        return found

    def _whole_columns(self, key: Any) -> NDArray | None:
        """Return the columns that ``rows[:, ...]`` takes, None if it takes anything else."""
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], slice)):
            return None
        if key[0] != slice(None) or isinstance(key[1], tuple):
            return None
        which = np.arange(self.shape[1])[key[1]]
        return which if which.ndim < 2 else None

    def _column(self, j: int) -> AskedColumn:
        self.taken.add(j)
        cells, known = self._cells(j), self.columns.columns[j]
        found = cells.view(AskedDates if cells.dtype.kind == "M" else AskedColumn)
        if getattr(known, "other", False):
            found.unlisted = lambda value: value not in known.categories
        return found

    def _cells(self, j: int) -> NDArray:
        """Return a column as it came in, in an array of its own."""
        column, made = self.columns.columns[j], self.make(j)
        return column.decode(made) if isinstance(column, Date) else made.copy()

    def _stacked(self, which: NDArray) -> NDArray:
        if not len(which):
            return np.empty((len(self), 0))
        self.taken.update(which.tolist())
        return stack_columns([self._cells(j) for j in which.tolist()])


def column_of(rows: NDArray, columns: TableSchema, j: int) -> NDArray:
    """Return a column of rows, shape (n,): of floats, unless it is of categories."""
    return rows[:, j] if columns.values(j) else rows[:, j].astype(np.float64)


def evaluate_rows(function: Callable[[Any], ArrayLike], rows: NamedRows) -> NDArray:
    """Return f(rows), of shape (n,) or (n, k).

    It may be NaN where a cell is missing that f takes, and nowhere else.
    """
    try:
        found = np.asarray(function(rows))
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(getattr(error, "obj", None), np.ndarray):
            error.add_note(_NO_SERIES)
        if _OF_JOINING.search(str(error)):
            error.add_note(_JOIN)
        raise
    values = found.astype(np.float64)
    if values.shape[:1] != (len(rows),) or values.ndim > 2 or not values.size:
        raise ValueError(
            f"f must be vectorised: for rows of shape {rows.shape} it must return an array of "
            f"shape ({len(rows)},) or ({len(rows)}, k), got {values.shape}."
        )
    if not np.all(np.isfinite(values[~rows.absent()])) or np.any(np.isinf(values)):
        raise ValueError(
            "f must return finite numbers, and NaN only where a cell that it reads is missing. "
            "For a mean over some rows, let f be 0 for the others, and divide its mean by the "
            "share of these rows."
        )
    return found


def check_each_row(function: Callable[[Any], ArrayLike], rows: NamedRows) -> NDArray:
    """Return f(rows), or raise ValueError where a row's value hangs on which others there are."""
    found, n = evaluate_rows(function, rows), len(rows)
    values = found.astype(np.float64).reshape(n, -1)
    size = np.max(np.abs(values), axis=0, where=np.isfinite(values), initial=0.0)
    one_by_one = [slice(k, k + 1) for k in range(min(n, 8))]
    for part in (slice(0, (n + 1) // 2), *one_by_one):
        expected, of_part = values[part], values_at(function, rows.part(part))
        is_same = of_part.shape == expected.shape and np.all(
            (np.abs(of_part - expected) <= 1e-6 * size) | np.isnan(expected)
        )
        if not is_same:
            raise ValueError(
                "f must be a function of each row alone, and what this one returns for a row "
                "changes with the other rows, as a mean, a median or a rank over the rows does. "
                "Ask for that number first, such as float(m2m.mean('age')), and use it in f."
            )
    return found


def values_at(function: Callable[[Any], ArrayLike], rows: NamedRows) -> NDArray[np.float64]:
    """Return the function's values at rows, shape (n, k), where it may have none: log(0)."""
    with np.errstate(all="ignore"):
        found = np.asarray(function(rows), dtype=np.float64)
    return found.reshape(len(rows), -1)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a few columns in the model and in each plausible table.

    Parameters
    ----------
    schema : TableSchema
    columns : mapping of int to ndarray of shape (n,) or (1 + B, n)
        Values of each column: alike in all tables, or of each.
    weights : ndarray of shape (1 + B, n)
        How many rows of the table each stands for: signed, as unbiased counts are.
    others : callable
        Takes a column that is not among these, and a number, and returns some values of it: what
        a function takes and does not depend on.
    n_rows : float, default=None
        What weights are shares of, where they do not sum to it. None, where they do.
    raked : callable, default=None
        Takes some tables, and returns weights of their rows that are not negative and have the
        tables' counts. None, where signed weights are clipped.
    as_modelled : ndarray of shape (n,), default=None
        Mean weights of plausible tables, of rows where the model has them. None takes the mean.
    places : sequence of ndarray of int, shape (n,), default=()
        The cell of each row in tables of counts that rows without negative weights are to keep:
        those of single columns first.
    n_margins : int, default=0
        How many of them are met last: those of single columns, whose counts have less noise than
        sums have. Of a part of the rows they have as much, and none is.
    atoms : mapping of int to ndarray of int, shape (n,), default={}
        Codes of columns of categories, where they are known.
    codes : ndarray of int, shape (1 or 1 + B, n), default=0
        The group of each row, -1 for rows of none. By default all are in one group.
    n_groups : int, default=1
    """

    schema: TableSchema
    columns: Mapping[int, NDArray]
    weights: Floats
    others: Callable[[int, int], NDArray]
    n_rows: float | None = None
    raked: Callable[[slice], Floats] | None = None
    as_modelled: Floats | None = None
    places: Sequence[Codes] = ()
    n_margins: int = 0
    atoms: Mapping[int, Codes] = field(default_factory=dict)
    codes: Codes = field(default_factory=lambda: np.zeros((1, 1), np.int64))
    n_groups: int = 1

    @property
    def n(self) -> int:
        """Number of rows of each table."""
        return self.weights.shape[1]

    @property
    def size(self) -> int:
        """How many numbers it holds: what is raked keeps weights of its own."""
        n_weights = self.weights.size * (1 + (self.raked is not None))
        return n_weights + sum(values.size for values in self.columns.values())

    def column(self, j: int) -> NDArray:
        """Return a column, shape (1 or 1 + B, n)."""
        return np.atleast_2d(self.columns[j])

    def numbers(self, j: int) -> Floats:
        """Return a column of numbers, shape (1 or 1 + B, n)."""
        return self.column(j).astype(np.float64, copy=False)

    def absent(self, j: int) -> NDArray[np.bool_]:
        """Return which rows lack a value of a column, shape (1 or 1 + B, n)."""
        values = self.column(j)
        return absent(self.schema, values.ravel(), j).reshape(values.shape)

    def ask(self, function: Callable[[NamedRows], Floats]) -> Floats:
        """Return a function of rows at all rows, shape (1 or 1 + B, n, k)."""
        shared = all(values.size == self.n for values in self.columns.values())
        shape = (1 if shared else len(self.weights), self.n)

        def column(j: int) -> NDArray:
            if j in self.columns:
                return np.broadcast_to(self.columns[j], shape).reshape(-1)
            # The function does not depend on this column, so a few values are repeated.
            return np.resize(self.others(j, 256), shape).reshape(-1)

        found = function(NamedRows(self.schema, shape[0] * shape[1], column))
        return found.reshape(*shape, -1)

    def first(self, n_tables: int) -> Rows:
        """Return the rows of the first tables, of which the model is one."""
        own = {j: v if v.ndim == 1 else v[:n_tables] for j, v in self.columns.items()}
        return replace(self, columns=own, weights=self.weights[:n_tables])

    def where(self, truths: NDArray, n_margins: int = 0) -> Self:
        """Return the same rows with weights times `truths`, shape (1 or 1 + B, n)."""
        raked, truths = cast(Any, self.raked), np.nan_to_num(truths)

        def met(block: slice) -> Floats:
            return raked(block) * (truths if len(truths) == 1 else truths[block])

        found = replace(self, weights=self.weights * truths, n_rows=None, n_margins=n_margins)
        return replace(found, raked=raked and met, as_modelled=self.mean_weights() * truths[0])

    def mean_weights(self) -> Floats:
        """Return mean weights of plausible tables, of rows where the model has them."""
        tables = self.weights[min(1, len(self.weights) - 1) :]
        return np.mean(tables, axis=0) if self.as_modelled is None else self.as_modelled

    # ---- statistics of groups of them

    def grouped(self, axes: Sequence[Axis]) -> Self:
        """Return the same rows, grouped by all axes together."""
        codes = np.zeros((1, self.n), np.int64)
        for axis in axes:
            values = self.column(axis.column)
            own = axis.codes(values.ravel(), self.atoms.get(axis.column)).reshape(values.shape)
            codes = np.where((codes < 0) | (own < 0), -1, codes * len(axis) + own)
        return replace(self, codes=codes, n_groups=math.prod(map(len, axes)))

    def sums(self, values: NDArray | float = 1.0) -> Floats:
        """Return the sums of weights times values in each group, shape (n_tables, n_groups)."""
        if self.n_groups == 1 and np.all(self.codes == 0):
            return np.sum(self.weights * values, axis=1, keepdims=True)
        weighted = self.weights * values
        place = np.where(self.codes < 0, self.n_groups, self.codes)
        each = zip(np.broadcast_to(place, weighted.shape), weighted, strict=True)
        return np.stack([np.bincount(*one, self.n_groups + 1)[:-1] for one in each])

    def of_present(self, values: Floats) -> Self:
        """Return the same rows, of which those without a value are in no group."""
        gone = np.isnan(values)
        return replace(self, codes=np.where(gone, -1, self.codes)) if gone.any() else self

    def mean(self, values: Floats, low: float, high: float) -> Floats:
        """Return the means of those values that are present in each group.

        Values lie between `low` and `high`.
        """
        present = self.of_present(values)
        sums = present.sums(np.where(np.isnan(values), 0.0, values))
        if self.n_rows is not None and self.n_groups == 1 and np.all(present.codes == 0):
            return sums / self.n_rows
        return ratio(sums, present.sums(), low, high)

    def quantiles(self, values: Floats, levels: Floats) -> Floats:
        """Return the smallest values whose share of the group's rows reaches each level.

        Returns
        -------
        ndarray of shape (n_tables, n_groups, n_levels)
            NaN in a group of nobody.
        """
        # The lowest value is where the first rows are, not where there are none yet.
        levels = np.maximum(levels, ROUNDING)
        codes, values = np.broadcast_arrays(self.of_present(values).codes, values)
        order = np.lexsort((values, codes))  # the rows of a group follow one another
        codes, values = (np.take_along_axis(one, order, axis=1) for one in (codes, values))
        weights = np.take_along_axis(self.weights, np.broadcast_to(order, self.weights.shape), 1)
        found = np.full((len(weights), self.n_groups, len(levels)), np.nan)
        for k, (own, at) in enumerate(zip(codes, values, strict=True)):
            tables = np.arange(k, len(weights), len(codes))  # all, where rows are alike in these
            ends = np.searchsorted(own, np.arange(self.n_groups + 1))
            for g in np.flatnonzero(np.diff(ends)).tolist():
                rows = slice(ends[g], ends[g + 1])
                curves = np.maximum.accumulate(np.cumsum(weights[tables, rows], axis=1), axis=1)
                for t, curve in zip(tables, curves, strict=True):
                    if curve[-1] > 0:
                        place = np.searchsorted(curve, levels * curve[-1] * (1 - ROUNDING))
                        found[t, g] = at[rows][np.minimum(place, len(curve) - 1)]
        return found


@dataclass(frozen=True)
class Axis:
    """The categories of a column, or bins of its numbers.

    Parameters
    ----------
    schema : TableSchema
    column : int
    labels : tuple of str
    edges : ndarray or None
        Of the bins, the last one closed; None for categories.
    """

    schema: TableSchema
    column: int
    labels: tuple[str, ...]
    edges: Floats | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.schema.name(self.column)

    def codes(self, values: NDArray, read: Codes | None = None) -> Codes:
        """Return the place of each value on the axis, -1 where it has none.

        Codes of categories may be known.
        """
        if self.edges is None:
            column = self.schema.columns[self.column]
            codes = read_cells(column, values, self.name) if read is None else read
        else:
            numbers = values.astype(np.float64)
            codes = np.searchsorted(self.edges, numbers, side="right") - 1  # NaN is beyond the last
            codes[numbers == self.edges[-1]] = len(self) - 1
        return np.where(codes < len(self), codes, -1)


def binned_axis(schema: TableSchema, j: int, edges: Floats) -> Axis:
    """Return an axis of bins; edges are values, each the first of its bin but the last."""
    ends, told = ")" * (len(edges) - 2) + "]", list(map(schema.columns[j].label, edges))
    labels = [f"[{a}, {b}{end}" for a, b, end in zip(told[:-1], told[1:], ends, strict=True)]
    return Axis(schema, j, tuple(labels), np.asarray(edges, dtype=np.float64))


def model_axis(model: TableModel, j: int) -> Axis:
    """Return the axis of the cells of the model."""
    schema, column = model.schema, model.cells[j]
    assert column.edges is not None  # of numbers
    n = column.n_present
    first = np.flatnonzero(np.diff(column.cell_of_atom[:n], prepend=-1))
    edges = np.append(column.edges[first], column.edges[-1])
    step = schema.step(j)
    if step is None:
        return binned_axis(schema, j, edges)
    low, high = schema.on_grid(edges[:-1] + step / 2, j), schema.on_grid(edges[1:] - step / 2, j)
    bins = binned_axis(schema, j, np.append(low, high[-1])).labels
    told = map(schema.columns[j].label, low)
    labels = [t if a == b else bin for t, a, b, bin in zip(told, low, high, bins, strict=True)]
    return Axis(schema, j, tuple(labels), edges)


def ratio(above: Floats, below: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Return means; of a table that shows nobody it is either end, in turn.

    Of the model, the first of the tables, it is then NaN.
    """
    there = below > ROUNDING
    found = np.divide(above, below, out=np.zeros_like(above), where=there)
    turn = np.arange(len(above)).reshape(-1, *[1] * (above.ndim - 1))
    ends = np.where(turn % 2 == 1, low, high)
    return np.where(there, found, np.where(turn == 0, np.nan, ends))


def covariance(weights: Floats, x: Floats, y: Floats) -> Floats:
    """Return the covariances of two columns, in rows that have both, shape (n_tables,)."""
    both = ~(np.isnan(x) | np.isnan(y))
    weights = np.where(both, weights, 0.0)
    total = weights.sum(axis=1)
    total = np.where(total > ROUNDING, total, np.nan)

    def average(values: Floats) -> Floats:
        return np.einsum("bn,bn->b", weights, np.broadcast_to(values, weights.shape)) / total

    x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
    # Columns are taken from the model's means, so that second moments lose no digits.
    centre_x, centre_y = average(x)[0], average(y)[0]
    off_x, off_y = x - centre_x, y - centre_y
    return average(off_x * off_y) - average(off_x) * average(off_y)


def nearest_possible(covariance: Floats, spans: Floats, noise: Floats) -> Floats:
    """Return a positive semi-definite matrix near by, with the same variances.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        NaN where nobody has both columns; there it stays NaN.
    spans : ndarray of shape (d,)
        Widths of the columns' ranges.
    noise : ndarray of shape (d,)
        Standard errors of the variances. A column that hardly anybody has is noise: it gives way
        before others do.
    """
    units = spans.copy()
    if noise.any():
        relative = noise / spans**2
        # A column without noise counts as known a million times better than the worst one.
        units = units * np.maximum(relative, 1e-6 * relative.max())
    units, unknown = np.outer(units, units), np.isnan(covariance)
    covariance = np.where(unknown, 0.0, covariance)
    values, vectors = np.linalg.eigh(covariance / units)
    closest = (vectors * np.maximum(values, 0.0)) @ vectors.T * units
    # The closest matrix has larger variances; a smaller one of both sides keeps it possible.
    variances = np.clip(np.diagonal(covariance), 0.0, spans**2 / 4)
    # But for rounding it is at most 1.
    scale = np.minimum(np.sqrt(variances / np.maximum(np.diagonal(closest), TINY)), 1.0)
    return np.where(unknown, np.nan, closest * np.outer(scale, scale))


def correlations(covariance: Floats) -> Floats:
    """Return the correlations for covariance matrices, shape (..., d, d)."""
    # Noise may leave a column no variance, and then no correlation with others either.
    spread = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), TINY))
    with np.errstate(over="ignore"):
        found = covariance / (spread[..., None] * spread[..., None, :])
    # A column's correlation with itself has no noise, not even where its variance drowned.
    k = np.arange(found.shape[-1])
    found[..., k, k] = 1.0
    return np.clip(found, -1.0, 1.0)


# ---- tables without negative weights, for functions that need them


def positive_weights(
    rows: Rows, columns: Sequence[int], n_tables: int = 1 + N_TABLES, *, centred: bool = False
) -> Iterator[Floats]:
    """Yield weights of the first tables that are not negative, those of the model first.

    A plausible table has negative weights, where noise took more rows from a cell than there are.
    Clipped, they would leave too many rows in long tails, and columns that hardly go together. So
    rows are raked to the table's counts, made possible. Then weights are tilted, ``w exp(lambda
    g)``, until the number of rows, of each category and of missing values, and the means, variances
    and covariances of numbers, are what the signed table has (calibration [1]_), and raked to the
    counts of single columns last. Sums that no table has with these counts would move the body of a
    long tail: so they move rows inside cells alone. Only in a part of the rows, where counts of
    single columns have as much noise as sums, sums come last.

    A sum may miss by a B-th part of its standard deviation over B tables, which is about how far
    apart these have it: such a miss costs as much as a standard error does.

    Plausible tables have long tails where bins let rows be anywhere. If they are `centred`, all
    sums are moved by what the mean over all tables is off from that with rows where the model has
    them, so that tables have on average the moments that the release tells.

    Of more numbers than k^2 / 2 = sqrt(n), n rows, products are left out: so many sums are well
    told by a tilt [2]_.

    References
    ----------
    .. [1] Deville and Särndal (1992), "Calibration estimators in survey sampling".
    .. [2] Portnoy (1988), "Asymptotic behavior of likelihood methods for exponential families when
       the number of parameters tends to infinity": p^2 / n is to be small.
    """
    numbers = [j for j in columns if not isinstance(rows.schema.columns[j], Categorical)]
    few, margins = len(numbers) ** 4 <= 4 * rows.n, rows.places[: rows.n_margins]
    own, tables = np.maximum(rows.weights[0], 0.0), designs(rows, columns, few)
    sums = np.concatenate([f.sums(rows.weights[block]) for block, f in tables])
    cost, shift = np.var(sums, axis=0) / N_TABLES**2, 0.0
    if centred:
        ((_, of_model),) = designs(rows.first(1), columns, few)
        shift = of_model.sums(rows.mean_weights()[None])[0] - sums.mean(axis=0)
    yield own
    for block, functions in designs(rows.first(n_tables), columns, few):
        signed = rows.weights[block]
        # A row that is not in a table, as it does not meet a condition there, weighs 0.
        least = np.where(signed == 0, 0.0, ROUNDING * own)
        # No function is negative, nor is its sum.
        goal = np.maximum(functions.sums(signed) + shift, functions.sums(least))
        found = np.maximum(signed if rows.raked is None else rows.raked(block), least)
        counts = [counts_in(found, place) for place in margins]
        for _ in range(RAKING_SWEEPS):
            found = raked(calibrated(found, goal, functions, cost), margins, counts)
        yield from found


def designs(
    rows: Rows, columns: Sequence[int], products: bool = False, kept: Any = slice(None)
) -> Iterator[tuple[slice, Design]]:
    """Yield some tables, and their columns as numbers: 1, those in their ranges, and indicators.

    Indicators are of all but one category, and of missing numbers, which count as the lowest. So
    few tables are yielded at once that they stay in the processor's cache: first come plausible
    tables, or the model where there are none.

    Parameters
    ----------
    rows : Rows
    columns : sequence of int
    products : bool, default=False
        Whether there are products of two numbers, too.
    kept : slice, or ndarray of bool of shape (n,), default=slice(None)
        The rows that count.
    """
    size, held, numbers = 1, [], dict[int, Any]()
    for j in columns:
        column, own = rows.schema.columns[j], rows.column(j)[:, kept]
        if isinstance(column, Categorical):
            codes = rows.atoms[j][kept] if j in rows.atoms else column.read(own[0])
            n = column.n_codes - 1
        else:
            numbers[size], size = (own, *column.bounds), size + 1
            codes, n = np.isnan(own[0]), int(column.missing)
        if n:
            held.append(np.where(codes > 0, size - 1 + codes, -1))
        size += n
    pairs = [*combinations_with_replacement(range(len(numbers)), 2)] if products else []
    places, held = [*numbers, *range(size, size + len(pairs))], [np.zeros_like(own[0], int), *held]
    whole = Design(np.array(held), places, size + len(pairs))
    step, n_tables = whole.n_at_once, len(rows.weights)
    for k in range(min(1, n_tables - 1), n_tables, step):
        some = slice(k, min(k + step, n_tables))
        each = ((of_tables(own, some) - low) / (high - low) for own, low, high in numbers.values())
        scaled = [*map(np.nan_to_num, each)]
        yield some, whole.with_numbers([*scaled, *(scaled[a] * scaled[b] for a, b in pairs)])
