"""What is public about a table, and how it is read: cell by cell, whatever its container."""

from ._columns import Columns

__all__ = ["Columns"]
