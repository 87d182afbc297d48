"""Files of one party: nobody else on the machine can read them (0600, in folders of 0700).

`Grants` is what an owner has signed and let go: the record that decides what is answered.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from ..privacy import PrivacyLedger, PureDP
from ..schema._schema import read_toml

# Room for what is written beside an answer or a result: log, ledgers and their journals, a report,
# errors and output.
BYTES_OF_RECORDS = 2**17
# Lines about messages of strangers: whoever sends many of them fills no disk.
MOST_STRANGERS = 1000
GENERIC = "the owner's side failed; the owner's log, or the output of their node, says why"
# What the system says where no byte more can be written: the disk, a quota, a limit of a file.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def make_folder(path: str | os.PathLike, *, new: bool = False) -> Path:
    """Make a folder and those above it; raise FileExistsError if it has to be `new`."""
    os.umask(0o077)  # whatever any library writes into it is for this user's eyes alone, too
    path = Path(path)
    path.mkdir(parents=True, exist_ok=not new)
    return path


def write_file(path: str | os.PathLike, content: bytes | str) -> None:
    """Write a file in one step: whoever finds it finds all of it."""
    path = Path(path)
    # By chance, and not by process: what a killed one has left stands in nobody's way.
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:  # on a full disk, what was begun takes room from others
        part.unlink(missing_ok=True)
        raise


def check_space(folder: str | os.PathLike, n_bytes: int) -> None:
    """Raise OSError where a folder has no room for so many bytes more, by its disk or a quota."""
    try:
        with tempfile.TemporaryFile(dir=str(folder)) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:  # macOS
                file.write(os.urandom(n_bytes))
    except OSError as error:
        if is_full(error):
            error.strerror, error.filename = f"Make room for {n_bytes:,} bytes", str(folder)
        raise


def is_full(error: BaseException) -> bool:
    """Return whether an error says that no byte more can be written."""
    return isinstance(error, OSError) and error.errno in _FULL


@contextmanager
def locked(path: str | os.PathLike, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock that ends with this process; raise BlockingIOError instead of waiting for it."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def printable(text: str) -> str:
    """Return a text of others for a terminal: what would steer it is taken out."""
    return "".join(c for c in text if c.isprintable())


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
    >>> from skdpsumm.federated._files import note
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


class Settings:
    """A dataclass that a TOML file describes."""

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read a party's TOML file; relative paths in it start at its folder.

        Raises
        ------
        ValueError
            For entries that are unknown or missing.
        """
        path = Path(path).expanduser().absolute()
        given, known = read_toml(path), {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
        needed = {name for name, f in known.items() if f.default is MISSING}
        if not needed <= set(given) <= set(known):
            raise ValueError(
                f"{path.name} must have {sorted(needed)}, and may have "
                f"{sorted(set(known) - needed)}; it has {sorted(given)}."
            )
        for name in given:
            if "Path" in known[name].type:
                given[name] = path.parent / Path(given[name]).expanduser()
        return cls(**given)


class Refusal(ValueError):
    """Why a party does not answer, take an answer or go on, in words that others may read.

    Its text consists of what all have agreed on (names of columns, of parameters), and never of
    anything read off a table or a message. The texts of all other exceptions stay at home:
    others get `GENERIC` in their place.
    """


class Grants:
    """The grants of one owner, in a ledger's file: chained, locked, and on disk before an answer.

    Each run has one answer of each kind: its signature ("sign"), rows ("ask") and a sketch. Each is
    one entry, written before the answer is made. A crash in between leaves an entry without an
    answer, and the entry counts: what is granted is never granted twice.

    An entry of rows states the price of rows in the clear, an infinite epsilon, and the others 0: a
    sketch is charged to the owner's `ledger`. So the file is a `PrivacyLedger` with
    ``epsilon=np.inf``, and whatever damages it is told: entries that are changed, cut off, moved or
    missing, and a file that is emptied or gone. Digests are not signatures. Whoever can write the
    file can put back an old copy, or write all of it anew, and nothing here can tell.

    Parameters
    ----------
    path : path-like
        A file that `make` made.
    max_rows : int, default=0
        Rows that all runs together may take.
    max_runs : int or None, default=None
        Runs that may take anything. None allows all.

    Raises
    ------
    FileNotFoundError
        If it is gone: then nothing is granted.
    LedgerDamagedError
        If it is damaged, by this and by all methods.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skdpsumm.federated._files import Grants
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Grants.make(Path(folder) / "grants")
    ...     grants = Grants(Path(folder) / "grants", max_rows=100)
    ...     grants.grant(1, "sign", "ab12")
    ...     grants.grant(1, "ask", "ab12", 80)
    ...     grants.n_rows, grants.runs
    (80, {1})
    """

    def __init__(self, path: str | os.PathLike, max_rows: int = 0, max_runs: int | None = None):
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"There is no record of grants {path}, so nothing is granted. Put back the file "
                "that the command `new` made. A new one forgets what was let go."
            )
        self._ledger = PrivacyLedger.open(path)
        self._lock = f"{os.path.realpath(path)}.lock"
        self.max_rows, self.max_runs = max_rows, max_runs

    @staticmethod
    def make(path: str | os.PathLike) -> None:
        """Make a new record, for this user's eyes only."""
        PrivacyLedger(path, epsilon=math.inf)

    def entries(self) -> list[dict[str, Any]]:
        """Return what was granted, in order: `run`, `ask`, `agreement` (its digest) and `rows`."""
        return [json.loads(entry["label"]) for entry in self._ledger.entries()]

    @property
    def n_rows(self) -> int:
        """Rows that were let go so far."""
        return sum(entry["rows"] for entry in self.entries())

    @property
    def runs(self) -> set[int]:
        """Runs that had an answer with rows or a sketch. Signatures take nothing."""
        return {entry["run"] for entry in self.entries() if entry["ask"] != "sign"}

    def check_room(self, run: int, n_rows: int) -> None:
        """Raise Refusal, by name, if a run may not take `n_rows`, or is one too many."""
        if n_rows and self.n_rows + n_rows > self.max_rows:
            raise Refusal(f"max_rows: the owner does not let {n_rows} more rows go")
        if self.max_runs is not None and len(self.runs | {run}) > self.max_runs:
            raise Refusal("max_runs: the owner takes part in no more runs")

    def check_signed(self, run: int, agreement: str) -> None:
        """Raise Refusal unless this owner has signed this agreement off in this run."""
        signed = {"run": run, "ask": "sign", "agreement": agreement, "rows": 0}
        if signed not in self.entries():
            raise Refusal("sign: this owner has not signed the agreement off in this run")

    def grant(self, run: int, ask: str, agreement: str, n_rows: int = 0) -> None:
        """Write down that a run has its one answer of a kind, and may take rows along.

        Under a lock beside the file, which nodes may share: each counts what others have granted.

        Parameters
        ----------
        run : int
            Flower's id of the run.
        ask : {"sign", "ask", "sketch"}
        agreement : str
            Digest of the agreement that the owner has signed, or signs hereby.
        n_rows : int, default=0

        Raises
        ------
        Refusal
            If the run has had its answer, or there is no room for it.
        """
        with locked(self._lock):
            if any((entry["run"], entry["ask"]) == (run, ask) for entry in self.entries()):
                raise Refusal(
                    f"{ask!r} was asked before in this run, and has one answer a run. If none "
                    "came, it was lost after it was granted, and counts: start a new run"
                )
            self.check_room(run, n_rows)
            entry = {"run": run, "ask": ask, "agreement": agreement, "rows": n_rows}
            self._ledger.charge(PureDP(math.inf if n_rows else 0.0), label=json.dumps(entry))
