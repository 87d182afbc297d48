"""Explicit features: the space that they span, rows of them in blocks, and the minimum there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config, set_config
from sklearn.base import clone

from ..._computing import advance
from ..._linear_systems import (
    UNIT,
    careful_product,
    conjugate_gradients,
    positive_solver,
    power_below,
    product_error,
    solve_curved,
    weighted_gram,
)
from ...features._row_alone import dense, map_rows
from ...schema._sparse import SparseRows
from ...schema._vectorizer import Interactions
from ._kernel_solver import solve_shifted
from ._losses import Floats, Loss
from ._newton import (
    LARGEST_NORM,
    Objective,
    Point,
    argument_error,
    certified_minimum,
    check_tolerance,
    largest_norm,
    minimise,
    plus,
    smallest_distance,
)
from ._problem import MAX_ROWS, Minimizer, Space
from ._sparse_solver import minimise_sparse

# Columns are clipped to this, far beyond any data.
LARGEST_COORDINATE = 1e100
# Relative: how much longer than asked for `clip_rows` may leave a row of less than 2**32 entries.
NORM_ERROR = 40 * UNIT
# Rows of the problem that the first weights come from, in units of the number of weights, and
# the part of its gradient at zero that is left there.
_HEAD_ROWS, _HEAD_ACCURACY = 40, 1e-4
# Columns of a sparse table, beyond which no matrix of columns times columns is made.
MOST_SOLVED = 4096
_TOO_WIDE = (
    "Set mechanism='gradient', with delta > 0, for TDIL and TDDL learners. Or give fewer columns, "
    "by hashing or by a transformer such as SparseRandomProjection. This mechanism needs a matrix "
    f"of columns times columns, which is too large for a sparse table of more than {MOST_SOLVED}."
)


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
        self,
        transformer: Any,
        n_columns: int,
        norm_bound: float,
        *,
        is_sparse: bool = False,
    ):
        self.transformer = transformer
        self.radius = self.norm_bound = norm_bound
        ours = isinstance(transformer, Interactions)
        # A function of the user's, which may fail on a row.
        self.is_users = transformer is not None and not ours
        self.is_whole_ball = transformer is None
        self.n_features = n_columns if transformer is None else self._try_out(n_columns)
        # Those that cost time: our products of two columns pay for theirs.
        self.n_costly = n_columns if ours else self.n_features
        self.entry_error = (self.n_features + 4) * UNIT
        self.is_wide = is_sparse and not self.is_users and self.n_features > MOST_SOLVED

    def _try_out(self, n_columns: int) -> int:
        """Return the number of features of a row; raise what the map raises for zeros."""
        one, again = (dense(self.transformer.transform(np.zeros((1, n_columns)))) for _ in range(2))
        if not np.array_equal(one, again, equal_nan=True):
            raise ValueError(
                "The transformer must be a function of the row alone, without noise of its own or "
                "memory of other rows: it gives a row of zeros different features the second time."
            )
        return one.shape[1]

    @classmethod
    def of(
        cls,
        feature_map: Any,
        n_columns: int,
        norm_bound: float,
        seed: int,
        *,
        is_sparse: bool = False,
    ) -> FeatureSpace:
        """Return the space of a transformer, which is fitted here, on a public row of zeros."""
        if feature_map is not None and not isinstance(feature_map, Interactions):
            feature_map = clone(feature_map)
            for name, value in feature_map.get_params().items():
                if value is None and (name == "random_state" or name.endswith("__random_state")):
                    feature_map.set_params(**{name: seed})
            feature_map.fit(np.zeros((1, n_columns)), None)
        return cls(feature_map, n_columns, norm_bound, is_sparse=is_sparse)

    def features(self, X: Any) -> Any:
        """Return phi of each row, shape (n, n_features), clipped.

        That of `SparseRows` is sparse where there is no feature map, and equal to the last bit to
        that of the same rows in an array.
        """
        if isinstance(X, SparseRows):
            X = X.with_values(np.clip(X.values, -LARGEST_COORDINATE, LARGEST_COORDINATE))
        else:
            X = (
                np.clip(np.asarray(X, dtype=np.float64), -LARGEST_COORDINATE, LARGEST_COORDINATE)
                + 0.0
            )  # -0.0 is 0.0
        return clip_rows(self._mapped(X), self.norm_bound)

    def _dense_features(self, X: Any) -> Floats:
        features = self.features(X)
        return features.toarray() if isinstance(features, SparseRows) else features

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
        return FeatureRows(self._dense_features, X, radius=self.radius, is_kept=is_kept)

    def try_all(self, data):
        if self.is_users:
            for _ in data.blocks():
                pass

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
        rows = _Numbers(n_rows, self.n_features, terms.radius, rows_of_block(self.n_features))
        return smallest_tolerance(rows, terms.n_scores, terms.loss, terms.regularization, tilt)


def zero_where_undefined(values: Floats) -> Floats:
    """Return values with zero for those that a map or a kernel overflowed on."""
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, 0.0)


def rows_of_block(n_features: int) -> int:
    """Return the most rows of a block."""
    # Blocks of 8 MiB stay in the cache, and sums over one keep small rounding errors.
    return max(1, min(4096, 2**23 // (8 * n_features)))


class FeatureRows:
    """Features of rows, of norm at most `radius`.

    As many are kept as fit into the `working_memory` of scikit-learn's configuration.

    Parameters
    ----------
    transform : callable
        From a block of rows of X to an array of shape (rows, p); always the same for a row, and
        within the radius. May be called from another thread, but never from two at once.
    X : array-like of shape (n, d)
        Has a shape, and slices.
    radius : float
        The public bound on the norm of a row's features.
    is_kept : bool, default=True
        Whether blocks may be kept.

    Attributes
    ----------
    n_rows, n_features : int
    block_rows : int
        The most rows of a block.
    """

    def __init__(
        self,
        transform: Callable[[Any], NDArray],
        X: Any,
        *,
        radius: float,
        is_kept: bool = True,
    ):
        self.transform = transform
        self.X = X
        self.radius = radius
        self.n_rows = X.shape[0]
        self.n_features = self._features(slice(0, 1)).shape[1]
        row_bytes = 8 * self.n_features
        self.block_rows = rows_of_block(self.n_features)
        room = get_config()["working_memory"] * 2**20 if is_kept else 0
        n_kept = int(room / (row_bytes * self.block_rows))
        self._kept: list[Floats] = []
        self._kept = [block for _, block in islice(self.blocks(), n_kept)]

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of the rows, in order, and their features, computed one block ahead."""
        firsts = range(0, self.n_rows, self.block_rows)
        slices = [slice(k, min(k + self.block_rows, self.n_rows)) for k in firsts]
        for kept in zip(slices, self._kept, strict=False):
            advance()
            yield kept
        missing = slices[len(self._kept) :]
        if not missing:
            return
        # What the user has set of scikit-learn holds in this thread alone.
        with ThreadPoolExecutor(1, initializer=partial(set_config, **get_config())) as pool:
            ahead = pool.submit(self._features, missing[0])
            for here, following in zip(missing, [*missing[1:], None], strict=True):
                block = ahead.result()
                if following is not None:
                    ahead = pool.submit(self._features, following)
                advance()
                yield here, block

    def head(self, n: int) -> FeatureRows:
        """Return the first n rows, kept."""
        first = copy(self)
        blocks = islice(self.blocks(), math.ceil(n / self.block_rows))
        first._kept = [block[: n - here.start] for here, block in blocks]
        first.n_rows = n
        return first

    def _features(self, here: slice) -> Floats:
        return np.asarray(self.transform(self.X[here]), dtype=np.float64)


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
    if (scale == 1).all():
        return X
    return X.with_values(X.values * scale[X.row_numbers]) if is_sparse else X * scale[:, None]


