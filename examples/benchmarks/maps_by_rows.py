"""What bounds a learner with many rows, and with few: its noise, its features, or its loss.

    python examples/benchmarks/maps_by_rows.py --data DIR [--tables covertype adult acs cancer]
        [--rows 300 10000 40000] [--epsilons 1 3 10] [--seeds 2] [--maps NAME ...]

A study for a rule that follows a noisy count. Each map stands in place of that of
``TDILClassifier(schema, epsilon)``; printed is the AUC on rows held out:

    numbers            neither hats nor products
    hats               six hats for each number, no products
    default            six hats, and products
    words              1,200 products with categories, which have half of the categories' squares
    waves of numbers   500 cosines and sines of random sums of all numbers beside the default map,
                       with half of the squares of numbers
    waves              the same of numbers and indicators, with half of all squares; an indicator
                       and a number turn alike, and the kernel of two public points at the mean
                       distance is exp(-10)
    2,000 waves        four times as many
    trees              HistGradientBoostingClassifier, without noise, on the most rows

All fits of a map go down at once, as columns of one product of matrices: steps, rates, clip and
size of the noise are those of `GradientDescent`, and its arithmetic is not. So nothing is released
with it. It has the AUC of the learner to 0.001. Rows, seeds and noise are the same for all maps.
Tables of DIR are those of learner_defaults.py. `results/maps_by_rows.txt` has what it printed.
"""

import argparse
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from learner_defaults import load
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from skdpsumm import PublicVectorizer
from skdpsumm.features._feature_maps import auto_gamma
from skdpsumm.learners.erm._losses import as_loss
from skdpsumm.learners.mechanisms import _gradient
from skdpsumm.privacy import gdp_mu
from skdpsumm.schema import _vectorizer
from skdpsumm.schema._columns import Numeric
from skdpsumm.schema._schema import public_points

DELTA, HELD_OUT, RIDGE, WAVE_GAMMA = 1e-6, 0.2, 1e-3, 10.0
MAPS = ("numbers", "hats", "default", "words", "waves of numbers", "waves", "2,000 waves", "trees")
LOSS = as_loss("logistic", "classifier")


OURS = {name: getattr(_vectorizer, name) for name in ("_MOST_WITH_WORDS", "_WORD_PART")}


def own(problem, n_knots=6, interactions=True, **constants):
    """Return vectors of our map, under other constants."""
    with mock.patch.multiple(_vectorizer, **(OURS | constants)):
        made = PublicVectorizer(problem.schema, n_knots, interactions).fit_transform(problem.X)
    return made.astype(np.float32)


