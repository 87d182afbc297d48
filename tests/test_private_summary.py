"""The private summary: owners release sketches once, and the consumer draws and weighs at home."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression

from skdpsumm import (
    AdaptiveSketcher,
    AnswerWarning,
    BudgetExceededError,
    Categorical,
    HistogramSketcher,
    M2MClassifier,
    M2MRegressor,
    Numeric,
    PrivacyLedger,
    PrivateMMDSummarizer,
    PrivateSketch,
    RFFSketcher,
    SummarizedEstimator,
    TableSchema,
    audit_epsilon,
)
from skdpsumm.features._feature_maps import GRID
from skdpsumm.sketches._private_sketch import PendingRelease
from skdpsumm.summaries import Curator, SketchCurator, Sketches, SketchOwner, _sketches, _summarizer
from skdpsumm.summaries import _private_summary as private_summary

pytestmark = [
    pytest.mark.filterwarnings("ignore:Set noise_seed=None"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
    pytest.mark.filterwarnings("ignore::skdpsumm.moments.AnswerWarning"),
]
PEOPLE = TableSchema(
    {"age": Numeric(17, 90, step=1), "job": Categorical(["clerk", "farmer"], missing=True)}
)
FEW = {"n_synthetic": 3000}


def rows_of(seed=0, n=3000):
    """Return rows, labels that bend, their owners, and a target at one end."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = (X[:, 1] > X[:, 0] ** 2).astype(int)
    target = np.column_stack([rng.uniform(0.8, 1, 300), rng.random(300)])
    return X, y, rng.integers(3, size=n), target


def make(**options):
    protocol = Sketches(**{**FEW, **options.pop("protocol", {})})
    given = {"schema": (0, 1), "random_state": 0, "noise_seed": 0, "epsilon": 3.0, **options}
    return PrivateMMDSummarizer(60, protocol=protocol, **given)


@pytest.fixture(scope="module")
def fitted():
    X, y, owners, target = rows_of()
    return make().fit(X, y, X_target=target, owners=owners)


AGREED = Sketches(groups=[[0, 1]], n_bins=2).agreement(
    TableSchema([(0, 1)]), Categorical([0, 1]), 2, epsilon=1.0
)


def people(seed, n=400):
    rng = np.random.default_rng(seed)
    return rng.random((n, 1)), rng.integers(2, size=n)


# ---- what comes out


def test_synthetic_rows_look_like_the_target_and_keep_the_labels(fitted):
    assert fitted.X_.shape == (60, 2)
    assert set(fitted.y_) == {0, 1}
    assert fitted.y_.dtype.kind == "i"
    assert abs(fitted.weights_.sum() - 1) < 1e-12
    assert fitted.weights_ @ fitted.X_[:, 0] > 0.85
    agree = (fitted.X_[:, 1] > fitted.X_[:, 0] ** 2) == fitted.y_
    assert agree.mean() > 0.8
    for name in ("sample_indices_", "owner_counts_", "owner_values_", "n_accessed_"):
        assert not hasattr(fitted, name)


def test_without_a_target_the_summary_is_of_all_rows_and_holds_nothing_private():
    X, y, owners, _ = rows_of()
    s = make(target_is_owners=True).fit(X, y, owners=owners)
    assert abs(s.X_[:, 0].mean() - 0.5) < 0.1
    assert not s.holds_private_data
    assert s.privacy_.target.epsilon() == 0
    assert s.privacy_.consumer.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)


def test_words_missing_values_and_names_come_back():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(17, 91, 900),
            "job": rng.choice(np.array(["clerk", "farmer", None]), 900),
        }
    )
    y = np.where(X.age > 50, "old", "young")
    target = X[X.age > 60]
    s = make(schema=PEOPLE).fit(X, y, X_target=target)
    assert list(s.X_.columns) == ["age", "job"]
    assert set(s.X_.job.dropna()) <= {"clerk", "farmer"}
    assert s.X_.job.isna().any()
    assert np.array_equal(s.X_.age, np.round(s.X_.age))
    assert np.mean(s.y_ == "old") > 0.8
    again, labels = clone(s).fit_resample(X, y, X_target=target)
    pd.testing.assert_frame_equal(again, s.X_)
    assert labels.tolist() == s.y_.tolist()


def test_numbers_are_labels_and_no_labels_are_fine():
    X, y, owners, target = rows_of()
    s = make(protocol={"label": (0, 2)}).fit(X, X[:, 0] + y, X_target=target, owners=owners)
    assert s.y_.dtype == float
    assert s.y_.mean() > 0.9
    assert make().fit(X, X_target=target, owners=owners).y_ is None


def test_a_summarised_estimator_is_trained_on_synthetic_rows():
    X, y, owners, target = rows_of()
    model = SummarizedEstimator(LogisticRegression(), make())
    model.fit(X, y, X_target=target, owners=owners)
    held = np.column_stack([np.linspace(0.8, 1, 500), np.random.default_rng(9).random(500)])
    assert model.score(X_holdout=held, y_holdout=held[:, 1] > held[:, 0] ** 2) > 0.8
    assert "synthetic" in model.privacy_.use
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
    model.set_params(summarizer__ledger=ledger)
    with pytest.raises(ValueError, match="Leave out"):
        model.fit(X, y, X_target=target, owners=owners, sample_weight=np.ones(len(X)))
    assert not ledger.entries()


