"""Synthetic rows weighted to match a target's rows, at home: covariate shift from a sketch.

The embedding of the target is the mean, over its rows, of histograms of the columns. Synthetic rows
are weighted so that theirs agrees with it within the target's own sampling error, and are
otherwise as equal as they can be. No noise is added: weights tell of the target's rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...features._histogram import HistogramMap
from ...privacy import PrivacyGuarantee
from ...privacy._mechanisms import Unprotected
from ...schema._reading import Table
from ...schema._schema import TableSchema
from ._points import maxent_weights
from ._regression import FeatureBlocks


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
