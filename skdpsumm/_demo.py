"""The three jobs of ``python -m skdpsumm``, on scikit-learn's bundled data."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from skdpsumm import (
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    PINPClassifier,
    PrivacyLedger,
    PrivateMMDSummarizer,
    PrivateSketch,
    RFFSketcher,
    SketchUnion,
    TDDLClassifier,
    TDILClassifier,
    mmd2,
    uniform_selection,
)

# The first job. A curator releases one sketch per epsilon of breast cancer measurements and saves
# it. An analyst, who holds only the file, asks for means, a correlation and a count, and trains a
# classifier.

# Public knowledge of the columns: what such measurements can be, not what these data are.
SCHEMA = {"mean radius": (5, 30), "mean texture": (5, 45), "mean concavity": (0, 0.5)}
EPSILONS = (0.3, 1.0, 3.0, 10.0)
STATISTICS = ("mean radius", "mean concavity", "correlation", "rows with radius > 15")


def load_tumours():
    """Return the three columns, and whether each tumour is benign."""
    data = load_breast_cancer()
    picked = [list(data.feature_names).index(name) for name in SCHEMA]
    return data.data[:, picked], data.target


def release(X, y, epsilon: float, ledger: PrivacyLedger, path: Path) -> None:
    """Be the curator: one charge, one file."""
    sketcher = SketchUnion(
        [HistogramSketcher(n_bins=20), RFFSketcher(60)],
        epsilon=epsilon,
        ledger=ledger,
    )
    model = M2MClassifier(
        sketcher=sketcher, schema=list(SCHEMA.values()), classes=[0, 1], random_state=0
    )
    model.set_params(n_synthetic=2_000).fit(X, y)
    model.sketch_.save(path)


def question(rows):
    """Return the indicator that is counted."""
    return rows[:, 0].astype(float) > 15


def answer(path: Path):
    """Be the analyst: everything comes from the file."""
    sketch = PrivateSketch.load(path)
    m2m = M2MEstimator.from_sketch(sketch, random_state=0)
    means, count = m2m.mean(), m2m.count(question)
    parts = [means[0], means[2], m2m.correlation()[0, 2], count]
    model = M2MClassifier.from_sketch(sketch, n_synthetic=20_000, random_state=0)
    cdf = m2m.cdf(0, np.linspace(6, 29, 93))
    return parts, model, cdf


def sketch_once(folder: Path) -> None:
    """Release sketches and ask them; leave the last one and, with matplotlib, a picture."""
    X, y = load_tumours()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    truth = [X[:, 0].mean(), X[:, 2].mean(), np.corrcoef(X[:, 0], X[:, 2])[0, 1], question(X).sum()]
    ledger = PrivacyLedger(epsilon=20.0, delta=1e-5)
    path = folder / "skdpsumm_demo.sketch"

    print(f"{len(X)} rows; every line below the first comes from one saved sketch.\n")
    print(f"{'':>14}" + "".join(f"{name:>24}" for name in STATISTICS) + f"{'test AUC':>10}")
    print(f"{'true value':>14}" + "".join(f"{t:>24.4g}" for t in truth))
    answers, curves = {}, {}
    for epsilon in EPSILONS:
        release(X, y, epsilon, ledger, path)
        parts, model, curves[epsilon] = answer(path)
        answers[epsilon] = parts
        auc = roc_auc_score(y_test, model.decision_function(X_test))
        cells = [f"{float(p):.4g} +- {float(p.std_error):.2g}" for p in parts]
        print(
            f"{f'epsilon={epsilon:g}':>14}" + "".join(f"{c:>24}" for c in cells) + f"{auc:>10.3f}"
        )
    print("\n(+- is one standard error; delta = 1e-6)")
    print(f"\nThe last file, {path.name}:\n{PrivateSketch.load(path)}")
    print(f"\nThe ledger: {ledger}")
    draw(answers, curves, truth, X, folder / "skdpsumm_demo.png")


def draw(answers, curves, truth, X, path: Path) -> None:
    """Write the picture, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("\nFor the picture: pip install 'skdpsumm[plot]'")
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from skdpsumm.plotting import CDFDisplay, PrivacyUtilityDisplay

    figure, axes = plt.subplots(1, 5, figsize=(17, 3.4), layout="constrained")
    for k, name in enumerate(STATISTICS):
        estimates = {epsilon: parts[k] for epsilon, parts in answers.items()}
        PrivacyUtilityDisplay.from_estimates(
            estimates, label=name, delta=1e-6, reference=truth[k], ax=axes[k]
        )
    grid = np.linspace(6, 29, 93)
    shares = (X[:, 0] <= grid[:, None]).mean(axis=1)
    display = CDFDisplay(grid, curves[1.0], label="mean radius", reference=shares)
    display.plot(axes[4], name="private, epsilon=1")
    figure.savefig(path, dpi=110)
    print(f"\nPicture: {path.name}")


