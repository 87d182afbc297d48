"""The ledger under fire: every backend, eight processes at once, kills, full and read-only disks.

The truth is kept beside the ledger: `release` stands for a private answer, and appends a byte to a
file that no crash takes back. In all that happens here the ledger's total is never below the
truth, never above the cap, and its file is never damaged.
"""

import contextlib
import os
import resource
import signal
import sqlite3
import stat
import tempfile
import threading
import time
import warnings

import numpy as np
import pytest
from answers import said
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from skdpsumm import BudgetWarning, HistogramSketcher, M2MClassifier
from skdpsumm.privacy import BudgetExceededError, PrivacyLedger, PureDP, _ledger
from skdpsumm.privacy._ledger import Book

PRICE, CAP = 0.1, 1.0
X, Y = np.linspace(-1, 1, 24)[:, None], np.arange(24) % 2
LIMIT = 60  # seconds, after which a child counts as hung

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def release(truth):
    """Let one private answer out: a byte that stays, whatever happens next."""
    file = os.open(truth, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b".")
    os.close(file)


def released(truth):
    return os.path.getsize(truth) if os.path.exists(truth) else 0


def in_child(work):
    """Run `work` in a fork, and return how that ended: an exit code, or minus a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid):
    for _ in range(LIMIT * 100):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"


def is_sound(path):
    """Whether SQLite finds no fault in the file, after it has undone what was not committed."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def assert_true(path, truth, *, slack=0):
    """Check that the ledger owns up to every release, to no more than `slack` others, and holds."""
    assert is_sound(path)
    ledger = PrivacyLedger.open(path)
    n = released(truth)
    assert n <= len(ledger.entries()) <= n + slack
    assert ledger.spent.epsilon >= n * PRICE * (1 - 1e-9)
    assert ledger.spent.epsilon <= ledger.epsilon * (1 + 1e-9)


class Payer(ClassifierMixin, BaseEstimator):
    """Pays, releases, and predicts zero."""

    def __init__(self, ledger=None, truth=None, shift=0):
        self.ledger = ledger
        self.truth = truth
        self.shift = shift

    def fit(self, X, y):
        self.ledger.charge(PureDP(PRICE), label="Payer")
        release(self.truth)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


# --------------------------------------------------------------- searches, on every backend

BACKENDS = {
    "n_jobs=1": {"n_jobs": 1},
    "threads": {"n_jobs": 2, "backend": "threading"},
    "loky": {"n_jobs": 2, "backend": "loky"},
    "fork": {"n_jobs": 2, "backend": "multiprocessing"},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cap", [CAP, 0.5])
@pytest.mark.statistical
def test_a_search_is_charged_in_full(tmp_path, backend, cap):
    """Nine fits of a search and its refit, or as many as the cap holds; then a cross-validation."""
    path, truth = tmp_path / "ledger", tmp_path / "truth"
    model = Payer(PrivacyLedger(path, epsilon=cap), truth)
    with parallel_config(backend=BACKENDS[backend].get("backend", "loky")):
        jobs = {"n_jobs": BACKENDS[backend]["n_jobs"]}
        search = GridSearchCV(model, {"shift": [0, 1, 2]}, cv=3, error_score=0.0, **jobs)
        if cap == CAP:
            search.fit(X, Y)
        else:
            with pytest.raises(BudgetExceededError):  # by the refit
                search.fit(X, Y)
        assert released(truth) == round(cap / PRICE)
        # A pool of forks that a task's exception ends early may hang: joblib's issue 1034.
        error_score = np.nan if backend == "fork" else "raise"
        with pytest.raises((ValueError, BudgetExceededError)):
            cross_val_score(model, X, Y, cv=3, error_score=error_score, **jobs)
    assert_true(path, truth)


# ------------------------------------------------------- the warning at the second charge


@pytest.mark.parametrize("place", ["memory", "file"])
@pytest.mark.parametrize("of", [lambda ledger: ledger, lambda ledger: ledger.dataset("default")])
def test_the_second_charge_by_clones_warns_with_the_price(tmp_path, place, of):
    ledger = PrivacyLedger(None if place == "memory" else tmp_path / "ledger", epsilon=4.0)
    model = Payer(of(ledger), tmp_path / "truth")
    assert said(lambda: clone(model).fit(X, Y), BudgetWarning)[1] == []
    (message,) = said(lambda: clone(model).fit(X, Y), BudgetWarning)[1]
    assert "2 fits by clones of one estimator" in message
    assert "(Payer)" in message
    assert "cost epsilon=0.2 of data set 'default'" in message
    assert "10 such fits cost epsilon=1, 100 such fits cost epsilon=10." in message
    assert said(lambda: clone(model).fit(X, Y), BudgetWarning)[1] == []
    assert len(ledger.entries()) == 3


def test_fits_that_are_no_clones_do_not_warn(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=4.0)
    north, south = (ledger.dataset(name, partition="region") for name in ("north", "south"))

    def work():
        model = Payer(ledger, tmp_path / "truth")
        model.fit(X, Y).fit(X, Y)
        for part in (north, south):
            clone(model).set_params(ledger=part).fit(X, Y)

    assert said(work, BudgetWarning)[1] == []


@pytest.mark.statistical
def test_a_search_in_workers_warns_there_and_at_the_refit(tmp_path, capfd):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=4.0)
    model = Payer(ledger, tmp_path / "truth")
    with parallel_config(backend="loky"):
        search = GridSearchCV(model, {"shift": [0, 1]}, cv=3, n_jobs=2)
        (message,) = said(lambda: search.fit(X, Y), BudgetWarning)[1]
    assert "7 fits" in message
    assert "cost epsilon=0.7 of data set" in message


