"""Every fit of the catalogue: neighbours cost what is claimed, and nothing else is told of rows.

See `kit` for how two fits show it. Bugs that these tests must find are in `planted_bugs`.
"""

from functools import partial
from types import SimpleNamespace

import kit
import numpy as np
import pytest
from catalogue import DEFAULT_LEARNERS, DEFAULT_SKETCHES, INSTANCES, of, payer
from curators import with_n_target
from kit import ADJACENCIES, ARMS, PastTheWire, arguments, part_of, part_used, replayed
from paper_protocols import AskAll
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances

from skdpsumm import Categorical, Date, Numeric, PINPClassifier, PrivateSearchCV, TDDLClassifier
from skdpsumm.audit import check_private_estimator, worst_case_neighbours
from skdpsumm.learners import ExponentialMechanism, SoftHinge, TDILClassifier, TDILRegressor
from skdpsumm.model_selection._candidate import plan_runs, stopping
from skdpsumm.privacy import PrivacyLedger, _noise
from skdpsumm.privacy._mechanisms import mechanism_from_dict
from skdpsumm.sketches import HistogramSketcher, RACESketcher, RFFSketcher, SketchUnion, _adaptive

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# What `kit` says that the wire cannot see: these have tests of their own.
UNSEEN = {"objective", "svt", "threshold"}
# Margins stay below the kink, so that a row moves the minimiser as far as any can.
STEEP = {"loss": "hinge", "regularization": 8.0}
STEEP_NUMBERS = {"loss": "epsilon_insensitive", "regularization": 8.0}
# Slopes are as long as the clip in all steps, for no score comes near the margin.
STEEP_DESCENT = {"loss": SoftHinge(margin=50.0), "regularization": 0.01}
CANDIDATES = ExponentialMechanism(n_rounds=2, candidates=[[0.5, 0.5], [0.1, -0.5]])
DESCENTS = {"weights", "schema", "intercept", "random features", "gradient", "span by descent"}
# One of each adjacency, unit and law of noise.
GAUSSIAN, PURE = {"delta": 1e-6}, {"delta": 0.0}
UNITS = {
    "row": (GAUSSIAN, "add_remove", None),
    "replaced row": (GAUSSIAN, "replace_one", None),
    "three rows": (GAUSSIAN, "add_remove", 3),
    "replaced average": (GAUSSIAN, "replace_one", "average"),
    "pure row": (PURE, "add_remove", None),
    "pure three rows": (PURE, "add_remove", 3),
    "pure replaced average": (PURE, "replace_one", "average"),
}
ADDED_IN_FLOATS = DESCENTS | {"functional", "answers of features"}
WITHOUT_PURE = {"gradient", "span by descent", "path"}
SEEN = [name for name in of("sketcher", "model", "learner") if name.split(",")[0] not in UNSEEN]
NEVER_PURE = [name for name in SEEN if name.split(",")[0] in WITHOUT_PURE]
CASES = [(n, unit) for n in SEEN for unit in UNITS if not ("pure" in unit and n in NEVER_PURE)]
# The part that worst-case neighbours use is above this, but where the second column of the table
# says what is lost: the bound is of all that rows may be, and these are searched among a few.
NEARLY_ALL = 0.85
LEAST = {
    "m2m": 0.5,  # under replace-one, no two rows of a box have opposite features
    "landmarks": 0.7,  # pure noise is for all directions of the span, which one row has a part in
    "span": 0.5,  # likewise
    "span, numbers": 0.3,
    "laplace": 0.55,  # the norm of all answers together
    "exponential": 0.05,  # a row moves no score up and another one down
    "gradient, numbers": 0.8,  # residuals shrink on the way
    "random features, numbers": 0.8,
    "m2m classifier": 0.8,
}


def made(name, unit):
    """Return an instance, tuned so that worst-case neighbours are as far apart as they can be."""
    one, kind, (budget, adjacency, limit) = INSTANCES[name], name.split(",")[0], UNITS[unit]
    tuned = {}
    if one.kind == "learner":
        tuned = STEEP if one.y == "labels" else STEEP_NUMBERS
        if kind in DESCENTS and budget is GAUSSIAN:
            tuned = STEEP_DESCENT if one.y == "labels" else {}
        if kind in DESCENTS and budget is PURE:
            tuned = tuned | {"mechanism": "functional"}
        if kind == "exponential":
            tuned = tuned | {"mechanism": CANDIDATES}
    if one.y == "labels":
        tuned = tuned | {"classes": [0, 1]}
    model = one.make(random_state=0, adjacency=adjacency, **budget, **tuned)
    payer(model).set_params(max_rows_per_group=limit)
    return model


