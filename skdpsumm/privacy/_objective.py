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
convex hull of zero and m points of length at most L. Then

- ``det H_D' / det H_D`` is between 1 and ``exp(c)``, ``c = r log(1 + k R^2 / Lambda)``, if the
  loss's Hessian in the scores has rank at most r, eigenvalues at most beta and a trace of at most
  r k <= r beta: ``det(I + U^{1/2} H_D^{-1} U^{1/2})`` grows with H_D^{-1} <= I / Lambda, and the
  logarithm is concave;
- ``(|b_D - u|^2 - |b_D|^2) / (2 sigma^2)`` is convex in u, so its maximum over the hull is at a
  corner. As b_D(W*) = B under D, a corner of length l gives ``Y ~ N(mu^2/2, mu^2)`` with
  ``mu = l / sigma``: u depends on B, its corners do not. Likewise with D and D'
  exchanged, where B = b_D'(W*).

So the loss is at most ``max(0, Y_1 .. Y_m)``, and that plus c in the other order: with Z = L R /
sigma, m terms of mu = Z, and a zero, all shifted by c (`ShiftedGaussianDP`).

*A margin loss that saturates smoothly*: the gradient is t v for 0 <= t <= 1 and one v of length L,
and the curvature is at most ``4 beta t (1 - t)``, as for the logistic loss, where this is an
equality. Where t is near 1 the determinant hardly changes. With ``k = beta R^2 / Lambda`` let
``a(g) = max_t log(1 + 4 k t (1 - t)) - (1 - t) g``, which falls from c at g = 0 to 0 at g = 4 k.
With Y the term of t = 1, the one of t is at most ``t Y - t (1-t) Z^2/2``. So if Y >= g, then the
loss is at most ``t Y + (1-t) g + a(g) <= Y + a(g)``, and as it grows with Y it is at most
``g + a(g)`` else. For any g these are the two terms, instead of Y + c and c; an epsilon above 4 k
is thus free of the determinant.

