"""Tables of a few columns of a distribution that factorises over a junction tree.

What two neighbouring cliques share tells all that one of them knows of the other. So a table of
columns that no clique holds takes only the cliques between them, and of each of these only the
columns that are asked for and those that it shares with its neighbours:

    p(asked) = sum  p(top)  prod_i  p(columns of i | those that i shares with its parent).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from .._computing import Kept
from ._residuals import Floats, Group


class _Step(NamedTuple):
    """What a clique of an elimination tells its parent, or the answer."""

    clique: int
    held: Group  # columns of the clique that matter
    given: Group  # of these, what it shares with its parent
    children: tuple[int, ...]
    columns: Group  # of what it tells


class Elimination:
    """Tables of columns of the distribution on a junction tree, as it is now.

    Parameters
    ----------
    tree : JunctionTree
    most_kept : int, default=0
        Cells of parts of cliques that are kept: the next question may need them as well.
    """

    def __init__(self, tree: Any, *, most_kept: int = 0):
        self._tree, self._probabilities = tree, tree.probabilities
        self._kept = Kept(most_kept)

    def table(self, group: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of a group, axes in its order."""
        wanted, host = frozenset(group), self._tree.host(group)
        if host is not None:
            columns = self._columns(host, wanted)
            table = self._part(host, columns)
        else:
            table, columns = self._eliminated(self._steps(wanted), wanted)
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

    def _steps(self, wanted: frozenset[int]) -> list[_Step]:
        """Return the steps of an elimination, from the leaves to the top."""
        tree, between = self._tree, self._between(wanted)
        steps: dict[int, _Step] = {}
        for i in reversed(between):
            given = tree.separators[i] if i > between[0] else ()
            children = tuple(child for child in tree.children[i] if child in steps)
            shared = (tree.separators[child] for child in children)
            held = self._columns(i, wanted.union(given, *shared))
            below = {a for child in children for a in steps[child].columns}
            told = tuple(sorted((wanted & below.union(held)).union(given)))
            steps[i] = _Step(i, held, given, children, told)
        return list(steps.values())

    def _eliminated(self, steps: Sequence[_Step], wanted: frozenset[int]) -> tuple[Floats, Group]:
        """Return p(wanted columns) and the order of its axes."""
        told: dict[int, tuple[Floats, Group]] = {}
        for step in steps:
            table, columns = self._part(step.clique, step.held, step.given), step.held
            for k, child in enumerate(step.children, 1):
                later = (self._tree.separators[other] for other in step.children[k:])
                keep = wanted.union(step.given, *later)
                table, columns = _contracted(table, columns, *told.pop(child), keep)
            told[step.clique] = table, columns
        return told[steps[-1].clique]

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
