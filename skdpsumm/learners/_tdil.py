"""TDIL: a learner that releases a predictor for everyone, with no public points (Algorithm 3)."""

from __future__ import annotations

import math
from typing import Any

from .._docs import inherited_docs
from ..privacy._contract import estimator
from ._base import BaseKernelLearner, ClassifierTarget, RegressorTarget, check_printed
from .mechanisms._answers_at_points import ExponentialMechanism


@estimator
class BaseTDIL(BaseKernelLearner):
    """What both TDIL learners do.

    Parameters
    ----------
    mechanism : str or mechanism object, default="auto"
        "auto" takes the best by what is public: for a smooth loss "gradient", up to epsilon 30 and
        with delta > 0; for explicit features "objective", above that and where delta is 0; else
        "functional".
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

    @classmethod
    def paper_parameters(cls, n_samples=500_000, *, epsilon=1.0, delta=1e-6, beta=0.05):
        """Return Algorithm 3 as printed, as keyword arguments.

        `epsilon` is what the paper claims. What its noise gives is in `privacy_` after `fit`, and
        grows with Lambda: line 5 chooses with a weight that has n lambda once too often.

        Parameters
        ----------
        n_samples : int, default=500_000
            n, taken as public; the default is that of the paper's Figure 2a.
        epsilon, delta : float, default=1.0, 1e-6
            The claim; the paper has no experiment with Algorithm 3.
        beta : float, default=0.05
            Failure probability of the error bound.

        Returns
        -------
        dict
            With ``B = (n epsilon / (100 L R log(4 / delta)))^(2/3)``, rounded up: the power is
            unreadable in our copy, and is the one that the error bound's ``n^(2/3)`` needs. The
            kernel is linear, for which S can be the whole ball in place of a net, and Lambda that
            of the paper's other experiments. For other kernels give `candidates` to the mechanism.

        Examples
        --------
        >>> from skdpsumm import TDILClassifier
        >>> model = TDILClassifier(**TDILClassifier.paper_parameters(n_samples=10_000))
        >>> model.mechanism.n_rounds, model.kernel
        (4, 'linear')
        """
        check_printed(delta, beta, n_samples=n_samples, epsilon=epsilon)
        reach = n_samples * epsilon / (100 * cls._printed_lipschitz * math.log(4 / delta))
        printed = ExponentialMechanism(
            n_rounds=math.ceil(reach ** (2 / 3)), calibration="printed", failure_probability=beta
        )
        chosen = {"kernel": "linear", "mechanism": printed, "epsilon": epsilon, "delta": delta}
        return {**cls._printed, **chosen}


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
