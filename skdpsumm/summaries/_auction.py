"""The paper's own protocol: Algorithm 3 with PRIVAUCTION, and its h2. It has no valid guarantee.

h2 is Algorithm 2, multiplicative weights with the exponential mechanism, for a mean embedding: with
the calibration that its guarantee needs. Every distribution P_t of it is a product of exponential
tilts of the uniform law on [-1, 1], so one number per coordinate is all the state there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ..features._feature_maps import GRID
from ..privacy._mechanisms import Mechanism, PureDP, Unprotected, ZeroConcentratedDP, zcdp_rho
from ..privacy._noise import Block, IntegerNoise, check_scale, exponential_choice
from ._mmd import Embedding, grid_scores
from ._parties import Curator
from ._protocol import (
    SHARED_CONSTRAINTS,
    CallForBids,
    Conversation,
    HandOver,
    Plan,
    Protocol,
    Terms,
)

# Steps T of the paper's Table 1.
FIRST_STEPS, LATER_STEPS = 1656, 5
NO_GUARANTEE_OF_AUCTION = (
    "in one round of the auction, whether an owner is asked for its best row has probability 0 of "
    "'no' without some row of another owner and 1 - exp(-epsilon_auction) with it, so delta is at "
    "least that at every epsilon (and nothing bounds it over rounds)"
)


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


class Auction(Protocol):
    """Algorithm 3 of the paper: p rounds of bids, PRIVAUCTION, h1 and h2. No valid guarantee.

    Use it to compare with the paper. In each round owners bid with their best row. The i-th highest
    bidder is asked for it with probability ``exp(-epsilon_auction (i - 1))``, and in any case when
    it has bid the same row tau times. The curator adds the best row it holds, by the broadcast
    directions.

    Parameters
    ----------
    X_seed : array-like of shape (s, n_columns), default=None
        D_init, public rows that the summary starts with and that are left out at the end. Give
        vectors of them where the tables have a schema. None starts with no rows. Seeds stay in the
        objective, and pull the choice away from the target.
    n_target, max_share_per_owner : see `Protocol`
        What is public of the target, and how much of the summary may be one owner's.

    Notes
    -----
    *Numbers of the paper.* ``epsilon_auction`` is ``epsilon K^(-1/3) / (3 sqrt(2 ln(1/delta)))``,
    and tau is ``K^(2/3)``, rounded up. The mean of the target, which `Propose` releases alike, and
    all h2 of the summary together cost (epsilon, delta) each. There is no grid, which would only
    add variance. A bid is the marginal gain of J, ``<g~ - q/(q+1) g, h1(x)>``: step 6 of the paper
    has the wrong sign.

    *What each party sees.* An owner: h1, g~, g_l and whether it is asked, in each of p rounds. The
    curator: D_v, all bids, the rows asked for. *Guarantee.* For the target: (epsilon, delta), as a
    single release. For the owners' rows: none. A row x that outbids owner j's best turns j from
    first to second, and the event "j is not asked" from impossible to probability ``1 -
    exp(-epsilon_auction)``: no delta below that holds, at any epsilon. Nor do "bad rounds" bound
    it: asks that owner j does not see change what others bid later. The part of h2 alone is exact.
    Its sensitivity is 2 (4 under replace-one), because one more row among the owners' swaps a row
    of D_s for another.

    *Cost.* About ``p (K / tau + 1 / epsilon_auction)`` rows, at most K p, which it nearly reaches
    for K below 20; p rounds; up to 2 p messages per owner.

    Source: Algorithms 1, 2 and 3, Theorem 2 and Table 1 of the paper.
    """

    embedding_kind: ClassVar[str] = "cosines"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "X_seed": "no_validation",
    }

    def __init__(
        self,
        X_seed: Any = None,
        *,
        n_target: int | None = None,
        shares: Mapping[Any, float] | None = None,
        max_share_per_owner: float | None = None,
    ):
        super().__init__(n_target=n_target, shares=shares, max_share_per_owner=max_share_per_owner)
        self.X_seed = X_seed

    def plan(self, embedding: Embedding, terms: Terms) -> Plan:
        target = self.plan_target(embedding, terms)
        self._seed_grid(embedding)  # refuses bad seeds before anything is charged
        if not terms.is_private:
            return Plan(target, Unprotected("epsilon is infinite and no noise was added"))
        calls = self.summary_calls(embedding, terms)
        h2 = self.cost_of_calls(calls, terms)
        return Plan(target, Unprotected(NO_GUARANTEE_OF_AUCTION), calls, h2=h2)

    def summary_calls(self, embedding: Embedding, terms: Terms) -> list[MWEM]:
        """Return h2 for each round. The first sees public seeds only, and costs nothing."""
        sensitivity = 4 if terms.adjacency == "replace_one" else 2
        n_later = max(terms.n_select - 1, 1)
        make: Callable[..., MWEM] = MWEM.for_zcdp if terms.delta else MWEM.for_pure
        total = zcdp_rho(terms.epsilon, terms.delta) if terms.delta else terms.epsilon
        first = make(total, FIRST_STEPS, sensitivity)
        return [first] + [make(total / n_later, LATER_STEPS, sensitivity)] * (terms.n_select - 1)

    def cost_of_calls(self, calls: list[MWEM], terms: Terms) -> Mechanism:
        """Return what all calls that see rows of owners cost together."""
        if terms.delta == 0:
            return PureDP(terms.epsilon)
        return ZeroConcentratedDP(sum(mwem.rho for mwem in calls[1:]))

    def rounded(self, rows: NDArray, embedding: Embedding, coins: np.random.Generator) -> NDArray:
        """Return rows of phi, in whole grid units, as h2 sums them up: as they are."""
        return rows

    def converse(self, curator: Curator, plan: Plan) -> Conversation:
        embedding, terms = curator.embedding, curator.terms
        seeds = self._seed_grid(embedding)
        mean_of = self._summary_means(curator, plan.release, seeds)
        grid = np.empty((0, embedding.n_features), np.float32)
        asked_before: dict[Any, tuple[int, int]] = {}
        chosen: list[int] = []
        for k in range(terms.n_select):
            direction = embedding.quantise(
                self.direction(curator.target_mean, mean_of(k, grid[chosen]), k, len(seeds))
            )
            bids = yield {
                owner: curator.message(CallForBids, direction=direction)
                for owner in curator.active_owners
            }
            wanted = self._ask(bids, asked_before, curator)
            if wanted:
                yield {owner: curator.message(HandOver) for owner in wanted}
            received = curator.received_grid(len(grid))
            scores = grid_scores(received, direction, embedding.unit)
            self._verify(curator, {owner: bids[owner] for owner in wanted}, scores)
            grid = np.vstack([grid, received])
            free = curator.live_places(chosen)
            if len(free) == 0:
                continue  # the number of messages tells nothing of the number of rows
            scores = grid_scores(grid[free], direction, embedding.unit)
            chosen.append(int(free[scores.argmax()]))
        return np.array(chosen, np.int64)

    def _summary_means(
        self, curator: Curator, calls: list[MWEM] | None, seeds: NDArray
    ) -> Callable[[int, NDArray], NDArray]:
        """Return what computes g_l, the mean of h1 over seeds and chosen rows, by h2."""
        embedding, noise = curator.embedding, MWEMNoise(curator.release_seed)
        tilt: NDArray | None = None  # a warm start

        def mean_of(k: int, chosen: NDArray) -> NDArray:
            # In round l = k + 1 there are q rows, a public number.
            nonlocal tilt
            rows, q = np.vstack([seeds, chosen]), k + len(seeds)
            if q == 0:
                return np.zeros(rows.shape[1])
            if calls is None:
                return rows.sum(axis=0, dtype=np.float64) / q * embedding.unit
            rounded = self.rounded(rows, embedding, curator.coins)
            values = rounded.sum(axis=0, dtype=np.float64).astype(np.int64)
            means, tilt = calls[k].release(values, q, noise, tilt)
            return means * embedding.scale

        return mean_of

    def direction(self, target: NDArray, mean: NDArray, k: int, n_seeds: int) -> NDArray:
        """Return the direction of bids in round l = k + 1."""
        q = k + n_seeds
        return target - q / (q + 1) * mean

    def _ask(self, bids: dict[Any, Any], before: dict[Any, Any], curator: Curator) -> list[Any]:
        """Return who is asked for its row: steps 12 to 14."""
        n_owners = len(curator.shares)
        epsilon, tau = self._auction_terms(curator.terms, n_owners)
        bidders = [owner for owner in bids if bids[owner].index >= 0]
        ranked = sorted(bidders, key=lambda owner: -bids[owner].score)
        tosses = curator.coins.random(n_owners)  # for all places, whoever has bid
        wanted = []
        for rank, owner in enumerate(ranked):
            index = bids[owner].index
            last, times = before.get(owner, (-1, 0))
            times = times + 1 if index == last else 1
            if tosses[rank] < math.exp(-epsilon * rank) or times >= tau:
                wanted.append(owner)
            before[owner] = (index, times)
        return wanted

    def _verify(self, curator: Curator, bids: dict[Any, Any], scores: NDArray) -> None:
        """Leave out who did not hand over the row that it had bid with: step 8."""
        origins = curator.pool.origins[len(curator.pool) - len(scores) :]
        sent = {owner: (i, s) for (owner, i), s in zip(origins, scores.tolist(), strict=True)}
        # Scores are exact, so an honest owner's bid is the score of its row to the last bit.
        for owner, bid in bids.items():
            if sent.get(owner) != (bid.index, bid.score):
                fault = "did not hand over the row that it had bid with"
                curator.dropped_owners.setdefault(owner, fault)

    def _auction_terms(self, terms: Terms, k: int) -> tuple[float, int]:
        tau = math.ceil(k ** (2 / 3))
        if not terms.is_private:
            return 0.0, tau
        delta = terms.delta or 1e-6  # the paper's formula has no value at 0
        return terms.epsilon * k ** (-1 / 3) / (3 * math.sqrt(2 * math.log(1 / delta))), tau

    def _seed_grid(self, embedding: Embedding) -> NDArray[np.float32]:
        if self.X_seed is None:
            return np.empty((0, embedding.n_features), np.float32)
        seeds = check_array(self.X_seed, dtype=np.float64)
        if seeds.shape[1] != embedding.n_columns:
            raise ValueError(
                f"X_seed has {seeds.shape[1]} columns, but the target has {embedding.n_columns}; "
                "give public rows of the same table."
            )
        return embedding.grid(seeds)
