"""One-way and k-way histograms of numeric and categorical columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schema._columns import first_values
from ..schema._schema import TableSchema
from ._feature_maps import OneHotMap, check_size, is_count

# All threes of 90 columns. A file could list as many as it likes, of one bin each.
MOST_GROUPS = 2**17


class HistogramMap(OneHotMap):
    """One-hot codes of the cell of a row in each of several histograms (M2M, section 2.1.1).

    Parameters
    ----------
    schema : TableSchema
        With a range for every numeric column. A column with edges of its own has these bins.
    n_bins : sequence of int, one per column
        Number of equal bins of the range; ignored for categorical columns and those with edges. A
        column with a step has at most as many bins as values, and each holds whole values.
    groups : sequence of tuples of column indices
        One histogram per group; its cells are the products of its columns' bins, last fastest.

    Attributes
    ----------
    n_bins : tuple of int
        Number of codes of each column. Where cells may be missing the last code is theirs.

    Raises
    ------
    ValueError
        For columns without a range, and for bins or groups that are none of such columns.
    """

    kind = "histogram"

    def __init__(self, schema: TableSchema, n_bins: Sequence[int], groups: Sequence[Sequence[int]]):
        self.schema, d = schema, schema.n_columns
        schema.require_bounds()
        if len(n_bins) != d or not all(is_count(n) for n in n_bins):
            raise ValueError(f"n_bins must be positive, one or {d} of them; got {n_bins!r}.")
        self.n_bins = tuple(check_size(self._n_codes(j, int(n_bins[j]))) for j in range(d))
        if len(groups) > MOST_GROUPS:
            raise ValueError(f"At most {MOST_GROUPS:,} marginals are counted, got {len(groups):,}.")
        self.groups = tuple(tuple(schema.index(j, "marginals") for j in g) for g in groups)
        if not self.groups or any(len(set(g)) < max(len(g), 1) for g in self.groups):
            raise ValueError(f"marginals must list groups of different columns, got {groups!r}.")
        # Of Python's integers, which do not overflow.
        sizes = [math.prod(self.n_bins[j] for j in group) for group in self.groups]
        self.n_features = check_size(sum(sizes))
        self.sizes = np.array(sizes, np.int64)

    def _n_codes(self, j: int, n_bins: int) -> int:
        known, edges, missing = self.schema.values(j), self.schema.edges(j), self.schema.missing(j)
        if known is not None:
            return len(known) + missing
        if edges is not None:
            return len(edges) - 1 + missing
        return min(n_bins, self.schema.n_values(j) or n_bins) + missing

    def n_present(self, j: int) -> int:
        """Return the number of bins or categories of column `j`, that of missing cells left out."""
        return self.n_bins[j] - self.schema.missing(j)

    def seen_columns(self) -> set[int]:
        return {j for group in self.groups for j in group}

    @classmethod
    def build(cls, schema: TableSchema, n_bins: Any, marginals: Any) -> HistogramMap:
        """Return the map of what the user gave to a `HistogramSketcher`."""
        d, one_number = schema.n_columns, np.isscalar(marginals)
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
        return cls(schema, bins, groups)

    def column_codes(self, X: NDArray, j: int) -> NDArray[np.int64]:
        """Return the bin of each cell of column `j`; numbers outside the range are clipped."""
        if self.schema.values(j) is not None:
            return self.schema.code(X, j)
        values = self.schema.number(X, j)
        if not self.schema.missing(j):
            return self._bins_of(values, j)
        absent = np.isnan(values)
        bins = self._bins_of(np.where(absent, self.schema.bound(j)[0], values), j)  # type: ignore[index]
        return np.where(absent, self.n_present(j), bins)

    def _bins_of(self, values: NDArray[np.float64], j: int) -> NDArray[np.int64]:
        if self.schema.edges(j) is not None or self.schema.step(j) is not None:
            return np.searchsorted(self.edges(j)[1:-1], values, side="right")
        low, high = self.schema.bound(j) or (0.0, 1.0)
        n = self.n_present(j)
        # The ends themselves may be rounded past the last bin, so codes are clipped again.
        return np.clip(((values - low) * (n / (high - low))).astype(np.int64), 0, n - 1)

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
        """Return the ``n_present(j) + 1`` edges of the bins of numeric column `j`.

        Where the column has a step they lie half a step below the first value of each bin, and
        half a step above the last one.
        """
        low, high = self.schema.bound(j) or (0.0, 1.0)
        own, step, n = self.schema.edges(j), self.schema.step(j), self.n_present(j)
        if step is None:
            return np.linspace(low, high, n + 1) if own is None else np.array(own)
        if own is None:
            # Value k is in bin k * n // n_values.
            (whole, rest), k = divmod(self.schema.n_values(j) or n, n), np.arange(n + 1)
            first: NDArray = k * whole - (-k * rest // n)
        else:
            first = first_values(own, low, step)
        return low + (first - 0.5) * step

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        state = {
            "kind": self.kind,
            "n_bins": [self.n_present(j) for j in range(self.schema.n_columns)],
            "groups": [list(group) for group in self.groups],
            **self.schema.to_dict(),
        }
        return state, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> HistogramMap:
        return cls(TableSchema.from_dict(state), state["n_bins"], state["groups"])
