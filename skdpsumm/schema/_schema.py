"""One public description of a table, which every estimator reads its rows through.

It is also written down here: in the header of a sketch, in a TOML file, and as a first draft.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, fields
from datetime import date
from functools import cached_property, reduce
from numbers import Integral, Number
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from .._bounded import MOST_CHARACTERS, check_nested, parse_toml, path_of_file
from .._html import MOST_ROWS_SHOWN, cut, html_table, more_of, some_of
from ._columns import (
    Categorical,
    Column,
    Date,
    Numeric,
    as_column,
    check_text,
    is_range,
    read_cells,
    short_number,
    told,
)
from ._reading import (
    AS_WORDS,
    TIME_TYPES,
    TIMES,
    TWO_NAMES,
    CellError,
    SparseRows,
    Table,
    check_some_rows,
    column_names,
    exact_dates,
    exact_numbers,
    finite_numbers,
    is_missing,
    listed_columns,
    plain_labels,
    read_table,
)

NO_SCHEMA = (
    "schema is missing: give the public description of the columns, such as schema=(0, 1) or "
    "{'age': (17, 90), 'job': ['clerk', 'farmer']}. Nothing is read off the data."
)
_ALL = "all_columns"
_EXTRA = "extra_columns"
_NEVER = "never"
# Combinations of values that no row has, each in the order of the columns: of numbers a closed
# range (low, high), of categories their codes. Missing cells are in none.
Combination: TypeAlias = tuple[tuple[int, tuple[Any, ...]], ...]
# Different words that a draft lists, at most: more are names or free text.
_MOST_GUESSED = 1000
# A file could list as many as it likes.
_MOST_COMBINATIONS = 4096
# Cells of the columns of a combination, at most: a model holds no more, and could not use it.
_MOST_CELLS_OF_COMBINATION = 2**16

# What makes entries of the cells that a column read.
Entries: TypeAlias = Callable[[Any, NDArray], NDArray[np.float64]]


def _encoded(column: Any, values: NDArray) -> NDArray[np.float64]:
    return column.encode(values)


@dataclass(frozen=True, init=False, repr=False)
class TableSchema:
    """What is public about the columns of a table.

    Write it once, and give it to every estimator as `schema`. Estimators then read tables cell by
    cell: they find columns by name, clip numbers to their range, and look up categories in their
    list. You cannot change a schema, but you can hash it. `sklearn.base.clone` keeps it.

    Names are words. A frame of pandas whose labels are 0, 1, ... in order has no names: its columns
    are known by position, as those of an array are. A frame with other labels, such as years or the
    tuples of a MultiIndex, is refused before anything is charged: make words of them.

    Parameters
    ----------
    columns : mapping, list, tuple of two numbers, Numeric, Date or Categorical
        Give a mapping from the name of each column to its entry, a list with an entry for each
        column of an array, or one entry for all columns. An entry is a `Numeric`, a `Date`, a
        `Categorical`, a tuple ``(low, high)`` for a range of numbers, or a list of categories.
    extra_columns : {"refuse", "drop"}, default="refuse"
        What to do with columns of a table that the schema does not name. The default refuses them,
        so that a misspelt or forgotten column is noticed.

    Attributes
    ----------
    names : tuple of str or None
        The names of the columns. None where they are known by position, as those of an array are.
    impossible : tuple
        The combinations of values that `never` ruled out. Each is a tuple of pairs: the position of
        a column, and its range (low, high) or the codes of its categories.

    Raises
    ------
    ValueError
        If an entry does not describe a column. The message names it.

    See Also
    --------
    SchemaFinder : Finds a schema privately, where nobody knows the ranges.
    PublicVectorizer : Turns rows into vectors by a schema.

    Examples
    --------
    >>> from skdpsumm import Categorical, Numeric, TableSchema
    >>> schema = TableSchema({
    ...     "age": Numeric(17, 90, step=1),
    ...     "hours": (0, 99),
    ...     "job": Categorical(["clerk", "farmer"], missing=True),
    ... })
    >>> schema
    TableSchema({'age': Numeric(17, 90, step=1),
                 'hours': Numeric(0, 99),
                 'job': Categorical(['clerk', 'farmer'], missing=True)})
    >>> TableSchema((0, 1)) == TableSchema(Numeric(0, 1))
    True
    """

    columns: tuple[Any, ...]
    names: tuple[str, ...] | None
    is_for_all: bool
    extra_columns: str
    impossible: tuple[Combination, ...] = ()

    def __init__(self, columns: Any, *, extra_columns: str = "refuse"):
        if extra_columns not in ("refuse", "drop"):
            raise ValueError(f'{_EXTRA} must be "refuse" or "drop", got {extra_columns!r}.')
        for_all = isinstance(columns, Column) or is_range(columns)
        if isinstance(columns, Mapping):
            names, given = _check_names(columns), list(columns.values())
        elif for_all:
            names, given = None, [columns]
        elif isinstance(columns, list) and columns:
            names, given = None, columns
        else:
            raise ValueError(
                f"A schema must be a mapping from name to what is known of it, a list with an "
                "entry per column, or one range (low, high) for all columns; got "
                f"{told(columns)}.{_remedy(columns)}"
            )
        labels = names or (["all columns"] if for_all else range(len(given)))
        described = tuple(_described(label, one) for label, one in zip(labels, given, strict=True))
        said = {"columns": described, "names": names, "is_for_all": for_all}
        vars(self).update(said, extra_columns=extra_columns)

    def never(self, values: Mapping[Any, Sequence[Any]]) -> TableSchema:
        """Return a schema that also says: no row has all of these values.

        Call it once for each combination. Graphical models give such rows no probability, so that
        a release spends nothing on them. All else ignores it. Use public knowledge alone, such as
        a rule of a questionnaire. Never read it off private rows.

        Make sure that it is true, because nothing checks it. Rows that break it are counted as they
        are. An error would tell that there are such rows. Answers are then wrong by as much as
        these rows weigh.

        Parameters
        ----------
        values : mapping from column to list
            Two columns or more, by name or position. Give the range [low, high] of numbers, both
            ends included, or a list of categories. A missing cell is in neither.

        Returns
        -------
        TableSchema

        Raises
        ------
        ValueError
            If the schema lacks a column, a column lacks a value, or no row would be left.

        Examples
        --------
        >>> from skdpsumm import Numeric, TableSchema
        >>> people = TableSchema({"age": Numeric(0, 99, step=1), "job": ["none", "clerk"]})
        >>> people.never({"age": [0, 14], "job": ["clerk"]})
        TableSchema({'age': Numeric(0, 99, step=1),
                     'job': Categorical(['none', 'clerk'])}).never(
                     {'age': [0, 14], 'job': ['clerk']})
        """
        return self.ruling_out([*self.impossible, self._combination(values)])

    def _combination(self, values: Mapping[Any, Sequence[Any]]) -> Combination:
        """Return what `never` is told, or raise ValueError."""
        if self.is_for_all:
            raise ValueError(
                "never names columns, and this schema has one range for all: describe each column."
            )
        if not isinstance(values, Mapping):
            raise ValueError(f"never takes a mapping from column to values, got {told(values)}.")
        given = {self.index(key, _NEVER): taken for key, taken in values.items()}
        if len(given) < len(values):
            raise ValueError("never names a column twice; list all its values in one entry.")
        try:
            found = tuple((j, self.columns[j].taken(given[j])) for j in sorted(given))
            if len(found) < 2:
                raise ValueError(
                    "A combination needs two columns or more; for one column, change its range or "
                    "its categories."
                )
            if all(self.columns[j].takes_all(taken) for j, taken in found):
                raise ValueError(
                    "This combination would rule out every row; leave some values out."
                )
        except ValueError as error:
            raise ValueError(f"never, {', '.join(map(repr, values))}: {error}") from None
        return found

    def ruling_out(self, impossible: Sequence[Combination]) -> TableSchema:
        """Return the same schema with other `impossible` combinations, or raise ValueError."""
        if len(impossible) > _MOST_COMBINATIONS:
            raise ValueError(f"never can rule out at most {_MOST_COMBINATIONS:,} combinations.")
        return self._with(impossible=tuple(dict.fromkeys(impossible)))

    def _with(self, **said: Any) -> TableSchema:
        other = copy(self)
        vars(other).update(said)
        return other

    def thresholds(self, j: int) -> tuple[float, ...]:
        """Return where to cut bins of numeric column `j`: at the ends of impossible ranges.

        These are edges strictly inside the column's range. A bin holds its left edge.
        """
        taken = [of_column for one in self.impossible for k, of_column in one if k == j]
        return self.columns[j].thresholds(taken)

    def possible_cells(
        self, contents: Any, most_cells: int = _MOST_CELLS_OF_COMBINATION
    ) -> list[tuple[tuple[int, ...], NDArray[np.bool_]]]:
        """Return which cells may hold rows, for each group of columns that `never` is about.

        Parameters
        ----------
        contents : sequence or mapping by columns
            What each cell may hold, as `HistogramMap.contents` tells.
        most_cells : int, default=2**16
            Combinations of more cells are left out, and so are those that hold no whole cell.

        Returns
        -------
        list of (tuple of int, ndarray of bool)
            The columns, and an array with an axis for each. An entry is False only if all that its
            cell may hold is impossible.
        """
        found: dict[tuple[int, ...], NDArray[np.bool_]] = {}
        for one in self.impossible:
            group = tuple(j for j, _ in one)
            if math.prod(len(contents[j]) for j in group) > most_cells:
                continue
            within = [
                np.array([self.columns[j].within(content, taken) for content in contents[j]])
                for j, taken in one
            ]
            if all(inside.any() for inside in within):
                ruled_out = reduce(np.logical_and.outer, within)
                found[group] = found.get(group, True) & ~ruled_out
        return list(found.items())

    def allows(self, known: Mapping[int, NDArray]) -> NDArray[np.bool_]:
        """Return which rows of some columns are in no combination that the schema rules out.

        Columns have shape (n,) or (n_tables, n), and the answer is (1, n) or (n_tables, n). It is
        (1, 1) where nothing is ruled out.
        """
        found = np.ones((1, 1), np.bool_)
        for one in self.impossible:
            if all(j in known for j, _ in one):
                found = found & ~reduce(np.logical_and, (self._has(known[j], j, t) for j, t in one))
        return found

    def _has(self, values: NDArray, j: int, taken: Any) -> NDArray[np.bool_]:
        """Return which values of a column a combination takes."""
        if self.values(j) is None:
            numbers = values.astype(np.float64, copy=False)
            return (numbers >= taken[0]) & (numbers <= taken[1])
        return np.isin(self.columns[j].read(values.ravel()), taken).reshape(values.shape)

    def __len__(self) -> int:
        return self.n_columns

    def __iter__(self) -> Iterator[Any]:
        """Go over the names of the columns, or their positions where they have none."""
        return iter(self.names or range(self.n_columns))

    def __deepcopy__(self, memo: Any) -> TableSchema:
        return self  # nothing in it changes, so that `clone` keeps it

    def __repr__(self) -> str:
        shown = [repr(column) for column in self.columns[:MOST_ROWS_SHOWN]]
        if self.names is not None:
            shown = [f"{cut(repr(n))}: {c}" for n, c in zip(self.names, shown, strict=False)]
        shown += more_of(self.columns, MOST_ROWS_SHOWN)
        opening, closing = "[]" if self.names is None else "{}"
        opening, closing = ("", "") if self.is_for_all else (opening, closing)
        extra = "" if self.extra_columns == "refuse" else ", extra_columns='drop'"
        start = f"TableSchema({opening}"
        told = start + f",\n{' ' * len(start)}".join(shown) + f"{closing}{extra})"
        never = [repr(self._never(one)) for one in self.impossible[:MOST_ROWS_SHOWN]]
        never += more_of(self.impossible, MOST_ROWS_SHOWN)
        return told + "".join(f".never(\n{' ' * len(start)}{one})" for one in never)

    def _repr_html_(self) -> str:
        told = ["all of this is public"]
        told += ["other columns are dropped"] if self.extra_columns == "drop" else []
        never = len(self.impossible)
        told += [f"impossible combinations: {never:,}"] if never else []
        each = "one description for every column" if self.is_for_all else f"{len(self):,} columns"
        names = ["all"] if self.is_for_all else map(str, self)
        rows = zip(names, map(repr, self.columns), strict=True)
        caption = f"TableSchema of {each}: {'; '.join(told)}"
        return html_table(caption, ("column", "values"), rows, len(self.columns))

    def _never(self, one: Combination) -> dict[Any, list[Any]]:
        """Return a combination as `never` takes it."""
        keys = list(self)
        return {keys[j]: self.columns[j].written(taken) for j, taken in one}

    # ---- which columns of a table are meant

    def for_table(self, n_columns: int, names: Sequence[str] | None = None) -> TableSchema:
        """Return the schema of a table with so many columns, or with these names.

        It describes the columns that are read, in its own order, by their names if they have any.

        Parameters
        ----------
        n_columns : int
            Number of columns of the table.
        names : sequence of str, default=None
            Names of the columns. None is for arrays, whose columns have no names.

        Raises
        ------
        ValueError
            If columns are missing, are not described, or share a name. The message names them.
        """
        which = self.positions(n_columns, names)
        if self.names is not None and names is None:
            return self
        columns = self.columns * n_columns if self.is_for_all else self.columns
        own = None if names is None else [str(names[j]) for j in which]
        known = TableSchema(_by_name(own, columns), extra_columns=self.extra_columns)
        return known.ruling_out(self.impossible)

    def positions(self, n_columns: int, names: Sequence[str] | None = None) -> list[int]:
        """Return the positions in such a table of the columns that are described, in their order.

        Raises
        ------
        ValueError
            As `for_table`.
        """
        if names is not None and len(set(map(str, names))) < len(names):
            raise ValueError(TWO_NAMES)
        if self.is_for_all or self.names is None or names is None:
            if not self.is_for_all and n_columns != len(self.columns):
                raise ValueError(
                    f"The schema describes {len(self.columns)} columns, and the table has "
                    f"{n_columns}. Describe each, or leave out of the table what you do not "
                    "describe."
                )
            return list(range(n_columns))
        there = {str(name): j for j, name in enumerate(names)}
        missing = [name for name in self.names if name not in there]
        if missing:
            raise ValueError(
                f"The table lacks {listed_columns(missing)} of the schema. Add what is missing, or "
                "leave it out of the schema."
            )
        extra = [name for name in there if name not in self._places]
        if extra and self.extra_columns == "refuse":
            raise ValueError(
                f"The table has {listed_columns(extra)}, which the schema does not describe. "
                "Describe what you want to use, and leave out the others by TableSchema({...}, "
                'extra_columns="drop").'
            )
        return [there[name] for name in self.names]

    # ---- a schema of a table, by its columns (after `for_table`)

    @property
    def n_columns(self) -> int:
        """Number of columns that are described."""
        return len(self.columns)

    def index(self, key: Any, parameter: str) -> int:
        """Return the position of a column given by name or index."""
        place: Any = self._places.get(key) if isinstance(key, str) else key
        if not isinstance(place, Integral) or not 0 <= int(place) < self.n_columns:
            last = self.n_columns - 1
            known = f"columns 0 to {last}" if self.names is None else some_of(self.names)
            raise ValueError(
                f"{parameter} names column {key!r}, which the data do not have; they have {known}."
            )
        return int(place)

    @cached_property
    def _places(self) -> dict[str, int]:
        """The position by the name of a column: a file may have many rules of many columns."""
        return {name: j for j, name in enumerate(self.names or ())}

    def name(self, j: int) -> str:
        """Return the name of column `j`, or ``x<j>``."""
        return f"x{j}" if self.names is None else self.names[j]

    def values(self, j: int) -> tuple[Any, ...] | None:
        """Return the categories of column `j`, or None for a numeric column."""
        return getattr(self.columns[j], "categories", None)

    def bound(self, j: int) -> tuple[float, float] | None:
        """Return the (low, high) of column `j`, or None where it has none."""
        return getattr(self.columns[j], "bounds", None)

    def step(self, j: int) -> float | None:
        """Return the step of column `j`, or None where its values are on no grid."""
        return getattr(self.columns[j], "spacing", None)

    def missing(self, j: int) -> bool:
        """Return whether cells of column `j` may be missing."""
        return bool(self.columns[j].missing)

    def on_grid(self, values: NDArray, j: int) -> NDArray:
        """Return each of `values` moved to the closest value that column `j` has."""
        column = self.columns[j]
        return column.on_grid(values) if isinstance(column, Numeric) else values

    @property
    def numeric(self) -> list[int]:
        """The columns of numbers."""
        return [j for j in range(self.n_columns) if self.values(j) is None]

    @property
    def numbers(self) -> list[int]:
        """The columns of numbers that are no dates."""
        return [j for j in self.numeric if not isinstance(self.columns[j], Date)]

    def with_columns(self, columns: Sequence[Column]) -> TableSchema:
        """Return a schema of the same table with other descriptions of its columns."""
        return self._with(columns=tuple(columns), is_for_all=False)

    def dropping_others(self) -> TableSchema:
        """Return the same schema, which leaves out of a table what it does not name."""
        return self._with(extra_columns="drop")

    def take(self, which: Sequence[int]) -> TableSchema:
        """Return the schema of some of the columns, with what is impossible in these."""
        names = None if self.names is None else [self.names[j] for j in which]
        named = _by_name(names, [self.columns[j] for j in which])
        place = {j: k for k, j in enumerate(which)}
        kept = [
            tuple(sorted((place[j], taken) for j, taken in one))
            for one in self.impossible
            if all(j in place for j, _ in one)
        ]
        return TableSchema(named, extra_columns=self.extra_columns).ruling_out(kept)

    # ---- reading cells

    def in_steps(self, table: Any) -> Any:
        """Return a table that came in, with steps since `Date.low` in its columns of dates.

        All that reads a table later reads numbers there.

        Raises
        ------
        ValueError
            For cells that are no dates. The message names the column and no value.
        """
        columns = self.columns * (table.shape[1] if self.is_for_all else 1)
        dated = [j for j, column in enumerate(columns) if isinstance(column, Date)]
        if isinstance(table, SparseRows) or not dated:
            return table
        read = [table[:, j] for j in range(len(columns))]
        for j in dated:
            read[j] = read_cells(columns[j], read[j], self.name(j), "steps")
        return Table(read)

    def check(self, X: NDArray | Table | SparseRows) -> None:
        """Raise ValueError if a column refuses one of its cells. The message tells no value."""
        if isinstance(X, SparseRows):
            self.encode(X)
            return
        for j in range(self.n_columns):
            self.read(X, j)

    def read(self, X: NDArray | Table, j: int) -> NDArray:
        """Return column `j` as the schema reads it: floats, or the codes of categories."""
        return read_cells(self.columns[j], X[:, j], self.name(j))

    @property
    def n_encoded(self) -> int:
        """Number of columns that `encode` returns."""
        return sum(column.n_encoded for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is known of any column, so that tables are numbers as they are."""
        # One object stands for all columns that are described together, of which there may be many.
        plain, distinct = Numeric(), {id(column): column for column in self.columns}
        return all(column == plain for column in distinct.values())

    def encode(self, X: Any) -> Any:
        """Return X with numbers scaled to [0, 1], categories and missing cells at distance one.

        Numbers with a range are clipped and scaled. Numbers without a range stay as they are. A
        categorical column becomes its indicators times ``sqrt(1/2)``, so that two different
        categories are as far apart as the two ends of a range. A missing number is as far from
        either end. `SparseRows` stay sparse, and need a schema under which zero stays zero.
        """
        if isinstance(X, SparseRows):
            return X if self.is_plain else self.map_sparse(X)
        # Nothing to encode: a memmap stays one, and is read block by block.
        if not isinstance(X, Table) and self.is_plain:
            return X if X.dtype == np.float32 else exact_numbers(X)
        out = np.empty((X.shape[0], self.n_encoded))
        start = 0
        for j, column in enumerate(self.columns):
            out[:, start : start + column.n_encoded] = column.encode(self.read(X, j))
            start += column.n_encoded
        return out

    def keeps_zero(self, entries: Entries = _encoded) -> bool:
        """Return whether a zero in any column becomes a zero, and nothing beside it.

        Parameters
        ----------
        entries : callable
            Takes a column and the cells that it read, and returns an array of shape (n, k). The
            default is what `encode` makes of them, which is what most callers ask about.
        """
        return all(
            type(column) is Numeric
            and not column.missing
            and not entries(column, column.read(np.zeros(1))).any()
            for column in set(self.columns)
        )

    def map_sparse(self, X: SparseRows, entries: Entries = _encoded) -> SparseRows:
        """Return rows in which each cell is what its column makes of it.

        Parameters
        ----------
        X : SparseRows
        entries : callable
            As in `keeps_zero`.

        Raises
        ------
        ValueError
            If zero does not stay zero under the schema.
        """
        if not self.keeps_zero(entries):
            raise ValueError(
                "With sparse X, zero must stay zero, and the schema moves it. Give learners ranges "
                "(-b, b) and sketchers ranges (0, b), or leave the schema out (learners then clip "
                "rows to norm_bound). Or give X.toarray()."
            )
        numbers = {column: k for k, column in enumerate(set(self.columns))}
        of_value = np.array([numbers[column] for column in self.columns])[X.indices]
        values = np.empty(len(X.values))
        for column, k in numbers.items():
            here = of_value == k
            values[here] = entries(column, read_cells(column, X.values[here], ""))[:, 0]
        return X.with_values(values)

    def with_dates(self, rows: NDArray) -> NDArray:
        """Return rows of an array with dates in place of steps: as they came in (`in_steps`)."""
        parts, dated = list(rows.T), set(self.numeric) - set(self.numbers)
        for j in dated:
            parts[j] = self.decode(j, parts[j].astype(np.float64))
        return stack_columns(parts) if dated else rows

    # ---- public points

    def sample(self, n_samples: int, rng: np.random.RandomState) -> NDArray:
        """Draw public rows evenly from ranges and categories, each column stratified."""
        # Stratified, each column is covered evenly by few points, whatever the others are.
        return self.at(np.column_stack([stratified(n_samples, rng) for _ in self.columns]))

    def at(self, points: NDArray[np.float64]) -> NDArray:
        """Return a row of cells for each point of the unit cube, evenly over each column."""
        self.require_bounds()
        return stack_columns([c.sample(points[:, j]) for j, c in enumerate(self.columns)])

    def require_bounds(self) -> None:
        """Raise ValueError if a numeric column has no range."""
        for j in self.numeric:
            if self.bound(j) is None:
                raise ValueError(
                    f"Column {self.name(j)!r} has no range in the schema: give its public (low, "
                    "high). Nothing is read off the data."
                )

    def decode(self, j: int, read: NDArray) -> NDArray:
        """Return the cells of column `j` that stand for what it reads: categories at codes."""
        return self.columns[j].decode(read)

    # ---- files

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description of a schema of a table."""
        names = self.names or (None,) * self.n_columns
        # One column may stand for thousands, and is described once.
        once = {id(column): column for column in self.columns}
        states = {key: _json_ready(column) for key, column in once.items()}
        columns = zip(names, (states[id(column)] for column in self.columns), strict=True)
        # In a list, for the order of columns counts.
        told: dict[str, Any] = {"columns": [{"name": name, **state} for name, state in columns]}
        if self.impossible:
            rules = [self._never(one) for one in self.impossible]
            told[_NEVER] = [{str(key): taken for key, taken in one.items()} for one in rules]
        return told

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> TableSchema:
        """Rebuild a schema from its `to_dict`. What the constructors refuse is refused here.

        Raises
        ------
        ValueError
            If it does not describe a schema.
        """
        check_nested(description)
        return cls.from_tables({k: description[k] for k in ("columns", _NEVER) if k in description})

    def save(self, path: str | os.PathLike) -> None:
        """Write the schema to a TOML file, which people can read, edit and review.

        Parameters
        ----------
        path : path-like
            Where to write it. An existing file is replaced.

        Raises
        ------
        ValueError
            If no file can hold a text, such as half a surrogate pair, or the file would have more
            than 1,048,576 characters, which `load` refuses. An existing file is left as it is.
        """
        text = self.to_toml()
        if len(text) > MOST_CHARACTERS:
            raise ValueError(
                f"The schema takes {len(text):,} characters, and a file may have "
                f"{MOST_CHARACTERS:,}. List fewer columns or categories."
            )
        path_of_file(path).write_bytes(text.encode())

    def to_toml(self) -> str:
        """Return the text that `save` writes."""
        parts = [] if self.extra_columns == "refuse" else [f'{_EXTRA} = "{self.extra_columns}"\n']
        for key, column in zip(self, self.columns, strict=True):
            title = f"[{_ALL}]" if self.is_for_all else "[[columns]]"
            title = title if self.names is None else f"[columns.{_toml_key(key)}]"
            parts.append(_toml_table(title, column.state()))
        parts += [_toml_table(f"[[{_NEVER}]]", self._never(one)) for one in self.impossible]
        return "\n".join(parts)

    @classmethod
    def load(cls, path: str | os.PathLike) -> TableSchema:
        """Read a schema from a TOML file that `save` or a person wrote.

        Parameters
        ----------
        path : path-like
            The file to read.

        Raises
        ------
        ValueError
            If entries are unknown or do not describe a column. The message names them. Also if the
            file is not in UTF-8, has more than 1,048,576 characters, or nests tables too deeply.
        """
        return read_toml(path, cls.from_tables)

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> TableSchema:
        """Return the schema that the tables of a file describe, or raise ValueError."""
        tables = dict(tables)
        extra, never = tables.pop(_EXTRA, "refuse"), tables.pop(_NEVER, [])
        if len(tables) != 1 or not set(tables) <= {"columns", _ALL}:
            raise ValueError(
                "schema must have one kind of tables: [columns.<name>], [[columns]] or "
                f"[{_ALL}]. Beside these it can have {_EXTRA!r} and {_NEVER!r}; got "
                f"{sorted(tables)}."
            )
        ((kind, given),) = tables.items()
        if kind == _ALL:
            known = cls(_described("all columns", given, _of_table), extra_columns=extra)
        else:
            pairs = _named_tables(given)
            names = [name for name, _ in pairs]
            columns = [
                _described(j if name is None else name, table, _of_table)
                for j, (name, table) in enumerate(pairs)
            ]
            is_named = names != [None] * len(names)
            known = cls(_by_name(names if is_named else None, columns), extra_columns=extra)
        if not isinstance(never, list) or not all(isinstance(one, dict) for one in never):
            raise ValueError("never of a schema must be tables: write [[never]] above each.")
        if known.names is None:  # a file has words for the positions of columns, one for each
            places = {str(j): j for j in range(len(known.columns))}
            never = [{places.get(k, k): one[k] for k in one} for one in never]
        return known.ruling_out(list(map(known._combination, never)))

    @classmethod
    def from_public(cls, table: Any) -> TableSchema:
        """Return a draft from PUBLIC rows. It holds guesses: correct them before you use it.

        Never give it private rows: their extremes and rare values would become public. `save` the
        draft, and review the file. The `description` of each column says that it is a guess.

        Parameters
        ----------
        table : array-like or frame of shape (n_samples, n_features)
            Public rows, such as a published sample, or rows made up from a codebook.

        Raises
        ------
        ValueError
            If columns hold times without a date, have more than 1,000 different words, or lack two
            values (one message names all of them), or if the table has no rows, or labels that are
            neither words nor 0, 1, ... in order.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdpsumm import TableSchema
        >>> rows = pd.DataFrame({"age": [17, 90, 40], "job": ["clerk", None, "farmer"]})
        >>> TableSchema.from_public(rows)["job"].categories
        ('clerk', 'farmer')
        """
        rows = read_table(table)
        if rows.ndim != 2:
            raise ValueError("table must have two dimensions: a row for each observation.")
        check_some_rows("table", table)
        names = column_names(table)
        columns: list[Column] = []
        faults = []
        for j in range(rows.shape[1]):
            who = f"Column {names[j] if names else f'x{j}'!r}"
            try:
                columns.append(_drafted(rows[:, j]))
            except CellError as error:
                faults.append(str(error.as_error(who)))
            except ValueError as error:
                faults.append(f"{who} cannot be guessed: {error}")
        if faults:
            raise ValueError("\n".join(faults))
        return cls(_by_name(names, columns))

    def __getitem__(self, key: Any) -> Any:
        return self.columns[self.index(key, "schema[...]")]


def as_schema(given: Any) -> Any:
    """Return the schema that a parameter `schema` stands for, None where it is None."""
    return given if given is None or isinstance(given, TableSchema) else TableSchema(given)


# Types of what a parameter `schema` takes: a schema, a column, or columns by name or place.
SchemaLike: TypeAlias = TableSchema | Column | Mapping[Any, Any] | Sequence[Any]


def _json_ready(column: Any) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in column.state().items()}


def schema_of(estimator: Any) -> TableSchema:
    """Return the schema of the tables that an estimator was given, by its parameter `schema`.

    Without one, nothing is known of the columns but their number and names.
    """
    names = getattr(estimator, "feature_names_in_", None)
    known = as_schema(estimator.schema) or TableSchema(Numeric())
    return known.for_table(estimator.n_features_in_, names)


def allowed(schema: Any) -> tuple[bool, bool]:
    """Return whether tables of what was given as a schema may hold words, and missing values."""
    try:
        known = as_schema(schema)
    except ValueError:  # which `fit` tells
        return False, False
    columns = () if known is None else known.columns
    words = any(isinstance(column, Categorical) for column in columns)
    return words, bool(columns) and all(column.missing for column in columns)


def public_points(schema: TableSchema) -> NDArray:
    """Return rows that fill the schema of a table evenly, always the same ones.

    Raises
    ------
    ValueError
        If a column of numbers has no range.
    """
    return schema.sample(500, np.random.RandomState(0))


def stratified(n_points: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Return one uniform number in each of n equal slices of [0, 1], in random order."""
    return (rng.permutation(n_points) + rng.uniform(size=n_points)) / n_points


