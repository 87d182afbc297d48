"""Quantiles: distribution functions, read the other way round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from ...sketches._private_sketch import PrivateSketch
from ._estimate import Estimate
from ._warnings import warn_of_the_wide

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class InverseCDF:
    """What turns shares of rows at most at some values into quantiles.

    Parameters
    ----------
    grid : ndarray
        Values among which quantiles are looked for.
    first : int
        Of the grid, the first value at which the CDF is asked; before it is 0.
    exact : bool
        Whether the grid holds all values of the column. Else the CDF is interpolated.
    levels : ndarray of shape (k,)
    on_grid : callable
        Moves quantiles to values that the column can have.
    column : int
    places : ndarray of shape (n, 2), default=()
        From where to where many rows may be at one value. An end that lies there is moved to the
        end of the place.
    """

    grid: Floats
    first: int
    exact: bool
    levels: Floats
    on_grid: Callable[[NDArray], NDArray]
    column: int
    places: Floats = field(default_factory=lambda: np.zeros((0, 2)))

    @property
    def cuts(self) -> Floats:
        """Where the CDF is asked: at the last value it is 1."""
        return self.grid[self.first : -1]

    def __call__(self, curves: NDArray) -> Floats:
        """Return the quantiles for shares at `cuts`, of shape (..., n_cuts); shape (..., k)."""
        flat = np.clip(monotone(np.atleast_2d(curves)), 0.0, 1.0)
        flat = np.pad(flat, ((0, 0), (self.first, 1)), constant_values=((0, 0), (0.0, 1.0)))
        invert = _values_reached if self.exact else _interpolated
        found = np.array([invert(curve, self.grid, self.levels) for curve in flat])
        return self.on_grid(found).reshape(*np.shape(curves)[:-1], len(self.levels))

    def _outwards(self, values: Floats, side: int) -> Floats:
        """Return values, those at a place of many rows moved to its lower or its upper end."""
        moved = values
        for low, high in self.places:
            there = (low <= values) & (values <= high)
            moved = np.where(there, (np.minimum, np.maximum)[side](moved, (low, high)[side]), moved)
        return moved

    def estimate(
        self,
        answers: Sequence[Any],
        labels: Sequence[Sequence[str]],
        possible: tuple[float, float],
        frame: str | None,
        about: Sequence[str],
        step: float | None,
        sketch: PrivateSketch,
    ) -> Estimate:
        """Return the quantiles of the answers about shares, one for each group of rows.

        The ends of a quantile are where the ends of the shares cross its level.
        """
        shape = tuple(map(len, labels))

        def moved(by: Callable[[Any], tuple[NDArray, NDArray]]) -> tuple[NDArray, NDArray]:
            found = [by(answer) for answer in answers]
            # No share is larger than one further on may be, nor smaller than one before.
            uppers = [np.minimum.accumulate(upper[::-1])[::-1] for _, upper in found]
            low = np.array([self(upper) for upper in uppers])
            high = np.array([self(np.maximum.accumulate(lower)) for lower, _ in found])
            return self._outwards(low, 0).reshape(shape), self._outwards(high, 1).reshape(shape)

        def half(error: Callable[[Any], NDArray]) -> NDArray:
            def ends(answer: Any) -> tuple[NDArray, NDArray]:
                spread = error(answer)
                return answer.value - spread, answer.value + spread

            low, high = moved(ends)
            return (high - low) / 2

        value = np.array([self(answer.value) for answer in answers]).reshape(shape)
        rough = Estimate(
            value,
            lambda: half(lambda answer: answer.rough_noise()),
            ends=lambda z: moved(lambda answer: answer.rough_ends(z)),
            possible=possible,
            step=step,
        )
        found = Estimate(
            value,
            lambda: half(lambda answer: answer.noise_std_error()),
            ends=lambda z: moved(lambda answer: answer.ends(z)),
            sampling=lambda: half(lambda answer: answer.sampling()),
            possible=possible,
            labels=labels,
            frame=frame,
            step=step,
        )
        warn_of_the_wide(sketch, rough, found, about)
        return found


def monotone(curves: NDArray) -> Floats:
    """Return the closest curves that do not fall."""
    return np.apply_along_axis(isotonic_regression, -1, curves)


def _interpolated(curve: NDArray, grid: NDArray, levels: NDArray) -> NDArray:
    """Return where a curve reaches the levels: of a flat stretch the first, or past it the last."""
    after = np.searchsorted(curve, levels)
    before = np.maximum(after - 1, 0)
    step = curve[after] - curve[before]
    part = np.divide(levels - curve[before], step, out=np.zeros_like(step), where=step > 0)
    return grid[before] + np.clip(part, 0.0, 1.0) * (grid[after] - grid[before])


def _values_reached(curve: NDArray, grid: NDArray, levels: NDArray) -> NDArray:
    return grid[np.searchsorted(curve, levels)]
