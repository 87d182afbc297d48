"""What the two probabilities of an event prove, for each family of claims."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..privacy import gdp_epsilon

FAMILIES = (None, "gaussian")


@dataclass(frozen=True)
class Claims(ABC):
    """Claims that an event of probability p on one data set and q on the other can refute.

    `bound` rises with p and falls with q, so that confidence limits may stand for both.
    """

    delta: float

    @abstractmethod
    def gain(self, p: Any) -> Any:
        """Return what p is worth."""

    @abstractmethod
    def cost(self, q: Any) -> Any:
        """Return what q takes off."""

    @abstractmethod
    def epsilon(self, bound: float) -> float:
        """Return the epsilon, at `delta`, that a bound stands for."""

    def bound(self, p: Any, q: Any) -> Any:
        """Return the lower bound on the privacy parameter: epsilon or mu."""
        with np.errstate(divide="ignore"):
            return self.gain(p) - self.cost(q)


class ApproximateClaims(Claims):
    """(epsilon, delta) for any release: ``p <= exp(epsilon) q + delta``."""

    def gain(self, p):
        return np.log(np.maximum(p - self.delta, 0.0))

    def cost(self, q):
        return np.log(q)

    def epsilon(self, bound):
        return max(0.0, float(bound))


class GaussianClaims(Claims):
    """mu-GDP: ``p <= Phi(Phi^-1(q) + mu)``, stated as the epsilon that mu implies at `delta`."""

    def gain(self, p):
        return ndtri(p)

    def cost(self, q):
        return ndtri(q)

    def epsilon(self, bound):
        found = gdp_epsilon(max(0.0, float(bound)), self.delta)
        return max(0.0, found * (1 - 1e-9) - 1e-11)  # it is rounded up there


def claims_of(family: str | None, delta: float) -> Claims:
    """Return the claims of a family."""
    return ApproximateClaims(delta) if family is None else GaussianClaims(delta)
