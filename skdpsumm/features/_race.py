"""RACE: repeated arrays of counts under locality-sensitive hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _engine
from ._base import check_size, is_count, public_numbers
from ._columns import Columns
from ._one_hot import OneHotMap

_LARGEST_PROJECTION = 1e12
# Float32 knows no other whole numbers by their last digit, so a bucket could be one too far.
MOST_BUCKETS = 2**24


class RACEMap(OneHotMap):
    """One-hot codes of R p-stable hashes with W buckets each (M2M, Definition 3).

    ``h_r(x) = floor(x . w_r / bandwidth + b_r) mod W`` with w_r normal and b_r uniform on [0, 1)
    (Datar et al., 2004).

    Parameters
    ----------
    columns : Columns
    projections : ndarray of shape (d, R)
        w_r / float(bandwidth), for the encoded columns (`Columns.encode`); finite, below 1e12.
    offsets : ndarray of shape (R,)
        b_r, in [0, 1).
    n_buckets : int
        W, from 2 to 2**24.

    Raises
    ------
    ValueError
        For anything else.
    """

    kind = "race"

    def __init__(self, columns: Columns, projections: NDArray, offsets: NDArray, n_buckets: int):
        self.columns = columns
        self.projections = public_numbers("projections", projections, columns.n_encoded, None)
        if not np.all(np.abs(self.projections) < _LARGEST_PROJECTION):
            raise ValueError(f"projections must be below {_LARGEST_PROJECTION:g}; raise bandwidth.")
        n_hashes = self.projections.shape[1]
        self.offsets = public_numbers("offsets", offsets, n_hashes)
        if not np.all((self.offsets >= 0) & (self.offsets < 1)):
            raise ValueError("offsets must lie in [0, 1).")
        if not is_count(n_buckets) or not 2 <= n_buckets <= MOST_BUCKETS:
            raise ValueError(f"n_buckets must be from 2 to {MOST_BUCKETS}, got {n_buckets!r}.")
        self.n_buckets = int(n_buckets)
        self.n_features = check_size(n_hashes * self.n_buckets)
        self.sizes = np.full(n_hashes, self.n_buckets)

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
