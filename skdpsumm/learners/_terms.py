"""The public numbers that a release is planned with, and the sensitivity that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..privacy import derived_seed
from ._losses import Loss

# The solver stops within this part of L R / Lambda from the minimiser; a kink makes it harder.
_TOLERANCE_SMOOTH, _TOLERANCE_KINK = 1e-3, 1e-2
# What float64 may move, relative to the sensitivity: see docs/learners.md.
_FLOAT_MARGIN = 1e-3


@dataclass(frozen=True)
class Terms:
    """The public numbers of one fit.

    Attributes
    ----------
    epsilon, delta : float
    adjacency : {"add_remove", "replace_one"}
    loss : Loss
    regularization : float
        Lambda of the sum form.
    radius : float
        R.
    n_scores : int
        q.
    noise_seed : int or None
    """

    epsilon: float
    delta: float
    adjacency: str
    loss: Loss
    regularization: float
    radius: float
    n_scores: int
    noise_seed: int | None

    @property
    def is_private(self) -> bool:
        """Whether any noise is asked for."""
        return not math.isinf(self.epsilon)

    @property
    def step(self) -> float:
        """L R / Lambda, by which one row that comes or goes can move the exact minimiser."""
        return self.loss.lipschitz * self.radius / self.regularization

    @property
    def tolerance(self) -> float:
        """The distance from the minimiser that the solver certifies, in the norm of the space."""
        kink = math.isinf(self.loss.smoothness)
        return self.step * (_TOLERANCE_KINK if kink else _TOLERANCE_SMOOTH)

    @property
    def sensitivity(self) -> float:
        """Delta_w: the most by which what the solver returns differs between neighbours.

        Strong convexity moves the exact minimiser by L R / Lambda per row that comes or goes (two
        rows under replace-one); the solver adds its tolerance on both sides.
        """
        n_rows = 1 if self.adjacency == "add_remove" else 2
        return (n_rows * self.step + 2 * self.tolerance) * (1 + _FLOAT_MARGIN)

    def seed(self, *key: int) -> int | None:
        """Return the seed of a simulated draw; None where noise comes from the system."""
        return derived_seed(self.noise_seed, *key)
