"""Mechanisms: what a release costs, as curves of epsilon and delta.

A `Mechanism` is a privacy cost. Each kind knows its own curve (epsilon at a delta, and delta at an
epsilon), what it makes together with another, what it adds up to in a ledger, and how it is
written to a file. So nothing outside asks which kind a mechanism is.

To add a kind, write one subclass with a `kind`, `epsilon` and `delta`, in one file: it composes
(by basic composition at worst), prints, and is read back from files. All else that it knows makes
it cheaper, and is one method each: `price` for ledgers, `compose_with` for sums in closed form,
`renyi_divergence` for numerical accounting. That is by dp-accounting's distributions of privacy
losses (PLD), or by Renyi divergences: mechanisms are asked for what they know (`loss_width`).

References
----------
.. [1] Dong, Roth and Su (2022), "Gaussian differential privacy", JRSS-B, Corollary 1.
.. [2] Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential
       privacy", Proposition 12.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import reduce
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, expit, log_ndtr, ndtr, ndtri

from .._bounded import check_nested
from .._computing import TINY, Floats
from .._html import some_of

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


ADJACENCIES = ("add_remove", "replace_one")
# The largest cost in a description. No release has an epsilon above 1e20; this leaves room for the
# sums of a ledger, and its square for the arithmetic.
LARGEST_COST = 1e30
# Lists and dicts in one another in a description. `compose` and `parallel` make costs of 5 levels;
# each composition in a composition has two more, and takes twice as long.
DEEPEST_COST = 16
# The largest `GaussianDP.log_ratio`, which is about 1e-12: the exponential of more is no number.
LARGEST_LOG_RATIO = 100.0
# Epsilons are reported from above: brentq stops within this of the root.
_EPSILON_TOLERANCE = 1e-12
_LARGEST_LOG_OF_FLOAT = 700.0
# Orders less one between which the best claim of Renyi divergences is searched for.
RENYI_ORDERS = np.geomspace(1e-6, 1e8, 128)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class Cost(NamedTuple):
    """What adds up: every component does under composition, and is maximised over disjoint data.

    `pure` is infinite where a part is not pure; `square` is mu**2, or 2 rho under zCDP, and
    infinite where the accountant knows no bound.
    """

    pure: float = 0.0
    square: float = 0.0
    log_ratio: float = 0.0
    tail: float = 0.0


def add(costs: Iterable[Cost]) -> Cost:
    """Return the cost of all, each adaptively chosen."""
    return Cost(*map(math.fsum, zip(*costs, strict=True)))


def worst(costs: Iterable[Cost]) -> Cost:
    """Return the cost of all, each on its own of several disjoint data sets."""
    return Cost(*map(max, zip(*costs, strict=True)))


def register(known: dict[str, Any], name: str, cls: type) -> None:
    """Enter a class under the name by which files or strings ask for it.

    Another class under that name would answer in its place. The same one may be defined again, as
    by a cell of a notebook.
    """
    held = known.get(name, cls)
    if (held.__module__, held.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(
            f"The name {name!r} belongs to {held.__qualname__}; give {cls.__name__} another."
        )
    known[name] = cls


class Mechanism(ABC):
    """A privacy cost.

    Attributes
    ----------
    kind : str
        Its name in files. A subclass with a `kind` of its own is found by `mechanism_from_dict`.

    Examples
    --------
    A cost of your own is a dataclass that knows its curve:

    >>> from dataclasses import dataclass
    >>> from skdpsumm.privacy import GaussianDP
    >>> from skdpsumm.privacy._mechanisms import Mechanism, mechanism_from_dict
    >>> @dataclass(frozen=True)
    ... class ApproximateDP(Mechanism):
    ...     epsilon0: float
    ...     delta0: float
    ...     kind = "epsilon-delta"
    ...
    ...     def epsilon(self, delta):
    ...         return self.epsilon0 if delta >= self.delta0 else float("inf")
    ...
    ...     def delta(self, epsilon):
    ...         return self.delta0 if epsilon >= self.epsilon0 else 1.0
    >>> total = ApproximateDP(1.0, 1e-6) + GaussianDP(0.1)
    >>> mechanism_from_dict(total.to_dict()) == total
    True
    >>> total.epsilon(1e-5) == 1.0 + GaussianDP(0.1).epsilon(5e-6)
    True
    """

    kind: ClassVar[str]
    # Where it stands in a composition, so that equal ones are equal: closed sums come last.
    place: ClassVar[int] = 0
    kinds: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            register(Mechanism.kinds, cls.kind, cls)

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            if one.type in _CHECKS:
                _CHECKS[one.type](one.name, getattr(self, one.name))

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which the mechanism is (epsilon, delta)-DP."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return a delta at which the mechanism is (epsilon, delta)-DP."""

    def __add__(self, other: Mechanism) -> Mechanism:
        return compose([self, other])

    def group(self, size: int) -> Mechanism:
        """Return the cost if neighbours differ in `size` rows, in one part or in several."""
        raise ValueError(
            f"The group privacy of {self!r} is not known: set the estimator's adjacency to the "
            "ledger's, or take a cost such as PureDP or GaussianDP."
        )

    def compose_with(self, other: Mechanism) -> Mechanism | None:
        """Return the adaptive composition of both in closed form, or None if this knows none.

        The two kinds alone must decide whether there is one.
        """
        return None

    def worst_with(self, other: Mechanism) -> Mechanism | None:
        """Return a cost of the same kind that covers either, or None if this knows none."""
        return self if self == other else None

    def price(self, accountant: str) -> Cost | None:
        """Return what it adds to the total of a ledger, or None if no adaptive sum is known.

        Parameters
        ----------
        accountant : {"pure", "gdp", "zcdp"}
            What the ledger sums up, as in `PrivacyLedger`.
        """
        return None

    @property
    def slack(self) -> tuple[float, float]:
        """log_ratio and tail: how far it is from an ideal mechanism (see `GaussianDP`)."""
        return 0.0, 0.0

    def renyi_divergence(self, extra: Floats) -> Floats:
        """Return upper bounds, slack aside, of the Renyi divergences of orders ``1 + extra``."""
        cost = self.price("zcdp")
        return (1 + extra) * (math.inf if cost is None else cost.square / 2)

    @property
    def loss_width(self) -> float:
        """Length of the interval of its privacy losses, or infinity if not each loss is known.

        It decides whether a composition is accounted by `loss_distribution`.
        """
        return math.inf

    def loss_distribution(self, step: float) -> PrivacyLossDistribution:
        """Return the distribution of the privacy loss on multiples of `step`, rounded up."""
        raise TypeError(f"The distribution of the privacy loss of {self!r} is not known.")

    def as_accountable(self) -> Mechanism:
        """Return an upper bound that numerical accountants know: itself, if they know it."""
        return self

    @property
    def alternatives(self) -> tuple[Mechanism, ...]:
        """The costs of which a row pays one. Without others, it is itself alone."""
        return (self,)

    @property
    def unprotected(self) -> Unprotected | None:
        """The part without any guarantee, or None if everything is protected."""
        return None

    def noise_cost(self, blocks: Sequence[tuple[float, float, float]]) -> float:
        """Return the least cost of integer noise, in units of this one.

        Parameters
        ----------
        blocks : sequence of (float, float, float)
            L1 and L2 sensitivity, and the standard deviation of the noise, of parts of a vector.
        """
        raise ValueError(f"A sketch cannot have the cost {self!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def from_fields(cls, fields: dict[str, Any], **made: Any) -> Mechanism:
        """Rebuild from the entries of `to_dict` without `kind`, or raise ValueError.

        Parameters
        ----------
        fields : dict
            All of them are numbers.
        made : dict
            What a subclass has made of its other entries.
        """
        for number in fields.values():
            if not _is_real(number) or not 0 <= number <= LARGEST_COST:
                raise ValueError(f"Costs must be numbers from 0 to {LARGEST_COST:g}.")
        return cls(**fields, **made)


@dataclass(frozen=True)
class PureDP(Mechanism):
    """The price of a pure release: epsilon-differential privacy, with delta = 0.

    Parameters
    ----------
    epsilon0 : float
        The epsilon, at least 0.

    Examples
    --------
    >>> from skdpsumm.privacy import PureDP
    >>> (PureDP(0.3) + PureDP(0.2)).epsilon(0)
    0.5
    """

    epsilon0: float
    kind: ClassVar[str] = "pure"

    def epsilon(self, delta: float) -> float:
        check_number("delta", delta)
        # Exact for randomised response, which dominates every epsilon-DP mechanism.
        if delta <= 0 or self.epsilon0 > 700:
            return self.epsilon0
        keep = delta * (1 + math.exp(-self.epsilon0))
        return 0.0 if keep >= 1 else max(0.0, self.epsilon0 + math.log1p(-keep))

    def delta(self, epsilon: float) -> float:
        check_number("epsilon", epsilon)
        if epsilon >= self.epsilon0:
            return 0.0
        if epsilon <= -self.epsilon0:
            return -math.expm1(epsilon)
        return -math.expm1(epsilon - self.epsilon0) / (1 + math.exp(-self.epsilon0))

    def group(self, size: int) -> PureDP:
        return PureDP(size * self.epsilon0)

    def worst_with(self, other: Mechanism) -> Mechanism | None:
        return max(self, other, key=lambda p: p.epsilon0) if isinstance(other, PureDP) else None

    def price(self, accountant: str) -> Cost:
        squares = {
            "pure": lambda: math.inf,
            "gdp": lambda: pure_to_gdp(self.epsilon0) ** 2,
            "zcdp": lambda: self.epsilon0 * self.epsilon0,
        }
        return Cost(self.epsilon0, squares[accountant]())

    def renyi_divergence(self, extra: Floats) -> Floats:
        return np.minimum(super().renyi_divergence(extra), self.epsilon0)

    @property
    def loss_width(self) -> float:
        return 2 * self.epsilon0

    def loss_distribution(self, step: float) -> PrivacyLossDistribution:
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld

        parameters = common.DifferentialPrivacyParameters(self.epsilon0, 0.0)
        return pld.from_privacy_parameters(parameters, value_discretization_interval=step)

    def noise_cost(self, blocks: Sequence[tuple[float, float, float]]) -> float:
        if min(s for *_, s in blocks) == 0:
            return math.inf
        # The inverse of the standard deviation of discrete Laplace noise.
        cost = math.fsum(l1 * 2 * math.asinh(1 / (math.sqrt(2) * s)) for l1, _, s in blocks)
        return cost / self.epsilon0 if self.epsilon0 else math.inf


class NearIdeal(Mechanism):
    """A mechanism within its `slack` of an ideal one, of which a subclass knows the curve.

    Its density stays within a factor ``exp(log_ratio)`` of the ideal one's, except on events of
    probability `tail`. Hence ``delta = tail + exp(log_ratio) * ideal(epsilon - 2 * log_ratio)``.
    """

    log_ratio: float
    tail: float

    @abstractmethod
    def _ideal_epsilon(self, delta: float) -> float: ...

    @abstractmethod
    def _ideal_delta(self, epsilon: float) -> float: ...

    def epsilon(self, delta: float) -> float:
        check_number("delta", delta)
        log_ratio, tail = self.slack
        if log_ratio > _LARGEST_LOG_OF_FLOAT:
            return math.inf
        rest = (delta - tail) * math.exp(-log_ratio)
        if rest < 0:
            return math.inf
        return 0.0 if rest >= 1 else self._ideal_epsilon(rest) + 2 * log_ratio

    def delta(self, epsilon: float) -> float:
        check_number("epsilon", epsilon)
        log_ratio, tail = self.slack
        if log_ratio > _LARGEST_LOG_OF_FLOAT:
            return 1.0
        return min(1.0, tail + math.exp(log_ratio) * self._ideal_delta(epsilon - 2 * log_ratio))

    @property
    def slack(self) -> tuple[float, float]:
        return self.log_ratio, self.tail

    @property
    def _told_slack(self) -> str:
        return f", log_ratio={self.log_ratio:.2g}, tail={self.tail:.2g}" * any(self.slack)

    @classmethod
    def from_fields(cls, fields: dict[str, Any], **made: Any) -> Mechanism:
        mechanism = super().from_fields(fields, **made)
        log_ratio, tail = mechanism.slack
        if tail > 1 or log_ratio > LARGEST_LOG_RATIO:
            raise ValueError(
                f"tail, a probability, must be at most 1, and log_ratio at most "
                f"{LARGEST_LOG_RATIO:g}; got {tail!r} and {log_ratio!r}."
            )
        return mechanism


@dataclass(frozen=True, repr=False)
class GaussianDP(NearIdeal):
    """The price of Gaussian noise: mu-Gaussian differential privacy (mu-GDP).

    Discrete Gaussian noise is close to this, and `log_ratio` and `tail` say how close. The density
    of the mechanism stays within a factor ``exp(log_ratio)`` of a mu-GDP mechanism's, except on
    events of probability `tail`. Hence it is (epsilon, delta)-DP with
    ``delta = tail + exp(log_ratio) * gdp_delta(mu, epsilon - 2 * log_ratio)``.

    Parameters
    ----------
    mu : float
        The price: the sensitivity (L2) divided by the standard deviation of the noise.
    log_ratio : float, default=0.0
        Logarithm of the factor between the densities. 0 is for a mechanism that is exactly mu-GDP.
    tail : float, default=0.0
        Probability of the events left out. 0 is for a mechanism that is exactly mu-GDP.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP
    >>> GaussianDP(3.0) + GaussianDP(4.0)
    GaussianDP(mu=5)
    """

    mu: float
    log_ratio: float = 0.0
    tail: float = 0.0
    kind: ClassVar[str] = "gdp"
    place: ClassVar[int] = 1

    def _ideal_epsilon(self, delta: float) -> float:
        return gdp_epsilon(self.mu, delta)

    def _ideal_delta(self, epsilon: float) -> float:
        return gdp_delta(self.mu, epsilon)

    def group(self, size: int) -> GaussianDP:
        # The density bound is uniform in the data, so only mu grows; the core of the noise widens
        # by (size - 1) * mu standard deviations, which multiplies log_ratio by less than size**2.
        # Where this stands for several releases in parallel, the rows may be in as many of them:
        # then mu and log_ratio add up to less, and the tails to size * tail.
        tail = min(1.0, size * self.tail) if size > 1 else self.tail
        return GaussianDP(size * self.mu, size**2 * self.log_ratio, tail)

    def compose_with(self, other: Mechanism) -> Mechanism | None:
        if not isinstance(other, GaussianDP):
            return None
        log_ratio, tail = self.log_ratio + other.log_ratio, self.tail + other.tail
        return self._kind_with(other)(math.hypot(self.mu, other.mu), log_ratio, tail)

    def worst_with(self, other: Mechanism) -> Mechanism | None:
        if not isinstance(other, GaussianDP):
            return None
        pairs = zip((self.mu, *self.slack), (other.mu, *other.slack), strict=True)
        return self._kind_with(other)(*map(max, pairs))

    def _kind_with(self, other: GaussianDP) -> type[GaussianDP]:
        """Return the kind of both together, which knows no more than either of them."""
        return max(type(self), type(other), key=lambda kind: kind.place)

    def price(self, accountant: str) -> Cost | None:
        if accountant == "pure":
            return None
        # Under zCDP, too: nothing says where the slack comes from.
        return Cost(math.inf, self.mu * self.mu, self.log_ratio, self.tail)

    @property
    def loss_width(self) -> float:
        return 20 * self.mu + self.mu * self.mu  # but for some exp(-50) of the mass

    def loss_distribution(self, step: float) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_gaussian_mechanism(1 / self.mu, value_discretization_interval=step)

    def noise_cost(self, blocks: Sequence[tuple[float, float, float]]) -> float:
        if min(s for *_, s in blocks) == 0:
            return math.inf
        cost = math.sqrt(math.fsum((l2 / s) ** 2 for _, l2, s in blocks))
        return cost / self.mu if self.mu else math.inf

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mu={self.mu:.6g}{self._told_slack})"


