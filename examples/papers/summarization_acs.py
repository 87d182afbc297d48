"""Owners of unequal kinds and sizes: states of the census, and 50 owners of MNIST.

    python examples/papers/summarization_acs.py [--data ACS.csv.gz] [--mnist mnist.npz]

``ACS.csv.gz`` has the columns ST, AGEP, COW, SCHL, MAR, OCCP, RELP, WKHP, SEX, RAC1P and label
(income above 50,000 dollars) of ACS PUMS 2018, 1,000 rows for each of 38 states. ``mnist.npz`` is
the file of Keras. Cases, each run where its file is given:

    acs   the target is 400 rows of Connecticut, held out are its other 600, and the owners are the
          other 37 states. Numbers are scaled by public constants, see `NUMBERS`; categories, whose
          lists are public, become one column each, .7 or 0
    many  K = 50 owners of lognormal sizes with Dirichlet(.3) proportions of the digits; the target
          is 500 test rows of 3 and 8, held out are 1,000
    rare  the same, with only 300 rows of each of 3 and 8 left among all owners

Printed per method: MMD^2 to the target and to the held-out rows, rows accessed, accuracy on the
held-out rows of logistic regression trained on the summary, seconds; medians over seeds, each of
which draws another target, and other owners. Shares of the rows asked for: equal, in proportion to
the owners' sizes, which then are public, or to the roots of the sizes. In "acs" all sizes are
equal, and so all shares are.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances

from skdpsumm import PrivacyLeakWarning, PrivateMMDSummarizer, greedy_mmd_selection, mmd2
from skdpsumm.summaries import Pool, Propose, uniform_selection

DELTA = 1e-5
TARGET_STATE = "CT"
# Centre and scale of age, schooling code and hours per week: round numbers for people at work, not
# read off the rows.
NUMBERS = {"AGEP": (43, 15), "SCHL": (18, 4), "WKHP": (38, 13)}
# Codes of the questionnaire, MAR and RAC1P as merged in the file.
CATEGORIES = {
    "COW": range(1, 9),
    "MAR": range(1, 3),
    "RELP": range(18),
    "SEX": range(1, 3),
    "RAC1P": range(1, 6),
    "OCCP": range(20),  # of 500 codes each
}


class Problem:
    """Owners' rows with labels, a target, held-out rows of the target's kind, a public gamma."""

    def __init__(self, X, y, owners, target, held, held_labels):
        self.X, self.y, self.owners = X, y, owners
        self.target, self.held, self.held_labels = target, held, held_labels
        public = np.random.default_rng(1).choice(len(X), 500, replace=False)
        self.gamma = float(1 / np.median(pairwise_distances(X[public], metric="sqeuclidean")))
        names, sizes = np.unique(owners, return_counts=True)
        self.sizes = dict(zip(names.tolist(), sizes.tolist(), strict=True))

    def shares(self, power):
        """Return public shares, in proportion to a power of the sizes."""
        return {name: float(size) ** power for name, size in self.sizes.items()}

    def score(self, rows):
        """Return MMD^2 to the target and the held-out rows, and the accuracy on the latter."""
        found = [mmd2(self.X[rows], other, gamma=self.gamma) for other in (self.target, self.held)]
        model = LogisticRegression(max_iter=200).fit(self.X[rows], self.y[rows])
        return [*found, model.score(self.held, self.held_labels)]


def acs_problem(path, seed):
    """Return the problem of the states."""
    with gzip.open(path, "rt") as file:
        head, *rows = csv.reader(file)
    table = dict(zip(head, np.array(rows).T, strict=True))
    numbers = [(table[name].astype(float) - m) / s for name, (m, s) in NUMBERS.items()]
    X = [np.stack(numbers, axis=1)]
    for name, codes in CATEGORIES.items():
        column = table[name].astype(int) // (500 if name == "OCCP" else 1)
        X.append(0.7 * (column[:, None] == np.array(codes)))
    X, y, states = np.hstack(X).astype(np.float32), table["label"].astype(int), table["ST"]
    there = np.flatnonzero(states == TARGET_STATE)
    np.random.default_rng(seed).shuffle(there)
    target, held, others = there[:400], there[400:], states != TARGET_STATE
    return Problem(X[others], y[others], states[others], X[target], X[held], y[held])


def mnist_problem(path, seed, rare, n_owners=50):
    """Return the problem of many unequal owners; the prototype's draws, in its order."""
    with np.load(path) as file:
        X, y, E, e = (file[k] for k in ("x_train", "y_train", "x_test", "y_test"))
    X, E = (images.reshape(len(images), -1).astype(np.float32) / 255 for images in (X, E))
    rng = np.random.default_rng(seed)
    picked = rng.permutation(np.flatnonzero(np.isin(e, (3, 8))))
    target, held = picked[:500], picked[500:1500]
    weights = rng.dirichlet(np.full(10, 0.3), n_owners) * rng.lognormal(0, 1.2, (n_owners, 1))
    chances = weights[:, y] / weights[:, y].sum(axis=0)
    owners = (chances.cumsum(axis=0) > rng.random(len(y))).argmax(axis=0)
    if rare:
        few = [rng.permutation(np.flatnonzero(y == digit))[300:] for digit in (3, 8)]
        keep = np.setdiff1d(np.arange(len(y)), np.concatenate(few))
        X, y, owners = X[keep], y[keep], owners[keep]
    return Problem(X, y, owners, E[target], E[held], e[held])


