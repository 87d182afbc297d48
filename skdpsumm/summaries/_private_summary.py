"""The private summary: synthetic rows of the owners' merged sketch, weighted at the consumer's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from .._computing import silence, warn_caller
from .._dask import PartitionSchema, compute, on_partitions, partitions, sound
from .._sklearn import check_params
from ..features._histogram import HistogramMap
from ..moments._base import TAKES_A_SKETCH, table_of
from ..moments.inferring._points import absent, check_ranges, systematic
from ..moments.inferring._table_model import TableModel
from ..moments.inferring._target import TargetEmbedding, unprotected_target
from ..moments.learning._base import warn_of_invisible_inputs
from ..privacy import PrivacyGuarantee, PureDP
from ..privacy._compositions import compose
from ..privacy._mechanisms import Unprotected
from ..privacy._noise import derived_seed, nominal_mechanism
from ..schema._columns import Categorical, Column, Numeric, as_column
from ..schema._groups import Groups
from ..schema._listed import known_classes
from ..schema._reading import (
    Table,
    beside_X,
    column_names,
    is_dask,
    unwrap,
    validate_table,
    warn_of_a_table,
)
from ..schema._schema import NO_SCHEMA, TableSchema, as_schema, schema_of
from ..schema._vectorizer import vectorize
from ..sketches import PrivateSketch
from ._mmd import made_gamma
from ._owners import run_protocol
from ._parties import rows_by_owner
from ._releases import NONE_SHARED, SummaryPrivacy
from ._selection import exact_search
from ._sketches import ReleaseSketch, SketchCurator, Sketches, SketchOwner, labelled_table

_OWNERS = 20  # key of the seeds of owners' noise
# Candidates for each row of a summary, drawn from the weighted rows.
_CANDIDATES_A_ROW, _MOST_CANDIDATES = 8, 8_000
_MOST_DRAWN, _ENOUGH_DRAWN, _FEWEST_DRAWN = 10_000_000, 50_000, 1000
# Of fewer rows of a target no column tells more than that.
_FEWEST_TARGET = 10
# Fewer synthetic rows of equal weight for each input of a model train none (`M2MClassifier`).
_ROWS_AN_INPUT = 10
GROUPS_IN_MEMORY = (
    "Call X.compute() first, or set max_rows_per_group=None: nobody tells which rows of a Dask "
    "collection's partitions are of one group."
)
_OWN_ROWS = "weights follow rows of the target without noise, and these are the owners' own"


@dataclass(frozen=True, repr=False)
class PrivateSummaryPrivacy(SummaryPrivacy):
    """What protocol="sketches" promises, to whom.

    Read it in the ``privacy_`` of a fitted summarizer.

    Parameters
    ----------
    target : PrivacyGuarantee
        Of the rows of the target. Nobody learns anything of them, unless you pass on the weighted
        rows or a model: against whoever receives these they are unprotected, epsilon = inf.
    owners : PrivacyGuarantee
        Of the rows of each owner, against everybody.
    h2 : PrivacyGuarantee, default=None
        Always None, since only `Auction` has h2.
    use : str
        What was made of the sketches.
    released : PrivacyGuarantee
        Of the rows of each owner, of the sketches alone.
    """

    use: str = "the summary consists of synthetic rows"
    released: Any = None

    @property
    def consumer(self) -> PrivacyGuarantee:
        """The guarantee of the owners' rows against the consumer, who knows the target anyway."""
        given = self.released.given
        if self.owners.mechanism != self.released.mechanism:  # the target is the owners' own
            one = self.released.unit.removeprefix("one ")
            given = f"{given}; the {one} is not in the target, which the consumer has"
        return replace(self.released, against="consumer", given=given)

    def across(self, n_owners: int) -> PrivacyGuarantee:
        """Return what is claimed for a person who has rows with so many owners at most.

        Ask it where a person may be with several owners: each of their releases tells of the
        person, so they compose. Where the target is the owners' own, epsilon is infinite, as in
        `owners`.

        Raises
        ------
        ValueError
            Unless `n_owners` is a whole number of at least 1.
        """
        if not isinstance(n_owners, Integral) or n_owners < 1:
            raise ValueError(f"n_owners must be a whole number of at least 1, got {n_owners!r}.")
        own = self.owners
        unit = "the rows of one person, one with each owner"
        unit = unit if own.unit == "one row" else "the groups of one person, one with each owner"
        facts = [part for part in own.given.split("; ") if "is in two of the tables" not in part]
        apart = NONE_SHARED.format(own.unit.removeprefix("one "))
        facts = [NONE_SHARED.format("person") if part == apart else part for part in facts]
        facts.append(f"a person has such rows with at most {int(n_owners)} owners")
        return replace(
            own,
            mechanism=compose([own.mechanism] * int(n_owners)),
            unit=unit,
            given="; ".join(facts),
        )

    @property
    def badge(self) -> str:
        """One line, for headings: the price of each claim, worst first."""
        neighbours = f"{self.owners.unit}, {self.owners.adjacency.replace('_', '-')}"
        line = f"{self.owners.protects.removeprefix('the ')}: {self.owners.price} ({neighbours})"
        line += ", against everybody"
        if self.target.mechanism != PureDP(0.0):  # else there is none
            passed_on = "where weights or models are passed on"
            line = f"target: {self.target.price} {passed_on}; {line}"
        return f"SIMULATED, protects nobody: {line}" if self.owners.simulated else line


