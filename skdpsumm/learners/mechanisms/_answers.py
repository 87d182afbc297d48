"""What interactive learners remember: answers given, and who may draw new ones."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ..._computing import Floats, warn_caller
from ...schema._sparse import SparseRows
from ..erm._problem import Minimizer

_KNOWS_NOTHING = (
    "Ask the fitted PINP learner, or copy it after it has answered points like these: this copy "
    "(a pickle, a deep copy or a fork) was made before that, holds no private data, and gives all "
    "new points one constant. TDIL and TDDL learners can be pickled whole."
)


class AnsweredQueries(ABC):
    """Answers given so far; the same point always gets the same answer.

    Only the object that was fitted, in the process that fitted it, draws noise. Copies (by pickle
    or `copy`) and forks carry the answers and the public hypothesis, and answer new points by it:
    two copies with noise of their own would average to the exact answer for one charge.

    Parameters
    ----------
    n_scores : int
    """

    n_updates_left: int = 0
    _is_public = True  # the points asked, which copies carry

    def __init__(self, n_scores: int):
        self._n_scores = n_scores
        self._known: dict[bytes, tuple[Floats, bool]] = {}
        self._lock = threading.RLock()
        self._process: int | None = os.getpid()

    @property
    def holds_private_data(self) -> bool:
        """True: the private minimiser is in memory."""
        return True

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy or a fork, which draws no noise."""
        return self._process != os.getpid()

    def ask(self, X: NDArray, *, public: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores of each row, shape (m, q), and whether noise was drawn for it.

        Unless all that are asked are said to be `public`, copies hold private data.
        """
        if isinstance(X, SparseRows):
            keys = X.keys()
        else:
            X = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0.0 is 0.0
            keys = [row.tobytes() for row in X]
        with self._lock:
            new = {key: i for i, key in enumerate(keys) if key not in self._known}
            if new and not self.is_copy:
                self._is_public &= public
            known = self._known | self._answers(X[list(new.values())], list(new))
            if not self.is_copy:
                self._known = known
        scores = np.array([known[key][0] for key in keys]).reshape(len(X), self._n_scores)
        return scores, np.array([known[key][1] for key in keys], dtype=bool)

    def _answers(self, X: NDArray, keys: list[bytes]) -> dict[bytes, tuple[Floats, bool]]:
        if not keys:
            return {}
        if self.is_copy:
            known = self.hypothesis()
            if known.is_zero:
                warn_caller(_KNOWS_NOTHING, UserWarning)
            scores, fresh = known.scores(X), np.zeros(len(X), dtype=bool)
        else:
            with np.errstate(all="ignore"):  # what numpy raises may hang on a private row
                scores, fresh = self._draw(X)
        return {k: (f, bool(flag)) for k, f, flag in zip(keys, scores, fresh, strict=True)}

    @abstractmethod
    def hypothesis(self) -> Minimizer:
        """Return the function that all answers given so far amount to; it is public."""

    @abstractmethod
    def _draw(self, X: NDArray) -> tuple[Floats, NDArray[np.bool_]]:
        """Answer distinct new points, with noise where the mechanism draws any."""

    def __reduce__(self):
        with self._lock:
            state = self._n_scores, dict(self._known), self.hypothesis(), self._is_public
        return FrozenAnswers, state


class FrozenAnswers(AnsweredQueries):
    """What copies carry of `AnsweredQueries`: points asked, answers, and what those amount to.

    No training row is among them, unless somebody asked at one, or the answers had no noise.

    Parameters
    ----------
    n_scores : int
    known : dict
        Points and answers.
    hypothesis : Minimizer
    is_public : bool
        Whether the points and the hypothesis are public: not where no noise was added.
    """

    def __init__(self, n_scores: int, known: dict, hypothesis: Minimizer, is_public: bool):
        super().__init__(n_scores)
        self._known, self._hypothesis, self._is_public = known, hypothesis, is_public
        self._process = None

    @property
    def holds_private_data(self) -> bool:
        """Whether a point was asked that nobody said is public, or no noise was added."""
        return not self._is_public

    def hypothesis(self) -> Minimizer:
        """Return the function that all answers amounted to when this copy was made."""
        return self._hypothesis

    def _draw(self, X):
        raise AssertionError("a copy draws no noise")
