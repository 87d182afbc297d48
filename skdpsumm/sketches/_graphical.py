"""A graphical model of noisy marginals: a junction tree, fitted by proportional fitting.

Codes of d columns, column a with ``sizes[a]`` cells. The model is the distribution p of all columns
that fits noisy counts y of groups of them best, and is as close to independence as these allow:

    min_p  sum_g sum_cells (N p_g - y_g)^2 / (2 sigma_g^2)  -  alpha H(p).

Its solution has a potential theta for each counted cell, and factorises over the cliques of any
triangulation of the groups: a `JunctionTree` holds it exactly, and gives every marginal of it. The
dual is solved one group at a time, exactly (`GraphicalModel.fit`).

References
----------
.. [1] McKenna, Sheldon and Miklau (2019), "Graphical-model based estimation and inference for
       differential privacy" (private-pgm, the reference of our tests).
.. [2] Lawrence, Corless and Jeffrey (2012), "Algorithm 917: complex double-precision evaluation of
       the Wright omega function".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from ._junction_tree import JunctionTree, n_cells, triangulate, within
from ._residuals import Floats, Group, Marginal, Residuals, subsets

__all__ = ["GraphicalModel", "JunctionTree", "Marginal", "Residuals", "n_cells", "triangulate"]

# Cells of a tree: a fit takes a fraction of a second, and 30 of its bootstrap 250 MB.
MOST_CELLS = 2**20
# Weight of the entropy in units of N / sigma: chosen on Adult, right on ACS and Covertype.
_ENTROPY = 0.06
_SWEEPS, _WARM_SWEEPS = 20, 5
# Of the noise, what a fit may still miss on average.
_TOLERANCE = 0.02
# Of the rows: noise is taken for no less, so that counts without noise are fitted to this.
_LEAST_NOISE = 1e-6
# Of a potential, for cells in which nobody is.
_LEAST_POTENTIAL = -600.0
_SMALLEST = 1e-300


# A group, and the coarse columns in it.
Key = tuple[Group, tuple[tuple[int, bytes], ...]]


@dataclass
class Target:
    """What the counts of a group tell, as shares of the rows.

    Attributes
    ----------
    key : tuple
        The group and its division into cells.
    group : tuple of int
        Increasing columns.
    share : ndarray
        Of each cell; they sum to one.
    noise : ndarray
        Standard deviation of `share`.
    index : ndarray of int, or None
        Where the group was counted in coarser cells: the place in `share` of each of its cells.
    """

    key: Key
    group: Group
    share: Floats
    noise: Floats
    index: NDArray[np.int64] | None = None

    @property
    def in_cells(self) -> Group:
        """Columns that were counted in the model's cells."""
        coarse = {a for a, _ in self.key[1]}
        return tuple(a for a in self.group if a not in coarse)

    def summed(self, table: Floats) -> Floats:
        """Return a table of the model's cells in the cells of the target."""
        if self.index is None:
            return table
        summed: Any = np.bincount(self.index, table.ravel(), self.share.size)
        return summed.reshape(self.share.shape)

    def spread(self, values: Floats, shape: Sequence[int]) -> Floats:
        """Return what each cell of the model has by values of the target's cells."""
        return (values if self.index is None else values.ravel()[self.index]).reshape(shape)


