"""What can be promised on small tables, and how often a model of noise says that it is one.

    python examples/benchmarks/small_tables.py [--data FOLDER] [--rows 150 900 5000]
        [--epsilons 0.1 0.3 1 3] [--seeds 10] [--first-seed 100] [--models linear kernel span]
        [--out FILE]

Learners with a schema and nothing else, on so many rows of a table, tried on up to 4,000 others:

    linear   TDILClassifier(schema=...) and TDILRegressor
    kernel   the same with kernel="rbf", on landmarks
    span     TDDLClassifier(schema=...) with 256 of the rows that it is tried on as X_public

delta is 1e-6. Breast cancer (569 rows), digits (1,797) and Friedman's function are scikit-learn's;
with FOLDER (see _tables.py) Adult, ACS income and Covertype (class 2 against the rest) are tried,
too, and numbers are the ages of Adult and the elevations of Covertype. Accuracy (R^2 of numbers) is
beside that of a constant and that of the same learner at epsilon = inf. "told" is the share of fits
with a `NoiseWarning`.

Below the table is what the warning is worth. Of what noise leaves to be gained over a constant
(by the learner at epsilon = inf, mean of the seeds) a model that gains a tenth at most is called
useless, and one that gains half of it useful; noise_warning.py has more tables, by AUC. FILE keeps
the fits, and a second run adds to them.
"""

import argparse
import warnings

import _tables
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1

from skdpsumm import NoiseWarning, TDDLClassifier, TDDLRegressor, TDILClassifier, TDILRegressor

DELTA, MOST_TRIED, N_PUBLIC = 1e-6, 4000, 256
USELESS, USEFUL = 0.1, 0.5
FROM_FOLDER = {"adult": "label", "acs": "label", "covertype-raw": "label"}
NUMBERS = {"adult": "age", "covertype-raw": "Elevation"}


def tables(folder):
    """Yield name, X, y, schema, and the bounds of y where it is a number."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    # Round numbers above the largest that scikit-learn's description of the table lists.
    ends = {c: float(f"{1.1 * X[c].max():.1g}") for c in X}
    yield "cancer", X, y.to_numpy(), {c: (0, 1.2 * end) for c, end in ends.items()}, None
    X, y = load_digits(return_X_y=True)
    yield "digits", X, y, (0, 16), None
    yield "digits > 4", X, (y > 4).astype(int), (0, 16), None
    X, y = make_friedman1(9000, noise=1.0, random_state=0)
    yield "friedman", X, y, (0, 1), (0, 30)
    for name in FROM_FOLDER if folder else ():
        table = _tables.load(name, folder)
        frame, label = table.train, table.train["label"]
        inputs = {c: known for c, known in table.public.items() if c != "label"}
        y = label.isin(["yes", "type2"]).to_numpy(int)
        yield name, frame[[*inputs]], y, _tables.schema(inputs), None
        if name in NUMBERS:
            c = NUMBERS[name]
            bounds = inputs.pop(c)
            of = f"{c.lower()} of {name}"
            yield of, frame[[*inputs]], frame[c].to_numpy(float), _tables.schema(inputs), bounds


def model(kind, schema, y, bounds, X_public):
    """Return a learner by its defaults, and what else its fit takes."""
    if kind == "span":
        learner, given = (TDDLRegressor if bounds else TDDLClassifier), {"X_public": X_public}
        options = {}
    else:
        learner, given = (TDILRegressor if bounds else TDILClassifier), {}
        options = {"kernel": "rbf"} if kind == "kernel" else {}
    target = {"y_bounds": bounds} if bounds else {"classes": np.unique(y)}
    return learner(schema=schema, delta=DELTA, random_state=0, **target, **options), given


def rows_of(X, at):
    return X.iloc[at].reset_index(drop=True) if hasattr(X, "iloc") else X[at]


def constant_score(y_train, y_test, bounds):
    """Return the score of the best constant on the rows that a model is tried on."""
    if bounds:
        return 0.0
    return float(np.unique(y_test, return_counts=True)[1].max() / len(y_test))


def runs(options, known):
    """Yield one line a fit, of those that are not known yet."""
    for name, X, y, schema, bounds in tables(options.data):
        for n in (n for n in options.rows if len(X) >= n + 100):
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                order = np.random.default_rng([seed, n]).permutation(len(X))
                train, test = order[:n], order[n : n + MOST_TRIED]
                X_test, public = rows_of(X, test), rows_of(X, test[:N_PUBLIC])
                for kind in options.models:
                    for epsilon in [*options.epsilons, np.inf]:
                        line = {"table": name, "n": n, "model": kind, "epsilon": epsilon}
                        line["seed"] = seed
                        if tuple(line.values()) in known:
                            continue
                        one, given = model(kind, schema, y, bounds, public)
                        one.set_params(epsilon=epsilon)
                        with warnings.catch_warnings(record=True) as caught:
                            warnings.simplefilter("always")
                            one.fit(rows_of(X, train), y[train], **given)
                        told = any(issubclass(w.category, NoiseWarning) for w in caught)
                        score = float(one.score(X_test, y[test]))
                        found = {"score": score, "told": told, "needed": one.noise_.epsilon}
                        found["constant"] = constant_score(y[train], y[test], bounds)
                        yield line | found


def show(lines):
    """Print the table, and what the warning is worth."""
    fits = pd.DataFrame(lines)
    cell = ["model", "table", "n"]
    noiseless = fits[np.isinf(fits.epsilon)].groupby(cell).score.mean().rename("noiseless")
    fits = fits[~np.isinf(fits.epsilon)].join(noiseless, on=cell)
    room = (fits.noiseless - fits.constant).clip(lower=0.02)
    fits["gain"] = (fits.score - fits.constant) / room
    shown = fits.assign(told=100 * fits.told, gain=100 * fits.gain)
    columns = ["constant", "score", "noiseless", "gain", "told"]
    means = shown.groupby([*cell, "epsilon"])[columns].mean()
    formats = dict.fromkeys(columns[:3], "{:.3f}".format)
    print(means.to_string(formatters=formats | dict.fromkeys(columns[3:], "{:.0f} %".format)))
    print("\nHow often the warning comes, in % (fits):")
    for kind, part in fits.groupby("model"):
        for text, which in (
            ("useless", part.gain <= USELESS),
            ("between", (part.gain > USELESS) & (part.gain < USEFUL)),
            ("useful", part.gain >= USEFUL),
        ):
            told = part.told[which]
            print(f"{kind:8s} {text:8s} {100 * told.mean():5.1f} ({len(told)})")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="folder of the tables")
    parser.add_argument("--rows", nargs="+", type=int, default=[150, 900, 5000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=100)
    kinds = ["linear", "kernel", "span"]
    parser.add_argument("--models", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--out", help="where the fits are kept, as JSON lines")
    options = parser.parse_args()
    lines = _tables.lines(options.out)
    known = {tuple(line[k] for k in ("table", "n", "model", "epsilon", "seed")) for line in lines}
    for line in runs(options, known):
        lines.append(line)
        _tables.append(options.out, line)
    show(lines)


if __name__ == "__main__":
    main()
