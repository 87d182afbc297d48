"""Files of one party: nobody else on the machine can read them (0600, in folders of 0700)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from ..schema._schema import read_toml

# Room for what is written beside an answer or a result: log, ledgers and their journals, a report,
# errors and output.
BYTES_OF_RECORDS = 2**17
# Lines about messages of strangers: whoever sends many of them fills no disk.
MOST_STRANGERS = 1000
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
