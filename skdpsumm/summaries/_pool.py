"""The rows that owners have handed over to the curator, and which answers are accepted."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._embedding import Embedding
from ._messages import Bid, Message, Rows

# Grid values depend on the dtype a little, so rows are never converted.
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_LARGEST_INDEX = np.iinfo(np.int64).max


class Pool:
    """Rows received, in the order of their arrival.

    Parameters
    ----------
    owners : list
        Names.
    embedding : Embedding
        For tables like those of the owners.

    Attributes
    ----------
    origins : list of (owner, index)
        Whose each row is, and which of his.
    """

    def __init__(self, owners: list[Any], embedding: Embedding):
        self._embedding = embedding
        self._width = {"rows": embedding.n_columns, "features": embedding.n_features}
        self._known: dict[Any, set[int]] = {owner: set() for owner in owners}
        self._parts: list[NDArray] = []
        self._starts: list[int] = []
        self._labels: list[Any] = []
        self.origins: list[tuple[Any, int]] = []

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def X(self) -> NDArray:
        """All rows received, shape (len(self), width)."""
        return np.concatenate(self._parts) if self._parts else np.empty((0, self._width["rows"]))

    def parts_from(self, place: int) -> list[NDArray]:
        """Return the answers received from a place on, each in the dtype that it came in."""
        pairs = zip(self._starts, self._parts, strict=True)
        return [part for start, part in pairs if start >= place]

    @property
    def y(self) -> NDArray | None:
        """Their labels, None if some owner sent none."""
        if not self._labels or any(labels is None for labels in self._labels):
            return None
        return np.concatenate(self._labels)

    def fault(self, owner: Any, message: Message, reply: Any) -> str | None:
        """Return why `reply` is no answer to `message`, or None if it is; names no value."""
        if isinstance(reply, BaseException):
            return f"raised {type(reply).__name__}"
        if not isinstance(reply, message.answer):
            return f"answered with {type(reply).__name__}, not {message.answer.__name__}"
        try:
            return (
                self._bid_fault(reply)
                if isinstance(reply, Bid)
                else self._rows_fault(owner, message, reply)
            )
        except Exception:  # whatever it is, it must not end the run of the others
            return "sent what cannot be read"

    def _bid_fault(self, reply: Bid) -> str | None:
        if not isinstance(reply.score, Real) or np.isnan(reply.score):
            return "made a bid that is no number"
        return None if isinstance(reply.index, Integral) else "made a bid without an index"

    def _rows_fault(self, owner: Any, message: Message, reply: Rows) -> str | None:
        X, indices = np.asarray(reply.X), np.asarray(reply.indices)
        if X.ndim != 2 or X.shape[1] != self._width[message.reveal] or X.dtype not in _DTYPES:
            return "sent rows of another shape or type"
        if indices.shape != (len(X),) or indices.dtype.kind not in "iu":
            return "sent rows without an index each"
        if len(X) and not 0 <= indices.min() <= indices.max() <= _LARGEST_INDEX:
            return "sent an index that no row has"
        if reply.y is not None and np.asarray(reply.y).shape != (len(X),):
            return "sent another number of labels than rows"
        if len(X) > message.most_rows():
            return "sent more rows than asked for"
        if len(self._known[owner].union(indices.tolist())) < len(self._known[owner]) + len(X):
            return "sent a row twice"
        if not np.isfinite(X).all():
            return "sent rows that are not finite"
        honest = message.reveal == "rows" or self._embedding.could_give(X)
        return None if honest else "sent features that no row has"

    def add(self, owner: Any, reply: Any) -> None:
        """Take the rows of a valid answer."""
        if isinstance(reply, Bid) or len(reply.X) == 0:
            return
        indices = np.asarray(reply.indices).tolist()
        self._parts.append(np.asarray(reply.X))
        self._starts.append(len(self))
        self._labels.append(None if reply.y is None else np.asarray(reply.y))
        self._known[owner].update(indices)
        self.origins += [(owner, index) for index in indices]
