"""Float64 in the sensitivity of learners: every bound against exact arithmetic, at its worst.

References are rational numbers, and decimals of 60 digits where there is an exponential. Each
bound has an arm with a planted error, larger than the bound, that its test must find.
"""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from refusals import refused
from sklearn.kernel_approximation import RBFSampler

from skdpsumm import PINPClassifier, PrivacyLedger, TDDLClassifier, TDILClassifier
from skdpsumm._computing import power_below
from skdpsumm.learners import ExponentialMechanism, FunctionalMechanism, PolynomialKernel
from skdpsumm.learners.erm import _losses, _problem
from skdpsumm.learners.erm._kernel_space import KernelSpace
from skdpsumm.learners.erm._losses import EpsilonInsensitive, Hinge, Huber, HuberizedHinge, Logistic
from skdpsumm.learners.erm._problem import (
    NORM_ERROR,
    FeatureSpace,
    Minimizer,
    Problem,
    Terms,
    clip_rows,
)
from skdpsumm.learners.mechanisms._functional import CoordinateNoise, GaussianPath
from skdpsumm.privacy import gdp_mu
from skdpsumm.privacy._noise import on_grid

RNG = np.random.default_rng(0)
PLANTED = pytest.mark.parametrize("planted", [False, True], ids=["sound", "planted"])


def terms_of(loss=None, space=None, regularization=2.0, n_scores=1, **settings):
    settings = {"kernel_error": getattr(space, "entry_error", 0.0), **settings}
    if settings["kernel_error"]:
        settings.setdefault("max_rows", _problem.MAX_KERNEL_ROWS)
    loss, radius = loss or HuberizedHinge(), getattr(space, "radius", 1.0)
    numbers = (1.0, 1e-6, "add_remove", loss, regularization, radius, n_scores, None)
    return Terms(*numbers, **settings)


# ------------------------------------------------------------------------------- rows and kernels


@pytest.mark.parametrize("norm", [1e-20, 0.7, 1.0, 3e20])
def test_clipped_rows_are_as_long_as_asked_for(norm):
    for p in (1, 2, 7, 1000):
        for scale in (1e-3, 1.0, 1e9, 1e100):
            for row in clip_rows(RNG.normal(size=(5, p)) * norm * scale, norm):
                squares = sum(Fraction(x) ** 2 for x in row)
                assert squares <= Fraction(norm) ** 2 * (1 + Fraction(NORM_ERROR)) ** 2


@pytest.mark.parametrize("p", [1, 3, 16, 501])
def test_a_clipped_row_hangs_on_no_other(p):
    X = RNG.normal(size=(50, p)) * np.logspace(-3, 100, 50)[:, None]
    alone = np.vstack([clip_rows(row[None], 1.0) for row in X])
    np.testing.assert_array_equal(clip_rows(X, 1.0), alone)
    np.testing.assert_array_equal(clip_rows(np.asfortranarray(X), 1.0), alone)
    np.testing.assert_array_equal(clip_rows(X[::-1], 1.0)[::-1], alone)


def test_entries_far_too_long_are_zeros():
    np.testing.assert_array_equal(clip_rows(np.array([[1e300, 1.0]]), 1.0), [[0.0, 0.0]])


def grid(X, step, rounded=round):
    step = Fraction(step)
    return [[rounded(Fraction(float(x)) / step) * step for x in row] for row in X]


def exponential(argument):
    """exp(-argument) of a fraction, to 60 digits."""
    if argument > 1000:
        return Fraction(0)
    return Fraction((-Decimal(argument.numerator) / Decimal(argument.denominator)).exp())


def gaussian(X, Y, gamma):
    step = power_below(2.0**-20 / math.sqrt(gamma))
    X, Y, gamma = grid(X, step), grid(Y, step), Fraction(gamma)
    squares = [[sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in Y] for x in X]
    return [[exponential(gamma * square) for square in row] for row in squares]


