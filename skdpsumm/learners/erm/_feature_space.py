"""Explicit features: what becomes of rows, and the space that they span."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import clone

from ..._linear_systems import UNIT, power_below
from ...features._row_alone import dense, map_rows
from ...schema._reading import SparseRows
from ...schema._vectorizer import Interactions
from ._feature_solver import (
    FeatureRows,
    NumbersOfRows,
    minimise_sparse,
    rows_of_block,
    smallest_tolerance,
    solve_primal,
)
from ._losses import Floats
from ._problem import MAX_ROWS, Minimizer, Space, dense_factors

# Columns are clipped to this, which is far beyond any data.
LARGEST_COORDINATE = 1e100
# Relative: how much longer than asked for `clip_rows` may leave a row of less than 2**32 entries.
NORM_ERROR = 40 * UNIT
# Columns of a sparse table, beyond which no matrix of columns times columns is made.
MOST_SOLVED = 4096
_TOO_WIDE = (
    "Set mechanism='gradient', with delta > 0, for TDIL and TDDL learners. Or give fewer columns, "
    "by hashing or by a transformer such as SparseRandomProjection. This mechanism needs a matrix "
    f"of columns times columns, which is too large for a sparse table of more than {MOST_SOLVED}."
)


def fitted_alone(transformer: Any, n_columns: int, seed: int) -> Any:
    """Return a clone that is fitted to a public row of zeros, with this seed where it has none."""
    transformer, zeros = clone(transformer), np.zeros((1, n_columns))
    for name, value in transformer.get_params().items():
        if value is None and (name == "random_state" or name.endswith("__random_state")):
            transformer.set_params(**{name: seed})
    transformer.fit(zeros, None)
    one, again = (dense(transformer.transform(zeros)) for _ in range(2))
    if not np.array_equal(one, again, equal_nan=True):
        raise ValueError(
            "The transformer must be a function of the row alone, without noise of its own or "
            "memory of other rows: it gives a row of zeros different features the second time."
        )
    return transformer


class FeatureSpace(Space):
    """The span of explicit public features; their coefficients can be released as a vector.

    Parameters
    ----------
    transformer : fitted transformer, Interactions or None
        None takes the columns themselves.
    n_columns : int
        Number of columns of the table.
    norm_bound : float
        Features of a row are scaled down to this norm.
    is_sparse : bool, default=False
        Whether rows are `SparseRows`.
    """

    is_wide = False  # too many sparse columns for a matrix of them
    max_rows = MAX_ROWS
    kernel_error = 0.0  # explicit features are exact as they are in memory
    n_features: int

    def __init__(
        self, transformer: Any, n_columns: int, norm_bound: float, *, is_sparse: bool = False
    ):
        self.transformer = transformer
        self.radius = self.norm_bound = norm_bound
        ours = isinstance(transformer, Interactions)
        # A function of the user's, which may fail on a row.
        self.is_users = transformer is not None and not ours
        self.is_whole_ball = transformer is None
        self.n_features = n_columns
        if transformer is not None:
            self.n_features = transformer.transform(np.zeros((1, n_columns))).shape[1]
        # Those that cost time: our products of two columns pay for theirs.
        self.n_costly = n_columns if ours else self.n_features
        self.entry_error = (self.n_features + 4) * UNIT
        self.is_wide = is_sparse and not self.is_users and self.n_features > MOST_SOLVED

    def features(self, X: Any) -> Any:
        """Return phi of each row, shape (n, n_features), clipped.

        That of `SparseRows` is sparse where there is no feature map, and equal to the last bit to
        that of the same rows in an array.
        """
        if isinstance(X, SparseRows):
            X = X.with_values(clipped_columns(X.values))
        else:
            X = clipped_columns(X) + 0.0  # -0.0 is 0.0
        return clip_rows(self._mapped(X), self.norm_bound)

    def _dense_features(self, X: Any) -> Floats:
        return dense_factors(self.features(X))

    def _mapped(self, X: Any) -> Any:
        if not self.is_users:
            values = X if self.transformer is None else self.transformer.transform(X)
            # A NaN of one row would be one of every sum.
            return values if isinstance(values, SparseRows) else zero_where_undefined(values)
        values, taken = map_rows([self.transformer], X, self.n_features)
        if taken.all():
            return zero_where_undefined(values)
        raise ValueError(
            "The transformer fails on a row of the table, and must take any row of finite numbers: "
            "give a schema, which clips them to public ranges, or let it ignore what it does not "
            "know (handle_unknown='ignore'). (Its own message is left out: it may hold a private "
            "value.)"
        )

    def of_weights(self, weights: Floats) -> Minimizer:
        """Return the function that has these weights."""
        return Minimizer(self, weights)

    def gram(self, X, Y):
        products = self.features(X) @ self.features(Y).T
        return products.toarray() if issparse(products) else products

    def factors(self, X, points):
        return self.features(X) if points is None else self.gram(X, points)

    def prepare(self, X, terms):
        if self.is_wide:
            return self.features(X)
        # Sparse rows are made dense block by block, each time anew: kept, they would fill memory.
        is_kept = self.is_users or not isinstance(X, SparseRows)
        rows = FeatureRows(self._dense_features, X, radius=self.radius, is_kept=is_kept)
        if self.is_users:  # which may fail on any row
            for _ in rows.blocks():
                pass
        return rows

    def solve(self, data, codes, terms, tolerance, linear, shares):
        settings = terms.loss, terms.regularization, tolerance
        if self.is_wide:
            return minimise_sparse(data, codes, *settings, shares)
        return solve_primal(data, codes, *settings, linear=linear, shares=shares)

    def smallest_tolerance(self, terms, n_rows, tilt):
        if self.is_wide and terms.is_private:
            raise ValueError(_TOO_WIDE)
        if self.is_wide:  # nothing is claimed, and nothing certified
            return 0.0
        rows = NumbersOfRows(n_rows, self.n_features, terms.radius, rows_of_block(self.n_features))
        return smallest_tolerance(rows, terms.n_scores, terms.loss, terms.regularization, tilt)


def clipped_columns(X: Any) -> Floats:
    """Return numbers far below where squares overflow."""
    return np.clip(np.asarray(X, dtype=np.float64), -LARGEST_COORDINATE, LARGEST_COORDINATE)


def zero_where_undefined(values: Floats) -> Floats:
    """Return values with zero for those that a map or a kernel overflowed on."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


