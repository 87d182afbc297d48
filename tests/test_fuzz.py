"""Fuzzing: whatever is given as a parameter or a table, there is an answer or an error.

An answer is a fitted estimator, one charge for it, and a claim that is no larger than what was
asked for. An error is raised on purpose, by a `raise` of this library or of scikit-learn's checks,
and costs nothing. All examples come from fixed seeds, another for each parameter. Files are in
`file_fuzz`.
"""

import math
import traceback
import warnings
import zlib

import numpy as np
import pandas as pd
import pytest
from catalogue import of, of_each_class, payer
from curators import with_n_target
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from skdpsumm import BudgetExceededError, PrivacyLedger, Public, mmd2
from skdpsumm.privacy._mechanisms import mechanism_from_dict

pytestmark = pytest.mark.fuzz

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (24, 2))
Y, T = np.where(X[:, 0] > 0, "a", "b"), np.sin(X[:, 0])
ESTIMATORS = of("sketcher", "model", "summarizer", "synthesizer", "learner")
# What is in an object that belongs to an estimator is a parameter, too; its own are those of its
# class.
PARTS = ("mechanism__", "kernel__", "loss__", "protocol__")
CASES = [
    (name, parameter)
    for name, one in ESTIMATORS.items()
    for parameter in one.estimator.get_params()
    if parameter.startswith(PARTS) or (name in of_each_class(ESTIMATORS) and "__" not in parameter)
    if parameter not in ("ledger", "verbose", "estimator", "sketchers", "release")
]

EXTREMES = [0.0, 5e-324, 1e-300, 1e-160, 1e-30, 1e-9, 0.5, 1.0, 1e9, 1e30, 1e160, 1.7e308]
NUMBERS = st.one_of(
    st.sampled_from(EXTREMES),
    st.sampled_from(EXTREMES).map(lambda x: -x),
    st.sampled_from([math.nan, math.inf, -math.inf, True, False, 10**30, -(10**30)]),
    st.floats(),
    st.integers(-5, 40),
    st.sampled_from([np.float32(0.1), np.float16(2), np.int8(3), np.float64(1), np.array(1.0)]),
)
WORDS = st.sampled_from(["", "x", "auto", "rbf", "linear", "poly", "pure", b"x", "0"])
THINGS = st.one_of(
    NUMBERS,
    WORDS,
    st.none(),
    st.lists(NUMBERS, max_size=3),
    st.tuples(NUMBERS, NUMBERS),
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=2),
    st.dictionaries(st.one_of(WORDS, st.integers(-1, 3)), st.one_of(NUMBERS, WORDS), max_size=2),
    st.dictionaries(st.integers(0, 2), st.lists(NUMBERS, max_size=3), max_size=2),
    st.sampled_from([len, int, object(), Public(X), np.array([0, 1]), 1j, set(), range(3)]),
)
# What sizes memory is kept small: nobody is saved from asking for a terabyte.
SIZES = ("n_", "max_", "degree")

CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]
quick = settings(deadline=None, database=None, suppress_health_check=CHECKS)


def was_meant(error):
    """Whether an error comes from a `raise` of ours or of scikit-learn's own checks."""
    if isinstance(error, BudgetExceededError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = "skdpsumm" in last.filename or "sklearn" in last.filename
    return isinstance(error, ValueError | TypeError) and ours and last.line.startswith("raise")


def raised_by(work):
    try:
        work()
    except Exception as error:
        return error
    return None


def data_of(name):
    """Return what an instance fits."""
    return {None: (X,), "labels": (X, Y), "numbers": (X, T)}[ESTIMATORS[name].y]


def attack(model, data):
    """Fit, and check that what comes of it is one of the two things that may."""
    ledger = PrivacyLedger(epsilon=math.inf, delta=1e-5)
    payer(model).set_params(ledger=ledger)
    with warnings.catch_warnings(action="ignore"):
        error = raised_by(lambda: model.fit(*data))
        if error is not None:
            assert was_meant(error), repr(error)
            assert str(error)
            assert ledger.entries() == []
            assert not hasattr(model, "privacy_")
            assert not hasattr(model, "n_features_in_")
            return
        assert len(ledger.entries()) <= 1
        check_answer(model, ledger)


def check_answer(model, ledger):
    assert repr(model)
    assert repr(ledger)
    claims = model.privacy_
    claims = [claims] if hasattr(claims, "epsilon") else [claims.target, claims.owners]
    if getattr(model, "protocol", "") == "auction":  # which claims nothing, for whom rows are
        claims = []
    budget = payer(model)
    for claim in claims:
        assert claim.epsilon(budget.delta) <= budget.epsilon * (1 + 1e-6)
    if hasattr(model, "sketch_"):
        assert np.isfinite(model.sketch_.mean).all()
    if hasattr(model, "predict"):
        found = model.predict(np.zeros((3, model.n_features_in_)))
        assert found.dtype.kind != "f" or np.isfinite(found).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "parameter"), CASES, ids=map("-".join, CASES))
