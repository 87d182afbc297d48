"""Every release of the library, audited at its default parameters; few trials, so that it is fast.

Each bound must stay below the claim at confidence 1 - 1e-9, and exceed it with an eighth of the
noise; with a 64th (a 256th of 1,000 numbers) where a row's Laplace noise is spread over so many
numbers that none shows much, for adaptive sketches, which take longer, and for learners, whose rows
tell less at their default Lambda. "svt" and "threshold" for their default 1,000 queries are beyond
any audit; with fewer, and for factors of two, see `test_learner_noise`, `test_release_audits` and
`test_summary_noise`. Thorough audits are in `tests/long`.
"""

import numpy as np
import pytest
from catalogue import DEFAULT_LEARNERS, DEFAULT_SKETCHES
from paper_protocols import AskAll
from releases import (
    AdaptiveAgain,
    FeedbackAgain,
    Released,
    SketchAgain,
    TargetAgain,
    adaptive_ratio,
    likelihood_ratio,
    seeded_noise,
)
from sklearn.base import clone

from skdpsumm import AdaptiveSketcher, TDDLClassifier, TDDLRegressor, audit_epsilon
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.audit._neighbours import sketcher_of
from skdpsumm.privacy import GaussianDP

# Tests of other things set these off, on tables as small as they are.
pytestmark = [
    pytest.mark.statistical,
    pytest.mark.usefixtures("quick_fits"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
]

EPSILON, DELTA = 1.0, 1e-6
PURE = {"delta": 0.0, "adjacency": "replace_one"}


@pytest.fixture
def noise(monkeypatch):
    return seeded_noise(monkeypatch)


def refuted(releases, mechanism, delta, statistic="auto", n_trials=500):
    result = audit_epsilon(
        lambda release: release(),
        *releases,
        delta=delta,
        family="gaussian" if isinstance(mechanism, GaussianDP) else None,
        statistic=statistic,
        n_trials=n_trials,
        confidence=1 - 1e-9,
        random_state=0,
    )
    return result.refutes(EPSILON)


def public(estimator, **parameters):
    """Return a copy, with public randomness of a seed."""
    return clone(estimator).set_params(random_state=0, **parameters)


@pytest.mark.parametrize("parameters", [{}, PURE], ids=["default", "pure-replace_one"])
@pytest.mark.parametrize("name", DEFAULT_SKETCHES)
def test_sketches(name, parameters, noise):
    """Streamed in three blocks, after each of which the exact sums are still in memory."""
    sketcher, n_columns = sketcher_of(public(DEFAULT_SKETCHES[name]), 1)
    sketcher.set_params(**parameters)
    if isinstance(sketcher, AdaptiveSketcher):
        _test_adaptive(sketcher, n_columns, noise)
        return
    pair = worst_case_neighbours(sketcher, n_features=n_columns)
    releases = [SketchAgain(sketcher, X, n_blocks=3) for X in pair]
    statistic = likelihood_ratio(releases, pure=sketcher.delta == 0)
    mechanism = releases[0].pending.privacy.mechanism
    part = 8 if sketcher.delta else 64
    for factor, caught in ((1, False), (1 / part, True)):
        noise(factor)
        assert refuted(releases, mechanism, sketcher.delta, statistic) is caught


def _test_adaptive(sketcher, n_columns, noise):
    """Counts of bins that are found anew in each release; choices are in `test_adaptive_audit`.

    Of so many rows that some bins are found.
    """
    pair = worst_case_neighbours(sketcher, n_features=n_columns, n_samples=2000)
    releases = [AdaptiveAgain(sketcher, X) for X in pair]
    told = adaptive_ratio(releases, pure=sketcher.delta == 0)
    shown = [lambda one=one: told(one()) for one in releases]
    mechanism = releases[0].budget().mechanism
    for factor, caught in ((1, False), (1 / 64, True)):
        noise(factor)
        assert refuted(shown, mechanism, sketcher.delta, n_trials=220) is caught


@pytest.mark.parametrize("parameters", [{}, PURE | {"n_target": 20}], ids=["default", "pure"])
def test_target_of_a_summary(parameters, noise):
    """What "propose" and AskAll broadcast of the target."""
    near, far = np.zeros((20, 1)), np.full((1, 1), 1e3)
    other = np.vstack([near[:-1] if parameters else near, far])
    releases = [TargetAgain(X, **parameters) for X in (near, other)]
    pure = bool(parameters)
    statistic = likelihood_ratio(releases, pure=False)
    for factor, caught in ((1, False), (1 / (256 if pure else 8), True)):
        noise(factor)
        target = releases[0].target
        assert refuted(releases, target.mechanism, 0.0 if pure else DELTA, statistic) is caught


@pytest.mark.parametrize("protocol", [AskAll()])
def test_feedback_of_a_summary(protocol, noise):
    """All rounds of it. With Laplace noise on so many numbers, an audit sees nothing."""
    releases = [FeedbackAgain(rows, protocol=protocol) for rows in (0, 1)]
    statistic = likelihood_ratio(releases, pure=False)
    projected = [lambda one=one: statistic(one()) for one in releases]
    for factor, caught in ((1, False), (1 / 16, True)):
        noise(factor)
        assert refuted(projected, releases[0].noise.mechanism, DELTA) is caught


def published(release, row):
    return np.ravel(release()._scores(row))


@pytest.mark.one_in(2)  # each mechanism once
@pytest.mark.parametrize("name", DEFAULT_LEARNERS)
def test_learners(name, noise):
    _test_learner(public(DEFAULT_LEARNERS[name]), noise)


@pytest.mark.parametrize("name", ["tdil functional", "tdil objective"])
def test_learners_with_a_pure_guarantee(name, noise):
    """Scores that never overlap refute little more than epsilon in half as many trials."""
    _test_learner(public(DEFAULT_LEARNERS[name], **PURE), noise, n_trials=320)


def _test_learner(model, noise, n_trials=None):
    """Audit the score of the row that the pair is made of.

    In 100 trials, the fewest that an audit takes, scores that do not overlap refute 2.6 or more by
    Gaussian noise, and 0.6 by any other; in 160, 1.1.
    """
    worlds = worst_case_neighbours(model)
    row = worlds[0][0][:1]
    public = {"X_public": row} if isinstance(model, TDDLClassifier | TDDLRegressor) else {}
    releases = [Released(model, *data, **public) for data in worlds]
    shown = [lambda one=one: published(one, row) for one in releases]
    mechanism = releases[0].model.privacy_.mechanism
    n_trials = n_trials or (100 if isinstance(mechanism, GaussianDP) else 160)
    for factor, caught in ((1, False), (1 / 64, True)):
        noise(factor)
        assert refuted(shown, mechanism, model.delta, n_trials=n_trials) is caught
