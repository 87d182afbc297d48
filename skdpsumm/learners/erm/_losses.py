"""Convex losses of the scores of one row, with the constants that a sensitivity needs.

A row has q scores f in R^q and a code, which says what its label asks of them. Every loss knows
L, a bound on the Euclidean norm of its gradient in f over *all* scores and codes, and beta, a
bound on the largest eigenvalue of its Hessian.

The losses of a margin and of a residual are public: they are the parameter `loss` of learners.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, logsumexp, softmax
from sklearn.base import BaseEstimator

from ..._computing import Floats
from ..._html import ListedMixin
from ..._sklearn import Interval, check_params

# A Huberised hinge that is narrower than this is minimised by way of wider ones, each eight times
# as wide as the next.
_FIRST_WIDTH = 0.5
# Up to this epsilon noise decides on defaults: losses are steep at small scores. From there on they
# near what is best without noise: the logistic loss, or a parabola of this width (AUC with a kernel
# on 2,500 rows of ACS income: 0.855, and 0.849 for a width of 0.5).
_NOISY, _LAST_WIDTH = 10.0, 2.0


class Loss(ListedMixin, BaseEstimator, ABC):
    """A convex loss of the scores of a row.

    Attributes
    ----------
    lipschitz : float
        L, the largest norm of the gradient.
    smoothness : float
        beta, the largest eigenvalue of the Hessian.
    clip_part : float
        The least part of L to which gradient descent clips slopes.
    noise_part : float
        Standard deviation of the noise on a score, which the default of Lambda aims at.
    least_regularization : float
        In units of R^2: the default of Lambda is no less, however large the budget. Vectors of a
        schema are short, 1 / sqrt(n_columns) an entry, and penalised all the more, so these are
        about what 1 is for standardised columns, which is scikit-learn's default.
    one_sided : bool
        Whether all gradients of a row are multiples, from 0 to L, of one direction.
    margin : float
        What is added to differences of scores.
    n_additions : int
        Additions of scores and margins of which the argument of a slope is made.
    has_probabilities : bool
        Whether scores are those of a logistic model.
    """

    noise_part: float
    clip_part: float = 0.5
    least_regularization: float = 0.01
    one_sided: bool = False
    margin: float = 0.0
    n_additions: int = 1
    has_probabilities: bool = False

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """L, the largest slope."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Beta, the largest curvature."""

    @abstractmethod
    def value(self, scores: Floats, codes: Floats) -> Floats:
        """Return the loss of each row, shape (n,), for scores and codes of shape (n, q)."""

    @abstractmethod
    def gradient(self, scores: Floats, codes: Floats) -> Floats:
        """Return the gradient in the scores, shape (n, q)."""

    @abstractmethod
    def hessian_root(self, scores: Floats, codes: Floats) -> Floats:
        """Return B with Hessian B B^T for each row, shape (n, q, r); r is the rank."""

    def corners(self, n_scores: int) -> dict[str, Any]:
        """Return what objective perturbation asks of a loss, as parameters of `calibrate`.

        Returns
        -------
        dict
            "corners" of the gradients, the "rank" of the Hessian in the scores, and "smoothness",
            its largest trace over the rank.

        Raises
        ------
        ValueError
            If objective perturbation cannot use the loss.
        """
        raise ValueError(
            f"mechanism='objective' needs a smooth loss, and {type(self).__name__} has a kink; "
            "take loss='soft_hinge', 'huberized_hinge' or 'logistic'."
        )

    def class_codes(self, n_classes: int) -> Floats:
        """Return the codes of classes, shape (n_classes, q): those of the largest score."""
        return np.eye(n_classes)

    def relaxed(self, epsilon: float) -> Loss:
        """Return the loss that ``loss="auto"`` uses in its place at this epsilon.

        At a small epsilon, where noise decides, it is the loss itself. It goes to one that uses all
        rows as epsilon grows.
        """
        return self

    def narrowing(self) -> Iterator[tuple[Loss, Loss, float]]:
        """Yield losses that are easier to minimise, what predicts the next minimum, and widths.

        Losses that Newton's method minimises from anywhere have none.
        """
        return iter(())


