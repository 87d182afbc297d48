"""How far apart rows of a bounded schema can be: no rows pass what is proved, wherever they are.

A search can only find rows that are far apart. So it is held against the bound, and never is one.
"""

import math
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from skdpsumm.features import _apart
from skdpsumm.features._apart import LEVELS, _Cover, _differences, least_kernel
from skdpsumm.features._feature_maps import FourierMap, auto_gamma
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.schema import Categorical, Date, Numeric, TableSchema
from skdpsumm.schema._reading import SparseRows
from skdpsumm.schema._schema import public_points
from skdpsumm.sketches import PrivateSketch, RFFSketcher
from skdpsumm.sketches._private_sketch import VERSION

AGE, SEX, JOB = Numeric(17, 90, step=1), Categorical(["f", "m"]), Categorical(list("abcd"))
SCHEMAS = {
    "one number": [Numeric(0, 1)],
    "two numbers": [Numeric(0, 1), AGE],
    "four numbers": [Numeric(-1, 1)] * 4,
    "categories": [SEX, JOB],
    "mixed": [AGE, SEX, Numeric(0, 9), JOB],
    "missing": [Numeric(0, 1, missing=True), Numeric(0, 1), Categorical(["x"], missing=True)],
    "dates": [Date("2020-01-01", "2020-12-31"), SEX],
}
SCHEMAS = {name: TableSchema(columns) for name, columns in SCHEMAS.items()}
ANY = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))


def mean_cosine(frequencies, t):
    return float(np.mean(np.cos(t @ frequencies)))


def drawn(schema, n_features=200, times=1.0, seed=0):
    gamma = times * auto_gamma(schema.encode(public_points(schema)))
    return FourierMap.draw(schema, n_features, gamma, np.random.RandomState(seed))


def farthest(schema, frequencies, n_starts=12, seed=0):
    """Return the difference of two rows at which the kernel is least of what a search finds."""
    rng, boxes = np.random.default_rng(seed), [column.differences() for column in schema.columns]
    found = []
    for _ in range(n_starts):
        some = [rng.integers(len(centers)) for centers, _ in boxes]
        chosen = [(center[i], half[i]) for (center, half), i in zip(boxes, some, strict=True)]
        center, half = map(np.concatenate, zip(*chosen, strict=True))
        best = minimize(
            lambda t: mean_cosine(frequencies, t),
            center + half * rng.uniform(-1, 1, len(half)),
            jac=lambda t: -(frequencies * np.sin(t @ frequencies)).mean(axis=1),
            bounds=list(zip(center - half, center + half, strict=True)),
        )
        found.append(best.x)
    return min(found, key=lambda t: mean_cosine(frequencies, t))


def with_a_pit(d, n_frequencies, size, share, seed=0):
    """Return frequencies, and a difference at which a share of their cosines are -1."""
    rng = np.random.default_rng(seed)
    pit = rng.uniform(0.5, 0.9, d) * rng.choice([-1, 1], d)
    frequencies = rng.normal(scale=size, size=(d, n_frequencies))
    angles = frequencies.T @ pit
    to_odd = np.pi * (2 * np.rint((angles / np.pi - 1) / 2) + 1) - angles
    pinned = np.arange(n_frequencies) < share * n_frequencies
    return frequencies + np.outer(pit, to_odd * pinned) / (pit @ pit), pit


# -------------------------------------------------------------------------------------- what it is


@ANY
def test_encoded_rows_differ_by_what_the_boxes_hold(schema):
    rows = schema.sample(60, np.random.RandomState(0))
    X = schema.encode(rows)
    X = np.vstack([X, np.round(X)]) if schema.n_encoded == schema.n_columns else X  # the ends
    centers, halves = _differences(schema, 10**6)
    for t in (X[:, None] - X[None]).reshape(-1, schema.n_encoded):
        held = (np.abs(sign * t - centers) <= halves * (1 + 1e-12) + 1e-12 for sign in (1, -1))
        assert any(np.any(np.all(inside, axis=1)) for inside in held)


