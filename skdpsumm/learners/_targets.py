"""Classes and numbers: what a learner makes of y, and of its scores."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from ..privacy import PrivacyLedger
from ..schema._schema import SchemaLike
from ..schema._values import class_codes, known_classes, public_interval
from ._base import BaseKernelLearner
from .erm._kernel_space import PolynomialKernel
from .erm._losses import Floats, Loss, as_loss, classifier_loss
from .mechanisms._base import LearnerMechanism


@dataclass(frozen=True)
class ClassCoding:
    """Codes of K classes as rows of a (K, q) matrix, and the way back from scores.

    Attributes
    ----------
    classes : ndarray of shape (K,)
    codes : ndarray of shape (K, q)
        -1 and 1 for two classes; else one-hot for `Softmax`, and 1 against -1 for `OneVsRest`.
    has_probabilities : bool
        Whether scores are those of a logistic model.
    """

    classes: NDArray
    codes: Floats
    has_probabilities: bool
    half: ClassVar[float] = 1.0
    unit: ClassVar[str] = "score"

    @property
    def n_scores(self) -> int:
        """q, the number of scores of a row."""
        return self.codes.shape[1]

    def encode(self, y: NDArray) -> Floats:
        """Return the code of each label, shape (n, q)."""
        return self.codes[class_codes(y, self.classes)]


@dataclass(frozen=True)
class IntervalCoding:
    """Numbers of a public interval, clipped and scaled to [-1, 1].

    A score s stands for the number at ``centre + scale * s`` there.
    """

    low: float
    high: float
    centre: float = 0.0
    scale: float = 1.0
    n_scores: int = 1
    codes: ClassVar[Floats] = np.linspace(-1.0, 1.0, 9)[:, None]
    unit: ClassVar[str] = "prediction"

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
        codes = self.centre + self.scale * scores[:, 0]
        return self.low + self.half * (np.clip(codes, -1, 1) + 1)


def _has_probabilities(self) -> bool:
    is_fitted = hasattr(self, "privacy_")  # whatever becomes of parameters
    if not (self._coding.has_probabilities if is_fitted else self._says_probabilities):
        raise AttributeError(
            "For probabilities, set loss='logistic' before you fit: this loss has scores only, see "
            "decision_function. (loss='auto' is logistic with mechanism='gradient'.)"
        )
    return True


class ClassifierTarget(ClassifierMixin, BaseKernelLearner):
    """Two classes or more, by the scores' margins or by multinomial logistic regression."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKernelLearner._parameter_constraints,
        "loss": "no_validation",
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        kernel: str | PolynomialKernel | BaseEstimator = "auto",
        gamma: float | str = "auto",
        norm_bound: float | None = None,
        loss: Loss | str = "auto",
        classes: ArrayLike | None = None,
        regularization: float | str = "auto",
        mechanism: LearnerMechanism | str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.kernel = kernel
        self.gamma = gamma
        self.norm_bound = norm_bound
        self.loss = loss
        self.classes = classes
        self.regularization = regularization
        self.mechanism = mechanism
        self.random_state = random_state
        self.ledger = ledger

    def _check_parameters(self):
        super()._check_parameters()
        classifier_loss(self._loss(2), 2)  # which checks it

    @property
    def _says_probabilities(self) -> bool:
        loss = self._loss(2)
        return loss == "logistic" or getattr(loss, "has_probabilities", False)

    def _loss(self, n_classes: int) -> Any:
        """Return the loss that was given, or that the mechanism takes where none was."""
        if not (isinstance(self.loss, str) and self.loss == "auto"):
            return self.loss
        is_auto = isinstance(self.mechanism, str) and self.mechanism == "auto"
        if is_auto and self._kind != "PINP" and self.delta > 0:
            return "logistic"  # at any epsilon, so that there are probabilities at all or at none
        return self._chosen_mechanism().default_losses[n_classes > 2]

    def _describe_target(self, y):
        with warnings.catch_warnings(action="ignore"):  # of how many rows there are
            check_classification_targets(y)
        known = known_classes(y, self.classes)
        flat = self._chosen_mechanism().pays_for_curvature
        loss = classifier_loss(self._loss(len(known)), len(known), flat=flat)
        if isinstance(self.loss, str) and self.loss == "auto":
            loss = loss.relaxed(self.epsilon)
        given = "the set of labels in y" if self.classes is None else ""
        codes = loss.class_codes(len(known))
        return loss, ClassCoding(known, codes, self._says_probabilities), given

    def _public_target(self):
        return np.array([0, 1]) if self.classes is None else np.asarray(self.classes)

    @property
    def classes_(self) -> NDArray:
        """The classes, sorted."""
        return self._coding.classes

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the released scores.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            The predicted class has a positive score, or the largest one. 1 is the margin.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray:
        """Return the class of each row.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

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
        """Return the probabilities of the logistic model, with the noise that is in its scores.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.column_stack([expit(-decision), expit(decision)])
        return softmax(decision, axis=1)


class RegressorTarget(RegressorMixin, BaseKernelLearner):
    """A number of a public interval."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseKernelLearner._parameter_constraints,
        "loss": "no_validation",
        "y_bounds": "no_validation",
    }

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "add_remove",
        max_rows_per_group: int | str | None = None,
        kernel: str | PolynomialKernel | BaseEstimator = "auto",
        gamma: float | str = "auto",
        norm_bound: float | None = None,
        loss: Loss | str = "huber",
        y_bounds: Sequence[float] | None = None,
        regularization: float | str = "auto",
        mechanism: LearnerMechanism | str = "auto",
        random_state: int | np.random.RandomState | None = None,
        ledger: PrivacyLedger | None = None,
    ):
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.max_rows_per_group = max_rows_per_group
        self.kernel = kernel
        self.gamma = gamma
        self.norm_bound = norm_bound
        self.loss = loss
        self.y_bounds = y_bounds
        self.regularization = regularization
        self.mechanism = mechanism
        self.random_state = random_state
        self.ledger = ledger

    def _check_parameters(self):
        super()._check_parameters()
        as_loss(self.loss, "regressor")
        self._interval()

    def _interval(self) -> IntervalCoding:
        if self.y_bounds is None:
            raise ValueError("y_bounds is missing: give the public (low, high) of y.")
        return IntervalCoding(*public_interval("y_bounds", self.y_bounds))

    def _publish(self, draft):
        super()._publish(draft)
        plan = draft.plan
        self._coding = replace(self._coding, centre=plan.y_centre, scale=plan.y_scale)

    def _describe_target(self, y):
        # A copy, for the user's may get other parameters while a learner answers with its noise.
        return clone(as_loss(self.loss, "regressor")), self._interval(), ""

    def _public_target(self):
        return np.array(self._interval().low)

    def predict(self, X: Any) -> NDArray:
        """Return the prediction for each row, within `y_bounds`.

        Parameters
        ----------
        X : {array-like, frame, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self._scores(X)  # which raises where nothing is fitted
        return self._coding.decode(scores)
