"""A schema that is found privately: what it costs, what it tells, and what it finds.

`test_guarantees` has the price of new values, `kit` the method of two fits with the same draws.
"""

import datetime
import importlib
import itertools
import math
import tomllib
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib import util

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ARMS, PastTheWire, part_used, replayed
from refusals import refused
from simulated import simulate
from sklearn.pipeline import make_pipeline

from skdpsumm import Categorical, PrivateMMDSummarizer, PrivateSearchCV, TDILClassifier
from skdpsumm._computing import progress
from skdpsumm.privacy import BudgetExceededError, GaussianDP, NoiseWarning, PrivacyLedger, PureDP
from skdpsumm.privacy._mechanisms import NewValuesDP, gdp_delta
from skdpsumm.privacy._noise import _DRAWN_AT_ONCE, IntegerNoise
from skdpsumm.schema import Date, Numeric, PublicVectorizer, SchemaFinder, TableSchema, _finder
from skdpsumm.schema._finder import N_SCALE_CELLS, _numbers, _places
from skdpsumm.sketches import HistogramSketcher, PrivateSketch
from skdpsumm.sketches._private_sketch import stated_limit

pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

UNITS = list(itertools.product(["add_remove", "replace_one"], [None, 1, 4]))
BOTH = ["number", "category"]
ALL = [*BOTH, "date"]


def found(X, kinds=None, **parameters):
    """Return the schema that is found without noise."""
    return bare(SchemaFinder(kinds, epsilon=np.inf, **parameters).fit(X).schema_)


def bare(schema):
    """Return a schema without what it says of how it was found."""
    return schema.with_columns([replace(one, description=None) for one in schema.columns])


# ------------------------------------------------------------------------ new values


def probability_of_a_new_value(finder, kinds):
    """Return bounds, from below and above, of P(2 + noise >= threshold), to 50 digits.

    Two units have a value that one alone has without the last of them, and then it is never told.

    The noise is the discrete Gaussian: its sum over integers is at least sigma sqrt(2 pi), by
    Poisson's formula, and at most that and 1; its tail is between two integrals.
    """
    noise, _, bound = finder._price(kinds)
    before = kinds[: kinds.index("category")]
    sigma = noise._scales[sum(len(_finder._PARTS[kind]) for kind in before)]
    with mpmath.workdps(50):
        lattice = mpmath.mpf(2) ** noise.lift
        first = int(mpmath.ceil((mpmath.mpf(bound) - 2) * lattice))
        low = mpmath.ncdf(-mpmath.mpf(first) / sigma)
        low /= 1 + 1 / (sigma * mpmath.sqrt(2 * mpmath.pi))
        return low, mpmath.ncdf(-mpmath.mpf(first - 1) / sigma)


@pytest.mark.parametrize(("adjacency", "k"), UNITS)
@pytest.mark.parametrize("kinds", [["category"], BOTH, ["category"] * 3 + ["number"]])
@pytest.mark.parametrize("budget", [(1.0, 1e-6), (0.05, 1e-3), (3.0, 1e-12), (1e-4, 1e-2)])
def test_a_value_that_one_unit_brings_is_told_as_rarely_as_claimed(adjacency, k, kinds, budget):
    """The smallest table at the threshold, exactly; and the bound is nearly reached."""
    epsilon, delta = budget
    unit = {"adjacency": adjacency, "max_rows_per_group": k}
    finder = SchemaFinder(kinds, epsilon=epsilon, delta=delta, **unit)
    noise, claim, _ = finder._price(kinds)
    # As many values as a unit can bring: those of its k rows, and those that left with another.
    most = (k or 1) * kinds.count("category") * (2 if adjacency == "replace_one" else 1)
    low, high = probability_of_a_new_value(finder, kinds)
    own = claim.tail - noise.mechanism.tail
    assert most * high <= own
    assert most * low >= own * (1 - 1e-4)
    # The claim pays for them whatever epsilon is, and so does what is added to a ledger.
    assert claim.delta(1e4 * epsilon) >= most * high
    assert claim.price("gdp").tail >= most * high
    assert claim.log_ratio == noise.mechanism.log_ratio
    assert own == pytest.approx(0.1 * delta)
    assert claim.epsilon(delta) <= epsilon


