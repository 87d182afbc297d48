"""The file format of a sketch: a zip of numpy arrays and one JSON header, with a checksum.

Version 2 has a `step` for each column (null where it has none), and the `edges` of each column of a
histogram (null for equal bins). Files of version 1 lack both, and are read as if all were null.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..features import feature_map_from_state
from ..privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from ._private_sketch import PrivateSketch

FORMAT = "skdpsumm.PrivateSketch"
VERSION = 2


def write_sketch(sketch: PrivateSketch, path: str | os.PathLike) -> None:
    """Write `sketch` to `path` through a temporary file beside it."""
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
    arrays |= {"sums": sketch.sums, "noise_std": sketch.noise_std}
    header["sha256"] = _digest(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.name + ".") as folder:
        complete = Path(folder) / "sketch"
        with complete.open("wb") as file:
            np.savez_compressed(file, header=text, **arrays)
        os.replace(complete, target)


def read_sketch(path: str | os.PathLike) -> dict[str, Any]:
    """Return the constructor's arguments from a file that `write_sketch` wrote."""
    content = io.BytesIO(Path(path).read_bytes())
    try:
        with np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
        foreign = header["format"] != FORMAT
        version = header["version"]
    except Exception as error:  # zipfile and zlib raise a dozen kinds
        raise ValueError(f"{os.fspath(path)!r} is no sketch file, or is damaged.") from error
    if foreign or not isinstance(version, int):
        raise ValueError(f"{os.fspath(path)!r} is no sketch file.")
    if version > VERSION:
        raise ValueError(
            f"{os.fspath(path)!r} has format version {version}; this skdpsumm reads up to "
            f"{VERSION}. Upgrade skdpsumm."
        )
    if header.pop("sha256", None) != _digest(header, arrays):
        raise ValueError(f"{os.fspath(path)!r} is damaged: its checksum does not match.")
    # The checksum is no signature: whoever knows the format can write anything under it.
    try:
        content = _content(header, arrays)
        sound = _is_sound(content)
    except Exception as error:
        raise ValueError(f"{os.fspath(path)!r} is no sketch file: its parts do not fit.") from error
    if not sound:
        raise ValueError(f"{os.fspath(path)!r} is no sketch file: its parts do not fit.")
    return content


def _content(header: dict[str, Any], arrays: dict[str, NDArray]) -> dict[str, Any]:
    own = {k.removeprefix("map."): a for k, a in arrays.items() if k.startswith("map.")}
    return {
        "feature_map": feature_map_from_state(header["map"], own),
        "sums": arrays["sums"],
        "noise_std": arrays["noise_std"],
        "n_released": header["n_released"],
        "n_noise_std": header["n_noise_std"],
        "privacy": PrivacyGuarantee.from_dict(header["privacy"]),
        "postprocess": header["postprocess"],
        "n_from_sums": header["n_from_sums"],
    }


def _is_sound(content: dict[str, Any]) -> bool:
    """Return whether the numbers have their shapes and kinds, and belong to the map."""
    shape = (content["feature_map"].n_features,)
    arrays = [content["sums"], content["noise_std"]]
    numbers = [content["n_released"], content["n_noise_std"]]
    flags = [content["postprocess"], content["n_from_sums"]]
    deviations = [*content["noise_std"].ravel(), content["n_noise_std"]]
    return (
        all(array.shape == shape and array.dtype == np.float64 for array in arrays)
        and all(isinstance(number, float) for number in numbers)
        and all(isinstance(flag, bool) for flag in flags)
        and bool(np.isfinite([*content["sums"], *deviations, *numbers]).all())
        and min(deviations) >= 0
    )


def _digest(header: dict[str, Any], arrays: dict[str, NDArray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
