"""Noisy gradient descent: whole sums of rows that are bounded alone, their noise, and the bugs.

A table's sum is the sum over its rows or groups, each a function of itself alone and within the
bound, in whole numbers and with no tolerance; and nothing fails after the charge. What neighbours
cost, step by step, and what strangers hear, is in `test_kit`.
"""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

from skdpsumm import TDILClassifier, TDILRegressor
from skdpsumm.learners import EpsilonInsensitive, GradientDescent, Huber, HuberizedHinge, SoftHinge
from skdpsumm.learners.mechanisms import _gradient
from skdpsumm.learners.mechanisms._gradient import IntegerRows
from skdpsumm.privacy import NoiseWarning

# Tests of other things set these off, on tables as small as they are.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered"),
    pytest.mark.filterwarnings("ignore:invalid value encountered"),
    pytest.mark.filterwarnings("ignore::skdpsumm.privacy.PrivacyLeakWarning"),
]


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
    names = "X", "codes", "shares", "units"
    parts = {name: v[rows] for name in names if (v := getattr(problem, name)) is not None}
    some = IntegerRows(replace(problem, **parts), draft.plan)
    some.gain = draft.plan._rows.gain
    return some.gradient(weights)


def squared_length(whole):
    return sum(int(number) ** 2 for number in np.ravel(whole))


def bound(draft):
    """Return the square of what a unit of protection may add, in units of the grids."""
    terms, plan = draft.problem.terms, draft.plan
    in_units = Fraction(plan.clip) * Fraction(terms.radius) / Fraction(plan._grid)
    return terms.rows_of_unit * in_units**2


# ------------------------------------------------------------------------------ sums, row by row