def test_a_sketch_at_home_gives_the_rows_that_fit_does(fitted, tmp_path):
    """Whoever holds the merged sketch needs no owner: same seed, same rows, same claims."""
    fitted.sketch_.save(tmp_path / "merged.sketch")
    sketch = PrivateSketch.load(tmp_path / "merged.sketch")
    target = rows_of()[3]
    options = {"n_synthetic": 3000, "random_state": 0}  # the target lacks the label
    home = PrivateMMDSummarizer.from_sketch(sketch, 60, X_target=target, **options)
    for name in ("X_", "y_", "weights_"):
        np.testing.assert_array_equal(getattr(home, name), getattr(fitted, name))
    assert home.effective_sample_size_ == fitted.effective_sample_size_
    assert home.privacy_.consumer.epsilon(1e-6) == fitted.privacy_.consumer.epsilon(1e-6)
    assert home.privacy_.target.epsilon() == np.inf
    assert home.holds_private_data
    np.testing.assert_array_equal(home.vectors(target), fitted.vectors(target))
    own = PrivateMMDSummarizer.from_sketch(
        sketch, 60, X_target=target, target_is_owners=True, **options
    )
    assert own.privacy_.owners.epsilon(1e-6) == np.inf


@pytest.mark.parametrize("place", [0, 1, 2])
def test_any_column_of_a_sketch_is_the_label(place):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(17, 91, 3000), "job": "clerk"})
    table.loc[rng.random(3000) < 0.3, "job"] = None
    table.insert(place, "old", np.where(table.age > 50, "yes", "no"))
    columns = dict(zip(PEOPLE.names, PEOPLE.columns, strict=True)) | {"old": ["no", "yes"]}
    schema = TableSchema({name: columns[name] for name in table})
    sketch = AdaptiveSketcher(schema, epsilon=5.0, random_state=0, noise_seed=0).fit(table).sketch_
    mine = table[table.age > 70].drop(columns="old")
    options = {"random_state": 0, "n_synthetic": 5000}
    mine = mine[["job", "age"]]
    home = PrivateMMDSummarizer.from_sketch(sketch, 200, X_target=mine, **options)
    told = PrivateMMDSummarizer.from_sketch(sketch, 200, X_target=mine, target="old", **options)
    pd.testing.assert_frame_equal(home.X_, told.X_)
    assert home.y_.tolist() == told.y_.tolist()
    assert list(home.X_) == ["age", "job"]
    assert home.X_.age.mean() > 70
    assert np.mean(home.y_ == "yes") > 0.95
    every = PrivateMMDSummarizer.from_sketch(sketch, 200, random_state=0)
    assert every.y_ is None
    assert list(every.X_) == list(table)
    assert abs(every.X_.age.mean() - table.age.mean()) < 5
    assert not every.holds_private_data


def test_what_no_rows_can_be_drawn_of_is_refused(fitted):
    from_sketch, sketch = PrivateMMDSummarizer.from_sketch, fitted.sketch_
    with pytest.raises(TypeError, match=r"PrivateSketch\.load"):
        from_sketch("merged.sketch")
    features = RFFSketcher(20, schema=[(0, 1)] * 2, noise_seed=0).fit(rows_of()[0]).sketch_
    with pytest.raises(ValueError, match="sketch of counts"):
        from_sketch(features)
    with pytest.raises(ValueError, match="target names column 5"):
        from_sketch(sketch, target=5)
    with pytest.raises(ValueError, match="features"):
        from_sketch(sketch, X_target=rows_of()[3][:, :1])
    with pytest.raises(ValueError, match="about X_target"):
        from_sketch(sketch, X_target=[[0.5], [0.1, 0.2]])
    with pytest.raises(ValueError, match="n_select"):
        from_sketch(sketch, 0)
    with pytest.warns(UserWarning, match="Raise n_synthetic=3000"):
        from_sketch(sketch, X_target=np.full((300, 2), 0.999), n_synthetic=3000)


