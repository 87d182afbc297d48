"""What several mechanisms cost together: in closed form, by basic composition, or numerically.

Numerical accounting is by dp-accounting's distributions of privacy losses (PLD), or by Renyi
divergences. Mechanisms are asked for what they know (`loss_width`, `renyi_divergence`), so that a
new kind needs nothing here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from .._computing import Floats
from .._html import some_of
from ._mechanisms import (
    Cost,
    GaussianDP,
    Mechanism,
    NearIdeal,
    PureDP,
    Unprotected,
    from_description,
    renyi_delta,
    renyi_epsilon,
)


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

    @staticmethod
    def of(parts: Iterable[Mechanism]) -> Mechanism:
        """Compose `parts`: the way from ``+``, whose module this one builds on."""
        return compose(parts)

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
    >>> from skdpsumm.privacy._compositions import compose
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
    >>> from skdpsumm.privacy._compositions import parallel
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
