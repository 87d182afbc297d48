"""A schema and nothing else: at epsilon = inf as good as scikit-learn's own, and at 1e4 as good.

The split is fixed, and so is the noise. examples/benchmarks/learner_defaults.py has larger tables.
"""

import numpy as np
import pytest
from simulated import simulate
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skdpsumm import PINPClassifier, PINPRegressor, PublicVectorizer, TDDLClassifier
from skdpsumm.learners import FunctionalMechanism, TDDLRegressor, TDILClassifier, TDILRegressor
from skdpsumm.learners._space import _gamma

# Tests of other things set these off, on tables as small as they are.
pytestmark = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")

SAME, USUAL, APART = 0.005, 0.01, 0.005


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X, y, list(zip(X.min(axis=0), X.max(axis=0), strict=True))


def digits():
    return *load_digits(return_X_y=True), [(0, 16)] * 64


def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    bounds = [(18, 80), (1, 2), (15, 45), (60, 140), (90, 310)]
    return X, y, [*bounds, (40, 250), (20, 100), (2, 10), (3, 6.5), (50, 130)]


def quality(model, X, y):
    if hasattr(model, "classes_"):
        if len(model.classes_) > 2:
            return accuracy_score(y, model.predict(X))
        return roc_auc_score(y, model.decision_function(X))
    return r2_score(y, model.predict(X))


def references(learner, gamma):
    """Return a learner's reference on encoded inputs, and on standardised ones."""
    if learner is TDILClassifier:
        return LogisticRegression(max_iter=5000), LogisticRegression(max_iter=5000)
    if learner is TDILRegressor:
        return Ridge(), Ridge()
    if learner in (TDDLClassifier, PINPClassifier):
        return SVC(gamma=gamma), SVC()
    return KernelRidge(kernel="rbf", gamma=gamma), KernelRidge(kernel="rbf")


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("table", "learner"),
    [
        (cancer, TDILClassifier),
        (cancer, TDDLClassifier),
        (cancer, PINPClassifier),
        (diabetes, TDILRegressor),
        (diabetes, TDDLRegressor),
        (diabetes, PINPRegressor),
        (digits, TDILClassifier),
        (digits, PINPClassifier),
    ],
    ids=lambda value: value.__name__,
)
def test_without_noise_defaults_are_as_good_as_scikit_learn(table, learner):
    X, y, schema = table()
    more = {"y_bounds": (20, 350)} if table is diabetes else {}
    found = []
    # Small tables differ from split to split, and linear models of numbers take no time.
    for seed in range(12 if learner is TDILRegressor else 4 if table is diabetes else 2):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
        models = [
            simulate(learner(schema=schema, epsilon=epsilon, **more), X_train, y_train, seed=seed)
            for epsilon in (np.inf, 1e4)
        ]
        same, usual = references(learner, _gamma(models[0]))
        models.append(make_pipeline(PublicVectorizer(schema), same).fit(X_train, y_train))
        models.append(make_pipeline(StandardScaler(), usual).fit(X_train, y_train))
        found.append([quality(model, X_test, y_test) for model in models])
    without, little, encoded, standardised = np.mean(found, axis=0)
    assert without >= encoded - SAME
    assert without >= standardised - USUAL
    assert abs(little - without) <= APART


@pytest.mark.statistical
def test_landmarks_come_close_to_the_whole_kernel_on_images():
    X, y, schema = digits()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    few, default = (
        TDDLClassifier(schema=schema, epsilon=np.inf, mechanism=mechanism).fit(X_train, y_train)
        for mechanism in (FunctionalMechanism(n_landmarks=64), "auto")
    )
    whole = SVC(gamma=_gamma(few))
    whole = make_pipeline(PublicVectorizer(schema), whole).fit(X_train, y_train)
    assert len(default.predictor_.points) == 4096  # for images of 64 pixels
    assert default.score(X_test, y_test) >= whole.score(X_test, y_test) - 0.005
    assert few.score(X_test, y_test) < default.score(X_test, y_test) - 0.015


@pytest.mark.statistical
@pytest.mark.parametrize("learner", [TDILClassifier, TDDLClassifier, PINPClassifier])
def test_the_default_of_lambda_has_no_jump_at_infinity(learner):
    X, y, schema = cancer()
    rows = slice(60)

    def found(epsilon):
        mechanism = {
            TDILClassifier: "objective",
            TDDLClassifier: FunctionalMechanism(n_landmarks=16),
            PINPClassifier: "functional",
        }[learner]
        model = learner(schema=schema, epsilon=epsilon, mechanism=mechanism).fit(X[rows], y[rows])
        return model.regularization_

    budgets = (40, 100, 1e3, 1e4, 1e6, 1e8, np.inf)
    lambdas = [found(epsilon) for epsilon in budgets]
    assert lambdas == sorted(lambdas, reverse=True)
    assert lambdas[-1] == lambdas[-2] > 0
    assert lambdas[3] <= 2 * lambdas[-1]


def test_landmarks_follow_from_the_number_of_numeric_columns():
    counted = FunctionalMechanism().count_landmarks
    assert [counted(d, 1e-6) for d in (2, 30, 40, 64, 784)] == [1024, 1024, 1720, 4096, 4096]
    assert counted(64, 0.0) == 1024  # of more, pure noise would release no more directions
    assert FunctionalMechanism(n_landmarks=7).count_landmarks(64, 1e-6) == 7


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [(TDILClassifier, "splines"), (TDDLClassifier, "rbf"), (PINPClassifier, "rbf")],
)
def test_the_default_kernel_is_that_of_the_kind_of_learner(kind, kernel):
    X = np.random.default_rng(0).uniform(0, 1, (60, 2))

    def scores(**given):
        model = simulate(kind((0, 1), random_state=0, **given), X, X[:, 0] > 0.5)
        return model.decision_function(X[:9])

    np.testing.assert_array_equal(scores(), scores(kernel=kernel))
    assert not np.array_equal(scores(), scores(kernel="linear"))
