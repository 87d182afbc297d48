"""The defaults of the summariser on the census: 36 cells beside the non-private greedy choice.

    python examples/benchmarks/summary_choices.py --data ACS.csv.gz [--seeds 20] [--others]
        [--thin 180] [--json FILE]

``ACS.csv.gz`` is the file of `examples/papers/summarization_figure1.py`: 1,000 rows of each of 38
states, which are the owners. A target is m rows of a group, m = 30, 100, 300 and 1,000 (600 of a
state, for 400 rows of each group belong to nobody); a summary has p = 50, 200 and 500 rows:

    Hawaii              the state, which is no owner then
    Asian               the group, of all states; the rows of targets belong to no owner
    women 55+, degree   likewise

``--others`` takes the groups that the defaults were chosen on, in their place: Utah, Black, men
below 30 in full-time work. ``--thin`` leaves the owners so many rows of the group, so that it is as
rare with them as Asian (179).

Printed per cell: MMD^2 of "pool" and of "propose" by their defaults (delta = 1e-6), as multiples of
that of the greedy choice from all rows, on the exact kernel and without privacy; medians over
seeds, each of which draws another target, noise and coins. First to the rows of the target, then to
its population: the 400 rows of the group that nobody has, without the part that is due to their
number. A choice that is closer to the rows than to where they come from has learnt their chance.
Then, per epsilon, in how many cells "propose" is within twice greedy, in how many it is worse than
"pool" by more than a tenth, and the geometric mean. Owners are made once per group, and keep phi of
their rows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
import warnings

import _results
import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel

from skdpsumm import (
    PrivacyLeakWarning,
    PrivateMMDSummarizer,
    greedy_mmd_selection,
    mmd2,
    simulation,
)
from skdpsumm.summaries import Curator, DataOwner

# Centre and scale of numbers, and codes of categories: public, of the questionnaire.
NUMBERS = {"AGEP": (43, 15), "SCHL": (18, 4), "WKHP": (38, 13)}
CATEGORIES = {
    "COW": range(1, 9),
    "MAR": range(1, 3),
    "RELP": range(18),
    "SEX": range(1, 3),
    "RAC1P": range(1, 6),
    "OCCP": range(20),  # of 500 codes each
}
GROUPS = {
    "Hawaii": lambda t: t["ST"] == "HI",
    "Asian": lambda t: t["RAC1P"] == 3,
    "women 55+, degree": lambda t: (t["SEX"] == 2) & (t["AGEP"] >= 55) & (t["SCHL"] >= 21),
}
OTHERS = {
    "Utah": lambda t: t["ST"] == "UT",
    "Black": lambda t: t["RAC1P"] == 2,
    "men below 30, full time": lambda t: (t["SEX"] == 1) & (t["AGEP"] < 30) & (t["WKHP"] >= 35),
}
N_HELD, MOST_TARGET = 400, 1000


def read(path):
    """Return the vectors, the table by column, and a public gamma."""
    with gzip.open(path, "rt") as file:
        head, *rows = csv.reader(file)
    table = dict(zip(head, np.array(rows).T, strict=True))
    table = {name: cells if name == "ST" else cells.astype(float) for name, cells in table.items()}
    X = [np.stack([(table[name] - m) / s for name, (m, s) in NUMBERS.items()], axis=1)]
    for name, codes in CATEGORIES.items():
        column = table[name].astype(int) // (500 if name == "OCCP" else 1)
        X.append(0.7 * (column[:, None] == np.array(codes)))
    X = np.hstack(X).astype(np.float32)
    public = np.random.default_rng(1).choice(len(X), 500, replace=False)
    return X, table, float(1 / np.median(pairwise_distances(X[public], metric="sqeuclidean")))


class Group:
    """Rows that targets are drawn from, and owners of the others."""

    def __init__(self, X, table, is_member, n_left=None):
        members = np.random.default_rng(100).permutation(np.flatnonzero(is_member(table)))
        self.rows = members[N_HELD : N_HELD + MOST_TARGET]
        self.held = X[members[:N_HELD]]
        gone = np.zeros(len(X), bool)
        gone[members[: N_HELD + MOST_TARGET]] = True
        if n_left is not None:
            gone[members[N_HELD + MOST_TARGET + n_left :]] = True
        names = table["ST"]
        if len(np.unique(names[members])) == 1:
            gone[members] = True
        self.X = X[~gone]
        kept = np.unique(names[~gone]).tolist()
        self.owners = {name: X[~gone & (names == name)] for name in kept}

    def target(self, X, m, seed):
        """Return m rows of the group, or all there are."""
        return X[np.random.default_rng(seed).permutation(self.rows)[:m]]

    def select(self, target, p, seed, **parameters):
        """Return the rows that a curator chooses, by defaults but for what is given."""
        terms = PrivateMMDSummarizer(n_select=p, **parameters).terms()
        with simulation(seed):
            curator = Curator(target, list(self.owners), terms, random_state=0)
        parties = {
            name: DataOwner(rows, seed=[seed, k])
            for k, (name, rows) in enumerate(self.owners.items())
        }
        messages = curator.open()
        while messages:
            messages = curator.receive(
                {name: parties[name].answer(message) for name, message in messages.items()}
            )
        return curator.X


def distances(group, X, m, p, seed, gamma, epsilons):
    """Return MMD^2 of greedy, of "pool", and of "propose" at each epsilon, of shape (2, n).

    The first are to the target, the second to its population.
    """
    target = group.target(X, m, seed)
    greedy = greedy_mmd_selection(group.X, target, p, gamma=gamma, random_state=seed)
    chosen = [group.X[greedy], group.select(target, p, seed, gamma=gamma, protocol="pool")]
    chosen += [group.select(target, p, seed, gamma=gamma, epsilon=epsilon) for epsilon in epsilons]
    # What the held rows' mean is away from that of their population, in the mean.
    n = len(group.held)
    chance = (1 - rbf_kernel(group.held, gamma=gamma).mean()) / (n - 1)
    return np.array(
        [
            [mmd2(rows, target, gamma=gamma) for rows in chosen],
            [mmd2(rows, group.held, gamma=gamma) - chance for rows in chosen],
        ]
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="acs_income_2018_small_1000_per_state.csv.gz")
    parser.add_argument("--others", action="store_true", help="the groups of the choice itself")
    parser.add_argument("--thin", type=int, help="leave the owners so many rows of the group")
    parser.add_argument("--groups", nargs="+", help="some of them, by name")
    parser.add_argument("--targets", type=int, nargs="+", default=[30, 100, 300, 1000], help="m")
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 200, 500], help="p")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--seeds", type=int, default=20)
    _results.add_argument(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyLeakWarning)  # seeds: these are simulations
    warnings.simplefilter("ignore", UserWarning)
    start = time.process_time()
    X, table, gamma = read(arguments.data)
    epsilons = arguments.epsilons
    columns = ["pool", *(f"{e:g}" for e in epsilons)]
    print(f"{'':<26}{'m':>5}{'p':>5}" + "".join(f"{c:>9}" for c in 2 * columns))
    medians, rows = [], []
    groups = OTHERS if arguments.others else GROUPS
    for name in arguments.groups or groups:
        group = Group(X, table, groups[name], arguments.thin)
        for m in arguments.targets:
            for p in arguments.sizes:
                runs = [
                    distances(group, X, m, p, seed, gamma, epsilons)
                    for seed in range(arguments.seeds)
                ]
                found = np.median(runs, axis=0)
                to_rows, to_population = (found / found[:, :1])[:, 1:]
                medians.append(to_rows)
                both = [*to_rows, *to_population]
                line = "".join(f"{ratio:>9.2f}" for ratio in both)
                print(f"{name:<26}{min(m, len(group.rows)):>5}{p:>5}{line}", flush=True)
                cell = f"{name}: {min(m, len(group.rows))} rows, choose {p}"
                rows.append([cell, *(round(float(ratio), 2) for ratio in both)])
    medians = np.array(medians)
    print(f"\n{len(medians)} cells, medians of {arguments.seeds} seeds")
    for k, epsilon in enumerate(epsilons, start=1):
        worse = np.sum(medians[:, k] > 1.1 * medians[:, 0])
        mean = np.exp(np.log(medians[:, k]).mean())
        print(
            f"epsilon {epsilon:g}: within twice greedy in {np.sum(medians[:, k] <= 2)}, worse than "
            f"pool by more than a tenth in {worse}, geometric mean {mean:.2f}"
        )
    print(f"{time.process_time() - start:.0f} CPU seconds")
    named = ["pool", *(f"propose, epsilon {e:g}" for e in epsilons)]
    _results.store(
        arguments.json,
        job="choose",
        title="Rows for a target of the census",
        about="MMD^2 of chosen rows over that of the greedy choice, which sees all rows without "
        "privacy: to the rows of the target, and to its population (400 other rows of the group). "
        f"38 states are owners; medians of {arguments.seeds} targets.",
        columns=["target"] + [f"{c}, to {to}" for to in ("rows", "population") for c in named],
        rows=rows,
    )


if __name__ == "__main__":
    main()
