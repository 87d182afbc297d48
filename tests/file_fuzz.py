"""Sketch files that someone else wrote: mutants of valid ones, with right checksums.

A mutant is a function of its seed. `run` examines many in a process of their own, which may die of
one, hang, or run out of memory.

To look at one: ``python tests/file_fuzz.py SEED``.
"""

import copy
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdpsumm import AdaptiveSketcher, HistogramSketcher, M2MEstimator, simulation
from skdpsumm.features._feature_maps import GRID
from skdpsumm.moments.inferring._points import maxent_points
from skdpsumm.schema import Categorical, Numeric, TableSchema
from skdpsumm.sketches import PrivateSketch, RACESketcher, RFFSketcher, SketchUnion
from skdpsumm.sketches._private_sketch import sealed

SECONDS_PER_MUTANT = 3  # which is several times the mean
SECONDS_TO_START = 120  # and for the first call of a compiled engine
BYTES_PER_MUTANT = 2**30  # a file may hold so much
_BYTES_OF_A_PROCESS = 2**32

RNG = np.random.default_rng(0)
PLAIN = RNG.uniform(-1, 1, (300, 2))
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 91, 300),
        "job": RNG.choice(["cook", "clerk", "none"], 300),
        "grade": RNG.choice([1, 2, 3], 300),
        "gain": RNG.exponential(100.0, 300),
    }
)
AGE = Numeric(18, 90, step=1, unit="years", description="at the interview")
JOBS, GRADES = ["cook", "clerk", "none"], [1, 2, 3]
KNOWN = {"schema": {"age": AGE, "job": JOBS, "grade": GRADES, "gain": (0, 1000)}}
BINS = Numeric(edges=[0, 1, 50, 1000])
MISSING = {
    "age": Numeric(18, 90, missing=True),
    "job": Categorical(JOBS, missing=True),
    "grade": Categorical(GRADES, missing=True),
    "gain": Numeric(edges=[0, 1, 50, 1000], missing=True),
}
NEVER = TableSchema(MISSING).never({"age": [18, 20.5], "job": ["clerk"], "gain": [50, 1000]})
QUIET = {"random_state": 0, "epsilon": 3.0}


def _released(sketcher, table=PLAIN, **groups):
    with warnings.catch_warnings(action="ignore"):
        sketcher.set_params(**(QUIET | {"epsilon": sketcher.epsilon}))
        with simulation(1):
            return sketcher.fit(table, **groups).sketch_


def _sketches():
    """Return a valid release of every kind of map, noise and history."""
    wide = [
        RFFSketcher(n_components=6, gamma=1.0),
        RACESketcher(n_repetitions=2, n_buckets=4, bandwidth=0.1),
        HistogramSketcher(n_bins=4),
    ]
    pairs = HistogramSketcher(n_bins=5, marginals=[["age", "job"], ["gain"], [2]])
    known = KNOWN["schema"] | {"gain": BINS}
    with_gaps = FRAME.astype(object).mask(RNG.random(FRAME.shape) < 0.1)
    one = _released(HistogramSketcher(n_bins=4, schema=(-1, 1), delta=0.0))
    return {
        "fourier": _released(RFFSketcher(n_components=8, gamma=1.0)),
        "fourier, bounds": _released(RFFSketcher(n_components=8, **KNOWN), FRAME),
        "race": _released(RACESketcher((-1, 1), n_repetitions=3, n_buckets=4)),
        "race, free": _released(
            RACESketcher(
                n_repetitions=3, n_buckets=4, bandwidth=0.1, delta=0.0, denominator="budget"
            )
        ),
        "histogram": _released(HistogramSketcher(n_bins=6, schema=(-1, 1), marginals=2)),
        "table": _released(pairs.set_params(schema=known), FRAME),
        "missing": _released(clone(pairs).set_params(schema=MISSING), with_gaps),
        "never": _released(RFFSketcher(NEVER, n_components=8, gamma=1.0), with_gaps),
        "adaptive": _released(AdaptiveSketcher(schema=KNOWN["schema"]), FRAME),
        "adaptive, groups": _released(
            AdaptiveSketcher(schema=NEVER, max_rows_per_group=2, delta=0.0),
            with_gaps,
            groups=np.arange(300) // 2,
        ),
        "missing, union": _released(SketchUnion(wide, schema=MISSING), with_gaps),
        "union": _released(SketchUnion(wide, schema=(-1, 1))),
        "replace": _released(SketchUnion(wide[1:], schema=(-1, 1), adjacency="replace_one")),
        "exact": _released(SketchUnion(wide, schema=(-1, 1), epsilon=np.inf)),
        "merged": one + _released(HistogramSketcher(n_bins=4, schema=(-1, 1), epsilon=0.5)),
    }


