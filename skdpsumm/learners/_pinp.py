"""PINP: a learner that keeps the data, and answers test points as they come (Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._computing import progress, warn_caller
from .._docs import inherited_docs
from ..privacy import NoiseWarning
from ..privacy._fit import estimator
from ..schema._reading import Public, unwrap
from ._base import BaseKernelLearner
from ._targets import ClassifierTarget, RegressorTarget, check_printed
from .mechanisms._base import FrozenAnswers
from .mechanisms._functional import PathAnswers
from .mechanisms._planning import spread
from .mechanisms._public_hypothesis import NoisyThreshold


@dataclass(frozen=True)
class PINPAnswer:
    """Answers of a PINP learner.

    Attributes
    ----------
    scores : ndarray of shape (n, q)
        Released scores. q is 1 for two classes and for regressors.
    fresh : ndarray of bool, shape (n,)
        Whether noise was drawn for this point. If not, the public hypothesis answered.
    """

    scores: NDArray[np.float64]
    fresh: NDArray[np.bool_]


@estimator
class BasePINP(BaseKernelLearner):
    """What both PINP learners do.

    Parameters
    ----------
    mechanism : str or mechanism object, default="auto"
        How answers are made private. The default is "functional" (`FunctionalMechanism`), because
        it was the best by far in all cases we tried. All its answers lie on one path of a Gaussian
        process around the minimiser. The noise is at most ``Delta_w |phi(z)| / mu``, for any number
        of queries. With explicit features `fit` releases the whole function.

        "svt" (`SparseVector`) and "threshold" (`NoisyThreshold`) are the paper's Algorithm 1, with
        budgets that hold. They answer from a public hypothesis, and pay where it is wrong. They are
        there for comparison. A string stands for the object with its default parameters.

    Attributes
    ----------
    answers_ : object
        The private minimiser and all answers given.
    n_updates_left_ : int
        Updates that "svt" and "threshold" have left. After the last, nothing private is read.

    Notes
    -----
    A fitted learner holds private data. Its pickles and deep copies leave the private minimiser
    behind, unless epsilon is infinite. They carry the points that were asked and their answers, and
    answer new points by the function that those amount to. So a copy holds private data if these
    points are private: ask at public ones by ``predict(Public(Z))``. A forked process answers as a
    copy does, but has all the memory.

    A new point costs n kernel values, and O(T^2) arithmetic after T points.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 5;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.
    """

    _kind = "PINP"
    _draws_landmarks = False

    @classmethod
    def paper_parameters(
        cls, n_samples=500_000, *, epsilon=1.0, delta=1e-6, max_queries=1000, beta=0.05
    ):
        """Return Algorithm 1 as printed, as keyword arguments.

        `epsilon` is what the paper claims. After `fit`, `privacy_` says what the paper's noise
        really gives, which is far less. B and the noise depend on all arguments, so change them
        here.

        Parameters
        ----------
        n_samples : int, default=500_000
            n, which is taken as public. The default is that of the paper's Figure 2a.
        epsilon, delta : float, default=1.0, 1e-6
            The claim. The paper varies epsilon and does not print its delta, so these are our
            defaults.
        max_queries : int, default=1000
            T. The paper prints it for no experiment: the default is ours.
        beta : float, default=0.05
            Failure probability of the error bound. The paper prints none: the default is the usual
            5 %.

        Returns
        -------
        dict
            ``B = n lambda epsilon C / (200 sqrt(2) L R log(2 T / beta) log(4 / delta))``, rounded
            up, with the paper's ``C = 2 L R / lambda`` and its Lambda of 1000. Our copy of the
            paper has ``C^2`` in B, which the error bound contradicts. The paper has no experiment
            with PINP, so kernel and loss are those of Figure 2.

        Examples
        --------
        >>> from skdpsumm import PINPClassifier
        >>> model = PINPClassifier(**PINPClassifier.paper_parameters(n_samples=10_000))
        >>> model.mechanism.n_updates, model.epsilon
        (1, 1.0)
        """
        sizes = {"n_samples": n_samples, "epsilon": epsilon, "max_queries": max_queries}
        check_printed(delta, beta, **sizes)
        logarithms = math.log(2 * max_queries / beta) * math.log(4 / delta)
        updates = 2 * n_samples * epsilon / (200 * math.sqrt(2) * logarithms)
        printed = NoisyThreshold(
            n_updates=math.ceil(updates),
            max_queries=max_queries,
            failure_probability=beta,
            calibration="printed",
        )
        return {**cls._printed, "mechanism": printed, "epsilon": epsilon, "delta": delta}

    def query(self, X):
        """Return the released scores of each row, and which of them are fresh.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features), or in a `Public`
            The test points. They may depend on earlier answers. A point that was asked before gets
            the same answer. Put points that are public, and no row of a person, in a `Public`:
            copies of the learner carry the points asked, and then hold no private data.

        Returns
        -------
        PINPAnswer
            With `scores` of shape (n_samples, q), where q is 1 for two classes and for regressors,
            and `fresh` of shape (n_samples,): whether noise was drawn for a point. If not, the
            public hypothesis answered.

        Warns
        -----
        NoiseWarning
            Once, if 30 answers or more are mostly noise. The answers are kept, even if you turn
            the warning into an error.
        """
        check_is_fitted(self, "privacy_")
        table = self._read(unwrap(X), self._read_as)
        with progress(f"{type(self).__name__}, answers", self.verbose):
            found = PINPAnswer(*self.answers_.ask(table, public=isinstance(X, Public)))
        if isinstance(self.answers_, PathAnswers):
            self._judge(self.answers_)
        return found

    def _judge(self, answers: PathAnswers) -> None:
        """Warn, once, where the answers of a path are mostly noise, which they tell themselves."""
        plan = answers.to_be_judged()
        if plan is None:
            return
        found = spread(plan, plan.terms, answers.hypothesis(), answers.points)
        noise = self.noise_.judged(*found, plan.terms)
        if noise.is_drowned:
            warn_caller(noise.advice, NoiseWarning)

    @property
    def n_updates_left_(self) -> int:
        """Updates that "svt" and "threshold" have left. Then nothing private is read any more."""
        check_is_fitted(self, "privacy_")
        return getattr(self.answers_, "n_updates_left", 0)

    @property
    def holds_private_data(self) -> bool:
        """True once fitted, unless `fit` released the whole function.

        Copies leave the private minimiser behind, and hold the points asked. For them it is False
        if all of these came in a `Public`, and epsilon is finite.
        """
        return hasattr(self, "answers_") and self.answers_.holds_private_data

    def _release(self, plan, problem):
        self.answers_ = plan.open(problem)
        return self.answers_.hypothesis() if isinstance(self.answers_, FrozenAnswers) else None

    def _scores(self, X):
        return self.query(X).scores


@inherited_docs
@estimator
class PINPClassifier(BasePINP, ClassifierTarget):
    """Classifier that keeps its model private, and answers as many test points as you like.

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
    {answers_...n_updates_left_}
    {privacy_...feature_names_in_}

    Notes
    -----
    {notes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import PINPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 < 0.6
    >>> model = PINPClassifier(gamma=2.0, epsilon=2.0).fit(X, y)
    >>> model.score(X[:200], y[:200]) > 0.8
    True
    >>> again = model.decision_function(X[:1]) == model.decision_function(X[:1])
    >>> bool(again[0]), round(model.privacy_.epsilon(1e-6), 3)
    (True, 2.0)
    """


@inherited_docs
@estimator
class PINPRegressor(BasePINP, RegressorTarget):
    """Regressor that keeps its model private, and answers as many test points as you like.

    Parameters
    ----------
    {kernel...intercept_scaling}
    {loss...y_bounds}
    {regularization...max_rows_per_group}
    {mechanism}
    {random_state...verbose}

    Attributes
    ----------
    {answers_...n_updates_left_}
    {privacy_...feature_names_in_}

    Notes
    -----
    {notes}

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import PINPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 1))
    >>> y = np.sin(3 * X[:, 0])
    >>> model = PINPRegressor(gamma=2.0, y_bounds=(-1, 1), epsilon=2.0).fit(X, y)
    >>> model.score(X[:200], y[:200]) > 0.8
    True
    """
