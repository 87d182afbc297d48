"""What a ledger's file says: entries chained by digests, so that damage and gaps are told.

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
import secrets
import sqlite3
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from ._filter import Cost, Spent, add
from ._guarantee import ADJACENCIES

FORMAT, VERSION = "skdpsumm privacy ledger", 2
ACCOUNTANTS = ("pure", "gdp", "zcdp")
_SETTINGS = ("epsilon", "delta", "adjacency", "accountant")
_COST = ("pure", "square", "log_ratio", "tail")
_TEXTS = ("time", "dataset", "label", "adjacency", "mechanism")
_NUMBERS = ("simulated", "pid")
_DATASET = 3  # of place, id and the texts
# Plain text, for the file must hold exactly these tables, and nothing that acts by itself.
_TABLES = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, identity TEXT, epsilon REAL, "
    "delta REAL, adjacency TEXT, accountant TEXT, length INTEGER, head TEXT)",
    "datasets": 'CREATE TABLE datasets (place INTEGER, digest TEXT, name TEXT, "partition" TEXT)',
    "charges": "CREATE TABLE charges (place INTEGER, digest TEXT, id INTEGER, time TEXT, "
    "dataset TEXT, label TEXT, adjacency TEXT, mechanism TEXT, simulated INTEGER, pid INTEGER, "
    "pure REAL, square REAL, log_ratio REAL, tail REAL)",
}
_TABLES_1 = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, epsilon REAL, delta REAL, "
    "adjacency TEXT, accountant TEXT)",
    "datasets": 'CREATE TABLE datasets (name TEXT PRIMARY KEY, "partition" TEXT)',
    "charges": "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "time TEXT NOT NULL, dataset TEXT NOT NULL, label TEXT NOT NULL, adjacency TEXT NOT NULL, "
    "mechanism TEXT NOT NULL, simulated INTEGER NOT NULL, pid INTEGER NOT NULL, "
    "pure REAL, square REAL, log_ratio REAL NOT NULL, tail REAL NOT NULL)",
}
_MISSING = "is damaged: entries are missing, or there are too many"


class Damage(Exception):
    """What is wrong with a file, as the end of a sentence that starts with its path."""


def checked_settings(
    epsilon: float, delta: float, adjacency: str, accountant: str | None
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
        raise ValueError(f'accountant={accountant!r} needs delta > 0; use "pure" for delta=0.')
    values = (float(epsilon), float(delta) + 0.0, str(adjacency), str(accountant))
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

    def copy(self) -> Book:
        """Return a book that grows by itself."""
        return replace(self, spent=dict(self.spent))

    def is_still_in(self, db: sqlite3.Connection) -> bool:
        """Return whether not a byte of the file has changed since this was read or written."""
        return self.fingerprint is not None and self.fingerprint == fingerprint_of(db)

    def declare(self, db: sqlite3.Connection, name: str, partition: str | None) -> None:
        """Register a data set; one that is known keeps its partition."""
        if name not in self.spent:
            body = (self.length + 1, str(name), None if partition is None else str(partition))
            self.follow("datasets", body, _digest(self.head, body))
            _insert(db, "datasets", self.head, body)
            return
        known = self.spent[name].partition
        if partition not in (None, known):
            raise ValueError(
                f"partition={partition!r} was asked for data set {name!r}, which the ledger "
                f"already holds with partition={known!r}. A data set keeps its partition: use "
                "another name."
            )

    def charge(self, db: sqlite3.Connection, row: dict[str, Any], cost: Cost) -> int:
        """Write one charge to a data set that is declared, and return its id."""
        # Digests are of what SQLite gives back: plain types, no infinity, and no minus zero.
        texts = [str(row[name]) for name in _TEXTS]
        numbers = [int(row[name]) for name in _NUMBERS]
        parts = [None if math.isinf(part) else float(part) + 0.0 for part in cost]
        body = (self.length + 1, self.n_charges + 1, *texts, *numbers, *parts)
        self.follow("charges", body, _digest(self.head, body))
        _insert(db, "charges", self.head, body)
        return self.n_charges

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
                raise Damage(f"is damaged: data set {dataset!r} is charged, but not declared")
            self.spent[dataset] = Spent(_sum(paid.cost, cost), paid.partition)
            self.n_charges += 1
        self.length, self.head = self.length + 1, digest


def create(db: sqlite3.Connection, settings: dict[str, Any]) -> Book:
    """Write the tables of a new ledger, inside a transaction."""
    for statement in _TABLES.values():
        db.execute(statement)
    identity = secrets.token_hex(16)
    book = _opened_book(settings, identity)
    values = (FORMAT, VERSION, identity, *settings.values(), book.length, book.head)
    db.execute(f"INSERT INTO meta VALUES ({', '.join('?' * len(values))})", values)
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
    if meta["version"] != VERSION or not _has_tables(db, _TABLES) or not _is_whole(db):
        raise Damage("is damaged: its tables are not those of a ledger")
    book = _opened_book({name: meta[name] for name in _SETTINGS}, meta["identity"])
    records: dict[Any, tuple[str, Any]] = {}
    n_rows = 0
    for table in ("datasets", "charges"):
        rows = _rows(db, table)
        n_rows += len(rows)
        records |= {row[0]: (table, row) for row in rows}
    heads = [book.head]
    for place in range(1, n_rows + 1):
        if place not in records:
            raise Damage(_MISSING)
        table, (_, digest, *rest) = records[place]
        body = (place, *rest)
        if digest != _digest(book.head, body):
            raise Damage(f"is damaged: entry {place} is not what was written")
        book.follow(table, body, digest)
        heads.append(digest)
    if (meta["length"], meta["head"]) != (book.length, book.head):
        raise Damage(_MISSING if book.length else "is damaged: its settings were changed")
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
    if not _has_tables(db, _TABLES_1) or not _is_whole(db):
        raise Damage("is damaged: its tables are not those of a ledger")
    settings = {name: meta[name] for name in _SETTINGS}
    try:
        sound = checked_settings(**settings) == settings
    except ValueError:
        sound = False
    datasets = db.execute('SELECT name, "partition" FROM datasets ORDER BY rowid').fetchall()
    charges = db.execute("SELECT * FROM charges ORDER BY id").fetchall()
    last = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'charges'").fetchone()[0]
    if not sound:
        raise Damage("is damaged: its settings make no sense")
    if [row["id"] for row in charges] != list(range(1, len(charges) + 1)) or len(charges) != (
        last or 0
    ):
        raise Damage(_MISSING)
    for name in _TABLES_1:
        db.execute(f"DROP TABLE {name}")
    book = create(db, settings)
    for name, partition in datasets:
        book.declare(db, name, partition)
    for row in map(dict, charges):
        if not _is_sound(row):
            raise Damage(f"is damaged: charge {row['id']} is none")
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


def _opened_book(settings: dict[str, Any], identity: str) -> Book:
    root = _digest("", (FORMAT, VERSION, identity, *settings.values()))
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


def _has_tables(db: sqlite3.Connection, tables: dict[str, str]) -> bool:
    """Return whether the file holds these tables as they were made, and nothing else."""
    found = db.execute("SELECT name, sql FROM sqlite_master WHERE name NOT GLOB 'sqlite_*'")
    return sorted(map(tuple, found), key=repr) == sorted(tables.items(), key=repr)


def _is_whole(db: sqlite3.Connection) -> bool:
    """Return whether SQLite finds no fault: a page in use that counts as free would be reused."""
    return [row[0] for row in db.execute("PRAGMA quick_check(1)")] == ["ok"]


def _rows(db: sqlite3.Connection, table: str) -> list[Any]:
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor.execute(f"SELECT * FROM {table}").fetchall()


def _insert(db: sqlite3.Connection, table: str, digest: str, body: tuple[Any, ...]) -> None:
    values = (body[0], digest, *body[1:])
    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(*(a + b for a, b in zip(one, other, strict=True)))


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
