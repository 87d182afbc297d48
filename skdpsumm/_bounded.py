"""JSON and TOML that someone else wrote: how much there is of it is told before it is parsed.

A parser makes an object of 200 bytes from six characters, and calls itself for each list in a list.
So bytes, values, containers and depth are counted first, over the bytes alone, in linear time.
Python itself refuses whole numbers of more than 4,300 digits.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes of a JSON text, and characters of a TOML text: each takes up to half a second to read.
MOST_BYTES, MOST_CHARACTERS = 2**24, 2**20
# Values, containers included, and lists and objects among them: 100,000 columns of nine values.
MOST_VALUES, MOST_CONTAINERS = 2**20, 2**17
# Lists and objects in one another. A union of unions has two levels for each union, of which there
# can be 16 in one another.
DEEPEST = 64
# Parts of a dotted key of TOML, which are tables in one another.
_MOST_PARTS_OF_KEY = 16

_QUOTE, _COMMA = b'",'
# What each byte adds to the depth.
_DEPTH_STEP = np.zeros(256, np.int8)
_DEPTH_STEP[list(b"[{")], _DEPTH_STEP[list(b"]}")] = 1, -1
# Strings and comments of TOML. A string that has no end reaches to the end of its line or text.
_TOML_TEXT = re.compile(
    r'"""(?:[^\\]|\\(?:.|\Z))*?(?:"""|\Z)|'
    r"'''.*?(?:'''|\Z)|"
    r'"(?:[^"\\\n]|\\.)*"?|'
    r"'[^'\n]*'?|#[^\n]*",
    re.DOTALL,
)
_NO_KEY = re.compile(r"[^\w. \t-]+")


def path_of_file(path: str | os.PathLike[str]) -> Path:
    """Return where a file is or will be; raise IsADirectoryError where a folder is."""
    found = Path(path)
    if found.is_dir():
        raise IsADirectoryError(f"path={os.fspath(path)!r} is a folder; name a file in it.")
    return found


def read_json(octets: bytes, *, most_bytes: int = MOST_BYTES) -> Any:
    """Return what a JSON text says, or raise ValueError before it takes memory or time.

    Parameters
    ----------
    octets : bytes
        In UTF-8.
    most_bytes : int, default=MOST_BYTES
        What is longer is refused. The default suits the header of a sketch.

    Returns
    -------
    dict, list, str, int, float, bool or None
        Numbers are finite, and no object has a key twice.

    Raises
    ------
    ValueError
        For what is no such text, or is larger than allowed.
    """
    check_json(octets, most_bytes=most_bytes)
    return json.loads(
        octets.decode(), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique
    )


def check_json(octets: bytes, *, most_bytes: int = MOST_BYTES, deepest: int = DEEPEST) -> None:
    """Raise ValueError for a JSON text that is larger or nested deeper than allowed.

    Parameters
    ----------
    octets : bytes
    most_bytes : int, default=MOST_BYTES
        As in `read_json`.
    deepest : int, default=DEEPEST
        As in `check_nested`.
    """
    if len(octets) > most_bytes:
        raise ValueError(f"The text has {len(octets):,} bytes, and may have {most_bytes:,}.")
    if octets.count(b"[") + octets.count(b"{") <= deepest and octets.count(b",") < MOST_CONTAINERS:
        return  # whatever is in strings
    codes = np.frombuffer(octets.replace(b"\\\\", b"").replace(b'\\"', b"") + b" ", np.uint8)
    outside = codes[~np.logical_xor.accumulate(codes == _QUOTE)]
    steps = _DEPTH_STEP[outside]
    n_containers, n_commas = int((steps == 1).sum()), int((outside == _COMMA).sum())
    _check_numbers(1 + n_commas + n_containers, n_containers)
    _check_depth(_deepest(steps), deepest)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text, or raise ValueError before it takes memory or time.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        For what is no TOML, or is larger than allowed.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"The text has {len(text):,} characters, and may have {MOST_CHARACTERS:,}."
        )
    bare = _TOML_TEXT.sub(lambda found: "" if found[0].startswith("#") else "a", text)
    codes = np.frombuffer(bare.encode("utf-8", "replace") + b" ", np.uint8)
    _check_depth(_deepest(_DEPTH_STEP[codes]))
    if any(piece.count(".") >= _MOST_PARTS_OF_KEY for piece in _NO_KEY.split(bare)):
        raise ValueError(f"A key has more than {_MOST_PARTS_OF_KEY} parts.")
    return tomllib.loads(text)


def check_nested(value: Any, *, deepest: int = DEEPEST) -> None:
    """Raise ValueError for lists and dicts of more values, or deeper, than a file may hold.

    Parameters
    ----------
    value : object
    deepest : int, default=DEEPEST
        Levels of lists and dicts in one another. The default suits the header of a sketch.
    """
    level, depth, n_values, n_containers = [value], 0, 1, 0
    while level := [one for one in level if isinstance(one, dict | list | tuple)]:
        depth, n_containers = depth + 1, n_containers + len(level)
        _check_depth(depth, deepest)
        level = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
        n_values += len(level)
        _check_numbers(n_values, n_containers)


def _deepest(steps: NDArray[np.int8]) -> int:
    return int(np.cumsum(steps[steps != 0], dtype=np.int32).max(initial=0))


def _check_depth(depth: int, deepest: int = DEEPEST) -> None:
    if depth > deepest:
        raise ValueError(f"Lists and tables are nested deeper than {deepest} levels.")


def _check_numbers(n_values: int, n_containers: int) -> None:
    if n_values > MOST_VALUES or n_containers > MOST_CONTAINERS:
        raise ValueError(
            f"There are more than {MOST_VALUES:,} values, or {MOST_CONTAINERS:,} lists and tables."
        )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("A number is not finite.")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A key occurs twice.")
    return found
