"""The moment-to-moment regression: any statistic as a linear function of the sketch."""

from __future__ import annotations

from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ...sketches import PrivateSketch
from ._solvers import ROUGH, FeatureBlocks, feature_covariance, solver_for

_N_REPLICATES = 100


class MomentRegression:
    """Ridge regression from phi to any f, on synthetic points; one matrix for all f.

    With points x_i drawn from the prior, ``a`` minimises
    ``mean (f(x_i) - a . phi(x_i))^2 + sum_j lambda_j a_j^2`` (M2M paper, equation (4), with one
    lambda per feature), and the answer is ``a . z``; centred, ``mean f + a . (z - mean phi)``
    with an unpenalised intercept, which falls back on the prior where noise drowns the sketch,
    not on zero.

    The answer is also a weighted mean of f over the points, ``sum_i w_i f(x_i)``, with weights
    that do not depend on f (implicit M2M, section 3.5). That is how answers are computed: one
    dot product each.

    Parameters
    ----------
    sketch : PrivateSketch
    points : ndarray of shape (n_synthetic, d)
    regularization : {"theory", "paper"} or float
        lambda: sigma^2 / n^2 ("theory", per feature), sigma^2 / n ("paper", equation (5)).
    center : bool
    """

    def __init__(
        self, sketch: PrivateSketch, points: NDArray, *, regularization: Any, center: bool
    ):
        self.sketch = sketch
        self.points = points
        self.features = FeatureBlocks(sketch.feature_map, points)
        mean = self.features.mean()
        self.offset = mean if center else np.zeros_like(mean)
        self.center = center
        penalty = penalties(regularization, sketch.noise_std, sketch.n_samples)
        self._solver = solver_for(feature_covariance(self.features, self.offset), penalty)
        self.weights = self.weights_for(sketch.mean)

    def weights_for(self, means: NDArray, **accuracy: float) -> NDArray:
        """Return the weights of the points for sketch mean(s) of shape (m,) or (m, B)."""
        shifted = (means.T - self.offset).T
        direction = self._solver.solve(shifted, **accuracy)
        weights = (self.features.dot(direction) - self.offset @ direction) / len(self.points)
        return weights + (1 / len(self.points) if self.center else 0.0)

    def answer(self, values: NDArray) -> NDArray:
        """Return the mean of f over the rows, for its `values` at the points, shape (k,)."""
        return self.weights @ values

    def in_cells(self, place: NDArray, n_cells: int) -> CellRegression:
        """Return the same regression for values in cells, of which each point has one."""
        return CellRegression(self, place, n_cells)

    def coefficients(self, values: NDArray) -> NDArray:
        """Return a for targets `values` of shape (n_synthetic, k); shape (m, k)."""
        return self.approximate(values)[0]

    def approximate(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return a, and the mean square of what ``a . phi`` misses at the points, shape (k,)."""
        mean = self.average(values)
        covariance = self._products(values) - np.outer(self.offset, mean)
        slope = self._solver.solve(covariance)
        square = self.average(values**2) - (mean**2 if self.center else 0.0)
        return slope, np.maximum(square - np.sum(slope * covariance, axis=0), 0.0)

    def average(self, values: NDArray) -> NDArray:
        """Return the mean of values at the points, shape (k,)."""
        return values.mean(axis=0)

    def variance(self, values: NDArray) -> NDArray:
        """Return the variance of values at the points, shape (k,)."""
        return values.var(axis=0)

    def _products(self, values: NDArray) -> NDArray:
        """Return the mean of phi times values, shape (m, k)."""
        return self.features.tdot(values) / len(self.points)

    def residuals(self, values: NDArray, slope: NDArray) -> NDArray:
        """Return f - its approximation at the synthetic points, shape (n_synthetic, k)."""
        return self.residuals_elsewhere(self.features, values, values, slope)

    def residuals_elsewhere(
        self, phi: FeatureBlocks, found: NDArray, values: NDArray, slope: NDArray
    ) -> NDArray:
        """Return f - its approximation at rows of features `phi`, where f is `found`."""
        fitted = phi.dot(slope) - self.offset @ slope
        return found - fitted - (values.mean(axis=0) if self.center else 0.0)

    @cached_property
    def _replicates(self) -> tuple[NDArray, NDArray]:
        # The simulation of noise is public: it starts from the release.
        means, n_rows = self.sketch.simulate(_N_REPLICATES, np.random.default_rng(0))
        return self.weights_for(means.T, tolerance=ROUGH), n_rows

    def replicates(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return simulated answers, shape (B, k), and numbers of rows, shape (B,)."""
        weights, n_rows = self._replicates
        return weights.T @ values, n_rows


class CellRegression(MomentRegression):
    """The same regression for what is constant in cells of the points, as conditions on a column.

    Values are of shape (n_cells, k), not (n_synthetic, k): many thresholds take little time.

    Parameters
    ----------
    model : MomentRegression
    place : ndarray of shape (n_synthetic,)
        The cell of each point.
    n_cells : int
    """

    def __init__(self, model: MomentRegression, place: NDArray, n_cells: int):
        self.__dict__.update(model.__dict__)
        self._model, self._place, self._n_cells = model, place, n_cells
        self._shares = np.bincount(place, minlength=n_cells) / len(place)
        self.weights = np.bincount(place, model.weights, n_cells)

    @cached_property
    def _indicators(self) -> sparse.csr_array:
        n = len(self._place)
        return sparse.csr_array(
            (np.ones(n), self._place, np.arange(n + 1)), shape=(n, self._n_cells)
        )

    @cached_property
    def _cross(self) -> NDArray:
        return self.features.tdot(self._indicators) / len(self._place)

    def _products(self, values: NDArray) -> NDArray:
        return self._cross @ values

    def average(self, values: NDArray) -> NDArray:
        """Return the mean of values over the points, shape (k,)."""
        return self._shares @ values

    def variance(self, values: NDArray) -> NDArray:
        """Return the variance of values over the points, shape (k,)."""
        return self.average((values - self.average(values)) ** 2)

    def residuals(self, values: NDArray, slope: NDArray) -> NDArray:
        """Return f - its approximation at the synthetic points, shape (n_synthetic, k)."""
        return self._model.residuals(values[self._place], slope)

    def replicates(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return simulated answers, shape (B, k), and numbers of rows, shape (B,)."""
        weights, n_rows = self._model._replicates
        return (self._indicators.T @ weights).T @ values, n_rows


def penalties(regularization: Any, noise_std: NDArray, n_samples: float) -> NDArray:
    """Return lambda for each feature."""
    if regularization == "theory":
        return (noise_std / n_samples) ** 2
    if regularization == "paper":
        return noise_std**2 / n_samples
    if isinstance(regularization, Real) and float(regularization) >= 0:
        return np.full(len(noise_std), float(regularization))
    raise ValueError(
        "regularization must be 'theory', 'paper' or a number that is at least 0, got "
        f"{regularization!r}."
    )
