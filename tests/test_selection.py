"""MMD, and the choice of rows that makes it small."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from skdpsumm import greedy_mmd_selection, mmd2, uniform_selection
from skdpsumm.summaries import _mmd


def points(n, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def naive(X, Y, gamma):
    kernels = [rbf_kernel(*pair, gamma=gamma) for pair in ((X, X), (X, Y), (Y, Y))]
    return kernels[0].mean() - 2 * kernels[1].mean() + kernels[2].mean()


@pytest.mark.parametrize("block", [2**22, 50])
def test_mmd2_is_the_definition(block, monkeypatch):
    monkeypatch.setattr(_mmd, "ENTRIES_OF_KERNEL_BLOCK", block)
    X, Y = points(30), points(40, seed=1) + 0.3
    assert mmd2(X, Y, gamma=0.7) == pytest.approx(naive(X, Y, 0.7), abs=1e-14)


def test_mmd2_does_not_lose_digits_far_from_the_origin():
    X, Y = points(30), points(40, seed=1)
    assert mmd2(X + 1e6, Y + 1e6, gamma=1.0) == pytest.approx(mmd2(X, Y, gamma=1.0), rel=1e-6)


def test_mmd2_of_far_rows_has_ones_on_the_diagonal():
    far = [[1e7, 1e7 / 3, 7e6]]
    assert mmd2(far, [[0.0, 0.0, 0.0]], gamma=1.0) == 2
    X, Y = points(50) + 1e9, points(50, seed=1)
    assert mmd2(X, Y, gamma=1.0) == pytest.approx(
        rbf_kernel(points(50), gamma=1).mean() + rbf_kernel(Y, gamma=1).mean(), abs=1e-4
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(3, 12), st.floats(0.1, 3))
def test_greedy_takes_the_best_row_each_time(seed, p, n, gamma):
    X, target = points(n, seed=seed), points(7, seed=seed + 1)
    chosen = greedy_mmd_selection(X, target, p, gamma=gamma, refine=False)
    assert len(chosen) == min(p, n) == len(set(chosen.tolist()))
    for k in range(len(chosen)):
        rest = np.setdiff1d(np.arange(n), chosen[:k])
        losses = {i: mmd2(X[[*chosen[:k], i]], target, gamma=gamma) for i in rest}
        assert losses[chosen[k]] <= min(losses.values()) + 1e-12


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 8))
def test_no_single_exchange_improves_a_refined_choice(seed, p):
    X, target = points(20, seed=seed), points(30, seed=seed + 1)
    greedy = greedy_mmd_selection(X, target, p, refine=False, gamma=1.0)
    chosen = greedy_mmd_selection(X, target, p, n_perturbations=5, random_state=0, gamma=1.0)
    alike, near = rbf_kernel(X, gamma=1.0), rbf_kernel(X, target, gamma=1.0).mean(axis=1)

    def loss(rows):  # MMD^2 but for a constant
        return alike[np.ix_(rows, rows)].mean() - 2 * near[rows].mean()

    assert loss(chosen) <= loss(greedy) + 1e-9
    for slot, row in itertools.product(range(p), np.setdiff1d(np.arange(20), chosen)):
        other = np.where(np.arange(p) == slot, row, chosen)
        assert loss(other) > loss(chosen) - 1e-5


def test_uniform_selection_is_without_replacement():
    assert sorted(uniform_selection(20, 30, random_state=0)) == list(range(20))
    chosen = [uniform_selection(5, 2, random_state=seed) for seed in range(2000)]
    counts = np.bincount(np.concatenate(chosen))
    assert np.all(np.abs(counts - 800) < 8 * np.sqrt(2000 * 0.4 * 0.6))
