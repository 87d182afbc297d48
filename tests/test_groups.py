"""Groups of rows as the unit of protection: labels, coins, means, partitions, and ledgers.

How far a group moves a release, and its noise, is in `test_kit`; what all fits claim and refuse, in
`test_groups_of_fits`.
"""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from simulated import simulate
from sklearn.base import clone

from skdpsumm import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion
from skdpsumm.features._feature_maps import GRID
from skdpsumm.privacy import BudgetExceededError, PrivacyGuarantee, PrivacyLedger, PureDP
from skdpsumm.privacy._fit import PrivateFit
from skdpsumm.privacy._noise import current_seed
from skdpsumm.schema._groups import Groups
from skdpsumm.schema._schema import as_schema

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

da = pytest.importorskip("dask.array")

KEY = bytes(range(32))
LIMITS = [1, 3, "average"]
_PARTS = [HistogramSketcher(n_bins=3), RFFSketcher(n_components=4)]
SKETCHERS = {
    "rff": RFFSketcher(n_components=10, gamma=2.0, random_state=0),
    "race": RACESketcher(n_repetitions=3, n_buckets=4, bandwidth=0.5, random_state=0),
    "histogram": HistogramSketcher(schema=(0, 1), n_bins=4, marginals=2, random_state=0),
    "budget": HistogramSketcher(schema=(0, 1), n_bins=3, denominator="budget", delta=0.0),
    "union": SketchUnion(_PARTS, schema=(0, 1), weights=[1, 3], random_state=0),
}


@pytest.fixture(autouse=True)
def _dask_in_this_process():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def same_coins(monkeypatch):
    """Every fit has the same secret key."""
    monkeypatch.setattr(PrivateFit, "_group_key", lambda *_: KEY)


def sketcher_of(name, limit, **params):
    return clone(SKETCHERS[name]).set_params(max_rows_per_group=limit, **params)


def table(n_rows=120, n_groups=25, seed=0):
    rng = np.random.default_rng(seed)
    # Groups of very different sizes, in no order.
    return rng.random((n_rows, 2)), rng.zipf(1.6, n_rows) % n_groups


def exact(sketcher, X, groups):
    """Return what a fit would add noise to: sums in grid units, and the number that is counted."""
    copy = clone(sketcher)
    rows = copy._rows(X, groups, as_schema(copy.schema), current_seed())
    return rows(copy._draft(current_seed()).feature_map)


def in_partitions(X, groups, n_partitions=4):
    rows = tuple(len(part) for part in np.array_split(np.arange(len(X)), n_partitions))
    return da.from_array(X, chunks=(rows, (X.shape[1],))), da.from_array(groups, chunks=(rows,))


class TestLabels:
    @pytest.mark.parametrize(
        "cell", [None, np.nan, pd.NA, pd.NaT, Decimal("nan"), np.float32("nan")]
    )
    def test_a_missing_label_is_refused(self, cell):
        refused("contains NaN", Groups.read, [1, cell, 2])
        refused("contains NaN", Groups.read, pd.Series(["a", cell, "b"], dtype=object))


class TestCoins:
    def test_each_group_keeps_at_most_k_whatever_the_others(self):
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 40, 400)
        kept = Groups.read(labels).kept(4, KEY)
        assert (np.bincount(labels[kept]).max(), set(labels[kept])) == (4, set(labels))
        for one in range(40):
            others = np.flatnonzero(labels != one)
            again = others[Groups.read(labels[others]).kept(4, KEY)]
            assert again.tolist() == [row for row in kept if labels[row] != one]

    def test_no_place_is_favoured(self):
        alike = Groups.read(["a"] * 20)
        rows = np.concatenate([alike.kept(5, i.to_bytes(32, "big")) for i in range(4000)])
        # Each row stays a quarter of the time; 20 binomials within 5 standard deviations.
        assert np.all(abs(np.bincount(rows, minlength=20) - 1000) < 5 * np.sqrt(750))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("ab", "not a name"),
        ([1, b"a", "b"], "neither words nor numbers"),
        ([1e17], "rounded"),
        (np.array([2.0**24], np.float32), "rounded"),
        ([np.inf], "infinity"),
    ],
)
def test_what_is_no_label_is_refused_without_a_value(labels, words):
    caught = refused(words, Groups.read, labels)
    assert caught.__context__ is None


class TestSensitivity:
    """Exact: sums of two neighbouring tables, before noise, lie as far apart as noise allows."""

    @pytest.mark.parametrize("name", SKETCHERS)
    def test_means_of_a_group_are_apportioned(self, name):
        sketcher = sketcher_of(name, "average")
        X, groups = table()
        sums, n_groups = exact(sketcher, X, groups)
        assert n_groups == len(np.unique(groups))
        for place in sketcher.preview_map(2).row_groups():
            assert sums[place].sum() == n_groups * GRID
        phi = sketcher.fit(X, groups=groups).feature_map_.matrix(X)
        phi = phi.toarray() if hasattr(phi, "toarray") else phi
        means = pd.DataFrame(phi).groupby(groups).mean().to_numpy().sum(axis=0)
        assert np.abs(sums / GRID - means).max() <= n_groups * 1.6 / GRID
        silent, _ = exact(sketcher.set_params(epsilon=np.inf), X, groups)
        assert silent / GRID == pytest.approx(means, abs=1e-9)


