"""Graphical models of noisy marginals, against brute force, least squares and private-pgm."""

from functools import cache
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import chi2

from skdpsumm.sketches import _graphical
from skdpsumm.sketches._graphical import GraphicalModel, JunctionTree, Marginal, Residuals, divided


def joint_of(tree):
    """Return the distribution of all columns, by the product of its conditionals."""
    columns = range(len(tree.sizes))
    joint = np.ones(tree.sizes)
    for i, clique in enumerate(tree.cliques):
        joint = joint * divided(tree.probabilities[i], tree.up[i]).reshape(
            [tree.sizes[a] if a in clique else 1 for a in columns]
        )
    return joint


def summed(joint, group):
    """Return a marginal of an array with an axis for each column, axes in the order of `group`."""
    left = [a for a in range(joint.ndim) if a in group]
    table = joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in group))
    return np.transpose(table, [left.index(a) for a in group])


def a_truth(sizes, rng, n_rows=1000.0, concentration=0.3):
    return n_rows * rng.dirichlet(np.full(np.prod(sizes), concentration)).reshape(sizes)


def measured(truth, groups, rng, std=10.0, **others):
    """Return noisy marginals of a table of counts."""
    found = []
    for group in groups:
        counts = summed(truth, group)
        counts = counts + std * rng.standard_normal(counts.shape)
        found.append(Marginal(group, counts, std, **others))
    return found


def brute_force(model, possible=None):
    """Minimise what `GraphicalModel` says that it minimises over all cells: Newton's method."""
    cells = np.eye(int(np.prod(model.sizes)))
    if possible is not None:
        cells = cells[possible.ravel()]
    tables = cells.reshape(-1, *model.sizes)
    rows, told = [], []
    for target in model.targets:
        seen = np.stack([target.summed(summed(t, target.group)).ravel() for t in tables], axis=1)
        rows.append(seen / target.noise.ravel()[:, None])
        told.append((target.share / target.noise).ravel())
    rows, told, n = np.concatenate(rows), np.concatenate(told), len(cells)

    def loss(p):
        return np.sum((rows @ p - told) ** 2) / 2 + model.alpha * np.sum(xlogy(p, p))

    p, system = np.full(n, 1 / n), np.ones((n + 1, n + 1))
    for _ in range(400):
        slope = rows.T @ (rows @ p - told) + model.alpha * (np.log(p) + 1)
        system[:n, :n] = rows.T @ rows + np.diag(model.alpha / p)
        system[n, n] = 0
        scale = np.append(np.sqrt(p / model.alpha), 1.0)  # or it is singular
        solved = np.linalg.solve(scale[:, None] * system * scale, scale * np.append(-slope, 0))
        step = (scale * solved)[:n]
        length = min(1.0, 0.95 / max(np.max(-step / p), 1e-300))
        while length > 1e-10 and loss(p + length * step) > loss(p):
            length /= 2
        p = p + length * step
        if np.abs(step).sum() < 1e-9:
            break
    return (p @ cells).reshape(model.sizes)


def assert_solves(model, expected, *, within_noise=0.1):
    """Assert that the model's marginals are those expected, up to a part of the noise."""
    for target in model.targets:
        found = target.summed(model.marginal(target.group))
        missed = (found - target.summed(summed(expected, target.group))) / target.noise
        assert np.max(np.abs(missed)) < within_noise, (target.group, missed)
    assert 0.5 * np.abs(joint_of(model.tree) - expected).sum() < 0.02


PROBLEMS = [
    ((3, 4, 2), [(0, 1), (1, 2), (0, 2)]),
    ((3, 4, 2, 3), [(0, 1), (1, 2), (2, 3)]),
    ((2, 3, 2, 3), [(0, 1), (1, 2), (2, 3), (0, 3), (1,)]),
    ((3, 2, 3, 2), [(2, 0), (1, 3)]),
    ((2, 3, 4), [(0, 1, 2), (2,), (1, 0)]),
    ((3, 1, 4), [(0, 1), (2, 1), (0, 2)]),
    ((5,), [(0,)]),
]


@pytest.mark.parametrize("std", [3.0, 30.0])
@pytest.mark.parametrize(("sizes", "groups"), PROBLEMS)
def test_fit_solves_the_stated_problem(sizes, groups, std):
    rng = np.random.default_rng(0)
    marginals = measured(a_truth(sizes, rng), groups, rng, std)
    model = GraphicalModel(sizes).fit(marginals)
    assert model.left_out == []
    assert_solves(model, brute_force(model))


