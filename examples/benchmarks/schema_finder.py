"""What a schema that was found privately costs, beside one that somebody wrote.

    python examples/benchmarks/schema_finder.py --data FOLDER [--seeds 5] [--json FILE]
    python examples/benchmarks/schema_finder.py --data FOLDER --constants

FOLDER is described in _tables.py: Adult, ACS income. Two tables more are made here: "shop" has
amounts with a long tail and 60 products, few of them common; "sensor" has numbers of either sign,
decimals and rare faults. A release of epsilon 1 with the schema by hand stands beside one of 0.9
with that schema, and one of 0.9 whose schema took 0.1. Numbers are total variations, means over all
columns and over every fifth pair of them, on the grid of each table.

The truth is the table as the schema reads it: values that were not found are "other", and numbers
beyond a range are its end. "In full" counts the rows with such a value as wrong, beside that.

``--constants`` does the same with other values of the finder's constants, one at a time: in full,
as a multiple of what those of the package have.
"""

import argparse
import warnings
from pathlib import Path

import _results
import _tables
import numpy as np
import pandas as pd

from skdpsumm import M2MEstimator, Numeric, SchemaFinder, TableSchema
from skdpsumm.schema import _finder

TABLES = ("adult", "acs", "shop", "sensor")
N_MADE = 30_000
CONSTANTS = {
    "_WIDEST_WINDOW": (3, 24),
    "_NEAR_ZERO": (0.0, 1 / 100, 1 / 4),
    "_MOST_OFF_STEP": (0.002, 0.1),
    "_STDS_OF_STEP": (2.0, 5.0),
    "_PARTS": tuple(
        {"number": (1 - part, part), "category": (1.0,), "date": (1.0,)} for part in (1 / 4, 3 / 4)
    ),
}
COLUMNS = ["by hand, 1", "by hand, 0.9", "found, 0.1 + 0.9"]


def shop():
    """Return orders: amounts with a long tail, products by Zipf's law, hours of the day."""
    rng, n = np.random.default_rng(1), N_MADE
    products = [f"p{k:02d}" for k in range(60)]
    weights = 1 / np.arange(1, 61) ** 1.2
    frame = pd.DataFrame({"product": rng.choice(products, n, p=weights / weights.sum())})
    rank = frame["product"].str[1:].astype(int)
    frame["cents"] = np.rint(rng.lognormal(7 + rank / 60, 1.0)).clip(1, 1_000_000)
    frame["items"] = rng.geometric(0.4, n).clip(1, 40).astype(float)
    frame["hour"] = rng.binomial(23, np.where(frame["items"] > 3, 0.7, 0.5)).astype(float)
    frame["returned"] = np.where(rng.random(n) < 0.05 + 0.1 * (rank < 5), "yes", "no")
    public = {"product": products, "cents": (1, 1_000_000), "items": (1, 40), "hour": (0, 23)}
    public["returned"] = ["no", "yes"]
    grid = {"items": _tables.ones((1, 40)), "hour": _tables.ones((0, 23))}
    grid["cents"] = [1, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 1_000_000]
    return _tables.Wide("shop", frame, frame[:0], public, grid)


def sensor():
    """Return readings: numbers of either sign and decimals, whole numbers, faults that are rare."""
    rng, n = np.random.default_rng(2), N_MADE
    frame = pd.DataFrame({"site": rng.choice(["north", "south", "roof"], n, p=[0.5, 0.4, 0.1])})
    roof = (frame["site"] == "roof").to_numpy()
    frame["celsius"] = rng.normal(12 + 5 * roof, 9).round(2).clip(-40, 60)
    frame["volt"] = (0.2 + 3 * rng.beta(8, 2 + roof, n)).round(3)
    frame["count"] = rng.poisson(np.exp(frame["celsius"] / 12)).clip(0, 500).astype(float)
    frame["level"] = rng.integers(990, 1031, n).astype(float)
    faults = ["none", "drift", "noise", "lost", "stuck"]
    frame["fault"] = rng.choice(faults, n, p=[0.94, 0.03, 0.02, 0.008, 0.002])
    public = {"site": ["north", "south", "roof"], "celsius": (-40, 60), "volt": (0, 4)}
    public |= {"count": (0, 500), "level": (990, 1030), "fault": faults}
    grid = {"celsius": np.linspace(-40, 60, 21).tolist(), "volt": np.linspace(0, 4, 17).tolist()}
    grid |= {"count": [0, 1, 2, 3, 5, 10, 20, 50, 500], "level": _tables.ones((990, 1030))}
    return _tables.Wide("sensor", frame, frame[:0], public, grid)


