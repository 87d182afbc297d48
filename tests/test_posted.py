"""Protocol "posted": the stream that feedback sums, and its noise, for rows and for groups."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import ARMS, Wire, cost, has_std

from skdpsumm import summaries
from skdpsumm.features._feature_maps import GRID
from skdpsumm.privacy import GaussianDP, _noise, gdp_mu
from skdpsumm.summaries import DataOwner, Posted
from skdpsumm.summaries._mmd import Embedding
from skdpsumm.summaries._posted import RunningSums
from skdpsumm.summaries._protocol import SendAbove

Curator = partial(summaries.Curator, gamma=1.0)


def points(n, centre=0.0, seed=0):
    return np.random.default_rng(seed).normal(centre, 1.0, (n, 2))


def half_turn():
    """Return a row whose phi is opposite to that of the row 0, under the map of the tests below."""
    curator = Curator([[0.0]], ["a"], n_components=2, random_state=0)
    return np.pi / curator.embedding.frequencies[0, 0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), st.booleans(), st.integers(1, 24))
def test_posted_k_rows_of_a_group_enter_the_stream_once(seed, k, replaced, n):
    """Given the broadcasts, a group's k rows come once each, and put out as many others at most."""
    X, phi, rng = (
        points(24, seed=seed),
        Embedding.draw(2, 16, 0.5, "pairs", np.random.RandomState(0)),
        np.random.default_rng(seed),
    )
    groups = np.append(np.zeros(8, int), rng.integers(1, 6, 16))
    messages = [
        SendAbove(
            direction=phi.quantise(rng.normal(size=16)),
            threshold=float(rng.normal(0, 2)),
            rate=float(rng.uniform(0.2, 1)),
            n=n,
            embedding=phi,
            max_rows_per_group=k,
        )
        for _ in range(8)
    ]
    tosses = rng.random((8, 24))

    def fates(rows, X, groups):
        owner = DataOwner(X[rows], groups=groups[rows], max_rows_per_group=k, seed=5)
        rounds = iter(tosses)
        owner._coins = type("Coins", (), {"random": lambda self, n: next(rounds)[rows]})()
        answers = [rows[owner.answer(m).indices].tolist() for m in messages]
        return {(round_, row) for round_, sent in enumerate(answers) for row in sent}

    everyone = np.arange(24)
    one = fates(everyone, X, groups)
    if replaced:
        changed, labels = X.copy(), groups.copy()
        changed[:8], labels[:8] = points(8, seed=seed + 1), 77
        other = fates(everyone, changed, labels)
        other = {(round_, row + 24 * (row < 8)) for round_, row in other}
    else:
        other = fates(everyone[8:], X, groups)
    assert sum(row < 8 for _, row in one) <= k
    assert len(one - other) <= k
    assert len(other - one) <= k


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("k", [1, 4])
def test_posted_noise_is_for_k_rows_in_any_rounds(k, delta, adjacency):
    options = {"protocol": Posted(n_rounds=6), "n_components": 2, "adjacency": adjacency}
    options |= {"max_rows_per_group": k, "target_groups": [0], "n_target": 5, "delta": delta}
    curator = Curator([[0.0]], ["a"], random_state=0, **options)
    sums = curator._plan.release
    stds = sums._noise.std
    phi = curator.embedding
    unit = round(0.5 * GRID / phi.scale)
    # Rows that come, and as many that go: like those, or opposite. An eighth of a turn is worst in
    # L1.
    turns = half_turn() * np.array([[0.25], [1.25]])
    come, opposite = np.column_stack([phi.grid(turns), [unit, unit]]).astype(np.int64)
    rounds, rng, largest = 6, np.random.default_rng(0), 0.0
    for trial in range(60):
        places = np.zeros((2, k), int) if trial == 0 else rng.integers(0, rounds, (2, k))
        stream = np.zeros((rounds, len(come)), np.int64)
        np.add.at(stream, places[0], come)
        np.subtract.at(stream, places[1], come if trial % 4 == 1 else opposite)
        moved = [
            np.tensordot(sums.coefficients[: j + 1][::-1], stream[: j + 1], axes=1)
            for j in range(rounds)
        ]
        if delta:
            cost, bound = np.linalg.norm(moved) / stds[0], gdp_mu(1.0, delta)
        else:
            cost, bound = np.abs(moved).sum() / (stds[0] / np.sqrt(2)), 1.0
        assert cost <= bound * (1 + 1e-6)
        largest = max(largest, cost / bound)
    assert largest > (0.999 if delta else 0.7)  # in L1 counts cancel where rows are opposite


@pytest.mark.parametrize(("factor", "accepted"), ARMS)
def test_running_sums(factor, accepted, monkeypatch):
    """The sum of l rounds has noise s ||c_0 .. c_{l-1}||, s = Delta ||c|| / mu."""
    gaussian = _noise._gaussian_i64
    monkeypatch.setattr(_noise, "_gaussian_i64", lambda v, s: gaussian(v, s * factor))
    R, size = 8, 4000
    k = np.arange(1, R)
    c = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    s = 1e6 * np.linalg.norm(c) / gdp_mu(1.0, 1e-6)
    sums = RunningSums(R, size, np.inf, 1e6, epsilon=1.0, delta=1e-6)
    for last in range(1, R + 1):
        noise = sums.add(np.zeros(size, np.int64), None)
        assert has_std(noise, s * np.linalg.norm(c[:last])) == accepted
        assert np.mean(noise**2) ** 0.5 == pytest.approx(sums.noise_std(), rel=0.4)


def test_running_sums_cost_what_is_claimed():
    """A row comes in the first round; each round draws noise of its own."""

    def spent(stream):
        sums = RunningSums(3, 1, 1e6, 1e6, epsilon=1.0, delta=0.2)
        return sums, [sums.add(values, None) for values in stream]

    one = Wire()
    sums, seen = one.run(lambda: spent(np.zeros((3, 1), np.int64)))
    other = Wire(one.draws)
    _, again = other.run(lambda: spent(np.array([[10**6], [0], [0]])))
    assert np.array_equal(seen, again)
    mu = sums._noise.mechanism.mu
    assert 0.99 < float(cost(one.draws, other.draws, GaussianDP)) / mu**2 <= 1
