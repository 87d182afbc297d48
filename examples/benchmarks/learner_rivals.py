"""Private classifiers side by side: ours against what a user would pick instead.

    python examples/benchmarks/learner_rivals.py --adult DIR --covertype FILE
        [--diffprivlib-python PYTHON] [--ebm-python PYTHON] [--opacus-python PYTHON]
        [--methods NAME ...] [--skip NAME ...] [--epsilons 0.1 0.3 1 3] [--deltas 0 1e-6]
        [--seeds 3] [--save FILE] [--with FILE ...] [--json FILE]

Same rows, same (epsilon, delta), with delta = 0 and 1e-6; accuracy and area under the ROC curve
on 20 % of the rows, means of the seeds. The rivals are in _rivals.py. A method that has pure DP
only competes under delta > 0 as well.

Results are kept by --save, as JSON, split by split, and --with reads such files: what they hold is
shown beside the rest, and is not run again. So rivals run once, and ours are compared with them on
the same splits whenever ours change (--methods without a name runs none):

    ... --seeds 10 --methods EBM Opacus --save rivals.json
    ... --seeds 10 --methods skdpsumm --with rivals.json

--json, with one table and one delta, stores the AUC of the methods in STORED. A column whose method
did not run stays as it was in that file.

Three rivals run where the interpreter of their own environment is given:

    python3 -m venv dpl
    dpl/bin/pip install diffprivlib==0.6.6 "scikit-learn>=1.5,<1.6"     # PYTHON is dpl/bin/python
    python3 -m venv ebm
    ebm/bin/pip install interpret-core==0.7.8 numpy==2.4.6 pandas==3.1.1
    python3 -m venv opacus
    opacus/bin/pip install torch==2.13.0 opacus==1.6.0         # torch's wheel for CPUs will do

Adult (UCI): DIR holds adult.data and adult.test, gzipped or not, or it is one such file. Missing
categories stay without an indicator. Covertype, class 2 against the rest: an npz with X (n, 54),
10 numbers and the indicators of wilderness and soil, and y in 1..7 (`fetch_covtype`, here 50,000
of its rows). All preprocessing is public: documented categories, numbers scaled to [-1, 1] by the
bounds below and clipped, a constant 1 as intercept, which is penalised as the rest, and each row
divided by its own norm.
"""

import argparse
import csv
import functools
import gzip
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import _results
import _rivals
import numpy as np
import pandas as pd
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import skdpsumm

# A column is (low, high) or the categories that UCI's adult.names lists. adult.names has no
# bounds: age is 17 (it says AAGE > 16) to the Census' top code 90, education-num counts the 16
# categories, 99,999 and 99 are top codes, the other two are round numbers above what is known.
ADULT = {
    "age": (17, 90),
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, "
    "Without-pay, Never-worked",
    "fnlwgt": (10_000, 1_500_000),
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, "
    "9th, 7th-8th, 12th, Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "education-num": (1, 16),
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, "
    "Married-spouse-absent, Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, "
    "Prof-specialty, Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, "
    "Transport-moving, Priv-house-serv, Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_400),
    "hours-per-week": (1, 99),
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, "
    "Outlying-US(Guam-USVI-etc), India, Japan, Greece, South, China, Cuba, Iran, Honduras, "
    "Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, Ireland, France, "
    "Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, "
    "Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
    "Holand-Netherlands",
}
# adult.names says that unknown values are "?"; only these columns have some.
UNKNOWN = ("workclass", "occupation", "native-country")
# UCI's covtype.info has the units: degrees of azimuth (0-360) and slope, metres, indices of
# 0-255. Elevation, slope and distances are round numbers around the study area's, as in
# examples/papers/_m2m.py.
COVERTYPE = [
    (1800, 3900),
    (0, 360),
    (0, 70),
    (0, 1400),
    (-200, 610),
    (0, 7200),
    (0, 255),
    (0, 255),
    (0, 255),
    (0, 7200),
]


@dataclass(frozen=True)
class Table:
    """A table twice: rows of norm 1, and the columns as they are with what is public of them.

    `public` has (low, high) of a number, and the list of categories of any other column.
    """

    name: str
    X: np.ndarray
    frame: pd.DataFrame
    public: dict
    y: np.ndarray

    def run(self, method, epsilon, delta, seed):
        """Return the scores of the test rows of a split, and their labels."""
        train, test = train_test_split(np.arange(len(self.y)), test_size=0.2, random_state=seed)
        if isinstance(method, _rivals.OnColumns):
            rows, method = self.frame, functools.partial(method.run, public=self.public)
            train_rows, test_rows = rows.iloc[train], rows.iloc[test]
        else:
            train_rows, test_rows = self.X[train], self.X[test]
        return method(train_rows, self.y[train], test_rows, epsilon, delta, seed), self.y[test]


