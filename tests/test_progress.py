"""Progress: shown where asked for, and never else."""

import io
import re
import sys

import numpy as np
import pytest
from catalogue import of

from skdpsumm import _computing
from skdpsumm._computing import advance, progress
from skdpsumm.privacy._noise import noisy_integers

X = np.random.default_rng(0).random((120, 2))
y = (X[:, 0] > 0.5).astype(int)


# What can take more than two seconds; of a summarizer see below.
SLOW = of("sketcher", "model")


@pytest.mark.parametrize("name", SLOW)
def test_fits_show_steps_only_where_asked(name, capsys):
    one = SLOW[name]
    estimator = one.make()
    one.fit(estimator, X, y, X[:, 0])
    assert capsys.readouterr() == ("", "")
    one.fit(estimator.set_params(verbose=1), X, y, X[:, 0])
    out, err = capsys.readouterr()
    assert out == ""
    name, steps = err.strip().splitlines()[-1].split(": ")
    assert name.startswith(type(estimator).__name__)
    assert int(steps.split()[0]) > 0
    assert steps.endswith("done")


def test_lines_come_every_other_second(capsys, monkeypatch):
    now = iter(np.arange(0, 100, 0.75))
    monkeypatch.setattr(_computing.time, "monotonic", lambda: next(now))
    with progress("work", 1):
        for _ in range(6):
            advance()
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) < 6
    assert lines[0].startswith("work: ")
    assert lines[-1].startswith("work: 6 steps")


def test_progress_ends_with_an_error(capsys):
    def fail():
        with progress("work", True):
            advance(2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert re.match(r"work: 2 steps, .* s, done\n$", capsys.readouterr().err)
    advance()  # nothing is shown any more, so nothing happens
    assert capsys.readouterr().err == ""


def test_a_stream_that_is_gone_loses_no_release(monkeypatch):
    """The last line comes after the charge."""
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    of("sketcher")["histogram"].make(verbose=1).fit(X)


def test_exact_noise_shows_that_it_goes_on(capsys, monkeypatch):
    """Its numbers are no steps, for these are of rows."""
    values = np.zeros(9 * 4096 + 5, np.int64)
    monkeypatch.setattr(_computing, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress("fit", 1):
        advance()
        noisy = noisy_integers(values.reshape(-1, 1), 10.0, "laplace")
    assert noisy.shape == (len(values), 1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + 10 + 1
    assert all(line.startswith("fit: 1 steps") for line in lines)
    noisy_integers(values, 10.0, "laplace")  # by itself, or with verbose=0
    assert capsys.readouterr().err == ""
