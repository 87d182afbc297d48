"""Progress: shown where asked for, and never else."""

import re

import numpy as np
import pytest
import sklearn
from catalogue import of
from sklearn.kernel_approximation import RBFSampler

from skdpsumm import (
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    PINPClassifier,
    RFFSketcher,
    TDDLClassifier,
    TDILClassifier,
    _computing,
)
from skdpsumm._computing import advance, progress
from skdpsumm._linear_systems import conjugate_gradients
from skdpsumm.privacy._noise import noisy_integers

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning")

X = np.random.default_rng(0).random((120, 2))
y = (X[:, 0] > 0.5).astype(int)
M2M = {
    "release": RFFSketcher(n_components=6, gamma=1.0, epsilon=5.0),
    "schema": (0, 1),
    "n_synthetic": 400,
}


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


def test_products_of_conjugate_gradients_are_steps(monkeypatch):
    bar = Counting()
    monkeypatch.setattr(_computing, "_Lines", lambda *about: bar)
    with progress("", 1):
        diagonal = np.arange(1.0, 9.0)
        conjugate_gradients(
            lambda x: diagonal * x, lambda r: (r, float(np.linalg.norm(r))), np.ones(8), 1e-9
        )
    assert bar.n_steps >= 7


def test_models_show_that_their_rows_are_sketched(capsys):
    M2MEstimator(**M2M, verbose=1).fit(X)
    M2MEstimator((0, 1), n_synthetic=50, verbose=1).fit(X)
    M2MClassifier(**M2M, verbose=1).fit(X, y)
    shown = [line.split(":")[0] for line in capsys.readouterr().err.strip().splitlines()]
    assert shown[::2] == ["RFFSketcher.fit", "AdaptiveSketcher.fit", "RFFSketcher.fit"]
    assert shown[1::2] == ["M2MEstimator", "M2MEstimator", "M2MClassifier"]
    assert M2M["release"].verbose == 0  # it is a copy that shows them


@pytest.mark.parametrize("kind", [M2MEstimator, M2MClassifier])
def test_analysts_see_progress_as_well(kind, capsys):
    sketch = M2MClassifier(**M2M).fit(X, y).sketch_
    kind.from_sketch(sketch, n_synthetic=400, verbose=1)
    assert kind.__name__ in capsys.readouterr().err


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


def test_answers_report(capfd):
    X = np.random.default_rng(0).random((1200, 2))
    learner = PINPClassifier(gamma=1.0).fit(X, X[:, 0] > 0.5)
    with progress("answers", 1):
        learner.predict(X + 0.001)
    assert "answers: 3 steps" in capfd.readouterr().err


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


def test_a_sketch_with_many_numbers_tells_of_its_noise(capsys, monkeypatch):
    now = iter(np.arange(0, 1000, 0.75))
    monkeypatch.setattr(_computing.time, "monotonic", lambda: next(now))
    HistogramSketcher(n_bins=9000, schema=(0, 1), verbose=1).fit(X)
    assert "exact noise, a step for each number: 18000 of 18000 steps" in capsys.readouterr().err
