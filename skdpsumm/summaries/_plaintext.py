"""One table with the rows of all owners: whose they are, and whose cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ..schema._listed import check_listed, positions
from ..schema._reading import is_missing, read_labels, unwrap
from ._labels import read_label_column
from ._mmd import read_rows

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


def read_owners(estimator: Any, X: Any, owners: Any, *, as_one: bool) -> OwnersTables:
    """Read the rows of all owners; those of an owner that cannot be read are left to the others.

    Parameters
    ----------
    estimator : PrivateMMDSummarizer
        Gets the columns, and has `schema` and `shares`.
    X : array-like or frame of shape (n, n_features)
    owners : array-like of shape (n,) or None
        Whose each row is. None is one owner, named "X".
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
        return _read_one_by_one(estimator, X, owners)
    members = rows_by_owner(len(whole), owners, estimator.shares)
    rows = {name: whole[own] for name, own in members.items()}
    return OwnersTables(rows, members, {}, len(whole), whole)


def _read_one_by_one(estimator: Any, X: Any, owners: Any) -> OwnersTables:
    members = rows_by_owner(_num_samples(X), owners, estimator.shares)
    rows: dict[Any, NDArray] = {}
    errors: dict[Any, Exception] = {}
    for name, own in members.items():
        if len(own) == 0:
            continue
        try:
            rows[name] = read_rows(estimator, _safe_indexing(X, own), keep_float32=True)
        except (ValueError, TypeError) as error:
            errors[name] = error
    if not rows:  # nobody is left, so that what is wrong is no matter of one owner
        raise next(iter(errors.values()))
    some = next(iter(rows.values()))
    rows |= {name: some[:0] for name, own in members.items() if len(own) == 0}
    return OwnersTables(rows, members, dict.fromkeys(errors, _UNREADABLE), _num_samples(X), None)


def read_owners_labels(
    y: Any, members: Mapping[Any, NDArray]
) -> tuple[dict[Any, NDArray], dict[Any, str]]:
    """Return the labels of each owner that has sound ones, and which owners have others.

    Each owner is judged by its own labels. Which kind most owners have is the curator's to tell,
    once no message follows: who takes part must not hang on a label of somebody else. Where no
    owner has sound labels, that is how they are meant, and both answers are empty.
    """
    y = unwrap(y)
    if y is None or np.ndim(y) != 1:
        return {}, {}
    labels: dict[Any, NDArray] = {}
    owners = [name for name, own in members.items() if len(own)]
    for name in owners:
        try:
            labels[name] = read_label_column(_safe_indexing(y, members[name]))
        except (ValueError, TypeError):
            continue
    return labels, {name: _BAD_LABELS for name in owners if name not in labels} if labels else {}


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
        owners = read_labels(owners)
        if owners.shape != (n_rows,):
            raise ValueError("owners must hold one label per row of X.")
        labels, codes = _owner_codes(owners)
    members = {name: np.flatnonzero(codes == k) for k, name in enumerate(labels)}
    if shares is None:
        return members
    if not set(labels) <= set(shares):
        raise ValueError("shares has no entry for some of the owners; name all of them.")
    return {name: members.get(name, np.empty(0, np.int64)) for name in shares}


def _owner_codes(owners: NDArray) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the names of the owners in order, and whose each row is, by position."""
    cells = list(dict.fromkeys(owners.tolist()))
    kinds = {isinstance(cell, str) for cell in cells}
    if len(kinds) > 1 or any(map(is_missing, cells)):
        raise ValueError(
            "owners must be labels of one kind, all strings or all numbers, and none missing: give "
            "rows without an owner a name of their own, fillna('unknown')."
        )
    # Sorted, so that an owner's number, and with it the seed of its coins, hangs on no row's place.
    labels = sorted(check_listed("owners", cells))
    return labels, positions(owners, labels)