def test_other_noise_for_each_group_and_cell():
    rng, sizes = np.random.default_rng(1), (3, 4, 2)
    truth = a_truth(sizes, rng)
    marginals = [
        *measured(truth, [(1, 0)], rng, 5.0),
        *measured(truth, [(0, 1)], rng, 20.0),  # the same group, counted once more
        *measured(truth, [(2, 1)], rng, np.array([[1.0], [30.0]])),
        *measured(truth, [(0,)], rng, np.array([1.0, 5.0, 60.0])),
    ]
    model = GraphicalModel(sizes).fit(marginals)
    assert [t.group for t in model.targets if t.counted] == [(0, 1), (1, 2), (0,)]
    assert_solves(model, brute_force(model))
    pooled = 1 / np.sqrt(1 / 5.0**2 + 1 / 20.0**2)
    np.testing.assert_allclose(model.targets[0].noise * model.n_rows, pooled)


def test_counts_without_noise_are_fitted_exactly():
    rng = np.random.default_rng(3)
    sizes = (3, 4, 2, 3)
    truth = a_truth(sizes, rng)
    groups = [(0, 1), (1, 2), (2, 3)]
    model = GraphicalModel(sizes).fit(measured(truth, groups, rng, 0.0))
    for group in groups:
        np.testing.assert_allclose(model.marginal(group), summed(truth, group) / 1000, atol=1e-5)
    # The chain's maximum-entropy distribution is known.
    ab, b, bc = (summed(truth, g) for g in ((0, 1), (1,), (1, 2)))
    expected = (ab / b).dot(bc) / truth.sum()
    np.testing.assert_allclose(model.marginal((0, 2)), expected, atol=1e-5)
    np.testing.assert_allclose(model.n_rows, truth.sum())


def test_zeros_stay_zero_and_the_rest_is_solved():
    rng, sizes = np.random.default_rng(5), (3, 4, 2)
    possible = np.ones((4, 3), bool)
    possible[0, 0] = possible[3, 1] = possible[3, 2] = False
    truth = a_truth(sizes, rng) * possible.T[:, :, None]
    marginals = measured(truth, [(0, 1), (1, 2), (0, 2)], rng)
    # Noise claims that somebody is where nobody can be.
    marginals[0].counts[0, 0] = 50
    model = GraphicalModel(sizes, zeros=[((1, 0), possible)]).fit(marginals, sweeps=100)
    assert np.all(model.marginal((1, 0))[~possible] == 0)
    assert np.all(model.tree.draw(20000, rng)[:, 1::-1] @ [3, 1] != 0)
    codes = model.tree.draw(20000, rng)
    assert np.all(possible[codes[:, 1], codes[:, 0]])
    assert_solves(model, brute_force(model, np.broadcast_to(possible.T[:, :, None], sizes)))


@pytest.mark.parametrize("level", [0.0, -50.0, -1e6, 1e-3, 3.0])
@pytest.mark.parametrize("std", [1e-9, 1.0, 1e4])
def test_drowned_totals_give_a_distribution(level, std):
    rng = np.random.default_rng(7)
    sizes = (3, 4, 1)
    marginals = [
        Marginal(group, rng.normal(level, std, [sizes[a] for a in group]), std)
        for group in ((0, 1), (1,), (2,))
    ]
    with np.errstate(all="raise", under="ignore"):
        model = GraphicalModel(sizes).fit(marginals)
        replicate = model.copy_with(marginals)
    for fitted in (model, replicate):
        joint = joint_of(fitted.tree)
        assert np.all(joint >= 0)
        np.testing.assert_allclose(joint.sum(), 1)
        assert fitted.n_rows >= 1


def test_coarse_counts():
    rng = np.random.default_rng(10)
    sizes = (6, 4, 2)
    truth = a_truth(sizes, rng)
    halves = np.array([0, 0, 1, 0, 1, 2])
    table = np.zeros((4, 3))
    np.add.at(table.T, halves, summed(truth, (0, 1)))
    marginals = [
        *measured(truth, [(0,), (1, 2)], rng),
        Marginal((1, 0), table + 10 * rng.standard_normal((4, 3)), 10.0, coarse={0: halves}),
    ]
    model = GraphicalModel(sizes).fit(marginals, sweeps=2000)
    assert sum(t.counted for t in model.targets) == 3
    assert model.left_out == []
    assert_solves(model, brute_force(model))
    found = model.marginal((1, 0)) @ (halves[:, None] == np.arange(3))
    assert 0.5 * np.abs(found - table / 1000).sum() < 0.1
    # Residuals take its total alone.
    assert not model.residuals.covers((0, 1))
    totals = [m.counts.sum() for m in marginals]
    np.testing.assert_allclose(model.n_rows, np.average(totals, weights=[1 / 6, 1 / 8, 1 / 12]))


# ---- trees


