"""PINP: a learner that keeps the data, and answers test points as they come (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._computing import warn_caller
from ..privacy import NoiseWarning
from ..schema._reading import Public, unwrap
from ._base import BaseKernelLearner, ClassifierTarget, RegressorTarget
from .mechanisms._base import FrozenAnswers
from .mechanisms._functional import PathAnswers


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


class BasePINP(BaseKernelLearner):
    """What both PINP learners do."""

    _kind = "PINP"
    _draws_landmarks = False

    def query(self, X: Any) -> PINPAnswer:
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
        found = PINPAnswer(*self.answers_.ask(table, public=isinstance(X, Public)))
        if isinstance(self.answers_, PathAnswers):
            self._judge(self.answers_)
        return found

    def _judge(self, answers: PathAnswers) -> None:
        """Warn, once, where the answers of a path are mostly noise, which they tell themselves."""
        plan = answers.to_be_judged()
        if plan is None:
            return
        noise = self.noise_.judged(plan, self._coding.codes, answers.points, answers.hypothesis())
        if noise.is_drowned:
            warn_caller(noise.advice, NoiseWarning)

    @property
    def n_updates_left_(self) -> int:
        """Updates that "svt" and "threshold" have left. Then nothing private is read any more."""
        check_is_fitted(self, "privacy_")
        return self.answers_.n_updates_left

    @property
    def holds_private_data(self) -> bool:
        """True once fitted, unless `fit` released the whole function.

        Copies leave the private minimiser behind, and hold the points asked. For them it is False
        if all of these came in a `Public`, and epsilon is finite.
        """
        return hasattr(self, "answers_") and self.answers_.holds_private_data

    def _release(self, plan, problem):
        if plan.terms.is_private:
            self.answers_ = plan.open(problem)
        else:  # all that could be asked is known
            known = problem.minimize()
            self.answers_ = FrozenAnswers(plan.terms.n_scores, {}, known, is_public=False)
        return self.answers_.hypothesis() if isinstance(self.answers_, FrozenAnswers) else None

    def _scores(self, X):
        return self.query(X).scores


class PINPClassifier(BasePINP, ClassifierTarget):
    """Classifier that keeps its model private, and answers as many test points as you like.

    Parameters
    ----------
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. Give one if you can. Your
        table may then hold words, and missing values where the schema allows them. Rows become
        vectors of norm at most one, as `PublicVectorizer` makes them, and kernels see these. The
        default is None because only you know what is public. Without a schema, columns must hold
        numbers, and are taken as they are: scale them by public constants. TDIL and TDDL learners
        need public points for kernels such as "rbf". They draw them from the schema, unless you
        give `fit` X_public.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives pure DP, if the mechanism has it. Keep delta far below
        1 / n_samples: 1e-6 suits fewer than 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        The default keeps the number of rows private and needs less noise. "replace_one" needs
        twice the noise, and takes the number of rows as public. With `max_rows_per_group`, one
        group of any number of rows comes or goes, or is replaced by another.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    kernel : str, PolynomialKernel or transformer, default="auto"
        What the function is made of. The default is "splines" for TDIL, which needs neither gamma
        nor landmarks, and "rbf" for TDDL and PINP, which can learn any smooth shape.

        - "linear" is a linear function of the vectors that the schema makes of rows, or of the
          columns if there is no schema.
        - "splines" is piecewise linear in each number: it puts six hats at even knots (or at the
          `edges` of the column) beside each number, unless that would be more than 256 hats in all.
          Classifiers get products of every two of up to 17 numbers as well, and of categories with
          few values, unless delta is 0. With 1,000 rows or more, shape is worth far more than its
          noise (docs/learners.md). Without a schema it is "linear".
        - "rbf" and "poly" are those of scikit-learn's `pairwise_kernels`. "poly" is the
          paper's ``(<x, y> + 1)^3``. For another polynomial, give a
          `PolynomialKernel(degree=2, coef0=0.0)`.
        - A transformer makes explicit public features: `RBFSampler`, `PolynomialFeatures`,
          `PolynomialCountSketch`, or any that maps each row by itself. The learner fits a clone to
          a row of zeros, so that the map learns nothing from your data. Pass a map that you fitted
          to public data as a `FrozenEstimator`.

        PINP takes at most 60,000 rows. For more rows use explicit features ("linear", "splines", a
        transformer), or another learner.
    gamma : "auto" or float, default="auto"
        Parameter of the kernel: of "rbf" and "poly", as in scikit-learn. It is
        public, and never computed from the data. The default follows from the distances between
        public points of the schema, so that the kernel is neither flat nor near 0 between them.
        Without a schema you must give a number. For "poly", whose rows are clipped, the default is
        1, as in the paper.
    norm_bound : float or None, default=None
        Largest norm of a row, for tables without a schema. Longer rows are clipped ("linear",
        "poly"), and features are scaled down to it (transformers). The other kernels are bounded
        anyway. None is 1, and gives a warning if rows are clipped to it: give a schema, or say how
        long rows are. With a schema leave it out, because the schema's vectors are no longer than
        1.
    loss : str or loss object, default="auto"
        The loss that is minimised. It is "huberized_hinge" (`HuberizedHinge`), "soft_hinge"
        (`SoftHinge`), "logistic" (the learner then has `predict_proba`), or "hinge", whose corner
        is rounded for margins from 0.999 to 1.001. A string stands for the object with its default
        parameters. With more than two classes losses are multinomial, so that the noise does not
        grow with the number of classes. "hinge" is for two classes.

        The default takes the loss with the most signal per unit of noise:

        - "logistic" for the mechanism "gradient".
        - "soft_hinge" for the mechanism "objective" and two classes. It needs no extra noise at the
          default regularization.
        - "huberized_hinge" otherwise. Its slope is L at small scores, where that of the logistic
          loss is half of L.

        As epsilon grows beyond 10, the last two come near losses that use all rows ("logistic",
        and a wide parabola).
    classes : sequence or None, default=None
        All labels that y can hold. Give them if a class may be rare. The default, as in
        scikit-learn, takes the labels in y, and takes them as public: a class that only one person
        has is then revealed. `privacy_` says so. Labels are words or whole numbers, by value: True
        and 1.0 are 1. To have truth values back, list ``[False, True]``.
    regularization : "auto" or float, default="auto"
        Lambda, the weight of the penalty beside the sum of the losses: scikit-learn's 1 / C. The
        default is a public rule of the mechanism (docs/learners.md). For "functional", noise moves
        a score by 0.5 at most, or a regressor's prediction by a tenth of half of `y_bounds`. For
        "objective", it is so large that curvature costs little epsilon. For "gradient", it is
        small, because stopping early does the same.
    mechanism : str or mechanism object, default="auto"
        How the model is made private. The default is "functional" (`FunctionalMechanism`), because
        it was the best by far in all cases we tried. All its answers lie on one path of a Gaussian
        process around the minimiser. The noise is at most ``Delta_w |phi(z)| / mu``, for any number
        of queries. With explicit features `fit` releases the whole function.

        "svt" (`SparseVector`) and "threshold" (`NoisyThreshold`) are the paper's Algorithm 1, with
        budgets that hold. They answer from a public hypothesis, and pay where it is wrong. They are
        there for comparison. A string stands for the object with its default parameters.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for a transformer and for landmarks.
        None, as in scikit-learn, differs from fit to fit.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
        Use `PrivateSearchCV` to choose parameters at one price.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted: words, or 64-bit integers whatever type y has them in.
    answers_ : object
        The private minimiser and all answers given.
    n_updates_left_ : int
        Updates that "svt" and "threshold" have left. After the last, nothing private is read.
    privacy_ : PrivacyGuarantee
        What the release promises, and under which assumptions.
    noise_ : ReleasedNoise
        How far noise moves a score or a prediction, and how much these differ. If the model is
        mostly noise (`is_drowned`), `fit` gives a `NoiseWarning`. It is computed from the release
        and public numbers alone. `privacy_` and the repr show it. For sparse X it is about rows of
        the largest norm, spread over all columns, because nothing public says which columns yours
        use. Shorter rows get less noise, and smaller predictions.
    regularization_ : float
        The penalty that was used: Lambda, or 1 / C in scikit-learn.
    sensitivity_ : float
        Delta_w: how far the minimisers of two neighbours can be apart, in the norm of the space.
        It includes the solver's tolerance and rounding. An int `max_rows_per_group` multiplies it.
        For "gradient": how far their sums of gradients can be apart.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, if it has them.

    Notes
    -----
    A fitted learner holds private data. Its pickles and deep copies leave the private minimiser
    behind, unless epsilon is infinite. They carry the points that you asked about and the answers,
    and answer new points from these alone. So a copy holds private data if the points are private:
    ask at public ones by ``predict(Public(Z))``. A forked process answers as a copy does, but has
    all the memory.

    A new point costs n kernel values, and O(T^2) arithmetic after T points.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 5;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.

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

    See Also
    --------
    TDILClassifier : Releases a model that you can give away.
    TDDLClassifier : Releases one that is good on rows like public ones.
    PINPRegressor : The same for numbers.
    """


class PINPRegressor(BasePINP, RegressorTarget):
    """Regressor that keeps its model private, and answers as many test points as you like.

    Parameters
    ----------
    schema : TableSchema or what stands for one, default=None
        What is public about the columns: their ranges and categories. Give one if you can. Your
        table may then hold words, and missing values where the schema allows them. Rows become
        vectors of norm at most one, as `PublicVectorizer` makes them, and kernels see these. The
        default is None because only you know what is public. Without a schema, columns must hold
        numbers, and are taken as they are: scale them by public constants. TDIL and TDDL learners
        need public points for kernels such as "rbf". They draw them from the schema, unless you
        give `fit` X_public.
    epsilon : float, default=1.0
        Total epsilon of one `fit` and of all that is made of it. Smaller values protect better and
        need more noise. 1.0 is a common choice between the two. ``np.inf`` adds no noise.
    delta : float, default=1e-6
        The delta of the guarantee. 0 gives pure DP, if the mechanism has it. Keep delta far below
        1 / n_samples: 1e-6 suits fewer than 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default="add_remove"
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        The default keeps the number of rows private and needs less noise. "replace_one" needs
        twice the noise, and takes the number of rows as public. With `max_rows_per_group`, one
        group of any number of rows comes or goes, or is replaced by another.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. An int k keeps at
        most k rows of each group, chosen by secret coins, and the noise is that of k rows.
        "average" counts each group once: its rows share a weight of one, and the noise is that of
        one row. None, the default, protects one row of X, which is enough where each person has one
        row. The value is public.
    kernel : str, PolynomialKernel or transformer, default="auto"
        What the function is made of. The default is "splines" for TDIL, which needs neither gamma
        nor landmarks, and "rbf" for TDDL and PINP, which can learn any smooth shape.

        - "linear" is a linear function of the vectors that the schema makes of rows, or of the
          columns if there is no schema.
        - "splines" is piecewise linear in each number: it puts six hats at even knots (or at the
          `edges` of the column) beside each number, unless that would be more than 256 hats in all.
          Classifiers get products of every two of up to 17 numbers as well, and of categories with
          few values, unless delta is 0. With 1,000 rows or more, shape is worth far more than its
          noise (docs/learners.md). Without a schema it is "linear".
        - "rbf" and "poly" are those of scikit-learn's `pairwise_kernels`. "poly" is the
          paper's ``(<x, y> + 1)^3``. For another polynomial, give a
          `PolynomialKernel(degree=2, coef0=0.0)`.
        - A transformer makes explicit public features: `RBFSampler`, `PolynomialFeatures`,
          `PolynomialCountSketch`, or any that maps each row by itself. The learner fits a clone to
          a row of zeros, so that the map learns nothing from your data. Pass a map that you fitted
          to public data as a `FrozenEstimator`.

        PINP takes at most 60,000 rows. For more rows use explicit features ("linear", "splines", a
        transformer), or another learner.
    gamma : "auto" or float, default="auto"
        Parameter of the kernel: of "rbf" and "poly", as in scikit-learn. It is
        public, and never computed from the data. The default follows from the distances between
        public points of the schema, so that the kernel is neither flat nor near 0 between them.
        Without a schema you must give a number. For "poly", whose rows are clipped, the default is
        1, as in the paper.
    norm_bound : float or None, default=None
        Largest norm of a row, for tables without a schema. Longer rows are clipped ("linear",
        "poly"), and features are scaled down to it (transformers). The other kernels are bounded
        anyway. None is 1, and gives a warning if rows are clipped to it: give a schema, or say how
        long rows are. With a schema leave it out, because the schema's vectors are no longer than
        1.
    loss : str or loss object, default="huber"
        The loss that is minimised. It is "huber" (`Huber`), "epsilon_insensitive"
        (`EpsilonInsensitive`, that of support vector regression), or "squared". Labels are clipped
        to `y_bounds`. The default has a small bounded slope, and so needs little noise. "squared"
        clips residuals at the length of that interval, because the plain squared loss has no finite
        sensitivity if the number of rows is private. A string stands for the object with its
        default parameters.
    y_bounds : pair of float
        Public (low, high) of y. Values outside are clipped. You must give it: bounds that are read
        off y would reveal its largest and smallest value.
    regularization : "auto" or float, default="auto"
        Lambda, the weight of the penalty beside the sum of the losses: scikit-learn's 1 / C. The
        default is a public rule of the mechanism (docs/learners.md). For "functional", noise moves
        a score by 0.5 at most, or a regressor's prediction by a tenth of half of `y_bounds`. For
        "objective", it is so large that curvature costs little epsilon. For "gradient", it is
        small, because stopping early does the same.
    mechanism : str or mechanism object, default="auto"
        How the model is made private. The default is "functional" (`FunctionalMechanism`), because
        it was the best by far in all cases we tried. All its answers lie on one path of a Gaussian
        process around the minimiser. The noise is at most ``Delta_w |phi(z)| / mu``, for any number
        of queries. With explicit features `fit` releases the whole function.

        "svt" (`SparseVector`) and "threshold" (`NoisyThreshold`) are the paper's Algorithm 1, with
        budgets that hold. They answer from a public hypothesis, and pay where it is wrong. They are
        there for comparison. A string stands for the object with its default parameters.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for a transformer and for landmarks.
        None, as in scikit-learn, differs from fit to fit.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. The default is None because only you know the cap of your
        data. *Every fit is a release of its own*, also in a search or a cross-validation, and
        without a ledger nothing counts them.
        Use `PrivateSearchCV` to choose parameters at one price.

    Attributes
    ----------
    answers_ : object
        The private minimiser and all answers given.
    n_updates_left_ : int
        Updates that "svt" and "threshold" have left. After the last, nothing private is read.
    privacy_ : PrivacyGuarantee
        What the release promises, and under which assumptions.
    noise_ : ReleasedNoise
        How far noise moves a score or a prediction, and how much these differ. If the model is
        mostly noise (`is_drowned`), `fit` gives a `NoiseWarning`. It is computed from the release
        and public numbers alone. `privacy_` and the repr show it. For sparse X it is about rows of
        the largest norm, spread over all columns, because nothing public says which columns yours
        use. Shorter rows get less noise, and smaller predictions.
    regularization_ : float
        The penalty that was used: Lambda, or 1 / C in scikit-learn.
    sensitivity_ : float
        Delta_w: how far the minimisers of two neighbours can be apart, in the norm of the space.
        It includes the solver's tolerance and rounding. An int `max_rows_per_group` multiplies it.
        For "gradient": how far their sums of gradients can be apart.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, if it has them.

    Notes
    -----
    A fitted learner holds private data. Its pickles and deep copies leave the private minimiser
    behind, unless epsilon is infinite. They carry the points that you asked about and the answers,
    and answer new points from these alone. So a copy holds private data if the points are private:
    ask at public ones by ``predict(Public(Z))``. A forked process answers as a copy does, but has
    all the memory.

    A new point costs n kernel values, and O(T^2) arithmetic after T points.

    Source: Jain and Thakurta (2013), "Differentially private learning with kernels", section 5;
    Hall, Rinaldo and Wasserman (2013) for the functional mechanism.

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

    See Also
    --------
    TDILRegressor : Releases a model that you can give away.
    TDDLRegressor : Releases one that is good on rows like public ones.
    PINPClassifier : The same for classes.
    """
