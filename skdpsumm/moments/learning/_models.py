"""Classifiers and regressors that are trained from a private sketch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from ..._computing import silence
from ..._delegation import inner_has
from ..._sklearn import StrOptions
from ...privacy import PrivacyLedger
from ...schema._columns import Categorical, Numeric
from ...schema._reading import validate_table
from ...schema._schema import SchemaLike, as_schema
from ...schema._values import class_codes, known_classes, listed_classes
from ...sketches._sketchers import TableSketcher
from .._base import of_paper
from ..inferring._points import Points
from ._base import BaseImplicitM2M, weight_parameter


class M2MClassifier(ClassifierMixin, BaseImplicitM2M):
    """Train any classifier from one private sketch of (X, y) (implicit M2M, section 3.5).

    `fit` releases a sketch once and trains an estimator on synthetic labelled rows that match it.
    Anyone who holds the sketch can train as many models as they like with `from_sketch`, and
    predict any of its columns. `fit` puts the label last.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. They are those of X. Required
        by `fit`: ranges and categories that were read off private rows would leak. `estimator` gets
        an indicator of each category in place of the column. A number that is missing becomes the
        middle of its range, and an indicator beside the column says that it was missing.
    epsilon : float, default=None
        Total epsilon of one `fit` and of all that is made of it. ``np.inf`` adds no noise. Smaller
        values protect better and add more noise. None is 1.0, a common starting point.
    delta : float, default=None
        The delta of the guarantee. 0 gives pure DP, with more noise. None is 1e-6, which is well
        below 1 / n for tables of up to 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default=None
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        None is "add_remove", which also protects the number of rows. Under "replace_one" that
        number is public, and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. None protects one
        row of X, as suits tables with one row per person. An int k keeps at most k rows of each
        group, and the noise is that of k rows. "average" counts each group once.
    release : sketcher, default=None
        A sketcher of your own, which has the whole budget. Set `epsilon`, `delta`, `adjacency`,
        `max_rows_per_group` and `ledger` there, and leave them None here. None takes the sketcher
        that we know to be best for such a schema and a label (docs/m2m.md). The last column of the
        sketched table is the label, "target", which is categorical. `fit` sets the schema of your
        sketcher; its `marginals` may name the columns of X, and the label.
    estimator : classifier, default=None
        What is trained. It may be a Pipeline: its steps learn from the release alone. Points have
        weights. An estimator that takes no `sample_weight` gets points that were drawn by their
        weights. None is `LogisticRegression(max_iter=1000)` behind a `MinMaxScaler`, since it is
        quick to train and copes with columns in different units.
    classes : sequence or None, default=None
        All labels that y can hold. None takes the labels in y as public, which is right where
        everybody knows them. Otherwise a class that only one person has is revealed; `privacy_`
        says what was taken as public. Labels are words or whole numbers, by value: True and 1.0 are
        1. To have truth values back, list ``[False, True]``.
    inference : {"auto", "graphical", "points"} or Points, default="auto"
        How the release is read. "graphical" uses a graphical model of the sketch's histograms. It
        uses the counted groups of columns only. "points" uses synthetic points, weighted to match
        all features; a `Points` says how. Where there are histograms, it draws the points from
        their graphical model. "auto" is "graphical" for sketches of histograms alone, and "points"
        otherwise.
    n_synthetic : int, default=100_000
        Number of synthetic points. They are rows drawn from the graphical model, or points with
        weights. The default is the paper's.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for the synthetic points, and for the
        sketcher's map if it has no seed of its own. None draws others at each fit. It does not
        affect the noise.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. *Every fit is a release of its own*, those of a search and of
        a cross-validation too. With None, nothing counts them: only you know which releases share
        a budget.
    verbose : int, default=0
        1 shows progress on the standard error stream. The default is silent, as in scikit-learn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted: words, or 64-bit integers whatever type y has them in.
    estimator_ : classifier
        The trained classifier.
    sketch_ : PrivateSketch
        The release, of the columns of X and the label.
    privacy_ : PrivacyGuarantee or TargetedPrivacy
        What the release promises. With `X_target` in `from_sketch` there are two claims:
        `privacy_.sketch` for the rows that were sketched, and `privacy_.target` for the target's,
        with epsilon = inf.
    effective_sample_size_ : float
        Number of equally weighted points that the weights are worth. It is `n_synthetic` where rows
        are drawn from a graphical model. Training warns if it is below ten for each input: then few
        points match the sketch.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, where X has them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import M2MClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((5000, 2))
    >>> y = X[:, 0] > 0.6
    >>> model = M2MClassifier((0, 1), n_synthetic=10_000, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True

    Categories beside numbers:

    >>> mixed = np.column_stack([X[:, 0].astype(object), rng.choice(["baker", "clerk"], 5000)])
    >>> model = M2MClassifier(
    ...     schema=[(0, 1), ["baker", "clerk"]], n_synthetic=10_000, random_state=0
    ... ).fit(mixed, y)
    >>> model.score(mixed, y) > 0.9
    True

    See Also
    --------
    M2MRegressor : The same for numbers.
    M2MEstimator : Answers any question from a sketch.
    TDILClassifier : Learns from the rows themselves, for one target.
    """

    _of_points: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._of_points,
        "weights": Points._parameter_constraints["weights"],
        "regularization": [StrOptions({"theory", "paper"})],
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        max_rows_per_group: int | str | None = None,
        release: TableSketcher | None = None,
        estimator: Any = None,
        classes: ArrayLike | None = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.release = release
        self.estimator = estimator
        self.classes = classes
        self.inference = inference
        self.n_synthetic = n_synthetic
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

    @staticmethod
    def paper_parameters(sketch: str = "rff", **budget: Any) -> dict[str, Any]:
        """Return the parameters of the paper's Figure 4, as keyword arguments.

        They run implicit M2M as printed, negative weights included. The paper gives everything but
        `schema`, `epsilon` and `classes`.

        Parameters
        ----------
        sketch : {"rff", "race", "hist"}, default="rff"
            As in `M2MEstimator.paper_parameters`, with the same default for the same reason, but
            with 20 bins for "hist".
        **budget
            Other parameters of the sketcher: `epsilon`, `adjacency`, `ledger`, ...

        Returns
        -------
        dict

        Notes
        -----
        The guarantee is that of `M2MEstimator.paper_parameters`: epsilon where a row is added or
        removed. Give `classes`, or the set of labels is taken as public.

        Where weights are negative, the loss may have no minimum, and the paper does not say how it
        minimises it. Here `estimator` minimises it. By default that is a `LogisticRegression`: with
        scikit-learn's penalty there is a minimum. With equation (5) the model can be worse than
        chance. With ``Points(regularization="theory")`` it is as good as the paper says
        (docs/papers.md).

        Examples
        --------
        >>> import numpy as np
        >>> from skdpsumm import M2MClassifier
        >>> X = np.random.default_rng(0).random((20_000, 2))
        >>> y = (X[:, 0] > 0.5).astype(int)
        >>> printed = M2MClassifier.paper_parameters("rff", epsilon=3.0)
        >>> model = M2MClassifier((0, 1), classes=[0, 1], **printed).fit(X, y)
        >>> model.score(X, y) > 0.9
        True
        """
        points = Points(prior="uniform", weights="printed", regularization="paper")
        return of_paper(sketch, budget, points, n_bins=20)

    def _check_parameters(self):
        super()._check_parameters()
        if self._regresses and weight_parameter(self._unfitted) is None:
            raise ValueError(
                "Points(weights='printed') needs an estimator whose fit takes sample_weight: rows "
                "cannot be drawn by negative weights. Take weights='maxent' or another estimator."
            )

    def _checked_table(self, X, y):
        checked, labels = validate_table(self, X, y, schema=as_schema(self.schema))
        with silence():  # it may warn of how many rows there are
            check_classification_targets(labels)
        return checked, labels

    def _state_public(self, sketcher):
        if self.classes is None:
            given = f"{sketcher.privacy_.given}, and the set of labels in y"
            sketcher.privacy_ = replace(sketcher.privacy_, given=given)
            sketcher.sketch_ = replace(sketcher.sketch_, privacy=sketcher.privacy_)

    def _default_estimator(self):
        return make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=1000))

    def _plain_estimator(self):
        # Coefficients are then known better than any release tells.
        return LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-7, max_iter=10_000)

    def _describe_target(self, y):
        return Categorical(known_classes(y, self.classes).tolist())

    def _set_target(self, columns, target):
        known = columns.values(target)
        if known is None:
            raise ValueError(
                f"The target, column {columns.name(target)!r} of the sketch, is not categorical. "
                "Set `target` of from_sketch to the column of the label (None is the last one), "
                "which must be a Categorical; or use M2MRegressor, which learns numbers."
            )
        name = f"The target, column {columns.name(target)!r},"
        self.classes_ = listed_classes(known, name)  # sorted, as those of `estimator_`

    def _observed(self, cells):
        indicators = np.eye(len(self.classes_))[class_codes(cells, self.classes_)]
        return indicators[:, 1:] if len(self.classes_) == 2 else indicators

    def _learnt(self, observed):
        codes = np.arange(len(self.classes_))[-observed.shape[1] :]
        return self.classes_[(observed @ codes).astype(np.int64)]

    def _completed(self, inputs, learnt, weights):
        # An estimator must see every class: of one without rows some other row is taken.
        gone = np.setdiff1d(self.classes_, learnt)
        if len(gone):
            extra = np.arange(len(gone)) % len(inputs)
            alike = 0.0 if np.ptp(weights) else weights[0]
            inputs = np.concatenate([inputs, inputs[extra]])
            learnt = np.concatenate([learnt, gone])
            weights = np.concatenate([weights, np.full(len(gone), alike)])
        # And a class without weight keeps a trace.
        floor = max(1e-6 * weights.sum() / len(weights), 1e-8 * weights.max())
        for label in self.classes_:
            own = learnt == label
            if weights[own].sum() < floor:
                weights = weights + floor * own
        return inputs, learnt, weights

    @available_if(inner_has("predict_proba"))
    def predict_proba(self, X):
        """Return the probability of each class, shape (n_samples, n_classes)."""
        inputs = self._read_rows(X)
        return self.estimator_.predict_proba(inputs)

    @available_if(inner_has("decision_function"))
    def decision_function(self, X):
        """Return the decision function of the trained estimator."""
        inputs = self._read_rows(X)
        return self.estimator_.decision_function(inputs)


class M2MRegressor(RegressorMixin, BaseImplicitM2M):
    """Train any regressor from one private sketch of (X, y) (implicit M2M, section 3.5).

    `fit` releases a sketch once and trains an estimator on synthetic rows that match it. Anyone who
    holds the sketch can train as many models as they like with `from_sketch`, and predict any of
    its columns of numbers. `fit` puts y last.

    Parameters
    ----------
    schema : TableSchema or what stands for one
        What is public about the columns: their ranges and categories. They are those of X, as in
        `M2MClassifier`. Required by `fit`.
    epsilon : float, default=None
        Total epsilon of one `fit` and of all that is made of it. ``np.inf`` adds no noise. Smaller
        values protect better and add more noise. None is 1.0, a common starting point.
    delta : float, default=None
        The delta of the guarantee. 0 gives pure DP, with more noise. None is 1e-6, which is well
        below 1 / n for tables of up to 100,000 rows.
    adjacency : {"add_remove", "replace_one"}, default=None
        How two neighbouring tables differ: by one row more or less, or by other values in one row.
        None is "add_remove", which also protects the number of rows. Under "replace_one" that
        number is public, and sensitivities grow, at most to twice.
    max_rows_per_group : int, "average" or None, default=None
        Set it if a person may have several rows, and give `fit` the `groups`, one label for each
        row. `fit` then protects a whole group, usually all rows of one person. None protects one
        row of X, as suits tables with one row per person. An int k keeps at most k rows of each
        group, and the noise is that of k rows. "average" counts each group once.
    release : sketcher, default=None
        A sketcher of your own, which has the whole budget. Set `epsilon`, `delta`, `adjacency`,
        `max_rows_per_group` and `ledger` there, and leave them None here. None takes the sketcher
        that we know to be best. The last column of the sketched table is y, as in `M2MClassifier`.
    estimator : regressor, default=None
        What is trained. It may be a Pipeline, as in `M2MClassifier`. None is `LinearRegression()`,
        the simplest.
    y_bounds : pair, default=None
        Public (low, high) of y. Values outside are clipped. Required by `fit`, as a range that was
        read off private rows would leak. `from_sketch` does without: the sketch knows it.
    inference : {"auto", "graphical", "points"} or Points, default="auto"
        How the release is read. "graphical" uses a graphical model of the sketch's histograms. It
        uses the counted groups of columns only. "points" uses synthetic points, weighted to match
        all features; a `Points` says how. Where there are histograms, it draws the points from
        their graphical model. "auto" is "graphical" for sketches of histograms alone, and "points"
        otherwise.
    n_synthetic : int, default=100_000
        Number of synthetic points. They are rows drawn from the graphical model, or points with
        weights. The default is the paper's number of points.
    random_state : int, RandomState or None, default=None
        Public randomness: it does not touch the noise. It is for the synthetic points, and for the
        sketcher's map if it has no seed of its own. None draws others at each fit. It does not
        affect the noise.
    ledger : PrivacyLedger, default=None
        Where `fit` charges its cost. *Every fit is a release of its own*, those of a search and of
        a cross-validation too. With None, nothing counts them: only you know which releases share
        a budget.
    verbose : int, default=0
        1 shows progress on the standard error stream. The default is silent, as in scikit-learn.

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

    See Also
    --------
    M2MClassifier : The same for classes.
    M2MEstimator : Answers any question from a sketch.
    TDILRegressor : Learns from the rows themselves, for one target.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseImplicitM2M._parameter_constraints,
        "y_bounds": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        max_rows_per_group: int | str | None = None,
        release: TableSketcher | None = None,
        estimator: Any = None,
        y_bounds: Sequence[float] | None = None,
        inference: str | Points = "auto",
        n_synthetic: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
        verbose: int = 0,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.release = release
        self.estimator = estimator
        self.y_bounds = y_bounds
        self.inference = inference
        self.n_synthetic = n_synthetic
        self.random_state = random_state
        self.ledger = ledger
        self.verbose = verbose

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
        if target not in columns.numbers:
            raise ValueError(
                f"The target, column {columns.name(target)!r} of the sketch, holds no numbers. Set "
                "`target` of from_sketch to the column of the number (None is the last one), or "
                "use M2MClassifier, which learns classes."
            )

    def _observed(self, cells):
        return np.asarray(cells, dtype=np.float64)[:, None]

    def _learnt(self, observed):
        return observed[:, 0]
