"""The paper's own protocol: Algorithm 3 with PRIVAUCTION. It has no valid guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from .._sklearn import StrOptions
from ..privacy import PureDP
from ..privacy._fit import estimator
from ..privacy._mechanisms import Mechanism, Unprotected, ZeroConcentratedDP, zcdp_rho
from ._curator import Curator
from ._mmd import Embedding, grid_scores
from ._mwem import MWEM, MWEMNoise, quantise
from ._protocol import SHARED_CONSTRAINTS, CallForBids, Conversation, HandOver, Protocol
from ._releases import MWEMMean, Plan, TargetMean, Terms, require_n_target

# The paper's Table 1.
TARGET_EPSILON, FIRST_STEPS, LATER_STEPS = 0.01, 1656, 5
FIRST_EPSILON, LATER_EPSILON = 0.05, 0.01
NO_GUARANTEE_OF_AUCTION = (
    "in one round of the auction, whether an owner is asked for its best row has probability 0 of "
    "'no' without some row of another owner and 1 - exp(-epsilon_auction) with it, so delta is at "
    "least that at every epsilon (and nothing bounds it over rounds)"
)


@estimator
class Auction(Protocol):
    """Algorithm 3 of the paper: p rounds of bids, PRIVAUCTION, h1 and h2. No valid guarantee.

    Use it to compare with the paper: it runs as printed. In each round owners bid with their best
    row. The i-th highest bidder is asked for it with probability ``exp(-epsilon_auction (i - 1))``,
    and in any case when it has bid the same row tau times. The curator adds the best row it holds,
    by the broadcast directions.

    Parameters
    ----------
    bid : {"corrected", "printed"}, default="corrected"
        How a row is scored. "corrected" is the marginal gain of J, ``<g~ - q/(q+1) g, h1(x)>``, and
        the default since it chooses rows like the target's. "printed" is step 6 of the paper, whose
        sign is wrong and whose weight is on the wrong term: it chooses rows far from the target.
    calibration : {"corrected", "printed"}, default="corrected"
        How much noise h2 has. "corrected" gives h2 of the target, and all h2 of the summary
        together, the true cost (epsilon, delta) each, which is what you asked for. "printed" takes
        the paper's numbers (Table 1: eps_v = 0.01 with T = 1656; 0.05 for the first, 0.01 / sqrt(5
        p) for all other rounds with T = 5), whose true cost `privacy_` states.
    X_seed : array-like of shape (s, n_columns), default=None
        D_init, public rows that the summary starts with and that are left out at the end. Give
        vectors of them where the tables have a schema. None is none: they stay in the objective,
        and pull the choice away from the target.
    n_target, max_share_per_owner : see `Protocol`
        What is public of the target, and how much of the summary may be one owner's.

    Notes
    -----
    *Numbers of the paper.* ``epsilon_auction`` is ``epsilon K^(-1/3) / (3 sqrt(2 ln(1/delta)))``,
    and tau is ``K^(2/3)``, rounded up. eta, the step of the quantisation and of h2's grid, is ``1 /
    d`` with calibration="printed", as in Theorem 2; else there is no grid, which would only add
    variance.

    *What each party sees.* An owner: h1, g~, g_l and whether it is asked, in each of p rounds. The
    curator: D_v, all bids, the rows asked for. *Guarantee.* For the target: that of h2, as a
    single release. For the owners' rows: none. A row x that outbids owner j's best turns j from
    first to second, and the event "j is not asked" from impossible to probability
    ``1 - exp(-epsilon_auction)``: no delta below that holds, at any epsilon. Nor do "bad rounds"
    bound it: asks that owner j does not see change what others bid later. h2's part alone is exact:
    ``T epsilon^2 Delta^2``-zCDP per call as printed, Delta = 2 (4 under replace-one), for a row
    more among the owners' swaps a row of D_s for another.

    *Cost.* About ``p (K / tau + 1 / epsilon_auction)`` rows, at most K p, which it nearly reaches
    for K below 20; p rounds; up to 2 p messages per owner.

    Source: Algorithms 1, 2 and 3, Theorem 2 and Table 1 of the paper.
    """

    embedding_kind: ClassVar[str] = "cosines"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "bid": [StrOptions({"corrected", "printed"})],
        "calibration": [StrOptions({"corrected", "printed"})],
        "X_seed": "no_validation",
    }

    bid: Any = field(default="corrected", kw_only=False)
    calibration: Any = field(default="corrected", kw_only=False)
    X_seed: Any = field(default=None, kw_only=False)

    def is_nominal(self) -> bool:
        return self.calibration == "corrected"

    def plan(self, embedding: Embedding, terms: Terms) -> Plan:
        target = self.plan_target(embedding, terms)
        self._seed_grid(embedding)  # refuses bad seeds before anything is charged
        if not terms.is_private:
            return Plan(target, Unprotected("epsilon is infinite and no noise was added"))
        calls = self._summary_calls(embedding, terms)
        if terms.delta == 0 and self.calibration == "corrected":
            cost: Mechanism = PureDP(terms.epsilon)
        else:
            cost = ZeroConcentratedDP(sum(mwem.rho for mwem in calls[1:]))
        return Plan(target, Unprotected(NO_GUARANTEE_OF_AUCTION), calls, h2=cost)

    def plan_target(self, embedding: Embedding, terms: Terms) -> TargetMean | None:
        if self.calibration == "corrected" or not terms.is_private:
            return super().plan_target(embedding, terms)
        sensitivity = 2 if terms.adjacency == "replace_one" else 1
        options = {"grid_step": self._grid_step(embedding)}
        mwem = MWEM.as_printed(TARGET_EPSILON, FIRST_STEPS, sensitivity, **options)
        return MWEMMean(embedding, require_n_target(terms.n_target, "calibration='printed'"), mwem)

    def _grid_step(self, embedding: Embedding) -> float | None:
        return None if self.calibration == "corrected" else 1 / embedding.n_features

    def _summary_calls(self, embedding: Embedding, terms: Terms) -> list[MWEM]:
        """Return h2 for each round. The first sees public seeds only, and costs nothing."""
        sensitivity = 4 if terms.adjacency == "replace_one" else 2
        p, step = terms.n_select, self._grid_step(embedding)
        options: dict[str, Any] = {"grid_step": step, "average": self.calibration == "printed"}
        if self.calibration == "corrected":
            make: Callable[..., MWEM] = MWEM.for_pure
            total = terms.epsilon
            if terms.delta:
                make, total = MWEM.for_zcdp, zcdp_rho(terms.epsilon, terms.delta)
            rest = make(total / max(p - 1, 1), LATER_STEPS, sensitivity, **options)
            first = make(total, FIRST_STEPS, sensitivity, **options)
        else:
            rest_epsilon = LATER_EPSILON / math.sqrt(p * LATER_STEPS)
            rest = MWEM.as_printed(rest_epsilon, LATER_STEPS, sensitivity, **options)
            first = MWEM.as_printed(FIRST_EPSILON, FIRST_STEPS, sensitivity, **options)
        return [first] + [rest] * (p - 1)

    def converse(self, curator: Curator, plan: Plan) -> Conversation:
        embedding, terms = curator.embedding, curator.terms
        seeds = self._seed_grid(embedding)
        summary = _Summary(curator, plan.release, self._grid_step(embedding), seeds)
        grid = np.empty((0, embedding.n_features), np.float32)
        asked_before: dict[Any, tuple[int, int]] = {}
        chosen: list[int] = []
        for k in range(terms.n_select):
            direction = embedding.quantise(
                self._direction(curator.target_mean, summary.mean(k, grid[chosen]), k, len(seeds))
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

    def _direction(self, target: NDArray, mean: NDArray, k: int, n_seeds: int) -> NDArray:
        """Return the direction of bids in round l = k + 1."""
        if self.bid == "printed":
            return mean - (k + 1) / (k + 2) * target
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


@dataclass
class _Summary:
    """g_l, the mean of h1 over seeds and chosen rows, by h2 with a warm start."""

    curator: Curator
    calls: list[MWEM] | None
    grid_step: float | None
    seeds: NDArray
    tilt: NDArray | None = None

    def __post_init__(self) -> None:
        self.noise = MWEMNoise(self.curator.release_seed)

    def mean(self, k: int, chosen: NDArray) -> NDArray:
        """Return the mean in round l = k + 1, over ``q = k + len(seeds)`` rows; q is public."""
        rows = np.vstack([self.seeds, chosen])
        q = k + len(self.seeds)
        if q == 0:
            return np.zeros(rows.shape[1])
        if self.calls is None:
            return rows.sum(axis=0, dtype=np.float64) / q * self.curator.embedding.unit
        rounded = quantise(rows, self.grid_step, self.curator.coins)
        values = rounded.sum(axis=0, dtype=np.float64).astype(np.int64)
        means, self.tilt = self.calls[k].release(values, q, self.noise, self.tilt)
        return means * self.curator.embedding.scale
