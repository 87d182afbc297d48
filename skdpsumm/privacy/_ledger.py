"""The privacy ledger: a cap on what is spent, kept in a file that all processes share.

*The file* is SQLite's. It holds records, each a text of JSON at its `place`: the settings at place
0, and from then on charges and declared data sets, in order. The digest of a record covers its text
and the digest of the record before, and the table `meta` keeps how many records there are. So a
flipped bit, an edited cell, and a record that is lost, doubled or moved are told. Digests are no
signatures: whoever can write the file can compute them anew. Every use reads and verifies all of
it, which takes some ten microseconds a record: a file of 10,000 charges takes a tenth of a second.

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

import hashlib
import json
import math
import operator
import os
import secrets
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

from .._bounded import check_json
from .._html import cut, html_table
from .._sklearn import Interval, StrOptions, validate_parameter_constraints
from ._fit import OWN_CLONES
from ._guarantee import PrivacyGuarantee
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
from ._warnings import BudgetExceededError, BudgetWarning, LedgerDamagedError

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
        PrivacyLedger
            As this data set sees it: releases are charged to the data set, under the cap of all.
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
        is_aside = RESERVE * self.delta < tail < self.delta
        return replace(self._filter, aside=tail) if is_aside else self._filter

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


# ---- fits by clones of one estimator, and what the search that makes them will cost


class CloneWatch:
    """Counts the charges since a ledger's estimators were first cloned, and warns at the second.

    An estimator cannot be told from its clones in another process, so charges count as those of
    one where data set and label are the same.

    Parameters
    ----------
    since : str, default=None
        When an estimator that holds the ledger was first cloned; None for never.
    is_copy : bool, default=False
        Whether the ledger came out of a pickle, as in the workers of a search. A copy warns at
        the second charge of all only; the ledger that it is a copy of also at its own first one
        after that, which is the refit, when the sum is complete.
    """

    def __init__(self, since: str | None = None, *, is_copy: bool = False):
        self.since, self._is_copy = since, is_copy
        self._told: set[tuple[str, str]] = set()

    def note_clone(self) -> None:
        """Start to count, unless this was done."""
        if not OWN_CLONES.get():
            self.since = self.since or now()

    def watch(
        self, book: Book, dataset: str, label: str, cost: Cost, epsilon_of: Callable[[Cost], float]
    ) -> None:
        """Warn if the charge just written is the second of a search.

        Parameters
        ----------
        book : Book
            In the transaction of the charge, which a warning that is made an error takes back.
        dataset, label : str
        cost : Cost
            Of the charge.
        epsilon_of : callable
            Epsilon of a cost, at the cap's delta.
        """
        if self.since is None or (dataset, label) in self._told:
            return
        count, paid = book.paid_since(self.since, dataset, label)
        if count < 2 or (self._is_copy and count > 2):
            return
        self._told.add((dataset, label))
        # A few candidates by a few folds are ten fits, and many are a hundred.
        many = {n: epsilon_of(Cost(*(n * part for part in cost))) for n in (10, 100)}
        prices = [f"{n} such fits cost epsilon={epsilon:.4g}" for n, epsilon in many.items()]
        warnings.warn(
            "Search with PrivateSearchCV, which has one price, or on public data: any other search "
            "or cross-validation charges every fit in full, one for each candidate and fold and "
            f"one to refit. So far, {count} fits by clones of one estimator "
            f"({label or 'without a label'}) cost epsilon={epsilon_of(paid):.4g} of data set "
            f"{dataset!r}; {', '.join(prices)}.",
            BudgetWarning,
            stacklevel=4,
        )


# ---- the file


LEDGER_FORMAT, LEDGER_VERSION = "skdpsumm privacy ledger", 5
_SETTINGS: dict[str, list[Any]] = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "adjacency": [StrOptions({"add_remove", "replace_one"})],
    "accountant": [StrOptions({"pure", "gdp", "zcdp"}), None],
    "unit": [StrOptions({"row", "group"})],
}
# Plain text, for the file must hold exactly these tables, and nothing that acts by itself. The
# place is SQLite's own key, so that records are found by it.
_TABLES = {
    "meta": "CREATE TABLE meta (format TEXT, version INTEGER, length INTEGER)",
    "records": "CREATE TABLE records (place INTEGER PRIMARY KEY, digest TEXT, body TEXT)",
}
_FOREIGN = "is not a privacy ledger, or it is damaged"
_FOREIGN_TABLES = "is damaged: its tables are not those of a ledger"
_MISSING_ENTRIES = "is damaged: entries are missing, or there are too many"
_SET_BACK = (
    "is another ledger than before, or was set back to an earlier state: what was charged since is "
    "missing"
)
_TIMEOUT = 60.0
# A new ledger has two names, its own and that of its draft, for some microseconds.
_SECONDS_OF_DRAFT = 1.0

# One connection at a time in a process, and none across a fork: SQLite's POSIX locks belong to
# the process, and a child that inherited the record of one would wait for it in vain.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )


class Spent(NamedTuple):
    """What one data set has paid, and the partition that it belongs to."""

    cost: Cost = Cost()
    partition: str | None = None


class Damage(Exception):
    """What is wrong with a file, as the end of a sentence that starts with its path."""


def checked_settings(
    epsilon: float, delta: float, adjacency: str, accountant: str | None, unit: str = "row"
) -> dict[str, Any]:
    """Return the settings of a ledger as they are stored, or raise ValueError."""
    values = epsilon, delta, adjacency, accountant, unit
    given = dict(zip(_SETTINGS, values, strict=True))
    validate_parameter_constraints(_SETTINGS, given, caller_name="PrivacyLedger")
    accountant = accountant or ("gdp" if delta > 0 else "pure")
    if accountant != "pure" and delta == 0:
        raise ValueError(
            f'accountant={accountant!r} needs delta > 0; set accountant="pure" for delta=0.'
        )
    exact = {"epsilon": float(epsilon), "delta": float(delta) + 0.0, "accountant": accountant}
    return given | exact


@dataclass
class Book:
    """What a ledger says at one moment, all of it verified, and the only way in which it grows.

    Attributes
    ----------
    records : list of (digest, body)
        Settings, charges and declared data sets in order, each body a text of JSON.
    settings : dict
    charges : list of dict
    spent : dict from name to Spent
        Of every data set that was declared or charged.
    """

    records: list[tuple[str, str]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    charges: list[dict[str, Any]] = field(default_factory=list)
    spent: dict[str, Spent] = field(default_factory=dict)

    @classmethod
    def opened(cls, settings: dict[str, Any]) -> Book:
        """Return the book of a new ledger, which is another one than all others."""
        book = cls()
        book.append(**settings, identity=secrets.token_hex(16))
        return book

    @property
    def head(self) -> str:
        """Digest of the last record."""
        return self.records[-1][0] if self.records else ""

    @property
    def first_tail(self) -> float:
        """The tail of the first charge, 0 before it."""
        return Cost(*self.charges[0]["cost"]).tail if self.charges else 0.0

    def copy(self) -> Book:
        """Return a book that grows by itself."""
        return Book(list(self.records), self.settings, list(self.charges), dict(self.spent))

    def declare(self, name: str, partition: str) -> None:
        """Register a data set as one of a partition, or raise ValueError if it is of another."""
        known = self.spent.get(name)
        if known is None:
            self.append(dataset=name, partition=partition)
        elif partition != known.partition:
            raise ValueError(
                f"partition={partition!r} was asked for data set {name!r}, which the ledger holds "
                f"with partition={known.partition!r}. A data set keeps its partition: give it "
                "another name."
            )

    def append(self, **told: Any) -> None:
        """Take a new record into account."""
        body = json.dumps(told)
        self.follow(_digest(self.head, body), body)

    def follow(self, digest: str, body: str) -> None:
        """Take the next record into account, or raise if it does not follow on the last one."""
        if digest != _digest(self.head, body):
            raise Damage(f"is damaged: entry {len(self.records)} is not what was written")
        told = json.loads(body)
        if not self.records:
            self.settings = {name: told[name] for name in _SETTINGS}
        elif "cost" in told:
            cost, partition = self.spent.get(told["dataset"], Spent())
            cost = Cost(*(a + b for a, b in zip(cost, told["cost"], strict=True)))
            self.spent[told["dataset"]] = Spent(cost, partition)
            self.charges.append(told)
        else:
            self.spent[told["dataset"]] = Spent(partition=told["partition"])
        self.records.append((digest, body))

    def paid_since(self, time: str, dataset: str, label: str) -> tuple[int, Cost]:
        """Return the number and the sum of the charges of a label since some time."""
        asked = (dataset, label)
        found = [
            one["cost"]
            for one in self.charges
            if one["time"] >= time and (one["dataset"], one["label"]) == asked
        ]
        return len(found), add([Cost(), *found])


def now() -> str:
    """Return the time as the ledger writes it; later times compare as greater."""
    return datetime.now(UTC).isoformat()


def _digest(before: str, body: str) -> str:
    return hashlib.sha256(f"{before}{body}".encode()).hexdigest()


def read(db: sqlite3.Connection) -> Book:
    """Return what the file says, every record verified.

    Parameters
    ----------
    db : Connection
        In a transaction.

    Raises
    ------
    Damage, sqlite3.Error, MemoryError
    """
    meta, book = _meta(db), Book()
    _check_form(db)  # by which `meta` has a length
    try:
        for place, *record in db.execute("SELECT place, digest, body FROM records ORDER BY place"):
            if place != len(book.records):
                raise Damage(_MISSING_ENTRIES)
            book.follow(*record)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise Damage(f"is damaged: entry {len(book.records)} is none of a ledger") from error
    if not meta["length"] == len(book.records) > 0:
        raise Damage(_MISSING_ENTRIES)
    return book


def _meta(db: sqlite3.Connection) -> dict[str, Any]:
    """Return what a file of this format says of itself."""
    rows = db.execute("SELECT * FROM meta").fetchall()
    meta = dict(rows[0]) if len(rows) == 1 else {}
    version = meta.get("version")
    if meta.get("format") != LEDGER_FORMAT or type(version) is not int or version < 1:
        raise Damage(_FOREIGN)
    if version != LEDGER_VERSION:
        other = "Upgrade skdpsumm" if version > LEDGER_VERSION else "Use the skdpsumm that wrote it"
        raise Damage(
            f"is of format version {version}, and this skdpsumm reads version {LEDGER_VERSION}. "
            f"{other}, unless the file is damaged"
        )
    return meta


def _check_form(db: sqlite3.Connection) -> None:
    """Raise Damage unless the file holds the tables as they were made, and nothing else.

    Also where SQLite finds a fault in the file's pages, or would write it otherwise.
    """
    found = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    made = [("table", name, name, statement) for name, statement in _TABLES.items()]
    # A page in use that counts as free would be reused.
    pages = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    if sorted(map(tuple, found), key=repr) != sorted(made, key=repr) or pages != ["ok"]:
        raise Damage(_FOREIGN_TABLES)
    # Bytes 18 and 19 say how SQLite writes and reads the file: 1 is with a journal that it deletes.
    if hasattr(db, "serialize") and db.serialize()[18:20] != b"\1\1":
        raise Damage("is damaged: its header is not that of a ledger")


def _write(db: sqlite3.Connection, book: Book, start: int) -> None:
    """Write the records from a place on, and how many there are."""
    records = ((start + k, *record) for k, record in enumerate(book.records[start:]))
    db.executemany("INSERT INTO records VALUES (?, ?, ?)", records)
    db.execute("UPDATE meta SET length = ?", (len(book.records),))


class LedgerStore:
    """One ledger, in a file or (``path=None``) in this process's memory.

    Every operation on a file opens a connection of its own, so that threads, forks and other
    processes may all use the same ledger. What it reads must build on what this object has seen.

    Parameters
    ----------
    path : Path or None
    settings : dict, default=None
        What the ledger must have, and what a missing file is made with. None takes the file's.
    known : tuple of (length, head), default=(0, "")
        Of another object, on whose reading the file must build.
    """

    def __init__(
        self,
        path: Path | None,
        settings: dict[str, Any] | None = None,
        known: tuple[int, str] = (0, ""),
    ):
        self.path, self.known, self.owner = path, known, os.getpid()
        if path is None:
            assert settings is not None
            self._book = Book.opened(settings)
        elif settings is not None and not _is_there(path):
            _make(path, settings)
        self.settings = self.read().settings
        if path is not None and settings is not None:
            _check_equal(settings, self.settings, path)

    def read(self) -> Book:
        """Return what the ledger holds, which still is this one."""
        with self._transaction("BEGIN") as (_, book):
            return book

    @contextmanager
    def writing(self) -> Iterator[Book]:
        """Yield the same, which may grow, in a transaction that excludes all other writers."""
        with _LOCK:
            if self.path is not None:
                _check_one_name(self.path)
            with self._transaction("BEGIN IMMEDIATE") as (db, before):
                book = before.copy()
                yield book
                if db is not None and len(book.records) > len(before.records):
                    _write(db, book, len(before.records))
                if db is None and self._book is not before:  # a hook of warnings wrote to it
                    raise RuntimeError(
                        "A hook of warnings wrote to this ledger while it was being charged, so "
                        "the charge was undone. Charge again, without that hook."
                    )
            self._keep(book)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[tuple[sqlite3.Connection | None, Book]]:
        if self.path is not None:
            with _opened(self.path) as db, db:
                db.execute(begin)
                book, (length, head) = read(db), self.known
                if length and [one[0] for one in book.records[length - 1 : length]] != [head]:
                    raise Damage(_SET_BACK)
                self._keep(book)
                yield db, book
            return
        if os.getpid() != self.owner:
            raise RuntimeError(
                "This ledger lives in the memory of another process, which would not see the "
                "charges made here. Give the ledger a path."
            )
        with _LOCK:
            yield None, self._book

    def _keep(self, book: Book) -> None:
        """Remember what the ledger holds, in memory, or how far it has come, of a file."""
        if self.path is None:
            self._book = book
        self.known = (len(book.records), book.head)


def _connect(database: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        database, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
    )
    db.row_factory = sqlite3.Row
    # Where a text is none, this raises a UnicodeDecodeError, by which it is told from other errors
    # that have no code.
    db.text_factory = operator.methodcaller("decode")
    db.execute("PRAGMA synchronous=EXTRA")
    return db


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a fresh connection, which never creates a file."""
    with _LOCK, _explained(path), closing(_connect(f"{path.as_uri()}?mode=rw")) as db:
        yield db


