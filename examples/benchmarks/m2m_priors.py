"""Where the synthetic points of a sketch of Fourier features should lie.

    python examples/benchmarks/m2m_priors.py [--data FOLDER] [--out FILE] [--seeds 5]
        [--tables random10 cancer skewed clusters occupancy adult acs covertype]
        [--epsilons 0.3 1 3 inf] [--points 20000] [--priors uniform auto public]

One release of ``RFFSketcher()``, read with each prior of ``M2MEstimator``:

    uniform    on the ranges: the paper's
    auto       a kernel density of what the sketch tells ("kde"), where it tells enough
    public     200 rows of the table, as if they were public: the best that there can be

Tables are those of narrow.py; five lognormal columns and two tight clusters, drawn anew for each
seed; and the numbers of Adult, ACS and 20,000 rows of Covertype (FOLDER: see _tables.py).
Prints means over seeds, in units of the columns' ranges:

    mean, covariance    mean error over the columns, and over their pairs
    cdf                 mean error over the columns at the deciles of the range
    counts              mean error of 20 counts with conditions on two columns, over the rows
    ... in              share of 95 per cent intervals that hold the truth
    ... wide            their mean width
    fit                 CPU seconds of reading the release
"""

import argparse
import json
import time
import warnings
from functools import cache
from pathlib import Path

import _tables
import narrow
import numpy as np
import pandas as pd

from skdpsumm import M2MEstimator, Points, RFFSketcher

N_PUBLIC, N_COUNTS, MOST_ROWS = 200, 20, 20_000
ADULT = {
    "age": (17, 90),
    "fnlwgt": (0, 1.5e6),
    "education-num": (1, 16),
    "capital-gain": (0, 1e5),
    "capital-loss": (0, 5000),
    "hours": (1, 99),
}
ADULT_POSITIONS = [0, 2, 4, 10, 11, 12]
ACS = {"AGEP": (17, 95), "SCHL": (1, 24), "WKHP": (1, 99)}


def adult(folder):
    """Return the numbers of Adult."""
    path = next((folder / "adult").glob("adult.data*"))
    frame = pd.read_csv(path, header=None, skipinitialspace=True)[ADULT_POSITIONS]
    return frame.set_axis([*ADULT], axis=1).astype(float), ADULT


def acs(folder):
    """Return the numbers of ACS income."""
    return pd.read_csv(next((folder / "acs").glob("acs_income*")))[[*ACS]].astype(float), ACS


def covertype(folder):
    """Return the numbers of some rows of Covertype."""
    with np.load(next((folder / "covertype").glob("cov*.npz"))) as file:
        X = file["X"][:MOST_ROWS, :10].astype(float)
    return pd.DataFrame(X, columns=[*_tables.COVERTYPE]), _tables.COVERTYPE


