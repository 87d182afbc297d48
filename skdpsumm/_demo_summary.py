"""The second half of ``python -m skdpsumm``: rows of many owners that match a small target.

Five owners hold scikit-learn's digits, by pairs of digits. A consumer has 100 images without
labels, of threes and eights only, and wants a model that is good at those. The curator chooses 60
rows of the owners with `PrivateMMDSummarizer`.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from skdpsumm import PrivateMMDSummarizer, mmd2, uniform_selection

OWNERS = {0: "A", 1: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "D", 8: "D", 9: "E", 2: "E"}
SHARES = {3: 0.7, 8: 0.3}
N_TARGET, N_SELECT = 100, 60
GAMMA = 0.15  # for pixels between 0 and 1


def split(rng: np.random.Generator):
    """Return the owners' rows, labels and owners, the target, and held-out rows with labels."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rows = {digit: rng.permutation(np.flatnonzero(y == digit)) for digit in SHARES}
    sizes = {digit: round(N_TARGET * share) for digit, share in SHARES.items()}
    target = np.concatenate([rows[d][: sizes[d]] for d in SHARES])
    held = np.concatenate([rows[d][sizes[d] : 2 * sizes[d]] for d in SHARES])
    rest = np.setdiff1d(np.arange(len(X)), np.concatenate([target, held]))
    owners = np.array([OWNERS[digit] for digit in y[rest]])
    return X[rest], y[rest], owners, X[target], X[held], y[held]


def run() -> None:
    """Run the demonstration."""
    X, y, owners, target, held, held_labels = split(np.random.default_rng(0))
    print(
        f"{len(X)} rows of 5 owners; the target: {len(target)} unlabelled images, 70 per cent "
        f"threes and 30 per cent eights.\n\n{'chosen':>28}{'rows':>6}{'MMD^2':>9}{'accuracy':>10}"
        "   rows by owner"
    )

    def report(name: str, rows, counts: str = "") -> None:
        model = LogisticRegression(max_iter=1000).fit(X[rows], y[rows])
        distance = mmd2(X[rows], target, gamma=GAMMA)
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
        summarizer = PrivateMMDSummarizer(N_SELECT, gamma=GAMMA, epsilon=epsilon, random_state=0)
        rows = summarizer.fit(X, X_target=target, owners=owners).sample_indices_
        report(f"summary, epsilon={epsilon:g}", rows, by_owner(rows))
        if epsilon == 1.0:
            privacy, accessed = summarizer.privacy_, summarizer.n_accessed_
    print(
        f"\n(accuracy on {len(held)} other images of the target's kind; the curator saw {accessed} "
        f"rows)\n\nAt epsilon=1, {privacy!r}"
    )
