"""Table 1 of the M2M paper: relative error of the means, without noise and at epsilon = 1.

    python examples/papers/m2m_table1.py --out figure.png [--data FOLDER]
    python examples/papers/m2m_table1.py --out figure.png --quick

FOLDER is described in _m2m.py; without it, there is Random10 alone (27,000 x 10 uniform numbers).
The paper's other table, LifeSci, is not public; Covertype stands for it, with as many rows and
columns, and Adult and Occupancy are shown beside it.

The sketches, 200 Fourier features (RFF) and 100 bins a column (HIST), have Laplace noise, and their
claim, epsilon = 1 for a row added or removed, is true. As printed they are read with the
regularisation of equation (5), or 1e-9 without noise, and no intercept
(`M2MEstimator.paper_parameters`); corrected, with that of Theorem 3.1 and an intercept. The default
of `M2MEstimator` has delta = 1e-6, or with ``delta=0`` the paper's kind of guarantee.

The last panel asks which kernel would have the printed error of 6.25e-8 without noise: the error of
least squares on 200 Fourier features against sigma, of Random10.
"""

import time
import warnings
from pathlib import Path

import _figure
import _m2m
import numpy as np
from scipy.linalg import lstsq

from skdpsumm import M2MEstimator, Points

# Rows of the printed table: Random10, then LifeSci.
PRINTED_TABLE = {
    "random10": {"RFF, inf": 6.25e-8, "RFF, 1": 9.55e-3, "HIST, inf": 1.87e-5, "HIST, 1": 9.10e-4},
    "covertype": {"RFF, inf": 1.67e-6, "RFF, 1": 4.20e-2, "HIST, inf": 5.91e-5, "HIST, 1": 3.8e-3},
}
LAYOUT = {"RFF, inf": ("rff", np.inf), "RFF, 1": ("rff", 1.0)}
LAYOUT |= {"HIST, inf": ("hist", np.inf), "HIST, 1": ("hist", 1.0)}
PURE = "skdpsumm's default, delta=0"
COLOURS = {_figure.PRINTED: "C3", _figure.CORRECTED: "C1", _figure.DEFAULT: "C0", PURE: "C9"}
SIGMAS = 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0


def error(model, X):
    """Return the mean relative error of the means."""
    return float(np.mean(np.abs(np.asarray(model.mean()) / X.mean(axis=0) - 1)))


def errors(X, sketch, epsilon, points, seed):
    """Return the error of each way to read one release, and of the default."""
    common = {"schema": (0, 1), "random_state": seed}
    parameters = M2MEstimator.paper_parameters(sketch, epsilon=epsilon)
    if epsilon == np.inf:
        parameters["inference"].set_params(regularization=1e-9)
    printed = M2MEstimator(**parameters | {"n_synthetic": points}, **common).fit(X)
    corrected = M2MEstimator.from_sketch(
        printed.sketch_, inference=Points(prior="uniform"), n_synthetic=points, random_state=seed
    )
    found = {_figure.PRINTED: error(printed, X), _figure.CORRECTED: error(corrected, X)}
    if sketch == "rff":  # the default has neither sketch, so once is enough
        for name, delta in ((_figure.DEFAULT, 1e-6), (PURE, 0.0)):
            found[name] = error(M2MEstimator(epsilon=epsilon, delta=delta, **common).fit(X), X)
    return found


def least_squares(X, sigma, points, seed):
    """Return the error of the means without noise and without a penalty."""
    rng = np.random.default_rng(seed)
    frequencies = rng.normal(size=(X.shape[1], 100)) / sigma

    def phi(rows):
        angles = rows @ frequencies
        return np.hstack([np.cos(angles), np.sin(angles)])

    drawn = rng.random((points, X.shape[1]))
    a = lstsq(phi(drawn), drawn, cond=1e-15)[0]  # by the SVD: normal equations lose half the digits
    return float(np.mean(np.abs(phi(X).mean(axis=0) @ a / X.mean(axis=0) - 1)))


def draw(ax, kept, printed, title):
    """Draw rows of the table: a mark for each way, with its spread, and the printed number."""
    places = np.arange(len(LAYOUT))
    for k, (curve, values) in enumerate(kept.items()):
        low, middle, high = np.percentile(values, [0, 50, 100], axis=1)
        spread = middle - low, high - middle
        beside = places + 0.13 * (k - 1.5)
        ax.errorbar(beside, middle, spread, fmt="o", ms=4, color=COLOURS[curve], label=curve)
    if printed:
        ax.plot(places, list(printed.values()), "kx", label="printed in the paper")
    names = [name.replace("inf", "no noise").replace(" 1", r" $\epsilon=1$") for name in LAYOUT]
    ax.set_xticks(places, names, fontsize=7)
    ax.set(yscale="log", title=title, ylabel="mean relative error")
    ax.grid(alpha=0.25)
    return {curve: {"median": np.median(v, axis=1), "values": v} for curve, v in kept.items()}


def measured(name, folder, points, seeds, n_rows, n_columns):
    """Return the errors of a table's first columns by curve, shape (4, seeds)."""
    kept = {}
    for seed in range(seeds):
        X = _m2m.table_of(name, folder, seed, n_rows)[:, :n_columns]
        for i, (sketch, epsilon) in enumerate(LAYOUT.values()):
            for curve, value in errors(X, sketch, epsilon, points, seed).items():
                kept.setdefault(curve, np.full((len(LAYOUT), seeds), np.nan))[i, seed] = value
                print(f"{name:<12}{sketch:<6}{epsilon:>5g}  {curve:<28}{value:.3g}", flush=True)
    for curve in (_figure.DEFAULT, PURE):
        kept[curve][2:] = kept[curve][:2]
    return kept


def main():
    """Run, draw and save."""
    parser = _figure.parser(__doc__)
    parser.add_argument(
        "--tables", nargs="+", default=["random10", "covertype", "adult", "occupancy"]
    )
    parser.add_argument("--points", type=int, default=20_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    tables, seeds, points, n_rows, n_columns = args.tables, args.seeds, args.points, 27_000, None
    if args.quick:
        seeds, points, n_rows, n_columns = 1, 2_000, 2_000, 3
    if args.quick or not args.data:
        tables = ["random10"]
    folder = Path(args.data) if args.data else None
    panels = len(tables) + 1
    fig, axes = _figure.figure((panels + 1) // 2, 2, height=3.0)
    numbers = {}
    for ax, name in zip(axes.flat, tables, strict=False):
        kept = measured(name, folder, points, seeds, n_rows, n_columns)
        printed = PRINTED_TABLE.get(name)
        title = f"{name} (printed: LifeSci)" if name == "covertype" else name
        numbers[name] = draw(ax, kept, printed, title) | {"printed": printed}
    ax = axes.flat[panels - 1]
    tried = [
        [
            least_squares(_m2m.table_of("random10", None, seed, n_rows), sigma, points, seed)
            for seed in range(seeds)
        ]
        for sigma in SIGMAS
    ]
    numbers["sigma"] = _figure.panel(
        ax,
        SIGMAS,
        {"RFF, least squares": tried},
        {"printed: 6.25e-8": 6.25e-8},
        xscale="log",
        yscale="log",
        xlabel="sigma of the kernel",
        title="random10, no noise",
    )
    for unused in axes.flat[panels:]:
        unused.axis("off")
    _figure.legend(fig)
    told = {"points": points, "cpu_seconds": round(time.process_time())}
    _figure.save(fig, args, {**numbers, **told})


if __name__ == "__main__":
    main()
