"""Moment to moment: statistics and models from a private sketch."""

from .asking._estimate import AnswerWarning, Estimate
from .asking._m2m import M2MEstimator
from .inferring._points import Points
from .learning._models import M2MClassifier, M2MRegressor

__all__ = ["AnswerWarning", "Estimate", "M2MClassifier", "M2MEstimator", "M2MRegressor", "Points"]