# ------------------------------------------------------------------------ neighbours


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_neighbours_cost_what_is_claimed(name, unit, monkeypatch):
    """No more, and hardly less."""
    monkeypatch.setattr(_adaptive, "GraphicalModel", kit.EvenModel)
    model = made(name, unit)
    used = part_used(model, *worst_case_neighbours(model, n_features=2))
    least = LEAST.get(name, LEAST.get(name.split(",")[0], NEARLY_ALL))
    if name.startswith("adaptive") and "replaced" in unit:
        least = 0.05  # bins that noise found may hold both rows
    assert least < used <= 1


PARTS = [HistogramSketcher(n_bins=8), RFFSketcher(n_components=10, gamma=1.0)]
UNION = SketchUnion(PARTS, weights=[5, 1])
TABLES = {
    "weights": (UNION, (0, 1)),
    "marginals": (HistogramSketcher(marginals=2, n_bins=4), (0, 1)),
    "bought number": (HistogramSketcher(n_bins=3, denominator="budget"), (0, 1)),
    "categories": (HistogramSketcher(), [["a", "b", "c"], (0, 1)]),
    "grid": (HistogramSketcher(), [Numeric(step=1, edges=[0, 2, 9]), Numeric(0, 9, missing=True)]),
    "missing": (UNION, [Categorical(["a", "b"], missing=True), Numeric(0, 9, missing=True)]),
    "dates": (UNION, [Date("2020-01-01", "2020-12-31"), ["a", "b"]]),
    "no range": (RFFSketcher(n_components=10, gamma=0.1), [Numeric(missing=True), Numeric(0, 9)]),
}


@pytest.mark.parametrize("unit", ["row", "pure replaced row", "pure three rows"])
@pytest.mark.parametrize("name", TABLES)
def test_sketches_of_all_schemas_cost_what_is_claimed(name, unit):
    budget, adjacency, limit = (UNITS | {"pure replaced row": (PURE, "replace_one", None)})[unit]
    sketcher, schema = TABLES[name]
    model = clone(sketcher).set_params(schema=schema, adjacency=adjacency, random_state=0, **budget)
    model.set_params(max_rows_per_group=limit)
    least = 0.6 if "replaced" in unit else NEARLY_ALL  # Fourier features are never quite opposite
    assert least < part_used(model, *worst_case_neighbours(model, n_features=2)) <= 1


@pytest.mark.parametrize("limit", [None, "average"])
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("name", TABLES)
def test_a_ledger_of_replaced_rows_is_charged_what_these_cost(name, budget, limit):
    """Sketches of a row more say how far a row that is replaced moves them: less than twice."""
    sketcher, schema = TABLES[name]
    model = clone(sketcher).set_params(schema=schema, random_state=0, **budget)
    model.set_params(max_rows_per_group=limit, adjacency="replace_one")
    pair = worst_case_neighbours(model, n_features=2)
    unit = "row" if limit is None else "group"
    ledger = PrivacyLedger(epsilon=99, delta=1e-3, adjacency="replace_one", unit=unit)
    model.set_params(adjacency="add_remove", ledger=ledger).fit(**arguments(pair[0]))
    (entry,) = ledger.entries()
    paid = SimpleNamespace(mechanism=mechanism_from_dict(entry["mechanism"]))
    model.set_params(ledger=None)
    assert 0.6 < part_used(model, *pair, claim=lambda _: paid) <= 1


@pytest.mark.parametrize(("factor", "accepted"), ARMS)
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("fourier", "row"),
        ("histogram", "pure three rows"),
        ("union", "replaced row"),
        ("functional", "row"),
        ("functional", "pure replaced average"),
        ("gradient", "three rows"),
        ("path", "row"),
    ],
)
def test_other_noise_is_told(name, unit, factor, accepted):
    """Three arms: the noise that is right, too little, and more than was asked for."""
    model = made(name, unit)
    used = part_used(model, *worst_case_neighbours(model, n_features=2), factor=factor)
    assert (NEARLY_ALL < used <= 1) == accepted


# A schema with a word: products of its indicators stand beside the vectors of rows.
_WITH_A_WORD = {"schema": {"a": (-1, 1), "c": ["u", "v", "w"]}, "classes": [0, 1]}


