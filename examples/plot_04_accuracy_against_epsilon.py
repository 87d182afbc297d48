"""
Accuracy against epsilon
========================

What does privacy cost? We train three kernel learners on scikit-learn's digits (odd or even?) at
several epsilons, five times each, and compare with the same learners without noise. Then the same
for numbers.
"""

# %%
# Rows and learners
# -----------------
# 1,200 labelled images play the private data, 300 without labels are public, and 297 are the public
# test. Images are scaled to length 1 one by one, which is a map of each row alone, and so reads
# nothing off the others; that a pixel lies between 0 and 16 is public.
#
# `TDILClassifier` releases the weights of the 64 pixels, `TDDLClassifier` a function in the span of
# the public images. `PINPClassifier` releases nothing but answers.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits, make_friedman1
from sklearn.preprocessing import normalize

from skdpsumm import (
    PINPClassifier,
    PINPRegressor,
    PrivacyLedger,
    TDDLClassifier,
    TDDLRegressor,
    TDILClassifier,
    TDILRegressor,
)
from skdpsumm.plotting import PrivacyUtilityDisplay

plt.rc("font", size=8)

X, digit = load_digits(return_X_y=True)
X, y = normalize(X), np.where(digit % 2, "odd", "even")
private, public, test = np.split(np.random.default_rng(0).permutation(len(X)), [1200, 1500])

ledger = PrivacyLedger(epsilon=np.inf, delta=1e-6)  # no cap: it keeps the record
common = {"classes": ["even", "odd"], "norm_bound": 1.0, "ledger": ledger}
learners = {
    "TDDL, cubic": TDDLClassifier(kernel="poly", **common),
    "PINP, cubic": PINPClassifier(kernel="poly", **common),
    "TDIL, linear": TDILClassifier(**common),
}

# %%
# The curve
# ---------
# `PrivacyUtilityDisplay` fits and scores. Every fit is charged, so on private rows such a curve is
# dear. Draw it once, on public rows of the kind and number that you have, to choose an epsilon.


def draw(learners, rows, targets, parts, label):
    """Draw a curve for each learner, and say what noise costs at epsilon = 1."""
    private, public, test = parts
    fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
    lost = []
    for name, learner in learners.items():
        given = {"X_public": rows[public]} if name.startswith("TDDL") else {}
        exact = clone(learner).set_params(epsilon=np.inf, ledger=None)
        exact.fit(rows[private], targets[private], **given)
        limit = exact.score(rows[test], targets[test])
        display = PrivacyUtilityDisplay.from_estimator(
            learner,
            rows[private],
            targets[private],
            X_test=rows[test],
            y_test=targets[test],
            epsilons=(0.3, 1, 3, 10),
            n_repeats=5,
            fit_params=given,
            label=label,
            ax=ax,
            name=f"{name} ({limit:.2f})",
        )
        lost.append(f"{limit - display.values[1]:.2f} ({name[:4]})")
    fig.suptitle(f"At epsilon = 1 noise costs {', '.join(lost)}", fontsize="medium")


parts = private, public, test
draw(learners, X, y, parts, "accuracy (share of test images)")
plt.show()

# %%
# *Accuracy on 297 public test images of models trained on 1,200 images, delta = 1e-6. Markers:
# median of five fits with fresh noise; bars: the least and the largest; in brackets: the same
# learners without noise.* The cubic kernel has more
# to gain from a larger epsilon; the linear model comes near its own limit early. Answers of PINP
# need no public images, and have more noise.
#
# Numbers
# -------
# 1,500 rows of a made-up regression, 200 public ones for TDDL, and 300 to test. Give the public
# range of y. Without a `kernel`, TDIL takes splines, the other two a Gaussian kernel.

numbers, values = make_friedman1(2000, n_features=5, noise=1.0, random_state=0)
common = {"schema": (0, 1), "y_bounds": (0, 30)}
regressors = {
    "TDDL": TDDLRegressor(**common),
    "PINP": PINPRegressor(**common),
    "TDIL": TDILRegressor(**common),
}
draw(regressors, numbers, values, np.split(np.arange(2000), [1500, 1700]), "R² of test rows")
plt.show()

# %%
# *R² on 300 public test rows of models trained on 1,500, delta = 1e-6. Markers and bars as above.*
#
# The price
# ---------
# Had the images been private, the first picture would have cost this, all 60 fits together:

ledger

# %%
# One model is what one pays for in the end.

shipped = learners["TDDL, cubic"].set_params(epsilon=1.0)
shipped.fit(X[private], y[private], X_public=X[public])
shipped.privacy_