class MarginLoss(Loss):
    """A decreasing loss of the margin <code, scores>; codes are -1 and +1, or unit vectors."""

    noise_part = 0.5
    one_sided = True

    @abstractmethod
    def for_classes(self, n_classes: int, *, flat: bool = False) -> Loss:
        """Return the loss for so many classes: multinomial, where there are more than two.

        Parameters
        ----------
        n_classes : int
        flat : bool, default=False
            Whether curvature costs privacy, so that a default should have less of it.
        """

    @abstractmethod
    def _value(self, margin: Floats) -> Floats: ...

    @abstractmethod
    def _slope(self, margin: Floats) -> Floats: ...

    @abstractmethod
    def _curvature(self, margin: Floats) -> Floats: ...

    def value(self, scores: Floats, codes: Floats) -> Floats:
        return self._value(_margin(scores, codes))

    def gradient(self, scores: Floats, codes: Floats) -> Floats:
        return self._slope(_margin(scores, codes))[:, None] * codes

    def hessian_root(self, scores: Floats, codes: Floats) -> Floats:
        return (np.sqrt(self._curvature(_margin(scores, codes)))[:, None] * codes)[:, :, None]

    def corners(self, n_scores: int) -> dict[str, Any]:
        return {"corners": 1, "rank": 1, "smoothness": self.smoothness}

    def class_codes(self, n_classes: int) -> Floats:
        return np.array([[-1.0], [1.0]])


def _margin(scores: Floats, codes: Floats) -> Floats:
    return np.einsum("nq,nq->n", scores, codes)


class SoftHinge(MarginLoss):
    """A hinge without corners, ``log(1 + exp(m - margin))``.

    Its slope is at most 1. Where the slope is near 1, the curvature is near 0. With more than two
    classes it is the multinomial logistic loss with a margin.

    Parameters
    ----------
    margin : float, default=3.0
        m. The slope at score 0 is -0.95 for 3, and -0.5 for 0, which is the logistic loss. The
        default was the best at 2,000 to 40,000 rows of synthetic tables (docs/learners.md).

    Raises
    ------
    InvalidParameterError
        When a learner is fitted, if `margin` is negative.

    Examples
    --------
    >>> from skdpsumm.learners import SoftHinge, TDILClassifier
    >>> model = TDILClassifier(loss=SoftHinge(margin=2.0))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "margin": [Interval(Real, 0, None, closed="left")]
    }
    lipschitz, smoothness = 1.0, 0.25

    def __init__(self, margin: float = 3.0):
        self.margin = margin

    def for_classes(self, n_classes: int, *, flat: bool = False) -> Loss:
        margin = float(self.margin)
        return SoftHinge(margin) if n_classes == 2 else Softmax(margin=margin)

    def relaxed(self, epsilon: float) -> Loss:
        return SoftHinge(_relaxed(self.margin, 0.0, epsilon))

    def _value(self, margin: Floats) -> Floats:
        return np.logaddexp(0.0, self.margin - margin)

    def _slope(self, margin: Floats) -> Floats:
        return -expit(self.margin - margin)

    def _curvature(self, margin: Floats) -> Floats:
        return expit(margin - self.margin) * expit(self.margin - margin)


class Logistic(SoftHinge):
    """The logistic loss, ``log(1 + exp(-margin))``: scores are log odds.

    With more than two classes it is the multinomial logistic loss. Learners then have
    `predict_proba`.

    Examples
    --------
    >>> from skdpsumm.learners import TDILClassifier
    >>> from skdpsumm.learners.erm._losses import Logistic
    >>> model = TDILClassifier(loss=Logistic())
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    margin = 0.0
    has_probabilities = True

    def __init__(self):
        pass

    def relaxed(self, epsilon: float) -> Loss:
        return self


