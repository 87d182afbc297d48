r"""The private minimiser of the regularised loss, and the public numbers that bound it.

A `Space` has the functions (a `FeatureSpace` those of explicit features), `Terms` the public
numbers and the sensitivity that follows, a `Problem` the private rows, and a `Minimizer` what was
found.

What float64 may move between the exact minimiser and what gets noise has public bounds, too:
The sensitivity is that of exact arithmetic, with *the exact kernel k of rows as they were rounded*
(`_kernel_space`) or *explicit features as they are in memory*, whose value for a row hangs on that
row alone. All that is computed is within a bound of that, on either data set. Below, u = 2**-53,
n is at most N = `Terms.max_rows`, A = L / Lambda, and eta = `Terms.kernel_error`; R = 1 where the
unit allows it. No step assumes an order of summation, so the bounds hold under any BLAS (but for
fast matrix products in the manner of Strassen, which none uses unasked).

Losses may have shares, 1 or from 0 to 1/2 (`_newton`): L and beta bound the slopes and curvatures
of what is left of one, too, and nothing else is asked of losses below.

*1. From the Gram matrix to the minimiser* (`kernel_drift`). The solver is given ``K' = K + E + c
I`` with entries of E up to eta and c = N eta, so K' is positive semi-definite and no smaller than
K, and a certificate in its norm holds in that of K. The minimisers for K and K' are sums of
phi(x_i) with coefficients a_i and a'_i, which are -loss'(f_i) / Lambda, of length up to A. As loss'
is monotone, and co-coercive by 1 / beta where it is beta-smooth, d = a - a' obeys

    <d, K d> + (Lambda / beta) |d|^2  <=  <d, (K' - K) a'>  <=  |d| 2 N eta |a'|,

and |a'| <= sqrt(N) A. The largest <d, K d> that this allows is ``(N^{3/2} eta A)^2 beta / Lambda``;
with |d| <= 2 sqrt(N) A it is also at most ``4 N^2 eta A^2``, for any loss, and half of that where
all slopes of a row have one direction, from 0 to L. Its root is a distance in the space.

*2. Coefficients are slopes.* The solver certifies a careful point with scores f~ and returns b =
-loss'(f~) / Lambda, so that |b_i| <= A, in place of its own coefficients, which may have any size.
With g the gradient there and H the mean Hessian of the losses on the way to the minimum w*, the
function of b is ``w* - H (H + Lambda)^{-1} g / Lambda``, no farther away than the bound |g| /
Lambda on the distance of the careful point, but for the rounding errors of the slopes. (Scores are
rounded, too: slopes are a point of the dual problem, and the certificate's ``sqrt(2 gap / Lambda)``
bounds the distance of either.) The certificate holds these errors once; here they count once more,
and so the tolerance does. The solver's last resort is near the minimum by proof and not by a
certificate: there its coefficients are returned, which have up to 6 A (`_newton`).

*3. Scores* (`score_rounding`). Entries of K(z, X) are off by eta and `careful_product` adds
`product_error`: ``|f~(z) - f(z)| <= 6 N eta A + sqrt(q) product_error(N, R^2, 6 A) + u R W``, where
W is a bound on |w|. For features the first term is none, and the other one that of p products with
weights up to W. F(w*) <= F(0) gives |w*| <= sqrt(2 N loss(0) / Lambda), and a zero gradient |w*| <=
N L R / Lambda.

*4. Coordinates in the span of T public points* (`factor_jitter`, `coordinate_rounding`). The factor
obeys ``L L^T = K_ZZ + E + j I + D`` with |E| <= T eta and |D| <= (T + 4) u tr(L L^T) (Higham 2002,
theorem 10.3, with two units for blocks). j is four times both at least, so L L^T >= K_ZZ + j I / 2:
coordinates L^{-1} f(Z) are no farther apart than functions are, and |L^{-1}| <= sqrt(2 / j).
Substitution solves ``(L + G) v = f~(Z)`` with |G| <= (T + 4) u |L|_F (theorem 8.5), in blocks, too:

    |v - L^{-1} f(Z)| <= sqrt(2 / j) (sqrt(T) s + (T + 4) u |L|_F |v|),   |L^{-1} f(Z)| <= W.

*5. Grids* are powers of two, so that dividing by them is exact: a value moves by half a unit.

References
----------
.. [1] Higham (2002), "Accuracy and stability of numerical algorithms", SIAM.
.. [2] Rump (2006), "Verification of positive definiteness", BIT 46.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.utils import gen_batches

from ..._computing import UNIT, Floats, power_below
from ..._linear_systems import careful_product, product_error
from ...features._row_alone import dense, map_rows
from ...privacy._noise import derived_seed
from ...schema._reading import SparseRows
from ...schema._vectorizer import Interactions
from ._feature_solver import (
    FeatureRows,
    NumbersOfRows,
    minimise_sparse,
    rows_of_block,
    smallest_tolerance,
    solve_primal,
)
from ._losses import Loss
from ._newton import LARGEST_COEFFICIENT, check_tolerance

# An exact kernel of more rows would not fit into the memory of common machines. Explicit features
# of more rows than these would take days. Bounds on rounding errors hold up to here.
MAX_KERNEL_ROWS, MAX_ROWS = 60_000, 2**24

# The solver stops within this part of L R / Lambda from the minimiser.
_PART_OF_STEP_CERTIFIED = 1e-3
# Squares and fourth powers of all public numbers are floats.
_RANGE = 1e-60, 1e60
# The least Lambda in units of R^2: less is lost beside a row's curvature, and Newton's method
# crawls.
_MIN_RELATIVE_LAMBDA = 1e-15
# What is released is rounded to this part of its sensitivity before noise is added.
GRID_PER_SENSITIVITY = 2.0**-20
# Lines of arithmetic on public numbers are rounded, and rows are longer than R, by less than this.
ROUNDED_UP = 1 + 2.0**-40


def check_radius(radius: float) -> None:
    """Raise ValueError for a radius whose square is no good number, before any is made of it."""
    low, high = (math.sqrt(end) for end in _RANGE)
    if not low <= radius <= high:
        raise ValueError(
            "Bring norm_bound, gamma, coef0 and degree closer to 1: they make "
            f"features of norm {radius:g}, and float64 needs a norm from {low:g} to {high:g}."
        )


@dataclass(frozen=True)
class Terms:
    """The public numbers of one fit.

    Attributes
    ----------
    epsilon, delta : float
    adjacency : {"add_remove", "replace_one"}
    loss : Loss
    regularization : float
        Lambda of the sum form.
    radius : float
        R.
    n_scores : int
        q.
    noise_seed : int or None, default=None
        Of a simulation.
    kernel_error : float, default=0.0
        `Space.entry_error` of an exact kernel; explicit features have no such error.
    max_rows : int, default=MAX_ROWS
        No problem has more rows; their number itself is private.
    rows_of_unit : int, default=1
        k, how many rows a unit of protection has at most: 1 where it is a row, or a group whose
        shares sum to 1.
    """

    epsilon: float
    delta: float
    adjacency: str
    loss: Loss
    regularization: float
    radius: float
    n_scores: int
    noise_seed: int | None = None
    kernel_error: float = 0.0
    max_rows: int = MAX_ROWS
    rows_of_unit: int = 1

    def check(self) -> None:
        """Raise ValueError for numbers that float64 cannot work with; all of them are public."""
        low, high = _RANGE
        if not (low <= self.regularization <= high and low <= self.step <= high):
            raise ValueError(
                f"regularization={self.regularization:g} makes the sensitivity {self.step:g}, and "
                f"float64 needs both from {low:g} to {high:g}: bring regularization, norm_bound, "
                "and the width or threshold of the loss closer to 1."
            )
        if self.regularization < _MIN_RELATIVE_LAMBDA * self.radius**2:
            raise ValueError(
                f"float64 is not exact enough for regularization={self.regularization:g} with "
                f"features of norm {self.radius:g}: raise regularization to "
                f"{1.01 * _MIN_RELATIVE_LAMBDA * self.radius**2:.3g} or more."
            )
        check_rounding(kernel_drift(self), self.step, "raise regularization, or lower degree")

    @property
    def is_private(self) -> bool:
        """Whether any noise is asked for."""
        return not math.isinf(self.epsilon)

    @property
    def step(self) -> float:
        """L R / Lambda, by which one row that comes or goes can move the exact minimiser."""
        return self.loss.lipschitz * self.radius / self.regularization

    @property
    def n_moved(self) -> int:
        """How many rows come and go between neighbours: k, and 2 k where a unit is replaced."""
        return self.rows_of_unit * (1 if self.adjacency == "add_remove" else 2)

    @property
    def tolerance(self) -> float:
        """The distance from the minimiser that the solver certifies, in the norm of the space."""
        return self.step * _PART_OF_STEP_CERTIFIED

    @property
    def sensitivity(self) -> float:
        """Delta_w: the most by which what the solver returns differs between neighbours.

        Each row that comes or goes moves the exact minimiser by L R / Lambda at most, and so do
        the rows of a unit whose shares sum to 1 at most (docs/proofs.md). A unit that is
        replaced goes and comes, so that it is 2 k rows. The solver adds its tolerance on both
        sides, and so do the errors of the Gram matrix that it is given: they are bounded for all
        tables, whatever neighbours differ in.
        """
        return (self.n_moved * self.step + 2 * (self.tolerance + kernel_drift(self))) * ROUNDED_UP

    def seed(self, *key: int) -> int | None:
        """Return the seed of a simulated draw; None where noise comes from the system."""
        return derived_seed(self.noise_seed, *key)


# ---- rounding


# The part of R^2 that is added to the diagonal of a Gram matrix. It takes part in the released
# function as independent noise, so it can only help privacy, and keeps the factor from blowing up.
_MIN_GRAM_JITTER = 1e-8
# Bounds above are to first order in u; this covers the rest.
_REST = 1.01


def check_rounding(rounding: float, sensitivity: float, remedy: str) -> None:
    """Raise ValueError where rounding would take a good part of the sensitivity; all is public."""
    if not rounding <= 0.1 * sensitivity:
        raise ValueError(
            f"float64 may be off by {rounding:.2g}, which is too much where a row moves the "
            f"result by {sensitivity:.2g}: {remedy}."
        )


def positive_shift(terms: Terms) -> float:
    """Return c, which makes the Gram matrix of any rows positive semi-definite, errors and all."""
    return terms.max_rows * terms.kernel_error * terms.radius**2


def kernel_drift(terms: Terms) -> float:
    """Return how far certified coefficients are from the minimiser, beyond the tolerance."""
    if terms.kernel_error == 0:
        return 0.0
    loss, n, eta = terms.loss, terms.max_rows, terms.kernel_error
    drift = terms.step * n * math.sqrt((2 if loss.one_sided else 4) * eta)
    if math.isinf(loss.smoothness):
        return drift
    curvature = loss.smoothness * terms.radius**2 / terms.regularization
    return min(drift, terms.step * n**1.5 * eta * math.sqrt(curvature)) + terms.tolerance


def largest_weight(terms: Terms) -> float:
    """Return W, a bound on the norm of what the solver returns; codes are at most 1."""
    shape = 1, terms.n_scores
    level = float(terms.loss.value(np.zeros(shape), np.eye(*shape))[0])
    n, regularization = terms.max_rows, terms.regularization
    norm = min(n * terms.step, math.sqrt(2 * n * level / regularization))
    return norm + terms.sensitivity


def score_rounding(space: Space, terms: Terms) -> float:
    """Return how far the q scores of a public row may be off in `Minimizer.careful_scores`."""
    radius, weight = terms.radius, largest_weight(terms)
    if space.n_features is None:
        coefficient = LARGEST_COEFFICIENT * terms.loss.lipschitz / terms.regularization
        entries = terms.max_rows * terms.kernel_error * radius**2 * coefficient
        product = product_error(terms.max_rows, radius**2, coefficient)
    else:
        entries = 0.0
        product = product_error(space.n_features, radius, weight)
    return (entries + math.sqrt(terms.n_scores) * product + UNIT * radius * weight) * _REST


def factor_jitter(space: Space, n_points: int) -> float:
    """Return j, to be added to the diagonal of the Gram matrix of at most T points in all."""
    rounding = n_points * space.entry_error + (n_points + 4) * n_points * UNIT * _REST
    return max(_MIN_GRAM_JITTER, 4 * rounding) * space.radius**2


def coordinate_rounding(space: Space, terms: Terms, n_points: int) -> float:
    """Return how far all coordinates together may be off that `factor_jitter` allows for."""
    jitter = factor_jitter(space, n_points)
    inverse = math.sqrt(2 / jitter)
    factor = math.sqrt(n_points * (terms.radius**2 + jitter)) * _REST
    relative = inverse * (n_points + 4) * UNIT * factor
    if relative >= 0.5:
        return math.inf
    scores = math.sqrt(n_points) * score_rounding(space, terms)
    return (inverse * scores + relative * largest_weight(terms)) / (1 - relative)


def largest_eigenvalue(gram: Floats, space: Space) -> float:
    """Return a bound on the largest eigenvalue of the exact Gram matrix of T points.

    Cholesky's method succeeds for ``b I - K`` only if that is no farther below zero than (T + 2) u
    times its trace.
    """
    n = len(gram)
    margin, units = 1e-9, 2 * (n + 4) * n * UNIT
    largest = max(float(eigh(gram, eigvals_only=True, subset_by_index=(n - 1, n - 1))[0]), 0.0)
    while True:
        bound = largest * (1 + margin) + n * space.entry_error * space.radius**2
        try:
            cholesky(bound * np.eye(n) - gram)
        except LinAlgError:
            margin *= 10
        else:
            return bound * (1 + units) + n * space.entry_error * space.radius**2


# ---- spaces


class Space(ABC):
    """A public map phi from rows to a Hilbert space, which finds minima there.

    Its norm is at most `radius` on every row, because rows are clipped or features are scaled down.

    Attributes
    ----------
    radius : float
        R, a bound on the norm of phi for every row.
    n_features : int or None
        Number of explicit features, as weights of which a function can be released. None where phi
        is known by inner products alone.
    is_whole_ball : bool
        Whether phi takes all values of norm up to `radius`.
    max_rows : int
        No problem has more rows.
    kernel_error : float
        How far the inner products that `solve` works with may be from exact ones, in units of R^2.
    entry_error : float
        The same for entries of `gram`. They may differ by as much from one call to another.
    """

    radius: float
    n_features: int | None = None
    is_whole_ball: bool = False
    max_rows: int
    kernel_error: float
    entry_error: float

    @abstractmethod
    def gram(self, X: NDArray, Y: NDArray) -> Floats:
        """Return the inner products of phi(X) and phi(Y), shape (n, m)."""

    @abstractmethod
    def prepare(self, X: NDArray, terms: Terms) -> Any:
        """Return what `solve` asks of rows.

        Raises
        ------
        ValueError
            If a function of the user's fails on a row.
        """

    @abstractmethod
    def solve(
        self,
        data: Any,
        codes: Floats,
        terms: Terms,
        tolerance: float,
        linear: Floats | None,
        shares: Floats | None,
    ) -> Floats:
        """Return the coefficients of a function within the tolerance of the minimiser.

        Parameters
        ----------
        data : object
            From `prepare`.
        codes : ndarray of shape (n, q)
        terms : Terms
        tolerance : float
        linear : ndarray of shape (p, q) or None
            Of a term <linear, w> that is added, for explicit features only.
        shares : ndarray of shape (n, 1) or None
            What losses are multiplied by.
        """

    def smallest_tolerance(self, terms: Terms, n_rows: int, tilt: float = 0.0) -> float:
        """Return a tolerance that the solver is sure to keep for any table of that many rows.

        Parameters
        ----------
        terms : Terms
        n_rows : int
        tilt : float, default=0.0
            The norm of the linear term, at most.
        """
        # Norms of features are at most this many radii, rounding included.
        return self._sure_tolerance(replace(terms, radius=1.001 * terms.radius), n_rows, tilt)

    @abstractmethod
    def _sure_tolerance(self, terms: Terms, n_rows: int, tilt: float) -> float:
        """Return what `solve` is sure to keep for so many rows of norm `Terms.radius`."""

    def factors(self, X: NDArray, points: Any) -> Any:
        """Return what coefficients are multiplied by, a row for each row of X.

        Parameters
        ----------
        X : ndarray of shape (n, n_columns)
        points : ndarray of shape (m, n_columns), or None
            Of the expansion; None for weights of features, which a `FeatureSpace` has.
        """
        return self.gram(X, points)


# ---- the problem


@dataclass(frozen=True)
class Minimizer:
    """A function of the space, as weights of features or as an expansion in rows.

    Attributes
    ----------
    space : Space
    coefficients : ndarray of shape (p, q) or (n, q)
    points : ndarray of shape (n, n_columns), or None
        The rows of the expansion; None where the coefficients are weights of features.
    """

    space: Space
    coefficients: Floats
    points: NDArray | None = None

    @classmethod
    def zero(cls, space: Space, n_scores: int) -> Minimizer:
        """Return the function that is zero everywhere."""
        return cls(space, np.zeros((0, n_scores)), np.zeros((0, 0)))

    @property
    def is_zero(self) -> bool:
        """Whether this is `zero`."""
        return len(self.coefficients) == 0

    def scores(self, X: NDArray) -> Floats:
        """Return the q scores of each row of X."""
        if self.is_zero:
            return np.zeros((len(X), self.coefficients.shape[1]))
        return self._in_batches(X, lambda factors: factors @ self.coefficients)

    def careful_scores(self, X: NDArray) -> Floats:
        """Return the scores within `score_rounding` of the exact ones, for noise to be added."""
        return self._in_batches(X, lambda f: careful_product(dense_factors(f), self.coefficients))

    def _in_batches(self, X: NDArray, product: Callable[[Any], Floats]) -> Floats:
        """Return a product of the factors of all rows, of which few are in memory at a time."""
        parts = [
            product(self.space.factors(X[rows], self.points)) for rows in gen_batches(len(X), 512)
        ]
        return np.concatenate([np.zeros((0, self.coefficients.shape[1])), *parts])


def dense_factors(factors: Any) -> Floats:
    """Return factors that may be `SparseRows` as an array."""
    return factors.toarray() if isinstance(factors, SparseRows) else factors


def equal_shares(sizes: NDArray[np.int64]) -> Floats:
    """Return 1 / m for rows of groups of m rows, rounded so that a group's sum is 1 at most.

    Parameters
    ----------
    sizes : ndarray of int, shape (n,)
        Of the group of each row.

    Returns
    -------
    ndarray of shape (n, 1)
        Ones, and numbers up to 1/2.
    """
    parts, exact = 1.0 / sizes, np.frexp(sizes)[0] == 0.5  # those of powers of two
    return np.where(exact, parts, np.nextafter(parts, 0.0))[:, None]


@dataclass(frozen=True)
class Problem:
    """sum_i c_i loss(<w, phi(x_i)>, code_i) + (Lambda / 2) ||w||^2, on private rows.

    Attributes
    ----------
    space : Space
    X : ndarray or SparseRows of shape (n, n_columns)
    codes : ndarray of shape (n, q)
    terms : Terms
    shares : ndarray of shape (n, 1) or None, default=None
        c: how much each row counts, from `equal_shares`. None is 1.
    units : ndarray of shape (n,) or None, default=None
        The number of the group of each row, where groups are protected.
    """

    space: Space
    X: Any
    codes: Floats
    terms: Terms
    shares: Floats | None = None
    units: NDArray[np.int64] | None = None

    def check(self, *, tilt: float = 0.0, tolerance: float | None = None) -> None:
        """Raise ValueError where the minimiser cannot be found, before anything is charged.

        That is where the solver is not sure to keep the tolerance. It is decided by public numbers
        alone, by those of the largest table that is let in; where nothing is private, by the table
        at hand. And it is where a function of the user's fails on a row, or a matrix finds no room.

        Parameters
        ----------
        tilt : float, default=0.0
            The norm of `linear` that `minimize` will be given, at most.
        tolerance : float, default=None
        """
        terms = self.terms
        n_rows = terms.max_rows if terms.is_private else len(self.X)
        tolerance = terms.tolerance if tolerance is None else tolerance
        check_tolerance(tolerance, self.space.smallest_tolerance(terms, n_rows, tilt))
        self._data  # noqa: B018 (raises where it cannot be made)

    def minimize(
        self, *, linear: Floats | None = None, tolerance: float | None = None
    ) -> Minimizer:
        """Return a function certified to lie within the tolerance of the minimiser.

        Parameters
        ----------
        linear : ndarray of shape (p, q), default=None
            Of a term <linear, w> that is added (feature spaces only).
        tolerance : float, default=None
            In the norm of the space; None is `Terms.tolerance`.
        """
        tolerance = self.terms.tolerance if tolerance is None else tolerance
        found = self.space.solve(self._data, self.codes, self.terms, tolerance, linear, self.shares)
        explicit = self.space.n_features is not None
        return Minimizer(self.space, found, None if explicit else self.X)

    @cached_property
    def _data(self) -> Any:
        """What the space has made of the rows, kept from `check` for `minimize`."""
        return self.space.prepare(self.X, self.terms)


# ---- explicit features: what becomes of rows, and the space that they span


# Columns are clipped to this, which is far beyond any data.
LARGEST_COORDINATE = 1e100
# Relative: how much longer than asked for `clip_rows` may leave a row of less than 2**32 entries.
NORM_ERROR = 40 * UNIT
# Columns of a sparse table, beyond which no matrix of columns times columns is made.
MOST_SOLVED = 4096
_TOO_WIDE = (
    "Set mechanism='gradient', with delta > 0, for TDIL and TDDL learners. Or give fewer columns, "
    "by hashing or by a transformer such as SparseRandomProjection. This mechanism needs a matrix "
    f"of columns times columns, which is too large for a sparse table of more than {MOST_SOLVED}."
)


def fitted_alone(transformer: Any, n_columns: int, seed: int) -> Any:
    """Return a clone that is fitted to a public row of zeros, with this seed where it has none."""
    transformer, zeros = clone(transformer), np.zeros((1, n_columns))
    for name, value in transformer.get_params().items():
        if value is None and (name == "random_state" or name.endswith("__random_state")):
            transformer.set_params(**{name: seed})
    transformer.fit(zeros, None)
    one, again = (dense(transformer.transform(zeros)) for _ in range(2))
    if not np.array_equal(one, again, equal_nan=True):
        raise ValueError(
            "The transformer must be a function of the row alone, without noise of its own or "
            "memory of other rows: it gives a row of zeros different features the second time."
        )
    return transformer


class FeatureSpace(Space):
    """The span of explicit public features; their coefficients can be released as a vector.

    Parameters
    ----------
    transformer : fitted transformer, Interactions or None
        None takes the columns themselves.
    n_columns : int
        Number of columns of the table.
    norm_bound : float
        Features of a row are scaled down to this norm.
    is_sparse : bool, default=False
        Whether rows are `SparseRows`.
    """

    is_wide = False  # too many sparse columns for a matrix of them
    max_rows = MAX_ROWS
    kernel_error = 0.0  # explicit features are exact as they are in memory
    n_features: int

    def __init__(
        self, transformer: Any, n_columns: int, norm_bound: float, *, is_sparse: bool = False
    ):
        self.transformer = transformer
        self.radius = self.norm_bound = norm_bound
        ours = isinstance(transformer, Interactions)
        # A function of the user's, which may fail on a row.
        self.is_users = transformer is not None and not ours
        self.is_whole_ball = transformer is None
        self.n_features = n_columns
        if transformer is not None:
            self.n_features = transformer.transform(np.zeros((1, n_columns))).shape[1]
        # Those that cost time: our products of two columns pay for theirs.
        self.n_costly = n_columns if ours else self.n_features
        self.entry_error = (self.n_features + 4) * UNIT
        self.is_wide = is_sparse and not self.is_users and self.n_features > MOST_SOLVED

    def features(self, X: Any) -> Any:
        """Return phi of each row, shape (n, n_features), clipped.

        That of `SparseRows` is sparse where there is no feature map, and equal to the last bit to
        that of the same rows in an array.
        """
        if isinstance(X, SparseRows):
            X = X.with_values(clipped_columns(X.values))
        else:
            X = clipped_columns(X) + 0.0  # -0.0 is 0.0
        return clip_rows(self._mapped(X), self.norm_bound)

    def _dense_features(self, X: Any) -> Floats:
        return dense_factors(self.features(X))

    def _mapped(self, X: Any) -> Any:
        if not self.is_users:
            values = X if self.transformer is None else self.transformer.transform(X)
            # A NaN of one row would be one of every sum.
            return values if isinstance(values, SparseRows) else zero_where_undefined(values)
        values, taken = map_rows([self.transformer], X, self.n_features)
        if taken.all():
            return zero_where_undefined(values)
        raise ValueError(
            "The transformer fails on a row of the table, and must take any row of finite numbers: "
            "give a schema, which clips them to public ranges, or let it ignore what it does not "
            "know (handle_unknown='ignore'). (Its own message is left out: it may hold a private "
            "value.)"
        )

    def of_weights(self, weights: Floats) -> Minimizer:
        """Return the function that has these weights."""
        return Minimizer(self, weights)

    def gram(self, X, Y):
        products = self.features(X) @ self.features(Y).T
        return products.toarray() if issparse(products) else products

    def factors(self, X, points):
        return self.features(X) if points is None else self.gram(X, points)

    def prepare(self, X, terms):
        if self.is_wide:
            return self.features(X)
        # Sparse rows are made dense block by block, each time anew: kept, they would fill memory.
        is_kept = self.is_users or not isinstance(X, SparseRows)
        rows = FeatureRows(self._dense_features, X, radius=self.radius, is_kept=is_kept)
        if self.is_users:  # which may fail on any row
            for _ in rows.blocks():
                pass
        return rows

    def solve(self, data, codes, terms, tolerance, linear, shares):
        settings = terms.loss, terms.regularization, tolerance
        if self.is_wide:
            return minimise_sparse(data, codes, *settings, shares)
        return solve_primal(data, codes, *settings, linear=linear, shares=shares)

    def _sure_tolerance(self, terms, n_rows, tilt):
        if self.is_wide and terms.is_private:
            raise ValueError(_TOO_WIDE)
        if self.is_wide:  # nothing is claimed, and nothing certified
            return 0.0
        rows = NumbersOfRows(n_rows, self.n_features, terms.radius, rows_of_block(self.n_features))
        return smallest_tolerance(rows, terms.n_scores, terms.loss, terms.regularization, tilt)


def clipped_columns(X: Any) -> Floats:
    """Return numbers far below where squares overflow."""
    return np.clip(np.asarray(X, dtype=np.float64), -LARGEST_COORDINATE, LARGEST_COORDINATE)


def zero_where_undefined(values: Floats) -> Floats:
    """Return values with zero for those that a map or a kernel overflowed on."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


