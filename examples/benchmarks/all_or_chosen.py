"""When choosing rows for a target is worth it: models of chosen, of uniform, and of all rows.

    python examples/benchmarks/all_or_chosen.py [--data ACS.csv.gz] [--seeds 5] [--json FILE]

The targets of private_summary.py, of 300 rows (digits: 100). "propose" chooses 500 rows at epsilon
= 1 for the target's rows. A straight model is a logistic regression on the vectors of the schema,
and one that bends is gradient boosted trees, by scikit-learn's defaults. Accuracy on other rows of
the target's population; means of the seeds.
"""

import argparse
import warnings

import _results
import numpy as np
import pandas as pd
from private_summary import ACS, N_SELECT, PIXELS, SYNTHETIC, acs, digits, synthetic
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from skdpsumm import PrivateMMDSummarizer, PublicVectorizer, simulation, uniform_selection

MODELS = {
    "straight": LogisticRegression(C=10, max_iter=1000),
    "bends": HistGradientBoostingClassifier(random_state=0),
}


def accuracies(problem, schema, seed):
    """Return the accuracy of each model of each choice of rows, in this order."""
    X, y, owners, target, held, truth = problem
    summarizer = PrivateMMDSummarizer(schema, n_select=N_SELECT, epsilon=1.0, random_state=seed)
    with simulation(seed):
        chosen = summarizer.fit(X, X_target=target, owners=owners).sample_indices_
    uniform = uniform_selection(len(X), N_SELECT, random_state=seed)
    vectorizer = PublicVectorizer(schema).fit(X)
    rows, unseen = vectorizer.transform(X), vectorizer.transform(held)
    return [
        model.fit(rows[which], y[which]).score(unseen, truth)
        for model in MODELS.values()
        for which in (slice(None), uniform, chosen)
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="acs_income_2018_small_1000_per_state.csv.gz")
    parser.add_argument("--seeds", type=int, default=5)
    _results.add_argument(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    pictures = load_digits(return_X_y=True)
    cases = {name: (lambda s, n=name: synthetic(n, s), SYNTHETIC) for name in ("bend", "crossing")}
    cases["digits"] = (lambda s: digits(*pictures, s, 100, 200, 1500)), PIXELS
    if options.data:
        table = pd.read_csv(options.data)
        table["OCCP"] //= 500
        for name, words in (("older", "graduates, women, 55+"), ("young", "men below 30")):
            cases[f"ACS, {words}"] = (lambda s, n=name: acs(table, n, s)), ACS
    rows = []
    for name, (make, schema) in cases.items():
        found = [accuracies(make(seed), schema, seed) for seed in range(options.seeds)]
        means = np.round(np.mean(found, axis=0), 3).reshape(len(MODELS), 3).tolist()
        rows += [[f"{name}: {model}", *row] for model, row in zip(MODELS, means, strict=True)]
        print(*rows[-2:], sep="\n", flush=True)
    _results.store(
        options.json,
        job="choose",
        title="All rows, or chosen ones?",
        about="Accuracy on unseen rows of the target's population of models of all rows, of 500 "
        'uniform ones and of 500 chosen ones ("propose", epsilon = 1): a logistic regression, '
        f"which is straight, and boosted trees, which bend. Means of {options.seeds} seeds.",
        columns=["target: model", "all", "uniform", "chosen"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