def skewed(seed):
    """Return five lognormal columns that go together: most rows near one corner."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(15_000, 5))
    z[:, 1:] += 0.6 * z[:, :1]
    X = np.exp(0.9 * z)
    return narrow.frame_of(X), {f"c{j}": (0, 40) for j in range(5)}


def clusters(seed):
    """Return four columns of two tight clusters."""
    rng = np.random.default_rng(seed)
    centre = np.where(rng.random(12_000) < 0.35, 0.2, 0.75)
    X = centre[:, None] + rng.normal(0, 0.02, (12_000, 4))
    return narrow.frame_of(X), {f"c{j}": (0, 1) for j in range(4)}


def load(name, seed, folder):
    """Return a frame of numbers within their ranges, and these."""
    if name in MADE:
        frame, ranges = MADE[name](seed)
    elif name in OURS:
        frame, ranges = OURS[name](folder)
    else:
        frame, _, ranges = narrow.TABLES[name](seed, folder)
        ranges = narrow.TWO_OF_CANCER if name == "cancer" else ranges
    low, high = (pd.Series({c: ends[k] for c, ends in ranges.items()}) for k in (0, 1))
    return frame[[*ranges]].clip(low, high, axis=1), ranges


OURS = {"adult": cache(adult), "acs": cache(acs), "covertype": cache(covertype)}
MADE = {"skewed": skewed, "clusters": clusters}


def conditions(frame, seed):
    """Return the function of rows that tells which of 20 counts each is in."""
    rng, sides = np.random.default_rng(seed), []
    for _ in range(N_COUNTS):
        pair = rng.choice(frame.columns, 2, replace=False)
        # At quantiles of the rows, so that none is of all rows or of no row.
        sides.append(
            [(c, frame[c].quantile(rng.uniform(0.1, 0.9)), rng.random() < 0.5) for c in pair]
        )

    def hold(rows):
        met = [[(rows[c] <= cut) == below for c, cut, below in both] for both in sides]
        return np.column_stack([np.logical_and(*both) for both in met]).astype(float)

    return hold


def questions(model, frame, ranges, seed):
    """Yield the name of each statistic, its answer, the truth, and its unit."""
    X = frame.to_numpy()
    low, high = np.transpose([ranges[c] for c in frame])
    width = high - low
    yield "mean", model.mean(), X.mean(axis=0), width
    upper = np.triu_indices(len(width), 1)
    truth = np.cov(X.T, bias=True)
    yield "covariance", model.covariance()[upper], truth[upper], np.outer(width, width)[upper]
    for j, cuts in enumerate(np.linspace(low, high, 11)[1:-1].T):
        yield "cdf", model.cdf(j, cuts), (X[:, [j]] <= cuts).mean(axis=0), 1.0
    hold = conditions(frame, seed)
    yield "counts", model.estimate(hold), hold(frame).mean(axis=0), 1.0


def errors(model, frame, ranges, seed):
    """Return the errors of a model's answers, and how its intervals hold the truth."""
    found = {}
    for name, answer, truth, unit in questions(model, frame, ranges, seed):
        low, high = np.moveaxis(answer[...].interval(0.95), -1, 0)
        # A sum of so many rows is rounded.
        held = (low <= truth + 1e-12 * unit) & (truth - 1e-12 * unit <= high)
        for score, value in {
            name: np.abs(np.asarray(answer) - truth) / unit,
            f"{name} in": held,
            f"{name} wide": (high - low) / unit,
        }.items():
            found.setdefault(score, []).extend(value)
    return {score: np.mean(values) for score, values in found.items()}


def runs(name, seed, epsilon, given):
    """Yield the errors with each prior, from one release."""
    frame, ranges = load(name, seed, given.data)
    sketcher = RFFSketcher(ranges, epsilon=epsilon, random_state=seed)
    sketch = sketcher.fit(frame).sketch_
    public = frame.sample(N_PUBLIC, random_state=seed)
    priors = {"uniform": "uniform", "auto": "auto", "public": public}
    for label in given.priors:
        start = time.process_time()
        model = M2MEstimator.from_sketch(
            sketch,
            inference=Points(prior=priors[label]),
            n_synthetic=given.points,
            random_state=seed,
        )
        seconds = time.process_time() - start
        key = {"table": name, "epsilon": epsilon, "prior": label, "seed": seed, "fit": seconds}
        found = errors(model, frame, ranges, seed)
        yield key | {score: float(value) for score, value in found.items()}


def main():
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 3.0, np.inf])
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--priors", nargs="+", default=["uniform", "auto", "public"])
    given = parser.parse_args()
    bundled, others = ["random10", "cancer", *MADE], ["occupancy", *OURS]
    tables = given.tables or bundled + (others if given.data else [])
    warnings.simplefilter("ignore")  # of answers that are wide: the truth is at hand
    found = []
    for seed in range(given.seeds):
        for name in tables:
            for epsilon in given.epsilons:
                for one in runs(name, seed, epsilon, given):
                    found.append(one)
                    _tables.append(given.out, one)
                    print(json.dumps(one), flush=True)
    means = pd.DataFrame(found).groupby(["table", "epsilon", "prior"]).mean()
    print(means.drop(columns="seed").to_string(float_format=lambda value: f"{value:.4f}"))


if __name__ == "__main__":
    main()