@pytest.mark.parametrize("unit", [name for name in UNITS if "pure" not in name])
@pytest.mark.parametrize("name", ["functional", "gradient"])
def test_products_with_words_cost_what_is_claimed(name, unit):
    model = made(name, unit).set_params(**_WITH_A_WORD)
    assert NEARLY_ALL < part_used(model, *worst_case_neighbours(model)) <= 1


DEFAULTS = DEFAULT_SKETCHES | DEFAULT_LEARNERS
DEFAULTS = {name: one for name, one in DEFAULTS.items() if "objective" not in name}


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_cost_no_more_than_they_claim(name, adjacency):
    model = clone(DEFAULTS[name]).set_params(random_state=0)
    if hasattr(model, "classes"):
        model.set_params(classes=[0, 1])
    payer(model).set_params(adjacency=adjacency)
    assert 0 < part_used(model, *worst_case_neighbours(model)) <= 1


def table(seed, n):
    """Return rows with labels, numbers, and groups of up to five rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) * rng.choice([1.0, 1e-3], (n, 1))
    return X, rng.integers(0, 2, n), rng.uniform(-1, 1, n), rng.integers(0, n // 3, n)


def given(one, model, rows):
    """Return arguments of a fit to a table."""
    X, labels, numbers, groups = rows
    y = {None: {}, "labels": {"y": labels}, "numbers": {"y": numbers}}[one.y]
    grouped = payer(model).max_rows_per_group is not None
    return {"X": X, **y, **({"groups": groups} if grouped else {})}


def without_a_group(rows, more=None):
    """Return a table without one group, or with another one of other rows in its place."""
    rest = rows[3] != rows[3][-1]
    kept = [part[rest] for part in rows]
    if more is None:
        return kept
    more = [*more[:3], np.full(len(more[0]), 99)]
    return [np.concatenate(pair) for pair in zip(kept, more, strict=True)]


@pytest.mark.parametrize(("name", "unit"), [case for case in CASES if " row" not in f" {case[1]}"])
def test_random_groups_cost_no_more(name, unit):
    """A group of any size goes, and leaves all others as they were: their coins and their sums."""
    one, model = INSTANCES[name], made(name, unit)
    for seed in range(3):
        rows = table(seed, 40)
        other = without_a_group(rows, table(seed + 9, 5 * seed + 4) if "replaced" in unit else None)
        pair = given(one, model, rows), given(one, model, other)
        assert 0 < part_used(model, *pair) <= 1


def is_seen_whole(name, unit):
    """Whether all that is published comes over the wire, and nothing is asked at private rows."""
    in_floats = "pure" in unit and name.split(",")[0] in ADDED_IN_FLOATS
    return not (INSTANCES[name].interactive or in_floats)


@pytest.mark.parametrize(("name", "unit"), [case for case in CASES if is_seen_whole(*case)])
def test_strangers_hear_the_same(name, unit):
    """The second table has nothing in common with the first, nor its size where that is private."""
    one, model = INSTANCES[name], made(name, unit)
    n = 60 if "replaced" not in unit else 40
    tables = table(0, 40), table(1, n)
    if "average" in unit:  # the number of groups is public
        tables = [(*rows[:3], np.arange(len(rows[0])) // 2) for rows in tables]
    replayed(model, *(given(one, model, rows) for rows in tables))


@pytest.mark.parametrize("unit", ["row", "replaced row", "three rows", "replaced average"])
@pytest.mark.parametrize("name", ["functional", "gradient"])
def test_sparse_rows_cost_the_same(name, unit):
    model = made(name, unit)
    pair = worst_case_neighbours(model, n_features=2)
    sparse_pair = [{**one, "X": sparse.csr_matrix(one["X"])} for one in map(arguments, pair)]
    assert NEARLY_ALL < part_used(model, *sparse_pair) <= 1


ASKED = {
    "at once": lambda ask, points: [ask(points)],
    "one by one": lambda ask, points: [ask(point[None]) for point in points],
    "in another order": lambda ask, points: [ask(points[2:]), ask(points[::-1])],
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_path_costs_the_same_however_it_is_asked(asked):
    model = PINPClassifier(gamma=1.0, classes=[0, 1], random_state=0, **STEEP)
    pair = worst_case_neighbours(model)
    points = pair[0][0][:1] + np.array([[0.0], [0.5], [0.1], [2.0]])

    def answers(model, data):
        fitted = clone(model).fit(*data)
        found = ASKED[asked](fitted._scores, points)
        return fitted, {"answers": np.concatenate(found, axis=None).tobytes()}

    assert NEARLY_ALL < part_used(model, *pair, publish=answers) <= 1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_random_targets_of_groups_cost_no_more(adjacency):
    """One group goes, or gives way to another of other rows, and maybe of another size."""
    rng = np.random.default_rng(0)
    for limit in (1, 3, "average"):
        model = INSTANCES["propose"].make(random_state=0, adjacency=adjacency)
        with_n_target(model.set_params(max_rows_per_group=limit), 40)
        for _ in range(5):
            target, groups = rng.normal(size=(60, 2)), rng.integers(0, 9, 60)
            kept, n_new = groups > 0, 0 if adjacency == "add_remove" else rng.integers(1, 9)
            other = np.vstack([target[kept], rng.normal(3, 1, (n_new, 2))])
            left = np.append(groups[kept], np.full(n_new, 100))
            one = {"X": np.zeros((9, 2)), "owners": ["observer"] * 9, "groups": np.arange(9)}
            worlds = [
                {**one, "X_target": rows, "target_groups": labels}
                for rows, labels in ((target, groups), (other, left))
            ]
            assert 0 < part_used(model, *worlds, publish=broadcast, claim=target_claim) <= 1


def target_claim(fitted):
    return fitted.privacy_.target


# ------------------------------------------------------------------------ rows that reach a bound


def test_a_long_row_pulls_back_many_short_ones():
    """The slope of the squared loss is 2, for short rows drive the weight beyond the labels."""
    X, y = np.append(np.full(2000, 0.002), 1.0)[:, None], np.append(np.zeros(2000), 1.0)
    model = TDILRegressor(loss="squared", y_bounds=(0, 1), regularization=0.4, epsilon=1.0)
    model.set_params(mechanism="functional", random_state=0)
    assert 0.3 < part_used(model, (X[:-1], y[:-1]), (X, y)) <= 1


class BoundsOfTheRows(HistogramSketcher):
    def _validate(self, X, schema, *, reset):
        self.schema = (float(X.min()), float(X.max()) + 1e-6)
        return super()._validate(X, schema, reset=reset)


class MedianHeuristic(RFFSketcher):
    def _validate(self, X, schema, *, reset):
        self.gamma = 1 / np.median(euclidean_distances(X)) ** 2
        return super()._validate(X, schema, reset=reset)


class NormOfTheRows(TDILClassifier):
    def _open_space(self, X, X_public):
        self.norm_bound = float(np.linalg.norm(X, axis=1).max())
        return super()._open_space(X, X_public)


class GammaOfTheRows(TDDLClassifier):
    def _open_space(self, X, X_public):
        self.gamma = 1 / X.var()
        return super()._open_space(X, [[0.0], [0.3]])


class LambdaOfTheRows(TDILClassifier):
    def _open_space(self, X, X_public):
        self.regularization = 1 + float(np.square(X).mean())
        return super()._open_space(X, X_public)


@pytest.mark.parametrize(
    "careless",
    [
        BoundsOfTheRows(schema=(0, 1), n_bins=2),
        MedianHeuristic(n_components=6, gamma=1.0),
        NormOfTheRows(mechanism="functional", regularization=8.0, classes=[0, 1]),
        GammaOfTheRows(mechanism="functional", regularization=8.0, classes=[0, 1], gamma=1.0),
        LambdaOfTheRows(mechanism="functional", regularization=8.0, classes=[0, 1]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_parameters_taken_from_the_rows_are_seen(careless):
    """One row far away changes the scale of all noise, a map, or how noise is correlated."""
    X, y = np.linspace(0.01, 0.1, 11)[:, None], np.arange(11) % 2
    tables = [(X[:-1], y[:-1]), (np.vstack([X[:-1], [[10.0]]]), y)]
    if "Sketcher" in type(careless).__base__.__name__:
        tables = [rows for rows, _ in tables]
    with pytest.raises(PastTheWire):
        replayed(careless.set_params(random_state=0), *tables)


# ------------------------------------------------------------------------ searches


def parts_of_runs(search, first, second):
    """Return what the runs of a search cost, each a part of what a run may: fit, and then score."""

    def best(model, data):
        fitted = clone(model).fit(**data)
        seen = fitted.best_sum_, fitted.best_estimator_.predictor_.coefficients.tobytes()
        return fitted, {"best": repr(seen)}

    draws, others, _ = replayed(search, first, second, publish=best)
    plan = plan_runs(stopping(0.0, search.expected_trials), 1.0, search.delta)
    ends = [k + 1 for k, one in enumerate(draws) if one.values.size == 1]  # of a score
    return [
        part_of(plan.base, draws[start:end], others[start:end])
        for start, end in zip([0, *ends], ends, strict=False)
    ]


def search_of(unit, holdout):
    """Return a search over a learner whose neighbours move it, and its score, as far as can be."""
    budget, adjacency, limit = UNITS[unit]
    terms = {"random_state": 0, "adjacency": adjacency, "max_rows_per_group": limit, **budget}
    learner = TDILClassifier(**STEEP, classes=[0, 1], mechanism="functional")
    search = PrivateSearchCV(learner, {}, expected_trials=4, holdout=holdout, **terms)
    return search, clone(learner).set_params(**terms)


# Coins of rows are thrown by their places, so that one row more has other coins thrown after it.
@pytest.mark.parametrize(
    ("unit", "holdout"),
    [(unit, 1 - 1e-12) for unit in UNITS if unit not in ("row", "pure row")]
    + [(unit, 1e-12) for unit in ("three rows", "replaced row", "replaced average")],
)
def test_runs_of_a_search_cost_what_is_claimed(unit, holdout):
    """The unit that differs is scored or trained on, as far as can be: and never both."""
    search, learner = search_of(unit, holdout)
    pair = worst_case_neighbours(learner, n_features=2)
    parts = parts_of_runs(search, *map(arguments, pair))
    assert NEARLY_ALL < max(parts) <= 1


@pytest.mark.parametrize("unit", ["three rows", "replaced average"])
def test_random_groups_are_in_one_part_of_a_search(unit):
    """A group of any size goes, or gives way to another, and no other changes sides."""
    search, _ = search_of(unit, 0.5)
    for seed in range(6):
        rows = table(seed, 40)
        other = without_a_group(rows, table(seed + 9, 9) if "replaced" in unit else None)
        pair = (given(INSTANCES["functional"], search, part) for part in (rows, other))
        assert 0 < max(parts_of_runs(search, *pair)) <= 1


# ------------------------------------------------------------------------ summaries


def broadcast(model, world, owner="observer"):
    """Return a fit, and what one owner is sent under these names.

    Of other fields, such as how many rows are asked for, `test_summary_choices` sees that they
    follow from releases alone.
    """
    fitted = clone(model).fit(**world)
    names = "direction", "threshold", "rate", "n"
    sent = [[getattr(m, name, None) for name in names] for m in fitted.transcript_[owner]]
    return fitted, {str(k): [np.asarray(x).tobytes() for x in m] for k, m in enumerate(sent)}


def in_target_groups(worlds, limit):
    """Return worlds in which the rows that differ are groups of twice as many rows as may count."""
    found, n_rows = [], [len(world["X_target"]) for world in worlds]
    for world, n in zip(worlds, n_rows, strict=True):
        copies = 2 * (1 if limit == "average" else limit) if n == max(n_rows) else 1
        rows = np.append(np.arange(n - 1), np.full(copies, n - 1))
        groups = {"groups": np.arange(len(world["X"])), "target_groups": rows}
        found.append({**world, "X_target": world["X_target"][rows], **groups})
    return found


def asked_all(**parameters):
    """Return a summarizer by the protocol of the papers' figures, which is in no catalogue."""
    return INSTANCES["propose"].make(protocol=AskAll(3), **parameters)


