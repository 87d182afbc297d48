"""Owners that are the partitions of a Dask collection, asked where their rows are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._dask import PartitionSchema, compute, on_partitions, partitions, sound
from ._messages import Message
from ._owner import DataOwner


class PartitionOwners:
    """One owner per partition, named 0, 1, ... Each answers one message, and forgets it.

    Rows are read twice: once to check them, before anything is charged, and once to answer.

    Parameters
    ----------
    estimator : estimator
        Gets the columns, and is named in messages of errors.
    X : Dask array or frame

    Attributes
    ----------
    members : list of range
        Which rows of X each owner holds.

    Raises
    ------
    ValueError, TypeError
        What one process would raise for the whole of X.
    """

    def __init__(self, estimator: Any, X: Any):
        self._schema = PartitionSchema.of(estimator, X)
        self._parts = partitions(X)
        sizes = sound(compute(on_partitions(_size, self._parts, self._schema)))
        ends = np.cumsum(sizes).tolist()
        self._schema.check_size(ends[-1])
        self.members = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._seeds: Mapping[int, Any] = dict.fromkeys(range(len(sizes)))

    @property
    def n_rows(self) -> int:
        """Number of rows of X."""
        return self.members[-1].stop

    def seed(self, seeds: Mapping[int, Any]) -> None:
        """Set the seeds of the owners' coins; None draws them where the rows are."""
        self._seeds = seeds

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.members)))

    def answer_all(self, messages: Mapping[int, Message]) -> dict[int, Any]:
        """Return the answers of all owners that are asked, from one computation."""
        parts = [self._parts[name] for name in messages]
        own = [(name, self._seeds[name]) for name in messages]
        answers = compute(on_partitions(_answer, parts, (self._schema, dict(messages)), own))
        return dict(zip(messages, answers, strict=True))


def _size(rows: Any, schema: PartitionSchema) -> int:
    return len(schema.check(rows))


def _answer(rows: Any, shared: tuple[PartitionSchema, dict[int, Message]], own: Any) -> Any:
    schema, messages = shared
    name, seed = own
    # A Fault in its place is no answer to any message, so the curator leaves this owner out.
    return DataOwner(schema.check(rows), seed=seed).answer(messages[name])
