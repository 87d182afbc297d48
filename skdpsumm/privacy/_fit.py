"""The contract of every private fit, written once.

`PrivateFit._private_fit` has its order, which is that of what it costs to fail: check the
parameters, warn of what public facts show, ask the ledger, validate the data, load what noise
needs, charge, compute, publish. Whatever raises before the charge costs nothing, a warning that is
made an error included; what is published is set as a whole.

Here is also how private estimators show themselves in notebooks: a privacy badge, and no
private value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from .._computing import warn_caller
from .._html import ListedMixin, cut
from .._sklearn import HasMethods, Interval, StrOptions, check_params
from ._guarantee import PrivacyGuarantee
from ._mechanisms import Mechanism
from ._noise import current_seed, load_noise, nominal_mechanism, secret_key
from ._warnings import PrivacyLeakWarning

# The attributes of a fit that a picture shows of an object that holds private data.
_PUBLIC_ATTRIBUTES = ("feature_names_in_", "n_features_in_", "privacy_")
# How the description of a column that `SchemaFinder` has found begins.
FOUND = "found privately"
# Characters of it that a guarantee repeats. `SchemaFinder` writes up to 130.
_LONGEST_FOUND = 200
_NOT_FITTED = "no scaler or other step that prepared the columns was fitted to private rows"
# True while the library itself clones, to fit once what the user gave it.
OWN_CLONES = ContextVar("own clones", default=False)
# The attributes that scikit-learn sets when it validates a table.
_COLUMN_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


def given_of_columns(*schemas: Any) -> str:
    """Return what a guarantee's `given` adds of columns that nobody described, or not by hand.

    A schema does what a scaler would be fitted for. Without one, somebody else may have done it.

    Parameters
    ----------
    *schemas : TableSchema, what stands for one, or None
        First what a table is read by, None where its columns have to be prepared.
    """
    told = [getattr(column, "description", "") or "" for one in schemas for column in _listed(one)]
    # Others may have written the text: it must not pass for more promises, nor spoil the file.
    words = (text.partition(";")[0][:_LONGEST_FOUND] for text in told if text.startswith(FOUND))
    found = dict.fromkeys(map(cut, words))
    facts = [_NOT_FITTED] if schemas[0] is None else []
    # Finders of equal cost write equal texts, and each of them has looked.
    cost = "which each finder costs on top"
    facts += [f"the schema was {text}, {cost}" for text in found]
    return "".join(f"; {fact}" for fact in facts)


def given_of_groups(limit: Any) -> str:
    """Return what a guarantee's `given` adds of groups, "" where single rows are protected."""
    counts = "each group counts as one row" if limit == "average" else "rows that are kept count"
    return "" if limit is None else f"; max_rows_per_group={limit!r} ({counts})"


def _listed(schema: Any) -> Iterable[Any]:
    """Return the columns of a schema, or of what stands for one."""
    columns = getattr(schema, "columns", schema)
    columns = columns.values() if isinstance(columns, Mapping) else columns
    return columns if isinstance(columns, Iterable) else [columns]


@contextmanager
def columns_kept(estimator: Any) -> Iterator[None]:
    """Let a fit that fails leave the columns of the fit before it, or none.

    Nor does numpy say or raise in it, whatever `numpy.seterr` is, what hangs on a private row.
    """
    before = {name: vars(estimator)[name] for name in _COLUMN_ATTRIBUTES if name in vars(estimator)}
    try:
        with np.errstate(all="ignore"):
            yield
    except BaseException:
        for name in _COLUMN_ATTRIBUTES:
            vars(estimator).pop(name, None)
        vars(estimator).update(before)
        raise


def warn_of_seed() -> None:
    """Warn that seeded noise protects nobody."""
    warn_caller(
        "Leave simulation(...) for a release: whoever knows its seed can compute the noise.",
        PrivacyLeakWarning,
    )


class PrivacyReprMixin(ListedMixin):
    """A repr that tells of private data, and of the noise; goes before `BaseEstimator`.

    scikit-learn 1.9 lists all fitted attributes in HTML; those of an object that holds private data
    are left out, for notebooks are passed on with their outputs.
    """

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]
        told = ["holds_private_data=True"] if getattr(self, "holds_private_data", False) else []
        told += filter(None, [getattr(getattr(self, "privacy_", None), "noise", "")])
        return f"<{text} {'; '.join(told)}>" if told else text

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        shown = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        if getattr(self, "holds_private_data", False):
            for name in set(shown) - set(_PUBLIC_ATTRIBUTES):
                del shown[name]
        return shown


