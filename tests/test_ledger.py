"""The ledger: what a cap holds, who is counted, and what survives a crash."""

import contextlib
import copy
import math
import os
import pickle
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from skdpsumm import BudgetExceededError, HistogramSketcher, LedgerDamagedError, PrivacyGuarantee
from skdpsumm.privacy import GaussianDP, PrivacyLedger, PureDP, _ledger, _mechanisms, gdp_mu
from skdpsumm.privacy._ledger import Book, LedgerStore
from skdpsumm.privacy._mechanisms import (
    Unprotected,
    Worst,
    ZeroConcentratedDP,
    compose,
    gdp_delta,
    zcdp_rho,
)
from skdpsumm.privacy._noise import RESERVE, Block, IntegerNoise
from skdpsumm.privacy._threshold import ThresholdDP

DELTA = 1e-6


class Toy(ClassifierMixin, BaseEstimator):
    """Charges a ledger in fit, and predicts the majority."""

    def __init__(self, ledger=None, epsilon=0.1, shift=0):
        self.ledger = ledger
        self.epsilon = epsilon
        self.shift = shift

    def fit(self, X, y):
        self.ledger.check(PureDP(self.epsilon))
        self.ledger.charge(PureDP(self.epsilon), label=f"shift={self.shift}")
        self.classes_, counts = np.unique(y, return_counts=True)
        self.majority_ = self.classes_[np.argmax(counts)]
        return self

    def predict(self, X):
        return np.full(len(X), self.majority_)


def gaussian(epsilon, delta=DELTA):
    """Return the cost of Gaussian noise calibrated as `IntegerNoise` does."""
    return GaussianDP(gdp_mu(epsilon * (1 - RESERVE), delta * (1 - RESERVE)))


def try_to_charge(ledger, mechanism, **where):
    try:
        ledger.charge(mechanism, **where)
    except BudgetExceededError:
        return False
    return True


def is_refused(ledger, mechanism, **where):
    try:
        ledger.check(mechanism, **where)
    except BudgetExceededError:
        return True
    return False


# ------------------------------------------------------------------------------ what a cap holds


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_noise_calibrated_to_the_cap_fits_exactly_once(epsilon, delta):
    noise = IntegerNoise([Block(200, 200, 1e6)], epsilon=epsilon, delta=delta)
    ledger = PrivacyLedger(epsilon=epsilon, delta=delta)
    ledger.charge(noise.mechanism)
    assert ledger.spent.epsilon == pytest.approx(epsilon, rel=1e-5)
    assert ledger.spent.epsilon <= epsilon
    refused("Nothing was charged", ledger.charge, noise.mechanism, error=BudgetExceededError)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_pure_charges_may_sum_to_epsilon_under_every_accountant(accountant):
    ledger = PrivacyLedger(epsilon=1.0, delta=DELTA, accountant=accountant)
    for _ in range(10):
        ledger.charge(PureDP(0.1))
    assert ledger.spent.epsilon == pytest.approx(1.0)
    assert ledger.remaining.epsilon == 0
    with pytest.raises(BudgetExceededError, match=r"epsilon=0\.01 .* epsilon=0 of 1 is left"):
        ledger.check(PureDP(0.01))
    with pytest.raises(BudgetExceededError, match="a ledger of its own"):
        ledger.check(GaussianDP(1e-3))  # the path is no longer all pure


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_no_ledger_forgets_the_slack(accountant):
    """A cost that is (inf, 1e-6)-DP by itself is not held by a cap, whatever its mu."""
    ledger = PrivacyLedger(epsilon=1.0, delta=DELTA, accountant=accountant)
    lost = GaussianDP(0.01, log_ratio=3.0, tail=0.5)
    assert lost.epsilon(DELTA) == math.inf
    assert is_refused(ledger, lost)
    assert ledger.price(lost).epsilon == math.inf


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
@pytest.mark.parametrize("before", [None, ZeroConcentratedDP(1e-3), GaussianDP(0.1)])
def test_noise_for_what_remains_is_held_with_its_slack(accountant, before):
    ledger = PrivacyLedger(epsilon=1.0, delta=DELTA, accountant=accountant)
    if before is not None and before.price(accountant):
        ledger.charge(before)
    left = ledger.remaining
    noise = IntegerNoise([Block(200, 200, 1e6)], epsilon=left.epsilon, delta=left.delta)
    assert noise.mechanism.slack > (0, 0)
    ledger.charge(noise.mechanism)


