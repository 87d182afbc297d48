"""The public description of a table: names, bounds, categories, units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Columns:
    """What is publicly known of each column of a table.

    Parameters
    ----------
    n_columns : int
    bounds : tuple of (low, high) or None, one per column, or None
        Range of each numeric column, in the column's own units. None where nothing is known.
    categories : tuple of tuples or None, one per column, or None
        Values of each categorical column; None for a numeric column.
    names : tuple of str, default=None
    units : tuple of str or None, default=None
        Physical units, for the reader of a sketch file.
    """

    n_columns: int
    bounds: tuple[tuple[float, float] | None, ...] | None = None
    categories: tuple[tuple[Any, ...] | None, ...] | None = None
    names: tuple[str, ...] | None = None
    units: tuple[str | None, ...] | None = None

    @classmethod
    def build(
        cls,
        n_columns: int,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        names: ArrayLike | None = None,
    ) -> Columns:
        """Check user-given `bounds` and `categories` against the number and names of columns.

        Parameters
        ----------
        n_columns : int
        bounds : pair, sequence of pairs, or mapping from column to pair, default=None
            One (low, high) for all columns or one per column; None at a categorical column.
        categories : mapping from column (index or name) to values, default=None
        names : sequence of str, default=None

        Raises
        ------
        ValueError
            For bounds the wrong way round, missing or not finite, and for unknown columns.
        """
        labels = None if names is None else tuple(str(name) for name in np.asarray(names))
        listed = cls(n_columns, names=labels)
        values: list[tuple[Any, ...] | None] = [None] * n_columns
        for key, known in (categories or {}).items():
            values[listed.index(key, "categories")] = _check_categories(key, known)
        pairs = None if bounds is None else listed._spread(bounds, values)
        return replace(listed, bounds=pairs, categories=tuple(values) if any(values) else None)

    def _spread(
        self, bounds: Any, values: list[Any]
    ) -> tuple[tuple[float, float] | None, ...] | None:
        if not hasattr(bounds, "__len__") or (isinstance(bounds, np.ndarray) and not bounds.ndim):
            raise ValueError(f"bounds must be a (low, high) pair, or pairs; got {bounds!r}.")
        if isinstance(bounds, Mapping):
            by_index = {self.index(key, "bounds"): pair for key, pair in bounds.items()}
            pairs = [by_index.get(j) for j in range(self.n_columns)]
        elif len(bounds) == 2 and all(np.isscalar(b) for b in bounds):
            pairs = [tuple(bounds)] * self.n_columns
        else:
            pairs = list(bounds)
        if len(pairs) != self.n_columns:
            raise ValueError(
                f"bounds has {len(pairs)} entries for {self.n_columns} columns; give one "
                "(low, high) for all columns, or one per column."
            )
        checked = zip(pairs, values, range(self.n_columns), strict=True)
        known_pairs = tuple(
            None if known else _check_pair(pair, self.name(j)) for pair, known, j in checked
        )
        return known_pairs if any(known_pairs) else None

    def index(self, key: Any, parameter: str) -> int:
        """Return the position of a column given by name or index."""
        if isinstance(key, str):
            if self.names is None or key not in self.names:
                raise ValueError(f"{parameter} names column {key!r}, which the data do not have.")
            return self.names.index(key)
        if not (isinstance(key, Integral) and 0 <= key < self.n_columns):
            raise ValueError(
                f"{parameter} names column {key!r}; "
                f"the data have columns 0 to {self.n_columns - 1}."
            )
        return int(key)

    def name(self, j: int) -> str:
        """Return the name of column `j`, or ``x<j>``."""
        return f"x{j}" if self.names is None else self.names[j]

    def values(self, j: int) -> tuple[Any, ...] | None:
        """Return the categories of column `j`, None for a numeric column."""
        return None if self.categories is None else self.categories[j]

    def bound(self, j: int) -> tuple[float, float] | None:
        """Return the (low, high) of column `j`, None where it has none."""
        return None if self.bounds is None else self.bounds[j]

    @property
    def is_numeric(self) -> bool:
        """Whether no column is categorical."""
        return self.categories is None

    def check(self, X: NDArray) -> None:
        """Raise ValueError for a value that is not listed, or no finite number where one is due."""
        for j in range(self.n_columns):
            if self.values(j) is not None:
                self.code(X, j)
            elif X.dtype.kind != "f":  # what is float was checked on the way in
                self._floats(X, j)

    def code(self, X: NDArray, j: int) -> NDArray[np.int64]:
        """Return the position of each entry of categorical column `j` among its categories."""
        known = self.values(j)
        assert known is not None
        lookup = {value: k for k, value in enumerate(known)}
        column = X[:, j].tolist()
        codes = np.fromiter((lookup.get(v, -1) for v in column), np.int64, len(column))
        if np.any(codes < 0):
            raise ValueError(
                f"Column {self.name(j)!r} holds a value that is not among its categories; add it "
                "to `categories`, or map rare values to one of those listed."
            )
        return codes

    def number(self, X: NDArray, j: int) -> NDArray:
        """Return numeric column `j` as floats, clipped to its bounds where it has any.

        Bounds are applied in float64: they may be infinite in float32, and give NaN.
        """
        column = X[:, j] if X.dtype.kind == "f" else self._floats(X, j)
        bound = self.bound(j)
        return column if bound is None else np.clip(column, *bound, dtype=np.float64)

    def _floats(self, X: NDArray, j: int) -> NDArray[np.float64]:
        try:
            column = X[:, j].astype(np.float64)
        except (TypeError, ValueError):
            column = np.array([np.nan])
        # Raised out here, for the error above holds a value of the data.
        if not np.isfinite(column).all():
            raise ValueError(
                f"Column {self.name(j)!r} must hold finite numbers; if its values are names, list "
                "them in `categories`."
            )
        return column

    @property
    def n_encoded(self) -> int:
        """Number of columns that `encode` returns."""
        known = [self.values(j) for j in range(self.n_columns)]
        return sum(1 if values is None else len(values) for values in known)

    def encode(self, X: NDArray) -> NDArray:
        """Return X with numeric columns scaled to [0, 1] and categories at distance one.

        Numeric columns with bounds are clipped and scaled; without bounds they are left alone. A
        categorical column becomes its indicators times ``sqrt(1/2)``, so that two different
        categories are as far apart as the two ends of a numeric range.
        """
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        if self.bounds is None and self.is_numeric:
            return X.astype(dtype, copy=False)
        out = np.zeros((X.shape[0], self.n_encoded), dtype)
        start = 0
        for j in range(self.n_columns):
            known = self.values(j)
            if known is not None:
                out[np.arange(len(X)), start + self.code(X, j)] = np.sqrt(0.5)
                start += len(known)
                continue
            low, high = self.bound(j) or (0.0, 1.0)
            out[:, start] = (self.number(X, j) - low) / (high - low)
            start += 1
        return out

    def sample(self, n_samples: int, rng: np.random.RandomState) -> NDArray:
        """Draw rows uniformly from the bounds and the categories, each column stratified."""
        return stack_columns(
            [self._sample_column(j, stratified(n_samples, rng)) for j in range(self.n_columns)]
        )

    def _sample_column(self, j: int, u: NDArray) -> NDArray:
        known, bound = self.values(j), self.bound(j)
        if known is not None:
            return self.decode(j, np.minimum((u * len(known)).astype(int), len(known) - 1))
        if bound is None:
            raise ValueError(
                f"bounds is missing for column {self.name(j)!r}: give its public (low, high), "
                "inside which synthetic points are drawn."
            )
        return bound[0] + u * (bound[1] - bound[0])

    def require_bounds(self) -> None:
        """Raise ValueError if a numeric column has no bounds."""
        for j in range(self.n_columns):
            if self.values(j) is None and self.bound(j) is None:
                self._sample_column(j, np.zeros(1))

    def decode(self, j: int, codes: NDArray) -> NDArray:
        """Return the categories of column `j` at positions `codes`."""
        known = self.values(j)
        numeric = all(isinstance(v, int | float | np.number) for v in known or ())
        return np.asarray(known, dtype=np.float64 if numeric else object)[codes]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        columns = [
            {
                "name": None if self.names is None else self.names[j],
                "bounds": self.bound(j),
                "categories": self.values(j),
                "unit": None if self.units is None else self.units[j],
            }
            for j in range(self.n_columns)
        ]
        return {"columns": columns}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Columns:
        """Rebuild from `to_dict`."""
        columns = description["columns"]

        def gather(key: str) -> tuple[Any, ...] | None:
            found = [column[key] for column in columns]
            tuples = [tuple(v) if isinstance(v, list) else v for v in found]
            return None if all(v is None for v in tuples) else tuple(tuples)

        return cls(
            len(columns), gather("bounds"), gather("categories"), gather("name"), gather("unit")
        )


def stratified(n_points: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    """Return one uniform number in each of n equal slices of [0, 1], in random order."""
    return (rng.permutation(n_points) + rng.uniform(size=n_points)) / n_points


def stack_columns(parts: list[NDArray]) -> NDArray:
    """Return columns side by side: floats, or objects where one of them holds objects."""
    if all(part.dtype.kind == "f" for part in parts):
        return np.column_stack(parts)
    table = np.empty((len(parts[0]), len(parts)), dtype=object)
    for j, part in enumerate(parts):
        table[:, j] = part
    return table


def _check_pair(pair: Any, name: str) -> tuple[float, float]:
    remedy = f"give the column's public range as (low, high), low < high; column {name!r} has"
    try:
        low, high = (float(b) for b in pair)
    except (TypeError, ValueError):
        raise ValueError(f"bounds is missing or no pair: {remedy} {pair!r}.") from None
    if not 1e-300 < high - low < np.inf:  # else scaling would overflow, to NaN
        raise ValueError(f"bounds must be finite and increasing: {remedy} ({low!r}, {high!r}).")
    return low, high


def _check_categories(key: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ValueError(f"categories[{key!r}] must be a list of values, got {values!r}.")
    # Python scalars compare and serialise alike whatever container they came from.
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    if len(plain) < 2 or len(set(plain)) < len(plain):
        raise ValueError(
            f"categories[{key!r}] must list at least two different values, got {len(plain)} "
            f"of which {len(set(plain))} differ."
        )
    return plain
