"""TDDL: learn for public test points, and release a predictor in their span (Algorithm 2)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ._base import BaseKernelLearner, ClassifierTarget, RegressorTarget


class BaseTDDL(BaseKernelLearner):
    """What both TDDL learners do."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_public": True, "groups": True}
    _kind = "TDDL"
    _takes_public_points = True

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> Self:
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
        return self._private_fit(X, y, X_public, groups=groups)


class TDDLClassifier(BaseTDDL, ClassifierTarget):
    """Classifier that you can give away, learned from private rows and public, unlabelled ones.

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
        grow with the number of classes ("hinge" is one-vs-rest, and its noise does grow).

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
        How the model is made private. The default takes the best by public numbers:

        - "gradient" (`GradientDescent`) if delta > 0 and epsilon is at most 30. Noisy gradient
          descent on all rows, in the span of phi(Z).
        - "functional" (`FunctionalMechanism`) otherwise. Gaussian noise on the minimiser in that
          span, of at most ``Delta_w |phi(z)| / mu`` on a prediction.

        "laplace" (`LaplaceAnswers`) is the paper's Algorithm 2: noise on each answer, then least
        squares. It is much worse, and there for comparison. A string stands for the object with
        its default parameters.
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
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
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
    The fitted learner contains no row of X. You can pickle it and give it away. It is good on rows
    like X_public.

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

    See Also
    --------
    TDILClassifier : Needs no public rows.
    PINPClassifier : Keeps its model private, and answers as many points as you like.
    TDDLRegressor : The same for numbers.
    PrivateSearchCV : Chooses parameters at one price.
    """


class TDDLRegressor(BaseTDDL, RegressorTarget):
    """Regressor that you can give away, learned from private rows and public, unlabelled ones.

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
        How the model is made private. The default takes the best by public numbers:

        - "gradient" (`GradientDescent`) if delta > 0 and epsilon is at most 30. Noisy gradient
          descent on all rows, in the span of phi(Z).
        - "functional" (`FunctionalMechanism`) otherwise. Gaussian noise on the minimiser in that
          span, of at most ``Delta_w |phi(z)| / mu`` on a prediction.

        "laplace" (`LaplaceAnswers`) is the paper's Algorithm 2: noise on each answer, then least
        squares. It is much worse, and there for comparison. A string stands for the object with
        its default parameters.
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
    predictor_ : Minimizer
        The release: an expansion in public points, or weights of features.
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
    The fitted learner contains no row of X. You can pickle it and give it away. It is good on rows
    like X_public.

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

    See Also
    --------
    TDILRegressor : Needs no public rows.
    PINPRegressor : Keeps its model private, and answers as many points as you like.
    TDDLClassifier : The same for classes.
    PrivateSearchCV : Chooses parameters at one price.
    """
