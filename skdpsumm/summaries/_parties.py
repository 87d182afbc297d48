"""The parties of a run: owners of rows, and the curator, who holds the target and chooses.

An owner is one party, one of many in a table, or a partition of a Dask collection. The curator
talks to owners by messages, in one process as over a network.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from .._computing import one_blas_thread, warn_caller
from .._sklearn import validate_parameter_constraints
from ..privacy._fit import PrivateFit, charge, check_groups, warn_of_seed
from ..privacy._guarantee import PrivacyGuarantee
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import current_seed, derived_seed, forked, nominal_mechanism, secret_key
from ..schema._groups import Groups
from ..schema._reading import (
    SHAPE,
    Y_LENGTH,
    CellError,
    NoEstimator,
    cells_as_objects,
    check_some_rows,
    label_array,
    n_rows_of,
    read_labels,
    rows_of,
    validate_table,
)
from ..schema._schema import TableSchema, as_schema, schema_of
from ..schema._vectorizer import VectorRows, part_of
from ..sketches._partitions import PartitionSchema, compute, on_partitions, partitions, sound
from ._mmd import (
    SCORED_AT_ONCE,
    Embedding,
    Quotas,
    centred,
    exact_search,
    feature_search,
    grid_scores,
    prefix_objective,
    table_rows,
    unchangeable,
)
from ._protocol import (
    COSTS_NOTHING,
    Bid,
    CallForBids,
    HandOver,
    Message,
    Plan,
    ProposeRows,
    Rows,
    Terms,
    state_privacy,
)

# ---- owners


# An owner keeps the features of all rows between messages up to so many bytes.
MAX_BYTES_OF_PHI = 2**30
# What a nat of divergence from the mixture of groups costs, against half a squared standard
# deviation of the noise. From 5 to 40 it changes distances by 3 per cent (summary_choices.py
# --others --thin 180); at 10, noise draws rows where the target is common at epsilon 0.1.
PRICE_OF_A_NAT = 20.0
# So many cuts are about 20 for each of 50 columns: they miss no side of a column of two values.
N_CUTS = 1000
# So many rows are enough for the fit of weights.
ROWS_OF_TILT = 4096


class DataOwner:
    """A party that holds rows and answers a `Curator`. Holds private data.

    Rows that were handed over once are never considered again. What an owner answers may depend on
    its own rows in any way: guarantees are about what reaches *other* owners.

    Parameters
    ----------
    X : array-like of shape (n, n_columns)
        Numbers as the kernel is to see them. Of other tables, give the vectors that
        `PublicVectorizer` makes. float32 stays float32.
    y : array-like of shape (n,), default=None
        Labels that go with the rows that are handed over: all words or all numbers, and none
        missing. None if there are no labels: they play no part in the choice.
    groups : array-like of shape (n,), default=None
        The group of each row, a person for example. Give it with `max_rows_per_group`. None is for
        single rows.
    max_rows_per_group : int, "average" or None, default=None
        How many rows of a group take part. None protects single rows, as most tables have one row
        per person. An int k keeps k rows of each group, chosen by secret coins; the others are
        never handed over. "average" keeps all, for protocols that tell nothing of them. The owner
        answers only a curator whose claims take the same number.
    seed : int or SeedSequence, default=None
        Seed of the owner's coins, for simulations only. None draws them from the operating system,
        because they must be secret.

    Raises
    ------
    ValueError
        If X is no finite table of numbers, if labels are missing or of several kinds, or if
        `groups` is given without `max_rows_per_group` or the other way round. The message names no
        value.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import PrivateMMDSummarizer
    >>> from skdpsumm.summaries import Curator, DataOwner
    >>> rng = np.random.default_rng(0)
    >>> owner = DataOwner(rng.normal(size=(100, 2)))
    >>> terms = PrivateMMDSummarizer(n_select=5, gamma=0.5).terms()
    >>> curator = Curator(rng.normal(size=(200, 2)), ["north"], terms, random_state=0)
    >>> message = curator.open()["north"]
    >>> owner.answer(message).X.shape
    (80, 2)
    """

    holds_private_data = True

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        groups: Any = None,
        max_rows_per_group: Any = None,
        seed: Any = None,
    ):
        # The summarizer's own owners have cells that were read before.
        is_read = isinstance(X, VectorRows)
        table: dict[str, Any] = {"keep_float32": True, "ensure_min_samples": 0}
        self._X: Any = X if is_read else validate_table(NoEstimator(), X, **table)
        self._y = None if y is None else read_label_column(y)
        if self._y is not None and len(self._y) != len(self._X):
            raise ValueError(Y_LENGTH)
        self._coins = np.random.default_rng(seed)
        self._bound = max_rows_per_group
        self._remaining = self._kept(groups, seed)
        self._embedding: Embedding | None = None
        self._grid: NDArray | None = None
        self._last_bid = -1

    def _kept(self, labels: Any, seed: Any) -> NDArray[np.bool_]:
        """Return which rows take part: k of each group, by coins of this owner's own."""
        name = "max_rows_per_group"
        known = {name: PrivateFit._parameter_constraints[name]}
        validate_parameter_constraints(known, {name: self._bound}, caller_name="DataOwner")
        check_groups("DataOwner", self._bound, labels)
        kept = np.ones(len(self._X), bool)
        if labels is None:
            return kept
        groups = Groups.read(labels, len(self._X))
        if self._bound == "average":
            return kept
        # Drawn from the owner's coins where these have a seed: a simulation is to come out alike.
        key = secret_key(None) if seed is None else self._coins.bytes(32)
        return np.isin(np.arange(len(kept)), groups.kept(int(self._bound), key))

    def answer(self, message: Message) -> Rows | Bid:
        """Return the answer to a message of the curator.

        Parameters
        ----------
        message : Message
            As `Curator.open` and `Curator.receive` return it.

        Returns
        -------
        Rows or Bid

        Raises
        ------
        TypeError
            For a message of an unknown kind, or one that needs an embedding that never came.
        ValueError
            For a curator whose claims take another number of rows of a group for granted.
        """
        if getattr(message, "max_rows_per_group", None) != self._bound:
            raise ValueError("max_rows_per_group must be the same for the curator and this owner.")
        if message.embedding is not None:
            self._embedding, self._grid = message.embedding, None
        return self._answer(message)

    @singledispatchmethod
    def _answer(self, message: Any) -> Rows | Bid:
        raise TypeError(f"An owner cannot answer {type(message).__name__}.")

    @_answer.register
    def _(self, message: ProposeRows) -> Rows:
        matched = self._matched(message.direction, message.noise, message.n_herd)
        rest = np.setdiff1d(np.flatnonzero(self._remaining), matched)
        # The draw is that of matched rows where noise is all, so simulations use the same coins.
        uniform = draw_tilted(np.zeros(len(rest)), message.n_uniform, self._coins)
        return self._hand_over([*matched, *rest[uniform]])

    @_answer.register
    def _(self, message: CallForBids) -> Bid:
        candidates = np.flatnonzero(self._remaining)
        if len(candidates) == 0:
            self._last_bid = -1
            return Bid(-np.inf, -1)
        scores = self._scores(message.direction)
        self._last_bid = int(candidates[scores[candidates].argmax()])
        return Bid(float(scores[self._last_bid]), self._last_bid)

    @_answer.register
    def _(self, message: HandOver) -> Rows:
        return self._hand_over([self._last_bid] if self._last_bid >= 0 else [])

    def _matched(self, direction: NDArray | None, noise: float | None, n: int) -> NDArray[np.int64]:
        """Return remaining rows whose mean embedding is close to `direction`.

        By kernel herding where it has no noise; else they are drawn, with weights that match it as
        far as the noise warrants.
        """
        candidates = np.flatnonzero(self._remaining)
        if n == 0 or direction is None or len(candidates) == 0:
            return np.empty(0, np.int64)
        if len(candidates) <= n:
            return candidates
        embedding = self._require_embedding()
        most = max(n, MAX_BYTES_OF_PHI // (4 * embedding.n_features))
        if len(candidates) > most:  # phi of all would not fit, and a sample does
            candidates = np.sort(self._coins.choice(candidates, most, replace=False))

        def read(rows: Any) -> tuple[NDArray, NDArray[np.float32]]:
            X = self._X[candidates[rows]]
            return X, embedding.features(X)

        if not noise:
            search = feature_search(read(slice(None))[1], direction, n)
            return candidates[search.run(False, 0, np.random.RandomState(0))]
        reader = read
        # Weights read a sample of the rows twice, so few rows are kept meanwhile.
        if len(candidates) <= 4 * ROWS_OF_TILT:
            X, phi = read(slice(None))

            def reader(rows: Any) -> tuple[NDArray, NDArray[np.float32]]:
                return X[rows], phi[rows]

        scores = tilted_scores(reader, len(candidates), direction, noise, self._coins)
        return candidates[draw_tilted(scores, n, self._coins)]

    def _scores(self, direction: NDArray) -> NDArray[np.float64]:
        """Return ``<direction, phi(x)>`` for all rows, each a function of its row alone."""
        unit = self._require_embedding().unit
        batches = np.array_split(np.arange(len(self._X)), 1 + len(self._X) // 65536)
        return np.concatenate([grid_scores(self._grid_of(b), direction, unit) for b in batches])

    def _grid_of(self, rows: NDArray) -> NDArray[np.float32]:
        embedding = self._require_embedding()
        if self._grid is None and 4 * len(self._X) * embedding.n_features <= MAX_BYTES_OF_PHI:
            self._grid = embedding.grid(self._X)
        return embedding.grid(self._X[rows]) if self._grid is None else self._grid[rows]

    def _require_embedding(self) -> Embedding:
        if self._embedding is None:
            raise TypeError("The message needs the public embedding, which has not come yet.")
        if self._embedding.n_columns != self._X.shape[1]:
            raise TypeError("The embedding is for tables with another number of columns.")
        return self._embedding

    def _hand_over(self, rows: Any) -> Rows:
        rows = np.asarray(rows, np.int64)
        self._remaining[rows] = False
        # The dtype of labels follows from those that go, and tells nothing of those that stay.
        return Rows(
            rows, self._X[rows], None if self._y is None else label_array(self._y[rows].tolist())
        )

    def __repr__(self) -> str:
        return f"<DataOwner, {self._X.shape[1]} columns, holds_private_data=True>"


class GroupMixture:
    """Rows as a mixture of groups whose mean is near that of the target.

    A group is all rows, or those at one side of a cut through one column, at random. Shares a
    minimise ``|sum a_h mu_h - g~|^2 / (2 sigma^2) + KL(a | prior)``, with mu_h the mean of phi in
    group h. The prior gives even odds: the target is like all rows, or like a group of a cut,
    however small. In proportion to their sizes, rare targets of 30 rows were missed (3.4 for 1.4
    times the distance of greedy choice, summary_choices.py).

    Parameters
    ----------
    X : ndarray of shape (r, n_columns)
    phi : ndarray of shape (r, d)
    target_mean, noise_std, rng
        As in `tilted_scores`.
    """

    def __init__(
        self,
        X: NDArray,
        phi: NDArray[np.float32],
        target_mean: NDArray,
        noise_std: float,
        rng: np.random.Generator,
    ):
        self._columns = rng.integers(X.shape[1], size=N_CUTS)
        low, high = (bound(axis=0)[self._columns] for bound in (X.min, X.max))
        part = rng.random(N_CUTS)
        self._places = (low * (1 - part) + high * part).astype(X.dtype)
        self._is_upper = rng.random(N_CUTS) < 0.5
        members = self._members(X)
        sizes = members.sum(axis=0)
        found = np.flatnonzero(sizes)  # a cut may have no row at its side
        means = members[:, found].T @ phi / sizes[found, None]
        log_prior = np.log([0.5, *np.full(len(found) - 1, 0.5 / max(len(found) - 1, 1))])
        log_shares = log_prior + means @ maximum_entropy(
            means, log_prior, target_mean, noise_std**2
        )
        self._of_member = np.zeros(len(sizes), np.float32)
        self._of_member[found] = np.exp(log_shares - log_shares.max()) / sizes[found]

    def _members(self, X: NDArray) -> NDArray[np.float32]:
        """Return 1 where a row is in a group, shape (n, N_CUTS + 1); all rows are in the first."""
        found = (X[:, self._columns] >= self._places) == self._is_upper
        return np.column_stack([np.ones(len(X), bool), found]).astype(np.float32)

    def log_weights(self, X: NDArray) -> NDArray[np.float64]:
        """Return the logarithm of each row's weight, up to what is the same for all."""
        weights = (self._members(X) @ self._of_member).astype(np.float64)
        return np.log(np.maximum(weights, np.finfo(np.float32).tiny))


def tilted_scores(
    read: Callable[[Any], tuple[NDArray, NDArray[np.float32]]],
    n_rows: int,
    target_mean: NDArray,
    noise_std: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return the log-weights under which rows have a mean near that of the target.

    They are those of the weights w that minimise ``|sum w_i phi_i - g~|^2 / (2 sigma^2) + kappa
    KL(w | mixture)``: a `GroupMixture` of the rows, tilted no further than the noise warrants.
    Where the target consists of rows that are rare with the owner, the mixture finds them. With
    large noise half of the weight is spread evenly, with none the weights match the target.

    Parameters
    ----------
    read : callable
        ``read(rows)`` gives the rows in a range or an array, shape (r, n_columns), and phi of them,
        of norm one, shape (r, d).
    n_rows : int
        n.
    target_mean : ndarray of shape (d,)
        g~, the noisy mean.
    noise_std : float
        sigma, the standard deviation of the noise of each entry of it; above 0.
    rng : Generator
        Draws the groups, and the rows that the fit is made with, where there are more than 4,096.

    Returns
    -------
    ndarray of shape (n,)
        Up to what is the same for all rows.

    Notes
    -----
    Both fits are the maximum entropy density ratio of an exponential family (Dudik, Phillips and
    Schapire 2007; Tsuboi et al. 2009), see `maximum_entropy`.
    """
    sample = np.arange(n_rows)
    if n_rows > ROWS_OF_TILT:
        sample = np.sort(rng.choice(n_rows, ROWS_OF_TILT, replace=False))
    X, phi = read(sample)
    mixture = GroupMixture(X, phi, target_mean, noise_std, rng)
    log_prior = mixture.log_weights(X)
    tilt = maximum_entropy(phi, log_prior, target_mean, PRICE_OF_A_NAT * noise_std**2)

    def scores(rows: NDArray) -> NDArray[np.float64]:
        X, phi = read(rows)
        return mixture.log_weights(X) + phi @ tilt

    blocks = np.array_split(np.arange(n_rows), 1 + n_rows // SCORED_AT_ONCE)
    return np.concatenate([scores(rows) for rows in blocks])


def maximum_entropy(
    features: NDArray[np.float32], log_prior: NDArray, target_mean: NDArray, ridge: float
) -> NDArray[np.float32]:
    """Return b; weights of ``log_prior + <b, features>`` are near the prior, and match a mean.

    They minimise ``|sum w_i phi_i - g~|^2 / 2 + ridge KL(w | prior)``. The dual is smooth and has d
    unknowns: ``min log sum prior exp <b, phi_i> - <b, g~> + ridge |b|^2 / 2``.
    """
    # Below 1e-5 float32 rounds the gradient away.
    ridge = max(ridge, 1e-5)

    def dual(b: NDArray) -> tuple[float, NDArray]:
        scores = log_prior + (features @ b.astype(np.float32)).astype(np.float64)
        top = scores.max()
        weights = np.exp(scores - top)
        total = weights.sum()
        found = (weights / total).astype(np.float32) @ features
        value = top + np.log(total) - b @ target_mean + ridge / 2 * (b @ b)
        return value, found - target_mean + ridge * b

    options = {"maxiter": 60, "maxcor": 10}
    start = np.zeros(features.shape[1])
    b = minimize(dual, start, jac=True, method="L-BFGS-B", options=options).x
    return b.astype(np.float32)


def draw_tilted(scores: NDArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw n rows without replacement, each time with probability in proportion to exp(score)."""
    if n == 0:
        return np.empty(0, np.int64)
    return np.argsort(-(scores + rng.gumbel(size=len(scores))), kind="stable")[:n]


class PartitionOwners:
    """One owner per partition, named 0, 1, ... Each answers one message, and forgets it.

    Rows are read twice: once to check them, before anything is charged, and once to answer.

    Parameters
    ----------
    estimator : estimator
        Gets the columns, and is named in messages of errors; rows are read by its `schema`.
    X : Dask array or frame

    Attributes
    ----------
    members : list of range
        Which rows of X each owner holds.

    Raises
    ------
    ValueError, TypeError
        What one process would raise for the whole of X.
    """

    def __init__(self, estimator: Any, X: Any):
        table = PartitionSchema.of(estimator, X, schema=as_schema(estimator.schema))
        self._table = table, None if estimator.schema is None else schema_of(estimator)
        self._parts = partitions(X)
        sizes = sound(compute(on_partitions(_size, self._parts, self._table)))
        ends = np.cumsum(sizes).tolist()
        table.check_size(ends[-1])
        self.members = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._seeds: Mapping[int, Any] = dict.fromkeys(range(len(sizes)))

    def seed(self, seeds: Mapping[int, Any]) -> None:
        """Set the seeds of the owners' coins; None draws them where the rows are."""
        self._seeds = seeds

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.members)))

    def answer_all(self, messages: Mapping[int, Message]) -> dict[int, Any]:
        """Return the answers of all owners that are asked, from one computation."""
        parts = [self._parts[name] for name in messages]
        own = [(name, self._seeds[name]) for name in messages]
        answers = compute(on_partitions(_answer, parts, (self._table, dict(messages)), own))
        return dict(zip(messages, answers, strict=True))


