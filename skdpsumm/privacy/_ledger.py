"""The privacy ledger: a cap on what is spent, kept in a file that all processes share.

*The composition filter*: which sequences of charges a cap holds. Each charge, its size included,
may depend on everything released before. Sums that stay below a
bound fixed in advance are valid all the same: of pure epsilons [1]_, of ``mu**2`` for Gaussian
DP [2]_ [3]_, and of rho for zCDP [4]_ [5]_. Three remarks make one rule of them.

- *Discrete noise.* Replace every discrete Gaussian by its exactly Gaussian counterpart, release by
  release. Along any path this costs the product of the density ratios and the sum of the tails,
  so delta becomes ``tail + exp(log_ratio) * gdp_delta(mu, epsilon - 2 * log_ratio)`` of the totals.
  The ideal game is held to ``epsilon, delta`` less `RESERVE`, and the two sums to that reserve.
  So it is under zCDP, too. Discrete Gaussian noise is ``mu**2 / 2``-zCDP as it stands, but nothing
  in a `GaussianDP` says where its slack comes from, and a cap without slack gains a millionth.
- *All pure.* A path whose charges are all pure and sum to at most epsilon is fine as well. Let A
  be the transcripts that satisfied the first rule throughout: the game that halts where it fails
  gives ``P(E & A) <= exp(epsilon) Q(E & A) + delta``. On the others the loss is at most epsilon,
  surely: ``P(E - A) <= exp(epsilon) Q(E - A)``. The sum of both is the claim, at no extra delta.
- *The first charge* may have a tail t beyond that reserve, as values have that nobody listed. It is
  made before anything is released, so t is a number fixed in advance: the ideal game is held to
  ``epsilon, delta - t`` less `RESERVE`, and the sums of what comes later to that reserve. (How much
  of delta a later charge takes for its tail could depend on what came out: no theorem covers it.
  Another data set of the first one's partition may pay t, too: no row is in both, and t is fixed.)
- *Disjoint data sets.* A row is in one of them, so no row pays more than the maximum, and a bound
  on what each single row can pay along any path is all that [1]_ to [5]_ need.

References
----------
.. [1] Rogers, Roth, Ullman and Vadhan (2016), "Privacy odometers and filters".
.. [2] Smith and Thakurta (2022), "Fully adaptive composition for Gaussian differential privacy".
.. [3] Koskela, Tobaben and Honkela (2023), "Individual privacy accounting with Gaussian
       differential privacy".
.. [4] Feldman and Zrnic (2021), "Individual privacy accounting via a Renyi filter".
.. [5] Whitehouse, Ramdas, Rogers and Wu (2023), "Fully adaptive composition in differential
       privacy".
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

from .._bounded import check_json
from .._html import cut, html_table
from ._fit import CloneWatch
from ._guarantee import PrivacyGuarantee
from ._ledger_file import Book, LedgerStore, Spent, checked_settings, now
from ._mechanisms import (
    DEEPEST_COST,
    UNBOUNDED,
    Cost,
    GaussianDP,
    Mechanism,
    add,
    gdp_epsilon,
    gdp_mu,
    worst,
    zcdp_epsilon,
    zcdp_rho,
)
from ._noise import RESERVE, current_seed
from ._warnings import BudgetExceededError

# Ten charges of 0.1 fit into 1.0: sums may pass a cap by float rounding, and by no more.
TOLERANCE = 1e-9
# Characters of the name of a data set or partition, and of a label.
LONGEST_NAME = 200
# Bytes of a mechanism in an entry. A composition of a thousand unlike parts takes 50 kB.
_LONGEST_COST = 2**20


# What may come of a file that is damaged, gone or locked; a picture says so instead.
_UNREADABLE = (MemoryError, OSError, RuntimeError, ValueError)

Claim = Mechanism | PrivacyGuarantee


class Budget(NamedTuple):
    """An amount of privacy: an `epsilon`, stated at `delta`."""

    epsilon: float
    delta: float


class PrivacyLedger:
    """A cap on the privacy that releases spend together, and a record of what each has spent.

    Give the same ledger to every estimator that sees the data. A fit charges it before anything is
    released. If the cap cannot hold the charge, the fit is refused with `BudgetExceededError`.
    ``clone`` keeps the ledger's identity, so every fit of a search or a cross-validation is
    counted. Sending it to another process keeps the identity if the ledger has a `path`. At the
    second such fit, a `BudgetWarning` tells the price of many.

    Parameters
    ----------
    path : str or path-like, default=None
        The SQLite file. A missing file becomes a new ledger. An existing file is attached if its
        settings are those given here; use `open` to attach it with its own settings. None, the
        default, keeps the ledger in memory, for this process alone: enough for a first try. You
        cannot copy or pickle it then.
    epsilon : float
        The cap, above 0. ``np.inf`` accepts everything and keeps the record.
    delta : float, default=0.0
        The cap's delta, in [0, 1). The default, 0, is the strictest promise, and holds pure charges
        alone. Set it above 0 for Gaussian noise.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        Which data sets are neighbours. The default is that of estimators. A charge under
        "add_remove" enters a "replace_one" ledger at the price of two rows (one removed, one
        added). The reverse is refused.
    accountant : {"pure", "gdp", "zcdp"}, default=None
        What is summed up: epsilons of pure DP, ``mu**2`` of Gaussian DP, or rho of zCDP. "gdp" is
        tightest for Gaussian noise. "zcdp" also takes `ZeroConcentratedDP`. Keep pure charges in a
        ledger of their own: beside others, both convert them at a high price. None, the default,
        follows `delta`: "gdp" if ``delta > 0``, and "pure" otherwise.
    unit : {"row", "group"}, default="row"
        How two neighbours differ: in a row, or in a group of rows, usually all rows of one person.
        The default is "row" because a fit protects a row unless you give it `groups` and
        `max_rows_per_group`. Charges of the other unit are refused, because neither says what the
        other costs. The file keeps the unit.

    Attributes
    ----------
    path : Path or None
        Absolute path of the file.
    name : str
        Name of the data set that is charged: "default", or that of `dataset`.

    Raises
    ------
    BudgetExceededError
        By `check` and `charge`, if the cap cannot hold the charge. Nothing is charged then.
    LedgerDamagedError
        By everything that uses the file, if it is damaged, foreign, of another version, or set back
        to an earlier state than this object has seen. The file is left as it is.
    OSError, MemoryError
        By everything that uses the file, if it cannot be used now: it is locked or may not be
        opened, the disk is full, or there is too little memory. That is no damage: mend the cause,
        and try again.
    ValueError
        If a parameter, the settings of the file, or the kind of a charge does not suit the ledger.
    TypeError
        If you copy a ledger without a `path`: charges of the copy would be lost.
    RuntimeError
        By everything that uses a ledger without a `path` in another process, or out of a pickle.

    Notes
    -----
    The cap holds for data and budgets chosen adaptively: every charge may depend on all releases
    before it, on any path. Sums of pure epsilons, of ``mu**2`` and of rho below a bound that is
    fixed at creation have this property (Rogers et al. 2016; Smith and Thakurta 2022, Koskela et
    al. 2023; Feldman and Zrnic 2021, Whitehouse et al. 2023), whereas numerical accounting (PLD)
    has it only for charges planned in advance. "gdp" and "zcdp" also hold every sequence of pure
    charges that sum to epsilon: where the loss is surely below epsilon, no delta is spent. Sums
    may pass the cap by a relative 1e-9, for float rounding. "gdp" keeps the part `RESERVE` of the
    cap for the discreteness of noise. The first charge may take a larger part of delta for values
    that nobody listed (`SchemaFinder`), because it is made before anything is released.

    Keep the file where SQLite's locks work (not on most network drives), and never charge a copy of
    it: a copy is another ledger, whose cap adds to this one's. Give it one name: hard links are
    refused. Move or mount it with its folder, where a killed process may have left a journal, or
    that journal may undo later charges. A charge is one transaction. It is on disk before `charge`
    returns, and a process that dies before the commit has charged nothing. Digests chain entries
    and settings, and every use verifies all of them, in ten microseconds an entry: damage opens no
    budget. But digests are not signatures. And only an object (or a pickle of one) that has seen
    more can tell that a file was deleted, or set back to an earlier copy.

    Only you can read and write a new file (mode 0600). Change its mode, and that of its folder, to
    share it with other users of the machine.

    See Also
    --------
    PrivacyGuarantee : What one release promises.
    BudgetExceededError : What a fit raises that the cap does not hold.

    Examples
    --------
    >>> from skdpsumm.privacy import PrivacyLedger, PureDP
    >>> ledger = PrivacyLedger(epsilon=1.0)
    >>> ledger.charge(PureDP(0.3), label="histogram of ages")
    1
    >>> ledger.remaining
    Budget(epsilon=0.7, delta=0.0)
    >>> north, south = (ledger.dataset(name, partition="region") for name in ("north", "south"))
    >>> north.charge(PureDP(0.5)), south.charge(PureDP(0.4))
    (2, 3)
    >>> ledger.spent.epsilon
    0.8
    >>> ledger.check(PureDP(0.5))
    Traceback (most recent call last):
        ...
    skdpsumm.privacy.BudgetExceededError: epsilon=0.5 was asked of data set 'default',
    but epsilon=0.2 of 1 is left there. Nothing was charged. ...
    """

    name = "default"

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float,
        delta: float = 0.0,
        adjacency: str = "add_remove",
        accountant: str | None = None,
        unit: str = "row",
    ):
        settings = checked_settings(epsilon, delta, adjacency, accountant, unit)
        self._attach(LedgerStore(None if path is None else _absolute(path), settings))

    def _attach(self, store: LedgerStore) -> None:
        self._store, self.path, settings = store, store.path, store.settings
        self.epsilon: float = settings["epsilon"]
        self.delta: float = settings["delta"]
        self.adjacency: str = settings["adjacency"]
        self.accountant: str = settings["accountant"]
        self.unit: str = settings["unit"]
        self._filter = Filter(self.epsilon, self.delta, self.accountant)
        self._clones = CloneWatch()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> PrivacyLedger:
        """Attach an existing ledger with the settings it was created with.

        Parameters
        ----------
        path : str or path-like
            The ledger's file.

        Returns
        -------
        PrivacyLedger

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        LedgerDamagedError
            If the file is not a ledger, is damaged, or was written by a newer version.
        """
        ledger = cls.__new__(cls)
        ledger._attach(LedgerStore(_absolute(path)))
        return ledger

    def check(self, claim: Claim) -> None:
        """Raise `BudgetExceededError` if the cap cannot hold a claim. Nothing is written.

        Parameters
        ----------
        claim : PrivacyGuarantee or Mechanism
            What is released. A `Mechanism` alone is the cost of one row more or less: give a
            guarantee where neighbours differ otherwise.
        """
        self._refuse_simulation(current_seed() is not None)
        self._refuse_excess(self._store.read(), self._price(_guarantee(claim)))

    def price(self, claim: Claim) -> Budget:
        """Return what a charge of a claim would cost by itself. Nothing is written.

        Parameters
        ----------
        claim : PrivacyGuarantee or Mechanism
            What is released. A `Mechanism` alone is the cost of one row more or less: give a
            guarantee where neighbours differ otherwise.

        Returns
        -------
        Budget
            Its epsilon under the ledger's adjacency and accountant, at the cap's delta.
        """
        return self._budget(self._filter.epsilon_of(self._price(_guarantee(claim))))

    def charge(self, claim: Claim, *, label: str = "") -> int:
        """Charge a claim, in one step with the check that the cap holds it.

        Parameters
        ----------
        claim : PrivacyGuarantee or Mechanism
            What is released. A `Mechanism` alone is the cost of one row more or less: give a
            guarantee where neighbours differ otherwise.
        label : str, default=""
            What the release is, in up to 200 printable characters. It is written to the file, so
            keep it public. The default is empty because a charge counts without it.

        Returns
        -------
        int
            The entry's id.
        """
        promise, label = _guarantee(claim), str(label)
        self._refuse_simulation(promise.simulated)
        _check_text("label", label, least=0)
        cost = self._price(promise)
        told: dict[str, Any] = {"dataset": self.name, "label": label}
        told |= {"adjacency": promise.adjacency, "mechanism": _written(promise.mechanism)}
        told |= {"simulated": promise.simulated, "pid": os.getpid()}
        with self._store.writing() as book:
            self._refuse_excess(book, cost)
            # The time is of the transaction, so that times are in order.
            book.append(time=now(), **told, cost=cost)
            self._clones.watch(book, self.name, label, cost, self._filter.epsilon_of)
        return len(book.charges)

    def dataset(self, name: str, partition: str | None = None) -> LedgerDataset:
        """Return a handle on one data set, to give to an estimator in the ledger's place.

        Parameters
        ----------
        name : str
            Name of the data set: up to 200 printable characters.
        partition : str, default=None
            Name of a partition. With it, you *declare* the data set disjoint from all others of the
            same partition: nobody has rows in two of them, and which one a row is in depends on
            that row alone. The total counts the costliest data set of a partition, and sums up all
            else. Under "replace_one", a row changes within its data set. A data set keeps the
            partition of its first use. The default is None because adding up needs no such
            assumption.

        Returns
        -------
        LedgerDataset
        """
        _check_text("name", name)
        if partition is not None:
            _check_text("partition", partition)
            with self._store.writing() as book:
                book.declare(name, partition)
        return LedgerDataset(self, name, self._store.read().spent.get(name, Spent()).partition)

    @property
    def spent(self) -> Budget:
        """What all releases cost together."""
        return self._budget(self._filter.epsilon_of(total(self._store.read().spent)))

    @property
    def n_charges(self) -> int:
        """Number of charges, whatever their data set."""
        return len(self._store.read().charges)

    @property
    def remaining(self) -> Budget:
        """What one more release may be calibrated to.

        It does not add to `spent`: of Gaussian noise squares of mu add, and not epsilons. Under
        "gdp" and "zcdp" it is for Gaussian noise. Pure charges may fit even if it is 0.
        """
        return self.plan(1)

    def plan(self, n_releases: int) -> Budget:
        """Return what each of so many equal releases may be calibrated to.

        Give each the epsilon and delta that this returns, and the adjacency of the ledger. What was
        spent already is taken off. Under "gdp" and "zcdp", this is for Gaussian noise, and not for
        a `SchemaFinder` that looks for categories: of these a ledger holds 15.

        Parameters
        ----------
        n_releases : int
            How many releases there will be, at least 1.

        Returns
        -------
        Budget

        Raises
        ------
        ValueError
            Unless `n_releases` is a whole number of at least 1.

        Examples
        --------
        A release a week, for a year. Gaussian noise adds up in squares, so that each gets an
        eighth of the cap and not a fifty-second:

        >>> from skdpsumm import PrivacyLedger
        >>> weekly = PrivacyLedger(epsilon=3.0, delta=1e-6).plan(52)
        >>> round(weekly.epsilon, 3), weekly.delta
        (0.354, 1e-06)
        """
        if not isinstance(n_releases, Integral) or n_releases < 1:
            raise ValueError(
                f"n_releases must be a whole number of at least 1, got {n_releases!r}."
            )
        book = self._store.read()
        left = self._rule(book).left(paid_in(book.spent, self.name), int(n_releases))
        return self._budget(left)

    def to_frame(self) -> Any:
        """Return the charges in order as a ``pandas.DataFrame``: the columns are as in `entries`.

        The column "mechanism" holds texts.
        """
        import pandas as pd

        rows = [entry | {"mechanism": str(entry["mechanism"])} for entry in self.entries()]
        return pd.DataFrame(rows)

    def entries(self) -> list[dict[str, Any]]:
        """Return the charges in order.

        Returns
        -------
        list of dict
            Each has id, time (UTC), dataset, partition, label, adjacency and mechanism (as
            claimed), epsilon (as paid: under the ledger's adjacency, at its delta), simulated and
            pid.
        """
        book = self._store.read()
        return [{"id": k} | self._entry(one, book) for k, one in enumerate(book.charges, 1)]

    def _entry(self, charge: dict[str, Any], book: Book) -> dict[str, Any]:
        told = charge | {"partition": book.spent[charge["dataset"]].partition}
        told["epsilon"] = self._filter.epsilon_of(Cost(*told.pop("cost")))
        return told | {"mechanism": _read(charge["mechanism"])}

    def _rule(self, book: Book, first_tail: float = 0.0) -> Filter:
        """Return the rule that the first charge fixed, or fixes if it comes now."""
        tail = book.first_tail if book.charges else first_tail
        return _set_aside(self._filter, tail if RESERVE * self.delta < tail < self.delta else 0.0)

    def _budget(self, epsilon: float) -> Budget:
        return Budget(epsilon, 0.0 if self.accountant == "pure" else self.delta)

    def _price(self, claim: PrivacyGuarantee) -> Cost:
        """Return what a claim of the ledger's unit costs under its adjacency."""
        if claim.unit != f"one {self.unit}":
            raise ValueError(_other_unit(self.unit, claim.unit))
        if claim.adjacency == self.adjacency:
            return self._filter.cost(claim.mechanism)
        if self.adjacency == "replace_one":
            return self._filter.cost(claim.mechanism.group(2))
        raise ValueError(
            'A ledger with adjacency="add_remove" cannot charge a claim under "replace_one", which '
            "takes the number of rows as public and says nothing about adding one. Set "
            'adjacency="add_remove" on the estimator, or create the ledger with "replace_one".'
        )

    def _refuse_excess(self, book: Book, cost: Cost) -> None:
        rule, paid = self._rule(book, cost.tail), book.spent.get(self.name, Spent())
        after = book.spent | {self.name: paid._replace(cost=add([paid.cost, cost]))}
        if rule.fits(total(after)):
            return
        before = paid_in(book.spent, self.name)
        asked, left = rule.asked_and_left(cost, before)
        at = f" at delta={self.delta:g} ({self.accountant})" if self.accountant != "pure" else ""
        raise BudgetExceededError(
            f"epsilon={asked:.6g}{at} was asked of data set {self.name!r}, but epsilon={left:.6g} "
            f"of {self.epsilon:g} is left there. Nothing was charged. "
            f"{self._remedy(rule, before, cost)}"
        )

    def _refuse_simulation(self, simulated: bool) -> None:
        if simulated and self.path is not None:
            raise ValueError(
                f"The ledger {self.path} is a file, which counts real releases, and noise from a "
                "seed protects nobody. Leave simulation(...), or give ledger=None or a "
                "PrivacyLedger without a path. Nothing was charged."
            )

    def _remedy(self, rule: Filter, before: Cost, cost: Cost) -> str:
        if not rule.reserve_holds(add([before, cost])):
            return (
                "The share of the cap that pays for noise in whole numbers is used up: ask for a "
                "smaller delta."
            )
        kinds = [math.isfinite(paid.pure) for paid in (before, cost) if any(paid)]
        if len(set(kinds)) == 2 and math.isfinite(cost.square):
            return (
                "Releases with delta=0 and others cost more in one ledger than in two: give each "
                "kind a ledger of its own, and split the cap between them."
            )
        remedy = "Ask for at most the epsilon and delta of the ledger's `remaining`, or release"
        if rule.left(before) == 0:
            remedy = "The budget is spent, and nothing can follow under this cap. Release"
        return f"{remedy} from data that the ledger does not cover."

    def __sklearn_clone__(self) -> PrivacyLedger:
        self._clones.note_clone()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store
        return _arrived, (self.path, store.settings, store.known, self._clones.since)

    def __copy__(self, memo: Any = None) -> PrivacyLedger:
        if self.path is None:
            raise TypeError(
                "A ledger in memory cannot be copied, for it would not see the charges of the "
                "copy. Give it a path: PrivacyLedger(path, epsilon=..., ...)."
            )
        make, given = self.__reduce__()
        return make(*given)

    __deepcopy__ = __copy__

    def __repr__(self) -> str:
        where = "" if self.path is None else f"{str(self.path)!r}, "
        return (
            f"PrivacyLedger({where}epsilon={self.epsilon:g}, delta={self.delta:g}, "
            f"adjacency={self.adjacency!r}, accountant={self.accountant!r}, unit={self.unit!r}) "
            f"{self._state()}"
        )

    def _state(self) -> str:
        try:
            book = self._store.read()
            spent = self._filter.epsilon_of(total(book.spent))
            return f"<spent: epsilon={spent:.4g}; entries: {len(book.charges)}>"
        except _UNREADABLE as error:
            return f"<cannot be read: {type(error).__name__}>"

    def _repr_html_(self) -> str:
        # The path is left out, for pages are passed on.
        unit = f"one {self.unit}, {self.adjacency.replace('_', '-')}"
        cap = f"Cap: epsilon={self.epsilon:g} at delta={self.delta:g} ({unit}, {self.accountant})"
        try:
            book = self._store.read()
        except _UNREADABLE as error:
            return html_table(f"{cap}; cannot be read: {type(error).__name__}", (), (), 0)
        names = self._shown(book)
        rows = (self._row_of(name, book) for name in names)
        heads = ("data set", "partition", "spent epsilon", "remaining epsilon")
        whole = f"; spent epsilon={self._filter.epsilon_of(total(book.spent)):.4g}"
        return html_table(cap + whole, heads, rows, len(names))

    def _shown(self, book: Book) -> list[str]:
        """Return the names of the data sets that the table shows."""
        return list(book.spent)

    def _row_of(self, name: str, book: Book) -> list[str]:
        paid, left = book.spent.get(name, Spent()), self._rule(book).left(paid_in(book.spent, name))
        numbers = self._filter.epsilon_of(paid.cost), left
        return [name, paid.partition or "", *(f"{number:.4g}" for number in numbers)]


def _arrived(
    path: Path | None, settings: dict[str, Any], known: tuple[int, str], since: str | None
) -> PrivacyLedger:
    """Return what a pickle of a ledger is elsewhere: of one in memory, one that refuses all."""
    ledger = PrivacyLedger.__new__(PrivacyLedger)
    store = LedgerStore(path, settings if path is None else None, known)
    if path is None:
        store.owner = 0  # the number of no process
    ledger._attach(store)
    ledger._clones = CloneWatch(since, is_copy=True)
    return ledger


class LedgerDataset(PrivacyLedger):
    """A ledger as one data set sees it: releases are charged to this one, under the cap of all.

    Make it with `PrivacyLedger.dataset`, and give it to estimators in the ledger's place.
    """

    def __init__(self, ledger: PrivacyLedger, name: str, partition: str | None):
        vars(self).update(vars(ledger))
        self._ledger, self.name, self.partition = ledger, name, partition

    @property
    def spent(self) -> Budget:
        """What the releases from this data set cost together."""
        paid = self._store.read().spent.get(self.name, Spent())
        return self._budget(self._filter.epsilon_of(paid.cost))

    def entries(self) -> list[dict[str, Any]]:
        """Return the charges to this data set in order."""
        return [entry for entry in super().entries() if entry["dataset"] == self.name]

    def __reduce__(self) -> tuple[Any, ...]:
        return LedgerDataset, (self._ledger, self.name, self.partition)

    def __repr__(self) -> str:
        return f"<data set {self.name!r} of {self._ledger!r}>"

    def _shown(self, book: Book) -> list[str]:
        return [self.name]


def _guarantee(claim: Claim) -> PrivacyGuarantee:
    return claim if isinstance(claim, PrivacyGuarantee) else PrivacyGuarantee(claim)


def _other_unit(ours: str, claimed: str) -> str:
    remedy = {
        "row": "Charge claims about groups to a ledger of their own, made with unit='group', or "
        "set max_rows_per_group=None on the estimator to protect single rows.",
        "group": "Set max_rows_per_group on the estimator and give its fit groups, so that it "
        "protects groups, or charge it to a ledger of its own, made with unit='row'.",
    }
    return (
        f"A ledger with unit={ours!r} cannot charge a claim about {claimed}: neither says what the "
        f"other costs. Nothing was charged. {remedy[ours]}"
    )


def _check_text(parameter: str, value: Any, least: int = 1) -> None:
    sized = isinstance(value, str) and least <= len(value) <= LONGEST_NAME
    if not (sized and value.isprintable()):
        raise ValueError(
            f"{parameter} must be a text of {least} to {LONGEST_NAME} printable characters, "
            f"without line breaks, got {cut(repr(value))}. Nothing was charged."
        )


def _written(mechanism: Mechanism) -> str:
    """Return a mechanism as an entry states it; raise ValueError if none could be read again."""
    text = json.dumps(mechanism.to_dict(), default=float)
    _read(text)
    return text


def _read(text: str) -> Any:
    """Return the mechanism of an entry; raise ValueError for one that is too long or too deep."""
    n_containers = text.count("{") + text.count("[")
    try:
        if n_containers > DEEPEST_COST or len(text) > _LONGEST_COST:
            check_json(text.encode(), most_bytes=_LONGEST_COST, deepest=DEEPEST_COST)
    except ValueError as error:
        raise ValueError(
            f"The mechanism is too long for an entry: {error} Nothing was charged. Charge its "
            "parts one by one."
        ) from None
    return json.loads(text)


def _absolute(path: str | os.PathLike[str]) -> Path:
    # The working directory may differ in another process, or later.
    return Path(os.path.abspath(path))


def total(spent: dict[str, Spent]) -> Cost:
    """Return the most that any row has paid: the costliest of each partition, and all else."""
    groups: dict[tuple[bool, str], list[Cost]] = {}
    for name, (cost, partition) in spent.items():
        group = (False, name) if partition is None else (True, partition)
        groups.setdefault(group, []).append(cost)
    return add(map(worst, groups.values()))


def paid_in(spent: dict[str, Spent], dataset: str) -> Cost:
    """Return the most that a row of `dataset` has paid: all but the rest of its partition."""
    partition = spent.get(dataset, Spent()).partition
    counted = {
        name: paid
        for name, paid in spent.items()
        if name == dataset or partition is None or paid.partition != partition
    }
    return total(counted)


@lru_cache
def _set_aside(rule: Filter, aside: float) -> Filter:
    return replace(rule, aside=aside)


@dataclass(frozen=True)
class Filter:
    """The rule of one cap: what a mechanism costs, and which total fits.

    Parameters
    ----------
    epsilon, delta : float
        The cap.
    accountant : {"pure", "gdp", "zcdp"}
        What is summed. Fixed in advance, so that the choice cannot depend on data.
    aside : float, default=0.0
        Part of delta for the tail of the first charge, where the reserve does not hold it.
    """

    epsilon: float
    delta: float
    accountant: str
    aside: float = 0.0

    @cached_property
    def _calibrated(self) -> float:
        """The mu**2 of Gaussian noise that `IntegerNoise` calibrates to the whole cap."""
        return gdp_mu(self.epsilon * (1 - RESERVE), self.delta * (1 - RESERVE)) ** 2

    @cached_property
    def _caps(self) -> tuple[float, float]:
        """The cap of `square` where no noise draws on the reserve, and where some does."""
        delta = self.delta - self.aside
        if self.accountant == "pure" or delta <= 0:
            return 0.0, 0.0
        if self.accountant == "gdp":
            square = gdp_mu(self.epsilon * (1 - RESERVE), delta * (1 - RESERVE)) ** 2
            return square, square
        less = zcdp_rho(self.epsilon * (1 - RESERVE), delta * (1 - RESERVE))
        return 2 * zcdp_rho(self.epsilon, delta), 2 * less

    def cost(self, mechanism: Mechanism) -> Cost:
        """Return what `mechanism` adds to the total."""
        cost = mechanism.price(self.accountant)
        return self._cost_unknown(mechanism) if cost is None else Cost(*map(float, cost))

    def _cost_unknown(self, mechanism: Mechanism) -> Cost:
        if math.isinf(self.epsilon):
            return UNBOUNDED
        remedy = {
            "pure": "Create the ledger with delta > 0, or ask the estimator for delta=0.",
            "gdp": 'Create the ledger with accountant="zcdp", which takes ZeroConcentratedDP.',
            "zcdp": "State the cost as PureDP, GaussianDP or ZeroConcentratedDP.",
        }
        raise ValueError(
            f"A ledger with accountant={self.accountant!r} cannot charge {mechanism!r}, for which "
            f"it knows no adaptively valid sum. {remedy[self.accountant]}"
        )

    def fits(self, total: Cost) -> bool:
        """Return whether the cap holds `total`."""
        if total.pure <= self.epsilon * (1 + TOLERANCE):
            return True
        cap = self._caps[total.log_ratio > 0 or total.tail > 0]
        return total.square <= cap * (1 + TOLERANCE) and self.reserve_holds(total)

    def reserve_holds(self, total: Cost) -> bool:
        """Return whether the reserve pays for the discreteness of all noise in `total`."""
        delta = self.delta - self.aside
        excess = total.tail - self.aside + math.expm1(min(total.log_ratio, 1.0)) * delta
        return 2 * total.log_ratio <= RESERVE * self.epsilon and excess <= RESERVE * delta

    def epsilon_of(self, cost: Cost) -> float:
        """Return the epsilon of `cost` at the cap's delta."""
        return min(cost.pure, self._curve_epsilon(cost))

    def _curve_epsilon(self, cost: Cost) -> float:
        if self.accountant == "pure":
            return math.inf
        if self.accountant == "zcdp":
            rest = (self.delta - cost.tail) * math.exp(-cost.log_ratio)
            if rest < 0:
                return math.inf
            return zcdp_epsilon(cost.square / 2, rest) + 2 * cost.log_ratio
        return GaussianDP(math.sqrt(cost.square), cost.log_ratio, cost.tail).epsilon(self.delta)

    def left(self, spent: Cost, n_releases: int = 1) -> float:
        """Return the largest epsilon to which noise of the accountant's kind may be calibrated."""
        if math.isinf(self.epsilon):
            return math.inf
        if self.accountant == "pure":
            return self._left_pure(spent) / n_releases
        _, cap = self._caps  # what will be calibrated has slack
        square = max(0.0, cap - spent.square) / n_releases
        if square >= self._calibrated:
            return self.epsilon
        # The inverse of _calibrated, less what the solvers may have rounded up.
        epsilon = gdp_epsilon(math.sqrt(square), self.delta * (1 - RESERVE)) / (1 - RESERVE)
        return max(0.0, epsilon * (1 - 1e-11) - 1e-11)

    def asked_and_left(self, cost: Cost, spent: Cost) -> tuple[float, float]:
        """Return two epsilons that explain a refusal: pure ones, if all is pure."""
        if math.isfinite(cost.pure + spent.pure):
            return cost.pure, self._left_pure(spent)
        return self._curve_epsilon(cost), self.left(spent)

    def _left_pure(self, spent: Cost) -> float:
        left = self.epsilon - spent.pure
        return left if left > TOLERANCE * self.epsilon else 0.0
