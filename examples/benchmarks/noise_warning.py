"""How often a model warns that nothing shows that it has learnt anything, and how good it then is.

    python examples/benchmarks/noise_warning.py [--seeds 3] [--first-seed 0] [--json FILE]

`TDILClassifier(schema=...)` on 100 to 2,000 rows of 5 to 64 columns, at epsilon 0.1, 0.3, 1 and 3
and delta 1e-6. Breast cancer, wine, digits and diabetes (above its median or not) are
scikit-learn's; others are made here: linear scores of some columns, effects that bend, words beside
numbers, and labels that are coins, from which nothing can be learnt. The AUC is that on up to 4,000
other rows. Nothing was tuned on these tables: the level of the test is 0.9.

m = 1 / mu is the noise in rows (docs/learners.md). A row that comes or goes moves an AUC of 0.5 by
up to 1 / n, so rows on which a model has 0.5 and 0.6 may be 0.1 n rows apart. Whatever tells them
apart, right nine times of ten in the one case and 49 of 50 in the other, needs 0.1 n mu > 1.28 +
2.05, or n > 33 m, even if all of epsilon goes into telling.
"""

import argparse
import warnings

import _results
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.metrics import roc_auc_score

from skdpsumm import NoiseWarning, TDILClassifier, simulation
from skdpsumm.privacy import gdp_mu

DELTA, EPSILONS, MOST_TRIED = 1e-6, (0.1, 0.3, 1.0, 3.0), 4000
A_COIN, NEEDED = 0.55, 33
# Columns, columns that matter, and the deviation of the score, where noise is logistic.
LINEAR = [(5, 1, 0.5), (5, 3, 1.5), (10, 2, 1), (20, 2, 0.7), (20, 5, 2), (40, 2, 1.5), (40, 20, 3)]
COINS = [(5, 1, 0), (12, 1, 0), (30, 1, 0)]


def bundled():
    """Yield tables of scikit-learn: name, X, y, schema, and how many rows to learn from."""
    for name, load in (("cancer", load_breast_cancer), ("wine", load_wine)):
        X, y = load(return_X_y=True, as_frame=True)
        ends = {c: (0, 1.2 * float(f"{1.1 * X[c].max():.1g}")) for c in X}
        yield name, X, y.to_numpy() == 0, ends, (100,) if name == "wine" else (150, 276)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    yield "diabetes", X, y.to_numpy() > 140, dict.fromkeys(X, (-0.2, 0.2)), (150, 276)
    X, y = load_digits(return_X_y=True, as_frame=True)
    schema, y = dict.fromkeys(X, (0, 16)), y.to_numpy()
    yield "digits, odd", X, y % 2 == 1, schema, (150, 500)
    yield "digits, above 4", X, y > 4, schema, (150, 500)
    some = np.isin(y, [3, 8])
    yield "digits, 3 or 8", X[some].reset_index(drop=True), y[some] == 3, schema, (150,)


def made():
    """Yield tables that are made here."""
    sizes = 150, 276, 600, 2000
    for k, (d, n_used, deviation) in enumerate(LINEAR + COINS):
        rng = np.random.default_rng([45, k])
        X = pd.DataFrame(rng.uniform(-1, 1, (6000, d))).rename(columns="x{}".format)
        score = X.to_numpy()[:, :n_used] @ rng.normal(size=n_used)
        score *= deviation / score.std()
        name = f"linear, {n_used} of {d} columns" if deviation else f"coins, {d} columns"
        yield name, X, labels(score, rng), dict.fromkeys(X, (-1, 1)), sizes
    rng = np.random.default_rng(45)
    X = pd.DataFrame(rng.uniform(-1, 1, (6000, 8))).rename(columns="x{}".format)
    schema = dict.fromkeys(X, (-1, 1))
    yield "bent", X, labels(4 * X.x0.abs() + np.sin(3 * X.x1), rng), schema, sizes
    words = {f"w{k}": ["a", "b", "c"][: 2 + k % 2] for k in range(17)}
    X = pd.DataFrame({c: rng.choice(v, 6000) for c, v in words.items()})
    X = X.assign(**{f"x{k}": rng.integers(0, 6, 6000) for k in range(12)})
    score = 1.2 * (X.w0 == "a") - 0.5 * X.x0 + 0.3 * X.x1
    schema = words | {f"x{k}": (0, 5) for k in range(12)}
    yield "words and numbers", X, labels(score, rng), schema, sizes


def labels(score, rng):
    return np.asarray(score + rng.logistic(size=len(score)) > np.median(score))


def fits(seeds):
    """Yield a line a fit."""
    for name, X, y, schema, sizes in (*bundled(), *made()):
        for n, epsilon, seed in ((n, e, s) for n in sizes for e in EPSILONS for s in seeds):
            order = np.random.default_rng([seed, n]).permutation(len(X))
            train, test = order[:n], order[n : n + MOST_TRIED]
            model = TDILClassifier(schema, epsilon=epsilon, delta=DELTA, classes=[False, True])
            # A simulation is faster.
            with simulation(1000 * n + seed), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit(X.iloc[train].reset_index(drop=True), y[train])
            told = any(issubclass(w.category, NoiseWarning) for w in caught)
            scores = model.decision_function(X.iloc[test].reset_index(drop=True))
            m = 1 / gdp_mu(epsilon, DELTA)
            auc = roc_auc_score(y[test], scores)
            cell = {"table": name, "n": n, "epsilon": epsilon, "seed": seed, "rows per m": n / m}
            yield cell | {"AUC": auc, "told": told}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    _results.add_argument(parser)
    options = parser.parse_args()
    found = pd.DataFrame(fits(range(options.first_seed, options.first_seed + options.seeds)))
    means = found.groupby(["table", "n", "epsilon"])[["AUC", "told"]].mean().unstack()
    print(means.round(2).to_string())
    coins = found.table.str.startswith("coins")
    many = found["rows per m"] >= NEEDED
    parts = {"coins": coins}
    for words, which in ((f"below {NEEDED} m", ~many), (f"{NEEDED} m and more", many)):
        parts[f"AUC up to {A_COIN}, rows {words}"] = ~coins & which & (found.AUC <= A_COIN)
        parts[f"AUC above {A_COIN}, rows {words}"] = ~coins & which & (found.AUC > A_COIN)
    rows = []
    for name, part in parts.items():
        told, silent = part & found.told, part & ~found.told
        means = [
            round(found.AUC[which].mean(), 2) if any(which) else None for which in (told, silent)
        ]
        rows.append([name, int(part.sum()), round(100 * found.told[part].mean(), 1), *means])
    columns = ["fits", "number", "told, per cent", "mean AUC, told", "not told"]
    print(pd.DataFrame(rows, columns=columns).to_string(index=False))
    _results.store(
        options.json,
        job="learn",
        title="What a NoiseWarning is worth",
        about="Small tables, epsilon 0.1 to 3: how often a fit of `TDILClassifier` warns that "
        "nothing shows that it has learnt anything, and the AUC on other rows. Coins are tables "
        f"whose labels nothing tells. With fewer than {NEEDED} m rows no private mechanism can "
        "tell models of AUC 0.5 and 0.6 apart on all tables, right nine times of ten.",
        columns=columns,
        rows=rows,
    )


if __name__ == "__main__":
    main()
