"""The moment-to-moment regression: any statistic as a linear function of the sketch.

`FeatureBlocks` is the matrix of the regression, phi of the synthetic points in dense and sparse
blocks; the covariance of its columns is factorised.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._computing import advance
from ..._linear_systems import positive_solver
from ...features._feature_maps import FeatureMap
from ...sketches import PrivateSketch
from .._numbers import LEAST_SHARE_TELLING, N_POINTS, SHIFT_LEFT_BY_DENSITY


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
        self.sketch, self.points, self.center = sketch, points, center
        self.features = FeatureBlocks.of(sketch.feature_map, points)
        mean = self.features.mean()
        self.offset = mean if center else np.zeros_like(mean)
        self.penalty = penalties(regularization, sketch)
        covariance = self.features.gram() / len(points) - np.outer(self.offset, self.offset)
        diagonal = np.diag_indices_from(covariance)
        # Features reach 1, and so does what was subtracted where their variance is 0.
        size = max(covariance[diagonal].sum(), 1.0)
        rounding = len(covariance) * np.finfo(np.float64).eps * size
        covariance[diagonal] += np.maximum(self.penalty, rounding)
        self._solve = positive_solver(covariance)
        self.weights = self.weights_for(sketch.mean)

    def weights_for(self, means: NDArray) -> NDArray:
        """Return the weights of the points for sketch mean(s) of shape (m,) or (m, B)."""
        direction = self._solve((means.T - self.offset).T)
        weights = (self.features.dot(direction) - self.offset @ direction) / len(self.points)
        return weights + (1 / len(self.points) if self.center else 0.0)

    def squares(self, means: NDArray) -> NDArray:
        """Return the squared sizes of moves of the sketch's mean, (m, B), shape (B,).

        In units of what the mean of one point drawn from the prior moves, with the noise's.
        """
        return np.einsum("ij,ij->j", means, self._solve(means))

    def coefficients(self, values: NDArray) -> NDArray:
        """Return a for targets `values` of shape (n_synthetic, k); shape (m, k)."""
        return self.approximate(values)[0]

    def approximate(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return a, and the mean square of what ``a . phi`` misses at the points, shape (k,)."""
        mean = values.mean(axis=0)
        products = self.features.tdot(values) / len(self.points)
        covariance = products - np.outer(self.offset, mean)
        slope = self._solve(covariance)
        square = np.mean(values**2, axis=0) - (mean**2 if self.center else 0.0)
        return slope, np.maximum(square - np.sum(slope * covariance, axis=0), 0.0)

    def residuals(self, values: NDArray, slope: NDArray) -> NDArray:
        """Return f - its approximation at the synthetic points, shape (n_synthetic, k)."""
        fitted = self.features.dot(slope) - self.offset @ slope
        return values - fitted - (values.mean(axis=0) if self.center else 0.0)


class Shift(NamedTuple):
    """How unlike the points the rows are: the mean square of the density ratio's coordinates.

    What phi does not explain of a function, a residual, is 0 on average over the points. Over the
    rows it is the residual's coordinate in the density of rows over that of points, less one. What
    that is nobody can tell. But phi has some hundred coordinates that the sketch does tell, by
    ``(z - mean phi)' K^-1 (z - mean phi)`` with K the matrix of the regression, less what noise
    alone would give. Their mean square stands for that of a residual. It is 0 for rows that look
    as if they were points, and 1 on average for one row that is one of them, the case that
    Theorem 3.1 allows for.

    Parameters
    ----------
    mean_square : float
    error : float
        Standard error of `mean_square`, of the noise.
    told : float
        Share of the features that tell more than noise.
    """

    mean_square: float
    error: float
    told: float

    @classmethod
    def of(cls, model: MomentRegression) -> Shift:
        """Measure it at the points of a regression."""
        rng, n_features = np.random.default_rng(0), len(model.offset)
        by_noise = model.sketch.mean_noise_std[:, None]
        # 64 draws of noise alone tell its mean to an eighth of its spread.
        noise = by_noise * rng.standard_normal((n_features, 64))
        penalised = np.sqrt(model.penalty)[:, None] * rng.standard_normal(noise.shape)
        found = model.squares((model.sketch.mean - model.offset)[:, None])[0]
        of_noise, shrunk = model.squares(noise), model.squares(penalised).mean()
        told = max(n_features - shrunk, 1.0)
        excess = max(found - of_noise.mean(), 0.0)
        return cls(excess / told, np.std(of_noise) / told, told / n_features)

    @property
    def largest(self) -> float:
        """As large as `mean_square` may be; what noise leaves open is 1 at most."""
        return max(self.mean_square, min(self.mean_square + 2 * self.error, 1.0))

    @property
    def of_residuals(self) -> float:
        """The mean square for residuals, which are larger where hardly a point lies.

        More than 1 means that rows lie there. Residuals are then farther off than what phi
        explains, up to four times on the lognormal columns of docs/m2m.md, and so it is squared.
        """
        return self.largest * max(self.largest, 1.0)

    @property
    def is_worth_a_density(self) -> bool:
        """Whether points should follow the sketch, not lie anywhere."""
        return self.told >= LEAST_SHARE_TELLING

    def left_by_density(self, there: Shift) -> Shift:
        """Return the shift from points that follow the sketch, `there` as they look to it."""
        least = SHIFT_LEFT_BY_DENSITY * min(self.largest, 1.0)
        return there._replace(mean_square=max(there.mean_square, least))


