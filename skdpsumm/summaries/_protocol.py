"""What curator and owners say to each other, what is released and claimed, and the protocols."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._computing import warn_caller
from .._html import html_table
from .._sklearn import Interval
from ..features._feature_maps import GRID
from ..privacy import PrivacyGuarantee, PureDP
from ..privacy._fit import given_of_columns, given_of_groups
from ..privacy._guarantee import Explanation, ledger_unit
from ..privacy._mechanisms import Mechanism, Unprotected, compose
from ..privacy._noise import Block, IntegerNoise
from ._mmd import Embedding

# This part of mu^2 buys the number of rows where it is private: a tenth makes its noise three times
# that of a score, and the noise of scores 5 per cent larger.
SHARE_OF_TARGET_COUNT = 0.1


# ---- messages


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
class CallForBids(Message):
    """Say how large ``<direction, phi(x)>`` is for the best of the remaining rows."""

    direction: NDArray
    answer: ClassVar[type] = Bid


@dataclass(frozen=True, eq=False, kw_only=True)
class HandOver(Message):
    """Hand over the row of the last bid. Not to be asked for it is a message, too."""

    def most_rows(self) -> float:
        return 1


# ---- terms, and what is released


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The public parameters of a run, checked: `PrivateMMDSummarizer.terms` returns them.

    See `PrivateMMDSummarizer` for their meaning.
    """

    n_select: int
    protocol: Any
    gamma: float
    n_components: int
    epsilon: float
    delta: float
    adjacency: str
    max_rows_per_group: Any
    target_is_owners: bool
    schema: Any

    @property
    def n_target(self) -> int | None:
        """A public number of target rows, or None."""
        return self.protocol.n_target

    def most_chosen(self, share: float) -> int:
        """Return how many rows of the summary may be those of an owner with this share."""
        most = self.protocol.max_share_per_owner
        if most is None:
            # An owner has up to 2.5 times its share of the rows asked for of a summary, and may
            # always have a quarter of it.
            most = max(0.25, 2.5 * share)
        return min(self.n_select, max(math.ceil(most * self.n_select - 1e-9), 1))

    @property
    def is_private(self) -> bool:
        """Whether any noise is asked for."""
        return not math.isinf(self.epsilon)

    @property
    def unit(self) -> str:
        """What one neighbour differs in."""
        return "one row" if self.max_rows_per_group is None else "one group"

    @property
    def averages(self) -> bool:
        """Whether each group of the target counts once."""
        return self.max_rows_per_group == "average"

    @property
    def rows_moved(self) -> int:
        """How many rows come and go, at most, between neighbours.

        A group has k rows that count; with "average" its rows have the weight of one.
        """
        bound = self.max_rows_per_group
        rows = 1 if bound is None or self.averages else int(bound)
        return 2 * rows if self.adjacency == "replace_one" else rows


