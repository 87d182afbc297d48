"""h2: multiplicative weights with the exponential mechanism, for a mean embedding.

Algorithm 2 of the data summarization paper, with the calibration that its guarantee needs. Every
distribution P_t of the algorithm is a product of exponential tilts of the uniform law on [-1, 1],
so one number per coordinate is all the state there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..features._feature_maps import GRID
from ..privacy._noise import Block, IntegerNoise, check_scale, exponential_choice


@dataclass(frozen=True)
class MWEM:
    """Private means of vectors in [-1, 1]^d by T measurements of the worst coordinate.

    Parameters
    ----------
    n_steps : int
        T.
    epsilon_select, epsilon_measure : float
        Of the exponential mechanism and of the Laplace mechanism in each step; with sensitivity
        Delta the coordinate i is drawn with weight ``exp(epsilon_select psi_i / (2 Delta))`` and
        measured with ``Lap(Delta / epsilon_measure)``.
    sensitivity : int
        Delta, by which any coordinate of the sums can change: 1, 2 or 4, in units of one row.

    Notes
    -----
    One step is ``epsilon_select + epsilon_measure``-DP and ``epsilon_select^2 / 8 +
    epsilon_measure^2 / 2``-zCDP: the exponential mechanism (bounded range), the Laplace mechanism,
    and composition; the rest is post-processing. The mean is that of the last P_t: the paper's, of
    P_avg on a grid, is worse for a warm start.
    """

    n_steps: int
    epsilon_select: float
    epsilon_measure: float
    sensitivity: int

    def __post_init__(self) -> None:
        # Noise beyond 64 bits is refused here, and not once the ledger has paid.
        for epsilon, rows in ((self.epsilon_measure, 1), (self.epsilon_select, 2)):
            check_scale(rows * self.sensitivity * GRID / epsilon if epsilon > 0 else math.inf)

    @classmethod
    def for_zcdp(cls, rho: float, n_steps: int, sensitivity: int) -> MWEM:
        """Return the mechanism whose steps cost `rho` together, in equal parts."""
        measure = math.sqrt(rho / n_steps)
        return cls(n_steps, 2 * measure, measure, sensitivity)

    @classmethod
    def for_pure(cls, epsilon: float, n_steps: int, sensitivity: int) -> MWEM:
        """Return the mechanism whose steps cost `epsilon` together, in equal parts."""
        half = epsilon / (2 * n_steps)
        return cls(n_steps, half, half, sensitivity)

    @property
    def rho(self) -> float:
        """The zCDP cost of all steps."""
        return self.n_steps * (self.epsilon_select**2 / 8 + self.epsilon_measure**2 / 2)

    def release(
        self, sums: NDArray[np.int64], n: int, noise: MWEMNoise, tilt: NDArray | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return private means, and the state for a warm start.

        Parameters
        ----------
        sums : ndarray of int64, shape (d,)
            Sums over rows, in units of 2**-15.
        n : int
            N, the public number of rows to divide by.
        noise : MWEMNoise
        tilt : ndarray of shape (d,), default=None
            Where to start; 0 is the uniform law.

        Returns
        -------
        means : ndarray of shape (d,), in [-1, 1]
        tilt : ndarray of shape (d,)
        """
        tilt = np.zeros(len(sums)) if tilt is None else tilt.copy()
        means = self._tilted_mean(tilt)
        steps = []
        unit = self.sensitivity * GRID
        for _ in range(self.n_steps):
            # In whole units, as the sums are: the choice is then as exact as its guarantee.
            errors = np.abs(np.rint(n * GRID * means).astype(np.int64) - sums)
            i = noise.worst(errors, 2 * unit / self.epsilon_select)
            measured = noise.laplace(int(sums[i]), unit / self.epsilon_measure) / GRID
            tilt[i] += (measured - n * means[i]) / (2 * n)
            means[i] = self._tilted_mean(tilt[i : i + 1])[0]
            steps.append(means.copy())
        return self._result(steps), tilt

    def _result(self, steps: list[NDArray]) -> NDArray[np.float64]:
        """Return the means that all steps end with."""
        return steps[-1]

    def _tilted_mean(self, tilt: NDArray) -> NDArray:
        """Return the mean of the law on [-1, 1] with density exp(tilt s)."""
        return coth_less_pole(tilt)


def coth_less_pole(x: NDArray) -> NDArray:
    """Return ``coth(x) - 1/x``: the mean of the tilted law on [-1, 1]."""
    # Near 0 both terms are large and alike; x / 3 is the first term of the series.
    small = np.abs(x) < 1e-3
    safe = np.where(small, 1.0, x)
    return np.where(small, x / 3, 1 / np.tanh(safe) - 1 / safe)


class MWEMNoise:
    """Where the two mechanisms of a step get their noise.

    It comes from OpenDP and the system's entropy, or from a seed, in floating point, where it is
    simulated.
    """

    def __init__(self, noise_seed: int | None):
        self._rng = None if noise_seed is None else np.random.default_rng(noise_seed)

    def worst(self, scores: NDArray[np.int64], scale: float) -> int:
        """Return an index drawn with weight ``exp(scores / scale)``."""
        return exponential_choice(scores, scale, self._rng)

    def laplace(self, value: int, scale: float) -> float:
        """Return `value` with discrete Laplace noise."""
        if self._rng is not None:
            return value + float(np.rint(self._rng.laplace(0.0, scale)))
        noise = IntegerNoise([Block(1, 1.0, 1.0)], epsilon=1 / scale, delta=0)
        return float(noise.add(np.array([value]))[0])
