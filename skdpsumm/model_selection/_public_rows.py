"""The table of a search as all candidates meet it, and public rows of the same form.

A row must not decide how another one is read: one that is missing makes floats of a column of
integers, a name makes objects of it. So every cell is read by itself, through the schema, and
written down in a type that the schema alone decides: float64, or objects for words. Without a
schema all cells are finite numbers, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schema._columns import Categorical, Date
from ..schema._schema import TableSchema, stack_columns, stratified


@dataclass(frozen=True)
class TableForm:
    """The names of a table, and the schema through which it is read.

    Parameters
    ----------
    like : array or frame of shape (0, d)
        The user's table, without its rows.
    schema : TableSchema or None
        The schema of the columns that are read, as `TableSchema.for_table` returns it.
    positions : list of int
        Where these columns stand in the table.
    """

    like: Any
    schema: TableSchema | None
    positions: list[int]

    @classmethod
    def of(cls, like: Any, schema: TableSchema | None, names: list[str] | None) -> TableForm:
        """Return the form of a table without rows.

        Raises
        ------
        ValueError
            For a schema of another table.
        """
        d = like.shape[1]
        if schema is None:
            return cls(like, None, list(range(d)))
        return cls(like, schema.for_table(d, names), schema.positions(d, names))

    def read(self, cells: Any) -> Any:
        """Return the table that holds what the schema reads of cells: a frame for a frame.

        Parameters
        ----------
        cells : ndarray or Table
            The columns of `positions`, as `validate_table` returns them.

        Raises
        ------
        ValueError
            For a cell that the schema does not take. The message tells no value.
        """
        if self.schema is None:
            return self._table(list(np.asarray(cells, np.float64).T))
        every = range(self.schema.n_columns)
        return self._table([self.schema.decode(j, self.schema.read(cells, j)) for j in every])

    def public_rows(self, n_least: int) -> Any:
        """Return public rows that fill ranges, or [0, 1] without one, and lists evenly."""
        columns = None if self.schema is None else self.schema.columns
        n_codes = [c.n_codes for c in columns or () if isinstance(c, Categorical)]
        # Candidates are tried on 20 public rows at least, and on each category twice.
        m = max(20, n_least, 2 * max(n_codes, default=0))
        rng = np.random.RandomState(0)
        drawn = [stratified(m, rng) for _ in self.positions]
        if columns is None:
            return self._table(drawn)
        bounded = [isinstance(c, Categorical) or c.bounds is not None for c in columns]
        drawn = [c.sample(u) if ok else u for c, u, ok in zip(columns, drawn, bounded, strict=True)]
        pairs = zip(columns, drawn, strict=True)
        return self._table([c.decode(d) if isinstance(c, Date) else d for c, d in pairs])

    def _table(self, columns: list[NDArray]) -> Any:
        """Return a table of these columns, and zeros for those that the schema leaves out."""
        parts = [np.zeros(len(columns[0]))] * self.like.shape[1]
        for place, column in zip(self.positions, columns, strict=True):
            parts[place] = column
        if not hasattr(self.like, "columns"):
            return stack_columns(parts)
        named = list(zip(self.like.columns, parts, strict=True))
        if hasattr(self.like, "iloc"):  # pandas would make strings of objects, and lose None
            series = type(self.like.iloc[:, 0])
            kept = {name: None if p.dtype.kind == "M" else p.dtype for name, p in named}
            return type(self.like)({n: series(p, dtype=kept[n]) for n, p in named})
        return type(self.like)({n: p.tolist() if p.dtype == object else p for n, p in named})


@dataclass(frozen=True)
class PublicRows:
    """Rows that learn nothing from the private ones.

    Attributes
    ----------
    X : array or frame of shape (m, d)
    y : ndarray of shape (m,)
    X_public : array-like or None
        What the user gave for `fit`.
    groups : ndarray or None
        Whose each row is, where groups are protected: each of another one.
    """

    X: Any
    y: NDArray
    X_public: Any = None
    groups: Any = None

    @property
    def points(self) -> dict[str, Any]:
        """The public points, as a parameter of `fit`."""
        return {} if self.X_public is None else {"X_public": self.X_public}

    @classmethod
    def like(
        cls, form: TableForm, classes: Any, X_public: Any, *, grouped: bool = False
    ) -> PublicRows:
        """Return rows that fill what is known of the columns, with labels of all classes."""
        X = form.public_rows(0 if classes is None else 3 * len(classes))
        m = len(X)
        y = np.random.default_rng(2).random(m) if classes is None else np.resize(classes, m)
        return cls(X, y, X_public, np.arange(m) if grouped else None)

    def through(self, step: Any) -> PublicRows:
        """Return what a fitted step makes of them."""
        points = None if self.X_public is None else step.transform(self.X_public)
        return PublicRows(step.transform(self.X), self.y, points, self.groups)
