"""How good models are whose sketch explains much or little of how inputs go with the label.

    python examples/benchmarks/explained.py [--data FOLDER] [--epsilons 0.3 1 3 inf]

`M2MClassifier` by Fourier features and RACE, from 4,000 rows made here (3, 8 or 16 even columns,
three of which tell the label), breast cancer's first twelve columns, and the numbers of Adult
(FOLDER: see _tables.py). Prints, for each release: the share that the features can explain of what
an input and the label have together (the median input's; `LEAST_SHARE_EXPLAINED` is one half), the
AUC on a third of the rows that is held out, that of a logistic regression on the rows themselves,
and the first words of what warned. At last, for shares below that number and for others: how many
releases there are, how many of them have an AUC that is at most 0.04 lower than that of the rows,
and the least, the median and the most by which AUCs are lower; and the same without releases that
warn of collapsed weights.
"""

import argparse
import warnings
from pathlib import Path

import _tables
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skdpsumm import M2MClassifier, RACESketcher, RFFSketcher
from skdpsumm.moments._numbers import LEAST_SHARE_EXPLAINED
from skdpsumm.moments.learning import _models

SKETCHERS = {
    "60 features": RFFSketcher(n_components=60, gamma=0.5),
    "200 features": RFFSketcher(n_components=200),
    "100, narrow": RFFSketcher(n_components=100, gamma=2.0),
    "race": RACESketcher(n_repetitions=40, n_buckets=40),
}


def tables(folder):
    """Yield the name, rows in [0, 1] and labels of each table."""
    for d in (3, 8, 16):
        rng = np.random.default_rng(0)
        X = rng.random((4000, d))
        yield f"made, {d}", X, X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=4000) > 1.5
    X, y = load_breast_cancer(return_X_y=True)
    yield "cancer", (X[:, :12] - X[:, :12].min(axis=0)) / np.ptp(X[:, :12], axis=0), y == 1
    if folder is not None:
        table = _tables.load("adult", folder)
        frame, schema = table.train[:15_000], _tables.schema(table.public)
        low, high = np.array([schema[c].bounds for c in table.numeric]).T
        X = (frame[table.numeric].to_numpy(float) - low) / (high - low)
        yield "adult", X.clip(0, 1), (frame["label"] == "yes").to_numpy()


def auc(model, X, y):
    """Return the AUC of a model's probabilities."""
    return roc_auc_score(y, model.predict_proba(X)[:, 1])


def main():
    """Print a line a release, and the summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="without it Adult is left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1, 3, np.inf])
    arguments, found = parser.parse_args(), []
    for name, X, y in tables(arguments.data):
        train = np.arange(len(X)) % 3 > 0
        best = auc(LogisticRegression(max_iter=1000).fit(X[train], y[train]), X[~train], y[~train])
        for kind, sketcher in SKETCHERS.items():
            for epsilon in arguments.epsilons:
                release = sketcher.set_params(epsilon=epsilon, random_state=0)
                options = {"classes": [False, True], "n_synthetic": 5000, "random_state": 0}
                with warnings.catch_warnings(record=True, action="always") as told:
                    model = M2MClassifier((0, 1), release=release, **options)
                    model.fit(X[train], y[train])
                d = X.shape[1]
                of = model.sketch_, model._table, d, np.arange(d), "auto"
                share = np.median(_models._explained_shares(*of))
                said = "; ".join(str(one.message)[:24] for one in told)
                own = auc(model, X[~train], y[~train])
                found.append((share, best - own, "Points(prior" in said))
                line = f"{name:<10}{kind:<14}{epsilon:>5g}{share:6.2f}{own:7.3f}{best:7.3f}"
                print(f"{line}  {said}", flush=True)
    shares, lower, collapsed = np.array(found).T
    for title, some in (("all", True), ("weights not collapsed", collapsed == 0)):
        for side, is_low in (("below", True), ("others", False)):
            few = lower[((shares < LEAST_SHARE_EXPLAINED) == is_low) & some]
            if len(few):
                ends = f"{few.min():.3f} {np.median(few):.3f} {few.max():.3f}"
                print(f"{title}, {side}: {len(few)} releases, {np.sum(few <= 0.04)} near, {ends}")


if __name__ == "__main__":
    main()
