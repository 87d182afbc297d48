"""Accuracy on a shifted target of models trained on the private summary, beside real rows.

    python examples/benchmarks/private_summary.py [--data ACS.csv.gz] [--mnist mnist.npz]
        [--seeds 20] [--first-seed 0] [--epsilons 1 3] [--cases CASE ...]

Printed are means over paired seeds with standard errors, and what the private summary
gains on the unweighted sketch and on uniform real rows. All models are logistic regressions on the
vectors of the schema, trained on p = 500 rows but for "all rows"; they are judged by held-out rows
of the target's population. Cases:

    bend      synthetic: 12 owners of 1,000 rows; the label bends with two numbers, and the target
              lies where few rows are
    crossing  synthetic: the slope of a number depends on a category, which is rare but in the
              target
    digits    scikit-learn's, pooled to 4 by 4 pixels: five owners of two digits each (300 rows), a
              target of threes, eights and zeros
    mnist     (with --mnist, Keras's file) the same of MNIST: owners of 4,000 rows
    ACS       (with --data, the file of `examples/papers/summarization_figure1.py`) 37 or 38 states
              are the owners: `state` is Hawaii, `asian`, `older` women of 55 and more with a
              degree, `young` men below 30 who work full time
"""

import argparse
import json
import warnings

import numpy as np
import pandas as pd
from _tables import census_schema
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpsumm import (
    PrivacyLeakWarning,
    PrivateMMDSummarizer,
    PublicVectorizer,
    SketchSummarizer,
    TableSchema,
    simulation,
    uniform_selection,
)
from skdpsumm.summaries._synthetic_rows import TargetEmbedding

N_SELECT = 500
ACS = census_schema()
PIXELS = TableSchema({f"px{k}": (0, 16) for k in range(16)})
SYNTHETIC = TableSchema(
    {
        "a": (0, 1),
        "b": (0, 1),
        "c": (0, 1),
        "kind": ["u", "v", "w", "x"],
        "side": ["left", "right"],
        "d": (0, 1),
    }
)


def _synthetic(rng, n, centre, kinds):
    """Return rows around a centre, with shares of the kinds."""
    latent = rng.normal(size=(n, 1))
    z = centre + 0.16 * rng.normal(size=(n, 4)) + 0.08 * latent
    kind = rng.choice(list("uvwx"), size=n, p=kinds)
    side = np.where(rng.random(n) < 0.3 + 0.4 * (latent[:, 0] > 0), "right", "left")
    a, b, c, d = np.clip(z, 0, 1).T
    return pd.DataFrame({"a": a, "b": b, "c": c, "kind": kind, "side": side, "d": d})


def _labels(rng, case, X):
    if case == "bend":
        score = 6 - 40 * (X.a - 0.45) ** 2 - 12 * X.b + 2 * X.c + (X.side == "right")
    else:
        slope = X.kind.map({"u": 12, "v": 8, "w": -8, "x": -12}).to_numpy(float)
        score = slope * (X.a - 0.5) + 3 * (X.b - 0.5) + 0.5 * (X.side == "right")
    return (rng.random(len(X)) < 1 / (1 + np.exp(-score))).astype(int)


def synthetic(case, seed):
    """Return owners' rows, labels and names, the target, and held-out rows with labels."""
    rng = np.random.default_rng([7, seed])
    centres = 0.45 + 0.12 * rng.normal(size=(12, 4))
    common = [0.46, 0.34, 0.12, 0.08]
    parts = [_synthetic(rng, 1000, centre, common) for centre in centres]
    X = pd.concat(parts, ignore_index=True)
    there = {"bend": ([0.8, 0.4, 0.5, 0.5], common), "crossing": ([0.5] * 4, [0.1, 0.1, 0.2, 0.6])}
    target, held = (_synthetic(rng, n, *there[case]) for n in (300, 2000))
    owners = np.repeat(np.arange(12), 1000)
    return X, _labels(rng, case, X), owners, target, held, _labels(rng, case, held)


def digits(pixels, y, seed, n_target, n_held, n_rows):
    """Return the same of pictures of digits, pooled to 4 by 4 public components from 0 to 16."""
    width = round(pixels.shape[1] ** 0.5) // 4
    pooled = pixels.reshape(-1, 4, width, 4, width).mean(axis=(2, 4)).reshape(-1, 16)
    X = pd.DataFrame(pooled * 16 / pixels.max(), columns=list(PIXELS))
    rng = np.random.default_rng([11, seed])
    wanted = rng.permutation(np.flatnonzero(np.isin(y, [3, 8, 0])))
    target, held = wanted[:n_target], wanted[n_target : n_target + n_held]
    rest = np.setdiff1d(np.arange(len(y)), wanted[: n_target + n_held])
    rest = rng.permutation(rest)[:n_rows]
    owners = np.array(["AABBCCDDEE"[digit] for digit in y[rest]])
    return X.iloc[rest], y[rest], owners, X.iloc[target], X.iloc[held], y[held]


