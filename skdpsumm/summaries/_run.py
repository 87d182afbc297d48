"""Running curator and owners in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from joblib import effective_n_jobs

from .._computing import one_blas_thread, progress
from ._curator import Curator
from ._owner import DataOwner


def run_protocol(
    curator: Curator,
    owners: Mapping[Any, DataOwner] | Any,
    *,
    n_jobs: int | None = None,
    timeout: float | None = None,
    verbose: int = 0,
) -> Curator:
    """Carry messages between a curator and owners until the curator has chosen.

    Parameters
    ----------
    curator : Curator
        Not opened yet.
    owners : mapping from name to DataOwner
        Anything with a method `answer` will do, and so will one object, an iterable of names, with
        a method `answer_all` from all messages of a round to the answers.
    n_jobs : int, default=None
        How many owners think at the same time, in threads. The result does not depend on it.
    timeout : float, default=None
        Seconds to wait for the answers to one round of messages; who is later is left out. The
        thread of an owner that hangs is left behind, for Python cannot end it.
    verbose : int, default=0
        Print a line per round, with the number of rows received, and show the progress of the
        choice on the standard error stream: for the curator alone.

    Returns
    -------
    curator : Curator
        Finished.
    """
    if set(owners) != set(curator.shares):
        raise ValueError("owners must be those that the curator was made for.")
    ask = _asker(owners, n_jobs, timeout)
    with one_blas_thread(), progress("protocol", verbose):
        messages, n_rounds = curator.open(), 0
        while messages:
            n_rounds += 1
            n_asked = len(messages)
            messages = curator.receive(ask(messages))
            if verbose:
                print(f"round {n_rounds}: {n_asked} asked, {len(curator.pool)} rows received")
    return curator


def _asker(
    owners: Any, n_jobs: int | None, timeout: float | None
) -> Callable[[Mapping[Any, Any]], dict[Any, Any]]:
    """Return what gets the answers to the messages of a round."""
    if hasattr(owners, "answer_all"):
        return owners.answer_all
    threads = len(owners) if timeout is not None else effective_n_jobs(n_jobs)
    return lambda messages: _ask(owners, messages, threads, timeout)


def _ask(
    owners: Mapping[Any, Any], messages: Mapping[Any, Any], n_threads: int, timeout: float | None
) -> dict[Any, Any]:
    """Return the answers, and exceptions in the place of some, that came in time."""
    answers: dict[Any, Any] = {}
    turns = threading.Semaphore(max(1, n_threads))

    def ask(name: Any) -> None:
        with turns:
            try:
                answers[name] = owners[name].answer(messages[name])
            except (Exception, SystemExit) as error:  # the curator leaves this owner out
                answers[name] = error

    if n_threads == 1 and timeout is None:
        for name in messages:
            ask(name)
        return answers
    # Daemons, so that an owner that hangs does not keep the process alive.
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in messages]
    deadline = None if timeout is None else time.monotonic() + timeout
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
    return dict(answers)