@cache
def bases():
    """Return headers and arrays of valid files, by name."""
    found = {}
    for name, sketch in _sketches().items():
        header, arrays = sketch._contents()
        found[name] = json.loads(json.dumps(header)), arrays
    return found


# ------------------------------------------------------------------------------------ mutants

NASTY = [
    *(None, True, False, 0, 1, 2, 3, -1, -3, 7, 100, 2**24 + 2, 2**31, 2**63, 10**12, 10**30),
    *(10**400, 0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 5e-324, 1e-300, 1e-160, 1e-30, 1e-9, 1e9, 1e30),
    *(1e160, 1e300, -1e300, 1.7e308, -1.7e308, float("nan"), float("inf"), float("-inf")),
    *("", "x", "0", "1.0", "age", "fourier", "histogram", "race", "union", "pure", "gdp", "worst"),
    *("composed", "zcdp", "none", "objective", "replace_one", "add_remove", "\x1b[2J"),
    *("a\x00", "\ud800", "x" * 5000, "NaN"),
    *json.loads("[[], [[]], {}, [null], [0], [0, 1], [1, 0], [-1, 1], [0, 0], [0, 1, 2], [-3, 9]]"),
    *json.loads('[["a", "b"], ["a", "a"], [0.0, 1.0], [-1e308, 1e308], [0, 1e-320], [NaN, 1.0]]'),
    *json.loads("[[true, 1], [[0], [1]]]"),
    *({"kind": "none", "reason": "x"}, {"kind": "pure", "epsilon0": 1.0}, {"kind": "union"}),
    {"kind": "composed", "parts": [{"kind": "pure", "epsilon0": 1e-12}] * 3},
    {"kind": "worst", "parts": [{"kind": "pure", "epsilon0": 4.0}] * 3},
    {"kind": "worst", "parts": []},
    {"kind": "gdp", "mu": 1e29, "log_ratio": 1e300, "tail": 2.0},
    {"kind": "gdp", "mu": 1e-160, "log_ratio": 0.0, "tail": 0.0},
    {"kind": "objective", "unit": 1.0, "shift": 0.1, "corners": 0},
]
KEYS = ["x", "kind", "low", "bins", "points", "step", "maps", "edges", "missing", "never"]
MECHANISMS = [value for value in NASTY if isinstance(value, dict)]


def pick(rng, things):
    return things[rng.integers(len(things))]


def nasty(rng):
    """Return a value that hardly belongs anywhere: a copy, which may be changed again."""
    return copy.deepcopy(pick(rng, NASTY))


def ways(thing, path=()):
    """Return the way to every value of a header, however deep, containers included."""
    items = thing.items() if isinstance(thing, dict) else enumerate(thing)
    found = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += ways(value, (*path, key))
    return found


def change_header(header, arrays, rng):
    """Replace, remove, add, nudge or exchange one value."""
    way = pick(rng, ways(header))
    place = header
    for key in way[:-1]:
        place = place[key]
    key, old, kind = way[-1], place[way[-1]], rng.integers(8)
    if kind == 0 and isinstance(place, dict):
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[pick(rng, KEYS)] = nasty(rng)
    elif kind == 1:
        place.insert(key, copy.deepcopy(pick(rng, [old, nasty(rng)])))
    elif kind == 2 and isinstance(place, list):
        place.pop(key)
    elif kind == 3 and isinstance(old, list):
        old.append(copy.deepcopy(pick(rng, [*old, 0, None, "x"])))
    elif isinstance(old, bool):
        place[key] = pick(rng, [not old, int(old), float(old), str(old)])
    elif kind in (4, 5, 6) and isinstance(old, int | float):
        place[key] = nudged(old, rng)
    elif kind == 4 and isinstance(old, list):
        old.reverse()
    elif kind == 5 and isinstance(old, str):
        place[key] = pick(rng, [old + " ", old.upper(), old[:-1], old * 2, nasty(rng)])
    else:
        place[key] = nasty(rng)


def nudged(old, rng):
    """Return a number that may still pass for the old one."""
    if abs(old) > 2**64:  # changed before
        return 0
    factors = [0.0, -1.0, 0.1, 0.5, 0.999, 1.001, 2.0, 10.0, 1e6, 1e-6, 1e12, 1e100]
    steps = [1, -1, 2, 3, 10, 1000]
    new = old * pick(rng, factors) if rng.random() < 0.6 else old + pick(rng, steps)
    return int(new) if isinstance(old, int) and rng.random() < 0.7 else float(new)


