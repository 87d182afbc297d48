"""All that curator and owners ever say to each other: plain objects, to be sent by any means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import NDArray

from ._embedding import Embedding


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows that an owner hands over.

    Parameters
    ----------
    indices : ndarray of shape (r,)
        Which of the owner's rows they are, by the owner's own count.
    X : ndarray of shape (r, n_columns), or (r, d) with ``reveal="features"``
    y : ndarray of shape (r,) or None
        Their labels, where the owner has any.
    """

    indices: NDArray
    X: NDArray
    y: NDArray | None = None


@dataclass(frozen=True, eq=False)
class Bid:
    """The score of an owner's best remaining row, and which it is by the owner's own count."""

    score: float
    index: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """What every message of the curator may carry.

    Parameters
    ----------
    embedding : Embedding or None
        The public map phi, with the first message that needs it.
    reveal : {"rows", "features"}
        Whether rows are to be handed over as they are or as phi(x).
    """

    embedding: Embedding | None = None
    reveal: str = "rows"
    answer: ClassVar[type] = Rows

    def most_rows(self) -> float:
        """Return how many rows an answer may hold."""
        return float("inf")


@dataclass(frozen=True, eq=False, kw_only=True)
class ProposeRows(Message):
    """Hand over `n_herd` rows that match `direction` together, and `n_uniform` others at random."""

    n_herd: int
    n_uniform: int
    direction: NDArray | None = None

    def most_rows(self) -> float:
        return self.n_herd + self.n_uniform


@dataclass(frozen=True, eq=False, kw_only=True)
class SendAbove(Message):
    """Hand over each row with ``<direction, phi(x)> >= threshold``, with probability `rate`."""

    direction: NDArray
    threshold: float
    rate: float


@dataclass(frozen=True, eq=False, kw_only=True)
class SendBest(Message):
    """Hand over the `n` rows with the largest ``<direction, phi(x)>``."""

    direction: NDArray
    n: int

    def most_rows(self) -> float:
        return self.n


@dataclass(frozen=True, eq=False, kw_only=True)
class CallForBids(Message):
    """Say how large ``<direction, phi(x)>`` is for the best of the remaining rows."""

    direction: NDArray
    answer: ClassVar[type] = Bid


@dataclass(frozen=True, eq=False, kw_only=True)
class HandOver(Message):
    """Hand over the row of the last bid. Not to be asked for it is a message, too."""

    def most_rows(self) -> float:
        return 1
