"""Damaged ledger files: whatever is wrong with them opens no budget, and raises one error.

A bit, a cell, a row or a table is changed in files of few and of many pages; after each change the
ledger must either raise `LedgerDamagedError`, or say what it said before: the same sum, the same
entries, the same refusal. Bytes that SQLite does not use may change.
"""

import contextlib
import os
import pickle
import shutil
import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from refusals import refused

from skdpsumm import BudgetExceededError, LedgerDamagedError, PrivacyLedger
from skdpsumm.privacy import PureDP, _ledger
from skdpsumm.privacy._mechanisms import Cost


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    connect = _ledger._connect

    def fast(name):
        db = connect(name)
        db.execute("PRAGMA synchronous=OFF")
        return db

    monkeypatch.setattr(_ledger, "_connect", fast)


def filled(path, n_charges=2):
    """Make a ledger of which 0.9 of 1 is spent, and the rest holds no second 0.5."""
    ledger = PrivacyLedger(path, epsilon=1.0)
    ledger.dataset("north", partition="region").charge(PureDP(0.6), label="ages")
    ledger.charge(PureDP(0.3), label="höhen")
    with ledger._store.writing() as book:
        told = book.charges[1] | {"cost": Cost(0.0, float("inf"))}
        for k in range(n_charges - 2):
            book.append(**told | {"label": f"fit {k}"})
    return ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger"


@pytest.fixture
def live(path):
    return filled(path)


@pytest.fixture
def pages(path):
    """Return a ledger in a file of many pages."""
    return filled(path, 60)


def state(ledger):
    """Return what a ledger says, and how it answers a charge that does not fit."""
    said = (ledger.spent, ledger.remaining, ledger.entries(), ledger.dataset("north").partition)
    refused("Nothing was charged", ledger.charge, PureDP(0.5), error=BudgetExceededError)
    with pytest.raises(BudgetExceededError):
        ledger.dataset("south").charge(PureDP(0.5))
    return said


def edit(path, *statements):
    """Carry out statements, which may be pairs of a text and its values; count changed rows."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        given = [(one,) if isinstance(one, str) else one for one in statements]
        return sum(db.execute(*one).rowcount for one in given)


def is_told(path, live, expected):
    """Whether damage is told, to those who had the file open and to those who open it now."""
    told, text, before = set(), "", path.read_bytes()
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
def test_one_flipped_bit(path, n_charges, n_trials):
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


CELLS = {"meta": "format version length", "records": "place digest body"}
VALUES = ["NULL", "'north'", "'default'", "-5", "0", "1", "0.25", "1e99", "x'00ff'"]


@pytest.mark.parametrize("table", CELLS)
def test_one_edited_cell(path, live, table):
    whole, expected = path.read_bytes(), state(live)
    for column in CELLS[table].split():
        for value in VALUES:
            path.write_bytes(whole)
            where = f"WHERE rowid = 1 AND {column} IS NOT {value}"
            n_changed = 0
            with contextlib.suppress(sqlite3.IntegrityError):  # a place is whole, and occurs once
                n_changed = edit(path, f"UPDATE {table} SET {column} = {value} {where}")
            assert is_told(path, live, expected) == bool(n_changed), (column, value)


@pytest.mark.parametrize("place", [-(2**63), -1, 10_000, 2**62 + 5, 2**63 - 1])
def test_a_row_that_the_chain_does_not_cover_is_damage(path, live, place):
    edit(path, f"INSERT INTO records SELECT {place}, digest, body FROM records LIMIT 1")
    for use in (live.entries, lambda: PrivacyLedger.open(path)):
        refused("entries are missing, or there are too many", use, error=LedgerDamagedError)


ACTING = {
    "trigger": "CREATE TRIGGER {} AFTER UPDATE ON meta BEGIN DELETE FROM records; END",
    "view": "CREATE VIEW {} AS SELECT * FROM records",
    "table": "CREATE TABLE {} (a)",
}


@pytest.mark.parametrize("name", ["free", "sqlite_free", "sqlite_stat9", "SQLITE_FREE"])
@pytest.mark.parametrize("kind", ACTING)
def test_nothing_else_is_in_the_file_whatever_its_name(path, live, kind, name):
    """SQLite lets nobody make what is called sqlite_*, and obeys it where it is in a file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        page = db.execute("SELECT rootpage FROM sqlite_master").fetchone()[0] * (kind == "table")
        row = (kind, name, "meta" if kind == "trigger" else name, page, ACTING[kind].format(name))
        db.execute("PRAGMA writable_schema = 1")
        db.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    for use in (lambda: live.charge(PureDP(0.01)), lambda: PrivacyLedger.open(path)):
        refused("damaged", use, error=LedgerDamagedError)


