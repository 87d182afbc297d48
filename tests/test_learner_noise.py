"""Noise of kernel learners that the wire of `kit` does not see, in three arms: 0.7, 1 and 1.3.

These are tests of "svt" and "threshold", objective perturbation, the choice of a point in a ball,
and noise of a random length. They draw from seeded stand-ins of the noise's sources, so nothing is
left to chance; the sources themselves are tested in `test_noise`. Expected scales are worked out
here, from the budget, L, R, Lambda and the solver's tolerance. Audits, at confidence 1 - 1e-9, each
find their mutant with the trials that spare the sound release.
"""

import math

import numpy as np
import pytest
from releases import LEARNERS, Released, seeded_noise
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import brentq
from scipy.stats import gamma, kstest, laplace, norm
from sklearn.base import BaseEstimator, clone

from skdpsumm import PINPClassifier, PINPRegressor, TDILClassifier, TDILRegressor, audit_epsilon
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.learners import ExponentialMechanism, HuberizedHinge, NoisyThreshold, SparseVector
from skdpsumm.learners.erm._losses import EpsilonInsensitive, Huber, Logistic
from skdpsumm.learners.erm._problem import FeatureSpace, Minimizer, Terms
from skdpsumm.learners.mechanisms import _objective, _paper
from skdpsumm.privacy._mechanisms import gdp_delta, zcdp_rho
from skdpsumm.privacy._noise import radial_noise
from skdpsumm.privacy._threshold import threshold_ratio

WRONG_ARMS = [(0.7, False), (1.3, False)]
ARMS = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), *WRONG_ARMS])
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
PURE = {"epsilon": 1.0, "delta": 0.0}
# A row, three rows of a group, or a group that counts once.
ADDED, REPLACED = "add_remove", "replace_one"
UNITS = [(GAUSSIAN, ADDED, None), (GAUSSIAN, ADDED, 3), (PURE, REPLACED, "average")]
# The right noise of all units; the wrong one is told from it with one of them.
UNITS_AND_ARMS = pytest.mark.parametrize(
    ("budget", "adjacency", "limit", "factor", "accepted"),
    [(*unit, 1.0, True) for unit in UNITS] + [(*UNITS[-1], *arm) for arm in WRONG_ARMS],
)


pytestmark = [
    pytest.mark.statistical,
    pytest.mark.usefixtures("quick_fits"),
    pytest.mark.filterwarnings("ignore:If you scale X in a Pipeline"),
    pytest.mark.filterwarnings("ignore:Ask the fitted PINP learner"),
]


@pytest.fixture
def noise(monkeypatch):
    """Return a function that puts seeded sources, off by a factor, in place of all noise."""
    return seeded_noise(monkeypatch)


# ------------------------------------------------------------------------- scales, from the theory


def sensitivity(adjacency, lipschitz, radius, penalty, tolerance=1e-3, kernel=False, limit=None):
    """Delta_w: the solver's tolerance on both sides, with a kernel and a smooth loss twice."""
    rows = {"add_remove": 1, "replace_one": 2}[adjacency] * (limit if limit == 3 else 1)
    return lipschitz * radius / penalty * (rows + (4 if kernel else 2) * tolerance)


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


def groups_for(limit):
    """Return the groups of the six rows of a table, where there are any."""
    return {} if limit is None else {"groups": np.array([0, 0, 0, 0, 1, 2])}


SENSITIVITIES = [
    (TDILClassifier(loss="hinge", norm_bound=3), 1, 3),
    (TDILClassifier(loss="logistic", classes=[0, 1, 2]), math.sqrt(2), 1),
    (TDILClassifier(classes=[0, 1, 2]), math.sqrt(2), 1),
    (TDILRegressor(y_bounds=(0, 10), loss=Huber(0.3)), 0.3, 1),
    (TDILRegressor(y_bounds=(0, 10), loss="squared"), 2, 1),
    (PINPRegressor(gamma=1.0, y_bounds=(0, 10), loss=EpsilonInsensitive(0.2, 1e-3)), 1, 1),
    (PINPRegressor(kernel="poly", norm_bound=2, y_bounds=(0, 9), loss=Huber(0.5)), 0.5, 5**1.5),
]


