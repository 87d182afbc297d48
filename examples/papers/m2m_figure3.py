"""Figure 3 of the M2M paper: five tasks against epsilon, from one private sketch of a table.

    python examples/papers/m2m_figure3.py --out figure.png [--rivals rivals.json]    # Random10
    python examples/papers/m2m_figure3.py --table occupancy --data FOLDER --out figure.png
    python examples/papers/m2m_figure3.py --out figure.png --quick

FOLDER is described in _m2m.py. The tables are random10 (27,000 x 10 uniform numbers, without
FOLDER), covertype (27,000 x 10, in the shape of the paper's LifeSci, which is not public),
occupancy and adult. For each sketch and epsilon: mean relative error of the first and second
moments, earth mover's distance of the CDF at 10 points, Frobenius distance of the covariance, and
mean absolute error of 100 conjunctions of three conditions, as a share of the rows.

"As printed" and "corrected" are 200 Fourier features with the same noise, whose claim, epsilon for
a row added or removed, is true. As printed they are read with the regularisation of equation (5)
and no intercept (`M2MEstimator.paper_parameters`), corrected with that of Theorem 3.1 and an
intercept. HIST has 100 bins a column; RACE, 80 hashes of 80 buckets, runs at three epsilons, as
printed. The default of `M2MEstimator` has delta = 1e-6; its counting queries are read from 30,000
synthetic rows, whose own sampling error is 0.002. MST's numbers come from ``m2m_rivals.py``.

figure.json is saved after each seed. ``--keep`` runs only what it lacks, and draws all: add a
sketch, or MST (``--keep --sketches --rivals rivals.json`` runs nothing), or go on after a stop.

Points are 20,000 (``--points``), not the paper's 100,000.
"""

import json
import time
import warnings
from functools import partial
from pathlib import Path

import _figure
import _m2m
import numpy as np

from skdpsumm import M2MEstimator, Points

EPSILONS = 0.01, 0.1, 1.0, 10.0, 100.0
RACE_EPSILONS = 0.1, 1.0, 10.0
RACE, HIST, HIST_CORRECTED = "RACE, as printed", "HIST, as printed", "HIST, corrected"
# The curves that come from one release, in the order of `found`.
CURVES = {
    "rff": [_figure.PRINTED, _figure.CORRECTED],
    "default": [_figure.DEFAULT],
    "hist": [HIST, HIST_CORRECTED],
    "race": [RACE],
}


def errors_of_points(model, X, seed):
    """Return the errors of a ridge regression on synthetic points."""
    one = model.estimate(_m2m.of_columns).value
    d = X.shape[1]
    products = partial(_m2m.products, means=one[:d])
    covariance = model.estimate(products).value.reshape(d, d)
    shares = model.estimate(partial(_m2m.conditions, seed=seed)).value
    return _m2m.errors(X, seed, one, covariance, shares)


def errors_of_default(model, X, seed):
    """Return the errors of the default."""
    cdf = [np.asarray(model.cdf(j, _m2m.CUTS)) for j in range(X.shape[1])]
    one = np.concatenate(
        [np.asarray(model.mean()), np.asarray(model.moment(2)), np.ravel(cdf, "F")]
    )
    rows = model.sample(30_000, random_state=seed)
    shares = _m2m.conditions(rows, seed).mean(axis=0)
    return _m2m.errors(X, seed, one, np.asarray(model.covariance()), shares)


def found(sketch, X, epsilon, points, seed):
    """Yield the errors of each of `CURVES` of a sketch."""
    common = {"schema": (0, 1), "random_state": seed}
    if sketch == "default":
        model = M2MEstimator(epsilon=epsilon, **common).fit(X)
        yield errors_of_default(model, X, seed)
        return
    parameters = M2MEstimator.paper_parameters(sketch, epsilon=epsilon)
    model = M2MEstimator(**parameters | {"n_synthetic": points}, **common).fit(X)
    yield errors_of_points(model, X, seed)
    if len(CURVES[sketch]) > 1:
        settings = {"inference": Points(prior="uniform"), "n_synthetic": points}
        again = M2MEstimator.from_sketch(model.sketch_, random_state=seed, **settings)
        yield errors_of_points(again, X, seed)


