"""Private learners that a user would pick today, for learner_rivals.py and learner_defaults.py.

A method takes ``(X_train, y_train, X_test, epsilon, delta, seed)`` and returns scores of X_test.
Rows have Euclidean norm 1, with a constant feature for the intercept; y is boolean; delta = 0 asks
for pure DP. Where a method does not offer the guarantee it returns None. An array with several
columns holds one parameter per column, of which the caller takes the best by its test score: an
oracle, in favour of the rival. Neighbours differ by one row added or removed (but see
`diffprivlib`). All but DP-EBM are linear in the rows.
"""

import functools
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.kernel_approximation import RBFSampler

from skdpsumm import PublicVectorizer
from skdpsumm.privacy import gdp_mu

# The logistic loss on rows of norm 1: norm of its gradient, eigenvalue of its Hessian.
LIPSCHITZ, SMOOTHNESS = 1.0, 0.25


class OnColumns(NamedTuple):
    """A method that gets frames of the columns as they are, and what is `public` of them."""

    run: Callable


def unit_rows(X):
    """Scale every row by itself to norm 1."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def logistic_regression(X, y, ridge, tilt=0.0):
    """Minimise sum of log(1 + exp(-margin)) + ridge |w|^2 / 2 + <tilt, w>, to high precision."""
    signs = np.where(y, 1.0, -1.0)

    def objective(w):
        margin = signs * (X @ w)
        value = np.logaddexp(0, -margin).sum() + ridge / 2 * (w @ w) + np.sum(tilt * w)
        return value / len(X), (ridge * w + tilt - (signs * expit(-margin)) @ X) / len(X)

    options = {"maxiter": 5000, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-6}
    start = np.zeros(X.shape[1])
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


def spherical_laplace(rng, d, scale):
    """Draw from the density proportional to exp(-|b| / scale)."""
    direction = rng.normal(size=d)
    return rng.gamma(d, scale) * direction / np.linalg.norm(direction)


def non_private(X_train, y_train, X_test, epsilon, delta, seed, ridge=0.1):
    return X_test @ logistic_regression(X_train, y_train, ridge)


def output_perturbation(
    X_train, y_train, X_test, epsilon, delta, seed, ridges=(3.0, 10.0, 30.0, 100.0)
):
    """Return the exact minimiser plus noise; adding a row moves it by at most L / ridge.

    Gaussian noise is calibrated by the analytic Gaussian mechanism. An oracle of four ridges,
    `ridges` / epsilon.
    """
    d = X_train.shape[1]
    columns = []
    for ridge in np.divide(ridges, epsilon):
        rng, sensitivity = np.random.default_rng(seed), LIPSCHITZ / ridge
        if delta:
            noise = rng.normal(size=d) * sensitivity / gdp_mu(epsilon, delta)
        else:
            noise = spherical_laplace(rng, d, sensitivity / epsilon)
        columns.append(X_test @ (logistic_regression(X_train, y_train, ridge) + noise))
    return np.transpose(columns)


def objective_perturbation(X_train, y_train, X_test, epsilon, delta, seed, multiples=(1.0,)):
    """Kifer, Smith & Thakurta (2012), algorithm 1, exact minimiser; ridge >= 2 beta / epsilon.

    Half of epsilon goes to the noise and half to the change of variables, in a generalised linear
    model of rank one. More than one of `multiples` of the smallest ridge make an oracle.
    """
    rng, d = np.random.default_rng(seed), X_train.shape[1]
    if delta:
        sigma = LIPSCHITZ * np.sqrt(8 * np.log(2 / delta) + 4 * epsilon) / epsilon
        tilt = rng.normal(scale=sigma, size=d)
    else:
        tilt = spherical_laplace(rng, d, 2 * LIPSCHITZ / epsilon)
    ridges = [multiple * 2 * SMOOTHNESS / epsilon for multiple in multiples]
    columns = [X_test @ logistic_regression(X_train, y_train, ridge, tilt) for ridge in ridges]
    return np.transpose(columns)


@functools.cache
def sgd_noise(rate, steps, epsilon, delta):
    """Return the noise multiplier of `steps` Poisson subsampled Gaussians, add/remove."""
    if rate == 1:
        return np.sqrt(steps) / gdp_mu(epsilon, delta)
    add_remove = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE

    def event(sigma):
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    return dp_accounting.calibrate_dp_mechanism(
        lambda: PLDAccountant(add_remove), event, epsilon, delta
    )


# For each epsilon: (share of rows in a batch, steps, clipping norm, learning rate). The first was
# tuned without either data set: best mean AUC on three synthetic tables of 50,000 rows (one-hot
# columns and numbers driven by three latent variables, logistic labels, Bayes AUC 0.87 to 0.93) out
# of 135 settings: 9 pairs of rate and steps from full batches to 1 in 50, clip 0.1, 0.3 or 1,
# learning rate 2 to 32. The other two were the best on Adult and on Covertype themselves, splits
# 100 to 102, and are for the oracle only.
SGD_PARAMETERS = {
    0.1: [(1, 50, 0.3, 8), (1, 150, 0.3, 2), (0.02, 300, 0.3, 4)],
    0.3: [(0.1, 600, 0.3, 2), (1, 150, 0.3, 8), (0.02, 300, 0.3, 16)],
    1.0: [(0.1, 600, 0.3, 8), (0.02, 1500, 0.3, 8), (0.1, 200, 1.0, 32)],
    3.0: [(0.1, 600, 0.3, 16), (0.1, 600, 0.3, 32), (0.1, 600, 1.0, 32)],
}


def nearest(parameters, epsilon):
    """Return what was tuned at the epsilon nearest to this one."""
    return parameters[min(parameters, key=lambda known: abs(np.log(known / epsilon)))]


def dp_sgd(X_train, y_train, X_test, epsilon, delta, seed, oracle=False):
    """Return scores by DP-SGD: Poisson batches or all rows, heavy ball 0.9, mean of the last half.

    The accountant is dp_accounting's of privacy loss distributions; all rows at once compose to
    one Gaussian mechanism. A step divides by the expected batch size, so n counts as public.
    """
    if delta == 0:
        return None
    X, y = X_train.astype(np.float32), y_train.astype(np.float32)
    columns = []
    settings = nearest(SGD_PARAMETERS, epsilon)
    for rate, steps, clip, learning_rate in settings if oracle else settings[:1]:
        rng, (n, d) = np.random.default_rng(seed), X.shape
        sigma = sgd_noise(rate, steps, epsilon, delta)
        w, velocity, average = np.zeros((3, d), dtype=np.float32)
        for step in range(steps):
            chosen = slice(None) if rate == 1 else np.flatnonzero(rng.random(n) < rate)
            batch = X[chosen]
            # A row's gradient is its residual times the row, whose norm is 1; in units of clip.
            clipped = np.clip((expit(batch @ w) - y[chosen]) / clip, -1, 1) @ batch
            noisy = clipped + sigma * rng.normal(size=d).astype(np.float32)
            velocity = 0.9 * velocity + noisy / (rate * n)
            w = w - learning_rate * velocity
            if step >= steps // 2:
                average += w / (steps - steps // 2)
        columns.append(X_test @ average)
    return np.transpose(columns)


def elsewhere(python, worker, **arrays):
    """Run the worker with another interpreter on the arrays, and return its scores."""
    with tempfile.TemporaryDirectory() as folder:
        given, scores = Path(folder, "given.npz"), Path(folder, "scores.npy")
        np.savez(given, **arrays)
        subprocess.run([python, "-W", "ignore", "-c", worker, given, scores], check=True)
        return np.load(scores)


WORKER = """
import json, sys
import numpy as np
from diffprivlib import models
given = np.load(sys.argv[1])
known = json.loads(str(given["known"]))
known = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
model = getattr(models, str(given["model"]))
model = model(epsilon=float(given["epsilon"]), random_state=int(given["seed"]), **known)
model.fit(given["X_train"], given["y_train"])
is_binary = len(getattr(model, "classes_", ())) == 2
np.save(sys.argv[2], (model.decision_function if is_binary else model.predict)(given["X_test"]))
"""


def diffprivlib(X_train, y_train, X_test, epsilon, delta, seed, python, factor=1.0):
    """Run diffprivlib's LogisticRegression, C=1, with the interpreter `python`; pure DP only.

    Its neighbours have one row REPLACED: noise of scale 2 R / epsilon' (mechanisms/vector.py:157
    of 0.6.6, after Chaudhuri et al. 2011) is for two gradients of norm R that point apart, and
    epsilon' = epsilon - 2 log(1 + c / alpha) (line 149) for two changes of the Hessian. Adding or
    removing a row is half of both, so that with `factor` 2, that is 2 epsilon, its claim is the
    one of epsilon-DP when a row is added or removed. With fit_intercept=True it would bound the
    Hessian by sqrt(2) / 4 where the norm sqrt(2) of the longer rows gives 2 / 4
    (models/logistic_regression.py:359 and 399), so the constant feature is ours.
    """
    if delta:
        return None
    known = {"data_norm": 1.0, "C": 1.0, "max_iter": 1000, "fit_intercept": False}
    return _diffprivlib(X_train, y_train, X_test, factor * epsilon, seed, python, known)


def default_diffprivlib(X_train, y_train, X_test, epsilon, seed, python, bound, y_bounds=None):
    """Run diffprivlib's LogisticRegression, or LinearRegression of numbers, as they come.

    They fit an intercept. Rows have Euclidean norm `bound` at most, or, for numbers, no entry
    beyond it. Scores for two classes, predictions for more (one model each, of a part of epsilon)
    and for numbers. Its claims are taken at their word: but see `diffprivlib`, and
    LinearRegression's noise of squares knows the lower bound alone (linear_regression.py:144).
    """
    known = {"data_norm": bound}
    if y_bounds is not None:
        known = {"bounds_X": (-bound, bound), "bounds_y": y_bounds}
    return _diffprivlib(X_train, y_train, X_test, epsilon, seed, python, known)


def _diffprivlib(X_train, y_train, X_test, epsilon, seed, python, known):
    arrays = {"X_train": X_train, "y_train": y_train, "X_test": X_test}
    model = "LinearRegression" if "bounds_y" in known else "LogisticRegression"
    texts = {"model": model, "known": json.dumps(known)}
    return elsewhere(python, WORKER, epsilon=epsilon, seed=seed, **arrays, **texts)


EBM_WORKER = """
import json, sys
import numpy as np
import pandas as pd
from interpret import privacy
given = np.load(sys.argv[1])
public = json.loads(str(given["public"]))
train, test = (pd.DataFrame({name: given[f"{part} {name}"] for name in public})
               for part in ("train", "test"))
