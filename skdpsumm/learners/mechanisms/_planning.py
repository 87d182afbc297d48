"""How large the noise of a release is against what scores can be: before it, and after it.

*Before* the charge, public numbers alone are looked at: parameters, the schema, and the number of
rows that the user expects. A row adds a gradient of norm L R at most, and the noise is that of m
such gradients, where m follows from the budget: 1 / mu for Gaussian noise. So whatever Lambda is,
some hundreds of m rows that agree are needed to be heard, `rows_needed`.

*After* it, the release is tested: are its scores at T public points Z larger than those of a model
that has learnt nothing, for labels are coins? Its weights are noise, and what chance makes of the
coins. In each direction u_j of Z, in which rows have the mean square s_j, their variance is known:
``v_j = noise_j^2 + n g^2 s_j p_j^2``, for coins whose slopes have the mean square g^2, and a
gradient that moves the weights by p_j. With C, which centres over Z (a constant score is no
prediction), the scores have the covariance ``M = C U diag(s v) U^T C``. Their variance is trace(M)
in the mean, with ``trace(M)^2 / trace(M^2)`` degrees of freedom (Satterthwaite). A model that
varies by less than nine of ten models of coins shows nothing that it has learnt: it is called
drowned. Where the number of rows is not released it is tested against the noise alone. So it is for
numbers, whose variance is private. Without public points weights are judged, which is the same for
rows that are spread over all directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from ..._computing import warn_caller
from ..._linear_systems import Floats
from ...privacy import GaussianDP, NoiseWarning, gdp_mu
from ..erm._losses import ResidualLoss
from ..erm._problem import Minimizer, Problem, Space, Terms

# Rows needed, in units of m. On breast cancer, digits and Adult models had half of the accuracy
# that is to be gained (over a constant) from 70 to 300 m rows on, and a tenth of it at 25 to 40 m.
_ROWS_PER_NOISE_UNIT = 100.0
# The part of all models of coins that are called drowned. 0.8 and 0.95 instead tell of 68 and 93 %
# of models with an AUC up to 0.55, and of 18 and 40 % of those above 0.7, where 0.9 tells of 85 and
# 30 %, on the tables of examples/benchmarks/noise_warning.py.
_LEVEL = 0.9
# Part of the rows that are needed below which a warning comes before the charge, where their number
# is public: half of the models of so few rows were useless.
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


class ScoreNoise(NamedTuple):
    """What moves a score of a row of norm R, as standard deviations.

    Attributes
    ----------
    noise : float
        Of the noise, for an expected row.
    moved : ndarray
        Of the noise, and of what chance makes of labels where rows are counted, for a row in each
        direction of a `Curvature`.
    """

    noise: float
    moved: Floats


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
    axes : ndarray of shape (T, T) or None
        Eigenvectors of the public rows' Gram matrix, centred over the rows.
    """

    sizes: Floats
    codes: Floats
    n_alike: int = 1
    axes: Floats | None = None

    @classmethod
    def of(cls, space: Space, places: NDArray | None, codes: Floats) -> Curvature:
        """Return that of rows of the schema, or of rows that are spread over all directions."""
        if places is None:
            n_features = space.n_features or 1
            return cls(np.array([space.radius**2 / n_features]), codes, n_features)
        gram = space.gram(places, places)
        sizes, axes = np.linalg.eigh(gram)
        return cls(np.maximum(sizes, 0.0) / len(gram), codes, 1, axes - axes.mean(axis=0))

    def spread(self, moved: Floats, terms: Terms) -> tuple[float, float]:
        """Return by how much scores of nothing vary over public rows, and degrees of freedom.

        Parameters
        ----------
        moved : ndarray
            What moves a score of a row of norm R in each direction, as a standard deviation.
        terms : Terms
        """
        parts = self.sizes * (moved / terms.radius) ** 2
        if self.axes is None:
            return math.sqrt(self.n_alike * parts.sum()), float(self.n_alike * terms.n_scores)
        inner = self.axes.T @ self.axes
        variance = float(parts @ np.diag(inner))
        # Smaller differences of public points are rounding: they are one point.
        if variance <= 1e-9 * np.max(moved, initial=0.0) ** 2:
            return 0.0, 1.0
        squares = float(parts @ inner**2 @ parts)
        return math.sqrt(variance), terms.n_scores * variance**2 / squares

    def settled(
        self,
        noise_of: Callable[[Floats], tuple[Floats, Floats]],
        n_samples: float,
        terms: Terms,
        clip: float = math.inf,
    ) -> ScoreNoise:
        """Return the noise on a score of an expected row, times R over its norm.

        n rows bend a direction of size s by n c s, where c is the mean curvature of the loss at
        scores that are noise alone: those that fit, near the margin, are bent more. How large the
        noise is and how much it bends follow from each other; the sequence falls.

        Parameters
        ----------
        noise_of : callable
            Of how much rows bend the objective in each direction; returns the noise of a row of
            norm R in that direction, and by how much a gradient of norm 1 moves its score.
        n_samples : float
        terms : Terms
        clip : float, default=inf
            Of slopes; longer ones bend nothing.
        """
        total = self.n_alike * float(self.sizes.sum())
        noise = float(noise_of(np.zeros(1))[0][0])
        if total == 0:  # no row has features, and so none bends anything
            return ScoreNoise(noise, np.full(len(self.sizes), noise))
        rng = np.random.default_rng(0)
        unit = math.sqrt(total) / terms.radius * rng.standard_normal((_N_DRAWN, terms.n_scores))
        codes = self.codes[np.arange(_N_DRAWN) % len(self.codes)]
        for _ in range(100):
            root = terms.loss.hessian_root(noise * unit, codes)
            slopes = np.linalg.norm(terms.loss.gradient(noise * unit, codes), axis=1)
            bends = slopes <= clip
            curvature = float(np.mean(bends * np.sum(root**2, axis=(1, 2)))) / terms.n_scores
            found, pulled = noise_of(n_samples * curvature * self.sizes)
            squares = self.n_alike * float(self.sizes @ found**2)
            before, noise = noise, math.sqrt(squares / total)
            if before - noise <= 1e-3 * noise:
                break
        slope = float(np.mean(np.minimum(slopes, clip) ** 2)) / terms.n_scores
        # How much numbers vary inside their bounds is private.
        n_coins = 0.0 if isinstance(terms.loss, ResidualLoss) else n_samples
        return ScoreNoise(noise, np.hypot(found, pulled * np.sqrt(n_coins * slope * self.sizes)))


