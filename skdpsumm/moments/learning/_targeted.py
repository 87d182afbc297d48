"""What a model promises that is trained from a sketch for a target's rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...privacy import PrivacyGuarantee
from ..inferring._target import unprotected_target


@dataclass(frozen=True, repr=False)
class TargetedPrivacy:
    """Two claims: for the rows that were sketched, and for the target's.

    Parameters
    ----------
    sketch : PrivacyGuarantee
        Of the rows that were sketched. Weighting costs them nothing more.
    target : PrivacyGuarantee
        Of the target's rows: epsilon is infinite against whoever receives the model.
    """

    sketch: PrivacyGuarantee
    target: PrivacyGuarantee = field(default_factory=unprotected_target)

    @property
    def badge(self) -> str:
        """One line, for headings."""
        return f"target: {self.target.price}; sketched rows: {self.sketch.badge}"

    def epsilon(self, delta: float = 0.0) -> float:
        """Return the epsilon of the worse claim, that of the target: it is infinite."""
        return max(self.sketch.epsilon(delta), self.target.epsilon(delta))

    def __repr__(self) -> str:
        return f"<TargetedPrivacy\nsketch: {self.sketch!r}\ntarget: {self.target!r}>"