# --------------------------------------------------------------------------------- kills


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def statements_of_a_charge(path):
    """Return the SQL of one charge, in order."""
    seen, ledger = [], PrivacyLedger.open(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ledger, "_connect", traced(seen.append))
        ledger.charge(PureDP(PRICE))
    return seen


def traced(callback, connect=_ledger._connect):
    def connect_and_trace(name):
        db = connect(name)
        db.set_trace_callback(callback)
        return db

    return connect_and_trace


@forks
def test_a_process_killed_before_any_statement_of_a_charge(tmp_path):
    """Between check and charge, inside the transaction, at its commit: nothing is half done."""
    path, truth = tmp_path / "ledger", tmp_path / "truth"
    PrivacyLedger(path, epsilon=4.0)
    for _ in range(2):  # the first charge of a data set has a statement more
        statements = statements_of_a_charge(path)
        release(truth)
    assert any(s.startswith("BEGIN IMMEDIATE") for s in statements)
    assert any(s.startswith("COMMIT") for s in statements)
    ledger = PrivacyLedger.open(path)
    for k in range(len(statements)):
        calls = iter(range(len(statements) + 1))

        def work(k=k, calls=calls):
            ledger.check(PureDP(PRICE))
            _ledger._connect = traced(lambda _: kill() if next(calls) == k else None)
            ledger.charge(PureDP(PRICE))
            release(truth)

        assert ended(in_child(work)) == -signal.SIGKILL
        assert_true(path, truth)
    ledger.charge(PureDP(PRICE))
    release(truth)
    assert_true(path, truth)


def test_a_second_name_takes_no_charge_that_the_first_would_undo(tmp_path):
    """Killed at its commit, a charge leaves a journal beside the one name alone.

    What was charged under the other name was gone, once the first was opened again.
    """
    path, other, truth = tmp_path / "ledger", tmp_path / "other", tmp_path / "truth"
    ledger = PrivacyLedger(path, epsilon=4.0)
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(OSError, match=r"second name.*Nothing was charged"):
            PrivacyLedger.open(name).charge(PureDP(PRICE))
    os.unlink(other)
    ledger.charge(PureDP(PRICE))
    release(truth)
    assert_true(path, truth)


@forks
def test_killed_processes_do_not_stop_the_others(tmp_path):
    """Eight at once, of which every other one dies inside its third transaction."""
    path, truth = tmp_path / "ledger", tmp_path / "truth"
    ledger = PrivacyLedger(path, epsilon=4.0)

    def work(dies):
        for i in range(5):
            if dies and i == 2:
                Book.append = lambda *_, **__: kill()
            ledger.charge(PureDP(PRICE))
            release(truth)

    children = [in_child(lambda k=k: work(k % 2 == 0)) for k in range(8)]
    assert [ended(child) for child in children] == [-signal.SIGKILL, 0] * 4
    assert released(truth) == 4 * 2 + 4 * 5
    assert_true(path, truth)


# ---------------------------------------------------------------- disks that are full, or closed


