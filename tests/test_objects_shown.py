"""What every object shows of itself: in `dir`, `repr`, notebooks, completion and copies.

Whatever its state: of estimators unfitted, with parameters that `fit` would refuse, and fitted; of
releases, ledgers and schemas also as they come out of a file. Nothing private is shown, texts of
strangers are escaped, and what is shown is never long.
"""

import copy
import html
import inspect
import itertools
import pickle
import re
import warnings
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
import pytest
from answers import answer_of
from catalogue import INSTANCES
from curators import curator_of
from sklearn.base import BaseEstimator

from skdpsumm import audit, learners, model_selection, moments, privacy, schema, sketches, summaries
from skdpsumm.audit import AuditResult, compare
from skdpsumm.learners import PolynomialKernel, TDILClassifier
from skdpsumm.moments import M2MEstimator, Points
from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PrivacyLedger, PureDP
from skdpsumm.privacy._fit import PrivateFit
from skdpsumm.privacy._ledger import LedgerDataset
from skdpsumm.privacy._mechanisms import Unprotected, Worst
from skdpsumm.schema import Categorical, Date, Numeric, Public, TableSchema
from skdpsumm.sketches import AdaptiveSketcher, HistogramSketcher
from skdpsumm.summaries import DataOwner, SummarizedEstimator
from skdpsumm.summaries._protocol import Bid

X = np.random.default_rng(0).uniform(-1, 1, (120, 2))
# One row is a canary: its digits are in no text.
X[41] = CANARY = 0.7316459201837465, -0.4182937465012938
LABELS = (X[:, 0] > 0).astype(int)
OWNERS = {"X_target": X[30:60].copy(), "owners": np.arange(len(X)) % 3}
EVIL = '<img src="x" onerror="alert(1)">&amp;'
PACKAGES = [audit, learners, model_selection, moments, privacy, schema, sketches, summaries]


@cache
def fitted(name):
    """Return a fitted instance of the catalogue; tests leave it as it is."""
    one = INSTANCES[name]
    y = {None: None, "labels": LABELS, "numbers": X[:, 1]}[one.y]
    with warnings.catch_warnings(action="ignore"):  # of so few rows, noise is what they tell most
        if one.kind in ("summarizer", "summarised"):
            return one.make().fit(X, y, **OWNERS)
        return one.fit(one.make(), X, LABELS, X[:, 1])


# ---- every other public object


def sketch():
    schema = TableSchema({"a": (-1, 1), "b": (-1, 1)})
    return HistogramSketcher(schema=schema, epsilon=9.0).fit(X).sketch_


def paid(ledger):
    ledger.dataset("one").charge(PureDP(0.1), label="a release")
    ledger.dataset("two", partition="by region").charge(PureDP(0.2))
    return ledger


def ledger(tmp_path):
    return paid(PrivacyLedger(tmp_path / "ledger", epsilon=1.0, delta=1e-6))


def saved(tmp_path, one):
    one.save(tmp_path / "saved")
    return type(one).load(tmp_path / "saved")


def table():
    columns = {"age": Numeric(17, 90, step=1, unit="y"), "job": Categorical(["a", "b"])}
    return TableSchema(columns).never({"age": [17, 18], "job": ["b"]})


def from_toml(tmp_path):
    table().save(tmp_path / "schema.toml")
    return TableSchema.load(tmp_path / "schema.toml")


def answered(shape):
    labels = [[f"{axis}{i}" for i in range(size)] for axis, size in zip("rc", shape, strict=False)]
    return answer_of(np.ones(shape), labels=labels)


def curator(n_rounds=0):
    names = ["north", "south"]
    one = curator_of(X, owners=names, n_select=4, gamma=0.5, random_state=0)
    party = dict.fromkeys(names, DataOwner(X, LABELS, seed=0))
    messages = one.open() if n_rounds else {}
    for _ in range(n_rounds):
        messages = one.receive({name: party[name].answer(m) for name, m in messages.items()})
    return one


