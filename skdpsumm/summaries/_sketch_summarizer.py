"""The private summary: synthetic rows of the owners' merged sketch, weighted at the consumer's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from numbers import Integral
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from .._computing import silence
from .._sklearn import Interval, RequestMethod, StrOptions, validate_parameter_constraints
from ..features._feature_maps import HistogramMap
from ..moments._base import check_ranges
from ..moments.learning._models import warn_of_invisible_inputs, with_target
from ..privacy import PrivacyGuarantee, PrivacyLedger, PureDP
from ..privacy._fit import PrivateFit
from ..privacy._mechanisms import Unprotected, compose
from ..privacy._noise import derived_seed, secret_key
from ..schema._columns import Categorical, Column, Numeric, as_column, known_classes
from ..schema._groups import Groups
from ..schema._reading import Table, beside_X, check_in_memory, unwrap, validate_table
from ..schema._schema import NO_SCHEMA, SchemaLike, TableSchema, allowed, as_schema, schema_of
from ..sketches import HistogramSketcher, PrivateSketch
from ..sketches._private_sketch import Counted, PlannedRelease
from ._parties import rows_by_owner
from ._protocol import NONE_SHARED, SummaryPrivacy
from ._synthetic_rows import LabelledTable, SyntheticRows, counts_alone

# Keys of seeds: of the noise of owners, and of which rows of a group stay with an owner.
NOISE_OF_OWNER, GROUPS_OF_OWNER = 20, 3
# Synthetic rows that may be drawn: so many tell all that a sketch does.
MAX_SYNTHETIC_ROWS = 10_000_000
# Rows that an owner is taken to have where you do not say it.
TYPICAL_ROWS_OF_OWNER = 1_000
# A group is counted if the noise of a cell is at most this part of the rows that it would have if
# all cells were alike. Of 0.05 to 1, 0.15 to 0.4 served both synthetic shifts of
# docs/summaries.md.
MAX_NOISE_OF_CELL = 0.2
# Coarser bins are worth it if this share of all pairs of columns is then counted. On 16 components
# of digits, pairs in 4 bins, of which 0.3 were counted, lost to single columns in 12 bins.
MIN_SHARE_OF_PAIRS = 0.4

OWN_ROWS = "weights follow rows of the target without noise, and these are the owners' own"

COUNTED_CONSTRAINTS: dict[str, list[Any]] = {
    "n_bins": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "rows_per_owner": [Interval(Integral, 1, None, closed="left")],
}
ROUTED_TO_FIT = ("X_target", "owners", "groups")


def summary_sketcher(
    schema: Any,
    target: Any = None,
    *,
    n_owners: int = 10,
    rows_per_owner: int = TYPICAL_ROWS_OF_OWNER,
    n_bins: int | str = "auto",
    **parameters: Any,
) -> HistogramSketcher:
    """Return the sketcher that each owner runs, so that all sketches can be added. No data.

    Bins and groups of columns follow from public numbers alone, so all parties make the same
    sketcher. Each owner calls its `fit`, with a ledger of its own, and releases `sketch_`. The sum
    of all sketches is what `SketchSummarizer.from_sketch` and `M2MClassifier.from_sketch` take.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        Public description of the columns, the label among them.
    target : str or int, default=None
        The column that models will predict: all others are counted with it. None counts the columns
        by themselves, where you have no such column.
    n_owners : int, default=10
        How many owners take part: their noise adds up. The default is a guess.
    rows_per_owner : int, default=1000
        About how many rows an owner has, from public knowledge. It decides what is counted, and no
        claim depends on it. The default is a guess.
    n_bins : "auto" or int, default="auto"
        Bins of numeric columns without `edges` of their own. "auto" chooses the finest that the
        budget carries.
    **parameters
        Of `HistogramSketcher`: `epsilon`, `delta`, `adjacency`, `max_rows_per_group`, `ledger` and
        others.

    Returns
    -------
    HistogramSketcher

    Raises
    ------
    ValueError
        For a schema without bounds, a column that it does not have, and bad numbers.

    Examples
    --------
    >>> from skdpsumm.summaries import summary_sketcher
    >>> schema = {"age": (17, 90), "job": ["clerk", "farmer"], "ill": [0, 1]}
    >>> sketcher = summary_sketcher(schema, "ill", n_owners=2, epsilon=3.0)
    >>> sketcher.marginals
    [[0, 2], [1, 2], [0, 1, 2]]
    """
    given = {"n_owners": n_owners, "rows_per_owner": rows_per_owner, "n_bins": n_bins}
    constraints = {**COUNTED_CONSTRAINTS, "n_owners": COUNTED_CONSTRAINTS["rows_per_owner"]}
    validate_parameter_constraints(constraints, given, caller_name="summary_sketcher")
    table = as_schema(schema)
    table.require_bounds()
    label = None if target is None else table.index(target, "target")
    budget = {name: parameters[name] for name in _BUDGET if name in parameters}
    numbers = int(n_owners), int(rows_per_owner), n_bins
    return HistogramSketcher(table, **_counted(table, label, *numbers, budget), **parameters)


# Parameters of `HistogramSketcher` that decide how much noise a cell has.
_BUDGET = ("epsilon", "delta", "adjacency", "max_rows_per_group")


def _counted(
    table: TableSchema,
    label: int | None,
    n_owners: int,
    rows_per_owner: int,
    n_bins: Any,
    budget: Any,
) -> dict[str, Any]:
    """Return bins of numeric columns, and what to count: from public numbers alone.

    Each column is counted with the label, or by itself where there is none. Pairs (with the label)
    are added, the smallest first, as long as the noise of a cell is below a fifth of the rows that
    it would have if all cells were alike. Each pair more makes the noise of all groups larger.
    Bins are the finest at which two fifths of all pairs are counted; where there are none such, the
    finest at which the columns themselves are, or else 4.
    """
    every, own = range(table.n_columns), () if label is None else (label,)
    singles = [(j, *own) for j in every if j != label]
    pairs = [(a, b, *own) for (a, *_), (b, *_) in combinations(singles, 2)]
    # The noise of a cell where one histogram has all the budget, in rows.
    alone = HistogramSketcher(table, n_bins=2, marginals=[[0]], **budget)
    unit = float(alone.preview_noise_std(table.n_columns, table.names)[0]) * math.sqrt(n_owners)
    rows = float(rows_per_owner * n_owners)
    power = 1.0 if budget.get("delta") == 0 else 0.5
    sound = None
    # The finest bins are tried first.
    for bins in (12, 8, 6, 4) if n_bins == "auto" else (int(n_bins),):
        sizes = HistogramMap(table, [bins] * table.n_columns, [(j,) for j in every]).n_bins
        cells = {group: math.prod(sizes[j] for j in group) for group in (*singles, *pairs)}

        def is_worth(group: tuple[int, ...], n_groups: int, cells: dict = cells) -> bool:
            return unit * n_groups**power <= MAX_NOISE_OF_CELL * rows / cells[group]

        by_size, n_carried = sorted(pairs, key=cells.__getitem__), 0
        for pair in by_size:
            if cells[pair] > 2**17 or not is_worth(pair, len(singles) + n_carried + 1):
                break
            n_carried += 1
        groups = [list(group) for group in (*singles, *by_size[:n_carried])]
        found = {"n_bins": [bins] * table.n_columns, "marginals": groups}
        if not pairs or n_carried / len(pairs) >= MIN_SHARE_OF_PAIRS:
            return found
        if sound is None and all(is_worth(group, len(singles)) for group in singles):
            sound = found
    return sound or found


@dataclass(frozen=True, repr=False)
class PrivateSummaryPrivacy(SummaryPrivacy):
    """What a `SketchSummarizer` promises, to whom.

    Read it in the ``privacy_`` of a fitted one.

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