def test_any_parameter(name, parameter):
    @seed(zlib.crc32(f"{name} {parameter}".encode()))
    @given(THINGS)
    @settings(quick, max_examples=8)
    def run(value):
        sizes = parameter.rpartition("__")[2].startswith(SIZES)
        if sizes and isinstance(value, int) and value > 50:
            value = 50
        model = ESTIMATORS[name].make()
        model.set_params(**{parameter: value})
        attack(model, data_of(name))

    run()


BUDGETS = st.tuples(
    st.one_of(st.sampled_from([*EXTREMES, math.inf]), st.floats(0, exclude_min=True)),
    st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e-150, 1e-30, 1e-6, 0.5, 1 - 2**-53])),
    st.sampled_from(["add_remove", "replace_one"]),
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_any_budget(name):
    @seed(zlib.crc32(name.encode()))
    @given(BUDGETS)
    @settings(quick, max_examples=15)
    def run(budget):
        model = ESTIMATORS[name].make()
        names = ("epsilon", "delta", "adjacency")
        payer(model).set_params(**dict(zip(names, budget, strict=True)))
        if ESTIMATORS[name].kind == "summarizer":
            with_n_target(model, 24)
        attack(model, data_of(name))

    run()


# ------------------------------------------------------------------------------------- tables

ENTRIES = st.one_of(
    st.floats(width=32),
    st.floats(),
    st.sampled_from([None, "", "a", b"a", 10**400, 1j, [1.0], {}, True, np.nan, pd.NaT]),
)
TABLES = st.one_of(
    st.lists(st.lists(ENTRIES, min_size=2, max_size=2), max_size=6),
    st.lists(st.lists(ENTRIES, max_size=3), max_size=4),
    st.sampled_from([None, 3, "table", [], [[]], np.zeros((0, 2)), np.zeros((3, 0)), {}, X[:, :1]]),
    st.sampled_from([X[0], X[:, :, None], X[:1], X.astype("f2"), X.astype(str), X.astype("M8[s]")]),
    st.sampled_from([pd.DataFrame(X).astype("string"), pd.DataFrame(X), X > 0, X.astype("c8")]),
)
LABELS = st.one_of(
    st.lists(ENTRIES, max_size=6),
    st.sampled_from([None, Y, T, T[:5], "y", np.zeros(24), np.arange(24), X, Y[:, None], [[]]]),
)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_any_table(name):
    @seed(zlib.crc32(name.encode()))
    @given(TABLES, LABELS)
    @settings(quick, max_examples=25)
    def run(table, labels):
        model = ESTIMATORS[name].make()
        attack(model, (table,) if ESTIMATORS[name].y is None else (table, labels))

    run()


JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 3, 8, 10**7, 10**20]),
    st.floats(),
    st.sampled_from(["", "x", "fourier", "histogram", "union", "pure", "gdp", "\x00"]),
    st.lists(st.integers(-2, 5), max_size=3),
    st.dictionaries(st.sampled_from(["kind", "columns", "x"]), st.integers(-1, 2), max_size=2),
)


# ---------------------------------------------------------------------------------- functions


@seed(0)
@given(st.dictionaries(st.sampled_from(["kind", "epsilon", "mu", "rho", "parts"]), JSON))
@settings(quick, max_examples=60)
def test_any_mechanism(description):
    try:
        mechanism = mechanism_from_dict(description)
    except ValueError:
        return
    assert mechanism.epsilon(1e-6) >= 0


@seed(0)
@given(TABLES, TABLES, st.floats())
@settings(quick, max_examples=60)
def test_any_distance(one, other, gamma):
    with warnings.catch_warnings(action="ignore"):
        error = raised_by(lambda: mmd2(one, other, gamma=gamma))
    assert error is None or was_meant(error), repr(error)
