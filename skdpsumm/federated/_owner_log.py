"""What reached an owner, what left them, and why they did not answer."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import UTC, datetime
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


def note(path: str | os.PathLike, event: str, **entry: Any) -> None:
    """Add one line of JSON to an owner's log, for people to read. `Grants` decides.

    Events: ``received`` (a question of the curator came), ``granted`` (it will be answered),
    ``sent``, ``repeated``, ``refused`` (with ``detail`` for the owner's eyes alone), and
    ``stranger``, a message that the curator did not sign, of which the first ones are noted only.
    Arrays stand as shape, dtype and SHA-256.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdpsumm.federated._owner_log import note
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     note(Path(folder) / "log.jsonl", "received", run=1, ask="sketch", content={})
    ...     (Path(folder) / "log.jsonl").read_text()[:22]
    '{"event": "received", '
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"event": event, "time": now, **entry}).encode()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.read()
        if event == "stranger" and before.count(b'{"event": "stranger"') >= MOST_STRANGERS:
            return
        # A crash in the middle of a line leaves a part of it, which stays alone.
        torn = before and not before.endswith(b"\n")
        file.write(b"\n" * bool(torn) + line + b"\n")
        file.flush()
        os.fsync(handle)
