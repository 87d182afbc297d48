"""From a table to vectors of norm at most one, by what is public of its columns alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from .._html import ListedMixin
from ._columns import Categorical, Column, Numeric
from ._reading import SparseRows, Table, validate_table
from ._schema import NO_SCHEMA, SchemaLike, TableSchema, allowed, as_schema, schema_of

# The part of a number's square that hats have where there are some, chosen on ACS.
_SPLINE_PART = 0.2
_LINE_SIZE, _SPLINE_SIZE = (1 - _SPLINE_PART) ** 0.5, _SPLINE_PART**0.5
# The part of all numbers' squares that products of two have, the orders of their waves, and the
# most products. Chosen on ACS and six synthetic tables of 3,000 and 20,000 rows: with the orders
# (1, 1) alone, interactions gained a little less, and no more of (1, 2) and (2, 2) was better.
_PAIR_PART = 0.5
_WAVE_ORDERS = ((1, 1), (1, 2), (2, 1))
_MOST_INTERACTIONS = 600
# Products with a category have this part of the squares of categories, and are so many. Measured by
# examples/benchmarks/interactions.py: more products and larger parts cost AUC on ACS, smaller ones
# find less where the sign of an effect depends on a category.
_WORD_PART, _MOST_WITH_WORDS = 0.1, 200
# Sines are evaluated for a multiple of so many numbers, so that none is left over for a loop that
# rounds otherwise.
_SINES_AT_ONCE = 64


class PublicVectorizer(ListedMixin, TransformerMixin, BaseEstimator):
    """Turn a table into vectors of norm at most one, learning nothing from the data.

    Use it in pipelines, in place of `StandardScaler` or `OneHotEncoder`. Those make everything
    after them depend on all rows, which voids a privacy claim. `PublicVectorizer` maps each row by
    itself. Private estimators that take a `schema` do not need it: they do the same inside.

    Numbers go from their public range to [-1, 1], and categories to indicators. A missing number
    goes to 0 and an indicator of its own. If all columns are numbers, a constant stands beside
    them, which linear models need for an intercept. (Indicators add up to one, so they need no
    constant.) Everything is then divided by the square root of the number of columns. No vector is
    longer than one, so give learners after it ``norm_bound=1``.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. The range of every numeric
        column is needed.
    n_knots : int, default=0
        Number of hat functions beside each number, at even knots of its range or at the `edges` of
        its column. They add up to one, so a linear model of the vectors is piecewise linear in the
        number. A column of two values has none. The default, 0, keeps vectors short. Learners with
        ``kernel="splines"`` take 6.
    interactions : bool, default=False
        Whether to put products of every two columns beside them, so that a linear model sees which
        values go together. A number u of [-1, 1] has the points (cos, sin)(k pi u / 2) of the
        circle. Two numbers have four products for each of the orders (1, 1), (1, 2) and (2, 1).
        With 11 to 17 numbers only (1, 1) is taken, and with more there are no products, so that
        there are at most 600. Indicators of a category are multiplied as well, with those of
        another column and with the points of order 1 of a number. Pairs of columns with few
        products come first, and there are at most 200 of these. The default keeps vectors short.
        Classifiers with ``kernel="splines"`` take them, unless delta is 0.

    Attributes
    ----------
    schema_ : TableSchema
        The schema of the columns of X that are used, in their order.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsumm import PublicVectorizer
    >>> X = pd.DataFrame({"age": [20, 40], "job": ["clerk", "farmer"]})
    >>> vectorizer = PublicVectorizer({"age": (20, 60), "job": ["clerk", "farmer"]})
    >>> vectorizer.fit_transform(X).round(3)
    array([[-0.707,  0.707,  0.   ],
           [ 0.   ,  0.   ,  0.707]])
    >>> vectorizer.get_feature_names_out()
    array(['age', 'job_clerk', 'job_farmer'], dtype=object)

    See Also
    --------
    TableSchema : What is public about the columns.
    TDILClassifier : Has the same features by itself, if you give it a schema.
    """

    def __init__(self, schema: SchemaLike, *, n_knots: int = 0, interactions: bool = False):
        self.schema = schema
        self.n_knots = n_knots
        self.interactions = interactions

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the schema describes the columns of X. Nothing is learnt.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            The table, or rows like those to come.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a column is missing or not described, or a column refuses one of its cells.
        """
        check_scalar(self.n_knots, "n_knots", Integral, min_val=0)
        check_scalar(self.interactions, "interactions", (bool, np.bool_))
        X = self._validate(X, reset=True)
        schema = schema_of(self)
        schema.require_bounds()
        schema.check(X)
        self.schema_ = schema
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the vectors of the rows of X.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features_out), of rows with norm at most one
        """
        check_is_fitted(self)
        vectors = vectorize(self.schema_, self._validate(X, reset=False), n_knots=self.n_knots)
        products = self._products
        return vectors if products is None else products.transform(vectors)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the entries of the vectors.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, if X had none. The default is None because frames have names.

        Returns
        -------
        ndarray of str objects
        """
        given = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        schema = self.schema_
        names = schema.names or given
        pairs = list(zip(map(str, names), schema.columns, strict=True))
        found = [one for pair in pairs for one in _names(*pair, self.n_knots)]
        found += ["constant"] * _n_constant(schema)
        if self._products is not None:
            found += self._products.names(pairs)
        return np.array(_unique(found), dtype=object)

    @property
    def _products(self) -> Interactions | None:
        return Interactions.of(self.schema_, self.n_knots) if self.interactions else None

    def _validate(self, X: Any, *, reset: bool) -> Any:
        if self.schema is None:
            raise ValueError(NO_SCHEMA)
        return validate_table(self, X, schema=as_schema(self.schema), reset=reset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(self.schema)
        return tags


def n_splines(schema: TableSchema, n_knots: int) -> int:
    """Return how many hats the vectors of a schema have, beside what stands for each column."""
    return sum(len(_knots(column, n_knots)) for column in schema.columns)


def n_vector(schema: TableSchema) -> int:
    """Return the length of the vectors of a schema of a table."""
    return sum(column.n_encoded for column in schema.columns) + _n_constant(schema)


def _n_constant(schema: TableSchema) -> int:
    return int(len(schema.numeric) == schema.n_columns)


def _scale(schema: TableSchema) -> float:
    # A little less than one, so that vectors are at most one long after rounding, too.
    return (1 - 2.0**-40) / float(np.sqrt(schema.n_columns + _n_constant(schema)))


def vectorize(schema: TableSchema, X: NDArray | Table, *, n_knots: int = 0) -> NDArray[np.float64]:
    """Return the vector of each row, of norm at most one; each a function of that row alone.

    Numbers go to the interval from -1 to 1. With `n_knots` hats stand beside them:
    a linear function of the vector is then piecewise linear in each number.
    """
    return VectorRows.of(schema, X, n_knots=n_knots)[:]


class VectorRows:
    """A table whose cells have been read; its vectors are made when they are asked for.

    It is indexed by rows as an array of shape (n, n_entries), and takes the memory of the cells.

    Parameters
    ----------
    schema : TableSchema
    read : list of ndarray of shape (n,)
        Each column as the schema reads it.
    n_knots : int, default=0
        Number of hats of each number.
    """

    ndim = 2

    def __init__(self, schema: TableSchema, read: list[NDArray], n_knots: int = 0):
        self.schema, self._read, self._n_knots = schema, read, n_knots
        self.shape = len(read[0]), n_vector(schema) + n_splines(schema, n_knots)

    @classmethod
    def of(cls, schema: TableSchema, X: NDArray | Table, *, n_knots: int = 0) -> VectorRows:
        """Read the cells of a table."""
        read = [schema.read(X, j) for j in range(schema.n_columns)]
        for j, column in enumerate(schema.columns):
            if isinstance(column, Categorical):
                read[j] = read[j].astype(np.min_scalar_type(column.n_codes))
        return cls(schema, read, n_knots)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray) -> NDArray[np.float64]:
        start, scale = 0, _scale(self.schema)
        n_rows = len(self._read[0][rows])
        out = np.full((n_rows, self.shape[1]), scale)  # which leaves the constant
        for column, values in zip(self.schema.columns, self._read, strict=True):
            knots = _knots(column, self._n_knots)
            block = _block(column, values[rows])
            if len(knots):
                block = np.hstack([block * _LINE_SIZE, _hats(values[rows], knots) * _SPLINE_SIZE])
            end = start + block.shape[1]
            out[:, start:end] = block * scale
            start = end
        return out

    def part(self, rows: NDArray) -> VectorRows:
        """Return the table of some rows."""
        return VectorRows(self.schema, [values[rows] for values in self._read], self._n_knots)


