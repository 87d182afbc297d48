"""Sums of phi over the partitions of a Dask collection: integers from the workers, added once.

Groups may lie in several partitions. Their rows are brought together first: each partition is cut
by a hash of the labels, and all pieces of a cut make a table that holds every row of its groups, in
the order of the collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dask import (
    PartitionSchema,
    WorkerError,
    compute,
    cut_and_joined,
    on_partitions,
    partitions,
    reduced,
    sound,
)
from ..features._feature_maps import AVERAGE, FeatureMap, engine_signature
from ..schema._groups import LENGTHS, Groups, read_groups, spread
from ..schema._reading import Table, is_dask
from ._private_sketch import Counted, sums_of


@dataclass(frozen=True)
class _Plan:
    """All that a worker is told. Public, but for the key."""

    schema: PartitionSchema
    feature_map: FeatureMap
    silent: bool
    # A row must add the same bits whichever worker takes it; the engine decides the last ones.
    engine: str
    limit: Any = None
    key: bytes = field(default=b"", repr=False)
    n_cuts: int = 1


@dataclass(frozen=True, repr=False)
class _Part:
    """What a worker answers. Private: a repr would end up in a log."""

    sums: NDArray
    n_rows: int


@dataclass(frozen=True, repr=False)
class _Piece:
    """Rows of a partition whose groups belong together, and their labels. Private."""

    X: NDArray | Table
    labels: list[Any]


def sum_partitions(
    X: Any,
    schema: PartitionSchema,
    feature_map: FeatureMap,
    *,
    silent: bool,
    by_group: tuple[Any, Any, bytes] | None = None,
) -> tuple[NDArray, int]:
    """Return the sum of phi over all rows of a Dask collection, and their number.

    Integers are added exactly, so it is the sum of one process, bit for bit, whatever the
    partitions are, in whatever order they come and however often a worker dies. (With
    ``silent=True`` they are floats, and equal to rounding.)

    Parameters
    ----------
    by_group : tuple of (groups, limit, key), default=None
        A Dask series or array in the partitions of X, `max_rows_per_group`, and the secret key of
        the coins. The number of rows is then that of `Counted`.

    Raises
    ------
    ValueError, TypeError
        The first fault of a partition, as `validate_table` and `Columns.check` word it.
    RuntimeError
        If Dask fails, or a worker would not compute the same bits as this process.
    """
    parts = partitions(X)
    if by_group is None:
        plan = _Plan(schema, feature_map, silent, engine_signature())
        tasks = on_partitions(_sum, parts, plan)
    else:
        groups, limit, key = by_group
        # There are enough cuts for blocks to be small, and few enough for their square to be.
        engine, n_cuts = engine_signature(_engine_of(limit)), min(len(parts), 64)
        plan = _Plan(schema, feature_map, silent, engine, limit, key, n_cuts)
        labels = _partitions_of(groups, len(parts))
        tasks = cut_and_joined(_cut, _join, parts, plan, labels, n_cuts)
    # Sums travel to one another and the total alone comes back: parts are exact sums of few rows.
    (total,) = sound(compute([reduced(_merge, tasks)]))
    schema.check_size(total.n_rows)
    return total.sums, total.n_rows


def _partitions_of(groups: Any, n_partitions: int) -> list[Any]:
    """Return the partitions of the labels, as many as X has."""
    found = []
    if is_dask(groups) and len(getattr(groups, "shape", (0,))) == 1:
        found = np.ravel(groups.to_delayed()).tolist()
    if len(found) != n_partitions:
        raise ValueError(
            "X is a Dask collection, so groups must be a Dask series or array in the same "
            "partitions, such as another column of the same frame: fit(frame[columns], "
            "groups=frame['person'])."
        )
    return found


def _engine_of(limit: Any) -> str | None:
    """Return by which engine sums are made, None for the fastest; means of groups by numpy's."""
    return "numpy" if limit == AVERAGE else None


def _checked(rows: Any, plan: _Plan) -> NDArray | Table:
    """Return the rows of a partition, checked."""
    if engine_signature(_engine_of(plan.limit)) != plan.engine:
        raise WorkerError(
            "A worker uses another engine than the client: install the same skdpsumm and numba on "
            "both, and set SKDPSUMM_ENGINE to the same value, or to 'numpy'."
        )
    X = plan.schema.check(rows)
    # Here and not in the client, which never sees the rows.
    plan.feature_map.check_values(X)
    return X


def _sum(rows: Any, plan: _Plan) -> _Part:
    return _summed(_checked(rows, plan), plan)


def _summed(X: Any, plan: _Plan, groups: Groups | None = None) -> _Part:
    counted = Counted.of(len(X), plan.limit, groups, plan.key)
    sums = sums_of(plan.feature_map, X, counted, silent=plan.silent)
    return _Part(sums, counted.n_units)


def _cut(rows: Any, plan: _Plan, groups: Any) -> list[_Piece]:
    """Cut a partition by its groups."""
    X, labels = _checked(rows, plan), read_groups(groups)
    if len(labels) != len(X):
        raise ValueError(LENGTHS)
    found = Groups(labels)
    place = spread(found.labels, plan.n_cuts)[found.codes]
    wanted = [np.flatnonzero(place == i) for i in range(plan.n_cuts)]
    return [_Piece(X[at], [labels[row] for row in at.tolist()]) for at in wanted]


def _join(pieces: list[_Piece], plan: _Plan) -> _Part:
    """Sum phi over groups, all rows of which are in these pieces."""
    X = _joined([piece.X for piece in pieces])
    groups = Groups(list(chain.from_iterable(piece.labels for piece in pieces)))
    return _summed(X, plan, groups)


def _joined(tables: Sequence[Any]) -> Any:
    """Return tables below one another; no dtype that they might share changes a cell."""
    if not isinstance(tables[0], Table):
        # Without a schema there may be float32 beside float64: the wider type holds both.
        floats = all(table.dtype.kind == "f" for table in tables)
        return np.concatenate(tables) if floats else _stacked(tables)
    columns = zip(*(table.columns for table in tables), strict=True)
    return Table([_stacked(column) for column in columns])


def _stacked(columns: Sequence[NDArray]) -> NDArray:
    alike = len({column.dtype for column in columns}) == 1
    return np.concatenate(columns if alike else [column.astype(object) for column in columns])


def _merge(parts: Sequence[_Part], _: None) -> _Part:
    sums = reduce(np.add, [part.sums for part in parts])
    return _Part(sums, sum(part.n_rows for part in parts))
