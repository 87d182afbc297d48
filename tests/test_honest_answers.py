"""Answers that would be off by more than their error bars say so."""

import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsumm import (
    AnswerWarning,
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    M2MRegressor,
    Numeric,
    PrivacyLedger,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"),
]

N, N_COLUMNS = 20_000, 8
HOURS = Numeric(1, 99, step=1)
SCHEMA = {"sex": ["f", "m"], "hours": HOURS} | {f"x{j}": (0, 1) for j in range(N_COLUMNS)}
RAW = {"n_synthetic": 4000, "random_state": 0}


@pytest.fixture(scope="module")
def people():
    """Women work fewer hours; other columns say nothing."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], N)
    hours = rng.normal(np.where(sex == "f", 34, 42), 6).round().clip(1, 99)
    others = {f"x{j}": rng.random(N) for j in range(N_COLUMNS)}
    return pd.DataFrame({"sex": sex, "hours": hours, **others})


@pytest.fixture(scope="module")
def default(people):
    return M2MEstimator(schema=SCHEMA, n_synthetic=20_000, random_state=0).fit(people)


@pytest.fixture(scope="module")
def pairs(people):
    groups = [["sex", "hours"], *([f"x{j}"] for j in range(N_COLUMNS))]
    sketcher = HistogramSketcher(marginals=groups, n_bins=100, noise_seed=0, schema=SCHEMA)
    return M2MEstimator(sketcher, n_synthetic=20_000, random_state=0).fit(people)


def both(rows):
    return (rows["sex"] == "f") & (rows["hours"] > 40)


def said(ask):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = ask()
    return answer, [str(w.message) for w in caught if issubclass(w.category, AnswerWarning)]


def z(answer, truth):
    return abs(float(answer) - truth) / float(answer.noise_std_error)


def test_two_conditions_that_no_histogram_holds_together(people, default, pairs):
    truth = both(people).sum()
    answer, (message,) = said(lambda: default.count(both))
    assert z(answer, truth) > 3  # about 7.5, give or take 1; an honest answer has 1
    assert "explains only" in message
    assert "marginals" in message
    answer, messages = said(lambda: pairs.count(both))
    assert z(answer, truth) < 5
    assert not messages


def test_one_condition_on_an_edge_is_not_warned_of(people, default, pairs):
    for m2m in (default, pairs):
        answer, messages = said(lambda m2m=m2m: m2m.count(lambda rows: rows["hours"] > 40))
        assert z(answer, (people["hours"] > 40).sum()) < 5
        assert not messages


def test_a_threshold_inside_a_popular_bin(people):
    sketcher = HistogramSketcher(schema=(1, 99), n_bins=8, noise_seed=0)
    m2m = M2MEstimator(sketcher, **RAW).fit(people[["hours"]])
    answer, (message,) = said(lambda: m2m.count(lambda rows: rows["hours"] > 40))
    assert z(answer, (people["hours"] > 40).sum()) > 8
    assert "n_bins" in message
    _, (message,) = said(lambda: m2m.cdf("hours", [13.25, 40.0]))
    assert "hours <= 40" in message
    assert "13.25" not in message  # an edge


@pytest.mark.parametrize(
    ("ask", "about"),
    [
        (lambda m2m: m2m.variance(), "the variance of 'hours'"),
        (lambda m2m: m2m.quantile("hours", [0.3]), "the quantile hours 0.3"),
        (lambda m2m: m2m.histogram("hours", [20.0, 37.0, 70.0]), "hours in [20, 37)"),
    ],
)
def test_what_bins_are_too_wide_for(people, ask, about):
    table = people[["hours"]]
    sketcher = HistogramSketcher(schema=(1, 99), n_bins=5, noise_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)  # of the coarse bin
        coarse = M2MEstimator(sketcher, **RAW).fit(table)
    _, (message,) = said(lambda: ask(coarse))
    assert about in message
    sketcher = HistogramSketcher(schema=HOURS, n_bins=99, noise_seed=0)
    _, messages = said(lambda: ask(M2MEstimator(sketcher, **RAW).fit(table)))
    assert not messages


def test_pictures_are_not_judged_point_by_point(people):
    sketcher = HistogramSketcher(schema=(1, 99), n_bins=8, noise_seed=0)
    m2m = M2MEstimator(sketcher, **RAW).fit(people[["hours"]])
    for n_parts, expected in ((16, 1), (17, 0)):
        levels = np.linspace(0.05, 0.95, n_parts)
        assert len(said(partial(m2m.histogram, "hours", n_parts))[1]) == expected
        assert len(said(partial(m2m.quantile, "hours", levels))[1]) == expected


@pytest.mark.parametrize("ask", ["covariance", "correlation"])
def test_pairs_that_no_feature_tells(default, ask):
    _, (message,) = said(getattr(default, ask))
    assert re.search(r"how 'hours' and 'x\d' go together", message)


def test_more_outputs_than_are_looked_at(default):
    _, messages = said(lambda: default.count(lambda rows: np.repeat(both(rows)[:, None], 200, 1)))
    assert len(messages) == 1


def test_count_refuses_numbers(default):
    with pytest.raises(ValueError, match=r"count takes a condition.*estimate"):
        default.count(lambda rows: rows["hours"])
    halves, _ = said(lambda: default.count(lambda rows: (rows["hours"] > 40) / 2))
    whole, _ = said(lambda: default.count(lambda rows: rows["hours"] > 40))
    assert float(halves) == pytest.approx(float(whole) / 2)


def test_a_question_that_holds_nowhere_is_bounded_by_all_rows(default):
    answer, messages = said(lambda: default.count(lambda rows: rows["sex"] == "F"))
    assert "nowhere" in messages[0]
    n = default.sketch_.n_samples
    low, high = answer.interval(0.95)
    assert low == 0
    assert n <= high <= n + 3 * default.sketch_.n_noise_std


def test_models_may_scale_what_they_learn_from():
    """Raw units of very different size, with which the default converges."""
    rng = np.random.default_rng(0)
    X = rng.random((5000, 2)) * [1, 1e5]
    y = X[:, 0] + X[:, 1] / 1e5 > 1
    scaled = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression()))
    for estimator in (None, scaled):
        model = M2MClassifier(estimator=estimator, schema=[(0, 1), (0, 1e5)], **RAW)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            assert model.fit(X, y).score(X, y) > 0.9
        assert model.predict_proba(X[:3]).shape == (3, 2)


@pytest.mark.parametrize("model", [M2MEstimator(), M2MClassifier(), M2MRegressor(y_bounds=(0, 1))])
def test_what_a_release_shows_is_told_when_all_is_set(model):
    """So a warning that is made an error leaves what was paid for, ready to be used."""
    rng = np.random.default_rng(0)
    X = rng.random((100, 2))
    y = (X[:, 0] > 0.5).astype(int)
    crowded = np.where(rng.random((100, 2)) < 0.9, 0.0, X)
    bins = HistogramSketcher(n_bins=4, epsilon=1000.0 if isinstance(model, M2MEstimator) else 1e-4)
    ledger = PrivacyLedger(epsilon=1e4, delta=1e-3)
    model = clone(model).set_params(
        sketcher=bins.set_params(ledger=ledger), schema=(0, 1), n_synthetic=1000, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", AnswerWarning)
        with pytest.raises(AnswerWarning):
            model.fit(crowded, y)
    assert len(ledger.entries()) == 1
    assert model.privacy_ is model.sketch_.privacy
    asked = model.predict(X) if hasattr(model, "estimator_") else np.asarray(model.mean())
    assert np.all(np.isfinite(asked))
