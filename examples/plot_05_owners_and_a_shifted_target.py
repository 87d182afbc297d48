"""
Rows of many owners for a shifted target
========================================

Five owners hold images of handwritten digits, each of other ones. A consumer has 60 images without
labels, of threes and eights alone, and wants a model that is good at those. Which 60 rows of the
owners shall a curator buy? The target is protected from the owners at epsilon = 1 and
delta = 1e-6, and owners learn nothing of one another.
"""

# %%
# The parties
# -----------
# In this simulation we are all of them. Pixels lie between 0 and 16, as everybody knows; the width
# of the kernel follows from that alone.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpsumm import (
    PrivateMMDSummarizer,
    PublicVectorizer,
    SketchSummarizer,
    SummarizedEstimator,
    uniform_selection,
)

plt.rc("font", size=8)

OWNER_OF = {0: "A", 1: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "D", 8: "D", 2: "E", 9: "E"}
rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)

threes, eights = (rng.permutation(np.flatnonzero(digits == digit)) for digit in (3, 8))
target = images[np.concatenate([threes[:42], eights[:18]])]
held_out = np.concatenate([threes[42:84], eights[18:36]])
rest = np.setdiff1d(np.arange(len(digits)), np.concatenate([threes[:84], eights[:36]]))
X, y = images[rest], digits[rest]
owners = np.array([OWNER_OF[digit] for digit in y])

# %%
# One round of messages
# ---------------------
# `SummarizedEstimator` chooses rows and trains any estimator on them. Owners see a noisy mean of
# the target's random features, propose rows of theirs, and the curator keeps the best. Labels play
# no part in the choice. `PublicVectorizer` scales by what is public, and learns nothing from rows.

learner = make_pipeline(PublicVectorizer((0, 16)), LogisticRegression(C=100, max_iter=1000))
model = SummarizedEstimator(
    learner, PrivateMMDSummarizer((0, 16), n_select=60, epsilon=1.0, delta=1e-6, random_state=0)
)
model.fit(X, y, X_target=target, owners=owners)

# %%
# What is protected, from whom. The first line says it: the consumer gets real rows.

model.privacy_

# %%
# Against a choice at random
# --------------------------
# Accuracy on 60 other threes and eights, whose labels only this simulation knows:

chosen = model.summarizer_.sample_indices_
uniform = uniform_selection(len(X), 60, random_state=0)
blind = clone(learner).fit(X[uniform], y[uniform])
for name, trained in {"uniform": blind, "summary": model.estimator_}.items():
    print(f"{name}: accuracy {trained.score(images[held_out], digits[held_out]):.2f}")

# %%
# The consumer, who has the rows and their labels, can draw what came: here the digits of the rows,
# and the first twelve of them. Such a picture is for those to whom the owners' rows may be shown.

figure = plt.figure(figsize=(4, 4.6), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=(2, 1))
ax = top.subplots()
shares = {
    "uniform choice": np.bincount(y[uniform], minlength=10) / 60,
    "private summary": np.bincount(y[chosen], minlength=10) / 60,
    "target (42 threes, 18 eights)": np.bincount([3] * 42 + [8] * 18, minlength=10) / 60,
}
for k, (name, share) in enumerate(shares.items()):
    style = {"facecolor": f"C{k}", "edgecolor": "0.2", "hatch": ("", "///", "...")[k]}
    ax.bar(np.arange(10) + 0.28 * (k - 1), share, 0.28, label=name, **style)
ax.set(ylabel="share of rows", ylim=(0, 1))
ax.set_xticks(range(10), [f"{digit}\n{OWNER_OF[digit]}" for digit in range(10)])
ax.set_xlabel("digit, and the owner who has it")
ax.legend(frameon=False)
like = {name: share[3] + share[8] for name, share in shares.items()}
ax.set_title(
    f"Threes and eights: {like['private summary']:.0%} of the summary,\n"
    f"{like['uniform choice']:.0%} of a uniform choice",
    fontsize="medium",
)
for k, ax in enumerate(bottom.subplots(2, 6).flat):
    ax.imshow(X[chosen[k]].reshape(8, 8), cmap="Greys", vmin=0, vmax=16)
    ax.set_axis_off()
bottom.suptitle("the first rows chosen", fontsize=8)
plt.show()

# %%
# *Above: digits among 60 rows chosen from 1,677 of five owners, uniformly or by a private summary
# at epsilon = 1, delta = 1e-6, and in the target. Below: the first twelve rows of the summary, as
# the consumer gets them.* The owners B and D hold what the target is made of; other digits that
# look like threes and eights come along.
#
# Without real rows
# -----------------
# If no row may leave an owner, each releases a sketch, and the consumer draws synthetic rows from
# the sum. Now the owners' rows are protected from everybody. Images are a hard case for it, as its
# warning says: the sketches count pixels with labels, and few pixels with one another.

private = SketchSummarizer((0, 16), n_select=200, label=list(range(10)), epsilon=3.0)
synthetic, labels = private.fit_resample(X, y, X_target=target, owners=owners)
made = clone(learner).fit(synthetic, labels)
print(f"synthetic rows: accuracy {made.score(images[held_out], digits[held_out]):.2f}")
private.privacy_.consumer