def rows():
    one = curator_of(X, owners=["north"], n_select=90, gamma=0.5, random_state=0)
    return DataOwner(X, LABELS, seed=0).answer(one.open()["north"])


def guarantee(**words):
    return PrivacyGuarantee(PureDP(1.0), **words)


def by_default():
    """Return the losses, mechanisms, protocols and releases that need no parameters, by name."""
    kinds = [getattr(room, name) for room in (learners, summaries) for name in room.__all__]
    return {
        kind.__name__: kind
        for kind in kinds
        if isinstance(kind, type)
        and issubclass(kind, BaseEstimator)
        and not issubclass(kind, PrivateFit | SummarizedEstimator)
    }


OBJECTS = {
    "sketch": lambda _: sketch(),
    "chosen sketch": lambda _: AdaptiveSketcher(schema=(-1, 1)).fit(X).sketch_,
    "sum of sketches": lambda _: sketch() + sketch(),
    "loaded sketch": lambda path: saved(path, sketch()),
    "model of a loaded sketch": lambda path: M2MEstimator.from_sketch(saved(path, sketch())),
    "ledger": lambda _: paid(PrivacyLedger(epsilon=1.0)),
    "ledger without a cap": lambda _: paid(PrivacyLedger(epsilon=np.inf, delta=1e-6)),
    "ledger in a file": ledger,
    "opened ledger": lambda path: PrivacyLedger.open(ledger(path).path),
    "data set": lambda _: paid(PrivacyLedger(epsilon=1.0)).dataset("two"),
    "data set in a file": lambda path: ledger(path).dataset("new"),
    "guarantee": lambda _: guarantee(noise="loud", counted=False, idealised=True),
    "guarantee of a file": lambda _: PrivacyGuarantee.from_dict(guarantee().to_dict()),
    "no guarantee": lambda _: PrivacyGuarantee(Unprotected("of a test")),
    "sum of guarantees": lambda _: guarantee() + guarantee(),
    "simulated": lambda _: guarantee(simulated=True),
    "privacy of a summary": lambda _: curator().privacy,
    "privacy of synthetic rows": lambda _: fitted("synthetic").privacy_,
    "pure": lambda _: PureDP(1.0),
    "gaussian": lambda _: GaussianDP(1.0),
    "schema": lambda _: table(),
    "schema of a file": from_toml,
    "schema for all": lambda _: TableSchema((0, 1)),
    "schema of an array": lambda _: TableSchema([(0, 1), ["a", "b"]], extra_columns="drop"),
    "numeric": lambda _: Numeric(0, 1),
    "date": lambda _: Date("2020-01-01", "2024-12-31"),
    "categorical": lambda _: Categorical(["a", "b"], missing=True),
    "public": lambda _: Public(X),
    "number": lambda _: answered(()),
    "vector": lambda _: answered((3,)),
    "table": lambda _: answered((2, 3)),
    "answer of a model": lambda _: M2MEstimator((-1, 1), epsilon=np.inf).fit(X).mean(),
    "pickled answer": lambda _: pickle.loads(pickle.dumps(answered((3,)))),
    "comparison": lambda _: compare(X, sketch(), epsilon=1.0),
    "audit": lambda _: AuditResult(1.62, 0.99, 0.0, 10_000, "output >= 10", (2500, 420)),
    "points": lambda _: Points(prior="uniform"),
    "kernel": lambda _: PolynomialKernel(),
    "owner": lambda _: DataOwner(X, LABELS),
    "rows of an owner": lambda _: rows(),
    "curator": lambda _: curator(),
    "curator in between": lambda _: curator(1),
    **{name: lambda _, kind=kind: kind() for name, kind in by_default().items()},
}

# Of these, copies are refused: each would be paid for once, and used twice.
ONCE = {"curator", "curator in between", "ledger", "ledger without a cap", "data set"}


