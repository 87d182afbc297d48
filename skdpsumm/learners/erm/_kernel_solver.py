"""Kernel ERM by one coefficient a row, for a kernel of which only the Gram matrix is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.utils import gen_batches

from ..._computing import UNIT, Floats, advance, one_blas_thread
from ..._linear_systems import (
    careful_product,
    conjugate_gradients,
    positive_cholesky,
    positive_solver,
    product_error,
    solve_curved,
    weighted_gram,
)
from ._losses import Loss
from ._newton import (
    LARGEST_COEFFICIENT,
    LARGEST_NORM,
    Objective,
    Point,
    argument_error,
    certified_minimum,
    check_tolerance,
    distance_bound,
    largest_norm,
    minimise,
    narrow_start,
    smallest_distance,
)

_ALWAYS_EXACT = 1000
# Multiplications of a Cholesky factorisation in the time that reading one entry takes.
_PER_ENTRY = 10
# Rows of a strip, and columns of its tiles: one of these stays in the cache of a core, and rows are
# long enough that a call a row costs little.
STRIP_ROWS, TILE_COLUMNS = 128, 1024


def solve_dual(
    gram: HalfMatrix | Floats,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    shares: Floats | None = None,
) -> Floats:
    """Minimise ``sum_i c_i loss(f_i, code_i) + Lambda / 2 ||W||^2`` for f = K A, certified.

    Parameters
    ----------
    gram : HalfMatrix, or ndarray of shape (n, n), float64
        K, positive semi-definite and symmetric up to rounding.
    codes : ndarray of shape (n, q), float64
        Those of `Huber` are from -1 to 1.
    loss : Loss
    regularization : float
        Lambda, positive.
    tolerance : float
        Largest distance ||W - W*|| in the norm of the RKHS. At least `smallest_tolerance`.
    shares : ndarray of shape (n, 1), default=None
        c: ones, and numbers up to 1/2 (`_newton`). None is ones.

    Returns
    -------
    ndarray of shape (n, q)
        A, of W = sum_i phi_i (x) A_i.
    """
    products = _Gram(gram, codes.shape[1])
    size = codes.shape, math.sqrt(products.largest)
    check_tolerance(tolerance, smallest_tolerance(*size, loss, regularization))
    products.is_plain = _plain_is_enough(products, loss, regularization, tolerance)

    def objective_of(smooth: Loss) -> _Dual:
        return _Dual(products, codes, smooth, regularization, shares=shares)

    # Products wait for memory: threads of BLAS would burn time, and gain little.
    with one_blas_thread():
        start = products.vector(np.zeros(codes.shape))
        point = certified_minimum(objective_of, loss, start, tolerance)
    if distance_bound(point) > tolerance:
        # The last resort is near the minimum by proof, its slopes need not be.
        return point.x[0]
    # Slopes are no farther from the minimum (see `_problem`), and bounded, each by its row's L.
    return -point.objective.slopes(point.scores) / regularization


def _plain_is_enough(gram: _Gram, loss: Loss, regularization: float, tolerance: float) -> bool:
    """Return whether errors of ordinary products leave nearly all of the tolerance.

    Near the minimum coefficients are slopes. Elsewhere they may be longer, which a certificate
    looks at, and so this decides about time alone.
    """
    error = plain_error(gram.n, gram.largest, gram.n * loss.lipschitz / regularization)
    # Errors of ordinary products may take a twentieth of the tolerance.
    return math.sqrt(gram.n * loss.smoothness / regularization) * error <= 0.05 * tolerance


def solve_shifted(
    gram: Floats,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    shift: Floats,
    shares: Floats | None = None,
) -> Floats:
    """Solve with scores f = K A + shift, as near as Newton's method leads; no certificate."""
    products = _Gram(gram, codes.shape[1])

    def objective_of(smooth: Loss) -> _Dual:
        return _Dual(products, codes, smooth, regularization, shift, shares)

    start = narrow_start(objective_of, loss, products.vector(np.zeros(codes.shape)))
    return minimise(objective_of(loss), start, lambda p: distance_bound(p) <= tolerance).x[0]


