"""The minimum for sparse rows of so many columns that no matrix of them has room.

It is for fits without noise: nothing is claimed of it, so nothing is certified.
"""

from __future__ import annotations

import numpy as np

from ..._linear_systems import UNIT, conjugate_gradients
from ...schema._sparse import SparseRows
from ._losses import Floats, Loss
from ._newton import Objective, Point, minimise, narrow_start


def minimise_sparse(
    rows: SparseRows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    radius: float,
    shares: Floats | None = None,
) -> Floats:
    """Return about the minimum of ``sum_i c_i loss(W^T phi_i, code_i) + Lambda/2 ||W||^2``.

    Parameters
    ----------
    rows : SparseRows of shape (n, p)
        phi, of rows that are no longer than the radius.
    codes : ndarray of shape (n, q)
    loss : Loss
    regularization : float
        Lambda.
    tolerance : float
        The distance from the minimum that is aimed at.
    radius : float
    shares : ndarray of shape (n, 1), default=None
        c; None is ones.

    Returns
    -------
    ndarray of shape (p, q)
    """

    def objective_of(smooth: Loss) -> _SparsePrimal:
        return _SparsePrimal(rows, codes, smooth, regularization, radius, shares)

    def near(point: Point) -> bool:
        return point.norm <= regularization * tolerance

    start = narrow_start(objective_of, loss, np.zeros((rows.shape[1], codes.shape[1])))
    return minimise(objective_of(loss), start, near).x


class _SparsePrimal(Objective):
    """A vector is the weights W. Newton's directions are found by products with the rows."""

    def __init__(self, rows, codes, loss, regularization, radius, shares):
        squares = len(rows) * radius**2
        super().__init__(codes, loss, regularization, radius, squares, shares=shares)
        self.rows = rows
        self._columns = rows.T.tocsr()

    def inner(self, x, y):
        return float(np.vdot(x, y))

    def at(self, x):
        return Point(self, x, self.rows @ x)

    def gradient(self, point):
        return self.regularization * point.x + self._columns @ self.slopes(point.scores)

    def direction(self, point, accuracy):
        roots = self.roots(point.scores)
        curvature = np.einsum("nqr,nqr->nq", roots, roots)
        diagonal = self.regularization + self._columns.power(2) @ curvature

        def times(W: Floats) -> Floats:
            inner = np.einsum("nqr,nq->nr", roots, self.rows @ W)
            return self.regularization * W + self._columns @ np.einsum("nqr,nr->nq", roots, inner)

        def precondition(W: Floats) -> tuple[Floats, float]:
            return W / diagonal, float(np.linalg.norm(W))

        right = -point.gradient
        return conjugate_gradients(times, precondition, right, accuracy * point.norm)[0]

    def rounding(self, point):
        # This is how far sums of many terms usually are off: it says when slopes are noise.
        slopes = self.loss.lipschitz * np.sqrt(self.squares)
        size = self.regularization * float(np.linalg.norm(point.x))
        return 0.0, UNIT * float(slopes + size)

    def zero(self):
        return np.zeros((self.rows.shape[1], self.codes.shape[1]))

    def vector(self, coefficients):
        return coefficients

    def careful_gradient(self, high, low):
        raise NotImplementedError("nothing is certified without noise")
