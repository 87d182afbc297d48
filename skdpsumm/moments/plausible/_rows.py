"""Rows of the model and of plausible tables; and as questions see them, by names of columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray

from ..._computing import Floats
from ...schema._columns import Date
from ...schema._reading import date_of_word, is_missing
from ...schema._schema import TableSchema, stack_columns
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


def possible_rows(rows: NamedRows, model: TableModel, columns: Sequence[int]) -> NDArray[np.bool_]:
    """Return which rows the schema allows: those in no combination that it rules out."""
    possible = np.ones(len(rows), bool)
    for combination in model.schema.impossible:
        if {j for j, _ in combination} <= set(columns):
            held = [
                _holds(model, j, taken, rows.make(j).view(AskedColumn)) for j, taken in combination
            ]
            possible &= ~np.all(held, axis=0)
    return possible


def _holds(model: TableModel, j: int, taken: Any, values: AskedColumn) -> NDArray[np.bool_]:
    """Return where a column has what a combination takes of it."""
    if model.cells[j].edges is not None:
        return values.between(*taken)
    return values.isin(model.schema.decode(j, np.asarray(taken)).tolist())


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
    """

    schema: TableSchema
    columns: Mapping[int, NDArray]
    weights: Floats
    others: Callable[[int, int], NDArray]
    n_rows: float | None = None

    @property
    def n(self) -> int:
        """Number of rows of each table."""
        return self.weights.shape[1]

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.weights.size + sum(values.size for values in self.columns.values())

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
        shared = all(values.ndim == 1 for values in self.columns.values())
        shape = (1 if shared else len(self.weights), self.n)

        def column(j: int) -> NDArray:
            if j in self.columns:
                return np.broadcast_to(self.columns[j], shape).reshape(-1)
            # The function does not depend on this column, so a few values are repeated.
            return np.resize(self.others(j, 256), shape).reshape(-1)

        found = function(NamedRows(self.schema, shape[0] * shape[1], column))
        return found.reshape(*shape, -1)

    def of_model(self) -> Rows:
        """Return the rows of the model alone."""
        own = {j: values if values.ndim == 1 else values[0] for j, values in self.columns.items()}
        return replace(self, columns=own, weights=self.weights[:1])

    def where(self, truths: NDArray) -> Self:
        """Return the same rows with weights times `truths`, shape (1 or 1 + B, n)."""
        return replace(self, weights=self.weights * np.nan_to_num(truths), n_rows=None)
