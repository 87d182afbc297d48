"""The functional mechanism: Gaussian noise on a function itself (Hall, Rinaldo, Wasserman 2013).

Two minimisers of neighbouring data differ by at most Delta_w in the norm of the space, whether the
data differ in a row or in a group of rows: nothing else is asked of neighbours. Gaussian noise of
standard deviation Delta_w / mu on orthonormal coordinates of any subspace, fixed or grown from
answer to answer, makes the projection of the function mu-GDP, however many predictions are read
off it. The proof is in docs/proofs.md.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils import gen_batches

from ..._computing import Floats, advance, power_below
from ..._sklearn import Interval, StrOptions
from ...privacy._mechanisms import Mechanism, PureDP
from ...privacy._noise import Block, IntegerNoise, on_grid, radial_noise, secret_generator
from ..erm._problem import (
    GRID_PER_SENSITIVITY,
    ROUNDED_UP,
    FeatureSpace,
    Minimizer,
    Problem,
    Space,
    Terms,
    check_rounding,
    coordinate_rounding,
    factor_jitter,
)
from ._base import AnsweredQueries, FrozenAnswers, LearnerMechanism, Plan

# Landmarks of "auto", and the most of them. Digits (64 columns) had 0.971 with 1,024 of them, 0.973
# with 2,048, 0.978 with 4,096; more than 1,024 gained nothing on Adult (6 numeric columns).
_LANDMARKS, _MOST_LANDMARKS = 1024, 4096


class CoordinateNoise:
    """Noise for coordinates in an orthonormal basis, exact on a public grid.

    Parameters
    ----------
    n_coordinates : int
        The most that will be released, over all calls of `add` together.
    terms : Terms
    rounding : float, default=0.0
        How far all coordinates together may be from exact ones, for either neighbour.

    Attributes
    ----------
    mechanism : Mechanism
        The cost of all coordinates together.
    std : float
        Standard deviation of the noise on a coordinate.
    """

    idealised = False

    def __init__(self, n_coordinates: int, terms: Terms, rounding: float = 0.0):
        self._grid = power_below(terms.sensitivity * GRID_PER_SENSITIVITY)
        # Either neighbour's coordinates move by half a grid unit each.
        moved = terms.sensitivity + 2 * rounding
        norm = (moved / self._grid + math.sqrt(n_coordinates)) * ROUNDED_UP
        block = Block(n_coordinates, norm * math.sqrt(n_coordinates), norm)
        self._noise = IntegerNoise([block], epsilon=terms.epsilon, delta=terms.delta)
        self._terms = terms
        self._n_drawn = 0
        self.mechanism: Mechanism = self._noise.mechanism
        self.std = float(self._noise.std[0]) * self._grid

    def add(self, coordinates: Floats) -> Floats:
        """Return the coordinates with noise of their own."""
        if not self._terms.is_private:
            return coordinates
        # `IntegerNoise` multiplies by 2**lift: what is left of 64 bits is the largest value.
        limit = self._grid * 2.0 ** (60 - self._noise.lift)
        values = on_grid(np.clip(coordinates, -limit, limit), self._grid).ravel()
        seed = self._terms.seed(0, self._n_drawn)
        self._n_drawn += 1
        noisy = self._noise.add_block(0, values, seed)
        return noisy.reshape(coordinates.shape) * self._grid


class PureNoise:
    """Noise for coordinates that is pure epsilon-DP, in floating point.

    Its density is proportional to exp(-|xi| epsilon / sensitivity) of all coordinates together.

    Parameters
    ----------
    n_coordinates : int
    terms : Terms

    Attributes
    ----------
    mechanism : Mechanism
    std : float
        Standard deviation of the noise on a coordinate. The length of the noise is Gamma
        distributed, of mean square ``r (r + 1) scale^2`` in r coordinates.
    """

    idealised = True

    def __init__(self, n_coordinates: int, terms: Terms):
        self._terms, self._scale = terms, terms.sensitivity / terms.epsilon
        self.std = self._scale * math.sqrt(n_coordinates + 1)
        self.mechanism: Mechanism = PureDP(terms.epsilon)

    def add(self, coordinates: Floats) -> Floats:
        """Return the coordinates with noise."""
        rng = secret_generator(self._terms.seed(1))
        return coordinates + radial_noise(coordinates.shape, self._scale, rng)


class FunctionalMechanism(LearnerMechanism):
    """Gaussian noise on the learned function, once for any number of predictions.

    With explicit features, all their weights get noise. With a kernel and public points, the best
    function in the span of the points does. A PINP learner samples a path of the Gaussian process
    instead, point by point. "auto" takes it for PINP learners, and for the others if neither
    "gradient" nor "objective" applies.

    Parameters
    ----------
    n_landmarks : int or "auto", default="auto"
        For TDIL and TDDL learners: how many public points are drawn from the schema if the kernel
        needs some. The default is large because the noise on a prediction does not grow with it,
        but time grows with its square. It is 1024. If delta > 0 and the schema has more than 30
        numeric columns, it is twice the number of products of one or two of these, up to 4096: a
        kernel that reaches far sees little else of so many columns.
    max_points : int, default=5000
        For PINP learners with a kernel: at how many points the path is sampled. Later points get
        the path's conditional mean. Memory grows with its square: at the default, one matrix of
        this size takes 200 MB.

    Notes
    -----
    Source: Hall, Rinaldo and Wasserman (2013), "Differential privacy for functions and functional
    data". The noise on a prediction at z is at most ``Delta_w |phi(z)| / mu``. With ``delta=0`` the
    noise grows with the dimension, and PINP learners have no such guarantee for kernels.

    Examples
    --------
    >>> from skdpsumm import TDILClassifier
    >>> from skdpsumm.learners import FunctionalMechanism
    >>> model = TDILClassifier(
    ...     kernel="rbf", schema=(-1, 1), mechanism=FunctionalMechanism(n_landmarks=64)
    ... )
    >>> model.set_params(mechanism__n_landmarks=128).mechanism
    FunctionalMechanism(n_landmarks=128)
    """

    name = "functional"
    learners = ("TDIL", "TDDL", "PINP")
    takes_groups = True
    takes_sparse = True
    spans_points = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_points": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, *, n_landmarks: int | str = "auto", max_points: int = 5000):
        self.n_landmarks = n_landmarks
        self.max_points = max_points

    def count_landmarks(self, n_numeric: int, delta: float) -> int:
        if self.n_landmarks != "auto":
            return int(self.n_landmarks)
        products = n_numeric * (n_numeric + 3) // 2
        # With delta = 0 only the leading directions are released, which fewer points show.
        most = _MOST_LANDMARKS if delta > 0 else _LANDMARKS
        return min(max(2 * products, _LANDMARKS), most)

    def plan(self, space: Any, terms: Terms, public: Any) -> Plan:
        if space.n_features is not None:
            return WeightNoise(space, terms)
        if terms.is_private and terms.delta == 0:
            raise ValueError(
                "mechanism='functional' of a PINP learner needs explicit features for delta=0: "
                "set kernel='linear' or to a transformer, or set delta > 0, or mechanism='svt'."
            )
        return GaussianPath(space, terms, int(self.max_points))


class ExactNoise(Plan):
    """A plan whose noise is that of one standard deviation on all orthonormal coordinates."""

    noise_is_exact = True
    noise: PureNoise | CoordinateNoise

    def set_noise(self, noise: PureNoise | CoordinateNoise) -> None:
        """Set the noise of a coordinate, its cost, and what it adds to a score."""
        self.noise, self.mechanism = noise, noise.mechanism
        self.idealised = noise.idealised
        # This is exact, except for directions that public points do not span.
        self.score_noise = noise.std * self.space.radius


class WeightNoise(ExactNoise):
    """The functional mechanism on the weights of explicit features (Gaussian output perturbation).

    Parameters
    ----------
    space : FeatureSpace
    terms : Terms
    """

    def __init__(self, space: FeatureSpace, terms: Terms):
        self.space, self.terms = space, terms
        size = space.n_features * terms.n_scores
        is_pure = terms.is_private and terms.delta == 0
        self.set_noise(PureNoise(size, terms) if is_pure else CoordinateNoise(size, terms))

    def release(self, problem: Problem) -> Minimizer:
        """Return the minimiser with noise on all its weights."""
        return self.space.of_weights(self.noise.add(problem.minimize().coefficients))

    def open(self, problem: Problem) -> FrozenAnswers:
        """Return an answering object that holds the release, and nothing private."""
        return FrozenAnswers(self.terms.n_scores, {}, self.release(problem), is_public=True)


class GaussianPath(ExactNoise):
    """The functional mechanism, one coordinate per new point.

    Parameters
    ----------
    space : Space
    terms : Terms
    max_points : int
        The most points at which the path is sampled; all later ones get its conditional mean.
    """

    def __init__(self, space: Space, terms: Terms, max_points: int):
        self.space, self.terms, self.max_points = space, terms, max_points
        self.jitter = factor_jitter(space, max_points)
        rounding = coordinate_rounding(space, terms, max_points)
        if terms.is_private:
            remedy = "take fewer max_points, or a smaller regularization"
            check_rounding(rounding, terms.sensitivity, remedy)
        self.set_noise(CoordinateNoise(max_points * terms.n_scores, terms, rounding))

    def open(self, problem: Problem) -> PathAnswers:
        """Return the answering object, which holds the private minimiser."""
        return PathAnswers(problem.minimize(), self)


class PathAnswers(AnsweredQueries):
    """Answers f*(z) + (Delta_w / mu) G(z) for a Gaussian process G with the kernel's covariance.

    The path is kept as coordinates in the orthonormal basis that the points span, in the order in
    which they were asked: ``L L^T = K + j I`` grows by a row per point, and so costs O(T) kernel
    values and O(T^2) arithmetic for point T, beside the n kernel values of f*(z).
    """

    def __init__(self, minimizer: Minimizer, plan: GaussianPath):
        n_scores = minimizer.coefficients.shape[1]
        super().__init__(n_scores)
        self._minimizer, self._plan = minimizer, plan
        self._points: Floats | None = None
        self._factor = np.zeros((0, 0))
        self._exact = np.zeros((0, n_scores))
        self._noisy = np.zeros((0, n_scores))
        self._is_judged = False

    @property
    def points(self) -> Floats | None:
        """The points at which the path was sampled; None where there are none."""
        return self._points

    def to_be_judged(self) -> GaussianPath | None:
        """Return the plan, once, when enough points were asked to tell signal from noise."""
        if self._is_judged or self.is_copy or len(self._factor) < 30:
            return None
        self._is_judged = True
        return self._plan

    def hypothesis(self) -> Minimizer:
        """Return the path's conditional mean, as an expansion in the points asked."""
        if self._points is None:
            return Minimizer.zero(self._plan.space, self._n_scores)
        coefficients = solve_triangular(self._factor, self._noisy, lower=True, trans=1)
        return Minimizer(self._plan.space, coefficients, self._points)

    def _draw(self, X):
        parts = []
        for rows in gen_batches(len(X), 512):
            parts.append(self._extend(X[rows]))
            advance()
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _extend(self, X: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return answers at new points, with new coordinates for those that open one."""
        opens = np.zeros(len(X), dtype=bool)
        opens[: self._plan.max_points - len(self._factor)] = True
        while opens.any():
            below = self._below(X[opens])
            corner = self._corner(X[opens], below)
            # A point of which less is outside the span of those before it opens no new coordinate.
            new = np.diag(corner) ** 2 > 1e-7 * self._plan.space.radius**2
            if new.all():
                self._append(X[opens], below, corner)
                break
            opens[np.flatnonzero(opens)[~new]] = False
        answers = np.empty((len(X), self._n_scores))
        if opens.any():
            answers[opens] = self._factor[-int(opens.sum()) :] @ self._noisy
        if not opens.all():
            answers[~opens] = self.hypothesis().scores(X[~opens])
        return answers, opens

    def _below(self, X: Floats) -> Floats:
        """Return the coordinates of phi(X) in the basis so far, shape (m, T)."""
        if self._points is None:
            return np.zeros((len(X), 0))
        cross = self._plan.space.gram(self._points, X)
        return solve_triangular(self._factor, cross, lower=True).T

    def _corner(self, X: Floats, below: Floats) -> Floats:
        """Return the factor of what is left of the Gram matrix of X."""
        space = self._plan.space
        left = space.gram(X, X) + self._plan.jitter * np.eye(len(X)) - below @ below.T
        return cholesky(left, lower=True)

    def _append(self, X: Floats, below: Floats, corner: Floats) -> None:
        values = self._minimizer.careful_scores(X)
        exact = solve_triangular(corner, values - below @ self._exact, lower=True)
        noisy = self._plan.noise.add(exact)
        # What was asked is remembered together, so that an interrupt leaves a consistent path.
        upper = np.zeros((len(self._factor), len(X)))
        self._factor = np.block([[self._factor, upper], [below, corner]])
        self._exact = np.vstack([self._exact, exact])
        self._noisy = np.vstack([self._noisy, noisy])
        self._points = X if self._points is None else np.vstack([self._points, X])
