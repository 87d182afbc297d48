"""Figure 4 of the M2M paper: the AUC of logistic regression from one private sketch of Occupancy.

    python examples/papers/m2m_figure4.py --data FOLDER --out figure.png [--rivals rivals.json]
    python examples/papers/m2m_figure4.py --out figure.png --quick

FOLDER is described in _m2m.py. 90 per cent of the rows are sketched, and AUC is measured on the
rest.

"As printed" is implicit M2M with the paper's noise, regularisation and negative weights, by
`M2MClassifier.paper_parameters`: of Fourier features, of RACE, and of histograms, which the paper
leaves out of its figure. Its claim, epsilon for a row added or removed, is true. "Corrected" has
the same sketch of Fourier features, with positive weights by maximum entropy on points that move to
where the data are. The default of `M2MClassifier` has delta = 1e-6. DP-ERM, which the paper plots
too, spends all of epsilon on one model: ours is `TDILClassifier` with objective perturbation and
delta = 0, for rows added or removed; diffprivlib's and MST's numbers come from ``m2m_rivals.py``.

``--keep`` takes all curves that rivals.json does not have from figure.json.

Points are 20,000 (``--points``), not the paper's 100,000. ``--quick`` takes scikit-learn's breast
cancer table, two columns of it.
"""

import json
import time
import warnings
from pathlib import Path

import _figure
import _m2m
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skdpsumm import M2MClassifier, TDILClassifier

EPSILONS = 0.01, 0.03, 0.1, 0.3, 1.0, 3.0
RACE, HIST, ERM = "RACE, as printed", "HIST, as printed", "DP-ERM, skdpsumm"
THEORY = "as printed, Theorem 3.1's lambda"
RIVALS = {"diffprivlib figure 4": "DP-ERM, diffprivlib", "mst figure 4": "MST, delta = 1e-6"}
_SKETCHES = _figure.PRINTED, THEORY, _figure.CORRECTED, _figure.DEFAULT
PANELS = [
    ("ways to read a sketch", [*_SKETCHES, RACE, HIST], (0, 1.02)),
    (
        "and models of their own",
        [_figure.CORRECTED, _figure.DEFAULT, ERM, *RIVALS.values()],
        (0.9, 1),
    ),
]


def cancer():
    """Return two columns of a bundled table, scaled, and its label."""
    X, y = load_breast_cancer(return_X_y=True)
    return _m2m.scaled(X[:, [0, 1]], [(5, 40), (5, 45)]), y


def methods(epsilon, points, seed):
    """Return a function of (X, y) for each curve, which returns a fitted model."""
    common = {"schema": (0, 1), "classes": [0, 1], "random_state": seed, "n_synthetic": points}

    def printed(sketch, **changed):
        parameters = M2MClassifier.paper_parameters(sketch, epsilon=epsilon) | common
        parameters["inference"].set_params(**changed)
        return M2MClassifier(**parameters).fit

    return {
        _figure.PRINTED: printed("rff"),
        THEORY: printed("rff", regularization="theory"),
        _figure.CORRECTED: printed("rff", weights="maxent", regularization="theory"),
        _figure.DEFAULT: M2MClassifier(epsilon=epsilon, **common).fit,
        RACE: printed("race"),
        HIST: printed("hist"),
        ERM: TDILClassifier(
            mechanism="objective",
            kernel="splines",
            schema=(0, 1),
            epsilon=epsilon,
            delta=0.0,
            random_state=seed,
        ).fit,
    }


def auc(fit, X, X_test, y, y_test):
    """Return the AUC on the rows that were held out."""
    return roc_auc_score(y_test, fit(X, y).decision_function(X_test))


def run(X, y, epsilons, seeds, points, slow_epsilons):
    """Return AUCs by curve, arrays of shape (n, n_seeds), and those without privacy."""
    curves, plain = {}, []
    for seed in range(seeds):
        rows = _m2m.split(X, y, seed)
        plain.append(auc(LogisticRegression(max_iter=1000).fit, *rows))
        for i, epsilon in enumerate(epsilons):
            for name, fit in methods(epsilon, points, seed).items():
                # 6,400 features: it takes as long as all others together.
                if name == RACE and epsilon not in slow_epsilons:
                    continue
                kept = curves.setdefault(name, np.full((len(epsilons), seeds), np.nan))
                kept[i, seed] = auc(fit, *rows)
                print(f"{name:<22}{epsilon:>6g}{kept[i, seed]:>8.4f}", flush=True)
    return curves, plain


def kept_curves(numbers):
    """Return the same from figure.json, and how many points there were."""
    panels = [numbers[title] for title, _, _ in PANELS]
    curves = {name: kept for panel in panels for name, kept in _figure.values_of(panel).items()}
    plain = panels[0]["references"]["without privacy"]["values"]
    return curves, plain, numbers["points"]


def main():
    """Run, draw and save."""
    parser = _figure.parser(__doc__)
    parser.add_argument("--rivals", type=Path, help="what m2m_rivals.py has written")
    parser.add_argument("--keep", action="store_true", help="figure.json, and run nothing")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--slow-epsilons", nargs="*", type=float, default=[0.1, 0.3, 1.0, 3.0])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    epsilons = (0.3, 3.0) if args.quick else EPSILONS
    seeds, points = (1, 2_000) if args.quick else (args.seeds, args.points)
    earlier = _figure.measured(args)
    if earlier:
        curves, plain, points = kept_curves(earlier["numbers"])
    else:
        X, y = cancer() if args.quick else _m2m.occupancy(Path(args.data))
        curves, plain = run(X, y, epsilons, seeds, points, () if args.quick else args.slow_epsilons)
    if args.rivals and not args.quick:
        found = json.loads(args.rivals.read_text())
        for key in RIVALS.keys() & found:
            aucs = [found[key].get(f"{e:g}", [])[:seeds] for e in epsilons]
            curves[RIVALS[key]] = [row + [np.nan] * (seeds - len(row)) for row in aucs]
    runs = {name: kept for name, kept in curves.items() if np.isfinite(kept).any()}
    fig, axes = _figure.figure(2, height=3.0)
    numbers = {}
    for ax, (title, names, limits) in zip(axes.flat, PANELS, strict=True):
        numbers[title] = _figure.panel(
            ax,
            epsilons,
            {name: runs[name] for name in names if name in runs},
            {"without privacy": float(np.median(plain))},
            xscale="log",
            ylabel="AUC on held-out rows",
            ylim=limits,
            title=title,
        )
        ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axes[1, 0].set_xlabel("epsilon")
    told = {
        "points": points,
        "guarantee": "epsilon, a row added or removed; the default and MST: delta = 1e-6",
        "cpu_seconds": round(time.process_time()),
    }
    _figure.save(fig, args, {**numbers, **told}, earlier)


if __name__ == "__main__":
    main()
