"""Small tables: the default map of `TDILClassifier` beside numbers alone, and DP-EBM.

    python examples/benchmarks/learner_small.py [--seeds 10] [--tables NAME ...]
        [--ebm-python PYTHON] [--ebm-seeds 3]

AUC on other rows after a fit to 150 and to up to 900 rows of the tables of noise_warning.py, at
epsilon 0.3, 1 and 3 and delta 1e-6. "numbers" is `kernel="linear"`, "ahead" the mean difference of
the default and its standard error, over the same rows. DP-EBM has its own defaults. Rows "product"
are 6 x0 x1 + x2 of four numbers, for which numbers alone are a coin.

*No rule of public numbers chooses between the two maps.* Diabetes and "linear, 2 of 10 columns" are
both tables of ten numbers. With 150 rows of either, at the same epsilon, each map is clearly
better on one of them: at epsilon 3 by 0.060 and 0.073. What tells them apart is where the rows
lie in their ranges, which is private. results/learner_small.txt has what it printed.
"""

import argparse
import functools
import warnings

import _rivals
import noise_warning
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from skdpsumm import TDILClassifier, simulation

DELTA, EPSILONS, SIZES, MOST_TRIED = 1e-6, (0.3, 1.0, 3.0), (150, 900), 4000
TAKEN = "cancer", "diabetes", "linear, 2 of 10 columns", "linear, 3 of 5 columns", "bent"


def tables():
    """Yield name, X, y and schema."""
    for make in (noise_warning.bundled, noise_warning.made):
        yield from ((name, X, y, known) for name, X, y, known, _ in make() if name in TAKEN)
    rng = np.random.default_rng(45)
    X = pd.DataFrame(rng.uniform(-1, 1, (6000, 4))).rename(columns="x{}".format)
    y = noise_warning.labels((6 * X.x0 * X.x1 + X.x2).to_numpy(), rng)
    yield "product", X, y, dict.fromkeys(X, (-1, 1))


def ours(train, y_train, test, epsilon, delta, seed, public, kernel="auto"):
    model = TDILClassifier(public, epsilon=epsilon, delta=delta, kernel=kernel)
    with simulation(seed):
        model.fit(train, y_train)
    return model.decision_function(test)


def measure(methods, X, y, public, n, seed):
    """Yield epsilon, method and AUC for one choice of rows."""
    order = np.random.default_rng([seed, n]).permutation(len(X))
    train, test = order[:n], order[n : n + MOST_TRIED]
    parts = [X.iloc[part].reset_index(drop=True) for part in (train, test)]
    for epsilon in EPSILONS:
        for name, (run, n_seeds) in methods.items():
            if seed < n_seeds:
                scores = run(parts[0], y[train], parts[1], epsilon, DELTA, seed, public=public)
                yield epsilon, name, roc_auc_score(y[test], np.ravel(scores))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tables", nargs="+", help="some of them, by name")
    parser.add_argument("--ebm-python", help="of an environment with interpret-core")
    parser.add_argument("--ebm-seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    linear = functools.partial(ours, kernel="linear")
    methods = {"default": (ours, options.seeds), "numbers": (linear, options.seeds)}
    if options.ebm_python:
        rival = functools.partial(_rivals.dp_ebm, python=options.ebm_python)
        methods["DP-EBM"] = rival, options.ebm_seeds
    print(f"{'table':<25}{'rows':>5}{'eps':>5}" + "".join(f"{m:>9}" for m in [*methods, "ahead"]))
    for name, X, y, public in tables():
        if options.tables and name not in options.tables:
            continue
        for n in (min(n, len(X) - 100) for n in SIZES):
            runs = [
                line
                for seed in range(options.seeds)
                for line in measure(methods, X, y, public, n, seed)
            ]
            for epsilon in EPSILONS:
                found = {
                    m: np.array([a for e, k, a in runs if (e, k) == (epsilon, m)]) for m in methods
                }
                ahead = found["default"] - found["numbers"]
                means = "".join(f"{values.mean():>9.3f}" for values in found.values())
                error = ahead.std(ddof=1) / len(ahead) ** 0.5
                line = f"{name:<25}{n:>5}{epsilon:>5g}{means}"
                print(f"{line}{ahead.mean():>9.3f} +- {error:.3f}", flush=True)


if __name__ == "__main__":
    main()