def smallest_tolerance(
    shape: tuple[int, int], radius: float, loss: Loss, regularization: float
) -> float:
    """Return what is sure to be certified for any n rows of norm `radius`, with q scores.

    Parameters
    ----------
    shape : (int, int)
        n and q.
    radius : float
    loss : Loss
    regularization : float
    """
    n = shape[0]
    norm = LARGEST_NORM * largest_norm(loss, regularization, radius, shape)
    coefficient = LARGEST_COEFFICIENT * loss.lipschitz / regularization
    score_error = _score_error(shape, radius**2, radius * norm, coefficient)
    score_error += argument_error(loss, radius * norm)
    # A slope, and its sum with Lambda times a coefficient, err by up to 40 units, relative to L.
    gradient_error = 40 * UNIT * loss.lipschitz * n * radius
    return smallest_distance(loss, regularization, n * radius**2, n, score_error, gradient_error)


def _score_error(
    shape: tuple[int, ...], largest: float, largest_score: float, largest_coefficient: float
) -> float:
    entry = product_error(shape[0], largest, largest_coefficient)
    return UNIT * largest_score + math.sqrt(shape[1]) * entry


def _total(A: Floats) -> float:
    """Return the sum of the norms of rows."""
    return float(np.linalg.norm(A, axis=1).sum())


class _Gram:
    """Products with K, and what is known of it."""

    # This tells whether errors of ordinary products are small enough for a certificate.
    is_plain = False

    def __init__(self, matrix: HalfMatrix | Floats, n_scores: int):
        self.n_scores = n_scores
        self.matrix = matrix if isinstance(matrix, HalfMatrix) else HalfMatrix.of(matrix)
        self.n = self.matrix.n
        diagonal = self.matrix.diagonal()
        self.trace = float(diagonal.sum())
        self.largest = float(diagonal.max())

    def vector(self, A: Floats) -> Floats:
        """Return A and K A."""
        return np.stack([A, self.times(A)])

    def times(self, A: Floats) -> Floats:
        """Return K A, from few of the rows of K where most of A is zero."""
        rows = np.flatnonzero(A.any(axis=1))
        # Where most rows of a factor are zero, a product takes the others alone.
        if len(rows) > self.n / 16:
            return self.matrix.times(A)
        return self.matrix.rows(rows).T @ A[rows]

    def sure_times(self, A: Floats) -> Floats:
        """Return K A, with errors within `sure_error`."""
        return self.matrix.times(A) if self.is_plain else self.matrix.careful_times(A)

    def sure_error(self, A: Floats, largest_score: float) -> float:
        """Return a bound on the error of a row of `sure_times`, given the largest norm of one."""
        if self.is_plain:
            return plain_error(self.n, self.largest, _total(A))
        return _score_error(A.shape, self.largest, largest_score, float(np.abs(A).max()))

    @cached_property
    def factor(self) -> tuple[Floats, float]:
        """A low-rank factor, and about the norm of what it leaves out."""
        rank = min(self.n, math.ceil(4 * math.sqrt(self.n / self.n_scores)))
        factor, left = cholesky_factor(self.matrix, rank)
        return factor, 4 * left / rank


