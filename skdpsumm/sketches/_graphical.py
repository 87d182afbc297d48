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
.. [2] Koller and Friedman (2009), "Probabilistic graphical models", chapter 10.
.. [3] Lawrence, Corless and Jeffrey (2012), "Algorithm 917: complex double-precision evaluation of
       the Wright omega function".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from ._residuals import Marginal, Residuals

Group = tuple[int, ...]
Floats = NDArray[np.float64]

# Cells of a tree: a fit takes a fraction of a second, and 30 of its bootstrap 250 MB.
MOST_CELLS = 2**20
# Weight of the entropy in units of N / sigma: chosen on Adult, right on ACS and Covertype.
_ENTROPY = 0.06
# Noise is first taken for so many times what it is, and cools by this factor a sweep.
_HEAT, _COOLING = 100.0, 0.85
_SWEEPS = 40
# Of the noise, what a fit may still miss on average.
_TOLERANCE = 0.02
# Of a potential, for cells in which nobody is.
_LEAST_POTENTIAL = -600.0
_SMALLEST = 1e-300


def triangulate(sizes: Sequence[int], groups: Iterable[Group]) -> list[frozenset[int]]:
    """Return the cliques of a triangulation of the graph in which groups are complete.

    Columns are eliminated greedily: the least fill first, weighted by cells, then the smallest
    clique.
    """
    near: dict[int, set[int]] = {a: set() for a in range(len(sizes))}
    for group in groups:
        for a in group:
            near[a] |= set(group) - {a}
    costs = {a: _cost(sizes, near, a) for a in near}
    cliques: list[frozenset[int]] = []
    while near:
        a = min(costs, key=costs.__getitem__)
        around = near.pop(a)
        del costs[a]
        clique = frozenset(around | {a})
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for b in around:
            near[b] |= around - {b}
            near[b].discard(a)
        # The fill of a column changes where its neighbours do.
        for b in around.union(*(near[b] for b in around)) if around else ():
            costs[b] = _cost(sizes, near, b)
    return cliques


def _cost(sizes: Sequence[int], near: Mapping[int, set[int]], a: int) -> tuple[float, float, int]:
    around = near[a]
    fill = sum(sizes[b] * sizes[c] for b, c in combinations(around, 2) if c not in near[b])
    return fill, sizes[a] * math.prod(sizes[b] for b in around), a


def n_cells(sizes: Sequence[int], groups: Iterable[Group]) -> int:
    """Return the number of cells of all cliques of `triangulate`."""
    return sum(math.prod(sizes[a] for a in clique) for clique in triangulate(sizes, groups))


