"""
# Sketch once, ask forever

You run a survey of 20,000 people. Many researchers want answers from it, and none of them may see a
row. In this notebook you release the survey once, as a *private sketch*, and then play the
researcher: tables, means, a regression, synthetic rows and a classifier, all from one file, with
error bars, and at no further privacy cost.
"""

# %%
# ## The survey
#
# These people are made up, so that you can see the truth beside each answer. Schooling leads to
# jobs, jobs to pay, and age to children. One person in ten does not tell their hours of work.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n = 20_000
SCHOOLS, JOBS = ["basic", "middle", "college"], ["farm", "shop", "office", "clinic"]
school = rng.choice(3, n, p=[0.2, 0.5, 0.3])
odds = np.array([[0.6, 0.3, 0.1, 0.0], [0.2, 0.5, 0.2, 0.1], [0.05, 0.1, 0.5, 0.35]])
job = (rng.random(n)[:, None] > odds.cumsum(axis=1)[school]).sum(axis=1).clip(0, 3)
age = rng.integers(18, 81, n)
children = rng.poisson(np.where((age > 28) & (age < 55), 1.6, 0.2)).clip(0, 8)
hours = rng.normal(np.array([48, 38, 40, 36])[job], 5).round().clip(0, 80)
pay = (np.array([20, 25, 38, 52])[job] * rng.lognormal(0, 0.25, n)).clip(0, 200)
survey = pd.DataFrame(
    {
        "age": age,
        "school": np.array(SCHOOLS)[school],
        "job": np.array(JOBS)[job],
        "hours": np.where(rng.random(n) < 0.1, np.nan, hours),
        "pay": pay,
        "children": children,
        "moved": np.where(rng.random(n) < 0.4 - 0.005 * (age - 18), "yes", "no"),
    }
)
survey.head()

# %%
# ## Say what is public
#
# A schema says what everyone knows about each column: its range or its categories, whether numbers
# are whole, whether values can be missing. Do not read the ranges off the table, because a minimum
# is one person's value.

from skdpsumm import Numeric, TableSchema

schema = TableSchema(
    {
        "age": Numeric(18, 80, step=1, unit="years"),
        "school": SCHOOLS,
        "job": JOBS,
        "hours": Numeric(0, 80, step=1, missing=True),
        "pay": Numeric(0, 200, unit="thousands"),
        "children": Numeric(0, 8, step=1),
        "moved": ["no", "yes"],
    }
)

# %%
# ## Choose epsilon before you touch the table
#
# A smaller epsilon reveals less about each person and adds more noise. How much more? The answer
# needs the schema and a rough number of rows, and no data.

from skdpsumm import AdaptiveSketcher

for epsilon in (0.1, 0.3, 1.0):
    planned = AdaptiveSketcher(schema, target="moved", epsilon=epsilon, delta=1e-6)
    error = planned.predict_error(n_samples=20_000)
    print(f"epsilon = {epsilon}: shares are off by about {error['column']:.2%}")

# %%
# ## Release
#
# A ledger is a file that keeps your promise: it holds the total that this table may ever give away,
# and refuses a release that would exceed it. The sketcher finds bins, counts each column, and then
# chooses privately which columns to count together. All of this is one charge.

from skdpsumm import PrivacyLedger

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "survey.sketch"
ledger = PrivacyLedger(Path(folder.name) / "survey.ledger", epsilon=2.0, delta=1e-5)

sketcher = AdaptiveSketcher(schema, target="moved", epsilon=1.0, delta=1e-6, ledger=ledger)
sketcher.fit(survey).sketch_.save(path)
print(f"{path.stat().st_size / 1000:.0f} kB; left in the ledger: {ledger.remaining.epsilon:.2f}")

# %%
# ## Now you are the researcher
#
# You have the file and nothing else. It tells what it protects, and how precise it is.

from skdpsumm import M2MEstimator, PrivateSketch

sketch = PrivateSketch.load(path)
m2m = M2MEstimator.from_sketch(sketch, random_state=0)
m2m.mean(by="school")

