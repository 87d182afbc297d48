"""Notebooks: no private value is shown, and a guarantee is told in one line."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skdpsumm import (
    PINPClassifier,
    PrivateMMDSummarizer,
    SummarizedEstimator,
)
from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PureDP
from skdpsumm.privacy._mechanisms import Unprotected

rng = np.random.default_rng(0)
X = rng.random((200, 2))
y = (X[:, 0] > 0.5).astype(int)
SMALL = {"n_select": 17, "n_components": 32, "gamma": 1.0}


def html(estimator):
    text = estimator._repr_html_()
    return re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)


def test_what_holds_private_data_says_so_and_shows_none():
    summarizer = PrivateMMDSummarizer(**SMALL).fit(X, X_target=X[:40].copy(), owners=y)
    model = SummarizedEstimator(LogisticRegression(), PrivateMMDSummarizer(**SMALL))
    model.fit(X, y, X_target=X[:40].copy(), owners=y)
    learner = PINPClassifier(gamma=1.0).fit(X, y)
    for one in (summarizer, model, learner):
        shown = html(one)
        assert "holds_private_data=True" in repr(one)
        for private in ("sample_indices_", "owner_counts_", "owner_values_", "n_accessed_", "mmd_"):
            assert private not in shown
        assert "classes_" not in shown
        assert "answers_" not in shown
        assert str(summarizer.sample_indices_[0]) + "," not in shown


@pytest.mark.parametrize(
    ("guarantee", "line"),
    [
        (
            PrivacyGuarantee(PureDP(0.5), "replace_one"),
            "(0.5, 0)-DP for one row, replace: the rows of X, against everyone",
        ),
        (
            PrivacyGuarantee(Unprotected("of a test")),
            "no guarantee: the rows of X, against everyone",
        ),
        (
            PrivacyGuarantee(PureDP(0.5), simulated=True),
            "SIMULATED, protects nobody: (0.5, 0)-DP for one row, add or remove: the rows of X, "
            "against everyone",
        ),
        (
            PrivacyGuarantee(GaussianDP(0.5), idealised=True),
            "(2.254, 1e-6)-DP for one row, add or remove, idealised noise: the rows of X, "
            "against everyone",
        ),
    ],
    ids=["pure", "none", "simulated", "idealised"],
)
def test_badges(guarantee, line):
    assert guarantee.badge == line


@pytest.mark.parametrize(
    ("guarantee", "line"),
    [
        (PrivacyGuarantee(PureDP(0.5), "replace_one"), "(0.5, 0)-DP for one row, replace"),
        (
            PrivacyGuarantee(GaussianDP(0.5), unit="one group"),
            "(2.254, 1e-6)-DP for one group, add or remove",
        ),
        (PrivacyGuarantee(Unprotected("of a test")), "no guarantee"),
        (
            PrivacyGuarantee(PureDP(1.0), simulated=True),
            "SIMULATED, protects nobody: (1, 0)-DP for one row, add or remove",
        ),
        (
            PrivacyGuarantee(PureDP(1.0), idealised=True),
            "(1, 0)-DP for one row, add or remove, idealised noise",
        ),
    ],
    ids=["pure", "gaussian", "none", "simulated", "idealised"],
)
def test_the_promise_in_short(guarantee, line):
    assert guarantee.short == line