# What is public of a table in partitions, and the schema by which vectors are made of its rows.
_Known = tuple[PartitionSchema, TableSchema | None]


def _rows_in(partition: Any, known: _Known) -> NDArray | VectorRows:
    table, schema = known
    cells = table.check(partition)
    return cells if schema is None else VectorRows.of(schema, cells)


def _size(partition: Any, known: _Known) -> int:
    return len(_rows_in(partition, known))


def _answer(partition: Any, shared: tuple[_Known, dict[int, Message]], own: Any) -> Any:
    known, messages = shared
    name, seed = own
    # A Fault in its place is no answer to any message, so the curator leaves this owner out.
    return DataOwner(_rows_in(partition, known), seed=seed).answer(messages[name])


def run_protocol(curator: Any, owners: Any) -> Any:
    """Carry messages between a curator and owners until the curator has chosen.

    Parameters
    ----------
    curator : Curator
        Not opened yet.
    owners : mapping from name to DataOwner
        Anything with a method `answer` will do, and so will one object, an iterable of names, with
        a method `answer_all` from all messages of a round to the answers. None does not answer.

    Returns
    -------
    curator : Curator
        Finished.
    """
    if set(owners) != set(curator.shares):
        raise ValueError("owners must be those that the curator was made for.")
    with one_blas_thread():
        messages = curator.open()
        while messages:
            if hasattr(owners, "answer_all"):
                answers = owners.answer_all(messages)
            else:
                answers = {name: _ask(owners[name], messages[name]) for name in messages}
            messages = curator.receive(answers)
    return curator


