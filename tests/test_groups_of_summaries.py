"""Summaries that protect groups: whose rows count, what owners hear, claims and refusals.

What is so of all fits is in `test_groups_of_fits`; how far a group of the target moves a release,
and that its coins hang on no other, in `test_kit`.
"""

from functools import partial

import curators
import numpy as np
import pandas as pd
import pytest
from curators import points, summarizer_of
from paper_protocols import AskAll
from refusals import refused
from sklearn.metrics.pairwise import rbf_kernel

from skdpsumm import PrivacyLedger, summaries
from skdpsumm.privacy import PureDP
from skdpsumm.summaries import DataOwner
from skdpsumm.summaries._parties import run_protocol
from skdpsumm.summaries._protocol import ProposeRows, Protocol

pytestmark = pytest.mark.simulated(0)
curator_of = partial(curators.curator_of, gamma=1.0)


# --------------------------------------------------------------------- how far owners' rows move it


X, OWNERS, LABELS = points(600), np.arange(600) % 3, (np.arange(600) // 3) % 30
TARGET, TARGET_LABELS = points(200, 1.0, seed=1), np.arange(200) % 20
GROUPED = {"owners": OWNERS, "X_target": TARGET, "groups": LABELS, "target_groups": TARGET_LABELS}


def summarizer(**options):
    given = {"n_select": 40, "gamma": 0.5, "n_components": 64, "random_state": 0, **options}
    return summarizer_of(**{"max_rows_per_group": 2, **given})


@pytest.mark.parametrize("protocol", ["propose", "pool"])
def test_no_group_of_an_owner_offers_more_than_k_rows(protocol, monkeypatch):
    pools, best = [], summaries.Curator.best_of_pool
    monkeypatch.setattr(
        summaries.Curator, "best_of_pool", lambda own: pools.append(own.pool) or best(own)
    )
    fitted = summarizer(protocol=protocol, epsilon=50.0).fit(X, **GROUPED)
    (pool,) = pools
    whose = [(owner, LABELS[owner == OWNERS][index]) for owner, index in pool.origins]
    assert (pd.Series(whose).value_counts().max(), len(fitted.sample_indices_)) == (2, 40)


@pytest.mark.parametrize("bound", [1, 4])
def test_coins_of_an_owners_other_groups_stay_when_one_goes(bound):
    owner = DataOwner(X, groups=LABELS, max_rows_per_group=bound, seed=3)
    rest = np.flatnonzero(LABELS != 7)
    without = DataOwner(X[rest], groups=LABELS[rest], max_rows_per_group=bound, seed=3)
    kept = np.flatnonzero(owner._remaining)
    assert rest[without._remaining].tolist() == kept[LABELS[kept] != 7].tolist()
    assert np.bincount(LABELS[kept]).tolist() == [bound] * 30


def test_an_owner_answers_no_curator_with_another_bound():
    message = ProposeRows(n_herd=0, n_uniform=3, max_rows_per_group=2)
    for bound in ({}, {"groups": [0] * 5, "max_rows_per_group": 3}):
        with pytest.raises(ValueError, match="the same for the curator and this owner"):
            DataOwner(points(5), **bound).answer(message)
    bounded = DataOwner(points(5), groups=[0] * 5, max_rows_per_group=2)
    assert len(bounded.answer(message).X) == 2
    curator = curator_of(points(50), ["rows", "groups"], n_components=8, n_select=5)
    parties = {"rows": DataOwner(points(50)), "groups": bounded}
    run_protocol(curator, parties)
    assert curator.dropped_owners == {"groups": "raised ValueError"}


# --------------------------------------------------------------------------- claims and refusals


def test_one_groups_serves_where_X_is_the_target():
    for target in ({"X_target": None}, {"X_target": X}):
        model = summarizer(target_is_owners=True, max_rows_per_group=3, epsilon=2.0)
        privacy = model.fit(X, owners=OWNERS, groups=LABELS, **target).privacy_
        assert privacy.owners.mechanism == privacy.target.mechanism != PureDP(0.0)
        assert "rows of two owners" in privacy.owners.given
        assert "rows of two owners" in privacy.target.given


class Whisper(Protocol):
    """Tells owners something of rows received that was calibrated to single rows."""

    def plan(self, embedding, terms):
        return AskAll(3).plan(embedding, terms)

    def converse(self, curator, plan):
        yield {}
        return curator.best_of_pool()


NO_GROUPS, NO_BOUND = {"groups": None, "target_groups": None}, {"max_rows_per_group": None}
WRONG = {
    "without": (NO_BOUND, {"groups": None}, "got target_groups, but max_rows_per_group=None"),
    "no groups": ({}, {"groups": None}, "enable_metadata_routing=True"),
    "no target_groups": ({}, {"target_groups": None}, "Pass target_groups"),
    "both of one": ({}, {"X_target": X}, "leave target_groups out"),
    "no target": ({"target_is_owners": True}, {"X_target": None, **NO_GROUPS}, "groups"),
    "auction": ({"protocol": "auction"}, {}, "take protocol='propose' or 'pool'"),
    "own protocol": ({"protocol": Whisper()}, {}, "Whisper has no proof for groups"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_cost_nothing(mistake):
    params, data, words = WRONG[mistake]
    unit = "group" if params.get("max_rows_per_group", 2) else "row"
    ledger = PrivacyLedger(epsilon=np.inf, delta=0.1, unit=unit)
    model = summarizer(**{**params, "ledger": ledger})
    caught = refused(words, model.fit, X, **{**GROUPED, **data})
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")
    for private in ("599", "600", "199", "200"):
        assert private not in str(caught)


def test_curator_and_owners_refuse_the_one_without_the_other():
    for one in ({"max_rows_per_group": 2}, {"target_groups": TARGET_LABELS}):
        refused("target_groups", curator_of, TARGET, ["a"], **one)
    for one in ({"max_rows_per_group": 2}, {"groups": LABELS}):
        refused("DataOwner", DataOwner, X, **one)
    refused("max_rows_per_group", DataOwner, X, groups=LABELS, max_rows_per_group=-1)


def test_partitions_of_dask_are_refused():
    da = pytest.importorskip("dask.array")
    ledger = PrivacyLedger(epsilon=9, delta=1e-3, unit="group")
    given = {"X_target": TARGET, "target_groups": TARGET_LABELS, "groups": LABELS}
    with pytest.raises(ValueError, match=r"Call X\.compute"):
        summarizer(ledger=ledger).fit(da.from_array(X, chunks=(200, 2)), **given)
    assert ledger.entries() == []


# ------------------------------------------------------------------------------- what it does


def test_average_chooses_for_persons_and_not_for_rows():
    """One person has most rows of the target; the other hundred are elsewhere."""
    target = np.vstack([points(900, 5.0, seed=2), points(100, seed=3)])
    persons = np.append(np.zeros(900, int), np.arange(1, 101))
    owners = np.vstack([points(400, 5.0, seed=4), points(400, seed=5)])
    model = summarizer(epsilon=np.inf, max_rows_per_group="average")
    model.fit(owners, X_target=target, groups=np.arange(800), target_groups=persons)
    assert np.mean(model.sample_indices_ >= 400) > 0.9
    # What owners add sums to J, with the same weights.
    chosen, weights = owners[model.sample_indices_], np.append(np.full(900, 1 / 900), np.ones(100))
    across = rbf_kernel(chosen, target, gamma=0.5) @ weights / 101
    objective = 2 * across.mean() - rbf_kernel(chosen, gamma=0.5).mean()
    assert sum(model.owner_values_.values()) == pytest.approx(objective, abs=1e-9)