def random_tree(d, n_groups, rng, largest=5):
    sizes = tuple(int(n) for n in rng.integers(1, largest, d))
    pairs = list(combinations(range(d), 2))
    groups = [pairs[k] for k in rng.choice(len(pairs), n_groups, replace=False)]
    tree = JunctionTree(sizes, groups)
    tree.calibrate([rng.normal(0, 1.5, shape) for shape in tree.shapes])
    return tree, groups


@pytest.mark.parametrize("seed", range(5))
def test_marginals_of_a_tree_are_sums_of_its_product(seed):
    rng = np.random.default_rng(seed)
    tree, groups = random_tree(6, 4 + seed % 5, rng)
    joint = joint_of(tree)
    np.testing.assert_allclose(joint.sum(), 1)
    for clique, probabilities in zip(tree.cliques, tree.probabilities, strict=True):
        np.testing.assert_allclose(probabilities, summed(joint, clique), atol=1e-14)
    for group in groups:
        assert tree.host(group) is not None
    asked = [g for k in (1, 2, 3, 4) for g in combinations(range(6), k)]
    asked += [tuple(rng.permutation(g).tolist()) for g in asked]
    together = tree.marginals(asked)
    for group in asked:
        np.testing.assert_allclose(tree.marginal(group), summed(joint, group), atol=1e-14)
        np.testing.assert_allclose(together[group], summed(joint, group), atol=1e-14)


def test_draws_follow_the_tree():
    rng = np.random.default_rng(23)
    tree, _ = random_tree(6, 7, rng)
    n = 200_000
    codes = tree.draw(n, rng)
    for group in combinations(range(6), 3):
        expected = tree.marginal(group).ravel() * n
        shape = [tree.sizes[a] for a in group]
        found = np.bincount(np.ravel_multi_index(codes[:, group].T, shape), minlength=len(expected))
        assert np.all(found[expected == 0] == 0)
        kept = expected > 5
        statistic = np.sum((found - expected)[kept] ** 2 / expected[kept])
        # Stratified rows are nearer to what is expected than independent ones.
        assert statistic < chi2.ppf(1 - 1e-4, max(kept.sum() - 1, 1))
    for clique, probabilities in zip(tree.cliques, tree.probabilities, strict=True):
        found = np.zeros(probabilities.shape)
        np.add.at(found, tuple(codes[:, a] for a in clique), 1)
        if clique == tree.cliques[0]:
            assert np.max(np.abs(found - probabilities * n)) <= 2
        # Independent rows miss a cell by sqrt(n p).
        independent = np.sqrt(n * probabilities * (1 - probabilities)).sum()
        assert np.abs(found - probabilities * n).sum() < 0.5 * independent


# ---- warm starts


# ---- what the tree does not hold


SIX = (5, 6, 4, 5, 6, 4)


@cache
def pairs_of_six(n_rows):
    """Return the shares of the pairs of six columns that depend on each other."""
    rng = np.random.default_rng(40)
    rows = rng.normal(size=(n_rows, 6)) @ (rng.normal(size=(6, 6)) / 2 + np.eye(6))
    codes = np.clip(((rows + 3) / 6 * SIX).astype(int), 0, np.array(SIX) - 1)
    found = {}
    for pair in combinations(range(6), 2):
        found[pair] = np.zeros([SIX[a] for a in pair])
        np.add.at(found[pair], tuple(codes[:, pair].T), 1 / n_rows)
    return found


def the_rest(seed=0, n_rows=20_000, std=30.0, zeros=()):
    """Return a model whose tree leaves some pairs out, the truth and the counts."""
    rng = np.random.default_rng(seed)
    truth = pairs_of_six(n_rows)
    noisy = {pair: p * n_rows + std * rng.standard_normal(p.shape) for pair, p in truth.items()}
    marginals = [Marginal(pair, counts, std) for pair, counts in noisy.items()]
    with mock.patch.object(_graphical, "MOST_CELLS_OF_TREE", 2000):
        model = GraphicalModel(SIX, zeros=zeros).fit(marginals)
    assert 3 <= len(model.left_out) <= 12
    return model, truth, marginals


def projected(counts):
    """Return the distribution nearest to counts."""
    shares = counts.ravel() / counts.sum()
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    return np.maximum(shares - excess[falling > excess][-1], 0).reshape(counts.shape)


def distance(p, q):
    return 0.5 * np.abs(p - q).sum()