def polynomial(X, Y, gamma, coef0, degree):
    """Of rows that are clipped already."""
    step = power_below(2.0**-25)
    X, Y = (grid(clip_rows(A, 1.0), step, math.trunc) for A in (X, Y))
    gamma, coef0 = Fraction(gamma), Fraction(coef0)
    products = [[sum(a * b for a, b in zip(x, y, strict=True)) for y in Y] for x in X]
    return [[(gamma * product + coef0) ** degree for product in row] for row in products]


KERNELS = {
    "rbf": ("rbf", {"gamma": 0.37}, gaussian),
    "narrow rbf": ("rbf", {"gamma": 1e5}, gaussian),
    "cubic": ("poly", {"gamma": 1.0, "coef0": 1.0, "degree": 3}, polynomial),
    "odd": ("poly", {"gamma": 0.9, "coef0": 0.01, "degree": 41}, polynomial),
}


def rows_at_their_worst(d):
    """Near each other and far from the origin, of all sizes, and ones that cancel."""
    far = 700 + 1e-3 * RNG.normal(size=(4, d))
    sizes = RNG.normal(size=(6, d)) * np.logspace(-6, 4, 6)[:, None] / math.sqrt(d)
    opposite = RNG.normal(size=(1, d))
    return np.abs(np.vstack([far, sizes, opposite, opposite * (1 + 1e-9)]))


@pytest.mark.statistical
@PLANTED
@pytest.mark.parametrize("d", [1, 200])
@pytest.mark.parametrize("name", KERNELS)
def test_entries_are_as_exact_as_claimed(name, d, planted):
    kernel, params, reference = KERNELS[name]
    space = KernelSpace(kernel, params, 1.0)
    X = rows_at_their_worst(d)
    with localcontext(prec=60):
        exact = reference(X, X, **params)
    # One row alone, and all together: other shapes, other code of the BLAS.
    for found in (space.gram(X, X), np.vstack([space.gram(x[None], X) for x in X])):
        found = found + planted * 2 * space.entry_error * space.radius**2
        errors = [abs(Fraction(a) - b) for a, b in zip(found.flat, chain(*exact), strict=True)]
        bound = Fraction(space.entry_error) * Fraction(space.radius) ** 2
        assert (max(errors) <= bound) != planted


@pytest.mark.parametrize("row", [1e60, 1e100, 1e200])
def test_no_row_is_too_long_for_a_kernel(row):
    X = np.array([[row, 0.0], [1.0, 0.0], [0.0, 2.0]])
    for kernel, params, _ in KERNELS.values():
        space = KernelSpace(kernel, params, 1.0)
        gram = space.gram(X, X)
        assert np.abs(gram).max() <= space.radius**2 * (1 + space.entry_error)
        assert np.linalg.eigvalsh(gram).min() > -1e-12 * space.radius**2


# ------------------------------------------------------------------------------- the minimiser

LOSSES = {
    "huberized": (HuberizedHinge(0.5), 1),
    "hinge": (Hinge(), 1),
    "logistic": (Logistic(), 1),
    "huber": (Huber(0.3), 1),
    "insensitive": (EpsilonInsensitive(), 1),
    "softmax": (_losses.Softmax(0.5, 1.0), 3),
}


class Given(KernelSpace):
    """The Gaussian kernel, whose entries are moved by a given matrix."""

    def __init__(self, moves=0.0):
        super().__init__("rbf", {"gamma": 2.0}, 1.0)
        self.moves = moves

    def gram(self, X, Y):
        return super().gram(X, Y) + self.moves


def minimiser(space, terms, n=40, seed=3):
    rng = np.random.default_rng(seed)
    X, labels = rng.uniform(-1, 1, (n, 2)), rng.integers(0, max(2, terms.n_scores), n)
    codes = np.eye(terms.n_scores)[labels] if terms.n_scores > 1 else 2.0 * labels[:, None] - 1
    return Problem(space, X, codes, terms).minimize()


def distance(one, other):
    d = one.coefficients - other.coefficients
    gram = KernelSpace("rbf", {"gamma": 2.0}, 1.0).gram(one.points, one.points)
    return math.sqrt(max(np.vdot(d, gram @ d), 0.0))