@dataclass(frozen=True, repr=False)
class NewValuesDP(GaussianDP):
    """The price of Gaussian noise on counts of values that are released where many rows have them.

    Of two neighbours, one may have values that the other lacks. Those are released with a
    probability of at most `tail`, which the noise of all other counts does not cover. Proof and
    sensitivity are in `skdpsumm.schema._finder`.

    It has no group price: two rows together bring a new value twice as near to the threshold, and
    `tail` does not say how near that is.

    Parameters
    ----------
    mu : float
        As of `GaussianDP`, for the values that both neighbours have.
    log_ratio, tail : float
        As of `GaussianDP`. The tail includes new values.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP
    >>> from skdpsumm.privacy._mechanisms import NewValuesDP
    >>> NewValuesDP(0.3, 0.0, 1e-9) + GaussianDP(0.4)
    NewValuesDP(mu=0.5, log_ratio=0, tail=1e-09)
    """

    kind: ClassVar[str] = "gdp of new values"
    place: ClassVar[int] = 2

    def group(self, size: int) -> Any:
        return self if size == 1 else Mechanism.group(self, size)


@dataclass(frozen=True)
class ZeroConcentratedDP(Mechanism):
    """rho-zero-concentrated differential privacy."""

    rho: float
    kind: ClassVar[str] = "zcdp"
    place: ClassVar[int] = 3

    def epsilon(self, delta: float) -> float:
        check_number("delta", delta)
        return zcdp_epsilon(self.rho, delta)

    def delta(self, epsilon: float) -> float:
        check_number("epsilon", epsilon)
        return zcdp_delta(self.rho, epsilon)

    def group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(size**2 * self.rho)

    def compose_with(self, other: Mechanism) -> Mechanism | None:
        if not isinstance(other, ZeroConcentratedDP):
            return None
        return ZeroConcentratedDP(self.rho + other.rho)

    def price(self, accountant: str) -> Cost | None:
        return Cost(math.inf, 2 * self.rho) if accountant == "zcdp" else None


