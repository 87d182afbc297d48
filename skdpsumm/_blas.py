"""One BLAS thread: many short products gain nothing by more, and lose much on busy machines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

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


@lru_cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
