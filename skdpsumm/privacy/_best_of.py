r"""What the best of a random number of private runs reveals.

Q is a base run: it draws its own candidate, fits, scores, and returns all of that. K is drawn
without looking at the data, Q is run K times, independently and each time alike, and the result of
the best score is released: not K, and nothing of the others. docs/proofs.md states the theorems
below in a box.

*Density.* Order results by score, equal ones by a coin. With f(z) = E[z^K], the best of K lies in a
top set of mass s under Q with probability ``H(s) = 1 - f(1 - s)``. So its density is h = H' times
that of Q, taken at the mass S of all better results. h falls from h(0) = E[K].

*Exact profile of mu-GDP runs.* Neighbours have the runs Q and Q', and the searches P and P'. For
mu-GDP runs, ``g(Q(A)) <= Q'(A) <= G(Q(A))`` for every set A of results, with
``g(q) = Phi(Phi^-1(q) - mu)`` and ``G(n) = Phi(Phi^-1(n) + mu)``. Take an event E. Going down from
the top, let q and n be the masses under Q of what has been met in E and outside of it, and q', n'
those under Q'. Let h(s) be h(1) for s > 1. Then

    P(E)  = int h(q + n) dq,
    P'(E) = int h(q' + n') dq' >= int h(q' + G(n)) dq' >= int h(g(q) + G(n)) dg(q).

First, h falls and n' <= G(n). Second, with m = G(n) and by parts,
``int h(a + m) da = H(a + m) at the end - int h(a + m) dm``; both terms grow if a path a grows
everywhere, and q' is nowhere below g(q). So for every real epsilon

    P(E) - exp(epsilon) P'(E) <= D(epsilon) = int_0^1 max_n w(q, n)_+ dq,
    w(q, n) = h(q + n) - exp(epsilon) g'(q) h(g(q) + G(n)),     0 <= n <= 1 - q.

*No smaller one holds*, for epsilon >= 0. Let Q be N(mu, 1) and Q' be N(0, 1). Going down, rank the
largest results, which are E, and before each of them so many of the smallest as maximise w, n*(q).
If n* grows with q, this is an order, and its search has ``P(E) - exp(epsilon) P'(E) = D``. It does:
w has one maximum in n up to where ``log h(q + n) - log h(g + G)`` is largest, and is negative
beyond if it is negative there; and at the maximum the mixed derivative of w is positive. (The tests
build this search and compute its divergence.)

*In closed form* it is at most ``E[K] delta(epsilon - c)``, where delta is that of a run and c the
largest of log(h(S) / h(S')). K is truncated negative binomial (eta > -1, 0 < gamma < 1), and h is
proportional to ``(o + s)^-(1 + eta)`` with ``o = gamma / (1 - gamma)``. As
``S' <= exp(e) S + delta(e)``, it is c = (1 + eta) e where e >= 0 solves

    (1 - gamma) delta(e) = gamma (exp(e) - 1).

These are the privacy profiles of Koskela, Redberg and Wang [1]_, with e at its optimum, and tighter
than the Renyi bounds of Papernot and Steinke [2]_. If a run is epsilon0-DP, so that e < epsilon0, a
search is (epsilon0 + c)-DP. Here they pay for pure runs, and bound the far tail of D.

*In a ledger.* The search is mu_s-GDP for the smallest mu_s whose curve is nowhere below D. As D is
exact, no smaller mu_s would do. It is what an adaptive filter of Gaussians adds up.

*The runs must be alike.* A public list in which the j-th run tries the j-th candidate is not: the
winner's place j would tell that K >= j and that j - 1 others lost, at the price of j runs. So
candidates are drawn by each run from the secret source, and all public seeds are the same in all
runs.

*Discrete noise.* A run's density is within exp(r) of an ideal one's, but for results of probability
t, and of 2 t at most in the ideal run. The result has the density h(S) times that of the run that
is seen. With top masses S and S* of the run and the ideal one, S is at most exp(r) S* + 2 t, and
the other way round. So log h moves by at most (1 + eta) (r + 2 t / o); and results of a run's tail
are seen with a probability of at most E[K] t. Runs that are not seen count no further. So a search
has this distance from the ideal one, at every epsilon and in whatever it is composed with.

References
----------
.. [1] Koskela, Redberg and Wang (2024), "Privacy profiles for private selection", ICML.
.. [2] Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential privacy", ICLR.
.. [3] Liu and Talwar (2019), "Private selection from private candidates", STOC.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from .._computing import Floats
from ._domination import DominatedByGaussian
from ._mechanisms import GaussianDP, Mechanism, PureDP, gdp_delta

# The root of an equation is raised by this, which keeps an inequality.
_ROOT_MARGIN = 1e-9
# Cells of the integral D. Its error falls with their square: here it is below 1e-4 of D.
_N_CELLS_OF_INTEGRAL = 256


@dataclass(frozen=True)
class StoppingLaw:
    """Truncated negative binomial K >= 1: ``P(k + 1) / P(k) = (1 - gamma) (k + eta) / (k + 1)``.

    Parameters
    ----------
    eta : float
        Above -1. 0 is the logarithmic law, 1 the geometric one.
    mean : float
        E[K], above 1. It decides gamma.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP, gdp_mu
    >>> from skdpsumm.privacy._best_of import StoppingLaw
    >>> law = StoppingLaw(eta=0.0, mean=10)
    >>> law.price(GaussianDP(gdp_mu(1.0, 1e-6))).epsilon(1e-6) < 1.4
    True
    """

    eta: float
    mean: float

    def __post_init__(self) -> None:
        for name, lowest in (("eta", -1.0), ("mean", 1.0)):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and lowest < value <= 1e9):
                raise ValueError(f"{name} must be above {lowest:g}, up to 1e9, got {value!r}.")
        self.gamma  # noqa: B018  no law has this mean if it raises

    @cached_property
    def gamma(self) -> float:
        """The parameter at which the mean is E[K]."""

        def excess(log_gamma: float) -> float:
            return math.log(self._mean_at(math.exp(log_gamma)) / self.mean)

        return math.exp(brentq(excess, -60.0, -1e-12, xtol=1e-14, rtol=1e-14))

    def _mean_at(self, gamma: float) -> float:
        odds = (1 - gamma) / gamma
        if self.eta == 0:
            return odds / -math.log(gamma)
        return odds * self.eta / -math.expm1(self.eta * math.log(gamma))

    @property
    def largest(self) -> float:
        """The largest h, E[K], rounded up."""
        return self._mean_at(self.gamma) * (1 + _ROOT_MARGIN)

    @property
    def _odds(self) -> float:
        return self.gamma / (1 - self.gamma)

    @property
    def _first(self) -> float:
        """P(K = 1)."""
        log = -math.log(self.gamma)
        return (1 - self.gamma) / (math.expm1(self.eta * log) / self.eta if self.eta else log)

    def draw(self, rng: np.random.Generator) -> int:
        """Return K."""
        rest, k, chance = rng.random(), 1, self._first
        while rest >= chance > 0:
            rest -= chance
            chance *= (1 - self.gamma) * (k + self.eta) / (k + 1)
            k += 1
        return k

    def won(self, better: Floats, width: Floats) -> Floats:
        """Return the chance that the best of K has a rank within `width` below `better`.

        Parameters
        ----------
        better : ndarray
            Mass of all ranks above.
        width : ndarray
            Mass of these ranks, which may be small.
        """
        start, log_gamma = self._odds + better, math.log(self.gamma)
        log = np.log1p(width / start)
        if self.eta == 0:
            return log / -log_gamma
        scale = ((1 - self.gamma) * start) ** -self.eta
        return scale * -np.expm1(-self.eta * log) / math.expm1(-self.eta * log_gamma)

    def log_density(self, better: Floats) -> Floats:
        """Return the logarithm of h, the density of the best of K to a run's."""
        return math.log(self.largest) - (1 + self.eta) * np.log1p(better / self._odds)

    def log_fall(self, better: Floats) -> Floats:
        """Return the logarithm of the rate at which log h falls, up to a constant."""
        return -np.log(self._odds + better)

    def shift(self, base: Mechanism) -> float:
        """Return c, the logarithm of the most that h can differ between neighbours."""

        def excess(epsilon: float) -> float:
            return (1 - self.gamma) * base.delta(epsilon) - self.gamma * math.expm1(epsilon)

        # At -log(gamma) the right-hand side is 1 - gamma, and delta at most 1.
        high = -math.log(self.gamma) * (1 + _ROOT_MARGIN)
        e = brentq(excess, 0.0, high, xtol=1e-15, rtol=1e-13)
        return (1 + self.eta) * (e * (1 + _ROOT_MARGIN) + 1e-15)

    def price(self, base: Mechanism) -> Mechanism:
        """Return the cost of a search whose base runs cost `base` each.

        Parameters
        ----------
        base : Mechanism
            Pure, dominated by a Gaussian, or unprotected. Of other costs no bound is known here.
        """
        if base.unprotected:
            return base
        pure = base.epsilon(0.0)
        if math.isfinite(pure):
            return PureDP(pure + self.shift(base))
        cost = base.price("gdp")
        if cost is None or math.isinf(cost.square):
            raise TypeError(
                f"A search cannot be priced for runs of {base!r}: set delta=0 on the estimator, or "
                "give it a mechanism with Gaussian noise."
            )
        return BestOf(self, math.sqrt(cost.square), *self.slack(cost.log_ratio, cost.tail))

    def slack(self, log_ratio: float, tail: float) -> tuple[float, float]:
        """Return how far a search is from that of ideal runs: its `log_ratio` and `tail`."""
        moved = (1 + self.eta) * (log_ratio + 2 * tail / self._odds)
        return log_ratio + moved, min(1.0, 2 * self.largest * tail)


