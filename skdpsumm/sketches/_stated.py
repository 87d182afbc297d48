"""What a guarantee states in words of the rows of one unit that count in a sketch."""

from __future__ import annotations

import re
from typing import Any

from ..privacy import PrivacyGuarantee

# The words of `given` by which a guarantee about groups says how many rows of one count.
_LIMIT = re.compile(r"max_rows_per_group=(?:([1-9][0-9]{0,17})|'average') \(")


def stated_limit(privacy: PrivacyGuarantee) -> Any:
    """Return the `max_rows_per_group` of a claim: an int, "average", or None for single rows.

    The least of all that `given` states is meant: the noise of all sketches that were added is
    larger than that of each.
    """
    if privacy.unit == "one row":
        return None
    limits = _stated_limits(privacy)
    return min(limit for limit in limits if limit) if all(limits) else "average"


def _stated_limits(privacy: PrivacyGuarantee) -> list[int | None]:
    """Return what `given` says of groups, for each kind of sketch that was added; average: None."""
    found = [match for match in map(_LIMIT.match, privacy.given.split("; ")) if match]
    if not found:
        raise ValueError("A claim about groups must state the rows of a group that count.")
    return [int(match[1]) if match[1] else None for match in found]


def most_rows_of_a_unit(privacy: PrivacyGuarantee) -> int:
    """Return how many rows of a unit of a sketch's claim count at most.

    Parameters
    ----------
    privacy : PrivacyGuarantee
        Under "average" the rows of a group count as one.
    """
    if privacy.unit == "one row":
        return 1
    return max(limit or 1 for limit in _stated_limits(privacy))
