"""Speed of the kernel learners' solver, certificate and all.

    python examples/benchmarks/learners.py [--data FILE] [--cases svc wide] [--rows N] [--json FILE]

FILE is an npz of UCI Covertype (X of shape (n, 54), y in 1..7), its numbers scaled to [0, 1] by
public bounds here, class 2 against the rest. Without FILE, rows are synthetic.

    svc    20,000 rows, RBF kernel: fit of PINPClassifier(loss="logistic", epsilon=inf), which is
           the kernel matrix and the exact solver, against SVC(kernel="rbf", C=1/Lambda, tol=1e-3)
           on the same rows and gamma. Wanted: at most twice SVC's time
    wide   500,000 rows (those of FILE again, moved a little) by a map of 500 random features:
           fit of TDILClassifier. Wanted: under 24 s by default, and under 2 GB beyond the input

Seconds are those of the wall, on as many cores as there are; "cpu" those of all threads. With
``--json``, give one case.
"""

import argparse
import math
import resource
import time

import _results
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import SVC

from skdpsumm import PINPClassifier, TDILClassifier

# As in learner_rivals.py.
LOW = np.array([1800, 0, 0, 0, -200, 0, 0, 0, 0, 0])
HIGH = np.array([3900, 360, 70, 1400, 610, 7200, 255, 255, 255, 7200])


def covertype(path, n_rows, rng):
    """Return X of shape (n_rows, 54) and y; rows of the file in turn, moved where they repeat."""
    with np.load(path) as file:
        X, y = file["X"].astype(np.float64), file["y"] == 2
    X[:, :10] = np.clip((X[:, :10] - LOW) / (HIGH - LOW), 0, 1)
    rows = rng.permutation(len(X))[np.arange(n_rows) % len(X)]
    X, y = X[rows], y[rows]
    if n_rows > len(np.unique(rows)):
        X[:, :10] += 0.02 * rng.normal(size=(n_rows, 10))
    return X, y


def synthetic(n_rows, rng):
    """Return X in the unit cube, 54 columns, and noisy y that no linear function fits."""
    X = rng.random((n_rows, 54))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n_rows) > 0.7


def timed(task):
    """Return what the task returns, and its seconds of wall and of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = task()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def against_svc(X, y, gammas, lambdas, repeats, path):
    rows = []
    print(f"{len(X):,} rows, RBF kernel: wall (cpu) seconds, medians of {repeats}, in turns")
    print("  gamma  Lambda        SVC, hinge   kernel logistic   ratio")
    for gamma in gammas:
        for regularization in lambdas:
            svc = SVC(kernel="rbf", gamma=gamma, C=1 / regularization, tol=1e-3)
            ours = PINPClassifier(
                kernel="rbf",
                gamma=gamma,
                loss="logistic",
                regularization=regularization,
                epsilon=math.inf,
            )
            times = [
                [timed(lambda m=m: m.fit(X, y))[1:] for m in (svc, ours)] for _ in range(repeats)
            ]
            (a, a_cpu), (b, b_cpu) = np.median(times, axis=0)
            rows.append([gamma, regularization, round(b, 1), round(a, 1), round(b_cpu, 1)])
            print(
                f"{gamma:7g} {regularization:7g}   {a:7.1f} ({a_cpu:5.1f})   "
                f"{b:7.1f} ({b_cpu:5.1f})   {b / a:5.2f}",
                flush=True,
            )
    _results.store(
        path,
        job="learn",
        title="Time of an exact kernel",
        about=f"{len(X):,} rows, RBF kernel, logistic loss: seconds to a certified minimum with "
        "its Gram matrix, on two cores, and their CPU seconds. `SVC` uses one.",
        columns=["gamma", "Lambda", "ours", "SVC", "CPU s"],
        rows=rows,
    )


def wide(X, y, mechanism):
    model = TDILClassifier(
        kernel=RBFSampler(gamma=2.0, n_components=500, random_state=0),
        mechanism=mechanism,
        epsilon=1.0,
        delta=1e-6,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model, wall, cpu = timed(lambda: model.fit(X, y))
    beyond = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(
        f"{len(X):,} rows, 500 random features, {mechanism}: {wall:.1f} s ({cpu:.1f} cpu), "
        f"{beyond:.2f} GiB beyond the input, accuracy {model.score(X[:20_000], y[:20_000]):.3f}",
        flush=True,
    )
    return [mechanism, round(wall, 1), round(cpu, 1), round(beyond, 2)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="npz of Covertype")
    parser.add_argument("--cases", nargs="+", default=["wide", "svc"], choices=["svc", "wide"])
    parser.add_argument("--rows", type=int, help="another number of rows, to try")
    parser.add_argument("--gammas", nargs="+", type=float, default=[0.5, 2.0, 8.0])
    parser.add_argument("--lambdas", nargs="+", type=float, default=[10.0, 1.0])
    parser.add_argument("--repeats", type=int, default=1)
    known = ["auto", "objective", "functional"]
    parser.add_argument("--mechanisms", nargs="+", default=known, choices=known, help="of wide")
    _results.add_argument(parser)
    options = parser.parse_args()

    def rows(default):
        n_rows, rng = options.rows or default, np.random.default_rng(0)
        return covertype(options.data, n_rows, rng) if options.data else synthetic(n_rows, rng)

    if "wide" in options.cases:
        table = rows(500_000)
        lines = [wide(*table, mechanism) for mechanism in options.mechanisms]
        _results.store(
            options.json,
            job="learn",
            title=f"Time of {len(table[0]):,} rows",
            about="`TDILClassifier` at epsilon = 1, delta = 1e-6 on 500 random features of 54 "
            "columns, by its mechanism: seconds, CPU seconds, and memory beyond the input.",
            columns=["mechanism", "seconds", "CPU s", "GiB"],
            rows=lines,
        )
        del table
    if "svc" in options.cases:
        against_svc(*rows(20_000), options.gammas, options.lambdas, options.repeats, options.json)


if __name__ == "__main__":
    main()
