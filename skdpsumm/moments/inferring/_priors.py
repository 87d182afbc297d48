"""Where synthetic points come from: the prior psi of M2M."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...features import FeatureMap, HistogramMap, project_to_simplex
from ...schema._columns import Columns, stack_columns, stratified
from ...sketches import PrivateSketch

PRIORS = ("auto", "uniform", "marginals")
# Of bounds, whose range is at least its inverse. The error of a covariance squares squares of them,
# which must neither overflow nor vanish.
LARGEST_BOUND = 1e60
# Least share of the points of "marginals" in each bin: what the sketch says of a bin is heard where
# points are in it, and noise may have emptied it.
_LEAST_SHARE = 1e-4


def draw_points(
    prior: Any,
    sketch: PrivateSketch,
    columns: Columns,
    n_points: int,
    rng: np.random.RandomState,
) -> NDArray:
    """Return synthetic rows, shape (n_points, d), drawn from `prior`.

    Parameters
    ----------
    prior : {"auto", "uniform", "marginals"} or array of shape (k, d)
        "uniform": on the bounds and categories. "marginals": independent columns, each drawn from
        the sketch's own private histogram of it. "auto": "marginals" where the sketch has a
        histogram of every column, else "uniform". An array: those public points.
    sketch : PrivateSketch
    columns : Columns
        With the bounds of every numeric column.
    n_points : int
        Ignored for an array.
    rng : RandomState

    Notes
    -----
    Each column is stratified (one point in each of n equal slices of probability, in random
    order), so its own distribution carries almost no sampling error.
    """
    if not isinstance(prior, str):
        return _public_points(prior, columns)
    if prior == "uniform" or missing_histogram(sketch.feature_map, columns) is not None:
        return columns.sample(n_points, rng)
    found = [private_marginal(sketch, j) for j in range(columns.n_columns)]
    drawn = (_from_histogram(*one, j, n_points, rng) for j, one in enumerate(found))
    return stack_columns([columns.on_grid(values, j) for j, values in enumerate(drawn)])


def check_answerable(feature_map: FeatureMap, columns: Columns, prior: Any) -> None:
    """Raise ValueError if a sketch by `feature_map` could not be answered from; no data needed.

    Parameters
    ----------
    feature_map : FeatureMap
    columns : Columns
        The table as the answers see it.
    prior : as in `draw_points`
    """
    columns.require_bounds()
    for j in range(columns.n_columns):
        low, high = columns.bound(j) or (0.0, 1.0)
        if max(-low, high) > LARGEST_BOUND or high - low < 1 / LARGEST_BOUND:
            raise ValueError(
                f"bounds of column {columns.name(j)!r} are {(low, high)}: to be answered from, "
                f"they must be within {LARGEST_BOUND:g} and {1 / LARGEST_BOUND:g} wide; state the "
                "column in another unit."
            )
    for part in feature_map.parts():
        for j in range(columns.n_columns):
            own = part.columns.bound(j)
            if columns.values(j) is None and own not in (None, columns.bound(j)):
                raise ValueError(
                    f"bounds of column {columns.name(j)!r} are {own} in the sketch, which clips to "
                    f"them, and {columns.bound(j)} here; give them once, or alike."
                )
            if part.columns.step(j) not in (None, columns.step(j)):
                raise ValueError(
                    f"steps of column {columns.name(j)!r} are {part.columns.step(j)} in the "
                    f"sketch, and {columns.step(j)} here; give them once, or alike."
                )
    if not isinstance(prior, str):
        _public_points(prior, columns)
        return
    if prior not in PRIORS:
        raise ValueError(f"prior must be one of {PRIORS} or an array of points, got {prior!r}.")
    missing = missing_histogram(feature_map, columns)
    if prior == "marginals" and missing is not None:
        raise ValueError(
            f"prior='marginals' needs a histogram of column {missing!r} in the sketch; add a "
            "HistogramSketcher to a SketchUnion, or use prior='uniform'."
        )


def histogram_columns(feature_map: FeatureMap) -> set[int]:
    """Return the columns that some histogram of the map counts."""
    histograms = [part for part in feature_map.parts() if isinstance(part, HistogramMap)]
    return {j for part in histograms for group in part.groups for j in group}


def missing_histogram(feature_map: FeatureMap, columns: Columns) -> str | None:
    """Return the name of a column without a histogram, None if there is none."""
    seen = histogram_columns(feature_map)
    return next((columns.name(j) for j in range(columns.n_columns) if j not in seen), None)


def private_marginal(sketch: PrivateSketch, j: int) -> tuple[HistogramMap, NDArray]:
    """Return a histogram map and the private probabilities of the bins of column `j`.

    Of the histograms that count the column those of the fewest columns are taken, each by its
    noise in a bin, and their mean is moved to the simplex.
    """
    fewest, part, where = min(
        (
            (min(len(group) for group in part.groups if j in group), part, where)
            for part, where in sketch.blocks()
            if isinstance(part, HistogramMap) and j in histogram_columns(part)
        ),
        key=lambda found: found[0],
    )
    mean = sketch.unprojected().mean[where]
    total, precision = np.zeros(part.n_bins[j]), 0.0
    for group, cells in zip(part.groups, part.row_groups(), strict=True):
        if j in group and len(group) == fewest:
            table = mean[cells].reshape([part.n_bins[k] for k in group])
            others = tuple(axis for axis, k in enumerate(group) if k != j)
            cells_a_bin = table.size / part.n_bins[j]
            total += table.sum(axis=others) / cells_a_bin
            precision += 1 / cells_a_bin
    return part, project_to_simplex(total / precision)


def _from_histogram(
    histogram: HistogramMap,
    probabilities: NDArray,
    j: int,
    n_points: int,
    rng: np.random.RandomState,
) -> NDArray:
    u = stratified(n_points, rng)
    raised = np.maximum(probabilities, max(_LEAST_SHARE, 2 / n_points))
    ends = np.cumsum(raised / raised.sum())
    codes = np.minimum(np.searchsorted(ends, u, side="right"), len(ends) - 1)
    if histogram.columns.values(j) is not None:
        return histogram.columns.decode(j, codes)
    edges = histogram.edges(j)
    return edges[codes] + rng.uniform(size=n_points) * np.diff(edges)[codes]


def _public_points(points: Any, columns: Columns) -> NDArray:
    array = np.asarray(points)
    if array.ndim != 2 or array.shape[1] != columns.n_columns or len(array) < 2:
        raise ValueError(
            f"prior must hold at least two rows of {columns.n_columns} columns, got an array of "
            f"shape {array.shape}."
        )
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ValueError("prior holds NaN or infinite values; give finite public points.")
    columns.check(array)
    return array
