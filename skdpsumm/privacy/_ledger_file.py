"""The ledger's SQLite file: opening, locking, its errors in plain words, and what it says.

Entries are chained by digests, so that damage and gaps are told.
Two kinds of records, declared data sets and charges, have one order: their `place`, from 1 on. The
digest of a record covers all its fields and the digest of the record before; the first follows on
the digest of the settings. The table `meta` keeps how many there are, and the last digest, the
*head*. So a flipped bit, an edited cell, and a record that is lost, doubled or moved break the
chain. Digests are no signatures: whoever can write the file can compute them anew.

An object that opens a file verifies all of it, and keeps the totals. From then on it reads what is
new, which must follow on the head that it knows, and verifies `RECORDS_PER_USE` of the older
records in turn. So it tells of each damaged one within ``ceil(length / RECORDS_PER_USE)`` uses.
"""

from __future__ import annotations

import hashlib
import heapq
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

from ._mechanisms import ADJACENCIES, Cost
from ._warnings import LedgerDamagedError

LEDGER_FORMAT, LEDGER_VERSION = "skdpsumm privacy ledger", 4
ACCOUNTANTS = ("pure", "gdp", "zcdp")
UNITS = ("row", "group")
_SETTINGS = ("epsilon", "delta", "adjacency", "accountant", "unit")
_COST = Cost._fields
_TEXTS = ("time", "dataset", "label", "adjacency", "mechanism")
_NUMBERS = ("simulated", "pid")
_DATASET = 3  # of place, id and the texts
# Plain text, for the file must hold exactly these tables, and nothing that acts by itself. The
# place is SQLite's own key, so that records are found by it.
_TABLES = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, identity TEXT, epsilon REAL, "
    "delta REAL, adjacency TEXT, accountant TEXT, unit TEXT, length INTEGER, head TEXT)",
    "datasets": "CREATE TABLE datasets (place INTEGER PRIMARY KEY, digest TEXT, name TEXT, "
    '"partition" TEXT)',
    "charges": "CREATE TABLE charges (place INTEGER PRIMARY KEY, digest TEXT, id INTEGER, "
    "time TEXT, dataset TEXT, label TEXT, adjacency TEXT, mechanism TEXT, simulated INTEGER, "
    "pid INTEGER, pure REAL, square REAL, log_ratio REAL, tail REAL)",
}
# The tables of records, by their number of columns.
_TABLE_OF_WIDTH = {4: "datasets", 14: "charges"}
_FOREIGN_TABLES = "is damaged: its tables are not those of a ledger"
_MISSING_ENTRIES = "is damaged: entries are missing, or there are too many"
_SET_BACK = (
    "is another ledger than before, or was set back to an earlier state: what was charged since is "
    "missing"
)

# Older records that each use of a long ledger verifies in turn. Ledgers that are no longer than
# this are verified whole at each use, in 2 ms.
RECORDS_PER_USE = 100
# What SQLite takes for a place. Nobody writes one below 1, and so it is damage.
_LEAST_PLACE, _LARGEST_PLACE = -(2**63), 2**63 - 1
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
    first_tail : float
        The tail of the first charge, 0 before it.
    spent : dict from name to Spent
        Of every declared data set.
    root : str
        Digest of the settings.
    """

    settings: dict[str, Any]
    length: int
    head: str
    n_charges: int
    spent: dict[str, Spent]
    root: str
    first_tail: float = 0.0

    def copy(self) -> Book:
        """Return a book that grows by itself."""
        return replace(self, spent=dict(self.spent))

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

    def follow(self, table: str, body: tuple[Any, ...], digest: str) -> None:
        """Take a record into account, whose digest is known to be right, as the next one."""
        if table == "datasets":
            _, name, partition = body
            if name in self.spent:
                raise Damage(f"is damaged: data set {name!r} is declared twice")
            self.spent[name] = Spent(Cost(), partition)
        else:
            dataset, paid = body[_DATASET], self.spent.get(body[_DATASET])
            if paid is None:
                raise Damage(f"is damaged: data set {dataset!r} was charged, but never declared")
            charged = Cost(*map(or_infinite, body[-len(_COST) :]))
            cost = Cost(*map(operator.add, paid.cost, charged))
            self.spent[dataset] = Spent(cost, paid.partition)
            self.first_tail = self.first_tail if self.n_charges else charged.tail
            self.n_charges += 1
        self.length, self.head = self.length + 1, digest


def create(db: sqlite3.Connection, settings: dict[str, Any]) -> Book:
    """Write the tables of a new ledger, inside a transaction."""
    for statement in _TABLES.values():
        db.execute(statement)
    identity = secrets.token_hex(16)
    book = _opened_book(settings, identity)
    _insert(
        db,
        "meta",
        LEDGER_FORMAT,
        LEDGER_VERSION,
        identity,
        *settings.values(),
        book.length,
        book.head,
    )
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
    Damage, sqlite3.Error, MemoryError
    """
    meta = _meta(db)
    _check_tables(db)
    _check_pages(db)
    book = _opened_book(_settings(meta), meta["identity"])
    if known is not None and known[0] == 0 and known[1] != book.head:
        raise Damage(_SET_BACK)
    _read_newer(db, book, known)
    _check_end(meta, book)
    if known is not None and known[0] > book.length:
        raise Damage(_SET_BACK)
    return book


