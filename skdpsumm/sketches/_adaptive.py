"""A sketch that chooses what to count: histograms of the groups of columns that matter.

Steps find bins, count a base, then choose groups in rounds.

All that reads rows here goes through `StepBudget.count` and `StepBudget.choose`; every rule of how
many, how much and where reads public facts and released numbers alone. Exact counts are arguments
and local variables, never attributes.

Sensitivities, in grid units (GRID a row), of a unit that adds at most k rows to a histogram. k is 1
for single rows, and for groups under "average": what such a group adds to a histogram has no
negative entry and sums to GRID. G histograms get at most ``k GRID`` more each, in one cell at the
worst: ``k G GRID`` in L1, ``k sqrt(G) GRID`` in L2. Where a unit is replaced by another, each
histogram loses as much as it gains: 2 in L1 and sqrt(2) in L2 times that (`sensitivities`).

The score of a group is the L1 distance of its counts from numbers that were released, less another
such number. By the triangle inequality it moves by no more than the counts of that group do in L1:
``k GRID``, and twice that where a unit is replaced (`Design.score_sensitivity`). It may go up or
down, and differently for each group, so that the range of log weights is twice that
(`StepBudget.choose`).

*Bins.* Numbers of real tables have heaps (the zero of a capital gain, forty hours), long tails and
empty stretches. `find_bins` takes the places where the density changes by more than noise does.
Rare categories become one cell. That reads released values alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from .._computing import TINY, Floats, Kept, progress
from ..features._feature_maps import GRID, HistogramMap, UnionMap, check_size, sensitivities
from ..privacy import PrivacyGuarantee, PrivacyLedger
from ..privacy._fit import columns_kept
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import TOO_LARGE, StepBudget, on_grid
from ..schema._columns import Cells, public_cells
from ..schema._reading import Table, is_frame, some_rows
from ..schema._schema import SchemaLike, TableSchema, as_schema, schema_of
from ._graphical import GraphicalModel, Group, Marginal
from ._private_sketch import (
    ROWS_PER_BATCH,
    Counted,
    PrivateSketch,
    check_fits,
    claim_for,
    released_sums,
    rows_from_sums,
    sums_of,
)
from ._sketchers import TableSketcher

Sums = NDArray[Any]  # int64, or floats where there is no noise
Exact = Callable[[HistogramMap], Sums]

# Shares of the budget: for bins and what they are made of; of that for the finer cells of all
# columns, on one level, and at least for their leaves (examples/benchmarks/bins.py); for choices.
_FOR_BINS, _FOR_LEVEL, _FOR_LEAVES, FOR_CHOICES = 0.08, 0.02, 0.03, 0.05
# Rows are few for the noise up to so many standard deviations of a count.
_STDS_OF_FEW_ROWS = 1000.0
# Rounds of choices, and groups that are chosen at least, if rows are few.
N_ROUNDS, _LEAST_PICKS = 4, 16
# Groups are chosen until ``std * p**1.5 = n / 6.25``: measured on Adult, ACS and Covertype, where
# half as many and twice as many were worse at epsilon 0.3, 1 and 3.
_PICKS = 6.25
# Levels of finer cells: three find each value in a range of a million steps, and numbers with two
# decimals in one of ten thousand.
_MOST_LEVELS = 4
# Finer cells of all columns together, on one level: noise takes 16 microseconds a count.
_MOST_FINE = 2**15
# Cells of one group, and of all candidates together, at most.
MOST_CELLS_OF_GROUP = 2**17
_MOST_CANDIDATE_CELLS = 2**22
_MOST_GROUPS_TO_CHOOSE = 2**13
# Expected size of normal noise, in standard deviations.
MEAN_NOISE = math.sqrt(2 / math.pi)
# This text is as long in JSON as the longest float, -2.2250738585072014e-308. JSON writes it some
# twenty times as fast.
_LONGEST = "-2.2250738585072014e-3"
# Rows that a model may expect at most, in grid units.
_LARGEST_EXPECTED = 2**60


class _Rules(NamedTuple):
    """What is another for tables that models of a target are trained on.

    Attributes
    ----------
    for_base, for_base_of_few : float
        The share of the base (RESULTS), and that where rows are few for the noise; with more rows
        it falls from this to that. On ACS at epsilon 0.1 pairs have a total variation of 0.082 with
        0.35, and of 0.085 with 0.20 (6 seeds). Boosted trees have an AUC of 0.884 on Adult at
        epsilon 0.1 (1,000 standard deviations) with 0.80, and of 0.873 with 0.50
        (examples/benchmarks/wide.py). Logistic regression on ten smooth numbers has 0.852 at
        epsilon 0.1 and 0.900 at 0.2; with half as many, 0.886 and 0.905
        (examples/benchmarks/bins.py, 3 seeds).
    nearly_all : float
        If there are at most this many times as many candidates as picks, all are counted. On 7
        columns of ACS (21 pairs; 8 draws, epsilon 0.3 and 0.6) counts with two conditions have the
        error they had with 1.1, within 9 per cent, and intervals that are a quarter shorter. With a
        target, threes are counted beside their pairs, and models may lose (5 columns of ACS).
    worth_a_bin : float
        A half of a heavy bin has so many standard deviations of the base's noise; models of a
        target want more bins than tables do.
    summed : float
        The error of an answer grows with the cells of a group to this power. Answers about tables
        sum half of c cells, whose noise is ``sqrt(c / 2)`` times that of one. A model of a target
        asks each cell for the target's share.
    """

    for_base: float
    for_base_of_few: float
    nearly_all: float
    worth_a_bin: float
    summed: float


_OF_TABLES = _Rules(0.15, 0.35, 1.4, 4.0, 0.5)
_OF_TARGETS = _Rules(0.30, 0.80, 1.1, 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Design:
    """All that is public of an adaptive release before it starts.

    Parameters
    ----------
    schema : TableSchema
        Of the table.
    target : int or None
    workload : tuple of tuple of int
        Groups that are counted in any case.
    adjacency : {"add_remove", "replace_one"}
    limit : int, "average" or None
        `max_rows_per_group`.
    """

    schema: TableSchema
    target: int | None
    workload: tuple[Group, ...]
    adjacency: str
    limit: Any
    cells: dict[int, Cells] = field(init=False)
    # By bins: thousands of edges take long to check, and many maps have the same. Kept are those of
    # public cells and of the last steps.
    _maps: Kept = field(init=False, default_factory=lambda: Kept(4))

    def __post_init__(self) -> None:
        self.schema.require_bounds()
        # Columns with edges of their own have these as bins.
        free = [j for j in self.schema.numeric if self.schema.columns[j].edges is None]
        most = _MOST_FINE // max(len(free), 1)
        columns, known = self.schema.columns, self.schema.thresholds
        cells = {j: public_cells(columns[j], known(j), most) for j in free}
        object.__setattr__(self, "cells", cells)

    @property
    def rules(self) -> _Rules:
        """The rules of such a table."""
        return _OF_TABLES if self.target is None else _OF_TARGETS

    @property
    def searched(self) -> list[int]:
        """The columns whose bins are found; with up to four cells, these are the bins."""
        return [j for j, cells in self.cells.items() if len(cells.starts) > 4]

    @property
    def singles(self) -> HistogramMap:
        """The map of single columns in public cells."""
        return self.map([(j,) for j in range(self.schema.n_columns)])

    def map(self, groups: Sequence[Group], bins: dict[int, Any] | None = None) -> HistogramMap:
        """Return the map of groups, in public cells where no bins are given."""
        own = bins or {}
        return self._maps.get(tuple(own.items()), lambda: self._binned(own)).of_groups(groups)

    def _binned(self, bins: dict[int, Any]) -> HistogramMap:
        edges = {j: cells.edges for j, cells in self.cells.items()} | bins
        told = {j: cells.points(edges[j]) for j, cells in self.cells.items()}
        points = {j: own for j, own in told.items() if own}
        return HistogramMap(self.schema, [1] * self.schema.n_columns, [(0,)], edges, points)

    def finer_map(self, cells: dict[int, Cells]) -> HistogramMap | None:
        """Return the map of the columns whose cells have finer ones, in these; None for none."""
        fine = {j: own.fine_edges for j, own in cells.items() if own.are_fine}
        return self.map([(j,) for j in fine], fine) if fine else None

    def most_leaves(self, j: int) -> int:
        """Return the largest number of leaves of a column: each level cuts out some."""
        cells = self.cells[j]
        return len(cells.starts) + 3 * _MOST_LEVELS * cells.most_cut_out * cells.are_fine

    def most_cells(self, group: Group) -> int:
        """Return the largest number of cells that a group can have, whatever bins are found."""
        return math.prod(self._most_codes(j) for j in group)

    def _most_codes(self, j: int) -> int:
        known, missing = self.schema.values(j), self.schema.missing(j)
        if known is not None:
            return len(known) + missing
        if j in self.searched:
            return N_BINS + len(self.schema.thresholds(j)) + missing
        edges = self.cells[j].edges if j in self.cells else self.schema.columns[j].edges
        return len(edges or ()) - 1 + missing

    @property
    def base(self) -> list[Group]:
        """Groups that are counted first: each column, with the target where there is one."""
        d, target = self.schema.n_columns, self.target
        if target is None or d == 1:
            return [(j,) for j in range(d)]
        pairs: list[Group] = [(j, target) for j in range(d) if j != target]
        pairs = [
            pair if self.most_cells(pair) <= MOST_CELLS_OF_GROUP else pair[:1] for pair in pairs
        ]
        return pairs if any(target in pair for pair in pairs) else [*pairs, (target,)]

    @property
    def candidates(self) -> list[Group]:
        """Groups that may be chosen: pairs, and threes with the target."""
        pairs: list[Group] = list(combinations(range(self.schema.n_columns), 2))
        threes: list[Group] = []
        if self.target is not None:
            threes = [(*pair, self.target) for pair in pairs if self.target not in pair]
        counted = {frozenset(group) for group in (*self.base, *self.workload)}
        return [group for group in (*pairs, *threes) if frozenset(group) not in counted]

    @property
    def most_values(self) -> int:
        """The largest number of counts that a release has."""
        fine = (_MOST_LEVELS + 1) * (2 * _MOST_FINE + sum(map(self.most_leaves, self.cells)))
        known = sum(map(self.most_cells, [*self.base, *self.base, *self.workload]))
        return fine + known + _MOST_CANDIDATE_CELLS

    @property
    def rows_per_unit(self) -> int:
        """How many rows one unit of protection adds to a histogram at most."""
        return self.limit if isinstance(self.limit, int) else 1

    @property
    def score_sensitivity(self) -> int:
        """How far neighbours move the score of a group, in grid units."""
        return self.rows_per_unit * GRID * (2 if self.adjacency == "replace_one" else 1)

    def zeros(self, bins: dict[int, Any]) -> list[tuple[Group, NDArray[np.bool_]]]:
        """Return where in bins no row can be, of the groups that the schema says it of."""
        return _zeros_of(self.map([(0,)], bins))

    def distances(self, feature_map: HistogramMap) -> dict[str, float]:
        """Return how far neighbours move the sums of a map, in grid units."""
        ((l1, l2),) = sensitivities(feature_map, self.adjacency, self.limit)
        return {"l1": l1, "l2": l2}

    def distances_of(self, n_groups: int) -> dict[str, float]:
        """Return the same of so many histograms."""
        one = self.distances(self.map([(0,)]))
        return {"l1": one["l1"] * n_groups, "l2": one["l2"] * math.sqrt(n_groups)}


@dataclass(frozen=True, eq=False)
class Part:
    """Noisy counts of some groups, in rows, and the noise of each group."""

    map: HistogramMap
    sums: Floats
    std: Floats

    @property
    def noise_std(self) -> Floats:
        """The noise of each count."""
        return np.repeat(self.std, self.map.sizes)

    def tables(self) -> list[Floats]:
        """Return the counts of each group, with an axis for each column."""
        shapes = [[self.map.n_bins[j] for j in group] for group in self.map.groups]
        cells = zip(self.map.row_groups(), shapes, strict=True)
        return [self.sums[where].reshape(shape) for where, shape in cells]


class Steps:
    """The course of one release, of which all is public that it holds.

    Parameters
    ----------
    design : Design
    budget : StepBudget
    n_public : int or None
        The number of rows, where it is public.
    """

    def __init__(self, design: Design, budget: StepBudget, n_public: int | None):
        self.design, self.budget, self.n_public = design, budget, n_public
        self.parts: list[Part] = []
        self.bins: dict[int, Any] = {}
        self.marginals: list[Marginal] = []
        self.candidates: list[Group] = []
        # Each column has the number of the part of the table that counts join it to.
        self.joined = np.arange(design.schema.n_columns)

    def run(self, first: Sums, exact: Exact) -> list[Part]:
        """Return all parts.

        Parameters
        ----------
        first : ndarray
            Exact sums of `first_map`, in grid units.
        exact : callable
            Returns the exact sums of a map.
        """
        if self.design.searched:
            leaves, share = self._find_leaves(first, exact)
            self._find_bins(leaves, exact, share)
            first = exact(self.design.map(self.design.base, self.bins))
        self._count_base(first)
        self.candidates = self._candidates()
        # Decided once: what the workload leaves over is then what the rounds were promised.
        n_picks = n_picks_of(self.design, self.budget, self.n_rows, len(self.candidates))
        self._count_workload(exact, n_picks)
        self._count_rounds(exact, n_picks)
        return self.parts

    def released(self, privacy: PrivacyGuarantee) -> PrivateSketch:
        """Return the release of all parts, for which so much was paid."""
        feature_map = UnionMap([part.map for part in self.parts])
        sums = np.concatenate([part.sums for part in self.parts])
        noise_std = np.concatenate([part.noise_std for part in self.parts])
        counted = None if self.n_public is None else (float(self.n_public), 0.0)
        return released_sums(feature_map, sums, noise_std, privacy, counted)

    # ---- numbers that rules read

    @property
    def n_rows(self) -> float:
        """The number of rows as far as it is known, at least 1."""
        if self.n_public is not None:
            return max(float(self.n_public), 1.0)
        if not self.parts:
            return math.inf
        told = [rows_from_sums(part.map, part.noise_std) for part in self.parts]
        rows = [own @ part.sums for (own, _), part in zip(told, self.parts, strict=True)]
        weights = 1 / np.maximum(np.square([std for _, std in told]), TINY)
        return max(float(np.average(rows, weights=weights)), 1.0)

    # ---- steps

    def _noisy(self, feature_map: HistogramMap, exact: Sums, share: float) -> Part:
        distances = self.design.distances(feature_map)
        noisy, std = self.budget.count(exact, share=share, **distances)
        return Part(feature_map, noisy / GRID, np.full(len(feature_map.groups), std / GRID))

    def _count(self, feature_map: HistogramMap, exact: Sums, share: float) -> Part:
        """Count what is released."""
        self.parts.append(self._noisy(feature_map, exact, share))
        return self.parts[-1]

    def _count_by_size(self, feature_map: HistogramMap, exact: Sums, share: float) -> Part:
        """Count groups that are released, each with the part of a share that `weights_of` says.

        The parts of the share sum to it. Groups with as many cells are counted together.
        """
        sizes = feature_map.sizes
        weights = weights_of(sizes, self.design, self.budget)
        noisy, std, starts = np.empty(len(exact)), np.empty(len(sizes)), np.cumsum(sizes) - sizes
        for size in np.unique(sizes):
            alike = sizes == size
            cells = (starts[alike, None] + np.arange(size)).ravel()
            part = share * weights[alike].sum() / weights.sum()
            distances = self.design.distances_of(int(alike.sum()))
            noisy[cells], std[alike] = self.budget.count(exact[cells], share=part, **distances)
        self.parts.append(Part(feature_map, noisy / GRID, std / GRID))
        return self.parts[-1]

    def _find_leaves(self, first: Sums, exact: Exact) -> tuple[HistogramMap, float]:
        """Return the map of the columns whose bins are found, in leaves.

        Finer cells are counted level by level, and those that stand out become leaves. These counts
        are not released.
        """
        cells, left = {j: self.design.cells[j] for j in self.design.searched}, _FOR_BINS
        n_columns = len(first_map(self.design).groups)
        for level in range(_MOST_LEVELS):
            finer = self.design.finer_map(cells)
            if finer is None:
                break
            # Each level has the same noise, however few columns it has.
            share = _FOR_LEVEL * len(finer.groups) / n_columns
            if left - share < _FOR_LEAVES:
                break
            part = self._noisy(finer, exact(finer) if level else first, share)
            most, left = _MOST_FINE // len(finer.groups), left - share
            pure = self.budget.delta == 0
            for (j,), table, std in zip(finer.groups, part.tables(), part.std, strict=True):
                counts = table[: finer.n_present(j)]
                cells[j] = cells[j].leaves(counts, float(std), most, pure=pure)
        edges = {j: own.edges for j, own in cells.items()}
        return self.design.map([(j,) for j in edges], edges), left

    def _find_bins(self, leaves: HistogramMap, exact: Exact, share: float) -> None:
        part = self._count(leaves, exact(leaves), share)
        share = base_share(self.design, self.budget, self.n_rows)
        least = self.design.rules.worth_a_bin * std_of_columns(self.design, self.budget, share)
        for j, table, std in zip(self.design.searched, part.tables(), part.std, strict=True):
            edges, widths = np.array(leaves.bins[j]), np.diff(leaves.edges(j))
            starts = find_bins(table[: leaves.n_present(j)], widths, float(std), least=least)
            # The cells that begin at the thresholds of the schema.
            half = (self.design.schema.step(j) or 0.0) * (0.5 + 1e-6)
            thresholds = np.array(self.design.schema.thresholds(j))
            begun = np.searchsorted(edges, thresholds - half).tolist()
            self.bins[j] = (*edges[sorted({*starts, *begun})].tolist(), float(edges[-1]))

    def _count_base(self, exact: Sums) -> None:
        design = self.design
        share = base_share(design, self.budget, self.n_rows)
        if not design.candidates and not design.workload:
            share = self.budget.remaining
        part = self._count(design.map(design.base, self.bins), exact, share)
        for group, table, std in zip(part.map.groups, part.tables(), part.std, strict=True):
            j = group[0]
            if design.schema.values(j) is not None and j != design.target:
                cells = joined_categories(table.reshape(len(table), -1), float(std))
                self.bins |= {} if cells is None else {j: cells}
        self._take(part)

    def _take(self, part: Part) -> None:
        """Keep counts of a part in the cells that all models have."""
        cells = self.design.map([(0,)], self.bins)
        self.sizes = cells.n_bins
        for group, table, noise in zip(part.map.groups, part.tables(), part.std, strict=True):
            n_summed: Floats = np.ones(1)
            for axis, j in enumerate(group):
                joined = j in self.bins and part.map.n_bins[j] != self.sizes[j]
                cell = np.array(self.bins[j]) if joined else np.arange(self.sizes[j])
                n_summed = np.multiply.outer(n_summed, np.bincount(cell))
                table = _summed(table, axis, cell, self.sizes[j])
            std = noise * np.sqrt(n_summed.reshape(table.shape))
            even = float(std.flat[0]) if not np.ptp(std) else std
            self.marginals.append(Marginal(group, table, even, len(self.parts) - 1))
            self._join(group)

    def _join(self, group: Group) -> None:
        """Make one part of those that the columns of a group are in."""
        parts = self.joined[list(group)]
        self.joined[np.isin(self.joined, parts)] = parts[0]

    def _count_workload(self, exact: Exact, n_picks: int) -> None:
        """Count what was asked for (`share_of_workload`)."""
        wanted = self.design.workload
        if not wanted:
            return
        numeric = {j: self.bins[j] for j in self.design.searched}
        asked = self.design.map(wanted, numeric)
        spare = self.budget.remaining - FOR_CHOICES * (n_picks < len(self.candidates))
        share = spare * share_of_workload(len(wanted), n_picks)
        self._take(self._count_by_size(asked, exact(asked), share))

    # ---- rounds

    def _candidates(self) -> list[Group]:
        """Return what may be chosen: groups that are not counted yet, and not too large."""
        open_ = self.design.candidates
        cells = [math.prod(self.sizes[j] for j in group) for group in open_]
        # The smallest first, so that what is dropped is what noise would drown.
        order = np.argsort(cells, kind="stable")[:_MOST_GROUPS_TO_CHOOSE]
        ordered = np.array(cells, float)[order]
        fits = (ordered <= MOST_CELLS_OF_GROUP) & (np.cumsum(ordered) <= _MOST_CANDIDATE_CELLS)
        return [open_[k] for k in sorted(order[fits].tolist())]

    def _count_rounds(self, exact: Exact, n_picks: int) -> None:
        groups = self.candidates
        if not groups:  # the base is counted once more
            rest = self.budget.remaining
            if rest > 1e-6 and not self.budget.is_silent:
                base = self.design.map(self.design.base, self.bins)
                self._take(self._count(base, exact(base), rest))
            return
        cells = self.design.map(groups, self.bins)
        sums = exact(cells)
        tables = [sums[where] for where in cells.row_groups()]
        model = GraphicalModel(self.sizes, zeros=self.design.zeros(self.bins))
        if n_picks == len(groups):
            part = self._count_by_size(cells, sums, self.budget.remaining)
            self._take(self._by_surprise(part, model.fit(self.marginals)))
            return
        free, left = np.ones(len(groups), bool), n_picks
        # One choice may be that of a twin (`_pick`).
        each = FOR_CHOICES / (n_picks + 1)
        for k in range(N_ROUNDS):
            now = math.ceil(left / (N_ROUNDS - k))
            model.fit(self.marginals, sweeps=10)
            share = (self.budget.remaining - each * (left + 1)) * now / left
            scores = self._scores(model, tables, now, share)
            picked = self._pick(scores, free, now, each)
            left -= len(picked)
            last = k == N_ROUNDS - 1 or left <= 0 or not free.any()
            chosen = self.design.map([groups[i] for i in picked], self.bins)
            counts = np.concatenate([tables[i] for i in picked])
            rest = self.budget.remaining if last else share
            self._take(self._count_by_size(chosen, counts, rest))
            if last:
                return

    def _by_surprise(self, part: Part, model: GraphicalModel) -> Part:
        """Return counts of the last part in the order in which they would have been chosen.

        What a graphical model cannot hold are then the groups that tell least.
        """
        groups, tables = part.map.groups, part.tables()
        likely, rows = model.marginals(groups), self.n_rows
        told = [
            np.sum(np.abs(table - likely[group] * rows) - MEAN_NOISE * std)
            for group, table, std in zip(groups, tables, part.std, strict=True)
        ]
        order = np.argsort(told, kind="stable")[::-1].tolist()
        sums = np.concatenate([tables[i].ravel() for i in order])
        cells = self.design.map([groups[i] for i in order], self.bins)
        ordered = Part(cells, sums, part.std[order])
        self.parts[-1] = ordered
        return ordered

    def _scores(
        self, model: GraphicalModel, tables: Sequence[Sums], n_counted: int, share: float
    ) -> NDArray[np.int64]:
        """Return how badly the model explains each group, beyond the noise that a count leaves."""
        groups = self.candidates
        some = self.design.map(groups[:n_counted], self.bins)
        std = self.budget.std(share=share, **self.design.distances(some))
        n_cells = np.array([len(table) for table in tables])
        stds = std * noise_beside_even(n_cells, self.design, self.budget)
        rows = min(self.n_rows * GRID, float(_LARGEST_EXPECTED))
        likely, target = model.marginals(groups), self.design.target
        scores = np.empty(len(groups), np.int64)
        for i, (group, table) in enumerate(zip(groups, tables, strict=True)):
            # Whatever a model says: no NaN, and no sum beyond 64 bits, would keep the sensitivity.
            expected = on_grid(likely[group].ravel() * rows, 1.0)
            expected = np.clip(expected, 0, 2 * _LARGEST_EXPECTED // len(table))
            # Sums over each column but the target were counted before.
            sizes = zip(group, likely[group].shape, strict=True)
            left = math.sqrt(variance_left([k for j, k in sizes if j != target]))
            noise = min(round(MEAN_NOISE * stds[i] * len(table) * left), _LARGEST_EXPECTED)
            scores[i] = np.abs(table - expected).sum() - noise
        return scores

    def _pick(
        self, scores: NDArray[np.int64], free: NDArray[np.bool_], n_wanted: int, share: float
    ) -> list[int]:
        """Choose groups among those that are free, no pair twice.

        While some would join parts of the table that nothing counted joins, these alone compete,
        each with a twin of which nothing is known beyond its noise. Where a twin wins, what is left
        to join would drown: the parts then stay apart, unless others are chosen that join them.
        """
        target, sensitivity = {self.design.target}, self.design.score_sensitivity
        pairs = [frozenset(group) - target for group in self.candidates]
        columns = np.array([(*group, group[-1])[:3] for group in self.candidates])
        open_, picked = free.copy(), list[int]()
        while len(picked) < n_wanted and open_.any():
            joins = open_ & (np.ptp(self.joined[columns], axis=1) > 0)
            among = np.flatnonzero(joins if joins.any() else open_)
            twins = np.zeros(len(among) * joins.any(), np.int64)
            compete = np.concatenate([scores[among], twins])
            place = self.budget.choose(compete, sensitivity=sensitivity, share=share)
            if place >= len(among):
                self.joined[:] = 0
                continue
            found = int(among[place])
            picked.append(found)
            free[found] = False
            open_ &= [pair != pairs[found] for pair in pairs]
            self._join(self.candidates[found])
        return picked


def weights_of(sizes: NDArray[np.int64], design: Design, budget: StepBudget) -> Floats:
    """Return numbers in proportion to which groups of so many cells share what they cost.

    With a share x, noise has a standard deviation s of ``1 / sqrt(x)``, and ``1 / x`` under pure
    DP. A group of c cells is off by ``c**a s``, where a is `_Rules.summed`. The sum over groups is
    least for x in proportion to ``c**(2 a / 3)``, and to ``c**(a / 2)``: derivatives are equal.
    """
    return np.asarray(sizes ** (design.rules.summed / (2 if budget.delta == 0 else 1.5)))


def noise_beside_even(sizes: NDArray[np.int64], design: Design, budget: StepBudget) -> Floats:
    """Return the noise of each group beside that of even shares, if such groups are chosen."""
    weights = weights_of(sizes, design, budget)
    return (weights.mean() / weights) ** (1 if budget.delta == 0 else 1 / 2)


def share_of_workload(n_wanted: int, n_picks: int) -> float:
    """Return the part of what is left that groups of the workload have together.

    It is half: what was asked for has as much as what the release chooses by itself. It is more
    where fewer groups are chosen than asked for: one of these then has as much as one of those.
    """
    return n_wanted / max(n_wanted + min(n_wanted, n_picks), 1)


def variance_left(sizes: Sequence[int]) -> float:
    """Return the part of a count's variance that is left beside known sums over some columns.

    A sum over the k cells of a column has k times the variance of a cell. A count of that sum, with
    the noise of one cell, leaves 1 / (k + 1) of it. The sum is 1 / k of a cell's variance, so that
    k / (k + 1) is left. Of several columns it is about the product, and 0 to 6 per cent less than
    `Residuals` says.
    """
    return math.prod(k / (k + 1) for k in sizes)


def first_map(design: Design) -> HistogramMap:
    """Return what is counted first: finer cells, or public ones, or the base, if there is no more.

    Of all columns whose bins are found, so that their cells are coded at once.
    """
    if not design.searched:
        return design.map(design.base)
    searched = {j: design.cells[j] for j in design.searched}
    return design.finer_map(searched) or design.map([(j,) for j in searched])


def largest_state(design: Design) -> dict[str, Any]:
    """Return the state of a map with as much in it as that of any release has.

    Leaves, bins and groups are found on the way. Here they are as many as can be, and of the
    longest numbers.
    """
    schema, candidates = design.schema, design.candidates[-_MOST_GROUPS_TO_CHOOSE:]
    fine, _ = design.singles.to_state()
    leaves, found = (list(fine.get("bins", [None] * schema.n_columns)) for _ in range(2))
    for j in design.searched:
        leaves[j] = [_LONGEST] * (design.most_leaves(j) + 1)
        found[j] = [_LONGEST] * (N_BINS + len(schema.thresholds(j)) + 1)
    loose = {j for j in design.searched if schema.step(j) is None}
    points, of_bins = (
        [own if j in loose else None for j, own in enumerate(edges)] for edges in (leaves, found)
    )
    codes = [list(range(getattr(column, "n_codes", 0))) or None for column in schema.columns]
    joined = [own or cells for own, cells in zip(found, codes, strict=True)]
    base = fine | {"bins": found, "points": of_bins, "groups": design.base}
    last = base | {"bins": joined, "groups": candidates or design.base}
    maps = [fine | {"bins": leaves, "points": points}] * bool(design.searched) + [base, last]
    maps += [base | {"groups": design.workload}] * bool(design.workload)
    maps += [last | {"groups": []}] * (min(N_ROUNDS, len(candidates)) - 1)
    return {"kind": UnionMap.kind, "maps": maps}


def precision(design: Design, budget: StepBudget) -> float:
    """Return the reciprocal of the noise of one histogram, in rows, that all the budget buys."""
    std = budget.std(share=1.0, **design.distances(design.map([(0,)])))
    return GRID / std if std else math.inf


def base_share(design: Design, budget: StepBudget, n_rows: float) -> float:
    """Return the share of the base, by the number of rows as far as it is known."""
    many = n_rows * precision(design, budget) / _STDS_OF_FEW_ROWS
    return max(design.rules.for_base_of_few / max(many, 1.0), design.rules.for_base)


def std_of_columns(design: Design, budget: StepBudget, share: float) -> float:
    """Return the noise of a cell of one column in a base with this share, in rows."""
    std = budget.std(share=share, **design.distances(design.map(design.base)))
    others = 1 if design.target is None else design.most_cells((design.target,))
    return std / GRID * math.sqrt(others)


def n_picks_of(design: Design, budget: StepBudget, n_rows: float, n_candidates: int) -> int:
    """Return how many groups are chosen in all.

    More of them have more noise: a std in rows where p of them share the budget. The number is the
    p at which ``p**1.5 std = n_rows / 6.25``: ``0.4 sqrt(n_rows mu)`` under Gaussian noise, where
    std is ``sqrt(p) / mu``; fewer under pure DP, where it grows with p.
    """
    if budget.is_silent:
        return n_candidates
    power = 2.5 if budget.delta == 0 else 2.0
    found = (n_rows * precision(design, budget) / _PICKS) ** (1 / power)
    return _or_all(design, max(_least_picks(design), math.floor(found)), n_candidates)


def _least_picks(design: Design) -> int:
    return max(_LEAST_PICKS, design.schema.n_columns)


def _or_all(design: Design, picks: int, n_candidates: int) -> int:
    """Return the number of picks, or that of all candidates where these are hardly more."""
    return n_candidates if n_candidates <= design.rules.nearly_all * picks else picks


def most_for_choices(design: Design) -> float:
    """Return the largest share of the budget that choices may take, whatever the rows are.

    It is zero where the fewest picks are all candidates. Groups that turn out too large to be
    candidates leave fewer of them, and more rows make more picks.
    """
    n_candidates = len(design.candidates)
    counts_all = _or_all(design, _least_picks(design), n_candidates) == n_candidates
    return 0.0 if counts_all else FOR_CHOICES


def expected_noise(design: Design, budget: StepBudget, n_rows: float) -> tuple[float, float, int]:
    """Return the noise of a cell of one column and of a group that is chosen, in rows.

    And how many groups are chosen of so many rows.
    """
    picks = n_picks_of(design, budget, n_rows, len(design.candidates))
    n_groups = picks + len(design.workload)
    spare, pair = 1 - (_FOR_BINS if design.searched else 0.0), math.nan
    base = base_share(design, budget, n_rows) if n_groups else spare
    if n_groups:
        spare -= base + (FOR_CHOICES if picks < len(design.candidates) else 0.0)
        asked = spare * share_of_workload(len(design.workload), picks)
        n_alike, share = (picks, spare - asked) if picks else (n_groups, asked)
        pair = budget.std(share=share, **design.distances_of(n_alike)) / GRID
    return std_of_columns(design, budget, base), pair, picks


def check_noise(design: Design, budget: StepBudget) -> None:
    """Raise ValueError where the noise of some step would not fit into 64 bits, before any is paid.

    The steps that follow the base count so many groups, together, with what then is left; the
    noise of each is theirs (`Steps._count_workload`, `Steps._count_rounds`).
    """
    if budget.is_silent:
        return
    base = base_share(design, budget, math.inf)
    spare = 1 - _FOR_BINS - base_share(design, budget, 0.0) - FOR_CHOICES
    # Sums of more rows than that do not fit into 64 bits, in grid units.
    picks = n_picks_of(design, budget, 2.0**48, len(design.candidates))
    # The smallest of n groups has this, if all others are as large as can be, and have a half.
    n_groups = max(picks, len(design.workload), 1)
    least = spare / 2 / (n_groups * weights_of(np.array(MOST_CELLS_OF_GROUP), design, budget))
    budget.check_count(share=_FOR_LEVEL, **design.distances(design.singles))
    budget.check_count(share=base, **design.distances(design.map(design.base)))
    budget.check_count(share=float(least), **design.distances_of(1))
    budget.check_choice(sensitivity=design.score_sensitivity, share=FOR_CHOICES / (picks + 1))


def check_possible(schema: TableSchema) -> None:
    """Raise ValueError where combinations that the schema rules out leave no row at all.

    Cells are as few as tell the combinations apart. Where even a model of these is too large, it
    holds some of the combinations, and so does that of a release.
    """
    if not schema.impossible:
        return
    bins: dict[int, Any] = {}
    for j, column in enumerate(schema.columns):
        if schema.values(j) is None:
            low, high = schema.bound(j) or (0.0, 1.0)
            bins[j] = (low, *schema.thresholds(j), high)
            continue
        taken = [set(codes) for one in schema.impossible for k, codes in one if k == j]
        alike = [tuple(code in codes for codes in taken) for code in range(column.n_codes)]
        place = {signs: k for k, signs in enumerate(dict.fromkeys(alike))}
        bins[j] = tuple(place[signs] for signs in alike)
    cells = HistogramMap(schema, [1] * schema.n_columns, [(0,)], bins)
    try:
        GraphicalModel(cells.n_bins, zeros=_zeros_of(cells)).check_possible()
    except ValueError:
        raise ValueError(
            "The combinations that `never` rules out leave no possible row: take one of them back."
        ) from None


def _zeros_of(cells: HistogramMap) -> list[tuple[Group, NDArray[np.bool_]]]:
    """Return where no row can be in cells, of the groups that their schema says it of."""
    contents = [cells.contents(j) for j in range(cells.schema.n_columns)]
    return cells.schema.possible_cells(contents, most_cells=MOST_CELLS_OF_GROUP)


def _summed(table: Floats, axis: int, cell: NDArray[np.int64], size: int) -> Floats:
    """Return counts with the entries of an axis summed into `size` cells."""
    moved = np.moveaxis(table, axis, 0)
    out = np.zeros((size, *moved.shape[1:]))
    np.add.at(out, cell, moved)
    return np.moveaxis(out, 0, axis)


# Bins that are looked for. More cost each pair of columns more noise than they tell.
N_BINS = 14
# Standard deviations by which a part must be heavier or lighter than the rest of its stretch. With
# 1.5, noise makes bins in empty tails, and moves means (examples/benchmarks/bins.py).
_CHANGE = 2.5
# A bin of so many times its share of the rows is halved, if there are bins left; of so many times
# also in place of a cut that moves no more than this part of its rows, if there are enough rows for
# the noise: so many standard deviations of a count (Adult at epsilon 0.1 lost by it).
_HEAVY, _HEAVIEST, _WORTH_HALVING, _STDS_OF_HEAVIEST = 1.5, 2.0, 0.03, 60.0


def find_bins(counts: Floats, widths: Floats, std: float, *, least: float = 0.0) -> list[int]:
    """Return the first fine cell of each bin, about `N_BINS` of them.

    Stretches are cut, best place first, where the part on the left departs most from an even spread
    (by more than 2.5 standard deviations of the noise). Neighbours of like density are then joined
    while there are too many, and the heaviest halved while there are too few.

    Parameters
    ----------
    counts : ndarray of shape (n,)
        Noisy.
    widths : ndarray of shape (n,)
        What the cells hold of the range: an even density has counts in proportion.
    std : float
        Of the noise in `counts`.
    least : float, default=0
        Rows that make a half worth a bin.
    """
    table = _Stretches(counts, widths, std)
    parts = _cut(table)
    while len(parts) > N_BINS:
        table.join(parts)
    share = max(float(table.mass[-1]), 1.0) / N_BINS
    heavy = max(_HEAVY * share, 2 * least)
    while len(parts) < N_BINS and table.halve(parts, heavy):
        pass
    # Where next to nothing changes, noise has made cuts, and left half of the rows in one bin.
    for _ in range(N_BINS):
        if not table.pays(parts, max(_HEAVIEST * share, heavy, _STDS_OF_HEAVIEST * std)):
            break
        table.join(parts)
        table.halve(parts, heavy)
    return [start for start, _ in parts]


Span = tuple[int, int]


class _Stretches:
    """Sums of cells from one to another."""

    def __init__(self, counts: Floats, widths: Floats, std: float):
        self.mass = np.concatenate([[0.0], np.cumsum(counts)])
        self.width = np.concatenate([[0.0], np.cumsum(widths)])
        self.std = std

    def rows(self, part: Span) -> float:
        return float(self.mass[part[1]] - self.mass[part[0]])

    def change(self, part: Span) -> tuple[float, int]:
        """Return the most significant departure from an even spread, and where to cut for it."""
        start, end = part
        if end - start < 2:
            return 0.0, start
        at = np.arange(start + 1, end)
        share = (self.width[at] - self.width[start]) / (self.width[end] - self.width[start])
        excess = self.mass[at] - self.mass[start] - share * self.rows(part)
        # Noise of the cells on the left counts by 1 - share, of those on the right by share.
        spread = np.sqrt((at - start) * (1 - share) ** 2 + (end - at) * share**2)
        z = np.abs(excess) / np.maximum(self.std * spread, TINY)
        best = int(np.argmax(z))
        return float(z[best]), int(at[best])

    def contrast(self, left: Span, right: Span) -> float:
        """Return how many rows would move if two neighbours had one density."""
        wide = [float(self.width[b] - self.width[a]) for a, b in (left, right)]
        moved = self.rows(left) * wide[1] - self.rows(right) * wide[0]
        return abs(moved) / sum(wide)

    def cheapest(self, parts: list[Span]) -> tuple[float, int]:
        """Return the least contrast of two neighbours, and which."""
        found = [self.contrast(*pair) for pair in pairwise(parts)]
        k = int(np.argmin(found))
        return found[k], k

    def join(self, parts: list[Span]) -> None:
        """Join the two neighbours whose densities differ least."""
        _, k = self.cheapest(parts)
        parts[k : k + 2] = [(parts[k][0], parts[k + 1][1])]

    def halve(self, parts: list[Span], heavy: float) -> bool:
        """Halve the heaviest part, if it can be halved and is heavier than so many rows."""
        part = self.heaviest(parts)
        if part is None or self.rows(part) <= heavy:
            return False
        k, middle = parts.index(part), self.middle(part)
        parts[k : k + 1] = [(part[0], middle), (middle, part[1])]
        return True

    def heaviest(self, parts: Sequence[Span]) -> Span | None:
        """Return the heaviest part of several cells."""
        return max((p for p in parts if p[1] - p[0] > 1), key=self.rows, default=None)

    def pays(self, parts: list[Span], heavy: float) -> bool:
        """Whether to halve the heaviest part, in place of a cut that moves few rows."""
        part = self.heaviest(parts)
        if part is None or len(parts) < 3 or self.rows(part) <= heavy:
            return False
        cost, k = self.cheapest(parts)
        together = self.rows((parts[k][0], parts[k + 1][1]))
        return cost < _WORTH_HALVING * self.rows(part) and together < self.rows(part) / 2

    def middle(self, part: Span) -> int:
        """Return the place that halves the rows of a part."""
        start, end = part
        inside = self.mass[start + 1 : end] - self.mass[start]
        return start + 1 + int(np.argmin(np.abs(inside - self.rows(part) / 2)))


def _cut(table: _Stretches) -> list[Span]:
    """Return stretches between changes of density, at most twice as many as bins."""
    whole = (0, len(table.mass) - 1)
    found = {whole: table.change(whole)}
    while len(found) < 2 * N_BINS:
        part = max(found, key=lambda part: found[part][0])
        z, at = found.pop(part)
        if z <= _CHANGE:
            found[part] = z, at
            break
        for half in ((part[0], at), (at, part[1])):
            found[half] = table.change(half)
    return sorted(found)


def joined_categories(counts: Floats, std: float) -> tuple[int, ...] | None:
    """Return the cell of each category where rare ones make one cell; None where they do not.

    Parameters
    ----------
    counts : ndarray of shape (n_categories, n_others)
        Noisy, by category and by what it was counted with.
    std : float
        Of the noise in each count.
    """
    rows, spread = counts.sum(axis=1), std * math.sqrt(counts.shape[1])
    # From three standard deviations on a category is no longer rare.
    common = rows >= 3.0 * spread
    if common.sum() < 2:  # a column of one cell would tell nothing
        common = rows >= np.sort(rows)[-2]
    if (~common).sum() < 2:
        return None
    cells = np.where(common, np.cumsum(common) - 1, common.sum())
    return tuple(cells.tolist())


class AdaptiveSketcher(TableSketcher):
    """Histograms of the columns, and of the pairs of columns that tell most, chosen privately.

    `fit` finds bins of the numeric columns and counts each column in them. It then chooses pairs in
    four rounds: those that a graphical model of all counts so far explains worst. First come pairs
    that join columns which nothing counted joins yet; a column whose pairs would all drown in noise
    stays alone (`sketch_.lone_columns`). Bins, choices and counts are one release with one charge,
    which is fixed before the rows are read.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. Required. Give the range of
        each numeric column and the values of each other column, because nothing is read off the
        data. Give the step of whole numbers, as in ``Numeric(17, 90, step=1)``. A column with
        `edges` has these as its bins.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives Laplace noise and pure DP. Other values give Gaussian
        noise, which is far smaller for many histograms. Keep delta below 1 / n_samples: 1e-6 suits
        fewer than a million rows.
    target : str or int, default=None
        The column that models will predict. All others are counted together with it, and triples
        with it may be chosen. The default, None, treats all columns alike, because a sketch is for
        any question.
    workload : list of column groups, default=None
        Groups that you are sure to ask about, such as ``[["sex", "hours"]]``. They are always
        counted, and together have half of what bins, columns and choices leave of the budget, or
        more where fewer groups are chosen: name few. The default, None, leaves all to the latter.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        With `max_rows_per_group` it is one group. The default also protects the number of rows.
        Under "replace_one", this number is public and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is not used here, because nothing public
        is drawn.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    verbose : int, default=0
        1 shows progress on the standard error stream. A step is about 16,384 rows. So it tells
        how many there are: it is off by default, and for the curator alone. Dask has its own
        display.

    Attributes
    ----------
    feature_map_ : UnionMap
        All histograms in the order in which they were chosen, a part for each step.
    sketch_ : PrivateSketch
        The release: all that you need to answer questions.
    privacy_ : PrivacyGuarantee
        What the release promises.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    The budget is mu^2 under Gaussian noise and epsilon under pure DP. 8 per cent of it find bins:
    up to 5 find where rows heap, on up to four levels, and the rest makes bins of that. 15 count
    each column (30 with a target; up to 35 and 80 if rows are few for the noise), and 5 pay for the
    choices. The rest counts what is chosen, and half of it the workload if there is one. Without a
    target, groups of c cells share it in proportion to ``c**(1/3)`` (``c**(1/4)`` under pure DP):
    then sums over half of a group's cells are least off. Chosen are about ``0.4 sqrt(n mu)``
    groups, but at least 16, and at least one for each column. Where there are at most 1.4 times as
    many groups (1.1 with a target), all are counted and nothing is chosen. With
    ``epsilon=np.inf``, all are counted. A group has at most 131,072 cells.

    Two such sketches have different maps, so `+` refuses them. To combine owners, release one
    sketch of all rows, or give each owner a `HistogramSketcher` with the same list of groups.

    References
    ----------
    McKenna, Mullins, Sheldon and Miklau (2022), "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data".

    McKenna, Miklau and Sheldon (2021), "Winning the NIST contest: a scalable and general approach
    to differentially private synthetic data". Its MST joins columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import AdaptiveSketcher
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 3))
    >>> X[:, 1] = X[:, 0] ** 2
    >>> sketcher = AdaptiveSketcher((0, 1)).fit(X)
    >>> [sorted(part.groups) for part in sketcher.feature_map_.parts()]
    [[(0,), (1,), (2,)], [(0,), (1,), (2,)], [(0, 1), (0, 2), (1, 2)]]
    >>> round(sketcher.privacy_.epsilon(1e-6), 3)
    1.0

    See Also
    --------
    HistogramSketcher : Histograms of groups that you choose.
    M2MEstimator : Answers any question from a sketch.
    """

    _needs_schema = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TableSketcher._parameter_constraints,
        "target": "no_validation",  # `Design` says what is wrong
        "workload": [None, list, tuple],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        target: str | int | None = None,
        workload: Sequence[Any] | None = None,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.workload = workload
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the private sketch of X. This charges the ledger once.

        Parameters
        ----------
        X : array-like, frame, Dask array or Dask frame, of shape (n_samples, n_features)
            One row per person (or other unit of protection), or several with `groups`. Partitions
            of Dask are counted where they are, in up to eight passes. Column groups are chosen in
            this process.
        y : ignored
        groups : array-like or series of shape (n_samples,), default=None
            Who each row belongs to, in words or numbers, none missing. Give it where
            `max_rows_per_group` is set, and nowhere else: hence None. For a Dask collection, give a
            Dask series or array in the same partitions.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are not valid. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta. Nothing is charged.
        RuntimeError
            If Dask cannot compute the partitions. Nothing is charged if it fails in the first pass,
            which checks all cells.
        """
        with columns_kept(self):
            noise_seed, known = self._begin(groups), as_schema(self.schema)
            rows = self._rows(X, groups, known, noise_seed)
            design = self._design(schema_of(self))
            budget = self._budget(design, noise_seed)
            # Public facts that a step would fall over, when it is paid for.
            check_noise(design, budget)
            check_possible(design.schema)
            with progress(f"{type(self).__name__}.fit", self.verbose):
                first, n_units = rows(first_map(design))
                _check_room(n_units, design, budget)
                privacy = self._claim(budget.mechanism, noise_seed)
                check_fits(largest_state(design), {}, check_size(design.most_values), privacy)
                self._pay(claim_for(self.ledger, privacy, lambda: budget.cost_when_replaced))
                n_public = n_units if self.adjacency == "replace_one" else None
                steps = Steps(design, budget, n_public)
                steps.run(first, lambda feature_map: rows(feature_map)[0])
            self._set_release(steps.released(privacy), known)
        return self

    def preview_map(self, n_columns: int, names: Any = None) -> HistogramMap:
        """Return the public map of single columns in public cells. It needs no data and is free.

        `fit` finds what else it counts: see `feature_map_`.
        """
        return self._design(self._schema_for(n_columns, names)).singles

    def preview_noise_std(self, n_columns: int, names: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of the noise that counts of the base will have.

        It needs no data and is free. There is one entry for each feature of `preview_map`. Where
        rows are few for the noise, the base has a larger share of the budget, and less noise.
        """
        design = self._design(self._schema_for(n_columns, names))
        budget = self._budget(design)
        share = base_share(design, budget, np.inf)
        std = budget.std(share=share, **design.distances(design.map(design.base)))
        return np.full(self.preview_map(n_columns, names).n_features, std / GRID)

    def predict_error(self, n_samples: int, n_columns: int | None = None) -> dict:
        """Predict the standard error of shares of rows after `fit`. It needs no data and is free.

        Parameters
        ----------
        n_samples : int
            Number of rows (of groups, with `max_rows_per_group`). A rough public estimate will do.
        n_columns : int, default=None
            Number of columns of the table. You need it only where the schema is one range for all
            columns: hence None.

        Returns
        -------
        dict
            "column" is the standard error of a cell of one column, as a share of the rows. "pair"
            is that of a cell of a chosen group, if all of these had equal shares: without a target,
            groups of few cells have up to twice that, and those of many less. Both are before all
            counts are brought together, which lowers them. "n_pairs" says how many pairs (and
            triples, with a target) are counted beside the base, and "n_candidates" out of how many.
        """
        self._check_parameters()
        known = as_schema(self.schema)
        if known.is_for_all and n_columns is None:
            raise ValueError(
                "n_columns is missing: the schema is one range for all columns. Give their number."
            )
        table = known.for_table(n_columns) if known.is_for_all else known
        design = self._design(table)
        rows = max(float(n_samples), 1.0)
        column, pair, n_pairs = expected_noise(design, self._budget(design), rows)
        n_candidates = len(design.candidates)
        return {
            "column": column / rows,
            "pair": pair / rows,
            "n_pairs": n_pairs,
            "n_candidates": n_candidates,
        }

    # ---- what is public

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._early_design()

    def _early_design(self) -> Design | None:
        """Return what is public of a release, None where the number of columns is not known yet."""
        known = as_schema(self.schema)
        return None if known.is_for_all else self._design(known)

    def _design(self, schema: TableSchema) -> Design:
        """Return what is public of a release, or raise ValueError for names of no column."""
        target = None if self.target is None else schema.index(self.target, "target")
        workload = tuple(self._group(schema, group) for group in self.workload or ())
        if len({frozenset(group) for group in workload}) < len(workload):
            raise ValueError(f"workload lists a group twice, {self.workload!r}; list it once.")
        design = Design(schema, target, workload, self.adjacency, self._limit)
        for group in workload:
            if design.most_cells(group) > MOST_CELLS_OF_GROUP:
                names = [schema.name(j) for j in group]
                raise ValueError(
                    f"workload lists {names}, which may have {design.most_cells(group):,} cells, "
                    f"and a group has at most {MOST_CELLS_OF_GROUP:,}. List fewer columns "
                    "together, or describe them with fewer categories or edges."
                )
        return design

    @staticmethod
    def _group(schema: TableSchema, given: Any) -> tuple[int, ...]:
        if not isinstance(given, list | tuple) or not given:
            raise ValueError(
                f"workload must list groups of columns, such as [['sex', 'hours']], got {given!r} "
                "among them."
            )
        group = tuple(schema.index(key, "workload") for key in given)
        if len(set(group)) < len(group):
            raise ValueError(f"workload lists a column twice in {given!r}; name it once.")
        return group

    def _budget(self, design: Design, noise_seed: int | None = None) -> StepBudget:
        return StepBudget(
            epsilon=self.epsilon,
            delta=self.delta,
            most_values=design.most_values,
            most_chosen=most_for_choices(design),
            noise_seed=noise_seed,
        )

    def _least_when_replaced(self) -> Mechanism:
        # What more values cost is in the slack, which is next to nothing.
        design = self._early_design()
        most_chosen = 0.0 if design is None else most_for_choices(design)
        least = StepBudget(
            epsilon=self.epsilon, delta=self.delta, most_values=1, most_chosen=most_chosen
        )
        return least.cost_when_replaced

    # ---- rows

    def _read(self, X: Any, known: TableSchema | None) -> tuple[int, Callable[..., NDArray]]:
        # The first row of a frame says what columns there are; the others are read later.
        first = self._validate(some_rows(X, slice(1)), known, reset=True)
        table: Any = X if is_frame(X) else first
        return len(table), _CodedRows(partial(self._coded, table, known))

    def _coded(
        self, X: Any, known: TableSchema | None, cells: HistogramMap, columns: Sequence[int]
    ) -> list[NDArray[Any]]:
        """Return the cells of some columns; of a frame no more than a block is read at once."""
        codes = [np.empty(len(X), np.min_scalar_type(cells.n_bins[j])) for j in columns]
        for rows in gen_batches(len(X), ROWS_PER_BATCH):
            part = some_rows(X, rows)
            block: Any = self._validate(part, known, reset=False) if is_frame(X) else X[rows]
            for j, own in zip(columns, codes, strict=True):
                own[rows] = cells.column_codes(block, j)
        return codes


class _CodedRows:
    """Private rows, as codes of cells, of which sums alone are asked.

    Parameters
    ----------
    coded : callable
        Returns the codes of some columns in the cells of a map.
    """

    def __init__(self, coded: Callable[[HistogramMap, Sequence[int]], list[NDArray]]):
        self._coded = coded
        self._codes: dict[int, NDArray] = {}
        self._cells: dict[int, HistogramMap] = {}

    def __call__(self, feature_map: HistogramMap, counted: Counted, *, silent: bool) -> Sums:
        """Return the sum of a map over what counts; see `sums_of`."""
        # All cells are read, and so checked, for the first map; cells that a map cuts, once more.
        seen = feature_map.seen_columns() if self._codes else range(feature_map.schema.n_columns)
        cells = {j: _cells_that_hold(self._cells.get(j), feature_map, j) for j in seen}
        cut = [j for j, found in cells.items() if found is None]
        self._codes |= zip(cut, self._coded(feature_map, cut) if cut else (), strict=True)
        self._cells |= dict.fromkeys(cut, feature_map)
        cells |= {j: _cells_that_hold(feature_map, feature_map, j) for j in cut}
        codes = Table([self._codes[j] for j in sorted(self._codes)])
        return sums_of(_MapOfCodes(feature_map, cells), codes, counted, silent=silent)


def _cells_that_hold(
    fine: HistogramMap | None, coarse: HistogramMap, j: int
) -> NDArray[np.int64] | None:
    """Return the cell that holds each cell of a column in another map, None where it cuts some."""
    if fine is None or coarse.schema.values(j) is not None:
        return None if fine is None else coarse.cell_of_codes(j)
    edges, own = fine.edges(j), coarse.edges(j)
    # Edges of bins are edges of finer cells, in the same bits.
    if not np.isin(own, edges).all():
        return None
    cells = np.searchsorted(own[1:-1], edges[:-1], side="right")
    return np.append(cells, coarse.n_bins[j] - 1) if coarse.schema.missing(j) else cells


class _MapOfCodes(HistogramMap):
    """The same histograms of rows that finer maps have coded: no cell is read twice."""

    def __init__(self, own: HistogramMap, cells: dict[int, Any]):
        vars(self).update(vars(own))
        self._cells = cells

    def column_codes(self, X: Any, j: int) -> NDArray[np.int64]:
        return self._cells[j].take(X[:, j])


def _check_room(n_units: int, design: Design, budget: StepBudget) -> None:
    """Raise ValueError for more rows than 64 bits can hold the sums of, noise included."""
    least = design.distances(design.map([(0,)]))["l2"]
    # Scores are sums of counts and of what a model expects.
    if not budget.is_silent and n_units * GRID > min(budget.room(l2=least), 2**60):
        raise ValueError(TOO_LARGE)
