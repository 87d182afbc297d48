"""What a release promises: to whom, against whom, and at what price."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .._html import cut, html_table
from ._mechanisms import ADJACENCIES, Mechanism, compose, mechanism_from_dict, parallel

_WORDS_OF_CHANGE = {"add_remove": "add or remove", "replace_one": "replace"}
_ONE_FIT = (
    "Covers this fit alone: further fits on these rows add up. Count them with ledger=..., and "
    "search with PrivateSearchCV."
)
_IDEALISED = "Idealised: noise or numbers of trials were drawn in floating point."


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a release promises, about whom, against whom, and at what price.

    Parameters
    ----------
    mechanism : Mechanism
        The cost: `PureDP`, `GaussianDP`, `ZeroConcentratedDP`, a composition of these, or
        `Unprotected` with the reason.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        Which data sets count as neighbours. The default, "add_remove", is that of estimators, and
        also keeps the number of rows private. Under "replace_one", this number is public.
    protects : str, default="the rows of X"
        Whose data the claim is about. The default suits most releases, which read X alone.
    against : str, default="public"
        Who may see the release: "public", "analyst", "owner coalition", "curator", "consumer". The
        default is "public" because most releases are for anyone.
    unit : str, default="one row"
        In what two neighbours differ. The default is "one row" because that is what estimators
        protect unless `max_rows_per_group` is set.
    given : str, default="the parameters of the estimator"
        The public information that the claim takes as given. Every claim takes at least the
        parameters as given, hence the default.
    simulated : bool, default=False
        True if it was made inside `simulation`, with noise from a seed: it protects nobody. The
        default is False because noise has no seed anywhere else.
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
        whom = f"{cut(self.protects)} against {self._whom}"
        if lost := self.mechanism.unprotected:
            lines = [f"Does not protect {whom}: {cut(lost.reason)}."]
        elif self.simulated:
            lines = [f"Would protect {whom}, had it been made outside simulation()."]
        else:
            lines = [f"Protects {whom}."]
        lines += [f"Takes as given: {cut(self.given)}.", *self._remarks()]
        return f"<PrivacyGuarantee {self.short}\n  " + "\n  ".join(lines) + ">"

    def _repr_html_(self) -> str:
        lost = self.mechanism.unprotected
        rows = [("because", lost.reason)] if lost else []
        rows += [("given", self.given), *(("note", remark) for remark in self._remarks())]
        return html_table(self.badge, (), rows, len(rows))

    @property
    def _whom(self) -> str:
        return _WHOM.get(self.against, cut(self.against))

    def _remarks(self) -> list[str]:
        """Return what there is to say beside the promise."""
        remarks = [_IDEALISED] if self.idealised else []
        remarks += [cut(self.noise)] if self.noise else []
        return remarks if self.counted or self.mechanism.unprotected else [*remarks, _ONE_FIT]

    @property
    def badge(self) -> str:
        """One line, for headings: the promise, whose rows it is about, and against whom."""
        return f"{self.short}: {cut(self.protects)}, against {self._whom}"

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
        line = f"({pair})-DP for {cut(self.unit)}, {_WORDS_OF_CHANGE[self.adjacency]}"
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

    def explain(self) -> Explanation:
        """Return the promise in plain words, for whoever signs it: as text, and as HTML.

        Examples
        --------
        >>> from skdpsumm.privacy import PrivacyGuarantee, PureDP
        >>> print(PrivacyGuarantee(PureDP(0.5)).explain())
        (0.5, 0)-DP for one row, add or remove
        ...
        """
        return Explanation(self.short, tuple(_lines(self)))

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
        assumed = f"no {ledger_unit(merged.unit)} is in two of the tables that were added"
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


def ledger_unit(unit: str) -> str:
    """Return the unit of a guarantee as ledgers call it: "row" or "group"."""
    return unit.removeprefix("one ")


# ---- a promise in plain words

_WHO = {
    "public": "Anyone who sees the release, whatever else they know and however they compute",
    "analyst": "The analyst who gets the answers, whatever else they know",
    "curator": "The curator who runs the protocol, whatever else they know",
    "consumer": "Whoever receives the result, whatever else they know",
    "owner coalition": "All other owners together, whatever else they know",
}
_WHOM = {"public": "everyone", "owner coalition": "any coalition of owners"}
_WHOM |= {who: f"the {who}" for who in ("analyst", "curator", "consumer")}
_MORE_ROWS = 5  # the example of a person with several rows


@dataclass(frozen=True)
class Explanation:
    """A promise in plain words: print it, or look at it in a notebook.

    Parameters
    ----------
    title : str
    lines : tuple of (str, str)
        What each line is about, and what it says. One about "" goes on with the line before it.
    """

    title: str
    lines: tuple[tuple[str, str], ...]

    @classmethod
    def joined(cls, title: str, parts: dict[str, Explanation]) -> Explanation:
        """Return several promises under one title."""
        found = [
            (f"{name}: {about}", said)
            for name, part in parts.items()
            for about, said in (("promise", part.title), *part.lines)
        ]
        return cls(title, tuple(found))

    def __repr__(self) -> str:
        told = [cut(self.title)]
        for about, said in self.lines:
            told += ["", about] if about else []
            told.append(textwrap.indent(textwrap.fill(cut(said), 88), "  "))
        return "\n".join(told)

    def _repr_html_(self) -> str:
        return html_table(self.title, (), self.lines, len(self.lines))


def _lines(claim: PrivacyGuarantee) -> Iterator[tuple[str, str]]:
    lost = claim.mechanism.unprotected
    if lost:
        yield "What is promised", f"Nothing, for {claim.protects}: {lost.reason}."
        return
    if claim.simulated:
        yield (
            "What is promised",
            "Nothing: the noise has a seed, and whoever has it can take it off.",
        )
        yield "What it would promise without a seed", _promise(claim)
        return
    yield "What is promised", _promise(claim)
    if math.isinf(claim.epsilon(0.0)):
        known = {k: claim.epsilon(10.0**-k) for k in (3, 5, 7, 9)}
        pairs = [f"({e:.4g}, 1e-{k})" for k, e in known.items() if math.isfinite(e)]
        yield "The same promise at other deltas", f"{', '.join(pairs) or 'none is known'}."
    yield "In figures", _odds(claim, claim.unit, claim.mechanism)
    if claim.unit == "one row":
        yield "For a person with several rows", _several(claim)
    else:
        yield (
            "What a group is",
            "All rows with one label, usually a person's. Ask which column it was.",
        )
    yield "Against whom", f"{_WHO.get(claim.against, claim.against)}."
    yield "What it takes as given", f"{claim.given}."
    yield (
        "What it does not promise",
        "The release tells what is true of many. If it shows that smokers fall ill, whoever knows "
        "a smoker learns that of them, whether they are in the table or not.",
    )
    if not claim.counted:
        yield (
            "What adds up",
            "This counts one fit, and no ledger counted it. Each further release from the same "
            "rows weakens the promise. To keep count, give every fit one PrivacyLedger.",
        )
    if claim.idealised:
        yield "What is idealised", "Noise, or trials of a search, came in floating point."
    if claim.noise:
        yield "How large the noise is", f"{claim.noise}."


def _promise(claim: PrivacyGuarantee) -> str:
    change = {
        "add_remove": f"Take {claim.unit} out of {claim.protects}, or put one more in",
        "replace_one": f"Replace {claim.unit} among {claim.protects} by any other",
    }
    return (
        f"{change[claim.adjacency]}: every result stays nearly as likely as it was. The law of "
        f"this is differential privacy, with {claim.price}."
    )


def _odds(claim: PrivacyGuarantee, who: str, mechanism: Mechanism) -> str:
    """Return how often a best guess is right: half of 1 + the distance in total variation."""
    asked = {
        "add_remove": f"whether {who} went into {claim.protects}",
        "replace_one": f"which of two values {who} among {claim.protects} had",
    }
    return (
        f"Suppose that a coin decided {asked[claim.adjacency]}, and somebody knows all else. Their "
        f"best guess is right 50 times in 100 without the release, and at most "
        f"{math.ceil(500 * (1 + mechanism.delta(0.0))) / 10:g} times with it."
    )


def _several(claim: PrivacyGuarantee) -> str:
    try:
        odds = _odds(claim, f"all {_MORE_ROWS} rows of a person", claim.mechanism.group(_MORE_ROWS))
    except ValueError:  # no bound is known
        odds = "How much less, nobody has derived for this kind of noise."
    return (
        f"It protects one row, and a person with several less. {odds} To protect persons, give "
        "`fit` their groups, and set max_rows_per_group."
    )
