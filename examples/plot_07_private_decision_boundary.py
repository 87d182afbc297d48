"""
A private decision boundary
===========================

A kernel learner draws a curve between malignant and benign tumours. With privacy it draws another
one in every fit. How much the curve moves at epsilon = 0.3, 1 and 10 is what privacy costs here.
"""

# %%
# The learner
# -----------
# Two measurements, and a schema of what image analysis can report, not of what it found in these
# tumours. By it `TDILClassifier` clips and scales row by row, and reads nothing off the data; a
# `StandardScaler` in front would void the claim. The width of the kernel follows from the schema,
# and no public rows are needed: the function lives in the span of points drawn within the ranges.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from skdpsumm import PrivacyLedger, TDILClassifier

plt.rc("font", size=8)

schema = {"worst radius": (5, 40), "worst texture": (10, 50)}
data = load_breast_cancer(as_frame=True)
X = data.data[list(schema)]
y = np.where(data.target, "benign", "malignant")
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

ledger = PrivacyLedger(epsilon=100.0, delta=1e-6)
model = TDILClassifier(
    kernel="rbf",
    schema=schema,
    classes=["benign", "malignant"],
    delta=1e-6,
    random_state=0,
    ledger=ledger,
)

# %%
# Eight fits at each epsilon
# --------------------------

EPSILONS, N_FITS = (0.3, 1.0, 10.0), 8


def fitted(epsilon, ledger):
    """Return a copy of the model, fitted at an epsilon."""
    return clone(model).set_params(epsilon=epsilon, ledger=ledger).fit(X, y)


fits = {epsilon: [fitted(epsilon, ledger) for _ in range(N_FITS)] for epsilon in EPSILONS}
exact = fitted(np.inf, None)
fits[1.0][0]

# %%
# In practice one fit is released. Eight at each epsilon are for the picture, and would cost
# together:

ledger

# %%
# The picture
# -----------
# The points are public test rows: training rows must not be drawn.

grid = np.meshgrid(*[np.linspace(*ends, 120) for ends in schema.values()])
places = pd.DataFrame({name: axis.ravel() for name, axis in zip(schema, grid, strict=True)})


def boundary(ax, fit, **style):
    """Draw where the decision function of a fit is zero."""
    heights = fit.decision_function(places).reshape(grid[0].shape)
    ax.contour(*grid, heights, levels=[0], **style)


fig, axes = plt.subplots(2, 2, figsize=(4, 4.6), sharex=True, sharey=True, layout="constrained")
*axes, corner = axes.flat
for ax, (epsilon, models) in zip(axes, fits.items(), strict=True):
    for label, marker, face in (("benign", "o", "w"), ("malignant", "^", "0.3")):
        of = y_test == label
        style = {"marker": marker, "facecolor": face, "edgecolor": "0.3", "linewidths": 0.5}
        ax.scatter(*X_test[of].to_numpy().T, s=12, label=label, **style)
    for one in models:
        boundary(ax, one, colors="C0", linewidths=0.9)
    boundary(ax, exact, colors="k", linewidths=1.8, linestyles="--")
    accuracy = np.median([one.score(X_test, y_test) for one in models])
    ax.set_title(f"epsilon = {epsilon:g}, accuracy {accuracy:.2f}", fontsize=8)
axes[1].tick_params(labelbottom=True)
fig.supxlabel("worst radius (data set's unit)", fontsize=8)
fig.supylabel("worst texture (grey levels)", fontsize=8)
axes[0].plot([], [], color="C0", lw=0.9, label="private, one line per fit")
axes[0].plot([], [], "k--", lw=1.8, label="without privacy")
axes[0].set(xlim=schema["worst radius"], ylim=schema["worst texture"])
labels = {e: np.array([one.predict(X_test) for one in models]) for e, models in fits.items()}
alike = {e: (found == found[0]).all(axis=0).mean() for e, found in labels.items()}
fig.suptitle(
    f"Eight fits agree on {alike[0.3]:.0%} of the test rows\n"
    f"at epsilon = 0.3, on {alike[10.0]:.0%} at 10",
    fontsize="medium",
)
corner.set_axis_off()
corner.legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False)
plt.show()

# %%
# *Decision boundaries of a Gaussian kernel learner on 398 rows, delta = 1e-6. Thin lines: eight
# fits with fresh noise at each epsilon; dashed: without privacy, the same regularisation rule;
# markers: 171 public test rows. Titles give the median accuracy of the eight on those.* Where there
# are no rows, noise alone draws the curve. Where the classes meet, curves should come together as
# epsilon grows.

fits[1.0][0].privacy_
