"""What a run releases, and what it claims: the target's mean, and guarantees."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._computing import warn_caller
from .._html import html_table
from ..features._feature_maps import GRID
from ..moments.learning._target import unprotected_target
from ..privacy import PrivacyGuarantee, PureDP
from ..privacy._compositions import compose
from ..privacy._fit import given_of_columns
from ..privacy._guarantee import Explanation, ledger_unit
from ..privacy._mechanisms import Mechanism, Unprotected
from ..privacy._noise import Block, IntegerNoise
from ._mmd import Embedding

# This part of mu^2 buys the number of rows where it is private: a tenth makes its noise three times
# that of a score, and the noise of scores 5 per cent larger.
SHARE_OF_TARGET_COUNT = 0.1


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


class TargetMean(ABC):
    """A calibrated mechanism that releases the mean of phi over the rows of the target, once.

    Attributes
    ----------
    mechanism : Mechanism
        Its cost, known before any data are read.
    noise_energy : float
        After `release`, what noise adds to the squared norm of the mean on average, as far as it
        is known.
    noise_std : float
        After `release`, the standard deviation of the noise of an entry of the mean, and of a
        score ``<mean, phi(x)>``, as far as it is known. 0 is none.
    """

    mechanism: Mechanism
    noise_energy: float = 0.0
    noise_std: float = 0.0

    @abstractmethod
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

    def warn_of_result(self) -> None:  # noqa: B027 (most have nothing to warn of)
        """Warn of what the released mean shows; the last thing of a run."""


class GaussianMean(TargetMean):
    """Gaussian noise on the sum (Laplace noise with delta = 0), and on the number of rows.

    With pairs the sum moves by at most one (two under replace-one) when a row changes, so a score
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
        sums, size = _sums(self.embedding, X, groups)
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
        # A public number of rows may be any number, and tells nothing of the kernel.
        if self.n_target is None and self.embedding.offsets is None:
            count_std = float(self._noise.std[-1]) / GRID
            warn_if_kernel_vanishes(self._mean, self._n, self.noise_energy, count_std)


def _sums(embedding: Embedding, X: NDArray, groups: NDArray | None) -> tuple[NDArray, int]:
    """Return the sum of phi in grid units, and of how many rows, or groups that count once."""
    if groups is None:
        return embedding.sums(X), len(X)
    return embedding.group_sums(X, groups), int(groups.max()) + 1


