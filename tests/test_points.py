"""Bins that stand for one number: what a release says of them, and how readers take it."""

import copy
import json

import numpy as np
import pytest
from refusals import refused
from simulated import simulate

from skdpsumm.features._feature_maps import HistogramMap
from skdpsumm.moments import M2MEstimator
from skdpsumm.schema import Categorical, Numeric, TableSchema
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher, PrivateSketch
from skdpsumm.sketches._private_sketch import packed, sealed

SCHEMA = TableSchema(
    [
        Numeric(0, 10),
        Numeric(0, 10, step=1),
        Categorical(["a", "b"]),
        Numeric(0, 10, missing=True),
        Numeric(0, 10, edges=[0, 2, 5, 10]),
    ]
).for_table(5)
EDGES = (0.0, 0.25, 4.0, 4.5, 9.0, 10.0)


def points_map(points):
    groups = [(j,) for j in range(5)]
    return HistogramMap(SCHEMA, [3] * 5, groups, {0: EDGES, 3: EDGES}, points)


BAD = {
    "not increasing": {0: [4.0, 0.0]},
    "below the range": {0: [-1.0]},
    "beyond the range": {0: [4.0, 10.1]},
    "two in a bin": {0: [4.0, 4.25]},
    "two in a bin of the schema": {4: [2.0, 4.0]},
    "none": {0: []},
    "words": {0: ["4"]},
    "NaN": {0: [np.nan]},
    "huge": {0: [10**400]},
    "of a step": {1: [4.0]},
    "of categories": {2: [0]},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_points_are_refused(name):
    refused("points", points_map, BAD[name])
    refused("points names column 9", points_map, {9: [1.0]})


OF_BAD = [[own[0]] for own in BAD.values() if 0 in own and own[0] != [10**400]]


@pytest.fixture(scope="module")
def file():
    """Return the header and the arrays of the file of a release, with points of column 0."""
    X = np.random.default_rng(0).uniform(0, 10, (50, 1))
    sketch = HistogramSketcher(n_bins=5, schema=[Numeric(0, 10)], random_state=0).fit(X).sketch_
    header, arrays = sketch._contents()
    return json.loads(json.dumps(header)), arrays


def loaded(header, arrays, path):
    text, rest = packed({}, arrays)[:-64].split(b"\n", 1)
    text = json.dumps(json.loads(text) | header)  # which may hold NaN
    path.write_bytes(sealed(text.encode() + b"\n" + rest))
    return PrivateSketch.load(path)


def test_a_file_with_points_is_read(file, tmp_path):
    header, arrays = copy.deepcopy(file)
    header["map"]["points"] = [[0.0, 2.5, 10.0]]
    sketch = loaded(header, arrays, tmp_path / "sketch")
    assert sketch.feature_map.points == {0: (0.0, 2.5, 10.0)}
    model = M2MEstimator.from_sketch(sketch, random_state=0)
    assert {0.0, 2.5, 10.0} <= set(np.asarray(model.sample(500, random_state=0)).ravel())


@pytest.mark.parametrize(
    "points",
    [*OF_BAD, [], [[1.0], [1.0]], "x", None, [["x" * 5000]]],
    ids=lambda given: str(given)[:25],
)
def test_a_file_of_a_stranger_with_bad_points_is_refused(points, file, tmp_path):
    header, arrays = copy.deepcopy(file)
    header["map"]["points"] = points
    refused("not a sketch file", loaded, header, arrays, tmp_path / "sketch")


# ------------------------------------------------------------------------------- of a release

N = 6000
HEAPS = {0: 1234.0, 1: 777.0, 2: -0.37}
NAMES = ["loose", "stepped", "narrow"]


def heaped_table():
    rng = np.random.default_rng(0)
    loose, stepped = rng.uniform(0, 1e5, N), rng.integers(0, 100_001, N).astype(float)
    columns = [loose, stepped, rng.uniform(-3, 7, N)]
    for j, own in enumerate(columns):
        own[rng.random(N) < 0.3] = HEAPS[j]
        own[rng.random(N) < 0.1] = np.nan
    return np.column_stack(columns)


X = heaped_table()
WIDE = {"low": 0, "high": 100_000, "missing": True}
RELEASED = [Numeric(**WIDE), Numeric(step=1, **WIDE), Numeric(-3, 7, missing=True)]


@pytest.fixture(scope="module", params=[np.inf, 8.0], ids=["exact", "noisy"])
def model(request, tmp_path_factory):
    """What is read from a file; counts are exact, or have a noise of about ten rows."""
    seed = None if np.isinf(request.param) else 0
    sketcher = AdaptiveSketcher(RELEASED, epsilon=request.param)
    path = tmp_path_factory.mktemp("points") / "sketch"
    sketch = simulate(sketcher, X, seed=seed).sketch_
    sketch.save(path)
    again = PrivateSketch.load(path)
    assert again.feature_map.difference(sketch.feature_map) is None
    return M2MEstimator.from_sketch(again, random_state=0)


EACH = pytest.mark.parametrize("j", HEAPS, ids=NAMES)
LOOSE = pytest.mark.parametrize("j", [0, 2], ids=["loose", "narrow"])


@LOOSE
def test_heaps_that_nobody_chose_are_points_of_every_part(model, j):
    parts = model.sketch_.feature_map.parts()
    assert all(HEAPS[j] in part.points[j] for part in parts if j in part.points)
    assert sum(HEAPS[j] in part.points.get(j, ()) for part in parts) >= 2
    for part in parts:
        assert 1 not in part.points


@EACH
def test_cdf_jumps_at_a_heap(model, j):
    """Of the values that are there, as of the rows; not a little below it, and not after it."""
    there, v = X[:, j][~np.isnan(X[:, j])], HEAPS[j]
    cuts = np.array([np.nextafter(v, -np.inf), v, np.nextafter(v, np.inf), v + 0.5])
    found = np.asarray(model.cdf(j, cuts))
    exact = (there[:, None] <= cuts).mean(axis=0)
    assert found == pytest.approx(exact, abs=0.02)
    assert found[1] - found[0] == pytest.approx(exact[1] - exact[0], abs=0.02)
    assert found[2] == pytest.approx(found[1], abs=1e-6)


@EACH
def test_quantiles_in_a_heap_are_its_value(model, j):
    there, v = X[:, j][~np.isnan(X[:, j])], HEAPS[j]
    low, high = (there < v).mean(), (there <= v).mean()
    found = model.quantile(j, low + np.array([0.1, 0.5, 0.9]) * (high - low))
    assert np.asarray(found).tolist() == [v] * 3


@EACH
def test_counts_of_a_heap(model, j):
    v, tolerance = HEAPS[j], 0.02 * N
    for asked in (
        lambda rows: rows[:, j] == v,
        lambda rows: rows[:, j] >= v,
        lambda rows: rows[:, j] > v,
        lambda rows: rows[:, j] < v,
        lambda rows: np.isnan(rows[:, j].astype(float)),
    ):
        assert float(model.count(asked)) == pytest.approx(asked(X).sum(), abs=tolerance)


@EACH
def test_sampled_rows_of_a_heap_have_its_value(model, j):
    rows = np.asarray(model.sample(N, random_state=0), dtype=float)
    v, own = HEAPS[j], rows[:, j]
    assert np.mean(own == v) == pytest.approx(np.mean(X[:, j] == v), abs=0.02)
    assert np.isnan(own).mean() == pytest.approx(np.isnan(X[:, j]).mean(), abs=0.02)
    near = own[np.abs(own - v) < 1e-6 * np.ptp(X[:, j][~np.isnan(X[:, j])])]
    assert set(near) == {v}


@pytest.mark.filterwarnings("ignore:Give 'x0' a wider range")
@pytest.mark.parametrize("value", [0.0, 100_000.0])
def test_rows_at_the_ends_of_a_range_are_there(value):
    """Half of the rows, which clipping brought there."""
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((3000, 1)) < 0.5, value, rng.uniform(0, 100_000, (3000, 1)))
    sketch = simulate(AdaptiveSketcher([(0, 100_000)], epsilon=3.0), rows).sketch_
    model = M2MEstimator.from_sketch(sketch, random_state=0)
    heaped = np.asarray(model.sample(3000, random_state=0)) == value
    assert heaped.mean() == pytest.approx(0.5, abs=0.03)
    assert float(model.count(lambda x: x[:, 0] == value)) == pytest.approx(1500, abs=90)
    assert float(model.quantile(0, 0.25 if value == 0 else 0.75)) == value


def test_rows_on_both_sides_of_a_threshold_are_released():
    """A heap just below a round threshold is none at it, and two are no error."""
    schema = TableSchema({"x": (0, 1000), "y": ["a", "b"]}).never({"x": [500, 1000], "y": ["a"]})
    table = np.empty((3000, 2), object)
    table[:, 0] = np.where(np.arange(3000) % 2, 499.95, 500.0)
    table[:, 1] = "b"
    for epsilon in (3.0, np.inf):
        seed = None if np.isinf(epsilon) else 0
        fitted = simulate(AdaptiveSketcher(schema, epsilon=epsilon), table, seed=seed)
        for part in fitted.feature_map_.parts():
            edges, points = part.edges(0), part.points[0]
            assert 500.0 in edges
            assert 500.0 in points
            # All points of the cell of the others.
            cell = np.searchsorted(edges, 499.95, side="right") - 1
            assert {v for v in points if edges[cell] <= v < edges[cell + 1]} <= {499.95}
