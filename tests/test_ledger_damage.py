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
import threading
import warnings

import numpy as np
import pytest

from skdpsumm import LedgerDamagedError as TopLevelError
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
    "meta": "format version identity epsilon delta adjacency accountant length head",
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
                n_changed = db.execute(f"UPDATE {table} SET {column} = {value} {where}").rowcount
            db.close()
            assert is_told(path, live, expected) == bool(n_changed), (column, value)


STATEMENTS = {
    "a lost charge": ["DELETE FROM charges WHERE id = 1"],
    "the last charge lost": ["DELETE FROM charges WHERE id = 2"],
    "all charges lost": ["DELETE FROM charges"],
    "a lost data set": ["DELETE FROM datasets WHERE name = 'north'"],
    "all data sets lost": ["DELETE FROM datasets"],
    "no settings": ["DELETE FROM meta"],
    "a charge twice": ["INSERT INTO charges SELECT * FROM charges WHERE id = 1"],
    "a data set twice": ["INSERT INTO datasets SELECT * FROM datasets WHERE place = 1"],
    "settings twice": ["INSERT INTO meta SELECT * FROM meta"],
    "charges swapped": ["UPDATE charges SET id = 3 - id, place = 6 - place"],
    "places swapped": ["UPDATE charges SET place = 6 - place"],
    "costs swapped": ["UPDATE charges SET pure = 0.9 - pure"],
    "all of one partition": ["UPDATE datasets SET \"partition\" = 'region'"],
    "no partition": ['UPDATE datasets SET "partition" = NULL'],
    "a raised cap": ["UPDATE meta SET epsilon = 100"],
    "the last charge cut off": [
        "DELETE FROM charges WHERE id = 2",
        "UPDATE meta SET length = length - 1",
    ],
    "a charge more": [
        "INSERT INTO charges SELECT 5, digest, 3, time, dataset, label, adjacency, "
        "mechanism, simulated, pid, -9, square, log_ratio, tail FROM charges"
    ],
    "a dropped table": ["DROP TABLE charges"],
    "a further column": ["ALTER TABLE charges ADD COLUMN more"],
    "a further table": ["CREATE TABLE more (a)"],
    "a trigger": ["CREATE TRIGGER free AFTER INSERT ON charges BEGIN DELETE FROM charges; END"],
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


def test_a_new_ledger_may_be_named_by_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "ledger")
    PrivacyLedger(tmp_path / "link", epsilon=1.0).charge(PureDP(0.5))
    assert PrivacyLedger.open(tmp_path / "ledger").spent.epsilon == 0.5


def test_a_ledger_that_is_alone_verifies_once(tmp_path, monkeypatch):
    """No reading is whole as long as not a byte has changed but by the ledger itself."""
    ledger = filled(tmp_path / "ledger")
    monkeypatch.setattr(_ledger_file, "read", None)
    for _ in range(5):
        ledger.charge(PureDP(0.001))
    ledger.dataset("south", partition="region").charge(PureDP(0.1))
    assert len(ledger.entries()) == 8


def test_a_sqlite_that_cannot_tell_a_change_reads_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(_ledger_file, "fingerprint_of", lambda db: None)
    path = tmp_path / "ledger"
    live = filled(path)
    assert state(live) == state(PrivacyLedger.open(path))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE charges SET pure = 0.1")
    db.close()
    assert is_told(path, live, None)


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


@pytest.mark.parametrize(
    ("dataset", "label", "cost"),
    [
        (np.str_("a"), np.str_("b"), np.float32(0.1)),
        ("a\0b", "c\0d", -0.0),
        ("ä\u0378\U0010ffff", "'\"\\", 1),
        (" ", "", 5e-324),
    ],
)
def test_what_is_written_is_read_again(tmp_path, dataset, label, cost):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=-0.0)
    ledger.charge(PureDP(cost), dataset=dataset, label=label)
    ledger.dataset("z", partition=dataset)
    (entry,) = PrivacyLedger.open(tmp_path / "ledger").entries()
    assert (entry["dataset"], entry["label"], entry["epsilon"]) == (dataset, label, float(cost))


def test_the_error_is_one_that_is_exported():
    assert TopLevelError is LedgerDamagedError
    assert issubclass(LedgerDamagedError, ValueError)


# ------------------------------------------------------------------------------ files of version 1

