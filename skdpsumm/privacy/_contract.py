"""What a release promises, and the contract of every private fit, written once.

The order is that of what it costs to fail: check the parameters, warn of what public facts show,
ask the ledger, validate the data, load what noise needs, charge, compute, publish. Whatever raises
before the charge costs nothing, a warning that is made an error included; what is published is set
as a whole.

Here is also how private estimators show themselves in notebooks: a privacy badge, links, and no
private value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform, runtime_checkable

import numpy as np

from .._computing import warn_caller
from .._html import DocLinkMixin, cut, html_table
from .._sklearn import HasMethods, Interval, StrOptions, _VisualBlock, check_params
from ._compositions import compose, parallel
from ._mechanisms import ADJACENCIES, Mechanism, mechanism_from_dict
from ._noise import load_noise, nominal_mechanism, secret_key
from ._warnings import PrivacyLeakWarning

T = TypeVar("T")
# All that a picture of an object with private data shows of what was fitted.
_PUBLIC_ATTRIBUTES = ("feature_names_in_", "n_features_in_", "privacy_")
_COLUMNS = ("n_features_in_", "feature_names_in_")
_CHANGES = {"add_remove": "add or remove", "replace_one": "replace"}

_ONE_FIT = (
    "counts one fit: others on these rows add up (count them with ledger=..., and search with "
    "PrivateSearchCV)"
)
_IDEALISED = "idealised: noise or numbers of trials were drawn in floating point"
_NOT_FITTED = "no scaler or other step that prepared the columns was fitted to private rows"


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a release promises, about whom, against whom, and at what price.

    Parameters
    ----------
    mechanism : Mechanism
        The cost: `PureDP`, `GaussianDP`, `ZeroConcentratedDP`, `EventDP`, a composition of these,
        or `Unprotected` with the reason.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        Which data sets count as neighbours. The default, "add_remove", is that of estimators, and
        also keeps the number of rows private. Under "replace_one", this number is public.
    protects : str, default="the rows of X"
        Whose data the claim is about. The default suits most releases, which read X alone.
    against : str, default="public"
        Who may see the release: "public", "analyst", "owner coalition", "curator", "consumer". The
        default is "public" because most releases are for anyone.
    unit : str, default="one row"
        What one neighbour differs in. The default is "one row" because that is what estimators
        protect unless `max_rows_per_group` is set.
    given : str, default="the parameters of the estimator"
        The public information that the claim takes as given. Every claim takes at least the
        parameters as given, hence the default.
    simulated : bool, default=False
        True if the noise came from a seed (`noise_seed`). Such a release is a simulation, and
        protects nobody. The default is False because noise has no seed unless you set one.
    idealised : bool, default=False
        True if noise, or the trials of a search, were drawn in floating point, for want of an exact
        sampler. The default is False because noise in integers has one.
    noise : str, default=""
        How large the noise of the release is, for people to read. Nothing is said where it is not
        known, hence the default. It is no part of the promise: comparisons ignore it, and sums and
        files leave it out.
    counted : bool, default=True
        False if a fit had no ledger: then the text adds that further fits add up. It is no part of
        the promise either. The default says nothing, as of a release that came in a file.

    Examples
    --------
    >>> from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PureDP
    >>> one = PrivacyGuarantee(PureDP(0.5))
    >>> (one + one).epsilon(0)
    1.0
    >>> round(PrivacyGuarantee(GaussianDP(0.5)).epsilon(1e-6), 3)
    2.254
    """

    mechanism: Mechanism
    adjacency: str = "add_remove"
    protects: str = "the rows of X"
    against: str = "public"
    unit: str = "one row"
    given: str = "the parameters of the estimator"
    simulated: bool = False
    idealised: bool = False
    noise: str = field(default="", compare=False)
    counted: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ValueError(f"mechanism must be a Mechanism, got {self.mechanism!r}.")
        if self.adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {self.adjacency!r}.")
        words = (self.protects, self.against, self.unit, self.given, self.noise)
        if not all(isinstance(text, str) for text in words):
            raise ValueError("protects, against, unit, given and noise must be text.")
        if not (type(self.simulated) is bool and type(self.idealised) is bool):
            raise ValueError("simulated and idealised must be True or False.")

    def epsilon(self, delta: float = 0.0) -> float:
        """Return an epsilon at which the release is (epsilon, `delta`)-differentially private.

        Parameters
        ----------
        delta : float, default=0.0
            In [0, 1). Gaussian noise has a finite epsilon only above 0, for example at 1e-6. The
            default, 0, asks for pure differential privacy, the strictest claim.

        Returns
        -------
        float
        """
        if not 0 <= delta < 1:
            raise ValueError(f"delta must lie in [0, 1), got {delta!r}.")
        return self.mechanism.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return a delta at which the release is (`epsilon`, delta)-differentially private."""
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon!r}.")
        return self.mechanism.delta(epsilon)

    def __add__(self, other: PrivacyGuarantee) -> PrivacyGuarantee:
        return _merge([self, other], compose)

    def __repr__(self) -> str:
        lines = [] if not self.simulated else ["SIMULATED (noise_seed is set): protects nobody."]
        lost = self.mechanism.unprotected
        if lost:
            lines.append(f"No guarantee: epsilon = inf, because {cut(lost.reason)}.")
        neighbours = f"{cut(self.unit)}, {self.adjacency.replace('_', '-')}"
        lines.append(
            f"protects {cut(self.protects)} ({neighbours}) against {cut(self.against)}, "
            f"given {cut(self.given)}"
        )
        lines += self._remarks()
        return f"<PrivacyGuarantee {self._cost()}\n  " + "\n  ".join(lines) + ">"

    def _repr_html_(self) -> str:
        lost = self.mechanism.unprotected
        rows = [("because", lost.reason)] if lost else [("cost", self._cost())]
        rows += [("given", self.given), *(("note", remark) for remark in self._remarks())]
        return html_table(self.badge, (), rows, len(rows))

    def _remarks(self) -> list[str]:
        """Return what there is to say beside the promise."""
        remarks = [_IDEALISED] if self.idealised else []
        remarks += [cut(self.noise)] if self.noise else []
        return remarks if self.counted or self.mechanism.unprotected else [*remarks, _ONE_FIT]

    @property
    def badge(self) -> str:
        """One line, for headings: the price, and what it protects."""
        unit = f"{cut(self.unit)}, {self.adjacency.replace('_', '-')}"
        line = f"{self.price} ({unit}), protects {cut(self.protects)} against {cut(self.against)}"
        if self.simulated:
            return f"SIMULATED, protects nobody: {line}"
        return f"{line}, idealised noise" if self.idealised else line

    @property
    def short(self) -> str:
        """The promise as people say it, at delta = 1e-6 where it is not pure.

        Examples
        --------
        >>> from skdpsumm.privacy import PrivacyGuarantee, PureDP
        >>> PrivacyGuarantee(PureDP(0.5)).short
        '(0.5, 0)-DP for one row, add or remove'
        """
        if self.mechanism.unprotected:
            return "no guarantee"
        pure = self.mechanism.epsilon(0.0)
        pair = f"{pure:.4g}, 0" if math.isfinite(pure) else f"{self.epsilon(1e-6):.4g}, 1e-6"
        line = f"({pair})-DP for {cut(self.unit)}, {_CHANGES[self.adjacency]}"
        if self.simulated:
            return f"SIMULATED, protects nobody: {line}"
        return f"{line}, idealised noise" if self.idealised else line

    @property
    def price(self) -> str:
        """The price: epsilon, at delta = 1e-6 where it is not pure."""
        pure = self.mechanism.epsilon(0.0)
        if math.isfinite(pure):
            return f"epsilon={pure:.4g}, delta=0"
        if self.mechanism.unprotected:
            return "no guarantee: epsilon=inf"
        return f"epsilon={self.epsilon(1e-6):.4g} at delta=1e-06"

    def _cost(self) -> str:
        pure = self.mechanism.epsilon(0.0)
        if math.isfinite(pure):
            return f"epsilon={pure:.4g}, delta=0"
        if self.mechanism.unprotected:
            return "epsilon=inf"
        pairs = ", ".join(f"epsilon={self.epsilon(d):.4g} at delta={d:g}" for d in (1e-6, 1e-9))
        return f"{pairs} ({cut(repr(self.mechanism))})"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description, from which `from_dict` rebuilds the guarantee."""
        promised = {name: getattr(self, name) for name in _promised()}
        return promised | {"mechanism": self.mechanism.to_dict()}

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> PrivacyGuarantee:
        """Rebuild a guarantee from its `to_dict`.

        Raises
        ------
        ValueError
            If its entries have other names or kinds, or its mechanism is unknown.
        """
        if not isinstance(description, dict) or set(description) != set(_promised()):
            raise ValueError(
                f"The description of a guarantee must have the entries {_promised()} and no "
                "others, as `to_dict` returns them."
            )
        mechanism = mechanism_from_dict(description["mechanism"])
        return cls(**(description | {"mechanism": mechanism}))

    @staticmethod
    def parallel(guarantees: Iterable[PrivacyGuarantee]) -> PrivacyGuarantee:
        """Return the guarantee of releases from data sets that share no unit: no row, no group.

        Make sure that they share none. The guarantee takes it as given, and says so.
        """
        merged = _merge(list(guarantees), parallel)
        assumed = f"no {_ledger_unit(merged.unit)} is in two of the tables that were added"
        parts = dict.fromkeys([*merged.given.split("; "), assumed])
        return replace(merged, given="; ".join(parts))