@pytest.mark.parametrize(("adjacency", "k"), UNITS)
def test_the_claim_covers_every_mix_of_new_and_common_values(adjacency, k):
    """The divergence of two releases, exactly: some counts move, and some values are new.

    Off the event that a new value comes out, the two laws are Gaussian ones times the probability
    that none does.
    """
    kinds = ["category"] * 2
    finder = SchemaFinder(kinds, epsilon=1.0, delta=1e-6, adjacency=adjacency, max_rows_per_group=k)
    noise, claim, _ = finder._price(kinds)
    most, mu = 2 * (k or 1), noise.mechanism.mu
    moved = most * (2 if adjacency == "replace_one" else 1)
    _, p = probability_of_a_new_value(finder, kinds)
    log_none = float(mpmath.log1p(-p))
    for n_here, n_there in itertools.product(range(most + 1), repeat=2):
        if adjacency == "add_remove" and n_here and n_there:
            continue
        rest = mu * math.sqrt(1 - (n_here + n_there) / moved)
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            some, none = -math.expm1(n_here * log_none), math.exp(n_here * log_none)
            shifted = epsilon + (n_there - n_here) * log_none
            assert some + none * gdp_delta(rest, shifted) <= claim.delta(epsilon) * (1 + 1e-12)


def test_counts_from_the_threshold_on_are_told(monkeypatch):
    """`fit` itself compares with that threshold, and not with another."""
    finder, told = SchemaFinder(["category"], epsilon=1.0), {}
    _, _, bound = finder._price(["category"])
    for shift in (-1.0, 0.0, 1.0):
        count = np.full(1, bound + shift * 2.0**-20)
        monkeypatch.setattr(IntegerNoise, "add_block", lambda *_, count=count: count)
        told[shift] = len(finder.fit([["a"]] * 3).schema_[0].categories) - 1
    assert told == {-1.0: 0, 0.0: 1, 1.0: 1}
    assert finder.min_count_ == finder.expected_min_count() == bound


# ------------------------------------------------------------------------ sensitivity


def rows(n, kinds, values):
    """Return rows of which each has a cell of its own for each value, in every block.

    Of numbers there are as many values as classes of steps.
    """
    table = np.empty((n, len(kinds)), object)
    for i in range(n):
        value = values[i % len(values)]
        day = np.datetime64("1900-07-01") + 370 * value
        number = (0.0003, *_finder._STEPS)[value % (len(_finder._STEPS) + 1)]
        cells = {"number": number, "category": f"w{value}", "date": day}
        table[i] = [cells[kind] for kind in kinds]
    return table


def neighbours(adjacency, k, kinds, alike=False):
    """Return tables as far apart as any; a unit has more rows than may count, in other cells."""
    base = rows(40, kinds, range(20))
    size = 1 if k is None else k + 1
    new = rows(size, kinds, [1] if alike else range(1, size + 1))
    old = rows(size, kinds, range(size + 1, 2 * size + 1))
    tables = [base, np.vstack([base, new])]
    if adjacency == "replace_one":
        tables = [np.vstack([base, old]), np.vstack([base, new])]
    if k is None:
        return tables
    return [{"X": X, "groups": [*range(40), *[99] * (len(X) - 40)]} for X in tables]


def as_gaussian(fitted):
    """Return the claim; new values have a price of their own, which no draw shows."""
    cost = fitted.privacy_.mechanism
    plain = GaussianDP(cost.mu, *cost.slack) if isinstance(cost, NewValuesDP) else cost
    return replace(fitted.privacy_, mechanism=plain)


