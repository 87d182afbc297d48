"""A promise in plain words: what it says is true of the claim, and of nothing else."""

import re
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from refusals import refused
from scipy.stats import norm

from skdpsumm import BudgetExceededError, PrivateMMDSummarizer, TDILClassifier, __main__
from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PrivacyLedger, PureDP, gdp_mu
from skdpsumm.privacy._mechanisms import Unprotected
from skdpsumm.sketches import HistogramSketcher, PrivateSketch

X = np.random.default_rng(0).random((300, 2))


def right(claim, about="In figures"):
    """Return the two figures that an explanation gives for a guess."""
    said = dict(claim.explain().lines)[about]
    return [float(figure) for figure in re.findall(r"([\d.]+) times", said)]


@pytest.mark.parametrize(
    ("mechanism", "one", "five"),
    [
        (PureDP(0.5), 1 / (1 + np.exp(-0.5)), 1 / (1 + np.exp(-2.5))),
        (GaussianDP(0.3), norm.cdf(0.15), norm.cdf(0.75)),
    ],
)
def test_figures_are_those_of_the_best_attack(mechanism, one, five):
    claim = PrivacyGuarantee(mechanism)
    assert right(claim) == [50, pytest.approx(100 * one, abs=0.11)]
    several = right(claim, "For a person with several rows")
    assert several == [50, pytest.approx(100 * five, abs=0.11)]


def test_each_part_of_a_claim_is_said_where_it_holds():
    text = repr(PrivacyGuarantee(PureDP(1.0), "replace_one", unit="one group").explain())
    assert "Replace one group among the rows of X by any other" in text
    assert "several rows" not in text
    assert "All rows with one label" in text
    assert "Each further release" in repr(PrivacyGuarantee(PureDP(1.0), counted=False).explain())
    text = repr(PrivacyGuarantee(PureDP(1.0), simulated=True).explain())
    assert "Nothing: the noise has a seed" in text
    assert "Against whom" not in text
    text = repr(PrivacyGuarantee(GaussianDP(gdp_mu(8.0, 1e-3))).explain())
    assert "other deltas\n  (8, 1e-3), " in text
    text = repr(PrivacyGuarantee(GaussianDP(0.3, tail=1e-8)).explain())
    assert "1e-7)." in text  # below its tail it promises nothing
    lost = PrivacyGuarantee(Unprotected("it reads <b>rows</b>")).explain()
    assert [about for about, _ in lost.lines] == ["What is promised"]
    assert "&lt;b&gt;" in lost._repr_html_()


def test_several_claims_are_explained_one_by_one():
    summary = PrivateMMDSummarizer((0, 1), n_select=5).fit(X[:50], X_target=X[50:90])
    text = repr(summary.privacy_.explain())
    for name in ("consumer", "target", "owners"):
        assert f"\n{name}: What is promised\n" in text


def test_a_file_is_shown(tmp_path, monkeypatch, capsys):
    schema = {"age": (0, 90), "job": ["cook", "smith"]}
    rows = pd.DataFrame({"age": [20.0, 30.0], "job": ["cook", "smith"]})
    path = tmp_path / "cells.sketch"
    HistogramSketcher(schema=schema, epsilon=2.0).fit(rows).sketch_.save(path)
    monkeypatch.setattr(sys, "argv", ["skdpsumm", "show", str(path)])
    __main__.main()
    shown = capsys.readouterr().out
    assert shown.startswith("(2, 1e-6)-DP for one row")
    assert "\nColumns\n  age: Numeric(0, 90)\n  job: Categorical(['cook', 'smith'])\n\n" in shown
    sketch = PrivateSketch.load(path)
    noise = f"histogram ({len(sketch.sums)}) +- {sketch.noise_std[0]:.3g}"
    assert f"What was counted, and its noise\n  {noise}\n" in shown
    PrivacyLedger(tmp_path / "ledger", epsilon=2.0)
    ledger = PrivacyLedger.open(tmp_path / "ledger")
    ledger.charge(PureDP(2.0), label="all of it")
    with pytest.raises(BudgetExceededError, match="The budget is spent, and nothing can follow"):
        ledger.charge(PureDP(0.1))
    monkeypatch.setattr(sys, "argv", ["skdpsumm", "show", str(tmp_path / "ledger")])
    __main__.main()
    shown = capsys.readouterr().out
    assert shown.startswith("Spent: epsilon=2 of 2 at delta=0, for one row, add-remove\n1. ")
    assert "default: all of it, epsilon=2\nLeft for one more release of 'default'" in shown
    lost = joblib.dump(TDILClassifier(), tmp_path / "model.joblib")
    monkeypatch.setattr(sys, "argv", ["skdpsumm", "show", *lost])
    refused(r"not a sketch file.*A pickled model says", __main__.main, error=SystemExit)
    monkeypatch.setattr(sys, "argv", ["skdpsumm", "show", str(tmp_path / "none")])
    refused("No such file", __main__.main, error=SystemExit)


@pytest.mark.parametrize(
    "cap", [{"delta": 1e-6}, {"delta": 1e-6, "accountant": "zcdp"}, {"delta": 0}]
)
def test_as_many_releases_as_were_planned_fit_and_no_more(cap):
    ledger = PrivacyLedger(epsilon=3.0, **cap)
    sketcher = HistogramSketcher(schema=(0, 1), epsilon=0.5, delta=cap["delta"], ledger=ledger)
    each = sketcher.fit(X).ledger.plan(7)
    for _ in range(7):
        sketcher.set_params(epsilon=each.epsilon, delta=each.delta).fit(X)
    assert ledger.remaining.epsilon < 1e-4
    assert ledger.spent.epsilon <= 3.0 * (1 + 1e-12)
    assert each.epsilon >= 2.5 / 7 * (1 - 1e-9)
    frame = ledger.to_frame()
    assert (len(frame), frame["epsilon"].iloc[1:].nunique()) == (8, 1)
    assert all(isinstance(text, str) for text in frame["mechanism"])
