"""Kernel learners as their users see them: what they predict, keep, refuse and charge."""

import copy
import multiprocessing
import pickle
import sys
import warnings

import numpy as np
import pytest
from refusals import refused
from simulated import simulate
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.svm import SVR

from skdpsumm import PINPClassifier, PINPRegressor, TDDLClassifier, TDILClassifier, TDILRegressor
from skdpsumm.learners import (
    EpsilonInsensitive,
    ExponentialMechanism,
    FunctionalMechanism,
    Huber,
    HuberizedHinge,
    NoisyThreshold,
    PolynomialKernel,
    SparseVector,
)
from skdpsumm.learners.mechanisms._objective import ObjectivePerturbation
from skdpsumm.privacy import NoiseWarning, PrivacyLedger
from skdpsumm.schema import Numeric, Public, PublicVectorizer

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 3))
DISC = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 < 0.6, "in", "out")
THIRDS = np.digitize(X[:, 0], [-0.3, 0.3])
CURVE = np.sin(3 * X[:, 0])
Z = RNG.uniform(-1, 1, (60, 3))
NEW = RNG.uniform(-1, 1, (30, 3))
NO_NOISE = {"epsilon": np.inf}

quiet = pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")


# ---- without noise they are what scikit-learn has


@pytest.mark.parametrize("y", [DISC, THIRDS])
def test_logistic_regression(y):
    model = TDILClassifier(loss="logistic", norm_bound=5, regularization=2.0, **NO_NOISE)
    twin = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(X, y)
    probabilities = model.fit(X, y).predict_proba(NEW)
    assert np.allclose(probabilities, twin.predict_proba(NEW), atol=1e-2)


def test_without_probabilities_it_says_which_loss_has_them():
    model = TDILClassifier(mechanism="objective", **NO_NOISE)
    for asked in (model, clone(model).fit(X, DISC)):
        assert not hasattr(asked, "predict_proba")
        caught = refused("predict_proba", getattr, asked, "predict_proba", error=AttributeError)
        assert "loss='logistic'" in str(caught.__cause__)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_kernel_ridge(kernel):
    """Of "squared" the residuals stay within the clip."""
    model = PINPRegressor(loss="squared", norm_bound=5, y_bounds=(-1, 1), **NO_NOISE)
    model.set_params(kernel=kernel, gamma=0.7, regularization=3.0).fit(X, CURVE)
    twin = KernelRidge(alpha=3.0, kernel=kernel, gamma=0.7).fit(X, CURVE)
    expected = np.clip(twin.predict(NEW), -1, 1)
    assert np.allclose(model.predict(NEW), expected, atol=model.sensitivity_ * 4)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_support_vector_regression(kernel):
    """SVR always has an intercept, which is 0 where the rows come once more with other signs."""
    params = {"kernel": kernel, "gamma": 0.7}
    loss = EpsilonInsensitive(0.1, smoothing=1e-4)
    model = PINPRegressor(loss=loss, norm_bound=5, y_bounds=(-1, 1), **params)
    ours = model.set_params(regularization=3.0, **NO_NOISE).fit(X, CURVE).predict(NEW)
    gram = np.kron([[1, -1], [-1, 1]], pairwise_kernels(X, metric=kernel, gamma=0.7))
    twin = SVR(kernel="precomputed", C=1 / 6, epsilon=0.1, tol=1e-6)
    twin.fit(gram, np.append(CURVE, -CURVE))
    across = pairwise_kernels(NEW, X, metric=kernel, gamma=0.7)
    expected = np.clip(twin.predict(np.hstack([across, -across])), -1, 1)
    assert abs(twin.intercept_[0]) < 1e-4
    assert np.allclose(ours, expected, atol=model.sensitivity_ / 20)


# ---- with noise they still learn


@pytest.mark.simulated(0)
def test_functional_is_accurate():
    big = np.random.default_rng(1).uniform(-1, 1, (3000, 2))
    y = (big**2).sum(axis=1) < 0.6
    settings = {"gamma": 2.0, "epsilon": 2.0}
    assert TDDLClassifier(**settings).fit(big, y, X_public=big[:200]).score(big, y) > 0.85
    assert PINPClassifier(**settings).fit(big, y).score(big[:300], y[:300]) > 0.85
    landmarks = TDILClassifier(kernel="rbf", schema=(-1, 1), **settings)
    assert landmarks.fit(big, y).score(big, y) > 0.85


