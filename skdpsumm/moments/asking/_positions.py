"""Rows that a question is asked of: synthetic points, and these moved about in their cells.

Where in its bin a row lies, a histogram does not tell, and an answer must allow all of it.

A synthetic point stands for every row of its cell. So a question is asked of the point, and of the
point moved about in its cell: to the lower and the upper ends of its bins, which a point drawn at
random never meets, and which are where rows are crowded (a gain of exactly 0, an age of 18).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, NDArray

from ...features._feature_maps import FeatureMap
from ...features._histogram import HistogramMap
from ...schema._reading import is_missing
from ...schema._schema import TableSchema, stack_columns
from ..inferring._points import absent
from ..inferring._regression import FeatureBlocks

# Of a column without a histogram: Fourier features tell places not much better than these.
_N_STRETCHES = 32
# Moves of all columns alike; a condition that is narrower than a quarter of a bin and holds at
# neither end of it may be missed, unless it is named (`M2MEstimator.histogram`).
_COMMON_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Of the points, how many are enough for means over all of them.
FEW_POINTS = 2000
# Of so many features, those of the few points and their moves are kept: at most some 200 MB.
_MOST_FEATURES_KEPT = 1000
# Of points with so many numbers, all moves are kept: some 30 MB.
_MOST_NUMBERS_KEPT = 100 * FEW_POINTS
_NO_SERIES = (
    "The columns of a question are NumPy arrays, not Series of pandas. Of the methods of a Series "
    "they have isin, between and isna: rows['job'].isin(['nurse', 'clerk'])."
)
_JOIN = (
    "Join conditions with & (and), | (or) and ~ (not), each in brackets: (rows['age'] > 40) & "
    "(rows['job'] == 'nurse')."
)
# What NumPy and Python say where `and` joins arrays, or `&` binds closer than a comparison.
_OF_JOINING = re.compile(r"truth value of an array|'(bitwise_|invert)|for [&|]:")


class AskedColumn(np.ndarray):
    """A column of rows that are asked: an array that also tells which values are among others.

    As in pandas, a missing value is between no two others, and is in a list that holds one.
    """

    def isin(self, values: Iterable[Any]) -> NDArray[np.bool_]:
        """Return which values are in a list."""
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TypeError(f"isin takes a list of values, such as [{values!r}]; got {values!r}.")
        listed = list(values)
        try:
            wanted = {value for value in listed if not is_missing(value)}
        except TypeError:
            raise TypeError("isin takes a list of values, not of lists of them.") from None
        found = np.array([value in wanted for value in self.tolist()], np.bool_)
        return found | self.isna() if any(map(is_missing, listed)) else found

    def between(self, left: Any, right: Any) -> NDArray[np.bool_]:
        """Return which values lie between two others, both included."""
        present = ~self.isna()
        values, found = np.asarray(self)[present], np.zeros(self.shape, np.bool_)
        try:
            found[present] = (values >= left) & (values <= right)
        except TypeError:  # numpy's, or that of a cell
            raise TypeError(
                "between takes two values that this column's compare with: numbers for a column of "
                f"numbers, words for one of words; got {left!r} and {right!r}. For a column with "
                "both, take isin."
            ) from None
        return found

    def isna(self) -> NDArray[np.bool_]:
        """Return which values are missing."""
        values = np.asarray(self, object)  # of which None and NaN stand for no value
        return np.asarray((values == np.array(None)) | (values != values), np.bool_)


class NamedRows(NDArrayOperatorsMixin):
    """Rows that are asked: ``rows["age"]`` or ``rows[:, 0]``; as an array, all of them.

    A column is made when it is taken, so that those that nobody asks for cost nothing, and
    ``taken`` tells which those are. What is taken is an array of its own, and a single column an
    `AskedColumn`: columns of numbers are floats, and a table of numbers and categories is an array
    of objects. A missing number is NaN, a missing category None (NaN among numbers).

    Parameters
    ----------
    columns : TableSchema
    n_rows : int
    make : callable
        Takes the number of a column and returns it, shape (n_rows,).
    whole : callable, default=None
        Returns all columns side by side, where they are kept.
    """

    ndim = 2

    def __init__(
        self,
        columns: TableSchema,
        n_rows: int,
        make: Callable[[int], NDArray],
        whole: Callable[[], NDArray] | None = None,
    ):
        self.shape = (n_rows, columns.n_columns)
        self.taken: set[int] = set()
        self.columns, self.make, self._whole = columns, make, whole

    @classmethod
    def of(cls, rows: NDArray, columns: TableSchema) -> NamedRows:
        """Return `rows`, shape (n, d), with the names of `columns`."""
        return cls(columns, len(rows), lambda j: column_of(rows, columns, j))

    def part(self, which: slice) -> NamedRows:
        """Return some of the rows."""
        return NamedRows(self.columns, len(range(len(self))[which]), lambda j: self.make(j)[which])

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __array__(self, dtype=None, copy=None):
        found = self._all()
        return np.asarray(found if self._whole is None else found.copy(), dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [i._all() if isinstance(i, NamedRows) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def _all(self) -> NDArray:
        """Return all columns; what is kept cannot be written to."""
        if self._whole is None:
            return self._stacked(np.arange(self.shape[1]))
        self.taken.update(range(self.shape[1]))
        kept = self._whole().view()
        kept.flags.writeable = False
        return kept

    def __getattr__(self, name: str) -> Any:  # asked for what this class does not have
        if not name.startswith("__") and hasattr(np.ndarray, name):
            return getattr(np.asarray(self), name)
        names = self.columns.names or ()
        instead = f" Take the column as rows[{name!r}]." if name in names else ""
        raise AttributeError(f"The rows of a question are an array and have no {name!r}.{instead}")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(self.columns.index(key, "A question"))
        if isinstance(key, list | tuple) and any(isinstance(name, str) for name in key):
            raise IndexError(
                "A question takes one column at a time by its name: rows['a'], rows['b'] (or "
                "np.column_stack of them), not rows[['a', 'b']]."
            )
        which = self._whole_columns(key)
        if which is None:
            return np.asarray(self)[key]
        return self._stacked(which) if which.ndim else self._column(int(which))

    def absent(self) -> NDArray[np.bool_]:
        """Return which rows lack a value in some column that was taken."""
        found = np.zeros(len(self), np.bool_)
        for j in filter(self.columns.missing, self.taken):
            found |= absent(self.columns, self.make(j), j)
        return found

    def _whole_columns(self, key: Any) -> NDArray | None:
        """Return the columns that ``rows[:, ...]`` takes, None if it takes anything else."""
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], slice)):
            return None
        if key[0] != slice(None) or not isinstance(key[1], Integral | slice | list | np.ndarray):
            return None
        of_none = isinstance(key[1], list) and not key[1]
        which = np.arange(self.shape[1])[slice(0) if of_none else key[1]]
        return which if which.ndim < 2 else None

    def _column(self, j: int) -> AskedColumn:
        self.taken.add(j)
        return self.make(j).copy().view(AskedColumn)

    def _stacked(self, which: NDArray) -> NDArray:
        if not len(which):
            return np.empty((len(self), 0))
        self.taken.update(which.tolist())
        return stack_columns([self.make(j) for j in which.tolist()])


def column_of(rows: NDArray, columns: TableSchema, j: int) -> NDArray:
    """Return a column of rows, shape (n,): of floats, unless it is of categories."""
    return rows[:, j] if columns.values(j) else rows[:, j].astype(np.float64)


class Cells(NamedTuple):
    """The cells of a column in which points are.

    Parameters
    ----------
    place : ndarray of shape (n,)
        The cell of each point.
    low, high : ndarray of shape (n_cells,)
        The lowest and the highest value in each cell; NaN or None in that of missing values.
    """

    place: NDArray[np.int64]
    low: NDArray
    high: NDArray

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which cells hold values, shape (n_cells,)."""
        return np.array([not is_missing(value) for value in self.low.tolist()])


