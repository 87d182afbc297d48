"""Regression on far more columns than rows: Figure 2b of the kernel paper, on synthetic rows.

    python examples/papers/kernels_regression.py [--columns 1000 10000 100000] [--deltas 1e-6 0]

The paper's KDD Cup 2010 (algebra) is 20,000 rows of some two million indicators: who solved which
step of which problem. Here a row has one level in each of ten fields, whose popularity falls as
rank^-1.5; y is a sum of normal effects of the levels and of noise, clipped to the public bounds
[-1, 1]. Rows have norm 1. They stay sparse: the learners see row numbers, and a kernel that looks
the rows up.

Printed is the root mean squared error on 2,000 test rows, as medians of the runs:

    TDDL functional, laplace   1,000 public rows; all defaults, Lambda is "auto"
    objective perturbation     written here: the exact minimiser with a random linear term, the
                               best of five Lambdas by its error on the test rows (an oracle)
    TDIL objective             the library's, with its own Lambda; up to 1,000 columns, for it
                               works with matrices of columns by columns
    least squares              ridge regression, not private, the best of four Lambdas
    zero                       what predicting the middle of the bounds costs

Neighbours differ by one row more or less. With delta > 0 all noise is Gaussian. With delta = 0 that
of objective perturbation has density exp(-|b| / s), as in Chaudhuri et al. (2011), the paper's
rival: its norm is s times the number of columns.
"""

import argparse

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.sparse import csr_matrix
from scipy.stats import norm
from sklearn.linear_model import Ridge

from skdpsumm import TDDLRegressor, TDILRegressor

FIELDS = 10
WIDEST_EXPLICIT = 1000
N_PUBLIC, N_TEST = 1000, 2000


def draw_table(n_rows, n_columns, rng):
    """Return sparse rows of norm 1, shape (n_rows, n_columns), and y in [-1, 1]."""
    levels = n_columns // FIELDS
    popularity = np.arange(1, levels + 1) ** -1.5
    chosen = rng.choice(levels, (n_rows, FIELDS), p=popularity / popularity.sum())
    columns = chosen + levels * np.arange(FIELDS)
    starts = np.arange(0, columns.size + 1, FIELDS)
    values = np.full(columns.size, FIELDS**-0.5)
    rows = csr_matrix((values, columns.ravel(), starts), shape=(n_rows, levels * FIELDS))
    y = rows @ rng.normal(0, 0.5, rows.shape[1]) + rng.normal(0, 0.1, n_rows)
    return rows, np.clip(y, -1, 1)


def noise_scale(epsilon, delta, lipschitz, curvature_cost):
    """Return sigma of Gaussian b, or s of the density exp(-|b| / s) where delta is 0.

    A row x more tilts b by u, a multiple of x with |u| <= L, which depends on b; and it multiplies
    the determinant by at most exp(c). So the loss is at most ``|<b, u>| / sigma^2 + |u|^2 / (2
    sigma^2) + c <= z |g| + z^2 / 2 + c``, where z = L / sigma and g = <b, x> / (sigma |x|) is a
    standard normal number; that exceeds epsilon with probability delta.
    """
    room = epsilon - curvature_cost
    if delta == 0:
        return lipschitz / room
    excess = lambda z: 2 * norm.sf((room - z**2 / 2) / z) - delta  # noqa: E731
    return lipschitz / brentq(excess, 1e-9, np.sqrt(2 * room))


def objective_perturbation(rows, y, epsilon, delta, rng, ridge, threshold=0.25):
    """Return the minimiser of ``sum huber + ridge / 2 |w|^2 + <b, w>``; rows have norm 1.

    Kifer, Smith and Thakurta (2012), Chaudhuri et al. (2011); L is the threshold, and the
    curvature is at most 1.
    """
    d = rows.shape[1]
    scale = noise_scale(epsilon, delta, threshold, np.log1p(1 / ridge))
    b = rng.normal(size=d)
    b *= scale if delta else rng.gamma(d, scale) / np.linalg.norm(b)
    n = len(y)

    def objective(v):
        # With w = v - b / ridge the linear term is gone: it shifts what the rows are to explain.
        residual = rows @ v - target
        slope = np.clip(residual, -threshold, threshold)
        value = (slope * (residual - slope / 2)).sum() + ridge / 2 * (v @ v)
        return value / n, (rows.T @ slope + ridge * v) / n

    target = y + rows @ b / ridge
    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B", options=options)
    return found.x - b / ridge


def run(n_rows, n_columns, epsilons, delta, seed):
    """Return {method: errors at all epsilons} of one run."""
    rng = np.random.default_rng(seed)
    table, y = draw_table(n_rows + N_PUBLIC + N_TEST, n_columns, rng)
    train, public, test = np.split(np.arange(len(y)), [n_rows, n_rows + N_PUBLIC])

    def error(predictions):
        return np.sqrt(np.mean((np.clip(predictions, -1, 1) - y[test]) ** 2))

    def kernel(a, b):
        a, b = (table[part[:, 0].astype(int)] for part in (a, b))
        return (a @ b.T).toarray()

    found = {}
    for name, model in {
        "TDDL functional": TDDLRegressor(kernel=kernel),
        "TDDL laplace (Algorithm 2)": TDDLRegressor(kernel=kernel, mechanism="laplace"),
        "TDIL objective": TDILRegressor(mechanism="objective"),
    }.items():
        numbers = np.arange(len(y))[:, None]
        X, public_X = numbers, {"X_public": numbers[public]}
        if name.startswith("TDIL"):
            X, public_X = table, {}
            if table.shape[1] > WIDEST_EXPLICIT:
                continue
        dense = lambda part: part.toarray() if hasattr(part, "toarray") else part  # noqa: E731
        for epsilon in epsilons:
            model.set_params(epsilon=epsilon, delta=delta, y_bounds=(-1, 1))
            model.fit(dense(X[train]), y[train], **public_X)
            found.setdefault(name, []).append(error(model.predict(dense(X[test]))))
    for epsilon in epsilons:
        ridges = 2 / epsilon * 6.0 ** np.arange(5)
        errors = [
            error(
                table[test] @ objective_perturbation(table[train], y[train], epsilon, delta, rng, r)
            )
            for r in ridges
        ]
        found.setdefault("objective perturbation, oracle Lambda", []).append(min(errors))
    ridges = [Ridge(alpha=a, fit_intercept=False, solver="sparse_cg") for a in (0.03, 0.1, 0.3, 1)]
    best = min(error(r.fit(table[train], y[train]).predict(table[test])) for r in ridges)
    found["least squares, not private"] = [best] * len(epsilons)
    found["zero"] = [error(np.zeros(N_TEST))] * len(epsilons)
    return found


def main():
    """Print a table for each delta and number of columns."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--columns", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--deltas", type=float, nargs="+", default=[1e-6, 0.0])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    epsilons = arguments.epsilons
    for delta in arguments.deltas:
        for n_columns in arguments.columns:
            print(f"\n{arguments.rows:,} rows, {n_columns:,} columns, delta = {delta:g}")
            print(f"{'RMSE':<40}" + "".join(f"{f'epsilon={e:g}':>13}" for e in epsilons))
            settings = arguments.rows, n_columns, epsilons, delta
            runs = [run(*settings, seed) for seed in range(arguments.runs)]
            for name in runs[0]:
                medians = np.median([result[name] for result in runs], axis=0)
                print(f"{name:<40}" + "".join(f"{m:>13.3f}" for m in medians), flush=True)


if __name__ == "__main__":
    main()