@pytest.mark.parametrize(("model", "lipschitz", "radius"), SENSITIVITIES, ids=named)
def test_sensitivity(model, lipschitz, radius):
    """Of three replaced rows; other units, and neighbours that come so far, are in `test_kit`."""
    model = clone(model).set_params(regularization=7.0, adjacency="replace_one")
    model.set_params(mechanism="functional", max_rows_per_group=3).fit(*table(2), **groups_for(3))
    # The span of public points in a built-in kernel's space is one of explicit features.
    kernel = isinstance(model, PINPClassifier | PINPRegressor)
    expected = sensitivity("replace_one", lipschitz, radius, 7.0, kernel=kernel, limit=3)
    # What float64 adds to that is bounded, and tested, in `test_rounding`.
    assert expected < model.sensitivity_ < expected * (1 + (1e-5 if kernel else 1e-11))


Z = np.random.default_rng(2).uniform(-1, 1, (5, 2))


@ARMS
def test_noise_of_a_random_length(factor, accepted):
    """The length has the Gamma law of as many dimensions; the direction is uniform."""
    rng = np.random.default_rng(0)
    drawn = np.array([radial_noise((3, 2), 0.5 * factor, rng).ravel() for _ in range(2000)])
    length = np.linalg.norm(drawn, axis=1)
    assert has_law(length, gamma(6, scale=0.5)) == accepted
    direction = drawn / length[:, None]
    assert np.abs(direction.T @ direction / 2000 - np.eye(6) / 6).max() < 0.03


# ---- Algorithm 1


def updates(mechanism, budget, adjacency="add_remove", limit=None):
    settings = {"mechanism": mechanism(n_updates=3), "adjacency": adjacency}
    model = PINPClassifier(gamma=1.0, regularization=7.0, **settings, **budget)
    model.set_params(max_rows_per_group=limit)
    return Released(model, *table(2, 3), **groups_for(limit))


def score_and_parts(budget, n_updates, adjacency="add_remove", limit=None):
    """Return the sensitivity of a score, and e1 and e2 of an epoch of "svt"."""
    delta = sensitivity(adjacency, math.sqrt(2), 1, 7.0, kernel=True, limit=limit)
    if budget["delta"] == 0:
        return delta, 0.8 * budget["epsilon"] / n_updates, 0.2 * budget["epsilon"] / n_updates
    rho = zcdp_rho(**budget)
    return delta, *(math.sqrt(2 * part * rho / n_updates) for part in (0.8, 0.2))


def fresh_answers(release, threshold):
    """Return the noise of 1,000 answers of three scores, all of which are above a threshold."""
    release.plan.sigma = threshold
    exact = release.exact.scores(Z[:1])
    asked = [release().query(Z[:1]) for _ in range(1000)]
    assert all(answer.fresh.all() for answer in asked)
    return [answer.scores - exact for answer in asked]


def answered(plan, below, n=10_000):
    """Return how many of n queries so far below the threshold have fresh answers, and n."""
    exact, public = np.array([7 - round((plan.sigma - below) / plan.grid)]), np.array([7])
    return sum(plan.answer(exact, public) is not None for _ in range(n)), n


@UNITS_AND_ARMS
def test_svt(factor, accepted, budget, adjacency, limit, noise):
    """Answers have the scale Delta / e2, of three scores at once sqrt 3 times that for pure DP.

    The threshold has noise of scale 2 Delta / e1, a query twice that.
    """
    noise(factor)
    release = updates(SparseVector, budget, adjacency, limit)
    plan, (delta, e1, e2) = release.plan, score_and_parts(budget, 3, adjacency, limit)
    assert plan.sigma == pytest.approx(4 * delta / e1 * math.log(2 * 1000 / 0.05), rel=1e-5)
    thresholds = []
    for _ in range(4000):
        plan.start_epoch()
        thresholds.append(plan._threshold * plan.grid - plan.sigma)
    assert has_law(thresholds, laplace(0, 2 * delta / e1)) == accepted
    plan._threshold = round(plan.sigma / plan.grid)
    assert has_frequency(*answered(plan, 6 * delta / e1), math.exp(-1.5) / 2) == accepted
    law = laplace(0, delta / e2 * (1 if budget["delta"] else math.sqrt(3)))
    assert has_law(fresh_answers(release, -1e3), law) == accepted


