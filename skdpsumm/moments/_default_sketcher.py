"""What the M2M estimators release where you choose no sketcher of your own."""

from __future__ import annotations

from typing import Any

from ..schema._schema import TableSchema
from ..sketches import AdaptiveSketcher, HistogramSketcher, RFFSketcher, SketchUnion

# Of the kernel of models; see `_fourier`.
_GAMMA = 2.0
# Bins of numeric columns beside Fourier features: of answers, where some column has a step, of
# classifiers and of regressors.
_BINS, _BINS_WITH_STEPS, _BINS_OF_CLASSES, _BINS_OF_NUMBERS = 32, 100, 8, 5


def default_sketcher(table: TableSchema, target: int | None = None) -> Any:
    """Return the sketcher that "auto" stands for, without schema and budget.

    Parameters
    ----------
    table : TableSchema
        Of the sketched table, its target included. Nothing else is looked at: what is released
        must not hang on a private row.
    target : int, default=None
        The column that a model learns.
    """
    return AdaptiveSketcher(target=target)


def _fourier(table: TableSchema, target: int | None) -> SketchUnion:
    """Return Fourier features beside histograms: of columns, each with the target if there is one.

    AUC of models at epsilon = 1 on 14 columns of Adult, 30 of breast cancer and 5 of Occupancy:
    0.89, 0.94, 0.99. Fourier features alone had 0.41, 0.43 and 0.99. The kernel of models is
    narrower than that of "auto": AUCs are higher by 0.002 to 0.005 on 12 columns of Adult, and 0.97
    in place of 0.94 where the classes are the xor of two of five columns.
    """
    if target is None:
        has_steps = any(table.step(j) for j in table.numeric)
        n_bins = _BINS_WITH_STEPS if has_steps else _BINS
        return SketchUnion([HistogramSketcher(n_bins=n_bins), RFFSketcher()])
    pairs = [[j, target] for j in range(table.n_columns) if j != target]
    n_bins = _BINS_OF_NUMBERS if table.values(target) is None else _BINS_OF_CLASSES
    histograms = HistogramSketcher(marginals=pairs, n_bins=n_bins)
    return SketchUnion([histograms, RFFSketcher(gamma=_GAMMA)])
