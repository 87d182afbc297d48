"""The study behind "auto", the public rule for Lambda, and behind defaults of regressors' losses.

    python examples/papers/kernels_regularization.py [--covertype covtype.npz] [--mnist mnist.npz]

The files are those of kernels_covertype.py and kernels_mnist.py; the other tables are synthetic or
come with scikit-learn. Features are explicit and have norms of at most R = 1.

The functional mechanism puts noise of standard deviation ``L m / Lambda`` on each weight, where
m = 1 / mu is set by the budget alone: 36, 13, 4.2, 1.5, .54 for epsilon = .1, .3, 1, 3, 10 at
delta = 1e-6. The rule is Lambda = L m / part, for noise of `part` on a prediction. For each cell (a
table, n, m) this prints the quality at every part: accuracy, or R^2 of numbers, there for several
thresholds as well. ``--objective DELTA`` studies that mechanism instead: the share of epsilon that
a row's curvature may cost sets Lambda there. At last, for every part or share: the mean and the
worst distance from the best value of the same cell.
"""

import argparse
import functools

import numpy as np
from kernels_covertype import covertype
from kernels_figure2 import sparse_table
from kernels_mnist import mnist
from scipy.optimize import minimize
from sklearn import datasets
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.utils import shuffle

from skdpsumm.learners.erm._losses import EpsilonInsensitive, Huber, HuberizedHinge, Softmax
from skdpsumm.privacy._objective import calibrate, regularization_of_share

N_ROWS = 500, 2000, 8000, 40_000
STEPS = 2 ** (np.arange(-5, 5) / 2)
PARTS = {"two": 0.5 * STEPS, "many": 0.25 * STEPS, "number": 0.1 * STEPS}
# 1 / mu at delta = 1e-6 and epsilon = .107, .327, 1, 3.1, 10.2.
MULTIPLIERS = 4.2247 * 2 ** np.array([3, 1.5, 0, -1.5, -3])
THRESHOLDS = 0.125, 0.25, 0.5, 1.0, 2.0
WIDTHS = 0.05, 0.1, 0.2, 0.3
SHARES = 0.02, 0.05, 0.1, 0.2, 0.35, 0.5
EPSILONS = 0.1, 0.3, 1.0, 3.0, 10.0
DRAWS = 20


def unit(Z):
    """Scale the rows down to norm 1."""
    return Z / np.maximum(1, np.linalg.norm(Z, axis=1, keepdims=True))


def fourier(X, seed, gamma=1.0):
    sampler = RBFSampler(gamma=gamma, n_components=300, random_state=seed)
    return unit(sampler.fit(X).transform(X))


