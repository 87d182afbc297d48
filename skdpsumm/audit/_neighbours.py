"""Neighbouring data sets that an estimator finds hard to tell apart least well."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..features import FeatureMap
from ..learners._base import BaseKernelLearner
from ..moments import M2MEstimator
from ..moments.inferring._implicit import BaseImplicitM2M
from ..sketches import BaseSketcher
from ..summaries import PrivateMMDSummarizer
from ._hard_rows import N_CANDIDATES, hard_pair, neighbouring_tables, rows_at_many_scales
from ._learner_neighbours import labelled_neighbours, two_labels
from ._summary_neighbours import neighbouring_worlds


def worst_case_neighbours(
    estimator: Any,
    *,
    n_samples: int = 20,
    n_features: int = 1,
    side: str = "target",
    random_state: Any = 0,
) -> tuple[Any, Any]:
    """Return two neighbours whose exact releases lie as far apart as the claim allows for.

    They are neighbours under the estimator's own adjacency.

    *Sketchers, unions of them and `M2MEstimator`.* Under add-remove the second table has one row
    more: the one with the largest phi, in L1 for Laplace noise and in L2 for Gaussian noise, each
    entry in units of its noise. Under replace-one its last row is another, with phi as far away as
    can be found. Both searches go over random rows inside the bounds and categories (or, for a
    sketcher without bounds, rows at many scales). *`M2MClassifier` and `M2MRegressor`:* the same
    for the table (X, y).

    *Kernel learners.* All rows are the one with the largest phi, and two labels take turns, so
    that their pulls cancel. The neighbour has one row more, or the other label in its last row.
    Where `regularization` is at least ``4 R^2``, no margin comes near the kink, and the minimisers
    of "hinge" and "huberized_hinge" (of a width up to 1/2) for two classes are ``L R / Lambda``
    apart, or twice that; those of other losses are closer.

    *`PrivateMMDSummarizer`.* With ``side="target"`` the targets are such tables, of rows far from
    those of the owner "observer". With ``side="owners"`` the owner "others" has a row like the
    target's, or not: it is taken where it can be had, instead of one as far away as can be found.
    Either way, what is released is all that "observer" sees, `transcript_`.

    Parameters
    ----------
    estimator : sketcher, M2M model, kernel learner or PrivateMMDSummarizer
        With an integer `random_state`, so that its map is the same at every fit.
    n_samples : int, default=20
        Number of rows of the first table, all alike; of the target for ``side="owners"``, where
        more make it surer that the row like it is taken.
    n_features : int, default=1
        Number of columns of X.
    side : {"target", "owners"}, default="target"
        Whose rows differ, for a `PrivateMMDSummarizer`; of no effect for others.
    random_state : int, RandomState or None, default=0
        For the search.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The pair (X, y) for a learner and for `M2MClassifier` and `M2MRegressor`; for
        `PrivateMMDSummarizer` the keyword arguments of `fit`, a dict.
    X_neighbour : ndarray of shape (n_samples + 1, n_features) or (n_samples, n_features)
        Likewise.

    Raises
    ------
    TypeError
        If the estimator is none of those; build a pair by hand.
    ValueError
        If the estimator's map changes from fit to fit; if a learner's kernel is precomputed; for
        an unknown `side`, and for `shares` or `target_is_owners` that no pair is built for.

    Examples
    --------
    >>> from skdpsumm import HistogramSketcher
    >>> from skdpsumm.audit import worst_case_neighbours
    >>> X, X_neighbour = worst_case_neighbours(HistogramSketcher(bounds=(0, 1), random_state=0))
    >>> X.shape, X_neighbour.shape
    ((20, 1), (21, 1))
    """
    _require_known(estimator)
    _require_fixed_map(estimator)
    rng = check_random_state(random_state)
    if isinstance(estimator, PrivateMMDSummarizer):
        return neighbouring_worlds(estimator, n_samples, n_features, side, rng)
    if isinstance(estimator, BaseKernelLearner):
        return labelled_neighbours(estimator, n_samples, n_features, rng)
    sketcher, n_columns = sketcher_of(estimator, n_features)
    tables = _tables(sketcher, n_samples, n_columns, rng)
    if not isinstance(estimator, BaseImplicitM2M):
        return tables
    kind = object if estimator.categories else np.float64
    return tuple((table[:, :-1].astype(kind), table[:, -1]) for table in tables)


def sketcher_of(estimator: Any, n_features: int) -> tuple[BaseSketcher, int]:
    """Return the sketcher that `fit` would use, without a ledger, and its number of columns."""
    copy = clone(estimator)
    if isinstance(copy, BaseSketcher):
        return copy.set_params(ledger=None), n_features
    rng = check_random_state(copy.random_state)
    if isinstance(copy, M2MEstimator):
        return copy._build_sketcher(rng).set_params(ledger=None), n_features
    sketcher = copy._build_sketcher(n_features, two_labels(copy), rng)
    return sketcher.set_params(ledger=None), n_features + 1


def _require_known(estimator: Any) -> None:
    known = BaseSketcher, M2MEstimator, BaseImplicitM2M, BaseKernelLearner, PrivateMMDSummarizer
    if not isinstance(estimator, known):
        raise TypeError(
            f"No neighbours are known for {type(estimator).__name__}; give a sketcher, an M2M "
            "model, a kernel learner or a PrivateMMDSummarizer, or build a pair by hand."
        )


def _require_fixed_map(estimator: Any) -> None:
    inner = getattr(estimator, "sketcher", None)
    seeds = [estimator.random_state, getattr(inner, "random_state", None)]
    if not any(isinstance(seed, int | np.integer) for seed in seeds):
        raise ValueError(
            f"random_state must be an int, got {estimator.random_state!r}: the audit needs the "
            "same public map at every fit."
        )


def _tables(sketcher: BaseSketcher, n_samples: int, n_columns: int, rng) -> tuple[NDArray, NDArray]:
    feature_map = sketcher.preview_map(n_columns)
    rows = _candidates(feature_map, n_columns, rng)
    features = feature_map.matrix(rows)
    features = features.toarray() if sparse.issparse(features) else features
    features = features.astype(np.float64) / _noise_std(sketcher, feature_map)
    order = 1 if sketcher.delta == 0 else 2
    base, other = hard_pair(features, order, sketcher.adjacency)
    return neighbouring_tables(rows[base], rows[other], n_samples, sketcher.adjacency)


def _noise_std(sketcher: BaseSketcher, feature_map: FeatureMap) -> NDArray:
    """Return the noise of each feature, which differs between the parts of a union."""
    std = sketcher._prepare(feature_map).noise.std[: feature_map.n_features]
    return np.where(std > 0, std, 1.0)


def _candidates(feature_map: FeatureMap, n_columns: int, rng) -> NDArray:
    maps = [part.columns for part in feature_map.parts()]
    known = [columns for columns in maps if _can_sample(columns)]
    if known:
        return known[0].sample(N_CANDIDATES, rng)
    return rows_at_many_scales(N_CANDIDATES, n_columns, rng)


def _can_sample(columns) -> bool:
    return columns.bounds is not None or not columns.is_numeric
