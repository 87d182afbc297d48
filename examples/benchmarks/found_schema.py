"""What a schema that was found privately costs, beside one that somebody wrote.

    python examples/benchmarks/found_schema.py --data FOLDER [--table adult] [--seeds 3]

FOLDER is described in _tables.py: Adult, ACS income. A release of epsilon 1 with the schema by hand
stands beside one of 0.9 with that schema, and one of 0.9 whose schema took 0.1. Numbers are total
variations, means over all columns (tv1) and over every fifth pair of them (tv2), on the grid of
_tables.py.

The truth is the table as the schema reads it: values that were not found are "other", and numbers
beyond a range are its end. "In full" counts the rows with such a value as wrong, beside that.
"""

import argparse
import warnings
from pathlib import Path

import _tables
import numpy as np
import pandas as pd

from skdpsumm import M2MEstimator, SchemaFinder


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
    model = M2MEstimator(schema=schema, epsilon=epsilon, random_state=seed).fit(table.train)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", default="adult")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table = _tables.load(given.table, given.data)
    kinds = {c: "number" if c in table.numeric else "category" for c in table.columns}
    runs = {"by hand, 1": [], "by hand, 0.9": [], "found, 0.1 + 0.9": []}
    for seed in range(given.seeds):
        by_hand = _tables.schema(table.public)
        schema = SchemaFinder(kinds, epsilon=0.1).fit(table.train).schema_
        runs["by hand, 1"].append(scores(table, by_hand, 1.0, seed))
        runs["by hand, 0.9"].append(scores(table, by_hand, 0.9, seed))
        runs["found, 0.1 + 0.9"].append(scores(table, schema, 0.9, seed))
    print(pd.DataFrame({name: pd.DataFrame(run).mean() for name, run in runs.items()}).T.round(4))


if __name__ == "__main__":
    main()
