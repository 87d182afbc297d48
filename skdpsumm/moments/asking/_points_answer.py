"""Answers from weighted points: their error, and how far they reach wherever rows lie.

This is the way of sketches with Fourier or RACE features. Those of histograms alone are answered
from their graphical model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sketches._file import most_rows_of_a_unit
from ..inferring._regression import MomentRegression
from ..inferring._shift import Shift
from ._estimate import Estimate
from ._positions import FEW_POINTS, Positions, evaluate_rows, values_at
from ._question import ColumnCondition, OfGroups, Question
from ._warnings import (
    ERRORS_MISSED,
    MOST_JUDGED,
    unexplained,
    warn_of_constants,
    warn_of_the_unexplained,
    warn_of_the_unseen,
    warn_of_the_wide,
)

# An interval is wider where what is missed is more than one standard error; a warning waits.
_ONE_ERROR_MISSED = 1 / ERRORS_MISSED
# Of the rows, what may hold a value at least: an answer about no rows is none, but is finite.
_LEAST_SHARE = 1e-9
# Of a number its range is looked for at so many points, moved to the ends of their columns.
_POINTS_FOR_RANGE = 64
_N_DRAWS = 100
# Of what is missed, how outputs go together is known from so many points.
_POINTS_OF_RESIDUALS = 20_000


class PointsAnswer:
    """The answer to a question; its error and its ends are computed when they are asked for.

    The points are asked anew for those: values at 100,000 of them are too large to be kept.

    Parameters
    ----------
    question : Question
    model : MomentRegression
    positions : Positions
        Of the model's points.
    shift : Shift, default=None
        How unlike the points the rows are. None allows for nothing: where points are those of
        histograms, it is known in which of their bins rows lie.

    Attributes
    ----------
    value : ndarray
    possible : pair
        Least and largest value that it can have.

    Warns
    -----
    AnswerWarning
        Where it may be off by more than its error says.
    """

    def __init__(
        self,
        question: Question,
        model: MomentRegression,
        positions: Positions,
        shift: Shift | None = None,
    ):
        of_column = isinstance(question.function, ColumnCondition)
        self._asked = (AskedCondition if of_column else AskedFunction)(
            question.function, model, positions
        )
        self._question, self._model, self._positions = question, model, positions
        self._shift = shift
        self._n_rows = np.asarray(model.sketch.n_samples)
        first = self._asked.at_points()
        self.warned = self._judge(first)
        self._mean = first.model.answer(first.values)
        self.value = self._mean
        if question.then is not None:
            self.value = question.then(self._mean, self._n_rows)
        self.possible = self._possible(first)
        if first.is_scalar and np.shape(self.value) == (1,):
            self.value = self.value[0]
            self.possible = tuple(np.ravel(end)[0] for end in self.possible)
        unsure = question.judged is not None and question.is_mean and not self.warned
        self._rough = self._rough_error(first) if unsure else None

    def to_estimate(self, frame: str | None) -> Estimate:
        """Return the answer as users see it, and warn where it tells next to nothing."""
        question, found = self._question, self._estimate(frame)
        if question.judged is not None and not self.warned:
            names = question.entries or question.about
            rough = found if self._rough is None else self._rough
            warn_of_the_wide(self._model.sketch, rough, found, names)
        return found

    def _rough_error(self, first: AtPoints) -> Estimate:
        """Return the answer with an error that takes no further questions."""
        slope, rest = self._asked.approximation(first)
        move, shape = self._question.without_clipping, np.shape(self.value)
        middle, noise, beyond = (
            np.reshape(move(part, self._n_rows), shape)
            for part in (
                self._mean,
                first.model.sketch.linear_noise_std(slope),
                _missed(first.model, first.values, slope, rest),
            )
        )

        def ends(z: float) -> tuple[NDArray, NDArray]:
            reach = z * noise + beyond
            return middle - reach, middle + reach

        return Estimate(self.value, lambda: noise, ends=ends, possible=self.possible)

    def _estimate(self, frame: str | None) -> Estimate:
        question = self._question
        return Estimate(
            self.value,
            self.noise_std_error,
            std_error=None if question.is_mean or question.ends else self.std_error,
            ends=question.ends or (self.ends if question.is_mean else None),
            sampling=None if question.ends else self.sampling,
            possible=self.possible,
            labels=question.labels,
            frame=frame,
        )

    def noise_std_error(self) -> NDArray[np.float64]:
        """Return the standard deviation that the noise gives to the answer."""
        again = self._asked.at_points()
        slope = self._asked.approximation(again)[0] if self._is_linear else None
        found = self._noise(again.model, again.values, slope)
        alike = again.two_values is not None and not np.ptp(again.values, axis=0).all()
        if alike and self._question.is_mean:
            # Where all points agree, the noise is that of the cells that may hold others.
            found = np.maximum(found, np.max([error for _, error in self._sides], axis=0))
        return found

    def std_error(self) -> NDArray[np.float64]:
        """Return the standard error of what is no mean: of noise, and of rows unlike the points."""
        again = self._asked.at_points()
        slope, rest = self._asked.approximation(again)
        missed = self._missed(rest)
        draws, n_drawn = again.model.replicates(again.values)
        if missed.any():
            draws = draws + self._residual_draws(again, slope, missed, len(draws))
        return self._spread(draws, n_drawn)

    def _residual_draws(
        self, asked: AtPoints, slope: NDArray, missed: NDArray, n_draws: int
    ) -> NDArray[np.float64]:
        """Return normal draws of what the regression may miss, together for all outputs, (B, k)."""
        residuals = asked.model.residuals(asked.values, slope)[:_POINTS_OF_RESIDUALS]
        size = np.linalg.norm(residuals, axis=0)
        residuals *= np.divide(missed, size, out=np.zeros_like(size), where=size > 0)
        covariance, rng = residuals.T @ residuals, np.random.default_rng(0)
        return _normal(np.zeros(len(size)), covariance, rng, n_draws)

    def _missed(self, rest: NDArray) -> NDArray[np.float64]:
        """Return the standard deviation of what the regression misses of the rows, shape (k,)."""
        of_residuals = 0.0 if self._shift is None else self._shift.of_residuals
        return np.sqrt(of_residuals * np.maximum(rest, 0.0))

    def sampling(self) -> NDArray[np.float64]:
        """Return the standard deviation that a random choice of the rows gives to the answer."""
        again = self._asked.at_points()
        weights, values = again.model.weights, again.values
        # Rows of a person may be alike, and then tell no more than one.
        n_independent = self._n_rows / most_rows_of_a_unit(self._model.sketch.privacy)
        if self._question.is_mean:
            square = weights @ values**2 - (weights @ values) ** 2
            error = np.sqrt(np.maximum(square, 0.0) / n_independent)
            return self._question.without_clipping(error, self._n_rows)
        assert self._question.then is not None
        centred = values - self._mean
        covariance = (centred * weights[:, None]).T @ centred / n_independent
        draws = _normal(self._mean, covariance, np.random.default_rng(0))
        return np.std([self._question.then(draw, self._n_rows) for draw in draws], axis=0)

    def ends(self, z: float) -> tuple[NDArray, NDArray]:
        """Return how far the answer reaches at `z` standard errors, wherever rows lie."""
        (low, low_error), (high, high_error) = self._sides
        shape = np.shape(self.value)
        return (low - z * low_error).reshape(shape), (high + z * high_error).reshape(shape)

    @cached_property
    def _sides(self) -> list[tuple[NDArray, NDArray]]:
        """The statistics of the questions below and above, and their standard errors."""
        move = self._question.without_clipping
        found = []
        for side in self._asked.sides(self._asked.at_points()):
            missed = self._missed(side.rest)
            noise = self._noise(side.model, side.values, side.slope)
            end = side.model.answer(side.values) + side.more
            error = np.hypot(noise, move(missed, self._n_rows))
            found.append((move(end, self._n_rows), error))
        return found

    @property
    def _is_linear(self) -> bool:
        """Whether the noise of the statistic is known without simulation."""
        question = self._question
        return question.is_mean and not question.counts_rows and self._model.sketch.is_linear

    def _noise(
        self, model: MomentRegression, values: NDArray, slope: NDArray | None
    ) -> NDArray[np.float64]:
        move = self._question.without_clipping
        if slope is not None and self._is_linear:
            return move(model.sketch.linear_noise_std(slope), self._n_rows)
        # Of a ratio, a product or a post-processed mean the spread is that of simulated releases.
        return self._spread(*model.replicates(values))

    def _spread(self, draws: NDArray, n_drawn: NDArray) -> NDArray[np.float64]:
        """Return the standard error, for simulated means and numbers of rows."""
        if self._question.error is not None:
            return self._question.error(self._mean, draws)
        return np.std(self._question.without_clipping(draws, n_drawn), axis=0)

    def _judge(self, first: AtPoints) -> bool:
        """Warn of what the error bars do not hold; return whether there was any."""
        question = self._question
        if question.judged is None:
            return False
        if question.judged is not question.function:
            hard = question.judged(self._positions.rows())  # type: ignore[operator]
            hard = np.where(np.isnan(hard), np.nanmean(hard, axis=0), hard)
            nowhere = np.zeros(hard.shape[1])
            return warn_of_the_unexplained(
                self._model, hard, question.about, nowhere, entries=question.entries
            )
        # Of named statistics, a share of 0 or 1 is no misspelt category.
        hidden = self._asked.hidden(first)
        asked: Any = question.function
        if question.of_user and warn_of_the_unseen(self._model, asked, self._positions):
            return True
        of_truths = question.of_user and first.two_values is not None
        constant = of_truths and warn_of_constants(first.values, hidden)
        few = first.values.shape[1] <= MOST_JUDGED
        known = self._asked.approximation(first) if few else None
        unexplained = warn_of_the_unexplained(
            first.model, first.values, question.about, hidden, known, question.entries
        )
        return constant or unexplained

    def _possible(self, first: AtPoints) -> tuple[Any, Any]:
        question = self._question
        if question.counts_rows:  # of which there are so many, up to three standard errors
            return 0.0, float(self._n_rows) + 3 * self._model.sketch.n_noise_std
        if question.possible is not None:
            return question.possible
        if isinstance(question.function, ColumnCondition):  # its bins are not the answer's
            return 0.0, 1.0
        return first.two_values or self._asked.range(first.values)


class Among(NamedTuple):
    """What makes a mean over the rows that hold a value one over all rows.

    The mean of f over these is c where f - c, and 0 for the others, has the mean 0. That is linear
    in the sketch: noise, approximation and what hides in cells are those of
    ``c + (f - c) / share``, with c for rows that hold no value.

    Parameters
    ----------
    mean : ndarray of shape (k,)
        c, as it is answered.
    share : ndarray of shape (k,)
        Of the rows that hold a value: where noise is large the least that it may be, so that no
        error is too small.
    """

    mean: NDArray[np.float64]
    share: NDArray[np.float64]

    @classmethod
    def of(cls, model: MomentRegression, values: NDArray, present: NDArray) -> Among:
        """Return it for the values of a function, of which some rows have none."""
        share, noise = _shares(model, present)
        least = np.maximum(share, np.maximum(noise, _LEAST_SHARE))
        low = np.min(values, axis=0, where=present, initial=np.inf)
        high = np.max(values, axis=0, where=present, initial=-np.inf)
        mean = np.clip(model.answer(np.where(present, values, 0.0)) / least, low, high)
        everywhere = present.all(axis=0)
        return cls(
            np.where(everywhere, 0.0, mean),
            np.where(everywhere, 1.0, np.maximum(share - 2 * noise, least / 4)),
        )

    def whole(self) -> Among:
        """Return what gives rows without a value the mean, and leaves the others alone."""
        return Among(self.mean, np.ones_like(self.share))

    def values(self, values: NDArray, present: NDArray) -> NDArray[np.float64]:
        """Return the values of the function over all rows, shape (n, k)."""
        return np.where(present, self.mean + (values - self.mean) / self.share, self.mean)


def _shares(model: MomentRegression, present: NDArray) -> tuple[NDArray, NDArray]:
    """Return the shares of the rows that hold a value, shape (k,), and their standard errors."""
    # Most outputs are of the same rows, and values at 100,000 points are large.
    of = [column.tobytes() for column in present.T]
    distinct = {key: k for k, key in enumerate(of)}
    there = present[:, list(distinct.values())].astype(np.float64)
    noise = model.sketch.linear_noise_std(model.coefficients(there))
    which = [list(distinct).index(key) for key in of]
    return model.answer(there)[which], noise[which]


def _asked_of_those_present(function: Callable, among: Among, rows: Any) -> NDArray[np.float64]:
    found = np.asarray(function(rows), np.float64)
    values = found.reshape(len(rows), -1)
    gone = np.isnan(values)
    if not isinstance(function, OfGroups):
        gone &= rows.absent()[:, None]
    return among.values(values, ~gone).reshape(found.shape)


class AtPoints(NamedTuple):
    """A function's values at the points, the regression that they are for, and of what kind.

    `two_values` are those that a condition has: 0 and 1, or others where it is multiplied. They
    are None for a number.
    """

    model: MomentRegression
    values: NDArray[np.float64]
    is_scalar: bool
    two_values: tuple[NDArray, NDArray] | None


class Side(NamedTuple):
    """A question below an answer or above it: its values, where it is asked, what to add.

    `rest` is the mean square of what the regression misses of it.
    """

    model: MomentRegression
    values: NDArray
    slope: NDArray
    rest: NDArray
    more: NDArray


class AskedFunction:
    """What a function is at the points, and how far it reaches wherever in their cells rows lie.

    Parameters
    ----------
    function : callable, of rows
    model : MomentRegression
    positions : Positions
        Of the model's points.
    """

    def __init__(self, function: Any, model: MomentRegression, positions: Positions):
        self.model, self.positions = model, positions
        self._approximation: tuple[NDArray, NDArray] | None = None
        self.function, self._among = self._of_those_present(function)

    def _of_those_present(self, function: Any) -> tuple[Any, Among | None]:
        """Return a function whose mean over all rows is that of `function` over those it is of."""
        rows = self.positions.rows()
        of_groups = isinstance(function, OfGroups)
        if not of_groups and not any(map(self.positions.columns.missing, range(rows.shape[1]))):
            return function, None
        values = values_at(function, rows) if of_groups else evaluate_rows(function, rows)[0]
        gone = np.isnan(values)
        if not gone.any():
            return function, None
        among = Among.of(self.model, values, ~gone)
        return partial(_asked_of_those_present, function, among), among

    def at_points(self) -> AtPoints:
        """Ask the points."""
        values, is_scalar = evaluate_rows(self.function, self.positions.rows())
        return AtPoints(self.model, values, is_scalar, self._two_values(values))

    @cached_property
    def _few_extremes(self) -> tuple[NDArray, NDArray]:
        return self.positions.few.extremes(self.function)

    def _two_values(self, values: NDArray) -> tuple[NDArray, NDArray] | None:
        """Return the two values of a condition, wherever rows lie; None for a number."""
        met = values, *self._few_extremes
        low = np.min([v.min(axis=0) for v in met], axis=0)
        high = np.max([v.max(axis=0) for v in met], axis=0)
        if not all(np.all((v == low) | (v == high)) for v in met):
            return None
        if np.isin([low, high], (0, 1)).all():
            return _zeros_and_ones(values)
        return None if np.any(low == high) else (low, high)

    def hidden(self, asked: AtPoints) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        if asked.two_values is None:
            return np.zeros(asked.values.shape[1])
        low, high = self._few_extremes
        return np.mean(high > low, axis=0)

    def approximation(self, asked: AtPoints) -> tuple[NDArray, NDArray]:
        """Return `MomentRegression.approximate`; it is kept, where values would be too large."""
        if self._approximation is None:
            self._approximation = asked.model.approximate(asked.values)
        return self._approximation

    def sides(self, asked: AtPoints) -> list[Side]:
        """Return a question below and one above.

        A truth lies between two questions that have one answer in each cell, and whose noise is
        that of the cells. Of a number the approximation is asked: what it misses at most.
        """
        if asked.two_values is not None:
            reached = self.positions.extremes(self.function)
            return _sides_of_zeros_and_ones(self.model, *reached, asked.two_values)
        few, values = self.positions.few, asked.values
        slope, rest = self.approximation(asked)
        low, high = np.full(values.shape[1], np.inf), np.full(values.shape[1], -np.inf)
        for rows, phi in zip((few.rows(), *few.moved(few.numeric)), few.features(), strict=True):
            found = values_at(self.function, rows)
            missed = self.model.residuals_elsewhere(phi, found, values, slope)
            low = np.minimum(low, np.where(np.isnan(missed), -np.inf, missed))
            high = np.maximum(high, np.where(np.isnan(missed), np.inf, missed))
        within = np.mean((high - low) ** 2, axis=0) / 4  # of what is missed, the moves explain this
        beyond = _missed(self.model, values, slope, rest - within)
        return [
            Side(self.model, values, slope, rest, low.mean(axis=0) - beyond),
            Side(self.model, values, slope, rest, high.mean(axis=0) + beyond),
        ]

    def range(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return the least and the largest value, at the points and where ranges end."""
        function = self.function
        if self._among is not None:  # of the rows that hold one
            function = partial(function.func, function.args[0], self._among.whole())
            values = values_at(function, self.positions.rows())
        some, columns = self.positions.points[:_POINTS_FOR_RANGE], self.positions.columns
        corners = Positions(self.positions.feature_map, columns, some, whole=True)
        low, high = corners.extremes(function)
        low = np.where(np.isnan(low), -np.inf, low).min(axis=0)
        high = np.where(np.isnan(high), np.inf, high).max(axis=0)
        return np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))