class Positions:
    """Points, and the cells in which they lie.

    Parameters
    ----------
    feature_map : FeatureMap
    columns : TableSchema
        With the range of every numeric column.
    points : ndarray of shape (n, d)
    whole : bool, default=False
        Take the ranges of the columns for the only cell.
    """

    def __init__(
        self, feature_map: FeatureMap, columns: TableSchema, points: NDArray, *, whole: bool = False
    ):
        self.feature_map, self.columns, self.points = feature_map, columns, points
        self._parts = [] if whole else feature_map.parts()
        self._n_stretches = 1 if whole else _N_STRETCHES
        self.numeric = columns.numeric
        self._made: dict[int, NDArray] = {}
        self._moves: dict[tuple[float, ...], NDArray] = {}
        self._cells: dict[int, Cells] = {}
        self._features: list[FeatureBlocks] = []

    @cached_property
    def few(self) -> Positions:
        """So many points as means need."""
        return Positions(self.feature_map, self.columns, self.points[:FEW_POINTS])

    def features(self) -> Iterable[FeatureBlocks]:
        """Return phi of the points, and of each of their moves; it is kept where it is small."""
        if not self._features:
            rows = (self.rows(), *self.moved(self.numeric))
            found = (FeatureBlocks(self.feature_map, np.asarray(one)) for one in rows)
            if self.feature_map.n_features > _MOST_FEATURES_KEPT:
                return found
            self._features = list(found)
        return self._features

    def rows(self) -> NamedRows:
        """Return the points, to be asked."""
        return NamedRows(self.columns, len(self.points), self.column, lambda: self._whole)

    @cached_property
    def _whole(self) -> NDArray:
        """All columns of the points side by side: the points, where these are numbers already."""
        if self.points.dtype == np.float64:
            return np.ascontiguousarray(self.points)
        return stack_columns([self.column(j) for j in range(self.columns.n_columns)])

    def column(self, j: int) -> NDArray:
        """Return column `j` of the points: floats, unless it is of categories."""
        if j not in self._made:
            self._made[j] = np.ascontiguousarray(column_of(self.points, self.columns, j))
        return self._made[j]

    def cells(self, j: int) -> Cells:
        """Return the cells of column `j`."""
        if j not in self._cells:
            of_numbers = self.columns.values(j) is None
            self._cells[j] = self._of_numbers(j) if of_numbers else self._of_categories(j)
        return self._cells[j]

    def _of_categories(self, j: int) -> Cells:
        codes, place = np.unique(self.columns.code(self.points, j), return_inverse=True)
        values = self.columns.decode(j, codes)
        return Cells(place, values, values)

    def _of_numbers(self, j: int) -> Cells:
        first, last = self.columns.bound(j) or (-np.inf, np.inf)
        half = (self.columns.step(j) or 0.0) / 2  # bins of a grid begin between its values
        starts = np.unique(np.concatenate(list(self._starts(j))))
        places = np.searchsorted(starts, self.column(j), side="right")
        places[np.isnan(self.column(j))] = len(starts) + 1  # a cell of their own, the last one
        met, place = np.unique(places, return_inverse=True)
        low = np.concatenate([[first - half], starts, [np.nan]])[met]
        high = np.concatenate([np.nextafter(starts, -np.inf), [last + half, np.nan]])[met]
        low, high = (self.columns.on_grid(end, j) for end in (low + half, high - half))
        return Cells(place, low, high)

    def _starts(self, j: int) -> Iterator[NDArray[np.float64]]:
        """Yield where the second and further bins of each histogram of the column begin."""
        histograms = [p for p in self._parts if isinstance(p, HistogramMap)]
        counting = [p for p in histograms if any(j in group for group in p.groups)]
        for histogram in counting:
            yield _bin_starts(histogram, j)
        if not counting:
            first, last = self.columns.bound(j) or (0.0, 1.0)
            yield np.linspace(first, last, self._n_stretches + 1)[1:-1]

    def moved(self, taken: set[int] | list[int]) -> Iterator[NamedRows]:
        """Yield the points, moved about in their cells: any two columns to each pair of ends.

        Moves that differ only in columns that a question has not `taken` are the same to it. All
        columns are moved, should it take others of moved points.
        """
        shares = [np.full(len(self.numeric), share) for share in _COMMON_SHARES]
        for bit in range((len(self.numeric) - 1).bit_length()):
            pattern = (np.arange(len(self.numeric)) >> bit & 1).astype(np.float64)
            shares += [pattern, 1 - pattern]
        matter = [k for k, j in enumerate(self.numeric) if j in taken]
        done = {()}  # of a question without numbers
        for chosen in shares:
            as_taken = tuple(chosen[matter])
            if as_taken not in done:
                done.add(as_taken)
                make = partial(self._moved, dict(zip(self.numeric, chosen, strict=True)))
                whole = partial(self._all_moved, tuple(chosen), make)
                few = self.points.size <= _MOST_NUMBERS_KEPT
                yield NamedRows(self.columns, len(self.points), make, whole if few else None)

    def _all_moved(self, chosen: tuple[float, ...], make: Callable[[int], NDArray]) -> NDArray:
        """Return all columns of moved points; they are kept, for every question moves them so."""
        if chosen not in self._moves:
            columns = [make(j) for j in range(self.columns.n_columns)]
            self._moves[chosen] = stack_columns(columns)
        return self._moves[chosen]

    def _moved(self, shares: dict[int, float], j: int) -> NDArray:
        if j not in shares:
            return self.column(j)
        place, low, high = self.cells(j)
        return self.columns.on_grid(low * (1 - shares[j]) + high * shares[j], j)[place]

    def extremes(self, function: Callable[[Any], ArrayLike]) -> tuple[NDArray, NDArray]:
        """Return the least and the largest of `function` in each point's cell, shape (n, k)."""
        rows = self.rows()
        low = high = values_at(function, rows)
        for moved in self.moved(rows.taken):
            found = values_at(function, moved)
            low, high = np.minimum(low, found), np.maximum(high, found)
        return low, high