def state_claims(released: PrivacyGuarantee, target: str) -> PrivateSummaryPrivacy:
    """Return the claims of a run.

    Parameters
    ----------
    released : PrivacyGuarantee
        Of the owners' sketches.
    target : {"none", "apart", "owners'"}
        Whether there is a target, and whether its rows are the owners' own.
    """
    if target == "none":
        nothing = PrivacyGuarantee(
            PureDP(0.0),
            released.adjacency,
            protects="the target",
            unit=released.unit,
            given="that there is none",
        )
        return PrivateSummaryPrivacy(nothing, released, released=released)
    # A group with other rows in the target than with an owner is as unprotected as a shared row.
    apart = NONE_SHARED.format(released.unit.removeprefix("one "))
    owners = replace(released, given=f"{released.given}; {apart}")
    if target == "owners'":
        owners = replace(released, mechanism=Unprotected(_OWN_ROWS))
    unprotected = unprotected_target(released.unit, released.adjacency)
    return PrivateSummaryPrivacy(unprotected, owners, released=released)


@dataclass(frozen=True, repr=False)
class SketchDraft:
    """A run that is priced and not paid for: nothing has been released."""

    curator: SketchCurator
    parties: Any  # what `run_protocol` takes
    privacy: PrivacyGuarantee  # what a ledger is charged
    claims: PrivateSummaryPrivacy
    inputs: TableSchema
    target: NDArray | Table | None


def draft_of(
    summarizer: Any, X: Any, y: Any, X_target: Any, owners: Any, groups: Any
) -> SketchDraft:
    """Check the rows of all parties, and price a run; nothing is charged or released."""
    protocol: Sketches = summarizer._made_protocol()
    has_target = not (X_target is None or X_target is X)
    if is_dask(X):
        parties: Any = PartitionParties(summarizer, X, y, owners, protocol)
    else:
        parties = RowParties(summarizer, X, y, owners, groups, protocol)
    _check_ledgers(summarizer.ledger, parties.names)
    agreed = protocol.agreement(
        parties.inputs,
        parties.label,
        len(parties.names),
        epsilon=summarizer.epsilon,
        delta=summarizer.delta,
        adjacency=summarizer.adjacency,
        max_rows_per_group=summarizer.max_rows_per_group,
    )
    rows = _target_rows(summarizer, X_target, parties.inputs) if has_target else None
    priced = agreed.prepared(noise_seed=summarizer.noise_seed)
    parties.meet(agreed, priced)
    curator = SketchCurator(parties.names, agreed)
    released = curator.claim(priced.privacy)
    if parties.label is not None and protocol.label is None:
        released = replace(released, given=f"{released.given}; the set of labels in y")
    kind = kind_of_target(summarizer, rows)
    charged = replace(priced.claim_for(summarizer.ledger), given=released.given)
    claims = state_claims(released, kind)
    return SketchDraft(curator, parties.by_name, charged, claims, parties.inputs, rows)


