"""The Gaussian kernel: maximum mean discrepancy, block by block, and a public embedding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.utils import gen_batches

from .._dask import PartitionSchema
from ..features._feature_maps import GRID, NO_GAMMA, FourierMap, auto_gamma
from ..schema._columns import Numeric
from ..schema._reading import (
    NoEstimator,
    check_same_order,
    check_some_rows,
    is_dask,
    validate_table,
)
from ..schema._schema import TableSchema, as_schema, public_points, schema_of
from ..schema._vectorizer import VectorRows, n_vector, vectorize

# Entries of the kernel matrix that are in memory at a time.
ENTRIES_OF_KERNEL_BLOCK = 2**22
# Entries of rows are clipped to this, so that no distance overflows in float32.
LARGEST_ENTRY = 1e15
# What a nat of divergence from the owner's own rows costs, against half a squared standard
# deviation of the noise. Below 10, noise draws rows where the target is common; above 40, a rare
# target is missed (examples/benchmarks/summary_choices.py).
PRICE_OF_A_NAT = 20.0
# So many rows are enough for the fit of weights.
ROWS_OF_TILT = 4096


def mmd2(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    gamma: float | str = "auto",
    schema: Any = None,
) -> float:
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
    reader = RowReader(schema)
    A = reader.read(X).astype(np.float64)
    B = reader.another("Y", X, Y).read(Y).astype(np.float64)
    if A.shape[1] != B.shape[1]:
        raise ValueError(f"X has {A.shape[1]} columns and Y has {B.shape[1]}; give both the same.")
    gamma = reader.gamma(gamma)
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


def check_in_memory(name: str, table: Any) -> None:
    """Raise ValueError for a Dask collection: rows are chosen in memory."""
    if is_dask(table):
        raise ValueError(f"{name} is a Dask collection; give {name}.compute().")


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

    def another(self, name: str, X: Any, table: Any) -> RowReader:
        """Return a reader of a table beside X, whose columns stand in another order by name only.

        Raises
        ------
        ValueError
            For a table without rows, and for a frame whose columns would be read by position and
            are not those of X.
        """
        check_some_rows(name, table)
        known = as_schema(self.schema)
        if known is None or known.names is None:
            check_same_order(name, table, X)
        return RowReader(self.schema)

    def gamma(self, gamma: Any) -> float:
        """Return the gamma of the table that was read."""
        return made_gamma(gamma, None if self.schema is None else schema_of(self))


@dataclass(frozen=True)
class PartitionRows(PartitionSchema):
    """What is public of a table in partitions, whose rows are read as the kernel sees them."""

    known: TableSchema | None = None

    @classmethod
    def read_by(cls, reader: Any, X: Any) -> PartitionRows:
        """Check what is known of a Dask collection for something with a parameter `schema`."""
        table = PartitionSchema.of(reader, X, schema=as_schema(reader.schema))
        known = None if reader.schema is None else schema_of(reader)
        return cls(**vars(table), known=known)

    def check(self, rows: Any) -> Any:
        """Return a partition's rows, whose vectors are made when they are asked for."""
        cells = super().check(rows)
        return cells if self.known is None else VectorRows.of(self.known, cells)

    @property
    def width(self) -> int:
        """Number of entries of a row as the kernel sees it."""
        return self.n_columns if self.known is None else n_vector(self.known)


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


def kernel_matrix(X: NDArray, Y: NDArray, gamma: float) -> NDArray:
    """Return ``k(x, y)`` for all pairs, shape (n, m)."""
    return np.concatenate(list(_blocks(X, Y, gamma)))


def kernel_column(X: NDArray, squares: NDArray, i: int, gamma: float) -> NDArray:
    """Return ``k(x, x_i)`` for each row of X, given the squared norms of its rows."""
    distances = X @ X[i]
    distances *= -2
    distances += squares
    distances += squares[i]
    column = _gaussian(distances, gamma)
    column[i] = 1  # which rounding may have missed, far from the origin
    return column


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
            of_map = self._map.averaged_sensitivity if averaged else self._map.sensitivity
            l1, l2 = of_map("add_remove")
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