# ---- rows of a bounded length


def clip_rows(X: Any, norm: float) -> Any:
    """Return the rows of X, those that are longer than `norm` scaled down to it.

    The result for a row is the same to the last bit whatever rows are beside it, and in whatever
    form. Rows 1e154 times longer become zeros.

    Parameters
    ----------
    X : ndarray of shape (n, p), or SparseRows
    norm : float

    Returns
    -------
    ndarray or SparseRows, as X
    """
    unit = power_below(norm)
    is_sparse = isinstance(X, SparseRows)
    in_units = X.with_values(X.values / unit) if is_sparse else X / unit
    scale = norm / (unit * np.maximum(row_lengths(in_units), norm / unit))
    return X if (scale == 1).all() else scaled_rows(X, scale)


def scaled_rows(X: Any, scale: Floats) -> Any:
    """Return each row times a number of its own."""
    if isinstance(X, SparseRows):
        return X.with_values(X.values * scale[X.row_numbers])
    return X * scale[:, None]


def row_lengths(X: Any) -> Floats:
    """Return the norms of rows; the last half of the squares is added to the first, and so on."""
    with np.errstate(over="ignore", under="ignore"):
        if isinstance(X, SparseRows):
            return _sparse_lengths(X)
        squares = np.square(X)
        while (width := squares.shape[1]) > 1:
            half = (width + 1) // 2
            squares[:, : width - half] += squares[:, half:]
            squares = squares[:, :half]
    return np.sqrt(squares[:, 0])


def _sparse_lengths(X: SparseRows) -> Floats:
    """Return what `row_lengths` does of the same rows in an array: to add zero changes nothing."""
    squares = csr_array(X.with_values(np.square(X.values)))
    while (width := squares.shape[1]) > 1:
        half = (width + 1) // 2
        moved = squares[:, half:]
        moved.resize(len(X), half)
        squares = squares[:, :half] + moved
    return np.sqrt(squares.toarray()[:, 0])
