"""Figure 1 of the data summarization paper: four owners, and the rows of two states.

    python examples/papers/summarization_figure1.py --data ACS.csv.gz --out figure1.png [--quick]

The paper has insurance data of Allstate, which are not to be had any more. ``ACS.csv.gz`` are
census data of folktables (ACSIncome of 2018), 1,000 rows of each of 38 states, with the columns ST,
AGEP, COW, SCHL, MAR, OCCP, RELP, WKHP, SEX, RAC1P and label, an income above 50,000 dollars. The
design is the paper's: the rows of Florida are spread over four owners, and 70 per cent of those of
Connecticut are given to one of them; a quarter of the other 30 per cent are the target, without
labels, and the rest are held out. The 150 public rows that the auction starts with are those of a
third state (Indiana; the file has no Ohio).

Above, the increase of MMD^2 over greedy choice; below, the accuracy of a linear SVM. With --quick
the two states are drawn at random from two Gaussian laws. See `_summarization.py` for the curves.
"""

import sys
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from _figure import figure, parser, save
from _summarization import Problem, draw, finish
from sklearn.svm import LinearSVC

from skdpsumm import PublicVectorizer

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from _tables import census_schema

N_OWNERS, N_SEED_ROWS = 4, 150
SPREAD, WHOLE, SEED_ROWS = "FL", "CT", "IN"
SCHEMA = census_schema()


@cache
def census(path):
    """Return vectors and labels by state. A number lies in [-1, 1], a category is 0 or 1."""
    table = pd.read_csv(path)
    table["OCCP"] //= 500
    X = PublicVectorizer(SCHEMA).fit_transform(table) * np.sqrt(len(SCHEMA))
    states, y = table["ST"].to_numpy(), table["label"].to_numpy(int)
    wanted = SPREAD, WHOLE, SEED_ROWS
    return {name: (X[states == name].astype(np.float32), y[states == name]) for name in wanted}


@cache
def two_gaussians():
    """Return the same of laws with other means, at one rule for labels."""
    rng = np.random.default_rng(0)
    found = {}
    for name, centre in {SPREAD: 0.0, WHOLE: 1.0, SEED_ROWS: -1.0}.items():
        X = rng.normal(centre, 1.0, (400, 5)).astype(np.float32)
        found[name] = X, (X[:, 0] + rng.normal(size=400) > X[:, 1]).astype(int)
    return found


def make_problem(states, seed):
    """Return the paper's design, by a draw of its own."""
    rng = np.random.default_rng(seed)
    (X, y), (Z, z) = states[SPREAD], states[WHOLE]
    order = rng.permutation(len(Z))
    given, target, held = np.split(order, [round(0.7 * len(Z)), round(0.775 * len(Z))])
    owners = rng.permutation(np.arange(len(X)) % N_OWNERS)
    return Problem(
        X=np.concatenate([X, Z[given]]),
        y=np.concatenate([y, z[given]]),
        owners=np.concatenate([owners, np.zeros(len(given), int)]),
        target=Z[target],
        held=Z[held],
        held_labels=z[held],
        seed_rows=rng.permutation(states[SEED_ROWS][0])[:N_SEED_ROWS],
    )


def main():
    """Draw the figure."""
    takes = parser(__doc__)
    takes.set_defaults(seeds=11)
    args = takes.parse_args()
    warnings.simplefilter("ignore")  # seeds, and models that have not converged
    sizes = (10, 20) if args.quick else (25, 50, 75, 100, 150, 200)
    args.seeds = 1 if args.quick else args.seeds
    states = two_gaussians() if args.quick else census(args.data)
    fig, axes = figure(2, 1, height=3)
    numbers = draw(axes[:, 0], partial(make_problem, states), LinearSVC(), sizes, args)
    finish(fig, axes)
    save(fig, args, numbers)


if __name__ == "__main__":
    main()
