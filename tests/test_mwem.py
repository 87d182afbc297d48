"""Multiplicative weights: laws, convergence, and what the printed calibration costs."""

import numpy as np
import pytest
from kit import Wire, cost
from paper_protocols import printed

from skdpsumm.features._feature_maps import GRID
from skdpsumm.privacy import PureDP
from skdpsumm.summaries._auction import MWEM, MWEMNoise

# Scores are equal before and after, but that of the first coordinate grows by 2, and the others
# shrink by 2, when one row is flipped.
FLIPPED = np.array([[9, 11, 11, 11, 11], [11, 9, 9, 9, 9]]) * GRID


@pytest.mark.parametrize(
    ("mwem", "claimed", "is_sound"),
    [(MWEM.for_pure(1.0, 1, 2), 1.0, True), (printed.PrintedMWEM.of(0.5, 1, 2, 0.01), 3.0, False)],
    ids=["sound", "printed"],
)
def test_one_step_costs_what_is_claimed_and_not_what_is_printed(mwem, claimed, is_sound):
    """One step as printed with epsilon = 0.5 is said to be 2 epsilon-DP."""
    assert mwem.epsilon_select + mwem.epsilon_measure == pytest.approx(claimed)
    one = Wire()
    seen = one.run(lambda: mwem.release(FLIPPED[0], 100, MWEMNoise(None))[1])
    other = Wire(one.draws)
    seen_again = other.run(lambda: mwem.release(FLIPPED[1], 100, MWEMNoise(None))[1])
    assert np.array_equal(seen, seen_again)
    spent = float(cost(one.draws, other.draws, PureDP))
    assert spent <= claimed
    assert (0.7 < spent <= 1.0) == is_sound
    assert spent > 1.0 or is_sound


@pytest.mark.parametrize("grid_step", [None, 0.25, 0.01])
def test_tilted_means_are_those_of_the_law(grid_step):
    given = 1, 1.0, 1.0, 1
    mwem = MWEM(*given) if grid_step is None else printed.PrintedMWEM(*given, grid_step=grid_step)
    tilts = np.array([-30.0, -2.0, -1e-5, 0.0, 1e-3, 0.5, 8.0])
    points = np.linspace(-1, 1, 200_001 if grid_step is None else round(2 / grid_step) + 1)
    weights = np.exp(np.outer(tilts, points) - np.abs(tilts)[:, None])
    means = (weights * points).sum(axis=1) / weights.sum(axis=1)
    np.testing.assert_allclose(mwem._tilted_mean(tilts), means, atol=1e-4)


def test_mwem_converges_without_noise():
    rng = np.random.default_rng(0)
    means = rng.uniform(-0.9, 0.9, 20)
    sums = np.rint(1000 * means * GRID).astype(np.int64)
    mwem = MWEM(4000, 1e6, 1e6, 1)
    found, _ = mwem.release(sums, 1000, MWEMNoise(0))
    np.testing.assert_allclose(found, means, atol=0.01)
