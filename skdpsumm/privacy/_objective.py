r"""What the exact minimiser of a randomly tilted convex objective reveals about one row.

Let ``J(W) = sum_i loss(W^T phi_i, y_i) + (Lambda/2) |W|_F^2 + <B, W>`` for W in R^{p x q} without
constraints, |phi_i| <= R and Lambda public. B has independent N(0, sigma^2) entries, or, for pure
differential privacy, the density proportional to ``exp(-|B|_F / s)``. W* minimises J.

*Density.* ``b_D(W) = -grad(J - <B, .>)(W)`` is the B for which W is the minimiser. It is
Lipschitz, as gradients of a beta-smooth loss are, and strongly monotone, hence a bijection that is
Lipschitz both ways. So the change of variables holds (area formula) with the derivative that
exists almost everywhere, and W* has the density ``nu(b_D(W)) det(H_D(W))``, where H_D is at least
Lambda. Piecewise linear gradients (Huber, Huberised hinge) are no exception: a row's gradient has
kinks on a null set of W only, so that off a null set its derivative adds to those of the others.

*One row more*, D' = D + (phi, y): ``b_D' = b_D - u`` with ``u = phi s^T``, s being the gradient
of the row's loss in its scores, which depends on W. Let all s that its label allows lie in the
convex hull of zero and m points, the *corners*, of length at most L. Then

- ``det H_D' / det H_D`` is between 1 and ``exp(c)``, ``c = r log(1 + beta R^2 / Lambda)``, if the
  loss's Hessian in the scores has a rank of at most r and a trace of at most r beta: ``det(I +
  U^{1/2} H_D^{-1} U^{1/2})`` grows with H_D^{-1} <= I / Lambda, and the logarithm is concave;
- ``(|b_D - u|^2 - |b_D|^2) / (2 sigma^2)`` is convex in u, so its maximum over the hull is at zero
  or at a corner. As b_D(W*) = B under D, a corner of length l gives ``Y ~ N(mu^2/2, mu^2)`` with
  ``mu = l / sigma``: u depends on B, its corners do not. Likewise with D and D' exchanged, where B
  = b_D'(W*).

So, with Z = L R / sigma, the loss is at most ``max(0, Y_1 .. Y_m)`` where the row goes, and that
plus c where it comes. Nothing is assumed of how the Y_i depend on each other: ``(1 - exp(epsilon -
loss))_+`` of the largest of several losses is at most the sum of theirs, so that

    ``delta(epsilon) <= m gdp_delta(Z, epsilon - c)`` for epsilon >= c.

For one corner, as of all margin losses, that sum has one term, and is no bound of a union at all.

*One row replaced.* ``b_D - b_D' = u' - u`` lies in the hull of zero, 2 m corners (one row's alone)
and m^2 differences of two corners. Of ``det(H + U) / det(H + U')`` either determinant is at least
det(H), so c counts once, in both orders. A difference is at most 2 Z long, and **at most m of the
m^2 are longer than sqrt(3) Z**. For m = 1 that says nothing. For two opposite corners (residuals)
the differences +-v +- w make a parallelogram whose diagonals have squares that add up to 4 Z^2 at
most: the shorter one is at most sqrt(2) Z long, and two are longer. Softmax has the corners
``e_j - e_y``. In units of Z^2 two of them have the inner product 1 or 1/2 if they have the same
label; else it is from -1 to 1/2, and below -1/2 for one pair only. With rho, the cosine of the two
rows' features, the squared length is ``2 - 2 rho <v, w>``. It exceeds 3 for equal corners of one
label where rho < -1/2, or for that one pair where rho > 1/2: for m at most.

*Total variation* has less of c, which is what a ledger counts. For every t >= 0, with ``d = m
gdp_delta(Z, t)``, all events A have ``P(A) <= exp(t) P'(A) + d`` and ``P'(A) <= exp(t + c) P(A) +
d``: there is no c where the row goes. Of the pairs (P(A), P'(A)) that both lines allow (the second
one for the complement of A) the largest difference is where they meet, at ``P'(A) = (1 - d)
(exp(t + c) - 1) / (exp(2 t + c) - 1)``, and it is

    ``TV <= d + (1 - d) (exp(t) - 1) (exp(t + c) - 1) / (exp(2 t + c) - 1)``.

For one corner t = 0 is the best: ``gdp_delta(Z, 0)``, whatever c. A row that is replaced goes, and
another comes: twice that. delta(epsilon) falls from TV at 0, and is convex in exp(epsilon).

*Pure.* ``|b_D| - |b_D'|`` is at most L R, twice that for a replaced row: ``epsilon = E + c`` or
``2 E + c``, E = L R / s.

*The minimiser in practice.* A solver returns some V with ``|V - W*| <= d`` always, and V plus noise
is released. Given the data, B is a function of W*, so V is one of the data and W* (and of coins).
Hence this is an adaptive composition of two mechanisms: W*, and one whose sensitivity given W* is
2 d, as V is within d of the same W* on either data set. Its Gaussian loss adds to each of the Y_i,
and to zero. d may take in all that is done by tolerance: a gradient of J at V of norm tau gives
``tau / Lambda``; rounding V to a grid of step g adds ``g sqrt(p q) / 2``; and B rounded to a grid
of step h, which is what discrete noise is up to its `Discreteness`, adds ``h sqrt(p q) / (2
Lambda)``. That the solver did not reach d must never be seen: it is an outcome that this argument
does not cover.

References
----------
.. [1] Chaudhuri, Monteleoni and Sarwate (2011), "Differentially private empirical risk
       minimization", JMLR 12.
.. [2] Kifer, Smith and Thakurta (2012), "Private convex empirical risk minimization and
       high-dimensional regression", COLT.
.. [3] Iyengar et al. (2019), "Towards practical differentially private convex optimization", for
       approximate minima.
.. [4] Redberg, Koskela and Wang (2023), "Improving the privacy and practicality of objective
       perturbation for differentially private linear learners", NeurIPS, whose bound is twice ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from ._domination import DominatedByGaussian, at_most, dominating_mu
from ._mechanisms import (
    GaussianDP,
    Mechanism,
    PureDP,
    Unprotected,
    check_positive,
    gdp_delta,
    gdp_mu,
)
from ._noise import RESERVE, SCALE_MARGIN

# The part of mu^2, or of a pure epsilon, that pays for the distance from the minimiser.
OUTPUT_SHARE = 1e-3
# Number of points at which total variation and the chord to it are tried. Each is valid.
_N_POINTS_TRIED = 256
# Below this epsilon exp(epsilon) is a number.
_LARGEST_POINT = 600.0


class CurvatureError(ValueError):
    """Raised where a row's curvature costs all of epsilon, whatever the noise."""


