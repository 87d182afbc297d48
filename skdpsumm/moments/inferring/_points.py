"""Synthetic points, and what the features of a sketch say of them.

Points are drawn from the prior psi of M2M. The moment-to-moment regression (`MomentRegression`)
makes any statistic a linear function of the sketch there; or points are moved and weighted to match
the sketch (`maxent_points`). `FeatureBlocks` is phi of the points in dense and sparse blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from ..._computing import advance
from ..._linear_systems import positive_solver
from ..._sklearn import Interval, StrOptions, check_params, validate_parameter_constraints
from ...features._feature_maps import FeatureMap
from ...schema._columns import read_cells
from ...schema._reading import column_names, read_table
from ...schema._schema import TableSchema, stack_columns
from ...sketches import PrivateSketch
from ...sketches._rounding import at_quantiles_of, systematic
from .._numbers import (
    MOST_FEATURES_OF_MODEL,
    N_POINTS,
    SHARE_BESIDE_DENSITY,
    SHARE_BESIDE_MODEL,
    SHIFT_LEFT_BY_DENSITY,
    TEMPERATURES,
)
from ._table_model import TableModel, counted_columns


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

    def approximate(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return a for targets `values` of shape (n_synthetic, k), and what ``a . phi`` misses.

        These are of shape (m, k), and its mean square at the points, of shape (k,).
        """
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
        told, excess = max(n_features - shrunk, 1.0), max(found - of_noise.mean(), 0.0)
        return cls(excess / told, np.std(of_noise) / told, told / n_features)

    @property
    def largest(self) -> float:
        """As large as `mean_square` may be; what noise leaves open is 1 at most."""
        return max(self.mean_square, min(self.mean_square + 2 * self.error, 1.0))

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