def test_the_reserve_pays_for_discreteness_and_for_no_more():
    cap = gaussian(1.0).mu
    full = GaussianDP(cap, log_ratio=RESERVE / 4, tail=RESERVE * DELTA * 0.74)
    PrivacyLedger(epsilon=1.0, delta=DELTA).charge(full)
    assert full.delta(1.0) <= DELTA
    assert is_refused(PrivacyLedger(epsilon=1.0, delta=DELTA), GaussianDP(gdp_mu(1.0, DELTA)))
    for slack in ({"tail": 0.6 * RESERVE * DELTA}, {"log_ratio": 0.3 * RESERVE}):
        ledger = PrivacyLedger(epsilon=1.0, delta=DELTA)
        ledger.charge(GaussianDP(0.1, **slack))
        refused("smaller delta", ledger.charge, GaussianDP(0.1, **slack), error=BudgetExceededError)
        ledger.charge(GaussianDP(0.1))


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
@pytest.mark.parametrize("part", [2e-6, 0.1, 0.9])
def test_the_first_charge_alone_may_set_a_part_of_delta_aside(accountant, part, tmp_path):
    """What is set aside is fixed before anything is released, and the rest holds all else."""
    path = tmp_path / "ledger.db"
    ledger = PrivacyLedger(path, epsilon=1.0, delta=DELTA, accountant=accountant)
    first = GaussianDP(0.1, tail=part * DELTA)
    north, south = (ledger.dataset(name, partition="region") for name in ("north", "south"))
    assert north.n_charges == 0
    north.charge(first)
    assert north.n_charges == ledger.n_charges == 1
    # The rows of another data set of the partition may pay as much, and no row pays it twice.
    assert not is_refused(south, first)
    for other in (ledger, north, PrivacyLedger.open(path)):
        assert is_refused(other, first)
        assert is_refused(other, GaussianDP(0.0, tail=2 * RESERVE * DELTA))
    for place, spent in ((PrivacyLedger.open(path), 0.1), (south, 0.0)):
        left = place.remaining
        noise = IntegerNoise([Block(1, 1.0, 1.0)], epsilon=left.epsilon, delta=left.delta)
        assert not is_refused(place, noise.mechanism)
        more = IntegerNoise([Block(1, 1.0, 1.0)], epsilon=left.epsilon * 1.001, delta=left.delta)
        assert is_refused(place, more.mechanism)
        mu = math.hypot(spent, noise.mechanism.mu)
        total = part * DELTA + noise.mechanism.tail + gdp_delta(mu, 1.0)
        assert total <= DELTA
        assert accountant == "zcdp" or total >= DELTA * (1 - 1e-4)
    taken = PrivacyLedger(epsilon=1.0, delta=DELTA, accountant=accountant)
    assert is_refused(taken, GaussianDP(0.1, tail=DELTA))
    roomy = PrivacyLedger(epsilon=3.0, delta=DELTA, accountant=accountant)
    assert is_refused(roomy, GaussianDP(0.0, 1.4 * RESERVE, tail=1.0))
    assert roomy.price(GaussianDP(0.0, 0.0, tail=1.0)).epsilon == math.inf
    taken.charge(GaussianDP(0.1))
    assert is_refused(taken, first)
    assert taken.remaining.epsilon > ledger.remaining.epsilon


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.999])
def test_what_remains_fits_and_more_does_not(accountant, epsilon, part):
    ledger = PrivacyLedger(epsilon=epsilon, delta=DELTA, accountant=accountant)
    first = ledger.remaining.epsilon
    assert (first == epsilon) == (accountant == "gdp")  # zCDP's conversion is not tight
    if part:
        ledger.charge(GaussianDP(part * gaussian(first).mu))
    left = ledger.remaining
    assert 0 < left.epsilon <= first
    assert is_refused(ledger, gaussian(left.epsilon * 1.001, left.delta))
    ledger.charge(gaussian(*left))
    assert ledger.remaining.epsilon < 1e-3 * epsilon


KINDS = st.sampled_from(["pure", "gaussian", "slack", "composed", "worst"])
PLACES = st.sampled_from(["default", "c", "north", "south"])
STEPS = st.lists(st.tuples(KINDS, st.floats(0.005, 0.8), PLACES), min_size=1, max_size=12)


