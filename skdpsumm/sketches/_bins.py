"""Cells of columns for adaptive sketches: public fine ones, and bins that their counts show.

Numbers of real tables have atoms (the zero of a capital gain, forty hours), long tails and empty
stretches. Fine cells are fixed by the schema alone: half of them equal, half of them geometric from
the point nearest zero, and the ends and zero by themselves. From their noisy counts `find_bins`
takes the places where the density changes by more than noise does. That reads released values
alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..schema._columns import Numeric

Floats = NDArray[np.float64]
Edges = tuple[float, ...]

# Of a numeric column. Whole values where there are no more of them.
N_FINE = 128
# Bins that are looked for. More cost each pair of columns more noise than they tell.
N_BINS = 14
# With both ends of the range beside them.
MOST_BINS = N_BINS + 2
# Of a range: the cell around a single number, where values have no step. Float32 resolves it.
_ATOM = 2.0**-20
# Powers of ten that geometric cells span, of values without a step.
_DECADES = 4.0
# Standard deviations by which a part must be heavier or lighter than the rest of its stretch.
_CHANGE = 1.5
# A bin of so many times its share of the rows is halved, if there are bins left; of so many times
# also in place of a cut that moves no more than this part of its rows, if there are enough rows for
# the noise: so many standard deviations of a count (Adult at epsilon 0.1 lost by it).
_HEAVY, _HEAVIEST, _WORTH_HALVING, _SURE = 1.5, 2.0, 0.03, 60.0
# An end of the range, narrower than this part of it, is a bin by itself where its bin would be a
# long tail: wider than that part, with at most half of its share of the rows. Rows at a top code
# that noise hides, spread over the tail, would move the mean by far.
_END, _LONG_TAIL, _THIN = 2.0**-10, 0.2, 0.5
# Standard deviations at which a category is no longer rare.
_RARE = 3.0


def fine_edges(column: Numeric, thresholds: Sequence[float] = ()) -> Edges:
    """Return the edges of public fine cells of a numeric column, in which bins are looked for.

    Parameters
    ----------
    column : Numeric
        With a range.
    thresholds : sequence of float, default=()
        Where cells begin in any case, strictly inside the range.

    Returns
    -------
    tuple of float
        Increasing, from `low` to `high`. Of a column with a step they lie between its values.
    """
    assert column.bounds is not None
    low, high = column.bounds
    if column.n_values is not None:
        step = float(column.step or 1)
        wanted = np.ceil((np.array(thresholds) - low) / step - 1e-6).astype(np.int64)
        first = np.union1d(_fine_values(low, column.n_values, step), wanted)
        return (low, *(low + (first[1:] - 0.5) * step).tolist(), high)
    atom = max((high - low) * _ATOM, 8 * math.ulp(max(-low, high)))
    if not high - low > 4 * atom:  # which float64 hardly divides
        return (low, high)
    cuts = [
        *np.linspace(low, high, N_FINE // 2 + 1),
        *_geometric(low, high, (high - low) / 10**_DECADES),
    ]
    cuts += [low + atom, high - atom] + ([-atom, atom] if low < 0 < high else [])
    # The narrow cells stay whole: nothing else may cut them.
    free = [c for c in cuts if low + atom < c < high - atom and not abs(c) < atom]
    kept = [low, low + atom, *free, high - atom, high, *thresholds]
    return tuple(np.unique(kept).tolist())


def _fine_values(low: float, n_values: int, step: float) -> NDArray[np.int64]:
    """Return the position of the first value of each fine cell of a column with a step."""
    if n_values <= N_FINE:
        return np.arange(n_values)
    even = np.linspace(0, n_values, N_FINE // 2 + 1)[:-1]
    geometric = (_geometric(low, low + n_values * step, step) - low) / step
    ends = [0, 1, n_values - 1]
    zero = round(-low / step)
    ends += [zero, zero + 1] if 0 < zero < n_values - 1 else []
    first = np.concatenate([np.rint(even), np.rint(geometric), ends]).astype(np.int64)
    return np.unique(first[(first >= 0) & (first < n_values)])


def _geometric(low: float, high: float, least: float) -> Floats:
    """Return edges whose distances to the number nearest zero grow by a constant factor."""
    origin = min(max(low, 0.0), high)
    sides = [(s, reach) for s, reach in ((-1, origin - low), (1, high - origin)) if reach > least]
    n = N_FINE // 2 // max(len(sides), 1)
    grown = [origin + s * np.geomspace(least, reach, n) for s, reach in sides]
    return np.concatenate([*grown, np.empty(0)])


def begins_at(edges: Edges, threshold: float, step: float | None) -> int:
    """Return the fine cell that begins at a threshold of `fine_edges`."""
    half = (step or 0.0) * (0.5 + 1e-6)
    return int(np.searchsorted(edges, threshold - half))


def find_bins(
    counts: Floats, widths: Floats, std: float, *, least: float = 0.0, ends: bool = True
) -> list[int]:
    """Return the first fine cell of each bin, about `N_BINS` of them.

    Stretches are cut, best place first, where the part on the left departs most from an even spread
    (by more than 1.5 standard deviations of the noise). Neighbours of like density are then joined
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
    ends : bool, default=True
        Whether ends of the range that lie in long tails are bins by themselves.
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
        if not table.pays(parts, max(_HEAVIEST * share, heavy, _SURE * std)):
            break
        table.join(parts)
        table.halve(parts, heavy)
    return table.with_ends(parts) if ends else [start for start, _ in parts]


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
        z = np.abs(excess) / np.maximum(self.std * spread, 1e-300)
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

    def with_ends(self, parts: list[Part]) -> list[int]:
        """Return where parts start, and ends of the range that lie in long tails."""
        n, starts = len(self.width) - 1, {start for start, _ in parts}
        for part, end, cut in ((parts[0], (0, 1), 1), (parts[-1], (n - 1, n), n - 1)):
            if self.share(end) < _END and self.is_long_tail(part):
                starts.add(cut)
        return sorted(starts)

    def is_long_tail(self, part: Part) -> bool:
        """Whether a part is wide, and has few rows for that."""
        wide = self.share(part)
        return wide > _LONG_TAIL and self.rows(part) < _THIN * wide * self.mass[-1]

    def share(self, part: Part) -> float:
        """Return the part of the range that a part has."""
        return float((self.width[part[1]] - self.width[part[0]]) / self.width[-1])

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


def bins_at(edges: Sequence[float], starts: Sequence[int]) -> Edges:
    """Return the edges of bins that begin at these fine cells."""
    return (*(edges[k] for k in starts), edges[-1])


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
    common = rows >= _RARE * spread
    if common.sum() < 2:  # a column of one cell would tell nothing
        common = rows >= np.sort(rows)[-2]
    if (~common).sum() < 2:
        return None
    cells = np.where(common, np.cumsum(common) - 1, common.sum())
    return tuple(cells.tolist())
