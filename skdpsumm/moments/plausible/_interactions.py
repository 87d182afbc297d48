"""How columns go together where nobody counted it: random interactions of size phi.

The model takes a pair that no group holds to be as independent as all counts allow. How far the
truth is from that, other pairs tell, by how far they were from the model before they were counted
(`TableModel.phi`). A plausible table has an interaction of that size, white in functions that are
orthonormal under the margins, so that all that fewer columns tell stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inferring._table_model import TableModel
from ._numbers import ALIGNED

Floats = NDArray[np.float64]
Group = tuple[int, ...]
_SMALLEST = 1e-300


def interaction(
    model: TableModel, part: Group, n_tables: int, stream: Callable[..., np.random.Generator]
) -> Floats:
    """Return random interactions of two or three columns, in shares of the rows.

    Returns
    -------
    ndarray of shape (n_tables, *sizes of the columns)
        Sums along any axis are 0.
    """
    margins = [np.maximum(model.table((a,)), 0.0) for a in part]
    roots = [np.sqrt(m / max(m.sum(), _SMALLEST)) for m in margins]
    rng = stream("interaction", part)
    white = rng.standard_normal((n_tables, *map(len, roots)))
    for k, root in enumerate(roots):
        along = np.moveaxis(white, k + 1, -1)
        along -= (along * root).sum(axis=-1, keepdims=True) * root
    if len(part) == 2:
        white += _up_and_down(model, part, roots, rng, n_tables)
    for k, root in enumerate(roots):
        white *= root.reshape([-1 if a == k else 1 for a in range(len(roots))])
    return white * math.sqrt(model.square_of(part))


def _up_and_down(
    model: TableModel, pair: Group, roots: list[Floats], rng: np.random.Generator, n_tables: int
) -> Any:
    """Return how two numbers go up and down together, beyond what white interactions have of it."""
    if any(model.cells[a].edges is None for a in pair):
        return 0.0
    told = model.told_of_ranks(pair[0]) * model.told_of_ranks(pair[1])
    more = math.sqrt(max(ALIGNED / told - 1.0, 0.0))
    ranked = [root * model.ranks(j) for root, j in zip(roots, pair, strict=True)]
    return more * rng.standard_normal((n_tables, 1, 1)) * np.multiply.outer(*ranked)