def cost_of_kind(kind, part, epsilon):
    """Return a mechanism that takes roughly `part` of a cap."""
    pure, mu = PureDP(part * epsilon), gaussian(epsilon).mu * part
    return {
        "pure": pure,
        "gaussian": GaussianDP(mu),
        "slack": GaussianDP(mu, RESERVE * epsilon * part / 2, RESERVE * DELTA * part),
        "composed": compose([PureDP(0.05 * part), GaussianDP(mu)]),
        "worst": Worst((PureDP(0.05 * part), GaussianDP(mu))),
    }[kind]


def charge_all(ledger, mechanisms, names):
    """Charge in order and return, for a row of each region, what concerned it."""
    for name in ("north", "south"):
        ledger.dataset(name, partition="region")
    rows = {"north": [], "south": []}
    for mechanism, name in zip(mechanisms, names, strict=True):
        refused = is_refused(ledger.dataset(name), mechanism)
        assert try_to_charge(ledger.dataset(name), mechanism) is not refused
        for region, paid in rows.items():
            if not refused and name in (region, "default", "c"):
                paid.append(mechanism)
    return rows


@given(STEPS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_pure_sums_never_pass_the_cap(steps):
    ledger = PrivacyLedger(epsilon=1.5)
    rows = charge_all(ledger, [PureDP(part) for _, part, _ in steps], [name for *_, name in steps])
    sums = [sum(mechanism.epsilon0 for mechanism in paid) for paid in rows.values()]
    assert max(sums) <= 1.5 * (1 + 1e-9)
    assert ledger.spent.epsilon >= max(sums) - 1e-12


@given(STEPS, st.sampled_from([0.3, 1.0, 5.0]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_gaussian_totals_never_pass_delta(steps, epsilon):
    ledger = PrivacyLedger(epsilon=epsilon, delta=DELTA)
    mechanisms = [cost_of_kind(kind, part, epsilon) for kind, part, _ in steps]
    for paid in charge_all(ledger, mechanisms, [name for *_, name in steps]).values():
        assert delta_by_gdp(paid, epsilon) <= DELTA * (1 + 1e-9)


def delta_by_gdp(mechanisms, epsilon):
    """Return the delta of a row's charges by the closed form, written out anew."""
    pure = sum(m.epsilon0 if isinstance(m, PureDP) else math.inf for m in mechanisms)
    if pure <= epsilon * (1 + 1e-9):
        return 0.0
    square = log_ratio = tail = 0.0
    for m in mechanisms:
        parts = getattr(m, "parts", (m,))
        mus = [p.mu if hasattr(p, "mu") else _mechanisms.pure_to_gdp(p.epsilon0) for p in parts]
        square += max(mus) ** 2 if isinstance(m, Worst) else sum(mu**2 for mu in mus)
        log_ratio += getattr(m, "log_ratio", 0.0)
        tail += getattr(m, "tail", 0.0)
    return tail + math.exp(log_ratio) * gdp_delta(math.sqrt(square), epsilon - 2 * log_ratio)


@given(STEPS, st.sampled_from([0.3, 1.0, 5.0]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_zcdp_totals_never_pass_delta(steps, epsilon):
    """Pure charges and Gaussians with slack beside zCDP: the closed form, written out anew."""
    ledger = PrivacyLedger(epsilon=epsilon, delta=DELTA, accountant="zcdp")
    rho, mechanisms, rhos = zcdp_rho(epsilon, DELTA), [], {}
    for kind, part, _ in steps:
        mu, slack = math.sqrt(2 * rho * part), RESERVE * part / 2
        kinds = {"pure": PureDP(mu), "slack": GaussianDP(mu, slack * epsilon, 2 * slack * DELTA)}
        mechanisms.append(kinds.get(kind, ZeroConcentratedDP(rho * part)))
        rhos[id(mechanisms[-1])] = rho * part
    for paid in charge_all(ledger, mechanisms, [name for *_, name in steps]).values():
        log_ratio, tail = sum(m.slack[0] for m in paid), sum(m.slack[1] for m in paid)
        ideal = _mechanisms.zcdp_delta(sum(rhos[id(m)] for m in paid), epsilon - 2 * log_ratio)
        pure = sum(m.epsilon0 if isinstance(m, PureDP) else math.inf for m in paid)
        within = tail + math.exp(log_ratio) * ideal <= DELTA * (1 + 1e-6)
        assert within or pure <= epsilon * (1 + 1e-9)


# ------------------------------------------------------------------- kinds, adjacency, data sets


@pytest.mark.parametrize(
    ("settings_", "mechanism", "remedy"),
    [
        ({}, GaussianDP(0.1), "delta > 0"),
        ({}, ZeroConcentratedDP(0.1), "delta > 0"),
        ({"delta": DELTA}, ZeroConcentratedDP(0.1), 'accountant="zcdp"'),
        ({"delta": DELTA}, compose([PureDP(1), ZeroConcentratedDP(1)]), 'accountant="zcdp"'),
        ({"delta": DELTA, "accountant": "zcdp"}, ThresholdDP(0.03, 5), "State the cost"),
    ],
)
def test_a_kind_without_an_adaptive_sum_is_refused(settings_, mechanism, remedy):
    ledger = PrivacyLedger(epsilon=1.0, **settings_)
    for method in (ledger.check, ledger.charge):
        refused(remedy, method, mechanism)
    assert ledger.entries() == []


@pytest.mark.parametrize("accountant", ["pure", "gdp", "zcdp"])
def test_no_cap_accepts_everything_and_keeps_the_record(accountant):
    ledger = PrivacyLedger(epsilon=np.inf, delta=DELTA, accountant=accountant)
    ledger.charge(PureDP(3.0))
    assert ledger.spent.epsilon == 3.0
    for mechanism in (GaussianDP(9.0), ZeroConcentratedDP(9.0), Unprotected("it is a test")):
        ledger.charge(mechanism)
    assert ledger.spent.epsilon == ledger.remaining.epsilon == math.inf
    kinds = [entry["mechanism"]["kind"] for entry in ledger.entries()]
    assert kinds == ["pure", "gdp", "zcdp", "none"]
    ledger.charge(PureDP(math.inf))


@pytest.mark.parametrize("accountant", ["pure", "gdp", "zcdp"])
def test_the_unprotected_is_refused_under_a_cap(accountant):
    ledger = PrivacyLedger(epsilon=100.0, delta=DELTA, accountant=accountant)
    refused("epsilon=inf", ledger.charge, Unprotected("it is a test"), error=BudgetExceededError)


def test_a_changed_row_costs_two():
    ledger = PrivacyLedger(epsilon=2.0, adjacency="replace_one")
    ledger.charge(PureDP(0.5))
    ledger.charge(PrivacyGuarantee(PureDP(0.5), adjacency="replace_one"))
    assert ledger.spent.epsilon == 1.5
    assert [entry["epsilon"] for entry in ledger.entries()] == [1.0, 0.5]
    wide = PrivacyLedger(epsilon=2.0, delta=DELTA, adjacency="replace_one")
    wide.charge(GaussianDP(0.1))
    assert wide.spent.epsilon == pytest.approx(GaussianDP(0.2).epsilon(DELTA))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0])
def test_noise_of_a_replaced_row_by_enumeration(epsilon):
    """Discrete Gaussian noise on two counts, one of which falls where the other grows."""
    sigma = 2.5
    k = np.arange(-40, 41)
    law = np.exp(-(k**2) / (2 * sigma**2))
    p = np.outer(law, law) / law.sum() ** 2
    q = np.roll(p, (1, -1), axis=(0, 1))
    exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
    noise = IntegerNoise([Block(2, 1.0, 1.0)], epsilon=1.0, delta=1e-6)
    mu = noise.mechanism.mu
    replaced = noise.cost_between([(2.0, math.sqrt(2))])
    assert replaced.mu == pytest.approx(math.sqrt(2) * mu)
    refused("at most twice", noise.cost_between, [(2.1, 1.0)])
    # The same claim at this sigma, with the slack of its own coarseness.
    slack = 2 * 4 * max(1 / 8, (6.0 + 2 / sigma) ** 2 / 24) / sigma**2
    claim = GaussianDP(replaced.mu / mu / sigma, slack, 4 * math.exp(-18))
    assert claim.delta(epsilon) >= exact
    assert gdp_delta(replaced.mu / mu / sigma, epsilon) == pytest.approx(exact, rel=0.1)


def test_a_changed_row_says_nothing_of_an_added_one():
    ledger = PrivacyLedger(epsilon=2.0)
    for method in (ledger.check, ledger.charge):
        with pytest.raises(ValueError, match='Set adjacency="add_remove"'):
            method(PrivacyGuarantee(PureDP(0.5), adjacency="replace_one"))
        refused("rows as public", method, PrivacyGuarantee(PureDP(0.5), adjacency="replace_one"))


def test_disjoint_data_sets_cost_the_maximum_and_all_else_the_sum():
    ledger = PrivacyLedger(epsilon=1.0)
    north, south = (ledger.dataset(name, partition="region") for name in ("north", "south"))
    young = ledger.dataset("young", partition="age")
    north.charge(PureDP(0.4))
    south.charge(PureDP(0.3))
    assert ledger.spent.epsilon == 0.4
    young.charge(PureDP(0.2))
    ledger.charge(PureDP(0.1))
    assert ledger.spent.epsilon == pytest.approx(0.7)
    assert (north.spent.epsilon, south.spent.epsilon) == (0.4, 0.3)
    assert north.remaining.epsilon == pytest.approx(0.3)
    assert south.remaining.epsilon == pytest.approx(0.4)
    assert ledger.remaining.epsilon == pytest.approx(0.3)
    assert is_refused(south, PureDP(0.41))
    south.charge(PureDP(0.4))
    assert [entry["id"] for entry in south.entries()] == [2, 5]
    assert ledger.spent.epsilon == pytest.approx(1.0)
    # Without a partition they may overlap.
    ledger = PrivacyLedger(epsilon=1.0)
    ledger.dataset("a").charge(PureDP(0.6))
    with pytest.raises(BudgetExceededError, match=r"data set 'b'.* epsilon=0\.4 of 1"):
        ledger.dataset("b").charge(PureDP(0.6))


def test_a_file_keeps_its_unit(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1, unit="group")
    ledger.charge(PrivacyGuarantee(PureDP(0.25), unit="one group"))
    back = PrivacyLedger.open(ledger.path)
    assert back.unit == pickle.loads(pickle.dumps(back)).unit == "group"
    refused(r"unit='group' \(not 'row'\)", PrivacyLedger, ledger.path, epsilon=1)


def test_a_data_set_keeps_its_partition():
    ledger = PrivacyLedger(epsilon=1.0)
    ledger.dataset("north", partition="region")
    assert ledger.dataset("north").partition == "region"
    refused(r"'age'.*'region'.*another name", ledger.dataset, "north", partition="age")
    ledger.dataset("late").charge(PureDP(0.1))
    refused("another name", ledger.dataset, "late", partition="region")


# ------------------------------------------------------------------------ parameters and the file


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"epsilon": 0}, "'epsilon' parameter .* Got 0"),
        ({"epsilon": math.nan}, "'epsilon' parameter"),
        ({"epsilon": "1"}, "'epsilon' parameter"),
        ({"epsilon": 1, "delta": 1}, "'delta' parameter .* Got 1"),
        ({"epsilon": 1, "delta": None}, "'delta' parameter"),
        ({"epsilon": 1, "adjacency": "zero_out"}, "'adjacency' parameter"),
        ({"epsilon": 1, "accountant": "pld"}, "'accountant' parameter"),
        ({"epsilon": 1, "accountant": "gdp"}, "needs delta > 0"),
    ],
)
def test_parameters_are_checked(settings_, message, tmp_path):
    refused(message, PrivacyLedger, tmp_path / "ledger", **settings_)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["a\0b", "two\nlines", "\x1b[2J", "x" * 201, "\ud800", "\u2028"])
