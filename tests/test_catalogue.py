"""The catalogue has everything that is public, and all of it fits."""

import re
import warnings

import numpy as np
import pytest
from catalogue import DEFAULT_LEARNERS, DEFAULT_SKETCHES, INSTANCES, of, payer
from sklearn.base import BaseEstimator, clone
from test_apart import SCHEMAS
from test_kit import MADE, TABLES
from test_rounding import KERNELS

import skdpsumm
from skdpsumm import TDILClassifier, summaries
from skdpsumm.learners.mechanisms._base import mechanisms_of
from skdpsumm.schema._columns import Column
from skdpsumm.schema._schema import as_schema
from skdpsumm.summaries._protocol import Protocol

X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
LABELS, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 1]
PUBLIC = {
    one
    for one in (getattr(skdpsumm, name) for name in skdpsumm.__all__)
    if isinstance(one, type) and issubclass(one, BaseEstimator) and hasattr(one, "fit")
}


def test_every_public_estimator_has_an_instance():
    assert {type(one.estimator) for one in INSTANCES.values()} == PUBLIC


def test_every_sketch_and_learner_is_there_with_its_defaults():
    wanted = {type(one.estimator) for one in of("sketcher", "model", "learner").values()}
    assert {type(one) for one in (DEFAULT_SKETCHES | DEFAULT_LEARNERS).values()} == wanted


def test_every_mechanism_and_protocol_has_an_instance():
    learners = of("learner").values()
    for kind in {type(one.estimator) for one in learners}:
        own = [one.estimator for one in learners if type(one.estimator) is kind]
        there = {type(one._chosen_mechanism()) for one in own}
        named = mechanisms_of(kind._kind).values()
        assert there == {one for one in named if one.__module__.startswith("skdpsumm")}, kind
    protocols = {type(one.estimator._made_protocol()) for one in of("summarizer").values()}
    public = [getattr(summaries, name) for name in summaries.__all__]
    kinds = {one for one in public if isinstance(one, type) and issubclass(one, Protocol)}
    assert protocols == kinds


@pytest.mark.parametrize("name", INSTANCES)
def test_instances_fit_the_table_that_they_are_for(name):
    one = INSTANCES[name]
    budget = {} if one.kind == "vectorizer" else {"epsilon": 2.5}
    model = one.make(**budget)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        one.fit(model, X, LABELS, NUMBERS)
    of_rows = one.kind in ("summarizer", "summarised")
    assert getattr(model, "holds_private_data", False) == (one.interactive or of_rows)
    if budget:
        assert payer(model).epsilon == 2.5
        assert payer(one.estimator).epsilon != 2.5
        claim, delta = getattr(model.privacy_, "target", model.privacy_), payer(model).delta
        assert name == "auction" or claim.epsilon(delta) <= 2.5


def test_what_is_given_to_an_instance_stays_as_it_is():
    given = skdpsumm.RFFSketcher(n_components=12)
    model = INSTANCES["m2m"].make(release=given, epsilon=7.0)
    assert (payer(model).epsilon, payer(model).n_components, given.epsilon) == (7.0, 12, 1.0)


# Those that cannot do without a schema.
WITHOUT = {
    "rff": skdpsumm.RFFSketcher(),
    "race": skdpsumm.RACESketcher(),
    "histogram": skdpsumm.HistogramSketcher(),
    "union": skdpsumm.SketchUnion([skdpsumm.HistogramSketcher(), skdpsumm.RFFSketcher(gamma=1.0)]),
    "m2m": skdpsumm.M2MEstimator(),
    "m2m classifier": skdpsumm.M2MClassifier(),
    "m2m regressor": skdpsumm.M2MRegressor(y_bounds=(-1, 1)),
    "tdil": skdpsumm.TDILClassifier(kernel="rbf"),
    "tddl": skdpsumm.TDDLClassifier(kernel="rbf", gamma=1.0),
    "pinp": skdpsumm.PINPClassifier(),
    "summarizer": skdpsumm.PrivateMMDSummarizer(),
    "synthesizer": skdpsumm.SketchSummarizer(),
    "vectorizer": skdpsumm.PublicVectorizer(None),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_the_schema_that_it_needs_an_estimator_says_how_to_write_one(name):
    ledger, model = skdpsumm.PrivacyLedger(epsilon=9, delta=1e-3), clone(WITHOUT[name])
    if "ledger" in model.get_params(deep=False):
        model.set_params(ledger=ledger)
    target = NUMBERS if "regressor" in name else LABELS
    more = {"X_target": X[:9]} if name == "summarizer" else {}
    with pytest.raises(ValueError, match=r"schema") as caught:
        model.fit(X, **more) if name == "summarizer" else model.fit(X, target)
    assert re.search(r"(schema=|such as )\(0, 1\).*{'age': \(17, 90\)", str(caught.value))
    assert ledger.entries() == []


def kinds_of(base):
    """Return all classes of ours that are made of a class."""
    found = {kind for sub in base.__subclasses__() for kind in (sub, *kinds_of(sub))}
    return {kind for kind in found if kind.__module__.startswith("skdpsumm.")}


@pytest.mark.parametrize(
    "schemas",
    [list(SCHEMAS.values()), [schema for _, schema in TABLES.values()]],
    ids=["apart", "kit"],
)
def test_every_kind_of_column_is_where_it_is_tested_what_a_row_moves(schemas):
    named = {type(column) for schema in schemas for column in as_schema(schema).columns}
    assert named == kinds_of(Column)


def test_every_kernel_is_where_it_is_tested_what_a_row_moves():
    constraints = TDILClassifier._parameter_constraints["kernel"]
    (words,) = (str(one) for one in constraints if str(one).startswith("a str among"))
    explicit = {"linear", "splines"}
    assert set(re.findall(r"'(\w+)'", words)) == explicit | {"auto", "polynomial"} | {
        name for name, *_ in KERNELS.values()
    }


def test_every_protocol_is_where_it_is_tested_what_a_row_moves():
    """The auction is where `test_mwem` has its proof."""
    tested = {type(make()._made_protocol()) for make in MADE.values()} | {summaries.Auction}
    assert kinds_of(Protocol) <= tested
