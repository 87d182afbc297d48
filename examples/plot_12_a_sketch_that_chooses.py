"""
A sketch that chooses what to count
===================================

A table of twelve columns has 66 pairs, and no budget counts them all well. `AdaptiveSketcher` finds
out privately which pairs matter, counts those, and leaves the others to a model that knows how sure
it is. You give a schema and an epsilon, and no bins, pairs or features.
"""

# %%
# A table of many kinds
# ---------------------
# 20,000 people are made up, so that the truth can be drawn beside. Schools lead to jobs, jobs to
# pay and hours, age to children, children to cars, sports to weights. Most people have no savings,
# a few have much, and one in ten does not tell the hours of work.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsumm import (
    AdaptiveSketcher,
    M2MEstimator,
    M2MRegressor,
    Numeric,
    SchemaFinder,
    TableSchema,
)
from skdpsumm.plotting import ColumnGraphDisplay

plt.rc("font", size=8)

rng = np.random.default_rng(0)
n = 20_000
SCHOOLS, JOBS = ["basic", "middle", "college"], ["farm", "shop", "office", "clinic"]
school = rng.choice(3, n, p=[0.2, 0.5, 0.3])
odds = np.array([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.05, 0.1, 0.5, 0.35]])
job = (rng.random(n)[:, None] > odds.cumsum(axis=1)[school]).sum(axis=1).clip(0, 3)
age = rng.integers(18, 81, n)
sport = rng.random(n) < 0.4
height = rng.normal(172, 9, n)
children = rng.poisson(np.where((age > 28) & (age < 55), 1.6, 0.2)).clip(0, 8)
pay = np.array([20, 25, 38, 52])[job] * rng.lognormal(0, 0.25, n)
hours = rng.normal(np.array([48, 38, 40, 36])[job], 5).round().clip(0, 80)
people = pd.DataFrame(
    {
        "age": age,
        "school": np.array(SCHOOLS)[school],
        "job": np.array(JOBS)[job],
        "hours": np.where(rng.random(n) < 0.1, np.nan, hours),
        "pay": pay.clip(0, 200),
        "children": children,
        "car": np.where(rng.random(n) < 0.3 + 0.15 * children.clip(0, 4), "yes", "no"),
        "savings": np.where(rng.random(n) < 0.7, 0, rng.lognormal(2, 1.5, n)).clip(0, 1000).round(),
        "sport": np.where(sport, "yes", "no"),
        "height": height,
        "weight": height - 92 - 12 * sport + rng.normal(0, 8, n),
        "region": rng.choice(["north", "east", "south", "west"], n),
    }
)
schema = TableSchema(
    {
        "age": Numeric(18, 80, step=1, unit="years"),
        "school": SCHOOLS,
        "job": JOBS,
        "hours": Numeric(0, 80, step=1, missing=True),
        "pay": Numeric(0, 200, unit="thousands"),
        "children": Numeric(0, 8, step=1),
        "car": ["no", "yes"],
        "savings": Numeric(0, 1000, step=1, unit="thousands"),
        "sport": ["no", "yes"],
        "height": Numeric(120, 220, unit="cm"),
        "weight": Numeric(30, 180, unit="kg"),
        "region": ["north", "east", "south", "west"],
    }
)

# %%
# One release
# -----------
# First it finds bins for each number, then it counts each column, and then, in four rounds, pairs
# that the counts so far explain worst. All of it is one release, with one guarantee.

sketch = AdaptiveSketcher(schema, epsilon=1.0, delta=1e-6).fit(people).sketch_
sketch

# %%
# What was chosen is public, as it is a part of the release. The styles of the lines tell in which
# step two columns were first counted together, their widths how far the two are from independent.

display = ColumnGraphDisplay.from_sketch(sketch)
display.ax_.set_title(f"{len(display.pairs)} of 66 pairs of columns were counted together", y=-0.05)
plt.show()

