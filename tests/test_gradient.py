"""Noisy gradient descent: whole sums of rows that are bounded alone, their noise, and the bugs.

The claim is that of T Gaussian mechanisms, one after the other. So three things are tested: that a
table's sum is the sum over its rows or groups, each a function of itself alone and within the
bound, in whole numbers and with no tolerance; that the steps compose to the claim; and that nothing
fails after the charge. What neighbours cost, step by step, and strangers hear is in `test_kit`.
"""

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from releases import Released, seeded_noise
from scipy.stats import kstest, norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import FunctionTransformer

from skdpsumm import PrivacyLedger, TDILClassifier, TDILRegressor
from skdpsumm.audit import worst_case_neighbours
from skdpsumm.learners import (
    EpsilonInsensitive,
    GradientDescent,
    Huber,
    HuberizedHinge,
    SoftHinge,
)
from skdpsumm.learners.mechanisms import _gradient
from skdpsumm.learners.mechanisms._gradient import IntegerRows
from skdpsumm.privacy import GaussianDP, NoiseWarning, gdp_mu
from skdpsumm.privacy._noise import nominal_mechanism

# Tests of other things set these off, on tables as small as they are.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.NoiseWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
]

ADJACENCIES = pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
UNITS = [(None, "add_remove"), (1000, "add_remove"), (3, "replace_one"), ("average", "replace_one")]
ARMS = pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False), (1.3, False)])
statistical = pytest.mark.statistical


@pytest.fixture
def noise(monkeypatch):
    """Return a function that puts seeded sources, off by a factor, in place of all noise."""
    return seeded_noise(monkeypatch)


def classifier(n_classes=2, **settings):
    given = {"mechanism": "gradient", "classes": range(n_classes), "random_state": 0}
    return TDILClassifier(**given | settings)


def regressor(**settings):
    given = {"mechanism": "gradient", "y_bounds": (-1, 1), "random_state": 0}
    return TDILRegressor(**given | settings)


def opened(model, X, y, groups=None):
    """Return a fit that is planned, and has read all rows, but for its charge and its noise."""
    model = clone(model)
    return model._draft(model._begin(groups), X, y, None, groups=groups)


def sums(draft, weights, rows=None):
    """Return the sum of gradients, in whole units, of some rows; of all that were read if None."""
    problem = draft.problem
    if rows is None:
        return draft.plan._rows.gradient(weights)
    parts = {
        name: None if getattr(problem, name) is None else getattr(problem, name)[rows]
        for name in ("X", "codes", "shares", "units")
    }
    return IntegerRows(replace(problem, **parts), draft.plan).gradient(weights)


def squared_length(whole):
    return sum(int(number) ** 2 for number in np.ravel(whole))


def bound(draft, rows=1):
    """Return the square of what so many units of protection may add, in units of the grids."""
    terms, plan = draft.problem.terms, draft.plan
    longest = Fraction(plan.clip) * Fraction(terms.radius)
    in_units = longest / (Fraction(plan._feature_grid) * Fraction(plan._slope_grid))
    return rows**2 * terms.rows_of_unit * in_units**2


# ------------------------------------------------------------------------------ sums, row by row


_SPAN = GradientDescent(n_landmarks=20)
MODELS = {
    "two classes": classifier(),
    "long rows": classifier(norm_bound=3.0, loss=SoftHinge(2.0)),
    "schema": classifier(schema=(-1, 1)),
    "features": classifier(kernel=RBFSampler(n_components=33, gamma=2.0)),
    "a function": classifier(kernel=FunctionTransformer(np.tanh)),
    "span": classifier(kernel="rbf", gamma=1.0, schema=(-1, 1), mechanism=_SPAN),
    "span of a polynomial": classifier(3, kernel="poly", schema=(-1, 1), mechanism=_SPAN),
    "five classes": classifier(5),
    "twenty classes": classifier(20),
    "short clip": classifier(5, mechanism=GradientDescent(clip=0.01)),
    "one against the rest": classifier(4, loss="hinge"),
    "sharp": classifier(3, loss=HuberizedHinge(width=1e-8)),
    "overflow": classifier(3, loss=HuberizedHinge(width=1e-310)),
    "numbers": regressor(),
    "insensitive": regressor(loss="epsilon_insensitive"),
    "squares": regressor(loss="squared", mechanism=GradientDescent(clip=0.5)),
}
LENGTHS = (0.0, 1.0, 1e3, 1e-200, 1e150)


