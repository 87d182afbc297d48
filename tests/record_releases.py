"""Same parameters, same seed, same release: records what every estimator releases, and compares.

``python tests/record_releases.py write FILE`` records under fixed seeds; ``compare FILE`` computes
all of it again, and says of each value whether it is the same bit for bit, by how much it differs,
or what raised. ``--only TEXT`` looks at entries whose name has TEXT in it, ``-v`` prints all. To
compare with code of yesterday, run the same script with ``PYTHONPATH`` at a checkout of it. Both
runs belong on one machine, with one BLAS.

Estimators are built in the first part, so that a parameter that has a new name has it here once.
Names of entries and of values never change.
"""

import hashlib
import itertools
import os
import pickle
import re
import sys
import tempfile
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import laplacian_kernel
from threadpoolctl import threadpool_limits

import skdpsumm
from skdpsumm import (
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    M2MRegressor,
    PrivacyLedger,
    PrivateMMDSummarizer,
    PrivateSearchCV,
    PrivateSketch,
    RACESketcher,
    RFFSketcher,
    SketchUnion,
    SummarizedEstimator,
    greedy_mmd_selection,
    mmd2,
    uniform_selection,
)
from skdpsumm.learners import (
    EpsilonInsensitive,
    ExponentialMechanism,
    FunctionalMechanism,
    Huber,
    HuberizedHinge,
    LaplaceAnswers,
    NoisyThreshold,
    PolynomialKernel,
    SoftHinge,
    SparseVector,
)
from skdpsumm.learners.mechanisms._objective import ObjectivePerturbation
from skdpsumm.summaries import (
    AskAll,
    Auction,
    Curator,
    DataOwner,
    MWEMRelease,
    Pool,
    Posted,
    Propose,
)

# ---- how estimators are built: a parameter with a new name has it here, and nowhere below

SEEDS = {"random_state": 3, "noise_seed": 7}
BUDGETS = {
    "default": {},
    "pure": {"delta": 0.0, "epsilon": 2.0},
    "replace": {"adjacency": "replace_one"},
    "pure replace": {"delta": 0.0, "epsilon": 2.0, "adjacency": "replace_one"},
    "inf": {"epsilon": np.inf, "noise_seed": None},
}


# Code from before the schema said the same in parameters of their own.
HAS_SCHEMA = hasattr(skdpsumm, "TableSchema")


def numeric():
    """Return what is public of a table of numbers in [-1, 1]."""
    return {"schema" if HAS_SCHEMA else "bounds": (-1, 1)}


def mixed():
    """Return what is public of the mixed frame."""
    towns = ["A", "B", "C"]
    if HAS_SCHEMA:
        age = skdpsumm.Numeric(0, 100, step=1)
        # In the order of the frame, which is that of marginals and of draws.
        return {"schema": {"age": age, "income": (0, 1e5), "town": towns}}
    return {
        "bounds": {"age": (0, 100), "income": (0, 1e5)},
        "categories": {"town": towns},
        "steps": {"age": 1},
    }


def sketchers(schema):
    """Return small sketchers by name; `schema` describes the table."""
    return {
        "rff": RFFSketcher(40, gamma=0.7, **schema),
        "rff laplacian": RFFSketcher(40, gamma=1.0, kernel="laplacian", **schema),
        "race": RACESketcher(8, n_buckets=10, bandwidth=0.3, **schema),
        "histogram": HistogramSketcher(n_bins=12, **schema),
        "pairs": HistogramSketcher(n_bins=5, marginals=2, **schema),
        "raw": HistogramSketcher(n_bins=12, postprocess=False, **schema),
        "union": SketchUnion([HistogramSketcher(n_bins=12), RFFSketcher(20, gamma=1.0)], **schema),
        "weighted union": SketchUnion(
            [
                HistogramSketcher(n_bins=12),
                RACESketcher(8, bandwidth=0.1),
                RFFSketcher(20, gamma=1.0),
            ],
            weights=[1, 2, 3],
            **schema,
        ),
    }


def adaptive(schema):
    """Return adaptive sketchers by name; older code has none."""
    make = partial(skdpsumm.AdaptiveSketcher, **schema)
    return {"adaptive": make(), "adaptive to a target": make(target=0, workload=[[0, 1]])}


DENOMINATORS = [
    *({"denominator": d} for d in ("auto", "row_sums", "budget")),
    {"denominator": 0.2},
]


def loss(name):
    """Return the parameters of a loss."""
    return {
        "default": {},
        "huberized hinge": {"loss": HuberizedHinge(width=0.7)},
        "soft hinge": {"loss": SoftHinge(margin=2.0)},
        "logistic": {"loss": "logistic"},
        "hinge": {"loss": "hinge"},
        "huber": {"loss": Huber(threshold=0.5)},
        "squared": {"loss": "squared"},
        "insensitive": {"loss": EpsilonInsensitive(width=0.2, smoothing=0.1)},
    }[name]


