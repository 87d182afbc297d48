"""Bins of the columns of adaptive sketches, that noisy counts of finer cells show.

Numbers of real tables have heaps (the zero of a capital gain, forty hours), long tails and empty
stretches. `find_bins` takes the places where the density changes by more than noise does. Rare
categories become one cell. That reads released values alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._linear_systems import TINY

Floats = NDArray[np.float64]

# Bins that are looked for. More cost each pair of columns more noise than they tell.
N_BINS = 14
# Standard deviations by which a part must be heavier or lighter than the rest of its stretch. With
# 1.5, noise makes bins in empty tails, and moves means (examples/benchmarks/bins.py).
_CHANGE = 2.5
# A bin of so many times its share of the rows is halved, if there are bins left; of so many times
# also in place of a cut that moves no more than this part of its rows, if there are enough rows for
# the noise: so many standard deviations of a count (Adult at epsilon 0.1 lost by it).
_HEAVY, _HEAVIEST, _WORTH_HALVING, _STDS_OF_HEAVIEST = 1.5, 2.0, 0.03, 60.0


def find_bins(counts: Floats, widths: Floats, std: float, *, least: float = 0.0) -> list[int]:
    """Return the first fine cell of each bin, about `N_BINS` of them.

    Stretches are cut, best place first, where the part on the left departs most from an even spread
    (by more than 2.5 standard deviations of the noise). Neighbours of like density are then joined
    while there are too many, and the heaviest halved while there are too few.

    Parameters
    ----------
    counts : ndarray of shape (n,)
        Noisy.
    widths : ndarray of shape (n,)
        What the cells hold of the range: an even density has counts in proportion.
    std : float
        Of the noise in `counts`.
    least : float, default=0
        Rows that make a half worth a bin.
    """
    table = _Stretches(counts, widths, std)
    parts = _cut(table)
    while len(parts) > N_BINS:
        table.join(parts)
    share = max(float(table.mass[-1]), 1.0) / N_BINS
    heavy = max(_HEAVY * share, 2 * least)
    while len(parts) < N_BINS and table.halve(parts, heavy):
        pass
    # Where next to nothing changes, noise has made cuts, and left half of the rows in one bin.
    for _ in range(N_BINS):
        if not table.pays(parts, max(_HEAVIEST * share, heavy, _STDS_OF_HEAVIEST * std)):
            break
        table.join(parts)
        table.halve(parts, heavy)
    return [start for start, _ in parts]


Part = tuple[int, int]


class _Stretches:
    """Sums of cells from one to another."""

    def __init__(self, counts: Floats, widths: Floats, std: float):
        self.mass = np.concatenate([[0.0], np.cumsum(counts)])
        self.width = np.concatenate([[0.0], np.cumsum(widths)])
        self.std = std

    def rows(self, part: Part) -> float:
        return float(self.mass[part[1]] - self.mass[part[0]])

    def change(self, part: Part) -> tuple[float, int]:
        """Return the most significant departure from an even spread, and where to cut for it."""
        start, end = part
        if end - start < 2:
            return 0.0, start
        at = np.arange(start + 1, end)
        share = (self.width[at] - self.width[start]) / (self.width[end] - self.width[start])
        excess = self.mass[at] - self.mass[start] - share * self.rows(part)
        # Noise of the cells on the left counts by 1 - share, of those on the right by share.
        spread = np.sqrt((at - start) * (1 - share) ** 2 + (end - at) * share**2)
        z = np.abs(excess) / np.maximum(self.std * spread, TINY)
        best = int(np.argmax(z))
        return float(z[best]), int(at[best])

    def contrast(self, left: Part, right: Part) -> float:
        """Return how many rows would move if two neighbours had one density."""
        wide = [float(self.width[b] - self.width[a]) for a, b in (left, right)]
        moved = self.rows(left) * wide[1] - self.rows(right) * wide[0]
        return abs(moved) / sum(wide)

    def cheapest(self, parts: list[Part]) -> tuple[float, int]:
        """Return the least contrast of two neighbours, and which."""
        found = [self.contrast(*pair) for pair in pairwise(parts)]
        k = int(np.argmin(found))
        return found[k], k

    def join(self, parts: list[Part]) -> None:
        """Join the two neighbours whose densities differ least."""
        _, k = self.cheapest(parts)
        parts[k : k + 2] = [(parts[k][0], parts[k + 1][1])]

    def halve(self, parts: list[Part], heavy: float) -> bool:
        """Halve the heaviest part, if it can be halved and is heavier than so many rows."""
        part = self.heaviest(parts)
        if part is None or self.rows(part) <= heavy:
            return False
        k, middle = parts.index(part), self.middle(part)
        parts[k : k + 1] = [(part[0], middle), (middle, part[1])]
        return True

    def heaviest(self, parts: Sequence[Part]) -> Part | None:
        """Return the heaviest part of several cells."""
        return max((p for p in parts if p[1] - p[0] > 1), key=self.rows, default=None)

    def pays(self, parts: list[Part], heavy: float) -> bool:
        """Whether to halve the heaviest part, in place of a cut that moves few rows."""
        part = self.heaviest(parts)
        if part is None or len(parts) < 3 or self.rows(part) <= heavy:
            return False
        cost, k = self.cheapest(parts)
        together = self.rows((parts[k][0], parts[k + 1][1]))
        return cost < _WORTH_HALVING * self.rows(part) and together < self.rows(part) / 2

    def middle(self, part: Part) -> int:
        """Return the place that halves the rows of a part."""
        start, end = part
        inside = self.mass[start + 1 : end] - self.mass[start]
        return start + 1 + int(np.argmin(np.abs(inside - self.rows(part) / 2)))


def _cut(table: _Stretches) -> list[Part]:
    """Return stretches between changes of density, at most twice as many as bins."""
    whole = (0, len(table.mass) - 1)
    found = {whole: table.change(whole)}
    while len(found) < 2 * N_BINS:
        part = max(found, key=lambda part: found[part][0])
        z, at = found.pop(part)
        if z <= _CHANGE:
            found[part] = z, at
            break
        for half in ((part[0], at), (at, part[1])):
            found[half] = table.change(half)
    return sorted(found)


def joined_categories(counts: Floats, std: float) -> tuple[int, ...] | None:
    """Return the cell of each category where rare ones make one cell; None where they do not.

    Parameters
    ----------
    counts : ndarray of shape (n_categories, n_others)
        Noisy, by category and by what it was counted with.
    std : float
        Of the noise in each count.
    """
    rows, spread = counts.sum(axis=1), std * math.sqrt(counts.shape[1])
    # From three standard deviations on a category is no longer rare.
    common = rows >= 3.0 * spread
    if common.sum() < 2:  # a column of one cell would tell nothing
        common = rows >= np.sort(rows)[-2]
    if (~common).sum() < 2:
        return None
    cells = np.where(common, np.cumsum(common) - 1, common.sum())
    return tuple(cells.tolist())
