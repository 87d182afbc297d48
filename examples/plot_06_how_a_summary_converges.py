"""
How a summary converges
=======================

The maximum mean discrepancy (MMD) between a summary and its target falls with every row chosen.
How far does privacy let it fall, and whose rows does it take? Three runs, at epsilon = 0.1, 1 and
without privacy.
"""

# %%
# Owners and target
# -----------------
# Five owners of digits as in the previous example, and a target of 40 threes, 40 eights and 40
# nines. A further 210 images like the target's play public rows of its population, against which
# the MMD is drawn: the target itself is private, so no picture is drawn of it. Pixels lie between
# 0 and 16, and the width of the kernel follows from that alone.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from skdpsumm import PrivacyLedger, PrivateMMDSummarizer, uniform_selection
from skdpsumm.plotting import SummaryDisplay

plt.rc("font", size=8)

OWNER_OF = {0: "A", 1: "A", 3: "B", 4: "B", 5: "C", 6: "C", 7: "D", 8: "D", 2: "E", 9: "E"}
PIXELS, N_SELECT = (0, 16), 60

rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
wanted = [rng.permutation(np.flatnonzero(digits == digit)) for digit in (3, 8, 9)]
target = images[np.concatenate([rows[:40] for rows in wanted])]
public = images[np.concatenate([rows[40:110] for rows in wanted])]
rest = np.setdiff1d(np.arange(len(digits)), np.concatenate([rows[:110] for rows in wanted]))
X, owners = images[rest], np.array([OWNER_OF[digit] for digit in digits[rest]])

# %%
# Two private runs
# ----------------
# Two runs are two releases about the target, so they share a ledger with a cap.

ledger = PrivacyLedger(epsilon=1.5, delta=1e-5)
runs = {}
for epsilon in (0.1, 1.0, np.inf):
    summarizer = PrivateMMDSummarizer(
        PIXELS,
        n_select=N_SELECT,
        epsilon=epsilon,
        delta=1e-6,
        random_state=0,
        ledger=None if epsilon == np.inf else ledger,
    )
    runs[epsilon] = summarizer.fit(X, X_target=target, owners=owners)
ledger

# %%
# The picture
# -----------
# Rows are in the order in which the curator chose them, so the first s of them are the summary of
# size s. The run without privacy is there for comparison: on private rows it would be no release.

fig, (above, below) = plt.subplots(2, 1, figsize=(4, 5.6), layout="constrained")
names = {0.1: "epsilon = 0.1", 1.0: "epsilon = 1", np.inf: "no privacy"}
uniform = uniform_selection(len(X), N_SELECT, random_state=0)
curves = {"uniform choice": uniform}
curves |= {name: runs[epsilon].sample_indices_ for epsilon, name in names.items()}
last = {}
for name, rows in curves.items():
    display = SummaryDisplay.from_rows(X[rows], public, schema=PIXELS, ax=above, name=name)
    display.line_.set_markevery(5)
    last[name] = display.mmd[-1]
above.set_title(
    f"60 rows at epsilon = 1: MMD {last['epsilon = 1']:.2f};\n"
    f"60 random rows of the target: {display.expected[-1]:.2f}",
    fontsize="medium",
)
above.set_xticks([1, 3, 10, 30, 60], ["1", "3", "10", "30", "60"])
above.set_yticks([0.1, 0.2, 0.4, 0.8], ["0.1", "0.2", "0.4", "0.8"])
above.minorticks_off()
above.legend(frameon=False, fontsize="small", loc="lower left")

sizes = np.arange(1, N_SELECT + 1)
whose = owners[runs[1.0].sample_indices_]
for owner, line in zip("ABCDE", ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1))), strict=True):
    below.plot(sizes, np.cumsum(whose == owner), ls=line, label=f"owner {owner}")
below.set(xlabel="rows in the summary", ylabel="of them, rows of the owner")
below.legend(frameon=False, fontsize="small", title="at epsilon = 1")
share = np.isin(whose, ["B", "D", "E"]).mean()
below.set_title(f"{share:.0%} come from the three owners\nwho have such digits", fontsize="medium")
plt.show()

# %%
# *Above: MMD between the first s rows chosen and 210 public rows like the target's, Gaussian
# kernel, delta = 1e-6; dotted: the root mean squared MMD of s rows drawn at random from
# those public rows themselves. Below: how many of the first s rows at epsilon = 1 came from each
# owner.* There are no error bars, for each curve is one run with noise of its own. Expect the curve
# of epsilon = 1 close to that without privacy, and that of 0.1 to flatten earlier. A uniform choice
# keeps the distance that the populations have. All curves have a floor, as the public rows are not
# the target's.
#
# Owner B has the threes, D the eights and E the nines. The lower panel is drawn by the curator: how
# many rows each owner sold is exact, and no epsilon covers its publication.