@pytest.mark.parametrize(("adjacency", "k"), UNITS)
@pytest.mark.parametrize(
    ("kinds", "delta"),
    [
        (["number"], 0.0),
        (["date"], 0.0),
        (["number", "date", "date"], 0.0),
        (["number", "date"], 1e-6),
        ([*ALL, *BOTH, "category"], 1e-6),
    ],
)
@pytest.mark.parametrize(("factor", "accepted"), ARMS)
def test_neighbours_cost_what_is_claimed(adjacency, k, kinds, delta, factor, accepted):
    """Over all columns together; with too little noise, or too much, this fails."""
    finder = SchemaFinder(kinds, delta=delta, adjacency=adjacency, max_rows_per_group=k)
    finder.set_params(epsilon=0.7)
    pair = neighbours(adjacency, k, kinds)
    used = part_used(finder, *pair, factor=factor, claim=as_gaussian)
    assert (1 - 1e-6 < used <= 1) == accepted


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["number", "date"])
def test_a_unit_counts_once_in_a_cell(adjacency, delta, kind):
    finder = SchemaFinder([kind], epsilon=0.7, delta=delta, max_rows_per_group=4)
    finder.set_params(adjacency=adjacency)
    used = part_used(finder, *neighbours(adjacency, 4, [kind], alike=True))
    assert 0 < used < 1


# ------------------------------------------------------------------------ what else is told


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_nothing_but_noisy_counts_is_told_of_numbers(delta):
    """Any two tables, with the same draws: the counts decide, so their noise is not enough here."""
    rng = np.random.default_rng(0)
    one, other = rng.normal(50, 9, (90, 2)), rng.normal(-5e4, 3, (300, 2))
    for table in (other, other * np.nan, np.zeros((1, 2)), other.astype(str).astype(object)):
        replayed(SchemaFinder(epsilon=0.7, delta=delta), one, table)
    one = np.datetime64("2020-01-01") + rng.integers(0, 900, (90, 2))
    other = np.datetime64("1955-01-01") - rng.integers(0, 3, (300, 2))
    for table in (other, other.astype("M8[ns]"), other.astype(str).astype(object), other[:1]):
        replayed(SchemaFinder(["date"] * 2, epsilon=0.7, delta=delta), one, table)


def test_nothing_but_noisy_counts_is_told_of_words():
    words = [["a"]] * 500 + [["b"]] * 90 + [["c"]] * 2 + [["d"]]
    others = [["c"]] * 300 + [["a"]] * 9 + [["b"]] * 2 + [["e"], ["f"]]
    draws, _, fitted = replayed(SchemaFinder(["category"], epsilon=1.0), words, others)
    assert fitted.schema_[0].categories == ("a", "b", "other")
    assert len(draws) == 1
    with pytest.raises(PastTheWire):  # how many values there are is seen by whoever counts draws
        replayed(SchemaFinder(["category"], epsilon=1.0), words, [["a"]])


def test_a_value_of_one_unit_is_never_told_and_gets_no_noise():
    """A group is one unit, however many rows it has."""

    def counted(X, **parameters):
        groups = parameters.pop("groups", None)
        finder = SchemaFinder(["category"], epsilon=1.0, **parameters)
        ((values, counts),) = finder._draft(None, X, groups=groups).counts
        return values, counts.tolist()

    assert counted([["a"], ["b"], ["b"], [1], [2], [2.0]]) == ([2, "b"], [2, 2])
    rows = [["a"]] * 4 + [["b"]] * 5
    assert counted(rows, max_rows_per_group=9, groups=[1] * 8 + [2]) == (["b"], [2])


def test_draws_of_many_values_report_no_steps(capsys):
    """How many there are would tell how many values there are."""
    words = [[f"w{i}"] for i in range(2 * _DRAWN_AT_ONCE + 3)] * 2
    with progress("find", 1):
        assert SchemaFinder(["category"]).fit(words).schema_[0].categories == ("other",)
    assert capsys.readouterr().err.startswith("find: 0 steps")


def test_categories_are_in_an_order_of_their_own():
    words = ["z"] * 400 + ["b"] * 200 + ["a"] * 300
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        parts = [["z"] * 400, ["b"] * 200, ["a"] * 300]
        column = [w for i in order for w in parts[i]]
        assert sorted(column) == sorted(words)
        table = pd.DataFrame({"w": column})
        schema = simulate(SchemaFinder({"w": "category"}, epsilon=1.0), table, seed=3).schema_
        assert schema["w"].categories == ("a", "b", "z", "other")


def said(X, kinds, groups=None):
    """Return all that a fit with noise of a seed publishes."""
    limit = None if groups is None else 2
    finder = SchemaFinder(kinds, epsilon=9.0, max_rows_per_group=limit)
    fitted = simulate(finder, X, groups=groups, seed=1)
    return repr(bare(fitted.schema_)), fitted.privacy_, fitted.min_count_


