"""Labels: what classifiers and regressors make of y, and of the scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from ..schema._listed import class_codes, known_classes
from ..schema._reading import validate_table
from .erm._losses import as_loss, classifier_loss

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClassCoding:
    """Codes of K classes as rows of a (K, q) matrix, and the way back from scores.

    Attributes
    ----------
    classes : ndarray of shape (K,)
    codes : ndarray of shape (K, q)
        -1 and 1 for two classes; else one-hot for `Softmax`, and 1 against -1 for `OneVsRest`.
    """

    classes: NDArray
    codes: Floats

    @property
    def n_scores(self) -> int:
        """q, the number of scores of a row."""
        return self.codes.shape[1]

    def encode(self, y: NDArray) -> Floats:
        """Return the code of each label, shape (n, q)."""
        return self.codes[class_codes(y, self.classes)]

    def decision(self, scores: Floats) -> Floats:
        """Return scikit-learn's decision function: shape (n,) for two classes, else (n, K)."""
        return scores[:, 0] if len(self.classes) == 2 else scores


@dataclass(frozen=True)
class IntervalCoding:
    """Numbers of a public interval, clipped and scaled to [-1, 1]."""

    low: float
    high: float
    n_scores: int = 1

    @property
    def half(self) -> float:
        """Half the length of the interval, in the units of y."""
        return (self.high - self.low) / 2

    def encode(self, y: NDArray) -> Floats:
        """Return each number's place in [-1, 1], shape (n, 1)."""
        clipped = np.clip(y, self.low, self.high)
        return ((clipped - self.low) / self.half - 1)[:, None]

    def decode(self, scores: Floats) -> Floats:
        """Return predictions in the units of y, within the interval, shape (n,)."""
        return self.low + self.half * (np.clip(scores[:, 0], -1, 1) + 1)


def _has_probabilities(self) -> bool:
    return self.loss == "logistic" or getattr(self.loss, "has_probabilities", False)


class ClassifierTarget(ClassifierMixin):
    """Two classes or more, by the scores' margins or by multinomial logistic regression."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "loss": "no_validation",
        "classes": [None, "array-like"],
    }

    loss: Any
    classes: Any
    _coding: Any

    def _check_parameters(self):
        super()._check_parameters()
        classifier_loss(self.loss, 2)  # which checks it

    def _describe_target(self, y):
        with warnings.catch_warnings(action="ignore"):  # of how many rows there are
            check_classification_targets(y)
        known = known_classes(y, self.classes)
        flat = self._chosen_mechanism().pays_for_curvature
        loss = classifier_loss(self.loss, len(known), flat=flat)
        given = "the set of labels in y" if self.classes is None else ""
        return loss, ClassCoding(known, loss.class_codes(len(known))), given

    @property
    def classes_(self):
        """The classes, sorted."""
        return self._coding.classes

    def decision_function(self, X):
        """Return the released scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive, or largest, for the class that is predicted. 1 is the margin.
        """
        scores = self._scores(X)
        return self._coding.decision(scores)

    def predict(self, X):
        """Return the class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return self.classes_[(decision > 0).astype(int)]
        return self.classes_[decision.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Return the logistic model's probabilities, noise in the scores included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.column_stack([expit(-decision), expit(decision)])
        return softmax(decision, axis=1)


class RegressorTarget(RegressorMixin):
    """A number of a public interval."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "loss": "no_validation",
        "y_bounds": "no_validation",
    }
    loss: Any
    y_bounds: Any
    _coding: Any

    def _validate(self, X, y):
        return validate_table(self, X, y, y_numeric=True)

    def _check_parameters(self):
        super()._check_parameters()
        as_loss(self.loss, "regressor")
        self._interval()

    def _interval(self) -> IntervalCoding:
        if self.y_bounds is None:
            raise ValueError("y_bounds is missing: give the public (low, high) of y.")
        try:
            low, high = (float(end) for end in self.y_bounds)
        except (TypeError, ValueError):
            low = high = np.nan
        if not (np.isfinite([low, high, high - low]).all() and low < high):
            raise ValueError(
                f"y_bounds must be a pair of finite numbers low < high, got {self.y_bounds!r}."
            )
        return IntervalCoding(low, high)

    def _describe_target(self, y):
        # A copy, for the user's may get other parameters while a learner answers with its noise.
        return clone(as_loss(self.loss, "regressor")), self._interval(), ""

    def predict(self, X):
        """Return the prediction for each row, within `y_bounds`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self._scores(X)
        return self._coding.decode(scores)
