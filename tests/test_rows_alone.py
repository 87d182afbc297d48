"""What a row becomes is a function of that row alone, bit for bit, in any block, place or company.

By attack: maps with jumps, rows that lie on them, one row more. The last bit of a product then
decides between 0 and 1, and BLAS rounds it by the shape of the block and the place of the row.
"""

import os
import subprocess
import sys
import warnings
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import null_space
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from threadpoolctl import threadpool_info

from skdpsumm import PINPClassifier, PublicVectorizer, TDILClassifier
from skdpsumm.features import _feature_maps
from skdpsumm.learners.erm import _kernel_space
from skdpsumm.learners.erm._problem import FeatureSpace, fitted_alone

ENGINES = ["numpy"] if find_spec("numba") is None else ["numpy", "numba"]

D, BITS = 60, 8
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(20, D)) * 10.0 ** RNG.uniform(-3, 3, (20, D))
PLANES = RNG.normal(size=(D, BITS))
EXTREME = [1.7e308 * (-1.0) ** np.arange(D), np.full(D, 5e-324), np.full(D, 1e90), np.zeros(D)]


class Mixing(TransformerMixin, BaseEstimator):
    """Maps that look at the whole block, against all advice."""

    def __init__(self, how="centre"):
        self.how = how

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        if self.how == "centre":
            return X - X.mean(axis=0)
        if self.how == "shortcut":
            return X * (2.0 if X.max() > 1e50 else 1.0)
        if self.how == "norm":
            return X / max(np.abs(X).max(), 1e-300)
        X -= 1.0  # in place
        return X


def sides(projection):
    """Return a fitted hash of rows by the sides of hyperplanes that they lie on."""
    return make_pipeline(projection, Binarizer()).fit(np.zeros((1, D)))


HASHES = {
    "signs": sides(GaussianRandomProjection(BITS, random_state=0)),
    "sparse signs": sides(SparseRandomProjection(BITS, dense_output=True, random_state=0)),
}
MAPS = {
    **{name: FrozenEstimator(step) for name, step in HASHES.items()},
    "fourier": RBFSampler(gamma=0.1, n_components=13, random_state=0),
    "fourier signs": make_pipeline(RBFSampler(n_components=13, random_state=0), Binarizer()),
    "count sketch": PolynomialCountSketch(n_components=16, random_state=0),
    "kernel": FrozenEstimator(Nystroem(n_components=9, random_state=0).fit(ROWS)),
    "powers": make_pipeline(PublicVectorizer(schema=(-5, 5)), PolynomialFeatures(2)),
    "in place": StandardScaler(copy=False, with_mean=False),
    "single precision": FunctionTransformer(lambda X: X.astype(np.float32) @ PLANES.astype("f4")),
    **{how: Mixing(how) for how in ("centre", "shortcut", "norm", "subtract")},
}


def spaces():
    """Yield names, spaces of such maps, and rows that are hard for them."""
    for name, step in MAPS.items():
        rows = ROWS
        if name in HASHES:
            rows = on_planes(sparse.csr_array(HASHES[name][0].components_).toarray())
        yield name, FeatureSpace(fitted_alone(step, D, 0), D, 1.0), rows


def on_planes(directions):
    """Return rows that lie on all hyperplanes."""
    plane = null_space(directions)
    return np.random.default_rng(1).normal(size=(20, plane.shape[1])) @ plane.T


def check(function, rows, name):
    """Compare what each row becomes with what it becomes alone, wherever it stands."""
    alone = np.concatenate([function(row[None]) for row in rows])
    first = np.arange(len(rows))
    many = np.tile(first, 8)  # a finding: BLAS took another kernel from 150 to 151 rows
    for order in (first[1:], first[::-1], many[:150], many[:151]):
        assert np.array_equal(function(rows[order]), alone[order]), name
    for place, row in enumerate(EXTREME):
        found = function(np.insert(rows, place, row, axis=0))
        assert np.array_equal(np.delete(found, place, axis=0), alone), (name, row[0])


def check_all():
    """Check the features of learners, and the codes of both engines."""
    for name, space, rows in spaces():
        check(space.features, rows, name)
    for engine, dtype in product(ENGINES, (np.float64, np.float32)):
        check(partial(codes, engine, dtype), on_planes(PLANES.T), engine)
    check(lambda X: _feature_maps.fourier_grid(X, PLANES), ROWS, "grid")


