"""Answers of several releases together: whose noise they share, and whose sampling error.

Noise is the counted part's: a copy and a file are one release, a sum of sketches has the noise of
what was added, and whatever was counted apart has noise of its own.
"""

import copy
import pickle
import warnings
from functools import cache, partial, reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy.stats import binom
from simulated import simulate

from skdpsumm.moments import M2MEstimator
from skdpsumm.schema import Numeric
from skdpsumm.sketches import HistogramSketcher, PrivateSketch, RFFSketcher, SketchUnion

pytestmark = pytest.mark.simulated(0)

SCHEMA = {"a": Numeric(0, 19, step=1), "b": Numeric(0, 19, step=1), "c": ["x", "y", "z"]}
COVERS = ("noise", "table", "population")
# That a right test fails, or that a planted bug is not seen, has such a chance.
BY_CHANCE = 1e-4


def people(seed, n=2000):
    """Return rows of a population whose means are known, of which b goes along with a."""
    rng = np.random.default_rng([7, seed])
    a = rng.integers(0, 20, n)
    b = np.where(rng.random(n) < 0.9, a, rng.integers(0, 20, n))
    return pd.DataFrame({"a": a, "b": b, "c": rng.choice([*"xyz"], n)})


def histograms(**options):
    return HistogramSketcher(n_bins=20, marginals=[["a", "b"], ["c"]], **options)


def both_kinds(**options):
    parts = [HistogramSketcher(n_bins=20), RFFSketcher(n_components=40, gamma=1.0)]
    return SketchUnion(parts, weights=[3, 1], random_state=0, **options)


def released(noise_seed, rows=None, make=histograms, epsilon=1.0):
    rows = people(0) if rows is None else rows
    return simulate(make(schema=SCHEMA, epsilon=epsilon), rows, seed=noise_seed).sketch_


def asked(sketch, random_state=0, **options):
    with warnings.catch_warnings(action="ignore"):
        options = {"n_synthetic": 3000} | options
        return M2MEstimator.from_sketch(sketch, random_state=random_state, **options)


def cells(m2m):
    return m2m.table(["a", "b"])


def saved(sketch, folder):
    sketch.save(folder / "one.sketch")
    return PrivateSketch.load(folder / "one.sketch")


# ------------------------------------------------------------------------------- copies and files


@pytest.mark.parametrize("make", [histograms, both_kinds, partial(RFFSketcher, n_components=40)])
def test_copies_and_files_are_one_release(make, tmp_path):
    sketch = released(0, make=make)
    m2m = asked(sketch)
    pickled = pickle.loads(pickle.dumps(sketch))
    for same in (copy.deepcopy(sketch), pickled, saved(sketch, tmp_path)):
        assert same.key == sketch.key
        none = m2m.mean("a") - asked(same).mean("a")
        for covers in COVERS:
            assert np.ptp(none.interval(0.99, covers=covers)) < 1e-9


@pytest.mark.parametrize("make", [both_kinds, partial(RFFSketcher, n_components=60, gamma=1.0)])
def test_other_points_of_one_release_share_its_noise_and_its_people(make):
    """Also those of a graphical model beside them: a union is one release, however it is read."""
    sketch = released(0, make=make, epsilon=10.0)
    other = {"inference": "graphical"} if make is both_kinds else {"random_state": 5}
    one, again = asked(sketch).mean("a"), asked(sketch, **other).mean("a")
    for covers in ("noise", "population"):
        apart = np.hypot(*(float(each.tables(covers).std()) for each in (one, again)))
        assert (one - again).tables(covers).std() < 0.5 * apart
    people_alone = (one - again).tables("population").std() / one.tables("sampling").std()
    assert people_alone < 0.7  # it would be 1.4


# ------------------------------------------------------------------------------------------- sums


@cache
def sum_of_three():
    parts = [released(k, people(k), epsilon=1.0 + k) for k in range(3)]
    return [*parts, reduce(add, parts)]


def test_a_sum_has_the_noise_of_what_was_added(tmp_path):
    """What is left of a sum without one part is the others' noise, table by table."""
    *parts, whole = sum_of_three()
    *of_parts, of_whole = (cells(asked(sketch)) for sketch in [*parts, saved(whole, tmp_path)])
    for covers in ("noise", "table"):
        left = (of_whole - of_parts[0]).tables(covers)
        others = (of_parts[1] + of_parts[2]).tables(covers)
        np.testing.assert_allclose(left, others, atol=1e-6)


def fields_of(sketch):
    return {name: getattr(sketch, name) for name in PrivateSketch.__dataclass_fields__}


def test_a_sum_of_one_release_twice_does_not_say_which(tmp_path):
    """An owner who sends what another has sent must not stop them all."""
    a, b, _, whole = sum_of_three()
    for other in (whole, a + b, b):
        assert (other + saved(b, tmp_path)).added == ()


@pytest.mark.statistical
def test_differences_between_a_sum_and_a_part_hold_the_truth():
    """Of 2,000 persons at epsilon 0.3 in each; noise that is not shared makes them too wide."""
    held, widths = [], []
    for seed in range(30):
        tables = people(seed), people(1000 + seed)
        parts = [released(seed + 50 * k, one, epsilon=0.3) for k, one in enumerate(tables)]
        whole = parts[0] + parts[1]
        forgets = PrivateSketch(**fields_of(whole) | {"added": ()})  # a planted bug
        of_part = asked(parts[0]).total("a")
        ends = [(asked(one).total("a") - of_part).interval(0.9) for one in (whole, forgets)]
        held.append(ends[0][0] <= tables[1]["a"].sum() <= ends[0][1])
        widths.append(np.ptp(ends, axis=1))
    assert binom.cdf(sum(held), len(held), 0.9) > BY_CHANCE
    shared, apart = np.median(widths, axis=0)
    assert shared < 0.75 * apart


