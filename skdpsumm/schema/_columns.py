"""The public description of a table: names, bounds, categories, steps, units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._listed import check_listed, positions
from ._reading import FILL_MISSING, NO_TIMES, CellError, Table, exact_numbers


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
    steps : tuple of float or None, default=None
        Step of each column whose values are low, low + step, ..., high; None for any other.
    """

    n_columns: int
    bounds: tuple[tuple[float, float] | None, ...] | None = None
    categories: tuple[tuple[Any, ...] | None, ...] | None = None
    names: tuple[str, ...] | None = None
    units: tuple[str | None, ...] | None = None
    steps: tuple[float | None, ...] | None = None

    @classmethod
    def build(
        cls,
        n_columns: int,
        bounds: Any = None,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        names: ArrayLike | None = None,
        steps: Any = None,
    ) -> Columns:
        """Check what the user says of columns against their number and names.

        Parameters
        ----------
        n_columns : int
        bounds : pair, sequence of pairs, or mapping from column to pair, default=None
            One (low, high) for all columns or one per column; None at a categorical column.
        categories : mapping from column (index or name) to values, default=None
        names : sequence of str, default=None
        steps : float, sequence, or mapping from column to float, default=None
            One for all numeric columns or one per column; None where the values are on no grid.

        Raises
        ------
        ValueError
            For bounds the wrong way round, missing or not finite, for steps that do not lead from
            low to high, and for unknown columns.
        """
        labels = None if names is None else tuple(str(name) for name in np.asarray(names, object))
        listed = cls(n_columns, names=labels)
        values: list[tuple[Any, ...] | None] = [None] * n_columns
        for key, known in (categories or {}).items():
            values[listed.index(key, "categories")] = _check_categories(key, known)
        # In this order, for each is checked against those before it.
        table = replace(listed, categories=tuple(values) if any(values) else None)
        table = table if bounds is None else replace(table, bounds=table._spread_bounds(bounds))
        return table if steps is None else replace(table, steps=table._spread_steps(steps))

    def _spread(self, parameter: str, given: Any, one: str, *, for_all: bool) -> list[Any]:
        """Return what is given for each column: one for all, one per column, or a mapping."""
        if isinstance(given, Mapping):
            by_index = {self.index(key, parameter): value for key, value in given.items()}
            return [by_index.get(j) for j in range(self.n_columns)]
        entries = [given] * self.n_columns if for_all else list(given)
        if len(entries) != self.n_columns:
            raise ValueError(
                f"{parameter} has {len(entries)} entries for {self.n_columns} columns; give one "
                f"{one} for all columns, one per column, or a mapping from column to {one}."
            )
        return entries

    def _spread_bounds(self, bounds: Any) -> tuple[tuple[float, float] | None, ...] | None:
        if not hasattr(bounds, "__len__") or (isinstance(bounds, np.ndarray) and not bounds.ndim):
            raise ValueError(f"bounds must be a (low, high) pair, or pairs; got {bounds!r}.")
        one_pair = len(bounds) == 2 and all(np.isscalar(b) for b in bounds)
        pairs = self._spread("bounds", bounds, "(low, high)", for_all=one_pair)
        # Those of a categorical column are left out, as where one pair is for all.
        checked = tuple(
            _check_pair(pair, self.name(j)) if self.values(j) is None else None
            for j, pair in enumerate(pairs)
        )
        return checked if any(checked) else None

    def _spread_steps(self, steps: Any) -> tuple[float | None, ...] | None:
        one_step = not isinstance(steps, list | tuple) and getattr(steps, "ndim", 0) == 0
        each = self._spread("steps", steps, "step", for_all=one_step)
        if one_step and not isinstance(steps, Mapping):  # which is of the numeric columns
            each = [step if self.values(j) is None else None for j, step in enumerate(each)]
        known = tuple(None if s is None else self._check_step(s, j) for j, s in enumerate(each))
        return known if any(known) else None

    def _check_step(self, step: Any, j: int) -> float:
        bound, given = self.bound(j), f"steps[{self.name(j)!r}]={step!r}"
        if self.values(j) is not None:
            raise ValueError(f"{given} is of a categorical column; leave it out.")
        if bound is None:
            raise ValueError(f"{given} needs `bounds` of that column, its first and last value.")
        if not isinstance(step, Real) or not 0 < float(step) < 1e308:
            raise ValueError(f"{given} must be a positive number, the distance of two values.")
        low, high = bound
        n_steps = (high - low) / float(step)  # a whole number, up to what decimals lose in binary
        # Finer, and half a step would be lost in the rounding of the values.
        if step < 16 * np.spacing(max(-low, high)) or n_steps < 0.5:
            raise ValueError(f"{given} is too fine or too wide for bounds {bound}; leave it out.")
        if abs(n_steps - round(n_steps)) > 1e-6:
            raise ValueError(
                f"{given} does not lead from one of the bounds {bound} to the other; give bounds "
                "that are values of the column."
            )
        return float(step)

    def index(self, key: Any, parameter: str) -> int:
        """Return the position of a column given by name or index."""
        if isinstance(key, str):
            if self.names is None or key not in self.names:
                raise ValueError(f"{parameter} names column {key!r}, which the data do not have.")
            return self.names.index(key)
        if not (isinstance(key, Integral) and 0 <= int(key) < self.n_columns):
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

    def step(self, j: int) -> float | None:
        """Return the step of column `j`, None where its values are on no grid."""
        return None if self.steps is None else self.steps[j]

    def n_values(self, j: int) -> int | None:
        """Return the number of values of numeric column `j`, None where they are on no grid."""
        bound, step = self.bound(j), self.step(j)
        return None if bound is None or step is None else round((bound[1] - bound[0]) / step) + 1

    def on_grid(self, values: NDArray, j: int) -> NDArray:
        """Return each of `values` moved to the closest value that column `j` has.

        Where the column has no step they are returned as they are.
        """
        bound, step = self.bound(j), self.step(j)
        if bound is None or step is None:
            return values
        low, high = bound
        last = round((high - low) / step)
        k = np.clip(np.rint((np.asarray(values, np.float64) - low) / step), 0, last)
        return np.where(k == last, high, _as_written(low + k * step, bound, step))

    @property
    def numeric(self) -> list[int]:
        """The columns of numbers."""
        return [j for j in range(self.n_columns) if self.values(j) is None]

    @property
    def is_numeric(self) -> bool:
        """Whether no column is categorical."""
        return self.categories is None

    def check(self, X: NDArray | Table) -> None:
        """Raise ValueError for a value that is not listed, or no finite number where one is due."""
        for j in range(self.n_columns):
            if self.values(j) is not None:
                self.code(X, j)
            else:
                self._floats(X, j)

    def code(self, X: NDArray | Table, j: int) -> NDArray[np.int64]:
        """Return the position of each entry of categorical column `j` among its categories."""
        known, fault = self.values(j), ""
        assert known is not None
        try:
            codes = positions(X[:, j], known)
        except CellError as error:
            fault = error.fault
        if fault == "missing":
            raise ValueError(self._missing(j))
        if fault == "narrow":
            raise ValueError(
                f"Column {self.name(j)!r} has a short float type, which cannot hold each of its "
                "categories; convert it, such as by astype(float)."
            )
        if fault:
            raise ValueError(
                f"Column {self.name(j)!r} holds dates or times, and `categories` are words or "
                "numbers; convert it to words, such as by astype(str)."
            )
        if np.any(codes < 0):
            raise ValueError(
                f"Column {self.name(j)!r} holds a value that is not among its categories; add it "
                "to `categories`, or map rare values to one of those listed."
            )
        return codes

    def number(self, X: NDArray | Table, j: int) -> NDArray[np.float64]:
        """Return numeric column `j` as floats, clipped to its bounds and moved to its grid if any.

        Each is a function of its own cell, whatever the dtype of the column.
        """
        column, bound = self._floats(X, j), self.bound(j)
        return column if bound is None else self.on_grid(np.clip(column, *bound), j)

    def _floats(self, X: NDArray | Table, j: int) -> NDArray[np.float64]:
        fault = ""
        try:
            column = exact_numbers(X[:, j])
            if np.isfinite(column).all():
                return column
            fault = "missing" if np.isnan(column).any() else fault
        except CellError as error:
            fault = error.fault
        if fault == "times":
            raise ValueError(f"Column {self.name(j)!r} holds dates or times. {NO_TIMES}")
        if fault == "missing":
            raise ValueError(self._missing(j))
        raise ValueError(
            f"Column {self.name(j)!r} must hold finite numbers; if its values are names, list "
            "them in `categories`, or leave the column out."
        )

    def _missing(self, j: int) -> str:
        return f"Column {self.name(j)!r} has missing values. {FILL_MISSING}"

    @property
    def n_encoded(self) -> int:
        """Number of columns that `encode` returns."""
        known = [self.values(j) for j in range(self.n_columns)]
        return sum(1 if values is None else len(values) for values in known)

    def encode(self, X: NDArray | Table) -> NDArray:
        """Return X with numeric columns scaled to [0, 1] and categories at distance one.

        Numeric columns with bounds are clipped and scaled; without bounds they are left alone. A
        categorical column becomes its indicators times ``sqrt(1/2)``, so that two different
        categories are as far apart as the two ends of a numeric range.
        """
        # Nothing to encode: a memmap stays one, and is read block by block.
        if self.bounds is None and self.is_numeric and not isinstance(X, Table):
            return X if X.dtype == np.float32 else exact_numbers(X)
        out = np.zeros((X.shape[0], self.n_encoded))
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
        # Stratified, each column is covered evenly by few points, whatever the others are.
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
        half = (self.step(j) or 0.0) / 2  # which the first and the last value extend beyond bounds
        return self.on_grid(bound[0] - half + u * (bound[1] - bound[0] + 2 * half), j)

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
        nothing = (None,) * self.n_columns
        lists = (self.names, self.bounds, self.categories, self.units, self.steps)
        rows = zip(*(entries or nothing for entries in lists), strict=True)
        keys = ("name", "bounds", "categories", "unit", "step")
        return {"columns": [dict(zip(keys, row, strict=True)) for row in rows]}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Columns:
        """Rebuild from `to_dict`, by `build`: what it refuses is refused here.

        Raises
        ------
        ValueError
            For a description that is none.
        """
        columns = description["columns"]
        if not columns or not all(isinstance(column, dict) for column in columns):
            raise ValueError("The description of a table lists no columns.")

        def known(key: str) -> dict[int, Any] | None:
            found = {j: c[key] for j, c in enumerate(columns) if c[key] is not None}
            return found or None

        texts = {key: [column[key] for column in columns] for key in ("name", "unit")}
        for words in texts.values():
            if not all(word is None or isinstance(word, str) for word in words):
                raise ValueError("Names and units of columns must be text.")
        names = texts["name"] if known("name") else None
        if names and None in names:
            raise ValueError("Either all columns have a name, or none.")
        values = known("categories")
        for listed in (values or {}).values():
            if not all(_is_plain(value) for value in listed):
                raise ValueError("Categories of a description must be words or numbers.")
        table = cls.build(len(columns), known("bounds"), values, names, known("step"))
        return replace(table, units=tuple(texts["unit"]) if known("unit") else None)


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


