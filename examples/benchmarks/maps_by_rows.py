"""Which public map a classifier should have, by the number of rows and epsilon.

    python examples/benchmarks/maps_by_rows.py --data DIR [--tables covertype] [--seeds 2]
        [--rows 2500 10000 40000] [--epsilons 0.3 1 3] [--maps NAME ...] [--steps 400]

A study for a rule that follows a noisy count: the AUC on rows held out, and CPU seconds of a fit,
of `TDILClassifier(schema, epsilon)` with each map in place of its own:

    numbers     neither hats nor products
    hats        six hats for each number, no products
    default     six hats, and products
    more hats   twelve hats
    waves       products of the orders (2, 2), (1, 3) and (3, 1) as well
    fourier     500 random Fourier features of the numbers and words beside the default ones, with
                half of the squares; and again with all steps that --steps allows ("fourier, long")
    long        the default map, with as many steps

What Fourier features beside the others gained on Covertype over the default, by rows times epsilon
(two seeds, one for 40,000 rows): -0.005 to +0.004 at 750, 2,500, 3,000 and 7,500, -0.001 at 10,000,
+0.002 at 30,000, +0.006 at 40,000 and +0.010 at 120,000. At the last two the AUC was 0.863 and
0.877, for 1.6 times the CPU time; more steps changed the last by 0.0001. Twelve hats gained 0.003
there.

Rows and seeds are the same for all maps. Tables of DIR are those of learner_defaults.py.
"""

import argparse
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from learner_defaults import folds, load
from sklearn.metrics import roc_auc_score

from skdpsumm import TDILClassifier, simulation
from skdpsumm.features._feature_maps import auto_gamma
from skdpsumm.learners import GradientDescent, _space
from skdpsumm.schema import _vectorizer
from skdpsumm.schema._schema import public_points

N_FOURIER, FOURIER_PART = 500, 0.5
MAPS = ("numbers", "hats", "default", "more hats", "waves", "fourier", "long", "fourier, long")


class WithFourier(_vectorizer.Interactions):
    """Our products, and cosines and sines of random directions; for this study alone.

    A matrix product is no function of a row alone, bit for bit, so nothing is released with it.
    """

    def __init__(self, schema, n_knots):
        super().__init__(schema, n_knots)
        points = _vectorizer.vectorize(schema, public_points(schema), n_knots=n_knots)
        rng = np.random.default_rng(0)
        spread = np.sqrt(2 * auto_gamma(points))
        self._directions = rng.normal(0, spread, (points.shape[1], N_FOURIER // 2))

    def transform(self, vectors):
        """Return vectors, products and waves."""
        angles = vectors @ self._directions
        waves = np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(2 / N_FOURIER)
        ours = super().transform(vectors)
        return np.hstack([ours * (1 - FOURIER_PART) ** 0.5, waves * FOURIER_PART**0.5])


def patches(name):
    """Return what stands in place of which attribute of the package while a map is tried."""
    if name == "more hats":
        return [(_space, "_HATS_PER_NUMBER", 12)]
    if name == "waves":
        orders = (*_vectorizer._WAVE_ORDERS, (2, 2), (1, 3), (3, 1))
        most = 2 * _vectorizer._MOST_INTERACTIONS
        return [
            (_vectorizer, "_WAVE_ORDERS", orders),
            (_vectorizer, "_MOST_INTERACTIONS", most),
            (_vectorizer, "_waves", more_waves),
        ]
    if name.startswith("fourier"):
        return [(_space, "Interactions", WithFourier)]
    if name == "hats":
        return [(TDILClassifier, "_has_interactions", False)]
    return []


def more_waves(numbers):
    """Return (cos, sin)(k pi u / 2) for k = 1, 2, 3."""
    angles = numbers[..., None] * np.pi / 2
    return [np.concatenate([np.cos(k * angles), np.sin(k * angles)], axis=-1) for k in (1, 2, 3)]


def measure(problem, table, rows, epsilon, seed, name, steps):
    """Return the AUC on rows held out, and the CPU seconds of the fit."""
    train, test = folds(len(problem.y), table, rows, seed)
    more = {"kernel": "linear"} if name == "numbers" else {}
    if name.endswith("long"):
        more["mechanism"] = GradientDescent(n_steps=steps)
    model = TDILClassifier(problem.schema, epsilon=epsilon, **more)
    for patch in (mock.patch.object(*one) for one in patches(name)):
        patch.start()
    try:
        start = time.process_time()
        with simulation(seed):
            model.fit(problem.X.iloc[train], problem.y[train])
        took = time.process_time() - start
        return roc_auc_score(problem.y[test], model.decision_function(problem.X.iloc[test])), took
    finally:
        mock.patch.stopall()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=["covertype"])
    parser.add_argument("--rows", nargs="+", type=int, default=[2_500, 10_000, 40_000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=MAPS)
    parser.add_argument("--steps", type=int, default=400)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for table in asked.tables:
        problem = load(table, asked.data)
        for rows in asked.rows:
            for epsilon in asked.epsilons:
                print(f"{table}, {rows} rows, epsilon {epsilon:g}")
                for name in asked.maps:
                    fits = [(rows, epsilon, seed, name, asked.steps) for seed in range(asked.seeds)]
                    found = np.array([measure(problem, table, *fit) for fit in fits])
                    auc, took = found.mean(axis=0)
                    print(f"    {name:14} {auc:.4f} {took:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
