"""The file format of a sketch: a zip of numpy arrays and one JSON header, with a checksum.

The comment of the zip is the SHA-256 of all bytes before it, so a damaged file is told before any
of it is read.

The checksum is no signature: whoever knows the format can write anything under it. So nothing in a
file is believed. Its sizes are limited before memory is taken, the header is counted before it is
parsed (`_bounded`), each part is made by the constructor that checks it, and what was made must
write the very same contents again: what has another type or does not belong there is told. Last,
what a sketch says of itself must be possible: its claim, its noise and its sums together
(`check_consistent`).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._bounded import check_nested, read_json
from ..features._feature_maps import GRID, FeatureMap, feature_map_from_state, sensitivities
from ..privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from ._private_sketch import PrivateSketch


FORMAT = "skdpsumm.PrivateSketch"
VERSION = 5
# Bytes of a file, and of all that is unpacked from it: sums and noise of 2**26 features.
LARGEST_FILE = 2**30
# Bytes of the zip's directory, which names some thousand arrays, and of the header.
_LARGEST_DIRECTORY, LARGEST_HEADER = 2**18, 2**24
# A zip ends with 22 bytes and its comment. The last two of the 22 say how long the comment is.
_CHECKSUM, _END = 64, 22
_LENGTH = _CHECKSUM.to_bytes(2, "little")


def write_sketch(sketch: PrivateSketch, path: str | os.PathLike) -> None:
    """Write `sketch` to `path` through a temporary file beside it, which is read once more."""
    header, arrays = _content(sketch)
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.name + ".") as folder:
        complete = Path(folder) / "sketch"
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **{"header": text}, **arrays)
        complete.write_bytes(sealed(stream.getvalue()))
        # Noise was paid for: a file that cannot be read back would lose it for good.
        _read_again(complete, type(sketch))
        os.replace(complete, target)


def sealed(octets: bytes) -> bytes:
    """Return a zip without a comment with its checksum as the comment."""
    body = octets[: -len(_LENGTH)] + _LENGTH
    return body + hashlib.sha256(body).hexdigest().encode()


def check_header(feature_map: FeatureMap) -> None:
    """Raise ValueError for a map that no file can hold: its sketch could not be saved."""
    try:
        check_nested(feature_map.to_state()[0])
    except ValueError as error:
        raise ValueError(
            f"No file could hold the sketch: {error} List fewer categories, edges or marginals."
        ) from None


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
        The most bytes that the file may have, and all that is unpacked from it. The default is what
        the largest sketch has; whoever knows which sketch comes can say less.

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
        header, arrays = _unpack(octets, largest) if sound else ({}, {})
        foreign, version = header.get("format") != FORMAT, header.get("version")
    except Exception as error:  # zipfile and zlib raise a dozen kinds
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
        return _sketch(header, arrays, kind)
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
    )
    if _digest(*_content(sketch)) != _digest(header, arrays):
        raise ValueError("It holds values of other types, or others than it needs.")
    check_consistent(sketch)
    return sketch


def _content(sketch: PrivateSketch) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the header, without checksum, and the arrays of a sketch."""
    state, map_arrays = sketch.feature_map.to_state()
    header = {
        "format": FORMAT,
        "version": VERSION,
        "map": state,
        "n_released": sketch.n_released,
        "n_noise_std": sketch.n_noise_std,
        "postprocess": sketch.postprocess,
        "n_from_sums": sketch.n_from_sums,
        "privacy": sketch.privacy.to_dict(),
    }
    arrays = {f"map.{name}": array for name, array in map_arrays.items()}
    return header, arrays | {"sums": sketch.sums, "noise_std": sketch.noise_std}


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


def _unpack(octets: bytes, largest: int) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the header and the other arrays of a zip, none of which is larger than allowed."""
    end = octets[-_CHECKSUM - _END : -_CHECKSUM]
    # A second directory, for zips of many GiB, would take the place of the one that is measured.
    large = octets[-_CHECKSUM - _END - 20 :].startswith(b"PK\6\7")
    if large or int.from_bytes(end[12:16], "little") > _LARGEST_DIRECTORY:
        raise ValueError("The file holds too many entries.")
    with zipfile.ZipFile(io.BytesIO(octets)) as archive:
        entries = archive.infolist()
        sizes = {entry.filename: entry.file_size for entry in entries}
        # Other methods unpack a whole chunk before they look at the limit.
        known = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} >= {e.compress_type for e in entries}
        if len(sizes) < len(entries) or sum(sizes.values()) > largest or not known:
            raise ValueError("The file holds an entry twice, or too much.")
        if sizes["header.npy"] > LARGEST_HEADER:
            raise ValueError("The header is too large.")
        # First, for what its header does not allow is not unpacked.
        header = read_json(_entry(archive, archive.getinfo("header.npy")).tobytes())
        if not isinstance(header, dict):
            raise ValueError("The header is not an object.")
        others = [entry for entry in entries if entry.filename != "header.npy"]
        arrays = {e.filename.removesuffix(".npy"): _entry(archive, e) for e in others}
    return header, arrays


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray:
    with archive.open(entry) as file:
        return read_npy(file.read(entry.file_size))


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
    blocks = _noise_of_blocks(sketch)
    for cost in costs:
        if cost.noise_cost(blocks) > 1 + _ROUNDING:
            raise ValueError("The guarantee promises more than noise so small can give.")
    _check_rows(sketch)


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


def _noise_of_blocks(sketch: PrivateSketch) -> list[tuple[float, float, float]]:
    """Return the L1 and L2 sensitivity and the stated noise of each block, in grid units.

    The sensitivities are those of a unit of the claim. Of a merged sketch the stated noise is that
    of all its releases, more than each of them has. A claim may cost more than all blocks: an
    adaptive sketch has also paid for what it chose, and may leave a part of the budget.
    """
    adjacency, limit = sketch.privacy.adjacency, _stated_limit(sketch.privacy)
    moved = sensitivities(sketch.feature_map, adjacency, limit)
    blocks = [
        (*distances, float(sketch.noise_std[where].min()) * GRID)
        for distances, (_, where) in zip(moved, sketch.blocks(), strict=True)
    ]
    if adjacency == "add_remove" and not sketch.n_from_sums:
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

    Numpy makes room for the shape that the bytes claim before it reads them; here, a claim of more
    than there is fails first.

    Parameters
    ----------
    octets : bytes
        Of format 1.0: of a plain dtype, never pickled objects.

    Raises
    ------
    ValueError
        For anything else.
    """
    stream = io.BytesIO(octets)
    try:
        version = np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # the header is a Python literal: anything may be wrong with it
        raise ValueError("The bytes are not an array.") from error
    size = math.prod(shape) * dtype.itemsize
    plain = version == (1, 0) and dtype.kind in "biufU"
    if not plain or min(shape, default=0) < 0 or size != len(octets) - stream.tell():
        raise ValueError("The bytes are not an array of a plain dtype.")
    return np.lib.format.read_array(io.BytesIO(octets), allow_pickle=False)
