"""Progress of what takes more than two seconds: a tqdm bar where installed, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_SECONDS_BETWEEN_LINES = 2.0

# What is shown now. Loops far below a `fit` report to it, and need not know whether it is there.
_bar: ContextVar[Any] = ContextVar("skdpsumm_progress", default=None)


@contextmanager
def progress(label: str, verbose: int | bool, total: int | None = None) -> Iterator[None]:
    """Show the steps that `advance` reports inside, on the standard error stream.

    How many steps a fit takes can depend on private rows: progress is for the curator alone.

    Parameters
    ----------
    label : str
        What is at work.
    verbose : int or bool
        0 shows nothing.
    total : int, default=None
        Number of steps, where it is known.
    """
    bar = _open(label, total) if verbose else None
    # None as well: what is silent must not count as steps of what it is a part of.
    token = _bar.set(bar)
    try:
        yield
    finally:
        _bar.reset(token)
        if bar is not None:
            bar.close()


def advance(n_steps: int = 1) -> None:
    """Report steps to what is shown, if anything is."""
    bar = _bar.get()
    if bar is not None:
        bar.update(n_steps)


def _open(label: str, total: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Lines(label, total)
    return tqdm(desc=label, total=total, unit="step")


class _Lines:
    """A line every other second, and one at the end."""

    def __init__(self, label: str, total: int | None):
        self.label, self.of = label, "" if total is None else f" of {total}"
        self.n_steps, self.start = 0, time.monotonic()
        self.printed = self.start

    def update(self, n_steps: int) -> None:
        self.n_steps += n_steps
        if time.monotonic() - self.printed >= _SECONDS_BETWEEN_LINES:
            self._print("")
            self.printed = time.monotonic()

    def close(self) -> None:
        self._print(", done")

    def _print(self, end: str) -> None:
        seconds = time.monotonic() - self.start
        line = f"{self.label}: {self.n_steps}{self.of} steps, {seconds:.1f} s{end}"
        print(line, file=sys.stderr, flush=True)
