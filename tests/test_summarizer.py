"""The estimator and the meta-estimator: what users of scikit-learn do with them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from curators import curator_of, summarizer_of
from paper_protocols import AskAll
from refusals import refused
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpsumm import PrivateMMDSummarizer, SummarizedEstimator, mmd2
from skdpsumm.privacy import PrivacyLedger, PureDP
from skdpsumm.privacy._mechanisms import Unprotected
from skdpsumm.schema import Categorical, Numeric, Public, PublicVectorizer, TableSchema
from skdpsumm.schema._reading import read_table
from skdpsumm.schema._vectorizer import VectorRows, vectorize
from skdpsumm.summaries import Auction, DataOwner, Propose
from skdpsumm.summaries._parties import run_protocol
from skdpsumm.summaries._protocol import NONE_SHARED

pytestmark = [
    pytest.mark.simulated(0),
    pytest.mark.filterwarnings("ignore:Pass the rows to match"),
    pytest.mark.filterwarnings("ignore:Raise max_share_per_owner"),
    pytest.mark.filterwarnings("ignore:For an accuracy"),
]
PROTOCOLS = ["propose", "pool", "auction"]
SHARED = NONE_SHARED.format("row")
SMALL = {"n_select": 20, "n_components": 64, "gamma": 0.5, "random_state": 0}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def problem(n=150, seed=0):
    """Two owners; the target is like the second's rows, and labels differ between the two."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(0, 1, (n, 2)), rng.normal(3, 1, (n, 2))])
    y = np.concatenate([X[:n, 0] > 0, X[n:, 1] > 3]).astype(int)
    target = rng.normal(3, 1, (n, 2))
    order = rng.permutation(2 * n)  # folds take rows in turn
    owners = np.repeat(["north", "south"], n)
    return X[order], y[order], owners[order], target, (target[:, 1] > 3).astype(int)


def summarizer(**options):
    return summarizer_of(**{**SMALL, **options})


# -------------------------------------------------------------------------------------- attributes


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_fitted_attributes(protocol):
    X, _, owners, target, _ = problem()
    s = summarizer(protocol=protocol, epsilon=20.0).fit(X, X_target=target, owners=owners)
    assert (s.sample_indices_.shape, len(set(s.sample_indices_))) == ((20,), 20)
    chosen = owners[s.sample_indices_].tolist()
    assert s.owner_counts_ == {name: chosen.count(name) for name in ("north", "south")}
    assert 20 <= s.n_accessed_ <= 600
    assert set(s.transcript_) == {"north", "south"}
    assert s.dropped_owners_ == {}
    kernel = np.exp(-0.5 * ((target[:, None] - target) ** 2).sum(axis=2))
    objective = kernel.mean() - mmd2(X[s.sample_indices_], target, gamma=0.5)
    assert sum(s.owner_values_.values()) == pytest.approx(objective, abs=1e-9)
    assert "holds_private_data=True" in repr(s)
    assert "holds_private_data" not in repr(clone(s))
    assert pickle.loads(pickle.dumps(s)).sample_indices_.tolist() == s.sample_indices_.tolist()


@pytest.mark.filterwarnings("ignore:X_target is missing:UserWarning")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_a_target_x_is_summarised(protocol):
    X, _, owners, _, _ = problem()
    s = summarizer(protocol=protocol, epsilon=20.0).fit(X, owners=owners)
    assert protocol == "auction" or min(s.owner_counts_.values()) > 3
    claim = s.privacy_.owners
    if protocol == "pool":
        assert claim.mechanism == PureDP(0.0)
    elif protocol == "auction":
        assert isinstance(claim.mechanism, Unprotected)
    else:
        assert 5 < claim.epsilon(1e-6) <= 20 + 1e-9


def test_fewer_rows_than_asked_for():
    with pytest.warns(UserWarning, match="Lower n_select=20"):
        s = summarizer().fit(np.arange(14.0).reshape(7, 2))
    assert sorted(s.sample_indices_) == list(range(7))


# --------------------------------------------------------------------------------- money and faults


