"""Figure 2 of the kernel paper: Algorithm 2 as printed, corrected, and the library's default.

    python examples/papers/kernels_figure2.py --data covtype.npz --out figure.png
    python examples/papers/kernels_figure2.py --quick --out figure.png

Panels, of which ``--panels`` takes some:

    cubic       Covertype, class 2 or not, the paper's kernel (<x, y> + 1)^3 by a count sketch
    gaussian    the same with exp(-|x - y|^2), by Fourier features
    regression  a stand-in for KDD Cup 2010: 100,000 indicators, ten of them set in a row
    url         a stand-in for URL Reputation: 3.2 million indicators, 100 of them set in a row

Curves at delta = 1e-6, each from the same rows, with the same public points where it needs any:

    as printed          `_printed.algorithm_2`; epsilon on the axis is what the paper claims, and
                        the JSON has the median of what is true
    corrected           the same with the least Laplace noise for which epsilon holds, and shrunk
                        by an unbiased estimate of the error in place of the paper's ball
    skdpsumm's default  all that a learner leaves alone if it is given epsilon, delta and the kernel
    objective perturbation    (regression) the paper's rival, pure DP as in Chaudhuri et al. (2011)

The first two have the paper's Lambda, 1000, on Covertype; on the stand-ins, the best of three by
the test rows, an oracle in their favour, and so has the rival. The default gets no such help. The
printed and the corrected protect a row that is replaced, as in the paper, and the others a row that
comes or goes, as by default.

``covtype.npz`` is that of `kernels_covertype.py`. Rows of the stand-ins stay sparse: the learners
see row numbers, and a kernel that looks the rows up. One minimisation serves all epsilons of the
first two curves, which differ in the noise alone.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from _figure import CORRECTED, DEFAULT, PRINTED, figure, legend, panel, parser, save
from _printed import algorithm_2
from joblib import Parallel, delayed
from kernels_covertype import covertype
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from skdpsumm import TDDLClassifier, TDDLRegressor
from skdpsumm.learners import LaplaceAnswers, PolynomialKernel

DELTA = 1e-6
RIVAL = "objective perturbation"
LAMBDAS = 30.0, 300.0, 3000.0  # of the stand-ins
LINEAR = {"kernel": PolynomialKernel(degree=1, coef0=0.0), "gamma": 1.0}  # not by its weights
FULL = {
    "epsilons": (0.1, 0.3, 1.0, 3.0),
    "covertype": (40_000, 300, 9700, 200),  # rows to train, public, to test; features
    "few": (3000, 300, 1500),
    "regression": (100_000, 10),  # columns, fields
    "url": (3_200_000, 100),
}
QUICK = {
    "epsilons": (1.0,),
    "covertype": (600, 50, 300, 40),
    "few": (300, 50, 300),
    "regression": (2000, 10),
    "url": (20_000, 20),
}
TITLES = {
    "cubic": "Covertype, cubic kernel",
    "gaussian": "Covertype, Gaussian kernel",
    "regression": "Regression, many columns",
    "url": "Classification, 3.2 million columns",
}


# ---- learners


class OneMinimum:
    """A learner whose minimiser gets other noise again and again, as `fit` would draw it."""

    def __init__(self, model, X, y, Z):
        self.model = model
        model._release = self._keep
        model.fit(X, y, X_public=Z)
        self._exact = self._problem.minimize()

    def _keep(self, plan, problem):
        self._plan, self._problem = plan, problem

    def released(self, mechanism, epsilon):
        """Return the model with noise for `epsilon`, and the true epsilon of that noise."""
        terms = replace(self._problem.terms, epsilon=epsilon)
        plan = mechanism.plan(self._problem.space, terms, self._plan.points)
        self.model.predictor_ = plan.release(SimpleNamespace(minimize=lambda: self._exact))
        return self.model, plan.mechanism.epsilon(DELTA)


def compare(kind, own, lambdas, error, train, public, epsilons):
    """Return errors and the true epsilons, lists over epsilons, by curve.

    Parameters
    ----------
    kind : TDDLClassifier or TDDLRegressor
    own : dict
        Parameters of the problem: its kernel or feature map, and its bounds.
    lambdas : sequence of float
        The least error counts.
    error : callable
        Of a model.
    train : pair of X, y
    public : ndarray
    epsilons : sequence of float
    """
    X, y = train
    printed = algorithm_2(kind, len(y), delta=DELTA) | own
    minima = [OneMinimum(kind(**printed | {"regularization": v}), X, y, public) for v in lambdas]
    found, true = {}, {}
    for name, mechanism in {PRINTED: printed["mechanism"], CORRECTED: LaplaceAnswers()}.items():
        for epsilon in epsilons:
            tried = [minimum.released(mechanism, epsilon) for minimum in minima]
            least, stated = min((error(model), stated) for model, stated in tried)
            found.setdefault(name, []).append(least)
            true.setdefault(name, []).append(stated)
    for epsilon in epsilons:
        model = kind(epsilon=epsilon, delta=DELTA, **own).fit(X, y, X_public=public)
        found.setdefault(DEFAULT, []).append(error(model))
        true.setdefault(DEFAULT, []).append(model.privacy_.epsilon(DELTA))
    return found, true


def rival(rows, y, epsilon, ridge, rng, threshold=0.25):
    """Return weights that minimise ``sum huber + ridge / 2 |w|^2 + <b, w>``; rows have norm 1.

    b has density exp(-|b| / s), as in Chaudhuri et al. (2011): its norm is s times the number of
    columns. The slope is at most the threshold, the curvature at most 1.
    """
    d = rows.shape[1]
    b = rng.normal(size=d)
    scale = threshold / (epsilon - np.log1p(1 / ridge))
    b *= rng.gamma(d, scale) / np.linalg.norm(b)
    target = y + rows @ b / ridge

    def objective(v):
        # With w = v - b / ridge the linear term is gone: it shifts what the rows are to explain.
        residual = rows @ v - target
        slope = np.clip(residual, -threshold, threshold)
        value = (slope * (residual - slope / 2)).sum() + ridge / 2 * (v @ v)
        return value / len(y), (rows.T @ slope + ridge * v) / len(y)

    return minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B").x - b / ridge


# ---- panels: from a seed to errors by curve, references, and true epsilons


def covertype_panel(name, table, sizes, seed):
    """Accuracy on Covertype."""
    X, y = table
    n, n_public, n_test, n_features = sizes["covertype"]
    order = np.random.default_rng(seed).permutation(len(X))
    train, public, test, _ = np.split(order, np.cumsum([n, n_public, n_test]))
    options = {"gamma": 1.0, "n_components": n_features, "random_state": seed}
    if name == "cubic":
        feature_map = PolynomialCountSketch(degree=3, coef0=1, **options)
        bound = 8**0.5  # (1 + 1)^3
    else:
        feature_map, bound = RBFSampler(**options), 1.0
    # The map is public, and drawn by the number of columns alone.
    Z, Z_test, Z_public = (
        feature_map.fit(X[:1]).transform(X[part]) for part in (train, test, public)
    )

    def error(model):
        return 1 - model.score(Z_test, y[test])

    own = {"kernel": "linear", "norm_bound": bound}
    data = Z, y[train]
    found, true = compare(TDDLClassifier, own, [1000.0], error, data, Z_public, sizes["epsilons"])
    svm = LinearSVC(loss="hinge", C=0.001, fit_intercept=False)
    best = LinearSVC(fit_intercept=False, dual=False)
    references = {
        f"not private, {told}": model.fit(Z, y[train]).score(Z_test, y[test])
        for told, model in {"C = 0.001": svm, "C = 1": best}.items()
    }
    return {name: 1 - np.array(v) for name, v in found.items()}, references, true


def sparse_table(n_rows, n_columns, n_fields, rng):
    """Return rows of norm 1 with one indicator of each field set, and sums of their effects."""
    levels = n_columns // n_fields
    popularity = np.arange(1, levels + 1) ** -1.5
    chosen = rng.choice(levels, (n_rows, n_fields), p=popularity / popularity.sum())
    columns = chosen + levels * np.arange(n_fields)
    starts = np.arange(0, columns.size + 1, n_fields)
    values = np.full(columns.size, n_fields**-0.5)
    rows = csr_matrix((values, columns.ravel(), starts), shape=(n_rows, levels * n_fields))
    return rows, rows @ rng.normal(0, 0.5, rows.shape[1]) + rng.normal(0, 0.1, n_rows)


def coordinates(rows):
    """Return rows in as few columns as there are rows, with the same inner products."""
    values, vectors = np.linalg.eigh((rows @ rows.T).toarray())
    return vectors * np.sqrt(np.maximum(values, 0.0))


def regression_panel(name, table, sizes, seed):
    """Root mean squared error."""
    rng = np.random.default_rng(seed)
    rows, y = sparse_table(sum(sizes["few"]), *sizes["regression"], rng)
    y = np.clip(y, -1, 1)
    train, public, test = np.split(np.arange(len(y)), np.cumsum(sizes["few"])[:-1])
    inside, outside, narrow = rows[train], rows[test], coordinates(rows)

    def rmse(predictions):
        return np.sqrt(np.mean((np.clip(predictions, -1, 1) - y[test]) ** 2))

    def error(model):
        return rmse(model.predict(narrow[test]))

    own = LINEAR | {"y_bounds": (-1, 1)}
    data, public = (narrow[train], y[train]), narrow[public]
    found, true = compare(TDDLRegressor, own, LAMBDAS, error, data, public, sizes["epsilons"])
    for epsilon in sizes["epsilons"]:
        ridges = 2 / epsilon * 30.0 ** np.arange(3)
        errors = [rmse(outside @ rival(inside, data[1], epsilon, r, rng)) for r in ridges]
        found.setdefault(RIVAL, []).append(min(errors))
    ridges = [Ridge(alpha=a, fit_intercept=False, solver="sparse_cg") for a in (0.1, 0.3, 1, 3)]
    references = {
        "not private, least squares": min(
            rmse(ridge.fit(inside, data[1]).predict(outside)) for ridge in ridges
        ),
        "zero": rmse(np.zeros(len(test))),
    }
    return found, references, true


def url_panel(name, table, sizes, seed):
    """Accuracy on rows as wide as URL Reputation's."""
    rng = np.random.default_rng(seed)
    rows, score = sparse_table(sum(sizes["few"]), *sizes["url"], rng)
    y = score > 0
    train, public, test = np.split(np.arange(len(y)), np.cumsum(sizes["few"])[:-1])
    narrow = coordinates(rows)

    def error(model):
        return 1 - model.score(narrow[test], y[test])

    data, public = (narrow[train], y[train]), narrow[public]
    found, true = compare(TDDLClassifier, LINEAR, LAMBDAS, error, data, public, sizes["epsilons"])
    svm = LinearSVC(fit_intercept=False).fit(rows[train], data[1])
    accuracy = svm.score(rows[test], y[test])
    share = max(np.mean(y[test]), 1 - np.mean(y[test]))
    references = {"not private, C = 1": accuracy, "the larger class": share}
    return {name: 1 - np.array(v) for name, v in found.items()}, references, true