def row_lengths(X: Any) -> Floats:
    """Return the norms of rows; the last half of the squares is added to the first, and so on."""
    if isinstance(X, SparseRows):
        return _sparse_lengths(X)
    with np.errstate(over="ignore", under="ignore"):
        squares = np.square(X)
        while (width := squares.shape[1]) > 1:
            half = (width + 1) // 2
            squares[:, : width - half] += squares[:, half:]
            squares = squares[:, :half]
    return np.sqrt(squares[:, 0])


def _sparse_lengths(X: SparseRows) -> Floats:
    """Return what `row_lengths` does of the same rows in an array, by the same sums.

    To add zero changes nothing, so it is enough to know which of a row's squares meet, and when.
    A square that is moved in some round has that bit of its code set, the first round's the lowest.
    Two of a row meet in the round from which on their codes agree; sorted by their codes, they are
    neighbours then.
    """
    codes, places, width, n_rounds = np.zeros(len(X.values), np.int64), X.indices, X.shape[1], 0
    while width > 1:
        half = (width + 1) // 2
        moved = places >= half
        codes |= moved.astype(np.int64) << n_rounds
        places = np.where(moved, places - half, places)
        width, n_rounds = half, n_rounds + 1
    codes |= X.row_numbers << n_rounds
    order = np.argsort(codes)
    with np.errstate(over="ignore", under="ignore"):
        codes, squares = codes[order], np.square(X.values[order])
        for _ in range(n_rounds):
            codes >>= 1
            first = np.flatnonzero(codes[1:] == codes[:-1])
            squares[first] += squares[first + 1]
            codes, squares = np.delete(codes, first + 1), np.delete(squares, first + 1)
    lengths = np.zeros(len(X))
    lengths[codes] = np.sqrt(squares)
    return lengths