@pytest.mark.parametrize("regularization", [0.02, 1.0])
@pytest.mark.parametrize("name", LOSSES)
def test_errors_of_entries_move_the_minimiser_no_farther(name, regularization):
    """Errors as large as claimed, of the signs that push most, or none of rank more than one."""
    loss, q = LOSSES[name]
    plain = terms_of(loss, None, regularization, q)
    found = minimiser(Given(), plain)
    n = len(found.points)
    slopes = np.sign(found.coefficients[:, 0])
    patterns = [np.ones((n, n)), -np.ones((n, n)), np.outer(slopes, slopes)]
    patterns += [-patterns[-1]]
    for error, pattern in [(1e-4, one) for one in patterns] + [(1e-8, patterns[-1])]:
        claimed = replace(plain, kernel_error=error, max_rows=n)
        other = minimiser(Given(error * pattern), claimed)
        allowed = _problem.kernel_drift(claimed) + plain.tolerance + claimed.tolerance
        assert distance(found, other) <= allowed


def test_the_gram_matrix_of_the_solver_is_positive():
    """Whatever the errors: here all of them make it as indefinite as they can."""
    terms = terms_of(None, None, kernel_error=1e-3, max_rows=40)
    X = np.zeros((40, 1))
    space = Given(1e-3 * (2 * np.eye(40) - 1))
    gram = Problem(space, X, np.ones((40, 1)), terms)._data.rows(np.arange(40))
    assert _problem.positive_shift(terms) == pytest.approx(0.04)
    assert np.linalg.eigvalsh(gram).min() >= 0


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("regularization", [1e-6, 1e-3, 10.0])
def test_coefficients_are_slopes(name, regularization):
    loss, q = LOSSES[name]
    terms = terms_of(loss, Given(), regularization, q, max_rows=40)
    sizes = np.linalg.norm(minimiser(Given(), terms).coefficients, axis=1)
    assert sizes.max() <= loss.lipschitz / regularization * (1 + 1e-14)


# ------------------------------------------------------------------------------- scores


def exact_scores(space, X, coefficients, Z):
    params = {"gamma": 2.0}
    with localcontext(prec=60):
        gram = gaussian(Z, X, **params)
    weights = [[Fraction(float(a)) for a in row] for row in coefficients]
    q = coefficients.shape[1]
    columns = [[w[j] for w in weights] for j in range(q)]
    return [[sum(k * w for k, w in zip(row, own, strict=True)) for own in columns] for row in gram]


def largest_error(found, exact):
    rows = zip(np.asarray(found), exact, strict=True)
    return max(
        math.sqrt(float(sum((Fraction(a) - b) ** 2 for a, b in zip(r, s, strict=True))))
        for r, s in rows
    )


@PLANTED
@pytest.mark.parametrize("copies", [1, 500])
def test_scores_are_as_exact_as_claimed(copies, planted):
    """Coefficients of the largest size, which cancel, for many copies of a few rows."""
    terms = terms_of(_losses.Softmax(), Given(), 1e-3, 2, max_rows=20 * copies)
    base, Z = RNG.uniform(-3, 3, (20, 2)), RNG.uniform(-3, 3, (4, 2))
    size = terms.loss.lipschitz / terms.regularization / math.sqrt(2)
    signs = size * RNG.choice([-1.0, 1.0], (20, 2)) * (1 - 1e-9 * RNG.random((20, 2)))
    found = Minimizer(Given(), np.repeat(signs, copies, axis=0), np.repeat(base, copies, axis=0))
    exact = [[copies * f for f in row] for row in exact_scores(Given(), base, signs, Z)]
    bound = _problem.score_rounding(Given(), terms)
    assert bound < 1e-8 * terms.sensitivity
    errors = largest_error(found.careful_scores(Z) + planted * 2 * bound, exact)
    assert (errors <= bound) != planted