# Rows that a question is asked of one by one.
_ALONE = 8


def evaluate_rows(function: Callable[[Any], ArrayLike], rows: NamedRows) -> tuple[NDArray, bool]:
    """Return f(rows) as floats of shape (n, k), and if f gave one number per row.

    It may be NaN where a cell is missing that f takes, and nowhere else.
    """
    try:
        found = np.asarray(function(rows))
    except AttributeError as error:
        if isinstance(error.obj, np.ndarray):
            error.add_note(_NO_SERIES)
        raise
    except (TypeError, ValueError) as error:
        if _OF_JOINING.search(str(error)):
            error.add_note(_JOIN)
        raise
    values = found.astype(np.float64)
    if values.shape[:1] != (len(rows),) or values.ndim > 2:
        raise ValueError(
            f"f must be vectorised: for rows of shape {rows.shape} it must return an array of "
            f"shape ({len(rows)},) or ({len(rows)}, k), got {values.shape}."
        )
    if not np.all(np.isfinite(values)):
        known = values[~rows.absent()]
        if not np.all(np.isfinite(known)) or np.any(np.isinf(values)):
            raise ValueError(
                "f must return finite numbers, and NaN only where a cell that it reads is missing. "
                "For a mean over some rows, let f be 0 for the others, and divide its mean by the "
                "share of these rows."
            )
    return values.reshape(len(rows), -1), values.ndim == 1


