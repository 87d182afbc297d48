"""How unlike the points the sketched rows are, and what answers may miss for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._regression import MomentRegression

# Points follow the features if this share of them tells more than noise. Tables with a
# third and more gained from it, and one with a twentieth lost.
_LEAST_SHARE_TELLING = 0.25
# Rows no more unlike points on the ranges than this are read by these as well as can be.
_SHIFT_OF_LIKE_ROWS = 0.01
# Points that follow the sketch match it because they follow it: they may still be unlike the rows
# by this part of what points on the ranges are. Measured on Adult and Occupancy: 0.02 to 0.14, and
# more where noise is.
_SHIFT_LEFT_BY_DENSITY = 0.25


class Shift(NamedTuple):
    """How unlike the points the rows are: the mean square of the density ratio's coordinates.

    What phi does not explain of a function, a residual, is 0 on average over the points. Over the
    rows it is the residual's coordinate in the density of rows over that of points, less one. What
    that is nobody can tell. But phi has some hundred coordinates that the sketch does tell, by
    ``(z - mean phi)' K^-1 (z - mean phi)`` with K the matrix of the regression, less what noise
    alone would give. Their mean square stands for that of a residual. It is 0 for rows that look
    as if they were points, and 1 on average for one row that is one of them, the case that
    Theorem 3.1 allows for.

    Parameters
    ----------
    mean_square : float
    error : float
        Standard error of `mean_square`, of the noise.
    told : float
        Share of the features that tell more than noise.
    """

    mean_square: float
    error: float
    told: float

    @classmethod
    def of(cls, model: MomentRegression) -> Shift:
        """Measure it at the points of a regression."""
        rng, n_features = np.random.default_rng(0), len(model.offset)
        by_noise = model.sketch.mean_noise_std[:, None]
        # 64 draws of noise alone tell its mean to an eighth of its spread.
        noise = by_noise * rng.standard_normal((n_features, 64))
        penalised = np.sqrt(model.penalty)[:, None] * rng.standard_normal(noise.shape)
        found = model.squares((model.sketch.mean - model.offset)[:, None])[0]
        of_noise, shrunk = model.squares(noise), model.squares(penalised).mean()
        told = max(n_features - shrunk, 1.0)
        excess = max(found - of_noise.mean(), 0.0)
        return cls(excess / told, np.std(of_noise) / told, told / n_features)

    @property
    def largest(self) -> float:
        """As large as `mean_square` may be; what noise leaves open is 1 at most."""
        return max(self.mean_square, min(self.mean_square + 2 * self.error, 1.0))

    @property
    def of_residuals(self) -> float:
        """The mean square for residuals, which are larger where hardly a point lies.

        More than 1 means that rows lie there. Residuals are then farther off than what phi
        explains, up to four times on the lognormal columns of docs/m2m.md, and so it is squared.
        """
        return self.largest * max(self.largest, 1.0)

    @property
    def is_worth_a_density(self) -> bool:
        """Whether points should follow the sketch, not lie anywhere."""
        return self.told >= _LEAST_SHARE_TELLING and self.largest >= _SHIFT_OF_LIKE_ROWS

    def left_by_density(self, there: Shift) -> Shift:
        """Return the shift from points that follow the sketch, `there` as they look to it."""
        least = _SHIFT_LEFT_BY_DENSITY * min(self.largest, 1.0)
        return there._replace(mean_square=max(there.mean_square, least))
