"""Posted threshold: rounds of feedback whose noise grows with the logarithm of their number."""

from __future__ import annotations

import math
from dataclasses import field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._sklearn import Interval
from ..features._feature_maps import GRID
from ..privacy._fit import estimator
from ..privacy._mechanisms import Mechanism
from ..privacy._noise import Block, IntegerNoise
from ._mmd import Embedding
from ._protocol import Conversation, FillUp, Plan, Protocol, SendAbove, rows_of_share

if TYPE_CHECKING:
    from ._curator import Curator
    from ._protocol import Terms

# Coefficients of the matrix factorisation are whole multiples of 2**-_BITS.
_BITS = 12
# How much one received row counts in the channel that counts rows, beside phi, whose norm is 1. A
# half makes the noise of phi an eighth larger than without the channel; a 1 would add two fifths.
_COUNT_SCALE = 0.5


class RunningSums:
    """Private prefix sums of a stream, by the square root factorisation of the prefix matrix.

    With the lower triangular Toeplitz matrix C of coefficients ``c_0 = 1, c_k = c_{k-1} (2k - 1) /
    (2k)``, rounded to a public grid, the release of round l is row l of ``C x + z`` with noise z
    of one scale; prefix sums are ``A C^-1`` times that, for the triangle A of ones.

    Parameters
    ----------
    n_rounds : int
        R.
    size : int
        Length of the vectors in the stream.
    l1, l2 : float
        By how much the integer vectors of the stream may change: the sum of their norms.
    epsilon, delta : float
        Of all rounds together, also where the stream depends on earlier releases.

    Notes
    -----
    A change by u in round l moves the releases of rounds l, l + 1, ... by ``c_0 u, c_1 u, ...``:
    all together by at most ``||c|| |u|``; changes in several rounds add up. Sources:
    Fichtenberger, Henzinger and Upadhyay (2023); Denisov et al. (2022) for streams chosen
    adaptively.
    """

    def __init__(
        self, n_rounds: int, size: int, l1: float, l2: float, *, epsilon: float, delta: float
    ):
        self.coefficients = _coefficients(n_rounds)
        c = self.coefficients
        # Shares make the scales of all rounds equal.
        shares = c / c.sum() if delta == 0 else c**2 / (c @ c)
        blocks = [
            Block(size, float(k) * l1, float(k) * l2, float(share))
            for k, share in zip(c, shares, strict=True)
        ]
        self._noise = IntegerNoise(blocks, epsilon=epsilon, delta=delta)
        self.mechanism: Mechanism = self._noise.mechanism
        self._decode = _series_quotient(np.ones(n_rounds), c.astype(float))
        self._stream: list[NDArray] = []
        self._releases: list[NDArray] = []

    def noise_std(self) -> float:
        """Return the standard deviation of the noise in the last sum that was returned."""
        k = len(self._stream)
        return float(np.linalg.norm(self._decode[:k]) * self._noise.std[0])

    def add(self, values: NDArray[np.int64], noise_seed: int | None) -> NDArray[np.float64]:
        """Take the next vector of the stream, and return the noisy sum of all so far."""
        self._stream.append(values)
        k = len(self._stream)
        encoded = np.tensordot(self.coefficients[:k][::-1], np.array(self._stream), axes=1)
        self._releases.append(self._noise.add_block(k - 1, encoded, noise_seed))
        return np.tensordot(self._decode[:k][::-1], np.array(self._releases), axes=1)


def _coefficients(n_rounds: int) -> NDArray[np.int64]:
    k = np.arange(1, n_rounds)
    exact = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    return np.rint(exact * 2**_BITS).astype(np.int64)


def _series_quotient(a: NDArray, b: NDArray) -> NDArray:
    """Return the first coefficients of the quotient of two power series."""
    quotient = np.zeros(len(a))
    for k in range(len(a)):
        quotient[k] = (a[k] - quotient[:k] @ b[k:0:-1]) / b[0]
    return quotient


