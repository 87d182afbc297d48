"""Public random numbers of plausible tables: a hash of what was released, and of the use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_LABEL = "skdpsumm: plausible tables"


def generator(key: str, *use: object) -> np.random.Generator:
    """Return the stream of one use of a release.

    The same release and use give the same stream, in any process and whatever was asked before. It
    shares nothing with the noise of a release, whatever seed that has: the label is hashed with it.

    Parameters
    ----------
    key : str
        A hash of what was released (`PrivateSketch.key`).
    use : object
        Numbers and words, of which `repr` tells all.
    """
    digest = hashlib.sha256((_LABEL + key + repr(use)).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))


def white_noise(
    sources: Iterable[tuple[str, float]], shape: tuple[int, ...], *use: object
) -> NDArray[np.float64]:
    """Return noise of variance 1, the sum of what each source adds (`PrivateSketch.sources`).

    So a sum of sketches has the noise of these, in each plausible table.
    """
    found = np.zeros(shape)
    for key, part in sources:
        found += part * generator(key, *use).standard_normal(shape)
    return found
