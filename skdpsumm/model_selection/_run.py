"""A base run: one candidate, fitted to one part of the rows and scored on the other.

The score is bounded per row, summed over what is held out, and made private. What such scores can
tell apart, and what a plain fit would have had, is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone

from .._computing import silence
from ..privacy._noise import Block, IntegerNoise, drawing_from
from ..schema._groups import Groups, label_bytes
from ..schema._reading import ReadRows, rows_of, tables_without_rows
from ._candidate import PublicRows, PublicSteps, RunPlan, hides_simulation


@dataclass(frozen=True)
class Table:
    """The private rows, parted by secret coins.

    Attributes
    ----------
    X, y : array or frame of shape (n, d), ndarray of shape (n,)
    held_out : ndarray of bool, shape (n,)
        Which rows are scored; the others are trained on.
    groups : Groups, default=None
        Whose each row is, where groups are protected.
    averages : bool, default=False
        Whether each group counts once in the score, as the mean of its rows.
    """

    X: Any
    y: NDArray
    held_out: NDArray[np.bool_]
    groups: Groups | None = None
    averages: bool = False

    @property
    def scored(self) -> NDArray[np.int64]:
        """The positions of the rows held out."""
        return np.flatnonzero(self.held_out)

    @property
    def counted(self) -> NDArray[np.int64] | None:
        """Whose each row held out is, 0, 1, ..., where each group counts once."""
        if self.groups is None or not self.averages:
            return None
        return np.unique(self.groups.codes[self.scored], return_inverse=True)[1]

    @property
    def n_scores(self) -> int:
        """How many scores are summed: of rows, or of groups that count once."""
        counted = self.counted
        return len(self.scored) if counted is None else len(np.unique(counted))

    def scored_rows(self, learner: Any, values: Any, good: NDArray[np.bool_]) -> list[Any]:
        """Return the rows held out, as a learner takes them; None for those that are not good.

        Parameters
        ----------
        learner : fitted estimator
            If it can, it reads all rows at once: a frame's rows are slow to read.
        values : array or frame of shape (n, p)
            All rows, as the learner takes them.
        good : ndarray of bool, shape (n,)
        """
        with suppress(Exception):  # a row that cannot be read, which is scored low by itself
            if good[self.scored].all():
                read = ReadRows.of(learner, _rows_of(values, self.scored))
                if read is not None:
                    return [read.row(i) for i in range(len(self.scored))]
        return [_rows_of(values, [i]) if good[i] else None for i in self.scored]


def _rows_of(X: Any, rows: Any) -> Any:
    """Return some rows, of arrays at once: there are many calls for one row."""
    return X[rows] if isinstance(X, np.ndarray) else rows_of(X, rows)


def labels_of(groups: Groups, rows: NDArray[np.int64]) -> NDArray:
    """Return the label of the group of each of some rows, as an array of objects."""
    labels = np.empty(len(rows), object)
    labels[:] = [groups.labels[code] for code in groups.codes[rows].tolist()]
    return labels


def groups_held_out(groups: Groups, chance: float, key: bytes) -> NDArray[np.bool_]:
    """Return whether each row is held out, by a secret coin of its group's: none is cut.

    The coin is a keyed hash of the label: a function of the group and of the key alone, whatever
    other groups there are. Without the key coins of different labels are as good as independent.
    """
    coins = [
        int.from_bytes(
            blake2b(label_bytes(label), key=key, digest_size=7, person=b"hold-out").digest()
        )
        for label in groups.labels
    ]
    return (np.array(coins, np.float64) < chance * 2.0**56)[groups.codes]


@dataclass(frozen=True)
class Result:
    """What a run returns."""

    value: float
    params: dict[str, Any]
    estimator: Any


def run(
    params: dict[str, Any],
    estimator: Any,
    public: PublicRows,
    table: Table,
    score: PrivateScore,
    seeds: list[int | None],
) -> Result:
    """Return the result of one base run; where it fails, that of public rows, scored low.

    It may run in a process of its own, which gets neither the search nor its ledger.
    """
    with silence(), drawing_from(seeds[0]):
        fitted = clone(estimator)
        exact = _fit_and_score(fitted, public, table, score)
        if exact is None:  # nothing of what failed may be left
            fitted, exact = clone(estimator), score.worst(table.n_scores)
            PublicSteps.fitted(fitted, public).fit_public(fitted)
        value = score.release(exact, seeds[1])
    return Result(value, params, fitted)


def _fit_and_score(
    estimator: Any, public: PublicRows, table: Table, score: PrivateScore
) -> int | None:
    """Fit an estimator in place and return its exact score; None if anything fails."""
    try:
        steps = PublicSteps.fitted(estimator, public)
        values, good = steps(table.X)
        train = np.flatnonzero(~table.held_out)
        groups = None if table.groups is None else labels_of(table.groups, train)
        # Coins may have held out all that the table has, and one unit more may not be held out.
        with tables_without_rows():
            learner = steps.fit_learner(estimator, _rows_of(values, train), table.y[train], groups)
        if not score.plan.excess(learner.privacy_.mechanism) <= 1 or hides_simulation(learner):
            return None
        if score.predicts:
            model, rows = learner, table.scored_rows(learner, values, good)
        else:
            model, rows = estimator, [_rows_of(table.X, [i]) for i in table.scored]
        return score.exact(model, rows, table.y[table.scored], table.counted)
    except Exception:  # whatever it is, it must not stop the search
        return None


# ---- the score

# The choice is mostly noise if it tells apart no less than this part of what scores can differ by.
DROWNED_SHARE_OF_SIZE = 0.1
# A row's score is rounded to half of the bounds' length, divided by this.
_STEPS_OF_SCORE = 2**20

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
    replaced by the whole of it; a group of k rows by k times that. Where each group counts once, it
    adds the mean of its rows' scores, rounded once, which is no larger than the largest of them.

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
    rows_of_unit : int, default=1
        How many scores a row, or a group, adds at most.
    """

    row_score: RowScore
    low: float
    high: float
    adjacency: str
    plan: RunPlan
    rows_of_unit: int = 1

    def __post_init__(self) -> None:
        # Noise beyond 64 bits is refused here, and not once the ledger has paid.
        self._noise  # noqa: B018

    @property
    def _unit(self) -> float:
        return (self.high - self.low) / 2 / _STEPS_OF_SCORE

    @cached_property
    def _noise(self) -> IntegerNoise:
        rows = self.rows_of_unit * (2 if self.adjacency == "replace_one" else 1)
        moved = rows * _STEPS_OF_SCORE
        block = Block(1, moved, moved)
        return IntegerNoise([block], epsilon=self.plan.epsilon, delta=self.plan.delta)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in units of the score."""
        return float(self._noise.std[0]) * self._unit

    def told_apart(self, n_rows: float) -> float:
        """Return by how much mean scores of so many rows must differ to be told apart."""
        # Two standard deviations of the noise on a difference of two scores can be told apart.
        return 2.0 * math.sqrt(2) * self.noise_std / n_rows

    @property
    def rows_to_tell(self) -> float:
        """How many rows are needed for a choice that is not mostly noise."""
        return self.told_apart(1.0) / (DROWNED_SHARE_OF_SIZE * (self.high - self.low))

    def exact(
        self, estimator: Any, rows: list[Any], y: NDArray, counted: NDArray | None = None
    ) -> int:
        """Return the sum over rows, or groups that count once, in grid units: private."""
        with config_context(assume_finite=True, skip_parameter_validation=True):
            scores = [self._of_row(estimator, row, y[[i]]) for i, row in enumerate(rows)]
        units = self._on_grid(np.array(scores, np.float64))
        if counted is None or len(counted) == 0:
            return int(units.sum())
        sums = np.zeros(int(counted.max()) + 1, np.int64)
        np.add.at(sums, counted, units)  # in whole units, so a group's sum hangs on no other
        return int(np.rint(sums / np.bincount(counted)).astype(np.int64).sum())

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

    def worst(self, n_scores: int) -> int:
        """Return the sum of as many scores that are all low."""
        return -_STEPS_OF_SCORE * n_scores

    def _on_grid(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        clipped = np.clip(np.where(np.isnan(scores), self.low, scores), self.low, self.high)
        steps = (
            np.rint((clipped - self.low) / (self.high - self.low) * (2 * _STEPS_OF_SCORE))
            - _STEPS_OF_SCORE
        )
        return steps.astype(np.int64)

    def release(self, exact: int, seed: int | None) -> float:
        """Return the noisy sum, in units of the score."""
        noisy = self._noise.add_block(0, np.array([exact], np.int64), seed)
        return float(noisy[0]) * self._unit


# ---- what scores can tell apart


@dataclass(frozen=True)
class ChoiceNoise:
    """How much of the choice among candidates is noise; computed from the release alone.

    Attributes
    ----------
    difference : float
        Candidates whose mean scores differ by less were told apart by chance. From above, for the
        number of rows is private: of the released sum it is known how many rows it takes at least.
        Infinite where that is none.
    size : float
        What scores can differ by: the length of `score_bounds`.
    is_drowned : bool
        Whether the choice is mostly noise: `difference` is more than a tenth of `size`.
    is_default : bool
        Whether the best candidate is the estimator as it was given to the search.
    epsilon : float
        Of the search.
    epsilon_of_fit : float
        The epsilon of one fit to all rows that has as much noise for its rows as a run has.
    """

    difference: float
    size: float
    is_drowned: bool
    is_default: bool
    epsilon: float
    epsilon_of_fit: float

    @classmethod
    def of(
        cls, score: PrivateScore, best_sum: float, mean_trials: float, **facts: Any
    ) -> ChoiceNoise:
        """Return what the released sum shows; `facts` are all fields that it does not."""
        size = score.high - score.low
        # The largest of K sums flatters, by this at most, as a rule.
        noise = score.noise_std * (2 + math.sqrt(2 * math.log(max(mean_trials, 1.0))))
        least_rows = (abs(best_sum) - noise) / (size / 2)
        difference = score.told_apart(least_rows) if least_rows > 0 else math.inf
        difference = difference if score.noise_std else 0.0
        drowned = difference > DROWNED_SHARE_OF_SIZE * size
        return cls(difference, size, drowned, **facts)

    def __str__(self) -> str:
        words = f"{self._apart[0].upper()}{self._apart[1:]}; {self._of_fit}"
        if self.is_default:
            words += "; the estimator as it was given is the best: fitted alone it has less noise"
        return f"Mostly noise: {words}" if self.is_drowned else words

    @property
    def advice(self) -> str:
        """What to say where the choice is mostly noise."""
        return (
            "Fit the estimator as it is, which will probably be better, or give the search more "
            "rows: `expected_noise(n_samples)` tells how many, before anything is charged. The "
            f"choice among candidates is mostly noise: {self._apart}, and {self._of_fit}."
        )

    @property
    def _apart(self) -> str:
        if self.difference < self.size:
            closer = f"scores closer than {self.difference:.2g}, of a range of {self.size:.4g},"
            return f"{closer} cannot be told apart"
        return "no two candidates can be told apart"

    @property
    def _of_fit(self) -> str:
        return (
            f"the search leaves the model epsilon={self.epsilon_of_fit:.2g} of {self.epsilon:.4g}"
        )