class _Dual(Objective):
    """A vector is the pair of A and K A, so that no product with K is repeated."""

    def __init__(self, gram, codes, loss, regularization, shift=0.0, shares=None):
        radius, squares = math.sqrt(gram.largest), gram.trace
        super().__init__(codes, loss, regularization, radius, squares, shares=shares)
        self.gram = gram
        self.shift = shift

    def zero(self):
        return np.zeros(self.codes.shape)

    def vector(self, coefficients):
        return self.gram.vector(coefficients)

    def careful_gradient(self, high, low):
        scores = self.gram.matrix.careful_times(high) + self.gram.times(low)
        return self.slopes(scores) + self.regularization * high

    def inner(self, x, y):
        return float(np.vdot(x[0], y[1]))

    def at(self, x):
        return Point(self, x, x[1] + self.shift)

    def careful(self, point):
        A = point.x[0]
        return self.at(np.stack([A, self.gram.sure_times(A)]))

    def gradient(self, point):
        return self.gram.vector(self.slopes(point.scores) + self.regularization * point.x[0])

    def rounding(self, point):
        largest = float(np.linalg.norm(point.x[1], axis=1).max())
        score_error = self.gram.sure_error(point.x[0], largest)
        score_error += argument_error(self.loss, largest)
        # K V is an ordinary product: its entries are off by n units of K's largest times |V|.
        product = math.sqrt(2 * len(self.codes) * UNIT * self.gram.largest)
        return score_error, product * _total(point.gradient[0])

    def direction(self, point, accuracy):
        """Solve for the multipliers z of the roots B of the Hessian of the loss.

        With a residual V = loss' + Lambda A, Newton's direction is -V / Lambda + B z where
        (Lambda I + B^T K B) z = B^T K V / Lambda.
        """
        roots = self.roots(point.scores)
        right = np.einsum("nqr,nq->nr", roots, point.gradient[1]) / self.regularization
        curved = np.flatnonzero(roots.any(axis=(1, 2)))
        if self._exact_is_faster(len(curved) * roots.shape[2]):
            lifted = self._by_factor(roots, right, curved)
        else:
            lifted = self._by_products(roots, right, accuracy * point.norm)
        return lifted - point.gradient / self.regularization

    def _exact_is_faster(self, size: int) -> bool:
        if size <= _ALWAYS_EXACT:
            return True
        condition = 1 + self.loss.smoothness * self.gram.factor[1] / self.regularization
        entries = 2 * math.sqrt(condition) * len(self.codes) ** 2
        return size**3 / 3 <= _PER_ENTRY * entries

    def _by_factor(self, roots: Floats, right: Floats, curved: NDArray[np.intp]) -> Floats:
        """Return the vector of B z."""
        z = np.zeros(right.shape)
        corner = self.gram.matrix.corner(curved)
        z[curved] = solve_curved(corner, roots[curved], right[curved], self.regularization)
        return self.gram.vector(_lifted(roots, z))

    def _by_products(self, roots: Floats, right: Floats, accuracy: float) -> Floats:
        """Return the vector of B z, which is the sum of those that products were made of."""
        latest = total = np.zeros((2, *self.codes.shape))

        def times(z: Floats) -> Floats:
            nonlocal latest
            latest = self.gram.vector(_lifted(roots, z))
            return self.regularization * z + np.einsum("nqr,nq->nr", roots, latest[1])

        def moved(length: float) -> None:
            nonlocal total
            total = total + length * latest

        factor, tail = self.gram.factor
        precondition = low_rank_inverse(factor, roots, self.regularization, tail)
        conjugate_gradients(times, precondition, right, accuracy, moved=moved)
        return total


def _lifted(roots: Floats, z: Floats) -> Floats:
    """Return B z."""
    return np.einsum("nqr,nr->nq", roots, z)


# ---- a low-rank factor of the Gram matrix, and the preconditioner that it makes


def cholesky_factor(gram: HalfMatrix, rank: int) -> tuple[Floats, float]:
    """Return G of shape (n, at most rank) with gram ~ G G^T, and the trace of what remains.

    Randomly pivoted Cholesky (Chen et al. 2022), blocks of pivots at once, drawn in proportion to
    the diagonal that remains. Rows drawn uniformly miss small clusters.
    """
    n = gram.n
    rng = np.random.RandomState(0)
    left = gram.diagonal()
    # Rounding errors of a residual stay well below this.
    smallest = 1e-10 * left.max()
    factor = np.empty((rank, n))
    done = 0
    while done < rank and left.max() > 100 * smallest:
        size = min(50, rank - done)
        pivots = np.unique(rng.choice(n, size, p=left / left.sum()))
        rows = gram.rows(pivots) - factor[:done, pivots].T @ factor[:done]
        corner = rows[:, pivots] + smallest * np.eye(len(pivots))
        new = slice(done, done + len(pivots))
        factor[new] = solve_triangular(positive_cholesky(corner), rows, lower=True)
        left = np.maximum(left - np.einsum("kn,kn->n", factor[new], factor[new]), 0.0)
        left[pivots] = 0.0
        done = new.stop
        advance()
    return np.ascontiguousarray(factor[:done].T), float(left.sum())


def low_rank_inverse(
    factor: Floats, roots: Floats, regularization: float, tail: float
) -> Callable[[Floats], tuple[Floats, float]]:
    """Return what multiplies by (Lambda I + B^T G G^T B)^-1, and measures its argument.

    Parameters
    ----------
    factor : ndarray of shape (n, m)
        G.
    roots : ndarray of shape (n, q, r)
        The diagonal blocks of B.
    regularization : float
        Lambda.
    tail : float
        About the norm of K - G G^T.

    Returns
    -------
    callable
        From z of shape (n, r) to the product, of that shape, and to about the norm of B z in K.
    """
    q, m = roots.shape[1], factor.shape[1]
    blocks = np.empty((q, m, q, m))
    for a in range(q):
        for b in range(a + 1):
            weights = np.einsum("nr,nr->n", roots[:, a], roots[:, b])
            blocks[a, :, b] = weighted_gram(factor, weights)
            blocks[b, :, a] = blocks[a, :, b]
    inner = blocks.reshape(q * m, q * m)
    inner[np.diag_indices(q * m)] += regularization
    solve = positive_solver(inner)

    def apply(z: Floats) -> tuple[Floats, float]:
        lifted = _lifted(roots, z)
        coarse = factor.T @ lifted
        size = np.sqrt(np.vdot(coarse, coarse) + tail * np.vdot(lifted, lifted))
        solved = solve(coarse.T.ravel()).reshape(q, m).T
        return (z - np.einsum("nqr,nq->nr", roots, factor @ solved)) / regularization, size

    return apply


