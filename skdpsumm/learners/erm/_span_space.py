"""The span of public points in a kernel's space, as explicit features.

With ``L L^T = K_ZZ + j I`` the coordinates of phi(x) in the span of phi(Z) are ``L^-1 k(Z, x)``: a
vector that is no longer than phi(x), up to rounding, and is clipped to R. A function that is
learned from these features lies in the span, and is the best one there; the projection of the best
function of the whole space is not, for it was made for directions that nobody gets to see.

The features of a row hang on that row alone, bit for bit: entries of a built-in kernel do
(`_kernel_space`), and in their product with L^-1 nothing is rounded (`ExactProduct`). So all that
is proved of explicit features holds here, and nothing has to be proved of the factor: whatever
rounding makes of L^-1, it is one public matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from ..._linear_systems import UNIT, Floats
from ...features._engine import ExactProduct
from ._feature_space import FeatureSpace, clip_rows
from ._kernel_space import KernelSpace
from ._problem import Minimizer, factor_jitter


class SpanSpace(FeatureSpace):
    """The span of phi(Z) for public points Z and a built-in kernel.

    Parameters
    ----------
    space : KernelSpace
        Of a kernel that is not the user's.
    points : ndarray of shape (T, n_columns)
        Z. Repeated points are of no use, and no harm.
    leading : bool, default=False
        Whether to take the leading directions of K_ZZ alone, those that hold 9/10 of its trace:
        for noise that grows with the dimension.
    """

    def __init__(self, space: KernelSpace, points: NDArray, *, leading: bool = False):
        self.space, self.points = space, points
        gram = space.gram(points, points)
        if leading:
            self._basis = leading_directions(gram)
        else:
            jitter = factor_jitter(space, len(points)) * np.eye(len(points))
            factor = cholesky(gram + jitter, lower=True)
            self._basis = solve_triangular(factor, np.eye(len(points)), lower=True)
        self._product = ExactProduct(np.ascontiguousarray(self._basis.T))
        self.transformer, self.is_users, self.is_whole_ball = None, False, False
        self.norm_bound = self.radius = space.radius
        self.n_features = self.n_costly = len(self._basis)
        self.entry_error = (self.n_features + 4) * UNIT

    def features(self, X: NDArray) -> Floats:
        """Return the coordinates of phi of each row, shape (n, n_features)."""
        values = np.empty((len(X), self.n_features))
        start = 0
        for part in self._product(self.space.gram(X, self.points)):
            values[start : start + len(part)] = part
            start += len(part)
        return clip_rows(values, self.norm_bound)

    def of_weights(self, weights: Floats) -> Minimizer:
        """Return a function of the span as an expansion in the points."""
        return Minimizer(self.space, self._basis.T @ weights, self.points)


def leading_directions(gram: Floats) -> Floats:
    """Return V^T K_ZZ^(-1/2) of the leading eigenvectors V: values to orthonormal coordinates."""
    sizes, vectors = eigh(gram)
    order = np.argsort(-sizes)
    # The leading directions hold nine tenths of the trace of K_ZZ.
    kept = np.cumsum(sizes[order]) <= 0.9 * sizes.sum()
    leading = order[: int(kept.sum()) + 1]
    return (vectors[:, leading] / np.sqrt(sizes[leading])).T
