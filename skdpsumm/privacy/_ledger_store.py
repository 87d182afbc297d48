"""The ledger's SQLite file: opening, creating, locking, and the few statements run on it."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ._filter import Cost, Spent

_FORMAT, _VERSION = "skdpsumm privacy ledger", 1
_TIMEOUT = 60.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (format TEXT, version INTEGER, epsilon REAL, delta REAL, "
    "adjacency TEXT, accountant TEXT)",
    'CREATE TABLE IF NOT EXISTS datasets (name TEXT PRIMARY KEY, "partition" TEXT)',
    "CREATE TABLE IF NOT EXISTS charges (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "time TEXT NOT NULL, dataset TEXT NOT NULL, label TEXT NOT NULL, adjacency TEXT NOT NULL, "
    "mechanism TEXT NOT NULL, simulated INTEGER NOT NULL, pid INTEGER NOT NULL, "
    "pure REAL, square REAL, log_ratio REAL NOT NULL, tail REAL NOT NULL)",
)
_NEW_META = """
    INSERT INTO meta SELECT :format, :version, :epsilon, :delta, :adjacency, :accountant
    WHERE NOT EXISTS (SELECT * FROM meta)
"""
# An infinite component is stored as NULL, and one NULL makes its sum NULL.
_SPENT = """
    SELECT name, "partition",
           CASE WHEN count(pure) = count(id) THEN total(pure) END,
           CASE WHEN count(square) = count(id) THEN total(square) END,
           total(log_ratio), total(tail)
    FROM datasets LEFT JOIN charges ON dataset = name GROUP BY name
"""
_PAID_SINCE = """
    SELECT count(*),
           CASE WHEN count(pure) = count(id) THEN total(pure) END,
           CASE WHEN count(square) = count(id) THEN total(square) END,
           total(log_ratio), total(tail)
    FROM charges WHERE time >= ? AND dataset = ? AND label = ?
"""
# SQLite takes what is no number for zero when it sums up, which would be below the truth.
_NO_COSTS = """
    SELECT count(*) FROM charges
    WHERE typeof(pure) NOT IN ('real', 'null') OR typeof(square) NOT IN ('real', 'null')
       OR typeof(log_ratio) <> 'real' OR typeof(tail) <> 'real'
       OR min(coalesce(pure, 0), coalesce(square, 0), log_ratio, tail) < 0
"""
_CHARGE = """
    INSERT INTO charges (time, dataset, label, adjacency, mechanism, simulated, pid,
                         pure, square, log_ratio, tail)
    VALUES (:time, :dataset, :label, :adjacency, :mechanism, :simulated, :pid,
            :pure, :square, :log_ratio, :tail)
"""
_CHARGES = 'SELECT charges.*, "partition" FROM charges JOIN datasets ON dataset = name ORDER BY id'

# One connection at a time in a process, and none across a fork: SQLite's POSIX locks belong to
# the process, and a child that inherited the record of one would wait for it in vain.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


class LedgerStore:
    """The tables of one ledger, in a file or (``path=None``) in this process's memory.

    Every operation on a file opens a connection of its own, so that threads, forks and other
    processes may all use the same ledger.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any]):
        self.path, self._settings = path, settings
        if path is None:
            self._owner = os.getpid()
            self._memory = _connect(":memory:")
            weakref.finalize(self, self._memory.close)
            _create(self._memory, settings)
            return
        with _opened(path, "rwc") as db:
            _create(db, settings)
            _check_undamaged(db, path)
        with self.reading():
            pass

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to a file that still is this ledger's."""
        with self._connection() as db:
            if self.path is not None:
                _check_equal(self._settings, settings_of(db, self.path), self.path)
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction that excludes all other writers."""
        with self.reading() as db, db:
            db.execute("BEGIN IMMEDIATE")
            yield db

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self.path is not None:
            with _opened(self.path, "rw") as db:
                yield db
            return
        if os.getpid() != self._owner:
            raise RuntimeError(
                "This ledger lives in the memory of another process, which would not see the "
                "charges made here. Give the ledger a path."
            )
        with _LOCK:
            yield self._memory


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings that the ledger at `path` was created with."""
    with _opened(path, "rw") as db:
        return settings_of(db, path)


