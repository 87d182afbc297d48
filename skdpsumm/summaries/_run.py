"""Running curator and owners in one process."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from joblib import effective_n_jobs

from ._curator import Curator
from ._owner import DataOwner


def run_protocol(
    curator: Curator,
    owners: Mapping[Any, DataOwner],
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
        Anything with a method `answer` will do.
    n_jobs : int, default=None
        How many owners think at the same time, in threads. The result does not depend on it.
    timeout : float, default=None
        Seconds to wait for the answers to one round of messages; who is later is left out. The
        thread of an owner that hangs is left behind, for Python cannot end it.
    verbose : int, default=0
        Print a line per round.

    Returns
    -------
    curator : Curator
        Finished.
    """
    threads = len(owners) if timeout is not None else effective_n_jobs(n_jobs)
    pool = ThreadPoolExecutor(max(1, min(threads, len(owners))))
    try:
        messages, n_rounds = curator.open(), 0
        while messages:
            n_rounds += 1
            asked = {
                name: pool.submit(owners[name].answer, message)
                for name, message in messages.items()
            }
            wait(asked.values(), timeout=timeout)
            messages = curator.receive({n: _outcome(f) for n, f in asked.items() if f.done()})
            if verbose:
                print(f"round {n_rounds}: {len(asked)} asked, {len(curator.pool)} rows received")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return curator


def _outcome(future: Future) -> Any:
    error = future.exception()
    return future.result() if error is None else error
