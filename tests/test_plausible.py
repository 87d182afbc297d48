"""Plausible tables: drawn jointly, signed, with just the noise of the release, the same each time.

A cell of these releases has noise of a known standard deviation, so that most of what is checked
has a formula. With 100 tables a standard deviation is known to 7 per cent, and that of many cells
together much better; everything has fixed seeds.
"""

import pickle
import warnings
from functools import partialmethod
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from answers import holds
from simulated import simulate

from skdpsumm import HistogramSketcher, M2MEstimator, Numeric, PrivateSketch, RFFSketcher
from skdpsumm.moments.inferring._table_model import expected_masses
from skdpsumm.moments.plausible._interactions import Interactions
from skdpsumm.sketches._graphical import GraphicalModel, Residuals
from skdpsumm.sketches._rounding import _Wanted

pytestmark = pytest.mark.simulated(0)

N = 20_000
AGE = Numeric(0, 19, step=1)
SCHEMA = {"a": AGE, "b": AGE, "c": ["x", "y", "z"], "w": (0, 1)}
GROUPS = [["a", "b"], ["c"], ["w"]]


def people(n=N, seed=0):
    """Return rows of which b goes along with a, and c with it."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 20, n)
    b = (a // 2 + rng.integers(0, 11, n)).clip(0, 19)
    c = np.where(rng.random(n) < 0.2, b // 7, rng.integers(0, 3, n))
    return pd.DataFrame({"a": a, "b": b, "c": np.array([*"xyz"])[c], "w": rng.beta(2, 5, n)})


def sketched(noise_seed=0, rows=None, **options):
    options = {"epsilon": 1.0, "n_bins": 20, "marginals": GROUPS} | options
    sketcher = HistogramSketcher(schema=SCHEMA, **options)
    return simulate(sketcher, people() if rows is None else rows, seed=noise_seed).sketch_


def fourier():
    sketcher = RFFSketcher(SCHEMA, n_components=30, epsilon=1.0, random_state=0)
    return sketcher.fit(people()).sketch_


def estimator(sketch):
    return M2MEstimator.from_sketch(sketch, n_synthetic=2000, random_state=0)


@pytest.fixture(scope="module")
def m2m():
    with warnings.catch_warnings(action="ignore"):
        return estimator(sketched())


def cell_std(sketch):
    """Return the standard deviation of the noise in each cell of `a` and `b`, as it is declared."""
    return float(sketch.noise_std[0])


def low_b(k):
    return lambda rows: rows["b"] < k


# ------------------------------------------------------------------------------------------- noise


def test_counts_have_the_noise_of_the_release_and_may_be_negative(m2m):
    drawn = m2m.table(["a", "b"]).tables("noise")
    # Of 400 cells and 100 tables: 0.7 per cent.
    std = np.sqrt(drawn.var(axis=0, ddof=1).mean())
    assert std == pytest.approx(cell_std(m2m.sketch_), rel=0.03)
    nobody = np.asarray(pd.crosstab(people()["a"], people()["b"])) == 0
    assert nobody.sum() > 100
    assert 0.4 < (drawn[:, nobody] < 0).mean() < 0.6
    # All of the error of this pair is noise.
    np.testing.assert_allclose(m2m.table(["a", "b"]).tables(), drawn, atol=1e-6)
    # Cells are independent: sums of 20 have 20 times the variance.
    sums = drawn.sum(axis=2).std(axis=0, ddof=1)
    assert np.sqrt(np.mean(sums**2)) == pytest.approx(np.sqrt(20) * cell_std(m2m.sketch_), rel=0.1)


def test_no_table_has_the_noise_of_a_simulated_release():
    """Drawn from the same stream, it would cancel the noise: the tables would be the truth."""
    rows = people(2000)
    truth = np.asarray(estimator(sketched(None, rows, epsilon=np.inf)).table(["a", "b"])).ravel()
    released, drawn = [], []
    for seed in range(21):
        m2m = estimator(sketched(seed, rows))
        counts = m2m._model.model.residuals.marginal((0, 1)).ravel()
        released.append(counts - truth)
        drawn.append(m2m.table(["a", "b"]).tables("noise").reshape(100, -1) - counts)
    noise = np.vstack([*released, *drawn])
    alike = np.abs(np.corrcoef(noise) - np.eye(len(noise)))
    # Of 400 independent cells, a correlation has a standard deviation of 0.05: 6.5 of these are
    # one in 10^10, and there are 2 million pairs.
    assert alike.max() < 0.33


# ----------------------------------------------------------------------------------- joint answers


def test_answers_of_one_release_are_of_the_same_tables(m2m):
    for covers in ("noise", "table", "population"):
        few, more = (m2m.count(low_b(k)).tables(covers) for k in (5, 8))
        between = m2m.count(lambda rows: (rows["b"] >= 5) & (rows["b"] < 8)).tables(covers)
        np.testing.assert_allclose(more - few, between, atol=1e-6)
    of_groups = m2m.mean("a", by="b").tables()
    counts, totals = m2m.count(by="b").tables(), m2m.total("a", by="b").tables()
    there = counts > 0  # of nobody there is no mean
    np.testing.assert_allclose((of_groups * counts)[there], totals[there], rtol=1e-9)


def test_a_difference_of_means_has_the_covariance_of_the_counts():
    """Groups that share rows share noise: by the delta method, from the noise of each cell."""
    x = np.arange(20)
    counts = pd.crosstab(people()["a"], people()["b"]).to_numpy().astype(float)
    sketch = sketched()
    m2m = estimator(sketch)

    def influence(k):
        part = np.where(np.arange(20) < k, counts, 0.0)
        off = x[:, None] - (x @ part.sum(axis=1)) / part.sum()
        return off * (np.arange(20) < k) / part.sum()

    few, more = (m2m.where(low_b(k)).mean("a") for k in (10, 12))
    expected = cell_std(sketch) * np.linalg.norm(influence(10) - influence(12))
    apart = cell_std(sketch) * np.hypot(*[np.linalg.norm(influence(k)) for k in (10, 12)])
    assert apart > 2 * expected
    difference = few - more
    assert float(difference.std_error) == pytest.approx(expected, rel=0.2)
    assert np.ptp(difference.interval()) == pytest.approx(3.92 * expected, rel=0.2)
    share, whole = m2m.count(low_b(10)) / m2m.count(low_b(12)), counts[:, :12].sum()
    p = counts[:, :10].sum() / whole
    n_cells = 20 * (10 * (1 - p) ** 2 + 2 * p**2)
    expected = cell_std(sketch) * np.sqrt(n_cells) / whole
    assert float(share.std_error) == pytest.approx(expected, rel=0.2)


# ------------------------------------------------------------------------------------- determinism

QUESTIONS = {
    "mean": lambda m: m.mean("w"),
    "count": lambda m: m.count(lambda rows: (rows["a"] > 3) & (rows["w"] < 0.3)),
    "table": lambda m: m.table(["a", "c"], bins={"a": 4}),
    "four": lambda m: m.count(
        lambda r: (r["a"] > 3) & (r["b"] > 2) & (r["c"] == "x") & (r["w"] < 0.3)
    ),
    "quantile": lambda m: m.quantile("w", 0.3),
}


def numbers(answer):
    parts = [answer.tables(covers).ravel() for covers in ("noise", "table", "population")]
    return np.concatenate([np.ravel(np.asarray(answer)), *parts])


@pytest.mark.parametrize("make", [lambda: sketched(rows=people(3000)), fourier])
def test_the_same_question_has_the_same_answer(make, tmp_path):
    sketch = make()
    alone = {name: numbers(ask(estimator(sketch))) for name, ask in QUESTIONS.items()}
    sketch.save(tmp_path / "one.sketch")
    loaded = PrivateSketch.load(tmp_path / "one.sketch")
    busy = M2MEstimator.from_sketch(loaded, n_synthetic=2000, random_state=0)
    for name in reversed(QUESTIONS):
        QUESTIONS[name](busy).interval(covers="noise")
    for name, ask in QUESTIONS.items():
        np.testing.assert_allclose(numbers(ask(busy)), alone[name], rtol=1e-12, err_msg=name)
    answer = QUESTIONS["count"](pickle.loads(pickle.dumps(busy)))
    np.testing.assert_allclose(numbers(answer), alone["count"], rtol=1e-12)
    kept = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(kept.tables("population"), answer.tables("population"))


def test_last_bits_of_a_fit_move_no_row(monkeypatch):
    """They are others on other processors, and decided ties."""
    rng, X = np.random.default_rng(0), np.indices([4] * 5).reshape(5, -1).T * 2.0 - 3
    sketcher = HistogramSketcher([(-4, 4)] * 5, marginals=2, n_bins=6, epsilon=np.inf)
    sketch, found = simulate(sketcher, X).sketch_, []

    def shaken(self, exact, group):
        table = exact(self, group)
        return table + 1e-12 * (1 + np.abs(table)) * rng.random(table.shape)

    for _ in range(2):
        m2m = estimator(sketch)
        found.append([m2m.sample(3000, random_state=0), m2m._plausible.rows(range(5)).weights])
        for owner in (GraphicalModel, Residuals):
            monkeypatch.setattr(owner, "marginal", partialmethod(shaken, owner.marginal))
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)


def test_raking_leaves_alone_what_is_wanted_and_likely_up_to_rounding():
    likely = np.tile([0.5, 0.5, 1e-17], (8, 1))
    wanted, before = _Wanted(np.array([[4.0, 4.0, 3e-15]]), np.zeros(8, np.int64)), likely.copy()
    wanted.look_at(np.arange(8))
    wanted.rake(likely)
    np.testing.assert_allclose(likely, before, rtol=1e-6)


# -------------------------------------------------------------------- what nobody counted together


def test_a_pair_that_nobody_counted_has_an_interaction_of_size_phi(m2m):
    drawn = m2m.table(["a", "c"]).tables("uncounted")
    shares = [np.asarray(m2m.count(by=name)) / m2m.sketch_.n_samples for name in "ac"]
    a, c = (share.clip(0) / share.clip(0).sum() for share in shares)
    phi = np.sqrt(Interactions(m2m._model).square_of((0, 2)))
    expected = phi * m2m.sketch_.n_samples * np.sqrt(np.outer(a * (1 - a), c * (1 - c)))
    ratio = drawn.std(axis=0, ddof=1) / expected
    assert np.sqrt(np.mean(ratio**2)) == pytest.approx(1, abs=0.05)
    assert phi > 0.05


def test_a_dependence_that_nobody_counted_is_held(m2m):
    """c is told by b in a fifth of the rows; the model takes them to be independent."""
    rows = people()

    def both(one):
        return (one["b"] < 7) & (one["c"] == "x")

    answer, truth = m2m.count(both), both(rows).sum()
    low, high = answer.interval()
    assert low < truth < high
    assert high - low < 0.3 * N
    low, high = answer.interval(covers="noise")
    assert not low < truth < high


def test_items_of_one_scale_go_together_where_nobody_counted_it():
    """The model has a pair of theirs as far apart as a way over others: all are off to one side."""
    items, n_held = [f"q{k}" for k in range(8)], 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        own = 3 + 0.9 * rng.normal(size=(3000, 1)) + 0.55 * rng.normal(size=(3000, 8))
        rows = pd.DataFrame(own.round().clip(1, 5), columns=items)
        model = M2MEstimator(dict.fromkeys(items, Numeric(1, 5, step=1)), epsilon=1.0)
        m2m = simulate(model.set_params(random_state=0), rows, seed=seed)
        square, mean = (
            m2m.estimate(lambda one, k=k: sum(one[q] for q in items) ** k) for k in (2, 1)
        )
        n_held += holds(square - mean**2, rows.sum(axis=1).var(ddof=0))
    assert n_held >= 4  # of 5; without what pairs have in common, none


def test_the_places_of_a_cell_have_all_of_its_rows():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(5000) < 0.5, rng.normal(20, 2, 5000), rng.normal(80, 1, 5000))
    m2m = simulate(M2MEstimator([(0, 100)], epsilon=0.3, random_state=0), x[:, None], seed=0)
    places = m2m._plausible.tables_of("table").places(0)
    np.testing.assert_allclose([np.bincount(places.cell, one) for one in places.weights], 1.0)


# ------------------------------------------------------------------------------ what is covered


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("make", [sketched, fourier])
def test_more_is_covered_by_wider_intervals(make, name):
    answer = QUESTIONS[name](estimator(make()))[...]
    ends = (answer.interval(covers=one) for one in ("noise", "table", "population"))
    noise, table, population = (np.ptp(one, axis=-1) for one in ends)
    assert np.mean(noise) < np.mean(table)
    # What sampling adds may be less than how well a hundred tables tell a width.
    assert np.mean(table) < 1.15 * np.mean(population)


@pytest.mark.parametrize("k", [1, 5])
def test_a_population_adds_the_sampling_error_of_its_units(k):
    """Groups of k rows that are alike: k times the variance, whatever the pool of rows."""
    rows, whose = people(N // k), np.repeat(np.arange(N // k), k)
    sketcher = HistogramSketcher(schema=SCHEMA, n_bins=20, marginals=GROUPS, max_rows_per_group=k)
    repeated = rows.loc[whose].reset_index(drop=True)
    sketcher.fit(repeated, groups=whose)
    m2m = estimator(sketcher.sketch_)
    added = {
        name: ask(m2m).tables("population") - ask(m2m).tables("table")
        for name, ask in {
            "counts": lambda m: m.table(["a", "b"]),
            "mean": lambda m: m.mean("a"),
            "mean of w": lambda m: m.mean("w"),
        }.items()
    }
    share = pd.crosstab(repeated["a"], repeated["b"]).to_numpy() / N
    ratio = added["counts"].var(axis=0, ddof=1).sum() / (k * N * (share * (1 - share)).sum())
    assert ratio == pytest.approx(1, abs=0.06)
    np.testing.assert_allclose(added["counts"].sum(axis=(1, 2)), 0, atol=1e-6)
    for name, column in (("mean", "a"), ("mean of w", "w")):
        expected = np.sqrt(k) * rows[column].std() / np.sqrt(N)
        assert added[name].std(ddof=1) == pytest.approx(expected, rel=0.2)


def test_parts_say_what_an_interval_is_made_of(m2m):
    answer = m2m.count(lambda rows: (rows["c"] == "x") & (rows["w"] < 0.3))
    line = answer.parts()
    told = dict(part.rsplit(" ", 1) for part in line.split(", "))
    assert list(told) == ["noise", "uncounted", "places", "sampling"]
    sizes = np.array([float(one) for one in told.values()])
    assert np.sqrt(np.sum(sizes[:3] ** 2)) == pytest.approx(float(answer.std_error), rel=0.2)
    whole = answer.tables("population").std(ddof=1)
    assert np.linalg.norm(sizes) == pytest.approx(whole, rel=0.2)


# ------------------------------------------------------------------------------------------- where


def test_conditions_are_joined(m2m):
    def first(rows):
        return rows["b"] >= 5

    def second(rows):
        return rows["c"] == "x"

    both = m2m.where(lambda rows: first(rows) & second(rows))
    for joined in (m2m.where(first).where(second), m2m.where(second).where(first)):
        for ask in (lambda m: m.mean("a"), lambda m: m.count(lambda rows: rows["a"] > 3)):
            np.testing.assert_allclose(numbers(ask(joined)), numbers(ask(both)), rtol=1e-9)
    by = m2m.mean("w", by="c")["x"]
    np.testing.assert_allclose(m2m.where(second).mean("w").tables(), by.tables(), rtol=1e-9)
    of_all = m2m.count(lambda rows: first(rows) & (rows["a"] > 3))
    there = m2m.where(first).count(lambda rows: rows["a"] > 3)
    np.testing.assert_allclose(numbers(there), numbers(of_all), rtol=1e-9)
    drawn = both.sample(200, random_state=0)
    assert (first(drawn) & second(drawn)).all()
    assert float(m2m.count(first)) > float(both.count(first))  # and what was there is as it was


# ------------------------------------------------------------------------------------------ levels


def test_any_level_between_0_and_1_has_an_interval(m2m):
    levels = [1e-6, 0.5, 0.9, 0.95, 0.98, 0.99, 0.999, 1 - 1e-9]
    for ask in (lambda m: m.mean("w"), lambda m: m.count(low_b(5)), lambda m: m.mean("a", by="b")):
        answer = ask(m2m)[...]
        ends = [answer.interval(level) for level in levels]
        for inner, outer in pairwise(ends):
            assert np.all(np.isfinite(outer))
            # An end is a quantile of the tables or a Gaussian's, whichever is surer.
            slack = 0.1 * np.ptp(ends[3], axis=-1)
            assert np.all(outer[..., 0] <= inner[..., 0] + slack)
            assert np.all(outer[..., 1] >= inner[..., 1] - slack)
    for level in (0, 1, -0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            m2m.mean("a").interval(level)


# ---- conditions on more columns than cells can hold


def mixed(seed, n=8000):
    """Return five columns that go along with one that nobody has: no pairs tell it all."""
    rng = np.random.default_rng([3, seed])
    kind = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    ends = rng.dirichlet([1.5] * 4, (5, 3)).cumsum(axis=2)
    codes = [(rng.random(n)[:, None] > own[kind]).sum(axis=1).clip(0, 3) for own in ends]
    words = np.array([*"wxyz"])[codes]
    return pd.DataFrame(dict(zip("abcde", words, strict=True))), rng


@pytest.mark.statistical
@pytest.mark.parametrize("knows", [True, False])
def test_how_columns_go_together_beyond_their_pairs_is_held(knows):
    """Without that part (a planted bug), intervals of four conditions hold in a sixth of cases."""
    held = []
    for seed in range(2):
        X, rng = mixed(seed)
        schema = {name: [*"wxyz"] for name in X}
        m2m = simulate(M2MEstimator(schema, epsilon=5.0, random_state=0), X, seed=seed)
        if not knows:
            m2m._plausible.interactions.__dict__["beyond"] = 0.0
        for row in X.iloc[rng.integers(len(X), size=12)].to_dict("records"):
            names = rng.choice([*X], 4, replace=False)

            def asked(rows, row=row, names=names):
                return np.logical_and.reduce([rows[name] == row[name] for name in names])

            held.append(holds(m2m.count(asked), asked(X).sum()))
    assert np.mean(held) > 0.9 if knows else np.mean(held) < 0.5


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_are_nearly_one_go_along_inside_bins(sign):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(N, 1)).clip(-3, 3)
    X = np.hstack([a, sign * a + 0.1 * rng.normal(size=(N, 1))]).clip(-3, 3)
    truth = np.corrcoef(X.T)[0, 1]  # 0.995; if either took the place of the other, 0.96
    for n_bins in (4, 8):
        sketcher = HistogramSketcher((-3, 3), epsilon=np.inf, n_bins=n_bins, marginals=2)
        answer = M2MEstimator(release=sketcher).fit(X).correlation()
        assert holds(answer, truth)[0, 1]


def test_rare_conditions_on_the_same_four_columns_have_points_of_their_own():
    codes = np.random.default_rng(0).integers(0, 6, (1500, 5))
    m2m, again = (
        simulate(M2MEstimator([list(range(6))] * 5, random_state=0), codes) for _ in range(2)
    )

    def alike(k):
        return lambda rows: np.logical_and.reduce([rows[:, j] == k for j in range(4)])

    first, second, alone = (one.count(alike(k)) for one, k in ((m2m, 1), (m2m, 3), (again, 3)))
    for covers in ("table", "population"):
        assert np.ptp(first.interval(covers=covers)) > 0
        assert second.interval(covers=covers).tolist() == alone.interval(covers=covers).tolist()


def test_a_condition_on_four_columns_that_hardly_a_row_meets_is_not_nothing():
    rng, names = np.random.default_rng(0), [*"abcdefghijkl"]
    X = pd.DataFrame({name: rng.choice(names[1:], 6000) for name in "pqrs"})
    X["t"] = rng.random(6000)
    X.iloc[:25, :4] = "a"
    schema = {name: names for name in "pqrs"} | {"t": (0, 1)}

    def asked(rows):
        return np.logical_and.reduce([rows[name] == "a" for name in "pqrs"])

    m2m = simulate(M2MEstimator(schema, epsilon=0.5, random_state=0), X)
    low, high = m2m.count(asked).interval()
    assert low <= 25
    assert 5 < high < 2000  # points alone, of which none meets it, say 0


@pytest.mark.parametrize("flip", [1, -1])
def test_rows_do_not_rise_towards_an_end_of_the_range(flip):
    edges = np.array([0.0, 1, 2, 5, 10, 20, 50, 100])[::flip]
    edges, cell = np.abs(edges - edges[0]), np.repeat([0, 1], [3, 4][::flip])
    masses, noise = np.array([10.0, 2000.0])[::flip], np.full(2, 5.0)
    expected, *_ = expected_masses(edges, edges, cell, masses, noise)
    np.testing.assert_allclose(expected[masses[cell] == 2000], 500, rtol=1e-5)
