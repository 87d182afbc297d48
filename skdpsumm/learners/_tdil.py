"""TDIL: a learner that releases a predictor for everyone, with no public points (Algorithm 3)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .._computing import warn_caller
from ..privacy import BudgetExceededError, BudgetWarning
from ..privacy._noise import nominal_mechanism
from ..schema._reading import validate_table
from ._base import BaseKernelLearner
from ._docs import shared_docs
from ._labels import ClassifierTarget, RegressorTarget
from .erm._feature_space import FeatureSpace
from .mechanisms._exponential import ExponentialQueries
from .mechanisms._functional import SpanNoise, WeightNoise
from .mechanisms._objective import (
    ObjectivePerturbation,
    cost_of_curvature,
    objective_regularization,
)

# A fit that a ledger counts as this many times its epsilon should not do so unnoticed.
_DEAR = 2.0


class BaseTDIL(BaseKernelLearner):
    """What both TDIL learners do."""

    _pure = ("functional", "objective", "exponential")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseKernelLearner._parameter_constraints,
        "mechanism": [StrOptions({"functional", "objective", "exponential"})],
        "bounds": "no_validation",
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "candidates": "no_validation",
    }

    def fit(self, X, y):
        """Minimise, and release a predictor.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            One row per person (or other unit of protection).
        y : array-like of shape (n_samples,)

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data; nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta; nothing is charged.
        """
        self._fit(X, y)
        return self

    def _needs_landmarks(self):
        return self.mechanism != "exponential" or self.candidates is None

    def _plan(self, space, terms, public):
        if self.mechanism == "functional":
            if isinstance(space, FeatureSpace):
                return WeightNoise(space, terms)
            return SpanNoise(space, public, terms)
        if self.mechanism == "objective":
            return ObjectivePerturbation(space, terms)
        return ExponentialQueries(space, terms, int(self.n_rounds), self._candidates(space, public))

    def least_cost(self, X, y, *, X_public=None):
        # "auto" raises Lambda where epsilon is lowered, and with it lowers this cost.
        if self.mechanism != "objective" or self.regularization == "auto" or self.epsilon == np.inf:
            return None
        self._check_parameters()
        return cost_of_curvature(self._pose(X, y, X_public)[0].terms)

    def _candidates(self, space, public):
        """Return the public set that points are chosen from; None for the whole ball."""
        if self.candidates is not None:
            candidates = validate_table(self, self.candidates, reset=False)
            space.check(candidates)
            return candidates
        whole_ball = self.kernel == "linear" and self.feature_map is None
        if public is None and not (whole_ball and not space.intercept):
            raise ValueError(
                "mechanism='exponential' has an exact sampler for the linear kernel without "
                "intercept alone; give public rows as candidates to choose from."
            )
        return public

    def _auto_regularization(self, space, terms, public):
        if self.mechanism == "objective":
            return objective_regularization(space, terms, charged=self.ledger is not None)
        return super()._auto_regularization(space, terms, public)

    def _check_parameters(self):
        super()._check_parameters()
        explicit = self.kernel == "linear" or self.feature_map is not None
        if self.mechanism == "objective" and not explicit:
            raise ValueError(
                f"mechanism='objective' works on explicit features, not on kernel={self.kernel!r}; "
                "set kernel='linear', or give a feature_map such as RBFSampler."
            )

    def _pay(self, privacy):
        if self.ledger is None or self.mechanism != "objective" or self.delta == 0:
            super()._pay(privacy)
            return
        try:
            self.ledger.check(privacy)
            self._warn_of_price(privacy.mechanism)  # before the charge: a warning may be an error
            super()._pay(privacy)
        except BudgetExceededError as error:
            raise BudgetExceededError(f"{error} {self._why_dear()}") from None

    def _warn_of_price(self, mechanism):
        """Warn where the ledger counts much more than for Gaussian noise of the same epsilon."""
        asked = nominal_mechanism(self.epsilon, self.delta)
        paid, usual = (
            self.ledger.price(cost, adjacency=self.adjacency) for cost in (mechanism, asked)
        )
        if paid.epsilon > _DEAR * usual.epsilon:
            warn_caller(
                f"This fit costs epsilon={paid.epsilon:.4g} in its ledger at delta={paid.delta:g}, "
                f"and Gaussian noise {usual.epsilon:.4g}. {self._why_dear()}",
                BudgetWarning,
            )

    def _why_dear(self):
        return (
            "mechanism='objective' counts in a ledger as the Gaussian that dominates it, which is "
            f"more than its epsilon={self.epsilon:g}: raise `regularization`, lower epsilon, or "
            "take mechanism='functional', which counts as what it is."
        )

    def _release(self, plan, problem):
        self.predictor_ = plan.release(problem)


@shared_docs(kernel='"linear"')
class TDILClassifier(ClassifierTarget, BaseTDIL):
    """Learn to classify and release the predictor, with no test points needed.

    What is released contains no row of X, and can be pickled and given away.

    Parameters
    ----------
    {space}
    {classifier}
    {budget}
    mechanism : {"functional", "objective", "exponential"}, default="functional"
        "functional": Gaussian noise on the weights of explicit features, or for a kernel on the
        projection on the span of public landmarks. "objective": noise in the objective, for smooth
        losses on explicit features; needs less noise where data are plenty. "exponential":
        the paper's Algorithm 3, worse, shown for comparison.
    bounds : pair or sequence of pairs, default=None
        Public (low, high) of the columns, from which landmarks are drawn; required for kernels
        other than "linear" without a `feature_map`. In many columns landmarks are far from all
        rows: `fit` warns, from public numbers, where `gamma` is too large for them to see any.
    n_landmarks : int, default=256
        The noise on a prediction does not grow with it.
    n_rounds : int, default=10
        B of "exponential".
    candidates : array-like of shape (M, n_features), default=None
        The public set S of "exponential". None is the ball of radius `norm_bound` for the linear
        kernel, and the landmarks for others.
    {end}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
    {fitted}

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.2;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseTDIL._parameter_constraints,
        **ClassifierTarget._parameter_constraints,
    }

    def __init__(
        self,
        *,
        kernel="linear",
        gamma=1.0,
        degree=3,
        coef0=1.0,
        kernel_params=None,
        feature_map=None,
        norm_bound=1.0,
        fit_intercept=False,
        intercept_scaling=1.0,
        loss="auto",
        huber_width=None,
        soft_margin=3.0,
        classes=None,
        regularization="auto",
        epsilon=1.0,
        delta=1e-6,
        adjacency="add_remove",
        mechanism="functional",
        bounds=None,
        n_landmarks=256,
        n_rounds=10,
        candidates=None,
        random_state=None,
        noise_seed=None,
        ledger=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.feature_map = feature_map
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.loss = loss
        self.huber_width = huber_width
        self.soft_margin = soft_margin
        self.classes = classes
        self.regularization = regularization
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.mechanism = mechanism
        self.bounds = bounds
        self.n_landmarks = n_landmarks
        self.n_rounds = n_rounds
        self.candidates = candidates
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.verbose = verbose


@shared_docs(kernel='"linear"')
class TDILRegressor(RegressorTarget, BaseTDIL):
    """Learn a number and release the predictor, with no test points needed.

    What is released contains no row of X, and can be pickled and given away.

    Parameters
    ----------
    {space}
    {regressor}
    {budget}
    mechanism : {"functional", "objective", "exponential"}, default="functional"
        "functional": Gaussian noise on the weights of explicit features, or for a kernel on the
        projection on the span of public landmarks. "objective": noise in the objective, for smooth
        losses on explicit features; needs less noise where data are plenty. "exponential":
        the paper's Algorithm 3, worse, shown for comparison.
    bounds : pair or sequence of pairs, default=None
        Public (low, high) of the columns, from which landmarks are drawn; required for kernels
        other than "linear" without a `feature_map`. In many columns landmarks are far from all
        rows: `fit` warns, from public numbers, where `gamma` is too large for them to see any.
    n_landmarks : int, default=256
        The noise on a prediction does not grow with it.
    n_rounds : int, default=10
        B of "exponential".
    candidates : array-like of shape (M, n_features), default=None
        The public set S of "exponential". None is the ball of radius `norm_bound` for the linear
        kernel, and the landmarks for others.
    {end}

    Attributes
    ----------
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
    {fitted}

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.2;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import TDILRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = TDILRegressor(
    ...     kernel="rbf", gamma=2.0, bounds=(-1, 1), y_bounds=(-1, 1), epsilon=2.0
    ... )
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseTDIL._parameter_constraints,
        **RegressorTarget._parameter_constraints,
    }

    def __init__(
        self,
        *,
        kernel="linear",
        gamma=1.0,
        degree=3,
        coef0=1.0,
        kernel_params=None,
        feature_map=None,
        norm_bound=1.0,
        fit_intercept=False,
        intercept_scaling=1.0,
        loss="huber",
        huber_threshold=0.25,
        y_bounds=None,
        regularization="auto",
        epsilon=1.0,
        delta=1e-6,
        adjacency="add_remove",
        mechanism="functional",
        bounds=None,
        n_landmarks=256,
        n_rounds=10,
        candidates=None,
        random_state=None,
        noise_seed=None,
        ledger=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.feature_map = feature_map
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.loss = loss
        self.huber_threshold = huber_threshold
        self.y_bounds = y_bounds
        self.regularization = regularization
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.mechanism = mechanism
        self.bounds = bounds
        self.n_landmarks = n_landmarks
        self.n_rounds = n_rounds
        self.candidates = candidates
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.verbose = verbose
