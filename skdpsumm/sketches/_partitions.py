"""Sums of phi over the partitions of a Dask collection: integers from the workers, added once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dask import Fault, PartitionSchema, compute, on_partitions, partitions, reduced, sound
from ..features._engine import engine_signature
from ..features._feature_maps import FeatureMap
from ._private_sketch import sums_of


@dataclass(frozen=True)
class _Plan:
    """All that a worker is told."""

    schema: PartitionSchema
    feature_map: FeatureMap
    silent: bool
    # A row must add the same bits whichever worker takes it; the engine decides the last ones.
    engine: str


@dataclass(frozen=True, repr=False)
class _Part:
    """What a worker answers. Private: a repr would end up in a log."""

    sums: NDArray
    n_rows: int


def sum_partitions(
    X: Any, schema: PartitionSchema, feature_map: FeatureMap, *, silent: bool
) -> tuple[NDArray, int]:
    """Return the sum of phi over all rows of a Dask collection, and their number.

    Integers are added exactly, so it is the sum of one process, bit for bit, whatever the
    partitions are, in whatever order they come and however often a worker dies. (With
    ``silent=True`` they are floats, and equal to rounding.)

    Raises
    ------
    ValueError, TypeError
        The first fault of a partition, as `validate_table` and `Columns.check` word it.
    RuntimeError
        If Dask fails, or a worker would not compute the same bits as this process.
    """
    plan = _Plan(schema, feature_map, silent, engine_signature())
    # Sums travel to one another and the total alone comes back: parts are exact sums of few rows.
    tasks = on_partitions(_sum, partitions(X), plan)
    (total,) = sound(compute([reduced(_merge, tasks)]))
    schema.check_size(total.n_rows)
    return total.sums, total.n_rows


def _sum(rows: Any, plan: _Plan) -> _Part | Fault:
    if engine_signature() != plan.engine:
        return Fault(
            RuntimeError,
            "A worker computes by another engine than the client: install the same skdpsumm and "
            "numba on both, and set SKDPSUMM_ENGINE alike, or to 'numpy'.",
        )
    X = plan.schema.check(rows)
    # Here and not in the client, which never sees the rows.
    plan.feature_map.check_values(X)
    return _Part(sums_of(plan.feature_map, X, plan.silent, n_threads=1), len(X))


def _merge(parts: Sequence[_Part | Fault]) -> _Part | Fault:
    sound_parts: list[_Part] = []
    for part in parts:
        if isinstance(part, Fault):
            return part
        sound_parts.append(part)
    sums = reduce(np.add, [part.sums for part in sound_parts])
    return _Part(sums, sum(part.n_rows for part in sound_parts))