def read_on(db: sqlite3.Connection, book: Book, first: int) -> Book:
    """Return what the file says, which must be `book` and more.

    What is new is verified, and so are the last record that `book` knows, and older ones after
    `first`, `RECORDS_PER_USE` of them. What `book` knows of all others was verified before.

    Parameters
    ----------
    db : Connection
        In a transaction.
    book : Book
        Of two records or more.
    first : int

    Raises
    ------
    Damage, sqlite3.Error, MemoryError
    """
    meta = _meta(db)
    _check_tables(db)
    if _opened_book(_settings(meta), meta["identity"]).root != book.root:
        raise Damage(_SET_BACK)
    if _head_after(db, book.root, book.length - 1, book.length) != book.head:
        raise Damage(_SET_BACK)
    if _head_after(db, book.root, first, min(first + RECORDS_PER_USE, book.length)) is None:
        raise Damage(_MISSING_ENTRIES)
    newer = book.copy()
    _read_newer(db, newer, None)
    _check_end(meta, newer)
    return newer


def _read_newer(db: sqlite3.Connection, book: Book, known: tuple[int, str] | None) -> None:
    """Take all records into account that come after those of `book`."""
    first = book.length + 1 if book.length else _LEAST_PLACE
    for table, place, digest, body in _records(db, first):
        if place != book.length + 1:
            raise Damage(_MISSING_ENTRIES)
        if digest != _digest(book.head, body):
            raise Damage(f"is damaged: entry {place} is not what was written")
        book.follow(table, body, digest)
        if known is not None and known[0] == place and known[1] != digest:
            raise Damage(_SET_BACK)


def _head_after(db: sqlite3.Connection, root: str, first: int, last: int) -> str | None:
    """Return the digest of record `last`, each record after `first` verified to follow on.

    None if it is missing. A `first` of 0 stands for the settings, on whose digest, `root`, record 1
    follows; nothing may come before it.
    """
    head, expected = (None, first) if first else (root, 1)
    for _, place, digest, body in _records(db, first or _LEAST_PLACE, last):
        if place != expected:
            raise Damage(_MISSING_ENTRIES)
        if head is not None and digest != _digest(head, body):
            raise Damage(f"is damaged: entry {place} is not what was written")
        head, expected = digest, expected + 1
    return head if expected == last + 1 else None


def _records(
    db: sqlite3.Connection, first: int, last: int = _LARGEST_PLACE
) -> Iterator[tuple[str, int, str, tuple[Any, ...]]]:
    """Yield table, place, digest and body of the records from one place to another, in order."""
    cursors = [db.cursor(), db.cursor()]
    for cursor, table in zip(cursors, _TABLE_OF_WIDTH.values(), strict=True):
        cursor.row_factory = None  # plain tuples, which are quicker
        which = "WHERE place BETWEEN ? AND ? ORDER BY place"
        cursor.execute(f"SELECT * FROM {table} {which}", (first, last))
    for row in heapq.merge(*cursors, key=operator.itemgetter(0)):
        yield _TABLE_OF_WIDTH[len(row)], row[0], row[1], (row[0], *row[2:])