# The second job. Five owners hold handwritten digits, by pairs of digits. A consumer has 100 images
# without labels, of threes and eights only, and wants a model that is good at those. The curator
# chooses 60 rows of the owners with `PrivateMMDSummarizer`.

OWNERS = {0: "A", 1: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "D", 8: "D", 9: "E", 2: "E"}
SHARES = {3: 0.7, 8: 0.3}
N_TARGET, N_SELECT = 100, 60
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

    def report(name: str, rows, counts: str = "") -> None:
        model = LogisticRegression(max_iter=1000).fit(X[rows], y[rows])
        distance = mmd2(X[rows], target, schema=PIXELS)
        score = model.score(held, held_labels)
        print(f"{name:>28}{len(rows):>6}{distance:>9.4f}{score:>10.3f}   {counts}")

    def by_owner(rows) -> str:
        names, counts = np.unique(owners[rows], return_counts=True)
        return ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))

    everything = np.arange(len(X))
    uniform = uniform_selection(len(X), N_SELECT, random_state=0)
    report("all", everything, by_owner(everything))
    report("uniform", uniform, by_owner(uniform))
    for epsilon in (0.3, 1.0, np.inf):
        # B holds most threes and fours, and is trusted to.
        summarizer = PrivateMMDSummarizer(
            N_SELECT, schema=PIXELS, epsilon=epsilon, max_share_per_owner=1.0, random_state=0
        )
        rows = summarizer.fit(X, X_target=target, owners=owners).sample_indices_
        report(f"summary, epsilon={epsilon:g}", rows, by_owner(rows))
        if epsilon == 1.0:
            privacy, accessed = summarizer.privacy_, summarizer.n_accessed_
    print(
        f"\n(accuracy on {len(held)} other images of the target's kind; the curator saw {accessed} "
        f"rows)\n\nAt epsilon=1, {privacy!r}"
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
        f"{len(test)} others, delta = 1e-6.\n"
    )
    print(f"{'':>28}" + "".join(f"{f'epsilon={e:g}':>13}" for e in LEARNER_EPSILONS))
    for name, learner in LEARNERS.items():
        given = {"X_public": X[public]} if isinstance(learner, TDDLClassifier) else {}
        scores = []
        for epsilon in LEARNER_EPSILONS:
            learner.set_params(epsilon=epsilon).fit(X[train], odd[train], **given)
            scores.append(learner.score(X[test], odd[test]))
        print(f"{name:>28}" + "".join(f"{score:>13.3f}" for score in scores))
    shipped = LEARNERS["TDDL, released function"].set_params(epsilon=1.0)
    shipped.fit(X[train], odd[train], X_public=X[public])
    print(
        f"\nThe released function pickles to {len(pickle.dumps(shipped)) / 1000:.0f} kB, with no "
        f"private row in it:\n{shipped.privacy_!r}"
    )