class RowParties:
    """Owners whose rows are in memory.

    Attributes
    ----------
    inputs : TableSchema
        Of the columns of X that are used.
    label : Column or None
        What is public of y.
    names : list
        Of the owners.
    by_name : dict from owner to SketchOwner
        After `meet`.
    """

    def __init__(
        self, summarizer: Any, X: Any, y: Any, owners: Any, groups: Any, protocol: Sketches
    ):
        self._summarizer = summarizer
        self._X, self._y = _read(summarizer, X, y)
        self.inputs, self.label = schema_of(summarizer), label_column(protocol, self._y)
        self._groups = None if groups is None else Groups.read(groups, len(self._X))
        self._members = rows_by_owner(len(self._X), owners, summarizer.shares)
        self.names = list(self._members)
        self.by_name: dict[Any, SketchOwner] = {}

    def meet(self, agreed: ReleaseSketch, priced: Any) -> None:
        """Check all rows by what is agreed, and give each owner theirs."""
        whole = labelled_table(self._X, self._y, agreed.schema)
        priced.feature_map.check_values(whole)
        priced.check_room(len(whole))
        for k, (name, rows) in enumerate(self._members.items()):
            self.by_name[name] = SketchOwner(
                self._X[rows],
                None if self._y is None else self._y[rows],
                groups=self._labels_of(rows),
                ledger=own_ledger(self._summarizer.ledger, name),
                noise_seed=derived_seed(self._summarizer.noise_seed, _OWNERS, k),
            )

    def _labels_of(self, rows: NDArray) -> list[Any] | None:
        if self._groups is None:
            return None
        return [self._groups.labels[code] for code in self._groups.codes[rows]]


class PartitionParties:
    """One owner per partition of a Dask collection, named 0, 1, ...: each adds its own noise.

    Rows are read twice: once to check them, before anything is charged, and once to release. A task
    that Dask runs again draws other noise; one result of each comes back, and no more leaves.
    """

    def __init__(self, summarizer: Any, X: Any, y: Any, owners: Any, protocol: Sketches):
        _check_partitions(summarizer, y, owners, protocol)
        self._noise_seed = summarizer.noise_seed
        self._table = PartitionSchema.of(summarizer, X, schema=as_schema(summarizer.schema))
        self.inputs = schema_of(summarizer)
        self.label = None if y is None else as_column(protocol.label)
        self._parts = partitions(X)
        self._labels = _label_partitions(y, len(self._parts))
        self.names = list(range(len(self._parts)))
        self.by_name = self

    def meet(self, agreed: ReleaseSketch, priced: Any) -> None:
        """Check the rows of all partitions, where they are."""
        shared = self._table, agreed.schema
        sizes = sound(compute(on_partitions(_check, self._parts, shared, self._labels)))
        self._table.check_size(sum(sizes))
        priced.check_room(sum(sizes))

    def __iter__(self) -> Iterator[int]:
        return iter(self.names)

    def answer_all(self, messages: Mapping[int, ReleaseSketch]) -> dict[int, Any]:
        """Return the releases of all owners that are asked, from one computation."""
        shared = self._table, dict(messages)
        own = [
            (name, self._labels[name], derived_seed(self._noise_seed, _OWNERS, name))
            for name in messages
        ]
        parts = [self._parts[name] for name in messages]
        answers = compute(on_partitions(_release, parts, shared, own))
        return dict(zip(messages, answers, strict=True))


def _check(rows: Any, shared: tuple[PartitionSchema, TableSchema], labels: Any) -> int:
    table, schema = shared
    return len(labelled_table(as_table(table.check(rows)), labels, schema))


def _release(rows: Any, shared: tuple[PartitionSchema, dict[int, ReleaseSketch]], own: Any) -> Any:
    (table, messages), (name, labels, seed) = shared, own
    owner = SketchOwner(as_table(table.check(rows)), labels, noise_seed=seed)
    # A Fault in its place is no sketch, so the curator leaves this owner out.
    return owner.answer(messages[name])


def _check_partitions(summarizer: Any, y: Any, owners: Any, protocol: Sketches) -> None:
    """Raise ValueError for what partitions cannot do; nothing has been read."""
    if owners is not None:
        raise ValueError("Leave `owners` out: the owners of a Dask collection are its partitions.")
    if summarizer.max_rows_per_group is not None:
        raise ValueError(GROUPS_IN_MEMORY)
    if isinstance(summarizer.ledger, dict):
        raise ValueError(
            "Give one ledger: partitions of a Dask collection are owners without one of their own."
        )
    if y is not None and protocol.label is None:
        raise ValueError(
            "label is missing, and nothing is read off a Dask collection. List all labels that "
            "there can be, protocol=Sketches(label=[...]), or give a range, label=(low, high)."
        )


