"""The functional mechanism: Gaussian noise on a function itself (Hall, Rinaldo, Wasserman 2013).

Two minimisers of neighbouring data differ by at most Delta_w in the norm of the space. In
orthonormal coordinates of any fixed subspace that is their Euclidean distance, so Gaussian noise of
standard deviation Delta_w / mu on each coordinate makes the projection of the function mu-GDP,
however many predictions are read off it. A prediction at x gets noise of standard deviation at
most ``Delta_w |phi(x)| / mu``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from ..._linear_systems import UNIT, power_below
from ...privacy import (
    Block,
    IntegerNoise,
    Mechanism,
    PureDP,
    on_grid,
    radial_noise,
    secret_generator,
)
from ..erm._feature_space import FeatureSpace
from ..erm._problem import (
    ROUNDED_UP,
    Minimizer,
    Problem,
    Space,
    Terms,
    check_rounding,
    coordinate_rounding,
    factor_jitter,
    largest_weight,
    score_rounding,
)

Floats = NDArray[np.float64]

# Coordinates are rounded to this part of the sensitivity before noise is added.
_GRID = 2.0**-20
# Part of the trace of K_ZZ that pure noise, whose size grows with the dimension, is spent on.
_KEPT_TRACE = 0.9


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

    def __init__(self, n_coordinates: int, terms: Terms, rounding: float = 0.0):
        self._grid = power_below(terms.sensitivity * _GRID)
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


class WeightNoise:
    """The functional mechanism on the weights of explicit features (Gaussian output perturbation).

    Parameters
    ----------
    space : FeatureSpace
    terms : Terms
        With ``delta=0`` the noise has density proportional to exp(-|xi| epsilon / Delta_w).
    """

    def __init__(self, space: FeatureSpace, terms: Terms):
        self.space, self.terms = space, terms
        self._shape = space.n_features, terms.n_scores
        self.idealised = terms.is_private and terms.delta == 0
        if self.idealised:
            self.mechanism: Mechanism = PureDP(terms.epsilon)
        else:
            self._noise = CoordinateNoise(math.prod(self._shape), terms)
            self.mechanism = self._noise.mechanism

    def release(self, problem: Problem) -> Minimizer:
        """Return the minimiser with noise on all its weights."""
        weights = problem.minimize().coefficients
        if self.idealised:
            noise = pure_noise(self._shape, self.terms, self.terms.sensitivity)
            return Minimizer(self.space, weights + noise)
        return Minimizer(self.space, self._noise.add(weights))


class SpanNoise:
    """The functional mechanism in the span of phi(Z), for public points Z.

    Parameters
    ----------
    space : Space
    points : ndarray of shape (T, n_columns)
        Z. Repeated points are of no use, and no harm.
    terms : Terms
        With ``delta=0`` the noise grows with the square root of the dimension, so only the leading
        directions of K_ZZ are released, those that hold 9/10 of its trace.

    Notes
    -----
    With ``L L^T = K_ZZ + j I`` the coordinates of a function f are ``u = L^-1 f(Z)``. For two
    functions that are Delta_w apart these differ by at most Delta_w: ``|L^-1 v|^2 = v^T (K_ZZ +
    jI)^-1 v <= |P_Z (w - w')|^2``. What float64 adds to that is bounded in `_rounding`.
    """

    def __init__(self, space: Space, points: NDArray, terms: Terms):
        self.space, self.points, self.terms = space, points, terms
        gram = space.gram(points, points)
        n_points = len(points)
        self.idealised = terms.is_private and terms.delta == 0
        if self.idealised:
            self._to_coordinates = _leading_directions(gram)
            self._sensitivity = self._pure_sensitivity(gram)
            self.mechanism: Mechanism = PureDP(terms.epsilon)
            return
        rounding = coordinate_rounding(space, terms, n_points)
        check_coordinates(rounding, terms, "X_public (n_landmarks)")
        self._factor = cholesky(
            gram + factor_jitter(space, n_points) * np.eye(n_points), lower=True
        )
        self._noise = CoordinateNoise(n_points * terms.n_scores, terms, rounding)
        self.mechanism = self._noise.mechanism

    def _pure_sensitivity(self, gram: Floats) -> float:
        """Return how far coordinates can move, with all that keeps these from being orthonormal."""
        space, terms, (k, n) = self.space, self.terms, self._to_coordinates.shape
        size, radius = float(np.linalg.norm(self._to_coordinates)), terms.radius
        products = 2 * (n + 4) * UNIT * size**2 * float(np.linalg.norm(gram))
        entries = n * space.entry_error * (size * radius) ** 2
        identity = self._to_coordinates @ gram @ self._to_coordinates.T
        longer = float(np.linalg.norm(identity - np.eye(k))) + products + entries
        product = (n + 4) * UNIT * radius * largest_weight(terms)
        rounding = size * math.sqrt(n) * (score_rounding(space, terms) + product)
        check_coordinates(rounding, terms, "X_public (n_landmarks)")
        return math.sqrt(1 + longer) * terms.sensitivity + 2 * rounding

    def release(self, problem: Problem) -> Minimizer:
        """Return the projection of the minimiser on the span, with noise."""
        values = problem.minimize().careful_scores(self.points)
        if self.idealised:
            coordinates = self._to_coordinates @ values
            noise = pure_noise(coordinates.shape, self.terms, self._sensitivity)
            coordinates = coordinates + noise
            return Minimizer(self.space, self._to_coordinates.T @ coordinates, self.points)
        noisy = self._noise.add(solve_triangular(self._factor, values, lower=True))
        coefficients = solve_triangular(self._factor, noisy, lower=True, trans=1)
        return Minimizer(self.space, coefficients, self.points)


def check_coordinates(rounding: float, terms: Terms, points: str) -> None:
    """Raise ValueError where rounding would take a good part of the sensitivity."""
    if terms.is_private:
        remedy = f"take fewer {points}, or a smaller regularization"
        check_rounding(rounding, terms.sensitivity, remedy)


def _leading_directions(gram: Floats) -> Floats:
    """Return V^T K_ZZ^(-1/2) of the leading eigenvectors V: values to orthonormal coordinates."""
    sizes, vectors = eigh(gram)
    order = np.argsort(-sizes)
    kept = np.cumsum(sizes[order]) <= _KEPT_TRACE * sizes.sum()
    leading = order[: int(kept.sum()) + 1]
    return (vectors[:, leading] / np.sqrt(sizes[leading])).T


def pure_noise(shape: tuple[int, ...], terms: Terms, sensitivity: float) -> Floats:
    """Return noise for coordinates that is pure epsilon-DP, in floating point."""
    return radial_noise(shape, sensitivity / terms.epsilon, secret_generator(terms.seed(1)))
