"""Noise: the scale claimed is the scale drawn, and the claim covers what is drawn.

Statistical tests come in three arms: the right scale passes, 0.7 and 1.3 times it fail. The first
arm fails by chance with probability 1e-20, by the inequality of Dvoretzky, Kiefer, Wolfowitz and
Massart for the distribution function (exact, for any distribution and sample size) and by ten
standard errors for the variance. The second and third arms fail by chance with probability below
1e-13. With DRAWS samples the variance test always sees a factor of 1.12 on the scale of Laplace
noise and of 1.10 on that of Gaussian noise (1.06 and 1.05 half of the time); the distribution test
sees 1.3, and other shapes.
"""

import json
import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting import get_sigma_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy.special import ndtr

from skdpsumm.privacy._mechanisms import Unprotected
from skdpsumm.privacy._noise import RESERVE, Block, Discreteness, IntegerNoise

DRAWS = {"laplace": 40_000, "gaussian": 25_000}
DELTA_OF = {"laplace": 0.0, "gaussian": 1e-6}
KINDS = sorted(DRAWS)
# Fails once in 1e12 runs; 1e20, mostly, as the tests say that look at the noise's values.
pytestmark = pytest.mark.fresh_noise(1e-12)
ARMS = [(1.0, True), (0.7, False), (1.3, False)]


def build(kind, size=1, sensitivity=8.0, epsilon=1.0):
    block = Block(size, sensitivity, sensitivity)
    return IntegerNoise([block], epsilon=epsilon, delta=DELTA_OF[kind])


@cache
def draws(kind):
    noise = build(kind, DRAWS[kind])
    return noise.add(np.zeros(DRAWS[kind], np.int64)), noise


def laplace_cdf(x, scale):
    """Return P(X <= x) of discrete Laplace noise at the integers below x."""
    p, k = math.exp(-1 / scale), np.floor(x)
    return np.where(k >= 0, 1 - p ** np.abs(k + 1) / (1 + p), p ** np.abs(k) / (1 + p))


def fits(sample, cdf):
    """Whether a sample is within the distance that chance allows of a distribution."""
    values, counts = np.unique(sample, return_counts=True)
    above = np.cumsum(counts) / len(sample)
    below = above - counts / len(sample)
    # Grid steps of the noise are below 1e-4 standard deviations.
    distance = max(np.abs(above - cdf(values)).max(), np.abs(below - cdf(values - 1e-3)).max())
    return distance <= math.sqrt(math.log(2e20) / (2 * len(sample))) + 1e-4


def has_variance(sample, variance, kurtosis):
    slack = 10 * math.sqrt((kurtosis - 1) / len(sample))
    return abs(np.mean(sample**2) / variance - 1) <= slack


# ----------------------------------------------------------------------- what is drawn, three arms


CDFS = {
    "laplace": lambda x, factor: laplace_cdf(x, 8.0 / factor),
    "gaussian": lambda x, factor: ndtr(x * factor / (8.0 * get_sigma_gaussian(1.0, 1e-6))),
}


@pytest.mark.parametrize(("factor", "accepted"), ARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_the_distribution_calibrated_for(kind, factor, accepted):
    assert fits(draws(kind)[0], lambda x: CDFS[kind](x, factor)) == accepted


@pytest.mark.parametrize(("factor", "accepted"), ARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_std_is_that_of_the_noise(kind, factor, accepted):
    sample, noise = draws(kind)
    kurtosis = {"laplace": 6.0, "gaussian": 3.0}[kind]
    assert has_variance(sample, (noise.std[0] / factor) ** 2, kurtosis) == accepted


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_and_releases_are_uncorrelated(kind):
    """Chance fails this once in 1e20; a correlation of 0.15 always does."""
    sample, noise = draws(kind)
    pairs = sample.reshape(-1, 2) / noise.std[0]
    assert abs(np.mean(pairs[:, 0] * pairs[:, 1])) < 9.5 / math.sqrt(len(pairs))
    again = noise.add(np.zeros(len(sample), np.int64)) / noise.std[0]
    assert abs(np.mean(again * sample / noise.std[0])) < 9.5 / math.sqrt(len(sample))


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0, 1e6])
def test_std_of_discrete_laplace_is_exact(scale):
    noise = IntegerNoise([Block(1, scale, scale)], epsilon=1.0, delta=0.0)
    k = np.arange(1, 400 * math.ceil(scale), max(1, math.ceil(scale) // 1000), dtype=float)
    p = math.exp(-1 / scale)
    step = k[1] - k[0]
    variance = 2 * np.sum(k**2 * p**k) * (1 - p) / (1 + p) * step
    assert noise.std[0] == pytest.approx(math.sqrt(variance), rel=1e-2 if step > 1 else 1e-9)


# ----------------------------------------------------------------- pure: exactness of the claim


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1), min_size=1, max_size=6),
    st.floats(1e-3, 1e3),
    st.lists(st.floats(1, 1e6), min_size=6, max_size=6),
)
def test_no_rounding_passes_epsilon(weights, epsilon, sensitivities):
    shares = [w / sum(weights) for w in weights]
    blocks = [Block(1, l1, l1, s) for l1, s in zip(sensitivities, shares, strict=False)]
    noise = IntegerNoise(blocks, epsilon=epsilon, delta=0.0)
    spent = sum(Fraction(b.l1) / Fraction(s) for b, s in zip(blocks, noise._scales, strict=True))
    assert Fraction(epsilon) * (1 - Fraction(1, 10**11)) <= spent <= Fraction(epsilon)


