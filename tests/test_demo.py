"""The demonstration prints a table that can be believed: each answer has its interval."""

import re
import sys

import pytest

from skdpsumm import AnswerWarning, PrivateSketch, __main__


@pytest.mark.filterwarnings(f"ignore::{AnswerWarning.__module__}.AnswerWarning")
def test_the_job(tmp_path, capsys):
    __main__.sketch_once(tmp_path)
    shown = capsys.readouterr().out
    promised = PrivateSketch.load(tmp_path / "skdpsumm_demo.sketch").privacy.short
    assert promised == "(10, 1e-6)-DP for one row, add or remove"
    assert f"The last file promises: {promised}." in shown
    cells = re.findall(r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]", shown)
    assert len(cells) == 3 * len(__main__.QUESTIONS)
    for cell in cells:
        value, low, high = (float(number) for number in re.findall(r"-?[\d.]+", cell))
        assert low <= value <= high


def test_without_the_extra_plot_the_demonstration_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr(sys, "argv", ["skdpsumm"])
    with pytest.raises(SystemExit, match=r"pip install 'skdpsumm\[plot\]'"):
        __main__.main()
