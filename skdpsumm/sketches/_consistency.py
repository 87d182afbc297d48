"""Whether what a sketch says of itself can be true: its claim, its noise and its sums together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..features import GRID

if TYPE_CHECKING:
    from ._private_sketch import PrivateSketch

# A sum farther out than its rows allow is none: Laplace noise goes beyond 40 of its deviations in
# one of 1e24 draws, Gaussian noise never does.
MOST_DEVIATIONS = 40
# Of a sum of releases the guarantee states the largest of each kind: two costs, or one more for
# each sketch that was added before it did so.
MOST_COSTS = 64
_ROUNDING = 1e-9


def check_consistent(sketch: PrivateSketch) -> None:
    """Raise ValueError for a release that none of this library can be.

    Whether the noise was drawn, and as stated, nobody can see. But the guarantee must not promise
    more than noise of the size stated gives, and the sums must be some table's.

    Parameters
    ----------
    sketch : PrivateSketch
    """
    privacy = sketch.privacy
    costs = privacy.mechanism.alternatives
    words = [privacy.protects, privacy.against, privacy.unit, privacy.given]
    words += [cost.unprotected.reason for cost in costs if cost.unprotected]
    if not all(text.isprintable() for text in words):
        raise ValueError("The words of the guarantee hold what rules a terminal.")
    if len(costs) > MOST_COSTS:
        raise ValueError(f"The guarantee is the worst of {len(costs)} costs, more than needed.")
    blocks = _noise_of_blocks(sketch)
    for cost in costs:
        if cost.noise_cost(blocks) > 1 + _ROUNDING:
            raise ValueError("The guarantee promises more than noise so small can give.")
    _check_rows(sketch)


def _check_rows(sketch: PrivateSketch) -> None:
    """Check the number of rows and the sums against each other."""
    if sketch.privacy.adjacency == "replace_one":
        public = not sketch.n_from_sums and not sketch.n_noise_std
        if not public or sketch.n_released < 0 or sketch.n_released % 1:
            raise ValueError("The number of rows is public under replace_one, and whole.")
    elif bool(sketch.n_noise_std) != bool(sketch.noise_std.any()):
        raise ValueError("The number of rows has noise where the sums have.")
    rows = max(sketch.n_released, 0.0) + MOST_DEVIATIONS * sketch.n_noise_std
    most = rows * (1 + 1e-6) + MOST_DEVIATIONS * sketch.noise_std
    if np.any(np.abs(sketch.sums) > most):
        raise ValueError("The sums are larger than the number of rows and the noise allow.")


def _noise_of_blocks(sketch: PrivateSketch) -> list[tuple[float, float, float]]:
    """Return the L1 and L2 sensitivity and the stated noise of each block, in grid units.

    Of a merged sketch the stated noise is that of all its releases, more than each of them has.
    """
    adjacency = sketch.privacy.adjacency
    blocks = [
        (*part.sensitivity(adjacency), float(sketch.noise_std[where].min()) * GRID)
        for part, where in sketch.blocks()
    ]
    if adjacency == "add_remove" and not sketch.n_from_sums:
        blocks.append((GRID, GRID, sketch.n_noise_std * GRID))
    return blocks
