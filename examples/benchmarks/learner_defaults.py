"""What learners do by default: a schema and nothing else, beside scikit-learn's, at every epsilon.

    python examples/benchmarks/learner_defaults.py [--data DIR] [--tables NAME ...]
        [--learners TDIL TDDL PINP] [--epsilons inf 1e4 3 1 0.3 0.1] [--rows 10000] [--seeds 3]
        [--ebm-python PYTHON] [--diffprivlib-python PYTHON]

Ours are ``TDILClassifier(schema, epsilon)`` and the like: every other parameter is left alone, the
kernel included (linear for TDIL, rbf for TDDL and PINP). Beside them stand their references,

    TDIL          LogisticRegression(), Ridge()
    TDDL, PINP    SVC(gamma=ours), KernelRidge(kernel="rbf", gamma=ours)

with scikit-learn's defaults, on the same inputs (`PublicVectorizer`: "encoded"), and on what one
would take without privacy ("standardised": StandardScaler, OneHotEncoder, and the reference's own
gamma). All have the same rows, in a random order of their own for each seed, and the same rows held
out: 6,000 at most, and a quarter of small tables.

Figures are means of the seeds, with the standard error of the difference to "encoded" in brackets
for epsilon = inf: the area under the ROC curve, for digits the accuracy, for numbers R^2. delta is
1e-6. A star marks a model at epsilon = inf that is more than 0.005 behind "encoded", or more than
0.01 behind "standardised"; one at 1e4, that is more than 0.005 from epsilon = inf.

Rivals are run by their own defaults where the interpreter of their own environment is given
(learner_rivals.py says how to make it); --learners without a name runs none of ours:

    DP-EBM        interpret-core's DPExplainableBoostingClassifier, ...Regressor, with the public
                  bounds of the columns as they are; two classes, or numbers
    diffprivlib   LogisticRegression and LinearRegression with data_norm or bounds, on "encoded"
                  inputs; delta is 0, and a row is replaced, where the others add or remove it

Their predictions of numbers are clipped to the public bounds, as ours are. They have no cell at
epsilons beyond 100.

DIR holds the folders adult (UCI's adult.data and adult.test, gzipped or not), acs (a CSV of
folktables' ACSIncome, whose name begins with acs_income) and covertype (an npz of UCI's with X of
shape (n, 54) and y in 1..7). Breast cancer, digits and diabetes come with scikit-learn, friedman is
made by it; these need no DIR. Tables that end in -900 have 900 rows to learn from.
"""

import argparse
import functools
import warnings
from dataclasses import dataclass
from pathlib import Path

import _rivals
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_digits, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from vectorizer import acs, adult, cancer, covertype

import skdpsumm
from skdpsumm import Categorical, PublicVectorizer, TableSchema

DELTA = 1e-6
SMALL, MOST_HELD_OUT, HELD_OUT = 900, 6000, 0.25
LEARNERS = ("TDIL", "TDDL", "PINP")
MOST_OF_RIVALS = 100.0  # an epsilon beyond which exp(epsilon) might overflow
# Ours and theirs without noise, and with so much that it does not count.
BEHIND, BEHIND_STANDARDISED, APART = 0.005, 0.01, 0.005


@dataclass
class Problem:
    """A table, what is to be learnt of it, and what is public.

    Parameters
    ----------
    X : DataFrame
    y : ndarray
    schema : TableSchema
    y_bounds : pair of float or None
        For numbers.
    """

    X: pd.DataFrame
    y: np.ndarray
    schema: TableSchema
    y_bounds: tuple | None = None


# ---- tables


def digits(_):
    """Return scikit-learn's digits: 64 pixels from 0 to 16, ten classes."""
    X, y = load_digits(return_X_y=True)
    return pd.DataFrame(X), y, TableSchema([(0, 16)] * 64)


def diabetes(_):
    """Return scikit-learn's diabetes, in the units that its source gives; bounds are round."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    bounds = [(18, 80), (1, 2), (15, 45), (60, 140), (90, 310)]
    bounds += [(40, 250), (20, 100), (2, 10), (3, 6.5), (50, 130)]
    return pd.DataFrame(X), y, TableSchema(bounds), (20, 350)


def friedman(_):
    """Return Friedman's first function, of five of ten columns, with noise."""
    X, y = make_friedman1(8000, noise=1.0, random_state=0)
    return pd.DataFrame(X), y, TableSchema([(0, 1)] * 10), (0, 30)


