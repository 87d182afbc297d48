"""Arrays from bytes that a stranger wrote."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray


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
        raise ValueError("The bytes are no array.") from error
    size = math.prod(shape) * dtype.itemsize
    plain = version == (1, 0) and dtype.kind in "biufU"
    if not plain or min(shape, default=0) < 0 or size != len(octets) - stream.tell():
        raise ValueError("The bytes are no array of a plain dtype.")
    return np.lib.format.read_array(io.BytesIO(octets), allow_pickle=False)
