"""The ledger's SQLite file: opening, creating, locking, and its errors in plain words."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ._ledger_book import Book, Damage, create, is_of_version_1, read, upgrade
from ._warnings import LedgerDamagedError

_TIMEOUT = 60.0

# One connection at a time in a process, and none across a fork: SQLite's POSIX locks belong to
# the process, and a child that inherited the record of one would wait for it in vain.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


class LedgerStore:
    """One ledger, in a file or (``path=None``) in this process's memory.

    Every operation on a file opens a connection of its own, so that threads, forks and other
    processes may all use the same ledger. Each reads the file whole and verifies it, unless not a
    byte has changed since this object last did; and it must build on what this object has seen.

    Parameters
    ----------
    path : Path or None
    settings : dict, default=None
        What the ledger must have, and what a missing file is made with. None takes the file's.
    known : tuple of (length, head), default=None
        Of another object, on whose reading the file must build.
    """

    def __init__(
        self,
        path: Path | None,
        settings: dict[str, Any] | None = None,
        known: tuple[int, str] | None = None,
    ):
        self.path, self.known = path, known
        if path is None:
            assert settings is not None
            self._owner = os.getpid()
            self._memory = _connect(":memory:")
            weakref.finalize(self, self._memory.close)
            self.settings = settings
            self._book: Book | None = create(self._memory, settings)
            return
        if settings is not None and not path.exists():
            _make(path, settings)
        _upgrade(path)
        self._book = None
        with self.reading() as (_, book):
            self.settings = book.settings
        if settings is not None:
            _check_equal(settings, self.settings, path)

    @contextmanager
    def reading(self) -> Iterator[tuple[sqlite3.Connection, Book]]:
        """Yield a connection to what still is this ledger, and what it holds."""
        with self._connection() as db:
            if self.path is None:
                yield db, self._verified(db)
                return
            with db:
                db.execute("BEGIN")
                yield db, self._verified(db)

    @contextmanager
    def writing(self) -> Iterator[tuple[sqlite3.Connection, Book]]:
        """Yield the same in a transaction that excludes all other writers; the book may grow."""
        with self._connection() as db:
            with db:
                db.execute("BEGIN IMMEDIATE")
                before = self._verified(db)
                book = before.copy()
                yield db, book
                if not db.in_transaction:  # a hook of warnings wrote to this ledger
                    raise RuntimeError(
                        "The charge was interrupted by a warning's hook, and undone; charge again."
                    )
                if book.length > before.length:
                    book.seal(db)
            self._keep(book)

    def _verified(self, db: sqlite3.Connection) -> Book:
        if self._book is None or (self.path is not None and not self._book.is_still_in(db)):
            self._keep(read(db, self.known))
        assert self._book is not None
        return self._book

    def _keep(self, book: Book) -> None:
        self._book, self.known = book, (book.length, book.head)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self.path is not None:
            with _opened(self.path) as db:
                yield db
            return
        if os.getpid() != self._owner:
            raise RuntimeError(
                "This ledger lives in the memory of another process, which would not see the "
                "charges made here. Give the ledger a path."
            )
        with _LOCK:
            yield self._memory


def _connect(database: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        database, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
    )
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA synchronous=EXTRA")
    return db


@contextmanager
def _opened(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """Yield a fresh connection; `mode` "rw" never creates a file, "rwc" may."""
    with _LOCK, _explained(path), closing(_connect(f"{path.as_uri()}?mode={mode}")) as db:
        yield db


def _make(path: Path, settings: dict[str, Any]) -> None:
    """Make a new ledger, whole or not at all, unless another process is faster.

    It gets its name when it is complete: an empty file is no new ledger, but one that lost all.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(_MISSING[1].format(path))
    draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with _opened(draft, "rwc") as db, db:
            db.execute("BEGIN IMMEDIATE")
            create(db, settings)
        with suppress(FileExistsError):
            os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _upgrade(path: Path) -> None:
    """Bring a file of an older version up to date, in one transaction."""
    with _opened(path) as db, db:
        db.execute("BEGIN")
        if not is_of_version_1(db):
            return
        db.execute("ROLLBACK")
        db.execute("BEGIN IMMEDIATE")
        if is_of_version_1(db):  # still
            upgrade(db)


def _check_equal(ours: dict[str, Any], found: dict[str, Any], path: Path) -> None:
    differing = [name for name in ours if ours[name] != found[name]]
    if differing:
        pairs = ", ".join(f"{n}={found[n]!r} (not {ours[n]!r})" for n in differing)
        raise ValueError(
            f"The ledger {path} has {pairs}. Use PrivacyLedger.open(path) to take its own "
            "settings, or another path for another ledger."
        )


# Codes of a file that is not what it should be. Our statements fail on a foreign schema only.
_DAMAGED = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
}
_ERRORS: dict[int, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_READONLY: (
        PermissionError,
        "The privacy ledger {} cannot be written. Nothing was charged. Make the file and its "
        "folder writable: a ledger that cannot be charged can release nothing.",
    ),
    sqlite3.SQLITE_FULL: (
        OSError,
        "The disk of the privacy ledger {} is full. Nothing was charged. Make room: a ledger that "
        "cannot be charged can release nothing.",
    ),
    sqlite3.SQLITE_IOERR: (
        OSError,
        "The privacy ledger {} could not be read or written: the disk failed or is full, or files "
        "may not grow further. Nothing may be released; `entries` tells whether a charge was "
        "written.",
    ),
    sqlite3.SQLITE_BUSY: (
        TimeoutError,
        f"The privacy ledger {{}} was locked by another process for {_TIMEOUT:g} seconds. Nothing "
        "was charged. Try again, or end the process that holds it.",
    ),
}
_MISSING = (
    FileNotFoundError,
    "There is no privacy ledger {}, and none can be created there. Check the path.",
)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as Python's, and damage as what it is, with the remedy."""
    try:
        yield
    except Damage as damage:
        raise _damaged(path, str(damage)) from None
    except UnicodeDecodeError as error:  # in a name of SQLite's own
        raise _damaged(path, "is not a privacy ledger, or it is damaged") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in _DAMAGED:
            raise _damaged(path, f"is not a privacy ledger, or it is damaged ({error})") from error
        if code == sqlite3.SQLITE_CANTOPEN:  # the file is missing, or its journal is not allowed
            kind, text = _ERRORS[sqlite3.SQLITE_READONLY] if path.is_file() else _MISSING
        elif code in _ERRORS:
            kind, text = _ERRORS[code]
        else:
            raise
        raise kind(text.format(path)) from error


def _damaged(path: Path, problem: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"{path} {problem}. Nothing was charged, and the file is left as it is. Put back a copy "
        "that holds all charges, or give another path if this is no ledger of yours. If there is "
        "no such copy, a new ledger needs a new budget, from whoever owns the data."
    )
