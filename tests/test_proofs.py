"""The proofs of the docs: their scripts hold the claims, and would not if claims were wrong."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scripts

from skdpsumm.privacy import PureDP

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples/proofs"
PAGE = (ROOT / "docs/proofs.md").read_text()
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def load(name):
    """Return a script as a module of its own, which a test may change."""
    return scripts.load(f"proofs/{name}.py")


@pytest.mark.statistical
@pytest.mark.parametrize("name", SCRIPTS)
def test_claims_hold_and_wrong_ones_are_found_out(name, capsys):
    load(name).main()
    printed = capsys.readouterr().out
    assert "FAIL" not in printed
    assert printed.count("claimed") >= 3
    assert printed.count("wrong on purpose") >= 5
    assert printed.endswith("All claims hold, and all wrong ones were found out.\n")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_has_a_theorem_its_proof_and_a_place_on_the_page(name):
    assert f"*Theorem and proof*: `examples/proofs/{name}.py`" in PAGE
    on_top = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text()))
    assert "docs/proofs.md" in on_top
    for part in ("**Input**", "**Neighbours**", "**Measure**", "**Statement"):
        assert part in on_top.partition("\nTheorem\n-------\n")[2]
    proof = on_top.partition("\nProof\n-----\n")[2].partition("\nIn practice\n")[0]
    assert proof.rstrip().endswith("∎")


def test_no_theorem_lacks_a_script():
    assert PAGE.count("*Theorem and proof*") == len(SCRIPTS)


# ---- what a script says where the library claims too little


def fails(module, check):
    checks = module.Checks("")
    check(checks)
    with pytest.raises(SystemExit, match="failed"):
        checks.close()
    return True


def test_too_little_noise_in_the_objective_fails(monkeypatch):
    module = load("objective")
    calibrate = module.calibrate

    def wrong(*budget, **row):
        found = calibrate(*budget, **row)
        return found._replace(noise_scale=found.noise_scale / 2)

    monkeypatch.setattr(module, "calibrate", wrong)
    assert fails(module, module.check_solver)


def test_too_large_a_ratio_for_the_threshold_fails(monkeypatch):
    module = load("threshold")
    ratio, stated = module.threshold_ratio, module.ThresholdDP
    monkeypatch.setattr(module, "threshold_ratio", lambda *budget: 2 * ratio(*budget))
    monkeypatch.setattr(module, "ThresholdDP", lambda x, n: stated(x / 2, n))
    assert fails(module, module.check_streams)


def test_too_low_a_price_of_a_search_fails(monkeypatch):
    module = load("random_stopping")
    law = module.LAWS["logarithmic"]
    monkeypatch.setattr(module, "LAWS", {"logarithmic": Underpriced(law)})
    assert fails(module, module.check_pure)


class Underpriced:
    """A law whose price is that of runs of four fifths of the cost."""

    def __init__(self, law):
        self._law = law

    def __getattr__(self, name):
        return getattr(self._law, name)

    def price(self, run):
        return self._law.price(PureDP(0.8 * run.epsilon0))


def test_too_little_noise_on_a_function_fails(monkeypatch):
    module = load("functional")
    drawn = module.CoordinateNoise

    def wrong(*given):
        noise = drawn(*given)
        noise.std *= 0.7
        return noise

    monkeypatch.setattr(module, "CoordinateNoise", wrong)
    assert fails(module, module.check_noise)


def test_a_gradient_that_is_not_clipped_fails(monkeypatch):
    module = load("gradient")
    claimed = module.GradientPlan.sensitivity.fget
    halved = property(lambda plan: claimed(plan) / 2)
    monkeypatch.setattr(module.GradientPlan, "sensitivity", halved)
    assert fails(module, module.check_library)


def test_steps_that_are_not_counted_fail(monkeypatch):
    module = load("gradient")
    claim = module.claim
    monkeypatch.setattr(module, "claim", lambda steps, *given: claim(1, *given))
    assert fails(module, module.check_steps)


# ---- the checks themselves


def test_checks_tell_right_from_wrong(capsys):
    checks = load("objective").Checks
    good = checks("")
    good.holds("", 1.0, 1.0)
    good.curve("", [0.0, 1.0], [0.2, 1e-15], [0.2, 0.0])
    good.found_out("", [0.2, 0.1], [0.3, 0.05])
    good.found_out("", [0.2], [0.0])
    good.close()
    for exact, claimed in ((1.1, 1.0), (np.nan, 1.0)):
        bad = checks("")
        bad.holds("", exact, claimed)
        assert bad._failed == 1
    for exact, claimed in (([0.2, 0.1], [0.3, 0.09]), ([np.nan], [1.0]), ([0.1], [np.nan])):
        bad = checks("")
        bad.curve("", range(len(exact)), exact, claimed)
        assert bad._failed == 1
    for exact, wrong in (([0.2], [0.2]), ([0.0], [0.0]), ([1e-13], [0.0]), ([np.nan], [0.1])):
        bad = checks("")
        bad.found_out("", exact, wrong)
        assert bad._failed == 1
    with pytest.raises(SystemExit):
        bad.close()
    assert "FAIL" in capsys.readouterr().out


def test_divergences_of_masses():
    module = load("objective")
    both_ways, hockey_stick = module.both_ways, module.hockey_stick
    p, q = np.array([0.5, 0.5]), np.array([0.75, 0.25])
    assert hockey_stick(p, q, 0.0) == 0.25
    assert both_ways(p, q, np.log(2)) == pytest.approx(max(0.0, 0.75 - 1.0))
    assert both_ways(p, q, np.log(1.2)) == pytest.approx(max(0.5 - 0.3, 0.75 - 0.6))
