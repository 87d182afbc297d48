"""The estimator: all parties of a protocol in one process."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, indexable
from sklearn.utils.validation import check_is_fitted

from .._computing import in_a_search, warn_caller
from .._sklearn import Interval, RequestMethod, StrOptions, check_params
from ..privacy import PrivacyGuarantee, PrivacyLedger
from ..privacy._fit import PrivateFit, check_groups
from ..privacy._noise import derived_seed, drawing_from
from ..schema._groups import Groups
from ..schema._reading import CellError, beside_X, is_dask, label_cells, rows_of, unwrap
from ..schema._schema import SchemaLike, TableSchema, allowed, as_schema, schema_of
from ..schema._vectorizer import n_vector
from ._auction import Auction
from ._mmd import Embedding, RowReader, check_bounds, check_gamma, made_gamma, read_rows
from ._parties import (
    BAD_LABELS,
    OTHER_LABELS,
    Curator,
    DataOwner,
    PartitionOwners,
    read_owners,
    run_protocol,
)
from ._protocol import COSTS_NOTHING, Pool, Propose, Protocol, Terms

PROTOCOLS: dict[str, type[Protocol]] = {"propose": Propose, "pool": Pool, "auction": Auction}

_NO_TARGET = (
    "Pass the rows to match as X_target. It is missing, so X itself is the target; if you mean "
    "that, set target_is_owners=True."
)
_NO_LABELS = (
    "y must be one column, with a label for each row of X. Labels play no part in the choice; did "
    "you mean X_target=?"
)
_LEFT_OUT = (
    "Mend the rows of the owners in dropped_owners_: {} of {} owners take no part, because their "
    "rows cannot be read, or their labels are missing or of another kind than those of most owners."
)
ROUTED_TO_SUMMARIZER = ("X_target", "owners", "groups", "target_groups")
SEED_OF_OWNER_COINS = 10  # key of a seed, beside the curator's
GROUPS_IN_MEMORY = (
    "Call X.compute() first, or set max_rows_per_group=None: nobody tells which rows of a Dask "
    "collection's partitions are of one group."
)


class _CuratorOfFit(Curator):
    """A curator inside a fit, whose contract is the estimator's: it asks, charges and warns."""

    def _begin(self) -> None:
        """Leave it to the estimator, which has done so before it looked at a row."""

    def warn_of_result(self) -> None:
        """Leave it to the estimator, which sets its attributes first."""


def _label_cells(y: Any, n_rows: int) -> NDArray:
    """Return one label per row, as they are."""
    with suppress(CellError):
        cells = label_cells(y)
        if len(cells) == n_rows:
            return cells
    raise ValueError(_NO_LABELS)


@dataclass(frozen=True, repr=False)
class _Draft:
    """A run that is priced and not paid for: nothing has been released."""

    curator: _CuratorOfFit
    parties: Any
    members: dict[Any, Any]  # positions in X of each owner's rows
    faults: dict[Any, str] = field(default_factory=dict)  # owners that take no part, and why

    @property
    def privacy(self) -> PrivacyGuarantee:
        """What is charged: the costs for target and owners together."""
        protects = "the rows of owners and target"
        return replace(self.curator.privacy.owners, mechanism=self.curator.cost, protects=protects)


