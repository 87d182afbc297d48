"""The budget of one release that is made in several steps, each chosen by what came before.

The claim is fixed first; the noise of each step may then depend on all that was released. Two
rules make that valid, as in a ledger. Steps that are mu_i-GDP, with mu_i chosen adaptively, are
mu-GDP together if the sum of mu_i**2 never passes mu**2 [1]_ [2]_; and steps that are
epsilon_i-DP are epsilon-DP together if the sum of epsilon_i never passes epsilon [3]_. So a step
takes a share of mu**2, or of epsilon, and no more than is left.

*Counts.* The discrete Gaussian is mu_i-GDP but for its discreteness. Of the reserve that the claim
sets aside, each value takes an equal part, whatever its noise: a value's tail has probability
``tail / most_values``, and its log ratio is lifted below ``log_ratio / most_values``. Along any
path there are at most so many values.

*Choices.* The exponential mechanism whose log weights move by at most e/2 has the bounded range e.
It is e-DP and mu-GDP with ``mu = 2 Phi^-1(expit(e/2))``, which no smaller mu is: lemma 3 of
docs/proofs.md [4]_.

References
----------
.. [1] Smith and Thakurta (2022), "Fully adaptive composition for Gaussian differential privacy".
.. [2] Koskela, Tobaben and Honkela (2023), "Individual privacy accounting with Gaussian
       differential privacy".
.. [3] Rogers, Roth, Ullman and Vadhan (2016), "Privacy odometers and filters".
.. [4] Dong, Durfee and Rogers (2020), "Optimal differential privacy composition for exponential
       mechanisms", for the worst mechanism of a bounded range.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from ._mechanisms import GaussianDP, Mechanism, PureDP, Unprotected, check_positive
from ._noise import (
    SCALE_MARGIN,
    Discreteness,
    ScaledNoise,
    check_scale,
    exponential_choice,
    forked,
    nominal_mechanism,
)
from ._warnings import BudgetExceededError

# Shares may pass one by float rounding, and by no more; the noise of each is larger by more.
_SHARE_TOLERANCE = 1e-12
# The stream of a seed that steps use, and no other noise.
_STREAM_OF_STEPS = 2**32 - 2


class StepBudget:
    """The budget of one release with several adaptive steps: counts with noise, and choices.

    Whatever reads private data in the release goes through `count` and `choose`. Each takes a share
    of the budget before it draws any noise, and raises where less is left: `mechanism` covers every
    path. It is one release's, so it refuses to be pickled, copied or used in a forked process.

    Parameters
    ----------
    epsilon, delta : float
        Of all steps together. ``delta=0`` gives discrete Laplace noise and pure DP, ``epsilon=inf``
        no noise.
    most_values : int
        The largest number of values that are counted in all steps together. More of them cost no
        accuracy: their noise is drawn on a finer grid.
    most_chosen : float, default=1.0
        The largest share that choices take together, which decides on `cost_when_replaced`.
    noise_seed : int, default=None
        For simulations only; each step has a stream of its own. None draws from the operating
        system's entropy through OpenDP.

    Attributes
    ----------
    mechanism : Mechanism
        What all steps cost together, fixed here.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm.privacy._filter import StepBudget
    >>> budget = StepBudget(epsilon=1.0, delta=1e-6, most_values=2)
    >>> round(budget.mechanism.epsilon(1e-6), 4)
    1.0
    >>> budget.choose(np.array([0, 1000]), sensitivity=1, share=0.1)
    1
    >>> noisy, std = budget.count(np.array([70, 30]), l1=1, l2=1, share=budget.remaining)
    >>> budget.remaining
    0.0
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        most_values: int,
        most_chosen: float = 1.0,
        noise_seed: int | None = None,
    ):
        if not 0 <= most_chosen <= 1:
            raise ValueError(f"most_chosen must be from 0 to 1, got {most_chosen!r}.")
        self.mechanism: Mechanism = nominal_mechanism(epsilon, delta)
        self.epsilon, self.delta = float(epsilon), float(delta)
        self.most_values, self.most_chosen = max(int(most_values), 1), float(most_chosen)
        self.noise_seed = noise_seed
        if isinstance(self.mechanism, GaussianDP):
            self._mu = self.mechanism.mu
            self._slack = Discreteness(self.most_values, self._mu, self.epsilon, self.delta)
            log_ratio = self._slack.allowed + self._slack.poisson
            self.mechanism = GaussianDP(self._mu, log_ratio, self._slack.tail)
        self._spent: list[float] = []
        self._spent_on_choices: list[float] = []
        self._n_values = 0
        self._pid = os.getpid()
        # Without the lock two threads could both take what is left.
        self._lock = threading.Lock()

    @property
    def remaining(self) -> float:
        """The share of the budget that is left."""
        return max(0.0, 1 - math.fsum(self._spent))

    @property
    def is_silent(self) -> bool:
        """Whether no noise is added; steps take their shares all the same."""
        return math.isinf(self.epsilon)

    def std(self, *, l1: float, l2: float, share: float) -> float:
        """Return the standard deviation of the noise of a `count`; nothing is spent.

        Parameters
        ----------
        l1, l2 : float
            Sensitivities of the vector.
        share : float

        Returns
        -------
        float
        """
        return self._noise(l1, l2, share).std

    def check_count(self, *, l1: float, l2: float, share: float) -> None:
        """Raise ValueError where 64 bits may not hold the noise of a `count`; nothing is spent.

        It also holds for larger shares and smaller sensitivities.

        Parameters
        ----------
        l1, l2 : float
            Sensitivities of the vector.
        share : float
        """
        # Less noise has a finer grid, in units of which it is up to twice as wide.
        check_scale(4 * self._noise(l1, l2, share).scale)

    def room(self, *, l2: float) -> int:
        """Return the largest absolute value that `count` takes for every share.

        Parameters
        ----------
        l2 : float
            The smallest sensitivity.

        Returns
        -------
        int
        """
        # All of the budget has the least noise, and so the finest grid.
        # Half of what 64 bits hold is left to the noise.
        return 2**62 >> self._noise(l2, l2, 1.0).lift

    def count(
        self, values: NDArray, *, l1: float, l2: float, share: float
    ) -> tuple[NDArray[np.float64], float]:
        """Return values with noise, and its standard deviation.

        Parameters
        ----------
        values : ndarray of int64
            Of any shape; at most `room` in size. Floats where the budget is silent.
        l1, l2 : float
            How far neighbours move the vector of all values.
        share : float
            Part of the budget, in (0, 1].

        Returns
        -------
        noisy : ndarray of float64, of the same shape
        std : float

        Raises
        ------
        BudgetExceededError
            If less is left; nothing is drawn then.
        ValueError
            If a parameter is none that it may be, or the noise is beyond 64-bit integers.
        """
        values = np.asarray(values)
        self._check_integers(values)
        noise = self._noise(l1, l2, share)
        step = self._spend(share, n_values=values.size)
        if self.is_silent:
            return values.astype(np.float64), 0.0
        noisy = noise.add(values.ravel(), self.noise_seed, (_STREAM_OF_STEPS, step))
        return noisy.reshape(values.shape), noise.std

    def choose(self, scores: NDArray, *, sensitivity: float, share: float) -> int:
        """Return the index of a score that is probably among the largest (exponential mechanism).

        Parameters
        ----------
        scores : ndarray of int64, shape (m,)
            Larger is better. Floats where the budget is silent.
        sensitivity : float
            How far neighbours move any score, up or down.
        share : float
            Part of the budget, in (0, 1].

        Returns
        -------
        int

        Raises
        ------
        BudgetExceededError
            If less is left; nothing is drawn then.
        ValueError
            If a parameter is none that it may be.
        """
        scores = np.asarray(scores)
        if scores.ndim != 1 or not scores.size:
            raise ValueError(f"scores must be a vector, got the shape {scores.shape}.")
        self._check_integers(scores)
        scale = self._gumbel_scale(sensitivity, share)
        step = self._spend(share, chooses=True)
        if self.is_silent:
            return int(np.argmax(scores))
        return exponential_choice(scores.astype(np.int64), scale, self._generator(step))

    def check_choice(self, *, sensitivity: float, share: float) -> None:
        """Raise ValueError where the noise of such a `choose` would not fit; nothing is spent.

        Parameters
        ----------
        sensitivity : float
        share : float
        """
        self._gumbel_scale(sensitivity, share)

    @property
    def cost_when_replaced(self) -> Mechanism:
        """What the steps cost between neighbours that differ in the values of one row.

        For steps whose sensitivities are those of a row more or less (or of a group of rows), and
        whose counts are of one-hot features: a row that is replaced leaves one cell and enters
        another, so that counts move by 2 l1 and sqrt(2) l2, and scores by twice the sensitivity.

        Notes
        -----
        Pure: every cost doubles. Gaussian: the squared mu of a count doubles. A choice that took
        ``m = 2 g(e/2)``, with ``g = Phi^-1 o expit``, now has the range 2e and takes ``2 g(e)``; g
        is concave from 0 on, and 0 there, so that is at most 2m, and close to it where m is small.
        With shares s of counts and c of choices, in whatever steps, mu**2 becomes at most
        ``(2 s + 4 c) mu**2``, which ``2 (1 + most_chosen) mu**2`` bounds and many small choices
        come near.

        Where up to k rows of a group give way to up to k of another, with a rows gone and b new,
        counts move by at most ``a + b`` (L1) and ``sqrt(a**2 + b**2)`` (L2) times what one row
        adds, and scores by ``a + b``. All grow with a and b, so k for k rows is the worst.
        """
        if isinstance(self.mechanism, Unprotected):
            return self.mechanism
        if isinstance(self.mechanism, PureDP):
            return self.mechanism.group(2)
        mu = self._mu * math.sqrt(2 * (1 + self.most_chosen)) * SCALE_MARGIN
        # The core of the noise widens with the distance, by less than for a group of two rows.
        log_ratio, tail = self.mechanism.slack
        return GaussianDP(mu, 4 * log_ratio, tail)

    def _noise(self, l1: float, l2: float, share: float) -> ScaledNoise:
        """Return the noise of a count, or raise where there is none."""
        check_positive(l1=l1, l2=l2)
        _check_share(share)
        if self.is_silent:
            return ScaledNoise("none", 0.0)
        if self.delta == 0:
            return ScaledNoise("laplace", l1 / (share * self.epsilon) * SCALE_MARGIN)
        scale = l2 / (self._mu * math.sqrt(share)) * SCALE_MARGIN
        lift = self._slack.lift(self._slack.needed(self.most_values, scale), scale)
        return ScaledNoise("gaussian", scale * 2.0**lift, lift)

    def _gumbel_scale(self, sensitivity: float, share: float) -> float:
        """Return the scale at which a choice costs its share, or raise where there is none."""
        check_positive(sensitivity=sensitivity)
        _check_share(share)
        if self.is_silent:
            return 0.0
        pure = self.delta == 0
        spread = share * self.epsilon if pure else range_of_mu(math.sqrt(share) * self._mu)
        scale = 2 * sensitivity / spread * SCALE_MARGIN
        check_scale(scale)
        return scale

    def _check_integers(self, values: NDArray) -> None:
        if not (self.is_silent or values.dtype == np.int64):
            raise ValueError(f"values must be 64-bit integers, in grid units, got {values.dtype}.")

    def _spend(self, share: float, *, n_values: int = 0, chooses: bool = False) -> int:
        """Take a step's share, and return its number; what fails later gives nothing back."""
        with self._lock:
            if self._pid != os.getpid():
                raise forked("planned the release")
            if math.fsum([*self._spent, share]) > 1 + _SHARE_TOLERANCE:
                raise BudgetExceededError(
                    f"A step asked for {share:.4g} of the budget, but {self.remaining:.4g} is left."
                )
            chosen = [*self._spent_on_choices, share] if chooses else self._spent_on_choices
            if math.fsum(chosen) > self.most_chosen + _SHARE_TOLERANCE:
                raise BudgetExceededError(
                    f"Choices may take at most {self.most_chosen:.4g} of the budget."
                )
            if self._n_values + n_values > self.most_values:
                raise BudgetExceededError(f"The budget allows at most {self.most_values} values.")
            self._spent.append(float(share))
            self._spent_on_choices, self._n_values = chosen, self._n_values + n_values
            return len(self._spent) - 1

    def _generator(self, step: int) -> np.random.Generator | None:
        if self.noise_seed is None:
            return None
        stream = np.random.SeedSequence(self.noise_seed, spawn_key=(_STREAM_OF_STEPS, step))
        return np.random.default_rng(stream)

    def __repr__(self) -> str:
        return f"<StepBudget {self.remaining:.4g} of {self.mechanism!r} left>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "The budget of a release cannot be pickled or copied: each copy would draw noise of "
            "its own for one charge."
        )


def range_of_mu(mu: float) -> float:
    """Return the range of the exponential mechanism that costs mu: ``2 logit(Phi(mu / 2))``.

    Parameters
    ----------
    mu : float

    Returns
    -------
    float
    """
    if mu < 2:  # where the difference below has fewer digits
        return 4 * math.atanh(math.erf(mu / math.sqrt(8)))
    return 2 * float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))


def _check_share(share: float) -> None:
    if not 0 < share <= 1 + _SHARE_TOLERANCE:
        raise ValueError(f"share must be above 0 and at most 1, got {share!r}.")
