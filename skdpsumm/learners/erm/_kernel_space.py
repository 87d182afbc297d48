"""Spaces that are known by a kernel: the values of exact kernels, and their Gram matrices.

*Entries.* Each is within `KERNEL_ERROR` of the exact kernel of two rows. The last digits of a BLAS
product depend on the shape of the block, so a row more would change the entries of all others.
Here it has nothing to round: rows are first rounded to a public grid, which is a map of each row by
itself and so a part of the kernel. Then products and squared distances are sums of integers below
2**53, exact in any order, and what is left is one exponential or power of a single number. All that
is done to a row uses operations that IEEE 754 rounds alike wherever they are made, and exponentials
and powers are taken of one row of a block at a time, as instructions take several entries together:
entries are a function of the two rows alone, bit for bit (`_span_space` needs that).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.utils import gen_batches

from ..._computing import advance, one_blas_thread, silence
from ..._linear_systems import UNIT, power_below
from ..._sklearn import Interval
from ._feature_space import (
    LARGEST_COORDINATE,
    NORM_ERROR,
    clip_rows,
    row_lengths,
    zero_where_undefined,
)
from ._half_matrix import HalfMatrix, strips_of, tiles_before
from ._kernel_solver import smallest_tolerance, solve_dual
from ._losses import Floats
from ._problem import MAX_KERNEL_ROWS, Minimizer, Space, positive_shift

# Relative to R^2: an exponential within 4 units in the last place (8 UNIT), whose argument's
# relative error counts 1/e. The argument of chi2 is a sum of terms
# that are off by 5 UNIT each, over `_COLUMNS_AT_ONCE` columns, and the others' are integers.
KERNEL_ERROR, CHI2_ERROR = 12 * UNIT, 40 * UNIT
# Rows are rounded to this part of a kernel's reach, or of the norm that they are clipped to.
_OF_REACH, _OF_NORM = 2.0**-20, 2.0**-25
_COLUMNS_AT_ONCE = 64
# What we ask of kernels of the user's: their values may be off by this part of |phi(x)| |phi(y)|.
# Their scaling adds as much again, and a little of its own.
GIVEN_ERROR = 2.0**-46
SCALED_ERROR = 2 * GIVEN_ERROR + 8 * UNIT


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

    def __init__(
        self,
        *,
        degree: int = 3,
        coef0: float = 1.0,
    ):
        self.degree = degree
        self.coef0 = coef0


class GramSpace(Space):
    """A space of which inner products alone are known.

    Attributes
    ----------
    is_users : bool
        Whether it calls a function of the user's, which may fail, and is for one thread alone.
    """

    max_rows = MAX_KERNEL_ROWS
    is_users: bool = False

    @property
    def kernel_error(self) -> float:
        """The errors of the Gram matrix are those of its entries."""
        return self.entry_error

    def check_points(self, points, X):
        if self.is_users:
            for rows in gen_batches(len(points), 256):
                self.gram(points[rows], X)

    def factors(self, X, points):
        return self.gram(X, points)

    def prepare(self, X, terms):
        gram = symmetric_gram(self.gram, X, n_jobs=1 if self.is_users else 2)
        gram.raise_diagonal(positive_shift(terms))
        return gram

    def solve(self, data, codes, terms, tolerance, linear, shares):
        if linear is not None:
            raise ValueError("A linear term needs explicit features; set kernel to a transformer.")
        settings = terms.loss, terms.regularization, tolerance
        return solve_dual(data, codes, *settings, shares=shares)

    def smallest_tolerance(self, terms, n_rows, tilt):
        shape = n_rows, terms.n_scores
        return smallest_tolerance(shape, terms.radius, terms.loss, terms.regularization)


class KernelSpace(GramSpace):
    """The reproducing kernel Hilbert space of a kernel.

    Parameters
    ----------
    kernel : str or callable
        "poly", one of `UNIT_KERNELS`, or a function of two tables that returns their matrix.
    params : dict
        Keyword arguments of the kernel.
    norm_bound : float
        Rows are clipped to this norm ("poly"); phi itself is scaled down to it (callables).
    """

    def __init__(self, kernel: str | Callable, params: dict[str, Any], norm_bound: float):
        self.kernel: Any = kernel
        self.params = params
        self.norm_bound = norm_bound
        self.radius = self._kernel_radius()
        self.is_users = callable(kernel)
        self.entry_error = self._entry_error()

    def _entry_error(self) -> float:
        if callable(self.kernel):
            return SCALED_ERROR
        if self.kernel == "poly":
            return polynomial_error(self.params["degree"])
        return CHI2_ERROR if self.kernel == "chi2" else KERNEL_ERROR

    def _kernel_radius(self) -> float:
        if callable(self.kernel):
            return self.norm_bound
        if self.kernel in UNIT_KERNELS:
            return 1.0
        p = self.params
        longer = 1 + 2 * p["degree"] * NORM_ERROR
        try:
            return (p["gamma"] * self.norm_bound**2 + p["coef0"]) ** (p["degree"] / 2) * longer
        except OverflowError:
            return math.inf  # which `Terms.check` refuses

    def gram(self, X, Y):
        # Far beyond any data, and below where squares overflow.
        X, Y = (
            np.clip(np.asarray(A, dtype=np.float64), -LARGEST_COORDINATE, LARGEST_COORDINATE)
            for A in (X, Y)
        )
        if callable(self.kernel):
            matrix = zero_where_undefined(self._call_on_rows(X, Y))
            return matrix * self._scales(X)[:, None] * self._scales(Y)
        if self.kernel == "poly":
            return polynomial(X, Y, self.norm_bound, **self.params)
        return UNIT_KERNELS[self.kernel](X, Y, **self.params)

    def try_out(self, n_columns: int) -> None:
        """Raise ValueError for a function that is no kernel of two tables, on public zeros."""
        if not callable(self.kernel):
            return
        try:
            shape = self._call_as_is(np.zeros((2, n_columns)), np.zeros((1, n_columns))).shape
            reason = f"returned shape {shape}"
        except Exception as error:
            shape, reason = None, f"raised {type(error).__name__}: {error}"
        if shape != (2, 1):
            raise ValueError(
                "kernel must be a function of two tables, of shapes (n, d) and (m, d), and return "
                f"their (n, m) matrix; for zeros of shapes (2, d) and (1, d) it {reason}."
            )

    def _call_as_is(self, X: NDArray, Y: NDArray) -> Floats:
        with silence():
            return np.asarray(self.kernel(X, Y, **self.params), dtype=np.float64)

    def _call_on_rows(self, X: NDArray, Y: NDArray) -> Floats:
        with suppress(Exception):
            matrix = self._call_as_is(X, Y)
            if matrix.shape == (len(X), len(Y)):
                return matrix
        # Raised out here, for the error above may hold a value of a row.
        raise ValueError(
            "kernel fails on rows of these tables. It must take any rows of finite numbers, and "
            "return shape (n, m); a schema clips rows to public ranges. (Its own message is left "
            "out: it may hold a private value.)"
        )

    def _scales(self, X: NDArray) -> Floats:
        """Return what brings the norm of phi of each row below the bound; 0 where it has none."""
        squares = np.empty(len(X))
        for rows in gen_batches(len(X), 64):
            squares[rows] = np.diag(self._call_on_rows(X[rows], X[rows]))
        squares = np.where(np.isnan(squares), np.inf, np.abs(squares))
        return self.norm_bound / np.sqrt(np.maximum(squares, self.norm_bound**2))

    def check(self, X):
        if self.kernel == "chi2" and (X < 0).any():
            raise ValueError(
                "kernel='chi2' needs columns that are nowhere negative: give a schema, which "
                "scales them to [0, 1], or take another kernel."
            )


class PrecomputedSpace(GramSpace):
    """A space known by the Gram matrix of the training rows and of the public points.

    Rows are indices, 0 to n - 1 for training rows and from n on for public points. Holds the
    private matrix: what is released is moved to `GivenRows`.
    """

    entry_error = SCALED_ERROR

    def __init__(self, gram: Floats, n_train: int, norm_bound: float):
        scales = norm_bound / np.sqrt(np.maximum(np.diag(gram), norm_bound**2))
        self._gram = gram * scales[:, None] * scales
        self._public_scales = scales[n_train:].copy()
        self.n_train, self.radius = n_train, norm_bound

    @classmethod
    def split(
        cls, X: NDArray, X_public: Any, norm_bound: float
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
            raise ValueError("The diagonal of a kernel cannot be negative; check X and X_public.")
        rows = np.arange(len(gram), dtype=np.float64)[:, None]
        return cls(gram, n, norm_bound), rows[:n], rows[n:]

    def gram(self, X, Y):
        return self._gram[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))]

    def released(self, predictor: Minimizer) -> Minimizer:
        """Return a released expansion in the public points, for kernel values of new rows."""
        space = GivenRows(self._public_scales)
        # The places of the public points would tell the number of training rows.
        return Minimizer(space, predictor.coefficients, np.zeros((len(predictor.coefficients), 1)))


class GivenRows(GramSpace):
    """New rows given as their kernel values with the public points."""

    entry_error = SCALED_ERROR

    def __init__(self, scales: Floats):
        self._scales = scales

    def gram(self, X, Y):
        return X * self._scales


def symmetric_gram(
    kernel: Callable[[NDArray, NDArray], NDArray], X: NDArray, *, n_jobs: int = 2
) -> HalfMatrix:
    """Return the kernel between all rows of X, exactly symmetric.

    Parameters
    ----------
    kernel : callable
        From two blocks of rows, which are the same object on the diagonal, to their kernel
        matrix; may be called from several threads.
    X : ndarray of shape (n, d)
    n_jobs : int
        Threads. BLAS uses one inside each.
    """

    def strip(here: slice) -> Floats:
        out, rows = np.empty((here.stop - here.start, here.stop)), X[here]
        for there in tiles_before(here):
            out[:, there] = kernel(rows, X[there])
        square = np.asarray(kernel(rows, rows), dtype=np.float64)
        out[:, here] = (square + square.T) / 2
        return out

    strips = []
    with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
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


def laplacian(X: Floats, Y: Floats, gamma: float) -> Floats:
    """Return ``exp(-gamma |x - y|_1)``."""
    step = power_below(_OF_REACH / gamma)
    distances = cdist(_in_units(X, step), _in_units(Y, step), "cityblock")
    distances *= -gamma * step
    return _row_by_row(np.exp, distances)


def cosine(X: Floats, Y: Floats) -> Floats:
    """Return the inner products of the directions of rows; 0 with a row of zeros."""
    X, Y = (_shortened(_directions(A), _OF_NORM) for A in (X, Y))
    return (X @ Y.T) * _OF_NORM**2


def polynomial(
    X: Floats, Y: Floats, norm: float, *, gamma: float, coef0: float, degree: int
) -> Floats:
    """Return ``(gamma <x, y> + coef0)^degree`` for rows clipped to a norm."""
    step = power_below(_OF_NORM * norm)
    X, Y = (_shortened(clip_rows(A, norm), step) for A in (X, Y))
    matrix = X @ Y.T
    matrix *= gamma * step * step
    matrix += coef0
    return _row_by_row(np.power, matrix, degree)


def polynomial_error(degree: int) -> float:
    """Return the error of an entry of `polynomial`, relative to the largest: 2 UNIT in its base."""
    return KERNEL_ERROR + 2 * degree * UNIT


def chi2(X: Floats, Y: Floats, gamma: float) -> Floats:
    """Return ``exp(-gamma sum (x - y)^2 / (x + y))`` for rows that are nowhere negative.

    Sums over a few columns are added up with their rounding errors carried along (Kahan).
    """
    total, lost = np.zeros((len(X), len(Y))), np.zeros((len(X), len(Y)))
    for some in gen_batches(X.shape[1], _COLUMNS_AT_ONCE):
        term = additive_chi2_kernel(X[:, some], Y[:, some]) - lost
        raised = total + term
        lost = (raised - total) - term
        total = raised
    total *= gamma
    return _row_by_row(np.exp, total)


def _row_by_row(function: np.ufunc, matrix: Floats, *more: Any) -> Floats:
    """Replace the entries of a matrix by a function of them, each row by itself."""
    for row in matrix:
        function(row, *more, out=row)
    return matrix


def _in_units(X: Floats, step: float) -> Floats:
    """Return rows rounded to multiples of a power of two, in units of it."""
    limit = step * 2.0**490  # squares of so many units are floats
    return np.rint(np.clip(X, -limit, limit) / step)


def _shortened(X: Floats, step: float) -> Floats:
    """Return rows rounded towards zero, which makes none longer, in units of `step`."""
    return np.trunc(X / step)


def _directions(X: Floats) -> Floats:
    """Return rows of length 1, and zeros for zeros."""
    largest = np.abs(X).max(axis=1)
    X = X / np.ldexp(1.0, np.frexp(largest)[1] - 1)[:, None]
    return X / np.where(largest > 0, row_lengths(X), 1.0)[:, None]


# Positive definite kernels of scikit-learn: those whose phi has norm 1 or less, and all.
UNIT_KERNELS: dict[str, Callable[..., Floats]] = {
    "rbf": gaussian,
    "laplacian": laplacian,
    "cosine": cosine,
    "chi2": chi2,
}
# Those whose gamma depends on how far apart rows are.
WITH_WIDTH = ("rbf", "laplacian", "chi2")
KERNELS = (*UNIT_KERNELS, "linear", "splines", "poly", "polynomial")
