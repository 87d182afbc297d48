"""The contract of every private fit: what raises before the charge costs nothing."""

import builtins
import contextlib
import dis
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from catalogue import INSTANCES, of, of_each_class
from refusals import refused
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdpsumm
from skdpsumm import BudgetExceededError, M2MEstimator, PrivateSearchCV
from skdpsumm.learners import PINPClassifier, TDILClassifier
from skdpsumm.privacy import PrivacyLeakWarning, PrivacyLedger, _noise, simulation
from skdpsumm.privacy._noise import IntegerNoise
from skdpsumm.sketches import HistogramSketcher, RFFSketcher, SketchUnion
from skdpsumm.summaries import PrivateMMDSummarizer, SummarizedEstimator

X = np.random.default_rng(0).uniform(-1, 1, (120, 2))
Y = (X[:, 0] > 0).astype(int)


# The vectorizer learns nothing of the rows, and the pool tells nobody anything: neither pays.
PAYING = {n: one for n, one in INSTANCES.items() if one.kind != "vectorizer" and n != "pool"}
CLASSES = of_each_class(PAYING)


def simulated_fit(name, action, X=X):
    """Fit an instance inside a simulation; return it, its ledger, and what it warned of that."""
    ledger, one = PrivacyLedger(epsilon=100.0, delta=1e-3), CLASSES[name]
    model = one.make(ledger=ledger)
    given = {None: (), "labels": (Y,), "numbers": (Y,)}[one.y]
    with warnings.catch_warnings(record=True, action="ignore") as told:
        warnings.simplefilter(action, PrivacyLeakWarning)
        with contextlib.suppress(PrivacyLeakWarning, ValueError), simulation(0):
            model.fit(X, *given)
    return model, ledger.entries(), [w.filename for w in told]


@pytest.mark.parametrize("name", CLASSES)
def test_a_seed_is_told_once_and_an_error_made_of_that_costs_nothing(name):
    _, (entry,), told = simulated_fit(name, "always")
    assert told == [__file__]
    assert entry["simulated"]
    model, entries, _ = simulated_fit(name, "error")
    assert entries == []
    assert not hasattr(model, "privacy_")
    assert not getattr(clone(model), "holds_private_data", False)


@pytest.mark.parametrize("name", [name for name in CLASSES if name != "finder"])
def test_bad_data_cost_nothing_and_leave_no_columns(name):
    bad = X.copy()
    bad[3, 1] = np.nan
    model, entries, _ = simulated_fit(name, "ignore", bad)
    assert entries == []
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("name", PAYING)
def test_a_cap_is_asked_before_a_row_is_looked_at(name):
    one, ledger = PAYING[name], PrivacyLedger(epsilon=1e-9, delta=1e-30)
    with pytest.raises(BudgetExceededError):
        one.fit(one.make(ledger=ledger), np.full_like(X, np.nan), Y, X[:, 0])
    assert ledger.entries() == []


# --------------------------------------------------- tables that are not as the schema says


SCHEMA = {"a": (-1, 1), "b": ["u", "v"]}
FRAME = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v")}, dtype=object)


def with_cell(column, cell):
    frame = FRAME.copy()
    frame.loc[17, column] = cell
    return frame


ODD_TABLES = {
    "another word": (SCHEMA, with_cell("b", "secret"), "'b' holds a value that is not"),
    "a range in a list": (SCHEMA | {"a": [-1, 1]}, FRAME, "'a' holds a value .*write a tuple, "),
    "a word for a number": (SCHEMA, with_cell("a", "secret"), "'a' holds values that are not num"),
    "no number": (SCHEMA, with_cell("a", np.nan), "'a' contains NaN.*missing=True"),
    "a date": (SCHEMA, with_cell("a", pd.Timestamp("2020-01-01")), "'a' holds dates or times"),
    "a column more": (SCHEMA, FRAME.assign(c=1), "column 'c', which .*extra_columns=\"drop\""),
    "a column less": (SCHEMA | {"c": (0, 1)}, FRAME, "lacks column 'c' of the schema"),
    "an array too wide": ([(-1, 1)], FRAME.to_numpy(), "describes 1 columns, and the table has 2"),
}
BY_SCHEMA = {
    name: min((key for key in one.estimator.get_params() if key.endswith("schema")), key=len)
    for name, one in CLASSES.items()
    if one.kind not in ("finder", "summarised")
}


@pytest.mark.filterwarnings("ignore:Pass the rows to match")
@pytest.mark.parametrize("case", ODD_TABLES)
@pytest.mark.parametrize("name", BY_SCHEMA)
def test_a_table_that_is_not_as_the_schema_says_is_refused_and_not_repeated(name, case, unpaid):
    schema, frame, told = ODD_TABLES[case]
    one = CLASSES[name]
    model = one.make(ledger=unpaid, **{BY_SCHEMA[name]: schema})
    with pytest.raises((ValueError, TypeError), match=told) as caught:
        one.fit(model, frame, Y, X[:, 0])
    error = caught.value
    while error is not None:
        assert "secret" not in str(error)
        error = error.__cause__ or error.__context__
    assert not hasattr(model, "n_features_in_")


def test_a_late_warning_costs_no_summary():
    ledger = PrivacyLedger(epsilon=100.0, delta=1e-3)
    few = PrivateMMDSummarizer(n_select=200, n_components=20, ledger=ledger, gamma=1.0)
    few.set_params(target_is_owners=True)
    model = SummarizedEstimator(LogisticRegression(), few)
    refused("owners sent fewer rows", model.fit, X, Y, error=UserWarning)
    assert (len(ledger.entries()), model.privacy_.target) == (1, model.summarizer_.privacy_.target)
    assert model.holds_private_data
    assert not hasattr(model, "estimator_")


