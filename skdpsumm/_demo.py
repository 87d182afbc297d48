"""The three jobs of ``python -m skdpsumm``, on scikit-learn's bundled data."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from skdpsumm import (
    AdaptiveSketcher,
    AnswerWarning,
    Estimate,
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
from skdpsumm._computing import advance, progress
from skdpsumm.summaries import Propose

# The first job. A curator releases one sketch per epsilon of breast cancer measurements and saves
# it. An analyst, who holds only the file, asks what they like, and trains a classifier.

# Public knowledge of the columns: what such measurements can be, not what these data are.
SCHEMA = {
    "mean radius": (5, 30),
    "mean concavity": (0, 0.5),
    "diagnosis": ["benign", "malignant"],
}
MEASURED = ["mean radius", "mean concavity"]
EPSILONS = (1.0, 3.0, 10.0)


class Question(NamedTuple):
    """What an analyst asks, how wide the range of possible answers is, and how many digits show."""

    ask: Callable[[M2MEstimator], Estimate]
    width: float
    digits: int = 1


QUESTIONS = {
    "mean radius": Question(lambda m2m: m2m.mean()["mean radius"], 25),
    "  of malignant tumours": Question(
        lambda m2m: m2m.mean(by="diagnosis")["malignant", "mean radius"], 25
    ),
    "median radius": Question(lambda m2m: m2m.quantile("mean radius", 0.5), 25),
    "tumours of radius >= 15": Question(
        lambda m2m: m2m.table(["mean radius"], bins={"mean radius": [5, 15, 30]})[1], 455, 0
    ),
    "correlation with concavity": Question(lambda m2m: m2m.correlation()[0, 1], 2, 2),
}
LEVEL = 0.95
DROWNED = "drowned in noise"


def load_tumours() -> Any:
    """Return two columns of measurements, and the diagnosis."""
    frame = load_breast_cancer(as_frame=True).frame
    return frame[MEASURED].assign(diagnosis=frame["target"].map({0: "malignant", 1: "benign"}))


def true_answers(table: Any) -> list[float]:
    """Return what the questions ask, of the table itself."""
    radius = table["mean radius"]
    malignant = radius[table["diagnosis"] == "malignant"]
    together = radius.corr(table["mean concavity"])
    return [radius.mean(), malignant.mean(), radius.median(), (radius >= 15).sum(), together]


def release(table: Any, epsilon: float, ledger: PrivacyLedger, path: Path) -> None:
    """Be the curator: one charge, one file."""
    sketcher = AdaptiveSketcher(SCHEMA, epsilon=epsilon, target="diagnosis", ledger=ledger)
    sketcher.fit(table).sketch_.save(path)


def ask_all(m2m: M2MEstimator) -> list[Estimate | None]:
    """Return the answers; None for one whose interval is wider than half of what is possible.

    The library warns of most of these, which the table says instead.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)
        answers = [question.ask(m2m) for question in QUESTIONS.values()]
    widths = [float(np.diff(answer.interval(LEVEL)).item()) for answer in answers]
    return [
        answer if width <= question.width / 2 else None
        for answer, width, question in zip(answers, widths, QUESTIONS.values(), strict=True)
    ]


def auc_of(model: Any, table: Any) -> float:
    """Return how well a model tells malignant tumours that it has not seen."""
    scores = model.decision_function(table[MEASURED])
    return float(roc_auc_score(table["diagnosis"] == "malignant", scores))


def written(answer: Estimate | float | None, question: Question) -> str:
    """Return a cell of the table: a number, with its interval where it is an estimate."""
    if answer is None:
        return DROWNED
    ends: list[float] = answer.interval(LEVEL).tolist() if isinstance(answer, Estimate) else []
    value, *between = (f"{float(x):.{question.digits}f}" for x in (answer, *ends))
    return f"{value} [{', '.join(between)}]" if between else value


def column(answers: Sequence[Estimate | float | None], auc: float) -> list[str]:
    """Return the cells of one release, or of the table itself."""
    pairs = zip(answers, QUESTIONS.values(), strict=True)
    return [*(written(answer, question) for answer, question in pairs), f"{auc:.3f}"]


def covered(answers: Sequence[Estimate | None], truth: Sequence[float]) -> list[bool]:
    """Return whether the interval of each answer that is shown holds the truth."""
    pairs = zip(answers, truth, strict=True)
    ends = [(answer.interval(LEVEL), true) for answer, true in pairs if answer is not None]
    return [bool(low <= true <= high) for (low, high), true in ends]


