"""Damaged ledger files: whatever is wrong with them opens no budget, and raises one error.

A bit, a cell, a row or a table is changed in files of few and of many pages; after each change the
ledger must either raise `LedgerDamagedError`, or say what it said before: the same sum, the same
entries, the same refusal. Bytes that SQLite does not use may change.
"""

import contextlib
import errno
import os
import pickle
import shutil
import sqlite3
import threading
import warnings
from unittest.mock import Mock

import numpy as np
import pytest

from skdpsumm.privacy import (
    BudgetExceededError,
    LedgerDamagedError,
    PrivacyLedger,
    PureDP,
    _ledger_file,
)
from skdpsumm.privacy._mechanisms import Cost


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    connect = _ledger_file._connect

    def fast(name):
        db = connect(name)
        db.execute("PRAGMA synchronous=OFF")
        return db

    monkeypatch.setattr(_ledger_file, "_connect", fast)


def filled(path, n_charges=2):
    """Make a ledger of which 0.9 of 1 is spent, and the rest holds no second 0.5."""
    ledger = PrivacyLedger(path, epsilon=1.0)
    ledger.dataset("north", partition="region").charge(PureDP(0.6), label="ages")
    ledger.charge(PureDP(0.3), label="höhen")
    with ledger._store.writing() as (db, book):
        row = ledger.entries()[1] | {"mechanism": "{}", "dataset": "default"}
        for k in range(n_charges - 2):
            book.charge(db, row | {"label": f"fit {k}"}, Cost(0.0, float("inf")))
    return ledger


def state(ledger):
    """Return what a ledger says, and how it answers a charge that does not fit."""
    said = (ledger.spent, ledger.remaining, ledger.entries(), ledger.dataset("north").partition)
    with pytest.raises(BudgetExceededError):
        ledger.charge(PureDP(0.5))
    with pytest.raises(BudgetExceededError):
        ledger.charge(PureDP(0.5), dataset="south")
    return said


def is_told(path, live, expected):
    """Whether damage is told, to those who had the file open and to those who open it now."""
    told, text = set(), ""
    before = path.read_bytes()
    for get in (lambda: live, lambda: PrivacyLedger.open(path)):
        try:
            assert state(get()) == expected
            told.add(False)
        except LedgerDamagedError as error:
            told.add(True)
            text = str(error)
    assert True not in told or (str(path) in text and "Nothing was charged" in text)
    with pytest.raises(LedgerDamagedError) if True in told else contextlib.nullcontext():
        PrivacyLedger(path, epsilon=1.0)
    assert path.read_bytes() == before  # neither rewritten nor deleted
    assert os.listdir(path.parent) == [path.name]
    return told == {True}


@pytest.mark.statistical
@pytest.mark.parametrize(("n_charges", "n_trials"), [(2, 700), (60, 300)])
def test_one_flipped_bit(tmp_path, n_charges, n_trials):
    path = tmp_path / "ledger"
    live = filled(path, n_charges)
    whole, expected = path.read_bytes(), state(live)
    rng = np.random.default_rng(n_charges)
    used = np.flatnonzero(np.frombuffer(whole, np.uint8))
    header = np.arange(100).repeat(2)
    places = [*header, *rng.choice(used, n_trials - 200), *rng.integers(0, len(whole), 50)]
    told = 0
    for place in places:
        broken = bytearray(whole)
        broken[place] ^= 1 << rng.integers(8)
        path.write_bytes(broken)
        told += is_told(path, live, expected)
    assert told > n_trials / 4
    path.write_bytes(whole)
    assert state(live) == state(PrivacyLedger.open(path)) == expected


CELLS = {
    "meta": "format version identity epsilon delta adjacency accountant unit length head",
    "datasets": 'place digest name "partition"',
    "charges": "place digest id time dataset label adjacency mechanism simulated pid pure square "
    "log_ratio tail",
}
VALUES = ["NULL", "'north'", "'default'", "-5", "0", "1", "0.25", "1e99", "x'00ff'"]


@pytest.mark.parametrize("table", CELLS)
def test_one_edited_cell(tmp_path, table):
    path = tmp_path / "ledger"
    live = filled(path)
    whole, expected = path.read_bytes(), state(live)
    for column in CELLS[table].split():
        for value in VALUES:
            path.write_bytes(whole)
            with sqlite3.connect(path) as db:
                where = f"WHERE rowid = 1 AND {column} IS NOT {value}"
                try:
                    change = f"UPDATE {table} SET {column} = {value} {where}"
                    n_changed = db.execute(change).rowcount
                except sqlite3.IntegrityError:  # a place is a whole number, and occurs once
                    n_changed = 0
            db.close()
            assert is_told(path, live, expected) == bool(n_changed), (column, value)


