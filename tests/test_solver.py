"""What the solvers return lies within their tolerance of the minimum, whatever the rows are."""

import math
from fractions import Fraction
from functools import partial
from operator import mul

import numpy as np
import pytest
from refusals import refused
from sklearn import config_context
from sklearn.metrics.pairwise import rbf_kernel

from skdpsumm._computing import UNIT
from skdpsumm._linear_systems import careful_product, product_error
from skdpsumm.learners.erm import _feature_solver, _kernel_solver, _losses, _newton, _problem
from skdpsumm.learners.erm._feature_solver import FeatureRows, solve_primal
from skdpsumm.learners.erm._kernel_solver import HalfMatrix, plain_error, solve_dual
from skdpsumm.learners.erm._kernel_space import KernelSpace
from skdpsumm.learners.erm._losses import Hinge, Huber, HuberizedHinge, Logistic
from skdpsumm.learners.erm._problem import clip_rows, equal_shares

MARGIN_LOSSES = [Logistic(), _losses.SoftHinge(2.0), HuberizedHinge(0.5), Hinge()]
TUBES = [_losses.EpsilonInsensitive(0.1, smoothing) for smoothing in (0.05, 1e-3)]
CASES = [(loss, q) for loss in MARGIN_LOSSES for q in (1, 3)] + [(_losses.Softmax(), 3)]
CASES += [(loss, 1) for loss in (Huber(0.3), *TUBES)]
CASE_NAMES = [f"{type(loss).__name__}-{q}" for loss, q in CASES]
# What learners ask for, in units of L R / Lambda, and some digits more.
LEARNERS, TIGHT = 1e-3, 1e-7


def codes_of(loss, q, labels):
    """Return the codes of labels 0 to 3: signs, corners of a simplex, one-hot, or targets."""
    if isinstance(loss, _losses.ResidualLoss):
        return (labels[:, None] - 1.5) / 1.5
    if isinstance(loss, _losses.Softmax):
        return np.eye(q)[labels % q]
    if q == 1:
        return 1.0 - 2.0 * (labels[:, None] % 2)
    corners = np.linalg.svd(np.eye(q + 1) - 1 / (q + 1))[0][:, :q]
    return (corners / np.linalg.norm(corners, axis=1, keepdims=True))[labels]


def rows_in_ball(n, p, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, p))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 1.5)


def tables():
    """Name, rows of norm at most 1.5, and labels, of data sets that are easy to get wrong."""
    rng = np.random.default_rng(1)
    labels = rng.integers(4, size=40)
    full = rows_in_ball(40, 50)
    return {
        "full rank": (full, labels),
        "rank 2": (rows_in_ball(40, 2), labels),
        "one row": (full[:1], labels[:1]),
        "duplicates of all labels": (np.repeat(full[:5], 8, axis=0), np.tile(np.arange(4), 10)),
        "one label": (full, np.zeros(40, dtype=int)),
        "zero rows and one": (np.vstack([np.zeros((3, 2)), np.eye(1, 2)]), np.arange(4)),
        "separable": (np.outer(np.sign(labels - 1.5), np.eye(50)[0]), 3 * (labels > 1)),
    }


def distance(gram, A, B):
    change = A - B
    return math.sqrt(max(0.0, float(np.vdot(change, gram @ change))))


def check_certificate(features, codes, loss, regularization, relative=LEARNERS):
    """Solve loosely and tightly; the distance must keep the loose promise."""
    radius = max(np.linalg.norm(features, axis=1).max(), 1e-3)
    gram = features @ features.T
    step = loss.lipschitz * radius / regularization
    loose = solve_dual(gram, codes, loss, regularization, relative * step)
    tight = solve_dual(gram, codes, loss, regularization, TIGHT * step)
    assert distance(gram, loose, tight) <= (relative + TIGHT) * step