*One row replaced.* ``b_D - b_D' = u' - u``, from a hull of m points of length Z for each row, m^2
differences of length at most 2 Z, and zero. Of ``det(H + U) / det(H + U')`` either determinant is
at least det(H), so the shift is c once, in both orders. Corners that come in opposite pairs have
zero inside, and of each two pairs' four differences, which make a parallelogram, the shorter two
have a length of at most sqrt(2) Z. Corners of a regular simplex, zero being one of them (softmax),
have inner products of 1/2 or 1 with those of the same label, and in [-1, 1/2] with another's: at
most m differences are longer than sqrt(3) Z. For a loss that saturates, fix u' and argue as above:
differences that hold the corner of u are shifted by a(g), the others by g + a(g).

*Pure.* ``|b_D| - |b_D'|`` is at most L R, twice that for a replaced row: ``epsilon = E + c`` or
``2 E + c``, E = L R / s. Where the loss saturates, a row with t adds ``t E + log(1 + 4 k t (1-t))``
at most, which is ``E + a(E)``, so that a(E) takes the place of c: with E >= 4 k it is free.

*The minimiser in practice.* A solver returns some V with ``|V - W*| <= d`` always, and V plus noise
is released. Given the data, B is a function of W*, so V is one of the data and W* (and of coins).
Hence this is an adaptive composition of two mechanisms: W*, and one whose sensitivity given W* is
2 d, as V is within d of the same W* on either data set. d may take in all that is done by
tolerance: a gradient of J at V of norm tau gives ``tau / Lambda``; rounding V to a grid of step g
adds ``g sqrt(p q) / 2``; and B rounded to a grid of step h, which is what discrete noise is up to
`discrete_slack`, adds ``h sqrt(p q) / (2 Lambda)``. That the solver did not reach d must never be
seen: it is an outcome that this argument does not cover.

References
----------
.. [1] Chaudhuri, Monteleoni and Sarwate (2011), "Differentially private empirical risk
       minimization", JMLR 12.
.. [2] Kifer, Smith and Thakurta (2012), "Private convex empirical risk minimization and
       high-dimensional regression", COLT.
.. [3] Iyengar et al. (2019), "Towards practical differentially private convex optimization", for
       approximate minima.
.. [4] Redberg, Koskela and Wang (2023), "Improving the privacy and practicality of objective
       perturbation for differentially private linear learners", NeurIPS, which this sharpens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ._bisect import bisect
from ._compositions import compose
from ._mechanisms import ADJACENCIES, GaussianDP, Mechanism, PureDP, Unprotected, gdp_mu
from ._noise import RESERVE
from ._shifted_gaussian import ShiftedGaussianDP

# The part of mu^2, or of a pure epsilon, that pays for the distance from the minimiser.
OUTPUT_SHARE = 1e-3
HULLS = ("polytope", "symmetric", "simplex")
# Floats are rounded in a few lines between a budget and a scale.
_MARGIN = 1 + 4e-12
_HALVINGS = 36
# Of the largest gap g that epsilon allows; see the module's docstring.
_GAPS = (1.0, 0.97, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.0)


class CurvatureError(ValueError):
    """Raised where a row's curvature costs all of epsilon, whatever the noise."""


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
        The cost of both. Discrete noise adds its `discrete_slack` (`dataclasses.replace`), for
        which the calibration leaves the part `RESERVE`.
    shift : float
        The part of epsilon that the determinant takes.
    """

    noise_scale: float
    output_scale: float
    mechanism: Mechanism
    shift: float


@lru_cache(maxsize=256)
def calibrate(
    epsilon: float,
    delta: float,
    *,
    lipschitz: float,
    smoothness: float,
    radius: float,
    regularization: float,
    vertices: int = 1,
    hull: str = "polytope",
    saturating: bool = False,
    rank: int = 1,
    trace: float | None = None,
    adjacency: str = "add_remove",
    distance: float = 0.0,
    dominated: bool = False,
) -> Calibration:
    """Return the least noise for which objective perturbation is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        The budget. ``delta=0`` gives pure differential privacy, ``epsilon=inf`` no noise.
    lipschitz, smoothness : float
        L and beta: the largest norm of a row's gradient in its scores, and the largest eigenvalue
        of the Hessian.
    radius : float
        R, the largest norm of a row's features.
    regularization : float
        Lambda, public: the objective is a sum over rows plus ``Lambda / 2`` times the square.
    vertices : int, default=1
        m, the number of corners besides zero of a polytope that holds a row's gradients, whatever
        its scores, once its label is given: 1 for a margin loss (binary, or with simplex codes),
        2 for residuals of either sign, K - 1 for softmax.
    hull : {"polytope", "symmetric", "simplex"}, default="polytope"
        What is known of the corners: nothing, that they come in opposite pairs (Huber), or that
        they make a regular simplex with zero (softmax).
    saturating : bool, default=False
        Whether the curvature is at most ``4 beta t (1 - t)`` where the gradient is t times its
        corner, of which there is one (logistic loss).
    rank : int, default=1
        r, the largest rank of the Hessian in the scores.
    trace : float, default=None
        The largest trace of the Hessian; None is ``rank * smoothness``. 1 - 1/K for softmax.
    adjacency : {"add_remove", "replace_one"}
    distance : float, default=0
        d, from the exact minimiser, of what gets the output noise: a promise for all data and B.
    dominated : bool, default=False
        Whether the mechanism's dominating Gaussian is to be (epsilon, delta)-DP as well, so that a
        ledger that adds up Gaussians holds it. Needs more noise.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> row = {"lipschitz": 1, "smoothness": 0.25, "radius": 1}
    >>> found = calibrate(1.0, 1e-6, **row, regularization=10)
    >>> round(found.noise_scale, 2), round(found.shift, 4)
    (4.32, 0.0247)
    >>> round(calibrate(1.0, 1e-6, **row, regularization=10, saturating=True).noise_scale, 2)
    4.22
    """
    epsilon, delta = float(epsilon), float(delta)
    _check(adjacency, hull, delta, distance)
    _check_positive("lipschitz", lipschitz)
    _check_corners(vertices, hull, rank, saturating)
    shift = determinant_cost(smoothness, radius, regularization, rank, trace)
    if math.isinf(epsilon):
        lost = Unprotected("epsilon is infinite and no noise was added")
        return Calibration(0.0, 0.0, lost, shift)
    share = OUTPUT_SHARE if distance else 0.0
    room = epsilon * (1 - RESERVE if delta else 1 - share)
    reach = float(lipschitz) * float(radius)
    if delta == 0 and shift < room:
        rows = 2 if adjacency == "replace_one" else 1
        unit = _pure_unit(room, shift, rows, saturating)
        scale, shift = reach / unit * _MARGIN, max(0.0, room - rows * unit)
        output = 2 * distance / (share * epsilon) * _MARGIN if share else 0.0
        return Calibration(scale, output, PureDP(epsilon), shift)
    found = None
    if shift < room:
        pairs = shifts_beyond(math.expm1(shift), room) if saturating else [(0.0, shift)]
        search = _Search(vertices, hull, adjacency, share, room, delta * (1 - RESERVE), dominated)
        found = search.best(pairs)
    if found is None:
        raise CurvatureError(
            f"regularization={regularization!r} is too small for epsilon={epsilon!r}: the "
            f"curvature that one row adds costs {shift:.4g} by itself, whatever the noise. Raise "
            f"regularization, to {_enough(shift, epsilon, rank) * regularization:.4g} say, or "
            "raise epsilon."
        )
    unit, shift, mechanism = found
    output = 2 * distance / (unit * math.sqrt(share)) * _MARGIN if share else 0.0
    return Calibration(reach / unit * _MARGIN, output, mechanism, shift)


def _pure_unit(room: float, shift: float, rows: int, saturating: bool) -> float:
    """Return E, the part of epsilon that is left for the noise per row that changes."""
    plain = (room - shift) / rows
    if not saturating:
        return plain
    curvature, most = math.expm1(shift), room / rows

    def fits(unit: float) -> bool:
        return rows * unit + _shift_beyond(unit, curvature) <= room

    return most if fits(most) else bisect(fits, plain, most, halvings=_HALVINGS)


def determinant_cost(
    smoothness: float,
    radius: float,
    regularization: float,
    rank: int = 1,
    trace: float | None = None,
) -> float:
    """Return c, the largest logarithm of what one row multiplies the determinant by."""
    _check_positive("radius", radius)
    _check_positive("regularization", regularization)
    return rank * math.log1p(_curvature(smoothness, rank, trace) * radius**2 / regularization)


def smallest_regularization(
    epsilon: float,
    share: float = 0.1,
    *,
    smoothness: float,
    radius: float,
    rank: int = 1,
    trace: float | None = None,
) -> float:
    """Return the Lambda at which the determinant takes a `share` of epsilon.

    Parameters
    ----------
    epsilon : float
    share : float, default=0.1
        In (0, 1).
    smoothness, radius, rank, trace
        As of `calibrate`.

    Returns
    -------
    float
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie in (0, 1), got {share!r}.")
    curvature = _curvature(smoothness, rank, trace) * radius**2
    return curvature / math.expm1(min(share * epsilon / rank, 700.0)) * _MARGIN


def gaussian_terms(
    unit: float, gap: float, shift: float, vertices: int, hull: str, adjacency: str
) -> tuple[tuple[float, float, float], ...]:
    """Return the (weight, mu, shift) of all corners of the differences that one row makes.

    Parameters
    ----------
    unit : float
        Z, of one corner.
    gap, shift : float
        g and a(g); 0 and c of a loss that does not saturate.
    vertices, hull, adjacency
        As of `calibrate`.
    """
    m = float(vertices)
    with_new, without = [(m, unit)], [(1.0, 0.0)]
    if adjacency == "replace_one" and hull == "symmetric":
        with_new = [(m * m / 2, 2 * unit), (m * m / 2, math.sqrt(2) * unit)]
    elif adjacency == "replace_one":
        near = [(m * m - m, math.sqrt(3) * unit)] if hull == "simplex" and m > 1 else []
        with_new = [(m if near else m * m, 2 * unit), *near, (m, unit)]
        without += [(m, unit)]
    return (
        *((weight, mu, shift) for weight, mu in with_new),
        *((weight, mu, gap + shift) for weight, mu in without),
    )


def shifts_beyond(curvature: float, epsilon: float) -> list[tuple[float, float]]:
    """Return some (g, a(g)) of a loss that saturates, with g + a(g) at most `epsilon`.

    Parameters
    ----------
    curvature : float
        k = beta R^2 / Lambda, with log(1 + k) below `epsilon`.
    epsilon : float
    """

    def fits(gap: float) -> bool:
        return gap + _shift_beyond(gap, curvature) <= epsilon

    largest = 4 * curvature
    if largest > epsilon:
        largest = bisect(fits, 0.0, largest, halvings=_HALVINGS)
    return [(part * largest, _shift_beyond(part * largest, curvature)) for part in _GAPS]


def _shift_beyond(gap: float, curvature: float) -> float:
    """Return a(g) in closed form: the largest ``log(1 + 4 k s (1-s)) - s g``, s = 1 - t."""
    slope = 4 * curvature - gap  # at s = 0, of a concave function
    if slope <= 0:
        return 0.0
    middle = 4 * curvature * (2 + gap)
    s = 2 * slope / (middle + math.sqrt(middle**2 - 16 * curvature * gap * slope))
    return max(0.0, math.log1p(4 * curvature * s * (1 - s)) - s * gap) * _MARGIN


def discrete_slack(size: int, scale: float, mu: float, tail: float) -> float:
    """Return the log_ratio of discrete Gaussian noise (see `skdpsumm.privacy._noise.IntegerNoise`).

    Parameters
    ----------
    size : int
        Number of entries.
    scale : float
        Their sigma in steps of the grid, at least 2.
    mu : float
        How far, in sigmas, a neighbour may be.
    tail : float
        The probability that is left out, which costs as much delta.

    Returns
    -------
    float
    """
    if not scale >= 2:
        raise ValueError(f"scale must be at least 2 steps of the grid, got {scale!r}.")
    radius = math.sqrt(2 * math.log(2 * size / tail)) + mu
    curvature = max(1 / 8, radius**2 / 24)
    return size * (curvature / scale**2 + 3 * math.exp(-2 * (math.pi * scale) ** 2))


@dataclass(frozen=True)
class _Search:
    """For the largest Z, which is the least noise, at a target."""

    vertices: int
    hull: str
    adjacency: str
    output_share: float
    epsilon: float
    delta: float
    dominated: bool

    def mechanism(self, unit: float, gap: float, shift: float) -> Mechanism:
        exact = ShiftedGaussianDP(
            gaussian_terms(unit, gap, shift, self.vertices, self.hull, self.adjacency)
        )
        output = GaussianDP(unit * math.sqrt(self.output_share))
        return compose([exact, output]) if self.output_share else exact

    def holds(self, unit: float, gap: float, shift: float) -> bool:
        mechanism = self.mechanism(unit, gap, shift)
        curve = mechanism.as_accountable() if self.dominated else mechanism
        return curve.delta(self.epsilon) <= self.delta

    def best(self, pairs: list[tuple[float, float]]) -> tuple[float, float, Mechanism] | None:
        """Return the largest Z of all gaps, with its shift and mechanism, or None."""
        best, found = 0.0, None
        for gap, shift in pairs:
            # A gap that does not gain a thousandth is not worth a bisection.
            if best and not self.holds(best * 1.001, gap, shift):
                continue
            unit = self.largest(gap, shift)
            if unit > best:
                best, found = unit, (unit, shift, self.mechanism(unit, gap, shift))
        return found

    def largest(self, gap: float, shift: float) -> float:
        """Return the largest Z, rounded down, or 0."""
        low = high = gdp_mu(self.epsilon, self.delta)
        least = 1e-9 * high
        while not self.holds(low, gap, shift):
            low, high = low / 2, low
            if low < least:
                return 0.0
        return bisect(lambda unit: self.holds(unit, gap, shift), low, high, halvings=_HALVINGS)


def _enough(shift: float, epsilon: float, rank: int) -> float:
    """Return by what to multiply a regularization that is too small: c a tenth, and no less."""
    return max(2.0, math.expm1(shift / rank) / math.expm1(0.1 * epsilon / rank))


def _curvature(smoothness: float, rank: int, trace: float | None) -> float:
    if not (0 <= smoothness < math.inf and rank >= 1):
        raise ValueError(
            f"smoothness must be finite and rank at least 1, got {smoothness!r} and {rank!r}. "
            "A loss with a kink has no density to argue with: round it off, as HuberizedHinge does."
        )
    return smoothness if trace is None else min(smoothness, trace / rank)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}.")


def _check(adjacency: str, hull: str, delta: float, distance: float) -> None:
    for name, value, known in (("adjacency", adjacency, ADJACENCIES), ("hull", hull, HULLS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {known}, got {value!r}.")
    if not (0 <= delta < 1 and 0 <= distance < math.inf):
        raise ValueError(
            f"delta must lie in [0, 1) and distance in [0, inf), got {delta!r} and {distance!r}."
        )


def _check_corners(vertices: int, hull: str, rank: int, saturating: bool) -> None:
    if vertices < 1 or (hull == "symmetric" and vertices % 2):
        raise ValueError(f"vertices must be at least 1, and even for pairs, got {vertices!r}.")
    if saturating and not vertices == rank == 1:
        raise ValueError(
            f"saturating needs vertices=1 and rank=1, got {vertices!r} and {rank!r}: only where a "
            "row's gradients have one direction is its curvature known from their length."
        )
