"""A graphical model of noisy marginals: a junction tree, fitted by proportional fitting.

Codes of d columns, column a with ``sizes[a]`` cells. The model is the distribution p of all columns
that fits noisy counts of groups of them best, and is as close to independence as these allow:

    min_p  sum_g sum_cells (p_g - y_g)^2 / (2 sigma_g^2)  -  alpha H(p).

y_g are the counts of group g as shares of the rows, made consistent with those of all others by
`Residuals`, and sigma_g is their noise. The margins of groups are fitted beside the groups, more
closely: sums of cells must not pay for cells that cannot be negative. The solution has a potential
for each counted cell, and factorises over the cliques of any triangulation of the groups: a
`JunctionTree` holds it exactly, and gives every marginal of it. `_raking.py` has the algorithm.

Groups that would make the tree too large are left out of it, and used all the same: `table` has the
tree's answer as the prior of what they tell, and `rake` gives weights to rows drawn from the tree.
So `table` and rows may differ, on columns whose counts the tree does not hold.

References
----------
.. [1] McKenna, Sheldon and Miklau (2019), "Graphical-model based estimation and inference for
       differential privacy" (private-pgm, the reference of our tests).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._computing import Kept
from ._elimination import Elimination, sum_out
from ._junction_tree import JunctionTree, n_cells, triangulate, within
from ._raking import MISSED_NOISE, Anderson, Factor, Key, Target, overlaps, rake, targets, update
from ._residuals import Floats, Group, Marginal, Residuals

__all__ = ["GraphicalModel", "JunctionTree", "Marginal", "Residuals", "n_cells", "triangulate"]

# Cells of a tree: a fit takes a fraction of a second, and 30 of its bootstrap 250 MB.
MOST_CELLS_OF_TREE = 2**20
# Weight of the entropy in units of N / sigma, and what is added for tables of few rows. Chosen on
# Adult, ACS and Covertype at epsilon 0.1 to 10, and on samples of a hundred rows and more.
_ENTROPY, _LEAST_ENTROPY = 0.25, 40.0
# Cells of tables that are kept, of each model: questions come back to the same columns.
_MOST_KEPT = 2**21


@dataclass
class _Hosted(Factor):
    """A factor at the block of columns that hosts its group."""

    shape: tuple[int, ...] = ()  # of the group's cells in the block
    axes: tuple[int, ...] = ()  # of the block, to be summed out


@dataclass
class _Block:
    """Few columns of a clique, and the factors of these: they need not go through all its cells."""

    columns: Group
    shape: tuple[int, ...] = ()  # of the block's cells in the clique
    axes: tuple[int, ...] = ()  # of the clique, to be summed out
    factors: list[_Hosted] = field(default_factory=list)


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
        most_cells: int = MOST_CELLS_OF_TREE,
        zeros: Sequence[tuple[Group, NDArray[np.bool_]]] = (),
    ):
        self.sizes = tuple(int(size) for size in sizes)
        fitting = set(within(self.sizes, [group for group, _ in zeros], most_cells // 2))
        self.most_cells, self.zeros = most_cells, tuple(z for z in zeros if z[0] in fitting)
        self._potentials: dict[Key, Floats] = {}
        self._tables = Kept(_MOST_KEPT)  # that were asked for
        self._held: tuple[Group, ...] | None = None
        # By whose potentials the tree is calibrated, None where they have moved.
        self._told: frozenset[Key] | None = None

    def fit(self, marginals: Sequence[Marginal], *, sweeps: int = 40) -> GraphicalModel:
        """Fit the model, from where it stands; earlier marginals have precedence in the tree.

        Parameters
        ----------
        marginals : sequence of Marginal
        sweeps : int, default=40
            The largest number of rounds over all groups.

        Returns
        -------
        self
        """
        groups = list(dict.fromkeys(tuple(sorted(m.columns)) for m in marginals))
        held = tuple(within(self.sizes, groups, self.most_cells, held=[g for g, _ in self.zeros]))
        if held != self._held:
            self.tree, self._held, self._told = JunctionTree(self.sizes, held), held, None
        return self._fit(marginals, sweeps)

    def check_possible(self) -> None:
        """Raise ValueError where public zeros leave no row."""
        self._held = tuple(group for group, _ in self.zeros)
        self.tree = JunctionTree(self.sizes, self._held)
        self._start([[] for _ in self.tree.cliques])

    def copy_with(self, marginals: Sequence[Marginal]) -> GraphicalModel:
        """Return a model of other counts on the same tree, fitted from where this one stands."""
        other = copy.copy(self)
        other._potentials = dict(self._potentials)
        other.tree = copy.copy(self.tree)
        other.tree.probabilities = [table.copy() for table in self.tree.probabilities]
        other.tree.shared = list(self.tree.shared)
        return other._fit(marginals, sweeps=5)

    def _fit(self, marginals: Sequence[Marginal], sweeps: int) -> GraphicalModel:
        self.counted, self._tables = list(marginals), Kept(_MOST_KEPT)
        self.residuals = Residuals(self.sizes, self.counted, getattr(self, "residuals", None))
        self.n_rows = max(self.residuals.n_rows, 1.0)
        self.targets = targets(self.sizes, self.counted, self.residuals, self.n_rows)
        noise = [float(np.mean(target.noise)) for target in self.targets if target.counted]
        told = _ENTROPY / float(np.median(noise)) if noise else 0.0
        self.alpha = told + _LEAST_ENTROPY
        hosts = [self.tree.host(target.group) for target in self.targets]
        missing = [t for t, host in zip(self.targets, hosts, strict=True) if host is None]
        self.left_out = list(dict.fromkeys(t.group for t in missing if t.counted))
        blocks = self._blocks(hosts)
        self._settle(blocks)
        flat = [factor for hosted in blocks for block in hosted for factor in block.factors]
        walk, shared, ahead = self.tree.walk(), overlaps(flat), Anderson(flat)
        for sweep in range(sweeps):
            before = ahead.flat(self._potentials)
            worst = self._sweep(blocks, walk)
            for overlap in shared:
                overlap.share_out(self._potentials)
            if worst < MISSED_NOISE:
                break
            # The first sweeps are unlike those that follow.
            if sweep > 1 and ahead.accelerate(before, self._potentials):
                self._start(blocks)
        self._settle(blocks)  # which sweeps away what rounding has piled up
        self._parts = Elimination(self.tree, most_kept=_MOST_KEPT)
        return self

    def _blocks(self, hosts: Sequence[int | None]) -> list[list[_Block]]:
        """Return the blocks of each clique, and set potentials where there are none yet."""
        hosted: list[list[Target]] = [[] for _ in self.tree.cliques]
        for target, host in zip(self.targets, hosts, strict=True):
            if host is not None:
                hosted[host].append(target)
                self._potentials.setdefault(target.key, np.zeros(target.share.shape))
        if self.zeros:
            self._start([[] for _ in hosted])
        return [self._blocks_of(i, targets) for i, targets in enumerate(hosted)]

    def _blocks_of(self, i: int, targets: Sequence[Target]) -> list[_Block]:
        """Return the blocks of a clique: as many groups in each as its few cells have room for."""
        clique = self.tree.cliques[i]
        # Blocks of so few cells cost next to nothing beside the clique.
        most = max(math.prod(self.tree.shapes[i]) // 16, 4096)
        columns: list[set[int]] = []
        for group in sorted((set(t.group) for t in targets), key=len, reverse=True):
            room = [c for c in columns if math.prod(self.sizes[a] for a in c | group) <= most]
            room = [c for c in columns if group <= c] or room
            if room:
                min(room, key=lambda c: len(group - c)).update(group)
            else:
                columns.append(group)
        blocks = [
            _Block(
                tuple(a for a in clique if a in held),
                self.tree.shape_in(i, held),
                self.tree.axes_outside(i, held),
            )
            for held in columns
        ]
        for target in targets:
            block = next(b for b in blocks if set(target.group) <= set(b.columns))
            block.factors.append(self._hosted(target, block, i))
        return blocks

    def _hosted(self, target: Target, block: _Block, i: int) -> _Hosted:
        """Return the factor of a target in a block of clique `i`."""
        group = set(target.group)
        shape = tuple(self.sizes[a] if a in group else 1 for a in block.columns)
        axes = tuple(k for k, a in enumerate(block.columns) if a not in group)
        possible = None
        if self.zeros:
            table = sum_out(sum_out(self.tree.probabilities[i], block.axes), axes)
            possible = target.summed(table) > 0
        return _Hosted(target, self.alpha * target.noise**2, possible, shape, axes)

    def _start(self, blocks: list[list[_Block]]) -> None:
        """Calibrate the tree by the potentials of some factors, and public zeros."""
        potentials = [self._potential(i, hosted) for i, hosted in enumerate(blocks)]
        for group, possible in self.zeros:
            host = self.tree.host(group)
            assert host is not None  # it was taken in first
            order = sorted(range(len(group)), key=group.__getitem__)
            forbidden = np.where(np.transpose(possible, order), 0.0, -np.inf)
            potentials[host] += forbidden.reshape(self.tree.shape_in(host, group))
        self.tree.calibrate(potentials)
        self._told = _keys(blocks)

    def _potential(self, i: int, blocks: Sequence[_Block]) -> Floats:
        """Return the log potential of clique `i` that its factors make."""
        potential = np.zeros(self.tree.shapes[i])
        for block in blocks:
            told = np.zeros([self.sizes[a] for a in block.columns])
            for factor in block.factors:
                told += factor.target.spread(self._potentials[factor.target.key], factor.shape)
            potential += told.reshape(block.shape)
        return potential

    def _settle(self, blocks: list[list[_Block]]) -> None:
        """Calibrate the tree, unless it is."""
        if self._told != _keys(blocks):
            self._start(blocks)

    def _sweep(self, blocks: list[list[_Block]], walk: list[tuple[int, int]]) -> float:
        """Update all potentials on a walk through the tree; return the largest miss, in noise."""
        self._told = None
        worst = self._update(0, blocks[0])
        for start, end in walk:
            self._push(start, end)
            if self.tree.parents[end] == start:
                worst = max(worst, self._update(end, blocks[end]))
        return worst

    def _update(self, i: int, blocks: list[_Block]) -> float:
        """Solve for one group's potential after another; return the largest miss, in noise."""
        table, worst = self.tree.probabilities[i], 0.0
        for block in blocks:
            part = sum_out(table, block.axes)
            moved = np.ones_like(part)
            for factor in block.factors:
                key = factor.target.key
                now = factor.target.summed(sum_out(part * moved, factor.axes))
                step, self._potentials[key], missed = update(factor, now, self._potentials[key])
                step = np.where(now > 0, step, 1.0)  # where nobody is, nothing moves
                moved *= factor.target.spread(step, factor.shape)
                moved /= np.vdot(part, moved)
                worst = max(worst, missed)
            table *= moved.reshape(block.shape)
        return worst

    def _push(self, start: int, end: int) -> None:
        """Bring a clique up to date with its neighbour."""
        tree = self.tree
        lower = start if tree.parents[start] == end else end
        axes = tree.up[lower] if start == lower else tree.down[lower]
        shared, before = sum_out(tree.probabilities[start], axes), tree.shared[lower]
        ratio = np.divide(shared, before, out=np.zeros_like(shared), where=before > 0)
        tree.probabilities[end] *= ratio.reshape(tree.shape_in(end, tree.separators[lower]))
        tree.shared[lower] = shared

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, from the tree."""
        return self._parts.table(tuple(group))

    def marginals(self, groups: Iterable[Sequence[int]]) -> dict[Group, Floats]:
        """Return `marginal` of many groups: much faster for pairs than one after another."""
        return self.tree.marginals(groups)

    def table(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, from all that was counted of it.

        These are the tree's, where the tree holds what was counted of these columns. Other counts
        are fitted with the tree's table as the prior: of a pair that was counted this has two
        thirds of the error of its own counts (mean total variation, projected to the simplex).
        """
        ordered = tuple(sorted(group))
        found = self._tables.get(ordered, lambda: self._completed(ordered, self.marginal(ordered)))
        found.flags.writeable = False
        return np.transpose(found, [ordered.index(a) for a in group])

    def ahead(self, groups: Iterable[Group]) -> None:
        """Prepare for `table` of many groups, in this order: of as many as are kept."""
        left, cells = [], 0
        for group in groups:
            cells += math.prod(self.sizes[a] for a in group)
            if group in self._tables or cells > _MOST_KEPT:
                break
            left.append(group)
        for group, table in self.marginals(left).items() if left else ():
            self._tables.get(group, partial(self._completed, group, table))

    def _completed(self, group: Group, table: Floats) -> Floats:
        """Return the tree's table with what was counted of its columns and the tree cannot hold."""
        if not any(set(other) <= set(group) for other in self.left_out):
            return table
        told = [target for target in self.targets if set(target.group) <= set(group)]
        outside = [target for target in told if target.group in self.left_out]
        cells = np.zeros((table.size, len(self.sizes)), np.int64)
        cells[:, list(group)] = np.indices(table.shape).reshape(len(group), -1).T
        # Nowhere zero, so that counts can say that there is somebody after all.
        prior = np.maximum(table.ravel(), 1e-12) * self.possible(group).ravel()
        alpha = self.alpha * self._trust(outside)
        return rake(cells, self.sizes, told, alpha, prior).reshape(table.shape)

    def _trust(self, outside: Sequence[Target]) -> float:
        """Return how much the tree counts beside targets that it does not hold.

        The further it is from these, in units of their noise, the less: the third root was best for
        tables and for weights of rows alike, on Covertype, Adult and ACS at epsilon 0.1 to 10.
        """
        tables = self.marginals(target.group for target in outside)
        missed = [
            (target.share - target.summed(tables[target.group])) / target.noise
            for target in outside
        ]
        excess = float(np.mean(np.concatenate([m.ravel() ** 2 for m in missed]))) - 1
        return 10.0 / max(excess, 1 / 8) ** (1 / 3)

    def possible(self, group: Sequence[int]) -> NDArray[np.bool_]:
        """Return where public zeros of all groups let rows be."""
        if not self.zeros:
            return np.ones([self.sizes[a] for a in group], bool)
        bare = copy.copy(self)
        bare.tree = copy.copy(self.tree)
        bare._start([[] for _ in self.tree.cliques])
        return bare.tree.marginal(tuple(group)) > 0

    def rake(self, codes: NDArray[np.int64]) -> Floats:
        """Return weights of rows drawn from the tree that match all that was counted.

        Where the tree holds all they are equal. ``examples/benchmarks/graphical.py`` compares them
        with other ways to use what the tree cannot hold.

        Parameters
        ----------
        codes : ndarray of shape (n, d)

        Returns
        -------
        weights : ndarray of shape (n,)
            They sum to one.
        """
        outside = [target for target in self.targets if target.group in self.left_out]
        equal = np.ones(len(codes))
        if not outside or not len(codes):
            return equal / equal.sum()
        return rake(codes, self.sizes, self.targets, self.alpha * self._trust(outside), equal)

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows, shape (n_rows, d), drawn from the tree."""
        return self.tree.draw(n_rows, rng)

    def rounded(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows whose counts are those of `table`, of all that was counted."""
        groups = {tuple(sorted(m.columns)) for m in self.counted if len(m.columns) > 1}
        return self.tree.draw(n_rows, rng, {g: self.table(g) for g in sorted(groups)})


def _keys(blocks: Iterable[Iterable[_Block]]) -> frozenset[Key]:
    return frozenset(f.target.key for hosted in blocks for block in hosted for f in block.factors)
