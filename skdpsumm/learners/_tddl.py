"""TDDL: a learner that releases a predictor by way of public test points (Algorithm 2)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from ._base import BaseKernelLearner
from ._docs import shared_docs
from ._labels import ClassifierTarget, RegressorTarget
from .erm._feature_space import FeatureSpace
from .erm._kernel_space import PrecomputedSpace
from .mechanisms._answers_at_points import LaplaceAnswers
from .mechanisms._functional import SpanNoise, WeightNoise

_PRECOMPUTED = """ "precomputed"
        takes X of shape (n, n), and X_public of shape (T, n + T): the kernel of the public points
        with X, and with each other; `predict` takes that of new rows with the public points."""


class BaseTDDL(BaseKernelLearner):
    """What both TDDL learners do."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_public": True}
    _pure = ("functional", "laplace")
    _takes_public_points = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseKernelLearner._parameter_constraints,
        "mechanism": [StrOptions({"functional", "laplace"})],
        "norm_constraint": [None, Interval(Real, 1e-60, 1e60, closed="both")],
        "bounds": "no_validation",
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
    }

    def fit(self, X, y, *, X_public=None):
        """Minimise, and release a predictor in the span of the public points.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            One row per person (or other unit of protection).
        y : array-like of shape (n_samples,)
        X_public : array-like of shape (T, n_features) or `Public`, default=None
            Z, unlabelled rows that are no secret: of the test set, or like it. Wrap them in
            `Public` where a search or cross-validation would otherwise cut them into folds. In a
            `Pipeline` they pass by the steps that X goes through, unless it is made with
            ``transform_input=["X_public"]``, which needs
            ``sklearn.set_config(enable_metadata_routing=True)``. None draws landmarks from
            `bounds`; explicit features need neither.

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
        self._fit(X, y, X_public)
        return self

    def _plan(self, space, terms, public):
        if public is None:
            public_free = self.mechanism == "functional"
            if not public_free:
                raise ValueError(
                    "mechanism='laplace' answers at public points: pass them to fit as X_public."
                )
            return WeightNoise(space, terms)
        if self.mechanism == "laplace":
            return LaplaceAnswers(space, public, terms, self.norm_constraint)
        if isinstance(space, FeatureSpace) and terms.delta > 0:
            return WeightNoise(space, terms)  # all features, at the price of those of the points
        return SpanNoise(space, public, terms)

    def _release(self, plan, problem):
        predictor = plan.release(problem)
        if isinstance(problem.space, PrecomputedSpace):
            # The columns of X were the training rows: neither their number nor names are released.
            self.n_features_in_ = len(predictor.points)
            self.__dict__.pop("feature_names_in_", None)
            predictor = problem.space.released(predictor)
        self.predictor_ = predictor


@shared_docs(precomputed=_PRECOMPUTED)
class TDDLClassifier(ClassifierTarget, BaseTDDL):
    """Learn to classify from rows, by way of public test points: a predictor to ship.

    What is released contains no row of X, and can be pickled and given away. It is a function in
    the span of phi(X_public), good on rows like those.

    Parameters
    ----------
    {space}
    {classifier}
    {budget}
    mechanism : {"functional", "laplace"}, default="functional"
        "functional": Gaussian noise on the minimiser's projection on the span of phi(Z), of at most
        ``Delta_w |phi(z)| / mu`` on a prediction. "laplace": the paper's Algorithm 2, noise on each
        answer and least squares; much worse, shown for comparison.
    norm_constraint : float, default=None
        Radius of the paper's set C ("laplace"), in the norm of the space. None shrinks by an
        unbiased estimate of the error, as the variance of the noise is public.
    bounds : pair or sequence of pairs, default=None
        Public (low, high) of the columns, from which landmarks are drawn where `fit` is given no
        X_public and the kernel has no explicit features.
    n_landmarks : int, default=256
    {end}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
    {fitted}

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.1;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import TDDLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 < 0.6, "in", "out")
    >>> model = TDDLClassifier(gamma=2.0, epsilon=2.0)
    >>> model = model.fit(X, y, X_public=rng.uniform(-1, 1, (200, 2)))
    >>> model.score(X, y) > 0.8
    True
    >>> model.predict([[0.0, 0.0]])
    array(['in'], dtype='<U3')
    >>> round(model.privacy_.epsilon(1e-6), 3)
    2.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseTDDL._parameter_constraints,
        **ClassifierTarget._parameter_constraints,
    }

    def __init__(
        self,
        *,
        kernel="rbf",
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
        norm_constraint=None,
        bounds=None,
        n_landmarks=256,
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
        self.norm_constraint = norm_constraint
        self.bounds = bounds
        self.n_landmarks = n_landmarks
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.verbose = verbose


@shared_docs(precomputed=_PRECOMPUTED)
class TDDLRegressor(RegressorTarget, BaseTDDL):
    """Learn a number from rows, by way of public test points: a predictor to ship.

    What is released contains no row of X, and can be pickled and given away. It is a function in
    the span of phi(X_public), good on rows like those.

    Parameters
    ----------
    {space}
    {regressor}
    {budget}
    mechanism : {"functional", "laplace"}, default="functional"
        "functional": Gaussian noise on the minimiser's projection on the span of phi(Z), of at most
        ``Delta_w |phi(z)| / mu`` on a prediction. "laplace": the paper's Algorithm 2, noise on each
        answer and least squares; much worse, shown for comparison.
    norm_constraint : float, default=None
        Radius of the paper's set C ("laplace"), in the norm of the space. None shrinks by an
        unbiased estimate of the error, as the variance of the noise is public.
    bounds : pair or sequence of pairs, default=None
        Public (low, high) of the columns, from which landmarks are drawn where `fit` is given no
        X_public and the kernel has no explicit features.
    n_landmarks : int, default=256
    {end}

    Attributes
    ----------
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
    {fitted}

    Notes
    -----
    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.1;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import TDDLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = TDDLRegressor(gamma=2.0, y_bounds=(-1, 1), epsilon=2.0)
    >>> model = model.fit(X, y, X_public=np.linspace(-1, 1, 50)[:, None])
    >>> model.score(X, y) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseTDDL._parameter_constraints,
        **RegressorTarget._parameter_constraints,
    }

    def __init__(
        self,
        *,
        kernel="rbf",
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
        norm_constraint=None,
        bounds=None,
        n_landmarks=256,
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
        self.norm_constraint = norm_constraint
        self.bounds = bounds
        self.n_landmarks = n_landmarks
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.ledger = ledger
        self.verbose = verbose
