"""Missing values: answers about those that are present, their error bars, models, and points."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from skdpsumm import (
    AnswerWarning,
    Categorical,
    HistogramSketcher,
    M2MClassifier,
    M2MEstimator,
    M2MRegressor,
    Numeric,
    RFFSketcher,
    SketchUnion,
    TableSchema,
)
from skdpsumm.moments.inferring._points import absent, draw_points, maxent_points

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsumm.PrivacyLeakWarning"),
]

JOBS = ["clerk", "farmer", "smith"]
SCHEMA = {
    "age": Numeric(17, 90, step=1, missing=True),
    "pay": Numeric(0, 100, missing=True),
    "job": Categorical(JOBS, missing=True),
    "height": (1, 2),
}
NUMBERS = ["age", "pay", "height"]
QUICK = {"n_synthetic": 4000, "random_state": 0}


def people(n=4000, seed=0):
    """What is missing hangs on what is not: those left are unlike all."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 91, n).astype(float)
    job = rng.choice(JOBS, n, p=[0.5, 0.3, 0.2]).astype(object)
    pay = np.clip(100 * rng.beta(2, 5, n) + 0.2 * (age - 50), 0, 100)
    height = rng.beta(5, 5, n) + 1
    X = pd.DataFrame({"age": age, "pay": pay, "job": job, "height": height})
    X.loc[rng.random(n) < np.where(job == "smith", 0.5, 0.1), "age"] = np.nan
    X.loc[rng.random(n) < np.where(pay > 40, 0.6, 0.2), "pay"] = np.nan
    X.loc[rng.random(n) < np.where(height > 1.5, 0.3, 0.05), "job"] = None
    return X


def sketcher(epsilon, seed=0, **options):
    parts = [HistogramSketcher(n_bins=25, **options), RFFSketcher(40)]
    return SketchUnion(parts, epsilon=epsilon, noise_seed=seed, random_state=0)


def asked(X, epsilon=np.inf, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)  # of coarse bins
        return M2MEstimator(sketcher(epsilon, seed), schema=SCHEMA, **QUICK | options).fit(X)


def quietly(ask):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnswerWarning)
        return ask()


def older(rows):
    return rows["age"] > 40


CUTS = [20.0, 30.0, 50.0]
LEVELS = [0.1, 0.5, 0.9]
# Each question, and what is true of a frame.
QUESTIONS = {
    "mean": (lambda m: m.mean(), lambda X: X[NUMBERS].mean()),
    "moment": (lambda m: m.moment(2), lambda X: (X[NUMBERS] ** 2).mean()),
    "variance": (lambda m: m.variance(), lambda X: X[NUMBERS].var(ddof=0)),
    "cdf": (
        lambda m: m.cdf("pay", CUTS),
        lambda X: [(X["pay"].dropna() <= c).mean() for c in CUTS],
    ),
    "cdf of a grid": (
        lambda m: m.cdf("age", CUTS),
        lambda X: [(X["age"].dropna() <= c).mean() for c in CUTS],
    ),
    "histogram": (
        lambda m: m.histogram("pay", 5),
        lambda X: np.histogram(X["pay"].dropna(), 5, (0, 100))[0] / X["pay"].count(),
    ),
    "categories": (
        lambda m: m.histogram("job"),
        lambda X: X["job"].value_counts(normalize=True)[JOBS],
    ),
    "quantile": (
        lambda m: m.quantile("pay", LEVELS),
        lambda X: np.quantile(X["pay"].dropna(), LEVELS, method="inverted_cdf"),
    ),
    "quantile of a grid": (
        lambda m: m.quantile("age", LEVELS),
        lambda X: np.quantile(X["age"].dropna(), LEVELS, method="inverted_cdf"),
    ),
    "missing": (lambda m: m.missing_share(), lambda X: X[["age", "pay", "job"]].isna().mean()),
    "a mean of those with a value": (
        lambda m: m.estimate(lambda rows: rows["age"] ** 2),
        lambda X: (X["age"] ** 2).mean(),
    ),
    "a share of those with a value": (
        lambda m: m.estimate(lambda rows: np.where(np.isnan(rows["age"]), np.nan, older(rows))),
        lambda X: (X["age"].dropna() > 40).mean(),
    ),
    "a share of all": (lambda m: m.estimate(older), lambda X: (X["age"] > 40).mean()),
    "a count": (lambda m: m.count(older), lambda X: (X["age"] > 40).sum()),
    "a count of the missing": (
        lambda m: m.count(lambda rows: np.isnan(rows["age"])),
        lambda X: X["age"].isna().sum(),
    ),
    "a category": (
        lambda m: m.count(lambda rows: rows["job"] == "smith"),
        lambda X: (X["job"] == "smith").sum(),
    ),
    "categories that are missing": (
        lambda m: m.count(lambda rows: pd.isna(rows["job"])),
        lambda X: X["job"].isna().sum(),
    ),
}
# What no feature of one column tells is off by more than noise.
OF_PAIRS = {
    "covariance": (lambda m: m.covariance(), lambda X: X[NUMBERS].cov(ddof=0)),
    "correlation": (lambda m: m.correlation(), lambda X: None),
}
