"""The main job on bundled data: one release of a table, and what it answers.

With the command `show`: what a sketch file promises, or what a ledger's file has spent.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdpsumm import (
    AdaptiveSketcher,
    AnswerWarning,
    M2MClassifier,
    M2MEstimator,
    PrivacyLedger,
    PrivateSketch,
)
from skdpsumm._computing import one_blas_thread

# What such measurements can be is public. The ranges are not read off these data.
SCHEMA = {"mean radius": (5, 30), "mean concavity": (0, 0.5), "diagnosis": ["benign", "malignant"]}
QUESTIONS = ("mean radius", "  of malignant tumours", "tumours of radius >= 15")


def true_answers(table: Any) -> list[str]:
    """Return what the questions ask, of the table itself."""
    radius = table["mean radius"]
    malignant = radius[table["diagnosis"] == "malignant"].mean()
    return [f"{radius.mean():.1f}", f"{malignant:.1f}", str((radius >= 15).sum())]


def private_answers(m2m: M2MEstimator) -> list[str]:
    """Return what a release says, each answer with its 95% interval."""
    large = m2m.table(["mean radius"], bins={"mean radius": [5, 15, 30]})[1]
    means = m2m.mean("mean radius"), m2m.mean("mean radius", by="diagnosis")["malignant"]
    told = []
    for answer, digits in zip((*means, large), (1, 1, 0), strict=True):
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

    plain = LogisticRegression(C=1e3, max_iter=1000)
    plain.fit(table.drop(columns="diagnosis"), table["diagnosis"])
    columns = [["true value", *true_answers(table), auc(plain)]]
    path = folder / "skdpsumm_demo.sketch"
    for epsilon in epsilons:
        # The curator makes one release, and saves it.
        sketcher = AdaptiveSketcher(SCHEMA, epsilon=epsilon, target="diagnosis")
        sketcher.fit(table).sketch_.save(path)
        # An analyst, who has the file alone, asks what they like, and trains a classifier.
        sketch = PrivateSketch.load(path)
        m2m = M2MEstimator.from_sketch(sketch, random_state=0)
        model = M2MClassifier.from_sketch(
            sketch, target="diagnosis", n_synthetic=20_000, random_state=0
        )
        columns.append([f"epsilon={epsilon:g}", *private_answers(m2m), auc(model)])
    rows = ("", *QUESTIONS, f"AUC on {len(held)} other tumours")
    for name, true, *cells in zip(rows, *columns, strict=True):
        print(f"{name:27}{true:>11}" + "".join(f"{cell:>21}" for cell in cells))
    print(
        f"\nOne private release of {len(table)} rows for each epsilon, read from its file; [95% "
        f"interval].\nThe last file promises: {sketch.privacy.short}.\n"
        f"Read it: python -m skdpsumm show {path}"
    )


def show(path: Path) -> None:
    """Tell what a sketch file holds and promises, or what a ledger's file has spent."""
    with path.open("rb") as file:
        is_ledger = file.read(16) == b"SQLite format 3\0"
    if not is_ledger:
        return print(PrivateSketch.load(path).explain())
    ledger = PrivacyLedger.open(path)
    print(
        f"Spent: epsilon={ledger.spent.epsilon:.4g} of {ledger.epsilon:g} at "
        f"delta={ledger.delta:g}, for one {ledger.unit}, {ledger.adjacency.replace('_', '-')}"
    )
    for entry in ledger.entries():
        told = "{id}. {time:.10} {dataset}: {label}, epsilon={epsilon:.4g}".format(**entry)
        print(told + " (simulated)" * entry["simulated"])
    for name in sorted({"default", *(entry["dataset"] for entry in ledger.entries())}):
        epsilon, delta = ledger.dataset(name).remaining
        print(f"Left for one more release of {name!r}: epsilon={epsilon:.4g} at delta={delta:.3g}")


def main() -> None:
    """Do the job, or what a command says."""
    parser = argparse.ArgumentParser(prog="python -m skdpsumm", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("."), help="folder for the file")
    command = parser.add_subparsers(dest="command").add_parser("show", help=show.__doc__)
    command.add_argument("file", type=Path)
    given = parser.parse_args()
    try:
        if given.command == "show":
            return show(given.file)
        import pandas  # noqa: F401
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    except ImportError:
        sys.exit("The demonstration reads its tables with pandas: pip install 'skdpsumm[plot]'")
    with one_blas_thread(), warnings.catch_warnings():  # all products are small
        warnings.simplefilter("ignore", AnswerWarning)  # the intervals say how wide they are
        sketch_once(given.output)


if __name__ == "__main__":
    main()
