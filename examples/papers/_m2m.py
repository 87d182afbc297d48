"""Tables, questions and errors of the M2M paper's section 4, for m2m_*.py.

Nothing here needs skdpsumm, so that m2m_rivals.py runs where that is not installed. FOLDER of the
scripts holds

    occupancy/datatraining.txt, datatest.txt, datatest2.txt    UCI's Occupancy Detection (357)
    adult/adult.data.gz, adult.test.gz                         UCI's Adult, gzipped or not
    covertype/covtype_sub50k_float32.npz                       UCI's Covertype, X (n, 54)

All columns are scaled to [0, 1] by ranges that were written down without a look at the rows.
"""

import numpy as np
import pandas as pd

TASKS = {
    "mean": "mean relative error",
    "second moment": "mean relative error",
    "CDF": "earth mover's distance",
    "covariance": "Frobenius distance",
    "counting queries": "mean absolute error",
}
OCCUPANCY = ["Temperature", "Humidity", "Light", "CO2", "HumidityRatio"]
# Celsius, per cent, lux, ppm and kg/kg: what such sensors can read.
OCCUPANCY_RANGES = [(15, 30), (10, 50), (0, 2000), (300, 2500), (0.0, 0.01)]
ADULT_RANGES = {
    0: (17, 90),
    2: (10_000, 1_500_000),
    4: (1, 16),
    10: (0, 99_999),
    11: (0, 4_400),
    12: (1, 99),
}
COVERTYPE_RANGES = [
    (1800, 3900),
    (0, 360),
    (0, 70),
    (0, 1400),
    (-200, 610),
    (0, 7200),
    (0, 255),
    (0, 255),
    (0, 255),
    (0, 7200),
]
CUTS = np.arange(1, 11) / 10
_SHAPE = 27_000, 10


def scaled(X, ranges):
    """Return columns of numbers clipped to their ranges, or to one range, and scaled to [0, 1]."""
    low, high = np.transpose(ranges)
    return np.clip((X - low) / (high - low), 0, 1)


def occupancy(folder):
    """Return the five sensors, scaled, and whether somebody is there."""
    files = sorted((folder / "occupancy").glob("data*.txt"))
    frame = pd.concat([pd.read_csv(path) for path in files], ignore_index=True)
    return scaled(frame[OCCUPANCY].to_numpy(float), OCCUPANCY_RANGES), frame["Occupancy"].to_numpy()


def adult(folder):
    """Return the six columns of numbers."""
    (path,) = (folder / "adult").glob("adult.data*")
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values="?")
    return scaled(frame[list(ADULT_RANGES)].to_numpy(float), list(ADULT_RANGES.values()))


def covertype(folder):
    """Return 27,000 rows of the ten quantitative columns: as many as the paper's LifeSci has."""
    X = np.load(folder / "covertype" / "covtype_sub50k_float32.npz")["X"][: _SHAPE[0], : _SHAPE[1]]
    return scaled(X.astype(float), COVERTYPE_RANGES)


def table_of(name, folder, seed, n_rows=_SHAPE[0]):
    """Return a table; Random10 is drawn anew by each seed."""
    if name == "random10":
        return np.random.default_rng(seed).random((n_rows, _SHAPE[1]))
    found = {"occupancy": occupancy, "adult": adult, "covertype": covertype}[name](folder)
    return found[0] if name == "occupancy" else found


def split(X, y, seed):
    """Return 90 per cent of the rows, shuffled, and the rest: X, X_test, y, y_test."""
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = np.split(order, [len(X) // 10])
    return X[train], X[test], y[train], y[test]


def of_columns(rows):
    """Return both moments and the CDF of each column as functions of rows, shape (n, 12 d)."""
    rows = np.asarray(rows, dtype=float)
    return np.hstack([rows, rows**2, *(rows <= cut for cut in CUTS)])


def products(rows, means):
    """Return (x_i - mean_i) (x_j - mean_j) for all i and j, shape (n, d^2)."""
    centred = np.asarray(rows, dtype=float) - means
    return (centred[:, :, None] * centred[:, None, :]).reshape(len(centred), -1)


def conditions(rows, seed, count=100):
    """Return whether rows meet conjunctions of three one-sided conditions, shape (n, count)."""
    rows = np.asarray(rows, dtype=float)
    rng = np.random.default_rng(seed)
    columns = np.array([rng.choice(rows.shape[1], 3, replace=False) for _ in range(count)])
    cuts, signs = rng.random((count, 3)), rng.choice([-1, 1], (count, 3))
    held = np.ones((len(rows), count), dtype=bool)
    for which, cut, sign in zip(columns.T, cuts.T, signs.T, strict=True):
        held &= sign * (rows[:, which] - cut) <= 0
    return held


def errors(X, seed, one, covariance, shares):
    """Return the error of each task, in the order of `TASKS`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows, for the truth.
    seed : int
        Of the queries.
    one : ndarray of shape (12 d,)
        Answers to `of_columns`.
    covariance : ndarray of shape (d, d)
    shares : ndarray of shape (count,)
        Answers to `conditions`.
    """
    d = X.shape[1]
    truth = of_columns(X).mean(axis=0)
    off = np.abs(one - truth)
    relative = off[: 2 * d] / truth[: 2 * d]
    far = np.linalg.norm(covariance - np.cov(X.T, bias=True))
    missed = np.abs(shares - conditions(X, seed, len(shares)).mean(axis=0))
    return [float(np.mean(e)) for e in (relative[:d], relative[d:], off[2 * d :], far, missed)]


def errors_of_rows(X, seed, rows):
    """Return the same where synthetic `rows` are all there is."""
    shares = conditions(rows, seed).mean(axis=0)
    return errors(X, seed, of_columns(rows).mean(axis=0), np.cov(rows.T, bias=True), shares)
