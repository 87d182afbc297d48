"""The noise of every release of a kernel learner: its scale, its audit, and the bugs those catch.

Tests of a scale have three arms, as in `test_noise`: the right scale passes, 0.7 and 1.3 times it
fail. They draw from seeded stand-ins of the noise's sources, so nothing in them is left to chance;
the sources themselves are tested in `test_noise`. Expected scales are worked out here, from the
budget, L, R, Lambda and the solver's tolerance.

Audits hold with confidence 1 - 1e-9, and draw from the stand-ins but for one, as the system's
noise takes longer than all else. Each finds its mutant with the trials that spare the sound one.
"""

import copy
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from releases import (
    LEARNERS,
    SHARP,
    WEIGHTS,
    Released,
    coefficients,
    linear,
    rbf,
    seeded_noise,
)
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import brentq
from scipy.stats import gamma, kstest, laplace, norm
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_approximation import RBFSampler

from skdpsumm import (
    PINPClassifier,
    PINPRegressor,
    TDDLClassifier,
    TDDLRegressor,
    TDILClassifier,
    TDILRegressor,
    audit_epsilon,
)
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.learners import ExponentialMechanism, HuberizedHinge, NoisyThreshold, SparseVector
from skdpsumm.learners.erm import _feature_space
from skdpsumm.learners.erm._feature_space import FeatureRows, FeatureSpace
from skdpsumm.learners.erm._losses import EpsilonInsensitive, Huber, Logistic, Squared
from skdpsumm.learners.erm._problem import Minimizer, Terms
from skdpsumm.learners.mechanisms import _answers_at_points, _objective
from skdpsumm.learners.mechanisms._base import AnsweredQueries
from skdpsumm.learners.mechanisms._functional import PathAnswers
from skdpsumm.privacy import gdp_mu
from skdpsumm.privacy._mechanisms import gdp_delta, zcdp_rho
from skdpsumm.privacy._threshold import threshold_ratio

ARMS = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False), (1.3, False)])
ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
PURE = {"epsilon": 1.0, "delta": 0.0}
CLAIMS = pytest.mark.parametrize(
    ("budget", "adjacency"),
    [(GAUSSIAN, "add_remove"), (PURE, "replace_one")],
    ids=["gaussian-add_remove", "pure-replace_one"],
)


