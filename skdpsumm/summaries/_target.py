"""The private mean embedding of the target: what owners may learn about D_v."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from .._computing import warn_caller
from ..features import GRID
from ..privacy import Block, IntegerNoise, Mechanism, Unprotected, zcdp_rho
from ._embedding import Embedding
from ._mwem import MWEM, mwem_noise, quantise
from ._terms import Terms

# Part of mu^2 that buys the number of rows where it is private: a tenth makes its noise three times
# that of a score, and the noise of scores 5 per cent larger.
_COUNT_SHARE = 0.1
# Below this mean of the kernel between two rows of the target nothing is like it; where scales are
# right it is .1 to .6. Of fewer rows it says little.
_LEAST_LIKENESS, _FEWEST_ROWS = 0.02, 10


class TargetRelease(ABC):
    """A mechanism that releases the mean of phi over the rows of the target, once.

    Attributes
    ----------
    mechanism : Mechanism
        Its cost, known before any data are read.
    noise_energy : float
        After `release`, what noise adds to the squared norm of the mean on average, as far as it
        is known.
    """

    mechanism: Mechanism
    noise_energy: float = 0.0

    @abstractmethod
    def release(self, X: NDArray, noise_seed: int | None) -> NDArray[np.float64]:
        """Return the noisy mean, shape (d,)."""


class ExactMean(TargetRelease):
    """The mean itself, for epsilon = inf."""

    def __init__(self, embedding: Embedding):
        self.embedding = embedding
        self.mechanism = Unprotected("epsilon is infinite and no noise was added")

    def release(self, X: NDArray, noise_seed: int | None) -> NDArray[np.float64]:
        mean = self.embedding.sums(X) / len(X) * (self.embedding.scale / GRID)
        if self.embedding.offsets is None:
            warn_of_blindness(mean, len(X))
        return mean


class GaussianMean(TargetRelease):
    """Gaussian noise on the sum (Laplace noise with delta = 0), and on the number of rows.

    With pairs the sum moves by at most one (two under replace-one) when a row changes, so a score
    ``<mean, phi(x)>`` has noise of standard deviation ``1 / (mu m)`` whatever d is.

    Parameters
    ----------
    embedding : Embedding
    epsilon, delta : float
    adjacency : {"add_remove", "replace_one"}
    n_target : int or None
        A public number to divide by. None, under add-remove only, releases the number of rows
        together with the sum, for a tenth of the budget.
    """

    def __init__(
        self,
        embedding: Embedding,
        epsilon: float,
        delta: float,
        adjacency: str,
        n_target: int | None,
    ):
        self.embedding, self.n_target = embedding, n_target
        self.counts = n_target is None
        rest = 1 - _COUNT_SHARE if self.counts else 1.0
        l1, l2 = embedding.sensitivity(2 if adjacency == "replace_one" else 1)
        blocks = [Block(embedding.n_features, l1, l2, rest)]
        if self.counts:
            blocks.append(Block(1, GRID, GRID, _COUNT_SHARE))
        self._noise = IntegerNoise(blocks, epsilon=epsilon, delta=delta)
        self.mechanism = self._noise.mechanism

    def release(self, X: NDArray, noise_seed: int | None) -> NDArray[np.float64]:
        sums = self.embedding.sums(X)
        noisy = self._noise.add_block(0, sums, noise_seed)
        n: float = self.n_target or 0
        if self.counts:
            rows = np.array([len(X) * GRID])
            n = max(float(self._noise.add_block(1, rows, noise_seed)[0]) / GRID, 1.0)
        unit = self.embedding.scale / GRID / n
        self.noise_energy = float(np.sum((self._noise.std[: len(sums)] * unit) ** 2))
        mean = noisy * unit
        if self.counts and self.embedding.offsets is None:
            warn_of_blindness(mean, n, self.noise_energy, float(self._noise.std[-1]) / GRID)
        return mean


class MWEMMean(TargetRelease):
    """h2 of the paper, calibrated to (epsilon, delta) or as printed.

    Parameters
    ----------
    embedding : Embedding
    n_target : int
        The public number to divide by.
    mwem : MWEM
    pure : bool, default=False
        State the cost as pure DP.
    """

    def __init__(self, embedding: Embedding, n_target: int, mwem: MWEM, *, pure: bool = False):
        self.embedding, self.n_target, self.mwem = embedding, n_target, mwem
        self.mechanism = mwem.cost(pure=pure)

    @classmethod
    def calibrated(
        cls,
        embedding: Embedding,
        epsilon: float,
        delta: float,
        adjacency: str,
        n_target: int,
        n_steps: int,
    ) -> MWEMMean:
        """Return the release that costs (epsilon, delta)."""
        sensitivity = 2 if adjacency == "replace_one" else 1
        if delta == 0:
            mwem = MWEM.for_pure(epsilon, n_steps, sensitivity)
        else:
            mwem = MWEM.for_zcdp(zcdp_rho(epsilon, delta), n_steps, sensitivity)
        return cls(embedding, n_target, mwem, pure=delta == 0)

    def release(self, X: NDArray, noise_seed: int | None) -> NDArray[np.float64]:
        grid = quantise(
            self.embedding.grid(X),
            self.mwem.grid_step,
            np.random.default_rng(None if noise_seed is None else [noise_seed, 1]),
        )
        sums = grid.sum(axis=0, dtype=np.float64).astype(np.int64)
        means, _ = self.mwem.release(sums, self.n_target, mwem_noise(noise_seed))
        return means * self.embedding.scale


def target_release(embedding: Embedding, terms: Terms) -> TargetRelease:
    """Return the release that the terms of a run ask for.

    Raises
    ------
    ValueError
        If `n_target` is needed and missing.
    """
    if not terms.is_private:
        return ExactMean(embedding)
    if terms.adjacency == "replace_one":
        require_n_target(terms.n_target, "adjacency='replace_one'")
    budget = terms.epsilon, terms.delta, terms.adjacency
    if terms.release == "mwem":
        steps = terms.n_steps or 2 * embedding.n_features
        size = require_n_target(terms.n_target, "release='mwem'")
        return MWEMMean.calibrated(embedding, *budget, size, steps)
    return GaussianMean(embedding, *budget, terms.n_target)


def warn_of_blindness(
    mean: NDArray, n_rows: float, noise_energy: float = 0.0, count_std: float = 0.0
) -> None:
    """Warn where a released mean of pairs tells that the kernel is near 0 between any two rows.

    Its squared norm is the mean of the kernel over all pairs of rows, and the noise's. A look at
    what is released costs nothing.
    """
    if n_rows < _FEWEST_ROWS:
        return
    likeness = float(mean @ mean) - noise_energy - 1 / n_rows  # a row is like itself
    unsure = 2 * (noise_energy * math.sqrt(2 / len(mean)) + count_std / n_rows**2)
    if unsure + max(likeness, 0.0) < _LEAST_LIKENESS:  # else noise may have drowned it
        warn_caller(
            "What was released of the target tells that the kernel is near 0 between any two rows "
            "of it, so that none match and the choice is near random: gamma is too large for "
            "columns in these units. Scale X and X_target by public bounds (PublicScaler), or "
            "lower gamma.",
            UserWarning,
        )


def require_n_target(n_target: int | None, by: str) -> int:
    """Return `n_target`, or raise ValueError if it is missing where `by` needs it."""
    if n_target is None:
        raise ValueError(
            f"n_target is None, but {by} needs a public number of target rows to divide by; give "
            "n_target=<about how many rows the target has, from public knowledge>."
        )
    return n_target