@dataclass(frozen=True, repr=False)
class ObjectiveDP(DominatedByGaussian):
    """The cost of objective perturbation with Gaussian noise: see the module's docstring.

    Parameters
    ----------
    unit : float
        Z, how far one row moves the noise at most, in units of its standard deviation.
    shift : float
        c, the most that the determinant takes of epsilon.
    corners : int, default=1
        m, the number of corners besides zero of a row's gradients.
    rows : {1, 2}, default=1
        2 where a row is replaced: one goes, and another comes.
    output : float, default=0
        mu of the Gaussian mechanism that covers the solver's tolerance.
    log_ratio, tail : float, default=0
        As of `GaussianDP`.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP
    >>> from skdpsumm.privacy._objective import ObjectiveDP
    >>> one = ObjectiveDP(0.2, 0.02)
    >>> round(one.epsilon(1e-6) - GaussianDP(0.2).epsilon(1e-6), 6)
    0.02
    >>> round(one.dominating_mu(), 3)
    0.217
    >>> one + GaussianDP(0.1)
    ObjectiveDP(unit=0.2, shift=0.02, output=0.1)
    """

    unit: float
    shift: float
    corners: int = 1
    rows: int = 1
    output: float = 0.0
    log_ratio: float = 0.0
    tail: float = 0.0
    kind: ClassVar[str] = "objective"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows not in (1, 2):
            raise ValueError(f"rows must be 1 or 2, got {self.rows!r}.")

    def __repr__(self) -> str:
        rest = f", corners={self.corners}" * (self.corners > 1) + ", rows=2" * (self.rows == 2)
        for name in ("output", "log_ratio", "tail"):
            value = getattr(self, name)
            rest += f", {name}={value:.4g}" * (value > 0)
        return f"ObjectiveDP(unit={self.unit:.6g}, shift={self.shift:.4g}{rest})"

    def compose_with(self, other: Mechanism) -> Mechanism | None:
        """Return the adaptive composition with a Gaussian mechanism."""
        if type(other) is not GaussianDP:  # of one with new values more must be known
            return None
        log_ratio, tail = map(sum, zip(self.slack, other.slack, strict=True))
        output = math.hypot(self.output, other.mu)
        return replace(self, output=output, log_ratio=log_ratio, tail=tail)

    @property
    def largest_mu(self) -> float:
        """The mu of the longest difference that the row makes."""
        return max(mu for _, mu in self._losses)

    def sum_of_losses(self, epsilon: float) -> float:
        """Return the sum of the deltas of all Gaussian losses, c aside; `epsilon` is any number."""
        return math.fsum(weight * gdp_delta(mu, epsilon) for weight, mu in self._losses)

    @cached_property
    def _losses(self) -> list[tuple[float, float]]:
        """How many losses there are of each mu, that of zero included."""
        m = float(self.corners)
        lengths = [(m, 1.0)]
        if self.rows == 2:
            lengths = [(m, 2.0), (m * m - m, math.sqrt(3)), (2 * m, 1.0)]
        moved = [(weight, math.hypot(x * self.unit, self.output)) for weight, x in lengths]
        return [*moved, (1.0, self.output)]

    @cached_property
    def total_variation(self) -> float:
        """The largest difference of the probabilities that neighbours give to an event."""
        unit, c = float(self.unit), float(self.shift)
        # The best t is among the losses of a corner. With one corner it is 0.
        most = min(4 * unit + unit * unit, _LARGEST_POINT)
        tries = np.linspace(0.0, most, _N_POINTS_TRIED)[: 1 if self.corners == 1 else None]
        found = min(self._variation_by_lines(float(t), c) for t in tries)
        return min(1.0, self.rows * found + gdp_delta(self.output, 0.0))

    def _variation_by_lines(self, t: float, c: float) -> float:
        """Return the bound by the claims at t, and at t + c in the other order, for one row."""
        d = min(1.0, self.corners * gdp_delta(self.unit, t))
        if t == 0:
            return d
        # Numerator and denominator are divided by exp(2 t + c), which may be no number.
        ratio = math.expm1(-t) * math.expm1(-t - c) / -math.expm1(-2 * t - c)
        return d + (1 - d) * ratio

    @property
    def _far_tail(self) -> tuple[float, float, float]:
        total = math.fsum(weight for weight, _ in self._losses)
        return total, self.largest_mu, float(self.shift)

    def _curve(self, epsilon: float) -> float:
        return min(self.total_variation, self.sum_of_losses(epsilon - self.shift))

    def _least_mu(self) -> float:
        mu, shift = self.largest_mu, float(self.shift)
        if mu == 0 or not math.isfinite(mu + shift):
            return mu + shift if mu else mu
        # Below the chord from total variation, at 0, to the point at which it is the steepest.
        at_zero, end = self.total_variation, min(shift + 6 * mu + 2 * mu * mu, _LARGEST_POINT)
        points = np.linspace(0.0, end, _N_POINTS_TRIED)[1:].tolist()
        slopes = [(self.sum_of_losses(e - shift) - at_zero) / math.expm1(e) for e in points]
        slope, touched = min(zip(slopes, points, strict=True))

        def delta(epsilon: float) -> float:
            bound = self._curve(epsilon)
            return min(bound, at_zero + slope * math.expm1(epsilon)) if epsilon < touched else bound

        found = dominating_mu(delta, *self._far_tail)
        if self.rows == 1:
            return found
        # A row that goes and one that comes are two neighbours, and mu adds up over them.
        alone = replace(self, rows=1, output=0.0)
        return min(found, math.hypot(self.rows * alone.dominating_mu(), self.output))


