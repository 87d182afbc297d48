"""Learners to audit, made quick: what a fit computes of the rows is computed once.

An audit calls a release thousands of times, and differs from a fit in nothing but that.
"""

import numpy as np
import pytest
from sklearn.base import clone

from skdpsumm import PINPClassifier, TDILClassifier
from skdpsumm.learners import HuberizedHinge, NoisyThreshold, SparseVector
from skdpsumm.learners.erm._kernel_space import KernelSpace
from skdpsumm.learners.mechanisms import _functional, _objective, _paper
from skdpsumm.privacy import _noise


def seeded_noise(monkeypatch):
    """Return a function that puts seeded sources, off by a factor, in place of all noise."""
    rng = np.random.default_rng(0)
    radial, choose = _noise.radial_noise, _noise.exponential_choice

    def install(factor):
        def put(draw):
            return lambda v, s: v + np.rint(draw(0, s * factor, v.shape)).astype(np.int64)

        monkeypatch.setattr(_noise, "_laplace_i64", put(rng.laplace))
        monkeypatch.setattr(_noise, "_gaussian_i64", put(rng.normal))
        for module in (_functional, _objective):
            monkeypatch.setattr(module, "radial_noise", lambda n, s, _: radial(n, s * factor, rng))
        monkeypatch.setattr(
            _paper, "exponential_choice", lambda u, s, _: choose(u, s * factor, rng)
        )
        monkeypatch.setattr(_paper, "secret_generator", lambda seed: rng)

    return install


def remembering(function, most=4096):
    """Return a function of arrays that computes once what it returns for the same bits."""
    known = {}

    def remembered(*arrays):
        key = tuple((one.dtype.char, one.shape, one.tobytes()) for one in map(np.asarray, arrays))
        if key not in known:
            if len(known) == most:
                known.clear()
            known[key] = function(*arrays)
            known[key].flags.writeable = False  # where one call could change another's
        return known[key]

    return remembered


class Released:
    """A learner that publishes again and again what one fit has planned and solved.

    Validation, planning, the minimiser without a random term, and its exact scores are functions of
    the data, so they are not repeated: a fit would take some milliseconds.
    """

    def __init__(self, model, X, y, **fit_params):
        self.model = clone(model)
        publish = self.model._release
        self.model._release = self._keep
        self.model.fit(X, y, **fit_params)
        self._publish_again = lambda: publish(self.plan, self.problem)
        self.exact = self.problem.minimize()
        object.__setattr__(self.exact, "careful_scores", remembering(self.exact.careful_scores))
        space = self.problem.space
        if isinstance(space, KernelSpace):
            space.gram = remembering(space.gram)
        self.solve = self.problem.minimize
        object.__setattr__(
            self.problem,
            "minimize",
            lambda **tilt: self.solve(**tilt) if "linear" in tilt else self.exact,
        )

    def _keep(self, plan, problem):
        self.plan, self.problem = plan, problem

    def __call__(self):
        self._publish_again()
        return self.model


# ---- kernel learners, each mechanism by a pair of neighbours that is hard for it

SHARP = {"epsilon": 1.0, "delta": 0.2}
SHARP_PURE = {"epsilon": 1.5, "delta": 0.0}
# Margins stay below the kink, so that each row adds code phi / Lambda.
AUDITED = {"loss": "hinge", "classes": [0, 1], "regularization": 8.0, "random_state": 0}
WEIGHTS = {**AUDITED, "mechanism": "functional"}
ONE_UPDATE = {"n_updates": 1, "failure_probability": 0.99}
UPDATED = {**AUDITED, "regularization": 64.0}
SMOOTH = {**AUDITED, "loss": HuberizedHinge(width=0.5), "mechanism": "objective"}


def coefficients(model, row):
    return model.predictor_.coefficients.ravel()


def answers_and_freshness(model, row):
    steps = np.linspace(0, 1e-3, model.mechanism.max_queries)
    answers, fresh = model.answers_.ask(row + steps[:, None])
    return np.append(answers, fresh)


def rows_alike(n):
    """Return neighbours with n rows of one label, whose scores n Delta lie near a threshold."""
    X, y = np.zeros((n + 1, 1)), np.ones(n + 1, dtype=int)
    return (X[:-1], y[:-1]), (X, y)


# Mechanisms whose cost is no sum over draws, which the wire of `kit` does not see, and one that it
# does. Each with its output, its neighbours if they are special, and the part of the noise with
# which it is caught. Algorithms of the papers compose tests and answers, whose worst cases are no
# single pair's.
_SVT = SparseVector(max_queries=10, **ONE_UPDATE)
_THRESHOLD = NoisyThreshold(max_queries=3, **ONE_UPDATE)
LEARNERS = {
    "weights": (TDILClassifier(**WEIGHTS, **SHARP), coefficients, None, 3),
    "svt": (
        PINPClassifier(gamma=1.0, mechanism=_SVT, **UPDATED, **SHARP_PURE),
        answers_and_freshness,
        rows_alike(9),
        32,
    ),
    "threshold": (
        PINPClassifier(gamma=1.0, mechanism=_THRESHOLD, **UPDATED, **SHARP),
        answers_and_freshness,
        rows_alike(19),
        16,
    ),
    "objective": (TDILClassifier(**SMOOTH, **SHARP), coefficients, None, 4),
    "pure objective": (TDILClassifier(**SMOOTH, **SHARP_PURE), coefficients, None, 4),
}


def as_polars(frame):
    """Return a frame of polars by way of Python's own values: its own way needs pyarrow."""
    pl = pytest.importorskip("polars")
    cells = frame.astype(object).where(frame.notna(), None)
    return pl.DataFrame({name: cells[name].tolist() for name in frame})
