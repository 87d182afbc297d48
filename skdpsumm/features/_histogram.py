"""One-way and k-way histograms of numeric and categorical columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import Columns
from ._one_hot import OneHotMap


class HistogramMap(OneHotMap):
    """One-hot codes of the cell of a row in each of several histograms (M2M, section 2.1.1).

    Parameters
    ----------
    columns : Columns
        With bounds for every numeric column.
    n_bins : sequence of int, one per column
        Number of equal bins between the bounds; ignored for categorical columns.
    groups : sequence of tuples of column indices
        One histogram per group; its cells are the products of its columns' bins, last fastest.
    """

    kind = "histogram"

    def __init__(self, columns: Columns, n_bins: Sequence[int], groups: Sequence[Sequence[int]]):
        self.columns = columns
        self.n_bins = tuple(
            int(n_bins[j]) if columns.values(j) is None else len(columns.values(j) or ())
            for j in range(columns.n_columns)
        )
        self.groups = tuple(tuple(int(j) for j in group) for group in groups)
        self.sizes = np.array([self._size(group) for group in self.groups], np.int64)
        self.n_features = int(self.sizes.sum())

    def _size(self, group: Sequence[int]) -> int:
        return int(np.prod([self.n_bins[j] for j in group]))

    @classmethod
    def build(cls, columns: Columns, n_bins: Any, marginals: Any) -> HistogramMap:
        """Check user-given `n_bins` and `marginals` (`HistogramSketcher`) against the table."""
        d = columns.n_columns
        missing = [j for j in range(d) if columns.values(j) is None and columns.bound(j) is None]
        if missing:
            raise ValueError(
                f"bounds is missing for column {columns.name(missing[0])!r}: a histogram needs "
                "the public (low, high) of every numeric column; nothing is read off the data."
            )
        bins = [n_bins] * d if np.ndim(n_bins) == 0 else list(n_bins)
        if len(bins) != d or not all(isinstance(n, Integral) and n >= 1 for n in bins):
            raise ValueError(f"n_bins must be positive, one or {d} of them; got {n_bins!r}.")
        if not np.isscalar(marginals):
            if not all(isinstance(group, list | tuple) for group in marginals):
                raise ValueError(
                    f"marginals must be a number, or lists of columns, got {marginals!r}."
                )
            groups = [tuple(columns.index(j, "marginals") for j in group) for group in marginals]
        elif 1 <= marginals <= d:
            groups = list(combinations(range(d), int(marginals)))
        else:
            raise ValueError(f"marginals={marginals!r} needs that many columns; there are {d}.")
        if not groups or any(len(set(g)) < max(len(g), 1) for g in groups):
            raise ValueError(f"marginals must list groups of different columns, got {marginals!r}.")
        return cls(columns, bins, groups)

    def column_codes(self, X: NDArray, j: int) -> NDArray[np.int64]:
        """Return the bin of each entry of column `j`; entries outside the bounds are clipped."""
        if self.columns.values(j) is not None:
            return self.columns.code(X, j)
        low, high = self.columns.bound(j) or (0.0, 1.0)
        scaled = (self.columns.number(X, j) - low) * (self.n_bins[j] / (high - low))
        return np.clip(scaled.astype(np.int64), 0, self.n_bins[j] - 1)

    def codes(self, X: NDArray) -> NDArray[np.int64]:
        used = sorted({j for group in self.groups for j in group})
        by_column = {j: self.column_codes(X, j) for j in used}
        out = np.zeros((len(X), len(self.groups)), np.int64)
        for k, group in enumerate(self.groups):
            for j in group:
                out[:, k] = out[:, k] * self.n_bins[j] + by_column[j]
        return out

    def edges(self, j: int) -> NDArray[np.float64]:
        """Return the ``n_bins[j] + 1`` edges of the bins of numeric column `j`."""
        low, high = self.columns.bound(j) or (0.0, 1.0)
        return np.linspace(low, high, self.n_bins[j] + 1)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        state = {
            "kind": self.kind,
            "n_bins": list(self.n_bins),
            "groups": [list(group) for group in self.groups],
            **self.columns.to_dict(),
        }
        return state, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> HistogramMap:
        """Rebuild from `to_state`."""
        return cls(Columns.from_dict(state), state["n_bins"], state["groups"])
