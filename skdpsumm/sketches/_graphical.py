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

*Residuals.* The counts of a group of columns are the sum of its residuals: for each set t of the
group what remains of the counts of t when all that smaller sets tell is taken out. Residuals of
different sets are orthogonal, and noise that is alike in all cells of a group is independent
between them. So each is the mean, by precision, of what the groups that hold it say, and the best
linear unbiased estimate of every marginal and its variance follow from these in closed form [6]_
[7]_.

*Junction trees.* A triangulation of the graph that joins the columns of each group has cliques;
these form a tree in which what two cliques share lies in every clique between them. Such a tree
holds a distribution exactly, and gives every marginal of it [5]_. What two neighbouring cliques
share tells all that one of them knows of the other. So a table of columns that no clique holds
takes only the cliques between its columns, and of each of these only the columns that are asked for
and those that it shares with its neighbours:

    p(asked) = sum  p(top)  prod_i  p(columns of i | those that i shares with its parent).

References
----------
.. [1] McKenna, Sheldon and Miklau (2019), "Graphical-model based estimation and inference for
       differential privacy" (private-pgm, the reference of our tests).
.. [2] Deming and Stephan (1940), "On a least squares adjustment of a sampled frequency table when
       the expected marginal totals are known".
.. [3] Walker and Ni (2011), "Anderson acceleration for fixed-point iterations".
.. [4] Lawrence, Corless and Jeffrey (2012), "Algorithm 917: complex double-precision evaluation of
       the Wright omega function".
.. [5] Koller and Friedman (2009), "Probabilistic graphical models", chapter 10.
.. [6] Xiao, He, Li and Fang (2023), "An optimal and scalable matrix mechanism for noisy marginals
       under convex loss functions" (ResidualPlanner).
.. [7] Mullins, Fuentes, Xiao, Kifer, Musco and Sheldon (2024), "Efficient and private marginal
       reconstruction with local non-negativity".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from itertools import combinations, groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from .._computing import TINY, Floats, Kept
from ._rounding import Group, Rounding

Mask = NDArray[np.bool_]


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
        self.sizes, self._marginals = tuple(sizes), list(marginals)
        self._of_cells: dict[Group, Floats] = {}
        self._summed: dict[tuple[int, Group], Floats] = {}  # variances, over all other columns
        if like is not None and like._noise() == self._noise():
            self._of_cells = like._of_cells
        self._variances: list[tuple[Group, Floats]] = []
        # The groups that tell of each set of columns, with their weights, and the sum of these.
        self._tellers: dict[Group, list[tuple[int, float]]] = {}
        self._precision: dict[Group, float] = {}
        sums: dict[Group, Floats] = {}
        for k, marginal in enumerate(self._marginals):
            group, counts, variance = marginal.ordered()
            self._variances.append((group, variance))
            # Counts without noise have a weight, and no sum of weights overflows.
            noise = max(float(np.mean(variance)), 1e-20)
            for part in [()] if marginal.coarse else subsets(group):
                outside = _axes_outside(group, part)
                weight = 1 / (noise * math.prod(counts.shape[a] for a in outside))
                told = weight * centred(counts.sum(axis=outside))
                sums[part] = sums[part] + told if part in sums else told
                self._tellers.setdefault(part, []).append((k, weight))
                self._precision[part] = self._precision.get(part, 0.0) + weight
        self._residuals = {part: sums[part] / self._precision[part] for part in sums}
        self.n_rows = float(self._residuals.get((), 0.0))

    def _noise(self) -> list[tuple[Group, int, int]]:
        """Return what tells the noise of the marginals: objects that are there as long as they."""
        return [(m.columns, id(m.coarse), id(m.std)) for m in self._marginals]

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
            parts: dict[Group, Any] = {}
            for (k, part), load in self._squares(group).items():
                if (k, part) not in self._summed:
                    columns, variance = self._variances[k]
                    self._summed[k, part] = variance.sum(axis=_axes_outside(columns, part))
                parts[part] = parts.get(part, 0.0) + load * self._summed[k, part]
            found = np.zeros([self.sizes[a] for a in group])
            for part, own in parts.items():
                found += own.reshape([self.sizes[a] if a in part else 1 for a in group])
            self._of_cells[group] = np.maximum(found, 0.0)  # less than 0 by rounding
        return self._of_cells[group]

    def _squares(self, group: Group) -> dict[tuple[int, Group], float]:
        """Return by which parts of the variances of marginals that of a cell of a group is summed.

        A count weighs in a cell what all parts do of which it is there: its residuals are centred,
        and spread evenly.
        """
        loads: dict[int, dict[Group, float]] = {}
        for part in subsets(group):
            shares = {}
            for inner in subsets(part):
                n_cells = math.prod(self.sizes[a] for a in group if a not in inner)
                shares[inner] = (-1) ** (len(part) - len(inner)) / n_cells
            for k, weight in self.tellers(part):
                own = loads.setdefault(k, {})
                for inner, share in shares.items():
                    own[inner] = own.get(inner, 0.0) + weight * share
        found: dict[tuple[int, Group], float] = {}
        for k, own in loads.items():
            for one, other in product(own, repeat=2):
                both = k, tuple(a for a in group if a in one or a in other)
                found[both] = found.get(both, 0.0) + own[one] * own[other]
        return found


