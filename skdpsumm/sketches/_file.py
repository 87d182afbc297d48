"""The file format of a sketch: a zip of numpy arrays and one JSON header, with a checksum.

The comment of the zip is the SHA-256 of all bytes before it, so a damaged file is told before any
of it is read.

The checksum is no signature: whoever knows the format can write anything under it. So nothing in a
file is believed. Nothing is compressed, so that a file takes the memory that its size tells. The
zip's directory and the head of each array must be as numpy writes them: no other parser sees them.
The header is counted before it is parsed (`_bounded`), each part is made by the constructor that
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
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._bounded import check_json, read_json
from ..features._feature_maps import MOST_FEATURES
from ..privacy import PrivacyGuarantee

Header = dict[str, Any]
Arrays = dict[str, NDArray]
Made = TypeVar("Made")

FORMAT = "skdpsumm.PrivateSketch"
VERSION = 7
NUMBERS = ("n_released", "n_noise_std", "postprocess", "n_from_sums", "added")
# Bytes of the zip's directory, which names some thousand arrays, and of the header.
_LARGEST_DIRECTORY, LARGEST_HEADER = 2**18, 2**24
# Bytes of all arrays, the header among them: sums and noise of as many features as a map may have.
_LARGEST_CONTENT = 16 * MOST_FEATURES + LARGEST_HEADER + 2**20
# And of a file: what the zip says before each array is little more than what its directory says.
LARGEST_FILE = _LARGEST_CONTENT + 3 * _LARGEST_DIRECTORY
# A zip ends with 22 bytes and its comment. The last two of the 22 say how long the comment is.
_CHECKSUM, _END = 64, 22
_LENGTH = _CHECKSUM.to_bytes(2, "little")
_NPY, _HEADER = ".npy", "header"
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
    text = np.frombuffer(_encoded(header), np.uint8)
    in_order = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.name + ".") as folder:
        complete = Path(folder) / "sketch"
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **{_HEADER: text}, **in_order)
        complete.write_bytes(sealed(stream.getvalue()))
        # Noise was paid for: a file that cannot be read back would lose it for good.
        _read_again(complete, make)
        os.replace(complete, target)


def sealed(octets: bytes) -> bytes:
    """Return a zip without a comment with its checksum as the comment."""
    body = octets[: -len(_LENGTH)] + _LENGTH
    return body + hashlib.sha256(body).hexdigest().encode()


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
    n_bytes = {f"map.{name}": array.nbytes for name, array in arrays.items()}
    n_bytes |= {"sums": 8 * n_features, "noise_std": 8 * n_features}
    try:
        text = _encoded(header_of(state, privacy))
        # A header may grow by this later: by digits of numbers, and by what sums of sketches state.
        check_json(text, most_bytes=LARGEST_HEADER - 2**16)
        n_bytes[_HEADER] = len(text)
        _check_sizes({name: _START + n for name, n in n_bytes.items()}, _LARGEST_CONTENT)
    except ValueError as error:
        raise ValueError(
            f"No file could hold the sketch: {error} Shorten the schema's texts, or list fewer "
            "columns, categories, edges, marginals or parts."
        ) from None


def _check_sizes(sizes: dict[str, int], most: int) -> None:
    """Raise ValueError for entries of more bytes than a file may hold, by name."""
    if _size_of_directory(sizes) > _LARGEST_DIRECTORY:
        raise ValueError(f"It has too many entries, {len(sizes):,}.")
    if sizes[_HEADER] > LARGEST_HEADER:
        raise ValueError(f"Its header has more than {LARGEST_HEADER:,} bytes.")
    if sum(sizes.values()) > most:
        raise ValueError(f"It has {sum(sizes.values()):,} bytes, and may have {most:,}.")


def _size_of_directory(names: Iterable[str]) -> int:
    # It has 46 bytes for each entry, and its name: no comment, nor more.
    return sum(46 + len(name) + len(_NPY) for name in names)


def _read_again(path: Path, make: Callable[[Header, Arrays], Any]) -> None:
    """Raise ValueError for a file that could not be loaded: its sketch would be lost."""
    try:
        read_file(path, make)
    except ValueError as error:
        reason = error.__cause__ or "It is larger than a file may be."
        raise ValueError(
            f"The sketch is not saved, for it could not be loaded. {reason}"
        ) from error


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
    told = repr(os.fspath(path))
    with Path(path).open("rb") as file:
        octets = file.read(min(os.fstat(file.fileno()).st_size, largest) + 1)
    try:
        sound = _check_frame(octets, largest)
        entries = _entries(octets) if sound else {}
        header = read_json(read_npy(entries.pop(_HEADER)).tobytes()) if sound else {}
        foreign, version = header.get("format") != FORMAT, header.get("version")
    except Exception as error:  # zipfile raises a dozen kinds
        raise ValueError(
            f"{told} is not a sketch file, or is damaged: check the path, or copy the file again."
        ) from error
    if not sound:
        raise ValueError(f"{told} is damaged: its checksum does not match. Copy the file again.")
    if foreign or type(version) is not int or version < 1:
        raise ValueError(f"{told} is not a sketch file; check the path.")
    if version != VERSION:
        remedy = "Upgrade skdpsumm" if version > VERSION else "Use the skdpsumm that wrote it"
        raise ValueError(
            f"{told} has format version {version}; this skdpsumm reads {VERSION}. {remedy}."
        )
    try:
        return make(header, {name: read_npy(part) for name, part in entries.items()})
    except Exception as error:
        raise ValueError(f"{told} is not a sketch file: its parts do not fit. {error}") from error


def header_of(state: dict[str, Any], privacy: PrivacyGuarantee) -> Header:
    """Return the header of a sketch of this map and claim, without its `NUMBERS`."""
    told = {"format": FORMAT, "version": VERSION, "map": state, "privacy": privacy.to_dict()}
    return told | dict.fromkeys(NUMBERS)


def _encoded(header: Header) -> bytes:
    return json.dumps(header, allow_nan=False).encode()


def digest(header: Header, arrays: Arrays) -> str:
    """Return a hash of all that a file holds."""
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        found.update(array.data)
    return found.hexdigest()


def _check_frame(octets: bytes, largest: int) -> bool:
    """Return whether the checksum is right; raise ValueError for what is no zip with a checksum."""
    if len(octets) > largest:
        raise ValueError("The file is too large.")
    end = octets[-_CHECKSUM - _END : -_CHECKSUM]
    if not (octets.startswith(b"PK") and end.startswith(b"PK\5\6") and end.endswith(_LENGTH)):
        raise ValueError("The file is no zip, or has no checksum.")
    found = hashlib.sha256(memoryview(octets)[:-_CHECKSUM]).hexdigest()
    return found.encode() == octets[-_CHECKSUM:]


def _entries(octets: bytes) -> dict[str, bytes]:
    """Return the entries of a zip, which are as many bytes as the file at most."""
    place = len(octets) - _CHECKSUM - _END
    disks, n, same, size, start = struct.unpack("<IHHII", octets[place + 4 : place + 20])
    # Whatever else looks like an end, or like the end of a zip of many GiB, would be read instead.
    alone = octets.rfind(b"PK\5\6") == place and octets[place - 20 : place - 16] != b"PK\6\7"
    if not alone or disks or n != same or start + size != place or size > _LARGEST_DIRECTORY:
        raise ValueError("The directory is not where it should be, or has too many entries.")
    with zipfile.ZipFile(io.BytesIO(octets)) as archive:
        found = archive.infolist()
        sizes = {entry.filename.removesuffix(_NPY): entry.file_size for entry in found}
        _check_sizes(sizes, len(octets))
        plain = all(entry.compress_type == zipfile.ZIP_STORED for entry in found)
        if not len(sizes) == len(found) == n or size != _size_of_directory(sizes) or not plain:
            raise ValueError("An entry occurs twice, has a comment or is compressed.")
        return {name: archive.read(name + _NPY) for name in sizes}


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