@dataclass(frozen=True)
class Unprotected(Mechanism):
    """No valid guarantee: epsilon is infinite, for the reason given."""

    reason: str
    kind: ClassVar[str] = "none"

    def epsilon(self, delta: float) -> float:
        check_number("delta", delta)
        return math.inf if delta < 1 else 0.0

    def delta(self, epsilon: float) -> float:
        check_number("epsilon", epsilon)
        return 0.0 if math.isinf(epsilon) else 1.0

    def group(self, size: int) -> Unprotected:
        return self

    def price(self, accountant: str) -> Cost:
        return UNBOUNDED

    @property
    def unprotected(self) -> Unprotected:
        return self

    def noise_cost(self, blocks: Sequence[tuple[float, float, float]]) -> float:
        return 0.0

    @classmethod
    def from_fields(cls, fields: dict[str, Any], **made: Any) -> Mechanism:
        mechanism = cls(**fields)
        if not isinstance(mechanism.reason, str):
            raise ValueError("The reason of an unprotected cost must be text.")
        return mechanism


UNBOUNDED = Cost(math.inf, math.inf)


def mechanism_from_dict(description: dict[str, Any]) -> Mechanism:
    """Rebuild a mechanism from its `to_dict`.

    Parameters
    ----------
    description : dict

    Returns
    -------
    Mechanism

    Raises
    ------
    ValueError
        If the description is none of a mechanism, or a cost in it is no number from 0 to
        `LARGEST_COST`.

    Examples
    --------
    >>> from skdpsumm.privacy import PureDP
    >>> from skdpsumm.privacy._mechanisms import mechanism_from_dict
    >>> mechanism_from_dict(PureDP(0.5).to_dict())
    PureDP(epsilon0=0.5)
    """
    # Whatever a constructor may make of entries that are not its own.
    wrong = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
    try:
        check_nested(description, deepest=DEEPEST_COST)
        return from_description(dict(description))
    except wrong as error:
        raise ValueError(
            f"The description must be one that the `to_dict` of a mechanism returned. {error}"
        ) from error