def _promised() -> list[str]:
    """Return the names of what a guarantee promises: its fields, but for what it tells beside."""
    return [one.name for one in fields(PrivacyGuarantee) if one.compare]


def _merge(guarantees: list[PrivacyGuarantee], rule: Any) -> PrivacyGuarantee:
    first = guarantees[0]
    for name in ("adjacency", "protects", "against", "unit"):
        values = {getattr(g, name) for g in guarantees}
        if len(values) > 1:
            raise ValueError(
                f"Guarantees that differ in {name} cannot be added: {sorted(values)}. "
                "State them side by side."
            )
    return replace(
        first,
        mechanism=rule([g.mechanism for g in guarantees]),
        given="; ".join(dict.fromkeys(part for g in guarantees for part in g.given.split("; "))),
        simulated=any(g.simulated for g in guarantees),
        idealised=any(g.idealised for g in guarantees),
        noise="",
        counted=True,  # they are added up here
    )


def given_of_columns(schema: Any) -> str:
    """Return what a guarantee's `given` adds of columns that no schema describes.

    A schema does what a scaler would be fitted for. Without one, somebody else may have done it.
    """
    return "" if schema is not None else f"; {_NOT_FITTED}"


def _ledger_unit(unit: str) -> str:
    """Return the unit of a guarantee as ledgers call it: "row" or "group"."""
    return unit.removeprefix("one ")