@pytest.mark.parametrize("protocol", ["propose", AskAll()])
def test_a_fit_is_charged_once(protocol):
    X, _, owners, target, _ = problem()
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    s = summarizer(protocol=protocol, ledger=ledger).fit(X, X_target=target, owners=owners)
    (entry,) = ledger.entries()
    assert entry["label"] == "PrivateMMDSummarizer"
    expected = s.privacy_.target.mechanism
    if protocol != "propose":
        expected = expected + s.privacy_.owners.mechanism
    assert ledger.spent.epsilon == pytest.approx(expected.epsilon(1e-5), rel=1e-3)


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({"n_select": 0}, {}, "n_select"),
        ({"protocol": "vote"}, {}, "protocol"),
        ({"protocol": Propose(parsimony=0.5)}, {}, "parsimony"),
        ({"adjacency": "replace_one"}, {}, "n_target is None"),
        ({"shares": {"north": 1.0}}, {}, "shares"),
        ({}, {"owners": [1, 2]}, "owners"),
        ({}, {"X_target": [[1.0]]}, "features"),
        ({}, {"X_target": [[1.0, np.inf]]}, "infinity"),
        ({"protocol": Auction(X_seed=[[1.0]]), "epsilon": 20.0}, {}, "X_seed"),
        ({}, {"y": np.full(300, np.nan)}, "label for each row"),
        ({"schema": {"a": Numeric(), "b": (0, 1)}, "gamma": "auto"}, {}, "has no range"),
        ({}, {"X_holdout": [[1.0]], "y_holdout": [1]}, "X_holdout has 1 columns"),
        ({}, {"X_holdout": [["a", "b"]], "y_holdout": [1]}, "X holds values that are not numbers"),
    ],
)
def test_mistakes_cost_nothing(options, data, message):
    X, y, owners, target, _ = problem()
    ledger = PrivacyLedger(epsilon=np.inf, adjacency=options.get("adjacency", "add_remove"))
    one = summarizer(ledger=ledger, **options)
    if "X_holdout" in data:
        one = SummarizedEstimator(LogisticRegression(), one)
    refused(message, one.fit, X, **{"y": y, "X_target": target, "owners": owners, **data})
    assert ledger.entries() == []


def test_a_target_that_a_pipeline_did_not_map_is_told_why():
    caught = refused("features", summarizer().fit, np.ones((40, 3)), X_target=np.ones((40, 2)))
    assert "transform_input=['X_target']" in caught.__notes__[0]


# -------------------------------------------------------------------------- summarised estimators


def model(**options):
    chosen = summarizer(n_select=60, epsilon=5.0, **options)
    return SummarizedEstimator(LogisticRegression(), chosen)


def test_a_model_for_the_target():
    X, y, owners, target, target_y = problem()
    m = model().fit(X, y, X_target=target, owners=owners)
    assert m.score(X_holdout=target, y_holdout=target_y) > 0.9
    assert m.predict(target).shape == m.decision_function(target).shape == (150,)
    assert m.predict_proba(target).shape == m.predict_log_proba(target).shape == (150, 2)
    assert not hasattr(m, "transform")
    assert m.n_features_in_ == 2
    assert "trained on real rows" in repr(m.privacy_)
    squared = mmd2(X[m.summarizer_.sample_indices_], target, gamma=0.5)
    assert m.mmd_**2 == pytest.approx(squared, abs=1e-12)


def test_score_never_looks_at_the_owners_labels():
    X, y, owners, target, _ = problem()
    m = model().fit(X, y, X_target=target, owners=owners)
    assert m.score(X, y) == m.score(X, 1 - y) == -m.mmd_
    refused("belong together", m.score, X, y, X_holdout=target)