def settings_of(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """Return the settings in an open file, or raise ValueError if it is not our ledger."""
    row = db.execute("SELECT * FROM meta").fetchone()
    settings = dict(row) if row else {}
    if settings.pop("format", None) != _FORMAT:
        raise ValueError(_NO_LEDGER.format(path))
    version = settings.pop("version")
    if not isinstance(version, int) or version < 1:
        raise ValueError(_NO_LEDGER.format(path))
    if version > _VERSION:
        raise ValueError(
            f"{path} is a privacy ledger of format version {version}, and this skdpsumm reads "
            f"versions up to {_VERSION}. Upgrade skdpsumm."
        )
    return settings


def spent_by(db: sqlite3.Connection) -> dict[str, Spent]:
    """Return what each data set has paid."""
    if db.execute(_NO_COSTS).fetchone()[0]:
        raise ValueError(
            "The privacy ledger is damaged: it holds a cost that is no number, or negative. "
            "Restore the file."
        )
    return {
        name: Spent(Cost(*map(or_infinite, cost)), partition)
        for name, partition, *cost in db.execute(_SPENT)
    }


def declare(db: sqlite3.Connection, name: str, partition: str | None) -> None:
    """Register a data set; one that is known keeps its partition."""
    known = db.execute('SELECT "partition" FROM datasets WHERE name = ?', (name,)).fetchone()
    if known is None:
        db.execute("INSERT INTO datasets VALUES (?, ?)", (name, partition))
    elif partition not in (None, known[0]):
        raise ValueError(
            f"partition={partition!r} was asked for data set {name!r}, which the ledger already "
            f"holds with partition={known[0]!r}. A data set keeps its partition: use another name."
        )


def add_charge(db: sqlite3.Connection, row: dict[str, Any], cost: Cost) -> int:
    """Write one charge and return its id."""
    # SQLite would store a numpy.float32 as bytes, and sum them up as zero.
    parts = {
        name: None if math.isinf(part) else float(part) for name, part in cost._asdict().items()
    }
    identifier = db.execute(_CHARGE, row | parts).lastrowid
    assert identifier is not None
    return identifier


def paid_since(db: sqlite3.Connection, time: str, dataset: str, label: str) -> tuple[int, Cost]:
    """Return the number and the sum of the charges of a label since some time."""
    count, *cost = db.execute(_PAID_SINCE, (time, dataset, label)).fetchone()
    return count, Cost(*map(or_infinite, cost))


def charges(db: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return all charges in order."""
    return db.execute(_CHARGES).fetchall()


def or_infinite(part: float | None) -> float:
    """Return a stored component of a cost; NULL stands for infinity."""
    return math.inf if part is None else part


def _connect(database: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        database, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
    )
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA synchronous=EXTRA")
    return db


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Yield a fresh connection; `mode` "rw" never creates a file, "rwc" may."""
    with _LOCK, _explained(path), closing(_connect(f"{path.as_uri()}?mode={mode}")) as db:
        yield db


def _create(db: sqlite3.Connection, settings: dict[str, Any]) -> None:
    """Make an empty file a ledger; of two processes that come at once, the second does nothing."""
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    with db:
        db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute(_NEW_META, {"format": _FORMAT, "version": _VERSION, **settings})


def _check_undamaged(db: sqlite3.Connection, path: Path) -> None:
    settings_of(db, path)
    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise ValueError(_NO_LEDGER.format(path))


def _check_equal(ours: dict[str, Any], found: dict[str, Any], path: Path) -> None:
    differing = [name for name in ours if ours[name] != found[name]]
    if differing:
        pairs = ", ".join(f"{n}={found[n]!r} (not {ours[n]!r})" for n in differing)
        raise ValueError(
            f"The ledger {path} has {pairs}. Use PrivacyLedger.open(path) to take its own "
            "settings, or another path for another ledger."
        )


_NO_LEDGER = "{} is not a privacy ledger, or it is damaged. Restore it, or give another path."
_ERRORS: dict[int, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_ERROR: (ValueError, _NO_LEDGER),  # our statements fail on a foreign schema only
    sqlite3.SQLITE_NOTADB: (ValueError, _NO_LEDGER),
    sqlite3.SQLITE_CORRUPT: (ValueError, _NO_LEDGER),
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
    """Raise SQLite's errors as Python's, with the remedy."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", -1) & 0xFF
        if code == sqlite3.SQLITE_CANTOPEN:  # the file is missing, or its journal is not allowed
            kind, text = _ERRORS[sqlite3.SQLITE_READONLY] if path.is_file() else _MISSING
        elif code in _ERRORS:
            kind, text = _ERRORS[code]
        else:
            raise
        raise kind(text.format(path)) from error