# ---- spaces


@pytest.mark.statistical
@pytest.mark.parametrize(
    "features",
    [
        RBFSampler(gamma=0.5, n_components=50),
        PolynomialCountSketch(degree=2, n_components=50),
        PolynomialFeatures(2),
        make_pipeline(PublicVectorizer(schema=(-1, 1)), RBFSampler(n_components=20)),
        FrozenEstimator(Nystroem(n_components=20, random_state=0).fit(Z)),
    ],
    ids=["rff", "count_sketch", "poly", "pipeline", "nystroem"],
)
def test_explicit_feature_maps(features):
    model = TDILClassifier(kernel=features, epsilon=10.0, random_state=0).fit(X, DISC)
    assert np.linalg.norm(model.predictor_.space.features(5 * X), axis=1).max() <= 1 + 1e-12
    same = clone(model).set_params(epsilon=np.inf).fit(X, DISC).predictor_.space.features(X)
    assert np.array_equal(same, model.predictor_.space.features(X))


def test_feature_maps_learn_nothing_from_rows():
    """RBFSampler's gamma="scale" would read the variance of X."""
    features = RBFSampler(gamma="scale", n_components=20, random_state=0)
    model = TDILClassifier(kernel=features, **NO_NOISE)
    small = model.fit(X / 10, DISC).predictor_.space.features(NEW)
    assert np.array_equal(small, model.fit(X, DISC).predictor_.space.features(NEW))


def test_rows_beyond_the_norm_bound_are_clipped():
    far = np.vstack([X, [[1e308, 0, 0]]])
    near = np.vstack([X, [[2.0, 0, 0]]])
    y = np.append(DISC, "out")
    for settings in ({"kernel": "poly"}, {"kernel": "linear"}):
        model = PINPClassifier(gamma=1.0, norm_bound=2.0, **settings, **NO_NOISE)
        one = model.fit(far, y).decision_function(NEW)
        assert np.allclose(one, model.fit(near, y).decision_function(NEW), atol=1e-9)


# ---- routing


def test_public_points_through_a_pipeline():
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(PublicVectorizer(schema=(-1, 1)), TDDLClassifier(gamma=4.0))
        pipeline.transform_input = ["X_public"]
        pipeline.fit(X, DISC, X_public=Z)
        assert np.allclose(pipeline[-1].predictor_.points, np.column_stack([Z, np.ones(60)]) / 2)


@pytest.mark.parametrize("routed", [True, False])
def test_public_points_that_pass_by_a_scaler_are_warned_of(routed, recwarn):
    """Unscaled ones are far from each other, and farther from all rows: public facts."""
    scale = np.array([100.0, 2000.0, 50.0])
    scaler = FunctionTransformer(lambda table: table / scale)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(scaler, TDDLClassifier(gamma=4.0))
        pipeline.transform_input = ["X_public"] if routed else None
        pipeline.fit(X * scale, DISC, X_public=Z * scale)
    told = [str(warning.message) for warning in recwarn if "X_public" in str(warning.message)]
    assert len(told) == (0 if routed else 1)
    assert all("scale X_public as well" in text for text in told)


def test_isolated_public_points_are_told_of_before_anything_is_charged(unpaid):
    model = TDDLClassifier(gamma=1e4, ledger=unpaid)
    advice = r"a gamma of about 0\.5 or less"
    refused(advice, model.fit, X, DISC, X_public=Z, error=UserWarning)


def test_a_search_does_not_cut_public_points():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(TDDLClassifier(gamma=1.0), {"gamma": [1.0, 2.0]}, cv=2)
        search.fit(X, DISC, X_public=Public(X))
    assert len(search.best_estimator_.predictor_.points) == len(X)


# ---- PINP


@pytest.mark.parametrize("mechanism", ["functional", "svt", "threshold"])
def test_the_same_point_gets_the_same_answer(mechanism):
    model = PINPClassifier(gamma=1.0, mechanism=mechanism).fit(X, DISC)
    together = model.decision_function(NEW)
    assert np.array_equal(together, [model.decision_function([row])[0] for row in NEW])
    assert np.array_equal(together[::-1], model.decision_function(NEW[::-1]))
    doubled = model.decision_function(np.repeat(NEW, 2, axis=0))
    assert np.array_equal(doubled, np.repeat(together, 2))


