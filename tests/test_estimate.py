import pickle

import numpy as np
import pandas as pd
import pytest
from answers import N_TABLES, answer_of, tables_of
from refusals import refused
from scipy.stats import binom, expon, norm, t

from skdpsumm import Estimate, HistogramSketcher, M2MEstimator, Numeric, TableSchema

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.simulated(0)


# What an answer's tables differ by; for a population also by 0.4 and 0, which makes 0.5 and 0.2.
ERRORS = {
    "noise": [0.1, 0.2],
    "uncounted": [0.2, 0.0],
    "places": [0.2, 0.0],
    "sampling": [0.4, 0.0],
    "table": [0.3, 0.2],
    "population": [0.5, 0.2],
}
COVERS = pytest.mark.parametrize("covers", ["table", "noise", "population"])


def two(frame=None, **options):
    def ask(covers):
        return tables_of([1.0, 2.0], ERRORS[covers])

    return Estimate(ask, labels=[["a", "b"]], frame=frame, **options)


@COVERS
def test_a_mean_of_nobody_may_be_anything(covers):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": "baker", "age": rng.integers(18, 91, 500)})
    schema = TableSchema({"job": ["baker", "clerk"], "age": Numeric(18, 90, step=1)})
    answer = M2MEstimator(schema, epsilon=np.inf).fit(frame).mean(by="job")
    bakers, clerks = answer[...].interval(covers=covers)[:, 0]
    assert np.isnan(np.asarray(answer)[1]).all()
    assert clerks.tolist() == [18.0, 90.0]
    assert 18 < bakers[0] <= bakers[1] < 90


@COVERS
def test_a_pickle_has_all_errors_and_not_the_release(covers):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"job": rng.choice(["a", "b"], 900), "age": rng.integers(18, 91, 900)})
    schema = TableSchema({"job": ["a", "b"], "age": Numeric(18, 90, step=1, unit="years")})
    model = M2MEstimator(schema, random_state=0).fit(frame)
    means, old = model.mean(by="job"), model.count(lambda t: t["age"] > 50)
    answers = [means, means["a"], old]
    answers += [model.table(["job", "age"], bins={"age": 3}), model.quantile("age", [0.2, 0.5])]
    for answer in [*answers, answers[0] - answers[0]["a"], two()]:
        again = pickled(answer)
        assert len(pickle.dumps(answer)) < 4_000 + 6 * 8 * 101 * np.size(answer)
        assert repr(again) == repr(answer)
        assert again.parts() == answer.parts()
        np.testing.assert_array_equal(again.tables(covers), answer.tables(covers))
        for level in (0.5, 0.95, 0.999):
            ends = answer[...].interval(level, covers=covers)
            np.testing.assert_array_equal(again[...].interval(level, covers=covers), ends)


def pickled(answer):
    return pickle.loads(pickle.dumps(answer))


def test_items_by_name():
    assert float(two()["b"]) == 2.0
    matrix = answer_of(np.arange(6.0).reshape(2, 3), 1, labels=[["a", "b"], list("xyz")])
    assert float(matrix["b", "z"]) == 5.0
    assert float(matrix[0, "y"]) == 1.0
    assert matrix["b"].shape == (3,)
    for wrong in ("c", ("a", "a"), ("a", "x", "x")):
        with pytest.raises(KeyError, match="is not an entry"):
            matrix[wrong]
    with pytest.raises(KeyError, match="no names"):
        two()[0]["a"]
    assert repr(matrix["b", "z"]) == "5 +- 1 (std error)"


def reach(level):
    """Return the half width of an interval in standard errors."""
    return t.ppf((1 + level) / 2, N_TABLES - 1) * np.sqrt(1 + 1 / N_TABLES)


def test_interval_covers_what_it_says():
    for covers in ("noise", "table", "population"):
        width = np.diff(two().interval(0.95, covers=covers))[:, 0]
        assert np.allclose(width, 2 * reach(0.95) * np.array(ERRORS[covers]))
    assert np.allclose(two().interval(), two().interval(covers="table"))


