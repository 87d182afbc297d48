"""What stands before the learner in a pipeline: public maps, which take each row by itself.

They are fitted to public rows. A private row must not move what another row becomes, not by a last
bit: a value on a grid, or a class, can hang on it. So there are three ways to map a table.

- *In blocks*, by steps (`_BY_ENTRY`, exactly these types) whose results are looked up in a list, or
  made of the entries of one row by operations that IEEE 754 rounds alike wherever they are made.
  A block that is refused is halved until only the rows that are refused alone are left.
- *By our own loop*: `RBFSampler`, whose matrix product BLAS rounds by the shape of a block.
- *One row at a time*, by all other steps and those behind them: they may do what they like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils import _safe_indexing, gen_batches

from .._blas import one_blas_thread
from ..features import PublicScaler
from ._public_rows import PublicRows

_BLOCK_ROWS = 4096
_BY_ENTRY = frozenset(
    {
        Binarizer,
        KBinsDiscretizer,
        MaxAbsScaler,
        MinMaxScaler,
        OneHotEncoder,
        OrdinalEncoder,
        PolynomialFeatures,
        PublicScaler,
        RobustScaler,
        StandardScaler,
    }
)
_NOTHING = (None, "passthrough", "drop")
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
        values = np.full((len(X), like.shape[1]), np.nan)
        steps = [step for steps in self.before for step in _flat(steps)]
        with config_context(assume_finite=True), one_blas_thread():
            for rows in gen_batches(len(X), _BLOCK_ROWS) if len(X) else ():
                _fill(values[rows], steps, _safe_indexing(X, rows))
        finite = np.isfinite(values)
        values[~finite] = 0.0
        if hasattr(like, "columns"):
            values = type(like)({name: values[:, j] for j, name in enumerate(like.columns)})
        return values, finite.all(axis=1)


def _flat(step: Any) -> Iterator[Any]:
    """Yield the steps of a pipeline, and of pipelines in it, that do something."""
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            yield from _flat(inner)
    elif not (isinstance(step, str) or step is None):
        yield step


def _fill(values: NDArray[np.float64], steps: list[Any], X: Any) -> None:
    """Write what the steps make of the rows of X to `values`; leave NaN where they refuse."""
    done = 0
    try:
        for step in steps:
            if not _takes_blocks(step):
                break
            X = _in_a_block(step, X)
            done += 1
        else:
            values[...] = _dense(X)
            return
    except Exception:
        _fill_halves(values, steps[done:], X)
        return
    for i in range(len(values)):
        with suppress(Exception):
            values[i] = _one_row(steps[done:], _safe_indexing(X, [i])).reshape(values.shape[1])


def _fill_halves(values: NDArray[np.float64], steps: list[Any], X: Any) -> None:
    n = len(values)
    if n == 1:
        return
    for rows in (slice(0, n // 2), slice(n // 2, n)):
        _fill(values[rows], steps, _safe_indexing(X, rows))


def _in_a_block(step: Any, X: Any) -> Any:
    return _own_loop(step, X) if type(step) is RBFSampler else step.transform(X)


def _own_loop(step: RBFSampler, X: Any) -> NDArray[np.float64]:
    """Return what `RBFSampler.transform` does, with a product for each row."""
    X = np.ascontiguousarray(_dense(X))
    features = np.empty((len(X), step.n_components))
    for row, angles in zip(X, features, strict=True):
        np.cos(row @ step.random_weights_ + step.random_offset_, out=angles)
    features *= (2.0 / step.n_components) ** 0.5
    return features


def _one_row(steps: list[Any], row: Any) -> NDArray[np.float64]:
    for step in steps:
        row = step.transform(row)
    return _dense(row)


def _dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def _takes_blocks(step: Any) -> bool:
    """Return whether a fitted step maps each row by itself, bit for bit, in any block."""
    # Inside another step, which calls it by itself, its products are those of a block.
    return type(step) is RBFSampler or _is_by_entry(step)


def _is_by_entry(step: Any) -> bool:
    """Return whether this type is known; subclasses may do anything, so they are not."""
    kind = type(step)
    if kind is Pipeline:
        return all(_is_by_entry(inner) for _, inner in step.steps)
    if kind is FeatureUnion:
        return all(_is_by_entry(inner) for _, inner in step.transformer_list)
    if kind is ColumnTransformer:
        return all(_is_by_entry(inner) for _, inner, _ in step.transformers_)
    if kind is FunctionTransformer:  # what becomes of "passthrough"
        return step.func is None
    return kind in _BY_ENTRY or (isinstance(step, str | None) and step in _NOTHING)


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
