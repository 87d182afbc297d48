"""A base run: one candidate, fitted to one part of the rows and scored on the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ._candidate import Leaf, last_step, silent
from ._maps import Maps
from ._public_rows import PublicRows
from ._rehearsal import fit_last
from ._score import PrivateScore


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
        cls, X: Any, y: NDArray, held_out: NDArray[np.bool_], as_given: bool, maps: Maps
    ) -> Table:
        """Return the rows as a learner meets them, those held out as they were given if asked."""
        try:
            values, good = maps(X)
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
    maps: Maps,
    table: Table,
    score: PrivateScore,
    seeds: list[int | None],
) -> Result:
    """Return the result of one base run; where it fails, that of public rows, scored low.

    It may run in a process of its own, which gets neither the search nor its ledger.
    """
    with silent():
        whole = clone(estimator).set_params(**{f"{leaf.budget}noise_seed": seeds[0]})
        fitted = clone(whole)
        exact = _fit_and_score(fitted, maps, table, score)
        if exact is None:  # nothing of what failed may be left
            fitted, exact = clone(whole), score.worst(len(table.rows))
            fit_last(maps.lend(fitted), maps.public.X, maps.public.y, maps.public)
        value = score.release(exact, seeds[1])
        # The seed would tell which run this was.
        fitted.set_params(**{f"{leaf.budget}noise_seed": None})
    return Result(value, params, fitted)


def _fit_and_score(estimator: Any, maps: Maps, table: Table, score: PrivateScore) -> int | None:
    """Fit an estimator in place and return its exact score; None if anything fails."""
    try:
        learner = fit_last(maps.lend(estimator), table.X, table.y, maps.public)
        if not score.plan.covers(learner.privacy_.mechanism):
            return None
        return score.exact(learner if score.predicts else estimator, table.rows, table.labels)
    except Exception:  # whatever it is, it must not stop the search
        return None


def no_run(estimator: Any, public: PublicRows) -> Result:
    """Return the result of no run, K = 0."""
    maps = Maps.fitted(estimator, public)
    fit_last(last_step(estimator), maps.public.X, public.y, maps.public)
    return Result(-math.inf, {}, estimator)