# %%
# Each answer has a standard error. `interval()` gives the 95 % interval, which covers everything
# that the release does not tell you: the noise, pairs of columns that nobody counted, and where in
# their bins people are.

late = m2m.estimate(lambda rows: (rows["age"] >= 65) & (rows["hours"] >= 20))
low, high = late.interval()
truth = ((survey["age"] >= 65) & (survey["hours"] >= 20)).mean()
print(f"65 or older, and at work: {low:.3f} to {high:.3f} of all people; truth: {truth:.3f}")

# %%
# ## Draw it
#
# Pay by job, and jobs by school. The survey is public in truth, so the crosses show exact values.
# Never draw those of a private table.

shares = m2m.table(["school", "job"], normalize="index")
pays = m2m.mean(by="job")[:, "pay"]
exact_shares = pd.crosstab(survey["school"], survey["job"], normalize="index")
exact_pays = survey.groupby("job")["pay"].mean()


def bars(answers):
    """Return how far the 95 % intervals reach below and above the answers."""
    return np.abs(answers[...].interval() - np.asarray(answers)[..., None]).T


plt.rc("font", size=9)
fig, (left, right) = plt.subplots(1, 2, figsize=(7.4, 2.9), layout="constrained", dpi=90)
for k, name in enumerate(SCHOOLS):
    where = np.arange(4) + 0.2 * (k - 1)
    private = shares[name]
    style = {"fmt": "os^"[k], "ms": 4, "capsize": 2, "color": f"C{k}"}
    left.errorbar(where, np.asarray(private), bars(private), label=name, **style)
    left.plot(where, exact_shares.loc[name, JOBS], "kx", ms=5, zorder=3)
left.set_xticks(range(4), JOBS)
left.set(ylabel="share of people with this school", ylim=(-0.03, 0.8))
left.legend(title="school", frameon=False, loc="upper center", ncols=3)
right.errorbar(range(4), np.asarray(pays), bars(pays), fmt="o", ms=4, capsize=2)
right.plot(range(4), exact_pays[JOBS], "kx", ms=5, zorder=3)
right.set_xticks(range(4), JOBS)
right.set_ylabel("mean pay (thousands)")
plt.show()

# %%
# ## A regression
#
# Who moved last year? `coefficients` fits a logistic regression to the release. Intervals with
# `covers="population"` are those that you would report: they are about all people of whom the
# survey is a sample. The truth of this made-up survey falls with age and with nothing else.

from skdpsumm import M2MClassifier

model = M2MClassifier.from_sketch(sketch, target="moved", random_state=0)
found = model.coefficients(["age", "children"])
found.interval(covers="population").round(3)

# %%
# ## Synthetic rows, and any model
#
# Draw as many rows as you like. They are nobody's rows, and have the guarantee of the release. Use
# them to try out code; for numbers ask the sketch, which knows its errors.

m2m.sample(5, random_state=0)

# %%
# `M2MClassifier` trains any scikit-learn estimator on such rows. Here it predicts jobs, beside the
# same trees trained on real people. Both are scored on 5,000 people of the survey; the release has
# seen those, but it may not remember anyone.

from sklearn.ensemble import HistGradientBoostingClassifier

trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
old, new = survey[:15_000].drop(columns="job"), survey[15_000:].drop(columns="job")
on_real = trees.fit(pd.get_dummies(old), survey["job"][:15_000])
on_sketch = M2MClassifier.from_sketch(sketch, target="job", estimator=trees, random_state=0)
pd.Series(
    {
        "trained on real rows": on_real.score(pd.get_dummies(new), survey["job"][15_000:]),
        "trained on the sketch": on_sketch.score(new, survey["job"][15_000:]),
        "most frequent job": survey["job"].value_counts(normalize=True).iloc[0],
    },
    name="accuracy",
).round(3)

# %%
# ## What you promised
#
# Whatever anyone does with these files, the guarantee holds: two surveys that differ in one person
# are almost equally likely to give them.

sketch.privacy
