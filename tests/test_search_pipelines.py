"""The private search over pipelines: rows that move no other row, names, grids, and silence."""

import joblib
import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy.stats import uniform
from simulated import simulate
from sklearn import __version__ as sklearn_version
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.utils.fixes import parse_version
from stub_learners import Stub

from skdpsumm.features import _row_alone
from skdpsumm.learners import TDILClassifier
from skdpsumm.model_selection import PrivateSearchCV
from skdpsumm.model_selection._candidate import STEPS, PublicRows, PublicSteps, TableForm
from skdpsumm.privacy import BudgetExceededError, PrivacyLedger
from skdpsumm.privacy._best_of import StoppingLaw
from skdpsumm.schema import Categorical, Numeric, PublicVectorizer, TableSchema
from skdpsumm.schema._reading import column_names, validate_table

pytestmark = [
    pytest.mark.simulated(0),
    pytest.mark.filterwarnings("ignore:Feature .* is constant"),
    pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation"),
]

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (101, 6))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
# The price of "objective", which is the default here, takes half a second to find.
LEARNER = TDILClassifier(norm_bound=3.0, mechanism="functional")


def mapped(*steps, rows=X):
    """Return the maps of a pipeline with these steps, fitted to ten of the rows."""
    public = PublicRows(rows[:10], np.arange(10) % 2)
    return PublicSteps.fitted(make_pipeline(*steps, LEARNER), public)


def search(estimator, choices, **params):
    params = {"expected_trials": 3, "epsilon": 8.0, "random_state": 0} | params
    return PrivateSearchCV(estimator, choices, **params)


# ------------------------------------------------------------------ no row moves another


def one_by_one(maps, rows):
    """Return what the steps make of each row alone, by themselves: the definition."""
    found = []
    for i in range(len(rows)):
        row = rows[i : i + 1]
        for step in maps.before:
            row = step.transform(row)
        found.append(np.asarray(row.toarray() if hasattr(row, "toarray") else row, np.float64))
    return np.concatenate(found)


SCALE = PublicVectorizer(schema=(-1, 1))
KINDS = {
    "scaler": [SCALE],
    "polynomials": [SCALE, PolynomialFeatures(3)],
    "fourier": [SCALE, RBFSampler(gamma=0.7, n_components=37, random_state=0)],
    "nothing": ["passthrough", SCALE, None, RBFSampler(n_components=5, random_state=0)],
    "signs": [Binarizer(), RBFSampler(n_components=20, random_state=0)],
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("block_rows", [4096, 16])
def test_no_row_moves_another(monkeypatch, name, block_rows):
    """Not by a bit, with its place or its company."""
    monkeypatch.setattr(_row_alone, "_ROWS_MAPPED_AT_ONCE", block_rows)
    maps, places = mapped(*KINDS[name]), np.arange(len(X))
    whole, good = maps(X)
    assert good.all()
    np.testing.assert_allclose(whole, one_by_one(maps, X), rtol=0, atol=1e-12)
    for parts in ([places[::-1]], places[:, None], np.split(places, [1, 8, 9])):
        for part in parts:
            assert np.array_equal(maps(X[part])[0], whole[part])


def test_all_steps_on_the_list_are_mapped_row_by_row():
    assert set(STEPS) <= _row_alone._BY_ENTRY | {RBFSampler}


def test_a_row_that_a_step_makes_infinite_moves_no_other():
    maps, huge = mapped(PolynomialFeatures(2)), np.vstack([X, np.full((1, 6), 1e200)])
    values, good = maps(huge)
    np.testing.assert_array_equal(np.flatnonzero(~good), [len(X)])
    np.testing.assert_array_equal(values[:-1], maps(X)[0])
    assert np.isfinite(values).all()


class Centred(TransformerMixin, BaseEstimator):
    """A transformer that mixes rows, against all advice."""

    def fit(self, X, y=None):
        raise AssertionError("A search shows it no rows.")

    def transform(self, X):
        return X - X.mean(axis=0)


class CentredScaler(PublicVectorizer):
    """Looks like one that is known."""

    def transform(self, X):
        return super().transform(X) - np.mean(X)


REFUSED = {
    "of another type": Centred(),
    "subclass": CentredScaler(schema=(-1, 1)),
    "of labels": SelectKBest(k=2),
    "of all rows": PCA(2),
    "function": FunctionTransformer(np.log1p),
    "union": FeatureUnion([("a", SCALE)]),
    "columns": make_column_transformer((SCALE, [0, 1])),
    "frozen": FrozenEstimator(StandardScaler().fit(X)),
}


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, "first") for name in REFUSED] + [("of all rows", "later"), ("function", "candidate")],
)
def test_other_steps_are_refused_before_the_charge_with_what_to_write(name, place, unpaid):
    step = REFUSED[name]
    steps = {"first": [step], "later": [SCALE, step], "candidate": [SCALE, "passthrough"]}[place]
    pipe = Pipeline([*zip("ab", steps, strict=False), ("learner", LEARNER)])
    choices = {"b": [None, step]} if place == "candidate" else {}
    told = f"takes no {type(step).__name__}.*PublicVectorizer.*kernel"
    refused(told, search(pipe, choices, ledger=unpaid).fit, X, Y)