def _ask(owner: Any, message: Message) -> Any:
    """Return the answer, or an exception in its place."""
    try:
        return owner.answer(message)
    except (Exception, SystemExit) as error:  # the curator leaves this owner out
        return error


_NO_LABELS = (
    "y must hold one label for each row: all words or all numbers, and none missing or infinite. "
    "Drop rows without a label, or give them a label of their own."
)

_NO_OWNERS = (
    "owners must be labels of one kind, all words or all numbers that float64 holds exactly, and "
    "none missing: give rows without an owner a name of their own, fillna('unknown'), and write "
    "other names as words, astype(str)."
)


def read_label_column(y: Any) -> NDArray:
    """Return labels as Python's words or numbers, in an array of objects.

    What is handed over of them is a matter of the rows that go: see `label_array`.

    Raises
    ------
    ValueError
        If labels are missing, infinite, of several kinds, or neither words nor numbers that float64
        holds. The message names no value.
    """
    with suppress(CellError):
        return cells_as_objects(read_labels(y))
    raise ValueError(_NO_LABELS)


_UNREADABLE = "has rows that cannot be read"
BAD_LABELS = "has labels that are missing or of no one kind"


@dataclass(frozen=True)
class OwnersTables:
    """The rows of each owner, as the kernel sees them.

    Attributes
    ----------
    n_rows : int
        Of X.
    members : dict from owner to ndarray of int
        Which rows of X are whose.
    rows : dict from owner to ndarray of shape (n_k, n_columns), or VectorRows
        Without the owners whose rows cannot be read.
    whole : ndarray of shape (n_rows, n_columns), VectorRows or None
        All of X, where it can be read.
    """

    n_rows: int
    members: dict[Any, NDArray[np.int64]]
    rows: dict[Any, Any]
    whole: Any

    @property
    def faults(self) -> dict[Any, str]:
        """Which owners' rows cannot be read."""
        return {name: _UNREADABLE for name in self.members if name not in self.rows}