def stack_columns(parts: list[NDArray]) -> NDArray:
    """Return columns side by side: floats, or objects where one of them holds objects."""
    if all(part.dtype.kind == "f" for part in parts):
        return np.column_stack(parts)
    table = np.empty((len(parts[0]), len(parts)), dtype=object)
    for j, part in enumerate(parts):
        table[:, j] = part
    return table


def first_difference(here: Any, there: Any, path: str = "") -> str | None:
    """Return the first entry in which two nested descriptions differ, by name, or None."""
    if isinstance(here, dict) and isinstance(there, dict):
        keys = [(f"{path}.{k}" if path else k, k) for k in sorted({*here, *there})]
        pairs = [(name, here.get(k), there.get(k)) for name, k in keys]
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = [(f"{path}[{j}]", *p) for j, p in enumerate(zip(here, there, strict=True))]
    else:
        same = type(here) is type(there) and here == there
        return None if same else f"{path}: {_short(here)} here, {_short(there)} there"
    return next((d for d in (first_difference(h, t, name) for name, h, t in pairs) if d), None)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries"
    return "nothing" if value is None else repr(value)[:80]


def _named_tables(given: Any) -> list[tuple[Any, Any]]:
    """Return the table of each column in a file, and its name; None for one known by position."""
    if isinstance(given, dict):
        return list(given.items())
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise ValueError("columns of a schema must be tables, one for each column.")
    names = [table.get("name") for table in given]
    are_words = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    if not are_words and any(name is not None for name in names):
        raise ValueError("Each column must have a name of its own, or none of them any.")
    rest = [{k: v for k, v in table.items() if k != "name"} for table in given]
    return list(zip(names, rest, strict=True))