# %%
# *Columns that one release of 20,000 rows has counted together, epsilon = 1, delta = 1e-6.* Pairs
# that go together should be among the first. The budget allows for more than these, so that
# late choices are of pairs that go together little or not at all: harmless, and paid for.
#
# Answers
# -------
# An analyst who holds the sketch asks for tables, and each cell has an error: of the noise, of what
# nobody counted, and of where in their bins people are.

m2m = M2MEstimator.from_sketch(sketch, random_state=0)
m2m.table(["school", "job"])

# %%
# Any other statistic has one as well, with as many conditions as you like:

m2m.mean(by="job")["clinic", "pay"]

# %%

m2m.count(lambda rows: (rows["school"] == "college") & (rows["age"] < 30) & (rows["children"] > 0))

# %%
# The picture
# -----------
# Shares of jobs by school, and mean pay by job. These people are public in truth, so that we may
# draw exact values as crosses.

shares = m2m.table(["school", "job"], normalize="index")
pays = m2m.mean(by="job")
column = pays.labels[1].index("pay")
exact_shares = pd.crosstab(people["school"], people["job"], normalize="index")
exact_pay = people.groupby("job")["pay"].mean()


def reach(answers):
    """Return how far 95 per cent intervals reach to both sides."""
    return np.abs(answers[...].interval(0.95) - np.asarray(answers)[..., None]).T


fig, (above, below) = plt.subplots(2, 1, figsize=(4, 5), layout="constrained")
for k, (name, marker) in enumerate(zip(SCHOOLS, "os^", strict=True)):
    where = np.arange(len(JOBS)) + 0.22 * (k - 1)
    style = {"fmt": marker, "ms": 4, "mfc": "w", "color": f"C{k}", "capsize": 2}
    above.errorbar(where, np.asarray(shares)[k], reach(shares[k]), label=name, **style)
    above.plot(where, exact_shares.loc[name, JOBS], "x", color="0.1", ms=5, zorder=3)
above.set_xticks(range(len(JOBS)), JOBS)
above.set(ylabel="share of those with this school", ylim=(-0.03, 0.75))
above.legend(title="school", frameon=False)
mine = pays[:, column]
below.errorbar(range(len(JOBS)), np.asarray(mine), reach(mine), fmt="C0o", ms=4, mfc="w", capsize=2)
below.plot(range(len(JOBS)), exact_pay[JOBS], "x", color="0.1", ms=5, zorder=3)
below.set_xticks(range(len(JOBS)), JOBS)
below.set(ylabel="mean pay (thousands)")
exact = np.append(exact_shares.loc[SCHOOLS, JOBS].to_numpy().ravel(), exact_pay[JOBS])
ends = np.vstack([shares[...].interval(0.95).reshape(-1, 2), mine[...].interval(0.95)])
held = np.sum((ends[:, 0] <= exact) & (exact <= ends[:, 1]))
fig.suptitle(f"Intervals hold {held} of {len(exact)} exact values (crosses)", fontsize="medium")
plt.show()

# %%
# *Answers from the same release. Markers: private; bars: 95 per cent intervals; crosses: exact.*
# Most crosses should lie within the bars.
#
# Synthetic rows
# --------------
# For a look at what the table is like, draw rows. They have the guarantee of the release, however
# many you draw.

m2m.sample(5, random_state=0)

# %%
# They are people as the model knows them, and nobody among them is real. For numbers ask the model
# itself, as above: counts of synthetic rows have no error bar.
#
# A regression
# ------------
# The release is enough for models, too, and coefficients have errors of their own: thousands more
# pay for each year of age, which is none, and for each hour of work.

M2MRegressor.from_sketch(sketch, target="pay", random_state=0).coefficients(["age", "hours"])

# %%
# If nobody knows the ranges
# --------------------------
# We wrote the schema by hand. If you cannot, a `SchemaFinder` finds it for a part of the budget.

SchemaFinder({"pay": "number", "savings": "number", "job": "category"}, epsilon=0.1).fit(
    people
).schema_
