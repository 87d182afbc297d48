"""Products with bounded errors, those of indicators, and linear systems solved in any case."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.sparse import csr_array

from ._computing import UNIT, Codes, Floats, advance

_MOST_CG_PRODUCTS = 1000
_ROWS_OF_GRAM_BLOCK = 2048


# ---- products


def careful_product(matrix: Floats, x: Floats) -> Floats:
    """Return ``matrix @ x`` with errors within `product_error`.

    Both are split into a multiple of a power of two, few enough digits long that its products
    and their sums are exact in any order, and a rest (Ozaki et al. 2012).

    Parameters
    ----------
    matrix : ndarray of shape (k, m)
    x : ndarray of shape (m, q)

    Returns
    -------
    ndarray of shape (k, q)
    """
    digits = _digits(matrix.shape[1])
    coarse, coarse_x = _round(matrix, digits), _round(x, digits)
    exact, rest = coarse @ coarse_x, coarse @ (x - coarse_x)
    # What passes over a large matrix is its memory: the rest takes the place of the coarse part.
    rest += np.subtract(matrix, coarse, out=coarse) @ x
    return exact + rest


def product_error(n_terms: int, largest: float, largest_x: float) -> float:
    """Return a bound on the error of an entry of `careful_product`, less `UNIT` times that entry.

    Parameters
    ----------
    n_terms : int
        m.
    largest, largest_x : float
        The largest size of an entry of either factor.
    """
    units = 4 * n_terms * (n_terms + 2) * 2.0 ** -_digits(n_terms)
    return units * UNIT * largest * largest_x


def _digits(n_terms: int) -> int:
    return (53 - math.ceil(math.log2(n_terms))) // 2  # float64 has 53 of them


def _round(values: Floats, digits: int) -> Floats:
    """Return multiples of a power of two that have that many binary digits."""
    largest = float(max(values.max(), -values.min()))
    grid = math.ldexp(1.0, math.frexp(largest)[1] - digits)
    if not grid:
        return np.zeros(values.shape)
    out = values / grid
    np.rint(out, out=out)
    out *= grid
    return out


def weighted_gram(factor: Floats, weights: Floats) -> Floats:
    """Return sum_i weights_i G_i G_i^T, of any signs, by symmetric products: half the time."""
    out = np.zeros((factor.shape[1], factor.shape[1]))
    for sign in (1, -1):
        rows = np.flatnonzero(sign * weights > 0)
        for first in range(0, len(rows), _ROWS_OF_GRAM_BLOCK):
            some = rows[first : first + _ROWS_OF_GRAM_BLOCK]
            block = factor[some] * np.sqrt(np.abs(weights[some]))[:, None]
            out += sign * (block.T @ block)
    return out


# ---- systems


def conjugate_gradients(
    times: Callable[[Floats], Floats],
    precondition: Callable[[Floats], tuple[Floats, float]],
    right: Floats,
    accuracy: float,
    *,
    moved: Callable[[float], None] | None = None,
) -> Floats:
    """Solve ``times(x) = right`` until the size of the residual is at most `accuracy`.

    Parameters
    ----------
    times : callable
        Multiplies by a positive definite matrix.
    precondition : callable
        Returns about the inverse of that matrix times a residual, and the size of the residual.
    right : ndarray
    accuracy : float
    moved : callable, default=None
        Told how many times the last argument of `times` was added to x.

    Returns
    -------
    ndarray
        The solution as far as rounding and 1,000 products lead.
    """
    x, residual = np.zeros_like(right), right
    z, size = precondition(residual)
    step, product = z, np.vdot(residual, z)
    for _ in range(_MOST_CG_PRODUCTS):
        if not (size > accuracy and product > 0):
            break
        image = times(step)
        advance()
        curvature = np.vdot(step, image)
        # What is left of a solved system may be rounding errors alone, in any direction.
        if not curvature > 0:
            break
        length = product / curvature
        x = x + length * step
        if moved is not None:
            moved(float(length))
        residual = residual - length * image
        z, size = precondition(residual)
        previous, product = product, np.vdot(residual, z)
        step = z + product / previous * step
    return x


def positive_cholesky(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor of a positive definite matrix, overwritten here.

    If rounding has left it indefinite, its diagonal is raised until it is not.

    Parameters
    ----------
    matrix : ndarray of shape (k, k)

    Raises
    ------
    LinAlgError
        For a matrix that is not positive definite by far.
    """
    diagonal = np.diag(matrix).copy()
    raised = 0.0
    while True:
        try:
            return np.linalg.cholesky(matrix)  # type: ignore[return-value]
        except np.linalg.LinAlgError:
            if not raised < 0.1:
                raise
            raised = max(1e-14, 100 * raised)
            np.fill_diagonal(matrix, diagonal + raised * np.abs(diagonal).max())