def mechanism(name):
    """Return a mechanism."""
    return {
        "functional": FunctionalMechanism(n_landmarks=20),
        "path": FunctionalMechanism(max_points=12),
        "objective": ObjectivePerturbation(),
        "exponential": ExponentialMechanism(n_rounds=4, n_landmarks=20),
        "exponential of given points": ExponentialMechanism(n_rounds=3, candidates=NEW),
        "laplace": LaplaceAnswers(n_landmarks=20),
        "constrained laplace": LaplaceAnswers(norm_constraint=0.5, n_landmarks=20),
        "svt": SparseVector(n_updates=3, max_queries=40, failure_probability=0.9),
        "threshold": NoisyThreshold(n_updates=3, max_queries=40),
    }[name]


def space(name, family):
    """Return the parameters of a kernel or of a feature map; `family` is that of the learner."""
    given = {
        "linear": {"kernel": "linear", "norm_bound": 2.0},
        "rbf": {"kernel": "rbf", "gamma": 0.8},
        "laplacian": {"kernel": "laplacian", "gamma": 0.8},
        "poly": {"kernel": PolynomialKernel(degree=2), "norm_bound": 2.0},
        "cosine": {"kernel": "cosine"},
        "callable": {"kernel": partial(laplacian_kernel, gamma=0.5)},
        "features": {"kernel": RBFSampler(gamma=0.8, n_components=30)},
    }[name]
    explicit = name in ("linear", "features")
    if explicit or family == "PINP":
        return given
    return {**given, **numeric()}


def learner(family, kind, *, loss_name="default", mechanism_name, space_name, **parameters):
    """Return a kernel learner; `kind` is "Classifier" or "Regressor"."""
    target = {"y_bounds": (-1, 1)} if kind == "Regressor" else {}
    given = loss(loss_name) | space(space_name, family)
    given["mechanism"] = mechanism(mechanism_name)
    model = getattr(skdpsumm, family + kind)
    ledger = ledger_of(parameters, counted_by(mechanism_name))
    return model(**target, **given, **SEEDS | {"ledger": ledger} | parameters)


def m2m(kind, sketcher, **parameters):
    """Return a model of a sketch: "estimator", "classifier" or "regressor"."""
    model = {"estimator": M2MEstimator, "classifier": M2MClassifier, "regressor": M2MRegressor}
    target = {"y_bounds": (-1, 1)} if kind == "regressor" else {}
    common = {"n_synthetic": 1500, "random_state": 3}
    return model[kind](sketcher, **common | target | parameters)


PROTOCOLS = {
    "propose": Propose(),
    "frugal": Propose(parsimony=1.5, explore=0.5),
    "pool": Pool(),
    "posted": Posted(n_rounds=5),
    "ask_all": AskAll(n_rounds=5),
    "auction": Auction(),
    "printed auction": Auction(bid="printed", calibration="printed"),
}
RELEASES = {
    "gaussian": {"release": "gaussian"},
    "mwem": {"release": MWEMRelease(n_steps=20), "n_target": 60},
    "mwem of features": {"release": MWEMRelease(n_steps=20), "reveal": "features", "n_target": 60},
    "known target": {"n_target": 60},
    "target is owners": {"target_is_owners": True},
}
PRINTED = {"release": "mwem", "adjacency": "replace_one", "delta": 1e-4, "n_target": 60}


def summarizer(protocol, **parameters):
    """Return a summarizer."""
    small = {"n_select": 12, "gamma": 0.7, "n_components": 40, "protocol": clone(protocol)}
    known = {"n_target": 60} if parameters.get("adjacency") == "replace_one" else {}
    given = parameters.get("release", "gaussian")
    accountant = counted_by(given if isinstance(given, str) else "mwem")
    if isinstance(protocol, Auction):  # its owners have no guarantee
        accountant = None
        if protocol.calibration == "printed":
            known = {"n_target": 60}
    given = small | SEEDS | {"ledger": ledger_of(parameters, accountant)} | known | parameters
    return PrivateMMDSummarizer(**given)


def search(model, grid, **parameters):
    """Return a private search."""
    given = {"expected_trials": 2, **SEEDS, "ledger": ledger_of(parameters)} | parameters
    return PrivateSearchCV(model, grid, **given)


def ledger_of(parameters, accountant="gdp"):
    """Return a ledger that has room for everything but a fit without noise.

    None where no accountant takes the cost.
    """
    adjacency = parameters.get("adjacency", "add_remove")
    if parameters.get("epsilon") == np.inf or accountant is None:
        return None
    delta = 1e-3
    if parameters.get("delta") == 0:
        accountant, delta = "pure", 0.0
    return PrivacyLedger(epsilon=1e5, delta=delta, adjacency=adjacency, accountant=accountant)