def test_the_form_of_a_table_is_not_told():
    """Neither dtypes, containers, order nor the sign of zero."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": rng.integers(0, 90, 900),
            "m": np.where(rng.random(900) < 0.1, 0.0, rng.normal(0, 50, 900)),
            "w": rng.choice(["b", "a", "1"], 900),
            "c": rng.integers(0, 2, 900),
            "d": np.datetime64("2019-06-01T12", "s") + rng.integers(0, 9**8, 900),
        }
    )
    kinds = {"n": "number", "m": "number", "w": "category", "c": "category", "d": "date"}
    expected = said(table, kinds)
    assert "Numeric(0, 100, step=1, missing=True)" in expected[0]
    assert "Categorical([0, 1, 'other'], missing=True, other=True)" in expected[0]
    assert "Date('2019-01-01', '2020-12-31', step='day', missing=True)" in expected[0]
    forms = [
        table.assign(d=table["d"].astype("datetime64[ns]")),
        table.assign(d=table["d"].astype(object)),
        table.assign(d=table["d"].astype(str)),
        table.assign(d=[cell.date() for cell in table["d"]]),
        table.astype({"n": float, "c": bool}),
        table.astype({"n": "int8", "m": object, "w": "category", "c": "Int64"}),
        table.astype({"n": "Float64", "c": "float32"}).convert_dtypes(),
        table.assign(m=np.where(table["m"] == 0, -0.0, table["m"])),
        table.assign(n=[Decimal(v) for v in table["n"]], c=[Fraction(v) for v in table["c"]]),
        table.sample(frac=1, random_state=0),
        table[["d", "c", "w", "m", "n"]].assign(identity=range(900)),
    ]
    if util.find_spec("polars"):
        forms.append(importlib.import_module("polars").DataFrame(table.to_dict("list")))
    if util.find_spec("pyarrow"):
        forms.append(importlib.import_module("pyarrow").table(table.to_dict("list")))
    for form in forms:
        assert said(form, kinds) == expected
    listed = list(kinds.values())
    unnamed = said(table.to_numpy().tolist(), listed)
    assert unnamed == said(table.to_numpy(), listed)
    assert unnamed[1:] == expected[1:]


class Hostile:
    """An object that raises whatever it is asked."""

    def _raise(self, *_):
        raise RuntimeError("secret")

    __getattr__ = __eq__ = __hash__ = __float__ = _raise


class Deceiver(float):
    """A number that is none."""

    def __ne__(self, other):
        raise KeyError("secret")

    __hash__ = float.__hash__


UNREAD = {
    "none": None,
    "nan": np.nan,
    "not a time": pd.NaT,
    "list": ["a"],
    "hostile": Hostile(),
    "deceiver": Deceiver("nan"),
    "infinite": -np.inf,
    "huge": 10**400,
    "signalling": Decimal("sNaN"),
    "date": datetime.date(2020, 1, 1),
    "time": np.datetime64("2020-01-01"),
    "period": pd.Period("2020-01"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_cell_that_cannot_be_read_is_a_missing_one(name):
    kinds = BOTH if name in ("date", "time") else ALL
    expected = said(with_cell(None, 0)[:, : len(kinds)], kinds)
    assert "Categorical(['a', 'b', 'other']" in expected[0]
    for place in (0, 200, 400):
        assert said(with_cell(UNREAD[name], place)[:, : len(kinds)], kinds) == expected
    if name != "deceiver":  # which pandas itself stumbles over
        frame = pd.DataFrame(with_cell(UNREAD[name], 0)[:, : len(kinds)], dtype=object)
        assert said(frame, kinds) == expected


def with_cell(cell, place):
    """Return a table with one row of this cell among others."""
    table = np.empty((401, 3), object)
    rows = [[1.0, "a", "2020-02-29"], [2.0, "b", datetime.date(2020, 1, 1)]]
    table[:] = rows * 200 + [[None] * 3]
    table[[place, 400]] = table[[400, place]]
    for j in range(3):
        table[place, j] = cell
    return table


@pytest.mark.parametrize("word", ["a\0", "\ud800", 2**53, -(2**53), 2**53 + 1.0, Decimal(2**60)])
def test_a_category_that_no_schema_can_list_is_a_missing_cell(word):
    assert found([["a"], [word]], ["category"])[0].categories == ("a", "other")


def test_a_word_that_reads_as_a_number_is_that_number():
    """Some containers make words of numbers for one word among them."""
    assert found([["1"], [1], ["true"], ["w"]], ["category"])[0].categories == (1, "w", "other")
    assert found([["1.0"], ["2"], ["w"]], ["category"])[0].categories == (1, 2, "w", "other")
    assert found([["nan"], ["w"]], ["category"])[0].categories == ("nan", "w", "other")
    assert found([["nan"], [1], ["w"]], ["category"])[0].categories == (1, "w", "other")
    assert found([["other"], ["w"]], ["category"])[0].categories == ("other", "w")


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_a_column_that_nobody_has_a_value_in_is_no_error(epsilon):
    """An error after the charge would tell of the rows."""
    finder = SchemaFinder(ALL, epsilon=epsilon).fit([[None, None, 3], ["a", ["b"], "2020"]])
    assert bare(finder.schema_).columns == (
        Numeric(0, 1, missing=True),
        Categorical([], missing=True, other=True),
        Date("2000-01-01", "2000-12-31", missing=True),
    )


CELLS = [None, "", "a", "1", "1.0", "true", "nan", "inf", "other", " 1", "1_0", "\u0661", "a\0"]
CELLS += ["\ud800", b"a", 0, 1, True, -0.0, 0.5, 0.1, 5e-324, 1e300, 2**53, 2**53 - 1, np.inf]
CELLS += [Decimal("0.1"), Decimal("sNaN"), Fraction(1, 3), np.float32(0.1), np.str_("a"), np.nan]


@given(st.lists(st.sampled_from(CELLS), min_size=1, max_size=8))
def test_whatever_cells_there_are_a_schema_is_found_that_reads_them(cells):
    """And files hold it: an error after the charge would tell of the rows."""
    X = np.empty((len(cells), 1), object)
    X[:, 0] = cells
    schema = found(X, ["category"])
    schema[0].read(X[:, 0])
    assert TableSchema.from_dict(schema.to_dict()) == schema
    assert TableSchema.from_tables(tomllib.loads(schema.to_toml())) == schema
    numbers = found(X, ["number"])
    assert TableSchema.from_tables(tomllib.loads(numbers.to_toml())) == numbers


def test_no_more_categories_than_a_schema_can_list(monkeypatch):
    monkeypatch.setattr(_finder, "MOST_LISTED", 3)
    words = [["c"]] * 3 + [["a"]] * 2 + [["b"]]
    assert found(words, ["category"])[0].categories == ("a", "c", "other")


# ------------------------------------------------------------------------ ranges


def test_the_cell_of_a_number_is_a_matter_of_its_value():
    numbers = np.array([0.0, -0.0, 1e-9, 1e-6, 1, 1.5, 2, 2.000001, 1e15, 1e16, -1, -1.5, np.nan])
    places = _places(numbers)
    zero = places[0]
    assert zero == places[1] == N_SCALE_CELLS // 2
    assert places[2] == places[3] == zero + 1
    assert places[5] == places[6] == places[4] + 1  # 1.5 and 2
    assert places[7] == places[6] + 1
    assert places[9] == places[8] + 1 == N_SCALE_CELLS - 1
    assert places[10] - zero == zero - places[4]
    assert places[11] - zero == zero - places[5]
    assert places[12] == -1
    for form in (object, np.longdouble):
        assert np.array_equal(_numbers(numbers.astype(form)), numbers, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([17, 90], Numeric(10, 100, step=1, missing=True)),
        ([0, 1], Numeric(0, 1, step=1, missing=True)),
        ([0], Numeric(0, 1, missing=True)),
        ([1, 100], Numeric(0, 100, step=1, missing=True)),
        ([-3.5, 7], Numeric(-5, 10, step=0.5, missing=True)),
        ([-90, -17], Numeric(-100, -10, step=1, missing=True)),
        ([3e20], Numeric(0, 1e15, missing=True)),
        ([5e-9, -5e-9], Numeric(-1e-6, 1e-6, missing=True)),
        ([2**62, 5], Numeric(0, 1e15, missing=True)),
        ([20, 50], Numeric(10, 50, step=10, missing=True)),
        ([0.01, 0.07], Numeric(0, 0.1, step=0.01, missing=True)),
        ([0.0001], Numeric(5e-5, 1e-4, missing=True)),
    ],
)
def test_ranges_hold_all_rows_where_there_is_no_noise(values, column):
    assert found([[v] for v in values])[0] == column
    assert found(np.array(values, float)[:, None])[0] == column


@pytest.mark.parametrize(
    ("dates", "years"),
    [
        (["2020-02-29"], (2020, 2020)),
        (["1969-12-31", "1970-01-01", "NaT"], (1969, 1970)),
        (["0001-01-01", "1900-01-01"], (1800, 1900)),
        (["2024-12-31", "9999-12-31"], (2024, 2199)),
    ],
)
def test_years_hold_all_days_where_there_is_no_noise(dates, years):
    column = Date(f"{years[0]}-01-01", f"{years[1]}-12-31", missing=True)
    for cells in (np.array(dates, "M8[s]"), np.array(dates, "M8[D]").astype(object)):
        assert found(cells[:, None], ["date"])[0] == column


@pytest.mark.parametrize("step", _finder._STEPS)
def test_a_step_is_found_where_nearly_all_rows_are_on_it(step):
    rng = np.random.default_rng(0)
    on = np.array([float(f"{k * Decimal(str(step))}") for k in rng.integers(-90, 90, 20_000)])
    few = np.where(np.arange(20_000) < 200, on + 1e-4, on)
    more = np.where(np.arange(20_000) < 2_000, on + 1e-4, on)
    zeros = np.where(np.arange(20_000) < 10_000, 0.0, on)
    table = np.column_stack([on, few, more, zeros])
    schema = simulate(SchemaFinder(epsilon=1.0), table).schema_
    assert [column.step for column in schema.columns] == [step, step, None, step]
    # A tenth of so few rows is off a step, and noise hides them; of zeros nothing can be known.
    few = simulate(SchemaFinder(epsilon=0.2), table[:2_000]).schema_
    assert [column.step for column in few.columns] == [step, step, None, None]
    # More noise could hide half of them.
    few = simulate(SchemaFinder(epsilon=0.02), table[:2_000]).schema_
    assert [column.step for column in few.columns] == [None] * 4


def test_noise_makes_no_step_finer_and_what_it_hides_has_none():
    """Whole numbers are found to be whole, whatever the noise of the finer steps' counts."""
    rng, steps = np.random.default_rng(0), []
    pay = rng.integers(1, 100, 20_000).astype(float)
    table = np.column_stack([pay, pay + rng.random(20_000)])
    for seed in range(40):  # with the noise of twelve columns at epsilon=0.1
        found = simulate(SchemaFinder(epsilon=0.038), table, seed=seed).schema_
        steps.append((found.columns[0].step, found.columns[1].step))
    assert set(steps) == {(1.0, None)}


