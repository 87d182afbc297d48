"""What the two figures of the data summarization paper share: its algorithm and ours, and scores.

Of the privacy of each (targets against owners, owners' rows against other owners):

    as printed          the auction with the paper's Table 1. Claimed: 1.4 at delta = 0.01 for the
                        target, 0.043 at delta = 1e-4 for owners. True: 3.31, and nothing
    bid corrected       the same noise, and the same guarantee, with the sign of the bid mended
    corrected           everybody is asked in each round, which the paper calls private and
                        wasteful, and all releases are charged: (1, 1e-6) for both
    skdpsumm's default  "propose": (1, 1e-6) for the target, 0 for owners
    on its terms        the same with no more rows than the auction may ask for, K p, and without
                        the bound on the part of the summary that is one owner's, 2.5 / K by default
"""

import warnings
from dataclasses import dataclass

import numpy as np
from _ask_all import AskAll
from _figure import CORRECTED, DEFAULT, PRINTED, legend, panel
from _printed import SUMMARIZATION
from joblib import Parallel, delayed
from sklearn.base import clone

from skdpsumm import PrivateMMDSummarizer, greedy_mmd_selection, mmd2, simulation
from skdpsumm.summaries import Propose

BID = "printed, but its bid corrected"
ON_ITS_TERMS = "default, on the auction's terms"
GREEDY, UNIFORM = "greedy, no privacy", "uniform, p / K rows an owner"
PAPER = SUMMARIZATION


@dataclass
class Problem:
    """Rows, labels and owners; the target D_v; held-out rows of its kind; the public D_init."""

    X: np.ndarray
    y: np.ndarray
    owners: np.ndarray
    target: np.ndarray
    held: np.ndarray
    held_labels: np.ndarray
    seed_rows: np.ndarray

    def score(self, rows, learner):
        """Return MMD^2 of these rows to the target, and the accuracy of what they teach."""
        model = learner.fit(self.X[rows], self.y[rows])
        distance = mmd2(self.X[rows], self.target, gamma=PAPER["gamma"])
        return distance, model.score(self.held, self.held_labels)


def algorithms(problem, p):
    """Return a summarizer for each curve. All have the paper's kernel."""

    def auction(bid):
        public = {"X_seed": problem.seed_rows, "n_target": len(problem.target)}
        protocol = clone(PAPER["protocol"]).set_params(bid=bid, **public)
        return PrivateMMDSummarizer(n_select=p).set_params(**PAPER | {"protocol": protocol})

    def ours(**parameters):
        return PrivateMMDSummarizer(n_select=p, gamma=PAPER["gamma"], **parameters)

    n_owners = len(np.unique(problem.owners))
    return {
        PRINTED: auction("printed"),
        BID: auction("corrected"),
        CORRECTED: ours(protocol=AskAll(max_share_per_owner=1.0)),
        DEFAULT: ours(),
        ON_ITS_TERMS: ours(protocol=Propose(parsimony=n_owners, max_share_per_owner=1.0)),
    }


def uniform(owners, p, seed):
    """Return p / K rows of each owner at random, as in the paper."""
    rng = np.random.default_rng(seed)
    places = [np.flatnonzero(owners == name) for name in np.unique(owners)]
    counts = [len(part) for part in np.array_split(np.arange(p), len(places))]
    drawn = [rng.choice(rows, n, replace=False) for rows, n in zip(places, counts, strict=True)]
    return np.concatenate(drawn)


def measure(make_problem, learner, sizes, seed):
    """Return MMD^2, accuracy and rows accessed of one seed, per curve of shape (3, n_sizes)."""
    warnings.simplefilter("ignore")  # here, too: this may be a process of its own
    problem = make_problem(seed)
    kernel = {"gamma": PAPER["gamma"], "n_components": PAPER["n_components"]}
    greedy = greedy_mmd_selection(
        problem.X, problem.target, max(sizes), refine=False, random_state=seed, **kernel
    )  # the first p of them are the greedy choice of p
    found = {}
    for p in sizes:
        everything = len(problem.X)
        chosen = {GREEDY: (greedy[:p], everything), UNIFORM: (uniform(problem.owners, p, seed), p)}
        for name, summarizer in algorithms(problem, p).items():
            summarizer.set_params(random_state=seed)
            with simulation(seed):
                summarizer.fit(problem.X, X_target=problem.target, owners=problem.owners)
            chosen[name] = summarizer.sample_indices_, summarizer.n_accessed_
        for name, (rows, accessed) in chosen.items():
            found.setdefault(name, []).append([*problem.score(rows, learner), accessed])
    return {name: np.array(values, dtype=float).T for name, values in found.items()}


def guarantees(problem):
    """Return the true guarantee of each curve, as words. None of them depends on p."""
    found = {}
    for name, summarizer in algorithms(problem, 10).items():
        with simulation(0):
            summarizer.fit(problem.X, X_target=problem.target, owners=problem.owners)
        of_target, of_owners = summarizer.privacy_.target, summarizer.privacy_.owners
        deltas = (0.01, 1e-4) if name in (PRINTED, BID) else (1e-6, 1e-6)
        found[name] = (
            f"target: epsilon = {of_target.epsilon(deltas[0]):.3g} at delta = {deltas[0]:g}; "
            f"owners: epsilon = {of_owners.epsilon(deltas[1]):.3g} at delta = {deltas[1]:g}"
        )
    return found


def draw(axes, make_problem, learner, sizes, args):
    """Draw the paper's two panels, and return the numbers: per cent over greedy, and accuracy."""
    runs = Parallel(n_jobs=args.jobs)(
        delayed(measure)(make_problem, learner, sizes, seed) for seed in range(args.seeds)
    )
    distances, accuracies, accessed = (
        {name: np.stack([run[name][k] for run in runs], axis=1) for name in runs[0]}
        for k in range(3)
    )
    over = {name: 100 * (found / distances[GREEDY] - 1) for name, found in distances.items()}
    names = list(algorithms(make_problem(0), 1))
    numbers = {
        "MMD^2 over greedy, per cent": _panel(axes[0], sizes, over, names),
        "accuracy": _panel(axes[1], sizes, accuracies, names),
        "MMD^2": {name: np.median(found, axis=1) for name, found in distances.items()},
        "rows accessed": {name: np.median(found, axis=1) for name, found in accessed.items()},
        "guarantees": guarantees(make_problem(0)),
    }
    return numbers


def _panel(ax, sizes, found, names):
    curves = {name: found[name] for name in names}
    return panel(ax, sizes, curves, {name: found[name] for name in (GREEDY, UNIFORM)})


def finish(fig, axes):
    """Label the axes as the paper's are, and put the legend below."""
    for ax in axes[0]:
        ax.set_yscale("symlog", linthresh=10)
    axes[0, 0].set_ylabel("MMD² over greedy, per cent")
    axes[1, 0].set_ylabel("accuracy on held-out rows")
    for ax in axes[-1]:
        ax.set_xlabel("p, rows chosen")
    legend(fig)
