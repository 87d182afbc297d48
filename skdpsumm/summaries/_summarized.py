"""Any estimator, trained on a summary of the rows of many owners."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .._computing import in_a_search, silence, warn_caller
from .._delegation import DelegatingMixin, inner_tags
from .._sklearn import HasMethods, check_params
from ..privacy._fit import PrivacyReprMixin, own_clone
from ..schema._reading import (
    as_sklearn_sees_it,
    beside_X,
    check_same_order,
    for_inner,
    label_array,
    label_cells,
    n_rows_of,
    rows_of,
    unwrap,
)
from ..schema._schema import allowed, as_schema
from ._mmd import RowReader, mmd2
from ._parties import read_label_column
from ._summarizer import PrivateMMDSummarizer

ROUTED_TO_MODEL = ("X_target", "owners", "groups", "target_groups", "X_holdout", "y_holdout")
_NO_ACCURACY = (
    "For an accuracy, give labelled rows of the target's population by name: score(X_holdout=..., "
    "y_holdout=...). score looks at neither X nor y, and has returned minus the MMD between the "
    "chosen rows and the target."
)
_WORDS = (
    "Begin the estimator with a PublicVectorizer, as in make_pipeline(PublicVectorizer(schema), "
    "{0}()), or give the estimator the schema where it takes one: the chosen rows hold words, and "
    "{0} takes numbers only."
)
_PAID = " The rows are chosen and paid for: `summarizer_` has them, so train on these by hand."
_TRAINED_ON_ROWS = "the model was trained on real rows of the owners, which it may reveal"


def _schema(summarizer: Any) -> Any:
    return getattr(summarizer, "schema", None)


def _takes_numbers_only(estimator: Any) -> bool:
    """Return whether a model is known to refuse words; of most, `fit` alone tells."""
    takes = inner_tags(estimator).input_tags
    known = ("sklearn.linear_model.", "sklearn.svm.", "sklearn.tree.", "skdpsumm.learners.")
    return type(estimator).__module__.startswith(known) and not (takes.string or takes.categorical)


def _has_words(schema: Any) -> bool:
    """Return whether a schema lists words; names that have no letter may be numbers."""
    columns = () if schema is None else as_schema(schema).columns
    values = [value for column in columns for value in getattr(column, "categories", ())]
    return any(isinstance(value, str) and any(map(str.isalpha, value)) for value in values)


def _holdout_pair(X: Any, y: Any, schema: Any, like: Any = None) -> tuple[Any, Any] | None:
    """Return held-out rows, with columns as in `like`, and their labels; None if there are none."""
    if (X is None) != (y is None):
        raise ValueError("X_holdout and y_holdout belong together; give both or neither.")
    if X is None:
        return None
    X, y = unwrap(X), unwrap(y)
    reader = RowReader(schema)
    with beside_X("X_holdout", X):
        reader.read(X)
    n_columns = reader.n_features_in_
    check_consistent_length(X, y)
    if like is None:
        return X, y
    wanted = np.shape(as_sklearn_sees_it(like))[1:]
    if wanted != (n_columns,):
        raise ValueError(
            f"X_holdout has {n_columns} columns, but X has {sum(wanted)}; give rows of the same "
            "table."
        )
    check_same_order("X_holdout", X, like)  # the estimator reads its columns by position
    return X, y


def _labels_of(y: Any, chosen: Any) -> Any:
    """Return the labels of the chosen rows; others have no say in their dtype."""
    with silence():  # the summarizer has warned of a table with one column
        return label_array(read_label_column(label_cells(unwrap(y))[chosen]).tolist())


def _of_rows(value: Any, X: Any, chosen: Any) -> Any:
    """Return a parameter of `fit`: one with an entry for each row of X has those of the chosen."""
    is_column = hasattr(value, "__len__") or hasattr(value, "shape")
    if (
        not is_column
        or isinstance(value, str | bytes | dict)
        or np.shape(value)[:1] != (n_rows_of(X),)
    ):
        return value
    return rows_of(value, chosen)


def _distance(summarizer: PrivateMMDSummarizer, rows: Any, target: Any) -> float:
    """Return the MMD between rows and the target, or every k-th row of a large one."""
    tables = [summarizer.vectors(X) for X in (rows, target)]
    # All pairs are compared, so up to 10,000 rows of the target are taken into account.
    step = -(-len(tables[1]) // 10_000)
    return math.sqrt(mmd2(tables[0], tables[1][::step], gamma=summarizer.gamma_))


class SummarizedEstimator(DelegatingMixin, PrivacyReprMixin, MetaEstimatorMixin, BaseEstimator):
    """Select rows of many owners that match a target, and train an estimator on them.

    Set and search the parameters of both parts, such as ``summarizer__epsilon`` and
    ``estimator__C``: the summarizer is fitted inside `fit`.

    Parameters
    ----------
    estimator : estimator
        Trained on the chosen rows and their labels. Begin it with a `PublicVectorizer` where rows
        hold words or missing values, since it gets the chosen rows as they are.
    summarizer : PrivateMMDSummarizer
        Give it a schema, or a number as gamma.

    Attributes
    ----------
    summarizer_ : PrivateMMDSummarizer
    estimator_ : estimator
    mmd_ : float
        Exact MMD of the chosen rows to the target (to at most 10,000 rows of it), for the curator
        alone. It is of rows, also where groups are protected.
    privacy_ : SummaryPrivacy
        The summarizer's guarantees, which also say that the model was trained on real rows.
    classes_ : ndarray, for classifiers
        The classes among the chosen rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has column names.

    Notes
    -----
    To get an accuracy, give `score` or `fit` labelled rows of the target (``X_holdout``,
    ``y_holdout``, which metadata routing brings). ``score(X_test, y_test)`` *is no accuracy*: in a
    search, X and y are held-out rows of the *owners*, on whose distribution the model is not meant
    to be good, so `score` looks at neither. Without labelled rows of the target it returns minus
    the MMD between chosen rows and target. Both are exact, no releases.

    Behind transformers, make a ``Pipeline(transform_input=["X_target", "X_holdout"])`` under
    ``sklearn.set_config(enable_metadata_routing=True)``, which transforms both (what is routed to
    `score` would not be). In a search, wrap them in `Public`. Holds private data once fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpsumm import PrivateMMDSummarizer, SummarizedEstimator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = SummarizedEstimator(
    ...     LogisticRegression(), PrivateMMDSummarizer(n_select=50, gamma=0.5, random_state=0))
    >>> model = model.fit(X, y, X_target=rng.normal(size=(300, 2)), owners=np.arange(600) % 3)
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    >>> test = rng.normal(size=(100, 2))  # of the target's population
    >>> model.score(X_holdout=test, y_holdout=test[:, 0] > 0) > 0.8
    True

    See Also
    --------
    PrivateMMDSummarizer : The choice of rows by itself.
    PublicVectorizer : Makes vectors of rows with words and gaps, for the learner.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = dict.fromkeys(ROUTED_TO_MODEL, True)
    __metadata_request__score: ClassVar[dict[str, bool]] = dict.fromkeys(
        ROUTED_TO_MODEL[-2:], False
    )

    _inner = "estimator_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"])],
        "summarizer": [HasMethods(["fit_resample"])],
    }

    def __init__(self, estimator: Any, summarizer: Any):
        self.estimator = estimator
        self.summarizer = summarizer

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_target: Any = None,
        owners: Any = None,
        groups: Any = None,
        target_groups: Any = None,
        X_holdout: Any = None,
        y_holdout: Any = None,
        **params: Any,
    ) -> Self:
        """Choose rows and train on them.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of all owners.
        y : array-like of shape (n_samples,), default=None
            Their labels. None serves estimators that need none.
        X_target, owners, groups, target_groups : as in `PrivateMMDSummarizer.fit`
        X_holdout, y_holdout : array-like or `Public`, default=None
            Labelled rows of the target's population, kept for `score`. None, as you may give them
            to `score` instead, or have none.
        **params
            For the estimator's `fit`. What has one entry per row is cut to the chosen rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError, BudgetExceededError
            As `PrivateMMDSummarizer.fit`, and as the estimator's `fit`, by when the ledger is
            charged.
        """
        check_params(self)
        estimator = clone(self.estimator)  # which complains of a class, before anything is paid for
        if y is None and get_tags(estimator).target_tags.required:
            name = type(self.estimator).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        if _has_words(_schema(self.summarizer)) and _takes_numbers_only(estimator):
            raise ValueError(_WORDS.format(type(estimator).__name__))
        holdout = _holdout_pair(X_holdout, y_holdout, _schema(self.summarizer), X)
        if get_config()["enable_metadata_routing"]:
            params = process_routing(self, "fit", **params).estimator.fit
        X, y = indexable(X, y)
        # Not by `clone`, or the ledger would take this fit for a trial of a search.
        summarizer = own_clone(self.summarizer)
        try:
            whose = {"owners": owners, "groups": groups, "target_groups": target_groups}
            summarizer.fit(X, y, X_target=X_target, **whose)
        finally:
            if hasattr(summarizer, "privacy_"):  # what is paid for is kept, whatever comes now
                self.summarizer_ = summarizer
                for name in ("estimator_", "mmd_", "_holdout"):  # of the fit before
                    self.__dict__.pop(name, None)
        chosen = summarizer.sample_indices_
        rows = rows_of(X, chosen)
        labels = None if y is None else _labels_of(y, chosen)
        params = {name: _of_rows(value, X, chosen) for name, value in params.items()}
        try:
            estimator.fit(for_inner(rows, summarizer), labels, **params)
        except ValueError as error:
            if "could not convert string" in str(error):  # and then the string, which is private
                raise ValueError(_WORDS.format(type(estimator).__name__) + _PAID) from None
            raise
        target = X if X_target is None else unwrap(X_target)
        self.mmd_ = _distance(summarizer, rows, target)
        self.estimator_, self._holdout = estimator, holdout
        return self

    def score(
        self,
        X: Any = None,
        y: Any = None,
        *,
        X_holdout: Any = None,
        y_holdout: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return how good the model is for the target, never for the owners' rows.

        Parameters
        ----------
        X, y : array-like
            Rows of the owners, which is what a search holds out. X is checked, and neither is used.
        X_holdout : array-like or `Public`, default=None
            Rows of the target's population that had no part in `fit`. None takes those that you
            gave to `fit`, so that a search can score with them.
        y_holdout : array-like or `Public`, default=None
            Their labels. None takes those that you gave to `fit`, as for X_holdout.
        sample_weight : array-like, default=None
            Weights of the rows of X_holdout. None counts each row once. (A search that routes
            weights cuts them to its own folds, which are of other rows.)

        Returns
        -------
        float
            The estimator's own score on the held-out rows; without any, minus `mmd_`, and a
            UserWarning where labels were given, as if for an accuracy.
        """
        check_is_fitted(self, "estimator_")
        if X is not None:
            self.summarizer_.vectors(X)
        schema = _schema(self.summarizer_)
        holdout = _holdout_pair(X_holdout, y_holdout, schema) or self._holdout
        if holdout is None:
            if y is not None and not in_a_search():
                warn_caller(_NO_ACCURACY, UserWarning)
            return -self.mmd_
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        rows = for_inner(holdout[0], self.summarizer_)
        return self.estimator_.score(rows, holdout[1], **weights)

    @property
    def privacy_(self) -> Any:
        """The summarizer's guarantees, and that the model was trained on real rows."""
        check_is_fitted(self, "summarizer_")
        return replace(self.summarizer_.privacy_, use=_TRAINED_ON_ROWS)

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen by `fit`."""
        return self.summarizer_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray:
        """Names of the columns, where X had any."""
        return self.summarizer_.feature_names_in_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of `X_target`, `owners` and the rest to where they belong."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=mapping)
        )

    @property
    def holds_private_data(self) -> bool:
        """True once fitted: which rows were chosen, and how well they match, is private."""
        return hasattr(self, "summarizer_")

    def _inner_input(self, X: Any) -> Any:
        return for_inner(X, self.summarizer_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if tags.regressor_tags is not None:  # `score` is no R^2 of the owners' rows
            tags.regressor_tags = replace(tags.regressor_tags, poor_score=True)
        tags.target_tags = replace(tags.target_tags, multi_output=False)  # one label for a row
        tags.input_tags.string, tags.input_tags.allow_nan = allowed(_schema(self.summarizer))
        tags.non_deterministic = inner_tags(self.summarizer).non_deterministic
        return tags
