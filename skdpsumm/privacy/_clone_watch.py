"""Which charges are by clones of one estimator, and what the search that makes them will cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from sklearn.base import clone

from ._ledger_file import Book, now
from ._mechanisms import Cost
from ._warnings import BudgetWarning

# True while the library itself clones, to fit once what the user gave it.
_own = ContextVar("own", default=False)


def own_clone(estimator: Any) -> Any:
    """Return a clone that is no trial of a search, and starts no count."""
    token = _own.set(True)
    try:
        return clone(estimator)
    finally:
        _own.reset(token)


class CloneWatch:
    """Counts the charges since a ledger's estimators were first cloned, and warns at the second.

    An estimator cannot be told from its clones in another process, so charges count as those of
    one where data set and label are the same.

    Parameters
    ----------
    since : str, default=None
        When an estimator that holds the ledger was first cloned; None for never.
    is_copy : bool, default=False
        Whether the ledger came out of a pickle, as in the workers of a search. A copy warns at
        the second charge of all only; the ledger that it is a copy of also at its own first one
        after that, which is the refit, when the sum is complete.
    """

    def __init__(self, since: str | None = None, *, is_copy: bool = False):
        self.since, self._is_copy = since, is_copy
        self._told: set[tuple[str, str]] = set()

    def note_clone(self) -> None:
        """Start to count, unless this was done."""
        if not _own.get():
            self.since = self.since or now()

    @property
    def advice(self) -> str:
        """What a refusal adds where an estimator with the ledger was cloned."""
        if self.since is None:
            return ""
        return (
            " (A search or a cross-validation charges every fit; PrivateSearchCV chooses "
            "parameters at one price.)"
        )

    def watch(
        self,
        book: Book,
        dataset: str,
        label: str,
        cost: Cost,
        epsilon_of: Callable[[Cost], float],
    ) -> None:
        """Warn if the charge just written is the second of a search.

        Parameters
        ----------
        book : Book
            In the transaction of the charge, which a warning that is made an error takes back.
        dataset, label : str
        cost : Cost
            Of the charge.
        epsilon_of : callable
            Epsilon of a cost, at the cap's delta.
        """
        if self.since is None or (dataset, label) in self._told:
            return
        count, paid = book.paid_since(self.since, dataset, label)
        if count < 2 or (self._is_copy and count > 2):
            return
        self._told.add((dataset, label))
        # A few candidates by a few folds are ten fits, and many are a hundred.
        many = {n: epsilon_of(Cost(*(n * part for part in cost))) for n in (10, 100)}
        prices = [f"{n} such fits cost epsilon={epsilon:.4g}" for n, epsilon in many.items()]
        warnings.warn(
            "Search with PrivateSearchCV, which has one price, or on public data: any other search "
            "or cross-validation charges every fit in full, one for each candidate and fold and "
            f"one to refit. So far, {count} fits by clones of one estimator "
            f"({label or 'without a label'}) cost epsilon={epsilon_of(paid):.4g} of data set "
            f"{dataset!r}; {', '.join(prices)}.",
            BudgetWarning,
            stacklevel=4,
        )