@dataclass(frozen=True)
class ReleasedNoise:
    """How large the noise of a release is against what predictions can be; all of it is public.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise on a row of the largest norm: on its score, or on its
        prediction, in the units of y.
    kind : {"exact", "expected", "largest"}
        Whether that is so for any rows; is expected of as many as a release says that there are; or
        is the most that it can be.
    size : float
        What the noise has to be small against: 1 for a score, where that is a clear decision; half
        the length of `y_bounds` for a prediction.
    unit : {"score", "prediction"}
        What the noise is on: a score of a classifier, or a prediction of a regressor.
    varies, noise_varies : float or None
        By how much these differ over public points, and by how much they would if the model had
        learnt nothing (standard deviations): from noise, and from labels that are coins where rows
        are counted. None where that cannot be told.
    is_drowned : bool
        Whether they vary by less than nine of ten models that have learnt nothing.
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
        self, plan: Any, codes: Floats, places: NDArray | None, released: Minimizer
    ) -> ReleasedNoise:
        """Return this with what a release shows at public points, or by its weights without any."""
        is_of_weights = places is None and released.points is None
        if places is None and not is_of_weights:
            return self
        if places is not None:
            places = places[:: 1 + (len(places) - 1) // N_JUDGED_POINTS]
        curvature = Curvature.of(plan.space, places, codes)
        expected = plan.expected_score_noise(curvature, plan.n_counted)
        told, unit = self, self.size * plan.y_scale
        if not plan.noise_is_exact:
            told = replace(self, noise=unit * expected.noise, kind="expected")
        alone, freedom = curvature.spread(expected.moved, plan.terms)
        if not alone > 0 or (places is not None and len(places) < MIN_JUDGED_POINTS):
            return told
        varies = _variation(plan, released, places)
        is_drowned = varies < math.sqrt(chi2.ppf(_LEVEL, freedom) / freedom) * alone
        return replace(
            told,
            varies=unit * varies,
            noise_varies=unit * alone,
            is_drowned=bool(is_drowned),
            epsilon=_enough(plan.terms, varies / alone) if is_drowned else None,
            over=ALL_DIRECTIONS if is_of_weights else self.over,
        )

    def __str__(self) -> str:
        most = {"exact": "", "expected": "about ", "largest": "up to "}[self.kind]
        words = "Perhaps mostly noise: it" if self.is_drowned else "Noise"
        words += f" moves a {self.unit} by {most}{self.noise:.2g}"
        if self.varies is not None:
            return (
                f"{words}; over {self.over} {self.unit}s differ by {self.varies:.2g}, and would by "
                f"{self.noise_varies:.2g} if nothing was learnt"
            )
        is_score = self.unit == "score"
        scale = "1 is a clear decision" if is_score else f"half of y_bounds is {self.size:.4g}"
        return f"{words}, where {scale}"

    @property
    def advice(self) -> str:
        """What to say where the model is mostly noise."""
        return (
            f"Use about epsilon={self.epsilon:.2g}, or more rows: `expected_noise(n_samples)` "
            "tells how many, before anything is charged. The model may be mostly noise: nothing in "
            f"the release shows that it has learnt anything. Over {self.over} its {self.unit}s "
            f"differ by {self.varies:.2g}, and would by {self.noise_varies:.2g} if it had not."
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
    found = ReleasedNoise(half * plan.y_scale * plan.score_noise, kind, size=half, unit=coding.unit)
    if released is None or not terms.is_private or not (is_exact or plan.n_counted is not None):
        return found
    try:
        return found.judged(plan, coding.codes, places, released)
    except (ValueError, ArithmeticError):
        # A user's function fails at a public point, or numbers overflow: the model is paid for.
        return found


def warn_of_public_noise(plan: Any, problem: Problem, name: str) -> None:
    """Warn, before the charge, of noise that public numbers show to be too large.

    Parameters
    ----------
    plan : Plan
    problem : Problem
        Its number of rows is public if these are single rows, of which one is replaced.
    name : str
        The mechanism's.
    """
    terms, n_rows = plan.terms, len(problem.X)
    if plan.sigma > HOPELESS:
        warn_caller(
            "Set mechanism='functional', or raise epsilon or `regularization`: the answers will "
            f"say little. mechanism={name!r} answers from public rows, and corrects an answer only "
            f"if it is off by more than {plan.sigma:.2g} (1 is a clear decision, or half of "
            "y_bounds).",
            NoiseWarning,
        )
    are_single = problem.units is None and problem.shares is None
    if not (plan.rows_divide_noise and are_single and terms.adjacency == "replace_one"):
        return
    needed = rows_needed(plan, plan.space, terms, 1)
    if n_rows < FEW * needed:
        warn_caller(
            f"Take about {float(f'{needed:.2g}'):,.0f} rows, or "
            f"epsilon={epsilon_for(terms, needed / n_rows):.2g}: with {n_rows} rows and "
            f"epsilon={terms.epsilon:g} the model will be mostly noise.",
            NoiseWarning,
        )


def _variation(plan: Any, released: Minimizer, places: NDArray | None) -> float:
    """Return by how much released scores vary over public points, or over all directions."""
    if places is None:
        size = math.sqrt(plan.space.n_features * plan.terms.n_scores)
        return plan.space.radius * float(np.linalg.norm(released.coefficients)) / size
    scores = released.scores(places)
    return float(np.sqrt(np.mean((scores - scores.mean(axis=0)) ** 2)))


def _enough(terms: Terms, ratio: float) -> float:
    """Return an epsilon that may do, if what is learnt grows as noise falls.

    What is learnt is seen through noise, so it is taken to vary by a quarter of that, at least.
    """
    known = math.sqrt(max(ratio**2 - 1, 0.25**2))
    return epsilon_for(terms, 1 / known)
