"""Leakage by other roads than the numbers released: attributes, pickles, texts, order and time.

One row is a canary: its values occur nowhere else, so their bytes, or their digits, in anything
that a released object holds or says are a leak. Objects that must hold private data say so
(`holds_private_data=True`); of those only what leaves them is looked at.
"""

import copy
import itertools
import pickle
import sys
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
from catalogue import of, payer
from refusals import refused
from simulated import simulate
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from skdpsumm.learners import PINPClassifier, TDDLClassifier, TDILClassifier
from skdpsumm.model_selection import PrivateSearchCV
from skdpsumm.privacy import NoiseWarning, PrivacyLedger, simulation
from skdpsumm.schema import Public, PublicVectorizer
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher
from skdpsumm.summaries import PrivateMMDSummarizer, SummarizedEstimator, uniform_selection

N = 90
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 2))
CANARY = np.array([0.7316459201837465, -0.4182937465012938])
X[41] = CANARY
NUMBER = 0.2903847561029384
T = RNG.uniform(-1, 1, N)
T[41] = NUMBER
Y = np.where(X[:, 0] + X[:, 1] > 0, 1, 0)
WORD = "canary-7316"
NEW = RNG.uniform(-1, 1, (5, 2))
LABELS = {None: None, "labels": Y, "numbers": T}
RELEASED = {
    name: (one.estimator, LABELS[one.y])
    for name, one in of("sketcher", "model", "learner", interactive=False).items()
}
CLASSIFIERS = of("model", "learner", y="labels", interactive=False)
CLASSIFIERS = {name: one.estimator for name, one in CLASSIFIERS.items()}
INTERACTIVE = of("learner", y="labels", interactive=True)
INTERACTIVE = {name: one.estimator for name, one in INTERACTIVE.items()}
PRIVATE = [*CANARY, NUMBER]


def fitted(model, y, X=X):
    model = clone(model)
    return model.fit(X) if y is None else model.fit(X, y)


def in_bytes(blob):
    """Whether a canary is among bytes, in double or single precision or as digits."""
    forms = [np.array(v, kind).tobytes() for v in PRIVATE for kind in (np.float64, np.float32)]
    return any(form in blob for form in forms) or in_text(blob.decode("latin1"))


def in_text(text, digits=10):
    """Whether the first digits of a canary, or the word, are in a text.

    Among fresh noise chance puts ten there with probability below 1e-5 in all tests of this file.
    """
    return any(f"{abs(v):.16f}"[2 : 2 + digits] in text for v in PRIVATE) or WORD in text


