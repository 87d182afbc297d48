"""Parts of an answer from a graphical model: what each says, and how far off it may be.

A part is a function of rows. One of few columns is asked of rows that fill the cells of these
(`FilledCells`): its mean in each cell, weighted by what the model says of the cells, is the answer.
One of many columns is asked at the model's points. The answer may be off

- by the noise: in closed form where the groups that were counted determine the answer, else as far
  as the answers of simulated releases are from it;
- by how columns go together where no group tells: `TableModel.approximation_std`;
- by where in its cell a row lies (`Inside`). Rows of a crowded atom may all be at one place; the
  others are spread like a few places in each atom; and how they are spread in a cell of several
  columns may differ from what each column tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..._computing import Kept
from ...sketches._file import most_rows_of_a_unit
from ...sketches._residuals import subsets
from ..inferring._shapes import PLACES
from ..inferring._table_model import TableModel
from ._filled_cells import (
    APART,
    FilledCells,
    Inside,
    all_values,
    along,
    apart,
    possible_rows,
    some_values,
)
from ._positions import NamedRows, column_of, evaluate_rows, values_at

Floats = NDArray[np.float64]
Group = tuple[int, ...]

# Rows of all values of a few columns that are asked, where a condition seems to hold for all.
_MOST_ASKED = 2**18
# As `APART`, in all cells of one side alike.
TOGETHER = 0.05
# The same of what was expected of cells of one column, in all of them alike.
_ALIKE = 0.5
# Of a step along an axis, its square by that of the closest line.
_OF_STEPS = 4 / 3
# Standard errors from the unbiased estimate, at most: farther off are answers that the model's
# want of negative counts has biased.
NEAR = 0.7
# Cells of tables of replicates that are kept; larger ones are made anew.
_MOST_KEPT = 2**22
# Answers that are kept.
_MOST_SAID = 16
# Of the rows, what may hold a value at least.
_LEAST_SHARE = 1e-9
_HARDLY_CROWDED = 0.05
# Rounds in which a function is divided into what counted groups tell of it and the rest.
_SWEEPS = 4
_SMALLEST = 1e-300


class ModelAnswers:
    """What all questions to one model share.

    Parameters
    ----------
    model : TableModel
    """

    def __init__(self, model: TableModel):
        self.model = model
        self._insides: dict[int, Inside] = {}
        self._tables = Kept(_MOST_KEPT)
        self._said = Kept(_MOST_SAID)

    @property
    def n_rows(self) -> float:
        """Private number of rows."""
        return self.model.n_rows

    @property
    def n_independent(self) -> float:
        """How many independent rows tell as much of a population as these, at least.

        If k rows of a person count, they may be alike: then they tell no more than one.
        """
        return self.n_rows / most_rows_of_a_unit(self.model.sketch.privacy)

    def inside(self, j: int) -> Inside:
        """Return how well is known where in the cells of a column its rows lie."""
        if j not in self._insides:
            self._insides[j] = Inside(self.model, j)
        return self._insides[j]

    def filled(self, columns: Group, n_outputs: int = 1) -> FilledCells:
        """Return rows that fill the cells of some columns."""
        return FilledCells(self.model, columns, [self.inside(j) for j in columns], n_outputs)

    def once(self, key: Any, ask: Callable[[], Any]) -> Any:
        """Return the answer to a question that is put over and over; the last few are kept."""
        return self._said.get(key, ask)

    def tables_of_replicates(self, columns: Group) -> Floats:
        """Return the tables of simulated releases, shape (B, n_cells)."""

        def find() -> Floats:
            tables = self.model.tables_of_replicates(columns)
            return tables.reshape(len(tables), -1)

        return self._tables.get(columns, find)

    @cached_property
    def rows_of_replicates(self) -> Floats:
        """Return the numbers of rows of simulated releases, shape (B,)."""
        return np.array([one.n_rows for one in self.model.replicates])


class Errors(NamedTuple):
    """Parts of an error, each of shape (k,): variances, how far crowded rows may reach, and bias.

    `biased` is how far the answer is above an unbiased one, about which the noise is.
    """

    noise: Floats
    approximation: Floats
    inside: Floats
    below: Floats
    above: Floats
    biased: Floats

    @property
    def variance(self) -> Floats:
        """Of all but what crowded rows do."""
        return self.noise + self.approximation + self.inside


class CellPart:
    """A function of few columns, in their cells.

    Parameters
    ----------
    answers : ModelAnswers
    function : callable of rows
    columns : tuple of int
    n_outputs : int
    checked : bool
        Whether NaN and infinite values of the function are refused, as those of a user's.
    """

    def __init__(
        self,
        answers: ModelAnswers,
        function: Callable[[Any], Any],
        columns: Group,
        n_outputs: int,
        checked: bool,
    ):
        self._answers, self._function = answers, function
        self.columns, self._checked = columns, checked
        self._filled = answers.filled(columns, n_outputs)
        table = answers.model.table(columns)
        self._shares = self._filled.probabilities(np.maximum(table, 0.0))
        values, gone = self._values()
        self.extremes = self._extremes(values)
        # Where the release shows no rows that hold a value; their mean is the middle.
        self.of_nobody = np.zeros(values.shape[1], np.bool_)
        self.mean, self._present = self._mean(values, gone)
        self._biased = np.zeros_like(self.mean)
        self._errors: Errors | None = None  # none but the rough ones
        self.mean = self._near_the_unbiased(values, gone)

    def _values(self, ends: dict[int, int] | None = None) -> tuple[Floats, NDArray | None]:
        """Return what the function is at the rows, and where it is nothing; None: nowhere."""
        rows = self._filled.rows(ends)
        if self._checked and not ends:
            values = evaluate_rows(self._function, rows)[0]
        else:
            values = values_at(self._function, rows)
        gone = np.isnan(values)
        return values, gone if gone.any() else None

    def _extremes(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest value, at the rows and where their atoms end."""
        axes = range(len(self.columns))
        found = [self._of_possible(values, None)]
        for pattern in range(2 if self._filled.by_atom else 4):
            ends = {k: (pattern ^ (k & pattern >> 1)) & 1 for k in axes}
            found.append(self._of_possible(self._values(ends)[0], ends))
        low = np.min([np.fmin.reduce(v, axis=0) for v in found], axis=0)
        high = np.max([np.fmax.reduce(v, axis=0) for v in found], axis=0)
        return low, high

    def _of_possible(self, values: Floats, ends: dict[int, int] | None) -> Floats:
        """Return the values at rows that there may be, or all where there may be none of them."""
        possible = possible_rows(self._filled.rows(ends), self._answers.model, self.columns)
        return values[possible] if possible.any() else values

    def _mean(self, values: Floats, gone: NDArray | None) -> tuple[Floats, Floats | None]:
        """Return the mean over rows that hold a value, and the share of these in each unit."""
        if gone is None:
            return self._shares @ self._filled.means(values), None
        present = self._filled.means(1.0 - gone)
        share = self._shares @ present
        total = self._shares @ self._filled.means(np.where(gone, 0.0, values))
        low, high = self.extremes
        middle = np.where(np.isfinite(low + high), low / 2 + high / 2, 0.0)
        self.of_nobody = share <= _LEAST_SHARE
        mean = np.divide(total, share, out=middle, where=~self.of_nobody)
        return np.clip(mean, low, high), present

    def _near_the_unbiased(self, values: Floats, gone: NDArray | None) -> Floats:
        """Return the mean, moved to within `NEAR` standard errors of the unbiased estimate.

        A model has no negative counts. Of a single cell that lowers the error; over the many empty
        cells of a long tail it adds up to a bias of several standard errors.
        """
        means = self._filled.in_cells(self._filled.means(self._over_all(values, gone)))
        variance = self._answers.model.noise_variance(self.columns, means)
        if variance is None:
            return self.mean
        residuals = self._answers.model.model.residuals
        counts = residuals.marginal(self.columns).ravel()
        flat = means.reshape(-1, means.shape[-1]) - self.mean
        unbiased = self.mean + counts @ flat / max(residuals.n_rows, 1.0)
        reach = NEAR * np.sqrt(variance)
        found = np.clip(np.clip(self.mean, unbiased - reach, unbiased + reach), *self.extremes)
        self._biased = found - unbiased
        return found

    def counted(self) -> tuple[Floats, Floats]:
        """Return how far what was counted is above the model, and the variance of its noise.

        Of a mean that counted groups do not determine, that is the part of it that they do.
        """
        means = self._filled.in_cells(self._filled.means(self._over_all(*self._values())))
        model, residuals = self._answers.model, self._answers.model.model.residuals
        own = residuals.counted_part(self.columns, means - self.mean)
        counts = residuals.marginal(self.columns) / max(residuals.n_rows, 1.0)
        above = (counts - model.table(self.columns)).ravel() @ own.reshape(-1, own.shape[-1])
        variance = residuals.variances(self.columns, own)
        assert variance is not None
        return above, variance / max(residuals.n_rows, 1.0) ** 2

    def _over_all(self, values: Floats, gone: NDArray | None) -> Floats:
        """Return values whose mean over all rows, and its error, are those of the present ones."""
        if gone is None:
            return values
        return np.where(gone, self.mean, self.mean + (values - self.mean) / self._share)

    @cached_property
    def _share(self) -> Floats:
        """Of the rows, what holds a value: where noise is large the least that it may be."""
        assert self._present is not None
        share = self._shares @ self._present
        noise = np.sqrt(self._noise(self._filled.in_cells(self._present)))
        least = np.maximum(share, np.maximum(noise, _LEAST_SHARE))
        return np.maximum(share - noise, least / 2)

    # ---- errors

    def errors(self, *, rough: bool = False) -> Errors:
        """Return the parts of the error of the mean; `rough`: without simulated releases."""
        if self._errors is None:
            asked, others = self._others
            exact = not rough or all(self._is_counted(self._centred(one)) for one in asked)
            noise = np.max([self._noise_of(one, not exact) for one in asked], axis=0)
            found = others._replace(noise=noise)
            if not exact:
                return found
            self._errors = found
            del self._others  # which are many means
        return self._errors

    @cached_property
    def _others(self) -> tuple[list[Floats], Errors]:
        """The means of which there is noise, and all other parts of the error."""
        values, gone = self._values()
        values = self._over_all(values, gone)
        means = self._filled.means(values)
        spread = np.maximum(self._filled.means(values**2) - means**2, 0.0)
        below, above, moved = self._crowded(means, spread)
        if moved:
            plain = self._unbiased(means)
            below = below + np.maximum(plain - self._unbiased(moved[0]), 0.0)
            above = above + np.maximum(self._unbiased(moved[1]) - plain, 0.0)
        in_cells = self._filled.in_cells(means)
        approximation = self._answers.model.approximation_std(self.columns, in_cells) ** 2
        if self._filled.by_atom:
            inside = self._shapes(means, spread)
        else:
            inside, together = self._places(values, spread)
            below, above = below + together, above + together
        inside = inside + self._shares @ spread / self._answers.n_rows  # by chance
        unknown = np.zeros_like(approximation)
        # Where crowded rows decide, the noise is that of their number.
        asked = [means, *moved]
        return asked, Errors(unknown, approximation, inside, below, above, self._biased)

    def _centred(self, means: Floats) -> Floats:
        """Return means in the cells, less the mean of all, shape (*sizes of the columns, k)."""
        in_cells = self._filled.in_cells(means)
        table = self._answers.model.table(self.columns)
        return in_cells - table.ravel() @ in_cells.reshape(-1, means.shape[1])

    def _is_counted(self, centred: Floats) -> bool:
        """Whether the groups that were counted determine a mean."""
        return self._answers.model.model.residuals.tell(self.columns, centred)

    def _unbiased(self, means: Floats) -> Floats:
        """Return how far the unbiased estimate of a mean is above the model's, shape (k,)."""
        centred, residuals = self._centred(means), self._answers.model.model.residuals
        if not self._is_counted(centred):
            return np.zeros(means.shape[1])
        counts = residuals.marginal(self.columns).ravel()
        return counts @ centred.reshape(-1, means.shape[1]) / max(residuals.n_rows, 1.0)

    def _noise_of(self, means: Floats, rough: bool = False) -> Floats:
        """Return the variance of the noise in a mean, for the means in the units."""
        in_cells = self._filled.in_cells(means)
        found = self._noise_of_counted(in_cells) if rough else self._noise(in_cells)
        return found + self._noise_of_shape(means)

    def noise(self, *, counts: bool) -> Floats:
        """Return the variance of the noise in the mean, or in the number of rows."""
        values, gone = self._values()
        means = self._filled.means(self._over_all(values, gone))
        if not counts:
            return self._noise_of(means)
        in_cells = self._filled.in_cells(means)
        own = self._noise_of_shape(means)
        return self._noise_of_counts(in_cells) + own * self._answers.n_rows**2

    def _noise(self, means: Floats) -> Floats:
        """Return the variance of the noise in the mean of a function, shape (k,)."""
        found = self._answers.model.noise_variance(self.columns, means)
        if found is not None:
            return found
        flat = means.reshape(-1, means.shape[-1])
        shift = self._answers.tables_of_replicates(self.columns) @ flat
        shift -= self._answers.model.table(self.columns).ravel() @ flat
        return np.mean(shift**2, axis=0)

    def _noise_of_counts(self, means: Floats) -> Floats:
        """Return the variance of the noise in the number of rows, shape (k,)."""
        answers, sketch = self._answers, self._answers.model.sketch
        mean = answers.model.table(self.columns).ravel() @ means.reshape(-1, means.shape[-1])
        if not sketch.n_from_sums:  # the number of rows has a noise of its own, or none
            own = (mean * sketch.n_noise_std) ** 2
            return self._noise(means) * answers.n_rows**2 + own
        found = answers.model.model.residuals.variances(self.columns, means)
        if found is not None:
            return found
        flat = means.reshape(-1, means.shape[-1])
        counts = answers.tables_of_replicates(self.columns) @ flat
        counts *= answers.rows_of_replicates[:, None]
        return np.mean((counts - mean * answers.n_rows) ** 2, axis=0)

    def _noise_of_counted(self, means: Floats) -> Floats:
        """Return about the variance of the noise, of what was counted alone."""
        model = self._answers.model
        found = model.noise_variance(self.columns, means)
        if found is not None:
            return found
        total = np.zeros(means.shape[-1])
        for k, j in enumerate(self.columns):
            others = tuple(axis for axis in range(len(self.columns)) if axis != k)
            rest = [np.maximum(model.table((self.columns[axis],)), 0.0) for axis in others]
            projected = means
            for axis, margin in sorted(zip(others, rest, strict=True), reverse=True):
                projected = np.tensordot(margin, projected, axes=(0, axis))
            one = model.noise_variance((j,), projected)
            total += 0.0 if one is None else one
        return total

    def _noise_of_shape(self, means: Floats) -> Floats:
        """Return the variance from how a single column's cells are spread over their atoms."""
        if not self._filled.by_atom:
            return np.zeros(means.shape[1])
        column = self._filled.insides[0].column
        shares = np.maximum(self._answers.model.table(self.columns), 0.0)
        return shares**2 @ column.shape.variance(means)

    def _shapes(self, means: Floats, spread: Floats) -> Floats:
        """Return the variance from where in the atoms of a single column its rows are.

        What was expected of the cells may be off in the same direction in all of them.
        """
        found = self._shares**2 @ spread / PLACES
        shape = self._filled.insides[0].column.shape
        table = np.maximum(self._answers.model.table(self.columns), 0.0)
        return found + (_ALIKE * (table @ np.sqrt(shape.variance(means)))) ** 2

    def _places(self, values: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return the variance from where in the cells of several columns their rows are.

        Each column tells how all rows of its cells are spread. In cells with other columns they may
        be spread otherwise, some here and some there, but not all in the same way: unless columns
        go together inside the cells. How far this may take the mean is returned beside it.
        """
        slopes = self._slopes(values)
        total = np.zeros(values.shape[1])
        known = np.zeros_like(spread)
        for k, slope in slopes.items():
            along = slope * self._of_one_axis(spread, slopes)
            known += along**2
            inside = self._filled.insides[k]
            total += inside.in_cells @ self._by_code(k, slope) ** 2
            total += self._apart(k, along) + (TOGETHER * self._together(k, along)) ** 2
        rest = np.maximum(spread - known, 0.0)
        total += APART**2 * (self._shares**2 @ rest)
        total += (TOGETHER * (self._shares @ np.sqrt(rest))) ** 2
        return total, (self._shares * self._along()) @ np.sqrt(rest)

    def _along(self) -> Floats:
        """Return how the closest two columns of each unit go together in it.

        More than two that are one move the mean by more than their conditions' joint spread.
        """
        found = np.zeros(self._filled.shape)
        axes = [
            k for k, inside in enumerate(self._filled.insides) if inside.column.edges is not None
        ]
        for pair in combinations(axes, 2):
            found = np.maximum(found, along(self._answers.model, self.columns, pair))
        return found.ravel() * (len(axes) - 1)

    def _slopes(self, values: Floats) -> dict[int, Floats]:
        """Return how much the function changes in each unit with the place along an axis."""
        found = {}
        for k, inside in enumerate(self._filled.insides):
            if inside.in_cells.any():
                rank = (self._filled.ranks[k] - 0.5)[:, None]
                found[k] = self._filled.means(values * rank) * np.sqrt(12)
        return found

    @staticmethod
    def _of_one_axis(spread: Floats, slopes: dict[int, Floats]) -> Floats:
        """Return by what to multiply slopes, so that they hold what steps along an axis spread."""
        straight = np.maximum(np.sum([slope**2 for slope in slopes.values()], axis=0), _SMALLEST)
        most = spread / straight
        return np.sqrt(most if len(slopes) == 1 else np.minimum(most, _OF_STEPS))

    def _apart(self, k: int, along: Floats) -> Floats:
        """Return the variance where each unit has its own place, and the mean of all is known."""
        far = apart(self._answers.model, self.columns, k).ravel()
        squares: Any = (self._shares * far)[:, None] ** 2
        whole = np.maximum(self._summed(k, squares), _SMALLEST)
        found = self._summed(k, squares * along**2) - self._summed(k, squares * along) ** 2 / whole
        return np.maximum(found, 0.0).sum(axis=0)

    def _together(self, k: int, along: Floats) -> Floats:
        """Return how far the mean moves where units on two sides are moved apart."""
        whole = np.maximum(self._summed(k, self._shares[:, None]), _SMALLEST)
        mean = self._by_code(k, along) / whole
        codes = np.indices(self._filled.shape)[k].ravel()
        return self._shares @ np.abs(along - mean[codes]) / 2

    def _by_code(self, k: int, means: Floats) -> Floats:
        """Return the sum of means, weighted by shares, for each cell of an axis."""
        return self._summed(k, self._shares[:, None] * means)

    def _summed(self, k: int, of_units: Floats) -> Floats:
        """Return the sum over units for each cell of an axis, shape (n_cells, k)."""
        others = tuple(axis for axis in range(len(self.columns)) if axis != k)
        return of_units.reshape(*self._filled.shape, -1).sum(axis=others)

    @cached_property
    def _most(self) -> Floats:
        """The share of the rows in each unit, or what was counted where that is more."""
        return self._filled.probabilities(self._answers.model.most(self.columns))

    def _crowded(self, means: Floats, spread: Floats) -> tuple[Floats, Floats, list[Floats]]:
        """Return how far the mean moves where crowded rows are all at one place, and means there.

        The place is an end of their atom, or wherever a function has such a value in it.
        """
        if self._filled.by_atom:
            return self._crowded_pieces(means, spread)
        total, moved = np.zeros((2, means.shape[1])), [means, means]
        for k in range(len(self.columns)):
            crowded = self._filled.crowded(k)
            if not crowded.any():
                continue
            weight = self._by_unit(k, crowded)[:, None]
            for side, reach in enumerate(self._to_ends(k, means, np.sqrt(spread))):
                # Of units that are hardly crowded an infinite end says nothing.
                known = np.isfinite(reach) | (weight > _HARDLY_CROWDED)
                reach = np.where((weight > 0) & known, reach, 0.0)
                reach = reach * np.where(weight > 0, weight, 0.0)
                total[side] += np.sum(self._summed(k, self._most[:, None] * reach) ** 2, axis=0)
                finite = np.where(np.isfinite(reach), reach, 0.0)
                moved[side] = moved[side] + (finite if side else -finite)
        for side, reach in enumerate(self._both_at_ends(means)):
            total[side] += (self._most @ reach) ** 2
            moved[side] = moved[side] + (reach if side else -reach)
        below, above = np.sqrt(total)
        return below, above, moved if np.any(total > 0) else []

    def _both_at_ends(self, means: Floats) -> tuple[Floats, Floats]:
        """Return how much farther the mean of a unit moves with the rows of several axes at ends.

        A condition on two columns may hold where both are at an end, and nowhere else.
        """
        crowded = {k: self._filled.crowded(k) for k in range(len(self.columns))}
        axes = tuple(k for k, share in crowded.items() if share.any())
        reach = np.zeros((2, *means.shape))
        for some in subsets(axes):
            if not (len(some) == 2 or len(some) == len(axes) == 3):
                continue
            weight = np.min([self._by_unit(k, crowded[k]) for k in some], axis=0)
            if self._most @ weight * self._answers.n_rows < 1:  # there is no such row
                continue
            units = np.flatnonzero(weight)
            low, high = self._at_corners(some, units)
            alone = [self._at_corners((k,), units) for k in some]
            low = np.min([one[0] for one in alone], axis=0) - low
            high = high - np.max([one[1] for one in alone], axis=0)
            for side, more in enumerate((low, high)):
                more = np.where(np.isfinite(more), np.maximum(more, 0.0), 0.0)
                reach[side, units] = np.maximum(reach[side, units], weight[units, None] * more)
        return reach[0], reach[1]

    def _at_corners(self, axes: Group, units: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the least and the largest mean in some units with the rows of axes at ends."""
        found = []
        for ends in product((0, 1), repeat=len(axes)):
            rows, means = self._filled.rows_of(units, dict(zip(axes, ends, strict=True)))
            values = values_at(self._function, rows)
            gone = np.isnan(values)
            found.append(means(self._over_all(values, gone if gone.any() else None)))
        return np.fmin.reduce(found), np.fmax.reduce(found)

    def _crowded_pieces(self, means: Floats, spread: Floats) -> tuple[Floats, Floats, list[Floats]]:
        """Return the same for a single column, whose pieces are known one by one."""
        inside = self._filled.insides[0]
        if not inside.crowded.any():
            return np.zeros(means.shape[1]), np.zeros(means.shape[1]), []
        piece = inside.column.piece_of_atom
        starts = np.flatnonzero(np.diff(piece, prepend=-1))
        weight = inside.crowded[:, None]
        mass = np.bincount(piece, self._most)[:, None]
        share = inside.column.shares / np.maximum(inside.piece_shares, _SMALLEST)[piece]
        own = np.add.reduceat(means * share[:, None], starts, axis=0)
        ends = self._to_ends(0, means, np.sqrt(spread))
        found, moved = [], []
        for sign, reach, extreme in zip((-1, 1), ends, (np.minimum, np.maximum), strict=True):
            farthest = extreme.reduceat(means + sign * reach, starts, axis=0)
            # Of pieces that are hardly crowded an infinite end says nothing.
            known = np.isfinite(farthest) | (weight > _HARDLY_CROWDED)
            step = np.where((weight > 0) & known, sign * (farthest - own), 0.0)
            step = step * np.where(weight > 0, weight, 0.0)
            found.append(np.sqrt(np.sum((mass * step) ** 2, axis=0)))
            moved.append(means + sign * np.where(np.isfinite(step), step, 0.0)[piece])
        return found[0], found[1], moved

    def _to_ends(self, k: int, means: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return how far below and above its mean the function goes along an axis of a unit."""
        least, most = means - spread, means + spread
        for end in (0, 1):
            values, gone = self._values({k: end})
            there = self._filled.means(self._over_all(values, gone))
            there = np.where(np.isnan(there), means, there)
            least, most = np.minimum(least, there), np.maximum(most, there)
        blind = self._filled.insides[k].column.blind
        if blind.any() and not self._filled.by_atom:  # rows may be anywhere, at no end, too
            here = self._by_unit(k, blind.astype(np.float64))[:, None] > 0
            values, gone = self._values()
            low, high = self._filled.extremes(self._over_all(values, gone))
            least = np.where(here, np.fmin(least, low), least)
            most = np.where(here, np.fmax(most, high), most)
        return means - least, most - means

    def _by_unit(self, k: int, by_code: Floats) -> Floats:
        """Return what is known of the cells of an axis for each unit."""
        shape = [len(by_code) if axis == k else 1 for axis in range(len(self.columns))]
        return np.broadcast_to(by_code.reshape(shape), self._filled.shape).ravel()

    def sampling(self) -> Floats:
        """Return the variance of the function over the rows."""
        values, gone = self._values()
        values = self._over_all(values, gone)
        mean = self._shares @ self._filled.means(values)
        square = self._shares @ self._filled.means(values**2)
        return np.maximum(square - mean**2, 0.0)

    @cached_property
    def is_exact(self) -> bool:
        """Whether all values that the columns can have were asked, none beyond the extremes."""
        if all(inside.is_exact for inside in self._filled.insides):
            return True
        values = [all_values(self._answers.model, j) for j in self.columns]
        sizes = [_MOST_ASKED + 1 if known is None else len(known) for known in values]
        if math.prod(sizes) > _MOST_ASKED:
            return False
        place = np.indices(sizes).reshape(len(sizes), -1)

        def column(j: int) -> NDArray:
            if j not in self.columns:  # which is not asked for, or changes nothing
                return np.resize(some_values(self._answers.model, j, 1), place.shape[1])
            k = self.columns.index(j)
            return values[k][place[k]]  # type: ignore[index]

        rows = NamedRows(self._answers.model.schema, place.shape[1], column)
        asked = values_at(self._function, rows)
        asked = asked[possible_rows(rows, self._answers.model, self.columns)]
        low, high = self.extremes
        return bool(
            np.all(np.fmin.reduce(asked, axis=0) >= low)
            and np.all(np.fmax.reduce(asked, axis=0) <= high)
        )


class PointsPart:
    """A function of many columns, at the model's points.

    Parameters
    ----------
    answers : ModelAnswers
    function : callable of rows
    checked : bool
    """

    is_exact = False

    def __init__(self, answers: ModelAnswers, function: Callable[[Any], Any], checked: bool):
        self._answers, self._function, self._checked = answers, function, checked
        values, gone = self._values()
        weights = answers.model.weights
        self.extremes = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        there = np.ones_like(values) if gone is None else 1.0 - gone
        self.of_nobody = weights @ there <= _LEAST_SHARE
        self._share = np.maximum(weights @ there, _LEAST_SHARE)
        self.mean = weights @ (values if gone is None else np.where(gone, 0.0, values))
        self.mean = self.mean / self._share

    def _rows(self) -> NamedRows:
        model = self._answers.model
        return NamedRows.of(model.points, model.schema)

    def _values(self) -> tuple[Floats, NDArray | None]:
        rows = self._rows()
        if self._checked:
            values = evaluate_rows(self._function, rows)[0]
        else:
            values = values_at(self._function, rows)
        self.columns: Group = tuple(sorted(rows.taken))
        gone = np.isnan(values)
        return values, gone if gone.any() else None

    def _over_all(self) -> Floats:
        values, gone = self._values()
        if gone is None:
            return values
        return np.where(gone, self.mean, self.mean + (values - self.mean) / self._share)

    def errors(self, *, rough: bool = False) -> Errors:
        """Return the parts of the error of the mean; `rough`: without simulated releases."""
        values = self._over_all()
        zero = np.zeros(values.shape[1])
        noise = self._variance(values) / len(values)
        if not rough:
            noise = noise + self._noise(values, counts=False)
        return Errors(noise, self._approximation(values), self._inside(values), zero, zero, zero)

    def counted(self) -> tuple[Floats, Floats]:
        """Return the same as a `CellPart`; nothing is told of points."""
        return np.zeros_like(self.mean), np.zeros_like(self.mean)

    def noise(self, *, counts: bool) -> Floats:
        """Return the variance of the noise in the mean, or in the number of rows."""
        return self._noise(self._over_all(), counts=counts)

    def _noise(self, values: Floats, *, counts: bool) -> Floats:
        answers = self._answers
        found = np.array([one.weights @ values for one in answers.model.replicates])
        n_rows = 1.0
        if counts:
            found, n_rows = found * answers.rows_of_replicates[:, None], answers.n_rows
        return np.mean((found - n_rows * (answers.model.weights @ values)) ** 2, axis=0)

    def _variance(self, values: Floats) -> Floats:
        weights = self._answers.model.weights
        return np.maximum(weights @ values**2 - (weights @ values) ** 2, 0.0)

    def _approximation(self, values: Floats) -> Floats:
        """Return the variance for what is no sum of functions of columns counted together."""
        model, rest, n_means = self._answers.model, values - values.mean(axis=0), 0
        cells = [self._cells_of(group) for group in model.counted_together(self.columns)]
        for _ in range(_SWEEPS):
            for own in cells:
                n_means += own.max() + 1
                rest = rest - _means_by(own, rest)
        # Means of few rows each take more away than what they tell.
        taken = min(n_means / _SWEEPS / len(rest), 0.5)
        spread = self._variance(rest) / (1 - taken)
        parts = [self.columns, *model.uncounted_pairs(self.columns)]
        square = max(model.square_of(part) for part in parts)
        return square * model.of_pairs(self.columns, rest, spread)

    def _cells_of(self, group: Group) -> NDArray[np.int64]:
        """Return the cell of each point in the table of a group."""
        model = self._answers.model
        codes = tuple(model.codes[:, list(group)].T)
        found = np.ravel_multi_index(codes, [model.sizes[j] for j in group])
        return np.unique(found, return_inverse=True)[1]

    def _inside(self, values: Floats) -> Floats:
        """Return the variance for where in their cells the points lie."""
        answers, model = self._answers, self._answers.model
        rng = np.random.default_rng(0)  # public, and always the same
        drawn = {j: model.cells[j].draw(model.codes[:, j], rng) for j in self.columns}
        other = NamedRows(model.schema, len(model.codes), drawn.__getitem__)
        moved = values_at(self._function, other) - values_at(self._function, self._rows())
        moved = np.nan_to_num(moved)
        total = (TOGETHER * (model.weights @ np.abs(moved)) * np.sqrt(np.pi) / 2) ** 2
        for j in self.columns:
            inside = answers.inside(j)
            if inside.in_cells.any():
                slope = np.sqrt(12) * (model.weights * (self._ranks(j) - 0.5))[:, None] * values
                by_cell = _sums_by(model.codes[:, j], slope, model.sizes[j])
                total += inside.in_cells @ by_cell**2
        return total

    def _ranks(self, j: int) -> Floats:
        """Return how many of the points of the same cell lie below each point, as a share."""
        model = self._answers.model
        codes, column = model.codes[:, j], column_of(model.points, model.schema, j)
        if model.cells[j].edges is None:
            column = model.schema.code(model.points, j)
        order = np.lexsort((np.random.default_rng(0).random(len(codes)), column, codes))
        counts = np.bincount(codes, minlength=model.sizes[j])
        ranks = np.empty(len(codes))
        ranks[order] = np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[order]]
        return (ranks + 0.5) / counts[codes]

    def sampling(self) -> Floats:
        """Return the variance of the function over the rows."""
        return self._variance(self._over_all())


def _means_by(codes: NDArray[np.int64], values: Floats) -> Floats:
    """Return for each row the mean of the values of all rows with its code."""
    n = int(codes.max()) + 1
    return (_sums_by(codes, values, n) / np.maximum(np.bincount(codes), 1)[:, None])[codes]


def _sums_by(codes: NDArray[np.int64], values: Floats, n: int) -> Floats:
    """Return the sums of the values of all rows with the same code, shape (n, k)."""
    which = csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), (len(codes), n))
    return which.T @ values