class HuberizedHinge(MarginLoss):
    """The hinge ``max(0, 1 - margin)``, with a parabola in place of its corner.

    It has the most signal per unit of noise: its slope is 1 at small scores, where the logistic
    loss has half of that. With more than two classes it is a softmax in place of a maximum.

    Parameters
    ----------
    width : float, default=None
        Width of the smooth part: margins from ``1 - width`` to ``1 + width`` are on the parabola
        (with more than two classes: the temperature of the softmax). Smaller values are closer to
        the hinge. None takes 0.5, the narrowest that the solver minimises without a detour by wider
        ones. For "objective" it takes 1, because curvature costs privacy there.

    Raises
    ------
    InvalidParameterError
        When a learner is fitted, if `width` is not positive.

    References
    ----------
    .. [1] Chaudhuri, Monteleoni and Sarwate (2011), "Differentially private empirical risk
       minimization", JMLR 12, equation 7.

    Examples
    --------
    >>> from skdpsumm.learners import HuberizedHinge, TDILClassifier
    >>> model = TDILClassifier(loss=HuberizedHinge(width=0.25))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "width": [None, Interval(Real, 0, None, closed="neither")]
    }
    lipschitz = 1.0
    width: float | None

    def __init__(self, width: float | None = None):
        self.width = width

    @property
    def h(self) -> float:
        """The width in use."""
        return _FIRST_WIDTH if self.width is None else self.width

    @property
    def smoothness(self) -> float:
        """beta, the curvature of the parabola."""
        return 1 / (2 * self.h)

    def for_classes(self, n_classes: int, *, flat: bool = False) -> Loss:
        width = (1.0 if flat else 0.5) if self.width is None else float(self.width)
        if n_classes == 2:
            return HuberizedHinge(width)
        return Softmax(temperature=width, margin=1.0)

    def relaxed(self, epsilon: float) -> Loss:
        return HuberizedHinge(_relaxed(self.h, _LAST_WIDTH, epsilon))

    def _value(self, margin: Floats) -> Floats:
        return self.of_gap(1 - margin)

    def _slope(self, margin: Floats) -> Floats:
        return -self.rise(1 - margin)

    def _curvature(self, margin: Floats) -> Floats:
        return self.bend(1 - margin)

    def of_gap(self, gap: Floats) -> Floats:
        """Return about ``max(0, gap)``."""
        inside = (gap + self.h) ** 2 / (4 * self.h)
        return np.where(gap > self.h, gap, np.where(gap < -self.h, 0.0, inside))

    def rise(self, gap: Floats) -> Floats:
        """Return the derivative of `of_gap`, from 0 to 1."""
        return np.clip((gap + self.h) / (2 * self.h), 0.0, 1.0)

    def bend(self, gap: Floats) -> Floats:
        """Return the second derivative of `of_gap`."""
        return np.where(np.abs(gap) <= self.h, self.smoothness, 0.0)

    def narrowing(self) -> Iterator[tuple[Loss, Loss, float]]:
        width = _FIRST_WIDTH
        while width > self.h:
            narrower = max(width / 8, self.h)
            yield HuberizedHinge(width), _Frozen(width, narrower), width
            width = narrower


class _Frozen(HuberizedHinge):
    """The parabola of a width, but for all margins inside the width before.

    One Newton step for it predicts the next minimum: as if the same rows were to lie on the
    parabola. Without it, most rows of the band leave it when it narrows, and Newton's method
    spends its steps on finding them again (measured: five times as many).
    """

    def __init__(self, before: float, width: float):
        super().__init__(width)
        self.before = before

    def rise(self, gap: Floats) -> Floats:
        inside = (gap + self.h) / (2 * self.h)
        return np.where(np.abs(gap) <= self.before, inside, (gap > 0).astype(np.float64))

    def bend(self, gap: Floats) -> Floats:
        return np.where(np.abs(gap) <= self.before, self.smoothness, 0.0)


class Hinge(HuberizedHinge):
    """The hinge ``max(0, 1 - margin)``, with its corner rounded for margins from 0.999 to 1.001.

    It is larger by 0.00025 at most. A corner has no curvature, and no solver would be sure to come
    close to its minimum; rounded off it is a loss like all others, and L is the same. It is for two
    classes.

    Examples
    --------
    >>> from skdpsumm.learners import TDILClassifier
    >>> from skdpsumm.learners.erm._losses import Hinge
    >>> model = TDILClassifier(loss=Hinge())
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    width = 1e-3

    def __init__(self):
        pass

    def for_classes(self, n_classes: int, *, flat: bool = False) -> Loss:
        if n_classes == 2:
            return Hinge()
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"loss='hinge' is for two classes, and there are {n_classes}. Take "
            "loss='huberized_hinge', the hinge of several classes without corners."
        )

    def corners(self, n_scores: int) -> dict[str, Any]:
        # Its curvature is so large that no noise would cover it.
        return Loss.corners(self, n_scores)


