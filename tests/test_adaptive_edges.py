"""What an adaptive release cannot do is found before it is paid for; what is paid for is answered.

Public facts alone decide it: epsilon, the schema, the limit of a group.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

from skdpsumm.moments import M2MEstimator
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.schema import Numeric, TableSchema
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher

UNITS = [("add_remove", None), ("add_remove", 50), ("add_remove", "average"), ("replace_one", None)]


def is_refused(model, X, message, groups=None):
    """Return whether a fit costs nothing."""
    unit = "row" if groups is None else "group"
    delta = 1e-3 * (model.delta != 0)
    adjacency = model.adjacency or "add_remove"
    ledger = PrivacyLedger(epsilon=99, delta=delta, adjacency=adjacency, unit=unit)
    with pytest.raises(ValueError, match=message):
        model.set_params(ledger=ledger).fit(X, groups=groups)
    return not ledger.entries()


@pytest.mark.simulated(0)
@pytest.mark.parametrize(("adjacency", "limit"), UNITS)
@pytest.mark.parametrize("delta", [0.0, 1e-100])
def test_noise_that_some_step_could_not_have_costs_nothing(delta, adjacency, limit):
    """The first count has less noise than those that follow it."""
    X = np.random.default_rng(0).random((50, 4))
    groups = None if limit is None else np.arange(50) // 3
    outcomes = set()
    for epsilon in 10.0 ** np.array([-11, -10.5, -10, -9.5, -9, -7]):
        budget = {"delta": delta, "adjacency": adjacency, "max_rows_per_group": limit}
        model = AdaptiveSketcher((0, 1), workload=[[0, 1, 2]], epsilon=epsilon, **budget)
        try:
            model.fit(X, groups=groups)
        except ValueError:
            outcomes.add("refused")
            assert is_refused(model, X, "64-bit", groups)
        else:
            outcomes.add("released")
    assert outcomes == {"refused", "released"}


def all_ruled_out():
    """Return schemas of which each combination leaves rows, and all of them none."""
    square = TableSchema({"a": ["x", "y"], "b": ["u", "v"], "c": (0, 1)})
    for one, other in itertools.product("xy", "uv"):
        square = square.never({"a": [one], "b": [other]})
    # No two of three columns may be alike, and there are two values.
    cycle = TableSchema({"a": ["x", "y"], "b": ["x", "y"], "c": ["x", "y"]})
    for (one, other), value in itertools.product(["ab", "bc", "ac"], "xy"):
        cycle = cycle.never({one: [value], other: [value]})
    ranges = TableSchema({"a": Numeric(0, 9, step=1), "b": ["u", "v"], "c": (0, 1)})
    ranges = ranges.never({"a": [0, 4], "b": ["u", "v"]}).never({"a": [5, 9], "c": [0, 1]})
    return {"square": square, "cycle": cycle, "ranges": ranges}


def rows_of(schema, n=60):
    rng = np.random.default_rng(0)
    values = [2 if isinstance(one, Numeric) else one.categories for one in schema.columns]
    return pd.DataFrame({c: rng.choice(some, n) for c, some in zip(schema, values, strict=True)})


@pytest.mark.parametrize("name", ["square", "cycle", "ranges"])
def test_a_schema_that_leaves_no_row_costs_nothing(name, unpaid):
    schema = all_ruled_out()[name]
    X = rows_of(schema)
    assert is_refused(AdaptiveSketcher(schema=schema), X, "leave no possible row")
    assert is_refused(M2MEstimator(schema), X, "leave no possible row")
    with pytest.raises(ValueError, match="leave no possible row"):
        M2MEstimator(schema, release=HistogramSketcher(ledger=unpaid)).fit(X)


def test_one_combination_less_leaves_rows():
    for schema in all_ruled_out().values():
        some = schema.ruling_out(schema.impossible[:-1])
        AdaptiveSketcher(schema=some, epsilon=9).fit(rows_of(some))


@pytest.mark.filterwarnings("ignore:Give 'x1' a wider range")
def test_a_wide_range_with_a_step_is_answered():
    """Where a bin of one value is less than a billionth of the range."""
    X = np.column_stack([np.arange(400) % 2, np.arange(400) * (10**13 // 400)])
    X[:40, 1], X[40:90, 1] = 0, 10**13
    schema = [Numeric(0, 1, step=1), Numeric(0, 10**13, step=1)]
    m2m = M2MEstimator(schema, epsilon=100, random_state=0).fit(X)
    found = np.asarray(m2m.estimate(lambda x: x[:, 1] == 0).value)
    assert found == pytest.approx(0.1025, abs=0.02)
    assert np.asarray(m2m.mean())[1] == pytest.approx(X[:, 1].mean(), rel=0.03)
