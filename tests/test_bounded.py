"""What a stranger wrote is counted before it is parsed: JSON, TOML, and what is made of them."""

import json
import time
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from skdpsumm import _bounded
from skdpsumm._bounded import MOST_CHARACTERS, MOST_VALUES, parse_toml, read_json
from skdpsumm.features._feature_maps import MOST_FEATURES, FourierMap
from skdpsumm.privacy import PrivacyGuarantee, PureDP
from skdpsumm.schema import Categorical, Numeric, TableSchema
from skdpsumm.schema._schema import schema_of
from skdpsumm.sketches import (
    AdaptiveSketcher,
    HistogramSketcher,
    PrivateSketch,
    RFFSketcher,
    _private_sketch,
)
from skdpsumm.sketches._adaptive import largest_state
from skdpsumm.sketches._private_sketch import check_consistent, sealed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.floats(-9, 9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(max_examples=20)
@given(JSON, st.booleans())
def test_what_is_within_the_limits_is_read_as_it_is(value, ascii_only):
    try:
        text = json.dumps(value, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return
    assert read_json(text) == value


def nested(depth, item="1"):
    return "[" * depth + item + "]" * depth


def test_depth_and_numbers_are_held_to_their_limits():
    brackets = json.dumps('[{"\\' * 1000)  # in a string they are no brackets
    assert read_json(nested(_bounded.DEEPEST, brackets).encode())
    assert parse_toml(f"a = {nested(_bounded.DEEPEST - 1)} # {'[' * 99}\nb = {brackets}")
    deep = nested(_bounded.DEEPEST + 1), '{"":' * 65 + "1" + "}" * 65
    for text in (*deep, "[" * 10**5, "[[" * 65 + "]]"):
        refused("nested deeper", read_json, text.encode())
        refused("nested deeper", parse_toml, f"a = {text}")
    few, many = "1" + ",1" * (MOST_VALUES - 2), "1" + ",1" * MOST_VALUES
    assert len(read_json(f"[{few}]".encode())) == MOST_VALUES - 1
    for read, text in ((read_json, b"[%s]"), (parse_toml, "a = [1, %s]")):
        digits = "9" * 5000
        with pytest.raises(ValueError, match="4300 digits"):
            read(text % (digits if isinstance(text, str) else digits.encode()))
    most = _bounded.MOST_CONTAINERS
    for text in (many, "[]" + ",[]" * most, '{"":0}' + ',{"":0}' * most):
        refused("There are more than", read_json, f"[{text}]".encode())


@pytest.mark.parametrize(
    "text",
    [
        '"' + "x" * _bounded.MOST_BYTES + '"',
        *("[1e999]", "[NaN]", "[Infinity]", '{"a": 1, "a": 2}', "", "\\", '["', "[1,]", "1 2"),
        *('["\\"', "[" + "9" * 5000 + "]"),
    ],
)
def test_what_is_no_json_is_a_value_error(text):
    refused(r".", read_json, text.encode())


@pytest.mark.parametrize(
    "text",
    [
        *("a" + ".a" * 20_000 + "=1", "[a" + '."a"' * 20_000 + "]", "x = {a" + ". a" * 99 + "=1}"),
        *("#" * (MOST_CHARACTERS + 1), 'a = """' + '\\"""' * 100_000, "a" * 10**6, "'" * 10**6),
        # Each line opens a text that no later one ends, and of the last backslash nothing is left.
        '\\"""x\n' * 100_000 + "\\",
        "a = [" + "0.1, " * 10**5,
        "a = [" + ("9" * 4300 + ",") * 240 + "[",
    ],
)
def test_what_is_no_toml_is_a_value_error_in_time(text):
    """Each would take seconds, or run out of stack, if it were parsed or matched at will."""
    refused(r".", parse_toml, text)


def test_toml_is_read_as_it_is():
    text = """
    "a.b" . c = [[1.5, 2.5], ["[", ']']] # [[[[
    d = \"\"\"
    [[["
    \"\"\"
    e = '''['''
    x = {y.z = 1979-05-27, w = {v = [0.1, 0.2]}}
    """
    assert parse_toml(text) == tomllib.loads(text)


# ------------------------------------------------------------------------------- sketch files


@pytest.fixture(scope="module")
def content():
    schema = {"a": Numeric(0, 1), "b": ["x", "y"]}
    rows = np.array([[0.5, "x"], [0.2, "y"]] * 9, object)
    fitted = HistogramSketcher(n_bins=4, schema=TableSchema(list(schema.values()))).fit(rows)
    return fitted.sketch_._contents()


def packed(text, arrays):
    listed = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    text = f'{text[:-1]}, "arrays": {json.dumps(listed)}}}\n'
    return sealed(text.encode() + b"".join(array.tobytes() for array in arrays.values()))


BOMBS = {
    "items": ",".join(['{"":0}'] * 2_000_000),
    "lists": ",".join(["[]"] * 2_000_000),
    "numbers": ",".join(["0"] * 2_000_000),
    "depth": "[" * 10**6 + "]" * 10**6,
    "bytes": '"' + "x" * 2**24 + '"',
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_header_is_counted_before_it_is_parsed(content, name, tmp_path, monkeypatch):
    """Few bytes make 2 GB of objects, under a right checksum, which a stranger can make."""
    header, arrays = content
    text = json.dumps(header)[:-1] + f', "x": [{BOMBS[name]}]}}'
    (tmp_path / "bomb").write_bytes(packed(text, arrays))
    monkeypatch.setattr(json, "loads", None)
    told = refused("not a sketch file, or is damaged", PrivateSketch.load, tmp_path / "bomb")
    assert not isinstance(told.__cause__, TypeError)


@pytest.mark.parametrize(
    "change",
    [
        lambda listed: [*listed, listed[0]],
        lambda listed: [*listed, ["x", "<f8", [0]], ["x", "<f8", [0]]],
        lambda listed: listed[:-1],
        lambda listed: [[name, kind, [n + 1]] for name, kind, (n,) in listed],
        lambda listed: [[name, kind, [-n]] for name, kind, (n,) in listed],
        lambda listed: [*listed, ["x", "<f8", [-1]], ["y", "<f8", [1]]],
        lambda listed: [[name, kind, [float(n)]] for name, kind, (n,) in listed],
        lambda listed: [[name, kind, [True] * n] for name, kind, (n,) in listed],
        lambda listed: [[name, kind] for name, kind, _ in listed],
        lambda listed: [[name, kind, None] for name, kind, _ in listed],
        lambda listed: listed[0],
        lambda listed: None,
    ],
)
def test_arrays_are_those_that_the_header_lists(content, change, tmp_path):
    header, arrays = content
    path, octets = tmp_path / "sketch", packed(json.dumps(header), arrays)
    path.write_bytes(octets)
    assert PrivateSketch.load(path)
    text, rest = octets[:-64].split(b"\n", 1)
    told = json.loads(text)
    told["arrays"] = change(told["arrays"])
    path.write_bytes(sealed(json.dumps(told).encode() + b"\n" + rest))
    refused("its parts do not fit", PrivateSketch.load, path)


@pytest.mark.parametrize(
    "kind", ["O", "|O", ">f8", "<f16", "f8", "<M8[s]", "<U2", "|V8", "<f8,<f8", "|u8", "", 8, None]
)
def test_arrays_of_other_dtypes_are_not_read(kind, monkeypatch):
    """Least of all objects, which are pickled, and addresses as bytes."""
    read = _private_sketch.arrays_of
    assert read([("x", "|u1", [2, 1]), ("y", "<f8", [])], b"ab" + bytes(8))["x"].tolist() == [
        [97],
        [98],
    ]
    monkeypatch.setattr(np, "frombuffer", None)
    with pytest.raises((ValueError, TypeError), match=r"plain dtype|string"):
        read([("x", kind, [1])], bytes(8))


@pytest.mark.parametrize(
    "shape", [[10**12], [10**30], [2**30, 2**30], [0, 2**70], [1] * 5, [10**4000] * 100_000]
)
def test_no_room_and_no_time_is_taken_by_the_shape_that_a_header_tells(shape):
    start = time.process_time()
    with pytest.raises(ValueError, match=r"plain dtype or shape|multiple|reshape|size"):
        _private_sketch.arrays_of([("x", "<f8", shape)], bytes(8))
    assert time.process_time() - start < 0.1


def test_files_hold_the_largest_map():
    text, privacy = {"kind": "x"}, PrivacyGuarantee(PureDP(1.0))
    _private_sketch.check_fits(text, {}, MOST_FEATURES, privacy)
    with pytest.raises(ValueError, match=r"No file could hold the sketch: It has 1,2.* bytes"):
        _private_sketch.check_fits(text, {}, 75_000_000, privacy)


EMOJI = "\U0001f600"
TOO_LARGE = {
    "categories": {"a": [f"{k}" + EMOJI * 20 for k in range(70_000)]},
    "description": {"a": Numeric(0, 1, description="x" * 17_000_000)},
    "name": {"\u00e9" * 3_000_000: (0, 1)},
}


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("kind", [HistogramSketcher, AdaptiveSketcher])
def test_what_no_file_can_hold_is_not_paid_for(name, kind, unpaid):
    schema = TableSchema(TOO_LARGE[name])
    cell = 0.5 if schema.values(0) is None else schema.values(0)[0]
    table = pd.DataFrame(np.full((3, schema.n_columns), cell, object), columns=list(schema))
    refused("No file could hold the sketch", kind(schema=schema, ledger=unpaid).fit, table)


def test_more_bytes_than_a_file_holds_are_not_paid_for(monkeypatch, unpaid):
    monkeypatch.setattr(_private_sketch, "LARGEST_FILE", 2**26)
    sketcher = RFFSketcher((0, 1), n_components=2**21, gamma=1.0, ledger=unpaid)
    refused(r"No file could hold the sketch: It has", sketcher.fit, np.full((3, 4), 0.5))


def test_the_state_that_is_checked_is_no_smaller_than_that_of_a_release():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(500), "b": rng.integers(0, 9, 500), "c": rng.random(500)})
    known = {"a": (0, 1), "b": Categorical(range(9), missing=True), "c": Numeric(0, 1, step=0.1)}
    for more in ({}, {"target": "b"}, {"workload": [["a", "b", "c"]]}, {"epsilon": 0.01}):
        fitted = AdaptiveSketcher(known, **more).fit(table)
        told, _ = fitted.feature_map_.to_state()
        most = largest_state(fitted._design(schema_of(fitted)))
        assert len(json.dumps(told)) <= len(json.dumps(most))
        assert len(told["maps"]) <= len(most["maps"])


def test_cheap_refusals_come_before_the_search_for_the_farthest_rows(monkeypatch):
    sketcher = RFFSketcher((0, 1), n_components=8, gamma=1.0, adjacency="replace_one")
    sketch = sketcher.fit(np.full((9, 2), 0.5)).sketch_
    check_consistent(sketch)
    monkeypatch.setattr("skdpsumm.features._feature_maps.least_kernel", None)
    fresh = FourierMap(sketch.schema, sketch.feature_map.frequencies)
    for change, told in (
        ({"noise_std": sketch.noise_std / 3}, "noise so small"),
        ({"sums": sketch.sums + 1e6}, "sums are larger"),
        ({"n_released": 8.5}, "must be whole"),
    ):
        refused(told, check_consistent, replace(sketch, feature_map=fresh, **change))


def test_a_deep_guarantee_is_refused_and_a_shallow_one_shows_itself(content, tmp_path):
    header, arrays = content
    pure = {"kind": "pure", "epsilon0": 9.0}
    for depth in (1, 5, 7, 8, 30, 300):
        mechanism = pure
        for _ in range(depth):
            mechanism = {"kind": "worst", "parts": [mechanism]}
        told = header | {"privacy": header["privacy"] | {"mechanism": mechanism}}
        (tmp_path / "deep").write_bytes(packed(json.dumps(told), arrays))
        if depth < 8:
            assert "(9, 0)-DP" in repr(PrivateSketch.load(tmp_path / "deep"))
            continue
        refused("not a sketch file", PrivateSketch.load, tmp_path / "deep")
        refused("nested deeper", PrivacyGuarantee.from_dict, told["privacy"])


# ----------------------------------------------------------------------------------- schemas


def test_a_schema_lists_no_more_than_a_limit():
    many = range(100_001)
    for make in (
        lambda: Categorical(many),
        lambda: Categorical(iter(many)),
        lambda: Numeric(edges=many),
        lambda: Categorical(["a"], missing_values=[f"b{k}" for k in many]),
        lambda: TableSchema({"a": list(many)}),
    ):
        refused("more than 100,000 values", make)
    assert len(Numeric(edges=range(100_000)).edges) == 100_000


def test_a_schema_that_no_file_can_hold_is_not_saved_and_not_paid_for(tmp_path, unpaid):
    wide = TableSchema([Numeric(0, 1)] * 140_000)
    refused("a file may have 1,048,576", wide.save, tmp_path / "wide.toml")
    assert not (tmp_path / "wide.toml").exists()
    refused("There are more than", TableSchema.from_dict, wide.to_dict())
    sketcher = HistogramSketcher(n_bins=2, schema=(0, 1), ledger=unpaid)
    refused("No file could hold the sketch", sketcher.fit, np.zeros((3, 70_000)))


def test_a_schema_nested_without_end_is_refused():
    for value in ([], ["x"]):
        for _ in range(100):
            value = [value]
        with pytest.raises(ValueError, match="nested deeper"):
            TableSchema.from_dict({"columns": [{"name": None, "categories": value}]})