class PrivateFit(PrivacyReprMixin):
    """An estimator whose `fit` is one release; goes before `BaseEstimator`.

    Subclasses call `_private_fit` and say what it is made of: `_check_parameters` sees no data,
    `_draft` returns what is validated and priced but not paid for, and `_publish` computes it and
    sets what is fitted.

    Parameters
    ----------
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, np.inf, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "adjacency": [StrOptions({"add_remove", "replace_one"})],
        "max_rows_per_group": [
            None,
            StrOptions({"average"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "random_state": ["random_state"],
        "ledger": [None, HasMethods(["check", "charge"])],
    }

    epsilon: float
    delta: float
    adjacency: str
    max_rows_per_group: Any
    random_state: Any
    ledger: Any

    # Labels of groups reach a fit behind a Pipeline or a search without being asked for.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    def _private_fit(self, *data: Any, groups: Any = None) -> Any:
        """Fit: the order of all steps of every private fit."""
        given = {} if groups is None else {"groups": groups}
        with columns_kept(self):
            noise_seed = self._begin(groups)  # checks, warns and asks the ledger; sees no data
            draft = self._draft(noise_seed, *data, **given)  # validates and prices
            self._pay(draft.privacy)  # loads what noise needs, and charges
            self._publish(draft)  # computes, and sets what is fitted
        self._warn_last(draft)
        return self

    def check_budget(self) -> None:
        """Raise what `fit` would raise for bad parameters or a ledger that is too full.

        It needs no data and charges nothing.

        Raises
        ------
        ValueError
            If parameters are not valid.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta.
        """
        self._check_parameters()
        self._ask_ledger()

    def _begin(self, groups: Any = None) -> int | None:
        """Do all that needs no data, and return the seed of the noise, None where it is real.

        What comes after it may look at private rows. Nothing after it asks for the seed again, so
        that a release has one source of noise, whatever `simulation` begins or ends meanwhile.
        """
        self._check_parameters()
        self._check_groups(groups)
        noise_seed = current_seed()
        if noise_seed is not None and self.epsilon != np.inf:
            warn_of_seed()
        self._warn_first()
        self._ask_ledger()
        return noise_seed

    def _warn_first(self) -> None:
        """Warn of what parameters alone show."""

    def _check_parameters(self) -> None:
        """Raise for whatever can be told without data."""
        check_params(self)
        nominal_mechanism(self.epsilon, self.delta)  # which checks their range

    def _check_groups(self, groups: Any) -> None:
        """Raise where `groups` comes without `max_rows_per_group`, or that without `groups`.

        A claim about groups is never silently one about rows, nor the other way round. Labels are
        not looked at. Estimators that have no groups in `fit` pass None.
        """
        check_groups(f"fit of {type(self).__name__}", self.max_rows_per_group, groups)

    def _check_rows_public(self) -> None:
        """Raise where rows are counted exactly, though groups of any size make their number."""
        if self.adjacency == "replace_one" and isinstance(self._limit, int):
            raise ValueError(
                f"adjacency='replace_one' with max_rows_per_group={self.max_rows_per_group!r} "
                "would publish the number of rows, which is private, for a group may have fewer. "
                "Set adjacency='add_remove'. Or set max_rows_per_group='average', which publishes "
                "the number of groups."
            )

    @property
    def _limit(self) -> Any:
        """`max_rows_per_group` as a Python int, "average" or None."""
        limit = self.max_rows_per_group
        return int(limit) if isinstance(limit, Integral) else limit

    @property
    def _rows_per_group(self) -> int:
        """How many rows' contributions one unit of protection adds at most."""
        return self._limit if isinstance(self._limit, int) else 1

    @property
    def _averages_groups(self) -> bool:
        """Whether each group counts once, its rows sharing a weight of one."""
        return self.max_rows_per_group == "average"

    @property
    def _unit(self) -> str:
        """`PrivacyGuarantee.unit` of what `fit` claims."""
        return "one row" if self.max_rows_per_group is None else "one group"

    @property
    def _given_number(self) -> str:
        """What a guarantee takes as given under "replace_one", "" where it does not."""
        if self.adjacency != "replace_one":
            return ""
        return f"the number of {'rows' if self.max_rows_per_group is None else 'groups'}"

    def _guaranteed(
        self, mechanism: Mechanism, given: str, noise_seed: int | None = None, **more: Any
    ) -> PrivacyGuarantee:
        """Return the guarantee of a fit with such a cost, which takes these facts as given."""
        return PrivacyGuarantee(
            mechanism,
            self.adjacency,
            unit=self._unit,
            given=given + given_of_columns(*self._described_by) + given_of_groups(self._limit),
            simulated=noise_seed is not None,
            counted=self.ledger is not None,
            **more,
        )

    @property
    def _described_by(self) -> Sequence[Any]:
        """The schema that a table is read by, None where the columns have to be prepared."""
        return [getattr(self, "schema", "")]

    def _group_key(self, noise_seed: int | None) -> bytes:
        """Return the secret key of the coins that choose among the rows of a group.

        Of a simulation it is made from its seed; without noise nothing is secret, and results are
        to be the same again.
        """
        return bytes(32) if self.epsilon == np.inf else secret_key(noise_seed)

    def _ask_ledger(self) -> None:
        """Raise BudgetExceededError if the ledger cannot hold what is asked for."""
        if self.ledger is not None:
            self._ask(nominal_mechanism(self.epsilon, self.delta))

    def _ask(self, mechanism: Mechanism, adjacency: str | None = None) -> None:
        """Ask the ledger for what `fit` will claim at least, of neighbours as told, or its own."""
        neighbours = self.adjacency if adjacency is None else adjacency
        self.ledger.check(PrivacyGuarantee(mechanism, neighbours, unit=self._unit))

    def _draft(self, noise_seed: int | None, *data: Any, **groups: Any) -> Any:
        """Validate, and return what is to be released; `privacy` of it is its guarantee."""
        raise NotImplementedError

    def _pay(self, privacy: PrivacyGuarantee) -> None:
        """Charge what a fit costs, in one step with the ledger's check."""
        charge(self.ledger, privacy, type(self).__name__)

    def _publish(self, draft: Any) -> None:
        """Compute the release and set what is fitted."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop what a fit before has set, but for the columns: should the rest fail, it is gone."""
        fitted = {name for name in vars(self) if name.endswith("_")}
        for name in fitted - set(_COLUMN_ATTRIBUTES):
            delattr(self, name)

    def _warn_last(self, draft: Any) -> None:
        """Warn of what the release shows. All is set: a warning made an error costs no release."""

    @property
    def holds_private_data(self) -> bool:
        """Whether private data, or what was computed of them without noise, are in memory."""
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.non_deterministic = bool(self.epsilon != np.inf and current_seed() is None)
        return tags