class TargetMean:
    """The mean of phi over the rows of the target, which is released once.

    It is Gaussian noise on the sum (Laplace noise with delta = 0), and on the number of rows. With
    pairs the sum moves by at most one (two under replace-one) when a row changes, so a score
    ``<mean, phi(x)>`` has noise of standard deviation ``1 / (mu m)`` whatever d is. With a group of
    k rows that count it moves by k times that, which k equal rows reach. A group that counts once
    moves it as a row does, for the norm of a mean is at most the largest; it is rounded once more.

    Parameters
    ----------
    embedding : Embedding
    terms : Terms
        Without an `n_target`, under add-remove only, the number of rows (of groups, where each
        counts once) is released together with the sum, for a tenth of the budget. With epsilon =
        inf nothing has noise.

    Attributes
    ----------
    mechanism : Mechanism
        Its cost, known before any data are read.
    noise_energy : float
        After `release`, what noise adds to the squared norm of the mean on average.
    noise_std : float
        After `release`, the standard deviation of the noise of an entry of the mean, and of a
        score ``<mean, phi(x)>``. 0 is none.

    Raises
    ------
    ValueError
        If there is no `n_target` under replace-one, and any noise.
    """

    def __init__(self, embedding: Embedding, terms: Terms):
        # Without noise the number of rows is as exact as their sum.
        self.n_target = terms.n_target if terms.is_private else None
        if terms.is_private and terms.adjacency == "replace_one" and self.n_target is None:
            raise ValueError(
                "n_target is None, but adjacency='replace_one' needs a public number of target "
                "rows to divide by; give n_target=<about how many rows the target has, from public "
                "knowledge>."
            )
        self.embedding = embedding
        moved = terms.rows_moved
        count = moved * GRID
        counts = [Block(1, count, count, SHARE_OF_TARGET_COUNT)] if self.n_target is None else []
        l1, l2 = embedding.sensitivity(moved, averaged=terms.averages)
        share = 1 - sum(block.share for block in counts)
        sums = Block(embedding.n_features, l1, l2, share)
        self._noise = IntegerNoise([sums, *counts], epsilon=terms.epsilon, delta=terms.delta)
        self.mechanism = self._noise.mechanism

    def release(
        self, X: NDArray, noise_seed: int | None, groups: NDArray | None = None
    ) -> NDArray[np.float64]:
        """Return the noisy mean, shape (d,).

        Parameters
        ----------
        X : ndarray of shape (m, n_columns)
            The rows that count.
        noise_seed : int or None
        groups : ndarray of int, shape (m,), default=None
            Whose each row is, 0, 1, ..., where each group counts once. None counts rows.
        """
        if groups is None:
            sums, size = self.embedding.sums(X), len(X)
        else:
            sums, size = self.embedding.group_sums(X, groups), int(groups.max()) + 1
        noisy = self._noise.add_block(0, sums, noise_seed)
        if self.n_target is None:
            rows = np.array([size * GRID])
            counted = float(self._noise.add_block(1, rows, noise_seed)[0]) / GRID
            self._n = max(counted, 1.0)
        else:
            self._n = self.n_target
        unit = self.embedding.unit / self._n
        self.noise_energy = float(np.sum((self._noise.std[: len(sums)] * unit) ** 2))
        self.noise_std = math.sqrt(self.noise_energy / len(sums))
        self._mean = noisy * unit
        return self._mean

    def warn_of_result(self) -> None:
        """Warn where a released mean of pairs tells that the kernel is near 0 between any two rows.

        Its squared norm is the mean of the kernel over all pairs of rows, and the noise's. A look
        at what is released costs nothing.
        """
        # A public number of rows may be any number, and tells nothing of the kernel. Fewer rows
        # than ten say little of their mean kernel.
        if self.n_target is not None or self.embedding.offsets is not None or self._n < 10:
            return
        mean, energy = self._mean, self.noise_energy
        likeness = float(mean @ mean) - energy - 1 / self._n  # a row is like itself
        count_std = float(self._noise.std[-1]) / GRID
        unsure = 2 * (energy * math.sqrt(2 / len(mean)) + count_std / self._n**2)
        # A target whose mean kernel between two rows is smaller has no rows that are alike; where
        # scales are right, it is 0.1 to 0.6. If noise may have drowned it, nothing is said.
        if unsure + max(likeness, 0.0) < 0.02:
            warn_caller(
                'Give a schema and leave gamma="auto", or lower gamma: it is too large for columns '
                "in these units. What was released of the target shows that the kernel is near 0 "
                "between any two of its rows, so that the choice is near random.",
                UserWarning,
            )


COSTS_NOTHING = PureDP(0.0)


