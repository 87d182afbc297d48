"""How columns go together where nobody counted it: random interactions of size phi.

The model takes a pair that no group holds to be as independent as all counts allow. How far the
truth is from that, other pairs tell, by how far they were from the model before they were counted.
A plausible table has an interaction of that size, white in functions that are orthonormal under the
margins, so that all that fewer columns tell stays as it is. To it a part is added of what the model
has of the pair, one for all pairs: those of a scale all go together more than chains of them tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, reduce
from itertools import combinations

import numpy as np

from ..._computing import TINY, Floats
from ...sketches._adaptive import MEAN_NOISE
from ...sketches._graphical import Marginal
from .._numbers import (
    MOST_LEFT_OUT,
    ROUNDING,
    SHARE_BEYOND_PAIRS,
    SHARE_OVERLOOKED,
    TYPICAL_SQUARE,
    Group,
)
from ..inferring._table_model import TableModel
from ._noise import generator


class Interactions:
    """How far a model may be off, where nobody counted columns together.

    Parameters
    ----------
    model : TableModel
    """

    def __init__(self, model: TableModel):
        self._model = model

    def drawn(
        self, part: Group, n_tables: int, stream: Callable[..., np.random.Generator]
    ) -> Floats:
        """Return random interactions of two or three columns, in shares of the rows.

        Returns
        -------
        ndarray of shape (n_tables, *sizes of the columns)
            Sums along any axis are 0.
        """
        margins = [np.maximum(self._model.table((a,)), 0.0) for a in part]
        roots = [np.sqrt(m / max(m.sum(), TINY)) for m in margins]
        white = stream("interaction", part).standard_normal((n_tables, *map(len, roots)))
        for k, root in enumerate(roots):
            along = np.moveaxis(white, k + 1, -1)
            along -= (along * root).sum(axis=-1, keepdims=True) * root
        white *= reduce(np.multiply.outer, roots) * math.sqrt(self.square_of(part))
        if len(part) > 2:
            return white
        more = self.more * stream("more").random((n_tables, 1, 1))
        return white + more * (self._model.table(part) - np.multiply.outer(*margins))

    @cached_property
    def more(self) -> float:
        """How much more of what the model has of pairs these had when they were counted.

        It is a regression over the pairs that surprises are of: the mean of a normal prior of
        variance 1 after these, whose other surprises are noise, and as white as of real tables.
        """
        missed = told = 0.0
        for marginal, expected in self._expected[0]:
            independent = np.outer(expected.sum(axis=1), expected.sum(axis=0))
            noise = np.square(marginal.std / self._model.n_rows)
            own = expected - independent
            weights = own / (noise + TYPICAL_SQUARE * independent + TINY)
            missed += np.sum(weights * (marginal.counts / self._model.n_rows - expected))
            told += np.sum(weights * own)
        return missed / (1 + told)

    @cached_property
    def of_pair(self) -> float:
        """The model's error phi on a pair that was not counted.

        In units of ``sqrt(pA (1 - pA) pB (1 - pB))`` for conditions A and B on two columns. It is
        the error that groups had when they were counted, on conditions of single cells and of
        thresholds: of groups of later phases under the model of the phases before, else of groups
        that are left out in turn. In adaptive releases the groups were chosen for being worst, so
        that it is rather too large.
        """
        each, chosen = self._expected
        if not each:
            return self._of_counted_pairs
        found = np.array([self._surprise(*one) for one in each])
        # The worst of each round: half of these are worse than nearly all that was not chosen.
        middle = float(np.median(found) if chosen else np.mean(found))
        return math.sqrt(max(middle + found.std() / math.sqrt(len(found)), 0.0) + self._unknown)

    @cached_property
    def beyond(self) -> float:
        """How columns go together beyond their pairs: a part of how these do, and by chance."""
        return math.hypot(SHARE_BEYOND_PAIRS * self._of_counted_pairs, self._model.n_rows**-0.5)

    @property
    def _unknown(self) -> float:
        """What a few pairs do not tell of others, squared."""
        return TYPICAL_SQUARE / (1 + len(self._pairs))

    @cached_property
    def _of_counted_pairs(self) -> float:
        """How far counted pairs are from independence, in units of phi."""
        singles = [[self._model.table((a,)) for a in m.columns] for m in self._pairs]
        independent = [np.multiply.outer(*margins) for margins in singles]
        together = list(map(self._surprise, self._pairs, independent))
        return math.sqrt(max(float(np.mean(together or [0.0])), 0.0) + self._unknown)

    def square_of(self, columns: Group) -> float:
        """Return the square of phi for a group of columns that was not counted."""
        covers = self._model.model.residuals.covers
        uncounted = [pair for pair in combinations(columns, 2) if not covers(pair)]
        if len(columns) > 2:
            return max(self.of_pair if uncounted else 0.0, self.beyond) ** 2
        return self.of_pair**2 + sum(map(self._overlooked, uncounted))

    def _overlooked(self, pair: Group) -> float:
        """Return the square of what the choice of groups may have overlooked in a pair.

        A group is chosen for the rows that are elsewhere than the model has them, less what the
        noise of its own count would be. So a pair of many cells was left out not only where the
        model explains it: all that is known is that it misplaces no more rows than the difference
        of this noise to that of the smallest group that was chosen, and what that one misplaced. A
        part phi of the rows, at least, is misplaced in a pair with an error of phi.
        """
        least, cell = self._chosen_noise
        hidden = cell * self._model.n_cells(pair) / self._model.n_rows - least - SHARE_OVERLOOKED
        return min(max(hidden, 0.0) ** 2, TYPICAL_SQUARE)

    @cached_property
    def _chosen_noise(self) -> tuple[float, float]:
        """The least noise in a pair that was chosen, as a part of the rows; and in each cell."""
        chosen = [m for m in self._pairs if m.phase > min(one.phase for one in self._pairs)]
        if not chosen:
            return 0.0, 0.0
        cell = MEAN_NOISE * float(np.median([np.mean(m.std) for m in chosen]))
        return cell * min(m.counts.size for m in chosen) / self._model.n_rows, cell

    @cached_property
    def _pairs(self) -> list[Marginal]:
        return [m for m in self._model.marginals if len(m.columns) == 2 and not m.coarse]

    @cached_property
    def _expected(self) -> tuple[list[tuple[Marginal, Floats]], bool]:
        """Some pairs, with what a model that lacks them expects, and whether they were chosen."""
        pairs = self._pairs
        new_of = {k: [m for m in pairs if m.phase == k] for k in sorted({m.phase for m in pairs})}
        if len(new_of) > 1:  # the model learns: what the last round found is true of it now
            last = max(new_of)
            known = [m for m in self._model.marginals if m.phase < last]
            # Five sweeps tell surprises to a hundredth, as of a group that is left out.
            before = self._model.fitted(known, sweeps=5)
            return [(m, before.marginal(m.columns)) for m in new_of[last]], True
        if len(pairs) < 2:
            return [], False
        order = generator(self._model.sketch.key, "left out").permutation(len(pairs)).tolist()
        return [self._without(pairs[place]) for place in order[:MOST_LEFT_OUT]], False

    def _without(self, left: Marginal) -> tuple[Marginal, Floats]:
        """Return a pair, and what a model expects that knows its columns alone."""
        others = [m for m in self._model.marginals if m is not left]
        singles = [
            Marginal((j,), self._model.table((j,)) * self._model.n_rows, float(np.mean(left.std)))
            for j in left.columns
            if not any(j in m.columns for m in others)
        ]
        model = self._model.model.copy_with([*others, *singles])
        return left, model.marginal(left.columns)

    def _surprise(self, marginal: Marginal, expected: Floats) -> float:
        """Return the mean square of the errors of conditions on a pair, in units of phi^2.

        Conditions that hold together for many rows count for more: these are what is asked.
        """
        a, b = marginal.columns
        margins = [np.maximum(self._model.table((j,)), 0.0) for j in (a, b)]
        left, right = (_conditions(margin) for margin in margins)
        missed = left @ (marginal.counts / self._model.n_rows - expected) @ right.T
        variance = np.broadcast_to(np.square(marginal.std), marginal.shape) / self._model.n_rows**2
        noise = left**2 @ variance @ (right**2).T
        shares = [(one > 0) @ margin for one, margin in zip((left, right), margins, strict=True)]
        both = (left > 0) @ np.maximum(expected, 0.0) @ (right > 0).T
        # Conditions that noise drowns say little.
        weights = both / np.sqrt(np.outer(*shares)) / np.maximum(noise, ROUNDING) ** 2
        if not weights.sum() > 0:
            return 0.0
        return float(np.average(missed**2 - noise, weights=weights))


def _conditions(margin: Floats) -> Floats:
    """Return conditions on a column, standardised: of single cells and of thresholds."""
    n = len(margin)
    asked = np.concatenate([np.eye(n), np.tril(np.ones((n, n)))[:-1]])
    share = asked @ margin / max(margin.sum(), TINY)
    kept = (share > ROUNDING) & (share < 1 - ROUNDING)
    asked, share = asked[kept], share[kept]
    return (asked - share[:, None]) / np.sqrt(share * (1 - share))[:, None]
