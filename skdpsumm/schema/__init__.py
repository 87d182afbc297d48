"""What is public about a table, and how it is read: cell by cell, whatever its container."""

from ._columns import Categorical, Date, Numeric
from ._finder import SchemaFinder
from ._reading import Public
from ._schema import TableSchema
from ._vectorizer import PublicVectorizer

__all__ = [
    "Categorical",
    "Date",
    "Numeric",
    "Public",
    "PublicVectorizer",
    "SchemaFinder",
    "TableSchema",
]