@contextmanager
def columns_kept(estimator: Any) -> Iterator[None]:
    """Let a fit that fails leave the columns of the fit before it, or none.

    Nor does numpy say or raise in it, whatever `numpy.seterr` is, what hangs on a private row.
    """
    before = {name: vars(estimator)[name] for name in _COLUMNS if name in vars(estimator)}
    try:
        with np.errstate(all="ignore"):
            yield
    except BaseException:
        for name in _COLUMNS:
            vars(estimator).pop(name, None)
        vars(estimator).update(before)
        raise


def warn_of_seed() -> None:
    """Warn that seeded noise protects nobody."""
    warn_caller(
        "Set noise_seed=None for a release. With a seed, anyone who learns it can compute the "
        "noise: use it for simulations only.",
        PrivacyLeakWarning,
    )


def _without_weights(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `fit` that names the class, and the reason, where it is given weights."""

    @wraps(fit)
    def checked(self: Any, *data: Any, **named: Any) -> Any:
        if "sample_weight" in named:
            raise TypeError(
                f"{type(self).__name__}.fit takes no sample_weight: noise hides what a row of "
                "weight 1 adds, and a weight could make it more. Leave it out. If rows of one "
                "person are to share a weight of 1, set max_rows_per_group='average' and give "
                "groups."
            )
        return fit(self, *data, **named)

    return checked


class UnweightedMixin:
    """Every `fit` of a subclass says why it takes no weights. Its signature stays as it is."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in vars(cls):
            setattr(cls, "fit", _without_weights(vars(cls)["fit"]))  # noqa: B010


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Write the constructor of an estimator from its annotated parameters, inherited ones included.

    scikit-learn's constructors take parameters by name, store them as they are and do nothing else,
    which is what a dataclass does. So a parameter that many estimators share stands once, with its
    default. The principal argument may come by position: ``field(default=..., kw_only=False)``.
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    # Not on the class, where a constructor that forgets ``super().__init__`` would find a default
    # epsilon and no ledger.
    for parameter in fields(made):  # type: ignore[arg-type]
        if parameter.name in vars(made):
            delattr(made, parameter.name)
    return made


class PrivacyReprMixin(DocLinkMixin):
    """HTML representation with the guarantee in one line; goes before `BaseEstimator`.

    The badge is part of the estimator's block, so it is there in a `Pipeline` and a search, too.
    scikit-learn 1.9 lists all fitted attributes; those of an object that holds private data are
    left out, for notebooks are passed on with their outputs.
    """

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]
        told = ["holds_private_data=True"] if getattr(self, "holds_private_data", False) else []
        told += self._told_of_noise
        return f"<{text} {'; '.join(told)}>" if told else text

    @property
    def _told_of_noise(self) -> list[str]:
        """What `privacy_` says of the noise."""
        noise = getattr(getattr(self, "privacy_", None), "noise", "")
        return [noise] if noise else []

    @property
    def _badge(self) -> str:
        """The guarantee in one line, private data that are held, the noise; "" where none is."""
        lines = [self.privacy_.badge] if hasattr(self, "privacy_") else []
        lines += ["holds private data"] if getattr(self, "holds_private_data", False) else []
        return "; ".join(lines + self._told_of_noise)

    def _sk_visual_block_(self) -> Any:
        block, badge, parts = _VisualBlock, self._badge, self._parts()
        if not parts:
            name, text = type(self).__name__, str(self)
            return block("single", self, names=name, name_details=text, name_caption=badge or None)
        names, estimators = zip(*parts, strict=True)
        reprs = [str(one) for one in estimators]
        inner = block("parallel", estimators, names=names, name_details=reprs)
        if not badge:
            return inner
        # Blocks with parts have no caption, so the badge is a block of its own above them.
        details = repr(getattr(self, "privacy_", badge))
        header = block("single", None, names=badge, name_details=details)
        return block("serial", [header, inner], dash_wrapped=False)

    def _parts(self) -> list[tuple[str, Any]]:
        """Return the estimators among the parameters, by their headings."""
        params = self.get_params(deep=False).items()  # type: ignore[attr-defined]
        return [
            (f"{name}: {type(value).__name__}", value)
            for name, value in params
            if hasattr(value, "get_params")
            and hasattr(value, "fit")
            and not isinstance(value, type)
        ]

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        shown = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        if getattr(self, "holds_private_data", False):
            for name in set(shown) - set(_PUBLIC_ATTRIBUTES):
                del shown[name]
        return shown