def test_ends_hold_all_but_few_rows_in_spite_of_noise():
    rng = np.random.default_rng(0)
    n = 20_000
    table = np.column_stack([rng.integers(17, 91, n), rng.lognormal(10, 1, n), rng.normal(0, 1, n)])
    days = np.datetime64("1995-01-01", "s") + 86_400 * rng.normal(0, 1000, n).astype(int)
    whole = pd.DataFrame(table, columns=[*"abc"]).assign(d=days)
    kinds = dict.fromkeys("abc", "number") | {"d": "date"}
    for seed, delta in itertools.product(range(20), (0.0, 1e-6)):
        finder = SchemaFinder(kinds, epsilon=0.3, delta=delta)
        columns = simulate(finder, whole, seed=seed).schema_.columns
        for j, column in enumerate(columns[:3]):
            low, high = column.bounds
            assert np.mean((table[:, j] < low) | (table[:, j] > high)) < 0.03
            assert high <= 20 * np.quantile(table[:, j], 0.99)
        steps = columns[3].steps(days)
        assert np.mean((steps < 0) | (steps > columns[3].bounds[1])) < 0.03
        assert columns[3].bounds[1] < 3 * np.ptp(steps)


# ------------------------------------------------------------------------ errors and the ledger


class Untouched:
    """A table that nobody may look at."""

    def __getattribute__(self, name):
        raise AssertionError(name)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"kinds": {"a": "category"}, "delta": 0.0}, "delta=0 cannot release a category"),
        ({"kinds": {"a": "day"}}, "column 'a' is 'day'; write 'number', 'category' or 'date'"),
        ({"kinds": "number"}, "kinds must be a mapping from name to kind.*got 'number'"),
        ({"kinds": {1: "number"}}, "names of columns, which are words"),
        ({"max_rows_per_group": "average"}, "max_rows_per_group"),
        ({"max_rows_per_group": 2}, "got none. Pass groups"),
    ],
)
def test_mistakes_are_told_before_the_table_is_looked_at(parameters, told, unpaid):
    refused(told, SchemaFinder(**parameters, ledger=unpaid).fit, Untouched())


