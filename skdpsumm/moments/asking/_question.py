"""What is asked: the mean of a function of rows, and what is made of that mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class ColumnCondition(NamedTuple):
    """A condition on one column that is named, so that where it holds is known without asking.

    Rows that lack a value are left out: the answer is the share of the others for which it holds.

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
    holds : callable, default=None
        Takes values of the column, shape (n,), and returns for which of them it holds, shape
        (n, k). None, where it is only asked of points.
    """

    column: int
    bins: Callable[[], NDArray]
    truths: NDArray
    extremes: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]]
    holds: Callable[[NDArray], NDArray] | None = None


class OfGroups:
    """A function of rows for each of several groups of rows; NaN for rows of other groups.

    Parameters
    ----------
    function : callable of rows
        Returns shape (n, k).
    column : int
        That tells groups.
    holds : callable
        Takes values of that column and returns which group each is of, shape (n, n_groups).
    """

    def __init__(
        self, function: Callable[[Any], NDArray], column: int, holds: Callable[[NDArray], NDArray]
    ):
        self._function, self._column, self._holds = function, column, holds

    def __call__(self, rows: Any) -> NDArray[np.float64]:
        """Return the values, shape (n, k * n_groups), those of one output side by side."""
        found, holds = self._function(rows), self._holds(rows[:, self._column])
        grouped = np.where(holds[:, None, :], found[:, :, None], np.nan)
        return grouped.reshape(len(found), -1)

    @classmethod
    def side_by_side(cls, parts: Sequence[OfGroups]) -> OfGroups:
        """Return the function that has the outputs of all parts, of one column of groups."""
        functions = [part._function for part in parts]

        def stacked(rows: Any) -> NDArray:
            return np.hstack([f(rows) for f in functions])

        return cls(stacked, parts[0]._column, parts[0]._holds)


@dataclass(frozen=True)
class Question:
    """A statistic: the mean of a function over the rows, and what is made of that mean.

    Parameters
    ----------
    function : callable of rows, ColumnCondition or None
        None where there are `parts` alone. Where a function is NaN, for want of a cell, the row is
        left out: the mean is that of the others.
    then : callable, default=None
        Takes the mean, or simulated ones of shape (B, k), and the number of rows, and returns the
        statistic. None: the mean is the statistic.
    linear : callable, default=None
        `then` without its move to what is possible, where that leaves it linear in the mean. The
        error is that of this: a share that was moved to 0 has not become certain.
    counts_rows : bool, default=False
        Whether the statistic is a number of rows, with the noise of theirs.
    error : callable, default=None
        Takes the mean and simulated ones, and returns the standard error. None: the standard
        deviation of the simulated statistics.
    ends, possible, labels : as in `Estimate`
        None: `ends` are computed of what the release leaves open, and what is `possible` is looked
        for among the values of the function.
    judged : callable of rows, default=None
        Of what `AnswerWarning` tells: `function` itself, or what is hard of it. None: of nothing.
    about : sequence of str, default=()
        What a warning calls the outputs of `judged`.
    entries : sequence of str, default=()
        What a warning calls the entries of the statistic, where they are not those of `judged`.
    of_user : bool, default=False
        Whether a user wrote the function, who is told where it holds nowhere or everywhere.
    parts : sequence of callables of rows, default=()
        Functions of few columns each, whose values side by side are those of `function`. None are
        the same as `function` alone.
    moved : bool or ndarray, default=False
        Whether the error holds how far `then` moves the statistic to what is possible; or how far
        that is, where `then` does not tell.
    """

    function: Callable[[Any], ArrayLike] | ColumnCondition | None
    then: Callable[[NDArray, NDArray], NDArray] | None = None
    linear: Callable[[NDArray, NDArray], NDArray] | None = None
    counts_rows: bool = False
    error: Callable[[NDArray, NDArray], NDArray] | None = None
    ends: Callable[[float], tuple[NDArray, NDArray]] | None = None
    possible: tuple[Any, Any] | None = None
    labels: Sequence[Sequence[str]] = ()
    judged: Callable[[Any], NDArray] | ColumnCondition | bool | None = None
    about: Sequence[str] = ()
    entries: Sequence[str] = ()
    of_user: bool = False
    parts: Sequence[Callable[[Any], ArrayLike]] = ()
    moved: NDArray | bool = False

    @property
    def is_mean(self) -> bool:
        """Whether the statistic is linear in the mean, but for a move to what is possible."""
        return self.then is None or self.linear is not None

    def without_clipping(self, mean: NDArray, n_rows: NDArray) -> NDArray:
        """Return the statistic before a move to what is possible."""
        move = self.linear or self.then
        return mean if move is None else move(mean, n_rows)