def _label_partitions(y: Any, n_partitions: int) -> list[Any]:
    """Return the partitions of the labels, as many as X has."""
    if y is None:
        return [None] * n_partitions
    found = []
    if is_dask(y) and getattr(y, "shape", (0,))[1:] == (1,):
        warn_of_a_table("y")
        y = y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
    if is_dask(y) and len(getattr(y, "shape", (0,))) == 1:
        found = np.ravel(y.to_delayed()).tolist()
    if len(found) != n_partitions:
        raise ValueError(
            "Give y as a Dask series or array in the partitions of X, such as another column of "
            "the same frame."
        )
    return found


def _read(summarizer: Any, X: Any, y: Any) -> tuple[Table, NDArray | None]:
    """Return the cells of X, and the labels; sets the estimator's columns."""
    known = as_schema(summarizer.schema)
    if y is None:
        return as_table(validate_table(summarizer, X, schema=known)), None
    label = summarizer._made_protocol().label
    numeric = label is not None and isinstance(as_column(label), Numeric)
    cells, labels = validate_table(summarizer, X, unwrap(y), schema=known, y_numeric=numeric)
    return as_table(cells), labels


def as_table(cells: NDArray | Table) -> Table:
    """Return a table of columns."""
    if isinstance(cells, Table):
        return cells
    return Table([cells[:, j] for j in range(cells.shape[1])])


def label_column(protocol: Sketches, labels: NDArray | None) -> Column | None:
    """Return what is public of y, None where there is none."""
    if labels is None:
        return None
    if protocol.label is not None:
        return as_column(protocol.label)
    with silence():  # it may warn of how many rows there are
        is_number = type_of_target(labels).startswith("continuous")
    if is_number:
        raise ValueError(
            "label is missing: y holds numbers, and nothing is read off them. Give their public "
            "range, protocol=Sketches(label=(low, high))."
        )
    if len(set(labels.tolist())) < 2:
        raise ValueError(
            "label is missing: y holds one label only. List all that there can be, "
            "protocol=Sketches(label=[...])."
        )
    return Categorical(known_classes(labels, None).tolist())


def check_sketches(summarizer: Any) -> None:
    """Raise ValueError for parameters that say nothing to a protocol of sketches."""
    if summarizer.schema is None:
        raise ValueError(NO_SCHEMA)
    drawn = max(int(summarizer.n_select), int(summarizer._made_protocol().n_synthetic))
    if drawn > _MOST_DRAWN:
        raise ValueError(
            f"n_select={summarizer.n_select} and n_synthetic of Sketches must be at most "
            f"{_MOST_DRAWN:,}: so many rows tell all that a sketch does, and more may not fit in "
            "memory."
        )
    summarizer._check_rows_public()
    check_ranges(as_schema(summarizer.schema))


def ask_ledgers(summarizer: Any) -> None:
    """Raise BudgetExceededError if a ledger, or any owner's, cannot hold a release."""
    given = summarizer.ledger
    claim = nominal_mechanism(summarizer.epsilon, summarizer.delta)
    unit = "row" if summarizer.max_rows_per_group is None else "group"
    for ledger in given.values() if isinstance(given, dict) else [given]:
        # One of other neighbours is asked when the claim for these is known.
        if ledger is not None and getattr(ledger, "adjacency", None) == summarizer.adjacency:
            ledger.check(claim, adjacency=summarizer.adjacency, unit=unit)


def _check_ledgers(ledger: Any, names: list[Any]) -> None:
    """Raise ValueError where an owner would release at nobody's expense, for want of its name."""
    missing = [name for name in names if name not in ledger] if isinstance(ledger, dict) else []
    if missing:
        raise ValueError(
            f"ledger has no entry for {len(missing)} of the owners: name all of them, and give "
            "None for one that keeps no ledger."
        )


def own_ledger(ledger: Any, name: Any) -> Any:
    """Return an owner's own ledger, None where one ledger is charged for all."""
    return ledger[name] if isinstance(ledger, dict) else None


def _target_rows(summarizer: Any, X_target: Any, inputs: TableSchema) -> Table:
    """Return the target's rows, checked: they are read here, and by nobody else."""
    with beside_X("X_target", X_target):
        known = as_schema(summarizer.schema)
        rows = as_table(validate_table(summarizer, X_target, schema=known, reset=False))
        inputs.check(rows)
    return rows


# ---- the consumer, at home


@dataclass(frozen=True, repr=False)
class Drawn:
    """Synthetic rows with weights."""

    rows: NDArray  # inputs and label, where there is one
    weights: NDArray[np.float64]
    effective_sample_size: float
    out_of_reach: bool