def reachable(thing, seen=None):
    """Yield all arrays, numbers and strings that attributes and containers lead to."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray | np.generic | float | str | bytes):
        yield thing
        thing = getattr(thing, "base", None)
        if thing is not None:
            yield from reachable(thing, seen)
    elif isinstance(thing, dict):
        for item in [*thing.keys(), *thing.values()]:
            yield from reachable(item, seen)
    elif isinstance(thing, list | tuple | set | frozenset):
        for item in thing:
            yield from reachable(item, seen)
    elif getattr(thing, "__closure__", None):
        for cell in thing.__closure__:
            yield from reachable(cell.cell_contents, seen)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        yield from reachable(vars(thing), seen)


def holds(thing):
    """Whether a canary can be reached, stored as a value or inside a longer array."""
    leaves = [leaf for leaf in reachable(thing) if leaf is not None]
    texts = [leaf for leaf in leaves if isinstance(leaf, str)]
    blobs = [leaf for leaf in leaves if isinstance(leaf, bytes)]
    arrays = [leaf for leaf in leaves if not isinstance(leaf, str | bytes)]
    blobs += [np.ascontiguousarray(leaf).tobytes() for leaf in arrays]
    return any(map(in_text, texts)) or any(map(in_bytes, blobs))


# ------------------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("keep", [lambda x: x, lambda x: x[40:43].T, lambda x: x.astype("f4")])
def test_the_probe_sees_what_is_there(keep):
    class Careless:
        def fit(self, X):
            self._kept = {"deep": [keep(X)]}
            return self

    assert holds(Careless().fit(X))
    assert in_bytes(pickle.dumps(vars(Careless().fit(X))))
    assert in_text(f"bad value {CANARY[0]!r}")
    assert in_text(f"{CANARY[1]:.4f}", digits=3)
    inner = X[:50]
    assert holds(lambda: inner)
    assert not holds(clone(RFFSketcher(gamma=1.0)))


def whatever_is_fitted(epsilon):
    """Yield all kinds of fitted objects, by name; those that answer have been asked at rows."""
    for name, (model, y) in RELEASED.items():
        release = "release" in model.get_params(deep=False)
        model = clone(model).set_params(**{"release__epsilon" if release else "epsilon": epsilon})
        yield name, fitted(model, y)
    for name, model in INTERACTIVE.items():
        yield name, fitted(clone(model).set_params(epsilon=epsilon), Y)
    spent = {"epsilon": epsilon}
    yield "given points", TDDLClassifier(gamma=1.0, **spent).fit(X, Y, X_public=NEW)
    search = PrivateSearchCV(TDILClassifier(), {"regularization": [1.0]}, **spent)
    yield "search", search.set_params(expected_trials=2).fit(X, Y)
    summary = PrivateMMDSummarizer(n_select=5, n_components=16, gamma=0.5, **spent)
    owners = {"X_target": X[30:60], "owners": np.arange(N) % 3}
    yield "summary", clone(summary).fit(X, **owners)
    yield "summarised", SummarizedEstimator(LogisticRegression(), summary).fit(X, Y, **owners)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_what_says_that_it_holds_no_private_data_holds_no_row(epsilon):
    """Every row is a canary here, also as a point that was asked, and every number as a label."""
    values = {np.array(v, kind).tobytes() for v in (*X.ravel(), *T) for kind in ("f8", "f4")}

    def rows_in(thing):
        blob = pickle.dumps(thing)
        return any(value in blob for value in values)

    said = {}
    for name, model in whatever_is_fitted(epsilon):
        if hasattr(model, "predict"):
            model.predict(X[35:45])
        for copied in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            said[name] = getattr(copied, "holds_private_data", False)
            again = getattr(pickle.loads(pickle.dumps(copied)), "holds_private_data", False)
            assert again or not rows_in(copied), name
            assert said[name] or not holds(copied), name
            texts = [repr(copied), copied._repr_html_(), repr(copied.privacy_)]
            texts += [repr(copied.sketch_)] if hasattr(copied, "sketch_") else []
            assert not any(in_text(text) for text in texts), name
    private = {*INTERACTIVE, "summary", "summarised"}
    if epsilon == np.inf:  # then the weights of answers are no release either
        private |= {name for name in said if name.startswith("answers of features")} | {"svt"}
    assert {name for name in said if said[name]} == private


@pytest.mark.parametrize("name", INTERACTIVE)
def test_a_copy_that_was_asked_public_points_alone_holds_no_private_data(name):
    model = fitted(INTERACTIVE[name], Y)
    model.predict(Public(NEW))
    assert model.holds_private_data
    assert holds(model)
    blob = pickle.dumps(model)
    assert not in_bytes(blob)
    assert not holds(pickle.loads(blob))
    assert not pickle.loads(blob).holds_private_data
    model.predict(NEW)  # known by now
    assert not copy.deepcopy(model).holds_private_data
    model.score(X, Y)
    twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(model))))
    assert twice.holds_private_data
    assert "holds_private_data=True" in repr(twice)
    exact = fitted(clone(model).set_params(epsilon=np.inf), Y)
    assert pickle.loads(pickle.dumps(exact)).holds_private_data


@pytest.mark.parametrize("name", RELEASED)
def test_a_refused_refit_changes_nothing(name):
    """Columns and all: what is fitted speaks of one table."""
    model, y = RELEASED[name]
    model = clone(model)
    ledger = PrivacyLedger(epsilon=2.5, delta=1e-5, accountant="zcdp")
    owner = payer(model).set_params(ledger=ledger)
    given = {} if y is None else {"y": y}
    model.fit(X, **given)
    state = {key: id(value) for key, value in vars(model).items()}
    wider = pd.DataFrame(np.hstack([X, X]), columns=list("abcd"))
    gap = wider.replace(CANARY[0], np.nan)
    for epsilon, table, error, words in (
        (100.0, wider, RuntimeError, "Nothing was charged"),
        (0.1, gap, ValueError, "NaN"),
    ):
        owner.set_params(epsilon=epsilon)
        refused(words, model.fit, table, error=error, **given)
    after = {key: id(value) for key, value in vars(model).items()}
    assert after | {"epsilon": 0} == state | {"epsilon": 0}
    assert not hasattr(model, "feature_names_in_")
    assert len(ledger.entries()) == 1


# --------------------------------------------------------------------- what warnings tell

LARGEST = np.finfo(float).max
EXTREMES = {
    "largest": [LARGEST, -LARGEST],
    "smallest": [5e-324, -5e-324],
    "subnormal": [LARGEST, 3e-310],
    "sums overflow": [1.7e308, 1.7e308],
    "squares overflow": [1e160, 1e-160],
}

KERNELS = ["linear", "rbf", "poly"]
TO_FIT = {
    **RELEASED,
    **{name: (model, Y) for name, model in INTERACTIVE.items()},
    **{f"kernel {k}": (PINPClassifier(kernel=k, gamma=1.0), Y) for k in KERNELS},
    "polynomials": (TDILClassifier(kernel=PolynomialFeatures(3)), Y),
    "random features": (TDILClassifier(kernel=RBFSampler(n_components=8)), Y),
    "in a pipeline": (make_pipeline(PublicVectorizer(schema=(-1e-300, 1)), TDILClassifier()), Y),
    "scaler": (PublicVectorizer(schema=(-1e-300, 1e-300)), None),
    "wide bins": (HistogramSketcher(n_bins=4, schema=(-1e300, 1e300)), None),
    "fine bins": (RACESketcher((0, 1e-290), n_repetitions=3, n_buckets=4), None),
    "search": (
        PrivateSearchCV(
            make_pipeline(PolynomialFeatures(2), TDILClassifier()),
            {"tdilclassifier__regularization": [1.0]},
            expected_trials=2,
            epsilon=8.0,
        ),
        Y,
    ),
}


def with_row(row):
    """Return the table with another row."""
    table = X.copy()
    table[7] = row
    return table


def warned(model, X, y):
    """Return what a fit, and a map of the same rows, warn of; noise and seeds are public."""
    known = model.get_params()
    seeds = [name for name in known if name.endswith("random_state")]
    model = clone(model).set_params(**dict.fromkeys(seeds, 0))
    with warnings.catch_warnings(record=True) as caught, simulation(0):
        warnings.simplefilter("always")
        model = fitted(model, y, X)
        if hasattr(model, "transform"):
            model.transform(X)
    # A `NoiseWarning` speaks of the release, and hangs on that as predictions do.
    told = [w for w in caught if w.category is not NoiseWarning]
    return {(w.category, str(w.message), w.lineno) for w in told}


@pytest.mark.statistical
@pytest.mark.parametrize("name", TO_FIT)
def test_warnings_hang_on_no_row(name):
    """An extreme row among others has the fit warn as it does without that row."""
    model, y = TO_FIT[name]
    without = warned(model, np.delete(X, 7, axis=0), None if y is None else np.delete(y, 7))
    assert RuntimeWarning not in {category for category, *_ in without}
    for row in EXTREMES.values():
        labels = np.where(np.arange(N) == 7, row[0], T) if y is T else y
        assert warned(model, with_row(row), labels) == without


@pytest.mark.parametrize("name", [*RELEASED, "kernel rbf"])
def test_numpy_raises_on_no_row(name):
    """``numpy.seterr(all="raise")`` made an exception after the charge of one row's underflow."""
    model, y = TO_FIT[name]
    for row in EXTREMES.values():
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("ignore")
            fitted(model, y, with_row(row))


