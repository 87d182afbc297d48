"""Regression from a private sketch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.linear_model import LinearRegression

from ...privacy import PrivacyLedger
from ...privacy._ledger import LedgerDataset
from ...schema._columns import Numeric
from ...schema._reading import validate_table
from ...schema._schema import SchemaLike, as_schema
from ...sketches._sketchers import TableSketcher
from ..inferring._points import Points
from ._base import BaseImplicitM2M


class M2MRegressor(RegressorMixin, BaseImplicitM2M):
    """Train any regressor from one private sketch of (X, y) (implicit M2M, section 3.5).

    `fit` releases a sketch once and trains an estimator on synthetic rows that match it. Anyone who
    holds the sketch can train as many models as they like with `from_sketch`, and predict any of
    its columns of numbers. `fit` puts y last.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. They are those of X, as in
        `M2MClassifier`. Required by `fit`.
    epsilon : float, default=None
        Total epsilon of one `fit` and of all that is made of it. ``np.inf`` adds no noise. Smaller
        values protect better and add more noise. None is 1.0, a common starting point.
    delta : float, default=None
        The delta of the guarantee. 0 gives pure DP, with more noise. None is 1e-6, which is well
        below 1 / n for tables of up to 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default=None
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        None is "add_remove", which also protects the number of rows. Under "replace_one" that
        number is public, and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. None protects one
        row of X, as suits tables with one row per person. An int k keeps at most k rows of each
        group, and the noise is that of k rows. "average" counts each group once.
    release : sketcher, default=None
        A sketcher of your own, which has the whole budget. Set `epsilon`, `delta`, `adjacency`,
        `max_rows_per_group` and `ledger` there, and leave them None here. None takes the sketcher
        that we know to be best. The last column of the sketched table is y, as in `M2MClassifier`.
    estimator : regressor, default=None
        What is trained. It may be a Pipeline, as in `M2MClassifier`. None is `LinearRegression()`,
        the simplest.
    y_bounds : pair, default=None
        Public (low, high) of y. Values outside are clipped. Required by `fit`, as a range that was
        read off private rows would leak. `from_sketch` does without: the sketch knows it.
    inference : {"auto", "graphical", "points"} or Points, default="auto"
        How the release is read. "graphical" uses a graphical model of the sketch's histograms. It
        uses the counted groups of columns only. "points" uses synthetic points, weighted to match
        all features; a `Points` says how. Where there are histograms, it draws the points from
        their graphical model. "auto" is "graphical" for sketches of histograms alone, and "points"
        otherwise.
    n_synthetic : int, default=100_000
        Number of synthetic points. They are rows drawn from the graphical model, or points with
        weights. The default is the paper's number of points.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for the synthetic points, and for the
        sketcher's map if it has no seed of its own. None draws others at each fit. It does not
        affect the noise.
    ledger : PrivacyLedger or LedgerDataset, default=None
        Where `fit` charges its cost. *Every fit is a release of its own*, those of a search and of
        a cross-validation too. With None, nothing counts them: only you know which releases share
        a budget.
    verbose : int, default=0
        1 shows progress on the standard error stream. The default is silent, as in scikit-learn.

    Attributes
    ----------
    estimator_ : regressor
        The trained regressor.
    sketch_ : PrivateSketch
        The release, of the columns of X and y.
    privacy_ : PrivacyGuarantee or TargetedPrivacy
        What the release promises. With `X_target` in `from_sketch` there are two claims:
        `privacy_.sketch` for the rows that were sketched, and `privacy_.target` for the target's,
        with epsilon = inf.
    effective_sample_size_ : float
        As in `M2MClassifier`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = 3 * X[:, 0] + X[:, 1]
    >>> model = M2MRegressor(
    ...     schema=(0, 1), y_bounds=(0, 4), n_synthetic=10_000, random_state=0
    ... ).fit(X, y)
    >>> model.score(X, y) > 0.8
    True

    See Also
    --------
    M2MClassifier : The same for classes.
    M2MEstimator : Answers any question from a sketch.
    TDILRegressor : Learns from the rows themselves, for one target.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "y_bounds": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        max_rows_per_group: int | str | None = None,
        release: TableSketcher | None = None,
        estimator: Any = None,
        y_bounds: Sequence[float] | None = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | LedgerDataset | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.release = release
        self.estimator = estimator
        self.y_bounds = y_bounds
        self.inference = inference
        self.n_synthetic = n_synthetic
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    def _checked_table(self, X, y):
        return validate_table(self, X, y, schema=as_schema(self.schema), y_numeric=True)

    def _default_estimator(self):
        return LinearRegression()

    def _describe_target(self, y):
        if self.y_bounds is None:
            raise ValueError("y_bounds is missing: give the public (low, high) of y.")
        try:
            return Numeric(*self.y_bounds)
        except (TypeError, ValueError):
            raise ValueError(
                f"y_bounds must be a pair of finite numbers low < high, got {self.y_bounds!r}."
            ) from None

    def _set_target(self, columns, target):
        if target not in columns.numbers:
            raise ValueError(
                f"The target, column {columns.name(target)!r} of the sketch, holds no numbers. Set "
                "`target` of from_sketch to the column of the number (None is the last one), or "
                "use M2MClassifier, which learns classes."
            )

    def _training_target(self, target):
        return target.astype(np.float64)

    def _observed(self, cells):
        return np.asarray(cells, dtype=np.float64)[:, None]