def part_of(X: Any, rows: NDArray) -> Any:
    """Return the table of some rows."""
    return X.part(rows) if isinstance(X, VectorRows) else X[rows]


class Interactions:
    """Products of points of two columns beside a vector of `vectorize`, row by row.

    A number u of [-1, 1] has the points (cos, sin)(k pi u / 2) of the circle, of orders k = 1, 2. A
    category has its indicators, a point of order 0. The products of the entries of two points of
    length one are a point of length one again. Those of two numbers share `_PAIR_PART` of the
    squares of the numbers, and those with a category `_WORD_PART` of the squares of the categories,
    whose own entries have the rest: so a row stays as short as it was. A missing number is taken as
    the middle of its range.

    Parameters
    ----------
    schema : TableSchema
    n_knots : int
        Number of hats of each number in the vectors.
    """

    def __init__(self, schema: TableSchema, n_knots: int):
        columns, hats = schema.columns, [len(_knots(column, n_knots)) for column in schema.columns]
        ends = np.cumsum([0, *(c.n_encoded + n for c, n in zip(columns, hats, strict=True))])
        self._entries = [slice(*pair) for pair in itertools.pairwise(ends.tolist())]
        self._kept = np.ones(n_vector(schema) + n_splines(schema, n_knots))
        self._scale = _scale(schema)
        numbers = [j for j, column in enumerate(columns) if len(_knots(column, 3))]
        self._lines = {j: self._scale * (_LINE_SIZE if hats[j] else 1.0) for j in numbers}
        words = {j: c.n_codes for j, c in enumerate(columns) if isinstance(c, Categorical)}
        self._pairs: list[tuple[_Point, _Point, float]] = []
        chosen = _chosen_pairs(numbers, words)
        # Products of numbers share a part of the squares of these, others of those of the words.
        groups = zip(chosen, (numbers, words), (_PAIR_PART, _WORD_PART), strict=True)
        for pairs, givers, part in groups:
            giving = {j for pair in pairs for j, _ in pair if j in givers}
            for j in giving:
                self._kept[self._entries[j]] = (1 - part) ** 0.5
            size = self._scale * math.sqrt(part * len(giving) / max(len(pairs), 1))
            self._pairs += [(one, other, size) for one, other in pairs]

    @classmethod
    def of(cls, schema: TableSchema, n_knots: int) -> Interactions | None:
        """Return those of the vectors of a schema; None if there are none."""
        made = cls(schema, n_knots)
        return made if made._pairs else None

    def transform(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return vectors and the products beside them, each row by itself.

        Parameters
        ----------
        vectors : ndarray of shape (n, p)

        Returns
        -------
        ndarray of shape (n, p + n_products)
        """
        points, n = self._points(vectors), len(vectors)
        parts = [vectors * self._kept]
        for one, other, size in self._pairs:
            products = points[one][:, :, None] * points[other][:, None, :]
            parts.append(products.reshape(n, -1) * size)
        return np.hstack(parts)

    def _points(self, vectors: NDArray[np.float64]) -> dict[_Point, NDArray[np.float64]]:
        """Return the points of length one that are multiplied, of each row."""
        starts = [self._entries[j].start for j in self._lines]
        waves = _waves(vectors[:, starts] / np.array(list(self._lines.values())))
        points = {
            (j, order): wave[:, place]
            for order, wave in enumerate(waves, start=1)
            for place, j in enumerate(self._lines)
        }
        for j in {j for *pair, _ in self._pairs for j, order in pair if order == 0}:
            points[j, 0] = vectors[:, self._entries[j]] / self._scale
        return points

    def names(self, columns: Sequence[tuple[str, Column]]) -> list[str]:
        """Return the names of the products, for all columns by name."""

        def entries(j: int, order: int) -> list[str]:
            if order == 0:
                return _names(*columns[j], 0)
            return [f"{columns[j][0]}_{wave}{order}" for wave in ("cos", "sin")]

        return [
            f"{left}_{right}"
            for one, other, _ in self._pairs
            for left in entries(*one)
            for right in entries(*other)
        ]


# A column, and the order of its waves: 0 for a category, which has indicators.
_Point = tuple[int, int]
_Pair = tuple[_Point, _Point]


def _chosen_pairs(numbers: list[int], words: dict[int, int]) -> tuple[list[_Pair], list[_Pair]]:
    """Return which points are multiplied, by public numbers alone: of two numbers, and with a word.

    Pairs with a word come by how many products they have, the fewest first, and all that have as
    many or none: so the order of the columns does not matter.

    Parameters
    ----------
    numbers : list of int
        The columns of numbers.
    words : dict of int to int
        The columns of categories, and how many categories each has.
    """
    of_numbers = [
        ((a, j), (b, k))
        for j, k in _orders(len(numbers))
        for a, b in itertools.combinations(numbers, 2)
    ]
    widths = {(j, 0): n_codes for j, n_codes in words.items()} | {(j, 1): 2 for j in numbers}
    if len(widths) > _MOST_WITH_WORDS:  # whose pairs would take long to list
        return of_numbers, []
    by_size: dict[int, list[_Pair]] = {}
    for one, other in itertools.combinations(widths, 2):
        if one[1] == 0:  # words come first
            by_size.setdefault(widths[one] * widths[other], []).append((one, other))
    with_words, room = [], _MOST_WITH_WORDS
    for size in sorted(by_size):
        room -= size * len(by_size[size])
        if room < 0:
            break
        with_words += by_size[size]
    return of_numbers, with_words


def _orders(n_numbers: int) -> tuple[tuple[int, int], ...]:
    """Return the orders of the waves that are multiplied, the first alone for many numbers."""
    most = _MOST_INTERACTIONS // (4 * max(math.comb(n_numbers, 2), 1))
    return _WAVE_ORDERS if len(_WAVE_ORDERS) <= most else _WAVE_ORDERS[: min(most, 1)]


def _waves(numbers: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return (cos, sin) of pi u / 2 and of pi u, each of shape (n, q, 2), of each u by itself."""
    angles = np.zeros(-(-numbers.size // _SINES_AT_ONCE) * _SINES_AT_ONCE)
    angles[: numbers.size] = numbers.ravel() * (np.pi / 2)
    cos, sin = np.cos(angles), np.sin(angles)
    waves = [(cos, sin), (cos * cos - sin * sin, 2 * cos * sin)]
    return [np.stack(pair, axis=-1)[: numbers.size].reshape(*numbers.shape, 2) for pair in waves]


def keeps_zero(schema: TableSchema) -> bool:
    """Return whether zero is an entry of zero of the vectors, whatever column it stands in."""
    return schema.keeps_zero(_block)


def vectorize_sparse(schema: TableSchema, X: SparseRows) -> SparseRows:
    """Return what `vectorize` does, without hats, of sparse rows, as sparse rows.

    Raises
    ------
    ValueError
        For a schema under which zero does not stay zero.
    """
    rows, scale = schema.map_sparse(X, _block), _scale(schema)
    constant = sparse.csr_array(np.full((len(X), 1), scale))  # for all columns are numbers
    parts = [rows.with_values(rows.values * scale), constant]
    return SparseRows(sparse.hstack(parts, format="csr"))


def _knots(column: Column, n_knots: int) -> NDArray[np.float64]:
    """Return where the hats of a column stand: its edges, or even points; none for two values.

    All differ: between two that are equal a hat would be 0 / 0.
    """
    if n_knots == 0 or not isinstance(column, Numeric):
        return np.empty(0)
    if column.edges is not None:
        return np.array(column.edges)
    low, high = column.bounds  # type: ignore[misc]
    n_values = n_knots if column.n_values is None else min(column.n_values, n_knots)
    knots = np.unique(np.linspace(low, high, n_values))  # few, where floats of the range are few
    return knots if len(knots) > 2 else np.empty(0)


def _hats(values: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each value how close it is to each knot: two neighbours share one between them.

    Zeros stand for what is missing. A row of it is no longer than one.
    """
    absent = np.isnan(values)
    values = np.where(absent, knots[0], values)
    below = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    place = below + (values - knots[below]) / (knots[below + 1] - knots[below])
    hats = np.clip(1 - np.abs(place[:, None] - np.arange(len(knots))), 0.0, 1.0)
    return np.where(absent[:, None], 0.0, hats)


def _block(column: Column, values: NDArray) -> NDArray[np.float64]:
    """Return the entries of one column, a block of norm at most one."""
    if isinstance(column, Categorical):
        return np.eye(column.n_codes)[values]
    assert isinstance(column, Numeric)
    entries = column.encode(values)
    entries[:, 0] = np.clip(entries[:, 0] * 2.0 - 1.0, -1, 1)  # 0 for a missing number
    entries[:, 1:] = entries[:, 1:] > 0  # which of them are missing
    return entries


def _names(name: str, column: Column, n_knots: int) -> list[str]:
    if isinstance(column, Categorical):
        values = [*column.categories, *(["missing"] * column.missing)]
        return [f"{name}_{value}" for value in values]
    hats = [f"{name}_at_{knot:g}" for knot in _knots(column, n_knots)]
    return [name, *([f"{name}_missing"] if column.missing else []), *hats]


def _unique(names: list[str]) -> list[str]:
    """Return names that differ: those that are there already get underscores."""
    known: dict[str, None] = {}
    for name in names:
        while name in known:
            name += "_"
        known[name] = None
    return list(known)
