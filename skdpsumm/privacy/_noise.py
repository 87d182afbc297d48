"""Noise: for vectors of integers, exact and calibrated; for choices; and in floating point.

Contributions are put on a public fixed-point grid *before* they are summed, so that sums are
exact integers that depend on no order of summation; discrete noise is added to the integers by
OpenDP, from the operating system's entropy. Both the sensitivity in whole grid units and the
distance of discrete from continuous Gaussian noise are part of the claim.

Distance of the discrete Gaussian (per coordinate, scale sigma in grid units). With integer k,
write P(k) for the discrete Gaussian and Q(k) for the continuous one rounded to integers. Then
``Q(k) / P(k) = c * int_{-1/2}^{1/2} cosh(k u / sigma^2) exp(-u^2 / 2 sigma^2) du`` with
``|log c| <= 3 exp(-2 pi^2 sigma^2)`` (Poisson summation), so for ``|k| <= t sigma``

    ``|log Q(k) / P(k)| <= max(1/8, t^2/24) / sigma^2 + 3 exp(-2 pi^2 sigma^2)``,

since ``cosh >= 1`` and ``sinh(a)/a <= exp(a^2/6)``. Outside, P has mass at most
``2 exp(-t^2/2)``. Rounding is post-processing, so Q is exactly mu-GDP. Summed over coordinates
(and t widened by mu, for the neighbour's centre) this gives `GaussianDP.log_ratio` and `.tail`.

*Steps.* One release may be made in several, each chosen by what came before (`StepBudget`). The
claim is fixed first; the noise of each step may then depend on all that was released. Two rules
make that valid, as in a ledger. Steps that are mu_i-GDP, with mu_i chosen adaptively, are mu-GDP
together if the sum of mu_i**2 never passes mu**2 [1]_ [2]_; and steps that are epsilon_i-DP are
epsilon-DP together if the sum of epsilon_i never passes epsilon [3]_. So a step takes a share of
mu**2, or of epsilon, and no more than is left.

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
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from sklearn.utils import gen_batches

from .._computing import advance
from ._mechanisms import GaussianDP, Mechanism, PureDP, Unprotected, check_positive, gdp_mu
from ._warnings import BudgetExceededError

# The part of epsilon and of delta that pays for the discreteness of Gaussian noise.
RESERVE = 1e-6
# Each release takes at most this part of the reserve, so that a ledger can hold many.
_RESERVE_PER_RELEASE = 2.0**-20
# Scales are raised by this, since floats are rounded in a few lines between a budget and a scale.
SCALE_MARGIN = 1 + 4e-12
_LARGEST_VALUE = 2.0**60
# Numbers that are drawn between two reports of progress: a tenth of a second.
_DRAWN_AT_ONCE = 4096
# The smallest delta that float64 can calibrate, far beyond any use.
_LEAST_DELTA = 1e-200
# The stream of a seed that secret keys use; blocks have small numbers.
_STREAM_OF_KEYS = (2**32 - 1,)


@dataclass(frozen=True)
class Block:
    """A run of coordinates of an integer vector that share one noise scale.

    Parameters
    ----------
    size : int
        Number of coordinates.
    l1, l2 : float
        Sensitivities of the block in grid units, for the adjacency claimed.
    share : float
        Part of the budget, in (0, 1]; the shares of all blocks sum to one. Shares are of epsilon
        for pure DP, of mu**2 for Gaussian noise.
    """

    size: int
    l1: float
    l2: float
    share: float = 1.0


# Sums in units of the noise's lattice, at most, so that 64 bits hold the noise as well.
MOST_LIFTED = 2**61
TOO_LARGE = (
    "With an epsilon so large, sums of so many rows exceed 64-bit integers: lower epsilon, set "
    "np.inf for no noise, or sketch the rows in several parts."
)


def forked(did: str) -> RuntimeError:
    """Return the error of a fork of the process that did something."""
    return RuntimeError(
        f"Go on in the process that {did}: this one is a fork of it, and each would draw noise of "
        "its own for one charge."
    )


@dataclass(frozen=True)
class ScaledNoise:
    """Discrete noise of one scale.

    Parameters
    ----------
    kind : {"laplace", "gaussian", "none"}
    scale : float
        In units of ``2**-lift`` of the grid's; 0 for no noise.
    lift : int, default=0
        Values are multiplied by ``2**lift`` before the noise.
    """

    kind: str
    scale: float
    lift: int = 0

    def __post_init__(self) -> None:
        check_scale(self.scale)
        # With a larger lift, hardly any sum would fit into 64 bits.
        if self.lift > 52:
            raise ValueError(
                "An epsilon so large leaves hardly any noise; lower it, or set np.inf for none."
            )

    @property
    def std(self) -> float:
        """Standard deviation, in grid units."""
        if self.kind != "laplace":
            return self.scale / 2.0**self.lift
        # p = exp(-1/b): variance 2p / (1-p)^2 = 1 / (2 sinh(1/2b)^2)
        return 1 / (math.sqrt(2) * math.sinh(min(0.5 / self.scale, 300.0)))

    def add(
        self,
        values: NDArray[np.int64],
        noise_seed: int | None = None,
        spawn_key: tuple[int, ...] = (),
    ) -> NDArray[np.float64]:
        """Return integers with noise, as multiples of ``2**-lift``; see `noisy_integers`."""
        lifted = np.left_shift(np.ascontiguousarray(values, dtype=np.int64), self.lift)
        if np.any(np.right_shift(lifted, self.lift) != values):
            raise OverflowError(TOO_LARGE)
        if self.scale:
            lifted = noisy_integers(lifted, self.scale, self.kind, noise_seed, spawn_key)
        return np.ldexp(lifted.astype(np.float64), -self.lift)


class Discreteness:
    """How far discrete Gaussian noise may be from continuous noise, and what that takes.

    Parameters
    ----------
    size : int
        Number of values of a release, in all its steps.
    mu : float
        Distance of neighbours, in standard deviations, over all values.
    epsilon, delta : float
        Of the release, which sets a part of the reserve aside.

    Attributes
    ----------
    tail : float
        Probability that some value is in the tail.
    allowed : float
        What `needed` may sum to.
    poisson : float
        What the Poisson term of all values sums to, for noise of two units or more.
    """

    def __init__(self, size: int, mu: float, epsilon: float, delta: float):
        self.tail = RESERVE * delta * _RESERVE_PER_RELEASE
        self.allowed = RESERVE * min(epsilon, 1.0) * _RESERVE_PER_RELEASE
        self.poisson = size * 3 * math.exp(-8 * math.pi**2)
        radius = math.sqrt(2 * math.log(2 * size / self.tail)) + mu
        self._curvature = max(1 / 8, radius**2 / 24)

    def needed(self, size: int, scale: float) -> float:
        """Return the log ratio that so many values of one scale take, before they are lifted."""
        return size * self._curvature / scale / scale

    def lift(self, needed: float, smallest: float) -> int:
        """Return the public power of two that brings `needed` to what is allowed.

        Parameters
        ----------
        needed : float
        smallest : float
            The smallest scale.
        """
        lift = max(0, math.ceil(math.log2(max(needed / self.allowed, 1.0)) / 2))
        # Below two grid units the Poisson term would count; it is 1e-33 at sigma = 2.
        return lift + max(0, math.ceil(math.log2(2 / (smallest * 2.0**lift))))


class IntegerNoise:
    """Calibrated noise for a vector of int64 that consists of `Block` s.

    Parameters
    ----------
    blocks : sequence of Block
        The vector's parts, in order.
    epsilon, delta : float
        Total guarantee. ``delta=0`` gives discrete Laplace noise, ``delta>0`` discrete Gaussian
        noise with the analytic calibration, ``epsilon=inf`` none.

    Attributes
    ----------
    mechanism : Mechanism
        The cost of one call of `add`.
    std : ndarray of shape (sum of sizes,)
        Standard deviation of the noise in grid units.

    Notes
    -----
    Source: Ghosh et al. (2009) for discrete Laplace, Balle and Wang (2018) for the calibration,
    Canonne, Kamath and Steinke (2020) for the discrete Gaussian and its sampler.
    """

    def __init__(self, blocks: Sequence[Block], *, epsilon: float, delta: float):
        self.blocks = tuple(blocks)
        self.mechanism = nominal_mechanism(epsilon, delta)
        epsilon, delta = float(epsilon), float(delta)  # float32 would round the noise down
        shares = [block.share for block in self.blocks]
        if not (min(shares) > 0 and math.fsum(shares) <= 1 + 1e-12):
            raise ValueError(f"shares must be positive and sum to one, got {shares}.")
        self.lift = 0
        if self.mechanism.unprotected:
            self.kind, self._scales = "none", [0.0] * len(self.blocks)
        elif isinstance(self.mechanism, GaussianDP):
            self._gaussian(self.mechanism.mu, epsilon, delta)
        else:
            self.kind = "laplace"
            self._scales = [b.l1 / (b.share * epsilon) * SCALE_MARGIN for b in self.blocks]
        self._noises = [ScaledNoise(self.kind, scale, self.lift) for scale in self._scales]

    def _gaussian(self, mu: float, epsilon: float, delta: float) -> None:
        self.kind = "gaussian"
        scales = [b.l2 / (mu * math.sqrt(b.share)) * (1 + 1e-12) for b in self.blocks]
        slack = Discreteness(sum(b.size for b in self.blocks), mu, epsilon, delta)
        needed = sum(slack.needed(b.size, s) for b, s in zip(self.blocks, scales, strict=True))
        self.lift = slack.lift(needed, min(scales))
        self._scales = [s * 2.0**self.lift for s in scales]
        log_ratio = needed / 4.0**self.lift + slack.poisson
        self.mechanism = GaussianDP(mu, log_ratio, slack.tail)

    def cost_between(self, distances: Sequence[tuple[float, float]]) -> Mechanism:
        """Return what the same noise costs between neighbours of another kind.

        Parameters
        ----------
        distances : sequence of (float, float)
            The largest L1 and L2 distance of each block between such neighbours, in grid units. At
            most twice the sensitivities of the blocks: this is for a row that is replaced.

        Returns
        -------
        Mechanism

        Examples
        --------
        A row of a histogram that changes moves two counts by one, so that its L2 distance is
        sqrt(2) times that of a row more:

        >>> from skdpsumm.privacy._noise import Block, IntegerNoise
        >>> noise = IntegerNoise([Block(10, 1.0, 1.0)], epsilon=1.0, delta=1e-6)
        >>> replaced = noise.cost_between([(2.0, 2**0.5)])
        >>> round(noise.mechanism.epsilon(1e-6), 2), round(replaced.epsilon(1e-6), 2)
        (1.0, 1.45)
        """
        moves = list(zip(self.blocks, self._scales, distances, strict=True))
        if not all(l1 <= 2 * b.l1 and l2 <= 2 * b.l2 for b, _, (l1, l2) in moves):
            raise ValueError("distances must be at most twice the sensitivities of the blocks.")
        if not any(self._scales):
            return self.mechanism
        if self.kind == "laplace":
            cost = math.fsum(l1 / scale for _, scale, (l1, _) in moves)
            return PureDP(cost * (1 + 1e-12))
        unit = 2.0**self.lift
        moved = math.sqrt(math.fsum((l2 * unit / scale) ** 2 for _, scale, (_, l2) in moves))
        # The core of the noise widens with the distance, as for a group of two rows.
        log_ratio, tail = self.mechanism.slack
        return GaussianDP(moved * (1 + 1e-12), 4 * log_ratio, tail)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of the noise, per coordinate, in grid units."""
        deviations = [self.std_of_block(i) for i in range(len(self.blocks))]
        return np.repeat(deviations, [b.size for b in self.blocks])

    def std_of_block(self, index: int) -> float:
        """Return the standard deviation of the noise on each coordinate of one block."""
        return self._noises[index].std

    def add(self, values: NDArray[np.int64], noise_seed: int | None = None) -> NDArray[np.float64]:
        """Return `values` with noise, in grid units; `noise_seed` is for simulation only.

        Parameters
        ----------
        values : ndarray of int64, shape (sum of sizes,)
        noise_seed : int, default=None
            None draws from the operating system's entropy through OpenDP.

        Returns
        -------
        ndarray of float64, shape (sum of sizes,)
            Multiples of ``2**-lift``.
        """
        parts = np.split(values, np.cumsum([b.size for b in self.blocks])[:-1])
        return np.concatenate([self.add_block(i, p, noise_seed) for i, p in enumerate(parts)])

    def add_block(
        self, index: int, values: NDArray[np.int64], noise_seed: int | None = None
    ) -> NDArray[np.float64]:
        """Return the values of one block with its noise, for releases made one after the other.

        `mechanism` is the cost of all blocks together; later ones may depend on earlier results.
        A block is to be released once.
        """
        return self._noises[index].add(values, noise_seed, (index,))


