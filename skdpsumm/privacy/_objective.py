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

*Losses that saturate* have no curvature at their corners, where the gradient is longest. Let s be
linear in a point p of a simplex, its corners at those of p, and let ``ell(p)`` bound what U adds to
log det. The loss at p is at most ``Y_p + ell(p)``, where Y_p is convex in p, and Gaussian with the
mu of its length. Take some points p_i with heights h_i, such that each p is a mixture of them with
a mean height of at least ell(p). Then ``Y_p + ell(p)`` is at most the mixture of all ``Y_i + h_i``,
hence at most the largest of them, whatever the noise: terms (mu_i, h_i) in place of (mu_i, c).

- Logistic and soft hinge: the gradient is t v for 0 <= t <= 1 and one v of length L, and the
  curvature is at most ``4 beta t (1 - t)``. With ``k = beta R^2 / Lambda`` and s = 1 - t let
  ``ell = log(1 + 4 k s (1 - s))``. It is concave, and below each of its tangents ``a(g) + g s``.
  The points are the corners of the polygon that one or two tangents of slopes g >= 0 make: a length
  of (1 - s) Z with the polygon's height. One tangent has the two terms of heights a(g) and
  ``a(g) + g``. As a(4 k) = 0, an epsilon above 4 k is free of the determinant.
- Softmax of m + 1 classes: p are its probabilities, the label is the corner of length zero, and the
  Hessian is ``2 beta (diag(p) - p p^T)``. Then ``ell(p) = log det(I + 2 k (diag(p) - p p^T))`` is
  symmetric, and concave, as ``diag(p) - p p^T`` is. Let s be 1 less the largest p. Making all
  others alike raises ell, to ``(m-1) log(1 + 2 k s / m) + log(1 + 2 k s (1-s) (m+1) / m)``, and
  ell is c at most. Let a(g) be the least number for which that is at most ``a(g) + g s`` for
  s <= 1/2, and c at most ``a(g) + g / 2``. The points are the corners with height a(g); the
  m (m-1) / 2 middles between two of them, sqrt(3)/2 Z long, with ``a(g) + g / 2``; and the label
  with ``a(g) + g``. The middle of a corner and the label has half of the sum of their heights, so
  that all middles are as high. Where the largest p is p_i = 1 - s >= 1/2, p is 1 - 2 s times corner
  i and 2 p_j times its middle with j, for all j: the height is ``a(g) + g s``, or more if i is the
  label. Else p is a mixture of middles, for these are the corners of the polytope of all p with no
  entry above 1/2. Again a(4 k) = 0, but middles cost, the more the larger m. For g = 0 all heights
  are c, and it takes no middles.

*A margin loss*, one row more, has gradients on one segment. Its worst gradient and its full
curvature do not meet for long, and what it reveals is known nearly exactly:
`skdpsumm.privacy._segment`. At each epsilon the smaller one of both claims holds.

