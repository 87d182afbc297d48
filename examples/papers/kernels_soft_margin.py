"""The study behind `SoftHinge`: which margin and Lambda suit which number of rows.

    python examples/papers/kernels_soft_margin.py [--delta 1e-6] [--runs 2]

Objective perturbation with log(1 + exp(m - margin)) on synthetic tables of two classes: clusters
with Fourier features, and indicators of categories, as one-hot codes give. Features have norms of
at most R = 1, Lambda is a multiple of 1 / epsilon. For every number of rows and multiple the area
under the ROC curve, mean over tables, draws and epsilon = .1, .3, 1, 3, below the best of that
number of rows.
"""

import argparse
import itertools

import numpy as np
from kernels_regularization import fourier, solve, unit
from sklearn import datasets
from sklearn.metrics import roc_auc_score

from skdpsumm.learners.erm._losses import SoftHinge
from skdpsumm.privacy._objective import calibrate

N_ROWS = 2000, 8000, 40_000
EPSILONS = 0.1, 0.3, 1.0, 3.0
MARGINS = 0.0, 1.0, 1.5, 2.0, 3.0
MULTIPLES = 0.35, 0.5, 0.7, 1.0, 2.0
N_TEST, N_COLUMNS = 5000, 12


def clusters(rng, seed):
    made = {"n_features": 10, "n_informative": 6, "flip_y": 0.1, "random_state": rng}
    X, y = datasets.make_classification(N_ROWS[-1] + N_TEST, **made)
    return fourier(np.clip(X / 4, -1, 1), seed), y == 1


def indicators(rng, seed):
    """Twelve columns of eight categories, unevenly frequent, with additive effects."""
    n = N_ROWS[-1] + N_TEST
    codes = np.minimum(rng.geometric(0.35, (n, N_COLUMNS)), 8) - 1
    effects = rng.normal(size=(N_COLUMNS, 8))
    logits = effects[np.arange(N_COLUMNS), codes].sum(axis=1) / 2 - 1
    X = np.eye(8)[codes].reshape(n, -1)
    return unit(np.hstack([X, np.ones((n, 1))]) / (N_COLUMNS + 1) ** 0.5), rng.logistic(
        size=n
    ) < logits


def quality(Z, y, test, truth, epsilon, delta, margin, multiple, noise):
    facts = {"smoothness": 0.25, "radius": 1.0, "lipschitz": 1.0}
    ridge = multiple / epsilon
    scale = calibrate(epsilon, delta, regularization=ridge, **facts).noise_scale
    start = np.zeros_like(noise)
    w = solve(Z, y[:, None], SoftHinge(margin), ridge, start, scale * noise)
    return roc_auc_score(truth, (test @ w)[:, 0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=2)
    arguments = parser.parse_args()
    settings = list(itertools.product(MARGINS, MULTIPLES))
    found = {n: np.zeros((len(MARGINS), len(MULTIPLES))) for n in N_ROWS}
    cells = list(itertools.product(range(arguments.runs), (clusters, indicators), EPSILONS))
    for seed, make, epsilon in cells:
        rng = np.random.RandomState(seed)
        Z, two = make(rng, seed)
        noise = rng.normal(size=(Z.shape[1], 1))
        y = np.where(two, 1.0, -1.0)
        for n in N_ROWS:
            known = Z[:n], y[:n], Z[-N_TEST:], two[-N_TEST:], epsilon, arguments.delta
            values = [quality(*known, *setting, noise) for setting in settings]
            found[n] += np.reshape(values, found[n].shape) / len(cells)
            print(make.__name__, seed, epsilon, n, np.round(max(values), 4), flush=True)
    for n, table in found.items():
        print(f"\nn={n}, below {table.max():.4f}" + "".join(f"{c:>8g}" for c in MULTIPLES))
        for margin, row in zip(MARGINS, table.max() - table, strict=True):
            print(f"{'m=' + format(margin, 'g'):<24}" + "".join(f"{v:>8.4f}" for v in row))


if __name__ == "__main__":
    main()