def on_grid(values: NDArray[np.float64], step: float) -> NDArray[np.int64]:
    """Return values in units of `step`, rounded, and clipped to what noise may be added to.

    Clipping brings no two vectors farther apart, so it costs no sensitivity. NaN, which would
    become the smallest integer there is, becomes 0.
    """
    with np.errstate(over="ignore"):
        units = np.rint(values / step)
    units = np.clip(units, -_LARGEST_VALUE, _LARGEST_VALUE)
    return np.where(np.isnan(units), 0.0, units).astype(np.int64)


def noisy_integers(
    values: NDArray[np.int64],
    scale: float,
    kind: str,
    noise_seed: int | None = None,
    spawn_key: tuple[int, ...] = (),
) -> NDArray[np.int64]:
    """Return `values` with discrete noise of a given scale, for costs that are stated elsewhere.

    Parameters
    ----------
    values : ndarray of int64
    scale : float
        b of "laplace", which costs ``|v|_1 / b`` (pure) for a move by v, or sigma of "gaussian",
        which costs ``|v|_2^2 / (2 sigma^2)`` (zCDP).
    kind : {"laplace", "gaussian"}
    noise_seed : int, default=None
        For simulations.
    spawn_key : tuple of int, default=()
        Of the seed's stream.
    """
    values = np.ascontiguousarray(values, dtype=np.int64)
    if noise_seed is not None:
        stream = np.random.SeedSequence(noise_seed, spawn_key=spawn_key)
        return values + _simulate(kind, scale, values.shape, stream)
    draw = _laplace_i64 if kind == "laplace" else _gaussian_i64
    flat = values.ravel()
    if len(flat) <= _DRAWN_AT_ONCE:
        return draw(flat, scale).reshape(values.shape)
    parts = []
    for batch in gen_batches(len(flat), _DRAWN_AT_ONCE):
        parts.append(draw(flat[batch], scale))
        advance(0)  # a line says that it goes on; its steps are of rows
    return np.concatenate(parts).reshape(values.shape)