def test_at_home_it_says_what_no_rows_can_mend():
    """Labels that no column goes with, few rows of a target, few synthetic ones; nothing else."""
    rng = np.random.default_rng(0)
    age = rng.integers(17, 91, 3000)
    kind = np.where(age > 50, "old", "young").astype(object)
    kind[::7] = None
    table = pd.DataFrame({"age": age, "kind": kind})
    schema = {"age": (17, 91), "kind": Categorical(["old", "young"], missing=True)}
    options = {"schema": schema, "epsilon": 5.0, "noise_seed": 0}
    target = table[table.age > 60].assign(town="here")  # the label and others stand beside it
    given = {"target": "kind", "n_synthetic": 3000, "random_state": 0}
    from_sketch = PrivateMMDSummarizer.from_sketch
    pairs = HistogramSketcher(marginals=[["age", "kind"]], n_bins=10, **options).fit(table).sketch_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        home = from_sketch(pairs, 60, X_target=target, **given)
    assert list(home.X_) == ["age"]
    assert set(home.y_) == {"old"}  # rows without a label teach nothing
    assert home.protocol.label == schema["kind"]  # of another fit, too
    apart = HistogramSketcher(n_bins=10, **options).fit(table).sketch_
    with pytest.warns(AnswerWarning, match="does not tell how 'kind' goes"):
        from_sketch(apart, 60, X_target=target, **given)
    with pytest.warns(UserWarning, match="fewer than 10"):
        from_sketch(pairs, 60, X_target=target[:2], **given)
    with pytest.warns(UserWarning, match="Raise n_synthetic=20"):
        from_sketch(pairs, 6, X_target=target, **(given | {"n_synthetic": 20}))
    with pytest.raises(ValueError, match="they have 'age', 'kind'"):
        from_sketch(pairs, 60, X_target=target, target="Kind")
    label = HistogramSketcher({"kind": ["old", "young"]}, noise_seed=0).fit(
        target[["kind"]].dropna()
    )
    with pytest.raises(ValueError, match="no column but the label"):
        from_sketch(label.sketch_, 10, target="kind")


@pytest.mark.parametrize(
    ("bound", "adjacency"),
    [(None, "add_remove"), (None, "replace_one"), (2, "add_remove"), ("average", "replace_one")],
)
def test_claims_at_home_name_what_is_protected(bound, adjacency):
    """With groups, one that has *other* rows in the target is unprotected: no group is shared."""
    X, y, _, target = rows_of(n=600)
    sketcher = HistogramSketcher(
        schema=[(0, 1), (0, 1), [0, 1]],
        marginals=[[0, 2], [1, 2]],
        n_bins=4,
        adjacency=adjacency,
        max_rows_per_group=bound,
        noise_seed=0,
    )
    groups = None if bound is None else np.arange(600) // 2
    sketch = sketcher.fit(np.column_stack([X, y]), groups=groups).sketch_
    one = "row" if bound is None else "group"
    home = PrivateMMDSummarizer.from_sketch(sketch, 20, X_target=target, n_synthetic=2000)
    model = M2MClassifier.from_sketch(sketch, X_target=target, n_synthetic=2000)
    assert f"the target and the owners share no {one}" in home.privacy_.owners.given
    assert f"rows that were sketched share no {one}" in model.privacy_.sketch.given
    for target_claim in (home.privacy_.target, model.privacy_.target):
        assert (target_claim.unit, target_claim.adjacency) == (f"one {one}", adjacency)
    every = PrivateMMDSummarizer.from_sketch(sketch, 20, n_synthetic=2000).privacy_
    assert every.target.adjacency == adjacency
    assert "target" not in every.badge
    assert every.owners == sketch.privacy


@pytest.mark.parametrize("n_select", [1, 8001])
def test_as_many_rows_come_as_were_asked_for(n_select):
    X, y, owners, target = rows_of(n=300)
    s = make().set_params(n_select=n_select)
    s.fit(X, y, X_target=target, owners=owners)
    assert len(s.X_) == len(s.y_) == len(s.weights_) == n_select


def test_another_fit_leaves_nothing_of_this_one():
    X, y, owners, target = rows_of()
    s = make().fit(X, y, X_target=target, owners=owners)
    s.set_params(protocol="pool", n_select=5).fit(X, X_target=target, owners=owners)
    assert not any(hasattr(s, name) for name in ("sketch_", "X_", "y_", "weights_"))
    s.set_params(protocol=Sketches(**FEW)).fit(X, y, X_target=target, owners=owners)
    assert not hasattr(s, "sample_indices_")


# ---- claims


def test_the_claims(fitted):
    told = fitted.privacy_
    assert told.owners.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)
    assert told.consumer.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)
    assert told.owners.against == "public"
    assert told.consumer.against == "consumer"
    assert told.target.epsilon(1e-6) == np.inf
    assert "nobody else learns" in told.target.against
    assert "passed on" in told.badge
    assert "no row is in two of the tables" in told.owners.given
    assert "the target and the owners share no row" in told.owners.given
    assert "the set of labels in y" in told.owners.given
    assert fitted.holds_private_data
    assert fitted.sketch_.privacy.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)
    assert "the set of labels in y" in fitted.sketch_.privacy.given


@pytest.mark.parametrize("n_owners", [0, -1, 1.9, "3", np.nan])
def test_a_claim_is_for_a_whole_number_of_owners(fitted, n_owners):
    with pytest.raises(ValueError, match="n_owners must be"):
        fitted.privacy_.across(n_owners)


def test_labels_that_are_given_are_not_taken_from_y():
    X, y, owners, target = rows_of()
    s = make(protocol={"label": [0, 1, 2]}).fit(X, y, X_target=target, owners=owners)
    assert "the set of labels" not in s.privacy_.owners.given