def test_one_charge_pays_for_all_columns():
    table = pd.DataFrame({"n": [1.0] * 50, "w": ["a"] * 50})
    kinds = dict(zip(table, BOTH, strict=True))
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-6)
    finder = SchemaFinder(kinds, epsilon=0.5, ledger=ledger).fit(table)
    (entry,) = ledger.entries()
    assert entry["mechanism"]["kind"] == "gdp of new values"
    assert entry["mechanism"]["tail"] == finder.privacy_.mechanism.tail > 6e-14
    assert finder.privacy_.epsilon(1e-6) <= 0.5
    assert finder.privacy_.epsilon(1e-6) == pytest.approx(0.5, rel=1e-5)
    assert ledger.remaining.epsilon == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(BudgetExceededError):
        SchemaFinder(kinds, epsilon=0.01, ledger=ledger).fit(Untouched())
    pure = SchemaFinder(epsilon=0.5, delta=0.0).fit(table[["n"]]).privacy_
    assert pure.mechanism == PureDP(0.5)
    plain = SchemaFinder(epsilon=0.5).fit(table[["n"]])
    assert isinstance(plain.privacy_.mechanism, GaussianDP)
    assert plain.min_count_ is None


def test_a_ledger_holds_several_and_no_more_than_its_reserve():
    """The first may take a tenth of delta for its tail, and all others share the reserve."""
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-6)
    finder = SchemaFinder(["category"], epsilon=0.01, ledger=ledger)
    bounds = [finder.fit([["a"]]).min_count_ for _ in range(15)]
    assert bounds[0] < 0.8 * bounds[1]
    assert bounds[0] == SchemaFinder(["category"], epsilon=0.01).fit([["a"]]).min_count_
    assert set(bounds[1:]) == {bounds[1]}
    tails = [entry["mechanism"]["tail"] for entry in ledger.entries()]
    assert tails[0] == pytest.approx(1e-7)
    assert tails[1] == pytest.approx(1e-12 / 16)
    refused("Nothing was charged", finder.fit, [["a"]], error=BudgetExceededError)


