"""The ledger's SQLite file: opening, locking, its errors in plain words, and what it says.

Entries are chained by digests, so that damage and gaps are told.
Two kinds of records, declared data sets and charges, have one order: their `place`, from 1 on. The
digest of a record covers all its fields and the digest of the record before; the first follows on
the digest of the settings. The table `meta` keeps how many there are, and the last digest, the
*head*. So a flipped bit, an edited cell, and a record that is lost, doubled or moved break the
chain. Digests are no signatures: whoever can write the file can compute them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from ._mechanisms import ADJACENCIES, Cost, add
from ._warnings import LedgerDamagedError

FORMAT, VERSION = "skdpsumm privacy ledger", 3
ACCOUNTANTS = ("pure", "gdp", "zcdp")
UNITS = ("row", "group")
_SETTINGS = ("epsilon", "delta", "adjacency", "accountant", "unit")
# Files of version 2 hold rows and say so by their version; others state their unit in version 3.
_OF_ROWS = 2
_COST = Cost._fields
_TEXTS = ("time", "dataset", "label", "adjacency", "mechanism")
_NUMBERS = ("simulated", "pid")
_DATASET = 3  # of place, id and the texts
# Plain text, for the file must hold exactly these tables, and nothing that acts by itself.
_TABLES = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, identity TEXT, epsilon REAL, "
    "delta REAL, adjacency TEXT, accountant TEXT, unit TEXT, length INTEGER, head TEXT)",
    "datasets": 'CREATE TABLE datasets (place INTEGER, digest TEXT, name TEXT, "partition" TEXT)',
    "charges": "CREATE TABLE charges (place INTEGER, digest TEXT, id INTEGER, time TEXT, "
    "dataset TEXT, label TEXT, adjacency TEXT, mechanism TEXT, simulated INTEGER, pid INTEGER, "
    "pure REAL, square REAL, log_ratio REAL, tail REAL)",
}
_TABLES_2 = _TABLES | {"meta": _TABLES["meta"].replace("unit TEXT, ", "")}
_TABLES_1 = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, epsilon REAL, delta REAL, "
    "adjacency TEXT, accountant TEXT)",
    "datasets": 'CREATE TABLE datasets (name TEXT PRIMARY KEY, "partition" TEXT)',
    "charges": "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "time TEXT NOT NULL, dataset TEXT NOT NULL, label TEXT NOT NULL, adjacency TEXT NOT NULL, "
    "mechanism TEXT NOT NULL, simulated INTEGER NOT NULL, pid INTEGER NOT NULL, "
    "pure REAL, square REAL, log_ratio REAL NOT NULL, tail REAL NOT NULL)",
}
_TABLES_OF = {_OF_ROWS: _TABLES_2, VERSION: _TABLES}
_FOREIGN_TABLES = "is damaged: its tables are not those of a ledger"
_MISSING_ENTRIES = "is damaged: entries are missing, or there are too many"

_TIMEOUT = 60.0

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
    if not isinstance(epsilon, Real) or not epsilon > 0:
        raise ValueError(f"epsilon must be a number above 0 (np.inf: no cap), got {epsilon!r}.")
    if not isinstance(delta, Real) or not 0 <= delta < 1:
        raise ValueError(f"delta must be a number in [0, 1), got {delta!r}.")
    if adjacency not in ADJACENCIES:
        raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {adjacency!r}.")
    if accountant is None:
        accountant = "gdp" if delta > 0 else "pure"
    if accountant not in ACCOUNTANTS:
        raise ValueError(f"accountant must be one of {ACCOUNTANTS}, got {accountant!r}.")
    if accountant != "pure" and delta == 0:
        raise ValueError(
            f'accountant={accountant!r} needs delta > 0; set accountant="pure" for delta=0.'
        )
    if unit not in UNITS:
        raise ValueError(f'unit must be "row" or "group" (for persons), got {unit!r}.')
    values = (float(epsilon), float(delta) + 0.0, str(adjacency), str(accountant), str(unit))
    return dict(zip(_SETTINGS, values, strict=True))


@dataclass
class Book:
    """The verified contents of a ledger at one moment, and the only way in which they grow.

    Attributes
    ----------
    settings : dict
    length : int
        Number of records.
    head : str
        Digest of the last one; of the settings, if there is none.
    n_charges : int
    spent : dict from name to Spent
        Of every declared data set.
    fingerprint : bytes or None
        Of the file that holds exactly this; None if it cannot be told.
    """

    settings: dict[str, Any]
    length: int
    head: str
    n_charges: int
    spent: dict[str, Spent]
    fingerprint: bytes | None = None

    def is_still_in(self, db: sqlite3.Connection) -> bool:
        """Return whether not a byte of the file has changed since this was read or written."""
        return self.fingerprint is not None and self.fingerprint == fingerprint_of(db)

    def declare(self, db: sqlite3.Connection, name: str, partition: str | None) -> None:
        """Register a data set; one that is known keeps its partition."""
        if name not in self.spent:
            self._append(db, "datasets", str(name), None if partition is None else str(partition))
            return
        known = self.spent[name].partition
        if partition not in (None, known):
            raise ValueError(
                f"partition={partition!r} was asked for data set {name!r}, which the ledger holds "
                f"with partition={known!r}. A data set keeps its partition: give it another name."
            )

    def charge(self, db: sqlite3.Connection, row: dict[str, Any], cost: Cost) -> int:
        """Write one charge to a data set that is declared, and return its id."""
        # Digests are of what SQLite gives back: plain types, no infinity, and no minus zero.
        texts = [str(row[name]) for name in _TEXTS]
        numbers = [int(row[name]) for name in _NUMBERS]
        parts = [None if math.isinf(part) else float(part) + 0.0 for part in cost]
        self._append(db, "charges", self.n_charges + 1, *texts, *numbers, *parts)
        return self.n_charges

    def _append(self, db: sqlite3.Connection, table: str, *fields: Any) -> None:
        body = (self.length + 1, *fields)
        self.follow(table, body, _digest(self.head, body))
        _insert(db, table, self.length, self.head, *fields)

    def seal(self, db: sqlite3.Connection) -> None:
        """Write the head, with which the records of a transaction count as whole."""
        db.execute("UPDATE meta SET length = ?, head = ?", (self.length, self.head))
        self.fingerprint = fingerprint_of(db)

    def follow(self, table: str, body: tuple[Any, ...], digest: str) -> None:
        """Take a record into account, whose digest is known to be right, as the next one."""
        if table == "datasets":
            _, name, partition = body
            if name in self.spent:
                raise Damage(f"is damaged: data set {name!r} is declared twice")
            self.spent[name] = Spent(Cost(), partition)
        else:
            dataset, cost = body[_DATASET], Cost(*map(or_infinite, body[-len(_COST) :]))
            paid = self.spent.get(dataset)
            if paid is None:
                raise Damage(f"is damaged: data set {dataset!r} was charged, but never declared")
            self.spent[dataset] = paid._replace(cost=Cost(*map(operator.add, paid.cost, cost)))
            self.n_charges += 1
        self.length, self.head = self.length + 1, digest


def create(db: sqlite3.Connection, settings: dict[str, Any]) -> Book:
    """Write the tables of a new ledger, inside a transaction."""
    version = _version_of(settings)
    for statement in _TABLES_OF[version].values():
        db.execute(statement)
    identity = secrets.token_hex(16)
    book = _opened_book(settings, identity)
    _insert(db, "meta", FORMAT, version, identity, *_stored(settings), book.length, book.head)
    return book


def read(db: sqlite3.Connection, known: tuple[int, str] | None) -> Book:
    """Return what the file says, every record verified.

    Parameters
    ----------
    db : Connection
        In a transaction.
    known : tuple of (length, head) or None
        Of an earlier reading, on which the file must build.

    Raises
    ------
    Damage, sqlite3.Error
    """
    meta = _meta(db)
    if meta["version"] not in _TABLES_OF:
        raise Damage(_FOREIGN_TABLES)
    _check_tables(db, _TABLES_OF[meta["version"]])
    book = _opened_book(_settings(meta), meta["identity"])
    tables = ("datasets", "charges")
    rows = [(table, row) for table in tables for row in db.execute(f"SELECT * FROM {table}")]
    records = {row[0]: (table, row) for table, row in rows}
    heads = [book.head]
    for place in range(1, len(rows) + 1):
        if place not in records:
            raise Damage(_MISSING_ENTRIES)
        table, (_, digest, *rest) = records[place]
        body = (place, *rest)
        if digest != _digest(book.head, body):
            raise Damage(f"is damaged: entry {place} is not what was written")
        book.follow(table, body, digest)
        heads.append(digest)
    if (meta["length"], meta["head"]) != (book.length, book.head):
        raise Damage(_MISSING_ENTRIES if book.length else "is damaged: its settings were changed")
    if known is not None and heads[known[0] : known[0] + 1] != [known[1]]:
        raise Damage(
            "is another ledger than before, or was set back to an earlier state: what was charged "
            "since is missing"
        )
    book.fingerprint = fingerprint_of(db)
    return book


def is_of_version_1(db: sqlite3.Connection) -> bool:
    """Return whether the file was written before entries were chained."""
    return _meta(db)["version"] == 1


def upgrade(db: sqlite3.Connection) -> None:
    """Chain the records of a file of version 1, inside a transaction; raise Damage if it is not."""
    meta = _meta(db)
    # Whose tables are newer than its version would be chained anew, with what was done to it.
    _check_tables(db, _TABLES_1)
    settings = _settings(meta)
    datasets = db.execute('SELECT name, "partition" FROM datasets ORDER BY rowid').fetchall()
    rows = list(map(dict, charges(db)))
    last = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'charges'").fetchone()[0]
    try:
        sound = checked_settings(**settings) == settings
    except ValueError:
        sound = False
    if not sound:
        raise Damage("is damaged: its settings make no sense")
    ids = [row["id"] for row in rows]
    if ids != list(range(1, len(rows) + 1)) or len(rows) != (last or 0):
        raise Damage(_MISSING_ENTRIES)
    for name in _TABLES_1:
        db.execute(f"DROP TABLE {name}")
    book = create(db, settings)
    for name, partition in datasets:
        book.declare(db, name, partition)
    for row in rows:
        if not _is_sound(row):
            raise Damage(f"is damaged: charge {row['id']} makes no sense")
        book.charge(db, row, Cost(*(or_infinite(row[part]) for part in _COST)))
    book.seal(db)


def charges(db: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return all charges in order."""
    return db.execute("SELECT * FROM charges ORDER BY id").fetchall()