def scaled(columns, bounds):
    """Map public bounds to [-1, 1], and clip."""
    low, high = np.transpose(np.asarray(bounds, dtype=float))
    return np.clip(2 * (columns - low) / (high - low) - 1, -1, 1)


def finished(*blocks):
    """Return the blocks beside a constant 1, rows scaled to norm 1."""
    X = np.hstack(blocks)
    return _rivals.unit_rows(np.hstack([X, np.ones((len(X), 1))]))


def adult(path):
    """Return the table of all rows found."""
    paths = sorted(p for p in path.iterdir() if "data" in p.name or "test" in p.name)
    table = []
    for file in paths if path.is_dir() else [path]:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt") as lines:
            table += [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == 15]
    blocks, columns, public = [], {}, {}
    for (name, known), values in zip(ADULT.items(), np.transpose(table)[:14], strict=True):
        if isinstance(known, str):
            public[name] = known.split(", ") + ["?"] * (name in UNKNOWN)
            columns[name] = values.astype(object)
            blocks.append((values[:, None] == known.split(", ")).astype(float))
        else:
            public[name] = known
            columns[name] = values.astype(float)
            blocks.append(scaled(columns[name][:, None], [known]))
    y = np.array([row[14].startswith(">50K") for row in table])
    return Table("adult", finished(*blocks), pd.DataFrame(columns), public, y)


def covertype(path):
    """Return the table for class 2 against the rest; wilderness and soil are columns."""
    with np.load(path) as file:
        X, y = file["X"].astype(float), file["y"]
    columns = {f"number {j}": X[:, j] for j in range(10)}
    public = dict(zip(columns, COVERTYPE, strict=True))
    for name, indicators in {"wilderness": X[:, 10:14], "soil": X[:, 14:]}.items():
        public[name] = [str(k) for k in range(indicators.shape[1])]
        columns[name] = indicators.argmax(axis=1).astype(str).astype(object)
    rows = finished(scaled(X[:, :10], COVERTYPE), X[:, 10:])
    return Table("covertype", rows, pd.DataFrame(columns), public, y == 2)


def ours(mechanism, fourier=False):
    """Return our classifier as a method."""

    def method(X_train, y_train, X_test, epsilon, delta, seed):
        settings = {"kernel": "linear", "norm_bound": 1.0}
        if fourier:
            sampler = RBFSampler(gamma=1.0, n_components=500, random_state=seed)
            settings = {"kernel": sampler}
        model = skdpsumm.TDILClassifier(
            mechanism=mechanism, epsilon=epsilon, delta=delta, random_state=seed, **settings
        )
        return model.fit(X_train, y_train).decision_function(X_test)

    return method


def ours_on_columns(X_train, y_train, X_test, epsilon, delta, seed, public):
    """Return the scores of a classifier that is given the frame and what is public, no more."""
    model = skdpsumm.TDILClassifier(schema=public, epsilon=epsilon, delta=delta)
    return model.fit(X_train, y_train).decision_function(X_test)


OURS = {
    "skdpsumm, default": ours("auto"),
    "skdpsumm, objective": ours("objective"),
    "skdpsumm, functional": ours("functional"),
    "skdpsumm, default, 500 RFF": ours("auto", fourier=True),
    "skdpsumm, objective, 500 RFF": ours("objective", fourier=True),
    "skdpsumm, default, on the columns": _rivals.OnColumns(ours_on_columns),
}
METHODS = {**_rivals.RIVALS, **OURS}
# By table, and whether delta is 0: the columns of docs/benchmarks.md.
DPL = {
    "diffprivlib": "diffprivlib (one row REPLACED)",
    "x 2": "diffprivlib at 2 epsilon (add/remove)",
}
STORED = {
    ("adult", True): {"ours": "skdpsumm, objective", **DPL},
    ("covertype", True): {
        "ours": "skdpsumm, objective",
        "Fourier": "skdpsumm, objective, 500 RFF",
        **DPL,
    },
    ("adult", False): {
        "ours": "skdpsumm, default, on the columns",
        "DP-SGD": "DP-SGD",
        "our features": "DP-SGD, our features",
        "Opacus": "Opacus",
        "EBM, tuned": "DP-EBM, tuned",
    },
    ("covertype", False): {
        "ours": "skdpsumm, default, on the columns",
        "DP-SGD": "DP-SGD",
        "Fourier": "DP-SGD, 500 RFF",
        "our features": "DP-SGD, our features",
        "EBM, tuned": "DP-EBM, tuned",
    },
}
ABOUT = {
    True: 'Ours is `TDILClassifier(mechanism="objective")`, linear, when a row is added or '
    'removed; a column "Fourier" is that on 500 random features. diffprivlib protects a row that '
    'is replaced, which ours does at twice epsilon: "x 2" is diffprivlib at twice epsilon, so '
    "that both promise the same.",
    False: "Ours is `TDILClassifier(schema=...)`, delta = 1e-6. DP-SGD, tuned on synthetic "
    "tables: as it is, on 500 Fourier features, on ours. DP-EBM is tuned where it says so.",
}


