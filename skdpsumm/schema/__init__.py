"""Reading a table: one column and one cell at a time, into types that public facts decide."""

from ._cells import (
    CellError,
    Table,
    check_listed,
    exact_numbers,
    is_missing,
    positions,
    read_column,
    read_labels,
    read_table,
)

__all__ = [
    "CellError",
    "Table",
    "check_listed",
    "exact_numbers",
    "is_missing",
    "positions",
    "read_column",
    "read_labels",
    "read_table",
]
