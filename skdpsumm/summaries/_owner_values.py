"""What each owner's rows were worth, as a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..features import GRID
from ..privacy import Block, IntegerNoise, PrivacyGuarantee


class OwnerValues(NamedTuple):
    """A release of the owners' values.

    Parameters
    ----------
    values : dict from owner to float
    noise_std : float
        Standard deviation of the noise of each.
    privacy : PrivacyGuarantee
        What this release costs, beside all others.
    """

    values: dict[Any, float]
    noise_std: float
    privacy: PrivacyGuarantee


class OwnerValueRelease:
    """Laplace noise on values that are clipped to [0, 1] and scaled to sum to at most one.

    One row can change the whole choice. So the sensitivity is the largest distance between two
    such vectors, 2 in L1, under either adjacency.

    Parameters
    ----------
    n_owners : int
    epsilon : float
    """

    def __init__(self, n_owners: int, epsilon: float):
        self._noise = IntegerNoise(
            [Block(n_owners, 2.0 * GRID, 2.0 * GRID)], epsilon=epsilon, delta=0
        )
        self.mechanism = self._noise.mechanism
        self.noise_std = float(self._noise.std[0] / GRID)

    def release(self, values: Sequence[float], noise_seed: int | None) -> list[float]:
        """Return the values with noise."""
        # Bounded whatever they are, for the sensitivity rests on it.
        bounded = np.clip(np.nan_to_num(values), 0.0, 1.0)
        grid = np.floor(bounded / max(1.0, bounded.sum()) * GRID).astype(np.int64)
        return (self._noise.add(grid, noise_seed) / GRID).tolist()