def paid_since(db: sqlite3.Connection, time: str, dataset: str, label: str) -> tuple[int, Cost]:
    """Return the number and the sum of the charges of a label since some time."""
    rows = db.execute(
        f"SELECT {', '.join(_COST)} FROM charges WHERE time >= ? AND dataset = ? AND label = ?",
        (time, dataset, label),
    ).fetchall()
    return len(rows), add([Cost(), *(Cost(*map(or_infinite, row)) for row in rows)])


def now() -> str:
    """Return the time as the ledger writes it; later times compare as greater."""
    return datetime.now(UTC).isoformat()


def or_infinite(part: float | None) -> float:
    """Return a stored component of a cost; NULL stands for infinity."""
    return math.inf if part is None else part


def fingerprint_of(db: sqlite3.Connection) -> bytes | None:
    """Return a digest of the whole file, but for the counters that SQLite sets at a commit.

    As long as it is what it was, the file needs no second reading. None where this SQLite cannot
    tell, which makes every reading a whole one.
    """
    if not hasattr(db, "serialize"):
        return None
    pages = db.serialize()
    if pages[18:20] != b"\1\1":  # SQLite would not write it, or would keep a second file
        raise Damage("is damaged: its header is not that of a ledger")
    return hashlib.sha256(pages[:24] + pages[28:92] + pages[96:]).digest()