@pytest.mark.parametrize(("loss", "q"), CASES, ids=CASE_NAMES)
@pytest.mark.parametrize("table", tables())
def test_certificate_is_true(loss, q, table):
    features, labels = tables()[table]
    for regularization in (1e-2, 1.0, 1e5):
        check_certificate(features, codes_of(loss, q, labels), loss, regularization)


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "shares"])
def test_dual_by_products(shared, monkeypatch):
    """Many rows take conjugate gradients with a low-rank preconditioner."""
    X, labels = rows_in_ball(150, 4), np.random.default_rng(9).integers(4, size=150)
    gram, more = rbf_kernel(X, gamma=3.0), {"shares": shares_of(1 + labels**3)} if shared else {}
    for loss, q in CASES:
        numbers = gram, codes_of(loss, q, labels), loss, 0.2, 1e-3
        exact = solve_dual(*numbers, **more)
        with monkeypatch.context() as patch:
            patch.setattr(_kernel_solver, "_ALWAYS_EXACT", 0)
            patch.setattr(_kernel_solver, "_PER_ENTRY", 0)
            found = solve_dual(*numbers, **more)
        assert distance(gram, found, exact) <= 2e-3


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "shares"])
def test_primal_of_many_rows(shared):
    """More rows than features by far: weights start from those of the first rows, in any order."""
    X, labels = rows_in_ball(3000, 6), np.random.default_rng(12).integers(4, size=3000)
    shares = shares_of(1 + labels) if shared else np.ones((3000, 1))
    for loss, q in CASES:
        codes = codes_of(loss, q, labels)
        found = [
            solve_primal(
                FeatureRows(np.asarray, X[o], radius=1.5),
                *(codes[o], loss, 0.5, 1e-2),
                shares=shares[o] if shared else None,
            )
            for o in (slice(None), np.argsort(labels, kind="stable"))
        ]
        assert np.linalg.norm(found[0] - found[1]) <= 2e-2


def test_streaming_equals_cached():
    X, labels = rows_in_ball(9000, 6), np.random.default_rng(13).integers(4, size=9000)
    calls = []

    def transform(block):
        calls.append(len(block))
        return np.cos(3 * block)

    y = codes_of(Logistic(), 1, labels)
    found = []
    for megabytes in (1024, 0.25, 0):
        with config_context(working_memory=megabytes):
            rows = FeatureRows(transform, X, radius=1.5)
        assert max(calls) < len(X)
        found.append(solve_primal(rows, y, Logistic(), 0.5, 1e-3))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_tolerance_that_rounding_forbids():
    X = rows_in_ball(30, 3)
    y = np.ones((30, 1))
    with pytest.raises(ValueError, match="float64 is not exact"):
        solve_dual(X @ X.T, y, Logistic(), 1.0, 1e-30)
    with pytest.raises(ValueError, match="float64 is not exact"):
        solve_primal(FeatureRows(np.asarray, X, radius=1.5), y, Hinge(), 1.0, math.nan)


def test_least_tolerance_is_reached():
    """A tolerance just above the least ends, with every row at the largest norm."""
    X, labels = rows_in_ball(20, 3), np.random.default_rng(16).integers(4, size=20)
    X *= 1.5 / np.linalg.norm(X, axis=1, keepdims=True)
    for loss, q in CASES:
        codes, rows = codes_of(loss, q, labels), FeatureRows(np.asarray, X, radius=1.5)
        numbers = loss, 300 * loss.smoothness
        least = _kernel_solver.smallest_tolerance((20, q), 1.51, *numbers)
        solve_dual(X @ X.T, codes, *numbers, least)
        least = _feature_solver.smallest_tolerance(rows, q, *numbers, 0.0)
        solve_primal(rows, codes, *numbers, least)


