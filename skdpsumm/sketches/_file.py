"""The file format of a sketch: a line of JSON, then arrays as numpy writes them, and a checksum.

The checksum, SHA-256 of all bytes before it, tells a damaged file before any of it is parsed. It is
no signature: whoever knows the format can write anything under it. So nothing in a file is
believed. The header is counted before it is parsed (`_bounded`), and says how long each array is.
The head of each array must be as numpy writes it: no other parser sees it. Nothing is compressed,
so that a file takes the memory that its size tells. Each part is made by the constructor that
checks it, and what was made must write the very same contents again: what has another type or does
not belong there is told. Last, what a sketch says of itself must be possible: its claim, its noise
and its sums together (`_private_sketch.check_consistent`).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._bounded import MOST_BYTES, check_json, read_json
from ..features._feature_maps import MOST_FEATURES
from ..privacy import PrivacyGuarantee

Header = dict[str, Any]
Arrays = dict[str, NDArray]
Made = TypeVar("Made")

FORMAT = "skdpsumm.PrivateSketch"
VERSION = 8
NUMBERS = ("n_released", "n_noise_std", "postprocess", "n_from_sums", "added")
# Bytes of a file: a header, and sums and noise of as many features as a map may have.
LARGEST_FILE = 16 * MOST_FEATURES + MOST_BYTES + 2**20
_CHECKSUM = 64
# An .npy file starts with 128 bytes, as numpy pads what it says of up to four axes.
_START = 128
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00v\x00\{'descr': '(\|[biu]1|<[iuf][248]|<U[1-9][0-9]{0,5})', "
    rb"'fortran_order': False, "
    rb"'shape': \((|[0-9]{1,12},|[0-9]{1,12}(?:, [0-9]{1,12}){1,3})\), \} *\n"
)


def write_file(
    path: str | os.PathLike, header: Header, arrays: Arrays, make: Callable[[Header, Arrays], Any]
) -> None:
    """Write a sketch to `path` through a temporary file beside it, which is read once more.

    Parameters
    ----------
    path : path-like
    header : dict
        All but the arrays (`header_of`).
    arrays : dict of ndarray
    make : callable
        As in `read_file`.
    """
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.name + ".") as folder:
        complete = Path(folder) / "sketch"
        complete.write_bytes(packed(header, arrays))
        # Noise was paid for: a file that cannot be read back would lose it for good.
        try:
            read_file(complete, make)
        except ValueError as error:
            reason = error.__cause__ or error
            raise ValueError(
                f"The sketch is not saved, for it could not be loaded. {reason}"
            ) from error
        os.replace(complete, target)


def packed(header: Header, arrays: Arrays) -> bytes:
    """Return the bytes of a file."""
    parts = {}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
        parts[name] = stream.getvalue()
    text = _encoded(header, {name: len(part) for name, part in parts.items()})
    return sealed(b"\n".join([text, b"".join(parts.values())]))


def sealed(octets: bytes) -> bytes:
    """Return bytes with their checksum behind them."""
    return octets + hashlib.sha256(octets).hexdigest().encode()


def check_fits(
    state: dict[str, Any], arrays: dict[str, NDArray], n_features: int, privacy: PrivacyGuarantee
) -> None:
    """Raise ValueError if no file could hold a sketch that is not paid for yet.

    Parameters
    ----------
    state : dict
        Of its map, as the arrays are (`FeatureMap.to_state`).
    arrays : mapping from str to ndarray
    n_features : int
    privacy : PrivacyGuarantee
    """
    try:
        sizes = {f"map.{name}": _START + array.nbytes for name, array in arrays.items()}
        sizes |= dict.fromkeys(("sums", "noise_std"), _START + 8 * n_features)
        text = _encoded(header_of(state, privacy), sizes)
        # A header may grow by this later: by digits of numbers, and by what sums of sketches state.
        check_json(text, most_bytes=MOST_BYTES - 2**16)
        if (most := len(text) + sum(sizes.values())) > LARGEST_FILE:
            raise ValueError(f"It has {most:,} bytes, and may have {LARGEST_FILE:,}.")
    except ValueError as error:
        raise ValueError(
            f"No file could hold the sketch: {error} Shorten the schema's texts, or list fewer "
            "columns, categories, edges, marginals or parts."
        ) from None


def read_file(
    path: str | os.PathLike, make: Callable[[Header, Arrays], Made], largest: int = LARGEST_FILE
) -> Made:
    """Return the sketch in a file that `write_file` wrote.

    Parameters
    ----------
    path : path-like
    make : callable
        Returns the sketch of a header and arrays, or raises where they do not fit.
    largest : int, default=LARGEST_FILE
        The most bytes that the file may have. The default is what the largest sketch has; whoever
        knows which sketch comes can say less.

    Raises
    ------
    ValueError
        If the file is no sketch, is damaged or too large, says what cannot be, or was written by a
        newer format.
    """
    with Path(path).open("rb") as file:
        octets = file.read(min(os.fstat(file.fileno()).st_size, largest) + 1)
    return read_octets(octets, repr(os.fspath(path)), make, largest)


def read_octets(
    octets: bytes, told: str, make: Callable[[Header, Arrays], Made], largest: int
) -> Made:
    """Return the sketch in the bytes of a file, which messages call `told`: see `read_file`."""
    try:
        text, _, rest = checked(octets, largest).partition(b"\n")
        header = read_json(text)
        version = header["version"]
        if header["format"] != FORMAT or type(version) is not int or version < 1:
            raise ValueError("It has another format.")
    except Exception as error:  # text that is no header may be anything
        raise ValueError(
            f"{told} is not a sketch file, or is damaged: check the path, or copy the file again. "
            "A pickled model says what it promises in privacy_.explain()."
        ) from error
    if version != VERSION:
        remedy = "Upgrade skdpsumm" if version > VERSION else "Use the skdpsumm that wrote it"
        raise ValueError(
            f"{told} has format version {version}; this skdpsumm reads {VERSION}. {remedy}."
        )
    try:
        return make(header, arrays_of(header.pop("arrays"), rest))
    except Exception as error:
        raise ValueError(f"{told} is not a sketch file: its parts do not fit. {error}") from error


def checked(octets: bytes, largest: int) -> bytes:
    """Return the bytes of a file before its checksum, or raise ValueError."""
    if len(octets) > largest:
        raise ValueError("It is too large.")
    found = hashlib.sha256(memoryview(octets)[:-_CHECKSUM]).hexdigest()
    if found.encode() != octets[-_CHECKSUM:]:
        raise ValueError("Its checksum does not match.")
    return octets[:-_CHECKSUM]


def arrays_of(sizes: list[tuple[str, int]], octets: bytes) -> Arrays:
    """Return the arrays that a header lists, which are all that there is."""
    arrays, start = {}, 0
    for name, size in sizes:
        if type(size) is not int or size < _START:  # back to read the same bytes once more
            raise ValueError("The header lists an array that is none.")
        arrays[name] = read_npy(octets[start : start + size])
        start += size
    if start != len(octets) or len(arrays) < len(sizes):
        raise ValueError("Its arrays are not those that the header lists.")
    return arrays


def header_of(state: dict[str, Any], privacy: PrivacyGuarantee) -> Header:
    """Return the header of a sketch of this map and claim, without its `NUMBERS`."""
    told = {"format": FORMAT, "version": VERSION, "map": state, "privacy": privacy.to_dict()}
    return told | dict.fromkeys(NUMBERS)


def _encoded(header: Header, sizes: dict[str, int]) -> bytes:
    return json.dumps(header | {"arrays": list(sizes.items())}, allow_nan=False).encode()


def digest(header: Header, arrays: Arrays) -> str:
    """Return a hash of all that a file holds."""
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        found.update(array.data)
    return found.hexdigest()


def read_npy(octets: bytes) -> NDArray:
    """Return the array in the bytes of an .npy file, as `np.save` writes it.

    Parameters
    ----------
    octets : bytes
        Of format 1.0: of a plain dtype in this order of axes and bytes, never pickled objects.

    Raises
    ------
    ValueError
        For anything else.
    """
    found = _ARRAY.fullmatch(octets[:_START])
    if not found or len(found[0]) != _START:
        raise ValueError("The bytes are not an array of a plain dtype.")
    dtype = np.dtype(found[1].decode())
    shape = [int(length) for length in found[2].split(b",") if length]
    if math.prod(shape) * dtype.itemsize != len(octets) - _START:
        raise ValueError("The bytes are not those of an array of its shape.")
    return np.frombuffer(octets, dtype, offset=_START).reshape(shape).copy()
