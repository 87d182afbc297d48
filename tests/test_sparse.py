"""Sparse tables: the same bits as their dense twins, in any form, and never made dense."""

import tracemalloc

import numpy as np
import pytest
from refusals import refused
from scipy import sparse
from simulated import simulate
from sklearn.kernel_approximation import RBFSampler
from sklearn.random_projection import SparseRandomProjection
from sklearn.utils import get_tags

from skdpsumm import AdaptiveSketcher, Numeric, PINPClassifier, PINPRegressor, PrivateSearchCV
from skdpsumm.features._feature_maps import ExactProduct
from skdpsumm.learners import GradientDescent, TDDLClassifier, TDILClassifier, TDILRegressor
from skdpsumm.learners.erm._problem import MOST_SOLVED, FeatureSpace
from skdpsumm.learners.mechanisms._gradient import IntegerRows
from skdpsumm.schema._reading import NoEstimator, SparseRows, validate_table
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion

# Tests of other things set these off, on tables as small as they are.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
    pytest.mark.filterwarnings("ignore:Constructing a DIA matrix"),
]

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
CONTAINERS = (sparse.csr_matrix, sparse.csr_array)


def table(n=200, d=40, seed=0):
    """Return a table of few numbers, some long rows and some empty ones, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(1.0, (n, d)) * rng.choice([-1, 1], (n, d)) * (rng.random((n, d)) < 0.1)
    X[::7] = 0
    X[::5] *= 10.0 ** rng.integers(-6, 6, (len(X[::5]), 1))
    return X, (X @ rng.standard_normal(d) > 0).astype(int)


def read(X):
    return validate_table(NoEstimator(), X, accept_sparse=True)


def function_of(model):
    """Return the weights that were released."""
    found = model.answers_.hypothesis() if hasattr(model, "answers_") else model.predictor_
    return found.coefficients


def scattered(X, rng):
    """Return X with columns in any order, cells in two or three parts, and zeros written down."""
    coo = sparse.coo_array(X)
    rows, cols, values = coo.row, coo.col, coo.data
    parts = rng.choice([0.25, 0.5, 0.75], len(values)) * values
    more = rng.integers(0, X.shape[0], 50), rng.integers(0, X.shape[1], 50)
    rows, cols = np.r_[rows, rows, more[0]], np.r_[cols, cols, more[1]]
    values = np.r_[parts, values - parts, np.zeros(50)]
    order = rng.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    ends = np.searchsorted(rows[order], np.arange(X.shape[0] + 1))
    return sparse.csr_array((values[order], cols[order], ends), shape=X.shape)


# ---- one form for all


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int8, bool])
def test_one_form_whatever_the_container(form, dtype):
    X = table()[0].astype(dtype)
    for container in (sparse.csr_matrix(X), sparse.csr_array(X)):
        rows = read(container.asformat(form))
        assert isinstance(rows, SparseRows)
        assert np.array_equal(rows.toarray(), X.astype(np.float64))
        assert rows.has_canonical_format
        assert np.all(rows.values != 0)
        assert rows.values.dtype == np.float64


def test_parts_of_a_cell_are_added_in_an_order_of_their_own():
    """Sums of three floats hang on their order, and that in which they came decides nothing."""
    rng = np.random.default_rng(0)
    parts = rng.standard_normal(9) * 10.0 ** rng.integers(-9, 9, 9)
    columns = np.zeros(9, int)
    sums = set()
    for _ in range(50):
        order = rng.permutation(9)
        csr = sparse.csr_array((parts[order], columns, [0, 9]), shape=(1, 3))
        sums |= {read(csr).values[0], read(csr.tocsc()).values[0]}
        coo = sparse.coo_array((parts[order], (columns, columns)), shape=(1, 3))
        sums.add(read(coo).values[0])
    assert len(sums) == 1
    # In the order in which they come, sums differ.
    assert len({sum(rng.permutation(parts).tolist()) for _ in range(50)}) > 1


# ---- rows alone, bit for bit


def adversaries(d):
    """Return rows that one would add to move the bits of others."""
    rng = np.random.default_rng(1)
    return [
        np.zeros(d),
        rng.standard_normal(d),
        np.full(d, 1e300),
        np.r_[5e-324, np.zeros(d - 1)],
        rng.standard_normal(d) * 10.0 ** rng.integers(-300, 300, d),
    ]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "scattered"])
@pytest.mark.parametrize("place", [0, 13, 200])
def test_a_row_more_moves_no_bit_of_another(form, place):
    X = table()[0]
    space = FeatureSpace(None, X.shape[1], 1.0)

    def features(Z):
        rng = np.random.default_rng(0)
        given = scattered(Z, rng) if form == "scattered" else sparse.csr_array(Z).asformat(form)
        return space.features(read(given)).toarray()

    exact = np.round(X * 64) / 64  # of which parts add up exactly, however they are cut
    alone = features(exact)
    for row in adversaries(X.shape[1]):
        beside = features(np.insert(exact, place, row, axis=0))
        assert np.array_equal(np.delete(beside, place, axis=0), alone)


def gradient_of(model, X, y, groups=None):
    """Return the exact sum of gradients at some weights, in whole units."""
    model._check_parameters()
    draft = model._draft(0, X, y, None, groups)
    problem, plan = draft.problem, draft.plan
    rows = IntegerRows(problem, plan)
    weights = np.random.default_rng(3).standard_normal(plan._shape)
    return rows.gradient(weights), plan, problem


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("limit", [None, 3, "average"])
@pytest.mark.parametrize("memory", [1024, 0])
def test_gradients_are_those_of_the_dense_twin(n_classes, limit, memory, monkeypatch):
    from sklearn import config_context

    X, y = table()
    y = y + (X[:, 0] > 0) if n_classes == 3 else y
    groups = None if limit is None else np.arange(len(X)) // 4
    model = TDILClassifier(max_rows_per_group=limit, mechanism="gradient")
    with config_context(working_memory=memory):
        dense = gradient_of(model, X, y, groups)[0]
        given = sparse.csr_array(X)
        assert np.array_equal(gradient_of(model, given, y, groups)[0], dense)
        monkeypatch.setattr("skdpsumm.learners.mechanisms._gradient._SPARSE_ENTRIES", 64)
        assert np.array_equal(gradient_of(model, given, y, groups)[0], dense)


# ---- whole fits

MODELS = {
    "auto": TDILClassifier(),
    "objective": TDILClassifier(mechanism="objective"),
    "no noise": TDILClassifier(epsilon=np.inf),
    "replaced": TDILClassifier(adjacency="replace_one"),
    "tddl": TDDLClassifier(kernel="linear"),
    "pinp": PINPClassifier(kernel="linear"),
    "schema": TDILClassifier(schema=(-4, 4), kernel="linear"),
    "columns": TDILClassifier([(-4, 4) if j % 2 else (-1, 1) for j in range(40)], kernel="linear"),
    "fourier": TDILClassifier(kernel=RBFSampler(n_components=20, random_state=0)),
    "projected": TDILClassifier(kernel=SparseRandomProjection(10, random_state=0)),
}
REGRESSORS = {
    "auto": TDILRegressor(y_bounds=(0, 1)),
    "squared": TDILRegressor(y_bounds=(0, 1), loss="squared", epsilon=np.inf),
    "pinp": PINPRegressor(kernel="linear", y_bounds=(0, 1)),
}
LEARNERS = MODELS | {f"{name}, numbers": one for name, one in REGRESSORS.items()}


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEARNERS)
def test_a_fit_is_that_of_the_dense_twin(name):
    X, y = table()
    model = LEARNERS[name].set_params(random_state=0)
    weights = function_of(simulate(model, X, y, seed=3)).copy()
    predicted = model.predict(X)
    for container in CONTAINERS:
        np.testing.assert_allclose(model.predict(container(X)), predicted, rtol=1e-12)
    for given in (sparse.csr_matrix(X), sparse.csc_array(X), sparse.lil_array(X)):
        assert np.array_equal(function_of(simulate(model, given, y, seed=3)), weights)
        np.testing.assert_allclose(model.predict(given), predicted, rtol=1e-12)
        np.testing.assert_allclose(model.predict(X), predicted, rtol=1e-12)
        assert model.n_features_in_ == X.shape[1]


@pytest.mark.filterwarnings("ignore")
def test_public_points_may_be_sparse():
    X, y = table()
    Z = table(n=30, seed=5)[0]
    for delta in (1e-6, 0.0):
        model = TDDLClassifier(kernel="linear", delta=delta, mechanism="functional")
        weights = function_of(simulate(model, X, y, X_public=Z)).copy()
        given = sparse.csr_array(X), sparse.csr_array(Z)
        found = function_of(simulate(model, given[0], y, X_public=given[1]))
        np.testing.assert_allclose(found, weights, rtol=1e-9, atol=1e-12)


# ---- what is refused, and costs nothing


def broken(kind):
    """Return a sparse table whose arrays do not fit."""
    csr = sparse.csr_array(table()[0])
    if kind == "negative":
        csr.indices[3] = -1
    elif kind == "large":
        csr.indices[3] = csr.shape[1]
    elif kind == "pointers":
        csr.indptr[5] = csr.indptr[-1] + 7
    elif kind == "falling":
        csr.indptr[5], csr.indptr[6] = csr.indptr[6] + 1, csr.indptr[5]
    elif kind == "short":
        csr.data = csr.data[:-3]
    elif kind == "coo":
        csr = csr.tocoo()
        csr.col[3] = 10**6
    elif kind == "csc":
        csr = csr.tocsc()
        csr.indices[3] = -5
    return csr


@pytest.mark.parametrize(
    "kind", ["negative", "large", "pointers", "falling", "short", "coo", "csc"]
)
def test_broken_containers_are_refused_and_cost_nothing(kind, unpaid):
    with pytest.raises(ValueError, match="indices of the sparse table"):
        TDILClassifier(ledger=unpaid).fit(broken(kind), table()[1])


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_is_refused_and_costs_nothing(form, value, unpaid):
    X, y = table()
    X[4, 3] = value
    model = TDILClassifier(ledger=unpaid)
    told = "NaN" if np.isnan(value) else "infinity"
    refused(told, model.fit, sparse.csr_array(X).asformat(form), y)
    assert not hasattr(model, "n_features_in_")


MOVES, TAKES_NONE = (ValueError, "zero must stay zero"), (TypeError, "Sparse data was passed")
REFUSED = [
    *((TDILClassifier(schema=given), MOVES) for given in ((0, 1), (-1, 1))),
    (TDILClassifier(schema=Numeric(-1, 1, missing=True), kernel="linear"), MOVES),
    (TDILClassifier(schema=Numeric(-1, 1, step=2), kernel="linear"), MOVES),
    *(
        (RFFSketcher(n_components=4, gamma=1.0, schema=given), MOVES)
        for given in ((-1, 1), Numeric(0, 1, missing=True), [["a", "b"]] * 40)
    ),
    (TDILClassifier(kernel="rbf", gamma=1.0), TAKES_NONE),
    (TDDLClassifier(schema=(0, 1)), TAKES_NONE),
    (PINPClassifier(gamma=1.0), TAKES_NONE),
    (TDILClassifier(mechanism="exponential"), TAKES_NONE),
    (PINPClassifier(kernel="linear", mechanism="svt"), TAKES_NONE),
    (HistogramSketcher(schema=(0, 1)), TAKES_NONE),
    (SketchUnion([RFFSketcher(n_components=4, gamma=1.0)]), TAKES_NONE),
    (AdaptiveSketcher(schema=(0, 1)), TAKES_NONE),
    (PrivateSearchCV(TDILClassifier(), {"regularization": [1.0]}), TAKES_NONE),
]


@pytest.mark.parametrize(("model", "error"), REFUSED)
def test_what_cannot_use_a_sparse_table_refuses_it_and_costs_nothing(model, error, unpaid):
    X, y = table()
    refused(error[1], model.set_params(ledger=unpaid).fit, sparse.csr_array(X), y, error=error[0])
    assert not get_tags(model).input_tags.sparse


# ---- wide tables


def one_hot(n, d, fields, seed=0):
    """Return n rows of as many ones as there are fields, and labels that a few columns decide."""
    rng = np.random.default_rng(seed)
    levels = d // fields
    codes = np.minimum(rng.geometric(0.2, (n, fields)) - 1, levels - 1)
    columns = (codes + levels * np.arange(fields)).ravel()
    X = sparse.csr_array((np.ones(n * fields), columns, np.arange(0, n * fields + 1, fields)))
    X.resize(n, d)
    return X, np.isin(codes[:, 0], [0, 2])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", [None, 2])
def test_nothing_as_large_as_the_table_is_allocated(limit):
    n, d = 2000, 100_000
    X, y = one_hot(n, d, 10)
    groups = {} if limit is None else {"groups": np.arange(n) // 2}
    learner = TDILClassifier(mechanism=GradientDescent(n_steps=3), max_rows_per_group=limit)
    sketcher = RFFSketcher(n_components=10, gamma=0.1, max_rows_per_group=limit)
    for model, ask in ((learner, learner.predict), (sketcher, sketcher.transform)):
        tracemalloc.start()
        try:
            model.fit(X, y, **groups)
            ask(X)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # Weights take 0.8 MB, frequencies 4 MB, a thousand dense rows 800 MB, the Hessian 80 GB.
        assert peak < 60e6


@pytest.mark.parametrize("mechanism", ["functional", "objective"])
def test_solvers_refuse_a_wide_table_before_it_costs(mechanism, unpaid):
    X, y = one_hot(100, MOST_SOLVED + 4, 4)
    refused("mechanism='gradient'", TDILClassifier(mechanism=mechanism, ledger=unpaid).fit, X, y)
    refused("mechanism='gradient'", TDILClassifier(delta=0, ledger=unpaid).fit, X, y)


# ---- sketches

SKETCHERS = {
    "fourier": RFFSketcher(n_components=10, gamma=0.5),
    "fourier in a box": RFFSketcher((0, 2), n_components=10, gamma=0.5),
    "fourier, columns": RFFSketcher([(0, 1 + j) for j in range(40)], n_components=10, gamma=0.5),
    "race": RACESketcher(n_repetitions=5, n_buckets=7, bandwidth=1.0),
    "race in a box": RACESketcher((0, 2), n_repetitions=5, n_buckets=7),
}


@pytest.fixture
def numpy_engine(monkeypatch):
    """Sum dense rows by numpy, as sparse ones are."""
    monkeypatch.setenv("SKDPSUMM_ENGINE", "numpy")


@pytest.mark.parametrize("d", [1, 2, 40, 3000])
def test_exact_products_are_those_of_the_dense_twin(d):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((300, d)) * 10.0 ** rng.integers(-30, 30, (300, d))
    X *= rng.random((300, d)) < max(0.2, 5 / d)
    X[::5] = 0
    product = ExactProduct(rng.standard_normal((d, 6)) * 10.0 ** rng.integers(-3, 3, (d, 1)))
    dense = np.concatenate(list(product(X)))
    assert np.array_equal(np.concatenate(list(product(read(sparse.csr_array(X))))), dense)


@pytest.mark.usefixtures("numpy_engine")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("limit", [None, 2, "average"])
@pytest.mark.parametrize("name", SKETCHERS)
def test_a_sketch_is_that_of_the_dense_twin(name, limit):
    X = table()[0]
    groups = {} if limit is None else {"groups": np.arange(len(X)) // 3}
    sketcher = SKETCHERS[name].set_params(random_state=0, max_rows_per_group=limit)
    assert get_tags(sketcher).input_tags.sparse
    mean = simulate(sketcher, X, **groups).sketch_.mean
    phi = sketcher.transform(X)
    for given in (sparse.csr_matrix(X), sparse.csc_array(X), scattered_exactly(X)):
        assert np.array_equal(simulate(sketcher, given, **groups).sketch_.mean, mean)
        np.testing.assert_allclose(sketcher.transform(given), phi, rtol=0, atol=1e-9)


def scattered_exactly(X):
    """Return X with its cells in any order, and each in one part."""
    coo = sparse.coo_array(X)
    order = np.random.default_rng(2).permutation(coo.nnz)
    return sparse.coo_array((coo.data[order], (coo.row[order], coo.col[order])), shape=X.shape)


@pytest.mark.parametrize("name", SKETCHERS)
@pytest.mark.parametrize("place", [0, 13, 200])
def test_a_row_more_adds_itself_to_a_sum_and_nothing_else(name, place):
    X = table()[0]
    feature_map = SKETCHERS[name].set_params(random_state=0).preview_map(X.shape[1])
    without = feature_map.grid_sums(read(sparse.csr_array(X)))
    for row in adversaries(X.shape[1]):
        alone = feature_map.grid_sums(read(sparse.csr_array(row[None])))
        more = read(sparse.csr_array(np.insert(X, place, row, axis=0)))
        assert np.array_equal(feature_map.grid_sums(more) - without, alone)
        assert np.linalg.norm(alone) <= feature_map.sensitivity("add_remove")[1]
