"""
A budget spent over a week of questions
=======================================

A clinic grants epsilon = 1 (at delta = 1e-5) for one week. Every day brings a question. If each
is a release of its own, the budget ends before the week does. A sketch that is made on Monday
answers them all.
"""

# %%
# The table and the questions
# ---------------------------
# What such measurements can be is public knowledge. Each question names the columns that it needs,
# and on Monday nobody knows what will be asked on Friday.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes

from skdpsumm import (
    BudgetExceededError,
    HistogramSketcher,
    M2MEstimator,
    PrivacyLedger,
    RFFSketcher,
    SketchUnion,
)
from skdpsumm.plotting import LedgerDisplay

plt.rc("font", size=8)

schema = {"age": (18, 90), "bmi": (15, 50), "bp": (50, 150), "glucose": (50, 150)}
columns = load_diabetes(scaled=False, as_frame=True).data
table = columns[["age", "bmi", "bp", "s6"]].set_axis(list(schema), axis=1)

QUESTIONS = {
    "Mon: median age (years)": (["age"], lambda m2m: m2m.quantile("age", 0.5)),
    "Tue: share with bmi up to 30": (["bmi"], lambda m2m: m2m.cdf("bmi", [30])[0]),
    "Wed: mean glucose (mg/dl)": (["glucose"], lambda m2m: m2m.mean()[-1]),
    "Thu: median bp (mmHg)": (["bp"], lambda m2m: m2m.quantile("bp", 0.5)),
    "Fri: median bmi (kg/m²)": (["bmi"], lambda m2m: m2m.quantile("bmi", 0.5)),
}

# %%
# A release for every question
# ----------------------------
# The ledger is a file, so that other processes and tomorrow's session charge the same one. It asks
# no questions about purpose: what does not fit is refused, and nothing is computed.

folder = tempfile.TemporaryDirectory()
budget = {"epsilon": 1.0, "delta": 1e-5}
ledger = PrivacyLedger(Path(folder.name) / "clinic.ledger", **budget)
spent, single = [], {}
for question, (needed, ask) in QUESTIONS.items():
    sketcher = HistogramSketcher(n_bins=20, epsilon=0.5, delta=1e-6, ledger=ledger)
    asked = {name: schema[name] for name in needed}
    m2m = M2MEstimator(asked, release=sketcher, n_synthetic=20_000, random_state=0)
    try:
        single[question] = ask(m2m.fit(table[needed]))
    except BudgetExceededError as refusal:
        print(f"{question}\n{refusal}\n")
    spent.append(ledger.spent.epsilon)
ledger

# %%
# One release for all questions
# -----------------------------
# For (nearly) the same budget, one sketch of all columns. Fourier features beside the histograms
# prepare it for questions about several columns at once.

saving = PrivacyLedger(Path(folder.name) / "other.ledger", **budget)
sketcher = SketchUnion(
    [HistogramSketcher(n_bins=20), RFFSketcher(n_components=100)],
    weights=[3, 1],
    epsilon=0.8,
    delta=1e-6,
    ledger=saving,
)
m2m = M2MEstimator(schema, release=sketcher, n_synthetic=20_000, random_state=0).fit(table)
shared = {question: ask(m2m) for question, (_, ask) in QUESTIONS.items()}

pd.DataFrame(
    {
        name: {q: f"{a:.4g} ± {a.std_error:.2g}" for q, a in answers.items()}
        for name, answers in {"own releases": single, "one sketch": shared}.items()
    }
).fillna("refused")

# %%
# The picture
# -----------
# The ledger numbers its entries in order; we write the days beside. Bars are what each release
# would cost alone. Together they cost less than their sum, as Gaussian noise composes.

days = [question.split(":")[0] for question in QUESTIONS]

fig, (above, below) = plt.subplots(2, 1, figsize=(4, 4.6), layout="constrained")
LedgerDisplay.from_ledger(ledger, ax=above)
above.set_yticklabels(f"{k}. {question}" for k, question in enumerate(single, 1))
above.set_xlabel("epsilon (delta=1e-05)")
above.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
at_once = [saving.spent.epsilon] * 5
style = {"where": "post", "ms": 4, "markevery": slice(1, None)}
below.step(range(6), [0, *spent], "o-", label="own releases", **style)
below.step(range(6), [0, *at_once], "s--", label="one sketch", **style)
below.axhline(ledger.epsilon, color="k", lw=1.4, label="cap")
below.set_xticks(range(1, 6), days)
below.set(ylim=(0, 1.12), xlim=(0, 5.2), ylabel="epsilon spent (delta=1e-05)")
below.legend(frameon=False, fontsize="small", loc="lower right")
below.set_title(f"Answered: {len(single)} of 5, {len(shared)} from one sketch", fontsize="medium")
plt.show()
folder.cleanup()

# %%
# *Above: the charges of the week's own releases, and all together (dashed) against the cap. Below:
# what had been spent after each day's question.* A refusal costs nothing, and answers nothing. The
# sketch is charged once; its answers are less exact where a release of its own had one histogram
# to pay for, and exist on all days.
