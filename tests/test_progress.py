"""Progress: shown where asked for, and never else."""

import re

import numpy as np
import pytest
import sklearn
from catalogue import of
from sklearn.kernel_approximation import RBFSampler

from skdpsumm import TDDLClassifier, TDILClassifier, _computing
from skdpsumm._computing import advance, progress
from skdpsumm.privacy._noise import noisy_integers

X = np.random.default_rng(0).random((120, 2))
y = (X[:, 0] > 0.5).astype(int)


def wide():
    """Return a map to so many features that 3,000 rows have several blocks."""
    return RBFSampler(n_components=1000, random_state=0)


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


class Counting:
    """A bar that counts."""

    n_steps = 0

    def update(self, n):
        self.n_steps += n

    def close(self):
        pass


@pytest.mark.statistical
def test_solvers_report_what_grows_with_the_rows(monkeypatch):
    """Every block of a Gram matrix, of products that certify it, and of explicit features."""
    bar = Counting()
    monkeypatch.setattr(_computing, "_Lines", lambda *about: bar)
    rows = np.random.default_rng(0).random((3000, 2))
    labels = rows[:, 0] > 0.5
    with progress("", 1):
        TDDLClassifier(gamma=1.0).fit(rows, labels, X_public=rows[:20])
    assert bar.n_steps > 6 * 7 / 2 + 3000 // 32  # blocks of 512 rows by 512, and of 32 rows
    bar.n_steps = 0
    # With so little memory no block is kept.
    with sklearn.config_context(working_memory=1e-3), progress("", 1):
        options = {"kernel": wide(), "mechanism": "functional"}
        TDILClassifier(norm_bound=2.0, **options).fit(rows, labels)
    assert bar.n_steps > 3 * 4  # passes by blocks


def test_lines_come_every_other_second(capsys, monkeypatch):
    now = iter(np.arange(0, 100, 0.75))
    monkeypatch.setattr(_computing.time, "monotonic", lambda: next(now))
    with progress("work", 1, 6):
        for _ in range(6):
            advance()
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) < 6
    assert lines[0].startswith("work: ")
    assert lines[-1].startswith("work: 6 of 6 steps")


def test_progress_ends_with_an_error(capsys):
    def fail():
        with progress("work", True, 3):
            advance(2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert re.match(r"work: 2 of 3 steps, .* s, done\n$", capsys.readouterr().err)
    advance()  # nothing is shown any more, so nothing happens
    assert capsys.readouterr().err == ""


def test_exact_noise_tells_how_many_numbers_are_drawn(capsys, monkeypatch):
    values = np.zeros(9 * 4096 + 5, np.int64)
    with progress("fit", 1):
        noisy_integers(values[:5], 10.0, "gaussian")
    assert "noise" not in capsys.readouterr().err  # that took less than two seconds
    now = iter(np.arange(0, 1000, 0.75))
    monkeypatch.setattr(_computing.time, "monotonic", lambda: next(now))
    with progress("fit", 1):
        noisy = noisy_integers(values.reshape(-1, 1), 10.0, "laplace")
    assert noisy.shape == (len(values), 1)
    shown = capsys.readouterr().err.splitlines()
    assert any(re.match(r"exact noise.*: \d+ of 36869 steps, .* s$", line) for line in shown)
    assert re.match(r"exact noise.*: 36869 of 36869 steps, .* s, done", shown[-2])
    assert shown[-1].startswith("fit: 0 steps")
    noisy_integers(values, 10.0, "laplace")  # by itself, or with verbose=0
    assert capsys.readouterr().err == ""