def test_warnings_do_not_hang_on_the_number_of_labels():
    """scikit-learn warns where more than half of more than 20 rows have a label of their own."""
    classes = list(range(12))
    for model in (
        TDILClassifier(classes=classes),
        clone(CLASSIFIERS["m2m classifier"]).set_params(classes=classes),
        PrivateSearchCV(TDILClassifier(classes=classes), {}, expected_trials=2),
    ):
        few, more = (warned(model, X[:n], np.arange(n) % 12) for n in (20, 21))
        assert few == more


# ------------------------------------------------------------------------- what errors say


def told(work):
    """Return all that an error says or carries, causes and contexts included, but for frames."""
    raising = pytest.raises(Exception)  # noqa: PT011 (whatever it is)
    with warnings.catch_warnings(record=True, action="always") as caught, raising as raised:
        work()
    texts, error = [str(w.message) for w in caught], raised.value
    while error is not None:
        texts += [str(error), repr(error), repr(error.args)]
        texts += traceback.format_exception_only(error)
        error = error.__cause__ or error.__context__
    return texts


def spoilt(kind):
    """Return a table that holds the canary, and something that cannot be used."""
    table = X.astype(object)
    table[41] = CANARY
    if kind == "nan":
        return np.where(np.arange(N)[:, None] == 7, np.nan, X)
    if kind == "inf":
        return np.where(np.arange(N)[:, None] == 41, np.inf, X)
    if kind == "3d":
        return X[:, :, None]
    if kind == "1d":
        return X[:, 0]
    table[3, 1] = {"word": WORD, "list": [CANARY[0]], "complex": CANARY[0] * 1j}[kind]
    return table