def counted_by(name):
    """Return the accountant that takes the cost of a mechanism or release."""
    if name.startswith(("exponential", "mwem", "svt")) or "laplace" in name:
        return "zcdp"
    return None if name == "threshold" else "gdp"


# ---- data: fixed, and no estimator reads anything public off them

RNG = np.random.default_rng(20)
X = RNG.uniform(-1, 1, (160, 2))
Y2 = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
Y3 = np.digitize(X[:, 0], [-0.3, 0.4])
T = np.clip(0.8 * X[:, 0] - 0.5 * X[:, 1] ** 2, -1, 1)
NEW = RNG.uniform(-1, 1, (9, 2))
MANY = RNG.uniform(-1, 1, (700, 2))
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, 300).astype(float),
        "income": RNG.uniform(0, 1e5, 300).round(2),
        "town": RNG.choice(["A", "B", "C"], 300, p=[0.5, 0.3, 0.2]),
    }
)
OLD = np.where(FRAME["age"] > 50, "old", "young")
OWNERS = np.repeat(["north", "south", "west"], 300)
ROWS = np.vstack(
    [RNG.normal(0, 1, (300, 2)), RNG.normal(2, 1, (300, 2)), RNG.normal(1, 1, (300, 2))]
)
TARGET = RNG.normal(2, 1, (60, 2))


# ---- what is recorded of a thing


def claim(privacy):
    """Return the numbers of a guarantee."""
    deltas = [privacy.epsilon(d) for d in (1e-5, 1e-9)]
    return np.array([*deltas, *(privacy.delta(e) for e in (0.5, 2.0))])


def spent(estimator):
    """Return what the ledger of an estimator, or of its sketcher, counts."""
    part = getattr(estimator, "sketcher", estimator)
    ledger = getattr(part, "ledger", None)
    return {} if ledger is None else {"ledger": np.array(ledger.spent)}