pytestmark = [
    pytest.mark.statistical,
    pytest.mark.usefixtures("quick_fits"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
    pytest.mark.filterwarnings("ignore:If you scale X in a Pipeline"),
    pytest.mark.filterwarnings("ignore:Ask the fitted PINP learner"),
]


@pytest.fixture
def noise(monkeypatch):
    """Return a function that puts seeded sources, off by a factor, in place of all noise."""
    return seeded_noise(monkeypatch)


# ------------------------------------------------------------------------- scales, from the theory


def sensitivity(adjacency, lipschitz, radius, regularization, tolerance=1e-3, kernel=False):
    """Delta_w: the solver's tolerance on both sides, with a kernel and a smooth loss twice."""
    rows = {"add_remove": 1, "replace_one": 2}[adjacency]
    return lipschitz * radius / regularization * (rows + (4 if kernel else 2) * tolerance)


def has_law(sample, law):
    """Whether mean, variance (each within six standard errors) and shape are those of a law."""
    sample = np.ravel(sample)
    mean, variance, kurtosis = law.stats("mvk")
    squares = (sample - mean) ** 2
    return bool(
        abs(sample.mean() - mean) < 6 * math.sqrt(variance / sample.size)
        and abs(squares.mean() - variance) < 6 * variance * math.sqrt((kurtosis + 2) / sample.size)
        and kstest(sample, law.cdf).pvalue > 1e-9
    )


def has_frequency(hits, n, probability):
    return abs(hits / n - probability) < 6 * math.sqrt(probability * (1 - probability) / n)


def named(value):
    """Return the name of a test's model; those of kernels that are functions hold addresses."""
    return type(value).__name__ if isinstance(value, BaseEstimator) else None


def table(n_columns, n_labels=2):
    """Return six rows, some longer than 1, with labels."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(6, n_columns)), np.arange(6) % n_labels


@ADJACENCIES
@pytest.mark.parametrize(
    ("model", "lipschitz", "radius"),
    [
        (TDILClassifier(), 1, 1),
        (TDILClassifier(loss="hinge", norm_bound=3), 1, 3),
        (TDILClassifier(loss="logistic", fit_intercept=True), 1, math.sqrt(2)),
        (TDILClassifier(loss="logistic", classes=[0, 1, 2]), math.sqrt(2), 1),
        (TDILClassifier(classes=[0, 1, 2]), math.sqrt(2), 1),
        (TDILClassifier(loss="hinge", classes=[0, 1, 2]), math.sqrt(3), 1),
        (TDILRegressor(y_bounds=(0, 10), loss=Huber(0.3)), 0.3, 1),
        (TDILRegressor(y_bounds=(0, 10), loss="squared"), 2, 1),
        (TDILRegressor(y_bounds=(0, 10), loss="epsilon_insensitive"), 1, 1),
        (PINPRegressor(gamma=1.0, y_bounds=(0, 10), loss=EpsilonInsensitive(0.2, 1e-3)), 1, 1),
        (TDDLRegressor(schema=(-1, 1), y_bounds=(0, 9), loss="epsilon_insensitive"), 1, 1),
        (PINPClassifier(gamma=1.0, fit_intercept=True, intercept_scaling=2), 1, math.sqrt(5)),
        (
            PINPRegressor(kernel="poly", norm_bound=2, y_bounds=(0, 10), loss=Huber(0.5)),
            0.5,
            5**1.5,
        ),
        (TDDLClassifier(schema=(-1, 1), kernel="laplacian"), 1, 1),
        (
            TDDLRegressor(schema=(-1, 1), kernel=linear, y_bounds=(0, 9), loss=Huber(2.0)),
            2,
            1,
        ),
    ],
    ids=named,
)
def test_sensitivity(model, lipschitz, radius, adjacency):
    model = clone(model).set_params(regularization=7.0, adjacency=adjacency)
    model.set_params(mechanism="functional").fit(*table(2))
    # The span of public points in a built-in kernel's space is one of explicit features.
    kernel = isinstance(model, PINPClassifier | PINPRegressor) or callable(model.kernel)
    expected = sensitivity(adjacency, lipschitz, radius, 7.0, kernel=kernel)
    # What float64 adds to that is bounded, and tested, in `test_rounding`.
    assert expected < model.sensitivity_ < expected * (1 + (1e-5 if kernel else 1e-11))


@ARMS
@ADJACENCIES
def test_weights(factor, accepted, adjacency, noise):
    """Gaussian noise of standard deviation Delta_w / mu on each weight, the intercept's as well."""
    noise(factor)
    model = TDILClassifier(fit_intercept=True, norm_bound=2, regularization=7.0, **GAUSSIAN)
    model.set_params(adjacency=adjacency, mechanism="functional")
    release = Released(model, *table(59))
    sample = [release().predictor_.coefficients - release.exact.coefficients for _ in range(100)]
    std = sensitivity(adjacency, 1, math.sqrt(5), 7.0) / gdp_mu(1.0, 1e-6)
    assert has_law(sample, norm(0, std)) == accepted


@ARMS
def test_weights_of_features_and_classes(factor, accepted, noise):
    noise(factor)
    features = RBFSampler(n_components=20, random_state=0)
    model = PINPClassifier(feature_map=features, loss="hinge", regularization=7.0, **GAUSSIAN)
    release = Released(model, *table(2, 3))
    sample = [
        release().answers_.hypothesis().coefficients - release.exact.coefficients
        for _ in range(100)
    ]
    assert np.shape(sample) == (100, 20, 3)
    std = sensitivity("add_remove", math.sqrt(3), 1, 7.0, 1e-2) / gdp_mu(1.0, 1e-6)
    assert has_law(sample, norm(0, std)) == accepted


@ARMS
@ADJACENCIES
def test_pure_weights(factor, accepted, adjacency, noise):
    """The noise's length has the Gamma law of as many dimensions; its direction is uniform."""
    noise(factor)
    model = TDILClassifier(loss="logistic", regularization=7.0, adjacency=adjacency, **PURE)
    model.set_params(mechanism="functional")
    release = Released(model, *table(2, 3))
    drawn = [release().predictor_.coefficients - release.exact.coefficients for _ in range(2000)]
    xi = np.reshape(drawn, (2000, 6))
    length = np.linalg.norm(xi, axis=1)
    assert has_law(length, gamma(6, scale=sensitivity(adjacency, math.sqrt(2), 1, 7.0))) == accepted
    direction = xi / length[:, None]
    assert np.abs(direction.T @ direction / 2000 - np.eye(6) / 6).max() < 0.03


Z = np.random.default_rng(2).uniform(-1, 1, (5, 2))


def whitened(errors, kernel=rbf):
    """Return errors at Z, shape (trials, T, q), in coordinates where K_ZZ is the identity."""
    factor = np.linalg.cholesky(kernel(Z, Z))
    return np.linalg.solve(factor, np.moveaxis(errors, 1, 0).reshape(len(Z), -1)).T


def are_independent(rows):
    correlations = np.corrcoef(rows.T) - np.eye(rows.shape[1])
    return np.abs(correlations).max() < 6 / math.sqrt(len(rows))


@ARMS
@ADJACENCIES
def test_span_of_public_points(factor, accepted, adjacency, noise):
    """Errors at Z have the covariance (Delta_w / mu)^2 K_ZZ."""
    noise(factor)
    model = TDDLClassifier(kernel=rbf, regularization=7.0, adjacency=adjacency, **GAUSSIAN)
    release = Released(model, *table(2, 3), X_public=Z)
    exact = release.exact.scores(Z)
    rows = whitened(np.array([release().predictor_.scores(Z) - exact for _ in range(200)]))
    std = sensitivity(adjacency, math.sqrt(2), 1, 7.0) / gdp_mu(1.0, 1e-6)
    assert has_law(rows, norm(0, std)) == accepted
    assert are_independent(rows)


@ARMS
def test_pure_span(factor, accepted, noise):
    """Of as many leading directions as hold nine tenths of the trace of K_ZZ."""
    noise(factor)
    model = TDDLClassifier(kernel=rbf, regularization=7.0, **PURE)
    release = Released(model, *table(2), X_public=Z)
    sizes, vectors = np.linalg.eigh(rbf(Z, Z))
    kept = 3  # of five
    assert sizes[-kept + 1 :].sum() < 0.9 * sizes.sum() < sizes[-kept:].sum()
    back = vectors[:, -kept:].T / np.sqrt(sizes[-kept:, None])
    exact = release.exact.scores(Z)
    drawn = [back @ (release().predictor_.scores(Z) - exact) for _ in range(2000)]
    length = np.linalg.norm(drawn, axis=1)
    assert has_law(length, gamma(kept, scale=sensitivity("add_remove", 1, 1, 7.0))) == accepted


def in_batch(answers):
    return answers.ask(Z)[0]


def one_by_one(answers):
    return np.concatenate([answers.ask(z[None])[0] for z in Z])


def in_another_order(answers):
    for part in (Z[3:], Z[:1], Z[4:0:-1]):
        answers.ask(part)
    return answers.ask(Z)[0]


@ARMS
@pytest.mark.parametrize(
    ("asked", "adjacency"),
    [(in_batch, "add_remove"), (one_by_one, "replace_one"), (in_another_order, "add_remove")],
)
def test_path(factor, accepted, adjacency, asked, noise):
    """Jointly normal around the exact values, with the covariance (Delta_w / mu)^2 K, however
    asked.
    """
    noise(factor)
    model = PINPClassifier(kernel=rbf, regularization=7.0, adjacency=adjacency, **GAUSSIAN)
    release = Released(model, *table(2, 3))
    exact = release.exact.scores(Z)
    rows = whitened(np.array([asked(release().answers_) - exact for _ in range(200)]))
    std = sensitivity(adjacency, math.sqrt(2), 1, 7.0) / gdp_mu(1.0, 1e-6)
    assert has_law(rows, norm(0, std)) == accepted
    assert are_independent(rows)


def fitted_answers(module, monkeypatch):
    """Return a list that collects the answers, exact and noisy, that least squares get."""
    seen = []
    fit = module.shrunk_least_squares

    def collect(gram, answers, variance):
        seen.append((answers, variance))
        return fit(gram, answers, variance)

    monkeypatch.setattr(module, "shrunk_least_squares", collect)
    return seen


@ARMS
@CLAIMS
def test_laplace_answers(factor, accepted, adjacency, budget, noise, monkeypatch):
    """Scale Delta_w |K_ZZ|^(1/2) over sqrt(2 rho), or sqrt(T q) times that over epsilon."""
    noise(factor)
    model = TDDLClassifier(kernel=rbf, mechanism="laplace", regularization=7.0, **budget)
    model.set_params(adjacency=adjacency)
    seen = fitted_answers(_answers_at_points, monkeypatch)
    release = Released(model, *table(2, 3), X_public=Z)
    for _ in range(200):
        release()
    exact = release.exact.scores(Z)
    delta_w = sensitivity(adjacency, math.sqrt(2), 1, 7.0, kernel=True)
    per_unit = math.sqrt(15) if budget is PURE else 1 / math.sqrt(2 * zcdp_rho(1.0, 1e-6))
    scale = delta_w * math.sqrt(np.linalg.eigvalsh(rbf(Z, Z))[-1]) * per_unit
    assert has_law([answers - exact for answers, _ in seen], laplace(0, scale)) == accepted
    assert seen[0][1] == pytest.approx(2 * scale**2, rel=1e-4)


# ---- Algorithm 1


def updates(mechanism, budget, adjacency="add_remove"):
    settings = {"mechanism": mechanism(n_updates=3), "adjacency": adjacency}
    model = PINPClassifier(kernel=rbf, regularization=7.0, **settings, **budget)
    return Released(model, *table(2, 3))


def score_and_parts(budget, n_updates, adjacency="add_remove"):
    """Return the sensitivity of a score, and e1 and e2 of an epoch of "svt"."""
    delta = sensitivity(adjacency, math.sqrt(2), 1, 7.0, kernel=True)
    if budget["delta"] == 0:
        return delta, 0.8 * budget["epsilon"] / n_updates, 0.2 * budget["epsilon"] / n_updates
    rho = zcdp_rho(**budget)
    return delta, *(math.sqrt(2 * part * rho / n_updates) for part in (0.8, 0.2))


@ARMS
@CLAIMS
def test_fresh_answers_of_svt(factor, accepted, adjacency, budget, noise):
    """Of three scores at once: scale Delta / e2, and sqrt 3 times that for pure DP."""
    noise(factor)
    release = updates(SparseVector, budget, adjacency)
    release.plan.sigma = -1e3  # all queries are above it
    exact = release.exact.scores(Z[:1])
    asked = [release().query(Z[:1]) for _ in range(1000)]
    assert all(answer.fresh.all() for answer in asked)
    delta, _, e2 = score_and_parts(budget, 3, adjacency)
    law = laplace(0, delta / e2 * (1 if budget["delta"] else math.sqrt(3)))
    assert has_law([answer.scores - exact for answer in asked], law) == accepted


@ARMS
@CLAIMS
def test_tests_of_svt(factor, accepted, adjacency, budget, noise):
    """The threshold has noise of scale 2 Delta / e1, a query twice that."""
    noise(factor)
    plan = updates(SparseVector, budget, adjacency).plan
    delta, e1, _ = score_and_parts(budget, 3, adjacency)
    assert plan.sigma == pytest.approx(4 * delta / e1 * math.log(2 * 1000 / 0.05), rel=1e-5)
    thresholds = []
    for _ in range(4000):
        plan.start_epoch()
        thresholds.append(plan._threshold * plan.grid - plan.sigma)
    assert has_law(thresholds, laplace(0, 2 * delta / e1)) == accepted

    plan._threshold = round(plan.sigma / plan.grid)
    below = round((plan.sigma - 1.5 * 4 * delta / e1) / plan.grid)
    exact, public = np.array([7 - below]), np.array([7])
    found = [plan.answer(exact, public) is not None for _ in range(10_000)]
    assert has_frequency(sum(found), 10_000, math.exp(-1.5) / 2) == accepted


@ARMS
@ADJACENCIES
def test_fresh_answers_of_the_threshold_test(factor, accepted, adjacency, noise):
    """Laplace noise of scale Delta over the ratio that the budget allows for."""
    noise(factor)
    release = updates(NoisyThreshold, GAUSSIAN, adjacency)
    release.plan.sigma = 0.0  # all answers are released
    exact = release.exact.scores(Z[:1])
    asked = [release().query(Z[:1]) for _ in range(1000)]
    assert all(answer.fresh.all() for answer in asked)
    delta = sensitivity(adjacency, math.sqrt(2), 1, 7.0)
    law = laplace(0, delta / threshold_ratio(1.0, 1e-6, 3, 3))
    assert has_law([answer.scores - exact for answer in asked], law) == accepted


@ARMS
def test_updates_of_the_threshold_test(factor, accepted, noise):
    noise(factor)
    plan = updates(NoisyThreshold, GAUSSIAN).plan
    delta = sensitivity("add_remove", math.sqrt(2), 1, 7.0, kernel=True)
    scale = delta / threshold_ratio(1.0, 1e-6, 3, 3)
    assert plan.sigma == pytest.approx(4 * scale * math.log(2 * 1000 / 0.05), rel=1e-5)
    below = round((plan.sigma - 1.5 * scale) / plan.grid)
    exact, public = np.array([7 - below]), np.array([7])
    found = [plan.answer(exact, public) is not None for _ in range(10_000)]
    assert has_frequency(sum(found), 10_000, math.exp(-1.5) / 2) == accepted


# ---- objective perturbation


def tilted(model, data):
    """Return a release whose minimiser is always zero, and the tilts that it was asked for."""
    release = Released(model, *data)
    tilts = []

    def minimize(linear, tolerance):
        tilts.append((linear, tolerance))
        return Minimizer(release.problem.space, np.zeros_like(linear))

    object.__setattr__(release.problem, "minimize", minimize)
    return release, tilts


def tilt_scale(budget, curvature, adjacency, name):
    """Return the noise of the tilt per L R, where a thousandth pays for the solver's tolerance.

    The privacy loss is that of the Gaussians from each corner of a row's gradients to each, and
    to zero, plus the logarithm of the determinant.
    """
    corners = 2 if name in ("huber", "insensitive") else 1
    epsilon, delta = budget["epsilon"], budget["delta"]
    shift = math.log1p(curvature)
    if delta == 0:
        rows = {"add_remove": 1, "replace_one": 2}[adjacency]
        return rows / (epsilon * (1 - 1e-3) - shift)
    lengths = [1] * corners
    if adjacency == "replace_one":
        lengths = [2] * corners + [math.sqrt(3)] * (corners**2 - corners) + [1] * 2 * corners

    def excess(unit):
        return sum(gdp_delta(unit * x, epsilon - shift) for x in lengths) - delta

    return math.sqrt(1 + 1e-3) / brentq(excess, 1e-6, 10.0)


OBJECTIVES = {
    "huberized": (TDILClassifier(loss=HuberizedHinge(0.5)), 1.0, 1.0),
    "soft hinge": (TDILClassifier(), 1.0, 0.25),
    "logistic": (TDILClassifier(loss="logistic"), 1.0, 0.25),
    "huber": (TDILRegressor(y_bounds=(0, 1), loss=Huber(0.5)), 0.5, 1.0),
    "insensitive": (TDILRegressor(y_bounds=(0, 1), loss=EpsilonInsensitive(0.3, 0.25)), 1.0, 2.0),
}


@ARMS
@pytest.mark.parametrize("name", OBJECTIVES)
@CLAIMS
def test_objective(factor, accepted, budget, name, adjacency, noise):
    """The tilt's noise, and that on the output: twice the solver's distance over its budget."""
    noise(factor)
    model, lipschitz, smoothness = OBJECTIVES[name]
    model = clone(model).set_params(norm_bound=2.0, regularization=20.0, adjacency=adjacency)
    model.set_params(mechanism="objective", **budget)
    release, tilts = tilted(model, table(8))
    outputs = [release().predictor_.coefficients for _ in range(400)]
    drawn = [linear for linear, _ in tilts]

    per_unit = tilt_scale(budget, smoothness * 4 / 20, adjacency, name)
    scale = lipschitz * 2.0 * per_unit
    assert release.plan.noise_scale == pytest.approx(scale, rel=1e-4)
    distance = tilts[0][1] + 2 * scale / 20 * 2.0**-30 * math.sqrt(8)
    if budget is PURE:
        law, output_law = gamma(8, scale=scale), gamma(8, scale=2 * distance / 1e-3)
        drawn, outputs = (np.linalg.norm(x, axis=1) for x in (drawn, outputs))
    else:
        # per_unit is 1 / Z, and a thousandth of Z^2 is for the output.
        output = 2 * distance * per_unit * math.sqrt(1 / 1e-3)
        law, output_law = norm(0, scale), norm(0, output)
    assert has_law(drawn, law) == accepted
    assert has_law(outputs, output_law) == accepted


@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("shift", [0.01, 0.9, 0.9989])
def test_objective_asks_the_solver_for_what_it_promised(budget, shift):
    """The output noise covers the distance that the solver is asked for, and that of rounding.

    Where a row's curvature takes nearly all of epsilon, the noise grows by what the output costs.
    """
    model = TDILClassifier(loss="logistic", mechanism="objective", **budget)
    model.set_params(regularization=0.25 / math.expm1(shift))
    release, tilts = tilted(model, table(2))
    release()
    plan, (_, tolerance) = release.plan, tilts[-1]
    if budget is PURE:
        covered = plan.output_scale * 1e-3 / 2
    else:
        covered = plan.output_scale * math.sqrt(1e-3) / plan.noise_scale / 2
        tolerance += plan.noise_scale * 2.0**-31 * math.sqrt(2) / model.regularization
        tolerance += plan.output_scale * 2.0**-25 * math.sqrt(2)
    assert tolerance <= covered


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (1e-3, 1e-10), (1e-4, 1e-3)])
def test_the_output_noise_covers_its_own_rounding(epsilon, delta):
    terms = Terms(epsilon, delta, "add_remove", Logistic(), 1.0 / epsilon, 1.0, 1, None)
    plan = _objective.ObjectivePlan(FeatureSpace(None, 5000, 1.0, 0.0), terms)
    roundings = plan.noise_scale / terms.regularization / 2, plan.output_scale / 2
    distance = plan._tolerance + 2.0**-24 * math.sqrt(5000) * sum(roundings)
    assert distance <= plan.output_scale * math.sqrt(1e-3) / plan.noise_scale / 2


