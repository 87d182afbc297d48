"""One small instance of everything that fits private rows, for tests of what all of them promise.

Tests take instances by name, by what they are and by what they fit, and change what they need:

    for name, one in of("sketcher", "learner").items():
        model = one.make(epsilon=2.0)

A new estimator, mechanism or protocol gets one line in `INSTANCES`, and is then checked by
scikit-learn, fuzzed, searched for leaks, and shown. `test_catalogue` sees which class is missing,
but not which value of a parameter, such as a kernel by its name.
"""

from dataclasses import dataclass

from sklearn.base import BaseEstimator, clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge

from skdpsumm import AdaptiveSketcher, PINPClassifier, PINPRegressor, PrivateSearchCV, learners
from skdpsumm.learners import TDDLClassifier, TDDLRegressor, TDILClassifier, TDILRegressor
from skdpsumm.moments import M2MClassifier, M2MEstimator, M2MRegressor
from skdpsumm.schema import Numeric, PublicVectorizer, SchemaFinder
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion
from skdpsumm.summaries import PrivateMMDSummarizer, SketchSummarizer, SummarizedEstimator

BUDGET = ("epsilon", "delta", "adjacency", "ledger")


def payer(model):
    """Return the part of a model that has the budget, and fits the private rows."""
    own = model.get_params(deep=False)
    parts = (own.get("release"), own.get("summarizer"))
    return next((one for one in parts if isinstance(one, BaseEstimator)), model)


@dataclass(frozen=True)
class Instance:
    """An estimator that fits tables of two columns in [-1, 1].

    Attributes
    ----------
    estimator : estimator
        Never fitted: see `make`.
    kind : {"sketcher", "model", "summarizer", "synthesizer", "summarised", "learner", "search", \
"vectorizer", "finder"}
    y : {"labels", "numbers"} or None
        What `fit` takes beside the rows; numbers lie in [-1, 1].
    interactive : bool, default=False
        Whether it keeps the private rows, to answer questions as they come.
    """

    estimator: BaseEstimator
    kind: str
    y: str | None = None
    interactive: bool = False

    def make(self, **parameters):
        """Return a copy with other parameters; those of the budget go to the part that pays."""
        model = clone(self.estimator)
        budget = {name: parameters.pop(name) for name in BUDGET if name in parameters}
        model = clone(model.set_params(**parameters))  # what is given stays as it is
        payer(model).set_params(**budget)
        return model

    def fit(self, model, X, labels, numbers):
        """Fit a copy to rows, and to what else it takes."""
        given = {None: (), "labels": (labels,), "numbers": (numbers,)}[self.y]
        return model.fit(X, *given)


def _named(kind, estimators, y=None, *, ending="", interactive=False):
    return {name + ending: Instance(one, kind, y, interactive) for name, one in estimators.items()}


# What is public of the tables.
BOX = {"schema": (-1, 1)}
# Explicit features of columns that nothing is known of, and kernels of a width that is given.
WIDTH = {"gamma": 1.0}
MARKS = {**BOX, "mechanism": learners.FunctionalMechanism(n_landmarks=6)}
_HALVES = Numeric(step=0.25, edges=[-1, 0, 1], unit="m", description="of all")
_LAPLACE = learners.LaplaceAnswers(n_landmarks=6)
_EXPONENTIAL = learners.ExponentialMechanism(n_rounds=2)
_DESCENT = learners.GradientDescent(n_steps=5)
_SPAN_DESCENT = learners.GradientDescent(n_steps=5, n_landmarks=6)
NUMBER = {"y_bounds": (-1, 1)}

