"""What curator and owners say to each other: messages, terms, and the default protocol."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._sklearn import Interval
from ..privacy._fit import estimator
from ._mmd import Embedding
from ._releases import Plan, TargetMean, Terms


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows that an owner hands over.

    Parameters
    ----------
    indices : ndarray of shape (r,)
        Which of the owner's rows they are, by the owner's own count.
    X : ndarray of shape (r, n_columns)
    y : ndarray of shape (r,) or None
        Their labels, where the owner has any.
    """

    indices: NDArray
    X: NDArray
    y: NDArray | None = None

    def __repr__(self) -> str:
        return "<Rows, holds_private_data=True>"


@dataclass(frozen=True, eq=False, repr=False)
class Bid:
    """The score of an owner's best remaining row, and which it is by the owner's own count."""

    score: float
    index: int

    def __repr__(self) -> str:
        return "<Bid, holds_private_data=True>"


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """What every message of the curator may carry.

    Parameters
    ----------
    embedding : Embedding or None
        The public map phi, with the first message that needs it.
    max_rows_per_group : int, "average" or None
        What the curator's claims take for granted of an owner's groups. An owner that bounds its
        groups otherwise does not answer.
    """

    embedding: Embedding | None = None
    max_rows_per_group: Any = None
    answer: ClassVar[type] = Rows

    def most_rows(self) -> float:
        """Return how many rows an answer may hold."""
        return float("inf")


@dataclass(frozen=True, eq=False, kw_only=True)
class ProposeRows(Message):
    """Hand over `n_herd` rows that match `direction` together, and `n_uniform` others at random.

    `noise` is the standard deviation of the noise of each entry of `direction`; None says that it
    has none.
    """

    n_herd: int
    n_uniform: int
    direction: NDArray | None = None
    noise: float | None = None

    def most_rows(self) -> float:
        return self.n_herd + self.n_uniform


@dataclass(frozen=True, eq=False, kw_only=True)
class SendBest(Message):
    """Hand over the `n` rows with the largest ``<direction, phi(x)>``."""

    direction: NDArray
    n: int

    def most_rows(self) -> float:
        return self.n


@dataclass(frozen=True, eq=False, kw_only=True)
class CallForBids(Message):
    """Say how large ``<direction, phi(x)>`` is for the best of the remaining rows."""

    direction: NDArray
    answer: ClassVar[type] = Bid


@dataclass(frozen=True, eq=False, kw_only=True)
class HandOver(Message):
    """Hand over the row of the last bid. Not to be asked for it is a message, too."""

    def most_rows(self) -> float:
        return 1


# Messages by owner go out, answers by owner come back; what is returned are places in the pool.
Conversation = Generator[dict[Any, Message], dict[Any, Any], NDArray]


# What is checked of the parameters that all protocols have.
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "n_target": [None, Interval(Integral, 1, None, closed="left")],
    "shares": [None, dict],
    "max_share_per_owner": [None, Interval(Real, 0, 1, closed="right")],
}


@estimator
class Protocol(BaseEstimator):
    """Who says what to whom, until the curator has chosen.

    A protocol is plain parameters. `plan` fixes the noise before anything is read; `converse` is
    the curator's side of the conversation: it yields messages (`Curator.message`) by owner, gets
    their answers, and returns which rows of `Curator.pool` are chosen. Owners' sides are the
    methods of `DataOwner`. What reaches an owner about the target or about other owners' rows must
    come from a mechanism of the plan, for the claim is made of nothing else.

    Parameters
    ----------
    n_target : int, default=None
        A public number to divide the target's sum by; a wrong one only scales the mean. None
        releases the number of rows with noise, so that you need not publish it (under add-remove
        only).
    shares : mapping from owner to positive number, default=None
        Public shares of the rows asked of each owner; never derive them from private sizes. None
        gives equal shares to the owners that occur, since nobody knows in advance who has rows like
        the target; their names then count as public. A mapping must name all owners, also those
        without rows.
    max_share_per_owner : float, default=None
        The largest part of the summary that may be one owner's rows, in (0, 1]. It limits the harm
        done by an owner who sends copies, false labels or rows made for the purpose. None is 2.5
        times the owner's share (1 / K where all K owners have equal shares), and at least 0.25: it
        leaves room for owners who have more rows like the target. An honest owner that alone holds
        what is like the target is held back, too. A UserWarning says where the bound was reached;
        if you trust the owners, set 1, which is no bound.
    """

    embedding_kind: ClassVar[str] = "pairs"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS

    n_target: int | None = None
    shares: Any = None
    max_share_per_owner: float | None = None

    def broadcasts_target(self) -> bool:
        """Whether owners receive the noisy mean embedding of the target."""
        return True

    def is_nominal(self) -> bool:
        """Whether a run costs epsilon and delta at least, so that a ledger can be asked early."""
        return self.broadcasts_target()

    def plan(self, embedding: Embedding, terms: Terms) -> Plan:
        """Return the calibrated mechanisms."""
        return Plan(self.plan_target(embedding, terms))

    def plan_target(self, embedding: Embedding, terms: Terms) -> TargetMean | None:
        """Return the release of the target's mean, None where nothing of it is broadcast."""
        return TargetMean(embedding, terms) if self.broadcasts_target() else None

    def rows_agreed(self, n_select: int, share: float) -> int:
        """Return how many rows an owner with this share hands over at most, in the whole run."""
        return n_select

    @abstractmethod
    def converse(self, curator: Any, plan: Plan) -> Conversation:
        """Yield messages, receive answers, and return the places of the chosen rows."""


