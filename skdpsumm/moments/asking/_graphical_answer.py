"""Answers from the graphical model of a sketch's histograms, and the whole of their error.

A question is a function of rows, or several. Each is asked of the columns that it depends on, as a
`CellPart` or a `PointsPart`; here their answers and errors come together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ..inferring._points import absent
from ..inferring._table_model import TableModel
from ._estimate import Estimate
from ._filled_cells import MOST_CELLS, some_values, values_anywhere
from ._parts import CellPart, Errors, ModelAnswers, PointsPart
from ._positions import NamedRows, evaluate_rows, values_at
from ._question import ColumnCondition, Question
from ._warnings import warn_of_constants, warn_of_the_wide

Floats = NDArray[np.float64]
Group = tuple[int, ...]

# Rows of which a function is asked what it takes, and of which several are, what each depends on.
_FEW_ROWS, _MANY_ROWS = 256, 2**14


class GraphicalAnswer:
    """The answer to a question; its error is computed when it is asked for.

    Parameters
    ----------
    question : Question
    answers : ModelAnswers

    Attributes
    ----------
    value : ndarray
    possible : pair
        Least and largest value that it can have.

    Warns
    -----
    AnswerWarning
        Where its interval tells next to nothing, and where a condition holds nowhere.
    """

    def __init__(self, question: Question, answers: ModelAnswers):
        self._question, self._answers = question, answers
        self._parts: list[tuple[NDArray, CellPart | PointsPart]] = []
        self._n_outputs, self._is_scalar = 0, False
        for function in question.parts or (question.function,):
            self._add(_of_rows(function, answers.model.schema))
        self._n_rows = np.asarray(answers.n_rows)
        mean = self._joined([part.mean for _, part in self._parts])
        self.value = mean if question.then is None else question.then(mean, self._n_rows)
        self._mean = mean
        self.possible = self._possible()
        if self._is_scalar and np.shape(self.value) == (1,):
            self.value = self.value[0]
            self.possible = tuple(np.ravel(end)[0] for end in self.possible)
        self._judge()

    def _add(self, function: Callable[[Any], Any]) -> None:
        """Take a function in, in parts of few columns each."""
        answers, checked = self._answers, self._question.of_user
        columns, n_outputs, is_scalar = _taken(function, answers.model, checked)
        self._is_scalar = is_scalar and not self._question.parts
        outputs = np.arange(n_outputs)
        first = self._n_outputs
        self._n_outputs += n_outputs
        # A column that was asked for by itself matters, though only rare values of it may.
        of_all = len(columns) == answers.model.schema.n_columns
        if checked and of_all and len(columns) > 1 and answers.model.n_cells(columns) <= MOST_CELLS:
            columns = _that_matter(function, answers, columns, n_outputs)
        if answers.model.n_cells(columns) <= MOST_CELLS:
            part = CellPart(answers, function, columns, n_outputs, checked)
            self._parts.append((first + outputs, part))
            return
        if n_outputs == 1:
            self._parts.append((first + outputs, PointsPart(answers, function, checked)))
            return
        for group, which in _depends(function, answers.model, columns).items():
            own = _some_outputs(function, which)
            small = answers.model.n_cells(group) <= MOST_CELLS
            self._parts.append(
                (
                    first + which,
                    CellPart(answers, own, group, len(which), checked)
                    if small
                    else PointsPart(answers, own, checked),
                )
            )

    def _joined(self, found: Sequence[Floats]) -> Floats:
        """Return what the parts say, shape (k,), in the order of the outputs."""
        out = np.empty(self._n_outputs)
        for (outputs, _), one in zip(self._parts, found, strict=True):
            out[outputs] = one
        return out

    def to_estimate(self, frame: str | None) -> Estimate:
        """Return the answer as users see it, and warn where it tells next to nothing."""
        question = self._question
        found = self._estimate(frame)
        if question.judged is not None:
            rough = Estimate(
                self._shown, self.rough_noise, ends=self.rough_ends, possible=self.possible
            )
            # Of a condition that holds nowhere there was a warning.
            told = question.of_user and self._constant
            names, sketch = question.entries or question.about, self._answers.model.sketch
            warn_of_the_wide(sketch, rough, found, names, told)
        return found

    def _estimate(self, frame: str | None) -> Estimate:
        question = self._question
        return Estimate(
            self._shown,
            self.noise_std_error,
            ends=question.ends or self.ends,
            sampling=self.sampling,
            possible=self.possible,
            labels=question.labels,
            frame=frame,
        )

    @property
    def _shown(self) -> Any:
        """The value; NaN for a mean of rows of which the release shows none."""
        if not self._question.is_mean:
            return self.value
        of_nobody = [part.of_nobody.astype(np.float64) for _, part in self._parts]
        gone = self._moved(self._joined(of_nobody)).reshape(np.shape(self.value))
        return np.where(gone > 0, np.nan, self.value)

    def _moved(self, error: Floats) -> Floats:
        return self._question.without_clipping(error, self._n_rows)

    def noise_std_error(self) -> Floats:
        """Return the standard deviation that the noise gives to the answer."""
        return self._moved(np.sqrt(self._noise))

    @cached_property
    def _noise(self) -> Floats:
        """The variance of the noise, in shares of the rows where these are counted."""
        counts = self._question.counts_rows
        found = self._joined([part.noise(counts=counts) for _, part in self._parts])
        return found / self._n_rows**2 if counts else found

    @cached_property
    def errors(self) -> Errors:
        """All parts of the error of the mean."""
        found = [part.errors() for _, part in self._parts]
        joined = Errors(*(self._joined(one) for one in zip(*found, strict=True)))
        if not self._question.counts_rows:
            return joined
        # With that of how many rows there are; where crowded rows decide, the other may be more.
        return joined._replace(noise=np.maximum(self._noise, joined.noise))

    @cached_property
    def counted(self) -> tuple[Floats, Floats]:
        """How far what was counted is above the mean, and the variance of its noise."""
        above, variance = zip(*(part.counted() for _, part in self._parts), strict=True)
        return self._joined(above), self._joined(variance)

    def ends(self, z: float) -> tuple[Floats, Floats]:
        """Return how far the answer reaches at `z` standard errors."""
        return self._ends(z, self.errors)

    def _ends(self, z: float, errors: Errors) -> tuple[Floats, Floats]:
        below, above = (self._moved(side) for side in _reach(z, errors))
        value = np.asarray(self.value)
        own = self._question.moved
        if own is not False:
            more = z * (np.abs(value - self._moved(self._mean)) if own is True else own)
            below, above = np.hypot(below, more), np.hypot(above, more)
        low, high = value - below.reshape(value.shape), value + above.reshape(value.shape)
        if self._unseen.any():  # then the interval is all that is possible
            unseen = self._unseen.reshape(value.shape)
            low = np.where(unseen, self.possible[0], low)
            high = np.where(unseen, self.possible[1], high)
        return low, high

    def sampling(self) -> Floats:
        """Return the standard deviation that a random choice of the rows gives to the answer."""
        found = self._joined([part.sampling() for _, part in self._parts])
        return self._moved(np.sqrt(found / self._answers.n_independent))

    def _possible(self) -> tuple[Any, Any]:
        question = self._question
        if question.counts_rows:  # of which there are so many, up to three standard errors
            largest = float(self._n_rows) + 3 * self._answers.model.sketch.n_noise_std
            highest = self._joined([part.extremes[1] for _, part in self._parts])
            nowhere = self._constant & ~self._unseen & (highest == 0)
            return 0.0, np.where(nowhere, 0.0, largest)
        if question.possible is not None:
            return question.possible
        low, high = (
            self._joined([part.extremes[side] for _, part in self._parts]) for side in (0, 1)
        )
        low, high = np.where(self._unseen, 0.0, low), np.where(self._unseen, 1.0, high)
        return (low, high) if question.then is None else (0.0, 1.0)

    @cached_property
    def _constant(self) -> NDArray[np.bool_]:
        """Outputs of a user's condition that hold at all rows that were asked, or at none."""
        low, high = (self._joined([p.extremes[side] for _, p in self._parts]) for side in (0, 1))
        is_condition = self._question.of_user and np.all(np.isin([low, high], (0, 1)))
        return (low == high) & bool(is_condition)

    @cached_property
    def _unseen(self) -> NDArray[np.bool_]:
        """Those of them that may be otherwise at rows that were not asked."""
        if not self._constant.any():
            return self._constant
        told = self._joined([np.full(len(which), part.is_exact) for which, part in self._parts])
        return self._constant & (told == 0)

    def _judge(self) -> None:
        """Warn of a condition that holds nowhere, or everywhere."""
        if self._question.of_user:
            holds = self._joined([part.extremes[0] for _, part in self._parts])
            for constant, certain in (
                (self._unseen, False),
                (self._constant & ~self._unseen, True),
            ):
                warn_of_constants(holds[None], ~constant, certain=certain)

    @cached_property
    def _rough_errors(self) -> Errors:
        found = [part.errors(rough=True) for _, part in self._parts]
        return Errors(*(self._joined(one) for one in zip(*found, strict=True)))

    def rough_ends(self, z: float) -> tuple[Floats, Floats]:
        """Return about how far the answer reaches, without simulated releases."""
        return self._ends(z, self._rough_errors)

    def rough_noise(self) -> Floats:
        """Return about the standard deviation of the noise, without simulated releases."""
        return self._moved(np.sqrt(self._rough_errors.noise))