@estimator
class PrivateFit(UnweightedMixin, PrivacyReprMixin):
    """An estimator whose `fit` is one release; goes before `BaseEstimator`.

    Subclasses call `_private_fit` and say what it is made of: `_check_parameters` and
    `_warn_first` see no data, `_draft` returns what is validated and priced but not paid for, and
    `_publish` computes it and sets what is fitted.

    Parameters
    ----------
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    noise_seed : int or None, default=None
        Seed of the noise, for simulations only. None draws noise from the operating system, because
        noise that somebody can draw again protects nobody.
    ledger : PrivacyLedger or LedgerDataset, default=None
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
        "noise_seed": [None, Interval(Integral, 0, None, closed="left")],
        "ledger": [None, HasMethods(["check", "charge"])],
    }

    epsilon: float = 1.0
    delta: float = 1e-6
    adjacency: str = "add_remove"
    max_rows_per_group: Any = None
    random_state: Any = None
    noise_seed: int | None = None
    ledger: Any = None

    # Labels of groups reach a fit behind a Pipeline or a search without being asked for.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    def _private_fit(self, *data: Any, groups: Any = None) -> Any:
        with columns_kept(self):
            self._begin(groups)
            draft = self._draft(*data, **({} if groups is None else {"groups": groups}))
            self._pay_for(draft)
            self._publish(draft)
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

    def _begin(self, groups: Any = None) -> None:
        """Do all that needs no data: what comes after it may look at private rows."""
        self._check_parameters()
        self._check_groups(groups)
        self._warn_first()
        self._ask_ledger()

    def _check_parameters(self) -> None:
        """Raise for whatever can be told without data."""
        check_params(self)
        nominal_mechanism(self.epsilon, self.delta)  # which checks their range

    def _check_groups(self, groups: Any) -> None:
        """Raise where `groups` comes without `max_rows_per_group`, or that without `groups`.

        A claim about groups is never silently one about rows, nor the other way round. Labels are
        not looked at. Estimators that have no groups in `fit` pass None.
        """
        check_groups(type(self).__name__, self.max_rows_per_group, groups)

    def _check_rows_public(self) -> None:
        """Raise where rows are counted exactly, though groups of any size make their number."""
        if self.adjacency == "replace_one" and self._rows_vary:
            raise ValueError(
                f"adjacency='replace_one' with max_rows_per_group={self.max_rows_per_group!r} "
                "would publish the number of rows, which is private, for a group may have fewer. "
                "Set adjacency='add_remove'. Or set max_rows_per_group='average', which publishes "
                "the number of groups."
            )

    @property
    def _limit(self) -> Any:
        """`max_rows_per_group` as a Python int, "average" or None."""
        return self._rows_per_group if self._rows_vary else self.max_rows_per_group

    @property
    def _rows_per_group(self) -> int:
        """How many rows' contributions one unit of protection adds at most."""
        limit = self.max_rows_per_group
        return int(limit) if isinstance(limit, Integral) else 1

    @property
    def _rows_vary(self) -> bool:
        """Whether a group adds a number of rows of its own, from none to `_rows_per_group`."""
        return isinstance(self.max_rows_per_group, Integral)

    @property
    def _averages_groups(self) -> bool:
        """Whether each group counts once, its rows sharing a weight of one."""
        return self.max_rows_per_group == "average"

    @property
    def _unit(self) -> str:
        """`PrivacyGuarantee.unit` of what `fit` claims."""
        return "one row" if self.max_rows_per_group is None else "one group"

    @property
    def _given_groups(self) -> str:
        """What a guarantee's `given` says of groups, "" where there are none."""
        if self.max_rows_per_group is None:
            return ""
        if self._averages_groups:
            return "; max_rows_per_group='average' (each group counts as one row)"
        return f"; max_rows_per_group={self._rows_per_group} (rows that are kept count)"

    def _group_key(self) -> bytes:
        """Return the secret key of the coins that choose among the rows of a group.

        Of a simulation it is made from its seed; without noise nothing is secret, and results are
        to be the same again.
        """
        return bytes(32) if self.epsilon == np.inf else secret_key(self.noise_seed)

    def _warn_first(self) -> None:
        """Warn of what public facts show."""
        if self.noise_seed is not None and self.epsilon != np.inf:
            warn_of_seed()

    def _ask_ledger(self) -> None:
        """Raise BudgetExceededError if the ledger cannot hold what is asked for."""
        if self.ledger is not None:
            claim = nominal_mechanism(self.epsilon, self.delta)
            self._ask(claim, self.adjacency)

    def _ask(self, claim: Mechanism, adjacency: str) -> None:
        """Ask the ledger for what `fit` will claim at least."""
        self.ledger.check(claim, adjacency=adjacency, unit=_ledger_unit(self._unit))

    def _draft(self, *data: Any, **groups: Any) -> Any:
        """Validate, and return what is to be released; `privacy` of it is its guarantee."""
        raise NotImplementedError

    def _pay_for(self, draft: Any) -> None:
        """Charge what a fit costs that is drafted."""
        self._pay(draft.privacy)

    def _pay(self, privacy: PrivacyGuarantee) -> None:
        """Charge what a fit costs."""
        self._charge(privacy, type(self).__name__)

    def _charge(self, privacy: PrivacyGuarantee, label: str) -> None:
        """Charge the ledger, in one step with its check."""
        charge(self.ledger, privacy, label)

    def _publish(self, draft: Any) -> None:
        """Compute the release and set what is fitted."""
        raise NotImplementedError

    def _warn_last(self, draft: Any) -> None:
        """Warn of what the release shows. All is set: a warning made an error costs no release."""

    @property
    def holds_private_data(self) -> bool:
        """Whether private data, or what was computed of them without noise, are in memory."""
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.non_deterministic = bool(self.epsilon != np.inf and self.noise_seed is None)
        return tags


