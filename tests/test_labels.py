"""What a label's form tells: nothing. Labels, groups and owners are read cell by cell, by value.

Rows that hold the same values in other types or containers are the same rows to a neighbour's eye,
so nothing that is public may tell them apart.
"""

import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pandas as pd
import polars as pl
import pytest
from catalogue import INSTANCES, of, of_each_class
from curators import curator_of
from refusals import refused
from sklearn.exceptions import DataConversionWarning

from skdpsumm.learners import TDILClassifier
from skdpsumm.moments import M2MClassifier
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.schema._columns import listed_classes
from skdpsumm.schema._groups import Groups
from skdpsumm.schema._reading import CellError, read_labels
from skdpsumm.sketches import HistogramSketcher
from skdpsumm.summaries import DataOwner, PrivateMMDSummarizer

pytestmark = [pytest.mark.simulated(1), pytest.mark.filterwarnings("ignore::UserWarning")]

N = 40
X = np.random.default_rng(0).uniform(-1, 1, (N, 2))
LABELS = np.arange(N) % 2
WORDS = np.where(LABELS, "yes", "no")
ONES = [1.0, True, np.True_, np.int8(1), np.uint64(1), np.float16(1), np.float32(1)]
ONES += [np.longdouble(1), Decimal(1), Decimal("1.0"), Fraction(1)]
ZEROS = [-0.0, 0.0, False, np.False_, np.float32(-0.0), Decimal("-0.0"), Fraction(0)]


def objects(cells):
    column = np.empty(len(cells), object)
    for i, cell in enumerate(cells):
        column[i] = cell
    return column


def in_all_forms(labels):
    """Return whole numbers of which each 0 and each 1 is in another type."""
    return [
        {0: ZEROS, 1: ONES}[int(label)][i % 7] if label in (0, 1) else int(label)
        for i, label in enumerate(labels)
    ]


def with_one(form, place):
    """Return the labels, one of them in another form."""
    found = LABELS.tolist()
    found[place] = form
    return found


NEGATIVE = np.where(LABELS, 1.0, -0.0)
CONTAINERS = {
    "all forms": in_all_forms(LABELS),
    "negative zeros": NEGATIVE,
    "truth values": LABELS.astype(bool),
    "short floats": NEGATIVE.astype(np.float32),
    "objects": objects(in_all_forms(LABELS)),
    "one minus zero": with_one(-0.0, 0),
    "series": pd.Series(LABELS, index=np.arange(N)[::-1], dtype="Int64"),
    "category": pd.Series(NEGATIVE, dtype="category"),
    "nullable": pd.Series(LABELS.astype(bool), dtype="boolean"),
    "polars": pl.Series(NEGATIVE),
    "column": NEGATIVE[:, None],
    "frame": pd.DataFrame({"y": LABELS.astype(bool)}),
    "polars frame": pl.DataFrame({"y": LABELS}),
}
OF_WORDS = {
    "list": WORDS.tolist(),
    "objects": WORDS.astype(object),
    "numpy's": [np.str_(word) for word in WORDS],
    "series": pd.Series(WORDS),
    "category": pd.Series(WORDS, dtype="category"),
    "polars": pl.Series(WORDS.tolist()),
    "enum": pl.Series(WORDS.tolist(), dtype=pl.Enum(["yes", "no"])),
}
if find_spec("pyarrow"):
    import pyarrow as pa

    parts = LABELS[:7].astype(float), LABELS[7:].astype(float)
    CONTAINERS["arrow"] = pa.chunked_array(parts)
    OF_WORDS["arrow"] = pa.chunked_array([WORDS.tolist()])
    OF_WORDS["dictionary"] = pa.array(WORDS.tolist()).dictionary_encode()