def said(work, what):
    """Return how many warnings with these words come."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        work()
    return sum(what in str(warning.message) for warning in caught)


def test_a_score_that_is_no_accuracy_says_so():
    X, y, owners, target, target_y = problem()
    m = model().fit(X, y, X_target=target, owners=owners)
    held = {"X_holdout": target, "y_holdout": target_y}
    assert said(lambda: m.score(X, y), "For an accuracy") == 1
    assert said(lambda: [m.score(X), m.score(), m.score(X, y, **held)], "For an accuracy") == 0
    m.fit(X, y, X_target=target, owners=owners, **held)
    assert said(lambda: m.score(X, y), "For an accuracy") == 0


def test_a_missing_target_is_told():
    X, y, *_ = problem()
    missing = "match as X_target"
    assert said(lambda: summarizer().fit(X), missing) == 1
    assert said(lambda: summarizer().fit_resample(X, y), missing) == 1
    assert said(lambda: summarizer().fit(X, X_target=X), missing) == 0
    assert said(lambda: summarizer(target_is_owners=True).fit(X), missing) == 0


def test_held_out_rows_given_to_fit_are_kept_for_score():
    X, y, owners, target, target_y = problem()
    held = {"X_holdout": target, "y_holdout": Public(target_y)}
    m = model().fit(X, y, X_target=target, owners=owners, **held)
    assert m.score(X, y) == m.score(X_holdout=target, y_holdout=target_y) > 0.9
    wrong = m.predict(target) != target_y
    assert m.score(X_holdout=target, y_holdout=target_y, sample_weight=wrong + 1e-9) < 0.01
    assert "holds_private_data=True" in repr(m)
    refused("belong together", m.fit, X, y, X_holdout=target)


def test_x_itself_as_target_counts_against_the_owners():
    X, *_ = problem()
    for table in (X, X.tolist(), pd.DataFrame(X)):
        for target in (table, Public(table)):
            claim = summarizer().fit(table, X_target=target).privacy_.owners
            assert claim.epsilon(1e-6) > 0.9
            assert SHARED not in claim.given
    overlap = summarizer(target_is_owners=True).fit(X[:400], X_target=X.copy())
    assert overlap.privacy_.owners.epsilon(1e-6) > 0.9
    assert SHARED not in overlap.privacy_.owners.given
    assert model().fit(X, X[:, 0] > 1, X_target=X).privacy_.owners.epsilon(1e-6) > 0.9


TARGETS = {
    "equal": lambda X: X.copy(),
    "permuted": lambda X: X[::-1].copy(),
    "float32": lambda X: X.astype(np.float32),
    "twice": lambda X: np.vstack([X, X]),
    "a part": lambda X: X[:30].copy(),
    "a view": lambda X: X[:30],
    "a list": lambda X: X.tolist(),
    "others": lambda X: X + 1e-3,
}


@pytest.mark.parametrize("protocol", ["propose", "pool", AskAll()])
def test_claims_and_charge_do_not_depend_on_which_rows_are_in_the_target(protocol):
    """They follow from public facts, and name what they rest on where it was not said."""
    X, *_ = problem()
    X, found = X[::4], set()
    for make in TARGETS.values():
        ledger = PrivacyLedger(epsilon=np.inf, delta=1e-3)
        s = summarizer(protocol=protocol, ledger=ledger, n_components=16, n_target=100)
        privacy = s.fit(X, X_target=make(X)).privacy_
        found.add((repr(privacy), repr([entry["mechanism"] for entry in ledger.entries()])))
        assert (SHARED in privacy.owners.given) == (protocol != "pool")
        assert (SHARED in privacy.target.given) == (not isinstance(protocol, str))
    assert len(found) == 1


@pytest.mark.parametrize("owners", [["a", None], [1.0, np.nan], [None, None], [np.nan, "a"]])
def test_owners_that_are_missing_are_refused(owners):
    X, *_ = problem()
    with pytest.raises(ValueError, match="none missing"):
        summarizer().fit(X, X_target=X, owners=np.array(owners * 300, dtype=object))


def test_a_target_in_the_place_of_labels_is_refused(unpaid):
    X, y, _, target, _ = problem()
    for wrong in (target, Public(target), y[:-1]):
        refused("did you mean X_target=", summarizer(ledger=unpaid).fit, X, wrong)
    summarizer().fit(X, y, X_target=target)


def test_sample_weight_is_cut_to_the_chosen_rows(routing):
    X, y, owners, target, _ = problem()
    m = model()
    m.estimator.set_fit_request(sample_weight=True)
    weights = np.where(y == 1, 1e6, 1.0)
    m.fit(X, y, X_target=target, owners=owners, sample_weight=weights)
    assert m.predict(target).mean() > 0.9


def test_rows_are_chosen_in_pipelines_of_imbalanced_learn(routing):
    pipelines = pytest.importorskip("imblearn.pipeline")
    X, y, owners, target, _ = problem()
    steps = [("rows", summarizer(n_select=60, epsilon=50.0)), ("model", LogisticRegression())]
    plain = pipelines.Pipeline(steps).fit(X, y)
    assert len(plain[0].sample_indices_) == 60
    routed = pipelines.Pipeline(steps).fit(X, y, X_target=target, owners=owners)
    assert routed[0].owner_counts_["south"] > 45
    assert routed.predict(target).shape == (len(target),)
    routed[0].set_fit_resample_request(owners=False)


# ------------------------------------------------------------------------------------------ schemas

PEOPLE = TableSchema(
    {
        "age": Numeric(17, 90, step=1),
        "gain": Numeric(0, 99_999, missing=True),
        "job": Categorical(["clerk", "farmer", "nurse"], missing=True),
        "sex": Categorical(["Female", "Male"]),
    },
    extra_columns="drop",
)


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["Female", "Male"], n),
            "age": rng.integers(17, 91, n),
            "job": rng.choice(["clerk", "farmer", "nurse", None], n),
            "gain": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 100_000, n)),
            "note": [f"free text {k}" for k in range(n)],
        }
    )
    return frame, rng.choice(["north", "south"], n), (frame.age > 50).astype(int)


def wanted_people():
    frame, *_ = people(500, seed=1)
    return frame[(frame.job == "nurse") & (frame.age > 60)]


def on_schema(**options):
    options = {"n_select": 20, "n_components": 300, "random_state": 0, **options}
    return PrivateMMDSummarizer(PEOPLE, **options)


def test_a_raw_frame_is_read_through_the_schema_and_returned_as_it_is():
    X, owners, y = people()
    target = wanted_people()
    s = on_schema(epsilon=20.0)
    rows, labels = s.fit_resample(X, y, X_target=target, owners=owners)
    pd.testing.assert_frame_equal(rows, X.iloc[s.sample_indices_])
    np.testing.assert_array_equal(labels, y.iloc[s.sample_indices_])
    assert (rows.job == "nurse").mean() > 0.6
    assert rows.age.mean() > 60
    assert s.schema_ == PEOPLE
    assert s.vectors(X).shape == (600, 1 + 2 + 4 + 2)
    assert np.linalg.norm(s.vectors(X), axis=1).max() <= 1
    assert s.embedding_.n_columns == 9
    found = mmd2(rows, target, schema=PEOPLE)
    assert found == mmd2(s.vectors(rows), s.vectors(target), gamma=s.gamma_)
    assert found < 0.2 * mmd2(X[:20], target, schema=PEOPLE)


def test_owners_of_cells_answer_as_owners_of_vectors_do():
    """Vectors are made block by block, of few rows and of many; the choice is the same."""
    names = list(PEOPLE.names)
    X = people(20_000)[0][names]  # so many that phi of all is not kept
    cells, vectors = (make(PEOPLE, read_table(X)) for make in (VectorRows.of, vectorize))
    np.testing.assert_array_equal(cells[:], vectors)
    np.testing.assert_array_equal(cells.part(np.arange(5, 9))[np.array([3, 0])], vectors[[8, 5]])
    target = vectorize(PEOPLE, read_table(wanted_people()[names]))
    sent = []
    for rows in (cells, vectors):
        parties = {"one": DataOwner(rows, seed=1), "few": DataOwner(rows[:500], seed=2)}
        options = {"n_components": 100, "n_select": 20, "random_state": 0, "gamma": 1.0}
        curator = run_protocol(curator_of(target, list(parties), **options), parties)
        sent.append((curator.chosen, curator.pool.X.tolist()))
        assert parties["one"]._grid is None
    assert sent[0] == sent[1]


def test_a_model_of_raw_rows():
    X, owners, _ = people()
    held = wanted_people()
    learner = make_pipeline(PublicVectorizer(PEOPLE), LogisticRegression())
    bare = SummarizedEstimator(learner[-1], on_schema(n_select=60))
    with pytest.raises(ValueError, match=r"make_pipeline\(PublicVectorizer\(schema\)"):
        bare.fit(X, X.sex, X_target=held, owners=owners)
    assert not hasattr(bare, "summarizer_")  # and nothing was paid for
    unknown = SummarizedEstimator(RandomForestClassifier(), on_schema(n_select=60))
    refused("paid for", unknown.fit, X, X.sex, X_target=held, owners=owners)
    assert len(unknown.summarizer_.sample_indices_) == 60
    m = SummarizedEstimator(learner, on_schema(n_select=60))
    held_labels = np.where(held.sex == "Male", 1, 0)
    y = np.where(X.sex == "Male", 1, 0)
    m.fit(X, y, X_target=held, owners=owners, X_holdout=held, y_holdout=held_labels)
    assert m.score(X, y) > 0.8
    squared = mmd2(X.iloc[m.summarizer_.sample_indices_], held, schema=PEOPLE)
    assert m.mmd_ == pytest.approx(np.sqrt(squared))