PANELS = {
    "cubic": covertype_panel,
    "gaussian": covertype_panel,
    "regression": regression_panel,
    "url": url_panel,
}


def draw(ax, name, runs, epsilons):
    """Draw a panel, and return its numbers; `runs` has what its function gives, by seed."""
    found, references, true = zip(*runs, strict=True)
    curves = {c: np.transpose([one[c] for one in found]) for c in found[0]}
    grey = {r: np.median([one[r] for one in references]) for r in references[0]}
    if name == "cubic":
        grey["not private, in the paper"] = 0.723
    ylabel = "RMSE" if name == "regression" else "accuracy"
    labels = {"title": TITLES[name], "xlabel": r"$\varepsilon$", "ylabel": ylabel}
    numbers = panel(ax, epsilons, curves, grey, xscale="log", **labels)
    stated = {c: np.median([one[c] for one in true], axis=0) for c in true[0]}
    return numbers | {"true epsilon at delta = 1e-6": stated}


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--panels", nargs="+", choices=PANELS, default=list(PANELS))
    args = arguments.parse_args()
    sizes, table = (QUICK if args.quick else FULL), None
    if args.quick:
        X, y = make_classification(1500, 54, n_informative=8, random_state=0)
        table = X / np.linalg.norm(X, axis=1, keepdims=True), y
    elif {"cubic", "gaussian"} & {*args.panels}:
        table = covertype(args.data)
    fig, axes = figure((len(args.panels) + 1) // 2, min(len(args.panels), 2))
    numbers = {"sizes": sizes, "delta": DELTA}
    for ax, name in zip(axes.flat, args.panels, strict=False):
        seeds = range(1 if args.quick else args.seeds)
        runs = Parallel(args.jobs)(delayed(PANELS[name])(name, table, sizes, s) for s in seeds)
        numbers[name] = draw(ax, name, runs, sizes["epsilons"])
        print(
            name, {c: found["median"] for c, found in numbers[name]["curves"].items()}, flush=True
        )
    legend(fig)
    save(fig, args, numbers)


if __name__ == "__main__":
    main()
