"""A base run: one candidate, fitted to one part of the rows and scored on the other.

The score is bounded per row, summed over what is held out, and made private.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from .._computing import silence
from ..privacy._noise import Block, IntegerNoise
from ._candidate import Leaf, PublicSteps
from ._public_rows import PublicRows
from ._stopping import RunPlan


@dataclass(frozen=True)
class Table:
    """The private rows, parted by secret coins.

    Attributes
    ----------
    X, y : array or frame of shape (n, d), ndarray of shape (n,)
        To train on.
    rows : list of arrays or frames of shape (1, d), or of None
        Held out; None where a row cannot be mapped, which is scored low.
    labels : ndarray
        Of them.
    """

    X: Any
    y: NDArray
    rows: list[Any]
    labels: NDArray

    @classmethod
    def parted(
        cls, X: Any, y: NDArray, held_out: NDArray[np.bool_], as_given: bool, steps: PublicSteps
    ) -> Table:
        """Return the rows as a learner meets them, those held out as they were given if asked."""
        try:
            values, good = steps(X)
        except Exception:  # out of memory, with the number of rows in the message: all runs fail
            values, good = np.empty((len(y), 0)), np.zeros(len(y), np.bool_)
        train, test = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        source, good = (X, np.ones(len(y), np.bool_)) if as_given else (values, good)
        rows = [_safe_indexing(source, [i]) if good[i] else None for i in test]
        return cls(_safe_indexing(values, train), y[train], rows, y[test])


@dataclass(frozen=True)
class Result:
    """What a run returns."""

    value: float
    params: dict[str, Any]
    estimator: Any


def run(
    leaf: Leaf,
    params: dict[str, Any],
    estimator: Any,
    steps: PublicSteps,
    table: Table,
    score: PrivateScore,
    seeds: list[int | None],
) -> Result:
    """Return the result of one base run; where it fails, that of public rows, scored low.

    It may run in a process of its own, which gets neither the search nor its ledger.
    """
    with silence():
        whole = clone(estimator).set_params(**{f"{leaf.budget}noise_seed": seeds[0]})
        fitted = clone(whole)
        exact = _fit_and_score(fitted, steps, table, score)
        if exact is None:  # nothing of what failed may be left
            fitted, exact = clone(whole), score.worst(len(table.rows))
            steps.fit_learner(fitted, steps.public.X, steps.public.y)
        value = score.release(exact, seeds[1])
        # The seed would tell which run this was.
        fitted.set_params(**{f"{leaf.budget}noise_seed": None})
    return Result(value, params, fitted)


def _fit_and_score(
    estimator: Any, steps: PublicSteps, table: Table, score: PrivateScore
) -> int | None:
    """Fit an estimator in place and return its exact score; None if anything fails."""
    try:
        learner = steps.fit_learner(estimator, table.X, table.y)
        if not score.plan.covers(learner.privacy_.mechanism):
            return None
        return score.exact(learner if score.predicts else estimator, table.rows, table.labels)
    except Exception:  # whatever it is, it must not stop the search
        return None


def no_run(estimator: Any, public: PublicRows) -> Result:
    """Return the result of no run, K = 0."""
    steps = PublicSteps.fitted(estimator, public)
    steps.fit_learner(estimator, steps.public.X, public.y)
    return Result(-math.inf, {}, estimator)


# ---- the score

# A row's score is rounded to this part of half of the bounds' length.
_GRID = 2**20

RowScore = Callable[[Any, Any, Any], Any]


def _accuracy(estimator: Any, X: Any, y: Any) -> Any:
    return estimator.predict(X) == y


def _neg_absolute_error(estimator: Any, X: Any, y: Any) -> Any:
    return -np.abs(estimator.predict(X) - y)


def _neg_squared_error(estimator: Any, X: Any, y: Any) -> Any:
    return -np.square(estimator.predict(X) - y)


SCORES: dict[str, RowScore] = {
    "accuracy": _accuracy,
    "neg_absolute_error": _neg_absolute_error,
    "neg_squared_error": _neg_squared_error,
}


@dataclass(frozen=True)
class PrivateScore:
    """The sum over rows of (score - middle of the bounds), with integer noise.

    Candidates meet the same rows, so the sum ranks them as the mean would, and no count is needed.
    A row that comes or goes moves the sum by half of the bounds' length at most, a row that is
    replaced by the whole of it.

    Each row is scored by itself: in a block, the last digits of a prediction can depend on the
    other rows, and a class can hang on them.

    Parameters
    ----------
    row_score : callable
        Takes an estimator, a row of shape (1, d) and its label of shape (1,); higher is better.
    low, high : float
        Public bounds, to which a row's score is clipped. NaN, and an error, count as low.
    adjacency : {"add_remove", "replace_one"}
    plan : RunPlan
    """

    row_score: RowScore
    low: float
    high: float
    adjacency: str
    plan: RunPlan

    @property
    def _unit(self) -> float:
        return (self.high - self.low) / 2 / _GRID

    @cached_property
    def _noise(self) -> IntegerNoise:
        moved = _GRID if self.adjacency == "add_remove" else 2 * _GRID
        block = Block(1, moved, moved)
        return IntegerNoise([block], epsilon=self.plan.epsilon, delta=self.plan.delta)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in units of the score."""
        return float(self._noise.std[0]) * self._unit

    def exact(self, estimator: Any, rows: list[Any], y: NDArray) -> int:
        """Return the sum over rows, in grid units: private."""
        with config_context(assume_finite=True, skip_parameter_validation=True):
            scores = [self._of_row(estimator, row, y[[i]]) for i, row in enumerate(rows)]
        return int(self._on_grid(np.array(scores, np.float64)).sum())

    @property
    def predicts(self) -> bool:
        """Whether nothing but predictions is asked of an estimator."""
        return self.row_score in SCORES.values()

    def _of_row(self, estimator: Any, row: Any, label: NDArray) -> float:
        """Return a row's score; low where it has none, so that no row can stop a run."""
        if row is None:
            return self.low
        try:
            return float(np.ravel(self.row_score(estimator, row, label))[0])
        except Exception:
            return self.low

    def worst(self, n_rows: int) -> int:
        """Return the sum of as many rows that are all scored low."""
        return -_GRID * n_rows

    def _on_grid(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        clipped = np.clip(np.where(np.isnan(scores), self.low, scores), self.low, self.high)
        steps = np.rint((clipped - self.low) / (self.high - self.low) * (2 * _GRID)) - _GRID
        return steps.astype(np.int64)

    def release(self, exact: int, seed: int | None) -> float:
        """Return the noisy sum, in units of the score."""
        noisy = self._noise.add_block(0, np.array([exact], np.int64), seed)
        return float(noisy[0]) * self._unit
