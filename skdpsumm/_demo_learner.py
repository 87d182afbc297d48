"""The third part of ``python -m skdpsumm``: kernel learners on scikit-learn's digits.

1,200 labelled images are private, 300 unlabelled ones public, and 297 are for the test: is the
digit odd?
"""

from __future__ import annotations

import pickle

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from skdpsumm import PINPClassifier, TDDLClassifier, TDILClassifier

N_TRAIN, N_PUBLIC = 1200, 300
CUBIC = {"kernel": "poly"}
LEARNERS = {
    "TDDL, released function": TDDLClassifier(**CUBIC),
    "TDDL, as printed (Laplace)": TDDLClassifier(mechanism="laplace", **CUBIC),
    "PINP, answers one by one": PINPClassifier(**CUBIC),
    "TDIL, linear, objective": TDILClassifier(mechanism="objective"),
}
EPSILONS = (0.3, 1.0, 3.0, np.inf)


def run() -> None:
    """Run the demonstration."""
    X, y = load_digits(return_X_y=True)
    X, odd = normalize(X), np.where(y % 2, "odd", "even")
    order = np.random.default_rng(0).permutation(len(X))
    train, public, test = np.split(order, [N_TRAIN, N_TRAIN + N_PUBLIC])
    print(
        f"{len(train)} private images, {len(public)} public ones without labels; accuracy on "
        f"{len(test)} others, delta = 1e-6.\n"
    )
    print(f"{'':>28}" + "".join(f"{f'epsilon={e:g}':>13}" for e in EPSILONS))
    for name, learner in LEARNERS.items():
        given = {"X_public": X[public]} if isinstance(learner, TDDLClassifier) else {}
        scores = []
        for epsilon in EPSILONS:
            learner.set_params(epsilon=epsilon).fit(X[train], odd[train], **given)
            scores.append(learner.score(X[test], odd[test]))
        print(f"{name:>28}" + "".join(f"{score:>13.3f}" for score in scores))
    shipped = LEARNERS["TDDL, released function"].set_params(epsilon=1.0)
    shipped.fit(X[train], odd[train], X_public=X[public])
    print(
        f"\nThe released function pickles to {len(pickle.dumps(shipped)) / 1000:.0f} kB, with no "
        f"private row in it:\n{shipped.privacy_!r}"
    )
