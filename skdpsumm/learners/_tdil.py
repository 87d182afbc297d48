"""TDIL: a learner that releases a predictor for everyone, with no public points (Algorithm 3)."""

from __future__ import annotations

import math
from typing import Any

from .._docs import inherited_docs
from ..privacy._fit import estimator
from ._base import BaseKernelLearner
from ._targets import ClassifierTarget, RegressorTarget, check_printed
from .mechanisms._answers_at_points import ExponentialMechanism


@estimator
class BaseTDIL(BaseKernelLearner):
    """What both TDIL learners do.

    Parameters
    ----------
    mechanism : str or mechanism object, default="auto"
        How the predictor is made private. The default takes the best by public numbers:

        - "gradient" (`GradientDescent`) if delta > 0 and epsilon is at most 30. Noisy gradient
          descent on all rows.
        - "objective" above epsilon 30 and for delta = 0, on explicit features. Noise in the
          objective, for smooth losses. It protects single rows alone (no `max_rows_per_group`).
        - "functional" (`FunctionalMechanism`) otherwise, and for a kernel function of your own.
          Gaussian noise on the weights of explicit features. For a kernel, on the best function in
          the span of public landmarks.

        "exponential" (`ExponentialMechanism`) is the paper's Algorithm 3. It is worse, and there
        for comparison. A string stands for the object with its default parameters.

    Notes
    -----
    The fitted learner contains no row of X. You can pickle it and give it away.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.2;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.
    """

    _kind = "TDIL"

    kernel: Any = "linear"

    @classmethod
    def paper_parameters(cls, n_samples=500_000, *, epsilon=1.0, delta=1e-6, beta=0.05):
        """Return Algorithm 3 as printed, as keyword arguments.

        `epsilon` is what the paper claims. After `fit`, `privacy_` says what the paper's noise
        really gives. That grows with Lambda, because the weight with which line 5 chooses has
        n lambda once too often.

        Parameters
        ----------
        n_samples : int, default=500_000
            n, which is taken as public. The default is that of the paper's Figure 2a.
        epsilon, delta : float, default=1.0, 1e-6
            The claim. The paper has no experiment with Algorithm 3, so these are our defaults.
        beta : float, default=0.05
            Failure probability of the error bound. The default is the usual 5 %.

        Returns
        -------
        dict
            The number of rounds is ``B = (n epsilon / (100 L R log(4 / delta)))^(2/3)``, rounded
            up. The power is unreadable in our copy: we take the one that the error bound's
            ``n^(2/3)`` needs. The kernel is linear, because S can then be the whole ball in place
            of a net. Lambda is that of the paper's other experiments. For other kernels, give the
            mechanism its `candidates`.

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
    """Classifier that you can give away, learned from private rows alone.

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
    """Regressor that you can give away, learned from private rows alone.

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
