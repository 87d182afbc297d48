"""Convex losses of the scores of one row, with the constants that a sensitivity needs.

A row has q scores f in R^q and a code, which says what its label asks of them. Every loss knows
L, a bound on the Euclidean norm of its gradient in f over *all* scores and codes, and beta, a
bound on the largest eigenvalue of its Hessian.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

Floats = NDArray[np.float64]


class Loss(ABC):
    """A convex loss of the scores of a row.

    Attributes
    ----------
    lipschitz : float
        L, the largest norm of the gradient.
    smoothness : float
        beta, the largest eigenvalue of the Hessian.
    """

    lipschitz: float
    smoothness: float
    # Whether all gradients of a row are multiples, from 0 to L, of one direction.
    one_sided: ClassVar[bool] = False

    @abstractmethod
    def value(self, scores: Floats, codes: Floats) -> Floats:
        """Return the loss of each row, shape (n,), for scores and codes of shape (n, q)."""

    @abstractmethod
    def gradient(self, scores: Floats, codes: Floats) -> Floats:
        """Return the gradient in the scores, shape (n, q)."""

    @abstractmethod
    def hessian_root(self, scores: Floats, codes: Floats) -> Floats:
        """Return B with Hessian B B^T for each row, shape (n, q, r); r is the rank."""


class MarginLoss(Loss):
    """A decreasing loss of the margin <code, scores>; codes are -1 and +1, or unit vectors."""

    one_sided = True

    @abstractmethod
    def _value(self, margin: Floats) -> Floats: ...

    @abstractmethod
    def _slope(self, margin: Floats) -> Floats: ...

    @abstractmethod
    def _curvature(self, margin: Floats) -> Floats: ...

    def value(self, scores, codes):
        return self._value(_margin(scores, codes))

    def gradient(self, scores, codes):
        return self._slope(_margin(scores, codes))[:, None] * codes

    def hessian_root(self, scores, codes):
        return (np.sqrt(self._curvature(_margin(scores, codes)))[:, None] * codes)[:, :, None]


def _margin(scores: Floats, codes: Floats) -> Floats:
    return np.einsum("nq,nq->n", scores, codes)


class Logistic(MarginLoss):
    """log(1 + exp(m - margin)): L = 1, beta = 1/4. Its curvature is t (1 - t) at a slope of -t.

    Parameters
    ----------
    margin : float, default=0.0
        m. At 0 it is logistic regression; at 3 a hinge without corners, of slope -.95 at score 0.
    """

    lipschitz, smoothness = 1.0, 0.25

    def __init__(self, margin: float = 0.0):
        self.margin = margin

    def _value(self, margin):
        return np.logaddexp(0.0, self.margin - margin)

    def _slope(self, margin):
        return -expit(self.margin - margin)

    def _curvature(self, margin):
        return expit(margin - self.margin) * expit(self.margin - margin)


class HuberizedHinge(MarginLoss):
    """The hinge max(0, 1 - margin) with a parabola for |1 - margin| <= h: L = 1, beta = 1/(2h).

    Source: Chaudhuri et al. (2011), equation 7.
    """

    lipschitz = 1.0

    def __init__(self, h: float = 0.5):
        self.h = h
        self.smoothness = 1 / (2 * h)

    def _value(self, margin):
        gap = 1 - margin
        inside = (gap + self.h) ** 2 / (4 * self.h)
        return np.where(gap > self.h, gap, np.where(gap < -self.h, 0.0, inside))

    def _slope(self, margin):
        return -np.clip((1 - margin + self.h) / (2 * self.h), 0.0, 1.0)

    def _curvature(self, margin):
        return np.where(np.abs(1 - margin) <= self.h, self.smoothness, 0.0)


class Hinge(HuberizedHinge):
    """max(0, 1 - margin) with its corner rounded, for margins from 0.999 to 1.001.

    It is larger by 0.00025 at most. A corner has no curvature, and no solver would be sure to come
    close to its minimum; rounded off it is a loss like all others, and L is the same.
    """

    def __init__(self):
        super().__init__(1e-3)


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

    def __init__(self, temperature: float = 1.0, margin: float = 0.0):
        self.temperature, self.margin = temperature, margin
        self.smoothness = 1 / (2 * temperature)

    def _logits(self, scores: Floats, codes: Floats) -> Floats:
        return (scores + self.margin * (1 - codes)) / self.temperature

    def value(self, scores, codes):
        total = self.temperature * logsumexp(self._logits(scores, codes), axis=1)
        return total - _margin(scores, codes)

    def gradient(self, scores, codes):
        return softmax(self._logits(scores, codes), axis=1) - codes

    def hessian_root(self, scores, codes):
        # (diag sqrt(p) - p sqrt(p)^T) times its transpose is diag(p) - p p^T.
        p = softmax(self._logits(scores, codes), axis=1)
        root = -p[:, :, None] * np.sqrt(p)[:, None, :]
        index = np.arange(p.shape[1])
        root[:, index, index] += np.sqrt(p)
        return root / math.sqrt(self.temperature)


class OneVsRest(Loss):
    """The sum over K classes of a margin loss of each score; codes are -1 and +1 per class.

    Its parts have nothing in common, and are minimised one by one; a row moves all of them, so
    L is sqrt K times theirs.
    """

    def __init__(self, part: MarginLoss, n_classes: int):
        self.part = part
        self.lipschitz = part.lipschitz * math.sqrt(n_classes)
        self.smoothness = part.smoothness

    def value(self, scores, codes):
        return self.part._value(scores * codes).sum(axis=1)

    def gradient(self, scores, codes):
        return self.part._slope(scores * codes) * codes

    def hessian_root(self, scores, codes):
        curvature = np.sqrt(self.part._curvature(scores * codes))
        return curvature[:, :, None] * np.eye(scores.shape[1])


class Huber(Loss):
    """r^2 / 2 for residuals |r| <= threshold, linear beyond: L = threshold, beta = 1."""

    smoothness = 1.0

    def __init__(self, threshold: float = 1.0):
        self.lipschitz = threshold

    def value(self, scores, codes):
        size = np.abs(scores - codes)[:, 0]
        t = self.lipschitz
        return np.where(size <= t, size**2 / 2, t * (size - t / 2))

    def gradient(self, scores, codes):
        return np.clip(scores - codes, -self.lipschitz, self.lipschitz)

    def hessian_root(self, scores, codes):
        return (np.abs(scores - codes) <= self.lipschitz).astype(np.float64)[:, :, None]