def codes(engine, dtype, X):
    with np.errstate(over="ignore"):  # of the cast
        X = np.ascontiguousarray(X, dtype)
    with patch.dict(os.environ, SKDPSUMM_ENGINE=engine):
        return _feature_maps.race_codes(X, PLANES, np.zeros(BITS), 4)


def test_no_row_moves_another():
    check_all()


@pytest.mark.parametrize("name", ["fourier", "centre", "shortcut", "norm"])
def test_the_check_sees_maps_that_are_left_to_themselves(name):
    """Of those that mix rows it is sure; a product differs wherever BLAS has several kernels."""
    (space,) = (space for other, space, _ in spaces() if other == name)
    with pytest.raises(AssertionError, match=name), np.errstate(over="ignore"):
        check(lambda X: space.transformer.transform(X.copy()), ROWS, name)


CORES = {"Haswell": "FMA3", "SkylakeX": "AVX512_SKX"}


@pytest.mark.parametrize("core", CORES)
def test_no_row_moves_another_on_other_processors(core):
    """The kernels of OpenBLAS differ: what holds by luck on one does not on another."""
    if not np._core._multiarray_umath.__cpu_features__.get(CORES[core]):
        pytest.skip("this processor has not the instructions")
    if core in [library.get("architecture") for library in threadpool_info()]:
        pytest.skip("this processor's own, as in the test above")
    code = "import test_rows_alone; test_rows_alone.check_all()"
    environment = os.environ | {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "2"}
    here = Path(__file__).parent
    environment["PYTHONPATH"] = os.pathsep.join([str(here), str(here.parent)])
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


# ---- functions of the user's that fail, warn, or remember

X = np.random.default_rng(3).uniform(-1, 1, (60, 2))
Y = (X[:, 0] > 0).astype(int)
ODD = X.copy()
ODD[41] = 0.7316459201837465


# As the row is, and as the vector that a schema makes of it.
SEEN = [ODD[41, 0], PublicVectorizer((-1, 1)).fit_transform(ODD)[41, 0]]


def choosy(A):
    """Refuse the odd row by its value, and warn of it."""
    if np.isin(A, SEEN).any():
        warnings.warn(f"odd: {ODD[41]}", UserWarning, stacklevel=1)
        raise ValueError(f"{ODD[41]} is odd")
    return A


class Counting(FunctionTransformer):
    """Gives another answer each time."""

    def transform(self, X):
        self.n_calls_ = getattr(self, "n_calls_", 0) + 1
        return X + self.n_calls_


CHOOSY = FunctionTransformer(choosy)
REFUSING = {
    "map": (CHOOSY, "transformer fails"),
    "map in blocks": (make_pipeline(CHOOSY, StandardScaler()), "transformer fails"),
    "map that remembers": (Counting(), "different features the second time"),
}


@pytest.mark.parametrize("name", REFUSING)
def test_a_function_that_fails_on_a_row_costs_nothing_and_tells_no_value(name, unpaid):
    kernel, words = REFUSING[name]
    model = TDILClassifier(kernel=kernel, ledger=unpaid, classes=[0, 1])
    as_errors = warnings.catch_warnings(action="error")
    with as_errors, pytest.raises(ValueError, match=words) as caught:
        model.fit(ODD, Y)
    error = caught.value
    assert "7316" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_map_that_fails_beyond_the_rows_that_are_kept_costs_nothing(unpaid):
    """Rows that do not fit into memory are mapped in each pass, and once before the charge."""
    rows = np.vstack([X] * 80 + [ODD])
    model = TDILClassifier(kernel=CHOOSY, ledger=unpaid)
    with config_context(working_memory=0), pytest.raises(ValueError, match="transformer fails"):
        model.fit(rows, np.tile(Y, 81))


def noisy(A):
    """Warn of all but a row of zeros, and have numpy warn."""
    if A.any():
        warnings.warn(f"seen {A}", UserWarning, stacklevel=1)
        np.log(-np.abs(A))
    return A


def test_functions_of_users_warn_of_no_row():
    model = TDILClassifier(kernel=FunctionTransformer(noisy))
    with warnings.catch_warnings(action="error"):
        model.fit(X, Y).predict(X)


def test_a_table_that_finds_no_room_costs_nothing(monkeypatch, unpaid):
    def full(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(_kernel_space, "symmetric_gram", full)
    with pytest.raises(MemoryError):
        PINPClassifier(gamma=1.0, ledger=unpaid).fit(np.zeros((4, 1)), [0, 1, 0, 1])
