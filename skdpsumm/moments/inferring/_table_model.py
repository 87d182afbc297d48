"""The joint distribution of a table's columns, inferred from the histograms of a sketch.

`TableModel` fits a graphical model to all counts of a release, in the cells of `column_cells`. It
answers in three ways, which agree where they overlap, up to the noise:

- `table` gives the probabilities of the cells of a few columns: those of a group that was counted
  are its own counts, made consistent with all others; any other group's are the tree's;
- `points` are rows drawn from the tree, with `weights` that also match what the tree cannot hold;
- `replicates` are models of releases that this model would have given (parametric bootstrap): how
  they differ is what noise does to an answer.

What no group has counted, the model takes to be as independent as the counts allow.
`approximation_std` says how far off that may be: by as much as what was counted later had
surprised the model before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...schema._schema import TableSchema, stack_columns
from ...sketches._graphical import GraphicalModel, Refits
from ...sketches._private_sketch import PrivateSketch
from ...sketches._residuals import Marginal
from ...sketches._steps import MEAN_NOISE
from ._cells import ColumnCells, column_cells, counted_groups, in_cells

Group = tuple[int, ...]
Floats = NDArray[np.float64]

# Of a question's table: more cells take more than they tell.
MOST_TABLE_CELLS = 2**20
# Simulated releases: the standard deviation of so many is known to 13 per cent.
N_REPLICATES = 30
# Of groups, whose surprise is looked at where all were counted at once.
_MOST_LEFT_OUT = 12
# Of a round: fewer chosen groups say little of the others.
_FEWEST_CHOSEN = 4
# Conditions that hold for fewer rows, or for nearly all, tell little of how columns go together.
_LEAST_SHARE = 0.02
# Standard errors by which a cell may hold more rows than were counted, where these decide.
_HIDDEN = 2.0
# Of three and more columns together nothing may have been counted: a part of how pairs go together.
# Where all pairs were counted it was 0 to 0.31, beside what chance does, in 24 tables of 2,000 and
# 10,000 rows and seven columns of Adult, ACS, Covertype and Occupancy.
_OF_PAIRS = 0.35
# A mean absolute value, in standard deviations: of conditions that phi is known from. By how much
# the square of what hangs on fewer rows is larger, at most.
_EVEN, _MOST_UNEVEN = 0.4, 10.0
# Noise, as the square of phi, below which one condition tells as much as another.
_AS_GOOD = 0.003
# Of what is missed of two columns of numbers, as squared by phi, this part is how they go up and
# down together: their correlation by ranks. It was about 0 to 0.7 in eleven releases of six tables
# (Adult, ACS, Covertype and three made-up ones).
_ALIGNED = 0.75
# The square of phi for two columns that go together as those of real tables often do.
_TYPICAL_SQUARE = 0.04
# Of a group of columns, to be looked at by the points in its cells.
_MANY_CELLS = 4096
# Of a share of a cell's rows, what it may change by from the middle of the cell to an end of it.
_STEEPEST = 0.9
# The logarithm of the odds ratio of four cells beside which two columns are taken for one. It is
# about ten times their correlation inside the cells (lines with normal errors of 1/7 to 3 cells),
# and noise hides a part of it.
_ODDS_OF_ONE = 4.0
# Of a cell's rows: fewer have no place in it.
_LEAST_IN_A_CELL = 1e-9
# Of pairs that were not counted, on Adult and tables like it, where the last found next to nothing.
_UNSEEN_SQUARE = 0.025**2
# Part of the rows that a choice of groups may overlook without a word: see `_overlooked`.
_NOTICED = 0.1
_SMALLEST = 1e-300


class TableModel:
    """What the histograms of a sketch tell of a table.

    Parameters
    ----------
    sketch : PrivateSketch
        With a histogram in it.
    schema : TableSchema
        The table as answers see it.
    n_points : int, default=100_000
        Number of `points`.
    rng : Generator or int, default=0
        Public randomness.

    Attributes
    ----------
    cells : list of ColumnCells
        How each column is divided.
    sizes : tuple of int
        Number of cells of each column.
    n_rows : float
        Private estimate of the number of rows, at least 1.
    model : GraphicalModel
    """

    def __init__(
        self,
        sketch: PrivateSketch,
        schema: TableSchema,
        *,
        n_points: int = 100_000,
        rng: np.random.Generator | int = 0,
    ):
        self.sketch, self.schema, self.n_points = sketch, schema, n_points
        self._seed = int(np.random.default_rng(rng).integers(2**63))
        groups = counted_groups(sketch)
        if not groups:
            raise ValueError(
                "A graphical model needs a sketch with a histogram, and this has none."
            )
        self.cells: list[ColumnCells] = [
            column_cells(schema, groups, j) for j in range(schema.n_columns)
        ]
        self.sizes = tuple(column.n_cells for column in self.cells)
        found = [(group, in_cells(group, self.cells)) for group in groups]
        self.marginals = [marginal for _, marginal in found if marginal is not None]
        self.released = [group.released for group, marginal in found if marginal is not None]
        self.n_rows = sketch.n_samples
        # Combinations that the schema rules out are public zeros.
        self._zeros = schema.possible_cells([column.contents() for column in self.cells])
        self.model = self._fitted(self.marginals)
        self._slopes: dict[Group, Floats] = {}
        self._jumps: dict[tuple[int, int, bool], Floats] = {}
        self._along: dict[Group, Floats] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Simulated releases take much room, and come out the same when they are asked again.
        left = {"_refits", "replicates"}
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def _generator(self, use: int) -> np.random.Generator:
        """Return a stream for each use, so that no answer depends on what was asked before."""
        return np.random.default_rng([self._seed, use])

    def _fitted(self, marginals: Sequence[Marginal]) -> GraphicalModel:
        return GraphicalModel(self.sizes, zeros=self._zeros).fit(marginals)

    # ---- what is likely

    def n_cells(self, columns: Sequence[int]) -> int:
        """Return the number of cells of some columns together."""
        return math.prod(self.sizes[j] for j in columns)

    def table(self, columns: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of some columns, one axis for each, in order.

        Raises
        ------
        ValueError
            For more than `MOST_TABLE_CELLS` cells.
        """
        self._check_size(columns)
        if self._is_silent and self.model.residuals.covers(columns):
            # The counts themselves: the model is fitted to these as far as its tolerance.
            counts = np.maximum(self.model.residuals.marginal(columns), 0.0)
            return counts / max(counts.sum(), _SMALLEST)
        return self.model.table(tuple(columns))

    def most(self, columns: Sequence[int]) -> Floats:
        """Return `table`, or what was counted where that is more: noise makes tables too even.

        Where cells are blind, also what noise may hide of their rows.
        """
        residuals, table = self.model.residuals, np.maximum(self.table(columns), 0.0)
        if not residuals.covers(columns):
            return table
        counts = residuals.marginal(columns)
        blind = reduce(np.logical_or.outer, [self.cells[j].blind for j in columns])
        if blind.any():
            counts = counts + blind * _HIDDEN * np.sqrt(residuals.cell_variances(columns))
        return np.maximum(table, counts / max(residuals.n_rows, 1.0))

    @cached_property
    def _is_silent(self) -> bool:
        return not any(np.any(marginal.std) for marginal in self.marginals)

    def _check_size(self, columns: Sequence[int]) -> None:
        if self.n_cells(columns) > MOST_TABLE_CELLS:
            names = ", ".join(repr(self.schema.name(j)) for j in columns)
            raise ValueError(
                f"A table of {names} has {self.n_cells(columns):,} cells, more than "
                f"{MOST_TABLE_CELLS:,}. Ask for fewer columns."
            )

    def slopes(self, j: int, other: int) -> Floats:
        """Return how another column goes along inside the cells of a numeric one.

        Between the middles of two cells the shares of the other column's cells change evenly, as
        the rows do, from what they are in the one to what they are in the next.

        Parameters
        ----------
        j : int
            A column of numbers.
        other : int

        Returns
        -------
        ndarray of shape (n_cells of j, n_cells of the other)
            By what part of itself a share grows from the lowest to the highest row of a cell.
        """
        if (j, other) not in self._slopes:
            self._slopes[j, other] = self._sloped(j, other)
        return self._slopes[j, other]

    def _sloped(self, j: int, other: int) -> Floats:
        mass, shares, before, after = self.beside(j, other)
        middle = np.cumsum(mass) - mass / 2
        apart = np.maximum(middle[after] - middle[before], _SMALLEST)
        step = np.minimum(mass / apart, 1.0)[:, None] * (shares[after] - shares[before])
        found = np.zeros((self.sizes[j], self.sizes[other]))
        most = 2 * _STEEPEST
        found[: len(mass)] = np.clip(step / np.maximum(shares, _SMALLEST), -most, most)
        return found

    def beside(self, j: int, other: int) -> tuple[Floats, ...]:
        """Return each cell's mass, the shares of another column in it, and the cells beside it."""
        n = self.sizes[j] - self.schema.missing(j)
        table = np.maximum(self.table((j, other)), 0.0)[:n]
        mass = table.sum(axis=1) + _SMALLEST
        before, after = np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)
        return mass, table / mass[:, None], before, after

    def jumps(self, j: int, other: int, *, even: bool = False) -> Floats:
        """Return how far from `slopes` rows lie inside the cells if another column's shares jump.

        Or how far from evenly (`even`), for what is read without slopes.

        A share p that is a in the cell before and b in the one after may change evenly, or be a up
        to one place in the cell and b from there on (as of the retired, at 67). The place follows
        from p, for a part s of the rows is before it: s a + (1 - s) b = p. By Cauchy and Schwarz a
        function's mean in the cell is then off by at most its standard deviation times the norm of
        the difference of the densities r (a / p, then b / p) and 1 + slope (u - 1/2), of which

            |r - 1|^2 = (a - p) (p - b) / p^2,    <r - 1, u> = |r - 1|^2 p / (b - a) / 2.

        a and b are known up to noise, and nothing is beyond the ends of a range: what widens the
        jump is taken.

        Returns
        -------
        ndarray of shape (n_cells of j, n_cells of the other)
            That norm.
        """
        if (j, other, even) not in self._jumps:
            self._jumps[j, other, even] = self._jumped(j, other, even)
        return self._jumps[j, other, even]

    def _jumped(self, j: int, other: int, even: bool) -> Floats:
        mass, shares, before, after = self.beside(j, other)
        slope = self.slopes(j, other)[: len(mass)] * (not even)
        unsure = (2 * self._noise_of_cells(j, other) / mass)[:, None]
        least, most = np.maximum(shares - unsure, 0.0), np.minimum(shares + unsure, 1.0)
        p, rest = np.maximum(shares, _LEAST_IN_A_CELL), np.zeros_like(shares)
        for left, right in ((most, least), (least, most)):  # a share falls, or rises
            a, b = left[before], right[after]
            a[0], b[-1] = left is most, right is most
            square = np.where((a - p) * (p - b) > 0, (a - p) * (p - b), 0.0) / p**2
            along = np.divide(slope * square * p, b - a, out=np.zeros_like(p), where=square > 0)
            rest = np.maximum(rest, np.where(square > 0, square + slope**2 / 12 - along, 0.0))
        found = np.zeros((self.sizes[j], self.sizes[other]))
        found[: len(mass)] = np.sqrt(rest)
        return found

    def along(self, j: int, other: int) -> Floats:
        """Return how far two columns of numbers may go up and down together inside their cells.

        As the correlation there, in absolute value: four cells that meet at a corner tell it by
        their odds ratio.

        Returns
        -------
        ndarray of shape (n_cells of j, n_cells of the other)
            0 beside a column of categories, whose cells have no inside.
        """
        if (j, other) not in self._along:
            self._along[j, other] = self._gone_along(j, other)
            self._along[other, j] = self._along[j, other].T
        return self._along[j, other]

    def _gone_along(self, j: int, other: int) -> Floats:
        found = np.zeros((self.sizes[j], self.sizes[other]))
        if self.cells[j].edges is None or self.cells[other].edges is None:
            return found
        n, m = (self.sizes[a] - self.schema.missing(a) for a in (j, other))
        # A part of the noise stands for what an empty cell may hold.
        unsure = max(self._noise_of_cells(j, other), 1 / self.n_rows) / 4
        logs = np.log(np.maximum(self.table((j, other))[:n, :m], 0.0) + unsure)
        odds = np.pad(np.abs(np.diff(np.diff(logs, axis=0), axis=1)), 1)
        corners = (odds[:-1, :-1], odds[1:, :-1], odds[:-1, 1:], odds[1:, 1:])
        found[:n, :m] = np.minimum(np.max(corners, axis=0) / _ODDS_OF_ONE, 1.0)
        return found

    def _noise_of_cells(self, j: int, other: int) -> float:
        """Return the standard deviation of the noise in the share of a cell of two columns."""
        sizes = (self.sizes[j], self.sizes[other])
        one = np.zeros((*sizes, 1))
        one[np.unravel_index(np.argmin(self.table((j, other))), sizes)] = 1.0
        found = self.noise_variance((j, other), one)
        return 0.0 if found is None else float(np.sqrt(found[0]))

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The cells of the points, shape (n_points, d)."""
        return self.model.draw(self.n_points, self._generator(0))

    @cached_property
    def points(self) -> NDArray:
        """Rows drawn from the model, shape (n_points, d): floats, or objects with categories."""
        return self.rows(self.codes)

    @cached_property
    def weights(self) -> Floats:
        """Weights of the points, which sum to one: they match groups that the tree cannot hold."""
        return self.model.rake(self.codes)

    def rows(self, codes: NDArray[np.int64]) -> NDArray:
        """Return rows in these cells, shape (n, d)."""
        rng = self._generator(1)
        drawn = [column.draw(codes[:, j], rng) for j, column in enumerate(self.cells)]
        return stack_columns(drawn)

    def sample(
        self, n_rows: int, rng: np.random.Generator, model: GraphicalModel | None = None
    ) -> NDArray:
        """Return synthetic rows, shape (n_rows, d), whose counts are those of `table`.

        `model` may be that of a replicate.
        """
        codes = (model or self.model).rounded(n_rows, rng)
        return stack_columns([c.draw(codes[:, j], rng) for j, c in enumerate(self.cells)])

    def some_values(self, j: int, n: int) -> NDArray:
        """Return some values of a column, from all of its cells."""
        rng = np.random.default_rng(j)
        return self.cells[j].draw(rng.integers(self.cells[j].n_cells, size=n), rng)

    def noise_of_column(self, j: int) -> Floats:
        """Return the standard deviation of the noise in the share of each cell of a column."""
        if not self.model.residuals.covers((j,)):
            return np.zeros(self.sizes[j])
        return np.sqrt(self.model.residuals.cell_variances((j,))) / self.n_rows

    # ---- how sure that is

    @cached_property
    def replicates(self) -> list[Replicate]:
        """Models of releases with other noise, where the rows are as this model says."""
        return [Replicate(self, model) for model in self._refits.models]

    def tables_of_replicates(self, columns: Sequence[int]) -> Floats:
        """Return `table` of each of the `replicates`, shape (B, *sizes of the columns)."""
        return self._refits.table(columns)

    @cached_property
    def _refits(self) -> Refits:
        rng = self._generator(2)
        expected = [self._expected(marginal) for marginal in self.marginals]

        def noisy() -> list[Marginal]:
            return [
                replace(m, counts=counts + rng.standard_normal(m.shape) * m.std)
                for m, counts in zip(self.marginals, expected, strict=True)
            ]

        return Refits((self.model.copy_with(noisy()) for _ in range(N_REPLICATES)), N_REPLICATES)

    def _expected(self, marginal: Marginal) -> Floats:
        """Return the counts that the model expects where `marginal` counted."""
        counts = self.model.table(marginal.columns) * self.n_rows
        for axis, j in enumerate(marginal.columns):
            if j in marginal.coarse:
                moved = np.moveaxis(counts, axis, 0)
                summed = np.zeros((marginal.shape[axis], *moved.shape[1:]))
                np.add.at(summed, marginal.coarse[j], moved)
                counts = np.moveaxis(summed, 0, axis)
        return counts

    def noise_variance(self, columns: Sequence[int], means: Floats) -> Floats | None:
        """Return the variance that noise gives to the mean of a function of some columns.

        In closed form, that of the best unbiased estimate from the counts.

        Parameters
        ----------
        columns : sequence of int
        means : ndarray of shape (*sizes of the columns, k)
            Of k functions, in each cell.

        Returns
        -------
        ndarray of shape (k,), or None where the groups that were counted do not determine it
        """
        flat = means.reshape(-1, means.shape[-1])
        weights = means - self.table(columns).ravel() @ flat  # of a ratio: n has noise as well
        # Where no row can be, counts are known without noise.
        weights = weights * self.model.possible(columns)[..., None]
        found = self.model.residuals.variances(tuple(columns), weights)
        return None if found is None else found / self.n_rows**2

    def approximation_std(self, columns: Sequence[int], means: Floats) -> Floats:
        """Return how far off the mean of a function may be, for want of a group that was counted.

        The function is decomposed by analysis of variance over independent columns. What depends
        on columns that were counted together has no such error; of any other set of columns the
        error is phi times the standard deviation of its part. Of two columns of numbers, what is
        missed is more than elsewhere how they go up and down together, and a function that does
        so has a larger error than a condition.

        Parameters
        ----------
        columns : sequence of int
        means : ndarray of shape (*sizes of the columns, k)

        Returns
        -------
        ndarray of shape (k,)
        """
        ordered = tuple(columns)
        margins = [np.maximum(self.table((j,)), 0.0) for j in ordered]
        total = np.zeros(means.shape[-1])
        covers = self.model.residuals.covers
        if covers(ordered):
            return total
        for part, spread in _variance_parts(means, margins):
            group = tuple(ordered[k] for k in part)
            if len(part) > 1 and not covers(group):
                if len(part) == 2:
                    spread = self._of_pair(ordered, part, means, spread)
                total += self.square_of(group) * spread
        return np.sqrt(total)

    def _of_pair(
        self, columns: Group, part: Sequence[int], means: Floats, spread: Floats
    ) -> Floats:
        """Return the error of what depends on a pair of the columns, in units of phi^2."""
        values, pair = means, tuple(columns[k] for k in part)
        for axis in reversed([k for k in range(len(columns)) if k not in part]):
            margin = np.maximum(self.table((columns[axis],)), 0.0)
            values = np.tensordot(margin, values, axes=(0, axis))
        left, right = (np.maximum(self.table((j,)), 0.0) for j in pair)
        ranked = left * self.ranks(pair[0]), right * self.ranks(pair[1])
        aligned = np.einsum("i,j,ijk->k", *ranked, values)
        values = values - np.tensordot(left, values, axes=(0, 0))
        values = values - np.einsum("j,ijk->ik", right, values)[:, None]
        size = np.einsum("i,j,ijk->k", left, right, np.abs(values))
        return self.of_pair(pair, aligned**2, spread, size)

    def of_pair(self, pair: Group, aligned: Floats, spread: Floats, size: Floats) -> Floats:
        """Return the error of what depends on a pair, in units of phi^2.

        Groups are counted where many rows are elsewhere than the model has them. What hangs on few
        rows may be off by more than conditions on many rows are, from which phi is known.

        Parameters
        ----------
        pair : tuple of two int
        aligned, spread : ndarray
            Variance of what goes up and down with both columns, and of all.
        size : ndarray
            Mean absolute value of what depends on the pair.
        """
        few = _EVEN * np.sqrt(spread) / np.maximum(size, _SMALLEST)
        spread = spread * np.clip(few, 1.0, _MOST_UNEVEN)
        a, b = pair
        if self.cells[a].edges is None or self.cells[b].edges is None:
            return spread
        return self._weighted(aligned, spread, self.told_of_ranks(a) * self.told_of_ranks(b))

    def _weighted(self, aligned: Floats, spread: Floats, told: float) -> Floats:
        """Return a variance of which a part goes up and down with two columns, as phi sees it.

        Conditions, which tell phi, hold so much of that part as `told` says; what was missed on
        real tables was that part for `_ALIGNED` of it.
        """
        aligned = np.minimum(aligned, spread)
        return max(_ALIGNED / told, 1.0) * aligned + (spread - aligned)

    def told_of_ranks(self, j: int) -> float:
        """Return how much conditions on a numeric column tell of its ranks, as a mean square."""
        margin = np.maximum(self.table((j,)), 0.0)
        found = _conditions(margin) @ (margin * self.ranks(j))
        return float(np.mean(found**2)) if len(found) else 0.5

    def counted_together(self, columns: Group) -> list[Group]:
        """Return the largest groups of some columns that were counted, or each by itself."""
        found = {tuple(j for j in columns if j in m.columns) for m in self.marginals}
        found = {g for g in found | {(j,) for j in columns} if g and self.n_cells(g) <= _MANY_CELLS}
        return sorted(g for g in found if not any(set(g) < set(other) for other in found))

    def of_pairs(self, columns: Group, rest: Floats, spread: Floats) -> Floats:
        """Return the error of a function at the points, in units of phi^2, shape (k,).

        Parameters
        ----------
        columns : tuple of int
        rest : ndarray of shape (n_points, k)
            The function, without what groups that were counted tell of it.
        spread : ndarray of shape (k,)
            Its variance.
        """
        numeric = [j for j in columns if self.cells[j].edges is not None]
        total = spread * 0.0
        left = spread
        for a, b in combinations(numeric, 2):
            if self.model.residuals.covers((a, b)):
                continue
            scores = self.ranks(a)[self.codes[:, a]] * self.ranks(b)[self.codes[:, b]]
            aligned = np.minimum((self.weights @ (rest * scores[:, None])) ** 2, left)
            left = left - aligned
            total = total + self._weighted(aligned, aligned, self.told_of_ranks(a) * self.told_of_ranks(b))
        return total + left

    def ranks(self, j: int) -> Floats:
        """Return the ranks of a numeric column's cells, standardised; those of no value are 0."""
        margin, n = np.maximum(self.table((j,)), 0.0), self.cells[j].n_cells
        n -= self.schema.missing(j)
        ranks = np.cumsum(margin) - margin / 2
        ranks[:n] -= margin[:n] @ ranks[:n] / max(margin[:n].sum(), _SMALLEST)
        ranks[n:] = 0.0
        return ranks / max(float(np.sqrt(margin @ ranks**2)), _SMALLEST)

    @cached_property
    def phi(self) -> tuple[float, float]:
        """The model's error on a pair that was not counted, and on more columns of counted pairs.

        In units of ``sqrt(pA (1 - pA) pB (1 - pB))`` for conditions A and B on two columns. It is
        the error that groups had when they were counted, on conditions of single cells and of
        thresholds: of groups of later phases under the model of the phases before, else of groups
        that are left out in turn. In adaptive releases the groups were chosen for being worst, so
        that it is rather too large. How columns go together beyond their pairs is taken to be a
        part of how these go together, and how rows fall by chance.
        """
        together = [self._association(m) for m in self._pairs]
        # Of a few pairs it is not known whether others are like them.
        unknown = _TYPICAL_SQUARE / (1 + len(together))
        pairs = math.sqrt(max(float(np.mean(together or [0.0])), 0.0) + unknown)
        beyond = math.hypot(_OF_PAIRS * pairs, 1 / math.sqrt(self.n_rows))
        found, chosen = self._surprises()
        if not len(found):
            return pairs, beyond
        if chosen:
            # The worst of each round: half of these are worse than nearly all that was not chosen.
            square = max(float(np.median(found)) + found.std() / math.sqrt(len(found)), 0.0)
            square += _UNSEEN_SQUARE  # but among many pairs are some of which it took no notice
        else:
            square = found.mean() + found.std() / math.sqrt(len(found)) + unknown
        return math.sqrt(max(square, 0.0)), beyond

    def uncounted_pairs(self, columns: Group) -> list[Group]:
        """Return the pairs of some columns that no group has."""
        return [p for p in combinations(columns, 2) if not self.model.residuals.covers(p)]

    def square_of(self, columns: Group) -> float:
        """Return the square of phi for a group of columns that was not counted."""
        (pair, beyond), uncounted = self.phi, self.uncounted_pairs(columns)
        if len(columns) > 2:
            return max(pair, beyond) ** 2 if uncounted else beyond**2
        return pair**2 + sum(map(self._overlooked, uncounted))

    def _overlooked(self, pair: Group) -> float:
        """Return the square of what the choice of groups may have overlooked in a pair.

        A group is chosen for the rows that are elsewhere than the model has them, less what the
        noise of its own count would be. So a pair of many cells was left out not only where the
        model explains it: all that is known is that it misplaces no more rows than the difference
        of this noise to that of the smallest group that was chosen, and what that one misplaced. A
        part phi of the rows, at least, is misplaced in a pair with an error of phi.
        """
        least, cell = self._chosen_noise
        hidden = cell * self.n_cells(pair) / self.n_rows - least - _NOTICED
        return min(max(hidden, 0.0) ** 2, _TYPICAL_SQUARE)

    @cached_property
    def _chosen_noise(self) -> tuple[float, float]:
        """The least noise in a pair that was chosen, as a part of the rows; and in each cell."""
        chosen = [m for m in self._pairs if m.phase > min(one.phase for one in self._pairs)]
        if not chosen:
            return 0.0, 0.0
        cell = MEAN_NOISE * float(np.median([np.mean(m.std) for m in chosen]))
        return cell * min(m.counts.size for m in chosen) / self.n_rows, cell

    @cached_property
    def _pairs(self) -> list[Marginal]:
        return [m for m in self.marginals if len(m.columns) == 2 and not m.coarse]

    def _association(self, marginal: Marginal) -> float:
        """Return how far a pair is from independence, as squared by `phi`."""
        a, b = marginal.columns
        independent = np.multiply.outer(self.table((a,)), self.table((b,)))
        return self._surprise(marginal, independent)

    def _surprises(self) -> tuple[Floats, bool]:
        """Return the surprise of each of some pairs, and whether these were chosen for it."""
        pairs = self._pairs
        phases = sorted({m.phase for m in pairs})
        found: list[float] = []
        for phase in phases[1:]:
            new = [m for m in pairs if m.phase == phase]
            # The model learns: only what the last rounds found is true of it now.
            if not found or len(new) >= _FEWEST_CHOSEN:
                before = self._fitted([m for m in self.marginals if m.phase < phase])
                found = [self._surprise(m, before.marginal(m.columns)) for m in new]
        if len(found) >= _FEWEST_CHOSEN:
            return np.array(found), True
        if len(pairs) < 2:
            return np.empty(0), False
        places = self._generator(3).permutation(len(pairs))[:_MOST_LEFT_OUT]
        return np.array([self._surprise_without(pairs[place]) for place in places.tolist()]), False

    def _surprise_without(self, left: Marginal) -> float:
        """Return the surprise of a pair under a model that knows its columns, not the pair."""
        others = [m for m in self.marginals if m is not left]
        singles = [
            Marginal((j,), self.table((j,)) * self.n_rows, float(np.mean(left.std)))
            for j in left.columns
            if not any(j in m.columns for m in others)
        ]
        model = self.model.copy_with([*others, *singles])
        return self._surprise(left, model.marginal(left.columns))

    def _surprise(self, marginal: Marginal, expected: Floats) -> float:
        """Return the mean square of the errors of conditions on a pair, in units of phi^2.

        Conditions that hold together for many rows count for more: these are what is asked.
        """
        a, b = marginal.columns
        margins = [np.maximum(self.table((j,)), 0.0) for j in (a, b)]
        left, right = (_conditions(margin) for margin in margins)
        if not len(left) or not len(right):
            return 0.0
        missed = left @ (marginal.counts / self.n_rows - expected) @ right.T
        variance = np.broadcast_to(np.square(marginal.std), marginal.shape) / self.n_rows**2
        noise = left**2 @ variance @ (right**2).T
        shares = [(one > 0) @ margin for one, margin in zip((left, right), margins, strict=True)]
        both = (left > 0) @ np.maximum(expected, 0.0) @ (right > 0).T
        # Conditions that noise drowns say little.
        weights = both / np.sqrt(np.outer(*shares)) / (noise + _AS_GOOD) ** 2
        if not weights.sum() > 0:
            return 0.0
        return float(np.average(missed**2 - noise, weights=weights))