# ---- solver


class _Numbers(NamedTuple):
    """What `smallest_tolerance` asks of rows."""

    n_rows: int
    n_features: int
    radius: float
    block_rows: int


def solve_primal(
    rows: FeatureRows,
    codes: Floats,
    loss: Loss,
    regularization: float,
    tolerance: float,
    *,
    linear: Floats | None = None,
    shares: Floats | None = None,
) -> Floats:
    """Minimise ``sum_i c_i loss(W^T phi_i, code_i) + Lambda/2 ||W||^2 + <linear, W>``, certified.

    Parameters
    ----------
    rows : FeatureRows
    codes : ndarray of shape (n, q), float64
        Those of `Huber` are from -1 to 1.
    loss : Loss
    regularization : float
        Lambda, positive.
    tolerance : float
        Largest distance ||W - W*|| in the Frobenius norm, positive.
    linear : ndarray of shape (p, q), default=None
        None is zero.
    shares : ndarray of shape (n, 1), default=None
        c: ones, and numbers up to 1/2 (`_newton`). None is ones.

    Returns
    -------
    ndarray of shape (p, q)
    """
    linear = np.zeros((rows.n_features, codes.shape[1])) if linear is None else linear
    tilt = float(np.linalg.norm(linear))
    smallest = smallest_tolerance(rows, codes.shape[1], loss, regularization, tilt)
    check_tolerance(tolerance, smallest)
    settings = (rows, codes, loss, regularization, linear, shares)
    if rows.n_features > rows.n_rows:
        start = _through_dual(*settings, tolerance)
    else:
        start = _head_minimum(*settings)

    def objective_of(smooth: Loss) -> _Primal:
        return _Primal(rows, codes, smooth, regularization, linear, shares)

    return certified_minimum(objective_of, loss, start, tolerance).x


