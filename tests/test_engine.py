"""What every sketch relies on: exact integer sums of a function of one row at a time."""

import os
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from skdpsumm import Numeric, TableSchema
from skdpsumm.features import _feature_maps as maps
from skdpsumm.features._feature_maps import ExactProduct, FourierMap, RACEMap

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in multiply")

GRID = 2**15
ROUNDING = 0.5 + 2.0**-5
# How far, in grid units, rounding the angle moves a point: numpy's angles are multiples of 2**-16.
ANGLE = {"numpy": GRID * 2 * np.pi * 2.0**-17, "numba": 0.0}
ENGINES = ["numpy", "numba"]
DTYPES = [np.float32, np.float64]
# Rows around the sizes of blocks (256; numpy's at 333 frequencies: 98; cut together at 54 columns
# and 7 frequencies: 1024).
SHAPES = [(1, 10, 100), (97, 3, 333), (99, 54, 333), (255, 1, 1), (257, 10, 7), (1025, 54, 7)]
SHAPES += [(260, 130, 1), (513, 3, 100)]


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("SKDPSUMM_ENGINE", request.param)
    return request.param


def make_rows(n, d, dtype, seed=0):
    """Draw rows whose angles show the last bits: in float64 they have a large offset."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return (rows if dtype == np.float32 else 1e8 * (1 + rows)).astype(dtype)


def make_matrix(d, p, seed=1):
    return np.random.default_rng(seed).standard_normal((d, p)) / np.sqrt(d)


def fourier(d, p):
    matrix = make_matrix(d, p)
    return lambda X: maps.fourier_sums(X, matrix)


def race(d, p):
    # A row moves only few counts, hence buckets so narrow that their edges are all over the place.
    matrix, offsets = 1e4 * make_matrix(d, p), np.linspace(0, 1, p)
    return lambda X: maps.bucket_counts(maps.race_codes(X, matrix, offsets, 13), 13)


def one_by_one(sums, X):
    return np.stack([sums(X[i : i + 1]) for i in range(len(X))])


# --- A row's contribution is a function of that row alone ----------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make_sums", [fourier, race])
def test_sum_is_the_sum_of_single_rows_in_any_order_and_any_blocks(engine, make_sums, dtype, shape):
    n, d, p = shape
    sums, X = make_sums(d, p), make_rows(n, d, dtype)
    single = one_by_one(sums, X)
    total = single.sum(axis=0)
    np.testing.assert_array_equal(sums(X), total)
    rng = np.random.default_rng(2)
    for _ in range(3):
        np.testing.assert_array_equal(sums(X[rng.permutation(n)]), total)
        cuts = np.sort(rng.integers(0, n + 1, size=4))
        np.testing.assert_array_equal(sum(map(sums, np.split(X, cuts))), total)
    for i in {0, n // 2, n - 1}:
        np.testing.assert_array_equal(sums(np.delete(X, i, axis=0)), total - single[i])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make_sums", [fourier, race])
def test_every_position_in_blocks_and_tasks_gives_the_same(engine, make_sums, dtype):
    sums, row = make_sums(10, 333), make_rows(1, 10, dtype)
    n = 2 * 16384 + 77
    np.testing.assert_array_equal(sums(np.repeat(row, n, axis=0)), n * sums(row))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make_sums", [fourier, race])
def test_other_rows_do_not_matter_however_large(engine, make_sums, dtype):
    sums, X = make_sums(10, 100), make_rows(700, 10, dtype)
    huge = X.copy()
    huge[::2] = np.finfo(dtype).max * np.sign(huge[::2])
    change = one_by_one(sums, huge[::2]).sum(axis=0) - one_by_one(sums, X[::2]).sum(axis=0)
    np.testing.assert_array_equal(sums(huge), sums(X) + change)


@pytest.mark.parametrize("of_hashes", [False, True])
def test_memory_does_not_grow_with_n(monkeypatch, of_hashes):
    monkeypatch.setenv("SKDPSUMM_ENGINE", "numpy")
    schema, matrix, X = TableSchema(Numeric()), make_matrix(10, 50), make_rows(200_000, 10, "f")
    schema = schema.for_table(10, None)
    phi = RACEMap(schema, matrix, np.zeros(50), 13) if of_hashes else FourierMap(schema, matrix)
    peaks = [peak_memory(phi.grid_sums, X[:n]) for n in (20_000, 200_000)]
    assert peaks[1] < 1.1 * peaks[0] + 10_000


def peak_memory(function, X):
    tracemalloc.start()
    function(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


# --- The numpy engine's product rounds nothing ---------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 3, 10, 54, 130, 784])
def test_the_product_does_not_depend_on_the_order_of_summation(dtype, d):
    rng = np.random.default_rng(d)
    X = make_rows(500, d, dtype) * np.ldexp(1.0, rng.integers(-30, 30, d)).astype(dtype)
    matrix = make_matrix(d, 100) / np.ldexp(1.0, rng.integers(-30, 30, d))[:, None]
    order = rng.permutation(d)
    product = np.concatenate(list(ExactProduct(matrix)(X)))
    again = ExactProduct(matrix[order])(np.ascontiguousarray(X[:, order]))
    np.testing.assert_array_equal(np.concatenate(list(again)), product)


@pytest.mark.parametrize("d", [1, 10, 130])
def test_the_product_is_exact_on_the_parts(d):
    """The worst case: all entries are the largest of so many bits; sums come close to 2**53."""
    largest = 2 - 2.0 ** (1 - ExactProduct(np.ones((d, 1))).bits)
    product = ExactProduct(np.full((d, 1), largest))
    (value,) = product(np.full((1, d), largest))
    assert Fraction(value.item()) == d * Fraction(largest) ** 2


# --- Contributions lie on the circle -------------------------------------------------------------


def deviation(turns):
    """Return how far grid values of float32 angles are from the circle, in units, at most."""
    sums = maps.fourier_sums(np.ones((1, 1), np.float32), turns[None].astype(np.float64))
    angles = 2 * np.pi * turns.astype(np.float64)
    exact = GRID * np.stack([np.cos(angles), np.sin(angles)])
    return np.abs(sums.reshape(2, -1) - exact).max()


def all_float32(first, last):
    """Return every float32 between two non-negative ones."""
    first, last = np.array([first, last], np.float32).view(np.int32)
    return np.arange(first, last + 1, dtype=np.int32).view(np.float32)


@pytest.mark.parametrize(
    "turns",
    [
        np.linspace(-0.5, 0.5, 3_000_001, dtype=np.float32),
        all_float32(0.4999, 0.5),
        all_float32(0.24999, 0.25001),
        all_float32(0.125, 0.1251),
        np.geomspace(1e-45, 0.5, 300_001).astype(np.float32),
        np.array([0, 0.125, 0.25, 0.375, 0.5, 0.75, 1, 1.5, 1e6 + 0.25], np.float32),
    ],
    ids=["all over", "half", "quarter", "eighth", "small", "special"],
)
def test_grid_values_are_close_to_the_circle(engine, turns):
    assert deviation(turns) < ROUNDING + ANGLE[engine]
    assert deviation(-turns) < ROUNDING + ANGLE[engine]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0, 1e-320, 1e-30, 1, 1e10, 1e30, 1e308])
def test_every_row_is_on_the_circle_however_large(engine, dtype, scale):
    rng = np.random.default_rng(3)
    largest = np.finfo(dtype).max
    X = np.clip(scale * rng.standard_normal((50, 4)), -largest, largest).astype(dtype)
    X[:3] *= [[1, 1e-200, 1, 0]]
    X = np.vstack([X, np.full((1, 4), largest, dtype), np.full((1, 4), -largest, dtype)])
    frequencies = rng.standard_normal((4, 30)) * np.logspace(-12, 11, 30)
    for row in X:
        pairs = maps.fourier_sums(row[None], frequencies).reshape(2, -1)
        assert np.abs(pairs).max() <= GRID
        radius = np.hypot(*pairs)
        assert np.abs(radius - GRID).max() <= np.sqrt(2) * ROUNDING


@pytest.mark.parametrize(("dtype", "more"), [(np.float32, 0.5), (np.float64, 0.02)])
@pytest.mark.parametrize("d", [1, 10, 130])
def test_grid_values_are_those_of_the_row(engine, dtype, more, d):
    X = np.random.default_rng(4).standard_normal((200, d)).astype(dtype)
    frequencies = make_matrix(d, 33)
    angles = 2 * np.pi * (X.astype(np.longdouble) @ frequencies)
    expected = GRID * np.hstack([np.cos(angles), np.sin(angles)])
    single = one_by_one(lambda rows: maps.fourier_sums(rows, frequencies), X)
    assert np.abs(single - expected).max() < ROUNDING + more + ANGLE[engine]


def test_sums_are_exact_at_their_largest(engine):
    """All angles at half a turn, where the engines' partial sums are largest, or at a quarter."""
    n = 3 * 16384 + 1
    frequencies = np.full((1, 600), 0.5)
    sums = maps.fourier_sums(np.ones((n, 1), np.float32), frequencies).reshape(2, -1)
    np.testing.assert_array_equal(sums, [[-n * GRID] * 600, [0] * 600])
    sums = maps.fourier_sums(np.ones((n, 1), np.float32), frequencies / 2).reshape(2, -1)
    np.testing.assert_array_equal(sums, [[0] * 600, [n * GRID] * 600])
    sums = maps.fourier_sums(np.ones((n, 1), np.float32), -frequencies / 2).reshape(2, -1)
    np.testing.assert_array_equal(sums, [[0] * 600, [-n * GRID] * 600])