def change_story(header, arrays, rng):
    """Change one thing wherever it is told, so that the file may still make sense."""
    columns, scale = columns_of(header["map"]), float(pick(rng, SCALES))
    shift = float(pick(rng, [0.0, 0.0, 1.0, -1e6, 1e300]))
    kind, j = rng.integers(10), rng.integers(100)
    values = pick(rng, [[True, False], [2**63, -1, 0], ["", "\x00", "\ud800"], [0.5, 1e300, -0.0]])
    for table in columns:
        column = table[j % len(table)]
        ends = [column[end] for end in ("low", "high") if end in column]
        if kind in (0, 1) and ends:
            column["low"], column["high"] = (float(end) * scale + shift for end in ends)
        elif kind == 2 and "categories" in column:
            column["categories"] = values[: len(column["categories"])]
        elif kind == 3 and ends:
            low, high = ends
            column["step"] = (high - low) / pick(
                np.random.default_rng(j), [1, 3, 1000, 10**6, 10**14]
            )
        elif kind == 4 and pick(rng, [0, 1]):
            tell = pick(rng, ["missing", "description", "unit", "edges"])
            column[tell] = pick(rng, [True, False, None, "of \ud800", [-1.0, 0.0, 1.0]])
        elif kind == 4 and column["name"]:
            column["name"] = pick(np.random.default_rng(j), ["age", "", "\x00", "\n", "x" * 1000])
    if kind == 5:
        header["n_released"] = pick(rng, [0.0, 1.0, -5.0, 29.9, 1e6, 1e18, 1e-300, 2.0**64])
    elif kind == 6:
        header["privacy"]["mechanism"] = copy.deepcopy(pick(rng, MECHANISMS))
    elif kind == 7:
        arrays["noise_std"] = arrays["noise_std"] * abs(scale)
        header["n_noise_std"] *= abs(scale)
    elif kind == 8:
        arrays["sums"] = arrays["sums"] * pick(rng, [0.0, -1.0, 0.5, 1e-300, 2.0])
    elif kind == 9:
        own = [name for name in arrays if name.endswith(("frequencies", "projections"))]
        for name in own:
            arrays[name] = arrays[name] * scale


def columns_of(state):
    """Return the columns of each part of a map."""
    parts = [state]
    for part in parts:
        parts += part.get("maps", [])
    return [part["columns"] for part in parts if "columns" in part]


SCALES = [1.0, 2.0, 1e3, 1e9, 1e12, 1e100, 1e154, 1e160, 1e300, 1e-6, 1e-100, 1e-200, 1e-300, -1.0]
VALUES = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 0.5, 1.0, 2.0, 1e6, -1e6, 1e12, 1e20, 1e300]
VALUES += [1e-300, 5e-324, -1e300, 1e-7, 1e19]
DTYPES = [">f8", "f4", "f2", "g", "i8", "u1", "c16", "?", "O", "U3", "S3", "M8[s]", "f8,f8"]


def change_array(header, arrays, rng):
    """Change the values, the dtype or the shape of an array; or drop or add one."""
    name = pick(rng, list(arrays))
    array, kind = np.atleast_1d(np.array(arrays[name])), rng.integers(10)
    if array.dtype != np.float64 or not array.size:  # changed before
        kind = max(kind, 6)
    if kind in (0, 1):
        array.flat[rng.integers(array.size)] = pick(rng, VALUES)
    elif kind == 2:
        array[...] = pick(rng, VALUES)
    elif kind in (3, 4):
        array *= pick(rng, [0.5, 0.9, 1.1, 2.0, -1.0, 10.0, 1e-3, 1e6, 1e15])
    elif kind == 5:
        array = array.astype(pick(rng, DTYPES[:8])) if rng.random() < 0.7 else odd(array, rng)
    elif kind == 6:
        shapes = [array.ravel(), array[None], array[..., None], array.T, array[:-1], array[:0]]
        array = pick(rng, [*shapes, np.asfortranarray(array), array[::-1], np.array(1.0)])
    elif kind == 7:
        array = np.concatenate([array, array])
    elif kind == 8:
        arrays[pick(rng, ["x", "map.x", "map.offsets", "map.0.offsets", "../up", "map."])] = array
        return
    else:
        del arrays[name]
        return
    arrays[name] = array


def odd(array, rng):
    return np.zeros(array.shape, np.dtype(pick(rng, DTYPES[8:])))