def told(value):
    """Return what somebody who gets a public value can see of it."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(told(key), told(part)) for key, part in value.items()]
    if isinstance(value, list | tuple | set):
        return type(value).__name__, [told(part) for part in value]
    # Twice, for the first pickle tells which of its parts are one object in memory.
    return type(value).__name__, pickle.dumps(pickle.loads(pickle.dumps(value)))


def state(model):
    """Return all that is public of a fitted model, its predictions included."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    found = {name: told(getattr(model, name)) for name in names if hasattr(model, name)}
    found["repr"] = repr(model)
    if not getattr(model, "holds_private_data", False):
        found["pickle"] = told(model)
    for method in ("predict", "predict_proba"):
        if hasattr(model, method):
            found[method] = told(np.asarray(getattr(model, method)(X[:3])))
    return found


def fitted(name, *, y, **data):
    made = INSTANCES[name].make()
    for key in made.get_params():
        if key.split("__")[-1] == "random_state":
            made.set_params(**{key: 0})
    with warnings.catch_warnings(action="ignore"):
        return made.fit(X, y, **data)


# ---- the reader


@pytest.mark.parametrize("labels", [[2**63, 1], [2**53 + 1, 1], ["a", 1]])
def test_what_no_dtype_holds_is_no_label(labels):
    refused(r".", read_labels, labels, error=CellError)
    refused("^classes(=| lists)", listed_classes, labels)