SKETCHERS = {
    "fourier": RFFSketcher(n_components=8, **WIDTH),
    "race": RACESketcher(n_repetitions=3, n_buckets=4, bandwidth=0.1),
    "histogram": HistogramSketcher(n_bins=4, **BOX),
    "grid": HistogramSketcher(n_bins=4, schema=_HALVES),
    "union": SketchUnion([HistogramSketcher(n_bins=4), RFFSketcher(n_components=4)], **BOX),
    "adaptive": AdaptiveSketcher(**BOX),
    "adaptive to a target": AdaptiveSketcher(target=0, **BOX),
}
_M2M = {"release": RFFSketcher(n_components=8, **WIDTH), **BOX, "n_synthetic": 200}
MODELS = {"m2m": M2MEstimator(**_M2M)}
MODEL_CLASSIFIERS = {"m2m classifier": M2MClassifier(**_M2M)}
MODEL_REGRESSORS = {"m2m regressor": M2MRegressor(**_M2M, **NUMBER)}
_FEW = {"n_select": 5, "n_components": 16, "gamma": 0.5}
SUMMARIZERS = {
    "propose": PrivateMMDSummarizer(**_FEW),
    "by schema": PrivateMMDSummarizer(n_select=5, n_components=16, **BOX),
    "pool": PrivateMMDSummarizer(protocol="pool", **_FEW),
    "auction": PrivateMMDSummarizer(protocol="auction", **_FEW),
}
SYNTHESIZERS = {"synthetic": SketchSummarizer(n_select=5, n_synthetic=200, **BOX)}
CLASSIFIERS = {
    "weights": TDILClassifier(),
    "schema": TDILClassifier(**BOX),
    "functional": TDILClassifier(mechanism="functional"),
    "gradient": TDILClassifier(mechanism=_DESCENT, loss="huberized_hinge"),
    "objective": TDILClassifier(mechanism="objective"),
    "exponential": TDILClassifier(mechanism=_EXPONENTIAL),
    "landmarks": TDILClassifier(kernel="rbf", **MARKS),
    "span": TDDLClassifier(**MARKS),
    "span by descent": TDDLClassifier(mechanism=_SPAN_DESCENT, **BOX),
    "laplace": TDDLClassifier(mechanism=_LAPLACE, **BOX),
    "answers of features": PINPClassifier(kernel="linear"),
}
REGRESSORS = {
    "weights": TDILRegressor(**NUMBER),
    "random features": TDILRegressor(kernel=RBFSampler(n_components=8), **NUMBER),
    "functional": TDILRegressor(mechanism="functional", **NUMBER),
    "gradient": TDILRegressor(mechanism=_DESCENT, **NUMBER),
    "objective": TDILRegressor(mechanism="objective", **NUMBER),
    "exponential": TDILRegressor(mechanism=_EXPONENTIAL, **NUMBER),
    "landmarks": TDILRegressor(kernel="rbf", **MARKS, **NUMBER),
    "span": TDDLRegressor(kernel=learners.PolynomialKernel(degree=2), **MARKS, **NUMBER),
    "span by descent": TDDLRegressor(mechanism=_SPAN_DESCENT, **BOX, **NUMBER),
    "laplace": TDDLRegressor(mechanism=_LAPLACE, **BOX, **NUMBER),
    "answers of features": PINPRegressor(kernel="linear", **NUMBER),
}
# With a low threshold, so that noise is drawn for some answers.
_SVT = learners.SparseVector(failure_probability=0.9)
_THRESHOLD = learners.NoisyThreshold(failure_probability=0.9)
_PATH = learners.FunctionalMechanism(max_points=30)
INTERACTIVE_CLASSIFIERS = {
    "path": PINPClassifier(mechanism=_PATH, **WIDTH),
    "svt": PINPClassifier(mechanism=_SVT, **WIDTH),
    "threshold": PINPClassifier(mechanism=_THRESHOLD, **WIDTH),
}
INTERACTIVE_REGRESSORS = {
    "path": PINPRegressor(mechanism=_PATH, **WIDTH, **NUMBER),
    "svt": PINPRegressor(mechanism=_SVT, **WIDTH, **NUMBER),
    "threshold": PINPRegressor(mechanism=_THRESHOLD, **WIDTH, **NUMBER),
}
_MMD = PrivateMMDSummarizer(n_select=15, n_components=16, gamma=0.5)
_CHOICES = {"param_distributions": {"regularization": [1.0, 3.0]}, "expected_trials": 2}

INSTANCES = {
    **_named("sketcher", SKETCHERS),
    **_named("model", MODELS),
    **_named("model", MODEL_CLASSIFIERS, "labels"),
    **_named("model", MODEL_REGRESSORS, "numbers"),
    **_named("summarizer", SUMMARIZERS),
    **_named("synthesizer", SYNTHESIZERS),
    **_named("learner", CLASSIFIERS, "labels"),
    **_named("learner", REGRESSORS, "numbers", ending=", numbers"),
    **_named("learner", INTERACTIVE_CLASSIFIERS, "labels", interactive=True),
    **_named("learner", INTERACTIVE_REGRESSORS, "numbers", ending=", numbers", interactive=True),
    "summarised": Instance(SummarizedEstimator(LogisticRegression(), _MMD), "summarised", "labels"),
    "summarised, numbers": Instance(SummarizedEstimator(Ridge(), _MMD), "summarised", "numbers"),
    "search": Instance(PrivateSearchCV(TDILClassifier(), **_CHOICES), "search", "labels"),
    "search, numbers": Instance(
        PrivateSearchCV(TDILRegressor(**NUMBER), score_bounds=(-1, 0), **_CHOICES),
        "search",
        "numbers",
    ),
    "vectorizer": Instance(PublicVectorizer(**BOX), "vectorizer"),
    "finder": Instance(SchemaFinder(["number", "category"]), "finder"),
}


def of(*kinds, y="any", interactive=None):
    """Return the instances of some kinds, by name; y and interactive choose among them."""
    return {
        name: one
        for name, one in INSTANCES.items()
        if one.kind in kinds and y in ("any", one.y) and interactive in (None, one.interactive)
    }


def of_each_class(instances):
    """Return the first instance of each class, by name: for what hangs on no mechanism."""
    first = {type(one.estimator): name for name, one in reversed(instances.items())}
    return {name: one for name, one in instances.items() if name in first.values()}


# With nothing but what they cannot do without, on tables in [0, 1]: the parameters of most users.
UNIT = {"schema": (0, 1)}
DEFAULT_SKETCHES = {
    "rff": RFFSketcher(**UNIT),
    "race": RACESketcher(**UNIT),
    "histogram": HistogramSketcher(**UNIT),
    "union": SketchUnion([HistogramSketcher(), RFFSketcher()], **UNIT),
    "adaptive": AdaptiveSketcher(**UNIT),
    "m2m": M2MEstimator(**UNIT),
    "m2m classifier": M2MClassifier(**UNIT),
    "m2m regressor": M2MRegressor(y_bounds=(0, 1), **UNIT),
}
DEFAULT_LEARNERS = {
    "tdil": TDILClassifier(classes=[0, 1], **UNIT),
    "tdil regressor": TDILRegressor(y_bounds=(0, 1), **UNIT),
    "tdil functional": TDILClassifier(classes=[0, 1], mechanism="functional", **UNIT),
    "tdil objective": TDILClassifier(classes=[0, 1], mechanism="objective", **UNIT),
    "tddl": TDDLClassifier(classes=[0, 1], **UNIT),
    "tddl regressor": TDDLRegressor(y_bounds=(0, 1), **UNIT),
    "tddl laplace": TDDLClassifier(classes=[0, 1], mechanism="laplace", **UNIT),
    "pinp": PINPClassifier(classes=[0, 1], **UNIT),
    "pinp regressor": PINPRegressor(y_bounds=(0, 1), **UNIT),
}
