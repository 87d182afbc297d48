"""The private search protects groups: secret coins, candidates that fail, and refusals.

What a run costs, and that no part cuts a group, is in `test_kit`.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from simulated import simulate
from stub_learners import Stub

from skdpsumm import M2MClassifier, PrivacyLedger, PrivateSearchCV, RFFSketcher, TDILClassifier
from skdpsumm.model_selection import _private_search
from skdpsumm.model_selection._candidate import Table, groups_held_out
from skdpsumm.schema._groups import Groups

pytestmark = pytest.mark.simulated(0)
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 100, 600)
X = np.column_stack([RNG.uniform(-1, 1, 600), np.arange(600) / 600])  # the second names the row
Y = (X[:, 0] > 0).astype(int)


class Spy(Stub):
    """A learner of groups that says the same of every row, or fails on many rows."""

    def __init__(
        self,
        label=1,
        epsilon=1.0,
        delta=0.0,
        adjacency="add_remove",
        max_rows_per_group=None,
        ledger=None,
        classes=None,
        unit=None,
    ):
        super().__init__(epsilon, delta, adjacency, ledger)
        self.label = label
        self.max_rows_per_group = max_rows_per_group
        self.classes = classes
        self.unit = unit

    def fit(self, X, y, *, groups=None):
        self.n_ = len(X)
        if self.label == "fails" and len(X) > 30:
            raise RuntimeError("too many rows")
        super().fit(X, y)
        unit = "one row" if groups is None else "one group"
        self.privacy_ = replace(self.privacy_, unit=self.unit or unit)
        return self

    def predict(self, X):
        return np.full(len(X), 1 if self.label == "fails" else self.label)


def search(estimator=None, choices=None, **params):
    given = {"expected_trials": 3, "random_state": 0, "delta": 0.0}
    params = {**given, "max_rows_per_group": 2, "epsilon": 2.0, **params}
    return PrivateSearchCV(estimator or Spy(), choices or {}, **params)


@pytest.fixture
def tables(monkeypatch):
    """Return the parted tables of all searches, as they come."""
    found = []

    def record(*args):
        found.append(Table(*args))
        return found[-1]

    monkeypatch.setattr(_private_search, "Table", record)
    return found


# ------------------------------------------------------------------------------------------ parts


@pytest.mark.parametrize("chance", [1e-9, 0.25, 0.9, 1 - 1e-9])
def test_coins_fall_by_chance(chance):
    """Within five standard deviations of a binomial count."""
    groups = Groups.read(np.arange(20_000))
    count = groups_held_out(groups, chance, bytes(range(32))).sum()
    assert abs(count - 20_000 * chance) <= 5 * math.sqrt(20_000 * chance * (1 - chance)) + 1


@pytest.mark.parametrize("limit", [2, "average"])
def test_a_candidate_that_fails_scores_lowest_of_all(tables, limit):
    model = search(Spy("fails"), max_rows_per_group=limit, epsilon=1e6)
    simulate(model, X, Y, groups=LABELS, seed=None)
    assert model.best_estimator_.n_ <= 30  # what is released saw public rows
    held_out = tables[0].held_out
    n = held_out.sum() if limit == 2 else len(set(LABELS[held_out]))
    assert model.best_sum_ == pytest.approx(-n / 2, abs=0.1)


# ---------------------------------------------------------------------------- claims and refusals


OWN = "set max_rows_per_group on PrivateSearchCV"
OBJECTIVE = TDILClassifier(mechanism="objective")
WRONG = {
    "of rows": ({"estimator": Stub()}, LABELS, "Stub takes no groups in fit"),
    "objective": ({"estimator": OBJECTIVE, "delta": 1e-6}, LABELS, "protects single rows only"),
    "own bound": ({"estimator": Spy(max_rows_per_group=3)}, LABELS, OWN),
    "own bound of a sketcher": (
        {
            "estimator": M2MClassifier(release=RFFSketcher()),
            "choices": {"release": [RFFSketcher(max_rows_per_group=2)]},
            "max_rows_per_group": None,
            "delta": 1e-6,
        },
        None,
        OWN,
    ),
    "chosen": ({"choices": {"max_rows_per_group": [1, 2]}}, LABELS, "which the search sets itself"),
    "claims rows": ({"estimator": Spy(unit="one row")}, LABELS, "claims to protect one row"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_cost_nothing(mistake):
    params, groups, words = WRONG[mistake]
    bound = params.get("max_rows_per_group", 2)
    unit = params.get("ledger", "group" if bound is not None else "row")
    ledger = PrivacyLedger(epsilon=np.inf, delta=0.1, unit=unit)
    model = search(**{**params, "ledger": ledger})
    with pytest.raises(ValueError, match=words) as caught:
        model.fit(X, Y, groups=groups)
    assert ledger.entries() == []
    assert not hasattr(model, "privacy_")
    assert "600" not in str(caught.value)