def select(problem, seed, p, power=0.0, **parameters):
    """Return the chosen rows, and how many the curator saw."""
    summarizer = PrivateMMDSummarizer(
        p,
        gamma=problem.gamma,
        delta=DELTA,
        shares=problem.shares(power) if power else None,
        random_state=seed,
        noise_seed=seed,
        **parameters,
    )
    summarizer.fit(problem.X, X_target=problem.target, owners=problem.owners)
    return summarizer.sample_indices_, summarizer.n_accessed_


def greedy(problem, seed, p):
    rows = greedy_mmd_selection(
        problem.X,
        problem.target,
        p,
        gamma=problem.gamma,
        n_components=1000,
        refine=False,
        random_state=seed,
    )
    return rows, len(problem.X)


def methods(arguments, powers):
    """Yield (name, function of problem, seed and p, its keyword arguments)."""
    yield (
        "uniform",
        lambda problem, seed, p: (uniform_selection(len(problem.X), p, random_state=seed), p),
        {},
    )
    yield "greedy, 1000 features", greedy, {}
    for parsimony in arguments.parsimony:
        for share, power in powers.items():
            options = {"protocol": Pool(parsimony), "power": power}
            yield f"pool {parsimony:g}p, {share}", select, options
    for epsilon in arguments.epsilons:
        for parsimony in arguments.parsimony:
            for share, power in powers.items():
                options = {"epsilon": epsilon, "protocol": Propose(parsimony), "power": power}
                yield f"propose {parsimony:g}p, epsilon {epsilon:g}, {share}", select, options


def table(case, problems, arguments):
    """Print one line per method."""
    first = problems[0]
    sizes = list(first.sizes.values())
    quartiles = np.percentile(sizes, [0, 25, 50, 75, 100])
    print(
        f"\n{case}: {len(first.X):,} rows x {first.X.shape[1]}, {len(sizes)} owners, "
        f"quartiles of their sizes {', '.join(f'{q:g}' for q in quartiles)} (first seed)\n"
        f"{len(first.target)} target rows, choose {arguments.n_select}, delta {DELTA:g}, "
        f"gamma {first.gamma:.3g}, medians of {len(problems)} seeds"
    )
    print(f"{'':<34}{'MMD^2':>9}{'held out':>10}{'rows':>8}{'accuracy':>10}{'s':>6}", flush=True)
    powers = {"equal": 0.0}
    if min(sizes) < max(sizes):
        powers |= {"size": 1.0, "sqrt": 0.5}
    for name, run, options in methods(arguments, powers):
        values = []
        for seed, problem in enumerate(problems):
            start = time.perf_counter()
            rows, accessed = run(problem, seed, arguments.n_select, **options)
            seconds = time.perf_counter() - start
            values.append([*problem.score(rows), accessed, seconds])
        target, held, accuracy, accessed, seconds = np.median(values, axis=0)
        print(
            f"{name:<34}{target:>9.5f}{held:>10.5f}{accessed:>8.0f}{accuracy:>10.3f}{seconds:>6.1f}",
            flush=True,
        )


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="acs_income_2018_small_1000_per_state.csv.gz")
    parser.add_argument("--mnist", help="mnist.npz")
    parser.add_argument("--cases", nargs="+", default=["acs", "many", "rare"])
    parser.add_argument("--n-select", type=int, default=300, help="p")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--parsimony", type=float, nargs="+", default=[3.0, 6.0])
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # seeds: these are simulations
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds = range(arguments.seeds)
    if "acs" in arguments.cases and arguments.data:
        table("acs", [acs_problem(arguments.data, seed) for seed in seeds], arguments)
    for case in ("many", "rare"):
        if case in arguments.cases and arguments.mnist:
            problems = [mnist_problem(arguments.mnist, seed, case == "rare") for seed in seeds]
            table(case, problems, arguments)


if __name__ == "__main__":
    main()
