"""The linear system of the moment-to-moment regression: dense, or too large to be formed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from ..._computing import advance, warn_caller
from ._blocks import FeatureBlocks
from ._local_blocks import LocalBlocks

# With more features than this the matrix takes more time and memory than products with it.
LARGEST_DENSE = 7_000
# Of a residual, in the norm of the preconditioner. Answers and errors of 24,000 features are then
# within 1e-7 of a standard error of those of a factorisation.
_TOLERANCE = 1e-10
# Enough for replicates, whose spread over 100 of them is known to seven per cent.
ROUGH = 1e-4
_MOST_STEPS = 1_000
# Right sides that are solved together: more of them fall out of the processor's cache.
_BATCH = 16


class FeatureCovariance:
    """``P.T @ P / n - offset offset.T`` as an operator, for a P of many features.

    Parameters
    ----------
    features : FeatureBlocks
    offset : ndarray of shape (m,)
        What is subtracted from each row of P, or zero.
    """

    def __init__(self, features: FeatureBlocks, offset: NDArray):
        self.features = features
        self.offset = offset

    def __matmul__(self, vectors: NDArray) -> NDArray:
        product = self.features.tdot(self.features.dot(vectors)) / self.features.n_points
        return product - np.multiply.outer(self.offset, self.offset @ vectors)

    def diagonal(self) -> NDArray[np.float64]:
        """Return the variance of each feature."""
        return np.maximum(self.features.mean_square() - self.offset**2, 0.0)


def feature_covariance(features: FeatureBlocks, offset: NDArray) -> Any:
    """Return the covariance of the features: an array where that is small, else an operator."""
    if features.n_features > LARGEST_DENSE:
        return FeatureCovariance(features, offset)
    return features.gram() / features.n_points - np.outer(offset, offset)


def solver_for(covariance: Any, penalty: NDArray) -> DenseSolver | IterativeSolver:
    """Return what solves ``(covariance + diag(penalty)) x = b``.

    Parameters
    ----------
    covariance : ndarray or FeatureCovariance
        As from `feature_covariance`. The diagonal of an array is changed.
    penalty : ndarray of shape (m,), at least 0
        Raised to the rounding errors of the matrix, so that a sketch without noise, whose
        features may depend on one another, gives a system that can be solved.
    """
    dense = isinstance(covariance, np.ndarray)
    return (DenseSolver if dense else IterativeSolver)(covariance, penalty)


class DenseSolver:
    """By Cholesky factorisation, once for all right sides."""

    def __init__(self, covariance: NDArray, penalty: NDArray):
        self._factor = _factor(covariance, penalty)

    def solve(self, right: NDArray, tolerance: float = 0.0) -> NDArray:
        """Return x for b of shape (m,) or (m, k), as exactly as numbers are."""
        return cho_solve(self._factor, right, check_finite=False)


class IterativeSolver:
    """By conjugate gradients with the preconditioner of `LocalBlocks`.

    The last system and its solution are kept: an answer, its error and its judgement solve the
    same one.
    """

    def __init__(self, covariance: FeatureCovariance, penalty: NDArray):
        self._covariance = covariance
        variance = covariance.diagonal()
        self._penalty = np.maximum(penalty, _rounding(variance))[:, None]
        self._preconditioner = LocalBlocks(
            covariance.features, covariance.offset, variance, self._penalty[:, 0]
        )
        self._last: tuple[NDArray, NDArray] | None = None

    def solve(self, right: NDArray, tolerance: float = _TOLERANCE) -> NDArray:
        """Return x for b of shape (m,) or (m, k)."""
        if tolerance > _TOLERANCE:
            return self._in_batches(right, tolerance)
        if self._last is None or not np.array_equal(self._last[0], right):
            self._last = right.copy(), self._in_batches(right, tolerance)
        return self._last[1]

    def _in_batches(self, right: NDArray, tolerance: float) -> NDArray:
        columns = right.reshape(len(right), -1)
        batches = [columns[:, s : s + _BATCH] for s in range(0, columns.shape[1], _BATCH)]
        found = [self._conjugate_gradients(batch, tolerance) for batch in batches]
        return np.hstack(found).reshape(right.shape)

    def _conjugate_gradients(self, right: NDArray, tolerance: float) -> NDArray:
        """Solve for some right sides side by side: each has its own steps."""
        solution, residual = np.zeros_like(right), right.copy()
        direction = self._preconditioner.solve(residual)
        size = _dots(residual, direction)
        goal = tolerance**2 * size
        for _ in range(_MOST_STEPS):
            going = np.flatnonzero(size > goal)
            if not len(going):
                return solution
            along = direction[:, going]
            image = self._covariance @ along + self._penalty * along
            step = size[going] / _dots(along, image)
            solution[:, going] += step * along
            residual[:, going] -= step * image
            steepest = self._preconditioner.solve(residual[:, going])
            smaller = _dots(residual[:, going], steepest)
            direction[:, going] = steepest + smaller / size[going] * along
            size[going] = smaller
            advance()
        missed = tolerance * np.sqrt(np.max(size[going] / goal[going]))
        warn_caller(
            f"The regression on {len(right):,} features has not converged (relative residual "
            f"{missed:.1e}), and answers may be off. Sketch fewer columns together, or with fewer "
            "bins.",
            ConvergenceWarning,
        )
        return solution


def _dots(left: NDArray, right: NDArray) -> NDArray[np.float64]:
    return np.einsum("ij,ij->j", left, right)


def _rounding(diagonal: NDArray) -> float:
    # Features reach 1, and so does what was subtracted where their variance is 0.
    return len(diagonal) * np.finfo(np.float64).eps * max(diagonal.sum(), 1.0)


def _factor(matrix: NDArray, penalty: NDArray) -> tuple[NDArray, bool]:
    """Return the Cholesky factor of ``matrix + diag(penalty)``; changes the diagonal."""
    diagonal = np.diagonal(matrix).copy()
    rounding = _rounding(diagonal)
    while True:
        matrix[np.diag_indices_from(matrix)] = diagonal + np.maximum(penalty, rounding)
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:  # a sum over many points has lost more digits than that
            if rounding >= max(diagonal.sum(), 1.0):
                raise
            rounding *= 10
