"""Owners release sketches, the curator adds them up: what anybody may see of all their rows."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from numbers import Integral
from operator import add
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import NotFittedError

from .._sklearn import Interval, StrOptions
from ..features._histogram import HistogramMap
from ..privacy import PrivacyGuarantee
from ..privacy._fit import charge, check_groups, estimator
from ..privacy._noise import derived_seed, forked, secret_key
from ..schema._columns import Column, told
from ..schema._groups import Groups
from ..schema._reading import Y_LENGTH, NoEstimator, Table, target_cells, validate_table
from ..schema._schema import TableSchema
from ..sketches import HistogramSketcher, PrivateSketch
from ..sketches._private_sketch import LARGEST_SUM, Counted, PendingRelease
from ._protocol import Conversation, Plan, Protocol

# Rows that an owner is taken to have where nobody says it: the default groups follow from it.
_TYPICAL_ROWS = 1_000
# The noise of a cell that is worth counting, as a part of the rows in it if all cells were alike.
# Of 0.05 to 1, 0.15 to 0.4 served both synthetic shifts of docs/private_summary.md.
_WORTH = 0.2
# Of a numeric column: what is tried, the finest first.
_BINS = (12, 8, 6, 4)
_MOST_CELLS = 2**17
# Of all pairs of columns: for fewer it is not worth having coarser bins. On 16 components of digits
# pairs in 4 bins, of which 0.3 were carried, lost to single columns in 12.
_MANY_PAIRS = 0.4
_NO_ANSWER = "did not answer"
_KEYS = 3  # of seeds: which rows of a group stay


@dataclass(frozen=True, eq=False)
class ReleaseSketch:
    """What the agreement fixes: public bins and groups of columns that every owner measures.

    Parameters
    ----------
    schema : TableSchema
        Of the columns and, as the last one, the label, where there is one.
    groups : tuple of tuple of int
        Columns that are counted together.
    n_bins : tuple of int
        Of each numeric column; a column with `edges` has its own.
    epsilon, delta : float
        Of each owner's release.
    adjacency : {"add_remove", "replace_one"}
    max_rows_per_group : int, "average" or None, default=None
    """

    schema: TableSchema
    groups: tuple[tuple[int, ...], ...]
    n_bins: tuple[int, ...]
    epsilon: float
    delta: float
    adjacency: str
    max_rows_per_group: Any = None

    def sketcher(self, *, ledger: Any = None, noise_seed: int | None = None) -> HistogramSketcher:
        """Return the sketcher that an owner runs."""
        return HistogramSketcher(
            schema=self.schema,
            n_bins=list(self.n_bins),  # type: ignore[arg-type]
            marginals=[list(group) for group in self.groups],
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            max_rows_per_group=self.max_rows_per_group,
            ledger=ledger,
            noise_seed=noise_seed,
        )

    def prepared(self, *, ledger: Any = None, noise_seed: int | None = None) -> PendingRelease:
        """Return a release of no rows yet, with its map, its noise and its claim."""
        sketcher = self.sketcher(ledger=ledger, noise_seed=noise_seed)
        sketcher._check_parameters()
        feature_map = sketcher.preview_map(self.schema.n_columns, self.schema.names)
        return sketcher._prepare(feature_map)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        told["schema"] = self.schema.to_dict()
        text = json.dumps(told, sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()


@estimator
class Sketches(Protocol):
    """Owners release private sketches once; the consumer draws synthetic rows and weighs them.

    Nobody sees a row of an owner, the curator and the consumer included.

    Parameters
    ----------
    label : tuple of two numbers, list, Numeric or Categorical, default=None
        What is public of y: its range, or all labels there can be. Give it where labels may be
        rare. None saves you the list by taking the labels in y as public: a label that a single row
        has is then revealed, and `privacy_` says so.
    groups : "auto" or list of column groups, default="auto"
        What every owner counts: lists of columns, by number or name; the label is "target", or the
        last number. "auto" is each column with the label, and pairs with it as far as the budget
        carries them (`public_groups`). It follows from the schema, epsilon and the number of owners
        alone, for nothing else is public.
    n_bins : "auto" or int, default="auto"
        Bins of numeric columns without `edges` of their own. "auto" chooses the finest that the
        budget carries, from public numbers alone.
    rows_per_owner : int, default=1000
        About how many rows an owner has. Give your public guess: it decides how much is counted by
        default, and nothing else, so no claim depends on it. 1000 is taken where nobody says it.
    n_synthetic : int, default=50_000
        Rows that the consumer draws from the merged sketch and weighs, to choose the summary among
        them. The default is large, as they cost nothing but time.

    Notes
    -----
    *What each party sees.* An owner: the agreement. The curator, the consumer and everybody else:
    one noisy sketch of each owner. *Guarantee.* (1) Bins and groups are public and the same for all
    owners, so whatever an owner sends is one release of a `HistogramSketcher` with exact
    calibration. (2) Noise is added by the owner, before anything leaves: the release is
    (epsilon, delta)-DP for its rows against everybody. (3) A row is with one owner, so releases of
    several owners compose in parallel; a *person* with rows at K owners composes over K releases
    (`PrivateSummaryPrivacy.across`). (4) Merging, drawing and weighing are post-processing. (5) The
    target's rows are read by the consumer alone, after the last message: no message depends on
    them. Weights follow them without noise, so the target is unprotected against whoever gets the
    weighted rows, or a model that was trained on them.

    *Cost.* One message and one release per owner; one round. The noise of K releases adds up: it
    is sqrt(K) times that of one sketch of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import PrivateMMDSummarizer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((4000, 2))
    >>> y = X[:, 0] > 0.5
    >>> summarizer = PrivateMMDSummarizer(
    ...     100, protocol="sketches", schema=(0, 1), epsilon=3.0, random_state=0)
    >>> target = np.column_stack([rng.random(200), rng.uniform(0.5, 1, 200)])
    >>> summarizer = summarizer.fit(X, y, X_target=target, owners=rng.integers(2, size=4000))
    >>> summarizer.X_.shape, bool(summarizer.weights_ @ summarizer.X_[:, 1] > 0.65)
    ((100, 2), True)
    >>> round(summarizer.privacy_.consumer.epsilon(1e-6), 3), summarizer.privacy_.target.epsilon()
    (3.0, inf)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "label": "no_validation",  # type: ignore[dict-item]  # `as_column` says what is wrong
        "groups": "no_validation",  # type: ignore[dict-item]  # `HistogramMap` says what is wrong
        "n_bins": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "rows_per_owner": [Interval(Integral, 1, None, closed="left")],
        "n_synthetic": [Interval(Integral, 2, None, closed="left")],
    }

    label: Any = None
    groups: Any = "auto"
    n_bins: Any = "auto"
    rows_per_owner: int = _TYPICAL_ROWS
    n_synthetic: int = 50_000

    def broadcasts_target(self) -> bool:
        return False

    def is_nominal(self, release: Any) -> bool:
        return True

    def plan(self, embedding: Any, terms: Any) -> Plan:
        raise ValueError(
            "Use SketchCurator and SketchOwner for protocol='sketches', or PrivateMMDSummarizer, "
            "which runs them: a Curator reads the target and rows of owners, and this protocol "
            "shows it neither."
        )

    def converse(self, curator: Any, plan: Plan) -> Conversation:
        raise NotImplementedError  # `plan` has refused

    def agreement(
        self,
        schema: TableSchema,
        label: Column | None,
        n_owners: int,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "add_remove",
        max_rows_per_group: Any = None,
    ) -> ReleaseSketch:
        """Return what every owner is asked for; no data.

        Parameters
        ----------
        schema : TableSchema
            Of the columns of X.
        label : Numeric, Categorical or None
            What is public of y. None is no label.
        n_owners : int
        epsilon, delta, adjacency, max_rows_per_group
            Of each owner's release. The defaults are those of `PrivateMMDSummarizer`.

        Returns
        -------
        ReleaseSketch

        Raises
        ------
        ValueError
            For groups or bins that do not fit the schema.
        """
        schema.require_bounds()
        table = schema if label is None else with_label(schema, label)
        budget: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
        budget["max_rows_per_group"] = max_rows_per_group
        n_bins, groups = public_groups(
            table,
            None if label is None else table.n_columns - 1,
            n_owners,
            rows_per_owner=int(self.rows_per_owner),
            n_bins=None if isinstance(self.n_bins, str) else int(self.n_bins),
            **budget,
        )
        if not (isinstance(self.groups, str) and self.groups == "auto"):
            groups = _own_groups(table, self.groups)
        return ReleaseSketch(table, groups, n_bins, **budget)