KINDS = ["nan", "inf", "3d", "1d", "word", "list", "complex"]


# Rows are read in one place: with a schema or without, beside labels or not.
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "word") for name in RELEASED]
    + [*itertools.product(("fourier", "histogram", "m2m classifier", "span"), KINDS)],
)
def test_errors_tell_no_value(name, kind):
    model, y = RELEASED[name]
    texts = told(lambda: fitted(model, y, spoilt(kind)))
    assert not any(in_text(text, digits=4) for text in texts), texts


DISGUISES = ["NaN", "Input X contains NaN", "a feature", "requires y", "1d array"]


@pytest.mark.parametrize("words", DISGUISES)
@pytest.mark.parametrize("kind", [np.array, pd.DataFrame], ids=["array", "frame"])
def test_a_value_that_reads_like_a_message_is_told_by_none(words, kind):
    """What scikit-learn says of strings quotes them, with words that its harmless messages use."""
    table = kind([[f"{words} {WORD}", 1.0], ["2", 3.0]])
    texts = told(lambda: RFFSketcher(n_components=8, gamma=1.0).fit(table))
    assert not any(WORD in text for text in texts), texts


NAN = {"b": [1.0, np.nan, 3.0], "c": [np.nan, 2.0, np.nan]}
FAULTS = {
    "nan": (NAN, "Input X contains NaN in columns", "bc"),
    "inf": ({"b": [1.0, np.inf, 3.0]}, "infinity", "b"),
    "text": ({"b": [1, 2, 3], "c": ["x", WORD, "x"], "d": [True, False, True]}, "not num", "c"),
}


@pytest.mark.parametrize("library", ["array", "pandas", "polars"])
@pytest.mark.parametrize("fault", FAULTS)
def test_messages_name_the_columns_and_no_row(fault, library):
    """Columns at fault are named, and what is said is the same however many rows are."""
    columns, words, at_fault = FAULTS[fault]
    columns = {"a": [1.0, 2.0, 3.0], **columns}
    messages = set()
    for times in (1, 2):
        table = {name: values * times for name, values in columns.items()}
        if library == "array":
            table = np.array([*table.values()], dtype=object).T
        else:
            table = pytest.importorskip(library).DataFrame(table)
        caught = refused(words, RFFSketcher(n_components=8, gamma=1.0).fit, table)
        messages.add(str(caught))
    (message,) = messages
    names = list(columns) if library != "array" else [f"x{j}" for j in range(len(columns))]
    told = [one for one, name in zip(columns, names, strict=True) if repr(name) in message]
    assert told == list(at_fault)
    assert "imputer transformer" not in message  # scikit-learn's advice, which voids the guarantee
    assert ("public constant" in message) == (fault != "text")
    assert WORD not in message


def test_the_dtype_of_a_frame_alone_decides_which_columns_are_called_no_numbers():
    """Which of two columns of strings holds a word is a fact about the rows."""
    told_of = set()
    for first in ("1", "x"):
        table = pd.DataFrame({"a": [first, "2"], "b": ["3", WORD], "c": [1.0, 2.0]}, dtype=object)
        with pytest.raises(ValueError, match="columns 'a', 'b'") as caught:
            RFFSketcher(n_components=8, gamma=1.0).fit(table.astype({"c": float}))
        told_of.add(str(caught.value))
    assert len(told_of) == 1