def of_words(**parameters):
    """Return a summarizer of a table with words."""
    schema = {"age": (17, 90), "job": Categorical(["clerk", "farmer"], missing=True)}
    return INSTANCES["by schema"].make(schema=schema, **parameters)


MADE = {name: INSTANCES[name].make for name in ("propose", "pool")}
MADE |= {"ask_all": asked_all, "words": of_words}
TARGETS = [("words", "row"), ("words", "replaced row"), ("words", "pure three rows")]
TARGETS += [
    (name, unit)
    for name in ("propose", "ask_all")
    for unit in UNITS
    if not (name == "ask_all" and ("rows" in unit or "average" in unit))  # it refuses groups
]


@pytest.mark.parametrize(("name", "unit"), TARGETS)
def test_targets_cost_what_is_claimed(name, unit):
    """Features of a few thousand rows reach the bound of Gaussian noise, and nearly so in L1."""
    budget, adjacency, limit = UNITS[unit]
    model = MADE[name](random_state=0, adjacency=adjacency, **budget)
    with_n_target(model, 20 if "replaced" in unit else None)
    pair = worst_case_neighbours(model, n_features=2)
    if limit is not None:
        model.set_params(max_rows_per_group=limit)
        pair = in_target_groups(pair, limit)
    used = part_used(model, *pair, publish=broadcast, claim=target_claim)
    assert (0.5 if name == "words" else NEARLY_ALL) < used <= 1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("name", ["propose", "pool", "ask_all"])
