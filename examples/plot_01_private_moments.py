"""
Means and correlations of a private table
=========================================

A clinic has the records of 442 diabetes patients. It publishes one sketch of them, at
epsilon = 10 and delta = 1e-6. From the sketch alone anyone can read means and correlations, with
error bars, at no further cost.
"""

# %%
# The curator
# -----------
# A schema says what is public about each column: what such measurements can be in adults, not what
# they are in this table. Numbers beyond the range would be clipped. Units are for the reader.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes

from skdpsumm import AdaptiveSketcher, M2MEstimator, Numeric
from skdpsumm.plotting import CovarianceDisplay, MomentDisplay

plt.rc("font", size=8)

schema = {
    "age": Numeric(18, 90, unit="years"),
    "body mass index": Numeric(15, 50, unit="kg/m²"),
    "blood pressure": Numeric(50, 150, unit="mmHg"),
    "glucose": Numeric(50, 150, unit="mg/dl"),
}

columns = load_diabetes(scaled=False, as_frame=True).data
table = columns[["age", "bmi", "bp", "s6"]].set_axis(list(schema), axis=1)

sketch = AdaptiveSketcher(schema, epsilon=10.0, delta=1e-6).fit(table).sketch_
sketch

# %%
# That is all that leaves the clinic. It says what is protected, and against whom.

sketch.privacy

# %%
# The analyst
# -----------
# An analyst who holds the sketch asks. Each answer comes with its standard error: of the privacy
# noise, and of where in their bins the rows lie.

m2m = M2MEstimator.from_sketch(sketch, random_state=0)
means = m2m.mean()
means

# %%
# The table is public in truth, so that we may draw its exact means as crosses. Those of a private
# table must not be drawn.

fig, ax = plt.subplots(figsize=(4.4, 2.1), layout="constrained")
MomentDisplay.from_estimator(m2m, reference=table.mean(), ax=ax)
ax.set_xlim(0.25, 0.55)
worst = max(abs(float(mean.std_error) / float(mean)) for mean in means)
fig.suptitle(f"Every mean has an error of {worst:.1%} of its size or less", fontsize="medium")
plt.show()

# %%
# *Means of four columns from one sketch of 442 rows, epsilon = 10, delta = 1e-6. Dots: private
# means, at their place within the public range; bars: 95 per cent intervals; beside, means in
# units ± one standard error; crosses: exact means.* Most crosses should lie within the
# bars, which cover the noise, and what is lost by cutting columns into bins.
#
# Correlations need more of the sketch than means do, and their noise is far larger.

fig, ax = plt.subplots(figsize=(4.4, 3.4), layout="constrained")
CovarianceDisplay.from_estimator(m2m, statistic="correlation", ax=ax)
found = m2m.correlation()
names = list(schema)
pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
told = sum(abs(float(found[pair])) > 2 * float(found[pair].std_error) for pair in pairs)
ax.set_title(f"{told} of {len(pairs)} correlations are larger\nthan twice their error (±)")
plt.show()

# %%
# *Correlations from the same sketch, each with its standard error.* Beside them,
# the exact ones. Noise draws correlations of a small table towards 0, and their error allows for
# it. One that is smaller than twice its error should not be read as one.

pd.DataFrame(
    {
        "private": [float(found[i, j]) for i, j in pairs],
        "error": [float(found[i, j].std_error) for i, j in pairs],
        "exact": [table[names[i]].corr(table[names[j]]) for i, j in pairs],
    },
    index=[f"{names[i]}, {names[j]}" for i, j in pairs],
).round(2)

# %%
# The noise is that of so many patients, whatever their number: ten times the rows have a tenth of
# it.
