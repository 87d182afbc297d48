"""Private histograms."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..features import HistogramMap
from ._base import BaseSketcher


class HistogramSketcher(BaseSketcher):
    """Private one-way or k-way histograms of numeric and categorical columns.

    Every row adds one to a cell of each histogram (M2M paper, section 2.1.1).

    Parameters
    ----------
    bounds : pair, sequence of pairs or mapping, default=None
        Public (low, high) of each numeric column, in its units. Required: nothing is read off the
        data. Values outside are clipped into the first or last bin.
    n_bins : int or sequence of int, default=100
        Equal bins between the bounds, for all columns or one number per column; 100 as in the
        paper. A column with a step has no more bins than values, and each holds whole values.
    edges : mapping from column to list of float, default=None
        Edges of its own for a column whose values are not spread evenly, in place of equal bins:
        ``{"gain": [0, 1, 5000, 99999]}``. Public and increasing, from low to high of `bounds`.
        A bin holds its left edge, the last one both.
    marginals : int or list of column groups, default=1
        1: one histogram per column; k: one per set of k columns; a list such as
        ``[[0], [1, 2]]`` or ``[["age"], ["sex", "job"]]``: those. The noise grows with the number
        of histograms k as k (pure) or sqrt(k) (Gaussian), whatever their sizes.
    categories : mapping from column to list of values, default=None
        Categorical columns, with all their values.
    steps : float, sequence or mapping from column to float, default=None
        As in `RFFSketcher`. Give it for whole numbers, ``{"age": 1}``: bins are then sets of
        values, and questions such as ``rows["age"] > 40`` mean the same to synthetic points.
    epsilon, adjacency, postprocess, random_state, noise_seed, ledger, n_jobs, verbose :
        As in `RFFSketcher`. Post-processing projects each histogram onto the simplex.
    delta : float, default=1e-6
        0 gives Laplace noise of scale k / epsilon for k histograms; otherwise Gaussian noise of
        scale ``sqrt(k) / mu``. At epsilon = 1 and the default delta, Gaussian noise has the
        smaller standard deviation from k = 9 on.
    denominator : {"auto", "budget", "row_sums"}, default="auto"
        "row_sums" (auto): each histogram sums to n, so the number of rows is free.
    denominator_share : float, default=0.02
        Part of the budget for a count, with "budget".

    Attributes
    ----------
    sketch_ : PrivateSketch
        The release.
    privacy_ : PrivacyGuarantee
    feature_map_ : HistogramMap
        phi, public.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsumm import HistogramSketcher
    >>> X = pd.DataFrame({"age": [30.0, 40, 50] * 500, "sex": ["F", "M", "F"] * 500})
    >>> sketcher = HistogramSketcher(
    ...     bounds={"age": (20, 60)}, n_bins=4, categories={"sex": ["F", "M"]}
    ... ).fit(X)
    >>> sketcher.sketch_.mean.round(1) + 0.0
    array([0. , 0.3, 0.3, 0.3, 0.7, 0.3])

    A bin for those below 50, and one for the others, who are at most 60:

    >>> sketcher.set_params(edges={"age": [20, 50, 60]}, steps={"age": 1})
    HistogramSketcher(...)
    >>> sketcher.fit(X).sketch_.mean.round(1) + 0.0
    array([0.7, 0.3, 0.7, 0.3])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSketcher._parameter_constraints,
        "bounds": "no_validation",
        "n_bins": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "edges": [None, dict],
        "marginals": [Interval(Integral, 1, None, closed="left"), list, tuple],
        "categories": [None, dict],
        "steps": "no_validation",
    }

    def __init__(
        self,
        *,
        bounds=None,
        n_bins=100,
        edges=None,
        marginals=1,
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
        self.bounds = bounds
        self.n_bins = n_bins
        self.edges = edges
        self.marginals = marginals
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
        return HistogramMap.build(columns, self.n_bins, self.marginals, self.edges)