def test_names_and_labels_are_short_and_printable(text):
    ledger = PrivacyLedger(epsilon=1.0)
    for use in (
        lambda: ledger.charge(PureDP(0.1), label=text),
        lambda: ledger.dataset(text),
        lambda: ledger.dataset("a", partition=text),
    ):
        refused(r"to 200 printable characters.*Nothing was charged", use)
    refused("mechanism must be", ledger.charge, 0.1)
    refused("name must be a text of 1 to 200", ledger.dataset, "")
    assert ledger.entries() == []
    assert ledger.dataset("x" * 200).charge(PureDP(0.1), label="y" * 200) == 1


def test_a_cost_that_no_entry_can_hold_is_not_charged():
    ledger, deep, long = PrivacyLedger(epsilon=1.0), PureDP(0.1), PureDP(0.1)
    for _ in range(300):
        deep = Worst((deep,))
    long = Worst((PureDP(0.1),) * 50_000)
    for cost in (deep, long):
        refused("too long for an entry", ledger.charge, cost)
    refused("nested deeper than 16 levels", _mechanisms.mechanism_from_dict, deep.to_dict())
    assert ledger.entries() == []


def test_a_file_is_attached_by_equal_settings_or_by_open(tmp_path, monkeypatch):
    path = tmp_path / "a ledger?.db#1"
    PrivacyLedger(path, epsilon=1, delta=DELTA).charge(PureDP(0.25))
    assert os.listdir(tmp_path) == [path.name]
    assert PrivacyLedger(str(path), epsilon=1.0, delta=DELTA).spent.epsilon == 0.25
    opened = PrivacyLedger.open(path)
    assert (opened.epsilon, opened.delta, opened.accountant) == (1.0, DELTA, "gdp")
    with pytest.raises(ValueError, match=r"epsilon=1\.0 \(not 2\.0\), .*PrivacyLedger\.open"):
        PrivacyLedger(path, epsilon=2, delta=DELTA, adjacency="replace_one")
    monkeypatch.chdir(tmp_path)
    relative = PrivacyLedger.open(path.name)
    monkeypatch.chdir("/")
    assert (relative.path, relative.spent.epsilon) == (path, 0.25)


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_a_new_file_and_its_journal_are_for_their_owner_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        ledger, modes = PrivacyLedger(tmp_path / "ledger", epsilon=1), {}
        with ledger._store._transaction("BEGIN IMMEDIATE") as (db, _):
            db.execute("UPDATE meta SET length = 9")
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
            db.execute("ROLLBACK")
    finally:
        os.umask(before)
    assert modes == {"ledger": 0o600, "ledger-journal": 0o600}
    os.chmod(ledger.path, 0o640)  # to share it is up to you
    ledger.charge(PureDP(0.1))
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o640