@pytest.mark.parametrize("std", [100.0, 5.0])
def test_tables_of_what_was_counted_are_as_good_as_its_counts(std):
    missed = {True: [], False: []}
    for seed in range(8):
        model, truth, marginals = the_rest(seed, std=std)
        for m in marginals:
            own = min(
                distance(projected(m.counts), truth[m.columns]),
                distance(np.maximum(m.counts, 0) / np.maximum(m.counts, 0).sum(), truth[m.columns]),
            )
            table = model.table(m.columns)
            np.testing.assert_allclose(table.sum(), 1)
            missed[m.columns in model.left_out].append((distance(table, truth[m.columns]), own))
    for those in missed.values():
        ours, theirs = np.mean(those, axis=0)
        assert ours < 1.02 * theirs
    # Where there is little noise the tree alone is far off.
    if std < 20:
        tree = np.mean([distance(model.marginal(g), truth[g]) for g in model.left_out])
        ours = np.mean([distance(model.table(g), truth[g]) for g in model.left_out])
        assert ours < 0.5 * tree


def test_tables_keep_public_zeros():
    possible = np.ones((6, 5), bool)
    possible[5, 0] = possible[0, 4] = False
    never = np.ones((6,), bool)
    never[2] = False
    model, _, _ = the_rest(zeros=[((1, 0), possible), ((4,), never)])
    for group in [(0, 4), (4, 1), (0, 4, 1), *model.left_out]:
        table = model.table(group)
        if 4 in group:
            assert np.all(np.moveaxis(table, group.index(4), 0)[2] == 0)
        if {0, 1} <= set(group):
            pair = table.sum(axis=tuple(k for k, a in enumerate(group) if a > 1))
            pair = pair if group.index(0) < group.index(1) else pair.T
            assert np.all(pair[~possible.T] == 0)


def test_raking_that_overflows_keeps_its_best_weights():
    model, grown = the_rest()[0], (np.array([1.0, 1e200, 1e200]), 1.0)
    with mock.patch.object(_graphical, "fit_factors", return_value=grown):
        assert np.all(np.isfinite(model.rake(np.zeros((3, 6), int))))


def test_margins_do_not_pay_for_cells_that_cannot_be_negative():
    # Most cells are empty: what noise takes below zero adds up.
    rng = np.random.default_rng(45)
    truth = np.zeros((20, 20))
    truth[np.arange(20), np.arange(20)] = 500
    found = []
    for _ in range(20):
        noisy = Marginal((0, 1), truth + rng.normal(0, 30, truth.shape), 30.0)
        model = GraphicalModel((20, 20)).fit([noisy])
        # Of one cell of a column, in standard errors of 20 cells.
        missed = (model.marginal((0,)) - 1 / 20) * model.n_rows / (30 * np.sqrt(20))
        found.append(missed)
    assert np.sqrt(np.mean(np.square(found))) < 1.1
    assert model.residuals.cell_variances((0,)) == pytest.approx(20 * 30**2)


# ---- residuals


def least_squares(sizes, marginals):
    """Return the linear estimate of all cells, its matrix of all noisy counts, and their noise."""
    cells = np.eye(int(np.prod(sizes)))
    rows, counts, std = [], [], []
    for m in marginals:
        design = np.stack([summed(cell.reshape(sizes), m.columns).ravel() for cell in cells], 1)
        noise = np.broadcast_to(m.std, m.shape).ravel()
        rows.append(design / noise[:, None])
        counts.append(m.counts.ravel() / noise)
        std.append(noise)
    design = np.concatenate(rows)
    best = np.linalg.lstsq(design, np.concatenate(counts), rcond=1e-10)[0]
    return best.reshape(sizes), np.linalg.pinv(design.T @ design, rcond=1e-10)


RESIDUAL_PROBLEMS = [[(0, 1), (1, 2), (0, 2), (1,)], [(2, 0), (1,), (1,), (0, 2)]]
RESIDUAL_PROBLEMS += [[(0, 1, 2), (2, 1), (0,)], [(0,), (1,)]]


@pytest.mark.parametrize("groups", RESIDUAL_PROBLEMS)
def test_residuals_are_generalised_least_squares(groups):
    rng = np.random.default_rng(30)
    sizes = (3, 4, 2)
    truth = a_truth(sizes, rng)
    marginals = [measured(truth, [g], rng, 3.0 + 4 * k)[0] for k, g in enumerate(groups)]
    residuals = Residuals(sizes, marginals)
    best, covariance = least_squares(sizes, marginals)
    np.testing.assert_allclose(residuals.n_rows, best.sum())
    for group in groups:
        np.testing.assert_allclose(residuals.marginal(group), summed(best, group), atol=1e-8)
        ordered = tuple(sorted(group))
        cells = np.eye(len(covariance)).reshape(-1, *sizes)
        wide = np.stack([summed(cell, ordered).ravel() for cell in cells])
        found = residuals.cell_variances(ordered).ravel()
        np.testing.assert_allclose(found, np.diag(wide.T @ covariance @ wide))


# ---- private-pgm: `mbi` of the extra `bench`
