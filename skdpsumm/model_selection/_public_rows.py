"""How a search reads a table, and public rows of the same types, to try candidates on.

A row must not decide how another one is read: one that is missing makes floats of a column of
integers, a name makes objects of it. So cells are read one by one, into types that are known
beforehand: what a schema or an encoder lists is one of the listed values, all else is float64.
Public rows are of these types, too, so what is fitted to them hangs on no row.

What has a `schema` (a `PublicVectorizer`, a learner, M2M) takes tables of any types alike. That it
takes all cells is checked before anything is charged. That other steps take the user's own tables,
and make the same of them as of tables that are read, is tried on public rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.utils import _safe_indexing
from sklearn.utils._indexing import _get_column_indices

from ..schema._columns import Categorical, Numeric, read_cells
from ..schema._columns import Column as Described
from ..schema._listed import check_listed
from ..schema._reading import (
    CellError,
    cell_error,
    exact_numbers,
    is_missing,
    read_column,
)
from ..schema._schema import as_schema, stratified

NOT_LISTED = (
    "holds a value that is not among its categories; add it to `categories`, or map rare values to "
    "one of those listed."
)
_NO_NUMBER = (
    "must hold finite numbers; if its values are names, list them in a `schema`, of the learner or "
    "of a PublicVectorizer in the first step, or leave the column out."
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
            if not _does_nothing(inner) or k == len(step.steps) - 1:
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
    """Return whether columns leave a step as they are, but for missing values."""
    if isinstance(step, FunctionTransformer):
        return step.func is None
    constant = isinstance(step, SimpleImputer) and step.strategy == "constant"
    return _does_nothing(step) or (constant and not step.add_indicator)


def _does_nothing(step: Any) -> bool:
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
    names = list(getattr(schema, "columns", ()))
    named = len(names) > 0 and all(isinstance(name, str) for name in names)
    seen = [names[j] for j in columns] if named else None
    told = known.for_table(len(columns), seen).columns
    return {
        columns[k]: column
        for k, column in zip(known.positions(len(columns), seen), told, strict=True)
    }


def _positions(schema: Any, chosen: Any) -> list[int]:
    """Return the positions of columns, chosen as a ColumnTransformer does: never by a row."""
    chosen = chosen(schema) if callable(chosen) else chosen
    return [int(j) for j in _get_column_indices(schema, chosen)]


def settle_columns(estimator: Any, schema: Any) -> bool:
    """Have columns that are chosen by dtype named, for public rows have dtypes of their own.

    Returns
    -------
    bool
        Whether there were any: then the dtypes of the table must be public.
    """
    found = [(step, cols) for step, cols in meetings(estimator, schema) if _chooses(step)]
    for step, columns in found:
        seen = _safe_indexing(schema, columns, axis=1)
        names = list(getattr(seen, "columns", ()))
        known = len(names) > 0 and all(isinstance(name, str) for name in names)
        step.transformers = [
            (name, inner, [names[j] if known else j for j in _positions(seen, chosen)])
            if callable(chosen)
            else (name, inner, chosen)
            for name, inner, chosen in step.transformers
        ]
    return bool(found)


def _chooses(step: Any) -> bool:
    return isinstance(step, ColumnTransformer) and any(callable(c) for *_, c in step.transformers)


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
    values : list or None
        Those that all encoders and schemas list, to draw from; None where there is none.
    known : dict
        All that are listed, by themselves.
    is_strict : bool
        Whether an encoder may refuse what is not listed.
    """

    name: str
    schemas: tuple[Described, ...] = ()
    is_plain: bool = True
    values: list[Any] | None = None
    known: dict[Any, Any] = field(default_factory=dict)
    is_strict: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        lists: list[tuple[list[Any], bool]],
        schemas: list[Described],
        is_plain: bool,
    ) -> Column:
        """Return what is known of a column.

        Parameters
        ----------
        name : str
        lists : list of (values, whether no others are taken)
            Of encoders.
        schemas : list of Numeric or Categorical
        is_plain : bool
        """
        schemas = list(dict.fromkeys(schemas))
        lists += [(list(c.categories), True) for c in schemas if isinstance(c, Categorical)]
        told = tuple(schemas), is_plain
        if not lists:
            return cls(name, *told)
        common = [
            value
            for value in lists[0][0]
            if not is_missing(value) and all(value in values for values, _ in lists)
        ]
        if not common:
            raise ValueError(
                f"Categories of column {name!r} are listed more than once, and there is no value "
                "that all of the lists hold; give them at least one value in common."
            )
        listed = {value: None for values, _ in lists for value in values if not is_missing(value)}
        known = list(check_listed(f"An encoder of column {name!r}", list(listed)))
        if not _are_names(known):
            common, known = ([float(value) for value in values] for values in (common, known))
        is_strict = any(strict for _, strict in lists)
        return cls(name, *told, common, {value: value for value in known}, is_strict)

    @property
    def holds_names(self) -> bool:
        """Whether anything but numbers is listed."""
        return _are_names(self.known)

    def read(self, cells: Any) -> NDArray:
        """Return cells as float64, or as objects that are equal to one that is listed or left.

        Raises
        ------
        ValueError
            For what is no number where one is due. The message tells no value.
        TypeError
            For what never is one.
        """
        column = read_column(cells)
        if not self.is_plain:
            for schema in self.schemas:  # which take what they read, or raise
                read_cells(schema, column, self.name)
            if not self.schemas:
                return np.zeros(len(column))
        try:
            if not self.holds_names:
                return _finite(column)
            if column.dtype.kind in "mM":
                raise CellError("times")
            return _objects([self._name(cell) for cell in column.tolist()])
        except CellError as error:
            fault = error
        # Out here, without the error above.
        if fault.fault == "words":
            raise ValueError(f"Column {self.name!r} {_NO_NUMBER}")
        raise cell_error(fault, "X", f" in column {self.name!r}")

    def _name(self, cell: Any) -> Any:
        if is_missing(cell):
            return cell if self.is_plain else None
        try:
            return self.known.get(cell, cell)
        except TypeError:  # a list, say
            return str(type(cell))

    def odd(self, values: NDArray) -> list[Any]:
        """Return what steps may refuse of values that were read, each once."""
        if not self.is_plain:
            return []
        if values.dtype != object:
            some = np.unique(values)  # NaN is one
            unlisted = ~np.isin(some, list(self.known)) & self.is_strict
            return some[np.isnan(some) | unlisted].tolist()
        found = {
            (type(value), None if is_missing(value) else value): value
            for value in values
            if is_missing(value) or (self.is_strict and value not in self.known)
        }
        return list(found.values())

    def sample(self, u: NDArray, spread: int = 1) -> NDArray:
        """Return a public value for each number of [0, 1): all read it.

        It is evenly one of those that are listed, or of the range of a schema, or in
        [0, `spread`).
        """
        may_miss = not self.is_plain and all(schema.missing for schema in self.schemas)
        if self.values is None:
            ranges = [c for c in self.schemas if isinstance(c, Numeric) and c.bounds is not None]
            if ranges:
                return replace(ranges[0], missing=may_miss).sample(u)
            return np.floor(spread * u) + 0.21875 if spread > 1 else u
        values = [*self.values, None] if may_miss else self.values
        cells = [values[k] for k in (u * len(values)).astype(int)]
        return _objects(cells) if self.holds_names else np.array(cells, np.float64)