*One row replaced.* ``b_D - b_D' = u' - u``, from a hull of m points of length Z for each row, m^2
differences of length at most 2 Z, and zero. Of ``det(H + U) / det(H + U')`` either determinant is
at least det(H), so the shift is c once, in both orders. Corners that come in opposite pairs have
zero inside, and of each two pairs' four differences, which make a parallelogram, the shorter two
have a length of at most sqrt(2) Z. Corners of a regular simplex, zero being one of them (softmax),
have inner products of 1/2 or 1 with those of the same label, and in [-1, 1/2] with another's: at
most m differences are longer than sqrt(3) Z. For a loss that saturates, fix u' at a corner and
argue as above: the differences from each point of u have its height. From the point s of a margin
loss they are at most (2 - s) Z and (1 - s) Z long. From the middle of two corners to one of the
other row the squared length is ``(7/4 - 2 cos <u', u>) Z^2`` at most, cos being that of the two
rows' features, and ``<u', u>``, in units of Z^2, 3/4 where u' is one of the two and 1/2 where it is
another of this label; for other labels it is between -3/4, which only m - 1 have, the others having
-1/2 or more, and 1/4, which goes with the other sign of cos. So at most m (m-1) are sqrt(13)/2 Z
long, the others sqrt(11)/2 Z.

*Pure.* ``|b_D| - |b_D'|`` is at most L R, twice that for a replaced row: ``epsilon = E + c`` or
``2 E + c``, E = L R / s. It is convex in u, too. So where the loss saturates, the largest of the
points' ``E length / Z + height`` takes the place of it. For a margin loss g = E makes all alike,
E + a(E) or 2 E + a(E): with E >= 4 k curvature is free.

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

from ._bisect import at_most, bisect
from ._compositions import compose
from ._mechanisms import ADJACENCIES, GaussianDP, Mechanism, PureDP, Unprotected, gdp_mu
from ._noise import RESERVE
from ._segment import SegmentDP
from ._shifted_gaussian import ShiftedGaussianDP

# The part of mu^2, or of a pure epsilon, that pays for the distance from the minimiser.
OUTPUT_SHARE = 1e-3
HULLS = ("polytope", "symmetric", "simplex")
# Floats are rounded in a few lines between a budget and a scale.
_MARGIN = 1 + 4e-12
_HALVINGS = 36
# Slopes g of a profile: parts of the largest that epsilon allows, and how much steeper its first
# piece is than its last. See the module's docstring; any are valid.
_SLOPES = (1.0, 0.97, 0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.1)
_STEEPER = (1.0, 1.8, 2.6, 3.4)

# Points (s, height) at which a loss that saturates is charged, s from 0, its corners, to 1, zero.
Profile = tuple[tuple[float, float], ...]


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
        c, the most that the determinant takes of epsilon; a height of the profile that is used, for
        a loss that saturates.
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
        corner, of which there is one (logistic loss); or, of a simplex, whether the Hessian is
        ``2 beta (diag(p) - p p^T)`` where p are the weights of corners and zero (softmax).
    rank : int, default=1
        r, the largest rank of the Hessian in the scores.
    trace : float, default=None
        The largest trace of the Hessian; None is ``rank * smoothness``. 1 - 1/K for softmax.
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
    >>> round(found.noise_scale, 2), round(found.shift, 4)
    (4.22, 0.0247)
    """
    epsilon, delta = float(epsilon), float(delta)
    _check(adjacency, hull, delta, distance)
    _check_positive("lipschitz", lipschitz)
    _check_corners(vertices, hull, rank, saturating)
    shift = determinant_cost(smoothness, radius, regularization, rank, trace)
    row = _Corners(vertices, hull, adjacency)
    curvature = smoothness * float(radius) ** 2 / regularization
    if math.isinf(epsilon):
        lost = Unprotected("epsilon is infinite and no noise was added")
        return Calibration(0.0, 0.0, lost, shift)
    share = OUTPUT_SHARE if distance else 0.0
    room = epsilon * (1 - RESERVE if delta else 1 - share)
    reach = float(lipschitz) * float(radius)
    if delta == 0 and shift < room:
        unit = (room - shift) / row.n_moved
        if saturating:
            unit = _pure_unit(room, curvature, row, unit)
        scale, shift = reach / unit * _MARGIN, max(0.0, room - row.n_moved * unit)
        output = 2 * distance / (share * epsilon) * _MARGIN if share else 0.0
        return Calibration(scale, output, PureDP(epsilon), shift)
    found = None
    if shift < room:
        profiles = saturating_profiles(curvature, room, vertices) if saturating else []
        profiles.append(flat_profile(shift))
        on_segment = vertices == rank == 1
        search = _Search(row, share, room, delta * (1 - RESERVE), curvature if on_segment else None)
        found = search.best(profiles)
    if found is None:
        raise CurvatureError(
            f"regularization={regularization!r} is too small for epsilon={epsilon!r}: the "
            f"curvature that one row adds costs epsilon={shift:.4g}, whatever the noise. Raise "
            f"regularization to about {_enough(shift, epsilon, rank) * regularization:.4g}, or "
            "raise epsilon."
        )
    unit, shift, mechanism = found
    output = 2 * distance / (unit * math.sqrt(share)) * _MARGIN if share else 0.0
    return Calibration(reach / unit * _MARGIN, output, mechanism, shift)


def _pure_unit(room: float, curvature: float, row: _Corners, least: float) -> float:
    """Return E, the part of epsilon for one row's noise, of a loss that saturates."""

    def fits(unit: float) -> bool:
        gap = unit * row.steepness()
        profile = _profile((gap, gap), curvature, row.vertices)
        return all(unit * row.longest(s) + height <= room for s, height in profile)

    most = room / row.longest(0.0)
    return most if fits(most) else bisect(fits, least, most, halvings=_HALVINGS)


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


@dataclass(frozen=True)
class _Corners:
    """What one row's gradients can be: the hull of zero and some corners."""

    vertices: int
    hull: str
    adjacency: str

    @property
    def n_moved(self) -> int:
        """How many rows come or go between neighbours."""
        return 2 if self.adjacency == "replace_one" else 1

    def lengths(self, s: float) -> list[tuple[float, float]]:
        """Return the (weight, length) of all differences from the points s of a profile.

        Lengths are in units of Z: how far the row, or the two rows that are exchanged, move b.
        """
        m, replaced = float(self.vertices), self.adjacency == "replace_one"
        if m == 1:
            return [(1.0, 2 - s), (1.0, 1 - s)] if replaced else [(1.0, 1 - s)]
        if 0 < s < 1:
            return self._from_middles(m, replaced)
        if not replaced:
            return [(1.0, 0.0)] if s else [(m, 1.0)]
        if self.hull == "symmetric":
            return [(1.0, 0.0)] if s else [(m * m / 2, 2.0), (m * m / 2, math.sqrt(2))]
        if s:
            return [(1.0, 0.0), (m, 1.0)]
        if self.hull == "simplex":
            return [(m, 2.0), (m * m - m, math.sqrt(3)), (m, 1.0)]
        return [(m * m, 2.0), (m, 1.0)]

    def _from_middles(self, m: float, replaced: bool) -> list[tuple[float, float]]:
        pairs = m * (m - 1) / 2
        alone = [(pairs, math.sqrt(3) / 2)]
        if not replaced:
            return alone
        return [(2 * pairs, math.sqrt(13) / 2), (pairs * (m - 2), math.sqrt(11) / 2), *alone]

    def longest(self, s: float) -> float:
        """Return the largest length at s."""
        return max(length for _, length in self.lengths(s))

    def steepness(self) -> float:
        """Return the slope, over E, of the profile at which pure noise costs the least."""
        if self.vertices == 1:
            return 1.0
        return 2 * (self.longest(0.0) - self.longest(0.5))


def gaussian_terms(
    unit: float, profile: Profile, vertices: int, hull: str, adjacency: str
) -> tuple[tuple[float, float, float], ...]:
    """Return the (weight, mu, shift) of all corners of the differences that one row makes.

    Parameters
    ----------
    unit : float
        Z, of one corner.
    profile : tuple of (s, height)
        `flat_profile`, or one of `saturating_profiles`.
    vertices, hull, adjacency
        As of `calibrate`.
    """
    row = _Corners(vertices, hull, adjacency)
    return tuple(
        (weight, length * unit, height)
        for s, height in profile
        for weight, length in row.lengths(s)
        if weight
    )


def flat_profile(shift: float) -> Profile:
    """Return the profile of a loss that does not saturate: all corners are charged c."""
    return ((0.0, shift), (1.0, shift))


def saturating_profiles(curvature: float, epsilon: float, vertices: int = 1) -> list[Profile]:
    """Return some profiles of a loss that saturates, with heights of at most `epsilon`.

    Parameters
    ----------
    curvature : float
        k = beta R^2 / Lambda, with c below `epsilon`.
    epsilon : float
    vertices : int, default=1
        m: 1 for a margin loss, or those of softmax.
    """

    def fits(gap: float) -> bool:
        return gap + _shift_beyond(gap, curvature, vertices) <= epsilon

    steepest = largest = 4 * curvature
    if not fits(largest):
        largest = bisect(fits, 0.0, largest, halvings=_HALVINGS)
    steeper = _STEEPER if vertices == 1 else _STEEPER[:1]
    slopes = (
        (min(times * part * largest, steepest), part * largest)
        for times in steeper
        for part in _SLOPES
    )
    return [_profile(s, curvature, vertices) for s in dict.fromkeys(slopes)] if largest else []


def _profile(slopes: tuple[float, float], curvature: float, vertices: int) -> Profile:
    """Return the corners of the polygon below two tangents, or one, of falling slopes."""
    first, last = slopes
    high, low = (_shift_beyond(gap, curvature, vertices) for gap in slopes)
    ends = (0.0, high), (1.0, low + last)
    if vertices == 1 and first == last:
        return ends
    middle = (low - high) / (first - last) if first > last else 0.5
    return (ends[0], (middle, high + first * middle), ends[1])


def _shift_beyond(gap: float, curvature: float, vertices: int = 1) -> float:
    """Return a(g), rounded up: the least a for which ell is at most ``a + g min(s, 1/2)``."""
    m, k = vertices, 2 * curvature
    top = k * (m + 1) / m

    def slope(s: float) -> float:
        return (m - 1) * k / (m + k * s) + top * (1 - 2 * s) / (1 + top * s * (1 - s)) - gap

    if slope(0.0) <= 0:  # of a concave function
        return 0.0
    s = bisect(lambda s: slope(s) >= 0, 0.0, 0.5)
    value = (m - 1) * math.log1p(k * s / m) + math.log1p(top * s * (1 - s)) - gap * s
    value += slope(s) * (0.5 - s)  # it lies below its tangents
    even = m * math.log1p(k / (m + 1)) - gap / 2
    return max(0.0, value, even) * _MARGIN


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
    """For the largest Z, which is the least noise, at a target.

    `curvature` is k of a row whose gradients lie on one segment, else None.
    """

    row: _Corners
    output_share: float
    epsilon: float
    delta: float
    curvature: float | None

    def mechanism(self, unit: float, profile: Profile, *, on_segment: bool = False) -> Mechanism:
        row = self.row
        terms = gaussian_terms(unit, profile, row.vertices, row.hull, row.adjacency)
        output = GaussianDP(unit * math.sqrt(self.output_share))
        exact: Mechanism = ShiftedGaussianDP(terms)
        if on_segment and self.curvature is not None:
            exact = SegmentDP(unit, self.curvature, rows=row.n_moved, terms=terms)
        return compose([exact, output]) if self.output_share else exact

    def holds(self, unit: float, profile: Profile) -> bool:
        return self.mechanism(unit, profile).delta(self.epsilon) <= self.delta

    def best(self, profiles: list[Profile]) -> tuple[float, float, Mechanism] | None:
        """Return the largest Z of all profiles, with its shift and mechanism, or None."""
        best, chosen = 0.0, profiles[-1]
        for profile in profiles:
            # A profile that does not gain a thousandth is not worth a search.
            if best and not self.holds(best * 1.001, profile):
                continue
            unit = self.largest(profile)
            if unit > best:
                best, chosen = unit, profile
        if self.curvature is not None and self.row.n_moved == 1:
            best = max(best, self.largest(chosen, on_segment=True))
        if not best:
            return None
        return best, chosen[0][1], self.mechanism(best, chosen, on_segment=True)

    def largest(self, profile: Profile, *, on_segment: bool = False) -> float:
        """Return the largest Z, rounded down, or 0."""

        def delta(unit: float) -> float:
            return self.mechanism(unit, profile, on_segment=on_segment).delta(self.epsilon)

        low = high = gdp_mu(self.epsilon, self.delta)
        least = 1e-9 * high
        while delta(low) > self.delta:
            low, high = low / 2, low
            if low < least:
                return 0.0
        return low if low == high else at_most(delta, self.delta, low, high)


def _enough(shift: float, epsilon: float, rank: int) -> float:
    """Return by what to multiply a regularization that is too small: c a tenth, and no less."""
    return max(2.0, math.expm1(shift / rank) / math.expm1(0.1 * epsilon / rank))


def _curvature(smoothness: float, rank: int, trace: float | None) -> float:
    if not (0 <= smoothness < math.inf and rank >= 1):
        raise ValueError(
            f"smoothness must be finite and rank at least 1, got {smoothness!r} and {rank!r}. "
            "Take a loss without a kink, such as HuberizedHinge."
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
    if saturating and (rank != vertices or (hull != "simplex" and vertices > 1)):
        raise ValueError(
            "saturating=True needs vertices=1 and rank=1, or hull='simplex' and rank=vertices; got "
            f"vertices={vertices!r}, hull={hull!r} and rank={rank!r}."
        )
