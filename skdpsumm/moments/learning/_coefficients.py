"""The coefficients of a regression on a release, with errors that a statistician can report.

The regression is fitted to the rows of the model. From there it takes one step of Newton's to each
plausible table [1]_: by the table's own scores and curvature, whose weights may be negative. So
what a release leaves open of a coefficient is what its plausible tables say, and the bootstrap of
their rows gives the sampling error. [2]_ does it for releases whose error is noise alone. By the
curvature of the model, most intervals were narrower, and categories of one row in a hundred erred
up to eight times as much.

References
----------
.. [1] van der Vaart (1998), "Asymptotic Statistics", theorem 5.21.
.. [2] Raisa, Jalko, Kaski and Honkela (2023), "Noise-aware statistical inference with
       differentially private synthetic data", AISTATS.
.. [3] Sun and Tran-Dinh (2019), "Generalized self-concordant functions: a recipe for Newton-type
       methods", Mathematical Programming 178, theorem 2.
.. [4] Nocedal and Wright (2006), "Numerical Optimization", section 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax
from sklearn.base import is_classifier

from ..._computing import TINY, UNIT, Floats, warn_caller
from ..._html import some_of
from ..._linear_systems import Design, of_tables
from ...schema._columns import Categorical
from .._numbers import LEAST_CURVATURE, ROUNDING, ROWS_OF_MODEL
from ..asking._estimate import AnswerWarning, Estimate, near_the_middle, warn_of_the_drowned
from ..plausible._rows import designs


class Regression:
    """A regression on what a release tells of a table.

    Its inputs are numbers, and an indicator of each category but the first. Numbers are scaled to
    [0, 1] for the fit, and coefficients back to the columns' units.

    Parameters
    ----------
    model : M2MClassifier or M2MRegressor
        That a graphical model of the release has trained.
    inputs : sequence of int
        Columns of its table.
    """

    def __init__(self, model: Any, inputs: Sequence[int]):
        self._model, self._target = model, model._target
        self._plausible = model._plausible
        self._columns = [(j, model._table.columns[j]) for j in inputs]
        terms = [term for j, column in self._columns for term in self._terms(j, column)]
        self._names = ["intercept", *(name for name, *_ in terms)]
        self._indicators = np.array([not bound for _, bound in terms], bool)
        self._low, high = np.array([bound or (0.0, 1.0) for _, bound in terms]).reshape(-1, 2).T
        self._width = high - self._low
        self._is_of_classes = is_classifier(model)
        self._rows, self._observed, self._weights = next(self._tables("model"))
        # Intercepts and slopes for scaled inputs, shape (n_outputs, 1 + k).
        self._start = np.zeros((len(self._observed), len(self._names)))
        self._root = self._fit()

    def _terms(self, j: int, own: Any) -> list[tuple[str, tuple[float, float] | None]]:
        """Return the name of each input that a column makes, and the range of one of numbers."""
        name = self._model._table.name(j)
        if isinstance(own, Categorical):
            terms: list = [(f"{name}={value}", None) for value in own.categories[1:]]
        else:
            terms = [(name, own.bounds)]
        return [*terms, (f"{name} is missing", None)] if own.missing else terms

    def to_estimate(self) -> Estimate:
        """Return the coefficients as users see them."""
        unknown, is_single, labels = self._unknown(), len(self._start) == 1, [self._names]
        if not is_single:
            labels.insert(0, [str(label) for label in self._model.classes_])
        self._warn_of(unknown)

        @cache  # the value is asked of the same tables
        def ask(covers: str) -> Floats:
            scaled = self._start + np.concatenate([self._start[None] * 0, *self._steps(covers)])
            slopes = scaled[..., 1:] / self._width  # in the units of the columns
            start = scaled[..., :1] - (slopes @ self._low)[..., None]
            found = np.concatenate([start, slopes], axis=-1)
            found[1:, unknown] = np.nan
            return found[:, 0] if is_single else found

        value, frame = near_the_middle(ask("table")), self._model._frame
        return Estimate(ask, value=value, labels=labels, frame=frame, release=self._plausible)

    def _fit(self) -> Floats:
        """Set the coefficients of the model's rows, and return the inverse root of the curvature.

        Newton's steps are halved until they lead down, at most to a length that surely does [3]_.
        """
        rows, observed, weights = self._rows, self._observed, self._weights
        each = np.ones_like(observed) if self._is_of_classes else observed**2
        scale, gained = max(float(np.sum(weights * each)), TINY), np.inf
        while gained > ROUNDING * scale:
            (score,), (curvature,) = self._newton(rows, observed, weights)
            root = _inverse_root(curvature, len(self._start))
            step = root @ (root.T @ score)
            gained, step = float(score @ step), step.reshape(self._start.shape)
            length = self._length(step, gained) if self._is_of_classes else 1.0
            self._start += length * step
        return root

    def _length(self, step: Floats, gained: float) -> float:
        """Return how much of a step of Newton's to take: all of it, where the loss falls enough."""
        # Scores of all classes; of two, the first has a score of 0.
        now, moves, truths = (
            np.pad(one, ((int(len(step) == 1), 0), (0, 0)))
            for one in (self._rows.at(self._start), self._rows.at(step), self._observed[:, 0])
        )
        reach = max(float(np.ptp(moves, axis=0).max()), TINY)
        sure = math.log1p(reach) / reach
        along, loss, length = np.sum(moves * truths, axis=0), logsumexp(now, axis=0), 1.0
        while length > sure:
            risen = logsumexp(now + length * moves, axis=0) - loss - length * along
            # A quarter of what the slope promises is enough [4]_.
            if risen @ self._weights[0] <= -0.25 * length * gained:
                return length
            length /= 2
        return sure

    def _steps(self, covers: str) -> Iterator[Floats]:
        """Yield how far the coefficients of some plausible tables are from the model's."""
        root = self._root
        for table in self._tables(covers):
            score, curvature = self._newton(*table)
            values, vectors = np.linalg.eigh(root.T @ curvature @ root)
            moved = (score @ root)[:, None] @ vectors / np.maximum(values, LEAST_CURVATURE)[:, None]
            yield (moved @ vectors.swapaxes(1, 2) @ root.T).reshape(-1, *self._start.shape)

    def _tables(self, covers: str) -> Iterator[tuple[Design, Floats, Floats]]:
        """Yield the inputs of the model, or of some tables, what is observed there, and weights."""
        columns = sorted((self._target, *(j for j, _ in self._columns)))
        found = self._plausible.rows(columns, covers, empty=False)
        kept: Any = ~found.absent(self._target)[0]
        if covers == "model":  # other rows teach nothing
            kept &= found.weights[0] > ROUNDING * found.weights[0].mean()
        kept = slice(None) if kept.all() else kept
        cells = found.column(self._target)[:, kept]
        seen = self._model._observed(cells.ravel()).reshape(*cells.shape, -1)
        for some, inputs in designs(found, [j for j, _ in self._columns], kept=kept):
            yield inputs, np.moveaxis(of_tables(seen, some), -1, 0), found.weights[some][:, kept]

    def _unknown(self) -> NDArray[np.bool_]:
        """Return which coefficients hang on rows that the release does not show.

        They are those of indicators that hold for no rows, or for rows of one class alone. Their
        true values may be anything, which no error to first order tells.
        """
        expected = self._predicted(self._rows)[:, 0]
        worth = expected * (1 - expected) if self._is_of_classes else np.ones_like(expected)
        # Fewer rows, each worth the variance of its label, say nothing of an indicator.
        found = self._rows.sums(worth * self._weights) < 0.5
        found[:, 1:] &= self._indicators
        found |= found[:, :1]  # a class that nobody has
        # Of several classes each coefficient is less their mean: one is known with all others.
        return found | found.any(axis=0)

    def _warn_of(self, unknown: NDArray[np.bool_]) -> None:
        names = [self._names[k] for k in np.flatnonzero(unknown.any(axis=0))]
        if names:
            message = (
                "Leave columns out, merge rare categories, or ask `M2MEstimator.statistic` for a "
                f"fit with a penalty. The release does not tell the coefficients of "
                f"{some_of(names)}: it shows no rows for them, or none of one class. Their "
                "intervals are infinite."
            )
            warn_caller(AnswerWarning(message, np.flatnonzero(unknown)))
        elif self._plausible.sketch.is_drowned:
            warn_of_the_drowned("these coefficients say nothing")

    # ---- how rows move coefficients

    def _predicted(self, rows: Design) -> Floats:
        """Return what the regression expects, shape (n_outputs, n_tables, n)."""
        found = np.stack([rows.at(own[None]) for own in self._start])
        if not self._is_of_classes:
            return found
        return expit(found) if len(found) == 1 else softmax(found, axis=0)

    def _newton(self, rows: Design, observed: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return slopes of the loss, (n_tables, n_outputs * (1 + k)), and its curvatures."""
        expected = self._predicted(rows)
        score = [rows.sums(one * weights) for one in observed - expected]
        each, blocks = range(len(score)), dict[tuple[int, int], Floats]()
        for i, j in combinations_with_replacement(each, 2):
            slope = expected[i] * ((i == j) - expected[j]) if self._is_of_classes else 1.0
            blocks[i, j] = blocks[j, i] = rows.squares(weights * slope)
        return np.concatenate(score, axis=1), np.block([[blocks[i, j] for j in each] for i in each])


def _inverse_root(curvature: Floats, n_outputs: int) -> Floats:
    """Return R with ``R.T @ curvature @ R`` the identity, without directions that do not matter."""
    # Units give each input the curvature 1: a range may be far wider than the values. They are
    # those of all classes, so that the coefficients of these still sum to 0.
    of_inputs = np.diagonal(curvature).reshape(n_outputs, -1).sum(axis=0)
    # An input with less of it than a rounding error has none.
    units = np.tile(np.maximum(of_inputs, max(UNIT**2 * of_inputs.max(), TINY)) ** -0.5, n_outputs)
    values, vectors = np.linalg.eigh(curvature * units * units[:, None])
    # Sums of so many rows are off by this part. Of classes that are apart little more is left.
    kept = values > ROWS_OF_MODEL * UNIT * values.max()
    return units[:, None] * vectors[:, kept] / np.sqrt(values[kept])