def _is_there(path: Path) -> bool:
    """Return whether there is a file; raise OSError where nobody can tell."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _make(path: Path, settings: dict[str, Any]) -> None:
    """Make a new ledger, whole or not at all, unless another process is faster.

    It gets its name when it is complete: an empty file is no new ledger, but one that lost all.
    Nobody but its owner can read it, whatever the umask; SQLite makes the journal alike.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise _missing(path)
    draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with _explained(path):
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            os.chmod(draft, 0o600)
        with _opened(draft) as db, db:
            db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.values():
                db.execute(statement)
            db.execute("INSERT INTO meta VALUES (?, ?, 0)", (LEDGER_FORMAT, LEDGER_VERSION))
            _write(db, Book.opened(settings), 0)
        with _explained(path), suppress(FileExistsError):
            os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _check_one_name(path: Path) -> None:
    """Raise OSError where the file has a second name (a hard link), before it is charged.

    The journal, by which SQLite undoes what a killed process has begun, is named after the ledger.
    Under another name nobody finds it. It would undo what was charged there, too, later.
    """
    deadline = time.monotonic() + _SECONDS_OF_DRAFT
    with suppress(FileNotFoundError, NotADirectoryError):  # which is told where it is opened
        while os.stat(path).st_nlink > 1:
            if time.monotonic() > deadline:
                raise OSError(
                    f"The privacy ledger {path} has a second name, a hard link: charges under two "
                    "names may undo each other. Nothing was charged. Find the other name (find "
                    "-samefile), and remove it; for a backup, copy the file."
                )
            time.sleep(0.01)


