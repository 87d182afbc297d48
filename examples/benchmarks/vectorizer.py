"""How to make vectors of norm at most one of a table: which way serves private models best.

    python examples/benchmarks/vectorizer.py --data DIR
        [--tables adult acs covertype occupancy cancer] [--ways NAME ...]
        [--learners objective functional tddl logistic] [--epsilons 0.5 1 3 inf] [--seeds 5]

Numbers go to [-1, 1] ("centred") or to [0, 1] ("unit"), categories to indicators; then all rows are
divided by one public number, the root of the number of columns ("public"), or each row by its own
norm ("row"). "+1" has a constant beside the columns. `PublicVectorizer` is "centred, public+1"
where all columns are numbers, and "centred, public" elsewhere.

Area under the ROC curve (with its standard deviation) and accuracy on 20 % of the rows, means of
the seeds, at delta = 1e-6:

    objective, functional   TDILClassifier(mechanism=...), linear
    tddl                    TDDLClassifier(kernel="rbf"), with gamma and 256 points from the schema,
                            and 4,000 rows
    logistic                scikit-learn's LogisticRegression, numbers standardised: not private

DIR holds the folders adult (adult.data and adult.test of UCI, gzipped or not), acs (a CSV of
folktables' ACSIncome, whose name begins with acs_income), covertype (an npz of UCI's with X of
shape (n, 54) and y in 1..7) and occupancy (UCI's three files); breast cancer comes with
scikit-learn.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from learner_rivals import ADULT, COVERTYPE
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpsumm import Categorical, Numeric, TableSchema, TDDLClassifier, TDILClassifier
from skdpsumm.features._feature_maps import auto_gamma
from skdpsumm.schema._reading import read_table
from skdpsumm.schema._schema import public_points

DELTA = 1e-6
N_EXACT, N_POINTS = 4000, 256


# ---- tables: a frame, labels, and what is public of the columns


def adult(folder):
    """Return UCI's Adult as it comes: words, whole numbers, and missing values."""
    names = [*ADULT, "income"]
    parts = [
        pd.read_csv(
            path, header=None, names=names, skipinitialspace=True, na_values="?", comment="|"
        )
        for path in sorted(folder.glob("adult.[dt]*"))
    ]
    frame = pd.concat(parts, ignore_index=True)
    y = frame.pop("income").str.startswith(">50K").to_numpy()
    schema = {
        name: Numeric(*known, step=1)
        if isinstance(known, tuple)
        else Categorical(
            known.split(", "), missing=name in ("workclass", "occupation", "native-country")
        )
        for name, known in ADULT.items()
    }
    return frame, y, TableSchema(schema)


def acs(folder):
    """Return folktables' ACSIncome, occupations in groups of 500 codes, without places of birth."""
    frame = pd.read_csv(next(folder.glob("acs_income*.csv*")))
    y = frame.pop("label").to_numpy() == 1
    frame["OCCP"] = frame["OCCP"] // 500
    codes = {"COW": (1, 9), "SCHL": (1, 25), "MAR": (1, 3), "OCCP": (0, 20)}
    codes |= {"RELP": (0, 18), "SEX": (1, 3), "RAC1P": (1, 6)}
    columns = {name: list(range(*ends)) for name, ends in codes.items()}
    columns |= {"AGEP": (17, 96), "WKHP": (1, 99)}
    return frame, y, TableSchema(columns, extra_columns="drop")


def covertype(folder):
    """Return UCI's Covertype, class 2 against the rest; indicators are categories again."""
    with np.load(next(folder.glob("cov*.npz"))) as file:
        X, y = file["X"].astype(float), file["y"] == 2
    area, soil = X[:, 10:14].argmax(axis=1), X[:, 14:].argmax(axis=1)
    known = [*COVERTYPE, list(range(4)), list(range(40))]
    return pd.DataFrame(np.column_stack([X[:, :10], area, soil])), y, TableSchema(known)


def occupancy(folder):
    """Return UCI's Occupancy Detection: five numbers, and no categories."""
    frame = pd.concat([pd.read_csv(path) for path in sorted(folder.glob("data*.txt"))])
    y = frame.pop("Occupancy").to_numpy() == 1
    columns = {"Temperature": (10, 40), "Humidity": (0, 100), "Light": (0, 2000)}
    columns |= {"CO2": (300, 3000), "HumidityRatio": (0, 0.02)}
    frame = frame.drop(columns="date").reset_index(drop=True)
    return frame, y, TableSchema(columns)


def cancer(_):
    """Return scikit-learn's breast cancer; its description lists the extremes of all columns."""
    X, y = load_breast_cancer(return_X_y=True)
    return (
        pd.DataFrame(X),
        y == 1,
        TableSchema(list(zip(X.min(axis=0), X.max(axis=0), strict=True))),
    )