@dataclass(frozen=True, repr=False)
class BestOf(DominatedByGaussian):
    """The best of a random number of runs that are mu-GDP each: the exact curve of the worst case.

    Parameters
    ----------
    law : StoppingLaw
        Of the number of runs.
    mu : float
        Of each run.
    log_ratio, tail : float, default=0
        As of `GaussianDP`, of the whole search.

    Examples
    --------
    The best of ten runs, on average, that are (1, 1e-6)-DP each; and what it adds to a ledger:

    >>> from skdpsumm.privacy import GaussianDP, gdp_mu
    >>> from skdpsumm.privacy._best_of import BestOf, StoppingLaw
    >>> search = BestOf(StoppingLaw(eta=0.0, mean=10), gdp_mu(1.0, 1e-6))
    >>> round(search.epsilon(1e-6), 2)
    1.39
    >>> round(GaussianDP(search.dominating_mu()).epsilon(1e-6), 2)
    1.95
    """

    law: StoppingLaw
    mu: float
    log_ratio: float = 0.0
    tail: float = 0.0
    kind: ClassVar[str] = "best_of"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.law, StoppingLaw):
            raise ValueError(f"law must be a StoppingLaw, got {self.law!r}.")

    def __repr__(self) -> str:
        return f"BestOf({self.law.mean:g} runs on average of mu={self.mu:.6g}{self._told_slack})"

    def _least_mu(self) -> float:
        return self.mu if self.mu in (0, math.inf) else super()._least_mu()

    @property
    def _far_tail(self) -> tuple[float, float, float]:
        return self.law.largest, self.mu, _shift(self.law, self.mu)

    def _curve(self, epsilon: float) -> float:
        return _delta(self.law, self.mu, float(epsilon))

    @classmethod
    def from_fields(cls, fields: dict[str, Any], **made: Any) -> Mechanism:
        return super().from_fields(fields, law=StoppingLaw(**fields.pop("law")))


