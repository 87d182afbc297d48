r"""What float64 may move between the exact minimiser and what gets noise: public bounds.

The sensitivity is that of exact arithmetic, with *the exact kernel k of rows as they were rounded*
(`_entries`) or *explicit features as they are in memory*, whose value for a row hangs on that row
alone. All that is computed is within a bound of that, on either data set. Below, u = 2**-53, n is
at most N = `Terms.max_rows`, A = L / Lambda, and eta = `Terms.kernel_error`; R = 1 where the unit
allows it. No step assumes an order of summation, so the bounds hold under any BLAS (but for fast
matrix products in the manner of Strassen, which none uses unasked).

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
certificate: there its coefficients are returned, which have up to 6 A (`_accelerated`).

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
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from ._accelerated import LARGEST_COEFFICIENT
from ._careful import UNIT, product_error
from ._losses import Floats, OneVsRest

if TYPE_CHECKING:
    from ._spaces import FeatureSpace, Space
    from ._terms import Terms

# A release is refused where rounding would take more than this part of the sensitivity.
_LARGEST_PART = 0.1
# Of R^2, added to the diagonal of a Gram matrix. It takes part in the released function as
# independent noise, so it can only help privacy, and keeps the factor from blowing up.
_JITTER = 1e-8
# Bounds above are to first order in u; this covers the rest.
_REST = 1.01


def check_rounding(rounding: float, sensitivity: float, remedy: str) -> None:
    """Raise ValueError where rounding would take a good part of the sensitivity; all is public."""
    if not rounding <= _LARGEST_PART * sensitivity:
        raise ValueError(
            f"float64 may be off by {rounding:.2g} where a row moves the result by "
            f"{sensitivity:.2g}, and no more than a tenth of that may be rounding: {remedy}."
        )


def positive_shift(terms: Terms) -> float:
    """Return c, which makes the Gram matrix of any rows positive semi-definite, errors and all."""
    return terms.max_rows * terms.kernel_error * terms.radius**2


def kernel_drift(terms: Terms) -> float:
    """Return how far certified coefficients are from the minimiser, beyond the tolerance."""
    if terms.kernel_error == 0:
        return 0.0
    loss, n, eta = terms.loss, terms.max_rows, terms.kernel_error
    one_direction = loss.one_sided or isinstance(loss, OneVsRest)
    drift = terms.step * n * math.sqrt((2 if one_direction else 4) * eta)
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
    if terms.kernel_error:
        coefficient = LARGEST_COEFFICIENT * terms.loss.lipschitz / terms.regularization
        entries = terms.max_rows * terms.kernel_error * radius**2 * coefficient
        product = product_error(terms.max_rows, radius**2, coefficient)
    else:
        entries = 0.0
        product = product_error(_n_features(space), radius, weight)
    return (entries + math.sqrt(terms.n_scores) * product + UNIT * radius * weight) * _REST


def _n_features(space: FeatureSpace) -> int:
    return space.n_features


def factor_jitter(space: Space, n_points: int) -> float:
    """Return j, to be added to the diagonal of the Gram matrix of at most T points in all."""
    rounding = n_points * space.entry_error + (n_points + 4) * n_points * UNIT * _REST
    return max(_JITTER, 4 * rounding) * space.radius**2


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
