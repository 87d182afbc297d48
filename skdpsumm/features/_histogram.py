"""One-way and k-way histograms of numeric and categorical columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schema._columns import Columns
from ._feature_maps import OneHotMap, check_size, is_count

# All threes of 90 columns. A file could list as many as it likes, of one bin each.
MOST_GROUPS = 2**17


class HistogramMap(OneHotMap):
    """One-hot codes of the cell of a row in each of several histograms (M2M, section 2.1.1).

    Parameters
    ----------
    columns : Columns
        With bounds for every numeric column.
    n_bins : sequence of int, one per column
        Number of equal bins between the bounds; ignored for categorical columns. A column with a
        step has at most as many bins as values, and each holds whole values.
    groups : sequence of tuples of column indices
        One histogram per group; its cells are the products of its columns' bins, last fastest.
    own_edges : sequence of tuples or None, one per column, default=None
        Increasing edges, from bound to bound, in place of equal bins. A bin holds its left edge,
        the last one both.

    Raises
    ------
    ValueError
        For columns without bounds, and for bins, groups or edges that are none of such columns.
    """

    kind = "histogram"

    def __init__(
        self,
        columns: Columns,
        n_bins: Sequence[int],
        groups: Sequence[Sequence[int]],
        own_edges: Sequence[Sequence[float] | None] | None = None,
    ):
        self.columns, d = columns, columns.n_columns
        missing = [j for j in range(d) if columns.values(j) is None and columns.bound(j) is None]
        if missing:
            raise ValueError(
                f"bounds is missing for column {columns.name(missing[0])!r}: a histogram needs "
                "the public (low, high) of every numeric column; nothing is read off the data."
            )
        if len(n_bins) != d or not all(is_count(n) for n in n_bins):
            raise ValueError(f"n_bins must be positive, one or {d} of them; got {n_bins!r}.")
        edges = [None] * d if own_edges is None else own_edges
        if len(edges) != d:
            raise ValueError(f"edges must be given for {d} columns, or be None for them.")
        self.own_edges = tuple(
            None if e is None else _check_edges(e, columns, j) for j, e in enumerate(edges)
        )
        self.n_bins = tuple(check_size(self._n_bins(j, int(n_bins[j]))) for j in range(d))
        if len(groups) > MOST_GROUPS:
            raise ValueError(f"At most {MOST_GROUPS:,} marginals are counted, got {len(groups):,}.")
        self.groups = tuple(tuple(columns.index(j, "marginals") for j in g) for g in groups)
        if not self.groups or any(len(set(g)) < max(len(g), 1) for g in self.groups):
            raise ValueError(f"marginals must list groups of different columns, got {groups!r}.")
        # Of Python's integers, which do not overflow.
        sizes = [math.prod(self.n_bins[j] for j in group) for group in self.groups]
        self.n_features = check_size(sum(sizes))
        self.sizes = np.array(sizes, np.int64)

    def _n_bins(self, j: int, n_bins: int) -> int:
        known, edges = self.columns.values(j), self.own_edges[j]
        if known is not None:
            return len(known)
        if edges is not None:
            return len(edges) - 1
        return min(n_bins, self.columns.n_values(j) or n_bins)

    @classmethod
    def build(
        cls, columns: Columns, n_bins: Any, marginals: Any, edges: Any = None
    ) -> HistogramMap:
        """Return the map of what the user gave to a `HistogramSketcher`."""
        d, one_number = columns.n_columns, np.isscalar(marginals)
        bins = [n_bins] * d if np.ndim(n_bins) == 0 else list(n_bins)
        if not one_number:
            if not all(isinstance(group, list | tuple) for group in marginals):
                raise ValueError(
                    f"marginals must be a number, or lists of columns, got {marginals!r}."
                )
            groups = list(marginals)
        elif 1 <= marginals <= d:
            check_size(math.comb(d, int(marginals)))  # each has a bin at least
            groups = list(combinations(range(d), int(marginals)))
        else:
            raise ValueError(f"marginals={marginals!r} needs that many columns; there are {d}.")
        own: list[Any] = [None] * d
        for key, given in (edges or {}).items():
            own[columns.index(key, "edges")] = given
        return cls(columns, bins, groups, own)

    def column_codes(self, X: NDArray, j: int) -> NDArray[np.int64]:
        """Return the bin of each entry of column `j`; entries outside the bounds are clipped."""
        if self.columns.values(j) is not None:
            return self.columns.code(X, j)
        values = self.columns.number(X, j)
        if self.own_edges[j] is not None or self.columns.step(j) is not None:
            return np.searchsorted(self.edges(j)[1:-1], values, side="right")
        low, high = self.columns.bound(j) or (0.0, 1.0)
        # The bounds themselves may be rounded past the last bin, so codes are clipped again.
        scaled = (values - low) * (self.n_bins[j] / (high - low))
        return np.clip(scaled.astype(np.int64), 0, self.n_bins[j] - 1)

    def codes(self, X: NDArray) -> NDArray[np.int64]:
        used = sorted({j for group in self.groups for j in group})
        # Columns are read once, however many histograms share them.
        by_column = {j: self.column_codes(X, j) for j in used}
        out = np.zeros((len(X), len(self.groups)), np.int64)
        for k, group in enumerate(self.groups):
            for j in group:
                out[:, k] = out[:, k] * self.n_bins[j] + by_column[j]
        return out

    def edges(self, j: int) -> NDArray[np.float64]:
        """Return the ``n_bins[j] + 1`` edges of the bins of numeric column `j`.

        Where the column has a step they lie half a step below the first value of each bin, and
        half a step above the last one.
        """
        low, high = self.columns.bound(j) or (0.0, 1.0)
        own, step, n = self.own_edges[j], self.columns.step(j), self.n_bins[j]
        if step is None:
            return np.linspace(low, high, n + 1) if own is None else np.array(own)
        if own is None:
            # Value k is in bin k * n // n_values.
            (whole, rest), k = divmod(self.columns.n_values(j) or n, n), np.arange(n + 1)
            first: NDArray = k * whole - (-k * rest // n)
        else:
            first = _first_values(own, low, step)
        return low + (first - 0.5) * step

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        state = {
            "kind": self.kind,
            "n_bins": list(self.n_bins),
            "groups": [list(group) for group in self.groups],
            "edges": [None if edges is None else list(edges) for edges in self.own_edges],
            **self.columns.to_dict(),
        }
        return state, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> HistogramMap:
        return cls(Columns.from_dict(state), state["n_bins"], state["groups"], state["edges"])


def _check_edges(edges: Any, columns: Columns, j: int) -> tuple[float, ...]:
    given, bound = f"edges[{columns.name(j)!r}]={edges!r}", columns.bound(j)
    try:
        found = [float(edge) for edge in edges]
    except (TypeError, ValueError, OverflowError):
        found = []
    # A numeric column has bounds: the map was refused otherwise.
    if bound is None or columns.values(j) is not None:
        raise ValueError(f"{given} is of a categorical column; leave it out.")
    if len(found) < 2 or not all(left < right for left, right in pairwise(found)):
        raise ValueError(f"{given} must be a list of at least two increasing numbers.")
    if (found[0], found[-1]) != bound:
        raise ValueError(f"{given} must begin and end at the bounds of the column, {bound}.")
    step = columns.step(j)
    if step is not None and not np.all(np.diff(_first_values(found, bound[0], step)) > 0):
        raise ValueError(f"{given} makes a bin without a value, for the step is {step}; join bins.")
    return tuple(found)


def _first_values(edges: Sequence[float], low: float, step: float) -> NDArray[np.float64]:
    """Return the position on the grid of the first value of each bin, and one beyond the last."""
    # An edge that is a value up to rounding belongs to the bin on its right.
    first = np.ceil((np.array(edges) - low) / step - 1e-6)
    first[-1] = round((edges[-1] - low) / step) + 1
    return first
