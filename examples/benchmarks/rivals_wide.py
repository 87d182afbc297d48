"""AIM and MST on the tables of wide.py, at their best, with the same scores.

    python examples/benchmarks/rivals_wide.py --data FOLDER [--out FILE] [--quick]
        [--mechanisms aim mst] [--tables adult acs covertype] [--epsilons 0.1 1] [--seeds 3]
        [--workload label] [--megabytes 80] [--iterations 1000] [--rounds N]

It runs dpmm 0.1.9, which pins numpy 1.26 and scikit-learn 1.5 and wants Python 3.10 or 3.11, so in
an environment of its own:

    python3.11 -m venv rivals
    rivals/bin/pip install dpmm==0.1.9
    rivals/bin/python examples/benchmarks/rivals_wide.py --data FOLDER

FOLDER is described in _tables.py. The rivals are given the hand grid: bins that somebody chose who
knows the table, which skdpsumm is not given. AIM's model may take 80 MB, as its authors recommend
for comparisons, with 1,000 iterations of mirror descent a round; its workload is all pairs, and
with ``--workload label`` (the default) all triples with the label too, of at most 10,000 cells.
Add/remove, delta = 1e-6. Answers are read from ten synthetic rows for each row of the table, so
that drawing them costs nothing; models are trained on as many rows as the table has.

Prints a line a run: mean total variation of all pairs (tv2) and of 30 triples (tv3), mean error of
200 counts with three conditions as a share of the rows, relative error of the worst mean (that of
capital gains and losses apart), AUC of logistic regression and of HistGradientBoosting, CPU
seconds, peak memory. FILE gets the same as JSON lines, and what it has already is not run again.
At its best AIM takes hours a run on one core, MST a minute; ``--quick`` (2 MB, 100 iterations, one
seed of Adult) some six minutes.
"""

import argparse
import itertools
import resource
import time
from pathlib import Path

import _tables
import numpy as np
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM

DELTA = 1e-6
_MOST_CELLS = 10_000
_LAST_ITERATIONS = 1000


def fitted(mechanism, table, epsilon, delta, seed, settings):
    """Return a fitted model of the cells of a table."""
    common = {
        "epsilon": epsilon,
        "delta": delta,
        "n_iters": settings.iterations,
        "domain": table.sizes,
        "random_state": np.random.RandomState(seed),
        "n_jobs": 1,
        "compress": True,  # rare values of a column become one
    }
    codes = table.codes(table.train)
    if mechanism == "mst":
        model = MSTGM(**common)
        model.fit(codes)
        return model
    model = AIMGM(**common, max_model_size=settings.megabytes, rounds=settings.rounds)
    measure_all = model.generator._fit

    def then_patiently(*args, **options):
        measured = measure_all(*args, **options)
        # dpmm fits the last model from scratch, whatever the rounds were given.
        model.generator.n_iters = max(settings.iterations, _LAST_ITERATIONS)
        return measured

    model.generator._fit = then_patiently
    model.generator.fit(codes, W=workload(table, settings.workload))
    return model


def workload(table, kind):
    """Return AIM's workload, pairs of a group and its weight."""
    groups = _tables.pairs(table)
    if kind == "label":
        *inputs, label = table.columns
        groups += [(*pair, label) for pair in itertools.combinations(inputs, 2)]
    sizes = table.sizes
    return [(g, 1.0) for g in groups if np.prod([sizes[c] for c in g]) <= _MOST_CELLS]


def scores(table, codes, seed):
    """Return the scores of synthetic rows, given by their cells."""
    truth, sizes = table.codes(table.train), table.sizes
    triples, counts = _tables.questions(table)

    def off(groups):
        return float(
            np.mean(
                [
                    _tables.distance(
                        _tables.marginal(truth, sizes, g), _tables.marginal(codes, sizes, g)
                    )
                    for g in groups
                ]
            )
        )

    rows = table.rows(codes, seed)
    held = [_tables.holds(table, conditions) for conditions in counts]
    errors = [abs(query(rows).mean() - query(table.train).mean()) for query in held]
    means = rows[table.numeric].mean() / table.train[table.numeric].mean() - 1
    found = {"tv2": off(_tables.pairs(table)), "tv3": off(triples), "counts": np.mean(errors)}
    found |= _tables.mean_scores(means)
    if len(table.test):
        some = rows.sample(len(table.train), random_state=seed)
        found |= _tables.model_scores(table, some)
    return {name: float(value) for name, value in found.items()}


def measure(mechanism, table, epsilon, seed, settings):
    """Return a line of the output."""
    start = time.process_time()
    model = fitted(mechanism, table, epsilon, DELTA, seed, settings)
    seconds = time.process_time() - start
    codes = model.generate(n_records=10 * len(table.train))[table.columns]
    return scores(table, codes, seed) | {
        "cpu_s": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "groups": [list(clique) for clique in model.generator.cliques],
    }


def main():
    """Run what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--mechanisms", nargs="+", default=["aim", "mst"])
    parser.add_argument("--tables", nargs="+", default=["adult", "acs", "covertype"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workload", choices=["pairs", "label"], default="label")
    parser.add_argument("--megabytes", type=float, default=80.0)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--rounds", type=int, help="16 a column where it is not given")
    settings = parser.parse_args()
    if settings.quick:
        settings.tables, settings.epsilons, settings.seeds = ["adult"], [1.0], 1
        settings.megabytes, settings.iterations = 2.0, 100
    done = _tables.lines(settings.out)
    for name in settings.tables:
        table = _tables.load(name, settings.data)
        for seed, epsilon, mechanism in itertools.product(
            range(settings.seeds), settings.epsilons, settings.mechanisms
        ):
            run = {"table": name, "mechanism": mechanism, "epsilon": epsilon, "seed": seed}
            if mechanism == "aim":
                run |= {"megabytes": settings.megabytes, "iterations": settings.iterations}
                run |= {"workload": settings.workload, "rounds": settings.rounds}
            if not any(run.items() <= line.items() for line in done):
                found = measure(mechanism, table, epsilon, seed, settings)
                _tables.append(settings.out, run | found)
                shown = " ".join(f"{k} {v:.4g}" for k, v in found.items() if k != "groups")
                print(f"{name} {mechanism} epsilon {epsilon:g} seed {seed}: {shown}", flush=True)


if __name__ == "__main__":
    main()
