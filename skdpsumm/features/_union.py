"""Several feature maps side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._base import FeatureMap, check_size
from ._columns import Columns

# One in another is of use; far beyond, Python's stack ends.
DEEPEST_UNION = 16


class UnionMap(FeatureMap):
    """phi(x) = [phi_1(x), ..., phi_k(x)], for maps of the same table.

    Its sensitivity is a matter of the budget of each part, so it is asked of the `parts`.

    Raises
    ------
    ValueError
        For no maps, or maps of different tables, or unions nested deeper than `DEEPEST_UNION`.
    """

    kind = "union"

    def __init__(self, maps: Sequence[FeatureMap]):
        self.maps = tuple(maps)
        if not self.maps:
            raise ValueError("A union needs at least one feature map.")
        self.depth = 1 + max(m.depth if isinstance(m, UnionMap) else 0 for m in self.maps)
        if self.depth > DEEPEST_UNION:
            raise ValueError(f"Unions may be nested {DEEPEST_UNION} deep; list the parts in one.")
        self.columns = self.maps[0].columns
        if any(_table(m.columns) != _table(self.columns) for m in self.maps):
            raise ValueError("The maps of a union must be of one table: its columns, names, units.")
        self.n_features = check_size(sum(m.n_features for m in self.maps))

    def parts(self) -> list[FeatureMap]:
        return [part for m in self.maps for part in m.parts()]

    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(m.n_features for m in self.maps)])

    def matrix(self, X: NDArray) -> NDArray | sparse.csr_array:
        blocks = [m.matrix(X) for m in self.maps]
        if all(sparse.issparse(b) for b in blocks):
            return sparse.hstack(blocks, format="csr")
        return np.hstack([b.toarray() if sparse.issparse(b) else b for b in blocks])

    def _grid_sums(self, X: NDArray, n_threads: int) -> NDArray[np.int64]:
        return np.concatenate([m._grid_sums(X, n_threads) for m in self.maps])

    def sensitivity(self, adjacency: str) -> tuple[float, float]:
        l1, l2 = zip(*(m.sensitivity(adjacency) for m in self.maps), strict=True)
        return float(sum(l1)), float(np.linalg.norm(l2))

    def project(self, mean: NDArray) -> NDArray:
        pieces = np.split(mean, self._starts()[1:-1])
        return np.concatenate([m.project(p) for m, p in zip(self.maps, pieces, strict=True)])

    def neutral_mean(self) -> NDArray:
        return np.concatenate([m.neutral_mean() for m in self.maps])

    def row_groups(self) -> list[slice]:
        return [
            slice(start + g.start, start + g.stop)
            for start, m in zip(self._starts().tolist(), self.maps, strict=False)
            for g in m.row_groups()
        ]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        states, arrays = zip(*(m.to_state() for m in self.maps), strict=True)
        named = {f"{i}.{k}": a for i, part in enumerate(arrays) for k, a in part.items()}
        return {"kind": self.kind, "maps": list(states)}, named

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> UnionMap:
        """Rebuild from `to_state`."""
        from . import feature_map_from_state

        own: dict[str, dict[str, NDArray]] = {}
        for name, array in arrays.items():
            place, _, rest = name.partition(".")
            own.setdefault(place, {})[rest] = array
        parts = enumerate(state["maps"])
        return cls([feature_map_from_state(part, own.get(str(i), {})) for i, part in parts])


def _table(columns: Columns) -> tuple[Any, ...]:
    return columns.n_columns, columns.names, columns.units