def state_claims(
    released: PrivacyGuarantee, target: Any, target_is_owners: bool
) -> PrivateSummaryPrivacy:
    """Return the claims of a run.

    Parameters
    ----------
    released : PrivacyGuarantee
        Of the owners' sketches.
    target : object
        None where there is none.
    target_is_owners : bool
        Whether its rows are the owners' own.
    """
    if target is None:
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
    if target_is_owners:
        owners = replace(released, mechanism=Unprotected(OWN_ROWS))
    unprotected = PrivacyGuarantee(
        Unprotected("the weights follow its rows without noise"),
        released.adjacency,
        protects="the target",
        against=(
            "whoever receives the weighted rows or a model trained on them; nobody else learns "
            "anything of it"
        ),
        unit=released.unit,
        given="nothing",
    )
    return PrivateSummaryPrivacy(unprotected, owners, released=released)


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


@dataclass(repr=False)
class _Draft:
    """A fit that is priced and not paid for: nothing has been released."""

    owners: list[tuple[Table, Groups | None]]
    sketcher: HistogramSketcher  # that each owner runs
    privacy: PrivacyGuarantee  # what the ledger is charged
    claims: PrivateSummaryPrivacy
    columns: LabelledTable
    target: Any
    noise_seed: int | None
    drawn: Any = None  # the synthetic rows, once there are any

    def released(self) -> PrivateSketch:
        """Return the sum of what the owners release, each with noise of its own."""
        sketches = []
        for k, (table, groups) in enumerate(self.owners):
            seed = derived_seed(self.noise_seed, NOISE_OF_OWNER, k)
            pending = prepared(self.sketcher, seed)
            coins = bytes(32)  # where nothing is secret, results are to be the same again
            if not pending.is_silent:
                coins = secret_key(derived_seed(seed, GROUPS_OF_OWNER))
            counted = Counted.of(len(table), self.sketcher._limit, groups, coins)
            sketches.append(pending.released(pending.sums(table, counted), counted.n_units))
        return replace(reduce(add, sketches), privacy=self.claims.released)


