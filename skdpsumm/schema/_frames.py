"""Frames of pandas, polars and Arrow, known by what they can do: labels, columns and rows of them.

A schema knows columns by words or by positions. A frame of pandas may have other labels: numbers in
any order, or tuples of a MultiIndex. Read by position, such columns are soon mistaken for others,
and nothing says so. So labels are words, or the positions 0, 1, ... themselves, for which a label
and a position are the same. All other labels are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

AS_WORDS = "X.set_axis([str(label) for label in X.columns], axis=1)"
OTHER_LABELS = (
    "The columns of the table have labels that are neither words nor the positions 0, 1, ... in "
    f"order. Make them words: X = {AS_WORDS}. Use the same words in a schema."
)
TWO_NAMES = "The table has two columns of one name. Rename one of them."
NO_NAMES = (
    "The columns of the table have no names: their labels are 0, 1, ... Give them the names that "
    "the schema or the first table has: X = X.set_axis([...], axis=1)."
)


def is_arrow(X: Any) -> bool:
    """Whether X is a table or a record batch of pyarrow."""
    return hasattr(X, "num_columns") and hasattr(getattr(X, "schema", None), "empty_table")


def is_arrow_column(column: Any) -> bool:
    """Whether a column is an array of pyarrow, in one piece or in chunks."""
    return hasattr(column, "to_pylist") and hasattr(column, "null_count")


def labels_of(X: Any) -> list[Any]:
    """Return the labels of the columns of a frame; none for what has no labels."""
    return list(X.schema.names if is_arrow(X) else getattr(X, "columns", ()))


def names_of(X: Any) -> list[str] | None:
    """Return the labels of the columns of a frame if these are words, None if they are positions.

    Raises
    ------
    ValueError
        For labels of another kind, and for one that two columns have.
    """
    labels = labels_of(X)
    if len(set(labels)) < len(labels):
        raise ValueError(TWO_NAMES)
    if labels and all(isinstance(label, str) for label in labels):
        return [str(label) for label in labels]
    if labels == list(range(len(labels))):
        return None
    raise ValueError(OTHER_LABELS)


def column_of(X: Any, j: int) -> Any:
    """Return a column of a frame, by its position."""
    return X.column(j) if is_arrow(X) else _safe_indexing(X, j, axis=1)


def rows_of(X: Any, rows: Any) -> Any:
    """Return some rows of a table of any kind, or some entries of a column.

    Parameters
    ----------
    X : array-like, frame, or column
    rows : slice without a step, or array-like of positions or of bool
    """
    if not isinstance(rows, slice):
        rows = np.asarray(rows)  # polars takes no list of numpy's integers
        rows = rows if rows.dtype == bool else rows.astype(np.int64)
    if not (is_arrow(X) or is_arrow_column(X)):
        return _safe_indexing(X.tocsr() if sparse.issparse(X) else X, rows)
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(len(X))
        return X.slice(start, max(stop - start, 0))
    return X.take(np.flatnonzero(rows) if rows.dtype == bool else rows)


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table, or of entries of a column."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def as_sklearn_sees_it(X: Any) -> Any:
    """Return a record batch as a table, whose names scikit-learn sees; all others as they are."""
    if is_arrow(X) and not hasattr(X, "to_batches"):
        from pyarrow import Table

        return Table.from_batches([X])
    return X


def arrow_cells(column: Any) -> NDArray:
    """Return the cells of a column of pyarrow as they are, None or NaN where there is none.

    numpy takes them only where nothing but a cell's own type decides what becomes of it: whole
    numbers beside a missing one would become floats, and of a dictionary pyarrow takes a missing
    word for another.
    """
    from pyarrow import types

    kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind):
        dates = np.concatenate([part.to_numpy(zero_copy_only=False) for part in _chunks(column)])
        return dates if getattr(kind, "tz", None) is None else in_utc(dates)
    if types.is_temporal(kind):  # spans are what no column takes
        return np.zeros(len(column), "m8[s]")
    plain = types.is_floating(kind) or (types.is_primitive(kind) and not column.null_count)
    with suppress(Exception):  # whose texts quote cells
        if plain:
            return np.concatenate([part.to_numpy(zero_copy_only=False) for part in _chunks(column)])
        return cells_as_objects(column.to_pylist())
    # One cell that Python cannot hold, such as a text that is not UTF-8, decides nothing of others.
    return one_by_one(len(column), lambda i: column[i].as_py())


def within_years(dates: NDArray) -> NDArray:
    """Return datetimes of numpy with the first and the last year for those beyond 1 to 9999.

    Units finer than microseconds hold no such years, and numpy makes no hours of the finest ones.
    It rounds down, so the first day that a unit holds would pass its end and come out as the last.
    """
    if np.datetime_data(dates.dtype)[0] in ("generic", "ns", "ps", "fs", "as"):
        for unit, span in ((dates.dtype, 10**9), ("M8[ns]", 86_400 * 10**9)):
            first = np.array(np.iinfo(np.int64).min + span).astype(unit)
            dates = np.maximum(dates, first).astype("M8[ns]")
        return dates
    ends = np.array(["0001-01-01", "9999-12-31"], "M8[D]").astype(dates.dtype)
    return np.clip(dates, *ends)


def in_utc(dates: NDArray) -> NDArray:
    """Return datetimes that numpy has in UTC, without saying so, as Python's, which say it."""
    cells = within_years(dates).astype("M8[us]").tolist()
    return cells_as_objects([cell and cell.replace(tzinfo=UTC) for cell in cells])


def cells_as_objects(cells: Sequence[Any]) -> NDArray:
    """Return cells as they are, in an array of objects."""
    return np.fromiter(cells, object, len(cells))  # which does not look into sequences


def one_by_one(n_rows: int, read: Callable[[int], Any]) -> NDArray:
    """Return what is read of each row, and an object that no column takes where that fails."""
    found = np.full(n_rows, object())
    for i in range(n_rows):
        with suppress(Exception):  # whose texts quote cells
            found[i] = read(i)
    return found


def _chunks(column: Any) -> list[Any]:
    return (column.chunks or [column.combine_chunks()]) if hasattr(column, "chunks") else [column]


def to_pandas(X: Any) -> Any:
    """Return a table of pyarrow as a frame of pandas with the same cells, whole numbers included.

    Raises
    ------
    ValueError
        If pandas is not installed.
    """
    try:
        from pandas import DataFrame, Series
    except ImportError:
        raise ValueError(
            f"Install pandas, or give a frame of polars: X is a {type(X).__name__} of pyarrow, "
            "which a search reads as a frame of pandas."
        ) from None
    cells = [arrow_cells(X.column(j)) for j in range(X.num_columns)]
    columns = [Series(column, dtype=column.dtype) for column in cells]
    return DataFrame(dict(zip(labels_of(X), columns, strict=True)))
