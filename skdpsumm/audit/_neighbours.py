"""Neighbouring tables that a sketcher finds hard to tell apart least well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..features import FeatureMap
from ..sketches import BaseSketcher

_N_CANDIDATES = 2_000


def worst_case_neighbours(
    estimator: BaseSketcher,
    *,
    n_samples: int = 20,
    n_features: int = 1,
    random_state: Any = 0,
) -> tuple[NDArray, NDArray]:
    """Return two neighbouring tables whose sketches lie as far apart as the claim allows for.

    Under add-remove the second table has one row more: the one with the largest phi, in L1 for
    Laplace noise and in L2 for Gaussian noise. Under replace-one its last row is another, with
    phi as far away as can be found. Both searches go over random rows inside the bounds (or, for
    a sketcher without bounds, rows at many scales).

    Parameters
    ----------
    estimator : sketcher
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
    X_neighbour : ndarray of shape (n_samples + 1, n_features) or (n_samples, n_features)

    Raises
    ------
    ValueError
        If the sketcher's map changes from fit to fit, or reads categorical columns.

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
    scales = 10.0 ** rng.uniform(-2, 3, size=(_N_CANDIDATES, 1))
    return scales * rng.normal(size=(_N_CANDIDATES, n_features))


def _farthest(features: NDArray, order: int) -> tuple[int, int]:
    """Walk to a pair of rows far apart: from a row to its farthest, until nothing is gained."""
    first, second, reached = 0, 0, -1.0
    while True:
        distances = np.linalg.norm(features - features[first], ord=order, axis=1)
        second = int(np.argmax(distances))
        if distances[second] <= reached + 1e-12:
            return first, second
        first, reached = second, float(distances[second])
