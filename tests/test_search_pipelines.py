"""The private search over pipelines: rows that move no other row, names, grids, and silence."""

import json
import math

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import uniform
from sklearn import __version__ as sklearn_version
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils.fixes import parse_version

from skdpsumm import (
    BudgetExceededError,
    Categorical,
    HistogramSketcher,
    M2MClassifier,
    Numeric,
    PrivacyGuarantee,
    PrivacyLedger,
    PrivateSearchCV,
    PublicVectorizer,
    TableSchema,
    TDILClassifier,
)
from skdpsumm.features import _row_alone
from skdpsumm.model_selection import _private_search, _stopping
from skdpsumm.model_selection._candidate import Choices, PublicSteps, alike, groups_of, steps_before
from skdpsumm.model_selection._public_rows import PublicRows, Reading
from skdpsumm.model_selection._stopping import Poisson, TruncatedNegativeBinomial
from skdpsumm.privacy import PureDP

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
    pytest.mark.filterwarnings("ignore:Feature .* is constant"),
    pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation"),
]

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (101, 6))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
FRAME = pd.DataFrame(
    {"job": RNG.choice(["a", "b", "c"], 101), "age": RNG.integers(18, 90, 101), "height": X[:, 0]}
)
NAMES = (FRAME["job"] == "a").to_numpy()
JOBS = OneHotEncoder(categories=[["a", "b", "c"]])
# The price of "objective", which is the default here, takes half a second to find.
LEARNER = TDILClassifier(norm_bound=3.0, mechanism="functional")


def mapped(*steps, rows=X):
    """Return the maps of a pipeline with these steps, fitted to ten of the rows."""
    public = PublicRows(rows[:10], np.arange(10) % 2)
    return PublicSteps.fitted(make_pipeline(*steps, LEARNER), public)


def search(estimator, choices, **params):
    params = {"expected_trials": 3, "epsilon": 8.0, "noise_seed": 0, "random_state": 0} | params
    return PrivateSearchCV(estimator, choices, **params)


# ------------------------------------------------------------------ no row moves another


def one_by_one(maps, rows):
    """Return what the steps make of each row alone, by themselves: the definition."""
    found = []
    for i in range(len(rows)):
        row = rows[i : i + 1]
        for before in maps.before:
            row = before.transform(row)
        found.append(np.asarray(row.toarray() if hasattr(row, "toarray") else row, np.float64))
    return np.concatenate(found)


def moves_another(maps, rows):
    """Return whether any row's values differ, by a bit, with its place or its company."""
    whole, good = maps(rows)
    other = np.arange(len(rows))[::-1]
    parts = [rows[a:b] for a, b in ((0, 1), (1, 8), (8, 9), (9, len(rows)))]
    shuffled = rows.iloc[other] if hasattr(rows, "iloc") else rows[other]
    singly = [maps(rows[i : i + 1])[0] for i in range(len(rows))]
    same = (
        np.allclose(whole, one_by_one(maps, rows), rtol=0, atol=1e-12),
        np.array_equal(whole, np.concatenate(singly)),
        np.array_equal(whole, maps(shuffled)[0][other]),
        np.array_equal(whole, np.concatenate([maps(part)[0] for part in parts])),
        good.all(),
    )
    return not all(same)


