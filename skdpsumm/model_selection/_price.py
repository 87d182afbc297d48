"""Whether a ledger holds a search, and if not, what would fit."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from ..privacy import BudgetExceededError
from ._plan import plan_runs
from ._stopping import Stopping

# Of what is proposed, this part may be too little.
_NEAR = 0.01


def check_ledger(ledger: Any, law: Stopping, epsilon: float, delta: float, adjacency: str) -> None:
    """Raise BudgetExceededError if a ledger cannot hold a search, and say what it costs there.

    A ledger that adds up Gaussians, or zCDP, takes the Gaussian that dominates it everywhere, whose
    epsilon is about three times that of the search.
    """
    total = plan_runs(law, epsilon, delta).total
    refusal = _refusal(ledger, total, adjacency)
    if refusal and math.isfinite(epsilon) and math.isinf(total.epsilon(0.0)):
        fits = _largest(ledger, law, epsilon, delta, adjacency)
        fits = f"epsilon={fits:.3g} would fit" if fits else "no epsilon would fit"
        refusal += (
            f" That is the price of a search with epsilon={epsilon:g} and delta={delta:g} where "
            f"losses are added up as Gaussian ones; {fits}. With delta=0 a search counts as its "
            "epsilon, as long as all other charges are pure."
        )
    if refusal:
        raise BudgetExceededError(refusal)


def _refusal(ledger: Any, total: Any, adjacency: str) -> str:
    try:
        ledger.check(total, adjacency=adjacency)
    except BudgetExceededError as error:
        return str(error)
    return ""


def _largest(ledger: Any, law: Stopping, high: float, delta: float, adjacency: str) -> float:
    """Return an epsilon of a search that the ledger would hold, rounded down; 0 for none."""
    low = 0.0
    while high - low > _NEAR * high and high > 1e-3:
        middle = (low + high) / 2
        with suppress(ArithmeticError, ValueError):
            if not _refusal(ledger, plan_runs(law, middle, delta).total, adjacency):
                low = middle
                continue
        high = middle
    unit = 10.0 ** (math.floor(math.log10(low)) - 2) if low else 1.0
    return math.floor(low / unit) * unit