class PrivateMMDSummarizer(PrivateFit, BaseEstimator):
    """Choose rows from many owners that match a target, while owners learn nothing of one another.

    You are a consumer with a few rows D_v of the population that you care about. K owners hold
    many rows of other populations. A curator whom all trust chooses p of their rows, so that the
    maximum mean discrepancy (MMD) to D_v is small. Holds private data once fitted. (For synthetic
    rows in their place, see `SketchSummarizer`.)

    Parameters
    ----------
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. Give a schema for tables with
        words or missing values: it says how to read them, and rows are compared as vectors
        (`PublicVectorizer`). The rows that are chosen stay as they were. None, as tables of numbers
        need no schema, takes X as it is.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. The guarantee is for the target,
        against owners; and, where a protocol broadcasts anything about the rows received, for the
        rows of each owner, against the others. The default is a usual one. ``epsilon=np.inf`` adds
        no noise.
    delta : float, default=1e-6
        The delta of the guarantee. The default is below 1 / n for tables of fewer than a million
        rows. 0 takes Laplace noise.
    n_select : int, default=100
        p, how many rows to choose. 100 is a start: more rows train a better model, and show more of
        the owners' rows to you. Where fewer were received, fewer are chosen, with a UserWarning.
    protocol : {"propose", "pool", "auction"} or Protocol, default="propose"
        How curator and owners talk. `Propose` is the default since it takes one round and tells
        owners nothing of the rows of others; with `Pool` they learn nothing of the target either.
        `Auction` is the paper's, and has no valid guarantee. A name stands for
        the defaults of its class. To set its parameters, give an object: ``Propose(parsimony=6)``.
        They say which share of the rows each owner is asked for, and how much of the summary may be
        one owner's.
    gamma : "auto" or float, default="auto"
        Parameter of the kernel ``exp(-gamma |x - y|^2)`` of the vectors. "auto" follows from the
        schema alone, so it tells nothing of a row. Without a schema, give a number from public
        knowledge, per squared unit of the columns. Where it is too large, no two rows are alike and
        the choice is random. `fit` warns if what was released of the target shows it.
    n_components : int, default=1000
        d, the number of random Fourier features. Take many, as the default does: their error per
        score is about ``1 / sqrt(d)``, and their noise does not grow with d.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        The default keeps the number of rows private; "replace_one" takes it as public.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. Give `target_groups`, too. `fit` then protects groups of rows, usually all of a person.
        None protects single rows, as most tables have one row per person. An int k keeps k rows of
        each group, chosen by secret coins, of the target, and of each owner by itself: a group is
        taken to have rows of one owner only. "average" has each group of the target count once, and
        keeps all rows; it serves protocols that tell owners nothing of the rows of others
        ("propose", "pool").
    target_is_owners : bool, default=False
        Say True where rows of the target are the owners' own, even a few of them. They may be so in
        a copy, in another order, or behind a pipeline, which makes two tables of one. Releases
        about the target are then about the owners' rows, too, and the claims count both. A target
        that is missing, or is the object X itself, always counts so. False, the default, is for a
        target of your own: the claims then take it as given that target and owners share no row
        (`privacy_.owners.given`). Nobody compares rows, because the claims must not depend on them.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for frequencies, and for the curator's
        restarts. None draws new ones in each fit. With ``epsilon=np.inf`` it seeds the owners'
        coins, too, because nothing is kept from anyone.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. That is the costs for target and owners, added up. With None,
        nothing counts your fits: only you know what total to allow.

    Attributes
    ----------
    sample_indices_ : ndarray of int
        The chosen rows of X, in the order chosen.
    owner_counts_ : dict from owner to int
        How many of the chosen rows each owner has.
    owner_values_ : dict from owner to float
        What the rows of each owner added to ``J = |mu_v|^2 - MMD^2``, summed; for the curator
        alone.
    n_accessed_ : int
        Number of rows that the curator received.
    privacy_ : SummaryPrivacy
        Guarantees for the target and for the owners' data.
    transcript_ : dict from owner to list of Message
        All that each owner saw.
    dropped_owners_ : dict from owner to str
        Owners that failed, and why. Among them are those of X whose rows cannot be read, or whose
        labels are missing or of another kind than those of most owners.
    embedding_ : Embedding
        phi, public; of the vectors where there is a schema.
    gamma_ : float
        gamma, or what "auto" stands for; public.
    schema_ : TableSchema or None
        Schema of the columns of X that are used, in their order.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    Source: "Differentially Private Distributed Data Summarization under Covariate Shift"
    (Sarpatwar et al. 2019), with protocols of our own. The paper's auction has no valid guarantee,
    its bid has the wrong sign, and its MWEM costs three times what is claimed. Without `X_target`,
    X itself is the target. Its mean embedding is then a release about the owners' rows, and the
    claim for them says so.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import Categorical, Numeric, PrivateMMDSummarizer
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(0, 1, (500, 2)), rng.normal(3, 1, (500, 2))])
    >>> owners = np.repeat(["north", "south"], 500)
    >>> summarizer = PrivateMMDSummarizer(n_select=20, gamma=0.5, random_state=0)
    >>> summarizer = summarizer.fit(X, X_target=rng.normal(3, 1, (200, 2)), owners=owners)
    >>> summarizer.owner_counts_["south"] > 15, summarizer.n_accessed_
    (True, 320)
    >>> round(summarizer.privacy_.target.epsilon(1e-6), 3), summarizer.privacy_.owners.epsilon()
    (1.0, 0.0)

    Tables as they come, with a schema:

    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": rng.integers(17, 90, 600), "job": ["clerk", None] * 300})
    >>> schema = {"age": Numeric(17, 90, step=1), "job": Categorical(["clerk"], missing=True)}
    >>> summarizer = PrivateMMDSummarizer(schema, n_select=20, random_state=0)
    >>> rows = summarizer.fit_resample(people, X_target=people[people.age > 60])
    >>> bool(rows.age.mean() > 60)
    True

    See Also
    --------
    SketchSummarizer : Synthetic rows, where no row may leave an owner.
    SummarizedEstimator : Chooses rows and trains a model on them, as one estimator.
    greedy_mmd_selection : The choice without privacy.
    """

    set_fit_resample_request = RequestMethod("fit_resample", sorted(ROUTED_TO_SUMMARIZER))
    __metadata_request__fit: ClassVar[dict[str, bool]] = dict.fromkeys(ROUTED_TO_SUMMARIZER, True)
    __metadata_request__fit_resample: ClassVar[dict[str, bool]] = __metadata_request__fit

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateFit._parameter_constraints,
        "n_select": [Interval(Integral, 1, None, closed="left")],
        "protocol": [StrOptions(set(PROTOCOLS)), Protocol],
        "schema": "no_validation",  # `TableSchema` says what is wrong, and with which column
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "target_is_owners": ["boolean"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        n_select: int = 100,
        protocol: str | Protocol = "propose",
        gamma: float | str = "auto",
        n_components: int = 1000,
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
        self.protocol = protocol
        self.gamma = gamma
        self.n_components = n_components
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.target_is_owners = target_is_owners
        self.random_state = random_state
        self.ledger = ledger

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_target: Any = None,
        owners: Any = None,
        groups: Any = None,
        target_groups: Any = None,
    ) -> Self:
        """Run the protocol. Charges the ledger once.

        Parameters
        ----------
        X : array-like, frame, Dask array or Dask frame, of shape (n_samples, n_features)
            The rows of all owners. The partitions of a Dask collection are owners, named 0, 1, ...
            ("propose" and "pool" only); they answer where they are.
        y : array-like of shape (n_samples,), default=None
            Labels, one for each row of X. They play no part in the choice. None is no
            labels, as the choice needs none.
        X_target : array-like or frame of shape (m, n_features), default=None
            D_v. None summarises X itself, with a UserWarning that ``target_is_owners=True``
            avoids. The claims then count the release of its mean against the owners' rows, as they
            do with ``X_target=X``. Columns that a schema names are found by their names. Wrap it in
            `Public` where a search or cross-validation would otherwise cut it into folds.
            In a `Pipeline` it goes past the steps that transform X. To have it transformed, make
            the pipeline with ``transform_input=["X_target"]``, which needs
            ``sklearn.set_config(enable_metadata_routing=True)``.
        owners : array-like of shape (n_samples,), default=None
            The owner of each row. None is one owner, named "X", for a table that is one party's.
        groups : array-like of shape (n_samples,), default=None
            The group that each row of X belongs to, a person for example. Needed with
            `max_rows_per_group`; None, as single rows need none. Rows of two owners are never in
            one group.
        target_groups : array-like of shape (m,), default=None
            The same for X_target. Where X itself is the target, `groups` serves both. As X_target,
            wrap it in `Public` in a search or cross-validation.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data; nothing is charged.
        BudgetExceededError
            If the ledger cannot hold the run; nothing is charged.
        """
        data = unwrap(X_target), unwrap(owners), unwrap(target_groups)
        return self._private_fit(X, y, *data, groups=unwrap(groups))

    def fit_resample(
        self,
        X: Any,
        y: Any = None,
        *,
        X_target: Any = None,
        owners: Any = None,
        groups: Any = None,
        target_groups: Any = None,
    ) -> Any:
        """Run the protocol, and return the chosen rows with their labels.

        In a pipeline of imbalanced-learn, turn on scikit-learn's ``enable_metadata_routing``.
        Without it the pipeline leaves out `X_target` and `owners`, and only the warning that
        X_target is missing tells you.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        X_target, owners, groups, target_groups : as in `fit`

        Returns
        -------
        X_resampled : of the kind of X, shape (n_selected, n_features)
        y_resampled : of the kind of y, shape (n_selected,)
            Only if y is given.
        """
        if is_dask(X):
            raise ValueError(
                "fit_resample takes rows in memory; with a Dask collection call fit, and take the "
                "rows of sample_indices_ (of a frame, by to_dask_array(lengths=True))."
            )
        X, y = indexable(X, y)
        labels = {"groups": groups, "target_groups": target_groups}
        self.fit(X, y, X_target=X_target, owners=owners, **labels)
        chosen = rows_of(X, self.sample_indices_)
        return chosen if y is None else (chosen, rows_of(y, self.sample_indices_))

    def vectors(self, X: Any) -> NDArray[np.float64]:
        """Return rows as the kernel sees them: vectors of the schema, or numbers as they are.

        Parameters
        ----------
        X : array-like or frame of shape (m, n_features)
            Any table with the columns of the table that was fitted.

        Returns
        -------
        ndarray of shape (m, n_columns)
            Give these to `embedding_`, and to `mmd2` with ``gamma=gamma_``.
        """
        check_is_fitted(self, "gamma_")
        return read_rows(self, X, reset=False)

    @property
    def holds_private_data(self) -> bool:
        """True once fitted: which rows were chosen, and from whom, is private."""
        return hasattr(self, "sample_indices_")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._made_protocol()  # which checks it
        check_gamma(self.gamma, self.schema)
        check_bounds(self.schema)

    def _made_protocol(self) -> Protocol:
        name = self.protocol
        made = PROTOCOLS[name]() if isinstance(name, str) else name
        check_params(made)
        return made

    def _ask_ledger(self) -> None:
        if self._made_protocol().is_nominal():
            super()._ask_ledger()

    def _draft(
        self,
        noise_seed: int | None,
        X: Any,
        y: Any,
        X_target: Any,
        owners: Any,
        target_groups: Any = None,
        groups: Any = None,
    ) -> _Draft:
        # Public facts alone decide: what is claimed and charged must not depend on a row.
        is_target = X_target is None or X_target is X
        of_owners = bool(self.target_is_owners) or is_target
        target_groups = self._groups_of_target(is_target, groups, target_groups)
        if is_dask(X):
            return self._draft_of_partitions(noise_seed, X, X_target, owners, of_owners)
        if X_target is None and not (self.target_is_owners or in_a_search()):
            warn_caller(_NO_TARGET, UserWarning)
        shares = self._made_protocol().shares
        tables = read_owners(self, X, owners, shares, as_one=is_target)
        members = tables.members
        cells = None if y is None else _label_cells(unwrap(y), tables.n_rows)
        groups_read = None if groups is None else Groups.read(groups, tables.n_rows)
        target = tables.whole[:] if is_target else self._target_rows(X_target)
        rng = check_random_state(self.random_state)
        parts = target, list(members), of_owners, rng, target_groups
        curator = self._make_curator(noise_seed, *parts)
        parties: dict[Any, Any] = dict.fromkeys(members)
        faults = tables.faults
        for k, (name, rows) in enumerate(members.items()):
            seed = self._coins_seed(noise_seed, k, rng)
            own = None
            if groups_read is not None:
                own = [groups_read.labels[code] for code in groups_read.codes[rows]]
            bound = {"groups": own, "max_rows_per_group": self.max_rows_per_group}
            if name in faults:
                continue
            # Each owner is judged by its own labels. Which kind most owners have is the curator's
            # to tell, once no message follows: who takes part must not hang on a label of others.
            try:
                own_labels = None if cells is None else cells[rows]
                parties[name] = DataOwner(tables.rows[name], own_labels, seed=seed, **bound)
            except ValueError as error:
                faults[name], fault = BAD_LABELS, error
        if not any(len(members[name]) for name in members if name not in faults):
            raise fault  # what is wrong is no matter of one owner
        if faults:
            warn_caller(_LEFT_OUT.format(len(faults), len(members)), UserWarning)
        return _Draft(curator, parties, members, faults)

    def _groups_of_target(self, is_target: bool, groups: Any, target_groups: Any) -> Any:
        """Return whose the rows of the target are; raise ValueError where nobody says so."""
        if not is_target:
            check_groups("X_target", self.max_rows_per_group, target_groups, "target_groups")
            return target_groups
        if target_groups is not None:
            raise ValueError(
                "X itself is the target, so that `groups` says whose its rows are: leave "
                "target_groups out, or give the rows that it belongs to as X_target."
            )
        return groups

    def _draft_of_partitions(
        self, noise_seed: int | None, X: Any, X_target: Any, owners: Any, of_owners: bool
    ) -> _Draft:
        """Draft a run of one round with the partitions of a Dask collection as owners."""
        if self.max_rows_per_group is not None:
            raise ValueError(GROUPS_IN_MEMORY)
        if not isinstance(self._made_protocol(), Propose):
            raise ValueError(
                f"protocol={self.protocol!r} has many rounds, and partitions keep nothing between "
                'them: set protocol="propose" or "pool", or call X.compute() first.'
            )
        if X_target is None or owners is not None:
            raise ValueError(
                "The owners of a Dask collection are its partitions: leave `owners` out, and give "
                "the target as X_target, in memory."
            )
        parties = PartitionOwners(self, X)
        target = self._target_rows(X_target)
        rng = check_random_state(self.random_state)
        curator = self._make_curator(noise_seed, target, list(parties), of_owners, rng)
        names = list(curator.shares)
        parties.seed({name: self._coins_seed(noise_seed, k, rng) for k, name in enumerate(names)})
        return _Draft(curator, parties, {name: parties.members[name] for name in names})

    def _target_rows(self, X_target: Any) -> NDArray:
        """Return the target's rows; a refusal says what a pipeline does not do for them."""
        with beside_X("X_target", X_target):
            known = as_schema(self.schema)
            if known is not None and known.names is not None:  # in any order, by their names
                return RowReader(known).read(X_target)
            return read_rows(self, X_target, reset=False)

    def _make_curator(
        self,
        noise_seed: int | None,
        target: NDArray,
        names: list[Any],
        of_owners: bool,
        rng: np.random.RandomState,
        target_groups: Any = None,
    ) -> _CuratorOfFit:
        gamma = made_gamma(self.gamma, self._schema_of_table())
        terms = replace(self.terms(gamma), target_is_owners=of_owners)
        own = {"random_state": rng, "target_groups": target_groups}
        with drawing_from(noise_seed):  # the estimator pays, so the curator has no ledger
            return _CuratorOfFit(target, names, terms, **own)

    def terms(self, gamma: float | None = None) -> Terms:
        """Return the parameters of a run, for a `Curator` whose owners are elsewhere. No data.

        Parameters
        ----------
        gamma : float, default=None
            Of the columns that the curator has. None is the estimator's own, where "auto" follows
            from the schema.

        Returns
        -------
        Terms

        Raises
        ------
        ValueError
            For bad parameters.
        """
        self._check_parameters()
        if gamma is None:
            gamma = made_gamma(self.gamma, as_schema(self.schema))
        given = {term.name: getattr(self, term.name) for term in fields(Terms)}
        given |= {"protocol": self._made_protocol(), "gamma": gamma}
        # Numbers of numpy would round a budget, and overflow, in short types.
        given |= {name: int(given[name]) for name in ("n_select", "n_components")}
        given |= {name: float(given[name]) for name in ("gamma", "epsilon", "delta")}
        return Terms(**given)

    def _schema_of_table(self) -> TableSchema | None:
        return None if self.schema is None else schema_of(self)

    def _coins_seed(self, noise_seed: int | None, k: int, rng: np.random.RandomState) -> Any:
        # Without noise nothing is secret, so coins are as public as frequencies.
        seed = derived_seed(noise_seed, SEED_OF_OWNER_COINS, k)
        return rng.randint(2**31) if self.epsilon == np.inf else seed

    def _pay(self, privacy: PrivacyGuarantee) -> None:
        # "pool" tells owners public numbers only.
        if privacy.mechanism != COSTS_NOTHING:
            super()._pay(privacy)

    def _publish(self, draft: _Draft) -> None:
        self._forget()
        curator, members = draft.curator, draft.members
        run_protocol(curator, draft.parties)
        chosen = curator.chosen
        self.sample_indices_ = np.array([members[o][i] for o, i in chosen], np.int64)
        counts = Counter(owner for owner, _ in chosen)
        self.owner_counts_ = {owner: counts[owner] for owner in members}
        self.owner_values_ = curator.owner_values()
        self.n_accessed_ = len(curator.pool)
        self.privacy_ = curator.privacy
        self.transcript_ = curator.transcript
        self.dropped_owners_ = curator.dropped_owners | draft.faults
        self.embedding_, self.gamma_ = curator.embedding, curator.terms.gamma
        self.schema_ = self._schema_of_table()

    def _warn_last(self, draft: _Draft) -> None:
        Curator.warn_of_result(draft.curator)
        misfits = list(draft.curator.dropped_owners.values()).count(OTHER_LABELS)
        if misfits:
            warn_caller(_LEFT_OUT.format(misfits, len(draft.members)), UserWarning)
        if len(self.sample_indices_) < self.n_select:
            warn_caller(
                f"Lower n_select={self.n_select}, or raise parsimony or max_share_per_owner of the "
                "protocol, protocol=Propose(parsimony=...): owners sent fewer rows than that, or "
                "fewer that max_share_per_owner lets you choose.",
                UserWarning,
            )

    def preview_embedding(self, n_features: int) -> Embedding:
        """Return the feature map that the parties of a run will agree on; no data, no cost.

        Parameters
        ----------
        n_features : int
            Number of columns of X.

        Returns
        -------
        Embedding
            Of the vectors, where there is a schema.
        """
        rng = check_random_state(clone(self.random_state, safe=False))
        kind, known = self._made_protocol().embedding_kind, as_schema(self.schema)
        if known is not None:
            known = known.for_table(n_features)
        width = n_features if known is None else n_vector(known)
        gamma = made_gamma(self.gamma, known)
        return Embedding.draw(width, self.n_components, gamma, kind, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(self.schema)
        return tags
