"""Synthetic rows as a table that users know: a frame with names and kinds, or an array."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from ...privacy import PrivacyGuarantee
from ...schema._columns import Numeric
from ...schema._schema import TableSchema

# Beyond these, floats are no whole numbers.
_LARGEST_WHOLE = 2**53


def framed(rows: NDArray, schema: TableSchema, frame: str | None, privacy: PrivacyGuarantee) -> Any:
    """Return rows as a table: whole numbers, numbers and categories, as the schema says.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    schema : TableSchema
    frame : {"pandas", "polars", "auto", None}
        As in `Estimate`. None, or a schema without names: an array.
    privacy : PrivacyGuarantee
        Is told in ``attrs`` of a pandas frame.
    """
    library = _library(frame)
    if library is None or schema.names is None:
        return rows
    columns = {name: _typed(rows[:, j], schema, j) for j, name in enumerate(schema.names)}
    if library == "polars":
        import polars as pl

        return pl.DataFrame({name: _polars(pl, name, cells) for name, cells in columns.items()})
    import pandas as pd

    table = pd.DataFrame({name: pd.Series(cells) for name, cells in columns.items()})
    table.attrs["privacy"] = privacy.badge  # text, which every format of files can hold
    return table


def _library(frame: str | None) -> str | None:
    if frame != "auto":
        return frame
    chosen = get_config()["transform_output"]
    if chosen != "default":
        return chosen
    return None if find_spec("pandas") is None else "pandas"


def _typed(cells: NDArray, schema: TableSchema, j: int) -> Any:
    """Return a column as whole numbers, floats, or a list of categories."""
    column = schema.columns[j]
    if not isinstance(column, Numeric):
        # As they were given: 1 for 1.0, and None for a missing one, be it None or NaN.
        given = {value: value for value in column.categories}
        return [given.get(cell) for cell in cells.tolist()]
    numbers = cells.astype(np.float64)
    assert column.bounds is not None  # nothing is answered without
    low, high = column.bounds
    whole = column.step is not None and float(column.step).is_integer() and float(low).is_integer()
    if whole and not column.missing and max(abs(low), abs(high)) <= _LARGEST_WHOLE:
        return np.rint(numbers).astype(np.int64)
    return numbers


def _polars(pl: Any, name: str, cells: Any) -> Any:
    if isinstance(cells, list):
        return pl.Series(name, cells, strict=False)
    return pl.Series(name, cells).fill_nan(None) if cells.dtype.kind == "f" else cells
