"""MST, and diffprivlib's logistic regression, for Figures 3 and 4 of the M2M paper.

    python examples/papers/m2m_rivals.py mst --data FOLDER --out rivals.json
    python examples/papers/m2m_rivals.py diffprivlib --data FOLDER --out rivals.json

Each needs an environment of its own: dpmm pins numpy 1.26, and diffprivlib 0.6.6 a scikit-learn
before 1.6. Python 3.11 for both:

    python3.11 -m venv mst && mst/bin/pip install dpmm==0.1.9
    python3.11 -m venv dpl && dpl/bin/pip install diffprivlib==0.6.6 "scikit-learn>=1.5,<1.6" pandas

FOLDER is described in _m2m.py. The JSON is added to, and what it has is not run again;
``m2m_figure3.py`` and ``m2m_figure4.py`` draw it with ``--rivals rivals.json``.

MST (McKenna, Miklau and Sheldon, 2021) has 32 equal bins a column, 1,000 iterations, add/remove and
delta = 1e-6. Answers are read from 100,000 synthetic rows, spread evenly in their bins, and a
logistic regression is trained on as many rows as there were. diffprivlib's neighbours have a row
*replaced*, with noise for two gradients: at twice epsilon it is epsilon-DP for a row added or
removed, which is what the others promise, so that is what it is given
(``examples/benchmarks/_rivals.py`` says why). It has a constant column, and rows are scaled to a
norm of at most one.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import _m2m
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

DELTA, BINS = 1e-6, 32


def synthetic(table, sizes, epsilon, seed, n_rows):
    """Return rows of MST, as codes."""
    from dpmm.models.mst import MSTGM

    names = [f"c{j}" for j in range(table.shape[1])]
    model = MSTGM(
        epsilon=epsilon,
        delta=DELTA,
        n_iters=1000,
        domain=dict(zip(names, sizes, strict=True)),
        random_state=np.random.RandomState(seed),
        n_jobs=1,
        compress=True,
    )
    model.fit(pd.DataFrame(table, columns=names))
    return model.generate(n_records=n_rows)[names].to_numpy()


def codes(X):
    """Return the bin of each number in [0, 1]."""
    return np.minimum((X * BINS).astype(int), BINS - 1)


def numbers(cells, seed):
    """Return numbers that lie evenly in their bins."""
    return (cells + np.random.default_rng(seed).random(cells.shape)) / BINS


def mst_errors(name, folder, epsilon, seed):
    """Return the errors of Figure 3."""
    X = _m2m.table_of(name, folder, seed)
    cells = synthetic(codes(X), [BINS] * X.shape[1], epsilon, seed, 100_000)
    return _m2m.errors_of_rows(X, seed, numbers(cells, seed))


def mst_auc(_name, folder, epsilon, seed):
    """Return the AUC of Figure 4; of one class alone it is 0.5, as in the paper."""
    X, X_test, y, y_test = _m2m.split(*_m2m.occupancy(folder), seed)
    cells = np.column_stack([codes(X), y])
    rows = synthetic(cells, [BINS] * X.shape[1] + [2], epsilon, seed, len(X))
    if np.ptp(rows[:, -1]) == 0:
        return 0.5
    model = LogisticRegression(max_iter=1000).fit(numbers(rows[:, :-1], seed), rows[:, -1])
    return roc_auc_score(y_test, model.decision_function(X_test))


def diffprivlib_auc(_name, folder, epsilon, seed):
    """Return the AUC of Figure 4."""
    from diffprivlib.models import LogisticRegression as Private

    X, X_test, y, y_test = _m2m.split(*_m2m.occupancy(folder), seed)
    X, X_test = (np.column_stack([Z, np.ones(len(Z))]) for Z in (X, X_test))
    norm = np.sqrt(X.shape[1])  # of the largest row there can be
    model = Private(
        epsilon=2 * epsilon, data_norm=1.0, fit_intercept=False, max_iter=1000, random_state=seed
    )
    model.fit(X / norm, y)
    return roc_auc_score(y_test, model.decision_function(X_test / norm))


def main():
    """Run what is missing, and save after each run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rival", choices=["mst", "diffprivlib"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="*", default=["random10", "occupancy"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument(
        "--figure4", nargs="*", type=float, default=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    jobs = [(f"{arguments.rival} figure 4", "", e) for e in arguments.figure4]
    run = {f"{arguments.rival} figure 4": diffprivlib_auc}
    if arguments.rival == "mst":
        jobs += [(f"mst {name}", name, e) for name in arguments.tables for e in arguments.epsilons]
        run = {"mst figure 4": mst_auc, **{f"mst {n}": mst_errors for n in arguments.tables}}
    for seed in range(arguments.seeds):
        for key, name, epsilon in jobs:
            found = kept.setdefault(key, {}).setdefault(f"{epsilon:g}", [])
            if len(found) > seed:
                continue
            start = time.process_time()
            found.append(run[key](name, arguments.data, epsilon, seed))
            print(
                key,
                epsilon,
                seed,
                found[-1],
                f"{time.process_time() - start:.1f} CPU s",
                flush=True,
            )
            arguments.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