def drawn_and_weighted(
    sketch: Any, inputs: TableSchema, label: int | None, target: Any, n_synthetic: int, seed: int
) -> Drawn:
    """Draw rows of the graphical model of a sketch, and weight them to match a target."""
    model = TableModel(sketch, table_of(sketch))
    rows = model.sample(n_synthetic, np.random.default_rng(seed))
    if label is not None and model.schema.missing(label):  # of which nothing is learnt
        rows = rows[~absent(model.schema, rows[:, label], label)]
    if target is None:
        return Drawn(rows, np.full(len(rows), 1 / len(rows)), float(len(rows)), False)
    embedding = TargetEmbedding.of(target, inputs)
    own = _inputs_of(rows, label)
    weights = embedding.weights(own)
    return Drawn(
        rows, weights, 1 / float(weights @ weights), embedding.is_out_of_reach(own, weights)
    )


def _inputs_of(rows: NDArray, label: int | None) -> NDArray:
    return rows if label is None else np.delete(rows, label, axis=1)


def chosen_rows(drawn: Drawn, table: TableSchema, n_select: int, seed: int) -> NDArray:
    """Return few of the weighted rows that have the same mean embedding, with equal weights."""
    rng = check_random_state(seed)
    if n_select >= _MOST_CANDIDATES:  # so many are alike without a search
        return drawn.rows[systematic(drawn.weights, n_select, rng)]
    n = min(_MOST_CANDIDATES, max(_CANDIDATES_A_ROW * n_select, 1000), len(drawn.rows))
    candidates = drawn.rows[systematic(drawn.weights, n, rng)]
    vectors = vectorize(table, candidates).astype(np.float32)
    search = exact_search(vectors, vectors, n_select, made_gamma("auto", table))
    return candidates[search.run(False, 0, rng)]


def publish(summarizer: Any, draft: SketchDraft) -> None:
    """Have the owners release, and set what is fitted: draw, weigh and choose at home."""
    curator, inputs = draft.curator, draft.inputs
    run_protocol(curator, draft.parties, n_jobs=summarizer.n_jobs, verbose=summarizer.verbose)
    # What is paid for is there, whatever comes now.
    summarizer.sketch_ = replace(curator.sketch, privacy=draft.claims.released)
    summarizer.transcript_ = curator.transcript
    summarizer.dropped_owners_ = curator.dropped_owners
    label = inputs.n_columns if summarizer.sketch_.schema.n_columns > inputs.n_columns else None
    _summarize(summarizer, draft.claims, inputs, label, draft.target)


def from_release(
    kind: Any, sketch: Any, n_select: int, X_target: Any, target: Any, **parameters: Any
) -> Any:
    """Return a summarizer that is fitted to a release alone: nothing is asked or charged."""
    if not isinstance(sketch, PrivateSketch):
        raise TypeError(TAKES_A_SKETCH.format(type(sketch).__name__))
    table = table_of(sketch)
    if not all(isinstance(part, HistogramMap) for part, _ in sketch.blocks()):
        raise ValueError(
            "Give a sketch of counts, such as an AdaptiveSketcher's or a HistogramSketcher's: rows "
            "are drawn from the table that it describes. For features, take M2MClassifier or "
            "M2MRegressor.from_sketch."
        )
    X_target = unwrap(X_target)
    label = _label(table, X_target) if target is None else table.index(target, "target")
    if label is not None and table.n_columns == 1:
        raise ValueError("The sketch has no column but the label: leave target out.")
    inputs = table.take([j for j in range(table.n_columns) if j != label])
    if inputs.names is not None:  # the label and others may stand beside them in the target
        own = dict(zip(inputs.names, inputs.columns, strict=True))
        inputs = TableSchema(own, extra_columns="drop").ruling_out(inputs.impossible)
    known = None if label is None else table.columns[label]
    protocol = Sketches(label=known, n_synthetic=parameters.pop("n_synthetic"))
    summarizer = kind(n_select, protocol=protocol, schema=inputs, **parameters)
    check_params(summarizer)
    summarizer._check_parameters()
    summarizer.n_features_in_ = inputs.n_columns
    if inputs.names is not None:
        summarizer.feature_names_in_ = np.array(inputs.names, dtype=object)
    rows = None if X_target is None else _target_rows(summarizer, X_target, inputs)
    claims = state_claims(sketch.privacy, kind_of_target(summarizer, rows))
    summarizer.sketch_ = sketch
    _summarize(summarizer, claims, inputs, label, rows)
    warn_of_reach(summarizer, inputs, rows)
    if label is not None:
        warn_of_invisible_inputs(sketch, table, label, None)
    return summarizer


