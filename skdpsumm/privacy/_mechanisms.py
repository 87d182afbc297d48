"""What a mechanism costs: pure DP, Gaussian DP, zCDP, a dp-accounting event, and their sums.

Each class answers ``epsilon(delta)`` and ``delta(epsilon)`` with an upper bound, composes with
``+`` (adaptive sequential composition) and goes to and from a plain dictionary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import reduce
from numbers import Real
from typing import Any, ClassVar

from ._gaussian_dp import (
    gdp_delta,
    gdp_epsilon,
    zcdp_delta,
    zcdp_epsilon,
)

# Of a cost in a description. No release has an epsilon above 1e20; this leaves room for the sums of
# a ledger, and its square for the arithmetic.
LARGEST_COST = 1e30
# Of `GaussianDP.log_ratio`, which is about 1e-12: the exponential of much more is no number.
LARGEST_LOG_RATIO = 100.0


class Mechanism(ABC):
    """A privacy cost."""

    kind: ClassVar[str]

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which the mechanism is (epsilon, delta)-DP."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return a delta at which the mechanism is (epsilon, delta)-DP."""

    def __add__(self, other: Mechanism) -> Mechanism:
        return compose([self, other])

    def group(self, size: int) -> Mechanism:
        """Return the cost for neighbours that differ in `size` rows."""
        raise ValueError(f"No closed form of group privacy is known here for {self!r}.")

    def as_accountable(self) -> Mechanism:
        """Return an upper bound of a kind that numerical accountants know, itself if it is one."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class PureDP(Mechanism):
    """epsilon-differential privacy, delta = 0."""

    epsilon0: float
    kind: ClassVar[str] = "pure"

    def epsilon(self, delta: float) -> float:
        # Exact for randomised response, which dominates every epsilon-DP mechanism.
        if delta <= 0 or self.epsilon0 > 700:
            return self.epsilon0
        keep = delta * (1 + math.exp(-self.epsilon0))
        return 0.0 if keep >= 1 else max(0.0, self.epsilon0 + math.log1p(-keep))

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon0:
            return 0.0
        return -math.expm1(epsilon - self.epsilon0) / (1 + math.exp(-self.epsilon0))

    def group(self, size: int) -> PureDP:
        return PureDP(size * self.epsilon0)


@dataclass(frozen=True, repr=False)
class GaussianDP(Mechanism):
    """mu-Gaussian differential privacy, up to the distance of discrete Gaussian noise from it.

    The mechanism's density stays within a factor ``exp(log_ratio)`` of a mu-GDP mechanism's,
    except on events of probability `tail`. Hence it is (epsilon, delta)-DP with
    ``delta = tail + exp(log_ratio) * gdp_delta(mu, epsilon - 2 * log_ratio)``.
    Both are 0 for a mechanism that is exactly mu-GDP.
    """

    mu: float
    log_ratio: float = 0.0
    tail: float = 0.0
    kind: ClassVar[str] = "gdp"

    def epsilon(self, delta: float) -> float:
        rest = (delta - self.tail) * math.exp(-self.log_ratio)
        return gdp_epsilon(self.mu, rest) + (2 * self.log_ratio if self.mu else 0.0)

    def delta(self, epsilon: float) -> float:
        if self.mu == 0:
            return 0.0
        ideal = gdp_delta(self.mu, epsilon - 2 * self.log_ratio)
        return min(1.0, self.tail + math.exp(self.log_ratio) * ideal)

    def group(self, size: int) -> GaussianDP:
        # The density bound is uniform in the data, so only mu grows; the core of the noise widens
        # by (size - 1) * mu standard deviations, which multiplies log_ratio by less than size**2.
        return GaussianDP(size * self.mu, size**2 * self.log_ratio, self.tail)

    def __repr__(self) -> str:
        slack = f", log_ratio={self.log_ratio:.2g}, tail={self.tail:.2g}"
        return f"GaussianDP(mu={self.mu:.6g}{slack if self.log_ratio or self.tail else ''})"


@dataclass(frozen=True)
class ZeroConcentratedDP(Mechanism):
    """rho-zero-concentrated differential privacy."""

    rho: float
    kind: ClassVar[str] = "zcdp"

    def epsilon(self, delta: float) -> float:
        return zcdp_epsilon(self.rho, delta)

    def delta(self, epsilon: float) -> float:
        return zcdp_delta(self.rho, epsilon)

    def group(self, size: int) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(size**2 * self.rho)


@dataclass(frozen=True)
class Unprotected(Mechanism):
    """No valid guarantee: epsilon is infinite, for the reason given."""

    reason: str
    kind: ClassVar[str] = "none"

    def epsilon(self, delta: float) -> float:
        return math.inf if delta < 1 else 0.0

    def delta(self, epsilon: float) -> float:
        return 0.0 if math.isinf(epsilon) else 1.0

    def group(self, size: int) -> Unprotected:
        return self


@dataclass(frozen=True)
class EventDP(Mechanism):
    """A mechanism described by a `dp_accounting.DpEvent`.

    The event's noise multiplier must already be divided by the sensitivity under the adjacency
    that is claimed: the event is always read as add-or-remove-one.
    """

    event: Any
    kind: ClassVar[str] = "event"

    def epsilon(self, delta: float) -> float:
        return _account([self]).get_epsilon(delta) if delta > 0 else math.inf

    def delta(self, epsilon: float) -> float:
        return _account([self]).get_delta(epsilon)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "event": _event_to_dict(self.event)}


@dataclass(frozen=True)
class Composed(Mechanism):
    """Sequential composition of unlike mechanisms, accounted by dp-accounting's PLD or RDP."""

    parts: tuple[Mechanism, ...]
    kind: ClassVar[str] = "composed"

    def _slack(self) -> tuple[float, float]:
        accountable = [p.as_accountable() for p in self.parts]
        gaussians = [p for p in accountable if isinstance(p, GaussianDP)]
        return sum(p.log_ratio for p in gaussians), sum(p.tail for p in gaussians)

    def _pure_epsilon(self) -> float:
        pure = all(isinstance(p, PureDP) for p in self.parts)
        return sum(p.epsilon0 for p in self.parts) if pure else math.inf  # type: ignore[attr-defined]

    def epsilon(self, delta: float) -> float:
        log_ratio, tail = self._slack()
        rest = (delta - tail) * math.exp(-log_ratio)
        if rest <= 0:
            return self._pure_epsilon()
        return min(self._pure_epsilon(), _account(self.parts).get_epsilon(rest) + 2 * log_ratio)

    def delta(self, epsilon: float) -> float:
        if epsilon >= self._pure_epsilon():
            return 0.0
        log_ratio, tail = self._slack()
        ideal = _account(self.parts).get_delta(max(0.0, epsilon - 2 * log_ratio))
        return min(1.0, tail + math.exp(log_ratio) * ideal)

    def group(self, size: int) -> Mechanism:
        return compose([part.group(size) for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}


@dataclass(frozen=True)
class Worst(Mechanism):
    """Parallel composition: each row is touched by one of the parts, nobody knows which."""

    parts: tuple[Mechanism, ...]
    kind: ClassVar[str] = "worst"

    def epsilon(self, delta: float) -> float:
        return max(part.epsilon(delta) for part in self.parts)

    def delta(self, epsilon: float) -> float:
        return max(part.delta(epsilon) for part in self.parts)

    def group(self, size: int) -> Mechanism:
        # The rows may lie in different parts, so every part may be touched.
        return compose([part.group(size) for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}


def compose(parts: Iterable[Mechanism]) -> Mechanism:
    """Return the sequential (adaptive) composition of `parts`, in closed form where one exists."""
    from ._shifted import ShiftedGaussianDP, compose_shifted

    flat = [p for part in parts for p in (part.parts if isinstance(part, Composed) else (part,))]
    lost = [p for p in flat if isinstance(p, Unprotected)]
    if lost:
        return lost[0]
    worst = next((p for p in flat if isinstance(p, Worst)), None)
    if worst is not None:
        flat.remove(worst)
        return Worst(tuple(compose([*flat, part]) for part in worst.parts))
    gaussian = [p for p in flat if isinstance(p, GaussianDP)]
    zcdp = [p for p in flat if isinstance(p, ZeroConcentratedDP)]
    shifted = [p for p in flat if isinstance(p, ShiftedGaussianDP)]
    closed = GaussianDP | ZeroConcentratedDP | ShiftedGaussianDP
    rest = [p for p in flat if not isinstance(p, closed)]
    if shifted:
        rest.append(compose_shifted([*shifted, *gaussian]))
    elif gaussian:
        rest.append(
            GaussianDP(
                math.sqrt(math.fsum(p.mu**2 for p in gaussian)),
                math.fsum(p.log_ratio for p in gaussian),
                math.fsum(p.tail for p in gaussian),
            )
        )
    if zcdp:
        rest.append(ZeroConcentratedDP(math.fsum(p.rho for p in zcdp)))
    return rest[0] if len(rest) == 1 else Composed(tuple(rest))


def parallel(parts: Iterable[Mechanism]) -> Mechanism:
    """Return the cost of releases on disjoint sets of rows."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, Worst) else (part,))]
    lost = [p for p in flat if isinstance(p, Unprotected)]
    if lost:
        return lost[0]
    # One of each kind that has a largest: a sum of many sketches states a short cost.
    pure = [p for p in flat if isinstance(p, PureDP)]
    gaussian = [p for p in flat if isinstance(p, GaussianDP)]
    unique: tuple[Mechanism, ...] = ()
    if pure:
        unique += (max(pure, key=lambda p: p.epsilon0),)
    if gaussian:
        costs = zip(*((p.mu, p.log_ratio, p.tail) for p in gaussian), strict=True)
        unique += (GaussianDP(*map(max, costs)),)
    for part in flat:  # not a set: events may hold lists
        known = part in unique or isinstance(part, PureDP | GaussianDP)
        unique += () if known else (part,)
    return unique[0] if len(unique) == 1 else Worst(unique)


def mechanism_from_dict(description: dict[str, Any]) -> Mechanism:
    """Rebuild a mechanism from its `to_dict`.

    Raises
    ------
    ValueError
        If the description is none of a mechanism, or a cost in it is no number from 0 to
        `LARGEST_COST`.
    """
    try:
        return _from_fields(dict(description))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"This describes no mechanism. {error}") from error


def _from_fields(fields: dict[str, Any]) -> Mechanism:
    kind = fields.pop("kind")
    if kind in ("composed", "worst"):
        parts = tuple(_from_fields(dict(part)) for part in fields.pop("parts"))
        if not parts or fields:
            raise ValueError(f"A {kind} mechanism has parts, and nothing else.")
        return Composed(parts) if kind == "composed" else Worst(parts)
    if kind == "event":
        return EventDP(_event_from_dict(fields["event"]))
    mechanism = _ATOMS[kind](**fields)
    if not isinstance(mechanism, Unprotected):
        _check_costs(vars(mechanism))
    elif not isinstance(mechanism.reason, str):
        raise ValueError("A reason is text.")
    return mechanism


def _check_costs(costs: dict[str, Any]) -> None:
    terms = [x for term in costs.get("terms", ()) for x in term]
    numbers = [*(cost for name, cost in costs.items() if name != "terms"), *terms]
    real = all(isinstance(x, Real) and not isinstance(x, bool) for x in numbers)
    if not real or not all(0 <= x <= LARGEST_COST for x in numbers):
        raise ValueError(f"Costs must be numbers from 0 to {LARGEST_COST:g}.")
    if costs.get("tail", 0.0) > 1 or costs.get("log_ratio", 0.0) > LARGEST_LOG_RATIO:
        raise ValueError(f"tail is a probability, and log_ratio at most {LARGEST_LOG_RATIO:g}.")


_ATOMS: dict[str, Any] = {c.kind: c for c in (PureDP, GaussianDP, ZeroConcentratedDP, Unprotected)}


class _PLDCurve:
    """The accountant's two questions, asked of a composed privacy loss distribution."""

    def __init__(self, parts: list[Mechanism]):
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld

        # Atoms are rounded up to the grid once each: keep it far below the smallest epsilon.
        pure = Counter(p.epsilon0 for p in parts if isinstance(p, PureDP))
        interval = min([1e-4, *(epsilon / 100 for epsilon in pure)])
        curves = [
            pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(epsilon, 0.0),
                value_discretization_interval=interval,
            ).self_compose(count)
            for epsilon, count in pure.items()
        ] + [
            pld.from_gaussian_mechanism(1 / p.mu, value_discretization_interval=interval)
            for p in parts
            if isinstance(p, GaussianDP)
        ]
        self._curve = reduce(lambda a, b: a.compose(b), curves)

    def get_epsilon(self, delta: float) -> float:
        return float(self._curve.get_epsilon_for_delta(delta))

    def get_delta(self, epsilon: float) -> float:
        return float(self._curve.get_delta_for_epsilon(epsilon))


def _account(parts: Iterable[Mechanism]) -> Any:
    """Return an object that answers get_epsilon and get_delta for the composition of `parts`."""
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    parts = [p.as_accountable() for p in parts]
    if all(isinstance(p, PureDP | GaussianDP) for p in parts):
        return _PLDCurve(parts)
    event = _event(parts)
    tight = PLDAccountant()
    return (tight if tight.supports(event) else RdpAccountant()).compose(event)


def _event(parts: list[Mechanism]) -> Any:
    """Return the dp-accounting event of a composition; a pure part is epsilon**2 / 2-zCDP."""
    from dp_accounting import dp_event

    def one(part: Any) -> Any:
        if isinstance(part, EventDP):
            return part.event
        if isinstance(part, GaussianDP):
            return dp_event.GaussianDpEvent(1 / part.mu)
        pure = isinstance(part, PureDP)
        return dp_event.ZCDpEvent(part.epsilon0**2 / 2 if pure else part.rho)

    return dp_event.ComposedDpEvent([one(part) for part in parts])


def _event_to_dict(event: Any) -> Any:
    if isinstance(event, list | tuple):
        return [_event_to_dict(e) for e in event]
    if not hasattr(event, "__attrs_attrs__"):
        return event
    fields = {a.name: _event_to_dict(getattr(event, a.name)) for a in event.__attrs_attrs__}
    return {"type": type(event).__name__, **fields}


def _event_from_dict(description: Any) -> Any:
    from dp_accounting import dp_event

    if isinstance(description, list):
        return [_event_from_dict(d) for d in description]
    if not isinstance(description, dict):
        return description
    fields = {k: _event_from_dict(v) for k, v in description.items() if k != "type"}
    kind = getattr(dp_event, description["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, dp_event.DpEvent)):
        raise ValueError(f"{description['type']!r} is no event.")
    return kind(**fields)
