"""What a protocol between curator and owners consists of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..privacy import Mechanism, PureDP
from ._embedding import Embedding
from ._messages import Message
from ._target import TargetRelease, target_release

if TYPE_CHECKING:
    from ._curator import Curator
    from ._terms import Terms

# Messages by owner go out, answers by owner come back; what is returned are places in the pool.
Conversation = Generator[dict[Any, Message], dict[Any, Any], NDArray]


class Protocol(BaseEstimator):
    """Who says what to whom, until the curator has chosen.

    A protocol is plain parameters. `plan` fixes the noise before anything is read; `converse` is
    the curator's side of the conversation. Owners' sides are the methods of `DataOwner`.
    """

    embedding_kind: ClassVar[str] = "pairs"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def broadcasts_target(self) -> bool:
        """Whether owners receive the noisy mean embedding of the target."""
        return True

    def plan(self, embedding: Embedding, terms: Terms) -> Plan:
        """Return the calibrated mechanisms."""
        return Plan(self.plan_target(embedding, terms))

    def plan_target(self, embedding: Embedding, terms: Terms) -> TargetRelease | None:
        """Return the release of the target's mean, None where nothing of it is broadcast."""
        if not self.broadcasts_target():
            return None
        return target_release(embedding, terms)

    @abstractmethod
    def converse(self, curator: Curator, plan: Any) -> Conversation:
        """Yield messages, receive answers, and return the places of the chosen rows."""


class Plan:
    """Mechanisms that are ready to run, and what they cost.

    Parameters
    ----------
    target : TargetRelease or None
    owners : Mechanism, default=None
        What reaches owners about the rows of other owners; None is nothing, 0-DP.
    release : object
        The mechanism behind `owners`, for the protocol's own use.
    h2 : Mechanism, default=None
        The part of `owners` that is due to h2, where it is stated by itself.
    """

    def __init__(
        self,
        target: TargetRelease | None,
        owners: Mechanism | None = None,
        release: Any = None,
        h2: Mechanism | None = None,
    ):
        self.target, self.release, self.h2 = target, release, h2
        self.owners = PureDP(0.0) if owners is None else owners