def elsewhere(arguments):
    """Return the methods that run in another environment, and say which of these are missing."""
    methods = {}

    def add(option, *runs, kind=lambda run: run):
        python = getattr(arguments, option.replace("-", "_"))
        if python is None:
            print(f"{', '.join(name for name, _ in runs)}: missing, needs --{option}")
        else:
            methods.update(
                (name, kind(functools.partial(run, python=python))) for name, run in runs
            )

    at_twice_epsilon = functools.partial(_rivals.diffprivlib, factor=2.0)
    add(
        "diffprivlib-python",
        ("diffprivlib (one row REPLACED)", _rivals.diffprivlib),
        ("diffprivlib at 2 epsilon (add/remove)", at_twice_epsilon),
    )
    ebm = ("DP-EBM", _rivals.dp_ebm), ("DP-EBM, tuned", _rivals.tuned_ebm)
    add("ebm-python", *ebm, kind=_rivals.OnColumns)
    on_rff = _rivals.on_fourier_features(_rivals.opacus)
    add("opacus-python", ("Opacus", _rivals.opacus), ("Opacus, 500 RFF", on_rff))
    return methods


def available(arguments):
    """Return the methods that can run and are asked for."""
    methods = METHODS | elsewhere(arguments)
    if not hasattr(skdpsumm, "TDILClassifier"):
        print("skdpsumm.TDILClassifier: missing, so are " + "; ".join(OURS))
        methods = {name: run for name, run in methods.items() if name not in OURS}
    wanted = methods if arguments.methods is None else arguments.methods
    return {
        name: run
        for name, run in methods.items()
        if any(part in name for part in wanted) and not any(part in name for part in arguments.skip)
    }


def quality(y, scores):
    """Return AUC and accuracy, shape (columns of scores, 2)."""
    columns = np.atleast_2d(np.transpose(scores))
    return np.array([(roc_auc_score(y, s), np.mean((s > 0) == y)) for s in columns])


def read(files):
    """Return the results that the files hold; the later file counts."""
    return {
        (r["data"], r["method"], r["epsilon"] or np.inf, r["delta"], r["seed"]): r["quality"]
        for file in files
        for r in json.loads(file.read_text())
    }


def write(file, results):
    """Write one result a line; infinity, which JSON has not, is null."""
    names = ("data", "method", "epsilon", "delta", "seed")
    lines = []
    for key, columns in results.items():
        record = dict(zip(names, key, strict=True))
        record["epsilon"] = record["epsilon"] if np.isfinite(record["epsilon"]) else None
        lines.append(json.dumps(record | {"quality": columns}))
    whole = file.with_name(file.name + ".part")
    whole.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    whole.replace(file)


def measure(table, methods, epsilons, deltas, seeds, results, save):
    """Add {(data, method, epsilon, delta, seed): AUC and accuracy of each column} to results.

    All methods see the same splits. What is there already is not run again.
    """
    cells = {("non-private", np.inf, None): _rivals.non_private}
    for delta, epsilon in itertools.product(deltas, epsilons):
        cells |= {(name, epsilon, delta): run for name, run in methods.items()}
    for seed, (cell, run) in itertools.product(range(seeds), cells.items()):
        if (table.name, *cell, seed) in results:
            continue
        scores, y_test = table.run(run, *cell[1:], seed)
        if scores is not None:
            results[table.name, *cell, seed] = quality(y_test, scores).round(6).tolist()
            if save:
                write(save, results)
        print(f"{table.name}, seed {seed}: {cell} is done", file=sys.stderr, flush=True)


def best_columns(name, results, seeds):
    """Return {(method, epsilon, delta): {seed: AUC and accuracy}} of a table.

    Of an oracle's columns the one with the best mean AUC counts.
    """
    found = {}
    for (data, method, epsilon, delta, seed), columns in results.items():
        if data == name and seed < seeds:
            found.setdefault((method, epsilon, delta), {})[seed] = np.array(columns)
    for cell, values in found.items():
        best = np.mean([columns[:, 0] for columns in values.values()], axis=0).argmax()
        found[cell] = {seed: columns[best] for seed, columns in values.items()}
    return found


