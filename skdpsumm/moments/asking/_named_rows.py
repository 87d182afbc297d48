"""Rows whose columns a question may take by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from ...schema._columns import Columns, stack_columns


class NamedRows(NDArrayOperatorsMixin):
    """Rows that are asked: ``rows["age"]`` or ``rows[:, 0]``; as an array, all of them.

    A column is made when it is taken, so that those that nobody asks for cost nothing, and
    ``taken`` tells which those are. What is taken is an ordinary array of its own: columns of
    numbers are floats, and a table of numbers and categories is an array of objects.

    Parameters
    ----------
    columns : Columns
    n_rows : int
    make : callable
        Takes the number of a column and returns it, shape (n_rows,).
    """

    ndim = 2

    def __init__(self, columns: Columns, n_rows: int, make: Callable[[int], NDArray]):
        self.shape = (n_rows, columns.n_columns)
        self.taken: set[int] = set()
        self._columns, self._make = columns, make

    @classmethod
    def of(cls, rows: NDArray, columns: Columns) -> NamedRows:
        """Return `rows`, shape (n, d), with the names of `columns`."""
        return cls(columns, len(rows), lambda j: column_of(rows, columns, j))

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
        names = self._columns.names or ()
        instead = f" Take the column as rows[{name!r}]." if name in names else ""
        raise AttributeError(f"The rows of a question are an array, without {name!r}.{instead}")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(self._columns.index(key, "A question"))
        if isinstance(key, list | tuple) and any(isinstance(name, str) for name in key):
            raise IndexError(
                "A question takes one column at a time by its name: rows['a'], rows['b'] (or "
                "np.column_stack of them), not rows[['a', 'b']]."
            )
        which = self._whole_columns(key)
        if which is None:
            return np.asarray(self)[key]
        return self._stacked(which) if which.ndim else self._column(int(which))

    def _whole_columns(self, key: Any) -> NDArray | None:
        """Return the columns that ``rows[:, ...]`` takes, None if it takes anything else."""
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], slice)):
            return None
        if key[0] != slice(None) or not isinstance(key[1], Integral | slice | list | np.ndarray):
            return None
        of_none = isinstance(key[1], list) and not key[1]
        which = np.arange(self.shape[1])[slice(0) if of_none else key[1]]
        return which if which.ndim < 2 else None

    def _column(self, j: int) -> NDArray:
        self.taken.add(j)
        return self._make(j).copy()

    def _stacked(self, which: NDArray) -> NDArray:
        if not len(which):
            return np.empty((len(self), 0))
        self.taken.update(which.tolist())
        return stack_columns([self._make(j) for j in which.tolist()])


def column_of(rows: NDArray, columns: Columns, j: int) -> NDArray:
    """Return a column of rows, shape (n,): of floats, unless it is of categories."""
    return rows[:, j] if columns.values(j) else rows[:, j].astype(np.float64)