@pytest.mark.parametrize("name", [*CLASSIFIERS, "weights, numbers", "span, numbers"])
def test_errors_about_labels_tell_none(name):
    """Of arrays that hold them, and of classes that are not listed; of cells, in `test_labels`."""
    model, _ = RELEASED[name]
    words = np.full(N, WORD, object)
    words[:3] = 1.5
    imaginary = np.where(np.arange(N) == 41, NUMBER * 1j, NUMBER)  # scikit-learn prints them all
    bad = [words, np.column_stack([T, T]), T[:-1], imaginary, imaginary.astype(object)]
    tries = [(model, labels) for labels in bad]
    if "classes" in model.get_params():
        listed = clone(model).set_params(classes=["a", "b"])
        tries.append((listed, np.where(np.arange(N) == 41, WORD, "a")))
    for model, labels in tries:
        texts = told(lambda model=model, labels=labels: fitted(model, labels))
        assert not any(in_text(text, digits=4) for text in texts), texts


# ---------------------------------------------------------------------- order, jobs, and time

quiet = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")


# No minimiser, or one whose choices amplify the last bit.
OTHERS = {"m2m classifier", "exponential"}


@quiet
@pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - OTHERS))
def test_order_changes_a_learner_within_its_tolerance(name):
    """A minimiser is certified to a part of its sensitivity, which is in the claim."""
    model = clone(CLASSIFIERS[name]).set_params(random_state=0)
    order = RNG.permutation(N)
    one, other = (simulate(clone(model), X[i], Y[i]) for i in (np.arange(N), order))
    difference = one.decision_function(NEW) - other.decision_function(NEW)
    assert np.abs(difference).max() <= 0.01 * one.sensitivity_


@quiet
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("protocol", ["propose", "auction"])
def test_order_does_not_change_what_owners_see(protocol):
    """The first message brings the target's mean. Later ones depend on rows that owners sent."""
    model, seen = PrivateMMDSummarizer(n_select=5, n_components=16, random_state=0, gamma=1.0), []
    for order in (np.arange(30), RNG.permutation(30)):
        fitted = clone(model).set_params(protocol=protocol)
        simulate(fitted, X, X_target=X[30:60][order], owners=np.arange(N) % 3)
        assert not holds([vars(m) for sent in fitted.transcript_.values() for m in sent])
        seen.append([messages[0].direction for messages in fitted.transcript_.values()])
    assert np.array_equal(*seen)


def steps_of(work):
    """Return the functions that were called, in order: time by design, free of the clock."""
    steps = []

    def watch(frame, event, argument):
        if event == "call" and "skdpsumm" in frame.f_code.co_filename:
            steps.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else "")

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return steps


TABLES = [X, -X, np.zeros_like(X), X * 1e6, np.ones_like(X) * 1e-300]


@pytest.mark.parametrize("name", ["fourier", "race", "histogram", "union"])
def test_the_steps_of_a_sketch_do_not_depend_on_values(name):
    """What is left to the values is arithmetic, of numpy, numba and OpenDP's samplers.

    Learners solve until a certificate holds, which takes as long as the data make it take: their
    time is not covered, nor is that of the curator's choice of rows (SECURITY.md).
    """
    model = clone(RELEASED[name][0]).set_params(random_state=0)
    model.fit(X)  # what is compiled or cached once
    steps = [steps_of(lambda table=table: clone(model).fit(table)) for table in TABLES]
    assert len(steps[0]) > 20
    assert all(other == steps[0] for other in steps)


@pytest.mark.parametrize(
    "work",
    [
        lambda: PublicVectorizer(schema=(-1, 1)).fit([[0.5], [WORD]]),
        lambda: PublicVectorizer(schema=(-1, 1)).fit([[0.5]]).transform([[WORD]]),
        lambda: uniform_selection(pd.DataFrame(X), 5),
        lambda: uniform_selection(90, X),
    ],
)
def test_helpers_tell_no_value(work):
    with pytest.raises((ValueError, TypeError)) as caught:
        work()
    told = "".join(traceback.format_exception(caught.value))
    assert WORD not in told.replace(f"[[{WORD}", "")
    assert not any(repr(float(value))[:8] in told for value in X[:5].ravel())