def listed(name, array):
    """Return how a header lists an array."""
    return [name, array.dtype.str, list(array.shape)]


def packed(header, arrays, rng):
    """Return the bytes of a file whose checksum is right; now and then its frame is odd, too."""
    text = json.dumps(header)
    trick = rng.integers(60)
    if trick == 0:
        text = text[:-1] + f', "n_released": {pick(rng, [5.0, "NaN", "1e999"])}}}'
    elif trick == 1:
        text = "[" * 100_000 + text + "]" * 100_000
    elif trick == 2:
        text = text.replace(
            '"columns"', '"deep": ' + '{"x": ' * 3000 + "1" + "}" * 3000 + ', "columns"'
        )
    elif trick == 3:
        text = text.replace('"n_released": ', '"n_released": ' + "9" * 5000)
    octets = text.encode("utf-16" if trick == 4 else "utf-8")
    if trick == 5:
        octets = octets[:-5] + b"\xff\xfe\xff\xff}"
    entries = {name: np.asanyarray(array) for name, array in arrays.items()}
    entries.setdefault("sums", np.zeros(3))
    if trick == 7:
        entries["sums"] = np.zeros(2**22)
    told = [listed(name, array) for name, array in entries.items()]
    if trick == 6:  # a claim of 8 TB
        told[-1][2].insert(0, 1_000_000_000_000)
    elif trick == 8:
        told.append(told[0])
    elif trick == 9:
        told[0][2] = pick(
            rng, [[-1], [0], [2**62], [1e9], None, "9", [[1]], [], [True], 9, [9] * 99]
        )
    elif trick == 10:
        told[0][0] = pick(rng, ["../../x", "/x", "_", "a" * 60_000, None, 3, [1]])
    elif trick == 11:
        told[0][1] = pick(rng, ["O", "<f4", ">f8", "<f16", "f8", "|b1", "<U9", "|V8", "", None, 8])
    listing = f', "arrays": {json.dumps(told)}}}\n'.encode()
    return sealed(octets[:-1] + listing + b"".join(a.tobytes() for a in entries.values()))


def mutant(seed, valid):
    """Return the bytes of a file, and what it was made of."""
    rng = np.random.default_rng(seed)
    name = pick(rng, list(valid))
    header, arrays = copy.deepcopy(valid[name])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if rng.random() < 0.5:
            change_story(header, arrays, rng)
        for _ in range(pick(rng, [0, 1, 1, 1, 2, 3])):
            if header and rng.random() < 0.7:
                change_header(header, arrays, rng)
            elif arrays:
                change_array(header, arrays, rng)
    return packed(header, arrays, rng), name


# ------------------------------------------------------------------------------------- asking


def examine(content, path):
    """Load and ask; return what came of it, or raise what must not be."""
    path.write_bytes(content)
    try:
        sketch = PrivateSketch.load(path)
    except ValueError as error:
        check_room(error)
        return "refused"
    check_sketch(sketch, path)
    for engine in engines():
        os.environ["SKDPSUMM_ENGINE"] = engine
        check_map(sketch.feature_map)
    try:
        return ask(sketch)
    except ValueError as error:
        check_room(error)
        return "loaded, not answered"


def check_room(error):
    """Fail where an error stands for memory that a file made the process ask for."""
    while error is not None:
        if isinstance(error, MemoryError):
            raise AssertionError("a file takes more memory than there is") from error
        error = error.__cause__ or error.__context__


def engines():
    try:
        import numba  # noqa: F401
    except ImportError:
        return ["numpy"]
    return ["numpy", "numba"]


def check_sketch(sketch, path):
    """What holds of all sketches."""
    assert repr(sketch).isascii() or repr(sketch)
    assert sketch.n_samples >= 1
    white = np.random.default_rng(0).standard_normal((3, 1 + len(sketch.sums)))
    draws, n_rows = sketch.simulate(white)
    assert np.isfinite(draws).all()
    assert n_rows.min() >= 1
    means = [sketch.mean, sketch.unprojected().mean]
    assert all(m.shape == (sketch.feature_map.n_features,) for m in means)
    assert np.isfinite(means).all()
    assert 0 <= sketch.privacy.delta(1.0) <= 1
    assert sketch.privacy.epsilon(1e-9) >= sketch.privacy.epsilon(1e-6) >= 0
    other = dataclasses.replace(sketch, sums=np.where(sketch.sums == 0, 1.0, 0.0))
    try:
        both = sketch + other
    except ValueError:  # it would be beyond all limits
        assert sketch.n_released > 2.0**62
        return
    assert np.array_equal(both.sums, sketch.sums + other.sums)
    both.save(path)
    assert np.array_equal(PrivateSketch.load(path).sums, both.sums)