@estimator
class Posted(Protocol):
    """R rounds of a posted threshold: owners send what lies above it, feedback is noisy sums.

    Each round posts a direction, in which rows are still missing, and a threshold. Every owner
    sends every row above it that it has not sent, each with probability `rate`, until it has sent
    its share. A last question fills up what is missing to half of that, as `Propose` does. At the
    end the curator chooses exactly among what it received.

    Parameters
    ----------
    parsimony : float, default=8.0
        Rows that the curator receives for each row that it keeps: at most so many, and at least
        half of them. The default shows the curator half of what `Propose` shows it, or less. An
        owner with share s hands over no more than ``parsimony p s`` rows in the whole run, and no
        fewer than half of that, if it has them. The thresholds aim at half.
    n_rounds : int, default=30
        R, fixed in advance. It may be large, as the default is: the noise grows only with the
        logarithm of R.

    Notes
    -----
    *What each party sees.* An owner: phi, R directions and thresholds, and the noisy mean of D_v.
    The curator: D_v and the rows sent. *Guarantee.* (1) Fix the broadcasts. In which round a row
    would be sent depends on that row and its own coins alone, and so does its place among those of
    the same round. An owner sends the first n of its rows in that order. (2) So one more row of an
    owner outside the coalition adds (phi(x), s) to the stream of received sums in one round, and
    takes away the row that was the n-th, (phi(z), s), in the same or a later one. (3) Broadcasts
    are post-processing of the noisy prefix sums of that stream and of the release of D_v; what
    answers the last question enters no sum. (4) Prefix sums by matrix factorisation are one
    Gaussian mechanism, also for adaptive streams, with sensitivity ``2 ||c||``, as s is at most 1;
    the same under replace-one, and k times that for a group of which k rows take part. (5) So the
    view is (epsilon, delta)-DP for the rows of all others, and, by a budget of its own, for D_v.
    Scores are exact (`Embedding.quantise`): no row's status depends on another's rounding.

    *Cost.* From ``parsimony p / 2`` to ``parsimony p`` rows, and at most one more per owner for
    rounding up; R + 1 messages per owner; R + 1 rounds.

    Proof: docs/summaries.md, "What a row more changes".
    """

    is_proved_for_groups: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "parsimony": [Interval(Real, 1, 1e9, closed="both")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
    }

    parsimony: float = field(default=8.0, kw_only=False)
    n_rounds: int = field(default=30, kw_only=False)

    def plan(self, embedding: Embedding, terms: Terms) -> Plan:
        l1, l2 = stream_sensitivity(embedding, terms)
        size = embedding.n_features + 1
        budget = {"epsilon": terms.epsilon, "delta": terms.delta}
        sums = RunningSums(int(self.n_rounds), size, l1, l2, **budget)
        return Plan(self.plan_target(embedding, terms), sums.mechanism, sums)

    def rows_agreed(self, n_select: int, share: float) -> int:
        return rows_of_share(self.parsimony * n_select, share)

    def converse(self, curator: Curator, plan: Plan) -> Conversation:
        embedding, sums, p = curator.embedding, plan.release, curator.terms.n_select
        # Half of what may be sent, so that owners whose rows are wanted may send more than others.
        wanted = self.parsimony * p / 2
        posting = _Posting(wanted, int(self.n_rounds))
        received = np.zeros(embedding.n_features + 1, np.int64)
        energy = 0.0 if plan.target is None else plan.target.noise_energy
        start = 0
        for k in range(int(self.n_rounds)):
            # What came in a round is released in the next one; what comes in the last, never.
            noisy = sums.add(received, curator.release_seed)
            n_received = noisy[-1] / _count_unit(embedding)
            unit = embedding.unit
            spread = math.sqrt(embedding.n_features) * sums.noise_std() * unit
            mean = _feedback(noisy[:-1] * unit, n_received, spread)
            direction = embedding.quantise(curator.target_mean - mean)
            # What a row of the target scores on average: without the noise that it shares with g~.
            typical = float(direction @ curator.target_mean) - energy
            posting.adapt(n_received, k)
            # The margin is in units of the direction's length, to mean the same in every round.
            yield {
                owner: curator.message(
                    SendAbove,
                    direction=direction,
                    threshold=typical - posting.margin * float(np.linalg.norm(direction)),
                    rate=posting.rate,
                    n=self.rows_agreed(p, curator.shares[owner]),
                )
                for owner in curator.active_owners
            }
            grid = curator.received_grid(start).astype(np.float64)
            received = np.append(grid.sum(axis=0), len(grid) * _count_unit(embedding)).astype(int)
            start = len(curator.pool)
        yield {
            owner: curator.message(
                FillUp,
                n_herd=rows_of_share(wanted, curator.shares[owner]),
                n_uniform=0,
                direction=curator.target_mean,
                noise=curator.target_noise,
            )
            for owner in curator.active_owners
        }
        return curator.best_of_pool()