class JunctionTree:
    """A distribution of the columns that factorises over the cliques of a triangulation.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    groups : iterable of tuples of int
        Each lies in one clique.

    Attributes
    ----------
    cliques : list of tuple of int
        Increasing columns; parents come before their children.
    parents : list of int
        -1 for the first.
    probabilities : list of ndarray
        Of the cells of each clique; set by `calibrate`.
    """

    def __init__(self, sizes: Sequence[int], groups: Iterable[Group]):
        self.sizes = tuple(int(size) for size in sizes)
        found = [tuple(sorted(clique)) for clique in triangulate(self.sizes, groups)]
        found.sort(key=lambda clique: -self._n_cells(clique))
        self.cliques, self.parents = _spanning_tree(found)
        self.shapes = [tuple(self.sizes[a] for a in clique) for clique in self.cliques]
        self.children: list[list[int]] = [[] for _ in self.cliques]
        self.separators: list[Group] = []
        # Axes that are summed out on the way from a clique to its parent, and on the way back.
        self.up: list[tuple[int, ...]] = []
        self.down: list[tuple[int, ...]] = []
        for i, (clique, parent) in enumerate(zip(self.cliques, self.parents, strict=True)):
            above: Group = () if parent < 0 else self.cliques[parent]
            shared = set(clique) & set(above)
            self.separators.append(tuple(a for a in clique if a in shared))
            self.up.append(tuple(k for k, a in enumerate(clique) if a not in shared))
            self.down.append(tuple(k for k, a in enumerate(above) if a not in shared))
            if parent >= 0:
                self.children[parent].append(i)
        self.conditionals: list[Floats] = []
        self.probabilities: list[Floats] = []

    def _n_cells(self, columns: Iterable[int]) -> int:
        return math.prod(self.sizes[a] for a in columns)

    def host(self, group: Iterable[int]) -> int | None:
        """Return the smallest clique that holds a group, None if none does."""
        wanted = set(group)
        holding = [i for i, clique in enumerate(self.cliques) if wanted <= set(clique)]
        return min(holding, key=lambda i: self._n_cells(self.cliques[i]), default=None)

    def shape_in(self, i: int, group: Iterable[int]) -> tuple[int, ...]:
        """Return the shape in which an array over a group meets that of clique `i`."""
        held = set(group)
        return tuple(self.sizes[a] if a in held else 1 for a in self.cliques[i])

    def axes_outside(self, i: int, group: Iterable[int]) -> tuple[int, ...]:
        """Return the axes of clique `i` that are not of a group."""
        held = set(group)
        return tuple(k for k, a in enumerate(self.cliques[i]) if a not in held)

    def calibrate(self, potentials: list[Floats]) -> None:
        """Set conditionals and probabilities of log potentials of the cliques (overwritten)."""
        n = len(self.cliques)
        self.conditionals, self.probabilities = [np.empty(0)] * n, [np.empty(0)] * n
        for i in range(n - 1, -1, -1):
            table, axes = potentials[i], self.up[i]
            top = np.max(table, axis=axes, keepdims=True)
            top = np.where(np.isfinite(top), top, 0.0)  # where nothing is possible
            table -= top
            np.exp(table, out=table)
            total = table.sum(axis=axes, keepdims=True)
            np.divide(table, total, out=table, where=total > 0)
            self.conditionals[i] = table
            parent = self.parents[i]
            if parent >= 0:
                with np.errstate(divide="ignore"):
                    message = np.log(total) + top
                potentials[parent] += message.reshape(self.shape_in(parent, self.separators[i]))
        for i, parent in enumerate(self.parents):
            if parent < 0:
                self.probabilities[i] = self.conditionals[i]
                continue
            shared = self.probabilities[parent].sum(axis=self.down[i])
            self.probabilities[i] = self.conditionals[i] * shared.reshape(
                self.shape_in(i, self.separators[i])
            )

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, axes in the order given.

        Columns of one clique are summed out of it; others by elimination along the tree.
        """
        host = self.host(group)
        if host is not None:
            held = [a for a in self.cliques[host] if a in set(group)]
            table = self.probabilities[host].sum(axis=self.axes_outside(host, group))
        else:
            found = self._message(0, frozenset(group))
            assert found is not None  # of the root
            table, held = found[0], list(found[1])
        return np.transpose(table, [held.index(a) for a in group])

    def _message(self, i: int, wanted: frozenset[int]) -> tuple[Floats, Group] | None:
        """Return p(wanted columns below clique i | its separator); None if that says nothing."""
        factors = [(self.conditionals[i], self.cliques[i])]
        for child in self.children[i]:
            below = self._message(child, wanted)
            if below is not None:
                factors.append(below)
        own = (set(self.cliques[i]) - set(self.separators[i])) & wanted
        if len(factors) == 1 and not own and self.parents[i] >= 0:
            return None
        met = {a for _, columns in factors for a in columns}
        keep = [a for a in range(len(self.sizes)) if a in met and a in wanted]
        keep = [*self.separators[i], *(a for a in keep if a not in self.separators[i])]
        return _product(factors, keep), tuple(keep)

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows, shape (n_rows, d), drawn from the distribution.

        Rows that share the separator of a clique are stratified over its cells: counts in a clique
        carry almost no sampling error.
        """
        codes = np.zeros((n_rows, len(self.sizes)), np.int64)
        for i, clique in enumerate(self.cliques):
            given = [k for k, a in enumerate(clique) if a in self.separators[i]]
            new = list(self.up[i])
            table = np.transpose(self.conditionals[i], given + new)
            n_given = math.prod(table.shape[: len(given)])
            table = table.reshape(n_given, -1)
            place = np.zeros(n_rows, np.int64)
            for k in given:
                place = place * self.sizes[clique[k]] + codes[:, clique[k]]
            drawn = _stratified_codes(table, place, rng)
            for k in reversed(new):
                drawn, codes[:, clique[k]] = np.divmod(drawn, self.sizes[clique[k]])
        return codes


