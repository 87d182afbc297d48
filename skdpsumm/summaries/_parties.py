"""Who takes part: labels that are sound, one table with all rows, and whose cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from ..schema._frames import rows_of
from ..schema._listed import check_listed, positions
from ..schema._reading import is_missing, read_labels, unwrap
from ._mmd import read_rows

_NO_LABELS = (
    "y must hold one label for each row: all words or all numbers, and none missing or infinite. "
    "Drop rows without a label, or give them a label of their own."
)


def read_label_column(y: Any) -> NDArray:
    """Return a copy of a column of labels.

    Raises
    ------
    ValueError
        If labels are missing, infinite, of several kinds, or neither words nor numbers. The message
        names no value.
    """
    labels = np.array(y, subok=False)
    if labels.dtype == object:
        labels = _without_objects(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "biufU":
        raise ValueError(_NO_LABELS)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(_NO_LABELS)
    return labels


def _without_objects(labels: NDArray) -> NDArray:
    cells = labels.tolist()
    if all(type(cell) is str for cell in cells):
        return labels.astype(str)
    if not all(isinstance(cell, bool | int | float | np.number | np.bool_) for cell in cells):
        raise ValueError(_NO_LABELS)
    return np.array(cells)


def common_labels(columns: Mapping[Any, list[NDArray | None]]) -> dict[Any, Any]:
    """Return each owner's labels in the kind that most owners sent, without owners of another kind.

    Whole numbers that came as floats are whole numbers to the others; what does not fit leaves its
    owner out, and no other.

    Parameters
    ----------
    columns : mapping from owner to list of (ndarray or None)
        The labels of each answer of each owner that sent rows.

    Returns
    -------
    dict from owner to list of (ndarray or None)
        Of the owners whose labels fit. None stands for answers without labels, where most owners
        sent none.
    """
    kinds = {owner: _kind(parts) for owner, parts in columns.items()}
    sound = Counter(kind for kind in kinds.values() if kind != "?")
    common = max(sound, key=lambda kind: sound[kind], default="?")
    if common == "":
        return {owner: parts for owner, parts in columns.items() if kinds[owner] == ""}
    fitted = {owner: [_fitted(part, common) for part in parts] for owner, parts in columns.items()}
    return {
        owner: parts for owner, parts in fitted.items() if all(part is not None for part in parts)
    }


def _kind(parts: list[NDArray | None]) -> str:
    """Return "" for no labels, "U", "b", "i" or "f"; "?" where answers differ in having any."""
    found = {"" if part is None else part.dtype.kind.replace("u", "i") for part in parts}
    if len(found) > 1 and found & {"", "U"}:
        return "?"
    return next(kind for kind in ("f", "i", "b", "U", "") if kind in found)


_DTYPES = {"b": np.bool_, "i": np.int64, "f": np.float64}


def _fitted(labels: NDArray | None, kind: str) -> NDArray | None:
    if labels is None or (labels.dtype.kind == "U") != (kind == "U") or kind == "?":
        return None
    if kind == "U":
        return labels
    cast: NDArray = labels.astype(_DTYPES[kind])
    return cast if np.array_equal(cast, labels) else None


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
            rows[name] = read_rows(estimator, rows_of(X, own), keep_float32=True)
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
            labels[name] = read_label_column(rows_of(y, members[name]))
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