@pytest.mark.parametrize(
    ("adjacency", "limit", "factor", "accepted"),
    [
        ("add_remove", None, 1.0, True),
        ("replace_one", 3, 1.0, True),
        ("add_remove", "average", 1.0, True),
        *(("add_remove", None, *arm) for arm in WRONG_ARMS),
    ],
)
def test_the_threshold_test(factor, accepted, adjacency, limit, noise):
    """Laplace noise of scale Delta over the ratio that the budget allows for, in tests, too."""
    noise(factor)
    release = updates(NoisyThreshold, GAUSSIAN, adjacency, limit)
    delta = sensitivity(adjacency, math.sqrt(2), 1, 7.0, kernel=True, limit=limit)
    scale = delta / threshold_ratio(1.0, 1e-6, 3, 3)
    assert release.plan.sigma == pytest.approx(4 * scale * math.log(2 * 1000 / 0.05), rel=1e-5)
    assert has_frequency(*answered(release.plan, 1.5 * scale), math.exp(-1.5) / 2) == accepted
    assert has_law(fresh_answers(release, 0.0), laplace(0, scale)) == accepted


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
        found = (gdp_delta(unit * math.sqrt(x**2 + 1e-3), epsilon - shift) for x in lengths)
        return sum(found) - delta

    return 1 / brentq(excess, 1e-6, 10.0)


OBJECTIVES = {
    "huberized": (TDILClassifier(loss=HuberizedHinge(0.5)), 1.0, 1.0),
    "soft hinge": (TDILClassifier(), 1.0, 0.25),
    "logistic": (TDILClassifier(loss="logistic"), 1.0, 0.25),
    "huber": (TDILRegressor(y_bounds=(0, 1), loss=Huber(0.5)), 0.5, 1.0),
    "insensitive": (TDILRegressor(y_bounds=(0, 1), loss=EpsilonInsensitive(0.3, 0.25)), 1.0, 2.0),
}


CLAIMS = [(GAUSSIAN, "add_remove"), (GAUSSIAN, "replace_one"), (PURE, "replace_one")]


@pytest.mark.parametrize(
    ("name", "budget", "adjacency", "factor", "accepted"),
    [(name, *claim, 1.0, True) for name in OBJECTIVES for claim in CLAIMS]
    + [("logistic", *claim, *arm) for claim in CLAIMS[1:] for arm in WRONG_ARMS],
)
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
    plan = _objective.ObjectivePlan(FeatureSpace(None, 5000, 1.0), terms)
    roundings = plan.noise_scale / terms.regularization / 2, plan.output_scale / 2
    distance = plan._tolerance + 2.0**-24 * math.sqrt(5000) * sum(roundings)
    assert distance <= plan.output_scale * math.sqrt(1e-3) / plan.noise_scale / 2


# ---- Algorithm 3


def asking(budget, n_rounds=1, candidates=None, **settings):
    """Return a learner of rows that are all alike, so that scores differ much."""
    mechanism = ExponentialMechanism(n_rounds=n_rounds, candidates=candidates)
    model = TDILClassifier(mechanism=mechanism, classes=[0, 1], **budget)
    model = model.set_params(regularization=7.0, **settings)
    return Released(model, np.repeat([[0.6, -0.4, 0.2]], 12, axis=0), np.ones(12, dtype=int))


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
    draw = _paper.sample_ball
    monkeypatch.setattr(_paper, "sample_ball", lambda v, k, rng: draw(v, k / factor, rng))
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
    releases = [Released(model, *data) for data in worlds]
    result = audit_epsilon(
        lambda release: output(release(), row),
        *releases,
        delta=model.delta,
        n_trials=n_trials,
        confidence=1 - 1e-9,
        random_state=0,
    )
    return result.lower_bound


@pytest.mark.simulated(5)
@pytest.mark.parametrize("name", LEARNERS)
def test_publishing_again_is_fitting_again(name):
    """The audits' shortcut gives what a fit gives, of the same seed."""
    model, output, worlds, _ = LEARNERS[name]
    X, y = (worlds or worst_case_neighbours(model))[1]
    release = Released(model, X, y)
    expected = output(clone(model).fit(X, y), X[:1])
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
