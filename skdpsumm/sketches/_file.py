"""The file format of a sketch: a zip of numpy arrays and one JSON header, with a checksum.

The comment of the zip is the SHA-256 of all bytes before it, so a damaged file is told before any
of it is read.

The checksum is no signature: whoever knows the format can write anything under it. So nothing in a
file is believed. Nothing is compressed, so that a file takes the memory that its size tells. The
zip's directory and the head of each array must be as numpy writes them: no other parser sees them.
The header is counted before it is parsed (`_bounded`), each part is made by the constructor that
checks it, and what was made must write the very same contents again: what has another type or does
not belong there is told. Last, what a sketch says of itself must be possible: its claim, its noise
and its sums together (`check_consistent`).
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
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._bounded import check_json, read_json
from ..features._feature_maps import (
    GRID,
    MOST_FEATURES,
    feature_map_from_state,
    sensitivities,
)
from ..privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from ._private_sketch import PrivateSketch


FORMAT = "skdpsumm.PrivateSketch"
VERSION = 6
_NUMBERS = ("n_released", "n_noise_std", "postprocess", "n_from_sums", "added")
# Bytes of the zip's directory, which names some thousand arrays, and of the header.
_LARGEST_DIRECTORY, LARGEST_HEADER = 2**18, 2**24
# Bytes of all arrays, the header among them: sums and noise of as many features as a map may have.
_LARGEST_CONTENT = 16 * MOST_FEATURES + LARGEST_HEADER + 2**20
# And of a file: what the zip says before each array is little more than what its directory says.
LARGEST_FILE = _LARGEST_CONTENT + 3 * _LARGEST_DIRECTORY
# Bytes that a header may grow by later: by digits of numbers, and by what sums of sketches state.
_LEFT_FREE = 2**16
# A zip ends with 22 bytes and its comment. The last two of the 22 say how long the comment is.
_CHECKSUM, _END = 64, 22
_LENGTH = _CHECKSUM.to_bytes(2, "little")
# The directory has 46 bytes for each entry, and its name: no comment, nor more.
_IN_DIRECTORY, _NPY, _HEADER = 46, ".npy", "header"
# An .npy file starts with 128 bytes, as numpy pads what it says of up to four axes.
_START = 128
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00v\x00\{'descr': '(\|[biu]1|<[iuf][248]|<U[1-9][0-9]{0,5})', "
    rb"'fortran_order': False, "
    rb"'shape': \((|[0-9]{1,12},|[0-9]{1,12}(?:, [0-9]{1,12}){1,3})\), \} *\n"
)


def write_sketch(sketch: PrivateSketch, path: str | os.PathLike) -> None:
    """Write `sketch` to `path` through a temporary file beside it, which is read once more."""
    header, arrays = _content(sketch)
    text = np.frombuffer(_encoded(header), np.uint8)
    in_order = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.name + ".") as folder:
        complete = Path(folder) / "sketch"
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **{_HEADER: text}, **in_order)
        complete.write_bytes(sealed(stream.getvalue()))
        # Noise was paid for: a file that cannot be read back would lose it for good.
        _read_again(complete, type(sketch))
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
        text = _encoded(_header(state, privacy))
        check_json(text, most_bytes=LARGEST_HEADER - _LEFT_FREE)
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
    return sum(_IN_DIRECTORY + len(name) + len(_NPY) for name in names)


def _read_again(path: Path, kind: type[PrivateSketch]) -> None:
    """Raise ValueError for a file that could not be loaded: its sketch would be lost."""
    try:
        read_sketch(path, kind)
    except ValueError as error:
        reason = error.__cause__ or "It is larger than a file may be."
        raise ValueError(
            f"The sketch is not saved, for it could not be loaded. {reason}"
        ) from error


def read_sketch(
    path: str | os.PathLike, kind: type[PrivateSketch], largest: int = LARGEST_FILE
) -> PrivateSketch:
    """Return the sketch in a file that `write_sketch` wrote.

    Parameters
    ----------
    path : path-like
    kind : type
        The class to make: this module knows it only by what it is given.
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
        return _sketch(header, {name: read_npy(part) for name, part in entries.items()}, kind)
    except Exception as error:
        raise ValueError(f"{told} is not a sketch file: its parts do not fit. {error}") from error


def _sketch(
    header: dict[str, Any], arrays: dict[str, NDArray], kind: type[PrivateSketch]
) -> PrivateSketch:
    own = {k.removeprefix("map."): a for k, a in arrays.items() if k.startswith("map.")}
    sketch = kind(
        feature_map_from_state(header["map"], own),
        arrays["sums"],
        arrays["noise_std"],
        header["n_released"],
        header["n_noise_std"],
        PrivacyGuarantee.from_dict(header["privacy"]),
        header["postprocess"],
        header["n_from_sums"],
        tuple((key, tuple(noise)) for key, noise in header["added"]),
    )
    if _digest(*_content(sketch)) != _digest(header, arrays):
        raise ValueError("It holds values of other types, or others than it needs.")
    check_consistent(sketch)
    return sketch


