"""A learner that learns nothing and claims what it was asked for, for tests of searches."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skdpsumm import PrivacyGuarantee
from skdpsumm.privacy import PureDP


class Stub(ClassifierMixin, BaseEstimator):
    """Takes what a private search sets, and predicts the first of the labels."""

    def __init__(self, epsilon=1.0, delta=0.0, adjacency="add_remove", ledger=None):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.ledger = ledger

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.privacy_ = PrivacyGuarantee(PureDP(self.epsilon), self.adjacency)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])