SCALE = PublicVectorizer(schema=(-1, 1))
STEPS = {
    "scaler": [SCALE],
    "polynomials": [SCALE, PolynomialFeatures(3)],
    "fourier": [SCALE, RBFSampler(gamma=0.7, n_components=37, random_state=0)],
    "scalers": [StandardScaler(), MinMaxScaler(clip=True), MaxAbsScaler(), RobustScaler()],
    "bins": [SCALE, KBinsDiscretizer(3, strategy="uniform")],
    "signs": [Binarizer(), OrdinalEncoder(categories=[[0.0, 1.0]] * 6)],
    "union": [FeatureUnion([("a", MinMaxScaler()), ("b", Binarizer()), ("c", "passthrough")])],
    "nested": [make_pipeline(SCALE, "passthrough"), PolynomialFeatures(2)],
    "nested union": [ColumnTransformer([("all", FeatureUnion([("a", SCALE)]), [0, 3])])],
    "fourier in a union": [FeatureUnion([("a", RBFSampler(n_components=20, random_state=0))])],
    "others": [SCALE, Normalizer(), RBFSampler(n_components=20, random_state=0)],
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("block_rows", [4096, 16])
def test_no_row_moves_another(monkeypatch, name, block_rows):
    monkeypatch.setattr(_row_alone, "_ROWS_MAPPED_AT_ONCE", block_rows)
    assert not moves_another(mapped(*STEPS[name]), X)


@pytest.mark.statistical
def test_no_row_of_a_frame_moves_another():
    numbers = ("numbers", make_pipeline(SCALE, PolynomialFeatures(2)), ["age", "height"])
    union = ColumnTransformer([("jobs", JOBS, ["job"]), numbers])
    for steps in ([union], [union, StandardScaler()]):
        assert not moves_another(mapped(*steps, rows=FRAME), FRAME)
    assert not moves_another(mapped(*STEPS["scaler"]), X.astype(np.float32))


def test_whether_a_block_is_sparse_is_no_matter():
    """A ColumnTransformer decides that by the public rows: StandardScaler may refuse it or not."""
    jobs = OneHotEncoder(categories=[list("abcde")])
    union = make_column_transformer((jobs, ["job"]), remainder="passthrough")
    rows = FRAME.assign(age=np.arange(101) % 2, height=np.arange(101) % 2)
    for public in (rows[::2][:10], rows[1::2][:10]):
        maps = PublicSteps.fitted(make_pipeline(union, LEARNER), PublicRows(public, np.zeros(10)))
        outputs = [maps.before[0].transform(part) for part in (rows[:1], rows[1:2], rows)]
        assert len({type(output) for output in outputs}) == 1
        assert not moves_another(maps, rows)


class Centred(TransformerMixin, BaseEstimator):
    """A transformer that mixes rows, against all advice."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X - X.mean(axis=0)


class CentredScaler(PublicVectorizer):
    """Looks like one that is known."""

    def transform(self, X):
        return super().transform(X) - np.mean(X)


@pytest.mark.parametrize("step", [Centred(), CentredScaler(schema=(-1, 1))])
def test_unknown_types_get_one_row_at_a_time(monkeypatch, step):
    assert not moves_another(mapped(step), X)
    # The check sees what would happen were they taken for row-wise ones.
    monkeypatch.setattr(_row_alone, "_BY_ENTRY", _row_alone._BY_ENTRY | {type(step)})
    assert moves_another(mapped(step), X)


def test_a_row_that_a_step_refuses_moves_no_other():
    maps = mapped(make_column_transformer((JOBS, ["job"]), remainder="passthrough"), rows=FRAME)
    bad = FRAME.astype({"job": object})
    bad.loc[[7, 8, 50], "job"] = ["private", None, 3]
    values, good = maps(bad)
    np.testing.assert_array_equal(np.flatnonzero(~good), [7, 8, 50])
    np.testing.assert_array_equal(values[good], maps(FRAME)[0][good])
    assert not values[~good].any()
    # Also where what is no number is left to the last conversion.
    kept = mapped(make_column_transformer(("passthrough", ["age"])), rows=FRAME)
    odd = FRAME.astype({"age": object})
    odd.loc[3, "age"] = "private"
    np.testing.assert_array_equal(np.flatnonzero(~kept(odd)[1]), [3])


# ------------------------------------------------------------------ once per setting


@pytest.mark.parametrize("n_trials", [1, 6])
def test_a_row_is_mapped_once_for_all_trials(monkeypatch, n_trials):
    seen = []
    monkeypatch.setattr(TruncatedNegativeBinomial, "draw", lambda self, rng: n_trials)
    spy = FunctionTransformer(lambda rows: seen.append(rows.tobytes()) or rows)
    model = search(make_pipeline(spy, LEARNER), {"tdilclassifier__regularization": [1.0, 2.0]})
    model.fit(X, Y)
    assert [seen.count(row.tobytes()) for row in X] == [1] * len(X)


@pytest.mark.statistical
def test_sharing_maps_changes_nothing(monkeypatch):
    pipe = Pipeline([("map", RBFSampler(n_components=10)), ("learner", LEARNER)])
    choices = {"map__gamma": [0.5, 1.0, 2.0], "learner__regularization": [1.0, 3.0]}
    found = []
    for group in (groups_of, lambda items, key: [[j] for j in range(len(items))]):
        monkeypatch.setattr(_private_search, "groups_of", group)
        model = search(pipe, choices, expected_trials=8).fit(X, Y)
        found.append((model.best_params_, model.best_sum_, model.predict(X).tolist()))
    assert found[0] == found[1]


def test_alike_takes_nothing_on_trust():
    fitted = [FrozenEstimator(StandardScaler().fit(k * X)) for k in (1, 2)]
    functions = [FunctionTransformer(lambda rows, k=k: k * rows) for k in (1, 2)]
    scalers = [PublicVectorizer(schema=np.array([0.0, k])) for k in (1, 2)]
    for a, b in (fitted, functions, scalers, (1, True), (1, 1.0), ([1], (1,)), ({1: 2}, {1: 3})):
        assert not alike(a, b)
    for a in (fitted[0], functions[0], make_pipeline(*scalers), [np.nan], {"a": [1, "b"]}):
        assert alike(a, a)
    assert alike(make_pipeline(JOBS, RBFSampler()), make_pipeline(JOBS, RBFSampler()))
    pipes = [make_pipeline(RBFSampler(gamma=g), LEARNER) for g in (1.0, 2.0, 1.0)]
    assert groups_of(pipes, steps_before) == [[0, 2], [1]]


@pytest.mark.statistical
def test_predictions_are_scored_as_the_pipeline_makes_them():
    """By what a row was mapped to, or by the whole pipeline: the same sum."""
    pipe = make_pipeline(SCALE, PolynomialFeatures(2), LEARNER)

    def accuracy(estimator, row, label):
        return estimator.predict(row) == label

    sums = [
        search(pipe, {}, scoring=scoring, score_bounds=(0, 1)).fit(X, Y).best_sum_
        for scoring in ("accuracy", accuracy)
    ]
    assert sums[0] == sums[1]


def test_public_points_go_through_the_maps():
    from skdpsumm import TDDLClassifier

    pipe = make_pipeline(PublicVectorizer(schema=(-1, 1)), TDDLClassifier(gamma=1.0))
    model = search(pipe, {}).fit(X, Y, X_public=X[:20])
    points = model.best_estimator_[-1].predictor_.points
    np.testing.assert_array_equal(points, pipe[0].fit_transform(X[:20]))


# ------------------------------------------------------------------ names


NUMBERS = (PublicVectorizer(schema=[(18, 90), (-1, 1)]), ["age", "height"])
WORDS = PublicVectorizer({"job": ["a", "b", "c"]})


@pytest.mark.statistical
@pytest.mark.parametrize("jobs", [["job"], [True, False, False], [0]])
@pytest.mark.parametrize("rows", [FRAME, FRAME.astype({"job": "category"})])
def test_frames_with_names(jobs, rows):
    columns = make_column_transformer((WORDS, jobs), NUMBERS)
    choices = {"tdilclassifier__regularization": [0.1, 1.0]}
    model = search(make_pipeline(columns, LEARNER), choices, epsilon=100.0).fit(rows, NAMES)
    assert list(model.feature_names_in_) == list(rows.columns)
    assert model.score(rows, NAMES) > 0.9


@pytest.mark.statistical
def test_arrays_with_names():
    known = PublicVectorizer([["a", "b", "c"]])
    columns = make_column_transformer((known, [0]), (PublicVectorizer(schema=(18, 90)), [1]))
    model = search(make_pipeline(columns, LEARNER), {}, epsilon=100.0)
    assert model.fit(FRAME.to_numpy(), NAMES).score(FRAME.to_numpy(), NAMES) > 0.9


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (make_column_transformer((OneHotEncoder(), ["job"])), "lists the public values"),
        (make_column_transformer((JOBS, ["job"])), "PublicVectorizer.schema. in the place"),
        (make_column_transformer((PublicVectorizer([["a", "b"]]), ["job"])), "not among"),
        (make_column_transformer((PublicVectorizer([["a", "b"]]), ["height"])), "not among"),
        (
            make_column_transformer((WORDS, make_column_selector(dtype_include=object))),
            "Name the columns of the ColumnTransformer",
        ),
        (
            make_column_transformer(NUMBERS, remainder="passthrough"),
            "List its words in",
        ),
        ("passthrough", "'job' must hold finite numbers"),
    ],
)
def test_names_that_are_not_listed_cost_nothing(first, message):
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-5)
    rows = FRAME.replace({"job": {"c": "secret"}}) if "List its words" in message else FRAME
    with pytest.raises(ValueError, match=message) as caught:
        search(make_pipeline(first, LEARNER), {}, ledger=ledger).fit(rows, NAMES)
    assert "secret" not in str(caught.value)
    assert ledger.entries() == []


# ------------------------------------------------------------------ all of a grid is tried first


@pytest.mark.statistical
@pytest.mark.parametrize("noise_seed", range(4))
def test_a_grid_with_a_bad_candidate_fails_always(noise_seed):
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-5)
    choices = {"regularization": [1.0, 2.0, 3.0, 4.0, -5.0]}
    model = search(LEARNER, choices, ledger=ledger, noise_seed=noise_seed, expected_trials=1.01)
    with pytest.raises(ValueError, match=r"draw \{'regularization': -5\.0\}.*'regularization' par"):
        model.fit(X, Y)
    assert ledger.entries() == []


def test_a_candidate_is_tried_once(monkeypatch):
    """M2M takes seconds to fit to any table, and is often drawn again."""
    fits = []
    fit = TDILClassifier.fit
    monkeypatch.setattr(TDILClassifier, "fit", lambda self, X, y: fits.append(X) or fit(self, X, y))
    monkeypatch.setattr(TruncatedNegativeBinomial, "draw", lambda self, rng: 7)
    search(TDILClassifier(), {"regularization": [1.0, 2.0, np.float64(3.0)]}).fit(X, Y)
    assert len(fits) == 3 + 7


def test_what_is_tried_does_not_change():
    small = Choices({"a": [1, 2], "b": [3, 4, 5]})
    assert len(list(small.to_try())) == 6
    tried = [json.dumps(params, sort_keys=True) for params in small.to_try()]
    assert len(set(tried)) == 6
    for n, given in ((100, {"a": list(range(1000))}), (10, [{"a": uniform(0, 1)}, {}])):
        first, again = (list(Choices(given).to_try()) for _ in range(2))
        assert first == again
        assert len(first) == n


def test_the_result_of_no_trial_is_tried_whatever_is_drawn(monkeypatch):
    monkeypatch.setattr(Poisson, "draw", lambda self, rng: 1)
    bad = TDILClassifier(regularization=-1.0)
    with pytest.raises(ValueError, match="'regularization' parameter"):
        search(bad, {"regularization": [1.0]}, distribution="poisson").fit(X, Y)


@pytest.mark.parametrize("law", [TruncatedNegativeBinomial(0.0, 10), Poisson(10.0)])
def test_a_search_again_after_failures_costs_no_more(law):
    """K of those that did not fail has weights q^k more: the same law, of a smaller mean."""
    q = 0.9
    if isinstance(law, Poisson):
        tilted = Poisson(law.mean * q)
    else:
        part = 1 - (1 - law.gamma) * q
        mean = (1 - part) / part / -math.log(part)
        tilted = TruncatedNegativeBinomial(0.0, mean)
    for z in (0.2, 0.7, 1.0):
        assert tilted.generating(z) == pytest.approx(law.generating(q * z) / law.generating(q))
    for run in (PureDP(0.1), PureDP(1.0)):
        assert tilted.price(run).epsilon(0.0) <= law.price(run).epsilon(0.0)


# ------------------------------------------------------------------ silence


@pytest.mark.statistical
def test_nothing_else_tells_of_trials(monkeypatch, capfd, tmp_path, recwarn):
    """Neither joblib's messages, nor those of a pipeline, nor what it would keep on the disk."""
    monkeypatch.setattr(TruncatedNegativeBinomial, "draw", lambda self, rng: 5)
    pipe = Pipeline(
        [("scale", SCALE), ("map", RBFSampler(n_components=5)), ("learner", LEARNER)],
        memory=str(tmp_path),
        verbose=True,
    )
    with joblib.parallel_config(backend="sequential", verbose=50):
        model = search(pipe, {"map__gamma": uniform(0.1, 1.0)}).fit(X, Y)
    assert "".join(capfd.readouterr()) == ""
    assert list(tmp_path.iterdir()) == []
    assert (model.best_estimator_.memory, model.best_estimator_.verbose) == (None, False)
    # What the search says of its choice follows from the release.
    assert {str(w.message)[:10] for w in recwarn} <= {"Set noise_", "Fit the es"}


class Charges(TransformerMixin, BaseEstimator):
    """A step that charges a ledger by itself."""

    def __init__(self, ledger=None):
        self.ledger = ledger

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        if self.ledger is not None:
            self.ledger.charge(PureDP(0.1))
        return self

    def transform(self, X):
        return X


@pytest.mark.statistical
def test_a_ledger_in_another_step_would_count_trials():
    ledger = PrivacyLedger(epsilon=100.0)
    with pytest.raises(ValueError, match="ledger of its own"):
        search(make_pipeline(Charges(ledger), LEARNER), {}).fit(X, Y)
    pipe = Pipeline([("charges", Charges()), ("learner", LEARNER)])
    search(pipe, {"charges": [Charges(ledger)]}).fit(X, Y)
    search(pipe, {"charges__ledger": [ledger]}).fit(X, Y)
    assert ledger.entries() == []


class Leaves(ClassifierMixin, BaseEstimator):
    """A learner that fails on the private rows, with some of them in its hands and its mouth."""

    def __init__(
        self, epsilon=1.0, delta=0.0, adjacency="add_remove", noise_seed=None, ledger=None, odd=None
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.odd = odd

    def fit(self, X, y):
        if len(X) > 25:
            self.rows_ = X
            raise RuntimeError(f"The first row is {X[0]}.")
        self.classes_ = np.unique(y)
        self.privacy_ = PrivacyGuarantee(PureDP(self.epsilon), self.adjacency)
        if self.odd:  # breaks when it is fitted to public rows again
            self.odd.append(1)
            if len(self.odd) > 2:
                raise RuntimeError("It fails on public rows, too.")
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


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


@pytest.mark.statistical
@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_a_refusal_tells_what_would_fit(accountant, monkeypatch):
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6, accountant=accountant)
    with pytest.raises(BudgetExceededError, match=r"epsilon=(0\.\d+) would fit") as caught:
        search(LEARNER, {}, epsilon=1.0, ledger=ledger).fit(X, Y)
    fits = float(str(caught.value).split(" would fit")[0].split("epsilon=")[-1])
    monkeypatch.setattr(_stopping, "_largest", lambda *_: fits)  # it takes long, and is known
    with pytest.raises(BudgetExceededError):
        search(LEARNER, {}, epsilon=1.05 * fits, ledger=ledger).fit(X, Y)
    search(LEARNER, {}, epsilon=fits, ledger=ledger).fit(X, Y)
    assert len(ledger.entries()) == 1


def test_a_pure_search_costs_what_it_says():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    search(LEARNER, {}, epsilon=0.9, delta=0.0, ledger=ledger).fit(X, Y)
    assert ledger.spent.epsilon == pytest.approx(0.9)
    with pytest.raises(BudgetExceededError) as caught:
        search(LEARNER, {}, epsilon=0.9, delta=0.0, ledger=ledger).fit(X, Y)
    assert "would fit" not in str(caught.value)


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
RICH = (TABLE["sex"] == 1).to_numpy()
NUMERIC = ["sex", "age", "kids", "married"]
BOX = PublicVectorizer(schema=[(0, 1), (18, 90), (0, 5), (0, 1)])
SEXES = {
    "numbers": [0, 1],
    "floats": [1.0, 0.0],
    "booleans": [False, True],
    "missing": Categorical([0, 1], missing=True),
    "range": (0, 1),
}
TYPES = {
    "as it is": lambda table: table,
    "floats": lambda table: table.astype(dict.fromkeys(NUMERIC, "float64")),
    "float32": lambda table: table.astype(dict.fromkeys(NUMERIC, "float32")),
    "nullable": lambda table: table.convert_dtypes(),
    "objects": lambda table: table.astype(object),
    "categories": lambda table: table.astype({"sex": "category", "job": "category"}),
    "polars": lambda table: pytest.importorskip("polars").DataFrame(table.to_dict("list")),
    "array": lambda table: table[NUMERIC].to_numpy(np.float64),
    "integers": lambda table: table[NUMERIC].astype(int).to_numpy(),
    "array of objects": lambda table: table.to_numpy(dtype=object),
    "list": lambda table: table[NUMERIC].astype(float).to_numpy().tolist(),
}
NEWER = ["polars"] if parse_version(sklearn_version) >= parse_version("1.7") else []
if not NEWER:
    TYPES["polars"] = lambda table: pytest.skip("scikit-learn 1.6 sees no names in polars 2")
AT = {name: j for j, name in enumerate(TABLE.columns)}


class Keeps(ClassifierMixin, BaseEstimator):
    """A learner that keeps what it was trained on, and predicts the first column."""

    def __init__(
        self, epsilon=1.0, delta=0.0, adjacency="add_remove", noise_seed=None, ledger=None
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.noise_seed = noise_seed
        self.ledger = ledger

    def fit(self, X, y):
        self.rows_ = dense(X)
        self.classes_ = np.unique(y)
        self.privacy_ = PrivacyGuarantee(PureDP(self.epsilon), self.adjacency)
        return self

    def predict(self, X):
        return self.classes_[(dense(X)[:, 0] > 0.5).astype(int)]


def trained_on(steps, table, **params):
    """Return a search without a hold-out, and what it trained its learner on."""
    params = {"holdout": 1e-12, "delta": 0.0} | params
    model = search(make_pipeline(*steps, Keeps()), {}, **params).fit(table, RICH)
    assert len(model.best_estimator_[-1].rows_) == N  # not the public rows, of a run that failed
    return model, model.best_estimator_[-1].rows_


def dense(rows):
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)


def plain(steps, table):
    """Return what the same steps make of a table outside of a search."""
    return dense(make_pipeline(*steps).fit(table, RICH).transform(table))


def named(table, *names):
    return list(names) if hasattr(table, "columns") else [AT[name] for name in names]


@pytest.mark.one_in(3)
@pytest.mark.statistical
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("sexes", SEXES)
def test_a_search_trains_on_what_the_plain_pipeline_does(types, sexes):
    table = TYPES[types](TABLE)
    parts = [
        (PublicVectorizer([SEXES[sexes]]), named(table, "sex")),
        (PublicVectorizer(schema=(18, 90)), named(table, "age")),
        ("passthrough", named(table, "kids", "married")),
    ]
    has_names = hasattr(table, "columns") or np.shape(table)[1] == 5
    if has_names:
        parts.append((PublicVectorizer([["a", "bb"]]), named(table, "job")))
    columns = make_column_transformer(*parts)
    try:
        expected = plain([columns], table)
    except (TypeError, ValueError):  # sklearn does not take it either
        expected = None
    ledger = PrivacyLedger(epsilon=100.0)
    try:
        model, rows = trained_on([columns], table, ledger=ledger)
    except ValueError:
        assert ledger.entries() == []
        # Nullable booleans and the like: nothing that the plain pipeline takes is refused.
        assert expected is None
        return
    rows_again = dense(model.best_estimator_[:-1].transform(table))
    np.testing.assert_allclose(rows, rows_again, rtol=1e-5, atol=1e-6)
    if expected is not None:
        np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)
    assert model.predict(table).shape == RICH.shape