# Copies of a record, at another place.
FORGED = (
    "INSERT INTO charges SELECT {}, digest, 9, time, dataset, 'forged', adjacency, mechanism, "
    "simulated, pid, pure, square, log_ratio, tail FROM charges LIMIT 1"
)
FORGED_SET = "INSERT INTO datasets SELECT {}, digest, 'forged', NULL FROM datasets LIMIT 1"
FAR = [-(2**63), -1, 0, 10_000, 2**62 + 5, 2**63 - 1]


@pytest.mark.parametrize(("forged", "n_charges"), [(FORGED, 2), (FORGED_SET, 150)])
@pytest.mark.parametrize("place", FAR)
def test_a_row_that_the_chain_does_not_cover_is_damage(tmp_path, place, forged, n_charges):
    path = tmp_path / "ledger"
    live = filled(path, n_charges)
    with sqlite3.connect(path) as db:
        db.execute(forged.format(place))
    db.close()
    for use in (live.entries, lambda: PrivacyLedger.open(path)):
        with pytest.raises(LedgerDamagedError, match="entries are missing, or there are too many"):
            use()
    assert told_at(live, 2) is not None


ACTING = {
    "trigger": "CREATE TRIGGER {} AFTER UPDATE ON meta BEGIN DELETE FROM charges; END",
    "view": "CREATE VIEW {} AS SELECT * FROM charges",
    "table": "CREATE TABLE {} (a)",
}


@pytest.mark.parametrize("name", ["free", "sqlite_free", "sqlite_stat9", "SQLITE_FREE"])
@pytest.mark.parametrize(("kind", "n_charges"), [("trigger", 2), ("view", 150), ("table", 2)])
def test_nothing_else_is_in_the_file_whatever_its_name(tmp_path, kind, name, n_charges):
    """SQLite lets nobody make what is called sqlite_*, and obeys it where it is in a file."""
    path = tmp_path / "ledger"
    live = filled(path, n_charges)
    with sqlite3.connect(path) as db:
        page = db.execute("SELECT rootpage FROM sqlite_master").fetchone()[0] * (kind == "table")
        row = (kind, name, "meta" if kind == "trigger" else name, page, ACTING[kind].format(name))
        db.execute("PRAGMA writable_schema = 1")
        db.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    for use in (lambda: live.charge(PureDP(0.01)), lambda: PrivacyLedger.open(path)):
        with pytest.raises(LedgerDamagedError, match="damaged"):
            use()