def acs(table, case, seed):
    """Return the same of a case of ACS."""
    wanted = {
        "state": table.ST == "HI",
        "asian": table.RAC1P == 3,
        "older": (table.SEX == 2) & (table.AGEP >= 55) & (table.SCHL >= 21),
        "young": (table.SEX == 1) & (table.AGEP < 30) & (table.WKHP >= 35),
    }[case].to_numpy()
    rng = np.random.default_rng([13, seed])
    found = rng.permutation(np.flatnonzero(wanted))
    target, held = found[:300], found[300:900]
    out = found if case == "state" else found[:900]
    rest = np.setdiff1d(np.arange(len(table)), out)
    X, y = table[list(ACS)], table.label.to_numpy(int)
    owners = table.ST.to_numpy()[rest]
    return X.iloc[rest], y[rest], owners, X.iloc[target], X.iloc[held], y[held]


def accuracies(problem, schema, epsilons, seed, labels, rows_per_owner, C):
    """Return accuracy on held-out rows of the target, by method."""
    X, y, owners, target, held, truth = problem
    found = {}

    def judge(name, rows, labels):
        model = make_pipeline(PublicVectorizer(schema), LogisticRegression(C=C, max_iter=1000))
        if len(np.unique(labels)) < 2:
            found[name] = float(np.mean(truth == labels[0]))
            return
        found[name] = model.fit(rows, labels).score(held, truth)

    def summary(epsilon):
        known = {"label": labels, "rows_per_owner": rows_per_owner}
        return SketchSummarizer(
            schema, n_select=N_SELECT, epsilon=epsilon, random_state=seed, **known
        )

    judge("all rows", X, y)
    # What weighting is worth where nothing is private: below zero, labels shift as well.
    embedding = TargetEmbedding.of(target[list(schema)].to_numpy(), schema)
    weights = embedding.weights(X[list(schema)].to_numpy())
    vectorizer = PublicVectorizer(schema).fit(X)
    model = LogisticRegression(C=C, max_iter=1000)
    model.fit(vectorizer.transform(X), y, sample_weight=weights * len(weights))
    found["all rows, weighted"] = model.score(vectorizer.transform(held), truth)
    chosen = uniform_selection(len(X), N_SELECT, random_state=seed)
    judge("uniform rows", X.iloc[chosen], y[chosen])
    rows = PrivateMMDSummarizer(schema, n_select=N_SELECT, epsilon=epsilons[0], random_state=seed)
    with simulation(seed):
        proposed = rows.fit(X, X_target=target, owners=owners).sample_indices_
    judge(f"propose, {epsilons[0]:g}", X.iloc[proposed], y[proposed])
    for epsilon in epsilons:
        with simulation(seed):
            plain = summary(epsilon).fit(X, y, owners=owners)
            fitted = summary(epsilon).fit(X, y, X_target=target, owners=owners)
        judge(f"sketch, unweighted, {epsilon:g}", plain.X_, plain.y_)
        judge(f"private summary, {epsilon:g}", fitted.X_, fitted.y_)
        found[f"(rows of equal weight, {epsilon:g})"] = fitted.effective_sample_size_
    return found


def told(found, epsilons):
    """Print means, and paired differences."""

    def row(name, values):
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
        print(f"    {name:44}{values.mean():9.4f} +- {error:.4f}", flush=True)

    by_name = {name: np.array([one[name] for one in found]) for name in found[0]}
    for name, values in by_name.items():
        row(name, values)
    uniform = by_name["uniform rows"]
    row("all rows: weighted - unweighted", by_name["all rows, weighted"] - by_name["all rows"])
    for e in epsilons:
        summary, plain = (by_name[f"{k}, {e:g}"] for k in ("private summary", "sketch, unweighted"))
        row(f"private summary - unweighted, {e:g}", summary - plain)
        row(f"private summary - uniform rows, {e:g}", summary - uniform)


def main():
    """Run all cases, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--mnist")
    parser.add_argument("--json", help="append the figures of each seed to this file")
    given = parser.parse_args()
    pictures = load_digits(return_X_y=True)
    # What makes the rows, the schema, C (by uniform rows of other seeds), and rows of an owner.
    cases = {
        "bend": (lambda seed: synthetic("bend", seed), SYNTHETIC, 10, 1000),
        "crossing": (lambda seed: synthetic("crossing", seed), SYNTHETIC, 10, 1000),
        "digits": (lambda seed: digits(*pictures, seed, 100, 200, 1500), PIXELS, 100, 300),
    }
    if given.mnist:
        with np.load(given.mnist) as file:
            mnist = file["x_train"].reshape(-1, 784).astype(float), file["y_train"]
        make = lambda seed: digits(*mnist, seed, 300, 2000, 20_000)  # noqa: E731
        cases["mnist"] = make, PIXELS, 100, 4000
    if given.data:
        table = pd.read_csv(given.data)
        table["OCCP"] //= 500
        for name in ("state", "asian", "older", "young"):
            cases[name] = lambda seed, name=name: acs(table, name, seed), ACS, 10, 1000
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    warnings.simplefilter("ignore", UserWarning)
    wanted = given.cases or list(cases)
    found = {name: [] for name in wanted}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for name in wanted:
            make, schema, C, rows_per_owner = cases[name]
            classes = list(range(10)) if schema is PIXELS else [0, 1]
            public = classes, rows_per_owner, C
            scores = accuracies(make(seed), schema, given.epsilons, seed, *public)
            found[name].append(scores)
            if given.json:
                with open(given.json, "a") as file:
                    file.write(json.dumps({"case": name, "seed": seed, **scores}) + "\n")
    for name in wanted:
        print(f"{name}: {given.seeds} seeds")
        told(found[name], given.epsilons)


if __name__ == "__main__":
    main()
