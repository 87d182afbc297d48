"""Tables of owners as the agreement describes them: from files to codes, and back to cells.

A code is what a column of the schema reads of a cell: a number in its range and on its grid, NaN
where it is missing, or the position of a category in its list. Rows travel as codes, in float64.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from ..schema._columns import Categorical, Column, Date, Numeric
from ..schema._reading import Table, cells_as_objects, read_column
from ..schema._schema import TableSchema
from ..schema._vectorizer import vectorize
from ._files import Refusal

# What stands for a missing cell in a CSV file, in any case, unless it is a category.
_ABSENT = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
_TRUTH = {"true": True, "false": False}


# ---- files


def check_table(path: str | os.PathLike, schema: TableSchema, known: Sequence[str] = ()) -> None:
    """Raise Refusal, by name, if the file has other columns than agreed, but for `known` ones.

    Only names are read, for cells are read one by one, whatever dtypes a file has.
    """
    names, wanted = _names(path), schema.names or ()
    for name in wanted:
        if names.count(name) != 1:
            many = "no" if name not in names else "more than one"
            raise Refusal(f"columns: the table has {many} column {name!r}")
    extra = set(names) - {*wanted, *known}
    if extra and schema.extra_columns == "refuse":
        raise Refusal(
            "columns: the table has some that the schema does not describe, and extra_columns is "
            '"refuse"'
        ) from ValueError(f"These columns are not described: {sorted(extra)}.")


def read_table(path: str | os.PathLike, schema: TableSchema) -> NDArray[np.float64]:
    """Return the columns of a schema as codes, in its order, shape (n, n_columns).

    Parameters
    ----------
    path : path-like
        A Parquet file, or a CSV file if its name ends in .csv.
    schema : TableSchema

    Raises
    ------
    ValueError
        For cells that their column does not take, in words that name the column and no value.
    """
    wanted = list(schema.names or ())
    if _is_csv(path):
        # All are read as text: a type made out of all cells would let one row change the others.
        texts = dict.fromkeys(wanted, pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=texts, include_columns=wanted)
        table = pyarrow.csv.read_csv(path, convert_options=options)
        cells = list(map(_cells_of_text, schema.columns, table.itercolumns()))
    else:
        cells = [
            read_column(c)
            for c in pyarrow.parquet.read_table(path, columns=wanted).select(wanted).itercolumns()
        ]
    read = schema.in_steps(Table(cells))
    return np.column_stack([schema.read(read, j) for j in range(schema.n_columns)]).astype(float)


def _names(path: str | os.PathLike) -> list[str]:
    if not _is_csv(path):
        return list(pyarrow.parquet.read_schema(path).names)
    with Path(path).open(encoding="utf-8-sig") as file:
        return pyarrow.csv.read_csv(pa.BufferReader(file.readline().encode())).column_names


def _is_csv(path: str | os.PathLike) -> bool:
    return Path(path).suffix.lower() == ".csv"


def _cells_of_text(column: Column, texts: pa.ChunkedArray) -> NDArray:
    """Return what each text of a CSV file stands for in a column of the schema."""
    # By the text itself where it is listed, so that "NA" can be a category, and "9" a code.
    listed = [*getattr(column, "categories", ()), *column.missing_values]
    known: dict[str, Any] = {word: word for word in listed if isinstance(word, str)}
    if isinstance(column, Numeric) and not isinstance(column, Date):
        plain = pc.utf8_trim_whitespace(texts)
        absent = pc.is_in(pc.utf8_lower(plain), value_set=pa.array(_ABSENT))
        listed = pc.is_in(texts, value_set=pa.array(list(known), pa.string()))
        try:
            return pc.cast(pc.if_else(pc.or_(absent, listed), None, plain), pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            return cells_as_objects(texts.to_pylist())  # which the column refuses by its name
    read = str.strip if isinstance(column, Date) else _from_text
    for text in pc.unique(texts).to_pylist():
        absent = text.strip().lower() in _ABSENT
        known.setdefault(text, None if absent else read(text))
    return cells_as_objects([known[text] for text in texts.to_pylist()])


def _from_text(text: str) -> Any:
    """Return the number or truth value that a text spells, None for a missing cell, or the text."""
    plain = text.strip().lower()
    if plain in _ABSENT or plain in _TRUTH:
        return _TRUTH.get(plain)
    for kind in (int, float):
        with suppress(ValueError):
            return kind(plain)
    return text


# ---- codes


def check_codes(schema: TableSchema, codes: NDArray) -> None:
    """Raise Refusal for what no row of the schema is read as; names no value."""
    if codes.shape[1] != schema.n_columns:
        raise Refusal("sent rows of another shape than agreed")
    for j, column in enumerate(schema.columns):
        if not _are_codes(column, codes[:, j]):
            raise Refusal(f"sent rows that column {schema.name(j)!r} of the schema does not take")


def _are_codes(column: Column, codes: NDArray) -> bool:
    if isinstance(column, Categorical):
        return bool(np.all((codes >= 0) & (codes < column.n_codes) & (codes == np.floor(codes))))
    assert isinstance(column, Numeric)
    try:
        return np.array_equal(column.read(codes), codes, equal_nan=True)
    except ValueError:  # missing where none may be, or infinite
        return False


def cells_of(schema: TableSchema, codes: NDArray[np.float64]) -> dict[str, NDArray]:
    """Return what codes stand for, by column: numbers, dates, or categories as they are listed."""
    cells: dict[str, NDArray] = {}
    for name, column, read in zip(schema.names or (), schema.columns, codes.T, strict=True):
        if isinstance(column, Categorical):  # as objects: no common dtype of all of them
            cells[name] = cells_as_objects([*column.categories, None])[read.astype(np.int64)]
        else:
            cells[name] = column.decode(read)
    return cells


def vectors_of(schema: TableSchema, codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows as the kernel sees them; those of the table that codes were read from."""
    return vectorize(schema, schema.in_steps(Table(list(cells_of(schema, codes).values()))))


def to_arrow(schema: TableSchema, codes: NDArray[np.float64]) -> pa.Table:
    """Return what codes stand for as a table for a file."""
    columns = zip(schema.columns, cells_of(schema, codes).items(), strict=True)
    return pa.table({name: _arrow_of(column, cells) for column, (name, cells) in columns})


def _arrow_of(column: Column, cells: NDArray) -> pa.Array:
    if not isinstance(column, Categorical):
        return pa.array(cells, from_pandas=True)
    try:
        return pa.array(cells.tolist(), pa.array(column.categories).type)
    except (pa.ArrowException, OverflowError):  # of several kinds, which become words
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
