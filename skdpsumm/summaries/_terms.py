"""What a run is made of: the public parameters that a curator works by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

# By default, an owner has at most so many times its share of the rows asked for of a summary, and
# may always have this part of it.
MAX_SHARES_OF_SUMMARY, MIN_MAX_SHARE = 2.5, 0.25


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public parameters of a run, checked: `PrivateMMDSummarizer.terms` returns them.

    See `PrivateMMDSummarizer` for their meaning.
    """

    n_select: int
    protocol: Any
    gamma: float
    n_components: int
    epsilon: float
    delta: float
    adjacency: str
    max_rows_per_group: Any
    target_is_owners: bool

    @property
    def n_target(self) -> int | None:
        """A public number of target rows, or None."""
        return self.protocol.n_target

    def most_chosen(self, share: float) -> int:
        """Return how many rows of the summary may be those of an owner with this share."""
        most = self.protocol.max_share_per_owner
        if most is None:
            most = max(MIN_MAX_SHARE, MAX_SHARES_OF_SUMMARY * share)
        return min(self.n_select, max(math.ceil(most * self.n_select - 1e-9), 1))

    @property
    def is_private(self) -> bool:
        """Whether any noise is asked for."""
        return not math.isinf(self.epsilon)

    @property
    def unit(self) -> str:
        """What one neighbour differs in."""
        return "one row" if self.max_rows_per_group is None else "one group"

    @property
    def ledger_unit(self) -> str:
        """What a ledger counts."""
        return self.unit.removeprefix("one ")

    @property
    def averages(self) -> bool:
        """Whether each group of the target counts once."""
        return self.max_rows_per_group == "average"

    @property
    def rows_moved(self) -> int:
        """How many rows come and go, at most, between neighbours.

        A group has k rows that count; with "average" its rows have the weight of one.
        """
        bound = self.max_rows_per_group
        rows = 1 if bound is None or self.averages else int(bound)
        return 2 * rows if self.adjacency == "replace_one" else rows
