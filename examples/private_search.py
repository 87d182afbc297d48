"""What a search over parameters costs: every trial charged, against random stopping.

    python examples/private_search.py [--repeats 10]

scikit-learn's digits, odd or even, 1,797 rows; a quarter is a public test set that no search sees.
Candidates are the regularisation and the bandwidth of random Fourier features, 20 in all. Both
searches get the same total epsilon at delta = 1e-6:

- "every trial charged" is what a ledger makes of `GridSearchCV`: 20 fits on the training part and
  20 noisy scores on the hold-out, each at mu / sqrt(20), the best of which is released. (The
  `GridSearchCV` of scikit-learn would also look at exact scores, and is not private at any price.)
- `PrivateSearchCV` with E[K] = 30 (which draws from the 20 with replacement).
- "one trial" is a candidate drawn blindly, at the full price.

Printed are medians of the test accuracy, and the price that each would pay for the other's noise.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import ParameterGrid, train_test_split

from skdpsumm import PrivateSearchCV, TDILClassifier
from skdpsumm.model_selection._candidate import plan_runs, stopping
from skdpsumm.privacy import gdp_mu
from skdpsumm.privacy._mechanisms import gdp_epsilon

DELTA, HOLDOUT, TRIALS = 1e-6, 0.25, 30
MAPS = [RBFSampler(gamma=g, n_components=200, random_state=0) for g in (0.01, 0.1, 0.5, 1.0, 3.0)]
CHOICES = {"kernel": MAPS, "regularization": [1.0, 5.0, 20.0, 80.0]}
GRID = list(ParameterGrid(CHOICES))


def one_trial(X, y, epsilon, rng):
    """Return a model of a candidate that is drawn blindly."""
    params = GRID[rng.integers(len(GRID))]
    return TDILClassifier(**params, epsilon=epsilon, delta=DELTA).fit(X, y)


def every_trial_charged(X, y, epsilon, rng):
    """Return the best of all candidates; hold-out and training part are disjoint."""
    mu = gdp_mu(epsilon, DELTA) / np.sqrt(len(GRID))
    held_out = rng.random(len(y)) < HOLDOUT
    budget = {"epsilon": gdp_epsilon(mu, DELTA), "delta": DELTA}
    models = [TDILClassifier(**p, **budget).fit(X[~held_out], y[~held_out]) for p in GRID]
    sums = [(m.predict(X[held_out]) == y[held_out]).sum() - held_out.sum() / 2 for m in models]
    return models[int(np.argmax(sums + rng.normal(0, 0.5 / mu, len(GRID))))]


def private_search(X, y, epsilon, rng):
    """Return the result of `PrivateSearchCV`."""
    search = PrivateSearchCV(
        TDILClassifier(),
        CHOICES,
        expected_trials=TRIALS,
        epsilon=epsilon,
        delta=DELTA,
        holdout=HOLDOUT,
    )
    return search.fit(X, y)


def price_of_charging_all(epsilon):
    """Return the epsilon of `len(GRID)` trials with the noise of a private search's."""
    mu = plan_runs(stopping("logarithmic", TRIALS), epsilon, DELTA).base.mu
    return gdp_epsilon(mu * np.sqrt(len(GRID)), DELTA)


def price_of_stopping(epsilon):
    """Return the epsilon of a private search with the noise of trials that are all charged."""
    mu = gdp_mu(epsilon, DELTA) / np.sqrt(len(GRID))
    law = stopping("logarithmic", TRIALS)
    return brentq(lambda e: plan_runs(law, e, DELTA).base.mu - mu, epsilon / 50, epsilon)


def main():
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    n_repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    X, y = X / np.sqrt((X**2).sum(axis=1, keepdims=True)), y % 2
    methods = one_trial, every_trial_charged, private_search
    print(f"epsilon  one trial  all {len(GRID)} charged  PrivateSearchCV")
    for epsilon in (1.0, 3.0, 10.0):
        scores = [[] for _ in methods]
        for repeat in range(n_repeats):
            parts = train_test_split(X, y, test_size=0.25, random_state=repeat)
            rng = np.random.default_rng(repeat)
            for method, found in zip(methods, scores, strict=True):
                found.append(method(parts[0], parts[2], epsilon, rng).score(parts[1], parts[3]))
        medians = [np.median(found) for found in scores]
        print("{:7g}  {:9.3f}  {:14.3f}  {:15.3f}".format(epsilon, *medians))
    for epsilon in (1.0, 3.0):
        print(
            f"The noise of a search at epsilon={epsilon:g}, all trials charged: "
            f"{price_of_charging_all(epsilon):.2f}; the noise of trials all charged at "
            f"epsilon={epsilon:g}, by a search: {price_of_stopping(epsilon):.2f}."
        )


if __name__ == "__main__":
    main()
