"""Objective perturbation: what it is said to cost, against exact distributions of the minimiser.

In one dimension the minimiser is a monotone function of the noise, so that its distribution
function needs no density and no determinant; what is binned is a release of its own, whose
hockey-stick divergence never exceeds the true one. In two dimensions densities are summed.
"""

import itertools
import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit, log_ndtr, ndtr, softmax

from skdpsumm.privacy import BudgetExceededError, GaussianDP, PrivacyLedger, PureDP
from skdpsumm.privacy._compositions import EventDP, compose
from skdpsumm.privacy._mechanisms import (
    Unprotected,
    ZeroConcentratedDP,
    gdp_delta,
    gdp_epsilon,
    mechanism_from_dict,
    zcdp_epsilon,
)
from skdpsumm.privacy._noise import RESERVE, Block, IntegerNoise
from skdpsumm.privacy._objective import (
    OUTPUT_SHARE,
    calibrate,
    determinant_cost,
    discrete_slack,
    flat_profile,
    gaussian_terms,
    saturating_profiles,
    smallest_regularization,
)
from skdpsumm.privacy._segment import SegmentDP
from skdpsumm.privacy._shifted_gaussian import ShiftedGaussianDP, _rate

ADJACENCIES = ("add_remove", "replace_one")
PARTS = np.array([0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0])


# --------------------------------------------------------------------------- scalar losses, 1-D


class Scalar:
    """A loss of one score: its slope, its curvature, where it has kinks, and its corners."""

    def __init__(self, slope, curvature, kinks, lipschitz, smoothness, corners, labels):
        self.slope, self.curvature, self.kinks = slope, curvature, kinks
        self.lipschitz, self.smoothness = lipschitz, smoothness
        self.corners, self.labels = corners, labels


def logistic(margin=0.0):
    return Scalar(
        lambda f, y: -y * expit(margin - y * f),
        lambda f, y: expit(y * f - margin) * expit(margin - y * f),
        lambda y: [y * margin],
        1.0,
        0.25,
        {"vertices": 1, "hull": "polytope"},
        (1, -1),
    )


def huberized(h):
    return Scalar(
        lambda f, y: -y * np.clip((1 - y * f + h) / (2 * h), 0, 1),
        lambda f, y: (np.abs(1 - y * f) <= h) / (2 * h),
        lambda y: [y * (1 - h), y * (1 + h)],
        1.0,
        1 / (2 * h),
        {"vertices": 1, "hull": "polytope"},
        (1, -1),
    )


def huber(threshold):
    return Scalar(
        lambda f, y: np.clip(f - y, -threshold, threshold),
        lambda f, y: (np.abs(f - y) <= threshold) * 1.0,
        lambda y: [y - threshold, y + threshold],
        threshold,
        1.0,
        {"vertices": 2, "hull": "symmetric"},
        (0.0, 1.5),
    )


def insensitive(width, h):
    """Return the loss of a tube whose ends are rounded over h on either side, h <= width."""

    def slope(f, y):
        size = (np.abs(f - y) - width + h) / (2 * h)
        return np.sign(f - y) * np.clip(size, 0, 1)

    return Scalar(
        slope,
        lambda f, y: (np.abs(np.abs(f - y) - width) <= h) / (2 * h),
        lambda y: [y + s * (width + t) for s in (-1, 1) for t in (-h, h)],
        1.0,
        1 / (2 * h),
        {"vertices": 2, "hull": "symmetric"},
        (0.0, 1.5),
    )


SCALARS = {
    "logistic": logistic(),
    "huberized-0.1": huberized(0.1),
    "huberized-0.5": huberized(0.5),
    "huber-1": huber(1.0),
    "huber-0.3": huber(0.3),
    "insensitive": insensitive(0.4, 0.2),
}
SATURATING = {"logistic": logistic(), "soft hinge": logistic(3.0)}
BASES = [(), ((0.6, 0), (-0.8, 1)), ((1.0, 0), (1.0, 0), (-1.0, 0))]


def noise_of(loss, rows, w, regularization):
    """Return the noise for which w is the minimiser, which falls with w."""
    return -regularization * w - sum(
        (phi * loss.slope(phi * w, loss.labels[y]) for phi, y in rows), np.zeros_like(w)
    )


def edges(loss, rows, regularization, sigma):
    """Return the ends of bins: fine wherever any row's gradient changes."""
    reach = (12 * sigma + 8) / regularization
    kinks = [k / phi for phi, y in rows if phi for k in loss.kinks(loss.labels[y])]
    near = [k + s * np.linspace(-1, 1, 200) for k in (0.0, *kinks) for s in (0.03, 1.0)]
    wide = [np.linspace(-reach, reach, 4000), np.linspace(-30, 30, 2000)]
    return np.unique(np.concatenate([*wide, *near, kinks]))


def bins(loss, rows, w, regularization, sigma):
    """Return the probability of each bin."""
    x = -noise_of(loss, rows, w, regularization) / sigma
    lower, upper = x[:-1], x[1:]
    mass = np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
    return np.maximum(mass, 0)


def divergence(p, q, epsilon, volume=1.0):
    """Return both hockey-stick divergences."""
    factor = math.exp(epsilon)
    forth = (np.maximum(p - factor * q, 0) * volume).sum()
    return forth, (np.maximum(q - factor * p, 0) * volume).sum()


def neighbours(base, adjacency):
    """Return pairs of data sets with the worst rows there are."""
    rows = [(phi, y) for phi in (1.0, -1.0) for y in (0, 1)]
    if adjacency == "add_remove":
        return [(base, (*base, row)) for row in rows]
    # Equal features of opposite sign have the same curvature: a row of zeros has none.
    rows.append((0.0, 0))
    return [((*base, a), (*base, b)) for i, a in enumerate(rows) for b in rows[i + 1 :]]


def exact_pairs(loss, adjacency, regularization, unit, bases=BASES):
    """Return the binned distributions of all neighbours that are tried."""
    sigma = loss.lipschitz / unit
    for base in bases:
        for one, other in neighbours(base, adjacency):
            w = edges(loss, {*one, *other}, regularization, sigma)
            yield (
                bins(loss, one, w, regularization, sigma),
                bins(loss, other, w, regularization, sigma),
            )


def worst(loss, adjacency, regularization, unit, epsilons, bases=BASES):
    """Return the largest exact delta at each epsilon, in either direction."""
    pairs = exact_pairs(loss, adjacency, regularization, unit, bases)
    return np.max([[max(divergence(p, q, e)) for e in epsilons] for p, q in pairs], axis=0)


def claim(loss, adjacency, regularization, unit, *, shift=None, profile=None, **corners):
    """Return the library's claim for a scalar loss, or a mutant of it."""
    if shift is None:
        shift = determinant_cost(loss.smoothness, 1.0, regularization)
    profile = profile or flat_profile(shift)
    return ShiftedGaussianDP(
        gaussian_terms(unit, profile, adjacency=adjacency, **{**loss.corners, **corners})
    )


