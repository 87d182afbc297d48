"""Public tables that travel through scikit-learn's routing uncut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Public(tuple):
    """Wraps a table so that a search or a cross-validation never cuts it into folds.

    scikit-learn slices every routed array whose length happens to equal the number of rows of X.
    This one has length one, whatever the table's is: estimators of skdpsumm take the table out
    again. A `Pipeline` with `transform_input` has any transformer map the table inside.

    Points that a PINP learner answers are taken as public where they come in a `Public`, so that
    a copy of the learner, which carries them, holds no private data.

    Parameters
    ----------
    table : array-like or frame

    Examples
    --------
    >>> from skdpsumm import Public
    >>> Public([[0.0], [1.0]])
    Public(<list>)
    """

    # A tuple: a Pipeline maps the entries of one by themselves, and returns a plain tuple.

    def __new__(cls, table: Any):
        return super().__new__(cls, (table,))

    @property
    def table(self) -> Any:
        """The table."""
        return self[0]

    def __getnewargs__(self) -> tuple[Any]:
        return (self[0],)

    def __repr__(self) -> str:
        return f"Public(<{type(self.table).__name__}>)"


def unwrap(table: Any) -> Any:
    """Return the table that a `Public`, or what a Pipeline made of one, holds; others as they are.

    A table inside a tuple of length one would have three dimensions, so nothing else looks alike.
    """
    if isinstance(table, Public):
        return table.table
    mapped = isinstance(table, tuple) and len(table) == 1
    return table[0] if mapped and len(getattr(table[0], "shape", ())) == 2 else table


@contextmanager
def beside_X(name: str) -> Iterator[None]:
    """Tell with what is raised about a table beside X that no Pipeline may have mapped it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        error.add_note(
            f"This is of {name}. A Pipeline maps X, and {name} only where it is made with "
            f"transform_input=[{name!r}] and sklearn.set_config(enable_metadata_routing=True); "
            f"else give {name} encoded and scaled as X is."
        )
        raise
