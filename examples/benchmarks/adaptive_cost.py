"""Seconds and memory of the default release of a wide table, with no data needed.

    python examples/benchmarks/adaptive_cost.py [--sizes 14x40000 50x40000 14x1000000]
        [--epsilon 1] [--repeats 3] [--out FILE] [--json FILE] [--quick]

The tables are synthetic: half of the columns are numbers (whole ones, skewed ones with an atom at
zero, even ones), half categories (2 to 20 of them), and all depend on one hidden column. Each fit
has a process of its own, with one BLAS thread.

Prints, for each size, medians of

    release     CPU seconds of ``AdaptiveSketcher(schema).fit(frame)``: all that reads rows
    fit         CPU seconds of ``M2MEstimator(schema, epsilon).fit(frame)``, which makes the same
                release and prepares to answer
    first, next CPU seconds of ``count`` with its interval: the first one, and one after it
    peak        MB of memory at the most, and what that is above what the process had before

and beside it what was wanted: 3, 15 and 10 CPU seconds for the fit, and less than 1 GB. Two minutes
in all; ``--quick``, the first size once, ten seconds.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import _results
import _tables
import numpy as np
import pandas as pd
import psutil

from skdpsumm import M2MEstimator, Numeric, TableSchema

SIZES = ("14x40000", "50x40000", "14x1000000")
WANTED = {"14x40000": 3, "50x40000": 15, "14x1000000": 10}


def table(n_columns, n_rows):
    """Return a frame and its schema."""
    rng = np.random.default_rng(0)
    hidden = rng.random(n_rows, dtype=np.float32)
    frame, public = {}, {}
    for j in range(n_columns):
        mixed = np.where(rng.random(n_rows) < 0.6, hidden, rng.random(n_rows, dtype=np.float32))
        name = f"c{j:02d}"
        if j % 2:
            k = 2 + (7 * j) % 19
            words = np.array([f"word{i}" for i in range(k)], dtype=object)
            frame[name] = words[np.minimum((k * mixed**2).astype(int), k - 1)]
            public[name] = words.tolist()
        elif j % 6 == 0:
            frame[name], public[name] = np.floor(100 * mixed), Numeric(0, 99, step=1)
        elif j % 6 == 2:
            long_tail = np.where(mixed < 0.7, 0.0, np.round(30 * np.exp(25 * (mixed - 0.7))))
            frame[name], public[name] = long_tail.clip(0, 60_000), Numeric(0, 60_000, step=1)
        else:
            frame[name], public[name] = mixed.astype(np.float64), Numeric(0, 1)
    return pd.DataFrame(frame), TableSchema(public)


def megabytes():
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(what, size, epsilon):
    """Return what one fit takes."""
    frame, schema = table(*map(int, size.split("x")))
    before = psutil.Process().memory_info().rss / 2**20
    if what == "release":
        from skdpsumm import AdaptiveSketcher

        estimator = AdaptiveSketcher(schema, epsilon=epsilon, random_state=0)
    else:
        estimator = M2MEstimator(schema, epsilon=epsilon, random_state=0)
    warnings.simplefilter("ignore")
    wall, start = time.perf_counter(), time.process_time()
    estimator.fit(frame)
    found = {"cpu_s": time.process_time() - start, "wall_s": time.perf_counter() - wall}
    found |= {"peak_mb": megabytes(), "above_mb": megabytes() - before}
    if what == "fit":
        for name, column in (("first_s", "c00"), ("next_s", "c06")):
            start = time.process_time()
            estimator.count(
                lambda rows, c=column: (rows[c] > 50) & (rows["c01"] == "word1")
            ).interval()
            found[name] = time.process_time() - start
    return found


def in_a_process(what, size, epsilon):
    """Return `measure` of a fresh process."""
    command = [sys.executable, __file__, "--one", what, "--sizes", size, "--epsilon", str(epsilon)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="columns x rows")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", choices=["release", "fit"], help=argparse.SUPPRESS)
    _results.add_argument(parser)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.sizes[0], arguments.epsilon)))
        return
    if arguments.quick:
        arguments.sizes, arguments.repeats = SIZES[:1], 1
    names = ["release", "fit", "wanted", "first", "next", "peak MB", "above MB"]
    print(f"{'columns x rows':<16}" + "".join(f"{name:>10}" for name in names))
    rows = []
    for size in arguments.sizes:
        runs = {
            what: [in_a_process(what, size, arguments.epsilon) for _ in range(arguments.repeats)]
            for what in ("release", "fit")
        }
        _tables.append(arguments.out, {"size": size, "epsilon": arguments.epsilon} | runs)

        def middle(key, what="fit", runs=runs):
            return float(np.median([run[key] for run in runs[what]]))

        numbers = [middle("cpu_s", "release"), middle("cpu_s"), WANTED.get(size, np.nan)]
        numbers += map(middle, ("first_s", "next_s", "peak_mb", "above_mb"))
        print(f"{size:<16}" + "".join(f"{number:>10.1f}" for number in numbers), flush=True)
        seconds = [round(numbers[k], 2) for k in (0, 1, 4)]
        rows.append([size, *seconds, round(numbers[5] / 1000, 2)])
    _results.store(
        arguments.json,
        job="sketch",
        title="Cost of the default release",
        about="Synthetic tables, half of the columns numbers and half categories, by columns x "
        f"rows: medians, number of fits: {arguments.repeats}, each in a process of its own with "
        "one BLAS thread. CPU seconds of the release alone, of a fit with all that answers need, "
        "and of one count with its interval. GB: all memory of the process, Python, libraries and "
        "the frame too.",
        columns=["table", "release", "fit", "count", "GB"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
