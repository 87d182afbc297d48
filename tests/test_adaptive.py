"""Adaptive sketches: what is counted, with which noise, and what may never cost anything."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from releases import as_polars
from simulated import simulate

from skdpsumm.privacy import BudgetExceededError, PrivacyLedger
from skdpsumm.privacy._noise import StepBudget
from skdpsumm.schema import Categorical, Numeric, TableSchema, _reading
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher, RFFSketcher, _adaptive
from skdpsumm.sketches._adaptive import N_BINS, Design, find_bins, joined_categories, variance_left
from skdpsumm.sketches._graphical import Marginal, Residuals

pytestmark = pytest.mark.simulated(0)

SCHEMA = TableSchema(
    {
        "age": Numeric(17, 90, step=1),
        "income": Numeric(0, 100_000, step=1),
        "speed": Numeric(-3, 3, missing=True),
        "job": Categorical([f"job{k}" for k in range(30)], missing=True),
        "smokes": [False, True],
        "y": ["no", "yes"],
    }
)


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, n)
    job = np.minimum(rng.geometric(0.3, n), 30) - 1
    speed = np.where(rng.random(n) < 0.2, np.nan, rng.normal(age / 50 - 1, 0.5))
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(n) < 0.7, 0, rng.exponential(8000, n).astype(int)),
            "speed": speed,
            "job": pd.array([None if k == 7 else f"job{k}" for k in job], dtype=object),
            "smokes": rng.random(n) < np.where(age > 50, 0.8, 0.2),
            "y": np.where(rng.random(n) < np.where(job < 2, 0.9, 0.1), "yes", "no"),
        }
    )


X = table()


def sketcher(**options):
    return AdaptiveSketcher(**({"schema": SCHEMA} | options))


def few_picks(monkeypatch, n=3):
    monkeypatch.setattr(_adaptive, "_LEAST_PICKS", n)
    monkeypatch.setattr(_adaptive, "_PICKS", 1e9)


def groups_of(sketch):
    return [part.groups for part in sketch.feature_map.parts()]


def stds_of(sketch):
    """Return the noise of each group of each part."""
    parts = [(part.row_groups(), sketch.noise_std[where]) for part, where in sketch.blocks()]
    return [np.array([own[cells][0] for cells in groups]) for groups, own in parts]


# ------------------------------------------------------------------------- what is counted


def test_bins_come_first_then_columns_then_pairs():
    sketch = sketcher().fit(X).sketch_
    bins, base, pairs = groups_of(sketch)
    assert bins == ((0,), (1,), (2,))
    assert base == tuple((j,) for j in range(6))
    assert len(pairs) == 15 == len(set(map(frozenset, pairs)))
    fine, chosen = sketch.feature_map.parts()[:2]
    public = Design(SCHEMA, None, (), "add_remove", None).singles
    assert fine.n_bins[0] == 74
    for j in range(3):
        assert set(public.edges(j)) <= set(fine.edges(j))
        assert set(chosen.edges(j)) <= set(fine.edges(j))
        assert chosen.n_present(j) <= N_BINS
    # Each group that is chosen has a share as its number of cells to the power of 1 / 3.
    for stds, part, power in zip(
        stds_of(sketch), sketch.feature_map.parts(), (0, 0, 1 / 6), strict=True
    ):
        assert np.ptp(np.log(stds * part.sizes**power)) < 1e-4


def test_with_a_target_each_column_is_counted_with_it():
    _, base, *rounds = groups_of(sketcher(target="y").fit(X).sketch_)
    assert base == tuple((j, 5) for j in range(5))
    for group in (group for part in rounds for group in part):
        assert (5 in group) == (len(group) == 3)


def test_rounds_choose_what_depends(monkeypatch):
    """Of all pairs, the few that depend."""
    few_picks(monkeypatch)
    _, _, *rounds = groups_of(sketcher(epsilon=5.0).fit(X).sketch_)
    chosen = [group for part in rounds for group in part]
    assert len(chosen) == 6  # one a column, in four rounds
    assert [len(part) for part in rounds] == [2, 2, 1, 1]
    assert {(0, 2), (0, 4), (3, 5)} <= set(chosen)


def test_a_workload_is_counted_in_any_case(monkeypatch):
    few_picks(monkeypatch)
    workload = [["age", "job", "smokes"], ["income", "y"]]
    sketch = sketcher(workload=workload).fit(X).sketch_
    _, _, asked, *rounds = groups_of(sketch)
    assert asked == ((0, 3, 4), (1, 5))
    assert (1, 5) not in [group for part in rounds for group in part]
    # In all categories, and with as much of the budget as all that is chosen.
    assert sketch.feature_map.parts()[2].n_bins[3] == 31
    _, _, asked, *rounds = [np.sum(1 / stds**2) for stds in stds_of(sketch)]
    assert asked == pytest.approx(sum(rounds), rel=0.05)


def test_counts_are_those_of_the_rows():
    """Without noise, all pairs are there, exactly."""
    fitted = simulate(sketcher(epsilon=np.inf), X, seed=None)
    sketch = fitted.sketch_
    assert sketch.n_released == pytest.approx(len(X), rel=1e-12)
    assert not sketch.noise_std.any()
    assert fitted.transform(X).sum(axis=0) == pytest.approx(sketch.sums)
    pairs = groups_of(sketch)[-1]
    assert set(map(frozenset, pairs)) == {frozenset((a, b)) for a in range(6) for b in range(a)}


@pytest.mark.parametrize(
    ("target", "delta", "adjacency"),
    [(None, 0.0, "add_remove"), ("y", 1e-6, "replace_one"), ("y", 1e-6, "add_remove")],
)
def test_noise_is_what_the_sketch_says(target, delta, adjacency):
    """Counts of all phases, in units of their noise."""
    options = {"target": target, "delta": delta, "adjacency": adjacency, "epsilon": 0.5}
    fitted = sketcher(**options).fit(X)
    sketch = fitted.sketch_
    exact = fitted.transform(X).sum(axis=0, dtype=np.float64)
    z = (sketch.sums - exact) / sketch.noise_std
    for _, where in sketch.blocks():
        n = where.stop - where.start
        spread = 2.4 if delta == 0 else 2**0.5  # of the square of Laplace noise, and of normal
        assert abs(np.mean(z[where] ** 2) - 1) < 5 * spread / math.sqrt(n)
    if adjacency == "replace_one":
        assert sketch.n_released == len(X)
    else:
        assert abs(sketch.n_released - len(X)) < 5 * sketch.n_noise_std
        assert sketch.n_noise_std < 5 * sketch.noise_std.min()
    assert sketch.n_from_sums == (adjacency == "add_remove")


@pytest.fixture
def counts(monkeypatch):
    """Record the sensitivity and the noise of all counts, those included that are dropped."""
    count, found = StepBudget.count, []

    def recorded(self, values, *, l1, l2, share):
        noisy, std = count(self, values, l1=l1, l2=l2, share=share)
        found.append((l2, std))
        return noisy, std

    monkeypatch.setattr(StepBudget, "count", recorded)
    return found


def told_by(counts):
    """Return the squared mu of counts, and forget them."""
    total = sum((l2 / std) ** 2 for l2, std in counts)
    counts.clear()
    return total


def test_the_whole_budget_is_spent_and_no_more(monkeypatch, counts):
    """Each group has the noise of its share: shares of mu^2 sum to one, choices included."""
    # Six choices, and one of a twin, which says that income goes with nothing. A target is
    # counted with all columns, so that there is nothing to join.
    for n, choices in ((3, _adaptive.FOR_CHOICES), (99, 0.0)):
        few_picks(monkeypatch, n)
        for target, made in ((None, 7 / 7), ("y", 6 / 7)):
            fitted = sketcher(target=target, epsilon=0.3).fit(X)
            mu = fitted.privacy_.mechanism.mu
            assert told_by(counts) == pytest.approx((1 - choices * made) * mu**2, rel=1e-6)
            released = sum(np.sum(1 / stds**2) for stds in stds_of(fitted.sketch_))
            # Counts of a level and a half have a share of it, and are dropped.
            assert 0.95 - choices < released / mu**2 < 1 - choices


# ------------------------------------------------------------------------------ small tables


@pytest.mark.parametrize(
    "schema", [[Numeric(0, 1)], [Numeric(0, 1, step=1)], [["a", "b"]], [Numeric(edges=[0, 0.5, 1])]]
)
@pytest.mark.parametrize("target", [None, 0])
def test_one_column_takes_all(schema, target, counts):
    rows = np.array(["a", "b"] * 50)[:, None] if schema == [["a", "b"]] else np.eye(100)[:, :1]
    fitted = AdaptiveSketcher(schema=schema, target=target).fit(rows)
    sketch, mu = fitted.sketch_, fitted.privacy_.mechanism.mu
    assert told_by(counts) == pytest.approx(mu**2)
    assert groups_of(sketch)[-1] == ((0,),)


def test_groups_that_are_too_large_are_left_out_and_their_budget_is_not():
    wide = [Categorical(range(1000)), Categorical(range(1001))]
    rows = np.random.default_rng(0).integers(0, 1000, (500, 2)).astype(float)
    fitted = AdaptiveSketcher(schema=wide, epsilon=30.0)
    # So much budget that no category is rare.
    sketch = fitted.fit(np.repeat(rows, 40, axis=0)).sketch_
    assert groups_of(sketch) == [((0,), (1,)), ((0,), (1,))]
    assert sketch.lone_columns == [0, 1]
    assert "\n  in no group: x0, x1\n" in repr(sketch)
    mu = fitted.privacy_.mechanism.mu
    assert sum(np.sum(1 / stds**2) for stds in stds_of(sketch)) == pytest.approx(mu**2)
    with_target = AdaptiveSketcher(schema=wide, target=0).fit(rows).sketch_
    assert groups_of(with_target)[0] == ((1,), (0,))


# --------------------------------------------------------------------- what costs nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": None}, "schema is missing"),
        ({"schema": {"age": Numeric(), "y": ["no", "yes"]}}, "no range in the schema"),
        ({"target": "weight"}, "target names column 'weight'"),
        ({"workload": [["age", "weight"]]}, "workload names column 'weight'"),
        ({"workload": [["age", "age"]]}, "a column twice"),
        ({"workload": [["age", "y"], ["y", "age"]]}, "a group twice"),
        ({"workload": [["age", "income", "speed", "job", "y"]]}, "at most 131,072"),
        ({"adjacency": "replace_one", "max_rows_per_group": 2}, "number of rows"),
    ],
)
def test_errors_cost_nothing(options, message, unpaid):
    model = sketcher(ledger=unpaid, **options)
    refused(message, model.check_budget)
    refused(message, model.fit, X)


@pytest.mark.parametrize("limit", [None, 2, "average"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_read_in_blocks_and_give_the_same_bits(library, limit, monkeypatch):
    frame = X if library == "pandas" else as_polars(X)
    persons = None if limit is None else np.arange(len(X)) // 3
    whole = sketcher(max_rows_per_group=limit).fit(frame, groups=persons)
    read, read_table = [], _reading.read_table
    monkeypatch.setattr(_adaptive, "ROWS_PER_BATCH", 1000)
    monkeypatch.setattr(_reading, "read_table", lambda X: read.append(len(X)) or read_table(X))
    blocks = sketcher(max_rows_per_group=limit).fit(frame, groups=persons)
    np.testing.assert_array_equal(blocks.sketch_.sums, whole.sketch_.sums)
    labels = [] if limit is None else [len(X)]
    assert read == [1, *labels, 1000, 1000, 1000]


@pytest.mark.parametrize("column", ["speed", "job"])
def test_bad_cells_of_the_last_block_cost_nothing(column, monkeypatch, unpaid):
    monkeypatch.setattr(_adaptive, "ROWS_PER_BATCH", 100)
    rows = X.assign(**{column: X[column].astype(object)})
    rows.loc[rows.index[-1], column] = {"speed": np.inf, "job": "secret"}[column]
    assert "secret" not in str(refused(column, sketcher(ledger=unpaid).fit, rows))


@pytest.mark.parametrize(
    ("n_columns", "target", "part"), [(7, None, 1.0), (8, None, 1.05), (5, 4, 1.0), (6, 5, 1.05)]
)
@pytest.mark.parametrize("named", [False, True])
def test_a_ledger_of_replaced_rows_pays_for_choices_that_can_be(n_columns, target, part, named):
    """Whether some are is public: no rule of the number of rows counts less than the least."""
    schema = [(0, 1)] * n_columns if named else (0, 1)
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5, adjacency="replace_one")
    model = AdaptiveSketcher(schema, target=target, ledger=ledger)
    model.fit(np.random.default_rng(0).random((300, n_columns)))
    (entry,) = ledger.entries()
    mu = model.privacy_.mechanism.mu
    assert entry["mechanism"]["mu"] == pytest.approx(mu * math.sqrt(2 * part))


def test_a_ledger_is_asked_for_choices_before_the_rows_are_read():
    budget = StepBudget(epsilon=1.0, delta=1e-6, most_values=1, most_chosen=0.02)
    epsilon = budget.cost_when_replaced.epsilon(1e-5)
    ledger = PrivacyLedger(epsilon=epsilon, delta=1e-5, adjacency="replace_one")
    AdaptiveSketcher([(0, 1)] * 7, ledger=ledger).check_budget()
    with pytest.raises(BudgetExceededError):
        AdaptiveSketcher([(0, 1)] * 8, ledger=ledger).check_budget()


# ------------------------------------------------------------------------------------ joins


def blocks(n=8000, seed=0):
    """Three traits with four signs each, a label that one trait hardly tells, and a coin."""
    rng = np.random.default_rng(seed)
    traits = np.repeat(rng.normal(size=(n, 3)), 4, axis=1)
    signs = (3 * traits + rng.normal(size=(n, 12)) > 0).astype(int)
    label = rng.random(n) < 0.4 + 0.2 * signs[:, 0]
    return np.column_stack([signs, label, rng.integers(0, 2, n)])


def test_columns_are_joined_before_others_are_counted_again(monkeypatch):
    few_picks(monkeypatch)
    sketch = AdaptiveSketcher([[0, 1]] * 14, epsilon=1.0).fit(blocks()).sketch_
    chosen = [group for part in groups_of(sketch)[1:] for group in part]
    assert len(chosen) == 14
    # Eighteen pairs inside the traits tell more than the label does.
    assert any(12 in group for group in chosen)
    # Nine pairs join the signs of three traits, and none of these pairs is left over.
    parts = np.arange(14)
    for k, (a, b) in enumerate(chosen[:10]):
        assert parts[a] != parts[b], f"pair {k} joins nothing"
        parts[parts == parts[a]] = parts[b]
    assert sketch.lone_columns in ([], [13])


def test_the_release_says_which_columns_are_in_no_group():
    assert "in no group" not in repr(sketcher(target="y").fit(X).sketch_)
    assert AdaptiveSketcher([(0, 1)]).fit(np.eye(9)[:, :1]).sketch_.lone_columns == []
    assert HistogramSketcher(schema=SCHEMA).fit(X).sketch_.lone_columns == [*range(6)]
    fourier = RFFSketcher((0, 1), random_state=0).fit(np.eye(2)).sketch_
    assert fourier.lone_columns == []


# ---------------------------------------------------------------------------------- persons


# --------------------------------------------------------------------------------- the rest


def test_sketches_of_two_tables_are_not_added():
    other = simulate(sketcher(), table(seed=1), seed=1).sketch_
    refused("agreed list", lambda: sketcher().fit(X).sketch_ + other)


@pytest.mark.parametrize(("target", "delta"), [(None, 0.0), ("y", 1e-6)])
@pytest.mark.parametrize("schema", [SCHEMA, {"age": SCHEMA["age"], "y": ["no", "yes"]}])
def test_errors_are_predicted(target, delta, schema, monkeypatch):
    few_picks(monkeypatch)
    model = sketcher(schema=schema, target=target, delta=delta)
    told = model.predict_error(len(X))
    sketch = model.fit(X[list(schema)]).sketch_
    power = 1 if delta == 0 else 2
    stds = [np.mean(own**-power) ** (-1 / power) / len(X) for own in stds_of(sketch)]
    others = 1 if target is None else 2
    # Here it goes by the exact number of rows, and there by a noisy one.
    assert told["column"] == pytest.approx(stds[1] * math.sqrt(others), rel=0.1)
    chosen = sum(len(groups) for groups in groups_of(sketch)[2:])
    assert told["n_pairs"] == chosen
    if chosen:
        assert told["pair"] == pytest.approx(stds[2], rel=0.1)
    refused("n_columns is missing", AdaptiveSketcher(schema=(0, 1)).predict_error, 100)
    assert AdaptiveSketcher(schema=(0, 1)).predict_error(100, 5)["n_candidates"] == 10


# ------------------------------------------------------------------------------------- bins


def test_bins_are_where_density_changes():
    density = np.repeat([1.0, 400.0, 3.0, 60.0, 0.0], [20, 1, 30, 10, 39])
    rng = np.random.default_rng(0)
    noisy = density + rng.normal(0, 3, len(density))
    starts = find_bins(noisy, np.ones(len(density)), 3.0)
    assert len(starts) <= N_BINS
    assert starts[0] == 0
    assert {20, 21, 51, 61} <= set(starts)


def test_rare_categories_make_one_cell():
    counts = np.array([[500.0, 400], [3, 1], [80, 90], [-4, 2], [1, 1]])
    assert joined_categories(counts, 5.0) == (0, 2, 1, 2, 2)
    assert joined_categories(counts[:2], 5.0) is None
    assert joined_categories(counts[[0, 2, 1]], 5.0) is None
    # Two stay in any case.
    assert max(joined_categories(np.arange(5.0)[:, None], 50.0)) == 2


def test_edges_of_the_schema_are_kept():
    schema = {**dict(zip(SCHEMA, SCHEMA.columns, strict=True))}
    schema["age"] = Numeric(17, 90, step=1, edges=[17, 30, 65, 90])
    sketch = sketcher(schema=schema).fit(X).sketch_
    bins, base, _ = sketch.feature_map.parts()
    assert bins.groups == ((1,), (2,))
    assert base.edges(0) == pytest.approx([16.5, 29.5, 64.5, 90.5])


def test_impossible_rows_cut_bins():
    schema = TableSchema({"age": Numeric(0, 99, step=1), "smokes": [False, True], "y": [0, 1]})
    schema = schema.never({"age": [0, 13], "smokes": [True]})
    k = np.arange(1000)
    rows = pd.DataFrame({"age": k % 100, "smokes": (k % 100 > 13) & (k % 3 == 0), "y": k % 2})
    sketch = AdaptiveSketcher(schema=schema, epsilon=0.5).fit(rows).sketch_
    for part in sketch.feature_map.parts():
        assert 13.5 in part.edges(0)


@pytest.mark.parametrize("n_columns", [7, 8])
@pytest.mark.parametrize("epsilon", [8.5e-15, 1e-14, 1.12e-14])
def test_noise_that_64_bits_cannot_hold_is_refused_before_the_charge(n_columns, epsilon, unpaid):
    sketcher = AdaptiveSketcher([(0, 1)] * n_columns, epsilon=epsilon, ledger=unpaid)
    refused("64-bit", sketcher.fit, np.random.default_rng(0).random((50, n_columns)))


@pytest.mark.parametrize("sizes", [(2, 2), (2, 10), (10, 10), (3, 30), (2, 3, 4)])
def test_a_score_takes_off_the_noise_that_a_count_leaves(sizes):
    """Beside sums over each column, with like noise: by the best estimate from all of them."""
    columns = tuple(range(len(sizes)))
    groups = [columns, *combinations(columns, len(sizes) - 1)]
    counted = [Marginal(g, np.zeros([sizes[a] for a in g]), 1.0) for g in groups]
    best = Residuals(sizes, counted).cell_variances(columns)
    assert 0.94 < variance_left(sizes) / best.flat[0] <= 1.0