def epsilons_for(loss, regularization, unit):
    """Return epsilons below and beyond the shift."""
    shift = determinant_cost(loss.smoothness, 1.0, regularization)
    return np.concatenate([[0.0], PARTS * max(unit, 0.3), shift + PARTS * max(unit, 0.3)])


def exceeds(exact, mechanism, epsilons):
    """Return whether an exact delta is above the claim."""
    claimed = np.array([mechanism.delta(e) for e in epsilons])
    return bool(np.any(exact > claimed * (1 + 1e-9) + 1e-13))


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize(
    ("regularization", "unit"), [(0.02, 0.2), (0.02, 4.0), (0.5, 0.15), (1.0, 1.0), (20.0, 0.25)]
)
def test_no_exact_distribution_exceeds_the_claim(name, adjacency, regularization, unit):
    loss = SCALARS[name]
    epsilons = epsilons_for(loss, regularization, unit)
    exact = worst(loss, adjacency, regularization, unit, epsilons)
    assert not exceeds(exact, claim(loss, adjacency, regularization, unit), epsilons)


@pytest.mark.parametrize("name", ["logistic", "huberized-0.1", "huberized-0.5"])
@pytest.mark.parametrize(
    ("regularization", "unit"), [(0.02, 0.2), (0.02, 4.0), (0.5, 0.15), (1.0, 1.0), (20.0, 0.25)]
)
def test_no_exact_distribution_exceeds_the_claim_of_a_segment(name, regularization, unit):
    loss = SCALARS[name]
    found = SegmentDP(unit, loss.smoothness / regularization)
    epsilons = np.unique([*epsilons_for(loss, regularization, unit), 0.01, 0.1, 0.4])
    rows = np.random.default_rng(5).uniform(-1, 1, 40)
    crowd = tuple((float(phi), int(k % 2)) for k, phi in enumerate(rows))
    exact = worst(loss, "add_remove", regularization, unit, epsilons, [*BASES, crowd])
    assert not exceeds(exact, found, epsilons)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["logistic", "huberized-0.1", "huberized-0.5"])
@pytest.mark.parametrize(
    ("regularization", "unit"), [(0.02, 0.2), (0.02, 4.0), (0.5, 0.15), (1.0, 1.0), (20.0, 0.25)]
)
def test_a_row_that_is_replaced_is_within_its_dominating_gaussian(name, regularization, unit):
    loss = SCALARS[name]
    two = SegmentDP(unit, loss.smoothness / regularization, rows=2)
    epsilons = np.unique([*epsilons_for(loss, regularization, unit), 0.01, 0.1, 0.4])
    exact = worst(loss, "replace_one", regularization, unit, epsilons)
    assert not exceeds(exact, two, epsilons)
    assert not exceeds(exact, GaussianDP(two.dominating_mu()), epsilons)


@pytest.mark.parametrize(
    ("regularization", "unit", "forgotten"),
    [(20.0, 0.25, lambda mu, unit: 0.7 * mu), (0.5, 0.15, lambda mu, unit: 2 * unit)],
)
def test_a_row_or_a_curvature_that_is_forgotten_would_be_noticed(regularization, unit, forgotten):
    loss = SCALARS["huberized-0.1"]
    mu = SegmentDP(unit, loss.smoothness / regularization, rows=2).dominating_mu()
    epsilons = epsilons_for(loss, regularization, unit)
    exact = worst(loss, "replace_one", regularization, unit, epsilons)
    assert exceeds(exact, GaussianDP(forgotten(mu, unit)), epsilons)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", SATURATING)
@pytest.mark.parametrize(
    ("regularization", "unit"), [(0.05, 0.2), (0.3, 0.16), (0.3, 3.0), (1.0, 0.24), (5.0, 1.0)]
)
def test_no_exact_distribution_exceeds_the_claim_of_a_loss_that_saturates(
    adjacency, name, regularization, unit
):
    loss = SATURATING[name]
    curvature = loss.smoothness / regularization
    epsilons = np.unique([*epsilons_for(loss, regularization, unit), curvature, 4 * curvature])
    exact = worst(loss, adjacency, regularization, unit, epsilons)
    for profile in saturating_profiles(curvature, 50.0)[::5]:
        found = claim(loss, adjacency, regularization, unit, profile=profile)
        assert not exceeds(exact, found, epsilons)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", ["huberized-0.5", "huber-1"])
def test_less_noise_would_be_noticed(name, adjacency):
    """Large steps of regularization leave the Gaussian part alone, which is then tight."""
    loss, regularization, unit = SCALARS[name], 20.0, 0.25
    epsilons = epsilons_for(loss, regularization, unit)
    exact = worst(loss, adjacency, regularization, unit, epsilons)
    assert exceeds(exact, claim(loss, adjacency, regularization, 0.7 * unit), epsilons)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", SCALARS)
def test_a_missing_determinant_would_be_noticed(name, adjacency):
    loss, regularization, unit = SCALARS[name], 0.05, 0.2
    epsilons = epsilons_for(loss, regularization, unit)
    exact = worst(loss, adjacency, regularization, unit, epsilons)
    assert exceeds(exact, claim(loss, adjacency, regularization, unit, shift=0.0), epsilons)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_half_a_determinant_would_be_noticed(adjacency):
    loss, regularization, unit = SCALARS["huberized-0.1"], 0.05, 0.2
    epsilons = np.linspace(0, 6, 25)
    half = determinant_cost(loss.smoothness, 1.0, regularization) / 2
    exact = worst(loss, adjacency, regularization, unit, epsilons)
    assert exceeds(exact, claim(loss, adjacency, regularization, unit, shift=half), epsilons)


def test_a_second_sign_would_be_noticed():
    """Huber's residuals have two signs: with one corner of them, large noise units tell."""
    loss, regularization, unit = SCALARS["huber-1"], 0.013, 4.7
    epsilons = epsilons_for(loss, regularization, unit)
    exact = worst(loss, "add_remove", regularization, unit, epsilons)
    one = claim(loss, "add_remove", regularization, unit, vertices=1, hull="polytope")
    assert exceeds(exact, one, epsilons)


def test_the_factor_of_two_signs_is_attained():
    """Of the order that has no determinant, with little regularization."""
    loss, unit = SCALARS["huber-1"], 1.0
    p, q = next(exact_pairs(loss, "add_remove", 0.02, unit, [()]))
    assert divergence(p, q, 2.0)[0] == pytest.approx(2 * gdp_delta(unit, 2.0), rel=1e-4)


def test_a_loss_with_a_corner_does_not_saturate():
    """The Huberised hinge keeps its curvature up to t = 1: the claim is for the logistic loss."""
    loss, regularization, unit = SCALARS["huberized-0.1"], 5.0, 1.0
    epsilons = epsilons_for(loss, regularization, unit)
    exact = worst(loss, "add_remove", regularization, unit, epsilons)
    profile = saturating_profiles(loss.smoothness / regularization, 50.0)[0]
    mutant = claim(loss, "add_remove", regularization, unit, profile=profile)
    assert exceeds(exact, mutant, epsilons)


