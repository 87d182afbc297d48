"""What error at this epsilon, what epsilon for this error: answered before any data are touched."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..._sklearn import check_params
from ...privacy._bisect import bisect
from ...privacy._clone_watch import own_clone
from ...sketches import PrivateSketch
from ..inferring._points import draw_points
from ..inferring._regression import FeatureBlocks, feature_covariance, penalties, solver_for
from ..plausible._named_rows import NamedRows, evaluate_rows

_CHOOSES = (
    "{0} chooses what it counts when it sees the rows, so nobody knows the error of one function "
    "before the fit. Ask {0}(...).predict_error(n_samples=...) for the errors of counts, or give a "
    "sketcher that does not choose, such as SketchUnion([HistogramSketcher(), RFFSketcher()])."
)


def _of_those_present(values: NDArray) -> NDArray[np.float64]:
    """Return values whose mean over all points, and its noise, are those of the present ones."""
    present = ~np.isnan(values)
    mean, share = np.nanmean(values, axis=0), present.mean(axis=0)
    return np.where(present, mean + (values - mean) / share, mean)


class Plan:
    """The regression's parts that do not depend on epsilon."""

    def __init__(self, estimator: Any, f: Callable, n_samples: int, n_features: int | None):
        estimator._require_schema()
        check_params(estimator)
        rng = check_random_state(estimator.random_state)
        self.estimator, self.n_samples = estimator, n_samples
        known = estimator._known
        if known.is_for_all and n_features is None:
            raise ValueError(
                "n_features is missing: the schema is one range for all columns. Give their number."
            )
        if known.names is None:
            known = known.for_table(n_features or known.n_columns)
        known.require_bounds()
        self.sketcher = estimator._build_sketcher(rng, None)
        check_params(self.sketcher)
        if not hasattr(self.sketcher, "_draw_map"):
            raise ValueError(_CHOOSES.format(type(self.sketcher).__name__))
        self.map = self.sketcher._draw_map(known, check_random_state(self.sketcher.random_state))
        prior = "uniform" if isinstance(estimator._points.prior, str) else estimator._points.prior
        empty = self._release(own_clone(self.sketcher))
        points = draw_points(prior, empty, known, estimator.n_synthetic, rng)
        found = evaluate_rows(f, NamedRows.of(points, known))
        self.is_scalar = found.ndim == 1
        values = _of_those_present(found.astype(np.float64).reshape(len(points), -1))
        features = FeatureBlocks.of(self.map, points)
        offset = features.mean() if estimator._points.center else np.zeros(self.map.n_features)
        centre = values.mean(axis=0) if estimator._points.center else np.zeros(values.shape[1])
        self.covariance = feature_covariance(features, offset)
        self.cross = features.tdot(values) / len(points) - np.outer(offset, centre)
        self.power = np.mean((values - centre) ** 2, axis=0)

    def _release(self, sketcher: Any) -> PrivateSketch:
        """Return the release of an expected table, for its noise only."""
        pending = sketcher._prepare(self.map)
        expected = np.append(self.map.neutral_mean(), 1.0) * self.n_samples
        noisy = expected if pending.counts_rows else expected[:-1]
        return pending.to_sketch(noisy, self.n_samples)

    def error(self, epsilon: float) -> NDArray[np.float64]:
        """Return the square root of Theorem 3.1's bound, per output of f."""
        sketch = self._release(own_clone(self.sketcher).set_params(epsilon=epsilon))
        ridge = penalties(self.estimator._points.regularization, sketch)
        noise = sketch.mean_noise_std**2
        a = solver_for(copy(self.covariance), ridge)(self.cross)
        explained = np.sum(a * (2 * self.cross - self.covariance @ a), axis=0)
        return np.sqrt(np.maximum(self.power - explained, 0.0) + noise @ a**2)

    def predict_error(self) -> NDArray[np.float64]:
        """See `M2MEstimator.predict_error`."""
        error = self.error(self.sketcher.epsilon)
        return error[0] if self.is_scalar else error

    def calibrate(self, error: float) -> float:
        """See `M2MEstimator.calibrate`."""
        low, high = 1e-4, 1e4  # epsilons that are tried
        best = self.error(high).max()
        if best > error:
            raise ValueError(
                f"error={error!r} is out of reach: the error of approximation alone is {best:.3g}. "
                "Use more components or a better kernel, or accept more error."
            )

        def reached(epsilon: float) -> bool:
            return bool(self.error(epsilon).max() <= error)

        return bisect(reached, good=high, bad=low, tolerance=1e-3, geometric=True)
