"""Constructors stand in the source, and what they have in common is described alike."""

import inspect
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from answers import said
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import RBFSampler

import skdpsumm
from skdpsumm import PINPClassifier, PrivacyLedger
from skdpsumm.learners import TDILClassifier, TDILRegressor
from skdpsumm.sketches import SketchUnion

ROOT = Path(__file__).resolve().parent.parent
EVERY = [getattr(skdpsumm, name) for name in skdpsumm.__all__]
ESTIMATORS = [one for one in EVERY if isinstance(one, type) and issubclass(one, BaseEstimator)]
# Parameters that mean something else in another family.
OWN_MEANING = {"kernel", "loss", "n_bins", "regularization", "target", "weights", "gamma"}
OWN_MEANING |= {"estimator", "n_select", "n_components", "n_synthetic"}
ENTRY = re.compile(r"(?m)^(\w+) : .*\n((?:    .*\n|\n(?=    ))*)")
SECTION = re.compile(r"(?m)^(\w[\w ]*)\n-+\n")


def sections(kind):
    """Return the sections of a docstring, in their order."""
    _, *parts = SECTION.split(inspect.cleandoc(kind.__doc__) + "\n")
    return dict(zip(parts[::2], parts[1::2], strict=True))


def entries(kind):
    """Return what a docstring says of each parameter, in its order."""
    found = ENTRY.finditer(sections(kind)["Parameters"])
    return {name: " ".join(text.split()) for name, text in (one.groups() for one in found)}


def parameters(kind):
    """Return the parameters of a constructor, which may be that of a class above."""
    return list(inspect.signature(kind).parameters.values())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_constructors_stand_in_the_source_and_not_behind_keyword_arguments(kind):
    source = inspect.getsource(kind.__init__)  # which raises for those that are generated
    assert all(f"self.{one.name} = {one.name}" in source for one in parameters(kind))


def public_functions():
    """Yield the functions and methods of the public face that are ours, with their names."""
    for name, one in zip(skdpsumm.__all__, EVERY, strict=True):
        members = {"": one} if inspect.isfunction(one) else {}
        if isinstance(one, type):
            members = {m: inspect.getattr_static(one, m) for m in dir(one) if m[0] != "_"}
            members["__init__"] = one.__init__
        for member, function in members.items():
            function = getattr(function, "__func__", getattr(function, "fget", function))
            function = inspect.unwrap(function) if callable(function) else None
            if inspect.isfunction(function) and function.__module__.startswith("skdpsumm"):
                yield f"{name}.{member}", function


def test_the_public_face_is_typed():
    functions = dict(public_functions())
    assert len(functions) > 300
    for name, function in functions.items():
        wanted = {*inspect.signature(function).parameters, "return"} - {"self", "cls"}
        if name.endswith("__init__"):
            wanted -= {"return"}
        assert wanted <= {*function.__annotations__}, name


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_docstrings_have_all_parameters_in_the_order_of_the_constructor(kind):
    assert list(entries(kind)) == [one.name for one in parameters(kind)]
    assert next(iter(sections(kind))) == "Parameters"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_pages_begin_with_schema_and_epsilon_and_end_with_what_to_see(kind):
    first, *names = [one.name for one in parameters(kind)]
    assert first != "schema" or "epsilon" not in names[1:]  # it is the next
    assert list(sections(kind))[-1] == "See Also"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_schema_comes_first_and_may_come_by_position(kind):
    first, *others = parameters(kind)
    assert "schema" not in [one.name for one in others] or kind is SketchUnion
    if first.name == "schema":
        assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_no_estimator_has_more_than_14_parameters(kind):
    assert len(parameters(kind)) <= 14


def first_sentence(text):
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def shared(kinds):
    """Return what is said of each parameter that several classes have: sentence -> classes."""
    said = defaultdict(lambda: defaultdict(list))
    for kind in kinds:
        for name, text in entries(kind).items():
            said[name][first_sentence(text)].append(kind.__name__)
    return {name: dict(texts) for name, texts in said.items() if sum(map(len, texts.values())) > 1}


def test_a_parameter_that_several_estimators_share_is_described_alike():
    everywhere = shared(ESTIMATORS)
    assert {"schema", "epsilon", "ledger", "random_state", "classes"} <= set(everywhere)
    unlike = {n: said for n, said in everywhere.items() if len(said) > 1 and n not in OWN_MEANING}
    assert not unlike


ROWS = np.random.default_rng(0).uniform(-1, 1, (60, 2))
SHORT = {"norm_bound": 1.0}


@pytest.mark.parametrize(
    ("model", "is_told"),
    [
        (TDILClassifier(), True),
        (TDILClassifier(kernel="linear", epsilon=np.inf), True),
        (TDILRegressor(y_bounds=(-1, 1)), True),
        (PINPClassifier(kernel="poly"), True),
        (TDILClassifier((-1, 1)), False),
        (TDILClassifier(**SHORT), False),
        (PINPClassifier(kernel="poly", **SHORT), False),
        (PINPClassifier(gamma=1.0), False),
        (TDILClassifier(kernel=RBFSampler(n_components=8)), False),
    ],
    ids=str,
)
def test_rows_that_nothing_public_is_said_of_are_told_once_before_the_charge(model, is_told):
    y = np.sign(ROWS[:, 0])
    told = said(lambda: model.fit(ROWS, y), UserWarning)[1]
    told = [text for text in told if "a schema, the public" in text]
    assert len(told) == is_told
    ledger = PrivacyLedger(epsilon=np.inf, delta=1e-5)
    model.set_params(ledger=ledger)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Give .* a schema")
        with pytest.raises(UserWarning, match="a schema") if is_told else nullcontext():
            model.fit(ROWS, y)
    assert (not ledger.entries()) == is_told


def test_norm_bound_is_refused_beside_a_schema():
    model = TDILClassifier((0, 1), norm_bound=2.0)
    with pytest.raises(ValueError, match=r"Leave norm_bound=2\.0 out"):
        model.fit(np.zeros((4, 1)), [0, 1, 0, 1])


SCRIPT = """
from skdpsumm import M2MEstimator, PrivacyLedger, RFFSketcher, TDILClassifier

TDILClassifier(epslion=1.0)
RFFSketcher(epslion=1.0)
M2MEstimator(epslion=1.0)
TDILClassifier(ledger="my ledger")
ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
model = TDILClassifier({"age": (17, 90)}, classes=["no", "yes"], ledger=ledger)
reveal_type(model.fit([[20.0]], ["no"]))
reveal_type(RFFSketcher((0, 1)).fit([[0.5]]))
"""


@pytest.mark.statistical
def test_a_type_checker_refuses_a_misspelt_parameter(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    told = subprocess.run([*command, str(script)], cwd=ROOT, capture_output=True, text=True).stdout
    lines = [line.partition(".py:")[2] for line in told.splitlines()]
    errors = [line.split(":")[0] for line in lines if " error: " in line]
    assert errors == ["4", "5", "6", "7"], told
    assert told.count('Unexpected keyword argument "epslion"') == 3
    assert 'Revealed type is "skdpsumm.learners._tdil.TDILClassifier"' in told
    assert 'Revealed type is "skdpsumm.sketches._sketchers.RFFSketcher"' in told