def read_owners(
    estimator: Any, X: Any, owners: Any, shares: Mapping[Any, float] | None, *, as_one: bool
) -> OwnersTables:
    """Read the rows of all owners; those of an owner that cannot be read are left to the others.

    Parameters
    ----------
    estimator : PrivateMMDSummarizer
        Gets the columns, and has a `schema`.
    X : array-like or frame of shape (n, n_features)
    owners : array-like of shape (n,) or None
        Whose each row is. None is one owner, named "X".
    shares : mapping from owner to float, or None
        Names all owners; None takes those that occur.
    as_one : bool
        Whether all rows are needed, as where X is the target.

    Raises
    ------
    ValueError, TypeError
        If no owner's rows can be read, or one's cannot and all are needed.
    """
    try:
        whole = table_rows(estimator, X, keep_float32=True)
    except (ValueError, TypeError) as error:
        if as_one or owners is None:
            raise
        whole, fault = None, error
    n_rows = n_rows_of(X) if whole is None else len(whole)
    members = rows_by_owner(n_rows, owners, shares)
    rows = {}
    for name, own in members.items():
        if whole is not None:
            rows[name] = part_of(whole, own)
        elif len(own):
            with suppress(ValueError, TypeError):
                rows[name] = table_rows(estimator, rows_of(X, own), keep_float32=True)
    if not rows:  # what is wrong is no matter of one owner
        raise fault
    some = next(iter(rows.values()))
    # An owner without rows takes part or not, whatever the rows of another one are.
    rows |= {name: part_of(some, own) for name, own in members.items() if len(own) == 0}
    return OwnersTables(n_rows, members, rows, whole)