LAWS = {"normal": norm(3, 2), "lopsided": expon()}
# That a right interval misses more often than that has a chance of 1e-5.
BY_CHANCE = 1e-5


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99, 0.999, 0.999999])
@pytest.mark.parametrize("law", LAWS)
def test_intervals_hold_a_new_draw_of_the_law(law, level):
    """Beyond the last of the tables, a tail is taken to be a Gaussian's."""
    if law == "lopsided" and level > 0.99:
        pytest.skip("A hundred draws do not tell how heavy a tail is.")
    n = 20_000
    truth, *tables = LAWS[law].ppf(np.random.default_rng(0).random((1 + N_TABLES, n)))
    middle = np.mean(tables, axis=0)
    low, high = Estimate([middle, *tables], value=middle).interval(level).T
    missed = np.sum((truth < low) | (truth > high))
    assert binom.sf(missed - 1, n, 1 - level) > BY_CHANCE
    best = np.ptp(LAWS[law].interval(level))
    assert 0.98 < np.median(high - low) / best < 1.3
    assert law != "normal" or np.median(high - low) < 1.1 * best


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.98, 0.999])
def test_simultaneous_intervals_hold_all_entries_at_once(law, level):
    """Entries 0 and 1 are the same one, and half of the others go with them."""
    if law == "lopsided" and level > 0.98:
        pytest.skip("A hundred draws do not tell how heavy a tail is.")
    n, rng, missed, widths = 500, np.random.default_rng(0), 0, []
    for _ in range(n):
        drawn = LAWS[law].ppf(rng.random((1 + N_TABLES, 30)))
        drawn[:, 1:15] = drawn[:, :1] + 0.1 * drawn[:, 1:15]
        drawn[:, 1] = drawn[:, 0]
        truth, *tables = drawn
        middle = np.mean(tables, axis=0)
        low, high = Estimate([middle, *tables], value=middle).interval(level, simultaneous=True).T
        missed += np.any((truth < low) | (truth > high))
        widths.append((high - low)[-1])
    assert binom.sf(missed - 1, n, 1 - level) > BY_CHANCE
    assert binom.sf(missed, n, 1 - level) < 1 - BY_CHANCE or level > 0.98
    alone = np.ptp(LAWS[law].interval(1 - (1 - level) / 30))
    assert law != "normal" or np.median(widths) < 1.1 * alone


# ---- answers of one release are joint


def of_two(rho, n=3):
    """Return two answers whose tables have this correlation, and error 1."""
    one, other = (tables_of(np.zeros(n), 1.0, seed) for seed in range(2))
    return Estimate(9 + one), Estimate(5 + rho * one + np.sqrt(1 - rho**2) * other)


def test_what_is_the_same_has_no_error():
    answer = two() + 9
    for none in (answer - answer, np.log(answer) - np.log(answer), answer - 1 * answer):
        assert none.value.tolist() == none.std_error.tolist() == [0, 0]
        assert not none[...].interval(0.999, covers="population").any()
    assert (answer / answer).interval().tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.9])
def test_sums_differences_and_ratios_have_the_error_of_joint_answers(rho):
    a, b = of_two(rho)
    found = np.corrcoef(a.tables()[:, 0], b.tables()[:, 0])[0, 1]
    assert found == pytest.approx(rho, abs=0.25)
    for answer, exact in (
        (a - b, a.tables() - b.tables()),
        (2 * a + b, 2 * a.tables() + b.tables()),
        (a / b, a.tables() / b.tables()),
        (np.log(a), np.log(a.tables())),
        (a - np.array([1.0, 2.0, 3.0]), a.tables() - [1, 2, 3]),
    ):
        np.testing.assert_allclose(answer.tables(), exact)
        np.testing.assert_allclose(answer.std_error, exact.std(axis=0, ddof=1))
    both = np.sqrt(2 - 2 * rho)
    assert np.all(np.abs((a - b).std_error / both - 1) < 0.3)
    np.testing.assert_allclose((a - b).value, 4)


def test_arithmetic_follows_the_rules_of_arrays():
    a, b = of_two(0.5)
    grid = a[:, None] - b
    assert grid.shape == grid.std_error.shape == (3, 3)
    assert (grid.interval().shape, (a + np.ones((2, 3))).shape) == ((3, 3, 2), (2, 3))
    np.testing.assert_allclose(grid[1, 2].tables(), a.tables()[:, 1] - b.tables()[:, 2])
    np.testing.assert_allclose(np.sum(a).tables(), a.tables().sum(axis=1))
    np.testing.assert_allclose(np.max(grid, axis=0).tables(), grid.tables().max(axis=1))
    np.testing.assert_allclose((a @ b).tables(), np.einsum("bk,bk->b", a.tables(), b.tables()))
    steps = np.eye(3)[:2]
    np.testing.assert_allclose((steps @ a).tables(), a.tables()[:, :2])
    named = two("pandas") - two()[0]
    assert named.value.index.tolist() == ["a", "b"]
    assert isinstance(a > b, np.ndarray)
    refused("different numbers of tables", (a - Estimate(np.zeros((5, 3)))).interval)


# ---- tables without an answer