def test_cells_beyond_the_range_are_encoded_inside_it():
    cells = np.array([[-1e300, 1e300], [0.3, -0.0], [1 + 1e-15, -5e-324], [2.0, 1.0]])
    for columns in ([Numeric(0, 1)] * 2, [Numeric(0, 0.7, step=0.1)] * 2):
        schema = TableSchema(columns)
        sparse_cells = SparseRows(sparse.csr_array(cells))
        for encoded in (schema.encode(cells), schema.encode(sparse_cells).toarray()):
            assert encoded.min() >= 0
            assert encoded.max() <= 1


@ANY
@pytest.mark.parametrize("times", [0.1, 1.0, 4.0])
def test_no_search_finds_rows_farther_apart(schema, times):
    for seed, n_features in enumerate([20, 100]):
        feature_map = drawn(schema, n_features, times, seed)
        found = mean_cosine(feature_map.frequencies, farthest(schema, feature_map.frequencies))
        proved = least_kernel(schema, feature_map.frequencies)
        assert proved <= found - 2.0**-12  # angles of the engine may be as far off
        assert proved == -1 or any(proved == level - 2.0**-11 for level in LEVELS)


@pytest.mark.parametrize(("d", "share", "size"), [
    (1, 0.5, 3.0), (1, 0.9, 100.0), (2, 0.6, 2.0), (3, 0.7, 2.0), (3, 1.0, 20.0), (6, 1.0, 10.0),
])  # fmt: skip
def test_a_pit_that_hardly_a_point_lies_in_is_not_missed(d, share, size):
    schema = TableSchema([Numeric(0, 1)] * d)
    frequencies, pit = with_a_pit(d, 60, size, share)
    assert least_kernel(schema, frequencies) <= mean_cosine(frequencies, pit) + 1e-12
    # Two rows that differ so, as they are added to a sum.
    feature_map = FourierMap(schema, frequencies)
    rows = np.array([np.maximum(pit, 0), np.maximum(-pit, 0)])
    moved = np.subtract(*feature_map.grid_matrix(rows).astype(float))
    for averaged in (False, True):
        l1, l2 = feature_map.sensitivity("replace_one", averaged=averaged)
        assert np.linalg.norm(moved) <= l2
        assert np.abs(moved).sum() <= l1


@pytest.mark.parametrize("seed", range(5))
def test_a_box_is_bounded_at_all_its_points(seed):
    rng = np.random.default_rng(seed)
    frequencies = rng.normal(scale=rng.choice([0.5, 3.0, 30.0]), size=(3, 20))
    center, half = rng.uniform(-1, 1, (8, 3)), rng.choice([1e-3, 0.05, 0.5], (8, 3))
    lower = _Cover(frequencies, center, half).boxes[0]
    inside = rng.uniform(-1, 1, (500, 3))
    inside[:8] = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    for c, h, bound in zip(center, half, lower, strict=True):
        assert np.cos((c + h * inside) @ frequencies).mean(axis=1).min() >= bound - 1e-12
    # A parabola is what a cosine is next to zero, so the bound is sharp there.
    small = _Cover(frequencies, np.zeros((1, 3)), np.full((1, 3), 1e-3)).boxes[0][0]
    corners = np.cos(1e-3 * inside[:8] @ frequencies).mean(axis=1).min()
    assert 1 - corners <= 1 - small + 1e-14
    assert 1 - small < 2 * (1 - corners)


# ----------------------------------------------------------------------------------------- its use


@pytest.mark.parametrize(
    "columns",
    [[Numeric()], [(0, 1), Numeric()], [(0, 1)] * 65, [Categorical(range(65))], [JOB] * 16],
)
def test_without_a_bound_the_claim_is_twice_a_row(columns):
    schema = TableSchema(columns)
    feature_map = FourierMap(schema, np.full((schema.n_encoded, 3), 0.01))
    one, two = (feature_map.sensitivity(kind) for kind in ("add_remove", "replace_one"))
    assert two == pytest.approx([2 * size for size in one], rel=1e-15)