def margin_ell(s, curvature):
    return np.log1p(4 * curvature * s * (1 - s))


@pytest.mark.parametrize("curvature", [0.01, 0.3, 5.0])
def test_profiles_of_a_margin_loss_touch_its_determinant(curvature):
    """A polygon above it at every t; it has a point on each side, so that none could be lower."""
    s = np.linspace(0, 1, 20001)
    profiles = saturating_profiles(curvature, 100.0)
    assert {len(profile) for profile in profiles} == {2, 3}
    assert profiles[0] == ((0.0, 0.0), (1.0, pytest.approx(4 * curvature)))
    for profile in profiles:
        ends, heights = zip(*profile, strict=True)
        room = np.interp(s, ends, heights) - margin_ell(s, curvature)
        assert room.min() >= -1e-12
        for low, high in pairwise(ends):
            assert room[(s >= low) & (s <= high)].min() <= 1e-4 * heights[-1]


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("vertices", [1, 2, 9])
def test_profiles_stay_within_epsilon(epsilon, vertices):
    for curvature in (1e-3, 0.1, 0.3):
        for profile in saturating_profiles(curvature, epsilon, vertices):
            assert all(0 <= height <= epsilon * (1 + 1e-9) for _, height in profile)


# -------------------------------------------------------------------------------- two dimensions


def plane(regularization, sigma, points=420):
    """Return midpoints and volumes of cells, fine in the middle."""
    reach = (7 * sigma + 4) / regularization
    t = np.linspace(-1, 1, points + 1)
    t, stretch = (t[1:] + t[:-1]) / 2, 3.0
    w = reach * np.sinh(stretch * t) / math.sinh(stretch)
    width = reach * stretch * np.cosh(stretch * t) / math.sinh(stretch) * 2 / points
    first, second = np.meshgrid(w, w, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=1), np.outer(width, width).ravel()


def normal(b, sigma):
    return np.exp(-np.sum(b**2, axis=1) / (2 * sigma**2)) / (2 * math.pi * sigma**2)


def density_of_two_features(loss, rows, regularization, sigma, W):
    b, hessian = -regularization * W, np.tile(regularization * np.eye(2), (len(W), 1, 1))
    for phi, y in rows:
        scores = W @ phi
        b = b - loss.slope(scores, loss.labels[y])[:, None] * phi
        curvature = loss.curvature(scores, loss.labels[y])
        hessian = hessian + curvature[:, None, None] * np.outer(phi, phi)
    return normal(b, sigma) * np.linalg.det(hessian)


# Softmax of three classes, one feature: nothing depends on the mean of the weights.
PLANE = np.array([[1, 1, -2], [1, -1, 0]]).T / np.sqrt([6, 2])


def density_of_softmax(rows, regularization, sigma, V):
    b, hessian = -regularization * V, np.tile(regularization * np.eye(2), (len(V), 1, 1))
    for phi, y in rows:
        p = softmax(phi * V @ PLANE.T, axis=1)
        b = b - phi * (p - np.eye(3)[y]) @ PLANE
        mean = p @ PLANE
        second = np.einsum("nk,ki,kj->nij", p, PLANE, PLANE)
        hessian = hessian + phi**2 * (second - mean[:, :, None] * mean[:, None, :])
    return normal(b, sigma) * np.linalg.det(hessian)


def unit_vector(angle):
    return np.array([math.cos(angle), math.sin(angle)])


def check_plane(densities, volume, mechanism, shift, unit):
    """Assert that no divergence exceeds the claim by more than the quadrature's error."""
    assert all(p @ volume == pytest.approx(1, abs=6e-3) for p in densities)
    for epsilon in np.concatenate([PARTS * max(unit, 0.3), shift + PARTS * max(unit, 0.3)]):
        exact = max(divergence(*densities, epsilon, volume))
        assert exact <= mechanism.delta(epsilon) * (1 + 2e-3) + 1e-9


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", ["logistic", "huberized-0.5", "huber-1"])
@pytest.mark.parametrize(("regularization", "unit", "angle"), [(0.6, 0.4, 1.6), (5.0, 1.0, 2.6)])
def test_two_features(name, adjacency, regularization, unit, angle):
    loss, sigma = SCALARS[name], SCALARS[name].lipschitz / unit
    W, volume = plane(regularization, sigma)
    base = [(unit_vector(0.7), 1)]
    one = [*base, (unit_vector(0.0), 0)]
    other = base if adjacency == "add_remove" else [*base, (unit_vector(angle), 1)]
    densities = [density_of_two_features(loss, d, regularization, sigma, W) for d in (one, other)]
    shift = determinant_cost(loss.smoothness, 1.0, regularization)
    check_plane(densities, volume, claim(loss, adjacency, regularization, unit), shift, unit)


THREE = {"smoothness": 0.5, "rank": 2, "trace": 2 / 3}


def softmax_claim(adjacency, profile, unit):
    return ShiftedGaussianDP(gaussian_terms(unit, profile, 2, "simplex", adjacency))


@pytest.mark.statistical
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("other", [(-1.0, 0), (1.0, 1)])
@pytest.mark.parametrize(("regularization", "unit"), [(0.4, 0.4), (6.0, 1.0)])
def test_three_classes(adjacency, other, regularization, unit):
    sigma = math.sqrt(2) / unit
    V, volume = plane(regularization, sigma)
    base = [(0.5, 2)]
    two = base if adjacency == "add_remove" else [*base, other]
    one = [*base, (1.0, 0)] if adjacency == "replace_one" else [*base, other]
    densities = [density_of_softmax(d, regularization, sigma, V) for d in (one, two)]
    shift = determinant_cost(radius=1.0, regularization=regularization, **THREE)
    profiles = saturating_profiles(THREE["smoothness"] / regularization, 50.0, 2)
    for profile in (flat_profile(shift), *profiles[::4]):
        check_plane(densities, volume, softmax_claim(adjacency, profile, unit), shift, unit)


def test_two_corners_of_softmax_count_twice():
    """Of the order that has no determinant: one corner alone is refuted."""
    regularization, unit = 0.15, 0.4
    sigma = math.sqrt(2) / unit
    V, volume = plane(regularization, sigma)
    densities = [density_of_softmax(d, regularization, sigma, V) for d in ([], [(1.0, 0)])]
    exact = divergence(*densities, 1.2, volume)[0]
    assert 1.7 * gdp_delta(unit, 1.2) < exact <= 2 * gdp_delta(unit, 1.2) * (1 + 2e-3)


