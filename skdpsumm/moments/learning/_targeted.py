"""What a model promises that is trained from a sketch for a target's rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..._html import html_table
from ...privacy import PrivacyGuarantee
from ...privacy._guarantee import Explanation
from ..inferring._target import unprotected_target

# Weights follow the target's rows without noise, so what was sketched, too, is unprotected.
_APART = "the target and the rows that were sketched share no {}"


@dataclass(frozen=True, repr=False)
class TargetedPrivacy:
    """Two claims: for the rows that were sketched, and for the target's.

    Parameters
    ----------
    sketch : PrivacyGuarantee
        Of the rows that were sketched. Weighting costs them nothing more, given that none of them
        is a row of the target; where groups are protected, that no group has a row in it.
    target : PrivacyGuarantee
        Of the target's rows: epsilon is infinite against whoever receives the model.
    """

    sketch: PrivacyGuarantee
    target: PrivacyGuarantee = field(default_factory=unprotected_target)

    @classmethod
    def of(cls, sketch: PrivacyGuarantee) -> TargetedPrivacy:
        """Return the claims of a model that was trained from a release, for a target's rows."""
        given = f"{sketch.given}; {_APART.format(sketch.unit.removeprefix('one '))}"
        return cls(replace(sketch, given=given), unprotected_target(sketch.unit, sketch.adjacency))

    @property
    def badge(self) -> str:
        """One line, for headings."""
        return f"target: {self.target.price}; sketched rows: {self.sketch.badge}"

    def epsilon(self, delta: float = 0.0) -> float:
        """Return the epsilon of the worse claim, that of the target: it is infinite."""
        return max(self.sketch.epsilon(delta), self.target.epsilon(delta))

    def explain(self) -> Explanation:
        """Return both promises in plain words, for whoever signs them: as text, and as HTML."""
        parts = {"sketch": self.sketch.explain(), "target": self.target.explain()}
        return Explanation.joined(self.badge, parts)

    def _repr_html_(self) -> str:
        rows = [("sketch", self.sketch.badge), ("target", self.target.badge)]
        return html_table(self.badge, (), rows, len(rows))

    def __repr__(self) -> str:
        return f"<TargetedPrivacy\nsketch: {self.sketch!r}\ntarget: {self.target!r}>"