def test_noise_spends_what_opendp_says():
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    noise = IntegerNoise([Block(4, 46342.7, 32768.0, 0.6)], epsilon=0.5, delta=0.0)
    opendp = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=noise._scales[0])
    assert 0.3 * (1 - 1e-4) < opendp.map(46342) <= 0.3  # the largest whole distance
    noise = IntegerNoise([Block(4, 50.0, 25.0)], epsilon=1.0, delta=1e-6)
    opendp = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=noise._scales[0])
    rho = noise.mechanism.mu**2 / 2
    assert rho * (1 - 1e-9) < opendp.map(25.0 * 2.0**noise.lift) <= rho


# ------------------------------------------------------------ Gaussian: exactness of the claim


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-3])
@pytest.mark.parametrize("size", [1, 100_000])
def test_gaussian_claim_is_the_request_and_no_noise_is_wasted(epsilon, delta, size):
    noise = IntegerNoise([Block(size, 1e5, 3e4)], epsilon=epsilon, delta=delta)
    assert 0.999 * epsilon <= noise.mechanism.epsilon(delta) <= epsilon
    assert noise.mechanism.delta(epsilon) <= delta
    analytic = 3e4 * get_sigma_gaussian(epsilon, delta)
    assert analytic <= noise.std[0] <= analytic * (1 + 1e-5)


@pytest.mark.parametrize("shares", [(1.0,), (0.98, 0.02), (0.1, 0.2, 0.7)])
def test_gaussian_blocks_share_mu_squared(shares):
    blocks = [Block(5, 9e4, 1e4 * (k + 1), s) for k, s in enumerate(shares)]
    noise = IntegerNoise(blocks, epsilon=1.0, delta=1e-6)
    scales = np.array(noise._scales) / 2.0**noise.lift
    squares = [(b.l2 / s) ** 2 for b, s in zip(blocks, scales, strict=True)]
    mu = noise.mechanism.mu
    assert math.fsum(squares) == pytest.approx(mu**2, rel=1e-9)
    assert math.fsum(squares) <= mu**2
    assert np.array(squares) / mu**2 == pytest.approx(shares, rel=1e-9)
    assert noise.std == pytest.approx(np.repeat(scales, 5))


def log_ratio(k, sigma):
    """Return log of discrete over rounded continuous Gaussian mass at k, to 40 digits."""
    with mpmath.workdps(40):
        sigma = mpmath.mpf(sigma)
        # The sum of exp(-j^2 / 2 sigma^2) over all integers, by Jacobi's identity.
        total = mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * sigma**2))) if sigma < 5 else None
        total = total or sigma * mpmath.sqrt(2 * mpmath.pi)
        discrete = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * sigma**2)) / total
        half, k = mpmath.mpf(1) / 2, abs(k)
        rounded = mpmath.ncdf((half - k) / sigma) - mpmath.ncdf((-half - k) / sigma)
        return float(mpmath.log(discrete / rounded))


def bound(t, sigma):
    """Return the bound that the notes of `_noise` derive."""
    return max(1 / 8, t**2 / 24) / sigma**2 + 3 * math.exp(-2 * math.pi**2 * sigma**2)