def table_of(name, folder):
    """Return a table and its schema by hand."""
    table = {"shop": shop, "sensor": sensor}.get(name, lambda: _tables.load(name, folder))()
    known = _tables.schema(table.public)
    if name != "sensor":
        return table, known
    decimals = {c: Numeric(*table.public[c]) for c in ("celsius", "volt")}
    return table, TableSchema(dict(zip(known, known.columns, strict=True)) | decimals)


def as_read(table, schema):
    """Return the table as a schema reads it, and the share of the rows that it changes, by column.

    Numbers are clipped to a range, and so is the grid; categories that are not listed are "other".
    """
    frame, public, grid, changed = table.train.copy(), dict(table.public), {}, {}
    for c in table.columns:
        if c in table.grid:
            frame[c] = frame[c].clip(*schema[c].bounds)
            grid[c] = np.unique(np.clip(table.grid[c], *schema[c].bounds)).tolist()
        else:
            public[c] = list(schema[c].categories)
            listed = np.array(public[c], object)
            frame[c] = listed[schema[c].read(table.train[c].to_numpy())]
        changed[c] = (frame[c] != table.train[c]).to_numpy()
    return _tables.Wide(table.name, frame, frame[:0], public, grid), changed


def scores(table, schema, epsilon, seed):
    """Return the mean distances of one release, as read and in full."""
    model = M2MEstimator(schema, epsilon=epsilon, random_state=seed).fit(table.train)
    known, changed = as_read(table, schema)
    codes, found = known.codes(known.train), {}
    groups = {"tv1": [(c,) for c in table.columns], "tv2": _tables.pairs(table)[::5]}
    for name, asked in groups.items():
        off, gone = [], []
        for columns in asked:
            bins = {c: known.grid[c] for c in columns if c in known.grid}
            one = len(columns) == 1
            answer = (
                model.histogram(columns[0], bins=bins.get(columns[0]))
                if one
                else model.table([*columns], bins=bins)
            )
            off.append(_tables.distance(_tables.marginal(codes, known.sizes, columns), answer))
            gone.append(np.mean(np.any([changed[c] for c in columns], axis=0)))
        found |= {name: np.mean(off), f"{name} in full": np.mean(off) + np.mean(gone)}
    return found


def found_schema(table):
    """Return the schema that is found with an epsilon of 0.1."""
    kinds = {c: "number" if c in table.numeric else "category" for c in table.columns}
    return SchemaFinder(kinds, epsilon=0.1).fit(table.train).schema_


def compared(table, by_hand, seeds):
    """Return the mean distances of each release of a table, a column each."""
    runs = {name: [] for name in COLUMNS}
    for seed in range(seeds):
        found = found_schema(table)
        for name, schema, epsilon in zip(
            COLUMNS, (by_hand, by_hand, found), (1, 0.9, 0.9), strict=True
        ):
            runs[name].append(scores(table, schema, epsilon, seed))
    return pd.DataFrame({name: pd.DataFrame(run).mean() for name, run in runs.items()})


def constants(tables, seeds):
    """Print what each constant is worth: distances in full, with others over those without."""

    def measured():
        runs = [
            scores(table, found_schema(table), 0.9, s) for table, _ in tables for s in range(seeds)
        ]
        return pd.DataFrame(runs)[["tv1 in full", "tv2 in full"]].to_numpy()

    own = measured()
    for name, values in CONSTANTS.items():
        usual = getattr(_finder, name)
        for value in values:
            setattr(_finder, name, value)
            tv1, tv2 = np.exp(np.log(measured() / own).mean(axis=0))
            print(f"{name} = {value} in place of {usual}: {tv1:.3f}, {tv2:.3f}")
        setattr(_finder, name, usual)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--constants", action="store_true")
    _results.add_argument(parser)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = [table_of(name, given.data) for name in TABLES]
    if given.constants:
        constants(tables, given.seeds)
        return
    rows = []
    for table, by_hand in tables:
        means = compared(table, by_hand, given.seeds)
        print(table.name, means.round(4), sep="\n")
        for score, told in (("tv1", "columns"), ("tv2", "pairs")):
            numbers = means.loc[score].tolist()
            full = means.loc[f"{score} in full", COLUMNS[2]]
            cells = [*numbers, numbers[2] / numbers[0], full]
            rows.append([f"{table.name}, {told}", *(round(float(cell), 4) for cell in cells)])
    _results.store(
        given.json,
        job="sketch",
        title="A schema that was found privately",
        about="Total variation of single columns and of pairs: a schema by hand, at epsilon 1 and "
        "0.9, and with 0.1 for a `SchemaFinder` and 0.9 for the release. The truth is the table as "
        'its schema reads it; "in full" counts rows as wrong whose value became "other" or was '
        f"clipped. Means of {given.seeds} releases.",
        columns=["", *COLUMNS, "found / by hand, 1", "found, in full"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