def test_too_many_features_for_a_tiny_epsilon_are_refused():
    terms = Terms(1e-4, 1e-9, "add_remove", Logistic(), 1e4, 1.0, 1, None)
    with pytest.raises(ValueError, match="too small for so many features"):
        _objective.ObjectivePlan(FeatureSpace(None, 5000, 1.0, 0.0), terms)


# ---- Algorithm 3


def asking(budget, n_rounds=1, candidates=None, **settings):
    """Return a learner of rows that are all alike, so that scores differ much."""
    mechanism = ExponentialMechanism(n_rounds=n_rounds, candidates=candidates)
    model = TDILClassifier(mechanism=mechanism, classes=[0, 1], **budget)
    model = model.set_params(regularization=7.0, **settings)
    return Released(model, np.repeat([[0.6, -0.4, 0.2]], 12, axis=0), np.ones(12, dtype=int))


def selection_part(budget, n_rounds):
    """Return e_s, and the scale of the Laplace or Gaussian noise per unit of sensitivity."""
    if budget["delta"] == 0:
        part = budget["epsilon"] / (2 * n_rounds)
        return part, laplace(0, 1 / part)
    part = zcdp_rho(**budget) / (2 * n_rounds)
    return math.sqrt(8 * part), norm(0, 1 / math.sqrt(2 * part))


