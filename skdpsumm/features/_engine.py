"""Sums of feature maps over rows: numba where it is installed, numpy otherwise.

What a row adds to a sum is an integer vector that depends, bit for bit, on that row alone: not on
its position, on the other rows, on how they are cut into blocks or on the number of threads. The
sensitivity of every sketch rests on this. Both engines owe it to their arithmetic and not to luck
(see `_engine_numpy.ExactProduct` and `_engine_numba`). They agree to rounding, not to the bit.

Set the environment variable ``SKDPSUMM_ENGINE`` to ``numpy`` or ``numba`` to force one.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from .._computing import one_blas_thread
from . import _engine_numpy
from ._engine_numpy import fourier_features

__all__ = [
    "engine_name",
    "engine_signature",
    "fourier_features",
    "fourier_grid",
    "fourier_sums",
    "race_codes",
    "race_counts",
]

# Enough rows to pay for a task, few enough to spread over threads. Both engines count on this
# bound to keep their partial sums exact.
_ROWS_PER_TASK = 16384


def fourier_sums(X: NDArray, frequencies: NDArray, n_threads: int = 1) -> NDArray[np.int64]:
    """Return the sum over rows of ``rint(2**15 [cos(2 pi x F), sin(2 pi x F)])``.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        Finite rows, clipped to +-2**60; may be a memmap, which is read block by block.
    frequencies : ndarray of shape (d, p), float64
        F in turns per unit of X, below 1e12.
    n_threads : int
        Blocks of rows are shared out among so many threads; the result is the same. Only numba
        gains: with numpy they run one after the other.

    Returns
    -------
    sums : ndarray of shape (2 * p,), int64
        The p cosines, then the p sines.

    Notes
    -----
    A row adds the pair (c, s) with |c|, |s| <= 2**15, and each of c and s is within
    ``0.5 + 2**-5`` of the same point on the circle of radius 2**15. That point's angle is x F
    in float64 (numba), and to 2**-17 turns (numpy).
    """
    engine = _engine()
    return _sum_tasks(lambda rows: engine.fourier_sums(rows, frequencies), X, n_threads)


def fourier_grid(X: NDArray, frequencies: NDArray) -> NDArray[np.float32]:
    """Return what each row adds to `fourier_sums`, shape (n, 2 * p): whole numbers up to 2**15.

    Of numpy's engine, whichever sums: sums of these rows are exact and row by row alone, and may
    differ from numba's by a unit.
    """
    with one_blas_thread():
        return _engine_numpy.fourier_grid(_block(X, slice(None)), frequencies)


def race_counts(
    X: NDArray, projections: NDArray, offsets: NDArray, n_buckets: int, n_threads: int = 1
) -> NDArray[np.int64]:
    """Count the rows in each bucket of each hash.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
        As in `fourier_sums`.
    projections : ndarray of shape (d, R), float64
    offsets : ndarray of shape (R,), float64
    n_buckets : int
        W.
    n_threads : int
        As in `fourier_sums`.

    Returns
    -------
    counts : ndarray of shape (R * W,), int64
        The W counts of the first hash, then those of the second, and so on.
    """
    engine = _engine()
    return _sum_tasks(
        lambda rows: engine.race_counts(rows, projections, offsets, n_buckets), X, n_threads
    )


def race_codes(
    X: NDArray, projections: NDArray, offsets: NDArray, n_buckets: int
) -> NDArray[np.int32]:
    """Return ``floor(X P + offset) mod W``, the buckets of each row, shape (n, R).

    Parameters are those of `race_counts`, which counts these very buckets.
    """
    engine = _engine()
    codes = np.empty((len(X), len(offsets)), np.int32)
    for rows in _tasks(len(X)):
        codes[rows] = engine.race_codes(_block(X, rows), projections, offsets, n_buckets)
    return codes


def engine_name() -> str:
    """Return "numba" or "numpy": what the environment asks for, or else the fastest installed."""
    name = os.environ.get("SKDPSUMM_ENGINE") or _fastest()
    if name not in ("numba", "numpy"):
        raise ValueError(f"SKDPSUMM_ENGINE must be 'numba' or 'numpy', got {name!r}.")
    return name


def check_engine() -> None:
    """Raise ValueError for an engine that the environment asks for and that is not there."""
    try:
        _engine()
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise ValueError(
            "SKDPSUMM_ENGINE is 'numba', which is not installed: pip install numba, or set 'numpy'."
        )


def engine_signature() -> str:
    """Return what decides the last bit of a row's contribution.

    Sums of processes may be added where they agree in it. Else what a row adds would hang on the
    process that happened to take it, which no sensitivity allows.
    """
    return _signature(engine_name())


@lru_cache
def _signature(name: str) -> str:
    # numpy's cosine may differ by processor; numba's engine has none.
    table = _engine_numpy.circle().tobytes() if name == "numpy" else b""
    version = importlib.import_module("..", __package__).__version__
    return f"skdpsumm {version}, {name}, {hashlib.sha256(table).hexdigest()[:16]}"


def _fastest() -> str:
    try:
        importlib.import_module("numba")
    except ImportError:
        return "numpy"
    return "numba"


def _engine() -> ModuleType:
    return importlib.import_module(f"._engine_{engine_name()}", __package__)


def _sum_tasks(
    task: Callable[[NDArray], NDArray[np.int64]], X: NDArray, n_threads: int
) -> NDArray[np.int64]:
    """Return the sum of ``task(rows)`` over blocks of rows of X."""
    blocks = (_block(X, rows) for rows in _tasks(len(X)))
    # numpy's short operations would only pass the interpreter's lock to and fro.
    if n_threads == 1 or engine_name() == "numpy":
        with one_blas_thread():  # nor do threads pay inside BLAS
            return sum(map(task, blocks))
    with ThreadPoolExecutor(n_threads) as pool:
        return sum(pool.map(task, blocks))


def _block(X: NDArray, rows: slice) -> NDArray[np.float64]:
    """Return rows in float64, whatever X is: what a row adds may not depend on its container."""
    return np.ascontiguousarray(X[rows], np.float64)


def _tasks(n: int) -> list[slice]:
    """Cut n rows into tasks: at least one, so that the sum over no rows has a shape."""
    starts = range(0, max(n, 1), _ROWS_PER_TASK)
    return [slice(start, start + _ROWS_PER_TASK) for start in starts]
