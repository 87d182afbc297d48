"""The three jobs of the README on Adult as it comes: words, missing values and whole numbers.

    python examples/adult.py --data FOLDER [--epsilon 1]

FOLDER holds UCI's `adult.data` and `adult.test` (https://archive.ics.uci.edu/dataset/2/adult),
gzipped or not. What is public about their columns is said once, in `adult.toml` beside this file,
which `TableSchema.from_public` drafted and a person reviewed. Nothing is scaled, encoded or filled.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skdpsumm import (
    M2MClassifier,
    M2MEstimator,
    PrivateMMDSummarizer,
    PublicVectorizer,
    TableSchema,
    TDILClassifier,
    uniform_selection,
)

SCHEMA = TableSchema.load(Path(__file__).with_name("adult.toml"))
INPUTS = SCHEMA.take(range(14))  # all but the income
CLASSES = ["<=50K", ">50K"]


def load(folder, name):
    """Return one of UCI's two files as it comes."""
    (path,) = folder.glob(f"adult.{name}*")
    frame = pd.read_csv(path, names=SCHEMA.names, na_values="?", skipinitialspace=True, comment="|")
    frame["income"] = frame["income"].str.rstrip(".")  # the second file ends its labels with a dot
    return frame


def sketch_once(train, epsilon):
    """Ask a table whatever one likes, for the price of one release."""
    m2m = M2MEstimator(SCHEMA, epsilon=epsilon, random_state=0).fit(train)
    print(m2m.sketch_)
    print(m2m.mean())
    print(m2m.missing_share())
    print(m2m.table(["sex", "income"]))
    print("women who work long:", m2m.count(works_long))
    print("truth:", train[["age", "gain", "hours"]].mean().round(1).to_dict())
    print("truth:", train.isna().mean().loc[lambda shares: shares > 0].round(4).to_dict())
    print("truth:", pd.crosstab(train["sex"], train["income"]).to_numpy().tolist())
    print("truth:", int(works_long(train).sum()))
    print(m2m.sample(3))
    print(m2m.privacy_.badge)


def works_long(rows):
    """Return the indicator that is counted."""
    return (rows["sex"] == "Female") & (rows["hours"] > 40)


def choose_rows(train, test, epsilon):
    """Train on those rows of many owners that are most like rows of one's own, without labels."""
    mine = test[(test["relationship"] == "Husband") & (test["education_num"] < 10)]
    target, later = mine[:500].drop(columns="income"), mine[500:]
    X, y, owners = train.drop(columns="income"), train["income"], train["workclass"].fillna("none")
    summarizer = PrivateMMDSummarizer(INPUTS, n_select=500, epsilon=epsilon, random_state=0)
    model = make_pipeline(PublicVectorizer(INPUTS), LogisticRegression(C=10))
    for name, chosen in (
        ("like mine", summarizer.fit(X, X_target=target, owners=owners).sample_indices_),
        ("at random", uniform_selection(len(X), 500, random_state=0)),
    ):
        rows = X.iloc[chosen]
        share = ((rows["relationship"] == "Husband") & (rows["education_num"] < 10)).mean()
        score = auc(model.fit(rows, y.iloc[chosen]), later)
        print(f"{name}: {share:.2f} of 500 rows are of such people, AUC {score:.3f}")
    print(summarizer.privacy_.target.badge)


def learn(train, test, epsilon):
    """Train models that may be given to everybody: one from the rows, and one from a sketch."""
    X, y = train.drop(columns="income"), train["income"]
    model = TDILClassifier(schema=INPUTS, classes=CLASSES)
    for e in (epsilon, np.inf):
        model.set_params(epsilon=e).fit(X, y)
        print(f"AUC {auc(model, test):.3f}, {model.privacy_.badge}")
    model = M2MClassifier(INPUTS, classes=CLASSES, epsilon=epsilon, random_state=0).fit(X, y)
    print(f"AUC {auc(model, test):.3f}, {model.privacy_.badge}")


def auc(model, rows):
    """Return the area under the ROC curve."""
    score = model.decision_function(rows.drop(columns="income"))
    return roc_auc_score(rows["income"] == CLASSES[1], score)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()
    train, test = (load(arguments.data, name) for name in ("data", "test"))
    sketch_once(train, arguments.epsilon)
    choose_rows(train, test, arguments.epsilon)
    learn(train, test, arguments.epsilon)


if __name__ == "__main__":
    main()