def tilted_scores(
    features: Callable[[NDArray], NDArray[np.float32]],
    n_rows: int,
    target_mean: NDArray,
    noise_std: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the log-weights under which rows have a mean near that of the target.

    They are those of the weights w that minimise ``|sum w_i phi_i - g~|^2 / (2 sigma^2) + kappa
    KL(w | uniform)``: the rows as they are, tilted no further than the noise warrants. With large
    noise they are nearly equal, with none they match the target.

    Parameters
    ----------
    features : callable
        ``features(rows)`` gives phi, of norm one, of rows in a range or an array, shape (r, d).
    n_rows : int
        n.
    target_mean : ndarray of shape (d,)
        g~, the noisy mean.
    noise_std : float
        sigma, the standard deviation of the noise of each entry of it; above 0.
    rng : Generator
        Draws the rows that the fit is made with, where there are more than 4,096.

    Returns
    -------
    ndarray of shape (n,)
        Up to what is the same for all rows.

    Notes
    -----
    kappa is 20, and more where the rows show that the target differs from them by less. Then the
    rows need variety rather than weights, and only the part ``20 / kappa`` of them is drawn with
    these weights, the others at random: what is returned are the logarithms of the mixture.

    The dual is smooth and has d unknowns: ``min log mean exp <b, phi_i> - <b, g~> + kappa sigma^2
    |b|^2 / 2``. It is the maximum entropy density ratio of an exponential family (Dudik, Phillips
    and Schapire 2007; Tsuboi et al. 2009).
    """
    sample = np.arange(n_rows)
    if n_rows > ROWS_OF_TILT:
        sample = np.sort(rng.choice(n_rows, ROWS_OF_TILT, replace=False))
    fitted = features(sample)
    mean = fitted.mean(axis=0, dtype=np.float64)
    strictness = _strictness(fitted, mean, target_mean - mean, noise_std)
    # Below 1e-5 float32 rounds the gradient away.
    ridge = max(strictness * noise_std**2, 1e-5)

    def dual(b: NDArray) -> tuple[float, NDArray]:
        scores = (fitted @ b.astype(np.float32)).astype(np.float64)
        top = scores.max()
        weights = np.exp(scores - top)
        total = weights.sum()
        found = (weights / total).astype(np.float32) @ fitted
        value = top + np.log(total / len(scores)) - b @ target_mean + ridge / 2 * (b @ b)
        return value, found - target_mean + ridge * b

    options = {"maxiter": 60, "maxcor": 10}
    b = minimize(dual, np.zeros(len(mean)), jac=True, method="L-BFGS-B", options=options).x
    tilt = b.astype(np.float32)
    blocks = np.array_split(np.arange(n_rows), 1 + n_rows // SCORED_AT_ONCE)
    scores = np.concatenate([features(rows) @ tilt for rows in blocks]).astype(np.float64)
    part = PRICE_OF_A_NAT / strictness
    if part == 1:
        return scores
    weights = np.exp(scores - scores.max())
    return np.log(part * weights / weights.sum() + (1 - part) / len(weights))


def _strictness(features: NDArray, mean: NDArray, residual: NDArray, noise_std: float) -> float:
    """Return kappa: more where the target shows no difference from these rows beyond the noise.

    If the log-weights of the rows had the variance ``1 / kappa`` in every direction of phi, the
    scores of the rows by what the target differs in would have the variance ``tr C^2 / kappa``,
    with C the covariance of phi, and ``sigma^2 tr C`` more from the noise, give or take ``sigma^2
    sqrt(2 tr C^2)``.
    """
    # So many rows are enough for the spectrum of features.
    some = features[:: -(-len(features) // 128)]
    centred = some - mean.astype(np.float32)
    products = np.square(centred @ centred.T)
    n_pairs = max(len(some) * (len(some) - 1), 1)
    of_pairs = (products.sum(dtype=np.float64) - np.trace(products)) / n_pairs  # tr C^2
    if of_pairs <= 0:  # rows that are all alike
        return PRICE_OF_A_NAT
    of_rows = 1 - mean @ mean  # tr C
    scores = features @ residual.astype(np.float32)
    found = (np.var(scores, dtype=np.float64) - noise_std**2 * of_rows) / of_pairs
    # Its standard error, against what is thought before: the noisier it is, the less it counts.
    error, prior = noise_std**2 * np.sqrt(2 / of_pairs), 1 / PRICE_OF_A_NAT
    trust = prior**2 / (prior**2 + error**2)
    # The price is largest where the scores of the rows vary no more than noise makes them.
    return 1 / np.clip(trust * found + (1 - trust) * prior, 1e-3, prior)


def draw_tilted(scores: NDArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw n rows without replacement, each time with probability in proportion to exp(score)."""
    if n == 0:
        return np.empty(0, np.int64)
    return np.argsort(-(scores + rng.gumbel(size=len(scores))), kind="stable")[:n]