def stream_sensitivity(embedding: Embedding, terms: Terms) -> tuple[float, float]:
    """Return by how much neighbours' streams of received sums differ, in L1 and L2, without C.

    At most k rows come and at most k go, each in a round of its own, where k is 1, or how many rows
    of a group take part: a row that comes may put out the last one of its owner, and one that goes
    lets the next one in. This is so for a row that is replaced, too: the new one is out if the old
    one was in, or the other way round, as others are put out from the end only. In a round, what
    comes adds (phi, s), and what goes takes it away. With A and B the sums of the columns of C in
    which rows come and go, of norms up to k |c|, the square of the change is at most
    ``|A + B|^2 + s^2 |A - B|^2``, as |phi| is 1; and that, for s up to 1 and nonnegative columns,
    at most ``4 k^2 |c|^2``.
    """
    bound = terms.max_rows_per_group  # "average" is planned, and then refused
    k = 1 if bound is None or terms.averages else int(bound)
    l1, l2 = embedding.sensitivity(1)
    return 2 * k * (l1 + _count_unit(embedding)), 2 * k * l2


def _feedback(noisy_sum: NDArray, n_received: float, noise_norm: float) -> NDArray:
    """Return the mean over the rows received, shrunk while they are few beside the noise."""
    n = max(n_received, 1.0)
    # Wiener's factor: the energy of the signal over that of signal and noise.
    return noisy_sum / n * (n**2 / (n**2 + noise_norm**2))


class _Posting:
    """Rate and threshold of the next round, from the noisy number of rows received so far.

    The threshold starts at what a typical row of the target scores. How many rows of the owners
    lie above it is unknown, so the rate starts low and follows what it has brought; where all
    rows above the threshold are too few, the threshold sinks.
    """

    def __init__(self, wanted: float, n_rounds: int):
        self.wanted, self.n_rounds = wanted, n_rounds
        # So low that the first round brings 2,000 of a million rows above the threshold.
        self.rate, self.margin = 0.002, 0.0
        self._spent = 0.0

    def adapt(self, n_received: float, round_number: int) -> None:
        """Set `rate` and `margin` for a round."""
        if round_number == 0:
            self._spent = self.rate
            return
        rounds_left = self.n_rounds - round_number
        missing = max(self.wanted - n_received, 0.0) / rounds_left
        per_rate = max(n_received, 1.0) / self._spent
        # All rows above the threshold are sent, and they are too few.
        if self.rate == 1.0 and missing > self.wanted / self.n_rounds:
            self.margin += 0.05
        # At most three times more or less than before, for the count that it follows is noisy.
        self.rate = float(np.clip(missing / per_rate, self.rate / 3, min(1.0, 3 * self.rate)))
        self._spent += self.rate


def _count_unit(embedding: Embedding) -> int:
    """Return what one row adds to the channel that counts rows, in grid units."""
    return round(_COUNT_SCALE * GRID / embedding.scale)
