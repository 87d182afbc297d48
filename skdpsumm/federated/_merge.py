"""Sketches that owners released at home, checked and added at the curator."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from ..privacy import PrivacyGuarantee
from ..sketches import PrivateSketch
from ._agreement import Agreement


def merge_sketches(sketches: Mapping[str, PrivateSketch]) -> PrivateSketch:
    """Return the sketch of all owners' rows together.

    Parameters
    ----------
    sketches : mapping from owner to PrivateSketch
        Of disjoint tables: each row is one owner's. So the guarantee is that of one owner's
        release, and the noise is that of all.

    Returns
    -------
    PrivateSketch
    """
    return reduce(add, sketches.values())


def sketch_of(content: Mapping[str, Any], agreement: Agreement) -> PrivateSketch:
    """Return the sketch that an owner sent, if it is what was agreed.

    Raises
    ------
    ValueError
        If it is no sketch (`PrivateSketch.load` says what is none), or has another map, noise or
        guarantee.
    """
    octets = content.get("file")
    if content.get("kind") != "Sketch" or not isinstance(octets, np.ndarray):
        raise ValueError("sent no sketch")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sketch"
        path.write_bytes(octets.tobytes())
        try:
            sketch = PrivateSketch.load(path)
        except ValueError as error:
            raise ValueError("sent no sketch") from error
    sketcher = agreement.sketcher()
    pending = sketcher._prepare(sketcher.preview_map(len(agreement.columns), agreement.columns))
    # What a release of no rows at all would look like: its noise and its guarantee.
    size = pending.feature_map.n_features + pending.counts_rows
    ours = pending.to_sketch(np.zeros(size), 0, postprocess=bool(sketcher.postprocess))
    if not sketch.feature_map.same_as(ours.feature_map):
        raise ValueError("sent a sketch with another feature map than agreed")
    if _claim(sketch.privacy) != _claim(ours.privacy) or not _same_noise(sketch, ours):
        raise ValueError("sent a sketch with other noise than agreed")
    return sketch


def _claim(privacy: PrivacyGuarantee) -> dict[str, Any]:
    return {k: v for k, v in privacy.to_dict().items() if k != "simulated"}


def _same_noise(a: PrivateSketch, b: PrivateSketch) -> bool:
    return (
        a.postprocess == b.postprocess
        and a.n_from_sums == b.n_from_sums
        and np.allclose(a.noise_std, b.noise_std)
        and np.isclose(a.n_noise_std, b.n_noise_std)
    )
