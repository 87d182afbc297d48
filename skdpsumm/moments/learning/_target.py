"""Models for a target's rows: synthetic rows weighted to match them, and what is then promised.

The embedding of the target is the mean, over its rows, of histograms of the columns. Synthetic rows
are weighted so that theirs agrees with it within the target's own sampling error, and are
otherwise as equal as they can be. No noise is added: weights tell of the target's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..._html import html_table
from ...features._histogram import HistogramMap
from ...privacy import PrivacyGuarantee
from ...privacy._guarantee import Explanation
from ...privacy._mechanisms import Unprotected
from ...schema._reading import Table
from ...schema._schema import TableSchema
from ..inferring._points import maxent_weights
from ..inferring._regression import FeatureBlocks

# Weights follow the target's rows without noise, so what was sketched, too, is unprotected.
_APART = "the target and the rows that were sketched share no {}"


@dataclass(frozen=True, eq=False, repr=False)
class TargetEmbedding:
    """The mean embedding of a target's rows, and its sampling error. Holds private data.

    Parameters
    ----------
    feature_map : HistogramMap
        phi, public: a histogram of each column.
    mean : ndarray of shape (m,)
    slack : ndarray of shape (m,)
        Variance of each entry of `mean` around the mean of the target's population.
    """

    feature_map: HistogramMap
    mean: NDArray[np.float64]
    slack: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray | Table, schema: TableSchema) -> TargetEmbedding:
        """Embed rows, checked, of a table; the map follows from the schema alone."""
        columns = [(j,) for j in range(schema.n_columns)]
        # Finer bins hold too few of some hundred rows to be matched.
        feature_map = HistogramMap.build(schema, 10, columns)
        features = FeatureBlocks.of(feature_map, rows)
        (mean, variance), n = features.moments(), features.n_points
        # What no row of few has may still be there: its share is below some 1 / n.
        return cls(feature_map, mean, np.maximum(variance, 1 / n) / n)

    def weights(self, points: NDArray) -> NDArray[np.float64]:
        """Return the weights of points, which sum to one, whose embedding is that of the target."""
        return maxent_weights(FeatureBlocks.of(self.feature_map, points), self.mean, self.slack)

    def is_out_of_reach(self, points: NDArray, weights: NDArray) -> bool:
        """Return whether no weights make the points look like the target.

        What weights miss that do is about one standard error of the target's embedding.
        """
        found = FeatureBlocks.of(self.feature_map, points).tdot(weights)
        missed = np.sqrt(np.mean((found - self.mean) ** 2 / self.slack))
        return bool(missed > 2)


def unprotected_target(unit: str = "one row", adjacency: str = "add_remove") -> PrivacyGuarantee:
    """Return what is claimed for the rows of a target that weights follow: nothing."""
    return PrivacyGuarantee(
        Unprotected("the weights follow its rows without noise"),
        adjacency,
        protects="the target",
        against=(
            "whoever receives the weighted rows or a model trained on them; nobody else learns "
            "anything of it"
        ),
        unit=unit,
        given="nothing",
    )


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
