"""Notebooks: each private estimator shows its guarantee in one line, and no private value."""

import re

import numpy as np
import pytest
from catalogue import of, of_each_class
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpsumm import (
    M2MClassifier,
    PINPClassifier,
    PrivateMMDSummarizer,
    PublicVectorizer,
    RFFSketcher,
    SummarizedEstimator,
    TDILClassifier,
)
from skdpsumm.privacy import GaussianDP, PrivacyGuarantee, PureDP
from skdpsumm.privacy._mechanisms import Unprotected

rng = np.random.default_rng(0)
X = rng.random((200, 2))
y = (X[:, 0] > 0.5).astype(int)
SMALL = {"n_select": 17, "n_components": 32, "gamma": 1.0}
BADGE = "(1, 1e-6)-DP for one row, add or remove: the rows of X"


def html(estimator):
    text = estimator._repr_html_()
    return re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)


RELEASED = of_each_class(of("sketcher", "model", "learner", interactive=False))


@pytest.mark.parametrize("name", RELEASED)
def test_badge_of_what_is_fitted_and_of_nothing_else(name):
    one = RELEASED[name]
    estimator = one.fit(one.make(), X, y, X[:, 1])
    assert html(estimator).count(BADGE) == 1
    assert "holds private data" not in html(estimator)
    assert "(1, 1e-6)-DP" not in html(clone(estimator))


def test_badge_is_in_pipelines_and_searches():
    pipeline = make_pipeline(PublicVectorizer((0, 1)), TDILClassifier(norm_bound=2.0))
    assert BADGE not in html(pipeline)
    assert html(pipeline.fit(X, y)).count(BADGE) == 1
    nested = M2MClassifier(sketcher=RFFSketcher(10, gamma=1.0), schema=(0, 1), n_synthetic=100)
    assert html(make_pipeline(PublicVectorizer((0, 1)), nested).fit(X, y)).count(BADGE) == 1
    search = GridSearchCV(TDILClassifier(norm_bound=2.0), {"norm_bound": [2.0]}, cv=2).fit(X, y)
    assert BADGE in html(search)


def test_parts_of_an_estimator_are_still_shown():
    m2m = {"sketcher": RFFSketcher(10, gamma=1.0), "schema": (0, 1), "n_synthetic": 100}
    shown = html(M2MClassifier(estimator=LogisticRegression(), **m2m))
    assert "sketcher: RFFSketcher" in shown
    assert "estimator: LogisticRegression" in shown


def test_what_holds_private_data_says_so_and_shows_none():
    summarizer = PrivateMMDSummarizer(**SMALL).fit(X, X_target=X[:40].copy(), owners=y)
    model = SummarizedEstimator(LogisticRegression(), PrivateMMDSummarizer(**SMALL))
    model.fit(X, y, X_target=X[:40].copy(), owners=y)
    for one in (summarizer, model):
        shown = html(one)
        assert "holds private data" in shown
        assert "chosen rows: no guarantee" in shown
        for private in ("sample_indices_", "owner_counts_", "owner_values_", "n_accessed_", "mmd_"):
            assert private not in shown
        assert "classes_" not in shown
        assert str(summarizer.sample_indices_[0]) + "," not in shown


def test_interactive_learners_and_sums_in_the_making_hold_private_data():
    learner = PINPClassifier(gamma=1.0).fit(X, y)
    assert f"{BADGE} and y, against everyone; holds private data" in html(learner)
    assert "answers_" not in html(learner)
    sketcher = RFFSketcher(10, gamma=1.0).partial_fit(X)
    assert "holds private data" in html(sketcher)
    assert "(1, 1e-6)-DP" not in html(sketcher)


def test_public_things_have_no_badge():
    assert "epsilon" not in html(PublicVectorizer((0, 1)).fit(X))


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


def test_simulations_say_so():
    with pytest.warns(match="noise_seed"):
        model = RFFSketcher(10, gamma=1.0, noise_seed=0).fit(X)
    assert "SIMULATED, protects nobody" in html(model)
