"""Frames that go out: in the library of the table that came in, and with its labels.

Frames of pandas have an index, which holds the labels of the rows. Those of polars and pyarrow have
none, so there the labels are the first columns.
"""

# No narwhals here: it builds a frame from a dict, which takes two lines of ours, and it has no
# index, which is all that differs between the libraries.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from ..schema._columns import Date, Numeric
from ..schema._schema import TableSchema, stack_columns


def chosen(frame: str | None) -> str | None:
    """Return the library of frames, where "auto" is what scikit-learn is told; None for arrays."""
    if frame != "auto":
        return frame
    told = get_config()["transform_output"]
    if told != "default":
        return told
    return None if find_spec("pandas") is None else "pandas"


def frame_of(columns: Mapping[str, Any], library: str) -> Any:
    """Return a frame of these columns."""
    module = import_module(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def labelled(
    labels: Mapping[str, Sequence[str]],
    heads: Sequence[str],
    values: Any,
    library: str,
    index: Sequence[str | None] | None = None,
) -> Any:
    """Return a frame: the labels first, then each column of values by its head.

    In pandas, labels are the index where their names in it are given.
    """
    names = distinct([*labels, *heads], last=len(heads))
    frame = frame_of(dict(zip(names, [*labels.values(), *values], strict=True)), library)
    if library == "pandas" and index is not None:
        frame = frame.set_index(names[: len(labels)]).rename_axis(index)
        frame.columns = list(heads)
    return frame


def distinct(names: Sequence[str], last: int = 0) -> list[str]:
    """Return names that differ; repeated ones get underscores, and the `last` ones come first."""
    first = len(names) - last
    taken: set[str] = set()
    found = list(names)
    for k in [*range(first, len(names)), *range(first)]:
        while found[k] in taken:
            found[k] += "_"
        taken.add(found[k])
    return found


def framed(
    cells: Sequence[NDArray | None],
    schema: TableSchema,
    frame: str | None,
    badge: str,
    base: Any = None,
) -> Any:
    """Return columns as a table: whole numbers, numbers and categories, as the schema says.

    Parameters
    ----------
    cells : sequence of ndarray of shape (n,) or None
        None stands for a column of `base`.
    schema : TableSchema
    frame : {"pandas", "polars", "pyarrow", "auto", None}
        As in `Estimate`. None, or a schema without names: an array.
    badge : str
        What protects the rows, which is told in ``attrs`` of a pandas frame.
    base : frame, default=None
        A frame that has some of the columns already. None, where all are made.
    """
    library = chosen(frame)
    if library is None or schema.names is None:
        return schema.with_dates(stack_columns([own for own in cells if own is not None]))
    made = {
        name: _typed(own, schema, j)
        for j, (name, own) in enumerate(zip(schema.names, cells, strict=True))
        if own is not None
    }
    if library == "pandas" and base is not None:  # a new index takes longer than the columns
        table = base.copy()
        for name, column in made.items():
            table[name] = column
        return table
    # Each library has its own mark of a missing value.
    if library == "pyarrow":
        import pyarrow as pa

        made = {name: pa.array(column, from_pandas=True) for name, column in made.items()}
    every = {name: made[name] if name in made else base[name] for name in schema.names}
    table = frame_of(every, library)
    if library == "polars":
        table = table.fill_nan(None)
    if library == "pandas":
        table.attrs["privacy"] = badge  # text, which every format of files can hold
    return table


def _typed(cells: NDArray, schema: TableSchema, j: int) -> Any:
    """Return a column as whole numbers, floats, dates, or a list of categories."""
    column = schema.columns[j]
    if not isinstance(column, Numeric):
        # Categories come back as they were given: 1 for 1.0, and None for None or NaN.
        given = dict(zip(column.categories, of_one_kind(column.categories), strict=True))
        return [given.get(cell) for cell in cells.tolist()]
    numbers = cells.astype(np.float64)
    if isinstance(column, Date):
        return column.decode(numbers)
    assert column.bounds is not None  # nothing is answered without
    low, high = column.bounds
    whole = column.step is not None and float(column.step).is_integer() and float(low).is_integer()
    # Floats hold all whole numbers up to 2**53.
    if whole and not column.missing and max(abs(low), abs(high)) <= 2**53:
        return np.rint(numbers).astype(np.int64)
    return numbers


def of_one_kind(categories: Sequence[Any]) -> list[Any]:
    """Return categories as a column of any frame can hold them.

    Words beside others make words of these, and numbers make numbers of truth values. So the rows
    that are drawn do not decide a column's type.
    """
    kinds = {type(value) for value in categories}
    if len(kinds) == 1:
        return list(categories)
    kind = str if str in kinds else float if float in kinds else int
    return [kind(value) for value in categories]