def _axes_outside(group: Group, part: Iterable[int]) -> tuple[int, ...]:
    return tuple(k for k, a in enumerate(group) if a not in part)


def centred(table: Floats, axes: Iterable[int] | None = None) -> Floats:
    """Return what is left of a table when all that fewer of these axes tell is taken out."""
    for k in range(table.ndim) if axes is None else axes:
        table = table - np.expand_dims(sum_out(table, (k,)) / table.shape[k], k)
    return table


def triangulate(
    sizes: Sequence[int], groups: Iterable[Group], *, most_cells: float = math.inf
) -> list[frozenset[int]]:
    """Return the cliques of a triangulation of the graph in which groups are complete.

    Columns are eliminated greedily: the least fill first, weighted by cells, then the smallest
    clique. Past `most_cells` it stops: the cliques so far are too large already.
    """
    near: dict[int, set[int]] = {a: set() for a in range(len(sizes))}
    for group in groups:
        for a in group:
            near[a] |= set(group) - {a}
    costs = {a: _cost(sizes, near, a) for a in near}
    cliques: list[frozenset[int]] = []
    cells = 0
    while near and cells <= most_cells:
        a = min(costs, key=costs.__getitem__)
        around = near.pop(a)
        del costs[a]
        clique = frozenset(around | {a})
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
            cells += math.prod(sizes[b] for b in clique)
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


def _n_cells(sizes: Sequence[int], cliques: Iterable[Iterable[int]]) -> int:
    return sum(math.prod(sizes[a] for a in clique) for clique in cliques)


def within(
    sizes: Sequence[int], groups: Sequence[Group], most_cells: int, *, held: Iterable[Group] = ()
) -> list[Group]:
    """Return the groups that a tree of `most_cells` holds, taken in one after another.

    Parameters
    ----------
    sizes : sequence of int
    groups : sequence of tuple of int
        Earlier ones have precedence.
    most_cells : int
    held : iterable of tuple of int
        Groups that it holds in any case.
    """
    taken = list(held)
    every = triangulate(sizes, [*taken, *groups], most_cells=most_cells)
    if _n_cells(sizes, every) <= most_cells:
        return [*taken, *groups]
    cliques = triangulate(sizes, taken)
    for group in groups:
        # A group within a clique costs nothing.
        if not any(clique.issuperset(group) for clique in cliques):
            now = triangulate(sizes, [*taken, group], most_cells=most_cells)
            if _n_cells(sizes, now) > most_cells:
                continue
            cliques = now
        taken.append(group)
    return taken