def _is_plain(value: Any) -> bool:
    """Whether `value` may be in a cell of a table; integers of tables have 64 bits at most."""
    if isinstance(value, int):
        return abs(value) < 2**64
    if isinstance(value, float):
        return bool(np.isfinite(value))
    return not isinstance(value, list | dict)


def _check_pair(pair: Any, name: str) -> tuple[float, float]:
    remedy = f"give the column's public range as (low, high), low < high; column {name!r} has"
    try:
        low, high = (float(b) for b in pair)
    except (TypeError, ValueError):
        raise ValueError(f"bounds is missing or no pair: {remedy} {pair!r}.") from None
    if not 1e-300 < high - low < np.inf:  # else scaling would overflow, to NaN
        raise ValueError(f"bounds must be finite and increasing: {remedy} ({low!r}, {high!r}).")
    return low, high


def _as_written(values: NDArray, bound: tuple[float, float], step: float) -> NDArray:
    """Return the decimals that people write for low + k * step: 0.1 * 3 is more than 0.3."""
    places = [-int(Decimal(repr(x)).normalize().as_tuple().exponent) for x in (bound[0], step)]
    # Beyond 22 places, or for values of more than 53 bits, these products are not exact.
    scale = 10.0 ** min(max(0, *places), 23)
    exact = scale < 1e23 and max(-bound[0], bound[1]) * scale < 2**53
    return np.rint(values * scale) / scale if exact else values


def _check_categories(key: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    known = check_listed(f"categories[{key!r}]", values)
    if len(known) < 2:
        raise ValueError(
            f"categories[{key!r}] lists {len(known)} value(s), and a column with fewer than two "
            "tells nothing; list all public values of the column, or leave the column out."
        )
    return known


def first_difference(here: Any, there: Any, path: str = "") -> str | None:
    """Return the first entry in which two nested descriptions differ, by name, or None."""
    if isinstance(here, dict) and isinstance(there, dict):
        keys = [(f"{path}.{k}" if path else k, k) for k in sorted({*here, *there})]
        pairs = [(name, here.get(k), there.get(k)) for name, k in keys]
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        pairs = [(f"{path}[{j}]", *p) for j, p in enumerate(zip(here, there, strict=True))]
    else:
        same = type(here) is type(there) and here == there
        return None if same else f"{path}: {_short(here)} here, {_short(there)} there"
    return next((d for d in (first_difference(h, t, name) for name, h, t in pairs) if d), None)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries"
    return "nothing" if value is None else repr(value)[:80]