y_bounds, columns = json.loads(str(given["y_bounds"])), []
kind = "Regressor" if y_bounds else "Classifier"
if y_bounds:
    y_bounds = {"privacy_target_min": y_bounds[0], "privacy_target_max": y_bounds[1]}
for settings in json.loads(str(given["settings"])):
    model = getattr(privacy, f"DPExplainableBoosting{kind}")(
        feature_names=list(public),
        feature_types=["continuous" if bounds else "nominal" for bounds in public.values()],
        privacy_bounds={name: bounds for name, bounds in public.items() if bounds},
        epsilon=float(given["epsilon"]), delta=float(given["delta"]), composition="gdp",
        n_jobs=1, random_state=int(given["seed"]), **(y_bounds or {}), **settings)
    model.fit(train, given["y_train"])
    columns.append((model.predict if y_bounds else model.decision_function)(test))
np.save(sys.argv[2], np.transpose(columns))
"""
# For each epsilon the best of 45 settings on the synthetic tables of rivals_tuning.py.
EBM_PARAMETERS = {
    epsilon: {"learning_rate": rate, "max_rounds": rounds, "max_leaves": 6}
    | {"max_bins": bins, "bin_budget_frac": share}
    for epsilon, rate, rounds, bins, share in (
        (0.1, 0.1, 30, 16, 0.3),
        (0.3, 0.03, 300, 16, 0.3),
        (1.0, 0.3, 100, 32, 0.1),
        (3.0, 0.1, 300, 32, 0.1),
    )
}


def dp_ebm(
    train, y_train, test, epsilon, delta, seed, python, public, settings=({},), y_bounds=None
):
    """Run interpret-core's DPExplainableBoostingClassifier on the columns as they are.

    With `y_bounds`, DPExplainableBoostingRegressor, and predictions. It has no third class.

    Numbers have their public bounds. Categories are "nominal", as a list of them would be an
    order; it reads off the private rows which there are, and how many rows, at no cost to epsilon.
    composition="gdp" is the Gaussian mechanism's exact curve for bins, and again for boosting,
    with `bin_budget_frac` of epsilon and half of delta for the former. Each of `settings` makes a
    column; without them all is its own default.
    """
    if delta == 0 or (y_bounds is None and len(np.unique(y_train)) > 2):
        return None
    bounds = {name: None if isinstance(known, list) else known for name, known in public.items()}
    parts = {"train": train, "test": test}
    arrays = {
        f"{part} {name}": frame[name].to_numpy() for part, frame in parts.items() for name in public
    }
    arrays = {key: a.astype(str) if a.dtype == object else a for key, a in arrays.items()}
    texts = {"public": bounds, "settings": settings, "y_bounds": y_bounds}
    texts = {name: json.dumps(known) for name, known in texts.items()}
    numbers = {"epsilon": epsilon, "delta": delta, "seed": seed, "y_train": y_train}
    return elsewhere(python, EBM_WORKER, **arrays, **texts, **numbers)


def tuned_ebm(train, y_train, test, epsilon, *rest, **known):
    settings = [nearest(EBM_PARAMETERS, epsilon)]
    return dp_ebm(train, y_train, test, epsilon, *rest, settings=settings, **known)


OPACUS_WORKER = """
import sys
import numpy as np
import torch
from opacus import PrivacyEngine
given = np.load(sys.argv[1])
X, y, X_test = (torch.as_tensor(given[name].astype(np.float32)) for name in
                ("X_train", "y_train", "X_test"))
