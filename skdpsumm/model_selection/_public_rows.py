"""How a search reads a table, and public rows of the same types, to try candidates on.

A row must not decide how another one is read: one that is missing makes floats of a column of
integers, a name makes objects of it. So cells are read one by one, into types that are known
beforehand: a category of a schema is one of those that are listed, all else is float64. Public
rows are of these types, too, so what is fitted to them hangs on no row.

What has a `schema` (a `PublicVectorizer`, a learner, M2M) takes tables of any types alike. That it
takes all cells is checked before anything is charged. Other steps get finite numbers. That they
take the user's own tables, and make the same of them as of tables that are read, is tried on public
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder
from sklearn.utils import _safe_indexing

from .._sklearn import _get_column_indices
from ..schema._columns import Categorical, Numeric, read_cells
from ..schema._columns import Column as Described
from ..schema._frames import TWO_NAMES
from ..schema._reading import (
    CellError,
    cell_error,
    column_names,
    finite_numbers,
    is_missing,
    read_column,
)
from ..schema._schema import as_schema, stratified

_NO_NUMBER = (
    "must hold finite numbers, because no schema describes it. List its words in the `schema` of "
    "the learner, or of a PublicVectorizer in the first step, or leave the column out."
)


# ---- what the steps of a pipeline meet of a table


def meetings(step: Any, schema: Any) -> list[tuple[Any, list[int]]]:
    """Return the steps of an estimator that meet columns as they are in the table, and which.

    Parameters
    ----------
    step : estimator
    schema : array or frame of shape (0, d)

    Returns
    -------
    list of (step, positions)
        Pipelines and other steps that hold steps come before these. A last step is "passthrough"
        where columns leave a ColumnTransformer as they are.
    """
    return list(_meetings(step, list(range(schema.shape[1])), schema))


def _meetings(step: Any, columns: list[int], schema: Any) -> Iterator[tuple[Any, list[int]]]:
    if not columns or (isinstance(step, str) and step == "drop"):
        return
    yield step, columns
    if isinstance(step, Pipeline):
        for k, (_, inner) in enumerate(step.steps):
            if not _keeps(inner) or k == len(step.steps) - 1:
                yield from _meetings(inner, columns, schema)
            if not _keeps(inner):
                break
    elif isinstance(step, FeatureUnion):
        for _, inner in step.transformer_list:
            yield from _meetings(inner, columns, schema)
    elif isinstance(step, ColumnTransformer):
        seen = _safe_indexing(schema, columns, axis=1)
        rest = set(range(len(columns)))
        for _, inner, chosen in step.transformers:
            found = _positions(seen, chosen)
            rest -= set(found)
            yield from _meetings(inner, [columns[j] for j in found], schema)
        yield from _meetings(step.remainder, [columns[j] for j in sorted(rest)], schema)


def _keeps(step: Any) -> bool:
    """Return whether columns leave a step as they are."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def described(step: Any, columns: list[int], schema: Any) -> dict[int, Described] | None:
    """Return what the schema of a step says of the columns that it meets; None if it has none.

    Raises
    ------
    ValueError
        For a schema of other columns.
    """
    known = as_schema(getattr(step, "schema", None))
    if known is None:
        return None
    names = column_names(schema)
    seen = None if names is None else [names[j] for j in columns]
    told = known.for_table(len(columns), seen).columns
    return {
        columns[k]: column
        for k, column in zip(known.positions(len(columns), seen), told, strict=True)
    }


def _positions(schema: Any, chosen: Any) -> list[int]:
    """Return the positions of columns that are named: a function may look at types, or rows."""
    if callable(chosen):
        raise ValueError(
            "Name the columns of the ColumnTransformer, or give a PublicVectorizer the whole "
            "table: a function that chooses columns, such as by dtype, depends on private rows."
        )
    return [int(j) for j in _get_column_indices(schema, chosen)]


# ---- reading


