"""Synthetic rows of a sketch: drawn, weighted to match a target, and few of them chosen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._computing import warn_caller
from ..features._feature_maps import HistogramMap
from ..moments._base import TAKES_A_SKETCH, table_of
from ..moments._numbers import POINTS_PER_INPUT
from ..moments.inferring._points import (
    FeatureBlocks,
    draw_points,
    labelled,
    maxent_points,
    maxent_weights,
)
from ..moments.inferring._table_model import TableModel
from ..schema._reading import Table, column_names
from ..schema._schema import TableSchema
from ..schema._vectorizer import vectorize
from ..sketches import PrivateSketch
from ..sketches._rounding import systematic
from ._mmd import exact_search, made_gamma

# Candidates for the rows of a summary are drawn from the weighted rows: eight for each, and this
# many at most.
MAX_CANDIDATES = 8_000
# More synthetic rows than the first number bring no more accuracy; with fewer than the second, any
# weights leave too few.
MANY_SYNTHETIC_ROWS, FEW_SYNTHETIC_ROWS = 50_000, 1000
# A target with fewer rows has a sampling error that weights can hardly follow.
MIN_TARGET_ROWS = 10


@dataclass(frozen=True)
class LabelledTable:
    """The columns of a release: inputs of a model, and the label.

    Parameters
    ----------
    table : TableSchema
        Of all columns.
    label : int or None
        The column that is the label, None where nothing is.
    """

    table: TableSchema
    label: int | None

    @classmethod
    def of(cls, sketch: Any, target: int | str | None, X_target: Any, schema: Any) -> LabelledTable:
        """Return those of a sketch. None as `target` is the one column that X_target lacks.

        Raises
        ------
        TypeError, ValueError
            For what is no sketch, one without this column or a range, and one of the label alone.
        """
        if not isinstance(sketch, PrivateSketch):
            raise TypeError(TAKES_A_SKETCH.format(type(sketch).__name__))
        table = table_of(sketch, schema)
        label = _lacking(table, X_target) if target is None else table.index(target, "target")
        if label is not None and table.n_columns == 1:
            raise ValueError("The sketch has no column but the label: leave target out.")
        return cls(table, label)

    @property
    def inputs(self) -> TableSchema:
        """All columns but the label. In a frame, others may stand beside them."""
        table = self.table
        inputs = table.take([j for j in range(table.n_columns) if j != self.label])
        if inputs.names is None:
            return inputs
        own = dict(zip(inputs.names, inputs.columns, strict=True))
        return TableSchema(own, extra_columns="drop").ruling_out(inputs.impossible)

    def without_label(self, rows: NDArray) -> NDArray:
        """Return the inputs of rows."""
        return rows if self.label is None else np.delete(rows, self.label, axis=1)

    def frame(self, rows: NDArray) -> Any:
        """Return the inputs of rows as a frame, or as an array where columns have no names."""
        inputs, rows = self.inputs, self.without_label(rows)
        if inputs.names is None:
            return rows
        try:
            from pandas import DataFrame
        except ImportError:
            return rows
        return DataFrame({name: _cells(rows, inputs, j) for j, name in enumerate(inputs.names)})

    def labels(self, rows: NDArray) -> NDArray | None:
        """Return the labels of rows, None where there are none."""
        return None if self.label is None else _cells(rows, self.table, self.label)


def _lacking(table: TableSchema, X_target: Any) -> int | None:
    """Return the one column that a target lacks: by its name, or the last one; None for others."""
    names = column_names(X_target)
    if names is not None and table.names is not None:
        lacking = [j for j, name in enumerate(table.names) if name not in names]
        return lacking[0] if len(lacking) == 1 else None
    last = table.n_columns - 1
    with suppress(ValueError):  # rows of unequal length, which are refused later
        return last if X_target is not None and np.shape(X_target)[1:] == (last,) else None
    return None


def counts_alone(sketch: PrivateSketch) -> bool:
    """Whether the graphical model of histograms has all that a sketch tells."""
    return all(isinstance(part, HistogramMap) for part, _ in sketch.blocks())


@dataclass(frozen=True, eq=False, repr=False)
class TargetEmbedding:
    """The mean embedding of a target's rows, and its sampling error. Holds private data.

    Parameters
    ----------
    feature_map : HistogramMap
        phi, public: a histogram of each column.
    mean : ndarray of shape (m,)
    slack : ndarray of shape (m,)
        Variance of each entry of `mean` around the mean of the target's population.
    """

    feature_map: HistogramMap
    mean: NDArray[np.float64]
    slack: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray | Table, schema: TableSchema) -> TargetEmbedding:
        """Embed rows, checked, of a table; the map follows from the schema alone."""
        columns = [(j,) for j in range(schema.n_columns)]
        # Finer bins hold too few of some hundred rows to be matched.
        feature_map = HistogramMap.build(schema, 10, columns)
        features = FeatureBlocks.of(feature_map, rows)
        (mean, variance), n = features.moments(), features.n_points
        # What no row of few has may still be there: its share is below some 1 / n.
        return cls(feature_map, mean, np.maximum(variance, 1 / n) / n)

    def weights(self, points: NDArray) -> NDArray[np.float64]:
        """Return the weights of points, which sum to one, whose embedding is that of the target."""
        return maxent_weights(FeatureBlocks.of(self.feature_map, points), self.mean, self.slack)

    def is_out_of_reach(self, points: NDArray, weights: NDArray) -> bool:
        """Return whether no weights make the points look like the target.

        What weights miss that do is about one standard error of the target's embedding.
        """
        found = FeatureBlocks.of(self.feature_map, points).tdot(weights)
        missed = np.sqrt(np.mean((found - self.mean) ** 2 / self.slack))
        return bool(missed > 2)


@dataclass(frozen=True, repr=False)
class SyntheticRows:
    """Synthetic rows with weights.

    Parameters
    ----------
    columns : LabelledTable
    rows : ndarray of shape (n, n_columns)
        Inputs and label, where there is one.
    weights : ndarray of shape (n,)
    out_of_reach : bool
        Whether the sketch has no rows like those of the target.
    """

    columns: LabelledTable
    rows: NDArray
    weights: NDArray[np.float64]
    out_of_reach: bool

    @classmethod
    def draw(
        cls, sketch: Any, columns: LabelledTable, target: Any, n_synthetic: int, seed: int
    ) -> SyntheticRows:
        """Draw rows that match a sketch, and weight them to match a target."""
        table, label, rng = columns.table, columns.label, check_random_state(seed)
        weights = np.full(n_synthetic, 1 / n_synthetic)
        if counts_alone(sketch):
            rows = TableModel(sketch, table).sample(n_synthetic, rng)
        else:  # points are moved and weighted, as `M2MClassifier` does
            points = draw_points("auto", sketch, table, n_synthetic, rng)
            rows, weights = maxent_points(sketch, points, table, rng)
        if label is not None and table.missing(label):
            rows, weights = labelled(table, label, rows, weights)
        if target is None:
            return cls(columns, rows, weights, False)
        embedding, own = TargetEmbedding.of(target, columns.inputs), columns.without_label(rows)
        # The weights for a target are as equal as they can be, so rows come as often as they count.
        come = systematic(weights, len(rows), rng)
        weights = np.bincount(come, embedding.weights(own[come]), len(rows)).astype(np.float64)
        return cls(columns, rows, weights, embedding.is_out_of_reach(own, weights))

    @property
    def effective_sample_size(self) -> float:
        """How many rows of equal weight they are worth."""
        return 1 / float(self.weights @ self.weights)

    def choose(self, n_select: int, seed: int) -> NDArray:
        """Return few rows that have the same mean embedding, with equal weights."""
        rng = check_random_state(seed)
        if n_select >= MAX_CANDIDATES:  # so many rows are alike without a search
            return self.rows[systematic(self.weights, n_select, rng)]
        n = min(MAX_CANDIDATES, max(8 * n_select, 1000), len(self.rows))
        candidates = self.rows[systematic(self.weights, n, rng)]
        table = self.columns.table
        vectors = vectorize(table, candidates).astype(np.float32)
        search = exact_search(vectors, vectors, n_select, made_gamma("auto", table))
        return candidates[search.run(False, 0, rng)]

    def warn_of_reach(self, target: Any, n_synthetic: int) -> None:
        """Warn where the sketch has few rows like the target's, or none."""
        if len(target) < MIN_TARGET_ROWS:
            warn_caller(
                f"Give more rows as X_target: of fewer than {MIN_TARGET_ROWS} the sampling error "
                "is so large that the summary hardly follows them.",
                UserWarning,
            )
        worth, n_inputs = self.effective_sample_size, self.columns.inputs.n_encoded
        least = POINTS_PER_INPUT * (n_inputs + 1)
        if not (self.out_of_reach or worth < least):
            return
        too_few = not self.out_of_reach and worth * MANY_SYNTHETIC_ROWS >= least * n_synthetic
        if n_synthetic < FEW_SYNTHETIC_ROWS or (n_synthetic < MANY_SYNTHETIC_ROWS and too_few):
            warn_caller(
                f"Raise n_synthetic={n_synthetic}: so few rows are worth {worth:.0f} of equal "
                f"weight (effective_sample_size_), for {n_inputs} inputs of a model.",
                UserWarning,
            )
            return
        few = "no" if self.out_of_reach else "few"
        warn_caller(
            "Ask more owners whose rows are like X_target, or describe the target by fewer "
            f"columns: the merged sketch has {few} rows there. The weighted synthetic rows are "
            f"worth {worth:.0f} of equal weight (effective_sample_size_), for {n_inputs} inputs of "
            "a model, so models trained on the summary may be near chance.",
            UserWarning,
        )


def _cells(rows: NDArray, table: TableSchema, j: int) -> NDArray:
    """Return a column of rows with its own dtype: numbers, or categories as the schema lists."""
    known = table.values(j)
    if known is None:
        return table.decode(j, rows[:, j].astype(np.float64))
    codes = table.read(rows, j)
    if table.missing(j):
        return table.decode(j, codes)
    return np.array(known)[codes]
