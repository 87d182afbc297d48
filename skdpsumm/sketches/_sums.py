"""Exact sums of phi: over all rows, over those that stay of each group, or of one mean a group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from ..features._feature_maps import GRID, FeatureMap
from ..schema._groups import Groups

AVERAGE = "average"
_ROWS_PER_BATCH = 65536


@dataclass(frozen=True, repr=False)
class Counted:
    """Which rows of a table count, and how often a sum counts them. Private.

    Parameters
    ----------
    n_units : int
        What is added to the number of rows.
    kept : ndarray of int, default=None
        The rows that count. None is all.
    averaged : Groups, default=None
        Groups whose rows share a weight of one. None gives each row a weight of one.
    """

    n_units: int
    kept: NDArray[np.int64] | None = None
    averaged: Groups | None = None

    @classmethod
    def of(cls, n_rows: int, limit: Any, groups: Groups | None, key: bytes) -> Counted:
        """Return what counts of a table that holds all rows of its groups.

        Parameters
        ----------
        n_rows : int
        limit : int, "average" or None
            `max_rows_per_group`.
        groups : Groups or None
        key : bytes
            Of the secret coins that choose among the rows of a group.
        """
        if groups is None:
            return cls(n_rows)
        if limit == AVERAGE:
            return cls(len(groups), averaged=groups)
        kept = groups.kept(limit, key)
        return cls(len(kept), kept)


def sums_of(
    feature_map: FeatureMap, X: Any, counted: Counted, *, silent: bool, n_threads: int
) -> NDArray:
    """Return the sum of phi over what counts, in grid units.

    Exact integers, of which each row or group adds what is a function of itself alone; floats where
    no noise is added (`silent`).
    """
    groups, kept = counted.averaged, counted.kept
    if groups is not None and silent:
        return feature_map.float_sums(X, 1 / groups.sizes[groups.codes]) * GRID
    if groups is not None:
        return feature_map.grid_averages(X, groups.order, groups.sizes)
    if kept is None or len(kept) == len(X):
        return _plain_sums(feature_map, X, silent, n_threads)
    # In batches, so that kept rows are not copied all at once.
    batches = gen_batches(len(kept), _ROWS_PER_BATCH) if len(kept) else [slice(0)]
    return reduce(
        np.add, (_plain_sums(feature_map, X[kept[b]], silent, n_threads) for b in batches)
    )


def _plain_sums(feature_map: FeatureMap, X: Any, silent: bool, n_threads: int) -> NDArray:
    return feature_map.float_sums(X) * GRID if silent else feature_map.grid_sums(X, n_threads)
