"""A release in the making: exact sums, until the noise is added once."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features import GRID, FeatureMap
from ..privacy import IntegerNoise, PrivacyGuarantee
from ._private_sketch import PrivateSketch, rows_from_sums

_LARGEST = 2**62


@dataclass(eq=False, repr=False)
class PendingRelease:
    """Exact sums of phi, and the noise that they are bound to.

    It is paid for one release, so it makes one: `publish` takes the sums away, and it refuses to
    be pickled, copied or used in a forked process, each of which would draw its own noise.

    Parameters
    ----------
    feature_map : FeatureMap
    noise : IntegerNoise
    noise_seed : int or None
    counts_rows : bool
        Whether a part of the budget buys the number of rows.
    privacy : PrivacyGuarantee
    """

    feature_map: FeatureMap
    noise: IntegerNoise
    noise_seed: int | None
    counts_rows: bool
    privacy: PrivacyGuarantee
    sums: NDArray | None = field(init=False)
    n_rows: int = field(init=False, default=0)

    def __post_init__(self):
        self.sums = np.zeros(self.feature_map.n_features, np.int64)
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def check_room(self, n_rows: int) -> None:
        """Raise ValueError for more rows than 64 bits can hold the sums of, noise included."""
        if not self.is_silent and (self.n_rows + n_rows) * GRID * 2**self.noise.lift > _LARGEST:
            raise ValueError(
                "With an epsilon so large, sums of so many rows exceed 64-bit integers: lower "
                "epsilon, take np.inf for no noise, or sketch the rows in several parts."
            )

    def add(self, X: NDArray, n_threads: int) -> None:
        """Add phi of each row of X, all or none."""
        self.check_room(len(X))
        self.add_sums(sums_of(self.feature_map, X, self.is_silent, n_threads), len(X))

    def add_sums(self, sums: NDArray, n_rows: int) -> None:
        """Add sums of phi over so many rows, for which there is room (`check_room`)."""
        with self._lock:
            self._check_is_ours()
            self.sums, self.n_rows = self.sums + sums, self.n_rows + n_rows

    def publish(self, *, postprocess: bool) -> PrivateSketch:
        """Return the sums with noise, and forget them."""
        with self._lock:
            self._check_is_ours()
            sums, n_rows = self.sums, self.n_rows
            self.sums, self.n_rows = None, 0
        values = np.append(sums, n_rows * GRID) if self.counts_rows else sums
        noisy = values if self.is_silent else self.noise.add(values, self.noise_seed)
        return self.to_sketch(noisy / GRID, n_rows, postprocess=postprocess)

    def to_sketch(self, noisy: NDArray, n_rows: int, *, postprocess: bool) -> PrivateSketch:
        """Return the release of noisy sums, followed by the noisy number of rows if bought."""
        deviations = self.noise.std / GRID
        size = self.feature_map.n_features
        add_remove = self.privacy.adjacency == "add_remove"
        if not add_remove:
            n_released, n_std = float(n_rows), 0.0
        elif self.counts_rows:
            n_released, n_std = float(noisy[-1]), float(deviations[-1])
        else:
            weights, n_std = rows_from_sums(self.feature_map, deviations)
            n_released = float(weights @ noisy)
        return PrivateSketch(
            feature_map=self.feature_map,
            sums=noisy[:size],
            noise_std=deviations[:size],
            n_released=n_released,
            n_noise_std=n_std,
            privacy=self.privacy,
            postprocess=postprocess,
            n_from_sums=add_remove and not self.counts_rows,
        )

    @property
    def is_silent(self) -> bool:
        """Whether no noise will be added."""
        return self.noise.mechanism.unprotected is not None

    def _check_is_ours(self) -> None:
        if self.sums is None:
            raise ValueError("These sums were released already; call fit or partial_fit again.")
        if self._pid != os.getpid():
            raise RuntimeError(
                "This process is a fork of the one that added the rows. Release there: each "
                "process would draw noise of its own for one charge."
            )

    def __reduce__(self) -> Any:
        raise TypeError(
            "A sketcher between partial_fit and release holds exact sums, and cannot be pickled "
            "or copied: each copy would draw noise of its own for one charge. Call release first; "
            "sketches of disjoint rows can be added."
        )


def sums_of(feature_map: FeatureMap, X: NDArray, silent: bool, n_threads: int) -> NDArray:
    """Return the sum of phi over rows in grid units: exact integers, floats where no noise is."""
    return feature_map.float_sums(X) * GRID if silent else feature_map.grid_sums(X, n_threads)