def of_sketch(sketch, rows=None):
    """Return all numbers of a sketch, and its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sketch")
        sketch.save(path)
        with open(path, "rb") as file:
            octets = file.read()
        again = PrivateSketch.load(path)
    return {
        "sums": np.asarray(sketch.sums),
        "mean": np.asarray(sketch.mean),
        "n": np.array([sketch.n_released, sketch.n_noise_std]),
        "noise": np.asarray(sketch.noise_std),
        "file": hashlib.sha256(octets).hexdigest(),
        "file read": np.asarray(again.sums),
        "claim": claim(sketch.privacy),
        "claim in words": str(sketch.privacy),
    }


def of_sketcher(sketcher, X, *parts):
    """Return a sketch and its transform of new rows; `parts` are fitted one by one."""
    if parts:
        for part in parts:
            sketcher.partial_fit(part)
        sketcher.release()
    else:
        sketcher.fit(X)
    shown = of_sketch(sketcher.sketch_) | spent(sketcher)
    return shown | {"transform": np.asarray(sketcher.transform(X[:5]))}


def of_answer(answer):
    """Return value, error and intervals of an estimate."""
    shown = {"value": np.asarray(answer), "std": answer[...].noise_std_error}
    for covers in ("table", "noise"):
        shown[covers] = answer[...].interval(0.9, covers=covers)
    return shown


QUESTIONS = {
    "mean": lambda m: m.mean(),
    "variance": lambda m: m.variance(),
    "covariance": lambda m: m.covariance(),
    "correlation": lambda m: m.correlation(),
    "moment": lambda m: m.moment(3),
    "cdf": lambda m: m.cdf(0, [-0.5, 0.1, 0.8]),
    "quantile": lambda m: m.quantile(0, [0.1, 0.5]),
    "histogram": lambda m: m.histogram(0, 4),
    "count": lambda m: m.count(lambda rows: rows[:, 0] > 0.2),
    "estimate": lambda m: m.estimate(lambda rows: rows[:, :1] * rows[:, 1:]),
}
FRAME_QUESTIONS = {
    "mean": lambda m: m.mean(),
    "quantile of age": lambda m: m.quantile("age", [0.25, 0.5]),
    "cdf of age": lambda m: m.cdf("age", [30, 50.5]),
    "histogram of town": lambda m: m.histogram("town"),
    "count": lambda m: m.count(lambda rows: (rows["town"] == "A") & (rows["age"] > 40)),
}


def of_answers(model, questions):
    """Return the answers to all questions."""
    shown = spent(model) | {"claim": claim(model.privacy_)}
    for name, ask in questions.items():
        shown |= {f"{name} {part}": value for part, value in of_answer(ask(model)).items()}
    return shown


def of_model(model, new):
    """Return predictions of a model, and what it says of its privacy."""
    shown = spent(model)
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, method):
            shown[method] = np.asarray(getattr(model, method)(new))
    for name in ("regularization_", "sensitivity_"):
        if hasattr(model, name):
            shown[name] = np.asarray(getattr(model, name))
    shown["claim"] = claim(model.privacy_)
    shown["claim in words"] = str(model.privacy_)
    return shown


def of_learner(model, X, y, **fit_params):
    """Return what a learner answers to one block of points, and then to more."""
    model.fit(X, y, **fit_params)
    first = of_model(model, NEW[:4])
    return first | {f"later {k}": v for k, v in of_model(model, np.vstack([NEW, X[:6]])).items()}


def of_message(message):
    """Return the arrays and numbers of a message or an answer, as one list."""
    shown = {}
    for name, value in vars(message).items():
        if name != "embedding" and value is not None:
            shown[name] = value if isinstance(value, str) else np.asarray(value)
    return shown


def of_summary(model):
    """Return chosen rows, messages and claims of a summarizer."""
    shown = spent(model) | {
        "rows": np.asarray(model.sample_indices_),
        "counts": str(sorted(model.owner_counts_.items())),
        "accessed": np.array(model.n_accessed_),
        "claim for the target": claim(model.privacy_.target),
        "claim for owners": claim(model.privacy_.owners),
        "claim in words": str(model.privacy_),
        "values": np.array([model.owner_values_[k] for k in sorted(model.owner_values_)]),
    }
    for owner, messages in sorted(model.transcript_.items()):
        for k, message in enumerate(messages):
            shown |= {f"{owner} {k} {part}": v for part, v in of_message(message).items()}
    return shown


def of_conversation(protocol, **parameters):
    """Return every message between a curator and owners, by hand."""
    names = ["north", "south", "west"]
    parties = {n: DataOwner(ROWS[n == OWNERS], seed=k) for k, n in enumerate(names)}
    options = {"n_select": 12, "gamma": 0.7, "n_components": 40, **SEEDS} | parameters
    curator = Curator(TARGET, names, protocol=clone(protocol), **options)
    shown, messages, turn = {}, curator.open(), 0
    while messages:
        answers = {name: parties[name].answer(message) for name, message in messages.items()}
        for name in messages:
            for who, said in (("curator", messages[name]), ("owner", answers[name])):
                for part, value in of_message(said).items():
                    shown[f"{turn} {name} {who} {part}"] = value
        messages, turn = curator.receive(answers), turn + 1
    shown["chosen"] = str(curator.chosen)
    shown["X"] = np.asarray(curator.X)
    if curator.target_mean is not None:
        shown["target mean"] = np.asarray(curator.target_mean)
    shown["claim for the target"] = claim(curator.privacy.target)
    return shown


# ---- the entries: name -> function that returns a dict of values

ENTRIES = {}


def entry(name, record):
    """Add an entry."""
    assert name not in ENTRIES, name
    ENTRIES[name] = record


def add_sketches():
    """Every sketcher, of numbers and of a mixed frame, under every budget and denominator."""
    tables = {"numbers": (numeric, MANY), "frame": (mixed, FRAME)}
    for (table, (schema, rows)), name, budget in itertools.product(
        tables.items(), sketchers({}), BUDGETS
    ):
        if table == "frame" and budget not in ("default", "pure replace"):
            continue

        def build(schema=schema, name=name, budget=budget, **more):
            given = SEEDS | BUDGETS[budget] | more
            return sketchers(schema())[name].set_params(**given, ledger=ledger_of(given))

        entry(f"sketch of {table}, {name}, {budget}", lambda b=build, r=rows: of_sketcher(b(), r))
        if table == "numbers" and budget in ("default", "pure", "replace"):
            for choice in DENOMINATORS[1:]:
                said = ", ".join(f"{k}={v}" for k, v in choice.items())
                entry(
                    f"sketch of {table}, {name}, {budget}, {said}",
                    lambda b=build, r=rows, c=choice: of_sketcher(b(**c), r),
                )
        if table == "numbers" and budget == "default":
            entry(
                f"sketch of {table}, {name}, in blocks",
                lambda b=build, r=rows: of_sketcher(b(), r, r[:100], r[100:450], r[450:]),
            )


def add_adaptive_sketches():
    """Adaptive sketches of numbers and of a mixed frame, under every budget."""
    if not hasattr(skdpsumm, "AdaptiveSketcher"):
        return
    tables = {"numbers": (numeric, MANY), "frame": (mixed, FRAME)}
    for (table, (schema, rows)), name, budget in itertools.product(
        tables.items(), adaptive(mixed()), BUDGETS
    ):

        def build(schema=schema, name=name, budget=budget):
            given = SEEDS | BUDGETS[budget]
            return adaptive(schema())[name].set_params(**given, ledger=ledger_of(given))

        entry(f"sketch of {table}, {name}, {budget}", lambda b=build, r=rows: of_sketcher(b(), r))


def add_other_tables():
    """A sketch of Dask blocks, of several sites together, and the public vectorizer."""

    def blocks(name):
        import dask.array

        given = sketchers(numeric())[name].set_params(**SEEDS)
        return of_sketch(given.fit(dask.array.from_array(MANY, chunks=(200, 2))).sketch_)

    def partitions():
        import dask.array

        table = dask.array.from_array(ROWS, chunks=(300, 2))
        return of_summary(summarizer(Propose()).fit(table, X_target=TARGET))

    def merged():
        try:
            from skdpsumm.federated._curator import merge_sketches
        except ImportError:  # where it was before
            from skdpsumm.federated._curator import merge_sketches

        part = sketchers(numeric())["union"].set_params(**SEEDS)
        halves = {"a": MANY[:300], "b": MANY[300:]}
        return of_sketch(merge_sketches({k: clone(part).fit(X).sketch_ for k, X in halves.items()}))

    for name in ("rff", "race", "union"):
        entry(f"sketch of Dask blocks, {name}", lambda n=name: blocks(n))
    entry("summary of Dask partitions", partitions)
    entry("sketches merged", merged)
    if HAS_SCHEMA:
        vectorizer = skdpsumm.PublicVectorizer([(-1, 1), (-2, 2)])
        entry("vectors", lambda: {"X": np.asarray(vectorizer.fit(X).transform(X))})


def add_moments():
    """Statistics and models from sketches."""
    for name, budget in itertools.product(sketchers({}), ("default", "pure", "replace", "inf")):
        if budget != "default" and name not in ("rff", "histogram", "union"):
            continue

        def answers(name=name, budget=budget, **parameters):
            given = SEEDS | BUDGETS[budget]
            part = sketchers(numeric())[name].set_params(**given, ledger=ledger_of(given))
            return of_answers(m2m("estimator", part, **parameters).fit(MANY), QUESTIONS)

        entry(f"moments, {name}, {budget}", answers)
    entry("moments, chosen ridge", lambda: answers("rff", "default", regularization=0.1))
    entry("moments, not centred", lambda: answers("union", "default", center=False))
    for name in ("histogram", "union", "weighted union"):

        def of_frame(name=name):
            part = sketchers(mixed())[name].set_params(**SEEDS, ledger=ledger_of({}))
            return of_answers(m2m("estimator", part).fit(FRAME), FRAME_QUESTIONS)

        entry(f"moments of a frame, {name}", of_frame)

    def predicted():
        part = sketchers(numeric())["union"].set_params(**SEEDS)
        model = m2m("estimator", part)
        asked = lambda rows: rows[:, 0] ** 2  # noqa: E731
        return {
            "error": np.asarray(model.predict_error(asked, n_samples=500, n_features=2)),
            "epsilon": np.asarray(model.calibrate(asked, error=0.02, n_samples=500, n_features=2)),
        }

    entry("moments, planned", predicted)

    def by_an_analyst(kind, rows, y, questions):
        part = SketchUnion(
            [HistogramSketcher(n_bins=8), RFFSketcher(40, gamma=1.0)], noise_seed=7, epsilon=10.0
        )
        curator = m2m(kind, part, **(mixed() if rows is FRAME else numeric()))
        sketch = curator.fit(rows, y).sketch_
        with tempfile.TemporaryDirectory() as folder:
            sketch.save(os.path.join(folder, "sketch"))
            sketch = PrivateSketch.load(os.path.join(folder, "sketch"))
        model = type(curator).from_sketch(sketch, n_synthetic=1500, random_state=3)
        return of_answers(model, questions) if questions else of_model(model, rows[:9])

    entry("analyst, numbers", lambda: by_an_analyst("estimator", MANY, None, QUESTIONS))
    entry("analyst, frame", lambda: by_an_analyst("estimator", FRAME, None, FRAME_QUESTIONS))
    entry("analyst, classifier", lambda: by_an_analyst("classifier", X, Y3, None))
    entry("analyst, classifier of a frame", lambda: by_an_analyst("classifier", FRAME, OLD, None))
    entry("analyst, regressor", lambda: by_an_analyst("regressor", X, T, None))

    targets = {"classifier": Y2, "classifier of three": Y3, "regressor": T}
    for (target, y), weights, estimator in itertools.product(
        targets.items(), ("maxent", "ridge"), ("own", "given")
    ):

        def fitted(target=target, y=y, weights=weights, estimator=estimator):
            kind = target.split()[0]
            given = LogisticRegression() if kind == "classifier" else Ridge()
            model = m2m(
                kind,
                RFFSketcher(100, gamma=0.7, epsilon=20.0, noise_seed=7, ledger=ledger_of({})),
                **numeric(),
                weights=weights,
                estimator=given if estimator == "given" else None,
            )
            return of_model(model.fit(X, y), NEW) | of_sketch(model.sketch_)

        entry(f"M2M {target}, {weights}, {estimator} estimator", fitted)

    def mixed_classifier():
        part = SketchUnion(
            [HistogramSketcher(n_bins=8), RFFSketcher(40, gamma=1.0)], noise_seed=7, epsilon=10.0
        )
        model = m2m("classifier", part, **mixed()).fit(FRAME, OLD)
        return of_model(model, FRAME[:9]) | of_sketch(model.sketch_)

    entry("M2M classifier of a frame", mixed_classifier)


def add_summaries():
    """Every protocol with every release."""
    for (protocol, how), (name, release) in itertools.product(PROTOCOLS.items(), RELEASES.items()):
        for budget in ("default", "pure", "replace") if name == "gaussian" else ("default",):

            def fitted(how=how, release=release, budget=budget):
                model = summarizer(how, **release, **BUDGETS[budget])
                return of_summary(model.fit(ROWS, X_target=TARGET, owners=OWNERS))

            entry(f"summary, {protocol}, {name}, {budget}", fitted)
    for protocol, how in PROTOCOLS.items():
        entry(
            f"summary, {protocol}, without noise",
            lambda how=how: of_summary(
                summarizer(how, epsilon=np.inf, noise_seed=None).fit(
                    ROWS, X_target=TARGET, owners=OWNERS
                )
            ),
        )
        known = {"n_target": 60} if protocol == "printed auction" else {}
        entry(f"conversation, {protocol}", lambda how=how, k=known: of_conversation(how, **k))
        entry(
            f"conversation, {protocol}, mwem",
            lambda how=how: of_conversation(how, **RELEASES["mwem of features"]),
        )
        entry(
            f"conversation, {protocol}, shares",
            lambda how=how, k=known: of_conversation(
                how, shares={"north": 1, "south": 3, "west": 2}, **k
            ),
        )
    entry(
        "summary, as printed",
        lambda: of_summary(
            summarizer(PROTOCOLS["printed auction"], **PRINTED).fit(
                ROWS, X_target=TARGET, owners=OWNERS
            )
        ),
    )
    entry("summary of X itself", lambda: of_summary(summarizer(Propose()).fit(ROWS, owners=OWNERS)))

    def noisy_values():
        model = summarizer(Propose()).fit(ROWS, X_target=TARGET, owners=OWNERS)
        told = model.noisy_owner_values(1.0)
        values = np.array([told.values[k] for k in sorted(told.values)])
        return {"values": values, "claim": claim(told.privacy)}

    entry("summary, noisy values", noisy_values)
    entry(
        "selection",
        lambda: {
            "greedy": greedy_mmd_selection(ROWS, TARGET, 15, random_state=3, gamma=1.0),
            "greedy by features": greedy_mmd_selection(
                ROWS, TARGET, 15, n_components=60, random_state=3, gamma=1.0
            ),
            "uniform": uniform_selection(900, 20, random_state=3),
            "mmd": np.array(
                [mmd2(ROWS, TARGET, gamma=1.0), mmd2(ROWS, TARGET, unbiased=True, gamma=1.0)]
            ),
        },
    )
    labels = (ROWS[:, 0] > 1).astype(int)
    for name, model in {"classifier": LogisticRegression(), "regressor": Ridge()}.items():

        def summarised(model=model):
            part = SummarizedEstimator(model, summarizer(Propose(), n_select=60))
            part.fit(ROWS, labels, X_target=TARGET, owners=OWNERS)
            return {
                "predict": part.predict(NEW),
                "weights": part.estimator_.coef_,
                "claim": claim(part.privacy_.target),
            }

        entry(f"summarised {name}", summarised)


FAMILIES = {
    "TDIL": ["functional", "objective", "exponential", "exponential of given points"],
    "TDDL": ["functional", "laplace", "constrained laplace"],
    "PINP": ["functional", "path", "svt", "threshold"],
}
TARGETS = {"two classes": Y2, "three classes": Y3, "numbers": T}
LOSSES = {
    "Classifier": ["default", "huberized hinge", "soft hinge", "logistic", "hinge"],
    "Regressor": ["default", "huber", "squared", "insensitive"],
}
SPACES = ["linear", "rbf", "laplacian", "poly", "cosine", "callable", "features"]


def add_learners():
    """Every learner with every mechanism; every loss and space with each of those, one by one."""
    for family, (target, y) in itertools.product(FAMILIES, TARGETS.items()):
        kind = "Regressor" if target == "numbers" else "Classifier"
        for mechanism_name in FAMILIES[family]:
            cases = [("default", s, b) for s in SPACES for b in ("default",)]
            cases += [(loss, s, "default") for loss in LOSSES[kind] for s in ("linear", "rbf")]
            cases += [("default", s, b) for s in ("linear", "rbf") for b in BUDGETS]
            for loss_name, space_name, budget in dict.fromkeys(cases):

                def fitted(
                    family=family,
                    kind=kind,
                    y=y,
                    names=(loss_name, mechanism_name, space_name),
                    budget=budget,
                ):
                    model = learner(
                        family,
                        kind,
                        loss_name=names[0],
                        mechanism_name=names[1],
                        space_name=names[2],
                        **BUDGETS[budget],
                    )
                    points = {"X_public": NEW} if "laplace" in names[1] else {}
                    return of_learner(model, X, y, **points)

                name = f"{family}, {target}, {mechanism_name}, {loss_name} loss, {space_name}"
                entry(f"{name}, {budget}", fitted)

    def plain(**parameters):
        model = learner(
            "TDIL",
            "Classifier",
            mechanism_name="functional",
            space_name="linear",
            **parameters,
        )
        return of_learner(model, X, Y2)

    entry("TDIL, chosen Lambda", lambda: plain(regularization=4.0))
    entry("TDIL, given classes", lambda: plain(classes=[0, 1, 2]))

    def public_points(kernel):
        model = learner("TDDL", "Classifier", mechanism_name="functional", space_name="rbf")
        if kernel == "rbf":
            model.fit(X, Y2, X_public=NEW)
            return of_model(model, NEW)
        model.set_params(kernel="precomputed", **dict.fromkeys(numeric()))
        gram = laplacian_kernel(np.vstack([X, NEW]), gamma=0.5)
        model.fit(gram[:160, :160], Y2, X_public=gram[160:])
        return of_model(model, gram[160:, 160:])

    def copied(mechanism_name):
        model = learner("PINP", "Classifier", mechanism_name=mechanism_name, space_name="rbf")
        model.fit(X, Y2).predict(NEW[:5])
        copy = pickle.loads(pickle.dumps(model.set_params(ledger=None)))
        return of_model(copy, NEW) | {"private": np.array(copy.holds_private_data)}

    for mechanism_name in FAMILIES["PINP"]:
        entry(f"PINP, copy, {mechanism_name}", lambda m=mechanism_name: copied(m))
    for kernel in ("rbf", "precomputed"):
        entry(f"TDDL, public points, {kernel}", lambda k=kernel: public_points(k))


def add_searches():
    """Searches over each kind of learner."""
    grid = {"regularization": [1.0, 3.0, 10.0]}
    kinds = {
        "TDIL classifier": ("TDIL", "Classifier", "linear", Y2, {}),
        "TDDL classifier": ("TDDL", "Classifier", "rbf", Y3, {}),
        "TDIL regressor": ("TDIL", "Regressor", "linear", T, {"score_bounds": (-2, 0)}),
    }
    for (name, (family, kind, at, y, more)), budget in itertools.product(kinds.items(), BUDGETS):

        def fitted(family=family, kind=kind, at=at, y=y, more=more, budget=budget):
            # The search sets budget, seed and ledger of what it fits.
            part = learner(family, kind, mechanism_name="functional", space_name=at, ledger=None)
            part.set_params(noise_seed=None, random_state=3)
            model = search(part, grid, **more, **BUDGETS[budget]).fit(X, y)
            return of_model(model, NEW) | {"best": str(model.best_params_)}

        entry(f"search, {name}, {budget}", fitted)
    for distribution in (1.0, "geometric", "poisson"):

        def drawn(distribution=distribution):
            part = learner(
                "TDIL", "Classifier", mechanism_name="functional", space_name="linear", ledger=None
            )
            part.set_params(noise_seed=None)
            model = search(part, grid, distribution=distribution, epsilon=5.0).fit(X, Y2)
            return of_model(model, NEW) | {"best": str(model.best_params_)}

        entry(f"search, runs {distribution}", drawn)


def add_prices():
    """What ledgers of every kind charge for mechanisms, and the algebra of guarantees."""
    from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PureDP
    from skdpsumm.privacy._mechanisms import ZeroConcentratedDP

    parts = {
        "pure": PureDP(0.3),
        "gaussian": GaussianDP(0.4),
        "gaussian with slack": GaussianDP(0.4, 1e-12, 1e-17),
        "zcdp": ZeroConcentratedDP(0.05),
    }
    for (name, part), accountant in itertools.product(parts.items(), ("pure", "gdp", "zcdp")):

        def charged(part=part, accountant=accountant):
            delta = 0.0 if accountant == "pure" else 1e-5
            book = PrivacyLedger(epsilon=100.0, delta=delta, accountant=accountant)
            shown = {"price": np.array(book.price(part)), "other": []}
            for other in parts.values():
                try:
                    book.charge(other)
                    shown["other"].append(book.spent.epsilon)
                except ValueError:
                    shown["other"].append(np.nan)
            book.charge(part)
            shown["price replaced"] = np.array(book.price(PrivacyGuarantee(part)))
            return shown | {"other": np.array(shown["other"]), "spent": np.array(book.spent)}

        entry(f"price, {name}, {accountant}", charged)
    for one, other in itertools.combinations_with_replacement(parts, 2):
        entry(
            f"sum, {one} + {other}",
            lambda a=one, b=other: {
                "claim": claim(PrivacyGuarantee(parts[a]) + PrivacyGuarantee(parts[b])),
                "group": claim(PrivacyGuarantee(parts[a].group(3))),
                "parallel": claim(
                    PrivacyGuarantee.parallel(
                        [PrivacyGuarantee(parts[a]), PrivacyGuarantee(parts[b])]
                    )
                ),
            },
        )


for add in (
    add_sketches,
    add_adaptive_sketches,
    add_other_tables,
    add_moments,
    add_summaries,
    add_learners,
    add_searches,
    add_prices,
):
    add()


# ---- recording and comparing


def record(only):
    """Return name -> value of all entries; an error is a value, too."""
    values = {}
    for name, run in ENTRIES.items():
        if only not in name:
            continue
        start = time.process_time()
        try:
            shown = run()
        except Exception as error:
            shown = {"": f"raises {type(error).__name__}"}
            values[f"{name} | message"] = re.sub(" at 0x[0-9a-f]+", "", str(error))
        values |= {f"{name} | {part}": value for part, value in shown.items()}
        seconds = time.process_time() - start
        if "-v" in sys.argv:
            print(f"{seconds:6.2f} s  {name}  {shown.get('', '')}", flush=True)
    return values


def difference(old, new):
    """Return None for the same bits, else what differs."""
    if isinstance(old, str) or isinstance(new, str):
        return (
            None
            if str(old) == str(new) and type(old) is type(new)
            else f"{old!s:.160} -> {new!s:.160}"
        )
    old, new = np.asarray(old), np.asarray(new)
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"shape {old.shape} {old.dtype} -> {new.shape} {new.dtype}"
    if old.dtype.kind not in "fiub":
        return None if np.array_equal(old, new) else "other values"
    if old.tobytes() == new.tobytes() or np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
        return None
    old, new = old.astype(float), new.astype(float)
    if not np.array_equal(np.isfinite(old), np.isfinite(new)):
        return "finite -> infinite or the reverse"
    finite = np.isfinite(old)
    largest = np.abs(old[finite]).max(initial=1e-300)
    return f"relative difference {np.abs(old - new)[finite].max(initial=0.0) / largest:.2g}"


def compare(old, new):
    """Print what differs, and return how many values do."""
    counts = {"same": 0, "differ": 0, "gone": 0, "new": 0}
    for name in [*old, *(set(new) - set(old))]:
        if name not in new or name not in old:
            key = "gone" if name in old else "new"
            if not name.endswith("| message"):
                print(f"{key:8} {name}: {old.get(name, new.get(name))!s:.100}")
                counts[key] += 1
            continue
        told = difference(old[name], new[name])
        if told is None:
            counts["same"] += 1
        elif name.endswith("| message"):
            print(f"text     {name}: {told}")
        else:
            print(f"differs  {name}: {told}")
            counts["differ"] += 1
    print(counts)
    return len(old) + len(new) if not counts["same"] else sum(counts.values()) - counts["same"]


def main():
    """Write or compare."""
    arguments = [a for a in sys.argv[1:] if a != "-v"]
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    action, path = arguments[:2]
    print(f"of {os.path.dirname(skdpsumm.__file__)}: {len(ENTRIES)} entries", flush=True)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        values = record(only)
    if action == "write":
        with open(path, "wb") as file:
            pickle.dump(values, file)
        errors = [n for n, v in values.items() if n.endswith("| ") and str(v).startswith("raises")]
        print(f"{len(values)} values written, {len(errors)} entries raise")
        return 0
    with open(path, "rb") as file:
        old = pickle.load(file)
    old = {name: value for name, value in old.items() if only in name.split(" | ")[0]}
    return int(compare(old, values) > 0)


if __name__ == "__main__":
    sys.exit(main())