STEPS_OF_NUMBERS = {
    "scaler": [BOX],
    "frames": [clone(BOX).set_output(transform="pandas")],
    "polynomials": [BOX, PolynomialFeatures(2)],
    "function": [FunctionTransformer(np.sqrt)],
    "identity": [FunctionTransformer(), BOX],
    "signs": [Binarizer(threshold=20)],
    "norms": [Normalizer()],
    "passthrough": ["passthrough", BOX],
    "nested": [make_pipeline(make_pipeline("passthrough", BOX), PolynomialFeatures(2))],
    "union": [FeatureUnion([("a", BOX), ("b", FunctionTransformer(np.log1p))])],
    "features": [BOX, RBFSampler(gamma=0.5, n_components=5, random_state=0)],
    "remainder": [make_column_transformer((BOX, [0, 1, 2, 3]), remainder="drop")],
    "frozen": [FrozenEstimator(StandardScaler().fit(TABLE[NUMERIC].to_numpy(float)))],
}


@pytest.mark.one_in(3)
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:X (has|does not have):UserWarning")
@pytest.mark.parametrize("steps", STEPS_OF_NUMBERS)
@pytest.mark.parametrize("types", ["as it is", "polars", "array", "integers", "float32"])
def test_numbers_go_through_steps_as_in_the_plain_pipeline(steps, types):
    table = TYPES[types](TABLE[NUMERIC].astype(dict.fromkeys(NUMERIC, "float64")))
    steps = STEPS_OF_NUMBERS[steps]
    expected = plain(steps, table)
    model, rows = trained_on(steps, table)
    np.testing.assert_allclose(rows, expected, rtol=2e-5, atol=1e-6)
    assert model.best_estimator_.predict(table).shape == RICH.shape