def kept_curves(numbers):
    """Return the curves of an earlier run, arrays of shape (epsilons, seeds, tasks)."""
    tasks = [_figure.values_of(numbers[task]) for task in _m2m.TASKS]
    return {name: np.stack([task[name] for task in tasks], axis=2) for name in tasks[0]}


def with_rivals(curves, path, table, epsilons, seeds):
    """Add MST, where it was run on the table."""
    known = json.loads(path.read_text()).get(f"mst {table}", {})
    runs = [known.get(f"{epsilon:g}", [])[:seeds] for epsilon in epsilons]
    if any(runs):
        empty = [[np.nan] * len(_m2m.TASKS)]
        curves["MST, delta = 1e-6"] = np.array([r + empty * (seeds - len(r)) for r in runs])


def draw(args, epsilons, curves, told, earlier):
    """Draw and save what there is so far."""
    fig, axes = _figure.figure(3, 2, height=2.7)
    numbers = {}
    for k, (ax, (task, unit)) in enumerate(zip(axes.flat, _m2m.TASKS.items(), strict=False)):
        values = {name: kept[:, :, k] for name, kept in curves.items()}
        numbers[task] = _figure.panel(
            ax,
            epsilons,
            values,
            xscale="log",
            yscale="log",
            xlabel="epsilon",
            ylabel=unit,
            title=task,
        )
    axes[2, 1].axis("off")
    axes[2, 1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center", title=args.table)
    told = told | {
        "guarantee": "epsilon, a row added or removed; the default and MST: delta = 1e-6",
        "cpu_seconds": round(time.process_time()),
    }
    _figure.save(fig, args, {**numbers, **told}, earlier)


def main():
    """Run, draw and save."""
    parser = _figure.parser(__doc__)
    names = ["random10", "covertype", "occupancy", "adult"]
    parser.add_argument("--table", choices=names, default="random10")
    parser.add_argument("--rivals", type=Path, help="what m2m_rivals.py has written")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--sketches", nargs="*", default=["rff", "default", "hist", "race"])
    parser.add_argument("--keep", action="store_true", help="run what figure.json lacks")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    epsilons, seeds, points, n_rows = EPSILONS, args.seeds, args.points, 27_000
    if args.quick:
        epsilons, seeds, points, n_rows = (0.1, 10.0), 1, 2_000, 2_000
        args.table, args.sketches = "random10", [s for s in args.sketches if s != "race"]
    folder = Path(args.data) if args.data else None
    earlier = _figure.measured(args)
    curves = kept_curves(earlier["numbers"]) if earlier else {}
    if args.rivals:
        with_rivals(curves, args.rivals, args.table, epsilons, seeds)
    shape = len(epsilons), seeds, len(_m2m.TASKS)
    for seed in range(seeds):
        X = _m2m.table_of(args.table, folder, seed, n_rows)
        X = X[:, :4] if args.quick else X
        for sketch in args.sketches:
            kept = [curves.setdefault(name, np.full(shape, np.nan)) for name in CURVES[sketch]]
            for i, epsilon in enumerate(epsilons):
                if sketch == "race" and epsilon not in RACE_EPSILONS:
                    continue
                if np.isfinite([curve[i, seed] for curve in kept]).all():
                    continue
                for name, curve, errors in zip(
                    CURVES[sketch], kept, found(sketch, X, epsilon, points, seed), strict=True
                ):
                    curve[i, seed] = errors
                    print(f"{name:<22}{epsilon:>6g}", *(f"{e:.2g}" for e in errors), flush=True)
        told = {"rows": X.shape[0], "columns": X.shape[1], "points": points}
        if args.sketches or seed == seeds - 1:
            draw(args, epsilons, curves, told, earlier)


if __name__ == "__main__":
    main()