def test_a_release_that_is_interrupted_leaves_the_fit_before_it(monkeypatch):
    sketcher = HistogramSketcher(schema=(-1, 1), n_bins=4).fit(X)
    before = sketcher.sketch_

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(IntegerNoise, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sketcher.fit(X[:, :1])
    assert sketcher.n_features_in_ == 2
    assert sketcher.sketch_ is before
    assert sketcher.transform(X).shape == (120, 8)


@pytest.mark.parametrize(
    "made",
    [
        lambda **given: RFFSketcher(n_components=10, gamma=1.0, **given),
        lambda **given: SketchUnion([RFFSketcher(n_components=6, gamma=1.0)], **given),
        lambda **given: TDILClassifier(**given),
        lambda **given: PINPClassifier(gamma=1.0, **given),
        lambda **given: PrivateSearchCV(TDILClassifier(**given), {"regularization": [1.0, 2.0]}),
    ],
)
def test_a_claim_without_a_schema_takes_the_columns_as_given(made):
    """A scaler that was fitted to private rows voids it; a schema does what a scaler would do."""
    scaler = "no scaler or other step that prepared the columns was fitted to private rows"
    model = make_pipeline(StandardScaler(), made())
    assert scaler in model.fit(X, Y)[-1].privacy_.given.split("; ")
    assert scaler not in made(schema=(-1, 1)).fit(X, Y).privacy_.given


def test_a_claim_says_that_fits_add_up_where_nothing_counts_them(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=9.0, delta=1e-5)
    for model in (TDILClassifier(schema=(-1, 1)), M2MEstimator((-1, 1), n_synthetic=100)):
        alone = clone(model).fit(X, Y).privacy_
        assert "Covers this fit alone: further fits on these rows add up" in repr(alone)
        assert "ledger=" in repr(alone)
        assert "PrivateSearchCV" in repr(alone)
        counted = clone(model).set_params(ledger=ledger).fit(X, Y).privacy_
        free = clone(model).set_params(epsilon=np.inf).fit(X, Y).privacy_
        for other in (counted, alone + alone, free):
            assert "Covers this fit" not in repr(other)
        assert type(alone).from_dict(alone.to_dict()) == alone


# ------------------------------------------------------------ what noise needs is there in time


class _Spy(PrivacyLedger):
    """A ledger that holds everything, and tells whether it was charged."""

    def __init__(self):
        super().__init__(epsilon=np.inf, delta=1e-2)
        self.charged = False

    def charge(self, *args, **kwargs):
        self.charged = True
        return super().charge(*args, **kwargs)


def fit_quietly(one, ledger):
    with warnings.catch_warnings(action="ignore"):
        return one.fit(one.make(ledger=ledger), X, Y, X[:, 0])


def gone(*_):
    raise ValueError("Unable to find lib directory.")


@contextlib.contextmanager
def no_noise(monkeypatch):
    """Take the source of noise away, with the samplers that were made of it before."""
    with monkeypatch.context() as patch:
        for name in ("_library", "_opendp", "_noisy_max"):
            patch.setattr(_noise, name, gone)
        yield


@pytest.mark.parametrize("name", PAYING)
def test_a_fit_without_a_source_of_noise_costs_nothing(name, monkeypatch):
    spy = _Spy()
    with no_noise(monkeypatch), pytest.raises(RuntimeError, match="Nothing was charged"):
        fit_quietly(PAYING[name], spy)
    assert not spy.charged


INTERACTIVE = of("learner", interactive=True)


@pytest.mark.parametrize("name", INTERACTIVE)
def test_an_answer_without_a_source_of_noise_costs_nothing(name, monkeypatch):
    """Neither an entry nor an update, and the point may be asked again."""
    spy = _Spy()
    model = fit_quietly(INTERACTIVE[name], spy)
    left = model.n_updates_left_
    with no_noise(monkeypatch), pytest.raises(ValueError, match="lib directory"):
        model.predict(X[:3])
    assert (len(spy.entries()), model.n_updates_left_) == (1, left)
    assert (len(model.predict(X[:3])), len(spy.entries())) == (3, 1)


@pytest.mark.parametrize("name", PAYING)
def test_nothing_is_imported_between_a_charge_and_its_release(name, monkeypatch):
    """An import may fail, and the charge would pay for nothing."""
    spy, late, load = _Spy(), [], builtins.__import__

    def watched(module, *rest):
        by = sys._getframe(1)
        # Not what compiled code imports, which has no frame of its own.
        is_statement = by.f_code.co_code[by.f_lasti] == dis.opmap["IMPORT_NAME"]
        if spy.charged and is_statement and by.f_globals["__name__"].startswith("skdpsumm"):
            late.append((by.f_globals["__name__"], module))
        return load(module, *rest)

    monkeypatch.setattr(builtins, "__import__", watched)
    fit_quietly(PAYING[name], spy)
    assert spy.charged
    assert not late


def test_there_is_one_way_to_charge():
    """`charge` loads what noise needs first, whoever pays: a fit, a curator or an owner."""
    home = Path(skdpsumm.__file__).parent
    charging = {
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        if re.search(r"^(?!.*>>>).*ledger\.charge\(", path.read_text(), re.MULTILINE)
    }
    record = "federated/_files.py"  # of what an owner grants, which draws no noise
    assert charging == {"privacy/_fit.py", record}
