"""What products with categories are worth, and what they cost where nothing turns round.

    python examples/benchmarks/interactions.py [--data DIR] [--tables NAME ...] [--rows 10000]
        [--epsilons 0.1 0.3 1 3] [--seeds 4] [--parts 0.05 0.1 0.15 0.3] [--most 100 200 600]

`TDILClassifier(schema, epsilon)` with products of indicators, which have such a part of the squares
of categories and are so many at most, beside the same without: AUC on the rows held out, the mean
difference, its standard error, and CPU seconds of a fit. Rows and seeds of the noise are those of
the baseline. Tables of DIR are those of learner_defaults.py. Others are made here: four numbers and
words of 2, 3, 5 and 8 categories, where one label in ten is wrong, and the rest is an effect that
turns round,

    word-3      that of a number by one of three categories
    word-8      that of a number by three of eight categories
    words       that of one of three categories by two of five
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from learner_defaults import Problem, folds, load
from sklearn.metrics import roc_auc_score

from skdpsumm import NoiseWarning, PrivacyLeakWarning, TableSchema, TDILClassifier, simulation
from skdpsumm.schema import _vectorizer

MADE = ("word-3", "word-8", "words")
WORDS = {"c": 2, "f": 3, "g": 5, "h": 8}


def made(name, n_rows):
    """Return a table in which one effect turns round by a category."""
    rng = np.random.default_rng(1)
    schema = {number: (0, 1) for number in "abde"}
    X = pd.DataFrame({number: rng.random(n_rows) for number in schema})
    for word, n in WORDS.items():
        schema[word] = [f"{word}{k}" for k in range(n)]
        X[word] = rng.choice(schema[word], n_rows)
    left = X["g"].isin(["g0", "g1"]) if name == "words" else X["a"] > 0.5
    right = X["h"].isin(["h0", "h1", "h2"]) if name == "word-8" else X["f"] == "f0"
    y = left ^ right ^ (rng.random(n_rows) < 0.1)
    return Problem(X, y.to_numpy(), TableSchema(schema))


def measure(problem, name, rows, epsilon, seed, part, most):
    """Return the AUC on rows held out, and the CPU seconds of the fit."""
    _vectorizer._WORD_PART, _vectorizer._MOST_WITH_WORDS = part, most
    train, test = folds(len(problem.y), name, rows, seed)
    model = TDILClassifier(problem.schema, epsilon=epsilon)
    start = time.process_time()
    with simulation(seed):
        model.fit(problem.X.iloc[train], problem.y[train])
    took = time.process_time() - start
    scores = model.decision_function(problem.X.iloc[test])
    return roc_auc_score(problem.y[test], scores), took


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--parts", nargs="+", type=float, default=[0.05, 0.1, 0.15, 0.3])
    parser.add_argument("--most", nargs="+", type=int, default=[100, 200, 600])
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    real = ("adult", "acs", "covertype") if asked.data else ()
    for name in asked.tables or (*MADE, *real):
        problem = made(name, 2 * asked.rows) if name in MADE else load(name, asked.data)
        for epsilon in asked.epsilons:
            fit = [(problem, name, asked.rows, epsilon, seed) for seed in range(asked.seeds)]
            base = np.array([measure(*one, 0.0, 0) for one in fit])
            auc, took = base.mean(axis=0)
            print(f"{name} epsilon={epsilon:g}: without {auc:.4f} {took:.1f} s")
            for part in asked.parts:
                for most in asked.most:
                    found = np.array([measure(*one, part, most) for one in fit])
                    gained = found[:, 0] - base[:, 0]
                    error = gained.std(ddof=1) / np.sqrt(len(fit)) if len(fit) > 1 else np.nan
                    print(
                        f"    part {part:g}, {most} at most: {found[:, 0].mean():.4f} "
                        f"{gained.mean():+.4f} +- {error:.4f} {found[:, 1].mean():.1f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
