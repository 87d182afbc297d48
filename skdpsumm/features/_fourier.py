"""Random Fourier features in (cos, sin) pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _engine
from ._base import GRID, FeatureMap, check_size, public_numbers
from ._columns import Columns

# Each grid value is within half a unit, plus the error of a float32 sine, of the unit circle.
_ROUNDING = 0.5 + 2.0**-5
_LARGEST_TURNS = 1e12


class FourierMap(FeatureMap):
    """phi(x) = [cos(x Omega), sin(x Omega)] (M2M, Definition 2).

    Parameters
    ----------
    columns : Columns
    frequencies : ndarray of shape (d, p)
        Omega, in radians per unit of the encoded columns (`Columns.encode`); finite, below 1e12
        turns.

    Raises
    ------
    ValueError
        For frequencies of another shape or size.

    Notes
    -----
    Each pair lies on the unit circle: ``|cos a| + |sin a| <= sqrt(2)`` and, between two rows,
    ``2 |sin((a - b) / 2)| <= 2``. With p pairs the L1 sensitivity is ``p sqrt(2)`` (add-remove)
    or twice that (replace-one), the L2 sensitivity ``sqrt(p)`` or twice that. Rounding to the
    grid moves each entry by at most `_ROUNDING` units, on each of the rows that differ.
    """

    kind = "fourier"

    def __init__(self, columns: Columns, frequencies: NDArray):
        self.columns = columns
        self.frequencies = public_numbers("frequencies", frequencies, columns.n_encoded, None)
        self.n_features = check_size(2 * self.frequencies.shape[1])
        self._turns = self.frequencies / (2 * np.pi)
        if not np.all(np.abs(self._turns) < _LARGEST_TURNS):
            # Beyond, products could overflow to NaN, which no sensitivity bounds.
            raise ValueError(f"frequencies must be below {_LARGEST_TURNS:g} turns; lower gamma.")

    @classmethod
    def draw(
        cls,
        columns: Columns,
        n_features: int,
        gamma: float,
        kernel: str,
        rng: np.random.RandomState,
    ) -> FourierMap:
        """Draw the spectral measure of ``exp(-gamma |x-y|_2^2)`` or ``exp(-gamma |x-y|_1)``."""
        shape = (columns.n_encoded, n_features // 2)
        if kernel == "rbf":
            return cls(columns, rng.normal(scale=np.sqrt(2 * float(gamma)), size=shape))
        return cls(columns, float(gamma) * rng.standard_cauchy(size=shape))

    def matrix(self, X: NDArray) -> NDArray:
        return _engine.fourier_features(self._encode(X), self._turns)

    def grid_matrix(self, X: NDArray) -> NDArray[np.float32]:
        """Return phi of each row in whole grid units, a function of that row alone, bit for bit.

        A product with whole numbers is exact while it stays below 2**53, so what is computed from
        it depends on no other row either.
        """
        return _engine.fourier_grid(self._encode(X), self._turns)

    def _encode(self, X: NDArray) -> NDArray:
        return np.ascontiguousarray(self.columns.encode(X))

    def _grid_sums(self, X: NDArray, n_threads: int) -> NDArray[np.int64]:
        return _engine.fourier_sums(self._encode(X), self._turns, n_threads)

    def sensitivity(self, adjacency: str) -> tuple[float, float]:
        pairs = self.n_features // 2
        rows = 2 if adjacency == "replace_one" else 1
        l1 = rows * pairs * (np.sqrt(2) * GRID + 2 * _ROUNDING)
        l2 = rows * np.sqrt(pairs) * (GRID + np.sqrt(2) * _ROUNDING)
        return float(l1), float(l2)

    def project(self, mean: NDArray) -> NDArray:
        cos, sin = np.split(mean, 2)
        radius = np.maximum(np.hypot(cos, sin), 1.0)
        return np.concatenate([cos / radius, sin / radius])

    def neutral_mean(self) -> NDArray:
        return np.zeros(self.n_features)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        state = {"kind": self.kind, **self.columns.to_dict()}
        return state, {"frequencies": self.frequencies}

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, NDArray]) -> FourierMap:
        """Rebuild from `to_state`."""
        return cls(Columns.from_dict(state), arrays["frequencies"])