@pytest.mark.parametrize("sigma", [0.5, 0.8, 1.0, 2.0, 4.3, 50.0, 1e4])
@pytest.mark.parametrize("t", [1.0, 3.0, 9.0])
def test_discrete_noise_is_as_close_to_continuous_as_derived(sigma, t):
    largest = math.floor(t * sigma)
    ks = np.unique(np.linspace(0, largest, 12).astype(int))
    worst = max(abs(log_ratio(int(k), sigma)) for k in ks)
    assert worst <= bound(t, sigma)
    if sigma > 2:
        assert worst >= 0.3 * bound(t, sigma)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.3, 50.0])
@pytest.mark.parametrize("t", [1.5, 3.0, 6.0])
def test_discrete_noise_has_the_tail_that_is_claimed(sigma, t):
    k = np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    mass = np.exp(-(k**2) / (2 * sigma**2))
    assert mass[np.abs(k) > t * sigma].sum() / mass.sum() <= 2 * math.exp(-(t**2) / 2)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize(("size", "l2"), [(1, 1.0), (200, 3e5), (100_000, 100.0)])
def test_discreteness_is_in_the_claim_and_fits_the_reserve(epsilon, size, l2):
    delta = 1e-6
    blocks = [Block(size, l2, l2, 0.9), Block(1, l2, l2 / 2, 0.1)]
    noise = IntegerNoise(blocks, epsilon=epsilon, delta=delta)
    claim = noise.mechanism
    core = math.sqrt(2 * math.log(2 * (size + 1) / claim.tail)) + claim.mu
    scales = zip(noise.blocks, noise._scales, strict=True)
    needed = math.fsum(block.size * bound(core, scale) for block, scale in scales)
    assert claim.log_ratio >= needed * (1 - 1e-9)
    assert 0 < 2 * claim.log_ratio <= RESERVE * epsilon / 2
    assert 0 < claim.tail <= RESERVE * delta / 2
    assert min(noise._scales) >= 2


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1e3, 1e5])
def test_the_discreteness_of_a_group_by_the_densities_themselves(epsilon, size):
    """Neighbours in more rows are farther apart, where discrete and continuous noise differ more.

    The claim is of outputs that are likely for one table, under the law of either. The farthest of
    them from the centre of the other table is where the densities differ most.
    """
    noise = IntegerNoise([Block(1, 1.0, 1.0)], epsilon=epsilon, delta=1e-6)
    likely = math.sqrt(2 * math.log(2 / noise.mechanism.tail)) * noise._scales[0]
    farthest = math.floor(likely) + size * 2**noise.lift
    differ = abs(log_ratio(farthest, noise._scales[0]))
    claims = [noise.mechanism.group(size)]
    if size == 2:
        claims.append(noise.cost_between([(2.0, 2.0)]))
    for claim in claims:
        assert differ <= claim.log_ratio
        if epsilon == 1e5:  # where a row moves the centre beyond all that is likely
            assert differ >= 0.95 * claim.log_ratio
        assert claim.tail >= noise.mechanism.tail
        assert claim.mu == pytest.approx(size * noise.mechanism.mu)


@pytest.mark.parametrize("mu", [0.1, 5.0, 200.0])
@pytest.mark.parametrize("scale", [3.0, 1e3])
def test_the_discreteness_of_noise_in_an_objective_by_the_densities_themselves(mu, scale):
    one = Discreteness(1, mu, 1.0, 1e-6)
    farthest = math.floor((math.sqrt(2 * math.log(2 / one.tail)) + mu) * scale)
    differ = abs(log_ratio(farthest, scale))
    claim = one.needed(1, scale) + one.poisson
    assert differ <= claim
    if scale == 1e3:
        assert differ >= 0.95 * claim
    seven = Discreteness(7, mu, 1.0, 1e-6)
    assert seven.needed(7, scale) + seven.poisson >= 7 * claim


