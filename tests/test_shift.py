"""Rows that are unlike the points: what the regression misses for it is in the interval."""

import numpy as np
import pytest
from answers import holds
from simulated import simulate

from skdpsumm import M2MEstimator, Points, RACESketcher, RFFSketcher
from skdpsumm.moments.inferring._points import MomentRegression, Shift

pytestmark = pytest.mark.simulated(0)
CUTS = np.linspace(0.1, 0.9, 5)
SKETCHERS = {"rff": RFFSketcher(n_components=100)}
SKETCHERS["race"] = RACESketcher(n_repetitions=20, n_buckets=10, bandwidth=0.3)


def bands(seed, n=8000):
    """Return five columns in [0, 1] near two curves; no constant was chosen on them."""
    rng = np.random.default_rng(seed)
    t, up = rng.beta(1, 4, n), rng.random(n) < 0.7
    X = np.column_stack([t, t**2, np.where(up, t, 0.9 - t), 0.05 + 0.1 * up, np.sqrt(t) / 2])
    return np.clip(X + rng.normal(0, 0.02, X.shape), 0, 1)


def read(X, prior="auto", seed=0, epsilon=1.0, sketcher=None, **options):
    sketcher = sketcher or RFFSketcher(n_components=100)
    sketcher.set_params(schema=(0, 1), epsilon=epsilon, random_state=seed)
    options = {"n_synthetic": 3000, "random_state": seed} | options
    sketch = simulate(sketcher, X, seed=seed).sketch_
    return M2MEstimator.from_sketch(sketch, inference=Points(prior=prior), **options)


def coverage(prior, name="rff", epsilons=(0.5, np.inf), seeds=5):
    """Return the shares of means, covariances and CDF values that 95 per cent intervals hold."""
    covered = {"mean": [], "covariance": [], "cdf": []}
    for seed in range(seeds):
        X = bands(seed)
        truths = {"mean": X.mean(axis=0), "covariance": np.cov(X.T, bias=True)}
        for epsilon in epsilons:
            model = read(X, prior, seed, epsilon, SKETCHERS[name])
            asked = {"mean": model.mean(), "covariance": model.covariance()}
            found = [(what, answer, truths[what]) for what, answer in asked.items()]
            found += [("cdf", model.cdf(j, CUTS), (X[:, [j]] <= CUTS).mean(axis=0)) for j in (0, 2)]
            for what, answer, truth in found:
                covered[what] += np.ravel(holds(answer, truth)).tolist()
    return {what: np.mean(held) for what, held in covered.items()}


@pytest.mark.statistical
@pytest.mark.parametrize("name", SKETCHERS)
@pytest.mark.parametrize("prior", ["auto", "uniform"])
def test_intervals_hold_the_truth_where_rows_are_unlike_points(prior, name):
    found = coverage(prior, name, seeds=3)
    assert min(found.values()) >= 0.9, found


def test_rows_like_points_are_no_shift():
    """And their intervals are as sharp as the noise lets them be."""
    model = read(np.random.default_rng(0).random((30_000, 5)))
    assert model._plausible.shift.largest < 0.01
    assert np.all(model.mean().std_error < 2 * model.mean().noise_std_error + 0.002)
    assert read(bands(0), "uniform")._plausible.shift.largest > 0.3


def test_one_point_of_the_prior_is_a_shift_of_one():
    """On average over the points, as Theorem 3.1 has it; without noise that is exact."""
    model = read(bands(0), "uniform", epsilon=np.inf)
    regression = model._regression
    moves = np.vstack([b for b in regression.features.blocks]).T - regression.offset[:, None]
    mean_square = regression.squares(moves).mean() / len(regression.offset)
    assert mean_square == pytest.approx(1.0, abs=0.01)
    assert model._plausible.shift.told == pytest.approx(1.0, abs=0.01)


def test_noise_alone_is_no_shift():
    """Points that are the rows: all that the sketch differs by is noise."""
    X, found = bands(0), []
    for seed in range(5):
        sketcher = RFFSketcher((0, 1), n_components=100, epsilon=1.0, random_state=seed)
        sketch = simulate(sketcher, X, seed=seed).sketch_.unprojected()
        regression = MomentRegression(sketch, X, regularization="theory", center=True)
        found.append(Shift.of(regression))
    errors = [shift.mean_square / shift.error for shift in found]
    assert np.mean(errors) < 2
    assert all(shift.told < 0.999 for shift in found)


def test_the_choice_is_made_from_the_release_alone():
    """Two readers of one release have the same points, and nothing more is charged."""
    sketch = RFFSketcher((0, 1), n_components=100, random_state=0).fit(bands(0)).sketch_
    options = {"n_synthetic": 1000, "random_state": 3}
    one, other = (M2MEstimator.from_sketch(sketch, **options) for _ in range(2))
    assert np.array_equal(one._regression.points, other._regression.points)
    assert one.privacy_ == sketch.privacy


def test_public_points_near_the_rows_are_a_smaller_shift():
    X, public = bands(0), bands(1, n=300)
    near, anywhere = (read(X, prior)._plausible.shift.largest for prior in (public, "uniform"))
    assert near < anywhere / 2


@pytest.mark.parametrize("covers", ["table", "population"])
def test_a_large_unit_of_one_column_leaves_the_errors_of_others(covers):
    """By a power of two, which rounds nothing."""
    X, unit = bands(0), 2.0**30
    scale = np.array([unit, 1, 1, 1, 1])
    sketcher = RFFSketcher(n_components=60, random_state=0)
    schema = [(0, unit)] + 4 * [(0, 1)]
    options = {"n_synthetic": 2000, "random_state": 0, "inference": Points(prior="uniform")}
    large = M2MEstimator(schema, release=sketcher, **options).fit(X * scale)
    small = M2MEstimator((0, 1), release=sketcher, **options).fit(X)
    intervals = [model.covariance().interval(covers=covers) for model in (large, small)]
    found, expected = (np.ptp(interval, axis=-1) for interval in intervals)
    # Of 100 simulated draws, which rounding may have turned round.
    np.testing.assert_allclose(found / np.outer(scale, scale), expected, rtol=0.3)