def test_a_person_at_several_owners_composes(fitted):
    two = fitted.privacy_.across(2)
    mu = fitted.sketch_.privacy.mechanism.mu
    assert two.mechanism.mu == pytest.approx(mu * np.sqrt(2))
    assert "at most 2 owners" in two.given
    assert "is in two of the tables" not in two.given
    assert "the target and the owners share no person" in two.given
    assert "share no row" not in two.given
    assert fitted.privacy_.across(1).epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)


def test_weights_of_the_owners_own_rows_leave_them_unprotected():
    X, y, owners, _ = rows_of()
    s = make(target_is_owners=True).fit(X, y, X_target=X[:300], owners=owners)
    assert s.privacy_.owners.epsilon(1e-6) == np.inf
    assert s.privacy_.across(2).epsilon(1e-6) == np.inf
    assert s.privacy_.consumer.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)  # who knows these rows
    assert "the row is not in the target" in s.privacy_.consumer.given


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_one_fit_is_one_charge(adjacency):
    X, y, owners, target = rows_of()
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4, adjacency=adjacency)
    s = make(ledger=ledger, noise_seed=None, adjacency="add_remove")
    s.fit(X, y, X_target=target, owners=owners)
    assert len(ledger.entries()) == 1
    spent, claimed = ledger.spent.epsilon, s.privacy_.owners.epsilon(1e-4)
    if adjacency == "add_remove":
        assert spent == pytest.approx(claimed, rel=1e-4)
    else:  # a row for another moves two cells of each group
        assert claimed < spent < 2 * claimed


def test_each_owner_charges_its_own_ledger_once():
    X, y, owners, target = rows_of()
    ledgers = {k: PrivacyLedger(epsilon=10.0, delta=1e-4) for k in range(3)}
    s = make(ledger=ledgers, noise_seed=None).fit(X, y, X_target=target, owners=owners)
    for ledger in ledgers.values():
        assert len(ledger.entries()) == 1
        claimed = s.privacy_.owners.epsilon(1e-4)
        assert ledger.spent.epsilon == pytest.approx(claimed, rel=1e-4)


def test_no_owner_releases_for_want_of_its_name_among_the_ledgers():
    X, y, owners, target = rows_of()
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
    with pytest.raises(ValueError, match="no entry for 1 of the owners"):
        make(ledger={0: ledger, 1: None}).fit(X, y, X_target=target, owners=owners)
    assert not ledger.entries()
    s = make(ledger={0: ledger, 1: None, 2: None, 3: ledger}, noise_seed=None)
    s.fit(X, y, X_target=target, owners=owners)
    assert len(ledger.entries()) == 1


def test_a_ledger_that_is_too_full_stops_all_before_anything_is_charged():
    X, y, owners, target = rows_of()
    ledgers = {k: PrivacyLedger(epsilon=10.0 if k else 1.0, delta=1e-4) for k in range(3)}
    for ledger in (ledgers, ledgers[0]):
        with pytest.raises(BudgetExceededError):
            make(ledger=ledger, noise_seed=None).fit(X, y, X_target=target, owners=owners)
    assert not any(len(ledger.entries()) for ledger in ledgers.values())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": "words"}, "could not|no number|number"),
        ({"y": "short"}, "inconsistent|different numbers|consistent"),
        ({"target": "words"}, "number"),
        ({"owners": "short"}, "one label per row"),
        ({"groups": "given"}, "max_rows_per_group"),
        ({"schema": None}, "schema is missing"),
        ({"protocol": {"groups": [["no such"]]}}, "groups"),
        ({"protocol": {"label": "word"}}, "does not describe a column"),
        ({"protocol": {"label": [0, 2]}}, "holds a"),
        ({"y": "numbers"}, "label is missing"),
        ({"y": "one label"}, r"Sketches\(label="),
        ({"n_select": 10**13}, "at most 10,000,000"),
        ({"protocol": {"n_synthetic": 10**13}}, "at most 10,000,000"),
    ],
)
def test_bad_input_costs_nothing_and_names_no_value(change, match):
    X, y, owners, target = rows_of()
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
    options = {k: v for k, v in change.items() if k in ("schema", "protocol")}
    s = make(ledger=ledger, noise_seed=None, **options)
    s.set_params(n_select=change.get("n_select", 60))
    if change.get("X"):
        X = X.astype(object)
        X[7, 1] = "secret"
    if change.get("target"):
        target = target.astype(object)
        target[7, 1] = "secret"
    one = np.zeros_like(y)
    y = {"one label": one, "short": y[:-1], "numbers": y + 0.5 * X[:, 0].astype(float)}.get(
        change.get("y"), y
    )
    owners = owners[:-1] if change.get("owners") else owners
    groups = {"groups": np.arange(len(X))} if change.get("groups") else {}
    with pytest.raises(ValueError, match=match) as caught:
        s.fit(X, y, X_target=target, owners=owners, **groups)
    assert "secret" not in str(caught.value)
    assert len(ledger.entries()) == 0
    assert not hasattr(s, "privacy_")


# ---- what an owner sends