def circle(vectors, spread, n_waves):
    """Return cosines and sines of random sums, a vector of length one for each row."""
    directions = np.random.default_rng(0).normal(0, spread, (vectors.shape[1], n_waves // 2))
    angles = (vectors @ directions).astype(np.float32)
    return np.hstack([np.cos(angles), np.sin(angles)]) * np.float32((2 / n_waves) ** 0.5)


def waves(problem, n_waves):
    """Return waves of all columns, a vector of length one for each row."""
    points = _vectorizer.vectorize(problem.schema, public_points(problem.schema))
    spread = np.sqrt(2 * WAVE_GAMMA * auto_gamma(points))
    return circle(own(problem, 0, False), spread, n_waves)


def waves_of_numbers(problem):
    """Return the default map and waves of numbers, with half of the squares of numbers."""
    ours, plain = own(problem), own(problem, 0, False)
    columns = problem.schema.columns
    ends = np.cumsum([column.n_encoded for column in columns])
    is_number = [isinstance(column, Numeric) for column in columns]
    starts = ends - [column.n_encoded for column in columns]
    numbers = plain[:, starts[is_number]] * len(columns) ** 0.5
    vectorizer = PublicVectorizer(problem.schema, n_knots=6, interactions=True)
    names = vectorizer.fit(problem.X).get_feature_names_out()
    of_words = np.array([is_of_word(name, problem.schema) for name in names])
    ours[:, ~of_words] *= np.float32(0.5**0.5)
    made = circle(numbers, np.sqrt(3 * WAVE_GAMMA / numbers.shape[1]), 500)
    return np.hstack([ours, made * np.float32((0.5 * np.mean(is_number)) ** 0.5)])


def is_of_word(name, schema):
    """Return whether a feature has an indicator in it."""
    pairs = zip(schema.names, schema.columns, strict=True)
    return any(f"{c}_" in name for c, known in pairs if not isinstance(known, Numeric))


def features(name, problem):
    """Return the features of a map."""
    if name.endswith("waves"):
        made = waves(problem, 2000 if name.startswith("2") else 500)
        return np.hstack([own(problem), made]) * np.float32(0.5**0.5)
    if name == "waves of numbers":
        return waves_of_numbers(problem)
    if name == "words":
        return own(problem, _MOST_WITH_WORDS=1200, _WORD_PART=0.5)
    return own(problem, 0 if name == "numbers" else 6, name == "default")


def descent(n_rows, epsilon, width, n_columns):
    """Return a descent, its clip, and the noise of a step, as `GradientDescent` has them."""
    mu = gdp_mu(epsilon, DELTA)
    most = min(max(_gradient._PRODUCTS // n_columns, _gradient._MIN_STEPS), _gradient._MAX_STEPS)
    n_steps = int(min(max(_gradient._STEPS_PER_ROOT * mu**0.5, _gradient._MIN_STEPS), most))
    part = min(max(_gradient._CLIP * mu**_gradient._CLIP_POWER, LOSS.clip_part), 1.0)
    clip = part * LOSS.lipschitz
    noise = clip * (n_steps / (1 - _gradient._SHARE_OF_ROW_COUNT)) ** 0.5 / mu
    wanted = _gradient._NOISE * LOSS.noise_part * (mu / 0.1) ** _gradient._NOISE_POWER / noise
    largest = _gradient._LARGEST_RATE / (LOSS.smoothness * n_rows + RIDGE)
    return _gradient.Descent((width, 1), n_steps, RIDGE, wanted, largest), clip, noise


def fitted(phi, y, cells, n_columns):
    """Return the weights of a fit for each (rows, epsilon, seed), side by side."""
    runs = [descent(n, epsilon, phi.shape[1], n_columns) for n, epsilon, _ in cells]
    rngs = [np.random.default_rng([seed, 7]) for *_, seed in cells]
    chosen = np.zeros((len(y), len(cells)), np.float32)
    for k, (n, _, seed) in enumerate(cells):
        chosen[np.random.default_rng(seed).permutation(len(y))[:n], k] = 1
    signs, clips = (2 * y - 1).astype(np.float32)[:, None], np.array([clip for _, clip, _ in runs])
    for step in range(max(len(run._shares) for run, *_ in runs)):
        live = [k for k, (run, *_) in enumerate(runs) if step < len(run._shares)]
        weights = np.hstack([runs[k][0].weights for k in live]).astype(np.float32)
        total = np.zeros(weights.shape)
        for here in (slice(k, k + 8192) for k in range(0, len(y), 8192)):
            margins = signs[here] * (phi[here] @ weights)
            slopes = 1 / (1 + np.exp(np.minimum(margins, 60)))
            slopes = np.minimum(slopes, clips[live]) * chosen[here][:, live]
            total -= phi[here].T @ (signs[here] * slopes).astype(np.float32)
        for at, k in enumerate(live):
            noise = rngs[k].normal(0, runs[k][2], (len(total), 1))
            runs[k][0].step(total[:, [at]] + noise)
    return np.hstack([run.average for run, *_ in runs])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=["covertype", "adult", "acs", "cancer"])
    parser.add_argument("--rows", nargs="+", type=int, default=[300, 10_000, 40_000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=MAPS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for table in asked.tables:
        problem = load(table, asked.data)
        order = np.random.default_rng(0).permutation(len(problem.y))[: round(max(asked.rows) / 0.8)]
        y = (problem.y == np.unique(problem.y)[1])[order].astype(float)
        problem.X = problem.X.iloc[order]
        held_out = min(round(HELD_OUT * len(y)), 6000)
        all_rows = [min(n, len(y) - held_out) for n in asked.rows]
        cells = [(n, e, s) for n in all_rows for e in asked.epsilons for s in range(asked.seeds)]
        n_columns = own(problem, 6, False).shape[1]
        for name in asked.maps:
            if name == "trees":
                model = HistGradientBoostingClassifier(random_state=0)
                plain = own(problem, 0, False)
                scores = model.fit(plain[held_out:], y[held_out:]).predict_proba(plain[:held_out])
                print(f"{table}, trees: {roc_auc_score(y[:held_out], scores[:, 1]):.4f}")
                continue
            phi = features(name, problem)
            weights = fitted(phi[held_out:], y[held_out:], cells, n_columns)
            scores = phi[:held_out] @ weights
            found = [roc_auc_score(y[:held_out], scores[:, k]) for k in range(len(cells))]
            means = np.reshape(found, (len(all_rows), -1, asked.seeds)).mean(axis=2)
            print(f"{table}, {name}: {phi.shape[1]} features; epsilons {asked.epsilons}")
            for n, line in zip(all_rows, means, strict=True):
                print(f"    {n:6} rows " + " ".join(f"{auc:.4f}" for auc in line), flush=True)


if __name__ == "__main__":
    main()
