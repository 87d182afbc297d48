"""The minimum for sparse rows of so many columns that no matrix of them has room.

It serves fits without noise. Nothing is claimed of them, so nothing is certified.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from ..._computing import advance, warn_caller
from ...schema._sparse import SparseRows
from ._losses import Floats, Loss

# Steps of L-BFGS at most, and the pairs of vectors by which it knows the curvature.
_MOST_STEPS, _PAIRS_KEPT = 2000, 20


def minimise_sparse(
    rows: SparseRows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    shares: Floats | None = None,
) -> Floats:
    """Return about the minimum of ``sum_i c_i loss(W^T phi_i, code_i) + Lambda/2 ||W||^2``.

    Parameters
    ----------
    rows : SparseRows of shape (n, p)
        phi.
    codes : ndarray of shape (n, q)
    loss : Loss
    regularization : float
        Lambda.
    tolerance : float
        The distance from the minimum that is aimed at: the norm of the gradient, over Lambda.
    shares : ndarray of shape (n, 1), default=None
        c, of each row. None stands for ones.

    Returns
    -------
    ndarray of shape (p, q)
    """
    columns, shape = rows.T.tocsr(), (rows.shape[1], codes.shape[1])
    weights = np.ones((len(rows), 1)) if shares is None else shares

    def objective(flat: Floats) -> tuple[float, Floats]:
        W = flat.reshape(shape)
        scores = rows @ W
        value = weights[:, 0] @ loss.value(scores, codes) + regularization / 2 * (flat @ flat)
        gradient = columns @ (weights * loss.gradient(scores, codes)) + regularization * W
        advance()
        return float(value), gradient.ravel()

    largest = regularization * tolerance / np.sqrt(np.prod(shape))
    options = {"maxiter": _MOST_STEPS, "maxcor": _PAIRS_KEPT, "ftol": 0.0, "gtol": largest}
    start = np.zeros(np.prod(shape))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if found.nit >= _MOST_STEPS:
        warn_caller(
            f"Raise regularization, or take a smooth loss: the minimiser was not reached within "
            f"{_MOST_STEPS:,} steps.",
            ConvergenceWarning,
        )
    return found.x.reshape(shape)