# ---- the curve D


@lru_cache(maxsize=4096)
def _delta(law: StoppingLaw, mu: float, epsilon: float) -> float:
    """Return D at an epsilon of at least 0, rounded up."""
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    closed = min(1.0, law.largest * gdp_delta(mu, epsilon - _shift(law, mu)))
    # The closed form alone is used for larger numbers, at which normal tails underflow.
    if mu > 25.0 or epsilon > 600.0 or closed == 0:
        return closed
    return min(closed, _integral(law, mu, epsilon))


@lru_cache(maxsize=512)
def _shift(law: StoppingLaw, mu: float) -> float:
    return law.shift(GaussianDP(mu))


def _integral(law: StoppingLaw, mu: float, epsilon: float) -> float:
    """Return D at an epsilon of at least 0, from above.

    Where all results of a cell are met after the same n others, its part of the integral is a
    difference of H. That is a search, and its sum is D from below. What the maximum of w exceeds it
    by is zero where this n is the best, and grows to both sides, as the mixed derivative of w is
    positive. So it is largest at an end of the cell. Twice that is counted.
    """
    # Down to where w is surely negative, whatever was ranked before.
    last = mu / 2 + max(0.0, epsilon - _shift(law, mu)) / mu
    # The integral ends at nine standard deviations; what lies beyond is counted in full.
    highest = max(last, mu) + 9.0
    last = _last_gain(law, mu, epsilon, highest, last)
    x = highest - (highest - last) * np.linspace(0.0, 1.0, _N_CELLS_OF_INTEGRAL + 1)
    best = _best_others(law, mu, epsilon, x)
    lowest = (best[1:] + best[:-1]) / 2
    q, g = ndtr(mu - x), ndtr(-x)
    n, G = ndtr(lowest - mu), ndtr(lowest)
    won = law.won(q[:-1] + n, np.diff(q))
    lost = math.exp(epsilon) * law.won(g[:-1] + G, np.diff(g))
    inside = won > lost

    def missed(end: slice) -> Floats:
        most = np.maximum(_gain(law, mu, epsilon, x[end], best[end]), 0.0)
        counted = np.where(inside, _gain(law, mu, epsilon, x[end], lowest), 0.0)
        return np.maximum(most - counted, 0.0)

    more = 2 * np.diff(q) * np.maximum(missed(slice(0, -1)), missed(slice(1, None)))
    below = float(np.sum((won - lost)[inside]))
    # Floating-point sums of positive numbers are right up to this part of them.
    rest = law.largest * float(q[0]) + 1e-14 * float(np.sum((won + lost)[inside]))
    return below + float(np.sum(more)) + rest


