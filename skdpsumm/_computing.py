"""What surrounds a computation: its progress, its BLAS threads, what it keeps, and warnings.

Progress is a line every other second. Many short products gain nothing by more than one BLAS
thread, and lose much on busy machines. Warnings of ours point to the caller's line; those of others
may tell of private rows.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# The largest relative error of one operation in float64.
UNIT = float(np.finfo(np.float64).eps) / 2
# What may be 0 is raised to this before something is divided by it, or its logarithm is taken.
TINY = 1e-300
_SECONDS_BETWEEN_LINES = 2.0


def power_below(size: float) -> float:
    """Return the largest power of two that is at most `size`: multiples of it are exact."""
    return math.ldexp(1.0, math.frexp(size)[1] - 1)


# ---- progress

# The progress that is shown now. Loops far below a `fit` report to it, and need not know if it is
# there.
_shown: ContextVar[_Lines | None] = ContextVar("skdpsumm_progress", default=None)


@contextmanager
def progress(label: str, verbose: int | bool) -> Iterator[None]:
    """Show the steps that `advance` reports inside, on the standard error stream.

    How many steps a fit takes can depend on private rows: progress is for the curator alone.

    Parameters
    ----------
    label : str
        What is at work.
    verbose : int or bool
        0 shows nothing.
    """
    lines = _Lines(label) if verbose else None
    # None, too, is set: steps of a silent part are no steps of the whole.
    token = _shown.set(lines)
    try:
        yield
    finally:
        _shown.reset(token)
        if lines is not None:
            lines.show(", done")


def advance(n_steps: int = 1) -> None:
    """Report steps to what is shown, if anything is."""
    lines = _shown.get()
    if lines is not None:
        lines.update(n_steps)


class _Lines:
    """A line every other second, and one at the end."""

    def __init__(self, label: str):
        self.label, self.n_steps, self.start = label, 0, time.monotonic()
        self.printed = self.start

    def update(self, n_steps: int) -> None:
        self.n_steps += n_steps
        if time.monotonic() - self.printed >= _SECONDS_BETWEEN_LINES:
            self.show()
            self.printed = time.monotonic()

    def show(self, end: str = "") -> None:
        seconds = time.monotonic() - self.start
        line = f"{self.label}: {self.n_steps} steps, {seconds:.1f} s{end}"
        with suppress(OSError, ValueError):  # a stream that is gone loses no release that was paid
            print(line, file=sys.stderr, flush=True)


_controller = lru_cache(ThreadpoolController)
_lock = threading.Lock()
_inside: list[Any] = []  # the limit, once per thread of ours that is inside


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS use one thread; results then do not depend on how many there are.

    The setting is the process's. So the first thread to enter sets it, and the last to leave
    restores what was.
    """
    with _lock:
        limit = _inside[0] if _inside else _controller().limit(limits=1, user_api="blas")
        _inside.append(limit)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                limit.restore_original_limits()


_HOME = os.path.join(os.path.dirname(__file__), "")


def warn_caller(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here.

    `warnings.warn` has `skip_file_prefixes` for this from Python 3.12 on.

    Parameters
    ----------
    message : str or Warning
        A warning that is made already, as one with attributes, is given as it is.
    category : type of Warning, default=UserWarning
        Of a message that is a string.
    """
    # Not one fixed level: the same warning comes from fits at different depths.
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOME):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def silence() -> Iterator[None]:
    """Drop the warnings of functions of others, and of numpy, for a private row may decide them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


_FITS = "sklearn.model_selection._validation"


def in_a_search() -> bool:
    """Whether this is called by a fit or a score of a scikit-learn search or cross-validation.

    Searches turn the memory of `warnings`, which should show each once, off and on again.
    """
    stack = traceback.walk_stack(None)
    return any(frame.f_globals.get("__name__") == _FITS for frame, _ in stack)


class Kept:
    """What was found last, up to a total size. A pickle holds none of it.

    Threads may use it together: what one has found and another has let go is found again.

    Parameters
    ----------
    most : int
        The largest total: of arrays their sizes, of anything else 1.
    """

    def __init__(self, most: int):
        self._most, self._n_kept, self._lock = most, 0, threading.Lock()
        self._found: dict[Any, Any] = {}

    def __getstate__(self) -> int:
        return self._most

    def __setstate__(self, most: int) -> None:
        self.__init__(most)  # type: ignore[misc]

    def __contains__(self, key: Any) -> bool:
        return key in self._found

    def get(self, key: Any, find: Callable[[], Any]) -> Any:
        """Return what is kept, or find it."""
        found = self._found.get(key)
        if found is None:
            found = find()
            if _size(found) <= self._most:
                with self._lock:
                    self._keep(key, found)
        return found

    def _keep(self, key: Any, found: Any) -> None:
        self._n_kept += _size(found) - _size(self._found.pop(key, None))
        self._found[key] = found
        while self._n_kept > self._most:
            self._n_kept -= _size(self._found.pop(next(iter(self._found))))


def _size(found: Any) -> int:
    return 0 if found is None else getattr(found, "size", 1)