def test_a_width_that_is_learned_from_rows_is_refused():
    pipe = make_pipeline(SCALE, RBFSampler(gamma="scale"), LEARNER)
    refused("Give RBFSampler a number as gamma", search(pipe, {}).fit, X, Y)


# ------------------------------------------------------------------ candidates that are the same


# ------------------------------------------------------------------ names


# ------------------------------------------------------------------ all of a grid is tried first


@pytest.mark.statistical
@pytest.mark.parametrize("noise_seed", range(4))
def test_a_grid_with_a_bad_candidate_fails_always(noise_seed, unpaid):
    choices = {"regularization": [1.0, 2.0, 3.0, 4.0, -5.0]}
    model = search(LEARNER, choices, ledger=unpaid, expected_trials=1.01)
    with pytest.raises(ValueError, match=r"draw \{'regularization': -5\.0\}.*'regularization' par"):
        simulate(model, X, Y, seed=noise_seed)


# ------------------------------------------------------------------ silence


@pytest.mark.statistical
def test_nothing_else_tells_of_trials(monkeypatch, capfd, tmp_path, recwarn):
    """Neither joblib's messages, nor those of a pipeline, nor what it would keep on the disk."""
    monkeypatch.setattr(StoppingLaw, "draw", lambda self, rng: 5)
    pipe = Pipeline(
        [("scale", SCALE), ("map", RBFSampler(n_components=5)), ("learner", LEARNER)],
        memory=str(tmp_path),
        verbose=True,
    )
    with joblib.parallel_config(backend="sequential", verbose=50):
        model = search(pipe, {"map__gamma": uniform(0.1, 1.0)}).fit(X, Y)
    assert ("".join(capfd.readouterr()), list(tmp_path.iterdir())) == ("", [])
    assert (model.best_estimator_.memory, model.best_estimator_.verbose) == (None, False)
    # What the search says of its choice follows from the release.
    # Python's own, of what another test left, is told in whatever test comes next.
    said = [w for w in recwarn if w.category is not pytest.PytestUnraisableExceptionWarning]
    assert {str(w.message)[:10] for w in said} <= {"Leave simu", "Fit the es"}


def test_a_ledger_in_another_step_would_count_trials(unpaid):
    own = make_pipeline(SCALE, clone(LEARNER).set_params(ledger=unpaid))
    refused("ledger of its own", search(own, {}).fit, X, Y)
    pipe = Pipeline([("scale", SCALE), ("learner", LEARNER)])
    search(pipe, {"learner": [clone(LEARNER).set_params(ledger=unpaid)]}).fit(X, Y)