def _check_end(meta: dict[str, Any], book: Book) -> None:
    """Raise Damage unless the settings tell of as many records as there are."""
    if (meta["length"], meta["head"]) != (book.length, book.head):
        raise Damage(_MISSING_ENTRIES if book.length else "is damaged: its settings were changed")


def charges(db: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return all charges in order."""
    return db.execute("SELECT * FROM charges ORDER BY place").fetchall()


def paid_since(db: sqlite3.Connection, time: str, dataset: str, label: str) -> tuple[int, Cost]:
    """Return the number and the sum of the charges of a label since some time."""
    count, paid = 0, Cost()
    for row in db.execute("SELECT * FROM charges ORDER BY place DESC"):
        if row["time"] < time:
            break
        if (row["dataset"], row["label"]) == (dataset, label):
            cost = (or_infinite(row[part]) for part in _COST)
            count, paid = count + 1, Cost(*map(operator.add, paid, cost))
    return count, paid


def now() -> str:
    """Return the time as the ledger writes it; later times compare as greater."""
    return datetime.now(UTC).isoformat()


def or_infinite(part: float | None) -> float:
    """Return a stored component of a cost; NULL stands for infinity."""
    return math.inf if part is None else part


def _settings(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a file states."""
    return {name: meta[name] for name in _SETTINGS}


def _opened_book(settings: dict[str, Any], identity: str) -> Book:
    root = _digest("", (LEDGER_FORMAT, LEDGER_VERSION, identity, *settings.values()))
    return Book(settings, 0, root, 0, {}, root)


def _digest(before: str, values: tuple[Any, ...]) -> str:
    # ascii() writes every value that SQLite knows in one way only, in any version of Python.
    return hashlib.sha256(f"{before}{values!a}".encode()).hexdigest()


def _meta(db: sqlite3.Connection) -> dict[str, Any]:
    rows = db.execute("SELECT * FROM meta").fetchall()
    meta = dict(rows[0]) if len(rows) == 1 else {}
    version = meta.get("version")
    if meta.get("format") != LEDGER_FORMAT or type(version) is not int or version < 1:
        raise Damage("is not a privacy ledger, or it is damaged")
    if version != LEDGER_VERSION:
        other = "Upgrade skdpsumm" if version > LEDGER_VERSION else "Use the skdpsumm that wrote it"
        raise Damage(
            f"is of format version {version}, and this skdpsumm reads version {LEDGER_VERSION}. "
            f"{other}, unless the file is damaged"
        )
    return meta


def _check_tables(db: sqlite3.Connection) -> None:
    """Raise Damage unless the file holds the tables as they were made, and nothing else."""
    found = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    made = [("table", name, name, statement) for name, statement in _TABLES.items()]
    if sorted(map(tuple, found), key=repr) != sorted(made, key=repr):
        raise Damage(_FOREIGN_TABLES)


def _check_pages(db: sqlite3.Connection) -> None:
    """Raise Damage where SQLite finds a fault in the file's pages, or would write it otherwise."""
    # A page in use that counts as free would be reused.
    if [row[0] for row in db.execute("PRAGMA quick_check(1)")] != ["ok"]:
        raise Damage(_FOREIGN_TABLES)
    # Bytes 18 and 19 say how SQLite writes and reads the file: 1 is with a journal that it deletes.
    if hasattr(db, "serialize") and db.serialize()[18:20] != b"\1\1":
        raise Damage("is damaged: its header is not that of a ledger")


def _insert(db: sqlite3.Connection, table: str, *values: Any) -> None:
    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


class LedgerStore:
    """One ledger, in a file or (``path=None``) in this process's memory.

    Every operation on a file opens a connection of its own, so that threads, forks and other
    processes may all use the same ledger. The first one reads the file whole and verifies it; later
    ones read what is new, which must build on what this object has seen (`read_on`).

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
        self._next = 0  # place of the record after which the next use verifies some again
        if path is None:
            assert settings is not None
            self._owner = os.getpid()
            self._memory = _connect(":memory:")
            weakref.finalize(self, self._memory.close)
            self.settings = settings
            self._book: Book | None = create(self._memory, settings)
            return
        if settings is not None and not _is_there(path):
            _make(path, settings)
        self._book = None
        with self.reading() as (_, book):
            self.settings = book.settings
        if settings is not None:
            _check_equal(settings, self.settings, path)

    @contextmanager
    def reading(self, *, whole: bool = False) -> Iterator[tuple[sqlite3.Connection, Book]]:
        """Yield a connection to what still is this ledger, and what it holds.

        Parameters
        ----------
        whole : bool, default=False
            Whether to verify every record. The default leaves out old ones of a long ledger.
        """
        with self._connection() as db:
            if self.path is None:
                yield db, self._verified(db)
                return
            with db:
                db.execute("BEGIN")
                yield db, self._verified(db, whole=whole)

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
                        "A hook of warnings wrote to this ledger while it was being charged, so "
                        "the charge was undone. Charge again, without that hook."
                    )
                if book.length > before.length:
                    book.seal(db)
            self._keep(book)

    def _verified(self, db: sqlite3.Connection, *, whole: bool = False) -> Book:
        if self.path is None and self._book is not None and _meta(db)["head"] == self._book.head:
            return self._book  # else whoever charged was interrupted before they could keep theirs
        if whole or self._book is None or self._book.length <= RECORDS_PER_USE:
            book = read(db, self.known)
        else:
            book = read_on(db, self._book, self._next)
            done = self._next + RECORDS_PER_USE
            self._next = done if done < book.length else 0
        self._keep(book)
        return book

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
        raise FileNotFoundError(_MISSING[1].format(path))
    draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with _creating(path):
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            os.chmod(draft, 0o600)
        with _opened(draft) as db, db:
            db.execute("BEGIN IMMEDIATE")
            create(db, settings)
        with _creating(path), suppress(FileExistsError):
            os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _creating(path: Path) -> Iterator[None]:
    """Say which ledger it is that the system lets nobody create, and why."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise type(error)(
            f"The privacy ledger {path} cannot be created: {error.strerror}. Make its folder "
            "writable and make room there, or give another path."
        ) from error


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
_UNREADABLE = (
    PermissionError,
    "The privacy ledger {} cannot be read. Nothing was charged. Make the file readable and "
    "writable for you.",
)
_NO_HANDLES = (
    OSError,
    "The privacy ledger {} cannot be opened now, for too many files are open. Nothing was charged. "
    "Close some, or raise the limit, and try again.",
)
_NO_MEMORY = (
    "There is too little memory to use the privacy ledger {} now. It is not damaged. Nothing may "
    "be released; `entries` tells whether a charge was written. Free memory, and try again."
)
_NOT_NOW = (
    OSError,
    "The privacy ledger {} cannot be used now ({}). That says nothing of damage. Nothing may be "
    "released; `entries` tells whether a charge was written. Try again.",
)


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
        raise _damaged(path, "is not a privacy ledger, or it is damaged") from error
    except MemoryError as error:
        raise MemoryError(_NO_MEMORY.format(path)) from error
    except sqlite3.Error as error:
        extended = getattr(error, "sqlite_errorcode", None)
        code = -1 if extended is None else extended & 0xFF
        if code in _DAMAGED:
            raise _damaged(path, f"is not a privacy ledger, or it is damaged ({error})") from error
        if extended in (sqlite3.SQLITE_IOERR_NOMEM, sqlite3.SQLITE_NOMEM):
            raise MemoryError(_NO_MEMORY.format(path)) from error
        known = _cannot_open(path) if code == sqlite3.SQLITE_CANTOPEN else _ERRORS.get(code)
        kind, text = known or _NOT_NOW
        raise kind(text.format(path, error)) from error


def _cannot_open(path: Path) -> tuple[type[Exception], str]:
    """Return why SQLite can open neither the file nor, maybe, a journal beside it."""
    if not _is_there(path):
        return _MISSING
    # The ledger itself is not opened: at its closing, the system would drop this process's locks.
    held = []
    try:
        # A charge opens three files: the ledger, its journal and the folder, which SQLite opens to
        # make the journal's name last.
        for _ in range(3):
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return _NO_HANDLES
    finally:
        for one in held:
            os.close(one)
    return _ERRORS[sqlite3.SQLITE_READONLY] if os.access(path, os.R_OK) else _UNREADABLE


def _damaged(path: Path, problem: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"{path} {problem}. Nothing was charged. Put back a copy that holds all charges, or give "
        "another path if this is not your ledger; without such a copy, ask whoever owns the data "
        "for a new budget."
    )