def test_a_missing_file_is_not_made_up(tmp_path):
    path = tmp_path / "ledger"
    refused("no privacy ledger", PrivacyLedger.open, path, error=FileNotFoundError)
    refused("no privacy ledger", PrivacyLedger, path / "a", epsilon=1, error=FileNotFoundError)
    refused("path=.*is a folder. Give a", PrivacyLedger, tmp_path, epsilon=1, error=OSError)
    ledger = PrivacyLedger(path, epsilon=1)
    path.unlink()
    refused("no privacy ledger", ledger.charge, PureDP(0.1), error=FileNotFoundError)
    assert not path.exists()
    assert "FileNotFoundError" in repr(ledger)


def write_database(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize("content", [b"hello", b"a,b,c\n" * 2000, "other", "meta"])
def test_a_foreign_file_is_left_untouched(tmp_path, content):
    path = tmp_path / "file"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        write_database(path, f"CREATE TABLE {content} (a, b)", f"INSERT INTO {content} VALUES(1,2)")
    before = path.read_bytes()
    for attach in (PrivacyLedger.open, lambda p: PrivacyLedger(p, epsilon=1)):
        refused("not a privacy ledger", attach, path)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["file"])


def test_a_newer_file_is_refused(tmp_path):
    path = tmp_path / "ledger"
    ledger = PrivacyLedger(path, epsilon=1)
    write_database(path, "UPDATE meta SET version = 6", "ALTER TABLE meta ADD COLUMN more")
    for use in (lambda: PrivacyLedger.open(path), lambda: ledger.charge(PureDP(0.1))):
        refused(r"version 6.*Upgrade skdpsumm", use, error=LedgerDamagedError)


