"""From tables to vectors of norm at most one, in `PublicVectorizer` and inside learners."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import make_pipeline

from skdpsumm.learners import PINPClassifier, TDDLClassifier, TDILClassifier, TDILRegressor
from skdpsumm.schema import Categorical, Numeric, Public, PublicVectorizer, TableSchema
from skdpsumm.schema._vectorizer import vectorize

# Tests of other things set these off, on tables as small as they are.
CONCATENATION = pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation")
pytestmark = [pytest.mark.simulated(0), CONCATENATION]

pd = pytest.importorskip("pandas")

quiet = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

COLUMNS = {
    "age": Numeric(17, 90, step=1),
    "gain": Numeric(0, 99_999, missing=True),
    "sex": Categorical(["Female", "Male"]),
    "job": Categorical(["clerk", "farmer", "none"], missing=True),
    "level": Categorical([1, 2, 3]),
}
SCHEMA = TableSchema(COLUMNS)
NAMES = [
    *("age", "gain", "gain_missing", "sex_Female", "sex_Male"),
    *("job_clerk", "job_farmer", "job_none", "job_missing", "level_1", "level_2", "level_3"),
]
N = 300


def raw(n, seed=0):
    """Return columns of a table as they come: words, whole numbers, missing values."""
    rng = np.random.default_rng(seed)
    columns = {
        "age": rng.integers(17, 91, n),
        "gain": np.where(rng.random(n) < 0.2, np.nan, rng.exponential(1000, n).round(2)),
        "sex": rng.choice(["Female", "Male"], n).astype(object),
        "job": rng.choice(np.array(["clerk", "farmer", "none", None], object), n),
        "level": rng.integers(1, 4, n),
    }
    return columns


TABLE = pd.DataFrame(raw(N))
Y = np.where((TABLE["age"] > 50) ^ (TABLE["sex"] == "Male"), "yes", "no")
NUMBERS = np.where(Y == "yes", 0.5, -0.5)
VECTORS = PublicVectorizer(SCHEMA).fit_transform(TABLE)


# ---- vectors


ENDS = st.floats(-1e6, 1e6)
KINDS = st.one_of(
    st.tuples(ENDS, st.floats(1e-3, 1e6), st.booleans()).map(
        lambda given: Numeric(given[0], given[0] + given[1], missing=given[2])
    ),
    st.tuples(st.integers(2, 5), st.booleans()).map(
        lambda given: Categorical([f"c{k}" for k in range(given[0])], missing=given[1])
    ),
)


ADVERSARIES = {
    "far": {"age": 1e300, "gain": -1e300},
    "halves": {"age": 20.5, "gain": 0.1},
    "missing": {"gain": None, "job": None},
    "words": {"age": np.float32(17), "gain": 10**18, "level": 1.0},
}


# ---- names, frames, and the way back


def test_names_of_entries():
    vectorizer = PublicVectorizer(SCHEMA).fit(TABLE)
    assert vectorizer.get_feature_names_out().tolist() == NAMES
    frame = clone(vectorizer).set_output(transform="pandas").fit_transform(TABLE)
    assert frame.columns.tolist() == NAMES
    assert frame.to_numpy().tobytes() == VECTORS.tobytes()
    of_array = PublicVectorizer(SCHEMA).fit(TABLE.to_numpy())
    assert of_array.get_feature_names_out().tolist() == NAMES
    by_position = PublicVectorizer(list(COLUMNS.values())).fit(TABLE.to_numpy())
    assert by_position.get_feature_names_out()[:2].tolist() == ["x0", "x1"]


# ---- learners that take a schema
SETTINGS = {"random_state": 0, "epsilon": 3.0}
LEARNERS = {
    "linear": TDILClassifier(),
    "numbers": TDILRegressor(y_bounds=(-1, 1)),
    "path": PINPClassifier(gamma=0.5),
    "svt": PINPClassifier(gamma=0.5, mechanism="svt"),
    "poly": PINPClassifier(kernel="poly"),
}


def fitted(model, X, **more):
    y = NUMBERS if is_regressor(model) else Y
    return model.fit(X, y, **more)


@quiet
@pytest.mark.parametrize("name", LEARNERS)
def test_a_schema_inside_is_a_vectorizer_before(name):
    learner = LEARNERS[name]
    has_hats = learner._kernel == "splines"
    interactions = has_hats and is_classifier(learner)
    vectorizer = PublicVectorizer(SCHEMA, n_knots=6 * has_hats, interactions=interactions)
    behind = make_pipeline(vectorizer, clone(learner).set_params(**SETTINGS))
    inside = clone(LEARNERS[name]).set_params(schema=SCHEMA, **SETTINGS)
    one, other = (fitted(model, TABLE).predict(TABLE[:50]) for model in (behind, inside))
    assert np.array_equal(one, other)
    if hasattr(inside, "decision_function"):
        scores = (model.decision_function(TABLE[:50]) for model in (behind, inside))
        assert np.array_equal(*scores)


@quiet
@pytest.mark.parametrize("kernel", ["rbf", "linear", "splines"])
def test_public_rows_are_read_as_rows_are(kernel):
    model = TDDLClassifier(kernel=kernel, gamma=0.5, **SETTINGS)
    public = pd.DataFrame(raw(60, seed=1))
    inside = clone(model).set_params(schema=SCHEMA).fit(TABLE, Y, X_public=Public(public))
    with config_context(enable_metadata_routing=True):
        hats = kernel == "splines"
        vectorizer = PublicVectorizer(SCHEMA, n_knots=6 if hats else 0, interactions=hats)
        behind = make_pipeline(vectorizer, model)
        behind.transform_input = ["X_public"]
        behind.fit(TABLE, Y, X_public=public)
        assert np.array_equal(behind.decision_function(TABLE), inside.decision_function(TABLE))


def test_gamma_is_such_that_the_kernel_is_neither_flat_nor_blind():
    """It is exp(-1/2) at a typical distance, whatever the units of the columns are."""
    for far in (1.0, 1e6):
        schema = [(0, far)] * 30
        rows = np.random.default_rng(0).uniform(0, far, (200, 30))
        model = PINPClassifier(schema=schema, epsilon=np.inf)
        space = model.fit(rows, np.arange(200) % 2).answers_.hypothesis().space
        vectors = vectorize(TableSchema(schema), rows)
        gram = space.gram(vectors, vectors)[~np.eye(200, dtype=bool)]
        assert gram.mean() == pytest.approx(np.exp(-0.5), abs=0.05)


@quiet
def test_later_tables_are_read_as_the_fitted_one_was():
    """Parameters may change, and pickles are read elsewhere."""
    model = TDILClassifier(schema=SCHEMA, **SETTINGS).fit(TABLE, Y)
    before = model.decision_function(TABLE)
    copy = pickle.loads(pickle.dumps(model))
    model.set_params(schema=(0, 1), kernel="linear")
    assert np.array_equal(model.decision_function(TABLE), before)
    assert np.array_equal(copy.decision_function(TABLE), before)
    with pytest.raises(ValueError, match="'age' contains NaN"):
        copy.predict(TABLE.assign(age=np.nan))


# ---- hats


def test_hats_share_one_between_two_neighbours():
    schema = {"x": Numeric(0, 10), "y": Numeric(edges=[0, 1, 100]), "z": Numeric(0, 1, step=1)}
    vectorizer = PublicVectorizer(schema, n_knots=3)
    found = vectorizer.fit_transform(pd.DataFrame({"x": [7.5], "y": [0.25], "z": [1]}))[0]
    x_hats, y_hats = found[1:4], found[5:8]
    assert x_hats / x_hats.sum() == pytest.approx([0, 0.5, 0.5])
    assert y_hats / y_hats.sum() == pytest.approx([0.75, 0.25, 0])
    names = ["x", "x_at_0", "x_at_5", "x_at_10", "y", "y_at_0", "y_at_1", "y_at_100", "z"]
    assert list(vectorizer.get_feature_names_out()) == [*names, "constant"]


@pytest.mark.parametrize("low", [1.0, 1.75, 1e16, 1.7e18, 0.1, -1.0])
@pytest.mark.parametrize("n_floats", [1, 2, 3, 4, 7, 40])
def test_hats_of_ranges_of_few_floats_are_numbers(low, n_floats):
    """Knots that are equal once made 0 / 0 of the largest value, and of all sums with it."""
    values = [low]
    for _ in range(n_floats):
        values.append(np.nextafter(values[-1], np.inf))
    X = np.array([*values, values[-1] + 1e300, low - 1e300])[:, None]
    for n_knots in (3, 6, 40):
        vectors = PublicVectorizer([(low, values[-1])], n_knots=n_knots).fit_transform(X)
        assert np.isfinite(vectors).all()
        assert np.linalg.norm(vectors, axis=1).max() <= 1


@pytest.mark.parametrize("mechanism", ["gradient", "functional", "objective"])
def test_no_row_is_heard_more_than_another_at_the_end_of_a_narrow_range(mechanism):
    low, high = 1e16, 1e16 + 2
    b = np.random.default_rng(0).random(1000)
    schema = {"t": Numeric(low, high), "b": Numeric(0, 1)}
    table = pd.DataFrame({"t": np.full(1000, low), "b": b})
    neighbour = table.copy()
    neighbour.loc[0, "t"] = high
    model = TDILClassifier(schema=schema, classes=[False, True], mechanism=mechanism)
    one, other = (model.fit(rows, b > 0.5).predictor_.coefficients for rows in (table, neighbour))
    assert np.linalg.norm(one - other) < 0.2 * np.linalg.norm(one)


# ---- interactions


def waves(u, k):
    """Return the point of order k of a number of [-1, 1], as the documentation has it."""
    return np.array([np.cos(k * np.pi * u / 2), np.sin(k * np.pi * u / 2)])


def test_interactions_are_products_of_points_of_the_circle():
    X = np.random.default_rng(0).uniform(0, 1, (50, 3))
    vectorizer = PublicVectorizer([(0, 1)] * 3, interactions=True).fit(X)
    found = vectorizer.transform(X)
    u = 2 * X - 1
    wanted = [
        np.einsum("an,bn->nab", waves(u[:, a], j), waves(u[:, b], k)).reshape(len(X), 4)
        for j, k in ((1, 1), (1, 2), (2, 1))
        for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    # Half of the squares of three of four entries, shared by nine points.
    np.testing.assert_allclose(found[:, 4:], np.hstack(wanted) * np.sqrt(3 / 4 / 2 / 9), atol=1e-9)
    np.testing.assert_allclose(found[:, :3], u / np.sqrt(8), atol=1e-9)
    np.testing.assert_allclose(found[:, 3], 0.5, atol=1e-9)
    names = list(vectorizer.get_feature_names_out())
    assert len(names) == len(set(names)) == found.shape[1]
    assert names[3:6] == ["constant", "x0_cos1_x1_cos1", "x0_cos1_x1_sin1"]
    assert names[-1] == "x1_sin2_x2_sin1"


@pytest.mark.parametrize(
    ("sizes", "n_products"),
    [([14, 14], 196), ([14, 15], 0), ([2, 5, 20], 10 + 40 + 100), ([7] * 3, 147), ([7] * 4, 0)]
    + [([2] * n, 0) for n in (201, 5000)],
)
def test_pairs_of_words_with_few_products_come_first(sizes, n_products):
    """And all that have as many, or none."""
    schema = TableSchema([Categorical(range(n)) for n in sizes])
    cells = np.zeros((1, len(sizes)))
    vectors = PublicVectorizer(schema, interactions=True).fit_transform(cells)
    assert vectors.shape[1] == sum(sizes) + n_products


@given(st.lists(KINDS, min_size=1, max_size=6), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_vectors_with_interactions_are_no_longer_than_one_and_come_back(columns, n_knots, seed):
    """Of any cells: at the ends, beyond them, and missing; and without hats some are one long."""
    schema, rng = TableSchema(columns), np.random.default_rng(seed)
    cells = np.empty((20, len(columns)), object)
    for j, column in enumerate(columns):
        if isinstance(column, Categorical):
            known = [*column.categories]
        else:
            known = [column.low, column.high, 1e300, -1e300, rng.uniform(column.low, column.high)]
        known += [None] * column.missing
        cells[:, j] = [known[k] for k in rng.integers(len(known), size=20)]
        cells[0, j] = known[0]
    longest = np.sum(np.square(vectorize(schema, cells).astype(np.longdouble)), axis=1)
    assert longest.max() <= 1
    assert longest[0] > 1 - 1e-9
    plain = PublicVectorizer(schema, n_knots=n_knots).fit(cells)
    beside = PublicVectorizer(schema, n_knots=n_knots, interactions=True).fit(cells)
    vectors = beside.transform(cells)
    assert np.sum(np.square(vectors.astype(np.longdouble)), axis=1).max() <= 1
    assert vectors.shape[1] == len(beside.get_feature_names_out())
    kept, alone = vectors[:, : plain.transform(cells).shape[1]], plain.transform(cells)
    assert np.array_equal(np.sign(kept), np.sign(alone))
    assert np.all(np.abs(kept) <= np.abs(alone))


@pytest.mark.parametrize("name", ADVERSARIES)
def test_one_row_more_changes_no_interaction_of_another(name):
    """A row of other types makes columns of objects or of floats, in another block and place."""
    row = dict(zip(TABLE.columns, TABLE.iloc[0], strict=True)) | ADVERSARIES[name]
    table = pd.concat([pd.DataFrame([row]), TABLE], ignore_index=True)
    vectorizer = PublicVectorizer(SCHEMA, n_knots=6, interactions=True).fit(TABLE)
    whole = vectorizer.transform(TABLE)
    assert vectorizer.transform(table)[1:].tobytes() == whole.tobytes()
    last = np.array([[row[key] for key in COLUMNS]], object)
    objects = np.vstack([TABLE.astype(object).to_numpy(), last])
    assert clone(vectorizer).fit_transform(objects)[:-1].tobytes() == whole.tobytes()
    alone = np.vstack([vectorizer.transform(TABLE.iloc[[i]]) for i in range(70)])
    assert alone.tobytes() == whole[:70].tobytes()
    order = np.random.default_rng(1).permutation(N)
    assert vectorizer.transform(TABLE.iloc[order]).tobytes() == whole[order].tobytes()


def test_interactions_learn_what_no_sum_of_curves_can():
    """Two numbers on the same side or not: either alone tells nothing."""
    X = np.random.default_rng(2).uniform(0, 1, (6000, 4))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    model = TDILClassifier(schema=(0, 1)).fit(X[:5000], y[:5000])
    assert model.score(X[5000:], y[5000:]) > 0.85
    alone = make_pipeline(PublicVectorizer((0, 1), n_knots=6), TDILClassifier())
    assert alone.fit(X[:5000], y[:5000]).score(X[5000:], y[5000:]) < 0.6
