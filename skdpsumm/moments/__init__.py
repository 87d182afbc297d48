"""Moment to moment: statistics and models from a private sketch."""

from ._classifier import M2MClassifier
from ._estimate import Estimate
from ._m2m import M2MEstimator
from ._regressor import M2MRegressor
from ._warnings import AnswerWarning

__all__ = ["AnswerWarning", "Estimate", "M2MClassifier", "M2MEstimator", "M2MRegressor"]
