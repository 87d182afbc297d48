"""Figure 2 of the data summarization paper: five owners of digits, and three targets.

    python examples/papers/summarization_figure2.py --data mnist.npz --out figure2.png [--quick]

``mnist.npz`` is the file of Keras (x_train, y_train, x_test, y_test). The design is the paper's:
owners hold the training digits 0-1, 3-4, 5-6, 7-8 and 9-2 (--rows of them, drawn at random, for
time). Targets are a quarter of some test digits, and the others of these are held
out:

    34    3 and 4 at 0.7 / 0.3: the paper's
    380   3, 8 and 0
    rare  3 and 8, where only 300 rows of each are left among the owners'

Above, the increase of MMD^2 over greedy choice; below, the accuracy of a network with a layer of 32
units. With --quick the digits are those of scikit-learn, halved at random into training and test.
See `_summarization.py` for the curves.
"""

import warnings
from functools import cache, partial

import numpy as np
from _figure import figure, parser, save
from _summarization import Problem, draw, finish
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

GROUPS = ((0, 1), (3, 4), (5, 6), (7, 8), (9, 2))
TARGETS = {"34": "3 and 4 at 0.7 / 0.3", "380": "3, 8 and 0", "rare": "3 and 8, rare among owners"}
DIGITS = {"380": (3, 8, 0), "rare": (3, 8)}
N_SEED_ROWS = 150


@cache
def mnist(path):
    """Return rows and labels to train on, and rows and labels to test on."""
    with np.load(path) as file:
        X, y, E, e = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    return _pixels(X, 255), y, _pixels(E, 255), e


@cache
def small_digits():
    """Return the same of scikit-learn's digits."""
    X, y = load_digits(return_X_y=True)
    X, E, y, e = train_test_split(_pixels(X, 16), y, test_size=0.5, random_state=0)
    return X, y, E, e


def _pixels(images, largest):
    return images.reshape(len(images), -1).astype(np.float32) / largest


def make_problem(digits, target, n_rows, n_rare, seed):
    """Return owners' rows and a target of test rows, by a draw of their own."""
    X, y, E, e = digits
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(X))
    if target == "rare":
        few = np.concatenate([kept[y[kept] == digit][:n_rare] for digit in (3, 8)])
        kept = np.concatenate([few, kept[~np.isin(y[kept], (3, 8))]])
    kept = kept[:n_rows]
    there = target_rows(target, e, rng)
    D_v, held = np.split(there, [len(there) // 4])
    owner_of = {digit: k for k, group in enumerate(GROUPS) for digit in group}
    # Public rows to start with, which look like no digit.
    noise = rng.normal(0.13, 0.3, (N_SEED_ROWS, X.shape[1]))
    return Problem(
        X=X[kept],
        y=y[kept],
        owners=np.array([owner_of[digit] for digit in y[kept].tolist()]),
        target=E[D_v],
        held=E[held],
        held_labels=e[held],
        seed_rows=np.clip(noise, 0, 1),
    )


def target_rows(target, labels, rng):
    """Return the test rows of the target's kind, in random order."""
    if target != "34":
        return rng.permutation(np.flatnonzero(np.isin(labels, DIGITS[target])))
    threes, fours = (rng.permutation(np.flatnonzero(labels == digit)) for digit in (3, 4))
    return rng.permutation(np.concatenate([threes, fours[: round(len(threes) * 3 / 7)]]))


def main():
    """Draw the figure."""
    takes = parser(__doc__)
    takes.add_argument("--rows", type=int, default=12_000, help="rows of all owners together")
    takes.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 500], help="p")
    takes.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    args = takes.parse_args()
    warnings.simplefilter("ignore")  # seeds, and models that have not converged
    sizes = (10, 20) if args.quick else args.sizes
    args.seeds = 1 if args.quick else args.seeds
    digits, n_rare = (small_digits(), 20) if args.quick else (mnist(args.data), 300)
    fig, axes = figure(2, len(args.targets), height=3)
    learner = MLPClassifier((32,), max_iter=10 if args.quick else 100, random_state=0)
    numbers = {}
    for column, target in zip(axes.T, args.targets, strict=True):
        problem = partial(make_problem, digits, target, args.rows, n_rare)
        column[0].set_title(TARGETS[target], fontsize=10)
        numbers[target] = draw(column, problem, learner, sizes, args)
    finish(fig, axes)
    save(fig, args, numbers)


if __name__ == "__main__":
    main()