rate, steps, clip, learning_rate = given["settings"]

class Rows(torch.utils.data.TensorDataset):
    def __getitems__(self, rows):  # a batch at once, not row by row
        return self[rows]

torch.manual_seed(int(given["seed"]))
model = torch.nn.Linear(X.shape[1], 1, bias=False)
torch.nn.init.zeros_(model.weight)
loader = torch.utils.data.DataLoader(Rows(X, y), batch_size=round(rate * len(X)),
                                     collate_fn=lambda batch: batch)
epochs = round(steps / len(loader))
model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
    module=model, data_loader=loader, epochs=epochs, max_grad_norm=clip,
    optimizer=torch.optim.SGD(model.parameters(), lr=learning_rate / clip, momentum=0.9),
    target_epsilon=float(given["epsilon"]), target_delta=float(given["delta"]))
average, step = torch.optim.swa_utils.AveragedModel(model), 0
for epoch in range(epochs):
    for batch, labels in loader:
        optimizer.zero_grad()
        scores = model(batch)[:, 0]
        torch.nn.functional.binary_cross_entropy_with_logits(scores, labels).backward()
        optimizer.step()
        step += 1
        if step > epochs * len(loader) // 2:
            average.update_parameters(model)
np.save(sys.argv[2], X_test.numpy() @ average.module._module.weight.detach().numpy()[0])
"""


def opacus(X_train, y_train, X_test, epsilon, delta, seed, python):
    """Run Opacus' DP-SGD of a torch.nn.Linear: heavy ball 0.9, mean of the last half.

    Settings are `dp_sgd`'s, the accountant is its default, PRV, and batches are Poisson. A search
    of its own over 16 settings on the tables of rivals_tuning.py took all rows, 100 steps, clip 0.3
    and rate 2 at every epsilon (from 1 on by 0.0003 or less). That gained 0.001 on Adult at 0.1 and
    lost 0.006 to 0.026 in the other seven cells, so it is not used.
    """
    if delta == 0:
        return None
    arrays = {"X_train": X_train, "y_train": y_train, "X_test": X_test}
    settings = np.array(nearest(SGD_PARAMETERS, epsilon)[0])
    numbers = {"epsilon": epsilon, "delta": delta, "seed": seed, "settings": settings}
    return elsewhere(python, OPACUS_WORKER, **arrays, **numbers)


def on_fourier_features(method, gamma=1.0, n_components=500):
    """Return the method on random Fourier features of the rows, scaled to norm 1."""

    def with_features(X_train, y_train, X_test, epsilon, delta, seed, **known):
        sampler = RBFSampler(gamma=gamma, n_components=n_components, random_state=seed)
        Z_train, Z_test = (unit_rows(sampler.fit(X_train).transform(X)) for X in (X_train, X_test))
        return method(Z_train, y_train, Z_test, epsilon, delta, seed, **known)

    return with_features


def on_our_features(method):
    """Return the method on the features that our default has of the columns, and a constant 1."""

    def with_features(train, y_train, test, epsilon, delta, seed, public):
        vectorizer = PublicVectorizer(public, interactions=True)
        Z_train, Z_test = (
            unit_rows(np.hstack([vectorizer.fit_transform(rows), np.ones((len(rows), 1))]))
            for rows in (train, test)
        )
        return method(Z_train, y_train, Z_test, epsilon, delta, seed)

    return OnColumns(with_features)


best_ridge = functools.partial(objective_perturbation, multiples=(1.0, 4.0, 16.0, 64.0))
best_sgd = functools.partial(dp_sgd, oracle=True)
RIVALS = {
    "output perturbation, oracle": output_perturbation,
    "objective (Kifer 2012)": objective_perturbation,
    "objective (Kifer 2012), oracle": best_ridge,
    "objective (Kifer 2012), 500 RFF": on_fourier_features(objective_perturbation),
    "DP-SGD": dp_sgd,
    "DP-SGD, oracle": best_sgd,
    "DP-SGD, 500 RFF": on_fourier_features(dp_sgd),
    "DP-SGD, oracle, 500 RFF": on_fourier_features(best_sgd),
    "DP-SGD, our features": on_our_features(dp_sgd),
}