def test_every_public_class_is_among_them(tmp_path):
    public = {
        getattr(room, name)
        for room in PACKAGES
        for name in room.__all__
        if isinstance(getattr(room, name), type) and not issubclass(getattr(room, name), Exception)
    }
    shown = {type(make(tmp_path_of(tmp_path, name))) for name, make in OBJECTS.items()}
    shown |= {type(one.estimator) for one in INSTANCES.values()}
    assert {kind.__name__ for kind in public - shown} == set()


def tmp_path_of(tmp_path, name):
    (tmp_path / name).mkdir(exist_ok=True)
    return tmp_path / name


# ---- what is listed, and what is there


def descriptors(kind):
    """Yield the names of what may fail when it is asked for: properties, conditional methods."""
    for base in kind.__mro__:
        for name, value in vars(base).items():
            conditional = type(value).__name__ == "_AvailableIfDescriptor"
            if conditional or isinstance(value, property | cached_property):
                yield name


def check_properties(one):
    """A property of a sound object is there, or raises AttributeError."""
    for name in descriptors(type(one)):
        hasattr(one, name)  # which lets all other errors through


def check_faces(one):
    """Ask an object what a notebook asks; return its texts. It warns of nothing meanwhile."""
    with warnings.catch_warnings(action="error"):
        return faces(one)


def faces(one):
    names = dir(one)
    assert {name for name, _ in inspect.getmembers(one)} <= set(names)
    texts = [repr(one), str(one)]
    if hasattr(one, "_repr_html_"):
        texts.append(one._repr_html_())
    return texts


# The last instance of each class, by name.
KINDS = {type(one.estimator): name for name, one in INSTANCES.items()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_estimators_show_themselves(kind):
    one = fitted(KINDS[kind])
    for shown in (INSTANCES[KINDS[kind]].make(), copy.copy(one), copy.deepcopy(one), one):
        check_properties(shown)
        check_faces(shown)
    told = {name for name in vars(one) if name.endswith("_") and not name.startswith("_")}
    assert {"fit", "get_params", *told} <= set(dir(one))


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_show_themselves(name, tmp_path):
    one = OBJECTS[name](tmp_path)
    check_properties(one)
    check_faces(one)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_copied_or_say_why_not(name, tmp_path):
    one = OBJECTS[name](tmp_path)
    for how in (copy.copy, copy.deepcopy):
        if name in ONCE:
            with pytest.raises(TypeError, match="cop"):
                how(one)
            continue
        check_properties(how(one))
        check_faces(how(one))


# What people pass by mistake: a class for an instance, a list or a mapping for one of its entries.
MISTAKES = {"word": "no such thing", "class": TDILClassifier, "list": [1, 2], "none": None}
MISTAKES["mapping"] = {"age": (0, 1)}


MADE = {kind: INSTANCES[name].make for kind, name in KINDS.items()}
MADE |= {kind: kind for kind in by_default().values()}


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.__name__)
def test_no_wrong_parameter_hides_anything(kind):
    names = MADE[kind]().get_params(deep=False)
    for name, value in itertools.product(names, MISTAKES.values()):
        one = MADE[kind]()
        setattr(one, name, value)  # as a constructor does, which only stores
        assert {"fit", "get_params", name} & set(dir(kind)) <= set(dir(one))
        assert inspect.getmembers(one)
        assert repr(one)
        assert one._repr_html_()


# ---- nothing private


