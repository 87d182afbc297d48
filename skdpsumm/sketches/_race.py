"""Private sketches of repeated arrays of counts."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..features import RACEMap
from ._base import BaseSketcher


class RACESketcher(BaseSketcher):
    """Private RACE: histograms of random projections, modulo the number of buckets.

    ``h_r(x) = floor(x . w_r / bandwidth + b_r) mod W`` for R hashes, one-hot encoded and counted
    (M2M paper, Definition 3; p-stable hashes of Datar et al., 2004). No bounds are needed for
    privacy: every row adds one to each of R arrays.

    Parameters
    ----------
    n_repetitions : int, default=80
        R, the number of hashes, as in the paper.
    n_buckets : int, default=80
        W, the number of buckets of each hash, as in the paper.
    bandwidth : float, default=0.1
        Width of a bucket along a projection, per unit of the columns, or of their range where
        `bounds` are given. The paper's value, for columns in [0, 1].
    bounds, categories, steps, epsilon, adjacency, postprocess, random_state, noise_seed, ledger, \
n_jobs, verbose :
        As in `RFFSketcher`. Post-processing projects each array onto the simplex.
    delta : float, default=1e-6
        0 gives Laplace noise of scale R / epsilon; otherwise Gaussian noise of scale
        ``sqrt(R) / mu``, about four times less at R = 80.
    denominator : {"auto", "budget", "row_sums"}, default="auto"
        "row_sums" (auto): each array sums to n, so the number of rows is free. "budget": spend
        `denominator_share` of the budget on a count, better at very small epsilon.
    denominator_share : float, default=0.02

    Attributes
    ----------
    sketch_ : PrivateSketch
        The release.
    privacy_ : PrivacyGuarantee
    feature_map_ : RACEMap
        phi, public.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import RACESketcher
    >>> X = np.random.default_rng(0).random((5000, 3))
    >>> sketcher = RACESketcher(n_repetitions=5, n_buckets=10, random_state=0).fit(X)
    >>> sketcher.sketch_.mean.reshape(5, 10).sum(axis=1).round(6)
    array([1., 1., 1., 1., 1.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSketcher._parameter_constraints,
        "n_repetitions": [Interval(Integral, 1, None, closed="left")],
        "n_buckets": [Interval(Integral, 2, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
        "bounds": "no_validation",
        "categories": [None, dict],
        "steps": "no_validation",
    }

    def __init__(
        self,
        n_repetitions=80,
        *,
        n_buckets=80,
        bandwidth=0.1,
        bounds=None,
        categories=None,
        steps=None,
        epsilon=1.0,
        delta=1e-6,
        adjacency="add_remove",
        denominator="auto",
        denominator_share=0.02,
        postprocess=True,
        random_state=None,
        noise_seed=None,
        ledger=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_repetitions = n_repetitions
        self.n_buckets = n_buckets
        self.bandwidth = bandwidth
        self.bounds = bounds
        self.categories = categories
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.denominator = denominator
        self.denominator_share = denominator_share
        self.postprocess = postprocess
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _draw_map(self, columns, rng):
        return RACEMap.draw(
            columns, int(self.n_repetitions), int(self.n_buckets), self.bandwidth, rng
        )