# --- RACE ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_buckets", [1, 7, 1000])
def test_codes_are_floors_modulo_the_number_of_buckets(engine, dtype, n_buckets):
    x = np.concatenate([np.arange(-3000, 3001) / 4, np.array([2.0**22, -(2.0**22), 0.0, -0.0])])
    codes = maps.race_codes(x[:, None].astype(dtype), np.ones((1, 1)), np.zeros(1), n_buckets)
    np.testing.assert_array_equal(codes.ravel(), np.floor(x).astype(int) % n_buckets)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_buckets", [1, 3, 80, 2**20])
def test_codes_stay_in_range(engine, dtype, n_buckets):
    tiny, largest = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    whole = n_buckets * np.logspace(0, 30, 200)
    x = np.concatenate([[tiny, largest], whole, np.nextafter(whole, 0), np.nextafter(whole, 1e40)])
    x = np.concatenate([x, -x]).astype(dtype)[:, None]
    codes = maps.race_codes(x, np.array([[1.0, 1e11, 1e-11]]), np.array([0, 0.5, 0]), n_buckets)
    assert codes.min() >= 0
    assert codes.max() < n_buckets


# --- Features and the choice of an engine --------------------------------------------------------


def test_numpy_serves_where_numba_is_missing(monkeypatch):
    monkeypatch.delenv("SKDPSUMM_ENGINE", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "skdpsumm.features._engine_numba", raising=False)
    loops = lru_cache(maps._compiled_loops.__wrapped__)
    monkeypatch.setattr(maps, "_compiled_loops", loops)
    assert maps.engine_name() == "numpy"
    assert maps._kernels() is None
    assert loops.cache_info().misses == 1  # a failed import takes milliseconds


@pytest.mark.statistical
def test_numba_works_where_nothing_is_writable(tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "file").touch()
    code = (
        "import numpy as np, skdpsumm.features._feature_maps as e;"
        "print(e.fourier_sums(np.ones((1, 1)), np.zeros((1, 1))))"
    )
    cache = str(tmp_path / "file" / "cache")
    env = {**os.environ, "SKDPSUMM_ENGINE": "numba", "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stdout.strip() == "[32768     0]", done.stderr
