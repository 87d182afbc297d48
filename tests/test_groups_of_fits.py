"""Every fit of the catalogue that protects groups: what it claims, what it refuses, and routing.

How far a group moves a release, and its noise, is in `test_kit`; how rows of a group are read and
bounded, in `test_groups`; what learners, searches and summaries do with groups, in files of theirs.
"""

import numpy as np
import pytest
from catalogue import INSTANCES, of, of_each_class, payer
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpsumm import PrivacyLedger
from skdpsumm.model_selection import _private_search
from skdpsumm.schema._groups import Groups

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
]

# Claims of these are about single rows, which their own tests see.
OF_ROWS = {"objective", "objective, numbers", "auction"}
NAMES = [
    name
    for name in of("sketcher", "model", "learner", "search", "summarizer", "summarised")
    if name not in OF_ROWS
]
# Refusals and routing hang on no mechanism.
EACH_CLASS = of_each_class({name: INSTANCES[name] for name in NAMES})
RNG = np.random.default_rng(0)
N = 60
X, LABELS, NUMBERS = RNG.uniform(-1, 1, (N, 2)), np.arange(N) % 2, RNG.uniform(-1, 1, N)
GROUPS = np.arange(N) // 3


def made(name, limit, **parameters):
    """Return an instance of groups, and the arguments of its fit without them."""
    one = INSTANCES[name]
    model = one.make(**parameters)
    payer(model).set_params(max_rows_per_group=limit)
    given = {"X": X, **{None: {}, "labels": {"y": LABELS}, "numbers": {"y": NUMBERS}}[one.y]}
    if one.kind in ("summarizer", "summarised"):
        given |= {"X_target": X[:30] / 2, "owners": np.arange(N) % 3}
    return model, given


def with_groups(given, groups=GROUPS):
    """Return the arguments of a fit with groups."""
    target = {"target_groups": GROUPS[:30]} if "X_target" in given else {}
    return {**given, "groups": groups, **target}


def ledger_of(unit):
    """Return a ledger that takes claims of all mechanisms."""
    return PrivacyLedger(epsilon=99, delta=1e-3, unit=unit, accountant="zcdp")


def claims_of(privacy):
    """Return the claims about private rows, of one release or of two."""
    return [privacy.target, privacy.owners] if hasattr(privacy, "target") else [privacy]


@pytest.mark.parametrize("limit", [2, "average"])
@pytest.mark.parametrize("name", NAMES)
def test_claims_are_about_groups(name, limit):
    ledger = ledger_of("group")
    if name.startswith("threshold"):  # for whose cost no ledger knows a sum
        model, given = made(name, limit)
    else:
        model, given = made(name, limit, ledger=ledger)
    model.fit(**with_groups(given))
    for claim in claims_of(model.privacy_):
        assert claim.unit == "one group"
        assert "number of rows" not in claim.given
    assert f"max_rows_per_group={limit!r}" in claims_of(model.privacy_)[0].given
    assert len(ledger.entries()) == (name.split(",")[0] not in ("pool", "threshold"))


@pytest.mark.parametrize("name", EACH_CLASS)
def test_a_claim_about_groups_is_never_silently_one_about_rows(name):
    ledger = ledger_of("group")
    model, given = made(name, None, ledger=ledger)
    with pytest.raises(ValueError, match="max_rows_per_group"):
        model.fit(**with_groups(given))
    model, given = made(name, 2, ledger=ledger)
    with pytest.raises(ValueError, match=r"enable_metadata_routing|target_groups"):
        model.fit(**given)
    for wrong in (GROUPS[:-1], [None, *GROUPS[1:]], np.column_stack([GROUPS, GROUPS])):
        with pytest.raises(ValueError, match="groups") as caught:
            model.fit(**with_groups(given, wrong))
        assert "19" not in str(caught.value)  # the label of the last group
    for limit in (0, 1.5, "mean"):
        with pytest.raises(ValueError, match="max_rows_per_group"):
            made(name, limit, ledger=ledger)[0].fit(**with_groups(given))
    if name != "pool":  # which charges nothing
        with pytest.raises(ValueError, match="unit"):
            made(name, None, ledger=ledger)[0].fit(**given)
        with pytest.raises(ValueError, match="unit"):
            made(name, 2, ledger=ledger_of("row"))[0].fit(**with_groups(given))
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize("name", EACH_CLASS)
def test_groups_are_routed_unasked(name):
    model, given = made(name, 2)
    pipe = make_pipeline(FunctionTransformer(), model)
    with config_context(enable_metadata_routing=True):
        pipe.fit(**with_groups(given))
        assert claims_of(pipe[-1].privacy_)[0].unit == "one group"
        with pytest.raises(ValueError, match=r"got none|target_groups"):
            pipe.fit(**given)


@pytest.mark.parametrize("name", EACH_CLASS)
def test_coins_are_secret_and_fresh(name, monkeypatch):
    """No two fits have a key in common, nor a key that anybody knows."""
    keys, kept, held_out = [], Groups.kept, _private_search.groups_held_out

    def record(coins):
        return lambda *given: keys[-1].add(given[-1]) or coins(*given)

    monkeypatch.setattr(Groups, "kept", record(kept))
    monkeypatch.setattr(_private_search, "groups_held_out", record(held_out))
    for _ in range(2):
        keys.append(set())
        model, given = made(name, 1)
        model.fit(**with_groups(given))
    assert all(keys)
    assert not keys[0] & keys[1]