STATEMENTS = {
    "a lost charge": ["DELETE FROM charges WHERE id = 1"],
    "the last charge lost": ["DELETE FROM charges WHERE id = 2"],
    "all charges lost": ["DELETE FROM charges"],
    "a lost data set": ["DELETE FROM datasets WHERE name = 'north'"],
    "all data sets lost": ["DELETE FROM datasets"],
    "no settings": ["DELETE FROM meta"],
    "a charge twice": [
        "INSERT INTO charges SELECT 5, digest, id, time, dataset, label, adjacency, mechanism, "
        "simulated, pid, pure, square, log_ratio, tail FROM charges WHERE id = 1"
    ],
    "a data set twice": [
        'INSERT INTO datasets SELECT 5, digest, name, "partition" FROM datasets WHERE place = 1'
    ],
    "settings twice": ["INSERT INTO meta SELECT * FROM meta"],
    "charges swapped": [
        "UPDATE charges SET id = 3 - id, place = -place",
        "UPDATE charges SET place = 6 + place",
    ],
    "places swapped": [
        "UPDATE charges SET place = -place",
        "UPDATE charges SET place = 6 + place",
    ],
    "costs swapped": ["UPDATE charges SET pure = 0.9 - pure"],
    "all of one partition": ["UPDATE datasets SET \"partition\" = 'region'"],
    "the last charge cut off": [
        "DELETE FROM charges WHERE id = 2",
        "UPDATE meta SET length = length - 1",
    ],
    "a charge more": [
        "INSERT INTO charges SELECT 5, digest, 3, time, dataset, label, adjacency, "
        "mechanism, simulated, pid, -9, square, log_ratio, tail FROM charges LIMIT 1"
    ],
    "a dropped table": ["DROP TABLE charges"],
    "a further column": ["ALTER TABLE charges ADD COLUMN more"],
    "a view in a table's place": [
        "ALTER TABLE charges RENAME TO old",
        "CREATE VIEW charges AS SELECT * FROM old WHERE id > 1",
    ],
    "another journal": ["PRAGMA journal_mode = WAL", "DELETE FROM charges"],
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_edited_rows_and_tables(tmp_path, name):
    path = tmp_path / "ledger"
    live = filled(path)
    expected = state(live)
    with sqlite3.connect(path, isolation_level=None) as db:
        for statement in STATEMENTS[name]:
            db.execute(statement)
    db.close()
    assert is_told(path, live, expected)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off(tmp_path, part):
    """To nothing, too: an empty file is no new ledger."""
    path = tmp_path / "ledger"
    live = filled(path, 60)
    expected, whole = state(live), path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    assert is_told(path, live, expected)


def test_pages_that_were_lost_or_moved(tmp_path):
    path = tmp_path / "ledger"
    live = filled(path, 60)
    expected, whole = state(live), path.read_bytes()
    pages = [whole[k : k + 4096] for k in range(0, len(whole), 4096)]
    assert len(pages) > 5
    for k in range(len(pages)):
        for page in (bytes(4096), b"\xff" * 4096, pages[k - 1]):
            path.write_bytes(b"".join([*pages[:k], page, *pages[k + 1 :]]))
            assert is_told(path, live, expected), k


# --------------------------------------------------------------------- earlier states, other files


def test_a_file_that_was_set_back_is_told_to_whoever_has_seen_more(tmp_path):
    """Also to a pickle of it; and not to a newcomer, which is a documented limit."""
    path = tmp_path / "ledger"
    live = filled(path)
    backup = path.read_bytes()
    live.charge(PureDP(0.1))
    sent, newest = pickle.dumps(live), path.read_bytes()
    path.write_bytes(backup)
    for use in (
        lambda: live.charge(PureDP(0.1)),
        lambda: live.spent,
        lambda: live.dataset("new", partition="x"),
        lambda: pickle.loads(sent),
    ):
        with pytest.raises(LedgerDamagedError, match="set back to an earlier state"):
            use()
    assert "LedgerDamagedError" in repr(live)
    assert PrivacyLedger.open(path).spent.epsilon == pytest.approx(0.9)
    path.write_bytes(newest)
    assert live.spent.epsilon == pickle.loads(sent).spent.epsilon == pytest.approx(1.0)


def test_a_file_that_went_another_way_is_told(tmp_path):
    """A copy that was charged as often, and as much, in the place of the ledger."""
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    live = filled(path)
    shutil.copy(path, copy)
    live.charge(PureDP(0.1), label="here")
    PrivacyLedger.open(copy).charge(PureDP(0.1), label="there")
    os.replace(copy, path)
    with pytest.raises(LedgerDamagedError, match="set back"):
        live.check(PureDP(0.0))


@pytest.mark.parametrize("make", [lambda path: PrivacyLedger(path, epsilon=1.0), filled])
def test_another_ledger_in_its_place_is_told(tmp_path, make):
    path = tmp_path / "ledger"
    live = make(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        live.check(PureDP(0.1))
    make(path)
    with pytest.raises(LedgerDamagedError, match="another ledger"):
        live.check(PureDP(0.0))


def test_what_others_charge_is_no_damage(tmp_path):
    path = tmp_path / "ledger"
    one, link = PrivacyLedger(path, epsilon=1.0), tmp_path / "link"
    link.symlink_to(path)
    others = [PrivacyLedger.open(link), pickle.loads(pickle.dumps(one)), one]
    for k in range(9):
        assert others[k % 3].charge(PureDP(0.1)) == k + 1
    threads = [threading.Thread(target=lambda o=o: o.charge(PureDP(0.01))) for o in 2 * others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {round(other.spent.epsilon, 9) for other in others} == {0.96}


def test_a_warning_that_is_undone_leaves_a_ledger_that_fits_its_file(tmp_path):
    ledger = filled(tmp_path / "ledger")
    ledger.__sklearn_clone__()
    ledger.charge(PureDP(0.01), label="a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            ledger.charge(PureDP(0.01), label="a")
    assert len(ledger.entries()) == 3
    ledger.charge(PureDP(0.01), label="b")
    assert len(PrivacyLedger.open(ledger.path).entries()) == 4


# ------------------------------------------------------------------------------------ long ledgers


@pytest.fixture
def rows_read(monkeypatch):
    """A list of the rows that SQLite gave back."""
    read, connect = [], _ledger_file._connect

    def counting(name):
        db = connect(name)
        decode = db.text_factory
        # Each record has one digest of 64 characters.
        db.text_factory = lambda text: (len(text) == 64 and read.append(text)) or decode(text)
        return db

    monkeypatch.setattr(_ledger_file, "_connect", counting)
    return read


def lengthened(path, n_charges):
    ledger = filled(path, n_charges)
    ledger.charge(PureDP(0.001), dataset="south")
    return ledger


def test_a_charge_reads_no_more_of_a_longer_ledger(tmp_path, rows_read):
    ledgers = [lengthened(tmp_path / str(n), n) for n in (1000, 3000)]
    uses = {
        "charge": lambda ledger: ledger.charge(PureDP(1e-6), label="x"),
        "check": lambda ledger: ledger.check(PureDP(1e-6)),
        "spent": lambda ledger: ledger.spent,
        "remaining": lambda ledger: ledger.remaining,
        "declare": lambda ledger: ledger.dataset("west", partition="region"),
    }
    for name, use in uses.items():
        for ledger in ledgers:
            rows_read.clear()
            use(ledger)
            n_readings = 2 if name == "declare" else 1
            assert 0 < len(rows_read) <= n_readings * (_ledger_file.RECORDS_PER_USE + 5), name
    ledgers[0].__sklearn_clone__()  # a search counts the charges since then
    for _ in range(3):
        rows_read.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ledgers[0].charge(PureDP(1e-6), label="y")
        assert len(rows_read) <= _ledger_file.RECORDS_PER_USE + 10


CHANGES = {
    "the last cost": "UPDATE charges SET square = 0 WHERE place = (SELECT max(place) FROM charges)",
    "the last charge": "DELETE FROM charges WHERE place = (SELECT max(place) FROM charges)",
    "a cap": "UPDATE meta SET epsilon = 100",
    "an identity": "UPDATE meta SET identity = 'x'",
    "a head": "UPDATE meta SET head = 'x'",
    "a length": "UPDATE meta SET length = length - 1",
    "a trigger": "CREATE TRIGGER free AFTER INSERT ON charges BEGIN DELETE FROM charges; END",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_use_of_a_long_ledger_tells_what_could_open_budget(tmp_path, change):
    ledger = lengthened(tmp_path / "ledger", 400)
    with sqlite3.connect(ledger.path) as db:
        db.execute(CHANGES[change])
    db.close()
    for use in (lambda: ledger.spent, lambda: ledger.charge(PureDP(0.001))):
        with pytest.raises(LedgerDamagedError):
            use()


def test_old_damage_in_a_long_ledger_opens_no_budget_and_is_told_in_turn(tmp_path):
    """At once by `entries` and to whoever opens the file; to others after some uses."""
    ledger = lengthened(tmp_path / "ledger", 400)
    before = ledger.spent
    with sqlite3.connect(ledger.path) as db:
        db.execute("UPDATE charges SET pure = 1e-9 WHERE id = 300")
    db.close()
    for use in (ledger.entries, lambda: PrivacyLedger.open(ledger.path)):
        with pytest.raises(LedgerDamagedError, match=r"entry 30\d is not what was written"):
            use()
    told = []
    for _ in range(5):
        try:
            assert ledger.spent == before
        except LedgerDamagedError as error:
            told.append(str(error))
    assert any("is not what was written" in text for text in told)


def told_at(ledger, n_uses):
    """Return which of the next uses tells of damage, or None."""
    for k in range(1, n_uses + 1):
        try:
            assert ledger.remaining
        except LedgerDamagedError:
            return k
    return None


@pytest.mark.parametrize("place", [1, 2, 3, 99, 100, 101, 102, 199, 200, 201, 202, 299, 300, 301])
def test_whatever_is_wrong_with_an_old_entry_is_told_within_one_round(tmp_path, place):
    """In n / 100 uses, of every entry and column, from wherever the round stands."""
    ledger = lengthened(tmp_path / "ledger", 298)  # and three data sets
    whole, length = ledger.path.read_bytes(), ledger._store.known[0]
    assert length == 302
    table = "datasets" if place in (1, 3, 301) else "charges"
    # A place that is moved leaves a gap, and a row that nothing covers.
    values = {"place": "-place", "digest": "'x'"} | dict.fromkeys(CELLS[table].split()[2:], "'x'")
    changes = [f"UPDATE {table} SET {column} = {value}" for column, value in values.items()]
    for change in (*changes, f"DELETE FROM {table}"):
        with sqlite3.connect(ledger.path) as db:
            assert db.execute(f"{change} WHERE place = {place}").rowcount == 1
        db.close()
        assert told_at(ledger, 4) is not None, change
        ledger.path.write_bytes(whole)
        assert told_at(ledger, 1) is None


# -------------------------------------------------------------- what the machine lacks is no damage


class _Failing(sqlite3.Connection):
    """A connection of which a statement, the commit or `serialize` fails."""

    fails, error = "", None

    def execute(self, statement, *rest):
        if self.fails and statement.startswith(self.fails):
            raise self.error
        return super().execute(statement, *rest)

    def serialize(self, *rest, **named):
        if self.fails == "serialize":
            raise self.error
        return super().serialize(*rest, **named)


def coded(kind, code=None):
    error = kind("it failed")
    if code is not None:
        error.sqlite_errorcode = code
    return error


TRANSIENT = {
    "memory": (MemoryError(), MemoryError),
    "memory, by SQLite": (coded(sqlite3.OperationalError, sqlite3.SQLITE_NOMEM), MemoryError),
    "memory, while reading": (
        coded(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_NOMEM),
        MemoryError,
    ),
    "no code": (coded(sqlite3.OperationalError), OSError),
    "no code of a database": (coded(sqlite3.DatabaseError), OSError),
    "no code of an interface": (coded(sqlite3.InterfaceError), OSError),
    "disk": (coded(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_READ), OSError),
    "full": (coded(sqlite3.OperationalError, sqlite3.SQLITE_FULL), OSError),
    "locked": (coded(sqlite3.OperationalError, sqlite3.SQLITE_BUSY), TimeoutError),
    "locked, shared": (coded(sqlite3.OperationalError, sqlite3.SQLITE_LOCKED), OSError),
    "protocol": (coded(sqlite3.OperationalError, sqlite3.SQLITE_PROTOCOL), OSError),
    "read-only": (coded(sqlite3.OperationalError, sqlite3.SQLITE_READONLY), PermissionError),
    "closed": (coded(sqlite3.OperationalError, sqlite3.SQLITE_CANTOPEN), PermissionError),
    "too many files": (coded(sqlite3.OperationalError, sqlite3.SQLITE_CANTOPEN), OSError),
    "interrupted": (coded(sqlite3.OperationalError, sqlite3.SQLITE_INTERRUPT), OSError),
    "unknown": (coded(sqlite3.OperationalError, 99), OSError),
}


@pytest.mark.parametrize(
    ("name", "where"),
    [(name, "SELECT * FROM meta") for name in TRANSIENT]
    + [("memory", "BEGIN"), ("disk", "PRAGMA quick"), ("no code", "serialize")],
)
def test_what_the_machine_lacks_is_no_damage(tmp_path, monkeypatch, name, where):
    """No such message asks for a copy in the file's place, which would lose charges."""
    ledger, connect = filled(tmp_path / "ledger"), sqlite3.connect
    error, kind = TRANSIENT[name]
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=_Failing, **k))
    monkeypatch.setattr(_Failing, "fails", where)
    monkeypatch.setattr(_Failing, "error", error)
    if name == "too many files":
        monkeypatch.setattr(_ledger_file.os, "open", Mock(side_effect=OSError(errno.EMFILE)))
    uses = (
        lambda: ledger.spent,
        lambda: ledger.charge(PureDP(0.01)),
        ledger.entries,
        lambda: PrivacyLedger.open(ledger.path),
    )
    for use in uses:
        with pytest.raises(kind) as told:
            use()
        assert not isinstance(told.value, LedgerDamagedError)
        assert kind is not OSError or not isinstance(told.value, PermissionError)
        assert str(ledger.path) in str(told.value)
        assert "Put back a copy" not in str(told.value)
    assert "cannot be read" in repr(ledger)
    monkeypatch.undo()
    assert len(ledger.entries()) == len(PrivacyLedger.open(ledger.path).entries()) == 2
