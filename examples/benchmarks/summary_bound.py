"""What bounds the choice for a target of few rows: its noise, or that its rows are few.

    python examples/benchmarks/summary_bound.py --data ACS.csv.gz [--group Asian] [--rows 30]
        [--size 200] [--seeds 5]

Table, groups and owners are those of summary_choices.py. Printed is MMD^2 to the population
(400 other rows of the group), median over targets, and its ratio to that of the greedy choice: of
"propose" by its defaults, at epsilon 1 and 3; and at epsilon 1 where owners hear another mean than
the noisy one of the rows: that of the rows, that of the population, and this with the same noise.
The last three are no releases. results/summary_bound.txt has what it printed.
"""

import argparse
import warnings
from unittest import mock

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from summary_choices import GROUPS, Group, read

from skdpsumm import greedy_mmd_selection, mmd2
from skdpsumm.summaries._protocol import TargetMean

RELEASE = TargetMean.release
SAID = ("noisy rows", "rows", "noisy population", "population")


def saying(said, held):
    """Return a release that says one of four means."""

    def release(self, X, *coins):
        noisy = RELEASE(self, X, *coins)
        rows, population = (
            self.embedding.sums(part) * self.embedding.unit / len(part) for part in (X, held)
        )
        means = noisy, rows, population + noisy - rows, population
        return means[SAID.index(said)]

    return release


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="acs_income_2018_small_1000_per_state.csv.gz")
    parser.add_argument("--group", choices=list(GROUPS), default="Asian")
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    X, table, gamma = read(told.data)
    group = Group(X, table, GROUPS[told.group])
    chance = (1 - rbf_kernel(group.held, gamma=gamma).mean()) / (len(group.held) - 1)
    found = {}
    for seed in range(told.seeds):
        target = group.target(X, told.rows, seed)
        chosen = greedy_mmd_selection(group.X, target, told.size, gamma=gamma, random_state=seed)
        choices = {"greedy": group.X[chosen]}
        for said, epsilon in [*((said, 1.0) for said in SAID), (SAID[0], 3.0)]:
            with mock.patch.object(TargetMean, "release", saying(said, group.held)):
                rows = group.select(target, told.size, seed, gamma=gamma, epsilon=epsilon)
            choices[f"epsilon {epsilon:g}, {said}"] = rows
        for name, rows in choices.items():
            far = mmd2(rows, group.held, gamma=gamma) - chance
            found.setdefault(name, []).append(far)
    print(f"{told.group}, {told.rows} rows, {told.size} chosen, {told.seeds} targets")
    greedy = np.median(found["greedy"])
    for name, values in found.items():
        ratios = np.divide(values, found["greedy"])
        print(
            f"{name:<28}{1000 * np.median(values):>8.2f} / 1000, over greedy "
            f"{np.median(values) / greedy:.2f} (medians), {np.median(ratios):.2f} (median ratio)"
        )


if __name__ == "__main__":
    main()