class Softmax(Loss):
    """``t log sum_k exp((m [k != y] + f_k - f_y) / t)``; codes are one-hot, one per class.

    Multinomial logistic regression for t = 1 and m = 0, and a smooth version of Crammer and
    Singer's hinge ``max_k (m [k != y] + f_k - f_y)`` for small t. The gradient is p - e_y for
    probabilities p, so L = sqrt 2 for any number of classes; beta = 1 / (2t).

    Parameters
    ----------
    temperature : float, default=1.0
        t.
    margin : float, default=0.0
        m.
    """

    lipschitz = math.sqrt(2)
    noise_part = 0.25
    least_regularization = 0.02
    n_additions = 4

    def __init__(self, temperature: float = 1.0, margin: float = 0.0):
        self.temperature, self.margin = temperature, margin

    @property
    def smoothness(self) -> float:
        """Beta, the largest curvature."""
        return 1 / (2 * self.temperature)

    def _logits(self, scores: Floats, codes: Floats) -> Floats:
        return (scores + self.margin * (1 - codes)) / self.temperature

    def value(self, scores: Floats, codes: Floats) -> Floats:
        total = self.temperature * logsumexp(self._logits(scores, codes), axis=1)
        return total - _margin(scores, codes)

    def gradient(self, scores: Floats, codes: Floats) -> Floats:
        return softmax(self._logits(scores, codes), axis=1) - codes

    def hessian_root(self, scores: Floats, codes: Floats) -> Floats:
        # (diag sqrt(p) - p sqrt(p)^T) times its transpose is diag(p) - p p^T.
        p = softmax(self._logits(scores, codes), axis=1)
        root = -p[:, :, None] * np.sqrt(p)[:, None, :]
        index = np.arange(p.shape[1])
        root[:, index, index] += np.sqrt(p)
        return root / math.sqrt(self.temperature)

    def corners(self, n_scores: int) -> dict[str, Any]:
        # The trace is (1 - sum of p^2) / t, at most (1 - 1/K) / t for K classes.
        mean = 1 / (n_scores * self.temperature)
        return {"corners": n_scores - 1, "rank": n_scores - 1, "smoothness": mean}


class ResidualLoss(Loss):
    """A loss of the residual of a number: the score less y, in the units of a `Plan`'s scale."""

    noise_part = 0.1
    clip_part = 1.0

    def corners(self, n_scores: int) -> dict[str, Any]:
        # Slopes are from -L to L, whatever y is.
        return {"corners": 2, "rank": 1, "smoothness": self.smoothness}