class AskedCondition(AskedFunction):
    """`AskedFunction` for a `ColumnCondition`: what it is in a cell is known without asking."""

    function: ColumnCondition

    def _of_those_present(self, function: ColumnCondition) -> tuple[ColumnCondition, Among | None]:
        if not self.positions.columns.missing(function.column):
            return function, None
        cells = self.positions.cells(function.column)
        there = cells.present[cells.place]
        beyond = len(function.truths)  # the bin of the points that lack a value
        bins = np.where(there, function.bins(), beyond)
        truths = np.vstack([function.truths, np.zeros_like(function.truths[:1])])
        known = np.broadcast_to(np.arange(beyond + 1)[:, None] < beyond, truths.shape)
        model = self.model.in_cells(bins, beyond + 1)
        among = Among.of(model, truths.astype(np.float64), known)

        def extremes(low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
            certain, possible = function.extremes(low, high)
            present = cells.present[:, None]
            return among.values(certain, present), among.values(possible, present)

        of_all = ColumnCondition(
            function.column, lambda: bins, among.values(truths, known), extremes
        )
        return of_all, among

    def at_points(self) -> AtPoints:
        """Ask the points."""
        bins = self.function.bins()
        met = np.bincount(bins, minlength=len(self.function.truths)) > 0
        model = self.model.in_cells((np.cumsum(met) - 1)[bins], int(met.sum()))
        values = self.function.truths[met].astype(np.float64)
        return AtPoints(model, values, False, _zeros_and_ones(values))

    def hidden(self, asked: AtPoints) -> NDArray[np.float64]:
        """Return the share of the points whose places in their cells decide, shape (k,)."""
        low, high = self._extremes()
        place = self.positions.cells(self.function.column).place[:FEW_POINTS]
        # Of the rows that hold a value, of which there may be fewer than there are points.
        return np.minimum(np.mean((high.astype(np.float64) - low)[place], axis=0), 1.0)

    def sides(self, asked: AtPoints) -> list[Side]:
        """Return a question below and one above."""
        low, high = self._extremes()
        place = self.positions.cells(self.function.column).place
        model = self.model.in_cells(place, len(low))
        return _sides_of_zeros_and_ones(model, low, high, _zeros_and_ones(low), known=True)

    def _extremes(self) -> tuple[NDArray, NDArray]:
        _, low, high = self.positions.cells(self.function.column)
        return self.function.extremes(low[:, None], high[:, None])


def _zeros_and_ones(values: NDArray) -> tuple[NDArray, NDArray]:
    return np.zeros(values.shape[1]), np.ones(values.shape[1])


def _sides_of_zeros_and_ones(
    model: MomentRegression,
    low: NDArray,
    high: NDArray,
    ends: tuple[NDArray, NDArray],
    *,
    known: bool = False,
) -> list[Side]:
    """Return the sides of a condition that is from `low` to `high` in each cell.

    Unless that is `known`, nothing is known of rows unlike all points, where these are alike.
    """
    k = low.shape[1]
    values = np.hstack([low, high]).astype(np.float64)
    slope, rest = model.approximate(values)
    error = _missed(model, values, slope, rest)
    if not known:
        alike = np.hstack([np.all(low > ends[0], axis=0), np.all(high < ends[1], axis=0)])
        error[alike] = np.tile(ends[1] - ends[0], 2)[alike]
    return [
        Side(model, values[:, :k], slope[:, :k], rest[:k], -error[:k]),
        Side(model, values[:, k:], slope[:, k:], rest[k:], error[k:]),
    ]


def _missed(
    model: MomentRegression, values: NDArray, slope: NDArray, rest: NDArray
) -> NDArray[np.float64]:
    """Return the largest error met at the points, where phi explains too little; else 0."""
    bad = unexplained(model, slope, rest, model.variance(values), errors=_ONE_ERROR_MISSED)
    error = np.zeros(values.shape[1])
    if bad.any():
        residuals = model.residuals(values[:, bad], slope[:, bad])
        error[bad] = np.abs(residuals).max(axis=0)
    return error


def _normal(
    mean: NDArray, covariance: NDArray, rng: np.random.Generator, n_draws: int = _N_DRAWS
) -> NDArray[np.float64]:
    """Return normal draws, shape (B, k); noise may have left the covariance indefinite."""
    # Of correlations: squares of incomes beside shares would leave rounding errors in the shares.
    size = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    unit = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    root = size[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + rng.standard_normal((n_draws, len(mean))) @ root.T
