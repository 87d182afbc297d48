"""The curator: holds the target, talks to owners by messages, and chooses the rows."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from .._computing import warn_caller
from ..privacy._fit import charge, check_groups, warn_of_seed
from ..privacy._guarantee import PrivacyGuarantee
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import current_seed, derived_seed, forked, nominal_mechanism, secret_key
from ..schema._groups import Groups
from ..schema._reading import NoEstimator, check_some_rows, validate_table
from ..schema._values import label_array
from ._mmd import Embedding, Quotas, centred, exact_search, prefix_objective, unchangeable
from ._owners import read_label_column
from ._protocol import COSTS_NOTHING, Bid, Message, Plan, Rows, Terms, state_privacy

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
        self.dropped_owners |= self.pool.settle_labels()
        places = self.pool.usable_places()
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
        self._misfits = {owner for owner, found in kinds.items() if found != {common}}
        return dict.fromkeys(self._misfits, OTHER_LABELS)

    def usable_places(self) -> NDArray[np.int64]:
        """Return the places of the rows that may be chosen, once labels are settled."""
        usable = [owner not in self._misfits for owner, _ in self.origins]
        return np.flatnonzero(usable)

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
