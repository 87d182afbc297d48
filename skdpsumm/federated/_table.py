"""Tables of owners as the agreement describes them: from files to codes, and back to cells.

A code is what a column of the schema reads of a cell: a number in its range and on its grid, NaN
where it is missing, or the position of a category in its list. Rows travel as codes, in float64.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from ..schema._columns import Categorical, Column, Date, Numeric
from ..schema._frames import arrow_cells, cells_as_objects
from ..schema._reading import Table
from ..schema._schema import TableSchema
from ..schema._vectorizer import vectorize
from ._agreement import Agreement
from ._owner_log import Refusal

# What stands for a missing cell in a CSV file, in any case, unless it is a category.
_ABSENT = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
_TRUTH = {"true": True, "false": False}
_ARROW = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


# ---- files


def check_table(path: str | os.PathLike, agreement: Agreement, *, labels: bool = True) -> None:
    """Raise Refusal, by name, if the file has other columns than agreed.

    Only names are read, for cells are read one by one, whatever dtypes a file has.
    """
    names, wanted = _names(path), _wanted(agreement, labels)
    for name in wanted:
        if names.count(name) != 1:
            many = "no" if name not in names else "more than one"
            raise Refusal(f"columns: the table has {many} column {name!r}")
    extra = set(names) - set(wanted) - {agreement.labels}
    if extra and agreement.schema.extra_columns == "refuse":
        raise Refusal(
            "columns: the table has some that the schema does not describe, and extra_columns is "
            '"refuse"',
            f"columns that are not described: {sorted(extra)}",
        )


def read_table(
    path: str | os.PathLike, agreement: Agreement, *, labels: bool = True
) -> tuple[NDArray[np.float64], NDArray | None]:
    """Return the columns of the agreement as codes, in its order, and the labels.

    Parameters
    ----------
    path : path-like
        A Parquet file, or a CSV file if its name ends in .csv.
    agreement : Agreement
    labels : bool, default=True
        Whether there is a column of labels to be read, too.

    Returns
    -------
    codes : ndarray of shape (n, n_columns), float64
    y : ndarray of shape (n,) or None

    Raises
    ------
    ValueError
        For cells that their column does not take, in words that name the column and no value.
    """
    schema, wanted = agreement.schema, _wanted(agreement, labels)
    if _is_csv(path):
        # All are read as text: a type made out of all cells would let one row change the others.
        texts = dict.fromkeys(wanted, pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=texts, include_columns=wanted)
        table = pyarrow.csv.read_csv(path, convert_options=options)
        cells = [
            _cells_of_text(column, table[name], name)
            for name, column in zip(schema.names, schema.columns, strict=True)
        ]
    else:
        table = pyarrow.parquet.read_table(path, columns=wanted)
        cells = [arrow_cells(table[name]) for name in schema.names]
    read = schema.in_steps(Table(cells))
    codes = np.empty((len(table), schema.n_columns))
    for j in range(schema.n_columns):
        codes[:, j] = schema.read(read, j)
    if agreement.labels is None or not labels:
        return codes, None
    return codes, _labels(table[agreement.labels], agreement)


def _names(path: str | os.PathLike) -> list[str]:
    if not _is_csv(path):
        return list(pyarrow.parquet.read_schema(path).names)
    with Path(path).open(encoding="utf-8-sig") as file:
        return pyarrow.csv.read_csv(pa.BufferReader(file.readline().encode())).column_names


def _wanted(agreement: Agreement, labels: bool) -> list[str]:
    own = [] if agreement.labels is None or not labels else [agreement.labels]
    return [*agreement.schema.names, *own]


def _is_csv(path: str | os.PathLike) -> bool:
    return Path(path).suffix.lower() == ".csv"


def _cells_of_text(column: Column, texts: pa.ChunkedArray, name: str) -> NDArray:
    """Return what each text of a CSV file stands for in a column of the schema."""
    if isinstance(column, Date):
        words = [text.strip() for text in texts.to_pylist()]
        return cells_as_objects([None if word.lower() in _ABSENT else word for word in words])
    if isinstance(column, Numeric):
        words = [code for code in column.missing_values if isinstance(code, str)]
        return _numbers(texts, pa.float64(), name, words).to_numpy()
    assert isinstance(column, Categorical)
    # By the text itself where it is listed, so that "NA" can be a category, and "9" a code.
    listed = [*column.categories, *column.missing_values]
    known: dict[str, Any] = {word: word for word in listed if isinstance(word, str)}
    found = []
    for text in texts.to_pylist():
        if text not in known:
            known[text] = _from_text(text)
        found.append(known[text])
    return cells_as_objects(found)


def _from_text(text: str) -> Any:
    """Return the number or truth value that a text spells, None for a missing cell, or the text."""
    plain = text.strip().lower()
    if plain in _ABSENT:
        return None
    if plain in _TRUTH:
        return _TRUTH[plain]
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return text


def _numbers(
    texts: pa.ChunkedArray, kind: pa.DataType, name: str, words: Sequence[str] = ()
) -> pa.ChunkedArray:
    """Return texts as numbers or truth values, null for a missing cell and for these words."""
    plain = pc.utf8_trim_whitespace(texts)
    absent = pc.or_(
        pc.is_in(pc.utf8_lower(plain), value_set=pa.array(_ABSENT)),
        pc.is_in(texts, value_set=pa.array(words, pa.string())),
    )
    try:
        return pc.cast(pc.if_else(absent, None, plain), kind)
    except pa.ArrowInvalid:
        pass  # its text quotes a cell
    wanted = "truth value" if pa.types.is_boolean(kind) else "number"
    raise ValueError(f"Column {name!r} holds text that is not a {wanted}.")


def _labels(column: pa.ChunkedArray, agreement: Agreement) -> NDArray:
    name, kind = str(agreement.labels), pa.type_for_alias(agreement.labels_dtype)
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if pa.types.is_large_string(column.type):  # as polars writes words
        column = pc.cast(column, pa.string())
    if pa.types.is_string(column.type) and not pa.types.is_string(kind):
        column = _numbers(column, kind, name)
    elif column.type != kind:
        column = _cast(column, kind, name)
    if column.null_count:
        raise ValueError(f"Column {name!r} has missing labels; leave out such rows.")
    y = column.to_numpy()
    return y.astype(np.str_) if agreement.labels_dtype == "string" else y


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    """Return a column of another type, or raise ValueError where that would change a cell."""
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # its text quotes a cell
    raise ValueError(f"Column {name!r} holds {column.type} that is not all of type {kind}.")


# ---- codes


def check_codes(schema: TableSchema, codes: NDArray) -> None:
    """Raise ValueError for what no row of the schema is read as; names no value."""
    if codes.shape[1] != schema.n_columns:
        raise ValueError("sent rows of another shape than agreed")
    for j, column in enumerate(schema.columns):
        if not _are_codes(column, codes[:, j]):
            raise ValueError(
                f"sent rows that column {schema.name(j)!r} of the schema does not take"
            )


def _are_codes(column: Column, codes: NDArray) -> bool:
    if isinstance(column, Categorical):
        return bool(np.all((codes >= 0) & (codes < column.n_codes) & (codes == np.floor(codes))))
    assert isinstance(column, Numeric)
    try:
        return np.array_equal(column.read(codes), codes, equal_nan=True)
    except ValueError:  # missing where none may be, or infinite
        return False


def cells_of(schema: TableSchema, codes: NDArray[np.float64]) -> Table:
    """Return the cells that codes stand for: numbers, or categories as the schema lists them."""
    columns = []
    for j, column in enumerate(schema.columns):
        cells = codes[:, j]
        if isinstance(column, Categorical):  # as objects: no common dtype of all of them
            cells = cells_as_objects([*column.categories, None])[cells.astype(np.int64)]
        columns.append(cells)
    return Table(columns)


def vectors_of(schema: TableSchema, codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows as the kernel sees them; those of the table that codes were read from."""
    return vectorize(schema, cells_of(schema, codes))


def to_arrow(column: Column, cells: NDArray) -> pa.Array:
    """Return the cells of a column for a file; categories of several kinds become words."""
    if isinstance(column, Numeric):
        return pa.array(column.decode(cells), from_pandas=True)
    assert isinstance(column, Categorical)
    kinds = {type(category) for category in column.categories}
    whole = kinds == {int} and all(abs(category) < 2**63 for category in column.categories)
    if len(kinds) == 1 and (whole or kinds != {int}):
        return pa.array(cells.tolist(), _ARROW[kinds.pop()])
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
