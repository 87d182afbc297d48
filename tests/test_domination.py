"""Roots that err on the safe side: what is returned was seen to hold, and is near what does not."""

import math

import pytest

from skdpsumm.privacy import GaussianDP
from skdpsumm.privacy._best_of import BestOf, StoppingLaw
from skdpsumm.privacy._domination import at_most
from skdpsumm.privacy._objective import ObjectiveDP, calibrate

FUNCTIONS = {
    "smooth": lambda x: x**3,
    "kink": lambda x: max(x, 10 * x - 9),
    "step": lambda x: 0.5 if x < 1.2345 else 2.0,
    "from zero": lambda x: max(0.0, x - 1.0) * 1e3,
    "steep": lambda x: math.exp(50 * (x - 1.3)),
    "noisy": lambda x: x * (1 + 1e-13 * math.sin(1e9 * x)),
}


@pytest.mark.parametrize("target", [1.0, 1.1, 1.7])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_point_holds_and_the_next_does_not(name, target):
    value = FUNCTIONS[name]
    found = at_most(value, target, good=0.1, bad=10.0)
    assert value(found) <= target < value(found * (1 + 2e-11))
    # And where values fall.
    found = at_most(lambda x: value(1 / x), target, good=10.0, bad=0.1)
    assert value(1 / found) <= target < value(1 / (found * (1 - 2e-11)))


@pytest.mark.parametrize("target", [1e-290, 1e-300, 1e-305, 1e-310])
def test_a_target_next_to_zero_is_met(target):
    found = at_most(lambda x: 1e-280 * x, target, good=0.0, bad=1.0)
    assert 0 <= 1e-280 * found <= target
    assert ObjectiveDP(0.3, 0.05).delta(ObjectiveDP(0.3, 0.05).epsilon(target)) <= target
    row = {"lipschitz": 1, "smoothness": 0.25, "radius": 1, "regularization": 10}
    noise = [calibrate(1.0, delta, **row).noise_scale for delta in (1e-200, target)]
    assert noise[0] < noise[1] < 2 * noise[0]


def test_a_root_next_to_zero_is_found_or_passed_on_the_safe_side():
    best = BestOf(StoppingLaw(0.0, 20.0), 1e-6)
    delta = best.delta(0.0) * (1 - 1e-13)
    assert best.delta(best.epsilon(delta)) <= delta
    assert best.epsilon(delta) < 1e-12
    assert at_most(lambda x: float(x <= 0), 0.5, good=1.0, bad=0.0) < 1e-9


def test_a_bad_end_that_holds_is_no_error():
    assert 0.9 < at_most(lambda x: 0.0, 0.5, good=0.2, bad=1.0) <= 1.0


def test_no_noise_has_no_finite_cost():
    for rows in (1, 2):
        assert ObjectiveDP(math.inf, 0.1, rows=rows).epsilon(1e-6) == math.inf
    assert GaussianDP(math.inf).epsilon(1e-6) == math.inf