def odd_rows():
    """Return rows of three columns, among them the shortest and the longest that there are."""
    rng = np.random.default_rng(0)
    rows = [[1e308, -1e308, 1.0], [5e-324, -0.0, 0.0], [0.0, 0.0, 0.0], [-0.0, 1e-160, 1e160]]
    shapes = rng.normal(size=(40, 3)) * 10.0 ** rng.integers(-4, 4, (40, 1))
    return np.vstack([rows, shapes, np.eye(3), -np.eye(3)])


def table_of(model, X, seed=1):
    """Return a table with labels, of which some of numbers are beyond their bounds."""
    rng = np.random.default_rng(seed)
    if isinstance(model, TDILRegressor):
        return X, rng.choice([-1e300, -1, -0.3, 0.0, 0.2, 1, 1e300], len(X))
    return X, rng.integers(len(model.classes), size=len(X))


def weights_for(draft, length, seed=2):
    return length * np.random.default_rng(seed).normal(size=draft.plan._shape)


def check_rows_alone(name):
    """Compare sums of tables with those of their rows alone, and of parts in any order."""
    model = MODELS[name]
    draft = opened(model, *table_of(model, odd_rows()))
    n = len(draft.problem.X)
    order = np.random.default_rng(3).permutation(n)
    largest = 0
    for length in LENGTHS:
        weights = weights_for(draft, length)
        total = sums(draft, weights)
        alone = [sums(draft, weights, [i]) for i in range(n)]
        assert np.array_equal(total, sum(alone)), (name, length)
        for parts in (order[:1], order[1:]), (order[:7], order[7:]), (order, order[:0]):
            split = sum(sums(draft, weights, part) for part in parts if len(part))
            assert np.array_equal(total, split), (name, length)
        with config_context(working_memory=0):
            assert np.array_equal(total, sums(draft, weights, order)), (name, length)
        longest = max(squared_length(one) for one in alone)
        assert longest <= bound(draft), (name, length)
        largest = max(largest, longest)
    assert name.startswith(("overflow", "span")) or largest > 0.99 * bound(draft), name


def check_blocks():
    """Compare sums of more rows than a block has with those of parts that end anywhere."""
    rng = np.random.default_rng(4)
    for name in ("long rows", "twenty classes"):
        model = MODELS[name]
        draft = opened(model, *table_of(model, rng.normal(size=(9001, 2))))
        weights = weights_for(draft, 3.0)
        total = sums(draft, weights)
        for ends in ([4096], [4095, 8192], [1, 64, 4160, 4161], [8999]):
            parts = np.split(rng.permutation(9001), ends)
            assert np.array_equal(total, sum(sums(draft, weights, part) for part in parts)), name


@pytest.mark.parametrize("name", MODELS)
def test_a_sum_is_that_of_rows_alone(name):
    """Bit for bit, whatever rows are beside them, in what order, and kept in memory or not."""
    check_rows_alone(name)


def test_a_sum_over_blocks_is_that_of_its_parts():
    check_blocks()


@pytest.mark.parametrize("name", ["long rows", "five classes", "short clip", "numbers"])
def test_a_row_is_what_whole_numbers_of_python_say(name):
    """From its features and the weights on their grids, with no float but the slope's."""
    model = MODELS[name]
    draft = opened(model, *table_of(model, odd_rows()))
    problem, plan = draft.problem, draft.plan
    weights = weights_for(draft, 2.0)
    unit = Fraction(_gradient.power_below(float(np.linalg.norm(weights)))) / 2**30
    whole = [[round(Fraction(w) / unit) for w in row] for row in weights.tolist()]
    for i in range(0, len(problem.X), 5):
        phi = problem.space.features(problem.X[i : i + 1])[0].tolist()
        phi = [int(Fraction(value) / Fraction(plan._feature_grid)) for value in phi]
        columns = zip(*whole, strict=True)
        products = [sum(a * b for a, b in zip(phi, column, strict=True)) for column in columns]
        scores = [float(one * unit * Fraction(plan._feature_grid)) for one in products]
        slope = problem.terms.loss.gradient(np.array([scores]), problem.codes[i : i + 1])[0]
        slope *= min(1.0, plan.clip / np.linalg.norm(slope)) if slope.any() else 1.0
        units = slope / plan._slope_grid
        # A unit of a slope is what the last bit of its clip may move.
        off = sums(draft, weights, [i]) - np.outer(phi, np.trunc(units))
        assert (np.abs(off) <= np.abs(phi)[:, None]).all()


# ------------------------------------------------------------------------------ neighbours, groups


def neighbours_of(model, limit, n=6):
    """Return arguments of fits: rows that cancel, and a unit more or another one in its place."""
    model = clone(model).set_params(max_rows_per_group=limit)
    pair = worst_case_neighbours(model, n_samples=n, n_features=1)
    return model, [
        one if isinstance(one, dict) else dict(zip("Xy", one, strict=True)) for one in pair
    ]


@pytest.mark.parametrize(("limit", "adjacency"), UNITS)
def test_the_worst_neighbours_reach_the_bound(limit, adjacency):
    """Slopes that are as long as the clip, of the longest row, or of many of them in a group."""
    clip = GradientDescent(clip=0.7)
    model = classifier(loss="hinge", mechanism=clip, adjacency=adjacency, schema=(-1, 1))
    model, tables = neighbours_of(model, limit)
    one, other = (opened(model, **table) for table in tables)
    moved = sums(one, np.zeros(one.plan._shape)) - sums(other, np.zeros(other.plan._shape))
    factor = 1 if adjacency == "add_remove" else 2
    k = limit if isinstance(limit, int) else 1
    claimed = Fraction(one.plan.sensitivity / one.plan._grid)
    assert squared_length(moved) <= claimed**2
    assert squared_length(moved) <= bound(one, factor)
    assert squared_length(moved) > Fraction(0.998) * claimed**2
    expected = factor * math.sqrt(k) * 0.7 * one.problem.terms.radius
    assert one.plan.sensitivity == pytest.approx(expected, rel=1e-9)
    fitted = clone(model).fit(**tables[0])
    assert fitted.sensitivity_ == one.plan.sensitivity


@pytest.mark.parametrize(
    ("name", "limit"),
    [("long rows", 1), ("five classes", 3), ("one against the rest", "average"), ("numbers", 40)],
)
def test_a_sum_is_that_of_groups_alone(name, limit):
    """Of groups that are apart in the table, of one row to a hundred, and of rows all alike."""
    rng = np.random.default_rng(5)
    X = np.vstack([odd_rows(), rng.normal(size=(300, 3)), np.tile([9.0, 9.0, 9.0], (100, 1))])
    groups = np.append(rng.choice(40, len(X) - 100), np.full(100, 99))
    order = rng.permutation(len(X))
    model = clone(MODELS[name]).set_params(max_rows_per_group=limit)
    draft = opened(model, *table_of(model, X[order]), groups[order])
    units = draft.problem.units
    assert limit == "average" or np.bincount(units).max() == min(limit, 100)
    for length in (0.0, 1.0, 1e3):
        weights = weights_for(draft, length)
        total = sums(draft, weights)
        alone = [sums(draft, weights, np.flatnonzero(units == g)) for g in np.unique(units)]
        assert np.array_equal(total, sum(alone))
        assert max(squared_length(one) for one in alone) <= bound(draft)
        shuffled = rng.permutation(len(units))
        assert np.array_equal(total, sums(draft, weights, shuffled))
        with config_context(working_memory=0):
            assert np.array_equal(total, sums(draft, weights, shuffled))


def test_groups_that_are_longer_than_blocks_are_cut_nowhere():
    rng = np.random.default_rng(6)
    groups = rng.permutation(np.repeat([0, 1, 2, 3], [9000, 1, 5000, 4096]))
    model = classifier(max_rows_per_group=6000)
    draft = opened(
        model, rng.normal(size=(len(groups), 1)), rng.integers(2, size=len(groups)), groups
    )
    units, weights = draft.problem.units, weights_for(draft, 2.0)
    assert sorted(np.bincount(units)) == [1, 4096, 5000, 6000]
    alone = [sums(draft, weights, np.flatnonzero(units == g)) for g in range(4)]
    assert np.array_equal(sums(draft, weights), sum(alone))
    assert max(squared_length(one) for one in alone) <= bound(draft)