def check_scale(scale: float) -> None:
    """Raise ValueError for noise that 64-bit integers cannot hold, when a release is planned."""
    if not scale <= 2.0**56:
        raise ValueError(
            "epsilon and delta ask for more noise than 64-bit integers can hold: raise epsilon, or "
            "the smallest share of it."
        )


def _check_range(epsilon: float, delta: float) -> None:
    low, high = 1e-20, 1e20  # what float64 can calibrate, far beyond any use
    if not (low <= epsilon <= high or epsilon == math.inf):
        raise ValueError(
            f"epsilon must be from {low:g} to {high:g}, or np.inf for no noise; got {epsilon!r}."
        )
    if not (delta == 0 or _LEAST_DELTA <= delta < 1):
        raise ValueError(
            f"delta must be 0, for pure differential privacy, or at least {_LEAST_DELTA:g} "
            f"and below 1; got {delta!r}."
        )


def nominal_mechanism(epsilon: float, delta: float) -> Mechanism:
    """Return what a release calibrated to (epsilon, delta) costs, before its size is known.

    Raises
    ------
    ValueError
        If epsilon or delta is out of the range that float64 can calibrate.
    """
    _check_range(epsilon, delta)
    epsilon, delta = float(epsilon), float(delta)
    if math.isinf(epsilon):
        return Unprotected("epsilon is infinite and no noise was added")
    if delta == 0:
        return PureDP(epsilon)
    return GaussianDP(gdp_mu(epsilon * (1 - RESERVE), delta * (1 - RESERVE)))