def prepared(sketcher: HistogramSketcher, noise_seed: int | None) -> PlannedRelease:
    """Return a release of no rows yet, with its map, its noise and its claim."""
    sketcher._check_parameters()
    known = as_schema(sketcher.schema)
    return sketcher._prepare(sketcher.preview_map(known.n_columns, known.names), noise_seed)


class SketchSummarizer(PrivateFit, BaseEstimator):
    """Synthetic rows that match a target, from sketches of many owners. No row leaves an owner.

    Each owner releases a private sketch of X and y. The sketches are added up, and the consumer
    draws synthetic rows from the sum and weights them to match the target, at home. Holds private
    data once fitted with a target, since weights follow its rows.

    Parameters
    ----------
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. It is that of X, with bounds
        of the numeric columns, and you must give it.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. The guarantee is for the rows of
        each owner, against everybody. The default is a usual one. ``epsilon=np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. The default is below 1 / n for tables of fewer than a million
        rows. 0 takes Laplace noise.
    n_select : int, default=100
        p, how many synthetic rows `X_` has. 100 is a start: more rows train a better model. They
        have equal weights. From 8,000 on, rows may repeat.
    label : tuple of two numbers, list, Numeric or Categorical, default=None
        What is public about y: its range, or all labels that it can hold. Give it if a label may be
        rare. None takes the labels in y as public, which reveals a label that a single row has.
        `privacy_` says so.
    n_bins : "auto" or int, default="auto"
        Bins of numeric columns without `edges` of their own. "auto" chooses the finest that the
        budget carries, from public numbers alone (`summary_sketcher`).
    rows_per_owner : int, default=1000
        About how many rows an owner has, from public knowledge. It decides what is counted, and no
        claim depends on it. The default is a guess.
    n_synthetic : int, default=50_000
        Rows that are drawn from the merged sketch and weighted, to choose the summary among them;
        at least `n_select`. The default is large, as they cost nothing but time.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        The default keeps the number of rows private; "replace_one" takes it as public.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. It then protects all rows of a person. None protects single rows, as most tables have
        one row per person. An int k keeps k rows of each group, chosen by secret coins of each
        owner: a group is taken to have rows of one owner only. "average" has each group count once,
        and keeps all rows.
    target_is_owners : bool, default=False
        Say True where rows of the target are the owners' own, even a few of them. Weights follow
        these rows without noise, so `privacy_.owners` then has epsilon = inf. False, the default,
        is for a target of your own: the claims then take it as given that target and owners share
        no row. Nobody compares rows, because the claims must not depend on them.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is the seed of the synthetic rows. None
        draws new ones in each fit.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. It is charged once, since owners have different rows. With
        None, nothing counts your fits: only you know what total to allow. Owners with ledgers of
        their own release by themselves: see `summary_sketcher`.

    Attributes
    ----------
    X_, y_ : array or frame of shape (n_select, n_features), ndarray of shape (n_select,)
        Synthetic rows that match the target, and their labels (None without y).
    sketch_ : PrivateSketch
        The owners' sketches, merged. You may publish it. Its last column is the label, "target";
        with `from_sketch` it is what you gave.
    effective_sample_size_ : float
        How many rows of equal weight the `n_synthetic` weighted rows are worth. `X_` was chosen
        among these.
    schema_ : TableSchema
        Schema of the columns of X that are used, in their order.
    privacy_ : PrivateSummaryPrivacy
        Guarantees for the target and for the owners' data.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    *What each party sees.* Everybody, the curator and the consumer included: one noisy sketch of
    each owner. *Guarantee.* (1) Bins and groups are public and the same for all owners, so whatever
    an owner releases is one release of a `HistogramSketcher` with exact calibration. (2) The owner
    adds noise before anything leaves: the release is (epsilon, delta)-DP for its rows against
    everybody. (3) A row is with one owner, so releases of several owners compose in parallel; a
    *person* with rows at K owners composes over K releases (`PrivateSummaryPrivacy.across`). (4)
    Merging, drawing and weighting are post-processing. (5) The consumer alone reads the target's
    rows, after all releases: none depends on them. Weights follow them without noise, so the target
    is unprotected against whoever gets the rows, or a model that was trained on them.

    *Cost.* One release per owner. The noise of K releases adds up: it is sqrt(K) times that of one
    sketch of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import SketchSummarizer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((4000, 2))
    >>> y = X[:, 0] > 0.5
    >>> summarizer = SketchSummarizer((0, 1), epsilon=3.0, random_state=0)
    >>> target = np.column_stack([rng.random(200), rng.uniform(0.5, 1, 200)])
    >>> summarizer = summarizer.fit(X, y, X_target=target, owners=rng.integers(2, size=4000))
    >>> summarizer.X_.shape, bool(summarizer.X_[:, 1].mean() > 0.65)
    ((100, 2), True)
    >>> round(summarizer.privacy_.consumer.epsilon(1e-6), 3), summarizer.privacy_.target.epsilon()
    (3.0, inf)

    See Also
    --------
    PrivateMMDSummarizer : Real rows of the owners that match the target.
    summary_sketcher : What each owner runs, where owners are separate parties.
    """

    set_fit_resample_request = RequestMethod("fit_resample", sorted(ROUTED_TO_FIT))
    __metadata_request__fit: ClassVar[dict[str, bool]] = dict.fromkeys(ROUTED_TO_FIT, True)
    __metadata_request__fit_resample: ClassVar[dict[str, bool]] = __metadata_request__fit

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateFit._parameter_constraints,
        **COUNTED_CONSTRAINTS,
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
        "label": "no_validation",  # `as_column` says what is wrong
        "n_select": [Interval(Integral, 1, MAX_SYNTHETIC_ROWS, closed="both")],
        "n_synthetic": [Interval(Integral, 2, MAX_SYNTHETIC_ROWS, closed="both")],
        "target_is_owners": ["boolean"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_select: int = 100,
        label: Any = None,
        n_bins: int | str = "auto",
        rows_per_owner: int = TYPICAL_ROWS_OF_OWNER,
        n_synthetic: int = 50_000,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        target_is_owners: bool = False,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.n_select = n_select
        self.label = label
        self.n_bins = n_bins
        self.rows_per_owner = rows_per_owner
        self.n_synthetic = n_synthetic
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.target_is_owners = target_is_owners
        self.random_state = random_state
        self.ledger = ledger

    @classmethod
    def from_sketch(
        cls,
        sketch: PrivateSketch,
        n_select: int = 100,
        *,
        X_target: Any = None,
        target: Any = None,
        schema: SchemaLike | None = None,
        n_synthetic: int = 50_000,
        target_is_owners: bool = False,
        random_state: Any = None,
    ) -> Self:
        """Return a summarizer of a release: synthetic rows that match a target, at home.

        Owners who merged their sketches elsewhere (over Flower, for example) are not asked again:
        anyone with the merged sketch and some rows of their own draws and reweights rows here. It
        costs no privacy of the rows that were sketched, if none of them is a row of the target.

        Parameters
        ----------
        sketch : PrivateSketch
            The release, of one owner or merged. Rows are best from counts: of `summary_sketcher`,
            `AdaptiveSketcher` or `HistogramSketcher`.
        n_select : int, default=100
            p, how many rows to choose. The default is that of the constructor. They have equal
            weights: train on them without `sample_weight`. From 8,000 on, rows may repeat.
        X_target : array-like or frame of shape (m, n_features), default=None
            Rows of the population that you care about, without labels; columns that the sketch does
            not have are left out. None, as you may have no such rows, follows the population that
            was sketched.
        target : int or str, default=None
            Number or name of the column that is the label, and becomes `y_`. None is the one column
            that `X_target` lacks (the last one, if columns have no names), as targets have no
            labels. Where it lacks none, or there is no `X_target`, nothing is a label.
        schema : TableSchema or what stands for one, default=None
            For a sketch without one, as in `M2MClassifier.from_sketch`. None takes the sketch's.
        n_synthetic, target_is_owners, random_state :
            As in the constructor.

        Returns
        -------
        SketchSummarizer
            With `X_`, `y_`, `effective_sample_size_`, `sketch_` and `privacy_`.

        Raises
        ------
        ValueError
            For a sketch without this column, or without a range, and for rows that do not fit its
            schema.

        Warns
        -----
        UserWarning
            If the sketch has few or no rows like those of `X_target`, or that has few rows.
        AnswerWarning
            If the sketch does not tell how the label goes with most columns.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpsumm import AdaptiveSketcher, SketchSummarizer
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"age": rng.uniform(18, 90, 5000)})
        >>> people["retired"] = np.where(people.age > 65, "yes", "no")
        >>> schema = {"age": (18, 90), "retired": ["no", "yes"]}
        >>> sketch = AdaptiveSketcher(schema, random_state=0).fit(people).sketch_
        >>> mine = pd.DataFrame({"age": rng.uniform(60, 90, 300)})
        >>> summary = SketchSummarizer.from_sketch(sketch, 200, X_target=mine, random_state=0)
        >>> bool(summary.X_.age.mean() > 70), bool((summary.y_ == "yes").mean() > 0.7)
        (True, True)
        >>> summary.privacy_.target.epsilon()
        inf
        """
        X_target = unwrap(X_target)
        columns = LabelledTable.of(sketch, target, X_target, schema)
        inputs = columns.inputs
        parameters = {
            "n_select": n_select,
            "n_synthetic": n_synthetic,
            "target_is_owners": target_is_owners,
            "random_state": random_state,
        }
        if columns.label is not None:
            parameters["label"] = columns.table.columns[columns.label]
        summarizer = cls(inputs, **parameters)
        summarizer._check_parameters()
        summarizer.n_features_in_ = inputs.n_columns
        if inputs.names is not None:
            summarizer.feature_names_in_ = np.array(inputs.names, dtype=object)
        rows = None if X_target is None else summarizer._target_rows(X_target, inputs)
        claims = state_claims(sketch.privacy, rows, target_is_owners)
        drawn = summarizer._summarize(sketch, claims, columns, rows)
        if rows is not None:
            drawn.warn_of_reach(rows, int(n_synthetic))
        if columns.label is not None:
            prior = None if counts_alone(sketch) else "auto"
            warn_of_invisible_inputs(sketch, columns.table, columns.label, prior)
        return summarizer

    def fit(
        self, X: Any, y: Any = None, *, X_target: Any = None, owners: Any = None, groups: Any = None
    ) -> Self:
        """Have all owners release their sketches, and draw the summary. Charges the ledger once.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            The rows of all owners.
        y : array-like of shape (n_samples,), default=None
            Labels, which are sketched with X. None is no labels, as the choice needs none.
        X_target : array-like or frame of shape (m, n_features), default=None
            Rows of the population that you care about. None weights nothing, and you may publish
            everything. Wrap it in `Public` where a search or cross-validation would otherwise cut
            it into folds.
        owners : array-like of shape (n_samples,), default=None
            The owner of each row. None is one owner, for a table that is one party's.
        groups : array-like of shape (n_samples,), default=None
            The group that each row of X belongs to, a person for example. Needed with
            `max_rows_per_group`; None, as single rows need none. Rows of two owners are never in
            one group.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data; nothing is charged.
        BudgetExceededError
            If the ledger cannot hold the release; nothing is charged.
        """
        check_in_memory("X", X)
        data = None if X_target is X else unwrap(X_target), unwrap(owners)
        return self._private_fit(X, y, *data, groups=unwrap(groups))

    def fit_resample(
        self, X: Any, y: Any = None, *, X_target: Any = None, owners: Any = None, groups: Any = None
    ) -> Any:
        """Fit, and return the synthetic rows with their labels.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        X_target, owners, groups : as in `fit`

        Returns
        -------
        X_ : array or frame of shape (n_select, n_features)
        y_ : ndarray of shape (n_select,)
            Only if y is given.
        """
        self.fit(X, y, X_target=X_target, owners=owners, groups=groups)
        return self.X_ if y is None else (self.X_, self.y_)

    @property
    def holds_private_data(self) -> bool:
        """True once fitted with a target, whose rows the weights follow without noise."""
        claims = getattr(self, "privacy_", None)
        return bool(claims is not None and claims.target.epsilon() == np.inf)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.schema is None:
            raise ValueError(NO_SCHEMA)
        self._check_rows_public()
        check_ranges(as_schema(self.schema))

    def _ask_ledger(self) -> None:
        # A ledger of other neighbours is asked when the claim for these is known.
        if getattr(self.ledger, "adjacency", None) == self.adjacency:
            super()._ask_ledger()

    def _draft(
        self, noise_seed: int | None, X: Any, y: Any, X_target: Any, owners: Any, groups: Any = None
    ) -> _Draft:
        """Check the rows of all parties, and price a fit."""
        cells, labels = self._read(X, y)
        inputs, label = schema_of(self), label_column(self.label, labels)
        members = list(rows_by_owner(len(cells), owners, None).values())
        columns = LabelledTable(inputs, None)
        if label is not None:
            table = with_target(inputs, label).ruling_out(inputs.impossible)
            columns = LabelledTable(table, inputs.n_columns)
        table = columns.table
        budget = {name: getattr(self, name) for name in PrivateFit._parameter_constraints}
        sketcher = summary_sketcher(
            table,
            columns.label,
            n_owners=len(members),
            rows_per_owner=self.rows_per_owner,
            n_bins=self.n_bins,
            **{**budget, "ledger": None, "random_state": None},
        )
        target = None if X_target is None else self._target_rows(X_target, inputs)
        known_cells = [cells[:, j] for j in range(cells.shape[1])]
        whole = Table(known_cells if labels is None else [*known_cells, labels])
        pending = prepared(sketcher, noise_seed)
        pending.feature_map.check_values(whole)  # type: ignore[arg-type]
        pending.check_room(len(whole))
        known = None if groups is None else Groups.read(groups, len(whole))
        released = claim_of_sum(pending.privacy)
        if label is not None and self.label is None:
            released = replace(released, given=f"{released.given}; the set of labels in y")
        return _Draft(
            [(whole[rows], _groups_of(known, rows)) for rows in members],
            sketcher,
            replace(pending.claim_for(self.ledger), given=released.given),
            state_claims(released, target, self.target_is_owners),
            columns,
            target,
            noise_seed,
        )

    def _read(self, X: Any, y: Any) -> tuple[NDArray | Table, NDArray | None]:
        """Return the cells of X, and the labels; sets the estimator's columns."""
        known = as_schema(self.schema)
        if y is None:
            return validate_table(self, X, schema=known), None
        numeric = self.label is not None and isinstance(as_column(self.label), Numeric)
        return validate_table(self, X, unwrap(y), schema=known, y_numeric=numeric)

    def _target_rows(self, X_target: Any, inputs: TableSchema) -> NDArray | Table:
        """Return the target's rows, checked: they are read here, and by nobody else."""
        with beside_X("X_target", X_target):
            known = as_schema(self.schema)
            rows = validate_table(self, X_target, schema=known, reset=False)
            inputs.check(rows)
        return rows

    def _publish(self, draft: _Draft) -> None:
        self._forget()
        # The release is paid for, so it is there, whatever comes now.
        self.sketch_ = draft.released()
        draft.drawn = self._summarize(self.sketch_, draft.claims, draft.columns, draft.target)

    def _summarize(
        self, sketch: Any, claims: PrivateSummaryPrivacy, columns: LabelledTable, target: Any
    ) -> SyntheticRows:
        """Draw rows of the sketch, weight and choose, and set what is fitted."""
        self.sketch_, self.privacy_, self.schema_ = sketch, claims, columns.inputs
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        n_select = int(self.n_select)
        n_synthetic = max(int(self.n_synthetic), n_select)
        drawn = SyntheticRows.draw(sketch, columns, target, n_synthetic, seed)
        rows = drawn.choose(n_select, seed)
        self.X_, self.y_ = columns.frame(rows), columns.labels(rows)
        self.effective_sample_size_ = drawn.effective_sample_size
        return drawn

    def _warn_last(self, draft: _Draft) -> None:
        if draft.target is not None:
            draft.drawn.warn_of_reach(draft.target, int(self.n_synthetic))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(self.schema)
        return tags


def label_column(given: Any, labels: NDArray | None) -> Column | None:
    """Return what is public of y, None where there is none."""
    if labels is None:
        return None
    if given is not None:
        return as_column(given)
    with silence():  # it may warn of how many rows there are
        is_number = type_of_target(labels).startswith("continuous")
    if is_number:
        raise ValueError(
            "label is missing: y holds numbers, and nothing is read off them. Give their public "
            "range, label=(low, high)."
        )
    if len(set(labels.tolist())) < 2:
        raise ValueError(
            "label is missing: y holds one label only. List all that there can be, label=[...]."
        )
    return Categorical(known_classes(labels, None).tolist())


def _groups_of(groups: Groups | None, rows: NDArray) -> Groups | None:
    """Return the groups of some rows, numbered among themselves."""
    if groups is None:
        return None
    return Groups.read([groups.labels[code] for code in groups.codes[rows]], len(rows))
