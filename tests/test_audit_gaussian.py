"""Bounds on mu, the picture of an audit, and planted bugs that only whole estimators can have.

Bugs that are planted elsewhere: too little noise, the noise of add-remove under replace-one, and
noise used twice (`test_audit`), and those of `test_kit` and `planted_bugs`.
"""

import math
import pickle

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binomtest

from skdpsumm import PrivateMMDSummarizer, audit_epsilon
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.privacy import gdp_mu
from skdpsumm.privacy._mechanisms import gdp_epsilon
from skdpsumm.summaries import Auction
from skdpsumm.summaries._protocol import HandOver

pytestmark = pytest.mark.statistical

DELTA = 1e-6
SURE = 1 - 1e-9


def gaussian(multiplier=1.0, epsilon=1.0, delta=DELTA):
    """Return a release whose true mu is that of a claim, or above it by a multiplier below 1."""
    rng = np.random.default_rng(0)
    scale = multiplier / gdp_mu(epsilon, delta)
    return lambda value: value + rng.normal(scale=scale)


def audit(release, X=1.0, X_neighbour=0.0, **parameters):
    defaults = {"delta": DELTA, "family": "gaussian", "confidence": SURE, "random_state": 0}
    return audit_epsilon(release, X, X_neighbour, **defaults | parameters)


# ---- bounds on mu


def test_power():
    """At 1e5 trials and 99 per cent; the same for Laplace noise is in `test_audit`."""
    result = audit(gaussian(), n_trials=100_000, confidence=0.99)
    assert 0.75 < result.lower_bound < 1.0
    plain = audit(gaussian(), n_trials=100_000, confidence=0.99, family=None)
    assert plain.lower_bound < 0.5  # what the family is for


def test_catches_noise_that_is_too_small():
    """Noise multiplier 0.5 is detected at delta = 1e-6 with 20_000 trials."""
    assert not audit(gaussian(), n_trials=20_000).refutes(1.0)
    assert audit(gaussian(0.5), n_trials=20_000).refutes(1.0)


def test_confidence_is_kept():
    """Bounds above the true mu are rarer than 10 per cent at confidence 0.9."""
    release = gaussian(epsilon=3.0)
    results = [audit(release, n_trials=200, confidence=0.9, random_state=k) for k in range(100)]
    assert sum(result.refutes(3.0) for result in results) <= 10


def test_bound_is_that_of_clopper_and_pearson():
    """Against SciPy's exact interval, and the epsilon against the exact curve."""
    result = audit(gaussian(epsilon=6.0), n_trials=1000, confidence=0.99)
    rare, likely = (
        binomtest(count, 500).proportion_ci(0.99, "exact") for count in sorted(result.counts)
    )
    assert result.mu == pytest.approx(ndtri(likely.low) - ndtri(rare.high))
    assert result.lower_bound == pytest.approx(gdp_epsilon(result.mu, DELTA), rel=1e-6)
    assert 0 < result.lower_bound <= gdp_epsilon(result.mu, DELTA)


def test_it_speaks_of_gaussian_claims_only():
    """Randomised response is (1, 0)-DP, but no Gaussian of epsilon = 1 at a small delta is so bad.

    The label says so, and family=None is not misled.
    """
    rng = np.random.default_rng(0)
    keep = 1 / (1 + math.exp(-1.0))

    def release(bit):
        return bit if rng.random() < keep else 1 - bit

    result = audit(release, 1, 0)
    assert result.refutes(1.0)
    assert "Gaussian differential privacy only" in repr(result)
    assert result.family == "gaussian"
    plain = audit(release, 1, 0, family=None)
    assert not plain.refutes(1.0)
    assert plain.mu is None
    assert "Gaussian" not in repr(plain)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"family": "normal"}, r"family must be .* 'normal'"),
        ({"delta": 0.0}, "delta must be above"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        audit(gaussian(), n_trials=100, **parameters)


# ---- the picture


@pytest.mark.parametrize("family", [None, "gaussian"])
def test_evidence_is_small_frozen_and_travels(family):
    result = audit(gaussian(), n_trials=4000, family=family)
    assert pickle.loads(pickle.dumps(result)) == result
    assert 2 < len(result.curve) <= 200
    alarms, misses = np.transpose(result.curve)
    assert (np.diff(alarms) <= 0).all()
    assert (np.diff(misses) >= 0).all()


@pytest.mark.parametrize("family", [None, "gaussian"])
@pytest.mark.parametrize("multiplier", [1.0, 0.2])
def test_plot_shows_whether_the_claim_is_refuted(family, multiplier):
    plt = pytest.importorskip("matplotlib.pyplot")
    result = audit(gaussian(multiplier, delta=0.1), n_trials=4000, delta=0.1, family=family)
    ax = result.plot(epsilon=1.0)
    by_label = {line.get_label(): line for line in ax.lines}
    x, y = np.ravel(by_label["its confidence limits"].get_data())
    (shade,) = ax.collections
    inside = shade.get_paths()[0].contains_point((x, y))
    assert inside == result.refutes(1.0) == (multiplier < 1)
    own = plt.figure().add_subplot()
    assert result.plot(own) is own
    with pytest.raises(ValueError, match="epsilon must be at least 0"):
        result.plot(own, epsilon=-1.0)
    plt.close("all")


# ---- planted bugs


def test_catches_the_auctions_bit(monkeypatch):
    """Whether an owner is asked; of sound protocols, `test_kit` sees all that an owner is sent.

    The observer comes first, until another owner has a row like the target's.
    """
    monkeypatch.setattr(Auction, "_auction_terms", lambda *_: (5.0, 9))
    summarizer = PrivateMMDSummarizer(
        n_select=1, protocol="auction", n_components=4, delta=0.05, random_state=0, gamma=1.0
    )

    def times_asked(world):
        seen = summarizer.fit(**world).transcript_["observer"]
        return sum(isinstance(message, HandOver) for message in seen)

    pair = worst_case_neighbours(summarizer, side="owners")
    assert audit(times_asked, *pair, delta=0.05, family=None, n_trials=200).refutes(1.0)
