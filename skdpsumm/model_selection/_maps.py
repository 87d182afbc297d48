"""What stands before the learner in a pipeline: public maps, which take each row by itself.

They are fitted to public rows. A private row must not move what another row becomes, not by a last
bit: see `features._row_alone`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from ..features._row_alone import map_rows
from ._public_rows import PublicRows

_SCALARS = (bool, int, float, str, bytes, type(None), np.generic)


@dataclass(frozen=True)
class Maps:
    """The fitted steps before a learner.

    Parameters
    ----------
    before : tuple of fitted Pipeline
        Outermost first, where a pipeline ends in another one.
    public : PublicRows
        As they are after all steps.
    """

    before: tuple[Pipeline, ...]
    public: PublicRows

    @classmethod
    def fitted(cls, estimator: Any, public: PublicRows) -> Maps:
        """Fit the steps before the last one of an estimator to public rows, in place."""
        before = []
        while isinstance(estimator, Pipeline):
            steps, estimator = estimator[:-1], estimator.steps[-1][1]
            if len(steps):
                steps.fit(public.X, public.y)
                public = public.through(steps)
                before.append(steps)
        return cls(tuple(before), public)

    def lend(self, estimator: Any) -> Any:
        """Put the fitted steps into an estimator with the same ones; return its last step."""
        before = iter(self.before)
        while isinstance(estimator, Pipeline):
            if len(estimator.steps) > 1:
                estimator.steps[:-1] = next(before).steps
            estimator = estimator.steps[-1][1]
        return estimator

    def __call__(self, X: Any) -> tuple[Any, NDArray[np.bool_]]:
        """Map every row by itself; say which of them all steps could take.

        Parameters
        ----------
        X : array or frame of shape (n, d)

        Returns
        -------
        values : ndarray, or frame where the steps return frames, of shape (n, p)
            With zeros for what is not finite, and for rows that a step refuses.
        good : ndarray of bool, shape (n,)
            False for these.
        """
        if not self.before:
            return X, np.ones(len(X), np.bool_)
        like = self.public.X
        values, taken = map_rows(self.before, X, like.shape[1])
        finite = np.isfinite(values)
        values[~finite] = 0.0
        if hasattr(like, "columns"):
            values = type(like)({name: values[:, j] for j, name in enumerate(like.columns)})
        return values, taken & finite.all(axis=1)


# ---- which candidates share their maps


def steps_before(estimator: Any) -> list[Any]:
    """Return the unfitted steps before the last one."""
    found = []
    while isinstance(estimator, Pipeline):
        found.append(estimator.steps[:-1])
        estimator = estimator.steps[-1][1]
    return found


def alike(a: Any, b: Any) -> bool:
    """Return whether two parameters are surely the same: what is not known is not."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, BaseEstimator):
        # One that is its own clone, as `FrozenEstimator`, holds more than its parameters.
        plain = type(a).__sklearn_clone__ is BaseEstimator.__sklearn_clone__
        return plain and alike(a.get_params(deep=False), b.get_params(deep=False))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and alike(a.tolist(), b.tolist())
    return isinstance(a, _SCALARS) and bool(a == b)


def groups_of(items: list[Any], key: Callable[[Any], Any]) -> list[list[int]]:
    """Return the positions of items in groups with keys that are alike."""
    found: list[tuple[Any, list[int]]] = []
    for j, item in enumerate(items):
        mine = key(item)
        group = next((g for k, g in found if alike(k, mine)), None)
        if group is None:
            group = []
            found.append((mine, group))
        group.append(j)
    return [group for _, group in found]