_SPAN = GradientDescent(n_landmarks=20)
MODELS = {
    "two classes": classifier(),
    "long rows": classifier(norm_bound=3.0, loss=SoftHinge(2.0)),
    "most units": classifier(norm_bound=np.nextafter(2, 0)),
    "schema": classifier(schema=(-1, 1)),
    "span": classifier(kernel="rbf", gamma=1.0, schema=(-1, 1), mechanism=_SPAN),
    "span of a polynomial": classifier(3, kernel="poly", schema=(-1, 1), mechanism=_SPAN),
    "five classes": classifier(5),
    "twenty classes": classifier(20),
    "short clip": classifier(5, mechanism=GradientDescent(clip=0.01)),
    "overflow": classifier(3, loss=HuberizedHinge(width=1e-310)),
    "numbers": regressor(),
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


UNITS = [(name, None) for name in MODELS]
UNITS += [("long rows", 1), ("five classes", 3), ("twenty classes", "average"), ("numbers", 40)]


@pytest.mark.parametrize(("name", "limit"), UNITS)
def test_a_sum_is_that_of_rows_or_groups_alone(name, limit):
    """Bit for bit, whatever is beside them, in what order, and kept in memory or not.

    Groups are apart in the table, of one row to a hundred, and one has rows all alike.
    """
    rng, X, groups = np.random.default_rng(5), odd_rows(), None
    if limit is not None:
        X = np.vstack([X, rng.normal(size=(300, 3)), np.full((100, 3), 9.0)])
        groups = np.append(rng.choice(40, len(X) - 100), np.full(100, 99))
        order = rng.permutation(len(X))
        X, groups = X[order], groups[order]
    model = clone(MODELS[name]).set_params(max_rows_per_group=limit)
    draft = opened(model, *table_of(model, X), groups)
    units = np.arange(len(X)) if limit is None else draft.problem.units
    draft.plan._rows.gain = 1 / _gradient._PART_OF_FEW if name in ("numbers", "squares") else 1.0
    assert limit in (None, "average") or np.bincount(units).max() == min(limit, 100)
    order, largest = rng.permutation(len(units)), 0
    for length in LENGTHS:
        weights = weights_for(draft, length)
        total = sums(draft, weights)
        alone = [sums(draft, weights, np.flatnonzero(units == one)) for one in np.unique(units)]
        assert np.array_equal(total, sum(alone)), length
        assert np.array_equal(total, sums(draft, weights, order)), length
        with config_context(working_memory=0):
            assert np.array_equal(total, sums(draft, weights, order)), length
        largest = max(largest, *map(squared_length, alone))
    assert largest <= bound(draft)
    seldom = name.startswith(("overflow", "span")) or limit is not None
    assert seldom or largest > 0.99 * bound(draft)


@pytest.mark.parametrize("name", ["long rows", "twenty classes"])
def test_a_sum_over_blocks_is_that_of_its_parts(name):
    """Of more rows than a block has, in parts that end anywhere."""
    rng = np.random.default_rng(4)
    draft = opened(MODELS[name], *table_of(MODELS[name], rng.normal(size=(9001, 2))))
    weights = weights_for(draft, 3.0)
    total = sums(draft, weights)
    for ends in ([4096], [4095, 8192], [1, 64, 4160, 4161], [8999]):
        parts = np.split(rng.permutation(9001), ends)
        assert np.array_equal(total, sum(sums(draft, weights, part) for part in parts))


def test_groups_that_are_longer_than_blocks_are_cut_nowhere():
    rng = np.random.default_rng(6)
    groups = rng.permutation(np.repeat([0, 1, 2, 3], [9000, 1, 5000, 4096]))
    model, n = classifier(max_rows_per_group=6000), len(groups)
    draft = opened(model, rng.normal(size=(n, 1)), rng.integers(2, size=n), groups)
    units, weights = draft.problem.units, weights_for(draft, 2.0)
    assert sorted(np.bincount(units)) == [1, 4096, 5000, 6000]
    alone = [sums(draft, weights, np.flatnonzero(units == g)) for g in range(4)]
    assert np.array_equal(sums(draft, weights), sum(alone))
    assert max(squared_length(one) for one in alone) <= bound(draft)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("limit", [None, 3, "average"])
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
    # 2,000 rows have the whole clip, and the least part of it where none are told.
    table = np.zeros((2000, 1)), np.zeros(2000), None if limit is None else range(2000)
    draft = opened(clone(model).set_params(epsilon=3.0), *table)
    draft.plan.release(draft.problem)
    least = 1 / _gradient._PART_OF_FEW
    assert draft.plan._rows.gain == (1.0 if draft.plan._count_is_public else least)


@pytest.mark.statistical
def test_numbers_are_placed_and_come_back():
    """A change of units of y changes predictions with them, and wide bounds cost little."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))
    y = 3 + 0.1 * X[:, 0]
    for bounds in ((2.8, 3.2), (-50, 60)):
        model = regressor(schema=(-1, 1), epsilon=3.0, y_bounds=bounds).fit(X, y)
        assert model.score(X, y) > 0.8
    assert abs(model._coding.decode(np.zeros((1, 1)))[0] - 3) < 0.5


# ------------------------------------------------------------------------------ the claim


AUTOMATIC = [
    (classifier(), "gradient"),
    (regressor(), "gradient"),
    (classifier(max_rows_per_group=3), "gradient"),
    (classifier(epsilon=30.0), "gradient"),
    (classifier(epsilon=31.0), "objective"),
    (classifier(epsilon=np.inf), "objective"),
    (classifier(epsilon=31.0, max_rows_per_group="average"), "functional"),
    (classifier(delta=0.0, max_rows_per_group=2), "functional"),
    (classifier(loss="hinge", epsilon=31.0), "functional"),
    (classifier(loss=HuberizedHinge(0.01)), "gradient"),
    (regressor(loss="epsilon_insensitive", epsilon=31.0), "objective"),
    (regressor(loss=EpsilonInsensitive(), delta=0.0), "objective"),
    (regressor(loss=EpsilonInsensitive(smoothing=1e-3)), "gradient"),
    (regressor(loss=EpsilonInsensitive(smoothing=1e-3), epsilon=np.inf), "functional"),
    (classifier(kernel="rbf", schema=(-1, 1)), "gradient"),
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
def test_a_loss_that_is_none_is_named_before_a_mechanism_is_chosen(loss, unpaid):
    for mechanism in ("auto", "gradient"):
        with pytest.raises(ValueError, match=r"loss|width"):
            classifier(loss=loss, mechanism=mechanism, ledger=unpaid).fit(np.eye(3), [0, 1, 0])


# ------------------------------------------------------------------------------ failures, leaks


REFUSED = {
    "no steps": (classifier(mechanism=GradientDescent(n_steps=0)), "n_steps"),
    "half a step": (classifier(mechanism=GradientDescent(n_steps=1.5)), "n_steps"),
    "no clip": (classifier(mechanism=GradientDescent(clip=0)), "clip"),
    "a clip whose square is zero": (classifier(mechanism=GradientDescent(clip=1e-200)), "clip"),
    "a clip that is none": (classifier(mechanism=GradientDescent(clip=math.nan)), "clip"),
    "pure": (classifier(delta=0.0), "no guarantee with delta=0"),
    "label": (classifier(), "not in `classes`"),
    "too little noise": (classifier(epsilon=1e19), "epsilon"),
    "too much noise": (classifier(epsilon=1e-19), "epsilon"),
    "scale": (classifier(norm_bound=1e-29), "norm_bound"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_nothing(name, unpaid):
    model, words = REFUSED[name]
    y = [0, 1, 2] if name == "label" else [0, 1, 0]
    model = clone(model).set_params(ledger=unpaid)
    with pytest.raises(ValueError, match=words):
        model.fit(np.eye(3), y)
    assert not hasattr(model, "predictor_")


def test_nothing_fails_or_warns_after_the_charge():
    """Not for the longest rows, at the ends of what may be asked for, and with errors for all."""
    X = odd_rows()
    losses = SoftHinge(1e308), HuberizedHinge(1e-310), HuberizedHinge(1e300)
    extremes = [{"epsilon": 25.0, "delta": 1e-150}, {"max_rows_per_group": 10**4}]
    extremes += [{"mechanism": GradientDescent(clip=1e-60)}, {"regularization": 1e30}]
    extremes += [{"epsilon": e} for e in (1e-3, 1e12)] + [{"norm_bound": b} for b in (1e-20, 1e20)]
    extremes += [{"loss": loss} for loss in losses]
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
    for size in (2**61, -(2**61), 2**62):
        noisy = draft.plan._noisy(1, np.full(draft.plan._shape, size))
        limit = 2.0 ** (60 - draft.plan._noise.lift)
        assert np.allclose(noisy, np.sign(size) * limit, rtol=1e-3)


def test_slopes_of_replaced_rows_are_cut_as_those_of_half_as_many_that_come_and_go():
    X, parts = np.ones((60, 1)), []
    for adjacency, n in (("add_remove", 1000.0), ("replace_one", 2000.0)):
        parts.append(opened(regressor(adjacency=adjacency), X, X[:, 0]).plan._part_of_clip(n))
    assert parts[0] == pytest.approx(parts[1])