def test_ratios_that_are_nothing_break_no_interval():
    above, below = tables_of(np.ones((2, 4)), 0.2)[:, 0], tables_of(np.full((2, 4), 2.0), 0.2)[:, 1]
    above[3, 0] = below[3, 0] = 0  # 0 / 0 in one table
    below[5, 1] = 0  # infinite in one
    above[1:40, 2] = below[1:40, 2] = 0  # in too many
    ratio = Estimate(above) / Estimate(below)
    assert np.isfinite(np.asarray(ratio)).all()
    for covers in ("table", "noise", "population"):
        ends = ratio.interval(0.95, covers=covers)
        assert np.isfinite(ends[[0, 1, 3]]).all()
        assert np.all(np.diff(ends[[0, 1, 3]])[:, 0] < 0.8)
        assert ends[2].tolist() == [-np.inf, np.inf]
    assert np.isfinite(np.delete(ratio.std_error, 2)).all()
    assert ratio.interval(0.999)[0].tolist() == [-np.inf, np.inf]
    band = ratio.interval(0.95, simultaneous=True)
    assert np.isinf(band[:3]).all()
    assert np.ptp(band[3]) < 1.2
    share = Estimate(np.asarray(ratio._asked("table")), possible=(0, 1))
    assert np.isfinite(np.asarray(share)).all()
    assert share.interval()[2].tolist() == [0, 1]
    assert share.std_error[2] == 0.5
    nobody = Estimate(np.zeros((1 + N_TABLES, 1))) / np.zeros(1)
    assert nobody.interval().tolist() == [[-np.inf, np.inf]]


# ---- threads


def test_a_population_that_is_not_known_is_refused_with_the_reason():
    answer = two(refused="rows are friends")
    for one in (answer, answer[0], answer["b"] - answer["a"], 1 / answer, pickled(answer)):
        refused("friends", one.interval, covers="population")
        assert "population" not in one.parts()


def test_no_error_is_larger_than_half_of_what_is_possible():
    """Intervals are still made from the whole error, so that they miss no more than before."""
    options = {"possible": (0, 1), "labels": [list("abc")]}
    share = answer_of([0.5, 1.0, 0.5], [3.0, 0.9, 0.1], **options)
    assert np.allclose(share.std_error, [0.5, 0.5, 0.1])
    assert np.allclose(share.noise_std_error, [0.5, 0.5, 0.1])
    assert share["b"].std_error == 0.5
    for covers in ("table", "noise"):
        ends = share.interval(0.5, covers=covers)
        assert np.allclose(ends[1], [1 - reach(0.5) * 0.9, 1])
        assert np.allclose(share["b"].interval(0.5, covers=covers), ends[1])
        assert np.allclose(ends[0], [0, 1])
    assert answer_of(0.5, 3.0).std_error == pytest.approx(3)
    assert "0.5 +- 0.5" in repr(share["a"])
    assert share.to_frame()["std_error"].max() == 0.5


@COVERS
def test_to_frame_has_the_ends_of_the_interval(covers):
    low, high = two().interval(0.8, covers=covers).T
    for library in ("pandas", "polars"):
        table = two(library).to_frame(0.8, covers=covers)
        assert list(table.columns)[-4:] == ["value", "std_error", "low", "high"]
        np.testing.assert_array_equal(table["low"], low)
        np.testing.assert_array_equal(table["high"], high)
    table = answer_of(np.zeros((2, 3)), frame="pandas").to_frame(0.8)
    assert table.shape == (6, 4)


def on_grid(std):
    return answer_of([40.0, 50.0], np.array(std), labels=[["a", "b"]], step=2.0)


def test_intervals_on_a_grid_end_at_values():
    assert on_grid([0.0, 0.5]).interval(0.95).tolist() == [[40, 40], [48, 52]]
    assert on_grid([1.5, 0.5])["a"].interval(0.95).tolist() == [36, 44]


QUESTIONS = {
    "mean": lambda m: m.mean(),
    "count": lambda m: m.count(lambda rows: np.asarray(rows)[:, 0] > 12),
    "cdf": lambda m: m.cdf(0, [5.0, 75.0]),
    "quantile": lambda m: m.quantile(0, [0.25, 0.5]),
    "histogram": lambda m: m.histogram(0),
    "variance": lambda m: m.variance(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inference", ["points", "graphical"])
def test_an_answer_stays_that_of_its_release(inference):
    """Also where somebody asks for its interval after the estimator was fitted to other rows."""
    rng = np.random.default_rng(0)
    low, high = rng.random((600, 1)) * 20, rng.random((600, 1)) * 20 + 70
    sketcher = HistogramSketcher((0, 100))
    model = M2MEstimator(release=sketcher, inference=inference, n_synthetic=2000, random_state=0)

    def intervals(answers):
        kinds = "table", "noise", "population"
        return [answer.interval(covers=covers) for answer in answers for covers in kinds]

    def asked():
        model.fit(low)
        return [ask(model) for ask in QUESTIONS.values()]

    told, answers = intervals(asked()), asked()
    model.set_params(release=HistogramSketcher((0, 200))).fit(high)
    for ends, again in zip(told, intervals(answers), strict=True):
        np.testing.assert_array_equal(again, ends)