class Leaves(Stub):
    """A learner that fails on the private rows, with some of them in its hands and its mouth."""

    def __init__(self, epsilon=1.0, delta=0.0, adjacency="add_remove", ledger=None, odd=None):
        super().__init__(epsilon, delta, adjacency, ledger)
        self.odd = odd

    def fit(self, X, y):
        if len(X) > 25:
            self.rows_ = X
            raise RuntimeError(f"The first row is {X[0]}.")
        if self.odd:  # breaks when it is fitted to public rows again
            self.odd.append(1)
            if len(self.odd) > 2:
                raise RuntimeError("It fails on public rows, too.")
        return super().fit(X, y)


class Shared(list):
    """A list that its copies share."""

    def __deepcopy__(self, memo):
        return self


def test_a_run_that_fails_leaves_nothing():
    model = search(Leaves(), {}, delta=0.0).fit(X, Y)
    assert not hasattr(model.best_estimator_, "rows_")
    with pytest.raises(RuntimeError, match="on public rows") as caught:
        search(Leaves(odd=Shared([1])), {}, delta=0.0).fit(X, Y)
    error = caught.value
    while error is not None:
        assert "first row" not in str(error)
        error = error.__cause__ or error.__context__


def test_a_table_that_memory_does_not_hold_tells_no_size(monkeypatch):
    maps = PublicSteps.__call__

    def no_memory(self, rows):
        if len(rows) < len(X):  # public ones
            return maps(self, rows)
        raise MemoryError(f"Unable to allocate an array with shape {rows.shape}")

    monkeypatch.setattr(PublicSteps, "__call__", no_memory)
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-5)
    model = search(make_pipeline(SCALE, LEARNER), {}, ledger=ledger).fit(X, Y)
    assert model.best_sum_ < 0
    assert len(ledger.entries()) == 1


# ------------------------------------------------------------------ the price in a ledger


def test_a_refusal_tells_of_the_price_in_a_ledger():
    for delta, left, match in [(1e-6, 1.0, "search as more than its"), (0.0, 0.9, r"not cover\.$")]:
        ledger = PrivacyLedger(epsilon=left, delta=delta)
        model = search(LEARNER, {}, epsilon=1.0, delta=delta, ledger=ledger)
        refused(match, model.fit, X, Y, error=BudgetExceededError)
        assert ledger.entries() == []


# ------------------------------------------------------------------ tables, as the user has them


N = 300
TABLE = pd.DataFrame(
    {
        "sex": RNG.integers(0, 2, N),
        "age": RNG.uniform(18, 90, N),
        "kids": RNG.integers(0, 5, N),
        "married": RNG.random(N) < 0.5,
        "job": RNG.choice(["a", "bb"], N),
    }
)
NUMERIC = ["sex", "age", "kids", "married"]
NEWER = parse_version(sklearn_version) >= parse_version("1.7")  # sees names in frames of polars 2


class Keeps(Stub):
    """A learner that keeps what it was trained on, and predicts the first column."""

    def fit(self, X, y):
        self.rows_ = dense(X)
        return super().fit(X, y)

    def predict(self, X):
        return self.classes_[(dense(X)[:, 0] > 0.5).astype(int)]


def dense(rows):
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)


# ------------------------------------------------------------------ no row changes another's types


ODD = [2.5, np.nan, None, True, -1, 2**53 + 1, 1e300, "7", np.float32(0.1), np.int8(1)]


def read(table, schema):
    """Return a table as a search reads it."""
    names = column_names(table)
    cells = validate_table(Reads(), table, schema=schema)
    return TableForm.of(table[:0], schema, names).read(cells)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("column", ["sex", "age", "job"])
