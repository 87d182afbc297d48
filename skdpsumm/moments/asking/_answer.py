"""An answer, its error, and how far it reaches wherever in their bins the rows lie."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..inferring._regression import CellRegression, MomentRegression
from ._positions import FEW_POINTS, Positions, evaluate_rows, values_at
from ._warnings import unexplained

# An interval is wider where what is missed is more than a standard error; a warning waits for 8.
_AN_ERROR = 1 / 8


class Side(NamedTuple):
    """A question below an answer or above it: its values, where it is asked, what to add."""

    model: MomentRegression
    values: NDArray
    slope: NDArray
    more: NDArray


class Asked(NamedTuple):
    """A question's values, the regression that they are for, and of what kind they are.

    `ends` are the two values that a condition has: 0 and 1, or others where it is multiplied. They
    are None for a number.
    """

    model: MomentRegression
    values: NDArray[np.float64]
    is_scalar: bool
    ends: tuple[NDArray, NDArray] | None


class ColumnQuestion(NamedTuple):
    """A condition on one column that is named, so that where it holds is known without asking.

    Parameters
    ----------
    column : int
    bins : callable
        Returns the bin of each point.
    truths : ndarray of shape (n_bins, k)
        Whether it holds in each bin.
    extremes : callable
        Takes the lowest and the highest value in each cell, shape (n_cells, 1), and returns where
        it certainly holds and where it may, two arrays of shape (n_cells, k).
    """

    column: int
    bins: Callable[[], NDArray]
    truths: NDArray
    extremes: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]]


class Reach:
    """What a question's answer is at the points, and how far it reaches wherever rows lie.

    Parameters
    ----------
    model : MomentRegression
    positions : Positions
        Of the model's points.
    question : callable, of rows
    """

    def __init__(self, model: MomentRegression, positions: Positions, question: Any):
        self.model, self.positions, self.question = model, positions, question
        self._approximation: tuple[NDArray, NDArray] | None = None

    def ask(self) -> Asked:
        """Ask the points."""
        values, is_scalar = evaluate_rows(self.question, self.positions.rows())
        return Asked(self.model, values, is_scalar, self._ends(values))

    @cached_property
    def _few_extremes(self) -> tuple[NDArray, NDArray]:
        return self.positions.few.extremes(self.question)

    def _ends(self, values: NDArray) -> tuple[NDArray, NDArray] | None:
        """Return the two values of a condition, wherever rows lie; None for a number."""
        met = values, *self._few_extremes
        low = np.min([v.min(axis=0) for v in met], axis=0)
        high = np.max([v.max(axis=0) for v in met], axis=0)
        if not all(np.all((v == low) | (v == high)) for v in met):
            return None
        if np.isin([low, high], (0, 1)).all():
            return _truth(values)
        return None if np.any(low == high) else (low, high)

    def hidden(self, asked: Asked) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        if asked.ends is None:
            return np.zeros(asked.values.shape[1])
        low, high = self._few_extremes
        return np.mean(high > low, axis=0)

    def approximation(self, asked: Asked) -> tuple[NDArray, NDArray]:
        """Return `MomentRegression.approximate`; it is kept, where values would be too large."""
        if self._approximation is None:
            self._approximation = asked.model.approximate(asked.values)
        return self._approximation

    def sides(self, asked: Asked) -> list[Side]:
        """Return a question below and one above.

        A truth lies between two questions that have one answer in each cell, and whose noise is
        that of the cells. Of a number the approximation is asked: what it misses at most.
        """
        if asked.ends is not None:
            reached = self.positions.extremes(self.question)
            return _sides_of_truth(self.model, *reached, asked.ends)
        few, values = self.positions.few, asked.values
        slope, rest = self.approximation(asked)
        low, high = np.inf, -np.inf
        for rows, phi in zip((few.rows(), *few.moved(few._numeric)), few.features(), strict=True):
            found = values_at(self.question, rows)
            missed = self.model.residuals_elsewhere(phi, found, values, slope)
            low = np.minimum(low, np.where(np.isnan(missed), -np.inf, missed))
            high = np.maximum(high, np.where(np.isnan(missed), np.inf, missed))
        within = np.mean((high - low) ** 2, axis=0) / 4  # of what is missed, the moves explain this
        beyond = _missed(self.model, values, slope, rest - within)
        return [
            Side(self.model, values, slope, low.mean(axis=0) - beyond),
            Side(self.model, values, slope, high.mean(axis=0) + beyond),
        ]


class ColumnReach(Reach):
    """`Reach` for a `ColumnQuestion`."""

    question: ColumnQuestion

    def ask(self) -> Asked:
        """Ask the points."""
        bins = self.question.bins()
        met = np.bincount(bins, minlength=len(self.question.truths)) > 0
        model = CellRegression(self.model, (np.cumsum(met) - 1)[bins], int(met.sum()))
        values = self.question.truths[met].astype(np.float64)
        return Asked(model, values, False, _truth(values))

    def hidden(self, asked: Asked) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        low, high = self._extremes()
        place = self.positions.cells(self.question.column).place[:FEW_POINTS]
        return np.mean((high.astype(np.float64) - low)[place], axis=0)

    def sides(self, asked: Asked) -> list[Side]:
        """Return a question below and one above."""
        low, high = self._extremes()
        place = self.positions.cells(self.question.column).place
        model = CellRegression(self.model, place, len(low))
        return _sides_of_truth(model, low, high, _truth(low), known=True)

    def _extremes(self) -> tuple[NDArray, NDArray]:
        _, low, high = self.positions.cells(self.question.column)
        return self.question.extremes(low[:, None], high[:, None])


def _truth(values: NDArray) -> tuple[NDArray, NDArray]:
    return np.zeros(values.shape[1]), np.ones(values.shape[1])


def _sides_of_truth(
    model: MomentRegression,
    low: NDArray,
    high: NDArray,
    ends: tuple[NDArray, NDArray],
    *,
    known: bool = False,
) -> list[Side]:
    """Return the sides of a condition that is from `low` to `high` in each cell.

    Unless that is `known`, nothing is known of rows unlike all points, where these are alike.
    """
    k = low.shape[1]
    values = np.hstack([low, high]).astype(np.float64)
    slope, rest = model.approximate(values)
    error = _missed(model, values, slope, rest)
    if not known:
        alike = np.hstack([np.all(low > ends[0], axis=0), np.all(high < ends[1], axis=0)])
        error[alike] = np.tile(ends[1] - ends[0], 2)[alike]
    return [
        Side(model, values[:, :k], slope[:, :k], -error[:k]),
        Side(model, values[:, k:], slope[:, k:], error[k:]),
    ]


def _missed(
    model: MomentRegression, values: NDArray, slope: NDArray, rest: NDArray
) -> NDArray[np.float64]:
    """Return the largest error met at the points, where phi explains too little; else 0."""
    bad = unexplained(model, slope, rest, model.variance(values), errors=_AN_ERROR)
    error = np.zeros(values.shape[1])
    if bad.any():
        residuals = model.residuals(values[:, bad], slope[:, bad])
        error[bad] = np.abs(residuals).max(axis=0)
    return error
