"""Every fit of the catalogue that protects groups: what it claims, what it refuses, and routing.

How far a group moves a release, and its noise, is in `test_kit`; how rows of a group are read and
bounded, in `test_groups`; what searches and summaries do with groups, in files of theirs. Learners
are at the end: a group that comes or goes has k rows at most, or rows whose shares sum to 1.
"""

from fractions import Fraction

import numpy as np
import pytest
from catalogue import INSTANCES, of, of_each_class, payer
from refusals import refused
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpsumm import PINPClassifier, PrivacyLedger, TDILClassifier
from skdpsumm.learners.erm._problem import equal_shares
from skdpsumm.learners.mechanisms._base import LearnerMechanism
from skdpsumm.model_selection import _private_search
from skdpsumm.schema._groups import Groups

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# Claims of these are about single rows, which their own tests see.
OF_ROWS = {"objective", "objective, numbers", "auction"}
NAMES = of("sketcher", "model", "learner", "search", "summarizer", "summarised")
NAMES = [name for name in NAMES if name not in OF_ROWS]
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
    refused("max_rows_per_group", model.fit, **with_groups(given))
    model, given = made(name, 2, ledger=ledger)
    refused(r"enable_metadata_routing|target_groups", model.fit, **given)
    for wrong in (GROUPS[:-1], [None, *GROUPS[1:]], np.column_stack([GROUPS, GROUPS])):
        caught = refused("groups", model.fit, **with_groups(given, wrong))
        assert "19" not in str(caught)  # the label of the last group
    for limit in (0, 1.5, "mean"):
        refused("max_rows_per_group", made(name, limit, ledger=ledger)[0].fit, **with_groups(given))
    if name != "pool":  # which charges nothing
        refused("unit", made(name, None, ledger=ledger)[0].fit, **given)
        refused("unit", made(name, 2, ledger=ledger_of("row"))[0].fit, **with_groups(given))
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")


@pytest.mark.parametrize("name", EACH_CLASS)
def test_groups_are_routed_unasked(name):
    model, given = made(name, 2)
    pipe = make_pipeline(FunctionTransformer(), model)
    with config_context(enable_metadata_routing=True):
        pipe.fit(**with_groups(given))
        assert claims_of(pipe[-1].privacy_)[0].unit == "one group"
        refused(r"got none|target_groups", pipe.fit, **given)


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


# ------------------------------------------------------------------------------- learners


def test_shares_sum_to_no_more_than_1():
    sizes = np.arange(1, 3000)
    shares = equal_shares(sizes)
    assert shares.shape == (len(sizes), 1)
    for m, share in zip(sizes.tolist(), shares[:, 0].tolist(), strict=True):
        assert 1 - Fraction(1, 2**51) < m * Fraction(share) <= 1
        assert share == 1 or share <= 0.5  # so that multiplying loses nothing: `_newton`
    assert equal_shares(np.array([2**24]))[0, 0] == 2.0**-24


@pytest.mark.parametrize("kind", [TDILClassifier, PINPClassifier])
def test_average_is_a_weighted_fit(kind):
    """scikit-learn's, whose rows have weights of 1 / m."""
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-0.5, 0.5, (300, 3)), rng.integers(2, size=300)
    groups = rng.integers(60, size=300) ** 2 // 60
    model = kind(kernel="linear", loss="logistic", epsilon=np.inf, regularization=2.0)
    scores = model.set_params(max_rows_per_group="average").fit(X, y, groups=groups)
    reference = LogisticRegression(C=1 / 2.0, fit_intercept=False, tol=1e-12, max_iter=1000)
    reference.fit(X, y, sample_weight=1 / np.bincount(groups)[groups])
    found, expected = scores.decision_function(X), reference.decision_function(X)
    assert np.abs(found - expected).max() <= model.sensitivity_ * 1e-3


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_default_lambda_grows_with_k(adjacency):
    found = {}
    for limit in (None, 1, 5, "average"):
        weights = {"mechanism": "functional", "adjacency": adjacency}
        model = TDILClassifier(max_rows_per_group=limit, **weights)
        model.fit(X, LABELS, groups=None if limit is None else GROUPS)
        found[limit] = model.regularization_, model.sensitivity_
    assert found[None] == found[1] == found["average"]
    assert found[5][0] == pytest.approx(5 * found[1][0])
    assert found[5][1] == pytest.approx(found[1][1], rel=3e-3)


class ForRows(LearnerMechanism):
    """One that nobody has proved for groups."""

    learners = ("TDIL",)

    def plan(self, space, terms, public):
        raise AssertionError("asked for a plan")

    def default_regularization(self, space, terms, public, *, charged):
        return 1.0


ForRows.name = "for rows alone"  # set here, it is not known by that name in other tests


@pytest.mark.parametrize("limit", [3, "average"])
@pytest.mark.parametrize("mechanism", ["objective", ForRows()], ids=["objective", "for rows"])
def test_mechanisms_for_rows_alone_are_refused_before_the_charge(mechanism, limit):
    ledger = PrivacyLedger(epsilon=10, delta=1e-4, unit="group")
    model = TDILClassifier(mechanism=mechanism, max_rows_per_group=limit, ledger=ledger)
    for call in (lambda: model.fit(X, LABELS, groups=GROUPS), model.check_budget):
        refused(r"single rows.*'exponential'.*'functional'", call)
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")