def _finite(column: NDArray) -> NDArray:
    numbers = exact_numbers(column)
    if np.isinf(numbers).any():
        raise CellError("infinite")
    return numbers


def _are_names(values: Iterable[Any]) -> bool:
    return any(not isinstance(value, Real | np.bool_) for value in values)


def _objects(values: list[Any]) -> NDArray:
    """Return values as they are, in an array."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _as_array(cells: Any) -> NDArray:
    """Return cells of a column that was read: floats, or objects."""
    if getattr(cells.dtype, "kind", "") == "f" or str(cells.dtype) == "Float64":
        return np.asarray(cells)
    return _objects(cells.to_list() if hasattr(cells, "to_list") else cells.tolist())


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
        """Return what the steps of some estimators, their columns settled, tell of a table.

        Raises
        ------
        ValueError
            For an encoder that would take its categories from the rows, and a schema of another
            table.
        """
        names = list(getattr(schema, "columns", [f"x{j}" for j in range(schema.shape[1])]))
        if len(set(names)) < len(names):
            raise ValueError("X has two columns of the same name; rename one.")
        lists: list[list[Any]] = [[] for _ in names]
        schemas: list[list[Described]] = [[] for _ in names]
        plain = set()
        for estimator in estimators:
            for step, columns in meetings(estimator, schema):
                if isinstance(step, Pipeline | ColumnTransformer | FeatureUnion):
                    continue
                told = described(step, columns, schema)
                if told is None:
                    plain.update(columns)
                for j, column in (told or {}).items():
                    schemas[j].append(column)
                for j, listed in zip(columns, _lists_of(step), strict=False):  # it complains
                    lists[j].append(listed)
        known = [Column.of(str(n), lists[j], schemas[j], j in plain) for j, n in enumerate(names)]
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

    def odd(self, X: Any) -> dict[int, list[Any]]:
        """Return by column what steps may refuse of a table that was read, each value once."""
        found = {j: column.odd(_as_array(_cells(X, j))) for j, column in enumerate(self.columns)}
        return {j: values for j, values in found.items() if values}

    def sample(self, m: int) -> Any:
        """Return m public rows that fill ranges, [0, 1] where there is none, and lists evenly."""
        return self._table(self._sampled(m, 0))

    def _sampled(self, m: int, seed: int, spread: int = 1) -> list[NDArray]:
        rng = np.random.RandomState(seed)
        return [column.sample(stratified(m, rng), spread) for column in self.columns]

    def least_rows(self) -> int:
        """Return how many rows hold all values that are listed."""
        return 2 * max(len(column.values or ()) + 1 for column in self.columns)

    def with_odd(self, rows: Any, odd: dict[int, list[Any]]) -> Any:
        """Return copies of the first of some rows that was read, each with one odd value."""
        places = [(j, value) for j, values in odd.items() for value in values]
        first = [_as_array(_cells(rows, j))[:1] for j in range(len(self.columns))]
        parts = [np.repeat(value, len(places)) for value in first]
        for i, (j, value) in enumerate(places):
            parts[j][i] = value
        return self._table(parts)

    def own_and_read(self) -> tuple[Any, Any]:
        """Return public rows with the types of the user's table, and the same rows as read.

        Raises
        ------
        ValueError
            If what is listed of a column cannot be in a column of its type.
        """
        # Beyond [0, 1], so that integers differ, and off whatever edges steps have.
        parts = self._sampled(max(12, self.least_rows()), 1, spread=100)
        own = self._table(parts)
        if not any(column.is_plain for column in self.columns):
            return own, own  # schemas read any types alike
        own = _cast(own, self.schema)
        for j, (column, part) in enumerate(zip(self.columns, parts, strict=True)):
            listed = column.is_plain and column.known
            if listed and not _survives(column, part, _cells(own, j)):
                raise ValueError(
                    f"Column {column.name!r} of X has dtype {_cells(self.schema, j).dtype}, whose "
                    f"values are never those in `categories` of its encoder, {column.values!r}; "
                    "list them as the column holds them."
                )
        return own, self(own)


def _lists_of(step: Any) -> Iterator[tuple[list[Any], bool]]:
    """Yield the values that an encoder lists of each of its columns, and whether it is strict.

    It may refuse what is not listed.
    """
    if not isinstance(step, OneHotEncoder | OrdinalEncoder):
        return
    if isinstance(step.categories, str):
        raise ValueError(
            f"{type(step).__name__} has categories={step.categories!r}, which would be read off "
            "the private rows; list the public values of its columns: categories=[[...], ...]."
        )
    for values in step.categories:
        yield np.asarray(values, dtype=object).tolist(), step.handle_unknown == "error"


def _cells(X: Any, j: int) -> Any:
    return X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]


def _survives(column: Column, values: NDArray, cast: Any) -> bool:
    """Return whether values are read as they were after a cast, but for those that it loses."""
    try:
        read = column.read(cast)
    except (TypeError, ValueError):
        return False
    kept = [(a, b) for a, b in zip(values, read, strict=True) if not is_missing(b)]
    return bool(kept) and all(type(a) is type(b) and a == b for a, b in kept)


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
