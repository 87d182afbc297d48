"""
Auditing a claim
================

A proof can be wrong, and code can differ from the proof. An audit runs a release many times on two
neighbouring tables and proves from the outputs alone that epsilon is at least so much. Three
histograms claim epsilon = 1; two of them leak more.
"""

# %%
# Three histograms
# ----------------
# The first is ours. A colleague wrote the second: the noise has half of the scale that it needs.
# The third adds enough noise, but reads the range of its bins off the data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn import config_context

from skdpsumm import HistogramSketcher, audit_epsilon

plt.rc("font", size=8)

CLAIM = 1.0
rng = np.random.default_rng()
sketcher = HistogramSketcher(n_bins=4, schema=(0, 1), epsilon=CLAIM, delta=0.0, random_state=0)


def ours(rows):
    """Return the release of the library, epsilon = 1."""
    return sketcher.fit(rows).sketch_.sums


def too_quiet(rows):
    """Return a histogram with noise of half the scale: epsilon = 2."""
    counts, _ = np.histogram(rows, bins=4, range=(0, 1))
    return counts + rng.laplace(scale=0.5 / CLAIM, size=4)


def nosy(rows):
    """Return a histogram whose bins end where the data do: no epsilon at all."""
    counts, _ = np.histogram(rows, bins=4, range=(rows.min(), rows.max()))
    return counts + rng.laplace(scale=1 / CLAIM, size=4)


# %%
# Two neighbours
# --------------
# Under add-remove they differ by one row that is there or not. One at the end of the range is the
# hardest to hide from the third. (`skdpsumm.audit.worst_case_neighbours` builds hard neighbours for
# every estimator of the library.)

X = np.linspace(0.05, 0.45, 20)[:, None]
X_neighbour = np.vstack([X, [[1.0]]])

# %%
# The audits
# ----------
# Half of the outputs look for an event that tells the tables apart, the other half bound its
# probabilities. Only a bound above the claim proves anything.

with config_context(skip_parameter_validation=True):  # a thousand fits: leave their checks out
    results = {
        "ours": audit_epsilon(ours, X, X_neighbour, n_trials=1_000, random_state=0),
        "half the noise": audit_epsilon(too_quiet, X, X_neighbour, n_trials=5_000, random_state=0),
        "bins from data": audit_epsilon(nosy, X, X_neighbour, n_trials=5_000, random_state=0),
    }
for name, result in results.items():
    print(f"{name}: claim of epsilon = {CLAIM:g} refuted: {result.refutes(CLAIM)}")
results["half the noise"]

# %%
# The picture
# -----------

fig, axes = plt.subplots(2, 2, figsize=(4, 4.8), layout="compressed")
*axes, corner = axes.flat
for ax, (name, result) in zip(axes, results.items(), strict=True):
    result.plot(ax, epsilon=CLAIM)
    ax.set_title(f"{name}:\nepsilon ≥ {result.lower_bound:.2f}", fontsize=8)
    entries = ax.get_legend_handles_labels()
    ax.get_legend().remove()
axes[0].set_xlabel("")
axes[1].set_ylabel("")
refuted = [name for name, result in results.items() if result.refutes(CLAIM)]
fig.suptitle(f"Refuted: {', '.join(refuted) or 'none'}", fontsize="medium")
corner.set_axis_off()
corner.legend(*entries, loc="center", frameon=False)
plt.show()

# %%
# *Trade-off of false alarms and misses of the best test found, on outputs that it was not chosen
# on. Grey: what a claim of epsilon = 1 (delta = 0) forbids; cross: the event that the bound rests
# on, with confidence limits (joint level 0.99).* A cross in the grey refutes the claim. The bound
# of ours should lie below 1, and can be above by chance in one audit of a hundred. That of the
# second should lie between 1 and 2, and that of the third is near the largest which so many trials
# can give: more trials would raise it, as nothing bounds it.

print(f"largest bound of {results['bins from data'].n_trials:,} trials: ", end="")
print(f"{results['bins from data'].largest_bound:.2f}")
