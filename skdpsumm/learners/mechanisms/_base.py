"""What mechanisms of kernel learners state, and how large their noise is.

*Before* the charge, public numbers alone say how large the noise is against what scores can be:
parameters, the schema, and the number of rows that the user expects. A row adds a gradient of norm
L R at most, and the noise is that of m such gradients, where m follows from the budget: 1 / mu for
Gaussian noise. So whatever Lambda is, some hundreds of m rows that agree are needed to be heard,
`rows_needed`.

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
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.base import BaseEstimator

from ..._computing import Floats, warn_caller
from ..._sklearn import check_params
from ...privacy import GaussianDP, NoiseWarning, gdp_mu
from ...privacy._mechanisms import Mechanism, register
from ...schema._reading import SparseRows
from ..erm._kernel_space import KernelSpace, SpanSpace
from ..erm._losses import ResidualLoss
from ..erm._problem import Minimizer, Problem, Space, Terms

# Times the least Lambda of explicit features: all of a kernel's space has more to overfit with.
# Without noise 1.5 had an AUC of 0.854 on 2,500 rows of ACS, and 0.855 on 5,000 of Covertype; 2 had
# 0.857 and 0.853, and 2.5 had 0.859 and 0.851, beside SVC's 0.864 and 0.862 (standardised).
_MORE_OF_KERNELS = 2.0
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


class Plan:
    """A mechanism whose noise is fixed, before anything private is minimised.

    Subclasses set `space`, `terms`, `mechanism` and `score_noise`. They have `release`, or, for
    learners that answer as they are asked, `open`.

    Attributes
    ----------
    space : Space
        The space in which the minimiser is sought.
    terms : Terms
        What is public about the problem.
    mechanism : Mechanism
        The cost, as the ledger is charged.
    score_noise : float
        Standard deviation of the noise on one score of a row with |phi| = R, in the units of the
        scores: 1 is a margin, or half the interval of y. It is public, 0 without noise, and NaN if
        the plan does not say.
    idealised : bool
        Whether the noise is in floating point.
    noise_is_exact : bool
        Whether `score_noise` holds for any data. The noise then moves the scores of rows with
        features phi by a Gaussian (or radial) vector of covariance ``(score_noise / R)^2 phi
        phi^T``. Otherwise `score_noise` is an upper bound, and rows, or what is made of answers,
        may bring the noise below it.
    rows_divide_noise : bool
        Whether the noise falls as rows are added: see `expected_score_noise`.
    sigma : float
        The error from which on an answer is corrected; 0 if all answers are.
    n_counted : float or None
        The number of rows, if `release` publishes it, with noise or because it is public.
    y_centre, y_scale : float
        What scores of numbers are counted from, and their unit, in halves of the interval of y.
        A plan that finds out where y lies sets them as it releases.
    """

    space: Any
    terms: Terms
    mechanism: Mechanism
    score_noise: float = math.nan
    idealised: bool = False
    noise_is_exact: ClassVar[bool] = False
    rows_divide_noise: ClassVar[bool] = False
    sigma: float = 0.0
    n_counted: float | None = None
    y_centre: float = 0.0
    y_scale: float = 1.0

    @property
    def sensitivity(self) -> float:
        """How far what is released of two neighbours can be apart before the noise."""
        return self.terms.sensitivity

    def check(self, problem: Problem) -> None:
        """Raise ValueError if the fit cannot succeed. It is called before the charge."""
        problem.check()

    def expected_score_noise(self, curvature: Curvature, n_samples: float) -> ScoreNoise:
        """Return what `score_noise` comes to for so many rows of an expected shape.

        Parameters
        ----------
        curvature : Curvature
            What is expected of a row, from public numbers.
        n_samples : float
        """
        return ScoreNoise(self.score_noise, np.full(len(curvature.sizes), self.score_noise))

    def release(self, problem: Problem) -> Minimizer:
        """Minimise, and return what is released."""
        raise NotImplementedError

    def open(self, problem: Problem) -> AnsweredQueries:
        """Minimise, and return what answers queries."""
        raise NotImplementedError


class LearnerMechanism(BaseEstimator):
    """How a kernel learner releases its minimiser: plain parameters, and public facts.

    To add one, write a subclass with a `name`; learners of the kinds that it lists then take it,
    by that name or as an object.

    Attributes
    ----------
    name : str
        The string that stands for it with its default parameters.
    learners : tuple of str
        Which learners have it: "TDIL", "TDDL", "PINP".
    is_pure : bool
        Whether it has a guarantee with ``delta=0``.
    needs_features : bool
        Whether it works on explicit features alone, and on no kernel.
    takes_groups : bool
        Whether all that it asks of neighbours is that their minimisers are no more than
        `Terms.sensitivity` apart: then it holds for groups of rows as well.
    takes_sparse : bool
        Whether it takes sparse rows, where features are explicit.
    pays_for_curvature : bool
        Whether a row's curvature costs privacy: then smoother losses are the default, and the
        ledger counts more than epsilon where Lambda is small.
    spans_points : bool
        Whether it seeks a kernel's minimiser in the span of public points, as weights.
    default_losses : tuple of two str
        What ``loss="auto"`` of classifiers is, for two classes and for more.
    n_landmarks : int, "auto" or None
        How many landmarks to draw for a kernel where nobody has given public points.
    candidates : array-like or None
        Public points that the mechanism brings itself.
    """

    name: ClassVar[str]
    learners: ClassVar[tuple[str, ...]]
    is_pure: ClassVar[bool] = True
    needs_features: ClassVar[bool] = False
    takes_groups: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    pays_for_curvature: ClassVar[bool] = False
    spans_points: ClassVar[bool] = False
    default_losses: ClassVar[tuple[str, str]] = ("huberized_hinge", "huberized_hinge")
    n_landmarks: Any = None
    candidates: Any = None
    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _named: ClassVar[dict[str, type[LearnerMechanism]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            register(LearnerMechanism._named, cls.name, cls)

    def count_landmarks(self, n_numeric: int, delta: float) -> int:
        """Return how many landmarks to draw, by the number of numeric columns and delta."""
        return int(self.n_landmarks)

    def narrowed(self, space: Space, public: Any, *, is_pure: bool) -> tuple[Space, Any]:
        """Return the space in which the minimiser is sought, and the public points left to use.

        Mechanisms that work on weights take the span of the points: for a kernel, and for pure
        noise on explicit features, which costs more than that on their values at the points.

        Parameters
        ----------
        space : Space
            The space of the kernel, or of the features.
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.
        is_pure : bool
            Whether the guarantee is pure, so that noise grows with the dimension.

        Returns
        -------
        tuple of Space, and ndarray or None
        """
        is_spanned = self.spans_points and (is_pure or isinstance(space, KernelSpace))
        if is_spanned and public is not None:
            return SpanSpace(space, public, leading=is_pure), None
        return space, public

    @abstractmethod
    def plan(self, space: Space, terms: Terms, public: Any) -> Plan:
        """Return the plan of a fit, with its noise calibrated.

        Parameters
        ----------
        space : Space
            The space in which the minimiser is sought.
        terms : Terms
            What is public about the problem: loss, Lambda, sensitivity and budget.
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.

        Raises
        ------
        ValueError
            If there is no plan for these terms.
        """

    def default_regularization(
        self, space: Space, terms: Terms, public: Any, *, charged: bool
    ) -> float:
        """Return the public Lambda of ``regularization="auto"``: that of "functional".

        Parameters
        ----------
        space : Space
            The space in which the minimiser is sought.
        terms : Terms
            What is public about the problem, with any Lambda.
        public : ndarray of shape (T, n_columns) or None
            Public points: those given, or landmarks.
        charged : bool
            Whether a ledger counts the fit.
        """
        return public_regularization(space, terms, 1 if public is None else len(public))

    def price_advice(self, epsilon: float) -> str:
        """Return why a ledger counts more than epsilon, and what to do; "" if it never does."""
        return ""


def public_regularization(space: Space, terms: Terms, n_points: int) -> float:
    """Return Lambda of the sum form at which noise is a fixed part of a margin, or of y.

    The noise on a prediction has standard deviation ``L R^2 / Lambda`` times the number of rows
    that come and go between neighbours, and a number that the budget alone decides (1 / mu of
    Gaussian noise), however many rows there are. Scores have a public unit: 1 is the margin of a
    class, or half the interval of y. So Lambda may be chosen for the noise to be a fixed part of
    it, and no data touch it. The study behind the parts is in docs/learners.md.

    Parameters
    ----------
    space : Space
    terms : Terms
        For all but their Lambda.
    n_points : int
        Public points at which a kernel's function is released: with ``delta=0`` they set the noise.
    """
    dimension = n_points if space.n_features is None else space.n_features
    n_coordinates = terms.n_scores * dimension
    per_sensitivity = noise_multiplier(terms.epsilon, terms.delta, n_coordinates)
    noise = terms.n_moved * terms.loss.lipschitz * space.radius**2 * per_sensitivity
    more = _MORE_OF_KERNELS if space.n_features is None else 1.0
    least = more * terms.loss.least_regularization * space.radius**2
    return max(noise / terms.loss.noise_part, least)


def mechanisms_of(kind: str) -> dict[str, type[LearnerMechanism]]:
    """Return the mechanisms of a kind of learner ("TDIL", "TDDL", "PINP"), by their names."""
    return {name: one for name, one in LearnerMechanism._named.items() if kind in one.learners}


def check_mechanism(learner: Any) -> None:
    """Raise ValueError for a mechanism that a learner cannot use."""
    known, class_name = mechanisms_of(learner._kind), type(learner).__name__
    given = learner.mechanism
    names = {"auto", *known}
    is_name = isinstance(given, str) and given in names
    if not is_name and (isinstance(given, str) or learner._kind not in given.learners):
        objects = [f"{one.__name__}()" for one in known.values() if one().get_params()]
        raise ValueError(
            f"The 'mechanism' parameter of {class_name} must be a str among {sorted(names)} or one "
            f"of {', '.join(objects)}. Got {given!r} instead."
        )
    mechanism = learner._chosen_mechanism()
    check_params(mechanism)
    if learner.delta == 0 and learner.epsilon != np.inf and not mechanism.is_pure:
        pure = sorted(name for name, one in known.items() if one.is_pure)
        raise ValueError(
            f"mechanism={mechanism.name!r} of {class_name} has no guarantee with delta=0; set "
            f"delta > 0, or take one of {pure}."
        )
    if mechanism.needs_features and not (learner._is_explicit or mechanism.spans_points):
        raise ValueError(
            f"mechanism={mechanism.name!r} works on explicit features, not on "
            f"kernel={learner._kernel!r}; set kernel='linear', or to a transformer such as "
            "RBFSampler."
        )
    if learner.max_rows_per_group is not None and not mechanism.takes_groups:
        able = sorted(name for name, one in known.items() if one.takes_groups)
        raise ValueError(
            f"mechanism={mechanism.name!r} of {class_name} protects single rows only, and "
            f"max_rows_per_group={learner.max_rows_per_group!r} protects groups: take one of "
            f"{able}, or set max_rows_per_group=None."
        )


# ---- how large the noise is


def noise_multiplier(epsilon: float, delta: float, n_coordinates: int) -> float:
    """Return the noise on a prediction per unit of sensitivity."""
    if math.isinf(epsilon):
        return 0.0
    if delta == 0:
        return math.sqrt(n_coordinates) / epsilon
    return 1 / gdp_mu(epsilon, delta)


def rows_needed(plan: Any, n_points: int = 1) -> float:
    """Return the number of rows from which on a model is likely to be more than noise.

    Parameters
    ----------
    plan : Plan
    n_points : int, default=1
        Public points of the release, which count where the space has no features.
    """
    space, terms = plan.space, plan.terms
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
    plan: Any, coding: Any, places: NDArray | None, released: Minimizer | None
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
    if (
        released is None
        or not plan.terms.is_private
        or not (is_exact or plan.n_counted is not None)
    ):
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
    needed = rows_needed(plan)
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


# ---- what interactive learners remember: answers given, and who may draw new ones


_KNOWS_NOTHING = (
    "Ask the fitted PINP learner, or copy it after it has answered points like these: this copy "
    "(a pickle, a deep copy or a fork) was made before that, holds no private data, and gives all "
    "new points one constant. TDIL and TDDL learners can be pickled whole."
)


class AnsweredQueries(ABC):
    """Answers given so far; the same point always gets the same answer.

    Only the object that was fitted, in the process that fitted it, draws noise. Copies (by pickle
    or `copy`) and forks carry the answers and the public hypothesis, and answer new points by it:
    two copies with noise of their own would average to the exact answer for one charge.

    Parameters
    ----------
    n_scores : int
    """

    n_updates_left: int = 0
    _is_public = True  # the points asked, which copies carry

    def __init__(self, n_scores: int):
        self._n_scores = n_scores
        self._known: dict[bytes, tuple[Floats, bool]] = {}
        self._lock = threading.RLock()
        self._process: int | None = os.getpid()

    @property
    def holds_private_data(self) -> bool:
        """True: the private minimiser is in memory."""
        return True

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy or a fork, which draws no noise."""
        return self._process != os.getpid()

    def ask(self, X: NDArray, *, public: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the scores of each row, shape (m, q), and whether noise was drawn for it.

        Unless all that are asked are said to be `public`, copies hold private data.
        """
        if isinstance(X, SparseRows):
            keys = X.keys()
        else:
            X = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0.0 is 0.0
            keys = [row.tobytes() for row in X]
        with self._lock:
            new = {key: i for i, key in enumerate(keys) if key not in self._known}
            if new and not self.is_copy:
                self._is_public &= public
            known = self._known | self._answers(X[list(new.values())], list(new))
            if not self.is_copy:
                self._known = known
        scores = np.array([known[key][0] for key in keys]).reshape(len(X), self._n_scores)
        return scores, np.array([known[key][1] for key in keys], dtype=bool)

    def _answers(self, X: NDArray, keys: list[bytes]) -> dict[bytes, tuple[Floats, bool]]:
        if not keys:
            return {}
        if self.is_copy:
            known = self.hypothesis()
            if known.is_zero:
                warn_caller(_KNOWS_NOTHING, UserWarning)
            scores, fresh = known.scores(X), np.zeros(len(X), dtype=bool)
        else:
            with np.errstate(all="ignore"):  # what numpy raises may hang on a private row
                scores, fresh = self._draw(X)
        return {k: (f, bool(flag)) for k, f, flag in zip(keys, scores, fresh, strict=True)}

    @abstractmethod
    def hypothesis(self) -> Minimizer:
        """Return the function that all answers given so far amount to; it is public."""

    @abstractmethod
    def _draw(self, X: NDArray) -> tuple[Floats, NDArray[np.bool_]]:
        """Answer distinct new points, with noise where the mechanism draws any."""

    def __reduce__(self):
        with self._lock:
            state = self._n_scores, dict(self._known), self.hypothesis(), self._is_public
        return FrozenAnswers, state


class FrozenAnswers(AnsweredQueries):
    """What copies carry of `AnsweredQueries`: points asked, answers, and what those amount to.

    No training row is among them, unless somebody asked at one, or the answers had no noise.

    Parameters
    ----------
    n_scores : int
    known : dict
        Points and answers.
    hypothesis : Minimizer
    is_public : bool
        Whether the points and the hypothesis are public: not where no noise was added.
    """

    def __init__(self, n_scores: int, known: dict, hypothesis: Minimizer, is_public: bool):
        super().__init__(n_scores)
        self._known, self._hypothesis, self._is_public = known, hypothesis, is_public
        self._process = None

    @property
    def holds_private_data(self) -> bool:
        """Whether a point was asked that nobody said is public, or no noise was added."""
        return not self._is_public

    def hypothesis(self) -> Minimizer:
        """Return the function that all answers amounted to when this copy was made."""
        return self._hypothesis

    def _draw(self, X):
        raise AssertionError("a copy draws no noise")