PRIVATE = {
    "owner": lambda: DataOwner(X, LABELS),
    "rows": rows,
    "bid": lambda: Bid(CANARY[0], 41),
    "curator": curator,
    "curator with rows": lambda: curator(1),
    "public": lambda: Public(X),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_no_text_shows_a_row(name):
    for text in check_faces(PRIVATE[name]()):
        assert not re.search(r"0\.7316|7\.316|0\.4182|4\.182", text)


# ---- small tables in notebooks


def test_a_ledger_that_cannot_be_read_is_shown_all_the_same(tmp_path):
    one = ledger(tmp_path)
    one.path.write_bytes(b"no ledger")
    for shown in (one, LedgerDataset(one, "two", None)):
        assert "cannot be read" in shown._repr_html_()
        assert "charge" in dir(shown)
    assert "cannot be read" in repr(one)


def evil_sketch(sketcher=HistogramSketcher):
    columns = {EVIL: (-1, 1), "job": Categorical([EVIL, "b"], unit=EVIL, description=EVIL)}
    words = dict.fromkeys(("protects", "against", "given"), EVIL)
    frame = pd.DataFrame({EVIL: X[:, 0], "job": np.where(X[:, 1] > 0, EVIL, "b")})
    made = sketcher(TableSchema(columns), delta=0.0).fit(frame)
    return replace(made.sketch_, privacy=replace(made.sketch_.privacy, **words))


def evil_ledger(tmp_path):
    one = PrivacyLedger(epsilon=1.0)
    one.dataset(EVIL, partition=EVIL).charge(PureDP(0.1), label=EVIL)
    return one


WORDS = dict.fromkeys(("protects", "against", "unit", "given", "noise"), EVIL)
STRANGERS = {
    "loaded sketch": lambda path: saved(path, evil_sketch()),
    "model": lambda path: M2MEstimator.from_sketch(saved(path, evil_sketch())),
    "guarantee": lambda _: PrivacyGuarantee.from_dict(guarantee(**WORDS).to_dict()),
    "ledger": evil_ledger,
    "data set": lambda path: evil_ledger(path).dataset(EVIL),
    "schema": lambda _: evil_sketch().schema,
    "answer": lambda _: M2MEstimator.from_sketch(evil_sketch()).table([0, 1], bins=2),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_words_of_strangers_are_escaped(name, tmp_path):
    text = STRANGERS[name](tmp_path)._repr_html_()
    assert EVIL not in text
    assert "<img" not in text
    assert html.escape(EVIL) in text


@pytest.mark.parametrize("steering", ["\x1b[2J", "\r", "\u202e"], ids=["clears", "covers", "turns"])
def test_words_of_strangers_do_not_steer_a_terminal(steering):
    told = guarantee(**dict.fromkeys(WORDS, f"a{steering}b"))
    named = answer_of([1.0], labels=[[f"a{steering}b"]])
    word = f"a{steering}b"
    column = TableSchema({word: Categorical([word, "c"], unit=word)})
    for one in (told, named, column):
        assert steering not in repr(one)
        assert steering not in one._repr_html_()
    assert steering not in told.badge + told.short


# ---- and never long


def wide(n_columns):
    return TableSchema({f"column {j}": (0, 1) for j in range(n_columns)})


LONG = "of a stranger " * 100_000
LARGE = {
    "columns": lambda: wide(10_000),
    "categories": lambda: TableSchema({"a": [f"category {k}" for k in range(50_000)]}),
    "name": lambda: TableSchema({LONG: [LONG, "c"], "b": Numeric(0, 1, unit=LONG)}),
    "data sets": lambda: many_data_sets(300),
    "guarantee": lambda: guarantee(**dict.fromkeys(WORDS, LONG)),
    "no guarantee": lambda: PrivacyGuarantee(Unprotected(LONG)),
    "costs": lambda: PrivacyGuarantee(Worst(tuple(PureDP(k / 1e4) for k in range(2000)))),
    "answers": lambda: answered((200, 300)),
    "names of answers": lambda: answer_of([1.0], labels=[[LONG]]),
}


def many_data_sets(n):
    one = PrivacyLedger(epsilon=np.inf)
    for k in range(n):
        one.dataset(f"data set {k}").charge(PureDP(1e-3), label="a release")
    return one


@pytest.mark.parametrize("name", LARGE)
def test_what_is_shown_is_bounded(name):
    one = LARGE[name]()
    texts = repr(one), one._repr_html_()
    assert max(map(len, texts)) < 20_000
    assert name == "costs" or "more" in texts[1] or "..." in texts[1]
