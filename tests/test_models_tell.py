"""Models take tables with columns of names, and say where the sketch is too weak for them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from skdpsumm.learners import PINPClassifier, TDDLClassifier, TDILClassifier
from skdpsumm.moments import M2MClassifier, M2MRegressor
from skdpsumm.schema import Categorical, Numeric
from skdpsumm.sketches import HistogramSketcher, RFFSketcher

JOBS = ["baker", "clerk", "smith"]
N = 2000


def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 61, N), "job": rng.choice(JOBS, N)})
    return frame.assign(height=rng.uniform(1.5, 2, N))


X = people()
Y = np.where((X["job"] == "baker") | (X["age"] > 50), "yes", "no")
AGE = Numeric(20, 60, step=1)
NAMED = {"age": AGE, "job": JOBS, "height": (1.5, 2)}
EXACT = RFFSketcher(n_components=60, gamma=0.5, epsilon=np.inf, random_state=0)
QUICK = {"n_synthetic": 2000, "random_state": 0}

TABLES = {"pandas": (X, NAMED), "array": (X.to_numpy(dtype=object), [AGE, JOBS, (1.5, 2)])}


# ---------------------------------------------------------------------------- columns of names


@pytest.mark.parametrize("table", TABLES)
def test_a_classifier_fits_and_predicts_columns_of_names(table):
    rows, known = TABLES[table]
    model = M2MClassifier(known, release=EXACT, **QUICK).fit(rows, Y)
    assert model.score(rows, Y) > 0.9
    assert model.n_features_in_ == 3
    assert model.estimator_.n_features_in_ == 5  # an indicator of each job
    columns = model.sketch_.schema
    assert columns.values(1) == tuple(JOBS)
    assert [columns.step(j) for j in range(4)] == [1.0, None, None, None]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert clone(model).get_params()["schema"] == known
    assert "the schema of the columns, and the set of labels in y" in model.privacy_.given


def test_the_release_is_that_of_the_sketcher_on_the_same_table():
    """Nothing but the columns' place is new: the privacy of a release is the sketcher's."""
    model = M2MClassifier(NAMED, release=EXACT, **QUICK).fit(X, Y)
    known = {**NAMED, "target": ["no", "yes"]}
    sketcher = clone(EXACT).set_params(schema=known).fit(X.assign(target=Y))
    assert np.array_equal(model.sketch_.sums, sketcher.sketch_.sums)


# ------------------------------------------------------------- inputs that the sketch does not see


def said(work):
    """Return what the work returns, and its warnings, of answers and of few points."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        done = work()
    return done, [w for w in caught if "skdpsumm" in str(w.category) or w.category is UserWarning]


def unseen(found):
    told = [str(w.message) for w in found]
    return [text for text in told if "explains only" in text or "does not tell how" in text]


def table_of(n_columns, n_rows=4000):
    """Return uniform columns, the first three of which tell the label."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{j}": rng.random(n_rows) for j in range(n_columns)})
    sums = frame.iloc[:, :3].sum(axis=1) + 0.3 * rng.normal(size=n_rows)
    return frame.assign(ill=np.where(sums > 1.5, "yes", "no"))


def sketch_of(frame, sketcher, **about):
    inputs = [name for name in frame if name != "ill"]
    known = dict.fromkeys(inputs, (0, 1)) | {"ill": ["no", "yes"]}
    settings = {"schema": known, "epsilon": np.inf, "random_state": 0} | about
    return clone(sketcher).set_params(**settings).fit(frame).sketch_


def auc_of(model, frame):
    inputs = frame[list(model.feature_names_in_)]
    return roc_auc_score(frame["ill"] == "yes", model.predict_proba(inputs)[:, 1])


def test_a_model_of_many_columns_says_that_its_features_do_not_see_them():
    frame = table_of(16)
    weak = sketch_of(frame, RFFSketcher(n_components=100, gamma=2.0))
    model, found = said(lambda: M2MClassifier.from_sketch(weak, target="ill", **QUICK))
    (message,) = unseen(found)
    for word in ("how 'ill' goes with 'x", " more, of 16 inputs", "marginals=[['x"):
        assert word in message
    assert all(word in message for word in ("fewer columns", "n_components", "gamma"))
    pairs = HistogramSketcher(marginals=[[f"x{j}", "ill"] for j in range(16)], n_bins=8)
    strong = sketch_of(frame, pairs)
    other, found = said(lambda: M2MClassifier.from_sketch(strong, target="ill", **QUICK))
    assert not found, "what is advised is not warned of"
    assert auc_of(other, frame) > auc_of(model, frame) + 0.05


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_few_columns_are_seen(epsilon):
    frame = table_of(3)
    sketch = sketch_of(frame, RFFSketcher(n_components=200, gamma=2.0), epsilon=epsilon)
    assert not said(lambda: M2MClassifier.from_sketch(sketch, target="ill", **QUICK))[1]
    assert not said(lambda: M2MRegressor.from_sketch(sketch, target="x1", **QUICK))[1]


def groups(n_seen):
    return [[f"x{j}", "ill"] for j in range(n_seen)] + [[f"x{j}"] for j in range(n_seen, 5)]


def test_more_than_half_of_the_inputs_unseen_are_named_and_no_others():
    frame = table_of(5)
    two = sketch_of(frame, HistogramSketcher(marginals=groups(2), n_bins=6))
    (message,) = unseen(said(lambda: M2MClassifier.from_sketch(two, target="ill", **QUICK))[1])
    assert "'x2', 'x3', 'x4', of 5 inputs" in message
    three = sketch_of(frame, HistogramSketcher(marginals=groups(3), n_bins=6))
    assert not unseen(said(lambda: M2MClassifier.from_sketch(three, target="ill", **QUICK))[1])
    # Points are asked of pairs; a graphical model knows that two columns go with a third one.
    other = {**QUICK, "inference": "points"}
    assert unseen(said(lambda: M2MRegressor.from_sketch(three, target="x0", **other))[1])
    assert not unseen(said(lambda: M2MRegressor.from_sketch(three, target="x0", **QUICK))[1])
    assert unseen(said(lambda: M2MRegressor.from_sketch(two, target="x0", **QUICK))[1])


# -------------------------------------------------------------------- whose line a warning names


def test_the_default_sketch_serves_many_columns():
    """Of Fourier features alone: .42, and an R^2 of .16."""
    X = (np.random.default_rng(0).random((8000, 12)) < 0.15) * 1.0
    y = 2 * X[:, 0] - X[:, 1]
    options = {"schema": (0, 1), "n_synthetic": 5000, "random_state": 0}
    model = M2MClassifier(**options).fit(X, y > 0.5)
    assert balanced_accuracy_score(y > 0.5, model.predict(X)) > 0.9
    assert M2MRegressor(y_bounds=(-1, 2), **options).fit(X, y).score(X, y) > 0.8


def test_rows_that_share_a_value_keep_their_points():
    """A bin of zeros, which a kernel over all numbers would empty: AUC .82, of two points."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((10_000, 2)), rng.exponential(0.05, 10_000).clip(0, 1)])
    X[rng.random(10_000) < 0.9, 2] = 0
    y = X[:, 0] + 3 * X[:, 2] > 0.6
    schema = [(0, 1), (0, 1), Numeric(edges=[0, 0.001, 0.05, 0.1, 0.3, 1])]
    pairs = HistogramSketcher(marginals=[[j, 3] for j in range(3)], n_bins=8, epsilon=5.0)
    model = M2MClassifier(schema, release=pairs, n_synthetic=5000, random_state=0)
    model.fit(X, y)
    assert model.effective_sample_size_ > 1000
    assert model.score(X, y) > 0.93


@pytest.mark.parametrize("kind", [TDILClassifier, TDDLClassifier, PINPClassifier, M2MClassifier])
def test_a_category_that_is_seen_later_is_told_or_is_other(kind):
    """Nothing is said of rows that are fitted: that there are others among them is private."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(0, 1, 600), "job": rng.choice(["a", "b", "z"], 600)})
    y = (X["job"] == "z").astype(int)
    later, other = (pd.DataFrame({"age": [0.1, 0.9], "job": ["a", one]}) for one in ("c", "other"))

    def model(**given):
        return kind(schema={"age": (0, 1), "job": Categorical(["a", "b"], **given)}, epsilon=9.0)

    fitted = model().fit(X[y == 0], (X["age"][y == 0] > 0.5).to_numpy())
    with pytest.raises(ValueError, match=r"Column 'job' .*other=True"):
        fitted.predict(later)
    fitted, found = said(lambda: model(other=True).fit(X, y))
    assert not [one for one in found if "other=True" in str(one.message)]
    assert np.array_equal(fitted.predict(later), fitted.predict(other))
    assert fitted.predict(later)[1] == 1
