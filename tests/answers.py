"""Answers made by hand, and what answers say."""

import warnings

import numpy as np
from scipy.stats import norm

from skdpsumm import AnswerWarning, Estimate

N_TABLES = 100
# What tables add to an answer, in standard deviations: as even as a Gaussian can be.
SCORES = norm.ppf(np.arange(1, N_TABLES + 1) / (N_TABLES + 1))
SCORES /= np.std(SCORES, ddof=1)


def tables_of(value, std, seed=0):
    """Return the tables of an answer: Gaussian, with just this standard deviation, independent."""
    value = np.asarray(value, dtype=float)
    scores = np.broadcast_to(SCORES, (*value.shape, N_TABLES))
    scores = np.moveaxis(np.random.default_rng(seed).permuted(scores, axis=-1), -1, 0)
    return np.concatenate([value[None], value + scores * std])


def answer_of(value, std=0.5, **options):
    """Return an answer with just this standard error."""
    return Estimate(tables_of(value, std), **options)


def said(ask, kind=AnswerWarning):
    """Return an answer, and the texts of its warnings."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        answer = ask()
    return answer, [str(w.message) for w in caught if issubclass(w.category, kind)]


def quietly(ask):
    return said(ask)[0]


def holds(answer, truth, level=0.95):
    """Return for each entry whether its interval holds the truth, but for rounding."""
    low, high = np.moveaxis(answer[...].interval(level), -1, 0)
    truth = np.asarray(truth)
    rounding = 1e-7 * (1 + np.abs(truth))
    return (low - rounding <= truth) & (truth <= high + rounding)