TABLES = {
    "adult": adult,
    "acs": acs,
    "covertype": covertype,
    "occupancy": occupancy,
    "cancer": cancer,
}


# ---- ways to make vectors


def blocks(schema, cells, numbers):
    """Return the entries of all columns side by side, and the largest norm of a row of them."""
    parts = []
    for j, column in enumerate(schema.columns):
        values = schema.read(cells, j)
        if isinstance(column, Categorical):
            parts.append(np.eye(column.n_codes)[values])
            continue
        low, high = column.bounds
        scaled = (values - low) / (high - low)
        parts.append((2 * scaled - 1 if numbers == "centred" else scaled)[:, None])
    return np.hstack(parts), np.sqrt(len(parts))


def vectors(schema, cells, way):
    """Return the vectors of a table, of norm at most one; `way` is one of `WAYS`."""
    numbers, scale = way.removesuffix("+1").split(", ")
    X, longest = blocks(schema, cells, numbers)
    if way.endswith("+1"):
        X, longest = np.column_stack([X, np.ones(len(X))]), np.hypot(longest, 1)
    if scale == "row":
        longest = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return X / longest


WAYS = [f"{n}, {s}{c}" for c in ("", "+1") for n in ("centred", "unit") for s in ("public", "row")]


# ---- learners


def tdil(mechanism):
    def scores(train, y, test, points, epsilon, seed):
        model = TDILClassifier(
            mechanism=mechanism, epsilon=epsilon, delta=DELTA, classes=[False, True]
        )
        return model.fit(train, y).decision_function(test)

    return scores


def tddl(train, y, test, points, epsilon, seed):
    model = TDDLClassifier(
        gamma=auto_gamma(points) / 2, epsilon=epsilon, delta=DELTA, classes=[False, True]
    )
    train, y = train[:N_EXACT], y[:N_EXACT]
    return model.fit(train, y, X_public=points[:N_POINTS]).decision_function(test)


LEARNERS = {"objective": tdil("objective"), "functional": tdil("functional"), "tddl": tddl}


def logistic(frame, y, schema, seeds):
    """Return how good a model is that is not private, encoded as one would without privacy."""
    words = [k for k, c in zip(schema.names, schema.columns, strict=True) if hasattr(c, "n_codes")]
    numbers = [k for k in schema.names if k not in words]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words), (StandardScaler(), numbers)
    )
    model = make_pipeline(encoder, LogisticRegression(max_iter=2000))
    named, found = frame.rename(columns=str), []
    for seed in seeds:
        train, test = folds(len(y), seed)
        model.fit(named.iloc[train], y[train])
        found.append(quality(y[test], model.decision_function(named.iloc[test])))
    return found


def folds(n_rows, seed):
    return train_test_split(np.arange(n_rows), test_size=0.2, random_state=seed)


def quality(y, scores):
    return roc_auc_score(y, scores), np.mean((scores > 0) == y)


def qualities(name, X, y, points, epsilon, seeds):
    """Return the AUC and the accuracy of each seed."""
    found = []
    for seed in seeds:
        train, test = folds(len(y), seed)
        scores = LEARNERS[name](X[train], y[train], X[test], points, epsilon, seed)
        found.append(quality(y[test], scores))
    return found


def told(values):
    (auc, accuracy), (spread, _) = np.mean(values, axis=0), np.std(values, axis=0)
    return f"{auc:.3f} ({spread:.3f}) {accuracy:.3f}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    known = [*LEARNERS, "logistic"]
    parser.add_argument("--learners", nargs="+", default=known, choices=known)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1, 3, np.inf])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    seeds = range(options.seeds)
    for table in options.tables:
        frame, y, known = TABLES[table](options.data / table)
        known = known.for_table(frame.shape[1], [str(name) for name in frame.columns])
        if "logistic" in options.learners:
            print(
                f"{table}, LogisticRegression: {told(logistic(frame, y, known, seeds))}", flush=True
            )
        cells = read_table(frame.rename(columns=str)[list(known.names)])
        print(f"{table:18} {'':12}" + "".join(f"{e:>21g}" for e in options.epsilons))
        for way in options.ways:
            X = vectors(known, cells, way)
            points = vectors(known, public_points(known), way)
            for name in options.learners:
                if name == "logistic":
                    continue
                row = [told(qualities(name, X, y, points, e, seeds)) for e in options.epsilons]
                print(f"{way:18} {name:12}" + "".join(f"{text:>21}" for text in row), flush=True)


if __name__ == "__main__":
    main()
