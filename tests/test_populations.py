"""Intervals of a population of persons, of whom the table has several rows each.

The reference is the standard error that survey statistics gives a mean over clusters: rows of a
person are added up, and only persons are independent.
"""

import numpy as np
import pandas as pd
import pytest

from skdpsumm.moments import M2MEstimator, M2MRegressor
from skdpsumm.moments.plausible import _plausible
from skdpsumm.schema import Categorical, Numeric
from skdpsumm.sketches import HistogramSketcher, PrivateSketch, RFFSketcher

Z95 = 1.959964
MORE_TABLES = pytest.mark.parametrize("n_tables", [800], indirect=True)  # tell it to 2.5 per cent
SCHEMA = {"mood": Numeric(1, 5, step=1), "sleep": Numeric(4, 10, step=1, missing=True)}
SCHEMA["town"] = Categorical(["east", "west"])
N_PERSONS = 400


@pytest.fixture(autouse=True, params=[500])  # which tell a standard deviation to 3.2 per cent
def n_tables(monkeypatch, request):
    monkeypatch.setattr(_plausible, "N_TABLES", request.param)


def diary(rows_of_each, *, alike, seed=0):
    """Return a table of days, and whose each is; `alike`: all days of a person are the same."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(N_PERSONS), rows_of_each)
    drawn = np.searchsorted(person, person) if alike else np.arange(len(person))
    habit = rng.normal(0, 1, N_PERSONS)[person]
    mood = np.clip(np.round(3 + habit + rng.normal(0, 0.7, len(person))[drawn]), 1, 5)
    sleep = np.clip(np.round(7 + 0.5 * (mood - 3) + rng.normal(size=len(person))[drawn]), 4, 10)
    sleep[(rng.random(len(person)) < 0.2)[drawn]] = np.nan
    town = rng.choice(["east", "west"], N_PERSONS)[person]
    return pd.DataFrame({"mood": mood, "sleep": sleep, "town": town}), person


def released(table, person, limit):
    """Return a sketch without noise that counts all columns together."""
    sketcher = HistogramSketcher(SCHEMA, marginals=[list(SCHEMA)], n_bins=7, epsilon=np.inf)
    sketcher.set_params(max_rows_per_group=limit)
    return sketcher.fit(table, groups=person).sketch_


def sampling(answer):
    """Return the part of the interval of the population that is the sampling error."""
    ends = (answer[...].interval(covers=covers) for covers in ("table", "population"))
    table, population = (np.diff(one)[..., 0] / (2 * Z95) for one in ends)
    return np.sqrt(population**2 - table**2)


def clustered(values, weights, person):
    """Return the standard error of a weighted mean of rows, NaN left out, by persons."""
    weights = np.where(np.isnan(values), 0.0, weights)
    centred = np.nan_to_num(values - np.nansum(weights * values) / weights.sum())
    return np.sqrt(np.sum(np.bincount(person, weights * centred) ** 2)) / weights.sum()


QUESTIONS = {
    "mood": (lambda m2m: m2m.mean()["mood"], lambda t: t["mood"]),
    "sleep, if it is told": (lambda m2m: m2m.mean()["sleep"], lambda t: t["sleep"]),
    "east": (
        lambda m: m.mean(by="town")["east", "mood"],
        lambda t: t["mood"].where(t["town"] == "east"),
    ),
    "share of the glad in the east": (
        lambda m2m: m2m.table(["town", "mood"], normalize="index")["east", "5"],
        lambda t: (t["mood"] == 5).astype(float).where(t["town"] == "east"),
    ),
    "good mood": (lambda m: m.estimate(lambda t: t["mood"] >= 4), lambda t: 1.0 * (t["mood"] >= 4)),
}


def asked(table, person, limit):
    """Yield what an interval allows for in each question, and what a cluster sample would."""
    m2m = M2MEstimator.from_sketch(released(table, person, limit))
    weights = 1 / np.bincount(person)[person] if limit == "average" else np.ones(len(person))
    for ask, values in QUESTIONS.values():
        yield sampling(ask(m2m)), clustered(values(table).to_numpy(float), weights, person)


@pytest.mark.parametrize("limit", [1, 4, "average"])
def test_persons_whose_rows_are_alike_have_the_error_of_a_cluster_sample(limit):
    table, person = diary(limit if limit != "average" else 3, alike=True)
    for found, truth in asked(table, person, limit):
        assert found == pytest.approx(truth, rel=0.15)


@pytest.mark.parametrize("limit", [6, "average"])
def test_no_persons_have_a_larger_error_than_the_interval_allows_for(limit):
    table, person = diary(np.random.default_rng(0).integers(1, 7, N_PERSONS), alike=False)
    for found, truth in asked(table, person, limit):
        assert truth < 1.05 * found < 3 * truth


@MORE_TABLES
def test_counts_and_medians_have_it_too():
    table, person = diary(4, alike=True)
    sketches = (released(table, person, limit) for limit in (4, "average"))
    days, people = map(M2MEstimator.from_sketch, sketches)
    sad = lambda rows: rows["mood"] <= 2  # noqa: E731
    assert sampling(days.count(sad)) == pytest.approx(4 * sampling(people.count(sad)), rel=0.1)
    median = days.quantile("mood", 0.5)
    assert np.diff(median.interval(covers="population")) >= np.diff(median.interval())


@MORE_TABLES
def test_coefficients_have_it_too():
    table, person = diary(4, alike=True)
    days, people = (
        M2MRegressor.from_sketch(released(table, person, limit), target="mood").coefficients(
            ["town"]
        )
        for limit in (4, "average")
    )
    np.testing.assert_allclose(sampling(days), sampling(people), rtol=0.1)
    east = table["mood"].where(table["town"] == "east").to_numpy(float)
    assert sampling(days)[0] == pytest.approx(clustered(east, np.ones(len(east)), person), rel=0.15)


@MORE_TABLES
def test_a_sum_of_sketches_takes_the_most_rows_of_all(tmp_path):
    few, many = (released(*diary(limit, alike=True), limit) for limit in (2, 5))
    (few + many).save(tmp_path / "both.sketch")
    both = PrivateSketch.load(tmp_path / "both.sketch")
    mean = M2MEstimator.from_sketch(both).mean()["mood"]
    table = pd.concat([diary(limit, alike=True)[0] for limit in (2, 5)])
    plain = table["mood"].std(ddof=0) / np.sqrt(len(table))
    assert sampling(mean) == pytest.approx(np.sqrt(5) * plain, rel=0.08)


def test_answers_from_points_have_it_too():
    table, person = diary(4, alike=True)
    numbers = table[["mood"]]
    by_limit = []
    for limit in (4, "average"):
        unit = {"max_rows_per_group": limit, "random_state": 0}
        sketcher = RFFSketcher(SCHEMA["mood"], n_components=50, epsilon=np.inf, **unit)
        m2m = M2MEstimator(release=sketcher, n_synthetic=2_000, random_state=0)
        by_limit.append(sampling(m2m.fit(numbers, groups=person).mean()[0]))
    truth = clustered(table["mood"].to_numpy(), np.ones(len(table)), person)
    np.testing.assert_allclose(by_limit, truth, rtol=0.25)  # of 100 tables