def test_an_owner_releases_once():
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
    owner = SketchOwner(*people(0), ledger=ledger)
    first = owner.answer(AGREED)
    again = owner.answer(replace(AGREED))  # an equal question, made anew
    assert again is first
    assert len(ledger.entries()) == 1
    with pytest.raises(ValueError, match="another agreement"):
        owner.answer(replace(AGREED, epsilon=0.5))
    with pytest.raises(TypeError, match="cannot answer"):
        owner.answer("hello")
    with pytest.raises(TypeError, match="releases them once"):
        pickle.dumps(owner)
    assert len(ledger.entries()) == 1
    assert ledger.spent.epsilon == pytest.approx(first.privacy.epsilon(1e-4), rel=1e-4)


def test_a_fork_of_an_owner_releases_nothing():
    owner = SketchOwner(*people(0))
    owner._pid += 1  # as it is in a child of the process that made the owner
    with pytest.raises(RuntimeError, match="fork"):
        owner.answer(AGREED)


def test_an_owner_answers_what_it_signed_off():
    ledger = PrivacyLedger(epsilon=1e9, delta=1e-4)
    owner = SketchOwner(*people(0), agreed=AGREED, ledger=ledger)
    for change in ({"epsilon": 100.0}, {"n_bins": (3, 3)}, {"groups": ((0,), (0, 1))}):
        with pytest.raises(ValueError, match="signed off"):
            owner.answer(replace(AGREED, **change))
    assert not ledger.entries()
    assert owner.answer(AGREED).privacy.epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)


def test_an_owner_that_cannot_pay_or_does_not_fit_releases_nothing():
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-4)
    with pytest.raises(BudgetExceededError):
        SketchOwner(*people(0), ledger=ledger).answer(AGREED)
    X, y = people(0)
    for bad in ((X, None), (X, y[:-1]), (X, y + 5), (np.hstack([X, X]), y)):
        with pytest.raises(ValueError, match=r"\w"):
            SketchOwner(*bad, ledger=ledger).answer(AGREED)
    assert len(ledger.entries()) == 0


def test_an_owner_without_rows_releases_noise():
    sketch = SketchOwner(*people(0, 0), noise_seed=3).answer(AGREED)
    assert sketch.noise_std.min() > 1
    assert np.all(sketch.sums != 0)


@pytest.mark.parametrize("protocol", [{}, {"groups": [["a", "target"], ["a", "b", "target"]]}])
def test_a_row_moves_one_cell_of_each_group(protocol):
    """Exact sensitivity: of what noise is added to, in grid units, and what it is calibrated to."""
    schema = TableSchema({"a": (0, 1), "b": ["u", "v"]})
    agreed = Sketches(**protocol).agreement(schema, Categorical([0, 1]), 3, epsilon=1.0)
    feature_map = agreed.prepared().feature_map
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(50), "b": rng.choice(["u", "v"], 50)})
    y = rng.integers(2, size=50)

    def sums(n):
        table = _sketches.labelled_table(X[:n], y[:n], agreed.schema)
        return feature_map.grid_sums(table)

    k = len(agreed.groups)
    for n in range(49):
        moved = sums(n + 1) - sums(n)
        assert sorted(moved[moved != 0].tolist()) == [GRID] * k
    sigma = agreed.prepared().noise.std[0] / GRID
    assert np.sqrt(k) / sigma == pytest.approx(agreed.prepared().privacy.mechanism.mu, rel=1e-3)


def merged_noise(factor=1.0, left_out=0, n_owners=6, seed=0):
    """Return the noise of a merged sketch in units of what it claims; planted bugs by name."""
    agreed = Sketches(n_bins=12, groups=[[0, 1, 2]]).agreement(
        TableSchema([(0, 1), (0, 1)]), Categorical(list(range(8))), n_owners, epsilon=1.0
    )
    rng = np.random.default_rng(seed)
    tables = [(rng.random((200, 2)), rng.integers(8, size=200)) for _ in range(n_owners)]
    curator = SketchCurator(list(range(n_owners)), agreed)
    curator.open()
    answers, exact = {}, 0.0
    for k, (X, y) in enumerate(tables):
        answers[k] = SketchOwner(X, y, noise_seed=[seed, k][1] + 100 * seed).answer(agreed)
        true = agreed.prepared().feature_map.float_sums(
            _sketches.labelled_table(X, y, agreed.schema)
        )
        exact = exact + true
        noise = answers[k].sums - true
        kept = 0.0 if k < left_out else factor
        answers[k] = replace(answers[k], sums=true + kept * noise)
    curator.receive(answers)
    return (curator.sketch.sums - exact) / curator.sketch.noise_std


def is_standard_normal(z):
    """Test the variance alone: 1,152 cells tell 0.7 and 1.3 from 1 by more than 8 errors."""
    low, high = stats.chi2(len(z)).interval(1 - 1e-6)
    return low < z @ z < high


def test_the_merged_noise_is_that_of_all_owners():
    assert is_standard_normal(merged_noise())
    assert not is_standard_normal(merged_noise(factor=0.7))
    assert not is_standard_normal(merged_noise(factor=1.3))
    assert not is_standard_normal(merged_noise(left_out=1))