STRONG = {"epsilon": 4.0, "delta": 1e-6}
STRONG_PURE = {"epsilon": 3.0, "delta": 0.0}
STRONG_CLAIMS = pytest.mark.parametrize(
    ("budget", "adjacency"),
    [(STRONG, "add_remove"), (STRONG_PURE, "replace_one")],
    ids=["zcdp-add_remove", "pure-replace_one"],
)
CANDIDATES = np.array([[0.6, -0.4, 0.2], [0.3, 0.2, 0.1], [-0.3, 0.4, 0.0], [0.0, 0.0, -0.1]])


@ARMS
@STRONG_CLAIMS
def test_measurements(factor, accepted, adjacency, budget, noise, monkeypatch):
    noise(factor)
    seen = fitted_answers(_answers_at_points, monkeypatch)
    release = asking(
        budget, 2, kernel=rbf, candidates=CANDIDATES, adjacency=adjacency, classes=[0, 1, 2]
    )
    errors = []
    for _ in range(400):
        points = release().predictor_.points
        errors.append(seen[-1][0] - release.exact.scores(points))
    unit = sensitivity(adjacency, math.sqrt(2), 1, 7.0) * (
        math.sqrt(3) if budget["delta"] == 0 else 1
    )
    _, law = selection_part(budget, 2)
    assert has_law(np.array(errors) / unit, law) == accepted


