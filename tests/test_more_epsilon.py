"""More epsilon is never worse, and none of it is left out where there is no noise at all."""

import itertools

import numpy as np
import pandas as pd
import pytest
from simulated import simulate

from skdpsumm import AdaptiveSketcher, M2MEstimator, Numeric, TableSchema

EPSILONS = [0.01, 0.1, 1.0, 10.0, 100.0, 1e6, np.inf]
N_ROWS, N_SEEDS = 1500, 20


def exclusive(rng):
    """The label is that of either, and of neither alone."""
    X = pd.DataFrame(rng.integers(0, 20, (N_ROWS, 3)), columns=["a", "b", "c"])
    return X.assign(y=np.where((X.a < 10) ^ (X.b < 10), "yes", "no"))


def answers(rng):
    """Nine questions that one trait decides: more pairs than are counted."""
    trait = rng.normal(size=(N_ROWS, 1))
    X = trait + rng.normal(size=(N_ROWS, 9)) > 0
    return pd.DataFrame({f"q{k}": np.where(X[:, k], "yes", "no") for k in range(9)})


def twins(rng):
    """Two numbers, each with a twin, and one that goes with neither."""
    X = pd.DataFrame({"a": rng.integers(0, 20, N_ROWS), "b": rng.binomial(19, 0.3, N_ROWS)})
    return X.assign(c=X.a, d=19 - X.b, e=rng.integers(0, 20, N_ROWS))


def chain(rng):
    """Each of eight numbers is near the one before."""
    X = 10 + 3 * rng.normal(size=(N_ROWS, 8)).cumsum(axis=1) / np.sqrt(np.arange(1, 9))
    return pd.DataFrame(X.round().clip(0, 19).astype(int), columns=[*"abcdefgh"])


def trades(rng):
    """Categories, most of them rare, which tell a label and a number."""
    trade = rng.geometric(0.3, N_ROWS).clip(1, 12)
    pay = rng.binomial(19, trade / 14)
    told = rng.random(N_ROWS) < np.where(trade < 3, 0.9, 0.1 + pay / 40)
    return pd.DataFrame(
        {
            "trade": [f"t{k:02d}" for k in trade],
            "pay": pay,
            "age": rng.integers(0, 20, N_ROWS),
            "y": np.where(told, "yes", "no"),
        }
    )


TABLES = [(exclusive, "y"), (answers, None), (twins, None), (chain, None), (trades, "y")]


def schema_of(X):
    kinds = {c: Numeric(0, 19, step=1) if X[c].dtype.kind == "i" else sorted(set(X[c])) for c in X}
    return TableSchema(kinds)


def release(X, target, epsilon, seed):
    sketcher = AdaptiveSketcher(schema_of(X), target=target, epsilon=epsilon)
    return simulate(sketcher, X, seed=seed).sketch_


def loss(X, target, epsilon, seed):
    """Return the mean total variation of pairs, and of threes with the target; of many, some."""
    m2m = M2MEstimator.from_sketch(release(X, target, epsilon, seed), random_state=0)
    columns = [c for c in X if c != target]
    groups = [*itertools.combinations(X, 2)]
    groups += [(*pair, target) for pair in itertools.combinations(columns, 2)] * bool(target)
    cuts = {c: [0, 5, 10, 15, 19] for c in X if X[c].dtype.kind == "i"}
    coarse = X.assign(**{c: np.minimum(X[c] // 5, 3) for c in cuts})
    found = []
    for group in groups[:: 1 + len(groups) // 30]:
        bins = {c: cuts[c] for c in group if c in cuts}
        told = np.asarray(m2m.table([*group], bins=bins)) / N_ROWS
        truth = np.zeros(told.shape)
        codes = [coarse[c] if c in cuts else pd.Categorical(coarse[c]).codes for c in group]
        np.add.at(truth, tuple(codes), 1 / N_ROWS)
        found.append(np.abs(told - truth).sum() / 2)
    return np.mean(found)


@pytest.mark.long
@pytest.mark.parametrize(("make", "target"), TABLES)
def test_no_step_loses(make, target):
    """By two standard errors of what the seeds lose, each of a table and noise of its own."""
    X = [make(np.random.default_rng(seed)) for seed in range(N_SEEDS)]
    losses = np.array([[loss(x, target, e, seed) for e in EPSILONS] for seed, x in enumerate(X)])
    steps = np.diff(losses, axis=1)
    error = steps.std(axis=0, ddof=1) / np.sqrt(N_SEEDS)
    assert np.all(steps.mean(axis=0) <= 2 * error + 1e-9), losses.mean(axis=0)


@pytest.mark.parametrize(("make", "target"), TABLES)
def test_without_noise_all_is_counted_that_a_large_epsilon_counts(make, target):
    X = make(np.random.default_rng(0))
    large, infinite = (
        {frozenset(group) for part in sketch.feature_map.parts() for group in part.groups}
        for sketch in (release(X, target, e, 0) for e in (100.0, np.inf))
    )
    assert large <= infinite
