"""What a search can tell apart, and what a plain fit would have had: all of it is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..privacy._mechanisms import GaussianDP
from ._run import PrivateScore
from ._stopping import RunPlan

# The choice is mostly noise if it tells apart no less than this part of what scores can differ by.
DROWNED_SHARE_OF_SIZE = 0.1


@dataclass(frozen=True)
class ChoiceNoise:
    """How much of the choice among candidates is noise; computed from the release alone.

    Attributes
    ----------
    difference : float
        Candidates whose mean scores differ by less were told apart by chance. From above, for the
        number of rows is private: of the released sum it is known how many rows it takes at least.
        Infinite where that is none.
    size : float
        What scores can differ by: the length of `score_bounds`.
    is_drowned : bool
        Whether the choice is mostly noise: `difference` is more than a tenth of `size`.
    is_default : bool
        Whether the best candidate is the estimator as it was given to the search.
    epsilon : float
        Of the search.
    epsilon_of_fit : float
        The epsilon of one fit to all rows that has as much noise for its rows as a run has.
    """

    difference: float
    size: float
    is_drowned: bool
    is_default: bool
    epsilon: float
    epsilon_of_fit: float

    @classmethod
    def of(
        cls, score: PrivateScore, best_sum: float, mean_trials: float, **facts: Any
    ) -> ChoiceNoise:
        """Return what the released sum shows; `facts` are all fields that it does not."""
        size = score.high - score.low
        # The largest of K sums flatters, by this at most, as a rule.
        noise = score.noise_std * (2 + math.sqrt(2 * math.log(max(mean_trials, 1.0))))
        least_rows = (abs(best_sum) - noise) / (size / 2)
        difference = told_apart(score, least_rows) if least_rows > 0 else math.inf
        difference = difference if score.noise_std else 0.0
        drowned = difference > DROWNED_SHARE_OF_SIZE * size
        return cls(difference, size, drowned, **facts)

    def __str__(self) -> str:
        told = (
            f"Scores closer than {self.difference:.2g}, of a range of {self.size:.4g}, cannot be "
            "told apart"
            if self.difference < self.size
            else "No two candidates can be told apart"
        )
        words = f"{told}; {self._of_fit}"
        if self.is_default:
            words += "; the estimator as it was given is the best: fitted alone it has less noise"
        return f"Mostly noise: {words}" if self.is_drowned else words

    @property
    def advice(self) -> str:
        """What to say where the choice is mostly noise."""
        apart = (
            f"scores closer than {self.difference:.2g}, of a range of {self.size:.4g}, cannot be "
            "told apart"
            if self.difference < self.size
            else "no two can be told apart"
        )
        return (
            "Fit the estimator as it is, which will probably be better, or give the search more "
            "rows: `expected_noise(n_samples)` tells how many, before anything is charged. The "
            f"choice among candidates is mostly noise: {apart}, and {self._of_fit}."
        )

    @property
    def _of_fit(self) -> str:
        return (
            f"the search leaves the model epsilon={self.epsilon_of_fit:.2g} of {self.epsilon:.4g}"
        )


def told_apart(score: PrivateScore, n_rows: float) -> float:
    """Return by how much mean scores of so many rows must differ to be told apart."""
    # Two standard deviations of the noise on a difference of two scores can be told apart.
    return 2.0 * math.sqrt(2) * score.noise_std / n_rows


def rows_to_tell(score: PrivateScore, difference: float) -> float:
    """Return how many rows are needed to tell apart mean scores that differ by so much."""
    return told_apart(score, 1.0) / difference


def epsilon_of_fit(plan: RunPlan, holdout: float, delta: float) -> float:
    """Return the epsilon of one fit to all rows that is as noisy, for its rows, as a run is.

    A run has a part of the rows, and its noise is larger by what K costs. Sums of rows grow with
    their number: fewer rows are as bad as more noise.
    """
    if plan.base.unprotected:
        return math.inf
    if isinstance(plan.base, GaussianDP):
        return GaussianDP(plan.base.mu * (1 - holdout)).epsilon(delta)
    return plan.epsilon * (1 - holdout)
