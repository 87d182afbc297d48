"""What reached an owner, what left them, and why they did not answer."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

GENERIC = "the owner's side failed; the owner's log says why"
# Lines about messages of strangers: whoever sends many of them fills no disk.
MOST_STRANGERS = 1000


class Refusal(Exception):
    """Why an owner does not answer, in words that may leave their site.

    Its text consists of what both parties have agreed on (names of columns, of parameters) and
    never of anything read off the table. All other exceptions stay at home: the curator gets
    `GENERIC` in their place.

    Parameters
    ----------
    reason : str
        For the curator.
    detail : str, default=""
        For the owner's log.
    """

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(reason)
        self.detail = detail


class OwnerLog:
    """One line of JSON per event; the file is the record and the memory, and is only added to.

    Nothing is answered that is not on disk here first. Events: ``received`` (a question of the
    curator came), ``granted`` (it will be answered; rows are counted here), ``sent``, ``repeated``
    and ``refused``, the last with ``detail`` for the owner's eyes alone; and ``stranger``, a
    message that the curator did not sign. Arrays stand as shape, dtype and SHA-256.

    A crash while a line is written leaves a part of it, and nothing was answered then: the part is
    cut off, and what was granted before counts on.

    Parameters
    ----------
    path : path-like
        Made where there is none. Whoever deletes it starts counting anew.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdpsumm.federated._owner_log import OwnerLog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = OwnerLog(Path(folder) / "log.jsonl")
    ...     log.add_question(1, 0, ask="sketch", question="ab12", content={})
    ...     [entry["event"] for entry in log.entries()]
    ['received']
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)

    def add(self, event: str, **entry: Any) -> None:
        """Write one event, to the disk."""
        with self._locked() as file:
            _repair(file)  # or this line would hang on a torn one, and spoil it for good
            _write(file, event, entry)

    def add_stranger(self, run: int, size: int) -> None:
        """Note a message that the curator did not sign; of many, the first ones only."""
        with self._locked() as file:
            noted = sum(entry["event"] == "stranger" for entry in _read(file))
            if noted < MOST_STRANGERS:
                last = {"note": "no more of these are noted"} if noted == MOST_STRANGERS - 1 else {}
                _write(file, "stranger", {"run": run, "bytes": size, **last})

    def add_question(self, run: int, counter: int, **entry: Any) -> None:
        """Write down that a question came.

        Raises
        ------
        Refusal
            If its counter is not beyond those of all questions of the run before.
        """
        with self._locked() as file:
            before = [e for e in _read(file) if e["event"] == "received" and e["run"] == run]
            _write(file, "received", {"run": run, "counter": counter, **entry})
            if any(counter <= entry["counter"] for entry in before):
                raise Refusal("counter: another question of this run had it, or one beyond it")

    def rows_granted(self) -> int:
        """Return how many rows were let go so far."""
        return sum(entry["rows"] for entry in self.entries() if entry["event"] == "granted")

    def grant(self, run: int, ask: str, n_rows: int, max_rows: int) -> None:
        """Allow a run its one answer of a kind, and count the rows that it may take along.

        Parameters
        ----------
        run : int
            Flower's id of the run.
        ask : {"ask", "sketch"}
        n_rows, max_rows : int
            Asked for now, and allowed over all runs.

        Raises
        ------
        Refusal
            If the run has had its answer, or asks for more rows than the owner lets go.
        """
        with self._locked() as file:
            granted = [entry for entry in _read(file) if entry["event"] == "granted"]
            if any(e["run"] == run and e["ask"] == ask for e in granted):
                raise Refusal(f"{ask!r} was asked before in this run, and has one answer a run")
            if n_rows and sum(entry["rows"] for entry in granted) + n_rows > max_rows:
                raise Refusal("max_rows: the owner lets no more rows go")
            _write(file, "granted", {"run": run, "ask": ask, "rows": n_rows})

    def entries(self) -> list[dict[str, Any]]:
        """Return all events, in order."""
        with self._locked() as file:
            return _read(file)

    def received(self, kind: str, run: int | None = None) -> list[dict[str, Any]]:
        """Return the questions of one kind that came, in order.

        Parameters
        ----------
        kind : {"sign", "ask", "sketch"}
        run : int or None, default=None
            None is all runs.

        Returns
        -------
        list of dict
            Of "ask": what ``describe`` makes of the owner's part of `Curator.transcript`.
        """
        return [
            entry["content"]
            for entry in self.entries()
            if entry["event"] == "received" and entry["ask"] == kind and run in (None, entry["run"])
        ]

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "r+b") as file:
            os.fchmod(handle, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file


def _read(file: Any) -> list[dict[str, Any]]:
    """Return all entries; a last line that a crash has torn is cut off."""
    lines = _repair(file)
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(
            "The owner's log is damaged, and what was granted cannot be counted. Move it away if "
            "you accept that counting starts anew."
        ) from error


def _repair(file: Any) -> list[bytes]:
    """Return all whole lines; cut the last one off if a crash has torn it."""
    file.seek(0)
    lines = file.read().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        torn = lines.pop()
        file.truncate(file.tell() - len(torn))
        _write(file, "repaired", {"bytes": len(torn)})
    return lines


def _write(file: Any, event: str, entry: Mapping[str, Any]) -> None:
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **entry}
    file.write(json.dumps(line).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