@dataclass(frozen=True)
class Plan:
    """Mechanisms that are ready to run, and what they cost.

    Parameters
    ----------
    target : TargetMean or None
    owners : Mechanism, default=PureDP(0.0)
        What reaches owners about the rows of other owners; the default is nothing.
    release : object
        The mechanism behind `owners`, for the protocol's own use.
    h2 : Mechanism, default=None
        The part of `owners` that is due to h2, where it is stated by itself.
    """

    target: TargetMean | None
    owners: Mechanism = COSTS_NOTHING
    release: Any = None
    h2: Mechanism | None = None

    @property
    def cost(self) -> Mechanism:
        """The composition of all releases that cost anything."""
        target = COSTS_NOTHING if self.target is None else self.target.mechanism
        costly = [mechanism for mechanism in (target, self.owners) if mechanism != COSTS_NOTHING]
        # Most protocols make one release, which is composed with nothing.
        return compose(costly) if len(costly) > 1 else next(iter(costly), COSTS_NOTHING)


# ---- claims


NONE_SHARED = "the target and the owners share no {}"
GROUP_OF_ONE_OWNER = ", and that no group has rows of two owners"


@dataclass(frozen=True, repr=False)
class SummaryPrivacy:
    """What a protocol promises, to whom.

    Parameters
    ----------
    target : PrivacyGuarantee
        Of the rows of the target, against owners.
    owners : PrivacyGuarantee
        Of the rows of each owner, against all other owners together.
    h2 : PrivacyGuarantee, default=None
        The part of `owners` that h2 alone accounts for, where the whole has no valid guarantee.
    use : str
        What was made of the rows.

    Attributes
    ----------
    consumer : PrivacyGuarantee
        Of the chosen rows against whoever gets them: there is none, for they are real rows.
    """

    target: PrivacyGuarantee
    owners: PrivacyGuarantee
    h2: PrivacyGuarantee | None = None
    use: str = "the summary consists of real rows"

    @property
    def consumer(self) -> PrivacyGuarantee:
        """There is no guarantee for the chosen rows against whoever gets them."""
        return PrivacyGuarantee(
            Unprotected(self.use),
            self.owners.adjacency,
            protects="the chosen rows",
            against="consumer",
            unit=self.owners.unit,
            given="nothing",
        )

    @property
    def badge(self) -> str:
        """One line, for headings: the price of each claim, worst first."""
        neighbours = f"{self.owners.unit}, {self.owners.adjacency.replace('_', '-')}"
        line = f"chosen rows: no guarantee; target: {self.target.price}; rows of other owners: "
        line += f"{self.owners.price} ({neighbours}), against {self.owners.against}"
        simulated = self.target.simulated or self.owners.simulated
        return f"SIMULATED, protects nobody: {line}" if simulated else line

    def explain(self) -> Explanation:
        """Return each promise in plain words, for whoever signs it: as text, and as HTML."""
        parts = {name: claim.explain() for name, claim in self._claims().items()}
        return Explanation.joined(self.badge, parts)

    def _claims(self) -> dict[str, PrivacyGuarantee]:
        claims = {"consumer": self.consumer, "target": self.target, "owners": self.owners}
        return claims if self.h2 is None else claims | {"owners, h2 alone": self.h2}

    def __repr__(self) -> str:
        lines = [f"{name}: {claim!r}" for name, claim in self._claims().items()]
        return f"<{type(self).__name__}\n" + "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        rows = [(name, claim.badge) for name, claim in self._claims().items()]
        return html_table(self.badge, (), rows, len(rows))


