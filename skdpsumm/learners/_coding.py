"""What labels ask of the scores: signs, one-hot rows, scaled numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._validation import class_codes
from .erm._losses import Loss

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

    @classmethod
    def of(cls, classes: NDArray, loss: Loss) -> ClassCoding:
        """Return the coding of `classes` that `loss` works with."""
        return cls(classes, loss.class_codes(len(classes)))

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
