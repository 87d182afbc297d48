"""Owners by digit pairs, a target of other proportions: the data summarization paper on MNIST.

    python examples/papers/summarization_mnist.py --data mnist.npz [--study]
        [--json FILE] [--json-accuracy FILE]

``mnist.npz`` is the file of Keras (x_train, y_train, x_test, y_test). K = 5 owners hold the
training digits 0-1, 3-4, 5-6, 7-8 and 9-2. Three targets from the test digits:

    34    3 and 4 at .7 / .3, a quarter of them: the paper's
    380   741 of the digits 3, 8 and 0
    rare  496 of 3 and 8, where only 300 rows of each are left among the owners' 48,618

Printed per method: MMD^2 to the target and to held-out rows of the same digits, rows accessed,
accuracy on the held-out rows of a linear SVM and of a network of 32 hidden units trained on the
summary, and beside them the paper's rates: the loss of J against greedy choice, bounded by
``1 / (epsilon log p)`` up to constants, and the rows accessed, ``(1 + 3 sqrt(2 ln 1/delta) /
epsilon) p K^(1/3)`` (Theorem 2, Lemma 5).

``--study`` prints the measurement behind the defaults of `parsimony` and `explore`. The paper's
Figure 2 is drawn by `summarization_figure2.py`. ``--json`` stores MMD^2 of 380 and rare to held-out
rows, ``--json-accuracy`` the accuracy of the SVM.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _ask_all import AskAll
from sklearn.metrics import pairwise_distances
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from skdpsumm import (
    PrivacyLeakWarning,
    PrivateMMDSummarizer,
    greedy_mmd_selection,
    mmd2,
    simulation,
)
from skdpsumm.summaries import Pool, Propose, uniform_selection

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
import _results as benchmarks

GROUPS = ((0, 1), (3, 4), (5, 6), (7, 8), (9, 2))
DELTA = 1e-5


class Problem:
    """Owners' rows, a target, held-out rows of the target's kind, and a public gamma."""

    def __init__(self, path: str, target: str, seed: int, n_target: int | None = None):
        with np.load(path) as file:
            X, y, E, e = (file[k] for k in ("x_train", "y_train", "x_test", "y_test"))
        X, E = (images.reshape(len(images), -1).astype(np.float32) / 255 for images in (X, E))
        rng = np.random.default_rng(seed)
        if n_target is not None:  # the study: larger targets than the test digits hold
            E, e, X, y = X[:40000], y[:40000], X[40000:], y[40000:]
        picked, held = _target_rows(target, e, rng, n_target)
        if target == "rare":
            few = [rng.permutation(np.flatnonzero(y == digit))[300:] for digit in (3, 8)]
            keep = np.setdiff1d(np.arange(len(y)), np.concatenate(few))
            X, y = X[keep], y[keep]
        self.X, self.y = X, y
        self.owners = np.array([next(k for k, g in enumerate(GROUPS) if d in g) for d in y])
        self.target, self.held, self.held_labels = E[picked], E[held], e[held]
        # The scale of pixels is public; one sample of public digits gives the median distance.
        public = np.random.default_rng(1).choice(len(X), 500, replace=False)
        self.gamma = float(1 / np.median(pairwise_distances(X[public], metric="sqeuclidean")))

    def score(self, rows):
        """Return MMD^2 to the target and to the held-out rows."""
        return [mmd2(self.X[rows], other, gamma=self.gamma) for other in (self.target, self.held)]

    def accuracies(self, rows):
        """Return the accuracy on the held-out rows of two models trained on the summary."""
        models = LinearSVC(C=0.01), MLPClassifier((32,), max_iter=100, random_state=0)
        return [
            model.fit(self.X[rows], self.y[rows]).score(self.held, self.held_labels)
            for model in models
        ]


def _target_rows(target, labels, rng, n_target):
    if target == "34":
        threes, fours = (rng.permutation(np.flatnonzero(labels == d)) for d in (3, 4))
        pool = rng.permutation(np.concatenate([threes, fours[: round(len(threes) * 3 / 7)]]))
        n = n_target or len(pool) // 4
    else:
        digits = (3, 8, 0) if target == "380" else (3, 8)
        pool = rng.permutation(np.flatnonzero(np.isin(labels, digits)))
        n = n_target or (741 if target == "380" else 496)
    return pool[:n], pool[n : n + 3000]


def select(problem, p, seed, **parameters):
    """Return the chosen rows, and how many the curator saw."""
    common = {"gamma": problem.gamma, "delta": DELTA, "random_state": seed}
    summarizer = PrivateMMDSummarizer(n_select=p, **{**common, **parameters})
    with simulation(seed):
        summarizer.fit(problem.X, X_target=problem.target, owners=problem.owners)
    return summarizer.sample_indices_, summarizer.n_accessed_


def methods(problem, p, epsilon, seed):
    """Yield (name, function that selects)."""
    if epsilon is None:
        greedy = {"gamma": problem.gamma, "random_state": seed}
        rff = {**greedy, "n_components": 1000, "refine": False}
        yield (
            "greedy, exact kernel",
            lambda: (
                greedy_mmd_selection(problem.X, problem.target, p, refine=False, **greedy),
                len(problem.X),
            ),
        )
        yield (
            "greedy, 1000 features",
            lambda: (greedy_mmd_selection(problem.X, problem.target, p, **rff), len(problem.X)),
        )
        yield "uniform", lambda: (uniform_selection(len(problem.X), p, random_state=seed), p)
        yield "pool, parsimony 16", lambda: select(problem, p, seed, protocol="pool")
        yield ("pool, parsimony 6", lambda: select(problem, p, seed, protocol=Pool(parsimony=6)))
        return
    for parsimony in (6, 16):
        yield (
            f"propose, parsimony {parsimony}",
            lambda parsimony=parsimony: select(
                problem, p, seed, epsilon=epsilon, protocol=Propose(parsimony)
            ),
        )
    yield "ask_all", lambda: select(problem, p, seed, protocol=AskAll(), epsilon=epsilon)
    yield (
        "auction, corrected bid",
        lambda: select(problem, p, seed, protocol="auction", epsilon=epsilon, n_components=140),
    )


def table(arguments):
    """Print medians, and return them: {(target, epsilon or None): {name: values}}."""
    medians = {}
    p = arguments.n_select
    head = f"{'':>26}{'MMD^2':>9}{'held out':>9}{'rows':>8}{'SVM':>7}{'MLP':>7}{'sec':>6}"
    for target in arguments.targets:
        greedy_j = {}
        for epsilon in (None, *arguments.epsilons):
            print(f"\ntarget {target}, " + ("no epsilon" if epsilon is None else f"{epsilon=:g}"))
            if epsilon is not None:
                root = math.sqrt(2 * math.log(1 / DELTA))
                rows = (1 + 3 * root / epsilon) * p * len(GROUPS) ** (1 / 3)
                print(
                    f"   (the paper's rates: loss of J about {1 / (epsilon * math.log(p)):.2g}, "
                    f"rows accessed {rows:.3g})"
                )
            print(head + f"{'loss of J':>11}", flush=True)
            results = {}
            for seed in range(arguments.seeds):
                problem = Problem(arguments.data, target, seed)
                for name, run in methods(problem, p, epsilon, seed):
                    if not any(part in name for part in arguments.methods):
                        continue
                    start = time.perf_counter()
                    rows, accessed = run()
                    seconds = time.perf_counter() - start
                    found = problem.score(rows)
                    if name == "greedy, exact kernel":
                        greedy_j[seed] = found[0]
                    loss = found[0] - greedy_j.get(seed, found[0])
                    accuracies = problem.accuracies(rows)
                    results.setdefault(name, []).append(
                        [*found, accessed, *accuracies, seconds, loss]
                    )
            for name, values in results.items():
                m = np.median(values, axis=0)
                medians.setdefault((target, epsilon), {})[name] = m
                print(
                    f"{name:>26}{m[0]:9.5f}{m[1]:9.5f}{m[2]:8.0f}{m[3]:7.3f}{m[4]:7.3f}"
                    f"{m[5]:6.1f}{m[6]:11.5f}",
                    flush=True,
                )
    return medians


OURS, GREEDY, EXACT = "propose, parsimony 16", "greedy, 1000 features", "greedy, exact kernel"


def store(arguments, medians):
    """Store what was asked for of the targets 380 and rare."""
    private = {key: found for key, found in medians.items() if key[1] is not None}
    names = {(t, e): f"{'' if t == '380' else t + ', '}{e:g}" for t, e in private}
    about = (
        "60,000 rows of 5 owners, 741 unlabelled rows of 3, 8 and 0 as the target, delta = "
        f"{DELTA:g}; median, number of seeds: {arguments.seeds}."
    )
    if "rare" in arguments.targets:
        about += ' "Rare" is a target of 496 rows of 3 and 8, with 300 of each left among 48,618.'
    if arguments.json:
        columns = [EXACT, GREEDY, "uniform"]
        rows = [
            [
                names[target, e],
                *(
                    round(1e4 * m[1], 1)
                    for m in (
                        found[OURS],
                        *(medians[target, None][c] for c in columns),
                        found["auction, corrected bid"],
                    )
                ),
            ]
            for (target, e), found in private.items()
        ]
        seconds = np.median([found[OURS][5] for found in private.values()])
        benchmarks.store(
            arguments.json,
            job="choose",
            title=f"{arguments.n_select} rows of MNIST for a target",
            about="MMD^2 times 10,000 to held-out rows of the target's digits; less is better. "
            f"{about} The curator sees {private[next(iter(private))][OURS][2]:,.0f} rows, and a "
            f"fit takes {seconds:.0f} s. "
            "Greedy sees all rows, without privacy: by the exact kernel, and by 1,000 features. "
            "The auction is the paper's, corrected.",
            columns=["epsilon", "ours", "exact", "greedy", "random", "auction"],
            rows=rows,
        )
    if arguments.json_accuracy:
        targets = list(dict.fromkeys(target for target, _ in private))
        last = max(e for _, e in private)
        rows = [[f"ours, epsilon = {last:g}", *(private[t, last][OURS][3] for t in targets)]]
        rows += [
            [f"{c}, no privacy", *(medians[t, None][c][3] for t in targets)]
            for c in (EXACT, GREEDY)
        ]
        rows += [["uniform", *(medians[t, None]["uniform"][3] for t in targets)]]
        benchmarks.store(
            arguments.json_accuracy,
            job="choose",
            title="A model trained on these rows",
            about="Accuracy, on held-out rows of the target's digits, of a linear SVM trained on "
            f"the {arguments.n_select} rows. {about}",
            columns=["rows", *targets],
            rows=[[name, *(round(float(v), 3) for v in values)] for name, *values in rows],
        )


def study(arguments):
    """Print MMD^2 against the number of target rows, for the defaults."""
    p = arguments.n_select
    for target in arguments.targets:
        for epsilon in arguments.epsilons:
            for n_target in (50, 500, 5000):
                for parsimony in (2, 4, 6):
                    cells = []
                    for explore in (0.0, 0.25, 0.5, 0.75, 1.0):
                        values = []
                        for seed in range(arguments.seeds):
                            problem = Problem(arguments.data, target, seed, n_target)
                            rows, _ = select(
                                problem,
                                p,
                                seed,
                                epsilon=epsilon,
                                protocol=Propose(parsimony, explore),
                            )
                            values.append(problem.score(rows))
                        cells.append(np.median(values, axis=0))
                    print(
                        f"{target:>5} epsilon={epsilon:<4g} |D_v|={len(problem.target):<5} "
                        f"parsimony={parsimony}  explore 0, .25, .5, .75, 1:  "
                        + "  ".join(f"{c[0]:.5f}/{c[1]:.5f}" for c in cells),
                        flush=True,
                    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="mnist.npz")
    parser.add_argument("--n-select", type=int, default=500, help="p")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--targets", nargs="+", default=["34", "380", "rare"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=[""], help="parts of their names")
    parser.add_argument("--study", action="store_true")
    benchmarks.add_argument(parser)
    benchmarks.add_argument(parser, "--json-accuracy", "the accuracy")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # seeds: these are simulations
    warnings.filterwarnings("ignore", category=UserWarning, module="sklearn")
    if arguments.study:
        study(arguments)
    else:
        store(arguments, table(arguments))


if __name__ == "__main__":
    main()