class Points(BaseEstimator):
    """How ``inference="points"`` reads a release: where synthetic points start, and their weights.

    The defaults are what we know to be best. Other values are there to compare with, or for points
    that you know yourself.

    Parameters
    ----------
    prior : {"auto", "uniform", "kde"}, array-like or frame of shape (k, d), default="auto"
        Where synthetic points start. "uniform" (the paper's) draws them evenly on the ranges. "kde"
        draws from a kernel density of what the sketch itself tells, which costs no more privacy.
        "auto" puts the points where the release says that rows lie: it draws from the graphical
        model of all histograms, or takes "kde" where there are none. Where the release is too noisy
        to lead the points, "auto" is "uniform" instead of "kde" (docs/m2m.md). `M2MClassifier` and
        `M2MRegressor` take "auto" and "uniform": they move the points themselves.

        If you have public rows that look like the private ones, give these, in the columns' units:
        from an older survey for example, or made up by an expert. Columns of a frame go by their
        names. Points are then drawn from a kernel density of your rows, by Scott's rule. They
        respect the schema: numbers are reflected at the ends of their ranges and moved to their
        steps, and a twentieth of the categories are drawn anew. Half of the numbers keep their
        value, because many rows may share one, such as an income of 0. A tenth of the points lie
        anywhere, so that answers are not wrong where you have no rows. Your rows are in
        `get_params`, and so in whatever you save. **Never give the rows that are sketched.**
    weights : {"maxent", "printed"}, default="maxent"
        How `M2MClassifier` weights the points. "maxent" moves points towards the sketched data and
        weights them by maximum entropy. Its weights are never negative, so every estimator can use
        them. "printed" keeps the paper's weights on the prior's points. Many are negative, and
        `estimator` must accept that.
    regularization : {"theory", "paper"} or float, default="theory"
        Penalty (lambda) of the ridge regression of `M2MEstimator`, and of "printed" weights (no
        float there). "theory" is sigma^2 / n^2 for each feature, the value of Theorem 3.1. "paper"
        is sigma^2 / n, equation (5). It is n times larger and shrinks too much, so it is not the
        default.
    center : bool, default=True
        Whether the regression of `M2MEstimator` has an intercept without penalty. By default it
        has, so that a drowned sketch gives the prior's value, not 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MEstimator, Points, RFFSketcher
    >>> X = np.random.default_rng(0).beta(2, 8, (20_000, 2))
    >>> sketcher, points = RFFSketcher(n_components=50), Points(prior="uniform")
    >>> m2m = M2MEstimator((0, 1), release=sketcher, inference=points, n_synthetic=5_000)
    >>> bool(abs(m2m.fit(X).mean()[0].value - X[:, 0].mean()) < 0.1)
    True
    >>> older = np.random.default_rng(1).beta(2, 9, (300, 2))
    >>> m2m = m2m.set_params(inference=Points(prior=older))
    >>> share = m2m.fit(X).estimate(lambda rows: rows[:, 0] <= 0.2)
    >>> bool(abs(float(share) - np.mean(X[:, 0] <= 0.2)) < 0.15)
    True

    See Also
    --------
    M2MEstimator : Takes it as `inference`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "prior": [StrOptions({"auto", "uniform", "kde"}), "array-like"],
        "weights": [StrOptions({"maxent", "printed"})],
        "regularization": [StrOptions({"theory", "paper"}), Interval(Real, 0, None, closed="left")],
        "center": ["boolean"],
    }

    def __init__(
        self,
        *,
        prior: str | ArrayLike = "auto",
        weights: str = "maxent",
        regularization: float | str = "theory",
        center: bool = True,
    ):
        self.prior = prior
        self.weights = weights
        self.regularization = regularization
        self.center = center

    def check(self, owner: str, known: dict[str, Any]) -> None:
        """Raise ValueError for values that are none, or have no effect for an estimator.

        Parameters
        ----------
        owner : str
            The estimator's class.
        known : dict from str to list of constraints
            The parameters that have an effect there.
        """
        check_params(self)
        given, usual = self.get_params(deep=False), Points().get_params()
        for name in given.keys() - known.keys():
            if given[name] != usual[name]:
                raise ValueError(f"Points({name}=...) has no effect in {owner}: leave {name} out.")
        own = {name: given[name] for name in known}
        validate_parameter_constraints(known, own, caller_name=f"Points of {owner}")

    def check_prior(self, columns: TableSchema) -> None:
        """Raise ValueError for public points that are no rows of the table."""
        if not isinstance(self.prior, str):
            _public_points(self.prior, columns)


def draw_points(
    prior: Any,
    sketch: PrivateSketch,
    columns: TableSchema,
    n_points: int,
    rng: np.random.RandomState,
    model: TableModel | None = None,
) -> NDArray:
    """Return synthetic rows, shape (n_points, d), drawn from `prior`.

    Parameters
    ----------
    prior : {"auto", "uniform", "kde"} or array of shape (k, d)
        "uniform": on the ranges and categories. "auto": from the graphical model of all
        histograms, "uniform" where there are none (`M2MEstimator` chooses before it asks). "kde":
        from a kernel density of the points of "auto", moved and weighted to match the sketch. An
        array: from that of these public points.
    sketch : PrivateSketch
    columns : TableSchema
        With the range of every numeric column.
    n_points : int
    rng : RandomState
    model : TableModel, default=None
        That of the sketch, where it has been fitted.

    Notes
    -----
    Each column is stratified (one point in each of n equal slices of probability, in random
    order), so its own distribution carries almost no sampling error.
    """

    def around(points: NDArray, weights: NDArray, width: float | None = None) -> NDArray:
        # Drawn by a kernel density of weighted points, but for some that lie anywhere.
        n_spread = max(int(SHARE_BESIDE_DENSITY * n_points), 1)
        drawn = _spread(points, weights, columns, n_points - n_spread, rng, width)
        return np.concatenate([drawn, columns.sample(n_spread, rng)])

    if not isinstance(prior, str):
        points = _public_points(prior, columns)
        weights, d = np.full(len(points), 1 / len(points)), max(len(columns.numeric), 1)
        return around(points, weights, len(points) ** (-1 / (d + 4)))
    if prior == "kde":
        size = points_for_a_look(sketch, n_points)
        first = draw_points("auto", sketch, columns, size, rng, model)
        return around(*maxent_points(sketch, first, columns, rng))
    if prior == "uniform" or not counted_columns(sketch.feature_map):
        return columns.sample(n_points, rng)
    # A few lie anywhere: what features say of places that noise has emptied is heard there.
    n_spread = max(int(SHARE_BESIDE_MODEL * n_points), 1)
    points = (model or TableModel(sketch, columns)).sample(n_points - n_spread, rng)
    return np.concatenate([points, columns.sample(n_spread, rng)])


def points_for_a_look(sketch: PrivateSketch, n_points: int) -> int:
    """Return how many of the points are enough for a density, or to see if one is worth it.

    Answers on Adult and Occupancy are as good with 5,000 of them, for 200 features, as with 20,000.
    """
    enough = max(5_000, 25 * sketch.feature_map.n_features)
    return min(n_points, enough, N_POINTS)


def absent(schema: TableSchema, cells: NDArray, j: int) -> NDArray[np.bool_]:
    """Return which cells of column `j` of synthetic points are missing."""
    column = schema.columns[j]
    if not column.missing:
        return np.zeros(len(cells), np.bool_)
    read = read_cells(column, cells, schema.name(j))
    return np.isnan(read) if schema.values(j) is None else read == column.n_codes - 1


def labelled(
    schema: TableSchema, target: int, rows: NDArray, weights: NDArray
) -> tuple[NDArray, NDArray]:
    """Return the rows that have a label, and their weights: of others nothing is learnt.

    Raises
    ------
    ValueError
        Where no row has one.
    """
    known = ~absent(schema, rows[:, target], target)
    if not known.any():
        raise ValueError(
            f"Column {schema.name(target)!r} is missing in all synthetic rows, so no model can "
            "learn it. When you sketch again, use a larger epsilon, or fewer columns."
        )
    return rows[known], weights[known] / weights[known].sum()


def _public_points(points: Any, columns: TableSchema) -> NDArray:
    table = read_table(points)
    if table.ndim != 2 or len(table) < 2:
        raise ValueError(
            f"prior must hold at least two rows of {columns.n_columns} columns, got an array of "
            f"shape {table.shape}."
        )
    try:
        names = column_names(points, needed=columns.names is not None)
        cells = columns.in_steps(table[:, columns.positions(table.shape[1], names)])
        parts = [columns.read(cells, j) for j in range(columns.n_columns)]
    except ValueError as error:
        raise ValueError(f"prior, an array of public points: {error}") from None
    made = (p if columns.values(j) is None else columns.decode(j, p) for j, p in enumerate(parts))
    return stack_columns([*made])


def maxent_weights(
    features: FeatureBlocks, target: NDArray, slack: NDArray, *, tol: float = 0.03
) -> NDArray[np.float64]:
    """Return the probabilities closest to uniform whose feature means are near `target`.

    Minimises ``KL(w | uniform) + 1/2 sum_j (E_w phi_j - target_j)^2 / slack_j``. The solution is
    ``w_i ~ exp(theta . phi_i)`` with theta the minimum of the convex dual
    ``log mean exp(theta . (phi_i - target)) + 1/2 sum_j slack_j theta_j^2``, found by
    L-BFGS in a metric that is renewed every few steps.

    Parameters
    ----------
    features : FeatureBlocks of n points
    target : ndarray of shape (m,)
    slack : ndarray of shape (m,)
        Variance of each entry of `target` around the truth, positive.
    tol : float, default=0.03
        Largest gradient, in units of the square root of slack: what is asked of the means is known
        to 1 of them. (AUCs are those of 0.001 to 0.002, in a third to all of the time.)

    Returns
    -------
    ndarray of shape (n,), summing to one
    """
    scale = 1 / np.sqrt(slack)

    def tilt(theta: NDArray) -> tuple[NDArray, float]:
        exponent = features.dot(theta)
        top = exponent.max()  # before exp, which overflows at 710
        weights = np.exp(exponent - top)
        total = weights.sum()
        return weights / total, top + np.log(total / len(weights)) - theta @ target

    def dual(v: NDArray) -> tuple[float, NDArray]:
        weights, log_partition = tilt(v * scale)
        gradient = (features.tdot(weights) - target) * scale + v
        return log_partition + 0.5 * v @ v, gradient

    v, goal = np.zeros(len(target)), tol * np.sqrt(len(target))
    for _ in range(50):
        v, is_near = _descend(dual, v, _root(features, tilt(v * scale)[0], scale), goal)
        if is_near:
            break
        advance()
    return tilt(v * scale)[0]


def _root(features: FeatureBlocks, weights: NDArray, scale: NDArray) -> NDArray:
    """Return L with ``L @ L.T`` near the dual's Hessian, or its diagonal for many features.

    The Hessian, ``scale covariance scale + 1``, is that of points drawn by their weights, which
    costs a tenth of that of all; its diagonal is exact, for a rare category may not be drawn. Where
    the dual ends does not depend on it: gradients are of all points.
    """
    _, variance = features.moments(weights)
    if features.n_features > MOST_FEATURES_OF_MODEL:
        return np.sqrt(1 + variance * scale**2)
    size = min(N_POINTS // 2, features.n_points)
    drawn = features.rows(at_quantiles_of(weights, (np.arange(size) + 0.5) / size))
    mean = drawn.mean()
    hessian = drawn.gram() / size - np.outer(mean, mean)
    diagonal = np.diag_indices_from(hessian)
    hessian[diagonal] = np.maximum(variance, hessian[diagonal])
    hessian *= np.outer(scale, scale)
    hessian[diagonal] += 1.0
    return cholesky(hessian, lower=True, overwrite_a=True, check_finite=False)


def _descend(
    dual: Callable[[NDArray], tuple[float, NDArray]], start: NDArray, root: NDArray, goal: float
) -> tuple[NDArray, bool]:
    """Return where some steps of L-BFGS lead, and if the gradient is small there.

    Its variables are ``u = root.T @ v``, in which the Hessian is near the identity.
    """
    is_diagonal, size = root.ndim == 1, np.inf

    def solve(right: NDArray, trans: str) -> NDArray:
        if is_diagonal:
            return right / root
        return solve_triangular(root, right, lower=True, trans=trans, check_finite=False)

    def objective(u: NDArray) -> tuple[float, NDArray]:
        nonlocal size
        value, gradient = dual(solve(u, "T"))
        size = float(np.linalg.norm(gradient))
        return value, solve(gradient, "N")

    def stop(_: NDArray) -> None:
        if size <= goal:
            raise StopIteration

    n_steps = 400 if is_diagonal else 8  # a diagonal stays as good as it was
    first = root * start if is_diagonal else root.T @ start
    options = {"gtol": 0.0, "ftol": 0.0, "maxiter": n_steps, "maxcor": 20}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", callback=stop, options=options)
    return solve(found.x, "T"), size <= goal


def maxent_points(
    sketch: PrivateSketch, points: NDArray, columns: TableSchema, rng: np.random.RandomState
) -> tuple[NDArray, NDArray[np.float64]]:
    """Move `points` towards the sketched data, round by round, and weight them to match it.

    Data fill a small part of their ranges, and of points spread over these only a few lie where
    the data do. Matching many moments exactly then puts all weight on a handful of points
    (measured on Occupancy at epsilon = 3: an effective sample of 1 to 4 out of 40,000, and an AUC
    down to 0.7): the more accurate the sketch, the worse the model. So matching starts loose;
    after each round points are drawn anew from the weights, spread by a kernel that shrinks with
    the effective sample size, and matching tightens. All of it is post-processing.

    Parameters
    ----------
    sketch : PrivateSketch
    points : ndarray of shape (n, d)
        Drawn from the prior.
    columns : TableSchema
        With the range of every numeric column.
    rng : RandomState

    Returns
    -------
    points : ndarray of shape (n, d)
    weights : ndarray of shape (n,), non-negative, summing to one
    """
    noise = sketch.mean_noise_std**2
    cloud = points[:N_POINTS]
    features = FeatureBlocks.of(sketch.feature_map, cloud)
    _, variance = features.moments()
    # A feature that hardly varies, as an empty cell, would have to be met exactly.
    variance = np.maximum(variance, 1e-3 * variance.max())
    weights = maxent_weights(features, sketch.mean, noise + TEMPERATURES[0] * variance)
    for temperature in TEMPERATURES[1:]:
        size = len(points) if temperature == TEMPERATURES[-1] else len(cloud)
        cloud = _spread(cloud, weights, columns, size, rng)
        features = FeatureBlocks.of(sketch.feature_map, cloud)
        weights = maxent_weights(features, sketch.mean, noise + temperature * variance)
    return cloud, weights


def _spread(
    points: NDArray,
    weights: NDArray,
    columns: TableSchema,
    size: int,
    rng: np.random.RandomState,
    width: float | None = None,
) -> NDArray:
    """Draw `size` points from the weighted ones, and jitter them inside their ranges.

    The width of the normal kernel is in units of the columns' standard deviations; None is half of
    Scott's, for the effective sample size.
    """
    chosen, numeric = rng.permutation(systematic(weights, size, rng)), columns.numeric
    moved = points[chosen]
    if numeric:
        moved[:, numeric] = _jitter(points, weights, chosen, numeric, columns, rng, width)
    for j in range(columns.n_columns):
        if columns.values(j) is None:
            moved[:, j] = columns.on_grid(moved[:, j].astype(np.float64), j)
        else:
            fresh = rng.uniform(size=size) < 0.05  # so every category stays alive
            n_codes = columns.columns[j].n_codes
            moved[fresh, j] = columns.decode(j, rng.randint(n_codes, size=int(fresh.sum())))
    return moved


def _jitter(points, weights, chosen, numeric, columns, rng, width):
    """Add a normal kernel, reflected at the ends, to half of the entries.

    The others keep their values: many rows may share one, such as an income of 0, and a kernel
    would leave no point there for their weight.
    """
    low, high = np.array([columns.bound(j) for j in numeric]).T
    unit = (points[:, numeric].astype(np.float64) - low) / (high - low)
    # Without bias, and finite where one point has all the weight.
    freedom = max(1 - np.sum(weights**2), np.finfo(np.float64).eps)
    known = np.where(np.isnan(unit), 0.5, unit)
    covariance = np.atleast_2d(np.cov(known.T, aweights=weights, ddof=0)) / freedom
    if width is None:
        width = 0.5 * np.sum(weights**2) ** (1 / (len(numeric) + 4))
    # Columns of the points may be constant, or depend on one another exactly.
    root = np.linalg.cholesky(covariance + 1e-6 * np.eye(len(numeric)))
    noise = rng.normal(size=(len(chosen), len(numeric))) @ root.T
    noise[rng.uniform(size=noise.shape) < 0.5] = 0.0
    folded = np.mod(unit[chosen] + width * noise, 2.0)
    return low + (high - low) * np.minimum(folded, 2.0 - folded)
