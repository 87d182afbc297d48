"""Rows for a buyer's unlabelled test rows, without privacy: ours beside DAVED.

    python examples/benchmarks/daved.py [--druglib CSV] [--seeds 5] [--json FILE]

DAVED (Lu et al., 2024, arXiv 2403.13893) chooses sellers' rows for which a linear regression is
expected to err least on the buyer's rows. Its algorithm 1 stands below: steps of Frank and Wolfe
from equal weights, the best step size each time; the rows of largest weight are bought. "single
step" are the rows of the largest first gradient. Ours is ``PrivateMMDSummarizer(range, n_select,
epsilon=inf)``: rows that look like the buyer's, for whatever model. The score is DAVED's own: the
mean squared error on the buyer's rows of the least-norm regression on the rows that were chosen.

Its Gaussian rows have length 1, 30 columns, and noise 0.1. CSV is data/druglib.csv of the authors'
repository, clu5/data-acquisition-via-experimental-design; their 768 features of a language model
are replaced by 100 of words (TF-IDF, then a truncated SVD, made of the text alone). A buyer has
either one row, as in the paper, or 100.
"""

import argparse
import warnings
from pathlib import Path

import _results
import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skdpsumm import PrivateMMDSummarizer, simulation, uniform_selection

N_STEPS, LARGEST_STEP, LONGEST_REVIEW = 500, 0.9, 4096  # the authors' settings
N_CHOSEN = (10, 50)
# All weight on a copy of the buyer's one row is worth 1; more steps only make the inverse explode.
LOWEST_LOSS = 1.01
METHODS = ("all rows", "uniform", "DAVED single step", "DAVED", "ours")


def gaussian(rng):
    """Return X and y of 1,100 rows as the authors make them."""
    X = rng.normal(size=(1100, 30))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    weights = rng.exponential(size=30) * rng.choice([-1, 1], 30)
    return X, X @ weights + 0.1 * rng.normal(size=len(X))


def reviews(path, rng):
    """Return features of words, and ratings, of 3,600 reviews."""
    table = pd.read_csv(path)
    text = (
        table[["benefitsReview", "sideEffectsReview", "commentsReview"]]
        .fillna("")
        .agg(" ".join, axis=1)
    )
    table, text = (t[text.str.len() <= LONGEST_REVIEW] for t in (table, text))
    words = make_pipeline(
        TfidfVectorizer(min_df=5, stop_words="english"),
        TruncatedSVD(100, random_state=0),
        Normalizer(),
    )
    which = rng.permutation(len(text))[:3600]
    return words.fit_transform(text)[which], table["rating"].to_numpy(float)[which]


def gradient(X, X_buyer, inverse):
    """Return how much each seller's row would lower the expected error: E (x_i^T P x_0)^2."""
    return np.mean((X @ inverse @ X_buyer.T) ** 2, axis=1)


def daved(X, X_buyer):
    """Return the weights of the sellers' rows after DAVED's steps."""
    weights = np.full(len(X), 1 / len(X))
    inverse = np.linalg.pinv(X.T @ (weights[:, None] * X))
    for _ in range(N_STEPS):
        loss = np.mean(np.einsum("ij,jk,ik->i", X_buyer, inverse, X_buyer))
        if loss < LOWEST_LOSS:
            break
        gains = gradient(X, X_buyer, inverse)
        best = np.argmax(gains)
        own = X[best] @ inverse @ X[best]

        def after(step, loss=loss, gain=gains[best], own=own):
            return (loss - step * gain / (1 - step * (1 - own))) / (1 - step)

        step = minimize_scalar(after, bounds=(0, LARGEST_STEP), method="bounded").x
        weights *= 1 - step
        weights[best] += step
        inverse /= 1 - step
        along = inverse @ X[best]
        inverse -= step * np.outer(along, along) / (1 + step * X[best] @ along)
    return weights


def choices(X, X_buyer, n_chosen, seed):
    """Return what each method buys, in the order of METHODS, for each number of rows."""
    last = np.argsort(daved(X, X_buyer))
    first = np.argsort(gradient(X, X_buyer, np.linalg.pinv(X.T @ X)))
    for n in n_chosen:
        ours = PrivateMMDSummarizer((-1, 1), n_select=n, epsilon=np.inf, random_state=seed)
        with simulation(seed):
            chosen = ours.fit(X, X_target=X_buyer).sample_indices_
        uniform = uniform_selection(len(X), n, random_state=seed)
        yield n, (np.arange(len(X)), uniform, first[-n:], last[-n:], chosen)


def errors(X, y, n_buyers, together, seed):
    """Return {n: mean squared errors of the methods} for one table; together: one buyer has all."""
    X_buyer, y_buyer, X, y = X[-100:], y[-100:], X[:-100], y[:-100]
    groups = [slice(None)] if together else [slice(k, k + 1) for k in range(n_buyers)]
    found = {n: [] for n in N_CHOSEN}
    for group in groups:
        for n, chosen in choices(X, X_buyer[group], N_CHOSEN, seed):
            fits = [np.linalg.pinv(X[rows]) @ y[rows] for rows in chosen]
            found[n].append([np.mean((X_buyer[group] @ fit - y_buyer[group]) ** 2) for fit in fits])
    return {n: np.mean(found[n], axis=0) for n in N_CHOSEN}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--druglib", type=Path, help="data/druglib.csv of the authors' repository")
    parser.add_argument("--seeds", type=int, default=5)
    _results.add_argument(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    tables = {"Gaussian": gaussian}
    if options.druglib:
        tables["DrugLib"] = lambda rng: reviews(options.druglib, rng)
    rows = []
    for name, make in tables.items():
        for together, buyer in ((True, "100 rows"), (False, "one row")):
            made = [
                errors(*make(np.random.default_rng(seed)), 20, together, seed)
                for seed in range(options.seeds)
            ]
            for n in N_CHOSEN:
                means = np.mean([found[n] for found in made], axis=0)
                rows.append(
                    [f"{name}, a buyer of {buyer}, {n} chosen", *np.round(means, 3).tolist()]
                )
                print(*rows[-1], flush=True)
    _results.store(
        options.json,
        job="choose",
        title="Rows for a buyer, without privacy",
        about="Mean squared error on the buyer's rows of a regression on the rows that were "
        f"chosen, epsilon = inf: means of {options.seeds} seeds (a buyer of one row: of 20 each).",
        columns=["case", *METHODS],
        rows=rows,
    )


if __name__ == "__main__":
    main()
