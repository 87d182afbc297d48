"""Regression from a private sketch."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.linear_model import LinearRegression

from ..._docs import inherited_docs
from ...privacy._fit import estimator
from ...schema._columns import Numeric
from ...schema._reading import validate_table
from ...schema._schema import as_schema
from ._base import BaseImplicitM2M


@inherited_docs
@estimator
class M2MRegressor(RegressorMixin, BaseImplicitM2M):
    """Train any regressor from one private sketch of (X, y) (implicit M2M, section 3.5).

    `fit` releases a sketch once and trains an estimator on synthetic rows that match it. Anyone who
    holds the sketch can train as many models as they like with `from_sketch`, and predict any of
    its columns of numbers. `fit` puts y last.

    Parameters
    ----------
    sketcher : sketcher or {"auto", "rff", "race", "hist"}, default="auto"
        What is released, of a table whose last column is y. "auto" takes the sketcher that we know
        to be best; the others are as in `M2MClassifier`.
    schema : TableSchema or what stands for one
        What is public about the columns of X, as in `M2MClassifier`. Required by `fit`.
    {epsilon...inference}
    prior : {"auto", "uniform", "marginals"}, default="auto"
        Where points start, as in `M2MClassifier`. "auto" starts them where the sketch's histograms
        say that rows lie, or on the ranges if it has none.
    n_synthetic : int, default=100_000
        Number of synthetic rows, drawn from the graphical model, or of points with weights. The
        default is the paper's number of points.
    weights : {"maxent", "ridge"}, default="maxent"
        How points are weighted, as in `M2MClassifier`. "maxent" is the default because it puts the
        points where the sketched data lie.
    estimator : regressor, default=None
        The regressor to train, as in `M2MClassifier`. None is `LinearRegression()`, the simplest.
    y_bounds : pair, default=None
        Public (low, high) of y; values outside are clipped. Required by `fit`, as a range that was
        read off private rows would leak. `from_sketch` does without: the sketch knows it.
    {random_state...verbose}

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
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "y_bounds": [None, "array-like"],
    }

    y_bounds: Any = None
    estimator: Any = None
    weights: Any = "maxent"

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
        if columns.values(target) is not None:
            raise ValueError(
                f"The target, column {columns.name(target)!r} of the sketch, is categorical. Set "
                "`target` of from_sketch to the column of the number (None is the last one), or "
                "use M2MClassifier, which learns classes."
            )

    def _training_target(self, target):
        return target.astype(np.float64)

    def _observed(self, cells):
        return np.asarray(cells, dtype=np.float64)[:, None]