def _by_name(names: Sequence[str] | None, columns: Sequence[Any]) -> Any:
    """Return columns as `TableSchema` takes them: by their names if they have any."""
    return list(columns) if names is None else dict(zip(names, columns, strict=True))


def _check_names(columns: Mapping[Any, Any]) -> tuple[str, ...]:
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(
            f"The keys of a schema must be names of columns, which are words; got "
            f"{list(columns)!r}. For an array, give a list with an entry for each column. Where "
            f"columns have other labels, make words of them, in the table, too: X = {AS_WORDS}."
        )
    names = tuple(map(str, columns))
    for name in names:
        check_text("A name of a column", name)
    return names


def _remedy(given: Any) -> str:
    if isinstance(given, str | os.PathLike):
        return " To read a file, call TableSchema.load(path)."
    if isinstance(given, Number):
        return " Give a number by its name, such as n_components=200 or n_select=100."
    is_fitted = hasattr(type(given), "fit")
    return " Give the schema_ of a fitted one, or release=sketcher." if is_fitted else ""


def _described(name: Any, given: Any, read: Callable[[Any], Column] = as_column) -> Column:
    try:
        return read(given)
    except ValueError as error:
        where = name if name == "all columns" else f"column {name!r}"
        raise ValueError(f"schema, {where}: {error}") from None