def _own_groups(table: TableSchema, given: Any) -> tuple[tuple[int, ...], ...]:
    """Return groups of columns as positions, or raise ValueError for what are none."""
    listed = isinstance(given, list | tuple) and len(given) > 0
    if not listed or not all(isinstance(group, list | tuple) and group for group in given):
        raise ValueError(
            'groups must be "auto", or lists of columns such as [["age", "target"], ["sex"]], got '
            f"{told(given)}."
        )
    return tuple(tuple(table.index(key, "groups") for key in group) for group in given)


def public_groups(
    table: TableSchema,
    label: int | None,
    n_owners: int,
    *,
    rows_per_owner: int = _TYPICAL_ROWS,
    n_bins: int | None = None,
    **budget: Any,
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return bins of numeric columns, and what to count: from public numbers alone.

    Each column is counted with the label, or by itself where there is none. Pairs (with the label)
    are added, the smallest first, as long as the noise of a cell is below a fifth of the rows that
    it would have if all cells were alike. Each pair more makes the noise of all groups larger.
    Bins are the finest at which two fifths of all pairs are carried; where there are none such, the
    finest at which the columns themselves are, or else 4.

    Parameters
    ----------
    table : TableSchema
    label : int or None
    n_owners : int
    rows_per_owner : int, default=1000
    n_bins : int, default=None
        None chooses among 4, 6, 8 and 12.
    **budget
        Of each owner's release.

    Returns
    -------
    n_bins : tuple of int, one for each column
    groups : tuple of tuple of int
    """
    unit = _noise_of_one_group(table, budget) * math.sqrt(n_owners)
    rows = float(rows_per_owner * n_owners)
    power = 1.0 if budget["delta"] == 0 else 0.5
    tried = _BINS if n_bins is None else (n_bins,)
    designs = [_Design.of(table, label, bins, rows, unit, power) for bins in tried]
    with_pairs = [design for design in designs if design.pairs_carried >= _MANY_PAIRS]
    sound = [design for design in designs if design.columns_are_worth_it]
    best = (with_pairs or sound or designs[-1:])[0]
    return (best.n_bins,) * table.n_columns, best.groups


def _noise_of_one_group(table: TableSchema, budget: Mapping[str, Any]) -> float:
    """Return the noise of a cell where one histogram has all the budget, in rows."""
    sketcher = HistogramSketcher(schema=table, n_bins=2, marginals=[[0]], **budget)
    return float(sketcher.preview_noise_std(table.n_columns, table.names)[0])


@dataclass(frozen=True)
class _Design:
    """What so many bins allow."""

    n_bins: int
    groups: tuple[tuple[int, ...], ...]
    pairs_carried: float  # of all pairs of columns
    columns_are_worth_it: bool

    @classmethod
    def of(
        cls,
        table: TableSchema,
        label: int | None,
        bins: int,
        rows: float,
        unit: float,
        power: float,
    ) -> _Design:
        every = range(table.n_columns)
        sizes = HistogramMap(table, [bins] * table.n_columns, [(j,) for j in every]).n_bins
        inputs = [j for j in every if j != label]
        own = () if label is None else (label,)

        def cells(group: tuple[int, ...]) -> int:
            return math.prod(sizes[j] for j in group)

        def is_worth(group: tuple[int, ...], n_groups: int) -> bool:
            return unit * n_groups**power <= _WORTH * rows / cells(group)

        singles = [(j, *own) for j in inputs]
        pairs = sorted(((*pair, *own) for pair in combinations(inputs, 2)), key=cells)
        carried = 0
        for pair in pairs:
            if not is_worth(pair, len(singles) + carried + 1) or cells(pair) > _MOST_CELLS:
                break
            carried += 1
        worth = all(is_worth(group, len(singles)) for group in singles)
        share = carried / len(pairs) if pairs else 1.0
        return cls(bins, (*singles, *pairs[:carried]), share, worth)


def with_label(schema: TableSchema, label: Column) -> TableSchema:
    """Return the schema of the table of X and y: the label is its last column, "target"."""
    if schema.names is None:
        return TableSchema([*schema.columns, label]).ruling_out(schema.impossible)
    name = "target"
    while name in schema.names:
        name += "_"
    named = dict(zip(schema.names, schema.columns, strict=True))
    return TableSchema({**named, name: label}).ruling_out(schema.impossible)


class SketchOwner:
    """A party that holds rows, and releases a sketch of them once. Holds private data.

    You cannot copy or pickle it (TypeError), because each copy would release the rows once more.

    Parameters
    ----------
    X : array-like or frame of shape (n, n_columns)
        As the schema of the agreement reads it; there may be no rows.
    y : array-like of shape (n,), default=None
        Labels. None, for agreements without a label.
    groups : array-like of shape (n,), default=None
        The group of each row, where the agreement protects groups. None, as single rows need none.
    agreed : ReleaseSketch, default=None
        What this owner has signed off: any other message is refused. Give it wherever the curator
        is another party. None takes the first message that comes, which serves trials where you are
        both.
    ledger : PrivacyLedger or LedgerDataset, default=None
        Charged once, before the release. None charges nothing, since only the owner knows what
        total to allow; then nothing counts its releases.
    noise_seed : int, default=None
        For simulations only. None draws noise from the operating system, for whoever knows the seed
        can take the noise off.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import Categorical, TableSchema
    >>> from skdpsumm.summaries import SketchCurator, SketchOwner, Sketches
    >>> rng = np.random.default_rng(0)
    >>> agreed = Sketches().agreement(TableSchema([(0, 1)]), Categorical([0, 1]), 2)
    >>> parties = {name: SketchOwner(rng.random((500, 1)), rng.integers(2, size=500))
    ...            for name in ("north", "south")}
    >>> curator = SketchCurator(list(parties), agreed)
    >>> answers = {name: parties[name].answer(m) for name, m in curator.open().items()}
    >>> messages = curator.receive(answers)
    >>> curator.sketch.privacy.epsilon(1e-6).__round__(3)
    1.0
    """

    holds_private_data = True

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        agreed: ReleaseSketch | None = None,
        ledger: Any = None,
        noise_seed: int | None = None,
    ):
        self._X, self._y, self._groups = X, y, groups
        self._agreed = None if agreed is None else agreed.digest
        self._ledger, self._noise_seed = ledger, noise_seed
        self._sent: tuple[str, PrivateSketch] | None = None
        self._pid = os.getpid()  # a fork would release once more, with noise of its own
        self._lock = threading.Lock()  # two threads that ask at once must not get two releases

    def answer(self, message: ReleaseSketch) -> PrivateSketch:
        """Release the sketch, or send again what was released.

        Parameters
        ----------
        message : ReleaseSketch

        Returns
        -------
        PrivateSketch

        Raises
        ------
        TypeError
            For another message.
        ValueError
            For rows that do not fit the agreement, and for another agreement than that of the
            release; nothing is charged.
        BudgetExceededError
            If the ledger cannot hold the release; nothing is charged.
        """
        if not isinstance(message, ReleaseSketch):
            raise TypeError(f"An owner cannot answer {type(message).__name__}.")
        if self._pid != os.getpid():
            raise forked("made the owner")
        if self._agreed not in (None, message.digest):
            raise ValueError(
                "Ask for what this owner signed off: the message differs from it (see `digest`)."
            )
        with self._lock:
            if self._sent is None:
                self._sent = message.digest, self._release(message)
            if self._sent[0] != message.digest:
                raise ValueError(
                    "Make a new SketchOwner for another agreement: this one has released a sketch, "
                    "and a second one of the same rows would cost as much again."
                )
            return self._sent[1]

    def _release(self, message: ReleaseSketch) -> PrivateSketch:
        pending = message.prepared(ledger=self._ledger, noise_seed=self._noise_seed)
        check_groups("SketchOwner", message.max_rows_per_group, self._groups)
        table = labelled_table(self._X, self._y, message.schema)
        pending.feature_map.check_values(table)  # type: ignore[arg-type]
        groups = None if self._groups is None else Groups.read(self._groups, len(table))
        pending.check_room(len(table))
        charge(self._ledger, pending.claim_for(self._ledger), "sketch of an owner")
        seed = derived_seed(self._noise_seed, _KEYS)
        key = bytes(32) if pending.is_silent else secret_key(seed)
        counted = Counted.of(len(table), _limit(message.max_rows_per_group), groups, key)
        pending.add(table, counted, 1)  # type: ignore[arg-type]
        return pending.publish(postprocess=True)

    def __repr__(self) -> str:
        return "<SketchOwner, holds_private_data=True>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "A SketchOwner holds rows, and releases them once; each copy would release them again. "
            "Keep the sketch that `answer` returned."
        )


def labelled_table(X: Any, y: Any, schema: TableSchema) -> Table:
    """Return the table of X and y, its cells checked; the message of an error names no value."""
    own = schema if y is None else schema.take(range(schema.n_columns - 1))
    if not isinstance(X, Table):
        X = validate_table(NoEstimator(), X, schema=own, ensure_min_samples=0)
    columns = [X[:, j] for j in range(X.shape[1])]
    if y is not None:
        labels = target_cells(y)
        if labels.shape != (len(X),):
            raise ValueError(Y_LENGTH)
        columns.append(labels)
    if len(columns) != schema.n_columns:
        raise ValueError("y is missing: the agreement counts a label. Give one for each row of X.")
    table = Table(columns)
    schema.check(table)
    return table


def _own_copy(reply: Any) -> Any:
    """Return a sketch to which no owner can write; anything else as it is."""
    if not isinstance(reply, PrivateSketch):
        return reply
    return replace(reply, sums=reply.sums.copy(), noise_std=reply.noise_std.copy())


def _limit(bound: Any) -> Any:
    return bound if bound is None or isinstance(bound, str) else int(bound)


_NOT_HERE = "The sketches are not here yet: call open, and receive the answers."


class SketchCurator:
    """The party that adds the owners' sketches up. It holds nothing private.

    Parameters
    ----------
    owners : sequence of hashable
        Public names.
    agreed : ReleaseSketch
        What every owner is asked for.

    Attributes
    ----------
    sketches : dict from owner to PrivateSketch
        As released.
    dropped_owners : dict from owner to str
        Owners that were left out, and why.
    transcript : dict from owner to list of ReleaseSketch
        All that each owner saw.
    sketch : PrivateSketch
        The sum of all sketches, once they are here.
    """

    holds_private_data = False

    def __init__(self, owners: Sequence[Hashable], agreed: ReleaseSketch):
        if len(set(owners)) < len(owners) or not owners:
            raise ValueError("owners must be at least one name, and all different.")
        self.agreed = agreed
        self.shares = dict.fromkeys(owners, 1 / len(owners))  # the names, for `run_protocol`
        self.pool: list[Any] = []  # no rows are received
        self.sketches: dict[Any, PrivateSketch] = {}
        self.dropped_owners: dict[Any, str] = {}
        self.transcript: dict[Any, list[ReleaseSketch]] = {owner: [] for owner in owners}
        agreed.prepared()  # which complains of what nobody can release
        self._is_open = False

    def open(self) -> dict[Any, ReleaseSketch]:
        """Return the only messages: the agreement, to each owner."""
        self._is_open = True
        for messages in self.transcript.values():
            messages.append(self.agreed)
        return dict.fromkeys(self.shares, self.agreed)

    def receive(self, answers: Mapping[Any, Any]) -> dict[Any, ReleaseSketch]:
        """Take the owners' sketches; there are no further messages.

        Parameters
        ----------
        answers : mapping from owner to PrivateSketch or exception
            A missing answer, an exception, and a sketch of other bins, groups or noise than agreed
            drop the owner.
        """
        if not self._is_open:
            raise ValueError("No answers are awaited: call open first, and receive once.")
        self._is_open = False
        expected = self.agreed.prepared()
        for owner in self.shares:
            try:
                # What is checked is what is kept: the owner may write to its arrays at any time.
                reply: Any = _own_copy(answers[owner]) if owner in answers else None
                fault = self._fault(reply, expected) if owner in answers else _NO_ANSWER
            except Exception:  # whatever it is, it must not end the run of the others
                fault = "sent what cannot be read"
            if fault is None:
                self.sketches[owner] = reply
            else:
                self.dropped_owners[owner] = fault
        return {}

    def _fault(self, reply: Any, expected: PendingRelease) -> str | None:
        """Return why a reply is not what was agreed, None if it is; names no value."""
        if isinstance(reply, BaseException):
            return f"raised {type(reply).__name__}"
        if not isinstance(reply, PrivateSketch):
            return f"answered with {type(reply).__name__}, not PrivateSketch"
        if expected.feature_map.difference(reply.feature_map) is not None:
            return "sent a sketch of other bins or groups than agreed"
        size = expected.feature_map.n_features
        noise = expected.to_sketch(np.zeros(size), 0, postprocess=True)
        claims = (reply.privacy.adjacency, reply.privacy.unit, reply.privacy.mechanism)
        if (
            not np.allclose(reply.noise_std, noise.noise_std, rtol=1e-9, atol=0)
            or not math.isclose(reply.n_noise_std, noise.n_noise_std, rel_tol=1e-9)
            or reply.n_from_sums != noise.n_from_sums
            or claims != (noise.privacy.adjacency, noise.privacy.unit, noise.privacy.mechanism)
        ):
            return "sent a sketch with other noise or another guarantee than agreed"
        # No release comes near it, and with larger numbers the sum of all would be no sketch.
        most = LARGEST_SUM / (2 * len(self.shares))
        if max(np.abs(reply.sums).max(), abs(reply.n_released)) > most:
            return "sent sums that no table has"
        return None

    @property
    def sketch(self) -> PrivateSketch:
        """The sum of the owners' sketches."""
        if self._is_open or not (self.sketches or self.dropped_owners):
            raise NotFittedError(_NOT_HERE)
        if not self.sketches:
            raise NotFittedError(
                f"All {len(self.dropped_owners)} owners were left out; see dropped_owners."
            )
        merged = reduce(add, self.sketches.values())
        return replace(merged, privacy=self.claim(merged.privacy))

    def claim(self, privacy: PrivacyGuarantee | None = None) -> PrivacyGuarantee:
        """Return what is claimed of the releases, before or after they are made."""
        return claim_of_sum(self.agreed.prepared().privacy if privacy is None else privacy)

    def __repr__(self) -> str:
        return f"<SketchCurator of {len(self.shares)} owners>"


def claim_of_sum(own: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return what is claimed of the rows of each owner, from what their releases claim, added."""
    one = own.unit.removeprefix("one ")
    facts = [
        own.given.split("; ")[0],
        "the names of the owners, and which of them answer and when",
        f"no {one} is in two of the tables that were added",
        *own.given.split("; ")[1:],
    ]
    given = "; ".join(dict.fromkeys(facts))
    return replace(own, protects="the rows of each owner", given=given, counted=True)