def sketch_once(folder: Path) -> None:
    """Release sketches and ask them; leave the last one and, with matplotlib, a picture."""
    table, held = train_test_split(load_tumours(), test_size=0.2, random_state=0)
    truth = true_answers(table)
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-5)
    path = folder / "skdpsumm_demo.sketch"

    print(
        f"{len(table)} rows, 3 columns. One release per epsilon; each column reads one file.\n",
        flush=True,
    )
    plain = LogisticRegression(C=1e3, max_iter=1000).fit(table[MEASURED], table["diagnosis"])
    columns = [column(truth, auc_of(plain, held))]
    releases, hits = {}, []
    with progress("releases and answers", 1, len(EPSILONS)):
        for epsilon in EPSILONS:
            release(table, epsilon, ledger, path)
            sketch = PrivateSketch.load(path)
            releases[epsilon] = M2MEstimator.from_sketch(sketch, random_state=0)
            answers = ask_all(releases[epsilon])
            hits += covered(answers, truth)
            model = M2MClassifier.from_sketch(
                sketch, target="diagnosis", n_synthetic=20_000, random_state=0
            )
            columns.append(column(answers, auc_of(model, held)))
            advance()
    names = ["", *QUESTIONS, f"AUC on {len(held)} other tumours"]
    heads = ["true value", *(f"epsilon={epsilon:g}" for epsilon in EPSILONS)]
    with_heads = [[head, *column] for head, column in zip(heads, columns, strict=True)]
    for name, true, *cells in zip(names, *with_heads, strict=True):
        print(f"{name:27}{true:>11}" + "".join(f"{cell:>19}" for cell in cells))
    print(
        f"\n[ ]: 95% interval; {sum(hits)} of these {len(hits)} hold the true value.\n"
        f"{DROWNED}: the interval is wider than half of what is possible."
    )
    spent = ledger.spent
    print(
        f"\nWhat the first file promises: {releases[EPSILONS[0]].privacy_.short}.\n"
        f"The ledger adds up all {len(EPSILONS)}: epsilon = {spent.epsilon:.3g} of at most "
        f"{ledger.epsilon:g}, at delta = 1e-5."
    )
    print(f"The last file: {path.name}")
    draw(releases, true_answers(table)[0], folder / "skdpsumm_demo.png")


def draw(releases: dict[float, M2MEstimator], mean: float, path: Path) -> None:
    """Write the picture, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("For the picture: pip install 'skdpsumm[plot]'")
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from skdpsumm.plotting import (
        CDFDisplay,
        ComparisonDisplay,
        CrosstabDisplay,
        PrivacyUtilityDisplay,
    )

    figure, axes = plt.subplots(2, 2, figsize=(11.5, 8), layout="constrained")
    first, last = releases[EPSILONS[0]], releases[EPSILONS[-1]]
    bins = [5, 10, 15, 20, 30]
    means = {epsilon: m2m.mean()["mean radius"] for epsilon, m2m in releases.items()}
    PrivacyUtilityDisplay.from_estimates(
        means, label="mean radius", delta=1e-6, reference=mean, ax=axes[0, 0]
    )
    CDFDisplay.from_estimator(first, "mean radius", ax=axes[0, 1], name="epsilon=1")
    CDFDisplay.from_estimator(last, "mean radius", ax=axes[0, 1], name="epsilon=10")
    ComparisonDisplay.from_estimator(
        {"epsilon=1": first, "epsilon=10": last},
        lambda m2m: m2m.histogram("mean radius", bins),
        label="share of rows, by mean radius",
        ax=axes[1, 0],
    )
    CrosstabDisplay.from_estimator(
        releases[3.0], ["diagnosis", "mean radius"], bins={"mean radius": bins}, ax=axes[1, 1]
    )
    figure.savefig(path, dpi=110)
    print(f"The picture: {path.name}")


# The second job. Five owners hold handwritten digits, by pairs of digits. A consumer has 100 images
# without labels, of threes and eights only, and wants a model that is good at those. The curator
# chooses 60 rows of the owners with `PrivateMMDSummarizer`.

OWNERS = {0: "A", 1: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "D", 8: "D", 9: "E", 2: "E"}
SHARES = {3: 0.7, 8: 0.3}
N_TARGET, N_SELECT = 100, 60
SUMMARY_EPSILONS = (0.3, 1.0, np.inf)
PIXELS = (0, 16)  # their public range, from which the width of the kernel follows


def deal_digits(rng: np.random.Generator):
    """Return the owners' rows, labels and owners, the target, and held-out rows with labels."""
    X, y = load_digits(return_X_y=True)
    rows = {digit: rng.permutation(np.flatnonzero(y == digit)) for digit in SHARES}
    sizes = {digit: round(N_TARGET * share) for digit, share in SHARES.items()}
    target = np.concatenate([rows[d][: sizes[d]] for d in SHARES])
    held = np.concatenate([rows[d][sizes[d] : 2 * sizes[d]] for d in SHARES])
    rest = np.setdiff1d(np.arange(len(X)), np.concatenate([target, held]))
    owners = np.array([OWNERS[digit] for digit in y[rest]])
    return X[rest], y[rest], owners, X[target], X[held], y[held]