def warn_if_kernel_vanishes(
    mean: NDArray, n_rows: float, noise_energy: float = 0.0, count_std: float = 0.0
) -> None:
    """Warn where a released mean of pairs tells that the kernel is near 0 between any two rows.

    Its squared norm is the mean of the kernel over all pairs of rows, and the noise's. A look at
    what is released costs nothing.
    """
    if n_rows < 10:  # these say little of their mean kernel
        return
    likeness = float(mean @ mean) - noise_energy - 1 / n_rows  # a row is like itself
    unsure = 2 * (noise_energy * math.sqrt(2 / len(mean)) + count_std / n_rows**2)
    # A target whose mean kernel between two rows is smaller has no rows that are alike; where
    # scales are right, it is 0.1 to 0.6. If noise may have drowned it, nothing is said.
    if unsure + max(likeness, 0.0) < 0.02:
        warn_caller(
            'Give a schema and leave gamma="auto", or lower gamma: it is too large for columns in '
            "these units. What was released of the target shows that the kernel is near 0 between "
            "any two of its rows, so that the choice is near random.",
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


NONE_SHARED = "the target and the owners share no {}"
OWN_ROWS = "weights follow rows of the target without noise, and these are the owners' own"
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
        common = f"({neighbours}), against {self.owners.against}"
        line = (
            f"chosen rows: no guarantee; target: {self.target.price}; "
            f"rows of other owners: {self.owners.price} {common}"
        )
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


def _given_of_groups(terms: Terms) -> str:
    if terms.max_rows_per_group is None:
        return ""
    counts = "each group counts as one row"
    counts = counts if terms.max_rows_per_group == "average" else "rows that are kept count"
    return f"; max_rows_per_group={terms.max_rows_per_group!r} ({counts})"


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
    protects = "the rows of other owners"

    def apart(mechanism: Mechanism) -> str:
        shared = NONE_SHARED.format(ledger_unit(terms.unit))
        return "" if mechanism == everything else f", and that {shared}"

    def whole(mechanism: Mechanism) -> str:
        is_free = terms.unit == "one row" or mechanism == PureDP(0.0)
        return "" if is_free else GROUP_OF_ONE_OWNER

    def claim(mechanism: Mechanism, protects: str, given: str) -> PrivacyGuarantee:
        return PrivacyGuarantee(
            mechanism,
            terms.adjacency,
            protects=protects,
            against="owner coalition",
            unit=terms.unit,
            given=given + given_of_columns(terms.schema) + _given_of_groups(terms),
            simulated=simulated,
        )

    given = public + apart(owners) + whole(owners)
    of_target = public + size + apart(target) + (whole(target) if terms.target_is_owners else "")
    return SummaryPrivacy(
        claim(target, "the target", of_target),
        claim(owners, protects, given),
        None if h2 is None else claim(h2, protects, given),
    )


@dataclass(frozen=True, repr=False)
class PrivateSummaryPrivacy(SummaryPrivacy):
    """What a `SketchSummarizer` promises, to whom.

    Read it in the ``privacy_`` of a fitted one.

    Parameters
    ----------
    target : PrivacyGuarantee
        Of the rows of the target. Nobody learns anything of them, unless you pass on the weighted
        rows or a model: against whoever receives these they are unprotected, epsilon = inf.
    owners : PrivacyGuarantee
        Of the rows of each owner, against everybody.
    h2 : PrivacyGuarantee, default=None
        Always None, since only `Auction` has h2.
    use : str
        What was made of the sketches.
    released : PrivacyGuarantee
        Of the rows of each owner, of the sketches alone.
    """

    use: str = "the summary consists of synthetic rows"
    released: Any = None

    @property
    def consumer(self) -> PrivacyGuarantee:
        """The guarantee of the owners' rows against the consumer, who knows the target anyway."""
        given = self.released.given
        if self.owners.mechanism != self.released.mechanism:  # the target is the owners' own
            one = self.released.unit.removeprefix("one ")
            given = f"{given}; the {one} is not in the target, which the consumer has"
        return replace(self.released, against="consumer", given=given)

    def across(self, n_owners: int) -> PrivacyGuarantee:
        """Return what is claimed for a person who has rows with so many owners at most.

        Ask it where a person may be with several owners: each of their releases tells of the
        person, so they compose. Where the target is the owners' own, epsilon is infinite, as in
        `owners`.

        Raises
        ------
        ValueError
            Unless `n_owners` is a whole number of at least 1.
        """
        if not isinstance(n_owners, Integral) or n_owners < 1:
            raise ValueError(f"n_owners must be a whole number of at least 1, got {n_owners!r}.")
        own = self.owners
        unit = "the rows of one person, one with each owner"
        unit = unit if own.unit == "one row" else "the groups of one person, one with each owner"
        facts = [part for part in own.given.split("; ") if "is in two of the tables" not in part]
        apart = NONE_SHARED.format(own.unit.removeprefix("one "))
        facts = [NONE_SHARED.format("person") if part == apart else part for part in facts]
        facts.append(f"a person has such rows with at most {int(n_owners)} owners")
        return replace(
            own,
            mechanism=compose([own.mechanism] * int(n_owners)),
            unit=unit,
            given="; ".join(facts),
        )

    @property
    def badge(self) -> str:
        """One line, for headings: the price of each claim, worst first."""
        neighbours = f"{self.owners.unit}, {self.owners.adjacency.replace('_', '-')}"
        line = f"{self.owners.protects.removeprefix('the ')}: {self.owners.price} ({neighbours})"
        line += ", against everybody"
        if self.target.mechanism != PureDP(0.0):  # else there is none
            passed_on = "where weights or models are passed on"
            line = f"target: {self.target.price} {passed_on}; {line}"
        return f"SIMULATED, protects nobody: {line}" if self.owners.simulated else line


def state_claims(released: PrivacyGuarantee, target: str) -> PrivateSummaryPrivacy:
    """Return the claims of a run.

    Parameters
    ----------
    released : PrivacyGuarantee
        Of the owners' sketches.
    target : {"none", "apart", "owners'"}
        Whether there is a target, and whether its rows are the owners' own.
    """
    if target == "none":
        nothing = PrivacyGuarantee(
            PureDP(0.0),
            released.adjacency,
            protects="the target",
            unit=released.unit,
            given="that there is none",
        )
        return PrivateSummaryPrivacy(nothing, released, released=released)
    # A group with other rows in the target than with an owner is as unprotected as a shared row.
    apart = NONE_SHARED.format(released.unit.removeprefix("one "))
    owners = replace(released, given=f"{released.given}; {apart}")
    if target == "owners'":
        owners = replace(released, mechanism=Unprotected(OWN_ROWS))
    unprotected = unprotected_target(released.unit, released.adjacency)
    return PrivateSummaryPrivacy(unprotected, owners, released=released)


def claim_of_sum(own: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return what is claimed of the rows of each owner, from what their releases claim, added."""
    one = own.unit.removeprefix("one ")
    facts = [
        own.given.split("; ")[0],
        "the names of the owners, and which of them answer and when",
        f"no {one} is in two of the tables that were added",
        *own.given.split("; ")[1:],
    ]
    given = "; ".join(dict.fromkeys(facts))
    return replace(own, protects="the rows of each owner", given=given, counted=True)
