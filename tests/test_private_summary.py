"""The private summary: owners release sketches once, and the consumer draws and weighs at home."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from answers import said
from refusals import refused
from scipy import stats
from simulated import simulate
from sklearn.base import clone

from skdpsumm.moments import M2MClassifier
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.schema import Categorical, Numeric, TableSchema
from skdpsumm.schema._reading import Table
from skdpsumm.sketches import HistogramSketcher, PrivateSketch, RACESketcher, RFFSketcher
from skdpsumm.summaries import SketchSummarizer, summary_sketcher

UNNAMED = pytest.mark.filterwarnings("ignore:X does not have valid feature names")
pytestmark = [pytest.mark.simulated(0), UNNAMED]
JOB = Categorical(["clerk", "farmer"], missing=True)
TABLE = [(0, 1), (0, 1), [0, 1]]
PEOPLE = TableSchema({"age": Numeric(17, 90, step=1), "job": JOB})


def rows_of(seed=0, n=3000):
    """Return rows, labels that bend, their owners, and a target at one end."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = (X[:, 1] > X[:, 0] ** 2).astype(int)
    target = np.column_stack([rng.uniform(0.8, 1, 300), rng.random(300)])
    return X, y, rng.integers(3, size=n), target


def make(**options):
    given = {"schema": (0, 1), "random_state": 0, "epsilon": 3.0, **options}
    return SketchSummarizer(**{"n_select": 60, "n_synthetic": 3000, **given})


@pytest.fixture(scope="module")
def fitted():
    X, y, owners, target = rows_of()
    return make().fit(X, y, X_target=target, owners=owners)


# ---- what comes out


def test_synthetic_rows_look_like_the_target_and_keep_the_labels(fitted):
    assert (fitted.X_.shape, set(fitted.y_)) == ((60, 2), {0, 1})
    assert fitted.y_.dtype.kind == "i"
    assert fitted.X_[:, 0].mean() > 0.85
    assert np.mean((fitted.X_[:, 1] > fitted.X_[:, 0] ** 2) == fitted.y_) > 0.8
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
    jobs = np.array([*JOB.categories, None])
    X = pd.DataFrame({"age": rng.integers(17, 91, 900), "job": rng.choice(jobs, 900)})
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


def test_a_sketch_at_home_gives_the_rows_that_fit_does(fitted, tmp_path):
    """Whoever holds the merged sketch needs no owner: same seed, same rows, same claims."""
    fitted.sketch_.save(tmp_path / "merged.sketch")
    sketch = PrivateSketch.load(tmp_path / "merged.sketch")
    target = rows_of()[3]
    options = {"n_synthetic": 3000, "random_state": 0}  # the target lacks the label
    home = SketchSummarizer.from_sketch(sketch, 60, X_target=target, **options)
    for name in ("X_", "y_"):
        np.testing.assert_array_equal(getattr(home, name), getattr(fitted, name))
    assert home.effective_sample_size_ == fitted.effective_sample_size_
    assert home.privacy_.consumer.epsilon(1e-6) == fitted.privacy_.consumer.epsilon(1e-6)
    assert home.privacy_.target.epsilon() == np.inf
    assert home.holds_private_data
    options |= {"X_target": target, "target_is_owners": True}
    own = SketchSummarizer.from_sketch(sketch, 60, **options)
    assert own.privacy_.owners.epsilon(1e-6) == np.inf


@pytest.mark.parametrize("sketcher", [RFFSketcher(gamma=2.0), RACESketcher(bandwidth=0.5)])
def test_features_give_rows_like_a_target_too(sketcher):
    X, y, _, target = rows_of()
    sketch = sketcher.set_params(random_state=0).fit(np.column_stack([X, y])).sketch_
    refused("schema is missing", SketchSummarizer.from_sketch, sketch)
    options = {"target": 2, "schema": TABLE, "n_synthetic": 1000, "random_state": 0}
    every = SketchSummarizer.from_sketch(sketch, 60, **options)
    s = SketchSummarizer.from_sketch(sketch, 60, X_target=target, **options)
    assert s.X_[:, 0].mean() > 0.8 > 0.6 > every.X_[:, 0].mean()
    assert set(s.y_) == {0, 1}
    assert s.effective_sample_size_ < every.effective_sample_size_ < 1000  # of points, not copies


@pytest.mark.parametrize(
    ("bound", "adjacency"),
    [(None, "add_remove"), (None, "replace_one"), (2, "add_remove"), ("average", "replace_one")],
)
def test_claims_at_home_name_what_is_protected(bound, adjacency):
    """With groups, one that has *other* rows in the target is unprotected: no group is shared."""
    X, y, _, target = rows_of(n=600)
    protection = {"adjacency": adjacency, "max_rows_per_group": bound}
    sketcher = HistogramSketcher(TABLE, marginals=[[0, 2], [1, 2]], n_bins=4, **protection)
    groups = None if bound is None else np.arange(600) // 2
    sketch = sketcher.fit(np.column_stack([X, y]), groups=groups).sketch_
    one = "row" if bound is None else "group"
    home = SketchSummarizer.from_sketch(sketch, 20, X_target=target, n_synthetic=2000)
    assert f"the target and the owners share no {one}" in home.privacy_.owners.given
    assert (home.privacy_.target.unit, home.privacy_.target.adjacency) == (f"one {one}", adjacency)
    every = SketchSummarizer.from_sketch(sketch, 20, n_synthetic=2000).privacy_
    assert every.target.adjacency == adjacency
    assert "target" not in every.badge
    assert every.owners == sketch.privacy


