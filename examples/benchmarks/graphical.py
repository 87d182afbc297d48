"""Graphical models of noisy marginals: what the tree cannot hold, and what a fit costs.

    python examples/benchmarks/graphical.py --covertype FILE [--epsilons 0.3 1 3] [--seeds 3]
        [--quick]

FILE is an npz of UCI's Covertype with X (n, 54), whose first ten columns are numbers, and y in
1..7. The ten columns in 16 equal bins and the class have 55 pairs; all are counted, with Gaussian
noise for epsilon at delta = 1e-6 together. A tree of a million cells holds half of them.

First table: mean total variation of the pairs (of all, and of those that the tree left out), and
of the triples with the class, of

    counts      each pair's own counts, projected to the simplex: no joint distribution
    tree        the tree
    two trees   a mixture with a second tree, which takes in first what the first left out
    drawn       rows drawn from the tree
    raked       the same rows, with weights that match all counts (`GraphicalModel.rake`)
    both raked  half of the rows from either tree, with such weights
    table       `GraphicalModel.table` of each pair, tree and counts together

with the rows, and seconds of processor time beyond the first tree's.

Second table: seconds of processor time of a fit, a refit as the bootstrap does it, the tables of
all pairs and 100,000 rows, for random tables.

Means of two seeds (2026-11):

    epsilon  way          rows     pairs  left out  triples      s
    0.3      counts                0.1050     0.1006
             tree                  0.0760     0.0750    0.1293
             two trees             0.0903     0.0713    0.1590    0.44
             raked        20,000   0.0644     0.0529    0.1216    0.17
             raked        50,000   0.0633     0.0513    0.1143    0.29
             raked       100,000   0.0629     0.0509    0.1116    0.49
             both raked  100,000   0.0657     0.0531    0.1164    0.44
             table                 0.0629     0.0485             0.12
    1        counts                0.0391     0.0377
             tree                  0.0428     0.0543    0.0890
             two trees             0.0654     0.0506    0.1317    0.45
             raked        20,000   0.0286     0.0259    0.0855    0.26
             raked        50,000   0.0275     0.0245    0.0750    0.42
             raked       100,000   0.0272     0.0240    0.0702    0.71
             both raked  100,000   0.0283     0.0245    0.0739    0.72
             table                 0.0271     0.0224             0.12
    3        counts                0.0154     0.0150
             tree                  0.0299     0.0468    0.0753
             two trees             0.0565     0.0435    0.1227    0.47
             raked        20,000   0.0140     0.0133    0.0788    0.25
             raked        50,000   0.0124     0.0116    0.0628    0.42
             raked       100,000   0.0122     0.0112    0.0566    0.71
             both raked  100,000   0.0126     0.0114    0.0614    0.71
             table                 0.0121     0.0105             0.12

Weights on rows of one tree win at any number of rows. A second tree knows less of the pairs of the
first than the first does, and mixing the two, or their rows, makes everything worse. Messages on a
graph with loops would give tables, which `table` has already, and no rows.
"""

import argparse
import time
from itertools import combinations

import numpy as np

from skdpsumm.privacy import gdp_mu
from skdpsumm.sketches._graphical import GraphicalModel, Marginal

N_BINS = 16


def covertype(path):
    """Return codes and numbers of cells."""
    data = np.load(path)
    numbers = data["X"][:, :10].astype(float)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    codes = np.minimum((numbers - low) / (high - low) * N_BINS, N_BINS - 1).astype(int)
    return np.column_stack([codes, data["y"].astype(int) - 1]), [N_BINS] * 10 + [7]


def table_of(codes, sizes, group, weights=None):
    """Return the shares of the rows in the cells of a group."""
    shape = [sizes[a] for a in group]
    place = np.ravel_multi_index(codes[:, list(group)].T, shape)
    weights = np.full(len(codes), 1 / len(codes)) if weights is None else weights
    return np.bincount(place, weights, np.prod(shape)).reshape(shape)


def release(codes, sizes, groups, epsilon, rng):
    """Return noisy counts of all groups, at one cost."""
    std = np.sqrt(len(groups)) / gdp_mu(epsilon, 1e-6)
    found = []
    for group in groups:
        counts = len(codes) * table_of(codes, sizes, group)
        found.append(Marginal(group, counts + std * rng.standard_normal(counts.shape), std))
    return found


def projected(counts):
    """Return the distribution nearest to counts."""
    shares = counts.ravel() / counts.sum()
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    return np.maximum(shares - excess[falling > excess][-1], 0).reshape(counts.shape)


def distance(truth, found):
    """Return the mean total variation of tables that were found."""
    those = [0.5 * np.abs(truth[g] - p).sum() for g, p in found.items() if g in truth]
    return np.mean(those) if those else np.nan