class JunctionTree:
    """A distribution of the columns that factorises over the cliques of a triangulation.

    Parameters
    ----------
    sizes : sequence of int
        Number of cells of each column.
    groups : iterable of tuple of int
        Each lies in one clique.

    Attributes
    ----------
    cliques : list of tuple of int
        Increasing columns; parents come before their children.
    parents : list of int
        -1 for the first.
    probabilities : list of ndarray
        Of the cells of each clique; set by `calibrate`.
    shared : list of ndarray
        Of the cells that each clique shares with its parent, 1 for the first; set by `calibrate`.
    kept : Kept
        Parts of cliques as they are now: the next question may need them as well.
    """

    def __init__(self, sizes: Sequence[int], groups: Iterable[Group]):
        self.sizes = tuple(int(size) for size in sizes)
        found = [tuple(sorted(clique)) for clique in triangulate(self.sizes, groups)]
        found.sort(key=lambda clique: -math.prod(self.sizes[a] for a in clique))
        self.cliques, self.parents = _spanning_tree(found)
        self.shapes = [tuple(self.sizes[a] for a in clique) for clique in self.cliques]
        # The cliques that hold each column.
        self.holding: list[set[int]] = [set() for _ in self.sizes]
        for i, clique in enumerate(self.cliques):
            for a in clique:
                self.holding[a].add(i)
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
        self.probabilities: list[Floats] = []
        self.shared: list[Floats] = []
        self.kept = Kept(0)

    def host(self, group: Iterable[int]) -> int | None:
        """Return the smallest clique that holds a group, None if none does."""
        holding = [self.holding[a] for a in group] or [set(range(len(self.cliques)))]
        held = set.intersection(*holding)
        return min(held, key=lambda i: (math.prod(self.shapes[i]), i), default=None)

    def shape_in(self, i: int, group: Iterable[int]) -> tuple[int, ...]:
        """Return the shape in which an array over a group meets that of clique `i`."""
        held = set(group)
        return tuple(self.sizes[a] if a in held else 1 for a in self.cliques[i])

    def axes_outside(self, i: int, group: Iterable[int]) -> tuple[int, ...]:
        """Return the axes of clique `i` that are not of a group."""
        held = set(group)
        return tuple(k for k, a in enumerate(self.cliques[i]) if a not in held)

    def walk(self) -> list[tuple[int, int]]:
        """Return the steps of a tour: (from, to) along the tree, each edge there and back."""
        # By hand: a tree of thousands of columns is deeper than Python's stack.
        steps, left = list[tuple[int, int]](), [(0, child) for child in self.children[0][::-1]]
        while left:
            start, end = left.pop()
            steps.append((start, end))
            if self.parents[end] == start:
                left.append((end, start))
                left += [(end, child) for child in self.children[end][::-1]]
        return steps

    def calibrate(self, potentials: list[Floats]) -> None:
        """Set probabilities by log potentials of the cliques, which are overwritten by them."""
        totals = [np.empty(0)] * len(potentials)
        for i in range(len(potentials) - 1, -1, -1):
            table, axes = potentials[i], self.up[i]
            top = np.expand_dims(max_out(table, axes), axes)
            top = np.where(np.isfinite(top), top, 0.0)  # where nothing is possible
            table -= top
            np.exp(table, out=table)
            totals[i] = np.expand_dims(sum_out(table, axes), axes)
            parent = self.parents[i]
            if parent >= 0:
                with np.errstate(divide="ignore"):
                    message = np.log(totals[i]) + top
                potentials[parent] += message.reshape(self.shape_in(parent, self.separators[i]))
        if not np.any(potentials[0]):
            raise ValueError("No row is possible: every combination of cells is excluded.")
        self.probabilities, self.shared, self.kept = potentials, [], Kept(0)
        for i, parent in enumerate(self.parents):
            whole = np.ones(()) if parent < 0 else sum_out(potentials[parent], self.down[i])
            ratio = whole.reshape(totals[i].shape) / np.where(totals[i] > 0, totals[i], 1.0)
            potentials[i] *= ratio
            self.shared.append(whole)

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, axes in the order given.

        Columns of one clique are summed out of it; others by elimination along the tree.
        """
        wanted, host = frozenset(group), self.host(group)
        if host is not None:
            columns = self._columns(host, wanted)
            table = self._part(host, columns)
        else:
            table, columns = self._eliminated(wanted)
        return np.transpose(table, [columns.index(a) for a in group])

    def _columns(self, i: int, which: Iterable[int]) -> Group:
        held = frozenset(which)
        return tuple(a for a in self.cliques[i] if a in held)

    def _between(self, wanted: frozenset[int]) -> list[int]:
        """Return the cliques that are needed to tell how some columns go together, top first."""
        needed: set[int] = set()
        for a in wanted:
            i = min(self.holding[a])
            while i >= 0 and i not in needed:
                needed.add(i)
                i = self.parents[i]
        # From the ends of the paths those go that know no more than their neighbours.
        left = sorted(needed)
        while left:
            i = left.pop()
            near = [k for k in (self.parents[i], *self.children[i]) if k in needed]
            is_end, own = i in needed and len(near) == 1, wanted.intersection(self.cliques[i])
            if is_end and own <= set(self.cliques[near[0]]):
                needed.discard(i)
                left.append(near[0])
        return sorted(needed)

    def _eliminated(self, wanted: frozenset[int]) -> tuple[Floats, Group]:
        """Return p(wanted columns) and the order of its axes, from the leaves to the top."""
        between = self._between(wanted)
        told: dict[int, tuple[Floats, Group]] = {}
        for i in reversed(between):
            given = self.separators[i] if i > between[0] else ()
            children = [child for child in self.children[i] if child in told]
            shared = [self.separators[child] for child in children]
            columns = self._columns(i, wanted.union(given, *shared))
            table = self._part(i, columns, given)
            for k, child in enumerate(children, 1):
                keep = wanted.union(given, *shared[k:])
                table, columns = _contracted(table, columns, *told.pop(child), keep)
            told[i] = table, columns
        return told[between[0]]

    def _part(self, i: int, columns: Group, given: Group = ()) -> Floats:
        """Return the probabilities of some columns of a clique, in its order, given others."""
        return self.kept.get((i, columns, given), lambda: self._found(i, columns, given))

    def _found(self, i: int, columns: Group, given: Group) -> Floats:
        # A copy, because a fit changes the probabilities of the tree in place.
        table = np.array(sum_out(self.probabilities[i], self.axes_outside(i, columns)))
        if not given:
            return table
        return divided(table, [k for k, a in enumerate(columns) if a not in given])

    def table(self, i: int, columns: Sequence[int]) -> Floats:
        """Return the probabilities of columns of clique `i`, axes in the order given."""
        held = self._columns(i, columns)
        table = sum_out(self.probabilities[i], self.axes_outside(i, columns))
        return np.transpose(table, [held.index(a) for a in columns]).copy()

    def marginals(self, groups: Iterable[Sequence[int]]) -> dict[Group, Floats]:
        """Return `marginal` of many groups, much faster for pairs than one after another."""
        asked = list(dict.fromkeys(tuple(group) for group in groups))
        far = [group for group in asked if len(group) == 2 and self.host(group) is None]
        pairs = _FarPairs(self, far).found
        return {group: pairs[group] if group in pairs else self.marginal(group) for group in asked}

    def draw(
        self, n_rows: int, rng: np.random.Generator, tables: Mapping[Group, Floats] | None = None
    ) -> NDArray[np.int64]:
        """Return codes of rows, shape (n_rows, d), whose counts are nearly what is expected.

        Parameters
        ----------
        n_rows : int
        rng : Generator
        tables : mapping of tuple of int to ndarray, default=None
            Probabilities of the cells of groups. Counts of these are as near as whole rows can be,
            also where they are not the tree's.
        """
        rows = Rounding(self.sizes, n_rows, rng, tables or {})
        for i, clique in enumerate(self.cliques):
            given = list(self.separators[i])
            for a in (clique[k] for k in self.up[i]):
                rows.draw(a, given, divided(self.table(i, (*given, a)), [len(given)]))
                given.append(a)
        return rows.codes[rng.permutation(n_rows)]


class _FarPairs:
    """The distributions of pairs of columns that no clique holds, in one pass from the leaves.

    A clique hears p(column | columns of the clique) of its own columns and of those below it, as
    one matrix: rows are the cells of the columns that tell. A pair is found where one column is
    below a child, and the other one is below another child or a column of the clique.
    """

    def __init__(self, tree: JunctionTree, pairs: Sequence[Group]):
        self.tree = tree
        self.found: dict[Group, Floats] = {}
        self._partners: dict[int, set[int]] = {}
        for a, b in (*pairs, *(pair[::-1] for pair in pairs)):
            self._partners.setdefault(a, set()).add(b)
        below: dict[int, dict[int, Floats]] = {}
        for i in range(len(tree.cliques) - 1, -1, -1):
            # By the columns that tell, which many children share.
            heard: dict[Group, dict[int, Floats]]
            heard = {(a,): {a: np.eye(tree.sizes[a])} for a in tree.cliques[i]}
            for child in tree.children[i]:
                separator, rows = tree.separators[child], below.pop(child)
                for known in heard.items():
                    self._meet(i, known, (separator, rows))
                heard.setdefault(separator, {}).update(rows)
            below[i] = self._lifted(i, heard)

    def _meet(self, i: int, *heard: tuple[Group, dict[int, Floats]]) -> None:
        """Find the pairs of columns that two parts of the tree tell of."""
        (start, rows), (end, others) = sorted(heard, key=lambda known: len(known[1]))
        wanted = {a: self._partners.get(a, set()) & others.keys() for a in rows}
        wanting = {a: table for a, table in rows.items() if wanted[a]}
        for a, joint in self._through(i, start, wanting, end, joint=True).items():
            product = joint @ np.concatenate([others[b] for b in wanted[a]]).T
            ends = np.cumsum([self.tree.sizes[b] for b in wanted[a]])
            for b, pair in zip(wanted[a], np.split(product, ends[:-1], axis=1), strict=True):
                self.found[a, b], self.found[b, a] = pair, pair.T
                self._partners[b].discard(a)
            self._partners[a] -= wanted[a]

    def _lifted(self, i: int, heard: dict[Group, dict[int, Floats]]) -> dict[int, Floats]:
        """Return p(column | separator) of columns that the parent lacks and that want others."""
        separator, lifted = self.tree.separators[i], dict[int, Floats]()
        for start, rows in heard.items():
            wanting = {
                b: table
                for b, table in rows.items()
                if b not in separator and self._partners.get(b)
            }
            lifted |= self._through(i, start, wanting, separator, joint=False)
        return lifted

    def _through(
        self, i: int, start: Group, rows: dict[int, Floats], end: Group, *, joint: bool
    ) -> dict[int, Floats]:
        """Return p(column | end) of p(column | start), two separators; p(column, end) if joint.

        Columns of both stay as they are, and others are summed out: a product of matrices for each
        cell of what is common.
        """
        if not rows:
            return {}
        sizes, columns = self.tree.sizes, (*start, *(a for a in end if a not in start))
        table = self.tree.table(i, columns)
        if not joint:
            table = divided(table, [k for k, a in enumerate(start) if a not in end])
        # The cells of all columns that are told of are on one axis, in place of a column -1.
        stack = np.concatenate(list(rows.values())).reshape(-1, *(sizes[a] for a in start))
        stack, order = _contracted(stack, (-1, *start), table, columns, frozenset((-1, *end)))
        stack = np.transpose(stack, [order.index(a) for a in (-1, *end)])
        ends = np.cumsum([sizes[b] for b in rows])[:-1]
        parts = np.split(stack.reshape(len(stack), -1), ends)
        return dict(zip(rows, parts, strict=True))


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


# ---- tables


def divided(table: Floats, axes: Sequence[int]) -> Floats:
    """Return a table divided by its sums over increasing axes; where these are 0 it is 0."""
    total = np.expand_dims(sum_out(table, axes), tuple(axes))
    return table / np.where(total > 0, total, 1.0)


def _contracted(
    left: Floats, left_columns: Group, right: Floats, right_columns: Group, keep: frozenset[int]
) -> tuple[Floats, Group]:
    """Return the product of two tables, summed over columns of both that nobody keeps."""
    both = [a for a in left_columns if a in right_columns]
    common, gone = [a for a in both if a in keep], [a for a in both if a not in keep]
    own = [a for a in left_columns if a not in both]
    other = [a for a in right_columns if a not in both]
    first = _folded(left, left_columns, common, own, gone)
    second = _folded(right, right_columns, common, gone, other)
    product = first * second if not gone else first @ second
    sizes = dict(zip(left_columns + right_columns, left.shape + right.shape, strict=True))
    columns = (*common, *own, *other)
    return product.reshape([sizes[a] for a in columns]), columns


def _folded(table: Floats, columns: Group, *parts: Sequence[int]) -> Floats:
    """Return a table with one axis for each part of its columns."""
    order = [columns.index(a) for part in parts for a in part]
    shape = [math.prod(table.shape[columns.index(a)] for a in part) for part in parts]
    return np.transpose(table, order).reshape(shape)


@lru_cache(maxsize=64)
def _ones(n: int) -> Floats:
    return np.ones(n)


def sum_out(table: Floats, axes: Iterable[int]) -> Floats:
    """Return ``table.sum(axis=axes)`` for increasing axes, by matrix products.

    Where few of the last columns are kept, NumPy's sum takes up to 20 times as long.
    """
    sums, shape = _sums(table.shape, tuple(axes))
    for before, n, after in sums:
        flat = table.reshape(before, n, after)
        table = flat[:, :, 0] @ _ones(n) if after == 1 else _ones(n) @ flat
    return table.reshape(shape)


def max_out(table: Floats, axes: Iterable[int]) -> Floats:
    """Return ``table.max(axis=axes)`` for increasing axes, of few cells at a time much faster."""
    maxima, shape = _sums(table.shape, tuple(axes))
    for before, n, after in maxima:
        flat = table.reshape(before, n, after)
        # The largest of few cells is found faster by comparing them one after another.
        few = n <= 32
        table = reduce(np.maximum, np.moveaxis(flat, 1, 0)) if few else flat.max(axis=1)
    return table.reshape(shape)


@lru_cache(maxsize=4096)
def _sums(shape: Group, axes: Group) -> tuple[list[tuple[int, int, int]], Group]:
    """Return sums over the middle of three axes that lead to a sum over axes, and its shape."""
    gone = [a in axes for a in range(len(shape))]
    runs = [
        (is_gone, math.prod(shape[a] for a in run))
        for is_gone, run in groupby(range(len(shape)), gone.__getitem__)
    ]
    sums = []
    # The largest first: it leaves least for the others.
    for n in sorted((n for is_gone, n in runs if is_gone), reverse=True):
        k = runs.index((True, n))
        before, after = (math.prod(n for _, n in part) for part in (runs[:k], runs[k + 1 :]))
        sums.append((before, n, after))
        del runs[k]
    return sums, tuple(n for n, is_gone in zip(shape, gone, strict=True) if not is_gone)


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
    # These tell the margins of all their parts, too.
    parents = [key[0] for key in found if key not in index]
    for group in dict.fromkeys(s for own in parents for s in subsets(own) if 0 < len(s) < len(own)):
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
    possible: Mask | None = None


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
        new, log_total = solve_block(now, old, factor)
        missed = (target.share - factor.slack * old - now) / target.noise
        missed = missed if possible is None else missed[possible]
        worst = max(worst, math.sqrt(float(np.mean(missed**2))))
        # Where next to nothing is, a potential may rise by more than a float can tell.
        step = np.exp(np.minimum(new - old - log_total, 700.0))
        step = np.where(now > 0, step, 1.0)  # where nobody is, nothing moves
        moved *= factor.spread(step / np.vdot(now, step))
        potentials[target.key] = new
    return moved, worst


def solve_block(now: Floats, old: Floats, factor: Factor) -> tuple[Floats, float]:
    """Return the potential that solves ``m + slack theta = share`` with ``sum m = 1``, exactly.

    With `now` the model's marginal and `old` the potential, ``m = now exp(theta - old - z)``; hence
    ``m = slack omega(log(now / slack) + share / slack - old - z)`` with Wright's omega.

    Returns
    -------
    theta : ndarray
    z : float
    """
    share, slack, possible = factor.target.share, factor.slack, factor.possible
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
        Groups that the tree does not hold, for they would make it too large; increasing columns.
    """

    def __init__(self, sizes: Sequence[int], *, zeros: Sequence[tuple[Group, Mask]] = ()):
        self.sizes = tuple(int(size) for size in sizes)
        fitting = set(within(self.sizes, [group for group, _ in zeros], MOST_CELLS_OF_TREE // 2))
        self.zeros = tuple(zero for zero in zeros if zero[0] in fitting)
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
        first = [group for group, _ in self.zeros]
        held = tuple(within(self.sizes, groups, MOST_CELLS_OF_TREE, held=first))
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
        self.tree.kept = Kept(_MOST_KEPT)
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
        return self.tree.marginal(group)

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
        left = [other for other in self.left_out if set(other) <= set(group)]
        if not left:
            return table
        told = [target for target in self.targets if set(target.group) <= set(group)]
        cells = np.zeros((table.size, len(self.sizes)), np.int64)
        cells[:, list(group)] = np.indices(table.shape).reshape(len(group), -1).T
        # Nowhere zero, so that counts can say that there is somebody after all.
        prior = np.maximum(table.ravel(), 1e-12) * self.possible(group).ravel()
        trees = {other: sum_out(table, _axes_outside(group, other)) for other in left}
        return self._raked(cells, told, prior, trees).reshape(table.shape)

    def _trust(self, outside: Sequence[Target], tables: Mapping[Group, Floats]) -> float:
        """Return how much the tree counts beside targets that it does not hold.

        The further it is from these, in units of their noise, the less: the third root was best for
        tables and for weights of rows alike, on Covertype, Adult and ACS at epsilon 0.1 to 10.
        """
        missed = [
            (target.share - target.summed(tables[target.group])) / target.noise
            for target in outside
        ]
        excess = float(np.mean(np.concatenate([m.ravel() ** 2 for m in missed]))) - 1
        return 10.0 / max(excess, 1 / 8) ** (1 / 3)

    def possible(self, group: Sequence[int]) -> Mask:
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
        trees = self.marginals(self.left_out)
        return self._raked(codes, self.targets, np.ones(len(codes)), trees)

    def _raked(
        self,
        codes: NDArray[np.int64],
        targets: Sequence[Target],
        weights: Floats,
        trees: Mapping[Group, Floats],
    ) -> Floats:
        """Return weights of rows that match targets within their noise, nearest to those given."""
        weights = weights / weights.sum()
        outside = [target for target in targets if target.group in self.left_out]
        if not outside or not len(codes):
            return weights
        alpha = self.alpha * self._trust(outside, trees)
        factors = [_of_rows(codes, self.sizes, weights, target, alpha) for target in targets]
        potentials = {factor.target.key: np.zeros(factor.slack.shape) for factor in factors}
        shared, ahead, start = overlaps(factors), Anderson(factors), weights
        # Twelve accelerated sweeps are as good as twenty others (examples/benchmarks/graphical.py).
        last, least, best = 11, np.inf, weights
        for sweep in range(last + 1):
            before = ahead.flat(potentials)
            with np.errstate(over="ignore", invalid="ignore"):  # rows may have no weights that fit
                moved, worst = fit_factors(factors, weights, potentials)
                best, least = (weights, worst) if worst < least else (best, least)
                weights = weights * moved
            if not 0 < weights.sum() < np.inf:
                return best
            for overlap in shared:
                overlap.share_out(potentials)
            if worst < MISSED_NOISE:
                break
            if 1 < sweep < last and ahead.accelerate(before, potentials):
                told = sum(factor.spread(potentials[factor.target.key]) for factor in factors)
                told = np.where(start > 0, told, -np.inf)
                weights = start * np.exp(told - told.max())
                weights /= weights.sum()
        return weights if worst <= least else best

    def rounded(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return codes of rows whose counts are those of `table`, of all that was counted."""
        groups = sorted({tuple(sorted(m.columns)) for m in self.counted if len(m.columns) > 1})
        self.ahead(groups)
        return self.tree.draw(n_rows, rng, {g: self.table(g) for g in groups})


def _keys(blocks: Iterable[Iterable[_Block]]) -> frozenset[Key]:
    return frozenset(f.target.key for hosted in blocks for block in hosted for f in block.factors)