def compare(ours, rival):
    """Return the mean gap on the splits that both have, its standard error, and their number."""
    gaps = [ours[seed][0] - rival[seed][0] for seed in ours if seed in rival]
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
    return np.mean(gaps) if gaps else np.nan, error, len(gaps)


def show(title, found, epsilons, deltas):
    """Print AUC and accuracy of every method, and who is ahead in each cell."""
    means = {cell: np.mean(list(values.values()), axis=0) for cell, values in found.items()}
    splits = max(len(values) for values in found.values())
    print(f"\n{title}, {splits} splits: AUC and accuracy at epsilon ", end="")
    print(", ".join(f"{e:g}" for e in epsilons))
    auc, accuracy = means["non-private", np.inf, None]
    print(f"{'non-private logistic regression':<40} {auc:.3f}  {accuracy:.3f}")
    for delta in deltas:
        print("pure DP" if delta == 0 else f"delta = {delta:g}")
        for name in dict.fromkeys(cell[0] for cell in found if cell[2] == delta):
            cells = [means.get((name, e, delta), (np.nan, np.nan)) for e in epsilons]
            fewest = min(len(found.get((name, e, delta), ())) for e in epsilons)
            line = " |".join("".join(f" {v:.3f}" for v in row) for row in np.transpose(cells))
            print(f"  {name:<38}{line}" + (f" ({fewest} splits)" if fewest < splits else ""))
    for delta, epsilon in itertools.product(deltas, epsilons):
        verdict(found, means, epsilon, delta)


def verdict(found, means, epsilon, delta):
    """Print our best by AUC and every rival's gap to it; what is pure DP counts under delta > 0."""
    best = {}
    for cell in sorted(means, key=lambda cell: means[cell][0]):
        if cell[1] == epsilon and cell[2] in (0.0, delta):
            best["ours" if cell[0] in OURS else cell[0]] = cell
    ours = best.pop("ours", None)
    known = "missing" if ours is None else f"{means[ours][0]:.4f}  {ours[0]}"
    print(f"epsilon {epsilon:g}, {'pure DP' if delta == 0 else f'delta = {delta:g}'}: ours {known}")
    for cell in reversed(best.values()):
        line = f"  {means[cell][0]:.4f}  {cell[0]:<38}"
        if ours is not None:
            gap, error, splits = compare(found[ours], found[cell])
            line += f"ours {'ahead' if gap > 0 else 'BEHIND'} by {abs(gap):.4f}, "
            line += f"s.e. {error:.4f}, {splits} splits"
        print(line.rstrip())


def store(path, name, found, epsilons, delta, seeds):
    """Store the mean AUC of the methods in STORED; columns that did not run stay as they were."""
    pure, methods = delta == 0, STORED[name, delta == 0]

    def mean(*cell):
        values = found.get(cell)
        return None if values is None else round(float(np.mean([v[0] for v in values.values()])), 3)

    rows = [[e, *(mean(method, e, delta) for method in methods.values())] for e in epsilons]
    columns = ["epsilon", *methods]
    rows, kept = _results.kept(path, columns, rows)
    _results.store(
        path,
        job="learn",
        title=f"{'Pure epsilon' if pure else 'The default learner'}: {name.capitalize()}",
        about=f"AUC, mean of {seeds} splits. {ABOUT[pure]} Logistic regression without privacy: "
        f"{mean('non-private', np.inf, None):.3f}.",
        columns=columns,
        rows=rows,
        **({"kept": kept} if kept else {}),
    )


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--covertype", type=Path)
    for rival in ("diffprivlib", "ebm", "opacus"):
        parser.add_argument(f"--{rival}-python", help="its interpreter, see above")
    parser.add_argument("--methods", nargs="*", help="parts of the names of methods")
    parser.add_argument("--skip", nargs="+", default=[], help="parts of the names of others")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--deltas", nargs="+", type=float, default=[0.0, 1e-6])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", type=Path, help="write all results here, after each of them")
    parser.add_argument("--with", nargs="+", type=Path, default=[], dest="files")
    _results.add_argument(parser)
    arguments = parser.parse_args()
    methods, results = available(arguments), read(arguments.files)
    for load, path in ((adult, arguments.adult), (covertype, arguments.covertype)):
        if path is None:
            print(f"{load.__name__}: needs --{load.__name__}")
            continue
        table = load(path)
        cells = arguments.epsilons, arguments.deltas
        measure(table, methods, *cells, arguments.seeds, results, arguments.save)
        found = best_columns(table.name, results, arguments.seeds)
        show(f"{table.name}, {len(table.X):,} x {table.X.shape[1]}", found, *cells)
        if arguments.json:
            epsilons, (delta,) = cells
            store(arguments.json, table.name, found, epsilons, delta, arguments.seeds)


if __name__ == "__main__":
    main()