def from_description(fields: dict[str, Any]) -> Mechanism:
    """Rebuild a mechanism, or raise some error; takes `fields` apart."""
    return Mechanism.kinds[fields.pop("kind")].from_fields(fields)


def check_cost(name: str, value: Any) -> None:
    """Raise ValueError for what is no number of at least 0; infinity is one."""
    if not _is_real(value) or not value >= 0:
        raise ValueError(f"{name} must be a number of at least 0, got {value!r}.")


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_positive(**numbers: float) -> None:
    """Raise ValueError for what is no finite number above 0."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be a positive and finite number, got {number!r}.")


def check_count(name: str, count: Any) -> None:
    """Raise ValueError for what is no integer of at least 1."""
    if not (isinstance(count, Integral) and int(count) >= 1):
        raise ValueError(f"{name} must be an integer of at least 1, got {count!r}.")


# What the dataclasses of this package hold, by the annotation of the field.
_CHECKS: dict[Any, Any] = {"float": check_cost, "int": check_count}
_CHECKS |= {float: check_cost, int: check_count}  # where annotations are no texts


def check_number(name: str, value: float) -> None:
    """Raise ValueError for NaN."""
    if math.isnan(value):
        raise ValueError(f"{name} must be a number, got {value!r}.")


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta at which a mu-GDP mechanism is (epsilon, delta)-DP."""
    if mu == 0:
        return max(0.0, 1.0 - math.exp(epsilon)) if epsilon < 0 else 0.0
    if math.isinf(mu):
        return 1.0
    if mu < 0.1 and epsilon >= 0:
        return _small_gdp_delta(mu, epsilon)
    keep = ndtr(mu / 2 - epsilon / mu)
    give = math.exp(min(epsilon + log_ndtr(-mu / 2 - epsilon / mu), 0.0))
    return float(min(1.0, max(0.0, keep - give)))


