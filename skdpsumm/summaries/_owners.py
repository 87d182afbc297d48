"""Owners: one party, many in one table or in partitions of a Dask collection, and asking all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from .._computing import one_blas_thread
from .._dask import PartitionSchema, compute, on_partitions, partitions, sound
from .._sklearn import validate_parameter_constraints
from ..privacy._fit import PrivateFit, check_groups
from ..privacy._noise import secret_key
from ..schema._groups import Groups
from ..schema._reading import (
    SHAPE,
    Y_LENGTH,
    CellError,
    NoEstimator,
    cells_as_objects,
    label_array,
    n_rows_of,
    read_labels,
    rows_of,
    validate_table,
)
from ..schema._schema import TableSchema, as_schema, schema_of
from ..schema._vectorizer import VectorRows, part_of
from ._mmd import SCORED_AT_ONCE, Embedding, feature_search, grid_scores, table_rows
from ._protocol import Bid, CallForBids, HandOver, Message, ProposeRows, Rows, SendBest

# An owner keeps the features of all rows between messages up to so many bytes.
MAX_BYTES_OF_PHI = 2**30
# What a nat of divergence from the owner's own rows costs, against half a squared standard
# deviation of the noise. Below 10, noise draws rows where the target is common; above 40, a rare
# target is missed (examples/benchmarks/summary_choices.py).
PRICE_OF_A_NAT = 20.0
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
    def _(self, message: SendBest) -> Rows:
        candidates = np.flatnonzero(self._remaining)
        # The sort is stable: rows with equal scores keep their order.
        order = np.argsort(-self._scores(message.direction)[candidates], kind="stable")
        return self._hand_over(candidates[order[: message.n]])

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

        def phi(rows: Any) -> NDArray[np.float32]:
            return embedding.features(self._X[candidates[rows]])

        # Weights read a sample of the rows twice, so phi of few rows is kept meanwhile.
        kept = not noise or len(candidates) <= 4 * ROWS_OF_TILT
        features: Any = phi(slice(None)).__getitem__ if kept else phi
        if noise:
            scores = tilted_scores(features, len(candidates), direction, noise, self._coins)
            return candidates[draw_tilted(scores, n, self._coins)]
        search = feature_search(features(slice(None)), direction, n)
        return candidates[search.run(False, 0, np.random.RandomState(0))]

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