def test_nothing_that_is_sent_depends_on_the_target(monkeypatch):
    X, y, owners, target = rows_of()

    def sent(rows):
        s = make().fit(X, y, X_target=rows, owners=owners)
        messages = [m.digest for all_of_one in s.transcript_.values() for m in all_of_one]
        return messages, s.sketch_.sums.tolist()

    assert sent(target) == sent(1 - target)

    # A planted leak: the bins that owners are asked for follow the target.
    def leaking(summarizer, X, y, X_target, *rest):
        summarizer.protocol.set_params(n_bins=3 + int(np.mean(X_target[:, 0]) > 0.5))
        return private_summary.draft_of(summarizer, X, y, X_target, *rest)

    monkeypatch.setattr(_summarizer, "draft_of", leaking)
    assert sent(target) == sent(target)
    assert sent(target) != sent(1 - target)


AUDITED = Sketches(groups=[[0, 1]], n_bins=2).agreement(
    TableSchema([(0, 1)]), Categorical([0, 1]), 2, epsilon=1.0, delta=0.2
)


def refuted(release, n_trials):
    """Audit all that an owner of one row, or of none, publishes."""
    one = np.array([[0.2, 0.0]])
    result = audit_epsilon(
        lambda rows: release(rows[:, :1], rows[:, 1].astype(int)),
        one[:0],
        one,
        delta=AUDITED.delta,
        n_trials=n_trials,
        confidence=1 - 1e-9,
        random_state=0,
    )
    return result.refutes(AUDITED.epsilon)


@pytest.mark.statistical
@pytest.mark.usefixtures("quick_fits")
def test_an_audit_refutes_further_releases_and_missing_noise(monkeypatch):
    ready = AUDITED.prepared()
    parts = ready.feature_map, ready.noise, None, ready.counts_rows, ready.privacy, ready.limit
    # To draw the map and to calibrate the noise anew takes nearly all of the time, and then to read
    # the row that there is, or is not.
    monkeypatch.setattr(
        _sketches.ReleaseSketch, "prepared", lambda *_, **__: PendingRelease(*parts)
    )
    read, tables = _sketches.labelled_table, {}

    def read_once(X, y, schema):
        if len(X) not in tables:
            tables[len(X)] = read(X, y, schema)
        return tables[len(X)]

    monkeypatch.setattr(_sketches, "labelled_table", read_once)

    def sums(X, y):
        sketch = SketchOwner(X, y).answer(AUDITED)
        return np.append(sketch.sums, sketch.n_released)

    def again_and_again(X, y):  # an owner that answers the same question with new noise
        return np.mean([sums(X, y) for _ in range(4)], axis=0)

    def without_own_noise(X, y):  # of a sum of two owners: the other's noise hides nothing of it
        bare = ready.feature_map.float_sums(_sketches.labelled_table(X, y, AUDITED.schema))
        return np.append(bare, bare.sum())

    assert not refuted(sums, 1500)
    assert refuted(again_and_again, 1500)
    assert refuted(without_own_noise, 200)


# ---- what a curator takes


@pytest.mark.parametrize("bug", ["bins", "noise", "guarantee", "rows", "raised", "missing"])
def test_a_curator_takes_what_was_agreed_and_nothing_else(bug):
    good = SketchOwner(*people(0)).answer(AGREED)
    other = Sketches(groups=[[0, 1]], n_bins=3).agreement(
        TableSchema([(0, 1)]), Categorical([0, 1]), 2, epsilon=1.0
    )
    louder = SketchOwner(*people(1)).answer(replace(AGREED, epsilon=2.0))
    reply = {
        "bins": SketchOwner(*people(1)).answer(other),
        "noise": louder,
        "guarantee": replace(good, privacy=louder.privacy),
        "rows": np.zeros((5, 1)),
        "raised": ValueError("secret"),
    }
    curator = SketchCurator(["north", "south"], AGREED)
    with pytest.raises(ValueError, match="call open"):
        curator.receive({})
    with pytest.raises(ValueError, match="not here yet"):
        curator.sketch  # noqa: B018
    assert set(curator.open()) == {"north", "south"}
    answers = {"north": good, **({} if bug == "missing" else {"south": reply[bug]})}
    assert curator.receive(answers) == {}
    assert set(curator.dropped_owners) == {"south"}
    assert "secret" not in curator.dropped_owners["south"]
    np.testing.assert_array_equal(curator.sketch.sums, good.sums)
    assert curator.sketch.privacy.protects == "the rows of each owner"


def test_an_owner_cannot_change_or_end_the_sum_of_others():
    good, bad = (SketchOwner(*people(seed)).answer(AGREED) for seed in range(2))
    curator = SketchCurator(["north", "south"], AGREED)
    curator.open()
    curator.receive({"north": good, "south": bad})
    before = curator.sketch.sums
    bad.sums[:] = np.nan
    np.testing.assert_array_equal(curator.sketch.sums, before)
    huge = replace(good, sums=np.full_like(good.sums, 2.0**64))
    broken = replace(good)
    object.__setattr__(broken, "noise_std", None)
    for reply in (huge, replace(good, n_released=-(2.0**64)), broken):
        curator = SketchCurator(["north", "south"], AGREED)
        curator.open()
        curator.receive({"north": good, "south": reply})
        assert list(curator.dropped_owners) == ["south"]
        np.testing.assert_array_equal(curator.sketch.sums, good.sums)


