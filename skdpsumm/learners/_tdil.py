"""TDIL: a learner that releases a predictor for everyone, with no public points (Algorithm 3)."""

from __future__ import annotations

from typing import Any

from .._docs import inherited_docs
from ..privacy._contract import estimator
from ._base import BaseKernelLearner, ClassifierTarget, RegressorTarget


@estimator
class BaseTDIL(BaseKernelLearner):
    """What both TDIL learners do.

    Parameters
    ----------
    mechanism : str or mechanism object, default="auto"
        "auto" takes the best by what is public: for a smooth loss "gradient", up to epsilon 30 and
        with delta > 0; for explicit features "objective", up to epsilon 500, at infinity and where
        delta is 0; else "functional".
        "gradient" (`GradientDescent`): noisy gradient descent on all rows. "functional"
        (`FunctionalMechanism`): Gaussian noise on the weights of explicit features, or for a
        kernel on the best function in the span of public landmarks. "objective": noise in the
        objective, for smooth losses on explicit features; protects single rows alone (no
        `max_rows_per_group`). "exponential" (`ExponentialMechanism`): the paper's Algorithm 3,
        worse, shown for comparison. A string stands for the object with its default parameters.

    Notes
    -----
    What is released contains no row of X, and can be pickled and given away.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.2;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.
    """

    _kind = "TDIL"

    kernel: Any = "linear"


@inherited_docs
@estimator
class TDILClassifier(BaseTDIL, ClassifierTarget):
    """Learn to classify and release the predictor, with no test points needed.

    Parameters
    ----------
    {kernel...intercept_scaling}
    {loss...classes}
    {regularization...max_rows_per_group}
    {mechanism}
    {random_state...verbose}

    Attributes
    ----------
    {classes_}
    {predictor_}
    {privacy_...feature_names_in_}

    Notes
    -----
    {notes}

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> from skdpsumm import TDILClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 < 0.6
    >>> features = RBFSampler(gamma=2.0, n_components=200)
    >>> model = TDILClassifier(feature_map=features, epsilon=2.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> round(model.privacy_.epsilon(1e-6), 3)
    2.0
    """


@inherited_docs
@estimator
class TDILRegressor(BaseTDIL, RegressorTarget):
    """Learn a number and release the predictor, with no test points needed.

    Parameters
    ----------
    {kernel...intercept_scaling}
    {loss...y_bounds}
    {regularization...max_rows_per_group}
    {mechanism}
    {random_state...verbose}

    Attributes
    ----------
    {predictor_}
    {privacy_...feature_names_in_}

    Notes
    -----
    {notes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import TDILRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = TDILRegressor(
    ...     kernel="rbf", gamma=2.0, schema=(-1, 1), y_bounds=(-1, 1), epsilon=2.0
    ... )
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """
