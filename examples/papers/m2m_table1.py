"""Table 1 and Figure 3 of the M2M paper: errors of RFF, RACE and histogram sketches, and of ours.

    python examples/papers/m2m_table1.py                       # Random10, 20 runs
    python examples/papers/m2m_table1.py --csv table.csv       # any table with a header line
    python examples/papers/m2m_table1.py --adult adult.data.gz --runs 3
    python examples/papers/m2m_table1.py --covertype covtype.npz --runs 3

Random10 is 27,000 x 10 uniform numbers. For each sketch and epsilon: mean relative error of the
first and second moments, earth mover's distance of the CDF at 10 points, Frobenius distance of
the covariance, and mean absolute error of 100 conjunctions of three predicates (as a share of
rows). A CSV's columns are scaled by `--ranges` (``low,high`` for all columns, or a file with one
``low,high`` per line); without it, by the range of the file itself, WHICH IS NOT PRIVATE and is
meant for trying things out. Adult: UCI (``fetch_openml("adult")``); Covertype: an npz whose X
starts with the ten quantitative columns (``fetch_covtype``).
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from skdpsumm import (
    AnswerWarning,
    HistogramSketcher,
    M2MEstimator,
    RACESketcher,
    RFFSketcher,
    SketchUnion,
)

ADULT_COLUMNS = {
    0: (17, 90),
    2: (10_000, 1_500_000),
    4: (1, 16),
    10: (0, 99_999),
    11: (0, 4_400),
    12: (1, 99),
}
COVERTYPE_RANGES = [
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
MEASURES = ("moment 1", "moment 2", "CDF", "covariance", "queries")


def estimators(epsilon, delta):
    """Return the paper's three sketches with its prior, a union of two, and the default."""
    budget = {"epsilon": epsilon, "delta": delta}
    both = SketchUnion([HistogramSketcher(n_bins=32), RFFSketcher(200, gamma=1.0)], **budget)
    paper = {
        "RFF": RFFSketcher(200, gamma=0.5, **budget),
        "RACE": RACESketcher(80, n_buckets=80, bandwidth=0.1, **budget),
        "HIST": HistogramSketcher(n_bins=100, **budget),
    }
    made = {name: M2MEstimator(s, schema=(0, 1), prior="uniform") for name, s in paper.items()}
    made["HIST + RFF, marginals"] = M2MEstimator(both, schema=(0, 1), prior="marginals")
    made["adaptive"] = M2MEstimator(schema=(0, 1), **budget)
    return made


def scaled(X, ranges):
    """Return columns of numbers clipped to their ranges, or to one range, and scaled to [0, 1]."""
    low, high = np.transpose(ranges)
    return np.clip((X - low) / (high - low), 0, 1)


def queries(rng, d, count=100):
    """Return functions of rows: conjunctions of three one-sided predicates."""
    columns = [rng.choice(d, 3, replace=False).tolist() for _ in range(count)]
    cuts, signs = rng.random((count, 3)), rng.choice([-1, 1], (count, 3))

    def conjunction(which, cut, sign):
        def holds(X):
            found = [s * (X[:, j] - c) <= 0 for j, c, s in zip(which, cut, sign, strict=True)]
            return np.all(found, axis=0)

        return holds

    return [conjunction(*one) for one in zip(columns, cuts, signs, strict=True)]


def errors(model, X, rng):
    """Return the five measures of one fitted estimator against the truth."""
    d = X.shape[1]
    relative = [
        np.mean(np.abs(np.asarray(model.moment(k)) / np.mean(X**k, axis=0) - 1)) for k in (1, 2)
    ]
    cuts = np.arange(1, 11) / 10
    cdf = [
        np.abs(np.asarray(model.cdf(j, cuts)) - (X[:, [j]] <= cuts).mean(axis=0)).mean()
        for j in range(d)
    ]
    covariance = np.linalg.norm(np.asarray(model.covariance()) - np.cov(X.T, bias=True))
    asked = queries(rng, d) if d >= 3 else []
    missed = [abs(float(model.estimate(holds)) - holds(X).mean()) for holds in asked]
    return [*relative, np.mean(cdf), covariance, np.mean(missed or [np.nan])]


def run(X_of_run, runs, epsilons, delta, names):
    """Print one line per sketch and epsilon: the mean over runs."""
    print(f"{'sketch':<24}{'epsilon':>8}" + "".join(f"{m:>12}" for m in MEASURES) + f"{'s/run':>8}")
    for name in names:
        for epsilon in epsilons:
            found, start = [], time.perf_counter()
            for seed in range(runs):
                X = X_of_run(seed)
                model = estimators(epsilon, delta)[name].set_params(random_state=seed).fit(X)
                found.append(errors(model, X, np.random.default_rng(seed)))
            seconds = (time.perf_counter() - start) / runs
            cells = "".join(f"{m:>12.3g}" for m in np.mean(found, axis=0))
            print(f"{name:<24}{epsilon:>8g}{cells}{seconds:>8.1f}", flush=True)


def read(arguments):
    """Return the table, scaled to [0, 1] by public ranges."""
    if arguments.adult:
        import pandas as pd

        frame = pd.read_csv(arguments.adult, header=None, skipinitialspace=True, na_values="?")
        X, ranges = frame[list(ADULT_COLUMNS)].to_numpy(float), list(ADULT_COLUMNS.values())
    elif arguments.covertype:
        X = np.load(arguments.covertype)["X"][:, :10].astype(float)
        ranges = COVERTYPE_RANGES
    else:
        X = np.genfromtxt(arguments.csv, delimiter=",", skip_header=1)
        X = X[:, np.isfinite(X).all(axis=0)]
        if arguments.ranges is None:
            print("ranges taken from the file: not private, for trying out only")
            ranges = list(zip(X.min(axis=0), X.max(axis=0) + 1e-9, strict=True))
        elif Path(arguments.ranges).exists():
            ranges = [tuple(pair) for pair in np.loadtxt(arguments.ranges, delimiter=",")]
        else:
            ranges = tuple(float(b) for b in arguments.ranges.split(","))
    return scaled(X, ranges)


def main():
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--ranges")
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--covertype", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--delta", type=float, default=0.0, help="0 (the paper's): pure DP")
    parser.add_argument("--epsilons", default="1,inf")
    parser.add_argument("--sketches", nargs="+", choices=list(estimators(1.0, 0.0)))
    arguments = parser.parse_args()
    # The truth is at hand, and the paper's sketches miss much.
    warnings.simplefilter("ignore", AnswerWarning)
    epsilons = [float(e) for e in arguments.epsilons.split(",")]
    names = arguments.sketches or list(estimators(1.0, 0.0))
    if arguments.csv or arguments.adult or arguments.covertype:
        table = read(arguments)
        print(f"{table.shape[0]} x {table.shape[1]}, delta = {arguments.delta:g}")
        run(lambda seed: table, arguments.runs, epsilons, arguments.delta, names)
    else:
        print(f"Random10: 27,000 x 10 uniform, delta = {arguments.delta:g}")
        draw = lambda seed: np.random.default_rng(seed).random((27_000, 10))  # noqa: E731
        run(draw, arguments.runs, epsilons, arguments.delta, names)


if __name__ == "__main__":
    main()
