"""The three claims of a summary: about the target, the owners, and the rows in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..privacy import Mechanism, PrivacyGuarantee, PureDP, Unprotected, compose

if TYPE_CHECKING:
    from ._protocol import Plan
    from ._terms import Terms


APART = "the target and the owners share no row"


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
            given="nothing",
        )

    @property
    def badge(self) -> str:
        """One line, for headings: the price of each claim, worst first."""
        common = f"({self.owners.adjacency.replace('_', '-')}), against {self.owners.against}"
        line = (
            f"chosen rows: no guarantee; target: {self.target.price}; "
            f"rows of other owners: {self.owners.price} {common}"
        )
        simulated = self.target.simulated or self.owners.simulated
        return f"SIMULATED, protects nobody: {line}" if simulated else line

    def __repr__(self) -> str:
        parts = {"consumer": self.consumer, "target": self.target, "owners": self.owners}
        if self.h2 is not None:
            parts["owners, h2 alone"] = self.h2
        lines = [f"{name}: {claim!r}" for name, claim in parts.items()]
        return "<SummaryPrivacy\n" + "\n".join(lines) + ">"


def total_cost(plan: Plan) -> Mechanism:
    """Return the composition of all releases of a run that cost anything."""
    target = [] if plan.target is None else [plan.target.mechanism]
    costly = [mechanism for mechanism in (*target, plan.owners) if mechanism != PureDP(0.0)]
    return compose(costly) if costly else PureDP(0.0)


def state_privacy(
    plan: Plan, terms: Terms, target_is_owners: bool, *, simulated: bool
) -> SummaryPrivacy:
    """Return the claims of a run; if target and owners are the same rows, all counts for both.

    Otherwise a claim that another release could weaken, if a row were in both tables, is given
    that none is. Nobody looks: what is claimed must not depend on private rows.
    """
    target = PureDP(0.0) if plan.target is None else plan.target.mechanism
    owners, h2 = plan.owners, plan.h2
    everything = total_cost(plan)
    if target_is_owners:
        target = owners = everything
        if h2 is not None and plan.target is not None:
            h2 = compose([h2, plan.target.mechanism])
    common = {
        "adjacency": terms.adjacency,
        "against": "owner coalition",
        "simulated": simulated,
    }
    public = "the parameters, the names of the owners, and which of them answer and when"
    size = "" if terms.n_target is None else ", and n_target"
    protects = "the rows of other owners"

    def given(mechanism: Mechanism) -> str:
        return "" if mechanism == everything else f", and that {APART}"

    of_owners = public + given(owners)
    return SummaryPrivacy(
        PrivacyGuarantee(
            target, protects="the target", given=public + size + given(target), **common
        ),
        PrivacyGuarantee(owners, protects=protects, given=of_owners, **common),
        h2 and PrivacyGuarantee(h2, protects=protects, given=of_owners, **common),
    )
