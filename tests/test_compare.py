"""A release beside the truth: what it costs, what it tells, and how well."""

import functools
import inspect
import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from kit import ARMS, has_std, part_used, replayed
from sklearn.metrics import roc_auc_score

from skdpsumm.audit import _compare, compare
from skdpsumm.audit._compare import _Comparer
from skdpsumm.moments import M2MEstimator
from skdpsumm.privacy import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger
from skdpsumm.schema import Numeric, TableSchema
from skdpsumm.sketches import HistogramSketcher

UNITS = list(itertools.product(["add_remove", "replace_one"], [None, 1, 3]))
COLUMNS = [Numeric(0, 10, step=1), Numeric(-1, 1, missing=True), ["a", "b"], [0, 1]]


def rows(n, seed=0):
    """Return rows of `COLUMNS` as the release knows them."""
    rng = np.random.default_rng(seed)
    table = np.empty((n, 4), object)
    table[:, 0] = rng.binomial(10, 0.4, n)
    table[:, 1] = np.where(rng.random(n) < 0.1, np.nan, rng.uniform(-1, 1, n))
    table[:, 2] = np.where(rng.random(n) < 0.3, "a", "b")
    table[:, 3] = (table[:, 0].astype(float) + rng.normal(0, 2, n) > 4).astype(int)
    return table


LOW, HIGH = [0, -1.0, "a", 0], [10, 1.0, "b", 1]
SKETCHED = rows(600)
SKETCHED[:90] = LOW


@functools.cache
def released(k=None):
    given = {"schema": COLUMNS, "marginals": 2, "epsilon": 40.0, "max_rows_per_group": k}
    sketcher = HistogramSketcher(**given, random_state=0)
    groups = None if k is None else np.arange(len(SKETCHED))
    return M2MEstimator(release=sketcher, random_state=0).fit(SKETCHED, groups=groups)


class FirstColumn:
    """A public model, the score of which is a column."""

    classes_ = np.array([0, 1])

    def _encoded(self, inputs):
        return inputs[:, :1].astype(float)

    def decision_function(self, X):
        return X.values[:, 0]


@pytest.fixture
def release(monkeypatch):
    """Return a release, of which a model is soon trained."""
    monkeypatch.setattr(_compare, "_model_of", lambda *_: FirstColumn())
    return released()


def made(release, adjacency="add_remove", k=None, **given):
    given = {"epsilon": 0.7, "target": 3, **given}
    release = release if k is None else released(k)
    return {"release": release, "adjacency": adjacency, "max_rows_per_group": k, **given}


def comparer_of(given):
    """Return what `compare` makes of its arguments."""
    known = {name: one.default for name, one in inspect.signature(compare).parameters.items()}
    return _Comparer(**{name: known[name] for name in ("bins", "delta", "ledger")} | given)


def publish(given, data):
    found = compare(data["X"], groups=data.get("groups"), **given)
    return found, {"entries": found.entries}


def neighbours(adjacency, k):
    """Return tables as far apart as any: those cells alone are too full that `HIGH` is in.

    A group has more rows than may count, all in one cell.
    """
    base = np.vstack([rows(40, 1), np.array([HIGH] * 600, object)])
    size = 1 if k is None else 2 * k
    old, new = (np.array([one] * size, object) for one in (LOW, HIGH))
    tables = [base, np.vstack([base, new])]
    if adjacency == "replace_one":
        tables = [np.vstack([base, old]), np.vstack([base, new])]
    if k is None:
        return [{"X": X} for X in tables]
    return [{"X": X, "groups": [*range(640), *[-1] * (len(X) - 640)]} for X in tables]


@pytest.mark.parametrize(("adjacency", "k"), UNITS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("factor", "accepted"), ARMS)
def test_neighbours_cost_what_is_claimed(release, adjacency, k, delta, factor, accepted):
    given = made(release, adjacency, k, delta=delta)
    used = part_used(given, *neighbours(adjacency, k), publish=publish, factor=factor)
    assert (1 - 1e-6 < used <= 1) == accepted


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_nothing_but_noisy_sums_is_told(release, delta):
    """Any two tables, with the same draws: no exact count divides an AUC, and no row a mean."""
    other = rows(30, 9)
    other[:, 3] = 0
    replayed(made(release, delta=delta), {"X": rows(700, 8)}, {"X": other}, publish=publish)


def drafted(release, X, **given):
    """Return what a comparison is made by, and its exact sums."""
    comparer = comparer_of(made(release, **given))
    comparer._check_parameters()
    return comparer, comparer._draft(None, X)


def entries(comparer, draft):
    comparer._publish(draft)
    return np.array([entry[2:] for entry in comparer.comparison_.entries]).T


@pytest.mark.parametrize(("delta", "kurtosis"), [(0.0, 6.0), (1e-6, 3.0)])
def test_errors_are_those_of_the_noise(release, delta, kurtosis):
    table = rows(900, 3)
    exact, no_error = entries(*drafted(release, table, epsilon=np.inf))
    assert not no_error.any()
    comparer, draft = drafted(release, table, delta=delta, epsilon=3.0)
    found = []
    for seed in range(1500):
        values, std = entries(comparer, replace(draft, noise_seed=seed))
        found.append((values - exact) / std)
    kept = exact < 0.97  # a score above 1 is told as 1
    for z in np.array(found).T[kept]:
        assert has_std(z, 1.0, kurtosis)
    assert not has_std(np.array(found)[:, kept], 0.7, kurtosis)
    assert not has_std(np.array(found)[:, kept], 1.3, kurtosis)


@pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
def test_scores_are_those_that_people_know(release):
    table = rows(450, 5)
    found = compare(table, release, epsilon=np.inf, target=3).to_frame()
    scores = found.set_index(["score", "columns"])["value"]
    shares = np.asarray(release.histogram(2))
    # n is the release's: it counts 600 rows, and the table has 450.
    expected = np.abs(shares * 600 - [np.sum(table[:, 2] == c) for c in "ab"]).sum() / 1200
    assert scores["TVComplement", "x2"] == pytest.approx(1 - expected, abs=5e-3)
    same = compare(SKETCHED, release, epsilon=np.inf, target=3).to_frame()
    assert same["value"][:2].min() > 0.95
    means = same.set_index(["score", "columns"])["value"]["MeanDifference"]
    assert means["x0"] == pytest.approx(float(release.mean(0)) - SKETCHED[:, 0].mean(), abs=0.02)
    auc = roc_auc_score(table[:, 3].astype(int), table[:, 0].astype(float))
    assert scores["AUC", "x3"] == pytest.approx(auc, abs=0.005)


def test_a_model_is_trained_from_the_release_of_a_frame():
    schema = TableSchema(dict(zip("nmcy", COLUMNS, strict=True)))
    frame = pd.DataFrame(dict(zip("nmcy", rows(600).T, strict=True))).assign(extra=0)
    sketcher = HistogramSketcher(schema=schema, marginals=2, epsilon=40.0, random_state=0)
    sketch = sketcher.fit(frame[list("nmcy")]).sketch_
    found = compare(frame, sketch, epsilon=60.0, target="y")
    truth = roc_auc_score(frame["y"].astype(int), frame["n"].astype(float))
    score, column, value, _ = found.entries[-1]
    assert (score, column) == ("AUC", "y")
    assert value == pytest.approx(truth, abs=0.03)
    assert "ContingencySimilarity, all" in repr(found)
    assert "<td>n, m</td>" in found._repr_html_()


@pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
def test_no_row_moves_the_score_of_another(release, monkeypatch):
    """Whatever a model does with the rows that come together, each is scored by itself."""

    class Company(FirstColumn):
        def decision_function(self, X):
            return super().decision_function(X) + 1e3 * (len(X.values) % 2)

    monkeypatch.setattr(_compare, "_model_of", lambda *_: Company())
    comparer = comparer_of(made(release))
    comparer._check_parameters()
    alone = [comparer._draft(None, rows(4)[i : i + 1]).blocks["AUC"].values for i in range(4)]
    together = comparer._draft(None, rows(4)).blocks["AUC"].values
    assert together.sum() == 4
    assert np.array_equal(sum(alone), together)


def test_one_charge_and_none_for_bad_input(release):
    ledger, table = PrivacyLedger(epsilon=1.0, delta=1e-5), rows(200)
    unlisted = table.copy()
    unlisted[0, 2] = "c"
    for bad, X in [
        ({"bins": 0}, table),
        ({"target": 0}, table),
        ({"target": "y"}, table),
        ({"release": table}, table),
        ({"release": release.where(lambda rows: rows[:, 0] > 3)}, table),
        ({"k": 2}, table),
        ({"epsilon": -1.0}, table),
        ({}, table[:, :3]),
        ({}, unlisted),
    ]:
        with pytest.raises((ValueError, TypeError)):
            compare(X, **made(**{"release": release, "ledger": ledger, **bad}))
    with pytest.raises(BudgetExceededError):
        compare(table, **made(release, ledger=ledger, epsilon=5.0))
    assert ledger.entries() == []
    found = compare(table, **made(release, ledger=ledger))
    assert len(ledger.entries()) == 1
    assert ledger.spent.epsilon <= 0.7
    assert found.privacy_.epsilon(1e-6) <= 0.7
    with pytest.raises(TypeError, match="epsilon"):
        compare(table, release)
    told = pytest.raises(PrivacyLeakWarning, match="public table")
    with warnings.catch_warnings(action="error"), told:
        compare("no table", release, epsilon=np.inf)


@pytest.mark.parametrize(("of_release", "given", "needed"), [(None, 3, "None"), (3, None, "3")])
def test_rows_that_the_release_did_not_count_are_refused(of_release, given, needed):
    """A perfect release would have the score of one that is far off."""
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5, unit="row" if given is None else "group")
    groups = None if given is None else range(600)
    with pytest.raises(ValueError, match=f"set max_rows_per_group={needed}, as it has"):
        compare(
            *(SKETCHED, released(of_release)),
            **{"epsilon": 1.0, "max_rows_per_group": given, "groups": groups, "ledger": ledger},
        )
    assert not ledger.entries()


def test_sums_beyond_64_bits_are_cut_and_raise_nothing(release, monkeypatch):
    """An error would tell the exact number of rows, for nothing."""
    monkeypatch.setattr(_compare, "MOST_LIFTED", 2**47)
    _, draft = drafted(release, np.tile(SKETCHED, (10, 1)))
    most = 2**47 >> draft.noise.lift
    assert max(np.abs(block.values).max() for block in draft.blocks.values()) == most
