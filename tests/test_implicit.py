import numpy as np
import pandas as pd
import pytest
from refusals import refused
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skdpsumm import simulation
from skdpsumm.moments import AnswerWarning, M2MClassifier, M2MEstimator, M2MRegressor
from skdpsumm.sketches import HistogramSketcher, PrivateSketch, RFFSketcher, SketchUnion

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

SMALL = {"schema": (0, 1), "n_synthetic": 4_000, "random_state": 0}


def two_classes(n=4000, seed=0):
    """A concentrated table: most of the unit cube is empty."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    X = np.clip(0.2 + 0.05 * rng.normal(size=(n, 4)) + 0.1 * y[:, None], 0, 1)
    return X, y.astype(int)


def test_learns_what_the_data_say():
    X, y = two_classes()
    model = M2MClassifier(release=RFFSketcher(n_components=100, gamma=2.0), **SMALL).fit(X, y)
    assert model.score(X, y) > LogisticRegression().fit(X, y).score(X, y) - 0.03
    assert model.predict_proba(X).shape == (len(X), 2)


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 100.0, np.inf])
def test_more_budget_does_not_collapse_the_weights(epsilon):
    """One round of matching on uniform points puts all weight on few of them; ours does not."""
    X, y = two_classes()
    sketcher = RFFSketcher(n_components=100, gamma=2.0, epsilon=epsilon, random_state=0)
    model = M2MClassifier(release=sketcher, **SMALL).fit(X, y)
    assert model.effective_sample_size_ > 400


def test_methods_are_those_of_the_estimator():
    assert hasattr(M2MClassifier(), "predict_proba")
    assert not hasattr(M2MClassifier(estimator=LinearSVC()), "predict_proba")


def test_declared_classes_close_the_leak_and_may_be_absent():
    X, y = two_classes()
    release = RFFSketcher(n_components=40)
    model = M2MClassifier(classes=[0, 1, 2], release=release, **SMALL).fit(X, y)
    assert list(model.classes_) == [0, 1, 2]
    assert "labels" not in model.privacy_.given
    refused("classes", M2MClassifier(classes=[0, 2], **SMALL).fit, X, y)


def skewed(n=3000, d=15):
    X = np.random.default_rng(0).beta(2, 8, (n, d))
    return X, (X[:, :3].sum(axis=1) > 0.6).astype(int)


FEW = {"schema": (0, 1), "n_synthetic": 2000, "random_state": 0}


def test_weights_that_collapse_are_warned_of_with_the_remedy():
    X, y = skewed()
    sketcher = RFFSketcher(n_components=100, gamma=0.1, epsilon=np.inf, random_state=0)
    with pytest.warns(UserWarning, match="effective_sample_size_") as caught:
        model = M2MClassifier(release=sketcher, **FEW).fit(X, y)
    assert model.effective_sample_size_ < 10 * 16
    (told,) = (str(w.message) for w in caught if "effective_sample_size_" in str(w.message))
    assert f"are worth {model.effective_sample_size_:.0f} of" in told
    assert "SketchUnion" in told
    with pytest.warns(UserWarning, match="effective_sample_size_"):
        M2MClassifier.from_sketch(model.sketch_, **FEW)


def test_weights_that_hold_are_not_warned_of(recwarn):
    X, y = skewed()
    parts = [HistogramSketcher(n_bins=10), RFFSketcher(n_components=20)]
    union = SketchUnion(parts, epsilon=np.inf, random_state=0)
    M2MClassifier(release=union, **FEW).fit(X, y)
    assert not [w for w in recwarn if "effective_sample_size_" in str(w.message)]


def patients(n=3000):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 80, n)
    ill = np.where(age + 10 * rng.normal(size=n) > 55, "yes", "no")
    return pd.DataFrame({"ill": ill, "age": age, "dose": age / 20 + rng.uniform(0, 1, n)})


def test_any_column_of_a_sketch_can_be_learnt():
    """The same numbers as where the target is the last one; its name, or its number."""
    table = patients()
    union = SketchUnion(
        [HistogramSketcher(n_bins=8), RFFSketcher(n_components=60, gamma=2.0)],
        schema={"ill": ["no", "yes"], "age": (20, 80), "dose": (0, 6)},
        epsilon=np.inf,
        random_state=0,
    )
    sketch = union.fit(table).sketch_
    settings = {"n_synthetic": 4000, "random_state": 0}
    for target in ("ill", 0):
        model = M2MClassifier.from_sketch(sketch, target=target, **settings)
        assert list(model.feature_names_in_) == ["age", "dose"]
        assert list(model.classes_) == ["no", "yes"]
        assert model.score(table[["age", "dose"]], table["ill"]) > 0.8
    number = M2MRegressor.from_sketch(sketch, target="age", **settings)
    inputs = table[["ill", "dose"]]
    assert number.score(inputs, table["age"]) > 0.7
    assert number.estimator_.coef_.shape == (3,)  # an indicator of each category, and the dose
    last = M2MRegressor.from_sketch(sketch, **settings)
    assert list(last.feature_names_in_) == ["ill", "age"]
    assert last.score(table[["ill", "age"]], table["dose"]) > 0.5


def test_a_sketch_without_ranges_is_given_them_by_the_analyst():
    rng = np.random.default_rng(0)
    X = np.column_stack([10 * rng.random((3000, 2)), rng.normal(size=3000)])
    X[:, 2] = X[:, 0] - X[:, 1]
    sketcher = RFFSketcher(n_components=100, gamma=0.02, epsilon=np.inf, random_state=0)
    sketch = sketcher.fit(X).sketch_
    for kind in (M2MEstimator, M2MRegressor):
        refused("Give from_sketch the public schema", kind.from_sketch, sketch)
    schema = [(0, 10), (0, 10), (-10, 10)]
    settings = {"schema": schema, "n_synthetic": 4000, "random_state": 0}
    assert np.allclose(M2MEstimator.from_sketch(sketch, **settings).mean(), X.mean(0), atol=0.5)
    model = M2MRegressor.from_sketch(sketch, **settings)
    assert model.score(X[:, :2], X[:, 2]) > 0.8
    assert model.schema is None  # those of the constructor are of X alone


def test_regression():
    rng = np.random.default_rng(0)
    X = rng.beta(2, 4, size=(5000, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.05 * rng.normal(size=5000)
    release = RFFSketcher(n_components=100, gamma=2.0)
    model = M2MRegressor(release=release, y_bounds=(-1.5, 3.5), **SMALL).fit(X, y)
    assert model.score(X, y) > 0.8
    refused("y_bounds", M2MRegressor(**SMALL).fit, X, y)
    few = M2MRegressor(y_bounds=(-1.5, 3.5), epsilon=0.1, **SMALL)
    with simulation(0), pytest.warns(AnswerWarning, match="noise hides its mean"):
        few.fit(X[:300], y[:300])


def test_labels_taken_as_public_are_in_every_guarantee(tmp_path):
    X, y = two_classes(500)
    model = M2MClassifier(release=RFFSketcher(n_components=10), **SMALL).fit(X, y)
    model.sketch_.save(tmp_path / "a.sketch")
    loaded = PrivateSketch.load(tmp_path / "a.sketch")
    analyst = M2MClassifier.from_sketch(loaded, n_synthetic=500)
    holders = [model.privacy_, model.sketcher_.privacy_, model.sketcher_.sketch_.privacy]
    for privacy in [*holders, loaded.privacy, analyst.privacy_]:
        assert "the set of labels in y" in privacy.given
    model.set_params(classes=[0, 1]).fit(X, y)
    assert "labels" not in model.sketch_.privacy.given
