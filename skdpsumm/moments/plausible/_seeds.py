"""Public random numbers of plausible tables: a hash of what was released, and of the use."""

from __future__ import annotations

import hashlib

import numpy as np

_LABEL = b"skdpsumm: plausible tables"


def generator(released: bytes, *use: object) -> np.random.Generator:
    """Return the stream of one use of a release.

    The same release and use give the same stream, in any process and whatever was asked before. It
    shares nothing with the noise of a release, whatever seed that has: the label is hashed with it.

    Parameters
    ----------
    released : bytes
        What was released, or a hash of it.
    use : object
        Numbers and words, of which `repr` tells all.
    """
    digest = hashlib.sha256(_LABEL + released + repr(use).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))
