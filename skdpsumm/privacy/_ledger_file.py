"""The ledger's SQLite file: opening, locking, its errors in plain words, and what it says.

A file holds records, each a text of JSON at its `place`: the settings at place 0, and from then on
charges and declared data sets, in order. The digest of a record covers its text and the digest of
the record before, and the table `meta` keeps how many records there are. So a flipped bit, an
edited cell, and a record that is lost, doubled or moved are told. Digests are no signatures:
whoever can write the file can compute them anew.

Every use reads and verifies all of it, which takes some ten microseconds a record: a file of
10,000 charges takes a tenth of a second.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from .._sklearn import Interval, StrOptions, validate_parameter_constraints
from ._mechanisms import Cost, add
from ._warnings import LedgerDamagedError

LEDGER_FORMAT, LEDGER_VERSION = "skdpsumm privacy ledger", 5
_SETTINGS: dict[str, list[Any]] = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "adjacency": [StrOptions({"add_remove", "replace_one"})],
    "accountant": [StrOptions({"pure", "gdp", "zcdp"}), None],
    "unit": [StrOptions({"row", "group"})],
}
# Plain text, for the file must hold exactly these tables, and nothing that acts by itself. The
# place is SQLite's own key, so that records are found by it.
_TABLES = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, length INTEGER)",
    "records": "CREATE TABLE records (place INTEGER PRIMARY KEY, digest TEXT, body TEXT)",
}
_FOREIGN = "is not a privacy ledger, or it is damaged"
_FOREIGN_TABLES = "is damaged: its tables are not those of a ledger"
_MISSING_ENTRIES = "is damaged: entries are missing, or there are too many"
_SET_BACK = (
    "is another ledger than before, or was set back to an earlier state: what was charged since is "
    "missing"
)
_TIMEOUT = 60.0
# A new ledger has two names, its own and that of its draft, for some microseconds.
_SECONDS_OF_DRAFT = 1.0

# One connection at a time in a process, and none across a fork: SQLite's POSIX locks belong to
# the process, and a child that inherited the record of one would wait for it in vain.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


class Spent(NamedTuple):
    """What one data set has paid, and the partition that it belongs to."""

    cost: Cost = Cost()
    partition: str | None = None


class Damage(Exception):
    """What is wrong with a file, as the end of a sentence that starts with its path."""


def checked_settings(
    epsilon: float, delta: float, adjacency: str, accountant: str | None, unit: str = "row"
) -> dict[str, Any]:
    """Return the settings of a ledger as they are stored, or raise ValueError."""
    values = epsilon, delta, adjacency, accountant, unit
    given = dict(zip(_SETTINGS, values, strict=True))
    validate_parameter_constraints(_SETTINGS, given, caller_name="PrivacyLedger")
    accountant = accountant or ("gdp" if delta > 0 else "pure")
    if accountant != "pure" and delta == 0:
        raise ValueError(
            f'accountant={accountant!r} needs delta > 0; set accountant="pure" for delta=0.'
        )
    exact = {"epsilon": float(epsilon), "delta": float(delta) + 0.0, "accountant": accountant}
    return given | exact


@dataclass
class Book:
    """What a ledger says at one moment, all of it verified, and the only way in which it grows.

    Attributes
    ----------
    records : list of (digest, body)
        Settings, charges and declared data sets in order, each body a text of JSON.
    settings : dict
    charges : list of dict
    spent : dict from name to Spent
        Of every data set that was declared or charged.
    """

    records: list[tuple[str, str]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    charges: list[dict[str, Any]] = field(default_factory=list)
    spent: dict[str, Spent] = field(default_factory=dict)

    @classmethod
    def opened(cls, settings: dict[str, Any]) -> Book:
        """Return the book of a new ledger, which is another one than all others."""
        book = cls()
        book.append(**settings, identity=secrets.token_hex(16))
        return book

    @property
    def head(self) -> str:
        """Digest of the last record."""
        return self.records[-1][0] if self.records else ""

    @property
    def first_tail(self) -> float:
        """The tail of the first charge, 0 before it."""
        return Cost(*self.charges[0]["cost"]).tail if self.charges else 0.0

    def copy(self) -> Book:
        """Return a book that grows by itself."""
        return Book(list(self.records), self.settings, list(self.charges), dict(self.spent))

    def declare(self, name: str, partition: str) -> None:
        """Register a data set as one of a partition, or raise ValueError if it is of another."""
        known = self.spent.get(name)
        if known is None:
            self.append(dataset=name, partition=partition)
        elif partition != known.partition:
            raise ValueError(
                f"partition={partition!r} was asked for data set {name!r}, which the ledger holds "
                f"with partition={known.partition!r}. A data set keeps its partition: give it "
                "another name."
            )

    def append(self, **told: Any) -> None:
        """Take a new record into account."""
        body = json.dumps(told)
        self.follow(_digest(self.head, body), body)

    def follow(self, digest: str, body: str) -> None:
        """Take the next record into account, or raise if it does not follow on the last one."""
        if digest != _digest(self.head, body):
            raise Damage(f"is damaged: entry {len(self.records)} is not what was written")
        told = json.loads(body)
        if not self.records:
            self.settings = {name: told[name] for name in _SETTINGS}
        elif "cost" in told:
            cost, partition = self.spent.get(told["dataset"], Spent())
            cost = Cost(*(a + b for a, b in zip(cost, told["cost"], strict=True)))
            self.spent[told["dataset"]] = Spent(cost, partition)
            self.charges.append(told)
        else:
            self.spent[told["dataset"]] = Spent(partition=told["partition"])
        self.records.append((digest, body))

    def paid_since(self, time: str, dataset: str, label: str) -> tuple[int, Cost]:
        """Return the number and the sum of the charges of a label since some time."""
        asked = (dataset, label)
        found = [
            one["cost"]
            for one in self.charges
            if one["time"] >= time and (one["dataset"], one["label"]) == asked
        ]
        return len(found), add([Cost(), *found])


def now() -> str:
    """Return the time as the ledger writes it; later times compare as greater."""
    return datetime.now(UTC).isoformat()


def _digest(before: str, body: str) -> str:
    return hashlib.sha256(f"{before}{body}".encode()).hexdigest()


def read(db: sqlite3.Connection) -> Book:
    """Return what the file says, every record verified.

    Parameters
    ----------
    db : Connection
        In a transaction.

    Raises
    ------
    Damage, sqlite3.Error, MemoryError
    """
    meta, book = _meta(db), Book()
    _check_form(db)  # by which `meta` has a length
    try:
        for place, *record in db.execute("SELECT place, digest, body FROM records ORDER BY place"):
            if place != len(book.records):
                raise Damage(_MISSING_ENTRIES)
            book.follow(*record)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise Damage(f"is damaged: entry {len(book.records)} is none of a ledger") from error
    if not meta["length"] == len(book.records) > 0:
        raise Damage(_MISSING_ENTRIES)
    return book


def _meta(db: sqlite3.Connection) -> dict[str, Any]:
    """Return what a file of this format says of itself."""
    rows = db.execute("SELECT * FROM meta").fetchall()
    meta = dict(rows[0]) if len(rows) == 1 else {}
    version = meta.get("version")
    if meta.get("format") != LEDGER_FORMAT or type(version) is not int or version < 1:
        raise Damage(_FOREIGN)
    if version != LEDGER_VERSION:
        other = "Upgrade skdpsumm" if version > LEDGER_VERSION else "Use the skdpsumm that wrote it"
        raise Damage(
            f"is of format version {version}, and this skdpsumm reads version {LEDGER_VERSION}. "
            f"{other}, unless the file is damaged"
        )
    return meta


def _check_form(db: sqlite3.Connection) -> None:
    """Raise Damage unless the file holds the tables as they were made, and nothing else.

    Also where SQLite finds a fault in the file's pages, or would write it otherwise.
    """
    found = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    made = [("table", name, name, statement) for name, statement in _TABLES.items()]
    # A page in use that counts as free would be reused.
    pages = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    if sorted(map(tuple, found), key=repr) != sorted(made, key=repr) or pages != ["ok"]:
        raise Damage(_FOREIGN_TABLES)
    # Bytes 18 and 19 say how SQLite writes and reads the file: 1 is with a journal that it deletes.
    if hasattr(db, "serialize") and db.serialize()[18:20] != b"\1\1":
        raise Damage("is damaged: its header is not that of a ledger")


def _write(db: sqlite3.Connection, book: Book, start: int) -> None:
    """Write the records from a place on, and how many there are."""
    records = ((start + k, *record) for k, record in enumerate(book.records[start:]))
    db.executemany("INSERT INTO records VALUES (?, ?, ?)", records)
    db.execute("UPDATE meta SET length = ?", (len(book.records),))


class LedgerStore:
    """One ledger, in a file or (``path=None``) in this process's memory.

    Every operation on a file opens a connection of its own, so that threads, forks and other
    processes may all use the same ledger. What it reads must build on what this object has seen.

    Parameters
    ----------
    path : Path or None
    settings : dict, default=None
        What the ledger must have, and what a missing file is made with. None takes the file's.
    known : tuple of (length, head), default=(0, "")
        Of another object, on whose reading the file must build.
    """

    def __init__(
        self,
        path: Path | None,
        settings: dict[str, Any] | None = None,
        known: tuple[int, str] = (0, ""),
    ):
        self.path, self.known, self.owner = path, known, os.getpid()
        if path is None:
            assert settings is not None
            self._book = Book.opened(settings)
        elif settings is not None and not _is_there(path):
            _make(path, settings)
        self.settings = self.read().settings
        if path is not None and settings is not None:
            _check_equal(settings, self.settings, path)

    def read(self) -> Book:
        """Return what the ledger holds, which still is this one."""
        with self._transaction("BEGIN") as (_, book):
            return book

    @contextmanager
    def writing(self) -> Iterator[Book]:
        """Yield the same, which may grow, in a transaction that excludes all other writers."""
        with _LOCK:
            if self.path is not None:
                _check_one_name(self.path)
            with self._transaction("BEGIN IMMEDIATE") as (db, before):
                book = before.copy()
                yield book
                if db is not None and len(book.records) > len(before.records):
                    _write(db, book, len(before.records))
                if db is None and self._book is not before:  # a hook of warnings wrote to it
                    raise RuntimeError(
                        "A hook of warnings wrote to this ledger while it was being charged, so "
                        "the charge was undone. Charge again, without that hook."
                    )
            self._keep(book)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[tuple[sqlite3.Connection | None, Book]]:
        if self.path is not None:
            with _opened(self.path) as db, db:
                db.execute(begin)
                book, (length, head) = read(db), self.known
                if length and [one[0] for one in book.records[length - 1 : length]] != [head]:
                    raise Damage(_SET_BACK)
                self._keep(book)
                yield db, book
            return
        if os.getpid() != self.owner:
            raise RuntimeError(
                "This ledger lives in the memory of another process, which would not see the "
                "charges made here. Give the ledger a path."
            )
        with _LOCK:
            yield None, self._book

    def _keep(self, book: Book) -> None:
        """Remember what the ledger holds, in memory, or how far it has come, of a file."""
        if self.path is None:
            self._book = book
        self.known = (len(book.records), book.head)


def _connect(database: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        database, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
    )
    db.row_factory = sqlite3.Row
    # Where a text is none, this raises a UnicodeDecodeError, by which it is told from other errors
    # that have no code.
    db.text_factory = operator.methodcaller("decode")
    db.execute("PRAGMA synchronous=EXTRA")
    return db


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a fresh connection, which never creates a file."""
    with _LOCK, _explained(path), closing(_connect(f"{path.as_uri()}?mode=rw")) as db:
        yield db


