"""
Several rows per person
=======================

A clinic's table has one row per visit, and some people come often. A guarantee for one *row* then
says little about a *person*: whoever has forty rows is protected forty times worse. Say whose each
row is, in `groups`, and how many rows of each may count, in `max_rows_per_group`, and the guarantee
is about persons.

What does that cost? With `max_rows_per_group=k` at most k rows of each person are used, and the
noise is k times that of one row. A small k loses rows of those who come often, so that answers
about *visits* are biased. A large k brings noise. `"average"` uses all rows and counts each person
once, with the noise of one row: it answers about *persons*.
"""

# %%
# A table with many visits of few people
# --------------------------------------
# Of 3,000 made-up people some came once, a few forty times. Those who come often are older, and
# their blood pressure is higher.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsumm import (
    HistogramSketcher,
    M2MEstimator,
    Numeric,
    PrivacyLeakWarning,
    TDILClassifier,
    simulation,
)

plt.rc("font", size=8)

rng = np.random.default_rng(0)
n_people = 3000
visits = np.minimum(rng.geometric(0.5, n_people) * rng.integers(1, 12, n_people), 40)
person = np.repeat(np.arange(n_people), visits)
age = np.clip(rng.normal(45 + 8 * np.log(visits), 12), 18, 95).round()
pressure = np.clip(rng.normal(95 + 0.6 * age[person], 15), 80, 220).round()
table = pd.DataFrame({"age": age[person], "pressure": pressure})
schema = {
    "age": Numeric(18, 95, step=1, unit="years"),
    "pressure": Numeric(80, 220, step=1, unit="mmHg"),
}
print(f"{len(table)} visits of {n_people} people, at most {visits.max()} of one")

# %%
# Two guarantees
# --------------
# The same epsilon, once for one row and once for one person.

by_row = HistogramSketcher(schema=schema, epsilon=1.0).fit(table)
by_person = HistogramSketcher(schema=schema, epsilon=1.0, max_rows_per_group=5)
by_person.fit(table, groups=person)
print(by_row.privacy_)
print(by_person.privacy_)

# %%
# What does the first one say about a person with forty rows? Forty times the distance, and that is
# hardly a guarantee:

of_forty = by_row.privacy_.mechanism.group(40)
print(f"epsilon for forty rows: {of_forty.epsilon(1e-6):.0f} at delta = 1e-6")

# %%
# The price in accuracy
# ---------------------
# We ask for the mean pressure, over visits and over people, in twenty releases at epsilon = 0.3.
# What is wrong with all of them is the bias of the rows that are left out; what differs between
# them is noise. (Seeds make these releases simulations, of which the library warns.)

warnings.simplefilter("ignore", PrivacyLeakWarning)
LIMITS = [1, 2, 5, 10, 20, 40, "average"]
answers = np.empty((len(LIMITS), 20))
for k, limit in enumerate(LIMITS):
    for seed in range(answers.shape[1]):
        sketcher = HistogramSketcher(n_bins=20, epsilon=0.3, max_rows_per_group=limit)
        m2m = M2MEstimator(schema, release=sketcher, n_synthetic=2000, random_state=0)
        with simulation(seed):
            answers[k, seed] = m2m.fit(table, groups=person).mean()[1]
truths = {"visits": pressure.mean(), "people": table.pressure.groupby(person).mean().mean()}

fig, axes = plt.subplots(2, 1, figsize=(4, 4.6), sharex=True, sharey=True, layout="constrained")
for ax, (about, truth) in zip(axes, truths.items(), strict=True):
    parts = {"bias": np.abs(answers.mean(axis=1) - truth), "noise": answers.std(axis=1)}
    for k, (name, error) in enumerate(parts.items()):
        style = {"facecolor": f"C{k}", "edgecolor": "0.2", "hatch": ("", "///")[k]}
        ax.bar(np.arange(len(LIMITS)) + 0.4 * k - 0.2, error, 0.4, label=name, **style)
    ax.set_xticks(range(len(LIMITS)), LIMITS)
    ax.set_ylabel("error (mmHg)")
    ax.set_title(f"mean over {about}: {truth:.1f} mmHg", fontsize=8)
axes[1].set_xlabel("max_rows_per_group")
axes[1].legend(frameon=False)
noise = dict(zip(LIMITS, answers.std(axis=1), strict=True))
fig.suptitle(
    f"Noise of {noise[1]:.1f} mmHg if one row of a person counts,\n{noise[40]:.1f} if 40 may",
    fontsize="medium",
)
plt.show()

# %%
# *Errors of the mean pressure in twenty releases of one table at epsilon = 0.3, delta = 1e-6, each
# a guarantee for persons. Plain: distance of their mean from the truth, which is that of the visits
# above, of the people below; hatched: their standard deviation.* Over visits a limit
# between the extremes is best, and which one depends on the table: choose it by public knowledge of
# how often people come. (With 40 no row is left out: much noise draws answers to the middle of the
# range.) Over people 1 and "average" are right, for both count everybody once.
#
# A model
# -------
# Learners take the same parameter. Is the pressure above 135, by age? The share of right answers,
# mean and standard deviation of ten fits at epsilon = 0.1:

high = pressure > 135
scores = {}
for limit in (None, 1, 5, 20, "average"):
    model = TDILClassifier(schema={"age": schema["age"]}, epsilon=0.1, max_rows_per_group=limit)
    groups = None if limit is None else person
    found = []
    for seed in range(10):
        with simulation(seed):
            model.fit(table[["age"]], high, groups=groups)
        found.append(model.score(table[["age"]], high))
    scores[str(limit)] = [model.privacy_.unit, np.mean(found), np.std(found)]
pd.DataFrame(scores, index=["protects", "mean", "deviation"]).T

# %%
# "One row" is the weaker claim, whatever its score.