def rows_by_owner(
    n_rows: int, owners: Any, shares: Mapping[Any, float] | None
) -> dict[Any, NDArray[np.int64]]:
    """Return the positions of each owner's rows, for all owners that `shares` names.

    Parameters
    ----------
    n_rows : int
        n.
    owners : array-like of shape (n,) or None
        Whose each row is. None is one owner, named "X".
    shares : mapping from owner to float, or None
        None takes the owners that occur.
    """
    if owners is None:
        labels, codes = ["X"], np.zeros(n_rows, np.int64)
    else:
        labels, codes = _owner_codes(owners, n_rows)
    members = {name: np.flatnonzero(codes == k) for k, name in enumerate(labels)}
    if shares is None:
        return members
    if not set(labels) <= set(shares):
        raise ValueError("shares has no entry for some of the owners; name all of them.")
    return {name: members.get(name, np.empty(0, np.int64)) for name in shares}


def _owner_codes(owners: Any, n_rows: int) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the names of the owners in order, and whose each row is, by position."""
    try:
        names, fault = read_labels(owners, "owners"), ""
    except CellError as error:
        names, fault = [], error.fault
    if fault and fault != SHAPE:
        raise ValueError(_NO_OWNERS)
    if fault or len(names) != n_rows:
        raise ValueError("owners must hold one label per row of X.")
    # Sorted, so that an owner's number, and with it the seed of its coins, hangs on no row's place.
    labels = sorted(set(names))
    place = {label: k for k, label in enumerate(labels)}
    return labels, np.fromiter(map(place.__getitem__, names), np.int64, n_rows)


# ---- the curator


NO_ANSWER = object()
OTHER_LABELS = "sent labels of another kind than most owners"
SHARE_REACHED = (
    "Raise max_share_per_owner, at most to 1, if you trust the owners and one of them may hold all "
    "that is like the target: an owner has as many rows of the summary as it allows, and sent more."
)
# Keys of the seeds of simulations: the release of the target, what protocols release, their coins,
# and the coins by which rows of the target's groups stay.
TARGET_SEED, FEEDBACK_SEED, COINS_SEED, GROUPS_SEED = range(4)


class Curator:
    """The trusted party that holds the target and receives rows. Holds private data.

    Hand each message of `open` and of every `receive` to the owner it is for, by any means. Hand
    the answers back, until there are no more messages. An owner that raised, did not answer, or
    answered with rows that cannot be used is left out from then on. You cannot copy or pickle a
    curator (TypeError), because its conversation is paid for once.

    Parameters
    ----------
    X_target : array-like of shape (m, n_columns)
        D_v, the rows to match: numbers as the kernel is to see them. Of other tables, give the
        vectors that `PublicVectorizer` makes of them, with the schema that owners take, too.
    owners : sequence of hashable
        The public names of all owners.
    terms : Terms
        The parameters of the run: `PrivateMMDSummarizer.terms` returns them. Their `gamma` is for
        the columns of X_target.
    target_groups : array-like of shape (m,), default=None
        The group of each row of the target. Give it with `max_rows_per_group`. None is for single
        rows.
    ledger : PrivacyLedger, default=None
        It is asked before the target is read, and charged by `open`. With None, nothing counts your
        runs: only you know what total to allow.
    random_state : int, RandomState or None, default=None
        Public randomness (the frequencies), and the restarts of the curator's choice. None draws
        new ones in each run.

    Attributes
    ----------
    embedding : Embedding
        phi, public.
    privacy : SummaryPrivacy
    target_mean : ndarray of shape (d,) or None
        The noisy mean embedding that is broadcast, after `open`.
    target_noise : float or None
        Standard deviation of the noise of its entries, which is public. None where there is none.
    pool : ReceivedRows
        The rows received so far.
    chosen : list of (owner, index)
        The summary, in the order chosen, once no messages are left.
    X, y : ndarray
        Rows and labels of the summary, in the kind that most owners sent.
    transcript : dict from owner to list of Message
        All that each owner has seen.
    dropped_owners : dict from owner to str
        Owners that were left out, and why.

    Raises
    ------
    ValueError
        For bad parameters, or a target that is no table of numbers.
    BudgetExceededError
        If the ledger cannot hold epsilon and delta.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import PrivateMMDSummarizer
    >>> from skdpsumm.summaries import Curator, DataOwner
    >>> rng = np.random.default_rng(0)
    >>> parties = {"north": DataOwner(rng.normal(0, 1, (300, 2))),
    ...            "south": DataOwner(rng.normal(3, 1, (300, 2)))}
    >>> terms = PrivateMMDSummarizer(n_select=20, gamma=0.5, n_components=200).terms()
    >>> curator = Curator(rng.normal(3, 1, (200, 2)), list(parties), terms, random_state=0)
    >>> messages = curator.open()
    >>> while messages:
    ...     messages = curator.receive(
    ...         {name: parties[name].answer(message) for name, message in messages.items()})
    >>> sum(name == "south" for name, _ in curator.chosen) > 15
    True
    """

    holds_private_data = True

    def __init__(
        self,
        X_target: ArrayLike,
        owners: Sequence[Hashable],
        terms: Terms,
        *,
        target_groups: Any = None,
        ledger: Any = None,
        random_state: Any = None,
    ):
        self.terms, self.protocol = terms, terms.protocol
        check_groups("X_target", terms.max_rows_per_group, target_groups, "target_groups")
        self._noise_seed = current_seed()
        self.shares = shares_of(list(owners), self.protocol.shares)
        self._ledger = ledger
        self._begin()
        check_some_rows("X_target", X_target)
        self._X_target = validate_table(NoEstimator(), X_target)
        self._target_groups = self._bound_target(target_groups)
        self.rng = check_random_state(random_state)
        width, kind = self._X_target.shape[1], self.protocol.embedding_kind
        self.embedding = Embedding.draw(width, terms.n_components, terms.gamma, kind, self.rng)
        self._plan = self._make_plan()
        self.privacy = state_privacy(self._plan, terms, simulated=self._noise_seed is not None)
        self.coins = np.random.default_rng(self._coins_seed())
        self.release_seed = self._seed(FEEDBACK_SEED)
        # Both are None until `open`, and where nothing is broadcast.
        self.target_mean: Any = None
        self.target_noise: float | None = None
        p, of_owner = terms.n_select, self.protocol.rows_agreed
        most = {owner: of_owner(p, share) for owner, share in self.shares.items()}
        self.pool = ReceivedRows(most, self.embedding.n_columns)
        self.transcript: dict[Any, list[Message]] = {owner: [] for owner in self.shares}
        self.dropped_owners: dict[Any, str] = {}
        self._conversation: Any = None
        self._pid = os.getpid()  # a fork would draw noise of its own for the same charge
        self._asked: dict[Any, Message] = {}
        self._chosen: NDArray | None = None
        self._quotas_reached = False

    def _begin(self) -> None:
        """Warn, and ask the ledger: all that has to come before the target is read."""
        if self._noise_seed is not None and self.terms.is_private:
            warn_of_seed()
        if self._ledger is not None and self.protocol.is_nominal():
            cost = nominal_mechanism(self.terms.epsilon, self.terms.delta)
            claim = PrivacyGuarantee(cost, self.terms.adjacency, unit=self.terms.unit)
            self._ledger.check(claim)

    def _bound_target(self, labels: Any) -> NDArray[np.int64] | None:
        """Keep k rows of each group of the target; return codes where each group counts once."""
        if labels is None:
            return None
        groups = _read_target_groups(labels, len(self._X_target))
        k = self.terms.max_rows_per_group
        if k == "average":
            return groups.codes
        key = secret_key(self._seed(GROUPS_SEED)) if self.terms.is_private else bytes(32)
        self._X_target = self._X_target[groups.kept(int(k), key)]
        return None

    def open(self) -> dict[Any, Message]:
        """Charge the ledger, release the target's mean, and return the first messages.

        Returns
        -------
        dict from owner to Message

        Raises
        ------
        BudgetExceededError
            If the ledger cannot hold the run; nothing is charged then, and nothing released.
        """
        self._check_is_ours()
        if self._conversation is not None:
            raise ValueError("This curator was opened already; make a new one for another run.")
        self._charge()
        if self._plan.target is not None:
            target = self._X_target, self._seed(TARGET_SEED), self._target_groups
            self.target_mean = unchangeable(self._plan.target.release(*target))
            self.target_noise = self._plan.target.noise_std or None
        self._conversation = self.protocol.converse(self, self._plan)
        return self._go_on(None)

    def receive(self, answers: Mapping[Any, Any]) -> dict[Any, Message]:
        """Take the answers to the last messages, and return the next ones; none at the end.

        Parameters
        ----------
        answers : mapping from owner to Rows, Bid or exception
            A missing answer, an exception and an answer that cannot be used all drop the owner.

        Returns
        -------
        dict from owner to Message
        """
        self._check_is_ours()
        if not self._asked:
            raise ValueError(
                "No answers are awaited: call open first, and stop when no messages come back."
            )
        accepted = {}
        # Whoever was not asked has no say: an answer out of turn is not even looked at.
        for owner, message in self._asked.items():
            try:
                accepted[owner] = self.pool.read(owner, message, answers.get(owner, NO_ANSWER))
            except UnusableAnswerError as fault:
                self.dropped_owners[owner] = str(fault)
        return self._go_on(accepted)

    @property
    def cost(self) -> Mechanism:
        """The cost of the whole run, for target and owners together."""
        return self._plan.cost

    @property
    def active_owners(self) -> list[Any]:
        """The owners that are still taking part."""
        return [owner for owner in self.shares if owner not in self.dropped_owners]

    @property
    def chosen(self) -> list[tuple[Any, int]]:
        """Whose row each row of the summary is, and which of theirs."""
        return [self.pool.origins[place] for place in self._finished()]

    @property
    def X(self) -> NDArray:
        """The rows of the summary."""
        return self.pool.X[self._finished()]

    @property
    def y(self) -> NDArray | None:
        """The labels of the summary, None if most owners sent none."""
        return self.pool.labels_at(self._finished())

    def owner_values(self) -> dict[Any, float]:
        """Return what the rows of each owner added to J when they were chosen.

        Never tell the owners, and never pay them by it: that tells of other owners' rows, and of
        the target. The values add up to J of the summary, where ``J(S) = mean k over D_v, D_v minus
        MMD^2(D_v, S)``, equation 3 of the paper.
        """
        values = dict.fromkeys(self.shares, 0.0)
        if not self.chosen:
            return values
        tables = centred(self.X.astype(np.float64), self._X_target)
        gains = np.diff(prefix_objective(*tables, self.terms.gamma, self._weights), prepend=0.0)
        for (owner, _), gain in zip(self.chosen, gains.tolist(), strict=True):
            values[owner] += gain
        return values

    # What protocols use.

    def message(self, kind: type[Message], **content: Any) -> Message:
        """Return a message; the first of a run brings phi, where owners will need it."""
        is_first = not any(self.transcript.values())
        needs_phi = content.get("direction") is not None
        embedding = self.embedding if is_first and needs_phi else None
        bound = self.terms.max_rows_per_group
        return kind(embedding=embedding, max_rows_per_group=bound, **content)

    def received_grid(self, start: int) -> NDArray[np.float32]:
        """Return phi, in whole grid units, of the rows received from a place on."""
        parts = [self.embedding.grid(rows) for rows in self.pool.parts_from(start)]
        return np.vstack([np.empty((0, self.embedding.n_features), np.float32), *parts])

    def live_places(self, taken: Sequence[int]) -> NDArray[np.int64]:
        """Return the places in the pool that are not taken, of owners who still take part."""
        # What an owner that was left out has not sent can compete no more, so neither may the rest.
        live = [owner not in self.dropped_owners for owner, _ in self.pool.origins]
        return np.setdiff1d(np.flatnonzero(live), taken)

    def best_of_pool(self) -> NDArray:
        """Return the places of the rows whose mean is closest to the true target's."""
        if not self.active_owners:
            raise ValueError(
                f"All {len(self.dropped_owners)} owners were left out; see dropped_owners."
            )
        # It is the end: who sent labels of another kind than most is told so now, and tells nobody.
        misfits = self.pool.settle_labels()
        self.dropped_owners |= misfits
        places = np.flatnonzero([owner not in misfits for owner, _ in self.pool.origins])
        if len(places) == 0:
            return places
        quotas = self._quotas(places)
        # The true target, without noise: what is done with it here reaches no owner.
        tables, terms = (self.pool.X[places], self._X_target), self.terms
        search = exact_search(*tables, terms.n_select, terms.gamma, self._weights, quotas)
        chosen = search.run(True, "auto", self.rng)
        self._quotas_reached = quotas is not None and quotas.are_reached(chosen)
        return places[chosen]

    def _quotas(self, places: NDArray) -> Quotas | None:
        """Return how many rows of each owner may be chosen, None where that is no bound."""
        most = np.array([self.terms.most_chosen(share) for share in self.shares.values()])
        if most.min() >= self.terms.n_select:
            return None
        position = {owner: k for k, owner in enumerate(self.shares)}
        codes = np.array([position[self.pool.origins[place][0]] for place in places])
        return Quotas(codes, most)

    @property
    def _weights(self) -> NDArray | None:
        """How much each row of the target counts, where groups count once."""
        if self._target_groups is None:
            return None
        sizes = np.bincount(self._target_groups)
        return 1 / (len(sizes) * sizes[self._target_groups])

    def _go_on(self, answers: dict[Any, Any] | None) -> dict[Any, Message]:
        for owner, reply in (answers or {}).items():
            self.pool.add(owner, reply)
        self._asked = {}
        while not self._asked and self._chosen is None:
            try:
                self._asked = self._conversation.send(answers)
            except StopIteration as end:
                self._chosen = end.value
            answers = {}
        for owner, message in self._asked.items():
            self.transcript[owner].append(message)
        if self._chosen is not None:
            self.warn_of_result()
        return self._asked

    def warn_of_result(self) -> None:
        """Warn of what the release shows.

        It comes when all is done: the release is paid for, and where the warning is made an error,
        the rows are there all the same.
        """
        if self._plan.target is not None:
            self._plan.target.warn_of_result()
        if self._quotas_reached:
            warn_caller(SHARE_REACHED, UserWarning)

    def _check_is_ours(self) -> None:
        if self._pid != os.getpid():
            raise forked("made the curator")

    def _finished(self) -> NDArray:
        if self._chosen is None:
            raise NotFittedError(
                "The run is not finished: hand over answers until no messages come."
            )
        return self._chosen

    def _make_plan(self) -> Plan:
        plan = self.protocol.plan(self.embedding, self.terms)
        self._check_proofs(plan)
        # Two releases are then about the same rows: each gets half of the budget.
        if self.terms.target_is_owners and plan.target is not None and plan.release is not None:
            half = replace(self.terms, epsilon=self.terms.epsilon / 2, delta=self.terms.delta / 2)
            plan = self.protocol.plan(self.embedding, half)
        return plan

    def _check_proofs(self, plan: Plan) -> None:
        """Raise ValueError where groups are to be protected, and there is no proof that they are.

        What tells owners nothing of rows received tells nothing of a group of them either.
        """
        if self.terms.max_rows_per_group is None or plan.owners == COSTS_NOTHING:
            return
        name = type(self.protocol).__name__
        raise ValueError(
            f"The protocol {name} has no proof for groups; take protocol='propose' or 'pool', or "
            "max_rows_per_group=None to protect single rows."
        )

    def _coins_seed(self) -> int | None:
        """Coins of a protocol are secret, unless nothing is."""
        seed = self._seed(COINS_SEED)
        return seed if self.terms.is_private else self.rng.randint(2**31)

    def _seed(self, purpose: int) -> int | None:
        """Return a seed for simulated noise that no other release shares, None for real noise."""
        return derived_seed(self._noise_seed, purpose)

    def _charge(self) -> None:
        if self.cost == COSTS_NOTHING:  # an entry for nothing would mislead
            return
        claim = replace(self.privacy.owners, mechanism=self.cost)
        charge(self._ledger, claim, f"summary by {type(self.protocol).__name__}")

    def __repr__(self) -> str:
        kind = type(self.protocol).__name__
        return f"<Curator of {len(self.shares)} owners by {kind}, holds_private_data=True>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "A curator holds the target and a conversation that is paid for once; it cannot be "
            "pickled or copied. Keep `chosen`, `X`, `y` and `transcript`."
        )


