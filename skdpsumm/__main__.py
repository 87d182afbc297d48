"""``python -m skdpsumm``: the library's three jobs on bundled data, in about half a minute."""

from __future__ import annotations

import argparse
import pickle
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from skdpsumm import (
    AdaptiveSketcher,
    AnswerWarning,
    M2MClassifier,
    M2MEstimator,
    PINPClassifier,
    PrivacyLedger,
    PrivateMMDSummarizer,
    PrivateSketch,
    TDDLClassifier,
    TDILClassifier,
    mmd2,
    uniform_selection,
)
from skdpsumm._computing import one_blas_thread
from skdpsumm.summaries import Propose

# What such measurements can be is public. The ranges are not read off these data.
SCHEMA = {
    "mean radius": (5, 30),
    "mean concavity": (0, 0.5),
    "diagnosis": ["benign", "malignant"],
}
QUESTIONS = (
    "mean radius",
    "  of malignant tumours",
    "median radius",
    "tumours of radius >= 15",
    "correlation with concavity",
)


def true_answers(table: Any) -> list[str]:
    """Return what the questions ask, of the table itself."""
    radius = table["mean radius"]
    malignant = radius[table["diagnosis"] == "malignant"].mean()
    found = [f"{x:.1f}" for x in (radius.mean(), malignant, radius.median())]
    together = radius.corr(table["mean concavity"])
    return [*found, str((radius >= 15).sum()), f"{together:.2f}"]


def private_answers(m2m: M2MEstimator) -> list[str]:
    """Return what a release says, each answer with its 95% interval."""
    means, by = m2m.mean(), m2m.mean(by="diagnosis")
    large = m2m.table(["mean radius"], bins={"mean radius": [5, 15, 30]})[1]
    answers = means["mean radius"], by["malignant", "mean radius"], m2m.quantile("mean radius", 0.5)
    told = []
    for answer, digits in zip(
        (*answers, large, m2m.correlation()[0, 1]), (1, 1, 1, 0, 2), strict=True
    ):
        value, low, high = (f"{x:.{digits}f}" for x in (float(answer), *answer.interval(0.95)))
        told.append(f"{value} [{low}, {high}]")
    return told


def sketch_once(folder: Path, epsilons: Sequence[float] = (1.0, 3.0, 10.0)) -> None:
    """Release breast cancer measurements once per epsilon, and ask what each file tells."""
    frame = load_breast_cancer(as_frame=True).frame
    names = frame["target"].map({0: "malignant", 1: "benign"})
    table, held = train_test_split(
        frame[["mean radius", "mean concavity"]].assign(diagnosis=names),
        test_size=0.2,
        random_state=0,
    )

    def auc(model: Any) -> str:
        scores = model.decision_function(held.drop(columns="diagnosis"))
        return f"{roc_auc_score(held['diagnosis'] == 'malignant', scores):.3f}"

    print(f"{len(table)} rows, 3 columns. One release per epsilon; each column reads one file.\n")
    plain = LogisticRegression(C=1e3, max_iter=1000)
    plain.fit(table.drop(columns="diagnosis"), table["diagnosis"])
    columns, promises = [["true value", *true_answers(table), auc(plain)]], []
    ledger, path = PrivacyLedger(epsilon=20.0, delta=1e-5), folder / "skdpsumm_demo.sketch"
    for epsilon in epsilons:
        # The curator makes one release, and saves it.
        sketcher = AdaptiveSketcher(SCHEMA, epsilon=epsilon, target="diagnosis", ledger=ledger)
        sketcher.fit(table).sketch_.save(path)
        # An analyst, who has the file alone, asks what they like, and trains a classifier.
        sketch = PrivateSketch.load(path)
        m2m = M2MEstimator.from_sketch(sketch, random_state=0)
        model = M2MClassifier.from_sketch(
            sketch, target="diagnosis", n_synthetic=20_000, random_state=0
        )
        columns.append([f"epsilon={epsilon:g}", *private_answers(m2m), auc(model)])
        promises.append(sketch.privacy.short)
    rows = ("", *QUESTIONS, f"AUC on {len(held)} other tumours")
    for name, true, *cells in zip(rows, *columns, strict=True):
        print(f"{name:27}{true:>11}" + "".join(f"{cell:>21}" for cell in cells))
    spent = ledger.spent
    print(
        f"\n[ ]: 95% interval.\n\nWhat the first file promises: {promises[0]}.\n"
        f"The ledger adds up all {len(epsilons)}: epsilon = {spent.epsilon:.3g} of at most "
        f"{ledger.epsilon:g}, at delta = 1e-5.\nThe last file: {path.name}"
    )