def _small_gdp_delta(mu: float, epsilon: float) -> float:
    """Return `gdp_delta` where its two terms would cancel.

    With a = epsilon / mu - mu / 2, phi(a) = exp(epsilon) phi(a + mu), and Mills' ratio R, it is
    ``phi(a) (R(a) - R(a + mu))``; the difference is the integral of ``1 - u R(u)``.
    """
    a = epsilon / mu - mu / 2
    if a > 40:  # the density underflows
        return 0.0
    u = a + mu * (1 + _NODES) / 2
    slope = 1 - u * math.sqrt(math.pi / 2) * erfcx(u / math.sqrt(2))
    density = math.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    return max(0.0, density * mu / 2 * float(_WEIGHTS @ slope))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which a mu-GDP mechanism is (epsilon, delta)-DP."""
    if mu == 0 or delta >= 1:
        return 0.0
    if math.isinf(mu) or delta <= 0:
        return math.inf
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    # Phi(mu/2 - eps/mu) alone bounds delta, and gives the upper end of the bracket.
    high = mu * (mu / 2 - float(ndtri(delta))) * (1 + 1e-9) + 1e-9
    if math.isinf(high):
        return math.inf
    near = _EPSILON_TOLERANCE * min(mu, 1.0)
    root = brentq(lambda e: gdp_delta(mu, e) - delta, 0.0, high, xtol=near, rtol=_EPSILON_TOLERANCE)
    return root * (1 + 2 * _EPSILON_TOLERANCE) + near


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose mechanism is (epsilon, delta)-DP (analytic Gaussian).

    Use it to compare Gaussian noise at two budgets: the standard deviation grows as 1 / mu.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. An infinite epsilon gives an infinite mu.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdpsumm.privacy import gdp_mu
    >>> round(gdp_mu(1.0, 1e-6), 3)
    0.237
    """
    if math.isinf(epsilon):
        return math.inf
    low, high = 0.0, 1.0
    while gdp_delta(high, epsilon) < delta:
        low, high = high, 2 * high
    options = {"xtol": 1e-300, "rtol": _EPSILON_TOLERANCE, "maxiter": 2000}
    mu = brentq(lambda m: gdp_delta(m, epsilon) - delta, low, high, **options)
    return mu * (1 - 1e-11)


