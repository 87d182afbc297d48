"""
Distribution functions and quantiles
====================================

How many patients are overweight? Where do the upper quarter of cholesterol values begin? A
histogram sketch at epsilon = 1 and delta = 1e-6 answers both, for any threshold and any quantile,
asked after the release.
"""

# %%
# One release of two columns
# --------------------------
# For questions about single columns, histograms of these alone are best. The ranges are public
# knowledge of such measurements, the number of bins is a choice: more bins see finer, and have more
# noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from skdpsumm import HistogramSketcher, M2MEstimator, Numeric
from skdpsumm.plotting import CDFDisplay

plt.rc("font", size=8)

schema = {
    "body mass index": Numeric(15, 50, unit="kg/m²"),
    "cholesterol": Numeric(50, 350, unit="mg/dl"),
}

columns = load_diabetes(scaled=False, as_frame=True).data
table = columns[["bmi", "s1"]].set_axis(list(schema), axis=1)

sketcher = HistogramSketcher(n_bins=20, epsilon=1.0, delta=1e-6)
m2m = M2MEstimator(schema, release=sketcher, n_synthetic=20_000, random_state=0).fit(table)
m2m.privacy_

# %%
# Questions
# ---------
# Shares of patients below the limits of overweight (25) and obesity (30):

m2m.cdf("body mass index", [25, 30])

# %%
# Quartiles:

m2m.quantile("cholesterol", [0.25, 0.5, 0.75])

# %%
# The number of patients who are obese or have more than 240 mg/dl cannot be known from two
# separate histograms. The estimate takes the columns as independent, and its error says how far off
# that may be. For such questions have both columns counted together: give `marginals=2` here, or
# leave the sketcher out, as in the last example.

m2m.count(lambda rows: (rows[:, 0] > 30) | (rows[:, 1] > 240))

# %%
# The picture
# -----------
# The exact curve is drawn for comparison, as these data are public in truth. We add the private
# quartiles with the noise of each.

QUARTILES = np.array([0.25, 0.5, 0.75])

held = []
fig, axes = plt.subplots(2, 1, figsize=(4, 4.6), layout="constrained")
for ax, column in zip(axes, schema, strict=True):
    grid = np.linspace(schema[column].low, schema[column].high, 141)
    exact = (table[column].to_numpy() <= grid[:, None]).mean(axis=1)
    CDFDisplay.from_estimator(m2m, column, thresholds=grid, reference=exact, ax=ax)
    low, high = m2m.cdf(column, grid)[...].interval(0.95).T
    held.extend((low <= exact) & (exact <= high))
    found = m2m.quantile(column, QUARTILES)
    reach = np.abs(found[...].interval(0.95) - np.asarray(found)[:, None]).T
    style = {"fmt": "ks", "ms": 4, "mfc": "w", "capsize": 3, "label": "private quartiles"}
    ax.errorbar(np.asarray(found), QUARTILES, xerr=reach, **style)
    ax.legend(frameon=False, fontsize="small", loc="lower right")
share = np.mean(held)
fig.suptitle(f"The band holds the exact curve at {share:.0%} of the thresholds", fontsize="medium")
plt.show()

# %%
# *Distribution functions of two columns of 442 rows from one histogram sketch, epsilon = 1, delta =
# 1e-6. Line and squares: private answers; band and bars: 95 per cent intervals at each point;
# dotted: exact.* The band holds at each threshold by itself, not along the whole curve at once. It
# covers the noise, and all that is lost between the edges of bins: a threshold inside a bin is
# known no better than to the rows of that bin.