@dataclass(frozen=True)
class Column:
    """What is publicly known of a column.

    Attributes
    ----------
    name : str
    schemas : tuple of Numeric or Categorical
        What schemas say of it, each once.
    is_plain : bool
        Whether any step reads it without a schema.
    """

    name: str
    schemas: tuple[Described, ...]
    is_plain: bool

    def read(self, cells: Any) -> NDArray:
        """Return cells as float64 with NaN, or as objects: categories and None.

        Raises
        ------
        ValueError
            For what a schema does not take, or is no number where one is due. The message tells no
            value.
        TypeError
            For what never is one.
        """
        column = read_column(cells)
        if not (self.schemas or self.is_plain):
            return np.zeros(len(column))
        for schema in self.schemas:
            read_cells(schema, column, self.name)
        if self._may_miss:  # what stands for a missing value is one from here on
            for schema in self.schemas:
                column = schema.without_codes(column)  # type: ignore[attr-defined]
        if self.is_plain or not self._holds_words:
            return self._numbers(column)
        known = {value: value for value in self._listed}
        cells = column.tolist()
        return _objects([None if is_missing(cell) else known[cell] for cell in cells])

    def _numbers(self, column: NDArray) -> NDArray[np.float64]:
        try:
            return finite_numbers(column, missing=not self.is_plain)
        except CellError as error:
            fault = error
        # Out here, without the error above.
        if fault.fault == "words":
            raise ValueError(f"Column {self.name!r} {_NO_NUMBER}")
        raise cell_error(fault, "X", f" in column {self.name!r}")

    @property
    def _listed(self) -> list[Any]:
        """Categories of the schemas, each once."""
        lists = [c.categories for c in self.schemas if isinstance(c, Categorical)]
        return list(dict.fromkeys(value for values in lists for value in values))

    @property
    def _holds_words(self) -> bool:
        return any(isinstance(value, str) for value in self._listed)

    @property
    def values(self) -> list[Any]:
        """Categories that all schemas list, and None where cells may be missing.

        Raises
        ------
        ValueError
            If there is none.
        """
        lists = [c.categories for c in self.schemas if isinstance(c, Categorical)]
        common = [value for value in self._listed if all(value in values for values in lists)]
        if lists and not common:
            raise ValueError(
                f"Several schemas list categories of column {self.name!r}, and no value is in all "
                "of them; give them at least one value in common."
            )
        return [*common, *([None] * (self._may_miss and bool(common)))]

    @property
    def _may_miss(self) -> bool:
        return not self.is_plain and all(schema.missing for schema in self.schemas)

    def sample(self, u: NDArray, spread: int = 1) -> NDArray:
        """Return a public value for each number of [0, 1): all read it.

        It is evenly one of those that are listed, or of the range of a schema, or in
        [0, `spread`).
        """
        if values := self.values:
            cells = [values[k] for k in (u * len(values)).astype(int)]
            return _objects(cells) if self._holds_words else np.array(cells, np.float64)
        ranges = [c for c in self.schemas if isinstance(c, Numeric) and c.bounds is not None]
        if ranges:
            return replace(ranges[0], missing=self._may_miss, missing_values=()).sample(u)
        return np.floor(spread * u) + 0.21875 if spread > 1 else u


