"""Covariance matrices that are possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._linear_systems import TINY

Floats = NDArray[np.float64]


def nearest_possible(covariance: Floats, spans: Floats, noise: Floats) -> Floats:
    """Return a positive semi-definite matrix near by, with the same variances.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        NaN where nobody has both columns; there it stays NaN.
    spans : ndarray of shape (d,)
        Widths of the columns' ranges.
    noise : ndarray of shape (d,)
        Standard errors of the variances. A column that hardly anybody has is noise: it gives way
        before others do.
    """
    units = spans.copy()
    if noise.any():
        relative = noise / spans**2
        # A column without noise counts as known a million times better than the worst one.
        units = units * np.maximum(relative, 1e-6 * relative.max())
    units, unknown = np.outer(units, units), np.isnan(covariance)
    covariance = np.where(unknown, 0.0, covariance)
    values, vectors = np.linalg.eigh(covariance / units)
    closest = (vectors * np.maximum(values, 0.0)) @ vectors.T * units
    # The closest matrix has larger variances; a smaller one of both sides keeps it possible.
    variances = np.clip(np.diagonal(covariance), 0.0, spans**2 / 4)
    scale = np.sqrt(variances / np.maximum(np.diagonal(closest), TINY))
    scale = np.minimum(scale, 1.0)  # but for rounding it is
    return np.where(unknown, np.nan, closest * np.outer(scale, scale))


def correlations(covariance: Floats) -> Floats:
    """Return the correlations for covariance matrices, shape (..., d, d)."""
    # Noise may leave a column no variance, and then no correlation with others either.
    spread = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), TINY))
    with np.errstate(over="ignore"):
        found = covariance / (spread[..., None] * spread[..., None, :])
    # A column's correlation with itself has no noise, not even where its variance drowned.
    k = np.arange(found.shape[-1])
    found[..., k, k] = 1.0
    return np.clip(found, -1.0, 1.0)