# ---- columns in files


def _toml_table(title: str, entries: Mapping[Any, Any]) -> str:
    """Return a table of TOML, with numbers as people write them: 17 for 17.0."""
    # Categories keep their type, for 1.0 and True are other words in a release than 1.
    lines = [
        f"{_toml_key(str(k))} = {_toml(v, exact=k == 'categories')}" for k, v in entries.items()
    ]
    return "\n".join([title, *lines]) + "\n"


def _toml(value: Any, *, exact: bool = False) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(one, exact=exact) for one in value)}]"
    if isinstance(value, float):
        return repr(value if exact else short_number(value))
    # JSON's words, numbers and escapes are TOML's, but for this control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(name: str) -> str:
    """Return the name of a column as a key of TOML."""
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else _toml(name)


def read_toml(
    path: str | os.PathLike[str], read: Callable[[dict[str, Any]], Any] = dict[str, Any]
) -> Any:
    """Return what is read of the tables of a TOML file, or raise ValueError that names the file."""
    with path_of_file(path).open("rb") as file:
        octets = file.read(4 * MOST_CHARACTERS + 4)  # what is longer is refused by its characters
    try:
        return read(parse_toml(octets.decode("utf-8-sig")))  # as editors save it
    except UnicodeDecodeError as error:
        line = octets[: error.start].count(b"\n") + 1
        told = f"line {line} is not in UTF-8, as TOML files are. Save the file in UTF-8."
    except ValueError as error:
        told = str(error)
    raise ValueError(f"{path}: {told}")