TABLES = {
    "cancer": cancer,
    "digits": digits,
    "adult": adult,
    "acs": acs,
    "covertype": covertype,
    "diabetes": diabetes,
    "friedman": friedman,
}
TABLES |= {f"{name}-{SMALL}": TABLES[name] for name in ("adult", "acs", "covertype", "friedman")}
FROM_DIR = ("adult", "acs", "covertype")


def load(name, data):
    """Return a problem by its name, its columns those of the schema and named by strings."""
    folder = data / name.split("-")[0] if name.startswith(FROM_DIR) else None
    X, y, schema, *y_bounds = TABLES[name](folder)
    if schema.names:
        X = X[list(schema.names)]
    X.columns = [str(column) for column in X.columns]
    named = TableSchema(dict(zip(X.columns, schema.columns, strict=True)))
    return Problem(X, np.asarray(y), named, *y_bounds)


def folds(n_rows, name, most, seed):
    """Return the rows to learn from and those held out."""
    order = np.random.default_rng(seed).permutation(n_rows)
    held_out = min(MOST_HELD_OUT, int(HELD_OUT * n_rows))
    most = SMALL if name.endswith(f"-{SMALL}") else most
    return order[held_out:][:most], order[:held_out]


# ---- learners


def ours(problem, kind, epsilon):
    """Return a learner with a schema and nothing else."""
    if problem.y_bounds is None:
        make, more = getattr(skdpsumm, f"{kind}Classifier"), {}
    else:
        make, more = getattr(skdpsumm, f"{kind}Regressor"), {"y_bounds": problem.y_bounds}
    return make(schema=problem.schema, epsilon=epsilon, delta=DELTA, **more)


def references(problem, kind):
    """Return the named reference on encoded and on standardised inputs."""
    is_number = problem.y_bounds is not None
    if kind == "TDIL":
        same = usual = Ridge() if is_number else LogisticRegression(max_iter=5000)
    else:
        gamma = ours(problem, kind, np.inf)
        gamma.n_features_in_ = problem.X.shape[1]
        gamma.feature_names_in_ = np.array(problem.X.columns, dtype=object)
        gamma = gamma._gamma()
        same = KernelRidge(kernel="rbf", gamma=gamma) if is_number else SVC(gamma=gamma)
        usual = KernelRidge(kernel="rbf") if is_number else SVC()
    columns = list(zip(problem.X.columns, problem.schema.columns, strict=True))
    words = [name for name, column in columns if isinstance(column, Categorical)]
    numbers = [name for name, _ in columns if name not in words]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), words),
        (StandardScaler(), numbers),
        sparse_threshold=0,
    )
    return {
        "encoded": make_pipeline(PublicVectorizer(problem.schema), same),
        "standardised": make_pipeline(encoder, usual),
    }


def quality(answers, problem, test):
    """Return the AUC of the scores of rows held out, or the accuracy or R^2 of predictions."""
    y = problem.y[test]
    if problem.y_bounds is not None:
        return r2_score(y, answers)
    if len(np.unique(problem.y)) > 2:
        return accuracy_score(y, answers)
    return roc_auc_score(y, answers)


def answers_of(model, problem, test):
    """Return the scores that a fitted model has of rows held out, or its predictions."""
    is_binary = problem.y_bounds is None and len(np.unique(problem.y)) == 2
    ask = model.decision_function if is_binary else model.predict
    return ask(problem.X.iloc[test])


def measure(name, kind, arguments):
    """Return the quality of each model for each seed: {model: array}."""
    problem, found = load(name, arguments.data), {}
    for seed in range(arguments.seeds):
        train, test = folds(len(problem.y), name, arguments.rows, seed)
        models = references(problem, kind)
        models |= {epsilon: ours(problem, kind, epsilon) for epsilon in arguments.epsilons}
        for label, model in models.items():
            with warnings.catch_warnings(action="ignore"):  # of noise that drowns a model
                model.fit(problem.X.iloc[train], problem.y[train])
                answers = answers_of(model, problem, test)
            found.setdefault(label, []).append(quality(answers, problem, test))
    return {label: np.array(values) for label, values in found.items()}


# ---- rivals