@pytest.mark.parametrize(
    ("step", "n_varying"),
    # A flag falls in two of four bins.
    [(KBinsDiscretizer(4, strategy="uniform"), 12), (StandardScaler(), 4)],
)
def test_steps_behind_a_scaler_learn_of_public_rows(step, n_varying):
    model, rows = trained_on([BOX, step], TABLE[NUMERIC].astype(float))
    again = dense(model.best_estimator_[:-1].transform(TABLE[NUMERIC].astype(float)))
    np.testing.assert_array_equal(rows, again)
    assert np.sum(np.ptp(rows, axis=0) > 0) == n_varying


def takes_floats(rows):
    if rows.dtype.kind != "f":
        raise TypeError("It takes floats.")
    return rows


@pytest.mark.parametrize(
    ("steps", "table", "message"),
    [
        ([StandardScaler()], TABLE[NUMERIC], "learns from rows.*PublicVectorizer"),
        ([KBinsDiscretizer(4)], TABLE[NUMERIC], "learns from rows"),
        ([SimpleImputer()], TABLE[NUMERIC], "PublicVectorizer.schema. in the place"),
        ([SimpleImputer(strategy="constant"), BOX], TABLE[NUMERIC], "in the place.*missing=True"),
        ([make_column_transformer((MinMaxScaler(), ["age"]))], TABLE, "learns from rows"),
        ([BOX, SelectKBest(k=2)], TABLE[NUMERIC], "learns from labels"),
        (
            [TargetEncoder(categories=[[0, 1]])],
            TABLE[["sex"]],
            "PublicVectorizer.schema. in the place",
        ),
        ([FunctionTransformer(lambda rows: rows.astype(int) // 2)], TABLE[["age"]], None),
        (
            [make_column_transformer((PublicVectorizer([["0", "1"]]), ["sex"]))],
            TABLE,
            "'sex' holds a value that is not among its categories",
        ),
        (
            [make_column_transformer((PublicVectorizer([[0, 1]]), ["sex"]))],
            TABLE.astype({"sex": str}),
            "'sex' holds a value that is not among its categories",
        ),
        (
            [FunctionTransformer(takes_floats), BOX],
            TABLE[NUMERIC].to_numpy(int),
            "fails on a table with the dtypes of X.*X.astype\\(float\\)",
        ),
        (
            [FunctionTransformer(lambda rows: rows.map(lambda v: float(len(str(v)))))],
            TABLE[["kids"]],
            "Convert the columns of X first",
        ),
    ],
)
def test_what_would_train_on_nothing_is_refused(steps, table, message):
    ledger = PrivacyLedger(epsilon=100.0)
    pipe = make_pipeline(*steps, Keeps())
    if message is None:
        search(pipe, {}, delta=0.0).fit(table, RICH)
        return
    with pytest.raises(ValueError, match=message):
        search(pipe, {}, delta=0.0, ledger=ledger).fit(table, RICH)
    assert ledger.entries() == []


@pytest.mark.statistical
def test_every_pipeline_learns_or_costs_nothing():
    """With much budget and an easy problem, whatever is charged predicts the user's own table."""
    learner = clone(LEARNER).set_params(classes=[False, True])
    for types in ("as it is", "floats", "array", "integers", "list", *NEWER):
        table = TYPES[types](TABLE)
        for sexes in SEXES.values():
            columns = make_column_transformer(
                (PublicVectorizer([sexes]), named(table, "sex")),
                (PublicVectorizer(schema=(18, 90)), named(table, "age")),
            )
            ledger = PrivacyLedger(epsilon=1000.0, delta=1e-5)
            params = {"epsilon": 100.0, "ledger": ledger, "expected_trials": 1.01}
            model = search(make_pipeline(columns, learner), {}, **params).fit(table, RICH)
            assert len(ledger.entries()) == 1
            assert model.best_estimator_.score(table, RICH) > 0.95 > RICH.mean() + 0.3


@pytest.mark.parametrize(
    ("step", "column"),
    [
        (PublicVectorizer(schema=(18, 90)), "age"),
        (Binarizer(), "age"),
        (PublicVectorizer([["a", "bb", "none"]]), "job"),
    ],
)
def test_missing_values_without_a_schema_of_them_cost_nothing(step, column):
    gaps = TABLE.astype({"age": float, "job": object}).copy()
    gaps.loc[::7, "age"] = np.nan
    gaps.loc[::5, "job"] = np.nan
    ledger = PrivacyLedger(epsilon=100.0)
    pipe = make_pipeline(make_column_transformer((step, [column])), Keeps())
    with pytest.raises(ValueError, match=f"(?s)olumn '{column}'.*`schema` with missing=True"):
        search(pipe, {}, delta=0.0, ledger=ledger).fit(gaps, RICH)
    assert ledger.entries() == []


# ------------------------------------------------------------------ no row changes another's types


ODD = [2.5, np.nan, None, True, -1, 2**53 + 1, 1e300, "7", np.float32(0.1), np.int8(1)]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("column", ["sex", "age", "job"])
def test_one_odd_cell_changes_no_other_row_as_it_is_read(odd, column):
    jobs = PublicVectorizer([Categorical(["a", "bb"], missing=True)])
    sexes = PublicVectorizer([Categorical([0, 1], missing=True)])
    rest = ("passthrough", ["age", "kids", "married"])
    steps = make_column_transformer((jobs, ["job"]), (sexes, ["sex"]), rest)
    more = pd.concat([TABLE, TABLE[:1].astype(object).assign(**{column: [odd]})])
    tables = [TABLE, more, more.astype(object), TABLE.astype(object)]
    found = []
    for table in tables:
        reading = Reading.of([steps], table[:0])
        try:
            found.append(reading(table)[:N])
        except (TypeError, ValueError):
            assert len(table) > N
    assert len(found) >= 2
    for one in found[1:]:
        pd.testing.assert_frame_equal(one, found[0])


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

    def __init__(
        self,
        schema=None,
        epsilon=1.0,
        delta=0.0,
        adjacency="add_remove",
        noise_seed=None,
        ledger=None,
    ):
        super().__init__(epsilon, delta, adjacency, noise_seed, ledger)
        self.schema = schema

    def fit(self, X, y):
        self.vectorizer_ = PublicVectorizer(self.schema).fit(X)
        return super().fit(self.vectorizer_.transform(X), y)

    def predict(self, X):
        return self.classes_[(self.vectorizer_.transform(X)[:, 0] > 0).astype(int)]


@pytest.mark.parametrize("types", OF_ADULT)
@pytest.mark.parametrize("kind", ["vectorizer", "vectorizers", "columns", "learner", "nested"])
def test_a_raw_table_is_read_through_a_schema(types, kind):
    table = OF_ADULT[types](ADULT)
    vectorizer = PublicVectorizer(SCHEMA)
    expected = vectorizer.fit_transform(ADULT)
    estimator = {
        "vectorizer": make_pipeline(vectorizer, Keeps()),
        "vectorizers": make_pipeline(
            FeatureUnion([("a", vectorizer), ("b", make_pipeline(vectorizer, Binarizer()))]),
            Keeps(),
        ),
        "columns": make_pipeline(
            make_column_transformer(
                (PublicVectorizer(SCHEMA["age"]), ["age"]),
                (PublicVectorizer([["Female", "Male"]]), ["sex"]),
                (PublicVectorizer({"work": SCHEMA["work"]}), ["work"]),
            ),
            Keeps(),
        ),
        "learner": Reads(SCHEMA),
        "nested": make_pipeline("passthrough", make_pipeline(vectorizer, "passthrough"), Keeps()),
    }[kind]
    ledger = PrivacyLedger(epsilon=100.0)
    model = search(estimator, {}, delta=0.0, holdout=1e-12, ledger=ledger).fit(table, MALE)
    assert len(ledger.entries()) == 1
    learner = model.best_estimator_ if kind == "learner" else model.best_estimator_[-1]
    if kind == "vectorizers":
        expected = np.hstack([expected, expected > 0])
    if kind == "columns":
        sexes = PublicVectorizer([["Female", "Male"]]).fit_transform(ADULT[["sex"]].to_numpy())
        ages = PublicVectorizer((17, 90)).fit_transform(ADULT[["age"]])
        works = PublicVectorizer([SCHEMA["work"]]).fit_transform(ADULT[["work"]].to_numpy())
        expected = np.hstack([ages, sexes, works])
    np.testing.assert_array_equal(learner.rows_, expected)
    assert model.predict(table).shape == MALE.shape


def test_arrays_are_read_through_a_schema():
    schema = [(17, 90), Categorical(["private", "state", "own"], missing=True), ["Female", "Male"]]
    table = ADULT[["age", "work", "sex"]].to_numpy(object)
    for rows in (table, table.tolist()):
        model = search(
            make_pipeline(PublicVectorizer(schema), Keeps()), {}, delta=0.0, holdout=1e-12
        ).fit(rows, MALE)
        expected = PublicVectorizer(schema).fit_transform(table)
        np.testing.assert_array_equal(model.best_estimator_[-1].rows_, expected)
        assert model.score(rows, MALE) <= 1


@pytest.mark.statistical
def test_learners_and_models_of_sketches_find_what_is_in_a_raw_table():
    table, male = adult(3000)
    learner = TDILClassifier(kernel="linear", classes=[False, True], mechanism="functional")
    choices = {"regularization": [1.0, 10.0]}
    named = {f"tdilclassifier__{name}": values for name, values in choices.items()}
    m2m = M2MClassifier(
        schema=SCHEMA,
        sketcher=HistogramSketcher(marginals=[[2, 4], [0, 4]], n_bins=4),
        n_synthetic=2000,
    )
    cases = [
        (make_pipeline(PublicVectorizer(SCHEMA), learner), named),
        (make_pipeline(PublicVectorizer(SCHEMA), RBFSampler(gamma=0.5), learner), named),
        (m2m, {"weights": ["maxent"]}),
        (m2m, {"sketcher__n_bins": [3, 5]}),
    ]
    if "schema" in learner.get_params():
        cases.append((clone(learner).set_params(schema=SCHEMA), choices))
    for estimator, candidates in cases:
        params = {"epsilon": 30.0, "expected_trials": 1.5}
        model = search(estimator, candidates, **params).fit(table, male)
        assert model.score(table, male) > 0.95
        assert list(model.feature_names_in_) == list(table.columns)


READERS = {
    "vectorizer": lambda schema: make_pipeline(PublicVectorizer(schema), Keeps()),
    "learner": Reads,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": np.nan}, "'age' has missing values.*missing=True"),
        ({"sex": None}, "'sex' has missing values.*missing=True"),
        ({"work": "secret"}, "'work' holds a value that is not among its categories"),
        ({"age": "secret"}, "'age' must hold finite numbers"),
        ({"hours": np.inf}, "'hours' must hold finite numbers"),
        ({"hours": pd.Timestamp("2020-01-01")}, "'hours' holds dates or times"),
    ],
)
def test_cells_that_the_schema_does_not_take_cost_nothing(reader, change, message):
    ledger = PrivacyLedger(epsilon=100.0)
    ((name, value),) = change.items()
    table = ADULT.astype(object)
    table.loc[17, name] = value
    with pytest.raises(ValueError, match=message) as caught:
        search(READERS[reader](SCHEMA), {}, delta=0.0, ledger=ledger).fit(table, MALE)
    assert "secret" not in str(caught.value)
    assert ledger.entries() == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"age": (17, 90)}, "which the schema does not describe"),
        ({"wage": (17, 90)}, "lacks column 'wage' of the schema"),
        ([(17, 90)], "describes 1 columns, and the table has 5"),
        (TableSchema({"age": Numeric()}, extra_columns="drop"), "'age' has no range in the schema"),
        ({"age": "any"}, "does not describe a column"),
    ],
)
def test_schemas_of_other_tables_cost_nothing(reader, schema, message):
    ledger = PrivacyLedger(epsilon=100.0)
    with pytest.raises(ValueError, match=message):
        search(READERS[reader](schema), {}, delta=0.0, ledger=ledger).fit(ADULT, MALE)
    assert ledger.entries() == []