# ---- rows of a bounded length


def clip_rows(X: Any, norm: float) -> Any:
    """Return the rows of X, those that are longer than `norm` scaled down to it.

    The result for a row is the same to the last bit whatever rows are beside it, and in whatever
    form. Rows 1e154 times longer become zeros.

    Parameters
    ----------
    X : ndarray of shape (n, p), or SparseRows
    norm : float

    Returns
    -------
    ndarray or SparseRows, as X
    """
    unit = power_below(norm)
    is_sparse = isinstance(X, SparseRows)
    in_units = X.with_values(X.values / unit) if is_sparse else X / unit
    scale = norm / (unit * np.maximum(row_lengths(in_units), norm / unit))
    return X if (scale == 1).all() else scaled_rows(X, scale)


def scaled_rows(X: Any, scale: Floats) -> Any:
    """Return each row times a number of its own."""
    if isinstance(X, SparseRows):
        return X.with_values(X.values * scale[X.row_numbers])
    return X * scale[:, None]


def row_lengths(X: Any) -> Floats:
    """Return the norms of rows; the last half of the squares is added to the first, and so on."""
    with np.errstate(over="ignore", under="ignore"):
        if isinstance(X, SparseRows):
            return _sparse_lengths(X)
        squares = np.square(X)
        while (width := squares.shape[1]) > 1:
            half = (width + 1) // 2
            squares[:, : width - half] += squares[:, half:]
            squares = squares[:, :half]
    return np.sqrt(squares[:, 0])


def _sparse_lengths(X: SparseRows) -> Floats:
    """Return what `row_lengths` does of the same rows in an array: to add zero changes nothing."""
    squares = csr_array(X.with_values(np.square(X.values)))
    while (width := squares.shape[1]) > 1:
        half = (width + 1) // 2
        moved = squares[:, half:]
        moved.resize(len(X), half)
        squares = squares[:, :half] + moved
    return np.sqrt(squares.toarray()[:, 0])
