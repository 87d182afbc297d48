"""Neighbouring tables that a sketcher, or a learner, finds hard to tell apart least well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from ..features import FeatureMap
from ..learners._base import BaseKernelLearner
from ..sketches import BaseSketcher

_N_CANDIDATES = 2_000
_N_CANDIDATES_OF_LEARNERS = 500  # whose kernel is evaluated between all of them


def worst_case_neighbours(
    estimator: BaseSketcher | BaseKernelLearner,
    *,
    n_samples: int = 20,
    n_features: int = 1,
    random_state: Any = 0,
) -> tuple[Any, Any]:
    """Return two neighbours whose sketches or minimisers lie as far apart as the claim allows for.

    For a sketcher: under add-remove the second table has one row more: the one with the largest
    phi, in L1 for Laplace noise and in L2 for Gaussian noise. Under replace-one its last row is
    another, with phi as far away as can be found. Both searches go over random rows inside the
    bounds (or, for a sketcher without bounds, rows at many scales).

    For a kernel learner: all rows are the one with the largest phi, and two labels take turns, so
    that their pulls cancel. The neighbour has one row more, or the other label in its last row.
    Where `regularization` is at least ``4 R^2``, no margin comes near the kink, and the minimisers
    of "hinge" and "huberized_hinge" (`huber_width` up to 1/2) for two classes are ``L R / Lambda``
    apart, or twice that; those of other losses are closer.

    Parameters
    ----------
    estimator : sketcher or kernel learner
        With an integer `random_state`, so that its map is the same at every fit.
    n_samples : int, default=20
        Number of rows of the first table; all are alike.
    n_features : int, default=1
        Number of numeric columns.
    random_state : int, RandomState or None, default=0
        For the search.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The pair (X, y) for a learner.
    X_neighbour : ndarray of shape (n_samples + 1, n_features) or (n_samples, n_features)
        Likewise.

    Raises
    ------
    ValueError
        If the estimator's map changes from fit to fit, or reads categorical columns; if a
        learner's kernel is precomputed.

    Examples
    --------
    >>> from skdpsumm import HistogramSketcher
    >>> from skdpsumm.audit import worst_case_neighbours
    >>> X, X_neighbour = worst_case_neighbours(HistogramSketcher(bounds=(0, 1), random_state=0))
    >>> X.shape, X_neighbour.shape
    ((20, 1), (21, 1))
    """
    if not isinstance(estimator.random_state, int):
        raise ValueError(
            f"random_state must be an int, got {estimator.random_state!r}: the audit needs the "
            "same public map at every fit."
        )
    rng = check_random_state(random_state)
    if isinstance(estimator, BaseKernelLearner):
        return _labelled_neighbours(estimator, n_samples, n_features, rng)
    feature_map = _map_of(estimator, n_features)
    rows = _candidates(feature_map, n_features, rng)
    features = feature_map.matrix(rows)
    features = features.toarray() if sparse.issparse(features) else features
    order = 1 if estimator.delta == 0 else 2
    if estimator.adjacency == "add_remove":
        extra = rows[np.argmax(np.linalg.norm(features, ord=order, axis=1))]
        base = rows[np.argmin(features @ features[np.argmax(np.linalg.norm(features, axis=1))])]
        X = np.repeat(base[None], n_samples, axis=0)
        return X, np.vstack([X, extra])
    first, second = _farthest(features, order)
    X = np.repeat(rows[first][None], n_samples, axis=0)
    neighbour = X.copy()
    neighbour[-1] = rows[second]
    return X, neighbour


def _map_of(estimator: BaseSketcher, n_features: int) -> FeatureMap:
    probe = clone(estimator).set_params(epsilon=np.inf, ledger=None)
    feature_map = probe.fit(np.zeros((2, n_features))).feature_map_
    if not feature_map.columns.is_numeric:
        raise ValueError("categories are not supported here; audit a sketcher of numeric columns.")
    return feature_map


def _candidates(feature_map: FeatureMap, n_features: int, rng) -> NDArray[np.float64]:
    known = [part.columns for part in feature_map.parts() if part.columns.bounds is not None]
    if known:
        return known[0].sample(_N_CANDIDATES, rng)
    return _rows_at_many_scales(_N_CANDIDATES, n_features, rng)


def _rows_at_many_scales(n_rows: int, n_features: int, rng) -> NDArray[np.float64]:
    scales = 10.0 ** rng.uniform(-2, 3, size=(n_rows, 1))
    return scales * rng.normal(size=(n_rows, n_features))


def _farthest(features: NDArray, order: int) -> tuple[int, int]:
    """Walk to a pair of rows far apart: from a row to its farthest, until nothing is gained."""
    first, second, reached = 0, 0, -1.0
    while True:
        distances = np.linalg.norm(features - features[first], ord=order, axis=1)
        second = int(np.argmax(distances))
        if distances[second] <= reached + 1e-12:
            return first, second
        first, reached = second, float(distances[second])


def _labelled_neighbours(
    learner: BaseKernelLearner, n_samples: int, n_features: int, rng
) -> tuple[tuple[NDArray, NDArray], tuple[NDArray, NDArray]]:
    labels = _two_labels(learner)
    row = _longest_row(learner, labels, n_features, rng)
    turns = np.arange(n_samples + 1) % 2
    X, y = np.repeat(row[None], n_samples + 1, axis=0), labels[turns]
    data = X[:-1], y[:-1]
    if learner.adjacency == "add_remove":
        return data, (X, y)
    return data, (X[:-1], labels[np.append(turns[:-2], 1 - turns[-2])])


def _two_labels(learner: BaseKernelLearner) -> NDArray:
    if not is_classifier(learner):
        return np.asarray(learner.y_bounds, dtype=np.float64)
    return np.array([0, 1]) if learner.classes is None else np.unique(learner.classes)[:2]


def _longest_row(learner: BaseKernelLearner, labels: NDArray, n_features: int, rng) -> NDArray:
    if learner.kernel == "precomputed" and learner.feature_map is None:
        raise ValueError(
            "kernel='precomputed' is not supported here: neighbours are rows. Audit the learner "
            "with the kernel itself."
        )
    rows = _rows_at_many_scales(_N_CANDIDATES_OF_LEARNERS, n_features, rng)
    if learner.kernel == "chi2":
        rows = np.abs(rows)
    probe = clone(learner).set_params(epsilon=np.inf, ledger=None)
    probe._validate(rows, np.resize(labels, len(rows)))
    space, rows, _ = probe._open_space(rows, rows)
    return rows[np.argmax(np.diag(space.gram(rows, rows)))]