def _of_rows(function: Any, schema: Any) -> Callable[[Any], Any]:
    """Return a condition on a column as a function of rows."""
    if not isinstance(function, ColumnCondition):
        return function
    assert function.holds is not None
    j, holds = function.column, function.holds

    def truths(rows: Any) -> Floats:
        values = rows[:, j]
        gone = absent(schema, values, j)
        return np.where(gone[:, None], np.nan, holds(values))

    return truths


def _taken(function: Callable, model: TableModel, checked: bool) -> tuple[Group, int, bool]:
    """Return the columns that a function takes, its number of outputs, and if it is a scalar."""
    rows = NamedRows(model.schema, _FEW_ROWS, lambda j: some_values(model, j, _FEW_ROWS))
    if checked:
        values, is_scalar = evaluate_rows(function, rows)
    else:
        values, is_scalar = values_at(function, rows), False
    columns = tuple(sorted(rows.taken)) or (int(np.argmin(model.sizes)),)
    return columns, values.shape[1], is_scalar


def _that_matter(
    function: Callable, answers: ModelAnswers, columns: Group, n_outputs: int
) -> Group:
    """Return the columns on which a function depends: one of ``np.asarray(rows)`` takes all.

    It is asked of rows that fill the cells, and of rows from anywhere. One column at a time is then
    given the values of the neighbouring cells, and values from anywhere.
    """
    model, filled = answers.model, answers.filled(columns, n_outputs)
    rng, n, rows = np.random.default_rng(0), len(filled.unit), filled.rows()
    filling = {j: rows[:, j] for j in columns}
    anywhere = {j: values_anywhere(model, j, n, rng) for j in columns}
    at = _at_rows(function, model, n)
    of_filling, of_anywhere = at(filling), at(anywhere)
    found = []
    for axis, j in enumerate(columns):
        grid, other = filling[j].reshape(*filled.shape, -1), values_anywhere(model, j, n, rng)
        next_cell = np.roll(grid, 1, axis=(axis, -1)).ravel()
        if (
            _differ(of_filling, at(filling | {j: next_cell})).any()
            or _differ(of_filling, at(filling | {j: other})).any()
            or _differ(of_anywhere, at(anywhere | {j: other})).any()
        ):
            found.append(j)
    return tuple(found) or columns


