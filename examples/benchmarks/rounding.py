"""How near synthetic rows come to the model: the numbers of sketches/_rounding.py beside others.

    python examples/benchmarks/rounding.py --data FOLDER [--tables adult acs] [--epsilons 1 10]

FOLDER is described in _tables.py. Prints a line for each setting: by table and epsilon the error of
as many rows as the table has, over that of the model's own tables (total variation of all pairs
that were counted), and CPU seconds of drawing the rows.
"""

import argparse
import itertools
import time
from pathlib import Path

import _tables
import numpy as np

from skdpsumm import M2MEstimator
from skdpsumm.sketches import _rounding

SETTINGS = [{}] + [
    {name: value}
    for name, values in {
        "_LAST_ROWS": (16, 256),
        "RAKING_SWEEPS": (1, 2, 6),
        "_MOST_STEP": (2.0, 16.0),
        "_LEAST_LIKELY": (0.001, 0.1),
        "_PROBABILITIES_AT_ONCE": (2**15, 2**19),
    }.items()
    for value in values
]


class Case:
    """A release of a table, and the truth in the cells of the model."""

    def __init__(self, name, epsilon, folder):
        table = _tables.load(name, folder)
        schema = _tables.schema(table.public)
        fitted = M2MEstimator(schema, epsilon=epsilon, random_state=0).fit(table.train)
        self.name, self.n_rows = f"{name} at {epsilon:g}", len(table.train)
        self.model, cells = fitted._model.model, fitted._model.cells
        groups = {tuple(sorted(m.columns)) for m in self.model.counted}
        self.pairs = [group for group in groups if len(group) == 2]
        self.truth = [self.counts(self.codes(table, schema, cells), p) for p in self.pairs]
        self.told = [self.model.table(p) for p in self.pairs]

    def codes(self, table, schema, cells):
        """Return the cell of each value of the table."""
        found = []
        for column, known, of in zip(table.columns, schema.columns, cells, strict=True):
            values = table.train[column]
            if of.edges is None:
                codes = {value: k for k, value in enumerate(known.categories)}
                atoms = values.map(codes).to_numpy()
            else:
                atoms = np.searchsorted(of.edges[1:-1], values.to_numpy(float), side="right")
            found.append(of.cell_of_atom[atoms])
        return np.stack(found, axis=1)

    def counts(self, codes, pair):
        """Return shares of rows in the cells of a pair."""
        shape = [self.model.sizes[j] for j in pair]
        flat = np.ravel_multi_index(codes[:, pair].T, shape)
        return np.bincount(flat, minlength=np.prod(shape)).reshape(shape) / len(codes)

    def ratio(self):
        """Return the error of rows over that of the model, and seconds."""
        start = time.process_time()
        codes = self.model.rounded(self.n_rows, np.random.default_rng(0))
        seconds = time.process_time() - start
        drawn = [self.counts(codes, pair) for pair in self.pairs]
        errors = [
            np.sum([_tables.distance(*both) for both in zip(self.truth, tables, strict=True)])
            for tables in (drawn, self.told)
        ]
        return errors[0] / errors[1], seconds


def main():
    """Compare, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=["adult", "acs"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 10.0])
    given = parser.parse_args()
    cases = [Case(*one, given.data) for one in itertools.product(given.tables, given.epsilons)]
    for setting in SETTINGS:
        usual = {name: getattr(_rounding, name) for name in setting}
        for name, value in setting.items():
            setattr(_rounding, name, value)
        found = [(case.name, *case.ratio()) for case in cases]
        for name, value in usual.items():
            setattr(_rounding, name, value)
        told = ", ".join(f"{name} {ratio:.3f} ({seconds:.1f} s)" for name, ratio, seconds in found)
        print(f"{setting or 'as it is'}: {told}", flush=True)


if __name__ == "__main__":
    main()