class Calibration(NamedTuple):
    """The noise of objective perturbation, and its cost.

    Attributes
    ----------
    noise_scale : float
        sigma of the Gaussian entries of B, or, if delta is 0, s of its density
        ``exp(-|B|_F / s)``.
    output_scale : float
        Of the noise on what the solver returns: the standard deviation of Gaussian entries, or,
        if delta is 0, t of a density ``exp(-|e|_2 / t)``; n independent Laplace entries need
        ``t sqrt(n)`` each.
    mechanism : Mechanism
        The cost of both. Discrete noise adds its `Discreteness` (`dataclasses.replace`), for
        which the calibration leaves the part `RESERVE`.
    """

    noise_scale: float
    output_scale: float
    mechanism: Mechanism


@lru_cache(maxsize=256)
def calibrate(
    epsilon: float,
    delta: float,
    *,
    lipschitz: float,
    smoothness: float,
    radius: float,
    regularization: float,
    corners: int = 1,
    rank: int = 1,
    adjacency: str = "add_remove",
    distance: float = 0.0,
) -> Calibration:
    """Return the least noise for which objective perturbation is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        The budget. ``delta=0`` gives pure differential privacy, ``epsilon=inf`` no noise.
    lipschitz : float
        L: the largest norm of a row's gradient in its scores.
    smoothness : float
        beta: the largest trace of the Hessian in the scores, over its `rank`.
    radius : float
        R, the largest norm of a row's features.
    regularization : float
        Lambda, public: the objective is a sum over rows plus ``Lambda / 2`` times the square.
    corners : int, default=1
        m, the number of corners besides zero of a polytope that holds a row's gradients, whatever
        its scores, once its label is given: 1 for a margin loss (binary, or with simplex codes), 2
        opposite ones for residuals of either sign, K - 1 for softmax. Other polytopes may have too
        many long differences where a row is replaced.
    rank : int, default=1
        r, the largest rank of the Hessian in the scores.
    adjacency : {"add_remove", "replace_one"}
    distance : float, default=0
        d, from the exact minimiser, of what gets the output noise: a promise for all data and B.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> row = {"lipschitz": 1, "smoothness": 0.25, "radius": 1}
    >>> found = calibrate(1.0, 1e-6, **row, regularization=10)
    >>> round(found.noise_scale, 2), round(found.mechanism.shift, 4)
    (4.32, 0.0247)
    """
    epsilon, delta = float(epsilon), float(delta)
    check_positive(lipschitz=lipschitz)
    shift = determinant_cost(smoothness, radius, regularization, rank)
    if math.isinf(epsilon):
        lost = Unprotected("epsilon is infinite and no noise was added")
        return Calibration(0.0, 0.0, lost)
    rows = {"add_remove": 1, "replace_one": 2}[adjacency]
    share = OUTPUT_SHARE if distance else 0.0
    room = epsilon * (1 - RESERVE if delta else 1 - share)
    if delta == 0:
        unit, paid = (room - shift) / rows, share * epsilon
        mechanism: Mechanism = PureDP(epsilon)
    else:

        def cost(unit: float) -> ObjectiveDP:
            return ObjectiveDP(unit, shift, corners, rows, unit * math.sqrt(share))

        unit = _largest_unit(cost, room, delta * (1 - RESERVE)) if shift < room else 0.0
        mechanism, paid = cost(unit), unit * math.sqrt(share)
    if unit <= 0:
        raise CurvatureError(
            f"regularization={regularization!r} is too small for epsilon={epsilon!r}: the "
            f"curvature that one row adds costs epsilon={shift:.4g}, whatever the noise. Raise "
            f"regularization to about {_enough(shift, epsilon, rank) * regularization:.4g}, or "
            "raise epsilon."
        )
    scale = float(lipschitz) * float(radius) / unit * SCALE_MARGIN
    output = 2 * distance / paid * SCALE_MARGIN if share else 0.0
    return Calibration(scale, output, mechanism)