def _settings(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a file states; one of an older version is of rows."""
    return {name: meta.get(name, "row") if name == "unit" else meta[name] for name in _SETTINGS}


def _version_of(settings: dict[str, Any]) -> int:
    """Return the version of a file: the oldest that can state its settings."""
    return _OF_ROWS if settings["unit"] == "row" else VERSION


def _stored(settings: dict[str, Any]) -> list[Any]:
    """Return the settings as a file states them."""
    last = -1 if _version_of(settings) == _OF_ROWS else None
    return list(settings.values())[:last]


def _opened_book(settings: dict[str, Any], identity: str) -> Book:
    root = _digest("", (FORMAT, _version_of(settings), identity, *_stored(settings)))
    return Book(settings, 0, root, 0, {})


def _digest(before: str, values: tuple[Any, ...]) -> str:
    # ascii() writes every value that SQLite knows in one way only, in any version of Python.
    return hashlib.sha256(f"{before}{values!a}".encode()).hexdigest()


def _meta(db: sqlite3.Connection) -> dict[str, Any]:
    rows = db.execute("SELECT * FROM meta").fetchall()
    meta = dict(rows[0]) if len(rows) == 1 else {}
    version = meta.get("version")
    if meta.get("format") != FORMAT or type(version) is not int or version < 1:
        raise Damage("is not a privacy ledger, or it is damaged")
    if version > VERSION:
        raise Damage(
            f"is of format version {version}, and this skdpsumm reads versions up to {VERSION}. "
            "Upgrade skdpsumm, unless the file is damaged"
        )
    return meta


def _check_tables(db: sqlite3.Connection, tables: dict[str, str]) -> None:
    """Raise Damage unless the file holds these tables as they were made, and nothing else."""
    found = db.execute("SELECT name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_*'")
    if sorted(map(tuple, found), key=repr) != sorted(tables.items(), key=repr):
        raise Damage(_FOREIGN_TABLES)
    # A page in use that counts as free would be reused.
    if [row[0] for row in db.execute("PRAGMA quick_check(1)")] != ["ok"]:
        raise Damage(_FOREIGN_TABLES)


def _insert(db: sqlite3.Connection, table: str, *values: Any) -> None:
    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def _is_sound(row: dict[str, Any]) -> bool:
    """Return whether a row has the types and signs of a charge."""
    parts = [row[part] for part in _COST]
    try:
        json.loads(row["mechanism"])
    except (TypeError, ValueError):
        return False
    return (
        all(type(row[name]) is str for name in _TEXTS)
        and row["simulated"] in (0, 1)
        and type(row["pid"]) is int
        and row["adjacency"] in ADJACENCIES
        and all(part is None or (type(part) is float and part >= 0) for part in parts)
        and None not in parts[2:]
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
                book = replace(before, spent=dict(before.spent))
                yield db, book
                if not db.in_transaction:  # a hook of warnings wrote to this ledger
                    raise RuntimeError(
                        "A hook of warnings wrote to this ledger while it was being charged, so "
                        "the charge was undone. Charge again, without that hook."
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
        "written. Make room, or repair the disk.",
    ),
    sqlite3.SQLITE_BUSY: (
        TimeoutError,
        f"The privacy ledger {{}} was locked by another process for {_TIMEOUT:g} seconds. Nothing "
        "was charged. Try again, or end the process that holds it.",
    ),
}
_MISSING = (
    FileNotFoundError,
    "There is no privacy ledger {}, and it cannot be created there. Check the path.",
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
        f"{path} {problem}. Nothing was charged. Put back a copy that holds all charges, or give "
        "another path if this is not your ledger; without such a copy, ask whoever owns the data "
        "for a new budget."
    )