def targets(
    sizes: Sequence[int], marginals: Iterable[Marginal], residuals: Residuals, n_rows: float
) -> list[Target]:
    """Return what marginals tell, one for each group and division: consistent by residuals."""
    weighted: dict[Key, Floats] = {}
    precision: dict[Key, Floats] = {}
    index: dict[Key, NDArray[np.int64]] = {}
    least = (_LEAST_NOISE * n_rows) ** 2
    for marginal in marginals:
        group, counts, variance = marginal.ordered()
        if not group:
            continue
        coarse = {a: np.asarray(marginal.coarse[a]) for a in group if a in marginal.coarse}
        key: Key = (group, tuple((a, of_cell.tobytes()) for a, of_cell in coarse.items()))
        told = 1 / np.maximum(variance, least)
        weighted[key] = weighted.get(key, 0.0) + told * counts
        precision[key] = precision.get(key, 0.0) + told
        if coarse:
            of_cell = [coarse.get(a, np.arange(sizes[a])) for a in group]
            index[key] = np.ravel_multi_index(np.ix_(*of_cell), counts.shape).ravel()
    found = []
    for key, total in precision.items():
        counts = weighted[key] / total if key in index else residuals.marginal(key[0])
        share = counts / n_rows
        share = share + (1 - share.sum()) / share.size
        noise = np.maximum(np.sqrt(1 / total) / n_rows, _LEAST_NOISE)
        found.append(Target(key, key[0], share, noise, index.get(key)))
    return found


@dataclass
class _Factor:
    """A target at the clique that hosts its group."""

    target: Target
    shape: tuple[int, ...]  # of the group's cells in the clique
    axes: tuple[int, ...]  # of the clique, to be summed out
    slack: Floats  # tau^2: alpha sigma^2 / N^2
    possible: NDArray[np.bool_] | None = None  # False in public zeros


class _Overlap:
    """Columns that several groups share, so that their potentials can say the same.

    What moves from the potential of one group to that of another leaves the distribution as it is.
    It is shared out for the largest dual, in closed form. Proportional fitting alone takes hundreds
    of sweeps to get there: its steps are as small as the groups' difference on these columns.
    """

    def __init__(self, columns: Group, factors: Sequence[_Factor]):
        self._members = []
        total: Any = 0.0
        for factor in factors:
            group, slack = factor.target.group, factor.slack
            slack = slack if factor.possible is None else np.where(factor.possible, slack, 0.0)
            axes = tuple(k for k, a in enumerate(group) if a not in columns)
            shape = [n if a in columns else 1 for a, n in zip(group, slack.shape, strict=True)]
            summed = slack.sum(axis=axes)
            inverse = np.divide(1.0, summed, out=np.zeros_like(summed), where=summed > 0)
            told = np.where(slack > 0, factor.target.share, 0.0).sum(axis=axes)
            self._members.append((factor.target.key, axes, shape, slack, told, inverse))
            total = total + inverse
        self._spread = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)

    def share_out(self, potentials: dict[Key, Floats]) -> None:
        """Move what is said of the columns between the potentials of their groups."""
        missed = [
            told - (slack * potentials[key]).sum(axis=axes)
            for key, axes, _, slack, told, _ in self._members
        ]
        common = self._spread * sum(
            m * inverse for m, (*_, inverse) in zip(missed, self._members, strict=True)
        )
        for m, (key, _, shape, _, _, inverse) in zip(missed, self._members, strict=True):
            potentials[key] = potentials[key] + ((m - common) * inverse).reshape(shape)


def _overlaps(factors: Iterable[_Factor]) -> list[_Overlap]:
    """Return all sets of columns that several groups share, the smallest first."""
    sharing: dict[Group, list[_Factor]] = {}
    for factor in factors:
        for columns in subsets(factor.target.in_cells):
            sharing.setdefault(columns, []).append(factor)
    found = [(columns, those) for columns, those in sharing.items() if columns and len(those) > 1]
    found.sort(key=lambda pair: len(pair[0]))
    return [_Overlap(*pair) for pair in found]


