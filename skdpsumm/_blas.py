"""One BLAS thread: many short products gain nothing by more, and lose much on busy machines."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread; results then do not depend on how many."""
    return _controller().limit(limits=1, user_api="blas")


@lru_cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
