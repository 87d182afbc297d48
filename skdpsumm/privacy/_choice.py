"""The exponential mechanism, exact on integer scores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    return int(np.argmax(scores / scale + rng.gumbel(size=len(scores))))


@lru_cache(maxsize=128)
def _noisy_max(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    # Under this divergence OpenDP adds Gumbel noise: the exponential mechanism itself.
    return dp.m.make_noisy_max(
        dp.vector_domain(dp.atom_domain(T="i64")),
        dp.linf_distance(T="i64"),
        dp.zero_concentrated_divergence(),
        scale=scale,
    )