def smallest_tolerance(
    rows: FeatureRows | _Numbers, n_scores: int, loss: Loss, regularization: float, tilt: float
) -> float:
    """Return what is sure to be certified for rows of such numbers and norms.

    Parameters
    ----------
    rows : FeatureRows, or what has its numbers
    n_scores : int
        q.
    loss : Loss
    regularization : float
    tilt : float
        The norm of `linear`.
    """
    n, radius, slopes = rows.n_rows, rows.radius, rows.n_rows * rows.radius * loss.lipschitz
    norm = LARGEST_NORM * largest_norm(loss, regularization, radius, (n, n_scores), tilt)
    score_error = _score_error(rows, n_scores, radius * norm, norm)
    score_error += argument_error(loss, radius * norm)
    # Sums over the rows of a block, in blocks, and of blocks to the last bit.
    entry = product_error(rows.block_rows, radius, loss.lipschitz)
    entries = math.sqrt(rows.n_features * n_scores) * math.ceil(n / rows.block_rows)
    rest = regularization * norm + tilt
    # Slopes and their careful sum err by up to 24 units, relative to L.
    gradient_error = entries * entry + UNIT * (24 * slopes + 4 * rest)
    return smallest_distance(loss, regularization, n * radius**2, n, score_error, gradient_error)


def _score_error(rows: FeatureRows | _Numbers, n_scores: int, score: float, weight: float) -> float:
    """Return a bound on the error of a row of careful scores, given their norm and that of W.

    For norms of p numbers each, in place of the largest, `product_error` is sqrt(p) too large.
    """
    entry = product_error(rows.n_features, rows.radius, weight) / math.sqrt(rows.n_features)
    return UNIT * score + math.sqrt(n_scores) * entry


def _norm_error(rows: FeatureRows, slopes: float, rest: float) -> float:
    """Return a bound on the error of a gradient: of the sums over the rows of blocks, and the rest.

    Sums of blocks keep what they lose.
    """
    return UNIT * ((rows.block_rows + 4) * slopes + 4 * rest)


def _through_dual(rows, codes, loss, regularization, linear, shares, tolerance):
    """Return the minimum by its coefficients of rows, of which there are fewer."""
    gram = np.empty((rows.n_rows, rows.n_rows))
    shift = np.empty(codes.shape)
    for here, block in rows.blocks():
        shift[here] = -(block @ linear) / regularization
        for there, other in rows.blocks():
            if there.start > here.start:
                break
            gram[here, there] = block @ other.T
            gram[there, here] = gram[here, there].T
    more = {"shift": shift, "shares": shares}
    A = solve_shifted(gram, codes, loss, regularization, tolerance / 2, **more)
    W = -linear / regularization
    for here, block in rows.blocks():
        W += block.T @ A[here]
    return W