def test_a_locked_file_times_out(tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1)
    monkeypatch.setattr(_ledger, "_TIMEOUT", 0.05)
    other = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert ledger.spent.epsilon == 0
    refused("End the process that holds it", ledger.charge, PureDP(0.5), error=TimeoutError)
    other.close()
    assert ledger.charge(PureDP(0.5)) == 1


def test_a_charge_is_synchronous(tmp_path):
    # No test can cut the power, so this one reads the setting (3: EXTRA).
    with PrivacyLedger(tmp_path / "ledger", epsilon=1)._store._transaction("BEGIN") as (db, _):
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 3
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


# ------------------------------------------------------------------- clone, copy, pickle, workers


@pytest.mark.parametrize("place", ["memory", "file"])
def test_clone_keeps_identity(tmp_path, place):
    ledger = PrivacyLedger(None if place == "memory" else tmp_path / "ledger", epsilon=1)
    north = ledger.dataset("north", partition="region")
    assert clone(clone(Toy(ledger))).ledger is ledger
    assert clone(Toy(north)).ledger is north
    for estimator in (Toy(ledger), clone(Toy(north))):
        estimator.fit(np.zeros((4, 1)), [0, 1, 1, 1])
    assert [entry["dataset"] for entry in ledger.entries()] == ["default", "north"]