def _label(table: TableSchema, X_target: Any) -> int | None:
    """Return the one column that a target lacks: by its name, or the last one; None for others."""
    names = column_names(X_target)
    if names is not None and table.names is not None:
        lacking = [j for j, name in enumerate(table.names) if name not in names]
        return lacking[0] if len(lacking) == 1 else None
    last = table.n_columns - 1
    with suppress(ValueError):  # rows of unequal length, which are refused later
        return last if X_target is not None and np.shape(X_target)[1:] == (last,) else None
    return None


def kind_of_target(summarizer: Any, rows: Any) -> str:
    """Return which target the claims of `state_claims` are about."""
    if rows is None:
        return "none"
    return "owners'" if summarizer.target_is_owners else "apart"


def _summarize(
    summarizer: Any,
    claims: PrivateSummaryPrivacy,
    inputs: TableSchema,
    label: int | None,
    target: Any,
) -> None:
    """Draw rows of ``sketch_``, weigh and choose, and set what is fitted."""
    sketch, summarizer.privacy_ = summarizer.sketch_, claims
    summarizer.schema_, summarizer.gamma_ = inputs, made_gamma(summarizer.gamma, inputs)
    rng = check_random_state(summarizer.random_state)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    n_synthetic = max(int(summarizer._made_protocol().n_synthetic), int(summarizer.n_select))
    drawn = drawn_and_weighted(sketch, inputs, label, target, n_synthetic, seed)
    table = table_of(sketch)
    rows = chosen_rows(drawn, table, int(summarizer.n_select), seed)
    summarizer.X_ = _frame(_inputs_of(rows, label), inputs)
    summarizer.y_ = None if label is None else _cells(rows, table, label)
    summarizer.weights_ = np.full(len(rows), 1 / len(rows))
    summarizer.effective_sample_size_ = drawn.effective_sample_size
    summarizer._out_of_reach = drawn.out_of_reach


def _frame(rows: NDArray, inputs: TableSchema) -> Any:
    """Return rows as a frame with the schema's names, or as an array where it has none."""
    if inputs.names is None:
        return rows
    try:
        from pandas import DataFrame
    except ImportError:
        return rows
    columns = {name: _cells(rows, inputs, j) for j, name in enumerate(inputs.names)}
    return DataFrame(columns)


def _cells(rows: NDArray, table: TableSchema, j: int) -> NDArray:
    """Return a column of rows with its own dtype: numbers, or categories as the schema lists."""
    known = table.values(j)
    if known is None:
        return rows[:, j].astype(np.float64)
    codes = table.code(rows, j)
    if table.missing(j):
        return table.decode(j, codes)
    return np.array(known)[codes]


def warn_of_reach(summarizer: Any, inputs: TableSchema, target: Any) -> None:
    """Warn where the merged sketch has few rows like the target's, or none."""
    if target is None:
        return
    if len(target) < _FEWEST_TARGET:
        warn_caller(
            f"Give more rows as X_target: of fewer than {_FEWEST_TARGET} the sampling error is so "
            "large that the summary hardly follows them.",
            UserWarning,
        )
    worth, n_inputs = summarizer.effective_sample_size_, inputs.n_encoded
    asked = summarizer._made_protocol().n_synthetic
    least = _ROWS_AN_INPUT * (n_inputs + 1)
    if not (summarizer._out_of_reach or worth < least):
        return
    too_few = not summarizer._out_of_reach and worth * _ENOUGH_DRAWN >= least * asked
    if asked < _FEWEST_DRAWN or (asked < _ENOUGH_DRAWN and too_few):
        warn_caller(
            f"Raise n_synthetic={asked}: so few rows are worth {worth:.0f} of equal weight "
            f"(effective_sample_size_), for {n_inputs} inputs of a model.",
            UserWarning,
        )
        return
    few = "no" if summarizer._out_of_reach else "few"
    warn_caller(
        "Ask more owners whose rows are like X_target, or describe the target by fewer "
        f"columns: the merged sketch has {few} rows there. The weighted synthetic rows are worth "
        f"{worth:.0f} of equal weight (effective_sample_size_), for {n_inputs} inputs of a model, "
        "so models trained on the summary may be near chance.",
        UserWarning,
    )
