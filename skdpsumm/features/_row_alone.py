"""Maps of scikit-learn's and of the user's, applied so that no row moves another, not by a bit.

A map may have jumps (a sign, a bin, a class), and there the last bit of a product decides. BLAS
rounds a product by the shape of its block and by the place of a row in it: then one row that comes
can change what all others become. So there are three ways to map a table:

- *In blocks*, by steps (`_BY_ENTRY`, exactly these types) whose results are looked up in a list, or
  made of the entries of one row by operations that IEEE 754 rounds alike wherever they are made.
  A block that is refused is halved until only the rows that are refused alone are left.
- *By our own loop*: `RBFSampler`, with a product in which nothing is rounded (`ExactProduct`).
- *One row at a time*, by all other steps and those behind them: they may do what they like, but
  remember rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import config_context, preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import gen_batches

from .._computing import one_blas_thread, silence
from ..schema._reading import SparseRows, rows_of
from ..schema._vectorizer import PublicVectorizer
from ._feature_maps import ExactProduct

# A block has this many rows, or 2**18 entries where sparse rows are made dense.
_ROWS_MAPPED_AT_ONCE = 4096
_BY_ENTRY = frozenset(
    {
        preprocessing.Binarizer,
        preprocessing.KBinsDiscretizer,
        preprocessing.MaxAbsScaler,
        preprocessing.MinMaxScaler,
        preprocessing.OneHotEncoder,
        preprocessing.OrdinalEncoder,
        preprocessing.PolynomialFeatures,
        preprocessing.RobustScaler,
        preprocessing.StandardScaler,
        PublicVectorizer,
    }
)
_NOTHING = (None, "passthrough", "drop")
# Bytes to whose multiples rows are aligned: where a row lies in memory may decide which of its
# entries a vector instruction takes together.
_ALIGNMENT = 64


def map_rows(
    steps: Iterable[Any], X: Any, n_features: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return what fitted steps, one after the other, make of each row by itself.

    Parameters
    ----------
    steps : iterable of fitted transformers
        Pipelines are taken apart.
    X : array, frame or SparseRows of shape (n, d)
        Sparse rows are made dense a few at a time, but for `RBFSampler`.
    n_features : int
        p.

    Returns
    -------
    values : ndarray of shape (n, p)
        As they come, NaN and infinities included; NaN for rows that are not taken.
    taken : ndarray of bool, shape (n,)
        False for the rows on which a step fails.
    """
    values = np.full((len(X), n_features), np.nan)
    taken = np.zeros(len(X), np.bool_)
    steps = [inner for step in steps for inner in _flat(step)]
    fast = config_context(assume_finite=True, skip_parameter_validation=True)
    is_sparse = isinstance(X, SparseRows)
    is_widened = is_sparse and not (steps and type(steps[0]) is RBFSampler)
    n_block = max(1, 2**18 // X.shape[1]) if is_widened else _ROWS_MAPPED_AT_ONCE
    with fast, one_blas_thread(), silence():
        for rows in gen_batches(len(X), n_block) if len(X) else ():
            block = X[rows] if is_sparse else _copy(rows_of(X, rows))
            block = block.toarray() if is_widened else block
            _fill(values[rows], taken[rows], steps, block)
    return values, taken


def dense(X: Any) -> NDArray[np.float64]:
    """Return what a step gives, an array, a frame or a sparse matrix, as an array of floats."""
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def _flat(step: Any) -> Iterator[Any]:
    """Yield the steps of a pipeline, and of pipelines in it, that do something."""
    if type(step) is Pipeline:
        for _, inner in step.steps:
            yield from _flat(inner)
    elif type(step) is FrozenEstimator:
        yield from _flat(step.estimator)
    elif not (isinstance(step, str) or step is None):
        yield step


def _copy(X: Any) -> Any:
    """Return rows that a step with ``copy=False`` may write to."""
    return X.copy() if hasattr(X, "copy") else X


def _fill(values: NDArray[np.float64], taken: NDArray[np.bool_], steps: list[Any], X: Any) -> None:
    """Write what the steps make of the rows of X to `values`; leave NaN where they refuse."""
    done = 0
    try:
        for step in steps:
            # Inside another step, which calls it by itself, its products are those of a block.
            is_fourier = type(step) is RBFSampler
            if not (is_fourier or _is_by_entry(step)):
                break
            X = _fourier(step, X) if is_fourier else step.transform(X)
            done += 1
        else:
            values[...] = dense(X)
            taken[...] = True
            return
    except Exception:
        n = len(values)
        for rows in (slice(0, n // 2), slice(n // 2, n)) if n > 1 else ():
            _fill(values[rows], taken[rows], steps[done:], rows_of(X, rows))
        return
    for i, row in enumerate(_single_rows(X)):
        with suppress(Exception):
            for step in steps[done:]:
                row = step.transform(row)
            values[i] = dense(row).reshape(values.shape[1])
            taken[i] = True


def _fourier(step: RBFSampler, X: Any) -> NDArray[np.float64]:
    """Return what `RBFSampler.transform` does, with a product that is exact."""
    product = ExactProduct(step.random_weights_)
    features = np.empty((X.shape[0], step.n_components))
    rows = iter(features)
    for angles in product(X if isinstance(X, SparseRows) else dense(X)):
        angles += step.random_offset_
        for row in angles:  # each by itself: instructions take several entries together
            np.cos(row, out=next(rows))
    features *= (2.0 / step.n_components) ** 0.5
    return features


def _single_rows(X: Any) -> Iterator[Any]:
    """Yield tables of one row each, those of an array of numbers all at one place in memory."""
    if not isinstance(X, np.ndarray) or X.dtype.hasobject:
        yield from (rows_of(X, [i]) for i in range(X.shape[0]))
        return
    size = X[:1].nbytes
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    row = memory[first : first + size].view(X.dtype).reshape(X[:1].shape)
    for i in range(len(X)):
        row[...] = X[i]
        yield row


def _is_by_entry(step: Any) -> bool:
    """Return whether a fitted step maps each row by itself, bit for bit, in any block.

    Its type must be known; subclasses may do anything.
    """
    kind = type(step)
    if kind is Pipeline:
        return all(_is_by_entry(inner) for _, inner in step.steps)
    if kind is FeatureUnion:
        return all(_is_by_entry(inner) for _, inner in step.transformer_list)
    if kind is ColumnTransformer:
        return all(_is_by_entry(inner) for _, inner, _ in step.transformers_)
    if kind is preprocessing.FunctionTransformer:  # what becomes of "passthrough"
        return step.func is None
    return kind in _BY_ENTRY or (isinstance(step, str | None) and step in _NOTHING)