@PLANTED
@pytest.mark.parametrize("p", [3, 3000])
def test_scores_of_features_are_as_exact_as_claimed(p, planted):
    space = FeatureSpace(None, p, 1.0)
    terms = terms_of(Huber(0.2), space, 0.1, kernel_error=0.0)
    weights = RNG.choice([-1.0, 1.0], (p, 1)) * _problem.largest_weight(terms) / math.sqrt(p)
    Z = RNG.choice([-1.0, 1.0], (2, p)) * RNG.uniform(0.5, 1, (2, p))
    features = space.features(Z)
    pairs = (zip(row, weights[:, 0], strict=True) for row in features)
    exact = [[sum(Fraction(a) * Fraction(b) for a, b in row)] for row in pairs]
    found = Minimizer(space, weights).careful_scores(Z)
    bound = _problem.score_rounding(space, terms)
    assert bound < 1e-3 * terms.sensitivity
    assert (largest_error(found + planted * 2 * bound, exact) <= bound) != planted


def test_the_norm_of_the_minimiser_is_bounded():
    for name, (loss, q) in LOSSES.items():
        for regularization in (1e-4, 0.1, 100.0):
            terms = terms_of(loss, Given(), regularization, q, max_rows=40)
            found = minimiser(Given(), terms)
            zero = Minimizer(found.space, np.zeros_like(found.coefficients), found.points)
            assert distance(found, zero) <= _problem.largest_weight(terms), name


# ------------------------------------------------------------------------------- coordinates


def substituted(factor, values):
    """Solve L u = v for a factor as it is in memory, in rational numbers of few digits."""
    solved = []
    with localcontext(prec=60):
        for row, v in zip(factor, values, strict=True):
            terms = (Decimal(float(a)) * u for a, u in zip(row, solved, strict=False))
            done = sum(terms, Decimal(0))
            here = Decimal(v.numerator) / Decimal(v.denominator)
            solved.append((here - done) / Decimal(float(row[len(solved)])))
    return solved


