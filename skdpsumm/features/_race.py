"""RACE: repeated arrays of counts under locality-sensitive hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _engine
from ._columns import Columns
from ._one_hot import OneHotMap

_LARGEST_PROJECTION = 1e12


class RACEMap(OneHotMap):
    """One-hot codes of R p-stable hashes with W buckets each (M2M, Definition 3).

    ``h_r(x) = floor(x . w_r / bandwidth + b_r) mod W`` with w_r normal and b_r uniform on [0, 1)
    (Datar et al., 2004).

    Parameters
    ----------
    columns : Columns
    projections : ndarray of shape (d, R)
        w_r / float(bandwidth), for the encoded columns (`Columns.encode`).
    offsets : ndarray of shape (R,)
        b_r.
    n_buckets : int
        W.
    """

    kind = "race"

    def __init__(self, columns: Columns, projections: NDArray, offsets: NDArray, n_buckets: int):
        self.columns = columns
        self.projections = np.asarray(projections, np.float64)
        self.offsets = np.asarray(offsets, np.float64)
        self.n_buckets = int(n_buckets)
        if not np.all(np.abs(self.projections) < _LARGEST_PROJECTION):
            raise ValueError(f"projections must be below {_LARGEST_PROJECTION:g}; raise bandwidth.")
        self.sizes = np.full(len(self.offsets), self.n_buckets)
        self.n_features = int(self.sizes.sum())

    @classmethod
    def draw(
        cls,
        columns: Columns,
        n_repetitions: int,
        n_buckets: int,
        bandwidth: float,
        rng: np.random.RandomState,
    ) -> RACEMap:
        """Draw the hashes."""
        projections = rng.normal(size=(columns.n_encoded, n_repetitions)) / float(bandwidth)
        return cls(columns, projections, rng.uniform(size=n_repetitions), n_buckets)

    def _encode(self, X: NDArray) -> NDArray:
        return np.ascontiguousarray(self.columns.encode(X))

    def codes(self, X: NDArray) -> NDArray[np.int32]:
        return _engine.race_codes(self._encode(X), self.projections, self.offsets, self.n_buckets)

    def counts(self, X: NDArray, n_threads: int) -> NDArray[np.int64]:
        return _engine.race_counts(
            self._encode(X), self.projections, self.offsets, self.n_buckets, n_threads
        )

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        state = {"kind": self.kind, "n_buckets": self.n_buckets, **self.columns.to_dict()}
        return state, {"projections": self.projections, "offsets": self.offsets}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> RACEMap:
        """Rebuild from `to_state`."""
        columns = Columns.from_dict(state)
        return cls(columns, arrays["projections"], arrays["offsets"], state["n_buckets"])
