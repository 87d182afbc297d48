"""The methods of an estimator inside another one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


def inner_tags(estimator: Any) -> Tags:
    """Return the tags of an inner estimator; of what is none, such as a class, those of any.

    Tags are asked of what is only shown, too, and it is `fit` that says what is wrong.
    """
    with suppress(AttributeError, TypeError):
        return get_tags(estimator)
    return get_tags(BaseEstimator())


def inner_has(method: str) -> Callable[[Any], bool]:
    """Return a check that the inner estimator has a method, for `available_if`."""

    def check(self: DelegatingMixin) -> bool:
        # Before a fit of the parameter, then of what was fitted; the AttributeError is its own.
        fitted = hasattr(self, self._inner)
        getattr(getattr(self, self._inner) if fitted else self._unfitted, method)
        return True

    return check


class DelegatingMixin:
    """Predict by a fitted inner estimator, which `fit` made from the parameter `estimator`."""

    _inner: ClassVar[str]
    estimator: Any

    @property
    def _unfitted(self) -> Any:
        """The estimator as `fit` would set it."""
        return self.estimator

    def _inner_input(self, X: Any) -> Any:
        """Return what the inner estimator gets in place of X."""
        return X

    @available_if(inner_has("predict"))
    def predict(self, X: Any) -> Any:
        """Return the fitted estimator's prediction for each row of X."""
        return self._call("predict", X)

    @available_if(inner_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the fitted estimator's probability of each class, for each row of X."""
        return self._call("predict_proba", X)

    @available_if(inner_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`."""
        return self._call("predict_log_proba", X)

    @available_if(inner_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the fitted estimator's decision function for each row of X."""
        return self._call("decision_function", X)

    @available_if(inner_has("transform"))
    def transform(self, X: Any) -> Any:
        """Return the fitted estimator's transform of X."""
        return self._call("transform", X)

    @property
    def classes_(self) -> Any:
        """The classes of the fitted estimator."""
        check_is_fitted(self, self._inner)
        return getattr(self, self._inner).classes_

    def _call(self, method: str, X: Any) -> Any:
        check_is_fitted(self, self._inner)
        return getattr(getattr(self, self._inner), method)(self._inner_input(X))
