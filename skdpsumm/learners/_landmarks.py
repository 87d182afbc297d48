"""Public points that stand for all that may be asked, where nobody has given any."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from ..features import Columns


def draw_landmarks(
    bounds: object, n_columns: int, n_landmarks: int, seed: int, names: object = None
) -> NDArray[np.float64]:
    """Return points of the box of `bounds` that fill it evenly (a scrambled Sobol sequence).

    Parameters
    ----------
    bounds : pair or sequence of pairs
        Public (low, high) of all columns, or one pair per column.
    n_columns, n_landmarks : int
    seed : int
        Public.
    names : sequence of str or None
        Names of the columns, for messages and mappings.
    """
    columns = Columns.build(n_columns, bounds, None, names)
    columns.require_bounds()
    low, high = np.array(columns.bounds).T
    with warnings.catch_warnings():
        # Any number of points will do; the sequence says that powers of two fill best.
        warnings.simplefilter("ignore", UserWarning)
        points = qmc.Sobol(n_columns, rng=seed).random(n_landmarks)
    return low + (high - low) * points
