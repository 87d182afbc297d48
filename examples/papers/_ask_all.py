"""The corrected algorithm of the paper's figures: the greedy choice without an auction.

Every owner sends its best rows in every round, and each round's release is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdpsumm._sklearn import Interval
from skdpsumm.privacy import PureDP
from skdpsumm.privacy._noise import Block, IntegerNoise
from skdpsumm.summaries import Curator, DataOwner
from skdpsumm.summaries._mmd import Embedding, grid_scores
from skdpsumm.summaries._protocol import (
    SHARED_CONSTRAINTS,
    Conversation,
    Message,
    Plan,
    Protocol,
    Rows,
    Terms,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SendBest(Message):
    """Hand over the `n` rows with the largest ``<direction, phi(x)>``."""

    direction: NDArray
    n: int

    def most_rows(self) -> float:
        return self.n


@DataOwner._answer.register
def _send_best(self, message: SendBest) -> Rows:
    candidates = np.flatnonzero(self._remaining)
    # The sort is stable: rows with equal scores keep their order.
    order = np.argsort(-self._scores(message.direction)[candidates], kind="stable")
    return self._hand_over(candidates[order[: message.n]])


class AskAll(Protocol):
    """R rounds; in each, every owner sends its best b = p / R rows in the posted direction.

    The curator keeps the best b of all it holds, also by the posted direction, and posts the next
    direction from the noisy sum of what it has kept. At the end it chooses exactly among all rows
    received.

    Parameters
    ----------
    n_rounds : int, default=10
        R. More rounds follow the greedy choice more closely, at sqrt(R) times the noise; the
        default is a compromise.
    n_target, max_share_per_owner : as of `Propose`

    Notes
    -----
    *What each party sees.* An owner: phi and R directions. The curator: D_v and K p rows.
    *Guarantee.* (1) Who is asked, and for how many rows, is public, so only directions tell
    anything. (2) The curator's pool and the owners' next offers always hold the best b of all rows
    not kept; so, given the directions, what is kept is the greedy choice over the union. (3) With
    one row x more, it holds at every time the same rows, or x in the place of one other, or x
    besides where rows have run out: its sum of phi moves by at most 2, by 4 if a row is replaced.
    (4) The sum is released with Gaussian noise before each round but the first: mu = 2 sqrt(R - 1)
    / sigma. (5) Which row was displaced changes with time, so each round is charged by itself;
    noise for prefix sums would not be valid here. Scores are exact, ties go to the first row: the
    order of rows is the same in both worlds. Rows of an owner that was left out are not kept any
    more, for those that it has not sent cannot be either; the final choice may take them.

    *Cost.* K p rows; R messages per owner; R rounds. For few owners.

    *Proof of (3).* Fix the broadcasts. Let S be the rows kept, and U those that are not. Before the
    choice the curator holds the best b of U: each owner has just sent its best b that it had not
    sent, and what it sent earlier is in the pool. So S grows by the best b of U, whoever they are
    with. Add x, and let U' = U + e, at first with e = x. As long as e is not among the best b of
    U', both worlds keep the same rows. When it is, e is kept in place of the b-th best, which is
    the new e (or in addition, where there are fewer than b). So at any time S' = S, S' = S + x - e,
    or S' = S + x: its sum of phi moves by at most 2. An owner that drops out takes e with it, or
    not, in both worlds alike, since its rows in the pool are no longer candidates. A replaced row
    is two such moves. The displaced row changes with time, so each round's release is charged. The
    fate of a row must depend on no other row: features lie on a grid, directions have so few bits
    that products and sums are exact, and ties go to the first row.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_rounds=10, *, n_target=None, shares=None, max_share_per_owner=None):
        super().__init__(n_target=n_target, shares=shares, max_share_per_owner=max_share_per_owner)
        self.n_rounds = n_rounds

    def plan(self, embedding: Embedding, terms: Terms) -> Plan:
        target = self.plan_target(embedding, terms)
        n_releases = min(int(self.n_rounds), terms.n_select) - 1
        if n_releases == 0:
            return Plan(target, PureDP(0.0), None)
        # Each swap moves the sum by two rows' phi: one that comes and one that it displaces.
        l1, l2 = (terms.rows_moved * size for size in embedding.sensitivity(2))
        # The row that is displaced changes from round to round, so each release is paid for.
        blocks = [Block(embedding.n_features, l1, l2, 1 / n_releases)] * n_releases
        noise = IntegerNoise(blocks, epsilon=terms.epsilon, delta=terms.delta)
        return Plan(target, noise.mechanism, noise)

    def converse(self, curator: Curator, plan: Plan) -> Conversation:
        embedding, p = curator.embedding, curator.terms.n_select
        n_rounds = min(int(self.n_rounds), p)
        kept: list[int] = []
        grid = np.empty((0, embedding.n_features), np.float32)
        direction = embedding.quantise(curator.target_mean)
        q = 0
        for k in range(n_rounds):
            b = math.ceil(p * (k + 1) / n_rounds) - q
            yield {
                owner: curator.message(SendBest, direction=direction, n=b)
                for owner in curator.active_owners
            }
            grid = np.vstack([grid, curator.received_grid(len(grid))])
            kept += self._best(curator, grid_scores(grid, direction, embedding.unit), kept, b)
            q += b  # public, also where rows have run out
            if k < n_rounds - 1:
                sums = grid[kept].sum(axis=0, dtype=np.float64).astype(np.int64)
                noisy = plan.release.add_block(k, sums, curator.release_seed)
                mean = noisy / q * embedding.unit
                # What a further row adds to J, up to what is the same for all rows.
                direction = embedding.quantise(curator.target_mean - q / (q + 1) * mean)
        return curator.best_of_pool()

    def _best(self, curator: Curator, scores: NDArray, kept: list[int], b: int) -> list[int]:
        """Return the best b places not kept yet; ties by owner and index, not by arrival."""
        position = {owner: k for k, owner in enumerate(curator.shares)}
        free = curator.live_places(kept)
        names = [curator.pool.origins[place] for place in free]
        # Not by arrival: one row more may have changed who sent what first, and nothing else.
        order = sorted(
            range(len(free)), key=lambda i: (-scores[free[i]], position[names[i][0]], names[i][1])
        )
        return free[order[:b]].tolist()
