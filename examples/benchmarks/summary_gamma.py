"""How wide a kernel should be that chooses rows, as a multiple of what the schema says.

    python examples/benchmarks/summary_gamma.py [--data ACS.csv.gz] [--epsilons 0.2 1 inf]
        [--exponents 0.25 0.5 1 2 4] [--seeds 6]

gamma is such that the kernel is exp(-exponent) at the mean distance of public points of the schema;
``gamma="auto"`` is exponent 1. Printed are means over seeds, with standard errors, on held-out rows
of the target's population: their energy distance to the chosen rows (a distance of distributions
that knows no gamma), and the accuracy on them of logistic regression trained on these. Cases:

    digits   scikit-learn's; five owners of two digits each, a target of 60 threes and eights
    state    ACS (with --data, the file of `examples/papers/summarization_figure1.py`): 300 rows of
             Connecticut, and the other 37 states as owners, of 12,000 rows
    older    300 graduates of 50 and more from four states; owners are all 38
    young    300 women of 35 and less from these four
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from _tables import census_schema
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skdpsumm import (
    PrivacyLeakWarning,
    PrivateMMDSummarizer,
    PublicVectorizer,
    TableSchema,
    simulation,
    uniform_selection,
)

DIGITS = TableSchema((0, 16))
ACS = census_schema()
STATES = ["CT", "NJ", "NY", "MA"]


def digits(seed):
    """Return rows, labels, owners, and positions of owners' rows, target and held-out rows."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    threes, eights = (rng.permutation(np.flatnonzero(y == digit)) for digit in (3, 8))
    target, held = (np.concatenate([threes[42 * k :][:42], eights[18 * k :][:18]]) for k in (0, 1))
    rest = np.setdiff1d(np.arange(len(y)), [*threes[:84], *eights[:36]])
    owner_of = {0: "A", 1: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "D", 8: "D", 2: "E", 9: "E"}
    owners = np.array([owner_of[digit] for digit in y])
    return pd.DataFrame(X), y, owners, rest, target, held


def acs(table, case, seed):
    """Return the same of a case of ACS."""
    there = table["ST"].isin(STATES)
    wanted = {
        "state": table["ST"] == "CT",
        "older": there & (table["AGEP"] >= 50) & (table["SCHL"] >= 20),
        "young": there & (table["AGEP"] <= 35) & (table["SEX"] == 2),
    }[case]
    rng = np.random.default_rng(seed)
    found = rng.permutation(np.flatnonzero(wanted))
    rest = rng.choice(np.flatnonzero(~wanted), 12_000, replace=False)
    y = table["label"].to_numpy(int)
    return table, y, table["ST"].to_numpy(), rest, found[:300], found[300:900]


def energy(A, B):
    """Return the energy distance of two samples."""
    return 2 * cdist(A, B).mean() - cdist(A, A).mean() - cdist(B, B).mean()


def scores(problem, schema, n_select, exponents, epsilon, seed):
    """Return energy distance and accuracy, by exponent; None is a choice at random."""
    X, y, owners, rest, target, held = problem
    vectors = PublicVectorizer(schema).fit_transform(X)
    chosen = {None: uniform_selection(len(rest), n_select, random_state=seed)}
    summarizer = PrivateMMDSummarizer(
        schema, n_select=n_select, n_components=500, epsilon=epsilon, delta=1e-5
    ).set_params(random_state=seed)
    data = {"X_target": X.iloc[target], "owners": owners[rest]}
    with simulation(seed):
        auto = summarizer.fit(X.iloc[rest], **data).gamma_
    for exponent in exponents:
        with simulation(seed):
            summarizer.set_params(gamma=exponent * auto).fit(X.iloc[rest], **data)
        chosen[exponent] = summarizer.sample_indices_
    found = {}
    for exponent, positions in chosen.items():
        rows = rest[positions]
        model = LogisticRegression(max_iter=1000, C=100).fit(vectors[rows], y[rows])
        accuracy = model.score(vectors[held], y[held])
        found[exponent] = energy(vectors[rows], vectors[held]), accuracy
    return found


def main():
    """Run all cases, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.2, 1.0, np.inf])
    parser.add_argument("--exponents", type=float, nargs="+", default=[0.25, 0.5, 1, 2, 4])
    parser.add_argument("--seeds", type=int, default=6)
    given = parser.parse_args()
    cases = {"digits": (digits, DIGITS, 60)}
    if given.data:
        table = pd.read_csv(given.data)
        table["OCCP"] //= 500
        for case in ("state", "older", "young"):
            cases[case] = lambda seed, case=case: acs(table, case, seed), ACS, 100
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    for case, (make, schema, n_select) in cases.items():
        for epsilon in given.epsilons:
            found = [
                scores(make(seed), schema, n_select, given.exponents, epsilon, seed)
                for seed in range(given.seeds)
            ]
            for exponent in found[0]:
                values = np.array([scored[exponent] for scored in found])
                means, errors = values.mean(axis=0), values.std(axis=0) / len(values) ** 0.5
                print(
                    f"{case:8}epsilon {epsilon:<5}exponent {exponent or 'random':<8}"
                    f"energy {means[0]:.5f} +- {errors[0]:.5f}  "
                    f"accuracy {means[1]:.3f} +- {errors[1]:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
