"""The three claims of a summary: about the target, the owners, and the rows in it."""

from __future__ import annotations

from dataclasses import dataclass

from ..privacy import PrivacyGuarantee, Unprotected


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

    def __repr__(self) -> str:
        parts = {"consumer": self.consumer, "target": self.target, "owners": self.owners}
        if self.h2 is not None:
            parts["owners, h2 alone"] = self.h2
        lines = [f"{name}: {claim!r}" for name, claim in parts.items()]
        return "<SummaryPrivacy\n" + "\n".join(lines) + ">"
