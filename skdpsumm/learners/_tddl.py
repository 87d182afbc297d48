"""TDDL: learn for public test points, and release a predictor in their span (Algorithm 2)."""

from __future__ import annotations

from typing import ClassVar

from .._docs import inherited_docs
from ..privacy._fit import estimator
from ._base import BaseKernelLearner
from ._targets import PRINTED_REGULARIZATION, ClassifierTarget, RegressorTarget
from .erm._kernel_space import PrecomputedSpace
from .mechanisms._answers_at_points import LaplaceAnswers


@estimator
class BaseTDDL(BaseKernelLearner):
    """What both TDDL learners do.

    Parameters
    ----------
    mechanism : str or mechanism object, default="auto"
        How the predictor is made private. The default takes the best by public numbers:

        - "gradient" (`GradientDescent`) if delta > 0 and epsilon is at most 30. Noisy gradient
          descent on all rows, in the span of phi(Z).
        - "functional" (`FunctionalMechanism`) otherwise, and for a kernel that is precomputed or a
          function of your own. Gaussian noise on the minimiser in that span, of at most ``Delta_w
          |phi(z)| / mu`` on a prediction.

        "laplace" (`LaplaceAnswers`) is the paper's Algorithm 2: noise on each answer, then least
        squares. It is much worse, and there for comparison. A string stands for the object with
        its default parameters.

    Notes
    -----
    The fitted learner contains no row of X. You can pickle it and give it away. It is a function
    in the span of phi(X_public), and is good on rows like those.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 6.1;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_public": True, "groups": True}
    _kind = "TDDL"
    _takes_public_points = True

    @classmethod
    def paper_parameters(cls, n_samples=500_000, *, epsilon=1.0, delta=1e-6):
        """Return Algorithm 2 as printed, as keyword arguments: the paper's Figure 2.

        `epsilon` is what the paper claims. After `fit`, `privacy_` says what the paper's noise
        really gives, which is up to about 2.9 times that. The paper does not print the constant of
        ``v = O(...)``; we take 1.

        Parameters
        ----------
        n_samples : int, default=500_000
            n, which is taken as public, for the set C. The default is that of the paper's Figure
            2a.
        epsilon, delta : float, default=1.0, 1e-6
            The claim. The paper varies epsilon and does not print its delta, so these are our
            defaults.

        Returns
        -------
        dict
            Classifiers have the cubic kernel, the hinge and ``Lambda = 1 / 0.001``. Regressors
            have least squares on 0 and 1. Their L and Lambda are not printed: residuals are
            clipped, and Lambda is the same. C is Corollary 6's ball of radius ``2 L R / lambda``.
            Give T public rows to `fit`. In the paper, ``T = O(n epsilon / sqrt(log(1 / delta)))``.

        Examples
        --------
        >>> from skdpsumm import TDDLClassifier
        >>> model = TDDLClassifier(**TDDLClassifier.paper_parameters(n_samples=10_000))
        >>> round(model.mechanism.norm_constraint, 1), model.loss
        (56.6, 'hinge')
        """
        slope = cls._printed_lipschitz * cls._printed_radius
        radius = 2 * slope * n_samples / PRINTED_REGULARIZATION
        printed = LaplaceAnswers(norm_constraint=radius, calibration="printed")
        return {**cls._printed, "mechanism": printed, "epsilon": epsilon, "delta": delta}

    def fit(self, X, y, *, X_public=None, groups=None):
        """Learn from private rows, and release a predictor in the span of the public points.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)
            One row per person (or other unit of protection). With `groups`, any number of rows.
        y : array-like of shape (n_samples,)
            Labels, or the numbers to predict.
        X_public : array-like of shape (T, n_features) or `Public`, default=None
            Z: rows without labels that are no secret, of the test set or like it. Wrap them in
            `Public` if a search or cross-validation would otherwise cut them into folds. A
            `Pipeline` does not send them through the steps that X goes through, unless you make it
            with ``transform_input=["X_public"]``. That needs
            ``sklearn.set_config(enable_metadata_routing=True)``. None, for when you have no public
            rows, draws landmarks from the schema. Explicit features need neither.
        groups : array-like of shape (n_samples,), default=None
            Label of the group that each row belongs to, such as a person. Give it if you set
            `max_rows_per_group`. None fits the default, which protects single rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For bad parameters or data. Nothing is charged.
        BudgetExceededError
            If the ledger cannot hold epsilon and delta. Nothing is charged.

        Warns
        -----
        NoiseWarning
            If the release is mostly noise. If public numbers show it, the warning comes before
            the charge. Otherwise all is fitted, even if you turn the warning into an error.
        """
        self._fit(X, y, X_public, groups)
        return self

    def _release(self, plan, problem):
        released = super()._release(plan, problem)
        if isinstance(problem.space, PrecomputedSpace):
            # The columns of X were the training rows: neither their number nor names are released.
            self.n_features_in_ = len(self.predictor_.coefficients)
            self.__dict__.pop("feature_names_in_", None)
            self.predictor_ = problem.space.released(self.predictor_)
        return released


@inherited_docs
@estimator
class TDDLClassifier(BaseTDDL, ClassifierTarget):
    """Classifier that you can give away, learned from private rows and public, unlabelled ones.

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


@inherited_docs
@estimator
class TDDLRegressor(BaseTDDL, RegressorTarget):
    """Regressor that you can give away, learned from private rows and public, unlabelled ones.

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
    >>> from skdpsumm import TDDLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = TDDLRegressor(gamma=2.0, y_bounds=(-1, 1), epsilon=2.0)
    >>> model = model.fit(X, y, X_public=np.linspace(-1, 1, 50)[:, None])
    >>> model.score(X, y) > 0.8
    True
    """