def test_a_copy_draws_no_noise():
    model = PINPClassifier(gamma=2.0).fit(X, DISC)
    assert "holds_private_data=True" in repr(model)
    known = model.decision_function(Public(Z))
    public = model.answers_.hypothesis().scores(NEW)[:, 0]
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(twin.decision_function(Z), known)
        assert np.allclose(twin.decision_function(NEW), public)
    assert copy.copy(model.answers_).is_copy
    assert "holds_private_data" not in repr(pickle.loads(pickle.dumps(model)))


def test_products_of_columns_fill_no_ball():
    """So the exponential mechanism has no public points to choose from, and says so in time."""
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5, accountant="zcdp")
    model = TDILClassifier((-1, 1), mechanism="exponential", ledger=ledger)
    refused("needs public rows as candidates", model.fit, X, DISC)
    assert not ledger.entries()
    model.set_params(kernel="linear").fit(X, DISC)


@pytest.mark.parametrize("mechanism", ["functional", "svt"])
def test_a_copy_that_has_learnt_nothing_says_so(mechanism):
    model = PINPClassifier(gamma=2.0, mechanism=mechanism).fit(X, DISC)
    blank = pickle.loads(pickle.dumps(model))
    with pytest.warns(UserWarning, match="was made before that") as caught:
        assert len(set(blank.predict(NEW))) == 1
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        model.predict(Z)
        pickle.loads(pickle.dumps(model)).predict(Z)  # the answers given
        if mechanism == "functional":
            pickle.loads(pickle.dumps(model)).predict(NEW)  # and what they amount to
        warnings.simplefilter("ignore", NoiseWarning)  # a plane learns nothing of a disc
        linear = PINPClassifier(kernel="linear", norm_bound=1.0).fit(X, DISC)
        pickle.loads(pickle.dumps(linear)).predict(NEW)  # which released all of itself


def _answer_in_child(model, queue):
    queue.put(model.query(NEW))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_draws_no_noise():
    model = PINPClassifier(gamma=2.0).fit(X, DISC)
    model.predict(Z)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_answer_in_child, args=(model, queue))
    child.start()
    answer = queue.get(timeout=60)
    child.join()
    assert not answer.fresh.any()
    assert np.allclose(answer.scores, model.answers_.hypothesis().scores(NEW))
    assert model.query(NEW).fresh.all()


def test_a_path_stops_growing():
    model = PINPClassifier(mechanism=FunctionalMechanism(max_points=10), gamma=2.0).fit(X, DISC)
    answer = model.query(NEW)
    assert answer.fresh.tolist() == [True] * 10 + [False] * 20
    assert np.allclose(answer.scores[10:], model.answers_.hypothesis().scores(NEW[10:]))


@quiet
@pytest.mark.parametrize("mechanism", [SparseVector, NoisyThreshold])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_all_scores_of_a_point_are_one_update(mechanism, delta):
    """With little noise the first point is wrong in every class, and is paid for once."""
    if mechanism is NoisyThreshold and delta == 0:
        pytest.skip("it has no pure guarantee")
    rows, labels = np.repeat(X[:3], 200, axis=0), np.repeat([0, 1, 2], 200)
    update = mechanism(n_updates=2, max_queries=2, failure_probability=0.9)
    model = PINPClassifier(gamma=1.0, mechanism=update, regularization=10.0)
    simulate(model.set_params(epsilon=1e6, delta=delta), rows, labels)
    exact = clone(model).set_params(mechanism="functional", epsilon=np.inf).fit(rows, labels)
    answer = model.query(X[:1])
    assert answer.fresh.all()
    assert model.n_updates_left_ == 1
    assert np.allclose(answer.scores, exact.query(X[:1]).scores, atol=0.3)
    assert np.count_nonzero(model.answers_.hypothesis().coefficients) == 3


@quiet
def test_updates_are_counted_and_then_over():
    """With little noise the hypothesis, zero at first, is soon found wrong."""
    mechanism = SparseVector(n_updates=3, max_queries=25)
    model = simulate(PINPClassifier(gamma=1.0, mechanism=mechanism, epsilon=1e6), X, DISC)
    answer = model.query(NEW)
    assert (answer.fresh.sum(), model.n_updates_left_) == (3, 0)
    public = model.answers_.hypothesis().scores(NEW)
    last = int(np.flatnonzero(answer.fresh)[-1])
    assert np.allclose(answer.scores[last + 1 :], public[last + 1 :])
    patient = clone(model).set_params(mechanism__n_updates=1000).fit(X, DISC)
    assert not patient.query(NEW).fresh[25:].any()


