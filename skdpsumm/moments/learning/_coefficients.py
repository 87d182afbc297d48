"""The coefficients of a regression on a release, with errors that a statistician can report.

The regression is fitted to rows of the graphical model. Its error has three parts, each of which is
seen by fitting it again:

- to rows of models of other releases, which this model would have given (parametric bootstrap):
  their spread is that of the noise, and their mean tells how far noise pulls a coefficient;
- to samples of as many rows as were sketched: their spread is the sampling error;
- of that, the part which is due to a finite number of synthetic rows.

It is noise-aware inference with many synthetic data sets, as in [1]_: the variance between releases
and that between samples add up, as in Rubin's rules.

References
----------
.. [1] Raisa, Jalko, Kaski and Honkela (2023), "Noise-aware statistical inference with
       differentially private synthetic data", AISTATS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._computing import advance
from ...schema._columns import Categorical
from ...schema._schema import TableSchema
from ..inferring._points import absent
from ..inferring._table_model import TableModel

Floats = NDArray[np.float64]

# Rows of each refit: those of all models are drawn by the same random numbers, so that what the
# choice of rows does to them is the same, and cancels in their spread.
_ROWS_A_REFIT = 30_000
_N_SAMPLES = 20


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
        names, low, width = ["intercept"], [], []
        for j in self.columns:
            own, name = schema.columns[j], schema.name(j)
            if isinstance(own, Categorical):
                names += [f"{name}={value}" for value in own.categories[1:]]
                low += [0.0] * (len(own.categories) - 1)
                width += [1.0] * (len(own.categories) - 1)
            else:
                names.append(name)
                low.append(own.bounds[0])
                width.append(own.bounds[1] - own.bounds[0])
            if own.missing:
                names.append(f"{name} is missing")
                low.append(0.0)
                width.append(1.0)
        self.names = names
        self._low, self._width = np.array(low), np.array(width)

    def matrix(self, rows: NDArray) -> Floats:
        """Return the inputs of rows of the table, shape (n, k)."""
        return np.column_stack([part for j in self.columns for part in self._encoded(rows, j)])

    def _encoded(self, rows: NDArray, j: int) -> list[NDArray]:
        own = self.schema.columns[j]
        if isinstance(own, Categorical):
            codes = self.schema.code(rows, j)
            return list(np.eye(own.n_codes)[codes].T[1:])
        numbers = self.schema.number(rows, j)
        gone, (low, high) = np.isnan(numbers), own.bounds
        # A missing number counts as the lowest one: its indicator tells the rest.
        scaled = np.where(gone, 0.0, (numbers - low) / (high - low))
        return [scaled, gone.astype(np.float64)] if own.missing else [scaled]

    def in_units(self, estimator: Any) -> Floats:
        """Return intercept and slopes of a fitted estimator, shape (1 + k,) or (classes, 1 + k)."""
        slopes = np.atleast_2d(estimator.coef_) / self._width
        start = np.ravel(estimator.intercept_) - slopes @ self._low
        found = np.column_stack([start, slopes])
        return found[0] if len(found) == 1 else found


class Refits:
    """A regression, and what it is when it is fitted again to other rows.

    Parameters
    ----------
    model : TableModel
    design : Design
    target : int
    fit : callable
        Takes inputs and cells of the target, and returns a fitted linear estimator.
    n_rows : int
        Number of synthetic rows.
    seed : int
    """

    def __init__(
        self,
        model: TableModel,
        design: Design,
        target: int,
        fit: Callable[[Floats, NDArray], Any],
        n_rows: int,
        seed: int,
    ):
        self._model, self._design, self._target, self._fit = model, design, target, fit
        self._n_rows, self._seed = n_rows, seed

    def _drawn(self, n_rows: int, model: Any = None) -> tuple[Floats, NDArray]:
        rows = self._model.sample(n_rows, np.random.default_rng(self._seed), model)
        known = ~absent(self._model.schema, rows[:, self._target], self._target)
        return self._design.matrix(rows[known]), rows[known, self._target]

    def _fitted(self, inputs: Floats, learnt: NDArray) -> Floats:
        advance()
        return self._design.in_units(self._fit(inputs, learnt))

    @cached_property
    def _rows(self) -> tuple[Floats, NDArray]:
        return self._drawn(self._n_rows)

    @cached_property
    def value(self) -> Floats:
        """The coefficients."""
        return self._fitted(*self._rows)

    @cached_property
    def _other_releases(self) -> Floats:
        n_rows = min(_ROWS_A_REFIT, self._n_rows)
        first = self._fitted(*self._drawn(n_rows))
        found = [self._fitted(*self._drawn(n_rows, r.model)) for r in self._model.replicates]
        return np.array(found) - first

    def noise(self) -> Floats:
        """Return the standard deviation that noise gives to the coefficients."""
        return np.std(self._other_releases, axis=0, ddof=1)

    def error(self) -> Floats:
        """Return the standard error of the table's coefficients: noise, its pull, and few rows."""
        pull = np.mean(self._other_releases, axis=0)
        drawn = self.sampling() * np.sqrt(self._model.n_rows / self._n_rows)
        return np.sqrt(self.noise() ** 2 + pull**2 + drawn**2)

    def sampling(self) -> Floats:
        """Return the standard deviation that the choice of the rows gives to the coefficients."""
        return self._sampling

    @cached_property
    def _sampling(self) -> Floats:
        rng, (inputs, learnt) = np.random.default_rng(self._seed), self._rows
        n_rows = self._model.n_rows
        size = int(np.clip(n_rows, 2, _ROWS_A_REFIT))
        chosen = (rng.integers(len(inputs), size=size) for _ in range(_N_SAMPLES))
        found = [self._fitted(inputs[which], learnt[which]) for which in chosen]
        return np.std(found, axis=0, ddof=1) * np.sqrt(size / n_rows)
