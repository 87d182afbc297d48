"""
# Learn with kernels

A hospital wants to give everyone a model that tells who is at risk. Its 8,000 patients must not
leak through it. In this notebook you train such a model, see what the noise costs before and after
the fit, and ship it.
"""

# %%
# ## The patients
#
# They are made up. Both thin and heavy people are at risk, so a straight line cannot tell.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd


def patients(n, seed):
    """Return a table of n people, and who of them is ill."""
    rng = np.random.default_rng(seed)
    age = rng.normal(60, 12, n).clip(18, 95)
    bmi = rng.normal(25, 4, n).clip(14, 48)
    risk = ((bmi - 24) / 3) ** 2 + (age - 55) / 10 - 2.5
    ill = rng.random(n) < 1 / (1 + np.exp(-risk))
    return pd.DataFrame({"age": age, "bmi": bmi}), np.where(ill, "ill", "well")


X, y = patients(8_000, seed=0)
X_test, y_test = patients(4_000, seed=1)
schema = {"age": (15, 95), "bmi": (14, 48)}

# %%
# ## Why not a support vector machine?
#
# It is accurate, and it *is* a list of patients: whoever has the model has their rows.

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from skdpsumm import PublicVectorizer

for machine in LogisticRegression(), SVC(gamma=10):
    model = make_pipeline(PublicVectorizer(schema), machine).fit(X, y)
    print(f"{machine}: accuracy {model.score(X_test, y_test):.3f}")
print(f"patients stored in the support vector machine: {len(machine.support_vectors_):,}")

# %%
# ## A private classifier
#
# Give the schema, the classes and an epsilon. Nothing else has to be set: the learner chooses its
# features, its regularisation and its noise from these public facts. The ledger holds the total
# that these patients may ever give away.

from skdpsumm import PrivacyLedger, TDILClassifier

folder = tempfile.TemporaryDirectory()
ledger = PrivacyLedger(Path(folder.name) / "patients.ledger", epsilon=3.0, delta=1e-5)
model = TDILClassifier(
    schema=schema, classes=["ill", "well"], epsilon=1.0, delta=1e-6, ledger=ledger
)
model.fit(X, y)
print(
    f"accuracy {model.score(X_test, y_test):.3f}; left in the ledger {ledger.remaining.epsilon:.2f}"
)

# %%
# ## Is it drowned?
#
# Ask before the fit, from the number of rows alone. The noise is that of one prediction, on a scale
# where 1 is the margin of a clear decision.

pd.DataFrame(
    {
        f"epsilon = {epsilon}": {
            f"{n:,} rows": TDILClassifier(
                schema=schema, classes=["ill", "well"], epsilon=epsilon, delta=1e-6
            ).expected_noise(n)["noise"]
            for n in (200, 2_000, 20_000)
        }
        for epsilon in (0.1, 1.0, 10.0)
    }
).round(2)

# %%
# After the fit, `noise_` tells the same of your model. Predictions that vary by much more than
# their noise have learned something.

print(model.noise_)

# %%
# ## Look at it
#
# The probability of being ill, by age and body mass index: without privacy, and from one fit at
# each epsilon. In practice you fit once. These further fits are charged as well, here to a ledger
# of their own.

from sklearn.base import clone

ages, bmis = np.meshgrid(np.linspace(20, 95, 80), np.linspace(14, 48, 80), indexing="ij")
places = pd.DataFrame({"age": ages.ravel(), "bmi": bmis.ravel()})
plt.rc("font", size=9)
fig, axes = plt.subplots(1, 3, figsize=(7.4, 2.7), sharex=True, sharey=True, layout="constrained")
fig.set_dpi(90)
for ax, epsilon in zip(axes, (np.inf, 1.0, 0.1), strict=True):
    shown = clone(model).set_params(epsilon=epsilon, ledger=None).fit(X, y)
    risk = shown.predict_proba(places)[:, 0].reshape(ages.shape)
    drawn = ax.contourf(bmis, ages, risk, levels=np.linspace(0, 1, 11), cmap="RdBu_r")
    ax.contour(bmis, ages, risk, levels=[0.5], colors="k", linewidths=1)
    name = "no privacy" if np.isinf(epsilon) else f"epsilon = {epsilon:g}"
    ax.set_title(f"{name}: accuracy {shown.score(X_test, y_test):.2f}", fontsize=9)
    ax.set_xlabel("body mass index")
axes[0].set_ylabel("age (years)")
fig.colorbar(drawn, ax=axes, label="probability of being ill")
plt.show()

# %%
# ## Ship it
#
# The model is a list of noisy numbers. It holds no patient, so you can send it to anyone.

import pickle

parcel = pickle.dumps(model)
print(f"{len(parcel) / 1000:.0f} kB; holds private data: {model.holds_private_data}")
pickle.loads(parcel).predict(X_test[:5])

# %%
# ## What you promised
#
# Two tables that differ in one patient give models that are almost equally likely. The guarantee
# says how nearly, and the ledger has the charge. (To attack such a claim yourself, see "Auditing a
# claim" in the gallery.)

print(f"spent: epsilon = {ledger.spent.epsilon:.2f} of 3, at delta = 1e-5")
model.privacy_
