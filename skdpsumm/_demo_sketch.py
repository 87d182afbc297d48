"""The first half of ``python -m skdpsumm``: from private rows to answers, on bundled data.

A curator releases one sketch per epsilon of scikit-learn's breast cancer data and saves it. An
analyst, who holds only the file, asks for means, a correlation and a count, and trains a
classifier. Writes ``skdpsumm_demo.sketch`` and, with matplotlib, ``skdpsumm_demo.png``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdpsumm import (
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    PrivacyLedger,
    PrivateSketch,
    RFFSketcher,
    SketchUnion,
)

# Public knowledge of the columns: what such measurements can be, not what these data are.
BOUNDS = {"mean radius": (5, 30), "mean texture": (5, 45), "mean concavity": (0, 0.5)}
EPSILONS = (0.3, 1.0, 3.0, 10.0)
STATISTICS = ("mean radius", "mean concavity", "correlation", "rows with radius > 15")


def load():
    """Return the three columns, and whether each tumour is benign."""
    data = load_breast_cancer()
    picked = [list(data.feature_names).index(name) for name in BOUNDS]
    return data.data[:, picked], data.target


def release(X, y, epsilon: float, ledger: PrivacyLedger, path: Path) -> None:
    """Be the curator: one charge, one file."""
    sketcher = SketchUnion(
        [HistogramSketcher(n_bins=20), RFFSketcher(60, gamma=2.0)],
        epsilon=epsilon,
        ledger=ledger,
    )
    model = M2MClassifier(
        sketcher=sketcher, bounds=list(BOUNDS.values()), classes=[0, 1], random_state=0
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


def run(folder: Path) -> None:
    """Run the demonstration and leave its files in `folder`."""
    X, y = load()
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
        cells = [f"{float(p):.4g} +- {float(p.noise_std_error):.2g}" for p in parts]
        print(
            f"{f'epsilon={epsilon:g}':>14}" + "".join(f"{c:>24}" for c in cells) + f"{auc:>10.3f}"
        )
    print("\n(+- is one standard deviation of the privacy noise; delta = 1e-6)")
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