def charge(ledger: Any, privacy: PrivacyGuarantee, label: str) -> None:
    """Charge a ledger for what is released next; the one way in which a release is paid for.

    Parameters
    ----------
    ledger : PrivacyLedger, LedgerDataset or None
        None charges nothing.
    privacy : PrivacyGuarantee
    label : str
    """
    if ledger is None:
        return
    load_noise()  # where it cannot be drawn, the charge would pay for nothing
    ledger.charge(
        privacy.mechanism,
        label=label,
        adjacency=privacy.adjacency,
        unit=_ledger_unit(privacy.unit),
        simulated=privacy.simulated,
    )


def check_groups(name: str, limit: Any, groups: Any) -> None:
    """Raise where `groups` or `max_rows_per_group` comes without the other; see `PrivateFit`."""
    if limit is None and groups is not None:
        raise ValueError(
            f"fit of {name} got groups, but max_rows_per_group=None protects single rows, not "
            "groups. Set max_rows_per_group to an int, the most rows that a group may add, or to "
            '"average", which counts each group once.'
        )
    if limit is not None and groups is None:
        raise ValueError(
            f"max_rows_per_group={limit!r} protects groups, but fit of {name} got none. Pass "
            "groups, one label for each row, or set max_rows_per_group=None to protect single "
            "rows. A Pipeline or a search passes groups on only with "
            "sklearn.set_config(enable_metadata_routing=True)."
        )


@runtime_checkable
class PricedLearner(Protocol):
    """A private learner whose price is known before a fit; `PrivateSearchCV` asks for it.

    A search takes any estimator with the parameters ``epsilon``, ``delta``, ``adjacency``,
    ``noise_seed`` and ``ledger`` (its own, or those of its ``sketcher``) that sets ``privacy_`` in
    `fit` and has ``holds_private_data`` False. One without these two methods is priced by fits to
    public rows. One with a parameter ``schema`` reads tables through it, cell by cell: it is given
    words and missing values, and public rows that fill the schema.
    """

    def planned_cost(self, X: Any, y: Any, *, X_public: Any = None) -> Mechanism:
        """Return what `fit` would cost, from public numbers: nothing is computed or charged."""

    def least_cost(self, X: Any, y: Any, *, X_public: Any = None) -> Mechanism | None:
        """Return what `fit` would cost at least, whatever its epsilon; None if that is nothing."""