class GraphicalModel:
    """The maximum-entropy distribution near noisy marginals, on a `JunctionTree`.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    most_cells : int, default=2**20
        Of the tree. Groups that would make it larger are left out of it (`left_out`).
    zeros : sequence of (group, ndarray of bool), default=()
        Public: True in cells of the group in which rows can be, False in those where none can.
        The tree holds these groups first, those that fit in half of its cells.

    Attributes
    ----------
    n_rows : float
        The number of rows that the marginals tell together, at least 1.
    tree : JunctionTree
    residuals : Residuals
        Of all marginals, those left out as well.
    counted : list of Marginal
        What was fitted.
    left_out : list of tuple of int
        Groups that the tree does not hold, increasing columns.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        most_cells: int = MOST_CELLS,
        zeros: Sequence[tuple[Group, NDArray[np.bool_]]] = (),
    ):
        self.sizes = tuple(int(size) for size in sizes)
        fitting = set(within(self.sizes, [group for group, _ in zeros], most_cells // 2))
        self.most_cells, self.zeros = most_cells, tuple(z for z in zeros if z[0] in fitting)
        self._potentials: dict[Key, Floats] = {}
        self._held: tuple[Group, ...] | None = None

    def fit(self, marginals: Sequence[Marginal], *, sweeps: int = _SWEEPS) -> GraphicalModel:
        """Fit the model, from where it stands; earlier marginals have precedence in the tree.

        Parameters
        ----------
        marginals : sequence of Marginal
        sweeps : int, default=20
            The largest number of rounds over all groups.

        Returns
        -------
        self
        """
        groups = list(dict.fromkeys(tuple(sorted(m.columns)) for m in marginals))
        held = tuple(within(self.sizes, groups, self.most_cells, held=[g for g, _ in self.zeros]))
        if held != self._held:
            self.tree, self._held = JunctionTree(self.sizes, held), held
        return self._fit(marginals, sweeps)

    def copy_with(
        self, marginals: Sequence[Marginal], *, sweeps: int = _WARM_SWEEPS
    ) -> GraphicalModel:
        """Return a model of other counts on the same tree, fitted from where this one stands."""
        other = copy.copy(self)
        other._potentials = dict(self._potentials)
        other.tree = copy.copy(self.tree)
        return other._fit(marginals, sweeps)

    def _fit(self, marginals: Sequence[Marginal], sweeps: int) -> GraphicalModel:
        self.counted = list(marginals)
        self.residuals = Residuals(self.sizes, self.counted)
        self.n_rows = max(self.residuals.n_rows, 1.0)
        self.targets = targets(self.sizes, self.counted, self.residuals, self.n_rows)
        noise = [float(np.mean(target.noise)) for target in self.targets]
        self.alpha = _ENTROPY / float(np.median(noise)) if noise else 1.0
        hosts = [self.tree.host(target.group) for target in self.targets]
        self.left_out = [
            t.group for t, host in zip(self.targets, hosts, strict=True) if host is None
        ]
        factors = self._factors(hosts)
        self._start(factors)
        walk = self.tree.walk()
        shared = _overlaps(factor for hosted in factors for factor in hosted)
        for _ in range(sweeps):
            worst = self._update(0, factors[0])
            for start, end in walk:
                self._push(start, end)
                if self.tree.parents[end] == start:
                    worst = max(worst, self._update(end, factors[end]))
            for overlap in shared:
                overlap.share_out(self._potentials)
            if worst < _TOLERANCE:
                break
        self._start(factors)  # which sweeps away what rounding has piled up
        return self

    def _factors(self, hosts: Sequence[int | None]) -> list[list[_Factor]]:
        """Return the factors of each clique, and set potentials where there are none yet."""
        factors: list[list[_Factor]] = [[] for _ in self.tree.cliques]
        for target, host in zip(self.targets, hosts, strict=True):
            if host is None:
                continue
            shape = self.tree.shape_in(host, target.group)
            axes = self.tree.axes_outside(host, target.group)
            slack = self.alpha * target.noise**2
            factors[host].append(_Factor(target, shape, axes, slack))
            self._potentials.setdefault(target.key, np.zeros(target.share.shape))
        if self.zeros:
            self._start([[] for _ in factors])
            for table, hosted in zip(self.tree.probabilities, factors, strict=True):
                for factor in hosted:
                    factor.possible = factor.target.summed(table.sum(axis=factor.axes)) > 0
        return factors

    def _start(self, factors: list[list[_Factor]]) -> None:
        """Calibrate the tree by the potentials of some factors, and public zeros."""
        potentials = [np.zeros(shape) for shape in self.tree.shapes]
        for group, possible in self.zeros:
            host = self.tree.host(group)
            assert host is not None  # it was taken in first
            order = sorted(range(len(group)), key=group.__getitem__)
            forbidden = np.where(np.transpose(possible, order), 0.0, -np.inf)
            potentials[host] += forbidden.reshape(self.tree.shape_in(host, group))
        for i, hosted in enumerate(factors):
            for factor in hosted:
                theta = self._potentials[factor.target.key]
                potentials[i] += factor.target.spread(theta, factor.shape)
        self.tree.calibrate(potentials)
        tables = self.tree.probabilities
        self._shared = [tables[i].sum(axis=self.tree.up[i]) for i in range(len(tables))]

    def _update(self, i: int, factors: list[_Factor]) -> float:
        """Solve for one group's potential after another; return the largest miss, in noise."""
        table, worst = self.tree.probabilities[i], 0.0
        for factor in factors:
            target = factor.target
            now = target.summed(table.sum(axis=factor.axes))
            old = self._potentials[target.key]
            new, log_total = solve_block(now, target.share, factor.slack, old, factor.possible)
            missed = (target.share - factor.slack * old - now) / target.noise
            if factor.possible is not None:
                missed = missed[factor.possible]
            worst = max(worst, math.sqrt(float(np.mean(missed**2))))
            # Of cells that hold next to nothing a potential may rise by more than a float can tell.
            step = np.exp(np.minimum(new - old - log_total, 700.0))
            table *= target.spread(step, factor.shape)
            table /= table.sum()
            self._potentials[target.key] = new
        return worst

    def _push(self, start: int, end: int) -> None:
        """Bring a clique up to date with its neighbour."""
        tree = self.tree
        lower = start if tree.parents[start] == end else end
        axes = tree.up[lower] if start == lower else tree.down[lower]
        shared, before = tree.probabilities[start].sum(axis=axes), self._shared[lower]
        ratio = np.divide(shared, before, out=np.zeros_like(shared), where=before > 0)
        tree.probabilities[end] *= ratio.reshape(tree.shape_in(end, tree.separators[lower]))
        self._shared[lower] = shared

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, from the tree."""
        return self.tree.marginal(tuple(group))

    def marginals(self, groups: Iterable[Sequence[int]]) -> dict[Group, Floats]:
        """Return `marginal` of many groups: much faster for pairs than one after another."""
        return self.tree.marginals(groups)

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows, shape (n_rows, d), drawn from the tree."""
        return self.tree.draw(n_rows, rng)