# ---- what is released


# ---- what is refused, and at what price


KERNEL = {"kernel": "rbf", "gamma": 1.0}
AUTO = {**KERNEL, "gamma": "auto"}
WRONG = [
    (PINPClassifier, {"mechanism": "threshold", "delta": 0.0}, "no guarantee with delta=0"),
    (PINPClassifier, {"mechanism": "functional", "delta": 0.0}, "needs explicit features"),
    *((PINPClassifier, {"kernel": kernel}, "kernel") for kernel in ("sigmoid", rbf_kernel)),
    (PINPClassifier, {"kernel": PolynomialKernel(degree=0)}, "degree"),
    (PINPClassifier, {"classes": ["in", "other"]}, "classes"),
    (PINPClassifier, {"mechanism": ObjectivePerturbation()}, "SparseVector"),
    (PINPClassifier, {"loss": "huber"}, "classifier"),
    (PINPClassifier, {"gamma": "auto"}, r"needs a schema.*Or set gamma to a number"),
    (TDDLClassifier, KERNEL, "X_public"),
    (TDDLClassifier, {"kernel": "linear", "mechanism": "laplace"}, "X_public"),
    (TDILClassifier, KERNEL, "give a schema"),
    (TDILClassifier, AUTO, r"needs a schema.*in place of a PublicVectorizer.*\.$"),
    (TDILClassifier, {"schema": Numeric(step=None)}, r"no range.*\(low, high\)"),
    (TDILClassifier, {**KERNEL, "mechanism": "objective"}, "explicit features"),
    (TDILClassifier, {"mechanism": "objective", "loss": "hinge"}, "kink"),
    (TDILClassifier, {"mechanism": "objective", "regularization": 0.01}, "regularization"),
    (TDILClassifier, {"mechanism": "svt"}, "exponential"),
    (TDILClassifier, {"mechanism": SparseVector()}, "FunctionalMechanism"),
    (TDILClassifier, {"kernel": RBFSampler(), "mechanism": "exponential"}, "candidates"),
    (TDILClassifier, {"mechanism": ExponentialMechanism(candidates=[[0.0]])}, "features"),
    (TDILClassifier, {"mechanism": ExponentialMechanism(candidates=[[np.nan] * 3])}, "NaN"),
    # Of an interval as short as the last, 1.5 was the place of its end, and a row moved sums by it.
    *(
        (TDILRegressor, {"y_bounds": given}, "y_bounds")
        for given in (None, (1, 0), (0, np.inf), 3, (0, 5e-324), (0, 2.5e-323))
    ),
]


@pytest.mark.parametrize(("learner", "settings", "message"), WRONG, ids=range(len(WRONG)))
def test_bad_parameters_cost_nothing(learner, settings, message, unpaid):
    model = learner(**{"gamma": 1.0, "ledger": unpaid} | settings)
    refused(message, model.fit, X, CURVE if learner is TDILRegressor else DISC)


def test_a_ledger_of_concentrated_dp_takes_the_papers_mechanisms():
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5, accountant="zcdp")
    PINPClassifier(gamma=1.0, mechanism="svt", ledger=ledger).fit(X, DISC).predict(NEW)
    TDDLClassifier(gamma=1.0, mechanism="laplace", ledger=ledger).fit(X, DISC, X_public=Z)
    assert len(ledger.entries()) == 2
    with pytest.raises(ValueError, match="ThresholdDP"):
        PINPClassifier(gamma=1.0, mechanism="threshold", ledger=ledger).fit(X, DISC)


HOT = np.eye(7)[RNG.integers(7, size=(200, 7))].reshape(200, 49)


@pytest.mark.parametrize("learner", [TDILClassifier, TDDLClassifier])
def test_landmarks_that_see_nothing_are_warned_of_before_anything_is_charged(learner, unpaid):
    marks = FunctionalMechanism(n_landmarks=64)
    settings = {"mechanism": marks, "random_state": 0, "ledger": unpaid}
    model = learner(kernel="rbf", gamma=20.0, schema=(0, 1), delta=0, **settings)
    refused(r"Take a gamma of about 2 or less", model.fit, HOT, DISC[:200], error=UserWarning)


