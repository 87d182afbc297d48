"""The private search protects groups: parts, the score, what a learner is given, and refusals."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from simulated import simulate
from sklearn.pipeline import make_pipeline
from stub_learners import Stub

from skdpsumm import (
    M2MClassifier,
    PINPClassifier,
    PrivacyLedger,
    PrivateSearchCV,
    PublicVectorizer,
    RFFSketcher,
    TDDLClassifier,
    TDILClassifier,
)
from skdpsumm.model_selection import _private_search, _run
from skdpsumm.model_selection._run import Table, groups_held_out, labels_of
from skdpsumm.model_selection._stopping import plan_runs, stopping
from skdpsumm.privacy import _noise
from skdpsumm.schema._groups import Groups

pytestmark = [
    pytest.mark.simulated(0),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
]
ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
LIMITS = pytest.mark.parametrize("limit", [1, 3, "average"])
KEY = bytes(range(32))
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 100, 600)
X = np.column_stack([RNG.uniform(-1, 1, 600), np.arange(600) / 600])  # the second names the row
Y = (X[:, 0] > 0).astype(int)
SEEN = []


class Spy(Stub):
    """A learner of groups that says the same of every row, and notes what it was given."""

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
        assert (groups is None) == (self.max_rows_per_group is None)
        SEEN.append((np.array(X), groups, self.max_rows_per_group))
        if self.label == "fails" and len(X) > 30:
            raise RuntimeError("too many rows")
        super().fit(X, y)
        unit = "one row" if groups is None else "one group"
        self.privacy_ = replace(self.privacy_, unit=self.unit or unit)
        return self

    def predict(self, X):
        return np.full(len(X), 1 if self.label == "fails" else self.label)


class Blind(Spy):
    """A learner that has the parameter, and takes no groups."""

    def fit(self, X, y):
        return super().fit(X, y)


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


def rows_of(table):
    """Return which rows of X a search trained on, and which it scored."""
    parts = table.X[table.trained_on, 1], table.X[table.scored, 1]
    return (np.rint(part * 600).astype(int) for part in parts)


def trained_on(table):
    """Return the rows that a search trained on, and their groups."""
    return table.X[table.trained_on], list(labels_of(table.groups, table.trained_on))


# ------------------------------------------------------------------------------------------ parts


def test_coins_are_of_groups_and_of_no_other():
    groups = Groups.read(LABELS)
    coins = groups_held_out(groups, 0.25, KEY)
    for label in range(100):
        assert len(set(coins[label == LABELS])) == 1
        rest = label != LABELS
        assert (groups_held_out(Groups.read(LABELS[rest]), 0.25, KEY) == coins[rest]).all()
    as_words = Groups.read(LABELS.astype(str))
    assert (groups_held_out(as_words, 0.25, KEY) != coins).any()
    as_floats = Groups.read(LABELS.astype(float).tolist())
    assert (groups_held_out(as_floats, 0.25, KEY) == coins).all()
    assert (groups_held_out(groups, 0.25, KEY[::-1]) != coins).any()


@pytest.mark.parametrize("chance", [1e-9, 0.25, 0.9, 1 - 1e-9])
def test_coins_fall_by_chance(chance):
    """Within five standard deviations of a binomial count."""
    groups = Groups.read(np.arange(20_000))
    count = groups_held_out(groups, chance, KEY).sum()
    assert abs(count - 20_000 * chance) <= 5 * math.sqrt(20_000 * chance * (1 - chance)) + 1


def check_parts(table, limit):
    train, held_out = rows_of(table)
    assert not set(LABELS[train]) & set(LABELS[held_out])
    kept = np.bincount(LABELS[np.append(train, held_out)], minlength=100)
    sizes = np.bincount(LABELS, minlength=100)
    assert (kept == (sizes if limit == "average" else np.minimum(sizes, limit))).all()
    assert trained_on(table)[1] == LABELS[train].tolist()


@LIMITS
def test_no_part_cuts_a_group_and_the_learner_gets_whole_ones(tables, limit):
    SEEN.clear()
    search(max_rows_per_group=limit).fit(X, Y, groups=LABELS)
    for table in tables:
        check_parts(table, limit)
    private = [(rows, groups) for rows, groups, bound in SEEN if len(rows) > 30]
    for rows, groups in private:
        assert (rows == trained_on(tables[0])[0]).all()
        assert list(groups) == trained_on(tables[0])[1]
    assert private
    assert {bound for _, _, bound in SEEN} == {limit}


@LIMITS
def test_a_group_that_goes_leaves_all_others_where_they_are(tables, limit):
    for gone in (3, 50):
        del tables[:]
        rest = gone != LABELS
        search(max_rows_per_group=limit).fit(X, Y, groups=LABELS)
        search(max_rows_per_group=limit).fit(X[rest], Y[rest], groups=LABELS[rest])
        one, other = tables[0], tables[-1]
        for mine, theirs in zip(rows_of(one), rows_of(other), strict=True):
            assert theirs.tolist() == [row for row in mine if LABELS[row] != gone]


def test_coins_are_secret_without_a_seed(tables):
    for _ in range(2):
        simulate(search(), X, Y, groups=LABELS, seed=None)
    one, other = tables[0], tables[-1]
    assert trained_on(one)[0].tolist() != trained_on(other)[0].tolist()


# ------------------------------------------------------------------------------------------ score


def scorer(limit=1, adjacency="add_remove", *, delta=0.0, bounds=(0.0, 1.0), score=None):
    plan = plan_runs(stopping(0.0, 10), 1.0, delta)
    rows = limit if isinstance(limit, int) else 1
    return _run.PrivateScore(score or _run.SCORES["accuracy"], *bounds, adjacency, plan, rows)


@pytest.mark.parametrize(
    ("limit", "adjacency", "size"),
    [
        (1, "replace_one", 200),
        (3, "add_remove", 1),
        (3, "replace_one", 200),
        ("average", "add_remove", 200),
        ("average", "replace_one", 3),
    ],
)
def test_worst_groups_reach_the_bound_of_the_score(monkeypatch, size, limit, adjacency):
    """Rows of a group are all right, and those of the one that comes in its place all wrong."""
    seen = []

    def record(noise, index, values, seed=None):
        seen.append((noise.blocks[0], int(values[0])))
        return np.asarray(values, np.float64)

    monkeypatch.setattr(_noise.IntegerNoise, "add_block", record)
    monkeypatch.setattr(
        _private_search, "groups_held_out", lambda groups, *_: np.ones(len(groups.codes), bool)
    )
    group = np.zeros((size, 2)), np.ones(size, int), np.full(size, 999)
    new = np.zeros((size, 2)), np.zeros(size, int), np.full(size, 1000)
    tables = [(X, Y, LABELS), (X, Y, LABELS)]
    tables[0] = [np.concatenate(pair) for pair in zip(tables[0], group, strict=True)]
    if adjacency == "replace_one":
        tables[1] = [np.concatenate(pair) for pair in zip(tables[1], new, strict=True)]
    sums = []
    for rows, labels, groups in tables:
        seen.clear()
        model = search(max_rows_per_group=limit, adjacency=adjacency)
        monkeypatch.setattr(_private_search._Draft, "seeds", lambda self, j: [None, None])
        model.fit(rows, labels, groups=groups)
        sums.append(seen[0][1])
    block = seen[0][0]
    part = 1 if limit == "average" else min(size, limit) / limit
    assert abs(sums[0] - sums[1]) == part * block.l1 == part * block.l2
    rows = 1 if limit == "average" else limit
    assert block.l1 == rows * _run._STEPS_OF_SCORE * (2 if adjacency == "replace_one" else 1)


@ADJACENCIES
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 0.5)])
def test_no_group_moves_the_sum_farther(bounds, adjacency):
    rng = np.random.default_rng(0)
    score = scorer("average", adjacency, bounds=bounds, score=lambda e, row, y: row)
    values = [-np.inf, np.nan, np.inf, *rng.uniform(-9, 9, 40)]
    most, found = score._noise.blocks[0].l1, []
    for _ in range(200):
        rows = list(rng.choice(values, rng.integers(1, 9)))
        found.append(score.exact(None, rows, np.zeros(len(rows)), np.zeros(len(rows), int)))
    assert max(map(abs, found)) <= _run._STEPS_OF_SCORE
    moved = max(found) - min(found) if adjacency == "replace_one" else max(map(abs, found))
    assert 0.9 * most < moved <= most


@pytest.mark.parametrize("limit", [2, "average"])
def test_a_candidate_that_fails_scores_lowest_of_all(tables, limit):
    model = search(Spy("fails"), max_rows_per_group=limit, epsilon=1e6)
    simulate(model, X, Y, groups=LABELS, seed=None)
    assert len(SEEN[-1][0]) <= 30  # what is released saw public rows
    _, held_out = rows_of(tables[0])
    n = len(held_out) if limit == 2 else len(set(LABELS[held_out]))
    assert model.best_sum_ == pytest.approx(-n / 2, abs=0.1)


# ---------------------------------------------------------------------------- claims and refusals


def test_learners_of_other_kinds():
    maps = {"max_rows_per_group": "average", "delta": 1e-6, "epsilon": 4.0}
    X_public = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    tddl = TDDLClassifier(kernel="rbf", gamma=1.0, regularization=30.0)
    model = search(tddl, **maps).fit(X, Y, X_public=X_public, groups=LABELS)
    assert model.best_estimator_.privacy_.unit == "one group"
    pipe = make_pipeline(PublicVectorizer([(-1, 1), (0, 1)]), TDILClassifier(norm_bound=1.5))
    model = search(pipe, {"tdilclassifier__regularization": [5.0]}, **maps)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), Y, groups=pd.Series(LABELS))
    assert model.best_estimator_[-1].privacy_.unit == "one group"
    assert model.best_estimator_[-1].max_rows_per_group == "average"


@pytest.mark.parametrize("limit", [2, "average"])
def test_models_on_a_sketch(limit):
    sketcher = RFFSketcher(gamma=1.0, n_components=50)
    model = search(
        M2MClassifier((-1, 1), release=sketcher, classes=[0, 1]), max_rows_per_group=limit
    )
    model.fit(X, Y, groups=LABELS)
    fitted = model.best_estimator_
    assert fitted.sketcher_.max_rows_per_group == limit
    for claim in (model.privacy_, fitted.privacy_, fitted.sketch_.privacy):
        assert claim.unit == "one group"


WRONG = {
    "of rows": ({"estimator": Stub()}, LABELS, "Stub takes no groups in fit"),
    "blind": ({"estimator": Blind()}, LABELS, "Blind takes no groups in fit"),
    "objective": (
        {"estimator": TDILClassifier(mechanism="objective"), "delta": 1e-6},
        LABELS,
        "protects single rows only",
    ),
    "objective in a grid": (
        {"estimator": TDILClassifier(), "choices": {"mechanism": ["functional", "objective"]}},
        LABELS,
        "objective",
    ),
    "keeps rows": (
        {"estimator": PINPClassifier(gamma=1.0), "delta": 1e-6},
        LABELS,
        "keeps private rows",
    ),
    "own bound": (
        {"estimator": Spy(max_rows_per_group=3)},
        LABELS,
        "set max_rows_per_group on PrivateSearchCV",
    ),
    "own bound and none": (
        {"estimator": Spy(max_rows_per_group=3), "max_rows_per_group": None},
        None,
        "set max_rows_per_group on PrivateSearchCV",
    ),
    "own bound of a sketcher": (
        {
            "estimator": M2MClassifier(release=RFFSketcher()),
            "choices": {"release": [RFFSketcher(max_rows_per_group=2)]},
            "max_rows_per_group": None,
            "delta": 1e-6,
        },
        None,
        "set max_rows_per_group on PrivateSearchCV",
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("limit", [None, 5, "average"])
@pytest.mark.parametrize(
    "learner",
    [
        TDILClassifier(),
        TDILClassifier(mechanism="objective"),
        M2MClassifier((-1, 1), release=RFFSketcher(n_components=4), n_synthetic=200),
    ],
)
@pytest.mark.statistical
def test_a_training_part_without_rows_is_no_failure(learner, limit):
    """All is held out. What a fit to no rows predicts is scored, as with one group more it is."""
    if limit is not None and getattr(learner, "mechanism", None) == "objective":
        pytest.skip("for single rows")
    X, groups = np.full((10, 2), 0.5), None if limit is None else np.repeat([0, 1], 5)
    n_units = 2 if limit == "average" else 10
    sums = []
    for label in (0, 1):
        search = PrivateSearchCV(
            learner.__class__(**{**learner.get_params(deep=False), "classes": [0, 1]}),
            {"random_state": [0]},
            holdout=1 - 1e-12,
            epsilon=np.inf,
            max_rows_per_group=limit,
            random_state=0,
        ).fit(X, np.full(10, label), groups=groups)
        sums.append(search.best_sum_)
    # A failure would be the worst, whatever the labels are.
    assert sorted(sums) == [-n_units / 2, n_units / 2]


def test_a_score_whose_noise_is_too_large_costs_nothing():
    ledger = PrivacyLedger(epsilon=10, delta=1e-4, unit="group")
    learner = TDILClassifier(classes=[0, 1])
    search = PrivateSearchCV(
        learner, {"regularization": [1.0]}, max_rows_per_group=10**12, ledger=ledger
    )
    with pytest.raises(ValueError, match="64-bit"):
        search.fit(X, Y, groups=LABELS)
    assert not ledger.entries()
