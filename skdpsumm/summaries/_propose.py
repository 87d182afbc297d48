"""The default protocol: owners propose once, the curator chooses exactly."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from sklearn.utils._param_validation import Interval

from ._messages import ProposeRows
from ._protocol import Conversation, Plan, Protocol

if TYPE_CHECKING:
    from ._curator import Curator


class Propose(Protocol):
    """One round trip: a noisy target goes out, proposals come back, the curator chooses exactly.

    Parameters
    ----------
    parsimony : float, default=4.0
        Rows that the curator receives for each row that it keeps. From 2 to 4 halved MMD^2, from 4
        to 6 took a fifth off it.
    explore : float, default=0.25
        Part of each owner's proposals that is drawn uniformly at random. The rest is chosen by
        kernel herding towards the noisy target. With 1 nothing is broadcast at all (`Pool`). The
        default was never far from the best (docs/summaries.md has the study): more is better where
        noise is large and the target common among the owners' rows, less where it is rare.

    Notes
    -----
    *What each party sees.* An owner: the public embedding phi, the noisy mean embedding of D_v and
    how many rows to propose, all in one message. The curator: D_v and all proposals. The consumer:
    the summary, real rows.

    *Guarantee.* (1) The number of rows asked of an owner, ``parsimony p share_k``, is public.
    (2) So all that any coalition of owners receives is one release of D_v and public numbers: it is
    independent of the other owners' rows, 0-DP for them, whatever the coalition does. (3) The
    release is one Gaussian (or Laplace, or MWEM) mechanism on the sum of phi over D_v, so the view
    is (epsilon, delta)-DP for D_v. (4) Whatever the curator does with D_v and the proposals reaches
    no owner. (5) It stays true only if owners are never told which proposals were chosen, and are
    paid per row proposed (or by `PrivateMMDSummarizer.noisy_owner_values`).

    *Cost.* ``parsimony p`` rows, and at most one more per owner for rounding up; two messages per
    owner; one round.

    Source: ours; it replaces Algorithm 3 of the paper.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "parsimony": [Interval(Real, 1, 1e9, closed="both")],
        "explore": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(self, parsimony=4.0, explore=0.25):
        self.parsimony = parsimony
        self.explore = explore

    def broadcasts_target(self) -> bool:
        return self.explore < 1

    def converse(self, curator: Curator, plan: Plan) -> Conversation:
        asked = {}
        for owner, share in curator.shares.items():
            n = math.ceil(self.parsimony * curator.terms.n_select * share - 1e-9)
            n_uniform = round(self.explore * n)
            asked[owner] = curator.first_message(
                ProposeRows,
                n_herd=n - n_uniform,
                n_uniform=n_uniform,
                direction=curator.target_mean,
            )
        yield asked
        return curator.best_of_pool()


class Pool(Propose):
    """Owners send rows drawn at random; the curator chooses exactly. Nothing is broadcast.

    `Propose` with ``explore=1``: owners learn nothing of the target either, which costs no epsilon
    at all. It is the baseline that every other protocol has to beat, and for targets that are
    common among the owners' rows it is hard to beat.

    Parameters
    ----------
    parsimony : float, default=4.0
        As in `Propose`.

    Notes
    -----
    *What each party sees.* An owner: how many rows to send. *Guarantee.* 0-DP for the other owners
    and for D_v: an owner's view consists of public numbers. *Cost.* As `Propose`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "parsimony": Propose._parameter_constraints["parsimony"]
    }

    def __init__(self, parsimony=4.0):
        self.parsimony = parsimony

    @property
    def explore(self) -> float:
        """All proposals are random."""
        return 1.0