def _head_minimum(rows, codes, loss, regularization, linear, shares):
    """Return about the minimum for the first rows, which is near that for all: it saves passes."""
    start = np.zeros(linear.shape)
    n = min(_HEAD_ROWS * linear.size, rows.n_rows // 4)
    if n < linear.size:
        return start
    smooth = next((wide for wide, _ in loss.narrowing()), loss)
    part = n / rows.n_rows
    less = part * regularization, part * linear, None if shares is None else shares[:n]
    objective = _Primal(rows.head(n), codes[:n], smooth, *less)
    # Rows that cancel leave a gradient of rounding errors alone, which no step makes smaller.
    size = max(objective.at(start).norm, _HEAD_ACCURACY * smooth.lipschitz * objective.norms)
    goal = _HEAD_ACCURACY * size
    return minimise(objective, start, lambda point: point.norm <= goal).x


class _Primal(Objective):
    """A vector is the weights W. Every `at` is a pass over the rows.

    That pass also brings the Hessian, averaged over the q scores, up to date: near the minimum few
    rows change their curvature.
    """

    def __init__(self, rows, codes, loss, regularization, linear, shares=None):
        squares, tilt = rows.n_rows * rows.radius**2, float(np.linalg.norm(linear))
        super().__init__(codes, loss, regularization, rows.radius, squares, tilt, shares)
        self.rows = rows
        self.linear = linear
        self._hessian = regularization * np.eye(rows.n_features)
        self._curvatures = np.zeros(rows.n_rows)

    def inner(self, x, y):
        return float(np.vdot(x, y))

    def at(self, x):
        return self._pass(x, np.matmul, self._curve)

    def careful(self, point):
        return self._pass(point.x, careful_product)

    def zero(self):
        return np.zeros(self.linear.shape)

    def vector(self, coefficients):
        return coefficients

    def careful_gradient(self, high, low):
        total = self.linear, self.regularization * high
        for here, block in self.rows.blocks():
            scores = careful_product(block, high) + block @ low
            total = plus(total, careful_product(block.T, self.slopes(scores, here)))
        return total[0]

    def _pass(self, x, product, *visitors):
        scores = np.empty(self.codes.shape)
        total = self.linear, self.regularization * x
        for here, block in self.rows.blocks():
            scores[here] = product(block, x)
            total = plus(total, block.T @ self.slopes(scores[here], here))
            for visit in visitors:
                visit(here, block, scores[here])
        point = Point(self, x, scores)
        point.gradient = total[0]
        return point

    def _curve(self, here: slice, block: Floats, scores: Floats) -> None:
        """Bring the curvatures of rows up to date."""
        roots = self.roots(scores, here)
        new = np.einsum("nqr,nqr->n", roots, roots) / roots.shape[1]
        old = self._curvatures[here]
        # The curvature of a row is used again where it has changed by less than a tenth.
        stale = np.flatnonzero(np.abs(new - old) > 0.1 * np.minimum(new, old))
        self._hessian += weighted_gram(block[stale], new[stale] - old[stale])
        old[stale] = new[stale]

    def gradient(self, point):
        return self.at(point.x).gradient

    def rounding(self, point):
        largest = float(np.linalg.norm(point.scores, axis=1).max())
        weight = float(np.linalg.norm(point.x))
        score_error = _score_error(self.rows, point.x.shape[1], largest, weight)
        score_error += argument_error(self.loss, largest)
        rest = self.regularization * weight + self.tilt
        return score_error, _norm_error(self.rows, self.loss.lipschitz * self.norms, rest)

    def direction(self, point: Point, accuracy: float) -> Floats:
        roots = self.roots(point.scores)
        curved = np.flatnonzero(roots.any(axis=(1, 2)))
        if len(curved) * roots.shape[2] <= self.rows.n_features:
            return self._by_curved_rows(roots, curved, point.gradient)
        inverse = positive_solver(self._hessian.copy())
        if roots.shape[1] == 1:
            return -inverse(point.gradient)
        return self._by_products(roots, -point.gradient, accuracy * point.norm, inverse)

    def _by_curved_rows(self, roots: Floats, curved: NDArray, gradient: Floats) -> Floats:
        """Return Newton's direction by multipliers of the few rows whose loss is curved.

        It is -gradient / Lambda + Phi^T B z, as in `_dual`.
        """
        features = np.empty((len(curved), self.rows.n_features))
        for here, block in self.rows.blocks():
            first, last = np.searchsorted(curved, (here.start, here.stop))
            features[first:last] = block[curved[first:last] - here.start]
        roots = roots[curved]
        right = np.einsum("kqr,kq->kr", roots, features @ gradient) / self.regularization
        z = solve_curved(features @ features.T, roots, right, self.regularization)
        return features.T @ np.einsum("kqr,kr->kq", roots, z) - gradient / self.regularization

    def _by_products(self, roots: Floats, right: Floats, accuracy: float, inverse) -> Floats:
        def times(W: Floats) -> Floats:
            out = self.regularization * W
            for here, block in self.rows.blocks():
                inner = np.einsum("nqr,nq->nr", roots[here], block @ W)
                out += block.T @ np.einsum("nqr,nr->nq", roots[here], inner)
            return out

        def precondition(W: Floats) -> tuple[Floats, float]:
            return inverse(W), float(np.linalg.norm(W))

        return conjugate_gradients(times, precondition, right, accuracy)[0]