def _content(sketch: PrivateSketch) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the header, without checksum, and the arrays of a sketch."""
    state, map_arrays = sketch.feature_map.to_state()
    header = _header(state, sketch.privacy) | {name: getattr(sketch, name) for name in _NUMBERS}
    arrays = {f"map.{name}": array for name, array in map_arrays.items()}
    return header, arrays | {"sums": sketch.sums, "noise_std": sketch.noise_std}


def _header(state: dict[str, Any], privacy: PrivacyGuarantee) -> dict[str, Any]:
    """Return the header of a sketch, without its numbers."""
    told = {"format": FORMAT, "version": VERSION, "map": state, "privacy": privacy.to_dict()}
    return told | dict.fromkeys(_NUMBERS)


def _encoded(header: dict[str, Any]) -> bytes:
    return json.dumps(header, allow_nan=False).encode()


def _digest(header: dict[str, Any], arrays: dict[str, NDArray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


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


# A sum farther out than its rows allow is none: Laplace noise goes beyond 40 of its deviations in
# one of 1e24 draws, Gaussian noise never does.
MOST_DEVIATIONS = 40
# Of a sum of releases the guarantee states the largest of each kind: two costs, or one more for
# each sketch that was added before it did so.
MOST_COSTS = 64
_ROUNDING = 1e-9
# As the `given` of a guarantee about groups says how many rows of one count.
_LIMIT = re.compile(r"max_rows_per_group=(?:([1-9][0-9]{0,17})|'average') \(")


def check_consistent(sketch: PrivateSketch) -> None:
    """Raise ValueError for a release that none of this library can be.

    Whether the noise was drawn, and as stated, nobody can see. But the guarantee must not promise
    more than noise of the size stated gives, and the sums must be some table's.

    Parameters
    ----------
    sketch : PrivateSketch
    """
    privacy = sketch.privacy
    costs = privacy.mechanism.alternatives
    words = [privacy.protects, privacy.against, privacy.unit, privacy.given]
    words += [cost.unprotected.reason for cost in costs if cost.unprotected]
    if not all(text.isprintable() for text in words):
        raise ValueError("The words of the guarantee hold control characters.")
    if len(costs) > MOST_COSTS:
        raise ValueError(f"The guarantee is the worst of {len(costs)} costs, more than needed.")
    _check_rows(sketch)
    # Two rows lie no closer than one and none: what is far too small is told without a search for
    # the farthest two, which takes longest.
    for adjacency in dict.fromkeys(["add_remove", privacy.adjacency]):
        blocks = _noise_of_blocks(sketch, adjacency)
        if any(cost.noise_cost(blocks) > 1 + _ROUNDING for cost in costs):
            raise ValueError("The guarantee promises more than noise so small can give.")


def _check_rows(sketch: PrivateSketch) -> None:
    """Check the number of rows and the sums against each other."""
    if sketch.privacy.adjacency == "replace_one":
        public = not sketch.n_from_sums and not sketch.n_noise_std
        if not public or sketch.n_released < 0 or sketch.n_released % 1:
            raise ValueError("Under replace_one, the number of rows must be whole, without noise.")
    elif bool(sketch.n_noise_std) != bool(sketch.noise_std.any()):
        raise ValueError("The number of rows must have noise if, and only if, the sums have.")
    rows = max(sketch.n_released, 0.0) + MOST_DEVIATIONS * sketch.n_noise_std
    most = rows * (1 + 1e-6) + MOST_DEVIATIONS * sketch.noise_std
    if np.any(np.abs(sketch.sums) > most):
        raise ValueError("The sums are larger than the number of rows and the noise allow.")


def _noise_of_blocks(sketch: PrivateSketch, adjacency: str) -> list[tuple[float, float, float]]:
    """Return the L1 and L2 sensitivity and the stated noise of each block, in grid units.

    The sensitivities are those of a unit of the claim. Of a merged sketch the stated noise is that
    of all its releases, more than each of them has. A claim may cost more than all blocks: an
    adaptive sketch has also paid for what it chose, and may leave a part of the budget.
    """
    limit = _stated_limit(sketch.privacy)
    moved = sensitivities(sketch.feature_map, adjacency, limit)
    blocks = [
        (*distances, float(sketch.noise_std[where].min()) * GRID)
        for distances, (_, where) in zip(moved, sketch.blocks(), strict=True)
    ]
    if sketch.privacy.adjacency == "add_remove" and not sketch.n_from_sums:
        most = float(limit * GRID if isinstance(limit, int) else GRID)
        blocks.append((most, most, sketch.n_noise_std * GRID))
    return blocks


def _stated_limit(privacy: PrivacyGuarantee) -> Any:
    """Return the `max_rows_per_group` of a claim: an int, "average", or None for single rows.

    The least of all that `given` states is meant: the noise of all sketches that were added is
    larger than that of each.
    """
    if privacy.unit == "one row":
        return None
    limits = _stated_limits(privacy)
    return min(limit for limit in limits if limit) if all(limits) else "average"


def _stated_limits(privacy: PrivacyGuarantee) -> list[int | None]:
    """Return what `given` says of groups, for each kind of sketch that was added; average: None."""
    found = [match for match in map(_LIMIT.match, privacy.given.split("; ")) if match]
    if not found:
        raise ValueError("A claim about groups must state the rows of a group that count.")
    return [int(match[1]) if match[1] else None for match in found]


def most_rows_of_a_unit(privacy: PrivacyGuarantee) -> int:
    """Return how many rows of a unit of a sketch's claim count at most.

    Parameters
    ----------
    privacy : PrivacyGuarantee
        Under "average" the rows of a group count as one.
    """
    if privacy.unit == "one row":
        return 1
    return max(limit or 1 for limit in _stated_limits(privacy))


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
