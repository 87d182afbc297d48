"""What is public about a table, and how it is read: cell by cell, whatever its container."""

__all__: list[str] = []
