"""Rows whose columns a question may take by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features import Columns


class NamedRows(np.ndarray):
    """An array of rows that takes ``rows["age"]`` besides ``rows[:, 0]``.

    Whatever else is taken of it is an ordinary array: a part of the rows, or other columns, would
    give a name to the wrong place.
    """

    columns: Columns | None = None

    @classmethod
    def of(cls, rows: NDArray, columns: Columns) -> NamedRows:
        """Return a view of `rows`, shape (n, d), with the names of `columns`."""
        named = rows.view(cls)
        named.columns = columns
        return named

    def __getattr__(self, name: str) -> Any:  # asked for what an array does not have
        names = (self.columns and self.columns.names) or ()
        instead = f" Take the column as rows[{name!r}]." if name in names else ""
        raise AttributeError(f"The rows of a question are an array, without {name!r}.{instead}")

    def __getitem__(self, key: Any) -> Any:
        rows = self.view(np.ndarray)
        if isinstance(key, list | tuple) and any(isinstance(name, str) for name in key):
            raise IndexError(
                "A question takes one column at a time by its name: rows['a'], rows['b'] (or "
                "np.column_stack of them), not rows[['a', 'b']]."
            )
        if not isinstance(key, str):
            return rows[key]
        if self.columns is None:
            raise ValueError(f"Take column {key!r} from the rows as they were given.")
        j = self.columns.index(key, "A question")
        # Where some columns are categories, an array of numbers is an array of objects.
        return rows[:, j] if self.columns.values(j) else rows[:, j].astype(np.float64, copy=False)