@ADJACENCIES
@pytest.mark.parametrize("limit", [None, 3, "average"])
def test_the_number_of_rows_is_public_or_has_noise(limit, adjacency):
    """k rows come or go with a group; a replaced one may have fewer, but there are as many."""
    model, tables = neighbours_of(classifier(adjacency=adjacency), limit)
    drafts = [opened(model, **table) for table in tables]
    counts = [_gradient._count(draft.problem) for draft in drafts]
    rows = 1 if limit in (None, "average") else limit
    blocks = drafts[0].plan._noise.blocks
    if adjacency == "replace_one" and rows == 1:
        assert counts[0] == counts[1]
        assert len(blocks) == drafts[0].plan.n_steps
        return
    assert abs(counts[0] - counts[1]) == (0 if adjacency == "replace_one" else rows)
    assert blocks[0].size == 1
    assert blocks[0].l2 * _gradient._COUNT_GRID == rows
    assert len(blocks) == drafts[0].plan.n_steps + 1


@pytest.mark.parametrize(("limit", "adjacency"), UNITS)
def test_where_numbers_lie_moves_by_what_is_priced(limit, adjacency, monkeypatch):
    """A unit of rows at one end of the bounds comes, or goes to the other end."""
    many = {None: 1, "average": 3}.get(limit, limit)
    model, sums = regressor(adjacency=adjacency, max_rows_per_group=limit), []
    monkeypatch.setattr(
        _gradient.GradientPlan, "_noisy", lambda plan, i, whole: sums.append(whole[0]) or whole * 0
    )
    for end, n in ((1.0, many), (-1.0, many if adjacency == "replace_one" else 0)):
        y, groups = np.r_[np.full(n, end), 0.3, -0.7], np.r_[np.zeros(n, int), 1, 2]
        draft = opened(model, np.zeros((n + 2, 1)), y, None if limit is None else groups)
        plan, k = draft.plan, limit if isinstance(limit, int) else 1
        plan._fact(0, plan._rows.shared_codes())
        plan._fact(0, np.abs(plan._rows.shared_codes(-1.0)) / 2)
    moved = np.abs(np.subtract(sums[:2], sums[2:]))
    priced = [block.l2 for block in plan._noise.blocks[len(plan._facts) - 2 : len(plan._facts)]]
    assert (moved <= priced).all()
    assert (moved > 0.999 * np.array(priced)).all()
    assert priced == [k * far / _gradient._COUNT_GRID for far, _ in plan._facts[-2:]]


