"""Tune DP-EBM for learner_rivals.py, on synthetic tables alone.

    python examples/benchmarks/rivals_tuning.py --ebm-python PYTHON
        [--epsilons 0.1 0.3 1 3] [--tables 3]

The interpreter is that of learner_rivals.py. Prints for each epsilon the settings with the
best mean AUC on three tables of 50,000 rows: numbers and categories driven by three latent
variables, logistic labels, the AUC of the true model 0.89 to 0.90. delta is 1e-6.
"""

import argparse
import functools
import itertools

import _rivals
import learner_rivals
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.metrics import roc_auc_score

DELTA = 1e-6
EBM = [
    {"learning_rate": rate, "max_rounds": rounds, "max_leaves": leaves, "max_bins": bins}
    | {"bin_budget_frac": share}
    for rate, rounds in itertools.product((0.03, 0.1, 0.3), (30, 100, 300))
    for leaves, bins, share in (
        (3, 32, 0.1),
        (6, 32, 0.1),
        (3, 16, 0.1),
        (3, 32, 0.3),
        (6, 16, 0.3),
    )
]


def synthetic(seed, n=50_000):
    """Return a table of 6 numbers and 8 columns of 2 to 40 categories, and its best AUC."""
    rng = np.random.default_rng(1000 + seed)
    latent = rng.normal(size=(n, 3))
    columns, public, blocks = {}, {}, []
    for j in range(6):
        values = np.clip(latent @ rng.normal(size=3) + rng.normal(size=n), -4, 4)
        columns[f"number {j}"], public[f"number {j}"] = values, (-4, 4)
        blocks.append(learner_rivals.scaled(values[:, None], [(-4, 4)]))
    for j, levels in enumerate((2, 2, 3, 5, 8, 12, 20, 40)):
        pull = latent @ rng.normal(size=(3, levels)) + rng.gumbel(size=(n, levels))
        chosen = (pull + rng.normal(size=levels)).argmax(axis=1)
        columns[f"category {j}"] = chosen.astype(str).astype(object)
        public[f"category {j}"] = [str(k) for k in range(levels)]
        blocks.append(np.eye(levels)[chosen])
    direction = rng.normal(size=3)
    margin = 2.5 * latent @ direction / np.linalg.norm(direction) - rng.uniform(0, 1.5)
    y = rng.random(n) < expit(margin)
    X = learner_rivals.finished(*blocks)
    table = learner_rivals.Table(f"synthetic {seed}", X, pd.DataFrame(columns), public, y)
    return table, roc_auc_score(y, margin)


def tune(tables, method, grid, epsilon):
    """Print the settings of the grid from the best mean AUC down."""
    auc = []
    for seed, table in enumerate(tables):
        scores, y = table.run(method, epsilon, DELTA, seed)
        auc.append(learner_rivals.quality(y, scores)[:, 0])
    means = np.mean(auc, axis=0)
    for k in np.argsort(-means)[:5]:
        print(f"  {means[k]:.4f}  {grid[k]}", flush=True)


def main():
    """Print the best settings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ebm-python", required=True)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--tables", type=int, default=3)
    arguments = parser.parse_args()
    made = [synthetic(seed) for seed in range(arguments.tables)]
    tables = [table for table, _ in made]
    print("AUC of the true models: " + ", ".join(f"{auc:.3f}" for _, auc in made), flush=True)
    ebm = functools.partial(_rivals.dp_ebm, python=arguments.ebm_python, settings=EBM)
    for epsilon in arguments.epsilons:
        print(f"epsilon {epsilon:g}: DP-SGD as it is, and DP-EBM")
        tune(tables, _rivals.dp_sgd, ["as in learner_rivals.py"], epsilon)
        tune(tables, _rivals.OnColumns(ebm), EBM, epsilon)


if __name__ == "__main__":
    main()
