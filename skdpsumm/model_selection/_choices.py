"""What a search chooses from: lists, and distributions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

# Candidates that are tried on public rows whatever is drawn: of a grid, and of distributions.
_OF_A_GRID, _OF_DISTRIBUTIONS = 100, 10


class Choices:
    """Candidates by their parameters.

    Parameters
    ----------
    given : dict or list of dict
        As `ParameterSampler` takes.

    Raises
    ------
    ValueError, TypeError
        For values that are no lists and no distributions.
    """

    def __init__(self, given: Any):
        self._given = [given] if isinstance(given, dict) else given
        ParameterSampler(self._given, 1)  # which raises
        self.names = {name for one in self._given for name in one}
        values = [value for one in self._given for value in one.values()]
        self._is_finite = not any(hasattr(value, "rvs") for value in values)

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the parameters of one trial, drawn from the secret source."""
        words = rng.integers(2**32, size=8, dtype=np.uint32)
        source = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(words.tolist())))
        (params,) = ParameterSampler(self._given, 1, random_state=source)
        return params

    def to_try(self) -> Iterator[dict[str, Any]]:
        """Yield all parameters of a small grid, else some that never change."""
        n = _OF_DISTRIBUTIONS
        if self._is_finite:
            n = min(_OF_A_GRID, len(ParameterGrid(self._given)))
        yield from ParameterSampler(self._given, n, random_state=0)
