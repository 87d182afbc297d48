"""
Several classifiers from one sketch
===================================

A sketch is a file. Whoever holds it can train as many models as they like on synthetic rows that
match it, of any kind, for the price that was paid for the file: here epsilon = 2 and
delta = 1e-6.
"""

# %%
# The curator writes a file
# -------------------------
# Three measurements of 398 tumours, and whether each is benign. The schema says what such
# measurements can be (radius and texture as image analysis reports them; concavity is a share).
# With `classes`, the set of labels is no secret that a single row could betray.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from skdpsumm import AdaptiveSketcher, M2MClassifier, PrivateSketch, RACESketcher, RFFSketcher

plt.rc("font", size=8)

schema = {"mean radius": (5, 30), "mean texture": (5, 45), "mean concavity": (0, 0.5)}
data = load_breast_cancer(as_frame=True)
labels = data.target.map({0: "malignant", 1: "benign"})
X, X_test, y, y_test = train_test_split(
    data.data[list(schema)], labels, test_size=0.3, stratify=labels, random_state=0
)

curator = M2MClassifier(
    schema,
    release=RFFSketcher(n_components=60, epsilon=2.0, delta=1e-6),
    classes=["benign", "malignant"],
    n_synthetic=5_000,
    random_state=0,
)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "tumours.sketch"
curator.fit(X, y).sketch_.save(path)
curator

# %%
# The analyst trains
# ------------------
# The file is all that the analyst has. Models are post-processing: no row is read again, and no
# budget is spent.

sketch = PrivateSketch.load(path)
folder.cleanup()
models = {
    name: M2MClassifier.from_sketch(sketch, estimator=estimator, n_synthetic=10_000, random_state=0)
    for name, estimator in {
        "logistic regression": LogisticRegression(max_iter=1000),
        "naive Bayes": GaussianNB(),
        "boosted trees": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    }.items()
}
sketch

# %%
# The picture
# -----------
# The test rows are public, so that curves of them are no release. For comparison, a logistic
# regression on the rows themselves, without privacy.


def malignant(model, rows):
    """Return the probability of the label "malignant"."""
    return model.predict_proba(rows)[:, list(model.classes_).index("malignant")]


scores = {name: malignant(model, X_test) for name, model in models.items()}
exact = LogisticRegression(max_iter=10_000).fit(X, y)
areas = {name: roc_auc_score(y_test == "malignant", score) for name, score in scores.items()}
area = roc_auc_score(y_test == "malignant", malignant(exact, X_test))

fig, ax = plt.subplots(figsize=(3.4, 3.2), layout="constrained")
for (name, score), line in zip(scores.items(), ("-", "--", "-."), strict=True):
    false, true, _ = roc_curve(y_test == "malignant", score)
    ax.plot(false, true, line, label=f"{name}: {areas[name]:.3f}")
false, true, _ = roc_curve(y_test == "malignant", malignant(exact, X_test))
ax.plot(false, true, ":", color="0.4", lw=2, label=f"without privacy: {area:.3f}")
ax.set(xlabel="false alarms (share of benign)", ylabel="found (share of malignant)")
ax.set(aspect="equal", xlim=(-0.01, 1), ylim=(0, 1.01))
ax.legend(title="area under the curve", frameon=False, loc="lower right")
ax.set_title(
    f"From the sketch {min(areas.values()):.2f} to {max(areas.values()):.2f},"
    f" without privacy {area:.2f}",
    fontsize="medium",
)
plt.show()

# %%
# *ROC curves on 171 public test rows of three models trained from one sketch of 398 rows, epsilon =
# 2, delta = 1e-6 (lines), and of a logistic regression on the rows themselves (dotted).* The noise
# is fresh in every run: expect areas of the linear model close to that without privacy, and now and
# then a model that suffers more, for 398 rows are few. All models share the noise of the one
# sketch, so that they tend to be good or bad together.
#
# Which sketch?
# -------------
# The same model from one release of each kind: Fourier features, buckets of hashes (RACE, which
# wants many rows), and what you get by default, counts of columns that go with the label.

kinds = {
    "Fourier features": RFFSketcher(n_components=60),
    "RACE": RACESketcher(),
    "default": AdaptiveSketcher(),
}
for name, kind in kinds.items():
    kind.set_params(epsilon=2.0, delta=1e-6)
    one = M2MClassifier(schema, release=kind, classes=["benign", "malignant"], random_state=0)
    print(f"{name}: {roc_auc_score(y_test == 'malignant', malignant(one.fit(X, y), X_test)):.3f}")
