"""One-way and k-way histograms of numeric and categorical columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._computing import advance
from ..schema._columns import Categorical, Numeric, first_values, increasing, told
from ..schema._schema import TableSchema
from ._feature_maps import GRID, OneHotMap, batches, check_size, is_count

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
    bins : mapping from column index to sequence, default=None
        Bins of this map alone, for some columns; `n_bins` and the schema's edges do not hold for
        them. Of numbers: the edges, as of `Numeric`. Of categories: the cell of each code, that of
        missing cells included; cells are numbered from 0 on, and each holds a code.
    points : mapping from column index to sequence of float, default=None
        Numbers of columns without a step, increasing. The bin that holds one stands for this number
        alone: a reader takes all rows of the bin to have it.

    Attributes
    ----------
    n_bins : tuple of int
        Number of cells of each column. Missing numbers have the last cell, and so have missing
        categories unless `bins` says another.
    bins, points : dict
        As given, in tuples.

    Raises
    ------
    ValueError
        For columns without a range, and for bins or groups that are none of such columns.
    """

    kind = "histogram"

    def __init__(
        self,
        schema: TableSchema,
        n_bins: Sequence[int],
        groups: Sequence[Sequence[int]],
        bins: Mapping[int, Sequence[Any]] | None = None,
        points: Mapping[int, Sequence[float]] | None = None,
    ):
        self.schema, d = schema, schema.n_columns
        schema.require_bounds()
        if len(n_bins) != d or not all(is_count(n) for n in n_bins):
            raise ValueError(
                f"n_bins must be a positive integer, or a list with one for each of {d} columns; "
                f"got {n_bins!r}."
            )
        given = {schema.index(j, "bins"): own for j, own in (bins or {}).items()}
        self.bins = {j: _own_bins(schema, j, given[j]) for j in sorted(given)}
        self.n_bins = tuple(check_size(self._n_codes(j, int(n_bins[j]))) for j in range(d))
        told = {schema.index(j, "points"): own for j, own in (points or {}).items()}
        self.points = {j: self._own_points(j, told[j]) for j in sorted(told)}
        self._set_groups(groups)

    def of_groups(self, groups: Sequence[Sequence[int]]) -> HistogramMap:
        """Return the map of other groups in the same cells."""
        other = copy(self)
        other._set_groups(groups)
        return other

    def _set_groups(self, groups: Sequence[Sequence[int]]) -> None:
        if len(groups) > MOST_GROUPS:
            raise ValueError(
                f"marginals makes {len(groups):,} groups of columns, and at most {MOST_GROUPS:,} "
                "can be counted; list fewer."
            )
        self.groups = tuple(tuple(self.schema.index(j, "marginals") for j in g) for g in groups)
        if not self.groups or any(len(set(g)) < max(len(g), 1) for g in self.groups):
            raise ValueError(f"marginals must list groups of different columns, got {groups!r}.")
        # A product is too large long before all columns of a stranger's group are multiplied.
        bins = ([self.n_bins[j] for j in group] for group in self.groups)
        sizes = [reduce(lambda size, n: check_size(size * n), own, 1) for own in bins]
        self.n_features = check_size(sum(sizes))
        self.sizes = np.array(sizes, np.int64)

    def _n_codes(self, j: int, n_bins: int) -> int:
        known, edges, missing = self.schema.values(j), self._own_edges(j), self.schema.missing(j)
        if known is not None:
            return int(self.cell_of_codes(j).max()) + 1
        if edges is not None:
            return len(edges) - 1 + missing
        return min(n_bins, self.schema.columns[j].n_values or n_bins) + missing

    def _own_edges(self, j: int) -> tuple[float, ...] | None:
        """Return the edges that numeric column `j` was given, None for equal bins."""
        return self.bins.get(j, self.schema.columns[j].edges)

    def _own_points(self, j: int, own: Sequence[float]) -> tuple[float, ...]:
        """Return the points of one column as plain numbers, or raise ValueError."""
        name, bounds = f"points, column {self.schema.name(j)!r}", self.schema.bound(j)
        found = np.array(increasing(name, own, least=1))
        if bounds is None or self.schema.step(j) is not None:
            raise ValueError(f"{name}: only numbers without a step have them.")
        if not bounds[0] <= found[0] <= found[-1] <= bounds[1]:
            raise ValueError(f"{name}: they must lie in the range {bounds}, got {told(own)}.")
        if len(np.unique(self._bins_of(found, j))) < len(found):
            raise ValueError(f"{name}: a bin holds two of {told(own)}.")
        return tuple(found.tolist())

    def n_present(self, j: int) -> int:
        """Return the number of cells of column `j`, without one of missing cells alone."""
        if self.schema.values(j) is None:
            return self.n_bins[j] - self.schema.missing(j)
        return len(set(self.cell_of_codes(j)[: len(self.schema.values(j))].tolist()))  # type: ignore[arg-type]

    def cell_of_codes(self, j: int) -> NDArray[np.int64]:
        """Return the cell of each code of categorical column `j`, the code of missing last.

        Category ``schema.values(j)[code]`` is counted in cell ``cell_of_codes(j)[code]``. Without
        `bins` of its own, each code of a column is a cell.
        """
        column = self.schema.columns[j]
        if not isinstance(column, Categorical):
            raise ValueError(f"Column {self.schema.name(j)!r} has bins, not categories.")
        return np.array(self.bins.get(j, range(column.n_codes)), np.int64)

    def seen_columns(self) -> set[int]:
        return {j for group in self.groups for j in group}

    def columns_in_pairs(self) -> set[int]:
        return {j for group in self.groups if len(group) > 1 for j in group}

    @classmethod
    def build(cls, schema: TableSchema, n_bins: Any, marginals: Any) -> HistogramMap:
        """Return the map of what the user gave to a `HistogramSketcher`."""
        d, one_number = schema.n_columns, np.isscalar(marginals)
        bins = [n_bins] * d if np.ndim(n_bins) == 0 else list(n_bins)
        if not one_number:
            if not all(isinstance(group, list | tuple) for group in marginals):
                raise ValueError(
                    f"marginals must be a number, or lists of columns such as [['a', 'b'], ['c']]; "
                    f"got {marginals!r}."
                )
            groups = list(marginals)
        elif 1 <= marginals <= d:
            check_size(math.comb(d, int(marginals)))  # each has a bin at least
            groups = list(combinations(range(d), int(marginals)))
        else:
            raise ValueError(
                f"marginals={marginals!r} must be from 1 to {d}, the number of columns."
            )
        return cls(schema, bins, groups)

    def column_codes(self, X: NDArray, j: int) -> NDArray[np.int64]:
        """Return the bin of each cell of column `j`; numbers outside the range are clipped."""
        if self.schema.values(j) is not None:
            codes = self.schema.read(X, j)
            return self.cell_of_codes(j)[codes] if j in self.bins else codes
        values = self.schema.read(X, j)
        if not self.schema.missing(j):
            return self._bins_of(values, j)
        absent = np.isnan(values)
        bins = self._bins_of(np.where(absent, self.schema.bound(j)[0], values), j)  # type: ignore[index]
        return np.where(absent, self.n_present(j), bins)

    def _bins_of(self, values: NDArray[np.float64], j: int) -> NDArray[np.int64]:
        if self._own_edges(j) is not None or self.schema.step(j) is not None:
            return _searched(self.edges(j), values)
        low, high = self.schema.bound(j) or (0.0, 1.0)
        n = self.n_present(j)
        # The ends themselves may be rounded past the last bin, so codes are clipped again.
        return np.clip(((values - low) * (n / (high - low))).astype(np.int64), 0, n - 1)

    def codes(self, X: NDArray) -> NDArray[np.int64]:
        return np.column_stack(list(self.group_codes(X)))

    def group_codes(self, X: NDArray) -> Iterator[NDArray[np.int64]]:
        # Columns are read once, however many histograms share them.
        by_column = {j: self.column_codes(X, j) for j in sorted(self.seen_columns())}
        for group in self.groups:
            cells = by_column[group[0]]
            for j in group[1:]:
                cells = cells * self.n_bins[j] + by_column[j]
            yield cells

    def float_sums(self, X: NDArray, weights: NDArray | None = None) -> NDArray[np.float64]:
        # One histogram at a time: of many, the matrix of all codes is larger than the table.
        if weights is None:
            return self.grid_sums(X) / GRID
        total = np.zeros(self.n_features)
        for rows in batches(len(X)):
            for place, codes in zip(self.row_groups(), self.group_codes(X[rows]), strict=True):
                total[place] += np.bincount(codes, weights[rows], place.stop - place.start)
            advance()
        return total

    @property
    def _n_codes_at_once(self) -> int:
        return len(self.seen_columns())

    def edges(self, j: int) -> NDArray[np.float64]:
        """Return the ``n_present(j) + 1`` edges of the bins of numeric column `j`.

        Where the column has a step they lie half a step below the first value of each bin, and
        half a step above the last one.
        """
        low, high = self.schema.bound(j) or (0.0, 1.0)
        own, step, n = self._own_edges(j), self.schema.step(j), self.n_present(j)
        if step is None:
            return np.linspace(low, high, n + 1) if own is None else np.array(own)
        if own is None:
            # Value k is in bin k * n // n_values.
            (whole, rest), k = divmod(self.schema.columns[j].n_values or n, n), np.arange(n + 1)
            first: NDArray = k * whole - (-k * rest // n)
        else:
            first = first_values(own, low, step)
        return low + (first - 0.5) * step

    def contents(self, j: int) -> list[Any]:
        """Return what each cell of column `j` may hold, as `TableSchema.possible_cells` takes it.

        Of numbers the smallest and the largest, None for the cell of missing ones; of categories
        their codes.
        """
        if self.schema.values(j) is not None:
            cells = self.cell_of_codes(j)
            return [tuple(np.flatnonzero(cells == k).tolist()) for k in range(self.n_bins[j])]
        half, edges = (self.schema.step(j) or 0.0) / 2, self.edges(j)
        ends: list[Any] = list(zip(edges[:-1] + half, edges[1:] - half, strict=True))
        return [*ends, None] if self.schema.missing(j) else ends

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        every = range(self.schema.n_columns)
        state = {
            "kind": self.kind,
            "n_bins": [self.n_present(j) for j in every],
            "groups": [list(group) for group in self.groups],
            **self.schema.to_dict(),
        }
        if self.bins:
            state["bins"] = [list(self.bins[j]) if j in self.bins else None for j in every]
        if self.points:
            state["points"] = [list(self.points[j]) if j in self.points else None for j in every]
        return state, {}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> HistogramMap:
        schema = TableSchema.from_dict(state)
        own: list[dict[int, Any]] = []
        for name in ("bins", "points"):
            listed = state.get(name, [None] * schema.n_columns)
            if len(listed) != schema.n_columns:
                raise ValueError(
                    f"{name} must have an entry for each of {schema.n_columns} columns."
                )
            own.append({j: one for j, one in enumerate(listed) if one is not None})
        return cls(schema, state["n_bins"], state["groups"], *own)


def _searched(edges: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of each value between edges, several times as fast as a search for each.

    Rounding keeps order: all edges in lower buckets are below a value, and all in higher ones above
    it. So only values that share a bucket with an edge are searched for.
    """
    low, inner = edges[0], edges[1:-1]
    # With 8 buckets a bin, one in eight even values shares a bucket with an edge: search finds it.
    n_buckets = min(8 * len(edges), len(values))
    per_unit = n_buckets / (edges[-1] - low)
    n_edges = np.bincount(((inner - low) * per_unit).astype(np.int64), minlength=n_buckets + 1)
    bucket = ((values - low) * per_unit).astype(np.int64)
    bins = (np.cumsum(n_edges) - n_edges)[bucket]
    near = np.flatnonzero(n_edges[bucket])
    bins[near] = np.searchsorted(inner, values[near], side="right")
    return bins


def _own_bins(schema: TableSchema, j: int, own: Sequence[Any]) -> tuple[Any, ...]:
    """Return the bins of one column as plain numbers, or raise ValueError."""
    column = schema.columns[j]
    try:
        if isinstance(column, Numeric):
            # Its constructor knows what edges fit a range and a step.
            low, high = column.bounds or (None, None)
            return Numeric(low, high, step=column.spacing, edges=own).edges  # type: ignore
        return _own_cells(column, own)
    except ValueError as error:
        raise ValueError(f"bins, column {schema.name(j)!r}: {error}") from None


def _own_cells(column: Categorical, own: Sequence[Any]) -> tuple[int, ...]:
    given = list(own) if np.iterable(own) else []
    if len(given) != column.n_codes or not all(cell == 0 or is_count(cell) for cell in given):
        raise ValueError(
            f"list a cell (0, 1, ...) for each of its {column.n_codes} codes, got {told(own)}."
        )
    cells = tuple(map(int, given))
    if len(set(cells)) != max(cells) + 1:
        raise ValueError(f"number the cells from 0 on and use each, got {told(own)}.")
    return cells