@ARMS
@STRONG_CLAIMS
def test_choice_of_a_candidate(factor, accepted, adjacency, budget, noise):
    """Weights exp(e_s |f(z)| / (2 Delta))."""
    noise(factor)
    release = asking(budget, candidates=CANDIDATES, adjacency=adjacency)
    n = 3000
    chosen = np.array([release().predictor_.points[0] for _ in range(n)])
    found = (chosen[:, None] == CANDIDATES).all(axis=2).sum(axis=0)
    e_s, _ = selection_part(budget, 1)
    scores = np.abs(release.exact.scores(CANDIDATES)[:, 0])
    weights = np.exp(e_s * scores / (2 * sensitivity(adjacency, 1, 1, 7.0)))
    p = weights / weights.sum()
    assert found.sum() == n
    assert all(has_frequency(*pair) for pair in zip(found, [n] * 4, p, strict=True)) == accepted


class Tabulated:
    """A law on an interval, from a density that need not be normalised."""

    def __init__(self, density, low, high):
        self._x = np.linspace(low, high, 20_001)
        mass = cumulative_trapezoid(density(self._x), self._x, initial=0)
        self._cdf = mass / mass[-1]
        self._p, self._middles = np.diff(self._cdf), (self._x[1:] + self._x[:-1]) / 2

    def cdf(self, x):
        return np.interp(x, self._x, self._cdf)

    def stats(self, _):
        mean = self._p @ self._middles
        variance, fourth = (self._p @ (self._middles - mean) ** k for k in (2, 4))
        return mean, variance, fourth / variance**2 - 3


