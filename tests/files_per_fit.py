"""How many of our files one fit enters: a measure of how much of the library one has to know.

``python tests/files_per_fit.py [-v]`` prints the count for each main estimator, with a ledger, and
with -v the files. `test_house.py` holds the limits.
"""

import os
import sys
import warnings

import numpy as np
import pandas as pd

import skdpsumm
from skdpsumm.features._feature_maps import engine_name
from skdpsumm.learners import TDILClassifier
from skdpsumm.model_selection import PrivateSearchCV
from skdpsumm.moments import M2MClassifier, M2MEstimator
from skdpsumm.privacy import PrivacyLedger
from skdpsumm.sketches import RFFSketcher
from skdpsumm.summaries import PrivateMMDSummarizer

# What `_sklearn.py` holds is scikit-learn's, so nobody has to know it.
NOT_OURS = "_sklearn.py"
HOME = os.path.join(os.path.dirname(skdpsumm.__file__), "")
LIMITS = {
    "RFFSketcher": 12,
    "TDILClassifier": 16,
    "PrivateMMDSummarizer": 15,
    "M2MEstimator": 18,
    "M2MClassifier": 20,
    "PrivateSearchCV": 21,
}


def files_entered(call):
    """Return the files of skdpsumm, by name, in which a function runs while `call` does."""
    seen = set()

    def note(frame, event, _):
        # numba reports its loops as calls from nowhere: what is compiled runs in no file.
        if event == "call" and frame.f_back is not None:
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    ours = {name.removeprefix(HOME) for name in seen if name.startswith(HOME)}
    return sorted(ours - {NOT_OURS})


def fits():
    """Return a small fit of each main estimator, by its name: the calls of the README."""
    engine_name()  # which imports compiled loops: to be imported is not to be entered
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (400, 3))
    y = (X[:, 0] > 0.5).astype(int)

    def ledger():
        return PrivacyLedger(epsilon=10.0, delta=1e-4)

    sketcher = RFFSketcher((0, 1), n_components=20, random_state=0, ledger=ledger())
    learner = TDILClassifier(schema=(0, 1), ledger=ledger(), classes=[0, 1])
    summarizer = PrivateMMDSummarizer((0, 1), n_select=20, random_state=0, ledger=ledger())
    model = M2MClassifier((0, 1), random_state=0, ledger=ledger())
    search = PrivateSearchCV(
        TDILClassifier(schema=(0, 1), classes=[0, 1]),
        {"kernel": ["splines", "linear"]},
        expected_trials=5,
        random_state=0,
        ledger=ledger(),
    )
    table = pd.DataFrame({"age": X[:, 0], "job": np.where(y, "clerk", "nurse")})
    m2m = M2MEstimator({"age": (0, 1), "job": ["clerk", "nurse"]}, random_state=0)
    return {
        "RFFSketcher": lambda: sketcher.fit(X),
        "TDILClassifier": lambda: learner.fit(X, y),
        "PrivateMMDSummarizer": lambda: summarizer.fit(X, X_target=X[:100] / 2),
        "M2MEstimator": lambda: m2m.fit(table),
        "M2MClassifier": lambda: model.fit(X, y),
        "PrivateSearchCV": lambda: search.fit(X, y),
    }


def main():
    """Print the table."""
    for name, fit in fits().items():
        with warnings.catch_warnings(action="ignore"):
            files = files_entered(fit)
        print(f"{name:22} {len(files):3} files (at most {LIMITS[name]})")
        if "-v" in sys.argv:
            print("   " + ", ".join(files))


if __name__ == "__main__":
    main()