def _is_there(path: Path) -> bool:
    """Return whether there is a file; raise OSError where nobody can tell."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _make(path: Path, settings: dict[str, Any]) -> None:
    """Make a new ledger, whole or not at all, unless another process is faster.

    It gets its name when it is complete: an empty file is no new ledger, but one that lost all.
    Nobody but its owner can read it, whatever the umask; SQLite makes the journal alike.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise _missing(path)
    draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with _explained(path):
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            os.chmod(draft, 0o600)
        with _opened(draft) as db, db:
            db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.values():
                db.execute(statement)
            db.execute("INSERT INTO meta VALUES (?, ?, 0)", (LEDGER_FORMAT, LEDGER_VERSION))
            _write(db, Book.opened(settings), 0)
        with _explained(path), suppress(FileExistsError):
            os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _check_one_name(path: Path) -> None:
    """Raise OSError where the file has a second name (a hard link), before it is charged.

    The journal, by which SQLite undoes what a killed process has begun, is named after the ledger.
    Under another name nobody finds it. It would undo what was charged there, too, later.
    """
    deadline = time.monotonic() + _SECONDS_OF_DRAFT
    with suppress(FileNotFoundError, NotADirectoryError):  # which is told where it is opened
        while os.stat(path).st_nlink > 1:
            if time.monotonic() > deadline:
                raise OSError(
                    f"The privacy ledger {path} has a second name, a hard link: charges under two "
                    "names may undo each other. Nothing was charged. Find the other name (find "
                    "-samefile), and remove it; for a backup, copy the file."
                )
            time.sleep(0.01)


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
# What to do about the machine, by the code of SQLite's error, and the kind of ours.
_REMEDIES: dict[int, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_BUSY: (TimeoutError, "End the process that holds it."),
    sqlite3.SQLITE_CANTOPEN: (OSError, "Make file and folder readable, or close other files."),
    sqlite3.SQLITE_FULL: (OSError, "Make room on the disk."),
    sqlite3.SQLITE_IOERR: (OSError, "Mend the disk, or make room: it may be full."),
    sqlite3.SQLITE_NOMEM: (MemoryError, "Free memory."),
    sqlite3.SQLITE_READONLY: (PermissionError, "Make the file and its folder writable."),
}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as Python's, and damage as what it is, with the remedy.

    A file is damaged where its contents or a code of SQLite say so. Every other error, one without
    a code included, tells of the machine: a copy put back in its place would lose charges.
    """
    try:
        yield
    except Damage as damage:
        raise _damaged(path, str(damage)) from None
    except UnicodeDecodeError as error:
        raise _damaged(path, _FOREIGN) from error
    except (MemoryError, OSError, sqlite3.Error) as error:
        code = getattr(error, "sqlite_errorcode", None) or -1
        if code & 0xFF in _DAMAGED and code > 0:
            raise _damaged(path, f"{_FOREIGN} ({error})") from error
        if code & 0xFF == sqlite3.SQLITE_CANTOPEN and not _is_there(path):
            raise _missing(path) from error
        if isinstance(error, MemoryError) or code == sqlite3.SQLITE_IOERR_NOMEM:
            code = sqlite3.SQLITE_NOMEM
        kind, remedy = _REMEDIES.get(code & 0xFF, (OSError, "Mend the cause."))
        if isinstance(error, OSError):  # of the system, and not of SQLite
            kind, remedy = type(error), "Make its folder writable, or give another path."
        raise kind(
            f"The privacy ledger {path} cannot be used now: {error}. {remedy} Then try again. "
            "Nothing may be released: `entries` tells whether a charge was written. That says "
            "nothing of damage."
        ) from error


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(f"There is no privacy ledger {path}. Check the path.")


def _damaged(path: Path, problem: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"{path} {problem}. Nothing was charged. Put back a copy that holds all charges, or give "
        "another path if this is not your ledger; without such a copy, ask whoever owns the data "
        "for a new budget."
    )
