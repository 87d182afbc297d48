"""Spaces that are known by a kernel, and the span of public points: values and Gram matrices.

*Entries.* Each is within `KERNEL_ERROR` of the exact kernel of two rows. The last digits of a BLAS
product depend on the shape of the block, so a row more would change the entries of all others.
Here it has nothing to round: rows are first rounded to a public grid, which is a map of each row by
itself and so a part of the kernel. Then products and squared distances are sums of integers below
2**53, exact in any order, and what is left is one exponential or power of a single number. All that
is done to a row uses operations that IEEE 754 rounds alike wherever they are made, and exponentials
and powers are taken of one row of a block at a time, as instructions take several entries together:
entries are a function of the two rows alone, bit for bit (`SpanSpace` needs that).

*The span of public points Z.* With ``L L^T = K_ZZ + j I`` the coordinates of phi(x) in the span of
phi(Z) are ``L^-1 k(Z, x)``: a vector that is no longer than phi(x), up to rounding, and is clipped
to R. A function that is learned from these features lies in the span, and is the best one there;
the projection of the best function of the whole space is not, for it was made for directions that
nobody gets to see. The features of a row hang on that row alone, bit for bit: so do k(Z, x) and
explicit features, and in their product with a matrix nothing is rounded (`ExactProduct`). So all
that is proved of explicit features holds here, and nothing has to be proved of the factor: whatever
rounding makes of L^-1, it is one public matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator

from ..._computing import UNIT, Floats, advance, one_blas_thread, power_below
from ..._sklearn import Interval
from ...features._feature_maps import ExactProduct
from ._kernel_solver import HalfMatrix, smallest_tolerance, solve_dual, strips_of, tiles_before
from ._problem import (
    MAX_KERNEL_ROWS,
    NORM_ERROR,
    FeatureSpace,
    Minimizer,
    Space,
    clip_rows,
    clipped_columns,
    factor_jitter,
    positive_shift,
)

# The error of an entry relative to R^2: an exponential within 4 units in the last place (8 UNIT),
# whose argument's relative error counts 1/e.
KERNEL_ERROR = 12 * UNIT
# Rows are rounded to this part of a kernel's reach, or of the norm that they are clipped to.
_OF_REACH, _OF_NORM = 2.0**-20, 2.0**-25


class PolynomialKernel(BaseEstimator):
    """``(gamma <x, y> + coef0)^degree``, a polynomial kernel of other degree or constant.

    Give it to a learner as its `kernel`. gamma is the learner's, and rows are clipped to its
    `norm_bound`. With the defaults it is the paper's kernel, which ``kernel="poly"`` stands for.

    Parameters
    ----------
    degree : int, default=3
        Degree of the polynomial. The default is that of the paper, and of scikit-learn's `SVC`.
    coef0 : float, default=1.0
        Constant that is added to the inner product. The default is that of the paper. With 0 the
        kernel has no terms of a lower degree.

    Examples
    --------
    >>> from skdpsumm import TDDLClassifier
    >>> from skdpsumm.learners import PolynomialKernel
    >>> TDDLClassifier(kernel=PolynomialKernel(degree=2)).get_params()["kernel__degree"]
    2
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, *, degree: int = 3, coef0: float = 1.0):
        self.degree = degree
        self.coef0 = coef0


class KernelSpace(Space):
    """The reproducing kernel Hilbert space of a kernel, of which inner products alone are known.

    Parameters
    ----------
    kernel : str
        "rbf" or "poly". Learners check it; what is not "poly" is "rbf" here.
    params : dict
        Keyword arguments of the kernel.
    norm_bound : float
        Rows are clipped to this norm ("poly").
    """

    max_rows = MAX_KERNEL_ROWS

    def __init__(self, kernel: str, params: dict[str, Any], norm_bound: float):
        self.kernel, self.params, self.norm_bound = kernel, params, norm_bound
        self.radius, self.entry_error = 1.0, KERNEL_ERROR
        if kernel == "poly":
            # Relative to the largest, an entry of `polynomial` has 2 UNIT in its base.
            self.radius = self._poly_radius()
            self.entry_error = KERNEL_ERROR + 2 * params["degree"] * UNIT
        self.kernel_error = self.entry_error  # of a Gram matrix: that of its entries

    def _poly_radius(self) -> float:
        p = self.params
        longer = 1 + 2 * p["degree"] * NORM_ERROR
        try:
            return (p["gamma"] * self.norm_bound**2 + p["coef0"]) ** (p["degree"] / 2) * longer
        except OverflowError:
            return math.inf  # which `Terms.check` refuses

    def gram(self, X, Y):
        X, Y = clipped_columns(X), clipped_columns(Y)
        if self.kernel == "poly":
            return polynomial(X, Y, self.norm_bound, **self.params)
        return gaussian(X, Y, **self.params)

    def prepare(self, X, terms):
        gram = symmetric_gram(self.gram, X)
        gram.raise_diagonal(positive_shift(terms))
        return gram

    def solve(self, data, codes, terms, tolerance, linear, shares):
        if linear is not None:
            raise ValueError("A linear term needs explicit features; set kernel to a transformer.")
        settings = terms.loss, terms.regularization, tolerance
        return solve_dual(data, codes, *settings, shares=shares)

    def _sure_tolerance(self, terms, n_rows, tilt):
        shape = n_rows, terms.n_scores
        return smallest_tolerance(shape, terms.radius, terms.loss, terms.regularization)