def _largest_unit(cost: Callable[[float], ObjectiveDP], epsilon: float, delta: float) -> float:
    """Return the largest Z whose cost is (epsilon, delta)-DP, rounded down, or 0."""

    def delta_of(unit: float) -> float:
        return cost(unit).delta(epsilon)

    low = high = gdp_mu(epsilon, delta)
    least = 1e-9 * high
    while delta_of(low) > delta:
        low, high = low / 2, low
        if low < least:
            return 0.0
    return low if low == high else at_most(delta_of, delta, low, high)


def determinant_cost(
    smoothness: float, radius: float, regularization: float, rank: int = 1
) -> float:
    """Return c, the largest logarithm of what one row multiplies the determinant by."""
    check_positive(radius=radius, regularization=regularization)
    _check_curvature(smoothness, rank)
    return rank * math.log1p(smoothness * radius**2 / regularization)


def regularization_of_share(
    epsilon: float, share: float, *, smoothness: float, radius: float, rank: int = 1
) -> float:
    """Return a Lambda at which the determinant takes no more than a `share` of epsilon.

    As c is at most ``r beta R^2 / Lambda``, that is ``r beta R^2 / (share epsilon)``. Where c is
    small the two are nearly the same. Where it is large the Lambda that takes all of the share is
    less by far, and the noise in weights, sigma / Lambda, larger.

    Parameters
    ----------
    epsilon : float
    share : float
        In (0, 1).
    smoothness, radius, rank
        As of `calibrate`.

    Returns
    -------
    float
    """
    _check_curvature(smoothness, rank)
    return rank * smoothness * radius**2 / (share * epsilon) * SCALE_MARGIN


def _enough(shift: float, epsilon: float, rank: int) -> float:
    """Return by what to multiply a regularization that is too small: c a tenth, and no less."""
    return max(2.0, math.expm1(shift / rank) / math.expm1(0.1 * epsilon / rank))


def _check_curvature(smoothness: float, rank: int) -> None:
    if not (0 <= smoothness < math.inf and rank >= 1):
        raise ValueError(
            f"smoothness must be finite and rank at least 1, got {smoothness!r} and {rank!r}. "
            "Take a loss without a kink, such as HuberizedHinge."
        )
