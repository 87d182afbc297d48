"""A graphical model of noisy marginals: a junction tree, fitted by proportional fitting.

Codes of d columns, column a with ``sizes[a]`` cells. The model is the distribution p of all columns
that fits noisy counts of groups of them best, and is as close to independence as these allow:

    min_p  sum_g sum_cells (p_g - y_g)^2 / (2 sigma_g^2)  -  alpha H(p).

y_g are the counts of group g as shares of the rows, made consistent with those of all others by
`Residuals`, and sigma_g is their noise. The margins of groups are fitted beside the groups, more
closely: sums of cells must not pay for cells that cannot be negative. The solution has a potential
for each counted cell, and factorises over the cliques of any triangulation of the groups: a
`JunctionTree` holds it exactly, and gives every marginal of it.

*Proportional fitting* finds the p that is nearest to a distribution q, a table of cells or weights
of rows, and fits the counts: with ``alpha KL(p | q)`` for the entropy it is
``p = q exp(sum_g theta_g)`` with potentials theta. The dual is solved for one group at a time,
exactly (`solve_block`). After each sweep over all groups potentials are shared out (`Overlap`) and
extrapolated (`Anderson`): ten to forty sweeps do what would take many hundreds.

Groups that would make the tree too large are left out of it, and used all the same: `table` has the
tree's answer as the prior of what they tell, and `rake` gives weights to rows drawn from the tree.
So `table` and rows may differ, on columns whose counts the tree does not hold.

References
----------
.. [1] McKenna, Sheldon and Miklau (2019), "Graphical-model based estimation and inference for
       differential privacy" (private-pgm, the reference of our tests).
.. [2] Deming and Stephan (1940), "On a least squares adjustment of a sampled frequency table when
       the expected marginal totals are known".
.. [3] Walker and Ni (2011), "Anderson acceleration for fixed-point iterations".
.. [4] Lawrence, Corless and Jeffrey (2012), "Algorithm 917: complex double-precision evaluation of
       the Wright omega function".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from .._computing import Kept
from .._linear_systems import TINY
from ._junction_tree import Elimination, JunctionTree, sum_out, within
from ._residuals import Floats, Group, Marginal, Residuals, subsets

# Cells of a tree: a fit takes a fraction of a second, and 30 of its bootstrap 250 MB.
MOST_CELLS_OF_TREE = 2**20
# Weight of the entropy in units of N / sigma, and what is added for tables of few rows. Chosen on
# Adult, ACS and Covertype at epsilon 0.1 to 10, and on samples of a hundred rows and more.
_ENTROPY, _LEAST_ENTROPY = 0.25, 40.0
# Cells of tables that are kept, of each model: questions come back to the same columns.
_MOST_KEPT = 2**21
# Part of its noise that is taken for a margin of counts of more columns. Cells cannot be negative:
# what noise takes below zero is put there, and adds up in sums of cells. Margins must not pay for
# it. Chosen on Covertype, where sums of cells in tables of two columns missed by 1.9 standard
# errors without margins; it has 0.9 to 1.1 now, and 0.95 to 1 on Adult and ACS.
_MARGIN_NOISE = 1 / 3
# Smallest noise of a share of the rows that is taken: counts without noise are fitted to this.
_LEAST_NOISE_OF_SHARE = 1e-6
# Part of the noise by which a fit may still miss the counts on average.
MISSED_NOISE = 0.05

# A group, and which coarse cell each cell of its coarse columns is in.
Key = tuple[Group, tuple[tuple[int, bytes], ...]]


@dataclass
class Target:
    """What counts of a group tell, as shares of the rows.

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
    counted : bool
        False for a margin of what was counted.
    """

    key: Key
    group: Group
    share: Floats
    noise: Floats
    index: NDArray[np.int64] | None = None
    counted: bool = True

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
    """Return what marginals tell, consistent by residuals, and their margins beside them."""
    weighted: dict[Key, Floats] = {}
    precision: dict[Key, Floats] = {}
    index: dict[Key, NDArray[np.int64]] = {}
    least = (_LEAST_NOISE_OF_SHARE * n_rows) ** 2
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
    found = {}
    for key, total in precision.items():
        counts = weighted[key] / total if key in index else residuals.marginal(key[0])
        noise = np.maximum(np.sqrt(1 / total) / n_rows, _LEAST_NOISE_OF_SHARE)
        found[key] = Target(key, key[0], _shares(counts, n_rows), noise, index.get(key))
    for group in _margins(key[0] for key in found if key not in index):
        key = (group, ())
        noise = np.maximum(np.sqrt(residuals.cell_variances(group)) / n_rows, _LEAST_NOISE_OF_SHARE)
        noise = np.maximum(noise * _MARGIN_NOISE, _LEAST_NOISE_OF_SHARE)
        if key in found:
            both = 1 / np.sqrt(1 / found[key].noise ** 2 + 1 / noise**2)
            found[key] = replace(found[key], noise=both)
        else:
            share = _shares(residuals.marginal(group), n_rows)
            found[key] = Target(key, group, share, noise, counted=False)
    return list(found.values())


def _shares(counts: Floats, n_rows: float) -> Floats:
    share = counts / n_rows
    return share + (1 - share.sum()) / share.size


def _margins(groups: Iterable[Group]) -> list[Group]:
    """Return all sets of columns that are part of a group."""
    parts = (part for group in groups for part in subsets(group) if 0 < len(part) < len(group))
    return list(dict.fromkeys(parts))


@dataclass
class Factor:
    """A target at the distribution that is fitted to it.

    Attributes
    ----------
    target : Target
    slack : ndarray
        tau^2 = alpha sigma^2.
    summed : callable
        Returns the shares of the target's cells, by those of the distribution's.
    spread : callable
        Returns the values of the distribution's cells, by those of the target's.
    possible : ndarray of bool, default=None
        False where no row can be.
    """

    target: Target
    slack: Floats
    summed: Callable[[Floats], Floats]
    spread: Callable[[Floats], Floats]
    possible: NDArray[np.bool_] | None = None


class Overlap:
    """Columns that several groups share, so that their potentials can say the same.

    What moves from the potential of one group to that of another leaves the distribution as it is.
    It is shared out for the largest dual, in closed form. Proportional fitting alone takes hundreds
    of sweeps to get there: its steps are as small as the groups' difference on these columns.
    """

    def __init__(self, columns: Group, factors: Sequence[Factor]):
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


def overlaps(factors: Iterable[Factor]) -> list[Overlap]:
    """Return all sets of columns that several groups share, the smallest first."""
    sharing: dict[Group, list[Factor]] = {}
    for factor in factors:
        for columns in subsets(factor.target.in_cells):
            sharing.setdefault(columns, []).append(factor)
    found = [(columns, those) for columns, those in sharing.items() if columns and len(those) > 1]
    found.sort(key=lambda pair: len(pair[0]))
    return [Overlap(*pair) for pair in found]


class Anderson:
    """Anderson acceleration of sweeps: where columns depend on each other, sweeps alone creep.

    Potentials are measured in the dual's own units, the root of the slack. The next start is the
    combination of the last sweeps' ends whose steps would have been the shortest.
    """

    def __init__(self, factors: Iterable[Factor]):
        factors = list(factors)
        self._keys = [factor.target.key for factor in factors]
        self._shapes = [factor.slack.shape for factor in factors]
        roots = [np.sqrt(factor.slack).ravel() for factor in factors]
        self._scale = np.concatenate([np.zeros(0), *roots])
        self._ends: list[Floats] = []
        self._steps: list[Floats] = []

    def flat(self, potentials: Mapping[Key, Floats]) -> Floats:
        """Return all potentials in units of the dual."""
        parts = [potentials[key].ravel() for key in self._keys]
        return np.concatenate([np.zeros(0), *parts]) * self._scale

    def accelerate(self, before: Floats, potentials: dict[Key, Floats]) -> bool:
        """Move potentials ahead of where a sweep has led from `before`; False for not at all."""
        end = self.flat(potentials)
        step = end - before
        if self._steps and np.linalg.norm(step) > 2 * np.linalg.norm(self._steps[-1]):
            self._ends, self._steps = [], []  # it went too far
        # Five differences of the last steps are enough.
        self._ends = [*self._ends, end][-6:]
        self._steps = [*self._steps, step][-6:]
        if len(self._steps) == 1:
            return False
        steps, ends = np.diff(self._steps, axis=0), np.diff(self._ends, axis=0)
        products = steps @ steps.T
        products += 1e-10 * max(np.trace(products), TINY) * np.eye(len(products))
        ahead = (end - np.linalg.solve(products, steps @ step) @ ends) / self._scale
        sizes = [math.prod(shape) for shape in self._shapes]
        parts = np.split(ahead, np.cumsum(sizes)[:-1])
        for key, shape, part in zip(self._keys, self._shapes, parts, strict=True):
            potentials[key] = part.reshape(shape)
        return True


def rake(
    codes: NDArray[np.int64],
    sizes: Sequence[int],
    targets: Iterable[Target],
    alpha: float,
    weights: Floats,
    *,
    sweeps: int = 20,
) -> Floats:
    """Return weights of rows that match targets within their noise, nearest to those given.

    Parameters
    ----------
    codes : ndarray of shape (n, d)
        Cells of the rows. A row for each cell of a table, say, or rows drawn from a model.
    sizes : sequence of int
        Number of cells of each of the d columns.
    targets : iterable of Target
    alpha : float
        How much nearness counts.
    weights : ndarray of shape (n,)
    sweeps : int, default=20
        The largest number of rounds over all targets.

    Returns
    -------
    weights : ndarray of shape (n,)
        They sum to one.
    """
    weights = weights / weights.sum()
    factors = [_of_rows(codes, sizes, weights, target, alpha) for target in targets]
    potentials = {factor.target.key: np.zeros(factor.slack.shape) for factor in factors}
    shared = overlaps(factors)
    for _ in range(sweeps):
        moved, worst = fit_factors(factors, weights, potentials)
        weights *= moved
        for overlap in shared:
            overlap.share_out(potentials)
        if worst < MISSED_NOISE:
            break
    return weights


def _of_rows(
    codes: NDArray[np.int64], sizes: Sequence[int], weights: Floats, target: Target, alpha: float
) -> Factor:
    """Return the factor of a target at rows with weights."""
    shape = [sizes[a] for a in target.group]
    place = np.ravel_multi_index([codes[:, a] for a in target.group], shape)
    if target.index is not None:
        place = target.index[place]

    def summed(weights: Floats) -> Floats:
        found: Any = np.bincount(place, weights, target.share.size)
        return found.reshape(target.share.shape)

    slack, possible = alpha * target.noise**2, summed(weights) > 0
    return Factor(target, slack, summed, lambda values: values.ravel()[place], possible)


def fit_factors(
    factors: Iterable[Factor], shares: Floats, potentials: dict[Key, Floats]
) -> tuple[Floats, float]:
    """Solve for the potential of one factor after another.

    Parameters
    ----------
    factors : iterable of Factor
        All of one distribution.
    shares : ndarray
        Its cells, or weights of rows.
    potentials : dict
        Those of the factors are changed.

    Returns
    -------
    moved : ndarray
        What to multiply each cell with.
    worst : float
        By how much noise the cells of a target were off, at most.
    """
    moved, worst = np.ones_like(shares), 0.0
    for factor in factors:
        target, possible = factor.target, factor.possible
        old, now = potentials[target.key], factor.summed(shares * moved)
        new, log_total = solve_block(now, target.share, factor.slack, old, possible)
        missed = (target.share - factor.slack * old - now) / target.noise
        missed = missed if possible is None else missed[possible]
        worst = max(worst, math.sqrt(float(np.mean(missed**2))))
        # Where next to nothing is, a potential may rise by more than a float can tell.
        step = np.exp(np.minimum(new - old - log_total, 700.0))
        step = np.where(now > 0, step, 1.0)  # where nobody is, nothing moves
        moved *= factor.spread(step / np.vdot(now, step))
        potentials[target.key] = new
    return moved, worst


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
    offset = np.log(np.maximum(now, TINY) / slack) + (share / slack - old)
    if possible is not None:
        offset = np.where(possible, offset, -np.inf)
    # The sum falls with z and is convex: from the left Newton's method never passes the root. At
    # the left end one cell alone would hold all, at the right end none holds more than a mean cell.
    left = float(np.max(offset - 1 / slack + np.log(slack)))
    mean = 1 / (slack * slack.size)
    right = float(np.max(offset - mean - np.log(mean)))
    z = min(max(0.0, left), right)
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
    # Cells in which nobody is have the smallest potential.
    theta = np.maximum((share - matched) / slack, -600.0)
    return (theta if possible is None else np.where(possible, theta, old)), z


# ---- the model


@dataclass
class _Block:
    """Few columns of a clique, and the factors of these: they need not go through all its cells."""

    columns: Group
    shape: tuple[int, ...] = ()  # of the block's cells in the clique
    axes: tuple[int, ...] = ()  # of the clique, to be summed out
    factors: list[Factor] = field(default_factory=list)


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

    def _hosted(self, target: Target, block: _Block, i: int) -> Factor:
        """Return the factor of a target in a block of clique `i`."""
        group = set(target.group)
        shape = tuple(self.sizes[a] if a in group else 1 for a in block.columns)
        axes = tuple(k for k, a in enumerate(block.columns) if a not in group)
        factor = Factor(
            target,
            self.alpha * target.noise**2,
            lambda table: target.summed(sum_out(table, axes)),
            lambda values: target.spread(values, shape),
        )
        if self.zeros:
            factor.possible = factor.summed(sum_out(self.tree.probabilities[i], block.axes)) > 0
        return factor

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
                told += factor.spread(self._potentials[factor.target.key])
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
            moved, missed = fit_factors(block.factors, part, self._potentials)
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

    def rounded(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows whose counts are those of `table`, of all that was counted."""
        groups = {tuple(sorted(m.columns)) for m in self.counted if len(m.columns) > 1}
        return self.tree.draw(n_rows, rng, {g: self.table(g) for g in sorted(groups)})


def _keys(blocks: Iterable[Iterable[_Block]]) -> frozenset[Key]:
    return frozenset(f.target.key for hosted in blocks for block in hosted for f in block.factors)
