"""Choosing rows of a Dask collection: first within each partition, then among those chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from .._dask import PartitionSchema, compute, on_partitions, partitions, sound
from ..schema._reading import Schema
from ._selection import Goal, SearchOptions, check_columns, unit_features


def select_from_partitions(
    X: Any, X_target: ArrayLike | None, options: SearchOptions, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Return positions of rows of X, in greedy order; see `greedy_mmd_selection`.

    Raises
    ------
    ValueError
        As `greedy_mmd_selection` does, and without a target for the exact kernel, which would take
        all rows of X to every partition.
    """
    schema = replace(PartitionSchema.of(Schema(), X), caller="greedy_mmd_selection")
    parts = partitions(X)
    goal = _goal(schema, parts, X_target, options, rng)
    seeds = rng.randint(2**31, size=len(parts)).tolist()
    found = sound(compute(on_partitions(_candidates, parts, (schema, goal), seeds)))
    schema.check_size(sum(size for size, _, _ in found))
    starts = np.cumsum([0] + [size for size, _, _ in found[:-1]])
    positions = np.concatenate([s + own for s, (_, own, _) in zip(starts, found, strict=True)])
    return positions[goal.select(np.concatenate([rows for _, _, rows in found]), rng)]


def _goal(
    schema: PartitionSchema,
    parts: list[Any],
    X_target: ArrayLike | None,
    options: SearchOptions,
    rng: np.random.RandomState,
) -> Goal:
    if X_target is not None:
        target = check_array(X_target, dtype=np.float64)
        check_columns(schema.n_columns, target)
        return options.goal(target, rng)
    features = options.features(schema.n_columns, rng)
    if features is None:
        raise ValueError(
            "X_target is None, and a summary of a whole Dask collection needs the mean of its "
            "features: give n_components=1000 or so, or an X_target in memory."
        )
    found = sound(compute(on_partitions(_feature_sum, parts, (schema, features))))
    n_rows = sum(size for size, _ in found)
    schema.check_size(n_rows)
    return Goal(options, features, sum(total for _, total in found) / n_rows)


def _feature_sum(rows: Any, shared: Any) -> tuple[int, NDArray]:
    schema, features = shared
    X = schema.check(rows)
    return len(X), unit_features(features, X).sum(axis=0, dtype=np.float64)


def _candidates(rows: Any, shared: Any, seed: int) -> tuple[int, NDArray, NDArray]:
    """Return the number of rows, and which of them are chosen here, with the rows themselves."""
    schema, goal = shared
    X = schema.check(rows)
    chosen = np.empty(0, np.int64)
    if len(X):
        chosen = goal.select(X, np.random.RandomState(seed))
    return len(X), chosen, X[chosen]