def test_the_determinant_of_softmax_is_attained():
    """Equal probabilities have the largest determinant."""
    p = np.full(5, 0.2)
    for k in (0.01, 1.0, 30.0):
        exact = np.linalg.slogdet(np.eye(5) + k * (np.diag(p) - np.outer(p, p)))[1]
        ours = determinant_cost(0.5, 1.0, 1 / k, rank=4, trace=1 - 1 / 5)
        assert exact == pytest.approx(ours, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_determinant_of_any_row_is_bounded(seed):
    rng = np.random.default_rng(seed)
    p, phi = rng.dirichlet(np.ones(4)), rng.normal(size=3)
    curvature = np.diag(p) - np.outer(p, p)
    other = rng.normal(size=(12, 12))
    hessian = 0.3 * np.eye(12) + other @ other.T * rng.choice([0, 0.01, 1])
    more = np.kron(np.outer(phi, phi), curvature)
    exact = np.linalg.slogdet(hessian + more)[1] - np.linalg.slogdet(hessian)[1]
    radius = np.linalg.norm(phi)
    assert 0 <= exact <= determinant_cost(0.5, radius, 0.3, rank=3, trace=0.75) + 1e-12
    assert exact <= determinant_cost(0.5, radius, 0.3, rank=3)


def corners(label, phi):
    """Return the corners of softmax's gradients of one row, and zero."""
    return [np.outer(phi, np.eye(4)[j] - np.eye(4)[label]) / math.sqrt(2) for j in range(4)]


@pytest.mark.parametrize("hull", ["polytope", "simplex"])
@pytest.mark.parametrize("cosine", [-1.0, -0.5, 0.0, 0.7, 1.0])
@pytest.mark.parametrize("label", [0, 1])
def test_no_row_replaced_has_more_or_longer_corners(hull, cosine, label):
    one = np.array([1.0, 0.0])
    two = np.array([cosine, math.sqrt(1 - cosine**2)])
    exact = sorted(
        float(np.linalg.norm(u - v)) for u in corners(0, one) for v in corners(label, two)
    )
    terms = gaussian_terms(1.0, flat_profile(0.0), 3, hull, "replace_one")
    claimed = sorted(mu for weight, mu, _ in terms for _ in range(round(weight)))
    assert len(claimed) == len(exact)
    assert all(a <= b + 1e-12 for a, b in zip(exact, claimed, strict=True))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("vertices", [2, 3, 5])
def test_no_difference_from_a_point_of_a_profile_is_longer(vertices, seed):
    """Point by point, for features of any length and angle, and labels alike or not."""
    rng, k = np.random.default_rng(seed), vertices + 1
    for trial in range(60):
        cosine = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])
        one, two = np.array([1.0, 0.0]), np.array([cosine, math.sqrt(1 - cosine**2)])
        one, two = rng.choice([1.0, rng.random()]) * one, rng.choice([1.0, rng.random()]) * two
        other = [np.outer(two, s) for s in np.eye(k) - np.eye(k)[trial % 2]]
        for s, points in softmax_points(k).items():
            gradients = [np.outer(one, p - np.eye(k)[0]) for p in points]
            exact = sorted(np.linalg.norm(u - v) / math.sqrt(2) for u in gradients for v in other)
            terms = gaussian_terms(1.0, ((s, 0.0),), vertices, "simplex", "replace_one")
            claimed = sorted(mu for weight, mu, _ in terms for _ in range(round(weight)))
            assert len(claimed) == len(exact)
            assert all(a <= b + 1e-12 for a, b in zip(exact, claimed, strict=True))
            alone = sorted(np.linalg.norm(u) / math.sqrt(2) for u in gradients)
            terms = gaussian_terms(1.0, ((s, 0.0),), vertices, "simplex", "add_remove")
            claimed = sorted(mu for weight, mu, _ in terms for _ in range(round(weight)))
            assert all(a <= b + 1e-12 for a, b in zip(alone, claimed, strict=True))


def softmax_points(k):
    """Return what the s of a profile stands for where the label is 0: lists of probabilities."""
    corners = np.eye(k)[1:]
    middles = [(a + b) / 2 for a, b in itertools.combinations(corners, 2)]
    return {0.0: corners, 0.5: middles, 1.0: np.eye(k)[:1]}


def lack(profile, probabilities, curvature):
    """Return by how much the determinant exceeds what mixtures of the points reach at most."""
    k = probabilities.shape[1]
    points = [(p, height) for s, height in profile for p in softmax_points(k)[s]]
    where, heights = (np.array(x) for x in zip(*points, strict=True))
    lacks = []
    for p in probabilities:
        best = linprog(-heights, A_eq=where.T, b_eq=p)
        cost = np.linalg.slogdet(np.eye(k) + 2 * curvature * (np.diag(p) - np.outer(p, p)))[1]
        lacks.append(cost + best.fun)
    return max(lacks)


@pytest.mark.parametrize("curvature", [0.02, 3.0])
@pytest.mark.parametrize("vertices", [2, 5])
def test_profiles_of_softmax_cover_every_probability(vertices, curvature):
    """By linear programs; without the middles, or with any point lower, they do not."""
    rng, k = np.random.default_rng(0), vertices + 1
    spread = [rng.dirichlet(np.full(k, a), 4) for a in (0.05, 0.3, 1.0, 30.0)]
    edges = np.array([[0, 0.99, 0.01], [0.01, 0.99, 0], [0, 0.5, 0.5], [0.5, 0.5, 0]])
    edges = np.pad(edges, [(0, 0), (0, k - 3)])
    parts = np.array([0.003, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 1 - 1 / k])[:, None]
    alike = (1 - parts) * np.eye(k)[1] + parts * (1 - np.eye(k)[1]) / vertices
    profiles = saturating_profiles(curvature, 100.0, vertices)
    for profile in profiles[::6]:
        assert lack(profile, np.concatenate([*spread, edges, alike]), curvature) <= 1e-9
        lower = tuple((s, 0.85 * height) for s, height in profile)
        assert lack(lower, alike, curvature) > 1e-4 * curvature
    corner, middle, label = profiles[0]  # the steepest: without the middles, edges stick out
    assert lack((corner, label), edges, curvature) > 1e-2 * curvature
    low_label = corner, middle, (1.0, middle[1] / 2)
    assert lack(low_label, edges, curvature) > 1e-4 * curvature


def test_margin_losses_have_their_terms():
    found = gaussian_terms(0.5, ((0.0, 0.1), (1.0, 0.4)), 1, "polytope", "add_remove")
    assert found == ((1, 0.5, 0.1), (1, 0, 0.4))
    profile = ((0.0, 0.1), (0.25, 0.2), (1.0, 0.3))
    found = gaussian_terms(0.5, profile, 1, "polytope", "replace_one")
    assert found == (
        (1, 1.0, 0.1),
        (1, 0.5, 0.1),
        (1, 0.875, 0.2),
        (1, 0.375, 0.2),
        (1, 0.5, 0.3),
        (1, 0, 0.3),
    )


@pytest.mark.parametrize("cosine", [-1.0, -0.5, 0.0, 0.7, 1.0])
def test_no_residual_replaced_has_more_or_longer_corners(cosine):
    exact = sorted(math.sqrt(2 + 2 * a * b * cosine) for a in (1, -1) for b in (1, -1))
    terms = gaussian_terms(1.0, flat_profile(0.0), 2, "symmetric", "replace_one")
    claimed = sorted(mu for weight, mu, _ in terms for _ in range(round(weight)) if mu)
    assert all(a <= b + 1e-12 for a, b in zip(exact, claimed, strict=True))


