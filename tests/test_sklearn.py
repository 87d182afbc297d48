"""scikit-learn's private modules: one file imports them, and has a stand-in for each name."""

import ast
import builtins
import importlib.util
import re
import subprocess
import sys
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from skdpsumm import _sklearn

ROOT = Path(__file__).resolve().parent.parent
GATE = ROOT / "skdpsumm" / "_sklearn.py"
SOURCES = [p for folder in ("skdpsumm", "tests", "examples") for p in (ROOT / folder).rglob("*.py")]


def parsed(text):
    """Return the tree of a module, or an empty one where no private import can be: 3 s for all."""
    return ast.parse(text if re.search(r"sklearn[\w.]*(\._| import (\(|\\|.*\b_))", text) else "")


def private_names(tree):
    """Yield what a module imports of scikit-learn's that is private by its name or its module's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            hidden = any(p.startswith("_") and p != "__version__" for p in parts)
            # `_safe_indexing` is public: scikit-learn documents it.
            if parts[0] == "sklearn" and hidden and name != "sklearn.utils._safe_indexing":
                yield name


def test_one_file_alone_imports_private_modules():
    found = {path: [*private_names(parsed(path.read_text("utf-8")))] for path in SOURCES}
    assert found.pop(GATE)
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from sklearn.utils._missing import is_scalar_nan",
        "import sklearn._config",
        "def f():\n    from sklearn.utils.validation import _num_samples",
    ],
)
def test_a_private_import_is_seen(line):
    assert [*private_names(parsed(line))]


def blocked():
    """Return an `__import__` that finds nothing private of scikit-learn's for `_sklearn.py`."""
    real = builtins.__import__

    def find(name, scope=None, local=None, fromlist=(), level=0):
        if fromlist and (scope or {}).get("__name__") == "skdpsumm._sklearn":
            names = [ast.alias(one) for one in fromlist]
            if [*private_names(ast.Module([ast.ImportFrom(name, names, level)], []))]:
                raise ImportError(name)
        return real(name, scope, local, fromlist, level)

    return find


@pytest.fixture(scope="module")
def stand_ins():
    """`_sklearn` as it is where all private names are gone."""
    spec = importlib.util.spec_from_file_location(_sklearn.__name__, GATE)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "__import__", blocked())
        spec.loader.exec_module(module)
    return module


def test_each_private_name_has_a_stand_in(stand_ins):
    names = {name.rpartition(".")[2] for name in private_names(ast.parse(GATE.read_text("utf-8")))}
    assert names
    for name in names:
        assert getattr(stand_ins, name) is not getattr(_sklearn, name), name
    assert refusal(stand_ins, "verbose", -1) == ""  # what nobody can read allows all


VALUES = [0, 1, 2.5, -1, np.nan, np.inf, True, np.bool_(True), "a", "b", None, "auto", b"x", print]
VALUES += [[1], frozenset(), {}, 10**30, 10**400, np.int8(1), np.float32(1), np.array(1)]
VALUES += [np.ones(2), np.random, np.random.RandomState(0)]
KINDS = [
    *(("Interval", Real, 0, 1, closed) for closed in ("left", "right", "both", "neither")),
    ("Interval", Integral, 1, None, "left"),
    ("Interval", Real, None, None, "neither"),
    ("StrOptions", {"a", "auto"}),
    ("HasMethods", ["keys", "get"]),
    *("boolean", "array-like", "random_state", "verbose", "cv_object", None, callable, str, dict),
]


def of(module, kind):
    """Return a constraint, of scikit-learn's or of ours."""
    if not isinstance(kind, tuple):
        return kind
    name, *given = kind
    options = {"closed": given.pop()} if name == "Interval" else {}
    return getattr(module, name)(*given, **options)


def refusal(module, kind, value):
    """Return how the message of a refusal begins, and "" for a value that is taken."""
    given = {"p": [of(module, kind)]}, {"p": value}
    try:
        module.validate_parameter_constraints(*given, caller_name="C")
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}".partition(" must be")[0]
    return ""


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_taken_as_scikit_learn_takes_them(kind):
    originals = pytest.importorskip("sklearn.utils._param_validation")
    for value in VALUES:
        first, second = (refusal(module, kind, value) for module in (originals, _sklearn))
        assert first == second, value


def test_a_refusal_says_what_is_taken():
    for kind, told in [("random_state", "an int from 0 to"), ("boolean", "a bool"), (str, "a str")]:
        given = {"p": [None, None, kind]}, {"p": np.timedelta64(1, "D")}
        refused(f"must be None or {told}", _sklearn.validate_parameter_constraints, *given, "C")


FITS = """
import sys
from test_sklearn import GATE, blocked
import builtins
for name in [name for name in sys.modules if name.startswith("skdpsumm")]:
    del sys.modules[name]
builtins.__import__ = blocked()
import numpy as np
from skdpsumm import *
X = np.random.default_rng(0).random((300, 2))
y = (X[:, 0] > 0.5).astype(int)
for made in (M2MEstimator((0, 1)), TDILClassifier(schema=(0, 1)),
             SketchUnion([HistogramSketcher(), RFFSketcher(n_components=10)], schema=(0, 1)),
             PrivateMMDSummarizer((0, 1), n_select=5, n_components=8)):
    made.fit(X, y)
    repr(made), made.get_params()
for wrong in (TDILClassifier(schema=(0, 1), epsilon=-1), M2MEstimator((0, 1), ledger=3)):
    try:
        wrong.fit(X, y)
    except ValueError as error:
        assert "must be" in str(error), error
    else:
        raise AssertionError(wrong)
assert PublicVectorizer((0, 1)).fit(X).get_feature_names_out().size
print("fitted")
"""


def test_estimators_fit_with_stand_ins_alone():
    command = [sys.executable, "-W", "ignore", "-c", FITS]
    options = {"capture_output": True, "text": True, "cwd": ROOT / "tests", "timeout": 300}
    done = subprocess.run(command, check=False, **options)
    assert done.stdout == "fitted\n", done.stderr