def _at_rows(
    function: Callable, model: TableModel, n: int
) -> Callable[[dict[int, NDArray]], Floats]:
    """Return a function's values as a function of the n values of each column."""
    return lambda known: values_at(function, NamedRows(model.schema, n, known.__getitem__))


def _differ(values: Floats, others: Floats) -> NDArray[np.bool_]:
    """Return which outputs differ at some row."""
    same = (values == others) | (np.isnan(values) & np.isnan(others))
    return ~np.all(same, axis=0)


def _reach(z: float, errors: Errors) -> tuple[Floats, Floats]:
    """Return how far below and above an answer the truth may be.

    Where rows are crowded at an end of their bin the answer is off by all that this makes: the
    error comes on top of it, on one side. All is about the unbiased answer; the answer itself is
    in any case a part of it.
    """
    error = np.sqrt(errors.variance)
    one_sided = norm.isf(min(2 * norm.sf(z), 1.0))

    def side(beyond: Floats, biased: Floats) -> Floats:
        on_top = beyond + error * max(float(one_sided), 0.0)
        return np.maximum(np.maximum(np.hypot(z * error, beyond), on_top) + biased, 0.0)

    return side(errors.below, errors.biased), side(errors.above, -errors.biased)


def _depends(function: Callable, model: TableModel, columns: Group) -> dict[Group, NDArray]:
    """Return the outputs of a function by the columns that they depend on."""
    rng, at = np.random.default_rng(0), _at_rows(function, model, _MANY_ROWS)
    every = range(model.schema.n_columns)
    known = {j: values_anywhere(model, j, _MANY_ROWS, rng) for j in every}
    base = at(known)
    changed = []
    for j in columns:
        other = known | {j: values_anywhere(model, j, _MANY_ROWS, rng)}
        changed.append(_differ(base, at(other)))
    found: dict[Group, list[int]] = {}
    for k, of in enumerate(np.transpose(changed).tolist()):
        group = tuple(j for j, is_taken in zip(columns, of, strict=True) if is_taken)
        found.setdefault(group or (columns[0],), []).append(k)
    return {group: np.array(which) for group, which in found.items()}


def _some_outputs(function: Callable, which: NDArray) -> Callable[[Any], NDArray]:
    return lambda rows: np.asarray(function(rows))[:, which]
