"""NIST's Collaborative Research Cycle: the k-marginal score of synthetic rows at epsilon = 1.

    python examples/benchmarks/nist.py --data FOLDER [--out FILE] [--rivals FILE] [--json FILE]
        [--sets demographic industry family simple] [--mechanisms ours] [--seeds 3] [--quick]

FOLDER has a part of the American Community Survey, 27,253 rows of 20 areas (PUMA), and its public
dictionary, as national2019.csv and national2019.json, or these with .gz. Both are in the folder
nist-diverse-community-excerpts of https://github.com/usnistgov/SDNist, at
BenchmarkData/ACSDataExcerpts/national (the table by Git LFS).

The score is SDNist's, 1000 (1 - total variation), a mean over all pairs of columns. Where PUMA is
among the columns, each pair of the others is crossed with it. Numbers are in 20 bins of about
equally many rows. ``ours`` is ``M2MEstimator(schema, epsilon)`` and as many rows of `sample` as the
table has. The schema is the dictionary: ranges, lists of values, and which columns may be empty.
Nothing is read off the rows, the score's bins included. Add/remove, delta = 1e-5. ``named`` is told
what the score asks, as AIM is: its sketcher has PUMA as the target.

``--mechanisms aim mst`` runs dpmm's instead, in the environment that rivals_wide.py describes. They
are given the score's own bins, for free. AIM's workload is what the score asks, and its models have
at most ``--megabytes`` and ``--iterations`` of mirror descent a round.

Each run is a line of JSON in FILE; what is there is not run again. ``--rivals`` names such a file,
by default results/rivals_nist.jsonl. ``--bounds`` adds what keeps the score down: that of the
table's own bootstrap, and that of releases at epsilon = 100, where noise is next to nothing.
"""

import argparse
import gzip
import itertools
import json
import time
from pathlib import Path

import _results
import _tables
import numpy as np
import pandas as pd

EPSILON, DELTA = 1.0, 1e-5
# PUMA last: rivals_wide.py takes the last column for the one that triples have.
SETS = {
    "demographic": "AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET DEYE",
    "industry": "SEX MSP HISP RAC1P OWN_RENT INDP_CAT EDU PINCP_DECILE PUMA",
    "family": "AGEP SEX MSP HISP RAC1P NOC NPF OWN_RENT PINCP_DECILE POVPIP PUMA",
    "simple": "AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT DENSITY INDP_CAT EDU PINCP "
    "PINCP_DECILE POVPIP DVET DREM DPHY DEYE DEAR PUMA",
}
# The best that was published at epsilon = 1: sample reports of SDNist 2.5, and the index of the
# Cycle's metrics (crc_data_and_metric_bundle_1.1).
PUBLISHED = {
    "demographic": (976, "AIM"),
    "industry": (841, "MST"),
    "family": (804, "MST"),
    "simple": (851, "Private-GSD"),
}
WHOLE = ("AGEP", "POVPIP")  # the survey's documentation
RIVALS = Path(__file__).parent / "results" / "rivals_nist.jsonl"


class Excerpt:
    """Some columns of the table, the dictionary, and the cells of the score.

    Attributes
    ----------
    columns : list of str
    train : DataFrame
        Numbers, NaN where there is none, and values as words.
    sizes : dict
        Number of the score's cells of each column.
    """

    def __init__(self, folder, columns):
        self.columns = columns
        with opened(folder, "national2019.json") as file:
            self.dictionary = json.load(file)["schema"]
        with opened(folder, "national2019.csv") as file:
            raw = pd.read_csv(file, dtype=str, keep_default_na=False)
        self.numbers = [c for c in columns if "values" not in self.dictionary[c]]
        self.train = raw[columns].copy()
        for c in self.numbers:
            self.train[c] = pd.to_numeric(raw[c].where(raw[c] != "N"))
        self._edges = {c: self._edges_of(c) for c in self.numbers}
        sizes = {c: len(self._edges[c]) + 2 for c in self.numbers}
        self.sizes = {c: sizes[c] if c in sizes else len(self._values(c)) for c in columns}

    def _values(self, column):
        return [str(value) for value in self.dictionary[column]["values"]]

    def _edges_of(self, column):
        """Return where the score cuts a column of numbers, as SDNist 2.5 does."""
        if column == "DENSITY":
            return 150 * 2 ** (np.arange(14) / 1.5)
        ranks = np.arange(19) * 100 / 19
        values = self.train[column].dropna()
        return np.unique(np.percentile(values, ranks, method="higher"))

    def schema(self):
        """Return the schema that the dictionary tells."""
        from skdpsumm import Categorical, Numeric, TableSchema

        described = {}
        for c in self.columns:
            known = self.dictionary[c]
            if c in self.numbers:
                step = {"step": 1} if c in WHOLE else {}
                empty = known.get("has_null", False)
                described[c] = Numeric(known["min"], known["max"], missing=empty, **step)
            else:
                described[c] = Categorical(self._values(c))
        return TableSchema(described)

    def codes(self, frame):
        """Return the score's cell of each value; the last of a number's is for no value."""
        out = {}
        for c in self.columns:
            if c in self.numbers:
                values = frame[c].to_numpy(float)
                found = np.searchsorted(self._edges[c], values, side="right")
                out[c] = np.where(np.isnan(values), self.sizes[c] - 1, found)
            else:
                out[c] = pd.Categorical(frame[c], categories=self._values(c)).codes.astype(int)
                assert out[c].min() >= 0, c
        return pd.DataFrame(out)

    def score(self, codes):
        """Return the k-marginal score of rows, given by their cells."""
        truth, area = self.codes(self.train), ["PUMA"] * ("PUMA" in self.columns)
        others = [c for c in self.columns if c != "PUMA"]
        groups = [(*area, *pair) for pair in itertools.combinations(others, 2)]
        tables = ([_tables.marginal(of, self.sizes, g) for of in (truth, codes)] for g in groups)
        return 1000 * (1 - float(np.mean([_tables.distance(*both) for both in tables])))


