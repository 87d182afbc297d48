"""Junction trees: distributions of many columns that factorise over small sets of them.

Codes of d columns, column a with ``sizes[a]`` cells. A triangulation of the graph that joins the
columns of each group has cliques; these form a tree in which what two cliques share lies in every
clique between them. Such a tree holds a distribution exactly, and gives every marginal of it.

*Tables of columns that no clique holds.* What two neighbouring cliques share tells all that one of
them knows of the other. So such a table takes only the cliques between its columns, and of each of
these only the columns that are asked for and those that it shares with its neighbours:

    p(asked) = sum  p(top)  prod_i  p(columns of i | those that i shares with its parent).

References
----------
.. [1] Koller and Friedman (2009), "Probabilistic graphical models", chapter 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import combinations, groupby

import numpy as np
from numpy.typing import NDArray

from .._computing import Kept
from ._residuals import Floats, Group
from ._rounding import Rounding


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
        self.probabilities, self.shared = potentials, []
        for i, parent in enumerate(self.parents):
            whole = np.ones(()) if parent < 0 else sum_out(potentials[parent], self.down[i])
            ratio = whole.reshape(totals[i].shape) / np.where(totals[i] > 0, totals[i], 1.0)
            potentials[i] *= ratio
            self.shared.append(whole)

    def marginal(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, axes in the order given.

        Columns of one clique are summed out of it; others by elimination along the tree.
        """
        return Elimination(self).table(group)

    def table(self, i: int, columns: Sequence[int]) -> Floats:
        """Return the probabilities of columns of clique `i`, axes in the order given."""
        held = [a for a in self.cliques[i] if a in set(columns)]
        table = sum_out(self.probabilities[i], self.axes_outside(i, columns))
        return np.transpose(table, [held.index(a) for a in columns]).copy()

    def marginals(self, groups: Iterable[Sequence[int]]) -> dict[Group, Floats]:
        """Return `marginal` of many groups, much faster for pairs than one after another."""
        asked = list(dict.fromkeys(tuple(group) for group in groups))
        far = [group for group in asked if len(group) == 2 and self.host(group) is None]
        pairs, others = _FarPairs(self, far).found, Elimination(self)
        return {group: pairs[group] if group in pairs else others.table(group) for group in asked}

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
        tree = self.tree
        common = [a for a in start if a in end]
        gone, new = [a for a in start if a not in end], [a for a in end if a not in start]
        n = [math.prod(tree.sizes[a] for a in part) for part in (common, gone, new)]
        table = tree.table(i, (*common, *gone, *new)).reshape(n)
        if not joint:
            table = divided(table, [1])
        stack = np.concatenate(list(rows.values()))
        stack = stack.reshape(len(stack), *(tree.sizes[a] for a in start))
        order = [start.index(a) + 1 for a in (*common, *gone)]
        stack = np.transpose(stack, [*order[: len(common)], 0, *order[len(common) :]])
        stack = np.matmul(stack.reshape(n[0], -1, n[1]), table).transpose(1, 0, 2)
        placed = [*common, *new]
        stack = stack.reshape(len(stack), *(tree.sizes[a] for a in placed))
        stack = np.transpose(stack, [0, *(placed.index(a) + 1 for a in end)])
        ends = np.cumsum([tree.sizes[b] for b in rows])
        parts = np.split(stack.reshape(len(stack), -1), ends[:-1])
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


# ---- tables of columns that no clique holds


class Elimination:
    """Tables of columns of the distribution on a junction tree, as it is now.

    Parameters
    ----------
    tree : JunctionTree
    most_kept : int, default=0
        Cells of parts of cliques that are kept: the next question may need them as well.
    """

    def __init__(self, tree: JunctionTree, *, most_kept: int = 0):
        self._tree, self._probabilities = tree, tree.probabilities
        self._kept = Kept(most_kept)

    def table(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, axes in its order."""
        wanted, host = frozenset(group), self._tree.host(group)
        if host is not None:
            columns = self._columns(host, wanted)
            table = self._part(host, columns)
        else:
            table, columns = self._eliminated(wanted)
        return np.transpose(table, [columns.index(a) for a in group])

    def _columns(self, i: int, which: Iterable[int]) -> Group:
        held = frozenset(which)
        return tuple(a for a in self._tree.cliques[i] if a in held)

    def _between(self, wanted: frozenset[int]) -> list[int]:
        """Return the cliques that are needed to tell how some columns go together, top first."""
        tree = self._tree
        needed: set[int] = set()
        for a in wanted:
            i = min(tree.holding[a])
            while i >= 0 and i not in needed:
                needed.add(i)
                i = tree.parents[i]
        # From the ends of the paths those go that know no more than their neighbours.
        left = sorted(needed)
        while left:
            i = left.pop()
            near = [k for k in (tree.parents[i], *tree.children[i]) if k in needed]
            is_end, own = i in needed and len(near) == 1, wanted.intersection(tree.cliques[i])
            if is_end and own <= set(tree.cliques[near[0]]):
                needed.discard(i)
                left.append(near[0])
        return sorted(needed)

    def _eliminated(self, wanted: frozenset[int]) -> tuple[Floats, Group]:
        """Return p(wanted columns) and the order of its axes, from the leaves to the top."""
        tree, between = self._tree, self._between(wanted)
        told: dict[int, tuple[Floats, Group]] = {}
        for i in reversed(between):
            given = tree.separators[i] if i > between[0] else ()
            children = [child for child in tree.children[i] if child in told]
            shared = [tree.separators[child] for child in children]
            columns = self._columns(i, wanted.union(given, *shared))
            table = self._part(i, columns, given)
            for k, child in enumerate(children, 1):
                keep = wanted.union(given, *shared[k:])
                table, columns = _contracted(table, columns, *told.pop(child), keep)
            told[i] = table, columns
        return told[between[0]]

    def _part(self, i: int, columns: Group, given: Group = ()) -> Floats:
        """Return the probabilities of some columns of a clique, in its order, given others."""
        return self._kept.get((i, columns, given), lambda: self._found(i, columns, given))

    def _found(self, i: int, columns: Group, given: Group) -> Floats:
        # A copy, because a fit changes the probabilities of the tree in place.
        table = np.array(sum_out(self._probabilities[i], self._tree.axes_outside(i, columns)))
        if not given:
            return table
        return divided(table, [k for k, a in enumerate(columns) if a not in given])


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
