"""
Accuracy against epsilon
========================

What does privacy cost? We train two kernel learners on scikit-learn's digits (odd or even?) at
several epsilons, five times each, and compare with the same learners without noise.
"""

# %%
# Rows and learners
# -----------------
# 1,200 labelled images play the private data, 300 without labels are public, and 297 are the public
# test. Images are scaled to length 1 one by one, which is a map of each row alone, and so reads
# nothing off the others; that a pixel lies between 0 and 16 is public.
#
# `TDDLClassifier` releases a function in the span of the public images, `TDILClassifier` the
# weights of the 64 pixels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from skdpsumm import PrivacyLedger, TDDLClassifier, TDILClassifier
from skdpsumm.plotting import PrivacyUtilityDisplay

plt.rc("font", size=8)

X, digit = load_digits(return_X_y=True)
X, y = normalize(X), np.where(digit % 2, "odd", "even")
private, public, test = np.split(np.random.default_rng(0).permutation(len(X)), [1200, 1500])

ledger = PrivacyLedger(epsilon=np.inf, delta=1e-6)  # no cap: it keeps the record
common = {"classes": ["even", "odd"], "norm_bound": 1.0, "ledger": ledger}
learners = {
    "TDDL, cubic": TDDLClassifier(kernel="poly", **common),
    "TDIL, linear": TDILClassifier(**common),
}

# %%
# The curve
# ---------
# `PrivacyUtilityDisplay` fits and scores. Every fit is charged, so on private rows such a curve is
# dear. Draw it once, on public rows of the kind and number that you have, to choose an epsilon.

lost = {}
fig, ax = plt.subplots(figsize=(3.6, 2.7), layout="constrained")
for name, learner in learners.items():
    given = {"X_public": X[public]} if isinstance(learner, TDDLClassifier) else {}
    exact = clone(learner).set_params(epsilon=np.inf, ledger=None)
    display = PrivacyUtilityDisplay.from_estimator(
        learner,
        X[private],
        y[private],
        X_test=X[test],
        y_test=y[test],
        epsilons=(0.3, 1, 3, 10),
        n_repeats=5,
        fit_params=given,
        label="accuracy (share of test images)",
        reference=exact.fit(X[private], y[private], **given).score(X[test], y[test]),
        ax=ax,
        name=name,
    )
    lost[name.split()[-1]] = display.reference - display.values[1]
    limit = f"{name.split()[-1]},\nno noise"
    ax.text(1.02, display.reference, limit, transform=ax.get_yaxis_transform(), va="center")
told = " and ".join(f"{share:.2f} ({kernel})" for kernel, share in lost.items())
fig.suptitle(f"At epsilon = 1 noise costs {told}", fontsize="medium")
plt.show()

# %%
# *Accuracy on 297 public test images of models trained on 1,200 images, delta = 1e-6. Markers:
# median of five fits with fresh noise; bars: the least and the largest; dotted: the same learners
# without noise.* The cubic kernel has more to
# gain from a larger epsilon; the linear model comes near its own limit early.
#
# The price
# ---------
# Had these rows been private, the picture would have cost this, all 40 fits together:

ledger

# %%
# One model is what one pays for in the end.

shipped = learners["TDDL, cubic"].set_params(epsilon=1.0)
shipped.fit(X[private], y[private], X_public=X[public])
shipped.privacy_