class Replicate:
    """A model of one simulated release.

    Parameters
    ----------
    origin : TableModel
    model : GraphicalModel

    Attributes
    ----------
    n_rows : float
    """

    def __init__(self, origin: TableModel, model: GraphicalModel):
        self._origin, self.model = origin, model
        # Where the number of rows is public it has no noise.
        self.n_rows = model.n_rows if origin.sketch.n_noise_std else origin.n_rows

    def table(self, columns: Sequence[int]) -> Floats:
        """Return the probabilities of the cells of some columns, as `TableModel.table`."""
        return self.model.table(tuple(columns))

    @cached_property
    def weights(self) -> Floats:
        """Weights of the original's points under this model, which sum to one."""
        origin = self._origin
        tree, other = origin.model.tree, self.model.tree
        log_ratio = np.zeros(len(origin.codes))
        for i, clique in enumerate(tree.cliques):
            cells = tuple(origin.codes[:, j] for j in clique)
            now, before = (
                np.log(np.maximum(one.conditional(i)[cells], _SMALLEST)) for one in (other, tree)
            )
            log_ratio += now - before
        ratio = np.exp(np.minimum(log_ratio - log_ratio.max(), 0.0))
        return self.model.rake(origin.codes, weights=ratio)


def _variance_parts(means: Floats, margins: Sequence[Floats]) -> list[tuple[Group, Floats]]:
    """Return the sets of axes and the variances of a function's parts over independent axes."""
    axes = range(len(margins))
    centred = means
    found: list[tuple[Group, Floats]] = []
    totals: dict[Group, Floats] = {(): np.zeros(means.shape[-1])}
    for size in range(1, len(margins) + 1):
        for part in combinations(axes, size):
            projected = centred
            for axis in reversed([a for a in axes if a not in part]):
                projected = np.tensordot(margins[axis], projected, axes=(0, axis))
            power = _variance(projected, [margins[a] for a in part])
            smaller = [totals[sub] for k in range(1, size) for sub in combinations(part, k)]
            own = np.maximum(power - np.sum(smaller, axis=0), 0.0) if smaller else power
            totals[part] = own
            found.append((part, own))
    return found


def _variance(values: Floats, margins: Sequence[Floats]) -> Floats:
    mean, square = values, values**2
    for margin in margins:
        mean = np.tensordot(margin, mean, axes=(0, 0))
        square = np.tensordot(margin, square, axes=(0, 0))
    return np.maximum(square - mean**2, 0.0)


def _conditions(margin: Floats) -> Floats:
    """Return conditions on a column, standardised: of single cells and of thresholds."""
    n = len(margin)
    asked = np.concatenate([np.eye(n), np.tril(np.ones((n, n)))[:-1]])
    share = asked @ margin / max(margin.sum(), _SMALLEST)
    kept = (share > _LEAST_SHARE) & (share < 1 - _LEAST_SHARE)
    asked, share = asked[kept], share[kept]
    return (asked - share[:, None]) / np.sqrt(share * (1 - share))[:, None]