def test_columns_that_the_schema_leaves_out_are_not_looked_at():
    odd = ADULT.astype({"name": object})
    odd.loc[5, "name"] = [np.nan]
    found = [
        search(Reads(SCHEMA), {}, delta=0.0, holdout=1e-12).fit(table, MALE).best_estimator_.rows_
        for table in (ADULT, odd)
    ]
    np.testing.assert_array_equal(*found)


def test_public_rows_fill_the_schema():
    reading = Reading.of([Reads(SCHEMA)], ADULT[:0])
    rows = PublicRows.like(reading, np.array([0, 1]), None).X
    assert rows["age"].min() < 22
    assert rows["age"].max() > 85
    assert set(rows["work"]) == {"private", "state", "own", None}
    assert set(rows["sex"]) == {"Female", "Male"}
    assert 0 < rows["hours"].isna().mean() < 0.3
    assert len(np.unique(rows["age"])) > 10


@pytest.mark.statistical
@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("column", list(SCHEMA.names))
@pytest.mark.parametrize("types", ["as it is", "nullable"])
def test_one_odd_cell_changes_no_other_row_that_a_schema_reads(odd, column, types):
    """What steps, and scoring functions, meet: values and types."""
    more = pd.concat([ADULT, ADULT[:1].astype(object).assign(**{column: [odd]})])
    tables = [more, more.astype(object), ADULT.astype(object), OF_ADULT[types](ADULT)]
    expected = Reading.of([Reads(SCHEMA)], ADULT[:0])(ADULT)
    for table in tables:
        try:
            found = Reading.of([Reads(SCHEMA)], table[:0])(table)[:N]
        except ValueError:
            assert len(table) > N
            continue
        pd.testing.assert_frame_equal(found, expected)