def _check_equal(ours: dict[str, Any], found: dict[str, Any], path: Path) -> None:
    differing = [name for name in ours if ours[name] != found[name]]
    if differing:
        pairs = ", ".join(f"{n}={found[n]!r} (not {ours[n]!r})" for n in differing)
        raise ValueError(
            f"The ledger {path} has {pairs}. Use PrivacyLedger.open(path) to take its own "
            "settings, or another path for another ledger."
        )


# Codes of a file that is not what it should be. Our statements fail on a foreign schema only.
_DAMAGED = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
}
# What to do about the machine, by the code of SQLite's error, and the kind of ours.
_REMEDIES: dict[int, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_BUSY: (TimeoutError, "End the process that holds it."),
    sqlite3.SQLITE_CANTOPEN: (OSError, "Make file and folder readable, or close other files."),
    sqlite3.SQLITE_FULL: (OSError, "Make room on the disk."),
    sqlite3.SQLITE_IOERR: (OSError, "Mend the disk, or make room: it may be full."),
    sqlite3.SQLITE_NOMEM: (MemoryError, "Free memory."),
    sqlite3.SQLITE_READONLY: (PermissionError, "Make the file and its folder writable."),
}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as Python's, and damage as what it is, with the remedy.

    A file is damaged where its contents or a code of SQLite say so. Every other error, one without
    a code included, tells of the machine: a copy put back in its place would lose charges.
    """
    try:
        yield
    except Damage as damage:
        raise _damaged(path, str(damage)) from None
    except UnicodeDecodeError as error:
        raise _damaged(path, _FOREIGN) from error
    except (MemoryError, OSError, sqlite3.Error) as error:
        code = getattr(error, "sqlite_errorcode", None) or -1
        if code & 0xFF in _DAMAGED and code > 0:
            raise _damaged(path, f"{_FOREIGN} ({error})") from error
        if code & 0xFF == sqlite3.SQLITE_CANTOPEN and not _is_there(path):
            raise _missing(path) from error
        if path.is_dir():
            raise IsADirectoryError(
                f"path={str(path)!r} is a folder. Give a file in it: {str(path / 'ledger.db')!r}."
            ) from error
        if isinstance(error, MemoryError) or code == sqlite3.SQLITE_IOERR_NOMEM:
            code = sqlite3.SQLITE_NOMEM
        kind, remedy = _REMEDIES.get(code & 0xFF, (OSError, "Mend the cause."))
        if isinstance(error, OSError):  # of the system, and not of SQLite
            kind, remedy = type(error), "Make its folder writable, or give another path."
        raise kind(
            f"The privacy ledger {path} cannot be used now: {error}. {remedy} Then try again. "
            "Nothing may be released: `entries` tells whether a charge was written. That says "
            "nothing of damage."
        ) from error


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(f"There is no privacy ledger {path}. Check the path.")


def _damaged(path: Path, problem: str) -> LedgerDamagedError:
    return LedgerDamagedError(
        f"{path} {problem}. Nothing was charged. Put back a copy that holds all charges, or give "
        "another path if this is not your ledger; without such a copy, ask whoever owns the data "
        "for a new budget."
    )