@pytest.mark.parametrize("container", OF_WORDS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_words_are_words_in_any_container(container):
    found = read_labels(OF_WORDS[container])
    assert found == WORDS.tolist()
    assert {type(word) for word in found} == {str}


# ---- all that fit labels

TAKES_LABELS = of_each_class(of("learner", "model", "search", "summarised", y="labels"))


@pytest.mark.parametrize("name", TAKES_LABELS)
def test_public_state_is_a_function_of_the_values_of_labels(name):
    first = fitted(name, y=LABELS.tolist())
    expected = state(first)
    if hasattr(first, "classes_"):
        assert first.classes_.dtype == first.predict(X).dtype == np.int64
    containers = list(CONTAINERS)
    if name not in ("weights", "m2m classifier", "summarised"):  # others read by the same function
        at = list(INSTANCES).index(name)
        containers = ["all forms", containers[1 + at % (len(containers) - 1)]]
    for container in containers:
        assert state(fitted(name, y=CONTAINERS[container])) == expected, container


@pytest.mark.parametrize("name", of_each_class(of("learner", "model", "search", y="numbers")))
def test_numbers_are_read_by_their_values(name):
    expected = state(fitted(name, y=LABELS.tolist()))
    for container in ("all forms", "frame"):
        assert state(fitted(name, y=CONTAINERS[container])) == expected, container


def test_truth_values_stay_what_they_are_where_they_are_listed():
    for name in ("weights", "m2m classifier"):
        for container in ("all forms", "truth values", "negative zeros"):
            model = INSTANCES[name].make(classes=[False, True])
            model.fit(X, CONTAINERS[container])
            assert model.classes_.dtype == model.predict(X).dtype == bool


# ---- labels that are refused: a matter of each cell, and no text tells one

SECRET = "98765"
BAD = {
    "NUL": f"rare {SECRET}\0",
    "inexact": int(SECRET) * 2**60 + 1,
    "fraction": Fraction(int(SECRET), 7),
    "decimal": Decimal("0." + SECRET),
    "bytes": SECRET.encode(),
    "tuple": (int(SECRET), 1),
    "missing": Decimal("NaN" + SECRET),
    "infinite": Decimal("1e999999999"),
    "complex": complex(int(SECRET), 1),
    "time": np.datetime64(SECRET, "D"),
    "other": type(f"Class{SECRET}", (), {})(),
}


def texts(error):
    """Return all that a traceback would print of an error, its chain and its notes."""
    found, left = [], [error]
    while left:
        one = left.pop()
        if one is not None:
            found += [str(one), repr(one), *getattr(one, "__notes__", ())]
            left += [one.__cause__, one.__context__]
    return " ".join(found)


def tells_none(work, kinds=(ValueError, TypeError)):
    with pytest.raises(kinds) as caught:
        work()
    told = texts(caught.value)
    assert SECRET not in told
    assert "rare" not in told
    return str(caught.value)


def bad_in(cells, bad, place):
    cells = list(cells)
    cells[place] = bad
    return cells


@pytest.mark.parametrize("name", TAKES_LABELS)
def test_errors_tell_no_label_and_cost_nothing(name):
    for bad in BAD.values():
        ledger = PrivacyLedger(epsilon=np.inf)
        model = INSTANCES[name].make(ledger=ledger)
        found = {
            tells_none(lambda y=y, model=model: model.fit(X, y))
            for y in (
                bad_in(LABELS.tolist(), bad, 3),
                bad_in(LABELS.tolist(), bad, N - 1),
                bad_in(in_all_forms(LABELS), bad, 3),
            )
        }
        assert len(found) == 1  # others have no say in the words
        assert not ledger.entries()


@pytest.mark.parametrize("extra", [1.0, True, -0.0, 0.5, "0", None, b"a", 2**60, Decimal(1)])
def test_no_label_makes_others_acceptable(extra):
    for bad in BAD.values():
        y = [bad, 0, 1, 0, 1, extra]
        for model in (TDILClassifier(), M2MClassifier((-1, 1))):
            tells_none(lambda model=model, y=y: model.fit(X[:6], y))
        tells_none(lambda y=y: DataOwner(X[:6], y))
        tells_none(lambda y=y: Groups.read([*y[1:5], y[0], y[5]]) and DataOwner(X[:6], y))


# ---- owners and groups


def summarised(**data):
    model = PrivateMMDSummarizer(n_select=5, n_components=16, gamma=0.5, random_state=0)
    return model.fit(X, X_target=X[:9], **data)


@pytest.mark.parametrize("container", [c for c in CONTAINERS if c != "series"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_owners_are_their_values(container):
    expected, found = (state(summarised(owners=o)) for o in (LABELS, CONTAINERS[container]))
    assert found == expected


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_groups_are_their_values(container):
    sketcher = HistogramSketcher(schema=(-1, 1), max_rows_per_group=3)
    expected = sketcher.fit(X, groups=LABELS).sketch_.sums.tobytes()
    assert sketcher.fit(X, groups=CONTAINERS[container]).sketch_.sums.tobytes() == expected


@pytest.mark.parametrize("kind", BAD)
def test_errors_tell_no_owner_and_no_group(kind):
    bad = BAD[kind]
    tells_none(lambda: summarised(owners=bad_in(LABELS.tolist(), bad, 3)))
    tells_none(lambda: summarised(owners=bad_in(WORDS.tolist(), bad, 3)))
    if kind not in ("inexact", "fraction", "decimal"):  # numbers, which groups may be
        sketcher = HistogramSketcher(schema=(-1, 1), max_rows_per_group=3)
        tells_none(lambda: sketcher.fit(X, groups=bad_in(LABELS.tolist(), bad, 3)))


# ---- labels that are handed over tell nothing of those that stay


def handed_over(rows, y):
    parameters = {"gamma": 0.5, "n_components": 16, "n_select": 5, "random_state": 0}
    curator = curator_of(rows, ["a"], **parameters)
    return DataOwner(rows, y, seed=0).answer(curator.open()["a"])


def test_what_is_handed_over_tells_nothing_of_labels_that_stay():
    rows, y = np.random.default_rng(1).normal(size=(300, 2)), (np.arange(300) % 2).tolist()
    sent = handed_over(rows, y)
    stays = min(set(range(300)) - set(sent.indices.tolist()))
    for hidden in (1, 0.5, -0.0, True):
        assert told(handed_over(rows, bad_in(y, hidden, stays)).y) == told(sent.y)


# ---- y as a table


@pytest.mark.parametrize("name", TAKES_LABELS)
def test_y_of_two_columns_is_refused_and_of_one_is_taken_with_a_warning(name):
    two = pd.DataFrame({"no": LABELS, "yes": LABELS})
    ledger = PrivacyLedger(epsilon=np.inf)
    model = INSTANCES[name].make(ledger=ledger)
    for y in (two, pl.from_pandas(two), two.to_numpy(), two.to_numpy().tolist(), two[:2]):
        refused(r"1d array|one column", model.fit, X[: len(y)], y)
    assert not ledger.entries()
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model.fit(X, two[["no"]])
