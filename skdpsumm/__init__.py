"""Differentially private data summaries with scikit-learn's interface."""

from .audit import AuditResult, audit_epsilon
from .features import PublicScaler
from .moments import Estimate, M2MClassifier, M2MEstimator, M2MRegressor
from .privacy import (
    BudgetExceededError,
    PrivacyGuarantee,
    PrivacyLeakWarning,
    PrivacyLedger,
)
from .sketches import HistogramSketcher, PrivateSketch, RACESketcher, RFFSketcher, SketchUnion

__version__ = "0.1.0"

__all__ = [
    "AuditResult",
    "BudgetExceededError",
    "Estimate",
    "HistogramSketcher",
    "M2MClassifier",
    "M2MEstimator",
    "M2MRegressor",
    "PrivacyGuarantee",
    "PrivacyLeakWarning",
    "PrivacyLedger",
    "PrivateSketch",
    "PublicScaler",
    "RACESketcher",
    "RFFSketcher",
    "SketchUnion",
    "audit_epsilon",
]