def _of_table(table: Any) -> Column:
    """Return the column that a table of TOML or JSON describes, or raise ValueError.

    It is one of dates if `low` is a word or a date, and of numbers without `low`.
    """
    if not isinstance(table, dict):
        raise ValueError(
            f"{told(table)} does not describe a column; write a table, {{low = 0, high = 1}} or "
            "{categories = [...]}."
        )
    is_dated = isinstance(table.get("low"), str | date)
    kind: Any = Categorical if "categories" in table else Date if is_dated else Numeric
    known = {f.name for f in fields(kind)}
    if not set(table) <= known:
        raise ValueError(
            f"unknown entries {sorted(set(table) - known)!r}; known are {sorted(known)}."
        )
    return kind(**table)


# ---- a draft from public rows


def _drafted(cells: NDArray) -> Column:
    """Return a draft of a public column, which says that it is a guess; or raise ValueError."""
    present = cells[[not is_missing(cell) for cell in cells.tolist()]]
    said: Any = {"description": "guessed from public rows", "missing": len(present) < len(cells)}
    for zone in (None, "UTC"):
        with suppress(CellError):
            dates = exact_dates(present, "D", None if zone is None else ZoneInfo(zone))
            days = _two_or_more(dates).astype(str).tolist()
            return Date(days[0], days[-1], zone=zone, **said)
    if any(isinstance(cell, TIME_TYPES) for cell in cells.tolist()):  # NaT
        raise CellError(TIMES)
    values = present.tolist()
    if not any(isinstance(value, str | bool) for value in values):
        numbers = _two_or_more(finite_numbers(present))
        return Numeric(float(numbers[0]), float(numbers[-1]), step=_common_step(numbers), **said)
    plain_labels(present)  # which refuses what is neither word nor number
    listed = sorted(set(values), key=str)
    if len(listed) > _MOST_GUESSED:
        raise ValueError(
            f"it has {len(listed)} different words, which are names or free text; leave it out, "
            "or group them."
        )
    return Categorical(tuple(listed), **said)


def _two_or_more(values: NDArray) -> NDArray:
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise ValueError("it has fewer than two values; leave it out.")
    return distinct


def _common_step(numbers: NDArray) -> float | None:
    """Return 1, 0.1, ... 1e-6 where all numbers have so many decimals, and a million values."""
    for places in range(7):
        step = float(f"1e-{places}")
        if (numbers[-1] - numbers[0]) / step > 1_000_000:
            return None
        if np.array_equal(np.round(numbers, places), numbers):
            return step
    return None