def test_an_odd_row_changes_no_other_row_of_a_whole_search():
    more = pd.concat([ADULT, ADULT[:1].astype(object).assign(age=[2**53 + 1], hours=[None])])
    pipe = make_pipeline(PublicVectorizer(SCHEMA), RBFSampler(n_components=5), Keeps())
    rows = [
        search(pipe, {}, delta=0.0, holdout=1e-12).fit(table, labels).best_estimator_[-1].rows_
        for table, labels in ((ADULT, MALE), (more, np.append(MALE, True)))
    ]
    np.testing.assert_array_equal(rows[0], rows[1][:N])


def test_a_grid_over_schemas():
    narrow = TableSchema({"age": (30, 60), "sex": ["Male", "Female"]}, extra_columns="drop")
    fewer = TableSchema({"sex": ["Female", "Male"], "hours": SCHEMA["hours"]}, extra_columns="drop")
    schemas = [SCHEMA, narrow, fewer]
    pipe = make_pipeline(PublicVectorizer((0, 1)), Keeps())
    found = set()
    for seed in range(12):
        for estimator, name in ((Reads(), "schema"), (pipe, "publicvectorizer__schema")):
            params = {"expected_trials": 2, "holdout": 1e-12, "noise_seed": seed, "delta": 0.0}
            model = search(estimator, {name: schemas}, **params).fit(ADULT, MALE)
            best = model.best_params_[name]
            rows = model.best_estimator_[-1].rows_ if name != "schema" else None
            if rows is not None:
                np.testing.assert_array_equal(rows, PublicVectorizer(best).fit_transform(ADULT))
            found.add(schemas.index(best))
    assert found == {0, 1, 2}
    ledger = PrivacyLedger(epsilon=100.0)
    # Each is tried, whatever is drawn: one that the table does not fit is told.
    other = TableSchema({"sex": ["Female", "Other"]}, extra_columns="drop")
    with pytest.raises(ValueError, match="'sex' holds a value that is not among its categories"):
        search(Reads(), {"schema": [SCHEMA, other]}, delta=0.0, ledger=ledger).fit(ADULT, MALE)
    unlike = TableSchema({"sex": ["f", "m"]}, extra_columns="drop")
    with pytest.raises(ValueError, match="no value is in all of them"):
        search(Reads(), {"schema": [SCHEMA, unlike]}, delta=0.0, ledger=ledger).fit(ADULT, MALE)
    assert ledger.entries() == []