# ---- symmetric matrices of which half is kept: half of the memory, and of the time to fill it


class HalfMatrix:
    """A symmetric matrix, kept as strips of rows up to the last diagonal entry of each.

    Parameters
    ----------
    strips : list of ndarray of shape (at most STRIP_ROWS, n_columns)
        Those of `strips_of`, in order; the square at the end of each is symmetric.
    """

    def __init__(self, strips: list[Floats]):
        self.strips = strips
        self.n = strips[-1].shape[1]

    @classmethod
    def of(cls, matrix: Floats) -> HalfMatrix:
        """Return the lower half of an array of shape (n, n), without a copy."""
        return cls([matrix[here, : here.stop] for here in strips_of(len(matrix))])

    def _placed(self) -> Iterator[tuple[slice, Floats]]:
        return zip(strips_of(self.n), self.strips, strict=True)

    def diagonal(self) -> Floats:
        """Return the diagonal, shape (n,)."""
        return np.concatenate([np.diag(strip[:, here]) for here, strip in self._placed()])

    def raise_diagonal(self, amount: float) -> None:
        """Add a number to the diagonal."""
        for here, strip in self._placed():
            strip[:, here][np.diag_indices(len(strip))] += amount

    def rows(self, some: NDArray[np.intp]) -> Floats:
        """Return rows of the whole matrix, which are given in ascending order, shape (k, n)."""
        out = np.empty((len(some), self.n))
        for here, strip in self._placed():
            first, last = np.searchsorted(some, (here.start, here.stop))
            out[first:last, : here.stop] = strip[some[first:last] - here.start]
            out[:first, here] = strip[:, some[:first]].T
        return out

    def corner(self, some: NDArray[np.intp]) -> Floats:
        """Return the matrix of these rows and columns, in ascending order, shape (k, k)."""
        out = np.empty((len(some), len(some)))
        for here, strip in self._placed():
            first, last = np.searchsorted(some, (here.start, here.stop))
            block = strip[np.ix_(some[first:last] - here.start, some[:last])]
            out[first:last, :last] = block
            out[:first, first:last] = block[:, :first].T
        return out

    def times(self, A: Floats) -> Floats:
        """Return the product with A, of shape (n, q), with errors within `plain_error`.

        A tile is read from memory once, for its two places in the matrix.
        """
        out = np.zeros(A.shape)
        for here, strip in self._placed():
            for there in tiles_before(here):
                tile = strip[:, there]
                out[here] += tile @ A[there]
                out[there] += tile.T @ A[here]
            out[here] += strip[:, here] @ A[here]
        return out

    def careful_times(self, A: Floats) -> Floats:
        """Return the product with A, of shape (n, q), with errors within `product_error`."""
        parts = []
        for here in strips_of(self.n):
            rows = self.rows(np.arange(here.start, here.stop))
            for some in gen_batches(len(rows), 32):
                parts.append(careful_product(rows[some], A))
                advance()
        return np.concatenate(parts)


def strips_of(n: int) -> list[slice]:
    """Return the rows of each strip."""
    return _slices(n, STRIP_ROWS)


def tiles_before(rows: slice) -> list[slice]:
    """Return the columns of the tiles of a strip, less the square at its end."""
    return _slices(rows.start, TILE_COLUMNS)


def _slices(n: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def plain_error(n: int, largest: float, total: float) -> float:
    """Return a bound on the errors of a row of `HalfMatrix.times`, as a vector of q numbers.

    Parameters
    ----------
    n : int
    largest : float
        The largest size of an entry of the matrix.
    total : float
        The sum over the rows of A of their norms.

    Notes
    -----
    A term takes part in one product, in the sum of a tile, in any order, and then in one sum for
    each tile of its row. Each leaves a unit of it at most (Higham 2002, section 3.1).
    """
    tiles = n // TILE_COLUMNS + n // STRIP_ROWS + 3
    return 1.01 * (min(n, TILE_COLUMNS) + tiles) * UNIT * largest * total
