"""An owner's Parquet or CSV file as the agreement describes it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from ._agreement import Agreement
from ._owner_log import Refusal

# Arrow's names of types, where they are others than numpy's.
_ARROW = {"float32": "float", "float64": "double"}


def check_table(path: str | os.PathLike, agreement: Agreement) -> None:
    """Raise Refusal, by name, if the file has other columns or dtypes than agreed.

    Reads the schema of a Parquet file, and the first line of a CSV file, which has no dtypes.
    """
    wanted = _wanted(agreement)
    if _is_csv(path):
        with Path(path).open(encoding="utf-8-sig") as file:
            first = pa.BufferReader(file.readline().encode())
        known = dict.fromkeys(pyarrow.csv.read_csv(first).column_names)
    else:
        schema = pyarrow.parquet.read_schema(path)
        known = {name: str(schema.field(name).type) for name in set(schema.names)}
    for name, dtype in wanted.items():
        if name not in known:
            raise Refusal(f"columns: the table has no column {name!r}")
        if known[name] is not None and known[name] != _ARROW.get(dtype, dtype):
            raise Refusal(f"dtypes: column {name!r} is not {dtype} in the table")


def read_table(
    path: str | os.PathLike, agreement: Agreement, *, labels: bool = True
) -> tuple[NDArray, NDArray | None]:
    """Return the columns of the agreement, in its order, and the labels.

    Parameters
    ----------
    path : path-like
        A Parquet file, or a CSV file if its name ends in .csv.
    agreement : Agreement
    labels : bool, default=True
        Whether there is a column of labels to be read, too.

    Returns
    -------
    X : ndarray of shape (n, n_columns), in ``agreement.dtype``
    y : ndarray of shape (n,) or None
    """
    wanted = _wanted(agreement, labels)
    if _is_csv(path):
        types = {name: pa.type_for_alias(dtype) for name, dtype in wanted.items()}
        options = pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(wanted))
        table = pyarrow.csv.read_csv(path, convert_options=options)
    else:
        table = pyarrow.parquet.read_table(path, columns=list(wanted))
    X = np.empty((len(table), len(agreement.columns)), agreement.dtype)
    for j, name in enumerate(agreement.columns):
        X[:, j] = table[name].to_numpy()  # a missing value is NaN, which is refused later on
    if agreement.labels is None or not labels:
        return X, None
    if table[agreement.labels].null_count:
        raise ValueError(f"Column {agreement.labels!r} has missing values.")
    y = table[agreement.labels].to_numpy()
    return X, y.astype(np.str_ if agreement.labels_dtype == "string" else agreement.labels_dtype)


def _wanted(agreement: Agreement, labels: bool = True) -> dict[str, str]:
    wanted = dict(zip(agreement.columns, agreement.dtypes, strict=True))
    if agreement.labels is not None and labels:
        wanted[agreement.labels] = agreement.labels_dtype
    return wanted


def _is_csv(path: str | os.PathLike) -> bool:
    return Path(path).suffix.lower() == ".csv"