@ARMS
def test_choice_in_the_ball(factor, accepted, noise, monkeypatch):
    """A density proportional to exp(e_s |<z, w*>| / (2 Delta)) in the ball of radius R."""
    noise(1.0)
    draw = _answers_at_points.sample_ball
    monkeypatch.setattr(
        _answers_at_points, "sample_ball", lambda v, kappa, rng: draw(v, kappa / factor, rng)
    )
    release = asking({"epsilon": 8.0, "delta": 0.0}, norm_bound=2.0, adjacency="replace_one")
    w = release.exact.coefficients[:, 0]
    z = np.array([release().predictor_.points[0] for _ in range(1500)]) / 2.0
    along = z @ w / np.linalg.norm(w)
    kappa = 8.0 / 2 * np.linalg.norm(w) / (2 * sensitivity("replace_one", 1, 2, 7.0))
    law = Tabulated(lambda t: np.exp(kappa * t) * (1 - t**2), 0, 1)
    assert has_law(np.abs(along), law) == accepted
    assert has_frequency((along > 0).sum(), 1500, 0.5)
    # Given that, the rest is uniform in a disc.
    across = np.cross(w, [0, 0, 1])
    rest = z @ across / np.linalg.norm(across) / np.sqrt(1 - along**2)
    assert has_law(rest, Tabulated(lambda t: np.sqrt(1 - t**2), -1, 1))


# ----------------------------------------------------------------------------------------- audits


def audit(model, output, worlds=None, n_trials=1500):
    """Return the lower bound on epsilon; `output` gets the model and a row of the first world."""
    worlds = worlds or worst_case_neighbours(model, n_samples=2)
    row = worlds[0][0][:1]
    public = {"X_public": row} if isinstance(model, TDDLClassifier) else {}
    releases = [Released(model, *data, **public) for data in worlds]
    result = audit_epsilon(
        lambda release: output(release(), row),
        *releases,
        delta=model.delta,
        n_trials=n_trials,
        confidence=1 - 1e-9,
        random_state=0,
    )
    return result.lower_bound