def _objects(values: list[Any]) -> NDArray:
    """Return values as they are, in an array."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@dataclass(frozen=True)
class Reading:
    """How the tables of a search are read.

    Attributes
    ----------
    schema : array or frame of shape (0, d)
        Of the user's table.
    columns : tuple of Column
    """

    schema: Any
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, estimators: Iterable[Any], schema: Any) -> Reading:
        """Return what the steps of some estimators tell of a table.

        Raises
        ------
        ValueError
            For an encoder or imputer of the table, and a schema of another table.
        """
        names = list(getattr(schema, "columns", [f"x{j}" for j in range(schema.shape[1])]))
        if len(set(names)) < len(names):
            raise ValueError(TWO_NAMES)
        schemas: list[list[Described]] = [[] for _ in names]
        plain = set()
        for estimator in estimators:
            for step, columns in meetings(estimator, schema):
                if isinstance(step, Pipeline | ColumnTransformer | FeatureUnion):
                    continue
                told = described(step, columns, schema)
                if told is None:
                    _check_plain(step)
                    plain.update(columns)
                for j, column in (told or {}).items():
                    schemas[j].append(column)
        known = [
            Column(str(name), tuple(dict.fromkeys(schemas[j])), j in plain)
            for j, name in enumerate(names)
        ]
        return cls(schema, tuple(known))

    def covers(self, other: Reading) -> bool:
        """Return whether estimators of another reading may be given tables that were read so."""
        pairs = list(zip(self.columns, other.columns, strict=True))
        known = all(set(theirs.schemas) <= set(ours.schemas) for ours, theirs in pairs)
        return known and all(ours.is_plain >= theirs.is_plain for ours, theirs in pairs)

    def __call__(self, X: Any) -> Any:
        """Return a table as the search reads it: a frame for a frame.

        Raises
        ------
        ValueError
            For what cannot be read, naming a column and no value.
        """
        return self._table([column.read(_cells(X, j)) for j, column in enumerate(self.columns)])

    def _table(self, parts: list[NDArray]) -> Any:
        if hasattr(self.schema, "columns"):
            return type(self.schema)(self._series(parts))
        table = np.empty((len(parts[0]), len(parts)), np.result_type(*parts))
        for j, part in enumerate(parts):
            table[:, j] = part
        return table

    def _series(self, parts: list[NDArray]) -> dict[Any, Any]:
        named = zip(self.schema.columns, parts, strict=True)
        if hasattr(self.schema, "iloc"):  # pandas would make strings of objects, and lose None
            series = type(self.schema.iloc[:, 0])
            return {name: series(part, dtype=part.dtype) for name, part in named}
        return {name: part.tolist() if part.dtype == object else part for name, part in named}

    def sample(self, m: int) -> Any:
        """Return m public rows that fill ranges, [0, 1] where there is none, and lists evenly."""
        return self._table(self._sampled(m, 0))

    def _sampled(self, m: int, seed: int, spread: int = 1) -> list[NDArray]:
        rng = np.random.RandomState(seed)
        return [column.sample(stratified(m, rng), spread) for column in self.columns]

    def least_rows(self) -> int:
        """Return how many rows hold all values that are listed."""
        return 2 * max(len(column.values) for column in self.columns)

    def own_and_read(self) -> tuple[Any, Any]:
        """Return public rows with the types of the user's table, and the same rows as read."""
        # Beyond [0, 1], so that integers differ, and off whatever edges steps have.
        own = self._table(self._sampled(max(12, self.least_rows()), 1, spread=100))
        if not any(column.is_plain for column in self.columns):
            return own, own  # schemas read any types alike
        own = _cast(own, self.schema)
        return own, self(own)


def _check_plain(step: Any) -> None:
    """Raise ValueError for what is there for categories, or missing values, of a raw table."""
    if isinstance(step, OneHotEncoder | OrdinalEncoder | TargetEncoder | SimpleImputer):
        raise ValueError(
            f"Put PublicVectorizer(schema) in the place of {type(step).__name__}: a search reads "
            "the table through a schema only. There, Categorical lists the public values of a "
            "column, and missing=True says that cells may be missing."
        )


def _cells(X: Any, j: int) -> Any:
    return X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]


def _cast(rows: Any, schema: Any) -> Any:
    """Return rows with the types of a schema, as far as they can be."""
    if hasattr(rows, "iloc"):
        pairs = zip(rows.columns, schema.dtypes, strict=True)
        return type(rows)({name: _cast_series(rows[name], dtype) for name, dtype in pairs})
    if hasattr(rows, "columns"):
        return rows.cast(dict(schema.schema), strict=False)
    return _cast_series(rows, schema.dtype)


def _cast_series(values: Any, dtype: Any) -> Any:
    if str(dtype) == "category":  # its own categories could be those of the rows
        return values.astype("category")
    if values.dtype == np.float64 and getattr(dtype, "kind", "O") in "iu":
        if np.isnan(values).any():  # numpy would make integers of them
            return values
        values = np.floor(values)
    try:
        return values.astype(dtype)
    except (TypeError, ValueError):  # no value of this type: rows will tell
        return values


# ---- public rows


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

    @property
    def fit_params(self) -> dict[str, Any]:
        """What is given to `fit` beside rows and labels."""
        return self.points | ({} if self.groups is None else {"groups": self.groups})

    @classmethod
    def like(
        cls, reading: Reading, classes: Any, X_public: Any, *, grouped: bool = False
    ) -> PublicRows:
        """Return rows that fill what is known of the columns, of the types that are read."""
        m = 20 if classes is None else max(20, 3 * len(classes))
        m = max(m, reading.least_rows())
        y = np.random.default_rng(2).random(m) if classes is None else np.resize(classes, m)
        return cls(reading.sample(m), y, X_public, np.arange(m) if grouped else None)

    def through(self, steps: Any) -> PublicRows:
        """Return what fitted steps make of them."""
        points = None if self.X_public is None else steps.transform(self.X_public)
        return PublicRows(steps.transform(self.X), self.y, points, self.groups)