def symmetric_gram(kernel: Callable[[NDArray, NDArray], NDArray], X: NDArray) -> HalfMatrix:
    """Return the kernel between all rows of X, exactly symmetric.

    Parameters
    ----------
    kernel : callable
        From two blocks of rows, which are the same object on the diagonal, to their kernel
        matrix; called from two threads, and BLAS uses one inside each.
    X : ndarray of shape (n, d)
    """

    def strip(here: slice) -> Floats:
        out, rows = np.empty((here.stop - here.start, here.stop)), X[here]
        for there in tiles_before(here):
            out[:, there] = kernel(rows, X[there])
        square = np.asarray(kernel(rows, rows), dtype=np.float64)
        out[:, here] = (square + square.T) / 2
        return out

    strips = []
    with one_blas_thread(), ThreadPoolExecutor(2) as pool:
        for found in pool.map(strip, strips_of(len(X))):
            strips.append(found)
            advance()
    return HalfMatrix(strips)


# ---- entries


def gaussian(X: Floats, Y: Floats, gamma: float) -> Floats:
    """Return ``exp(-gamma |x - y|^2)``; from differences for rows far from the origin."""
    step = power_below(_OF_REACH / math.sqrt(gamma))
    X, Y = _in_units(X, step), _in_units(Y, step)
    squares, others = (np.einsum("ij,ij->i", A, A) for A in (X, Y))
    # |x|^2 + |y|^2 - 2 <x, y> by one product.
    left = np.column_stack([-2.0 * X, squares, np.ones(len(X))])
    distances = left @ np.column_stack([Y, np.ones(len(Y)), others]).T
    for rows, there, long, out in ((X, Y, squares, distances), (Y, X, others, distances.T)):
        # Products of rows with larger squared norms, in grid units, would not be exact.
        far = long > 2.0**51
        if far.any():
            out[far] = cdist(rows[far], there, "sqeuclidean")
    distances *= -gamma * step * step
    return _row_by_row(np.exp, distances)


def polynomial(
    X: Floats, Y: Floats, norm: float, *, gamma: float, coef0: float, degree: int
) -> Floats:
    """Return ``(gamma <x, y> + coef0)^degree`` for rows clipped to a norm."""
    step = power_below(_OF_NORM * norm)
    # Rounded towards zero, no row becomes longer.
    X, Y = (np.trunc(clip_rows(A, norm) / step) for A in (X, Y))
    matrix = X @ Y.T
    matrix *= gamma * step * step
    matrix += coef0
    return _row_by_row(np.power, matrix, degree)


def _row_by_row(function: np.ufunc, matrix: Floats, *more: Any) -> Floats:
    """Replace the entries of a matrix by a function of them, each row by itself."""
    for row in matrix:
        function(row, *more, out=row)
    return matrix


def _in_units(X: Floats, step: float) -> Floats:
    """Return rows rounded to multiples of a power of two, in units of it."""
    limit = step * 2.0**490  # squares of so many units are floats
    return np.rint(np.clip(X, -limit, limit) / step)


# ---- the span of public points


class SpanSpace(FeatureSpace):
    """The span of phi(Z) for public points Z.

    Parameters
    ----------
    space : Space
    points : ndarray of shape (T, n_columns)
        Z. Repeated points are of no use, and no harm.
    leading : bool, default=False
        Whether to take the leading directions of K_ZZ alone, those that hold 9/10 of its trace:
        for noise that grows with the dimension.
    """

    def __init__(self, space: Space, points: NDArray, *, leading: bool = False):
        gram = space.gram(points, points)
        if leading:
            basis = leading_directions(gram)
        else:
            jitter = factor_jitter(space, len(points)) * np.eye(len(points))
            factor = cholesky(gram + jitter, lower=True)
            basis = solve_triangular(factor, np.eye(len(points)), lower=True)
        super().__init__(None, len(basis), space.radius)
        self.space, self.points, self.is_whole_ball = space, points, False
        # A function is an expansion in the points, or weights of the features that these have.
        self._expansion: NDArray | None = points
        self._matrix = basis.T
        if isinstance(space, FeatureSpace):
            self._expansion, self.is_users = None, space.is_users
            self._matrix = space.features(points).T @ basis.T
        self._product = ExactProduct(np.ascontiguousarray(self._matrix))

    def features(self, X: NDArray) -> Floats:
        """Return the coordinates of phi of each row, shape (n, n_features)."""
        values = np.empty((len(X), self.n_features))
        start = 0
        for part in self._product(self.space.factors(X, self._expansion)):
            values[start : start + len(part)] = part
            start += len(part)
        return clip_rows(values, self.norm_bound)

    def of_weights(self, weights: Floats) -> Minimizer:
        """Return a function of the span as one of the whole space."""
        return Minimizer(self.space, self._matrix @ weights, self._expansion)


def leading_directions(gram: Floats) -> Floats:
    """Return V^T K_ZZ^(-1/2) of the leading eigenvectors V: values to orthonormal coordinates."""
    sizes, vectors = eigh(gram)
    order = np.argsort(-sizes)
    if not sizes[order[0]] > 0:
        raise ValueError(
            "Give X_public some points that are not 0: with delta=0 the model is a function of "
            "their span, and the features of all of them are 0."
        )
    # The leading directions hold nine tenths of the trace of K_ZZ.
    kept = np.cumsum(sizes[order]) <= 0.9 * sizes.sum()
    leading = order[: int(kept.sum()) + 1]
    return (vectors[:, leading] / np.sqrt(sizes[leading])).T