class Huber(ResidualLoss):
    """Huber's loss of a residual r: ``r^2 / 2``, and linear beyond a threshold.

    Residuals are in halves of the interval `y_bounds`, or in the smaller units in which
    `GradientDescent` counts numbers.

    Parameters
    ----------
    threshold : float, default=0.25
        Residual from which the loss is linear, in halves of the interval. Smaller values need less
        noise. The default was better than 0.5 and 1 (docs/learners.md).

    Raises
    ------
    InvalidParameterError
        When a learner is fitted, if `threshold` is not positive.

    Examples
    --------
    >>> from skdpsumm.learners import Huber, TDILRegressor
    >>> model = TDILRegressor(loss=Huber(threshold=0.5), y_bounds=(0, 10))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "threshold": [Interval(Real, 0, None, closed="neither")]
    }
    smoothness = 1.0
    least_regularization = 0.2
    threshold: float

    def __init__(self, threshold: float = 0.25):
        self.threshold = threshold

    @property
    def lipschitz(self) -> float:
        """L, the threshold."""
        return float(self.threshold)

    def value(self, scores: Floats, codes: Floats) -> Floats:
        size = np.abs(scores - codes)[:, 0]
        t = self.lipschitz
        return np.where(size <= t, size**2 / 2, t * (size - t / 2))

    def gradient(self, scores: Floats, codes: Floats) -> Floats:
        return np.clip(scores - codes, -self.lipschitz, self.lipschitz)

    def hessian_root(self, scores: Floats, codes: Floats) -> Floats:
        return (np.abs(scores - codes) <= self.lipschitz).astype(np.float64)[:, :, None]


class Squared(Huber):
    """The squared loss, with residuals clipped at the length of the interval `y_bounds`.

    A residual cannot exceed that while predictions stay in the interval. The plain squared loss has
    no finite sensitivity where the number of rows is private.

    Examples
    --------
    >>> from skdpsumm.learners import TDILRegressor
    >>> from skdpsumm.learners.erm._losses import Squared
    >>> model = TDILRegressor(loss=Squared(), y_bounds=(0, 10))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    threshold = 2.0  # halves of the interval

    def __init__(self):
        pass