class AnySchema:
    """A distribution of schemas, of which no list is known."""

    def rvs(self, random_state):
        low = int(random_state.randint(1000))
        return TableSchema({"age": (low, 2000)}, extra_columns="drop")


def test_a_distribution_of_schemas_is_refused(monkeypatch):
    monkeypatch.setattr(TruncatedNegativeBinomial, "draw", lambda self, rng: 3)
    ledger = PrivacyLedger(epsilon=100.0)
    with pytest.raises(ValueError, match="give schemas in lists"):
        search(Reads(), {"schema": AnySchema()}, delta=0.0, ledger=ledger).fit(ADULT, MALE)
    assert ledger.entries() == []


def test_candidates_with_and_without_a_schema():
    """Numbers, which both take; missing values only with one."""
    schema = TableSchema([(17, 90), Numeric(0, 99, missing=True)])
    both = [PublicVectorizer(schema), FunctionTransformer(np.log1p)]
    pipe = Pipeline([("map", both[0]), ("learner", Keeps())])
    params = {"delta": 0.0, "holdout": 1e-12, "expected_trials": 3}
    table = ADULT[["age", "hours"]].to_numpy()
    full = np.nan_to_num(table)
    expected = [PublicVectorizer(schema).fit_transform(full), np.log1p(full)]
    for seed in range(4):
        model = search(pipe, {"map": both}, **params | {"noise_seed": seed}).fit(full, MALE)
        rows = model.best_estimator_[-1].rows_
        which = 0 if rows.shape[1] > 2 else 1
        np.testing.assert_allclose(rows, expected[which], rtol=1e-12)
    ledger = PrivacyLedger(epsilon=100.0)
    with pytest.raises(ValueError, match="NaN in column 'x1'"):
        search(pipe, {"map": both}, **params, ledger=ledger).fit(table, MALE)
    assert ledger.entries() == []