def pure_to_gdp(epsilon: float) -> float:
    """Return the mu of the Gaussian that dominates every epsilon-DP mechanism.

    The trade-off curve of epsilon-DP has one kink, at ``1 / (1 + exp(epsilon))`` on the diagonal.
    A Gaussian curve is convex, so it lies below the whole curve as soon as it lies below the kink.
    """
    if epsilon < 1e-6:  # where 1/2 + epsilon/4 has few digits left: the tangent lies above
        return epsilon * math.sqrt(math.pi / 2) * (1 + 1e-12)
    return -2 * float(ndtri(expit(-epsilon)))


def renyi_epsilon(
    divergence: Callable[[Floats], Floats], delta: float, extra: Floats = RENYI_ORDERS
) -> float:
    """Return an epsilon that follows from Renyi divergences.

    Canonne, Kamath and Steinke (2020), Proposition 12. Every order gives a valid epsilon, so that
    the search for the best one needs no proof.

    Parameters
    ----------
    divergence : callable
        Takes orders less one, and returns upper bounds of the divergences.
    delta : float
        In (0, 1).
    extra : ndarray
        Increasing orders less one, between which the best one is searched for.
    """

    def epsilons(extra: Floats) -> Floats:
        order = 1 + extra
        return divergence(extra) + np.log(extra / order) - (math.log(delta) + np.log(order)) / extra

    return max(0.0, float(np.min(epsilons(_refined(epsilons, extra)))))


def renyi_delta(
    divergence: Callable[[Floats], Floats], epsilon: float, extra: Floats = RENYI_ORDERS
) -> float:
    """Return a delta that follows from Renyi divergences; as `renyi_epsilon`."""

    def log_deltas(extra: Floats) -> Floats:
        gain = divergence(extra) - epsilon - np.log1p(1 / extra)
        return extra * gain - np.log1p(extra)

    best = float(np.min(log_deltas(_refined(log_deltas, extra))))
    return max(math.exp(min(best, 0.0)), TINY)  # no order gives a delta of 0