@forks
def test_a_full_disk_refuses_the_charge_and_spoils_nothing(tmp_path):
    """No file may grow past a limit, which is set at every size that a charge would write."""
    path, truth = tmp_path / "ledger", tmp_path / "truth"
    ledger = PrivacyLedger(path, epsilon=1e6)

    def work(limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for _ in range(200):
            try:
                ledger.charge(PureDP(PRICE), label="x" * 100)
            except OSError as error:
                os._exit(7 if "Nothing" in str(error) and "full" in str(error) else 8)
            release(truth)

    size = path.stat().st_size
    for limit in (0, 100, 512, 1024, 4096, size - 1, size, size + 1, size + 5000, size + 9000):
        assert ended(in_child(lambda limit=limit: work(limit))) == 7, limit
        assert_true(path, truth)
    assert released(truth) > 10
    ledger.charge(PureDP(PRICE))


@pytest.fixture
def open_folder():
    """A folder that everyone can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield folder
        os.chmod(folder, 0o777)


def as_nobody(work):
    """Return `work`, done by a user whom permissions bind. They do not bind root."""

    def bound():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    return bound


@forks
@pytest.mark.parametrize("closed", ["file", "folder", "both"])
def test_a_file_that_cannot_be_written_is_read_but_not_charged(open_folder, closed):
    path = os.path.join(open_folder, "ledger")
    ledger = PrivacyLedger(path, epsilon=4.0)
    ledger.charge(PureDP(PRICE))
    os.chmod(path, stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH if closed != "folder" else 0o666)
    if closed != "file":
        os.chmod(open_folder, 0o555)

    def work():
        assert ledger.spent.epsilon == PRICE
        ledger.check(PureDP(PRICE))
        try:
            ledger.charge(PureDP(PRICE))
        except OSError as error:
            os._exit(7 if "Make" in str(error) and "Nothing may be released" in str(error) else 8)

    assert ended(in_child(as_nobody(work))) == 7
    os.chmod(open_folder, 0o777)
    assert is_sound(path)
    assert len(ledger.entries()) == 1


@forks
def test_a_folder_that_is_closed_takes_no_new_ledger(open_folder):
    path = os.path.join(open_folder, "ledger")
    os.chmod(open_folder, 0o555)

    def work():
        try:
            PrivacyLedger(path, epsilon=4.0)
        except PermissionError as error:
            os._exit(7 if f"{path} cannot" in str(error) and "folder writable" in str(error) else 8)

    assert ended(in_child(as_nobody(work))) == 7
    assert os.listdir(open_folder) == []


# ------------------------------------------------------------------- other versions, other bytes


def test_fits_that_clone_their_own_parts_are_no_search(recwarn):
    """A model copies the sketcher that it is given; only clones made outside count as trials."""
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3)
    sketcher = HistogramSketcher(epsilon=0.5, delta=1e-6, ledger=ledger)
    for _ in range(2):
        M2MClassifier((-1, 1), release=sketcher, n_synthetic=50).fit(X, Y)
    assert len(ledger.entries()) == 2
    assert not [w for w in recwarn if issubclass(w.category, BudgetWarning)]


# --------------------------------------------------------------------------------- races


@forks
@pytest.mark.statistical
def test_processes_race_for_creation_and_for_the_cap(tmp_path):
    path, truth = tmp_path / "ledger", tmp_path / "truth"

    def work():
        made = [PrivacyLedger(f"{path}{i}", epsilon=1) for i in range(20)]
        ledger = PrivacyLedger(path, epsilon=1)
        for _ in made:
            with contextlib.suppress(BudgetExceededError):
                ledger.charge(PureDP(1 / 30))
                release(truth)

    children = [in_child(work) for _ in range(4)]
    assert [ended(child) for child in children] == [0] * 4
    assert released(truth) == 30
    assert [e["id"] for e in PrivacyLedger.open(path).entries()] == [*range(1, 31)]
    for i in range(20):
        assert PrivacyLedger.open(f"{path}{i}").entries() == []


@forks
def test_a_fork_during_a_charge_of_another_thread_can_charge(tmp_path, monkeypatch):
    monkeypatch.setattr(_ledger, "_TIMEOUT", 3)
    ledger, memory = PrivacyLedger(tmp_path / "ledger", epsilon=1), PrivacyLedger(epsilon=1)
    inside = threading.Event()

    def hold():
        with ledger._store.writing():
            inside.set()
            time.sleep(0.3)

    def work():
        ledger.charge(PureDP(0.25))
        with pytest.raises(RuntimeError, match="Give the ledger a path"):
            memory.charge(PureDP(0.25))

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = in_child(work)
    thread.join()
    assert (ended(child), PrivacyLedger.open(tmp_path / "ledger").spent.epsilon) == (0, 0.25)


def test_a_hook_of_warnings_that_writes_to_the_ledger_cannot_undo_a_charge():
    """Nothing is released where the charge was undone: it raises."""
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-3)
    estimator = HistogramSketcher(schema=(0, 1), epsilon=1.0, delta=1e-6, ledger=ledger)
    clone(estimator).fit(np.zeros((30, 1)))

    def hook(*_, **__):
        with contextlib.suppress(Exception):
            ledger.charge(PureDP(0.1), label="hook")

    with warnings.catch_warnings(action="always"):
        warnings.showwarning = hook
        paid = len(ledger.entries())
        try:
            clone(estimator).fit(np.zeros((30, 1)))
        except Exception:
            return
    assert len(ledger.entries()) > paid