@pytest.mark.parametrize("copier", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
def test_a_ledger_in_a_file_is_copied_by_its_path(tmp_path, copier):
    how = {"adjacency": "replace_one", "accountant": "zcdp"}
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1, delta=DELTA, **how)
    ledger.dataset("north", partition="region")
    twin, north = copier(ledger), copier(ledger.dataset("north"))
    assert (twin.epsilon, twin.delta) == (1, DELTA)
    assert (twin.adjacency, twin.accountant, twin.path) == ("replace_one", "zcdp", ledger.path)
    twin.charge(PureDP(0.25))
    north.charge(PureDP(0.1))
    places = [(e["dataset"], e["partition"]) for e in ledger.entries()]
    assert places == [("default", None), ("north", "region")]
    state = pickle.dumps(ledger)
    os.remove(tmp_path / "ledger")
    refused("no privacy ledger", pickle.loads, state, error=FileNotFoundError)


X = np.zeros((12, 1))


@pytest.mark.parametrize(("accountant", "delta"), [("gdp", 1e-5), ("zcdp", 1e-5), ("pure", 0.0)])
def test_what_a_refusal_says_to_ask_for_fits(accountant, delta):
    ledger = PrivacyLedger(epsilon=2.0, delta=delta, accountant=accountant)
    sketcher = HistogramSketcher(n_bins=2, schema=(0, 1), delta=min(delta, 1e-6), ledger=ledger)
    sketcher.set_params(epsilon=1.3).fit(X)
    with pytest.raises(BudgetExceededError, match="epsilon and delta of the ledger's `remaining`"):
        sketcher.set_params(epsilon=2.0).fit(X)
    left = ledger.remaining
    sketcher.set_params(epsilon=left.epsilon, delta=left.delta).fit(X)
    assert len(ledger.entries()) == 2


def test_a_ledger_in_memory_out_of_a_pickle_refuses_whatever_is_asked():
    ledger = PrivacyLedger(epsilon=1)
    for sent in (ledger, ledger.dataset("north"), Toy(ledger).ledger):
        arrived = pickle.loads(pickle.dumps(sent))
        for ask in ("check", "charge"):
            with pytest.raises(RuntimeError, match=r"memory of another process.*Give the ledger a"):
                getattr(arrived, ask)(PureDP(0.1))
        assert "cannot be read" in repr(arrived)
    assert ledger.entries() == []


# -------------------------------------------------------------------- threads, processes, crashes


@pytest.mark.parametrize("place", ["memory", "file"])
def test_threads_share_a_cap(tmp_path, place):
    ledger = PrivacyLedger(None if place == "memory" else tmp_path / "ledger", epsilon=1)
    start = threading.Barrier(8)

    def work(thread):
        start.wait()
        return sum(try_to_charge(ledger, PureDP(0.02), label=str(thread)) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 50
    assert [entry["id"] for entry in ledger.entries()] == list(range(1, 51))


STEPS = [(Book, "append"), (_ledger, "_write"), (LedgerStore, "_keep")]


@pytest.mark.parametrize("name", [None, "ledger"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_an_interrupt_within_a_charge_leaves_a_true_ledger(
    tmp_path, monkeypatch, owner, step, name
):
    """Before the commit and after it, in a file and in memory."""
    ledger = PrivacyLedger(name and tmp_path / name, epsilon=1e6)
    for _ in range(2):
        ledger.charge(PureDP(1.0))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, interrupt)
        interrupted = name or step != "_write"  # memory is not written
        with pytest.raises(KeyboardInterrupt) if interrupted else contextlib.nullcontext():
            ledger.dataset("new").charge(PureDP(1.0))
    n_now = len(ledger.entries())
    assert n_now == 2 + (not interrupted)
    assert ledger.spent.epsilon == n_now
    assert ledger.dataset("new").charge(PureDP(1.0)) == n_now + 1
    assert len(ledger.entries()) == n_now + 1