# ------------------------------------------------------------------------------------- pure noise


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("regularization", [0.1, 5.0])
def test_pure_noise_bounds_the_ratio_of_densities(name, adjacency, regularization):
    loss, epsilon = SCALARS[name], 6.0
    found = calibrate(
        epsilon,
        0.0,
        lipschitz=loss.lipschitz,
        smoothness=loss.smoothness,
        radius=1.0,
        regularization=regularization,
        adjacency=adjacency,
    )
    assert found.mechanism == PureDP(epsilon)
    loudest = max(
        np.max(np.abs(log_ratio(loss, one, other, regularization, found.noise_scale)))
        for base in BASES
        for one, other in neighbours(base, adjacency)
    )
    assert loudest <= epsilon
    if name.startswith("huberized"):  # both parts at once: the slope is L where curvature ends
        assert loudest > 0.95 * epsilon


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", SATURATING)
@pytest.mark.parametrize("regularization", [0.05, 0.2, 5.0])
def test_pure_noise_of_a_loss_that_saturates(name, adjacency, regularization):
    """Within epsilon, not far below, and beyond it with the noise of a loss without curvature."""
    loss, epsilon = SATURATING[name], 2.0
    found = calibrate(
        epsilon, 0.0, **ROW, regularization=regularization, adjacency=adjacency, saturating=True
    )

    def loudest(scale):
        return max(
            np.max(np.abs(log_ratio(loss, one, other, regularization, scale)))
            for base in BASES
            for one, other in neighbours(base, adjacency)
        )

    assert 0.3 * epsilon < loudest(found.noise_scale) <= epsilon
    rows = {"add_remove": 1, "replace_one": 2}[adjacency]
    free = 4 * loss.smoothness / regularization <= epsilon / rows
    assert found.noise_scale == pytest.approx(rows / epsilon, rel=1e-9) or not free
    if regularization == 0.05 and adjacency == "add_remove":
        assert loudest(rows / epsilon) > epsilon


def log_ratio(loss, one, other, regularization, scale):
    w = edges(loss, {*one, *other}, regularization, 12 * scale)
    w = np.concatenate([w - 1e-9, w + 1e-9])
    logs = []
    for rows in (one, other):
        curvature = [phi**2 * loss.curvature(phi * w, loss.labels[y]) for phi, y in rows]
        b = noise_of(loss, rows, w, regularization)
        logs.append(np.log(regularization + sum(curvature)) - np.abs(b) / scale)
    return logs[0] - logs[1]


# ------------------------------------------------------------------------- approximate minimisers


def test_the_output_noise_covers_an_adversarial_solver():
    """Solvers that err by d to either side, then noise: the mixture is within the claim."""
    loss, regularization, unit, distance, output = SCALARS["logistic"], 20.0, 0.5, 0.5, 1.0
    std, sigma = 2 * distance / output, 1 / unit
    w = np.linspace(-12, 12, 6001)
    grid = w[1:] - np.diff(w) / 2
    pairs = []
    for rows, error in (((), distance), (((1.0, 0),), -distance)):
        mass = bins(loss, rows, w, regularization, sigma)
        kernel = np.exp(-(grid**2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))
        shifted = np.interp(grid - error, grid, np.convolve(mass, kernel, mode="same"))
        pairs.append(shifted * (w[1] - w[0]))
    exact_only = claim(loss, "add_remove", regularization, unit)
    both = compose([exact_only, GaussianDP(output)])
    epsilons = np.linspace(0, 3, 13)
    exact = [max(divergence(*pairs, e)) for e in epsilons]
    assert not exceeds(np.array(exact), both, epsilons)
    assert exceeds(np.array(exact), exact_only, epsilons)


def test_the_output_noise_is_accounted():
    row = {"lipschitz": 1.0, "smoothness": 0.25, "radius": 1.0, "regularization": 5.0}
    plain = calibrate(1.0, 1e-6, **row)
    found = calibrate(1.0, 1e-6, **row, distance=1e-3)
    output = 2e-3 / found.output_scale
    assert plain.output_scale == 0
    assert plain.noise_scale < found.noise_scale < plain.noise_scale * 1.002
    assert output == pytest.approx(math.sqrt(OUTPUT_SHARE) / found.noise_scale)
    assert found.mechanism.delta(1.0) >= gdp_delta(math.hypot(output, 1 / found.noise_scale), 1.0)
    pure, noisy = calibrate(1.0, 0.0, **row), calibrate(1.0, 0.0, **row, distance=1e-3)
    spent = 1 / noisy.noise_scale + noisy.shift + 2e-3 / noisy.output_scale
    assert spent == pytest.approx(1.0, rel=1e-9)
    assert spent <= 1.0
    assert pure.noise_scale < noisy.noise_scale


@pytest.mark.parametrize(("size", "sensitivity"), [(3, 50.0), (400, 1e4)])
def test_the_slack_of_discrete_noise_is_that_of_the_library(size, sensitivity):
    noise = IntegerNoise([Block(size, sensitivity, sensitivity)], epsilon=1.0, delta=1e-6)
    cost = noise.mechanism
    steps = noise.std[0] * 2.0**noise.lift
    ours = discrete_slack(size, steps, cost.mu, cost.tail)
    assert ours == pytest.approx(cost.log_ratio, rel=1e-6)
    with pytest.raises(ValueError, match="at least 2 steps"):
        discrete_slack(size, 1.5, cost.mu, cost.tail)


# -------------------------------------------------------------------------------- the calibration


ROW = {"lipschitz": 1.0, "smoothness": 0.25, "radius": 1.0}
DESIGNS = [
    {},
    {"saturating": True},
    {"adjacency": "replace_one"},
    {"adjacency": "replace_one", "saturating": True},
    {"vertices": 2, "hull": "symmetric"},
    {"vertices": 9, "hull": "simplex", "rank": 9, "trace": 0.45, "adjacency": "replace_one"},
    {"vertices": 9, "hull": "simplex", "rank": 9, "trace": 0.45, "saturating": True},
    {"distance": 1e-3},
    {"distance": 1e-3, "saturating": True},
]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: "-".join(map(str, d)) or "plain")
@pytest.mark.parametrize(
    ("epsilon", "delta", "regularization"), [(1.0, 1e-6, 10.0), (4.0, 1e-9, 3)]
)
def test_the_calibration_is_tight(design, epsilon, delta, regularization):
    found = calibrate(epsilon, delta, **ROW, regularization=regularization, **design)
    cost = found.mechanism
    assert cost.epsilon(delta) <= epsilon
    assert cost.epsilon(delta) == pytest.approx(epsilon, rel=1e-4)
    # No slack is lost: what the reserve leaves is spent.
    slack = {"log_ratio": RESERVE * epsilon / 4, "tail": RESERVE * delta / 4}
    assert replace(cost, **slack).delta(epsilon) <= delta