# ---- claims


def test_the_claims(fitted):
    told = fitted.privacy_
    for one in (told.owners, told.consumer, fitted.sketch_.privacy):
        assert one.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)
    assert (told.owners.against, told.consumer.against) == ("public", "consumer")
    assert told.target.epsilon(1e-6) == np.inf
    assert "nobody else learns" in told.target.against
    assert "passed on" in told.badge
    assert "no row is in two of the tables" in told.owners.given
    assert "the target and the owners share no row" in told.owners.given
    assert "the set of labels in y" in told.owners.given
    assert fitted.holds_private_data
    assert "the set of labels in y" in fitted.sketch_.privacy.given


@pytest.mark.parametrize("bound", [None, 2, "average"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_one_fit_is_one_charge(adjacency, bound):
    X, y, owners, target = rows_of(n=300)
    unit = "row" if bound is None else "group"
    ledger = PrivacyLedger(epsilon=30.0, delta=1e-4, adjacency=adjacency, unit=unit)
    s = make(ledger=ledger, max_rows_per_group=bound)
    persons = {} if bound is None else {"groups": np.arange(300) // 4}
    owners = owners if bound is None else persons["groups"] % 3
    simulate(s, X, y, X_target=target, owners=owners, seed=None, **persons)
    assert s.privacy_.owners.unit == f"one {unit}"
    assert f"no {unit} is in two of the tables" in s.privacy_.owners.given
    assert len(ledger.entries()) == 1
    spent, claimed = ledger.spent.epsilon, s.privacy_.owners.epsilon(1e-4)
    if adjacency == "add_remove":
        assert spent == pytest.approx(claimed, rel=1e-4)
    else:  # a row for another moves two cells of each group
        assert claimed < spent < 2 * claimed


@pytest.mark.parametrize(
    ("options", "data", "match"),
    [
        ({}, {"X": "secret"}, "number"),
        ({}, {"X_target": "secret"}, "number"),
        ({}, {"y": np.zeros(299)}, "different numbers|consistent"),
        ({}, {"owners": [0]}, "one label per row"),
        ({}, {"groups": np.arange(300)}, "max_rows_per_group"),
        ({}, {"y": np.linspace(0, 1, 300)}, "label is missing"),
        ({}, {"y": np.zeros(300)}, r"label is missing.*label=\["),
        ({"schema": None}, {}, "schema is missing"),
        ({"label": "word"}, {}, "does not describe a column"),
        ({"label": [0, 2]}, {}, "holds a"),
        *(({n: 0}, {}, n) for n in ("n_select", "n_synthetic", "n_bins", "rows_per_owner")),
        ({"n_select": 10**13}, {}, "n_select"),
    ],
)
def test_bad_input_costs_nothing_and_names_no_value(options, data, match, unpaid):
    X, y, owners, target = rows_of(n=300)
    given = {"X": X, "y": y, "X_target": target, "owners": owners} | data
    for name, table in (("X", X), ("X_target", target)):
        if given[name] is not table:  # one word among the numbers
            given[name] = table.astype(object)
            given[name][7, 1] = data[name]
    caught = refused(match, make(ledger=unpaid, **options).fit, **given)
    assert "secret" not in str(caught)


def test_it_warns_where_the_sketch_has_nothing():
    X = np.random.default_rng(0).uniform(0, 0.3, (4000, 2))
    table = np.column_stack([X, X[:, 0] > 0.15]).astype(float)
    s = make(label=[0.0, 1.0])
    with pytest.warns(UserWarning, match="Ask more owners"):
        s.fit(X, table[:, 2], X_target=np.random.default_rng(1).uniform(0.8, 1, (300, 2)))
    assert s.X_.shape == (60, 2)  # the release is paid for, and kept
    messages = said(lambda: s.fit(X, table[:, 2], X_target=X[:3]), UserWarning)[1]
    assert any(text.startswith("Give more rows as X_target") for text in messages)


def test_what_no_rows_can_be_drawn_of_is_refused(fitted):
    refused("target names column 5", SketchSummarizer.from_sketch, fitted.sketch_, target=5)
    far = np.full((300, 2), 0.999)
    with pytest.warns(UserWarning, match="Raise n_synthetic=3000"):
        SketchSummarizer.from_sketch(fitted.sketch_, X_target=far, n_synthetic=3000)


@pytest.mark.parametrize("n_owners", [0, -1, 1.9, "3", np.nan])
def test_a_claim_is_for_a_whole_number_of_owners(fitted, n_owners):
    refused("n_owners must be", fitted.privacy_.across, n_owners)


def test_a_person_at_several_owners_composes(fitted):
    two = fitted.privacy_.across(2)
    assert two.mechanism.mu == pytest.approx(fitted.sketch_.privacy.mechanism.mu * np.sqrt(2))
    assert "at most 2 owners" in two.given
    assert "is in two of the tables" not in two.given
    assert "the target and the owners share no person" in two.given
    assert "share no row" not in two.given
    assert fitted.privacy_.across(1).epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)


def test_weights_of_the_owners_own_rows_leave_them_unprotected():
    X, y, owners, _ = rows_of()
    s = make(target_is_owners=True).fit(X, y, X_target=X[:300], owners=owners)
    assert s.privacy_.owners.epsilon(1e-6) == s.privacy_.across(2).epsilon(1e-6) == np.inf
    assert s.privacy_.consumer.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)  # who knows these rows
    assert "the row is not in the target" in s.privacy_.consumer.given


# ---- what an owner sends


def merged_noise(factor=1.0, left_out=0, n_owners=3):
    """Return the noise of a merged sketch in units of what it claims; planted bugs by name."""
    schema = TableSchema([(0, 1), (0, 1), list(range(8))])
    counted = {"n_owners": n_owners, "n_bins": 12, "rows_per_owner": 10**6}  # every triple, too
    sketcher = summary_sketcher(schema, 2, epsilon=1.0, **counted)
    rng, sketches, exact = np.random.default_rng(0), [], 0.0
    for k in range(n_owners):
        table = np.column_stack([rng.random((200, 2)), rng.integers(8, size=200)])
        sketch = simulate(clone(sketcher), table, seed=k).sketch_
        true = sketch.feature_map.float_sums(Table(list(table.T)))
        exact = exact + true
        kept = 0.0 if k < left_out else factor
        sketches.append(replace(sketch, sums=true + kept * (sketch.sums - true)))
    merged = reduce(add, sketches)
    return (merged.sums - exact) / merged.noise_std


def sent(rows):
    """Return what an estimator counts, and the sums that it publishes."""
    X, y, owners, _ = rows_of()
    sketch = make().fit(X, y, X_target=rows, owners=owners).sketch_
    return sketch.feature_map.groups, sketch.sums.tolist()


def test_nothing_that_is_sent_depends_on_the_target():
    target = rows_of()[3]
    assert sent(target) == sent(1 - target)


@pytest.mark.simulated(None)
def test_separate_owners_make_what_one_process_makes():
    """Each at home, with a ledger of its own: the same map, the same noise, the same claim."""
    X, y, owners, target = rows_of()
    s = make(label=[0, 1]).fit(X, y, X_target=target, owners=owners)
    agreed = summary_sketcher(TABLE, 2, n_owners=3, epsilon=3.0)
    sketches = []
    for k in range(3):
        ledger = PrivacyLedger(epsilon=10.0, delta=1e-4)
        own = clone(agreed).set_params(ledger=ledger).fit(np.column_stack([X, y])[owners == k])
        assert len(ledger.entries()) == 1
        sketches.append(own.sketch_)
    merged = reduce(add, sketches)
    np.testing.assert_allclose(merged.noise_std, s.sketch_.noise_std)
    assert merged.feature_map.difference(s.sketch_.feature_map) is None
    assert merged.privacy.mechanism == s.sketch_.privacy.mechanism
    spread = (merged.sums - s.sketch_.sums) / merged.noise_std
    assert 0.8 < spread.std() / np.sqrt(2) < 1.25
    home = SketchSummarizer.from_sketch(merged, 60, X_target=target, n_synthetic=3000)
    assert home.X_[:, 0].mean() > 0.8
    assert home.privacy_.owners.epsilon(1e-6) == pytest.approx(3.0, rel=1e-4)


def is_standard_normal(z):
    """Test the variance alone: 1,152 cells tell 0.7 and 1.3 from 1 by more than 8 errors."""
    low, high = stats.chi2(len(z)).interval(1 - 1e-6)
    return low < z @ z < high


def test_the_merged_noise_is_that_of_all_owners():
    assert is_standard_normal(merged_noise())
    assert not is_standard_normal(merged_noise(factor=0.7))
    assert not is_standard_normal(merged_noise(factor=1.3))
    assert not is_standard_normal(merged_noise(left_out=1))


# ---- groups and defaults


# ---- models from a sketch, for a target


@pytest.fixture(scope="module")
def sketch():
    X, y, _, _ = rows_of(1, 8000)
    schema = {"a": (0, 1), "b": (0, 1), "label": [0, 1]}
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": y})
    marginals = [["a", "label"], ["a", "b", "label"]]
    sketcher = HistogramSketcher(schema=schema, n_bins=8, marginals=marginals)
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
    summary = SketchSummarizer.from_sketch(sketch, 8000, X_target=target[["b", "a"]], **options)
    model = clone(plain.estimator_).fit(summary.X_, summary.y_)
    assert model.score(held, truth) > plain.score(held, truth) + 0.01
    assert 100 < summary.effective_sample_size_ < 5000 == round(plain.effective_sample_size_)
    assert plain.privacy_ == sketch.privacy
