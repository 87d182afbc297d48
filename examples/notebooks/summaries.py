"""
# Choose rows from many owners

A clinic on an island has 300 patients, and does not know yet who of them will fall ill. It wants a
model. Three hospitals on the mainland have thousands of patients with known outcomes, but most of
these are not like the island's. In this notebook a curator picks the 200 rows that match the
island best. The hospitals learn nothing of one another, and little of the island.
"""

# %%
# ## The parties
#
# These people are made up. Being much too thin or too heavy makes you ill, and so does age. On the
# mainland people are heavy; on the island they are thin.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd


def patients(n, age, bmi, seed):
    """Return a table of n people around a mean age and body mass index, and who of them is ill."""
    rng = np.random.default_rng(seed)
    age = rng.normal(age, 12, n).clip(18, 95)
    bmi = rng.normal(bmi, 3.5, n).clip(14, 48)
    risk = ((bmi - 24) / 3) ** 2 + (age - 55) / 10 - 2.5
    ill = rng.random(n) < 1 / (1 + np.exp(-risk))
    return pd.DataFrame({"age": age, "bmi": bmi}), ill.astype(int)


hospitals = {
    "coast": patients(2_000, age=58, bmi=27, seed=1),
    "city": patients(2_500, age=42, bmi=28, seed=2),
    "hills": patients(1_000, age=62, bmi=24, seed=5),
}
X = pd.concat([table for table, _ in hospitals.values()], ignore_index=True)
y = np.concatenate([ill for _, ill in hospitals.values()])
owners = np.repeat(list(hospitals), [len(ill) for _, ill in hospitals.values()])
island, _ = patients(300, age=55, bmi=20, seed=3)

# %%
# ## Say what is public
#
# The ranges of the two columns. They scale the columns and set the width of the kernel that
# compares rows. A `StandardScaler` would read both off everybody's patients.

schema = {"age": (15, 95), "bmi": (14, 48)}

# %%
# ## One round of messages
#
# Each hospital gets a noisy summary of the island's patients and proposes rows that fit it. The
# curator keeps the best 200. Epsilon limits what the hospitals can learn about one patient of the
# island.

from skdpsumm import PrivateMMDSummarizer

summarizer = PrivateMMDSummarizer(schema, n_select=200, epsilon=1.0, delta=1e-6, random_state=0)
summarizer.fit(X, X_target=island, owners=owners)
chosen = summarizer.sample_indices_
print(summarizer.owner_counts_, f"chosen, of {summarizer.n_accessed_:,} rows that were sent")

# %%
# Grey: the patients of the three hospitals. Blue: the island's. Orange: the rows chosen. Only the
# clinic, which gets these rows, may draw them. They need not look like the island's patients one by
# one: what matches is the whole, at the width of the kernel.

plt.rc("font", size=9)
fig, axes = plt.subplots(1, 2, figsize=(7.4, 2.9), sharex=True, sharey=True, layout="constrained")
fig.set_dpi(90)
for ax, rows, colour, title in (
    (axes[0], island, "C0", "the island's 300 patients"),
    (axes[1], X.iloc[chosen], "C1", "the 200 rows chosen"),
):
    ax.scatter(X["bmi"], X["age"], s=1, color="0.8", rasterized=True)
    ax.scatter(rows["bmi"], rows["age"], s=5, color=colour)
    ax.set(xlabel="body mass index", title=title)
axes[0].set_ylabel("age (years)")
plt.show()

# %%
# ## Train on them
#
# The same logistic regression, trained on all rows, on 200 random rows and on the 200 chosen ones,
# and scored on 4,000 later patients of the island. `mmd2` is the squared distance to the island's
# patients (MMD, the maximum mean discrepancy): 0 means the same distribution. "All rows seen" is
# the choice of somebody who may look at everything.

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpsumm import PublicVectorizer, greedy_mmd_selection, mmd2, uniform_selection

later, later_ill = patients(4_000, age=55, bmi=20, seed=4)
model = make_pipeline(PublicVectorizer(schema), LogisticRegression(C=100))
choices = {
    "all 5,500 rows": np.arange(len(X)),
    "200 random rows": uniform_selection(len(X), 200, random_state=0),
    "200 chosen, epsilon = 1": chosen,
    "200 chosen, all rows seen": greedy_mmd_selection(X, island, 200, schema=schema),
}
pd.DataFrame(
    {
        name: {
            "mmd2": mmd2(X.iloc[rows], island, schema=schema),
            "accuracy": model.fit(X.iloc[rows], y[rows]).score(later, later_ill),
        }
        for name, rows in choices.items()
    }
).T.round({"mmd2": 6, "accuracy": 2})

# %%
# ## Who is protected from whom
#
# There are three answers, and the first one matters most: the rows chosen are real rows, so nothing
# protects them from the clinic, or from anybody who gets a model trained on them.

summarizer.privacy_

# %%
# ## If no row may leave a hospital
#
# Then each hospital releases a private sketch of its patients. The clinic draws synthetic rows from
# the sum of these sketches and weighs them to look like its own patients. Now the guarantee holds
# against everyone, the clinic included. It needs a larger epsilon or more rows.

from skdpsumm import SketchSummarizer

private = SketchSummarizer(
    schema, n_select=200, label=[0, 1], epsilon=3.0, delta=1e-6, random_state=0
)
synthetic, synthetic_ill = private.fit_resample(X, y, X_target=island, owners=owners)
score = model.fit(synthetic, synthetic_ill).score(later, later_ill)
print(f"accuracy of a model trained on synthetic rows: {score:.2f}")
private.privacy_.consumer