def test_more_regularization_and_more_epsilon_need_less_noise():
    scales = [calibrate(1.0, 1e-6, **ROW, regularization=r).noise_scale for r in (0.3, 1, 5, 50)]
    assert all(a > b for a, b in pairwise(scales))
    scales = [calibrate(e, 1e-6, **ROW, regularization=1.0).noise_scale for e in (0.5, 1, 2, 8)]
    assert all(a > b for a, b in pairwise(scales))


def test_noise_scales_with_the_gradient():
    one = calibrate(1.0, 1e-6, **ROW, regularization=5.0)
    wide = calibrate(1.0, 1e-6, lipschitz=3.0, smoothness=0.25, radius=2.0, regularization=5.0 * 4)
    assert wide.noise_scale == pytest.approx(6 * one.noise_scale)


def test_a_loss_that_saturates_is_soon_free_of_its_determinant():
    ideal = 1 / gdp_mu_of(1.0, 1e-6)
    for regularization in (1.0, 2.0, 10.0):
        found = calibrate(1.0, 1e-6, **ROW, regularization=regularization, saturating=True)
        assert found.noise_scale == pytest.approx(ideal, rel=1e-4)
    for regularization, part in ((0.3, 0.78), (0.5, 0.85)):
        plain = calibrate(1.0, 1e-6, **ROW, regularization=regularization)
        found = calibrate(1.0, 1e-6, **ROW, regularization=regularization, saturating=True)
        assert found.noise_scale < part * plain.noise_scale