def choose_rows() -> None:
    """Choose handwritten digits of five owners for a target of threes and eights."""
    X, y = load_digits(return_X_y=True)
    wanted = np.flatnonzero(np.isin(y, (3, 8)))
    target, held = wanted[:100], wanted[100:200]
    rest = np.setdiff1d(np.arange(len(X)), wanted[:200])
    # Each owner has two digits: A has 0 and 1, B 2 and 3, and so on.
    owners = np.array(list("AABBCCDDEE"))[y[rest]]
    print(
        f"{len(rest)} rows of 5 owners; the target: {len(target)} unlabelled images of threes and "
        f"eights.\n\n{'chosen':>28}{'rows':>6}{'MMD^2':>9}{'accuracy':>10}   rows by owner"
    )

    def report(name: str, rows: Any) -> None:
        model = LogisticRegression(max_iter=1000).fit(X[rest][rows], y[rest][rows])
        distance = mmd2(X[rest][rows], X[target], schema=(0, 16))
        names, counts = np.unique(owners[rows], return_counts=True)
        shares = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
        accuracy = model.score(X[held], y[held])
        print(f"{name:>28}{len(rows):>6}{distance:>9.4f}{accuracy:>10.3f}   {shares}")

    report("all", np.arange(len(rest)))
    report("uniform", uniform_selection(len(rest), 60, random_state=0))
    trusting = Propose(max_share_per_owner=1.0)  # B holds most threes and fours
    for epsilon in (0.3, 1.0, np.inf):
        summarizer = PrivateMMDSummarizer(
            60, schema=(0, 16), epsilon=epsilon, protocol=trusting, random_state=0
        )
        summarizer.fit(X[rest], X_target=X[target], owners=owners)
        report(f"summary, epsilon={epsilon:g}", summarizer.sample_indices_)
        if epsilon == 1:
            privacy = summarizer.privacy_
    print(
        f"\n(accuracy on {len(held)} other images of the target's kind)\n\nWhat is promised at "
        f"epsilon=1, against {privacy.target.against}s:\n  the target: {privacy.target.short}\n"
        f"  the rows of other owners: {privacy.owners.short}, for none are seen\n"
        f"The chosen rows are real: {privacy.consumer.short} against the consumer."
    )


def learn_with_kernels(epsilons: Sequence[float] = (0.3, 1.0, 3.0, np.inf)) -> None:
    """Train each kind of learner for each epsilon: is a handwritten digit odd?"""
    X, y = load_digits(return_X_y=True)
    X, odd = normalize(X), np.where(y % 2, "odd", "even")
    order = np.random.default_rng(0).permutation(len(X))
    train, public, test = np.split(order, [1200, 1500])
    print(
        f"{len(train)} private images, {len(public)} public ones without labels; accuracy on "
        f"{len(test)} others, delta = 1e-6.\n\n{'':>28}"
        + "".join(f"{f'epsilon={epsilon:g}':>13}" for epsilon in epsilons)
    )
    learners: dict[str, Any] = {
        "TDDL, as printed (Laplace)": TDDLClassifier(
            kernel="poly", mechanism="laplace", norm_bound=1.0
        ),
        "PINP, answers one by one": PINPClassifier(kernel="poly", norm_bound=1.0),
        "TDIL, linear": TDILClassifier(norm_bound=1.0),
        "TDDL, released function": TDDLClassifier(kernel="poly", norm_bound=1.0),
    }
    for name, learner in learners.items():
        given = {"X_public": X[public]} if isinstance(learner, TDDLClassifier) else {}
        scores = []
        for epsilon in epsilons:
            learner.set_params(epsilon=epsilon).fit(X[train], odd[train], **given)
            scores.append(learner.score(X[test], odd[test]))
        print(f"{name:>28}" + "".join(f"{score:>13.3f}" for score in scores), flush=True)
    learner.set_params(epsilon=1.0).fit(X[train], odd[train], X_public=X[public])
    print(
        f"\nThe released function pickles to {len(pickle.dumps(learner)) / 1000:.0f} kB, with no "
        f"private row in it: {learner.privacy_.short}."
    )


def main() -> None:
    """Do the three jobs, or show a file."""
    parser = argparse.ArgumentParser(prog="python -m skdpsumm", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("."), help="folder for the file")
    jobs = parser.add_subparsers(dest="job")
    shown = jobs.add_parser("show", help="tell what a sketch file holds, and what it promises")
    shown.add_argument("file", type=Path)
    given = parser.parse_args()
    if given.job == "show":
        try:
            print(PrivateSketch.load(given.file).explain())
            return
        except (OSError, ValueError) as error:
            sys.exit(str(error))
    folder = given.output
    try:
        import pandas  # noqa: F401
    except ImportError:
        sys.exit("The demonstration reads its tables with pandas: pip install 'skdpsumm[plot]'")
    with one_blas_thread(), warnings.catch_warnings():  # all products are small
        warnings.simplefilter("ignore", AnswerWarning)  # the intervals say how wide they are
        print("== 1. Sketch once, ask forever: breast cancer measurements\n")
        sketch_once(folder)
        print("\n== 2. Choose rows from many owners: handwritten digits\n")
        choose_rows()
        print("\n== 3. Learn with kernels: handwritten digits, odd or even\n")
        learn_with_kernels()


if __name__ == "__main__":
    main()
