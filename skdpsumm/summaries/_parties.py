"""Who takes part: labels that are sound, one table with all rows, and whose cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..schema._frames import n_rows_of, rows_of
from ..schema._reading import (
    SHAPE,
    CellError,
    cells_as_objects,
    read_labels,
    sound_labels,
)
from ._mmd import read_rows

_NO_LABELS = (
    "y must hold one label for each row: all words or all numbers, and none missing or infinite. "
    "Drop rows without a label, or give them a label of their own."
)

_NO_OWNERS = (
    "owners must be labels of one kind, all words or all numbers that float64 holds exactly, and "
    "none missing: give rows without an owner a name of their own, fillna('unknown'), and write "
    "other names as words, astype(str)."
)


def read_label_column(y: Any) -> NDArray:
    """Return labels as Python's words or numbers, in an array of objects.

    What is handed over of them is a matter of the rows that go: see `label_array`.

    Raises
    ------
    ValueError
        If labels are missing, infinite, of several kinds, or neither words nor numbers that float64
        holds. The message names no value.
    """
    try:
        return cells_as_objects(sound_labels(read_labels(y)))
    except CellError:
        pass
    raise ValueError(_NO_LABELS)


def common_owners(columns: Mapping[Any, list[NDArray | None]]) -> set[Any]:
    """Return the owners that sent what most owners sent as labels: words, numbers, or none.

    Parameters
    ----------
    columns : mapping from owner to list of (ndarray or None)
        The labels of each answer of each owner that sent rows, as `read_label_column` returns them.
    """
    kinds = {owner: {_kind(part) for part in parts} for owner, parts in columns.items()}
    sound = Counter(kind for found in kinds.values() if len(found) == 1 for kind in found)
    common = max(sound, key=lambda kind: sound[kind], default="?")
    return {owner for owner, found in kinds.items() if found == {common}}


def _kind(labels: NDArray | None) -> str:
    if labels is None:
        return "none"
    return "words" if any(isinstance(label, str) for label in labels) else "numbers"


_UNREADABLE = "has rows that cannot be read"
_BAD_LABELS = "has labels that are missing or of no one kind"


class AbsentOwner:
    """An owner whose rows cannot be used: all that others see of it is that it does not answer."""

    def answer(self, message: Any) -> NoReturn:
        """Raise LookupError."""
        raise LookupError


@dataclass(frozen=True)
class OwnersTables:
    """The rows of each owner, as the kernel sees them.

    Attributes
    ----------
    rows : dict from owner to ndarray of shape (n_k, n_columns)
        Without the owners whose rows cannot be read.
    members : dict from owner to ndarray of int
        Which rows of X are whose.
    faults : dict from owner to str
        Why rows cannot be read.
    n_rows : int
        Of X.
    whole : ndarray of shape (n_rows, n_columns) or None
        All of X, where it can be read.
    """

    rows: dict[Any, NDArray]
    members: dict[Any, NDArray[np.int64]]
    faults: dict[Any, str]
    n_rows: int
    whole: Any


def read_owners(
    estimator: Any, X: Any, owners: Any, shares: Mapping[Any, float] | None, *, as_one: bool
) -> OwnersTables:
    """Read the rows of all owners; those of an owner that cannot be read are left to the others.

    Parameters
    ----------
    estimator : PrivateMMDSummarizer
        Gets the columns, and has a `schema`.
    X : array-like or frame of shape (n, n_features)
    owners : array-like of shape (n,) or None
        Whose each row is. None is one owner, named "X".
    shares : mapping from owner to float, or None
        Names all owners; None takes those that occur.
    as_one : bool
        Whether all rows are needed, as where X is the target.

    Raises
    ------
    ValueError, TypeError
        If no owner's rows can be read, or one's cannot and all are needed.
    """
    try:
        whole = read_rows(estimator, X, keep_float32=True)
    except (ValueError, TypeError):
        if as_one or owners is None:
            raise
        return _read_one_by_one(estimator, X, owners, shares)
    members = rows_by_owner(len(whole), owners, shares)
    rows = {name: whole[own] for name, own in members.items()}
    return OwnersTables(rows, members, {}, len(whole), whole)


def _read_one_by_one(estimator: Any, X: Any, owners: Any, shares: Any) -> OwnersTables:
    n_rows = n_rows_of(X)
    members = rows_by_owner(n_rows, owners, shares)
    rows: dict[Any, NDArray] = {}
    errors: dict[Any, Exception] = {}
    for name, own in members.items():
        if len(own) == 0:
            continue
        try:
            rows[name] = read_rows(estimator, rows_of(X, own), keep_float32=True)
        except (ValueError, TypeError) as error:
            errors[name] = error
    if not rows:  # nobody is left, so that what is wrong is no matter of one owner
        raise next(iter(errors.values()))
    some = next(iter(rows.values()))
    rows |= {name: some[:0] for name, own in members.items() if len(own) == 0}
    return OwnersTables(rows, members, dict.fromkeys(errors, _UNREADABLE), n_rows, None)


def read_owners_labels(
    y: NDArray | None, members: Mapping[Any, NDArray]
) -> tuple[dict[Any, NDArray], dict[Any, str]]:
    """Return the labels of each owner that has sound ones, and which owners have others.

    Each owner is judged by its own labels. Which kind most owners have is the curator's to tell,
    once no message follows: who takes part must not hang on a label of somebody else.

    Parameters
    ----------
    y : ndarray of shape (n,) or None
        As `label_cells` returns it.
    members : mapping from owner to ndarray of int
        Which rows are whose.

    Raises
    ------
    ValueError
        If no owner has sound labels.
    """
    if y is None:
        return {}, {}
    labels: dict[Any, NDArray] = {}
    owners = [name for name, own in members.items() if len(own)]
    for name in owners:
        try:
            labels[name] = read_label_column(y[members[name]])
        except ValueError:
            continue
    if not labels:  # what is wrong is no matter of one owner
        raise ValueError(_NO_LABELS)
    return labels, {name: _BAD_LABELS for name in owners if name not in labels}


def rows_by_owner(
    n_rows: int, owners: Any, shares: Mapping[Any, float] | None
) -> dict[Any, NDArray[np.int64]]:
    """Return the positions of each owner's rows, for all owners that `shares` names.

    Parameters
    ----------
    n_rows : int
        n.
    owners : array-like of shape (n,) or None
        Whose each row is. None is one owner, named "X".
    shares : mapping from owner to float, or None
        None takes the owners that occur.
    """
    if owners is None:
        labels, codes = ["X"], np.zeros(n_rows, np.int64)
    else:
        labels, codes = _owner_codes(owners, n_rows)
    members = {name: np.flatnonzero(codes == k) for k, name in enumerate(labels)}
    if shares is None:
        return members
    if not set(labels) <= set(shares):
        raise ValueError("shares has no entry for some of the owners; name all of them.")
    return {name: members.get(name, np.empty(0, np.int64)) for name in shares}


def _owner_codes(owners: Any, n_rows: int) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the names of the owners in order, and whose each row is, by position."""
    try:
        names, fault = sound_labels(read_labels(owners, "owners")), ""
    except CellError as error:
        names, fault = [], error.fault
    if fault and fault != SHAPE:
        raise ValueError(_NO_OWNERS)
    if fault or len(names) != n_rows:
        raise ValueError("owners must hold one label per row of X.")
    # Sorted, so that an owner's number, and with it the seed of its coins, hangs on no row's place.
    labels = sorted(set(names))
    place = {label: k for k, label in enumerate(labels)}
    return labels, np.fromiter(map(place.__getitem__, names), np.int64, n_rows)