def test_a_ledger_of_replaced_rows_takes_what_was_found_for_them():
    """A price of two units is not known, and that is told before a row is read."""
    ledger = PrivacyLedger(epsilon=9, delta=1e-3, adjacency="replace_one")
    with pytest.raises(ValueError, match="set the estimator's adjacency to the ledger's"):
        SchemaFinder(["category"], ledger=ledger).fit(Untouched())
    SchemaFinder(["category"], adjacency="replace_one", ledger=ledger).fit([["a"]])
    assert len(ledger.entries()) == 1


def test_a_claim_about_groups_says_so():
    finder = SchemaFinder(["category"], max_rows_per_group=3, epsilon=1.0)
    fitted = finder.fit([["a"]] * 9, groups=[1, 1, 1, 1, 2, 2, 3, 3, 3])
    assert fitted.privacy_.unit == "one group"
    assert "max_rows_per_group=3" in fitted.privacy_.given
    # As many groups as rows before, and none of them has a value by itself.
    counted = SchemaFinder(["category"], max_rows_per_group=9, epsilon=np.inf)
    draft = counted._draft(None, [["a"]] * 9 + [["b"]], groups=[1] * 5 + [2] * 5)
    assert draft.counts[0][0] == ["a", "b"]
    assert draft.counts[0][1].tolist() == [2, 1]