class Comparison:
    """Ways to use all pairs, on one release."""

    def __init__(self, codes, sizes, epsilon, seed):
        self.codes, self.sizes = codes, sizes
        d = len(sizes)
        self.pairs = list(combinations(range(d), 2))
        self.triples = [(a, b, d - 1) for a, b in combinations(range(d - 1), 2)]
        self.truth = {g: table_of(codes, sizes, g) for g in self.pairs + self.triples}
        self.rng = np.random.default_rng(seed)
        self.marginals = release(codes, sizes, self.pairs, epsilon, self.rng)
        self.model = GraphicalModel(sizes).fit(self.marginals)

    def score(self, found):
        """Return the three distances."""
        pairs = {g: p for g, p in found.items() if len(g) == 2}
        triples = {g: p for g, p in found.items() if len(g) == 3}
        left = {g: pairs[g] for g in self.model.left_out}
        return [distance(self.truth, those) for those in (pairs, left, triples)]

    def of_model(self, model):
        """Return what a tree says."""
        return model.marginals(self.pairs) | {g: model.marginal(g) for g in self.triples}

    def of_rows(self, codes, weights=None):
        """Return what rows say."""
        return {g: table_of(codes, self.sizes, g, weights) for g in self.pairs + self.triples}

    def ways(self, n_rows):
        """Yield name, number of rows, seconds and tables of each way."""
        yield "counts", 0, 0.0, {m.columns: projected(m.counts) for m in self.marginals}
        one = self.of_model(self.model)
        yield "tree", 0, 0.0, one
        start = time.process_time()
        yield "table", 0, start, {g: self.model.table(g) for g in self.pairs}
        start = time.process_time()
        left = set(self.model.left_out)
        turned = sorted(self.marginals, key=lambda m: m.columns not in left)
        second = GraphicalModel(self.sizes).fit(turned)
        two = self.of_model(second)
        yield "two trees", 0, start, {g: (one[g] + two[g]) / 2 for g in one}
        for n in n_rows:
            rows = self.model.tree.draw(n, self.rng)
            yield "drawn", n, 0.0, self.of_rows(rows)
            start = time.process_time()
            yield "raked", n, start, self.of_rows(rows, self.model.rake(rows))
            both = np.concatenate([rows[: n // 2], second.tree.draw(n // 2, self.rng)])
            start = time.process_time()
            yield "both raked", n, start, self.of_rows(both, self.model.rake(both))


def compare(path, epsilons, n_seeds, n_rows):
    codes, sizes = covertype(path)
    print(f"{'epsilon':>8}{'way':>12}{'rows':>9}{'pairs':>8}{'left out':>10}{'triples':>9}{'s':>7}")
    for epsilon in epsilons:
        found = {}
        for seed in range(n_seeds):
            comparison = Comparison(codes, sizes, epsilon, seed)
            for name, n, start, tables in comparison.ways(n_rows):
                spent = time.process_time() - start if start else 0.0
                found.setdefault((name, n), []).append([*comparison.score(tables), spent])
        for (name, n), those in found.items():
            pairs, left, triples, spent = np.mean(those, axis=0)
            print(
                f"{epsilon:>8g}{name:>12}{n or '':>9}{pairs:>8.4f}{left:>10.4f}{triples:>9.4f}"
                f"{spent:>7.2f}",
                flush=True,
            )


def random_table(d, n_pairs, rng, n_rows=40_000):
    """Return sizes and noisy counts of all columns and of some pairs of a table."""
    sizes = rng.integers(8, 20, d).tolist()
    hidden = rng.normal(size=(n_rows, 3))
    numbers = hidden @ rng.normal(size=(3, d)) * 0.6 + rng.normal(size=(n_rows, d))
    codes = np.clip((numbers / 6 + 0.5) * sizes, 0, np.array(sizes) - 1).astype(int)
    pairs = list(combinations(range(d), 2))
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:n_pairs]]
    groups = [(a,) for a in range(d)] + chosen
    return sizes, release(codes, sizes, groups, 1.0, rng)


def timed(act):
    start = time.process_time()
    result = act()
    return time.process_time() - start, result


def times():
    print(
        f"\n{'columns':>8}{'pairs':>7}{'cells':>10}{'left out':>10}{'fit':>7}{'refit':>7}"
        f"{'all pairs':>11}{'draw':>7}"
    )
    for d, n_pairs in ((14, 16), (14, 45), (30, 60), (50, 100)):
        rng = np.random.default_rng(0)
        sizes, marginals = random_table(d, n_pairs, rng)
        fit, model = timed(lambda s=sizes, m=marginals: GraphicalModel(s).fit(m))
        refit, _ = timed(lambda m=model, y=marginals: m.copy_with(y))
        tables, _ = timed(lambda m=model, d=d: m.marginals(combinations(range(d), 2)))
        draw, _ = timed(lambda m=model, r=rng: m.tree.draw(100_000, r))
        cells = sum(p.size for p in model.tree.probabilities)
        print(
            f"{d:>8}{n_pairs:>7}{cells:>10,}{len(model.left_out):>10}{fit:>7.2f}{refit:>7.2f}"
            f"{tables:>11.2f}{draw:>7.2f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--covertype", required=True, help="npz with X and y")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="20,000 rows and no times")
    options = parser.parse_args()
    n_rows = (20_000,) if options.quick else (20_000, 50_000, 100_000)
    compare(options.covertype, options.epsilons, options.seeds, n_rows)
    if not options.quick:
        times()