def check_map(feature_map):
    """Rows of all kinds: each adds to places that exist, no more than the sensitivity says."""
    columns = feature_map.schema
    cells = [columns.values(j) or (0.0, -1e300, 1.7e308, 3.0) for j in range(columns.n_columns)]
    gaps = [(None,) if columns.missing(j) else () for j in range(columns.n_columns)]
    cells = [(*known, *gap) for known, gap in zip(cells, gaps, strict=True)]
    kind = np.float64 if len(columns.numeric) == columns.n_columns else object
    X = np.array([[c[i % len(c)] for c in cells] for i in range(8)], dtype=kind)
    try:
        feature_map.check_values(X)
    except ValueError:
        return
    matrix = feature_map.matrix(X)
    matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    assert matrix.shape == (8, feature_map.n_features)
    assert np.abs(matrix).max() <= 1 + 1e-9
    l1, _ = feature_map.sensitivity("add_remove")
    sums = feature_map.grid_sums(X)
    assert np.abs(sums).sum() <= 8 * l1
    for part in feature_map.parts():
        if part.kind != "fourier":
            codes = part.codes(X)
            assert codes.min() >= 0
            assert np.all(codes < part.sizes)
    assert all(sums[group].sum() == 8 * GRID for group in feature_map.row_groups())


def ask(sketch):
    unknown = all(part.schema.is_plain for part, _ in sketch.blocks())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model = M2MEstimator.from_sketch(
            sketch,
            schema=(-1, 1) if unknown else None,
            inference=pick(np.random.default_rng(len(sketch.sums)), ["auto", "points"]),
            n_synthetic=60,
            random_state=0,
        )
        columns = model.schema_
        assert columns.sample(7, np.random.RandomState(0)).shape == (7, columns.n_columns)
        numeric = [j for j in range(columns.n_columns) if columns.values(j) is None]
        asks = [lambda: model.estimate(lambda rows: np.array([str(x) > "5" for x in rows[:, 0]]))]
        if numeric:
            asks += [model.mean, model.covariance, lambda: model.quantile(numeric[0], 0.5)]
        asks += [partial(model.histogram, j) for j in range(min(columns.n_columns, 2))]
        told = [answer(question) for question in asks]
        assert np.shape(model.sample(60, random_state=0)) == (60, columns.n_columns)
        if model._regression is not None:
            points = model._regression.points
            _, weights = maxent_points(model.sketch_, points, columns, np.random.RandomState(0))
            assert weights.min() >= 0
            assert abs(weights.sum() - 1) < 1e-6
    return "answered" if all(told) else "answered in part"


def answer(question):
    try:
        found = question()
        plain = found[...]
        parts = [plain.value, plain.noise_std_error, plain.interval(0.9)]
    except ValueError as error:
        check_room(error)
        return False
    assert all(np.isfinite(part).all() for part in parts), found
    assert np.all(parts[1] >= 0)
    return True


# ------------------------------------------------------------------------------------ processes


def _limit_memory():
    """Let no file take the machine down; return a function that gives the most memory used."""
    try:
        import resource
    except ImportError:  # not on this system
        return lambda: 0
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES_OF_A_PROCESS, _BYTES_OF_A_PROCESS))
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(first, last):
    """Examine the mutants of these seeds; print each seed before, and at the end what came."""
    peak, valid, counts = _limit_memory(), bases(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            print(seed, flush=True)
            start = peak()
            counts[examine(mutant(seed, valid)[0], Path(folder) / "sketch")] += 1
            assert peak() - start < BYTES_PER_MUTANT, "too much memory"
    print(json.dumps(counts))


def run(first, n_mutants):
    """Examine mutants in a process of their own; return how many came to what.

    Whatever one of them does to the process, its seed is the last that was printed.
    """
    told = subprocess.run(
        [sys.executable, __file__, str(first), str(first + n_mutants)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS_TO_START + SECONDS_PER_MUTANT * n_mutants,
    )
    *seeds, counts = told.stdout.splitlines()
    assert told.returncode == 0, f"mutant {counts} failed, after {len(seeds)}"
    return json.loads(counts)


def number(default):
    """Return how many mutants are asked for."""
    return int(os.environ.get("SKDPSUMM_FUZZ_MUTANTS", default))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[-1]) + (len(sys.argv) == 2))