def _laplace_i64(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    return np.asarray(_opendp("laplace", scale)(values), dtype=np.int64)


def _gaussian_i64(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    return np.asarray(_opendp("gaussian", scale)(values), dtype=np.int64)


def _simulate(
    kind: str, scale: float, size: int | tuple[int, ...], stream: np.random.SeedSequence
) -> NDArray:
    rng = np.random.default_rng(stream)
    draw = rng.laplace if kind == "laplace" else rng.normal
    return np.rint(draw(0.0, scale, size)).astype(np.int64)


@lru_cache(maxsize=1)
def _library() -> Any:
    """Return OpenDP, imported late: it takes a quarter of a second."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def load_noise() -> None:
    """Load what draws noise, before a release is paid for.

    Raises
    ------
    RuntimeError
        If OpenDP cannot be loaded. Whatever it raises itself is the cause.
    """
    try:
        dp = _library()
        dp.vector_domain(dp.atom_domain(T="i64"))  # by the binary, which may be of another machine
    except Exception as error:
        raise RuntimeError(
            f"Noise cannot be drawn, for OpenDP cannot be loaded ({error}). Nothing was charged. "
            "Install opendp again (pip install --force-reinstall opendp), or correct the "
            "environment variable OPENDP_LIB_DIR if you set it."
        ) from error


@lru_cache(maxsize=128)
def _opendp(kind: str, scale: float) -> Callable[[NDArray[np.int64]], list[int]]:
    dp = _library()
    domain = dp.vector_domain(dp.atom_domain(T="i64"))  # T=int would be i32 and saturate
    if kind == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)


_SEED: ContextVar[int | None] = ContextVar("seed of the noise", default=None)


@contextmanager
def simulation(seed: int) -> Iterator[None]:
    """Fit with noise from a seed: a simulation, which can be repeated and protects nobody.

    All that is fitted inside draws its noise and its secret coins from `seed`, and says so for
    good: in a `PrivacyLeakWarning`, in ``privacy_.simulated``, in its repr and in its files. Use it
    for experiments and tests. For a release, fit outside: whoever knows the seed can take the noise
    off.

    A fit asks for the seed once, as it begins. So a learner that answers questions later (PINP)
    draws from the seed if it was fitted inside, wherever you ask it, and from the operating system
    if it was fitted outside. Simulations may be nested: the inner one holds.

    A simulation reaches the trials of a `PrivateSearchCV` wherever they run, and otherwise this
    thread alone (with asyncio, this task), and forks of the process. Fits that joblib or you start
    in other threads and processes are releases, unless they begin a simulation there.

    Parameters
    ----------
    seed : int
        At least 0. Each fit inside starts from it again, as with ``random_state=0`` in
        scikit-learn: two fits of the same estimator draw the same noise. Take another seed for each
        repetition.

    Raises
    ------
    ValueError
        If `seed` is no such number. Inside, ledgers in files raise it: a simulation must not spend
        a real budget. A `PrivacyLedger` without a path counts simulations, and marks its entries.

    See Also
    --------
    PrivacyGuarantee : Its `simulated` tells simulations from releases.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsumm import HistogramSketcher, simulation
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> sketcher, means = HistogramSketcher((0, 1)), []
    >>> for seed in (0, 0, 1):
    ...     with simulation(seed):
    ...         means.append(sketcher.fit(X).sketch_.mean)
    >>> np.array_equal(means[0], means[1]), np.array_equal(means[1], means[2])
    (True, False)
    >>> sketcher.privacy_.simulated, sketcher.fit(X).privacy_.simulated
    (True, False)
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be an int of at least 0, got {seed!r}.")
    with drawing_from(int(seed)):
        yield


@contextmanager
def drawing_from(noise_seed: int | None) -> Iterator[None]:
    """Have fits inside draw from a seed that an outer fit took; None draws real noise."""
    token = _SEED.set(noise_seed)
    try:
        yield
    finally:
        _SEED.reset(token)


def current_seed() -> int | None:
    """Return the seed of the simulation that this code runs in, None outside.

    A release asks for it once, as it begins.
    """
    return _SEED.get()


def derived_seed(noise_seed: int | None, *key: int) -> int | None:
    """Return a seed of its own for each key; None where noise comes from the system."""
    if noise_seed is None:
        return None
    return int(np.random.SeedSequence(noise_seed, spawn_key=key).generate_state(1, np.uint64)[0])


def secret_key(noise_seed: int | None) -> bytes:
    """Return 32 bytes for coins that are keyed hashes; from the system, or of a simulation."""
    if noise_seed is None:
        return secrets.randbits(256).to_bytes(32, "big")
    return (
        np.random.SeedSequence(noise_seed, spawn_key=_STREAM_OF_KEYS)
        .generate_state(4, np.uint64)
        .tobytes()
    )


def exponential_choice(
    scores: NDArray[np.int64], scale: float, rng: np.random.Generator | None = None
) -> int:
    """Return an index drawn with weight ``exp(scores / scale)``.

    Where every score can move by at most Delta, this is ``2 Delta / scale``-DP and
    ``(Delta / scale)**2 / 2``-zCDP (bounded range).

    Parameters
    ----------
    scores : ndarray of int64, shape (m,)
    scale : float
    rng : numpy Generator, default=None
        For simulations, in floating point. None draws from the system's entropy through OpenDP.
    """
    if rng is None:
        return int(_noisy_max(scale)(scores))
    behind = scores - scores.max()  # first, for float64 has fewer digits than int64
    return int(np.argmax(behind / scale + rng.gumbel(size=len(scores))))


@lru_cache(maxsize=128)
def _noisy_max(scale: float) -> Any:
    dp = _library()
    # Under this divergence OpenDP adds Gumbel noise: the exponential mechanism itself.
    return dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T="i64")),
        dp.linf_distance(T="i64"),
        dp.zero_concentrated_divergence(),
        scale=scale,
    )


def secret_generator(noise_seed: int | None) -> np.random.Generator:
    """Return a generator that starts from 256 bits of the system's entropy, or from a seed."""
    return np.random.default_rng(secrets.randbits(256) if noise_seed is None else noise_seed)


def radial_noise(
    shape: tuple[int, ...], scale: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return a vector with density proportional to ``exp(-|xi|_2 / scale)``, in floating point.

    There is no exact sampler for this law, so its guarantees are idealised.
    Added to a vector of L2 sensitivity Delta it is ``Delta / scale``-DP (the K-norm mechanism of
    Hardt and Talwar 2010, for the Euclidean ball). Its length is Gamma distributed.
    """
    direction = rng.standard_normal(shape)
    length = rng.gamma(direction.size, scale)
    return direction * (length / np.linalg.norm(direction))


# ---- the budget of one release that is made in several steps


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
    >>> from skdpsumm.privacy._noise import StepBudget
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
