"""Figure 4 of the M2M paper: logistic regression from one private sketch of Occupancy.

    python examples/papers/m2m_occupancy.py --data FOLDER

FOLDER holds datatraining.txt, datatest.txt and datatest2.txt of UCI data set 357 (Occupancy
Detection). 90 per cent of the 20,560 rows are sketched, AUC is measured on the rest; medians,
and the lowest, over seeds. "adaptive" is the default of `M2MClassifier`. The columns' ranges are
what such sensors can read, not the data's.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdpsumm import (
    AdaptiveSketcher,
    HistogramSketcher,
    M2MClassifier,
    RACESketcher,
    RFFSketcher,
    SketchUnion,
)

# Temperature (C), relative humidity (%), light (lux), CO2 (ppm), humidity ratio (kg/kg)
RANGES = [(15, 30), (10, 50), (0, 2000), (300, 2500), (0.0, 0.01)]
SKETCHES = {
    "RFF": RFFSketcher(200, gamma=2.0),
    "RACE": RACESketcher(80, n_buckets=80, bandwidth=0.5),
    "HIST + RFF": SketchUnion([HistogramSketcher(n_bins=20), RFFSketcher(200, gamma=2.0)]),
    "adaptive": AdaptiveSketcher(),  # the default, which has no points to weigh
}


def load(folder):
    """Return the five sensor columns and the label."""
    rows = []
    for name in ("datatraining.txt", "datatest.txt", "datatest2.txt"):
        lines = (Path(folder) / name).read_text().splitlines()[1:]
        rows += [[float(cell) for cell in line.split(",")[2:]] for line in lines]
    table = np.array(rows)
    return table[:, :5], table[:, 5].astype(int)


def auc(model, X, y, seed):
    """Return the AUC of a model trained on 90 per cent of the rows."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.1, random_state=seed)
    return roc_auc_score(y_test, model.fit(X, y).decision_function(X_test))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="0.1,0.3,1,3")
    parser.add_argument("--n-synthetic", type=int, default=40_000)
    parser.add_argument("--sketches", nargs="+", choices=list(SKETCHES), default=list(SKETCHES))
    parser.add_argument("--deltas", nargs="+", type=float, default=[1e-6, 0.0])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = load(arguments.data)
    low, high = np.transpose(RANGES)
    scaled = np.clip((X - low) / (high - low), 0, 1)
    plain = [auc(LogisticRegression(max_iter=1000), scaled, y, s) for s in range(arguments.seeds)]
    print(f"without privacy: median AUC {np.median(plain):.4f}")
    print(
        f"{'sketch':<12}{'weights':<9}{'delta':>7}{'epsilon':>9}{'median':>9}{'lowest':>9}{'s':>6}"
    )
    for name in arguments.sketches:
        sketcher = SKETCHES[name]
        for weights in ("maxent",) if name == "adaptive" else ("maxent", "ridge"):
            for delta in arguments.deltas:
                for epsilon in (float(e) for e in arguments.epsilons.split(",")):
                    sketcher.set_params(epsilon=epsilon, delta=delta)
                    start, found = time.perf_counter(), []
                    for seed in range(arguments.seeds):
                        model = M2MClassifier(
                            sketcher=sketcher,
                            schema=RANGES,
                            weights=weights,
                            classes=[0, 1],
                            n_synthetic=arguments.n_synthetic,
                            random_state=seed,
                        )
                        found.append(auc(model, X, y, seed))
                    seconds = (time.perf_counter() - start) / arguments.seeds
                    print(
                        f"{name:<12}{weights:<9}{delta:>7g}{epsilon:>9g}{np.median(found):>9.4f}"
                        f"{min(found):>9.4f}{seconds:>6.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
