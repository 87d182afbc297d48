"""Feature maps: what one row can add, and that it adds it whatever the other rows are."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refusals import refused
from scipy.optimize import brentq

from skdpsumm import Categorical, Numeric, TableSchema
from skdpsumm.features import _feature_maps
from skdpsumm.features._feature_maps import (
    GRID,
    FourierMap,
    HistogramMap,
    RACEMap,
    UnionMap,
    project_to_simplex,
)
from skdpsumm.summaries._mmd import Embedding

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")

ADJACENCIES = ["add_remove", "replace_one"]
EXTREMES = [0.0, 5e-324, -1e-40, 1.0, -1e10, 3e38, -3.4e38, 1e300, -1.79e308]


@pytest.fixture(params=["numpy", "numba"])
def engine(request, monkeypatch):
    pytest.importorskip(request.param)
    monkeypatch.setenv("SKDPSUMM_ENGINE", request.param)
    return request.param


def table(d, entry=None):
    """The schema of d columns, of which nothing is known or the same."""
    return TableSchema([Numeric() if entry is None else entry] * d)


def fourier(frequencies):
    frequencies = np.atleast_2d(np.asarray(frequencies, float))
    return FourierMap(table(len(frequencies)), frequencies)


def random_map(kind, d=3, bounds=None, seed=0):
    rng, columns = np.random.RandomState(seed), table(d, bounds)
    if kind == "fourier":
        return FourierMap.draw(columns, 10, 1.0, rng)
    if kind == "race":
        return RACEMap.draw(columns, 4, 7, 0.5, rng)
    if kind == "histogram":
        bounded = table(d, bounds or (-1, 1))
        return HistogramMap.build(bounded, 5, [[0], [1, 2]])
    return UnionMap([random_map(k, d, bounds or (-1, 1)) for k in ("histogram", "fourier", "race")])


KINDS = ["fourier", "race", "histogram", "union"]


def contribution(feature_map, row):
    """Return the integers that one row adds to the sums."""
    return feature_map.grid_sums(np.atleast_2d(row))


def norms(vector):
    vector = vector.astype(float)
    return np.abs(vector).sum(), np.linalg.norm(vector)


def within(vector, feature_map, adjacency):
    (l1, l2), (bound1, bound2) = norms(vector), feature_map.sensitivity(adjacency)
    return l1 <= bound1 and l2 <= bound2


# --------------------------------------------------------------------- sensitivity of Fourier sums


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [1, 50])
def test_fourier_replace_one_sensitivity_is_reached(engine, pairs, dtype):
    """Opposite points at 45 and 225 degrees."""
    feature_map = fourier(np.ones(pairs))
    here, there = np.array([[np.pi / 4], [5 * np.pi / 4]], dtype)
    difference = contribution(feature_map, here) - contribution(feature_map, there)
    bound1, bound2 = feature_map.sensitivity("replace_one")
    l1, l2 = norms(difference)
    assert 0.999 * bound1 <= l1 <= bound1
    assert 0.999 * bound2 <= l2 <= bound2


@settings(deadline=None, max_examples=30)
@given(hnp.arrays(float, (2, 2), elements=st.floats(-1e6, 1e6)), st.integers(0, 10))
def test_no_pair_of_rows_exceeds_the_sensitivity(rows, seed):
    for kind in KINDS:
        feature_map = random_map(kind, 3, seed=seed)
        one, other = (contribution(feature_map, [*row, 0.5]) for row in rows)
        assert within(one, feature_map, "add_remove")
        assert within(one - other, feature_map, "replace_one")


# ---------------------------------------------- sensitivity of Fourier means, by all that there are


def angles_of(codes):
    """Return rows of one column whose angles are these, of all that numpy's engine knows."""
    return 2 * np.pi / _feature_maps.N_ANGLES * np.asarray(codes, float)[:, None]


@pytest.fixture(scope="module")
def longest():
    """Return what is longest of all rows, and of all means of two rows up to 11 angles apart.

    In grid units above the circle, with the angles of the rows that reach it.
    """
    points = _feature_maps._grid_points().T.astype(float)
    found = {}
    for name, steps in {"row": [0], "mean": range(1, 12)}.items():
        # A mean is rounded to whole units once more, half a unit to the even one.
        means = {k: np.rint((points + np.roll(points, -k, axis=0)) / 2) for k in steps}
        excess = {k: np.linalg.norm(m, axis=1) - GRID for k, m in means.items()}
        k = max(excess, key=lambda k: excess[k].max())
        code = int(excess[k].argmax())
        found[name] = excess[k][code], [code, code + k]
    return found