def check_each_row(function: Callable[[Any], ArrayLike], rows: NamedRows) -> None:
    """Raise ValueError for a function whose value for a row hangs on which other rows there are."""
    found, _ = evaluate_rows(function, rows)
    size = np.max(np.abs(found), axis=0, where=np.isfinite(found), initial=0.0)
    n = len(rows)
    for part in (slice(0, (n + 1) // 2), *(slice(k, k + 1) for k in range(min(n, _ALONE)))):
        expected, of_part = found[part], values_at(function, rows.part(part))
        if of_part.shape == expected.shape:
            off = ~(np.abs(of_part - expected) <= 1e-6 * size)
            if not np.any(off & ~np.isnan(expected)):
                continue
        raise ValueError(
            "f must be a function of each row alone, and what this one returns for a row changes "
            "with the other rows, as a mean, a median or a rank over the rows does. Ask for that "
            "number first, such as float(m2m.mean('age')), and use it in f."
        )


def values_at(function: Callable[[Any], ArrayLike], rows: NamedRows) -> NDArray[np.float64]:
    """Return the function's values at rows, shape (n, k), where it may have none: log(0)."""
    with np.errstate(all="ignore"):
        found = np.asarray(function(rows), dtype=np.float64)
    return found.reshape(len(rows), -1)


def _bin_starts(histogram: HistogramMap, j: int) -> NDArray[np.float64]:
    """Return the smallest number of each bin of column `j` but the first.

    Of equal bins the codes decide, not the edges, which are rounded otherwise.
    """
    edges = histogram.edges(j)
    inner = edges[1:-1]
    if histogram.schema.step(j) is not None or histogram.schema.edges(j) is not None:
        return inner
    width = (edges[-1] - edges[0]) / histogram.n_present(j)
    below, above = inner - width / 2, inner + width / 2
    rows = np.zeros((len(inner), histogram.schema.n_columns))
    middle = inner
    while np.any((below < middle) & (middle < above)):  # until they are neighbours
        rows[:, j] = middle
        reached = histogram.column_codes(rows, j) > np.arange(len(inner))
        below, above = np.where(reached, below, middle), np.where(reached, middle, above)
        middle = below / 2 + above / 2
    return above
