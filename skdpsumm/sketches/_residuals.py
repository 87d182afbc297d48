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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Group = tuple[int, ...]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Marginal:
    """Noisy counts of the cells of a group of columns.

    Parameters
    ----------
    columns : tuple of int
        In any order. Of none at all, the count is the number of rows.
    counts : ndarray, one axis for each column
    std : float or ndarray that broadcasts to `counts`
        Standard deviation of the noise in each cell, independent between cells.
    phase : int, default=0
        When it was counted: later phases were chosen by what earlier ones told.
    coarse : mapping of int to ndarray of int, default={}
        Of columns that were counted in coarser cells than the model's: which one each cell is in.
    """

    columns: Group
    counts: Floats
    std: float | Floats
    phase: int = 0
    coarse: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return self.counts.shape

    def ordered(self) -> tuple[Group, Floats, Floats]:
        """Return increasing columns, and counts and variances with their axes in this order."""
        group = tuple(sorted(self.columns))
        order = [self.columns.index(a) for a in group]
        variance = np.broadcast_to(np.square(np.asarray(self.std, float)), self.shape)
        return group, np.transpose(self.counts, order), np.transpose(variance, order)


def subsets(group: Sequence[int]) -> Iterator[Group]:
    """Yield all subsets of a group, the empty one first."""
    for k in range(len(group) + 1):
        yield from combinations(group, k)


class Residuals:
    """All that noisy marginals tell without a model.

    Where noise differs between the cells of a group its mean variance weighs the group: estimates
    are still unbiased, their variances exact, but no longer the least.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    marginals : iterable of Marginal
        Of those in coarser cells only the total is used.
    like : Residuals, default=None
        Of other counts, perhaps with the same noise: what follows from noise alone is shared then.

    Attributes
    ----------
    n_rows : float
        Best unbiased estimate of the number of rows; 0 of no marginal.
    """

    def __init__(
        self, sizes: Sequence[int], marginals: Iterable[Marginal], like: Residuals | None = None
    ):
        self.sizes, marginals = tuple(sizes), list(marginals)
        self._counted = [(m.columns, m.coarse, m.std) for m in marginals]
        self._of_cells: dict[Group, Floats] = {}
        if like is not None and like._has_noise_of(self._counted):
            self._of_cells = like._of_cells
        self._variances: list[tuple[Group, Floats]] = []
        # The groups that tell of each set of columns, with their weights, and the sum of these.
        self._tellers: dict[Group, list[tuple[int, float]]] = {}
        self._precision: dict[Group, float] = {}
        sums: dict[Group, Floats] = {}
        for k, marginal in enumerate(marginals):
            group, counts, variance = marginal.ordered()
            self._variances.append((group, variance))
            # Counts without noise have a weight, and no sum of weights overflows.
            noise = max(float(np.mean(variance)), 1e-20)
            for part in [()] if marginal.coarse else subsets(group):
                outside = _axes_outside(group, part)
                weight = 1 / (noise * math.prod(counts.shape[a] for a in outside))
                told = weight * _centred(counts.sum(axis=outside))
                sums[part] = sums[part] + told if part in sums else told
                self._tellers.setdefault(part, []).append((k, weight))
                self._precision[part] = self._precision.get(part, 0.0) + weight
        self._even = all(np.ptp(variance) == 0 for _, variance in self._variances)
        self._residuals = {part: sums[part] / self._precision[part] for part in sums}
        self.n_rows = float(self._residuals.get((), 0.0))

    def _has_noise_of(self, counted: list[tuple]) -> bool:
        return len(counted) == len(self._counted) and all(
            columns == others and coarse is other_coarse and std is other
            for (columns, coarse, std), (others, other_coarse, other) in zip(
                counted, self._counted, strict=True
            )
        )

    def covers(self, group: Iterable[int]) -> bool:
        """Whether some marginal held all columns of a group."""
        return tuple(sorted(group)) in self._residuals

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return counts of the cells of a group: unbiased, so that some are negative.

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

    def tellers(self, part: Group) -> list[tuple[int, float]]:
        """Return the marginals that tell the residual of a set, and how much each counts."""
        weights = self._tellers.get(part, [])
        return [(k, weight / self._precision[part]) for k, weight in weights]

    def noise_of(self, k: int) -> tuple[Group, Floats]:
        """Return the columns of a marginal, in order, and the variance of its noise."""
        return self._variances[k]

    def cell_variances(self, group: Sequence[int]) -> Floats:
        """Return the variance of the counts of each cell of a group that some marginal held.

        Parameters
        ----------
        group : sequence of int, increasing
        """
        group = tuple(group)
        if group not in self._of_cells:
            shape = [self.sizes[a] for a in group]
            size = math.prod(shape)
            # Where noise is even all cells are alike.
            units = np.eye(size, 1 if self._even else size).reshape(*shape, -1)
            variances = np.broadcast_to(self.variances(group, units), size)
            self._of_cells[group] = variances.reshape(shape)
        return self._of_cells[group]

    def variances(self, group: Group, weights: Floats) -> Floats:
        """Return the variance of k weighted sums of the counts of such a group.

        Parameters
        ----------
        group : tuple of int, increasing
        weights : ndarray of shape (*sizes of the columns, k)

        Returns
        -------
        ndarray of shape (k,)
        """
        # The weights of the residuals of each part of the group.
        of_parts = {
            part: _centred(weights.mean(axis=_axes_outside(group, part)), range(len(part)))
            for part in subsets(group)
        }
        if not self._even:
            return self._uneven_variances(group, of_parts, weights.shape[-1])
        total = np.zeros(weights.shape[-1])
        for part, own in of_parts.items():
            total += np.sum(own**2, axis=tuple(range(len(part)))) / self._precision[part]
        return total

    def _uneven_variances(self, columns: Group, of_parts: Mapping[Group, Floats], n: int) -> Floats:
        """Return the variances of n sums of residuals by the weights that noisy counts have."""
        loads: dict[int, Floats] = {}
        for part, own in of_parts.items():
            for k, weight in self._tellers[part]:
                group, variance = self._variances[k]
                # Along all other columns the weights are alike.
                axes = [(a, size) for a, size in zip(group, variance.shape, strict=True)]
                axes = [(a, size) for a, size in axes if a in columns]
                load = own.reshape([size if a in part else 1 for a, size in axes] + [n])
                load = load * (weight / self._precision[part])
                loads[k] = loads.get(k, np.zeros([*(size for _, size in axes), n])) + load
        total = np.zeros(n)
        for k, load in loads.items():
            group, variance = self._variances[k]
            summed = variance.sum(axis=_axes_outside(group, columns))
            total += summed.ravel() @ np.square(load).reshape(-1, n)
        return total


def _axes_outside(group: Group, part: Group) -> tuple[int, ...]:
    return tuple(k for k, a in enumerate(group) if a not in part)


def _centred(table: Floats, axes: Iterable[int] | None = None) -> Floats:
    """Return what is left of a table when all that fewer of these axes tell is taken out."""
    for k in range(table.ndim) if axes is None else axes:
        table = table - table.mean(axis=k, keepdims=True)
    return table