class TestDask:
    @pytest.mark.parametrize("name", SKETCHERS)
    @pytest.mark.parametrize("limit", LIMITS)
    def test_sums_are_those_in_memory(self, same_coins, name, limit):
        sketcher = sketcher_of(name, limit)
        X, groups = table()
        sums, n_units = exact(sketcher, X, groups)
        for n_partitions in (1, 3, 20):
            found = exact(sketcher, *in_partitions(X, groups, n_partitions))
            assert np.array_equal(found[0], sums)
            assert found[1] == n_units

    def test_faults_cost_nothing(self):
        X, groups = table()
        ledger = PrivacyLedger(epsilon=2, delta=1e-5, unit="group")
        sketcher = sketcher_of("histogram", 2, ledger=ledger)
        parts, labels = in_partitions(X, groups)
        missing = da.from_array(np.where(groups == 3, np.nan, groups), chunks=labels.chunks)
        longer = da.from_array(np.append(groups, 0), chunks=((*labels.chunks[0][:-1], 31),))
        for bad, words in [
            (groups, "same partitions"),
            (labels.rechunk(-1), "same partitions"),
            (labels[:, None], "same partitions"),
            (longer, "different numbers of rows"),
            (missing, "contains NaN"),
        ]:
            refused(words, sketcher.fit, parts, groups=bad)
        refused("X is not", sketcher.fit, X, groups=labels)
        assert ledger.entries() == []


class TestClaims:
    def test_sketches_of_other_units_cannot_be_added(self):
        X, groups = table()
        rows = sketcher_of("rff", None).fit(X).sketch_
        persons = sketcher_of("rff", 3).fit(X, groups=groups).sketch_
        with pytest.raises(ValueError, match="unit"):
            rows + persons
        others = simulate(sketcher_of("rff", 3), X, groups=groups, seed=7).sketch_
        assert (persons + others).privacy.unit == "one group"

    def test_the_number_of_rows_is_that_of_those_kept(self):
        X, groups = table(2000, 50)
        kept = sum(min(4, n) for n in np.unique(groups, return_counts=True)[1])
        for denominator in ("auto", "budget"):
            sketcher = sketcher_of("histogram", 4, epsilon=50.0, denominator=denominator)
            sketch = sketcher.fit(X, groups=groups).sketch_
            assert abs(sketch.n_released - kept) < 8 * sketch.n_noise_std
            row = sketcher.set_params(max_rows_per_group=None).fit(X).sketch_
            assert sketch.n_noise_std == pytest.approx(4 * row.n_noise_std, rel=1e-6)

    def test_what_cannot_protect_groups_is_refused(self):
        """A number of rows that is private, and parts of a union."""
        X, groups = table()
        ledger = PrivacyLedger(epsilon=2, delta=1e-5, unit="group", adjacency="replace_one")
        sketcher = sketcher_of("rff", 3, adjacency="replace_one", ledger=ledger)
        for use in (sketcher.check_budget, lambda: sketcher.fit(X, groups=groups)):
            refused("number of rows, which is private", use)
        with pytest.raises(ValueError, match="give it to the SketchUnion"):
            SketchUnion([RFFSketcher(n_components=4, max_rows_per_group=2)], schema=(0, 1)).fit(X)
        assert ledger.entries() == []
        sketcher.set_params(max_rows_per_group="average").fit(X, groups=groups)
        assert len(ledger.entries()) == 1


class TestLedgers:
    def test_the_other_unit_is_refused_both_ways(self):
        """By all uses of a ledger; by fits, in `test_groups_of_fits`."""
        of_rows = PrivacyLedger(epsilon=5, delta=1e-5)
        of_groups = PrivacyLedger(epsilon=5, delta=1e-5, unit="group")
        claim = sketcher_of("rff", 2).fit(*table()[:1], groups=table()[1]).privacy_
        for use in (of_rows.check, of_rows.price, of_rows.charge):
            refused("Nothing was charged", use, claim)
            refused("Nothing was charged", use, PrivacyGuarantee(PureDP(0.1), unit="one group"))
        assert of_rows.entries() == []
        of_groups.dataset("d").charge(claim)
        refused("max_rows_per_group", of_groups.dataset("d").charge, PureDP(0.1))
        with pytest.raises(BudgetExceededError):
            of_groups.check(PrivacyGuarantee(PureDP(9.0), unit="one group"))
        refused("'unit' parameter", PrivacyLedger, epsilon=1, unit="person")