def _read_target_groups(labels: Any, n_rows: int) -> Groups:
    try:
        return Groups.read(labels, n_rows)
    except ValueError as error:
        text = re.sub(r"\bX\b", "X_target", str(error))
    raise ValueError(re.sub(r"\bgroups\b", "target_groups", text, count=1))


def shares_of(owners: list[Any], shares: Mapping[Any, float] | None) -> dict[Any, float]:
    """Return shares that sum to one, by owner."""
    if len(set(owners)) < len(owners) or not owners:
        raise ValueError("owners must be at least one name, and all different.")
    if shares is None:
        return dict.fromkeys(owners, 1 / len(owners))
    if set(owners) != set(shares):
        raise ValueError("shares must name all owners, and no others.")
    values = [float(v) for v in shares.values()]
    if not all(0 < v < np.inf for v in values):
        raise ValueError(f"shares must be positive numbers, got {values}.")
    parts = [value / max(values) for value in values]  # whose sum is finite
    # The order is that of `shares`, which is public, as that of messages is.
    return {owner: part / sum(parts) for owner, part in zip(shares, parts, strict=True)}


# Grid values depend on the dtype a little, so rows are never converted.
DTYPES_OF_ROWS = (np.dtype(np.float32), np.dtype(np.float64))
LARGEST_ROW_INDEX = np.iinfo(np.int64).max


