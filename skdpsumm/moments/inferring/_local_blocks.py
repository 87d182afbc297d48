"""A preconditioner of the regression on many histogram cells: overlapping blocks of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...features import FeatureMap, HistogramMap
from ._blocks import FeatureBlocks

# Entries of all inverses together: 256 MiB. The largest blocks beyond that are left out.
_MOST_ENTRIES = 2**25
_LARGEST_OTHER = 512


class LocalBlocks:
    """The sum of the inverses of overlapping diagonal blocks (additive Schwarz).

    Histograms that share a column count the same rows by its values: what one of them says of
    "age = 90" all of them say, and where few points have that value their cells nearly depend on
    one another. Conjugate gradients find these thousands of dependencies one by one. But each is
    among cells of one value of one column. So there is a block for each such value, of all cells
    that hold it; and one for each run of other features. Features in no block have their diagonal.

    On ten columns of Adult, 24,000 cells, 41 steps do what 250 do with the main effects solved
    exactly, and what the diagonal alone does not do in 600.

    Parameters
    ----------
    features : FeatureBlocks
    offset : ndarray of shape (m,)
        What is subtracted from each row, or zero.
    variance, penalty : ndarray of shape (m,)
        The diagonal of the matrix, in two parts.
    """

    def __init__(
        self, features: FeatureBlocks, offset: NDArray, variance: NDArray, penalty: NDArray
    ):
        self._inverses: list[tuple[NDArray, NDArray]] = []
        self._alone = 1 / (variance + penalty)
        seen = features.mean_square() > 0
        columns = features.by_column()
        blocks = [block[seen[block]] for block in overlapping_blocks(features.feature_map)]
        blocks = sorted((block for block in blocks if len(block)), key=len)
        entries = np.cumsum([len(block) ** 2 for block in blocks])
        for block in blocks[: np.searchsorted(entries, _MOST_ENTRIES, side="right")]:
            own = columns.take(block).gram() / features.n_points
            own -= np.outer(offset[block], offset[block])
            own[np.diag_indices_from(own)] += penalty[block]
            self._inverses.append((block, np.linalg.inv(own)))
            self._alone[block] = 0.0

    def solve(self, residual: NDArray) -> NDArray:
        """Return the preconditioned residual(s), shape (m, k)."""
        out = self._alone[:, None] * residual
        for block, inverse in self._inverses:
            out[block] += inverse @ residual[block]
        return out


def overlapping_blocks(feature_map: FeatureMap) -> list[NDArray[np.int64]]:
    """Return the positions of the features in each block."""
    by_value: dict[tuple[int, int], list[NDArray]] = {}
    others, start = [], 0
    for part in feature_map.parts():
        end = start + part.n_features
        if isinstance(part, HistogramMap):
            _add_cells(by_value, part, start)
        else:
            cuts = np.arange(start + _LARGEST_OTHER, end, _LARGEST_OTHER)
            others += np.split(np.arange(start, end), cuts - start)
        start = end
    return [np.concatenate(cells) for cells in by_value.values()] + others


def _add_cells(by_value: dict, histogram: HistogramMap, start: int) -> None:
    """List the cells of every histogram by the values of its columns."""
    for group, place in zip(histogram.groups, histogram.row_groups(), strict=True):
        shape = [histogram.n_bins[j] for j in group]
        cells = np.arange(start + place.start, start + place.stop).reshape(shape)
        for axis, j in enumerate(group):
            for value, slab in enumerate(np.moveaxis(cells, axis, 0)):
                by_value.setdefault((j, value), []).append(slab.ravel())