@pytest.mark.parametrize("n_terms", [1, 7, 1000])
def test_careful_product(n_terms):
    """Errors keep their bound where terms cancel, which those of an ordinary product do not."""
    rng = np.random.default_rng(18)
    matrix, x = rng.normal(size=(20, n_terms)), rng.normal(size=(n_terms, 2))
    matrix[:, n_terms // 2 :] = -matrix[:, : n_terms - n_terms // 2] * (1 + 1e-12)
    x[n_terms // 2 :] = x[: n_terms - n_terms // 2]
    found = careful_product(matrix, x)
    exact = np.array([[math.fsum(exact_terms(row, column)) for column in x.T] for row in matrix])
    bound = product_error(n_terms, np.abs(matrix).max(), np.abs(x).max())
    assert (np.abs(found - exact) <= bound + 2 * UNIT * np.abs(exact)).all()
    assert bound <= 4 * UNIT * math.sqrt(n_terms) * np.abs(matrix).max() * np.abs(x).max()
    assert np.array_equal(careful_product(matrix, 0 * x), np.zeros((20, 2)))


def exact_terms(row, column):
    """Return numbers whose sum is exactly that of the products (Dekker)."""
    for a, b in zip(row, column, strict=True):
        high_a, high_b = (float(np.float32(v)) for v in (a, b))
        low_a, low_b = a - high_a, b - high_b
        yield from (high_a * high_b, high_a * low_b, low_a * high_b, low_a * low_b)


def test_errors_of_ordinary_products(monkeypatch):
    """Within their bound for terms that cancel, and not within it if terms are left out."""
    rng = np.random.default_rng(25)
    X = rng.normal(size=(1400, 3))
    gram, A = X @ X.T, rng.normal(size=(1400, 2))
    A -= X @ np.linalg.lstsq(X, A, rcond=None)[0]
    gram, half = (gram + gram.T) / 2, HalfMatrix.of(gram)
    bound = plain_error(1400, np.abs(gram).max(), np.linalg.norm(A, axis=1).sum())
    exact = np.array([[math.fsum(exact_terms(row, a)) for a in A.T] for row in gram[::100]])
    assert np.linalg.norm(half.times(A)[::100] - exact, axis=1).max() <= bound
    A[0] = A[-1] = 0.1
    exact = np.array([[math.fsum(exact_terms(row, a)) for a in A.T] for row in gram[::100]])
    monkeypatch.setattr(_kernel_solver, "tiles_before", lambda rows: [])
    assert np.linalg.norm(half.times(A)[::100] - exact, axis=1).max() > bound


# ---- shares of losses


def shares_of(sizes):
    return equal_shares(np.asarray(sizes))


@pytest.mark.parametrize(("loss", "q"), CASES, ids=CASE_NAMES)
@pytest.mark.parametrize("n", [30, 400], ids=["p > n", "p < n"])
def test_shares_multiply_losses(loss, q, n):
    """The gradient of what was minimised is small, with the linear term and without."""
    rng = np.random.default_rng(7)
    X, codes = rows_in_ball(n, 40), codes_of(loss, q, rng.integers(4, size=n))
    shares, linear = shares_of(rng.integers(1, 9, size=n)), rng.normal(size=(40, q))
    A = solve_dual(X @ X.T, codes, loss, 2.0, 1e-3, shares=shares)
    W = solve_primal(FeatureRows(np.asarray, X, radius=1.5), codes, loss, 2.0, 1e-3, shares=shares)
    rows = FeatureRows(np.asarray, X, radius=1.5)
    V = solve_primal(rows, codes, loss, 2.0, 1e-3, linear=linear, shares=shares)
    for found, tilt in ((X.T @ A, 0.0), (W, 0.0), (V, linear)):
        gradient = X.T @ (shares * loss.gradient(X @ found, codes)) + 2.0 * found + tilt
        assert np.linalg.norm(gradient) <= 2.002e-3 + 40 * math.sqrt(UNIT)
    assert np.linalg.norm(X.T @ solve_dual(X @ X.T, codes, loss, 2.0, 1e-3) - W) > 0.01


# ---- the last resort, and what is let in


@pytest.fixture
def last_resort(monkeypatch):
    """Newton's method takes no step and is never certified; return what counts gradient steps."""
    steps = []

    def count(real):
        return lambda *args: steps.append(1) or real(*args)

    for kind in (_kernel_solver._Dual, _feature_solver._Primal):
        monkeypatch.setattr(kind, "careful_gradient", count(kind.careful_gradient))
    monkeypatch.setattr(_newton, "_MAX_NEWTON_STEPS", 0)
    monkeypatch.setattr(_newton, "distance_bound", lambda point: math.inf)
    return steps


@pytest.mark.statistical
@pytest.mark.parametrize(("loss", "q"), CASES, ids=CASE_NAMES)
@pytest.mark.parametrize(
    ("table", "shared"), [("rank 2", False), ("one row", True), ("duplicates of all labels", True)]
)
def test_the_last_resort_arrives_as_proved(request, loss, q, table, shared):
    """All its steps are taken, and the last point keeps the tolerance, without a certificate."""
    features, labels = tables()[table]
    codes, regularization = codes_of(loss, q, labels), loss.smoothness
    step = loss.lipschitz * 1.5 / regularization
    rows, gram = FeatureRows(np.asarray, features, radius=1.5), features @ features.T
    more = {"shares": shares_of(1 + np.arange(len(codes)) % 5)} if shared else {}
    exact = solve_dual(gram, codes, loss, regularization, TIGHT * step, **more)
    steps = request.getfixturevalue("last_resort")
    found = solve_dual(gram, codes, loss, regularization, LEARNERS * step, **more)
    assert distance(gram, found, exact) <= (LEARNERS + TIGHT) * step
    assert 10 < len(steps) < 1000
    W = solve_primal(rows, codes, loss, regularization, LEARNERS * step, **more)
    assert np.linalg.norm(W - features.T @ exact) <= (LEARNERS + TIGHT) * step


def adversarial(rng):
    """Return rows that are hard for a solver: far apart in size, equal, nearly equal, opposed."""
    n, d = rng.choice([1, 2, 5, 20]), rng.choice([1, 2, 5])
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3)
    sizes = 10.0 ** rng.uniform(-8, 2, size=(n, 1))
    nearly = X[rng.integers(n, size=n)] + 10.0 ** rng.uniform(-16, -8) * rng.normal(size=(n, d))
    return [X, sizes * X, np.repeat(X[:1], n, axis=0), nearly][rng.integers(4)]


def adversarial_loss(rng):
    width = 10.0 ** rng.uniform(-5, 1)
    losses = [(_losses.SoftHinge(3.0), 1), (HuberizedHinge(width), 1), (HuberizedHinge(width), 3)]
    losses += [(Hinge(), 1), (_losses.Softmax(width, 1.0), 3), (Huber(width), 1)]
    losses += [(_losses.EpsilonInsensitive(0.1, width), 1)]
    return losses[rng.integers(len(losses))]


def least_regularization(radius, smallest, loss):
    """Return the least Lambda that is let in, or a random one above."""
    sizes = radius**2 * 10.0 ** np.arange(-12, 6, 0.1)
    return next(s for s in sizes if smallest(loss, s) <= LEARNERS * loss.lipschitz * radius / s)


def exact_distance(gram, A, codes, loss, regularization, shares):
    """Return ||gradient|| / Lambda, which bounds the distance, in rational numbers."""
    K = [[Fraction(v) for v in row] for row in gram.tolist()]
    A = [[Fraction(v) for v in row] for row in A.tolist()]

    def times(B):
        return [[sum(map(mul, row, column)) for column in zip(*B, strict=True)] for row in K]

    slopes = loss.gradient(np.array(times(A), dtype=float), codes).tolist()
    V = [
        [c * Fraction(s) + Fraction(regularization) * a for s, a in zip(*rows, strict=True)]
        for c, *rows in zip(map(Fraction, shares[:, 0].tolist()), slopes, A, strict=True)
    ]
    square = sum(sum(map(mul, *rows)) for rows in zip(V, times(V), strict=True))
    return math.sqrt(max(0.0, float(square))) / regularization


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_let_in_is_solved(seed, monkeypatch):
    """By Newton's method, at the edge of what is let in, to the tolerance of learners."""
    points, shared = [], seed % 8 >= 4  # half of the tables of each kernel
    kept = lambda *a: points.append(_newton.certified_minimum(*a)) or points[-1]  # noqa: E731
    monkeypatch.setattr(_kernel_solver, "certified_minimum", kept)
    monkeypatch.setattr(_newton, "accelerated_minimum", None)
    rng = np.random.default_rng(seed)
    X, (loss, q) = adversarial(rng), adversarial_loss(rng)
    codes = codes_of(loss, q, rng.integers(4, size=len(X)))
    kernel = ["rbf", "poly"][seed % 2]
    params = {"degree": 3, "gamma": 1.0, "coef0": 1.0} if kernel == "poly" else {"gamma": 1.0}
    space = KernelSpace(kernel, params, 10.0 ** rng.uniform(-2, 1))
    gram, R = space.gram(X, X), space.radius
    ones = np.ones((len(X), 1))
    shares = shares_of(rng.choice([1, 2, 3, 7, 1000, 2**24], len(X))) if shared else ones
    for rows in (slice(None), slice(1, None)) if len(X) > 1 else (slice(None),):
        shape = _problem.MAX_KERNEL_ROWS, q
        least = partial(_kernel_solver.smallest_tolerance, shape, R)
        regularization = 1.01 * least_regularization(R, least, loss)
        tolerance = LEARNERS * loss.lipschitz * R / regularization
        some, here = (gram[rows, rows], codes[rows]), shares[rows]
        more = {"shares": here} if shared else {}
        slopes = solve_dual(*some, loss, regularization, tolerance, **more)
        A = points[-1].x[0]
        numbers = loss, regularization, here
        assert exact_distance(some[0], A, some[1], *numbers) <= 1.001 * tolerance
        assert distance(some[0], slopes, A) <= 2.002 * tolerance  # each is near the minimum
        lengths = np.linalg.norm(slopes, axis=1) / here[:, 0]
        assert lengths.max() <= 1.001 * loss.lipschitz / regularization
    radius = 10.0 ** rng.uniform(-2, 2)
    table = FeatureRows(lambda A: clip_rows(A, radius), X, radius=radius)
    most = _feature_solver.NumbersOfRows(_problem.MAX_ROWS, X.shape[1], radius, table.block_rows)
    least = partial(_feature_solver.smallest_tolerance, most, q, tilt=0.0)
    regularization = 1.01 * least_regularization(radius, least, loss)
    tolerance = LEARNERS * loss.lipschitz * radius / regularization
    W = solve_primal(table, codes, loss, regularization, tolerance, shares=shares)
    features = np.concatenate([block for _, block in table.blocks()])
    gradient = features.T @ (shares * loss.gradient(features @ W, codes)) + regularization * W
    assert np.linalg.norm(gradient) / regularization <= 1.001 * tolerance


@pytest.mark.parametrize(("loss", "q"), CASES, ids=CASE_NAMES)
def test_fewer_and_shorter_rows_are_as_easy(loss, q):
    """What is let in for the most rows is not refused after the charge for those at hand."""
    for regularization in 10.0 ** np.arange(-6, 6):
        of_dual = [
            _kernel_solver.smallest_tolerance((n, q), R, loss, regularization)
            for n, R in ((1, 0.1), (1, 1.0), (10, 1.0), (999, 1.0), (60_000, 1.0), (60_000, 1.001))
        ]
        assert of_dual == sorted(of_dual)
        of_primal = [
            _feature_solver.smallest_tolerance(
                _feature_solver.NumbersOfRows(n, 7, R, 4096), q, loss, regularization, 0.1
            )
            for n, R in ((1, 0.1), (1, 1.0), (10, 1.0), (9999, 1.0), (2**24, 1.0), (2**24, 1.001))
        ]
        assert of_primal == sorted(of_primal)


# ---- losses as parameters of learners


CLASSES = [HuberizedHinge(), HuberizedHinge(0.2), Logistic(), Hinge()]
CLASSES += [_losses.SoftHinge(), _losses.SoftHinge(1)]


NUMBERS = [Huber(), Huber(0.7), _losses.Squared()]
NUMBERS += [_losses.EpsilonInsensitive(), _losses.EpsilonInsensitive(0.0, 0.2)]
NUMBERS += [_losses.EpsilonInsensitive(*given) for given in ((0.3, 0.3), (0.3, 0.5), (0.2, 1e-3))]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("loss", CLASSES, ids=repr)
def test_constants_of_the_loss_of_classes_hold_for_all_scores(loss, n_classes):
    """Slopes and curvatures of scores of any size, and codes that a row may have."""
    if isinstance(loss, Hinge) and n_classes > 2:
        refused("is for two classes", _losses.classifier_loss, loss, n_classes)
        return
    loss = _losses.classifier_loss(loss, n_classes)
    codes = loss.class_codes(n_classes)
    rng = np.random.default_rng(22)
    scores = rng.normal(size=(3000, codes.shape[1])) * 10.0 ** rng.uniform(-4, 3, size=(3000, 1))
    codes = codes[rng.integers(n_classes, size=3000)]
    slopes = np.linalg.norm(loss.gradient(scores, codes), axis=1)
    assert slopes.max() <= loss.lipschitz * (1 + 1e-12)
    roots = loss.hessian_root(scores, codes)
    assert np.linalg.norm(roots, ord=2, axis=(1, 2)).max() ** 2 <= loss.smoothness * (1 + 1e-12)


@pytest.mark.parametrize("loss", NUMBERS, ids=repr)
def test_constants_of_the_loss_of_numbers_hold_for_all_scores(loss):
    """By differences of values alone: slopes and their rise reach what is claimed, and no more."""
    scores = np.linspace(-4, 4, 80_001)[:, None]  # steps of 1e-4, which meet all kinks
    for y in (-1.0, 0.0, 0.37, 1.0):
        codes = np.full_like(scores, y)
        values = loss.value(scores, codes)
        slopes = np.diff(values) / 1e-4
        rises = np.diff(slopes) / 1e-4
        assert np.abs(slopes).max() == pytest.approx(loss.lipschitz, rel=1e-9)
        assert np.abs(slopes).max() <= loss.lipschitz * (1 + 1e-9)
        assert rises.min() >= -1e-6
        assert rises.max() == pytest.approx(loss.smoothness, rel=1e-5)
        assert values.min() >= 0
        assert loss.value(np.zeros((1, 1)), codes[:1]) <= loss.value(np.zeros((1, 1)), np.eye(1))
        gradient = loss.gradient(scores, codes)[:, 0]
        assert np.abs(gradient).max() == loss.lipschitz
        between = (gradient[1:] + gradient[:-1]) / 2
        np.testing.assert_allclose(slopes, between, atol=2e-4 * loss.smoothness)
        curvature = loss.hessian_root(scores, codes)[:, 0, 0] ** 2
        assert curvature.max() <= loss.smoothness * (1 + 1e-12)
        # Where it does not change, it is the rise on either side.
        still = (curvature[2:] == curvature[1:-1]) & (curvature[:-2] == curvature[1:-1])
        rises, curvature = rises[still], curvature[1:-1][still]
        np.testing.assert_allclose(rises, curvature, atol=1e-5 * loss.smoothness)
    one, other = np.ones((1, 1)), -np.ones((1, 1))
    # Replaced by its opposite, a row changes its slope by twice L.
    moved = loss.gradient(0 * one, one) - loss.gradient(0 * one, other)
    assert moved <= -2 * min(1, loss.lipschitz)