def test_if_nobody_answers_the_error_says_so():
    curator = SketchCurator(["north"], AGREED)
    curator.open()
    curator.receive({})
    with pytest.raises(ValueError, match="All 1 owners were left out"):
        curator.sketch  # noqa: B018
    with pytest.raises(ValueError, match="all different"):
        SketchCurator(["north", "north"], AGREED)


def test_a_curator_of_rows_refuses_the_protocol():
    with pytest.raises(ValueError, match="SketchCurator"):
        Curator(np.zeros((3, 1)), ["north"], protocol="sketches", gamma=1.0)
    with pytest.raises(ValueError, match="Give one ledger"):
        PrivateMMDSummarizer(gamma=1.0, ledger={}).fit(np.zeros((3, 1)), X_target=np.ones((3, 1)))


# ---- groups, parts, defaults


@pytest.mark.parametrize("bound", [2, "average"])
def test_groups_are_protected(bound):
    X, y, _, target = rows_of(n=1200)
    s = make(max_rows_per_group=bound)
    persons = np.arange(1200) // 4
    given = {"groups": persons, "target_groups": np.arange(300)}
    s.fit(X, y, X_target=target, owners=persons % 3, **given)
    assert s.privacy_.owners.unit == "one group"
    assert "no group is in two of the tables" in s.privacy_.owners.given
    assert f"max_rows_per_group={bound!r}" in s.privacy_.owners.given
    n = 600 if bound == 2 else 300
    assert abs(s.sketch_.n_released - n) < 6 * s.sketch_.n_noise_std
    plain = make().fit(X, y, X_target=target, owners=persons % 3)
    ratio = s.sketch_.noise_std[0] / plain.sketch_.noise_std[0]
    assert ratio == pytest.approx(2.0 if bound == 2 else 1.0, rel=0.05)


def test_default_groups_follow_from_public_numbers():
    schema = TableSchema({"a": (0, 1), "b": (0, 1), "c": ["u", "v", "w"]})
    label = Categorical([0, 1])

    def groups(n_owners=10, **options):
        return Sketches(**options).agreement(schema, label, n_owners, epsilon=1.0)

    few, many = groups(rows_per_owner=20), groups(rows_per_owner=100_000)
    assert [g for g in few.groups if len(g) == 2] == [(0, 3), (1, 3), (2, 3)]
    assert len(few.groups) == 3
    assert len(many.groups) == 6
    assert few.n_bins[0] < many.n_bins[0]
    # Noise of many owners adds up: as many rows with ten times as many owners carry less.
    spread = groups(n_owners=1000, rows_per_owner=20)
    at_one = groups(n_owners=10, rows_per_owner=2000)
    assert (len(spread.groups), spread.n_bins) < (len(at_one.groups), at_one.n_bins)


def test_dask_partitions_are_owners():
    dask_array = pytest.importorskip("dask.array")
    X, y, _, target = rows_of(n=900)
    parts, labels = dask_array.from_array(X, chunks=(300, 2)), dask_array.from_array(y, chunks=300)
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
    s = make(protocol={"label": [0, 1]}, ledger=ledger)
    s.fit(parts, labels, X_target=target)
    memory = make(protocol={"label": [0, 1]})
    memory.fit(X, y, X_target=target, owners=np.repeat([0, 1, 2], 300))
    np.testing.assert_array_equal(s.sketch_.sums, memory.sketch_.sums)
    np.testing.assert_array_equal(s.X_, memory.X_)
    assert len(ledger.entries()) == 1
    assert s.privacy_.owners == memory.privacy_.owners


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_a_dask_table_of_one_column_is_y(kind):
    dask = pytest.importorskip("dask.array")
    X, y, _, target = rows_of(n=900)
    parts, labels = dask.from_array(X, chunks=(300, 2)), dask.from_array(y, chunks=300)
    column = labels[:, None]
    if kind == "frame":
        column = pytest.importorskip("dask.dataframe").from_dask_array(column, columns=["y"])
    s = make(protocol={"label": [0, 1]})
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        s.fit(parts, column, X_target=target)
    series = make(protocol={"label": [0, 1]}).fit(parts, labels, X_target=target)
    np.testing.assert_array_equal(s.sketch_.sums, series.sketch_.sums)