def _refined(values: Callable[[Floats], Floats], grid: Floats) -> Floats:
    """Return a finer grid around the point of the smallest value."""
    for _ in range(4):
        best = int(np.argmin(values(grid)))
        grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)], 33)
    return grid


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta at which every rho-zCDP mechanism is (epsilon, delta)-DP."""
    if rho == 0 or math.isinf(rho):
        return 1.0 if rho else 0.0
    return renyi_delta(lambda extra: (1 + extra) * rho, epsilon)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon at which every rho-zCDP mechanism is (epsilon, delta)-DP."""
    if rho == 0 or delta >= 1:
        return 0.0
    if math.isinf(rho) or delta <= 0:
        return math.inf
    return renyi_epsilon(lambda extra: (1 + extra) * rho, delta)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose conversion gives (epsilon, delta)-DP."""
    if math.isinf(epsilon):
        return math.inf
    high = 1.0
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2
    options = {"xtol": 1e-300, "rtol": 1e-10, "maxiter": 2000}
    rho = brentq(lambda r: zcdp_epsilon(r, delta) - epsilon, 0.0, high, **options)
    return rho * (1 - 1e-9)


# ---- what several cost together: in closed form, by basic composition, or numerically


class _Several(Mechanism):
    """What compositions of either kind have in common."""

    parts: tuple[Mechanism, ...]
    # What the parts' costs make together, one component at a time.
    total: ClassVar[staticmethod[[Iterable[float]], float]]

    def price(self, accountant: str) -> Cost | None:
        known = [cost for part in self.parts if (cost := part.price(accountant)) is not None]
        together = map(self.total, zip(*known, strict=True))
        return Cost(*together) if len(known) == len(self.parts) else None

    def __repr__(self) -> str:
        return self._told(2)

    def _told(self, depth: int) -> str:
        if not depth:
            return f"{type(self).__name__}(...)"
        told = some_of(
            self.parts, lambda one: one._told(depth - 1) if isinstance(one, _Several) else repr(one)
        )
        return f"{type(self).__name__}(parts=({told}))"

    @property
    def slack(self) -> tuple[float, float]:
        log_ratios, tails = zip(*(part.slack for part in self.parts), strict=True)
        return self.total(log_ratios), self.total(tails)

    @property
    def unprotected(self) -> Unprotected | None:
        return _unprotected(self.parts)

    def group(self, size: int) -> Mechanism:
        # In parallel, too: the rows may lie in different parts, so every part may be touched.
        return compose([part.group(size) for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], **made: Any) -> Mechanism:
        parts = tuple(from_description(dict(part)) for part in fields.pop("parts"))
        if not parts or fields:
            raise ValueError(f"A {cls.kind} mechanism must have one entry, parts, a list of costs.")
        return cls(parts)  # type: ignore[call-arg]


@dataclass(frozen=True, repr=False)
class Composed(_Several, NearIdeal):
    """Sequential composition of unlike mechanisms.

    Its epsilon and delta are the smallest of several upper bounds: basic composition; the Gaussian
    that dominates, and the sum of the Renyi divergences, where all parts have one; and the
    composition of the distributions of privacy losses, where all parts have one.
    """

    parts: tuple[Mechanism, ...]
    kind: ClassVar[str] = "composed"
    total = staticmethod(math.fsum)

    def epsilon(self, delta: float) -> float:
        dominating = [bound.epsilon(delta) for bound in self._dominating]
        return min(super().epsilon(delta), self._basic_epsilon(delta), *dominating)

    def delta(self, epsilon: float) -> float:
        dominating = [bound.delta(epsilon) for bound in self._dominating]
        return min(super().delta(epsilon), self._basic_delta(epsilon), *dominating)

    def renyi_divergence(self, extra: Floats) -> Floats:
        counts = Counter(self.parts).items()
        return np.sum([n * part.renyi_divergence(extra) for part, n in counts], axis=0)

    @property
    def _dominating(self) -> list[Mechanism]:
        cost = self.price("gdp")
        known = cost is not None and math.isfinite(cost.square)
        return [GaussianDP(math.sqrt(cost.square), *cost[2:])] if known and cost else []

    def _split(self) -> tuple[float, list[Mechanism]]:
        """Return what the pure parts sum to, and what basic composition adds to that."""
        pure = [part.epsilon(0.0) for part in self.parts]
        rest = [part for part, e in zip(self.parts, pure, strict=True) if math.isinf(e)]
        if 1 < len(rest) < len(self.parts):
            rest = [Composed(tuple(rest))]
        return math.fsum(e for e in pure if math.isfinite(e)), rest

    def _basic_epsilon(self, delta: float) -> float:
        pure, rest = self._split()
        if not rest or delta <= 0:
            return pure if not rest else math.inf
        return pure + math.fsum(part.epsilon(delta / len(rest)) for part in rest)

    def _basic_delta(self, epsilon: float) -> float:
        pure, rest = self._split()
        if epsilon < pure:
            return 1.0
        return min(1.0, math.fsum(part.delta((epsilon - pure) / len(rest)) for part in rest))

    def _ideal_epsilon(self, delta: float) -> float:
        """Return an epsilon of the composition without slack, by divergences and numerically."""
        if delta <= 0 or delta >= 1:
            return 0.0 if delta >= 1 else math.inf
        found = self._numerical()
        numerical = math.inf if found is None else float(found.get_epsilon(delta))
        return min(renyi_epsilon(self.renyi_divergence, delta), numerical)

    def _ideal_delta(self, epsilon: float) -> float:
        if epsilon < 0:  # neighbours are so in both orders
            return -math.expm1(epsilon) + math.exp(epsilon) * self._ideal_delta(-epsilon)
        if math.isinf(epsilon):
            return 0.0
        found = self._numerical()
        numerical = 1.0 if found is None else float(found.get_delta(epsilon))
        return min(renyi_delta(self.renyi_divergence, epsilon), numerical)

    def _numerical(self) -> LossDistribution | None:
        """Return what numerical accounting can say; None where that is nothing."""
        parts = [part.as_accountable() for part in self.parts]
        counts = list(Counter(part for part in parts if part.loss_width > 0).items())
        step = _step(counts)
        return LossDistribution(counts, step) if step <= 1.0 else None


@dataclass(frozen=True, repr=False)
class Worst(_Several):
    """Parallel composition: each row is touched by one of the parts, nobody knows which."""

    parts: tuple[Mechanism, ...]
    kind: ClassVar[str] = "worst"
    total: ClassVar[staticmethod[[Iterable[float]], float]] = staticmethod(max)

    def epsilon(self, delta: float) -> float:
        return max(part.epsilon(delta) for part in self.parts)

    def delta(self, epsilon: float) -> float:
        return max(part.delta(epsilon) for part in self.parts)

    def renyi_divergence(self, extra: Floats) -> Floats:
        return np.max([part.renyi_divergence(extra) for part in self.parts], axis=0)

    @property
    def alternatives(self) -> tuple[Mechanism, ...]:
        return tuple(one for part in self.parts for one in part.alternatives)

    def noise_cost(self, blocks: Sequence[tuple[float, float, float]]) -> float:
        return max(part.noise_cost(blocks) for part in self.parts)


def compose(parts: Iterable[Mechanism]) -> Mechanism:
    """Return the sequential (adaptive) composition of `parts`, in closed form where one exists.

    Parameters
    ----------
    parts : iterable of Mechanism

    Returns
    -------
    Mechanism

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP, PureDP
    >>> from skdpsumm.privacy._mechanisms import compose
    >>> compose([GaussianDP(3.0), GaussianDP(4.0)])
    GaussianDP(mu=5)
    >>> round(compose([PureDP(0.1), GaussianDP(0.2)]).epsilon(1e-6), 2)
    0.91
    """
    sequences = [part.parts if isinstance(part, Composed) else (part,) for part in parts]
    flat = [one for sequence in sequences for one in sequence if one != PureDP(0.0)]
    if lost := _unprotected(flat):
        return lost
    for i, part in enumerate(flat):
        if part.alternatives != (part,):
            rest = [*flat[:i], *flat[i + 1 :]]
            return Worst(tuple(compose([*rest, one]) for one in part.alternatives))
    # Their kinds alone decide whether two add up.
    return _joined(Composed, flat, lambda one, other: one.compose_with(other), type)


def parallel(parts: Iterable[Mechanism]) -> Mechanism:
    """Return the cost of releases on disjoint sets of rows.

    Parameters
    ----------
    parts : iterable of Mechanism

    Returns
    -------
    Mechanism

    Examples
    --------
    >>> from skdpsumm.privacy import PureDP
    >>> from skdpsumm.privacy._mechanisms import parallel
    >>> parallel([PureDP(0.1), PureDP(0.4)])
    PureDP(epsilon0=0.4)
    """
    flat = [one for part in parts for one in part.alternatives]
    if lost := _unprotected(flat):
        return lost
    # One of each kind that has a largest: a sum of many sketches states a short cost.
    return _joined(Worst, flat, lambda one, other: one.worst_with(other), id)


def _joined(
    kind: type[Composed] | type[Worst],
    parts: Iterable[Mechanism],
    pair: Callable[[Mechanism, Mechanism], Mechanism | None],
    sort: Callable[[Mechanism], Any],
) -> Mechanism:
    """Return parts of which any two are replaced by their `pair`, where there is one.

    Of parts of the same `sort` only the first is asked for it.
    """
    total: list[Mechanism] = []
    first: dict[Any, int] = {}
    for part in sorted(parts, key=lambda part: part.place):
        for known, i in first.items():
            both = pair(total[i], part) or pair(part, total[i])
            if both is not None:
                total[i] = both
                first[sort(both)] = first.pop(known)
                break
        else:
            first.setdefault(sort(part), len(total))
            total.append(part)
    return kind(tuple(total)) if len(total) > 1 else next(iter(total), PureDP(0.0))


def _unprotected(parts: Iterable[Mechanism]) -> Unprotected | None:
    return next((part.unprotected for part in parts if part.unprotected), None)


class LossDistribution:
    """The composition of parts by their discretised privacy loss distributions.

    Pure parts that are small against the distance of two points are not put on them, but added to
    epsilon (basic composition), which is an upper bound as well.

    Parameters
    ----------
    counts : list of (mechanism, int)
        Unlike parts and how often each occurs, all with a finite `loss_width`.
    step : float
        Distance of two points.
    """

    def __init__(self, counts: list[tuple[Mechanism, int]], step: float):
        # A part that lies on fewer points from zero is rounded up too much, and left out.
        least = 20 * step
        small = [(p.epsilon(0.0), n) for p, n in counts if p.epsilon(0.0) < least]
        kept = [(p, n) for p, n in counts if p.epsilon(0.0) >= least]
        self._added = math.fsum(epsilon * n for epsilon, n in small)
        step = _dividing(step, min((p.epsilon(0.0) for p, _ in kept), default=math.inf))
        curves = [p.loss_distribution(step).self_compose(n) for p, n in kept]
        self._curve = reduce(lambda a, b: a.compose(b), curves) if curves else None

    def get_epsilon(self, delta: float) -> float:
        """Return an epsilon at a delta above 0."""
        found = 0.0 if self._curve is None else float(self._curve.get_epsilon_for_delta(delta))
        return found + self._added

    def get_delta(self, epsilon: float) -> float:
        """Return a delta at an epsilon of at least 0."""
        if epsilon < self._added:
            return 1.0
        if self._curve is None:
            return 0.0
        return float(self._curve.get_delta_for_epsilon(epsilon - self._added))


def _step(counts: list[tuple[Mechanism, int]]) -> float:
    """Return a distance of points that is fine, unless they would be too many.

    It is infinite where the losses of a part are not known.
    """
    # Summed independent losses concentrate: beyond ten standard deviations hardly any is left.
    width = math.fsum(p.loss_width * min(n, 10 * math.sqrt(n)) for p, n in counts)
    pure = [p.epsilon(0.0) / 100 for p, _ in counts if math.isfinite(p.epsilon(0.0))]
    # There are up to 2**17 points of a loss distribution: one of a Gaussian takes about 2
    # microseconds to make. Their distance is at most 1e-4, unless there would be too many.
    return max(min([1e-4, *pure]), width / 2**17)


def _dividing(step: float, epsilon: float) -> float:
    """Return the next smaller step of which `epsilon` is a multiple, so that it is not rounded."""
    if math.isinf(epsilon):
        return step
    count = math.ceil(epsilon / step)
    while epsilon / (epsilon / count) != count:
        count += 1
    return epsilon / count