@pytest.mark.parametrize("name", LEARNERS)
def test_publishing_again_is_fitting_again(name):
    """The audits' shortcut gives what a fit gives, of the same seed."""
    model, output, worlds, _ = LEARNERS[name]
    model = clone(model).set_params(noise_seed=5)
    X, y = (worlds or worst_case_neighbours(model))[1]
    public = {"X_public": X[:1]} if isinstance(model, TDDLClassifier) else {}
    with pytest.warns(match="noise_seed"):
        release = Released(model, X, y, **public)
    with pytest.warns(match="noise_seed"):
        expected = output(model.fit(X, y, **public), X[:1])
    for _ in range(2):
        for counter in (release.plan, *vars(release.plan).values()):
            if hasattr(counter, "_n_drawn"):
                counter._n_drawn = 0
        np.testing.assert_array_equal(output(release(), X[:1]), expected)


@pytest.mark.parametrize("name", LEARNERS)
def test_bound_stays_below_the_claim(name, noise):
    model, output, worlds, part = LEARNERS[name]
    noise(1.0)
    assert audit(model, output, worlds, n_trials=600) <= model.epsilon
    noise(1 / part)
    assert audit(model, output, worlds, n_trials=600) > model.epsilon


@pytest.mark.parametrize("name", ["weights", "pure weights", "span", "objective"])
def test_replacing_one_row(name, noise, monkeypatch):
    """The mutant has the noise of add-remove."""
    noise(1.0)
    model, output, *_ = LEARNERS[name]
    model = clone(model).set_params(adjacency="replace_one")
    assert audit(model, output) <= model.epsilon
    right, calibrate = Terms.sensitivity, _objective.calibrate
    monkeypatch.setattr(
        Terms,
        "sensitivity",
        property(lambda self: right.fget(replace(self, adjacency="add_remove"))),
    )
    monkeypatch.setattr(
        _objective, "calibrate", lambda *a, **k: calibrate(*a, **{**k, "adjacency": "add_remove"})
    )
    assert audit(model, output) > model.epsilon


# Fails once in 1e9 runs: so often is an audit's bound wrong, at its confidence.
@pytest.mark.fresh_noise(1e-9)
def test_audit_with_the_noise_of_the_system():
    model, output, *_ = LEARNERS["weights"]
    assert audit(model, output) <= model.epsilon


def test_catches_noise_reused_at_a_second_point(noise, monkeypatch):
    noise(1.0)
    append = PathAnswers._append

    def reused(self, X, below, corner):
        append(self, X, below, corner)
        self._noisy[:] = self._exact + (self._noisy[0] - self._exact[0])

    monkeypatch.setattr(PathAnswers, "_append", reused)
    model, output, *_ = LEARNERS["path"]
    assert audit(model, output) > model.epsilon


def test_catches_copies_that_draw_noise_of_their_own(noise, monkeypatch):
    """Five answers average to less than half the noise; as it is, a copy knows what is public."""
    noise(1.0)
    model = LEARNERS["path"][0]

    def mean_answer(model, row):
        copies = [model.answers_, *(copy.copy(model.answers_) for _ in range(4))]
        return np.mean([answers.ask(row)[0] for answers in copies])

    assert audit(model, mean_answer, n_trials=1000) <= model.epsilon
    monkeypatch.setattr(
        AnsweredQueries, "__reduce__", lambda self: (PathAnswers, (self._minimizer, self._plan))
    )
    assert audit(model, mean_answer, n_trials=1000) > model.epsilon


class NormOfTheRows(TDILClassifier):
    def _open_space(self, X, X_public):
        self.norm_bound = float(np.linalg.norm(X, axis=1).max())
        return super()._open_space(X, X_public)


class GammaOfTheRows(TDDLClassifier):
    def _open_space(self, X, X_public):
        self.kernel = partial(rbf, gamma=1 / X.var())
        return super()._open_space(X, [[0.0], [0.3]])


class LambdaOfTheRows(TDILClassifier):
    def _open_space(self, X, X_public):
        self.regularization = 1 + float(np.square(X).mean())
        return super()._open_space(X, X_public)


@pytest.mark.parametrize("careless", [NormOfTheRows, GammaOfTheRows, LambdaOfTheRows])
def test_catches_parameters_taken_from_the_rows(careless, noise):
    """One row far away changes the scale of all noise, or how it is correlated."""
    noise(1.0)
    X, y = np.linspace(0.01, 0.1, 11)[:, None], np.arange(11) % 2
    worlds = (X[:-1], y[:-1]), (np.vstack([X[:-1], [[10.0]]]), y)
    for kind in (careless.__base__, careless):
        model = kind(**WEIGHTS, **SHARP)
        if careless is GammaOfTheRows:
            model.set_params(kernel=rbf)
        assert (audit(model, coefficients, worlds) > model.epsilon) is (kind is careless)


