"""How large the noise of a release is against what scores can be: before it, and after it.

*Before* the charge, public numbers alone are looked at: parameters, the schema, and the number of
rows that the user expects. A row adds a gradient of norm L R at most, and the noise is that of m
such gradients, where m follows from the budget: 1 / mu for Gaussian noise. So whatever Lambda is,
some hundreds of m rows that agree are needed to be heard, `rows_needed`.

*After* it, the release is judged by its own scores at public points Z. They are those of the
minimiser, f, and of the noise, which has a known covariance there: s^2 / R^2 times the Gram matrix
K of Z, for a noise s on the score of a row of norm R. With C, which centres over Z (a constant
score is no prediction), the released scores vary by

    E |C (f + noise)|^2 / T = |C f|^2 / T + (s / R)^2 trace(C K C) / T,

and where the first term is less than a quarter of the second the model is called drowned: what it
has learnt varies by less than half of what the noise does. Without public points the weights
themselves are judged, which is the same for rows that are spread over all directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._computing import warn_caller
from ..._linear_systems import Floats
from ...privacy import GaussianDP, NoiseWarning, gdp_mu
from ..erm._problem import Minimizer, Space, Terms

# Rows needed, in units of m. On breast cancer, digits and Adult models had half of the accuracy
# that is to be gained (over a constant) from 70 to 300 m rows on, and a tenth of it at 25 to 40 m.
_ROWS_PER_NOISE_UNIT = 100.0
# The part of the noise's variance over public points that released scores must vary beyond it.
_MIN_VARIANCE_BEYOND_NOISE = 0.25
# Part of the rows that are needed, from which on a model is not called drowned, where rows are
# counted. With the rule on variances 0.4 and 0.5 told of 86 % of the useless models of gradient
# descent and of 3 % of the useful ones (the same tables, seeds 0 to 3); with 0.3, 75 and 2 %.
FEW = 0.4
# A margin, or half the interval of y, is 1: a hypothesis that is corrected from this error on never
# is.
HOPELESS = 2.0
N_JUDGED_POINTS = 256
# What weights are judged for, where there are no public points.
ALL_DIRECTIONS = "rows of the largest norm in all directions"
MIN_JUDGED_POINTS = 8
_N_DRAWN = 512


def noise_multiplier(epsilon: float, delta: float, n_coordinates: int) -> float:
    """Return the noise on a prediction per unit of sensitivity."""
    if math.isinf(epsilon):
        return 0.0
    if delta == 0:
        return math.sqrt(n_coordinates) / epsilon
    return 1 / gdp_mu(epsilon, delta)


def rows_needed(plan: Any, space: Space, terms: Terms, n_points: int) -> float:
    """Return the number of rows from which on a model is likely to be more than noise.

    Parameters
    ----------
    plan : Plan
    space : Space
    terms : Terms
    n_points : int
        Public points of the release.
    """
    if not terms.is_private:
        return 0.0
    if plan.rows_divide_noise:
        dimension = n_points if space.n_features is None else space.n_features
        coordinates = terms.n_scores * dimension
        times = terms.n_moved * noise_multiplier(terms.epsilon, terms.delta, coordinates)
    else:
        gradient = terms.loss.lipschitz * space.radius**2 / terms.regularization
        times = plan.score_noise / gradient
    return _ROWS_PER_NOISE_UNIT * times


def epsilon_for(terms: Terms, times: float) -> float:
    """Return the epsilon at which noise is so many times smaller than at that of `terms`."""
    if not terms.is_private:
        return terms.epsilon
    if terms.delta == 0:
        return terms.epsilon * times
    return GaussianDP(gdp_mu(terms.epsilon, terms.delta) * times).epsilon(terms.delta)


@dataclass(frozen=True)
class Curvature:
    """What is expected of how rows bend the objective, from public numbers.

    Attributes
    ----------
    sizes : ndarray
        Eigenvalues of the mean of phi phi^T over public rows. The sum of all is the mean of
        |phi|^2.
    codes : ndarray of shape (K, q)
        What labels can be.
    n_alike : int, default=1
        How many there are of each of `sizes`.
    """

    sizes: Floats
    codes: Floats
    n_alike: int = 1

    @classmethod
    def of(cls, space: Space, places: NDArray | None, codes: Floats) -> Curvature:
        """Return that of rows of the schema, or of rows that are spread over all directions."""
        if places is None:
            n_features = space.n_features or 1
            return cls(np.array([space.radius**2 / n_features]), codes, n_features)
        gram = space.gram(places, places)
        return cls(np.maximum(np.linalg.eigvalsh(gram), 0.0) / len(gram), codes)

    def settled(
        self,
        noise_of: Callable[[Floats], Floats],
        n_samples: float,
        terms: Terms,
        clip: float = math.inf,
    ) -> float:
        """Return the noise on a score of an expected row, times R over its norm.

        n rows bend a direction of size s by n c s, where c is the mean curvature of the loss at
        scores that are noise alone: those that fit, near the margin, are bent more. How large the
        noise is and how much it bends follow from each other; the sequence falls.

        Parameters
        ----------
        noise_of : callable
            Of how much rows bend the objective in each direction; returns the noise of a row of
            norm R in that direction.
        n_samples : float
        terms : Terms
        clip : float, default=inf
            Of slopes; longer ones bend nothing.
        """
        total = self.n_alike * float(self.sizes.sum())
        noise = float(noise_of(np.zeros(1))[0])
        if total == 0:  # no row has features, and so none bends anything
            return noise
        rng = np.random.default_rng(0)
        unit = math.sqrt(total) / terms.radius * rng.standard_normal((_N_DRAWN, terms.n_scores))
        codes = self.codes[np.arange(_N_DRAWN) % len(self.codes)]
        for _ in range(100):
            root = terms.loss.hessian_root(noise * unit, codes)
            bends = np.linalg.norm(terms.loss.gradient(noise * unit, codes), axis=1) <= clip
            curvature = float(np.mean(bends * np.sum(root**2, axis=(1, 2)))) / terms.n_scores
            found = noise_of(n_samples * curvature * self.sizes)
            squares = self.n_alike * float(self.sizes @ found**2)
            before, noise = noise, math.sqrt(squares / total)
            if before - noise <= 1e-3 * noise:
                break
        return noise


@dataclass(frozen=True)
class ReleasedNoise:
    """How large the noise of a release is against what predictions can be; all of it is public.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise on a prediction for a row of the largest norm: on a score,
        or in the units of y.
    kind : {"exact", "expected", "largest"}
        Whether that is so for any rows; is expected of as many as a release says that there are; or
        is the most that it can be.
    size : float
        What a prediction can be: 1, a margin, or half the interval of y.
    unit : str
        Which of the two that is.
    varies, noise_varies : float or None
        By how much released predictions vary over public points, and by how much they would if they
        were noise alone (standard deviations). None where that cannot be told.
    is_drowned : bool
        Whether the model is mostly noise.
    epsilon : float or None
        An epsilon that may do, where the model is mostly noise.
    over : str
        Which rows `varies` and `noise_varies` are for: public points (those of the schema, unless
        you gave some), or rows of the largest norm in all directions. The second is for sparse
        tables, and where there is no schema.
    """

    noise: float
    kind: str
    size: float
    unit: str
    varies: float | None = None
    noise_varies: float | None = None
    is_drowned: bool = False
    epsilon: float | None = None
    over: str = "public points"

    def judged(
        self, varies: float, share: float, terms: Terms, *, may_drown: bool = True
    ) -> ReleasedNoise:
        """Return this with what the release shows: `spread`, in scores."""
        alone = share * self.noise
        if not alone > 0:
            return self
        varies *= self.size
        is_drowned = may_drown and varies < math.sqrt(1 + _MIN_VARIANCE_BEYOND_NOISE) * alone
        return replace(
            self,
            varies=varies,
            noise_varies=alone,
            is_drowned=is_drowned,
            epsilon=_enough(terms, varies / alone) if is_drowned else None,
        )

    def __str__(self) -> str:
        most = {"exact": "", "expected": "about ", "largest": "up to "}[self.kind]
        words = "Mostly noise" if self.is_drowned else "Noise"
        words += f": it moves a prediction by {most}{self.noise:.2g}, where {self.size:.4g} is "
        words += self.unit
        if self.varies is not None:
            words += (
                f"; over {self.over} these differ by {self.varies:.2g}, from noise alone by "
                f"{self.noise_varies:.2g}"
            )
        return words

    @property
    def advice(self) -> str:
        """What to say where the model is mostly noise."""
        return (
            f"Use about epsilon={self.epsilon:.2g}, or more rows: `expected_noise(n_samples)` "
            "tells how many, before anything is charged. The model is mostly noise, and says "
            f"little about new rows: over {self.over} predictions differ by {self.varies:.2g}, "
            f"from noise alone by {self.noise_varies:.2g}."
        )


def noise_of(
    plan: Any, terms: Terms, coding: Any, places: NDArray | None, released: Minimizer | None
) -> ReleasedNoise:
    """Return what a release, and public numbers, tell of its noise.

    Parameters
    ----------
    plan : Plan
    terms : Terms
    coding : ClassCoding or IntervalCoding
    places : ndarray of shape (T, n_columns) or None
        Public points at which the release is judged. None judges weights.
    released : Minimizer or None
        None if answers are released one by one.
    """
    half, is_exact = coding.half, plan.noise_is_exact
    kind = "exact" if is_exact else "largest"
    found = ReleasedNoise(half * plan.score_noise, kind, size=half, unit=coding.unit)
    if places is None and released is not None and released.points is None:
        found = replace(found, over=ALL_DIRECTIONS)
    if released is None or not terms.is_private or not (is_exact or plan.n_counted is not None):
        return found
    may_drown = True
    try:
        if not is_exact:
            curvature = Curvature.of(plan.space, places, coding.codes)
            noise = half * plan.expected_score_noise(curvature, plan.n_counted)
            found = replace(found, noise=noise, kind="expected")
            may_drown = plan.n_counted < FEW * rows_needed(plan, plan.space, terms, 1)
        return found.judged(*spread(plan, terms, released, places), terms, may_drown=may_drown)
    except (ValueError, ArithmeticError):
        # A user's function fails at a public point, or numbers overflow: the model is paid for.
        return found


def warn_of_public_noise(plan: Any, name: str, n_known: int | None) -> None:
    """Warn of noise that public numbers show to be too large.

    Parameters
    ----------
    plan : Plan
    name : str
        The mechanism's.
    n_known : int or None
        The number of rows, if it is public.
    """
    terms = plan.terms
    if plan.sigma > HOPELESS:
        warn_caller(
            "Set mechanism='functional', or raise epsilon or `regularization`: the answers will "
            f"say little. mechanism={name!r} answers from public rows, and corrects an answer only "
            f"if it is off by more than {plan.sigma:.2g} (1 is a margin, or half of y_bounds).",
            NoiseWarning,
        )
    if n_known is None or not plan.rows_divide_noise:
        return
    needed = rows_needed(plan, plan.space, terms, 1)
    if n_known < FEW * needed:
        warn_caller(
            f"Take about {float(f'{needed:.2g}'):,.0f} rows, or "
            f"epsilon={epsilon_for(terms, needed / n_known):.2g}: with {n_known} rows and "
            f"epsilon={terms.epsilon:g} the model will be mostly noise.",
            NoiseWarning,
        )


def spread(
    plan: Any, terms: Terms, released: Minimizer, places: NDArray | None
) -> tuple[float, float]:
    """Return by how much released scores vary, and noise alone would; zeros if unknown.

    The second is in units of the noise on the score of a row of norm R.

    Parameters
    ----------
    plan : Plan
    terms : Terms
    released : Minimizer
        In the space of the plan.
    places : ndarray of shape (T, n_columns) or None
        Public points. None judges weights.
    """
    space = plan.space
    if places is None and released.points is None:
        size = math.sqrt(space.n_features * terms.n_scores)
        norm = float(np.linalg.norm(released.coefficients))
        return space.radius * norm / size, 1.0
    if places is None or len(places) < MIN_JUDGED_POINTS:
        return 0.0, 0.0
    places = places[:: 1 + (len(places) - 1) // N_JUDGED_POINTS]
    scores, gram = released.scores(places), space.gram(places, places)
    varies = float(np.sqrt(np.mean((scores - scores.mean(axis=0)) ** 2)))
    uneven = float(np.mean(np.diag(gram)) - np.mean(gram)) / space.radius**2
    # Smaller differences of public points are rounding: they are one point.
    return (varies, math.sqrt(uneven)) if uneven > 1e-9 else (0.0, 0.0)


def _enough(terms: Terms, ratio: float) -> float:
    """Return an epsilon that may do, if what is learnt grows as noise falls.

    What is learnt is seen through noise, so it is taken to vary by a quarter of that, at least.
    """
    known = math.sqrt(max(ratio**2 - 1, 0.25**2))
    return epsilon_for(terms, 1 / known)