def opened(folder, name):
    """Return a file of the folder, packed or not."""
    path = folder / f"{name}.gz"
    return gzip.open(path) if path.exists() else (folder / name).open("rb")


def ours(excerpt, seed, settings):
    """Return the cells of synthetic rows of the default release."""
    return rows_of(excerpt, seed, EPSILON)


def named(excerpt, seed, settings):
    """Return the same of a release that is told what the score asks: PUMA with all pairs."""
    return rows_of(excerpt, seed, EPSILON, "PUMA" if "PUMA" in excerpt.columns else None)


def rows_of(excerpt, seed, epsilon, target=None):
    """Return the cells of synthetic rows of a release."""
    from skdpsumm import AdaptiveSketcher, M2MEstimator

    sketcher = AdaptiveSketcher(excerpt.schema(), epsilon=epsilon, delta=DELTA, target=target)
    model = M2MEstimator(release=sketcher, random_state=seed)
    model.fit(excerpt.train)
    return excerpt.codes(model.sample(len(excerpt.train), random_state=seed))


def rival(mechanism):
    """Return a function as `ours` for a mechanism of dpmm."""

    def drawn(excerpt, seed, settings):
        import rivals_wide

        model = rivals_wide.fitted(mechanism, excerpt, EPSILON, DELTA, seed, settings)
        return model.generate(n_records=len(excerpt.train))[excerpt.columns]

    return drawn


MECHANISMS = {"ours": ours, "named": named, "aim": rival("aim"), "mst": rival("mst")}


def measure(excerpt, mechanism, seed, settings):
    """Return a line of the output."""
    start = time.process_time()
    codes = MECHANISMS[mechanism](excerpt, seed, settings)
    seconds = time.process_time() - start
    return {"score": round(excerpt.score(codes), 1), "cpu_s": round(seconds, 1)}


def resampled(excerpt):
    """Return the score of as many rows of the table, drawn with replacement."""
    rows = excerpt.train.sample(len(excerpt.train), replace=True, random_state=0)
    return excerpt.score(excerpt.codes(rows))


def bounds(excerpt):
    """Return scores of what a release could be: its own, without noise, and of what it counts."""
    return {
        "bootstrap": resampled(excerpt),
        "epsilon = 100": excerpt.score(rows_of(excerpt, 0, 100.0)),
    }


def mean_of(runs, name, mechanism):
    """Return the mean of a mechanism's seeds, None where there is none."""
    found = [r["score"] for r in runs if (r["set"], r["mechanism"]) == (name, mechanism)]
    return round(float(np.mean(found)), 1) if found else None


def show(excerpts, runs, path):
    """Print the scores, and store them."""
    rows = []
    for name, excerpt in excerpts.items():
        best, method = PUBLISHED[name]
        *ours, aim, mst = (mean_of(runs, name, one) for one in MECHANISMS)
        rows.append(
            [
                name,
                *ours,
                f"{aim or '-'}, {mst or '-'}",
                f"{best} ({method})",
                round(resampled(excerpt), 1),
            ]
        )
        print(*rows[-1])
    seeds = len({run["seed"] for run in runs if run["mechanism"] == "ours"})
    _results.store(
        path,
        job="sketch",
        title="NIST's Collaborative Research Cycle",
        about="K-marginal score of synthetic rows, at most 1000, on four sets of columns of "
        f"national2019 (27,253 rows) at epsilon 1, delta 1e-5. Ours is `M2MEstimator(schema, "
        f"epsilon)` with a schema from the public dictionary alone, mean of {seeds} seeds; then "
        "the same with `target='PUMA'`, where the score crosses all with PUMA. Beside "
        "it dpmm 0.1.9, one seed, which is given the score's own bins. AIM has models of 20 MB and "
        "100 iterations a round; a dash is a run that was not made. Published is the best that "
        "NIST has at epsilon 1. Bootstrap is the score of the table's own rows, drawn with "
        "replacement.",
        columns=["columns", "ours", "PUMA named", "AIM, MST", "best published", "bootstrap"],
        rows=rows,
    )


def main():
    """Run what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rivals", type=Path, default=RIVALS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=["ours"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed of one set")
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--megabytes", type=float, default=80.0)
    parser.add_argument("--iterations", type=int, default=1000)
    _results.add_argument(parser)
    settings = parser.parse_args()
    if settings.quick:
        settings.sets, settings.seeds = ["demographic"], 1
    settings.rounds = None
    excerpts = {name: Excerpt(settings.data, SETS[name].split()) for name in settings.sets}
    runs = _tables.lines(settings.out)
    for seed, mechanism, (name, excerpt) in itertools.product(
        range(settings.seeds), settings.mechanisms, excerpts.items()
    ):
        run = {"set": name, "mechanism": mechanism, "epsilon": EPSILON, "seed": seed}
        if mechanism == "aim":
            run |= {"megabytes": settings.megabytes, "iterations": settings.iterations}
        if not any(run.items() <= line.items() for line in runs):
            settings.workload = "label" if "PUMA" in excerpt.columns else "pairs"
            run |= measure(excerpt, mechanism, seed, settings)
            _tables.append(settings.out, run)
            runs.append(run)
            print(json.dumps(run), flush=True)
    if settings.bounds:
        for name, excerpt in excerpts.items():
            print(name, {what: round(score, 1) for what, score in bounds(excerpt).items()})
    show(excerpts, runs + _tables.lines(settings.rivals), settings.json)


if __name__ == "__main__":
    main()
