"""One owner of rows: answers the curator, and keeps everything else to himself."""

from __future__ import annotations

from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..features import GRID
from ..schema._reading import Schema, validate_table
from ._embedding import Embedding, grid_scores
from ._messages import (
    Bid,
    CallForBids,
    HandOver,
    Message,
    ProposeRows,
    Rows,
    SendAbove,
    SendBest,
)
from ._selection import feature_search

# Features of all rows are kept between messages up to so many bytes, and computed anew beyond.
_MOST_BYTES = 2**30
_ROWS_PER_BATCH = 65536


class DataOwner:
    """A party that holds rows and answers a `Curator`. Holds private data.

    Rows that were handed over once are never considered again. What an owner answers may depend on
    its own rows in any way: guarantees are about what reaches *other* owners.

    Parameters
    ----------
    X : array-like of shape (n, n_columns)
        Numbers; float32 stays float32.
    y : array-like of shape (n,), default=None
        Labels that go with the rows that are handed over. They play no part in the choice.
    seed : int or SeedSequence, default=None
        Of the owner's coins, which are secret. None draws them from the operating system; a seed
        is for simulations.

    Raises
    ------
    ValueError
        If X is no finite table of numbers. The message names no value.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm.summaries import DataOwner
    >>> from skdpsumm.summaries import ProposeRows
    >>> owner = DataOwner(np.random.default_rng(0).normal(size=(100, 2)))
    >>> owner.answer(ProposeRows(n_herd=0, n_uniform=5)).X.shape
    (5, 2)
    """

    holds_private_data = True

    def __init__(self, X: ArrayLike, y: ArrayLike | None = None, *, seed: Any = None):
        self._X = validate_table(Schema(), X, keep_float32=True, ensure_min_samples=0)
        self._y = None if y is None else np.asarray(y)
        if self._y is not None and len(self._y) != len(self._X):
            raise ValueError("X and y have different numbers of rows.")
        self._coins = np.random.default_rng(seed)
        self._remaining = np.ones(len(self._X), bool)
        self._embedding: Embedding | None = None
        self._grid: NDArray | None = None
        self._reveal = "rows"
        self._last_bid = -1

    def answer(self, message: Message) -> Rows | Bid:
        """Return the answer to a message of the curator.

        Parameters
        ----------
        message : Message
            One of the kinds in `skdpsumm.summaries`.

        Returns
        -------
        Rows or Bid

        Raises
        ------
        TypeError
            For a message of an unknown kind, or one that needs an embedding that never came.
        """
        if message.embedding is not None:
            self._embedding, self._grid = message.embedding, None
        self._reveal = message.reveal
        return self._answer(message)

    @singledispatchmethod
    def _answer(self, message: Any) -> Rows | Bid:
        raise TypeError(f"An owner cannot answer {type(message).__name__}.")

    @_answer.register
    def _(self, message: ProposeRows) -> Rows:
        herded = self._herd(message.direction, message.n_herd)
        rest = np.setdiff1d(np.flatnonzero(self._remaining), herded)
        return self._hand_over([*herded, *self._coins.permutation(rest)[: message.n_uniform]])

    @_answer.register
    def _(self, message: SendAbove) -> Rows:
        tossed = self._coins.random(len(self._X)) < message.rate
        above = self._scores(message.direction) >= message.threshold
        return self._hand_over(np.flatnonzero(self._remaining & tossed & above))

    @_answer.register
    def _(self, message: SendBest) -> Rows:
        return self._hand_over(self._ranking(message.direction)[: message.n])

    @_answer.register
    def _(self, message: CallForBids) -> Bid:
        candidates = np.flatnonzero(self._remaining)
        if len(candidates) == 0:
            self._last_bid = -1
            return Bid(-np.inf, -1)
        scores = self._scores(message.direction)
        self._last_bid = int(candidates[scores[candidates].argmax()])
        return Bid(float(scores[self._last_bid]), self._last_bid)

    @_answer.register
    def _(self, message: HandOver) -> Rows:
        return self._hand_over([self._last_bid] if self._last_bid >= 0 else [])

    def _herd(self, direction: NDArray | None, n_herd: int) -> NDArray[np.int64]:
        """Return remaining rows whose mean embedding is close to `direction` (kernel herding)."""
        candidates = np.flatnonzero(self._remaining)
        if n_herd == 0 or direction is None or len(candidates) == 0:
            return np.empty(0, np.int64)
        embedding = self._require_embedding()
        most = max(n_herd, _MOST_BYTES // (4 * embedding.n_features))
        if len(candidates) > most:
            candidates = np.sort(self._coins.choice(candidates, most, replace=False))
        features = self._grid_of(candidates) * np.float32(embedding.scale / GRID)
        search = feature_search(features, direction, n_herd)
        return candidates[search.run(False, 0, np.random.RandomState(0))]

    def _ranking(self, direction: NDArray) -> NDArray[np.int64]:
        """Return the remaining rows from the best on; of equal ones, the first comes first."""
        candidates = np.flatnonzero(self._remaining)
        order = np.argsort(-self._scores(direction)[candidates], kind="stable")
        return candidates[order]

    def _scores(self, direction: NDArray) -> NDArray[np.float64]:
        """Return ``<direction, phi(x)>`` for all rows, each a function of its row alone."""
        scale = self._require_embedding().scale
        if self._grid is None and self._fits():
            self._grid = self._grid_of(np.arange(len(self._X)))
        if self._grid is not None:
            return grid_scores(self._grid, direction, scale)
        batches = np.array_split(np.arange(len(self._X)), 1 + len(self._X) // _ROWS_PER_BATCH)
        return np.concatenate([grid_scores(self._grid_of(b), direction, scale) for b in batches])

    def _fits(self) -> bool:
        return 4 * len(self._X) * self._require_embedding().n_features <= _MOST_BYTES

    def _grid_of(self, rows: NDArray) -> NDArray[np.float32]:
        if self._grid is not None:
            return self._grid[rows]
        return self._require_embedding().grid(self._X[rows])

    def _require_embedding(self) -> Embedding:
        if self._embedding is None:
            raise TypeError("The message needs the public embedding, and none has come yet.")
        if self._embedding.n_columns != self._X.shape[1]:
            raise TypeError("The embedding is for tables with another number of columns.")
        return self._embedding

    def _hand_over(self, rows: Any) -> Rows:
        rows = np.asarray(rows, np.int64)
        self._remaining[rows] = False
        X = self._X[rows]
        if self._reveal == "features":
            X = self._require_embedding().features(X)
        return Rows(rows, X, None if self._y is None else self._y[rows])

    def __repr__(self) -> str:
        return f"<DataOwner, {self._X.shape[1]} columns, holds_private_data=True>"