def charge(ledger: Any, privacy: PrivacyGuarantee, label: str) -> None:
    """Charge a ledger for what is released next; the one way in which a release is paid for.

    Parameters
    ----------
    ledger : PrivacyLedger or None
        None charges nothing.
    privacy : PrivacyGuarantee
    label : str
    """
    if ledger is None:
        return
    load_noise()  # where it cannot be drawn, the charge would pay for nothing
    ledger.charge(privacy, label=label)


def check_groups(name: str, limit: Any, groups: Any, labels: str = "groups") -> None:
    """Raise where `groups` or `max_rows_per_group` comes without the other; see `PrivateFit`."""
    if limit is None and groups is not None:
        raise ValueError(
            f"{name} got {labels}, but max_rows_per_group=None protects single rows, not "
            "groups. Set max_rows_per_group to an int, the most rows that a group may add, or to "
            '"average", which counts each group once.'
        )
    if limit is not None and groups is None:
        raise ValueError(
            f"max_rows_per_group={limit!r} protects groups, but {name} got none. Pass {labels}, "
            "one label for each row, or set max_rows_per_group=None to protect single rows. A "
            "Pipeline or a search passes groups on only with "
            "sklearn.set_config(enable_metadata_routing=True)."
        )


# ---- fits by clones of one estimator, and what the search that makes them will cost


def own_clone(estimator: Any) -> Any:
    """Return a clone that is no trial of a search, and starts no count."""
    token = OWN_CLONES.set(True)
    try:
        return clone(estimator)
    finally:
        OWN_CLONES.reset(token)
