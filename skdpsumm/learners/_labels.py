"""Labels: what classifiers and regressors make of y, and of the scores."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from .._validation import class_codes, known_classes, validate_table
from .._warn import silence
from .erm._losses import Hinge, Huber, HuberizedHinge, Logistic, Loss, OneVsRest, Softmax

Floats = NDArray[np.float64]

# A residual cannot exceed 2 while predictions stay in [-1, 1], so this is the squared loss there.
_SQUARED = 2.0


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

    @classmethod
    def of(cls, classes: NDArray, loss: Loss) -> ClassCoding:
        """Return the coding of `classes` that `loss` works with."""
        if len(classes) == 2:
            return cls(classes, np.array([[-1.0], [1.0]]))
        one_hot = np.eye(len(classes))
        return cls(classes, one_hot if isinstance(loss, Softmax) else 2 * one_hot - 1)

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


def _is_logistic(self) -> bool:
    return self.loss == "logistic"


class ClassifierTarget(ClassifierMixin):
    """Two classes or more, by the scores' margins or by multinomial logistic regression."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "loss": [StrOptions({"auto", "huberized_hinge", "soft_hinge", "logistic", "hinge"})],
        "huber_width": [None, Interval(Real, 0, None, closed="neither")],
        "soft_margin": [Interval(Real, 0, None, closed="left")],
        "classes": [None, "array-like"],
    }

    @property
    def _default_width(self) -> float:
        # Objective perturbation pays for curvature, which is 1 / (2 h).
        return 1.0 if self._chosen_mechanism().pays_for_curvature else 0.5

    def _describe_target(self, y):
        with silence():  # it may warn of how many rows there are
            check_classification_targets(y)
        known = known_classes(y, self.classes)
        loss = self._make_loss(len(known))
        given = "the set of labels in y" if self.classes is None else ""
        return loss, ClassCoding.of(known, loss), given

    def _loss_name(self, two: bool) -> str:
        if self.loss != "auto":
            return self.loss
        return (
            "soft_hinge"
            if two and self._chosen_mechanism().pays_for_curvature
            else "huberized_hinge"
        )

    def _make_loss(self, n_classes: int) -> Loss:
        two = n_classes == 2
        name = self._loss_name(two)
        if name == "hinge":
            return Hinge() if two else OneVsRest(Hinge(), n_classes)
        if name == "logistic":
            return Logistic() if two else Softmax()
        if name == "soft_hinge":
            margin = float(self.soft_margin)
            return Logistic(margin) if two else Softmax(margin=margin)
        width = self._default_width if self.huber_width is None else float(self.huber_width)
        return HuberizedHinge(width) if two else Softmax(temperature=width, margin=1.0)

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

    @available_if(_is_logistic)
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
        "loss": [StrOptions({"huber", "squared"})],
        "huber_threshold": [Interval(Real, 0, None, closed="neither")],
        "y_bounds": "no_validation",
    }

    def _validate(self, X, y):
        return validate_table(self, X, y, y_numeric=True)

    def _check_parameters(self):
        super()._check_parameters()
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
        threshold = float(self.huber_threshold) if self.loss == "huber" else _SQUARED
        return Huber(threshold), self._interval(), ""

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
