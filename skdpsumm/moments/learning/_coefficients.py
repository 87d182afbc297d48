"""The coefficients of a regression on a release, with errors that a statistician can report.

A coefficient is, to first order, a mean over the rows: each row moves it by its influence, which is
the inverse of the curvature of the loss times the score of the row [1]_. So what a release leaves
open of a coefficient is what it leaves open of the mean of a function of rows: noise, how columns
go together where nobody counted them together, where in their cells rows lie. And the spread of
the influence over the rows gives the sampling error, that of the sandwich estimator. The variances
add up, as in Rubin's rules; [2]_ does it for releases whose error is noise alone.

References
----------
.. [1] van der Vaart (1998), "Asymptotic Statistics", theorem 5.21.
.. [2] Raisa, Jalko, Kaski and Honkela (2023), "Noise-aware statistical inference with
       differentially private synthetic data", AISTATS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ..._computing import advance, warn_caller
from ...schema._columns import Categorical
from ...schema._schema import TableSchema
from ..asking._estimate import Estimate
from ..asking._filled_cells import MOST_CELLS
from ..asking._graphical_answer import GraphicalAnswer
from ..asking._parts import ModelAnswers
from ..asking._positions import NamedRows
from ..asking._question import Question
from ..asking._warnings import AnswerWarning, first_of, warn_of_the_drowned
from ..inferring._points import absent

Floats = NDArray[np.float64]

# Weights of rows are tilted by so much along each score, to see how an estimator responds: enough
# to be told from what its solver leaves, and little enough to be linear.
_TILT = 0.1
# Standard deviations of a score, beyond which rows are tilted no more.
_FARTHEST = 3.0
# Of the largest: smaller singular values are those of combinations that do not matter.
_SINGULAR = 1e-9
# Of the mean weight, below which a row teaches nothing.
_NOTHING = 1e-9
# Rows that an indicator needs, each worth the variance of its label; fewer say nothing of it.
_FEWEST_ROWS = 0.5
# At so many standard errors ends are looked at from where they are, and may move by this factor.
_SEEN_AT, _STRETCHED, _LEAST_SLOPE = 2.0, 1.5, 0.1


class Design:
    """The inputs of a regression: numbers, and an indicator of each category but the first.

    Numbers are scaled to [0, 1] for the fit, and coefficients back to the columns' units.

    Parameters
    ----------
    schema : TableSchema
        Of the whole table.
    columns : sequence of int
        The inputs.
    """

    def __init__(self, schema: TableSchema, columns: Sequence[int]):
        self.schema, self.columns = schema, tuple(columns)
        names, low, width, indicators = ["intercept"], [], [], []
        for j in self.columns:
            own, name = schema.columns[j], schema.name(j)
            if isinstance(own, Categorical):
                names += [f"{name}={value}" for value in own.categories[1:]]
                low += [0.0] * (len(own.categories) - 1)
                width += [1.0] * (len(own.categories) - 1)
                indicators += [True] * (len(own.categories) - 1)
            else:
                names.append(name)
                low.append(own.bounds[0])
                width.append(own.bounds[1] - own.bounds[0])
                indicators.append(False)
            if own.missing:
                names.append(f"{name} is missing")
                low.append(0.0)
                width.append(1.0)
                indicators.append(True)
        self.names, self.indicators = names, np.array(indicators, bool)
        self._low, self._width = np.array(low), np.array(width)

    def matrix(self, rows: Any) -> Floats:
        """Return the inputs of rows of the table, shape (n, k)."""
        return np.column_stack([part for j in self.columns for part in self._encoded(rows, j)])

    def _encoded(self, rows: Any, j: int) -> list[NDArray]:
        own = self.schema.columns[j]
        if isinstance(own, Categorical):
            codes = self.schema.code(rows, j)
            return list(np.eye(own.n_codes)[codes].T[1:])
        numbers = self.schema.number(rows, j)
        gone, (low, high) = np.isnan(numbers), own.bounds
        # A missing number counts as the lowest one: its indicator tells the rest.
        scaled = np.where(gone, 0.0, (numbers - low) / (high - low))
        return [scaled, gone.astype(np.float64)] if own.missing else [scaled]

    def in_units(self, scaled: Floats) -> Floats:
        """Return intercepts and slopes, on the last axis, in the units of the columns."""
        slopes = scaled[..., 1:] / self._width
        start = scaled[..., :1] - (slopes @ self._low)[..., None]
        return np.concatenate([start, slopes], axis=-1)


class Regression:
    """A regression on what a model tells of a table.

    Parameters
    ----------
    answers : ModelAnswers
    design : Design
    target : int
        Column of the table.
    fit : callable
        Takes inputs, cells of the target and weights of rows, and returns a fitted linear
        estimator.
    observed : callable
        Takes cells of the target and returns numbers, shape (n, 1), or indicators of the classes,
        shape (n, n_classes).
    is_plain : bool
        Whether the estimator has no penalty: squares for numbers, log-loss for classes.
    """

    def __init__(
        self,
        answers: ModelAnswers,
        design: Design,
        target: int,
        fit: Callable[[Floats, NDArray, Floats], Any],
        observed: Callable[[NDArray], Floats],
        *,
        is_plain: bool,
    ):
        self._answers, self._design, self._target = answers, design, target
        self._fit, self._observed, self._is_plain = fit, observed, is_plain
        self._inputs, self._cells, self._weights = self._rows()
        self._estimator = self._fitted(self._weights)
        self._inverse = self._inverse_curvature()

    @property
    def value(self) -> Floats:
        """The coefficients, shape (1 + k,), or (n_classes, 1 + k) for more than two classes."""
        found = self._design.in_units(self._scaled(self._estimator))
        return found[0] if len(found) == 1 else found

    @cached_property
    def influence(self) -> GraphicalAnswer:
        """The mean of the rows' influence on the coefficients, which is about 0."""
        return GraphicalAnswer(Question(function=self._influence), self._answers)

    def to_estimate(self, classes: Sequence[str], frame: str | None) -> Estimate:
        """Return the coefficients as users see them."""
        value, answer, names = self.value, self.influence, self._design.names
        unknown = self._unknown()
        self._warn_of(unknown)
        beyond = np.where(unknown, np.inf, 0.0).reshape(value.shape)

        def ends(z: float) -> tuple[Floats, Floats]:
            reach = (by * end for by, end in zip(self._stretch, self._reach(z), strict=True))
            low, high = (value + one.reshape(value.shape) for one in reach)
            return low - beyond, high + beyond

        return Estimate(
            value,
            answer.noise_std_error,
            ends=ends,
            sampling=answer.sampling,
            labels=[names] if value.ndim == 1 else [classes, names],
            frame=frame,
        )

    def _reach(self, z: float) -> tuple[Floats, Floats]:
        """Return how far below and above the coefficients lie at z standard errors, all in a row.

        That is about what counts say without the model, and about the model's own coefficients. It
        has no negative counts, which flattens slopes; unbiased ones overshoot.
        """
        # Of the model's own rows the mean influence is 0, but for what a penalty leaves.
        own = self._moved(self._scores(self._inputs, self._cells))
        own = np.average(own, axis=0, weights=self._weights)
        errors, (above, noise) = self.influence.errors, self.influence.counted
        low, high = (end - own for end in self.influence.ends(z))
        for middle, variance in (
            (0.0, errors.variance),
            (above, np.maximum(noise + errors.variance - errors.noise, 0.0)),
        ):
            low = np.minimum(low, middle - z * np.sqrt(variance))
            high = np.maximum(high, middle + z * np.sqrt(variance))
        return low, high

    @cached_property
    def _stretch(self) -> tuple[Floats, Floats]:
        """By what the reach below and above is multiplied, from 1 to `_STRETCHED`.

        Errors are to first order, about the coefficients that were found. Where noise far out made
        a slope flat, they are too small. So each end is looked at from there: where counts speak
        against it no more than by chance, it moves on.
        """
        if not self._is_plain:
            return np.ones(()), np.ones(())
        found = [self._stretched(reach, side) for side, reach in enumerate(self._reach(_SEEN_AT))]
        return found[0], found[1]

    def _stretched(self, reach: Floats, side: int) -> Floats:
        n_outputs, n = len(self._scaled(self._estimator)), len(self._design.names)
        in_units = np.kron(np.eye(n_outputs), self._design.in_units(np.eye(n)).T)
        moves = in_units @ self._inverse  # by which scores move coefficients, one a row
        square = np.maximum(np.sum(moves * in_units, axis=1), np.finfo(float).tiny)
        # With the other coefficients where they then fit best.
        there = self._scaled(self._estimator).ravel() + (reach / square)[:, None] * moves
        shape = -1, n_outputs, n
        pairs = list(zip(there.reshape(shape), moves.reshape(shape), strict=True))

        def influence(rows: Any) -> Floats:
            cells = rows[:, self._target]
            gone = absent(self._answers.model.schema, cells, self._target)
            found = np.full((len(cells), len(reach)), np.nan)
            if not gone.all():
                inputs = _with_ones(self._design.matrix(rows)[~gone])
                observed = self._observed(cells[~gone])[:, -n_outputs:]
                for k, (at, by) in enumerate(pairs):
                    rest = observed - self._linked(inputs @ at.T)
                    found[~gone, k] = np.sum(rest * (inputs @ by.T), axis=1)
            return found

        answer = GraphicalAnswer(Question(function=influence), self._answers)
        still = answer.ends(_SEEN_AT)[side]
        # Over so far the influence fell by so much: a step goes on along that line.
        fallen = np.asarray(self.influence.value) - np.asarray(answer.value)
        slope = np.divide(fallen, reach, out=np.ones_like(reach), where=reach != 0)
        step = np.divide(still, reach, out=np.zeros_like(reach), where=reach != 0)
        return np.clip(1 + step / np.clip(slope, _LEAST_SLOPE, 1.0), 1.0, _STRETCHED)

    def _linked(self, linear: Floats) -> Floats:
        """Return what a regression without a penalty expects, of its linear predictions."""
        if not hasattr(self._estimator, "predict_proba"):
            return linear
        return expit(linear) if linear.shape[1] == 1 else softmax(linear, axis=1)

    def _rows(self) -> tuple[Floats, NDArray, Floats]:
        """Return inputs, cells of the target and weights of the rows that stand for the table.

        Of few columns these fill all cells, as for any question.
        """
        model, columns = self._answers.model, tuple(sorted((*self._design.columns, self._target)))
        if model.n_cells(columns) <= MOST_CELLS:
            filled = self._answers.filled(columns, len(self._design.names))
            shares = np.maximum(model.table(columns), 0.0).ravel()
            rows, weights = filled.rows(), shares[filled.unit] * filled.weights
        else:
            rows, weights = NamedRows.of(model.points, model.schema), model.weights
        cells = rows[:, self._target]
        kept = ~absent(model.schema, cells, self._target)
        kept &= weights > _NOTHING * weights.mean()
        # As many rows as the table has: what a penalty does depends on their number.
        weights = weights[kept] / weights[kept].sum() * self._answers.n_rows
        return self._design.matrix(rows)[kept], cells[kept], weights

    def _fitted(self, weights: Floats) -> Any:
        advance()
        return self._fit(self._inputs, self._cells, weights)

    def _scaled(self, estimator: Any) -> Floats:
        """Return intercepts and slopes for scaled inputs, shape (n_outputs, 1 + k)."""
        slopes = np.atleast_2d(estimator.coef_)
        return np.column_stack([np.broadcast_to(estimator.intercept_, len(slopes)), slopes])

    def _unknown(self) -> NDArray[np.bool_]:
        """Return which coefficients hang on rows that the release does not show.

        They are those of indicators that hold for no rows, or for rows of one class alone. Their
        true values may be anything, which no error to first order tells. A penalty decides them.
        """
        indicators, expected = self._design.indicators, self._predicted(self._inputs)
        worth = np.ones((len(self._cells), 1))
        if expected.shape[1] > 1:
            worth = expected * (1 - expected)
        if expected.shape[1] == 2:
            worth = worth[:, 1:]
        found = np.zeros((worth.shape[1], len(self._design.names)), bool)
        if self._is_plain:
            rows = (worth * self._weights[:, None]).T @ self._inputs
            found[:, 1:] = indicators & (rows < _FEWEST_ROWS)
            found |= (worth.T @ self._weights < _FEWEST_ROWS)[:, None]  # a class that nobody has
        # Of several classes each coefficient is less their mean: one is known with all others.
        return found | found.any(axis=0) if len(found) > 1 else found

    def _warn_of(self, unknown: NDArray[np.bool_]) -> None:
        some = np.any(unknown, axis=0).tolist()
        names = [repr(name) for name, is_so in zip(self._design.names, some, strict=True) if is_so]
        if names:
            message = (
                "Leave columns out, merge rare categories, or give an estimator with a penalty. "
                f"The release does not tell the coefficients of {first_of(names)}: it shows no "
                "rows for them, or none of one class. Their intervals are infinite."
            )
            warn_caller(AnswerWarning(message, np.flatnonzero(unknown)))
        else:
            warn_of_the_drowned(self._answers.model.sketch, "these coefficients say nothing")

    # ---- how rows move coefficients

    def _influence(self, rows: Any) -> Floats:
        """Return how rows move the coefficients, shape (n, n_outputs * (1 + k)), or NaN."""
        cells = rows[:, self._target]
        gone = absent(self._answers.model.schema, cells, self._target)
        scores = np.full((len(cells), len(self._inverse)), np.nan)
        inputs = self._design.matrix(rows)
        if not gone.all():
            scores[~gone] = self._scores(inputs[~gone], cells[~gone])
        return self._moved(scores)

    def _moved(self, scores: Floats) -> Floats:
        """Return how rows with these scores move the coefficients."""
        moved = scores @ self._inverse
        shape = len(moved), -1, len(self._design.names)
        return self._design.in_units(moved.reshape(shape)).reshape(len(moved), -1)

    def _scores(self, inputs: Floats, cells: NDArray) -> Floats:
        """Return residuals times inputs, shape (n, n_outputs * (1 + k))."""
        observed = self._observed(cells)
        rest = observed - self._predicted(inputs)
        if rest.shape[1] == 2:
            rest = rest[:, 1:]
        return (rest[:, :, None] * _with_ones(inputs)[:, None, :]).reshape(len(inputs), -1)

    def _predicted(self, inputs: Floats) -> Floats:
        """Return what the regression expects where `_observed` says what is."""
        if hasattr(self._estimator, "predict_proba"):
            return self._estimator.predict_proba(inputs)
        return self._observed(self._estimator.predict(inputs))

    def _inverse_curvature(self) -> Floats:
        """Return the matrix that makes influences of scores, of scaled inputs."""
        if not self._is_plain:
            return self._response()
        weights = self._weights / self._weights.sum()
        expected = self._predicted(self._inputs)
        n_outputs = expected.shape[1]
        slope = np.ones((len(weights), 1, 1))
        if n_outputs > 1:
            slope = expected[:, :, None] * (np.eye(n_outputs) - expected[:, None, :])
        if n_outputs == 2:
            slope = slope[:, 1:, 1:]
        rows = _with_ones(self._inputs)
        blocks = [
            [(rows * (weights * one)[:, None]).T @ rows for one in by_class]
            for by_class in slope.transpose(1, 2, 0)
        ]
        return np.linalg.pinv(np.block(blocks), rcond=_SINGULAR, hermitian=True)

    def _response(self) -> Floats:
        """Return the same for any estimator: how it responds where scores are moved a little."""
        scores = self._scores(self._inputs, self._cells)
        weights = self._weights / self._weights.sum()
        tilts = scores - weights @ scores
        tilts /= np.maximum(_FARTHEST * np.sqrt(weights @ tilts**2), np.finfo(float).tiny)
        tilts = np.clip(tilts, -1.0, 1.0)
        tilts -= weights @ tilts
        first = self._scaled(self._estimator).ravel()
        found = [
            self._scaled(self._fitted(self._weights * (1 + _TILT * tilt))).ravel() - first
            for tilt in tilts.T
        ]
        moved = _TILT * (tilts * weights[:, None]).T @ scores
        return np.linalg.lstsq(moved, np.array(found), rcond=_SINGULAR)[0]


def _with_ones(inputs: Floats) -> Floats:
    return np.column_stack([np.ones(len(inputs)), inputs])