class UnusableAnswerError(Exception):
    """What an owner sent is no answer; the text says why, and names no value."""


class ReceivedRows:
    """Rows that owners have handed over, in the order of their arrival.

    Parameters
    ----------
    agreed : mapping from owner to int
        How many rows each may hand over in the whole run.
    n_columns : int
        How many columns each row has.

    Attributes
    ----------
    origins : list of (owner, index)
        Whose each row is, and which of theirs.
    """

    def __init__(self, agreed: Mapping[Any, int], n_columns: int):
        self._agreed, self._width = agreed, n_columns
        self._known: dict[Any, set[int]] = {owner: set() for owner in agreed}
        # Each answer has the place of its first row, and its rows; each row has its label.
        self._parts: list[tuple[int, NDArray]] = []
        self._labels: list[Any] = []
        self.origins: list[tuple[Any, int]] = []

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def X(self) -> NDArray:
        """All rows received, shape (len(self), width)."""
        return np.concatenate(self.parts_from(0)) if self._parts else np.empty((0, self._width))

    def parts_from(self, place: int) -> list[NDArray]:
        """Return the answers received from a place on, each in the dtype that it came in."""
        return [part for start, part in self._parts if start >= place]

    def settle_labels(self) -> dict[Any, str]:
        """Return who sent labels of another kind than most owners, and so is out."""
        kinds: dict[Any, set[str]] = {}
        for (owner, _), label in zip(self.origins, self._labels, strict=True):
            kind = "words" if isinstance(label, str) else "numbers"
            kinds.setdefault(owner, set()).add("none" if label is None else kind)
        sound = Counter(kind for found in kinds.values() if len(found) == 1 for kind in found)
        common = max(sound, key=lambda kind: sound[kind], default="?")
        misfits = (owner for owner, found in kinds.items() if found != {common})
        return dict.fromkeys(misfits, OTHER_LABELS)

    def labels_at(self, places: NDArray) -> NDArray | None:
        """Return the labels of usable rows, None where most owners sent none."""
        found = [self._labels[place] for place in places]
        # Their dtype follows from the labels of the summary, and not from others that were sent.
        return None if not found or found[0] is None else label_array(found)

    def read(self, owner: Any, message: Message, reply: Any) -> Rows | Bid:
        """Return a copy of `reply`, to which no owner can write, if it answers `message`.

        Raises
        ------
        UnusableAnswerError
            If it does not.
        """
        kind = type(reply).__name__
        if reply is NO_ANSWER:
            raise UnusableAnswerError("did not answer")
        if isinstance(reply, BaseException):
            raise UnusableAnswerError(f"raised {kind}")
        if not isinstance(reply, message.answer):
            raise UnusableAnswerError(f"answered with {kind}, not {message.answer.__name__}")
        check: Any = self._checked_bid if isinstance(reply, Bid) else self._copy
        try:
            return check(owner, message, reply)
        except UnusableAnswerError:
            raise
        except Exception:  # whatever it is, it must not end the run of the others
            raise UnusableAnswerError("sent what cannot be read") from None

    def _checked_bid(self, owner: Any, message: Message, reply: Bid) -> Bid:
        if not isinstance(reply.score, Real) or math.isnan(reply.score):
            raise UnusableAnswerError("made a bid that is not a number")
        if not isinstance(reply.index, Integral):
            raise UnusableAnswerError("made a bid without an index")
        return reply

    def _copy(self, owner: Any, message: Message, reply: Any) -> Rows:
        # Before they are copied, which takes memory.
        if len(reply.X) > message.most_rows():
            raise UnusableAnswerError("sent more rows than asked for")
        # What is checked is what is kept: the owner may write to its own arrays at any time.
        X, indices = np.array(reply.X, subok=False), np.array(reply.indices, subok=False)
        fault = self._rows_fault(owner, X, indices)
        if fault is not None:
            raise UnusableAnswerError(fault)
        return Rows(indices, X, self._copy_labels(reply.y, len(X)))

    def _copy_labels(self, y: Any, n_rows: int) -> NDArray | None:
        if y is None:
            return None
        if np.shape(y) != (n_rows,):
            raise UnusableAnswerError("sent another number of labels than rows")
        with suppress(ValueError):
            return read_label_column(y)
        raise UnusableAnswerError("sent labels that are missing or of no one kind")

    def _rows_fault(self, owner: Any, X: NDArray, indices: NDArray) -> str | None:
        # Shapes and types come first, for what follows computes with them.
        if X.ndim != 2 or X.shape[1] != self._width or X.dtype not in DTYPES_OF_ROWS:
            return "sent rows of another shape or type"
        if indices.shape != (len(X),) or indices.dtype.kind not in "iu":
            return "sent rows without an index each"
        if len(X) and not 0 <= indices.min() <= indices.max() <= LARGEST_ROW_INDEX:
            return "sent an index that no row has"
        known = self._known[owner]
        if len(known) + len(X) > self._agreed[owner]:
            return "sent more rows than agreed"
        if len(known.union(indices.tolist())) < len(known) + len(X):
            return "sent a row twice"
        return None if np.isfinite(X).all() else "sent rows that are not finite"

    def add(self, owner: Any, reply: Any) -> None:
        """Take the rows of an answer that was read."""
        if isinstance(reply, Bid) or len(reply.X) == 0:
            return
        indices = reply.indices.tolist()
        self._parts.append((len(self), reply.X))
        self._labels += [None] * len(indices) if reply.y is None else reply.y.tolist()
        self._known[owner].update(indices)
        self.origins += [(owner, index) for index in indices]