def solve_block(
    now: Floats,
    share: Floats,
    slack: Floats,
    old: Floats,
    possible: NDArray[np.bool_] | None = None,
) -> tuple[Floats, float]:
    """Return the potential that solves ``m + slack theta = share`` with ``sum m = 1``, exactly.

    With `now` the model's marginal, ``m = now exp(theta - old - z)``; hence
    ``m = slack omega(log(now / slack) + share / slack - old - z)`` with Wright's omega.

    Returns
    -------
    theta : ndarray
    z : float
    """
    offset = np.log(np.maximum(now, _SMALLEST) / slack) + (share / slack - old)
    if possible is not None:
        offset = np.where(possible, offset, -np.inf)
    # The sum falls with z and is convex: from the left Newton's method never passes the root.
    # There, one cell alone would hold all.
    z, left = 0.0, float(np.max(offset - 1 / slack + np.log(slack)))
    for _ in range(100):
        omega = wrightomega(offset - z).real
        matched = slack * omega
        excess = float(matched.sum()) - 1
        if abs(excess) < 1e-10:
            break
        step = excess / float(np.sum(matched / (1 + omega)))
        last, z = z, max(z + step, left)
        if z == last:
            break
    theta = np.maximum((share - matched) / slack, _LEAST_POTENTIAL)
    return (theta if possible is None else np.where(possible, theta, old)), z