def test_what_noise_hides_is_told():
    finder = SchemaFinder({"n": "number", "w": "category"})
    with pytest.warns(NoiseWarning, match="Describe 'n', 'w' by hand"):
        finder.fit(pd.DataFrame({"n": [4.0, 5.0], "w": ["a", "b"]}))
    assert bare(finder.schema_)["n"] == Numeric(0, 1, missing=True)
    assert bare(finder.schema_)["w"] == Categorical([], missing=True, other=True)


# ------------------------------------------------------------------------ what it is for


def test_what_is_made_with_a_found_schema_says_so(tmp_path):
    frame = pd.DataFrame({"n": [*range(100)] * 3})
    finder = SchemaFinder({"n": "number"}, epsilon=1.0).fit(frame)
    finder.schema_.save(tmp_path / "schema.toml")
    loaded = TableSchema.load(tmp_path / "schema.toml")
    assert loaded == finder.schema_
    how = "the schema was found privately: (1, 1e-6)-DP for one row, add or remove, which each"
    column = loaded["n"]
    for schema in (loaded, {"n": column}, [column], column):
        assert how in HistogramSketcher(schema=schema, epsilon=1.0).fit(frame).privacy_.given
    piped = make_pipeline(PublicVectorizer(loaded), TDILClassifier(norm_bound=1.0))
    search = PrivateSearchCV(piped, {"tdilclassifier__regularization": [1.0]}, epsilon=1.0)
    assert how in search.fit(frame, np.array(frame["n"] > 50)).privacy_.given
    vectorizer = PublicVectorizer({"n": (0, 99)})
    later = SchemaFinder(epsilon=1.0).fit(vectorizer.fit(frame).transform(frame)).schema_
    piped = make_pipeline(vectorizer, TDILClassifier(list(later.columns)))
    search = PrivateSearchCV(piped, {"tdilclassifier__regularization": [1.0]}, epsilon=1.0)
    assert how in search.fit(frame, np.array(frame["n"] > 50)).privacy_.given
    search.set_params(param_distributions={"tdilclassifier__schema": [(0, 1)]})
    refused("one schema", search.fit, frame, np.array(frame["n"] > 50))
    summarizer = PrivateMMDSummarizer(n_select=5, schema=loaded).fit(frame, X_target=frame[:50])
    for claim in (summarizer.privacy_.target, summarizer.privacy_.owners):
        assert how in claim.given


@pytest.mark.parametrize(
    "text",
    ["; max_rows_per_group='average' (", "; max_rows_per_group=1 (", "\n\x1b[2J", "x" * 10_000],
    ids=["average", "fewer rows", "steers a terminal", "long"],
)
def test_a_description_passes_for_no_promise_and_spoils_no_file(text, tmp_path):
    """Of a stranger's schema: a sketch that no file can hold is paid for in vain."""
    schema = TableSchema({"n": Numeric(0, 1, description=f"found privately{text}")})
    frame = pd.DataFrame({"n": [0.5] * 90})
    sketcher = HistogramSketcher(schema, max_rows_per_group=2).fit(frame, groups=range(90))
    sketcher.sketch_.save(tmp_path / "sketch")
    privacy = PrivateSketch.load(tmp_path / "sketch").privacy
    assert stated_limit(privacy) == 2
    assert not sketcher.sketch_.counts_groups
    assert len(privacy.given) < 500


def test_other_takes_what_is_not_listed_and_leaves_missing_cells():
    column = Categorical(["a", "b"], other=True, missing=True, missing_values=["?"])
    cells = np.array(["b", "c", None, "?", 3, ["a"], "other", np.nan], object)
    assert column.read(cells).tolist() == [1, 2, 3, 3, 2, 2, 2, 3]
    first = Categorical(["other", "b"], other=True)
    assert first.categories == ("other", "b")
    assert first.read(np.array(["b", "z"], object)).tolist() == [1, 0]
    assert eval(repr(first), {"Categorical": Categorical}) == first
    refused("missing", TableSchema([first]).check, np.array([[None]], object))
    refused("twice", Categorical, ["a", "b"], other=True, missing_values=["other"])
