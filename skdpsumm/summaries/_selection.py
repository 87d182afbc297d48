"""Choosing rows whose kernel mean is close to a target's: greedy choice, swaps, and restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state, check_scalar

from .._computing import one_blas_thread
from ..features._feature_maps import FourierMap
from ..schema._columns import Numeric
from ..schema._schema import TableSchema
from ._mmd import (
    centred,
    check_in_memory,
    kernel_column,
    mean_kernel,
    read_two,
)

# Swaps keep the kernel columns of all chosen rows; beyond so many bytes there are none.
MAX_BYTES_OF_COLUMNS = 2**30
ROWS_GIVEN_UP = 3


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
    random_state=None,
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


def uniform_selection(n_rows: int, n_select: int, *, random_state=None) -> NDArray[np.int64]:
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
