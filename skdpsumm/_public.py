"""Public tables that travel through scikit-learn's routing uncut."""

from __future__ import annotations

from typing import Any


class Public:
    """Wraps a table so that a search or a cross-validation never cuts it into folds.

    scikit-learn slices every routed array whose length happens to equal the number of rows of X.
    What is wrapped has no length: estimators of skdpsumm take the table out again.

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

    def __init__(self, table: Any):
        self.table = table

    def __repr__(self) -> str:
        return f"Public(<{type(self.table).__name__}>)"


def unwrap(table: Any) -> Any:
    """Return the table that a `Public` holds, and anything else as it is."""
    return table.table if isinstance(table, Public) else table