def positive_solver(matrix: Floats) -> Callable[[Floats], Floats]:
    """Return what multiplies by the inverse of a positive definite matrix, overwritten here."""
    factor = positive_cholesky(matrix)
    return partial(cho_solve, (factor, True), check_finite=False)


def solve_curved(gram: Floats, roots: Floats, right: Floats, regularization: float) -> Floats:
    """Solve ``(Lambda I + B^T K B) z = right`` by a Cholesky factorisation.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        K.
    roots : ndarray of shape (k, q, r)
        The diagonal blocks of B.
    right : ndarray of shape (k, r)
    regularization : float
        Lambda.

    Returns
    -------
    ndarray of shape (k, r)
    """
    if right.size == 0:
        return right
    rank = roots.shape[2]
    flat = roots.transpose(0, 2, 1).reshape(right.size, -1)
    system = flat @ flat.T
    system *= gram if rank == 1 else np.repeat(np.repeat(gram, rank, axis=0), rank, axis=1)
    system[np.diag_indices(len(system))] += regularization
    return positive_solver(system)(right.ravel()).reshape(right.shape)


# ---- sums over the rows of many tables


class Design:
    """What is known of each row in some tables: indicators, alike in all of them, and numbers.

    Few of the indicators hold for a row: a sum over rows takes as many terms of each, where a
    product of dense matrices takes all of them, each in a sixteenth of the time. So columns are
    dense, indicators too, where there are less than four times as many as such terms.

    Parameters
    ----------
    held : ndarray of int, shape (m, n)
        The places of the indicators that hold for each row, -1 for none.
    places : sequence of int
        Those of the numbers.
    size : int
        How many indicators and numbers there are.
    """

    def __init__(self, held: Codes, places: Sequence[int], size: int):
        self.size, self.n_rows = size, held.shape[1]
        self._held, self._places = held % (size + 1), list(places)  # none has the last place
        self._indicators = _sparse(self._held, size + 1)
        self._numbers = np.empty((1, 0, self.n_rows))
        self._is_dense = size <= 4 * (len(held) + len(places))
        # So few tables at once that they stay in the processor's cache.
        n_numbers = 4 * size if self._is_dense else 1 + len(places)
        self.n_at_once = max(2**20 // max(self.n_rows * n_numbers, size**2), 1)

    def with_numbers(self, numbers: Sequence[Floats]) -> Design:
        """Return the same with each number of the rows, (n_tables or 1, n)."""
        found = copy.copy(self)
        if numbers:
            found._numbers = np.stack(np.broadcast_arrays(*numbers), axis=1)
        if self._is_dense:
            own, found._places = found._numbers, list(range(self.size))
            found._numbers = np.empty((len(own), self.size, self.n_rows))
            found._numbers[:] = self._indicators.toarray().T[:-1]
            found._numbers[:, self._places] = own
        return found

    def part(self, tables: NDArray) -> Design:
        """Return the same of some of the tables."""
        found = copy.copy(self)
        found._numbers = of_tables(self._numbers, tables)
        return found

    def at(self, slopes: Floats) -> Floats:
        """Return sums over all columns times slopes, (n_tables, size): of shape (n_tables, n)."""
        found = (slopes[:, None, self._places] @ self._numbers)[:, 0]
        if not self._is_dense:
            found += (self._indicators @ np.pad(slopes, ((0, 0), (0, 1))).T).T
        return found

    def sums(self, weights: Floats) -> Floats:
        """Return sums over rows that have weights, (n_tables, n), of shape (n_tables, size)."""
        found = np.zeros((len(weights), self.size))
        if not self._is_dense:
            found[:] = (self._indicators.T @ weights.T).T[:, :-1]
        found[:, self._places] = (self._numbers @ weights[..., None])[..., 0]
        return found

    def squares(self, weights: Floats) -> Floats:
        """Return such sums of products of two columns, of shape (n_tables, size, size)."""
        width, n_tables, at = self.size + 1, len(weights), self._places
        pairs, weighted = np.zeros((width**2, n_tables)), self._numbers * weights[:, None]
        for own in () if self._is_dense else self._held:
            pairs += _sparse(own * width + self._held, width**2).T @ weights.T
        found = pairs.T.reshape(n_tables, width, width)
        if not self._is_dense:
            beside = (self._indicators.T @ weighted.reshape(-1, self.n_rows).T).T
            found[:, at] = beside.reshape(n_tables, -1, width)
            found[:, :, at] = found[:, at].swapaxes(1, 2)
        found[:, np.array(at, int)[:, None], at] = weighted @ self._numbers.swapaxes(1, 2)
        return found[:, :-1, :-1]


def _sparse(places: Codes, width: int) -> csr_array:
    """Return a matrix with a 1 at some places of each row."""
    m, n = places.shape
    return csr_array((np.ones(m * n), places.T.ravel(), np.arange(n + 1) * m), (n, width))


def of_tables(own: NDArray, some: slice | NDArray) -> NDArray:
    """Return what some tables have, or what is alike in all of them."""
    return own if len(own) == 1 else own[some]
