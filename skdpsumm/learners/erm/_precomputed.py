"""Kernel matrices that the user computed: rows are known by their place alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._problem import Minimizer
from ._spaces import SCALED_ERROR, Space

Floats = NDArray[np.float64]


class PrecomputedSpace(Space):
    """A space known by the Gram matrix of the training rows and of the public points.

    Rows are indices, 0 to n - 1 for training rows and from n on for public points. Holds the
    private matrix: what is released is moved to `GivenRows`.
    """

    entry_error = SCALED_ERROR

    def __init__(self, gram: Floats, n_train: int, norm_bound: float, intercept: float):
        scales = norm_bound / np.sqrt(np.maximum(np.diag(gram), norm_bound**2))
        self._gram = gram * scales[:, None] * scales + intercept**2
        self._public_scales = scales[n_train:].copy()
        self.n_train, self.intercept = n_train, intercept
        self.radius = math.hypot(norm_bound, intercept)

    @classmethod
    def split(
        cls, X: NDArray, X_public: Any, norm_bound: float, intercept: float
    ) -> tuple[PrecomputedSpace, NDArray, NDArray]:
        """Return the space, and the training rows and the public points as indices.

        Parameters
        ----------
        X : ndarray of shape (n, n)
            Kernel of the training rows.
        X_public : array-like of shape (T, n + T)
            Kernel of the public points with the training rows, and then with each other.
        """
        n = len(X)
        public = None if X_public is None else np.asarray(X_public, dtype=np.float64)
        if X.shape[1] != n or public is None or public.shape != (len(public), n + len(public)):
            raise ValueError(
                "kernel='precomputed' takes X of shape (n, n), the kernel of the training rows, "
                "and X_public of shape (T, n + T): the kernel of T public points with the training "
                "rows, and then with each other."
            )
        if not np.isfinite(public).all():
            raise ValueError("X_public holds NaN or infinity; compute the kernel of those points.")
        gram = np.block([[X, public[:, :n].T], [public]])
        if (np.diag(gram) < 0).any():
            raise ValueError("A kernel's diagonal cannot be negative; check the matrices.")
        rows = np.arange(len(gram), dtype=np.float64)[:, None]
        return cls(gram, n, norm_bound, intercept), rows[:n], rows[n:]

    def gram(self, X, Y):
        return self._gram[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))]

    def released(self, predictor: Minimizer) -> Minimizer:
        """Return a released expansion in the public points, for kernel values of new rows."""
        space = GivenRows(self._public_scales, self.intercept)
        # The places of the public points would tell the number of training rows.
        return Minimizer(space, predictor.coefficients, np.zeros((len(predictor.points), 1)))


class GivenRows(Space):
    """New rows given as their kernel values with the public points."""

    entry_error = SCALED_ERROR

    def __init__(self, scales: Floats, intercept: float):
        self._scales, self.intercept = scales, intercept

    def gram(self, X, Y):
        return X * self._scales + self.intercept**2