def check_solvable(feature_map: FeatureMap) -> None:
    """Raise ValueError for more features than a regression takes: its matrix has 2 GB then."""
    if feature_map.n_features > N_POINTS:
        raise ValueError(
            "Sketch fewer columns together, or with fewer bins, or read the histograms alone "
            f"(inference='graphical'): points are weighted to match up to {N_POINTS:,} features, "
            f"and these are {feature_map.n_features:,}."
        )


def penalties(regularization: Any, sketch: PrivateSketch) -> NDArray:
    """Return lambda for each feature; estimators have checked that `regularization` is one."""
    if regularization == "theory":
        return sketch.mean_noise_std**2
    if regularization == "paper":
        return sketch.noise_std * sketch.mean_noise_std
    return np.full(len(sketch.mean), float(regularization))


class FeatureBlocks:
    """P = (phi(x_1), ..., phi(x_n)) for the parts of a feature map, never stacked.

    Histograms and RACE stay sparse beside dense Fourier features: at 80 arrays of 80 buckets
    that is 80 times less memory.
    """

    def __init__(self, blocks: Sequence[Any]):
        self.blocks, self.n_points = blocks, blocks[0].shape[0]
        ends = np.cumsum([0, *(block.shape[1] for block in blocks)]).tolist()
        self._slices = [slice(start, end) for start, end in pairwise(ends)]
        self.n_features = ends[-1]

    @classmethod
    def of(cls, feature_map: FeatureMap, points: Any) -> FeatureBlocks:
        """Return the features of points."""
        blocks = [part.matrix(points) for part in feature_map.parts()]
        advance()
        return cls(blocks)

    def dot(self, vectors: NDArray) -> NDArray:
        """Return P @ vectors, shape (n,) or (n, k)."""
        return sum(b @ vectors[s] for b, s in zip(self.blocks, self._slices, strict=True))

    def tdot(self, values: NDArray) -> NDArray:
        """Return P.T @ values, an array of shape (m,) or (m, k); `values` may be sparse."""
        return np.concatenate([_dense(b.T @ values) for b in self.blocks])

    def mean(self) -> NDArray:
        """Return the mean of the rows of P, shape (m,)."""
        return self.tdot(np.full(self.n_points, 1 / self.n_points))

    def moments(self, weights: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Return the mean and the variance of each column of P, by weights that sum to one."""
        if weights is None:
            weights = np.full(self.n_points, 1 / self.n_points)
        mean = self.tdot(weights)
        square = np.concatenate([(b * b).T @ weights for b in self.blocks])
        return mean, np.maximum(square - mean**2, 0.0)

    def rows(self, positions: NDArray) -> FeatureBlocks:
        """Return some rows of P."""
        return FeatureBlocks([b[positions] for b in self.blocks])

    def gram(self) -> NDArray:
        """Return P.T @ P, shape (m, m)."""
        out = np.empty((self.n_features, self.n_features))
        for i, a in enumerate(self._slices):
            for j, b in enumerate(self._slices[: i + 1]):
                out[a, b] = _dense(self.blocks[i].T @ self.blocks[j])
                out[b, a] = out[a, b].T
            advance()
        return out


def _dense(product: Any) -> NDArray:
    return product.toarray() if hasattr(product, "toarray") else product