@estimator
class Propose(Protocol):
    """One round trip: a noisy target goes out, proposals come back, the curator chooses exactly.

    Parameters
    ----------
    parsimony : float, default=16.0
        Rows that the curator receives for each row that it keeps, at most. The default is high, as
        nothing else helps as much, whatever epsilon is. Lower it where rows are dear: the curator
        has seen the rows that it does not keep.
    explore : float, default=0.0
        Share of each owner's proposals that is drawn uniformly at random, whatever the target is.
        The default is 0, because owners explore by themselves: they draw rows with weights that
        lean towards the noisy target, and lean less if its noise is large (`tilted_scores`). With 1
        nothing is broadcast at all (`Pool`).
    n_target, shares, max_share_per_owner : see `Protocol`
        What is public of the target, and what is asked of each owner.

    Notes
    -----
    *What each party sees.* An owner: the public embedding phi, the noisy mean embedding of D_v, the
    size of its noise and how many rows to propose, all in one message. The curator: D_v and all
    proposals. The consumer: the summary, real rows.

    *Guarantee.* (1) The number of rows asked of an owner, ``parsimony p share_k``, is public. The
    size of the noise is that of the mechanism, over the number of rows that it released.
    (2) So all that any coalition of owners receives is one release of D_v and public numbers. It is
    independent of the other owners' rows: 0-DP for them, whatever the coalition does. (3) The
    release is one Gaussian (or Laplace) mechanism on the sum of phi over D_v, so the view
    is (epsilon, delta)-DP for D_v. (4) Whatever the curator does with D_v and the proposals reaches
    no owner. (5) This holds only if you never tell owners which proposals were chosen, and pay them
    per row proposed.

    *Cost.* ``parsimony p`` rows, and at most one more per owner for rounding up; two messages per
    owner; one round.

    Source: ours; it replaces Algorithm 3 of the paper.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "parsimony": [Interval(Real, 1, 1e9, closed="both")],
        "explore": [Interval(Real, 0, 1, closed="both")],
    }

    parsimony: float = field(default=16.0, kw_only=False)
    explore: float = field(default=0.0, kw_only=False)

    def broadcasts_target(self) -> bool:
        return self.explore < 1

    def rows_agreed(self, n_select: int, share: float) -> int:
        # Whole numbers stay what they are: a third of three shares is one row, and not two.
        return math.ceil(self.parsimony * n_select * share - 1e-9)

    def converse(self, curator: Any, plan: Plan) -> Conversation:
        asked = {}
        for owner, share in curator.shares.items():
            n = self.rows_agreed(curator.terms.n_select, share)
            n_uniform = round(self.explore * n)
            asked[owner] = curator.message(
                ProposeRows,
                n_herd=n - n_uniform,
                n_uniform=n_uniform,
                direction=curator.target_mean,
                noise=curator.target_noise,
            )
        yield asked
        return curator.best_of_pool()


class Pool(Propose):
    """Owners send rows drawn at random; the curator chooses exactly. Nothing is broadcast.

    Take it where owners are to learn nothing of the target either, which costs no epsilon at all.
    It is `Propose` with ``explore=1``, and the baseline that every other protocol has to beat. For
    targets that are common among the owners' rows, it is hard to beat.

    Parameters
    ----------
    parsimony : float, default=16.0
        Rows that the curator receives for each row that it keeps, at most. The default is high, as
        nothing else helps as much.
    shares, max_share_per_owner : see `Protocol`
        What is asked of each owner, and how much of the summary may be one owner's.

    Notes
    -----
    *What each party sees.* An owner: how many rows to send. *Guarantee.* 0-DP for the other owners
    and for D_v: an owner's view consists of public numbers. *Cost.* As `Propose`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: Propose._parameter_constraints[name]
        for name in ("parsimony", "shares", "max_share_per_owner")
    }

    explore = 1.0  # all proposals are random
    n_target = None  # nothing of the target is released

    def __init__(self, parsimony=16.0, *, shares=None, max_share_per_owner=None):
        self.parsimony, self.shares = parsimony, shares
        self.max_share_per_owner = max_share_per_owner
