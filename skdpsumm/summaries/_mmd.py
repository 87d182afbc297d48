"""The Gaussian kernel: maximum mean discrepancy, a public embedding, and rows chosen by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, check_scalar, gen_batches

from .._computing import one_blas_thread
from ..features._feature_maps import GRID, NO_GAMMA, FourierMap, auto_gamma
from ..schema._columns import Numeric
from ..schema._reading import (
    NoEstimator,
    check_in_memory,
    check_same_order,
    check_some_rows,
    validate_table,
)
from ..schema._schema import TableSchema, as_schema, public_points, schema_of
from ..schema._vectorizer import VectorRows, vectorize

# Entries of the kernel matrix that are in memory at a time.
ENTRIES_OF_KERNEL_BLOCK = 2**22
# Entries of rows are clipped to this, so that no distance overflows in float32.
LARGEST_ENTRY = 1e15
# Swaps keep the kernel columns of all chosen rows; beyond so many bytes there are none.
MAX_BYTES_OF_COLUMNS = 2**30
ROWS_GIVEN_UP = 3


def mmd2(X: ArrayLike, Y: ArrayLike, *, gamma: float | str = "auto", schema: Any = None) -> float:
    """Return the squared maximum mean discrepancy between two samples.

    It is 0 if and only if both samples have the same distribution. It is not private: the value is
    exact. With ``k(x, y) = exp(-gamma |x - y|^2)``, it is ``MMD^2 = mean k(x, x') - 2 mean k(x, y)
    + mean k(y, y')``.

    Parameters
    ----------
    X : array-like or frame of shape (n, d)
    Y : array-like or frame of shape (m, d)
    gamma : "auto" or float, default="auto"
        Kernel parameter, per squared unit of the columns, or of the vectors of a schema. "auto"
        follows from the schema alone, so that it is the same for all samples of a table. Without a
        schema, give a number.
    schema : TableSchema or what stands for one, default=None
        Public description of the columns. Give one to compare rows with words or missing values:
        they are compared as vectors (`PublicVectorizer`). None, as numbers need no schema, takes
        them as they are.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the samples have different columns, or there is neither a schema nor a number as gamma.

    Notes
    -----
    Source: Gretton, Borgwardt, Rasch, Schoelkopf and Smola (2012), equation 5; equation 1 of
    the data summarization paper. Time n m + n^2 + m^2, memory of one block.

    Examples
    --------
    >>> from skdpsumm.summaries import mmd2
    >>> mmd2([[0.0], [1.0]], [[0.0], [1.0]], gamma=1.0)
    0.0
    >>> round(mmd2([[0.0]], [[1.0]], gamma=1.0), 4)
    1.2642
    >>> mmd2([["clerk"]], [["clerk"]], schema=[["clerk", "farmer"]])
    0.0
    """
    A, B, gamma = read_two(schema, gamma, X, "Y", Y)
    within = [_total(*centred(rows, rows), gamma, same=True) / len(rows) ** 2 for rows in (A, B)]
    across = _total(*centred(A, B), gamma) / (len(A) * len(B))
    return max(0.0, within[0] + within[1] - 2 * across)


def centred(X: NDArray, Y: NDArray) -> tuple[NDArray, NDArray]:
    """Return both tables with the median of Y at the origin, near which distances are exact.

    Entries are clipped first: a single huge one would overflow, and spoil other rows' distances.
    Both are in the dtype of X.
    """
    X, Y = (np.clip(table, -LARGEST_ENTRY, LARGEST_ENTRY).astype(X.dtype) for table in (X, Y))
    origin = np.median(Y, axis=0).astype(Y.dtype)
    return X - origin, Y - origin


def check_gamma(gamma: Any, schema: Any) -> None:
    """Raise ValueError unless `gamma` is positive and finite, or "auto" with a schema."""
    if isinstance(gamma, str) and gamma == "auto":
        if schema is None:
            raise ValueError(NO_GAMMA)
    elif not (isinstance(gamma, Real) and 0 < float(gamma) < np.inf):
        raise ValueError(f'gamma must be "auto", or a finite number above 0; got {gamma!r}.')


def made_gamma(gamma: Any, schema: TableSchema | None) -> float:
    """Return gamma; "auto" follows from the public points of the schema of a table, as vectors."""
    check_gamma(gamma, schema)
    if schema is None or not isinstance(gamma, str):
        return gamma
    return auto_gamma(vectorize(schema, public_points(schema)))


def read_rows(reader: Any, X: Any, **options: Any) -> NDArray:
    """Return rows as the kernel sees them: vectors of `reader.schema`, or numbers as they are.

    Parameters
    ----------
    reader : estimator
        With a parameter `schema`.
    X : array-like or frame
    **options
        Of `validate_table`.
    """
    return table_rows(reader, X, **options)[:]


def table_rows(reader: Any, X: Any, **options: Any) -> NDArray | VectorRows:
    """Return the rows of `read_rows`, whose vectors are made when they are asked for."""
    known = as_schema(reader.schema)
    cells = validate_table(reader, X, schema=known, **options)
    return cells if known is None else VectorRows.of(schema_of(reader), cells)


class RowReader(NoEstimator):
    """Reads rows for functions, which are no estimators."""

    def __init__(self, schema: Any = None):
        self.schema = schema

    def read(self, X: Any, **options: Any) -> NDArray:
        """Return rows as the kernel sees them."""
        check_bounds(self.schema)
        return read_rows(self, X, **options)


def read_two(
    schema: Any, gamma: Any, X: Any, name: str, other: Any, **options: Any
) -> tuple[NDArray, NDArray, float]:
    """Return the rows of X, those of a table beside it, None for X itself, and gamma.

    Raises
    ------
    ValueError
        For a bad gamma, a table without rows, one with another number of columns, and a frame whose
        columns would be read by position and are not those of X.
    """
    check_gamma(gamma, schema)
    reader, known = RowReader(schema), as_schema(schema)
    rows = others = reader.read(X, **options)
    if other is not None:
        check_some_rows(name, other)
        if known is None or known.names is None:
            check_same_order(name, other, X)
        others = RowReader(schema).read(other).astype(rows.dtype)
    if others.shape[1] != rows.shape[1]:
        n, m = others.shape[1], rows.shape[1]
        raise ValueError(f"{name} has {n} columns and X has {m}; give both the same.")
    return rows, others, made_gamma(gamma, None if known is None else schema_of(reader))


def check_bounds(schema: Any) -> None:
    """Raise ValueError for what is no schema, or one that makes no vectors."""
    known = as_schema(schema)
    if known is not None:
        known.require_bounds()


def mean_kernel(
    X: NDArray, Y: NDArray, gamma: float, weights: NDArray | None = None
) -> NDArray[np.float64]:
    """Return ``mean_y k(x, y)`` for each row x of X, shape (n,); weights of y sum to one."""
    if weights is not None:
        return np.concatenate([block @ weights for block in _blocks(X, Y, gamma)])
    return np.concatenate([block.mean(axis=1, dtype=np.float64) for block in _blocks(X, Y, gamma)])


def kernel_column(X: NDArray, squares: NDArray, i: int, gamma: float) -> NDArray:
    """Return ``k(x, x_i)`` for each row of X, given the squared norms of its rows."""
    distances = X @ X[i]
    distances *= -2
    distances += squares
    distances += squares[i]
    column = _gaussian(distances, gamma)
    column[i] = 1  # which rounding may have missed, far from the origin
    return column


def prefix_objective(
    X: NDArray, Y: NDArray, gamma: float, weights: NDArray | None = None
) -> NDArray[np.float64]:
    """Return J of the first 1, 2, ... rows of X: the mean of k over Y twice, less that over them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (m, d)
        The target. Both tables are `centred`.
    gamma : float
    weights : ndarray of shape (m,), default=None
        Of the rows of Y; they sum to one. None weights all alike.

    Returns
    -------
    ndarray of shape (n,)
    """
    target, squares = mean_kernel(X, Y, gamma, weights), np.empty(len(X))
    # The sum over a leading square is that over the smaller one, and two edges.
    for rows in gen_batches(len(X), SCORED_AT_ONCE):
        kernel = np.concatenate(list(_blocks(X[rows], X[: rows.stop], gamma)))
        squares[rows] = 2 * np.tril(kernel, rows.start - 1).sum(axis=1) + 1  # k(x, x) = 1
    counts = np.arange(1, len(X) + 1)
    return 2 * np.cumsum(target) / counts - np.cumsum(squares) / counts**2


def _total(X: NDArray, Y: NDArray, gamma: float, *, same: bool = False) -> float:
    total, start = 0.0, 0
    for block in _blocks(X, Y, gamma):
        if same:
            np.einsum("ii->i", block[:, start : start + len(block)])[:] = 1
        total += float(block.sum(dtype=np.float64))
        start += len(block)
    return total


def _blocks(X: NDArray, Y: NDArray, gamma: float) -> Iterator[NDArray]:
    squares = np.einsum("ij,ij->i", Y, Y)
    for rows in gen_batches(len(X), max(1, ENTRIES_OF_KERNEL_BLOCK // len(Y))):
        distances = X[rows] @ Y.T
        distances *= -2
        distances += np.einsum("ij,ij->i", X[rows], X[rows])[:, None]
        distances += squares
        yield _gaussian(distances, gamma)


def _gaussian(distances: NDArray, gamma: float) -> NDArray:
    """Return ``exp(-gamma distances)``, computed in place."""
    np.maximum(distances, 0, out=distances)
    distances *= -gamma
    return np.exp(distances, out=distances)


EMBEDDED_AT_ONCE = 8192
# phi of so many rows stays in a processor's cache.
SCORED_AT_ONCE = 1024


class Embedding:
    """Random Fourier features whose inner products are close to the Gaussian kernel.

    Either (cos, sin) pairs, whose norm is exactly one, or the paper's h1 (Algorithm 1),
    ``sqrt(2/d) cos(omega_i x + b_i)``, whose norm is at most sqrt(2).

    Parameters
    ----------
    frequencies : ndarray of shape (n_columns, p), float64
        omega, drawn from N(0, 2 gamma I).
    offsets : ndarray of shape (p,), default=None
        b, in [0, 2 pi]. None makes pairs.

    Attributes
    ----------
    n_features : int
        d, the length of phi(x): 2 p for pairs, p for h1.
    scale : float
        What the cosines are multiplied with.
    unit : float
        What 1 in `grid` is worth in `features`.
    """

    def __init__(self, frequencies: NDArray, offsets: NDArray | None = None):
        self.frequencies = unchangeable(frequencies)
        self.offsets = None if offsets is None else unchangeable(offsets)
        n_columns, p = frequencies.shape
        self.n_columns = n_columns
        self.n_features = 2 * p if offsets is None else p
        rows = frequencies if offsets is None else np.vstack([frequencies, offsets])
        self._map = FourierMap(TableSchema([Numeric()] * len(rows)), rows)
        self.scale = math.sqrt(1 / p) if offsets is None else math.sqrt(2 / p)
        self.unit = self.scale / GRID

    @classmethod
    def draw(
        cls, n_columns: int, n_features: int, gamma: float, kind: str, rng: np.random.RandomState
    ) -> Embedding:
        """Draw the frequencies of ``exp(-gamma |x - y|^2)``; `kind` is "pairs" or "cosines"."""
        p = (n_features + 1) // 2 if kind == "pairs" else n_features
        frequencies = rng.normal(scale=math.sqrt(2 * gamma), size=(n_columns, p))
        offsets = None if kind == "pairs" else rng.uniform(0, 2 * np.pi, size=p)
        return cls(frequencies, offsets)

    def grid(self, X: NDArray) -> NDArray[np.float32]:
        """Return cosines (and sines) in whole units of 2**-15, shape (n, d).

        Each row of it is a function of that row of X alone, bit for bit.
        """
        return self._map.grid_matrix(self._rows(X))[:, : self.n_features]

    def features(self, X: NDArray) -> NDArray[np.float32]:
        """Return phi of each row, shape (n, d)."""
        phi = self.grid(X)
        phi *= np.float32(self.unit)
        return phi

    def sums(self, X: NDArray) -> NDArray[np.int64]:
        """Return the exact sum of `grid` over the rows."""
        total = np.zeros(self.n_features, np.int64)
        for rows in gen_batches(len(X), EMBEDDED_AT_ONCE):  # float64 holds a batch's sum exactly
            total += self.grid(X[rows]).sum(axis=0, dtype=np.float64).astype(np.int64)
        return total

    def group_sums(self, X: NDArray, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over groups of the mean of `grid` over the rows of each, rounded once.

        What a group adds is a function of its rows alone.

        Parameters
        ----------
        X : ndarray of shape (n, n_columns)
        groups : ndarray of int, shape (n,)
            Whose each row is: 0, 1, ...
        """
        order = np.argsort(groups, kind="stable")
        means = self._map.grid_averages(self._rows(X), order, np.bincount(groups))
        return means[: self.n_features]

    def sensitivity(self, n_rows: int, *, averaged: bool = False) -> tuple[float, float]:
        """Return bounds on the L1 and L2 norm of the sum of `grid` over so many rows.

        Two rows are one that has been replaced by another. Every entry of `grid` lies in
        [-2**15, 2**15], and pairs lie on the unit circle, up to rounding. Equal rows reach it.

        Parameters
        ----------
        n_rows : int
        averaged : bool, default=False
            Whether what comes and goes are means over groups, as in `group_sums`.
        """
        if self.offsets is None:
            l1, l2 = self._map.sensitivity("add_remove", averaged=averaged)
            return n_rows * l1, n_rows * l2
        return n_rows * self.n_features * GRID, n_rows * math.sqrt(self.n_features) * GRID

    def quantise(self, direction: NDArray) -> NDArray[np.float64]:
        """Return `direction` cut to so few bits that its products with `grid` are exact.

        Then a score is a function of its row alone, whatever the shape of the block it is
        computed in.
        """
        # float64 holds 53 bits; a value of the grid takes 16, and a sum of d of them log2(d) more.
        bits = 53 - 16 - math.ceil(math.log2(self.n_features)) - 1
        largest = float(np.abs(direction).max(initial=0.0))
        if largest == 0:
            return unchangeable(np.zeros_like(direction))
        unit = 2.0 ** (math.floor(math.log2(largest)) + 1 - bits)
        return unchangeable(np.rint(direction / unit) * unit)

    def _rows(self, X: NDArray) -> NDArray:
        # The offset is the frequency of one more column, which is 1.
        return X if self.offsets is None else np.column_stack([X, np.ones(len(X), X.dtype)])


def unchangeable(array: NDArray) -> NDArray:
    """Return a copy that nobody can write to, whatever flags they set.

    One array goes to all owners, and some are kept by the curator: an owner that wrote to its
    message would change what others see.
    """
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def grid_scores(grid: NDArray[np.float32], direction: NDArray, unit: float) -> NDArray[np.float64]:
    """Return ``<direction, phi(x)>`` per row of `grid`, exactly for a quantised direction."""
    if len(grid) == 0:
        return np.empty(0)
    scores = [
        grid[rows].astype(np.float64) @ direction
        for rows in gen_batches(len(grid), EMBEDDED_AT_ONCE)
    ]
    return np.concatenate(scores) * unit


# ---- choosing rows


def greedy_mmd_selection(
    X: ArrayLike,
    X_target: ArrayLike | None = None,
    n_select: int = 100,
    *,
    gamma: float | str = "auto",
    schema: Any = None,
    n_components: int | None = None,
    refine: bool = True,
    n_perturbations: int | str = "auto",
    random_state: Any = None,
) -> NDArray[np.int64]:
    """Choose rows of X whose distribution is close to the target's, in MMD. Not private.

    It adds, one at a time, the row that raises ``J(S) = 2 mean_{y, x in S} k(y, x) -
    mean_{x, x' in S} k(x, x')`` most. It then exchanges chosen rows for others while that helps.

    Parameters
    ----------
    X : array-like of shape (n, d)
        float32 is twice as fast, and exact to an MMD^2 of about 1e-6.
    X_target : array-like of shape (m, d), default=None
        The rows to match. None chooses a summary of X itself, where you have no other target.
    n_select : int, default=100
        p, the number of rows to choose; at most n are. 100 is a start, as in
        `PrivateMMDSummarizer`.
    gamma : "auto" or float, default="auto"
        Parameter of the kernel ``exp(-gamma |x - y|^2)``, per squared unit of the columns, or of
        the vectors of a schema. "auto" follows from the schema alone, as in `PrivateMMDSummarizer`.
        Without a schema, give a number.
    schema : TableSchema or what stands for one, default=None
        Public description of the columns. Give one to compare rows with words or missing values:
        they are compared as vectors (`PublicVectorizer`). None, as numbers need no schema, takes
        them as they are.
    n_components : int, default=None
        Give a number to use so many random Fourier features, which is faster where d or m are
        large, and coarser: their error, about ``1 / sqrt(n_components)`` per pair, bounds what can
        be matched. None uses the exact kernel, which has no such bound, one column at a time: time
        n (m + p d), memory linear in n.
    refine : bool, default=True
        Exchange rows after the greedy choice until no exchange helps, for a closer match. It takes
        memory for n p numbers; where that is above 1 GiB, nothing is refined.
    n_perturbations : int or "auto", default="auto"
        How often three neighbouring rows are then given up, chosen again and refined; the result is
        kept if it is better. Each takes about the time of two passes over n p numbers. "auto" is
        100, and less where n p is above 300,000, as gains are small there.
    random_state : int, RandomState or None, default=None
        For the perturbations and the Fourier features. None draws new ones in each call.

    Returns
    -------
    indices : ndarray of shape (min(n_select, n),)
        Distinct rows of X, in greedy order: the first k of them are a good summary, too.

    Raises
    ------
    ValueError
        For bad parameters, targets with other columns, and where there is neither a schema nor a
        number as gamma.

    Notes
    -----
    Sources: Kim, Khanna and Koyejo (2016), algorithm 1; section 2 of the data summarization paper.
    Refinement is a local search with restarts (iterated local search).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm.summaries import greedy_mmd_selection, mmd2
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> target = X[X[:, 0] > 0]
    >>> chosen = greedy_mmd_selection(X, target, 20, gamma=1.0, random_state=0)
    >>> bool(mmd2(X[chosen], target, gamma=1.0) < 0.01 * mmd2(X[:20], target, gamma=1.0))
    True
    """
    check_scalar(n_select, "n_select", Integral, min_val=1)
    if n_perturbations != "auto":
        check_scalar(n_perturbations, "n_perturbations", Integral, min_val=0)
    if n_components is not None:
        check_scalar(n_components, "n_components", Integral, min_val=1)
    check_in_memory("X", X)
    check_in_memory("X_target", X_target)
    rng = check_random_state(random_state)
    rows, target, gamma = read_two(schema, gamma, X, "X_target", X_target, keep_float32=True)
    with one_blas_thread():
        if n_components is None:
            search = exact_search(rows, target, n_select, gamma)
        else:
            columns = TableSchema([Numeric()] * rows.shape[1])
            features = FourierMap.draw(columns, n_components + n_components % 2, gamma, rng)
            target_mean = unit_features(features, target).mean(axis=0)
            # Column by column, products with one row read memory in order.
            phi = np.asfortranarray(unit_features(features, rows))
            search = feature_search(phi, target_mean, n_select)
        return search.run(refine, n_perturbations, rng)


def uniform_selection(n_rows: int, n_select: int, *, random_state: Any = None) -> NDArray[np.int64]:
    """Choose rows uniformly, without replacement: the baseline of every selection.

    Parameters
    ----------
    n_rows : int
    n_select : int
        At most `n_rows` are chosen.
    random_state : int, RandomState or None, default=None
        Give an int to choose the same rows again; None chooses others in each call.

    Returns
    -------
    indices : ndarray of shape (min(n_select, n_rows),)

    Examples
    --------
    >>> from skdpsumm.summaries import uniform_selection
    >>> len(uniform_selection(1000, 10))
    10
    """
    for name, value in (("n_rows", n_rows), ("n_select", n_select)):
        check_scalar(value, name, Integral, min_val=1)
    rng = check_random_state(random_state)
    return rng.permutation(n_rows)[:n_select]


def unit_features(feature_map: FourierMap, X: NDArray) -> NDArray:
    """Return Fourier features of norm one, shape (n, m), in the dtype of X."""
    return feature_map.matrix(X) * X.dtype.type(np.sqrt(2 / feature_map.n_features))


def exact_search(
    X: NDArray,
    X_target: NDArray,
    n_select: int,
    gamma: float,
    weights: NDArray | None = None,
    quotas: Quotas | None = None,
) -> SubsetSearch:
    """Return a search with the exact Gaussian kernel; weights of the target's rows sum to one."""
    X, X_target = centred(X, X_target)
    squares = np.einsum("ij,ij->i", X, X)
    return SubsetSearch(
        lambda i: kernel_column(X, squares, i, gamma),
        mean_kernel(X, X_target, gamma, weights).astype(X.dtype),
        n_select,
        quotas,
    )


def feature_search(features: NDArray, target_mean: NDArray, n_select: int) -> SubsetSearch:
    """Return a search with the kernel ``<phi(x), phi(y)>`` of features with one norm.

    The target is its mean embedding, which may be noisy: this is kernel herding.
    """
    target = features @ target_mean.astype(features.dtype)
    return SubsetSearch(lambda i: features @ features[i], target, n_select)


class Quotas:
    """How many rows of each owner may be chosen.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Whose each row is: 0, 1, ...
    most : ndarray of int, shape (n_owners,)
        How many of whose rows may be chosen.
    """

    def __init__(self, codes: NDArray, most: NDArray):
        self.codes, self._n_owners = codes, len(most)
        self._n_held = self._counts(slice(None))
        self.most = np.minimum(most, self._n_held)

    def _counts(self, rows: Any) -> NDArray[np.int64]:
        return np.bincount(self.codes[rows], minlength=self._n_owners)

    def are_reached(self, chosen: NDArray) -> bool:
        """Whether an owner is at its bound that has more rows than may be chosen."""
        return bool(np.any((self._n_held > self.most) & (self._counts(chosen) == self.most)))

    def full(self, is_chosen: NDArray[np.bool_], spare: int | None = None) -> NDArray[np.bool_]:
        """Return which rows' owners are at their bound, once row `spare` is given up."""
        full = self._counts(is_chosen) == self.most
        if spare is not None:
            full[self.codes[spare]] = False
        return full[self.codes]


class SubsetSearch:
    """The set S of rows that maximises ``J(S) = 2 mean_S mu(x) - mean_{S, S} k(x, x')``.

    With sums over S of kernel columns at hand, the gain of any row is one subtraction: adding x to
    q rows changes J by ``2 / (q + 1) (mu(x) - sum_S k(x, x') / (q + 1))`` plus what is the same
    for all x, for k(x, x) is constant.

    Parameters
    ----------
    column : callable
        ``column(i)`` gives ``k(x, x_i)`` for all candidates x, shape (n,).
    target : ndarray of shape (n,)
        mu, the mean kernel to the target (or an estimate of it).
    n_select : int
        p.
    quotas : Quotas, default=None
        How many rows may be chosen of each owner. None sets no bound.

    Attributes
    ----------
    chosen : ndarray of int
        The rows of S, in order.
    """

    def __init__(
        self,
        column: Callable[[int], NDArray],
        target: NDArray,
        n_select: int,
        quotas: Quotas | None = None,
    ):
        self.column, self.target, self.quotas = column, target, quotas
        self.n_select = min(n_select, len(target) if quotas is None else int(quotas.most.sum()))
        self.sums = np.zeros_like(target)
        self.is_chosen = np.zeros(len(target), bool)
        self.chosen = np.empty(0, np.int64)
        # Kernel columns of the chosen rows, by slot; only where rows are to be exchanged.
        self._columns: Any = None

    def run(
        self, refine: bool, n_perturbations: int | str, rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        """Choose greedily, refine if asked and if memory allows, and return the rows."""
        if isinstance(n_perturbations, str):  # "auto"
            n_perturbations = min(100, 2**25 // (self.n_select * len(self.target)))
        n_bytes = self.n_select * self.target.nbytes
        # With all rows chosen there is nothing to exchange.
        refine = refine and n_bytes <= MAX_BYTES_OF_COLUMNS and self.n_select < len(self.target)
        if refine:
            self._columns = {}
        self.chosen = np.zeros(self.n_select, np.int64)
        for slot in range(self.n_select):
            self._fill(slot, slot)
        if refine:
            self._swap(np.arange(self.n_select))
            for _ in range(n_perturbations if self.n_select > ROWS_GIVEN_UP else 0):
                self._perturb(rng)
            self._sort()
        return self.chosen

    def _sort(self) -> None:
        """Put the chosen rows in greedy order, so that the first of them are a summary as well."""
        kernel = np.array([self._columns[slot][self.chosen] for slot in range(self.n_select)])
        target, sums = self.target[self.chosen], np.zeros(self.n_select)
        order: list[int] = []
        for k in range(self.n_select):
            losses = sums / (k + 1) - target
            losses[order] = np.inf
            order.append(int(losses.argmin()))
            sums += kernel[order[-1]]
        self.chosen, self._columns = self.chosen[order], None

    def _objective(self) -> float:
        p = self.n_select
        chosen = self.chosen
        return float(
            2 * self.target[chosen].mean(dtype=np.float64)
            - self.sums[chosen].sum(dtype=np.float64) / p**2
        )

    def _fill(self, slot: int, n_others: int, barred: Sequence[int] = ()) -> None:
        """Put the row into `slot` that raises J most beside `n_others` rows, but none `barred`."""
        losses = self.sums / (n_others + 1)
        losses -= self.target
        losses[self._closed()] = np.inf
        losses[np.asarray(barred, np.int64)] = np.inf
        self._put(slot, int(losses.argmin()))

    def _closed(self, spare: int | None = None) -> NDArray[np.bool_]:
        """Return which rows cannot be chosen, if row `spare` is given up for one."""
        if self.quotas is None:
            return self.is_chosen
        return self.is_chosen | self.quotas.full(self.is_chosen, spare)

    def _put(self, slot: int, row: int) -> None:
        column = self.column(row)
        self.chosen[slot] = row
        self.is_chosen[row] = True
        self.sums += column
        if self._columns is not None:
            self._columns[slot] = column

    def _take(self, slot: int) -> None:
        self.is_chosen[self.chosen[slot]] = False
        self.sums -= self._columns[slot]

    def _swap(self, slots: NDArray) -> None:
        """Exchange one row at a time for the best in its place, until none is worth it."""
        wanted = self.n_select * self.target
        for _ in range(100):
            changed = False
            for slot in slots:
                row = self.chosen[slot]
                losses = self.sums - self._columns[slot]
                losses -= wanted
                own = losses[row]
                losses[self._closed(row)] = np.inf
                best = int(losses.argmin())
                # The first exchange that helps is made: to look for the best takes a pass each.
                # A swap must gain more than the rounding of float32.
                if losses[best] < own - 1e-6:
                    self._take(slot)
                    self._put(slot, best)
                    changed = True
            if not changed:
                return

    def _perturb(self, rng: np.random.RandomState) -> None:
        """Give up some rows near each other, choose again, refine; keep it if it is better."""
        before = self._objective()
        chosen, sums, columns = self.chosen.copy(), self.sums.copy(), dict(self._columns)
        nearness = columns[rng.randint(self.n_select)][chosen]
        # Rows near each other stand in each other's way, and a swap of one cannot move them.
        near = np.argsort(-nearness, kind="stable")[: 3 * ROWS_GIVEN_UP]
        dropped = rng.choice(near, ROWS_GIVEN_UP, replace=False)
        for slot in dropped:
            self._take(slot)
        for k, slot in enumerate(dropped):
            barred = chosen[dropped] if k == 0 else []  # else the same three come back
            self._fill(slot, self.n_select - ROWS_GIVEN_UP + k, barred)
        self._swap(rng.permutation(self.n_select))
        if not self._objective() > before:
            self._columns, self.chosen, self.sums = columns, chosen, sums
            self.is_chosen[:] = False
            self.is_chosen[chosen] = True
