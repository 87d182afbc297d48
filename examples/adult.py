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
    M2MEstimator,
    PrivateMMDSummarizer,
    PublicVectorizer,
    SummarizedEstimator,
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
    frame = pd.read_csv(
        path, names=SCHEMA.names, na_values="?", skipinitialspace=True, comment="|"
    )
    frame["income"] = frame["income"].str.rstrip(".")  # the second file ends its labels with a dot
    return frame


def sketch_once(train, epsilon):
    """Ask a table whatever one likes, for the price of one release."""
    sketcher = M2MEstimator(schema=SCHEMA, random_state=0).preview_sketcher(15)
    m2m = M2MEstimator(sketcher.set_params(epsilon=epsilon), random_state=0).fit(train)
    print(m2m.mean())
    print(m2m.missing_share())
    print("above 60:", m2m.count(lambda rows: rows["age"] > 60))
    print("truth:", train[["age", "hours"]].mean().round(2).to_dict(), sum(train["age"] > 60))
    print(m2m.privacy_.badge)


def choose_rows(train, test, epsilon):
    """Train on the rows of many owners that are most like rows without labels of one's own."""
    mine = test[test["marital"] == "Never-married"]
    target, later = mine[:1000], mine[1000:]
    owners = train["workclass"].fillna("unknown")
    learner = make_pipeline(PublicVectorizer(INPUTS), LogisticRegression())
    summarizer = PrivateMMDSummarizer(500, schema=INPUTS, epsilon=epsilon, random_state=0)
    model = SummarizedEstimator(learner, summarizer)
    X, y = train.drop(columns="income"), train["income"]
    model.fit(X, y, X_target=target.drop(columns="income"), owners=owners)
    few = uniform_selection(len(X), 500, random_state=0)
    for name, chosen in ("like mine", model.estimator_), ("at random", learner.fit(X.iloc[few], y.iloc[few])):
        print(name, auc(chosen, later))
    print(model.summarizer_.privacy_.target.badge)


def learn(train, test, epsilon):
    """Train a model that may be given to everybody."""
    X, y = train.drop(columns="income"), train["income"]
    for e in (epsilon, np.inf):
        for mechanism in ("functional", "objective"):
            model = TDILClassifier(schema=INPUTS, mechanism=mechanism, classes=CLASSES, epsilon=e)
            print(e, mechanism, auc(model.fit(X, y), test))
    print(model.privacy_.badge)


def auc(model, rows):
    """Return the area under the ROC curve."""
    score = model.decision_function(rows.drop(columns="income"))
    return round(roc_auc_score(rows["income"] == ">50K", score), 3)


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
