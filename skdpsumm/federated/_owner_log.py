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

GENERIC = "the owner's side failed; the owner's log, or the output of their node, says why"
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
    """One line of JSON per event, for people to read; it is only added to. `Grants` decides.

    Events: ``received`` (a question of the curator came), ``granted`` (it will be answered),
    ``sent``, ``repeated``, ``refused`` (with ``detail`` for the owner's eyes alone), ``refused
    again``, and ``stranger``, a message that the curator did not sign. Arrays stand as shape, dtype
    and SHA-256.

    A crash while a line is written leaves a part of it, which is cut off.

    Parameters
    ----------
    path : path-like
        Made where there is none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdpsumm.federated._owner_log import OwnerLog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = OwnerLog(Path(folder) / "log.jsonl")
    ...     log.add("received", run=1, ask="sketch", question="ab12", content={})
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

    def entries(self) -> list[dict[str, Any]]:
        """Return all events, in order."""
        with self._locked() as file:
            return _read(file)

    def answered(self) -> set[tuple[int, str]]:
        """Return the runs and kinds of all questions whose answer went out."""
        sent: dict[str, tuple[int, str]] = {}
        for entry in self.entries():
            if entry["event"] in ("sent", "repeated"):
                sent[entry["question"]] = entry["run"], entry["ask"]
            elif entry["event"] == "refused":  # the answer could not be kept, after all
                sent.pop(entry["question"], None)
        return set(sent.values())

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
            "The owner's log is damaged. Move it away: a new one is begun, and what was granted "
            "counts on."
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
