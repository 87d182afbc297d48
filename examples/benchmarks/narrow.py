"""The default release of narrow tables of numbers, against Fourier features and histograms.

    python examples/benchmarks/narrow.py [--data FOLDER] [--out FILE] [--seeds 5]
        [--tables random10 xor cancer occupancy] [--sketches adaptive fourier histograms pairs]
        [--epsilons 0.1 0.3 1 3] [--delta 1e-6] [--json FILE]

Tables of two to thirty numbers, some with a label of two classes:

    random10     27,000 x 10 uniform numbers, drawn anew for each seed
    xor          20,000 x 5 uniform numbers; the label is the xor of two of them, to 90 per cent
    cancer       scikit-learn's breast cancer, 569 x 30; two of them for questions
    occupancy    UCI's Occupancy Detection, 20,560 x 5; FOLDER is described in _tables.py

Sketches, with the same budget:

    adaptive     the default of ``M2MEstimator`` and ``M2MClassifier``
    fourier      the default of the first version: Fourier features beside histograms of the
                 columns, each with the label for models
    histograms   those histograms alone
    pairs        histograms of all pairs in 8 bins (of five bins where all 30 columns are asked)

Prints means over seeds, in units of the columns' ranges:

    mean, variance        mean error over the columns
    covariance            mean error of all pairs of columns
    cdf                   mean error over the columns at the deciles of the range
    counts                mean error of 60 counts with one, two or three conditions, over the rows
    lr, hgb               AUC on the fifth of the rows that is held out: logistic regression and
                          HistGradientBoosting, both trained on one release

and CPU seconds of a fit with all its answers, or its models. Noise is fresh in every run.
``--json`` stores the counts of the first table. ``--time-counts`` prints, instead of all this, the
CPU seconds of one count with its interval from a default release of random10.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import _results
import _tables
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdpsumm import HistogramSketcher, M2MClassifier, M2MEstimator, RFFSketcher, SketchUnion

SCORES = ("mean", "variance", "covariance", "cdf", "counts", "lr", "hgb", "cpu_s")
COLUMNS = {
    "adaptive": "default",
    "fourier": "Fourier and histograms",
    "histograms": "single columns",
    "pairs": "pairs",
}
# Public extremes of the columns, to two digits, as the description of the data has them.
TWO_OF_CANCER = {"mean radius": (5, 30), "mean concavity": (0, 0.5)}
# What such sensors can read.
OCCUPANCY = {
    "Temperature": (10, 40),
    "Humidity": (0, 100),
    "Light": (0, 2000),
    "CO2": (300, 3000),
    "HumidityRatio": (0, 0.02),
}


def random10(seed, _):
    """Return uniform numbers, and no label."""
    X = np.random.default_rng(seed).random((27_000, 10))
    return frame_of(X), None, dict.fromkeys(frame_of(X), (0, 1))


def xor(seed, _):
    """Return uniform numbers, and the xor of two of them, a tenth of which is turned round."""
    rng = np.random.default_rng(seed)
    X = rng.random((20_000, 5))
    label = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5) ^ (rng.random(len(X)) < 0.1)
    return frame_of(X), label, dict.fromkeys(frame_of(X), (0, 1))


def cancer(_seed, _):
    """Return thirty measurements, and if a tumour is benign."""
    data = load_breast_cancer(as_frame=True)
    widest = {c: (0.0, float(f"{1.1 * data.data[c].max():.1g}")) for c in data.data}
    return (
        data.data.clip(0, pd.Series({c: high for c, (_, high) in widest.items()}), axis=1),
        (data.target == 1).to_numpy(),
        widest,
    )


def occupancy(_seed, folder):
    """Return five sensors, and if somebody is there."""
    files = sorted((folder / "occupancy").glob("data*.txt"))
    frame = pd.concat([pd.read_csv(path) for path in files], ignore_index=True)
    return frame[[*OCCUPANCY]], frame["Occupancy"].to_numpy() == 1, OCCUPANCY


TABLES = {"random10": random10, "xor": xor, "cancer": cancer, "occupancy": occupancy}


def frame_of(X):
    """Return numbers as a frame."""
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


def sketcher(name, d, budget, *, label):
    """Return the keywords of an estimator that releases such a sketch."""
    if name == "adaptive":
        return budget
    with_label = [[j, d] for j in range(d)]
    histograms = (
        HistogramSketcher(marginals=with_label, n_bins=8) if label else HistogramSketcher(n_bins=32)
    )
    made = {
        "histograms": histograms,
        "fourier": SketchUnion([histograms, RFFSketcher(gamma=2.0 if label else "auto")]),
        "pairs": HistogramSketcher(marginals=2, n_bins=8 if d < 30 else 5),
    }
    return {"release": made[name].set_params(**budget)}


def conditions(rng, frame, ranges):
    """Return 60 conjunctions of one, two or three one-sided conditions."""
    found = []
    for k in range(60):
        columns = rng.choice(frame.columns, min(k % 3 + 1, frame.shape[1]), replace=False)
        found.append([(c, rng.uniform(*ranges[c]), rng.random() < 0.5) for c in columns])
    return found


def holds(which):
    """Return conditions as a function of rows."""

    def query(rows):
        found = True
        for c, cut, below in which:
            found = found & ((rows[c] <= cut) == below)
        return found

    return query


def answers(name, frame, ranges, budget, seed):
    """Return the errors of answers from one release."""
    low, high = np.transpose([ranges[c] for c in frame])
    width, rng = high - low, np.random.default_rng(seed)
    model = M2MEstimator(
        ranges, random_state=seed, **sketcher(name, len(ranges), budget, label=False)
    )
    model.fit(frame)
    X = frame.to_numpy()
    off_covariance = (np.asarray(model.covariance()) - np.cov(X.T, bias=True)) / np.outer(
        width, width
    )
    deciles = np.linspace(low, high, 11)[1:-1]
    asked = conditions(rng, frame, ranges)
    return {
        "mean": np.mean(np.abs(np.asarray(model.mean()) - X.mean(axis=0)) / width),
        "variance": np.mean(np.abs(np.asarray(model.variance()) - X.var(axis=0)) / width**2),
        "covariance": np.mean(np.abs(off_covariance[np.triu_indices(len(width), 1)])),
        "cdf": np.mean(
            [
                np.abs(np.asarray(model.cdf(j, cuts)) - (X[:, [j]] <= cuts).mean(axis=0))
                for j, cuts in enumerate(deciles.T)
            ]
        ),
        "counts": np.mean(
            [
                abs(float(model.estimate(holds(which))) - holds(which)(frame).mean())
                for which in asked
            ]
        ),
    }


def models(name, frame, label, ranges, budget, seed):
    """Return the AUC of two models from one release."""
    parts = train_test_split(frame, label, test_size=0.2, random_state=seed, stratify=label)
    X, X_test, y, y_test = parts
    model = M2MClassifier(
        ranges,
        classes=[False, True],
        random_state=seed,
        **sketcher(name, len(ranges), budget, label=True),
    )
    model.fit(X, y)
    boosted = M2MClassifier.from_sketch(
        model.sketch_, estimator=HistGradientBoostingClassifier(random_state=0), random_state=seed
    )
    found = {"lr": model, "hgb": boosted}
    return {
        score: roc_auc_score(y_test, one.predict_proba(X_test)[:, 1])
        for score, one in found.items()
    }


def run(key, folder):
    """Return the scores of one sketch."""
    frame, label, ranges = TABLES[key["table"]](key["seed"], folder)
    budget = {"epsilon": key["epsilon"], "delta": key["delta"]}
    start = time.process_time()
    if key["kind"] == "models":
        found = models(key["sketch"], frame, label, ranges, budget, key["seed"])
    else:
        asked = TWO_OF_CANCER if key["table"] == "cancer" else ranges
        found = answers(key["sketch"], frame[[*asked]], asked, budget, key["seed"])
    found["cpu_s"] = time.process_time() - start
    return key | {score: float(value) for score, value in found.items()}


def show(runs):
    """Print means over seeds, a line a sketch."""
    table = pd.DataFrame(runs)
    by = ["kind", "table", "delta", "epsilon", "sketch"]
    means = table.groupby(by, sort=True)[[s for s in SCORES if s in table]].mean()
    with pd.option_context("display.width", 200, "display.max_rows", None):
        print(means.to_string(float_format=lambda value: f"{value:.4g}", na_rep="-"))


def store(path, runs, arguments):
    """Store the mean errors of counts of the first table."""
    table = arguments.tables[0]
    found = pd.DataFrame([one for one in runs if one["table"] == table and "counts" in one])
    means = found.groupby(["epsilon", "sketch"])["counts"].mean()
    _results.store(
        path,
        job="sketch",
        title=f"Counts with one to three conditions: {table.capitalize()}",
        about="Mean error as a share of the rows of 60 counts with one, two or three conditions, "
        f"delta = {arguments.delta:g}, number of seeds: {arguments.seeds}.",
        columns=["epsilon", *(COLUMNS[name] for name in arguments.sketches)],
        rows=[
            [epsilon, *(round(means[epsilon, name], 4) for name in arguments.sketches)]
            for epsilon in arguments.epsilons
        ],
    )


def time_counts(path, n_releases=5, n_counts=8):
    """Print and store the CPU seconds of one count with its interval."""
    found = {"one": [], "two": [], "three": []}
    for seed in range(n_releases):
        frame, _, ranges = random10(seed, None)
        model = M2MEstimator(ranges, epsilon=1.0, delta=1e-6, random_state=0).fit(frame)
        model.count(holds([("c0", 0.5, True)])).interval()  # the first one prepares
        rng = np.random.default_rng(seed)
        for k, seconds in enumerate(found.values(), start=1):
            for _ in range(n_counts):
                columns = rng.choice(frame.columns, k, replace=False)
                which = [(c, rng.random(), True) for c in columns]
                start = time.process_time()
                model.count(holds(which)).interval()
                seconds.append(time.process_time() - start)
    rows = [[words, round(float(np.median(s)), 3), round(max(s), 1)] for words, s in found.items()]
    for words, middle, most in rows:
        print(f"{words}: median {middle:.3f}, at most {most:.1f} CPU s")
    _results.store(
        path,
        job="sketch",
        title="One count with its interval",
        about="CPU seconds, from the default release of 27,000 rows of ten numbers: median and "
        f"slowest of {n_counts} counts of each of {n_releases} releases, after a first one. The "
        "first count of columns whose joint counts were not released takes seconds more, once.",
        columns=["conditions", "CPU s", "slowest"],
        rows=rows,
    )


def main():
    """Run what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=[*TABLES], choices=[*TABLES])
    sketches = ["adaptive", "fourier", "histograms", "pairs"]
    parser.add_argument("--sketches", nargs="+", default=sketches, choices=sketches)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--kinds", nargs="+", default=["answers", "models"])
    parser.add_argument("--time-counts", action="store_true", help="see above")
    _results.add_argument(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of answers that are wide: the truth is at hand
    if arguments.time_counts:
        time_counts(arguments.json)
        return
    if arguments.data is None and "occupancy" in arguments.tables:
        arguments.tables.remove("occupancy")
    runs = _tables.lines(arguments.out)
    for seed in range(arguments.seeds):
        for table in arguments.tables:
            for kind in arguments.kinds:
                if kind == "models" and table == "random10":
                    continue
                for epsilon in arguments.epsilons:
                    for name in arguments.sketches:
                        key = {"kind": kind, "table": table, "epsilon": epsilon, "seed": seed}
                        key |= {"delta": arguments.delta, "sketch": name}
                        if any(key.items() <= one.items() for one in runs):
                            continue
                        runs.append(run(key, arguments.data))
                        _tables.append(arguments.out, runs[-1])
                        print(json.dumps(runs[-1]), flush=True)
    show(runs)
    if arguments.json:
        store(arguments.json, runs, arguments)


if __name__ == "__main__":
    main()
