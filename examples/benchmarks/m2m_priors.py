"""Where the synthetic points of a sketch of Fourier features should lie.

    python examples/benchmarks/m2m_priors.py [--data FOLDER] [--out FILE] [--seeds 5]
        [--tables random10 cancer occupancy adult acs covertype] [--epsilons 0.3 1 inf]

One release of ``RFFSketcher()``, read with each prior of ``M2MEstimator`` and 20,000 points:

    uniform    on the ranges: the paper's, and what "auto" is without histograms
    kde        a kernel density of what the sketch tells
    public     ``KDE`` of 200 rows of the table, as if they were public: the best that there can be

Tables are those of narrow.py, and the numbers of Adult, ACS and 20,000 rows of Covertype (FOLDER is
described in _tables.py). Prints means over seeds, in units of the columns' ranges:

    mean, covariance    mean error over the columns, and over their pairs
    cdf                 mean error over the columns at the deciles of the range
    counts              mean error of 20 counts with conditions on two columns, over the rows
    covers              share of 95 per cent intervals that hold the true mean
"""

import argparse
import json
import warnings
from pathlib import Path

import _tables
import narrow
import numpy as np
import pandas as pd

from skdpsumm import KDE, M2MEstimator, RFFSketcher

N_POINTS, N_PUBLIC, N_COUNTS, MOST_ROWS = 20_000, 200, 20, 20_000
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


def load(name, seed, folder):
    """Return a frame of numbers within their ranges, and these."""
    if name in OURS:
        frame, ranges = OURS[name](folder)
    else:
        frame, _, ranges = narrow.TABLES[name](seed, folder)
        ranges = narrow.TWO_OF_CANCER if name == "cancer" else ranges
    low, high = (pd.Series({c: ends[k] for c, ends in ranges.items()}) for k in (0, 1))
    return frame[[*ranges]].clip(low, high, axis=1), ranges


OURS = {"adult": adult, "acs": acs, "covertype": covertype}


def errors(model, frame, ranges, seed):
    """Return the errors of a model's answers."""
    rng, X = np.random.default_rng(seed), frame.to_numpy()
    low, high = np.transpose([ranges[c] for c in frame])
    width = high - low
    mean, truth = model.mean(), X.mean(axis=0)
    ends = mean.interval(0.95)
    off = (np.asarray(model.covariance()) - np.cov(X.T, bias=True)) / np.outer(width, width)
    deciles = np.linspace(low, high, 11)[1:-1].T
    cdfs = [
        np.asarray(model.cdf(j, cuts)) - (X[:, [j]] <= cuts).mean(axis=0)
        for j, cuts in enumerate(deciles)
    ]
    counts = []
    for _ in range(N_COUNTS):
        pair = rng.choice(frame.columns, 2, replace=False)
        # At quantiles of the rows, so that none is of all rows or of no row.
        cut = [(c, frame[c].quantile(rng.uniform(0.1, 0.9)), rng.random() < 0.5) for c in pair]
        holds = narrow.holds(cut)
        counts.append(float(model.estimate(holds)) - holds(frame).mean())
    return {
        "mean": np.abs((np.asarray(mean) - truth) / width).mean(),
        "covariance": np.abs(off[np.triu_indices(len(width), 1)]).mean(),
        "cdf": np.abs(cdfs).mean(),
        "counts": np.abs(counts).mean(),
        "covers": np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])),
    }


def runs(name, seed, epsilon, folder):
    """Yield the errors with each prior, from one release."""
    frame, ranges = load(name, seed, folder)
    sketcher = RFFSketcher(schema=ranges, epsilon=epsilon, random_state=seed)
    sketch = sketcher.fit(frame).sketch_
    public = KDE(frame.sample(N_PUBLIC, random_state=seed))
    for label, prior in {"uniform": "uniform", "kde": "kde", "public": public}.items():
        model = M2MEstimator.from_sketch(
            sketch, prior=prior, n_synthetic=N_POINTS, random_state=seed
        )
        key = {"table": name, "epsilon": epsilon, "prior": label, "seed": seed}
        found = errors(model, frame, ranges, seed)
        yield key | {score: float(value) for score, value in found.items()}


def main():
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, np.inf])
    given = parser.parse_args()
    bundled, others = ["random10", "cancer"], ["occupancy", *OURS]
    tables = given.tables or bundled + (others if given.data else [])
    warnings.simplefilter("ignore")  # of answers that are wide: the truth is at hand
    found = []
    for name in tables:
        for seed in range(given.seeds):
            for epsilon in given.epsilons:
                for one in runs(name, seed, epsilon, given.data):
                    found.append(one)
                    _tables.append(given.out, one)
                    print(json.dumps(one), flush=True)
    means = pd.DataFrame(found).groupby(["table", "epsilon", "prior"]).mean()
    print(means.drop(columns="seed").to_string(float_format=lambda value: f"{value:.4f}"))


if __name__ == "__main__":
    main()
