"""What a stranger wrote is counted before it is parsed: JSON, TOML, and what is made of them."""

import io
import json
import tomllib
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdpsumm import Categorical, HistogramSketcher, Numeric, PrivateSketch, TableSchema
from skdpsumm._bounded import (
    DEEPEST,
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_CONTAINERS,
    MOST_VALUES,
    parse_toml,
    read_json,
)
from skdpsumm.privacy import PrivacyGuarantee, PrivacyLedger
from skdpsumm.sketches import _file
from skdpsumm.sketches._file import sealed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.floats(-9, 9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


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
    assert read_json(nested(DEEPEST, brackets).encode())
    assert parse_toml(f"a = {nested(DEEPEST - 1)} # {'[' * 99}\nb = {brackets}")
    for text in (nested(DEEPEST + 1), '{"":' * 65 + "1" + "}" * 65, "[" * 10**5, "[[" * 65 + "]]"):
        with pytest.raises(ValueError, match="nested deeper"):
            read_json(text.encode())
        with pytest.raises(ValueError, match="nested deeper"):
            parse_toml(f"a = {text}")
    few, many = "1" + ",1" * (MOST_VALUES - 2), "1" + ",1" * MOST_VALUES
    assert len(read_json(f"[{few}]".encode())) == MOST_VALUES - 1
    for text in (many, "[]" + ",[]" * MOST_CONTAINERS, '{"":0}' + ',{"":0}' * MOST_CONTAINERS):
        with pytest.raises(ValueError, match="There are more than"):
            read_json(f"[{text}]".encode())


@pytest.mark.parametrize(
    "text",
    [
        '"' + "x" * MOST_BYTES + '"',
        *("[1e999]", "[NaN]", "[Infinity]", '{"a": 1, "a": 2}', "", "\\", '["', "[1,]", "1 2"),
        *('["\\"', "[" + "9" * 5000 + "]"),
    ],
)
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        read_json(text.encode())


def test_other_encodings_are_none():
    for encoding in ("utf-16", "utf-32"):
        with pytest.raises(ValueError, match=r"."):
            read_json("[1]".encode(encoding))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a" + ".a" * 20_000 + " = 1",
            "[a" + '."a"' * 20_000 + "]",
            "x = {a" + ". a" * 99 + "=1}",
        ),
        *("#" * (MOST_CHARACTERS + 1), 'a = """' + '\\"""' * 100_000, "a" * 10**6, "'" * 10**6),
        "a = [" + "0.1, " * 10**5,
    ],
)
def test_what_is_no_toml_is_a_value_error_in_time(text):
    """Each would take seconds, or run out of stack, if it were parsed or matched at will."""
    with pytest.raises(ValueError, match=r"."):
        parse_toml(text)


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
    return _file._content(fitted.sketch_)


def packed(text, arrays):
    stream = io.BytesIO()
    octets = np.frombuffer(text.encode(), np.uint8)
    np.savez_compressed(stream, header=octets, **arrays)
    return sealed(stream.getvalue())


BOMBS = {
    "items": ",".join(['{"":0}'] * 2_000_000),
    "lists": ",".join(["[]"] * 2_000_000),
    "numbers": ",".join(["0"] * 2_000_000),
    "depth": "[" * 10**6 + "]" * 10**6,
    "bytes": '"' + "x" * 2**24 + '"',
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_header_is_counted_before_it_is_parsed(content, name, tmp_path, monkeypatch):
    """98 kB of zip made 2 GB of objects, under a right checksum, which a stranger can make."""
    header, arrays = content
    text = json.dumps(header)[:-1] + f', "x": [{BOMBS[name]}]}}'
    (tmp_path / "bomb").write_bytes(packed(text, arrays))
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(ValueError, match="not a sketch file, or is damaged") as told:
        PrivateSketch.load(tmp_path / "bomb")
    assert not isinstance(told.value.__cause__, TypeError)


def test_nothing_is_parsed_before_the_checksum_is_right(content, tmp_path, monkeypatch):
    header, arrays = content
    octets = packed(json.dumps(header), arrays)
    (tmp_path / "sketch").write_bytes(octets[:-1] + b"x")
    monkeypatch.setattr(zipfile, "ZipFile", None)
    monkeypatch.setattr(_file, "read_json", None)
    with pytest.raises(ValueError, match="its checksum does not match"):
        PrivateSketch.load(tmp_path / "sketch")


def test_a_directory_of_many_entries_is_not_read(content, tmp_path, monkeypatch):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for k in range(6000):
            archive.writestr(f"{k}.npy", b"")
    (tmp_path / "many").write_bytes(sealed(stream.getvalue()))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(ValueError, match="not a sketch file") as told:
        PrivateSketch.load(tmp_path / "many")
    assert "too many entries" in str(told.value.__cause__)


def test_who_knows_which_sketch_comes_can_say_how_large_it_is(content, tmp_path):
    header, arrays = content
    path = tmp_path / "sketch"
    path.write_bytes(packed(json.dumps(header), arrays))
    size = path.stat().st_size
    assert _file.read_sketch(path, PrivateSketch, 10_000).n_released
    for least in (size - 1, size):  # all that is unpacked counts, too
        with pytest.raises(ValueError, match="not a sketch file, or is damaged"):
            _file.read_sketch(path, PrivateSketch, least)


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
            sketch = PrivateSketch.load(tmp_path / "deep")
            assert "epsilon=9" in repr(sketch) + repr(sketch.privacy)
            continue
        with pytest.raises(ValueError, match="not a sketch file"):
            PrivateSketch.load(tmp_path / "deep")
        with pytest.raises(ValueError, match="nested deeper"):
            PrivacyGuarantee.from_dict(told["privacy"])


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
        with pytest.raises(ValueError, match="more than 100,000 values"):
            make()
    assert len(Numeric(edges=range(100_000)).edges) == 100_000


def test_a_schema_that_no_file_can_hold_is_not_saved_and_not_paid_for(tmp_path):
    wide = TableSchema([Numeric(0, 1)] * 70_000)
    with pytest.raises(ValueError, match="a file may have 1,048,576"):
        wide.save(tmp_path / "wide.toml")
    assert not (tmp_path / "wide.toml").exists()
    with pytest.raises(ValueError, match="There are more than"):
        TableSchema.from_dict(wide.to_dict())
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    sketcher = HistogramSketcher(n_bins=2, schema=(0, 1), ledger=ledger)
    with pytest.raises(ValueError, match="No file could hold the sketch"):
        sketcher.fit(np.zeros((3, 70_000)))
    assert ledger.entries() == []


def test_a_schema_nested_without_end_is_refused():
    for value in ([], ["x"]):
        for _ in range(100):
            value = [value]
        with pytest.raises(ValueError, match="nested deeper"):
            TableSchema.from_dict({"columns": [{"name": None, "categories": value}]})