@pytest.mark.parametrize("pairs", [1, 3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("kind", ["row", "mean"])
def test_the_claimed_rounding_is_reached_and_not_passed(longest, kind, adjacency, pairs):
    """A group's mean is longer than any row, for it is rounded twice; the claim has both."""
    excess, codes = longest[kind]
    feature_map = fourier(np.ones(pairs))
    claim = feature_map.sensitivity(adjacency, averaged=kind == "mean")

    def sums(codes):
        if kind == "row":
            return feature_map.grid_matrix(angles_of(codes[:1]))[0].astype(np.int64)
        return feature_map.grid_averages(angles_of(codes), np.arange(2), np.array([2]))

    moved, n_moved = sums(codes), 1
    if adjacency == "replace_one":  # by what lies opposite
        moved, n_moved = moved - sums(np.array(codes) + _feature_maps.N_ANGLES // 2), 2
    (l1, l2), (most_l1, most_l2) = norms(moved), claim
    circle = n_moved * math.sqrt(pairs) * GRID
    assert l2 - circle == pytest.approx(n_moved * math.sqrt(pairs) * excess, rel=1e-6)
    assert l1 <= most_l1
    # The claim is for the worst that two roundings of each entry can do. That is sharp to an
    # eighth, so neither half of the rounding nor twice as much would do.
    assert 0.87 * (most_l2 - circle) <= l2 - circle <= most_l2 - circle


def whole_map(feature_map):
    return lambda adjacency: feature_map.sensitivity(adjacency, averaged=True)


def parts_of(feature_map):
    def of(adjacency):
        parts = _feature_maps.sensitivities(feature_map, adjacency, "average")
        return np.linalg.norm(parts, axis=0)

    return of


@pytest.mark.parametrize("read", [whole_map, parts_of])
def test_whoever_asks_for_groups_is_told_of_both_roundings(longest, read):
    codes, union = longest["mean"][1], UnionMap([fourier([1.0]), fourier([1.0])])
    moved = norms(union.grid_averages(angles_of(codes), np.arange(2), np.array([2])))[1]
    for feature_map, times in ((union, 1.0), (fourier([1.0]), math.sqrt(2))):
        assert moved <= times * read(feature_map)("add_remove")[1] <= moved + 0.4
        assert 2 * moved <= times * read(feature_map)("replace_one")[1] <= 2 * moved + 0.8


def test_an_embedding_is_told_of_both_roundings(longest):
    (excess, codes), embedding = longest["mean"], Embedding(np.ones((1, 1)))
    moved = norms(embedding.group_sums(angles_of(codes), np.zeros(2, np.int64)))[1]
    assert moved == pytest.approx(GRID + excess, abs=1e-6)
    for n_groups in (1, 2):
        most = embedding.sensitivity(n_groups, averaged=True)[1]
        assert n_groups * moved <= most <= n_groups * (moved + 0.3)
    assert embedding.sensitivity(1)[1] < moved


# ----------------------------------------------------------------- sensitivity of one-hot sums


@pytest.mark.parametrize("kind", ["race", "histogram"])
def test_one_hot_sensitivity_is_reached_exactly(engine, kind):
    feature_map = random_map(kind)
    here = contribution(feature_map, [-1.0] * 3)
    assert norms(here) == feature_map.sensitivity("add_remove")
    rows = np.random.default_rng(0).uniform(-1, 1, size=(100, 3))
    candidates = (contribution(feature_map, row) for row in rows)
    there = next(c for c in candidates if not np.any(here * c))  # they share no cell
    l1, l2 = feature_map.sensitivity("replace_one")
    assert norms(here - there)[0] == l1
    assert norms(here - there)[1] == pytest.approx(l2, rel=1e-15)


# ---------------------------------------------------------------------------------- extreme rows


# A union has a part of each kind.
@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("fourier", None),
        ("race", None),
        ("union", (0, 1)),
        ("union", (-1e300, 1e300)),
        ("union", (0, 1e-299)),
        ("union", (-3e38, 3e38)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("error")
def test_extreme_rows_add_no_more_than_others(engine, kind, dtype, bounds):
    feature_map = random_map(kind, bounds=bounds)
    largest = np.finfo(dtype).max
    rng = np.random.default_rng(0)
    clipped = np.clip(EXTREMES, -largest, largest).astype(dtype)
    for row in rng.choice(clipped, size=(60, 3)):
        added = contribution(feature_map, row)
        assert within(added, feature_map, "add_remove")
        for part, block in zip(feature_map.parts(), _blocks(feature_map, added), strict=True):
            if part.kind == "fourier":
                radius = np.hypot(*np.split(block, 2))
                assert np.all(np.abs(radius - GRID) < 0.8)
            assert within(block, part, "add_remove")


def _blocks(feature_map, vector):
    return np.split(vector, np.cumsum([p.n_features for p in feature_map.parts()])[:-1])


@pytest.mark.parametrize("largest", [1e14, 1e200, np.inf, np.nan])
def test_frequencies_that_could_overflow_are_refused(largest):
    refused("gamma", fourier, [[1.0, largest]])
    refused("bandwidth", RACEMap, table(1), [[1.0, largest]], [0.0, 0.5], 10)


ONE, WIDE, TABLE = table(1, (0, 1)), table(4, (0, 1)), TableSchema([(0, 1), ["a", "b"]])
IMPOSSIBLE = {
    "no frequencies": lambda: FourierMap(ONE, np.zeros((1, 0))),
    "frequencies of two columns for one": lambda: FourierMap(ONE, np.zeros((2, 3))),
    "too many frequencies": lambda: FourierMap(ONE, np.zeros((1, 2**26))),
    "NaN offsets": lambda: RACEMap(ONE, [[1.0]], [np.nan], 3),
    "an offset too few": lambda: RACEMap(ONE, [[1.0, 1.0]], [0.5], 3),
    "buckets that float32 does not tell apart": lambda: RACEMap(ONE, [[1.0]], [0.5], 2**24 + 4),
    "negative bins": lambda: HistogramMap(ONE, [-3], [[0]]),
    "bins whose product overflows": lambda: HistogramMap(WIDE, [2**16] * 4, [[0, 1, 2, 3]]),
    "more histograms than bins": lambda: HistogramMap.build(table(200, (0, 1)), 1, 100),
    "a column that is not there": lambda: HistogramMap(TABLE, [3, 2], [[0, 2]]),
    "a column twice": lambda: HistogramMap(TABLE, [3, 2], [[0, 0]]),
    "no range": lambda: HistogramMap(table(1), [2], [[0]]),
    "a union of two tables": lambda: UnionMap([random_map("race", 2), random_map("race", 3)]),
    "unions without end": lambda: [
        m := random_map("race"),
        *(m := UnionMap([m]) for _ in range(17)),
    ],
}


@pytest.mark.parametrize("make", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_map_that_a_row_would_leave_is_never_made(make):
    with pytest.raises(ValueError):  # noqa: PT011  (of each constructor's own words)
        make()


# --------------------------------------------------------------------- a row depends on no other


# ------------------------------------------------------------------------------ what phi is


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_grid_sums_are_sums_of_the_features(engine, kind, dtype):
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(dtype)
    feature_map = random_map(kind)
    features = feature_map.matrix(X)
    sums = np.asarray(features.sum(axis=0, dtype=float)).ravel()
    assert feature_map.grid_sums(X) / GRID == pytest.approx(sums, abs=200 / GRID)
    assert feature_map.float_sums(X) == pytest.approx(sums, rel=1e-12)


def test_histogram_cells_are_those_of_numpy():
    X = np.random.default_rng(0).uniform(-1, 1, size=(500, 3))
    feature_map = HistogramMap.build(table(3, (-1, 1)), [4, 5, 6], [[0], [2, 1]])
    counts = feature_map.grid_sums(X) // GRID
    assert np.array_equal(counts[:4], np.histogram(X[:, 0], feature_map.edges(0))[0])
    edges = [feature_map.edges(2), feature_map.edges(1)]
    assert np.array_equal(counts[4:], np.histogramdd(X[:, [2, 1]], edges)[0].ravel())


AGES, JOBS = Numeric(0, 20, step=1, missing=True), Categorical(list("abcd"), missing=True)
MIXED = TableSchema({"age": AGES, "job": JOBS, "x": (0, 1)})
OWN_BINS = {"age": [0, 3, 10, 20], 1: [1, 0, 0, 1, 2]}


def own_bins(bins=OWN_BINS):
    return HistogramMap(MIXED, [4, 1, 3], [[0], [1], [0, 1, 2]], bins)


def test_bins_of_a_map_of_its_own():
    feature_map = own_bins()
    assert feature_map.n_bins == (4, 3, 3)
    assert [feature_map.n_present(j) for j in range(3)] == [3, 2, 3]
    assert feature_map.edges(0).tolist() == [-0.5, 2.5, 9.5, 20.5], "bins of whole numbers"
    assert feature_map.cell_of_codes(1).tolist() == [1, 0, 0, 1, 2]
    rows = [[0, "a", 0.1], [3, "b", 0.5], [9.4, None, 0.9], [None, "d", 0], [20, "c", 1]]
    codes = feature_map.codes(np.array(rows, object))
    assert (codes[:, 0].tolist(), codes[:, 1].tolist()) == ([0, 1, 1, 3, 2], [1, 0, 2, 1, 0])
    assert codes[:, 2].tolist() == [3, 10, 17, 30, 20]


@pytest.mark.parametrize(
    ("bins", "reason"),
    [
        ({0: [0, 30]}, "range of the column"),
        ({0: [0, 3.2, 3.4, 20]}, "without a value"),
        ({0: [0, np.nan, 20]}, "increasing"),
        ({1: [0, 1, 2, 3]}, "each of its 5 codes"),
        ({1: [0, 0, 0, 0, 0.5]}, "each of its 5 codes"),
        ({1: [0, 0, 0, 0, 2]}, "from 0 on"),
        ({7: [0, 1]}, "bins names column 7"),
    ],
)
def test_bins_that_do_not_fit_their_column_are_refused(bins, reason):
    refused(reason, own_bins, bins)


def mixed_rows(n=300):
    rng = np.random.default_rng(0)
    rows = np.empty((n, 3), object)
    rows[:, 0] = [None if u < 0.1 else 25 * u for u in rng.random(n)]
    rows[:, 1] = rng.choice(np.array([*"abcd", None], object), n)
    rows[:, 2] = rng.random(n)
    return rows


def test_sums_of_histograms_are_those_of_the_matrix(monkeypatch):
    """They are counted a histogram at a time, and bit for bit what all at once would be."""
    monkeypatch.setattr(_feature_maps, "_ROWS_SUMMED_AT_ONCE", 128)
    feature_map, X = own_bins(), mixed_rows()
    phi = feature_map.matrix(X).toarray()
    weights = np.random.default_rng(1).random(len(X))
    assert np.array_equal(feature_map.grid_sums(X), phi.sum(axis=0).astype(np.int64) * GRID)
    assert np.array_equal(feature_map.float_sums(X), phi.sum(axis=0))
    parts = (np.split(one, [128, 256]) for one in (weights, phi))
    in_order = sum(w @ p for w, p in zip(*parts, strict=True))
    assert np.allclose(feature_map.float_sums(X, weights), in_order, rtol=1e-15)
    assert np.array_equal(feature_map.grid_sums(X[:0]), np.zeros(feature_map.n_features))


@pytest.mark.parametrize(("most", "expected"), [(40, [10] * 30), (2**22, [300])])
def test_hashes_are_counted_a_few_rows_at_a_time(monkeypatch, most, expected):
    """So that codes fill no memory, however many hashes there are."""
    feature_map, X = random_map("race"), np.random.default_rng(0).uniform(-1, 1, (300, 3))
    sums, seen, codes_of = feature_map.grid_sums(X), [], _feature_maps.race_codes
    monkeypatch.setattr(_feature_maps, "_ENTRIES_PER_BLOCK", most)

    def race_codes(X, *hashes):
        seen.append(len(X))
        return codes_of(X, *hashes)

    monkeypatch.setattr(_feature_maps, "race_codes", race_codes)
    assert np.array_equal(feature_map.grid_sums(X), sums)
    assert seen == expected


@pytest.mark.parametrize("n_rows_at_once", [40, 1000])
@pytest.mark.parametrize("kind", ["histogram", "race"])
def test_averages_of_one_hot_codes_are_those_of_each_group_alone(monkeypatch, kind, n_rows_at_once):
    """Each group adds GRID to every one-hot group, and in the closest whole shares."""
    monkeypatch.setattr(_feature_maps, "_ROWS_SUMMED_AT_ONCE", n_rows_at_once)
    rng, sizes = np.random.default_rng(0), np.array([1, 3, 7, 150, 1, 38, 100])
    if kind == "histogram":
        feature_map, X = own_bins(), mixed_rows()
    else:
        feature_map, X = random_map("race"), rng.uniform(-1, 1, (300, 3))
    rows = rng.permutation(300)
    phi, expected = feature_map.matrix(X).toarray(), np.zeros(feature_map.n_features, np.int64)
    for own in np.split(rows, np.cumsum(sizes)[:-1]):
        alone = feature_map.grid_averages(X, own, np.array([len(own)]))
        assert all(alone[group].sum() == GRID for group in feature_map.row_groups())
        assert np.all(np.abs(alone - phi[own].mean(axis=0) * GRID) < 1)
        expected += alone
    assert np.array_equal(feature_map.grid_averages(X, rows, sizes), expected)


def test_marginals_of_k_columns():
    columns = TableSchema(dict.fromkeys("abc", (0, 1)))
    assert HistogramMap.build(columns, 2, 2).groups == ((0, 1), (0, 2), (1, 2))
    assert HistogramMap.build(columns, 2, [["c"], ["a", 1]]).groups == ((2,), (0, 1))
    assert HistogramMap.build(columns, [2, 3, 4], 1).sizes.tolist() == [2, 3, 4]


# --------------------------------------------------------------------------------------- simplex


vectors = hnp.arrays(float, st.integers(1, 30), elements=st.floats(-1e6, 1e6))


@settings(deadline=None, max_examples=100)
@given(vectors)
def test_projection_to_the_simplex_is_a_shift_and_a_cut(vector):
    """The solution is max(v - t, 0) for the one t at which it sums to one; t by root finding."""
    ours = project_to_simplex(vector)
    top = vector.max()

    def excess(t):
        return np.maximum(vector - t, 0).sum() - 1

    t = brentq(excess, top - 2, top, xtol=1e-14)
    assert ours == pytest.approx(np.maximum(vector - t, 0), abs=1e-8)
    assert ours.sum() == pytest.approx(1, abs=1e-8)
    assert ours.min() >= 0


# ---------------------------------------------------------------------------------- round trips


def test_a_group_of_many_columns_is_refused_before_they_are_multiplied():
    """It tells the first product: that of 100,000 takes 20 s, and a stranger's sketch has many."""
    columns = range(1000)
    with pytest.raises(ValueError, match="have at least 281,474,976,710,656:"):
        HistogramMap(table(len(columns), (0, 1)), [2**24] * len(columns), [columns])


@pytest.mark.parametrize("n_values", [0, 1, 3, 5000])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1e300, 1e300), (0, 1e-299), (1e9, 1e9 + 1e-3)])
def test_values_are_found_among_edges_as_by_a_search(low, high, n_values):
    """However many values are in a block: a row's cell is a function of the row alone."""
    rng = np.random.default_rng(n_values)
    for n_edges in (2, 3, 40, 3000):
        spread = np.sort(np.r_[0, rng.random(n_edges - 2) ** rng.choice([1, 30]), 1])
        edges = np.unique(low * (1 - spread) + high * spread)
        values = low * (1 - (u := rng.random(n_values))) + high * u
        near = rng.choice(edges, n_values)
        near = np.nextafter(near, rng.choice([low, high], n_values))
        both = np.clip(np.r_[values, near, edges], edges[0], edges[-1])
        for block in (both, both[:n_values], both[::-1]):
            expected = np.searchsorted(edges[1:-1], block, side="right")
            np.testing.assert_array_equal(_feature_maps._searched(edges, block), expected)