def _gain(law: StoppingLaw, mu: float, epsilon: float, x: Floats, lowest: Floats) -> Floats:
    """Return w where the event has reached down to x, and all below `lowest` came before."""
    ours = law.log_density(ndtr(mu - x) + ndtr(lowest - mu))
    theirs = law.log_density(ndtr(-x) + ndtr(lowest))
    return np.exp(ours) - np.exp(epsilon + mu * (mu / 2 - x) + theirs)


def _last_gain(law: StoppingLaw, mu: float, epsilon: float, high: float, low: float) -> float:
    """Return an x next to where w falls through zero, on the way down, and at or below it."""
    for _ in range(3):
        x = np.linspace(high, low, 33)
        gains = np.flatnonzero(_gain(law, mu, epsilon, x, _best_others(law, mu, epsilon, x)) > 0)
        if not gains.size or gains[-1] == 32:
            break
        high, low = float(x[gains[-1]]), float(x[gains[-1] + 1])
    return low


def _others_of_largest_ratio(law: StoppingLaw, mu: float, x: Floats) -> Floats:
    """Return which others are best ranked before x to have h differ most between neighbours."""
    masses = _masses(mu, x)

    def slope(lowest: Floats) -> Floats:
        ours, theirs = masses(lowest)
        return mu * (mu / 2 - lowest) + law.log_fall(theirs) - law.log_fall(ours)

    return _root(slope, x)


def _best_others(law: StoppingLaw, mu: float, epsilon: float, x: Floats) -> Floats:
    """Return which others are best ranked before x: the n that maximises w, as a quantile."""
    masses = _masses(mu, x)

    def slope(lowest: Floats) -> Floats:
        ours, theirs = masses(lowest)
        fall = law.log_fall(theirs) - law.log_fall(ours)
        ratio = law.log_density(theirs) - law.log_density(ours)
        return epsilon + mu * (mu - x - lowest) + fall + ratio

    return _root(slope, _others_of_largest_ratio(law, mu, x))


def _masses(mu: float, x: Floats) -> Callable[[Floats], tuple[Floats, Floats]]:
    """Return a function of `lowest`: what is ranked before x under N(mu, 1) and N(0, 1)."""
    ours, theirs = ndtr(mu - x), ndtr(-x)  # once, for all that `_root` tries
    return lambda lowest: (ours + ndtr(lowest - mu), theirs + ndtr(lowest))


def _root(falling: Callable[[Floats], Floats], high: Floats) -> Floats:
    """Return where functions that fall up to `high` pass zero, or `high` where they do not."""
    low = np.full_like(high, -37.0)  # below all normal quantiles that are asked for
    for _ in range(28):
        middle = (low + high) / 2
        positive = falling(middle) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return (low + high) / 2
