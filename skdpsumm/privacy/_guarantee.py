"""The one object that states what a release promises."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ._mechanisms import Mechanism, Unprotected, compose, mechanism_from_dict, parallel

ADJACENCIES = ("add_remove", "replace_one")


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a release promises, about whom, against whom, and at what price.

    Parameters
    ----------
    mechanism : Mechanism
        The cost: `PureDP`, `GaussianDP`, `ZeroConcentratedDP`, `EventDP`, a composition of these,
        or `Unprotected` with the reason.
    adjacency : {"add_remove", "replace_one"}
        Which data sets count as neighbours. A claim under "add_remove" with n private; under
        "replace_one" the number of rows is public.
    protects : str
        Whose data the claim is about.
    against : str
        Who may see the release: "public", "analyst", "owner coalition", "curator", "consumer".
    unit : str
        What one neighbour differs in.
    given : str
        The public information that the claim takes as given.
    simulated : bool
        True where the noise came from a seed (`noise_seed`): a simulation, which protects nobody.
    idealised : bool
        True where the noise was sampled in floating point, for want of an exact sampler.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PureDP
    >>> one = PrivacyGuarantee(PureDP(0.5))
    >>> (one + one).epsilon(0)
    1.0
    >>> round(PrivacyGuarantee(GaussianDP(0.5)).epsilon(1e-6), 3)
    2.254
    """

    mechanism: Mechanism
    adjacency: str = "add_remove"
    protects: str = "the rows of X"
    against: str = "public"
    unit: str = "one row"
    given: str = "the parameters of the estimator"
    simulated: bool = False
    idealised: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ValueError(f"mechanism must be a Mechanism, got {self.mechanism!r}.")
        if self.adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {self.adjacency!r}.")
        words = (self.protects, self.against, self.unit, self.given)
        if not all(isinstance(text, str) for text in words):
            raise ValueError("protects, against, unit and given must be text.")
        if not (type(self.simulated) is bool and type(self.idealised) is bool):
            raise ValueError("simulated and idealised must be True or False.")

    def epsilon(self, delta: float = 0.0) -> float:
        """Return an epsilon at which the release is (epsilon, `delta`)-differentially private."""
        if not 0 <= delta < 1:
            raise ValueError(f"delta must lie in [0, 1), got {delta!r}.")
        return self.mechanism.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return a delta at which the release is (`epsilon`, delta)-differentially private."""
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}.")
        return self.mechanism.delta(epsilon)

    def __add__(self, other: PrivacyGuarantee) -> PrivacyGuarantee:
        return _merge([self, other], compose)

    def __repr__(self) -> str:
        lines = [] if not self.simulated else ["SIMULATED (noise_seed is set): protects nobody."]
        if isinstance(self.mechanism, Unprotected):
            lines.append(f"No guarantee: epsilon = inf, because {self.mechanism.reason}.")
        lines.append(
            f"protects {self.protects} ({self.unit}, {self.adjacency.replace('_', '-')}) "
            f"against {self.against}, given {self.given}"
        )
        if self.idealised:
            lines.append("idealised: the noise was sampled in floating point")
        return f"<PrivacyGuarantee {self._cost()}\n  " + "\n  ".join(lines) + ">"

    @property
    def badge(self) -> str:
        """One line, for headings: the price, and what it protects."""
        adjacency = self.adjacency.replace("_", "-")
        line = f"{self.price} ({adjacency}), protects {self.protects} against {self.against}"
        if self.simulated:
            return f"SIMULATED, protects nobody: {line}"
        return f"{line}, idealised noise" if self.idealised else line

    @property
    def price(self) -> str:
        """epsilon, at delta = 1e-6 where it is not pure."""
        pure = self.mechanism.epsilon(0.0)
        if math.isfinite(pure):
            return f"epsilon={pure:.4g}, delta=0"
        if isinstance(self.mechanism, Unprotected):
            return "no guarantee: epsilon=inf"
        return f"epsilon={self.epsilon(1e-6):.4g} at delta=1e-06"

    def _cost(self) -> str:
        pure = self.mechanism.epsilon(0.0)
        if math.isfinite(pure):
            return f"epsilon={pure:.4g}, delta=0"
        if isinstance(self.mechanism, Unprotected):
            return "epsilon=inf"
        pairs = ", ".join(f"epsilon={self.epsilon(d):.4g} at delta={d:g}" for d in (1e-6, 1e-9))
        return f"{pairs} ({self.mechanism})"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description, from which `from_dict` rebuilds the guarantee."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {"mechanism": self.mechanism.to_dict()}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> PrivacyGuarantee:
        """Rebuild a guarantee from its `to_dict`.

        Raises
        ------
        ValueError
            If it has other entries, or entries of other kinds, or a mechanism that is none.
        """
        if not isinstance(description, dict) or set(description) != set(cls.__dataclass_fields__):
            raise ValueError("The description of a guarantee has unknown entries, or lacks some.")
        mechanism = mechanism_from_dict(description["mechanism"])
        return cls(**(description | {"mechanism": mechanism}))

    @staticmethod
    def parallel(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
        """Return the guarantee of releases made from disjoint sets of rows."""
        return _merge(list(guarantees), parallel)


def _merge(guarantees: list[PrivacyGuarantee], rule: Any) -> PrivacyGuarantee:
    first = guarantees[0]
    for name in ("adjacency", "protects", "against", "unit"):
        values = {getattr(g, name) for g in guarantees}
        if len(values) > 1:
            raise ValueError(
                f"Guarantees that differ in {name} cannot be added: {sorted(values)}. "
                "State them side by side."
            )
    return replace(
        first,
        mechanism=rule([g.mechanism for g in guarantees]),
        given="; ".join(dict.fromkeys(part for g in guarantees for part in g.given.split("; "))),
        simulated=any(g.simulated for g in guarantees),
        idealised=any(g.idealised for g in guarantees),
    )
