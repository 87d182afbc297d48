"""Best linear unbiased marginals of noisy marginals, in closed form, by residuals.

The counts of a group of columns are the sum of its residuals: for each set t of the group what
remains of the counts of t when all that smaller sets tell is taken out. Residuals of different sets
are orthogonal, and noise that is alike in all cells of a group is independent between them. So each
is the mean, by precision, of what the groups that hold it say, and every marginal and its variance
follow from these.

References
----------
.. [1] Xiao, He, Li and Fang (2023), "An optimal and scalable matrix mechanism for noisy marginals
       under convex loss functions" (ResidualPlanner).
.. [2] Mullins, Fuentes, Xiao, Kifer, Musco and Sheldon (2024), "Efficient and private marginal
       reconstruction with local non-negativity".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Group = tuple[int, ...]
Floats = NDArray[np.float64]

_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class Marginal:
    """Noisy counts of the cells of a group of columns.

    Parameters
    ----------
    columns : tuple of int
    counts : ndarray, one axis for each column
    std : float or ndarray that broadcasts to `counts`
        Standard deviation of the noise in each cell.
    phase : int, default=0
        When it was counted: later phases were chosen by what earlier ones told.
    """

    columns: Group
    counts: Floats
    std: float | Floats
    phase: int = field(default=0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return self.counts.shape


def subsets(group: Sequence[int]) -> Iterator[Group]:
    """Yield all subsets of a group, the empty one first."""
    for k in range(len(group) + 1):
        yield from combinations(group, k)


class Residuals:
    """All that noisy marginals tell without a model.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    marginals : iterable of Marginal

    Attributes
    ----------
    n_rows : float
        Best unbiased estimate of the number of rows.
    n_rows_std : float
    """

    def __init__(self, sizes: Sequence[int], marginals: Iterable[Marginal]):
        self.sizes = tuple(sizes)
        sums: dict[Group, Floats] = {}
        self._precision: dict[Group, float] = {}
        for marginal in marginals:
            group = tuple(sorted(marginal.columns))
            counts = np.transpose(marginal.counts, [marginal.columns.index(a) for a in group])
            noise = float(np.mean(np.broadcast_to(marginal.std, counts.shape) ** 2))
            for part in subsets(group):
                outside = tuple(k for k, a in enumerate(group) if a not in part)
                n_summed = math.prod(self.sizes[group[k]] for k in outside)
                weight = 1 / max(noise * n_summed, _SMALLEST)
                told = weight * _centred(counts.sum(axis=outside))
                sums[part] = sums[part] + told if part in sums else told
                self._precision[part] = self._precision.get(part, 0.0) + weight
        self._residuals = {part: sums[part] / self._precision[part] for part in sums}
        self.n_rows = float(self._residuals[()])
        self.n_rows_std = math.sqrt(1 / self._precision[()])

    def covers(self, group: Iterable[int]) -> bool:
        """Whether some marginal held all columns of a group."""
        return tuple(sorted(group)) in self._residuals

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return counts of the cells of a group: no noise is preferred, so some are negative.

        A residual that nobody counted is 0.
        """
        ordered = tuple(sorted(group))
        counts = np.zeros([self.sizes[a] for a in ordered])
        for part in subsets(ordered):
            if part in self._residuals:
                shape = [self.sizes[a] if a in part else 1 for a in ordered]
                n_summed = math.prod(self.sizes[a] for a in ordered if a not in part)
                counts += self._residuals[part].reshape(shape) / n_summed
        return np.transpose(counts, [ordered.index(a) for a in group])

    def noise(self, part: Iterable[int]) -> float | None:
        """Return the variance of the noise in the residual of a set, None where none was counted.

        It is that of the sum of weights of norm 1 times the residual.
        """
        found = self._precision.get(tuple(sorted(part)))
        return None if found is None else 1 / found

    def variance(self, group: Sequence[int], weights: Floats) -> float | None:
        """Return the variance of the sum of `weights` times the counts of a group.

        Parameters
        ----------
        group : sequence of int
        weights : ndarray, one axis for each column of the group

        Returns
        -------
        float or None
            None where a residual that the sum needs was counted by nobody.
        """
        ordered = tuple(sorted(group))
        weights = np.transpose(weights, [tuple(group).index(a) for a in ordered])
        total = 0.0
        for part in subsets(ordered):
            outside = tuple(k for k, a in enumerate(ordered) if a not in part)
            power = float(np.sum(_centred(weights.mean(axis=outside)) ** 2))
            if power <= 1e-20 * max(1.0, float(np.max(np.abs(weights))) ** 2):
                continue
            if part not in self._precision:
                return None
            total += power / self._precision[part]
        return total


def _centred(table: Floats) -> Floats:
    """Return what is left of a table when all that fewer columns tell is taken out."""
    for k in range(table.ndim):
        table = table - table.mean(axis=k, keepdims=True)
    return table