def test_one_odd_cell_changes_no_other_row_as_it_is_read(odd, column):
    jobs, sexes = Categorical(["a", "bb"], missing=True), Categorical([0, 1], missing=True)
    numbers = dict.fromkeys(["age", "kids", "married"], Numeric())
    more = pd.concat([TABLE, TABLE[:1].astype(object).assign(**{column: [odd]})])
    tables = [TABLE, more, more.astype(object), TABLE.astype(object)]
    found = []
    for schema in (TableSchema({"job": jobs, "sex": sexes, **numbers}), None):
        for table in tables:
            try:
                found.append(read(table if schema else table[NUMERIC], schema)[:N])
            except (TypeError, ValueError):
                assert len(table) > N
        assert len(found) >= 2
        for one in found[1:]:
            pd.testing.assert_frame_equal(one, found[0])
        found.clear()


# ------------------------------------------------------------------ tables with a schema


SCHEMA = TableSchema(
    {
        "age": Numeric(17, 90, step=1),
        "hours": Numeric(0, 99, step=1, missing=True),
        "sex": ["Female", "Male"],
        "work": Categorical(["private", "state", "own"], missing=True),
    },
    extra_columns="drop",
)


def adult(n=N):
    """Return a table like Adult: words, missing values, whole numbers, a column of no use."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(n)],
            "age": rng.integers(17, 91, n),
            "work": rng.choice(np.array(["private", "state", "own", None], object), n),
            "sex": rng.choice(["Female", "Male"], n),
            "hours": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 100, n)),
        }
    )
    return table, (table["sex"] == "Male").to_numpy()


ADULT, MALE = adult()
OF_ADULT = {
    "as it is": lambda table: table,
    "objects": lambda table: table.astype(object),
    "nullable": lambda table: table.convert_dtypes(),
    "categories": lambda table: table.astype({"sex": "category", "work": "category"}),
    "polars": lambda table: pytest.importorskip("polars").DataFrame(
        {name: [None if pd.isna(v) else v for v in table[name]] for name in table}
    ),
}
if not NEWER:
    OF_ADULT.pop("polars")


class Reads(Keeps):
    """A learner that reads a table through a schema, and keeps what it was trained on."""

    def __init__(self, schema=None, epsilon=1.0, delta=0.0, adjacency="add_remove", ledger=None):
        super().__init__(epsilon, delta, adjacency, ledger)
        self.schema = schema

    def fit(self, X, y):
        self.vectorizer_ = PublicVectorizer(self.schema).fit(X)
        return super().fit(self.vectorizer_.transform(X), y)

    def predict(self, X):
        return self.classes_[(self.vectorizer_.transform(X)[:, 0] > 0).astype(int)]


@pytest.mark.parametrize("types", OF_ADULT)
@pytest.mark.parametrize("kind", ["vectorizer", "behind nothing", "learner"])
def test_a_raw_table_is_read_through_a_schema(types, kind):
    table = OF_ADULT[types](ADULT)
    vectorizer = PublicVectorizer(SCHEMA)
    expected = vectorizer.fit_transform(ADULT)
    estimator = {
        "vectorizer": make_pipeline(vectorizer, Keeps()),
        "behind nothing": make_pipeline("passthrough", vectorizer, "passthrough", Keeps()),
        "learner": Reads(SCHEMA),
    }[kind]
    ledger = PrivacyLedger(epsilon=100.0)
    model = search(estimator, {}, delta=0.0, holdout=1e-12, ledger=ledger).fit(table, MALE)
    assert len(ledger.entries()) == 1
    learner = model.best_estimator_ if kind == "learner" else model.best_estimator_[-1]
    np.testing.assert_array_equal(learner.rows_, expected)
    assert model.predict(table).shape == MALE.shape


@pytest.mark.parametrize("name", ["schema", "learner"])
def test_all_candidates_read_the_table_through_one_schema(name, unpaid):
    other = TableSchema({"sex": ["Female", "Male"]}, extra_columns="drop")
    estimator, choices = Reads(SCHEMA), {"schema": [SCHEMA, other]}
    if name == "learner":
        estimator = Pipeline([("learner", estimator)])
        choices = {"learner": [Reads(SCHEMA), Reads(other)]}
    model = search(estimator, choices, delta=0.0, ledger=unpaid)
    refused(r"one schema, for all candidates\. Set schema", model.fit, ADULT, MALE)
