"""The demonstration prints a table that can be believed: intervals, and what is drowned marked."""

import re
import sys

import pytest
from answers import answer_of

from skdpsumm import PrivateSketch, __main__, _demo


def test_a_cell_shows_the_interval_or_that_the_answer_is_drowned():
    question = _demo.Question(lambda m2m: m2m, 10.0)
    assert _demo.written(answer_of(3.0, 0.5), question) == "3.0 [2.0, 4.0]"
    assert _demo.written(2.0, question) == "2.0"
    assert _demo.written(None, question) == "drowned in noise"


def test_what_is_wider_than_half_of_what_is_possible_is_drowned(monkeypatch):
    questions = {
        "told": _demo.Question(lambda m2m: answer_of(3.0, 1.0), 10.0),
        "drowned": _demo.Question(lambda m2m: answer_of(3.0, 2.0), 10.0),
    }
    monkeypatch.setattr(_demo, "QUESTIONS", questions)
    told, drowned = _demo.ask_all(None)
    assert float(told) == 3.0
    assert drowned is None


def test_hits_are_counted_of_what_is_shown():
    answers = [answer_of(3.0, 1.0), None, answer_of(3.0, 0.1)]
    assert _demo.covered(answers, [4.0, 9.0, 4.0]) == [True, False]


def test_the_first_job(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    _demo.sketch_once(tmp_path)
    shown = capsys.readouterr().out
    assert PrivateSketch.load(tmp_path / "skdpsumm_demo.sketch").privacy.short in (
        "(10, 1e-6)-DP for one row, add or remove"
    )
    assert (tmp_path / "skdpsumm_demo.png").stat().st_size > 0
    assert "(1, 1e-6)-DP for one row, add or remove" in shown
    assert "GaussianDP(" not in shown  # what a mechanism is made of is for those who ask
    cells = re.findall(r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]", shown)
    n_drowned = shown.count(_demo.DROWNED) - 1  # one explains it
    assert len(cells) + n_drowned == len(_demo.QUESTIONS) * len(_demo.EPSILONS)
    hits, of = map(int, re.search(r"(\d+) of these (\d+) hold", shown).groups())
    assert hits <= of == len(cells)
    for cell in cells:
        value, low, high = (float(number) for number in re.findall(r"-?[\d.]+", cell))
        assert low <= value <= high


def test_without_the_extra_plot_the_demonstration_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr(sys, "argv", ["skdpsumm"])
    with pytest.raises(SystemExit, match=r"pip install 'skdpsumm\[plot\]'"):
        __main__.main()