def _stratified_codes(
    table: Floats, place: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a column of `table` for each row of it that is asked for, by its probabilities."""
    n = len(place)
    order = np.lexsort((rng.random(n), place))
    counts = np.bincount(place, minlength=len(table))
    rank = np.empty(n)
    rank[order] = np.arange(n) - (np.cumsum(counts) - counts)[place[order]]
    u = (rank + rng.random(n)) / counts[place]
    ends = np.cumsum(table, axis=1)
    ends /= np.maximum(ends[:, -1:], _SMALLEST)
    ends += np.arange(len(table))[:, None]
    found = np.searchsorted(ends.ravel(), place + u, side="right") - place * table.shape[1]
    return np.minimum(found, table.shape[1] - 1)


def _spanning_tree(cliques: list[Group]) -> tuple[list[Group], list[int]]:
    """Return cliques, parents first, and the place of each one's parent: largest separators."""
    order, parent = [0], {0: -1}
    best = {i: (len(set(cliques[i]) & set(cliques[0])), 0) for i in range(1, len(cliques))}
    while best:
        i = max(best, key=lambda i: (best[i][0], -i))
        parent[i] = best.pop(i)[1]
        order.append(i)
        for k, (shared, _) in best.items():
            now = len(set(cliques[k]) & set(cliques[i]))
            if now > shared:
                best[k] = now, i
    at = {i: place for place, i in enumerate(order)}
    parents = [-1 if parent[i] < 0 else at[parent[i]] for i in order]
    return [cliques[i] for i in order], parents


def _product(factors: Sequence[tuple[Floats, Sequence[int]]], keep: Sequence[int]) -> Floats:
    """Return the product of factors, summed over the columns that nobody keeps."""
    table, columns = factors[0]
    for j, (other, others) in enumerate(factors[1:], 1):
        later = set(keep).union(*(c for _, c in factors[j + 1 :]))
        kept = sorted((set(columns) | set(others)) & later)
        table = np.einsum(table, list(columns), other, list(others), kept, optimize=True)
        columns = kept
    if list(columns) != list(keep):
        table = np.einsum(table, list(columns), list(keep))
    return table


@dataclass
class _Factor:
    """A group's counts at the clique that hosts it, in shares of the rows."""

    group: Group
    shape: tuple[int, ...]  # in the clique
    axes: tuple[int, ...]  # of the clique, to be summed out
    target: Floats
    slack: Floats  # tau^2: alpha sigma^2 / N^2


class GraphicalModel:
    """The maximum-entropy distribution near noisy marginals, on a `JunctionTree`.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    most_cells : int, default=2**20
        Of the tree. Groups that would make it larger are left out of it (`left_out`).
    zeros : sequence of (group, ndarray of bool), default=()
        Public: cells of groups in which no row can be.

    Attributes
    ----------
    n_rows : float
        The number of rows that the marginals tell together, at least 1.
    tree : JunctionTree
    residuals : Residuals
        Of all marginals, those left out as well.
    marginals : list of Marginal
        What was fitted.
    left_out : list of tuple of int
        Groups that the tree does not hold.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        most_cells: int = MOST_CELLS,
        zeros: Sequence[tuple[Group, NDArray[np.bool_]]] = (),
    ):
        self.sizes = tuple(int(size) for size in sizes)
        self.most_cells, self.zeros = most_cells, tuple(zeros)
        self._potentials: dict[Group, Floats] = {}
        self._held: tuple[Group, ...] = ()

    def fit(
        self, marginals: Sequence[Marginal], *, sweeps: int = _SWEEPS, heat: float = _HEAT
    ) -> GraphicalModel:
        """Fit the model, from where it stands; earlier marginals have precedence in the tree.

        Parameters
        ----------
        marginals : sequence of Marginal
        sweeps : int, default=40
            The largest number of rounds over all groups.
        heat : float, default=100
            The first slack is so many times that of the noise, and cools down; 1 to start warm.

        Returns
        -------
        self
        """
        self.marginals = list(marginals)
        self.residuals = Residuals(self.sizes, self.marginals)
        self.n_rows = max(self.residuals.n_rows, 1.0)
        self._grow()
        noise = [float(np.mean(m.std)) for m in self.marginals]
        self.alpha = _ENTROPY * self.n_rows / max(float(np.median(noise)), _SMALLEST)
        factors = self._factors()
        self._start(factors)
        for sweep in range(sweeps):
            hot = max(1.0, heat * _COOLING**sweep)
            gap = self._tour(0, factors, hot) * math.sqrt(self.alpha * hot)
            if gap < _TOLERANCE and hot == 1.0:
                break
        self._start(factors)  # which sweeps away what rounding has piled up
        return self

    def _grow(self) -> None:
        """Take in the groups that the tree can hold, in their order."""
        groups = list(dict.fromkeys(m.columns for m in self.marginals))
        held = [group for group, _ in self.zeros]
        fits = n_cells(self.sizes, [*held, *groups]) <= self.most_cells
        for group in groups:
            if fits or n_cells(self.sizes, [*held, group]) <= self.most_cells:
                held.append(group)
        if tuple(held) != self._held or not hasattr(self, "tree"):
            self.tree, self._held = JunctionTree(self.sizes, held), tuple(held)
        self.left_out = [group for group in groups if self.tree.host(group) is None]

    def _factors(self) -> list[list[_Factor]]:
        factors: list[list[_Factor]] = [[] for _ in self.tree.cliques]
        precision: dict[Group, Floats] = {}
        for marginal in self.marginals:
            own = np.broadcast_to(1 / np.maximum(marginal.std, _SMALLEST) ** 2, marginal.shape)
            group = tuple(sorted(marginal.columns))
            own = np.transpose(own, [marginal.columns.index(a) for a in group])
            precision[group] = precision.get(group, 0.0) + own
        for group, of_cells in precision.items():
            host = self.tree.host(group)
            if host is None:
                continue
            target = self.residuals.marginal(group) / self.n_rows
            slack = self.alpha / of_cells / self.n_rows**2
            shape = self.tree.shape_in(host, group)
            axes = self.tree.axes_outside(host, group)
            factors[host].append(_Factor(group, shape, axes, target, np.maximum(slack, 1e-30)))
        return factors

    def _start(self, factors: list[list[_Factor]]) -> None:
        potentials = [np.zeros(shape) for shape in self.tree.shapes]
        for group, possible in self.zeros:
            host = self.tree.host(group)
            assert host is not None  # it was taken in first
            order = sorted(range(len(group)), key=group.__getitem__)
            forbidden = np.where(np.transpose(possible, order), 0.0, -np.inf)
            potentials[host] += forbidden.reshape(self.tree.shape_in(host, group))
        for i, hosted in enumerate(factors):
            for factor in hosted:
                theta = self._potentials.setdefault(factor.group, np.zeros(factor.target.shape))
                potentials[i] += theta.reshape(factor.shape)
        self.tree.calibrate(potentials)
        tables = self.tree.probabilities
        self._shared = [tables[i].sum(axis=self.tree.up[i]) for i in range(len(tables))]

    def _tour(self, i: int, factors: list[list[_Factor]], hot: float) -> float:
        """Update each group's potential on a walk through the tree; return the largest miss."""
        worst = self._update(i, factors[i], hot)
        for child in self.tree.children[i]:
            self._push(i, child, child)
            worst = max(worst, self._tour(child, factors, hot))
            self._push(child, i, child)
        return worst

    def _update(self, i: int, factors: list[_Factor], hot: float) -> float:
        """Solve for one group's potential after another: ``m + tau^2 theta = y``, ``sum m = 1``.

        With q the model's marginal, ``m = q exp(theta - theta_old) / Z``; hence
        ``m = tau^2 omega(A - log Z)`` with Wright's omega.
        """
        table, worst = self.tree.probabilities[i], 0.0
        for factor in factors:
            slack, old = factor.slack * hot, self._potentials[factor.group]
            now = table.sum(axis=factor.axes)
            missed = factor.target - slack * old - now
            worst = max(worst, float(np.sqrt(np.mean(missed**2 / slack))))
            offset = np.log(np.maximum(now, _SMALLEST) / slack) + (factor.target / slack - old)
            matched = _matched(offset, slack)
            new = np.maximum((factor.target - matched) / slack, _LEAST_POTENTIAL)
            table *= np.exp(new - old).reshape(factor.shape)
            table /= table.sum()
            self._potentials[factor.group] = new
        return worst

    def _push(self, start: int, end: int, lower: int) -> None:
        """Bring a clique up to date with its neighbour; `lower` is the child of the two."""
        tree = self.tree
        axes = tree.up[lower] if start == lower else tree.down[lower]
        shared, before = tree.probabilities[start].sum(axis=axes), self._shared[lower]
        ratio = np.divide(shared, before, out=np.zeros_like(shared), where=before > 0)
        tree.probabilities[end] *= ratio.reshape(tree.shape_in(end, tree.separators[lower]))
        self._shared[lower] = shared

    def copy_with(self, marginals: Sequence[Marginal], *, sweeps: int = 8) -> GraphicalModel:
        """Return a model of other counts of the same groups, fitted from where this one stands."""
        other = GraphicalModel(self.sizes, most_cells=self.most_cells, zeros=self.zeros)
        other._potentials = dict(self._potentials)
        other._held, other.tree = (), JunctionTree(self.sizes, self._held)
        other._held = self._held
        return other.fit(marginals, sweeps=sweeps, heat=1.0)

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, from the tree."""
        return self.tree.marginal(tuple(group))

    def draw(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows, shape (n_rows, d), drawn from the tree."""
        return self.tree.draw(n_rows, rng)


def _matched(offset: Floats, slack: Floats) -> Floats:
    """Return ``m = slack omega(offset - z)``, with z such that m sums to one."""
    z: Any = 0.0
    matched = slack
    for _ in range(25):
        omega = wrightomega(offset - z)
        matched = slack * omega
        excess = matched.sum() - 1
        if abs(excess) < 1e-10:
            break
        z += np.clip(excess / np.sum(matched / (1 + omega)), -5, 5)
    return matched