def test_owners_hear_of_each_other_what_is_claimed(name, budget, adjacency):
    """Of "propose" and "pool" nothing at all; of "ask_all", a row that puts out another."""
    model = MADE[name](random_state=0, adjacency=adjacency, **budget)
    with_n_target(model, 20 if adjacency == "replace_one" else None)
    pair = worst_case_neighbours(model, n_features=2, side="owners")
    owners = {"publish": broadcast, "claim": lambda fit: fit.privacy_.owners}
    used = [part_used(model, *pair, **owners) for _ in range(3 if name == "ask_all" else 1)]
    if name != "ask_all":
        assert used == [0]
    else:  # two rows may put out two others where one is replaced, and with some noise do not
        assert (NEARLY_ALL if adjacency == "add_remove" else 0.2) < max(used) <= 1


# ------------------------------------------------------------------------ noise that is stated

WIDE_PARTS = [HistogramSketcher(n_bins=1000), RFFSketcher(n_components=1000)]
WIDE = {
    "rff": RFFSketcher(n_components=2000, gamma=1.0, random_state=0),
    "race": RACESketcher(n_repetitions=500, n_buckets=4, bandwidth=0.1, random_state=0),
    "histogram": HistogramSketcher(schema=(-1, 1), n_bins=1000),
    "union": SketchUnion(WIDE_PARTS, schema=(-1, 1), random_state=0),
}