def choose_rows() -> None:
    """Choose rows of the owners for the target, by chance and in private."""
    X, y, owners, target, held, held_labels = deal_digits(np.random.default_rng(0))
    print(
        f"{len(X)} rows of 5 owners; the target: {len(target)} unlabelled images, 70 per cent "
        f"threes and 30 per cent eights.\n\n{'chosen':>28}{'rows':>6}{'MMD^2':>9}{'accuracy':>10}"
        "   rows by owner"
    )

    def report(name: str, rows) -> None:
        model = LogisticRegression(max_iter=1000).fit(X[rows], y[rows])
        distance = mmd2(X[rows], target, schema=PIXELS)
        score = model.score(held, held_labels)
        names, counts = np.unique(owners[rows], return_counts=True)
        shares = ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
        print(f"{name:>28}{len(rows):>6}{distance:>9.4f}{score:>10.3f}   {shares}")

    report("all", np.arange(len(X)))
    report("uniform", uniform_selection(len(X), N_SELECT, random_state=0))
    summaries, trusting = {}, Propose(max_share_per_owner=1.0)
    with progress("choice of rows", 1, len(SUMMARY_EPSILONS)):
        for epsilon in SUMMARY_EPSILONS:
            # B holds most threes and fours, and is trusted to.
            summarizer = PrivateMMDSummarizer(
                N_SELECT, schema=PIXELS, epsilon=epsilon, protocol=trusting, random_state=0
            )
            summaries[epsilon] = summarizer.fit(X, X_target=target, owners=owners)
            advance()
    for epsilon, summarizer in summaries.items():
        report(f"summary, epsilon={epsilon:g}", summarizer.sample_indices_)
    privacy, accessed = summaries[1.0].privacy_, summaries[1.0].n_accessed_
    print(
        f"\n(accuracy on {len(held)} other images of the target's kind; the curator saw {accessed} "
        f"rows)\n\nWhat is promised at epsilon=1, against {privacy.target.against}s:\n"
        f"  the target: {privacy.target.short}\n"
        f"  the rows of other owners: {privacy.owners.short}, for none are seen\n"
        f"The chosen rows are real: {privacy.consumer.short} against the consumer."
    )


# The third job. 1,200 labelled images are private, 300 unlabelled ones public, and 297 are for the
# test: is the digit odd?

N_TRAIN, N_PUBLIC = 1200, 300
CUBIC: dict[str, Any] = {"kernel": "poly"}
LEARNERS = {
    "TDDL, released function": TDDLClassifier(**CUBIC),
    "TDDL, as printed (Laplace)": TDDLClassifier(mechanism="laplace", **CUBIC),
    "PINP, answers one by one": PINPClassifier(**CUBIC),
    "TDIL, linear": TDILClassifier(),
}
LEARNER_EPSILONS = (0.3, 1.0, 3.0, np.inf)


def learn_with_kernels() -> None:
    """Train each learner for each epsilon, and print how well it does."""
    X, y = load_digits(return_X_y=True)
    X, odd = normalize(X), np.where(y % 2, "odd", "even")
    order = np.random.default_rng(0).permutation(len(X))
    train, public, test = np.split(order, [N_TRAIN, N_TRAIN + N_PUBLIC])
    print(
        f"{len(train)} private images, {len(public)} public ones without labels; accuracy on "
        f"{len(test)} others, delta = 1e-6.\n",
        flush=True,
    )
    scores: dict[str, list[float]] = {name: [] for name in LEARNERS}
    with progress("fits", 1, len(LEARNERS) * len(LEARNER_EPSILONS)):
        for name, learner in LEARNERS.items():
            given = {"X_public": X[public]} if isinstance(learner, TDDLClassifier) else {}
            for epsilon in LEARNER_EPSILONS:
                learner.set_params(epsilon=epsilon).fit(X[train], odd[train], **given)
                scores[name].append(learner.score(X[test], odd[test]))
                advance()
    print(f"{'':>28}" + "".join(f"{f'epsilon={e:g}':>13}" for e in LEARNER_EPSILONS))
    for name, row in scores.items():
        print(f"{name:>28}" + "".join(f"{score:>13.3f}" for score in row))
    shipped = LEARNERS["TDDL, released function"].set_params(epsilon=1.0)
    shipped.fit(X[train], odd[train], X_public=X[public])
    print(
        f"\nThe released function pickles to {len(pickle.dumps(shipped)) / 1000:.0f} kB, with no "
        f"private row in it: {shipped.privacy_.short}."
    )