def ebm(problem, train, test, epsilon, seed, python):
    """Return DP-EBM's scores or predictions of rows held out; None where it has no learner."""
    columns = zip(problem.X.columns, problem.schema.columns, strict=True)
    public = {
        name: list(column.categories) if isinstance(column, Categorical) else column.bounds
        for name, column in columns
    }
    X, y, y_bounds = problem.X, problem.y[train], problem.y_bounds
    known = {"python": python, "public": public, "y_bounds": y_bounds}
    answers = _rivals.dp_ebm(X.iloc[train], y, X.iloc[test], epsilon, DELTA, seed, **known)
    return None if answers is None else answers[:, 0]


def diffprivlib(problem, train, test, epsilon, seed, python):
    """Return diffprivlib's scores or predictions of rows held out.

    It has our vectors, without the constant that stands beside numbers alone, since it fits an
    intercept. They are scaled so that they may be one long again; so none of d numbers is beyond
    1 / sqrt(d).
    """
    vectorizer, d = PublicVectorizer(problem.schema), len(problem.schema.columns)
    X = vectorizer.fit_transform(problem.X)
    is_constant = vectorizer.get_feature_names_out() == "constant"
    X = X[:, ~is_constant] * np.sqrt(1 + is_constant.any() / d)
    bound = 1.0 if problem.y_bounds is None else 1 / np.sqrt(d)
    known = {"python": python, "bound": bound, "y_bounds": problem.y_bounds}
    return _rivals.default_diffprivlib(X[train], problem.y[train], X[test], epsilon, seed, **known)


def measure_rival(name, run, arguments):
    """Return the quality of a rival for each seed: {epsilon: array}."""
    problem, found = load(name, arguments.data), {}
    for seed in range(arguments.seeds):
        train, test = folds(len(problem.y), name, arguments.rows, seed)
        for epsilon in arguments.epsilons:
            if epsilon > MOST_OF_RIVALS:
                continue
            answers = run(problem, train, test, epsilon, seed)
            if answers is None:
                continue
            if problem.y_bounds is not None:
                answers = np.clip(answers, *problem.y_bounds)
            found.setdefault(epsilon, []).append(quality(answers, problem, test))
    return {epsilon: np.array(values) for epsilon, values in found.items()}


def rivals(arguments):
    """Return the rivals that can run."""
    known = {"DP-EBM": (ebm, arguments.ebm_python)}
    known |= {"diffprivlib": (diffprivlib, arguments.diffprivlib_python)}
    return {
        name: functools.partial(run, python=python)
        for name, (run, python) in known.items()
        if python is not None
    }


# ---- the table


def cells(found):
    """Return what is printed of each model."""
    means = {label: values.mean() for label, values in found.items()}
    told = {label: f"{mean:.3f}" for label, mean in means.items()}
    if np.inf in found:
        apart = found[np.inf] - found["encoded"]
        if len(apart) > 1:
            told[np.inf] += f" ({apart.std(ddof=1) / np.sqrt(len(apart)):.3f})"
        is_behind = means["encoded"] - means[np.inf] > BEHIND
        is_behind |= means["standardised"] - means[np.inf] > BEHIND_STANDARDISED
        told[np.inf] += " *" * bool(is_behind)
    if np.inf in found and 1e4 in found:
        told[1e4] += " *" * bool(abs(means[1e4] - means[np.inf]) > APART)
    return told


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--learners", nargs="*", choices=LEARNERS, default=LEARNERS)
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[np.inf, 1e4, 3.0, 1.0, 0.3, 0.1]
    )
    parser.add_argument("--rows", type=int, default=10_000, help="the most to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ebm-python")
    parser.add_argument("--diffprivlib-python")
    arguments = parser.parse_args()
    labels = ["encoded", "standardised", *arguments.epsilons]
    print(f"| table | learner | {' | '.join(f'{label}' for label in labels)} |")
    print("| --- " * (len(labels) + 2) + "|")
    for name in arguments.tables:
        if name.startswith(FROM_DIR) and arguments.data is None:
            print(f"| {name} | needs --data |")
            continue
        rows = {kind: functools.partial(measure, name, kind) for kind in arguments.learners}
        for kind, run in rivals(arguments).items():
            rows[kind] = functools.partial(measure_rival, name, run)
        for kind, run in rows.items():
            told = cells(run(arguments))
            print(
                f"| {name} | {kind} | {' | '.join(told.get(label, '-') for label in labels)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
