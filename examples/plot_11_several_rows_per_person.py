"""
Several rows per person
=======================

A clinic's table has one row per visit, and some people come often. A guarantee for one *row* then
says little about a *person*: whoever has forty rows is protected forty times worse. Give the labels
of the persons as ``groups``, and how many rows of each may count as ``max_rows_per_group``, and the
guarantee is about persons.

What does that cost? With ``max_rows_per_group=k`` at most k rows of each person are used, and the
noise is k times that of one row. A small k loses rows, and what is lost are the rows of those who
come often, so answers about *visits* are biased. A large k brings noise. ``"average"`` uses all
rows and counts each person once, with the noise of one row: it answers about *persons*.
"""

# %%
# A table with many visits of few people
# --------------------------------------
# Most of 3,000 people came once or twice, a few some forty times. Those who come often are older,
# and their blood pressure is higher.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdpsumm import HistogramSketcher, M2MEstimator, Numeric, TDILClassifier

rng = np.random.default_rng(0)
n_people = 3000
visits = np.minimum(rng.geometric(0.5, n_people) * rng.integers(1, 12, n_people), 40)
person = np.repeat(np.arange(n_people), visits)
age = np.clip(rng.normal(45 + 8 * np.log(visits), 12), 18, 95).round()
pressure = np.clip(rng.normal(95 + 0.6 * age[person], 15), 80, 220).round()
table = pd.DataFrame({"age": age[person], "pressure": pressure})
schema = {"age": Numeric(18, 95, step=1, unit="years"), "pressure": Numeric(80, 220, step=1)}
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
# The mean pressure over visits, and over people, in twenty releases at epsilon = 0.3: how far their
# mean is from the truth, for rows were left out (light), and how far they spread by noise (dark).

limits = [1, 2, 5, 10, 20, 40, "average"]
over_visits = pressure.mean()
over_people = pd.Series(pressure).groupby(person).mean().mean()


def errors(limit, truth, n_releases=20):
    """Return bias and noise of the mean pressure, over releases."""
    found = []
    for seed in range(n_releases):
        sketcher = HistogramSketcher(
            epsilon=0.3, n_bins=20, max_rows_per_group=limit, noise_seed=seed
        )
        m2m = M2MEstimator(sketcher, schema=schema, n_synthetic=2000, random_state=0)
        found.append(float(m2m.fit(table, groups=person).mean().value["pressure"]) - truth)
    return np.mean(found), np.std(found)


warnings.simplefilter("ignore")  # of simulated noise
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for ax, truth, about in zip(axes, (over_visits, over_people), ("visits", "people"), strict=True):
    split = np.array([errors(limit, truth) for limit in limits])
    places = np.arange(len(limits))
    ax.bar(places - 0.2, np.abs(split[:, 0]), 0.4, color="#9ecae1", label="bias: rows left out")
    ax.bar(places + 0.2, split[:, 1], 0.4, color="#08519c", label="noise")
    ax.set_xticks(places, [str(limit) for limit in limits])
    ax.set_xlabel("max_rows_per_group")
    ax.set_title(f"mean pressure over {about}: {truth:.1f}")
axes[0].set_ylabel("error")
axes[0].legend()
fig.tight_layout()
plt.show()

# %%
# A model
# -------
# The same parameter in a learner: is the pressure above the middle, by age? With the noise of rows
# the claim is about rows, whatever the score.

high = pressure > 127
ages = {"age": schema["age"]}
for limit in (None, 1, 5, 20, "average"):
    scores = []
    for seed in range(5):
        model = TDILClassifier(
            schema=ages, fit_intercept=True, epsilon=0.1, max_rows_per_group=limit, noise_seed=seed
        )
        model.fit(table[["age"]], high, **({} if limit is None else {"groups": person}))
        scores.append(model.score(table[["age"]], high))
    unit = model.privacy_.unit
    print(f"{limit!s:>8}: {np.mean(scores):.3f} +- {np.std(scores):.3f}, protects {unit}")