@pytest.mark.parametrize(
    ("fit", "options", "match"),
    [
        ({"owners": np.zeros(900)}, {"protocol": {"label": [0, 1]}}, "Leave `owners` out"),
        ({}, {}, "label is missing"),
        ({}, {"protocol": {"label": [0, 1]}, "ledger": {}}, "Give one ledger"),
        ({}, {"protocol": {"label": [0]}}, "fewer than two"),
        ({"y": "two columns"}, {"protocol": {"label": [0, 1]}}, "Give y as a Dask"),
        ({"y": np.zeros(900)}, {"protocol": {"label": [0, 1]}}, "Give y as a Dask"),
    ],
)
def test_dask_refuses_before_anything_is_charged(fit, options, match):
    dask_array = pytest.importorskip("dask.array")
    X, y, _, target = rows_of(n=900)
    parts, labels = dask_array.from_array(X, chunks=(300, 2)), dask_array.from_array(y, chunks=300)
    given = {"y": labels, "X_target": target, **fit}
    if isinstance(given["y"], str):
        given["y"] = dask_array.stack([labels, labels], axis=1)
    with pytest.raises(ValueError, match=match):
        make(**options).fit(parts, **given)


# ---- models from a sketch, for a target


@pytest.fixture(scope="module")
def sketch():
    X, y, _, _ = rows_of(1, 8000)
    schema = {"a": (0, 1), "b": (0, 1), "label": [0, 1]}
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": y})
    marginals = [["a", "label"], ["a", "b", "label"]]
    sketcher = HistogramSketcher(schema=schema, n_bins=8, marginals=marginals, noise_seed=0)
    return sketcher.fit(table).sketch_


def at_the_end(seed, n=1000):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(0.8, 1, n), "b": rng.random(n)})
    return X, (X.b > X.a**2).astype(int)


def test_a_model_for_a_target_beats_one_for_all_rows(sketch):
    target, _ = at_the_end(2, 300)
    held, truth = at_the_end(3)
    options = {"n_synthetic": 5000, "random_state": 0}
    plain = M2MClassifier.from_sketch(sketch, **options)
    model = M2MClassifier.from_sketch(sketch, X_target=target[["b", "a"]], **options)
    assert model.score(held, truth) > plain.score(held, truth) + 0.01
    assert 100 < model.effective_sample_size_ < 5000 == round(plain.effective_sample_size_)
    assert model.holds_private_data
    assert not plain.holds_private_data
    assert model.privacy_.target.epsilon(1e-6) == np.inf
    assert plain.privacy_ == sketch.privacy
    # Whoever is in both tables is as unprotected as the target is.
    assert "share no row" in model.privacy_.sketch.given
    assert replace(model.privacy_.sketch, given=sketch.privacy.given) == sketch.privacy
    assert model.privacy_.epsilon(1e-6) == np.inf
    assert "target: no guarantee" in model.privacy_.badge
    assert "epsilon=inf" in repr(model.privacy_)
    assert "holds_private_data=True" in repr(model)
    with pytest.raises(ValueError, match="without X_target"):
        model.coefficients()


def test_a_regressor_for_a_target_and_points_with_weights(sketch):
    X = rows_of(1, 4000)[0]
    table = np.column_stack([X, 3 * X[:, 0] ** 2])
    sums = HistogramSketcher(
        schema=[(0, 1), (0, 1), (0, 3)], n_bins=8, marginals=[[0, 2], [1, 2]], noise_seed=0
    ).fit(table)
    target = at_the_end(2, 300)[0].to_numpy()
    held = at_the_end(3)[0].to_numpy()
    options = {"n_synthetic": 4000, "random_state": 0}
    model, plain = (
        M2MRegressor.from_sketch(sums.sketch_, X_target=rows, **options) for rows in (target, None)
    )
    errors = [np.abs(m.predict(held) - 3 * held[:, 0] ** 2).mean() for m in (model, plain)]
    assert errors[0] < 0.7 * errors[1]
    points = M2MClassifier.from_sketch(sketch, X_target=target, inference="points", **options)
    assert points.effective_sample_size_ > 100


def test_it_warns_where_the_sketch_has_nothing():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 0.3, (4000, 2))
    table = np.column_stack([X, X[:, 0] > 0.15]).astype(float)
    sketch = (
        HistogramSketcher(
            schema=[(0, 1), (0, 1), [0.0, 1.0]], n_bins=10, marginals=[[0, 2], [1, 2]], noise_seed=0
        )
        .fit(table)
        .sketch_
    )
    far = rng.uniform(0.8, 1, (300, 2))
    with pytest.warns(UserWarning, match="no rows there") as caught:
        M2MClassifier.from_sketch(sketch, X_target=far, n_synthetic=3000, random_state=0)
    told = str(caught[0].message)
    assert told.startswith("Add a sketch")
    assert told.count(". ") <= 2
    s = make(protocol={"label": [0.0, 1.0]})
    with pytest.warns(UserWarning, match="Ask more owners"):
        s.fit(X, table[:, 2], X_target=far)
    assert s.X_.shape == (60, 2)  # the release is paid for, and kept


@pytest.mark.parametrize("bad", ["columns", "words", "missing"])
def test_a_target_that_cannot_be_read_is_refused(sketch, bad):
    target = at_the_end(2, 50)[0].to_numpy().astype(object)
    if bad == "columns":
        target = target[:, :1]
    else:
        target[3, 0] = "secret" if bad == "words" else None
    with pytest.raises((ValueError, TypeError)) as caught:
        M2MClassifier.from_sketch(sketch, X_target=target, n_synthetic=100)
    assert "secret" not in str(caught.value)
