"""The public numbers that a release is planned with, and the sensitivity that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...privacy._noise import derived_seed
from ._losses import Loss
from ._rounding import check_rounding, kernel_drift

# An exact kernel of more rows would not fit into the memory of common machines. Explicit features
# of more rows than these would take days. Bounds on rounding errors hold up to here.
MAX_KERNEL_ROWS, MAX_ROWS = 60_000, 2**24

# The solver stops within this part of L R / Lambda from the minimiser.
_TOLERANCE = 1e-3
# Squares and fourth powers of all public numbers are floats.
_RANGE = 1e-60, 1e60
# Of R^2: less than that is lost beside a row's curvature, and Newton's method crawls.
_SMALLEST = 1e-15
# Lines of arithmetic on public numbers are rounded, and rows are longer than R, by less than this.
ROUNDED_UP = 1 + 2.0**-40


def check_radius(radius: float) -> None:
    """Raise ValueError for a radius whose square is no good number, before any is made of it."""
    low, high = (math.sqrt(end) for end in _RANGE)
    if not low <= radius <= high:
        raise ValueError(
            f"norm_bound, intercept_scaling, gamma, coef0 and degree make features of norm "
            f"{radius:g}, and float64 needs it from {low:g} to {high:g}: bring them closer to 1."
        )


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
    kernel_error : float, default=0.0
        `Space.entry_error` of an exact kernel; explicit features have no such error.
    max_rows : int, default=MAX_ROWS
        No problem has more rows; their number itself is private.
    """

    epsilon: float
    delta: float
    adjacency: str
    loss: Loss
    regularization: float
    radius: float
    n_scores: int
    noise_seed: int | None
    kernel_error: float = 0.0
    max_rows: int = MAX_ROWS

    def check(self) -> None:
        """Raise ValueError for numbers that float64 cannot work with; all of them are public."""
        low, high = _RANGE
        if not (low <= self.regularization <= high and low <= self.step <= high):
            raise ValueError(
                f"regularization={self.regularization:g} makes the sensitivity {self.step:g}, and "
                f"float64 needs both from {low:g} to {high:g}: bring it, norm_bound, and "
                "huber_width or huber_threshold closer to 1."
            )
        if self.regularization < _SMALLEST * self.radius**2:
            raise ValueError(
                f"float64 cannot certify the minimiser with regularization={self.regularization:g} "
                f"and features of norm {self.radius:g}: raise it to {_SMALLEST:g} times the square "
                "of that, at least."
            )
        drift = kernel_drift(self)
        check_rounding(drift, self.step, "raise regularization, or lower degree")

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
        return self.step * _TOLERANCE

    @property
    def sensitivity(self) -> float:
        """Delta_w: the most by which what the solver returns differs between neighbours.

        Strong convexity moves the exact minimiser by L R / Lambda per row that comes or goes (two
        rows under replace-one); the solver adds its tolerance on both sides, and so do the errors
        of the Gram matrix that it is given.
        """
        n_rows = 1 if self.adjacency == "add_remove" else 2
        return (n_rows * self.step + 2 * (self.tolerance + kernel_drift(self))) * ROUNDED_UP

    def seed(self, *key: int) -> int | None:
        """Return the seed of a simulated draw; None where noise comes from the system."""
        return derived_seed(self.noise_seed, *key)
