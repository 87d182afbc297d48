"""Whose row each row is: labels of groups, usually of persons, read cell by cell.

Which rows of a group stay is a function of that group and of secret coins alone. So a label means
the same in every container, and the coins are keyed hashes of the label itself, not of the place
that it happens to have among others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._reading import in_words, is_dask, label_cells, plain_labels

_ROUNDED = (
    "groups holds floats so large that two labels may have been rounded to one; give whole numbers "
    "as integers or as words."
)


class Groups:
    """Which rows belong together.

    Two labels are one where their cells are equal as values: 1, 1.0 and True are one label, and
    1 and "1" are two.

    Parameters
    ----------
    labels : sequence
        The label of each row, one form for each value (`plain_labels`).

    Attributes
    ----------
    labels : list
        The label of each group, in order of first appearance.
    codes : ndarray of shape (n_rows,), int64
        The position among `labels` of each row's group.
    """

    def __init__(self, labels: Sequence[Hashable] | NDArray):
        # A dict compares numbers exactly, of whatever types.
        seen: dict[Hashable, int] = {}
        codes = (seen.setdefault(label, len(seen)) for label in labels)
        self.codes = np.fromiter(codes, np.int64, len(labels))
        self.labels = list(seen)

    @classmethod
    def read(cls, groups: Any, n_rows: int | None = None) -> Groups:
        """Read one label per row.

        Parameters
        ----------
        groups : array-like or series of shape (n_rows,)
        n_rows : int, default=None
            Number of rows of X, to compare with. None compares with nothing.

        Raises
        ------
        ValueError
            For labels of another number or shape, for missing labels, for dates, and for other
            things than words, numbers and truth values.
        """
        if is_dask(groups):
            raise ValueError(
                "groups is a Dask collection, but X is not: give groups.compute(), or both as Dask "
                "collections in the same partitions."
            )
        if isinstance(groups, str):
            raise ValueError(
                "groups must be labels, one for each row, and not a name: give the column itself, "
                "such as table['person']."
            )
        column = in_words(lambda: label_cells(groups, "groups"), "Input groups", of_labels=True)
        labels = in_words(lambda: plain_labels(column), "Input groups", of_labels=True)
        if _may_be_rounded(column):
            raise ValueError(_ROUNDED)
        if n_rows is not None and len(labels) != n_rows:
            raise ValueError(
                "groups and X have different numbers of rows; give one label for each row."
            )
        return cls(labels)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each group, shape (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self.labels)).astype(np.int64)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Rows sorted by group, those of one group in the order of the table."""
        return np.argsort(self.codes, kind="stable")

    def kept(self, k: int, key: bytes) -> NDArray[np.int64]:
        """Return the rows that stay where each group keeps at most k, in the order of the table.

        Those with the lowest hashes of (label, ordinal within the group) under the secret key: a
        function of the group and of the key alone, whatever other groups there are.

        Parameters
        ----------
        k : int
        key : bytes
            At most 64.
        """
        keep = np.ones(len(self.codes), bool)
        starts = np.cumsum(self.sizes) - self.sizes
        for group in np.flatnonzero(self.sizes > k).tolist():
            rows = self.order[starts[group] : starts[group] + self.sizes[group]]
            ordinals = _by_coins(label_bytes(self.labels[group]), len(rows), key)
            keep[rows[ordinals[k:]]] = False
        return np.flatnonzero(keep)


def _by_coins(label: bytes, size: int, key: bytes) -> NDArray[np.intp]:
    """Return the ordinals of the rows of a group by a keyed hash of (label, ordinal)."""
    start = blake2b(label, key=key, digest_size=8)

    def coin(ordinal: int) -> bytes:
        one = start.copy()
        one.update(ordinal.to_bytes(8, "big"))  # of one length, so no two pairs are one message
        return one.digest()

    coins = np.frombuffer(b"".join(map(coin, range(size))), ">u8")
    return np.argsort(coins, kind="stable")


def _may_be_rounded(column: NDArray) -> bool:
    """Whether a float is so large that the next whole number may have become the same one."""
    if column.dtype.kind == "f":
        return np.max(np.abs(column), initial=0) >= _first_rounded(column.dtype.type)
    if column.dtype.kind != "O":
        return False
    floats = (cell for cell in column.tolist() if isinstance(cell, float | np.floating))
    return any(abs(cell) >= _first_rounded(type(cell)) for cell in floats)


def _first_rounded(kind: Any) -> Any:
    return 2.0 ** np.finfo(kind if issubclass(kind, np.floating) else float).nmant


def label_bytes(label: Any) -> bytes:
    """Return bytes that stand for one label alone, whatever container it came in."""
    if isinstance(label, str):
        return b"w" + label.encode("utf-8", "surrogatepass")
    number = Fraction(label)
    # In hexadecimal, for Python writes no more than some thousand decimals.
    return b"n%x/%x" % (number.numerator, number.denominator)


def spread(labels: Iterable[Any], n_parts: int) -> NDArray[np.int64]:
    """Return in which of so many parts each label belongs, the same one wherever it appears."""
    digests = (blake2b(label_bytes(label), digest_size=8).digest() for label in labels)
    return np.array([int.from_bytes(d, "big") % n_parts for d in digests], np.int64)
