"""Worst-case neighbours: for whom there are any. In `test_kit` they reach what is claimed."""

import pytest
from refusals import refused
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

from skdpsumm.audit import worst_case_neighbours
from skdpsumm.learners import PINPClassifier
from skdpsumm.moments import M2MEstimator
from skdpsumm.schema import PublicVectorizer
from skdpsumm.sketches import HistogramSketcher, RFFSketcher
from skdpsumm.summaries import PrivateMMDSummarizer, Propose, SummarizedEstimator


def test_what_is_not_known_is_refused():
    refused("LogisticRegression", worst_case_neighbours, LogisticRegression(), error=TypeError)
    with pytest.raises(TypeError, match="SummarizedEstimator"):
        worst_case_neighbours(
            SummarizedEstimator(
                LogisticRegression(), PrivateMMDSummarizer(random_state=0, gamma=1.0)
            )
        )
    summarizer = PrivateMMDSummarizer(random_state=0, gamma=1.0)
    refused(r"side must be .* 'both'", worst_case_neighbours, summarizer, side="both")
    with pytest.raises(ValueError, match="target_is_owners"):
        worst_case_neighbours(clone(summarizer).set_params(target_is_owners=True))
    with pytest.raises(ValueError, match="shares"):
        worst_case_neighbours(clone(summarizer).set_params(protocol=Propose(shares={"a": 1.0})))
    for careless in (
        *(PrivateMMDSummarizer(gamma=1.0), M2MEstimator((0, 1)), RFFSketcher()),
        *(RFFSketcher(gamma=1.0), PINPClassifier(gamma=1.0)),
    ):
        refused("random_state must be an int", worst_case_neighbours, careless)


# ---- an estimator of somebody else


class Counts(BaseEstimator):
    """A model of a sketch of its own, of which the audit knows no more than its face."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def preview_sketcher(self, n_features, y=None):
        return HistogramSketcher(schema=(0, 1), delta=0.0, random_state=self.random_state)


def test_the_face_that_is_asked_for_is_all_that_is_needed():
    tables = worst_case_neighbours(Counts(), n_samples=5)
    assert [table.shape for table in tables] == [(5, 1), (6, 1)]
    with pytest.raises(TypeError, match="No neighbours are known for Public"):
        worst_case_neighbours(PublicVectorizer(schema=(0, 1)))