# -------------------------------------------------------------------- one table, and two of them


def two_fits(seed, n=2000):
    rows = people(seed, n)
    return [asked(released(2 * seed + k, rows, epsilon=30.0)) for k in range(2)]


def two_tables(seed, n=2000):
    seeds = (2 * seed, 2 * seed + 1)
    return [asked(released(one, people(one, n), epsilon=30.0)) for one in seeds]


def test_a_population_asks_whether_rows_are_the_same():
    one, other = two_fits(0)
    answer = one.mean("a") - other.mean("b")
    for question in (answer.interval, answer.tables, partial(answer.to_frame, 0.9)):
        refused(r"same_rows=True.*same_rows=False", question, covers="population")
        for same_rows in (True, False):
            question(covers="population", same_rows=same_rows)
    back = other.mean("b") - one.mean("a")
    for same_rows in (True, False):
        ends = [each.interval(covers="population", same_rows=same_rows) for each in (answer, back)]
        np.testing.assert_allclose(ends[0], -ends[1][::-1])
    assert "sampling" not in answer.parts()
    named = (one.mean() - other.mean())["a"]
    refused("same_rows", named.interval, covers="population")


@pytest.mark.statistical
@pytest.mark.parametrize("make", [two_fits, two_tables])
def test_differences_of_populations_hold_the_truth_if_rows_are_said_rightly(make):
    """Means of two columns that go together: of the same rows, most of their errors cancel."""
    pairs = [make(seed) for seed in range(20)]
    differences = [one.mean("a") - other.mean("b") for one, other in pairs]
    # A mean has the noise of 400 cells, and in a tenth of the rows b is another draw than a.
    noise = pairs[0][0].sketch_.noise_std[0] * np.sqrt(400 * 33.25) / 2000
    shares = {False: 2.0, True: 0.2}
    for same_rows, share in shares.items():
        std = np.sqrt(share * 33.25 / 2000 + 2 * noise**2)
        ends = [d.interval(0.9, covers="population", same_rows=same_rows) for d in differences]
        assert np.median(np.ptp(ends, axis=1)) == pytest.approx(2 * 1.645 * std, rel=0.1)
        held = sum(low <= 0 <= high for low, high in ends)
        if make is two_fits or not same_rows:
            assert binom.cdf(held, len(ends), 0.9) > BY_CHANCE
        else:  # what is not shared is missing
            assert held < 0.7 * len(ends)


QUESTIONS = {
    "quantile": lambda m: m.quantile("a", 0.3),
    "condition": lambda m: m.where(lambda rows: rows["b"] > 4).mean("a"),
    "by": lambda m: m.mean("b", by="a", bins=4),
    "uncounted": lambda m: m.mean("b", by="c"),
    "table": lambda m: m.table(["a", "c"], bins={"a": 4}, normalize=True),
    "covariance": lambda m: m.covariance(),
    "statistic": lambda m: m.statistic(lambda rows, w: np.average(rows["a"], weights=w), "a"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_all_questions_can_be_asked_of_other_people(name):
    """Of the same rows, two answers to one question differ by noise alone."""
    one, other = (QUESTIONS[name](each) for each in two_fits(3))
    difference = (one - other)[...]
    same, apart = (difference.tables("population", same_rows=one) for one in (True, False))
    np.testing.assert_allclose(same, difference.tables("table"), atol=1e-9)
    assert np.all(np.abs(apart - same).max(axis=0) > 1e-6)


# ----------------------------------------------------------------------- what cannot be answered


def test_a_sum_and_its_part_share_some_rows():
    a, b, c, whole = (asked(sketch).mean("a") for sketch in sum_of_three())
    for same_rows in (None, True, False):
        with pytest.raises(ValueError, match="is a part of another"):
            (whole - a).interval(covers="population", same_rows=same_rows)
    (a - b + c).interval(covers="population", same_rows=False)


def test_pickled_answers_are_joint_but_have_no_release_to_ask():
    one, other = (each.mean("a") for each in two_fits(0))
    again = [pickle.loads(pickle.dumps(each)) for each in (one, other)]
    none = one - again[0]
    for covers in COVERS:
        assert np.ptp(none.interval(covers=covers)) < 1e-12
    for answer in (again[0] - again[1], pickle.loads(pickle.dumps(one - other))):
        for covers in ("table", "noise"):
            ends = (one - other).interval(covers=covers)
            np.testing.assert_array_equal(answer.interval(covers=covers), ends)
        options = {"covers": "population", "same_rows": False}
        np.testing.assert_array_equal(answer.interval(**options), (one - other).interval(**options))
        refused("before you pickle", answer.interval, covers="population", same_rows=True)


# ------------------------------------------------------------------------------------ whole rows


def test_intervals_of_numbers_of_rows_are_whole_rows():
    m2m = asked(released(0))
    one = m2m.count(lambda rows: rows["a"] < 5)
    for answer in (one, m2m.count(by="c"), m2m.table(["a", "c"], margins=True)):
        for options in ({}, {"level": 0.5}, {"covers": "population"}, {"simultaneous": True}):
            ends = answer[...].interval(**options)
            np.testing.assert_array_equal(ends, np.rint(ends))
            low, high = np.moveaxis(ends, -1, 0)
            assert np.all((low <= np.asarray(answer)) & (np.asarray(answer) <= high))
    shares = m2m.count(lambda rows: np.full(len(rows), 0.3))  # of rows that count in part
    assert np.any(shares.interval() % 1)
    once = histograms(schema=SCHEMA, max_rows_per_group="average")
    averaged = once.fit(people(0), groups=np.arange(2000) // 3).sketch_
    assert np.any(asked(averaged).count(by="c")[...].interval() % 1)