@pytest.mark.parametrize("n_features", [20, 2000])
def test_the_work_is_bounded(n_features, monkeypatch):
    covers = []
    own = _apart._Cover
    monkeypatch.setattr(_apart, "_Cover", lambda *a: covers.append(own(*a)) or covers[-1])
    for d in (6, 12):
        schema = TableSchema([Numeric(0, 1)] * d)
        least_kernel(schema, drawn(schema, n_features).frequencies)
    assert len(covers) == 2
    assert max(cover.n_cosines for cover in covers) <= _apart._MOST_COSINES


def test_what_is_proved_is_a_matter_of_the_format():
    """A file holds noise for what was proved: if you prove less, raise the version of files."""
    numbers = _apart._MOST_COSINES, _apart._PER_BOX, _apart._MOST_ENCODED, _apart._ANGLE_ERROR
    assert (VERSION, LEVELS, *numbers) == (
        9,
        (-0.75, -0.625, -0.5, -0.375, -0.25, -0.1875, -0.125, -0.0625, 0.0),
        *(6_000_000, 100, 64, 2**-11),
    )


@ANY
def test_machines_whose_last_bits_differ_prove_the_same(schema):
    frequencies = drawn(schema).frequencies
    noise = 1 + 1e-13 * np.random.default_rng(0).normal(size=frequencies.shape)
    assert least_kernel(schema, frequencies) == least_kernel(schema, frequencies * noise)


def test_a_group_that_gives_way_to_one_of_another_size():
    """Up to k rows for up to k others: all rows for all is the worst, and none for k is less."""
    schema = SCHEMAS["two numbers"]
    feature_map = drawn(schema, 20)
    t = farthest(schema, feature_map.frequencies)
    rows = np.array([np.maximum(t, 0), np.maximum(-t, 0)])
    here, there = feature_map.grid_matrix(schema_rows(schema, rows)).astype(float)
    l1, l2 = feature_map.sensitivity("replace_one")
    for k in (1, 4):
        for n_gone in range(k + 1):
            for n_new in range(k + 1):
                moved = n_gone * here - n_new * there
                assert np.linalg.norm(moved) <= k * l2
                assert np.abs(moved).sum() <= k * l1


def schema_rows(schema, encoded):
    """Return cells of numeric columns that are encoded so."""
    low, high = np.transpose([column.bounds for column in schema.columns])
    return low + encoded * (high - low)


@pytest.mark.simulated(0)
def test_noise_claim_and_file_of_a_sketch_have_it(tmp_path):
    schema = TableSchema([Numeric(0, 1)] * 2)
    X = np.random.default_rng(0).random((500, 2))
    params = {"schema": schema, "epsilon": 1.0, "random_state": 0}
    replaced = RFFSketcher(**params, adjacency="replace_one")
    reach = replaced.preview_map(2).reach
    assert reach < 1.6
    noise = replaced.preview_noise_std(2)
    added = RFFSketcher(**params).preview_noise_std(2)
    # Under add-remove a fiftieth of the budget is for the number of rows.
    assert noise[0] / added[0] == pytest.approx(reach * math.sqrt(0.98), rel=1e-3)
    fitted = replaced.fit(X)
    fitted.sketch_.save(tmp_path / "sketch.npz")
    assert PrivateSketch.load(tmp_path / "sketch.npz").privacy == fitted.privacy_
    assert pickle.loads(pickle.dumps(fitted)).feature_map_.reach == reach
    # A ledger of replaced rows is charged for the distance, too, in place of two rows.
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-6, adjacency="replace_one")
    RFFSketcher(**params, ledger=ledger).fit(X)
    assert ledger.spent.epsilon < 1.0 * reach * 1.05