STATEMENTS = {
    "a lost charge": ["DELETE FROM records WHERE place = 2"],
    "no records": ["DELETE FROM records"],
    "no settings": ["DELETE FROM meta"],
    "no records and none to be": ["DELETE FROM records", "UPDATE meta SET length = 0"],
    "a charge twice": [
        "INSERT INTO records SELECT 4, digest, body FROM records WHERE place = 3",
        "UPDATE meta SET length = 5",
    ],
    "charges swapped": [
        "UPDATE records SET place = -place WHERE place > 1",
        "UPDATE records SET place = 5 + place WHERE place < 0",
    ],
    "a lower cost": ["UPDATE records SET body = replace(body, '0.6', '0.5')"],
    "no partition": ["UPDATE records SET body = replace(body, '\"region\"', 'null')"],
    "a raised cap": ["UPDATE records SET body = replace(body, 'epsilon\": 1', 'epsilon\": 9')"],
    "a further column": ["ALTER TABLE records ADD COLUMN more"],
    "a trigger": ["CREATE TRIGGER free AFTER INSERT ON records BEGIN DELETE FROM records; END"],
    "a view in a table's place": [
        "ALTER TABLE records RENAME TO old",
        "CREATE VIEW records AS SELECT * FROM old WHERE place < 3",
    ],
    "another journal": ["PRAGMA journal_mode = WAL", "DELETE FROM records"],
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_edited_rows_and_tables(path, live, name):
    expected = state(live)
    edit(path, *STATEMENTS[name])
    assert is_told(path, live, expected)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off(path, pages, part):
    """To nothing, too: an empty file is no new ledger."""
    expected, whole = state(pages), path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    assert is_told(path, pages, expected)


def test_pages_that_were_lost_or_moved(path, pages):
    expected, whole = state(pages), path.read_bytes()
    octets = [whole[k : k + 4096] for k in range(0, len(whole), 4096)]
    assert len(octets) > 5
    for k in range(len(octets)):
        for page in (bytes(4096), b"\xff" * 4096, octets[k - 1]):
            path.write_bytes(b"".join([*octets[:k], page, *octets[k + 1 :]]))
            assert is_told(path, pages, expected), k


# --------------------------------------------------------------------- earlier states, other files


def test_a_file_that_was_set_back_is_told_to_whoever_has_seen_more(path, live):
    """Also to a pickle of it; and not to a newcomer, which is a documented limit."""
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
        refused("set back to an earlier state", use, error=LedgerDamagedError)
    assert "LedgerDamagedError" in repr(live)
    assert PrivacyLedger.open(path).spent.epsilon == pytest.approx(0.9)
    path.write_bytes(newest)
    assert live.spent.epsilon == pickle.loads(sent).spent.epsilon == pytest.approx(1.0)


def test_a_file_that_went_another_way_is_told(path, live):
    """A copy that was charged as often, and as much, in the place of the ledger."""
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    live.charge(PureDP(0.1), label="here")
    PrivacyLedger.open(copy).charge(PureDP(0.1), label="there")
    os.replace(copy, path)
    refused("set back", live.check, PureDP(0.0), error=LedgerDamagedError)


@pytest.mark.parametrize("make", [lambda path: PrivacyLedger(path, epsilon=1.0), filled])
def test_another_ledger_in_its_place_is_told(path, make):
    live = make(path)
    path.unlink()
    refused("no privacy ledger", live.check, PureDP(0.1), error=FileNotFoundError)
    make(path)
    refused("another ledger", live.check, PureDP(0.0), error=LedgerDamagedError)


def test_what_others_charge_is_no_damage(path):
    one, link = PrivacyLedger(path, epsilon=1.0), path.with_name("link")
    link.symlink_to(path)
    others = [PrivacyLedger.open(link), pickle.loads(pickle.dumps(one)), one]
    for k in range(9):
        assert others[k % 3].charge(PureDP(0.1)) == k + 1
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda other: other.charge(PureDP(0.01)), 2 * others))
    assert {round(other.spent.epsilon, 9) for other in others} == {0.96}


def test_a_warning_that_is_undone_leaves_a_ledger_that_fits_its_file(live):
    ledger = live
    ledger.__sklearn_clone__()
    ledger.charge(PureDP(0.01), label="a")
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning):
        ledger.charge(PureDP(0.01), label="a")
    assert len(ledger.entries()) == 3
    ledger.charge(PureDP(0.01), label="b")
    assert len(PrivacyLedger.open(ledger.path).entries()) == 4


@pytest.mark.parametrize("body", ["[]", "{}", "nonsense", '{"cost": [1]}', "[" * 10_000])
def test_a_record_that_says_nothing_is_damage(path, live, body):
    digest, _ = live._store.read().records[-1]
    forged = "INSERT INTO records VALUES (?, ?, ?)", (4, _ledger._digest(digest, body), body)
    edit(path, forged, "UPDATE meta SET length = length + 1")
    for use in (live.entries, lambda: PrivacyLedger.open(path)):
        refused("entry 4 is none of a ledger", use, error=LedgerDamagedError)


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
    "no code": (coded(sqlite3.OperationalError), OSError),
    "disk": (coded(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_READ), OSError),
    "locked": (coded(sqlite3.OperationalError, sqlite3.SQLITE_BUSY), TimeoutError),
    "read-only": (coded(sqlite3.OperationalError, sqlite3.SQLITE_READONLY), PermissionError),
    "too many files": (coded(sqlite3.OperationalError, sqlite3.SQLITE_CANTOPEN), OSError),
    "unknown": (coded(sqlite3.OperationalError, 99), OSError),
}


@pytest.mark.parametrize(
    ("name", "where"),
    [(name, "SELECT * FROM meta") for name in TRANSIENT]
    + [("memory", "BEGIN"), ("disk", "PRAGMA quick"), ("no code", "serialize")],
)
def test_what_the_machine_lacks_is_no_damage(live, monkeypatch, name, where):
    """No such message asks for a copy in the file's place, which would lose charges."""
    ledger, connect = live, sqlite3.connect
    error, kind = TRANSIENT[name]
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=_Failing, **k))
    monkeypatch.setattr(_Failing, "fails", where)
    monkeypatch.setattr(_Failing, "error", error)
    uses = [lambda: ledger.spent, lambda: ledger.charge(PureDP(0.01))]
    uses += [ledger.entries, lambda: PrivacyLedger.open(ledger.path)]
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