VERSION_1 = """
CREATE TABLE IF NOT EXISTS meta (format TEXT, version INTEGER, epsilon REAL, delta REAL, adjacency TEXT, accountant TEXT);
CREATE TABLE IF NOT EXISTS datasets (name TEXT PRIMARY KEY, "partition" TEXT);
CREATE TABLE IF NOT EXISTS charges (id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, dataset TEXT NOT NULL, label TEXT NOT NULL, adjacency TEXT NOT NULL, mechanism TEXT NOT NULL, simulated INTEGER NOT NULL, pid INTEGER NOT NULL, pure REAL, square REAL, log_ratio REAL NOT NULL, tail REAL NOT NULL);
INSERT INTO meta VALUES ('skdpsumm privacy ledger', 1, 1.0, 0.0, 'add_remove', 'pure');
"""  # noqa: E501
CHARGES_1 = """
INSERT INTO datasets VALUES ('north', 'region'), ('default', NULL);
INSERT INTO charges (time, dataset, label, adjacency, mechanism, simulated, pid, pure, square, log_ratio, tail)
VALUES ('2026-01-01T00:00:00+00:00', 'north', 'ages', 'add_remove', '{"kind": "pure", "epsilon0": 0.6}', 0, 7, 0.6, NULL, 0.0, 0.0),
       ('2026-01-02T00:00:00+00:00', 'default', 'sizes', 'add_remove', '{"kind": "pure", "epsilon0": 0.3}', 1, 8, 0.3, NULL, 0.0, 0.0);
"""  # noqa: E501


def version_1(path, *scripts):
    db = sqlite3.connect(path)
    for script in (VERSION_1, *scripts):
        db.executescript(script)
    db.close()


@pytest.mark.parametrize(
    "attach", [PrivacyLedger.open, lambda path: PrivacyLedger(path, epsilon=1.0)]
)
def test_a_file_of_version_1_is_chained_with_all_that_it_holds(tmp_path, attach):
    path = tmp_path / "ledger"
    version_1(path, CHARGES_1)
    ledger = attach(path)
    assert ledger.spent.epsilon == pytest.approx(0.9)
    assert [(e["id"], e["partition"], e["label"], e["pid"]) for e in ledger.entries()] == [
        (1, "region", "ages", 7),
        (2, None, "sizes", 8),
    ]
    assert [e["simulated"] for e in ledger.entries()] == [False, True]
    assert ledger.charge(PureDP(0.1)) == 3
    expected = state(ledger)
    assert state(PrivacyLedger.open(path)) == expected
    with sqlite3.connect(path) as db:
        db.execute("UPDATE charges SET pure = 0.1 WHERE id = 1")
    db.close()
    assert is_told(path, ledger, expected)


def test_an_empty_file_of_version_1(tmp_path):
    version_1(tmp_path / "ledger")
    assert PrivacyLedger.open(tmp_path / "ledger").charge(PureDP(0.3)) == 1


DAMAGED_1 = {
    "an orphan": "UPDATE charges SET dataset = 'defbult' WHERE id = 2",
    "no data sets": "DELETE FROM datasets",
    "a lost charge": "DELETE FROM charges WHERE id = 1",
    "the last charge lost": "DELETE FROM charges WHERE id = 2",
    "all charges lost": "DELETE FROM charges",
    "a negative cost": "UPDATE charges SET pure = -5 WHERE id = 1",
    "a cost that is text": "UPDATE charges SET square = 'free' WHERE id = 1",
    "a mechanism that is none": "UPDATE charges SET mechanism = '{' WHERE id = 1",
    "another adjacency": "UPDATE charges SET adjacency = 'none' WHERE id = 1",
    "no cap": "UPDATE meta SET epsilon = NULL",
    "a further table": "CREATE TABLE more (a)",
}


@pytest.mark.parametrize("name", DAMAGED_1)
def test_a_damaged_file_of_version_1_is_left_as_it_is(tmp_path, name):
    path = tmp_path / "ledger"
    version_1(path, CHARGES_1, DAMAGED_1[name])
    before = path.read_bytes()
    for attach in (PrivacyLedger.open, lambda path: PrivacyLedger(path, epsilon=1.0)):
        with pytest.raises(LedgerDamagedError):
            attach(path)
    assert path.read_bytes() == before


def test_a_file_cannot_be_chained_twice(tmp_path):
    """A file of version 2 does not pass for one of version 1, to be chained as it was edited."""
    path = tmp_path / "ledger"
    live = filled(path)
    expected = state(live)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET version = 1")
        db.execute("UPDATE charges SET pure = 0")
    db.close()
    assert is_told(path, live, expected)