class EpsilonInsensitive(ResidualLoss):
    """The loss of support vector regression, ``max(0, |r| - width)``, of a residual r.

    Predictions that are no farther than `width` from y are as good as exact ones. (scikit-learn's
    `SVR` calls the width epsilon, which is a matter of privacy here.) A parabola rounds both ends
    of the tube, where the slope would jump. Residuals are in halves of the interval `y_bounds`.

    Parameters
    ----------
    width : float, default=0.1
        Residual from which a prediction costs anything: at least 0, and less than 1. The default is
        that of `SVR`. 0.05 was about the same in docs/learners.md, and 0.2 was worse.
    smoothing : float, default=0.05
        Residuals from ``width - smoothing`` to ``width + smoothing`` are on a parabola, which is
        larger by a quarter of `smoothing` at most. Smaller values are closer to support vector
        regression. The default is the smallest for which ``mechanism="auto"`` takes "gradient":
        below it the steps of gradient descent get short, and "auto" takes "functional". The slope
        is never more than 1, so the noise in what is released does not depend on `smoothing`.

    Raises
    ------
    InvalidParameterError
        When a learner is fitted, if a parameter is out of range.

    References
    ----------
    .. [1] Smola and Schoelkopf (2004), "A tutorial on support vector regression", Statistics and
       Computing 14.
    .. [2] Jain and Thakurta (2013), "Differentially private learning with kernels", section 3:
       losses are to be Lipschitz, as this is and the squared loss is not.

    Examples
    --------
    >>> from skdpsumm.learners import EpsilonInsensitive, TDILRegressor
    >>> model = TDILRegressor(loss=EpsilonInsensitive(width=0.2), y_bounds=(0, 10))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "width": [Interval(Real, 0, 1, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="neither")],
    }
    lipschitz = 1.0
    least_regularization = 0.8
    # Two, of numbers up to |score| + 1, and up to |score| + 2 as the width is below 1.
    n_additions = 3

    def __init__(self, width: float = 0.1, smoothing: float = 0.05):
        self.width, self.smoothing = width, smoothing

    @property
    def smoothness(self) -> float:
        """Beta, the curvature of a parabola, or of two where they meet."""
        return (1 if self.smoothing <= self.width else 2) / (2 * self.smoothing)

    # It is a hinge on either side of the tube; no more than one of them has a slope of 1.
    @property
    def _side(self) -> HuberizedHinge:
        return HuberizedHinge(float(self.smoothing))

    def _gaps(self, scores: Floats, codes: Floats) -> tuple[Floats, Floats]:
        residuals = scores - codes
        return residuals - self.width, -residuals - self.width

    def value(self, scores: Floats, codes: Floats) -> Floats:
        above, below = self._gaps(scores, codes)
        return (self._side.of_gap(above) + self._side.of_gap(below))[:, 0]

    def gradient(self, scores: Floats, codes: Floats) -> Floats:
        above, below = self._gaps(scores, codes)
        return self._side.rise(above) - self._side.rise(below)

    def hessian_root(self, scores: Floats, codes: Floats) -> Floats:
        above, below = self._gaps(scores, codes)
        curvature = self._side.bend(above) + self._side.bend(below)
        return np.sqrt(np.minimum(curvature, self.smoothness))[:, :, None]

    def narrowing(self) -> Iterator[tuple[Loss, Loss, float]]:
        for wide, frozen, width in self._side.narrowing():
            yield _Sides(self.width, wide), _Sides(self.width, frozen), width


class _Sides(EpsilonInsensitive):
    """The loss with such a hinge on either side."""

    def __init__(self, width: float, side: HuberizedHinge):
        super().__init__(width, side.h)
        self.side = side

    @property
    def _side(self) -> HuberizedHinge:
        return self.side


_KINDS: dict[str, tuple[type[Loss], dict[str, type[Loss]]]] = {
    "classifier": (
        MarginLoss,
        {
            "huberized_hinge": HuberizedHinge,
            "soft_hinge": SoftHinge,
            "logistic": Logistic,
            "hinge": Hinge,
        },
    ),
    "regressor": (
        ResidualLoss,
        {"huber": Huber, "squared": Squared, "epsilon_insensitive": EpsilonInsensitive},
    ),
}


def as_loss(loss: str | Loss, kind: Literal["classifier", "regressor"]) -> Any:
    """Return the loss that a learner's parameter names: a string stands for its default.

    Parameters
    ----------
    loss : str or Loss
    kind : {"classifier", "regressor"}

    Returns
    -------
    MarginLoss or ResidualLoss

    Raises
    ------
    ValueError
        For a loss of the other kind, an unknown name, or a loss with a parameter out of range.
    """
    base, known = _KINDS[kind]
    found = known[loss]() if isinstance(loss, str) and loss in known else loss
    if not isinstance(found, base):
        names = " or ".join(f"{name!r} or {cls.__name__}()" for name, cls in known.items())
        raise ValueError(f"loss of a {kind} must be {names}, got {loss!r}.")
    check_params(found)
    return found


def classifier_loss(loss: str | Loss, n_classes: int, *, flat: bool = False) -> Loss:
    """Return the loss of the scores of so many classes that a classifier's parameter names.

    Parameters
    ----------
    loss : str or MarginLoss
    n_classes : int
    flat : bool, default=False
        Whether curvature costs privacy, as it does under objective perturbation.
    """
    return as_loss(loss, "classifier").for_classes(n_classes, flat=flat)


def _relaxed(first: float, last: float, epsilon: float) -> float:
    """Return the first number where noise decides on a default, and nearer the last elsewhere."""
    return last + min(1.0, _NOISY / epsilon) * (first - last)