def tables(arguments, seed):
    """Yield (name, features, {kind: y}); numbers are scaled to [-1, 1] by public bounds."""
    rng = np.random.RandomState(seed)
    X, y = shuffle(*datasets.load_digits(return_X_y=True), random_state=rng)
    yield "digits, Fourier", fourier(unit(X / 64), seed), {"two": y >= 5, "many": y}
    made = {"n_samples": 45_000, "n_features": 10, "n_informative": 6, "flip_y": 0.1}
    for kind, n_classes in (("two", 2), ("many", 5)):
        X, y = datasets.make_classification(n_classes=n_classes, random_state=rng, **made)
        yield "synthetic, Fourier", fourier(np.clip(X / 4, -1, 1), seed), {kind: y}
    X, y = shuffle(*datasets.load_diabetes(return_X_y=True), random_state=rng)
    yield "diabetes, Fourier", fourier(4 * X, seed), {"number": y / 200 - 1}
    X, y = datasets.make_friedman1(45_000, noise=1.0, random_state=rng)
    yield "friedman1, Fourier", fourier(2 * X - 1, seed, 0.1), {"number": y / 15 - 1}
    X = rng.uniform(-1, 1, (45_000, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + rng.exponential(0.4, len(X)) - 0.4
    yield "skewed noise, Fourier", fourier(X, seed, 2.0), {"number": y}
    X, y = sparse_table(45_000, 300, 10, np.random.default_rng(seed))
    yield "fields, linear", X.toarray(), {"number": np.clip(y, -1, 1)}
    if arguments.covertype:
        X, two = covertype(arguments.covertype)
        with np.load(arguments.covertype) as file:
            many, elevation = file["y"], file["X"][:, 0].astype(float)
        X, two, many, elevation = shuffle(X, two, many, elevation, random_state=rng)
        yield "covertype, linear", X, {"two": two}
        yield "covertype, Fourier", fourier(X, seed), {"two": two, "many": many}
        others = X[:, 1:] / np.linalg.norm(X[:, 1:], axis=1, keepdims=True)
        y = (elevation - 1800) / 1050 - 1
        yield "elevation, Fourier", fourier(others, seed), {"number": y}
    if arguments.mnist:
        X, y = shuffle(*mnist(arguments.mnist), random_state=rng, n_samples=45_300)
        cubic = Nystroem(kernel="poly", gamma=1, coef0=1, degree=3, n_components=300)
        X, y = unit(cubic.fit(X[-300:]).transform(X[:-300]) / 8**0.5), y[:-300]
        yield "mnist, cubic", X, {"two": y >= 5, "many": y}


def encode(y, kind):
    """Return one-hot rows of many classes, signs of two; and numbers, clipped to their bounds."""
    if kind == "many":
        return (y[:, None] == np.unique(y)).astype(float)
    return (np.where(y, 1.0, -1.0) if kind == "two" else np.clip(y, -1, 1))[:, None]


def solve(Z, codes, loss, ridge, start, tilt=0.0):
    """Minimise to a small part of the noise; the library's solver would certify a distance."""

    def objective(flat):
        W = flat.reshape(start.shape)
        scores = Z @ W
        value = loss.value(scores, codes).sum() + ridge / 2 * (W**2).sum() + (tilt * W).sum()
        gradient = Z.T @ loss.gradient(scores, codes) + ridge * W + tilt
        return value / len(Z), gradient.ravel() / len(Z)

    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 0.01 * ridge / len(Z) / start.size**0.5}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(start.shape)


def score(scores, codes, kind):
    if kind == "number":
        return 1 - np.mean((np.clip(scores, -1, 1) - codes) ** 2) / codes.var()
    same = scores > 0 if kind == "two" else scores.argmax(axis=1)
    return np.mean(same == (codes > 0 if kind == "two" else codes.argmax(axis=1)))


def functional(Z, codes, test, loss, parts, rng, quality):
    """Yield m, and the qualities at all parts."""
    start, exact = np.zeros((Z.shape[1], codes.shape[1])), {}
    noises = [test @ rng.normal(size=start.shape) for _ in range(DRAWS)]
    ridges = loss.lipschitz * MULTIPLIERS[:, None] / parts
    keys = np.round(np.log2(ridges), 6)  # many are the same
    for key in np.unique(keys)[::-1]:
        start = solve(Z, codes, loss, 2**key, start)
        exact[key] = test @ start
    for m, row in zip(MULTIPLIERS, keys, strict=True):
        pairs = zip(row, parts, strict=True)
        yield m, [np.mean([quality(exact[k] + p * g) for g in noises]) for k, p in pairs]


def objective(Z, codes, test, loss, shares, rng, quality, delta):
    """Yield epsilon, and the qualities of objective perturbation at all shares."""
    facts = {"lipschitz": loss.lipschitz, "radius": 1.0, **loss.corners(1)}
    for epsilon in EPSILONS:
        found = []
        for share in shares:
            ridge = regularization_of_share(epsilon, share, smoothness=loss.smoothness, radius=1.0)
            scale = calibrate(epsilon, delta, regularization=ridge, **facts).noise_scale
            draws = []
            for b in rng.normal(size=(DRAWS // 5, Z.shape[1], 1)):
                b = scale * b if delta else rng.gamma(len(b), scale) * b / np.linalg.norm(b)
                draws.append(quality(test @ solve(Z, codes, loss, ridge, -b / ridge, b)))
            found.append(np.mean(draws))
        yield epsilon, found


def cells_of(study, Z, y, kind, loss, levels, seed):
    """Yield (n, m or epsilon, the qualities at all levels)."""
    sizes = [n for n in N_ROWS if n <= 0.9 * len(Z)] or [300]
    codes, test = encode(y, kind), slice(sizes[-1], sizes[-1] + 5000)
    quality = functools.partial(score, codes=codes[test], kind=kind)
    for n in sizes:
        rng = np.random.default_rng(seed)
        for budget, values in study(Z[:n], codes[:n], Z[test], loss, levels, rng, quality):
            yield n, budget, values


def summarise(title, columns, cells):
    short = np.array([values.max() - values for values in cells.values()])
    rows = cells | {"mean distance": short.mean(axis=0), "worst distance": short.max(axis=0)}
    print(f"\n{title:<46}" + "".join(f"{c:>11}" for c in columns))
    for name, values in rows.items():
        print(f"{name:<46}" + "".join(f"{v:>11.3f}" for v in values), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--covertype")
    parser.add_argument("--mnist")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--objective", type=float, metavar="DELTA", help="study that mechanism")
    arguments = parser.parse_args()
    study, levels, budget_name = functional, PARTS, "m"
    losses = {"two": [HuberizedHinge(0.5)], "many": [Softmax(0.5, 1.0)]}
    losses["number"] = [Huber(t) for t in THRESHOLDS] + [EpsilonInsensitive(w) for w in WIDTHS]
    numbers = [f"{t:g}/" for t in THRESHOLDS] + [f"tube {w:g}/" for w in WIDTHS]
    if arguments.objective is not None:
        study, budget_name = functools.partial(objective, delta=arguments.objective), "epsilon"
        losses |= {"two": [HuberizedHinge(1.0)], "many": []}
        levels = dict.fromkeys(PARTS, SHARES)
    found = {kind: {} for kind in arguments.kinds if losses[kind]}
    for seed in range(arguments.runs):
        for name, Z, targets in tables(arguments, seed):
            for kind in targets.keys() & found.keys():
                for loss in losses[kind]:
                    cells = cells_of(study, Z, targets[kind], kind, loss, levels[kind], seed)
                    for n, budget, values in cells:
                        label = f"{name}, n={n}, {budget_name}={budget:.3g}"
                        found[kind].setdefault(label, {}).setdefault(loss, []).append(values)
    for kind, cells in found.items():
        names = numbers if kind == "number" else [""]
        columns = [f"{name}{level:.3g}" for name in names for level in levels[kind]]
        means = {k: np.hstack([np.mean(v, axis=0) for v in c.values()]) for k, c in cells.items()}
        summarise(f"{kind}, {budget_name}", columns, means)


if __name__ == "__main__":
    main()