def exact_delta(sigma, shift, epsilon):
    """Return the hockey-stick divergence of discrete Gaussian noise between 0 and `shift`.

    Only where the loss exceeds epsilon is there a term; nine sigma further terms are below 1e-17 of
    the first. The normaliser is Poisson's sum, whose other terms are exp(-2 (pi sigma)^2) and less.
    """
    last = math.ceil(shift / 2 - epsilon * sigma**2 / shift)
    total, size = 0.0, 2**15  # what a cache holds
    for first in range(last - math.ceil(9 * sigma), last + 1, size):
        k = np.arange(first, min(first + size, last + 1), dtype=float)
        loss = (shift - 2 * k) * (shift / (2 * sigma**2))
        excess = np.maximum(0, -np.expm1(epsilon - loss))
        total += np.exp(k * k * (-1 / (2 * sigma**2))) @ excess
    return total / (math.sqrt(2 * math.pi) * sigma)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("asked", "l2", "ratio"),
    [(0.5, 1, 1.0), (0.5, 1, 1.3), (1.0, 30, 0.0), (1.0, 30, 0.5), (6.0, 1, 0.5), (6.0, 1, 1.0)],
)
def test_the_claim_covers_the_exact_distribution_closely(asked, l2, ratio):
    """Sums over all terms of the noise that is drawn, lifted as it is."""
    noise = IntegerNoise([Block(1, l2, l2)], epsilon=asked, delta=1e-6)
    exact = exact_delta(noise._scales[0], l2 * 2**noise.lift, ratio * asked)
    claimed = noise.mechanism.delta(ratio * asked)
    assert exact <= claimed
    assert exact >= (claimed - noise.mechanism.tail) * (1 - 1e-4)


# ------------------------------------------------------------------------------- shares and blocks


@pytest.mark.parametrize("shares", [(0.98, 0.04), (1.0, 1.0), (1.5,), (0.5, 0.0), (1.2, -0.2)])
@pytest.mark.parametrize("kind", KINDS)
def test_shares_that_claim_more_than_the_budget_are_refused(kind, shares):
    blocks = [Block(1, 8.0, 8.0, share) for share in shares]
    refused("shares", IntegerNoise, blocks, epsilon=1.0, delta=DELTA_OF[kind])


# ------------------------------------------------------------------------------------------- ends


def test_infinite_epsilon_adds_nothing():
    noise = IntegerNoise([Block(3, 8.0, 8.0)], epsilon=math.inf, delta=1e-6)
    values = np.array([1, -5, 2**40])
    assert noise.add(values).tolist() == values.tolist()
    assert noise.std.tolist() == [0, 0, 0]
    assert isinstance(noise.mechanism, Unprotected)


@pytest.mark.parametrize("delta", [0.0, 1e-16])
def test_a_tiny_epsilon_is_refused(delta):
    refused("raise epsilon", IntegerNoise, [Block(1, 4e4, 4e4)], epsilon=1e-16, delta=delta)


def test_sums_beyond_64_bits_are_refused():
    noise = build("gaussian", 1, sensitivity=1.0)
    limit = 2 ** (63 - noise.lift)
    refused("several parts", noise.add, np.array([limit]), error=OverflowError)
    refused("several parts", noise.add, np.array([-limit - 1]), error=OverflowError)
    assert np.isfinite(noise.add(np.array([limit // 2])))


def test_noise_at_the_end_of_the_range_does_not_wrap():
    """A wrap would turn a large sum into a negative one, which no claim covers, and no noise does:
    8192 scales of it are exceeded once in 1e3557 runs.
    """
    noise = IntegerNoise([Block(50, 2.0**50, 2.0**50)], epsilon=1.0, delta=0.0)
    assert np.all(noise.add(np.full(50, 2**63 - 1)) > 0)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_numpy_scalars_count_as_the_numbers_they_are(kind, delta):
    """In float32 arithmetic the noise would come out below its claim."""
    epsilon = kind(3) if kind is np.int64 else kind(0.1)
    noise = IntegerNoise([Block(1, 46342.7, 32768.9)], epsilon=epsilon, delta=delta)
    json.dumps(noise.mechanism.to_dict())
    assert noise.mechanism.epsilon(delta) <= float(epsilon)
    if delta == 0:
        assert Fraction(46342.7) / Fraction(noise._scales[0]) <= Fraction(float(epsilon))


# ---------------------------------------------------------------------------------------- seeds


@pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
def test_blocks_released_one_by_one_have_the_noise_of_all():
    noise = IntegerNoise([Block(3, 5e5, 5e5, 0.5), Block(2, 4e5, 4e5, 0.5)], epsilon=1, delta=1e-6)
    values = np.arange(5)
    whole = noise.add(values, noise_seed=3)
    parts = [noise.add_block(0, values[:3], 3), noise.add_block(1, values[3:], 3)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
