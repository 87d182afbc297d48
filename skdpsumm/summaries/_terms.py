"""The public numbers that a run is planned with, and what they may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

# Of the parameters that the curator shares with the estimator.
CONSTRAINTS: dict[str, list[Any]] = {
    "n_select": [Interval(Integral, 1, None, closed="left")],
    "gamma": [Interval(Real, 0, None, closed="neither")],
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "epsilon": [Interval(Real, 0, np.inf, closed="right")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "adjacency": [StrOptions({"add_remove", "replace_one"})],
    "release": [StrOptions({"gaussian", "mwem"})],
    "n_target": [None, Interval(Integral, 1, None, closed="left")],
    "n_steps": [None, Interval(Integral, 1, None, closed="left")],
    "reveal": [StrOptions({"rows", "features"})],
    "shares": [None, dict],
    "random_state": ["random_state"],
    "noise_seed": [None, Interval(Integral, 0, None, closed="left")],
}


@dataclass(frozen=True)
class Terms:
    """The public numbers that a protocol is planned with; see `Curator` for their meaning."""

    n_select: int
    n_owners: int
    epsilon: float
    delta: float
    adjacency: str
    release: str
    n_target: int | None
    n_steps: int | None

    @property
    def is_private(self) -> bool:
        """Whether any noise is asked for."""
        return not math.isinf(self.epsilon)