def state_privacy(plan: Plan, terms: Terms, *, simulated: bool) -> SummaryPrivacy:
    """Return the claims of a run; if target and owners are the same rows, all counts for both.

    Otherwise a claim that another release could weaken, if a row were in both tables, is given
    that none is. Nobody looks: what is claimed must not depend on private rows. Owners bound their
    groups each by itself, so a claim that costs them something is given that none has two owners.
    """
    target = PureDP(0.0) if plan.target is None else plan.target.mechanism
    owners, h2 = plan.owners, plan.h2
    everything = plan.cost
    if terms.target_is_owners:
        target = owners = everything
        if h2 is not None and plan.target is not None:
            h2 = compose([h2, plan.target.mechanism])
    public = "the parameters, the names of the owners, and which of them answer and when"
    size = "" if terms.n_target is None else ", and n_target"
    told = given_of_columns(terms.schema) + given_of_groups(terms.max_rows_per_group)

    def apart(mechanism: Mechanism) -> str:
        shared = NONE_SHARED.format(ledger_unit(terms.unit))
        return "" if mechanism == everything else f", and that {shared}"

    def whole(mechanism: Mechanism) -> str:
        is_free = terms.unit == "one row" or mechanism == PureDP(0.0)
        return "" if is_free else GROUP_OF_ONE_OWNER

    of_owners: dict[str, Any] = {
        "adjacency": terms.adjacency,
        "protects": "the rows of other owners",
        "against": "owner coalition",
        "unit": terms.unit,
        "given": public + apart(owners) + whole(owners) + told,
        "simulated": simulated,
    }
    one = whole(target) if terms.target_is_owners else ""
    given = public + size + apart(target) + one + told
    of_target = of_owners | {"protects": "the target", "given": given}
    return SummaryPrivacy(
        PrivacyGuarantee(target, **of_target),
        PrivacyGuarantee(owners, **of_owners),
        None if h2 is None else PrivacyGuarantee(h2, **of_owners),
    )


# ---- protocols


# Messages by owner go out, answers by owner come back; what is returned are places in the pool.
Conversation = Generator[dict[Any, Message], dict[Any, Any], NDArray]


# What is checked of the parameters that all protocols have.
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "n_target": [None, Interval(Integral, 1, None, closed="left")],
    "shares": [None, dict],
    "max_share_per_owner": [None, Interval(Real, 0, 1, closed="right")],
}


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

    def __init__(
        self,
        *,
        n_target: int | None = None,
        shares: Mapping[Any, float] | None = None,
        max_share_per_owner: float | None = None,
    ):
        self.n_target = n_target
        self.shares = shares
        self.max_share_per_owner = max_share_per_owner

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


class Propose(Protocol):
    """One round trip: a noisy target goes out, proposals come back, the curator chooses exactly.

    Parameters
    ----------
    parsimony : float, default=16.0
        Rows that the curator receives for each row that it keeps, at most. The default is high, as
        nothing else helps as much, whatever epsilon is. Lower it where rows are dear: the curator
        has seen the rows that it does not keep. Near 1, explore, too: where noise hides the target,
        half of the rows come from small groups.
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

    def __init__(
        self,
        parsimony: float = 16.0,
        explore: float = 0.0,
        *,
        n_target: int | None = None,
        shares: Mapping[Any, float] | None = None,
        max_share_per_owner: float | None = None,
    ):
        super().__init__(n_target=n_target, shares=shares, max_share_per_owner=max_share_per_owner)
        self.parsimony = parsimony
        self.explore = explore

    def broadcasts_target(self) -> bool:
        return self.explore < 1

    def rows_agreed(self, n_select: int, share: float) -> int:
        # Whole numbers stay what they are: a third of three shares is one row, and not two.
        return math.ceil(self.parsimony * n_select * share - 1e-9)

    def rows_asked(self, n_select: int, share: float) -> dict[str, int]:
        """Return how many rows an owner hands over, by their entries in `ProposeRows`."""
        n = self.rows_agreed(n_select, share)
        n_uniform = round(self.explore * n)
        return {"n_herd": n - n_uniform, "n_uniform": n_uniform}

    def converse(self, curator: Any, plan: Plan) -> Conversation:
        told = {"direction": curator.target_mean, "noise": curator.target_noise}
        yield {
            owner: curator.message(
                ProposeRows, **self.rows_asked(curator.terms.n_select, share), **told
            )
            for owner, share in curator.shares.items()
        }
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

    def __init__(
        self,
        parsimony: float = 16.0,
        *,
        shares: Mapping[Any, float] | None = None,
        max_share_per_owner: float | None = None,
    ):
        self.parsimony, self.shares = parsimony, shares
        self.max_share_per_owner = max_share_per_owner