def gdp_mu_of(epsilon, delta):
    """Return the mu of an epsilon at delta, by bisection."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gdp_delta(middle, epsilon) < delta else (low, middle)
    return low


def test_no_epsilon_means_no_noise():
    found = calibrate(math.inf, 1e-6, **ROW, regularization=0.01)
    assert found.noise_scale == found.output_scale == 0
    assert isinstance(found.mechanism, Unprotected)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_smallest_regularization_takes_its_share(delta, share):
    curve = {"smoothness": 0.5, "radius": 2.0, "rank": 3, "trace": 0.75}
    least = smallest_regularization(0.8, share, **curve)
    cost = determinant_cost(0.5, 2.0, least, rank=3, trace=0.75)
    assert cost <= share * 0.8
    assert cost == pytest.approx(share * 0.8)
    calibrate(0.8, delta, lipschitz=1.0, regularization=least, **curve)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_too_little_regularization_is_refused_with_a_remedy(delta):
    with pytest.raises(
        ValueError, match=r"regularization=0\.1 .*epsilon=1\.0.* costs epsilon=1\.253"
    ):
        calibrate(1.0, delta, **ROW, regularization=0.1)
    calibrate(1.0, delta, **ROW, regularization=2.377)  # which is what it says to take


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"smoothness": math.inf}, "without a kink"),
        ({"lipschitz": math.nan}, "lipschitz must be positive"),
        ({"radius": 0.0}, "radius must be positive"),
        ({"regularization": -1.0}, "regularization must be positive"),
        ({"adjacency": "swap"}, "adjacency must be one of"),
        ({"hull": "ball"}, "hull must be one of"),
        ({"vertices": 3, "hull": "symmetric"}, "even for pairs"),
        ({"vertices": 0}, "vertices must be at least 1"),
        ({"vertices": 2, "saturating": True}, "saturating=True needs vertices=1"),
        ({"vertices": 2, "rank": 2, "saturating": True}, "or hull='simplex'"),
        ({"vertices": 2, "hull": "simplex", "saturating": True}, "and rank=vertices"),
        ({"rank": 0}, "rank at least 1"),
        ({"distance": math.nan}, r"distance in \[0, inf\)"),
    ],
)
def test_settings_are_checked(wrong, message):
    with pytest.raises(ValueError, match=message):
        calibrate(1.0, 1e-6, **{**ROW, "regularization": 5.0, **wrong})
    with pytest.raises(ValueError, match="share must lie"):
        smallest_regularization(1.0, 1.0, smoothness=0.25, radius=1.0)


# ------------------------------------------------------------------------------ earlier analyses


def redberg(sigma, epsilon, regularization, smoothness):
    """Return the delta of Redberg, Koskela and Wang (2023) for L = R = 1."""
    rest, mu = epsilon + math.log(1 - smoothness / regularization), 1 / sigma
    over = rest - mu**2 / 2
    if over >= 0:
        return 2 * gdp_delta(mu, rest)
    return 1 - math.exp(over) + math.exp(over) * 2 * gdp_delta(mu, mu**2 / 2)


@pytest.mark.parametrize("regularization", [0.3, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 5.0, 20.0])
@pytest.mark.parametrize(
    "corners_", [{"vertices": 1, "hull": "polytope"}, SCALARS["huber-1"].corners]
)
def test_never_above_redberg_koskela_and_wang(regularization, sigma, corners_):
    shift = determinant_cost(0.25, 1.0, regularization)
    ours = ShiftedGaussianDP(
        gaussian_terms(1 / sigma, flat_profile(shift), adjacency="add_remove", **corners_)
    )
    for epsilon in np.linspace(0, 8, 33):
        theirs = redberg(sigma, epsilon, regularization, 0.25)
        assert ours.delta(epsilon) <= theirs * (1 + 1e-9) + 1e-300


def test_below_kifer_smith_and_thakurta():
    for epsilon, delta in ((0.5, 1e-6), (1.0, 1e-6), (2.0, 1e-9)):
        theirs = math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
        ours = calibrate(epsilon, delta, **ROW, regularization=2 * 0.25 / epsilon)
        assert ours.noise_scale < 0.75 * theirs


# --------------------------------------------------------------------------------- the mechanism


finite = st.floats(1e-3, 6.0)
terms = st.lists(
    st.tuples(st.floats(0.5, 50.0), finite, st.floats(0.0, 3.0)), min_size=1, max_size=3
)
claims = st.builds(lambda t, c: ShiftedGaussianDP((*t, (1.0, 0.0, c))), terms, st.floats(0.0, 3.0))


def loss_delta(unit, shift, epsilon, then=0.0):
    """Return the delta of the loss max(0, Y) + shift, then a mu-GDP mechanism, by quadrature."""
    x = np.linspace(-9, 9, 4001)
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    loss = np.maximum(0, unit * x + unit**2 / 2) + shift
    deltas = [gdp_delta(then, epsilon - y) for y in loss]
    return float(weight @ np.array(deltas))


def test_a_single_term_is_a_gaussian():
    one = ShiftedGaussianDP(((1, 0.7, 0),), log_ratio=1e-4, tail=1e-9)
    ideal = GaussianDP(0.7, 1e-4, 1e-9)
    for epsilon in (0.0, 0.3, 2.0):
        assert one.delta(epsilon) == pytest.approx(ideal.delta(epsilon), rel=1e-9)
    for delta in (1e-8, 1e-3):
        assert one.epsilon(delta) == pytest.approx(ideal.epsilon(delta), rel=1e-9)
    assert one.epsilon(1e-9) == math.inf
    assert one.dominating_mu() == pytest.approx(0.7, rel=1e-6)


def test_repr_is_short():
    assert (
        repr(ShiftedGaussianDP(((2, 1 / 3, 0.1),))) == "ShiftedGaussianDP(2 of mu=0.333333 + 0.1)"
    )
    assert "tail=1e-12" in repr(replace(ShiftedGaussianDP(((1, 1, 0),)), tail=1e-12))


def test_a_single_constant_is_pure():
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        ours = ShiftedGaussianDP(((1, 0, 0.5),)).delta(epsilon)
        assert ours == pytest.approx(PureDP(0.5).delta(epsilon), abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.7])
def test_the_curve_is_that_of_its_loss(shift):
    one = ShiftedGaussianDP(((1, 0.5, shift), (1, 0, shift)))
    for epsilon in (0.0, 0.05, 0.4, 1.0, 2.0):
        exact = loss_delta(0.5, shift, epsilon)
        if epsilon >= shift:
            assert one.delta(epsilon) == pytest.approx(exact, rel=1e-3)
        assert one.delta(epsilon) <= exact * (1 + 1e-3)  # below, both orders together tell more


@given(claims)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_epsilon_inverts_delta_and_both_fall(mechanism):
    deltas = [mechanism.delta(e) for e in (0.0, 0.01, 0.3, 1.0, 5.0, 40.0, 800.0)]
    assert all(a >= b - 1e-12 for a, b in pairwise(deltas))
    assert all(0 <= d <= 1 for d in deltas)
    for delta in (1e-9, 1e-4, 0.2):
        epsilon = mechanism.epsilon(delta)
        assert mechanism.delta(epsilon) <= delta * (1 + 1e-9)
        assert not epsilon or mechanism.delta(epsilon * (1 - 1e-6)) > delta


@given(claims)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_small_epsilons_follow_from_larger_ones(mechanism):
    """No claim of some epsilon, read as that of a pair in both orders, says more."""
    for e in (0.3, 1.0, 3.0):
        d = mechanism.delta(e)
        for epsilon in (0.0, 0.1, 0.3):
            implied = 1 - (1 + math.exp(epsilon)) * (1 - d) / (1 + math.exp(e))
            assert mechanism.delta(epsilon) <= implied + 1e-7


@given(claims)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_dominating_gaussian_is_above_at_every_epsilon(mechanism):
    mu = mechanism.dominating_mu()
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 120)])
    for e in epsilons:
        assert gdp_delta(mu, e) >= mechanism.delta(e) * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize(
    "one",
    [
        ShiftedGaussianDP(((1, 0.2, 0.05), (1, 0, 0.05))),
        ShiftedGaussianDP(((4, 0.2, 0.02), (2, 0.35, 0.02), (1, 0, 0.02))),
        ShiftedGaussianDP(((1, 0.2, 0.0), (1, 0, 0.8))),
        ShiftedGaussianDP(((1, 3.0, 0.3), (1, 0, 0.3))),
    ],
)
def test_the_dominating_gaussian_is_the_smallest(one):
    mu = one.dominating_mu() * (1 - 2e-3)
    assert any(gdp_delta(mu, e) < one.delta(e) for e in np.linspace(0, 60, 3001))
    assert mu > max(m for _, m, _ in one.terms)


LARGE = [
    ShiftedGaussianDP(terms)
    for mu in (30.0, 60.0, 140.0, 450.0)
    for terms in (
        ((1, mu, 0.5), (1, 0, 0.5)),
        ((2, mu, 3.0), (1, 0, 3.0)),
        ((1, mu, mu**2 / 4), (1, mu / 2, mu), (1, 0, mu**2)),
    )
]


@pytest.mark.parametrize("one", LARGE, ids=repr)
def test_large_claims_have_a_dominating_gaussian(one):
    """Whose height on the diagonal is below the smallest float from an epsilon of 745 on."""
    mu = one.dominating_mu()
    assert max(m for _, m, _ in one.terms) < mu < math.inf
    epsilons = np.concatenate([[0.0], np.geomspace(1.0, mu**2, 4000)])
    claimed = np.array([one.delta(e) for e in epsilons])
    assert np.all(np.diff(claimed) <= 1e-12)
    assert np.all(np.array([gdp_delta(mu, e) for e in epsilons]) >= claimed * (1 - 1e-6) - 1e-15)
    # Nowhere does a claim meet the diagonal higher, and the Gaussian meets it no lower.
    unions = np.array([one._union(e) for e in epsilons])
    seen = unions < 1 - 1e-9
    heights = np.log1p(-unions[seen]) - np.logaddexp(0, epsilons[seen])
    height = one._crossing[1]
    assert heights.max() <= height + 1e-6
    assert log_ndtr(-mu / 2) <= height * (1 - 1e-9)


def test_a_large_constant_is_dominated_where_its_curve_meets_the_diagonal():
    for shift in (600.0, 2000.0, 1e5):
        mu = ShiftedGaussianDP(((1, 0, shift),)).dominating_mu()
        assert log_ndtr(-mu / 2) == pytest.approx(-shift, rel=1e-6)


@pytest.mark.parametrize("mu", [0.0, 0.03, 0.2, 3.0])
@pytest.mark.parametrize("epsilon", [-0.5, -0.01, 0.05, 0.4])
def test_the_rate_is_the_logarithmic_derivative_and_grows(mu, epsilon):
    if mu == 0 and epsilon > 0:
        assert _rate(mu, epsilon) == math.inf
        return
    step = 1e-6
    logs = [math.log(gdp_delta(mu, epsilon + s)) for s in (-step, step)]
    assert _rate(mu, epsilon) == pytest.approx((logs[0] - logs[1]) / (2 * step), rel=1e-4)
    assert _rate(mu, epsilon + 0.001) > _rate(mu, epsilon)


@given(claims, st.floats(0, 1e-4), st.floats(0, 1e-6))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_mechanism_survives_json(mechanism, log_ratio, tail):
    whole = replace(mechanism, log_ratio=log_ratio, tail=tail)
    again = mechanism_from_dict(json.loads(json.dumps(whole.to_dict())))
    assert again == whole
    assert hash(again) == hash(whole)


@pytest.mark.parametrize("bad", [((1, -0.1, 0),), ((1, 0.1, math.nan),), ((-1, 0.1, 0),), ()])
def test_a_cost_below_zero_or_of_nothing_is_refused(bad):
    with pytest.raises(ValueError, match="at least 0"):
        ShiftedGaussianDP(bad)


# ------------------------------------------------------------------------------- its compositions


ONE = ShiftedGaussianDP(((1, 0.4, 0.1), (1, 0, 0.1)), log_ratio=1e-7, tail=1e-12)


def test_composition_with_gaussians_is_closed_and_an_upper_bound():
    both = compose([ONE, GaussianDP(0.3, 1e-8, 1e-13), GaussianDP(0.4)])
    assert isinstance(both, ShiftedGaussianDP)
    assert both.log_ratio == pytest.approx(1.1e-7)
    assert both.tail == pytest.approx(1.1e-12)
    for epsilon in (0.2, 0.5, 1.0, 2.0, 3.0):
        exact = loss_delta(0.4, 0.1, epsilon, then=0.5)
        assert exact * (1 - 1e-3) <= both.delta(epsilon)
        assert epsilon < 1 or both.delta(epsilon) <= 1.3 * exact


def test_composition_with_itself_is_an_upper_bound():
    two = compose([ONE, ONE])
    weights = {(round(mu**2, 9), round(shift, 9)): w for w, mu, shift in two.terms}
    assert weights == {(0.0, 0.2): 1.0, (0.16, 0.2): 2.0, (0.32, 0.2): 1.0}
    x = np.linspace(-8, 8, 801)
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    loss = np.maximum(0, 0.4 * x + 0.08)
    total = loss[:, None] + loss[None, :] + 0.2
    for epsilon in (0.3, 1.0, 2.0):
        exact = np.maximum(0, -np.expm1(np.minimum(epsilon - total, 0))) @ weight @ weight
        assert two.delta(epsilon) >= exact * (1 - 1e-3)


def test_many_compositions_stay_short_and_grow():
    many = [compose([ONE] * count) for count in (1, 5, 40, 120)]
    assert all(len(m.terms) <= 33 for m in many)
    epsilons = [m.epsilon(1e-6) for m in many]
    assert all(b > a + 0.1 for a, b in pairwise(epsilons))
    for epsilon in (6.0, 20.0, 30.0):  # terms that were merged are no smaller
        rest = epsilon - 40 * 0.1
        each = [math.comb(40, j) * gdp_delta(0.4 * math.sqrt(j), rest) for j in range(41)]
        assert many[2].delta(epsilon) >= min(1.0, sum(each))


@pytest.mark.parametrize(
    "extra", [PureDP(0.2), ZeroConcentratedDP(0.02), PureDP(0.1) + ZeroConcentratedDP(0.01)]
)
def test_other_parts_are_accounted_with_the_dominating_gaussian(extra):
    both = compose([ONE, extra])
    gaussian = compose([ONE.as_accountable(), extra])
    pure = extra.epsilon(0.0)
    basic = pure + ONE.epsilon(1e-6)  # which may be less
    assert both.epsilon(1e-6) == pytest.approx(min(gaussian.epsilon(1e-6), basic))
    basic = ONE.delta(1.0 - pure) if pure <= 1 else 1.0
    assert both.delta(1.0) == pytest.approx(min(gaussian.delta(1.0), basic))
    assert both.epsilon(1e-6) > max(ONE.epsilon(1e-6), extra.epsilon(1e-6))
    assert both.epsilon(1e-12) == math.inf  # the tail is not forgotten
    assert mechanism_from_dict(json.loads(json.dumps(both.to_dict()))) == both


def test_a_pure_part_is_never_undercounted():
    """Randomised response first: its loss is plus or minus 0.2."""
    both, keep = compose([ONE, PureDP(0.2)]), 1 / (1 + math.exp(-0.2))
    for epsilon in (0.5, 1.0, 2.0):
        high, low = loss_delta(0.4, 0.1, epsilon - 0.2), loss_delta(0.4, 0.1, epsilon + 0.2)
        assert both.delta(epsilon) >= keep * high + (1 - keep) * low


def test_an_event_goes_with_it():
    from dp_accounting import dp_event

    both = compose([EventDP(dp_event.GaussianDpEvent(4.0)), ONE])
    ideal = GaussianDP(math.hypot(0.25, ONE.dominating_mu()))
    assert both.epsilon(1e-6) == pytest.approx(ideal.epsilon(1e-6), rel=2e-3)


def test_groups_are_those_of_the_dominating_gaussian():
    assert ONE.group(3) == ONE.as_accountable().group(3)


# ------------------------------------------------------------------------------------- the ledger


def fits(ledger, mechanism):
    try:
        ledger.charge(mechanism)
    except BudgetExceededError:
        return False
    return True


@pytest.mark.parametrize("design", [{}, {"saturating": True}])
def test_a_ledger_charges_a_row_on_a_segment_little_more_than_its_noise(design):
    found = calibrate(1.0, 1e-6, **ROW, regularization=10.0, **design)
    ledger = PrivacyLedger(epsilon=1.1, delta=1e-6)
    assert fits(ledger, found.mechanism)
    assert ledger.spent.epsilon < 1.05
    assert not fits(PrivacyLedger(epsilon=1.0, delta=1e-6), found.mechanism)


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_the_ledger_charges_the_dominating_gaussian(accountant):
    one = replace(ONE, log_ratio=0.0, tail=0.0)
    ours, theirs = (PrivacyLedger(epsilon=9.0, delta=1e-6, accountant=accountant) for _ in range(2))
    for _ in range(3):
        ours.charge(one)
        theirs.charge(GaussianDP(one.dominating_mu()))
    assert ours.spent == theirs.spent
    assert ours.remaining == theirs.remaining


@pytest.mark.parametrize("accountant", ["gdp", "zcdp"])
def test_the_reserve_pays_for_its_discreteness(accountant):
    cap = {"epsilon": 9.0, "delta": 1e-6, "accountant": accountant}
    for slack in ({"tail": 0.6e-6 * 1e-6}, {"log_ratio": 0.6e-6}):
        ledger, one = PrivacyLedger(**cap), replace(ONE, log_ratio=0.0, tail=0.0)
        assert fits(ledger, replace(one, **slack))
        assert not fits(ledger, replace(one, **slack))
        assert fits(ledger, one)


def test_under_zcdp_slack_is_paid_for():
    """It is taken from the cap, less the reserve, whatever is charged first."""
    ledgers = [PrivacyLedger(epsilon=3.0, delta=1e-6, accountant="zcdp") for _ in range(2)]
    mechanism = replace(ONE, log_ratio=0.0, tail=0.0)
    ledgers[0].charge(mechanism)
    ledgers[1].charge(replace(mechanism, log_ratio=1e-9, tail=1e-15))
    assert ledgers[1].spent.epsilon > ledgers[0].spent.epsilon
    left = [ledger.remaining.epsilon for ledger in ledgers]
    assert left[0] == left[1] < 3.0
    square = mechanism.dominating_mu() ** 2
    rho = (square + gdp_square(left[1])) / 2
    rest = (1e-6 - 1e-15) * math.exp(-1e-9)
    assert zcdp_epsilon(rho, rest) + 2e-9 <= 3.0


def gdp_square(epsilon):
    return gdp_mu_of(epsilon * (1 - RESERVE), 1e-6 * (1 - RESERVE)) ** 2


def test_a_pure_ledger_refuses():
    with pytest.raises(ValueError, match="delta > 0"):
        PrivacyLedger(epsilon=1.0).charge(ONE)


def test_the_ledger_halves_no_replacement():
    """A claim for one more row, charged where a row may change, counts twice."""
    one = replace(ONE, log_ratio=0.0, tail=0.0)
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-6, adjacency="replace_one")
    ledger.charge(one)
    twice = gdp_epsilon(2 * one.dominating_mu(), 1e-6)
    assert ledger.spent.epsilon == pytest.approx(twice, rel=1e-6)