@statistical
def test_numbers_are_placed_and_come_back():
    """A change of units of y changes predictions with them, and wide bounds cost little."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))
    y = 3 + 0.1 * X[:, 0]
    for bounds in ((2.8, 3.2), (-50, 60)):
        model = regressor(schema=(-1, 1), epsilon=3.0, y_bounds=bounds).fit(X, y)
        assert model.score(X, y) > 0.8
    wide = model._coding
    assert abs(wide.decode(np.zeros((1, 1)))[0] - 3) < 0.5


# ------------------------------------------------------------------------------ the claim


@pytest.mark.parametrize(("limit", "adjacency"), UNITS)
@pytest.mark.parametrize(
    ("epsilon", "delta", "n_steps"), [(1e-3, 1e-9, 7), (1.0, 1e-6, "auto"), (25.0, 1e-5, 1)]
)
@pytest.mark.parametrize("make", [partial(classifier, 5), regressor], ids=["classes", "numbers"])
def test_steps_compose_to_what_is_claimed(make, epsilon, delta, n_steps, limit, adjacency):
    """The squares of all distances, in standard deviations, add up to mu^2, and a hair less."""
    given = {"mechanism": GradientDescent(n_steps=n_steps), "adjacency": adjacency}
    model = make(epsilon=epsilon, delta=delta, **given)
    model, tables = neighbours_of(model, limit)
    draft = opened(model, **tables[0])
    plan, claim = draft.plan, draft.privacy.mechanism
    k = limit if isinstance(limit, int) else 1
    factor = 2 if adjacency == "replace_one" else 1
    size = int(np.prod(plan._shape))
    std = plan._noise.std
    moves = [factor * math.sqrt(k) * plan.clip * draft.problem.terms.radius / plan._grid]
    moves *= plan.n_steps
    facts = [1] * (adjacency == "add_remove" or k > 1) + [factor, 1] * (make is regressor)
    moves = [far * k / _gradient._COUNT_GRID for far in facts] + moves
    std = np.append(np.repeat(std[: len(facts)], size), std[len(facts) :])
    per_step = std.reshape(len(moves), size)[:, 0]
    spent = math.fsum(
        (move / deviation) ** 2 for move, deviation in zip(moves, per_step, strict=True)
    )
    assert isinstance(claim, GaussianDP)
    assert math.sqrt(spent) <= claim.mu <= math.sqrt(spent) * (1 + 1e-9)
    assert claim.epsilon(delta) <= epsilon
    assert claim.mu == pytest.approx(gdp_mu(epsilon, delta), rel=1e-5)


@pytest.mark.parametrize("limit", [None, 3, "average"])
def test_a_ledger_counts_one_gaussian_mechanism(limit):
    """However many steps there are, and in whatever company."""
    X, y, groups = np.eye(3), [0, 1, 0], {} if limit is None else {"groups": [1, 1, 2]}
    usual = nominal_mechanism(1.0, 1e-6)
    for n_steps in (1, 50):
        unit = "row" if limit is None else "group"
        ledger = PrivacyLedger(epsilon=3.0, delta=1e-5, unit=unit)
        model = classifier(mechanism=GradientDescent(n_steps=n_steps), max_rows_per_group=limit)
        fitted = model.set_params(ledger=ledger).fit(X, y, **groups)
        assert len(ledger.entries()) == 1
        paid = ledger.price(fitted.privacy_)
        plain = ledger.price(replace(fitted.privacy_, mechanism=usual))
        assert paid.epsilon == pytest.approx(plain.epsilon, rel=1e-4)
        assert fitted.privacy_.epsilon(1e-6) == pytest.approx(1.0, rel=1e-5)
        assert fitted.privacy_.unit == f"one {unit}"
        assert not fitted.privacy_.idealised


def test_only_what_is_public_decides_steps_noise_and_clip():
    """Not the number of rows, nor what is in them."""
    model, X = classifier(3), odd_rows()
    one, other = (opened(model, *table_of(model, rows)) for rows in (X, 7 * X[4:9]))
    for name in ("n_steps", "clip", "sensitivity", "score_noise", "mechanism", "_grid"):
        assert getattr(one.plan, name) == getattr(other.plan, name)
    assert np.array_equal(one.plan._noise.std, other.plan._noise.std)


AUTOMATIC = [
    (classifier(), "gradient"),
    (regressor(), "gradient"),
    (classifier(max_rows_per_group=3), "gradient"),
    (classifier(epsilon=30.0), "gradient"),
    (classifier(epsilon=31.0), "objective"),
    (classifier(epsilon=1e4), "objective"),
    (classifier(epsilon=np.inf), "objective"),
    (classifier(epsilon=31.0, max_rows_per_group="average"), "functional"),
    (classifier(delta=0.0), "objective"),
    (classifier(delta=0.0, max_rows_per_group=2), "functional"),
    (classifier(loss="hinge"), "gradient"),
    (classifier(loss="hinge", epsilon=31.0), "functional"),
    (classifier(loss=HuberizedHinge(0.01)), "gradient"),
    (classifier(loss=HuberizedHinge()), "gradient"),
    (regressor(loss=Huber(0.5)), "gradient"),
    (regressor(loss="epsilon_insensitive"), "gradient"),
    (regressor(loss="epsilon_insensitive", epsilon=31.0), "objective"),
    (regressor(loss=EpsilonInsensitive(), delta=0.0), "objective"),
    (regressor(loss=EpsilonInsensitive(smoothing=1e-3)), "gradient"),
    (regressor(loss=EpsilonInsensitive(smoothing=1e-3), epsilon=np.inf), "functional"),
    (classifier(kernel="rbf", schema=(-1, 1)), "gradient"),
    (classifier(kernel=RBFSampler()), "gradient"),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("model", "name"), AUTOMATIC)
def test_the_choice_is_made_by_public_numbers(model, name):
    """Before any row is seen, and the same whatever was fitted before."""
    model = clone(model).set_params(mechanism="auto")
    assert model._automatic_mechanism() == name
    table = table_of(model, np.random.default_rng(0).normal(size=(12, 2)))
    groups = {} if model.max_rows_per_group is None else {"groups": np.arange(12) // 2}
    model.fit(*table, **groups)
    named = clone(model).set_params(mechanism=name).fit(*table, **groups)
    assert model.privacy_.mechanism == named.privacy_.mechanism
    assert model._automatic_mechanism() == name


@pytest.mark.parametrize("loss", [HuberizedHinge(0), HuberizedHinge("wide"), "square", 3, Huber()])
def test_a_loss_that_is_none_is_named_before_a_mechanism_is_chosen(loss):
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    for mechanism in ("auto", "gradient"):
        with pytest.raises(ValueError, match=r"loss|width"):
            classifier(loss=loss, mechanism=mechanism, ledger=ledger).fit(np.eye(3), [0, 1, 0])
    assert ledger.entries() == []


# ------------------------------------------------------------------------------ failures, leaks


REFUSED = {
    "no steps": (classifier(mechanism=GradientDescent(n_steps=0)), "n_steps"),
    "half a step": (classifier(mechanism=GradientDescent(n_steps=1.5)), "n_steps"),
    "no clip": (classifier(mechanism=GradientDescent(clip=0)), "clip"),
    "a clip whose square is no number": (
        classifier(mechanism=GradientDescent(clip=1e-200)),
        "clip",
    ),
    "a clip that is none": (classifier(mechanism=GradientDescent(clip=math.nan)), "clip"),
    "pure": (classifier(delta=0.0), "no guarantee with delta=0"),
    "label": (classifier(), "not in `classes`"),
    "too little noise": (classifier(epsilon=1e19), "epsilon"),
    "too much noise": (classifier(epsilon=1e-19), "epsilon"),
    "scale": (classifier(norm_bound=1e-29), "norm_bound"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_nothing(name):
    model, words = REFUSED[name]
    ledger = PrivacyLedger(epsilon=1e30, delta=0.5)
    y = [0, 1, 2] if name == "label" else [0, 1, 0]
    model = clone(model).set_params(ledger=ledger)
    with pytest.raises(ValueError, match=words):
        model.fit(np.eye(3), y)
    assert ledger.entries() == []
    assert not hasattr(model, "predictor_")


def test_nothing_fails_or_warns_after_the_charge():
    """Not for the longest rows, at the ends of what may be asked for, and with errors for all."""
    X = odd_rows()
    extremes = [
        {"epsilon": 1e-3},
        {"epsilon": 25.0, "delta": 1e-150},
        {"epsilon": 1e12},
        {"norm_bound": 1e-20},
        {"norm_bound": 1e20},
        {"regularization": 1e30},
        {"loss": SoftHinge(1e308)},
        {"loss": HuberizedHinge(1e-310)},
        {"loss": HuberizedHinge(1e300)},
        {"mechanism": GradientDescent(clip=1e-60)},
        {"max_rows_per_group": 10**4},
    ]
    for settings in extremes:
        given = {"mechanism": GradientDescent(n_steps=16), "norm_bound": 1.0} | settings
        for n_classes in (2, 4):
            model = classifier(n_classes, **given)
            groups = np.arange(len(X)) % 3 if "max_rows_per_group" in settings else None
            with warnings.catch_warnings(), np.errstate(all="raise"):
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", NoiseWarning)  # which says what was released
                model.fit(*table_of(model, X), groups=groups)
            assert np.isfinite(model.predictor_.coefficients).all(), settings


def test_sums_beyond_the_range_are_clipped_not_refused(monkeypatch):
    """What does not fit beside the noise may not fail: whether it does is private."""
    draft = opened(classifier(epsilon=1e10), *table_of(classifier(), np.ones((50, 2))))
    shape = draft.plan._shape
    for size in (2**61, -(2**61), 2**62):
        noisy = draft.plan._noisy(1, np.full(shape, size))
        limit = 2.0 ** (60 - draft.plan._noise.lift)
        assert np.allclose(noisy, np.sign(size) * limit, rtol=1e-3)


# ------------------------------------------------------------------------------ the law of noise


def has_law(sample, std):
    """Whether mean, variance (each within six standard errors) and shape are of N(0, std^2)."""
    sample = np.ravel(sample)
    n = sample.size
    return bool(
        abs(sample.mean()) < 6 * std / math.sqrt(n)
        and abs(np.mean(sample**2) / std**2 - 1) < 6 * math.sqrt(2 / n)
        and kstest(sample, norm(0, std).cdf).pvalue > 1e-9
    )


@statistical
@ARMS
def test_noise_on_scores_is_what_the_plan_says(factor, accepted, noise):
    """Of the average of all weights, where no row has a say and losses have no curvature."""
    noise(factor)
    model = classifier(mechanism=GradientDescent(n_steps=30), norm_bound=3.0, regularization=1e-6)
    release = Released(model, np.zeros((6, 60)), np.arange(6) % 2)
    sample = [3.0 * release().predictor_.coefficients for _ in range(60)]
    assert has_law(sample, release.plan.score_noise) == accepted