def near_duplicates(T=30):
    return np.repeat(RNG.uniform(-1, 1, (T // 3, 2)), 3, axis=0) + 1e-7 * RNG.normal(size=(T, 2))


@PLANTED
def test_coordinates_are_as_exact_as_claimed(planted):
    Z, X = near_duplicates(), RNG.uniform(-1, 1, (200, 2))
    space, terms = Given(), terms_of(HuberizedHinge(), Given(), 0.5, max_rows=200)
    weights = RNG.choice([0.0, 1.0], (200, 1)) * 2
    found = Minimizer(space, weights, X)
    plan = GaussianPath(space, terms, len(Z))
    answers = plan.open(FixedProblem(found, terms))
    plan.noise.add = lambda exact: exact  # in place of noise
    for first in (0, 7, 8, 21):
        answers.ask(Z[first : {0: 7, 7: 8, 8: 21, 21: 30}[first]])
    kept = answers._points
    exact = substituted(answers._factor, [row[0] for row in exact_scores(space, X, weights, kept)])
    pairs = zip(answers._exact[:, 0], exact, strict=True)
    errors = [float(Decimal(float(a)) - b) for a, b in pairs]
    bound = _problem.coordinate_rounding(space, terms, len(Z))
    assert bound < 1e-2 * terms.sensitivity
    assert (np.linalg.norm(errors) + planted * 2 * bound <= bound) != planted


class FixedProblem:
    """A problem whose minimiser is known."""

    def __init__(self, found, terms):
        self.minimize = lambda: found
        self.terms = terms


@pytest.mark.parametrize("n", [1, 2, 40])
def test_the_largest_eigenvalue_is_bounded(n):
    for Z in (np.zeros((n, 2)), RNG.uniform(-1, 1, (n, 2)), np.arange(2.0 * n).reshape(n, 2) * 9):
        gram = Given().gram(Z, Z)
        exact = np.linalg.eigvalsh(gram)[-1]
        assert exact < _problem.largest_eigenvalue(gram, Given()) < exact * (1 + 1e-7)


# ------------------------------------------------------------------------------- what gets noise

X2, Y2 = RNG.uniform(-1, 1, (12, 2)), np.arange(12) % 2
Z2 = RNG.uniform(-1, 1, (6, 2))
CHOICE = ExponentialMechanism(candidates=Z2)
LONG_PATH = FunctionalMechanism(max_points=200_000)


def plan_of(model, **fit_params):
    plans = []
    model._release = lambda plan, problem: plans.append((plan, problem.terms))
    model.fit(X2, Y2, **fit_params)
    return plans[0]


@pytest.mark.parametrize("times", [1.0, 200.0])
def test_noise_covers_the_rounding_of_coordinates(times, monkeypatch):
    """The bound is part of what noise is calibrated for: it grows with it."""
    real = _problem.score_rounding
    monkeypatch.setattr(_problem, "score_rounding", lambda *a: times * real(*a))
    path = FunctionalMechanism(max_points=50)
    plan, terms = plan_of(PINPClassifier(gamma=1.0, regularization=2.0, mechanism=path))
    rounding = _problem.coordinate_rounding(plan.space, terms, 50)
    moved = terms.sensitivity + 2 * rounding
    assert moved <= plan.noise.std * gdp_mu(1.0, 1e-6) < moved * (1 + 1e-4)
    assert (rounding > 1e-3 * terms.sensitivity) == (times > 1)


@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("mechanism", ["svt", "threshold", "laplace", "exponential"])
def test_noise_covers_the_rounding_of_scores(mechanism, share, monkeypatch):
    """By as much as the claimed error of both neighbours, in units of what a score may move."""
    plain = scale_of(mechanism)
    monkeypatch.setattr(
        "skdpsumm.learners.mechanisms._paper.score_rounding",
        lambda space, terms: share * terms.sensitivity / 10,
    )
    grown = scale_of(mechanism)
    if share == 0:
        assert grown <= plain < grown * (1 + 1e-4)
    else:
        assert grown > plain * 1.005


@pytest.mark.parametrize("n", [1, 30, 1000])
def test_noise_covers_the_rounding_of_coordinates_to_the_grid(n):
    """Each coordinate is just below half a unit for one neighbour, just above for the other."""
    terms = terms_of()
    noise = CoordinateNoise(n, terms)
    grid, (block,) = noise._grid, noise._noise.blocks
    whole = math.floor(terms.sensitivity / math.sqrt(n) / grid - 1e-3)
    one, other = np.full(n, 0.4999 * grid), np.full(n, (whole + 0.5001) * grid)
    assert np.linalg.norm(other - one) <= terms.sensitivity
    moved = np.linalg.norm(on_grid(other, grid) - on_grid(one, grid))
    assert terms.sensitivity / grid < moved <= block.l2


def scale_of(mechanism):
    model = {
        "svt": PINPClassifier(gamma=1.0, mechanism="svt", regularization=2.0),
        "threshold": PINPClassifier(gamma=1.0, mechanism="threshold", regularization=2.0),
        "laplace": TDDLClassifier(gamma=1.0, mechanism="laplace", regularization=2.0),
        "exponential": TDILClassifier(gamma=1, kernel="rbf", mechanism=CHOICE, regularization=2),
    }[mechanism]
    given = {"X_public": Z2} if isinstance(model, TDDLClassifier) else {}
    plan, _ = plan_of(model, **given)
    known = {"svt": "sigma", "threshold": "sigma", "laplace": "scale"}
    return getattr(plan, known[mechanism]) if mechanism in known else plan._scale * plan._grid


# ------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (PINPClassifier(gamma=1, mechanism=LONG_PATH, regularization=1e6), "max_points"),
        (PINPClassifier(kernel=PolynomialKernel(degree=10**7), gamma=1e-7, loss="hinge"), "degree"),
    ],
    ids=["points", "degree"],
)
def test_what_float64_cannot_hold_is_refused_before_the_charge(model, named, unpaid):
    refused(named, model.set_params(ledger=unpaid).fit, X2, Y2)


def test_the_cap_on_rows_is_kept_by_all_spaces(monkeypatch):
    monkeypatch.setattr(KernelSpace, "max_rows", 10)
    monkeypatch.setattr(FeatureSpace, "max_rows", 11)
    mapped = TDILClassifier(kernel=RBFSampler(n_components=5))
    for model in (PINPClassifier(gamma=1.0), TDILClassifier(), mapped):
        ledger = PrivacyLedger(epsilon=10, delta=1e-4)
        refused(r"at most 1[01] rows", model.set_params(ledger=ledger).fit, X2, Y2)
        assert ledger.entries() == []