@pytest.mark.parametrize(("factor", "accepted"), ARMS)
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
@pytest.mark.parametrize("name", WIDE)
def test_noise_is_as_large_as_a_sketch_states(name, budget, factor, accepted, monkeypatch):
    """Its variance is within ten standard errors of what is stated."""
    laplace, gaussian = _noise._laplace_i64, _noise._gaussian_i64
    monkeypatch.setattr(_noise, "_laplace_i64", lambda v, s: laplace(v, s * factor))
    monkeypatch.setattr(_noise, "_gaussian_i64", lambda v, s: gaussian(v, s * factor))
    sketcher = clone(WIDE[name]).set_params(**budget)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    sketch = sketcher.fit(X).sketch_
    noise = (sketch.sums - np.asarray(sketcher.transform(X)).sum(axis=0)) / sketch.noise_std
    assert kit.has_std(noise, 1.0, kurtosis=3.0 if budget is GAUSSIAN else 6.0) == accepted


# ------------------------------------------------------------------------ from outside


@pytest.mark.statistical
@pytest.mark.usefixtures("quick_fits")
@pytest.mark.parametrize(("name", "unit"), [("fourier", "row"), ("span", "three rows")])
def test_an_audit_from_outside_sees_no_more(name, unit, monkeypatch):
    """`check_private_estimator` passes, and fails with a fiftieth of the noise."""
    model = made(name, unit)
    pair = worst_case_neighbours(model, n_features=2)
    shown = (lambda fitted: kit.weights(fitted).ravel()) if name != "fourier" else None
    check = partial(check_private_estimator, model, *pair, release=shown, n_trials=100)
    check()
    laplace, gaussian = _noise._laplace_i64, _noise._gaussian_i64
    monkeypatch.setattr(_noise, "_laplace_i64", lambda v, s: laplace(v, s / 50))
    monkeypatch.setattr(_noise, "_gaussian_i64", lambda v, s: gaussian(v, s / 50))
    with pytest.raises(AssertionError, match="noise is too small"):
        check()


def test_an_epsilon_that_stands_elsewhere_is_no_number_to_check():
    model = INSTANCES["m2m"].make(random_state=0)
    with pytest.raises(AssertionError, match="M2MEstimator needs a parameter epsilon, a number"):
        check_private_estimator(model)