# ---- rows that no one expects

FOURIER = RBFSampler(n_components=20, random_state=0)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("value", [1.7e308, -1e200, 0.0])
@pytest.mark.parametrize(
    "settings",
    [{}, {"kernel": "poly"}, {"kernel": PolynomialFeatures(3)}, {"kernel": FOURIER}],
    ids=["rbf", "poly", "powers", "fourier"],
)
def test_huge_rows_neither_raise_nor_show(settings, value):
    """An exception or a NaN would tell such a row from any other, after the charge."""
    table = X[:40].copy()
    table[0], table[1] = value, value / 1.1
    model = PINPClassifier(gamma=1.0, **settings).fit(table, DISC[:40])
    assert np.isfinite(model.decision_function(np.vstack([table[:3], -table[:2]]))).all()


@pytest.mark.parametrize(
    "learner",
    [
        PINPClassifier(gamma=1.0, loss="hinge", regularization=1e-3),
        PINPClassifier(gamma=1.0, loss=HuberizedHinge(1e-6)),
        PINPClassifier(gamma=1.0, regularization=1e-15, loss="logistic", epsilon=np.inf),
        TDILClassifier(loss=HuberizedHinge(1e-9), mechanism="functional"),
        TDILRegressor(
            y_bounds=(0, 1), loss=Huber(1e-9), regularization=1e-9, mechanism="functional"
        ),
    ],
    ids=["hinge", "narrow", "not private", "features", "regressor"],
)
def test_what_float64_cannot_certify_costs_nothing(learner, unpaid):
    """Whatever the number of rows is, which is private."""
    messages = set()
    for n in (3, 300, 301):
        with pytest.raises(ValueError, match="float64") as error:
            clone(learner).set_params(ledger=unpaid).fit(X[:n], np.arange(n) % 2)
        messages.add(str(error.value))
    assert len(messages) == 1


@pytest.mark.simulated(0)
def test_large_weights_are_clipped_and_do_not_wrap():
    """64-bit integers would wrap, and one row would move the release by all their range."""
    settings = {"mechanism": "objective", "epsilon": 1e4, "regularization": 1e9}
    learner = TDILClassifier(classes=[0, 1], **settings)
    tables = [(np.ones((n, 1)), np.ones(n, int)) for n in (10_000, 20_000)]
    weights = [clone(learner).fit(*table) for table in tables]
    one, two = (model.predictor_.coefficients[0, 0] for model in weights)
    assert 0 < one <= two


# ---- mechanisms, losses and kernels as objects


class InterruptAt:
    """Raises KeyboardInterrupt at the k-th line that runs in the file of updates."""

    def __init__(self, k):
        self.k, self.n_lines, self.asked = k, 0, False

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.endswith("_paper.py"):
            return None
        self.asked |= frame.f_code.co_name == "answer"
        if event == "line":
            self.n_lines += 1
            if self.n_lines == self.k:
                raise KeyboardInterrupt
        return self


def interrupted(k):
    """Return a learner whose first query ended at the k-th line, and what told that it did."""
    X, y = np.tile([[0.0], [1.0]], (200, 1)), np.tile([0, 1], 200)
    mechanism = SparseVector(n_updates=2, max_queries=25)
    model = PINPClassifier(gamma=1.0, mechanism=mechanism, epsilon=1e6, classes=[0, 1])
    answers = simulate(model, X, y).answers_
    before, trace = answers._plan._threshold, InterruptAt(k)
    old = sys.gettrace()
    sys.settrace(trace)
    try:
        model.predict([[0.0]])
    except KeyboardInterrupt:
        return model, before, trace
    finally:
        sys.settrace(old)
    return model, before, None


@pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning")
def test_an_interrupt_saves_no_update_and_no_threshold():
    """Where it comes may tell that the test was passed, so the epoch is over, and counted."""
    met = set()
    for k in range(1, 200):
        model, before, trace = interrupted(k)
        if trace is None:
            break
        answers = model.answers_
        answers._next_epoch()  # as the next query begins
        counted, drawn = 2 - answers.n_updates_left, answers._plan._threshold != before
        assert counted >= drawn
        assert drawn or not trace.asked, k
        met.add((trace.asked, counted))
        model.predict([[0.5], [1.0]])  # and it still answers
    else:
        raise AssertionError("a query runs fewer lines")
    assert {(False, 0), (True, 1)} <= met