def test_catches_an_intercept_without_a_penalty(noise, monkeypatch):
    """Of two labels each, or one more of the first, it is 0 or 1, whatever Lambda."""
    noise(1.0)
    X, y = np.zeros((4, 1)), np.array([1, 1, 0, 0])
    worlds = (X[:-1], y[:-1]), (X, y)
    model = TDILClassifier(**WEIGHTS, **SHARP).set_params(
        fit_intercept=True, loss="huberized_hinge"
    )
    assert audit(model, coefficients, worlds) <= model.epsilon
    solve = _feature_space.solve_primal
    stretch = np.array([1.0, 100.0])

    def solve_unpenalised(rows, *settings, **tilt):
        features = np.vstack([block for _, block in rows.blocks()]) * stretch
        loose = FeatureRows(lambda block: block, features, radius=1e3)
        return solve(loose, *settings, **tilt) * stretch[:, None]

    monkeypatch.setattr(_feature_space, "solve_primal", solve_unpenalised)
    assert audit(model, coefficients, worlds) > model.epsilon


def test_catches_squared_loss_with_too_small_a_slope(noise):
    """Many short rows drive the weight far beyond the labels; a row of length R pulls it back."""
    noise(1.0)
    X, y = np.append(np.full(2000, 0.002), 1.0)[:, None], np.append(np.zeros(2000), 1.0)
    worlds = (X[:-1], y[:-1]), (X, y)
    model = TDILRegressor(loss="squared", y_bounds=(0, 1), regularization=0.4, **SHARP)
    model.set_params(mechanism="functional")
    assert audit(model, coefficients, worlds, 3000) <= model.epsilon

    class OfScoresInBounds(Squared):
        """The slope is at most 1 where scores, of labels between -1 and 1, are no larger than 0."""

        lipschitz = 1.0
        value, gradient, hessian_root = (
            lambda self, *given, right=right: right(Squared(), *given)
            for right in (Squared.value, Squared.gradient, Squared.hessian_root)
        )

    model.set_params(loss=OfScoresInBounds())
    assert audit(model, coefficients, worlds, 3000) > model.epsilon


# ------------------------------------------------------------------------------------- neighbours


@ADJACENCIES
@pytest.mark.parametrize("loss", ["hinge", "huberized_hinge"])
@pytest.mark.parametrize(
    ("model", "radius"),
    [
        (TDILClassifier(norm_bound=3), 3),
        (TDILClassifier(fit_intercept=True, classes=["no", "yes"]), math.sqrt(2)),
        (TDILClassifier(feature_map=RBFSampler(n_components=30)), 1),
        (PINPClassifier(gamma=1.0), 1),
        (PINPClassifier(kernel="poly", gamma=0.5, norm_bound=2, mechanism="svt"), 3**1.5),
        (PINPClassifier(gamma=1.0, kernel="laplacian", fit_intercept=True), math.sqrt(2)),
        (PINPClassifier(kernel="cosine"), 1),
        (PINPClassifier(gamma=1.0, kernel="chi2"), 1),
        (TDDLClassifier(kernel=linear, norm_bound=2), 2),
    ],
    ids=named,
)
def test_neighbours_reach_the_sensitivity(model, radius, loss, adjacency):
    model = clone(model).set_params(loss=loss, adjacency=adjacency, random_state=0)
    model.set_params(regularization=4.0 * radius**2)
    rows = {"add_remove": 1, "replace_one": 2}[adjacency]
    for n_samples in (20, 7):
        worlds = worst_case_neighbours(model, n_samples=n_samples, n_features=3)
        assert [len(X) for X, _ in worlds] == [n_samples, n_samples + 2 - rows]
        public = {"X_public": worlds[0][0][:2]} if isinstance(model, TDDLClassifier) else {}
        one, other = (
            Released(model, *data, **public).solve(tolerance=1e-5 / radius) for data in worlds
        )
        reached = distance(one, other) / (rows * radius / model.regularization)
        assert 0.98 < reached < 1.001


def distance(one, other):
    """Return how far two functions are from each other in the norm of their space."""
    if one.points is None:
        return np.linalg.norm(one.coefficients - other.coefficients)
    points = np.vstack([one.points, other.points])
    weights = np.vstack([one.coefficients, -other.coefficients])
    return math.sqrt(np.vdot(weights, one.space.gram(points, points) @ weights))


def test_neighbours_of_a_regressor():
    model = TDILRegressor(y_bounds=(10, 20), loss=Huber(0.5), regularization=4.0)
    (X, y), (X_neighbour, y_neighbour) = worst_case_neighbours(model.set_params(random_state=0))
    np.testing.assert_array_equal(y, [10, 20] * 10)
    np.testing.assert_array_equal(y_neighbour, [10, 20] * 10 + [10])
    worlds = (X, y), (X_neighbour, y_neighbour)
    one, other = (Released(model, *data).solve(tolerance=1e-9) for data in worlds)
    assert distance(one, other) == pytest.approx(0.5 / 4.0, rel=1e-6)


def test_neighbours_are_rows():
    with pytest.raises(ValueError, match="precomputed"):
        worst_case_neighbours(TDDLClassifier(kernel="precomputed", random_state=0))
    with pytest.raises(ValueError, match="random_state"):
        worst_case_neighbours(PINPClassifier(gamma=1.0))
