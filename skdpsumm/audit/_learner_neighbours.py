"""Neighbours that a kernel learner finds hard: labels take turns, and one pull is left over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from ..learners._base import BaseKernelLearner
from ._hard_rows import rows_at_many_scales

_N_CANDIDATES = 500  # the kernel is evaluated between all of them

Labelled = tuple[NDArray, NDArray]


def labelled_neighbours(
    learner: BaseKernelLearner, n_samples: int, n_features: int, rng
) -> tuple[Labelled, Labelled]:
    """Return two neighbours (X, y) for a learner; see `worst_case_neighbours`."""
    labels = two_labels(learner)
    row = _longest_row(learner, labels, n_features, rng)
    turns = np.arange(n_samples + 1) % 2
    X, y = np.repeat(row[None], n_samples + 1, axis=0), labels[turns]
    data = X[:-1], y[:-1]
    if learner.adjacency == "add_remove":
        return data, (X, y)
    return data, (X[:-1], labels[np.append(turns[:-2], 1 - turns[-2])])


def two_labels(model) -> NDArray:
    """Return two classes, or the ends of the bounds of y."""
    if not is_classifier(model):
        return np.asarray(model.y_bounds, dtype=np.float64)
    return np.array([0, 1]) if model.classes is None else np.unique(model.classes)[:2]


def _longest_row(learner: BaseKernelLearner, labels: NDArray, n_features: int, rng) -> NDArray:
    if learner.kernel == "precomputed" and learner.feature_map is None:
        raise ValueError(
            "kernel='precomputed' is not supported here: neighbours are rows. Audit the learner "
            "with the kernel itself."
        )
    rows = rows_at_many_scales(_N_CANDIDATES, n_features, rng)
    if learner.kernel == "chi2":
        rows = np.abs(rows)
    probe = clone(learner).set_params(epsilon=np.inf, ledger=None)
    probe._validate(rows, np.resize(labels, len(rows)))
    space, rows, _ = probe._open_space(rows, rows)
    return rows[np.argmax(np.diag(space.gram(rows, rows)))]
