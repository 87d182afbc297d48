r"""What objective perturbation reveals of a row whose gradients lie on one segment, nearly exactly.

A margin loss moves b, the noise for which W is the minimiser, along one direction: by h in units of
sigma, from -Z for the rows that it has wrong to 0 for those that it has right, as a function of the
row's margin alone. Where h changes, and only there, its curvature multiplies the density. At the
end of the segment, where a row is seen best, h stands still. So the two never meet for long, and
the constant ``c = log(1 + k)``, k = beta R^2 / Lambda, is a bound that no table attains.

*One dimension.* Let x be b without the row, in that direction and in units of sigma. Given all that
is orthogonal to it, whose law both tables share, W* is a monotone function of x. On one table x is
standard normal, on the other x + h(x) is, with -Z <= h <= 0 and 0 <= h' <= k: the slope of x in the
margin is at least that of Lambda, and the slope of h at most that of beta. So the tables' densities
are phi(x) and (1 + h') phi(x + h), and

    delta(epsilon) <= sup over h of the integral of F(x, h, h'),
    F(x, h, u) = [(1 + u) phi(x + h) - P]_+,    P = exp(epsilon) phi(x).

*The supremum.* F is convex in u, hence at most F_0 + u G, where F_0 = F(x, h, 0) and
G = (F(x, h, k) - F_0) / k. Let V(x, h) be the integral of G(x, t) over t from -Z to h. It vanishes
for x far away, so the integral of ``dV/dx = V_x + h' G`` along h is 0, and that of F at most that
of

    S(x, h) = F_0(x, h) - V_x(x, h).

Whatever path h takes, S at x is at most its largest value over all h in [-Z, 0]. It hangs on h only
where the curvature decides, ``phi(x + h) <= P < (1 + k) phi(x + h)``, and there, with y = x + h,

    dS/dh = ((1 + k) y phi(y) - x P) / k.

S(x, -Z) integrates to gdp_delta(Z, epsilon), so delta is at most that plus E, the integral of the
positive part of dS/dh over all such x and h. Let the loss without curvature, (x^2 - y^2) / 2, be
epsilon - v there, for 0 <= v < c. In v in place of h the positive part is ``P [(1 + k) exp(-v) -
x / y]_+ / k``. There is none for y <= 0, nor for v > epsilon; else it begins at some x = a, not
before h = -Z, which is at ``xi = l / s + s / 2`` for l = epsilon - v and s = min(Z, sqrt(2 l)), and
goes on for ever. With P dx / y = exp(v) phi(y) dy / x,

    E = 1 / k times the integral over v from 0 to min(c, epsilon) of the largest, over a >= xi, of
        (1 + k) exp(epsilon - v) Phi(-a) - exp(v) Phi(-sqrt(a^2 - 2 l)).

In the other order of the tables the curvature only helps, and delta is at most
gdp_delta(Z, epsilon).

The supremum over x one by one is attained but by paths that are too steep: the bound is within
0.2 per cent of what dynamic programming over all paths finds (examples/proofs/objective.py). For k
below about ``Z^2 / (epsilon - Z^2 / 2)`` curvature is all but free.

*A row that is replaced* goes, and another comes. What is mu-GDP for one is 2 mu-GDP for both [1]_.

References
----------
.. [1] Dong, Roth and Su (2022), "Gaussian differential privacy", Theorem 2.14 (group privacy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtr

from ._bisect import at_most, bisect
from ._mechanisms import (
    DominatedByGaussian,
    Floats,
    GaussianDP,
    Mechanism,
    check_cost,
    gdp_delta,
    gdp_epsilon,
)
from ._shifted_gaussian import ShiftedGaussianDP

# Of the integral over v. The sum is above it by less than a hundredth.
_PANELS = 1024
# Less curvature than this is charged by its constant: E would be lost in rounding.
_LEAST_CURVATURE = 1e-6
# For rounding, in relation to delta.
_MARGIN = 1 + 1e-9
# Losses of a Gaussian mechanism beside it: from so many standard deviations to so many. They are
# one of these apart, or this in epsilon.
_FROM, _TO, _APART, _MOST_STEPS = -9.0, 12.0, 0.02, 32
# Epsilons at which the curve is compared with that of one Gaussian, up to where it ends.
_CURVE_NODES, _SMALLEST_DELTA = 1024, 1e-250
_MU_TOLERANCE = 1e-6


@dataclass(frozen=True, repr=False)
class SegmentDP(DominatedByGaussian):
    """The loss of a row that moves noise along a segment, as objective perturbation does.

    Parameters
    ----------
    unit : float
        Z, how far the row moves the noise at most, in units of its standard deviation.
    curvature : float
        k, the largest part by which the row raises the curvature in its direction.
    output : float, default=0
        mu of a Gaussian mechanism that is composed with it.
    rows : int, default=1
        2 where a row is replaced: one goes, and another comes. Then `terms` give the curve, and
        the dominating Gaussian has twice the mu of one row, if `terms` have no smaller one.
    log_ratio, tail : float, default=0
        As of `GaussianDP`.
    terms : tuple of (weight, mu, shift), default=()
        Another bound of the same loss, `output` aside, as of `ShiftedGaussianDP`. By default
        curvature is charged by its constant.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP
    >>> from skdpsumm.privacy._segment import SegmentDP
    >>> one = SegmentDP(0.2, 0.03)
    >>> round(one.epsilon(1e-6) / GaussianDP(0.2).epsilon(1e-6), 3)
    1.0
    >>> one + GaussianDP(0.1)
    SegmentDP(unit=0.2, curvature=0.03, output=0.1)
    """

    unit: float
    curvature: float
    output: float = 0.0
    rows: int = 1
    log_ratio: float = 0.0
    tail: float = 0.0
    terms: tuple[tuple[float, float, float], ...] = ()
    kind: ClassVar[str] = "segment"

    def __post_init__(self) -> None:
        for name in ("unit", "curvature", "output", "log_ratio", "tail"):
            check_cost(name, getattr(self, name))
        if self.rows not in (1, 2):
            raise ValueError(f"rows must be 1 or 2, got {self.rows!r}.")
        c = math.log1p(self.curvature)
        mus = [self.unit] if self.rows == 1 else [2 * self.unit, self.unit, self.unit]
        bound = ShiftedGaussianDP(self.terms or tuple((1.0, mu, c) for mu in (*mus, 0.0)))
        object.__setattr__(self, "terms", bound.terms)

    def __repr__(self) -> str:
        rest = ", rows=2" * (self.rows == 2)
        for name in ("output", "log_ratio", "tail"):
            value = getattr(self, name)
            rest += f", {name}={value:.4g}" * (value > 0)
        return f"SegmentDP(unit={self.unit:.6g}, curvature={self.curvature:.4g}{rest})"

    def compose_with(self, other: Mechanism) -> Mechanism | None:
        """Return the adaptive composition with a Gaussian mechanism, or that of `terms`."""
        if not isinstance(other, GaussianDP):
            return self._bound.compose_with(other)
        log_ratio, tail = map(sum, zip(self.slack, other.slack, strict=True))
        output = math.hypot(self.output, other.mu)
        return replace(self, output=output, log_ratio=log_ratio, tail=tail)

    @property
    def loss_terms(self) -> tuple[tuple[float, float, float], ...]:
        return self._bound.terms

    @classmethod
    def _numbers_in(cls, fields: dict[str, Any]) -> Iterable[Any]:
        return ShiftedGaussianDP._numbers_in(fields)

    @cached_property
    def _bound(self) -> ShiftedGaussianDP:
        """The bound by `terms`, of all."""
        found = ShiftedGaussianDP(self.terms, *self.slack).compose_with(GaussianDP(self.output))
        assert isinstance(found, ShiftedGaussianDP)
        return found

    def dominating_mu(self) -> float:
        """Return a mu whose curve is nowhere below that of the release.

        What `delta` says of it may be above by less than a hundredth: it is rounded up, and between
        the epsilons where both are compared the release lies below the chord.
        """
        plain = replace(self, output=0.0, log_ratio=0.0, tail=0.0)
        return math.hypot(_dominating_unit(plain), self.output)

    def _ideal_delta(self, epsilon: float) -> float:
        bound = self._bound._ideal_delta(epsilon)
        if not self._is_bent or bound == 0:
            return bound
        if self.output:
            return min(bound, self._with_output(epsilon))
        return min(bound, float(self._deltas(np.array([epsilon]))[0]))

    def _ideal_epsilon(self, delta: float) -> float:
        high = self._bound._ideal_epsilon(delta)
        if not self._is_bent or high == 0 or math.isinf(high):
            return high
        plain = gdp_epsilon(math.hypot(self.unit, self.output), delta)  # of the path that stays
        low = plain * (1 - 1e-9)
        if self._ideal_delta(low) <= delta:
            return low
        return at_most(self._ideal_delta, delta, high, low, tolerance=1e-9)

    @property
    def _is_bent(self) -> bool:
        return self.rows == 1 and self.unit > 0 and self.curvature >= _LEAST_CURVATURE

    def _deltas(self, epsilons: Floats) -> Floats:
        """Return the curve at some epsilons, `output` aside."""
        known = segment_delta(self.unit, self.curvature, np.abs(epsilons))
        least = np.minimum(epsilons, 0.0)
        below = -np.expm1(least) + np.exp(least) * known  # the order of tables is reversed
        return np.where(epsilons < 0, below, known)

    def _with_output(self, epsilon: float) -> float:
        """Return delta with the Gaussian mechanism, whose loss takes the place of so much epsilon.

        Between two of its losses delta is below the chord, in exp(epsilon): every divergence is
        convex in it, and so is the largest of them.
        """
        mu = self.output
        n_steps = min(1 + math.ceil(mu / _APART), _MOST_STEPS)
        nodes = np.linspace(_FROM, _TO, int(_TO - _FROM) * n_steps + 1)
        losses = mu * mu / 2 + mu * nodes
        deltas, steps = self._deltas(epsilon - losses), np.diff(losses)
        mass, shifted = _mass(nodes), _mass(nodes + mu, losses[:-1])
        # Of the mass, what counts at the lower loss: exp(-loss) has the mean that it should have.
        lower = np.clip((shifted - np.exp(-steps) * mass) / -np.expm1(-steps), 0.0, mass)
        inside = deltas[:-1] @ lower + deltas[1:] @ (mass - lower)
        found = float(inside + ndtr(_FROM) * deltas[0] + ndtr(-_TO)) * _MARGIN
        return max(found, gdp_delta(math.hypot(self.unit, mu), epsilon))  # of the path that stays


@lru_cache(maxsize=512)
def _dominating_unit(segment: SegmentDP) -> float:
    """Return the mu of a segment without `output`; a search prices the same ones over and over."""
    bound = ShiftedGaussianDP(segment.terms)
    most, end = bound.dominating_mu(), bound._ideal_epsilon(_SMALLEST_DELTA)
    if segment.rows > 1:  # each is mu-GDP, on any table, and mu of a group is the sum
        one = _dominating_unit(SegmentDP(segment.unit, segment.curvature))
        return min(most, segment.rows * one)
    if not segment._is_bent or not math.isfinite(most + end):
        return most
    epsilons = np.linspace(0.0, end, _CURVE_NODES)
    bounds = np.array([bound._ideal_delta(float(e)) for e in epsilons])
    deltas = np.minimum(segment._deltas(epsilons), bounds)

    def holds(mu: float) -> bool:
        # From the end on `terms` decide.
        falls = bound._falls_from(mu) <= end and bounds[-1] <= gdp_delta(mu, end)
        return falls and _lies_below(mu, epsilons, deltas)

    least = max(segment.unit, *(mu for _, mu, _ in segment.terms)) * (1 + 1e-9)
    return bisect(holds, most, least, tolerance=_MU_TOLERANCE) if least < most else most


def segment_delta(unit: float, curvature: float, epsilons: Floats) -> Floats:
    """Return the delta of a row on a segment at some epsilons of at least 0, rounded up."""
    plain = np.array([gdp_delta(unit, float(e)) for e in epsilons])
    found = plain + _gain(unit, curvature, epsilons)
    return np.minimum(found, gdp_delta(unit, 0.0)) * _MARGIN


def _gain(unit: float, k: float, epsilons: Floats) -> Floats:
    """Return E, rounded up: in each panel of v every term is taken where it is worst."""
    v = np.minimum(math.log1p(k), epsilons)[:, None] * np.linspace(0.0, 1.0, _PANELS + 1)
    low, high = v[:, :-1], v[:, 1:]
    loss = np.maximum(epsilons[:, None] - high, 0.0)
    reach = np.minimum(unit, np.sqrt(2 * loss))
    first = np.divide(loss, reach, out=np.zeros_like(loss), where=reach > 0) + reach / 2
    # Beyond this a, what is lost for one more is less than what it gains.
    best = np.sqrt(2 * loss / -np.expm1(2 * (2 * low - high - math.log1p(k))))
    a = np.maximum(first, best)
    gain = np.exp(math.log1p(k) + epsilons[:, None] - low + log_ndtr(-a))
    gain -= np.exp(low + log_ndtr(-np.sqrt(np.maximum(a**2 - 2 * loss, 0.0))))
    return np.sum(np.maximum(gain, 0.0) * (high - low), axis=1) / k


def _mass(nodes: Floats, logs: Floats | float = 0.0) -> Floats:
    """Return normal masses between nodes, times exp(logs), with all digits in either tail."""
    low, high = nodes[:-1], nodes[1:]
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    return np.exp(logs + log_ndtr(high)) - np.exp(logs + log_ndtr(low))


def _lies_below(mu: float, epsilons: Floats, deltas: Floats) -> bool:
    """Return whether chords between points, in exp(epsilon), lie below the curve of mu-GDP.

    That is convex in exp(epsilon), and so above its tangents; between two points it is enough to
    look where the tangents meet.
    """
    curve = np.array([gdp_delta(mu, float(e)) for e in epsilons])
    if np.any(curve < deltas):
        return False
    # In units of exp(epsilon) at the left.
    width, logs = np.expm1(np.diff(epsilons)), log_ndtr(-mu / 2 - epsilons / mu)
    fall, last = (-np.exp(epsilons[:-1] + one) for one in (logs[:-1], logs[1:]))
    left, right = curve[:-1], curve[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (right - left - last * width) / ((fall - last) * width)
    meet = np.clip(np.nan_to_num(meet, nan=0.0, posinf=0.0, neginf=0.0), 0.0, 1.0)
    tangent = np.maximum(left + fall * meet * width, right + last * (meet - 1) * width)
    return bool(np.all(tangent >= deltas[:-1] * (1 - meet) + deltas[1:] * meet))
