"""MNIST by private kernel learners: released functions against released answers.

    python examples/papers/kernels_mnist.py --data mnist.npz [--models NAME ...] [--json FILE]

``mnist.npz`` is the file of Keras (x_train, y_train, ...). 6,000 training digits, 1,000 public ones
(without labels) and 3,000 test digits, drawn anew in each run from x_train; PINP is asked for the
first 1,000 of the test digits. Images are divided by their own norms; the kernel is the paper's
``(<x, y> + 1)^3``, and everything else is the estimators' default, so is Lambda. Two problems: is
the digit 5 or more, and which digit it is. Printed are medians of the runs: the accuracy of the
private model / of the exact minimiser with the same Lambda. ``--json`` stores TDDL on two classes.
"""

import argparse

import numpy as np
from kernels_covertype import CUBIC, Comparison, accuracies, benchmarks, table

from skdpsumm import PINPClassifier, TDDLClassifier

TWO_CLASSES = {
    "TDDL default": TDDLClassifier(**CUBIC),
    "TDDL laplace (Algorithm 2)": TDDLClassifier(mechanism="laplace", **CUBIC),
    "PINP functional": PINPClassifier(**CUBIC),
    "PINP svt": PINPClassifier(mechanism="svt", **CUBIC),
    "PINP threshold (Algorithm 1)": PINPClassifier(mechanism="threshold", **CUBIC),
}
TEN_CLASSES = {name: model for name, model in TWO_CLASSES.items() if name.startswith("TDDL")}
REQUIRED = 0.82


def mnist(path):
    """Return the 60,000 training images, of norm 1, and their digits."""
    with np.load(path) as file:
        X, y = file["x_train"].reshape(-1, 784).astype(float), file["y_train"]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="mnist.npz")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--models", nargs="+", default=[""], help="parts of their names")
    parser.add_argument("--classes", type=int, nargs="+", choices=[2, 10], default=[2, 10])
    benchmarks.add_argument(parser)
    arguments = parser.parse_args()
    X, digits = mnist(arguments.data)

    def comparisons(y):
        splits = {}

        def comparison_of(name, seed):
            if seed not in splits:
                order = np.random.default_rng(seed).permutation(len(X))
                n = arguments.rows
                train, public, test, _ = np.split(order, [n, n + 1000, n + 4000])
                splits[seed] = Comparison((X[train], y[train]), (X[test], y[test]), X[public])
            return splits[seed]

        return comparison_of

    problems = {2: (TWO_CLASSES, digits >= 5), 10: (TEN_CLASSES, digits)}
    for n_classes in arguments.classes:
        models, y = problems[n_classes]
        print(f"\n{n_classes} classes, {arguments.rows:,} training rows")
        models = {k: m for k, m in models.items() if any(part in k for part in arguments.models)}
        found = table(models, comparisons(y), arguments.epsilons, arguments.runs, arguments.delta)
        if n_classes == 2 and 1.0 in arguments.epsilons:
            print(
                f"TDDL default at epsilon=1: {found['TDDL default', 1.0][0]:.3f}, "
                f"required {REQUIRED}"
            )
        if n_classes == 2 and arguments.json:
            names = "TDDL default", "TDDL laplace (Algorithm 2)"
            benchmarks.store(
                arguments.json,
                job="learn",
                title="A kernel on MNIST",
                about=f"Is the digit at least 5? {arguments.rows:,} private and 1,000 public rows, "
                f"cubic kernel, delta = {arguments.delta:g}: accuracy of `TDDLClassifier`, median; "
                f'number of runs: {arguments.runs}. "Exact" is the minimiser without noise at the '
                "same Lambda, before which descent stops; the last column is the paper's "
                "Algorithm 2.",
                columns=["epsilon", "ours", "exact", "as printed"],
                rows=accuracies(found, *names, arguments.epsilons),
            )


if __name__ == "__main__":
    main()
