"""Neighbouring worlds for a summary: another target, or other rows of an owner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..summaries import Curator, PrivateMMDSummarizer
from ..summaries._mmd import Embedding
from ._hard_rows import N_CANDIDATES, hard_pair, neighbouring_tables, rows_at_many_scales

SIDES = ("target", "owners")
World = dict[str, Any]


def neighbouring_worlds(
    summarizer: PrivateMMDSummarizer, n_samples: int, n_features: int, side: str, rng
) -> tuple[World, World]:
    """Return two neighbours, as keyword arguments of `fit`; see `worst_case_neighbours`."""
    _check(summarizer, side)
    embedding = _embedding_of(summarizer, n_features)
    rows = rows_at_many_scales(N_CANDIDATES, n_features, rng) / np.sqrt(summarizer.gamma)
    order = 1 if summarizer.delta == 0 else 2
    features = embedding.features(rows).astype(np.float64)
    adjacency = summarizer.adjacency
    # What a row of an owner displaces is another: sums move as where a row is replaced.
    pulled = "replace_one" if side == "owners" else adjacency
    far, near = (rows[k] for k in hard_pair(features, order, pulled))
    n_held = summarizer.n_select
    if side == "target":
        tables = neighbouring_tables(far, near, n_samples, adjacency)
        others = np.repeat(near[None], n_held, axis=0)
        return tuple(_world(far, others, target, n_held) for target in tables)
    target = np.repeat(near[None], n_samples, axis=0)
    tables = neighbouring_tables(far, near, n_held, adjacency)
    return tuple(_world(far, others, target, n_held) for others in tables)


def _check(summarizer: PrivateMMDSummarizer, side: str) -> None:
    if side not in SIDES:
        raise ValueError(f'side must be "target" or "owners", got {side!r}.')
    if summarizer.shares is not None and set(summarizer.shares) != {"observer", "others"}:
        raise ValueError(
            "shares must be None, or name the owners of the audit, 'observer' and 'others'."
        )
    if summarizer.target_is_owners:
        raise ValueError(
            "target_is_owners=True is not supported here: the target of the audit is no owner's. "
            "Audit with target_is_owners=False; the two costs add up."
        )


def _world(far: NDArray, others: NDArray, target: NDArray, n_held: int) -> World:
    """Return the arguments of `fit`; the observer holds what the target has no use for."""
    owners = np.repeat(["observer", "others"], [n_held, len(others)])
    return {
        "X": np.vstack([np.repeat(far[None], n_held, axis=0), others]),
        "X_target": target,
        "owners": owners,
    }


def _embedding_of(summarizer: PrivateMMDSummarizer, n_features: int) -> Embedding:
    return Curator(
        np.zeros((1, n_features)),
        ["observer"],
        protocol=summarizer._make_protocol(),
        gamma=summarizer.gamma,
        n_components=summarizer.n_components,
        epsilon=np.inf,
        random_state=check_random_state(summarizer.random_state),
    ).embedding
